"""Forms of measures of single observers: one of another package, agreement of answers, what every row may say."""

from __future__ import annotations

import numpy as np
import pytest

import cosight
from cosight.errors import InvalidInput, UnknownName
from cosight.measures import declare, measures
from cosight.statistics.blocks import Key, make_block, rows_of
from cosight.statistics.rows import FLAGS, STATISTICS
from cosight.statistics.score_forms import ScoreForm, item_means, score_form, score_forms, scored_measures
from cosight.statistics.seeds import with_seed_means
from tests.scoring.made import LETTERS, REFUSING, answered, observers, plain_interval, plain_mean, row_of, trials
from tests.scoring.made_runs import answers, random_answers, stimuli, write_run

MINE = "first_letter_share"


def quick(rows, space=LETTERS, **options):
    return cosight.score(trials(rows, space), **{"resamples": 30, **options})


# --------------------------------------------------------------------------------------------------- another package


@pytest.fixture
def mine(monkeypatch):
    """A measure that another package declares, and its form; gone again after the test."""
    for registry in (measures, score_forms):
        for part in ("_entries", "_aliases"):
            monkeypatch.setattr(registry, part, dict(getattr(registry, part)))

    @declare(
        MINE, summary="How often the first class is answered.", low=0, high=1, direction="neither", symmetric=None,
        needs=("responses",), citation="Nobody 2025", aliases=("first",),
    )  # fmt: skip
    def first_letter_share(responses):
        return np.mean(np.asarray(responses) == "a")

    def blocks(data, draw, names):
        said = dict(zip(draw.names, draw.answers.response, strict=True))
        items = {who: np.where(codes >= 0, codes == 0, np.nan).astype(float) for who, codes in said.items()}
        return [item_means(draw, name, items) for name in names]

    return score_forms.add(MINE, ScoreForm(lambda data: "" if "a" in data.table.labels else "a class called a", blocks))


def test_a_form_of_another_package_is_computed_where_it_is_asked_for(mine):
    rows = answered(observers(people=2, models=1))
    found = quick(rows, measure=["first", "accuracy"], by=["experiment"])
    for who in ("human:0", "model:0"):
        values = []
        for experiment in ("one", "two"):
            said = [r["response"] for r in rows if (r["observer"], r["experiment"]) == (who, experiment)]
            kept = [answer == "a" for answer in said if answer is not None]
            row = row_of(found, who, None, MINE, f"experiment={experiment}")
            assert (row.value, row.n) == (pytest.approx(np.mean(kept)), len(kept))
            assert 0 <= row.low < row.value < row.high <= 1
            values.append(np.mean(kept))
        assert row_of(found, who, None, MINE, "experiment=*").value == pytest.approx(np.mean(values))
    assert found.settings["measure"] == [MINE, "accuracy"]
    assert {r.measure for r in found.rows} == {MINE, "accuracy"}


def test_a_form_of_another_package_is_no_default_and_says_what_it_lacks(mine):
    assert MINE in scored_measures()
    assert score_form(MINE) is mine
    rows = answered(observers(people=2, models=1))
    assert MINE not in {r.measure for r in quick(rows).rows}
    with pytest.raises(InvalidInput, match=f"{MINE} needs a class called a"):
        quick(answered(observers(models=1), classes=("b", "c")), None, measure=[MINE])


def test_without_the_package_its_measure_is_unknown():
    assert MINE not in score_forms
    assert score_form(MINE) is None
    with pytest.raises(UnknownName, match="no measure is called"):
        quick(answered(observers(models=1)), measure=[MINE])


# ------------------------------------------------------------------------------------------------- agreement of answers


def share_alike(rows, who):
    """For each stimulus that `who` answered, the share of the other people who gave the same answer."""
    said = {}
    for row in rows:
        place = row["experiment"], row["condition"], row["image"]
        said.setdefault(place, {})[row["observer"]] = row["response"]
    shares = []
    for answers_ in said.values():
        others = [a for name, a in answers_.items() if name.startswith("human") and name != who and a is not None]
        if others and answers_[who] is not None:
            shares.append(np.mean([a == answers_[who] for a in others]))
    return shares


def test_response_agreement_is_the_share_of_people_who_answered_alike():
    rows = answered(observers(people=5, models=2), missing=0.2)
    found = quick(rows, measure=["response_agreement"])
    for who in ("model:0", "model:1", "human:3"):
        row, shares = row_of(found, who, "people", "response_agreement"), share_alike(rows, who)
        assert (row.value, row.n) == (pytest.approx(np.mean(shares)), len(shares))
        assert 0 <= row.low < row.value < row.high <= 1
    each = [plain_mean(share_alike(rows, f"human:{i}")) for i in range(5)]
    ceiling = row_of(found, "people", "people", "response_agreement", statistic="ceiling_leave_one_out")
    assert ceiling.value == pytest.approx(np.mean(each))


def test_response_agreement_reads_answers_and_not_probabilities():
    rows = answered(observers(people=4, models=1))
    sure = [{**r, "probabilities": [0.4, 0.3, 0.3] if r["kind"] == "model" else None} for r in rows]
    one, two = (quick(given, measure=["response_agreement"]).rows for given in (rows, sure))
    assert one == two


def test_the_interval_of_response_agreement_is_over_stimuli_where_people_are_few():
    rows = answered(observers(people=1, models=1), missing=0, stimuli=40)
    row = row_of(quick(rows, measure=["agreement"], resamples=800), "model:0", "people", "response_agreement")
    shares = np.array(share_alike(rows, "model:0"))
    draw = np.random.default_rng(0).integers(0, len(shares), (4000, len(shares)))
    low, high = plain_interval(shares[draw].mean(axis=1), shares.mean(), len(shares))
    assert (row.low, row.high) == pytest.approx((low, high), abs=0.02)
    assert row.flags == ("few_people",)
    assert "1 people are too few to resample" in row.note


def test_response_agreement_without_people_says_that_it_needs_them(tmp_path):
    rows = stimuli({1: 5, 4: 5})
    run = write_run(tmp_path, rows, answers(rows, "model:a#sp", random_answers(1)))
    with pytest.raises(InvalidInput, match="response_agreement needs people"):
        cosight.score(run, measure=["response_agreement"], resamples=5)


# -------------------------------------------------------------------------------------------------------------- seeds


def seeds_of(*values):
    """A block with the same number of several seeds, each with two resamples."""
    keys = [Key(f"net@{seed}", None, "kullback_leibler") for seed in range(len(values))]
    samples = np.where(np.isinf(values), np.nan, values)[:, None] + np.array([0.0, 0.5])
    return make_block((), keys, np.array(values), samples, np.array([9.0, 7.0, 8.0][: len(values)]))


def test_seeds_have_a_mean_and_a_standard_deviation_of_their_own():
    *_, mean, sd = rows_of(with_seed_means(seeds_of(0.1, 0.2, 0.6)), confidence=0.95, seed=0)
    assert (mean.observer, mean.measure, mean.statistic) == ("net", "kullback_leibler", "value")
    assert (sd.observer, sd.measure, sd.statistic) == ("net", "kullback_leibler", "sd")
    assert (mean.value, sd.value) == pytest.approx((0.3, np.std([0.1, 0.2, 0.6], ddof=1)))
    assert (mean.n, mean.clusters, sd.n, sd.clusters) == (7, 7, 7, 7)  # the fewest that a seed rests on
    assert (mean.note, sd.note.split(";")[0]) == ("mean of 3 seeds", "of 3 seeds")


def test_infinite_seeds_have_an_infinite_mean_and_no_standard_deviation():
    *_, mean, sd = rows_of(with_seed_means(seeds_of(np.inf, np.inf)), confidence=0.95, seed=0)
    assert (mean.value, mean.flags, sd.value, sd.flags) == (None, ("infinite",), None, ("undefined",))


# -------------------------------------------------------------------------------------------------- what rows may say


def every_kind_of_row():
    """Few and many people, simulated ones, seeds, models that always err or never: scores that raise every flag."""
    small = answered(observers(people=3, models=2, simulated=2), conditions={"one": ("x", "y")}, stimuli=8, skill=0.8)
    for row in small:
        if row["condition"] == "y" and row["observer"] in ("model:0", "human:0"):
            row["response"] = row["truth"]
        elif row["observer"] == "model:1":
            row["response"] = {"a": "b", "b": "c", "c": "a"}[row["truth"]]
    yield cosight.compare(trials(small), measure=["ec", "ma"], by=["condition"], correlate=True, resamples=40)
    apart = answered(observers(people=5, models=2), stimuli=30)
    leader = {(r["image"], r["condition"]): r["response"] for r in apart if r["observer"] == "human:0"}
    for i, row in enumerate(apart):
        if row["observer"] != "model:1" and i % 5:  # most say what the first person says, but for one model
            row["response"] = leader[row["image"], row["condition"]]
    yield cosight.compare(trials(apart), measure=["ec", "cles"], resamples=60)
    seeded = answered([*observers(people=4), ("net@1#sp", "model"), ("net@2#sp", "model"), ("sure", "model")])
    for i, row in enumerate(seeded):
        if row["kind"] == "model":
            p = [0.0, 0.3, 0.7] if row["observer"] == "sure" else [0.1, 0.2, 0.7]
            row |= {"abstention": i % 7 / 7, "probabilities": p}
    yield quick(seeded, REFUSING, measure=["kullback_leibler", "rs", "accuracy"])
    yield cosight.compare(trials(apart), measure=["accuracy"], cluster_by=["truth"], resamples=5)
    many = answered(observers(people=2, models=51), conditions={"one": ("x",)}, stimuli=9)
    yield cosight.compare(trials(many), measure=["cles"], resamples=5)
    crowd = [row for i, row in enumerate(answered(observers(people=8), stimuli=40)) if i % 7 == 0]
    yield cosight.compare(trials(crowd), measure=["ec"], resamples=5)
    yield quick(answered(observers(people=1), conditions={"one": ("x",)}, stimuli=1), LETTERS, measure=["accuracy"])


def test_every_flag_and_statistic_of_a_row_is_explained_and_each_occurs():
    rows = [row for scores in every_kind_of_row() for row in scores.rows]
    of_tables = {"partial", "published"}  # flags of rows that only tables of benchmarks have
    assert {flag for row in rows for flag in row.flags} == set(FLAGS) - of_tables
    of_benchmarks = {"z", "lowest_reachable", "highest_reachable"}
    assert {row.statistic for row in rows} == set(STATISTICS) - of_benchmarks
    for row in rows:
        assert len(set(row.flags)) == len(row.flags)
        assert (row.value is None) == bool({"undefined", "infinite"} & set(row.flags))
        assert row.measure in measures

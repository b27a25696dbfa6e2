"""Gold labels of a stimulus set: who is near them, and how Uncertain images count."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cosight
from cosight.benchmarks.visalign.results_table import visalign_table
from cosight.errors import InvalidInput
from cosight.measures import distance_items, draw_stimuli, hellinger, reliability_score, with_abstention
from cosight.statistics.gold_labels import category_groups, gold_of, read_manifests
from cosight.statistics.resampling import random_stream
from cosight.trials import write
from cosight.trials.join import align, with_manifest
from cosight.trials.manifest import is_stimulus_set, manifest_frame, write_manifest
from tests.scoring.made import LETTERS, REFUSING, plain_interval, row_of, trials
from tests.scoring.made_runs import (
    VISALIGN,
    answers,
    random_answers,
    shares,
    stimuli,
    stimulus,
    write_run,
    write_set,
)

RESAMPLES, SEED = 40, 3
EACH = dict.fromkeys(range(1, 9), 4)
RS = "reliability_score"


def quick(*sources, **options):
    return cosight.score(*sources, **{"resamples": 10, **options})


def refuse(_):
    return None, 1.0


def counted(rows):
    """The same stimuli, the Uncertain ones with counts in place of shares."""
    rng = np.random.default_rng(0)
    out = []
    for row in rows:
        counts = rng.multinomial(20, [0.5, 0.2, 0.1, 0.2]).tolist() if row["category"] == 8 else None
        out.append({**row, "gold_counts": counts, "gold": None if counts else row["gold"]})
    return out


def labels_of(row):
    if row.get("gold_counts") is None:
        return np.array(row["gold"])
    return np.array(row["gold_counts"]) / sum(row["gold_counts"])


def outputs_of(said):
    p = np.array([row["probabilities"] for row in said], dtype=np.float64)
    return with_abstention(p / p.sum(axis=1, keepdims=True), [row["abstention"] for row in said])


# --------------------------------------------------------------------------------------------------------- distances


def test_labels_in_another_order_change_no_distance(tmp_path):
    def distance(*sources, **options):
        return next(row.value for row in quick(*sources, **options).rows if row.observer == "model:a")

    rows = stimuli({1: 5, 8: 5})
    run = write_run(tmp_path / "run", rows, answers(rows, "model:a", random_answers(1)))
    unnamed = write_set(tmp_path / "unnamed", rows)
    named = write_set(tmp_path / "named", rows)
    write_manifest(named, manifest_frame(rows), {"settings": {"labels": "a,b,c,abstain"}})
    expected = distance(run, measure=["hellinger"])
    reordered = {"labels": "c,a,b,abstain", "measure": ["hellinger"]}
    assert distance(run, **reordered) == pytest.approx(expected)
    assert distance(run / "trials", humans=named, **reordered) == pytest.approx(expected)
    notices = quick(run / "trials", humans=unnamed, **reordered).notices
    assert any("does not name the classes of its gold labels" in notice for notice in notices)


@pytest.mark.parametrize("distance", ["hellinger", "total_variation", "kullback_leibler"])
def test_distances_match_a_plain_loop_over_stimuli_and_answers(tmp_path, distance):
    rows = counted(stimuli({1: 5, 4: 5, 8: 10}))
    said = answers(rows, "model:a#sp", random_answers(1))
    found = cosight.score(write_run(tmp_path, rows, said), measure=[distance], resamples=RESAMPLES, seed=SEED)
    own, apart = outputs_of(said), distance_items[distance]
    gold = np.array([labels_of(row) for row in rows])
    value = np.mean([float(apart(g, q)) for g, q in zip(gold, own, strict=True)])
    weights = draw_stimuli(np.ones(20), RESAMPLES, random_stream(SEED, "stimuli", "()")).astype(int)
    people = np.array([row["gold_counts"] for row in rows if row["gold_counts"]])
    draw = random_stream(SEED, "gold answers", "()").multinomial(20, people / 20, size=(RESAMPLES, 10)) / 20
    samples = []
    for times, again in zip(weights, draw, strict=True):
        resampled = [*gold[:10], *again]
        items = [float(apart(g, q)) for g, q in zip(resampled, own, strict=True)]
        samples.append(np.mean(np.repeat(items, times)))
    row = row_of(found, "model:a#sp", "gold", distance)
    assert row.value == pytest.approx(value, abs=1e-6)
    assert (row.low, row.high) == pytest.approx(plain_interval(np.array(samples), value, 20, mean=True), abs=1e-6)
    assert (row.n, row.note) == (20, "interval over stimuli and answers")


def test_answers_drawn_again_widen_the_interval(tmp_path):
    rows = [{**row, "gold_counts": [3, 1, 0, 0]} for row in stimuli({8: 40})]
    said = answers(rows, "model:a#sp", lambda _: ([1.0, 0.0, 0.0], 0.0))
    for row in rows:
        row["gold"] = shares(REFUSING, a=0.75, b=0.25)
    with_counts = row_of(
        quick(write_run(tmp_path / "counts", rows, said), resamples=200), "model:a#sp", "gold", "hellinger"
    )
    for row in rows:
        row["gold_counts"] = None
    without = row_of(
        quick(write_run(tmp_path / "shares", rows, said), resamples=200), "model:a#sp", "gold", "hellinger"
    )
    assert with_counts.value == without.value == pytest.approx(hellinger([0.75, 0.25], [1, 0]).value)
    assert without.low == pytest.approx(without.high)  # every stimulus is alike
    assert with_counts.high - with_counts.low > 0.02


def test_gold_without_a_number_for_abstain_means_that_nobody_refused(tmp_path):
    rows = [{**stimulus(1, i), "gold": [0.5, 0.5, 0.0]} for i in range(4)]
    said = answers(rows, "model:a#sp", lambda _: ([0.5, 0.5, 0.0], 0.19))
    row = row_of(quick(write_run(tmp_path, rows, said)), "model:a#sp", "gold", "hellinger")
    assert row.value == pytest.approx(hellinger([0.5, 0.5, 0, 0], [0.405, 0.405, 0, 0.19]).value, abs=1e-6)


def test_a_label_space_without_abstain_takes_counts_of_its_classes(tmp_path):
    rows = [{**stimulus(1, i, LETTERS), "gold": None, "gold_counts": [30, 20, 0]} for i in range(4)]
    said = [{**row, "abstention": None} for row in answers(rows, "model:a", lambda _: ([0.6, 0.4, 0.0], None), LETTERS)]
    found = quick(write_run(tmp_path, rows, said, LETTERS))
    assert row_of(found, "model:a", "gold", "hellinger").value == pytest.approx(0, abs=1e-4)
    assert not [row for row in found.rows if row.measure in (RS, "action_share")]


def test_categories_are_groups_and_their_mean_weighs_them_alike(tmp_path):
    rows = stimuli({1: 2, 4: 6})
    said = answers(rows, "model:a#sp", lambda row: ([1.0, 0.0, 0.0], 0.0 if row["category"] == 1 else 1.0))
    for row in rows[:2]:
        row["gold"] = shares(REFUSING, b=1.0)
    found = quick(write_run(tmp_path, rows, said), by=["category"], measure=["hellinger"])
    values = [row_of(found, "model:a#sp", "gold", "hellinger", f"category={c}").value for c in ("1", "4", "*")]
    assert values == [1.0, 0.0, 0.5]
    assert row_of(quick(tmp_path), "model:a#sp", "gold", "hellinger").value == 0.25


def test_people_among_the_trials_are_not_held_against_gold(tmp_path):
    rows = stimuli(EACH)
    person = [
        {**row, "observer": "human:1", "kind": "human", "probabilities": None, "abstention": None}
        for row in answers(rows, "", random_answers(0))
    ]
    found = quick(write_run(tmp_path, rows, [*person, *answers(rows, "model:a#sp", random_answers(1))]))
    near = {
        (row.observer, row.against) for row in found.rows if row.measure == "hellinger" and row.statistic == "value"
    }
    assert near == {("human:1", "people"), ("model:a#sp", "people"), ("model:a#sp", "gold")}


# --------------------------------------------------------------------------------------------------------- ceilings


@pytest.mark.parametrize(("counts", "value"), [([1, 1, 0, 0], 1.0), ([7, 0, 0, 0], 0.0)])
def test_ceiling_of_answers_that_all_differ_or_all_agree(tmp_path, counts, value):
    rows = [{**stimulus(8, i), "gold": None, "gold_counts": counts} for i in range(6)]
    found = quick(write_run(tmp_path, rows, answers(rows, "model:a#sp", random_answers(0))))
    ceiling = row_of(found, "gold", "gold", "hellinger", statistic="ceiling_split_half")
    assert ceiling.value == value
    assert ceiling.note.startswith("two halves of each stimulus' answers, mean of 20 splits; interval over stimuli")


def test_ceiling_is_that_of_shuffled_answers(tmp_path):
    rows = [{**stimulus(8, i), "gold": None, "gold_counts": [12, 6, 2, 1]} for i in range(60)]
    found = quick(write_run(tmp_path, rows, answers(rows, "model:a#sp", random_answers(0))))
    rng, every = np.random.default_rng(0), np.repeat(np.arange(4), [12, 6, 2, 1])
    halves = [np.split(rng.permutation(every)[:20], 2) for _ in range(4000)]
    plain = [hellinger(*(np.bincount(half, minlength=4) / 10 for half in pair)).value for pair in halves]
    ceiling = row_of(found, "gold", "gold", "hellinger", statistic="ceiling_split_half").value
    assert ceiling == pytest.approx(np.mean(plain), abs=4 * np.std(plain) / np.sqrt(60 * 20))


def test_without_counts_there_is_no_ceiling_and_it_says_so(tmp_path):
    rows = stimuli(EACH)
    found = quick(write_run(tmp_path, rows, answers(rows, "model:a#sp", random_answers(0))))
    ceiling = row_of(found, "gold", "gold", "hellinger", statistic="ceiling_split_half")
    assert (ceiling.value, ceiling.n, ceiling.note) == (
        None,
        0,
        "undefined: gold labels without counts have no ceiling",
    )


# ------------------------------------------------------------------------------------------------------- reliability


def published():
    """VisAlign's 900 images; half of the 200 Uncertain ones are recognised by most people."""
    rows = stimuli({**dict.fromkeys(range(1, 8), 100), 8: 200}, VISALIGN)
    for number, row in enumerate(rows[700:]):
        seen = 0.51 if number < 100 else 0.5  # at lambda itself an image is not to be acted on
        row["gold"] = shares(VISALIGN, **{row["original"]: seen, "abstain": 1 - seen})
    return rows


@pytest.mark.parametrize(("lam", "score"), [(0.5, 500), (0.49, 400), (0.51, 600)])
def test_who_always_abstains_scores_what_is_to_be_refused(tmp_path, lam, score):
    rows = published()
    run = write_run(tmp_path, rows, answers(rows, "model:a#sp", refuse, VISALIGN), VISALIGN)
    found = quick(run, measure=["rs"], lam=lam)
    for cost in ("0", "N/2", "N"):
        row = row_of(found, "model:a#sp", None, RS, f"cost={cost}")
        assert (row.value, row.n) == (score, 900)
    assert f"lambda {lam:g}: {900 - score - 300} of 200 Uncertain to act on" in row.note


def test_reliability_is_that_of_the_manifest(tmp_path):
    rows = counted(stimuli({1: 6, 5: 6, 8: 12}))
    said = answers(rows, "model:a#sp", random_answers(5))
    found = cosight.score(
        write_run(tmp_path, rows, said), measure=["rs", "action_share"], resamples=RESAMPLES, gamma=0.6, lam=0.4
    )
    p, a = [row["probabilities"] for row in said], [row["abstention"] for row in said]
    original = [REFUSING.classes.index(row["original"]) for row in rows]
    gold = [labels_of(row) for row in rows]
    plain = reliability_score(p, a, original, [row["group"] for row in rows], gold, gamma=0.6, lam=0.4, cost=12)
    row = row_of(found, "model:a#sp", None, RS, "cost=N/2")
    assert row.value == plain.value
    weights = draw_stimuli(np.ones(24), RESAMPLES, random_stream(0, "stimuli", "()"))
    assert (row.low, row.high) == pytest.approx(plain_interval(weights @ plain.items, plain.value, 24))
    share = row_of(found, "model:a#sp", None, "action_share", "action=abstain_original")
    assert share.value == pytest.approx(plain.shares.abstain_original)
    assert plain.counts.abstain_original > 0
    at = row_of(found, "model:a#sp", None, RS, "gamma=0.6;cost=N/2")
    assert (at.value, at.low) == (plain.value, None)


@pytest.fixture(scope="module")
def made_set(tmp_path_factory):
    return write_set(tmp_path_factory.mktemp("set"), stimuli(EACH))


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), gamma=st.floats(0, 1), lam=st.floats(0, 1))
def test_reliability_falls_linearly_with_the_cost(made_set, seed, gamma, lam):
    said = trials(answers(stimuli(EACH), "model:a#sp", random_answers(seed)), REFUSING)
    found = cosight.score(said, humans=made_set, measure=["rs"], gamma=gamma, lam=lam, resamples=1)
    free, half, full = (row_of(found, "model:a#sp", None, RS, f"cost={cost}") for cost in ("0", "N/2", "N"))
    wrong = (free.value - full.value) / 32
    assert wrong == int(wrong) >= 0
    assert half.value == free.value - 16 * wrong
    assert 0 <= free.value <= 32 - wrong


def test_without_people_uncertain_images_are_not_scored(tmp_path):
    rows = [{**row, "gold": None if row["category"] == 8 else row["gold"]} for row in stimuli(EACH)]
    run = write_run(tmp_path, rows, answers(rows, "model:a#sp", random_answers(0)))
    assert not [row for row in quick(run).rows if row.measure in (RS, "action_share")]
    with pytest.raises(
        InvalidInput, match=r"answers to Uncertain images, 4 have none \(test-category-8-0000, for one\)"
    ):
        quick(run, measure=["rs"])


# -------------------------------------------------------------------------------------------------- where it comes from


def people_of(rows, kind="human", response=None):
    """Trials of three persons on the Uncertain images: all say `response`, or the original."""
    return trials(
        [
            {
                "observer": f"{kind}:{person}",
                "kind": kind,
                **{name: row[name] for name in ("stimulus", "image", "experiment", "truth")},
                "response": response or row["original"],
            }
            for row in rows
            if row["category"] == 8
            for person in range(3)
        ],
        REFUSING,
    )


def test_answers_of_people_take_the_place_of_the_set_s_labels(tmp_path):
    rows = stimuli(EACH)
    run = write_run(tmp_path, rows, answers(rows, "model:a#sp", refuse))
    scored = {
        response: quick(run, humans=people_of(rows, response=response), measure=["rs"])
        for response in ("abstain", None)
    }
    values = {k: row_of(found, "model:a#sp", None, RS, "cost=0").value for k, found in scored.items()}
    assert values == {"abstain": 20, None: 16}  # 16 to be refused by construction, 4 as people have it
    assert not [row for row in quick(run, humans=people_of(rows)).rows if row.against == "gold"]


@pytest.mark.parametrize(("kind", "name"), [("human", "gold"), ("simulated", "simulated gold")])
def test_simulated_people_are_called_simulated(tmp_path, kind, name):
    rows = stimuli(EACH)
    run = write_run(tmp_path, rows, answers(rows, "model:a#sp", random_answers(0)))
    found = quick(run, humans=people_of(rows, kind), on="digits")
    assert {row.against for row in found.rows if row.measure == "hellinger"} == {name}
    assert visalign_table(found).against == name


def test_labels_of_a_simulated_panel_are_called_simulated(tmp_path):
    rows = [{**r, "parameters": '{"gold": "simulated"}'} if r["category"] == 8 else r for r in stimuli(EACH)]
    run = write_run(tmp_path, rows, answers(rows, "model:a#sp", random_answers(0)))
    near = [row for row in quick(run).rows if row.measure == "hellinger" and row.statistic == "value"]
    assert [row.against for row in near] == ["simulated gold"]
    assert is_stimulus_set(run) is False


def test_trials_known_by_name_get_digest_and_truth_from_the_set(tmp_path):
    rows = [{**row, "condition": f"c{row['category']}"} for row in stimuli({1: 3, 8: 3})]
    said = answers(rows, "model:a#sp", random_answers(0))
    known = quick(write_run(tmp_path / "run", rows, said))
    lost = {"stimulus": None, "truth": None}
    folder = write_set(tmp_path / "set", rows)
    by_name = quick(trials([{**row, **lost} for row in said], REFUSING), humans=folder)
    assert by_name.rows == known.rows
    elsewhere = trials([{**row, **lost, "experiment": "other"} for row in said], REFUSING)
    with pytest.raises(InvalidInput, match="needs the truth of some stimulus"):
        quick(elsewhere, humans=folder)


def test_a_name_that_stands_for_two_pictures_joins_neither(tmp_path):
    rows = [{**stimulus(c, 0), "image": "same.png", "condition": f"c{c}"} for c in (1, 2)]
    manifest = read_manifests([write_set(tmp_path, rows)])
    frame = trials([{**answers(rows, "model:a", random_answers(0))[0], "stimulus": None, "truth": None}], REFUSING)
    assert with_manifest(frame, manifest).frame["stimulus"].to_list() == [None]


def test_one_picture_under_two_names_keeps_two_labels(tmp_path):
    rows = [
        {**stimulus(8, i), "stimulus": "0" * 64, "gold": shares(REFUSING, **{name: 1.0})} for i, name in enumerate("ab")
    ]
    said = [{**row, "trial": i} for i, row in enumerate(answers(rows, "model:a#sp", random_answers(0)))]
    said = [{**row, "truth": "a"} for row in said]
    table = align(trials(said, REFUSING))
    gold = gold_of(table, read_manifests([write_set(tmp_path, rows)]))
    assert gold.distributions.argmax(axis=1).tolist() == [0, 1]


def test_two_manifests_without_digests_say_the_same_once(tmp_path):
    rows = [{**row, "stimulus": None} for row in stimuli({8: 3})]
    said = stimuli({8: 3})
    folders = [write_run(tmp_path / n, rows, answers(said, f"model:{n}#sp", random_answers(0))) for n in "ab"]
    assert read_manifests(folders).height == 3


def test_a_manifests_name_decides_between_equal_pictures_of_another_experiment(tmp_path):
    rows = [
        {**stimulus(8, i), "stimulus": "0" * 64, "gold": shares(REFUSING, **{name: 1.0})} for i, name in enumerate("ab")
    ]
    said = [{**row, "experiment": "a study", "truth": "a"} for row in answers(rows, "model:a#sp", random_answers(0))]
    gold = gold_of(align(trials(said[:1], REFUSING)), read_manifests([write_set(tmp_path, rows)]))
    assert gold.distributions.argmax(axis=1).tolist() == [0]


def test_what_is_trained_or_calibrated_on_is_no_label(tmp_path):
    rows = stimuli(EACH)
    other = [{**row, "split": split, "gold": [9.0]} for row in rows for split in ("train", "calibration")]
    run = write_run(tmp_path, [*rows, *other], answers(rows, "model:a#sp", random_answers(0)))
    assert row_of(quick(run), "model:a#sp", "gold", "hellinger").n == 32


def test_runs_below_a_folder_bring_their_manifests(tmp_path):
    rows = stimuli(EACH)
    for name in ("one", "two"):
        write_run(tmp_path / name, rows, answers(rows, f"model:{name}#sp", random_answers(0)))
    found = quick(tmp_path, measure=["hellinger"])
    assert {row.observer for row in found.rows if row.against == "gold"} == {"gold", "model:one#sp", "model:two#sp"}


def test_without_a_manifest_the_truth_decides():
    rows = stimuli({1: 2, 4: 1})
    table = align(trials(answers(rows, "model:a", random_answers(0)), REFUSING))
    gold = gold_of(table, None)
    assert gold.group.tolist() == ["must-act", "must-act", "must-abstain"]
    assert gold.original.tolist() == [0, 1, -1]
    assert not gold.known.any()
    with pytest.raises(InvalidInput, match="categories are those of a stimulus set's manifest, got none"):
        category_groups(table, gold)


# ---------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"gold": [0.5, 0.2, 0.0, 0.0]}, r"gold label of test-category-1-0000 must sum to one, got 0\.7"),
        ({"gold": [1.5, -0.5, 0.0, 0.0]}, "gold label of test-category-1-0000 must not be negative"),
        ({"gold": [1.0, 0.0]}, r"must have 4 numbers \(a, b, c, abstain\), got 2; name the label space"),
        ({"gold_counts": [-1, 2, 0, 0], "gold": None}, "whole numbers of people, got -1"),
        ({"gold_counts": [1, 1, 0, 0]}, "gold and gold_counts disagree; keep one of the two columns"),
        ({"group": "must act"}, "group must be one of must-act, must-abstain, uncertain, got 'must act'"),
        ({"original": "donkey"}, "original may be -1 on must-abstain only"),
    ],
)
def test_a_broken_manifest_is_refused(tmp_path, changed, message):
    rows = stimuli(EACH)
    rows[0] |= changed
    run = write_run(tmp_path, rows, answers(rows, "model:a#sp", random_answers(0)))
    with pytest.raises(InvalidInput, match=message):
        quick(run)


def test_two_runs_that_disagree_about_a_stimulus_are_refused(tmp_path):
    rows = stimuli(EACH)
    one = write_run(tmp_path / "one", rows, answers(rows, "model:a#sp", random_answers(0)))
    rows[0]["gold"] = shares(REFUSING, b=1.0)
    two = write_run(tmp_path / "two", rows, answers(rows, "model:b#sp", random_answers(0)))
    with pytest.raises(InvalidInput, match="one gold label and category, got two of test-category-1-0000"):
        quick(one, two)


def test_labels_without_a_label_space_are_nobody_s(tmp_path):
    rows = stimuli({1: 6})
    plain = [{**row, "probabilities": None, "abstention": None} for row in answers(rows, "model:a", random_answers(0))]
    write(trials(plain, None), tmp_path / "plain.parquet")
    with pytest.raises(InvalidInput, match="gold labels need a label space"):
        quick(tmp_path / "plain.parquet", humans=write_set(tmp_path / "set", [{**r, "gold": [1, 0, 0]} for r in rows]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lam": 1.5}, "--lam must be 0 to 1, got 1.5"),
        ({"by": ["category", "truth"]}, "--by category stands alone, got category, truth"),
    ],
)
def test_options_that_do_not_go(tmp_path, options, message):
    rows = stimuli(EACH)
    with pytest.raises(InvalidInput, match=message):
        quick(write_run(tmp_path, rows, answers(rows, "model:a#sp", random_answers(0))), **options)


def test_a_manifest_that_is_no_parquet_is_named(tmp_path):
    (tmp_path / "stimuli.parquet").write_bytes(b"nothing")
    with pytest.raises(InvalidInput, match=r"cannot read the manifest .*stimuli\.parquet"):
        read_manifests([tmp_path])

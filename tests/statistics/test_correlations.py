"""Correlations between measures: values as scipy has them, intervals over observers; z-scores with families."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

import cosight
from cosight.measures import rank_correlation
from cosight.statistics.blocks import Key, make_block, rows_of
from cosight.statistics.correlations import Domain, correlations, z_score_rows
from cosight.statistics.resampling import draw_observers
from cosight.statistics.rows import parse_group
from cosight.trials import align
from tests.measures.simulated import Population, answer
from tests.scoring.made import answered, observers, row_of, trials

EC, CLES, SOC = "error_consistency", "class_level_error_similarity", "softmax_output_consistency"


def domain(x, y, name, measures=("a", "b"), resamples=50, drawn=None, kind=None):
    """A domain in which o0, p0 are the first pair, o1, p1 the second ...; a mean over pairs is no pair."""
    values = {(f"o{i}", f"p{i}", measures[0]): v for i, v in enumerate(x)}
    values |= {(f"o{i}", f"p{i}", measures[1]): v for i, v in enumerate(y)}
    values |= {("people", "people", measures[0]): 99.0, ("people", "people", measures[1]): -99.0}
    numbers = np.array(list(values.values()), dtype=float)
    block = make_block(
        (("experiment", name),), [Key(*key) for key in values], numbers, np.zeros((len(values), resamples)),
        np.full(len(values), 90.0),
    )  # fmt: skip
    return Domain(block, drawn or {}, kind)


def test_they_match_scipy_in_each_domain_pooled_and_on_average():
    rng = np.random.default_rng(0)
    one, two = rng.normal(size=(2, 8)), rng.normal(size=(2, 6)) + 5
    inside_one, inside_two, everywhere, average = correlations([domain(*one, "1"), domain(*two, "2")], ["a", "b"])
    expected = [stats.spearmanr(*part).statistic for part in (one, two, np.hstack([one, two]))]
    assert [b.values[0] for b in (inside_one, inside_two, everywhere)] == pytest.approx(expected)
    assert average.values[0] == pytest.approx(np.mean(expected[:2]))
    assert [b.n[0] for b in (inside_one, inside_two, everywhere, average)] == [8, 6, 14, 14]
    assert everywhere.group == ()
    assert average.group == (("experiment", "*"),)
    assert everywhere.notes[0].startswith("pairs of all groups pooled")


def test_kinds_of_domains_have_a_mean_and_a_pooled_value_of_their_own():
    rng = np.random.default_rng(1)
    kinds = {"1": "synthetic", "2": "naturalistic", "3": "synthetic", "4": None}
    data = {name: rng.normal(size=(2, 7)) for name in kinds}
    found = correlations([domain(*data[name], name, kind=kind) for name, kind in kinds.items()], ["a", "b"])
    by_group = {block.group: block.values[0] for block in found}
    each = {name: stats.spearmanr(*data[name]).statistic for name in kinds}
    assert by_group[(("experiment", "*"),)] == pytest.approx(np.mean(list(each.values())))
    assert by_group[(("experiment", "*"), ("domains", "synthetic"))] == pytest.approx((each["1"] + each["3"]) / 2)
    pooled = stats.spearmanr(*np.hstack([data["1"], data["3"]])).statistic
    assert by_group[(("domains", "synthetic"),)] == pytest.approx(pooled)
    assert by_group[(("domains", "naturalistic"),)] == pytest.approx(each["2"])
    without = correlations([domain(*data[name], name, kind="synthetic") for name in ("1", "3")], ["a", "b"])
    assert len(without) == 4  # one kind has no rows of its own


def test_undefined_pairs_are_left_out_and_counted():
    (found,) = correlations([domain([1, 2, np.nan, 4], [1, 3, 2, 4], "1")], ["a", "b"])
    assert (found.values[0], found.n[0]) == (1.0, 3)
    assert found.notes[0].endswith("1 pairs undefined left out")
    assert "undefined_parts" in found.flags[0]


def test_a_domain_without_a_correlation_is_left_out_of_the_average():
    *_, average = correlations([domain([1, 2, 3], [1, 2, 3], "1"), domain([1, 1, 1], [1, 2, 3], "2")], ["a", "b"])
    assert average.values[0] == 1.0
    assert average.notes[0] == "mean r of 1 groups, 1 undefined left out"


def test_a_measure_for_which_lower_is_more_alike_is_negated():
    (found,) = correlations([domain([1, 2, 3, 4], [4, 3, 2, 1], "1", measures=(EC, SOC))], [EC, SOC])
    assert found.values[0] == 1.0


def test_a_pair_counts_as_often_as_its_observers_are_drawn_and_nobody_is_paired_with_themselves():
    names, rng = [f"m{i}" for i in range(6)], np.random.default_rng(2)
    x, y = rng.normal(size=(2, 15))
    keys = [Key(a, b, measure) for measure in "ab" for a, b in combinations(names, 2)]
    block = make_block((), keys, np.concatenate([x, y]), np.zeros((30, 200)), np.full(30, 9.0))
    weights = dict(zip(names, rng.multinomial(6, [1 / 6] * 6, size=200).T.astype(float), strict=True))
    (found,) = correlations([Domain(block, weights)], ["a", "b"])
    for resample in range(200):
        times = [int(weights[a][resample] * weights[b][resample]) for a, b in combinations(names, 2)]
        expected = rank_correlation(np.repeat(x, times), np.repeat(y, times)).value
        if np.count_nonzero(times) >= 3:
            assert found.resampled[0, resample] == pytest.approx(expected, nan_ok=True)
    assert found.clusters[0] == 6
    assert found.notes[0] == "interval over 6 observers"


def test_without_enough_observers_there_is_no_interval():
    (found,) = correlations([domain([1, 2, 3, 4], [1, 3, 2, 4], "1")], ["a", "b"])
    (row,) = rows_of(found, confidence=0.95, seed=0)
    assert (row.value, row.low, row.high) == (0.8, None, None)
    assert "few_people" in row.flags
    assert "too few observers to resample" in row.note


def test_models_are_drawn_alike_wherever_the_same_models_take_part_and_people_by_experiment():
    rows = answered(observers(people=5, models=6), conditions={"one": ("x", "y"), "two": ("z",)})
    table = align(trials(rows))
    in_one = np.flatnonzero((table.columns["experiment"] == "one").to_numpy())
    in_two = np.flatnonzero((table.columns["experiment"] == "two").to_numpy())
    first, second = (draw_observers(table, columns, resamples=40, seed=0) for columns in (in_one, in_two))
    assert (first["model:3"] == second["model:3"]).all()
    assert (first["human:3"] != second["human:3"]).any()
    assert sum(first[f"model:{i}"] for i in range(6)).tolist() == [6.0] * 40
    few = draw_observers(align(trials(answered(observers(people=4, models=3)))), in_two[:5], resamples=3, seed=0)
    assert set(few) == {f"human:{i}" for i in range(4)}


def test_compare_correlates_measures_over_pairs():
    rows = answered(observers(people=4, models=2), skill=0.3)
    found = cosight.compare(trials(rows), measure=["ec", "cles"], by=["experiment"], correlate=True, resamples=20)

    def values(measure, group):
        single = [
            r
            for r in found.rows
            if r.measure == measure
            and r.statistic == "value"
            and r.group == parse_group(group)
            and r.against
            and ":" in r.observer
            and ":" in r.against
        ]
        return [r.value for r in single]

    for group in ("experiment=one", "experiment=two"):
        expected = stats.spearmanr(values(EC, group), values(CLES, group)).statistic
        assert row_of(found, EC, CLES, "rank_correlation", group).value == pytest.approx(expected)
    assert row_of(found, EC, CLES, "rank_correlation", "").n == 30
    assert row_of(found, EC, CLES, "rank_correlation", "experiment=*").note.startswith("mean r of 2 groups")


def test_domains_of_two_keys_are_means_over_the_second():
    rows = answered(observers(models=6), conditions={"one": ("x", "y"), "two": ("x", "y")}, stimuli=30)
    found = cosight.compare(trials(rows), measure="ec,cles", by="experiment,condition", correlate=True, resamples=20)
    groups = {row.group for row in found.rows if row.measure == "rank_correlation"}
    assert groups == {
        (("experiment", "one"), ("condition", "*")),
        (("experiment", "two"), ("condition", "*")),
        (("experiment", "*"), ("condition", "*")),
        (),
    }


def test_z_scores_have_mean_0_and_sd_1_and_families_and_point_towards_alike():
    given = domain([1, 2, 3, np.nan], [4, 3, 1, 2], "1", measures=(EC, SOC)).block
    families = {f"{side}{i}": f"{side}-family" for side in "op" for i in range(4)}
    rows = z_score_rows(given, [EC, SOC], families)
    of_ec = [row.value for row in rows if row.measure == EC]
    assert of_ec[:3] == pytest.approx(stats.zscore([1, 2, 3]))
    assert of_ec[3] is None
    assert [row.value for row in rows if row.measure == SOC] == pytest.approx(-stats.zscore([4, 3, 1, 2]))
    assert {row.group for row in rows} == {(("experiment", "1"), ("family", "o-family"), ("other_family", "p-family"))}
    assert {row.statistic for row in rows} == {"z"}


@pytest.mark.slow
def test_intervals_over_observers_cover_and_intervals_over_stimuli_do_not():
    """Studies of 16 new observers and 300 new stimuli each: how often is the mean r of all studies inside?"""
    studies, found = 60, []
    for study in range(studies):
        rng = np.random.default_rng([7, study])
        data = answer(Population(0.6).draw(16, rng), 300, rng)
        names = np.array([f"c{code:02d}" for code in range(data.classes)])
        rows = [
            {"observer": f"model:{i:02d}", "kind": "model", "experiment": "e", "image": f"{k}.png",
             "truth": str(names[data.truth[k]]), "response": str(names[data.response[i, k]])}
            for i in range(16) for k in range(300)
        ]  # fmt: skip
        scores = cosight.compare(trials(rows, None), measure="ec,ma", correlate=True, resamples=200, progress=False)
        (row,) = (row for row in scores.rows if row.measure == "rank_correlation")
        found.append((row.value, row.low, row.high))
    value, low, high = np.array(found).T
    assert np.mean((low <= value.mean()) & (value.mean() <= high)) >= 0.9

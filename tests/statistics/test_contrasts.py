from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given as drawing
from hypothesis import settings
from hypothesis import strategies as st

import cosight
from cosight.measures import holm, mean_over_pairs, resample_mean_over_pairs
from cosight.statistics.blocks import Key, finite_resampled, make_block
from cosight.statistics.contrasts import (
    difference_rows,
    models_against_people,
    normalise_by_ceiling,
    rank_rows,
)
from cosight.statistics.pair_scores import (
    CEILING_ONE,
    EQUAL_CEILING,
    EQUAL_DIFFERENCE,
    EQUAL_VALUE,
    PAIRED,
)
from cosight.statistics.rows import STATISTICS
from tests.scoring.made import answered, observers, row_of, trials

EC = "error_consistency"
MODELS = {"x", "y", "z"}


def block(entries, group=(), resamples=50, spread=0.01, seed=0, paired=True):
    """A block of (observer, against, measure[, statistic]) -> value, resamples scattered around it; values again beside
    ceilings.
    """
    entries = {Key(*key): value for key, value in entries.items()}
    if paired:
        beside = [key for key in entries if key.statistic == CEILING_ONE]
        entries |= {key._replace(statistic=PAIRED): entries[key._replace(statistic="value")] for key in beside}
    values = np.array(list(entries.values()), dtype=float)
    noise = np.random.default_rng(seed).normal(0, spread, (len(values), resamples))
    samples, n = finite_resampled(values, values[:, None] + noise), np.full(len(values), 90.0)
    return make_block(group, list(entries), values, samples, n)


def ranked(given, measure, **options):
    """The ranks of the models, as `compare` asks for them."""
    index = models_against_people(given, measure, MODELS)
    return rank_rows(given, index, **{"of": "models", "confidence": 0.95, "seed": 0, **options})


def test_a_share_of_the_ceiling_is_never_clipped():
    given = block(
        {
            ("x", "people", EC): 0.1,
            ("x", "people", EC, CEILING_ONE): 0.4,
            ("y", "people", EC): 0.6,
            ("y", "people", EC, CEILING_ONE): 0.5,  # on other stimuli
            ("models", "people", EC): 0.35,
            ("models", "people", EC, CEILING_ONE): 0.4,
        }
    )
    found = {b.keys[0]: b for b in normalise_by_ceiling(given, MODELS)}
    assert {key: b.values[0] for key, b in found.items()} == pytest.approx(
        {
            Key("x", "people", EC, "normalised"): 0.25,
            Key("y", "people", EC, "normalised"): 1.2,
            Key("models", "people", EC, "normalised"): 0.875,
        }
    )
    share = found[Key("y", "people", EC, "normalised")]
    paired = given.keys.index(Key("y", "people", EC, PAIRED))
    assert share.resampled[0] == pytest.approx(given.resampled[paired] / given.resampled[3])  # resample by resample


def test_a_distance_is_turned_round_so_that_one_is_as_alike_as_people():
    given = block({("x", "people", "hellinger", CEILING_ONE): 0.2, ("x", "people", "hellinger"): 0.8})
    assert normalise_by_ceiling(given, MODELS)[0].values[0] == pytest.approx(0.25)


@pytest.mark.parametrize(
    "entries",
    [
        {("x", "people", EC): 0.1, ("people", "people", EC): 0.4},  # no ceiling beside it
        {("people", "people", EC): 0.4, ("human:1", "people", EC): 0.3},  # people are the ceiling
        {("people", "people", EC): 0.4, ("simulated people", "people", EC): 0.3, ("simulated:1", "people", EC): 0.3},
        {("people", "people", EC): 0.4, ("x", "simulated people", EC): 0.3},  # another ceiling
        {("x", "people", "accuracy_difference"): 0.3, ("x", "people", "accuracy_difference", CEILING_ONE): 1},
    ],
)
def test_nothing_to_take_a_share_of(entries):
    assert normalise_by_ceiling(block(entries), MODELS) == []


def test_a_ceiling_of_zero_or_infinity_gives_no_share():
    zero = normalise_by_ceiling(
        block({("x", "people", EC, CEILING_ONE): 0.0, ("x", "people", EC): 0.1}, spread=0), MODELS
    )[0]
    assert np.isnan(zero.values[0])
    kl = "kullback_leibler"
    both = {("x", "people", kl, CEILING_ONE): np.inf, ("x", "people", kl): np.inf}
    endless = normalise_by_ceiling(block(both, spread=0), MODELS)
    assert np.isnan(endless[0].values[0])


def test_ranks_go_from_the_most_alike_and_carry_intervals():
    given = block(
        {("x", "people", EC): 0.1, ("y", "people", EC): 0.5, ("human:1", "people", EC): 0.9, ("z", "people", EC): 0.102}
    )
    rows = {r.observer: r for r in ranked(given, EC, seed=4)}
    assert {name: r.value for name, r in rows.items()} == {"y": 1, "z": 2, "x": 3}
    assert (rows["y"].low, rows["y"].high) == (1, 1)
    assert (rows["x"].low, rows["x"].high) == (2, 3)  # nothing tells x and z apart
    assert (rows["x"].measure, rows["x"].statistic) == (EC, "rank")
    assert (rows["x"].note, rows["x"].seed) == ("of 3 models", 4)


def test_ranks_of_a_distance_start_at_the_shortest():
    given = block({("x", "people", "hellinger"): 0.1, ("y", "people", "hellinger"): 0.5})
    assert {r.observer: r.value for r in ranked(given, "hellinger")} == {
        "x": 1,
        "y": 2,
    }


@pytest.mark.parametrize("measure", [EC, "accuracy_difference"])
def test_one_model_or_a_measure_without_direction_has_no_rank(measure):
    given = block({("x", "people", measure): 0.1} | ({("y", "people", measure): 0.2} if measure != EC else {}))
    assert ranked(given, measure) == []


def test_a_difference_is_paired_over_the_same_resamples():
    given = block({("x", "people", EC): 0.3, ("y", "people", EC): 0.1})
    shared = np.random.default_rng(1).normal(0, 1, 50)  # what moves both alike cancels
    given = replace(given, resampled=given.resampled + shared)
    (row,) = difference_rows(given, EC, MODELS, confidence=0.95, seed=0)
    assert (row.observer, row.against, row.measure, row.statistic) == ("x", "y", EC, "difference")
    assert row.value == pytest.approx(0.2)
    assert 0.15 < row.low < 0.2 < row.high < 0.25
    assert row.note == "against the same people; p <= .039"  # no resample on the other side
    assert (row.p, row.p_adjusted, row.flags) == (2 / 51, 2 / 51, ("p_at_resolution",))


def test_a_difference_carries_p_as_it_is_and_adjusted_for_how_many_there_are():
    given = block({(name, "people", EC): v for name, v in zip("xyz", (0.3, 0.1, 0.307), strict=True)}, resamples=199)
    rows = {(r.observer, r.against): r for r in difference_rows(given, EC, MODELS, confidence=0.95, seed=5)}
    assert set(rows) == {("x", "y"), ("x", "z"), ("y", "z")}
    np.testing.assert_allclose([r.p_adjusted for r in rows.values()], holm([r.p for r in rows.values()]))
    clear, open_ = rows["x", "y"], rows["x", "z"]
    assert (clear.p, clear.p_adjusted) == (0.01, pytest.approx(0.03))  # the least that 199 resamples can say, of three
    assert (clear.flags, clear.note) == (("p_at_resolution",), "against the same people; p <= .01")
    assert 0.05 < open_.p < open_.p_adjusted + 1e-12
    assert (open_.flags, open_.note) == ((), "against the same people; p = .57")
    assert [(r.n, r.clusters, r.seed) for r in rows.values()] == [(90, 90, 5)] * 3


def test_only_differences_have_a_p():
    rows = cosight.compare(trials(answered(observers(people=4, models=2))), measure=["ec"], resamples=20).rows
    assert {r.statistic for r in rows if r.p is not None or r.p_adjusted is not None} == {"difference"}
    assert all(r.p <= r.p_adjusted for r in rows if r.statistic == "difference")


@settings(deadline=None)
@drawing(st.floats(-1, 1), st.floats(-1, 1), st.integers(0, 2**32 - 1), st.floats(0, 30))
def test_a_difference_stays_inside_the_range_of_differences(one, two, seed, spread):
    given = block({("x", "people", EC): one, ("y", "people", EC): two}, spread=spread, seed=seed)
    (row,) = difference_rows(given, EC, MODELS, confidence=0.95, seed=0)
    assert -2 <= row.low <= row.value + 1e-9
    assert row.value - 1e-9 <= row.high <= 2


@pytest.mark.parametrize(("other", "why"), [(np.inf, "infinite"), (np.nan, "undefined")])
def test_a_difference_from_what_is_no_number_says_so(other, why):
    given = block({("x", "people", EC): 0.3, ("y", "people", EC): other}, spread=0)
    (row,) = difference_rows(given, EC, MODELS, confidence=0.95, seed=0)
    assert (row.value, row.low, row.high) == (None, None, None)
    assert row.note == f"against the same people; {why}"
    assert (row.flags, row.p, row.p_adjusted) == ((why,), None, None)


def test_people_and_models_are_known_by_kind_not_by_name():
    who = [("alice", "human"), ("bob", "human"), ("human:net", "model"), ("net", "model")]
    found = cosight.compare(trials(answered(who)), measure=["ec"], resamples=20)
    assert {r.observer for r in found.rows if r.statistic == "rank"} == {"human:net", "net"}
    assert {r.observer for r in found.rows if r.statistic == "normalised"} == {"human:net", "net", "models"}
    (row,) = (r for r in found.rows if r.statistic == "difference")
    assert {row.observer, row.against} == {"human:net", "net"}


# ---- differences: their resamples, and values at equal numbers of errors

CLES = "class_level_error_similarity"


def test_noise_of_single_answers_counts_twice_and_not_three_times_as_in_crossed_resamples():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(20, 300))  # of a person and a stimulus; nothing else varies
    stimuli = rng.multinomial(300, np.full(300, 1 / 300), size=3000)
    people = np.hstack([np.ones((3000, 1)), rng.multinomial(20, np.full(20, 1 / 20), size=3000)])
    pairs = np.stack([np.zeros(20, dtype=np.int64), np.arange(1, 21)], axis=1)
    values, resampled, drawn = noise.mean(axis=1), noise @ stimuli.T / 300, np.arange(21) > 0
    summed = resample_mean_over_pairs(values, resampled, pairs, people, drawn, clusters=300)
    crossed = mean_over_pairs(resampled, pairs, people, drawn)
    assert summed.values.var() * 20 * 300 == pytest.approx(2, rel=0.15)
    assert crossed.var() * 20 * 300 == pytest.approx(3, rel=0.15)
    assert 20 < summed.units < 300  # half of the variance is over 20 people, half over 300 stimuli


def test_differences_ranks_and_shares_of_the_ceiling_are_taken_at_equal_numbers_of_errors():
    given = block(
        {
            ("x", "people", CLES): 0.9,
            ("y", "people", CLES): 0.8,
            ("x", "y", CLES, EQUAL_DIFFERENCE): -0.05,
            ("x", "people", CLES, CEILING_ONE): 0.9,
            ("x", "people", CLES, EQUAL_VALUE): 0.6,
            ("x", "people", CLES, EQUAL_CEILING): 0.8,
        },
        spread=0.001,
    )
    [difference] = difference_rows(given, CLES, MODELS, confidence=0.95, seed=0)
    assert (difference.value, difference.flags) == (-0.05, ("rarefied", "p_at_resolution"))
    assert difference.low < -0.05 < difference.high < 0
    assert "at equal numbers of errors, 90 each" in difference.note
    assert [(row.value, row.low, row.high) for row in ranked(given, CLES)] == [(2, 2, 2), (1, 1, 1)]
    assert all("rarefied" in row.flags for row in ranked(given, CLES))
    [share] = normalise_by_ceiling(given, {"x"})
    assert share.values[0] == pytest.approx(0.75)
    assert share.flags == (("rarefied",),)


def test_what_is_not_compared_at_equal_numbers_of_errors_is_flagged():
    given = block({("x", "people", CLES): 0.9, ("y", "people", CLES): 0.8, ("x", "people", EC): 0.9})
    [difference] = difference_rows(given, CLES, MODELS, confidence=0.95, seed=0)
    assert "unequal_errors" in difference.flags
    assert all(row.flags == ("unequal_errors",) and "unequal numbers" in row.note for row in ranked(given, CLES))
    other = block({("x", "people", EC): 0.9, ("y", "people", EC): 0.8})
    assert all(row.flags == () for row in ranked(other, EC))


def test_comparing_says_where_few_errors_are_left():
    rows = answered(observers(people=4, models=1), skill=0.5) + answered([("model:9", "model")], skill=0.95, seed=1)
    found = cosight.compare(trials(rows), measure=["cles", "ec"], resamples=20)
    few = row_of(found, "model:0", "model:9", CLES, statistic="difference")
    assert set(few.flags) >= {"rarefied", "few_errors"}
    assert "rarefied" not in row_of(found, "model:0", "model:9", EC, statistic="difference").flags
    assert not {row.statistic for row in found.rows} - set(STATISTICS)

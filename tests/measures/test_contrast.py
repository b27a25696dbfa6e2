"""Paired differences and ranks over shared resamples, against plain computations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from cosight.errors import InvalidInput
from cosight.measures.uncertainty import holm, paired_difference, percentile_interval, rank_intervals, ranks

seeds = st.integers(0, 2**32 - 1)


def resamples(seed=0, *, a=0.6, b=0.5, spread=0.05, count=200):
    """Two observers' resampled values, alike in what moved both."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(0, 0.1, count)
    return a + shared + rng.normal(0, spread, count), b + shared + rng.normal(0, spread, count)


def plain_p(value, samples):
    """Twice the smaller share of differences on either side of 0, the median moved to the value, one added."""
    defined = [s for s in samples if not math.isnan(s)]
    middle = float(np.median(defined))
    moved = [s - middle + value for s in defined]
    least = min(sum(m <= 0 for m in moved), sum(m >= 0 for m in moved))
    return min(1.0, 2 * (least + 1) / (len(moved) + 1))


# -------------------------------------------------------------------------------------------------------- difference


@pytest.mark.parametrize(("n", "confidence"), [(None, 0.95), (30.0, 0.95), (30.0, 0.8), (5000.0, 0.99)])
def test_value_interval_and_p_are_those_of_the_plain_computation(n, confidence):
    one, two = resamples()
    found = paired_difference(0.61, 0.5, one, two, n=n, confidence=confidence)
    trials = None if n is None else np.array([n])
    interval = percentile_interval((one - two)[None], np.array([0.61 - 0.5]), n=trials, confidence=confidence)
    assert found.value == 0.61 - 0.5
    assert (found.low, found.high) == (interval.low[0], interval.high[0])
    assert found.p == plain_p(0.61 - 0.5, (one - two).tolist())


def test_what_moves_both_observers_cancels():
    shared = np.random.default_rng(0).normal(0, 1, 500)
    found = paired_difference(0.3, 0.1, 0.3 + shared, 0.1 + shared)
    assert found.low == pytest.approx(found.high, abs=1e-12)
    assert found.low == pytest.approx(0.2, abs=1e-12)


@pytest.mark.parametrize("count", [1, 9, 99, 1000])
def test_p_of_observers_that_never_come_near_is_the_least_there_is(count):
    one, two = resamples(a=10, b=0, count=count)
    found = paired_difference(10.0, 0.0, one, two)
    assert found.p == min(1.0, 2 / (count + 1))  # never 0
    assert found.at_resolution


def test_p_of_identical_samples_is_one():
    one, _ = resamples()
    found = paired_difference(0.6, 0.6, one, one)
    assert (found.value, found.low, found.high, found.p) == (0.0, 0.0, 0.0, 1.0)


def test_p_is_at_the_resolution_until_a_resample_contradicts():
    """The median lies on the value: differences of 1, 2, ... 9 around 5, compared with 0."""
    around, nothing = np.arange(1.0, 10.0), np.zeros(9)
    assert paired_difference(4.5, 0.0, around, nothing).at_resolution  # the lowest stays above 0
    touching = paired_difference(4.0, 0.0, around, nothing)  # the lowest is 0 itself
    assert (touching.p, touching.at_resolution) == (2 * 2 / 10, False)
    assert paired_difference(-4.5, 0.0, around, nothing).at_resolution  # below 0 as well
    assert not paired_difference(math.nan, 0.0, around, nothing).at_resolution
    assert not paired_difference(0.5, 0.5, around, around).at_resolution


@given(seeds, st.floats(-1, 1))
def test_p_is_at_the_resolution_where_it_can_be_no_lower(seed, difference):
    found = paired_difference(difference, 0.0, *resamples(seed, count=40))
    assert found.at_resolution == (found.p == 2 / 41)


def test_p_is_uniform_enough_when_there_is_no_difference():
    rng = np.random.default_rng(1)
    found = []
    for _ in range(300):
        draws = rng.normal(0, 1, (2, 199))
        found.append(paired_difference(*rng.normal(0, 1, 2), *draws).p)
    assert np.mean(np.array(found) < 0.05) == pytest.approx(0.05, abs=0.035)
    assert np.mean(found) == pytest.approx(0.5, abs=0.06)


@given(seeds, st.floats(-1, 1), st.floats(-1, 1), st.sampled_from([None, 2.0, 40.0]))
def test_swapping_the_observers_turns_the_sign_and_keeps_p(seed, a, b, n):
    one, two = resamples(seed, count=60)
    forth, back = paired_difference(a, b, one, two, n=n), paired_difference(b, a, two, one, n=n)
    assert back.value == -forth.value
    assert back.low == pytest.approx(-forth.high, abs=1e-9)
    assert back.high == pytest.approx(-forth.low, abs=1e-9)
    assert back.p == forth.p


@given(seeds, st.floats(-1, 1))
def test_p_lies_above_zero_and_the_interval_around_the_value(seed, difference):
    one, two = resamples(seed, count=40)
    found = paired_difference(difference, 0.0, one, two)
    assert 2 / 41 <= found.p <= 1
    assert found.low <= found.value <= found.high


def test_few_trials_widen_and_one_trial_has_no_interval():
    one, two = resamples(count=2000)
    width = {n: (f := paired_difference(0.6, 0.5, one, two, n=n)).high - f.low for n in (3.0, 10.0, 100.0, None)}
    assert width[3.0] > width[10.0] > width[100.0] > width[None]
    alone = paired_difference(0.6, 0.5, one, two, n=1.0)
    assert alone.value == pytest.approx(0.1)
    assert all(math.isnan(x) for x in (alone.low, alone.high, alone.p))


@pytest.mark.parametrize(("a", "b"), [(math.nan, 0.5), (0.5, math.nan), (math.nan, math.nan)])
def test_an_undefined_value_leaves_everything_undefined(a, b):
    found = paired_difference(a, b, *resamples())
    assert all(math.isnan(x) for x in (found.value, found.low, found.high, found.p))


@pytest.mark.parametrize(("lost", "defined"), [(0, True), (10, True), (11, False), (100, False)])
def test_up_to_a_tenth_of_the_resamples_may_be_undefined(lost, defined):
    one, two = resamples(count=100)
    one[: lost // 2], two[lost // 2 : lost] = np.nan, np.nan
    found = paired_difference(0.6, 0.5, one, two)
    assert found.value == pytest.approx(0.1)
    assert [math.isnan(x) for x in (found.low, found.high, found.p)] == [not defined] * 3
    if defined:
        assert found.p == plain_p(0.6 - 0.5, (one - two).tolist())


def test_a_level_outside_0_and_1_is_refused():
    with pytest.raises(InvalidInput, match=r"confidence must lie between 0 and 1, got 95; 0\.95 is usual"):
        paired_difference(0.6, 0.5, *resamples(), confidence=95)


# -------------------------------------------------------------------------------------------------- several p-values

shares = st.floats(0, 1)


@pytest.mark.parametrize("tests", [1, 2, 5, 12, 200])
def test_holm_is_that_of_statsmodels(tests):
    p = np.random.default_rng(tests).beta(0.4, 2, tests).round(3)  # some are equal, some 0
    np.testing.assert_allclose(holm(p), multipletests(p, method="holm")[1], rtol=1e-12, atol=0)


@given(st.lists(st.one_of(shares, st.just(math.nan)), max_size=12))
def test_an_adjusted_p_is_never_below_p_nor_above_one_and_nan_is_no_test(p):
    found, given_p = holm(p), np.array(p, dtype=float)
    known = ~np.isnan(given_p)
    np.testing.assert_array_equal(np.isnan(found), ~known)
    assert (found[known] >= given_p[known]).all()
    assert (found[known] <= 1).all()
    np.testing.assert_array_equal(found[known], holm(given_p[known]))
    order = np.argsort(given_p[known])
    assert (np.diff(found[known][order]) >= 0).all()  # what was smaller stays so, or ties


@pytest.mark.parametrize(
    ("p", "adjusted"),
    [
        ([], []),
        ([0.2], [0.2]),
        ([0.01, 0.04, 0.03], [0.03, 0.06, 0.06]),
        ([0.9, 0.6], [1, 1]),
        ([math.nan], [math.nan]),
    ],
)
def test_holm_by_hand(p, adjusted):
    np.testing.assert_allclose(holm(p), adjusted)


# ------------------------------------------------------------------------------------------------------------- ranks


@pytest.mark.parametrize(("values", "higher", "lower"), [
    ([0.3, 0.9, 0.1], [2, 1, 3], [2, 3, 1]),
    ([0.3, 0.9, 0.3], [2.5, 1, 2.5], [1.5, 3, 1.5]),
    ([0.5, 0.5, 0.5], [2, 2, 2], [2, 2, 2]),
    ([0.3, math.nan, 0.9], [2, math.nan, 1], [1, math.nan, 2]),
    ([math.nan, math.nan], [math.nan] * 2, [math.nan] * 2),
    ([math.inf, 1.0, -math.inf], [1, 2, 3], [3, 2, 1]),
    ([0.7], [1], [1]),
    ([], [], []),
])  # fmt: skip
def test_ranks_with_ties_and_undefined_values(values, higher, lower):
    array = np.array(values, dtype=np.float64)
    np.testing.assert_array_equal(ranks(array), higher)
    np.testing.assert_array_equal(ranks(array, direction="higher"), higher)
    np.testing.assert_array_equal(ranks(array, direction="lower"), lower)


@given(st.lists(st.one_of(st.integers(-3, 3).map(float), st.just(math.nan)), max_size=12))
def test_ranks_are_those_of_scipy(values):
    array = np.array(values, dtype=np.float64)
    np.testing.assert_array_equal(ranks(-array), stats.rankdata(array, nan_policy="omit") if len(array) else [])
    np.testing.assert_array_equal(ranks(array, direction="lower"), ranks(-array))


@given(st.permutations([0.1, 0.2, 0.2, math.nan, 0.9]))
def test_ranks_follow_their_values_in_any_order(values):
    expected = {0.1: 4, 0.2: 2.5, 0.9: 1}
    for value, rank in zip(values, ranks(np.array(values)), strict=True):
        assert math.isnan(rank) if math.isnan(value) else rank == expected[value]


# ---------------------------------------------------------------------------------------------------- rank intervals


def plain_rank_interval(samples, row, direction, confidence):
    """Ranks of one observer, resample by resample, sorted, and the two nearest to the ends."""
    found = []
    for column in samples.T:
        own = column[row]
        if not math.isnan(own):
            others = [v for v in column if not math.isnan(v)]
            better = sum(v > own if direction == "higher" else v < own for v in others)
            found.append(better + (sum(v == own for v in others) + 1) / 2)
    lost = samples.shape[1] - len(found)
    if lost > 0.1 * samples.shape[1]:
        return math.nan, math.nan, lost
    found.sort()
    low, high = (found[round(share * (len(found) - 1))] for share in ((1 - confidence) / 2, (1 + confidence) / 2))
    return low, high, lost


@pytest.mark.parametrize("direction", ["higher", "lower"])
@pytest.mark.parametrize("confidence", [0.95, 0.5])
def test_rank_intervals_are_those_of_a_plain_loop(direction, confidence):
    rng = np.random.default_rng(3)
    samples = np.round(rng.normal([[0.3], [0.4], [0.4], [0.9]], 0.1, (4, 40)), 1)  # rounded: ties
    samples[1, :4], samples[2, :5] = np.nan, np.nan  # a tenth, and more
    found = rank_intervals(samples, direction=direction, confidence=confidence)
    for row in range(4):
        expected = plain_rank_interval(samples, row, direction, confidence)
        np.testing.assert_array_equal((found.low[row], found.high[row], found.undefined[row]), expected)
    assert np.isnan(found.low).tolist() == [False, False, True, False]


def test_observers_far_apart_have_ranks_without_width():
    samples = np.array([[1.0], [3.0], [2.0]]) + np.random.default_rng(0).uniform(-0.4, 0.4, (3, 50))
    found = rank_intervals(samples)
    assert found.low.tolist() == found.high.tolist() == [3, 1, 2]
    assert found.undefined.tolist() == [0, 0, 0]


def test_equal_observers_span_all_ranks_and_a_wider_level_spans_more():
    samples = np.random.default_rng(0).normal(size=(5, 400))
    wide, narrow = rank_intervals(samples, confidence=0.95), rank_intervals(samples, confidence=0.3)
    assert (wide.low == 1).all()
    assert (wide.high == 5).all()
    assert (narrow.high - narrow.low < 4).all()

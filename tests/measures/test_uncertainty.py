"""Bootstrap: draws that are the right distribution, people who never meet themselves, percentiles that are numpy's."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from cosight.errors import InvalidInput, UnknownName
from cosight.measures.answers import NO_ANSWER, NOT_SHOWN, Answers
from cosight.measures.arithmetic import share_interval
from cosight.measures.consistency import error_consistency, error_consistency_resampled
from cosight.measures.declarations import pair_forms
from cosight.measures.differences import holm, paired_difference, rank_intervals, ranks, ranks_of_differences
from cosight.measures.draws import compress, draw_people, draw_stimuli, effective_clusters, jackknife
from cosight.measures.uncertainty import (
    mean_over_pairs,
    mean_with_interval,
    pair_estimate,
    percentile_interval,
    resample_mean_over_pairs,
    share_intervals,
)

nan = math.nan
law = settings(deadline=None)
PAIR = np.array([[0, 1]])


def rng(seed=0):
    return np.random.default_rng(seed)


def table(seed, observers=3, stimuli=40, classes=3):
    random = rng(seed)
    response = random.integers(0, classes, (observers, stimuli))
    response[random.random(response.shape) < 0.1] = NO_ANSWER
    response[random.random(response.shape) < 0.1] = NOT_SHOWN
    return Answers(response.astype(np.int16), random.integers(0, classes, stimuli).astype(np.int16), classes)


# --- drawing stimuli ------------------------------------------------------------------------------------------------


@law
@given(st.integers(0, 2**32 - 1), st.integers(0, 60))
def test_compressing_loses_nothing(seed, stimuli):
    answers = table(seed, observers=2, stimuli=stimuli, classes=2)
    small = compress(answers)
    assert small.counts.sum() == stimuli
    back = np.repeat(np.arange(small.answers.stimuli), small.counts)
    columns = sorted(zip(*small.answers.response[:, back].tolist(), small.answers.truth[back].tolist(), strict=True))
    assert columns == sorted(zip(*answers.response.tolist(), answers.truth.tolist(), strict=True))
    patterns = [*zip(*small.answers.response.tolist(), small.answers.truth.tolist(), strict=True)]
    assert len(set(patterns)) == len(patterns)  # every pattern once


def test_patterns_come_in_the_order_of_their_first_stimulus():
    small = compress(Answers.of_correctness([1, 0, 1, 0, 0], [0, 0, 0, 1, 0]))
    assert small.answers.response.tolist() == [[1, 0, 0], [0, 0, 1]]
    assert small.counts.tolist() == [2, 2, 1]


@pytest.mark.parametrize("counts", [[1] * 7, [5, 1, 9, 3], [40, 60], [0, 3], [1, 1, 0, 2], [], [0, 0]])
def test_as_many_are_drawn_as_there_are(counts):
    weights = draw_stimuli(counts, 20, rng())
    assert weights.shape == (20, len(counts))
    assert (weights.sum(axis=1) == sum(counts)).all()
    assert (weights[:, np.array(counts, dtype=int) == 0] == 0).all()
    np.testing.assert_array_equal(draw_stimuli(counts, 20, rng()), weights)  # the seed decides


def test_both_ways_of_drawing_have_the_moments_of_the_multinomial():
    counts = np.array([1, 2, 3])  # six stimuli in three rows: drawn one by one
    n, draws = counts.sum(), 20_000
    weights = draw_stimuli(counts, draws, rng(1))
    p = counts / n
    covariance = n * (np.diag(p) - np.outer(p, p))
    # Monte Carlo error: of a mean sd / sqrt(20,000) < .009, of a covariance about 1.5 * sqrt(2 / 20,000) = .015
    np.testing.assert_allclose(weights.mean(axis=0), counts, atol=0.04)
    np.testing.assert_allclose(np.cov(weights, rowvar=False), covariance, atol=0.06)
    double = draw_stimuli(np.array([10, 20, 30]), draws, rng(2))  # sixty in three rows: multinomial
    np.testing.assert_allclose(double.mean(axis=0), [10, 20, 30], atol=0.16)  # four errors of .04 at most
    np.testing.assert_allclose(np.cov(double, rowvar=False), 10 * covariance, atol=0.6)


def test_compressed_and_plain_resampling_agree():
    answers = Answers.of_correctness([1, 1, 1, 0, 0, 0, 1, 0] * 12, [1, 0, 1, 0, 1, 0, 1, 0] * 12)
    small = compress(answers)
    assert small.answers.stimuli * 2 < answers.stimuli  # so that the multinomial is used
    fast = error_consistency_resampled(small.answers, draw_stimuli(small.counts, 20_000, rng(3)), PAIR)[0]
    plain = error_consistency_resampled(answers, draw_stimuli(np.ones(96), 20_000, rng(4)), PAIR)[0]
    # The sd of this kappa is .09. Monte Carlo errors at 20,000 draws: mean .0006, sd .0005, outer quantiles about .0025
    assert fast.mean() == pytest.approx(plain.mean(), abs=0.004)
    assert fast.std() == pytest.approx(plain.std(), abs=0.003)
    at = [0.025, 0.25, 0.5, 0.75, 0.975]
    np.testing.assert_allclose(np.quantile(fast, at), np.quantile(plain, at), atol=0.012)


def test_values_of_a_compressed_table_are_those_of_the_table():
    answers = table(7, observers=2, classes=2)
    small = compress(answers)
    for form in pair_forms.values():
        once = np.ones((1, answers.stimuli), dtype=np.float32)
        whole = form.resampled(answers, once, PAIR)
        np.testing.assert_allclose(form.resampled(small.answers, small.counts[None].astype(np.float32), PAIR), whole)


def test_presentations_of_one_stimulus_are_drawn_together():
    clusters = np.array(["b", "a", "b", "c", "a", "b"])
    weights = draw_stimuli(np.ones(6), 500, rng(), clusters=clusters)
    assert weights.shape == (500, 6)
    for name in "abc":
        assert (np.ptp(weights[:, clusters == name], axis=1) == 0).all()
    first = weights[:, [1, 0, 3]]
    assert (first.sum(axis=1) == 3).all()  # three stimuli, three draws
    np.testing.assert_allclose(first.mean(axis=0), 1, atol=0.15)  # four errors of .037
    alone = draw_stimuli(np.ones(4), 50, rng(5), clusters=[3, 1, 0, 2])
    assert (alone.sum(axis=1) == 4).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: draw_stimuli([1, 1], 0, rng()), "resamples must be 1 or more, got 0"),
        (lambda: draw_people(3, 0, rng()), "resamples must be 1 or more, got 0"),
        (lambda: mean_with_interval([1.0], resamples=0, rng=rng()), "resamples must be 1 or more, got 0"),
        (lambda: pair_estimate("ec", table(0, 2), resamples=0, rng=rng()), "resamples must be 1 or more, got 0"),
        (lambda: draw_stimuli([1, -1], 5, rng()), "whole numbers of stimuli, got -1"),
        (lambda: draw_stimuli([1, 0.5], 5, rng()), "whole numbers of stimuli, got 0.5"),
        (lambda: draw_stimuli([[1]], 5, rng()), "counts must have 1 axes"),
        (lambda: draw_stimuli([1, 2], 5, rng(), clusters=["a", "b"]), "one stimulus, got 2; draw before"),
        (lambda: draw_stimuli([1, 1], 5, rng(), clusters=["a"]), "counts 2, clusters 1"),
        (lambda: pair_estimate("ec", table(0), rng=rng()), "a pair has two observers, got 3"),
        (lambda: mean_with_interval([[1.0]], rng=rng()), "items must be one-dimensional"),
        (
            lambda: mean_with_interval([1.0, 2.0], confidence=95, rng=rng()),
            "confidence must lie between 0 and 1, got 95",
        ),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()


def test_second_order_noise_is_counted_one_and_a_third_times():
    """Of noise alone, the resamples of a squared distance vary three times as much as the distance itself."""
    values, drawn, linear = [], [], []
    for seed in range(200):
        items = rng(seed).normal(size=(100, 10))
        weights = rng(seed).multinomial(100, np.full(100, 0.01), size=400)
        left_out = jackknife(np.ones(100), 400, rng(seed))

        def square(weights, items=items):
            return ((weights @ items / weights.sum(axis=1, keepdims=True)) ** 2).sum(axis=1)[None]

        values.append(square(np.ones((1, 100))).item())
        drawn.append(square(weights).var())
        linear.append(left_out.deviations(square(left_out.weights)).var())
    assert np.mean(drawn) / np.var(values) > 2.2
    assert np.mean(linear) / np.var(values) == pytest.approx(
        4 / 3, abs=0.3
    )  # the variance of 200 values is known to 10 %


def test_a_mean_keeps_its_standard_error_and_an_undefined_value_has_no_resamples():
    items = rng().normal(size=1000)
    left_out = jackknife(np.ones(1000), 5000, rng(1))
    weights = left_out.weights
    means = weights @ items / weights.sum(axis=1)
    once_undefined = np.where(weights[:, 0] == 0, nan, 0.5)
    found = left_out.deviations(np.vstack([means, np.full(len(means), 0.5), once_undefined]))
    assert found.shape == (3, 5000)
    assert found[0].std() == pytest.approx(items.std() / np.sqrt(1000), rel=0.25)
    assert (found[1] == 0).all()
    assert np.isnan(found[2]).all()


def test_every_stimulus_is_left_out_once_and_every_two_larger_groups_are():
    weights = jackknife([2, 0, 500], 3, rng()).weights
    assert weights.shape == (1 + 100 + 14 + 91, 3)
    assert weights[0].tolist() == [2, 0, 500]
    left_out = weights[0] - weights
    assert left_out[1:101].sum(axis=0).tolist() == left_out[101:115].sum(axis=0).tolist() == [2, 0, 500]
    assert left_out[115:].sum(axis=0).tolist() == [26, 0, 13 * 500]
    assert jackknife([1, 1], 3, rng()).weights.shape == (1 + 2 + 2 + 1, 2)  # two groups of one stimulus
    assert jackknife([], 3, rng()).weights.shape[1] == 0


def test_clusters_are_left_out_as_a_whole():
    clusters = np.array([0, 2, 2, -1, 0])
    weights = jackknife(np.ones(5), 3, rng(), clusters=clusters, size=4).weights[1:5]  # cluster 1 and 3 have no row
    assert (weights[:, 3] == 1).all()
    assert (weights[:, 0] == weights[:, 4]).all()
    assert sorted(weights.sum(axis=1).tolist()) == [3, 3, 5, 5]


def test_clusters_of_unequal_size_are_worth_fewer():
    size = np.array([6, 2, 2, 2, 5])  # trials of each stimulus
    count = lambda stimuli: np.stack([size[stimuli].sum(), len(stimuli), 0])  # noqa: E731
    clusters = np.array([1, 0, 0, 2, -1])
    assert effective_clusters(count, clusters) == pytest.approx([12**2 / (4**2 + 6**2 + 2**2), 4**2 / (4 + 1 + 1), 0])


# --- drawing people -------------------------------------------------------------------------------------------------


def test_people_are_drawn_evenly():
    drawn = draw_people(5, 20_000, rng())
    assert (drawn.sum(axis=1) == 5).all()
    np.testing.assert_allclose(drawn.mean(axis=0), 1, atol=0.03)  # four errors of .0063
    np.testing.assert_allclose(drawn.var(axis=0), 0.8, atol=0.05)  # n p (1 - p); error .012
    assert draw_people(0, 3, rng()).shape == (3, 0)


def mean_over_copies(values, pairs, copies):
    """Everybody's copies meet everybody else's, never their own; models are there once."""
    known = {(i, j): value for (i, j), value in zip(pairs.tolist(), values, strict=True)}
    crowd = [who for who, times in enumerate(copies) for _ in range(times)]
    met = [known[min(a, b), max(a, b)] for a, b in combinations(crowd, 2) if a != b]
    met = [value for value in met if not math.isnan(value)]
    return sum(met) / len(met) if met else nan


@law
@given(st.integers(0, 2**32 - 1), st.integers(2, 5), st.integers(0, 2))
def test_people_never_pair_with_themselves(seed, people, models):
    random, total = rng(seed), people + models
    pairs = np.array(list(combinations(range(total), 2)))
    values = random.integers(-4, 5, (len(pairs), 6)) / 8  # eighths add up without rounding
    values[random.random(values.shape) < 0.2] = nan
    human = np.arange(total) < people
    drawn = np.zeros((6, total))
    drawn[:, :people] = draw_people(people, 6, random)  # what is said of models is not read
    found = mean_over_pairs(values, pairs, drawn, human)
    copies = np.where(human, drawn, 1).astype(int)
    assert found.tolist() == pytest.approx(
        [mean_over_copies(values[:, r], pairs, copies[r]) for r in range(6)], rel=0, abs=0, nan_ok=True
    )


def test_one_person_drawn_every_time_meets_nobody():
    values, pairs = np.ones((1, 1)), np.array([[0, 1]])
    assert np.isnan(mean_over_pairs(values, pairs, np.array([[2.0, 0.0]]), np.array([True, True]))).all()
    with_model = mean_over_pairs(values, pairs, np.array([[1.0, 0.0]]), np.array([True, False]))
    assert with_model.tolist() == [1]


def test_few_people_who_differ_are_few_units_and_people_alike_are_not():
    pairs = np.stack(np.triu_indices(6, 1), axis=1)
    drawn, people = draw_people(6, 500, rng()), np.ones(6, dtype=bool)
    stimuli = rng(1).normal(0, 0.01, 500)
    differ, alike = rng(2).normal(0, 0.5, len(pairs)), np.zeros(len(pairs))
    units = [
        resample_mean_over_pairs(values, values[:, None] + stimuli, pairs, drawn, people, clusters=200).units
        for values in (differ, alike)
    ]
    assert units == [pytest.approx(6, abs=0.1), 200]
    nobody = resample_mean_over_pairs(differ, differ[:, None] + stimuli, pairs, drawn, ~people, clusters=200)
    assert (nobody.units, nobody.values.std()) == (200, pytest.approx(stimuli.std()))


# --- percentiles ----------------------------------------------------------------------------------------------------


@law
@given(st.integers(0, 2**32 - 1), st.integers(1, 50), st.sampled_from([0.5, 0.9, 0.95]))
def test_percentiles_are_numpys_moved_onto_the_estimate(seed, resamples, confidence):
    samples = rng(seed).normal(size=(3, resamples))
    values = np.array([0.0, 5.0, -2.0])
    interval = percentile_interval(samples, values, confidence=confidence)
    shift = values - np.median(samples, axis=1)
    np.testing.assert_allclose(interval.low, np.quantile(samples, (1 - confidence) / 2, axis=1) + shift, atol=1e-12)
    np.testing.assert_allclose(interval.high, np.quantile(samples, (1 + confidence) / 2, axis=1) + shift, atol=1e-12)
    assert interval.undefined.tolist() == [0, 0, 0]


@law
@given(st.integers(0, 2**32 - 1), st.integers(0, 20))
def test_undefined_resamples_are_left_out_until_a_tenth(seed, missing):
    samples = rng(seed).normal(size=(1, 100))
    samples[0, rng(seed).permutation(100)[:missing]] = nan
    interval = percentile_interval(samples, np.zeros(1))
    assert interval.undefined.tolist() == [missing]
    if missing > 10:
        assert np.isnan([interval.low, interval.high]).all()
    else:
        low, middle, high = np.nanquantile(samples, [0.025, 0.5, 0.975])
        assert (interval.low[0], interval.high[0]) == pytest.approx((low - middle, high - middle), abs=1e-12)


@pytest.mark.parametrize("sign", [1, -1])
def test_skewed_means_move_both_ends_to_the_longer_side(sign):
    samples = sign * rng().gamma(9, size=(1, 4000))  # skewness 2 / 3
    skewness, z = stats.skew(samples[0]), stats.norm.ppf(0.975)
    interval = percentile_interval(samples, np.zeros(1), means=np.array([True]))
    move = skewness * (z**2 + 1) / 6  # Hall 1992: 2 z^2 + 1 instead of the z^2 that centred percentiles have
    ends = np.quantile(samples, stats.norm.cdf([move - z, move + z])) - np.median(samples)
    assert (interval.low[0], interval.high[0]) == pytest.approx(tuple(ends), abs=1e-12)
    assert sign * (interval.low[0] + interval.high[0]) > 0


def test_the_interval_of_a_biased_measure_is_moved_back_but_not_beyond_the_estimate():
    samples = rng().normal(-0.1, 1, size=(1, 4000))
    plain, moved = (percentile_interval(samples, np.zeros(1), biased=np.array([biased])) for biased in (False, True))
    assert [moved.low - plain.low, moved.high - plain.high] == pytest.approx([-np.median(samples)] * 2)
    far = percentile_interval(samples - 9, np.zeros(1), biased=np.array([True]))
    assert far.low == 0 < far.high


def test_the_estimate_stays_inside_however_skewed_and_narrow_the_interval():
    samples = rng().gamma(0.05, size=(1, 1000))
    interval = percentile_interval(samples, np.zeros(1), means=np.array([True]), confidence=0.05)
    assert interval.low[0] <= 0 <= interval.high[0]


def test_undefined_rows_stay_undefined():
    samples = np.array([[nan] * 20, np.arange(20.0), np.arange(20.0)])
    interval = percentile_interval(samples, np.array([1.0, nan, 9.5]))
    assert np.isnan(interval.low).tolist() == np.isnan(interval.high).tolist() == [True, True, False]
    assert interval.undefined.tolist() == [20, 0, 0]


@pytest.mark.parametrize("confidence", [0.8, 0.95])
@pytest.mark.parametrize("n", [2, 5, 30, 1000])
def test_few_trials_widen_the_percentiles_as_t_does(n, confidence):
    samples = rng().normal(size=(1, 5000))
    interval = percentile_interval(samples, np.zeros(1), n=np.array([n]), confidence=confidence)
    # Hesterberg 2015, section 5.2: cut off Phi(sqrt(n / (n - 1)) t) with t the quantile of n - 1 degrees of freedom
    z = math.sqrt(n / (n - 1)) * stats.t.ppf((1 + confidence) / 2, n - 1)
    read = min(z, 1.25 * stats.norm.ppf((1 + confidence) / 2))  # few resamples lie further out
    tail, further = stats.norm.cdf(-read), min(z / read, 1.5)
    low, middle, high = np.quantile(samples, [tail, 0.5, 1 - tail])
    ends = further * (low - middle), further * (high - middle)
    assert (interval.low[0], interval.high[0]) == pytest.approx(ends, abs=1e-12)
    plain = percentile_interval(samples, np.zeros(1), confidence=confidence)
    assert interval.low <= plain.low
    assert interval.high >= plain.high


def test_one_trial_has_no_interval_and_its_neighbours_do():
    samples = np.tile(np.arange(20.0), (3, 1))
    interval = percentile_interval(samples, np.full(3, 9.5), n=np.array([1, 0, 2]))
    assert np.isnan(interval.low).tolist() == [True, True, False]


@pytest.mark.parametrize("confidence", [0, 1, 95, nan])
def test_a_level_is_a_probability(confidence):
    with pytest.raises(InvalidInput, match="confidence must lie between 0 and 1"):
        percentile_interval(np.zeros((1, 5)), np.zeros(1), confidence=confidence)


# --- estimates ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("measure", ["ec", "ma", "cles", "accdiff"])
def test_the_order_of_stimuli_does_not_change_a_value(measure):
    answers = table(9, observers=2, stimuli=80)
    order = rng(1).permutation(80)
    one, other = (pair_estimate(measure, x, resamples=200, rng=rng()) for x in (answers, answers.at(order)))
    assert (one.value, one.n) == pytest.approx((other.value, other.n), abs=1e-12)
    assert one.low <= one.value <= one.high
    assert (one.resamples, one.confidence) == (200, 0.95)
    assert pair_estimate(measure, answers, resamples=200, rng=rng()) == one  # the seed decides the rest


def test_pair_estimate_is_its_parts():
    answers = Answers.of_correctness([1, 1, 0, 0, 1, 0] * 10, [1, 0, 0, 0, 1, 1] * 10)
    found = pair_estimate("error_consistency", answers, resamples=500, confidence=0.8, rng=rng())
    small = compress(answers)
    samples = error_consistency_resampled(small.answers, draw_stimuli(small.counts, 500, rng()), PAIR)
    value = error_consistency(*answers.correct).value
    interval = percentile_interval(samples, np.array([value]), n=np.array([60.0]), confidence=0.8)
    assert (found.value, found.n, found.note) == (pytest.approx(value), 60, "")
    assert (found.low, found.high) == pytest.approx((interval.low[0], interval.high[0]))


def test_undefined_resamples_are_noted():
    answers = Answers.of_correctness([1] * 19 + [0], [1] * 19 + [0])
    found = pair_estimate("ec", answers, resamples=100, rng=rng())
    assert found.value == 1
    assert math.isnan(found.low)
    missed = (draw_stimuli(compress(answers).counts, 100, rng())[:, 1] == 0).sum()
    assert found.note == f"{missed} of 100 resamples undefined"


def test_an_unknown_measure_is_named():
    with pytest.raises(UnknownName, match="did you mean"):
        pair_estimate("error_consistancy", table(0, 2), rng=rng())


def test_mean_with_interval_is_students_for_normal_items():
    items = rng(2).normal(size=200)
    found = mean_with_interval(items, resamples=4000, rng=rng(3))
    low, high = stats.t.interval(0.95, 199, loc=items.mean(), scale=stats.sem(items))
    # sem .07; Monte Carlo error of a 2.5 % quantile at 4,000 draws: .04 sem = .003
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.012)
    assert (found.value, found.n, found.note) == (pytest.approx(items.mean()), 200, "")


def test_mean_with_interval_edges():
    some = mean_with_interval([1.0, nan, 3.0], resamples=50, rng=rng())
    assert (some.value, some.n, some.note) == (2, 2, "1 undefined items left out")
    for items, value, n in (([], nan, 0), ([nan], nan, 0), ([2.0], 2, 1), ([1.0, math.inf], math.inf, 2)):
        found = mean_with_interval(items, resamples=50, rng=rng())
        assert found.value == pytest.approx(value, nan_ok=True)
        assert np.isnan([found.low, found.high]).all()
        assert found.n == n


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


def test_one_image_of_sixty_is_no_difference():
    """Without that image a resample has no difference; float noise in shares must not make it one."""
    drawn = np.random.default_rng(0).multinomial(60, np.full(60, 1 / 60), size=500)
    one, two = drawn[:, :30].sum(axis=1) / 60, drawn[:, :29].sum(axis=1) / 60
    without = float(np.mean(drawn[:, 29] == 0))
    found = paired_difference(30 / 60, 29 / 60, one, two)
    assert found.low == 0
    assert found.p == pytest.approx(2 * without, abs=0.01)
    assert not found.at_resolution


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
    with pytest.raises(InvalidInput, match=r"confidence must lie between 0 and 1, got 95; did you mean \.95\?"):
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
    for direction in ("higher", "lower"):
        of_differences = ranks_of_differences(np.subtract.outer(array, array), direction=direction)
        np.testing.assert_array_equal(of_differences, ranks(array, direction=direction))


@given(st.permutations([0.1, 0.2, 0.2, math.nan, 0.9]))
def test_ranks_follow_their_values_in_any_order(values):
    expected = {0.1: 4, 0.2: 2.5, 0.9: 1}
    for value, rank in zip(values, ranks(np.array(values)), strict=True):
        assert math.isnan(rank) if math.isnan(value) else rank == expected[value]


# ---------------------------------------------------------------------------------------------------- rank intervals


def plain_rank_interval(values, samples, row, direction, confidence):
    """The differences of one observer to each other one, and the quantile of the largest of their deviations."""
    sign = 1 if direction == "higher" else -1
    spreads, deviations = {}, {}
    for other in range(len(values)):
        if other != row:
            moved = samples[other] - samples[row]
            moved = moved - np.mean(moved)
            spreads[other] = math.sqrt(np.mean(moved**2))
            deviations[other] = np.abs(moved) / spreads[other]
    critical = np.quantile(np.max(list(deviations.values()), axis=0), confidence)
    better = sum(sign * (values[k] - values[row]) > critical * spreads[k] for k in spreads)
    worse = sum(sign * (values[row] - values[k]) > critical * spreads[k] for k in spreads)
    return 1 + better, len(values) - worse


@pytest.mark.parametrize("confidence", [0.95, 0.5])
@pytest.mark.parametrize("direction", ["higher", "lower"])
def test_rank_intervals_are_those_of_a_plain_loop(direction, confidence):
    rng = np.random.default_rng(3)
    values = np.array([0.3, 0.4, 0.45, 0.9])
    samples = rng.normal(values[:, None], 0.1, (4, 40))
    found = rank_intervals(np.subtract.outer(values, values), samples, direction=direction, confidence=confidence)
    for row in range(4):
        expected = plain_rank_interval(values, samples, row, direction, confidence)
        assert (found.low[row], found.high[row]) == expected
    assert found.low.min() < found.low.max()


def test_rank_intervals_leave_out_what_is_undefined():
    values = np.array([1.0, 3.0, 2.0, math.nan])
    samples = values[:, None] + np.random.default_rng(0).uniform(-0.4, 0.4, (4, 50))
    samples[0, :5], samples[2, :6] = np.nan, np.nan  # a tenth, and more
    found = rank_intervals(np.subtract.outer(values, values), samples)
    np.testing.assert_array_equal(found.low, [2, 1, math.nan, math.nan])
    np.testing.assert_array_equal(found.high, [3, 2, math.nan, math.nan])  # of three: the third cannot be compared
    assert found.undefined.tolist() == [5, 0, 6, 50]


def test_observers_far_apart_have_ranks_without_width():
    values = np.array([1.0, 3.0, 2.0])
    samples = values[:, None] + np.random.default_rng(0).uniform(-0.4, 0.4, (3, 50))
    found = rank_intervals(np.subtract.outer(values, values), samples)
    assert found.low.tolist() == found.high.tolist() == [3, 1, 2]
    few = rank_intervals(
        np.subtract.outer(values, values), samples, n=np.full(3, 2.0)
    )  # two trials: t with one degree of freedom
    assert few.low.tolist() == [1, 1, 1]


@pytest.mark.parametrize("clusters", [10, 30, 100])
def test_a_mean_of_shares_of_1_and_0_holds_what_intervals_of_both_allow(clusters):
    one = share_interval(np.array(float(clusters)), np.array(float(clusters)), 0.95)
    off = float(1 - one[0]) / 2  # the mean of 1 and 0, if the first share were at the low end of its interval
    found = share_intervals(
        np.full((1, 99), 0.5), np.array([0.5]), n=np.array([np.inf]), clusters=np.array([float(clusters)])
    )
    assert found.low[0] == pytest.approx(1 - found.high[0])
    assert 1 <= (0.5 - found.low[0]) / off <= 1.6  # with m = clusters: 2.2, 3.7 and 6.6


def test_identical_observers_share_all_ranks():
    values, samples = np.full(3, 0.5), np.tile(np.random.default_rng(0).normal(size=50), (3, 1))
    found = rank_intervals(np.subtract.outer(values, values), samples)
    assert (found.low.tolist(), found.high.tolist()) == ([1, 1, 1], [3, 3, 3])


def simulated_ranks(truths, studies, seed):
    """Rank intervals of observers whose estimates err with a part in common, (studies, ends, observers)."""
    truths, found = np.array(truths, dtype=np.float64), []
    for study in range(studies):
        rng = np.random.default_rng([seed, study])
        values = truths + rng.normal(size=len(truths)) + rng.normal()
        samples = values[:, None] + rng.normal(size=(len(truths), 400)) + rng.normal(size=400)
        interval = rank_intervals(np.subtract.outer(values, values), samples)
        found.append((interval.low, interval.high))
    return np.array(found)


@pytest.mark.parametrize("observers", [2, 6])
def test_observers_that_are_alike_rarely_get_a_certain_rank(observers):
    found = simulated_ranks(np.zeros(observers), 300, 1)
    certain = (found[:, 0] == found[:, 1]).mean()
    assert certain <= stats.binom.ppf(0.999, 300, 0.05) / 300
    assert (found[:, 0] > 1).mean() <= stats.binom.ppf(0.999, 300, 0.05) / 300


def test_rank_intervals_hold_the_true_rank():
    found = simulated_ranks([4, 3, 2.5, 0, -3], 300, 2)
    true = np.arange(1, 6)
    assert ((found[:, 0] <= true) & (true <= found[:, 1])).mean(axis=0).min() >= stats.binom.ppf(0.001, 300, 0.95) / 300
    assert (found[:, 1] - found[:, 0]).mean() < 2.5  # of 4: not by holding everything


def test_a_wider_level_spans_more_ranks():
    samples = np.random.default_rng(0).normal(size=(5, 400))
    apart = np.subtract.outer(np.arange(5.0), np.arange(5.0))
    wide, narrow = (rank_intervals(apart, samples, confidence=confidence) for confidence in (0.95, 0.1))
    assert (wide.high - wide.low >= narrow.high - narrow.low).all()
    assert (wide.high - wide.low).sum() > (narrow.high - narrow.low).sum()

"""Bootstrap: draws that are the right distribution, people who never meet themselves, percentiles that are numpy's."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from cosight.errors import InvalidInput, UnknownName
from cosight.measures.answers import NO_ANSWER, NOT_SHOWN, Answers
from cosight.measures.consistency import error_consistency, error_consistency_resampled
from cosight.measures.declarations import pair_forms
from cosight.measures.uncertainty import (
    compress,
    draw_people,
    draw_stimuli,
    mean_over_pairs,
    mean_with_interval,
    pair_estimate,
    percentile_interval,
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
    tail = stats.norm.cdf(math.sqrt(n / (n - 1)) * stats.t.ppf((1 - confidence) / 2, n - 1))
    low, middle, high = np.quantile(samples, [tail, 0.5, 1 - tail])
    assert (interval.low[0], interval.high[0]) == pytest.approx((low - middle, high - middle), abs=1e-12)
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

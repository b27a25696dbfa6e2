"""Uncertainty: intervals of values, of means over pairs and of shares.

Every interval is made in one way: stimuli are drawn again (`draws`), the measure's resampled form turns weights into
values (for CLES, to first order), and the interval is read off their percentiles or, for shares, off an exact
distribution with as many trials as the spread of the resamples is worth (`share_intervals`). People are drawn again
too, and the two deviations are added (`resample_mean_over_pairs`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri, stdtrit

from cosight.arrays import BoolArray, FloatArray
from cosight.errors import InvalidInput
from cosight.measures.answers import Answers
from cosight.measures.arithmetic import (
    BLOCK,
    ROUNDING,
    Pairs,
    blocks,
    check_confidence,
    divide,
    mean_or_nan,
    share_interval,
)
from cosight.measures.declarations import measures, pair_forms
from cosight.measures.draws import (
    check_resamples,
    compress,
    draw_stimuli,
    jackknife,
)

__all__ = [
    "Estimate",
    "Interval",
    "ResampledMean",
    "difference_of_shares",
    "mean_over_pairs",
    "mean_with_interval",
    "pair_estimate",
    "percentile_interval",
    "resample_mean_over_pairs",
    "share_intervals",
]

_FEW_POSITIONS = 16  # up to this number, partitioning is faster than sorting
_OUTERMOST, _FURTHEST = 1.25, 1.5  # percentiles are read up to so many normal ones; beyond, at most so much further
MOST_UNDEFINED = 0.1  # fraction of undefined resamples above which the interval is undefined


@dataclass(frozen=True, slots=True)
class Interval:
    """Percentile intervals, one per row of resampled values."""

    low: FloatArray
    high: FloatArray
    undefined: NDArray[np.int64]  # resamples in which the measure was undefined


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number, its interval and how it was computed."""

    value: float
    low: float
    high: float
    n: int
    confidence: float
    resamples: int
    note: str = ""


def difference_of_shares(values: FloatArray, low: FloatArray, high: FloatArray) -> tuple[float, float]:
    """Compute the interval of the difference of two shares from their own intervals (Newcombe 1998, method 10).

    It holds for shares of 0 and 1 too, of which resamples never leave 0 and 1. The shares are taken as independent;
    where stimuli make both high or low, the interval is conservative.

    Args:
        values: The two shares.
        low: The low ends of their intervals.
        high: The high ends.

    Returns:
        Both ends of the interval of the first less the second.

    >>> low, high = np.array([0.69183, 0.49045]), np.array([0.87695, 0.70038])  # Wilson, 56 of 70 and 48 of 80
    >>> [round(end, 4) for end in difference_of_shares(np.array([56 / 70, 48 / 80]), low, high)]
    [0.0524, 0.3339]
    """
    difference = values[0] - values[1]
    below = np.hypot(values[0] - low[0], high[1] - values[1])
    above = np.hypot(high[0] - values[0], values[1] - low[1])
    return float(difference - below), float(difference + above)


def percentile_interval(
    samples: FloatArray,
    values: FloatArray,
    *,
    n: FloatArray | None = None,
    min_high: FloatArray | None = None,
    biased: BoolArray | None = None,
    means: BoolArray | None = None,
    confidence: float = 0.95,
) -> Interval:
    """Compute the interval of each row of resamples around its estimate.

    The percentiles of the resamples, moved so that their median lies on the estimate: two distributions look less alike
    whenever their counts are resampled. Undefined resamples (nan) are left out and counted.

    Args:
        samples: Resampled values, (rows, resamples).
        values: The estimates from all data, (rows,).
        n: The trials that each value rests on. They widen the percentiles as t does for a mean (Hesterberg 2015): at
            30 trials by some 6 %.
        min_high: The least high end of each interval, nan for none.
        biased: The rows whose estimate is biased: as far as the median of its resamples lies from the estimate, the
            estimate lies from the truth. Their intervals are moved back as far, but not beyond the estimate.
        means: The rows that are means of items. Where items are skewed to the right, a low mean comes with a small
            spread and falls short of the truth, of which percentiles show only half. Both ends are moved by the other
            half, skewness (z^2 + 1) / 6 at the percentiles of a normal z (Hall 1992).
        confidence: Confidence of the intervals.

    Returns:
        The intervals; nan where the value is, where it rests on fewer than two trials, or where more than a tenth of
        the resamples are undefined.

    Raises:
        InvalidInput: If the confidence is not between 0 and 1.

    >>> samples = np.random.default_rng(0).normal(0.5, 0.1, (1, 10_000))
    >>> interval = percentile_interval(samples, np.array([0.5]))
    >>> interval.low.round(1), interval.high.round(1)
    (array([0.3]), array([0.7]))
    """
    check_confidence(confidence)
    undefined = np.isnan(samples).sum(axis=1)
    usable = (undefined <= MOST_UNDEFINED * samples.shape[1]) & ~np.isnan(values)
    z = np.full(len(samples), ndtri((1 + confidence) / 2))  # of the ends, in standard errors
    if n is not None:
        df = np.maximum(n, 2.0) - 1
        z = np.where(n >= 2, np.sqrt(1 + 1 / df) * stdtrit(df, (1 + confidence) / 2), np.nan)
    move = np.zeros(len(samples))
    if means is not None and means.any():
        move[means] = np.clip(_skewness(samples[means]) * (z[means] ** 2 + 1) / 6, -z[means], z[means])
    # resamples do not reach as far as t does for few units: further out, deviations are extrapolated
    inside = np.minimum(z, _OUTERMOST * ndtri((1 + confidence) / 2))
    further = np.minimum(z / inside, _FURTHEST)
    last = samples.shape[1] - undefined - 1
    positions = [probability * last for probability in (0.5, ndtr(move - inside), ndtr(move + inside))]
    # sort each row, nan last; only at the positions that are read where these are few, which is much faster
    read = np.concatenate([[np.floor(position), np.floor(position) + 1] for position in positions], axis=None)
    read = np.unique(np.clip(np.nan_to_num(read), 0, samples.shape[1] - 1)).astype(np.int64)
    ordered = np.partition(samples, read, axis=1) if len(read) <= _FEW_POSITIONS else np.sort(samples, axis=1)
    middle, low, high = (_interpolate(ordered, position) for position in positions)
    shift = np.where(usable, values - middle, np.nan)
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        low, high = (middle + further * (end - middle) + shift for end in (low, high))
    if biased is not None:
        back = np.where(biased, shift, 0.0)
        low, high = np.minimum(low + back, values), np.maximum(high + back, values)
    if min_high is not None:
        high = np.where(np.isnan(high), high, np.fmax(high, min_high))
    return Interval(low, high, undefined)


def share_intervals(
    samples: FloatArray,
    values: FloatArray,
    *,
    n: FloatArray,
    clusters: FloatArray,
    confidence: float = 0.95,
) -> Interval:
    """Compute the interval of each share from the number of independent trials that its resamples are worth.

    Percentiles have no width where every trial went the same way, and too little near 0 and 1. The spread of the
    resamples only says how many independent trials the value rests on, m = v (1 - v) / variance, corrected for few
    clusters as in Korn & Graubard (1998). Where trials of one kind are rare, the spread cannot tell how much the trials
    of a cluster go together, so 1 / m is averaged with that of one further rare trial whose cluster goes one way,
    1 / clusters. The interval is `share_interval` of v m successes in m trials. A share of n
    independent trials gets the mid-P interval of n trials, whatever the seed.

    Args:
        samples: Resampled values, (rows, resamples).
        values: The shares from all data, (rows,).
        n: The trials of each share, which m does not exceed; inf for a mean of shares, which varies less.
        clusters: The clusters that were resampled; m where all trials of all clusters went the same way. A mean of
            shares of 0 and 1 does not vary either; its variance is taken to be 1 / clusters².
        confidence: Confidence of the intervals.

    Returns:
        The intervals; nan where the value is, where there are fewer than two clusters, or where more than a tenth of
        the resamples are undefined.

    Raises:
        InvalidInput: If the confidence is not between 0 and 1.

    >>> all_right = share_intervals(np.ones((1, 99)), np.ones(1), n=np.array([30.0]), clusters=np.array([30.0]))
    >>> all_right.low.round(3).tolist(), all_right.high.tolist()
    ([0.905], [1.0])
    """
    check_confidence(confidence)
    defined = ~np.isnan(samples)
    count = defined.sum(axis=1)
    undefined = samples.shape[1] - count
    usable = (undefined <= MOST_UNDEFINED * samples.shape[1]) & ~np.isnan(values) & (clusters >= 2)
    mean = divide(np.where(defined, samples, 0.0).sum(axis=1), count.astype(np.float64))
    spread = np.where(defined, samples - mean[:, None], 0.0)
    variance = divide((spread**2).sum(axis=1), np.maximum(count - 1.0, 0.0))
    tail, units = (1 - confidence) / 2, np.maximum(clusters, 2.0)
    trials = np.maximum(n, 2.0)
    few = (1 - 1 / units) / (1 - 1 / trials) * (stdtrit(trials - 1, tail) / stdtrit(units - 1, tail)) ** 2
    varies = variance > ROUNDING**2
    flat = np.maximum(values * (1 - values) * units**2, units)  # as if one cluster went the other way
    worth = np.where(varies, values * (1 - values) / np.where(varies, variance, 1.0) * few, flat)
    noise = min(0.1, 2 * np.sqrt(2 / samples.shape[1]))  # twice the relative error of a variance of so many resamples
    worth = np.where(varies & (worth > n * (1 - noise)), n, np.minimum(worth, n))
    rare = np.minimum(values, 1 - values) * worth  # how many trials of the rarer kind the spread rests on
    worth = (rare + 1) / (rare / np.where(worth > 0, worth, 1.0) + 1 / units)  # 0: no trial at all
    worth = np.where(usable, np.maximum(worth, 1.0), np.nan)
    low, high = share_interval(np.clip(values, 0, 1) * worth, worth, confidence)
    return Interval(low, high, undefined)


def _skewness(samples: FloatArray) -> FloatArray:
    """Return the skewness of the finite samples of each row, at most 1 in size; 0 where nothing varies."""
    known = np.isfinite(samples)
    every = bool(known.all())
    finite = samples if every else np.where(known, samples, 0.0)
    count = np.maximum(known.sum(axis=1), 1)
    deviation = finite - (finite.sum(axis=1) / count)[:, None]
    if not every:
        deviation[~known] = 0.0
    squares = deviation**2
    variance, third = squares.sum(axis=1) / count, (squares * deviation).sum(axis=1) / count
    varies = variance > ROUNDING**2
    return np.where(varies, np.clip(third / np.where(varies, variance, 1.0) ** 1.5, -1.0, 1.0), 0.0)


def _interpolate(ordered: FloatArray, position: FloatArray) -> FloatArray:
    """Return the value of each sorted row at a fractional position; nan where the position is nan or negative."""
    inside = np.where(position >= 0, position, 0.0)
    below = np.floor(inside).astype(np.int64)
    rows = np.arange(len(ordered))
    above = np.minimum(below + 1, ordered.shape[1] - 1)
    part = inside - below
    mixed = np.where(part > 0, ordered[rows, below] * (1 - part) + ordered[rows, above] * part, ordered[rows, below])
    return np.where(position >= 0, mixed, np.nan)


def mean_over_pairs(values: FloatArray, pairs: Pairs, drawn: FloatArray, people: BoolArray) -> FloatArray:
    """Compute the mean over pairs in each resample, weighted by how often their people were drawn.

    Args:
        values: A value per pair and resample, (pairs, resamples).
        pairs: The observers of each pair, (pairs, 2). Two copies of one person are never a pair.
        drawn: How often each observer was drawn, (resamples, observers).
        people: Which observers were drawn; every other observer, a model, counts once.

    Returns:
        The means, (resamples,); nan where no pair is defined.

    >>> values, pairs = np.array([[0.2], [0.4], [0.9]]), np.array([[0, 1], [0, 2], [1, 2]])
    >>> drawn = np.array([[2.0, 1.0, 0.0]])  # the third person was not drawn
    >>> mean_over_pairs(values, pairs, drawn, np.array([True, True, True]))
    array([0.2])
    """
    times = np.where(people, drawn, 1.0)
    means = np.empty(values.shape[1])
    for part in blocks(len(means), len(pairs), most=BLOCK // 4):
        weight, of_part = (times[part, pairs[:, 0]] * times[part, pairs[:, 1]]).T, values[:, part]  # (pairs, resamples)
        if (undefined := np.isnan(of_part)).any():
            weight, of_part = np.where(undefined, 0.0, weight), np.where(undefined, 0.0, of_part)
        means[part] = divide((of_part * weight).sum(axis=0), weight.sum(axis=0))
    return means


@dataclass(frozen=True, slots=True)
class ResampledMean:
    """Resamples of a mean over pairs."""

    values: FloatArray  # (resamples,)
    units: float  # independent units that their spread is worth


def resample_mean_over_pairs(
    values: FloatArray, resampled: FloatArray, pairs: Pairs, drawn: FloatArray, people: BoolArray, *, clusters: float
) -> ResampledMean:
    """Resample a mean over pairs: its deviation over stimuli plus its deviation over people.

    Drawing stimuli and people at once counts the noise of single answers three times (Owen 2007), so intervals are up
    to 1.3 times too wide where it is most of the noise. The sum of two deviations, one of stimuli with these people and
    one of people with these stimuli, counts it twice.

    The spread of few people is poorly known. The units that both spreads are worth together are one more than the
    degrees of freedom of a sum of two variances (Satterthwaite 1946),
    (a + b)^2 / (a^2 / (people - 1) + b^2 / (clusters - 1)), with a the variance over people and b that over stimuli.

    Args:
        values: The value of each pair from all data, (pairs,).
        resampled: The values on resampled stimuli, (pairs, resamples).
        pairs: The observers of each pair, (pairs, 2).
        drawn: How often each observer was drawn, (resamples, observers).
        people: Which observers were drawn; every other observer, a model, counts once.
        clusters: The stimuli, or clusters of stimuli, that were resampled.

    Returns:
        The resampled means, nan where no pair is defined, and the number of units: `clusters` where nobody was drawn.

    >>> values, pairs = np.array([0.2, 0.4, 0.9]), np.array([[0, 1], [0, 2], [1, 2]])
    >>> drawn = np.array([[1.0, 1.0, 1.0], [2.0, 1.0, 0.0]])
    >>> shifted = values[:, None] + [0.1, 0.0]  # the first resample of stimuli raises every value
    >>> resample_mean_over_pairs(values, shifted, pairs, drawn, np.ones(3, dtype=bool), clusters=9).values.round(2)
    array([0.6, 0.2])
    """
    finite = np.where(np.isinf(values).any(), np.nan, values)  # an infinite mean has no interval
    over_stimuli = mean_over_pairs(resampled, pairs, drawn, np.zeros_like(people))
    if not people.any():
        return ResampledMean(over_stimuli, clusters)
    over_people = mean_over_pairs(np.broadcast_to(finite[:, None], resampled.shape), pairs, drawn, people)
    of_people, of_stimuli = (_variance(samples) for samples in (over_people, over_stimuli))
    count = len(np.unique(pairs[people[pairs]]))
    units = clusters
    if of_people > 0 and count > 1 and clusters > 1:
        parts = of_people**2 / (count - 1) + of_stimuli**2 / (clusters - 1)
        units = 1 + (of_people + of_stimuli) ** 2 / parts
    return ResampledMean(over_stimuli + over_people - mean_or_nan(finite[~np.isnan(finite)]), units)


def _variance(samples: FloatArray) -> float:
    """Return the variance of the defined samples; 0 without any."""
    defined = samples[~np.isnan(samples)]
    return float(defined.var()) if len(defined) else 0.0


def pair_estimate(
    measure: str, answers: Answers, *, resamples: int = 10_000, confidence: float = 0.95, rng: np.random.Generator
) -> Estimate:
    """Compute a measure of two observers with its interval over stimuli.

    Args:
        measure: Name or alias of a measure of pairs.
        answers: The answers of the two observers.
        resamples: The number of resamples.
        confidence: Confidence of the interval.
        rng: The source of randomness.

    Returns:
        The value and its interval; the note says how many resamples were undefined.

    Raises:
        InvalidInput: If there are not two observers.
        UnknownName: If no measure of pairs has this name.

    >>> table = Answers.of_correctness([1, 1, 0, 0] * 50, [1, 0, 0, 0] * 50)
    >>> estimate = pair_estimate("ec", table, rng=np.random.default_rng(0))
    >>> round(estimate.value, 2), estimate.low < .5 < estimate.high
    (0.5, True)
    """
    if answers.observers != 2:
        raise InvalidInput(f"a pair has two observers, got {answers.observers}; use cosight.compare for more")
    form = pair_forms[measures.name_of(measure)]
    pairs = np.array([[0, 1]])
    compressed = compress(answers)
    value, n = form.matrix(answers)[:1, 1], form.count(answers, pairs)
    min_high = None if form.min_high is None else form.min_high(answers, pairs, confidence)
    if form.at_equal_errors is None:
        weights = draw_stimuli(compressed.counts, resamples, rng)
        samples = form.resampled(compressed.answers, weights, pairs)
    else:
        left_out = jackknife(compressed.counts, resamples, rng)
        replicates = form.resampled(compressed.answers, left_out.weights, pairs)
        samples = value[:, None] + left_out.deviations(replicates)
    facts = measures[measure]
    if facts.share:
        interval = share_intervals(samples, value, n=n, clusters=n, confidence=confidence)
    else:
        interval = percentile_interval(
            samples, value, n=n, min_high=min_high, biased=np.array([form.biased]), confidence=confidence
        )
    note = f"{interval.undefined[0]} of {resamples} resamples undefined" if interval.undefined[0] else ""
    low, high = np.clip([interval.low[0], interval.high[0]], facts.low, facts.high)
    return Estimate(float(value[0]), float(low), float(high), int(n[0]), confidence, resamples, note)


def mean_with_interval(
    items: ArrayLike,
    *,
    bounds: tuple[float, float] = (-np.inf, np.inf),
    answers: int | None = None,
    resamples: int = 10_000,
    confidence: float = 0.95,
    rng: np.random.Generator,
) -> Estimate:
    """Compute the mean of per-item values (say, a distance per stimulus) with its interval over items.

    Args:
        items: One value per item; nan items are left out and counted in the note.
        bounds: The range that a mean can have: the ends of the interval stay inside it.
        answers: The yes-or-no answers behind all items, if each item is a share of some: the interval is then that of
            a share (`share_intervals`).
        resamples: The number of resamples.
        confidence: Confidence of the interval.
        rng: The source of randomness.

    Returns:
        The mean and its interval. All is nan without items; only the interval is with one item, or an infinite mean.

    Raises:
        InvalidInput: If `items` is not one-dimensional, or `resamples` or `confidence` is out of range.

    >>> mean_with_interval([0.5, 0.5, 0.5], rng=np.random.default_rng(0)).high
    0.5
    """
    check_resamples(resamples)
    values = np.asarray(items, dtype=np.float64)
    if values.ndim != 1:
        raise InvalidInput(f"items must be one-dimensional, got shape {values.shape}")
    defined = values[~np.isnan(values)]
    n, mean = len(defined), mean_or_nan(defined)
    note = f"{len(values) - n} undefined items left out" if n < len(values) else ""
    if not np.isfinite(mean):
        return Estimate(mean, float("nan"), float("nan"), n, confidence, resamples, note)
    samples = np.array([defined[rng.integers(0, n, n)].mean() for _ in range(resamples)])
    value, items_used = np.array([mean]), np.array([float(n)])
    if answers is None:
        is_mean = np.array([True])
        interval = percentile_interval(samples[None], value, n=items_used, means=is_mean, confidence=confidence)
    else:
        trials = np.array([float(answers)])
        interval = share_intervals(samples[None], value, n=trials, clusters=items_used, confidence=confidence)
    low, high = np.clip([interval.low[0], interval.high[0]], *bounds)
    return Estimate(mean, float(low), float(high), n, confidence, resamples, note)

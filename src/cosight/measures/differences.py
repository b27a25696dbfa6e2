"""Differences and ranks of observers.

They are read off shared resamples, so that what makes all observers look better or worse in a resample cancels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri, stdtrit

from cosight.arrays import FloatArray
from cosight.measures.arithmetic import (
    check_confidence,
)
from cosight.measures.declarations import Direction
from cosight.measures.uncertainty import MOST_UNDEFINED, Interval, percentile_interval

__all__ = [
    "PairedDifference",
    "holm",
    "paired_difference",
    "paired_differences",
    "rank_intervals",
    "ranks",
    "ranks_of_differences",
]

_NOISE = 1e-12  # a smaller difference is float rounding


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """The first observer's value minus the second's, on the same resamples."""

    value: float
    low: float
    high: float
    p: float  # two-sided, for no difference
    at_resolution: bool = False  # no resample contradicts the difference: the true p is `p` or less


def paired_difference(
    a: float,
    b: float,
    a_samples: FloatArray,
    b_samples: FloatArray,
    *,
    n: float | None = None,
    confidence: float = 0.95,
) -> PairedDifference:
    """Compute a - b with its interval and p-value from shared resamples.

    p = 2 min(fraction of moved differences at or below 0, fraction at or above), with one resample added to each side,
    so that it is never 0; moved as in `percentile_interval`.

    Args:
        a: The first observer's value.
        b: The second observer's value.
        a_samples: The first observer's resampled values, (resamples,).
        b_samples: The second observer's on the same resamples.
        n: The trials behind the values; few trials widen the interval.
        confidence: Confidence of the interval.

    Returns:
        The difference, its interval and p; nan where a or b is, or where more than a tenth of the resamples are.

    Raises:
        InvalidInput: If the confidence is not between 0 and 1.

    >>> same = np.linspace(-1, 1, 99)
    >>> paired_difference(0.5, 0.5, same, same).p
    1.0
    """
    samples, trials = (a_samples - b_samples)[None], None if n is None else np.array([n])
    return paired_differences(samples, np.array([a - b]), n=trials, confidence=confidence)[0]


def paired_differences(
    samples: FloatArray, values: FloatArray, *, n: FloatArray | None = None, confidence: float = 0.95
) -> list[PairedDifference]:
    """Compute the interval and p-value of several differences, as `paired_difference` does for one.

    Args:
        samples: Resampled differences, (differences, resamples).
        values: The differences from all data, (differences,).
        n: The trials behind each; few trials widen the interval.
        confidence: Confidence of the intervals.

    Returns:
        One paired difference per row.

    Raises:
        InvalidInput: If the confidence is not between 0 and 1.

    >>> [found.p for found in paired_differences(np.linspace(-1, 1, 99)[None], np.array([0.0]))]
    [1.0]
    """
    interval = percentile_interval(samples, values, n=n, confidence=confidence)
    found = np.flatnonzero(~np.isnan(interval.low))
    p, at_resolution = np.full(len(values), np.nan), np.zeros(len(values), dtype=np.bool_)
    defined = samples.shape[1] - interval.undefined[found]
    median = np.nanmedian if interval.undefined[found].any() else np.median
    moved = _without_noise(samples[found] - median(samples[found], axis=1)[:, None] + values[found, None])
    least = np.minimum(np.count_nonzero(moved <= 0, axis=1), np.count_nonzero(moved >= 0, axis=1))
    p[found], at_resolution[found] = np.minimum(1.0, 2 * (least + 1) / (defined + 1)), least == 0
    columns = (values, _without_noise(interval.low), _without_noise(interval.high), p, at_resolution)
    return [PairedDifference(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def _without_noise(differences: FloatArray) -> FloatArray:
    """Return differences with float noise around 0 set to 0: equal shares stay equal after they were moved."""
    return np.where(np.abs(differences) < _NOISE, 0.0, differences)


def holm(p: ArrayLike) -> FloatArray:
    """Adjust p-values of several tests, so that a false positive among them is as rare as in one test (Holm 1979).

    The k-th smallest of m is multiplied by m - k + 1, at most 1 and never below the one before it.

    Args:
        p: The p-values; nan stays nan and does not count as a test.

    Returns:
        The adjusted p-values, in the same order.

    >>> holm([0.01, 0.04, 0.03]).round(2).tolist()
    [0.03, 0.06, 0.06]
    """
    values = np.asarray(p, dtype=np.float64)
    adjusted = np.full(values.shape, np.nan)
    order = np.argsort(values)[: np.count_nonzero(~np.isnan(values))]  # nan sorts last
    steps = values[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted


def ranks(values: FloatArray, *, direction: Direction = "higher") -> FloatArray:
    """Rank values along the first axis, 1 for the best.

    Args:
        values: The values; nan stays nan.
        direction: Whether higher or lower values are better.

    Returns:
        The ranks, in the shape of `values`; ties get their mean rank.

    >>> ranks(np.array([.3, .9, .3]))
    array([2.5, 1. , 2.5])
    """
    signed = -values if direction == "higher" else values
    defined = ~np.isnan(signed)
    better = (signed[None] < signed[:, None]) & defined
    tied = (signed[None] == signed[:, None]) & defined
    return np.where(defined, better.sum(axis=1) + (tied.sum(axis=1) + 1) / 2, np.nan)


def ranks_of_differences(differences: FloatArray, *, direction: Direction = "higher") -> FloatArray:
    """Rank observers by their differences: 1 plus the number of better observers.

    Args:
        differences: The first observer's value minus the second's, (observers, observers). nan on the diagonal marks an
            undefined value, whose rank is nan.
        direction: Whether higher or lower values are better.

    Returns:
        The ranks, (observers,); observers that do not differ get their mean rank.

    >>> ranks_of_differences(np.subtract.outer([.3, .9, .3], [.3, .9, .3]))
    array([2.5, 1. , 2.5])
    """
    better = differences > 0 if direction == "lower" else differences < 0
    rank = better.sum(axis=1) + ((differences == 0).sum(axis=1) + 1) / 2
    return np.where(np.isnan(np.diag(differences)), np.nan, rank)


def rank_intervals(
    differences: FloatArray,
    samples: FloatArray,
    *,
    n: FloatArray | None = None,
    spread: FloatArray | None = None,
    direction: Direction = "higher",
    confidence: float = 0.95,
) -> Interval:
    """Compute the interval of each observer's rank from its differences to all others, which hold simultaneously.

    Ranks of resamples would be too certain: resamples vary around the observed values, so that two observers that are
    alike keep the order of this study in most of them. Instead, observer i is compared with every other one (Mogstad,
    Romano, Shaikh & Wilhelm 2024): i is worse than j if their difference exceeds c s, s being its standard deviation
    over resamples and c the `confidence` quantile, over resamples, of the largest of all |deviations of the
    differences of i| / s. The interval is 1 + how many observers are better than i to the number of observers - how
    many are worse: it holds the true rank with at least `confidence`, and of observers that are alike fewer than
    1 - confidence get a rank without doubt.

    Args:
        differences: The first value less the second of every two observers, from all data, (observers, observers); nan
            where one is undefined, and so on the diagonal.
        samples: Resampled values on shared resamples, (observers, resamples).
        n: The trials that each value rests on. They widen c as t does for a mean.
        spread: The standard deviation of each difference, (observers, observers), where that of the resamples is not
            the right one; nan elsewhere.
        direction: Which values are better.
        confidence: Confidence of each interval.

    Returns:
        The intervals; nan where the value is undefined, or where more than a tenth of its resamples are. An observer
        that cannot be compared with another is neither better nor worse.

    Raises:
        InvalidInput: If the confidence is not between 0 and 1.

    >>> shared = np.random.default_rng(0).normal(size=(3, 500))
    >>> values = np.array([9.0, 0.5, 0.0])
    >>> found = rank_intervals(np.subtract.outer(values, values), shared)
    >>> found.low.tolist(), found.high.tolist()
    ([1.0, 2.0, 2.0], [1.0, 3.0, 3.0])
    """
    check_confidence(confidence)
    defined = ~np.isnan(np.diag(differences))
    undefined = np.isnan(samples).sum(axis=1)
    ranked = np.flatnonzero(defined & (undefined <= MOST_UNDEFINED * samples.shape[1]))
    better = differences if direction == "higher" else -differences
    low, high = np.full(len(samples), np.nan), np.full(len(samples), np.nan)
    for i in ranked:
        low[i], high[i] = 1.0, float(defined.sum())
        others = ranked[ranked != i]
        deviation = samples[others] - samples[i]
        deviation -= np.nanmean(deviation, axis=1, keepdims=True)
        own = np.sqrt(np.nanmean(deviation**2, axis=1))
        varies = own > 0
        largest = np.nanmax(np.abs(deviation[varies]) / own[varies, None], axis=0, initial=0.0)
        if spread is not None:
            own = np.where(np.isnan(spread[others, i]), own, spread[others, i])
        critical = np.quantile(largest, confidence) * own
        if n is not None:
            df, tail = np.maximum(np.minimum(n[others], n[i]), 2.0) - 1, (1 - confidence) / 2
            critical = critical * np.sqrt(1 + 1 / df) * stdtrit(df, tail) / ndtri(tail)
        low[i] += np.count_nonzero(better[others, i] > critical)
        high[i] -= np.count_nonzero(better[i, others] > critical)
    return Interval(low, high, undefined)

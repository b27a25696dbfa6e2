"""Two observers against the same people: is the one really closer, and which rank has it?

Everything is read off resamples that the observers share, so that what makes all of them look better or worse in a
resample cancels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cosight.arrays import FloatArray
from cosight.measures.facts import Direction
from cosight.measures.uncertainty import Interval, percentile_interval

__all__ = ["PairedDifference", "holm", "paired_difference", "rank_intervals", "ranks"]


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """The first observer's value less the second's, on the same resamples."""

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
    """a - b with its interval and p-value from shared resamples (resamples,); `n` trials widen it if they are few.

    p = 2 min(share of moved differences at or below 0, share at or above), with one resample added to each side, so
    that it is never 0; moved as in `percentile_interval`. nan where a or b is, or where a tenth of the resamples are.

    >>> same = np.linspace(-1, 1, 99)
    >>> paired_difference(0.5, 0.5, same, same).p
    1.0
    """
    samples, value = a_samples - b_samples, np.array([a - b])
    trials = None if n is None else np.array([n])
    interval = percentile_interval(samples[None], value, n=trials, confidence=confidence)
    if np.isnan(interval.low[0]):
        return PairedDifference(float(value[0]), float("nan"), float("nan"), float("nan"))
    kept = samples[~np.isnan(samples)]
    moved = kept - np.median(kept) + value[0]
    least = min(np.count_nonzero(moved <= 0), np.count_nonzero(moved >= 0))
    p = min(1.0, 2 * (least + 1) / (len(moved) + 1))
    return PairedDifference(float(value[0]), float(interval.low[0]), float(interval.high[0]), p, least == 0)


def holm(p: ArrayLike) -> FloatArray:
    """Adjust p-values of several tests so that any false positive among them is as rare as in one (Holm 1979).

    The k-th smallest of m is multiplied by m - k + 1, at most 1 and never below the one before it. nan stays nan and
    does not count as a test.

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
    """Rank 1 for the best along the first axis; ties share their mean rank, nan has none.

    >>> ranks(np.array([.3, .9, .3]))
    array([2.5, 1. , 2.5])
    """
    signed = -values if direction == "higher" else values
    defined = ~np.isnan(signed)
    better = (signed[None] < signed[:, None]) & defined
    tied = (signed[None] == signed[:, None]) & defined
    return np.where(defined, better.sum(axis=1) + (tied.sum(axis=1) + 1) / 2, np.nan)


def rank_intervals(samples: FloatArray, *, direction: Direction = "higher", confidence: float = 0.95) -> Interval:
    """Percentile interval of each observer's rank over shared resamples (observers, resamples)."""
    ranked = np.stack([ranks(column, direction=direction) for column in samples.T], axis=1)
    ends = [(1 - confidence) / 2, (1 + confidence) / 2]
    undefined = np.isnan(ranked).sum(axis=1)
    low, high = np.full(len(ranked), np.nan), np.full(len(ranked), np.nan)
    for row in np.flatnonzero(undefined <= 0.1 * ranked.shape[1]):
        low[row], high[row] = np.quantile(ranked[row][~np.isnan(ranked[row])], ends, method="nearest")
    return Interval(low, high, undefined)

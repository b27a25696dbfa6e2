"""How likely is it? Sums and means of unequal chances, and runs among them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import special

from cosight.arrays import FloatArray

__all__ = ["at_least", "at_most", "longest_run", "mean_bound", "run_bound"]


def at_least(shares: FloatArray, count: int) -> float:
    """Chance that `count` or more of independent events with these probabilities happen (Poisson binomial).

    >>> at_least(np.array([0.5, 0.5]), 1)
    0.75
    """
    return float(_sums(shares)[count:].sum())


def at_most(shares: FloatArray, count: int) -> float:
    """Chance that `count` or fewer of independent events with these probabilities happen."""
    return float(_sums(shares)[: count + 1].sum())


def _sums(shares: FloatArray) -> FloatArray:
    """Chance of 0, 1, ... events, adding one event after the other: nothing is subtracted, so tails stay exact."""
    chances = np.zeros(len(shares) + 1)
    chances[0] = 1.0
    for place, share in enumerate(shares, start=1):
        chances[1 : place + 1] = chances[1 : place + 1] * (1 - share) + chances[:place] * share
        chances[0] *= 1 - share
    return chances


def mean_bound(mean: float, expected: float, n: int) -> float:
    """At most how likely the mean of `n` independent numbers in [0, 1] is as low as `mean` when `expected` is expected.

    exp(-n KL(mean, expected)), KL the divergence of two coins (Hoeffding 1963, theorem 1); 1 where it is not low.

    >>> round(mean_bound(0.1, 0.5, 20), 5)
    0.00064
    """
    if mean >= expected:
        return 1.0
    apart = special.rel_entr(mean, expected) + special.rel_entr(1 - mean, 1 - expected)
    return float(np.exp(-n * apart))


def longest_run(values: Sequence[str]) -> tuple[int, int]:
    """The length of the longest run of one value, and where it begins; (0, 0) for none.

    >>> longest_run(["a", "b", "b", "b", "a"])
    (3, 1)
    """
    best, start = (0, 0), 0
    for place, value in enumerate(values):
        if value != values[start]:
            start = place
        best = max(best, (place - start + 1, start), key=lambda run: run[0])
    return best


def run_bound(shares: FloatArray, length: int) -> float:
    """At most how likely a run of `length` events is anywhere: the sum over all places where it could begin.

    >>> run_bound(np.array([0.5, 0.5, 0.5]), 2)
    0.5
    """
    windows = np.lib.stride_tricks.sliding_window_view(shares, length)
    return float(windows.prod(axis=1).sum())

"""Arithmetic that several measures share: quotients, sums over trials, blocks, checks of intervals and plans."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import betainc, betaincinv, gammaincinv, ndtri

from cosight.arrays import FloatArray, fraction
from cosight.errors import InvalidInput

__all__ = [
    "BLOCK",
    "MOST_TRIALS",
    "ROUNDING",
    "SCARCE",
    "Pairs",
    "Weights",
    "blocks",
    "centred",
    "check_confidence",
    "check_width",
    "divide",
    "kappa_of_counts",
    "mean_or_nan",
    "normal_z",
    "scarce_limit",
    "share_interval",
    "summed",
]

Pairs = NDArray[np.int64]  # (pairs, 2): indices of observers
Weights = NDArray[np.float32]  # (resamples, stimuli): how often each stimulus was drawn

BLOCK = 1 << 24  # numbers in one intermediate array: about 100 MB
SCARCE = 3  # an event observed less often than this varies too little over resamples
MOST_TRIALS = 1 << 53  # float64 cannot represent every whole number above this
ROUNDING = 1e-9  # a cell or an end of a range that is off by less is off by rounding


def divide(above: FloatArray, below: FloatArray) -> FloatArray:
    """Return above / below, nan where `below` is 0."""
    out = np.full(np.shape(above), np.nan)
    np.divide(above, below, out=out, where=np.asarray(below) != 0)
    return out


def mean_or_nan(items: FloatArray) -> float:
    """Return the mean of the items, nan if there are none."""
    return float(items.mean()) if items.size else math.nan


def kappa_of_counts(n: FloatArray, agree: FloatArray, chance: FloatArray) -> FloatArray:
    """Compute Cohen's kappa (agree / n - p_e) / (1 - p_e) from counts, p_e = chance / n^2; nan where p_e is 1.

    Args:
        n: Number of trials.
        agree: Number of trials on which both observers are in the same class.
        chance: Sum over classes of the product of the two observers' counts.
    """
    return divide(n * agree - chance, n * n - chance)


def summed(row: NDArray[np.int64], stimulus: NDArray[np.int64], columns: NDArray[np.float32], rows: int) -> FloatArray:
    """Sum the weights (stimuli, resamples) of the stimuli that belong to each row; (rows, resamples)."""
    ones = np.ones(len(row), dtype=np.float32)
    chosen = csr_array((ones, (row, stimulus)), shape=(rows, len(columns)))
    return np.asarray(chosen @ columns, dtype=np.float64)


def blocks(length: int, width: int, *, most: int) -> Iterator[slice]:
    """Return slices of 0 ... length with about `most` numbers each, `width` numbers per index.

    >>> list(blocks(5, 10, most=20))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 6, None)]
    """
    step = max(1, most // max(1, width))
    return (slice(start, start + step) for start in range(0, length, step))


def centred(x: FloatArray) -> FloatArray:
    """Return columns with mean zero; subtracting the first row first leaves a constant set at exactly zero.

    >>> centred(np.array([[0.1, 1.0], [0.1, 3.0]]))
    array([[ 0., -1.],
           [ 0.,  1.]])
    """
    shifted = x - x[:1]
    return np.asarray(shifted - shifted.mean(axis=0))


def scarce_limit(count: FloatArray, confidence: float) -> FloatArray:
    """Return the upper limit of the expected count of an event observed 0, 1 or 2 times; nan for other counts.

    Where an event is that rare, resamples vary too little: an event that never occurred occurs in none of them. The
    limit is that of a Poisson mean with Jeffreys' prior (Brown, Cai & DasGupta 2003, Statistica Sinica 13).

    >>> scarce_limit(np.array([0.0, 1.0, 9.0]), 0.95).round(2).tolist()
    [2.51, 4.67, nan]
    """
    return np.where(count < SCARCE, gammaincinv(count + 0.5, (1 + confidence) / 2), np.nan)


def share_interval(successes: FloatArray, n: FloatArray, confidence: float) -> tuple[FloatArray, FloatArray]:
    """Compute the mid-P interval of each share x / n (Lancaster 1961; Berry & Armitage 1995).

    The low end p solves (I_p(x, n - x + 1) + I_p(x + 1, n - x)) / 2 = (1 - confidence) / 2, I being the regularised
    incomplete beta function: P(X > x) + P(X = x) / 2 of a binomial X with probability p. The high end mirrors it. Its
    coverage is about `confidence` also near 0 and 1, where that of Wilson's and Jeffreys' intervals falls to .87, and
    it is shorter than Clopper and Pearson's. Effective numbers, which are not whole, are allowed.

    Args:
        successes: x, 0 to n.
        n: Trials, above 0; nan gives nan.
        confidence: Confidence of the intervals.

    Returns:
        The low and the high ends; exactly 0 where x is 0, and exactly 1 where x is n.

    >>> [end.round(3).tolist() for end in share_interval(np.array([0.0, 5.0]), np.array([10.0, 10.0]), 0.95)]
    [[0.0, 0.212], [0.259, 0.788]]
    """
    tail = (1 - confidence) / 2
    pairs = np.stack([np.asarray(successes, dtype=np.float64).ravel(), np.asarray(n, dtype=np.float64).ravel()])
    (x, trials), index = np.unique(pairs, axis=1, return_inverse=True)

    def low_end(x: FloatArray) -> FloatArray:
        some, not_all = x > 0, x < trials
        a, b = np.where(some, x, 1.0), np.where(not_all, trials - x, 1.0)
        # Clopper and Pearson's low ends of x and of x + 1 enclose it
        low, high = betaincinv(a, trials - x + 1, tail), np.where(not_all, betaincinv(x + 1, b, tail), 1.0)
        for _ in range(50):
            middle = (low + high) / 2
            above = betainc(a, trials - x + 1, middle) + np.where(not_all, betainc(x + 1, b, middle), 0.0)
            low, high = np.where(above < 2 * tail, middle, low), np.where(above < 2 * tail, high, middle)
        return np.where(some, (low + high) / 2, 0.0)

    low, high = low_end(x), 1 - low_end(trials - x)
    undefined = np.isnan(x) | np.isnan(trials)
    shape = np.shape(successes)
    low, high = (np.where(undefined, np.nan, end)[index.ravel()].reshape(shape) for end in (low, high))
    return low, high


def check_confidence(confidence: float) -> None:
    """Raise unless the confidence of an interval lies between 0 and 1."""
    fraction(confidence, name="confidence", ends=False)


def normal_z(confidence: float) -> float:
    """Return how many standard errors a normal interval of this confidence extends to either side."""
    check_confidence(confidence)
    return float(ndtri((1 + confidence) / 2))


def check_width(width: float, most: float) -> None:
    """Raise unless the width of an interval is above 0 and within the range of the measure."""
    if not (0 < width <= most and math.isfinite(width)):
        limit = f" and at most {most:g}, the range" if math.isfinite(most) else ""
        raise InvalidInput(f"width must be above 0{limit}, got {width}; it is the distance between the interval's ends")

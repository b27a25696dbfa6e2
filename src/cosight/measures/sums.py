"""Small arithmetic that several measures share: sums over trials, quotients, blocks, centring."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import gammaincinv

from cosight.arrays import FloatArray

__all__ = ["BLOCK", "SCARCE", "Pairs", "Weights", "blocks", "centred", "divide", "scarce_limit", "summed"]

Pairs = NDArray[np.int64]  # (pairs, 2): indices of observers
Weights = NDArray[np.float32]  # (resamples, stimuli): how often each stimulus was drawn

SCARCE = 3  # an event seen less often than this varies too little over resamples
BLOCK = 1 << 24  # numbers in one intermediate array: about 100 MB


def divide(above: FloatArray, below: FloatArray) -> FloatArray:
    """above / below, nan where `below` is 0."""
    out = np.full(np.shape(above), np.nan)
    np.divide(above, below, out=out, where=np.asarray(below) != 0)
    return out


def summed(row: NDArray[np.int64], stimulus: NDArray[np.int64], columns: NDArray[np.float32], rows: int) -> FloatArray:
    """Sum the weights (stimuli, resamples) of the stimuli that belong to each row; (rows, resamples)."""
    ones = np.ones(len(row), dtype=np.float32)
    chosen = csr_array((ones, (row, stimulus)), shape=(rows, len(columns)))
    return np.asarray(chosen @ columns, dtype=np.float64)


def blocks(length: int, width: int, *, most: int) -> Iterator[slice]:
    """Slices of 0 ... length that hold about `most` numbers each, `width` to an index.

    >>> list(blocks(5, 10, most=20))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 6, None)]
    """
    step = max(1, most // max(1, width))
    return (slice(start, start + step) for start in range(0, length, step))


def scarce_limit(count: FloatArray, confidence: float) -> FloatArray:
    """How often an event may be expected that was seen 0, 1 or 2 times; nan for other counts.

    Where an event is that rare, resamples vary too little: none of a study without it has it. The upper limit is that
    of a Poisson mean with Jeffreys' prior (Brown, Cai & DasGupta 2003, Statistica Sinica 13).

    >>> scarce_limit(np.array([0.0, 1.0, 9.0]), 0.95).round(2).tolist()
    [2.51, 4.67, nan]
    """
    return np.where(count < SCARCE, gammaincinv(count + 0.5, (1 + confidence) / 2), np.nan)


def centred(x: FloatArray) -> FloatArray:
    """Columns with mean zero; taking the first row off first leaves a constant set at exactly zero.

    >>> centred(np.array([[0.1, 1.0], [0.1, 3.0]]))
    array([[ 0., -1.],
           [ 0.,  1.]])
    """
    shifted = x - x[:1]
    return np.asarray(shifted - shifted.mean(axis=0))

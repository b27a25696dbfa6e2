"""Sums over trials that the measures of errors share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from cosight.arrays import FloatArray

__all__ = ["BLOCK", "Pairs", "Weights", "divide", "summed"]

Pairs = NDArray[np.int64]  # (pairs, 2): indices of observers
Weights = NDArray[np.float32]  # (resamples, stimuli): how often each stimulus was drawn

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

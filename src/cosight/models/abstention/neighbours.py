"""KNN: how far is the K-th nearest training image?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cosight.arrays import FloatArray, IntArray
from cosight.errors import InvalidInput
from cosight.models.abstention.inputs import checked_features

__all__ = ["FittedNeighbours", "NearestNeighbours"]

_NAME = "knn"
_CELLS = 16_000_000  # similarities held at once, 64 MB
_FOLD = 16  # columns whose highest stands for them; of 8, 16 and 32 the fastest for 12,500 rows and K = 50
_Singles = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class FittedNeighbours:
    """Training features of length one, (N, D), and the number of neighbours."""

    rows: _Singles
    neighbours: int

    def strangeness(self, features: ArrayLike | None, logits: ArrayLike | None) -> FloatArray:
        """Distance (n,) to the K-th nearest row.

        It is searched for in float32 (a row whose squared distance differs by less than 1e-6 may take its place) and
        then computed in float64.
        """
        table = checked_features(features, who=_NAME, dimensions=self.rows.shape[1])
        units = table / _lengths(table)
        found, step = np.empty(len(units)), max(1, _CELLS // len(self.rows))
        for start in range(0, len(units), step):
            part = units[start : start + step]
            kth = _kth_highest(part.astype(np.float32) @ self.rows.T, self.neighbours)
            found[start : start + step] = np.linalg.norm(part - self.rows[kth], axis=1)
        return found


@dataclass(frozen=True, slots=True)
class NearestNeighbours:
    """KNN: the Euclidean distance to the K-th nearest training image, all features scaled to length one.

    From 0 (K training images in the same direction) to 2. Source: Sun et al. 2022; K = 50 as in Lee et al. 2023.
    """

    neighbours: int = 50

    def __post_init__(self) -> None:
        if self.neighbours < 1:
            raise InvalidInput(f"neighbours must be 1 or more, got {self.neighbours}; 50 is the usual number")

    def fit(self, features: ArrayLike | None, logits: ArrayLike | None, labels: ArrayLike | None) -> FittedNeighbours:
        """Keep the directions of features (N, D), N >= K, as float32."""
        table = checked_features(features, who=_NAME)
        if len(table) < self.neighbours:
            raise InvalidInput(
                f"{_NAME} needs as many training features as neighbours, got {len(table)} for {self.neighbours}; "
                "add images or set fewer neighbours"
            )
        rows = np.empty(table.shape, np.float32)
        np.divide(table, _lengths(table), out=rows, casting="same_kind")  # no second float64 table
        return FittedNeighbours(rows, self.neighbours)


def _lengths(table: FloatArray) -> FloatArray:
    """Lengths (n, 1) of rows, none of them zero."""
    lengths: FloatArray = np.sqrt(np.einsum("nd,nd->n", table, table))[:, None]
    if not lengths.all():
        raise InvalidInput(f"{_NAME} needs features with a direction, row {int(lengths.argmin())} is all zeros")
    return lengths


def _kth_highest(table: _Singles, k: int) -> IntArray:
    """In which column (n,) each row's k-th highest value stands.

    The k-th highest of the maxima of disjoint groups of columns cannot exceed it: only what reaches that is sorted.
    """
    groups = table.shape[1] // _FOLD
    if groups < k:
        return np.argpartition(table, -k, axis=1)[:, -k]
    tops = table[:, : groups * _FOLD].reshape(len(table), _FOLD, groups).max(axis=1)
    tops.partition(groups - k, axis=1)
    return np.array([_kth_of(row, least, k) for row, least in zip(table, tops[:, groups - k], strict=True)], np.int64)


def _kth_of(row: _Singles, least: np.float32, k: int) -> int:
    columns = np.flatnonzero(row >= least)
    return int(columns[np.argpartition(row[columns], -k)[-k]])

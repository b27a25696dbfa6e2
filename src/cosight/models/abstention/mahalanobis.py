"""MD: how far, in units of the spread within classes, is the nearest class?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cosight.arrays import FloatArray, IntArray
from cosight.models.abstention.inputs import checked_features, checked_labels, class_count
from cosight.models.abstention.whitening import Whitening, checked_ridge, checked_spread, whitening

__all__ = ["FittedMahalanobis", "Mahalanobis", "class_means"]

_NAME = "md"


@dataclass(frozen=True, slots=True, eq=False)
class FittedMahalanobis:
    """The classes' means, in coordinates whose origin is the mean of all features and whose unit is their spread."""

    centre: FloatArray  # (D,)
    white: Whitening
    means: FloatArray  # (classes, D), whitened

    def strangeness(self, features: ArrayLike | None, logits: ArrayLike | None) -> FloatArray:
        """Mahalanobis distance (n,) from features (n, D) to the nearest class."""
        table = checked_features(features, who=_NAME, dimensions=len(self.centre))
        rows = self.white(table - self.centre)
        # |row - mean|^2 less |row|^2, which is the same for every class
        order = np.einsum("cd,cd->c", self.means, self.means) - 2 * rows @ self.means.T
        nearest = order.argmin(axis=1)
        distances: FloatArray = np.linalg.norm(rows - self.means[nearest], axis=1)
        return distances


@dataclass(frozen=True, slots=True)
class Mahalanobis:
    """MD: the least Mahalanobis distance to the mean of a class; all classes share one covariance.

    The covariance is that of the features less their class's mean, divided by their number (Lee et al. 2018, Eq. 1),
    plus `ridge` times its mean variance on the diagonal. Without a ridge the distance is the same whatever invertible
    affine map the features went through; with it, whatever rotation, shift and common scale. Directions in which
    training images do not vary (fewer images than dimensions, dead units) have the ridge alone: an image that departs
    in one of them is very strange. Without a ridge such features are refused.
    """

    ridge: float = 1e-6

    def __post_init__(self) -> None:
        checked_ridge(self.ridge)

    def fit(self, features: ArrayLike | None, logits: ArrayLike | None, labels: ArrayLike | None) -> FittedMahalanobis:
        """Learn from features (N, D) and labels (N,), two images or more of every class."""
        table = checked_features(features, who=_NAME)
        classes = class_count(logits, labels, who=_NAME)
        truth = checked_labels(labels, rows=len(table), classes=classes, who=_NAME, least=2)
        means, centre = class_means(table, truth), table.mean(axis=0)
        covariance = _within(table, truth, means) / len(table)
        spread = checked_spread(float(np.trace(covariance)) / len(covariance), table, who=_NAME)
        covariance.flat[:: len(covariance) + 1] += self.ridge * spread
        white = whitening(covariance, who=_NAME)
        return FittedMahalanobis(centre, white, white(means - centre))


def class_means(rows: FloatArray, truth: IntArray) -> FloatArray:
    """Means (classes, D) of rows (N, D); every class from 0 to the highest must have one.

    >>> class_means(np.array([[1.0], [5.0], [3.0]]), np.array([0, 1, 0]))
    array([[2.],
           [5.]])
    """
    return np.stack([rows[truth == index].mean(axis=0) for index in range(truth.max() + 1)])


def _within(rows: FloatArray, truth: IntArray, means: FloatArray) -> FloatArray:
    """Sum (D, D) of the products of rows less their class's mean; a class at a time, to spare memory."""
    total = np.zeros((rows.shape[1], rows.shape[1]))
    for index, mean in enumerate(means):
        own = rows[truth == index] - mean
        total += own.T @ own
    return total

"""Gaussian mixtures with a full covariance for each cluster, fitted by expectation maximisation.

The steps are those of scikit-learn's `GaussianMixture`, and so are the results from the same start. They are faster:
whitening is a triangular product, a covariance a symmetric one, and rows that hardly belong to a cluster are left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from cosight.arrays import FloatArray
from cosight.errors import InvalidInput
from cosight.models.abstention.whitening import Whitening, whitening

__all__ = ["Mixture", "fit_mixture", "nearest_starts"]

_TOLERANCE = 1e-3  # change of the mean log-likelihood at which to stop; scikit-learn's default
_STEPS = 100  # at most; scikit-learn's default
_EPSILON = float(np.finfo(np.float64).eps)
_LLOYD_STEPS = 10  # of k-means, before the mixture takes over


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """k clusters of D dimensions; `converged` says whether it stopped by itself."""

    shares: FloatArray  # (k,)
    means: FloatArray  # (k, D)
    whites: tuple[Whitening, ...]
    steps: int = 0
    converged: bool = False

    def squared_distances(self, rows: FloatArray) -> FloatArray:
        """Squared Mahalanobis distance (n, k) from each row to each cluster."""
        pairs = zip(self.whites, self.means, strict=True)
        return np.stack([white.lengths(rows - mean) for white, mean in pairs], axis=1)

    def log_densities(self, rows: FloatArray) -> FloatArray:
        """Logarithm (n, k) of each cluster's share times its density at each row."""
        constant = rows.shape[1] * math.log(2 * math.pi)
        heights = np.array([white.log_determinant for white in self.whites]) + np.log(self.shares)
        logs: FloatArray = heights - 0.5 * (constant + self.squared_distances(rows))
        return logs


def fit_mixture(rows: FloatArray, start: FloatArray, *, ridge: float, who: str) -> Mixture:
    """The mixture for rows (n, D) from responsibilities (n, k) to start with; `ridge` is added to every variance."""
    mixture, before = _maximised(rows, start, ridge, who), -math.inf
    for step in range(1, _STEPS + 1):
        responsibilities, likelihood = _expected(mixture.log_densities(rows))
        mixture = _maximised(rows, responsibilities, ridge, who)
        if abs(likelihood - before) < _TOLERANCE:
            return Mixture(mixture.shares, mixture.means, mixture.whites, step, converged=True)
        before = likelihood
    return Mixture(mixture.shares, mixture.means, mixture.whites, _STEPS, converged=False)


def _expected(densities: FloatArray) -> tuple[FloatArray, float]:
    """Responsibilities (n, k) and the mean log-likelihood."""
    highest = densities.max(axis=1, keepdims=True)
    parts = np.exp(densities - highest)
    totals = parts.sum(axis=1, keepdims=True)
    return parts / totals, float((highest + np.log(totals)).mean())


def _maximised(rows: FloatArray, responsibilities: FloatArray, ridge: float, who: str) -> Mixture:
    sizes = responsibilities.sum(axis=0) + 10 * _EPSILON  # a cluster without rows divides nothing by zero
    means = responsibilities.T @ rows / sizes[:, None]
    whites = tuple(
        whitening(_covariance(rows, share, mean, size, ridge), who=who)
        for share, mean, size in zip(responsibilities.T, means, sizes, strict=True)
    )
    return Mixture(sizes / sizes.sum(), means, whites)


def _covariance(rows: FloatArray, share: FloatArray, mean: FloatArray, size: float, ridge: float) -> FloatArray:
    belongs = share > _EPSILON / len(rows)  # together, the others weigh less than rounding
    centred = (rows[belongs] - mean) * np.sqrt(share[belongs])[:, None]
    covariance: FloatArray = centred.T @ centred / size
    covariance.flat[:: len(covariance) + 1] += ridge
    return covariance


def nearest_starts(rows: FloatArray, clusters: int, rng: np.random.Generator, *, who: str) -> FloatArray:
    """Responsibilities (n, k), one for the nearest centre: k-means from k-means++ (Arthur & Vassilvitskii 2007)."""
    from scipy.cluster.vq import ClusterError, kmeans2

    distinct = len({row.tobytes() for row in rows})
    if distinct < clusters:
        raise InvalidInput(
            f"{who} needs {clusters} different training features or more, got {distinct}; set fewer clusters"
        )
    try:
        _, nearest = kmeans2(rows, clusters, iter=_LLOYD_STEPS, minit="++", missing="raise", rng=rng)
    except ClusterError as error:
        raise InvalidInput(f"{who} found no {clusters} clusters in {len(rows)} features; set fewer clusters") from error
    return np.eye(clusters)[nearest]

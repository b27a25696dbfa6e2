"""TAPUDD: the distance to the nearest cluster of a Gaussian mixture, averaged over numbers of clusters.

The mixtures have a full covariance per cluster and are fitted by expectation maximisation. From the same start, the
results are those of scikit-learn's `GaussianMixture`. This code is faster: whitening is a triangular product, a
covariance a symmetric one, and rows that hardly belong to a cluster are left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from cosight.arrays import FloatArray
from cosight.errors import InvalidInput
from cosight.models.abstention.base import check_features
from cosight.models.abstention.distances import Whitening, check_ridge, check_variance, whitening

__all__ = ["FittedTapudd", "Mixture", "Tapudd", "expect", "fit_mixture", "maximise", "nearest_starts"]

_TOLERANCE = 1e-3  # stop at this change of the mean log-likelihood; scikit-learn's default
_STEPS = 100  # at most; scikit-learn's default
_EPSILON = float(np.finfo(np.float64).eps)
_LLOYD_STEPS = 10  # of k-means, to find the start of a mixture


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """k clusters in D dimensions; `converged` is False if fitting stopped at the maximum number of steps."""

    weights: FloatArray  # (k,), sum to 1
    means: FloatArray  # (k, D)
    whites: tuple[Whitening, ...]
    steps: int = 0
    converged: bool = False

    def squared_distances(self, rows: FloatArray) -> FloatArray:
        """Compute the squared Mahalanobis distance (n, k) from each row to each cluster."""
        pairs = zip(self.whites, self.means, strict=True)
        return np.stack([white.squared_lengths(rows - mean) for white, mean in pairs], axis=1)

    def log_densities(self, rows: FloatArray) -> FloatArray:
        """Compute the logarithm (n, k) of each cluster's weight times its density at each row."""
        constant = rows.shape[1] * math.log(2 * math.pi)
        heights = np.array([white.log_determinant for white in self.whites]) + np.log(self.weights)
        logs: FloatArray = heights - 0.5 * (constant + self.squared_distances(rows))
        return logs


def fit_mixture(rows: FloatArray, start: FloatArray, *, ridge: float, who: str) -> Mixture:
    """Fit a mixture to rows (n, D) from initial responsibilities (n, k); `ridge` is added to every variance."""
    mixture, previous = maximise(rows, start, ridge, who), -math.inf
    for step in range(1, _STEPS + 1):
        responsibilities, likelihood = expect(mixture.log_densities(rows))
        mixture = maximise(rows, responsibilities, ridge, who)
        if abs(likelihood - previous) < _TOLERANCE:
            return replace(mixture, steps=step, converged=True)
        previous = likelihood
    return replace(mixture, steps=_STEPS)


def expect(log_densities: FloatArray) -> tuple[FloatArray, float]:
    """Compute the responsibilities (n, k) and the mean log-likelihood: the expectation step."""
    highest = log_densities.max(axis=1, keepdims=True)
    parts = np.exp(log_densities - highest)
    totals = parts.sum(axis=1, keepdims=True)
    return parts / totals, float((highest + np.log(totals)).mean())


def maximise(rows: FloatArray, responsibilities: FloatArray, ridge: float, who: str) -> Mixture:
    """Compute the most likely mixture for responsibilities (n, k): the maximisation step."""
    sizes = responsibilities.sum(axis=0) + 10 * _EPSILON  # so that an empty cluster does not divide by zero
    means = responsibilities.T @ rows / sizes[:, None]
    whites = []
    for responsibility, mean, size in zip(responsibilities.T, means, sizes, strict=True):
        belongs = responsibility > _EPSILON / len(rows)  # together, the others weigh less than rounding
        centred = (rows[belongs] - mean) * np.sqrt(responsibility[belongs])[:, None]
        covariance: FloatArray = centred.T @ centred / size
        covariance.flat[:: len(covariance) + 1] += ridge
        whites.append(whitening(covariance, who=who))
    return Mixture(sizes / sizes.sum(), means, tuple(whites))


def nearest_starts(rows: FloatArray, clusters: int, rng: np.random.Generator, *, who: str) -> FloatArray:
    """Return responsibilities (n, k), 1 for the nearest centre of k-means++ (Arthur & Vassilvitskii 2007)."""
    from scipy.cluster.vq import ClusterError, kmeans2

    distinct = len({row.tobytes() for row in rows})
    if distinct < clusters:
        raise InvalidInput(
            f"{who} needs at least {clusters} different training features, got {distinct}; set fewer clusters"
        )
    try:
        _, nearest = kmeans2(rows, clusters, iter=_LLOYD_STEPS, minit="++", missing="raise", rng=rng)
    except ClusterError as error:
        raise InvalidInput(f"{who} found no {clusters} clusters in {len(rows)} features; set fewer clusters") from error
    return np.eye(clusters)[nearest]


@dataclass(frozen=True, slots=True, eq=False)
class FittedTapudd:
    """One mixture per number of clusters, of features less `centre`, divided by `scale`."""

    centre: FloatArray  # (D,)
    scale: float
    mixtures: tuple[Mixture, ...]

    def strangeness(self, features: ArrayLike | None, logits: ArrayLike | None) -> FloatArray:
        """Compute the mean over mixtures of the Mahalanobis distance (n,) to the nearest cluster."""
        table = check_features(features, who="tapudd", dimensions=len(self.centre))
        rows = (table - self.centre) / self.scale
        nearest = [np.sqrt(mixture.squared_distances(rows).min(axis=1)) for mixture in self.mixtures]
        distances: FloatArray = np.mean(nearest, axis=0)
        return distances


@dataclass(frozen=True, slots=True)
class Tapudd:
    """TAPUDD: the mean over mixtures of 1 to `most_clusters` Gaussians of the Mahalanobis distance to the nearest one.

    Each cluster has its own covariance. With many dimensions a cluster may have fewer images than dimensions; in the
    remaining directions only the ridge counts. Mixtures start from k-means. Its first centres are drawn from the rows
    with the same seed for every number of clusters, so another order of the rows may lead to other clusters.
    Source: Dua et al. 2023 (the mean over numbers of clusters); 1 to 10 and 42 as in Lee et al. 2023.

    Args:
        most_clusters: Largest number of clusters.
        ridge: Fraction of the mean variance of all features that is added to every variance.
        seed: Seed of k-means.

    Raises:
        InvalidInput: A setting is out of range.

    >>> fitted = Tapudd(most_clusters=1, ridge=0).fit([[-1.0], [1.0]], None, None)
    >>> fitted.strangeness([[3.0]], None)
    array([3.])
    """

    most_clusters: int = 10
    ridge: float = 1e-6
    seed: int = 42

    def __post_init__(self) -> None:
        check_ridge(self.ridge)
        if self.most_clusters < 1:
            raise InvalidInput(f"most_clusters must be 1 or more, got {self.most_clusters}; 10 is the default")

    def fit(self, features: ArrayLike | None, logits: ArrayLike | None, labels: ArrayLike | None) -> FittedTapudd:
        """Fit to features (N, D); labels are not used."""
        table = check_features(features, who="tapudd")
        if len(table) < self.most_clusters:
            raise InvalidInput(
                f"tapudd needs at least as many training features as clusters, got {len(table)} for "
                f"{self.most_clusters}; add images or set fewer clusters"
            )
        centre = table.mean(axis=0)
        rows = table - centre
        variance = float(np.vdot(rows, rows)) / rows.size
        scale = float(np.sqrt(check_variance(variance, table, who="tapudd")))
        rows /= scale
        mixtures = []
        for clusters in range(1, self.most_clusters + 1):
            start = nearest_starts(rows, clusters, np.random.default_rng(self.seed), who="tapudd")
            mixtures.append(fit_mixture(rows, start, ridge=self.ridge, who="tapudd"))
        return FittedTapudd(centre, scale, tuple(mixtures))

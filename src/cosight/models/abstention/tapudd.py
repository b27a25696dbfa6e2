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
_MOST_NUMBERS = 2**27  # in the mixtures of one fitted function


class LostCluster(InvalidInput):
    """A k-means run that ended with fewer clusters than it started with; another start may not."""


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
        raise LostCluster(f"{who} found no {clusters} clusters in {len(rows)} features; set fewer clusters") from error
    return np.eye(clusters)[nearest]


@dataclass(frozen=True, slots=True, eq=False)
class FittedTapudd:
    """Mixtures of features minus `centre`, divided by `scale`: for each number of clusters, one per start."""

    centre: FloatArray  # (D,)
    scale: float
    mixtures: tuple[tuple[Mixture, ...], ...]

    def strangeness(self, features: ArrayLike | None, logits: ArrayLike | None) -> FloatArray:
        """Compute the mean over numbers of clusters, and over starts, of the distance (n,) to the nearest cluster."""
        table = check_features(features, who="tapudd", dimensions=len(self.centre))
        rows = (table - self.centre) / self.scale
        nearest = [
            np.mean([np.sqrt(mixture.squared_distances(rows).min(axis=1)) for mixture in starts], axis=0)
            for starts in self.mixtures
        ]
        distances: FloatArray = np.mean(nearest, axis=0)
        return distances


@dataclass(frozen=True, slots=True)
class Tapudd:
    """TAPUDD: the mean over mixtures of 1 to `most_clusters` Gaussians of the Mahalanobis distance to the nearest one.

    Each cluster has its own covariance. With many dimensions a cluster may have fewer images than dimensions; in the
    remaining directions only the ridge counts. A mixture starts from k-means, whose first centres are drawn, and other
    starts give other mixtures: the distance is averaged over several. The order of the rows does not matter.
    Source: Dua et al. 2023 (the mean over numbers of clusters); 1 to 10 and 42 as in Lee et al. 2023 (one start).

    Args:
        most_clusters: Largest number of clusters.
        starts: Starts of each mixture. With many dimensions fewer are used, so that the mixtures have at most 2^27
            numbers (1 GB): with 10 clusters, 9 starts for 512 dimensions and 4 for 768.
        ridge: Fraction of the mean variance of all features that is added to every variance.
        seed: Seed of k-means.

    Raises:
        InvalidInput: A setting is out of range.

    >>> fitted = Tapudd(most_clusters=1, ridge=0).fit([[-1.0], [1.0]], None, None)
    >>> fitted.strangeness([[3.0]], None)
    array([3.])
    """

    most_clusters: int = 10
    starts: int = 20
    ridge: float = 1e-6
    seed: int = 42

    def __post_init__(self) -> None:
        check_ridge(self.ridge)
        for name in ("most_clusters", "starts"):
            if (value := getattr(self, name)) < 1:
                raise InvalidInput(f"{name} must be 1 or more, got {value}")

    def fit(self, features: ArrayLike | None, logits: ArrayLike | None, labels: ArrayLike | None) -> FittedTapudd:
        """Fit to features (N, D); labels are not used."""
        table = check_features(features, who="tapudd")
        if len(table) < self.most_clusters:
            raise InvalidInput(
                f"tapudd needs at least as many training features as clusters, got {len(table)} for "
                f"{self.most_clusters}; add images or set fewer clusters"
            )
        table = table[np.lexsort(table.T[::-1])]  # in an order of their own, so that the given one does not matter
        centre = table.mean(axis=0)
        rows = table - centre
        variance = float(np.vdot(rows, rows)) / rows.size
        scale = float(np.sqrt(check_variance(variance, table, who="tapudd")))
        rows /= scale
        numbers_per_start = self.most_clusters * (self.most_clusters + 1) // 2 * rows.shape[1] ** 2
        starts = min(self.starts, max(1, _MOST_NUMBERS // numbers_per_start))
        # one cluster has only one start
        mixtures = tuple(self._fit_starts(rows, k, starts if k > 1 else 1) for k in range(1, self.most_clusters + 1))
        return FittedTapudd(centre, scale, mixtures)

    def _fit_starts(self, rows: FloatArray, clusters: int, starts: int) -> tuple[Mixture, ...]:
        """Fit mixtures of one size from several starts; starts for which k-means loses a cluster are left out."""
        mixtures, failure = [], None
        for number in range(starts):
            rng = np.random.default_rng((self.seed, number, clusters))  # chance averages out over sizes too
            try:
                start = nearest_starts(rows, clusters, rng, who="tapudd")
            except LostCluster as error:
                failure = error
                continue
            mixtures.append(fit_mixture(rows, start, ridge=self.ridge, who="tapudd"))
        if not mixtures and failure is not None:
            raise failure
        return tuple(mixtures)

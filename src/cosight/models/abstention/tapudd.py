"""TAPUDD: how far is the nearest of k clusters, on average over k?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cosight.arrays import FloatArray
from cosight.errors import InvalidInput
from cosight.models.abstention.inputs import checked_features
from cosight.models.abstention.mixtures import Mixture, fit_mixture, nearest_starts
from cosight.models.abstention.whitening import checked_ridge, checked_spread

__all__ = ["FittedTapudd", "Tapudd"]

_NAME = "tapudd"


@dataclass(frozen=True, slots=True, eq=False)
class FittedTapudd:
    """A mixture for each number of clusters, of features less `centre`, divided by `scale`."""

    centre: FloatArray  # (D,)
    scale: float
    mixtures: tuple[Mixture, ...]

    def strangeness(self, features: ArrayLike | None, logits: ArrayLike | None) -> FloatArray:
        """Mean over mixtures of the Mahalanobis distance (n,) to the nearest cluster."""
        table = checked_features(features, who=_NAME, dimensions=len(self.centre))
        rows = (table - self.centre) / self.scale
        nearest = [np.sqrt(mixture.squared_distances(rows).min(axis=1)) for mixture in self.mixtures]
        distances: FloatArray = np.mean(nearest, axis=0)
        return distances


@dataclass(frozen=True, slots=True)
class Tapudd:
    """TAPUDD: mixtures of 1 to `most_clusters` Gaussians, the Mahalanobis distance to the nearest, the mean of those.

    Each cluster has a covariance of its own, with `ridge` times the mean variance of all features on its diagonal. With
    many dimensions a cluster may have fewer images than dimensions; what it says of the directions they leave open
    rests on the ridge alone. Mixtures start from k-means, whose first centres are drawn among the rows by `seed`, the
    same for every number of clusters: another order of the rows may lead to other clusters.
    Source: Dua et al. 2023 (the mean over numbers of clusters); 1 to 10 and 42 as in Lee et al. 2023.
    """

    most_clusters: int = 10
    ridge: float = 1e-6
    seed: int = 42

    def __post_init__(self) -> None:
        checked_ridge(self.ridge)
        if self.most_clusters < 1:
            raise InvalidInput(f"most_clusters must be 1 or more, got {self.most_clusters}; 10 is the usual number")

    def fit(self, features: ArrayLike | None, logits: ArrayLike | None, labels: ArrayLike | None) -> FittedTapudd:
        """Learn from features (N, D); labels are not used."""
        table = checked_features(features, who=_NAME)
        if len(table) < self.most_clusters:
            raise InvalidInput(
                f"{_NAME} needs as many training features as clusters, got {len(table)} for {self.most_clusters}; "
                "add images or set fewer clusters"
            )
        centre = table.mean(axis=0)
        rows = table - centre
        variance = float(np.vdot(rows, rows)) / rows.size
        scale = float(np.sqrt(checked_spread(variance, table, who=_NAME)))
        rows /= scale
        mixtures = tuple(self._mixture(rows, clusters) for clusters in range(1, self.most_clusters + 1))
        return FittedTapudd(centre, scale, mixtures)

    def _mixture(self, rows: FloatArray, clusters: int) -> Mixture:
        start = nearest_starts(rows, clusters, np.random.default_rng(self.seed), who=_NAME)
        return fit_mixture(rows, start, ridge=self.ridge, who=_NAME)

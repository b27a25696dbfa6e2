"""Forced choices: does an observer match a picture to the one that it was made to resemble?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cosight.arrays import FloatArray, finite, integer_codes, same_length
from cosight.errors import InvalidInput
from cosight.measures.arithmetic import mean_or_nan
from cosight.measures.declarations import declare

__all__ = [
    "ChoiceShare",
    "ConvergedShare",
    "PairwiseDistance",
    "choice_share",
    "clustering_share",
    "converged_share",
    "pairwise_distance",
    "two_alternative_share",
]

_CITATION = "Nanda et al. 2021, Exploring alignment of representations with human perception"


@dataclass(frozen=True, slots=True, eq=False)
class ChoiceShare:
    """The fraction of right choices."""

    items: FloatArray  # (queries,) in [0, 1], nan where no choice was made
    ties: int  # queries with more than one closest option
    chance: float  # what guessing scores; nan where the number of options was not given

    @property
    def value(self) -> float:
        """Mean of the items; nan without a choice."""
        return float(np.nanmean(self.items)) if self.n else float("nan")

    @property
    def n(self) -> int:
        """Queries with a choice."""
        return int(np.count_nonzero(~np.isnan(self.items)))

    @property
    def missing(self) -> int:
        """Queries without a choice, left out of `value`."""
        return len(self.items) - self.n


@declare(
    "two_alternative_share",
    summary="Share of queries closer to their target than to their seed.",
    low=0.0,
    high=1.0,
    direction="higher",
    symmetric=None,
    needs=("to_target", "to_seed"),
    citation=_CITATION,
    aliases=("2afc",),
    share=True,
)
def two_alternative_share(to_target: ArrayLike, to_seed: ArrayLike) -> ChoiceShare:
    """Compute how often a query is closer to its target than to its seed: 2AFC (Nanda et al. 2021).

    item = 1 if to_target < to_seed, 1/2 if they are equal, else 0; value = mean(item). Only the order of the
    two distances of a query counts, so the unit does not matter.

    Args:
        to_target: Distance of each query to its target.
        to_seed: Distance of each query to the seed that it was optimised from.

    Returns:
        The fraction, its items and the number of ties; nan without queries.

    Raises:
        InvalidInput: If a distance is nan or infinite, or the lengths differ.

    >>> result = two_alternative_share([0.1, 0.7, 0.4], [0.5, 0.2, 0.4])
    >>> result.value, result.ties
    (0.5, 1)
    """
    target = finite(to_target, name="to_target", ndim=1)
    seed = finite(to_seed, name="to_seed", ndim=1)
    same_length(to_target=target, to_seed=seed)
    tied = target == seed
    return ChoiceShare(np.where(tied, 0.5, target < seed), ties=int(tied.sum()), chance=0.5)


@declare(
    "clustering_share",
    summary="Share of queries whose closest option is the target they were made from.",
    low=0.0,
    high=1.0,
    direction="higher",
    symmetric=None,
    needs=("distances", "truth"),
    citation=_CITATION,
    share=True,
)
def clustering_share(distances: ArrayLike, target: ArrayLike) -> ChoiceShare:
    """Compute how often the closest of several options is the right one (Nanda et al. 2021).

    item = 1 / (number of closest options) if the target is among them, else 0: the expected score when ties are
    broken at random.

    Args:
        distances: Distance of each query to each option, (queries, options).
        target: The right column of each query.

    Returns:
        The fraction, its items and the number of ties; nan without queries.

    Raises:
        InvalidInput: If a distance is nan or infinite, or a target is not a column.

    >>> result = clustering_share([[0.1, 0.5, 0.9], [0.3, 0.3, 0.8], [0.2, 0.6, 0.4]], [0, 1, 2])
    >>> result.value, result.items.tolist(), result.ties
    (0.5, [1.0, 0.5, 0.0], 1)
    """
    table = finite(distances, name="distances", ndim=2)
    options = table.shape[1]
    if options == 0:
        raise InvalidInput(f"distances must have an option to choose from, got shape {table.shape}")
    right = integer_codes(target, name="target", low=0, stop=options)
    same_length(distances=table, target=right)
    closest = table == table.min(axis=1, keepdims=True)
    count = closest.sum(axis=1)
    items = closest[np.arange(len(right)), right] / count
    return ChoiceShare(items, ties=int(np.count_nonzero(count > 1)), chance=1 / options)


@dataclass(frozen=True, slots=True, eq=False)
class ConvergedShare:
    """The fraction of inversions that have converged."""

    items: FloatArray  # (inversions,): 1 where it has converged, else 0

    @property
    def value(self) -> float:
        """Mean of the items; nan without inversions."""
        return mean_or_nan(self.items)


@declare(
    "converged_share",
    summary="Share of inversions whose features are those of their target, up to a threshold.",
    low=0.0,
    high=1.0,
    direction="higher",
    symmetric=None,
    needs=("reached",),
    citation=_CITATION,
    share=True,
)
def converged_share(reached: ArrayLike, *, threshold: float = 0.1) -> ConvergedShare:
    """Compute how many inversions have converged; the others say nothing about perception.

    item = 1 if reached <= threshold, else 0.

    Args:
        reached: Distance of each result to its target in the features of the model, relative to the target's length.
        threshold: Largest distance of a converged inversion.

    Returns:
        The fraction and its items; nan without inversions.

    Raises:
        InvalidInput: If a distance is nan or infinite.

    >>> converged_share([0.02, 0.3], threshold=0.1).value
    0.5
    """
    return ConvergedShare((finite(reached, name="reached", ndim=1) <= threshold).astype(np.float64))


@dataclass(frozen=True, slots=True, eq=False)
class PairwiseDistance:
    """The mean distance between the images of each set."""

    items: FloatArray  # (sets,)

    @property
    def value(self) -> float:
        """Mean of the items; nan without sets."""
        return mean_or_nan(self.items)


@declare(
    "pairwise_distance",
    summary="Mean distance between images that a model takes for the same.",
    low=0.0,
    high=float("inf"),
    direction="lower",
    symmetric=None,
    needs=("distances",),
    citation=_CITATION,
)
def pairwise_distance(distances: ArrayLike) -> PairwiseDistance:
    """Compute the mean distance of every two images of a set, for each set (Nanda et al. 2021, Table 2).

    item = mean over the pairs of a set.

    Args:
        distances: Distance of every two different images of each set, (sets, pairs).

    Returns:
        The mean and its items; nan without sets.

    Raises:
        InvalidInput: If a distance is nan or infinite, or a set has no pair.

    >>> pairwise_distance([[0.25, 0.25, 0.25], [0.5, 0.25, 0.75]]).items.tolist()
    [0.25, 0.5]
    """
    table = finite(distances, name="distances", ndim=2)
    if table.shape[1] == 0:
        raise InvalidInput(f"distances must have a pair of images in each set, got shape {table.shape}")
    return PairwiseDistance(table.mean(axis=1))


def choice_share(chosen: ArrayLike, right: ArrayLike, *, options: int | None = None) -> ChoiceShare:
    """Compute how often the option that people chose is the right one (Nanda et al. 2021).

    item = 1 if chosen == right, else 0. Missing choices are nan, left out of the mean and counted in `missing`.

    Args:
        chosen: The number of the chosen option, -1 where no choice was made.
        right: The number of the right option.
        options: The number of options, if known: the limit of the numbers, and `chance` = 1 / options.

    Returns:
        The fraction and its items; nan when no choice was made.

    Raises:
        InvalidInput: If a number is not that of an option, or the lengths differ.

    >>> result = choice_share([0, 1, -1, 2], [0, 2, 1, 2], options=3)
    >>> round(result.value, 3), result.missing
    (0.667, 1)
    """
    if options is not None and options < 1:
        raise InvalidInput(f"options must be at least 1, got {options}; leave it out if it is unknown")
    answer = integer_codes(chosen, name="chosen", low=-1, stop=options)
    truth = integer_codes(right, name="right", low=0, stop=options)
    same_length(chosen=answer, right=truth)
    items = np.where(answer < 0, np.nan, answer == truth)
    return ChoiceShare(items, ties=0, chance=1 / options if options else float("nan"))

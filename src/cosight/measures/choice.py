"""Forced choices: does a judge, or a person, match a picture to the one it was made to resemble?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cosight.arrays import FloatArray, IntArray, finite, same_length
from cosight.errors import InvalidInput
from cosight.measures.declarations import declare

__all__ = ["ChoiceShare", "choice_share", "clustering_share", "two_alternative_share"]

_CITATION = "Nanda et al. 2021, Exploring alignment of representations with human perception"
_MISSING = -1  # the code of a choice that was never made


@dataclass(frozen=True, slots=True, eq=False)
class ChoiceShare:
    """The share of right choices: one item a query in [0, 1], nan where no choice was made."""

    items: FloatArray
    ties: int  # queries with more than one closest option
    chance: float  # what guessing scores; nan where the number of options was not given

    @property
    def value(self) -> float:
        """Mean of the items; nan when nobody chose."""
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
)
def two_alternative_share(to_target: ArrayLike, to_seed: ArrayLike) -> ChoiceShare:
    """How often a query is closer to its target than to the seed it grew from: 2AFC (Nanda et al. 2021).

    item = 1 if to_target < to_seed, 1/2 if they are equal, else 0; value = mean(item). Only the order of the
    two distances of a query counts, so any unit will do.

    Undefined (`value` is nan) without queries. A distance that is nan or infinite raises.

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
)
def clustering_share(distances: ArrayLike, target: ArrayLike) -> ChoiceShare:
    """How often the closest of several options is the right one (Nanda et al. 2021).

    `distances` has shape (queries, options), `target` is each query's right column. item = 1 / (number of closest
    options) if the target is among them, else 0: what breaking ties at random scores on average.

    Undefined (`value` is nan) without queries. A distance that is nan or infinite raises.

    >>> result = clustering_share([[0.1, 0.5, 0.9], [0.3, 0.3, 0.8], [0.2, 0.6, 0.4]], [0, 1, 2])
    >>> result.value, result.items.tolist(), result.ties
    (0.5, [1.0, 0.5, 0.0], 1)
    """
    table = finite(distances, name="distances", ndim=2)
    options = table.shape[1]
    if options == 0:
        raise InvalidInput(f"distances must have an option to choose, got shape {table.shape}")
    right = _options(target, name="target", low=0, options=options)
    same_length(distances=table, target=right)
    closest = table == table.min(axis=1, keepdims=True)
    count = closest.sum(axis=1)
    items = closest[np.arange(len(right)), right] / count
    return ChoiceShare(items, ties=int(np.count_nonzero(count > 1)), chance=1 / options)


def choice_share(chosen: ArrayLike, right: ArrayLike, *, options: int | None = None) -> ChoiceShare:
    """How often the option people chose is the right one (Nanda et al. 2021); -1 is a choice never made.

    item = 1 if chosen == right, else 0. Missing choices are nan, left out of the mean and counted in `missing`;
    `options`, where given, bounds the codes and sets `chance` = 1 / options.

    Undefined (`value` is nan) when no choice was made.

    >>> result = choice_share([0, 1, -1, 2], [0, 2, 1, 2], options=3)
    >>> round(result.value, 3), result.missing
    (0.667, 1)
    """
    if options is not None and options < 1:
        raise InvalidInput(f"options must be at least 1, got {options}; leave it out if it is not known")
    answer = _options(chosen, name="chosen", low=_MISSING, options=options)
    truth = _options(right, name="right", low=0, options=options)
    same_length(chosen=answer, right=truth)
    items = np.where(answer == _MISSING, np.nan, answer == truth)
    return ChoiceShare(items, ties=0, chance=1 / options if options else float("nan"))


def _options(values: ArrayLike, *, name: str, low: int, options: int | None) -> IntArray:
    """Option codes `low` ... `options` - 1 as a one-dimensional array of integers."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise InvalidInput(f"{name} must be one-dimensional, got shape {array.shape}")
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise InvalidInput(f"{name} must be option numbers, got {array[0]!r}; number the options from 0")
    codes = array.astype(np.int64)
    bad = (codes < low) | (codes >= (np.inf if options is None else options))
    if bad.any():
        bound = "or more" if options is None else f"to {options - 1}"
        raise InvalidInput(f"{name} must be {low} {bound}, got {codes[bad][0]}; number the options from 0")
    return codes

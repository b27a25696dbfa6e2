"""Drawing combinations: none twice before all are used, and every prefix spread evenly over each factor's values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import NDArray

from cosight.errors import InvalidInput
from cosight.stimuli.kinds import stimulus_rng

__all__ = ["FactorDraw", "check_count", "draws"]


@dataclass(frozen=True, slots=True)
class FactorDraw:
    """One combination: the index of each factor's value, and how often all combinations were used up before it."""

    values: tuple[int, ...]
    lap: int


def draws(combinations: Sequence[tuple[int, ...]], *, name: str, seed: int) -> Iterator[FactorDraw]:
    """The combinations in a random, evenly spread order, without end; each lap has an order of its own.

    The k-th draw depends on `name` and `seed` alone, so a longer table begins with the shorter one.
    """
    if not combinations:
        raise InvalidInput(f"there must be something to draw from, got no combination for {name}; give more sources")
    factors = np.array(combinations, np.int64)
    for lap in count():
        for index in _spread(factors, stimulus_rng(name, "order", str(lap), seed)):
            yield FactorDraw(combinations[index], lap)


def check_count(rows: int) -> None:
    """Refuse a table without rows."""
    if rows < 1:
        raise InvalidInput(f"count must be at least 1, got {rows}")


def _spread(factors: NDArray[np.int64], rng: np.random.Generator) -> Iterator[int]:
    """Rows of `factors` (combinations x factors), each time the one whose values were used least; ties at random."""
    ties = rng.random(len(factors))  # below 1, so they never outweigh a count
    levels = factors.max(axis=0) + 1
    used = [np.zeros(level, np.int64) for level in levels]
    left = np.ones(len(factors), bool)
    for _ in range(len(factors)):
        # A use of one value among many leaves the table less even than one among few: uses weigh by the levels.
        cost = ties + sum(level * uses[column] for level, uses, column in zip(levels, used, factors.T, strict=True))
        best = int(np.argmin(np.where(left, cost, np.inf)))
        left[best] = False
        for uses, value in zip(used, factors[best], strict=True):
            uses[value] += 1
        yield best

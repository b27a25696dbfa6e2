"""Draw combinations so that none comes twice before all were used and every prefix is spread evenly over all values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np

from cosight.errors import InvalidInput
from cosight.stimuli.kinds import stimulus_rng

__all__ = ["FactorDraw", "check_count", "cycle_classes", "draws"]


@dataclass(frozen=True, slots=True)
class FactorDraw:
    """One combination: the index of each factor's value, and how often all combinations were used up before it."""

    values: tuple[int, ...]
    lap: int


def draws(combinations: Sequence[tuple[int, ...]], *, name: str, seed: int) -> Iterator[FactorDraw]:
    """Yield the combinations in a random, evenly spread order, without end; each lap has an order of its own.

    The k-th draw depends on `name` and `seed` alone, so a longer table begins with the shorter one.
    """
    if not combinations:
        raise InvalidInput(f"there must be something to draw from, got no combination for {name}; give more sources")
    factors = np.array(combinations, np.int64)
    levels = factors.max(axis=0) + 1
    for lap in count():
        ties = stimulus_rng(name, "order", str(lap), seed).random(len(factors))  # below 1: they never outweigh a count
        used = [np.zeros(level, np.int64) for level in levels]
        left = np.ones(len(factors), bool)
        for _ in range(len(factors)):
            # Draw the combination whose values were used least, ties at random. A use of one value among many leaves
            # the table less even than one among few, so uses are weighted by the number of values.
            uses_per_row = [level * uses[column] for level, uses, column in zip(levels, used, factors.T, strict=True)]
            index = int(np.argmin(np.where(left, ties + sum(uses_per_row), np.inf)))
            left[index] = False
            for uses, value in zip(used, factors[index], strict=True):
                uses[value] += 1
            yield FactorDraw(combinations[index], lap)


def cycle_classes(names: Sequence[str], *, name: str, seed: int) -> Iterator[str]:
    """Yield the classes without end, each round in a random order of its own."""
    rng = stimulus_rng(name, "classes", "all", seed)
    while True:
        yield from (names[index] for index in rng.permutation(len(names)))


def check_count(rows: int) -> None:
    """Raise `InvalidInput` for a table without rows."""
    if rows < 1:
        raise InvalidInput(f"count must be at least 1, got {rows}")

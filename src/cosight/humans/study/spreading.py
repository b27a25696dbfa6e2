"""Drawing evenly and placing apart: the arithmetic behind assignments."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from cosight.humans.study.pool import Item

__all__ = ["Tally", "balanced_draw", "shares", "spread_among", "with_repeats"]

T = TypeVar("T")
_TRIES = 50  # of an order in which no image follows itself; more than a few are needed only where there is no room
_UNMET = (0, 0, 0)


class Tally:
    """What a participant has been given so far, in the present block and ever."""

    def __init__(self) -> None:
        self.here: Counter[Hashable] = Counter()
        self.ever: Counter[Hashable] = Counter()

    def add(self, item: Item, factors: Sequence[str]) -> None:
        """Count an item's value of every factor, and the values together."""
        path: tuple[Any, ...] = ()
        for factor in factors:
            path = (*path, item.facts.get(factor))
            self.here[factor, path[-1]] += 1
            self.ever[factor, path[-1]] += 1
            self.ever[path] += 1

    def need(self, factor: str, path: tuple[Any, ...]) -> tuple[int, int, int]:
        """How little a value is needed: what the block has of it, what the participant has, and of this combination."""
        value = (factor, path[-1])
        return self.here[value], self.ever[value], self.ever[path]

    def next_block(self) -> None:
        """Begin another block."""
        self.here.clear()


def balanced_draw(
    items: Sequence[Item],
    count: int,
    *,
    loads: Mapping[str, int],
    factors: Sequence[str],
    tally: Tally,
    rng: np.random.Generator,
) -> list[Item]:
    """Up to `count` items: the least loaded first; among those, values of the first factor even, then of the next.

    Whatever is equal by all of that is drawn at random.
    """
    tiers: dict[int, list[Item]] = defaultdict(list)
    for place in rng.permutation(len(items)):
        tiers[loads.get(items[place].item, 0)].append(items[place])
    drawn: list[Item] = []
    for load in sorted(tiers):
        tree = _tree(tiers[load], factors)
        while tree and len(drawn) < count:
            drawn.append(_take(tree, factors, (), tally))
            tally.add(drawn[-1], factors)
    return drawn


def _tree(items: Sequence[Item], factors: Sequence[str]) -> Any:
    """Items in nested dictionaries, a level a factor."""
    if not factors:
        return list(items)
    groups: dict[Any, list[Item]] = defaultdict(list)
    for item in items:
        groups[item.facts.get(factors[0])].append(item)
    return {value: _tree(own, factors[1:]) for value, own in groups.items()}


def _take(node: Any, factors: Sequence[str], path: tuple[Any, ...], tally: Tally) -> Item:
    """Take an item out of the tree along the values that are needed most; of equals the first, as order is random."""
    if not factors:
        item: Item = node.pop()
        return item
    value = _most_needed(node, factors[0], path, tally)
    item = _take(node[value], factors[1:], (*path, value), tally)
    if not node[value]:
        del node[value]
    return item


def _most_needed(values: Iterable[Any], factor: str, path: tuple[Any, ...], tally: Tally) -> Any:
    best, least = None, None
    for value in values:
        need = tally.need(factor, (*path, value))
        if need == _UNMET:  # nothing is needed more, and a large set has thousands of these
            return value
        if least is None or need < least:
            best, least = value, need
    return best


def shares(total: int, parts: int) -> list[int]:
    """A number cut into whole parts, as even as can be.

    >>> shares(25, 3)
    [9, 8, 8]
    """
    return [total // parts + (place < total % parts) for place in range(parts)]


def spread_among(base: Sequence[T], extras: Sequence[T], rng: np.random.Generator) -> list[T]:
    """Both in one list, each in random order, with one extra somewhere in each of as many equal stretches.

    >>> spread_among("aaaaaa", "xx", np.random.default_rng(0)).index("x") < 4
    True
    """
    total = len(base) + len(extras)
    edges = [place * total // max(1, len(extras)) for place in range(len(extras) + 1)]
    places = {int(rng.integers(low, high)) for low, high in pairwise(edges)}
    theirs = iter([extras[place] for place in rng.permutation(len(extras))])
    ours = iter([base[place] for place in rng.permutation(len(base))])
    return [next(theirs) if place in places else next(ours) for place in range(total)]


def with_repeats(length: int, candidates: Sequence[int], count: int, rng: np.random.Generator) -> list[int]:
    """The positions 0 .. `length` - 1, `count` of the candidates a second time in the later half.

    First showings are of the earlier half where those are enough; no position follows itself where there is room.
    """
    sequence: list[int] = []
    for _ in range(_TRIES):
        sequence = _once_with_repeats(length, candidates, count, rng)
        if all(one != following for one, following in pairwise(sequence)):
            break
    return sequence


def _once_with_repeats(length: int, candidates: Sequence[int], count: int, rng: np.random.Generator) -> list[int]:
    early = sorted(candidates)[: max(count, (len(candidates) + 1) // 2)]
    sequence = list(range(length))
    for first in sorted(rng.choice(early, count, replace=False).tolist()) if count else ():
        low = min(max(length // 2, sequence.index(first) + 2), len(sequence))
        sequence.insert(int(rng.integers(low, len(sequence) + 1)), first)
    return sequence

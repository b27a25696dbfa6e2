"""Dividing sources among splits and dealing them to slots, by their names and a seed alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest

from cosight.errors import InvalidInput
from cosight.trials.manifest import SPLITS

__all__ = ["TESTED", "Pool", "dealt", "divided", "in_turn", "shuffled"]

TESTED = SPLITS[1:]  # splits that are made alike, after what is trained on
Pool = Mapping[str, Sequence[str]]
"""Names of sources by class."""


def shuffled(names: Iterable[str], *, salt: str, seed: int) -> list[str]:
    """The names in an order that follows from them, the seed and a word for the purpose."""
    return sorted(names, key=lambda name: hashlib.sha256(f"{seed}/{salt}/{name}".encode()).digest())


def divided(sources: Pool, *, train: int, seed: int, shares: Sequence[str] = TESTED) -> dict[str, Pool]:
    """Each class' sources in disjoint parts: those to train on, the rest in equal shares, one a tested split.

    A share is kept for the closed test set whether it is made or not, so that making it later changes no other split.
    """
    order = {name: shuffled(files, salt="splits", seed=seed) for name, files in sources.items()}
    quota = _quota(order, train)
    parts: dict[str, Pool] = {"train": {name: files[: quota[name]] for name, files in order.items()}}
    rest = {name: files[quota[name] :] for name, files in order.items()}
    for place, share in enumerate(shares):
        # Classes begin with different shares: many folders of one photo must not all fall to the first.
        starts = ((place + turn) % len(shares) for turn in range(len(rest)))
        parts[share] = {
            name: files[start :: len(shares)] for (name, files), start in zip(rest.items(), starts, strict=True)
        }
    return parts


def _quota(order: Pool, train: int) -> dict[str, int]:
    """How many of each class are trained on: as even as can be."""
    if not order:
        return {}
    each, more = divmod(train, len(order))
    quota = {name: each + (place < more) for place, name in enumerate(order)}
    for name, files in order.items():
        if quota[name] > len(files):
            raise InvalidInput(
                f"{train} training images need {quota[name]} of each class, got {len(files)} of {name}; "
                "lower train= in the counts or add sources"
            )
    return quota


def in_turn(pool: Pool, *, salt: str, seed: int) -> list[tuple[str, str]]:
    """All of a pool as (class, name), the classes taking turns."""
    decks = [[(name, file) for file in shuffled(files, salt=salt, seed=seed)] for name, files in pool.items()]
    return [one for row in zip_longest(*decks) for one in row if one is not None]


def dealt(pool: Pool, count: int, *, salt: str, seed: int, what: str) -> Iterator[tuple[tuple[str, str], ...]]:
    """The candidates of each of `count` slots: one source of its own, then its share of those left over."""
    order = in_turn(pool, salt=salt, seed=seed)
    if len(order) < count:
        raise InvalidInput(f"{what} needs {count} sources, got {len(order)}; lower its count or add sources")
    return (tuple(order[place::count]) for place in range(count))

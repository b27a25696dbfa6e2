"""Divide sources among splits and deal them to slots. Everything depends on the names and the seed alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest

from cosight.errors import InvalidInput
from cosight.trials.manifest import SPLITS

__all__ = ["EVALUATION_SPLITS", "SourcePool", "deal_candidates", "divide_sources", "interleave", "shuffle"]

EVALUATION_SPLITS = SPLITS[1:]  # every split but train; they are built alike
SourcePool = Mapping[str, Sequence[str]]
"""Names of sources by class."""


def shuffle(names: Iterable[str], *, salt: str, seed: int) -> list[str]:
    """Return the names in an order that follows from the names, the seed and `salt` (a word for the purpose)."""
    return sorted(names, key=lambda name: hashlib.sha256(f"{seed}/{salt}/{name}".encode()).digest())


def divide_sources(
    sources: SourcePool, *, train: int, seed: int, splits: Sequence[str] = EVALUATION_SPLITS
) -> dict[str, SourcePool]:
    """Divide the sources of each class among the training split and `splits`.

    `train` sources, as evenly over the classes as possible, go to the training split; the rest is divided equally among
    `splits`. The closed test set gets its part whether it is built or not, so building it later changes no other split.
    """
    order = {name: shuffle(files, salt="splits", seed=seed) for name, files in sources.items()}
    per_class, remainder = divmod(train, len(order)) if order else (0, 0)
    quota = {name: per_class + (index < remainder) for index, name in enumerate(order)}
    for name, files in order.items():
        if quota[name] > len(files):
            raise InvalidInput(
                f"{train} training images need {quota[name]} of each class, got {len(files)} of {name}; "
                "lower train= in the counts or add sources"
            )
    parts: dict[str, SourcePool] = {"train": {name: files[: quota[name]] for name, files in order.items()}}
    for split_index, split in enumerate(splits):
        # The first split of each class differs: otherwise many folders of one photo would all fall to the first split.
        parts[split] = {
            name: files[quota[name] :][(split_index + class_index) % len(splits) :: len(splits)]
            for class_index, (name, files) in enumerate(order.items())
        }
    return parts


def interleave(pool: SourcePool, *, salt: str, seed: int) -> list[tuple[str, str]]:
    """Return all sources of a pool as (class, name), the classes taking turns."""
    decks = [[(name, file) for file in shuffle(files, salt=salt, seed=seed)] for name, files in pool.items()]
    return [source for row in zip_longest(*decks) for source in row if source is not None]


def deal_candidates(
    pool: SourcePool, count: int, *, salt: str, seed: int, purpose: str
) -> Iterator[tuple[tuple[str, str], ...]]:
    """Deal the sources of a pool to `count` slots.

    Returns:
        The candidates of each slot as (class, name): a first one, and an equal part of the spare sources.
    """
    order = interleave(pool, salt=salt, seed=seed)
    if len(order) < count:
        raise InvalidInput(f"{purpose} needs {count} sources, got {len(order)}; lower its count or add sources")
    return (tuple(order[slot::count]) for slot in range(count))

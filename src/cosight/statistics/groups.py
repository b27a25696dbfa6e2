"""Who is compared with whom: people, simulated people and models, and the pairs they form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from cosight.arrays import BoolArray
from cosight.errors import InvalidInput
from cosight.measures.arithmetic import Pairs

__all__ = [
    "GOLD",
    "MODELS",
    "PAIR_KINDS",
    "PEOPLE",
    "SIMULATED",
    "SIMULATED_GOLD",
    "Group",
    "PairKind",
    "check_names",
    "groups_of",
    "pairs_of",
]

PairKind = Literal["all", "human-human", "human-model", "model-model"]
PAIR_KINDS: tuple[str, ...] = get_args(PairKind)

PEOPLE, SIMULATED, MODELS = "people", "simulated people", "models"
GOLD, SIMULATED_GOLD = "gold", "simulated gold"  # people known only by a stimulus set's gold labels


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Observers that share a mean."""

    name: str
    members: NDArray[np.int64]  # indices of observers

    @property
    def drawn(self) -> bool:
        """Whether its members are a sample of a population; models are not, they are named."""
        return self.name != MODELS


def check_names(observers: Sequence[str]) -> None:
    """Refuse an observer who is called like a group."""
    taken = (PEOPLE, SIMULATED, MODELS, GOLD, SIMULATED_GOLD)
    for name in set(taken) & set(observers):
        raise InvalidInput(f"rows about a group are called {', '.join(taken)}, got an observer {name!r}; rename it")


def groups_of(people: BoolArray, simulated: BoolArray) -> tuple[Group, ...]:
    """The groups that have members, people first. Simulated people never share a mean with real ones."""
    parts = [(PEOPLE, people & ~simulated), (SIMULATED, simulated), (MODELS, ~people)]
    return tuple(Group(name, np.flatnonzero(mask)) for name, mask in parts if mask.any())


def pairs_of(people: BoolArray, kind: str) -> Pairs:
    """All pairs of a kind, (pairs, 2): a model before the person it is compared with, else in order."""
    if kind not in PAIR_KINDS:
        raise InvalidInput(f"pairs must be one of {', '.join(PAIR_KINDS)}, got {kind!r}")
    i, j = np.triu_indices(len(people), 1)
    swap = people[i] & ~people[j]
    pairs = np.stack([np.where(swap, j, i), np.where(swap, i, j)], axis=1)
    both, none = people[pairs].all(axis=1), ~people[pairs].any(axis=1)
    wanted = {"all": np.ones(len(pairs), dtype=np.bool_), "human-human": both, "model-model": none}
    return np.asarray(pairs[wanted.get(kind, ~both & ~none)])

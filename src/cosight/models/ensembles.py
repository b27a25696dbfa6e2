"""`ensemble:A+B+C`: the mean of what several models hold likely.

Each member sees a photo its own way. Where their ways differ, the prepared photos stand side by side in one array, and
each member is shown its own part.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cosight.errors import InvalidInput
from cosight.models.model import Model, ModelOutputs, as_logits, check_batch
from cosight.stimuli.images import Bytes, Floats

__all__ = ["Ensemble", "SideBySide", "ensemble"]

_NORMALISING = ("mean", "std")  # done inside a model, after `prepare`


@dataclass(frozen=True, slots=True)
class SideBySide:
    """The members' ways with a photo; `places` says at which column each member's part begins."""

    size: tuple[int, int]
    places: tuple[int, ...]
    parts: tuple[dict[str, Any], ...]

    @property
    def facts(self) -> dict[str, Any]:
        """What is done, for the record."""
        return {"size": list(self.size), "members": [dict(part) for part in self.parts]}


@dataclass(frozen=True, slots=True, eq=False)
class Ensemble:
    """Several models that answer as one: the mean of their probabilities, as logits."""

    name: str
    members: tuple[Model, ...]
    preprocessing: SideBySide
    classes: int
    weights_digest: str
    class_names: tuple[str, ...] | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """What changes its answers besides weights and preprocessing: what does so for each member."""
        return {"members": [getattr(member, "settings", {}) for member in self.members]}

    def prepare(self, image: Bytes) -> Floats:
        """What the members would see of this photo, side by side where they differ: float32 in [0, 1]."""
        view = np.zeros((3, *self.preprocessing.size), dtype=np.float32)
        filled = set()
        for member, place in zip(self.members, self.preprocessing.places, strict=True):
            if place not in filled:
                height, width = member.preprocessing.size
                view[:, :height, place : place + width] = member.prepare(image)
                filled.add(place)
        return view

    def answer(self, batch: Floats) -> ModelOutputs:
        """Prepared photos -> logits whose softmax is the mean of the members' probabilities."""
        check_batch(batch, name=self.name, size=self.preprocessing.size)
        members = np.empty((len(self.members), len(batch), self.classes), dtype=np.float32)
        total = np.zeros((len(batch), self.classes))
        for row, (member, place) in enumerate(zip(self.members, self.preprocessing.places, strict=True)):
            height, width = member.preprocessing.size
            given = member.answer(np.ascontiguousarray(batch[:, :, :height, place : place + width]))
            members[row] = given.logits
            total += given.probabilities
        return ModelOutputs(as_logits((total / len(self.members)).astype(np.float32), "probabilities"), members=members)

    def with_features(self, layer: str | None = None) -> Ensemble:
        """Refused: the mean of answers has no layer before it."""
        raise InvalidInput(f"{self.name} has no features of its own, got {layer or 'a call for them'}; ask its members")


def ensemble(members: Sequence[Model], *, name: str) -> Ensemble:
    """These models as one; they must have the same number of classes and, where they name them, the same names."""
    if len(members) < 2:
        raise InvalidInput(f"an ensemble has two members or more, got {len(members)}; join them with +")
    counts = {member.name: member.classes for member in members}
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{member} {count}" for member, count in counts.items())
        raise InvalidInput(f"members of an ensemble must have one number of classes, got {told}")
    named = list(dict.fromkeys(member.class_names for member in members if member.class_names is not None))
    if len(named) > 1:
        raise InvalidInput(
            f"members of an ensemble must name their classes alike, in one order; those of {name} differ"
        )
    digest = hashlib.sha256("\n".join(member.weights_digest for member in members).encode()).hexdigest()
    names = named[0] if named else None
    return Ensemble(name, tuple(members), _side_by_side(members), members[0].classes, digest, names)


def _side_by_side(members: Sequence[Model]) -> SideBySide:
    """Members whose photos are prepared alike share a place."""
    places: dict[str, int] = {}
    width = 0
    ways = [_way(member.preprocessing.facts) for member in members]
    for member, way in zip(members, ways, strict=True):
        if way not in places:
            places[way] = width
            width += member.preprocessing.size[1]
    height = max(member.preprocessing.size[0] for member in members)
    parts = tuple(member.preprocessing.facts for member in members)
    return SideBySide((height, width), tuple(places[way] for way in ways), parts)


def _way(facts: dict[str, Any]) -> str:
    return repr(sorted((key, value) for key, value in facts.items() if key not in _NORMALISING))

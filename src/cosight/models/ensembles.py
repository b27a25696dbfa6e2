"""`ensemble:A+B+C`: the mean of the probabilities of several models.

Each member prepares photos in its own way. Where they differ, the prepared photos are placed side by side in one array,
and each member gets its part.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cosight.devices import Precision
from cosight.errors import InvalidInput
from cosight.models.model import Model, ModelOutputs, NoFeatures, as_logits, check_batch, place
from cosight.stimuli.images import Bytes, Floats

__all__ = ["Ensemble", "SideBySide", "ensemble"]


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Preparations of the members in one array; `columns` has the first column of each member's part."""

    size: tuple[int, int]
    columns: tuple[int, ...]
    parts: tuple[dict[str, Any], ...]

    @property
    def facts(self) -> dict[str, Any]:
        """The settings of all members, for run records."""
        return {"size": list(self.size), "members": [dict(part) for part in self.parts]}


@dataclass(frozen=True, slots=True, eq=False)
class Ensemble:
    """Several models that answer as one. Make it with `ensemble`."""

    name: str
    members: tuple[Model, ...]
    preprocessing: SideBySide
    classes: int
    weights_digest: str
    class_names: tuple[str, ...] | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """What changes the answers besides weights and preprocessing: the settings of each member."""
        return {"members": [getattr(member, "settings", {}) for member in self.members]}

    @property
    def device(self) -> str:
        """The device of the first member; `on` places all members alike."""
        return getattr(self.members[0], "device", "cpu")

    def prepare(self, image: Bytes) -> Floats:
        """Return the members' inputs for a photo, side by side where they differ: float32 in [0, 1]."""
        inputs = np.zeros((3, *self.preprocessing.size), dtype=np.float32)
        filled = set()
        for member, column in zip(self.members, self.preprocessing.columns, strict=True):
            if column not in filled:
                height, width = member.preprocessing.size
                inputs[:, :height, column : column + width] = member.prepare(image)
                filled.add(column)
        return inputs

    def answer(self, batch: Floats) -> ModelOutputs:
        """Compute logits of prepared photos; their softmax is the mean of the members' probabilities."""
        check_batch(batch, name=self.name, size=self.preprocessing.size)
        logits = np.empty((len(self.members), len(batch), self.classes), dtype=np.float32)
        total = np.zeros((len(batch), self.classes))
        for index, (member, column) in enumerate(zip(self.members, self.preprocessing.columns, strict=True)):
            height, width = member.preprocessing.size
            outputs = member.answer(np.ascontiguousarray(batch[:, :, :height, column : column + width]))
            logits[index] = outputs.logits
            total += outputs.probabilities
        mean = (total / len(self.members)).astype(np.float32)
        return ModelOutputs(as_logits(mean, "probabilities"), members=logits)

    def on(self, device: str, *, precision: Precision | None = None) -> Ensemble:
        """Return the ensemble with every member on a device, computing in a precision."""
        return replace(self, members=tuple(place(member, device, precision) for member in self.members))

    def with_features(self, layer: str | None = None) -> Ensemble:
        """Raise: there is no layer before a mean of probabilities."""
        raise (InvalidInput if layer else NoFeatures)(
            f"{self.name} has no features{f', got layer={layer}' if layer else ''}; use its members"
        )


def ensemble(members: Sequence[Model], *, name: str) -> Ensemble:
    """Combine models into one that returns the mean of their probabilities.

    Args:
        members: At least two models with the same number of classes and, where known, the same class names.
        name: Observer name.

    Returns:
        The ensemble.

    Raises:
        InvalidInput: There is only one member, or the members' classes differ.

    >>> from cosight.models import Preprocessing, as_model
    >>> pixels = Preprocessing((8, 8), mean=(0, 0, 0), std=(1, 1, 1))
    >>> members = [
    ...     as_model(lambda images, f=f: f(images, axis=(2, 3)), name=f"mine:{f.__name__}", preprocessing=pixels)
    ...     for f in (np.mean, np.std)
    ... ]
    >>> ensemble(members, name="mine:both").classes
    3
    """
    if len(members) < 2:
        raise InvalidInput(f"an ensemble needs at least two members, got {len(members)}; join them with +")
    counts = {member.name: member.classes for member in members}
    if len(set(counts.values())) > 1:
        got = ", ".join(f"{member} {count}" for member, count in counts.items())
        raise InvalidInput(f"members of an ensemble must have the same number of classes, got {got}")
    class_names = {member.class_names for member in members if member.class_names is not None}
    if len(class_names) > 1:
        raise InvalidInput(f"members of an ensemble must have the same class names in the same order, {name} has not")
    digest = hashlib.sha256("\n".join(member.weights_digest for member in members).encode()).hexdigest()
    names = class_names.pop() if class_names else None
    return Ensemble(name, tuple(members), _side_by_side(members), members[0].classes, digest, names)


def _side_by_side(members: Sequence[Model]) -> SideBySide:
    """Assign columns to members; those that prepare photos alike use the same ones."""
    first_columns: dict[str, int] = {}
    columns, width = [], 0
    for member in members:
        # mean and std are applied after `prepare`, inside the model
        facts = sorted(item for item in member.preprocessing.facts.items() if item[0] not in ("mean", "std"))
        if repr(facts) not in first_columns:
            first_columns[repr(facts)] = width
            width += member.preprocessing.size[1]
        columns.append(first_columns[repr(facts)])
    height = max(member.preprocessing.size[0] for member in members)
    return SideBySide((height, width), tuple(columns), tuple(member.preprocessing.facts for member in members))

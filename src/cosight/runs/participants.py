"""Who takes part in a run: models asked in its label space, and answers that were recorded elsewhere.

A participant says what it is (`identity`), makes room for a batch of images, and answers it in the columns of trials.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import polars as pl

from cosight.errors import InvalidInput
from cosight.models.model import Model
from cosight.models.recorded import Recorded
from cosight.runs.shown import Shown, digests
from cosight.stimuli.images import Bytes, Floats
from cosight.trials.mapping import How, LabelMap, answers_from, label_map
from cosight.trials.spaces import LabelSpace, label_spaces
from cosight.trials.table import SCHEMA

__all__ = ["Asked", "Participant", "Replayed", "Said", "asked", "own_space"]

_COMMON = "imagenet-1k"  # what most classifiers that name no classes were trained on


@dataclass(frozen=True, slots=True, eq=False)
class Said:
    """Answers to a batch: columns of the trial table, a row an image; logits and features where there are any."""

    columns: pl.DataFrame
    logits: Floats | None = None
    features: Floats | None = None
    unanswered: tuple[int, ...] = ()  # rows that are no trials, since this observer was not shown them


class Participant(Protocol):
    """Whoever answers in a run."""

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def kind(self) -> str: ...  # noqa: D102

    @property
    def identity(self) -> Mapping[str, Any]:
        """Everything of it that changes an answer, as JSON."""
        ...

    @property
    def facts(self) -> Mapping[str, Any]:
        """What else the record says of it."""
        ...

    def room(self, count: int) -> Floats:
        """An array for what it will see of `count` images."""
        ...

    def put(self, room: Floats, place: int, pixels: Bytes) -> None:
        """Put what it sees of an image into the array."""
        ...

    def answer(self, start: int, rows: pl.DataFrame, room: Floats) -> Said:
        """Answer the images in the array, which are those of these rows of the manifest, from row `start` on."""
        ...


@dataclass(frozen=True)
class Asked:
    """A model, and how its own outputs become answers in the run's label space."""

    model: Model
    mapping: LabelMap
    note: str | None = None
    kind: str = "model"

    @property
    def name(self) -> str:
        """The model's."""
        return self.model.name

    @cached_property
    def identity(self) -> dict[str, Any]:
        """Weights, what becomes of a photo, how outputs become answers."""
        return {
            "observer": self.name,
            "weights": self.model.weights_digest,
            "preprocessing": self.model.preprocessing.facts,
            "settings": getattr(self.model, "settings", {}),
            "mapping": self.mapping.digest,
        }

    @property
    def facts(self) -> dict[str, Any]:
        """How many outputs it has, and the mapping in words."""
        mapping = {"from": self.mapping.source, "to": self.mapping.target, "how": self.mapping.how}
        return {"outputs": self.model.classes, "mapping": mapping}

    def room(self, count: int) -> Floats:
        """Float32 (count, 3, height, width)."""
        return np.zeros((count, 3, *self.model.preprocessing.size), dtype=np.float32)

    def put(self, room: Floats, place: int, pixels: Bytes) -> None:
        """Prepared the model's own way."""
        room[place] = self.model.prepare(pixels)

    def answer(self, start: int, rows: pl.DataFrame, room: Floats) -> Said:
        """The class with the greatest value, and the distribution over the classes."""
        given = self.model.answer(room)
        if not np.isfinite(given.logits).all():
            place = int(np.flatnonzero(~np.isfinite(given.logits).all(axis=1))[0])
            raise InvalidInput(f"answers must be finite, {self.name} gives nan or inf for {rows['file'][place]}")
        said = answers_from(self.mapping.apply(given.probabilities))
        known = pl.Series(~np.isnan(said.probabilities[:, 0]))
        words = np.array([*self.mapping.classes, None], dtype=object)[said.response]  # -1, no answer, is the last
        shares = pl.Series("probabilities", said.probabilities).cast(SCHEMA["probabilities"])
        columns = pl.DataFrame({"response": pl.Series(words, dtype=pl.String), "probabilities": shares})
        columns = columns.with_columns(probabilities=pl.when(known).then("probabilities"))
        return Said(columns, given.logits, given.features)


def asked(model: Model, space: LabelSpace, *, how: How = "mean") -> Asked:
    """The model as a participant; refused where its outputs cannot be answers in this label space."""
    own, note = own_space(model, space)
    return Asked(model, label_map(own, space, how=how), note)


def own_space(model: Model, target: LabelSpace) -> tuple[LabelSpace, str | None]:
    """What the model's outputs stand for, and what had to be taken for granted.

    Outputs without names are those of the target, of the space that its classes are made of, or ImageNet's, in the
    usual order, where their number fits.
    """
    names = model.class_names
    if names is not None:
        known = next((space for space in label_spaces.values() if space.classes == names), None)
        return known or LabelSpace(f"the classes of {model.name}", names), None
    parent = [label_spaces[target.members_of]] if target.members_of else []
    for space in (target, *parent, label_spaces[_COMMON]):
        if len(space.classes) == model.classes:
            order = f"taken for {space.name}'s in the usual order"
            return space, f"its {model.classes:,} outputs have no names and are {order} (classes=FILE says otherwise)"
    raise InvalidInput(
        f"{model.name} has {model.classes:,} outputs without names, {target.name} has {len(target.classes)} classes; "
        "say what they are with classes=FILE, or train a linear probe on its features (--probe TRAINSET)"
    )


@dataclass(frozen=True)
class Replayed:
    """Answers of an observer who saw the stimuli elsewhere, looked up for all that is shown."""

    recorded: Recorded
    shown: Shown

    @property
    def name(self) -> str:
        """The observer's."""
        return self.recorded.name

    @property
    def kind(self) -> str:
        """The observer's."""
        return self.recorded.kind

    @property
    def note(self) -> str | None:
        """How many stimuli it has not answered, where it has not answered all."""
        missing = self._answers.height - int(self._answers["found"].sum())
        return f"no recorded answer to {missing} of {self._answers.height} stimuli" if missing else None

    @property
    def identity(self) -> dict[str, Any]:
        """The recorded rows."""
        return {"observer": self.name, "recorded": self.recorded.digest}

    @property
    def facts(self) -> dict[str, Any]:
        """Nothing more."""
        return {}

    @cached_property
    def _answers(self) -> pl.DataFrame:
        """To every stimulus; those that only reading tells apart are read first, if the record knows digests."""
        frame = self.shown.frame
        if (
            frame["stimulus"].null_count()
            and self.recorded.trials["stimulus"].null_count() < self.recorded.trials.height
        ):
            frame = frame.with_columns(pl.Series("stimulus", digests(self.shown), dtype=pl.String))
        return self.recorded.answers(frame)

    def room(self, count: int) -> Floats:
        """No room: whoever recorded the answers has seen the images."""
        return np.zeros((count, 0), dtype=np.float32)

    def put(self, room: Floats, place: int, pixels: Bytes) -> None:
        """Nothing."""

    def answer(self, start: int, rows: pl.DataFrame, room: Floats) -> Said:
        """What was recorded about these stimuli."""
        mine = self._answers[start : start + rows.height]
        return Said(mine.drop("found"), unanswered=tuple((~mine["found"]).arg_true()))

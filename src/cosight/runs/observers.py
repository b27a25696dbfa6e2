"""Who takes part in a run: models asked in its label space, and answers that were recorded elsewhere.

A participant says what it is (`identity`), makes room for a batch of images, and answers it in the columns of trials.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cosight.errors import InvalidInput
from cosight.models.model import Model, ModelOutputs
from cosight.models.recorded_answers import RecordedAnswers
from cosight.runs.stimulus_sources import StimulusSource, digests
from cosight.stimuli.images import Bytes, Floats
from cosight.trials.mapping import How, LabelMap, answers_from, label_map
from cosight.trials.spaces import LabelSpace, label_spaces
from cosight.trials.table import SCHEMA

__all__ = ["BatchAnswers", "ModelObserver", "Observer", "RecordedObserver", "model_observer", "own_space"]

Watch = Callable[[Floats, ModelOutputs], NDArray[Any]]  # a batch and the answers to it -> a number an image
_COMMON = "imagenet-1k"  # what most classifiers that name no classes were trained on


@dataclass(frozen=True, slots=True, eq=False)
class BatchAnswers:
    """ModelOutputs to a batch: columns of the trial table, a row an image, and arrays with a row an image by name."""

    columns: pl.DataFrame
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    unanswered: tuple[int, ...] = ()  # rows that are no trials, since this observer was not shown them


class Observer(Protocol):
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

    def answer(self, start: int, rows: pl.DataFrame, room: Floats) -> BatchAnswers:
        """Answer the images in the array, which are those of these rows of the manifest, from row `start` on."""
        ...


@dataclass(frozen=True)
class ModelObserver:
    """A model, and how its own outputs become answers in the run's label space."""

    model: Model
    mapping: LabelMap
    note: str | None = None
    watched: Mapping[str, Watch] = field(default_factory=dict)  # abstention functions that need the model itself
    unfit: Mapping[str, str] = field(default_factory=dict)  # those that do not go with it, and why
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
            **({"watched": sorted(self.watched)} if self.watched else {}),
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

    def _strangeness(self, rows: pl.DataFrame, room: Floats, given: ModelOutputs) -> dict[str, NDArray[Any]]:
        """What is watched, of images that are judged or scaled on; nan for training images, of which nobody asks."""
        wanted = (rows["split"] != "train").fill_null(True).to_numpy()
        found = {f"strangeness.{name}": np.full(len(room), np.nan) for name in self.watched}
        for name, watch in self.watched.items():
            if wanted.any():
                found[f"strangeness.{name}"][wanted] = watch(room[wanted], _part(given, wanted))
        return found

    def answer(self, start: int, rows: pl.DataFrame, room: Floats) -> BatchAnswers:
        """The class with the greatest value, and the distribution over the classes."""
        given = self.model.answer(room)
        shown = rows["stimulus"].is_not_null().to_numpy()
        logits = np.where(shown[:, None], given.logits, 0).astype(np.float32)  # what was not shown is no answer
        if not np.isfinite(logits).all():
            place = int(np.flatnonzero(~np.isfinite(logits).all(axis=1))[0])
            raise InvalidInput(f"answers must be finite, {self.name} gives nan or inf for {rows['file'][place]}")
        said = answers_from(self.mapping.apply(ModelOutputs(logits).probabilities))
        known = pl.Series(~np.isnan(said.probabilities[:, 0]))
        words = np.array([*self.mapping.classes, None], dtype=object)[said.response]  # -1, no answer, is the last
        shares = pl.Series("probabilities", said.probabilities).cast(SCHEMA["probabilities"])
        columns = pl.DataFrame({"response": pl.Series(words, dtype=pl.String), "probabilities": shares})
        columns = columns.with_columns(probabilities=pl.when(known).then("probabilities"))
        features = {} if given.features is None else {"features": given.features.astype(np.float32)}
        strange = self._strangeness(rows, room, given) if self.watched else {}
        return BatchAnswers(columns, {"logits": logits, **features, **strange})


def _part(given: ModelOutputs, rows: NDArray[np.bool_]) -> ModelOutputs:
    members = None if given.members is None else given.members[:, rows]
    return ModelOutputs(given.logits[rows], None, members)


def model_observer(
    model: Model,
    space: LabelSpace,
    *,
    how: How = "mean",
    watched: Mapping[str, Watch] | None = None,
    unfit: Mapping[str, str] | None = None,
) -> ModelObserver:
    """The model as a participant; refused where its outputs cannot be answers in this label space."""
    own, note = own_space(model, space)
    return ModelObserver(model, label_map(own, space, how=how), note, watched or {}, unfit or {})


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
class RecordedObserver:
    """ModelOutputs of an observer who saw the stimuli elsewhere, looked up for all that is shown."""

    recorded: RecordedAnswers
    shown: StimulusSource
    space: LabelSpace  # of the run

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
        """How many stimuli it has not answered, and how many of its trials are not test trials, if any."""
        missing, left_out = self._answers.height - int(self._answers["found"].sum()), self.recorded.left_out
        notes = [f"no recorded answer to {missing} of {self._answers.height} stimuli"] if missing else []
        notes += [f"{left_out} recorded trials are left out by their role"] if left_out else []
        return "; ".join(notes) or None

    @property
    def identity(self) -> dict[str, Any]:
        """The recorded rows."""
        space = self.recorded.space
        return {"observer": self.name, "recorded": self.recorded.digest, "classes": space and list(space.classes)}

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
        return self._in_order(self.recorded.answers(frame))

    def _in_order(self, answers: pl.DataFrame) -> pl.DataFrame:
        """Probabilities in the order of the run's classes; refused where they are about other ones."""
        given = self.recorded.space
        if given is None or given.classes == self.space.classes or not answers["probabilities"].count():
            return answers
        if set(given.classes) != set(self.space.classes):
            raise InvalidInput(
                f"answers recorded in {given.name} are about other classes than the run's, {self.space.name}; "
                f"name theirs with --labels"
            )
        order = [given.classes.index(name) for name in self.space.classes]
        return answers.with_columns(pl.col("probabilities").list.gather(order))

    def room(self, count: int) -> Floats:
        """No room: whoever recorded the answers has seen the images."""
        return np.zeros((count, 0), dtype=np.float32)

    def put(self, room: Floats, place: int, pixels: Bytes) -> None:
        """Nothing."""

    def answer(self, start: int, rows: pl.DataFrame, room: Floats) -> BatchAnswers:
        """What was recorded about these stimuli."""
        mine = self._answers[start : start + rows.height]
        return BatchAnswers(mine.drop("found"), unanswered=tuple((~mine["found"]).arg_true()))

"""Observers of a run: models that answer in its label space, and answers that were recorded elsewhere.

A `ModelReference` loads them, in this process or in a worker. An observer says what it is (`identity`), has a buffer
filled with a batch of images, and answers it in the columns of trials.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cosight.errors import InvalidInput
from cosight.files import file_stamp
from cosight.models.loading import load_model, spec_files
from cosight.models.model import Model, ModelOutputs, NoFeatures
from cosight.models.model_spec import ModelSpec, ensemble_of, parse
from cosight.models.output_space import output_space
from cosight.models.probes import attach_probe, read_probe
from cosight.models.python_models import as_model
from cosight.models.recorded_answers import RecordedAnswers, load_recorded
from cosight.runs.abstention_observers import StrangenessFunction, strangeness_functions
from cosight.runs.stimulus_sources import StimulusSource, digests
from cosight.stimuli.images import Bytes, Floats
from cosight.trials.mapping import How, LabelMap, answers_from, label_map
from cosight.trials.spaces import LabelSpace
from cosight.trials.table import SCHEMA

if TYPE_CHECKING:
    from cosight.runs.run_plan import RunPlan

__all__ = [
    "UNANSWERED",
    "BatchAnswers",
    "ModelObserver",
    "ModelReference",
    "Observer",
    "RecordedObserver",
    "model_observer",
    "with_threads",
]

UNANSWERED = "no recorded answer"  # reason of a stimulus that a recorded observer was not shown


@dataclass(frozen=True, slots=True, eq=False)
class BatchAnswers:
    """Answers to a batch: columns of the trial table and named arrays, both with one row per image."""

    columns: pl.DataFrame
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    unanswered: Mapping[int, str] = field(default_factory=dict)  # rows without a trial -> why


class Observer(Protocol):
    """Whoever answers in a run."""

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def kind(self) -> str: ...  # noqa: D102

    @property
    def identity(self) -> Mapping[str, Any]:
        """Everything about it that changes an answer, as JSON."""
        ...

    @property
    def facts(self) -> Mapping[str, Any]:
        """What else run.json records about it."""
        ...

    def buffer(self, count: int) -> NDArray[Any]:
        """Return an array for `count` preprocessed images."""
        ...

    def load_into(self, buffer: NDArray[Any], index: int, pixels: Bytes) -> None:
        """Preprocess an image into a row of the buffer."""
        ...

    def answer(self, start: int, rows: pl.DataFrame, buffer: NDArray[Any]) -> BatchAnswers:
        """Answer the images in the buffer, which are these rows of the manifest, from row `start` on."""
        ...


@dataclass(frozen=True)
class ModelObserver:
    """A model, and how its own outputs become answers in the run's label space."""

    model: Model
    mapping: LabelMap
    note: str | None = None
    strangeness: Mapping[str, StrangenessFunction] = field(default_factory=dict)  # abstention functions of the model
    unsupported: Mapping[str, str] = field(default_factory=dict)  # abstention functions it does not support -> why
    kind: str = "model"

    @property
    def name(self) -> str:
        """Name of the model."""
        return self.model.name

    @cached_property
    def identity(self) -> dict[str, Any]:
        """Weights, preprocessing, and how outputs become answers."""
        return {
            "observer": self.name,
            "weights": self.model.weights_digest,
            "preprocessing": self.model.preprocessing.facts,
            "settings": getattr(self.model, "settings", {}),
            "mapping": self.mapping.digest,
            **({"watched": sorted(self.strangeness)} if self.strangeness else {}),
        }

    @property
    def facts(self) -> dict[str, Any]:
        """Number of outputs, the label mapping in words, and the device."""
        mapping = {"from": self.mapping.source, "to": self.mapping.target, "how": self.mapping.how}
        return {"outputs": self.model.classes, "mapping": mapping, "device": getattr(self.model, "device", None)}

    def buffer(self, count: int) -> Floats:
        """Return a float32 array (count, 3, height, width)."""
        return np.zeros((count, 3, *self.model.preprocessing.size), dtype=np.float32)

    def load_into(self, buffer: Floats, index: int, pixels: Bytes) -> None:
        """Preprocess an image as the model requires."""
        buffer[index] = self.model.prepare(pixels)

    def answer(self, start: int, rows: pl.DataFrame, buffer: Floats) -> BatchAnswers:
        """Return the most probable class and the class probabilities of each image."""
        outputs = self.model.answer(buffer)
        was_loaded = rows["stimulus"].is_not_null().to_numpy()
        logits = np.where(was_loaded[:, None], outputs.logits, 0).astype(np.float32)
        if not np.isfinite(logits).all():
            index = int(np.flatnonzero(~np.isfinite(logits).all(axis=1))[0])
            raise InvalidInput(f"answers must be finite, {self.name} gives nan or inf for {rows['file'][index]}")
        answers = answers_from(self.mapping.apply(ModelOutputs(logits).probabilities))
        has_answer = pl.Series(~np.isnan(answers.probabilities[:, 0]))
        responses = np.array([*self.mapping.classes, None], dtype=object)[answers.response]  # -1, no answer, is None
        probabilities = pl.Series("probabilities", answers.probabilities).cast(SCHEMA["probabilities"])
        columns = pl.DataFrame({"response": pl.Series(responses, dtype=pl.String), "probabilities": probabilities})
        columns = columns.with_columns(probabilities=pl.when(has_answer).then("probabilities"))
        arrays: dict[str, NDArray[Any]] = {"logits": logits}
        if outputs.features is not None:
            arrays["features"] = outputs.features.astype(np.float32)
        if self.strangeness:
            arrays |= self._strangeness_scores(rows, buffer, outputs)
        return BatchAnswers(columns, arrays)

    def _strangeness_scores(self, rows: pl.DataFrame, buffer: Floats, outputs: ModelOutputs) -> dict[str, NDArray[Any]]:
        """Return strangeness scores of calibration and test images; nan for training images."""
        needed = (rows["split"] != "train").fill_null(True).to_numpy()
        members = None if outputs.members is None else outputs.members[:, needed]
        selected = ModelOutputs(outputs.logits[needed], None, members)
        scores = {f"strangeness.{name}": np.full(len(buffer), np.nan) for name in self.strangeness}
        for name, function in self.strangeness.items():
            if needed.any():
                scores[f"strangeness.{name}"][needed] = function(buffer[needed], selected)
        return scores


def model_observer(
    model: Model,
    space: LabelSpace,
    *,
    how: How = "mean",
    strangeness: Mapping[str, StrangenessFunction] | None = None,
    unsupported: Mapping[str, str] | None = None,
) -> ModelObserver:
    """Return a model as an observer; raise where its outputs cannot be answers in this label space."""
    own, note = output_space(model, space)
    return ModelObserver(model, label_map(own, space, how=how), note, strangeness or {}, unsupported or {})


@dataclass(frozen=True)
class RecordedObserver:
    """Answers of an observer who saw the stimuli elsewhere, looked up for all stimuli of the run."""

    recorded: RecordedAnswers
    stimuli: StimulusSource
    space: LabelSpace  # of the run

    @property
    def name(self) -> str:
        """Name of the recorded observer."""
        return self.recorded.name

    @property
    def kind(self) -> str:
        """Kind of the recorded observer."""
        return self.recorded.kind

    @property
    def note(self) -> str | None:
        """How many stimuli have no answer, and how many recorded trials are not test trials, if any."""
        missing, left_out = self._answers.height - int(self._answers["found"].sum()), self.recorded.left_out
        notes = [f"no recorded answer to {missing} of {self._answers.height} stimuli"] if missing else []
        notes += [f"{left_out} recorded trials are left out by their role"] if left_out else []
        return "; ".join(notes) or None

    @property
    def identity(self) -> dict[str, Any]:
        """Digest of the recorded rows, and their classes."""
        space = self.recorded.space
        return {"observer": self.name, "recorded": self.recorded.digest, "classes": space and list(space.classes)}

    @property
    def facts(self) -> dict[str, Any]:
        """Empty."""
        return {}

    @cached_property
    def _answers(self) -> pl.DataFrame:
        """Answers to every stimulus, probabilities in the order of the run's classes."""
        frame, recorded = self.stimuli.frame, self.recorded.trials["stimulus"]
        if frame["stimulus"].null_count() and recorded.null_count() < len(recorded):  # digests are needed to join
            frame = frame.with_columns(pl.Series("stimulus", digests(self.stimuli), dtype=pl.String))
        answers = self.recorded.answers(frame)
        own = self.recorded.space
        if own is None or own.classes == self.space.classes or not answers["probabilities"].count():
            return answers
        return answers.with_columns(pl.col("probabilities").list.gather(self.space.order_in(own)))

    def buffer(self, count: int) -> Floats:
        """Return an array without columns: no pixels are needed."""
        return np.zeros((count, 0), dtype=np.float32)

    def load_into(self, buffer: Floats, index: int, pixels: Bytes) -> None:
        """Do nothing."""

    def answer(self, start: int, rows: pl.DataFrame, buffer: Floats) -> BatchAnswers:
        """Return what was recorded about these stimuli."""
        answers = self._answers[start : start + rows.height]
        missing = (~answers["found"]).arg_true()
        return BatchAnswers(answers.drop("found"), unanswered=dict.fromkeys(missing, UNANSWERED))


@dataclass(frozen=True, slots=True)
class ModelReference:
    """A model by its spec (`timm:resnet50`) or the model itself, and the probe that answers in its place.

    A reference by spec can be sent to another process, which loads the model there.
    """

    model: Any
    probe: Path | None = None
    probe_name: str = ""

    @property
    def spec(self) -> str | None:
        """The spec, None where the model itself was given."""
        return self.model if isinstance(self.model, str) else None

    @property
    def description(self) -> str:
        """The spec, or the type of the model that was given."""
        return self.spec or f"a {type(self.model).__name__}"

    @property
    def is_recorded(self) -> bool:
        """Whether it refers to answers that were recorded elsewhere."""
        return self.spec is not None and parse(self.spec).source == "trials"

    @property
    def is_vlm(self) -> bool:
        """Whether it names a vision-language model."""
        return self.spec is not None and parse(self.spec).source == "vlm"

    def file_stamps(self) -> dict[str, str] | None:
        """Return stamps of the files that determine the answers; None where files do not determine them."""
        paths = None if self.spec is None else spec_files(parse(self.spec))
        return None if paths is None else {str(path): file_stamp(path) for path in paths if path.is_file()}

    def load(self, plan: RunPlan, *, threads: int | None = None, device: str = "auto") -> Model:
        """Load the model on a device, with features if the plan or a probe needs them."""
        return self._load(plan, threads, device, features=plan.features or self.probe is not None)

    def _load(self, plan: RunPlan, threads: int | None, device: str, *, features: bool) -> Model:
        if self.spec is not None:
            spec = with_threads(parse(self.spec), threads)
            return load_model(spec, device=device, precision=plan.precision, features=features, space=plan.space)
        precision = None if plan.precision == "float32" else plan.precision
        model = as_model(self.model, features=features, device=device, precision=precision)
        own = getattr(model, "precision", plan.precision)
        if own != plan.precision:
            raise InvalidInput(
                f"{model.name} computes in {own}, the run in {plan.precision}; evaluate it with precision={own!r}"
            )
        return model

    def observers(self, plan: RunPlan, *, threads: int | None = None, device: str = "auto") -> list[Observer]:
        """Load the observers on a device: the model, or everyone in a file of recorded answers.

        A model that has no features takes part without them, unless a probe needs them.
        """
        if self.spec is not None and self.is_recorded:
            return [RecordedObserver(answers, plan.stimuli, plan.space) for answers in load_recorded(parse(self.spec))]
        reason = None
        try:
            model = self.load(plan, threads=threads, device=device)
        except NoFeatures as error:
            if self.probe is not None:
                raise
            model, reason = self._load(plan, threads, device, features=False), str(error)
        if self.probe is not None:
            model = attach_probe(model, read_probe(self.probe), name=f"{model.name},probe={self.probe_name}")
        _check_classes(model, plan)
        functions, unsupported = strangeness_functions(model, plan.abstain)
        observer = model_observer(model, plan.space, how=plan.how, strangeness=functions, unsupported=unsupported)
        missing = f"only logits are stored: {reason}" if reason and not plan.abstain else None
        notes = [note for note in (observer.note, missing) if note]
        return [replace(observer, note="; ".join(notes) or None)]


def _check_classes(model: Model, plan: RunPlan) -> None:
    """Raise where a model has the classes of the images, and the label space has others besides."""
    names = model.class_names or ()
    truths = plan.stimuli.frame["truth"].drop_nulls().unique().to_list()
    if truths and set(truths) <= set(names) < set(plan.space.classes):
        raise InvalidInput(
            f"{model.name} has {len(names)} of the {len(plan.space.classes)} classes of {plan.space.name}, the only "
            f"ones that the images show; use --labels {','.join(names)}"
        )


def with_threads(spec: ModelSpec, threads: int | None) -> ModelSpec:
    """Return a spec with the number of threads, which onnxruntime takes when it loads a model."""
    if threads is not None and spec.members:
        return ensemble_of([with_threads(member, threads) for member in spec.members])
    if threads is None or spec.source != "onnx" or spec.get("threads") is not None:
        return spec
    return replace(spec, options=(*spec.options, ("threads", str(threads))))

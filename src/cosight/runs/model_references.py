"""Asking someone to take part in a run: by a line (`timm:resnet50`), or a model itself.

An invitation can be sent to other processes, which load the model there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cosight.files import file_stamp
from cosight.models.loading import load_model, spec_files
from cosight.models.model import Model
from cosight.models.model_spec import ModelSpec, ensemble_of, parse
from cosight.models.probes import attach_probe, read_probe
from cosight.models.python_models import as_model
from cosight.models.recorded_answers import load_recorded
from cosight.runs.abstaining import watches
from cosight.runs.observers import Observer, RecordedObserver, model_observer
from cosight.runs.run_plan import RunPlan

__all__ = ["ModelReference", "probed_name"]


@dataclass(frozen=True, slots=True)
class ModelReference:
    """A model's line, or the model; `probe` is the file of a trained probe that answers in its place."""

    model: Any
    probe: Path | None = None
    probe_name: str = ""

    @property
    def line(self) -> str | None:
        """The line, None where a model itself was given."""
        return self.model if isinstance(self.model, str) else None

    @property
    def told(self) -> str:
        """The line, or what kind of thing the model is that was given itself."""
        return self.line or f"a {type(self.model).__name__}"

    @property
    def recorded(self) -> bool:
        """Whether it is for answers that were recorded elsewhere."""
        return self.line is not None and parse(self.line).source == "trials"

    def files(self) -> dict[str, str] | None:
        """Stamps of the files that the line names, which tell whether it is still the same; None where they do not."""
        paths = None if self.line is None else spec_files(parse(self.line))
        return None if paths is None else {str(path): file_stamp(path) for path in paths if path.is_file()}

    def loaded(self, plan: RunPlan, *, threads: int | None = None) -> Model:
        """The model itself."""
        if self.line is None:
            return as_model(self.model, name=f"python:{type(self.model).__name__}", features=self._featured(plan))
        spec = _with_threads(parse(self.line), threads)
        return load_model(spec, features=self._featured(plan), space=plan.space)

    def _featured(self, plan: RunPlan) -> bool:
        """An ensemble has no features; where others are asked for them to abstain, it takes part without."""
        alone = self.line is not None and parse(self.line).source == "ensemble" and bool(plan.abstain)
        return (plan.features and not alone) or self.probe is not None

    def accepted(self, plan: RunPlan, *, threads: int | None = None) -> list[Observer]:
        """Who takes part: the model, or everyone in a file of recorded answers."""
        if self.line is not None and self.recorded:
            return [RecordedObserver(recorded, plan.shown, plan.space) for recorded in load_recorded(parse(self.line))]
        model = self.loaded(plan, threads=threads)
        if self.probe is not None:
            model = attach_probe(model, read_probe(self.probe), name=probed_name(model, self.probe_name))
        watched, reasons = watches(model, plan.abstain)
        return [model_observer(model, plan.space, how=plan.how, watched=watched, unfit=reasons)]


def probed_name(model: Model, trained_on: str) -> str:
    """The observer's name when a probe answers in the model's place."""
    return f"{model.name},probe={trained_on}"


def _with_threads(spec: ModelSpec, threads: int | None) -> ModelSpec:
    """onnxruntime is told its threads when the model is loaded."""
    if threads is not None and spec.members:
        return ensemble_of([_with_threads(member, threads) for member in spec.members])
    if threads is None or spec.source != "onnx" or spec.get("threads") is not None:
        return spec
    return replace(spec, options=(*spec.options, ("threads", str(threads))))

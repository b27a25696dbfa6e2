"""Asking someone to take part in a run: by a line (`timm:resnet50`), or a model itself.

An invitation can be sent to other processes, which load the model there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cosight.models.grammar import ModelSpec, parse
from cosight.models.model import Model
from cosight.models.onnx_models import onnx_files
from cosight.models.own import as_model
from cosight.models.probes import probed, read_probe
from cosight.models.recorded import load_recorded
from cosight.models.sources import load_model
from cosight.runs.participants import Participant, Replayed, asked
from cosight.runs.plan import Plan
from cosight.stimuli.sets import file_stamp

__all__ = ["Invitation", "probed_name"]

_FILES = ("checkpoint", "classes", "templates")  # options that may name files
_ALWAYS_NEW = ("python", "trials")  # what is behind the line cannot be told without loading it


@dataclass(frozen=True, slots=True)
class Invitation:
    """A model's line, or the model; `probe` is the file of a trained probe that answers in its place."""

    model: Any
    probe: Path | None = None
    probe_name: str = ""

    @property
    def line(self) -> str | None:
        """The line, None where a model itself was given."""
        return self.model if isinstance(self.model, str) else None

    def files(self) -> dict[str, str] | None:
        """Stamps of the files that the line names, which tell whether it is still the same; None where they do not."""
        specs = [] if self.line is None else _members(parse(self.line))
        if not specs or any(spec.source in _ALWAYS_NEW for spec in specs):
            return None
        names = [spec.get(key) for spec in specs for key in _FILES]
        paths = [Path(name).expanduser() for name in names if name]
        paths += [path for spec in specs if spec.source == "onnx" for path in onnx_files(spec)]
        return {str(path): file_stamp(path) for path in paths if path.is_file()}

    def loaded(self, plan: Plan, *, threads: int | None = None) -> Model:
        """The model itself."""
        if self.line is None:
            return as_model(self.model, name=f"python:{type(self.model).__name__}", features=self._featured(plan))
        spec = _with_threads(parse(self.line), threads)
        return load_model(spec, features=self._featured(plan), space=plan.space)

    def _featured(self, plan: Plan) -> bool:
        return plan.features or self.probe is not None

    def accepted(self, plan: Plan, *, threads: int | None = None) -> list[Participant]:
        """Who takes part: the model, or everyone in a file of recorded answers."""
        spec = None if self.line is None else parse(self.line)
        if spec is not None and spec.source == "trials":
            return [Replayed(recorded, plan.shown) for recorded in load_recorded(spec)]
        model = self.loaded(plan, threads=threads)
        if self.probe is not None:
            model = probed(model, read_probe(self.probe), name=probed_name(model, self.probe_name))
        return [asked(model, plan.space, how=plan.how)]


def probed_name(model: Model, trained_on: str) -> str:
    """The observer's name when a probe answers in the model's place."""
    return f"{model.name},probe={trained_on}"


def _members(spec: ModelSpec) -> list[ModelSpec]:
    return [part for member in spec.members for part in _members(member)] or [spec]


def _with_threads(spec: ModelSpec, threads: int | None) -> ModelSpec:
    """onnxruntime is told its threads when the model is loaded."""
    if threads is None or spec.source != "onnx" or spec.get("threads") is not None:
        return spec
    return replace(spec, options=(*spec.options, ("threads", str(threads))))

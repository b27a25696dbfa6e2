"""`onnx:FILE`: any classifier exported to ONNX, run by onnxruntime, without torch.

The file says how it is called, not what becomes of a photo before. That is said by `preprocessing.json` beside it,
`{"STEM": {"size": 224, "crop_pct": .875, "interpolation": "bicubic", "mean": ..., "std": ..., "classes": [...]}}`, or
by options. In the JSON, no `mean` and `std` means that the network takes pixels in [0, 1]; without the JSON, say
`mean=0,std=1` for that. Further options: `threads`, `output` (the logits' name, where there are several outputs),
`outputs=probabilities`, and `layer`, the name of an output that holds features.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from cosight.errors import InvalidInput, UnknownName
from cosight.models.model import (
    ModelOutputs,
    Outputs,
    as_logits,
    check_batch,
    check_class_names,
    check_outputs,
    probe_images,
    trying,
)
from cosight.models.model_spec import INPUT_KEYS, ModelSpec, changed, class_names_of, outputs_of, size_of
from cosight.models.preprocessing import Preprocessing, preprocess
from cosight.stimuli.images import Bytes, Floats

__all__ = ["ONNX_KEYS", "OnnxModel", "check_onnx", "load_onnx", "onnx_files"]

ONNX_KEYS = (*INPUT_KEYS, "layer", "classes", "threads", "output", "outputs")
_FACTS = "preprocessing.json"
_FACT_KEYS = {"size", "crop", "crop_pct", "crop_mode", "interpolation", "mean", "std", "classes"}


@dataclass(frozen=True, slots=True, eq=False)
class OnnxModel:
    """A network in an onnxruntime session. `weights_digest` is the sha256 of its file."""

    name: str
    session: Any
    preprocessing: Preprocessing
    classes: int
    weights_digest: str
    output: str
    class_names: tuple[str, ...] | None = None
    outputs: Outputs = "logits"
    layer: str | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """What changes its answers besides weights and preprocessing, for the record."""
        return {"output": self.output, "outputs": self.outputs, "layer": self.layer}

    def prepare(self, image: Bytes) -> Floats:
        """What it would see of this photo: float32 (3, height, width) in [0, 1]."""
        return preprocess(image, self.preprocessing)

    def answer(self, batch: Floats) -> ModelOutputs:
        """Prepared photos (N, 3, height, width) -> logits, and features where a layer is named."""
        check_batch(batch, name=self.name, size=self.preprocessing.size)
        given = _run(self.session, [self.output, *filter(None, [self.layer])], batch, self.preprocessing)
        features = given[1].reshape(len(batch), -1).astype(np.float32, copy=False) if self.layer else None
        return ModelOutputs(as_logits(given[0], self.outputs), features)

    def with_features(self, layer: str | None = None) -> OnnxModel:
        """The same model, whose answers have as features the output of this name."""
        others = [item.name for item in self.session.get_outputs() if item.name != self.output]
        if layer is None or layer not in others:
            there = f"its outputs beside {self.output} are {', '.join(others) or 'none'}"
            asked = f"got layer={layer}" if layer else "got no layer=NAME"
            raise InvalidInput(f"features of {self.name} are an output of the file, {asked}; {there}: export it so")
        return replace(self, layer=layer)


def load_onnx(spec: ModelSpec) -> OnnxModel:
    """`onnx:FILE`, tried on two images."""
    check_onnx(spec)
    path = Path(spec.name).expanduser()
    session = _session(path, _threads(spec))
    side = _input_side(session, path)
    facts = _facts(path)
    preprocessing = _preprocessing(spec, facts, side, path)
    output = _output(session, spec)
    probe = probe_images(preprocessing.size)
    with trying(spec.label, preprocessing.size):
        values = _run(session, [output], probe, preprocessing)[0]
    outputs = check_outputs(values, outputs_of(spec), name=spec.label, images=len(probe))
    names = class_names_of(spec) or (tuple(facts["classes"]) if facts and "classes" in facts else None)
    check_class_names(names, values.shape[1], name=spec.label)
    return OnnxModel(spec.label, session, preprocessing, values.shape[1], _digest(path), output, names, outputs)


def check_onnx(spec: ModelSpec) -> None:
    """Refuse a file that is not there."""
    path = Path(spec.name).expanduser()
    if not path.is_file():
        raise InvalidInput(f"an ONNX model must be a file, got {path}, which is not there; check the path")


def onnx_files(spec: ModelSpec) -> tuple[Path, ...]:
    """What decides its answers: the file, weights beside it, and what is said of its photos."""
    path = Path(spec.name).expanduser()
    return path, _weights_beside(path), path.with_name(_FACTS)


def _weights_beside(path: Path) -> Path:
    """Where torch puts the weights when it exports a large network."""
    return path.with_name(path.name + ".data")


def _session(path: Path, threads: int) -> Any:
    import onnxruntime  # type: ignore[import-untyped]

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3  # errors; its warnings are about how the file was exported
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its errors have no common class
        why = " ".join(str(error).split(":")[-1].split())[:120]
        raise InvalidInput(f"{path} is not an ONNX model that onnxruntime can load: {why}; export it again") from error


def _threads(spec: ModelSpec) -> int:
    given = spec.numbers("threads") or (0.0,)  # 0: as many as there are cores
    if len(given) != 1 or given[0] < 0 or given[0] != int(given[0]):
        raise InvalidInput(f"threads must be a whole number, 0 for one a core, got {spec.get('threads')}")
    return int(given[0])


def _input_side(session: Any, path: Path) -> tuple[int, int] | None:
    """The size the file asks for, where it does, once its input is seen to be images."""
    inputs = session.get_inputs()
    shape = inputs[0].shape if inputs else []
    images = len(shape) == 4 and (shape[1] == 3 or not isinstance(shape[1], int))
    if len(inputs) != 1 or not images or inputs[0].type != "tensor(float)":
        got = ", ".join(f"{item.name} {item.type} {item.shape}" for item in inputs)
        raise InvalidInput(f"an ONNX classifier takes one float input (N, 3, height, width), {path} takes {got}")
    height, width = shape[2:]
    return (height, width) if isinstance(height, int) and isinstance(width, int) else None


def _facts(path: Path) -> dict[str, Any] | None:
    """What `preprocessing.json` beside the file says of it."""
    beside = path.with_name(_FACTS)
    if not beside.is_file():
        return None
    try:
        every = json.loads(beside.read_text(encoding="utf-8"))
        facts = every.get(path.stem)
    except (ValueError, AttributeError) as error:
        raise InvalidInput(f"{beside} must be a JSON object by file stem, got something else: {error}") from error
    if facts is not None and (not isinstance(facts, dict) or set(facts) - _FACT_KEYS):
        got = ", ".join(sorted(set(facts) - _FACT_KEYS)) if isinstance(facts, dict) else type(facts).__name__
        raise InvalidInput(f"{beside} says of a model {', '.join(sorted(_FACT_KEYS))}, got {got} for {path.stem}")
    return facts


def _preprocessing(
    spec: ModelSpec, facts: dict[str, Any] | None, side: tuple[int, int] | None, path: Path
) -> Preprocessing:
    if facts is None and (spec.get("mean") is None or spec.get("std") is None):
        raise InvalidInput(
            f"how to normalise for {path} is not known: {_FACTS} beside it says nothing of {path.stem}; "
            f"add mean=0,std=1 if it takes pixels in [0, 1], or its mean and std"
        )
    said = facts or {}
    size = size_of(spec) or _pair(said.get("size")) or side
    if size is None:
        raise InvalidInput(f"the input size of {path} is not known: the file leaves it open; add size=SIDE")
    if side is not None and size != side:
        raise InvalidInput(f"{path} takes images of {side[0]} x {side[1]}, got size {size[0]} x {size[1]}")
    return changed(spec, _said(said, size, path))


def _said(facts: dict[str, Any], size: tuple[int, int], path: Path) -> Preprocessing:
    try:
        return Preprocessing(
            size,
            mean=_three(facts.get("mean", 0.0)),
            std=_three(facts.get("std", 1.0)),
            interpolation=facts.get("interpolation", "bicubic"),
            crop=facts.get("crop", facts.get("crop_pct", 1.0)),
            crop_mode=facts.get("crop_mode", "center"),
        )
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{path.with_name(_FACTS)} says of {path.stem} what cannot be: {error}") from error


def _pair(size: Any) -> tuple[int, int] | None:
    """A side, or height and width."""
    if size is None:
        return None
    sides = size if isinstance(size, list) else [size, size]
    if len(sides) != 2 or not all(type(side) is int for side in sides):
        raise InvalidInput(f"size in {_FACTS} must be a whole number or two, got {size!r}")
    return sides[0], sides[1]


def _three(values: Any) -> tuple[float, ...]:
    return (float(values),) * 3 if isinstance(values, int | float) else tuple(map(float, values))


def _output(session: Any, spec: ModelSpec) -> str:
    names = [item.name for item in session.get_outputs()]
    asked = spec.get("output")
    if asked is None and len(names) > 1:
        others = [name for name in names if name != spec.get("layer")]
        asked = others[0] if len(others) == 1 else "logits" if "logits" in others else None
        if asked is None:
            raise InvalidInput(f"{spec.label} has several outputs, {', '.join(names)}; add output=NAME of the logits")
    if asked is not None and asked not in names:
        raise UnknownName(f"{spec.label} has no output {asked!r}; there are {', '.join(names)}")
    return asked or str(names[0])


def _run(session: Any, outputs: list[str], batch: Floats, preprocessing: Preprocessing) -> list[Any]:
    """The outputs for a batch; a file with a batch size of its own is run that many at a time."""
    source = session.get_inputs()[0]
    pixels = _normalised(batch, preprocessing)
    step = source.shape[0] if isinstance(source.shape[0], int) else max(len(batch), 1)
    if len(batch) % step:
        pixels = np.concatenate([pixels, np.repeat(pixels[-1:], step - len(batch) % step, axis=0)])
    parts = [session.run(outputs, {source.name: pixels[first : first + step]}) for first in range(0, len(pixels), step)]
    return [np.concatenate(of_output)[: len(batch)] for of_output in zip(*parts, strict=True)]


def _normalised(batch: Floats, preprocessing: Preprocessing) -> Floats:
    if not any(preprocessing.mean) and all(value == 1 for value in preprocessing.std):
        return np.ascontiguousarray(batch)
    mean, std = (
        np.array(values, dtype=np.float32).reshape(1, -1, 1, 1) for values in (preprocessing.mean, preprocessing.std)
    )
    return (batch - mean) / std


def _digest(path: Path) -> str:
    """Of the file, and of the weights beside it where there are any."""
    digest = hashlib.sha256()
    for file in (path, _weights_beside(path)):
        if file.is_file():
            with file.open("rb") as stream:
                digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()

"""`onnx:FILE`: any classifier exported to ONNX, run by onnxruntime, without torch.

An ONNX file does not say how photos are preprocessed. `preprocessing.json` in its folder does,
`{"STEM": {"size": 224, "crop_pct": .875, "interpolation": "bicubic", "mean": ..., "std": ..., "classes": [...]}}`, or
options do. Without `mean` and `std` in the JSON, the network takes pixels in [0, 1]; without the JSON, write
`mean=0,std=1` for that. Further options: `threads`, `output` (name of the logits, if there are several outputs),
`outputs=probabilities`, and `layer`, the name of an output with features.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from cosight.devices import Precision, check_device_name
from cosight.errors import InvalidInput, UnknownName, first_line
from cosight.files import read_json
from cosight.models.model import (
    ModelOutputs,
    NoFeatures,
    Outputs,
    as_logits,
    check_batch,
    check_class_names,
    check_file,
    check_outputs,
    explain_errors,
    probe_images,
)
from cosight.models.model_spec import (
    INPUT_KEYS,
    LARGEST_SIDE,
    ModelSpec,
    class_names_of,
    outputs_of,
    preprocessing_of,
    size_of,
)
from cosight.models.onnx_external import external_weights
from cosight.models.preprocessing import Preprocessing, normalise, preprocess
from cosight.processes import MOST_WORKERS
from cosight.stimuli.images import Bytes, Floats

__all__ = [
    "ONNX_KEYS",
    "OnnxModel",
    "check_onnx",
    "check_onnx_placement",
    "input_size",
    "load_onnx",
    "onnx_digest",
    "onnx_files",
    "onnx_preprocessing",
    "open_session",
    "read_facts",
    "run_session",
]

ONNX_KEYS = (*INPUT_KEYS, "layer", "classes", "threads", "output", "outputs", "name")
_PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider", "mps": "CoreMLExecutionProvider"}
_FACTS_FILE = "preprocessing.json"
_FACT_KEYS = {"size", "crop", "crop_pct", "crop_mode", "interpolation", "mean", "std", "classes"}


@dataclass(frozen=True, slots=True, eq=False)
class OnnxModel:
    """A network in an onnxruntime session.

    Args:
        name: Observer name.
        session: `onnxruntime.InferenceSession`.
        preprocessing: How photos are prepared.
        classes: Number of outputs.
        weights_digest: SHA-256 of the file and its external weights.
        output: Name of the output with the logits.
        class_names: Names of the classes, if known.
        outputs: Whether the output has logits or probabilities; the model returns logits.
        layer: Name of the output with features; None for no features.
        device: cpu, cuda, cuda:N or mps; set it with `on`.
        path: The file.
    """

    name: str
    session: Any
    preprocessing: Preprocessing
    classes: int
    weights_digest: str
    output: str
    class_names: tuple[str, ...] | None = None
    outputs: Outputs = "logits"
    layer: str | None = None
    device: str = "cpu"
    path: Path = Path()

    @property
    def settings(self) -> dict[str, Any]:
        """What changes the answers besides weights and preprocessing, for run records."""
        return {"output": self.output, "outputs": self.outputs, "layer": self.layer}

    def prepare(self, image: Bytes) -> Floats:
        """Return the model's input for a photo: float32 (3, height, width) in [0, 1]."""
        return preprocess(image, self.preprocessing)

    def answer(self, batch: Floats) -> ModelOutputs:
        """Compute logits, and features if a layer is set, of prepared photos (N, 3, height, width)."""
        check_batch(batch, name=self.name, size=self.preprocessing.size)
        names = [self.output, self.layer] if self.layer else [self.output]
        values = run_session(self.session, names, batch, self.preprocessing)
        features = values[1].reshape(len(batch), -1).astype(np.float32, copy=False) if self.layer else None
        return ModelOutputs(as_logits(values[0], self.outputs), features)

    def on(self, device: str, *, precision: Precision | None = None) -> OnnxModel:
        """Return the same model in a session on a device, tried on two images.

        Args:
            device: cpu, cuda or cuda:N (CUDAExecutionProvider), mps (CoreMLExecutionProvider), or auto: CUDA if this
                onnxruntime has it, else the CPU. What the provider cannot compute runs on the CPU.
            precision: None or float32; an ONNX file fixes the precision of every operation.

        Raises:
            InvalidInput: This onnxruntime does not have the provider, it does not start, or another precision is asked
                for.
        """
        import onnxruntime  # type: ignore[import-untyped]

        check_onnx_placement(device, precision or "float32")
        if device == "auto":
            device = "cuda" if _PROVIDERS["cuda"] in onnxruntime.get_available_providers() else "cpu"
        if device == self.device:
            return self
        kind, _, number = device.partition(":")
        provider = _PROVIDERS[kind]
        providers: list[Any] = [(provider, {"device_id": int(number)}) if number else provider]
        if kind != "cpu":
            providers.append(_PROVIDERS["cpu"])
        try:
            session = onnxruntime.InferenceSession(
                str(self.path), self.session.get_session_options(), providers=providers
            )
        except Exception as error:  # its errors have no common class
            raise InvalidInput(f"{provider} cannot load {self.name}: {first_line(error)}; use --device cpu") from error
        if provider not in session.get_providers():  # onnxruntime only logs that a library is missing
            raise InvalidInput(
                f"{provider} of onnxruntime does not start, so {self.name} would run on the CPU; check the CUDA and "
                "cuDNN that it needs, or use --device cpu"
            )
        placed = replace(self, session=session, device=device)
        with explain_errors(self.name, self.preprocessing.size):
            placed.answer(probe_images(self.preprocessing.size))
        return placed

    def with_features(self, layer: str | None = None) -> OnnxModel:
        """Return the same model with the output of this name as features."""
        others = [item.name for item in self.session.get_outputs() if item.name != self.output]
        if layer is None or layer not in others:
            got = f"layer={layer}" if layer else "no layer=NAME"
            raise (InvalidInput if layer else NoFeatures)(
                f"features of {self.name} are an output of the file, got {got}; its outputs besides {self.output} are "
                f"{', '.join(others) or 'none'}: export it with that output"
            )
        return replace(self, layer=layer)


def load_onnx(spec: ModelSpec) -> OnnxModel:
    """Load `onnx:FILE` and try it on two images."""
    check_onnx(spec)
    path = Path(spec.name).expanduser()
    session = open_session(path, spec)
    facts = read_facts(path)
    preprocessing = onnx_preprocessing(spec, facts, input_size(session, path), path)
    output = _output_name(session, spec)
    images = probe_images(preprocessing.size)
    with explain_errors(spec.label, preprocessing.size):
        values = run_session(session, [output], images, preprocessing)[0]
    outputs = check_outputs(values, outputs_of(spec), name=spec.label, images=len(images))
    names = class_names_of(spec) or (tuple(facts["classes"]) if facts and "classes" in facts else None)
    classes = values.shape[1]
    check_class_names(names, classes, name=spec.label)
    return OnnxModel(spec.label, session, preprocessing, classes, onnx_digest(path), output, names, outputs, path=path)


def onnx_digest(path: Path) -> str:
    """Return the SHA-256 of a file and its external weights."""
    digest = hashlib.sha256()
    for file in (path, *external_weights(path)):
        with file.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()


def check_onnx(spec: ModelSpec) -> None:
    """Raise if the file, or one that it refers to for its weights, does not exist."""
    path = Path(spec.name).expanduser()
    check_file(path, "an ONNX model")
    for file in external_weights(path):
        check_file(file, f"the file of weights that {path} refers to")


def check_onnx_placement(device: str, precision: Precision) -> None:
    """Raise if this onnxruntime has no provider for a device, or if a precision is asked for."""
    check_device_name(device)
    if precision != "float32":
        raise InvalidInput(
            f"an ONNX file fixes its precision, got --precision {precision}; export it in that precision and leave the "
            "option out"
        )
    if device in ("auto", "cpu"):
        return
    import onnxruntime

    provider, available = _PROVIDERS[device.partition(":")[0]], onnxruntime.get_available_providers()
    if provider not in available:
        raise InvalidInput(
            f"--device {device} needs the {provider} of onnxruntime, this one has {', '.join(available)}; use "
            f"--device cpu{', or install onnxruntime-gpu' if device.startswith('cuda') else ''}"
        )


def onnx_files(spec: ModelSpec) -> tuple[Path, ...]:
    """Return the files that decide a model's answers: the model, its external weights, and the preprocessing."""
    path = Path(spec.name).expanduser()
    return path, *external_weights(path), path.with_name(_FACTS_FILE)


def open_session(path: Path, spec: ModelSpec) -> Any:
    """Open a file in onnxruntime with the option `threads`."""
    import onnxruntime

    threads = spec.numbers("threads") or (0.0,)  # 0: one per core
    if len(threads) != 1 or not 0 <= threads[0] <= MOST_WORKERS or threads[0] != int(threads[0]):
        raise InvalidInput(
            f"threads must be a whole number to {MOST_WORKERS:,}, 0 for one per core, got {spec.get('threads')}"
        )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(threads[0])
    options.log_severity_level = 3  # errors only; warnings are about how the file was exported
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its errors have no common class
        reason = " ".join(str(error).split(":")[-1].split())[:120]
        raise InvalidInput(f"onnxruntime cannot load {path}: {reason}; export it again") from error


def input_size(session: Any, path: Path) -> tuple[int, int] | None:
    """Return the input size that the file fixes, if it does; raise if its input is not images."""
    inputs = session.get_inputs()
    shape = inputs[0].shape if inputs else []
    takes_images = len(shape) == 4 and (shape[1] == 3 or not isinstance(shape[1], int))
    if len(inputs) != 1 or not takes_images or inputs[0].type != "tensor(float)":
        got = ", ".join(f"{item.name} {item.type} {item.shape}" for item in inputs)
        raise InvalidInput(f"an ONNX classifier takes one float input (N, 3, height, width), {path} takes {got}")
    height, width = shape[2:]
    return (height, width) if isinstance(height, int) and isinstance(width, int) else None


def read_facts(path: Path) -> dict[str, Any] | None:
    """Return the model's entry of `preprocessing.json` in its folder."""
    file = path.with_name(_FACTS_FILE)
    if not file.is_file():
        return None
    content = read_json(file)
    if not isinstance(content, dict):
        raise InvalidInput(f"{file} must be a JSON object by file stem, got {type(content).__name__}")
    facts = content.get(path.stem)
    if facts is not None and (not isinstance(facts, dict) or set(facts) - _FACT_KEYS):
        got = ", ".join(sorted(set(facts) - _FACT_KEYS)) if isinstance(facts, dict) else type(facts).__name__
        raise InvalidInput(f"keys of a model in {file} are {', '.join(sorted(_FACT_KEYS))}, got {got} for {path.stem}")
    return facts


def onnx_preprocessing(
    spec: ModelSpec, facts: dict[str, Any] | None, fixed_size: tuple[int, int] | None, path: Path
) -> Preprocessing:
    """Combine the options, the entry of `preprocessing.json` and the size that the file fixes."""
    if facts is None and (spec.get("mean") is None or spec.get("std") is None):
        raise InvalidInput(
            f"the normalisation of {path} is unknown: {_FACTS_FILE} in its folder has no entry {path.stem}; "
            f"add mean=0,std=1 if it takes pixels in [0, 1], or its mean and std"
        )
    facts = facts or {}
    size = size_of(spec) or fixed_size
    if size_of(spec) is None and facts.get("size") is not None:
        sides = facts["size"] if isinstance(facts["size"], list) else [facts["size"]] * 2
        if len(sides) != 2 or not all(type(side) is int and 1 <= side <= LARGEST_SIDE for side in sides):
            raise InvalidInput(
                f"size in {_FACTS_FILE} must be one or two whole numbers from 1 to {LARGEST_SIDE:,}, got "
                f"{facts['size']!r}"
            )
        size = sides[0], sides[1]
    if size is None:
        raise InvalidInput(f"the input size of {path} is unknown: the file does not fix it; add size=SIDE")
    if fixed_size is not None and size != fixed_size:
        raise InvalidInput(f"{path} takes images of {fixed_size[0]} x {fixed_size[1]}, got size {size[0]} x {size[1]}")
    try:
        default = Preprocessing(
            size,
            mean=_three(facts.get("mean", 0.0)),
            std=_three(facts.get("std", 1.0)),
            interpolation=facts.get("interpolation", "bicubic"),
            crop=facts.get("crop", facts.get("crop_pct", 1.0)),
            crop_mode=facts.get("crop_mode", "center"),
        )
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"the entry {path.stem} of {path.with_name(_FACTS_FILE)} is invalid: {error}") from error
    return preprocessing_of(spec, default)


def _three(values: Any) -> tuple[float, ...]:
    return (float(values),) * 3 if isinstance(values, int | float) else tuple(map(float, values))


def _output_name(session: Any, spec: ModelSpec) -> str:
    """Return the name of the output with the logits."""
    names = [str(item.name) for item in session.get_outputs()]
    name = spec.get("output")
    if name is not None and name not in names:
        raise UnknownName(f"{spec.label} has no output {name!r}; there are {', '.join(names)}")
    if name is not None or len(names) == 1:
        return name or names[0]
    others = [other for other in names if other != spec.get("layer")]
    if len(others) == 1:
        return others[0]
    if "logits" not in others:
        raise InvalidInput(f"{spec.label} has several outputs, {', '.join(names)}; add output=NAME of the logits")
    return "logits"


def run_session(session: Any, outputs: list[str], batch: Floats, preprocessing: Preprocessing) -> list[Any]:
    """Compute outputs for a batch; a file with a fixed batch size runs that many images at a time."""
    source = session.get_inputs()[0]
    if not any(preprocessing.mean) and all(value == 1 for value in preprocessing.std):
        pixels = np.ascontiguousarray(batch)
    else:
        pixels = normalise(batch, preprocessing)
    step = source.shape[0] if isinstance(source.shape[0], int) else max(len(batch), 1)
    if len(batch) % step:
        pixels = np.concatenate([pixels, np.repeat(pixels[-1:], step - len(batch) % step, axis=0)])
    parts = [session.run(outputs, {source.name: pixels[first : first + step]}) for first in range(0, len(pixels), step)]
    return [np.concatenate(part)[: len(batch)] for part in zip(*parts, strict=True)]

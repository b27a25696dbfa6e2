"""Classifiers in torch: images in [0, 1] in, logits out, with gradients or as plain arrays; and their weights.

torch is imported on use.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from cosight.errors import InvalidInput
from cosight.models.features import Tap, named_layer, penultimate
from cosight.models.model import (
    ModelOutputs,
    Outputs,
    check_batch,
    check_class_names,
    check_outputs,
    probe_images,
    trying,
)
from cosight.models.preprocessing import Preprocessing, preprocess, resize_and_crop
from cosight.stimuli.images import Bytes, Floats

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["Precision", "TorchModel", "load_weights", "read_weights", "weights_digest", "wrap_module"]

Precision = Literal["float32", "bf16"]

# As torch.cpu.get_capabilities names the instructions that multiply bfloat16: of Intel and AMD, and of ARM.
_BF16_INSTRUCTIONS = ("avx512_bf16", "amx_bf16", "bf16", "sve_bf16")
_WRAPPERS = ("state_dict", "model")
_PARALLEL = "module."
_UNUSED = "num_batches_tracked"  # batch norm's count of training steps: no answer depends on it, old files lack it
_SHOWN = 3  # keys named in a message


@dataclass(frozen=True, slots=True, eq=False)
class TorchModel:
    """A classifier in eval mode: it takes images (N, 3, height, width) in [0, 1], normalises them and gives logits.

    `weights_digest` is the sha256 of the weights themselves: names, shapes and values, whatever file held them. With a
    `tap`, `answer` gives features as well. `channels_last` says how pixels lie in memory: faster where it works. With
    `precision` bf16, the module runs under torch's autocast, on hardware that has instructions for it.
    """

    name: str
    module: nn.Module
    preprocessing: Preprocessing
    classes: int
    weights_digest: str
    class_names: tuple[str, ...] | None = None
    outputs: Outputs = "logits"  # of the module; the model gives logits
    tap: Tap | None = None
    channels_last: bool = False
    precision: Precision = "float32"

    def __post_init__(self) -> None:
        if self.precision not in get_args(Precision):
            raise InvalidInput(f"precision must be {' or '.join(get_args(Precision))}, got {self.precision!r}")
        if self.precision == "bf16" and not _has_bf16(_device(self.module)):
            raise InvalidInput(
                f"precision=bf16 needs a device with instructions for it, {self.name} is on {_device(self.module)}, "
                "which has none; leave it out for float32"
            )

    @property
    def settings(self) -> dict[str, Any]:
        """What changes its answers besides weights and preprocessing, for the record."""
        layer = self.tap.facts if self.tap else None
        return {"precision": self.precision, "outputs": self.outputs, "layer": layer}

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the images it takes."""
        return self.preprocessing.size

    @property
    def mean(self) -> tuple[float, ...]:
        """What is subtracted from each channel, in units of pixels in [0, 1]."""
        return self.preprocessing.mean

    @property
    def std(self) -> tuple[float, ...]:
        """What each channel is then divided by."""
        return self.preprocessing.std

    def __call__(self, images: Tensor) -> Tensor:
        """(N, 3, height, width) in [0, 1] -> logits (N, classes), on the module's device, with gradients."""
        if images.ndim != 4 or tuple(images.shape[1:]) != (len(self.mean), *self.size):
            wanted = f"(N, {len(self.mean)}, {self.size[0]}, {self.size[1]})"
            raise InvalidInput(f"{self.name} takes images {wanted}, got {tuple(images.shape)}; prepare or resize them")
        pixels = _normalised(self.module, images, self.preprocessing)
        with self._at_precision():
            given = self.module(pixels)
        return _logits(given, self.outputs)

    def answer(self, batch: Floats) -> ModelOutputs:
        """Prepared photos (N, 3, height, width) -> logits, and features where there is a tap; without gradients."""
        import torch

        check_batch(batch, name=self.name, size=self.size)
        with torch.inference_mode():
            pixels = _pixels(self.module, batch, self.preprocessing, channels_last=self.channels_last)
            with self._at_precision():
                given, features = self.tap(self.module, pixels) if self.tap else (self.module(pixels), None)
            logits = _array(_logits(given, self.outputs))
        return ModelOutputs(logits, None if features is None else _array(features))

    def _at_precision(self) -> AbstractContextManager[Any]:
        import torch

        if self.precision == "float32":
            return nullcontext()
        return torch.autocast(_device(self.module), dtype=torch.bfloat16)

    def fit(self, image: Bytes) -> Bytes:
        """The uint8 RGB image of the model's own size that it would see of this photo."""
        return resize_and_crop(image, self.preprocessing)

    def prepare(self, image: Bytes) -> Floats:
        """What it would see of this photo: float32 (3, height, width) in [0, 1]."""
        return preprocess(image, self.preprocessing)

    def with_features(self, layer: str | None = None) -> TorchModel:
        """The same model, whose answers have features: of the penultimate layer, or of the module at this path."""
        import torch

        with torch.no_grad():
            pixels = _pixels(self.module, probe_images(self.size), self.preprocessing, channels_last=self.channels_last)
            if layer is None:
                tap = penultimate(self.module, pixels, name=self.name)
            else:
                tap = named_layer(self.module, layer, pixels, name=self.name)
        return replace(self, tap=tap)

    def on(self, device: str) -> TorchModel:
        """The same model on another device."""
        return replace(self, module=self.module.to(device))


def _device(module: nn.Module) -> str:
    """The kind of device its weights are on: cpu, cuda."""
    weights = next(module.parameters(), None)
    return "cpu" if weights is None else weights.device.type


def _has_bf16(device: str) -> bool:
    """Whether a device multiplies bfloat16 itself: emulated, it would be slower than float32 and no more precise."""
    import torch

    if device == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    has = torch.cpu.get_capabilities()
    return device == "cpu" and any(has.get(name, False) for name in _BF16_INSTRUCTIONS)


def _array(tensor: Tensor) -> Floats:
    return tensor.float().cpu().contiguous().numpy()


def _logits(given: Tensor, outputs: Outputs) -> Tensor:
    """At least float32, and probabilities become their logarithms, whose softmax they are."""
    import torch

    given = given.to(torch.promote_types(given.dtype, torch.float32))
    return given if outputs == "logits" else given.clamp_min(torch.finfo(given.dtype).tiny).log()


def _normalised(module: nn.Module, images: Tensor, preprocessing: Preprocessing) -> Tensor:
    weights = next(module.parameters(), images)
    pixels = images.to(device=weights.device, dtype=weights.dtype)
    mean, std = (pixels.new_tensor(values).reshape(1, -1, 1, 1) for values in (preprocessing.mean, preprocessing.std))
    return (pixels - mean) / std


def _pixels(module: nn.Module, batch: Floats, preprocessing: Preprocessing, *, channels_last: bool) -> Tensor:
    """Normalised, laid out as asked for."""
    import torch

    images = torch.from_numpy(batch if batch.flags.writeable else batch.copy())
    if channels_last:
        images = images.contiguous(memory_format=torch.channels_last)
    return _normalised(module, images, preprocessing)


def wrap_module(
    module: nn.Module,
    *,
    name: str,
    preprocessing: Preprocessing,
    outputs: Outputs | None = None,
    class_names: tuple[str, ...] | None = None,
) -> TorchModel:
    """A module as a model. It is put into eval mode and its weights are frozen, which makes gradients cheaper.

    It is tried on two images, and its convolutions get their weights with channels last where that works.
    """
    import torch

    module.eval().requires_grad_(False)
    probe = probe_images(preprocessing.size)
    with torch.no_grad():
        with trying(name, preprocessing.size):
            given = module(_pixels(module, probe, preprocessing, channels_last=False))
        values = _array(given) if isinstance(given, torch.Tensor) else given
        sort = check_outputs(values, outputs, name=name, images=len(probe))
        digest = weights_digest(module)
        last = _takes_channels_last(module, probe, preprocessing, given)
    names = check_class_names(class_names, values.shape[1], name=name)
    return TorchModel(name, module, preprocessing, values.shape[1], digest, names, sort, channels_last=last)


def _takes_channels_last(module: nn.Module, probe: Floats, preprocessing: Preprocessing, expected: Tensor) -> bool:
    """Lay the weights out with channels last where the module gives the same then; `view` on pixels may fail."""
    import torch

    module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    try:
        given = module(_pixels(module, probe, preprocessing, channels_last=True))
        if torch.allclose(given, expected, rtol=1e-3, atol=1e-3 * float(expected.abs().max())):
            return True
    except RuntimeError:
        pass
    module.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    return False


def weights_digest(module: nn.Module) -> str:
    """sha256 of all weights by name, in hexadecimal."""
    import torch

    digest = hashlib.sha256()
    for name, value in sorted(module.state_dict().items()):
        if not name.endswith(_UNUSED):
            digest.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
            digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def read_weights(path: Path) -> dict[str, Tensor]:
    """Weights by name from a checkpoint: safetensors by its ending, else what `torch.load(weights_only=True)` reads.

    A training script's `{"state_dict": ...}` (or "model") is opened, and DataParallel's `module.` taken off the names.
    """
    if not path.is_file():
        raise InvalidInput(f"a checkpoint must be a file, got {path}, which is not there; check the path")
    try:
        content = _read(path)
    except Exception as error:  # unpickling what may be any file raises anything
        why = (str(error).strip().splitlines() or [type(error).__name__])[0][:120]
        raise InvalidInput(f"{path} is no checkpoint that can be read safely: {why}; save it as safetensors") from error
    content = next((content[key] for key in _WRAPPERS if isinstance(content, dict) and key in content), content)
    if (
        not isinstance(content, Mapping)
        or not content
        or not all(hasattr(value, "shape") for value in content.values())
    ):
        raise InvalidInput(
            f"a checkpoint holds weights by name, {path} holds {type(content).__name__}; save state_dict()"
        )
    bare = all(name.startswith(_PARALLEL) for name in content)
    return {name.removeprefix(_PARALLEL) if bare else name: value for name, value in content.items()}


def _read(path: Path) -> Any:
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return load_file(path)
    import torch

    return torch.load(path, map_location="cpu", weights_only=True)


def load_weights(weights: Mapping[str, Tensor], module: nn.Module, *, model: str, path: Path) -> None:
    """Load the weights into the module; where they do not fit, say which."""
    own = {name: value for name, value in module.state_dict().items() if not name.endswith(_UNUSED)}
    given = {name: value for name, value in weights.items() if not name.endswith(_UNUSED)}
    shapes = [
        f"{name} {tuple(given[name].shape)} for {tuple(own[name].shape)}"
        for name in own
        if name in given and given[name].shape != own[name].shape
    ]
    problems = {
        "missing": [name for name in own if name not in given],
        "unexpected": [name for name in given if name not in own],
        "of another shape": shapes,
    }
    if any(problems.values()):
        found = "; ".join(f"{len(names)} {what} ({_few(names)})" for what, names in problems.items() if names)
        raise InvalidInput(f"the weights in {path} do not fit {model}: {found}; name the architecture they come from")
    module.load_state_dict(given, strict=False)  # strict but for batch norm's counters, as just checked


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")

"""Classifiers in torch: images in [0, 1] in, logits out, with gradients; and the weights they are made of.

torch is imported on use.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cosight.errors import InvalidInput
from cosight.models.preprocessing import Preprocessing, preprocessed
from cosight.stimuli.images import Bytes, as_floats

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["TorchModel", "put_weights", "read_weights", "weights_digest", "wrapped"]

_WRAPPERS = ("state_dict", "model")
_PARALLEL = "module."
_UNUSED = "num_batches_tracked"  # batch norm's count of training steps: no answer depends on it, old files lack it
_SHOWN = 3  # keys named in a message


@dataclass(frozen=True, slots=True, eq=False)
class TorchModel:
    """A classifier in eval mode: it takes images (N, 3, height, width) in [0, 1], normalises them and gives logits.

    `weights_digest` is the sha256 of the weights themselves: names, shapes and values, whatever file held them.
    """

    name: str
    module: nn.Module
    preprocessing: Preprocessing
    classes: int
    weights_digest: str

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
        """(N, 3, height, width) in [0, 1] -> logits (N, classes), on the module's device."""
        if images.ndim != 4 or tuple(images.shape[1:]) != (len(self.mean), *self.size):
            wanted = f"(N, {len(self.mean)}, {self.size[0]}, {self.size[1]})"
            raise InvalidInput(f"{self.name} takes images {wanted}, got {tuple(images.shape)}; prepare or resize them")
        return _logits(self.module, images, self.preprocessing)

    def fit(self, image: Bytes) -> Bytes:
        """The uint8 RGB image of the model's own size that it would see of this photo."""
        return preprocessed(image, self.preprocessing)

    def prepare(self, image: Bytes) -> Tensor:
        """What it would see of this photo, as a tensor (3, height, width) in [0, 1]."""
        import torch

        return torch.from_numpy(as_floats(self.fit(image))).permute(2, 0, 1).contiguous()


def _logits(module: nn.Module, images: Tensor, preprocessing: Preprocessing) -> Tensor:
    weights = next(module.parameters(), images)
    pixels = images.to(device=weights.device, dtype=weights.dtype)
    mean, std = (pixels.new_tensor(values).reshape(1, -1, 1, 1) for values in (preprocessing.mean, preprocessing.std))
    return module((pixels - mean) / std)  # type: ignore[no-any-return]


def wrapped(module: nn.Module, *, name: str, preprocessing: Preprocessing) -> TorchModel:
    """A module as a model. It is put into eval mode and its weights are frozen, which makes gradients cheaper."""
    import torch

    module.eval().requires_grad_(False)
    with torch.no_grad():
        logits = _logits(module, torch.full((1, len(preprocessing.mean), *preprocessing.size), 0.5), preprocessing)
    if not isinstance(logits, torch.Tensor) or logits.ndim != 2:
        got = tuple(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
        raise InvalidInput(f"a classifier gives logits (N, classes), {name} gives {got} for one image; wrap it first")
    return TorchModel(name, module, preprocessing, logits.shape[1], weights_digest(module))


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


def put_weights(weights: Mapping[str, Tensor], module: nn.Module, *, model: str, path: Path) -> None:
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

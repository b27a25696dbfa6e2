"""The interface of a model: prepared photos in, logits (and features) out, as numpy arrays.

Nothing here knows torch or onnxruntime. Any object with the members of `Model` is a model; `as_model` makes one of a
module or function.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, get_args, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from cosight.devices import Precision, is_out_of_memory
from cosight.errors import InvalidInput, first_line
from cosight.files import nearest_path
from cosight.stimuli.images import Bytes, Floats

__all__ = [
    "Model",
    "ModelOutputs",
    "ModelPreparation",
    "NoFeatures",
    "Outputs",
    "as_logits",
    "behaviour_digest",
    "check_batch",
    "check_class_names",
    "check_file",
    "check_outputs",
    "explain_errors",
    "place",
    "probe_images",
]

Outputs = Literal["logits", "probabilities"]

_SUM_TOLERANCE = 1e-4  # a float32 softmax over 1,000 classes is off by 1e-6; logits do not sum to one by accident


@dataclass(frozen=True, slots=True, eq=False)
class ModelOutputs:
    """Outputs for a batch of N images, all float32.

    Args:
        logits: (N, classes).
        features: (N, dimensions), if the model was loaded with features.
        members: Logits of each member of an ensemble, (members, N, classes).

    >>> ModelOutputs(np.zeros((1, 2), np.float32)).probabilities
    array([[0.5, 0.5]], dtype=float32)
    """

    logits: Floats
    features: Floats | None = None
    members: Floats | None = None

    @property
    def probabilities(self) -> Floats:
        """The softmax of the logits (N, classes)."""
        powers = np.exp(self.logits.astype(np.float64) - self.logits.max(axis=1, keepdims=True))
        probabilities: Floats = (powers / powers.sum(axis=1, keepdims=True)).astype(np.float32)
        return probabilities


class ModelPreparation(Protocol):
    """How a photo is prepared: the resulting size (height, width), and all settings as JSON-compatible facts."""

    @property
    def size(self) -> tuple[int, int]: ...  # noqa: D102

    @property
    def facts(self) -> dict[str, Any]: ...  # noqa: D102


class NoFeatures(InvalidInput):
    """A model answers without features, and no layer was named that could be its features."""


@runtime_checkable
class Model(Protocol):
    """A classifier of photos.

    `classes` is the number of outputs, `class_names` their names if known. `weights_digest` changes whenever the
    answers may change. `prepare` and `answer` do not change their arguments. The answer to an image does not depend on
    the other images of the batch, except for rounding.
    """

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def classes(self) -> int: ...  # noqa: D102

    @property
    def class_names(self) -> tuple[str, ...] | None: ...  # noqa: D102

    @property
    def preprocessing(self) -> ModelPreparation: ...  # noqa: D102

    @property
    def weights_digest(self) -> str: ...  # noqa: D102

    def prepare(self, image: Bytes) -> Floats:
        """Turn a photo, uint8 RGB or grey of any size, into the model's input: float32 (3, height, width) in [0, 1]."""
        ...

    def answer(self, batch: Floats) -> ModelOutputs:
        """Compute the outputs for prepared photos (N, 3, height, width), without gradients."""
        ...


def place(model: Model, device: str, precision: Precision | None) -> Model:
    """Return a model on a device, computing in a precision (None: its own); raise where that cannot be chosen."""
    if hasattr(model, "on"):
        return model.on(device, precision=precision)  # type: ignore[no-any-return]
    if device not in ("auto", "cpu") or precision not in (None, "float32"):
        option = f"--device {device}" if device not in ("auto", "cpu") else f"--precision {precision}"
        raise InvalidInput(f"{model.name} is no model in torch and chooses device and precision itself, got {option}")
    return model


def check_batch(batch: Floats, *, name: str, size: tuple[int, int]) -> Floats:
    """Return the batch if it is float32 (N, 3, height, width) in [0, 1] of this size; raise otherwise."""
    wanted = f"{name} takes float32 images (N, 3, {size[0]}, {size[1]}) in [0, 1]"
    if not isinstance(batch, np.ndarray) or batch.dtype != np.float32:
        got = batch.dtype if isinstance(batch, np.ndarray) else type(batch).__name__
        raise InvalidInput(f"{wanted}, got {got}; stack the arrays that prepare returns")
    if batch.ndim != 4 or batch.shape[1:] != (3, *size):
        raise InvalidInput(f"{wanted}, got shape {batch.shape}; stack the arrays that prepare returns")
    if batch.size and not (batch.min() >= 0 and batch.max() <= 1):  # nan fails here too
        raise InvalidInput(f"{wanted}, got {batch.min():g} to {batch.max():g}; the model normalises them itself")
    return batch


def as_logits(values: NDArray[Any], outputs: Outputs) -> Floats:
    """Return logits unchanged and probabilities as their logarithms (0 becomes the logarithm of 1.2e-38)."""
    floats = values.astype(np.float32, copy=False)
    return floats if outputs == "logits" else np.log(np.maximum(floats, np.finfo(np.float32).tiny))


def check_outputs(values: Any, outputs: Outputs | None, *, name: str, images: int) -> Outputs:
    """Return whether a model's outputs for some images are logits or probabilities; raise if they are neither.

    No score reveals that softmax was applied twice, so outputs that look like probabilities must be declared.
    """
    if outputs is not None and outputs not in get_args(Outputs):
        raise InvalidInput(f"outputs must be logits or probabilities, got {outputs!r}")
    shape = getattr(values, "shape", None)
    if shape is None or len(shape) != 2 or shape[0] != images or shape[1] < 2:
        got = type(values).__name__ if shape is None else tuple(shape)
        count = "one image" if images == 1 else f"{images} images"
        raise InvalidInput(f"a classifier returns logits (N, classes), {name} returns {got} for {count}; wrap it first")
    table = np.asarray(values, dtype=np.float64)
    if not np.isfinite(table).all():
        raise InvalidInput(f"outputs must be finite, {name} returns {table[~np.isfinite(table)][0]} for a noise image")
    look_like_probabilities = bool((table >= 0).all() and (np.abs(table.sum(axis=1) - 1) < _SUM_TOLERANCE).all())
    if outputs == "probabilities" and not look_like_probabilities:
        raise InvalidInput(
            f"probabilities must sum to one, {name} returns {table.min():.3g} to {table.max():.3g}, "
            f"sum {table[0].sum():.3g}; set outputs=logits"
        )
    if outputs is None and look_like_probabilities:
        raise InvalidInput(
            f"{name} seems to return probabilities; set outputs=probabilities (or outputs=logits if it does not)"
        )
    return outputs or "logits"


def check_class_names(names: tuple[str, ...] | None, classes: int, *, name: str) -> tuple[str, ...] | None:
    """Return the class names if there is one per class; raise otherwise."""
    if names is not None and len(names) != classes:
        raise InvalidInput(f"there must be one name per class, got {len(names)} names for the {classes} of {name}")
    return names


def check_file(path: Path, what: str) -> None:
    """Raise if there is no file at `path`; `what` names it in the message."""
    if not path.is_file():
        raise InvalidInput(f"{what} must be a file, {path} does not exist; {nearest_path(path)}")


def probe_images(size: tuple[int, int], count: int = 2) -> Floats:
    """Return fixed images to try a model on: noise of different contrast, always the same."""
    noise = np.random.default_rng(0).random((count, 3, *size), dtype=np.float32)
    contrast = np.linspace(0.2, 1, count, dtype=np.float32).reshape(-1, 1, 1, 1)
    return noise * contrast


@contextmanager
def explain_errors(name: str, size: tuple[int, int]) -> Iterator[None]:
    """Turn whatever a model raises on its first images into an error of one line, except that memory ran out."""
    try:
        yield
    except InvalidInput:
        raise
    except Exception as error:  # any code may run here
        if is_out_of_memory(error):
            raise
        raise InvalidInput(
            f"{name} cannot answer images of {size[0]} x {size[1]}, it raised {type(error).__name__}: "
            f"{first_line(error, most=160)}; check its size"
        ) from error


def behaviour_digest(answer: Callable[[Floats], NDArray[Any]], size: tuple[int, int], facts: Mapping[str, Any]) -> str:
    """Compute a digest of a model whose weights are not accessible, from its answers to fixed images (four digits)."""
    logits = np.asarray(answer(probe_images(size)), dtype=np.float64)
    scale = max(np.abs(logits).max(), 1e-30)
    rounded = np.round(logits / scale, 4) + 0.0  # no negative zeros
    text = f"{sorted(facts.items())!r} {scale:.3e}"
    return hashlib.sha256(text.encode() + rounded.astype(np.float32).tobytes()).hexdigest()

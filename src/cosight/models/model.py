"""What a model is: photos prepared its way go in, logits (and features) come out, all of it numpy.

Nothing here knows torch or onnxruntime. Whatever has these members is a model; see `as_model` for what has not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from cosight.errors import InvalidInput
from cosight.stimuli.images import Bytes, Floats

__all__ = [
    "Model",
    "ModelOutputs",
    "ModelPreparation",
    "Outputs",
    "as_logits",
    "check_batch",
    "check_class_names",
    "check_outputs",
    "fingerprint",
    "probe_images",
    "trying",
]

Outputs = Literal["logits", "probabilities"]

_SUMS_TO_ONE = 1e-4  # a float32 softmax over 1,000 classes is off by 1e-6; logits that sum to one are no accident


@dataclass(frozen=True, slots=True, eq=False)
class ModelOutputs:
    """A batch's answers: `logits` (N, classes) and, where asked for, `features` (N, dimensions), both float32.

    An ensemble gives its `members`' logits too, (members, N, classes).
    """

    logits: Floats
    features: Floats | None = None
    members: Floats | None = None

    @property
    def probabilities(self) -> Floats:
        """The softmax of the logits (N, classes)."""
        shifted = self.logits.astype(np.float64) - self.logits.max(axis=1, keepdims=True)
        powers = np.exp(shifted)
        shares: Floats = (powers / powers.sum(axis=1, keepdims=True)).astype(np.float32)
        return shares


class ModelPreparation(Protocol):
    """What becomes of a photo: the size it comes to (height, width), and everything done to it as JSON-able facts."""

    @property
    def size(self) -> tuple[int, int]: ...  # noqa: D102

    @property
    def facts(self) -> dict[str, Any]: ...  # noqa: D102


@runtime_checkable
class Model(Protocol):
    """A classifier of photos. `classes` counts its outputs, `class_names` names them where that is known.

    `weights_digest` changes when its answers may. `prepare` and `answer` leave their arguments as they are; an answer
    to an image does not depend on the images around it, but for rounding.
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
        """What it sees of a photo: uint8 RGB or grey of any size -> float32 (3, height, width) in [0, 1]."""
        ...

    def answer(self, batch: Floats) -> ModelOutputs:
        """Prepared photos (N, 3, height, width) -> answers, without gradients."""
        ...


def check_batch(batch: Floats, *, name: str, size: tuple[int, int]) -> Floats:
    """The batch, if it is float32 (N, 3, height, width) in [0, 1] of this size."""
    wanted = f"{name} takes float32 images (N, 3, {size[0]}, {size[1]}) in [0, 1]"
    if not isinstance(batch, np.ndarray) or batch.dtype != np.float32:
        got = batch.dtype if isinstance(batch, np.ndarray) else type(batch).__name__
        raise InvalidInput(f"{wanted}, got {got}; stack what prepare gives")
    if batch.ndim != 4 or batch.shape[1:] != (3, *size):
        raise InvalidInput(f"{wanted}, got shape {batch.shape}; stack what prepare gives")
    if batch.size and not (batch.min() >= 0 and batch.max() <= 1):  # nan fails here too
        raise InvalidInput(f"{wanted}, got {batch.min():g} to {batch.max():g}; normalising is the model's part")
    return batch


def as_logits(values: NDArray[Any], outputs: Outputs) -> Floats:
    """Logits as they are; probabilities as their logarithms, whose softmax they are (0 becomes 1.2e-38)."""
    floats = values.astype(np.float32, copy=False)
    return floats if outputs == "logits" else np.log(np.maximum(floats, np.finfo(np.float32).tiny))


def check_outputs(values: Any, outputs: Outputs | None, *, name: str, images: int) -> Outputs:
    """What a model's answers to some images are, if they have the shape of answers.

    Softmax twice is a mistake that no score betrays: answers that look like probabilities must be called something.
    """
    if outputs is not None and outputs not in get_args(Outputs):
        raise InvalidInput(f"outputs must be logits or probabilities, got {outputs!r}")
    shape = getattr(values, "shape", None)
    if shape is None or len(shape) != 2 or shape[0] != images or shape[1] < 2:
        got = type(values).__name__ if shape is None else tuple(shape)
        many = "one image" if images == 1 else f"{images} images"
        raise InvalidInput(f"a classifier gives logits (N, classes), {name} gives {got} for {many}; wrap it first")
    table = np.asarray(values, dtype=np.float64)
    if not np.isfinite(table).all():
        raise InvalidInput(f"answers must be finite, {name} gives {table[~np.isfinite(table)][0]} for a plain image")
    alike = bool((table >= 0).all() and (np.abs(table.sum(axis=1) - 1) < _SUMS_TO_ONE).all())
    if outputs == "probabilities" and not alike:
        raise InvalidInput(
            f"probabilities sum to one, {name} gives {table.min():.3g} to {table.max():.3g}, "
            f"sum {table[0].sum():.3g}; say outputs=logits"
        )
    if outputs is None and alike:
        raise InvalidInput(f"{name} seems to give probabilities; say outputs=probabilities, or outputs=logits")
    return outputs or "logits"


def check_class_names(names: tuple[str, ...] | None, classes: int, *, name: str) -> tuple[str, ...] | None:
    """The names, if there is one a class and none twice."""
    if names is None:
        return None
    if len(names) != classes:
        raise InvalidInput(f"there must be one name a class, got {len(names)} names for the {classes} of {name}")
    return names


def probe_images(size: tuple[int, int], count: int = 2) -> Floats:
    """Fixed images to try a model on: noise of different contrast, always the same."""
    noise = np.random.default_rng(0).random((count, 3, *size), dtype=np.float32)
    contrast = np.linspace(0.2, 1, count, dtype=np.float32).reshape(-1, 1, 1, 1)
    return noise * contrast


@contextmanager
def trying(name: str, size: tuple[int, int]) -> Iterator[None]:
    """While a model is tried for the first time: what it raises becomes one line."""
    try:
        yield
    except InvalidInput:
        raise
    except Exception as error:  # anyone's code
        why = (str(error).strip().splitlines() or [""])[0][:160]
        raise InvalidInput(
            f"{name} cannot answer images of {size[0]} x {size[1]}, it raised {type(error).__name__}: {why}; "
            "look at its size"
        ) from error


def fingerprint(answer: Callable[[Floats], NDArray[Any]], size: tuple[int, int], facts: Mapping[str, Any]) -> str:
    """A digest of behaviour, for what has no weights to be seen: answers to fixed images, to four digits."""
    logits = np.asarray(answer(probe_images(size)), dtype=np.float64)
    size = max(np.abs(logits).max(), 1e-30)
    rounded = np.round(logits / size, 4) + 0.0  # no negative zeros
    told = f"{sorted(facts.items())!r} {size:.3e}"
    return hashlib.sha256(told.encode() + rounded.astype(np.float32).tobytes()).hexdigest()

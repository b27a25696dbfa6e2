"""What the options of a model's line mean, the same for every source."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cosight.errors import InvalidInput
from cosight.models.grammar import ModelSpec
from cosight.models.model import Outputs
from cosight.models.preprocessing import Preprocessing
from cosight.models.torch_models import Precision
from cosight.trials import label_spaces

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "INPUT_KEYS",
    "KEYS",
    "changed",
    "checkpoint_of",
    "class_names_of",
    "head_size",
    "outputs_of",
    "per_channel",
    "precision_of",
    "size_of",
]

INPUT_KEYS = ("mean", "std", "size", "interpolation", "crop")
KEYS = ("checkpoint", *INPUT_KEYS, "layer", "classes", "precision")


def checkpoint_of(spec: ModelSpec) -> Path | None:
    """The file of the option `checkpoint`."""
    text = spec.get("checkpoint")
    return None if text is None else Path(text).expanduser()


def head_size(weights: Mapping[str, Tensor], head: str | None) -> int | None:
    """How many classes the weights' last layer has, where they have it."""
    weight = weights.get(f"{head}.weight")
    return None if weight is None else int(weight.shape[0])


def changed(spec: ModelSpec, own: Preprocessing) -> Preprocessing:
    """The model's own preprocessing, but for what the options say."""
    crop = spec.numbers("crop")
    if crop is not None and len(crop) != 1:
        raise InvalidInput(f"crop must be one number, got {spec.get('crop')}")
    return replace(
        own,
        size=size_of(spec) or own.size,
        mean=per_channel(spec, "mean") or own.mean,
        std=per_channel(spec, "std") or own.std,
        interpolation=dict(spec.options).get("interpolation", own.interpolation),
        crop=crop[0] if crop else own.crop,
    )


def size_of(spec: ModelSpec) -> tuple[int, int] | None:
    """The option `size`, a side or height/width."""
    given = spec.numbers("size")
    if given is None:
        return None
    if len(given) > 2 or any(side < 1 or side != int(side) for side in given):
        raise InvalidInput(f"size must be one or two whole numbers, a side or height/width, got {spec.get('size')}")
    return int(given[0]), int(given[-1])


def per_channel(spec: ModelSpec, key: str) -> tuple[float, ...] | None:
    """An option with one number for all three channels, or three."""
    given = spec.numbers(key)
    if given is not None and len(given) not in (1, 3):
        raise InvalidInput(f"{key} must be one number or three, set apart by slashes, got {spec.get(key)}")
    return given * 3 if given is not None and len(given) == 1 else given


def class_names_of(spec: ModelSpec) -> tuple[str, ...] | None:
    """The classes that the option `classes` names: those in a file, if it is one, else those of a label space."""
    text = spec.get("classes")
    if text is None:
        return None
    path = Path(text).expanduser()
    if path.is_file():
        return _names_in(path)
    if text not in label_spaces:
        raise InvalidInput(
            f"classes must be a file of class names or a label space ({', '.join(label_spaces)}), got {path}, "
            "which is neither; check the path"
        )
    return label_spaces[text].classes


def _names_in(path: Path) -> tuple[str, ...]:
    """A JSON list, or one a line."""
    try:
        content = path.read_text(encoding="utf-8")
        names = json.loads(content) if path.suffix == ".json" else content.splitlines()
    except ValueError as error:  # not UTF-8, or not JSON
        raise InvalidInput(f"classes must be a JSON list or one name a line, {path} is not: {error}") from error
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise InvalidInput(f"classes must be a JSON list of names or one a line, none empty, got {path}")
    return tuple(names)


def outputs_of(spec: ModelSpec) -> Outputs | None:
    """What the option `outputs` says the model gives; checked when the model is tried."""
    return spec.get("outputs")  # type: ignore[return-value]


def precision_of(spec: ModelSpec) -> Precision | None:
    """What the option `precision` says a module runs in; checked by the model."""
    return spec.get("precision")  # type: ignore[return-value]

"""How a model is named on one line: `source:name[,key=value...]`.

A comma begins an option only where `key=` follows, so names and values may hold commas, colons, slashes and equals
signs (paths, `python:package.module:function`). Lists are set apart by slashes: `mean=.485/.456/.406`, `size=224/160`.

An ensemble's members are whole models set apart by `+`; one with options, or with a `+` in its name, stands in square
brackets, inside which commas belong to it: `ensemble:timm:resnet50+[onnx:a.onnx,threads=1]`. A `+` sets members apart
only where `[` or `source:` follows. Shells read brackets themselves: quote the line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cosight.errors import InvalidInput, did_you_mean
from cosight.models.model import Outputs
from cosight.models.preprocessing import Preprocessing
from cosight.models.torch_models import Precision
from cosight.trials import label_spaces

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "INPUT_KEYS",
    "KEYS",
    "ModelSpec",
    "changed",
    "checkpoint_of",
    "class_names_of",
    "ensemble_of",
    "head_size",
    "outputs_of",
    "parse",
    "per_channel",
    "precision_of",
    "size_of",
]

_OPTION = re.compile(r",(?=[A-Za-z_]\w*=)", re.ASCII)
_MEMBER = re.compile(r"\+(?=\[|[A-Za-z_]\w*:)", re.ASCII)
_ENSEMBLE, _OWN = "ensemble", "cosight"
_FILE_SOURCES = ("onnx", "trials")  # whose names are files
_FILE_KEYS = ("checkpoint", "classes", "templates")
_WORKING_KEYS = ("threads",)  # how the work is done: no part of who answers
_TRAINED = re.compile(r"(.+@\d+)\.safetensors")  # as training names what it leaves: NAME@SEED
_WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_SHAPE = "a model is named source:name[,key=value...]"


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model's source, its name there, and options as text, sorted by key; `str` gives the line that `parse` reads."""

    source: str
    name: str
    options: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        keys = [key for key, _ in self.options]
        twice = next((key for key in keys if keys.count(key) > 1), None)
        if twice is not None:
            raise InvalidInput(f"an option of a model is given once, got {twice} {keys.count(twice)} times")
        if not all(map(_WORD.fullmatch, (self.source, *keys))) or not self.name:
            raise InvalidInput(f"{_SHAPE}, got {str(self)!r}; for example timm:resnet50")
        head, *values = self.name, *dict(self.options).values()
        bad = next((text for text in values if _OPTION.search(text)), None)
        if bad is not None or len(_cut(_OPTION, head, self.source)) > 1:
            raise InvalidInput(
                f"a name or value must not hold `,key=`, which begins an option, got {bad or head!r}; rename it"
            )
        object.__setattr__(self, "options", tuple(sorted(self.options)))

    def __str__(self) -> str:
        return ",".join([f"{self.source}:{self.name}", *(f"{key}={value}" for key, value in self.options)])

    @property
    def label(self) -> str:
        """The observer's name: the same on every machine, so files are named without their folders.

        >>> parse("cosight:vit-small,checkpoint=networks/vit-small@45.safetensors").label
        'cosight:vit-small@45'
        """
        kept = [(key, value) for key, value in self.options if key not in _WORKING_KEYS]
        short = tuple((key, Path(value).name if key in _FILE_KEYS else value) for key, value in kept)
        if self.source == _ENSEMBLE:
            return str(ModelSpec(_ENSEMBLE, _joined([member.label for member in self.members]), short))
        name = Path(self.name).name if self.source in _FILE_SOURCES else self.name
        if self.source == _OWN and (trained := _TRAINED.fullmatch(dict(short).get("checkpoint", ""))):
            rest = tuple(pair for pair in short if pair[0] != "checkpoint")
            return str(ModelSpec(self.source, trained[1], rest))
        return str(ModelSpec(self.source, name or self.name, short))

    @property
    def members(self) -> tuple[ModelSpec, ...]:
        """The models of an ensemble, in the order given; none for any other model."""
        if self.source != _ENSEMBLE:
            return ()
        return tuple(parse(_unwrapped(piece)) for piece in _cut(_MEMBER, self.name, _ENSEMBLE))

    def get(self, key: str) -> str | None:
        """An option's text, or None where it is not given."""
        return dict(self.options).get(key)

    def numbers(self, key: str) -> tuple[float, ...] | None:
        """An option as numbers set apart by slashes, or None where it is not given."""
        text = self.get(key)
        if text is None:
            return None
        try:
            return tuple(float(part) for part in text.split("/"))
        except ValueError as error:
            raise InvalidInput(f"{key} must be numbers like .5/.5/.5, got {text!r}") from error

    def allow(self, keys: Collection[str]) -> None:
        """Refuse an option that is none of `keys`."""
        for key, _ in self.options:
            if self.source == _ENSEMBLE:
                raise InvalidInput(
                    f"a member of an ensemble stands in brackets with its options, got {key}: [A,{key}=...]"
                )
            if key not in keys:
                guess = did_you_mean(key, keys, most=1, otherwise="remove it")
                raise InvalidInput(f"options of {self.source} models are {', '.join(keys)}, got {key}; {guess}")


def parse(text: str) -> ModelSpec:
    """Read `source:name[,key=value...]`.

    >>> parse("cosight:resnet20,checkpoint=weights/a,b.pt,mean=.5/.5/.5")
    ModelSpec(source='cosight', name='resnet20', options=(('checkpoint', 'weights/a,b.pt'), ('mean', '.5/.5/.5')))
    >>> str(parse("timm:resnet50.a1_in1k,size=288"))
    'timm:resnet50.a1_in1k,size=288'
    """
    source, colon, rest = text.strip().partition(":")
    if not colon or "," in source:
        raise InvalidInput(f"{_SHAPE}, got {text!r}; for example timm:{text.strip() or 'resnet50'}")
    name, *options = _cut(_OPTION, rest, source)
    pairs = (option.partition("=") for option in options)
    return ModelSpec(source, name, tuple((key, value) for key, _, value in pairs))


def ensemble_of(members: Sequence[ModelSpec | str]) -> ModelSpec:
    """The ensemble of these models, with brackets where they are needed.

    >>> str(ensemble_of(["timm:resnet50", "timm:vit,size=64"]))
    'ensemble:timm:resnet50+[timm:vit,size=64]'
    """
    given = [parse(member) if isinstance(member, str) else member for member in members]
    made = ModelSpec(_ENSEMBLE, _joined([str(member) for member in given]))
    if list(made.members) != given:
        raise InvalidInput(f"square brackets in the names of an ensemble's members must pair, got {made}; rename them")
    return made


def _cut(mark: re.Pattern[str], text: str, source: str) -> list[str]:
    """The pieces between the marks; in an ensemble, marks inside brackets do not count."""
    if source != _ENSEMBLE:
        return mark.split(text)
    if text.count("[") != text.count("]"):
        raise InvalidInput(f"square brackets around an ensemble's members must pair, got {text!r}")
    pieces, start = [], 0
    for found in mark.finditer(text):
        if text.count("[", 0, found.start()) == text.count("]", 0, found.start()):
            pieces.append(text[start : found.start()])
            start = found.end()
    return [*pieces, text[start:]]


def _joined(members: Sequence[str]) -> str:
    def stands_alone(text: str) -> bool:
        return not (_OPTION.search(text) or "+" in text or "[" in text or "]" in text)

    return "+".join(text if stands_alone(text) else f"[{text}]" for text in members)


def _unwrapped(member: str) -> str:
    return member[1:-1] if member.startswith("[") and member.endswith("]") else member


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

"""The name of a model on one line, `source:name[,key=value...]`, and its options.

A comma begins an option only before `key=`, so names and values may contain commas, colons, slashes and equals signs
(paths, `python:package.module:function`). Lists are separated by slashes: `mean=.485/.456/.406`, `size=224/160`.

The members of an ensemble are complete models separated by `+`. A member with options, or with a `+` in its name, is
written in square brackets: `ensemble:timm:resnet50+[onnx:a.onnx,threads=1]`. A `+` separates members only before `[` or
`source:`. Shells interpret brackets, so quote the line.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from cosight.errors import InvalidInput, did_you_mean
from cosight.files import read_json
from cosight.models.model import Outputs
from cosight.models.preprocessing import Preprocessing
from cosight.trials import label_spaces

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "INPUT_KEYS",
    "KEYS",
    "LARGEST_SIDE",
    "ModelSpec",
    "check_display_name",
    "checkpoint_of",
    "class_names_of",
    "ensemble_of",
    "head_size",
    "outputs_of",
    "parse",
    "preprocessing_of",
    "size_of",
]

LARGEST_SIDE = 16_384  # pixels of a model's input
INPUT_KEYS = ("mean", "std", "size", "interpolation", "crop")
KEYS = ("checkpoint", *INPUT_KEYS, "layer", "classes", "name")

_OPTION = re.compile(r",(?=[A-Za-z_]\w*=)", re.ASCII)
_MEMBER = re.compile(r"\+(?=\[|[A-Za-z_]\w*:)", re.ASCII)
_ENSEMBLE = "ensemble"
_FILE_SOURCES = ("onnx", "trials")  # whose names are files
_FILE_KEYS = ("checkpoint", "classes", "templates")
_EXECUTION_KEYS = (  # they do not change the answers, so they are not part of the observer's name
    *("threads", "price", "concurrency", "rate", "retries", "timeout", "backoff"),
)
_TRAINED = re.compile(r"(.+@\d+)\.safetensors")  # as training names its checkpoints: NAME@SEED
_WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_FORM = "a model is named source:name[,key=value...]"
_HUBS = ("timm", "torchvision", "openclip")  # sources that others write with a slash
_WEIGHTS = (".pth", ".pt", ".safetensors", ".ckpt", ".bin", ".tar")
_SOURCE_OF_FILES = {".onnx": "onnx", ".csv": "trials", ".parquet": "trials"}


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A parsed model name; `str` returns the line that `parse` reads.

    Args:
        source: Source of the model, such as timm.
        name: Name of the model in its source.
        options: Keys and values as text; they are sorted by key.

    Raises:
        InvalidInput: The line could not be read back, or an option is repeated.

    >>> str(ModelSpec("timm", "resnet50", (("size", "288"),)))
    'timm:resnet50,size=288'
    """

    source: str
    name: str
    options: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        keys = [key for key, _ in self.options]
        repeated = next((key for key in keys if keys.count(key) > 1), None)
        if repeated is not None:
            raise InvalidInput(f"an option of a model must be given once, got {repeated} {keys.count(repeated)} times")
        if not all(map(_WORD.fullmatch, (self.source, *keys))) or not self.name:
            raise InvalidInput(f"{_FORM}, got {str(self)!r}; for example timm:resnet50")
        bad = next((value for _, value in self.options if _OPTION.search(value)), None)
        if bad is not None or len(_split(_OPTION, self.name, self.source)) > 1:
            raise InvalidInput(
                f"a name or value must not contain `,key=`, which begins an option, got {bad or self.name!r}; rename it"
            )
        if self.get("name") is not None:
            check_display_name(str(self.get("name")))
        object.__setattr__(self, "options", tuple(sorted(self.options)))

    def __str__(self) -> str:
        return ",".join([f"{self.source}:{self.name}", *(f"{key}={value}" for key, value in self.options)])

    @property
    def label(self) -> str:
        """The observer's name: the option `name`, else the model's, without folders: the same on every machine.

        >>> parse("cosight:vit-small,checkpoint=networks/vit-small@45.safetensors").label
        'cosight:vit-small@45'
        >>> parse("timm:resnet50.a1_in1k,name=r50").label
        'r50'
        """
        display_name = self.get("name")
        if display_name is not None:
            return display_name
        options = {
            key: Path(value).name if key in _FILE_KEYS else value
            for key, value in self.options
            if key not in _EXECUTION_KEYS
        }
        name = self.name
        if self.source == _ENSEMBLE:
            name = _join([member.label for member in self.members])
        elif self.source in _FILE_SOURCES:
            name = Path(name).name or name
        elif self.source == "cosight" and (trained := _TRAINED.fullmatch(options.get("checkpoint", ""))):
            name = trained[1]
            del options["checkpoint"]
        return str(ModelSpec(self.source, name, tuple(options.items())))

    @property
    def members(self) -> tuple[ModelSpec, ...]:
        """The models of an ensemble, in order; empty for any other model."""
        if self.source != _ENSEMBLE:
            return ()
        parts = _split(_MEMBER, self.name, _ENSEMBLE)
        return tuple(parse(part[1:-1] if part.startswith("[") and part.endswith("]") else part) for part in parts)

    def get(self, key: str) -> str | None:
        """Return the text of an option, or None if it is not set."""
        return dict(self.options).get(key)

    def numbers(self, key: str) -> tuple[float, ...] | None:
        """Return an option as numbers separated by slashes, or None if it is not set."""
        text = self.get(key)
        if text is None:
            return None
        try:
            numbers = tuple(float(part) for part in text.split("/"))
        except ValueError as error:
            raise InvalidInput(f"{key} must be numbers separated by slashes, got {text!r}") from error
        if not all(map(isfinite, numbers)):
            raise InvalidInput(f"{key} must be finite numbers, got {text!r}")
        return numbers

    def allow(self, keys: Collection[str]) -> None:
        """Raise if an option is not one of `keys`."""
        for key, _ in self.options:
            if self.source == _ENSEMBLE and key not in keys:
                raise InvalidInput(
                    f"options of an ensemble's member belong in brackets with the member, got {key}: [A,{key}=...]"
                )
            if key not in keys:
                hint = did_you_mean(key, keys, most=1, otherwise="remove it")
                raise InvalidInput(f"options of {self.source} models are {', '.join(keys)}, got {key}; {hint}")


def parse(text: str) -> ModelSpec:
    """Parse the name of a model, `source:name[,key=value...]`.

    Args:
        text: One line.

    Returns:
        Source, name and options.

    Raises:
        InvalidInput: The line has another form.

    >>> parse("cosight:resnet20,checkpoint=weights/a,b.pt,mean=.5/.5/.5")
    ModelSpec(source='cosight', name='resnet20', options=(('checkpoint', 'weights/a,b.pt'), ('mean', '.5/.5/.5')))
    >>> str(parse("timm:resnet50.a1_in1k,size=288"))
    'timm:resnet50.a1_in1k,size=288'
    """
    source, colon, rest = text.strip().partition(":")
    if not colon or "," in source or "/" in source:
        raise InvalidInput(f"{_FORM}, got {text!r}; {_suggest_spec(text.strip())}")
    name, *options = _split(_OPTION, rest, source)
    pairs = (option.partition("=") for option in options)
    return ModelSpec(source, name, tuple((key, value) for key, _, value in pairs))


def _suggest_spec(text: str) -> str:
    """Return the hint that ends the message about a line that names no source."""
    source, _, name = text.partition("/")
    suffix = Path(text).suffix.lower()
    if source in _HUBS and name:
        return f"did you mean {source}:{name}?"
    if suffix in _WEIGHTS:
        return (
            f"weights need their architecture: timm:resnet50,checkpoint={text}, or for a network of your own "
            "python:MODULE:FUNCTION, a function that returns it"
        )
    if suffix == ".py":
        return f"name the function that returns the model: python:{Path(text).stem}:FUNCTION"
    if suffix in _SOURCE_OF_FILES:
        return f"did you mean {_SOURCE_OF_FILES[suffix]}:{text}?"
    if text and Path(text).is_dir():
        return "this is a folder: give images with --on FOLDER"
    return f"for example timm:{text or 'resnet50'}"


def check_display_name(name: str) -> None:
    """Raise unless a name can be an observer's: printable text without #, which precedes an abstention function."""
    if not name.strip() or not name.isprintable() or "#" in name:
        raise InvalidInput(f"the name of a model must be printable text without #, got {name!r}")


def ensemble_of(members: Sequence[ModelSpec | str]) -> ModelSpec:
    """Return the name of an ensemble, with brackets where they are needed.

    Args:
        members: Names of its models.

    Returns:
        The name of the ensemble.

    Raises:
        InvalidInput: A name contains unpaired square brackets.

    >>> str(ensemble_of(["timm:resnet50", "timm:vit,size=64"]))
    'ensemble:timm:resnet50+[timm:vit,size=64]'
    """
    specs = [parse(member) if isinstance(member, str) else member for member in members]
    joined = ModelSpec(_ENSEMBLE, _join([str(spec) for spec in specs]))
    if list(joined.members) != specs:
        raise InvalidInput(f"square brackets in names of an ensemble's members must pair, got {joined}; rename them")
    return joined


def _split(separator: re.Pattern[str], text: str, source: str) -> list[str]:
    """Split text at the separators; in an ensemble, those inside brackets do not count."""
    if source != _ENSEMBLE:
        return separator.split(text)
    if text.count("[") != text.count("]"):
        raise InvalidInput(f"square brackets around an ensemble's members must pair, got {text!r}")
    parts, start = [], 0
    for match in separator.finditer(text):
        if text.count("[", 0, match.start()) == text.count("]", 0, match.start()):
            parts.append(text[start : match.start()])
            start = match.end()
    return [*parts, text[start:]]


def _join(members: Sequence[str]) -> str:
    def needs_brackets(text: str) -> bool:
        return bool(_OPTION.search(text)) or any(mark in text for mark in "+[]")

    return "+".join(f"[{text}]" if needs_brackets(text) else text for text in members)


def checkpoint_of(spec: ModelSpec) -> Path | None:
    """Return the file of the option `checkpoint`."""
    text = spec.get("checkpoint")
    return None if text is None else Path(text).expanduser()


def head_size(weights: Mapping[str, Tensor], head: str | None) -> int | None:
    """Return the number of classes of the last layer, called `head`, if the weights have it."""
    weight = weights.get(f"{head}.weight")
    return None if weight is None else int(weight.shape[0])


def preprocessing_of(spec: ModelSpec, default: Preprocessing) -> Preprocessing:
    """Return the model's default preprocessing with the changes that the options make."""
    crop = spec.numbers("crop")
    if crop is not None and len(crop) != 1:
        raise InvalidInput(f"crop must be one number, got {spec.get('crop')}")
    return replace(
        default,
        size=size_of(spec) or default.size,
        mean=_per_channel(spec, "mean") or default.mean,
        std=_per_channel(spec, "std") or default.std,
        interpolation=dict(spec.options).get("interpolation", default.interpolation),
        crop=crop[0] if crop else default.crop,
    )


def size_of(spec: ModelSpec) -> tuple[int, int] | None:
    """Return the option `size`, a side or height/width."""
    sides = spec.numbers("size")
    if sides is None:
        return None
    if len(sides) > 2 or any(not 1 <= side <= LARGEST_SIDE or side != int(side) for side in sides):
        raise InvalidInput(
            f"size must be one or two whole numbers from 1 to {LARGEST_SIDE:,}, a side or height/width, got "
            f"{spec.get('size')}"
        )
    return int(sides[0]), int(sides[-1])


def _per_channel(spec: ModelSpec, key: str) -> tuple[float, ...] | None:
    values = spec.numbers(key)
    if values is not None and len(values) not in (1, 3):
        raise InvalidInput(f"{key} must be one number or three separated by slashes, got {spec.get(key)}")
    return values * 3 if values is not None and len(values) == 1 else values


def class_names_of(spec: ModelSpec) -> tuple[str, ...] | None:
    """Return the names of the option `classes`: a file (a JSON list, or one name per line) or a label space."""
    text = spec.get("classes")
    if text is None:
        return None
    path = Path(text).expanduser()
    if not path.is_file():
        if text not in label_spaces:
            raise InvalidInput(
                f"classes must be a file of class names or a label space ({', '.join(label_spaces)}), got {path}, "
                "which is neither; check the path"
            )
        return label_spaces[text].classes
    try:
        if path.suffix == ".json":
            names = read_json(path, hint="classes are a JSON list of names")
        else:
            names = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"classes must be one name per line, in UTF-8, {path} is not: {error}") from error
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise InvalidInput(f"classes must be a JSON list of names or one name per line, none empty, got {path}")
    return tuple(names)


def outputs_of(spec: ModelSpec) -> Outputs | None:
    """Return the option `outputs`; it is checked when the model is tried."""
    return spec.get("outputs")  # type: ignore[return-value]

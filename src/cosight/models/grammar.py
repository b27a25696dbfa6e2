"""How a model is named on one line: `source:name[,key=value...]`.

A comma begins an option only where `key=` follows, so names and values may hold commas, colons, slashes and equals
signs (paths, `python:package.module:function`). Lists are set apart by slashes: `mean=.485/.456/.406`, `size=224/160`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from cosight.errors import InvalidInput

__all__ = ["ModelSpec", "parse"]

_OPTION = re.compile(r",(?=[A-Za-z_]\w*=)", re.ASCII)
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
        bad = next((text for text in (self.name, *dict(self.options).values()) if _OPTION.search(text)), None)
        if bad is not None:
            raise InvalidInput(f"a name or value must not hold `,key=`, which begins an option, got {bad!r}; rename it")
        object.__setattr__(self, "options", tuple(sorted(self.options)))

    def __str__(self) -> str:
        return ",".join([f"{self.source}:{self.name}", *(f"{key}={value}" for key, value in self.options)])

    @property
    def label(self) -> str:
        """The observer's name: the same on every machine, so a checkpoint is named by its file, without folders."""
        short = [(key, Path(value).name if key == "checkpoint" else value) for key, value in self.options]
        return str(ModelSpec(self.source, self.name, tuple(short)))

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
            if key not in keys:
                near = get_close_matches(key, keys, n=1)
                guess = f"; did you mean {near[0]}?" if near else ""
                raise InvalidInput(f"options of {self.source} models are {', '.join(keys)}, got {key}{guess}")


def parse(text: str) -> ModelSpec:
    """Read `source:name[,key=value...]`.

    >>> parse("cosight:resnet20,checkpoint=weights/a,b.pt,mean=.5/.5/.5")
    ModelSpec(source='cosight', name='resnet20', options=(('checkpoint', 'weights/a,b.pt'), ('mean', '.5/.5/.5')))
    >>> str(parse("timm:resnet50.a1_in1k,size=288"))
    'timm:resnet50.a1_in1k,size=288'
    """
    head, *options = _OPTION.split(text.strip())
    source, colon, name = head.partition(":")
    if not colon:
        raise InvalidInput(f"{_SHAPE}, got {text!r}; for example timm:{text.strip() or 'resnet50'}")
    pairs = (option.partition("=") for option in options)
    return ModelSpec(source, name, tuple((key, value) for key, _, value in pairs))

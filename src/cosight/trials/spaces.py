"""Label spaces: the ordered class names that answers are about."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from cosight.errors import InvalidInput
from cosight.registry import Registry

__all__ = ["ABSTAIN", "LabelSpace", "label_space", "label_spaces", "space_of"]

ABSTAIN = "abstain"  # the answer "none of these, uncertain or unrecognisable"


@dataclass(frozen=True, slots=True)
class LabelSpace:
    """Ordered class names; `abstain` says whether refusing is one of the answers."""

    name: str
    classes: tuple[str, ...]
    abstain: bool = False
    source: str = ""

    def __post_init__(self) -> None:
        twice = len(set(self.classes)) < len(self.classes)
        if twice or ABSTAIN in self.classes or not self.classes:
            raise InvalidInput(
                f"a label space has distinct class names besides {ABSTAIN!r}, got {', '.join(self.classes) or 'none'}"
            )

    @property
    def answers(self) -> tuple[str, ...]:
        """The classes, then `abstain` where the space has it: the codes of answers."""
        return (*self.classes, ABSTAIN) if self.abstain else self.classes


label_spaces: Registry[LabelSpace] = Registry("label-space")

for _file in sorted(files(__package__).joinpath("label_spaces").iterdir(), key=lambda f: f.name):
    _facts = json.loads(_file.read_text(encoding="utf-8"))
    _name = _file.name.removesuffix(".json")
    label_spaces.add(_name, LabelSpace(_name, tuple(_facts["classes"]), _facts["abstain"], _facts["source"]))


def label_space(text: str) -> LabelSpace:
    """A space by its name, or made of class names set apart by commas (`abstain` among them makes it an answer).

    >>> label_space("cat,dog,abstain").answers
    ('cat', 'dog', 'abstain')
    """
    if "," not in text:
        return label_spaces[text]
    names = [name.strip() for name in text.split(",") if name.strip()]
    return LabelSpace("given", tuple(n for n in names if n != ABSTAIN), ABSTAIN in names)


@cache
def space_of(truths: frozenset[str]) -> LabelSpace | None:
    """The first registered space that has all these true classes, or None; None too for no classes at all.

    >>> space_of(frozenset({"knife", "oven"})).name
    'model-vs-human-16'
    """
    for space in sorted(label_spaces.values(), key=lambda s: s.name != "model-vs-human-16"):
        if truths and truths <= set(space.answers):
            return space
    return None

"""Named lists of models, to evaluate together: those of a paper, say. Data only; nothing is loaded."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files

from cosight.errors import InvalidInput
from cosight.models.grammar import parse
from cosight.registry import Registry

__all__ = ["ModelList", "model_lists"]


@dataclass(frozen=True, slots=True)
class ModelList:
    """Models by their lines (`timm:resnet50.a1_in1k`), each once, in the order of their `source`.

    >>> model_lists["laion-c-paper-main"].models[12]
    'timm:resnet50.a1_in1k'
    """

    name: str
    models: tuple[str, ...]
    source: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "models", tuple(self.models))  # a list, where it comes from a file
        specs = [parse(line) for line in self.models]
        if len(set(specs)) < len(specs) or not specs:
            twice = next((str(spec) for spec in specs if specs.count(spec) > 1), "none")
            raise InvalidInput(f"a list of models must name one or more, each once, got {twice} in {self.name}")


model_lists: Registry[ModelList] = Registry("model-list")

for _file in sorted(files(__package__).joinpath("model_lists").iterdir(), key=lambda file: file.name):
    _name = _file.name.removesuffix(".json")
    model_lists.add(_name, ModelList(name=_name, **json.loads(_file.read_text(encoding="utf-8"))))

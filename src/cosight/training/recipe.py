"""What is trained on what, and how: a TOML file. What it leaves out is as in Lee et al. 2023, appendix B.

architecture = "vit-small"
data = "digits"
seeds = [45, 46, 47, 48, 49]
rate = 2e-3
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from cosight.errors import InvalidInput
from cosight.toml_settings import parse_table, read_toml

__all__ = ["Recipe", "Ssl", "Targets", "read_recipe"]

Ssl = Literal["simclr", "byol"]
Targets = Literal["truth", "gold"]


@dataclass(frozen=True, slots=True)
class Recipe:
    """A training run, one network a seed.

    `architecture` names the network; or `pretrained` a checkpoint of ours or a model of timm (`timm:NAME`, perhaps with
    `checkpoint=FILE`), whose trunk is kept as it is under a new head. With `ssl`, the trunk first learns from images
    alone. `data` is a stimulus set or a folder of images, `targets` says whether it is the true class that is learnt or
    people's distribution (`gold`). `resize` is the images' short side before a crop of the network's size is taken.
    """

    data: str
    architecture: str | None = None
    pretrained: str | None = None
    name: str | None = None  # of the checkpoints; None: the architecture's
    labels: str | None = None  # a label space or comma-separated classes; None: those of the data
    targets: Targets = "truth"
    validation: float = 0.1  # share of each class where the data have no split "validation"; the released code: a tenth
    validation_seed: int = 0
    seeds: tuple[int, ...] = (45, 46, 47, 48, 49)
    epochs: int = 1000  # at most: the released code's figure
    batch: int = 16
    rate: float = 1e-5  # AdamW's
    weight_decay: float = 0.01  # torch's default, which the paper leaves as it is
    factor: float = 0.5
    patience: int = 10  # epochs without a lower validation loss before the rate is multiplied by `factor`
    least_rate: float = 1e-6
    stop: int = 15  # epochs without a higher validation accuracy before training ends
    clip: float = 0.5  # the gradient's greatest norm
    dropout: float = 0.1  # before the head
    resize: int | None = None  # None: the architecture's own, 256 for photos
    padding: int = 4
    flip: bool = True
    ssl: Ssl | None = None
    ssl_epochs: int = 100  # the released code's figure

    def __post_init__(self) -> None:
        object.__setattr__(self, "seeds", tuple(self.seeds))
        _check_ranges(self)
        _check_seeds(self.seeds)
        _check_mode(self)

    @property
    def facts(self) -> dict[str, Any]:
        """Every setting but the seeds, for the record: what must be the same to resume a network."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return {key: value for key, value in given.items() if key != "seeds"}


def read_recipe(path: str | Path, *, seeds: tuple[int, ...] | None = None) -> Recipe:
    """Read a recipe; paths in it are relative to its folder. `seeds` take the place of its own."""
    file = Path(path)
    found = parse_table(Recipe, read_toml(file), context=str(file))
    return replace(found, seeds=seeds or found.seeds, **_placed(found, file.parent))


def _placed(recipe: Recipe, folder: Path) -> dict[str, Any]:
    """Paths as seen from here."""
    weights = recipe.pretrained
    is_line = weights is None or ":" in weights
    return {
        "data": str(folder / Path(recipe.data).expanduser()),
        "pretrained": weights if is_line else str(folder / Path(str(weights)).expanduser()),
    }


_TEXTS = ("data", "architecture", "pretrained", "name", "labels")
_COUNTS = ("epochs", "batch", "patience", "stop", "ssl_epochs")
_POSITIVE = ("rate", "least_rate", "clip")


def _check_ranges(recipe: Recipe) -> None:
    for name in _TEXTS:
        if getattr(recipe, name) == "":
            raise InvalidInput(f"{name} must not be empty; give a value or leave the line out")
    for name in _COUNTS:
        if getattr(recipe, name) < 1:
            raise InvalidInput(f"{name} must be 1 or more, got {getattr(recipe, name)}")
    for name in _POSITIVE:
        if not 0 < getattr(recipe, name) < float("inf"):
            raise InvalidInput(f"{name} must be positive, got {getattr(recipe, name):g}")
    for name, low, high in (("factor", 0, 1), ("validation", 0, 1)):
        if not low < getattr(recipe, name) < high:
            raise InvalidInput(f"{name} must be between 0 and 1, got {getattr(recipe, name):g}")
    if recipe.padding < 0 or recipe.weight_decay < 0 or recipe.validation_seed < 0:
        raise InvalidInput("padding, weight_decay and validation_seed must be 0 or more, got less")
    if recipe.least_rate > recipe.rate:
        raise InvalidInput(f"least_rate must not exceed rate ({recipe.rate:g}), got {recipe.least_rate:g}; lower it")
    if recipe.resize is not None and recipe.resize < 1:
        raise InvalidInput(f"resize must be 1 pixel or more, got {recipe.resize}")
    if recipe.name is not None and Path(recipe.name).name != recipe.name:
        raise InvalidInput(f"name must be part of a file's name, without folders, got {recipe.name!r}")


def _check_seeds(seeds: tuple[int, ...]) -> None:
    if not seeds or min(seeds) < 0 or len(set(seeds)) < len(seeds):
        raise InvalidInput(f"seeds must be different whole numbers from 0 up, at least one, got {list(seeds)}")


def _check_mode(recipe: Recipe) -> None:
    if (recipe.architecture is None) == (recipe.pretrained is None):
        got = "neither" if recipe.architecture is None else "both"
        raise InvalidInput(f"a recipe names an architecture, or pretrained weights with theirs, got {got}; name one")
    if recipe.ssl is not None and recipe.pretrained is not None:
        raise InvalidInput(
            f"ssl trains every weight of a new network, pretrained keeps them, got {recipe.ssl} and "
            f"{recipe.pretrained}; leave one out"
        )

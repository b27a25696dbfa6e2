"""Recipes of training: a TOML file. Defaults are those of Lee et al. 2023, appendix B, and its released code.

architecture = "vit-small"
data = "digits"
seeds = [45, 46, 47, 48, 49]
rate = 2e-3
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from cosight.arrays import whole_number
from cosight.errors import InvalidInput
from cosight.models.model_spec import LARGEST_SIDE
from cosight.toml_settings import parse_table, read_toml
from cosight.training.alignment import Alignment

__all__ = ["GOLD", "Recipe", "Ssl", "Targets", "read_recipe"]

Ssl = Literal["simclr", "byol"]
Targets = Literal["truth", "gold"]
GOLD = "gold"  # as target observer: the label distributions in the manifest
_ALIGNMENT: dict[str, Any] = {"alignment_weight": 1.0, "alignment_to": GOLD}  # the defaults, where alignment is set


@dataclass(frozen=True, slots=True)
class Recipe:
    """Settings of a training run, which trains one network per seed.

    Args:
        data: A stimulus set, or a folder of images.
        architecture: Name of the network; either this or `pretrained` is needed.
        pretrained: A checkpoint that training wrote, or a model of timm (`timm:NAME[,checkpoint=FILE]`). It gets a
            new head.
        freeze: Whether the pretrained weights are frozen, so that only the head is trained; false fine-tunes all. The
            head then starts from the pretrained one if `labels` are made of its classes: as the mean over the members
            of each class.
        name: Name of the checkpoints (default: the architecture's).
        labels: A label space or comma-separated classes (default: those of the data).
        targets: Whether the targets are the true classes or people's distributions (`gold`).
        validation: Fraction of each class used for validation if the data have no split "validation".
        validation_seed: Seed of that split.
        seeds: Seeds of the networks.
        epochs: Largest number of epochs.
        batch: Batch size.
        rate: Learning rate of AdamW.
        weight_decay: Weight decay of AdamW.
        factor: Factor by which the rate falls.
        patience: Epochs without a lower validation loss before the rate falls.
        least_rate: Lowest rate.
        stop: Epochs without a higher validation accuracy before training ends.
        clip: Largest norm of the gradient.
        dropout: Dropout before the head.
        resize: Short side of the images before they are cropped (default: the architecture's own, 256 for photos).
        padding: Black pixels around an image before it is cropped.
        flip: Whether half of the images are mirrored.
        ssl: Self-supervised method by which the network is pretrained: simclr or byol.
        ssl_epochs: Epochs of pretraining.
        alignment: Auxiliary loss on the network's errors: cles or ma, 1 - the soft measure of each batch.
        alignment_weight: Weight of that loss beside the cross-entropy.
        alignment_to: The target observer: `gold` for the label distributions in the manifest, or a file of trials.

    Raises:
        InvalidInput: If a setting is out of range, or two settings contradict each other.

    >>> Recipe(data="photos", architecture="vit-small").seeds
    (45, 46, 47, 48, 49)
    """

    data: str
    architecture: str | None = None
    pretrained: str | None = None
    freeze: bool = True
    name: str | None = None
    labels: str | None = None
    targets: Targets = "truth"
    validation: float = 0.1
    validation_seed: int = 0
    seeds: tuple[int, ...] = (45, 46, 47, 48, 49)
    epochs: int = 1000  # as in the released code
    batch: int = 16
    rate: float = 1e-5
    weight_decay: float = 0.01  # torch's default, which the paper does not change
    factor: float = 0.5
    patience: int = 10
    least_rate: float = 1e-6
    stop: int = 15
    clip: float = 0.5
    dropout: float = 0.1
    resize: int | None = None
    padding: int = 4
    flip: bool = True
    ssl: Ssl | None = None
    ssl_epochs: int = 100  # as in the released code
    alignment: Alignment | None = None
    alignment_weight: float = _ALIGNMENT["alignment_weight"]
    alignment_to: str = _ALIGNMENT["alignment_to"]

    def __post_init__(self) -> None:
        object.__setattr__(self, "seeds", tuple(self.seeds))
        _check_ranges(self)
        _check_seeds(self.seeds)
        _check_mode(self)

    @property
    def facts(self) -> dict[str, Any]:
        """All settings except the seeds; they must be the same to resume a network.

        Without `alignment` its settings are left out, so that networks of earlier versions can be resumed.
        """
        unused = ("seeds",) if self.alignment else ("seeds", "alignment", *_ALIGNMENT)
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name not in unused}


def read_recipe(path: str | Path, *, seeds: tuple[int, ...] | None = None) -> Recipe:
    """Read a recipe.

    Args:
        path: TOML file; paths in it are relative to its folder.
        seeds: Seeds to use instead of the file's.

    Returns:
        The recipe.

    Raises:
        InvalidInput: If the file cannot be read, or a setting is wrong.
        UnknownName: If a setting does not exist; the message suggests the nearest one.

    >>> _ = Path("recipe.toml").write_text('architecture = "vit-small"\\ndata = "digits"\\nrate = 2e-3\\n')
    >>> recipe = read_recipe("recipe.toml", seeds=(1, 2))
    >>> recipe.rate, recipe.seeds
    (0.002, (1, 2))
    """
    file = Path(path)
    recipe = parse_table(Recipe, read_toml(file), context=str(file))
    data, pretrained = str(file.parent / Path(recipe.data).expanduser()), recipe.pretrained
    if pretrained is not None and ":" not in pretrained:  # a file, not the name of a model
        pretrained = str(file.parent / Path(pretrained).expanduser())
    observer = recipe.alignment_to
    if observer != GOLD:
        observer = str(file.parent / Path(observer).expanduser())
    return replace(recipe, seeds=seeds or recipe.seeds, data=data, pretrained=pretrained, alignment_to=observer)


_TEXTS = ("data", "architecture", "pretrained", "name", "labels", "alignment_to")
_COUNTS = ("epochs", "batch", "patience", "stop", "ssl_epochs")
_MOST_COUNT = 1_000_000_000
_MOST_SEED = 2**63 - 1  # that torch takes
_POSITIVE = ("rate", "least_rate", "clip", "alignment_weight")


def _check_ranges(recipe: Recipe) -> None:
    for name in _COUNTS:
        whole_number(getattr(recipe, name), name=name, least=1, most=_MOST_COUNT)
    whole_number(recipe.validation_seed, name="validation_seed", most=_MOST_SEED)
    whole_number(recipe.padding, name="padding", most=LARGEST_SIDE)
    if recipe.resize is not None:
        whole_number(recipe.resize, name="resize", least=1, most=LARGEST_SIDE)
    for name in _TEXTS:
        if getattr(recipe, name) == "":
            raise InvalidInput(f"{name} must not be empty; give a value or leave the line out")
    for name in _POSITIVE:
        if not 0 < getattr(recipe, name) < float("inf"):
            raise InvalidInput(f"{name} must be positive, got {getattr(recipe, name):g}")
    for name in ("factor", "validation"):
        if not 0 < getattr(recipe, name) < 1:
            raise InvalidInput(f"{name} must be between 0 and 1, got {getattr(recipe, name):g}")
    if not 0 <= recipe.weight_decay < float("inf"):
        raise InvalidInput(f"weight_decay must be 0 or more, got {recipe.weight_decay:g}")
    if recipe.least_rate > recipe.rate:
        raise InvalidInput(f"least_rate must not exceed rate ({recipe.rate:g}), got {recipe.least_rate:g}; lower it")
    if recipe.name is not None and Path(recipe.name).name != recipe.name:
        raise InvalidInput(f"name must be part of a file's name, without folders, got {recipe.name!r}")


def _check_seeds(seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        whole_number(seed, name="a seed", most=_MOST_SEED)
    if not seeds or len(set(seeds)) < len(seeds):
        raise InvalidInput(f"seeds must be different whole numbers from 0 up, at least one, got {list(seeds)}")


def _check_mode(recipe: Recipe) -> None:
    if (recipe.architecture is None) == (recipe.pretrained is None):
        got = "neither" if recipe.architecture is None else "both"
        raise InvalidInput(f"a recipe needs either an architecture or pretrained weights, got {got}; set one of them")
    if not recipe.freeze and recipe.pretrained is None:
        raise InvalidInput("freeze = false is for pretrained weights, got none; set pretrained or leave it out")
    if recipe.ssl is not None and recipe.pretrained is not None:
        raise InvalidInput(
            f"ssl trains a new network and pretrained starts from trained weights, got {recipe.ssl} and "
            f"{recipe.pretrained}; leave one out"
        )
    for name, value in _ALIGNMENT.items():
        if recipe.alignment is None and getattr(recipe, name) != value:
            raise InvalidInput(f"{name} is about the loss `alignment`, which is not set; add alignment or leave it out")

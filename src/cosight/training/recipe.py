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
from cosight.models.architectures import BETA
from cosight.models.model_spec import LARGEST_SIDE
from cosight.stimuli.attacks import Norm, check_eps
from cosight.toml_settings import parse_table, read_toml
from cosight.training.alignment import Alignment

__all__ = ["GOLD", "Adversarial", "Recipe", "Ssl", "Targets", "read_recipe"]

Ssl = Literal["simclr", "byol"]
Targets = Literal["truth", "gold"]
Optimiser = Literal["adamw", "sgd"]
RateSchedule = Literal["plateau", "steps", "one-cycle"]
Adversarial = Literal["pgd", "trades", "mart", "free"]
Views = Literal["plain", "adversarial"]
GOLD = "gold"  # as target observer: the label distributions in the manifest
_ALIGNMENT: dict[str, Any] = {"alignment_weight": 1.0, "alignment_to": GOLD}  # the defaults, where alignment is set
_ATTACK: dict[str, Any] = {"attack_norm": "l2", "attack_eps": 1.0, "attack_steps": 10, "attack_step_size": None}
_LATER: dict[str, Any] = {  # settings of later versions, which identify a network only if they are set
    **{"optimiser": "adamw", "momentum": 0.9, "schedule": "plateau", "stop_at": None, "k_wta": None},
    **{"adversarial": None, "ssl_views": "plain", "beta": BETA},
}


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
        optimiser: adamw, or sgd with momentum.
        momentum: Momentum of SGD.
        rate: Learning rate; the highest one of "one-cycle".
        weight_decay: Weight decay.
        schedule: When the rate falls: "plateau", after `patience` epochs without a lower validation loss; "steps",
            every `patience` epochs; "one-cycle", in every batch: from rate / 25 up to `rate` in the first 30 % of
            training, then down to zero, both along a cosine (Smith and Topin 2019).
        factor: Factor by which the rate falls.
        patience: Epochs, see `schedule`.
        least_rate: Lowest rate of "plateau".
        stop: With "plateau", epochs without a higher validation accuracy before training ends. The other schedules
            run for all epochs.
        stop_at: Validation accuracy at which training ends.
        clip: Largest norm of the gradient.
        dropout: Dropout before the head.
        resize: Short side of the images before they are cropped (default: the architecture's own, 256 for photos).
        padding: Black pixels around an image before it is cropped.
        flip: Whether half of the images are mirrored.
        ssl: Self-supervised method by which the network is pretrained: simclr or byol.
        ssl_epochs: Epochs of pretraining.
        ssl_views: Whether the first view of SimCLR is attacked, so that its features leave those of the second one
            ("adversarial", Kim et al. 2020).
        k_wta: Fraction of each layer's units that k-winners-take-all keeps, in place of the network's own activations
            (Xiao et al. 2020).
        adversarial: Adversarial training: "pgd" on attacked images (Madry et al. 2018), "trades" (Zhang et al. 2019),
            "mart" (Wang et al. 2020), or "free", which takes the attack's gradients from the training steps (Shafahi
            et al. 2019).
        attack_norm: Norm of the attack, linf or l2.
        attack_eps: Its radius, in units of pixels in [0, 1].
        attack_steps: Its number of steps; of "free", how often each batch is repeated.
        attack_step_size: Length of a step (default: 2.5 eps / steps; of "free", eps).
        beta: Weight of the robust term of "trades" and "mart".
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
    optimiser: Optimiser = "adamw"
    momentum: float = 0.9
    rate: float = 1e-5
    weight_decay: float = 0.01  # torch's default, which the paper does not change
    schedule: RateSchedule = "plateau"
    factor: float = 0.5
    patience: int = 10
    least_rate: float = 1e-6
    stop: int = 15
    stop_at: float | None = None
    clip: float = 0.5
    dropout: float = 0.1
    resize: int | None = None
    padding: int = 4
    flip: bool = True
    ssl: Ssl | None = None
    ssl_epochs: int = 100  # as in the released code
    ssl_views: Views = "plain"
    k_wta: float | None = None
    adversarial: Adversarial | None = None
    attack_norm: Norm = _ATTACK["attack_norm"]
    attack_eps: float = _ATTACK["attack_eps"]
    attack_steps: int = _ATTACK["attack_steps"]
    attack_step_size: float | None = _ATTACK["attack_step_size"]
    beta: float = BETA
    alignment: Alignment | None = None
    alignment_weight: float = _ALIGNMENT["alignment_weight"]
    alignment_to: str = _ALIGNMENT["alignment_to"]

    def __post_init__(self) -> None:
        object.__setattr__(self, "seeds", tuple(self.seeds))
        _check_ranges(self)
        _check_seeds(self.seeds)
        _check_mode(self)

    @property
    def is_attacked(self) -> bool:
        """Whether training attacks its images."""
        return self.adversarial is not None or self.ssl_views == "adversarial"

    @property
    def facts(self) -> dict[str, Any]:
        """All settings except the seeds; they must be the same to resume a network.

        Settings that earlier versions did not have are left out where they are not used, so that networks of those
        versions can be resumed.
        """
        unused = {"seeds", *(name for name, value in _LATER.items() if getattr(self, name) == value)}
        if self.alignment is None:
            unused |= {"alignment", *_ALIGNMENT}
        if not self.is_attacked:
            unused |= set(_ATTACK)
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
_COUNTS = ("epochs", "batch", "patience", "stop", "ssl_epochs", "attack_steps")
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
    for name in ("factor", "validation", "stop_at"):
        value = getattr(recipe, name)
        if value is not None and not 0 < value < 1:
            raise InvalidInput(f"{name} must be between 0 and 1, got {value:g}")
    for name in ("weight_decay", "beta"):
        if not 0 <= getattr(recipe, name) < float("inf"):
            raise InvalidInput(f"{name} must be 0 or more, got {getattr(recipe, name):g}")
    if not 0 <= recipe.momentum < 1:
        raise InvalidInput(f"momentum must be in [0, 1), got {recipe.momentum:g}")
    if recipe.k_wta is not None and not 0 < recipe.k_wta <= 1:
        raise InvalidInput(
            f"k_wta is the fraction of a layer's units that are kept, so k must not exceed the width: above 0 and up "
            f"to 1, got {recipe.k_wta:g}"
        )
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
    if recipe.optimiser == "adamw" and recipe.momentum != _LATER["momentum"]:
        raise InvalidInput('momentum is about optimiser = "sgd", got adamw; leave it out')
    for name, value in _ALIGNMENT.items():
        if recipe.alignment is None and getattr(recipe, name) != value:
            raise InvalidInput(f"{name} is about the loss `alignment`, which is not set; add alignment or leave it out")
    _check_attack(recipe)


def _check_attack(recipe: Recipe) -> None:
    check_eps(recipe.attack_eps, recipe.attack_norm, "pixels", name="attack_eps")
    for name in ("attack_eps", "attack_step_size"):
        value = getattr(recipe, name)
        if value is not None and not 0 < value < float("inf"):
            raise InvalidInput(f"{name} must be positive and finite, got {value:g}")
    for name, default in _ATTACK.items():
        if not recipe.is_attacked and getattr(recipe, name) != default:
            raise InvalidInput(
                f"{name} is about adversarial training, which is not set; add adversarial or leave it out"
            )
    if recipe.beta != BETA and recipe.adversarial not in ("trades", "mart"):
        raise InvalidInput(f"beta is about trades and mart, got {recipe.adversarial or 'none'}; leave it out")
    if recipe.adversarial is not None and recipe.alignment is not None:
        raise InvalidInput(f"adversarial training has no alignment loss, got {recipe.alignment}; leave one out")
    if recipe.adversarial == "mart" and recipe.targets != "truth":
        raise InvalidInput(f'mart needs true classes, got targets = "{recipe.targets}"; leave it out or use trades')
    if recipe.ssl_views == "adversarial" and recipe.ssl != "simclr":
        raise InvalidInput(f'ssl_views = "adversarial" is about ssl = "simclr", got {recipe.ssl or "none"}')

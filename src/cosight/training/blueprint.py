"""The network that training begins with: new, or with a pretrained trunk that is kept under a new head."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cosight.errors import InvalidInput
from cosight.models.architectures import TIMM, architecture_named, build, checkpoint_facts
from cosight.models.loading import load_torch
from cosight.models.model_spec import parse
from cosight.models.preprocessing import Preprocessing
from cosight.models.torch_models import TorchModel
from cosight.training.augment import crop_share
from cosight.training.recipe import Recipe

if TYPE_CHECKING:
    from torch import nn

__all__ = ["Blueprint", "blueprint", "head_of", "seeded", "set_training"]


@dataclass(frozen=True, slots=True, eq=False)
class Blueprint:
    """What every seed's network is made from; `trunk` is the pretrained model, if any."""

    architecture: str
    preprocessing: Preprocessing
    resize: int
    dropout: float
    trunk: TorchModel | None

    @property
    def frozen(self) -> bool:
        """Whether only the head learns."""
        return self.trunk is not None

    def make(self, classes: int, seed: int) -> nn.Module:
        """A network with new weights, or with the trunk's, ready to be trained."""
        with seeded(seed, "weights"):
            module = build(self.architecture, classes=classes, dropout=self.dropout)
        if self.trunk is not None:
            _put_trunk(self.trunk, module)
            module.requires_grad_(False)
            head_of(module).requires_grad_(True)
        return module


def blueprint(recipe: Recipe) -> Blueprint:
    """How a recipe's networks are made."""
    trunk = None if recipe.pretrained is None else _trunk(recipe.pretrained)
    name = recipe.architecture or _architecture_of(recipe.pretrained or "")
    own = architecture_named(name).preprocessing if trunk is None else trunk.preprocessing
    side = min(own.size)
    resize = recipe.resize or int(side / own.crop)
    return Blueprint(name, replace(own, crop=crop_share(side, resize)), resize, recipe.dropout, trunk)


@contextmanager
def seeded(*parts: object) -> Iterator[None]:
    """torch's random numbers follow from `parts` in here, and go on outside as if nothing had been."""
    import torch

    number = int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "big", signed=True)
    with torch.random.fork_rng():
        torch.manual_seed(number)
        yield


def head_of(module: Any) -> nn.Linear:
    """The last layer, which gives the logits."""
    import torch

    head = module.get_classifier() if hasattr(module, "get_classifier") else None
    if not isinstance(head, torch.nn.Linear):
        raise InvalidInput(
            f"training needs a network with one linear head, {type(module).__name__} has "
            f"{type(head).__name__}; choose another architecture"
        )
    return head


def set_training(module: nn.Module, *, frozen: bool) -> None:
    """Training mode; what is frozen keeps batch norm's means as well."""
    import torch

    module.train()
    if frozen:
        for part in module.modules():
            if isinstance(part, torch.nn.modules.batchnorm._BatchNorm):
                part.eval()


def _architecture_of(pretrained: str) -> str:
    """A line of timm's, or what a checkpoint of ours says."""
    if pretrained.startswith(TIMM):
        return TIMM + parse(pretrained).name
    name: str = checkpoint_facts(Path(pretrained))["architecture"]
    return name


def _trunk(pretrained: str) -> TorchModel:
    if pretrained.startswith(TIMM):
        return load_torch(pretrained)
    return load_torch(f"cosight:{_architecture_of(pretrained)},checkpoint={pretrained}")


def _put_trunk(trunk: TorchModel, module: nn.Module) -> None:
    """Every weight but the head's."""
    head = next(name for name, part in module.named_modules() if part is head_of(module))
    given = trunk.module.state_dict()
    own = {name: value for name, value in module.state_dict().items() if not name.startswith(f"{head}.")}
    odd = [name for name in own if name not in given or given[name].shape != own[name].shape]
    if odd:  # built for another input size, say
        raise InvalidInput(f"the weights of {trunk.name} must fit a new network of that name, {odd[0]} does not")
    module.load_state_dict({name: given[name] for name in own}, strict=False)  # strict but for the head

"""The network that training starts from: new weights, or a pretrained trunk, frozen or not, with a new head."""

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
from cosight.models.output_space import output_space
from cosight.models.preprocessing import Preprocessing, crop_fraction
from cosight.models.torch_models import TorchModel
from cosight.training.recipe import Recipe
from cosight.trials.mapping import label_map
from cosight.trials.spaces import label_space

if TYPE_CHECKING:
    from torch import nn

__all__ = ["NetworkFactory", "head_of", "network_factory", "seeded", "set_training"]


@dataclass(frozen=True, slots=True, eq=False)
class NetworkFactory:
    """Makes the network of each seed.

    Args:
        architecture: Name of the architecture.
        preprocessing: Preprocessing of the finished model.
        resize: Short side of images before they are cropped.
        dropout: Dropout before the head.
        trunk: Pretrained model; None for new weights.
        frozen: Whether only the head is trained.
        members: For each class, the outputs of the trunk's own head that it consists of; the new head starts as their
            mean. Empty: it starts at random.
        k_wta: Fraction of units that k-winners-take-all keeps; None for the architecture's own activations.
    """

    architecture: str
    preprocessing: Preprocessing
    resize: int
    dropout: float
    trunk: TorchModel | None
    frozen: bool
    members: tuple[tuple[int, ...], ...] = ()
    k_wta: float | None = None

    def make(self, classes: int, seed: int) -> nn.Module:
        """Return a network ready to be trained, with new weights or those of the trunk."""
        import torch

        with seeded(seed, "weights"):
            module = build(self.architecture, classes=classes, dropout=self.dropout, k_wta=self.k_wta)
        if self.trunk is None:
            return module
        head = head_of(module)
        prefix = next(name for name, part in module.named_modules() if part is head) + "."
        pretrained = self.trunk.module.state_dict()
        expected = {name: value for name, value in module.state_dict().items() if not name.startswith(prefix)}
        for name, value in expected.items():
            if name not in pretrained or pretrained[name].shape != value.shape:  # built for another input size, say
                raise InvalidInput(f"the weights of {self.trunk.name} do not fit a new network: {name} differs")
        module.load_state_dict({name: pretrained[name] for name in expected}, strict=False)  # strict except the head
        if self.members:
            for name, own in head_of(self.trunk.module).state_dict().items():
                rows = [own[list(group)].mean(dim=0) for group in self.members]
                head.state_dict()[name].copy_(torch.stack(rows))
        if self.frozen:
            module.requires_grad_(False)
            head.requires_grad_(True)
        return module


def network_factory(recipe: Recipe) -> NetworkFactory:
    """Return the factory of a recipe's networks."""
    trunk, pretrained = None, recipe.pretrained or ""
    if recipe.architecture is not None:  # else there are pretrained weights
        architecture = recipe.architecture
        default = architecture_named(architecture).preprocessing
    else:
        if pretrained.startswith(TIMM):
            architecture, line = TIMM + parse(pretrained).name, pretrained
        else:
            architecture = checkpoint_facts(Path(pretrained))["architecture"]
            line = f"cosight:{architecture},checkpoint={pretrained}"
        trunk = load_torch(line, device="cpu")  # its weights are copied
        default = trunk.preprocessing
    side = min(default.size)
    resize = recipe.resize or int(side / default.crop)
    preprocessing = replace(default, crop=crop_fraction(side, resize))
    frozen = recipe.freeze and trunk is not None
    members = () if trunk is None or recipe.freeze else _head_members(trunk, recipe)
    return NetworkFactory(architecture, preprocessing, resize, recipe.dropout, trunk, frozen, members, recipe.k_wta)


def _head_members(trunk: TorchModel, recipe: Recipe) -> tuple[tuple[int, ...], ...]:
    """Return the outputs of a pretrained head that each class of the recipe's labels consists of; () for none."""
    if recipe.labels is None:
        return ()
    space = label_space(recipe.labels)
    try:
        return label_map(output_space(trunk, space)[0], space).groups
    except InvalidInput:  # other classes than those it was trained on
        return ()


@contextmanager
def seeded(*parts: object) -> Iterator[None]:
    """Seed torch with a hash of `parts`; restore its random state afterwards."""
    import torch

    number = int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "big", signed=True)
    with torch.random.fork_rng():
        torch.manual_seed(number)
        yield


def head_of(module: Any) -> nn.Linear:
    """Return the last layer, which returns the logits."""
    import torch

    head = module.get_classifier() if hasattr(module, "get_classifier") else None
    if not isinstance(head, torch.nn.Linear):
        raise InvalidInput(
            f"training needs a network with one linear head, {type(module).__name__} has "
            f"{type(head).__name__}; choose another architecture"
        )
    return head


def set_training(module: nn.Module, *, frozen: bool) -> None:
    """Put the module into training mode; a frozen one keeps its batch norm statistics."""
    import torch

    module.train()
    if frozen:
        for part in module.modules():
            if isinstance(part, torch.nn.modules.batchnorm._BatchNorm):
                part.eval()

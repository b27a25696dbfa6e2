"""Learning from images alone: SimCLR (Chen et al. 2020) and BYOL (Grill et al. 2020), with lightly's heads and losses.

Each is a module that takes two views of every image and gives the loss; its `trunk` is the network, whose own head is
left as it is.
"""

from __future__ import annotations

from math import cos, pi
from typing import TYPE_CHECKING, Any

from cosight.errors import InvalidInput
from cosight.training.blueprint import head_of
from cosight.training.recipe import Ssl

if TYPE_CHECKING:
    from torch import nn

__all__ = ["TEMPERATURE", "momentum", "two_view_learner"]

TEMPERATURE = 0.5  # of SimCLR: its best on CIFAR-10 (appendix B.9), and the released code of Lee et al. 2023
_FIRST_MOMENTUM = 0.996  # of BYOL's slow network (section 3.2)
_SIMCLR_OUT, _BYOL_OUT = 128, 256


def momentum(step: int, steps: int) -> float:
    """How much of BYOL's slow network stays at a step: 1 - (1 - .996)(cos(pi k / K) + 1) / 2 (section 3.2).

    >>> momentum(0, 100), momentum(100, 100)
    (0.996, 1.0)
    """
    return 1 - (1 - _FIRST_MOMENTUM) * (cos(pi * step / steps) + 1) / 2


def two_view_learner(method: Ssl, module: nn.Module, *, gathered: bool = False) -> Any:
    """The module's trunk with what `method` adds: an nn.Module of two views, and `after_step(step, steps)`.

    `gathered` says that several processes have parts of one batch, whose images are then each other's negatives.
    """
    try:
        import lightly.loss  # type: ignore[import-not-found,import-untyped,unused-ignore]  # noqa: F401
    except ImportError as error:
        raise InvalidInput(f"ssl needs {error.name}; pip install 'cosight[train]'") from error
    return _simclr(module, gathered) if method == "simclr" else _byol(module)


def _simclr(module: nn.Module, gathered: bool) -> Any:
    from lightly.loss import NTXentLoss  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from lightly.models.modules import SimCLRProjectionHead  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from torch import Tensor, nn

    class SimClr(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.trunk = module
            wide = head_of(module).in_features
            self.project = SimCLRProjectionHead(wide, wide, _SIMCLR_OUT)
            self.criterion = NTXentLoss(temperature=TEMPERATURE, gather_distributed=gathered)

        def forward(self, a: Tensor, b: Tensor) -> Tensor:
            loss: Tensor = self.criterion(*(self.project(_features(self.trunk, v)) for v in (a, b)))
            return loss

        def after_step(self, step: int, steps: int) -> None:
            """Nothing to do: it has one network."""

    return SimClr()


def _byol(module: nn.Module) -> Any:
    from copy import deepcopy

    import torch
    from lightly.loss import NegativeCosineSimilarity
    from lightly.models.modules import BYOLPredictionHead, BYOLProjectionHead
    from lightly.models.utils import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
        deactivate_requires_grad,
        update_momentum,
    )
    from torch import Tensor, nn

    class Byol(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            wide = head_of(module).in_features
            self.trunk = module
            self.project = BYOLProjectionHead(wide, 4 * wide, _BYOL_OUT)
            self.predict = BYOLPredictionHead(_BYOL_OUT, 4 * wide, _BYOL_OUT)
            self.slow_trunk, self.slow_project = deepcopy(self.trunk), deepcopy(self.project)
            deactivate_requires_grad(self.slow_trunk)
            deactivate_requires_grad(self.slow_project)
            self.criterion = NegativeCosineSimilarity()

        def forward(self, a: Tensor, b: Tensor) -> Tensor:
            told = [self.predict(self.project(_features(self.trunk, v))) for v in (a, b)]
            with torch.no_grad():
                slow = [self.slow_project(_features(self.slow_trunk, v)) for v in (a, b)]
            # |p - z|^2 of unit vectors is 2 - 2 cos; both ways round (equations 2 and 3)
            loss: Tensor = 4 + 2 * (self.criterion(told[0], slow[1]) + self.criterion(told[1], slow[0]))
            return loss

        def after_step(self, step: int, steps: int) -> None:
            """The slow network follows."""
            stays = momentum(step, steps)
            update_momentum(self.trunk, self.slow_trunk, stays)
            update_momentum(self.project, self.slow_project, stays)

    return Byol()


def _features(trunk: Any, images: Any) -> Any:
    """The penultimate layer of a network of timm's making."""
    return trunk.forward_head(trunk.forward_features(images), pre_logits=True)

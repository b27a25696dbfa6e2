"""Self-supervised pretraining: SimCLR (Chen et al. 2020) and BYOL (Grill et al. 2020), with lightly's heads and losses.

A learner is a module that takes two views of every image and returns the loss; its `trunk` is the network, whose own
head is not trained.
"""

from __future__ import annotations

from math import cos, pi
from typing import TYPE_CHECKING, Any

from cosight.errors import InvalidInput
from cosight.stimuli.images import Bytes
from cosight.training.augment import image_order, two_views
from cosight.training.checkpoint import CheckpointFiles, Epoch, TrainingState
from cosight.training.context import (
    Indices,
    TrainingContext,
    check_loss,
    make_optimiser,
    split_batches,
    take_step,
    to_channels_first,
)
from cosight.training.networks import head_of, seeded
from cosight.training.recipe import Ssl
from cosight.training.robust import Adversary

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["TEMPERATURE", "momentum", "pretrain", "two_view_learner"]

TEMPERATURE = 0.5  # of SimCLR: its best on CIFAR-10 (appendix B.9), and the released code of Lee et al. 2023
_FIRST_MOMENTUM = 0.996  # of BYOL's slow network (section 3.2)
_SIMCLR_OUT, _BYOL_OUT = 128, 256


def pretrain(
    context: TrainingContext,
    files: CheckpointFiles,
    module: nn.Module,
    state: TrainingState,
    seed: int,
    *,
    resumed: bool,
) -> None:
    """Train the trunk of a network for a fixed number of epochs; its own head does not change."""
    recipe, group, images = context.recipe, context.group, len(context.data.training)
    if recipe.batch % group.world or recipe.batch // group.world < 2:
        raise InvalidInput(
            f"ssl divides a batch evenly, at least two images per process, got {recipe.batch} for {group.world}"
        )
    if images < recipe.batch:
        raise InvalidInput(f"ssl needs at least one whole batch of {recipe.batch} images, got {images}; lower batch")
    head_of(module).requires_grad_(False)
    with seeded(seed, "ssl"):
        learner = two_view_learner(recipe.ssl or "simclr", module, gathered=group.world > 1).to(context.device)
    optimiser = make_optimiser(learner, recipe)
    if resumed:
        files.restore(learner, optimiser)
    parallel = group.parallel(learner)
    while (epoch := state.epochs) < recipe.ssl_epochs:
        learner.train()
        # an incomplete last batch is left out, because it has fewer negatives
        batches = split_batches(image_order(seed, epoch, images), recipe.batch)[: images // recipe.batch]
        total = 0.0
        adversary = Adversary(context, learner, (seed, epoch)) if recipe.ssl_views == "adversarial" else None
        with seeded(seed, "ssl", epoch, group.rank):
            for done, batch in enumerate(batches, start=1):
                own = group.part_of(batch)
                first, second = _read_views(context, own, epoch, seed)
                if adversary:
                    first = _attack_view(context, learner, adversary, first, second, own)
                with context.autocast():
                    loss = parallel(context.normalise(first), context.normalise(second)).float()
                take_step(loss, parallel, optimiser, rate=recipe.rate, clip=recipe.clip)
                learner.after_step(epoch * len(batches) + done, recipe.ssl_epochs * len(batches))
                total += float(loss.detach())
                context.report(done, len(batches), files, state)
        mean = check_loss(group.sum(total)[0] / group.world / len(batches), epoch)
        state.history.append(Epoch("ssl", epoch, recipe.rate, mean))
        context.save_state(files, learner, optimiser, state)
    head_of(module).requires_grad_(True)


def _read_views(context: TrainingContext, indices: Indices, epoch: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return the two views of these images, (n, 3, height, width) in [0, 1] each."""
    size, flip = context.network.preprocessing.size, context.recipe.flip

    def both_views(image: Bytes, number: int) -> tuple[Bytes, Bytes]:
        return two_views(image, seed=seed, epoch=epoch, number=number, size=size, flip=flip)

    images = context.read_images(context.data.training, indices)
    pairs = list(context.pool.map(both_views, images, indices.tolist()))
    first, second = (context.pixels([to_channels_first(pair[k]) for pair in pairs]) for k in (0, 1))
    return first, second


def _attack_view(
    context: TrainingContext, learner: nn.Module, adversary: Adversary, first: Tensor, second: Tensor, rows: Indices
) -> Tensor:
    """Return the first views, changed so that the learner's loss with the second ones grows (Kim et al. 2020)."""

    def loss(images: Tensor) -> Tensor:
        with context.autocast():
            mean: Tensor = learner(context.normalise(images), context.normalise(second))
        return mean.float() * len(images)

    return adversary.ascend(loss, first, rows)


def momentum(step: int, steps: int) -> float:
    """Return the momentum of BYOL's slow network at a step: 1 - (1 - .996)(cos(pi k / K) + 1) / 2 (section 3.2).

    >>> momentum(0, 100), momentum(100, 100)
    (0.996, 1.0)
    """
    return 1 - (1 - _FIRST_MOMENTUM) * (cos(pi * step / steps) + 1) / 2


def two_view_learner(method: Ssl, module: nn.Module, *, gathered: bool = False) -> Any:
    """Return a learner with the module as its trunk: an nn.Module of two views with `after_step(step, steps)`.

    With `gathered`, several processes have parts of one batch, and all its images are negatives of each other.
    """
    try:
        import lightly.loss  # type: ignore[import-not-found,import-untyped,unused-ignore]  # noqa: F401
    except ImportError as error:
        raise InvalidInput(f"ssl needs {error.name}; pip install 'cosight[train]'") from error
    return _simclr(module, gathered) if method == "simclr" else _byol(module)


def _simclr(module: nn.Module, gathered: bool) -> Any:
    from lightly.loss import NTXentLoss  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from lightly.models.modules import SimCLRProjectionHead  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from torch import nn

    class SimClr(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.trunk = module
            width = head_of(module).in_features
            self.project = SimCLRProjectionHead(width, width, _SIMCLR_OUT)
            self.criterion = NTXentLoss(temperature=TEMPERATURE, gather_distributed=gathered)

        def forward(self, a: Tensor, b: Tensor) -> Tensor:
            loss: Tensor = self.criterion(*(self.project(_features(self.trunk, view)) for view in (a, b)))
            return loss

        def after_step(self, step: int, steps: int) -> None:
            """Do nothing: there is one network."""

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
    from torch import nn

    class Byol(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            width = head_of(module).in_features
            self.trunk = module
            self.project = BYOLProjectionHead(width, 4 * width, _BYOL_OUT)
            self.predict = BYOLPredictionHead(_BYOL_OUT, 4 * width, _BYOL_OUT)
            self.slow_trunk, self.slow_project = deepcopy(self.trunk), deepcopy(self.project)
            deactivate_requires_grad(self.slow_trunk)
            deactivate_requires_grad(self.slow_project)
            self.criterion = NegativeCosineSimilarity()

        def forward(self, a: Tensor, b: Tensor) -> Tensor:
            predictions = [self.predict(self.project(_features(self.trunk, view))) for view in (a, b)]
            with torch.no_grad():
                targets = [self.slow_project(_features(self.slow_trunk, view)) for view in (a, b)]
            # |p - z|^2 of unit vectors is 2 - 2 cos; symmetrised over the views (equations 2 and 3)
            similarity = self.criterion(predictions[0], targets[1]) + self.criterion(predictions[1], targets[0])
            loss: Tensor = 4 + 2 * similarity
            return loss

        def after_step(self, step: int, steps: int) -> None:
            """Update the slow network."""
            weight = momentum(step, steps)
            update_momentum(self.trunk, self.slow_trunk, weight)
            update_momentum(self.project, self.slow_project, weight)

    return Byol()


def _features(trunk: Any, images: Any) -> Any:
    """Return the penultimate layer of a network of timm."""
    return trunk.forward_head(trunk.forward_features(images), pre_logits=True)

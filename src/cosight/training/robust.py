"""Adversarial training: attacked batches, and the losses of PGD training, TRADES, MART and free training.

The network is in eval mode while its images are attacked, so that batch norm uses its running statistics and the
attack does not change them. Each image's random start follows from (seed, epoch, image). TRADES and MART take images
and attacked images through the network as one batch, so that batch norm sees both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from cosight.errors import InvalidInput
from cosight.stimuli.attacks import ascend, draw_start, input_gradient, pgd_settings, project, steepest
from cosight.training.context import Indices, TrainingContext, cross_entropies

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["Adversary", "kl_divergences", "mart_losses", "trades_losses"]

_STREAM = 4  # name of the random stream, beside those of `augment`
_LEAST = 1e-12  # probability below which a logarithm is cut off


class Adversary:
    """The attacks of a recipe on one network in one epoch. `key` seeds the random starts."""

    def __init__(self, context: TrainingContext, module: nn.Module, key: tuple[int, ...]) -> None:
        self.context, self.module, self.key = context, module, key
        self.change: Tensor | None = None  # of free training: of the last batch
        recipe, size = context.recipe, context.network.preprocessing.size
        widest = sqrt(3 * size[0] * size[1])
        if recipe.attack_norm == "l2" and recipe.attack_eps > widest:
            raise InvalidInput(
                f"attack_eps must not exceed {widest:.3g}, the distance from black to white, got {recipe.attack_eps:g}"
            )

    @property
    def repeats(self) -> int:
        """How many steps are taken on each batch."""
        recipe = self.context.recipe
        return recipe.attack_steps if recipe.adversarial == "free" else 1

    def losses(self, parallel: nn.Module, pixels: Tensor, targets: Tensor, rows: Indices) -> Tensor:
        """Compute the loss of each image (n,) for a training step.

        Args:
            parallel: The network in training mode, with gradients averaged over processes.
            pixels: Images in [0, 1], (n, 3, height, width).
            targets: Their target distributions (n, classes).
            rows: Their numbers in the training set.
        """
        import torch

        recipe, labels = self.context.recipe, targets.argmax(dim=1)
        if recipe.adversarial == "free":
            return cross_entropies(self._logits(parallel, self._free_images(pixels)), targets)
        if recipe.adversarial == "pgd":
            return cross_entropies(self._logits(parallel, self.attack(pixels, labels, rows)), targets)
        if recipe.adversarial == "mart":
            attacked = self.attack(pixels, labels, rows)
        else:
            with _evaluating(self.module), torch.no_grad():
                before = self._logits(self.module, pixels)
            attacked = self.ascend(
                lambda images: kl_divergences(before, self._logits(self.module, images)).sum(), pixels, rows
            )
        logits = self._logits(parallel, torch.cat([pixels, attacked]))
        clean, changed = logits[: len(pixels)], logits[len(pixels) :]
        if recipe.adversarial == "mart":
            return mart_losses(clean, changed, labels, recipe.beta)
        return trades_losses(clean, changed, targets, recipe.beta)

    def attack(self, pixels: Tensor, labels: Tensor, rows: Indices) -> Tensor:
        """Return images attacked by PGD on the cross-entropy."""
        from torch.nn import functional

        def loss(images: Tensor) -> Tensor:
            return functional.cross_entropy(self._logits(self.module, images), labels, reduction="sum")

        return self.ascend(loss, pixels, rows)

    def ascend(self, loss: Callable[[Tensor], Tensor], pixels: Tensor, rows: Indices) -> Tensor:
        """Return images attacked by PGD on any loss, a function from images to a sum over images."""
        recipe = self.context.recipe
        eps, norm, steps = recipe.attack_eps, recipe.attack_norm, recipe.attack_steps
        rngs = [np.random.default_rng((*self.key, _STREAM, int(row))) for row in rows]
        step_size = pgd_settings(eps, steps=steps, step_size=recipe.attack_step_size)["step_size"]
        with _evaluating(self.module):
            start = draw_start(pixels, eps, norm, rngs)
            settings: dict[str, Any] = {"eps": eps, "norm": norm, "steps": steps, "step_size": step_size}
            return ascend(lambda images: input_gradient(loss, images), pixels, start, **settings).detach()

    def after_step(self) -> None:
        """Take a step of free training's attack, along the gradient of the training step."""
        if self.change is None or self.change.grad is None:
            return
        recipe = self.context.recipe
        length = recipe.attack_step_size or recipe.attack_eps
        moved = self.change.detach() + length * steepest(self.change.grad, recipe.attack_norm)
        self.change = project(moved, recipe.attack_eps, recipe.attack_norm)

    def _free_images(self, pixels: Tensor) -> Tensor:
        """Add the change of the last step; it starts at 0 in each epoch and is kept from batch to batch."""
        last = pixels.new_zeros(pixels.shape) if self.change is None else self.change.detach()[: len(pixels)]
        self.change = last.clone().requires_grad_()
        return (pixels + self.change).clamp(0, 1)

    def _logits(self, network: nn.Module, pixels: Tensor) -> Tensor:
        with self.context.autocast():
            logits: Tensor = network(self.context.normalise(pixels))
        return logits.float()


@contextmanager
def _evaluating(module: nn.Module) -> Iterator[None]:
    """Put a network into eval mode for a while; each of its parts then returns to its own mode."""
    training = [part for part in module.modules() if part.training]
    module.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True


def trades_losses(clean: Tensor, attacked: Tensor, targets: Tensor, beta: float) -> Tensor:
    """Compute the loss of TRADES (Zhang et al. 2019): CE(clean, targets) + beta KL(clean || attacked).

    Args:
        clean: Logits of the images (N, classes).
        attacked: Logits of the attacked images (N, classes).
        targets: Target distributions (N, classes).
        beta: Weight of the second term.

    Returns:
        The loss of each image (N,).

    >>> import torch
    >>> logits = torch.tensor([[0.0, 0.0]])
    >>> [round(value, 4) for value in trades_losses(logits, logits, torch.tensor([[1.0, 0.0]]), 6.0).tolist()]
    [0.6931]
    """
    from torch.nn import functional

    return functional.cross_entropy(clean, targets, reduction="none") + beta * kl_divergences(clean, attacked)


def mart_losses(clean: Tensor, attacked: Tensor, labels: Tensor, beta: float) -> Tensor:
    """Compute the loss of MART (Wang et al. 2020, equation 11): BCE(attacked) + beta KL(clean || attacked) (1 - p).

    BCE is -log q(y) - log(1 - max over k != y of q(k)), with q the softmax of the attacked image, and p is the
    probability of the true class y without attack: images that are misclassified count more.

    Args:
        clean: Logits of the images (N, classes).
        attacked: Logits of the attacked images (N, classes).
        labels: True classes (N,).
        beta: Weight of the second term.

    Returns:
        The loss of each image (N,).

    >>> import torch
    >>> logits = torch.tensor([[0.0, 0.0]])
    >>> [round(value, 4) for value in mart_losses(logits, logits, torch.tensor([0]), 5.0).tolist()]
    [1.3863]
    """
    from torch.nn import functional

    true = labels[:, None]
    q = attacked.softmax(dim=1)
    rival = q.scatter(1, true, -1.0).amax(dim=1)
    margin = -(1 - rival).clamp(min=_LEAST).log()
    boosted = functional.cross_entropy(attacked, labels, reduction="none") + margin
    p = clean.softmax(dim=1).gather(1, true)[:, 0]
    return boosted + beta * kl_divergences(clean, attacked) * (1 - p)


def kl_divergences(clean: Tensor, attacked: Tensor) -> Tensor:
    """Compute KL(p || q) of each image (N,), p and q the softmax of the logits without and with attack."""
    p, q = clean.log_softmax(dim=1), attacked.log_softmax(dim=1)
    return (p.exp() * (p - q)).sum(dim=1)

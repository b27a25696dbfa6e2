"""Gradient descent on images: many images at once, each with a loss of its own, the best iterate of each kept.

A step of `normalised` has length `step_size` in pixels (the L2 norm of the image's change), as in Nanda et al. 2021;
`sgd` and `adam` are the usual ones. Pixels stay in [0, 1]. An image that has reached the tolerance leaves the batch, so
its steps are not paid for. torch is imported on use.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

from cosight.arrays import whole_number
from cosight.errors import InvalidInput
from cosight.registry import Registry
from cosight.stimuli.attacks import with_gradients

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["MOST_STEPS", "Descent", "DescentSettings", "Loss", "Optimiser", "descend", "optimisers"]

Loss = Callable[["Tensor", "Tensor"], "Tensor"]
"""(images, their rows in the batch) -> the loss of each image."""

MOST_STEPS = 1_000_000  # more is a slip of the finger
_ADAM = (0.9, 0.999, 1e-8)  # decay of the mean, of the square, and what is added to the root


@dataclass(frozen=True, slots=True)
class Optimiser:
    """A registered optimiser.

    Attributes:
        name: Its name.
        change: `change(gradient, state, step)` returns the direction of a step, to be multiplied by the step size and
            subtracted. `state` is a list of tensors shaped like the images, empty before the first step (number 1).
        step_size: Step size unless the user gives one.
        summary: One sentence.
    """

    name: str
    change: Callable[[Tensor, list[Tensor], int], Tensor]
    step_size: float
    summary: str


optimisers: Registry[Optimiser] = Registry("optimiser", listed=False)


def _normalised(gradient: Tensor, state: list[Tensor], step: int) -> Tensor:
    import torch

    lengths: Tensor = torch.linalg.vector_norm(gradient, dim=(1, 2, 3), keepdim=True)
    return gradient / lengths.where(lengths > 0, 1)


def _adam(gradient: Tensor, state: list[Tensor], step: int) -> Tensor:
    if not state:
        state += [gradient.new_zeros(gradient.shape), gradient.new_zeros(gradient.shape)]
    decay, square_decay, tiny = _ADAM
    mean, square = state
    mean.mul_(decay).add_(gradient, alpha=1 - decay)
    square.mul_(square_decay).addcmul_(gradient, gradient, value=1 - square_decay)
    scale = (square / (1 - square_decay**step)).sqrt_().add_(tiny)
    return mean / (1 - decay**step) / scale


for _entry in (
    Optimiser("normalised", _normalised, 1.0, "Steps of one length, along the gradient of each image."),
    Optimiser("sgd", lambda gradient, state, step: gradient, 1.0, "Plain gradient descent."),
    Optimiser("adam", _adam, 0.01, "Adam (Kingma and Ba 2015)."),
):
    optimisers.add(_entry.name, _entry)


@dataclass(frozen=True, slots=True)
class DescentSettings:
    """How images are optimised.

    Attributes:
        steps: Maximum number of steps.
        step_size: Step size (default: that of the optimiser).
        optimiser: Name of the optimiser.
        tolerance: An image is finished when its loss is this or less; None never stops early.

    Raises:
        InvalidInput: A number is out of range.
        UnknownName: There is no such optimiser.
    """

    steps: int = 5000
    step_size: float | None = None
    optimiser: str = "normalised"
    tolerance: float | None = 0.01

    def __post_init__(self) -> None:
        """Check everything before an image is read."""
        whole_number(self.steps, name="--steps", least=1, most=MOST_STEPS)
        optimisers.name_of(self.optimiser)
        if self.step_size is not None and not (isfinite(self.step_size) and self.step_size > 0):
            raise InvalidInput(f"--step-size must be a positive number, got {self.step_size}; leave it out")
        if self.tolerance is not None and not (isfinite(self.tolerance) and self.tolerance >= 0):
            raise InvalidInput(f"--tolerance must be a number from 0 up, got {self.tolerance}; leave it out")

    @property
    def facts(self) -> dict[str, Any]:
        """The settings as JSON, with the step size filled in."""
        step_size = optimisers[self.optimiser].step_size if self.step_size is None else self.step_size
        return {
            "optimiser": self.optimiser,
            "steps": self.steps,
            "step_size": step_size,
            "tolerance": self.tolerance,
        }


@dataclass(frozen=True, slots=True, eq=False)
class Descent:
    """The result for N images.

    Attributes:
        images: The best iterate of each, (N, channels, height, width).
        loss: Its loss, (N,).
        start: The loss of the start, (N,).
        steps: Number of steps taken, (N,).
    """

    images: Tensor
    loss: Tensor
    start: Tensor
    steps: Tensor


def descend(loss: Loss, starts: Tensor, settings: DescentSettings) -> Descent:
    """Minimise a loss over the pixels of each image.

    Args:
        loss: Computes the loss of each image; it must not depend on the other images of the batch.
        starts: Starting images in [0, 1], (N, channels, height, width).
        settings: Steps, step size, optimiser and tolerance.

    Returns:
        The best iterate of each image, the start included.

    Raises:
        InvalidInput: The loss has no gradient, or a gradient is not finite.

    >>> import torch
    >>> from_grey = lambda images, rows: (images - 0.5).flatten(1).norm(dim=1)
    >>> done = descend(from_grey, torch.zeros(1, 3, 8, 8), DescentSettings(steps=50, step_size=0.5))
    >>> float(done.start[0]) > 6, float(done.loss[0]) < 0.5
    (True, True)
    """
    import torch

    optimiser = optimisers[settings.optimiser]
    step_size: float = settings.facts["step_size"]
    state: list[Tensor] = []
    best = starts.detach().clone()
    rows = torch.arange(len(best), device=best.device)  # of the images that are still optimised
    images = best.clone()
    best_loss, start = (best.new_full((len(best),), float("inf")) for _ in range(2))
    steps = torch.full_like(rows, settings.steps)
    with with_gradients():
        for step in range(settings.steps + 1):
            is_last = step == settings.steps
            images = images.detach().requires_grad_(not is_last)
            losses = loss(images, rows)
            if step == 0:
                start = losses.detach().clone()
            improved = losses.detach() < best_loss[rows]
            best[rows[improved]] = images.detach()[improved]
            best_loss[rows[improved]] = losses.detach()[improved]
            if is_last:
                break
            active = torch.ones_like(improved)
            if settings.tolerance is not None:
                active = losses.detach() > settings.tolerance
            if not active.any():
                steps[rows] = step
                break
            gradient = _gradient(losses, images)
            if not active.all():
                steps[rows[~active]] = step
                rows, gradient, images = rows[active], gradient[active], images[active]
                state = [part[active] for part in state]
            with torch.no_grad():
                images = (images - step_size * optimiser.change(gradient, state, step + 1)).clamp_(0, 1)
    return Descent(best, best_loss, start, steps)


def _gradient(losses: Tensor, images: Tensor) -> Tensor:
    import torch

    gradient = torch.autograd.grad(losses.sum(), images, allow_unused=True)[0] if losses.requires_grad else None
    if gradient is None:
        raise InvalidInput("optimising images needs a gradient, got features cut off from the images; remove no_grad")
    if not bool(gradient.isfinite().all()):
        first = int((~gradient.isfinite().flatten(1).all(1)).nonzero()[0, 0])
        raise InvalidInput(f"gradients must be finite, got nan or infinity for image {first} of the batch")
    return gradient

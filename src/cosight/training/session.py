"""What all networks of a recipe share, and the steps that every epoch is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cosight.errors import InvalidInput
from cosight.files import remove_drafts
from cosight.stimuli.images import Bytes, Floats
from cosight.training.blueprint import Blueprint
from cosight.training.checkpoint import Place, State
from cosight.training.data import Examples, Material, TrainingImages
from cosight.training.distributed import Processes
from cosight.training.recipe import Recipe

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

__all__ = ["Numbers", "Progress", "Session", "adamw", "batches", "channels_first", "descend", "finite", "losses"]

Progress = Callable[[int, int, str], None]
Numbers = NDArray[np.int64]  # of images


@dataclass(frozen=True, slots=True, eq=False)
class Session:
    """A recipe under way: data, network, processes, device."""

    recipe: Recipe
    plan: Blueprint
    data: Material
    pictures: TrainingImages
    group: Processes
    device: str
    pool: ThreadPoolExecutor
    progress: Progress | None

    def photos(self, examples: Examples, numbers: Numbers) -> list[Bytes]:
        """These images, shrunk but not cut."""
        return self.pictures.read([examples.files[i] for i in numbers], self.pool)

    def normalised(self, images: Sequence[Floats]) -> Tensor:
        """Images (3, height, width) in [0, 1] as the network takes them (n, 3, height, width)."""
        import torch

        pixels = torch.from_numpy(np.stack(images)).to(self.device)
        own = self.plan.preprocessing
        mean, std = (pixels.new_tensor(values).reshape(1, -1, 1, 1) for values in (own.mean, own.std))
        return (pixels - mean) / std

    def targets(self, examples: Examples, numbers: Numbers) -> Tensor:
        """What is to be learnt of these images (n, classes)."""
        import torch

        return torch.from_numpy(examples.targets[numbers]).to(self.device)

    def keep(self, place: Place, module: nn.Module, optimiser: Optimizer, state: State) -> None:
        """Write the state, once an epoch has ended."""
        if self.group.first:
            remove_drafts(place.folder)
            place.write_state(module, optimiser, state)
        self.group.wait()

    def say(self, done: int, total: int, place: Place, state: State) -> None:
        """How far the epoch is, and how the last one ended."""
        if self.progress is None or not self.group.first:
            return
        last = state.history[-1] if state.history else None
        loss = "" if last is None else f": loss {last.loss:.3f}"
        right = "" if last is None or last.validation_accuracy is None else f", {last.validation_accuracy:.1%}"
        self.progress(done, total, f"{place.name} {state.epochs + 1}{loss}{right}")


def adamw(module: nn.Module, recipe: Recipe) -> Optimizer:
    """The optimiser of whatever may learn."""
    import torch

    learning = [weight for weight in module.parameters() if weight.requires_grad]
    return torch.optim.AdamW(learning, lr=recipe.rate, weight_decay=recipe.weight_decay, fused=True)


def descend(loss: Tensor, module: nn.Module, optimiser: Optimizer, *, rate: float, clip: float) -> None:
    """One step down the gradient, whose norm is at most `clip`."""
    import torch

    optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(module.parameters(), clip)
    for group in optimiser.param_groups:
        group["lr"] = rate
    optimiser.step()


def losses(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy of each image's target distribution (n, classes) and the softmax of its logits: (n,)."""
    from torch.nn import functional

    return functional.cross_entropy(logits, targets, reduction="none")


def channels_first(image: Bytes) -> Floats:
    """(height, width, 3) of bytes -> float32 (3, height, width) in [0, 1]."""
    return np.multiply(image.transpose(2, 0, 1), np.float32(1 / 255), dtype=np.float32)


def batches(numbers: Numbers, size: int) -> list[Numbers]:
    """The numbers in parts of `size`; the last may be smaller."""
    return [numbers[start : start + size] for start in range(0, len(numbers), size)]


def finite(loss: float, epoch: int) -> float:
    """The loss, if it is a number."""
    if not isfinite(loss):
        raise InvalidInput(f"the loss must stay finite, got {loss} in epoch {epoch}; lower the rate")
    return loss

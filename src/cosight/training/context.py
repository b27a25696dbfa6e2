"""What all networks of a recipe share (`TrainingContext`, `ProcessGroup`), and the steps of every epoch."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cosight.devices import Precision, autocast
from cosight.errors import InvalidInput
from cosight.files import remove_drafts
from cosight.progress import Progress
from cosight.stimuli.images import Bytes, Floats
from cosight.training.checkpoint import CheckpointFiles, TrainingState
from cosight.training.data import Examples, TrainingData, TrainingImages
from cosight.training.networks import NetworkFactory
from cosight.training.recipe import Recipe

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

__all__ = [
    "Indices",
    "ProcessGroup",
    "Progress",
    "TrainingContext",
    "check_loss",
    "cross_entropies",
    "make_optimiser",
    "process_group",
    "split_batches",
    "take_step",
    "to_channels_first",
]

Indices = NDArray[np.int64]  # of images


@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """This process, `rank`, among `world` processes. Each takes its part of every batch; gradients are averaged."""

    rank: int = 0
    world: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and reports progress."""
        return self.rank == 0

    def part_of(self, batch: Indices) -> Indices:
        """Return this process' part of a batch; it may be empty."""
        return batch[self.rank :: self.world]

    def parallel(self, module: nn.Module) -> nn.Module:
        """Return the module with gradients averaged over processes after each backward pass."""
        if self.world == 1:
            return module
        from torch.nn.parallel import DistributedDataParallel

        return DistributedDataParallel(module)

    def sum(self, *values: float) -> tuple[float, ...]:
        """Return the sums of the values over all processes."""
        if self.world == 1:
            return values
        import torch
        import torch.distributed as dist

        sums = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(sums)
        return tuple(sums.tolist())

    def barrier(self) -> None:
        """Wait for all processes."""
        if self.world > 1:
            import torch.distributed as dist

            dist.barrier()


@contextmanager
def process_group() -> Iterator[ProcessGroup]:
    """Join the processes that torchrun started, by its environment variables; without them there is one process."""
    world = _environment_number("WORLD_SIZE", 1)
    if world == 1:
        yield ProcessGroup()
        return
    import torch.distributed as dist

    dist.init_process_group("gloo")
    try:
        yield ProcessGroup(_environment_number("RANK", 0), world)
    finally:
        dist.destroy_process_group()


def _environment_number(name: str, default: int) -> int:
    text = os.environ.get(name, str(default))
    if not text.isdigit():
        raise InvalidInput(f"{name} must be a whole number, as torchrun sets it, got {text!r}; unset it")
    return int(text)


@dataclass(frozen=True, slots=True, eq=False)
class TrainingContext:
    """The recipe with its data, networks, processes, device and precision."""

    recipe: Recipe
    network: NetworkFactory
    data: TrainingData
    images: TrainingImages
    group: ProcessGroup
    device: str
    precision: Precision
    pool: ThreadPoolExecutor
    progress: Progress | None

    def autocast(self) -> AbstractContextManager[Any]:
        """Return the context in which the network computes in the precision."""
        return autocast(self.device, self.precision)

    def read_images(self, examples: Examples, indices: Indices) -> list[Bytes]:
        """Return these images, resized but not cropped."""
        return self.images.read([examples.files[index] for index in indices], self.pool)

    def pixels(self, images: Sequence[Floats]) -> Tensor:
        """Stack images (3, height, width) in [0, 1] on the device (n, 3, height, width)."""
        import torch

        return torch.from_numpy(np.stack(images)).to(self.device)

    def normalise(self, pixels: Tensor) -> Tensor:
        """Return the network's input for pixels in [0, 1]."""
        preprocessing = self.network.preprocessing
        mean, std = (
            pixels.new_tensor(values).reshape(1, -1, 1, 1) for values in (preprocessing.mean, preprocessing.std)
        )
        return (pixels - mean) / std

    def targets(self, examples: Examples, indices: Indices) -> Tensor:
        """Return the target distributions of these images (n, classes)."""
        import torch

        return torch.from_numpy(examples.targets[indices]).to(self.device)

    def observer(self, examples: Examples, indices: Indices) -> tuple[Tensor, Tensor]:
        """Return the target observer's distributions (n, classes) and the true classes (n,) of these images."""
        import torch

        if examples.observer is None or examples.truth is None:
            raise InvalidInput("an alignment loss needs examples with a target observer")
        observer, truth = torch.from_numpy(examples.observer[indices]), torch.from_numpy(examples.truth[indices])
        return observer.to(self.device), truth.to(self.device)

    def save_state(self, files: CheckpointFiles, module: nn.Module, optimiser: Optimizer, state: TrainingState) -> None:
        """Write the state after an epoch."""
        if self.group.is_first:
            remove_drafts(files.folder)
            files.write_state(module, optimiser, state)
        self.group.barrier()

    def report(self, done: int, total: int, files: CheckpointFiles, state: TrainingState) -> None:
        """Report the batches done in this epoch, and the result of the last one."""
        if self.progress is None or not self.group.is_first:
            return
        text = f"{files.name} {state.epochs + 1}"
        if state.history:
            last = state.history[-1]
            text += f": loss {last.loss:.3f}"
            text += "" if last.validation_accuracy is None else f", {last.validation_accuracy:.1%}"
        self.progress(done, total, text)


def make_optimiser(module: nn.Module, recipe: Recipe) -> Optimizer:
    """Return the recipe's optimiser for the weights that are not frozen."""
    import torch

    weights = [weight for weight in module.parameters() if weight.requires_grad]
    if recipe.optimiser == "sgd":
        return torch.optim.SGD(weights, lr=recipe.rate, momentum=recipe.momentum, weight_decay=recipe.weight_decay)
    return torch.optim.AdamW(weights, lr=recipe.rate, weight_decay=recipe.weight_decay, fused=True)


def take_step(loss: Tensor, module: nn.Module, optimiser: Optimizer, *, rate: float, clip: float) -> None:
    """Take one step along the gradient, whose norm is clipped to `clip`."""
    import torch

    optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(module.parameters(), clip)
    for group in optimiser.param_groups:
        group["lr"] = rate
    optimiser.step()


def cross_entropies(logits: Tensor, targets: Tensor) -> Tensor:
    """Compute the cross-entropy (n,) of each image's target distribution (n, classes) and the softmax of its logits."""
    from torch.nn import functional

    return functional.cross_entropy(logits, targets, reduction="none")


def to_channels_first(image: Bytes) -> Floats:
    """Turn bytes (height, width, 3) into float32 (3, height, width) in [0, 1]."""
    return np.multiply(image.transpose(2, 0, 1), np.float32(1 / 255), dtype=np.float32)


def split_batches(indices: Indices, size: int) -> list[Indices]:
    """Split indices into batches of `size`; the last may be smaller."""
    return [indices[start : start + size] for start in range(0, len(indices), size)]


def check_loss(loss: float, epoch: int) -> float:
    """Return the loss if it is finite; raise otherwise."""
    if not isfinite(loss):
        raise InvalidInput(f"the loss must stay finite, got {loss} in epoch {epoch}; lower the rate")
    return loss

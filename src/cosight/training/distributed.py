"""Training by several processes that torchrun starts: each takes its share of every batch, gradients are averaged."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cosight.errors import InvalidInput

if TYPE_CHECKING:
    from torch import nn

__all__ = ["Processes", "processes"]


@dataclass(frozen=True, slots=True)
class Processes:
    """This process among `world` of them."""

    rank: int = 0
    world: int = 1

    @property
    def first(self) -> bool:
        """Whether it is this one that writes files and says how far training is."""
        return self.rank == 0

    def share(self, batch: NDArray[np.int64]) -> NDArray[np.int64]:
        """This process' part of a batch; it may be empty."""
        return batch[self.rank :: self.world]

    def joined(self, module: nn.Module) -> nn.Module:
        """The module, with its gradients averaged over processes after each backward pass."""
        if self.world == 1:
            return module
        from torch.nn.parallel import DistributedDataParallel

        return DistributedDataParallel(module)

    def total(self, *values: float) -> tuple[float, ...]:
        """Sums over processes."""
        if self.world == 1:
            return values
        import torch
        import torch.distributed as dist

        sums = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(sums)
        return tuple(sums.tolist())

    def wait(self) -> None:
        """Go on when every process is here."""
        if self.world > 1:
            import torch.distributed as dist

            dist.barrier()


@contextmanager
def processes() -> Iterator[Processes]:
    """The processes that torchrun started, by its environment variables; one where there are none."""
    world = _number("WORLD_SIZE", 1)
    if world == 1:
        yield Processes()
        return
    import torch.distributed as dist

    dist.init_process_group("gloo")
    try:
        yield Processes(_number("RANK", 0), world)
    finally:
        dist.destroy_process_group()


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, str(default))
    if not text.isdigit():
        raise InvalidInput(f"{name} must be a whole number, as torchrun sets it, got {text!r}; unset it")
    return int(text)

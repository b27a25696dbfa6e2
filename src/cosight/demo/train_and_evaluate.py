"""Networks trained and asked in processes side by side, an architecture's five seeds and their ensemble in one run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cosight.models.abstention import abstentions
from cosight.models.model_spec import ensemble_of
from cosight.processes import worker_pool
from cosight.runs.evaluate import evaluate
from cosight.training import Recipe, train

__all__ = ["ARCHITECTURES", "Networks", "trained_and_asked"]

Progress = Callable[[int, int, str], None]

# The five of Lee et al. 2023, small; the slowest first, so that the processes end together. Digits have a right way
# round. Rates and epochs: tried on handwritten digits (docs/training.md).
ARCHITECTURES: Mapping[str, Mapping[str, Any]] = {
    "swin-small": {"rate": 2e-3, "epochs": 8},
    "densenet-small": {"rate": 2e-3, "epochs": 8},
    "convnext-small": {"rate": 2e-3, "epochs": 8},
    "vit-small": {"rate": 1e-3, "epochs": 10},
    "mixer-small": {"rate": 2e-3, "epochs": 8},
}
_BATCH = 128  # images of 32 x 32 at a time: for such small networks a call costs more than its arithmetic


@dataclass(frozen=True, slots=True)
class Networks:
    """Which networks are trained, on what, and where everything is kept."""

    stimuli: Path
    out: Path
    architectures: tuple[str, ...]
    seeds: tuple[int, ...]
    epochs: int | None = None  # None: each architecture's own

    def recipe(self, architecture: str, seed: int) -> Recipe:
        """How one network is trained."""
        how = {**ARCHITECTURES[architecture], "batch": 32, "flip": False, "padding": 2}
        if self.epochs is not None:
            how["epochs"] = self.epochs
        return Recipe(data=str(self.stimuli), architecture=architecture, seeds=(seed,), stop=how["epochs"], **how)

    def run(self, architecture: str) -> Path:
        """Where the answers of an architecture's networks are."""
        return self.out / "runs" / architecture


def trained_and_asked(networks: Networks, *, processes: int, progress: Progress | None = None) -> list[Path]:
    """Train every network and ask it; the runs, an architecture each. What is there already is not done again.

    The result does not depend on how many processes there are: each has one thread.
    """
    total = len(networks.architectures) * (len(networks.seeds) + 1)
    with worker_pool(processes, initializer=_one_torch_thread, one_thread=True) as pool:
        for done, what in enumerate(_done(pool, networks)):
            if progress:
                progress(done + 1, total, what)
    return [networks.run(architecture) for architecture in networks.architectures]


def _one_torch_thread() -> None:
    import torch

    torch.set_num_threads(1)


def _done(pool: ProcessPoolExecutor, networks: Networks) -> Iterator[str]:
    """What has been done, as it is: an architecture is asked once all its seeds are trained."""
    lines: dict[str, dict[int, str]] = {architecture: {} for architecture in networks.architectures}
    waiting: dict[Future[Any], tuple[str, int | None]] = {
        pool.submit(_train, networks, architecture, seed): (architecture, seed)
        for architecture in networks.architectures
        for seed in networks.seeds
    }
    while waiting:
        for future in wait(waiting, return_when=FIRST_COMPLETED).done:
            architecture, seed = waiting.pop(future)
            given = future.result()
            if seed is None:
                yield f"{architecture} asked"
                continue
            lines[architecture][seed] = given
            if len(lines[architecture]) == len(networks.seeds):
                members = [lines[architecture][each] for each in networks.seeds]
                waiting[pool.submit(_ask, networks, architecture, members)] = (architecture, None)
            yield f"{architecture} trained, seed {seed}"


def _train(networks: Networks, architecture: str, seed: int) -> str:
    """The line that names the trained network."""
    return train(networks.recipe(architecture, seed), out=networks.out / "networks")[0].line


def _ask(networks: Networks, architecture: str, members: Sequence[str]) -> None:
    together = [str(ensemble_of(members))] if len(members) > 1 else []
    out, functions = networks.run(architecture), list(abstentions)
    evaluate(*members, *together, on=networks.stimuli, out=out, abstain=functions, threads=1, batch=_BATCH)

"""Checkpoints of training: finished networks, and the state of unfinished ones.

`OUT/NAME@45.safetensors` is a finished network: the weights of its best epoch, with architecture, classes,
preprocessing, recipe, seed and history as JSON in its metadata. Until it is finished,
`OUT/NAME@45.training/state.safetensors` has the current and the best weights, the optimiser's moments, the schedule and
the history; it is replaced after each epoch. Nothing is pickled.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from math import cos, inf, pi
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cosight.errors import InvalidInput
from cosight.files import atomic_write
from cosight.models.architectures import METADATA, checkpoint_facts
from cosight.training.recipe import Recipe

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

__all__ = ["CheckpointFiles", "Epoch", "Schedule", "TrainingState"]

Tensors = dict[str, "Tensor"]

_RISING, _START = 0.3, 25  # of "one-cycle": the fraction of training in which the rate rises, and its first divisor
_STATE = "state.safetensors"
_WEIGHTS, _BEST, _MOMENTS = "weights/", "best/", "moments/"


@dataclass(frozen=True, slots=True)
class Epoch:
    """One pass over the training images.

    Args:
        phase: "ssl" for SimCLR or BYOL, "train" otherwise.
        epoch: Number in its phase, from 0.
        rate: Learning rate.
        loss: Mean training loss.
        validation_loss: Mean validation loss; None in phase "ssl".
        validation_accuracy: Validation accuracy; None in phase "ssl".
        robust_accuracy: The same under the attack of adversarial training; None without it.
    """

    phase: str
    epoch: int
    rate: float
    loss: float
    validation_loss: float | None = None
    validation_accuracy: float | None = None
    robust_accuracy: float | None = None


@dataclass(frozen=True, slots=True)
class Schedule:
    """Learning rate of the next epoch, the best epochs so far, and how many epochs ago they were.

    The rate depends on the validation loss, the end on the validation accuracy, as in the released code of Lee et al.
    2023; "no improvement for 10 epochs" means ten in a row that are no better than the best one before them.
    """

    rate: float
    least_loss: float = inf
    loss_waits: int = 0  # epochs since the loss or the rate fell
    best_accuracy: float = -inf
    best_epoch: int = -1
    accuracy_waits: int = 0

    def after(self, epoch: int, *, loss: float, accuracy: float, recipe: Recipe) -> Schedule:
        """Return the schedule after `epoch` ended with this validation loss and accuracy."""
        lower, higher = loss < self.least_loss, accuracy > self.best_accuracy
        waits = 0 if lower else self.loss_waits + 1
        falls = recipe.schedule == "plateau" and waits >= recipe.patience
        return replace(
            self,
            rate=max(self.rate * recipe.factor, recipe.least_rate) if falls else self.rate,
            least_loss=min(loss, self.least_loss),
            loss_waits=0 if falls else waits,
            best_accuracy=max(accuracy, self.best_accuracy),
            best_epoch=epoch if higher else self.best_epoch,
            accuracy_waits=0 if higher else self.accuracy_waits + 1,
        )

    def ends(self, epochs: int, recipe: Recipe) -> bool:
        """Return whether training ends after `epochs` epochs."""
        waited = recipe.schedule == "plateau" and self.accuracy_waits >= recipe.stop
        reached = recipe.stop_at is not None and self.best_accuracy >= recipe.stop_at
        return epochs >= recipe.epochs or waited or reached

    def rate_at(self, epochs: float, recipe: Recipe) -> float:
        """Return the learning rate after this number of epochs, which may be a fraction."""
        if recipe.schedule == "steps":
            return recipe.rate * recipe.factor ** (int(epochs) // recipe.patience)
        if recipe.schedule == "plateau":
            return self.rate
        done = epochs / recipe.epochs
        rising = done < _RISING
        start, end = (recipe.rate / _START, recipe.rate) if rising else (recipe.rate, 0.0)
        part = done / _RISING if rising else (done - _RISING) / (1 - _RISING)
        return end + (start - end) * (1 + cos(pi * part)) / 2

    @property
    def facts(self) -> dict[str, Any]:
        """The schedule for JSON, with None for infinities."""
        return {key: None if value in (inf, -inf) else value for key, value in asdict(self).items()}

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> Schedule:
        """Return the schedule of these `facts`."""
        return cls(**{key: value for key, value in facts.items() if value is not None})


@dataclass(slots=True, eq=False)
class TrainingState:
    """State of training: the phase ("ssl" or "train"), the schedule, the epochs so far, the best weights."""

    phase: str
    schedule: Schedule
    history: list[Epoch] = field(default_factory=list)
    best: Tensors = field(default_factory=dict)

    @property
    def epochs(self) -> int:
        """Number of finished epochs of this phase."""
        return sum(epoch.phase == self.phase for epoch in self.history)

    @property
    def facts(self) -> dict[str, Any]:
        """Everything except the weights, for JSON."""
        history = [asdict(epoch) for epoch in self.history]
        return {"phase": self.phase, "schedule": self.schedule.facts, "history": history}


@dataclass(frozen=True, slots=True)
class CheckpointFiles:
    """The files of one network. Only a network of the same `identity` is resumed."""

    out: Path
    name: str  # NAME@SEED
    identity: Mapping[str, Any]

    @property
    def path(self) -> Path:
        """The finished network."""
        return self.out / f"{self.name}.safetensors"

    @property
    def folder(self) -> Path:
        """Folder of the state, until the network is finished."""
        return self.out / f"{self.name}.training"

    def read_finished(self) -> dict[str, Any] | None:
        """Return the metadata of the finished network, or None if there is none."""
        return self._read_facts(self.path) if self.path.exists() else None

    def write_state(self, module: nn.Module, optimiser: Optimizer, state: TrainingState) -> None:
        """Write everything that the next epoch needs."""
        moments = optimiser.state_dict()["state"]  # Adam's running means by parameter: `3/exp_avg` and so on
        tensors = {
            **{_WEIGHTS + name: value for name, value in module.state_dict().items()},
            **{_BEST + name: value for name, value in state.best.items()},
            **{f"{_MOMENTS}{index}/{key}": v for index, values in moments.items() for key, v in values.items()},
        }
        with atomic_write(self.folder / _STATE) as draft:
            _save(draft, tensors, {**self.identity, "state": state.facts})

    def read_state(self) -> TrainingState | None:
        """Return the state after the last finished epoch, or None if there is none."""
        path = self.folder / _STATE
        if not path.exists():
            return None
        facts = self._read_facts(path)["state"]
        history = [Epoch(**epoch) for epoch in facts["history"]]
        return TrainingState(facts["phase"], Schedule.from_facts(facts["schedule"]), history, _load(path, _BEST))

    def restore(self, module: nn.Module, optimiser: Optimizer) -> None:
        """Load the weights and moments of the state."""
        path = self.folder / _STATE
        module.load_state_dict(_load(path, _WEIGHTS))
        moments: dict[int, Tensors] = {}
        for name, value in _load(path, _MOMENTS).items():
            index, key = name.split("/")
            moments.setdefault(int(index), {})[key] = value
        optimiser.load_state_dict({**optimiser.state_dict(), "state": moments})

    def write_finished(self, state: TrainingState, facts: Mapping[str, Any]) -> None:
        """Write the best weights, then remove the state."""
        best = next(e for e in state.history if (e.phase, e.epoch) == (state.phase, state.schedule.best_epoch))
        metadata = {
            **self.identity,
            **facts,
            "history": [asdict(epoch) for epoch in state.history],
            "best_epoch": state.schedule.best_epoch,
            "validation_accuracy": best.validation_accuracy,
            "robust_accuracy": best.robust_accuracy,
        }
        finished = self.folder / self.path.name  # in the folder, so that an incomplete draft is removed with it
        with atomic_write(finished, durable=True) as draft:
            _save(draft, state.best, metadata)
        finished.replace(self.path)
        self.remove_state()

    def remove_state(self) -> None:
        """Remove the state, and any draft that a killed process left."""
        if self.folder.is_dir():
            shutil.rmtree(self.folder)

    def _read_facts(self, path: Path) -> dict[str, Any]:
        """Return the metadata of a file; raise if it belongs to a network of another identity."""
        facts = {"precision": "float32", **checkpoint_facts(path)}  # early files have none, and could have no other
        for key, expected in self.identity.items():
            stored = facts.get(key)
            if stored == expected:
                continue
            if isinstance(stored, dict) and isinstance(expected, dict):
                key = next(name for name in {**stored, **expected} if stored.get(name) != expected.get(name))
                stored, expected = stored.get(key), expected.get(key)
            raise InvalidInput(
                f"cannot resume {path}: it was trained with {key} {stored!r}, got {expected!r}; choose another folder "
                "with --out, or remove the file"
            )
        return facts


def _save(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    from safetensors.torch import save_file

    contiguous = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    save_file(contiguous, path, metadata={METADATA: json.dumps(facts, sort_keys=True, ensure_ascii=False)})


def _load(path: Path, prefix: str) -> Tensors:
    """Return the tensors whose names start with `prefix`, without it."""
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        return {name.removeprefix(prefix): file.get_tensor(name) for name in file.keys() if name.startswith(prefix)}  # noqa: SIM118

"""What training leaves behind: weights with everything said of them, and its state while it is under way.

`OUT/NAME@45.safetensors` is a finished network: the weights of its best epoch, and in the metadata (JSON) architecture,
classes, preprocessing, recipe, seed, history. Until then `OUT/NAME@45.training/state.safetensors` has the weights, the
best ones, the optimiser's moments and where training is, written whole after each epoch. No pickle anywhere.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cosight.errors import InvalidInput
from cosight.files import atomic_write
from cosight.models.architectures import METADATA, checkpoint_facts
from cosight.training.schedule import Epoch, Schedule

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

__all__ = ["Place", "State"]

Tensors = dict[str, "Tensor"]

_STATE = "state.safetensors"
_WEIGHTS, _BEST, _MOMENTS = "weights/", "best/", "moments/"


@dataclass(slots=True, eq=False)
class State:
    """Where training is: the phase ("ssl" or "train"), what it has gone through, its best weights."""

    phase: str
    schedule: Schedule
    history: list[Epoch] = field(default_factory=list)
    best: Tensors = field(default_factory=dict)

    @property
    def epochs(self) -> int:
        """Epochs of this phase that have ended."""
        return sum(epoch.phase == self.phase for epoch in self.history)

    @property
    def facts(self) -> dict[str, Any]:
        """All but the weights."""
        history = [asdict(epoch) for epoch in self.history]
        return {"phase": self.phase, "schedule": self.schedule.facts, "history": history}


@dataclass(frozen=True, slots=True)
class Place:
    """Where one network's files are. `identity` is what must be the same to resume them."""

    out: Path
    name: str  # NAME@SEED
    identity: Mapping[str, Any]

    @property
    def path(self) -> Path:
        """The finished network."""
        return self.out / f"{self.name}.safetensors"

    @property
    def folder(self) -> Path:
        """Where the state of training is, until the network is finished."""
        return self.out / f"{self.name}.training"

    def finished(self) -> dict[str, Any] | None:
        """What the finished network says of itself, or None where there is none."""
        if not self.path.exists():
            return None
        facts = checkpoint_facts(self.path)
        self._check_same(facts, self.path)
        return facts

    def write_state(self, module: nn.Module, optimiser: Optimizer, state: State) -> None:
        """Keep everything that the next epoch needs."""
        tensors = {
            **{_WEIGHTS + name: value for name, value in module.state_dict().items()},
            **{_BEST + name: value for name, value in state.best.items()},
            **{_MOMENTS + name: value for name, value in _moments(optimiser).items()},
        }
        with atomic_write(self.folder / _STATE) as draft:
            _save(draft, tensors, {**self.identity, "state": state.facts})

    def read_state(self) -> State | None:
        """Where training was when it stopped, or None where it has not begun."""
        path = self.folder / _STATE
        if not path.exists():
            return None
        facts = checkpoint_facts(path)
        self._check_same(facts, path)
        found = facts["state"]
        history = [Epoch(**epoch) for epoch in found["history"]]
        best = _part(path, _BEST)
        return State(found["phase"], Schedule.of(found["schedule"]), history, best)

    def restore(self, module: nn.Module, optimiser: Optimizer) -> None:
        """Put the weights and moments of `read_state` back."""
        path = self.folder / _STATE
        module.load_state_dict(_part(path, _WEIGHTS))
        _put_moments(optimiser, _part(path, _MOMENTS))

    def write_finished(self, state: State, facts: Mapping[str, Any]) -> None:
        """Write the best weights, then remove the state."""
        history = [asdict(epoch) for epoch in state.history]
        ready = self.folder / self.path.name  # an unfinished draft stays where it is removed
        with atomic_write(ready, durable=True) as draft:
            _save(draft, state.best, {**self.identity, **facts, "history": history, **_summary(state)})
        ready.replace(self.path)
        self.clear()

    def clear(self) -> None:
        """Remove what is left of training: the state, and whatever a process was writing when it was killed."""
        if self.folder.is_dir():
            shutil.rmtree(self.folder)

    def _check_same(self, facts: Mapping[str, Any], path: Path) -> None:
        other = [key for key, value in self.identity.items() if facts.get(key) != value]
        if not other:
            return
        key = other[0]
        had, has = facts.get(key), self.identity[key]
        if isinstance(had, dict) and isinstance(has, dict):
            key = next(name for name in {**had, **has} if had.get(name) != has.get(name))
            had, has = had.get(key), has.get(key)
        raise InvalidInput(
            f"a folder goes on with what it holds, {path} was trained with {key} {had!r}, got {has!r}; name another "
            "folder with --out, or remove it"
        )


def _summary(state: State) -> dict[str, Any]:
    schedule = state.schedule
    return {"best_epoch": schedule.best_epoch, "validation_accuracy": schedule.best_accuracy}


def _save(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    from safetensors.torch import save_file

    ready = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    save_file(ready, path, metadata={METADATA: json.dumps(facts, sort_keys=True, ensure_ascii=False)})


def _part(path: Path, prefix: str) -> Tensors:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        return {name.removeprefix(prefix): file.get_tensor(name) for name in file.keys() if name.startswith(prefix)}  # noqa: SIM118


def _moments(optimiser: Optimizer) -> Tensors:
    """Adam's running means by parameter: `3/exp_avg` and so on."""
    state = optimiser.state_dict()["state"]
    return {f"{index}/{key}": value for index, values in state.items() for key, value in values.items()}


def _put_moments(optimiser: Optimizer, moments: Tensors) -> None:
    state: dict[int, Tensors] = {}
    for name, value in moments.items():
        index, key = name.split("/")
        state.setdefault(int(index), {})[key] = value
    optimiser.load_state_dict({**optimiser.state_dict(), "state": state})

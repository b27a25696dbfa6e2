"""When the learning rate falls and when training ends: a value that follows from the epochs so far."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from math import inf
from typing import Any

from cosight.training.recipe import Recipe

__all__ = ["Epoch", "Schedule"]


@dataclass(frozen=True, slots=True)
class Epoch:
    """One pass over the training images. A pass of SimCLR or BYOL has no validation (None)."""

    phase: str  # "ssl" or "train"
    epoch: int  # from 0, in its phase
    rate: float
    loss: float
    validation_loss: float | None = None
    validation_accuracy: float | None = None


@dataclass(frozen=True, slots=True)
class Schedule:
    """The rate of the next epoch, the best epochs so far, and how many epochs ago they were.

    The rate follows the validation loss and the end the validation accuracy, as in the released code of Lee et al.
    2023; "no improvement for 10 epochs" means ten in a row that are no better than the best one before them.
    """

    rate: float
    least_loss: float = inf
    loss_waits: int = 0  # epochs since the loss fell, or since the rate did
    best_accuracy: float = -inf
    best_epoch: int = -1
    accuracy_waits: int = 0

    def after(self, epoch: int, *, loss: float, accuracy: float, recipe: Recipe) -> Schedule:
        """The schedule once `epoch` has ended so."""
        lower, higher = loss < self.least_loss, accuracy > self.best_accuracy
        waits = 0 if lower else self.loss_waits + 1
        falls = waits >= recipe.patience
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
        """Whether no epoch follows these `epochs`."""
        return epochs >= recipe.epochs or self.accuracy_waits >= recipe.stop

    @property
    def facts(self) -> dict[str, Any]:
        """As JSON has it: no infinities."""
        return {key: None if value in (inf, -inf) else value for key, value in asdict(self).items()}

    @classmethod
    def of(cls, facts: dict[str, Any]) -> Schedule:
        """The inverse of `facts`."""
        return cls(**{key: value for key, value in facts.items() if value is not None})

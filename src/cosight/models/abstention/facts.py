"""What every abstention function declares about itself, and the registry that holds the declarations."""

from __future__ import annotations

from dataclasses import asdict, dataclass, is_dataclass
from typing import Any, Literal, Protocol

from numpy.typing import ArrayLike

from cosight.arrays import FloatArray
from cosight.registry import Registry

__all__ = ["Abstention", "AbstentionFunction", "FittedAbstention", "Need", "Released", "abstentions"]

Need = Literal[
    "logits",  # (n, classes), of the images to be judged; and of the training images, where labels are needed too
    "features",  # (n, dimensions), of the training images and of those to be judged
    "labels",  # (n,), the training images' classes, counted from 0
    "members",  # logits of several networks, (members, n, classes)
    "model",  # a torch model: `function.logits(model, batch)` gives the logits that `strangeness` takes
]
Released = Literal["entropy", "squared distance"]


class FittedAbstention(Protocol):
    """What knows the training images, as far as it has to."""

    def strangeness(self, features: ArrayLike | None, logits: ArrayLike | None) -> FloatArray:
        """Strangeness (n,) of each image, higher = stranger; what is not needed may be None."""
        ...


class AbstentionFunction(Protocol):
    """Settings, which can be fitted to the training images."""

    def fit(self, features: ArrayLike | None, logits: ArrayLike | None, labels: ArrayLike | None) -> FittedAbstention:
        """Learn from training images; what is not needed may be None."""
        ...


@dataclass(frozen=True, slots=True)
class Abstention:
    """Facts about one abstention function; `function` has the default settings."""

    name: str
    summary: str
    function: AbstentionFunction
    needs: tuple[Need, ...]
    citation: str
    released: Released | None = None  # the score VisAlign's released code scales; None: not to be had from strangeness
    aliases: tuple[str, ...] = ()

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of `function`, for the record."""
        return asdict(self.function) if is_dataclass(self.function) else {}


abstentions: Registry[Abstention] = Registry("abstention")

"""The interface of abstention functions: protocols, declared facts, input checks, calibration.

An abstention function is a dataclass of settings. `fit(features, logits, labels)` of the training images returns an
object with `strangeness(features, logits)`, higher = stranger. `MinMax` maps strangeness to abstention in [0, 1].
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, is_dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike

from cosight.arrays import FloatArray, IntArray, finite
from cosight.errors import InvalidInput
from cosight.registry import Registry

__all__ = [
    "Abstention",
    "AbstentionFunction",
    "FittedAbstention",
    "MinMax",
    "Need",
    "Released",
    "abstentions",
    "as_released",
    "check_features",
    "check_labels",
    "check_logits",
    "check_members",
]

Need = Literal[
    "logits",  # (n, classes) of the test images; also of the training images if labels are needed
    "features",  # (n, dimensions) of the training and test images
    "labels",  # (n,) classes of the training images, counted from 0
    "members",  # logits of several networks, (members, n, classes)
    "model",  # a torch model: `function.logits(model, batch)` returns the logits that `strangeness` takes
]
Released = Literal["entropy", "squared distance"]


class FittedAbstention(Protocol):
    """An abstention function fitted to training images."""

    def strangeness(self, features: ArrayLike | None, logits: ArrayLike | None) -> FloatArray:
        """Return the strangeness (n,) of each image, higher = stranger; inputs that are not needed may be None."""
        ...


class AbstentionFunction(Protocol):
    """Settings of an abstention function."""

    def fit(self, features: ArrayLike | None, logits: ArrayLike | None, labels: ArrayLike | None) -> FittedAbstention:
        """Fit to the training images; inputs that are not needed may be None."""
        ...


@dataclass(frozen=True, slots=True)
class Abstention:
    """Registry entry of one abstention function.

    Args:
        name: Name in the registry.
        summary: One sentence, with a full stop.
        function: The function with its default settings.
        needs: Inputs that `fit` and `strangeness` need.
        citation: Where it was published.
        released: Score that VisAlign's released code scales; None if it cannot be computed from strangeness.
        aliases: Other names.
    """

    name: str
    summary: str
    function: AbstentionFunction
    needs: tuple[Need, ...]
    citation: str
    released: Released | None = None
    aliases: tuple[str, ...] = ()

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of `function`, for run records."""
        return asdict(self.function) if is_dataclass(self.function) else {}


abstentions: Registry[Abstention] = Registry("abstention")  # filled by cosight.models.abstention.registry


def check_features(features: ArrayLike | None, *, who: str, dimensions: int | None = None) -> FloatArray:
    """Return features (n, dimensions) as float64, or raise with `who`, the name of the abstention function."""
    if features is None:
        raise InvalidInput(f"{who} needs features, got none; load the model with features=True")
    table = finite(features, name="features", ndim=2)
    if table.shape[1] == 0 or dimensions not in (None, table.shape[1]):
        wanted = "at least one dimension" if dimensions is None else f"the {dimensions} dimensions it was fitted to"
        raise InvalidInput(f"{who} needs features with {wanted}, got shape {table.shape}; take them from one layer")
    return table


def check_logits(logits: ArrayLike | None, *, who: str, classes: int | None = None) -> FloatArray:
    """Return logits (n, classes) as float64."""
    if logits is None:
        raise InvalidInput(f"{who} needs logits, got none; take them from the model's answers")
    table = finite(logits, name="logits", ndim=2)
    _check_class_count(table, who, classes)
    return table


def check_members(logits: ArrayLike | None, *, who: str) -> FloatArray:
    """Return logits (members, n, classes) of several networks or passes as float64."""
    if logits is None:
        raise InvalidInput(f"{who} needs logits of each member, got none; stack their answers")
    table = finite(logits, name="logits of members", ndim=3)
    if not len(table):
        raise InvalidInput(f"{who} needs at least one member, got none")
    _check_class_count(table, who, None)
    return table


def _check_class_count(table: FloatArray, who: str, classes: int | None) -> None:
    if table.shape[-1] < 2 or classes not in (None, table.shape[-1]):
        wanted = "two or more classes" if classes is None else f"the {classes} classes it was fitted to"
        raise InvalidInput(f"{who} needs logits of {wanted}, got shape {table.shape}")


def check_labels(labels: ArrayLike | None, *, rows: int, classes: int, who: str, least: int) -> IntArray:
    """Return the training images' classes (rows,), each from 0 to `classes` - 1 and on at least `least` rows."""
    if labels is None:
        raise InvalidInput(f"{who} needs the labels of its training images, got none")
    truth = np.asarray(labels)
    if truth.shape != (rows,) or not np.issubdtype(truth.dtype, np.integer):
        raise InvalidInput(f"{who} needs {rows} integer labels, got {truth.dtype} of shape {truth.shape}")
    if truth.size == 0 or truth.min() < 0 or truth.max() >= classes:
        got = f"{truth.min()} to {truth.max()}" if truth.size else "none"
        raise InvalidInput(f"labels for {who} must be class numbers from 0 to {classes - 1}, got {got}")
    counts = np.bincount(truth.astype(np.int64), minlength=classes)
    if counts.min() < least:
        rarest = int(counts.argmin())
        raise InvalidInput(
            f"{who} needs at least {least} training images per class, got {counts[rarest]} of class {rarest}; "
            "add images or leave the class out"
        )
    return truth.astype(np.int64)


@dataclass(frozen=True, slots=True)
class MinMax:
    """Linear map from strangeness to abstention in [0, 1], fitted to a calibration split.

    Abstention is 0 up to `low`, 1 from `high`, linear between. If all calibration images are equally strange (`low`
    equals `high`), it is 0 up to that value and 1 above it. Source: Lee et al. 2023, section 5.1.

    Args:
        low: Strangeness at which abstention starts to rise.
        high: Strangeness at which abstention reaches 1.

    Raises:
        InvalidInput: `low` exceeds `high`, or one of them is not finite.

    >>> MinMax.fit([2.0, 4.0, 3.0]).abstention([1.0, 2.5, 9.0])
    array([0.  , 0.25, 1.  ])
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        if not -np.inf < self.low <= self.high < np.inf:
            raise InvalidInput(f"low must be at most high, both finite, got {self.low} and {self.high}")

    @classmethod
    def fit(cls, strangeness: ArrayLike) -> MinMax:
        """Return the map from the least to the greatest strangeness (n,) of the calibration images."""
        values = finite(strangeness, name="strangeness", ndim=1)
        if not values.size:
            raise InvalidInput("calibration needs at least one image, got none; add a calibration split")
        return cls(float(values.min()), float(values.max()))

    def abstention(self, strangeness: ArrayLike) -> FloatArray:
        """Return the abstention (n,) in [0, 1] of images of this strangeness (n,)."""
        values = finite(strangeness, name="strangeness", ndim=1)
        if self.low == self.high:
            return (values > self.high).astype(np.float64)
        scaled: FloatArray = (np.clip(values, self.low, self.high) - self.low) / (self.high - self.low)
        return scaled


def as_released(strangeness: ArrayLike, *, name: str) -> FloatArray:
    """Compute abstention as VisAlign's released code does, for comparison only.

    The released code scales over the test images themselves. Entropies (sp, asp, mc-dropout, deep-ensemble) are
    inverted, so the most certain image abstains most. Distances (md, knn) are squared. TAPUDD is averaged and indexed
    differently there, and OpenMax is missing: both are refused.

    Args:
        strangeness: Strangeness (n,) of the test images.
        name: Name or alias of the abstention function.

    Returns:
        Abstention (n,) in [0, 1].

    Raises:
        InvalidInput: The released code has no such function, or all images are equally strange.

    >>> as_released([0.0, 1.0, 2.0], name="sp"), as_released([0.0, 1.0, 2.0], name="knn")
    (array([1. , 0.5, 0. ]), array([0.  , 0.25, 1.  ]))
    """
    entry = abstentions[name]
    if entry.released is None:
        known = ", ".join(key for key in abstentions if abstentions[key].released)
        raise InvalidInput(f"the released arithmetic is available for {known}, got {entry.name}")
    values = finite(strangeness, name="strangeness", ndim=1)
    if values.size < 2 or values.min() == values.max():
        raise InvalidInput("the released arithmetic divides by the range of strangeness, got one value; use MinMax")
    if entry.released == "entropy":
        return 1 - MinMax.fit(values).abstention(values)
    return MinMax.fit(values**2).abstention(values**2)

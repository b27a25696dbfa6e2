"""From strangeness to abstention: one monotone map, fitted to a calibration split of its own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cosight.arrays import FloatArray, finite
from cosight.errors import InvalidInput
from cosight.models.abstention.entries import abstentions

__all__ = ["MinMax", "as_released"]


@dataclass(frozen=True, slots=True)
class MinMax:
    """Abstention in [0, 1]: 0 up to `low`, 1 from `high`, a straight line between.

    Where all calibration images are equally strange (`low` is `high`), abstention is 0 up to that and 1 above it.
    Source: Lee et al. 2023, section 5.1.

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
        """The map whose ends are the least and the greatest strangeness (n,) of the calibration images."""
        values = finite(strangeness, name="strangeness", ndim=1)
        if not values.size:
            raise InvalidInput("calibration needs one image or more, got none; set a calibration split apart")
        return cls(float(values.min()), float(values.max()))

    def abstention(self, strangeness: ArrayLike) -> FloatArray:
        """Abstention (n,) in [0, 1] of images of this strangeness (n,)."""
        values = finite(strangeness, name="strangeness", ndim=1)
        if self.low == self.high:
            return (values > self.high).astype(np.float64)
        inside = np.clip(values, self.low, self.high)
        found: FloatArray = (inside - self.low) / (self.high - self.low)
        return found


def as_released(strangeness: ArrayLike, *, name: str) -> FloatArray:
    """Abstention (n,) as the released code of VisAlign makes it of the test images' strangeness (n,): to compare only.

    It scales over the test images themselves. Entropies (sp, asp, mc-dropout, deep-ensemble) come out upside down: the
    surest image abstains. Distances (md, knn) are squared. TAPUDD is averaged and indexed otherwise there, OpenMax is
    absent: they are refused.

    >>> as_released([0.0, 1.0, 2.0], name="sp"), as_released([0.0, 1.0, 2.0], name="knn")
    (array([1. , 0.5, 0. ]), array([0.  , 0.25, 1.  ]))
    """
    entry = abstentions[name]
    if entry.released is None:
        known = ", ".join(key for key in abstentions if abstentions[key].released)
        raise InvalidInput(f"the released arithmetic can be had of {known}, got {entry.name}")
    values = finite(strangeness, name="strangeness", ndim=1)
    if values.size < 2 or values.min() == values.max():
        raise InvalidInput("the released arithmetic divides by the range of strangeness, got one value; use MinMax")
    if entry.released == "entropy":
        return 1 - MinMax.fit(values).abstention(values)
    return MinMax.fit(values**2).abstention(values**2)

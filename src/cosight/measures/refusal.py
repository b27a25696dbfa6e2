"""How ready is an observer to refuse?"""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import ArrayLike

from cosight.arrays import FloatArray, finite
from cosight.errors import InvalidInput
from cosight.measures.facts import declare

__all__ = ["MeanAbstention", "mean_abstention"]


@dataclass(frozen=True, slots=True, eq=False)
class MeanAbstention:
    """How ready an observer is to refuse these stimuli."""

    items: FloatArray  # (items,) in [0, 1], 1 refuses

    @property
    def value(self) -> float:
        """Mean of the items; nan without any."""
        return float(self.items.mean()) if len(self.items) else float("nan")


@declare(
    "mean_abstention",
    summary="Mean abstention: how ready an observer is to refuse, from 0 to 1.",
    low=0,
    high=1,
    direction="neither",
    symmetric=None,
    needs=("abstention",),
    citation="Lee et al. 2023 (VisAlign), section 4.2",
)
def mean_abstention(abstention: ArrayLike) -> MeanAbstention:
    """Mean of `abstention` (items,), each in [0, 1]; nan without items.

    >>> mean_abstention([0.0, 0.25, 1.0]).value
    0.4166666666666667
    """
    items = finite(abstention, name="abstention", ndim=1)
    if ((items < 0) | (items > 1)).any():
        raise InvalidInput(f"abstention lies in [0, 1], got {items[(items < 0) | (items > 1)][0]:g}")
    return MeanAbstention(items)

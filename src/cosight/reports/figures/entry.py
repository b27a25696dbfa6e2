"""What a figure declares: its registry entry, and what it is drawn from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cosight.errors import InvalidInput
from cosight.measures import measures
from cosight.statistics.rows import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FigureKind", "FigureRequest"]


@dataclass(frozen=True, slots=True)
class FigureRequest:
    """What a figure is drawn from.

    Attributes:
        rows: Score rows of all sources, in their order.
        measure: Registered name of the measure to draw; None for the figure's own choice.
    """

    rows: tuple[Row, ...]
    measure: str | None = None

    def measure_or(self, default: str) -> str:
        """Return the registered name of the measure to draw.

        Args:
            default: The figure's own choice.

        Returns:
            The measure that was asked for, else the default.

        Raises:
            InvalidInput: The rows do not have it; the message names those that they have.

        >>> FigureRequest((Row(observer="a", measure="accuracy", value=0.5, n=10),)).measure_or("accuracy")
        'accuracy'
        """
        name = measures.name_of(self.measure or default)
        if not any(row.measure == name for row in self.rows):
            known = ", ".join(dict.fromkeys(row.measure for row in self.rows)) or "none at all"
            raise InvalidInput(f"these scores have no rows of {name}; they have {known}")
        return name


@dataclass(frozen=True, slots=True)
class FigureKind:
    """One figure.

    Attributes:
        name: Name in the registry.
        summary: One sentence: what it shows.
        rows: The command whose rows it draws, as it is typed.
        draw: Draws on an empty matplotlib figure. Raises InvalidInput if the rows lack what it needs.
        source: The published figure that it follows, if any.
        scored: Measures that `score` computes first where trials are given instead of score rows.
    """

    name: str
    summary: str
    rows: str
    draw: Callable[[Figure, FigureRequest], None]
    source: str = ""
    scored: tuple[str, ...] = ()

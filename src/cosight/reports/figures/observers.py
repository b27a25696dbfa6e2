"""Figures with one line per observer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cosight.errors import InvalidInput
from cosight.measures import measures
from cosight.reports.figures.entry import FigureKind, FigureRequest
from cosight.reports.plots import COLOURS
from cosight.statistics.row_text import short_name
from cosight.statistics.rows import MODELS, PEOPLE, SIMULATED, Row
from cosight.statistics.seeds import display_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FIGURES"]

_LINE, _LETTER = 0.2, 0.065  # inches: height of a line, width of a letter of a name


def _ec_dots(figure: Figure, request: FigureRequest) -> None:
    """Each model's value with people, the closest on top, and people's own agreement as a band."""
    name = request.measure_or("error_consistency")
    rows = [row for row in request.rows if (row.measure, row.statistic) == (name, "value") and _overall(row)]
    against = PEOPLE if any(row.against == PEOPLE for row in rows) else SIMULATED
    among = next((row for row in rows if (row.observer, row.against) == (against, against)), None)
    models = [
        row
        for row in rows
        if row.against == against and row.value is not None and row.observer not in (MODELS, PEOPLE, SIMULATED)
        if not row.observer.startswith(("human:", "simulated:"))
    ]
    if not models:
        raise InvalidInput(f"these scores have no model compared with people by {name}; add trials of people")
    models.sort(key=lambda row: row.value or 0.0, reverse=measures[name].direction == "lower")
    names = [display_name(row.observer) for row in models]
    figure.set_size_inches(3.5 + _LETTER * max(map(len, names)), 1.0 + _LINE * len(models))
    axes = figure.add_subplot()
    if among is not None and among.value is not None:
        if among.low is not None and among.high is not None:
            axes.axvspan(among.low, among.high, color="0.9", linewidth=0)
        axes.axvline(among.value, color="0.35", linestyle="--", linewidth=1, label=f"{against} with each other")
    lines = range(len(models))
    for line, row in zip(lines, models, strict=True):
        if row.low is not None and row.high is not None:
            axes.plot([row.low, row.high], [line, line], color=COLOURS[0], linewidth=1.5)
    values = [row.value or 0.0 for row in models]
    axes.plot(values, lines, "o", color=COLOURS[0], markersize=4, label=f"model with {against}")
    axes.set_yticks(lines, names)
    axes.set_ylim(-0.7, len(models) - 0.3)
    axes.set_xlabel(f"{name.replace('_', ' ')} ({short_name(name)})")
    axes.grid(axis="x", color="0.92")
    figure.legend(loc="outside upper left", ncols=2)


def _overall(row: Row) -> bool:
    """Return whether a row is over all trials, or the mean over groups."""
    return all(value == "*" for _, value in row.group)


FIGURES = (
    FigureKind(
        name="ec-dots",
        summary="Each model's agreement with people, the closest on top, with people's own as a band.",
        rows="cosight compare SOURCES --out scores.json",
        draw=_ec_dots,
    ),
)

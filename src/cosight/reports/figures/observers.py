"""Figures with one line per observer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cosight.errors import InvalidInput
from cosight.measures import measures
from cosight.reports.figures.entry import FigureKind, FigureRequest
from cosight.reports.plots import COLOURS
from cosight.statistics.row_text import short_name
from cosight.statistics.rows import MODELS, PEOPLE, SIMULATED, Row
from cosight.statistics.seeds import display_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["FIGURES"]

_LINE, _LETTER = 0.2, 0.065  # inches: height of a line, width of a letter of a name
_PERSON = ("human:", "simulated:")
_SHAPE_BIAS = "shape_bias"


def _ec_dots(figure: Figure, request: FigureRequest) -> None:
    """Each model's value with people, the closest on top, and people's own agreement as a band."""
    name = request.measure_or("error_consistency")
    rows = _overall_rows(request, name)
    against = PEOPLE if any(row.against == PEOPLE for row in rows) else SIMULATED
    among = next((row for row in rows if (row.observer, row.against) == (against, against)), None)
    models = [row for row in _model_rows(rows) if row.against == against]
    if not models:
        raise InvalidInput(f"these scores have no model compared with people by {name}; add trials of people")
    models.sort(key=lambda row: row.value or 0.0, reverse=measures[name].direction == "lower")
    axes = _dots(figure, models, among, band=f"{against} with each other", label=f"model with {against}")
    axes.set_xlabel(f"{name.replace('_', ' ')} ({short_name(name)})")


def _shape_bias(figure: Figure, request: FigureRequest) -> None:
    """Each model's shape bias, the strongest on top, with people's as a band and single people as ticks."""
    rows = _overall_rows(request, request.measure_or(_SHAPE_BIAS))
    models = sorted(_model_rows(rows), key=lambda row: row.value or 0.0)
    if not models:
        raise InvalidInput("these scores have no shape bias of a model; score trials on cue-conflict images")
    people = next((row for name in (PEOPLE, SIMULATED) for row in rows if row.observer == name), None)
    singles = [row for row in rows if row.observer.startswith(_PERSON) and row.value is not None]
    group = SIMULATED if singles and all(row.observer.startswith("simulated:") for row in singles) else PEOPLE
    axes = _dots(figure, models, people, band=group if people is None else people.observer, label="model")
    for index, row in enumerate(singles):
        label = f"single {group}" if not index else None
        axes.plot([row.value or 0.0], [1.0], "|", color="0.35", markersize=7, transform=axes.get_xaxis_transform(),
                  clip_on=False, label=label)  # fmt: skip
    axes.set_xlim(0, 1)
    axes.set_xlabel("shape bias: 0 all texture, 1 all shape")
    figure.legends.clear()
    figure.legend(loc="outside upper left", ncols=3)


def _overall_rows(request: FigureRequest, name: str) -> list[Row]:
    """Return the values of a measure over all trials, or the means over groups."""
    rows = [row for row in request.rows if (row.measure, row.statistic) == (name, "value")]
    return [row for row in rows if all(value == "*" for _, value in row.group)]


def _model_rows(rows: Sequence[Row]) -> list[Row]:
    return [
        row
        for row in rows
        if row.value is not None and row.observer not in (MODELS, PEOPLE, SIMULATED)
        if not row.observer.startswith(_PERSON)
    ]


def _dots(figure: Figure, models: Sequence[Row], people: Row | None, *, band: str, label: str) -> Axes:
    """Draw one line per model with its interval, the last on top, and people's value with its interval as a band."""
    names = [display_name(row.observer) for row in models]
    figure.set_size_inches(3.5 + _LETTER * max(map(len, names)), 1.0 + _LINE * len(models))
    axes = figure.add_subplot()
    if people is not None and people.value is not None:
        if people.low is not None and people.high is not None:
            axes.axvspan(people.low, people.high, color="0.9", linewidth=0)
        axes.axvline(people.value, color="0.35", linestyle="--", linewidth=1, label=band)
    lines = range(len(models))
    for line, row in zip(lines, models, strict=True):
        if row.low is not None and row.high is not None:
            axes.plot([row.low, row.high], [line, line], color=COLOURS[0], linewidth=1.5)
    axes.plot([row.value or 0.0 for row in models], lines, "o", color=COLOURS[0], markersize=4, label=label)
    axes.set_yticks(lines, names)
    axes.set_ylim(-0.7, len(models) - 0.3)
    axes.grid(axis="x", color="0.92")
    figure.legend(loc="outside upper left", ncols=2)
    return axes


FIGURES = (
    FigureKind(
        name="ec-dots",
        summary="Each model's agreement with people, the closest on top, with people's own as a band.",
        rows="cosight compare SOURCES --out scores.json",
        draw=_ec_dots,
    ),
    FigureKind(
        name="shape-bias",
        summary="Each model's shape bias, the strongest on top, with people's as a band.",
        rows="cosight score SOURCES --measure shape_bias --out scores.json",
        draw=_shape_bias,
    ),
)

"""Figures of representation alignment (Nanda et al. 2021), drawn from `cosight score --on representation`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cosight.errors import InvalidInput
from cosight.reports.figures.entry import FigureKind, FigureRequest
from cosight.reports.plots import COLOURS, MARKERS
from cosight.statistics.rows import PEOPLE, SIMULATED, Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FIGURES"]

_ROWS = "cosight score SET/trials --on representation --out scores.json"
_SOURCE = "Nanda et al. 2021"
_MEASURES = {"two_alternative_share": "2AFC", "clustering_share": "clustering"}
_CHANCE = 1 / 3  # of panels of three


def _alignment(request: FigureRequest, measure: str, **group: str) -> list[Row]:
    """Return the rows of converged inversions of photos, of random panels in clustering."""
    wanted = {"distance": "0.1", "targets": "photos", **group}
    return [
        row
        for row in request.rows
        if (row.measure, row.statistic) == (measure, "value")
        and row.value is not None
        and row.in_group("panels") in (None, "random")
        and all(row.in_group(name) == value for name, value in wanted.items())
    ]


def _robustness(figure: Figure, request: FigureRequest) -> None:
    """Alignment of each model against its robust accuracy, with intervals both ways."""
    measure = request.measure_or("two_alternative_share")
    robust = {
        row.observer: row for row in request.rows if row.measure == "accuracy" and row.in_group("images") == "robust"
    }
    rows = [row for row in _alignment(request, measure, seeds="all") if row.observer in robust]
    if not rows:
        raise InvalidInput(
            f"these scores have no model with {measure} and robust accuracy; build with --accuracy, then score"
        )
    figure.set_size_inches(4.5, 3.5)
    axes = figure.add_subplot()
    for number, judge in enumerate(dict.fromkeys(str(row.in_group("judge")) for row in rows)):
        colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
        for row in (row for row in rows if row.in_group("judge") == judge):
            x = robust[row.observer]
            axes.plot([x.value or 0.0], [row.value or 0.0], marker, color=colour, markersize=5)
            if row.low is not None and row.high is not None:
                axes.plot([x.value or 0.0] * 2, [row.low, row.high], color=colour, linewidth=1)
            if x.low is not None and x.high is not None:
                axes.plot([x.low, x.high], [row.value or 0.0] * 2, color=colour, linewidth=1)
            axes.annotate(row.observer, (x.value or 0.0, row.value or 0.0), xytext=(5, 4), textcoords="offset points")
        axes.plot([], [], marker, color=colour, label=judge)
    axes.set_xlim(-0.02, 1)
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlabel("robust accuracy")
    axes.set_ylabel(f"{_MEASURES.get(measure, measure)}: share matched with the target")
    figure.legend(loc="outside upper left", ncols=3)


def _bars(figure: Figure, request: FigureRequest) -> None:
    """Shares of each model by seeds, 2AFC and clustering, for the first judge, or for people where they answered."""
    measures = [name for name in _MEASURES if _alignment(request, name)]
    if not measures:
        raise InvalidInput(f"these scores have no shares of converged inversions; `{_ROWS}` writes them")
    rows = [row for name in measures for row in _alignment(request, name)]
    judges = list(dict.fromkeys(str(row.in_group("judge")) for row in rows))
    judge = next((name for name in (PEOPLE, SIMULATED) if name in judges), judges[0])
    models = list(dict.fromkeys(row.observer for row in rows))
    seeds = [name for name in ("noise", "image") if any(row.in_group("seeds") == name for row in rows)]
    figure.set_size_inches(3.2 * len(measures) + 0.8, 3.2)
    width = 0.8 / len(models)
    for number, measure in enumerate(measures):
        axes = figure.add_subplot(1, len(measures), number + 1)
        for index, model in enumerate(models):
            for place, start in enumerate(seeds):
                for row in _alignment(request, measure, seeds=start, judge=judge):
                    if row.observer == model:
                        x = place + (index - (len(models) - 1) / 2) * width
                        axes.bar(x, row.value or 0.0, 0.92 * width, color=COLOURS[index % len(COLOURS)])
                        if row.low is not None and row.high is not None:
                            axes.plot([x, x], [row.low, row.high], color="0.2", linewidth=1)
        if measure == "clustering_share":
            axes.axhline(_CHANCE, color="0.35", linestyle="--", linewidth=1)
        axes.set_xticks(range(len(seeds)), [f"{start} seeds" for start in seeds])
        axes.set_ylim(0, 1.02)
        axes.set_title(f"{_MEASURES[measure]}, {judge}")
        axes.set_ylabel("share matched with the target" if number == 0 else "")
    for index, model in enumerate(models):
        figure.axes[0].bar([0], [0], color=COLOURS[index % len(COLOURS)], label=model)
    figure.legend(loc="outside upper left", ncols=2)


FIGURES = (
    FigureKind(
        name="representation-robustness",
        summary="Representation alignment of each model against its robust accuracy.",
        rows=_ROWS,
        draw=_robustness,
        source=f"{_SOURCE}, Figure 4",
    ),
    FigureKind(
        name="representation-bars",
        summary="2AFC and clustering shares of each model by kind of seeds; dashed: chance.",
        rows=_ROWS,
        draw=_bars,
        source=f"{_SOURCE}, Figures 5 to 7 and 11",
    ),
)

"""Figures from score rows, as SVG: drawn the same way every time, so that they can be compared byte by byte."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cosight.files import atomic_write
from cosight.statistics.rows import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["COLOURS", "Point", "dots", "scatter"]

# Okabe & Ito 2008: told apart with every kind of colour vision
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#f0e442")
_MARKERS = "osD^vP*X"


@dataclass(frozen=True, slots=True)
class Point:
    """Where something lies on two axes, with intervals; `group` decides colour and shape."""

    x: Row
    y: Row
    group: str


def dots(path: Path, rows: Mapping[str, Mapping[str, Row]], *, axis: str) -> None:
    """Values with intervals, a line for each of `rows`, a colour for each of its series."""
    series = list(dict.fromkeys(name for line in rows.values() for name in line))
    with _figure(path, width=7.2, height=0.6 + 0.19 * len(rows)) as axes:
        for place, line in enumerate(rows.values()):
            for name, row in line.items():
                _interval(axes, row, place + 0.12 * (series.index(name) - (len(series) - 1) / 2), series.index(name))
        for index, name in enumerate(series):
            axes.plot([], [], _MARKERS[index % len(_MARKERS)], color=COLOURS[index % len(COLOURS)], label=name)
        axes.set_yticks(range(len(rows)), list(rows))
        axes.invert_yaxis()
        axes.set_xlabel(axis)
        axes.grid(axis="x", color="#ddd")
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)


def _interval(axes: Axes, row: Row, place: float, index: int) -> None:
    if row.value is None:
        return
    colour, marker = COLOURS[index % len(COLOURS)], _MARKERS[index % len(_MARKERS)]
    axes.plot(_ends(row), [place, place], "-", color=colour, linewidth=1.2)
    axes.plot([row.value], [place], marker, color=colour, markersize=4)


def scatter(path: Path, points: Sequence[Point], *, x: str, y: str) -> None:
    """Points with intervals on both axes, a colour and a shape for each group."""
    groups = list(dict.fromkeys(point.group for point in points))
    with _figure(path, width=7.2, height=4.2) as axes:
        for point in points:
            _cross(axes, point, groups.index(point.group))
        for index, group in enumerate(groups):
            axes.plot([], [], _MARKERS[index % len(_MARKERS)], color=COLOURS[index % len(COLOURS)], label=group)
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        axes.grid(color="#ddd")
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)


def _cross(axes: Axes, point: Point, index: int) -> None:
    if point.x.value is None or point.y.value is None:
        return
    colour = COLOURS[index % len(COLOURS)]
    axes.plot(_ends(point.x), [point.y.value] * 2, color=colour, linewidth=0.6, alpha=0.5)
    axes.plot([point.x.value] * 2, _ends(point.y), color=colour, linewidth=0.6, alpha=0.5)
    axes.plot([point.x.value], [point.y.value], _MARKERS[index % len(_MARKERS)], color=colour, markersize=4)


def _ends(row: Row) -> list[float]:
    """The interval, or the value twice where there is none."""
    value = row.value or 0.0
    return [value if row.low is None else row.low, value if row.high is None else row.high]


@contextmanager
def _figure(path: Path, *, width: float, height: float) -> Iterator[Axes]:
    """Axes to draw on; the figure is written when the block ends without an error."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with rc_context({"svg.hashsalt": "cosight", "svg.fonttype": "path", "font.size": 9}):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        yield axes
        with atomic_write(path) as draft:
            figure.savefig(draft, format="svg", metadata={"Date": None})

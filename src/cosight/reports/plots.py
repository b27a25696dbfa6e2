"""Figures from score rows as SVG; the same rows give the same bytes."""

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

# Okabe & Ito 2008: distinguishable with every kind of colour vision
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#f0e442")
_MARKERS = "osD^vP*X"


@dataclass(frozen=True, slots=True)
class Point:
    """A point with intervals on two axes; `group` determines colour and marker."""

    x: Row
    y: Row
    group: str


def dots(path: Path, rows: Mapping[str, Mapping[str, Row]], *, axis: str) -> None:
    """Draw values with intervals: one line per entry of `rows`, one colour per series."""
    series = list(dict.fromkeys(name for line in rows.values() for name in line))
    with _figure(path, width=7.2, height=0.6 + 0.19 * len(rows)) as axes:
        for number, line in enumerate(rows.values()):
            for name, row in line.items():
                if row.value is None:
                    continue
                index = series.index(name)
                height = number + 0.12 * (index - (len(series) - 1) / 2)
                axes.plot(_ends(row), [height, height], "-", color=_colour(index), linewidth=1.2)
                axes.plot([row.value], [height], _marker(index), color=_colour(index), markersize=4)
        axes.set_yticks(range(len(rows)), list(rows))
        axes.invert_yaxis()
        axes.set_xlabel(axis)
        axes.grid(axis="x", color="#ddd")
        _add_legend(axes, series)


def scatter(path: Path, points: Sequence[Point], *, x: str, y: str) -> None:
    """Draw points with intervals on both axes, one colour and marker per group."""
    groups = list(dict.fromkeys(point.group for point in points))
    with _figure(path, width=7.2, height=4.2) as axes:
        for point in points:
            if point.x.value is None or point.y.value is None:
                continue
            index = groups.index(point.group)
            axes.plot(_ends(point.x), [point.y.value] * 2, color=_colour(index), linewidth=0.6, alpha=0.5)
            axes.plot([point.x.value] * 2, _ends(point.y), color=_colour(index), linewidth=0.6, alpha=0.5)
            axes.plot([point.x.value], [point.y.value], _marker(index), color=_colour(index), markersize=4)
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        axes.grid(color="#ddd")
        _add_legend(axes, groups)


def _colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


def _marker(index: int) -> str:
    return _MARKERS[index % len(_MARKERS)]


def _add_legend(axes: Axes, names: Sequence[str]) -> None:
    for index, name in enumerate(names):
        axes.plot([], [], _marker(index), color=_colour(index), label=name)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)


def _ends(row: Row) -> list[float]:
    """Return the ends of the interval, or the value twice where there is none."""
    value = row.value or 0.0
    return [value if row.low is None else row.low, value if row.high is None else row.high]


@contextmanager
def _figure(path: Path, *, width: float, height: float) -> Iterator[Axes]:
    """Yield axes; the figure is written when the block ends without an error."""
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

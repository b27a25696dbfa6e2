"""Figures from score rows as SVG; the same rows give the same bytes.

Figures follow the colour scheme of the page, light or dark. `dots` writes its few shapes itself, so that it works
without matplotlib, which the light installation does not have.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from cosight.files import atomic_write
from cosight.statistics.rows import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["COLOURS", "MARKERS", "Point", "dots", "scatter"]

# Okabe & Ito 2008: distinguishable with every kind of colour vision
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#f0e442")
_ON_DARK = ("#4aa8e0", "#ff8c42", "#2bc49a", "#e39ac4", "#ffc04d", "#8fd0f5", "#e8ebef", "#f0e442")  # lighter
MARKERS = "osD^vP*X"
_INK, _LINE = "#1b1f24", "#d5dae1"  # text and grid on a light page
_ROW, _LETTER, _PLOT = 18, 6.6, 300  # pixels: height of a line, width of a letter, width of the axis
_LONGEST = 34  # letters of a label on one line
_MOST_TICKS = 6


@dataclass(frozen=True, slots=True)
class Point:
    """A point with intervals on two axes; `group` determines colour and marker."""

    x: Row
    y: Row
    group: str


def dots(path: Path, rows: Mapping[str, Mapping[str, Row]], *, axis: str, reference: str | None = None) -> None:
    """Draw values with intervals: one line per entry of `rows`, one colour per series.

    Args:
        path: The SVG file.
        rows: Label of a line -> name of a series -> its row. Undefined values are left out.
        axis: Text below the axis.
        reference: Label of the line whose value is drawn through all lines.
    """
    series = list(dict.fromkeys(name for line in rows.values() for name in line))
    known = [row for line in rows.values() for row in line.values() if row.value is not None]
    ticks = _ticks([end for row in known for end in _ends(row)])
    labels = [textwrap.wrap(label, _LONGEST) or [""] for label in rows]
    left = _LETTER * max((len(line) for lines in labels for line in lines), default=0) + 10
    top = 24 if len(series) > 1 else 6
    heights = [max(_ROW, 10 * len(lines)) for lines in labels]
    bottom = top + sum(heights)
    width, height = left + _PLOT + 24, bottom + 44

    def x(value: float) -> float:
        return left + _PLOT * (value - ticks[0]) / (ticks[-1] - ticks[0])

    parts = []
    for tick in ticks:
        parts.append(f'<path d="M{x(tick):.1f} {top}V{bottom}" stroke="var(--line)"/>')
        parts.append(f'<text x="{x(tick):.1f}" y="{bottom + 16}" text-anchor="middle">{tick:g}</text>')
    for row in rows.get(reference or "", {}).values():
        if row.value is not None:
            line = f'd="M{x(row.value):.1f} {top}V{bottom}" stroke="var(--ink)" stroke-dasharray="3 3"'
            parts.append(f"<path {line}/>")
    start = float(top)
    for label, line_height, line_rows in zip(labels, heights, rows.values(), strict=True):
        middle = start + line_height / 2
        start += line_height
        for index, text in enumerate(label):
            y = middle + 4 + 9 * (index - (len(label) - 1) / 2)
            small = ' class="small"' if len(label) > 1 else ""
            parts.append(f'<text{small} x="{left - 8:.1f}" y="{y:.1f}" text-anchor="end">{escape(text)}</text>')
        for name, row in line_rows.items():
            if row.value is None:
                continue
            index = series.index(name)
            height_of = middle + 5 * (index - (len(series) - 1) / 2) * (len(line_rows) > 1)
            low, high = (x(end) for end in _ends(row))
            stroke = f'stroke="var(--c{index % len(COLOURS)})" stroke-width="1.5"'
            parts.append(f'<path d="M{low:.1f} {height_of:.1f}H{high:.1f}" {stroke}/>')
            parts.append(_mark(x(row.value), height_of, index))
    start = left
    for index, name in enumerate(series if len(series) > 1 else []):
        parts.append(_mark(start + 4, 10, index))
        parts.append(f'<text x="{start + 12:.1f}" y="14">{escape(name)}</text>')
        start += 12 + _LETTER * len(name) + 16
    parts.append(f'<text x="{left + _PLOT / 2:.1f}" y="{height - 8}" text-anchor="middle">{escape(axis)}</text>')
    size = f'viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}"'
    text = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{_style()}\n' + "\n".join(parts) + "\n</svg>\n"
    with atomic_write(path) as draft:
        draft.write_text(text, encoding="utf-8")


def _style() -> str:
    """Return the colours of a figure as variables, for light and for dark pages."""

    def variables(ink: str, line: str, colours: Sequence[str]) -> str:
        named = {"ink": ink, "line": line, **{f"c{index}": colour for index, colour in enumerate(colours)}}
        return ":root{" + "".join(f"--{name}:{colour};" for name, colour in named.items()) + "}"

    dark = variables("#e8ebef", "#343b45", _ON_DARK)
    font = "text{fill:var(--ink);font:12px system-ui,sans-serif}.small{font-size:9px}"
    return f"<style>{variables(_INK, _LINE, COLOURS)}@media (prefers-color-scheme:dark){{{dark}}}{font}</style>"


def _ticks(values: Sequence[float]) -> list[float]:
    """Return round numbers that enclose the values, and 0.

    >>> _ticks([0.07, 0.43])
    [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]
    """
    low, high = min([0.0, *values]), max([0.0, *values])
    spread = high - low or 1.0
    scale = 10.0 ** math.floor(math.log10(spread / _MOST_TICKS))
    step = next(scale * factor for factor in (1, 2, 5, 10, 20) if spread / (scale * factor) <= _MOST_TICKS - 1)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(step * number, 12) for number in range(first, max(last, first + 1) + 1)]


def _mark(x: float, y: float, index: int) -> str:
    """Return the marker of a series: a circle, a square, a diamond, then the same again."""
    shape = (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5"',
        f'<rect x="{x - 3.2:.1f}" y="{y - 3.2:.1f}" width="6.4" height="6.4"',
        f'<path d="M{x:.1f} {y - 4.5:.1f}l4.5 4.5l-4.5 4.5l-4.5 -4.5z"',
    )[index % 3]
    return f'{shape} fill="var(--c{index % len(COLOURS)})"/>'


def scatter(path: Path, points: Sequence[Point], *, x: str, y: str) -> None:
    """Draw points with intervals on both axes, one colour and marker per group."""
    groups = list(dict.fromkeys(point.group for point in points))
    with _figure(path, width=6.4, height=4.2) as axes:
        for point in points:
            if point.x.value is None or point.y.value is None:
                continue
            index = groups.index(point.group)
            axes.plot(_ends(point.x), [point.y.value] * 2, color=_colour(index), linewidth=0.6, alpha=0.5)
            axes.plot([point.x.value] * 2, _ends(point.y), color=_colour(index), linewidth=0.6, alpha=0.5)
            axes.plot([point.x.value], [point.y.value], _marker(index), color=_colour(index), markersize=4)
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        axes.grid(color=_LINE)
        for index, name in enumerate(groups):
            axes.plot([], [], _marker(index), color=_colour(index), label=name)
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)


def _colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


def _marker(index: int) -> str:
    return MARKERS[index % len(MARKERS)]


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

    colours = dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), _INK)
    clear = dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), "none")
    with rc_context({"svg.hashsalt": "cosight", "svg.fonttype": "path", "font.size": 10, **colours, **clear}):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        yield axes
        with atomic_write(path) as draft:
            figure.savefig(draft, format="svg", metadata={"Date": None})
            text = draft.read_text(encoding="utf-8")
            for index, colour in enumerate(COLOURS):
                text = text.replace(colour, f"var(--c{index})")
            text = text.replace(_INK, "var(--ink)").replace(_LINE, "var(--line)")
            draft.write_text(text.replace("<defs>", f"{_style()}<defs>", 1), encoding="utf-8")

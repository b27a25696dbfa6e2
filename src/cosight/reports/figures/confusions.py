"""The difference of two observers' confusion matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from cosight.errors import InvalidInput
from cosight.reports.figures.entry import FigureKind, FigureRequest
from cosight.statistics.answer_shares import ANSWER, ANSWER_SHARE, TRUTH
from cosight.statistics.rows import Row
from cosight.statistics.seeds import display_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

__all__ = ["FIGURES"]

_MOST_PANELS = 6
_CELL = 0.24  # inches


def _draw(figure: Figure, request: FigureRequest) -> None:
    """One panel per pair: what the first answers more often than the second, and less often."""
    rows = [row for row in request.rows if (row.measure, row.statistic) == (ANSWER_SHARE, "difference")]
    rows = [row for row in rows if {key for key, _ in row.group} == {TRUTH, ANSWER} and row.value is not None]
    if not rows:
        raise InvalidInput("these scores have no differences of answer shares between a model and people")
    pairs = list(dict.fromkeys((row.observer, row.against or "") for row in rows))
    if len(pairs) > _MOST_PANELS:
        raise InvalidInput(
            f"up to {_MOST_PANELS} models are drawn, got {len(pairs)}; name two observers with --only "
            f"{pairs[0][0]},{pairs[0][1]}"
        )
    labels = list(dict.fromkeys(str(row.in_group(ANSWER)) for row in rows))
    across = min(len(pairs), 2)
    down = -(-len(pairs) // across)
    side = 1.5 + _CELL * len(labels)
    figure.set_size_inches(side * across + 0.8, side * down)
    panels = list(figure.subplots(down, across, squeeze=False).flat)
    for panel in panels[len(pairs) :]:
        panel.remove()
    panels = panels[: len(pairs)]
    largest = max(abs(row.value or 0.0) for row in rows) or 1.0
    for panel, pair in zip(panels, pairs, strict=True):
        image = _draw_panel(panel, [row for row in rows if (row.observer, row.against) == pair], labels, largest)
        panel.set_title(" minus ".join(map(display_name, pair)), fontsize=9)
    for panel in panels[::across]:
        panel.set_ylabel("class shown (answers)")
    figure.colorbar(image, ax=panels, shrink=0.7, label="difference of shares; + or -: the interval excludes 0")


def _draw_panel(panel: Axes, rows: Sequence[Row], labels: Sequence[str], largest: float) -> AxesImage:
    """Draw the cells of a pair, and + or - where the interval excludes 0: grey tones do not tell the sign."""
    values, counts = np.full((len(labels), len(labels)), np.nan), dict.fromkeys(labels, 0)
    for row in rows:
        y, x = labels.index(str(row.in_group(TRUTH))), labels.index(str(row.in_group(ANSWER)))
        values[y, x] = row.value
        counts[labels[y]] = row.n
        if row.low is not None and row.high is not None and (row.low > 0 or row.high < 0):
            colour = "white" if abs(values[y, x]) > 0.6 * largest else "black"
            sign = "+" if values[y, x] > 0 else "\N{MINUS SIGN}"
            panel.text(x, y, sign, ha="center", va="center", fontsize=7, color=colour)
    image = panel.imshow(values, cmap="PuOr", vmin=-largest, vmax=largest)
    panel.patch.set(hatch="////", edgecolor="0.8", linewidth=0)  # classes without answers
    panel.set_xticks(range(len(labels)), labels, rotation=90, fontsize=7)
    panel.set_yticks(range(len(labels)), [f"{label} ({counts[label]})" for label in labels], fontsize=7)
    panel.tick_params(length=0)
    for spine in panel.spines.values():
        spine.set_visible(False)
    panel.set_xlabel("answer")
    return image


FIGURES = (
    FigureKind(
        name="confusion-difference",
        summary="What one observer answers more and less often than another, for each class; + and - where certain.",
        rows=f"cosight score SOURCES --measure {ANSWER_SHARE} --out scores.json",
        draw=_draw,
        scored=(ANSWER_SHARE,),
    ),
)

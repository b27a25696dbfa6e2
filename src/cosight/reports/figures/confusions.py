"""The difference of two observers' confusion matrices, counted from trials."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from cosight.arrays import FloatArray
from cosight.errors import InvalidInput, did_you_mean
from cosight.measures.answers import Answers
from cosight.measures.arithmetic import Weights, divide
from cosight.reports.figures.entry import FigureKind, FigureRequest
from cosight.statistics.resampling import Draw, draw_resamples
from cosight.statistics.rows import PEOPLE, SIMULATED
from cosight.statistics.seeds import display_name
from cosight.trials.join import AlignedTrials, StimulusGroup, link_groups

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["FIGURES", "confusion_difference"]

_RESAMPLES, _TAILS = 500, (2.5, 97.5)
_MOST_PANELS, _MOST_CLASSES = 6, 40
_CELL = 0.24  # inches


def confusion_difference(
    table: AlignedTrials, observer: str, against: str
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Compute how much more often an observer gives each answer to each class than another one.

    Args:
        table: Aligned trials.
        observer: Name of an observer, or `people` or `simulated people` pooled.
        against: The other one. Both are compared on the stimuli that both met.

    Returns:
        The difference of the shares, (classes, answers); low and high end of its interval, by bootstrap over clusters
        of stimuli and over people; and the number of answers of the first by class.
    """
    members = [_members(table, name) for name in (observer, against)]
    met = np.asarray(np.stack([table.answers.shown[rows].any(axis=0) for rows in members]).all(axis=0))
    if not met.any():
        raise InvalidInput(f"{observer} and {against} met no common stimuli; name others with --only")
    shared = table.keep(met)
    group = link_groups(shared, [StimulusGroup((), np.arange(shared.columns.height))])[0]
    draw = draw_resamples(shared, group, resamples=_RESAMPLES, seed=0, merge=False)
    (first, first_drawn), (second, second_drawn) = (
        _counts(draw, np.flatnonzero(np.isin(draw.observer_index, own))) for own in members
    )
    value = (_shares(first) - _shares(second))[..., 0]
    low, high = np.nanpercentile(_shares(first_drawn) - _shares(second_drawn), _TAILS, axis=-1)
    return value, low, high, first.sum(axis=1)[:, 0]


def _members(table: AlignedTrials, name: str) -> list[int]:
    """Return the rows of an observer, or of all people of one kind."""
    pooled = {PEOPLE: table.people & ~table.simulated, SIMULATED: table.simulated}
    if name in pooled:
        found = np.flatnonzero(pooled[name]).tolist()
    else:
        found = [index for index, known in enumerate(table.observers) if known == name]
    if not found:
        known = [*(group for group, rows in pooled.items() if rows.any()), *table.observers]
        raise InvalidInput(f"no observer is called {name!r}; {did_you_mean(name, known)}")
    return found


def _counts(draw: Draw, rows: NDArray[np.int64]) -> tuple[FloatArray, FloatArray]:
    """Return how often observers gave each answer to each class, (classes, answers, 1), and resamples of it."""
    classes, stimuli = draw.answers.classes, draw.answers.stimuli
    shape = (classes, classes, -1)
    observed, drawn = np.zeros((classes**2, 1)), np.zeros((classes**2, draw.resamples))
    for row in rows:
        response, truth = draw.answers.response[row], draw.answers.truth
        known = np.flatnonzero((response >= 0) & (truth >= 0))
        cell = truth[known].astype(np.int64) * classes + response[known]
        matrix = csr_array((np.ones(len(known)), (cell, known)), shape=(classes**2, stimuli))

        def resampled(_: Answers, weights: Weights, matrix: csr_array = matrix) -> FloatArray:
            return np.asarray(matrix @ weights.T)

        observed[:, 0] += matrix.sum(axis=1)
        drawn += draw.resample([resampled], values=classes**2)[0] * draw.observer_weights[:, row]
    return observed.reshape(shape), drawn.reshape(shape)


def _shares(counts: FloatArray) -> FloatArray:
    """Return counts as shares of the answers to each class."""
    total = counts.sum(axis=1, keepdims=True)
    return divide(counts, np.broadcast_to(total, counts.shape))


def _draw(figure: Figure, request: FigureRequest) -> None:
    """One panel per model: what it answers more often than people, and less often."""
    table = request.table
    if table is None:
        raise InvalidInput("confusion-difference is drawn from trials; name trials or runs")
    pairs = _pairs(table, request.only)
    labels = table.labels
    if len(labels) > _MOST_CLASSES:
        raise InvalidInput(f"confusion-difference shows up to {_MOST_CLASSES} classes, got {len(labels)}")
    across = min(len(pairs), 2)
    down = -(-len(pairs) // across)
    side = 1.5 + _CELL * len(labels)
    figure.set_size_inches(side * across + 0.8, side * down)
    panels = list(figure.subplots(down, across, squeeze=False).flat)
    for panel in panels[len(pairs) :]:
        panel.remove()
    panels = panels[: len(pairs)]
    found = [confusion_difference(table, *pair) for pair in pairs]
    largest = max(float(np.nanmax(np.abs(value))) for value, *_ in found) or 1.0
    for panel, (observer, against), (value, low, high, n) in zip(panels, pairs, found, strict=True):
        image = panel.imshow(value, cmap="PuOr", vmin=-largest, vmax=largest)
        _mark(panel, value, low, high, largest)
        panel.patch.set(hatch="////", edgecolor="0.8", linewidth=0)  # classes without answers
        panel.set_xticks(range(len(labels)), labels, rotation=90, fontsize=7)
        panel.set_yticks(
            range(len(labels)), [f"{label} ({int(k)})" for label, k in zip(labels, n, strict=True)], fontsize=7
        )
        panel.set_title(f"{display_name(observer)} minus {display_name(against)}", fontsize=9)
        panel.tick_params(length=0)
        for spine in panel.spines.values():
            spine.set_visible(False)
        panel.set_xlabel("answer")
    for panel in panels[::across]:
        panel.set_ylabel("class shown (answers)")
    figure.colorbar(image, ax=panels, shrink=0.7, label="difference of shares; + or -: the interval excludes 0")


def _mark(axes: Axes, value: FloatArray, low: FloatArray, high: FloatArray, largest: float) -> None:
    """Write + or - into the cells whose interval excludes 0: grey tones do not tell the sign."""
    for (y, x), shown in np.ndenumerate(value):
        if low[y, x] > 0 or high[y, x] < 0:
            colour = "white" if abs(shown) > 0.6 * largest else "black"
            axes.text(x, y, "+" if shown > 0 else "\N{MINUS SIGN}", ha="center", va="center", fontsize=7, color=colour)


def _pairs(table: AlignedTrials, only: Sequence[str]) -> list[tuple[str, str]]:
    """Return the pairs to draw: the two that were named, or every model with people."""
    if only:
        if len(only) != 2:
            raise InvalidInput(f"--only names two observers, got {', '.join(only)}; people stands for all of them")
        return [(only[0], only[1])]
    real = table.people & ~table.simulated
    if not table.people.any() or not table.models:
        raise InvalidInput("the difference of models and people needs both; name two observers with --only A,B")
    if len(table.models) > _MOST_PANELS:
        raise InvalidInput(
            f"up to {_MOST_PANELS} models are drawn, got {len(table.models)}; name two observers with --only "
            f"{table.models[0]},people"
        )
    return [(name, PEOPLE if real.any() else SIMULATED) for name in table.models]


FIGURES = (
    FigureKind(
        name="confusion-difference",
        summary="What one observer answers more and less often than another, for each class; + and - where certain.",
        rows="cosight evaluate MODEL --on SET --out RUN",
        draw=_draw,
        from_trials=True,
    ),
)

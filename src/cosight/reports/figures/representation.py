"""Figures of representation alignment (Nanda et al. 2021), drawn from `cosight score --on representation`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from textwrap import fill
from typing import TYPE_CHECKING, Any

from cosight.benchmarks.representation.results_table import ALL_SEEDS, CLUSTERING, CONVERGED, GROUPS, ROBUST, TWO_AFC
from cosight.errors import InvalidInput
from cosight.reports.figures.entry import FigureKind, FigureRequest
from cosight.reports.plots import COLOURS, MARKERS
from cosight.statistics.rows import PEOPLE, SIMULATED, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["FIGURES"]

_ROWS = "cosight score SET/trials --on representation --out scores.json"
_SOURCE = "Nanda et al. 2021"
_MEASURES = {TWO_AFC: "2AFC", CLUSTERING: "clustering"}
_CHANCE = 1 / 3  # of panels of three
_MOST_NAMED = 8  # points whose names fit beside them
_ARCHITECTURE, _LOSS = "architecture", "loss"


def _alignment(request: FigureRequest, measure: str, **group: str) -> list[Row]:
    """Return the rows of converged inversions of photos, of random panels in clustering; undefined ones too."""
    wanted = {"distance": "0.1", "targets": "photos", **group}
    return [
        row
        for row in request.rows
        if (row.measure, row.statistic) == (measure, "value")
        and row.in_group("panels") in (None, "random")
        and all(row.in_group(name) == value for name, value in wanted.items())
    ]


def _all_seeds(request: FigureRequest, measure: str) -> list[Row]:
    """Return the means over the kinds of seeds; where there is one kind, its rows."""
    return _alignment(request, measure, seeds=ALL_SEEDS) or _alignment(request, measure)


def _judge_of(rows: Iterable[Row]) -> str:
    """Return whose answers are drawn where there is room for one: people, where they answered, else the first judge."""
    judges = list(dict.fromkeys(str(row.in_group("judge")) for row in rows))
    return next((name for name in (PEOPLE, SIMULATED) if name in judges), judges[0])


def _with_interval(axes: Axes, x: float, row: Row, number: int) -> None:
    """Draw a point with its interval in the colour and shape of a number."""
    colour = COLOURS[number % len(COLOURS)]
    axes.plot([x], [row.value or 0.0], MARKERS[number % len(MARKERS)], color=colour, markersize=5)
    if row.low is not None and row.high is not None:
        axes.plot([x, x], [row.low, row.high], color=colour, linewidth=1)


def _legend_of_points(figure: Figure, names: Sequence[str], title: str = "") -> None:
    for number, name in enumerate(names):
        colour = COLOURS[number % len(COLOURS)]
        figure.axes[0].plot([], [], MARKERS[number % len(MARKERS)], color=colour, label=name)
    figure.legend(loc="outside upper left", ncols=3, title=title)


def _say_left_out(figure: Figure, request: FigureRequest, rows: Iterable[Row], judge: str, lacks: str = "") -> None:
    """Write below the figure which models are not in it, and why: `lacks`, or none of their inversions converged.

    Args:
        figure: The figure.
        request: All rows.
        rows: Rows of the models that are left out.
        judge: Whose answers are drawn.
        lacks: Why models with converged inversions are left out, if not for missing answers.
    """
    lacking: dict[str, dict[str, bool]] = {}  # model -> kind of seeds -> whether no inversion converged
    for row in request.rows:
        if row.measure == CONVERGED and (row.in_group("targets"), row.in_group("distance")) == ("photos", "0.1"):
            lacking.setdefault(row.observer, {})[str(row.in_group("seeds"))] = not row.value
    reasons: dict[str, list[str]] = {}
    for model in dict.fromkeys(row.observer for row in rows):
        none = [seeds for seeds, lacks_all in lacking.get(model, {}).items() if lacks_all]
        if len(none) == len(lacking.get(model, {})):
            reason = "no converged inversion"
        elif none:
            reason = f"no converged inversion from {' and '.join(none)} seeds"
        else:
            reason = lacks or f"no answers of {judge}"
        reasons.setdefault(reason, []).append(model)
    if reasons:
        text = "; ".join(f"{', '.join(models)} ({reason})" for reason, models in reasons.items())
        width = round(figure.get_size_inches()[0] * 16)  # letters that fit
        figure.supxlabel(fill(f"not shown: {text}", width), fontsize=7, x=0.01, ha="left")


def _robustness(figure: Figure, request: FigureRequest) -> None:
    """Alignment of each model against its robust accuracy, with intervals both ways; by loss, if known, or judge."""
    measure = request.measure_or(TWO_AFC)
    robust = {
        row.observer: row for row in request.rows if row.measure == "accuracy" and row.in_group("images") == ROBUST
    }
    every = _all_seeds(request, measure)
    rows = [row for row in every if row.value is not None and row.observer in robust]
    if not rows:
        raise InvalidInput(
            f"these scores have no model with {measure} and robust accuracy; build with --accuracy, then score"
        )
    figure.set_size_inches(4.5, 3.5)
    axes = figure.add_subplot()
    judge = _judge_of(rows)
    by_loss = any(row.in_group(_LOSS) for row in rows)
    if by_loss:
        rows = [row for row in rows if row.in_group("judge") == judge]
    groups = [str(row.in_group(_LOSS) or "not known") if by_loss else str(row.in_group("judge")) for row in rows]
    names = list(dict.fromkeys(groups))
    for row, group in zip(rows, groups, strict=True):
        number, x = names.index(group), robust[row.observer]
        _with_interval(axes, x.value or 0.0, row, number)
        if x.low is not None and x.high is not None:
            axes.plot([x.low, x.high], [row.value or 0.0] * 2, color=COLOURS[number % len(COLOURS)], linewidth=1)
        if len(rows) <= _MOST_NAMED:
            axes.annotate(row.observer, (x.value or 0.0, row.value or 0.0), xytext=(5, 4), textcoords="offset points")
    axes.set_xlim(-0.02, 1)
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlabel("robust accuracy")
    axes.set_ylabel(f"{_MEASURES.get(measure, measure)}{f', {judge}' if by_loss else ''}: share matched with target")
    _legend_of_points(figure, names, _LOSS if by_loss else "")
    shown = {row.observer for row in rows}
    _say_left_out(figure, request, (row for row in every if row.observer not in shown), judge, "no robust accuracy")


def _by_factor(figure: Figure, request: FigureRequest, *, factor: str) -> None:
    """Shares of each model over architectures, in the colours of one factor of its training."""
    found = {name: _all_seeds(request, name) for name in ([request.measure] if request.measure else _MEASURES)}
    known = [row for rows in found.values() for row in rows if row.value is not None and row.in_group(factor)]
    if not known:
        raise InvalidInput(
            f"these scores do not say the {factor} of a model with converged inversions; name it in a TOML file: "
            "`cosight score SET/trials --on representation --families FILE --out scores.json`"
        )
    judge = _judge_of(known)
    values = list(dict.fromkeys(str(row.in_group(factor)) for row in known))
    others = {
        name: {row.in_group(name) for row in known}
        for row in known
        for name, _ in row.group
        if name not in (*GROUPS, factor, _ARCHITECTURE)
    }
    varying = [name for name, settings in others.items() if len(settings) > 1]

    def place(row: Row) -> str:
        parts = [row.in_group(_ARCHITECTURE) or row.observer, *(row.in_group(name) or "?" for name in varying)]
        return "\n".join(parts)

    places = list(dict.fromkeys(map(place, known)))
    measures = [name for name, rows in found.items() if any(row.value is not None for row in rows)]
    figure.set_size_inches(max(1.2 + 0.6 * len(places), 2.6) * len(measures) + 0.8, 3.4)
    for panel, measure in enumerate(measures):
        axes = figure.add_subplot(1, len(measures), panel + 1)
        drawn: Counter[tuple[str, str]] = Counter()
        for row in known:
            if row.measure != measure or row.in_group("judge") != judge:
                continue
            value, at = str(row.in_group(factor)), place(row)
            shift = 0.6 * ((values.index(value) + 0.5) / len(values) - 0.5) + 0.05 * drawn[at, value]
            drawn[at, value] += 1
            _with_interval(axes, places.index(at) + shift, row, values.index(value))
        if measure == CLUSTERING:
            axes.axhline(_CHANCE, color="0.35", linestyle="--", linewidth=1)
        axes.set_xticks(range(len(places)), places, fontsize=7)
        axes.set_xlim(-0.5, len(places) - 0.5)
        axes.set_ylim(-0.02, 1.02)
        axes.set_title(f"{_MEASURES[measure]}, {judge}")
        axes.set_ylabel("share matched with the target" if panel == 0 else "")
    _legend_of_points(figure, values, factor)
    shown = {row.observer for row in known if row.in_group("judge") == judge}
    left_out = (row for rows in found.values() for row in rows if row.observer not in shown)
    _say_left_out(figure, request, left_out, judge, f"{factor} not known")


def _bars(figure: Figure, request: FigureRequest) -> None:
    """Shares of each model by seeds, 2AFC and clustering, for the first judge, or for people where they answered."""
    found = {name: rows for name in _MEASURES if (rows := _alignment(request, name))}
    every = [row for rows in found.values() for row in rows]
    rows = [row for row in every if row.value is not None]
    if not rows:
        raise InvalidInput(f"these scores have no shares of converged inversions; `{_ROWS}` writes them")
    judge = _judge_of(rows)
    models = list(dict.fromkeys(row.observer for row in rows if row.in_group("judge") == judge))
    seeds = [name for name in ("noise", "image") if any(row.in_group("seeds") == name for row in rows)]
    figure.set_size_inches(3.2 * len(found) + 0.8, 3.0 + 0.1 * len(models))

    def look(index: int) -> dict[str, Any]:
        return {"color": COLOURS[index % len(COLOURS)], "hatch": "////" if index >= len(COLOURS) else None}

    width = 0.8 / len(models)
    for number, measure in enumerate(found):
        axes = figure.add_subplot(1, len(found), number + 1)
        for row in found[measure]:
            if row.in_group("judge") != judge or row.in_group("seeds") not in seeds or row.observer not in models:
                continue
            index = models.index(row.observer)
            x = seeds.index(str(row.in_group("seeds"))) + (index - (len(models) - 1) / 2) * width
            if row.value is None:
                axes.text(x, 0.01, "none converged", rotation=90, ha="center", va="bottom", fontsize=6)
                continue
            axes.bar(x, row.value, 0.92 * width, edgecolor="white", linewidth=0, **look(index))
            if row.low is not None and row.high is not None:
                axes.plot([x, x], [row.low, row.high], color="0.2", linewidth=1)
        if measure == CLUSTERING:
            axes.axhline(_CHANCE, color="0.35", linestyle="--", linewidth=1)
        axes.set_xticks(range(len(seeds)), [f"{start} seeds" for start in seeds])
        axes.set_xlim(-0.5, len(seeds) - 0.5)
        axes.set_ylim(0, 1.02)
        axes.set_title(f"{_MEASURES[measure]}, {judge}")
        axes.set_ylabel("share matched with the target" if number == 0 else "")
    for index, model in enumerate(models):
        figure.axes[0].bar([0], [0], edgecolor="white", linewidth=0, label=model, **look(index))
    figure.legend(loc="outside upper left", ncols=2)
    _say_left_out(figure, request, (row for row in every if row.observer not in models), judge)


FIGURES = (
    FigureKind(
        name="representation-robustness",
        summary="Representation alignment of each model against its robust accuracy, by loss where it is known.",
        rows=_ROWS,
        draw=_robustness,
        source=f"{_SOURCE}, Figure 4",
    ),
    FigureKind(
        name="representation-bars",
        summary="2AFC and clustering shares of each model by kind of seeds; dashed: chance.",
        rows=_ROWS,
        draw=_bars,
        source=f"{_SOURCE}, Table 1",
    ),
    *(
        FigureKind(
            name=f"representation-{factor}",
            summary=f"2AFC and clustering shares by architecture and {words}; dashed: chance.",
            rows="cosight score SET/trials --on representation --families FILE --out scores.json",
            draw=partial(_by_factor, factor=factor),
            source=f"{_SOURCE}, {published}",
        )
        for factor, words, published in (
            (_LOSS, "training loss", "Figures 5 and 11"),
            ("augmentation", "augmentation", "Figure 6"),
            ("paradigm", "learning paradigm", "Figure 7"),
        )
    ),
)

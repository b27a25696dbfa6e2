"""Figures of LAION-C, drawn from the rows of `cosight score RUN --on laion-c`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from cosight.benchmarks.laion_c.published import DISTORTIONS, PREFIX
from cosight.benchmarks.laion_c.results_table import (
    ACCURACY,
    ALL_TRIALS,
    BEST,
    CONSISTENCY,
    EXPERIMENT,
    KENDALL,
    LEAST_ACCURACY,
    OVERALL,
    person_title,
    set_mean,
)
from cosight.errors import InvalidInput
from cosight.reports.figures.curves import legend_below, line_style
from cosight.reports.figures.entry import FigureKind, FigureRequest
from cosight.reports.plots import COLOURS
from cosight.statistics.pair_scores import CEILING_ONE
from cosight.statistics.rows import MODELS, PEOPLE, SIMULATED, GroupKey, Row
from cosight.statistics.seeds import display_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["FIGURES"]

_ROWS = "cosight score RUN --on laion-c --out scores.json"
_GROUPS = (PEOPLE, SIMULATED, BEST, MODELS)
_CHANCE = 1 / 16
_INK = "0.15"  # people and reference lines


def _accuracies(request: FigureRequest, *, published: bool = False) -> dict[str, dict[GroupKey, Row]]:
    """Return the rows of accuracy by observer and group; of single people none.

    Raises:
        InvalidInput: The rows are not those of LAION-C.
    """
    found: dict[str, dict[GroupKey, Row]] = {}
    for row in request.rows:
        if (row.measure, row.statistic) != (ACCURACY, "value") or row.value is None:
            continue
        if row.observer.startswith(("human:", "simulated:")) or ("published" in row.flags and not published):
            continue
        found.setdefault(row.observer, {})[row.group] = row
    if not any(OVERALL in groups for observer, groups in found.items() if not observer.startswith(PREFIX)):
        raise InvalidInput(f"these scores are not LAION-C's; make them with `{_ROWS}`")
    return found


def _models(accuracies: Iterable[str]) -> list[str]:
    return [name for name in accuracies if name not in _GROUPS and not name.startswith(PREFIX)]


def _level_group(experiment: str, condition: str, level: int) -> GroupKey:
    return (("experiment", experiment), ("condition", condition), ("level", str(level)))


def _curve(
    axes: Axes, groups: dict[GroupKey, Row], experiment: str, condition: str, *, band: bool, **style: Any
) -> None:
    """Draw accuracy over levels, with the interval as a band."""
    rows = [(level, groups.get(_level_group(experiment, condition, level))) for level in range(1, 6)]
    points = [(level, row) for level, row in rows if row is not None]
    if not points:
        return
    levels = [level for level, _ in points]
    axes.plot(levels, [row.value or 0.0 for _, row in points], **style)
    ends = [(row.low, row.high) for _, row in points]
    if band and all(low is not None and high is not None for low, high in ends):
        lows, highs = [low or 0.0 for low, _ in ends], [high or 0.0 for _, high in ends]
        axes.fill_between(levels, lows, highs, color=style["color"], alpha=0.15, linewidth=0)


def _finish_levels(axes: Axes, title: str) -> None:
    axes.set_title(title.replace("_", " "), fontsize=9)
    axes.axhline(_CHANCE, color="0.7", linewidth=0.8, linestyle=":")
    axes.set_ylim(0, 1)
    axes.set_xticks(range(1, 6))
    axes.grid(axis="y", color="0.93")


def _panels(figure: Figure, draw: Callable[[Axes, str], None]) -> None:
    """Draw one panel per distortion, two rows of three."""
    figure.set_size_inches(7.2, 4.6)
    grid = figure.subplots(2, 3, sharex=True, sharey=True)
    for axes, condition in zip(grid.flat, DISTORTIONS, strict=True):
        draw(axes, condition)
        if not axes.lines:
            axes.text(0.5, 0.5, "no trials", transform=axes.transAxes, ha="center", color="0.5")
        _finish_levels(axes, condition)
    for axes in grid[1]:
        axes.set_xlabel("level")
    for axes in grid[:, 0]:
        axes.set_ylabel("accuracy")
    legend_below(figure, grid.flat)


def _draw_people(axes: Axes, accuracies: dict[str, dict[GroupKey, Row]], condition: str) -> None:
    for name, line in ((PEOPLE, "-"), (SIMULATED, "-"), (BEST, "--")):
        if name in accuracies:
            label = person_title(accuracies[BEST][OVERALL]) if name == BEST else f"{name}, mean"
            style = {"color": _INK, "linestyle": line, "linewidth": 1.8, "label": label}
            _curve(axes, accuracies[name], EXPERIMENT, condition, band=True, **style)


def _best(figure: Figure, request: FigureRequest) -> None:
    """The best person and the best model of each distortion, with intervals (Figure 6)."""
    accuracies = _accuracies(request)

    def draw(axes: Axes, condition: str) -> None:
        group = (("experiment", EXPERIMENT), ("condition", condition), ("level", "*"))
        able = [name for name in _models(accuracies) if group in accuracies[name]]
        if able:
            name = max(able, key=lambda one: accuracies[one][group].value or 0.0)
            style = {**line_style(0), "label": "best model"}
            _curve(axes, accuracies[name], EXPERIMENT, condition, band=True, **style)
            text = display_name(name)  # at the top right, because curves fall
            axes.text(0.98, 0.98, text, transform=axes.transAxes, ha="right", va="top", fontsize=6, color=COLOURS[0])
        if BEST in accuracies:
            style = {**line_style(1), "label": person_title(accuracies[BEST][OVERALL])}
            _curve(axes, accuracies[BEST], EXPERIMENT, condition, band=True, **style)

    _panels(figure, draw)


def _fine_tuning(figure: Figure, request: FigureRequest) -> None:
    """Models before and after fine-tuning with the published ones and the best person (Figure 9)."""
    accuracies = _accuracies(request, published=True)
    levels = [name for name in accuracies if name.startswith(PREFIX) and OVERALL not in accuracies[name]]

    def draw(axes: Axes, condition: str) -> None:
        for index, name in enumerate(_models(accuracies)):
            style = {**line_style(index), "label": display_name(name)}
            _curve(axes, accuracies[name], EXPERIMENT, condition, band=True, **style)
        for name, line in zip(levels, ("--", "-"), strict=False):
            label = name.replace(PREFIX, "published: ")
            style = {"color": "0.6", "linestyle": line, "linewidth": 1.2, "label": label}
            _curve(axes, accuracies[name], EXPERIMENT, condition, band=False, **style)
        _draw_people(axes, {name: rows for name, rows in accuracies.items() if name == BEST}, condition)

    _panels(figure, draw)


def _sets(accuracies: dict[str, dict[GroupKey, Row]]) -> list[str]:
    """Return the sets with a mean over conditions and levels, LAION-C first."""
    groups = [group for name in _models(accuracies) for group in accuracies[name]]
    names = dict.fromkeys(group[0][1] for group in groups if group and group == set_mean(group[0][1]))
    return sorted(names, key=lambda name: name != EXPERIMENT)


def _levels(figure: Figure, request: FigureRequest) -> None:
    """Accuracy over levels, mean over conditions, one panel per set (Figure 5)."""
    accuracies = _accuracies(request)
    with_levels = [
        name
        for name in _sets(accuracies)
        if any(_level_group(name, "*", 1) in accuracies[model] for model in _models(accuracies))
    ]
    figure.set_size_inches(1.2 + 2.8 * len(with_levels), 3.2)
    panels = figure.subplots(1, len(with_levels), sharey=True, squeeze=False)[0]
    for axes, experiment in zip(panels, with_levels, strict=True):
        for index, name in enumerate(_models(accuracies)):
            style = {**line_style(index), "label": display_name(name)}
            _curve(axes, accuracies[name], experiment, "*", band=True, **style)
        _finish_levels(axes, experiment)
        axes.set_xlabel("level")
    panels[0].set_ylabel("accuracy, mean over conditions")
    legend_below(figure, panels)


def _spread(figure: Figure, request: FigureRequest) -> None:
    """Each model's accuracy on each set, and the standard deviation across models (Figure 4)."""
    accuracies = _accuracies(request)
    sets, models = _sets(accuracies), _models(accuracies)
    deviation = {
        row.group[0][1]: row
        for row in request.rows
        if row.statistic == "sd" and row.measure == ACCURACY and row.group == set_mean(row.group[0][1])
    }
    figure.set_size_inches(2.2 + 1.5 * len(sets), 3.2)
    axes = figure.add_subplot()
    for index, name in enumerate(models):
        points = [
            (x, accuracies[name][set_mean(one)]) for x, one in enumerate(sets) if set_mean(one) in accuracies[name]
        ]
        xs, values = [x for x, _ in points], [row.value or 0.0 for _, row in points]
        axes.plot(xs, values, **{**line_style(index), "linewidth": 0.6, "markersize": 4}, label=display_name(name))
    for x, one in enumerate(sets):
        row = deviation.get(one)
        if row is not None and row.value is not None:
            interval = "" if row.low is None else f"\n[{row.low:.2f}, {row.high:.2f}]"
            axes.annotate(f"SD {row.value:.2f}{interval}", (x, 1.0), ha="center", va="top", fontsize=7)
    axes.set_xticks(range(len(sets)), sets)
    axes.set_xlim(-0.5, len(sets) - 0.5)
    axes.set_ylim(0, 1)
    axes.set_ylabel("accuracy, mean over conditions and levels")
    axes.grid(axis="y", color="0.93")
    legend_below(figure, [axes])


def _scatter(figure: Figure, request: FigureRequest) -> None:
    """Each model on LAION-C and on another set, with Kendall's tau (Figures 3 and 10)."""
    accuracies = _accuracies(request)
    others = [name for name in _sets(accuracies) if name != EXPERIMENT]
    if not others:
        raise InvalidInput(
            "these scores have no other set than LAION-C; add a run such as that of "
            "`cosight evaluate MODEL --on imagenet-c --labels laion-c-16 --source PHOTOS`"
        )
    figure.set_size_inches(0.8 + 3.4 * len(others), 3.4)
    panels = figure.subplots(1, len(others), sharey=True, squeeze=False)[0]
    for axes, other in zip(panels, others, strict=True):
        for index, name in enumerate(_models(accuracies)):
            x, y = (accuracies[name].get(set_mean(one)) for one in (other, EXPERIMENT))
            if x is None or y is None:
                continue
            chosen = (x.value or 0.0) >= LEAST_ACCURACY
            style = {**line_style(index), "markersize": 5, "linestyle": "none", "label": display_name(name)}
            axes.errorbar(
                [x.value or 0.0],
                [y.value or 0.0],
                xerr=_arms(x),
                yerr=_arms(y),
                elinewidth=0.6,
                markerfacecolor=style["color"] if chosen else "white",
                **style,
            )
        axes.plot([0, 1], [0, 1], color="0.75", linewidth=0.8, linestyle=":")
        axes.axvline(LEAST_ACCURACY, color="0.85", linewidth=0.8)
        texts = []
        for row in request.rows:
            if (row.measure, row.against) == (KENDALL, other) and row.value is not None:
                interval = "" if row.low is None else f" [{row.low:.2f}, {row.high:.2f}]"
                which = "all models" if row.group == ALL_TRIALS else f"accuracy {row.group[-1][1]}"
                texts.append(f"tau {row.value:.2f}{interval}, {which} (n = {row.n})")
        axes.set_title("\n".join(texts), fontsize=7)
        axes.set_xlabel(f"accuracy on {other}")
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1)
    panels[0].set_ylabel("accuracy on LAION-C")
    legend_below(figure, panels)


def _arms(row: Row) -> list[list[float]] | None:
    """Return the lengths of an interval's arms, as matplotlib takes them."""
    if row.value is None or row.low is None or row.high is None:
        return None
    return [[max(row.value - row.low, 0.0)], [max(row.high - row.value, 0.0)]]


def _consistency(figure: Figure, request: FigureRequest) -> None:
    """Error consistency with people and accuracy of each model, with the reachable range (Figure 8)."""
    accuracies = _accuracies(request)
    by_statistic: dict[str, dict[str, Row]] = {}
    for row in request.rows:
        if row.measure == CONSISTENCY and row.group == ALL_TRIALS and row.value is not None:
            by_statistic.setdefault(row.statistic, {})[row.observer] = row
    values = by_statistic.get("value", {})
    if not values:
        raise InvalidInput(
            "these scores have no error consistency with people; score with --humans TRIALS of people on these images"
        )
    figure.set_size_inches(5.2, 3.6)
    axes = figure.add_subplot()
    for index, name in enumerate(_models(accuracies)):
        x, y = accuracies[name].get(OVERALL), values.get(name)
        if x is None or y is None:
            continue
        style = {**line_style(index), "markersize": 5, "linestyle": "none", "label": display_name(name)}
        axes.errorbar([x.value or 0.0], [y.value or 0.0], xerr=_arms(x), yerr=_arms(y), elinewidth=0.8, **style)
        top = by_statistic.get("highest_reachable", {}).get(name)
        if top is not None and top.value is not None:
            axes.plot([x.value or 0.0], [top.value], "_", color=style["color"], markersize=8)
    for row in by_statistic.get(CEILING_ONE, {}).values():
        axes.axhline(row.value or 0.0, color=_INK, linewidth=1, linestyle="--", label=f"{row.observer} with each other")
    axes.axhline(0, color="0.8", linewidth=0.8)
    axes.set_xlabel("accuracy on LAION-C")
    against = next(iter(values.values())).against  # people, or simulated people
    axes.set_ylabel(f"error consistency with {against}\n(dash: highest reachable)")
    axes.set_xlim(left=0)
    axes.grid(color="0.93")
    legend_below(figure, [axes])


def _kind(name: str, summary: str, draw: Callable[[Figure, FigureRequest], None], number: str) -> FigureKind:
    return FigureKind(name=name, summary=summary, rows=_ROWS, draw=draw, source=f"Li et al. 2025, {number}")


FIGURES: Sequence[FigureKind] = (
    _kind(
        "laion-c-best",
        "Accuracy by level of each distortion: the best model and the best person, with intervals.",
        _best,
        "Figure 6",
    ),
    _kind("laion-c-levels", "Accuracy by level, mean over conditions, one panel per set.", _levels, "Figure 5"),
    _kind("laion-c-spread", "Accuracy of every model on each set, and their standard deviation.", _spread, "Figure 4"),
    _kind(
        "laion-c-scatter",
        "Accuracy on LAION-C and on each other set, with Kendall's tau.",
        _scatter,
        "Figures 3 and 10",
    ),
    _kind(
        "laion-c-consistency",
        "Error consistency with people by accuracy, with the highest reachable value.",
        _consistency,
        "Figure 8",
    ),
    _kind(
        "laion-c-fine-tuning",
        "Accuracy by level before and after fine-tuning, with the published ones and the best person.",
        _fine_tuning,
        "Figure 9",
    ),
)

"""Figures of a value over a quantity: level, threshold of abstention, coverage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cosight.benchmarks.laion_c.published import PREFIX
from cosight.benchmarks.laion_c.results_table import BEST, EXPERIMENT, person_title
from cosight.errors import InvalidInput
from cosight.measures import measures
from cosight.reports.figures.entry import FigureKind, FigureRequest
from cosight.reports.plots import COLOURS, MARKERS
from cosight.statistics.abstention_scores import COST, RELIABILITY
from cosight.statistics.row_text import group_name
from cosight.statistics.rows import MODELS, PEOPLE, SIMULATED, GroupKey, Row
from cosight.statistics.seeds import display_name
from cosight.statistics.selective_scores import COVERAGE, OWN, SELECTIVE_RISK
from cosight.trials.join import natural_key

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["FIGURES", "legend_below", "line_style"]

_ACROSS, _WIDTH, _HEIGHT = 3, 2.4, 2.2  # panels side by side, and their size in inches
_LETTER, _LINE = 0.075, 0.19  # inches: width of a letter of a name, height of a line of the legend
_STYLES = ("-", "--", "-.", ":")
_INK = "0.15"  # people
_CHANCE = {EXPERIMENT: 1 / 16}  # accuracy of guessing, where the rows are of a set whose classes are known
_PEOPLE = ("human:", "simulated:")
_GAMMA = "gamma"


def line_style(index: int) -> dict[str, Any]:
    """Return colour, line and marker of an observer; no two of the first 32 are alike, and they differ in grey too."""
    return {
        "color": COLOURS[index % len(COLOURS)],
        "linestyle": _STYLES[index // len(COLOURS) % len(_STYLES)],
        "linewidth": 1.2,
        "marker": MARKERS[index % len(MARKERS)],
        "markersize": 3.5,
    }


def _people_label(row: Row) -> str:
    """Return what a row of people is called in a legend: simulated people are always called so."""
    return person_title(row) if row.observer == BEST else f"{row.observer}, mean"


def _observers(rows: Iterable[Row]) -> tuple[list[str], list[str]]:
    """Return the models, and people: the groups of people, or single ones where there is no group."""
    names = list(dict.fromkeys(row.observer for row in rows))
    groups = [name for name in (PEOPLE, SIMULATED, BEST) if name in names]
    single = [name for name in names if name.startswith(_PEOPLE)]
    models = [name for name in names if name not in (*groups, MODELS) and not name.startswith((*_PEOPLE, PREFIX))]
    return models, groups or single


def _grid(figure: Figure, titles: Sequence[str], *, sharey: bool = True) -> list[Axes]:
    """Return one panel per title, as many side by side as fit."""
    across = min(len(titles), _ACROSS)
    down = -(-len(titles) // across)
    size = (_WIDTH * across + 0.4, _HEIGHT * down + 0.2) if len(titles) > 1 else (4.6, 3.2)
    figure.set_size_inches(*size)
    panels = list(figure.subplots(down, across, sharex=True, sharey=sharey, squeeze=False).flat)
    for panel in panels[len(titles) :]:
        panel.remove()
    for panel, title in zip(panels, titles, strict=False):
        panel.set_title(title.replace("_", " "), fontsize=9)
        panel.grid(axis="y", color="0.93")
    return panels[: len(titles)]


def legend_below(figure: Figure, panels: Iterable[Axes]) -> None:
    """Add one legend for all panels, and space for it."""
    known: dict[str, Any] = {}
    for axes in panels:
        handles, labels = axes.get_legend_handles_labels()
        known |= {label: handle for handle, label in zip(handles, labels, strict=True) if label not in known}
    width, height = figure.get_size_inches()
    entry = 0.55 + _LETTER * max(map(len, known), default=0)
    width = max(width, 0.2 + entry)  # a long name is not cut
    columns = max(1, int((width - 0.2) / entry))
    figure.set_size_inches(width, height + _LINE * -(-len(known) // columns))
    figure.legend(list(known.values()), list(known), loc="outside lower center", ncols=columns)


def _plot(axes: Axes, points: Sequence[tuple[float, Row]], *, band: bool, **style: Any) -> None:
    """Draw values over a quantity, with intervals as a band or as thin bars."""
    points = [(x, row) for x, row in sorted(points, key=lambda point: point[0]) if row.value is not None]
    if not points:
        return
    axes.plot([x for x, _ in points], [row.value or 0.0 for _, row in points], **style)
    ends = [(x, row.low, row.high) for x, row in points if row.low is not None and row.high is not None]
    if band and len(ends) > 1:
        xs, lows, highs = zip(*ends, strict=True)
        axes.fill_between(xs, lows, highs, color=style["color"], alpha=0.15, linewidth=0)
        return
    for x, low, high in ends:
        axes.plot([x, x], [low, high], color=style["color"], linewidth=0.6, alpha=0.6)


# ---- values over levels or conditions


def _curves(figure: Figure, request: FigureRequest) -> None:
    """One panel per experiment and condition, a line per model and for people, over levels; else over conditions."""
    name = request.measure_or("accuracy")
    rows = [row for row in request.rows if (row.measure, row.statistic) == (name, "value") and row.value is not None]
    rows = [row for row in rows if "published" not in row.flags and "*" not in dict(row.group).values()]
    key = next((key for key in ("level", "condition") if any(row.in_group(key) is not None for row in rows)), None)
    panels: dict[GroupKey, list[Row]] = {}
    for row in rows:
        if key is not None and row.in_group(key) is not None:
            panels.setdefault(tuple(item for item in row.group if item[0] != key), []).append(row)
    panels = {group: own for group, own in panels.items() if len({row.in_group(key or "") for row in own}) > 1}
    if not panels or key is None:
        raise InvalidInput(
            f"these scores have no {name} at several levels or conditions; score with --by condition,level"
        )
    models, people = _observers(row for own in panels.values() for row in own)
    several = len({dict(group).get("experiment") for group in panels}) > 1
    axes = _grid(figure, [_panel_title(group, several=several) for group in panels])
    for panel, (group, own) in zip(axes, panels.items(), strict=True):
        ticks = sorted({row.in_group(key) or "" for row in own}, key=natural_key)
        numeric = all(tick.lstrip("-").isdigit() for tick in ticks)
        place = {tick: float(tick) if numeric else float(index) for index, tick in enumerate(ticks)}
        by_observer: dict[str, list[tuple[float, Row]]] = {}
        for row in own:
            by_observer.setdefault(row.observer, []).append((place[row.in_group(key) or ""], row))
        for index, model in enumerate(models):
            style = {**line_style(index), "label": display_name(model)}
            shift = 0.03 * (index - (len(models) - 1) / 2)  # bars of different models stay apart
            shifted = [(x + shift, row) for x, row in by_observer.get(model, [])]
            _plot(panel, shifted, band=False, **style)
        for person in people:
            if person in by_observer:
                points = by_observer[person]
                _plot(panel, points, band=not person.startswith(_PEOPLE), **_people_style(points[0][1]))
        panel.set_xticks(list(place.values()), list(place), rotation=0 if numeric else 60)
        if (chance := _CHANCE.get(dict(group).get("experiment", ""))) is not None and name == "accuracy":
            panel.axhline(chance, color="0.7", linewidth=0.8, linestyle=":", zorder=0)
    if (measures[name].low, measures[name].high) == (0, 1):
        axes[0].set_ylim(0, 1)
    for panel in axes[::_ACROSS]:
        panel.set_ylabel(name.replace("_", " "))
    for panel in axes[-min(_ACROSS, len(axes)) :]:
        panel.set_xlabel(key)
    legend_below(figure, axes)


def _people_style(row: Row) -> dict[str, Any]:
    if row.observer.startswith(_PEOPLE):
        return {"color": "0.6", "linewidth": 0.8, "label": "single people"}
    return {
        "color": _INK,
        "linestyle": "--" if row.observer == BEST else "-",
        "linewidth": 1.8,
        "label": _people_label(row),
    }


def _panel_title(group: GroupKey, *, several: bool = False) -> str:
    """Return the condition, with the experiment where there are several, or whatever else a panel is about."""
    facts = dict(group)
    condition = facts.get("condition") or group_name(group) or "all trials"
    return f"{facts['experiment']}: {condition}" if several and "experiment" in facts else condition


# ---- reliability over gamma


def _gamma_sweep(figure: Figure, request: FigureRequest) -> None:
    """Reliability over gamma, one panel per cost of a wrong answer, a line per model; these rows have no intervals."""
    rows = [row for row in request.rows if row.measure == RELIABILITY and "sweep" in row.flags]
    rows = [row for row in rows if not row.observer.startswith(_PEOPLE)]  # they answer or refuse at every gamma
    if not rows:
        raise InvalidInput(
            "these scores have no sweep over gamma; score trials with abstention, in a label space with abstain"
        )
    costs = list(dict.fromkeys(row.in_group(COST) or "" for row in rows))
    names = list(dict.fromkeys(row.observer for row in rows))
    axes = _grid(figure, [f"cost {cost}" for cost in costs], sharey=False)
    for panel, cost in zip(axes, costs, strict=True):
        for index, name in enumerate(names):
            own = [row for row in rows if row.observer == name and row.in_group(COST) == cost]
            points = [(float(row.in_group(_GAMMA) or "nan"), row) for row in own]
            label = display_name(name) + (" (against simulated people)" if "simulated" in own[0].flags else "")
            _plot(panel, points, band=False, **line_style(index), label=label)
        panel.axhline(0, color="0.7", linewidth=0.8, zorder=0)
        panel.set_xlabel("gamma: abstains above")
    axes[0].set_ylabel("reliability score")
    legend_below(figure, axes)


# ---- risk over coverage


def _risk_coverage(figure: Figure, request: FigureRequest) -> None:
    """Errors among the answers over the share answered: curves of models, points of people and of what models chose."""
    rows = [row for row in request.rows if row.measure == SELECTIVE_RISK and row.statistic == "value"]
    if not rows:
        raise InvalidInput(
            "these scores have no risk over coverage; make them with `cosight score SOURCES --measure "
            "coverage,selective_risk --out scores.json`"
        )
    coverages = {(row.observer, row.group): row for row in request.rows if row.measure == COVERAGE}
    panels: dict[GroupKey, list[Row]] = {}
    for row in rows:
        panels.setdefault(tuple(item for item in row.group if item[0] != COVERAGE), []).append(row)
    models, people = _observers(rows)
    axes = _grid(figure, [_panel_title(group) for group in panels])
    for panel, (group, own) in zip(axes, panels.items(), strict=True):
        at: dict[str, dict[str, Row]] = {}
        for row in own:
            at.setdefault(row.observer, {})[row.in_group(COVERAGE) or ""] = row
        for index, name in enumerate(models):
            points = [(float(key), row) for key, row in at.get(name, {}).items() if _is_number(key)]
            _plot(panel, points, band=True, **line_style(index), label=display_name(name))
        for person in people:
            _own_point(panel, at.get(person, {}), coverages.get((person, group)), person)
        panel.set_xlabel("coverage: share answered")
    axes[0].set_ylim(bottom=0)
    axes[0].set_xlim(0, 1.03)
    for panel in axes[::_ACROSS]:
        panel.set_ylabel("selective risk: errors\namong the answers")
    legend_below(figure, axes)


def _own_point(axes: Axes, at: Mapping[str, Row], coverage: Row | None, person: str) -> None:
    """Draw the one point of people, who answer or do not, with both intervals."""
    row = at.get(OWN)
    if row is None or row.value is None or coverage is None or coverage.value is None:
        return
    single = person.startswith(_PEOPLE)
    label = "single people" if single else f"{person}, pooled"
    colour = "0.6" if single else _INK
    if coverage.low is not None and coverage.high is not None:
        axes.plot([coverage.low, coverage.high], [row.value] * 2, color=colour, linewidth=1)
    if row.low is not None and row.high is not None:
        axes.plot([coverage.value] * 2, [row.low, row.high], color=colour, linewidth=1)
    axes.plot([coverage.value], [row.value], "*", color=colour, markersize=5 if single else 10, label=label)


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdigit()


FIGURES = (
    FigureKind(
        name="curves",
        summary="A value by level of each condition, or by condition: every model, and people, with intervals.",
        rows="cosight score SOURCES --by condition,level --out scores.json",
        draw=_curves,
        source="Li et al. 2025, Figure 11",
    ),
    FigureKind(
        name="gamma-sweep",
        summary="Reliability by the threshold gamma of abstention, without intervals; a panel per cost of an error.",
        rows="cosight score RUN --out scores.json",
        draw=_gamma_sweep,
    ),
    FigureKind(
        name="risk-coverage",
        summary="Errors among the answers by the share answered: curves of models, points of people, with intervals.",
        rows="cosight score SOURCES --measure coverage,selective_risk --out scores.json",
        draw=_risk_coverage,
    ),
)

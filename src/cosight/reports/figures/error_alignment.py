"""Figures of error alignment, from rows of `cosight score --on error-alignment` (Xu et al. 2024, Figures 3 to 6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, combinations_with_replacement
from typing import TYPE_CHECKING

from cosight.errors import InvalidInput
from cosight.measures import measures
from cosight.reports.figures.entry import FigureKind, FigureRequest
from cosight.reports.plots import COLOURS, MARKERS
from cosight.statistics.correlations import CORRELATION, FAMILIES, KIND_OF_DOMAIN
from cosight.statistics.row_text import group_name, short_name
from cosight.statistics.rows import GroupKey, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["FIGURES"]

_ROWS = "cosight score SOURCES --on error-alignment --out scores.json"
_PERSON = "person"
_ACCURACY, _EC, _MA = "accuracy", "error_consistency", "misclassification_agreement"
_CLES = ("class_level_error_similarity", "class_level_error_similarity_pooled")
_FIRST = (_PERSON, "CNN", "transformer")  # families in this order, then others as they come
_PAIR_KINDS = ("people", "model and person", "models")  # in the order of their colours
_MOST_NAMES = 45  # observers of a heatmap with names on its axes
_ACROSS, _WIDEST = 4, 15.0  # panels side by side, and inches that they may take
_FAINTEST = 0.15  # opacity of a point of accuracy 0


@dataclass(frozen=True, slots=True)
class _Pairs:
    """The values of single pairs by domain, and the families of the observers."""

    values: Mapping[tuple[GroupKey, str], Mapping[tuple[str, str], float]]  # (domain, measure) -> pair -> value
    families: Mapping[str, str]  # observers in order: people first, then family by family
    domains: tuple[GroupKey, ...]

    @classmethod
    def of(cls, rows: Sequence[Row]) -> _Pairs:
        """Read them off score rows.

        Raises:
            InvalidInput: The rows have no z-scores, which tell domains and families.
        """
        families: dict[str, str] = {}
        domains: dict[GroupKey, None] = {}
        for row in rows:
            if row.statistic == "z" and row.against is not None:
                domains[row.group[: -len(FAMILIES)]] = None
                families |= zip((row.observer, row.against), (value for _, value in row.group[-2:]), strict=True)
        if not families:
            raise InvalidInput(f"these scores have no families of observers; name a file that `{_ROWS}` wrote")
        order = _ordered_families(families.values())
        ordered = sorted(families, key=lambda name: order.index(families[name]))
        values: dict[tuple[GroupKey, str], dict[tuple[str, str], float]] = {}
        for row in rows:
            is_value = row.statistic == "value" and row.group in domains and row.value is not None
            if is_value and row.observer in families and row.against in families:
                values.setdefault((row.group, row.measure), {})[row.observer, row.against] = row.value or 0.0
        return cls(values, {name: families[name] for name in ordered}, tuple(domains))

    def of_kind(self, pair: tuple[str, str]) -> str:
        """Return the kind of a pair, of `_PAIR_KINDS`."""
        people = sum(self.families[name] == _PERSON for name in pair)
        return _PAIR_KINDS[{2: 0, 1: 1, 0: 2}[people]]


def _ordered_families(families: Iterable[str]) -> list[str]:
    """Return each family once: people first."""
    found = list(dict.fromkeys(families))
    return [*(name for name in _FIRST if name in found), *(name for name in found if name not in _FIRST)]


def _domain_title(domain: GroupKey) -> str:
    return group_name(domain) or "all trials"


def _panels(figure: Figure, count: int, *, width: float, height: float) -> list[Axes]:
    """Return so many axes, as many side by side as fit, each of this size in inches."""
    across = min(count, _ACROSS, max(1, int(_WIDEST / width)))
    down = -(-count // across)
    figure.set_size_inches(width * across, height * down)
    return [figure.add_subplot(down, across, index + 1) for index in range(count)]


# ---- heatmaps of one measure (Figure 3)


def _heatmap(figure: Figure, request: FigureRequest) -> None:
    """One panel per domain: every two observers, people first, models family by family."""
    name = request.measure_or(_EC)
    pairs = _Pairs.of(request.rows)
    domains = [domain for domain in pairs.domains if (domain, name) in pairs.values]
    if not domains:
        raise InvalidInput(f"no pair has a value of {name} in these scores; choose another with --measure")
    several = len(domains) > 1
    axes = _panels(figure, len(domains), width=3.6 if several else 7.0, height=3.3 if several else 6.2)
    known = [value for domain in domains for value in pairs.values[domain, name].values()]
    reverse = "_r" if measures[name].direction == "lower" else ""  # dark is always alike
    image = None
    for panel, domain in zip(axes, domains, strict=True):
        values = pairs.values[domain, name]
        present = {observer for pair in values for observer in pair}
        names = [observer for observer in pairs.families if observer in present]
        grid = [[values.get((a, b), values.get((b, a), float("nan"))) for b in names] for a in names]
        image = panel.imshow(grid, cmap=f"Blues{reverse}", vmin=min(known), vmax=max(known), aspect="equal")
        panel.patch.set(hatch="////", edgecolor="0.8", linewidth=0)  # so that no value does not look like a low one
        panel.set_title(_domain_title(domain), fontsize=9)
        starts = [i for i, one in enumerate(names) if not i or pairs.families[one] != pairs.families[names[i - 1]]]
        ends = [*starts[1:], len(names)]
        for start in starts[1:]:
            panel.axhline(start - 0.5, color="0.25", linewidth=0.6)
            panel.axvline(start - 0.5, color="0.25", linewidth=0.6)
        if not several and len(names) <= _MOST_NAMES:
            panel.set_xticks(range(len(names)), names, rotation=90, fontsize=6)
            panel.set_yticks(range(len(names)), names, fontsize=6)
        else:
            middles = [(start + end - 1) / 2 for start, end in zip(starts, ends, strict=True)]
            titles = [pairs.families[names[start]] for start in starts]
            panel.set_xticks(middles, titles, rotation=30, ha="right", fontsize=7)
            panel.set_yticks(middles, titles, fontsize=7)
            panel.tick_params(length=0)
        for side in panel.spines.values():
            side.set_visible(False)
    if image is not None:
        figure.colorbar(image, ax=axes, shrink=0.8, label=f"{name.replace('_', ' ')} ({short_name(name)})")


# ---- two measures of the same pairs (Figure 4)


def _scatter(figure: Figure, request: FigureRequest) -> None:
    """EC against MA, and CLES against MA on a logarithmic axis, every pair of every domain."""
    pairs = _Pairs.of(request.rows)
    cles = next((name for name in _CLES if any(row.measure == name for row in request.rows)), None)
    if cles is None or not all(any(row.measure == name for row in request.rows) for name in (_EC, _MA, _ACCURACY)):
        raise InvalidInput(f"the figure needs accuracy, EC, MA and CLES; name a file that `{_ROWS}` wrote")
    accuracy = {
        (row.group, row.observer): row.value
        for row in request.rows
        if (row.measure, row.statistic) == (_ACCURACY, "value") and row.value is not None
    }
    left, right = _panels(figure, 2, width=4.6, height=3.8)
    _points(left, pairs, _MA, _EC, accuracy, log=False)
    hidden = _points(right, pairs, _MA, cles, accuracy, log=True)
    left.set_xlabel("MA")
    left.set_ylabel("EC")
    right.set_xlabel("MA, logarithmic")
    right.set_ylabel(short_name(cles))
    if hidden:
        right.set_title(f"{hidden} pairs with MA of 0 or less have no logarithm", fontsize=8)
    present = {pairs.of_kind(pair) for values in pairs.values.values() for pair in values}
    for index, kind in enumerate(_PAIR_KINDS):
        if kind in present:
            left.plot([], [], MARKERS[index], color=COLOURS[index], markersize=4, label=kind)
    figure.legend(loc="outside upper left", ncols=3, title="pairs of; darker: higher mean accuracy", title_fontsize=8)


def _points(
    axes: Axes, pairs: _Pairs, x: str, y: str, accuracy: Mapping[tuple[GroupKey, str], float], *, log: bool
) -> int:
    """Draw the pairs of all domains; return how many a logarithmic axis cannot show."""
    from matplotlib.colors import to_rgba

    points: dict[str, list[tuple[float, float, tuple[float, float, float, float]]]] = {k: [] for k in _PAIR_KINDS}
    hidden = 0
    for domain in pairs.domains:
        across = pairs.values.get((domain, x), {})
        for pair, height in pairs.values.get((domain, y), {}).items():
            value = across.get(pair)
            if value is None:
                continue
            if log and value <= 0:
                hidden += 1
                continue
            both = [accuracy.get((domain, name), 0.5) for name in pair]
            opacity = _FAINTEST + (1 - _FAINTEST) * sum(both) / 2
            kind = pairs.of_kind(pair)
            points[kind].append((value, height, to_rgba(COLOURS[_PAIR_KINDS.index(kind)], opacity)))
    for kind in reversed(_PAIR_KINDS):  # people, of whom there are few, on top
        if points[kind]:
            xs, ys, colours = (list(part) for part in zip(*points[kind], strict=True))
            marker = MARKERS[_PAIR_KINDS.index(kind)]
            axes.scatter(xs, ys, c=colours, s=10, linewidths=0, marker=marker)
    if log:
        axes.set_xscale("log")
    axes.grid(color="0.92")
    return hidden


# ---- correlations between measures (Table 1 and Figure 5)


def _correlation_rows(rows: Iterable[Row]) -> list[Row]:
    found = [row for row in rows if row.measure == CORRELATION]
    if not found:
        raise InvalidInput(f"these scores have no correlations between measures; name a file that `{_ROWS}` wrote")
    return found


def _in_domain(figure: Figure, request: FigureRequest) -> None:
    """Spearman's r between two measures in each domain, one panel per two measures."""
    rows = _correlation_rows(request.rows)
    several = len({row.group for row in rows}) > 1
    inside = [row for row in rows if not several or (row.group and not _is_summary(row))]
    columns = list(dict.fromkeys((row.observer, row.against or "") for row in inside))
    names = list(dict.fromkeys(_domain_title(row.group) for row in inside))
    axes = _panels(figure, len(columns), width=2.4, height=0.9 + 0.19 * len(names))
    for index, (panel, column) in enumerate(zip(axes, columns, strict=True)):
        for row in inside:
            if (row.observer, row.against) != column or row.value is None:
                continue
            line = names.index(_domain_title(row.group))
            if row.low is not None and row.high is not None:
                panel.plot([row.low, row.high], [line, line], color=COLOURS[0], linewidth=1.2)
            panel.plot([row.value], [line], "o", color=COLOURS[0], markersize=4)
        average = [row for row in rows if row.group and _is_summary(row) and (row.observer, row.against) == column]
        if several and average and average[0].value is not None:
            panel.axvline(average[0].value, color="0.5", linestyle="--", linewidth=0.8)
        panel.axvline(0, color="0.8", linewidth=0.8)
        panel.set_title(" and ".join(map(short_name, column)), fontsize=8)
        panel.set_xlim(-1.05, 1.05)
        panel.set_ylim(len(names) - 0.5, -0.5)
        panel.set_yticks(range(len(names)), names if index % _ACROSS == 0 else [""] * len(names), fontsize=8)
        panel.grid(axis="x", color="0.92")
    figure.supxlabel("Spearman's r in each domain; dashed: their mean", fontsize=9)


def _is_summary(row: Row) -> bool:
    """Return whether a correlation is over several domains."""
    return any(value == "*" or key == KIND_OF_DOMAIN for key, value in row.group)


def _correlation_matrix(figure: Figure, request: FigureRequest) -> None:
    """Mean r over domains above the diagonal, r of all pairs pooled below it; one panel per kind of domain."""
    rows = _correlation_rows(request.rows)
    found = dict.fromkeys(row.in_group(KIND_OF_DOMAIN) for row in rows)
    kinds: list[str | None] = [kind for kind in found if kind is not None] or [None]
    names = list(dict.fromkeys(name for row in rows for name in (row.observer, row.against or "")))
    single = not any(_is_summary(row) for row in rows)  # one domain: its r is both
    axes = _panels(figure, len(kinds), width=1.6 + 0.55 * len(names), height=1.2 + 0.5 * len(names))
    for panel, kind in zip(axes, kinds, strict=True):
        grid = [[float("nan")] * len(names) for _ in names]
        for row in rows:
            is_mean = any(value == "*" for _, value in row.group)
            is_global = not row.group or (row.group[0][0] == KIND_OF_DOMAIN)
            if row.value is None or row.in_group(KIND_OF_DOMAIN) != kind or not (is_mean or is_global or single):
                continue
            low, high = sorted((names.index(row.observer), names.index(row.against or "")))
            if is_mean or single:
                grid[low][high] = row.value
            if is_global or single:
                grid[high][low] = row.value
        image = panel.imshow(grid, cmap="RdBu", vmin=-1, vmax=1)
        for i, j in combinations(range(len(names)), 2):
            for y, x in ((i, j), (j, i)):
                value = grid[y][x]
                if value == value:
                    shade = "white" if abs(value) > 0.65 else "black"
                    panel.text(x, y, f"{value:.2f}", ha="center", va="center", fontsize=8, color=shade)
        titles = [short_name(name) for name in names]
        panel.set_xticks(range(len(names)), titles, rotation=40, ha="right")
        panel.set_yticks(range(len(names)), titles)
        panel.set_title(kind or "", fontsize=9)
        panel.tick_params(length=0)
    figure.colorbar(image, ax=axes, shrink=0.8, label="Spearman's r")
    text = "r over pairs of observers" if single else "above the diagonal: mean r of domains\nbelow: all pairs pooled"
    figure.supxlabel(text, fontsize=9)


# ---- z-scores by family (Figure 6)


def _family_scores(figure: Figure, request: FigureRequest) -> None:
    """The z-score of every pair, one panel per measure, one column per two families."""
    rows = [row for row in request.rows if row.statistic == "z" and row.value is not None]
    if not rows:
        raise InvalidInput(f"these scores have no z-scores of pairs; name a file that `{_ROWS}` wrote")
    names = list(dict.fromkeys(row.measure for row in rows))
    if request.measure is not None:
        names = [request.measure_or(_MA)]
    families = _ordered_families(value for row in rows for _, value in row.group[-2:])
    of_pair = {frozenset((a, b)): (a, b) for a, b in combinations_with_replacement(families, 2)}
    present = {frozenset(value for _, value in row.group[-2:]) for row in rows}
    columns = [key for key in of_pair if key in present]
    kinds = {"same family": COLOURS[0], "two families": COLOURS[1], f"with a {_PERSON}": COLOURS[2]}
    kind_of = {column: "same family" if len(column) == 1 else "two families" for column in columns}
    kind_of |= {column: f"with a {_PERSON}" for column in columns if _PERSON in column and len(column) > 1}
    axes = _panels(figure, len(names), width=1.2 + 0.32 * len(columns), height=3.0)
    for panel, name in zip(axes, names, strict=True):
        for index, column in enumerate(columns):
            of_column = [r for r in rows if r.measure == name and {v for _, v in r.group[-2:]} == column]
            values = [row.value or 0.0 for row in of_column]
            offsets = [index + 0.5 * (k % 9 - 4) / 9 for k in range(len(values))]  # so that points do not hide others
            panel.plot(offsets, values, ".", color=kinds[kind_of[column]], markersize=3, alpha=0.6)
        panel.axhline(0, color="0.7", linewidth=0.8)
        panel.set_xlim(-0.5, len(columns) - 0.5)
        titles = [" - ".join(of_pair[column]) for column in columns]
        panel.set_xticks(range(len(columns)), titles, rotation=60, ha="right", fontsize=7)
        panel.set_title(short_name(name), fontsize=9)
    for kind, colour in kinds.items():
        if kind in kind_of.values():
            axes[0].plot([], [], "o", color=colour, markersize=4, label=kind)
    figure.legend(loc="outside upper left", ncols=3)
    figure.supylabel("z-score; higher is more alike", fontsize=9)


FIGURES = (
    FigureKind(
        name="ec-heatmap",
        summary="One measure of every two observers, people first, models by family; a panel per domain.",
        rows=_ROWS,
        draw=_heatmap,
        source="Xu et al. 2024, Figure 3",
    ),
    FigureKind(
        name="alignment-scatter",
        summary="EC against MA, and CLES against the logarithm of MA, of every pair.",
        rows=_ROWS,
        draw=_scatter,
        source="Xu et al. 2024, Figure 4",
    ),
    FigureKind(
        name="alignment-in-domain",
        summary="Spearman's r between measures in each domain, with intervals over observers.",
        rows=_ROWS,
        draw=_in_domain,
        source="Xu et al. 2024, Table 1",
    ),
    FigureKind(
        name="alignment-correlations",
        summary="Spearman's r between measures: mean of domains, and all pairs pooled.",
        rows=_ROWS,
        draw=_correlation_matrix,
        source="Xu et al. 2024, Figure 5",
    ),
    FigureKind(
        name="alignment-families",
        summary="z-scores of every pair by the families of its two observers; a panel per measure.",
        rows=_ROWS,
        draw=_family_scores,
        source="Xu et al. 2024, Figure 6",
    ),
)

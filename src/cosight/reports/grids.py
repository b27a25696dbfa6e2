"""Score rows as tables: people first, then models, each value with its interval.

A grid has texts and marks; the terminal and pages render it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from cosight.benchmarks.table_layout import BenchmarkTable, TableCell, TableColumn, TableLayout
from cosight.errors import InvalidInput
from cosight.measures import measures
from cosight.scoring.disagree import Disagreements
from cosight.statistics.correlations import CORRELATION
from cosight.statistics.row_text import decimals, group_name, number_text, short_name
from cosight.statistics.rows import GOLD, MODELS, PEOPLE, SIMULATED, SIMULATED_GOLD, GroupKey, Row, Scores
from cosight.statistics.verdict import ranked_measures, ranked_models

__all__ = [
    "Grid",
    "GridCell",
    "Line",
    "benchmark_grid",
    "benchmark_remarks",
    "ceiling_remarks",
    "comparison_grid",
    "correlation_grid",
    "default_sort",
    "disagreement_grid",
    "interval_caption",
    "pair_kind_grid",
    "score_grid",
    "undefined_remarks",
]

Mark = Literal["best", "second", ""]
_ORDER = (PEOPLE, SIMULATED, MODELS)
_MOST_REMARKS = 5  # reasons below a table
_MOST_LABELS = 4  # of an image in the table of disagreements
_MARKS: dict[int, tuple[str, Mark]] = {1: (" *", "best"), 2: (" +", "second")}
_CEILINGS = {"ceiling_leave_one_out": "leave-one-out", "ceiling_split_half": "split-half"}
_LineKey = tuple[GroupKey, str, str | None]  # group, observer, against


@dataclass(frozen=True, slots=True)
class GridCell:
    """A text, and whether it is the best or second best of its column."""

    text: str
    mark: Mark = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A row of a grid; lines of one section are shown together, below its title if it has one."""

    section: tuple[GroupKey, str]
    cells: tuple[GridCell, ...]
    title: str = ""


@dataclass(frozen=True, slots=True)
class Grid:
    """A table: one header per column, and lines.

    Attributes:
        headers: One text per column.
        lines: The rows.
        keys: How many of the first columns name a line.
        text: Indices of the columns that may be wrapped at words.
        remarks: Texts below the table.
    """

    headers: tuple[str, ...]
    lines: tuple[Line, ...]
    keys: int = 1
    text: tuple[int, ...] = ()
    remarks: tuple[str, ...] = ()


def comparison_grid(
    scores: Scores,
    *,
    list_pairs: bool = False,
    compact: bool = False,
    people: bool = False,
    sort: str | None = None,
    top: int | None = None,
    only_means: bool = False,
) -> Grid:
    """Return comparison scores as a table, one line per observer: people first, then the models, the closest first.

    Args:
        scores: Scores of `compare`.
        list_pairs: One line per pair instead.
        compact: Put intervals below values and groups above their lines, and leave `against` and `n` out where they are
            the same in every line.
        people: One line per person too. Without models and groups there always is.
        sort: Registered name of the measure that models are ranked by, or `name` (default: the first measure of two
            observers).
        top: Number of models to show (default: all).
        only_means: Only the mean over groups.

    Returns:
        The table. Its column `n` is the number of trials behind the first measure of pairs, else behind the first
        measure.

    Raises:
        InvalidInput: The scores do not have the measure to sort by.
    """
    columns = _measures_with_values(scores)
    has_groups = bool(scores.settings["by"])
    sort = sort or default_sort(scores)
    if sort not in (*columns, "name"):
        raise InvalidInput(f"--sort takes name or a measure of the table ({', '.join(columns)}), got {sort}")
    compared = list(_comparison_rows(scores, columns, list_pairs=list_pairs))
    if only_means:
        compared = [item for item in compared if all(value == "*" for _, value in item[0][0])]
    hidden = 0
    if not list_pairs:
        compared, hidden = _select_lines(scores, compared, people=people, sort=sort, top=top)
    lines = []
    has_column = has_groups and not compact  # of groups, which are titles in a compact table
    for (group, observer, against), rows in compared:
        names = [*([group_name(group)] if has_column else []), observer]
        pairs_first = sorted(filter(None, rows), key=lambda row: row.against is None)
        cells = [number_text(row, compact=compact) if row else "" for row in rows]
        section = (group, _section(scores, observer))
        line = _line(section, [*names, against or "", str(pairs_first[0].n), *cells])
        lines.append(replace(line, title=group_name(group) if has_groups and compact else ""))
    keys = 2 if has_column else 1
    headers = [*(["group"] if has_column else []), "observer", "against", "n", *map(short_name, columns)]
    remarks = [f"{hidden} more models; --top shows them"] if hidden else []
    grid = Grid(tuple(headers), tuple(lines), keys, remarks=tuple(remarks))
    return _without_constants(grid, ("against", "n")) if compact else grid


def default_sort(scores: Scores) -> str:
    """Return the measure that models are ranked by: the first of two observers, else the first with a better end."""
    able = [name for name in _measures_with_values(scores) if measures[name].direction != "neither"]
    return next(iter([*ranked_measures(scores), *able]), "name")


_Compared = tuple[_LineKey, list[Row | None]]


def _select_lines(
    scores: Scores, compared: Sequence[_Compared], *, people: bool, sort: str, top: int | None
) -> tuple[list[_Compared], int]:
    """Return the lines to show, models ranked, and the number of models that are left out."""
    has_models = any(_section(scores, observer) == MODELS for (_, observer, _), _ in compared)
    people = people or not (has_models or scores.settings["by"])
    selected: list[_Compared] = []
    hidden = 0
    for group in dict.fromkeys(key[0] for key, _ in compared):
        position = _positions(scores, sort, group)
        of_group = [item for item in compared if item[0][0] == group]
        means = [item for item in of_group if item[0][1] in _ORDER]
        single = [item for item in of_group if item[0][1] not in _ORDER]
        models = [item for item in single if _section(scores, item[0][1]) == MODELS]
        models.sort(key=lambda item: position.get(item[0][1], len(position)))
        persons = [item for item in single if item not in models] if people else []
        shown = [*means, *persons, *models[:top]]
        selected += sorted(shown, key=lambda item: _ORDER.index(_section(scores, item[0][1])))
        hidden = max(hidden, len(models) - len(models[:top]))
    return selected, hidden


def _positions(scores: Scores, sort: str, group: GroupKey) -> dict[str, int]:
    """Return the position of each model of a group by the measure `sort`; none for `name`."""
    if sort == "name":
        return {}
    ranked = ranked_models(scores, sort, group)
    if not ranked:  # a measure of one observer, or no people
        sign = 1 if measures[sort].direction == "lower" else -1
        own = [row for row in _values(scores) if (row.measure, row.group, row.against) == (sort, group, None)]
        ranked = sorted(own, key=lambda row: (row.value is None, sign * (row.value or 0.0)))
    return {row.observer: index for index, row in enumerate(ranked)}


def _without_constants(grid: Grid, headers: Sequence[str]) -> Grid:
    """Return a grid without those of some columns that are the same in every line; a remark says what they are."""
    same = {
        index: values.pop()
        for index, header in enumerate(grid.headers)
        if header in headers and len(values := {line.cells[index].text for line in grid.lines}) == 1
    }
    kept = [index for index in range(len(grid.headers)) if index not in same]
    lines = tuple(replace(line, cells=tuple(line.cells[index] for index in kept)) for line in grid.lines)
    texts = [f"{grid.headers[index]} {value}" for index, value in same.items() if value]
    remarks = (*([", ".join(texts) + " in every line"] if texts else []), *grid.remarks)
    return replace(grid, headers=tuple(grid.headers[index] for index in kept), lines=lines, remarks=remarks)


def undefined_remarks(scores: Scores, *, list_pairs: bool) -> list[str]:
    """Return why numbers of the comparison table are undefined, one line per measure and reason."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for _, rows in _comparison_rows(scores, _measures_with_values(scores), list_pairs=list_pairs):
        for row in rows:
            if row is not None and row.value is None:
                name = f"{row.observer} and {row.against}" if list_pairs else row.observer
                reasons.setdefault((short_name(row.measure), row.note), []).append(name)
    remarks = []
    for (measure, note), names in reasons.items():
        unique = list(dict.fromkeys(names))
        more = f" and {len(unique) - 3} more" if len(unique) > 3 else ""
        remarks.append(f"{measure} of {', '.join(unique[:3])}{more}: {note}")
    hidden = len(remarks) - _MOST_REMARKS
    if hidden <= 0:
        return remarks
    return [*remarks[:_MOST_REMARKS], f"{hidden} more reasons are in the notes of --out FILE"]


def _values(scores: Scores) -> list[Row]:
    """Return the rows of plain values: no ranks, differences, ceilings or points of a curve."""
    return [row for row in scores.rows if row.statistic == "value" and "sweep" not in row.flags]


def _measures_with_values(scores: Scores) -> list[str]:
    with_values = {row.measure for row in _values(scores)}
    return [name for name in scores.settings["measure"] if name in with_values]


def _comparison_rows(
    scores: Scores, columns: Sequence[str], *, list_pairs: bool
) -> Iterator[tuple[_LineKey, list[Row | None]]]:
    """Yield the lines of a comparison table with the row of each measure, if there is one."""
    index = {(row.group, row.observer, row.against, row.measure): row for row in _values(scores)}
    keys = list(dict.fromkeys(key[:3] for key in index))
    lines = [key for key in keys if key[2] is not None] if list_pairs else _observer_lines(scores, keys)
    for line in lines:
        rows = [index.get((*line, column)) or index.get((*line[:2], None, column)) for column in columns]
        if any(rows):
            yield line, rows


def _observer_lines(scores: Scores, keys: Sequence[_LineKey]) -> Iterator[_LineKey]:
    """Yield one line per observer: compared with people, or with models where there are no people."""
    against_people = PEOPLE if any(against == PEOPLE for _, _, against in keys) else SIMULATED
    for group in dict.fromkeys(group for group, _, _ in keys):
        pairs = [(observer, against) for other, observer, against in keys if other == group]
        means = [(o, a) for o, a in pairs if a in (PEOPLE, SIMULATED, MODELS)]
        with_people = [(o, a) for o, a in means if a == against_people or (o, a) == (SIMULATED, SIMULATED)]
        selected = with_people or means or pairs
        paired = {observer for observer, _ in selected}
        alone = [(o, None) for o, a in pairs if a is None and o not in paired]
        for observer, other in [*selected, *alone]:
            yield group, observer, other


def score_grid(scores: Scores, *, compact: bool = False) -> Grid:
    """Return scores of single observers as a table, one line per observer.

    A mean over seeds has its standard deviation. With `compact`, intervals are below the values, and `n` is left out
    where it is the same in every line.
    """
    by = scores.settings["by"]

    def split_group(row: Row) -> tuple[GroupKey, GroupKey]:
        """Return the group of trials of a line, and what else distinguishes a number: a cost, an action."""
        in_line = [pair for pair in row.group if pair[0] in by]
        return tuple(in_line), tuple(pair for pair in row.group if pair[0] not in by)

    rows = _values(scores)
    deviations = {
        (*split_group(row), row.observer, row.measure, row.against): row for row in scores.rows if row.statistic == "sd"
    }
    columns = list(dict.fromkeys((row.measure, row.against, split_group(row)[1]) for row in rows))
    has_column = bool(by) and not compact  # of groups, which are titles in a compact table
    headers = [*(["group"] if has_column else []), "observer", "n", *_column_titles(columns)]
    index = {(split_group(row)[0], row.observer, (row.measure, row.against, split_group(row)[1])): row for row in rows}
    lines = []
    keys = dict.fromkeys((split_group(row)[0], row.observer) for row in rows)
    groups = list(dict.fromkeys(group for group, _ in keys))
    for group, observer in sorted(keys, key=lambda key: (groups.index(key[0]), _ORDER.index(_section(scores, key[1])))):
        cells = []
        for measure, against, part in columns:
            row = index.get((group, observer, (measure, against, part)))
            sd = deviations.get((group, part, observer, measure, against))
            deviation = "" if sd is None or sd.value is None else f" \u00b1 {decimals(sd.value)}"
            cells.append(number_text(row, compact=compact) + deviation if row else "")
        n = next(row.n for column in columns if (row := index.get((group, observer, column))))
        names = [*([group_name(group)] if has_column else []), observer, str(n)]
        line = _line((group, _section(scores, observer)), [*names, *cells])
        lines.append(replace(line, title=group_name(group) if by and compact else ""))
    grid = Grid(tuple(headers), tuple(lines), 2 if has_column else 1)
    return _without_constants(grid, ("n",)) if compact else grid


def _column_titles(columns: Sequence[tuple[str, str | None, GroupKey]]) -> list[str]:
    """Return titles: the measure, its cost or action, and against whom where that is one of several or gold labels."""
    references: dict[tuple[str, GroupKey], set[str | None]] = {}
    for measure, against, part in columns:
        references.setdefault((measure, part), set()).add(against)
    titles = []
    for measure, against, part in columns:
        name = " ".join([short_name(measure), *(f"{key} {value.replace('_', ' ')}" for key, value in part)])
        needs_reference = len(references[measure, part]) > 1 or against in (GOLD, SIMULATED_GOLD)
        titles.append(f"{name} to {against}" if needs_reference else name)
    return titles


def benchmark_grid(table: BenchmarkTable, *, compact: bool = False, summary: bool | None = None) -> Grid:
    """Return a benchmark's table, one line per model and abstention function.

    Args:
        table: The benchmark's table.
        compact: Put standard deviations and intervals below values, and models above their lines as titles.
        summary: Only the summary columns (True) or only the others (False); all by default.
    """
    selected = [index for index, column in enumerate(table.columns) if summary in (None, column.summary)]
    has_functions = any(line.function for line in table.lines)
    lines = []
    for line in table.lines:
        cells = [_benchmark_cell(table.columns[index], line.cells[index], compact) for index in selected]
        if not has_functions:
            lines.append(Line(((), line.section), (GridCell(line.model), *cells), title=line.heading))
        elif compact:
            lines.append(Line(((), line.model), (GridCell(line.function or "none"), *cells), title=line.model))
        else:
            lines.append(Line(((), line.section), (GridCell(line.model), GridCell(line.function), *cells)))
    names = ("model",) if not has_functions else ("function",) if compact else ("model", "function")
    return Grid((*names, *(table.columns[index].title for index in selected)), tuple(lines), len(names))


def _benchmark_cell(column: TableColumn, cell: TableCell, compact: bool) -> GridCell:
    """Return a value, its mark and its standard deviation over seeds; in summary columns also its interval."""
    if cell.value is None:
        return GridCell("-")
    digits = column.digits
    sign, mark = _MARKS.get(cell.rank or 0, ("", ""))
    value, deviation = f"{cell.value:.{digits}f}", "" if cell.sd is None else f"\u00b1 {cell.sd:.{digits}f}"
    interval = ""
    if column.summary and cell.ends is not None:
        interval = f"[{cell.ends[0]:.{digits}f}, {cell.ends[1]:.{digits}f}]"
    if compact:
        return GridCell("\n".join(part for part in (value + sign, deviation, interval) if part), mark)
    return GridCell(" ".join(part for part in (value, deviation, interval) if part) + sign, mark)


def benchmark_remarks(layout: TableLayout, scores: Scores) -> list[str]:
    """Return the lines below a benchmark's table."""
    return [text if row is None else f"{text}: {number_text(row)}" for text, row in layout.remarks(scores)]


def ceiling_remarks(scores: Scores) -> list[str]:
    """Return people's ceilings of the last group: of all trials, or of the means over groups."""
    ceilings: dict[tuple[str, str], list[Row]] = {}
    for row in scores.rows:  # ceilings beside single models are only in --json
        if row.statistic in _CEILINGS and row.value is not None and row.observer in (PEOPLE, SIMULATED):
            ceilings.setdefault((row.observer, row.statistic), []).append(row)
    remarks = []
    for (people, statistic), rows in ceilings.items():
        last = rows[-1].group
        texts = [f"{short_name(row.measure)} {number_text(row)}" for row in rows if row.group == last]
        group = f", {group_name(last)}" if last else ""
        remarks.append(f"{_CEILINGS[statistic]} ceiling of {people}{group}: {', '.join(texts)}")
    return remarks


def correlation_grid(scores: Scores) -> Grid | None:
    """Return the correlations between measures as a table; None where they were not computed."""
    rows = [row for row in scores.rows if row.measure == CORRELATION]
    if not rows:
        return None
    pairs = list(dict.fromkeys((row.observer, row.against or "") for row in rows))
    groups = list(dict.fromkeys(row.group for row in rows))
    lines = []
    for group in groups:
        if not group:
            label = "global" if len(groups) > 1 else "all"
        else:
            label = "average" if all(value == "*" for _, value in group) else group_name(group)
        cells = {(row.observer, row.against): number_text(row) for row in rows if row.group == group}
        lines.append(_line(((), ""), [label, *(cells.get(pair, "") for pair in pairs)]))
    headers = ("Spearman's r", *(f"{short_name(a)} and {short_name(b)}" for a, b in pairs))
    return Grid(headers, tuple(lines))


def pair_kind_grid(scores: Scores, *, compact: bool = False) -> Grid:
    """Return the mean of each measure over the pairs of each kind, such as models with people, one line per group."""
    columns = [name for name in _measures_with_values(scores) if measures[name].symmetric is not None]
    index = {(row.group, row.observer, row.against, row.measure): row for row in _values(scores)}
    kinds = [key for key in dict.fromkeys(key[:3] for key in index) if key[1] in _ORDER and key[2] in _ORDER]
    has_column = bool(scores.settings["by"]) and not compact  # of groups, which are titles in a compact table
    lines = []
    for group, observer, against in kinds:
        rows = [index.get((group, observer, against, name)) for name in columns]
        if not any(rows):
            continue
        names = [*([group_name(group)] if has_column else []), f"{observer} with {against}"]
        line = _line((group, ""), [*names, *(number_text(row, compact=compact) if row else "" for row in rows)])
        lines.append(replace(line, title=group_name(group) if compact else ""))
    headers = [*(["group"] if has_column else []), "mean over pairs", *map(short_name, columns)]
    return Grid(tuple(headers), tuple(lines), len(headers) - len(columns))


def disagreement_grid(found: Disagreements, *, top: int, compact: bool = False) -> Grid:
    """Return the images on which a model and people differ most, one line per model and image.

    Args:
        found: Result of `disagree`.
        top: Number of lines.
        compact: Leave `experiment` and `condition` out.
    """
    shown = found.rows[:top]
    several = len(found.models) > 1
    contexts = [
        name
        for name in ("experiment", "condition")
        if not compact and len({getattr(row, name) for row in found.rows}) > 1
    ]
    headers = ["image", *contexts, *(["model"] if several else []), "difference", "truth", "model says", "people say"]
    lines = []
    for row in shown:
        names = [row.image or row.stimulus or "", *(getattr(row, name) or "" for name in contexts)]
        names += [row.observer] if several else []
        answers = [_share_text(row.probabilities) if row.probabilities else row.response or "no answer"]
        lines.append(
            _line(((), ""), [*names, f"{row.difference:.3f}", row.truth or "", *answers, _count_text(row.people)])
        )
    hidden = found.total - len(shown)
    remarks = (f"{hidden} more; --top N shows more, --out FILE has all",) if hidden else ()
    return Grid(tuple(headers), tuple(lines), text=(len(headers) - 2, len(headers) - 1), remarks=remarks)


def _share_text(shares: Sequence[tuple[str, float]]) -> str:
    """Return the most probable labels with their probabilities."""
    return ", ".join(f"{label} {share:.2f}" for label, share in shares[:_MOST_LABELS] if share >= 0.005)


def _count_text(counts: Sequence[tuple[str, float]]) -> str:
    """Return the answers of people, the commonest first: how many gave each, or which fraction."""
    shown = ", ".join(
        f"{label} {count:g}" if count >= 1 else f"{label} {count:.2f}" for label, count in counts[:_MOST_LABELS]
    )
    more = len(counts) - _MOST_LABELS
    return f"{shown}, {more} other labels" if more > 0 else shown


def interval_caption(scores: Scores) -> str:
    """Return what the intervals are based on, as one line."""
    settings = scores.settings
    confidence, resamples = f"{settings['confidence']:.0%}", settings["resamples"]
    return f"value [{confidence} interval], {resamples} resamples, seed {settings['seed']}"


def _line(section: tuple[GroupKey, str], texts: Sequence[str]) -> Line:
    return Line(section, tuple(GridCell(text) for text in texts))


def _section(scores: Scores, observer: str) -> str:
    """Return the section of the table that an observer belongs to: people, simulated people or models."""
    sections = {"human": PEOPLE, "simulated": SIMULATED}
    return observer if observer in _ORDER else sections.get(scores.kinds.get(observer, ""), MODELS)

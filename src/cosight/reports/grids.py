"""Score rows as tables: people first, then models, each value with its interval.

A grid has texts and marks; the terminal and pages render it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from cosight.benchmarks.table_layout import BenchmarkTable, TableCell, TableColumn, TableLayout
from cosight.measures import measures
from cosight.statistics.contrasts import CORRELATION
from cosight.statistics.rows import GOLD, MODELS, PEOPLE, SIMULATED, SIMULATED_GOLD, GroupKey, Row, Scores

__all__ = [
    "Grid",
    "GridCell",
    "Line",
    "benchmark_grid",
    "benchmark_remarks",
    "ceiling_remarks",
    "comparison_grid",
    "correlation_grid",
    "interval_caption",
    "number_text",
    "score_grid",
    "short_name",
    "undefined_remarks",
]

Mark = Literal["best", "second", ""]
_ORDER = (PEOPLE, SIMULATED, MODELS)
_MOST_REMARKS = 5  # reasons below a table
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
    """A row of a grid; lines of one section are shown together."""

    section: tuple[GroupKey, str]
    cells: tuple[GridCell, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """A table: one header per column, and lines."""

    headers: tuple[str, ...]
    lines: tuple[Line, ...]


def comparison_grid(scores: Scores, *, list_pairs: bool, compact: bool = False) -> Grid:
    """Return comparison scores as a table, one line per observer.

    Args:
        scores: Scores of `compare`.
        list_pairs: One line per pair instead.
        compact: Put intervals below values, and leave `against` out where it is the same in every line.

    Returns:
        The table. Its column `n` is the number of trials behind the first measure of pairs, else behind the first
        measure.
    """
    columns = _measures_with_values(scores)
    has_groups = bool(scores.settings["by"])
    compared = list(_comparison_rows(scores, columns, list_pairs=list_pairs))
    has_against = not compact or len({against for (_, _, against), _ in compared}) > 1
    headers = [*(["group"] if has_groups else []), "observer", *(["against"] if has_against else []), "n"]
    lines = []
    for (group, observer, against), rows in compared:
        names = [
            *([_group_name(group)] if has_groups else []),
            observer,
            *([against or ""] if has_against else []),
        ]
        pairs_first = sorted(filter(None, rows), key=lambda row: row.against is None)
        cells = [number_text(row, compact=compact) if row else "" for row in rows]
        lines.append(_line((group, _section(scores, observer)), [*names, str(pairs_first[0].n), *cells]))
    return Grid((*headers, *map(short_name, columns)), tuple(lines))


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
    return remarks if hidden <= 0 else [*remarks[:_MOST_REMARKS], f"{hidden} more reasons are in the notes of --json"]


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
    has_groups = bool(scores.settings["by"])
    against_people = PEOPLE if any(against == PEOPLE for _, _, against in keys) else SIMULATED
    for group in dict.fromkeys(group for group, _, _ in keys):
        pairs = [(observer, against) for other, observer, against in keys if other == group]
        means = [(o, a) for o, a in pairs if a in (PEOPLE, SIMULATED, MODELS)]
        with_people = [(o, a) for o, a in means if a == against_people or (o, a) == (SIMULATED, SIMULATED)]
        selected = with_people or means or pairs
        paired = {observer for observer, _ in selected}
        alone = [(o, None) for o, a in pairs if a is None and o not in paired]
        for observer, other in sorted([*selected, *alone], key=lambda pair: _ORDER.index(_section(scores, pair[0]))):
            if has_groups and observer not in _ORDER and _section(scores, observer) != MODELS:
                continue  # one line for all people in each group; single people are in --json
            yield group, observer, other


def score_grid(scores: Scores, *, compact: bool = False) -> Grid:
    """Return scores of single observers as a table, one line per observer.

    A mean over seeds has its standard deviation. With `compact`, intervals are below the values.
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
    headers = [*(["group"] if by else []), "observer", "n", *_column_titles(columns)]
    index = {(split_group(row)[0], row.observer, (row.measure, row.against, split_group(row)[1])): row for row in rows}
    lines = []
    keys = dict.fromkeys((split_group(row)[0], row.observer) for row in rows)
    groups = list(dict.fromkeys(group for group, _ in keys))
    for group, observer in sorted(keys, key=lambda key: (groups.index(key[0]), _ORDER.index(_section(scores, key[1])))):
        cells = []
        for measure, against, part in columns:
            row = index.get((group, observer, (measure, against, part)))
            sd = deviations.get((group, part, observer, measure, against))
            deviation = "" if sd is None or sd.value is None else f" \u00b1 {_digits(sd.value)}"
            cells.append(number_text(row, compact=compact) + deviation if row else "")
        n = next(row.n for column in columns if (row := index.get((group, observer, column))))
        names = [*([_group_name(group)] if by else []), observer, str(n)]
        lines.append(_line((group, _section(scores, observer)), [*names, *cells]))
    return Grid(tuple(headers), tuple(lines))


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
        compact: Put standard deviations below values and leave intervals out.
        summary: Only the summary columns (True) or only the others (False); all by default.
    """
    selected = [index for index, column in enumerate(table.columns) if summary in (None, column.summary)]
    lines = []
    for line in table.lines:
        cells = [_benchmark_cell(table.columns[index], line.cells[index], compact) for index in selected]
        lines.append(Line(((), line.section), (GridCell(line.model), GridCell(line.function), *cells)))
    return Grid(("model", "function", *(table.columns[index].title for index in selected)), tuple(lines))


def _benchmark_cell(column: TableColumn, cell: TableCell, compact: bool) -> GridCell:
    """Return a value, its mark and its standard deviation over seeds; in summary columns also its interval."""
    if cell.value is None:
        return GridCell("-")
    digits = column.digits
    sign, mark = _MARKS.get(cell.rank or 0, ("", ""))
    value, deviation = f"{cell.value:.{digits}f}", "" if cell.sd is None else f"\u00b1 {cell.sd:.{digits}f}"
    if compact:
        return GridCell(f"{value}{sign}\n{deviation}".rstrip(), mark)
    interval = ""
    if column.summary and cell.low is not None and cell.high is not None:
        interval = f" [{cell.low:.{digits}f}, {cell.high:.{digits}f}]"
    return GridCell(f"{value} {deviation}".rstrip() + interval + sign, mark)


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
        group = f", {_group_name(last)}" if last else ""
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
            label = "average" if all(value == "*" for _, value in group) else _group_name(group)
        cells = {(row.observer, row.against): number_text(row) for row in rows if row.group == group}
        lines.append(_line(((), ""), [label, *(cells.get(pair, "") for pair in pairs)]))
    headers = ("Spearman's r", *(f"{short_name(a)} and {short_name(b)}" for a, b in pairs))
    return Grid(headers, tuple(lines))


def interval_caption(scores: Scores) -> str:
    """Return what the intervals are based on, as one line."""
    settings = scores.settings
    confidence, resamples = f"{settings['confidence']:.0%}", settings["resamples"]
    return f"value [{confidence} interval], {resamples} resamples, seed {settings['seed']}"


def short_name(measure: str) -> str:
    """Return a measure's abbreviation in capitals where it has one, else its name.

    >>> short_name("error_consistency"), short_name("accuracy")
    ('EC', 'accuracy')
    """
    aliases = measures[measure].aliases if measure in measures else ()
    short = next((alias.upper() for alias in aliases if len(alias) <= 4 and alias != "acc"), None)
    return short or measure.replace("_", " ")


def number_text(row: Row, *, compact: bool = False) -> str:
    """Return a value and its interval as text; with `compact` the interval is on a second line.

    >>> number_text(Row(observer="a", against="b", measure="error_consistency", value=0.3311, low=0.2763, n=10))
    '0.331'
    """
    if row.value is None:
        return "-"
    if row.low is None or row.high is None:
        return _digits(row.value)
    if compact:
        return f"{_digits(row.value)}\n[{row.low:.2f}\u00a0{row.high:.2f}]"  # a space that does not break
    return f"{_digits(row.value)} [{_digits(row.low)}, {_digits(row.high)}]"


def _digits(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.0f}"


def _line(section: tuple[GroupKey, str], texts: Sequence[str]) -> Line:
    return Line(section, tuple(GridCell(text) for text in texts))


def _section(scores: Scores, observer: str) -> str:
    """Return the section of the table that an observer belongs to: people, simulated people or models."""
    sections = {"human": PEOPLE, "simulated": SIMULATED}
    return observer if observer in _ORDER else sections.get(scores.kinds.get(observer, ""), MODELS)


def _group_name(group: GroupKey) -> str:
    """Return a group as text: its values, and `mean over` the keys that are averaged."""
    values = [value for _, value in group if value != "*"]
    averaged = [key for key, value in group if value == "*"]
    return " ".join([*values, *([f"mean over {' and '.join(averaged)}"] if averaged else [])])

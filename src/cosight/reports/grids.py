"""Score rows as tables: people first, then models, each value with its interval.

A grid holds texts and how they stand out; the terminal and pages draw it each their own way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
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
    "made_how",
    "number_text",
    "score_grid",
    "short_name",
    "undefined_remarks",
]

Mark = Literal["best", "second", ""]
_ORDER = (PEOPLE, SIMULATED, MODELS)
_REMARKS = 5  # reasons below a table


@dataclass(frozen=True, slots=True)
class GridCell:
    """A text, and whether it is the best or the second best of its column."""

    text: str
    mark: Mark = ""


@dataclass(frozen=True, slots=True)
class Line:
    """Cells side by side; lines of one section stand together."""

    section: tuple[GroupKey, str]
    cells: tuple[GridCell, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """A table: a header a column, and lines."""

    headers: tuple[str, ...]
    lines: tuple[Line, ...]


def comparison_grid(scores: Scores, *, list_pairs: bool, whole: bool = True) -> Grid:
    """Comparison scores, one line per observer; with `list_pairs` one per pair.

    `n` is the number of trials behind the first measure of pairs, else behind the first measure. Not `whole`: intervals
    stand below the values, and `against` is left out where it is the same in every line.
    """
    columns = _compared(scores)
    grouped = bool(scores.settings["by"])
    number = _text(whole)
    compared = list(_comparison_rows(scores, columns, list_pairs=list_pairs))
    named = whole or len({against for (_, _, against), _ in compared}) > 1  # whether `against` has a column
    headers = [*(["group"] if grouped else []), "observer", *(["against"] if named else []), "n"]
    lines = []
    for (group, observer, against), rows in compared:
        name = [*([_group_name(group)] if grouped else []), observer, *([against or ""] if named else [])]
        n = next(
            row.n for row in sorted(filter(None, rows), key=lambda row: row.against is None)
        )  # a pair's before one's
        cells = [number(row) if row else "" for row in rows]
        lines.append(_line((group, _section(scores, observer)), [*name, str(n), *cells]))
    return Grid((*headers, *map(short_name, columns)), tuple(lines))


def _values(scores: Scores) -> list[Row]:
    """The rows of plain values: no ranks, differences, ceilings or points of a curve."""
    return [row for row in scores.rows if row.statistic == "value" and "sweep" not in row.flags]


def _compared(scores: Scores) -> list[str]:
    """The measures asked for that have a value."""
    valued = {row.measure for row in _values(scores)}
    return [name for name in scores.settings["measure"] if name in valued]


def undefined_remarks(scores: Scores, *, list_pairs: bool) -> list[str]:
    """Why numbers of the comparison table are undefined, one line per measure and reason."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for _, rows in _comparison_rows(scores, _compared(scores), list_pairs=list_pairs):
        for row in rows:
            if row is not None and row.value is None:
                who = f"{row.observer} and {row.against}" if list_pairs else row.observer
                reasons.setdefault((short_name(row.measure), row.note), []).append(who)
    lines = [f"{measure} of {_first_names(who)}: {note}" for (measure, note), who in reasons.items()]
    more = len(lines) - _REMARKS
    return lines if more <= 0 else [*lines[:_REMARKS], f"{more} more reasons are in the notes of --json"]


def _first_names(names: Sequence[str]) -> str:
    unique = list(dict.fromkeys(names))
    return ", ".join(unique[:3]) + (f" and {len(unique) - 3} more" if len(unique) > 3 else "")


_LineKey = tuple[GroupKey, str, str | None]  # group, observer, against


def _comparison_rows(
    scores: Scores, columns: Sequence[str], *, list_pairs: bool
) -> Iterator[tuple[_LineKey, list[Row | None]]]:
    """The lines of a comparison table with the row of each measure, if there is one."""
    grouped = bool(scores.settings["by"])
    index = {(row.group, row.observer, row.against, row.measure): row for row in _values(scores)}
    for line in _pair_lines(scores) if list_pairs else _observer_lines(scores, grouped):
        rows = [index.get((*line, c)) or index.get((*line[:2], None, c)) for c in columns]
        if any(rows):
            yield line, rows


def score_grid(scores: Scores, *, whole: bool = True) -> Grid:
    """Scores of single observers, one line per observer; a mean over seeds with its standard deviation."""
    by = scores.settings["by"]

    def parts(row: Row) -> tuple[GroupKey, GroupKey]:
        """The group of trials that a line is about, and what else distinguishes a number: a cost, an action."""
        inside = [pair for pair in row.group if pair[0] in by]
        return tuple(inside), tuple(pair for pair in row.group if pair[0] not in by)

    rows = _values(scores)
    spread = {
        (*parts(row), row.observer, row.measure, row.against): row for row in scores.rows if row.statistic == "sd"
    }
    columns = list(dict.fromkeys((row.measure, row.against, parts(row)[1]) for row in rows))
    headers = [*(["group"] if by else []), "observer", "n", *_titles(columns)]
    number = _text(whole)
    index = {(parts(row)[0], row.observer, (row.measure, row.against, parts(row)[1])): row for row in rows}
    lines = []
    who = dict.fromkeys((parts(row)[0], row.observer) for row in rows)
    groups = list(dict.fromkeys(group for group, _ in who))
    for group, observer in sorted(who, key=lambda w: (groups.index(w[0]), _ORDER.index(_section(scores, w[1])))):
        name = [_group_name(group)] if by else []
        cells = []
        for measure, against, part in columns:
            row = index.get((group, observer, (measure, against, part)))
            sd = spread.get((group, part, observer, measure, against))
            deviation = "" if sd is None or sd.value is None else f" \u00b1 {_digits(sd.value)}"
            cells.append(number(row) + deviation if row else "")
        n = next(row.n for column in columns if (row := index.get((group, observer, column))))
        lines.append(_line((group, _section(scores, observer)), [*name, observer, str(n), *cells]))
    return Grid(tuple(headers), tuple(lines))


def benchmark_grid(table: BenchmarkTable, *, whole: bool = True, summary: bool | None = None) -> Grid:
    """A benchmark's table, one line per model and function; `summary` chooses the columns that sum up, or others."""
    chosen = [index for index, column in enumerate(table.columns) if summary in (None, column.summary)]
    lines = []
    for line in table.lines:
        cells = [_benchmark_cell(table.columns[index], line.cells[index], whole) for index in chosen]
        lines.append(Line(((), line.section), (GridCell(line.model), GridCell(line.function), *cells)))
    return Grid(("model", "function", *(table.columns[index].title for index in chosen)), tuple(lines))


def _benchmark_cell(column: TableColumn, cell: TableCell, whole: bool) -> GridCell:
    """A value, its mark and its spread over seeds; the `whole` has an interval too, where it sums up a line."""
    if cell.value is None:
        return GridCell("-")
    digits = column.digits
    sign, mark = _MARKS.get(cell.rank or 0, ("", ""))
    value, spread = f"{cell.value:.{digits}f}", "" if cell.sd is None else f"\u00b1 {cell.sd:.{digits}f}"
    if not whole:
        return GridCell(f"{value}{sign}\n{spread}".rstrip(), mark)
    ends = ""
    if column.summary and cell.low is not None and cell.high is not None:
        ends = f" [{cell.low:.{digits}f}, {cell.high:.{digits}f}]"
    return GridCell(f"{value} {spread}".rstrip() + ends + sign, mark)


_MARKS: dict[int, tuple[str, Mark]] = {1: (" *", "best"), 2: (" +", "second")}


def benchmark_remarks(layout: TableLayout, scores: Scores) -> list[str]:
    """What is written below a benchmark's table."""
    return [text if row is None else f"{text}: {number_text(row)}" for text, row in layout.remarks(scores)]


def _line(section: tuple[GroupKey, str], texts: Sequence[str]) -> Line:
    return Line(section, tuple(GridCell(text) for text in texts))


def _text(whole: bool) -> Callable[[Row], str]:
    return number_text if whole else _two_lines


def _titles(columns: Sequence[tuple[str, str | None, GroupKey]]) -> list[str]:
    """A measure's name with its cost or action, and to whom, where that is one of several or known by gold labels."""
    others: dict[tuple[str, GroupKey], set[str | None]] = {}
    for measure, against, part in columns:
        others.setdefault((measure, part), set()).add(against)
    titles = []
    for measure, against, part in columns:
        name = " ".join([short_name(measure), *(f"{key} {value.replace('_', ' ')}" for key, value in part)])
        several = len(others[measure, part]) > 1 or against in (GOLD, SIMULATED_GOLD)
        titles.append(f"{name} to {against}" if several else name)
    return titles


def short_name(measure: str) -> str:
    """The shortest alias of a measure in capitals where it is an abbreviation, else its name.

    >>> short_name("error_consistency"), short_name("accuracy")
    ('EC', 'accuracy')
    """
    aliases = measures[measure].aliases if measure in measures else ()
    short = next((alias.upper() for alias in aliases if len(alias) <= 4 and alias != "acc"), None)
    return short or measure.replace("_", " ")


def number_text(row: Row) -> str:
    """A value and its interval.

    >>> number_text(Row(observer="a", against="b", measure="error_consistency", value=0.3311, low=0.2763, n=10))
    '0.331'
    """
    if row.value is None:
        return "-"
    if row.low is None or row.high is None:
        return _digits(row.value)
    return f"{_digits(row.value)} [{_digits(row.low)}, {_digits(row.high)}]"


def _two_lines(row: Row) -> str:
    """A value with its interval under it, for narrow terminals."""
    if row.value is None or row.low is None or row.high is None:
        return number_text(row)
    return f"{_digits(row.value)}\n[{row.low:.2f}\u00a0{row.high:.2f}]"  # kept in one piece where there is room


def _digits(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.0f}"


def _section(scores: Scores, observer: str) -> str:
    """The part of the table a row belongs to."""
    parts = {"human": PEOPLE, "simulated": SIMULATED}
    return observer if observer in _ORDER else parts.get(scores.kinds.get(observer, ""), MODELS)


def _observer_lines(scores: Scores, grouped: bool) -> Iterable[_LineKey]:
    """One line per observer: compared with people, or, where there are none, with whom there is."""
    pairs = list(dict.fromkeys((r.group, r.observer, r.against) for r in _values(scores)))
    has_people = any(against == PEOPLE for _, _, against in pairs)
    for group in dict.fromkeys(g for g, _, _ in pairs):
        inside = [(o, a) for g, o, a in pairs if g == group]
        against = PEOPLE if has_people else SIMULATED
        means = [(o, a) for o, a in inside if a in (PEOPLE, SIMULATED, MODELS)]
        near = [(o, a) for o, a in means if a == against or (o, a) == (SIMULATED, SIMULATED)]
        chosen = near or means or inside
        alone = [(o, None) for o, a in inside if a is None and o not in {c for c, _ in chosen}]
        lines = sorted([*chosen, *alone], key=lambda pair: _ORDER.index(_section(scores, pair[0])))
        for observer, other in lines:
            if grouped and observer not in _ORDER and _section(scores, observer) != MODELS:
                continue  # one line for all people in each group; every person is in --json
            yield group, observer, other


def _pair_lines(scores: Scores) -> Iterable[_LineKey]:
    for group, observer, against in dict.fromkeys((r.group, r.observer, r.against) for r in _values(scores)):
        if against is not None:
            yield group, observer, against


def _group_name(group: GroupKey) -> str:
    """A group as a reader wants it: values, and `mean over` where a key was averaged away."""
    values = [value for _, value in group if value != "*"]
    over = [key for key, value in group if value == "*"]
    return " ".join([*values, *([f"mean over {' and '.join(over)}"] if over else [])])


_CEILINGS = {"ceiling_leave_one_out": "leave-one-out", "ceiling_split_half": "split-half"}


def ceiling_remarks(scores: Scores) -> list[str]:
    """People's ceilings of the last group: of everything, or of the means."""
    ceilings: dict[tuple[str, str], list[Row]] = {}
    for row in scores.rows:  # those beside models are in --json
        if row.statistic in _CEILINGS and row.value is not None and row.observer in (PEOPLE, SIMULATED):
            ceilings.setdefault((row.observer, row.statistic), []).append(row)
    remarks = []
    for (who, statistic), rows in ceilings.items():
        last = rows[-1].group
        texts = [f"{short_name(row.measure)} {number_text(row)}" for row in rows if row.group == last]
        where = f", {_group_name(last)}" if last else ""
        remarks.append(f"{_CEILINGS[statistic]} ceiling of {who}{where}: {', '.join(texts)}")
    return remarks


def correlation_grid(scores: Scores) -> Grid | None:
    """How the measures correlate over pairs; None where that was not computed."""
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


def made_how(scores: Scores) -> str:
    """What the intervals rest on, in a line."""
    s = scores.settings
    return f"value [{s['confidence']:.0%} interval], {s['resamples']} resamples, seed {s['seed']}"

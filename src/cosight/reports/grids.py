"""Score rows as tables: people first, then models, each value with its interval.

A grid holds texts and how they stand out; the terminal and pages draw it each their own way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from cosight.measures import measures
from cosight.scoring.visalign import PEARSON, BenchmarkTable, TableCell, visalign_table
from cosight.statistics.contrasts import CORRELATION
from cosight.statistics.groups import GOLD, MODELS, PEOPLE, SIMULATED, SIMULATED_GOLD
from cosight.statistics.rows import Row, Scores

__all__ = [
    "Cell",
    "Grid",
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
class Cell:
    """A text, and whether it is the best or the second best of its column."""

    text: str
    mark: Mark = ""


@dataclass(frozen=True, slots=True)
class Line:
    """Cells side by side; lines of one section stand together."""

    section: tuple[str, str]
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """A table: a header a column, and lines."""

    headers: tuple[str, ...]
    lines: tuple[Line, ...]

    def only(self, columns: Sequence[str]) -> Grid:
        """The same lines with some of the columns.

        >>> Grid(("a", "b"), (Line(("", ""), (Cell("1"), Cell("2"))),)).only(["b"]).lines[0].cells
        (Cell(text='2', mark=''),)
        """
        places = [self.headers.index(name) for name in columns]
        lines = (Line(line.section, tuple(line.cells[place] for place in places)) for line in self.lines)
        return Grid(tuple(columns), tuple(lines))


def comparison_grid(scores: Scores, *, list_pairs: bool, whole: bool = True) -> Grid:
    """Comparison scores, one line per observer; with `list_pairs` one per pair.

    `n` is the number of trials behind the first measure of pairs, else behind the first measure. Not `whole`: intervals
    stand below the values, and `against` is left out where it is the same in every line.
    """
    columns = [name for name in scores.settings["measure"] if any(row.measure == name for row in scores.rows)]
    grouped = bool(scores.settings["by"])
    headers = [*(["group"] if grouped else []), "observer", "against", "n", *map(short_name, columns)]
    number = _text(whole)
    lines, others = [], set()
    for (group, observer, against), rows in _comparison_rows(scores, columns, list_pairs=list_pairs):
        name = [_group_name(group)] if grouped else []
        n = next(
            row.n for row in sorted(filter(None, rows), key=lambda row: row.against is None)
        )  # a pair's before one's
        cells = [number(row) if row else "" for row in rows]
        lines.append(_line((group, _section(scores, observer)), [*name, observer, against or "", str(n), *cells]))
        others.add(against)
    grid = Grid(tuple(headers), tuple(lines))
    return grid if whole or len(others) > 1 else grid.only([name for name in headers if name != "against"])


def undefined_remarks(scores: Scores, *, list_pairs: bool) -> list[str]:
    """Why numbers of the comparison table are undefined, one line per measure and reason."""
    columns = [name for name in scores.settings["measure"] if any(row.measure == name for row in scores.rows)]
    found: dict[tuple[str, str], list[str]] = {}
    for _, rows in _comparison_rows(scores, columns, list_pairs=list_pairs):
        for row in rows:
            if row is not None and row.value is None:
                who = f"{row.observer} and {row.against}" if list_pairs else row.observer
                found.setdefault((short_name(row.measure), row.note), []).append(who)
    lines = [f"{measure} of {_first_names(who)}: {note}" for (measure, note), who in found.items()]
    more = len(lines) - _REMARKS
    return lines if more <= 0 else [*lines[:_REMARKS], f"{more} more reasons are in the notes of --json"]


def _first_names(names: Sequence[str]) -> str:
    unique = list(dict.fromkeys(names))
    return ", ".join(unique[:3]) + (f" and {len(unique) - 3} more" if len(unique) > 3 else "")


def _comparison_rows(
    scores: Scores, columns: Sequence[str], *, list_pairs: bool
) -> Iterator[tuple[tuple[str, str, str | None], list[Row | None]]]:
    """The lines of a comparison table (group, observer, against) with the row of each measure, if there is one."""
    grouped = bool(scores.settings["by"])
    index = {(row.group, row.observer, row.against, row.measure): row for row in scores.rows}
    for line in _pair_lines(scores) if list_pairs else _observer_lines(scores, grouped):
        rows = [index.get((*line, c)) or index.get((*line[:2], None, c)) for c in columns]
        if any(rows):
            yield line, rows


def score_grid(scores: Scores, *, whole: bool = True) -> Grid:
    """Scores of single observers, an observer a line."""
    rows = [row for row in scores.rows if "gamma=" not in row.group and ".ceiling" not in row.measure]
    columns = list(dict.fromkeys((row.measure, row.against) for row in rows))
    grouped = bool(scores.settings["by"])
    headers = [*(["group"] if grouped else []), "observer", "n", *_titles(columns)]
    number = _text(whole)
    index = {(row.group, row.observer, (row.measure, row.against)): row for row in rows}
    lines = []
    who = dict.fromkeys((row.group, row.observer) for row in rows)
    groups = list(dict.fromkeys(group for group, _ in who))
    for group, observer in sorted(who, key=lambda w: (groups.index(w[0]), _ORDER.index(_section(scores, w[1])))):
        name = [_group_name(group)] if grouped else []
        found = [index.get((group, observer, column)) for column in columns]
        n = next(row.n for row in found if row)
        cells = [number(row) if row else "" for row in found]
        lines.append(_line((group, _section(scores, observer)), [*name, observer, str(n), *cells]))
    return Grid(tuple(headers), tuple(lines))


def benchmark_grid(found: BenchmarkTable, *, whole: bool = True) -> Grid:
    """A benchmark's table, a line for each model and function."""
    lines = []
    for line in found.lines:
        cells = [_benchmark_cell(title, cell, whole) for title, cell in zip(found.columns, line.cells, strict=True)]
        section = (line.model.rpartition(" x ")[2], "")
        lines.append(Line(section, (Cell(line.model), Cell(line.function), *cells)))
    return Grid(("model", "function", *found.columns), tuple(lines))


def _benchmark_cell(column: str, cell: TableCell, whole: bool) -> Cell:
    """A value, its mark and its spread over seeds; the `whole` has an interval too, where it sums up a line."""
    if cell.value is None:
        return Cell("-")
    digits = 0 if column.startswith("RS") else 3
    sign, mark = _MARKS.get(cell.place or 0, ("", ""))
    value, spread = f"{cell.value:.{digits}f}", "" if cell.sd is None else f"\u00b1 {cell.sd:.{digits}f}"
    if not whole:
        return Cell(f"{value}{sign}\n{spread}".rstrip(), mark)
    ends = ""
    if not column.isdigit() and cell.low is not None and cell.high is not None:
        ends = f" [{cell.low:.{digits}f}, {cell.high:.{digits}f}]"
    return Cell(f"{value} {spread}".rstrip() + ends + sign, mark)


_MARKS: dict[int, tuple[str, Mark]] = {1: (" *", "best"), 2: (" +", "second")}


def benchmark_remarks(scores: Scores) -> list[str]:
    """What stands below a benchmark's table: ceilings, how distance and reliability go together, what is what."""
    found = visalign_table(scores)
    remarks = []
    for row in scores.rows:
        if ".ceiling" in row.measure and row.value is not None:
            where = row.group.replace("=", " ")
            remarks.append(f"split-half ceiling of {row.observer}, {where}: {number_text(row)}")
        if row.measure in (PEARSON, CORRELATION):
            name = "Pearson's" if row.measure == PEARSON else "Spearman's"
            remarks.append(f"{name} r of average distance and {found.columns[-1]}, {row.note}: {number_text(row)}")
    meaning = f"categories and average: Hellinger distance to {found.against}, lower is nearer; RS: reliability score"
    return [*remarks, meaning]


def _line(section: tuple[str, str], texts: Sequence[str]) -> Line:
    return Line(section, tuple(Cell(text) for text in texts))


def _text(whole: bool) -> Callable[[Row], str]:
    return number_text if whole else _two_lines


def _titles(columns: Sequence[tuple[str, str | None]]) -> list[str]:
    """A measure's name, and to whom, where it is one of several or people known only by gold labels."""
    often = Counter(measure for measure, _ in columns)
    return [
        f"{short_name(measure)} to {against}"
        if often[measure] > 1 or against in (GOLD, SIMULATED_GOLD)
        else short_name(measure)
        for measure, against in columns
    ]


def short_name(measure: str) -> str:
    """The shortest alias of a measure in capitals where it is an abbreviation, else its name.

    >>> short_name("error_consistency"), short_name("accuracy")
    ('EC', 'accuracy')
    """
    base, _, rest = measure.partition(".")
    if base not in measures:
        return measure.replace("_", " ")
    short = next((alias.upper() for alias in measures[base].aliases if len(alias) <= 4 and alias != "acc"), None)
    name = short or base.replace("_", " ")
    return f"{name} {rest.replace('_', ' ')}" if rest else name


def number_text(row: Row) -> str:
    """A value and its interval.

    >>> number_text(Row("a", "b", "ec", "", .3311, .2763, None, 10))
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


def _observer_lines(scores: Scores, grouped: bool) -> Iterable[tuple[str, str, str | None]]:
    """One line an observer: held against people, or, where there are none, against whom there is."""
    pairs = list(dict.fromkeys((r.group, r.observer, r.against) for r in scores.rows if "." not in r.measure))
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


def _pair_lines(scores: Scores) -> Iterable[tuple[str, str, str | None]]:
    for row in dict.fromkeys((r.group, r.observer, r.against) for r in scores.rows if "." not in r.measure):
        group, observer, against = row
        if against is not None:
            yield group, observer, against


def _group_name(group: str) -> str:
    """A group as a reader wants it: values, and `mean over` where a key was averaged away."""
    parts = [part.split("=", 1) for part in group.split(";") if part]
    values = [value for _, value in parts if value != "*"]
    over = [key for key, value in parts if value == "*"]
    return " ".join([*values, *([f"mean over {' and '.join(over)}"] if over else [])])


def ceiling_remarks(scores: Scores) -> list[str]:
    """People's ceilings of the last group: of everything, or of the means."""
    ceilings = [row for row in scores.rows if ".ceiling" in row.measure and row.value is not None]
    found = [row for row in ceilings if row.observer in (PEOPLE, SIMULATED)]  # those beside models are in --json
    remarks = []
    for (who, kind), rows in _by_ceiling(found).items():
        last = rows[-1].group
        texts = [f"{short_name(r.measure.split('.')[0])} {number_text(r)}" for r in rows if r.group == last]
        where = f", {_group_name(last)}" if last else ""
        remarks.append(f"{kind.replace('_', '-')} ceiling of {who}{where}: {', '.join(texts)}")
    return remarks


def _by_ceiling(rows: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
    out: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        out.setdefault((row.observer, row.measure.rsplit(".ceiling_", 1)[1]), []).append(row)
    return out


def correlation_grid(scores: Scores) -> Grid | None:
    """How the measures go together over pairs; None where that was not computed."""
    found = [row for row in scores.rows if row.measure == CORRELATION]
    if not found:
        return None
    pairs = list(dict.fromkeys((row.observer, row.against or "") for row in found))
    lines = []
    for group, note in dict.fromkeys((row.group, row.note.split(":")[0]) for row in found):
        cells = {(r.observer, r.against): number_text(r) for r in found if r.group == group and r.note.startswith(note)}
        label = note if note in ("global", "average") else _group_name(group) or "all"
        lines.append(_line(("", ""), [label, *(cells.get(pair, "") for pair in pairs)]))
    headers = ("Spearman's r", *(f"{short_name(a)} and {short_name(b)}" for a, b in pairs))
    return Grid(headers, tuple(lines))


def made_how(scores: Scores) -> str:
    """What the intervals rest on, in a line."""
    s = scores.settings
    return f"value [{s['level']:.0%} interval], {s['resamples']} resamples, seed {s['seed']}"

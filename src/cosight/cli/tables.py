"""Tables on the terminal.

A table fits the width of the terminal: no number and no name is cut or broken. Where it is too wide, in this order:
headers are wrapped; columns of text are wrapped at words; optional columns are left out; names get a line of their own;
columns are split into several tables. What is not a terminal is wide enough for everything.
"""

from __future__ import annotations

import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from cosight.benchmarks.table_layout import TableLayout
from cosight.cli.text import wrap_text
from cosight.reports.grids import (
    Grid,
    GridCell,
    benchmark_grid,
    benchmark_remarks,
    ceiling_remarks,
    comparison_grid,
    correlation_grid,
    default_sort,
    disagreement_grid,
    interval_caption,
    pair_kind_grid,
    score_grid,
    undefined_remarks,
)
from cosight.scoring.disagree import Disagreements
from cosight.statistics.row_text import short_name
from cosight.statistics.rows import Scores
from cosight.statistics.verdict import verdict_text
from cosight.trials.table import PEOPLE as KINDS_OF_PEOPLE

__all__ = [
    "console",
    "print_benchmark",
    "print_comparison",
    "print_disagreements",
    "print_grid",
    "print_scores",
    "print_table",
    "print_text",
]

_STYLES = {"best": "bold", "second": "underline", "": ""}
_WIDE = 2000  # columns of what is not a terminal
_LEAST_TEXT = 24  # columns of a column of text that is wrapped, unless all of it is shorter
_MOST_LINES = 200  # of a table on a terminal
_SHORTEST_NAME = 8  # columns that names share a line with numbers in


class _Output(Console):
    """Standard output that raises BrokenPipeError when the reader closes the pipe, where rich would exit with 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def console() -> Console:
    """Return standard output; wide where it is not a terminal, so that nothing is cut."""
    width = None if sys.stdout.isatty() else _WIDE
    return _Output(width=width, highlight=False, markup=False, emoji=False)  # names are data, not markup


def print_text(text: str, *, style: str = "") -> None:
    """Print a paragraph, wrapped at words; intervals stay on one line."""
    out = console()
    for line in wrap_text(text, out.width):
        out.print(Text(line, style), no_wrap=True, crop=False, overflow="ignore")


# ---- laying out


@dataclass(frozen=True, slots=True)
class _Table:
    """Headers and rows; a row that is a text is a title across the table, an empty one a gap."""

    headers: tuple[str, ...]
    rows: tuple[tuple[GridCell, ...] | str, ...]
    keys: int = 1  # the first columns, which name a row
    right: frozenset[int] = frozenset()  # columns that are aligned right
    text: frozenset[int] = frozenset()  # columns that may be wrapped at words
    show_header: bool = True

    def at(self, columns: Sequence[int], *, keys: int) -> _Table:
        """Return the table with some of its columns."""
        rows = tuple(row if isinstance(row, str) else tuple(row[i] for i in columns) for row in self.rows)
        numbers = {old: new for new, old in enumerate(columns)}
        right, text = (frozenset(numbers[i] for i in of if i in numbers) for of in (self.right, self.text))
        headers = tuple(self.headers[i] for i in columns)
        return replace(self, headers=headers, rows=rows, keys=keys, right=right, text=text)

    def widths(self, *, wrap_headers: bool) -> list[int]:
        """Return the widths that the columns need."""
        widths = []
        for index, header in enumerate(self.headers):
            words = header.split() if wrap_headers else [header]
            cells = [row[index].text for row in self.rows if not isinstance(row, str)]
            lines = [*(words if self.show_header else []), *(line for cell in cells for line in cell.split("\n"))]
            widths.append(max(map(cell_len, lines), default=0))
        return widths


def _lay_out(table: _Table, width: int) -> list[Text]:
    """Return the lines of a table, none longer than `width` unless a single number is."""
    return _fitted(table, width) or _stacked(table, width) or _split(table, width)


def _fitted(table: _Table, width: int) -> list[Text]:
    """Return the table with headers, then texts, wrapped as far as needed; nothing where that is not enough."""
    for wrap_headers, gap in ((False, 2), (True, 2), (True, 1)):
        widths = table.widths(wrap_headers=wrap_headers)
        if sum(widths) + gap * (len(widths) - 1) <= width:
            return _lines(table, widths, gap)
    widths = table.widths(wrap_headers=True)
    room = width - (len(widths) - 1) - sum(w for i, w in enumerate(widths) if i not in table.text)
    for count, index in enumerate(sorted(table.text, key=lambda i: widths[i])):  # the narrowest first: it may fit
        widths[index] = min(widths[index], room // (len(table.text) - count))
        cells = [row[index].text for row in table.rows if not isinstance(row, str)]
        longest = max((cell_len(word) for cell in cells for word in cell.split()), default=0)
        if widths[index] < max(longest, min(table.widths(wrap_headers=True)[index], _LEAST_TEXT)):
            return []
        room -= widths[index]
    return _lines(table, widths, 1) if table.text else []


def _stacked(table: _Table, width: int) -> list[Text]:
    """Return the table with names that are too long on a line of their own; nothing where that is still too wide."""
    if table.keys >= len(table.headers):
        return []
    widths = table.widths(wrap_headers=True)
    gap = 2 if sum(widths[table.keys :]) + 2 * (len(widths) - 1) + _SHORTEST_NAME <= width else 1
    room = width - sum(widths[table.keys :]) - gap * (len(widths) - table.keys)  # for all names of a row
    widths = [*_name_widths(table, widths[: table.keys], room, gap), *widths[table.keys :]]
    if sum(widths) + gap * (len(widths) - 1) > width:
        return []
    lines = _header_lines(table, widths, gap)
    for row in table.rows:
        if isinstance(row, str):
            lines.append(Text(row, "bold"))
            continue
        names = [cell.text for cell in row[: table.keys]]
        if any(cell_len(name) > size for name, size in zip(names, widths, strict=False)):
            above = textwrap.wrap("  ".join(filter(None, names)), width, break_on_hyphens=False)
            lines += [Text(line) for line in above]
            row = (*[GridCell("")] * table.keys, *row[table.keys :])
        lines += _row_lines(row, widths, gap, table.right)
    return lines


def _name_widths(table: _Table, needed: Sequence[int], room: int, gap: int) -> list[int]:
    """Return the widths of the columns of names, the last of which gets what the others leave."""
    others = sum(needed[:-1]) + gap * (len(needed) - 1)
    if room - others >= _SHORTEST_NAME:
        return [*needed[:-1], min(needed[-1], room - others)]
    return [max(map(cell_len, header.split()), default=0) for header in table.headers[: table.keys]]


def _split(table: _Table, width: int) -> list[Text]:
    """Return several tables below each other, each with the names and some of the other columns."""
    keys = list(range(table.keys))
    lines: list[Text] = []
    rest = list(range(table.keys, len(table.headers)))
    while rest:
        count = len(rest)
        part: list[Text] = []
        while count and not part:
            chosen = table.at([*keys, *rest[:count]], keys=table.keys)
            part = _fitted(chosen, width) or (_stacked(chosen, width) if count == 1 else [])
            count -= not part
        if not part:  # one column that is wider than the terminal
            count, widest = 1, table.at([*keys, rest[0]], keys=table.keys)
            part = _lines(widest, widest.widths(wrap_headers=True), 1)
        lines += [*([Text("")] if lines else []), *part]
        rest = rest[count:]
    return lines


def _lines(table: _Table, widths: Sequence[int], gap: int) -> list[Text]:
    lines = _header_lines(table, widths, gap)
    for row in table.rows:
        lines += [Text(row, "bold")] if isinstance(row, str) else _row_lines(row, widths, gap, table.right)
    return lines


def _header_lines(table: _Table, widths: Sequence[int], gap: int) -> list[Text]:
    if not table.show_header:
        return []
    cells = [
        GridCell("\n".join(textwrap.wrap(header, max(width, 1))))
        for header, width in zip(table.headers, widths, strict=True)
    ]
    lines = _row_lines(cells, widths, gap, table.right)
    for line in lines:
        line.stylize("bold")
    return lines


def _row_lines(cells: Sequence[GridCell], widths: Sequence[int], gap: int, right: frozenset[int]) -> list[Text]:
    """Return the lines of one row: cells with several lines, or wrapped at words, are as high as they need."""
    columns = [
        [part for line in cell.text.split("\n") for part in (_wrap_cell(line, width) or [""])]
        for cell, width in zip(cells, widths, strict=True)
    ]
    lines = []
    for number in range(max(map(len, columns), default=0)):
        line = Text()
        for index, (cell, parts, width) in enumerate(zip(cells, columns, widths, strict=True)):
            part = parts[number] if number < len(parts) else ""
            padding = " " * (width - cell_len(part))
            text = Text(padding if index in right else "")
            text.append(part, _STYLES[cell.mark])
            text.append("" if index in right else padding)
            line += text
            line.append(" " * gap)
        line.rstrip()
        lines.append(line)
    return lines


def _wrap_cell(line: str, width: int) -> list[str]:
    return [line] if cell_len(line) <= width else wrap_text(line, width)


def _print_lines(lines: Sequence[Text]) -> None:
    out = console()
    for line in lines:
        out.print(line, no_wrap=True, crop=False, overflow="ignore")


# ---- tables of names and counts


def print_table(
    rows: Sequence[Mapping[str, object]],
    *,
    title: str = "",
    keys: int = 1,
    optional: Sequence[str] = (),
    show_header: bool = True,
) -> None:
    """Print rows whose keys are the columns. Columns of numbers are aligned right; None is an empty cell.

    Args:
        rows: One mapping per row, all with the same keys.
        title: A line above the table.
        keys: How many of the first columns name a row.
        optional: Columns to leave out of a narrow terminal, the first one first; a line below names them.
        show_header: Whether to print the names of the columns.
    """
    if not rows:
        return
    width, left_out = console().width, list[str]()
    lines = _fitted(_table_of(rows, list(rows[0]), keys, show_header), width)
    while not lines and len(left_out) < len(optional):
        left_out.append(optional[len(left_out)])
        lines = _fitted(_table_of(rows, [name for name in rows[0] if name not in left_out], keys, show_header), width)
    if not lines:
        lines = _lay_out(_table_of(rows, [name for name in rows[0] if name not in left_out], keys, show_header), width)
    if title:
        print_text(title, style="italic")
    _print_lines(lines)
    if left_out:
        hidden = ", ".join(name for name in rows[0] if name in left_out)
        print_text(f"a wider terminal and --json also have: {hidden}", style="dim")


def _table_of(rows: Sequence[Mapping[str, object]], names: Sequence[str], keys: int, show_header: bool) -> _Table:
    numeric = [all(row[name] is None or isinstance(row[name], int | float) for row in rows) for name in names]
    cells = tuple(tuple(GridCell(_cell_text(row[name])) for name in names) for row in rows)
    text = [any(" " in row[index].text for row in cells) for index in range(len(names))]
    return _Table(
        tuple(names),
        cells,
        keys,
        right=frozenset(index for index, is_numeric in enumerate(numeric) if is_numeric),
        text=frozenset(index for index in range(keys, len(names)) if text[index]),
        show_header=show_header,
    )


def _cell_text(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.3f}" if isinstance(value, float) else str(value)


# ---- tables of scores


def print_comparison(
    scores: Scores,
    *,
    list_pairs: bool = False,
    people: bool = False,
    sort: str | None = None,
    top: int | None = None,
    more: str = "--out FILE",
) -> None:
    """Print comparison scores and the verdict.

    Args:
        scores: Scores of `compare`.
        list_pairs: One row per pair, without a verdict, instead of one per observer.
        people: Show single people too.
        sort: Measure that models are ranked by, or `name` (default: the first measure of two observers).
        top: Number of models to show (default: all).
        more: What has every number.
    """

    def grid(compact: bool, group: bool = False) -> Grid:
        return comparison_grid(
            scores, list_pairs=list_pairs, compact=compact, people=people, sort=sort, top=top, only_means=group
        )

    remarks = [*undefined_remarks(scores, list_pairs=list_pairs), *ceiling_remarks(scores)]
    only_means = bool(scores.settings["by"]) and len(grid(False).lines) > _most_lines()
    if only_means:
        remarks.insert(0, "only the mean over groups is shown; --out FILE or a pipe has every group")
    print_grid(lambda compact: [grid(compact, only_means)], remarks)
    correlations = correlation_grid(scores)
    if correlations is not None:
        print_grid(lambda _: [correlations])
    by = sort or default_sort(scores)
    has_models = any(kind not in KINDS_OF_PEOPLE for kind in scores.kinds.values())
    order = f"models ranked by {short_name(by)}; " if has_models and not list_pairs and by != "name" else ""
    print_text(f"{order}{interval_caption(scores)}; {more} has every number", style="dim")
    known = bool(scores.kinds)  # of observers of confusion matrices nobody knows who is a person
    if not list_pairs and known and (text := verdict_text(scores, None if sort == "name" else sort)):
        print_text("")
        print_text(text)


def print_alignment(scores: Scores, *, more: str = "--out FILE") -> None:
    """Print a benchmark of pairs: means over kinds of pairs, and the correlations between measures."""
    print_grid(lambda compact: [pair_kind_grid(scores, compact=compact)])
    correlations = correlation_grid(scores)
    if correlations is not None:
        print_text("")
        print_grid(lambda _: [correlations])
    print_text(f"{interval_caption(scores)}, of r over observers; {more} has every pair", style="dim")


def print_scores(scores: Scores, *, more: str = "--out FILE") -> None:
    """Print scores of single observers, one row per observer. `more` has every number."""
    print_grid(lambda compact: [score_grid(scores, compact=compact)], ceiling_remarks(scores))
    print_text(f"{interval_caption(scores)}; {more} has every number", style="dim")


def print_benchmark(layout: TableLayout, scores: Scores, *, more: str = "--out FILE") -> None:
    """Print a benchmark's table, one row per model and abstention function. `more` has every number."""
    table = layout.table(scores)

    def grids(compact: bool) -> list[Grid]:
        if not compact:
            return [benchmark_grid(table)]
        kinds = [kind for kind in (True, False) if any(column.summary == kind for column in table.columns)]
        return [benchmark_grid(table, compact=True, summary=kind) for kind in kinds]

    print_grid(grids, benchmark_remarks(layout, scores))
    has_spread = any(cell.sd is not None for line in table.lines for cell in line.cells)
    marks = "* best, + second best" + (f"; \u00b1 standard deviation over {layout.spread}" if has_spread else "")
    print_text(f"{marks}; {interval_caption(scores)}; {more} has every number", style="dim")
    if layout.shared and (text := verdict_text(scores)):
        print_text("")
        print_text(text)


def print_disagreements(found: Disagreements, *, top: int) -> None:
    """Print the images on which models and people differ most, and a summary."""
    print_grid(lambda compact: [disagreement_grid(found, top=top, compact=compact)])
    print_text("")
    print_text(found.summary)


def print_grid(make_grids: Callable[[bool], Sequence[Grid]], remarks: Sequence[str] = ()) -> None:
    """Print grids and remarks below them; on a narrow terminal the compact grids.

    Args:
        make_grids: Returns the grids, compact ones where its argument is true.
        remarks: Lines below the grids.
    """
    width = console().width
    tables = [(grid, _fitted(_grid_table(grid), width)) for grid in make_grids(False)]
    if not all(lines for _, lines in tables):
        tables = [(grid, _lay_out(_grid_table(grid), width)) for grid in make_grids(True)]
    remarks = list(remarks)
    for index, (grid, lines) in enumerate(tables):
        if index:
            print_text("")
        _print_lines(lines)
        hidden = len(grid.lines) - _most_lines()
        remarks = [
            *grid.remarks,
            *([f"{hidden} more lines; --out FILE or a pipe has them"] if hidden > 0 else []),
            *remarks,
        ]
    for remark in remarks:
        print_text(remark)


def _most_lines() -> int:
    return _MOST_LINES if sys.stdout.isatty() else sys.maxsize


def _grid_table(grid: Grid) -> _Table:
    """Return a grid as a table, with a gap between sections of more than one line, or a title above each."""
    shown = grid.lines[: _most_lines()]
    sizes = Counter(line.section for line in shown)
    rows: list[tuple[GridCell, ...] | str] = []
    last, title = None, ""
    for line in shown:
        if line.section != last:
            if last is not None and (max(sizes[line.section], sizes[last]) > 1 or line.title != title):
                rows.append("")
            if line.title != title:
                rows.append(line.title)
        rows.append(line.cells)
        last, title = line.section, line.title
    return _Table(grid.headers, tuple(rows), grid.keys, text=frozenset(grid.text))

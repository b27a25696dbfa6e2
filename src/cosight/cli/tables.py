"""Tables on the terminal, drawn with rich."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from cosight.benchmarks.table_layout import TableLayout
from cosight.reports.grids import (
    Grid,
    benchmark_grid,
    benchmark_remarks,
    ceiling_remarks,
    comparison_grid,
    correlation_grid,
    interval_caption,
    score_grid,
    undefined_remarks,
)
from cosight.statistics.rows import Scores

__all__ = ["console", "print_benchmark", "print_comparison", "print_scores", "print_table"]

_STYLES = {"best": "bold", "second": "underline", "": ""}


class _Output(Console):
    """Standard output that raises BrokenPipeError when the reader closes the pipe, where rich would exit with 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def console() -> Console:
    """Return standard output; wide where it is not a terminal, so that nothing is cut."""
    width = None if sys.stdout.isatty() else 2000
    return _Output(width=width, highlight=False, markup=False, emoji=False)  # names are data, not markup


def print_table(rows: Sequence[Mapping[str, object]], *, title: str = "", show_header: bool = True) -> None:
    """Print rows whose keys are the columns. Columns of numbers are aligned right; None is an empty cell."""
    if not rows:
        return
    table = Table(
        box=None, pad_edge=False, header_style="bold", title=title or None, title_justify="left",
        show_header=show_header,
    )  # fmt: skip
    for name in rows[0]:
        numeric = all(row[name] is None or isinstance(row[name], int | float) for row in rows)
        table.add_column(name, overflow="fold", justify="right" if numeric else "left")
    for row in rows:
        table.add_row(*(_cell_text(row[name]) for name in rows[0]))
    console().print(table)


def _cell_text(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def print_comparison(scores: Scores, *, list_pairs: bool, more: str = "--json") -> None:
    """Print comparison scores, one row per observer; with `list_pairs` one per pair. `more` has every number."""
    correlations = correlation_grid(scores)
    remarks = [*undefined_remarks(scores, list_pairs=list_pairs), *ceiling_remarks(scores)]
    _print_grid(lambda compact: comparison_grid(scores, list_pairs=list_pairs, compact=compact), remarks)
    if correlations is not None:
        console().print(_rich_table(correlations))
    console().print(f"{interval_caption(scores)}; {more} has every number", style="dim")


def print_scores(scores: Scores, *, more: str = "--json") -> None:
    """Print scores of single observers, one row per observer. `more` has every number."""
    _print_grid(lambda compact: score_grid(scores, compact=compact), ceiling_remarks(scores))
    console().print(f"{interval_caption(scores)}; {more} has every number", style="dim")


def print_benchmark(layout: TableLayout, scores: Scores, *, more: str = "--json") -> None:
    """Print a benchmark's table, one row per model and abstention function. `more` has every number."""
    table = layout.table(scores)
    _print_grid(lambda compact: benchmark_grid(table, compact=compact), benchmark_remarks(layout, scores))
    marks = "* best, + second best; \u00b1 standard deviation over seeds"
    console().print(f"{marks}; {interval_caption(scores)}; {more} has every number", style="dim")


def _print_grid(make_grid: Callable[[bool], Grid], remarks: Sequence[str]) -> None:
    """Print a grid and remarks below it; on a narrow terminal the compact grid, with words folded."""
    out = console()
    table = _rich_table(make_grid(False))
    if Measurement.get(out, out.options.update(max_width=10_000), table).maximum > out.width:
        table = _rich_table(make_grid(True))
        for column in table.columns:
            column.no_wrap, column.overflow = False, "fold"
    out.print(table)
    for remark in remarks:
        out.print(remark)


def _rich_table(grid: Grid) -> Table:
    """Return a grid as a table of rich, with a gap between sections of more than one line."""
    table = Table(box=None, pad_edge=False, header_style="bold", collapse_padding=True)
    for header in grid.headers:
        table.add_column(header, no_wrap=True)
    sizes = Counter(line.section for line in grid.lines)
    last = None
    for line in grid.lines:
        if last is not None and line.section != last and max(sizes[line.section], sizes[last]) > 1:
            table.add_row()
        table.add_row(*(Text(cell.text, _STYLES[cell.mark]) for cell in line.cells))
        last = line.section
    return table

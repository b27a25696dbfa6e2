"""The results table of a benchmark: its columns and lines, made from score rows, and how the rows are computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cosight.measures import measures
from cosight.statistics.rows import GroupKey, Row, Scores
from cosight.trials.table import Trials

__all__ = ["BenchmarkTable", "TableCell", "TableColumn", "TableLayout", "TableLine", "best_line_text"]


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column: the values of a measure in a group."""

    title: str
    measure: str
    group: GroupKey
    digits: int = 3  # after the point
    summary: bool = False  # whether it summarises a line; its intervals are shown


@dataclass(frozen=True, slots=True)
class TableCell:
    """One number of the table, and the score rows that it comes from."""

    row: Row | None = None  # None: there is no such number
    spread: Row | None = None  # its standard deviation, over seeds or people
    rank: int | None = None  # 1 the best of its column, 2 the second best
    partial: bool = False  # based on fewer stimuli than others of its column, so it has no rank

    @property
    def value(self) -> float | None:
        """The value; None where it is undefined too."""
        return None if self.row is None else self.row.value

    @property
    def ends(self) -> tuple[float, float] | None:
        """Both ends of the interval."""
        row = self.row
        return None if row is None or row.low is None or row.high is None else (row.low, row.high)

    @property
    def sd(self) -> float | None:
        """The standard deviation."""
        return None if self.spread is None else self.spread.value


@dataclass(frozen=True, slots=True)
class TableLine:
    """One model with one abstention function; `seeds` is the number of seeds behind the means."""

    observer: str  # the name in the score rows
    model: str
    function: str
    seeds: int
    cells: tuple[TableCell, ...]
    section: str  # lines of one section are printed together
    heading: str = ""  # above the section


@dataclass(frozen=True, slots=True)
class BenchmarkTable:
    """A table as it is printed."""

    against: str  # the reference of the distances
    columns: tuple[TableColumn, ...]
    lines: tuple[TableLine, ...]


@dataclass(frozen=True, slots=True)
class TableLayout:
    """How a benchmark's table is computed and laid out."""

    measures: tuple[str, ...]  # registered names
    by: tuple[str, ...]  # what the trials are grouped by
    rows: Callable[..., list[Row]]  # (data: ScoreData, *, resamples, confidence, seed[, others: Sequence[ScoreData]])
    table: Callable[[Scores], BenchmarkTable]
    remarks: Callable[[Scores], Sequence[tuple[str, Row | None]]]  # texts below the table, each with its number, if any
    spread: str = "seeds"  # what the standard deviations of cells are over
    shared: bool = True  # whether people are scored only on stimuli that a model answered too
    answers_only: bool = False  # whether probabilities and gold labels are not used; this saves memory
    takes_others: bool = False  # whether trials of other sets are accepted: other label spaces, or what is not `is_own`
    is_own: Callable[[Trials], bool] | None = None  # which trials are about the benchmark (default: by label space)
    headline: Callable[[Scores], str] | None = None  # the verdict; empty where `best_line_text` has it
    takes_families: bool = False  # whether models can be grouped with --families, which `rows` then takes too


def best_line_text(table: BenchmarkTable) -> str:
    """Return in one sentence which models are first and second in the first column that summarises lines.

    Args:
        table: A table. Where a column has no ranks, the lines of the last section (people, if they are judges) are
            ordered by their values.

    Returns:
        A sentence with both values and their intervals; an empty text where no such column has values.
    """
    for index, column in enumerate(table.columns):
        lines = [line for line in table.lines if line.cells[index].value is not None]
        if not column.summary or not lines:
            continue
        sign = 1 if measures[column.measure].direction == "lower" else -1
        ranked = [line for line in lines if line.cells[index].rank is not None]
        if not ranked:
            lines = [line for line in lines if line.section == lines[-1].section]
        best = sorted(ranked or lines, key=lambda line: sign * (line.cells[index].value or 0.0))[:2]
        texts = []
        for line in best:
            ends = line.cells[index].ends
            interval = "" if ends is None else f" [{ends[0]:.3f}, {ends[1]:.3f}]"
            texts.append(f"{line.model} {line.cells[index].value:.3f}{interval}")
        if len(texts) == 1:
            return f"Only {best[0].model} has a value in {column.title}: {texts[0].removeprefix(best[0].model)[1:]}."
        judge = f", by {best[0].heading}" if not ranked and best[0].heading else ""
        return f"Best in {column.title}{judge}: {texts[0]}; second {texts[1]}."
    return ""

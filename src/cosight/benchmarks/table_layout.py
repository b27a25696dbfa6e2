"""The results table of a benchmark: its columns and lines, made from score rows, and how the rows are computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cosight.statistics.rows import GroupKey, Row, Scores
from cosight.trials.table import Trials

__all__ = ["BenchmarkTable", "TableCell", "TableColumn", "TableLayout", "TableLine"]


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
    """One number of the table."""

    value: float | None
    low: float | None = None
    high: float | None = None
    sd: float | None = None  # over seeds
    rank: int | None = None  # 1 the best of its column, 2 the second best
    partial: bool = False  # based on fewer stimuli than others of its column, so it has no rank


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
    takes_families: bool = False  # whether models can be grouped with --families, which `rows` then takes too

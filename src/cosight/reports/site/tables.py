"""The tables of a site as files: CSV, JSON and Parquet of everything that the pages show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from cosight.benchmarks.table_layout import TableLayout
from cosight.files import atomic_write
from cosight.reports.site.answers import AnswerSet
from cosight.reports.site.parts import ReportPart
from cosight.reports.site.rows_data import is_pair, leaderboard_rows, people_rows
from cosight.statistics.rows import Row, Scores

__all__ = ["SCORES", "TABLES", "write_tables"]

SCORES, TABLES = "scores", "tables"  # the file of all rows, and the folder of all other tables
_FORMATS = ("csv", "json", "parquet")
_MOST_ANSWERS = 50_000  # that are written as CSV and JSON too
_ANSWERS = ("observer", "kind", "experiment", "condition", "level", "image", "stimulus", "truth", "response",
            "abstention", "rt", "role", "repetition")  # fmt: skip


def write_tables(
    folder: Path, parts: Sequence[ReportPart], answers: Sequence[AnswerSet], scores: Scores
) -> list[dict[str, Any]]:
    """Write every table of a site, and remove those of an earlier report.

    Args:
        folder: The site.
        parts: The parts of the report.
        answers: The sets of answers.
        scores: The rows of all parts.

    Returns:
        For each table its name, title, number of rows and files; None for a format that would be too large.
    """
    tables = [_write_rows(folder, SCORES, "Every score", scores, scores.rows)]
    for part in parts:
        rows = part.scores.rows
        named: dict[str, tuple[str, Sequence[Row]]] = {
            "": ("all scores", rows if len(parts) > 1 else ()),
            "-leaderboard": ("leaderboard", [rows[index] for index in leaderboard_rows(part.scores)]),
            "-correlations": ("correlations", [row for row in rows if row.measure.endswith("_correlation")]),
            "-pairs": ("pairs of observers", [row for row in rows if is_pair(row)]),
        }
        for suffix, (title, chosen) in named.items():
            if chosen:
                tables.append(
                    _write_rows(folder, f"{part.name}{suffix}", f"{part.title}: {title}", part.scores, chosen)
                )
        layout = None if part.benchmark is None else part.benchmark.table
        if layout is not None:
            frame = _results_frame(layout, part.scores)
            tables.append(_write_frame(folder, f"{part.name}-results", f"{part.title}: results", frame))
    people = [scores.rows[index] for index in people_rows(scores.rows)]
    if people:
        tables.append(_write_rows(folder, "people", "Agreement and ceilings of people", scores, people))
    facts = [{"answers": group.title, **_plain(one)} for group in answers for one in group.observers]
    singles = [one for one in facts if one["kind"] != "pool"]
    participants = [one for one in singles if one["kind"] in ("human", "simulated")]
    for name, title, lines in (("observers", "Observers", singles), ("participants", "Participants", participants)):
        if lines:
            tables.append(_write_frame(folder, name, title, pl.DataFrame(lines, infer_schema_length=None)))
    for index, group in enumerate(answers):
        name = "answers" if len(answers) == 1 else f"answers-{index + 1}"
        frame = group.trials.frame.select(_ANSWERS)
        formats = _FORMATS if frame.height <= _MOST_ANSWERS else ("parquet",)
        tables.append(_write_frame(folder, name, f"Every answer: {group.title}", frame, formats))
    wanted = {folder / table[suffix] for table in tables for suffix in _FORMATS if table[suffix] is not None}
    for old in (folder / TABLES).glob("*"):
        if old not in wanted:
            old.unlink()
    return tables


def _plain(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return facts of an observer as a line of a table: every line has the same columns."""
    names = ("name", "title", "kind", "family", "architecture", "seed", "function", "trials", "answered")
    return {name: facts.get(name) for name in names}


def _write_rows(folder: Path, name: str, title: str, scores: Scores, rows: Sequence[Row]) -> dict[str, Any]:
    chosen = replace(scores, rows=tuple(rows))
    return _write(folder, name, title, len(rows), _FORMATS, lambda path, suffix: chosen.save(path))


def _write_frame(
    folder: Path, name: str, title: str, frame: pl.DataFrame, formats: Sequence[str] = _FORMATS
) -> dict[str, Any]:
    def write(path: Path, suffix: str) -> None:
        with atomic_write(path) as draft:
            if suffix == "csv":
                frame.write_csv(draft)
            elif suffix == "json":
                frame.write_json(draft)
            else:
                frame.write_parquet(draft, compression="zstd")

    return _write(folder, name, title, frame.height, formats, write)


def _write(
    folder: Path, name: str, title: str, rows: int, formats: Sequence[str], write: Callable[[Path, str], None]
) -> dict[str, Any]:
    """Write a table in some formats; return its name, title, number of rows and files."""
    where = "" if name == SCORES else f"{TABLES}/"
    files = {suffix: f"{where}{name}.{suffix}" if suffix in formats else None for suffix in _FORMATS}
    for suffix, file in files.items():
        if file is not None:
            write(folder / file, suffix)
    return {"name": name, "title": title, "rows": rows, **files}


def _results_frame(layout: TableLayout, scores: Scores) -> pl.DataFrame:
    """Return a benchmark's table: one line per model, the value, interval and standard deviation of each column."""
    table = layout.table(scores)
    lines = []
    for line in table.lines:
        record: dict[str, Any] = {"section": line.heading or line.section, "model": line.model,
                                  "function": line.function, "seeds": line.seeds}  # fmt: skip
        for column, cell in zip(table.columns, line.cells, strict=True):
            low, high = cell.ends or (None, None)
            record |= {column.title: cell.value, f"{column.title} low": low, f"{column.title} high": high,
                       f"{column.title} sd": cell.sd}  # fmt: skip
        lines.append(record)
    frame = pl.DataFrame(lines, infer_schema_length=None)
    return frame.select(column for column in frame if column.dtype != pl.Null)

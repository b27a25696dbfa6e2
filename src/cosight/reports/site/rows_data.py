"""Score rows and tables as the site shows them. Every number is a row of `scores.parquet`, named by its index."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from cosight.benchmarks.table_layout import TableLayout, best_line_text
from cosight.measures import measures
from cosight.reports.site.parts import ReportPart
from cosight.statistics.row_text import number_text, short_name
from cosight.statistics.rows import GOLD, MODELS, PEOPLE, SIMULATED, SIMULATED_GOLD, Row, Scores, group_text
from cosight.statistics.verdict import closest_model, ranked_measures, verdict_sentences

__all__ = [
    "chance_level",
    "is_pair",
    "leaderboard_rows",
    "measure_facts",
    "part_facts",
    "people_rows",
    "split_rows",
]

_GROUPS = (PEOPLE, SIMULATED, MODELS, GOLD, SIMULATED_GOLD)
_OF_RANKED = ("rank", "normalised", "ceiling_leave_one_out", "ceiling_split_half")
_NUMBERS = ("value", "low", "high", "n", "p", "p_adjusted")
_CORRECTED = ("error_consistency", "error_consistency_unbiased", "fleiss_kappa", "krippendorff_alpha")  # for chance


def chance_level(measure: str, classes: int) -> float | None:
    """Return the value that guessing gives on average; None where the measure does not have one.

    Args:
        measure: Registered name.
        classes: Number of classes that an observer can answer.

    >>> chance_level("accuracy", 16), chance_level("error_consistency", 16), chance_level("hellinger", 16)
    (0.0625, 0.0, None)
    """
    if measure == "accuracy":
        return 1 / classes if classes else None
    return 0.0 if measure in _CORRECTED else None


def is_pair(row: Row) -> bool:
    """Return whether a row is about two single observers, or a difference."""
    single = row.against is not None and row.observer not in _GROUPS and row.against not in _GROUPS
    return single or row.statistic in ("difference", "z")


def leaderboard_rows(scores: Scores) -> list[int]:
    """Return the indices of the rows of a leaderboard.

    They belong to the group that the verdict is about: values of each observer, alone or compared with the people of
    the verdict; and of the measure that models are ranked by the ranks, the shares of the ceiling, and the ceilings.
    """
    verdict = closest_model(scores)
    group, people = (verdict.group, verdict.people) if verdict is not None else ((), None)
    chosen = []
    for index, row in enumerate(scores.rows):
        if row.group != group or "sweep" in row.flags or is_pair(row):
            continue
        if row.statistic == "value":
            is_listed = row.against is None or people is None or row.against == people
        else:
            is_listed = row.statistic in _OF_RANKED and verdict is not None and row.measure == verdict.measure
        if is_listed:
            chosen.append(index)
    return chosen


def people_rows(rows: Sequence[Row]) -> list[int]:
    """Return the indices of the rows about people alone, or people with each other."""
    of_people = (PEOPLE, SIMULATED)
    return [
        index
        for index, row in enumerate(rows)
        if row.observer in of_people and (row.against is None or row.against in of_people) and not is_pair(row)
    ]


def split_rows(rows: Sequence[Row], parts: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the rows of single observers and groups, and those of pairs of observers, column by column.

    Args:
        rows: The rows of all parts.
        parts: Facts of the parts; what their tables and remarks show is not among the pairs.
    """
    tables = [part["table"] for part in parts if "table" in part]
    shown = {index for table in tables for _, index in table["remarks"]}
    shown |= {
        index for table in tables for line in table["lines"] for cell in line["cells"] if cell for index in cell[:2]
    }
    main: list[int] = []
    pairs: list[int] = []
    for index, row in enumerate(rows):
        (pairs if is_pair(row) and index not in shown else main).append(index)
    return _columns(rows, main), _columns(rows, pairs)


def _columns(rows: Sequence[Row], indices: Sequence[int]) -> dict[str, Any]:
    """Return some rows as columns; texts are codes into a list of all texts, -1 for none."""
    texts: dict[str, int] = {}

    def code(text: str | None) -> int:
        return -1 if text is None else texts.setdefault(text, len(texts))

    columns: dict[str, list[Any]] = {"id": list(indices)}
    chosen = [rows[index] for index in indices]
    for name in ("observer", "against", "measure", "statistic", "note"):
        columns[name] = [code(getattr(row, name)) for row in chosen]
    columns["group"] = [code(group_text(row.group)) for row in chosen]
    columns["flags"] = [code(" ".join(row.flags)) for row in chosen]
    for name in _NUMBERS:
        columns[name] = [getattr(row, name) for row in chosen]
    return {"texts": list(texts), **columns}


def measure_facts(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return what the site says of each measure."""
    facts = {}
    for name in names:
        entry = measures[name]
        facts[name] = {
            "short": short_name(name),
            "summary": entry.summary,
            "direction": entry.direction,
            "pairs": entry.symmetric is not None,
            "citation": entry.citation,
        }
    return facts


def part_facts(part: ReportPart, first: int, labels: Sequence[str]) -> dict[str, Any]:
    """Return a part for the site's first shard.

    Args:
        part: The part.
        first: Index of its first row in `scores.parquet`.
        labels: Labels of its answers.
    """
    scores, entry = part.scores, part.benchmark
    verdict = closest_model(scores)
    sentences = verdict_sentences(scores) if part.verdict is None else [part.verdict]
    if not sentences and entry is not None and entry.table is not None:
        own = entry.table.headline(scores) if entry.table.headline is not None else ""
        sentences = [text for text in (own or best_line_text(entry.table.table(scores)),) if text]
    names = list(dict.fromkeys(row.measure for row in scores.rows))
    classes = len([label for label in labels if label != "abstain"])
    facts: dict[str, Any] = {
        "name": part.name,
        "title": part.title,
        "text": part.text,
        "answers": part.answers,
        "benchmark": None if entry is None else entry.name,
        "source": None if entry is None else entry.source,
        "first": first,
        "count": len(scores.rows),
        "measures": names,
        "headline": sentences[0] if sentences else "",
        "verdict": " ".join(sentences),
        "notices": list(scores.notices),
        "settings": scores.settings,
        "leaderboard": [first + index for index in leaderboard_rows(scores)],
        "simulated": any("simulated" in row.flags for row in scores.rows),
        "ranked": ranked_measures(scores),
        "group": "" if verdict is None else group_text(verdict.group),
        "chance": {name: level for name in names if (level := chance_level(name, classes)) is not None},
        "sections": [],
    }
    if verdict is not None:
        facts["measure"], facts["people"] = verdict.measure, verdict.people
    if entry is not None:
        facts["sections"] = [
            {"title": section.title, "text": section.text, "name": name, "charts": list(map(asdict, section.charts))}
            for name, section in entry.sections.items()
        ]
    if entry is not None and entry.table is not None:
        facts["table"] = _benchmark_table(scores, entry.table, first)
    return facts


def _benchmark_table(scores: Scores, layout: TableLayout, first: int) -> dict[str, Any]:
    """Return a benchmark's table: columns, and lines whose cells are indices of rows (value, standard deviation)."""
    table = layout.table(scores)
    numbers = {id(row): first + number for number, row in enumerate(scores.rows)}

    def number_of(row: Row | None) -> int | None:
        return None if row is None else numbers.get(id(row))

    lines = []
    for line in table.lines:
        cells = []
        for cell in line.cells:
            value = number_of(cell.row)
            cells.append([value, number_of(cell.spread), cell.rank] if value is not None else None)
        lines.append({"observer": line.observer, "model": line.model, "function": line.function, "seeds": line.seeds,
                      "section": line.section, "heading": line.heading, "cells": cells})  # fmt: skip
    columns = [{"title": column.title, "measure": column.measure, "group": group_text(column.group),
                "digits": column.digits, "summary": column.summary} for column in table.columns]  # fmt: skip
    remarks: list[tuple[str, int | None]] = []
    for text, row in layout.remarks(scores):
        index = number_of(row)  # None for a difference that has been given the sign of its text
        remarks.append((text if row is None or index is not None else f"{text}: {number_text(row)}", index))
    return {"against": table.against, "spread": layout.spread, "columns": columns, "lines": lines, "remarks": remarks}

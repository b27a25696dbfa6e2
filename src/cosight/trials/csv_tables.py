"""CSV files of trials: those that cosight wrote, and those of any other program (`columns`).

A file that cosight wrote has the columns of a trial table; label space, observers and sources are in
`NAME.csv-metadata.json` next to it (W3C, CSV on the Web). The table can be read without that file.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from cosight.errors import InvalidInput
from cosight.files import atomic_write, read_json
from cosight.trials.columns import ESSENTIAL, TableOptions, recognise_columns, trials_of_table
from cosight.trials.description import COLUMN_MEANINGS, describe, is_description, read_description
from cosight.trials.file_tables import (
    check_memory,
    csv_text,
    decode_text,
    parse_cells,
    probabilities_text,
    read_text_table,
    row_locator,
    separator_of,
    text_size,
    with_decimal_points,
    without_guard,
)
from cosight.trials.spaces import LabelSpace, guess_label_space
from cosight.trials.table import SCHEMA, Trials, concat, make_trials

__all__ = ["METADATA_SUFFIX", "is_table", "read_tables", "recognises", "write_table"]

METADATA_SUFFIX = "-metadata.json"  # of the description beside a CSV file
_FILE = "{file}"  # in an observer's name: the name of the file without its suffix
_FILE_COLUMN = "cosight:file"
_DATATYPES: dict[pl.DataType, str] = {
    pl.Int64(): "integer",
    pl.Float64(): "number",
}  # of CSV on the Web; any other column is text


def is_table(head: bytes) -> bool:
    """Return whether a file with this beginning is a table of text: its first line has several cells."""
    return separator_of(head) is not None and decode_text(head).lstrip()[:1] not in ("{", "[", "<")


def recognises(path: Path, head: bytes) -> bool:
    """Return whether a file is a table whose header names observer, image and response in a common spelling."""
    if not is_table(head):
        return False
    names = [name.strip() for name in next(csv.reader([_first_line(head)], delimiter=separator_of(head) or ","), [])]
    return set(ESSENTIAL) <= set(recognise_columns(names)) or set(names) == set(SCHEMA)


def _first_line(head: bytes) -> str:
    return (decode_text(head).lstrip("\r\n").splitlines() or [""])[0]


def read_tables(paths: Sequence[Path], space: LabelSpace | None = None, options: TableOptions | None = None) -> Trials:
    """Read CSV files. Tables with the same header are read as one.

    Args:
        paths: The files. Cells are separated by commas, semicolons, tabs or |.
        space: The label space of the answers, where the user declared it.
        options: What the user says about the columns.
    """
    check_memory(paths, text_size(paths))
    own: list[Trials] = []
    others: dict[tuple[str, tuple[str, ...]], dict[Path, pl.DataFrame]] = {}
    for path in paths:
        with path.open("rb") as stream:
            separator = separator_of(stream.read(1 << 16)) or ","
        table, _ = read_text_table(path, separator=separator)
        if set(table.columns) == set(SCHEMA) and options is None:
            if separator != ",":  # saved again by a spreadsheet
                table = table.with_columns(with_decimal_points(table[name]) for name in ("rt", "abstention"))
            own.append(_read_own(path, table, space))
        else:
            others.setdefault((separator, tuple(table.columns)), {})[path] = table
    return concat([*own, *(_read_others(tables, sep, space, options) for (sep, _), tables in others.items())])


def _read_others(
    tables: dict[Path, pl.DataFrame], separator: str, space: LabelSpace | None, options: TableOptions | None
) -> Trials:
    """Read tables of other programs that have the same header."""
    table = pl.concat(tables.values())
    if options is not None and options.observer is not None and _FILE in options.observer:
        names = [options.observer.replace(_FILE, path.stem) for path in tables for _ in range(tables[path].height)]
        table = table.with_columns(pl.Series(_FILE_COLUMN, names, pl.String))
        options = replace(options, observer=None, columns={**options.columns, "observer": _FILE_COLUMN})
    first = next(iter(tables))
    trials = trials_of_table(
        table,
        options,
        source=f"{first}{f' and {len(tables) - 1} more files' if len(tables) > 1 else ''}",
        locate=row_locator(tables),
        space=space,
        decimal_comma=separator != ",",
    )
    return replace(trials, sources=tuple({"file": path.name, "columns": tables[path].columns} for path in tables))


def _read_own(path: Path, table: pl.DataFrame, space: LabelSpace | None) -> Trials:
    """Read a file that cosight wrote, with its description where there is one."""
    plain = without_guard(table)
    cells = [parse_cells(plain[name], kind, lambda row: f"{path}, row {row + 1}") for name, kind in SCHEMA.items()]
    about: dict[str, Any] = {}
    description = path.with_name(path.name + METADATA_SUFFIX)
    if description.is_file():
        content = read_json(description)
        if not isinstance(content, dict) or not is_description(content):
            raise InvalidInput(f"{description}: not written by cosight; rename it or remove it")
        about = read_description(content, str(description))
    frame = pl.DataFrame(cells)
    if space is not None and about.get("space") is None:
        about["space"] = space
    elif not about:
        about["space"] = guess_label_space(frozenset(frame["truth"].drop_nulls()))
    trials = make_trials(frame, source=str(path), **about)
    return trials if space is None else trials.with_space(space)


def write_table(trials: Trials, path: Path) -> None:
    """Write trials as CSV, and their description beside it."""
    columns = [
        {"name": name, "datatype": _DATATYPES.get(kind, "string"), "dc:description": COLUMN_MEANINGS[name]}
        for name, kind in SCHEMA.items()
    ]
    content = {
        "@context": "http://www.w3.org/ns/csvw",
        "url": path.name,
        "tableSchema": {"columns": columns},
        **describe(trials),
    }
    about = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False, default=str) + "\n"
    with atomic_write(path.with_name(path.name + METADATA_SUFFIX)) as draft:  # both files, or neither
        draft.write_text(about, encoding="utf-8")
        with atomic_write(path) as table:
            table.write_text(csv_text(trials.frame.with_columns(probabilities_text())), encoding="utf-8", newline="")

"""Psych-DS folders (psych-ds.github.io): `dataset_description.json` and one CSV table per observer under `data/`.

Folders that cosight wrote hold every column of a trial and its row number in the table (`row`); label space, sources
and observers are in the description under `cosight:` keys, so that reading gives the same table back. In other folders
columns are recognised by their names (`columns.COLUMN_NAMES`), or by the keywords of the file name where there is no
such column; rt is read only where the description says `"unitText": "seconds"`, `level`, `block` and `trial` only where
all cells are whole numbers. Observers without a kind in their name ("model:...") are people. Everything else is kept in
`extra`, as it was written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from cosight.errors import InvalidInput
from cosight.files import atomic_folder
from cosight.trials.columns import COLUMN_NAMES, ESSENTIAL, recognise_columns, without_missing
from cosight.trials.description import COLUMN_MEANINGS, describe, is_description, read_description
from cosight.trials.file_tables import (
    check_memory,
    json_objects,
    parse_cells,
    probabilities_text,
    read_text_table,
    row_locator,
    text_size,
)
from cosight.trials.formats import Format, formats
from cosight.trials.spaces import ABSTAIN, LabelSpace, guess_label_space
from cosight.trials.table import KINDS, SCHEMA, Trials, concat, make_trials

__all__: list[str] = []

_DESCRIPTION = "dataset_description.json"
_DATASET = re.compile(rb'"@?type"\s*:\s*"(https?://schema\.org/)?Dataset"|"(https?://schema\.org/)?variableMeasured"')
_MEANING = {
    **COLUMN_MEANINGS,
    "row": "number of the trial in the whole table, from 1",  # last and never empty, so that a cut line is noticed
}
_ADDED = ("role", "repetition", "block")  # folders written before these columns existed lack them
# columns of a trial that other programs' folders may have
_FIELDS = (
    "observer",
    "image",
    "response",
    "truth",
    "experiment",
    "condition",
    "level",
    "rt",
    "session",
    "block",
    "trial",
)
# columns that keywords of a file name may stand for
_FROM_FILE_NAME = ("observer", "image", "experiment", "condition", "session")
_SECONDS = ("s", "sec", "second", "seconds")


def _recognises(path: Path, head: bytes) -> bool:
    return path.name == _DESCRIPTION and _DATASET.search(head) is not None


def _read(paths: Sequence[Path], space: LabelSpace | None = None) -> Trials:
    tables = [_read_folder(path) for path in paths]
    return concat(tables if space is None else [table.with_space(space) for table in tables])


def _read_folder(path: Path) -> Trials:
    """Read the trials of the folder with this description."""
    try:
        description = json.loads(path.read_bytes().decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{path}: a dataset description is JSON text, this is not: {error}") from error
    if not isinstance(description, dict) or _DATASET.search(json.dumps(description).encode()) is None:
        raise InvalidInput(
            f'{path}: a Psych-DS description has "@type": "Dataset" and variableMeasured, got {str(description)[:80]}'
        )
    files = sorted((path.parent / "data").rglob("*_data.?sv"))
    files = [file for file in files if file.suffix in (".csv", ".tsv") and file.name[0] != "." and file.is_file()]
    check_memory(files, text_size(files))
    tables = {file: read_text_table(file, separator="\t" if file.suffix == ".tsv" else ",")[0] for file in files}
    if not tables:
        raise InvalidInput(f"{path}: a Psych-DS folder has data/*_data.csv beside its description, got no such file")
    return (_read_own if is_description(description) else _read_foreign)(path, description, tables)


# ---- folders that cosight wrote


def _read_own(path: Path, description: dict[str, Any], tables: dict[Path, pl.DataFrame]) -> Trials:
    for file, table in tables.items():
        for name in _MEANING:
            if name not in table.columns and name not in _ADDED:
                raise InvalidInput(f"{file}: a table written by cosight has the column {name!r}, got {table.columns}")
    empty = pl.DataFrame(schema=dict.fromkeys(_MEANING, pl.String))
    raw = pl.concat(
        [empty, *(table.select(set(_MEANING) & set(table.columns)) for table in tables.values())], how="diagonal"
    )
    locate = row_locator(tables)
    if raw["row"].has_nulls():
        row = locate(int(raw["row"].is_null().arg_max() or 0))
        raise InvalidInput(f"{row}, column row: every trial has its number in the table, got half a line")
    kinds = {**SCHEMA, "row": pl.Int64()}
    typed = raw.select(parse_cells(raw[name], kind, locate) for name, kind in kinds.items())
    order = typed["row"].arg_sort()
    about = read_description(description, str(path))
    return make_trials(typed[order], locate=lambda i: locate(order[i]), **about)


# ---- other folders


def _read_foreign(path: Path, description: dict[str, Any], tables: dict[Path, pl.DataFrame]) -> Trials:
    variables = description.get("variableMeasured")
    in_seconds = frozenset(
        str(variable.get("name"))
        for variable in (variables if isinstance(variables, list) else [variables])
        if isinstance(variable, dict) and str(variable.get("unitText")).strip().lower() in _SECONDS
    )
    frame = pl.concat([_as_trials(file, table, in_seconds) for file, table in tables.items()])
    named = frozenset([*frame["truth"].drop_nulls(), *frame["response"].drop_nulls()]) - {ABSTAIN}
    space = guess_label_space(named) if named else None
    sources = [{"file": file.relative_to(path.parent).as_posix()} for file in tables]
    return make_trials(frame, locate=row_locator(tables), space=space, sources=sources)


def _as_trials(file: Path, table: pl.DataFrame, in_seconds: frozenset[str]) -> pl.DataFrame:
    """Return one table as trials, with every column that is not recognised in `extra`."""
    keywords = dict(re.findall(r"([a-z]+)-([A-Za-z0-9]+)_", file.name))
    in_table = {field: name for field, name in recognise_columns(table.columns).items() if field in _FIELDS}
    in_name = {
        field: key
        for field, key in recognise_columns(keywords).items()
        if field in _FROM_FILE_NAME and field not in in_table
    }
    for field in ESSENTIAL:
        if field not in in_table and field not in in_name:
            known = ", ".join(COLUMN_NAMES[field])
            raise InvalidInput(
                f"{file}: trials need a column for the {field} ({known}), got {', '.join(table.columns)}"
            )
    usable = {field: name for field, name in in_table.items() if _is_usable(field, table[name], in_seconds)}
    full = table.with_columns(pl.lit(word).alias(key) for key, word in keywords.items() if key not in table.columns)
    used = {**usable, **in_name}
    rest = [name for name in full.columns if name not in used.values()]
    extra = json_objects([full[name] for name in rest]) if rest else [None] * full.height
    columns = [without_missing(full[name]).alias(field) for field, name in used.items()]
    text = pl.DataFrame([*columns, pl.Series("extra", extra, pl.String)])
    prefix = pl.col("observer").str.extract(rf"^({'|'.join(KINDS)}):")
    observer = pl.when(prefix.is_null()).then("human:" + pl.col("observer")).otherwise("observer")
    text = text.with_columns(observer=observer, kind=prefix.fill_null("human"))
    text = text.with_columns(pl.lit(None, dtype=pl.String).alias(name) for name in SCHEMA if name not in text.columns)
    return text.select(
        parse_cells(text[name], kind, lambda row: f"{file}, row {row + 1}") for name, kind in SCHEMA.items()
    )


def _is_usable(field: str, column: pl.Series, in_seconds: frozenset[str]) -> bool:
    """Return whether the unit and the cells of a column are those of the trial's column `field`."""
    if field == "rt":
        return column.name in in_seconds
    cells = without_missing(column)
    is_whole = cells.cast(pl.Int64, strict=False).null_count() == cells.null_count()
    return is_whole or field not in ("level", "block", "trial")


# ---- writing


def _write(trials: Trials, folder: Path) -> None:
    """Write a folder with the description and one table per observer."""
    if not len(trials):
        raise InvalidInput("a Psych-DS folder has at least one data file, got no trials to write")
    table = trials.frame.with_columns(probabilities_text(), row=pl.int_range(1, pl.len() + 1))
    ids = _file_ids(table["observer"].unique(maintain_order=True))
    with atomic_folder(folder) as draft:
        about = json.dumps(_description(trials), indent=1, ensure_ascii=False, allow_nan=False, default=str)
        (draft / _DESCRIPTION).write_text(about + "\n", encoding="utf-8")
        (draft / "data").mkdir()
        for (observer,), part in table.group_by(["observer"], maintain_order=True):
            part.write_csv(draft / "data" / f"subject-{ids[str(observer)]}_data.csv")


def _file_ids(observers: Iterable[str]) -> dict[str, str]:
    """Return letters and digits for each observer, distinct also where file names ignore case.

    >>> _file_ids(["human:s01", "human:s-01", "?"])
    {'human:s01': 's01', 'human:s-01': 's01x2', '?': 'observer'}
    """
    ids: dict[str, str] = {}
    taken: set[str] = set()
    for observer in observers:
        base = re.sub(r"[^A-Za-z0-9]", "", observer.removeprefix("human:"))[:100] or "observer"
        name, number = base, 1
        while name.lower() in taken:
            number += 1
            name = f"{base}x{number}"
        taken.add(name.lower())
        ids[observer] = name
    return ids


def _description(trials: Trials) -> dict[str, Any]:
    experiments = trials.frame["experiment"].drop_nulls().unique(maintain_order=True).to_list()
    variables: list[dict[str, str]] = []
    for name, meaning in _MEANING.items():
        unit = {"unitText": "seconds"} if name == "rt" else {}
        variables.append({"@type": "PropertyValue", "name": name, "description": meaning, **unit})
    return {
        "@context": "https://schema.org/",
        "@type": "Dataset",
        "name": f"Trials of {', '.join(experiments) or 'one experiment'}",
        "description": f"{len(trials)} trials of {trials.observers.height} observers, one file each",
        "schemaVersion": "Psych-DS 1.0.0",
        "variableMeasured": variables,
        **describe(trials),
    }


_FORMAT = Format(
    "psych-ds",
    "Psych-DS folders: dataset_description.json and data/subject-NAME_data.csv",
    _recognises,
    _read,
    _write,
    "",
    frozenset(SCHEMA),
)
formats.add("psych-ds", _FORMAT)

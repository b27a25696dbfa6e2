"""Psych-DS folders (psych-ds.github.io): `dataset_description.json` and one CSV table an observer under `data/`.

Our own folders hold every column of a trial and its place in the table (`row`); label space, sources and observers
travel in the description under `cosight:` keys, so that reading gives the same table back. In other people's folders
columns are known by their names (`_NAMES`), or by the keywords of the file name where there is no such column; rt is
taken only where the description says `"unitText": "seconds"`, `level`, `block` and `trial` where all cells are whole
numbers.
Observers without a kind in their name ("model:...") are people. Everything else is kept in `extra`, as it was written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl

from cosight.errors import InvalidInput
from cosight.files import atomic_folder
from cosight.trials.formats import Format, formats
from cosight.trials.spaces import ABSTAIN, LabelSpace, guess_label_space
from cosight.trials.table import KINDS, OBSERVERS, ROLES, SCHEMA, Trials, concat, make_trials

__all__: list[str] = []

_DESCRIPTION = "dataset_description.json"
_SPACE_KEY, _SOURCES_KEY, _OBSERVERS_KEY = "cosight:labelSpace", "cosight:sources", "cosight:observers"
_DATASET = re.compile(rb'"@?type"\s*:\s*"(https?://schema\.org/)?Dataset"|"(https?://schema\.org/)?variableMeasured"')
_MEANING = {
    "observer": "who answered: a person, a model or a simulated person",
    "kind": f"kind of observer: {', '.join(KINDS)}",
    "experiment": "experiment the trial belongs to",
    "stimulus": "identity of what was shown: digest of the decoded pixels, or a task's id",
    "image": "name of the image shown",
    "condition": "condition of the experiment",
    "level": "level of the manipulation",
    "truth": "true class",
    "response": "class answered, or abstain; empty for no answer",
    "probabilities": "JSON list of probabilities over the classes, in the order of cosight:labelSpace",
    "abstention": "readiness to refuse an answer, from 0 to 1 (refuses)",
    "rt": "response time",
    "role": f"what the trial is for: {', '.join(ROLES)}",
    "repetition": "how often the observer had been shown the stimulus before",
    "session": "session of the observer",
    "block": "block of the session",
    "trial": "number of the trial within the session",
    "extra": "JSON object: what the source had besides",
    "row": "place of the trial in the whole table, from 1",  # last and never empty: a line cut short is noticed
}
_ADDED = ("role", "repetition", "block")  # folders written before these columns existed lack them
_NAMES = {  # other people's names of our columns, the likelier first; compared in lower case, "-", "." and " " as "_"
    "observer": ("observer", "subject", "subject_id", "subj", "participant", "participant_id"),
    "image": ("image", "image_name", "imagename", "stimulus", "stimulus_name", "stimulus_id"),
    "response": ("response", "object_response", "answer"),
    "truth": ("truth", "correct_response", "correct_answer", "category"),
    "experiment": ("experiment", "task", "study"),
    "condition": ("condition",),
    "level": ("level",),
    "rt": ("rt", "response_time", "reaction_time"),
    "session": ("session", "session_id"),
    "block": ("block", "block_number", "block_index"),
    "trial": ("trial", "trial_number", "trial_index"),
}
_ESSENTIAL = ("observer", "image", "response")
_SAID = ("observer", "image", "experiment", "condition", "session")  # what a file name's keywords may stand for
_SECONDS = ("s", "sec", "second", "seconds")
_MISSING = ("", "na", "n/a", "nan")

Locate = Callable[[int], str]


def _recognises(path: Path, head: bytes) -> bool:
    return path.name == _DESCRIPTION and _DATASET.search(head) is not None


def _read(paths: Sequence[Path], space: LabelSpace | None = None) -> Trials:
    table = concat([_read_folder(path) for path in paths])
    return table if space is None else table.with_space(space)


def _read_folder(path: Path) -> Trials:
    """The trials beside one description."""
    about = _described(path)
    found = sorted((path.parent / "data").rglob("*_data.?sv"))
    tables = {file: _table(file) for file in found if file.suffix in (".csv", ".tsv") and file.name[0] != "."}
    if not tables:
        raise InvalidInput(f"{path}: a Psych-DS folder has data/*_data.csv beside its description, got no such file")
    return _own(path, about, tables) if _OBSERVERS_KEY in about else _others(path, about, tables)


def _described(path: Path) -> dict[str, Any]:
    try:
        about = json.loads(path.read_bytes().decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{path}: a dataset description is JSON text, this is not: {error}") from error
    if not isinstance(about, dict) or _DATASET.search(json.dumps(about).encode()) is None:
        raise InvalidInput(
            f'{path}: a Psych-DS description has "@type": "Dataset" and variableMeasured, got {str(about)[:80]}'
        )
    return about


def _table(path: Path) -> pl.DataFrame:
    """One file as text columns, null where a cell is empty."""
    try:
        text = path.read_bytes().decode("utf-8-sig").encode()
        return pl.read_csv(text, infer_schema=False, separator="\t" if path.suffix == ".tsv" else ",")
    except (UnicodeDecodeError, pl.exceptions.PolarsError) as error:
        reason = str(error).split("\n", 1)[0]
        raise InvalidInput(f"{path}: a data file is a table as text, this is not: {reason}") from error


# ---- our own folders


def _own(path: Path, about: dict[str, Any], tables: dict[Path, pl.DataFrame]) -> Trials:
    for file, table in tables.items():
        for name in _MEANING:
            if name not in table.columns and name not in _ADDED:
                raise InvalidInput(f"{file}: a table written by cosight has the column {name!r}, got {table.columns}")
    empty = pl.DataFrame(schema=dict.fromkeys(_MEANING, pl.String))
    raw = pl.concat(
        [empty, *(table.select(set(_MEANING) & set(table.columns)) for table in tables.values())], how="diagonal"
    )
    locate = _locator(tables)
    if raw["row"].has_nulls():
        place = locate(int(raw["row"].is_null().arg_max() or 0))
        raise InvalidInput(f"{place}, column row: every trial has its place in the table, got half a line")
    kinds = {**SCHEMA, "row": pl.Int64()}
    typed = raw.select(_typed(raw[name], kind, locate) for name, kind in kinds.items())
    order = typed["row"].arg_sort()
    known, space = _about_observers(path, about), _about_space(path, about)
    sources = about.get(_SOURCES_KEY, [])
    return make_trials(typed[order], locate=lambda i: locate(order[i]), space=space, observers=known, sources=sources)


def _locator(tables: dict[Path, pl.DataFrame]) -> Locate:
    """Where a row (from 0) of all tables together stands."""

    def locate(row: int) -> str:
        for file, table in tables.items():
            if row < table.height:
                return f"{file}, row {row + 1}"
            row -= table.height
        raise IndexError(row)

    return locate


def _typed(column: pl.Series, kind: pl.DataType, locate: Locate) -> pl.Series:
    """Cells of text as values of the table; one that is none is named."""
    if kind == pl.List(pl.Float32()):
        numbers = column.str.extract(r"^\[(.*)\]$").str.replace_all(" ", "").str.split(",")
        values = numbers.cast(kind, strict=False)
        bad = column.is_not_null() & values.list.eval(pl.element().is_null()).list.any().fill_null(True)
    else:
        values = column.cast(kind, strict=False)
        bad = column.is_not_null() & values.is_null()
    if bad.any():
        row = int(bad.arg_max() or 0)
        raise InvalidInput(f"{locate(row)}, column {column.name}: a cell holds {kind} or nothing, got {column[row]!r}")
    return values


def _about_observers(path: Path, about: dict[str, Any]) -> pl.DataFrame:
    try:
        return pl.DataFrame(about[_OBSERVERS_KEY], schema=OBSERVERS)
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        raise InvalidInput(f"{path}: {_OBSERVERS_KEY} lists objects with {', '.join(OBSERVERS)}: {error}") from error


def _about_space(path: Path, about: dict[str, Any]) -> LabelSpace | None:
    facts = about.get(_SPACE_KEY)
    try:
        return None if facts is None else LabelSpace(**{**facts, "classes": tuple(facts["classes"])})
    except (KeyError, TypeError) as error:
        raise InvalidInput(f"{path}: {_SPACE_KEY} has name, classes, abstain and source, got {facts}") from error


# ---- other people's folders


def _others(path: Path, about: dict[str, Any], tables: dict[Path, pl.DataFrame]) -> Trials:
    seconds = _in_seconds(about)
    frame = pl.concat([_matched(file, table, seconds) for file, table in tables.items()])
    named = frozenset([*frame["truth"].drop_nulls(), *frame["response"].drop_nulls()]) - {ABSTAIN}
    sources = [{"file": file.relative_to(path.parent).as_posix()} for file in tables]
    return make_trials(
        frame, locate=_locator(tables), space=guess_label_space(named) if named else None, sources=sources
    )


def _in_seconds(about: dict[str, Any]) -> frozenset[str]:
    """The columns said to be measured in seconds."""
    variables = about.get("variableMeasured")
    listed = variables if isinstance(variables, list) else [variables]
    return frozenset(
        str(variable.get("name"))
        for variable in listed
        if isinstance(variable, dict) and str(variable.get("unitText")).strip().lower() in _SECONDS
    )


def _matched(file: Path, table: pl.DataFrame, seconds: frozenset[str]) -> pl.DataFrame:
    """One table as trials, with all that is not understood in `extra`."""
    keywords = dict(re.findall(r"([a-z]+)-([A-Za-z0-9]+)_", file.name))
    own = _columns(table.columns)
    said = {field: key for field, key in _columns(keywords).items() if field in _SAID and field not in own}
    for field in _ESSENTIAL:
        if field not in own and field not in said:
            known = ", ".join(_NAMES[field])
            raise InvalidInput(
                f"{file}: trials need a column for the {field} ({known}), got {', '.join(table.columns)}"
            )
    for field in [field for field in own if not _understood(field, table[own[field]], seconds)]:
        del own[field]
    full = table.with_columns(pl.lit(word).alias(key) for key, word in keywords.items() if key not in table.columns)
    used = {**own, **said}
    rest = [name for name in full.columns if name not in used.values()]
    extra = full.select(pl.struct(rest).struct.json_encode()).to_series() if rest else [None] * full.height
    cells = [_present(full[name]).alias(field) for field, name in used.items()]
    return _as_trials(
        pl.DataFrame([*cells, pl.Series("extra", extra, pl.String)]), lambda row: f"{file}, row {row + 1}"
    )


def _understood(field: str, column: pl.Series, seconds: frozenset[str]) -> bool:
    """Whether the unit or the cells of a column are what our column of that name holds."""
    if field == "rt":
        return column.name in seconds
    whole = _present(column).cast(pl.Int64, strict=False).null_count() == _present(column).null_count()
    return whole or field not in ("level", "block", "trial")


def _columns(names: Iterable[str]) -> dict[str, str]:
    """Which of these names stands for which of our columns."""
    plain = {re.sub(r"[-. ]", "_", name.strip().lower()): name for name in names}
    found = {field: next((plain[n] for n in known if n in plain), None) for field, known in _NAMES.items()}
    return {field: name for field, name in found.items() if name is not None}


def _present(column: pl.Series) -> pl.Series:
    return column.set(column.str.to_lowercase().is_in(_MISSING).fill_null(False), None)


def _as_trials(text: pl.DataFrame, locate: Locate) -> pl.DataFrame:
    prefix = pl.col("observer").str.extract(rf"^({'|'.join(KINDS)}):")
    kind = prefix.fill_null("human")
    observer = pl.when(prefix.is_null()).then("human:" + pl.col("observer")).otherwise("observer")
    full = text.with_columns(observer=observer, kind=kind)
    missing = [pl.lit(None, dtype=pl.String).alias(name) for name in SCHEMA if name not in full.columns]
    full = full.with_columns(missing)
    return full.select(_typed(full[name], kind, locate) for name, kind in SCHEMA.items())


# ---- writing


def _write(trials: Trials, folder: Path) -> None:
    """A folder with the description and one table an observer."""
    if not len(trials):
        raise InvalidInput("a Psych-DS folder has at least one data file, got no trials to write")
    listed = pl.format("[{}]", pl.col("probabilities").cast(pl.List(pl.String)).list.join(", "))
    table = trials.frame.with_columns(probabilities=listed).with_columns(row=pl.int_range(1, pl.len() + 1))
    ids = _ids(table["observer"].unique(maintain_order=True))
    with atomic_folder(folder) as draft:
        about = json.dumps(_description(trials), indent=1, ensure_ascii=False, allow_nan=False)
        (draft / _DESCRIPTION).write_text(about + "\n", encoding="utf-8")
        (draft / "data").mkdir()
        for (observer,), part in table.group_by(["observer"], maintain_order=True):
            part.write_csv(draft / "data" / f"subject-{ids[str(observer)]}_data.csv")


def _ids(observers: Iterable[str]) -> dict[str, str]:
    """Letters and digits for each observer, distinct also where case is not told apart.

    >>> _ids(["human:s01", "human:s-01", "?"])
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
    return {
        "@context": "https://schema.org/",
        "@type": "Dataset",
        "name": f"Trials of {', '.join(experiments) or 'one experiment'}",
        "description": f"{len(trials)} trials of {trials.observers.height} observers, one file each",
        "schemaVersion": "Psych-DS 1.0.0",
        "variableMeasured": [_variable(name, meaning) for name, meaning in _MEANING.items()],
        _SPACE_KEY: None if trials.space is None else asdict(trials.space),
        _OBSERVERS_KEY: trials.observers.to_dicts(),
        _SOURCES_KEY: list(trials.sources),
    }


def _variable(name: str, meaning: str) -> dict[str, str]:
    unit = {"unitText": "seconds"} if name == "rt" else {}
    return {"@type": "PropertyValue", "name": name, "description": meaning, **unit}


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

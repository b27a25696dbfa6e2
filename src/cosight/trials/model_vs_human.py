"""model-vs-human's CSV files: one folder per experiment, one file per observer and session.

Header `subj,session,trial,rt,object_response,category,condition,imagename` (also `Session`), `na` for no answer, NaN rt
for models. Reading keeps everything needed to write the same files again: the image's full name and the file in
`extra`, further columns too, the spelling of the header and the line ends in the table's sources.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from cosight.errors import InvalidInput
from cosight.files import atomic_folder
from cosight.trials.columns import image_name
from cosight.trials.file_tables import check_memory, json_objects, read_text_table, text_size
from cosight.trials.formats import Format, formats
from cosight.trials.spaces import LabelSpace, guess_label_space
from cosight.trials.table import KINDS, SCHEMA, Trials, make_trials

__all__: list[str] = []

_COLUMNS = ("subj", "session", "trial", "rt", "object_response", "category", "condition", "imagename")
_MISSING = "na"


def _recognises(path: Path, head: bytes) -> bool:
    first = head.removeprefix(b"\xef\xbb\xbf").split(b"\n", 1)[0].decode("utf-8", errors="replace").lower()
    return set(_COLUMNS) <= {name.strip('" \r') for name in first.split(",")}


def _read(paths: Sequence[Path], space: LabelSpace | None = None) -> Trials:
    check_memory(paths, text_size(paths))
    parts, sources, lengths = [], [], []
    for path in paths:
        part, source = _read_file(path)
        parts.append(part)
        sources.append(source)
        lengths.append(part.height)
    raw = pl.concat(parts, how="diagonal")
    ends = pl.Series(lengths).cum_sum().to_list()

    def locate(row: int) -> str:
        index = next(i for i, end in enumerate(ends) if row < end)
        return f"{paths[index]}, row {row - (ends[index] - lengths[index]) + 1}"

    frame = _as_trials(raw, locate)
    if space is not None:
        return make_trials(frame, locate=locate, space=space, sources=sources)
    truths = frozenset(frame["truth"].drop_nulls().unique().to_list())
    guess = guess_label_space(truths)
    notices = []
    if guess is not None and len(truths) < len(guess.classes):
        notices.append(f"classes taken to be {guess.name}, of which {len(truths)} occur; --labels names others")
    return make_trials(frame, locate=locate, space=guess, sources=sources, notices=notices)


def _read_file(path: Path) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Read a file as text columns; return also how it was spelled, so that it can be written again."""
    raw, text = read_text_table(path, empty_is_null=False)
    header = raw.columns
    raw = raw.rename({name: name.lower() for name in header if name.lower() in _COLUMNS})
    for name in _COLUMNS:
        if name not in raw.columns:
            raise InvalidInput(f"{path}: a model-vs-human file must have the column {name!r}, got {', '.join(header)}")
    for name in ("file", "_file", "_experiment"):  # used here and in `extra`
        if name in raw.columns:
            raise InvalidInput(f"{path}: a further column cannot be called {name!r}, which is reserved; rename it")
    folder = path.absolute().parent.name
    source = {"file": f"{folder}/{path.name}", "columns": header, "crlf": "\r\n" in text[:10_000]}
    return raw.with_columns(_file=pl.lit(source["file"]), _experiment=pl.lit(folder)), source


def _as_trials(raw: pl.DataFrame, locate: Any) -> pl.DataFrame:
    """Return the columns of a trial; `locate` names a row in messages."""
    missing_rt = pl.col("rt").str.to_lowercase().is_in(["nan", "na", ""])
    more = [name for name in raw.columns if name not in (*_COLUMNS, "_file", "_experiment")]
    extra = json_objects([raw["_file"].alias("file"), raw["imagename"], *(raw[name] for name in more)])
    numbers = raw.select(
        *_COLUMNS,
        "_file",
        "_experiment",
        rt_=pl.when(~missing_rt).then("rt").cast(pl.Float64, strict=False),
        trial_=pl.col("trial").cast(pl.Int64, strict=False),
        extra=extra,
    )
    for column, words in (("rt", "rt is a number of seconds or NaN"), ("trial", "trial is a whole number")):
        bad = numbers[f"{column}_"].is_null() & ~_blank(numbers[column])
        if bad.any():
            row = int(bad.arg_max() or 0)
            raise InvalidInput(f"{locate(row)}, column {column}: {words}, got {numbers[column][row]!r}")
    for column in ("subj", "imagename"):
        if (_blank(numbers[column])).any():
            row = int(_blank(numbers[column]).arg_max() or 0)
            raise InvalidInput(f"{locate(row)}, column {column}: every trial has one, got an empty cell or half a line")
    person = numbers.select(
        (pl.col("subj").str.starts_with("subject") | pl.col("rt_").is_finite().any().over("_file", "subj")).alias("p")
    )["p"].fill_null(False)
    guess = pl.when(person).then(pl.lit("human")).otherwise(pl.lit("model"))
    prefix = pl.col("subj").str.extract(r"^([^:]+):")  # files we wrote ourselves may name source or kind
    kind = pl.when(prefix.is_in(KINDS)).then(prefix).when(prefix.is_not_null()).then(pl.lit("model")).otherwise(guess)
    return numbers.with_columns(kind=kind).select(
        observer=pl.when(prefix.is_not_null()).then("subj").otherwise(pl.col("kind") + ":" + pl.col("subj")),
        kind="kind",
        experiment="_experiment",
        image=image_name(pl.col("imagename")),
        condition=_text("condition"),
        truth=_text("category"),
        response=pl.when(pl.col("object_response") != _MISSING).then(_text("object_response")),
        rt="rt_",
        session="session",
        trial="trial_",
        extra="extra",
    )


def _text(column: str) -> pl.Expr:
    return pl.when(~pl.col(column).str.to_lowercase().is_in(["nan", ""])).then(column)


def _blank(column: pl.Series) -> pl.Series:
    return column.str.to_lowercase().is_in(["nan", "na", ""]) | column.is_null()


def _write(trials: Trials, folder: Path) -> None:
    """Write one folder per experiment and one file per observer and session, or the files they came from."""
    for column in ("truth", "image"):
        if trials.frame[column].has_nulls():
            raise InvalidInput(f"model-vs-human files need the {column} of every trial; write Parquet or Psych-DS")
    spelled = {
        source["file"]: {"crlf": False, **source}
        for source in trials.sources
        if "file" in source and {name.lower() for name in source.get("columns", ())} >= set(_COLUMNS)
    }
    presentation = pl.col("extra").str.json_path_match("$.imagename")
    own_name = pl.when(image_name(presentation) == pl.col("image")).then(presentation)
    named = trials.frame.with_columns(_file=_file_of(), _imagename=pl.coalesce(own_name, pl.col("image")))
    _check_names(named)
    with atomic_folder(folder) as draft:
        for (name,), part in named.group_by(["_file"], maintain_order=True):
            target = draft / str(name)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(_spell(part, spelled.get(str(name), {"columns": _COLUMNS, "crlf": False})))


def _check_names(named: pl.DataFrame) -> None:
    """Raise where reading would give other names than those written."""
    rules = {
        "image": (image_name(pl.col("_imagename")) != pl.col("image")) | _is_missing("image"),
        "truth": _is_missing("truth"),
        "response": _is_missing("response"),
    }
    for column, is_lost in rules.items():
        lost = named.filter(is_lost)
        if lost.height:
            name = lost[column][0]
            raise InvalidInput(
                f"model-vs-human files cannot hold the {column} {name!r}, which would be read as another; "
                "write Parquet or Psych-DS"
            )
    folders = named.group_by(pl.col("_file").str.split("/").list.first()).agg(pl.col("experiment").unique().sort())
    merged = folders.filter(pl.col("experiment").list.len() > 1)
    if merged.height:
        names = " and ".join(repr(name) for name in merged["experiment"][0])
        raise InvalidInput(
            f"model-vs-human files need a folder per experiment, {names} would share one; rename one or write Parquet"
        )


def _is_missing(column: str) -> pl.Expr:
    return pl.col(column).str.to_lowercase().is_in(["nan", "na", ""])


def _file_of() -> pl.Expr:
    """Return an expression for the file a trial came from, or one named by experiment, observer and session."""
    safe = pl.col("observer").str.split(":").list.last().str.replace_all(r"[^A-Za-z0-9.#@+-]", "-")
    named = pl.when(pl.col("experiment") != "").then("experiment").otherwise(pl.lit("experiment"))
    experiment = named.str.replace_all(r"[^A-Za-z0-9._-]|^\.+", "-")  # "" and ".." are folders, but not inside ours
    session = pl.col("session").fill_null("1").str.replace_all(r"[^A-Za-z0-9.-]", "-")
    default = pl.format("{}/{}_{}_session-{}.csv", experiment, experiment, safe, session)
    original = pl.col("extra").str.json_path_match("$.file")
    inside = original.str.contains(r"^[^/\\\x00]+/[^/\\\x00]+$") & ~original.str.contains(r"(^|/)\.\.?(/|$)")
    return pl.when(inside).then(original).otherwise(default)  # a path out of the folder is never used


def _spell(part: pl.DataFrame, source: dict[str, Any]) -> bytes:
    """Return one file with the header and line ends of its source."""
    rt = ["NaN" if value is None else json.dumps(value) for value in part["rt"].to_list()]
    columns = {
        "subj": _subject(),
        "session": pl.col("session").fill_null("1"),
        "trial": pl.coalesce(pl.col("trial"), pl.int_range(1, pl.len() + 1)).cast(pl.String),
        "rt": pl.lit(pl.Series(rt, dtype=pl.String)),
        "object_response": pl.col("response").fill_null(_MISSING),
        "category": pl.col("truth"),
        "condition": pl.col("condition").fill_null("NaN"),
        "imagename": pl.col("_imagename"),
    }
    selected = []
    for name in source["columns"]:
        if name.lower() in columns:
            selected.append(columns[name.lower()].alias(name))
        else:
            escaped = name.replace("\\", "\\\\").replace("'", "\\'")
            selected.append(pl.col("extra").str.json_path_match(f"$['{escaped}']").alias(name))
    table = part.select(selected).select(pl.when(pl.all() != "").then(pl.all()))  # empty cells without quotes
    text: str = table.write_csv(line_terminator="\r\n" if source["crlf"] else "\n")
    return text.encode("utf-8")


def _subject() -> pl.Expr:
    """Return an expression for the observer without its kind where reading would guess that kind, else in full."""
    name = pl.col("observer").str.replace(r"^(human|model):", "")
    person = name.str.starts_with("subject") | pl.col("rt").is_finite().any().over("observer")
    guess = pl.when(person).then(pl.lit("human:")).otherwise(pl.lit("model:"))
    alone = (name.n_unique() == pl.col("observer").n_unique()) & ~name.str.contains(":")
    return pl.when((guess + name == pl.col("observer")) & alone).then(name).otherwise("observer")


formats.add(
    "model-vs-human",
    Format(
        "model-vs-human",
        "model-vs-human's CSV folders: experiment/experiment_observer_session.csv",
        _recognises,
        _read,
        _write,
        "",
        frozenset(SCHEMA) - {"stimulus", "level", "probabilities", "abstention", "role", "repetition", "block"},
    ),
)

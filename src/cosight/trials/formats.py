"""Formats of trial files: the registry, and reading, writing and converting files of any registered format."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import polars as pl

from cosight.errors import InvalidInput
from cosight.files import nearest_path, read_json
from cosight.registry import Registry
from cosight.trials import csv_tables
from cosight.trials.columns import RtUnit, TableOptions, table_options, trials_of_table
from cosight.trials.file_tables import read_metadata, read_parquet
from cosight.trials.samples import is_sample, samples, trial_path
from cosight.trials.spaces import LabelSpace, guess_label_space, label_space
from cosight.trials.table import (
    SCHEMA,
    Kind,
    Trials,
    concat,
    doubtful_values,
    dropped_columns,
    make_trials,
    select_roles,
)

__all__ = ["Format", "Reader", "TrialSource", "convert", "formats", "output_format", "read", "write"]


class Reader(Protocol):
    """Reads files of one format, all at once."""

    def __call__(self, paths: Sequence[Path], space: LabelSpace | None = None) -> Trials:
        """Return the trials of these files; `space` is the label space where the user declared it."""
        ...


@dataclass(frozen=True, slots=True)
class Format:
    """A way to store trials on disk."""

    name: str
    summary: str
    recognises: Callable[[Path, bytes], bool]  # a file and its first bytes
    read: Reader
    write: Callable[[Trials, Path], None]  # to a file or folder, atomically
    suffix: str  # of a file to be written; "" for a folder
    keeps: frozenset[str]  # the columns of a trial that survive writing and reading


class PandasFrame(Protocol):
    """A pandas DataFrame, which cosight does not import."""

    @property
    def columns(self) -> Any:
        """The names of its columns."""
        ...

    def to_dict(self, orient: Any) -> Any:
        """Return its values by column."""
        ...


TrialSource: TypeAlias = str | Path | Trials | pl.DataFrame | PandasFrame

formats: Registry[Format] = Registry("format")
_CSV = formats.add(
    "csv",
    Format(
        "csv",
        "CSV tables of any program, and the trial table as one",
        csv_tables.recognises,
        csv_tables.read_tables,
        csv_tables.write_table,
        ".csv",
        frozenset(SCHEMA),
    ),
)  # asked last, because it takes many tables for trials

_HEAD = 1 << 16  # bytes that a format is recognised by
_DESCRIPTION = "dataset_description.json"  # a folder with this file is a Psych-DS folder
_FRAME = "the data frame"  # in messages
_TABLE_SUFFIXES = (".csv", ".tsv")
_SPREADSHEETS = (".xlsx", ".xls", ".ods", ".numbers")
_RUN = "run.json"  # a folder with this file is a run


def read(
    *sources: TrialSource,
    labels: str | LabelSpace | None = None,
    columns: Mapping[str, str] | Sequence[str] | None = None,
    experiment: str | None = None,
    condition: str | None = None,
    observer: str | None = None,
    kind: Kind | None = None,
    rt_unit: RtUnit | None = None,
) -> Trials:
    """Read trials of people and models into one table.

    The content of a file decides how it is read, not its name. Columns of a CSV file or a data frame are recognised by
    common names; what was guessed is in `notices`. The options from `columns` to `rt_unit` are about the CSV files and
    data frames among the sources.

    Args:
        *sources: Trial files, folders that are searched for them, run folders, samples (`sample:NAME`), trials, and
            data frames (polars or pandas).
        labels: The label space of the answers: its name, comma-separated class names, or the space itself. Without
            it, the one that the files declare or that their truths tell.
        columns: Column of a trial -> column of the file or frame, as a mapping or as texts ("observer=subj").
        experiment: The experiment of all trials.
        condition: The condition of all trials.
        observer: The one observer of all trials; `{file}` in it stands for the name of the file.
        kind: Kind of the observers whose names do not tell it (default: people).
        rt_unit: Unit of the response times, s or ms (default: guessed from the column's name and its values).

    Returns:
        All trials. Files of no known format are skipped and counted in `notices`.

    Raises:
        InvalidInput: A source does not exist or has no trials, a file is broken, or a column is missing.
        UnknownName: No sample or label space has this name.

    >>> len(read("sample:edges"))
    5600
    >>> answers = pl.DataFrame({"subj": ["s1"], "file": ["a.png"], "answer": ["cat"], "label": ["dog"]})
    >>> read(answers, experiment="pets").frame.select("observer", "image", "truth").row(0)
    ('human:s1', 'a.png', 'dog')
    """
    if not sources:
        raise InvalidInput("name at least one file or folder of trials")
    space = label_space(labels) if isinstance(labels, str) else labels
    for source in sources:  # all of them before the first is read
        if isinstance(source, str | Path):
            _check_exists(trial_path(source))
    options = table_options(
        columns, experiment=experiment, condition=condition, observer=observer, kind=kind, rt_unit=rt_unit
    )
    tables, files = [], []
    for source in sources:
        if isinstance(source, Trials):
            tables.append(source)
            continue
        if isinstance(source, str | Path):
            path = trial_path(source)
            described = options is not None and not is_sample(source)
            tables.append(_read_described(path, space, options) if described else _read_path(path, space))
        else:
            tables.append(_read_frame(_polars_frame(source), space, options))
        name = str(source) if isinstance(source, str | Path) else _FRAME
        if not len(tables[-1]):
            raise InvalidInput(f"{name}: a trial file must hold at least one trial, got none")
        files.append((name, tables[-1]))
    if options is not None and all(isinstance(source, Trials) or is_sample(source) for source in sources):
        raise InvalidInput("--columns, --experiment and the like describe CSV files and data frames, got none of these")
    trials = concat(tables if space is None else [table.with_space(space) for table in tables])
    doubts = [notice for name, table in files for notice in doubtful_values(table, trials.space, name)]
    return replace(trials, notices=(*trials.notices, *doubts))


def convert(
    source: str | Path,
    target: str | Path,
    *,
    to: str | None = None,
    columns: Mapping[str, str] | Sequence[str] | None = None,
    experiment: str | None = None,
    condition: str | None = None,
    observer: str | None = None,
    kind: Kind | None = None,
    rt_unit: RtUnit | None = None,
    only: Sequence[str] | None = None,
    labels: str | LabelSpace | None = None,
    force: bool = False,
) -> Trials:
    """Read trials of any format and write them in another; the output is written completely or not at all.

    Args:
        source: Trials in any format, or sample:NAME.
        target: File or folder to write.
        to: Format (`cosight list formats`); default: by the file name, model-vs-human for a folder.
        columns: Columns of a CSV file, such as observer=participant_id,image=file,response=answer,truth=label
            (default: guessed from their names).
        experiment: Experiment of all trials of a CSV file.
        condition: Condition of all trials of a CSV file.
        observer: Observer of all trials of a CSV file; {file} stands for the name of each file of a folder.
        kind: Kind of the observers of a CSV file whose names do not tell it (default: human).
        rt_unit: Unit of the response times of a CSV file (default: guessed).
        only: Comma-separated observers whose trials are written (default: all).
        labels: Label space: a name (`cosight list label-spaces`) or comma-separated class names.
        force: Overwrite an existing file.

    Returns:
        The trials that were written; what a reader should know is in `notices`.

    Raises:
        InvalidInput: The source has no trials, a column is missing, or the target exists or cannot store these trials.
        UnknownName: No format, label space or observer has this name.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     len(convert("sample:edges", Path(folder) / "edges.csv", only=["human:subject-01"]))
    160
    """
    trials = read(
        source,
        labels=labels,
        columns=columns,
        experiment=experiment,
        condition=condition,
        observer=observer,
        kind=kind,
        rt_unit=rt_unit,
    )
    if only:
        trials = trials.only(*only)
    written = write(trials, target, to=to, force=force)
    format_ = output_format(target, to)
    dropped = dropped_columns(written, format_.keeps)
    lost = [f"{format_.name} does not keep {', '.join(dropped)}"] if dropped else []
    return replace(written, notices=(*written.notices, *lost))


def write(trials: Trials, path: str | Path, *, to: str | None = None, force: bool = False) -> Trials:
    """Write trials to a file or folder.

    Args:
        trials: The trials to write.
        path: The file or folder.
        to: Name of the format; by default that of the path's suffix, and model-vs-human for a path without suffix.
        force: Whether an existing file is overwritten. A folder must be new or empty.

    Returns:
        The trials that were written. A format without roles gets first showings of test stimuli only, because its
        readers take every trial for one; a notice counts the others.

    Raises:
        InvalidInput: The path has an unknown suffix or exists already, or the format cannot store these trials.
        UnknownName: No format has the name `to`.

    >>> trials = read("sample:edges")
    >>> _ = write(trials, "edges.parquet")
    >>> read("edges.parquet").frame.height == trials.frame.height
    True
    """
    if is_sample(path):
        raise InvalidInput(f"samples ship with the package and cannot be written, got {path}; name a file or folder")
    chosen = output_format(path, to)
    if chosen.suffix and not force and os.path.lexists(path):
        raise InvalidInput(f"{path} exists; choose another name, or overwrite it with --force")
    written = trials if "role" in chosen.keeps or not len(trials) else select_roles(trials)
    chosen.write(written, Path(path))
    return written


def output_format(path: str | Path, to: str | None = None) -> Format:
    """Return the format that `write` uses for these arguments."""
    if to:
        return formats[to]
    suffix = Path(path).suffix
    if not suffix:
        return formats["model-vs-human"]
    chosen = next((known for known in formats.values() if known.suffix == suffix), None)
    if chosen is None:
        endings = ", ".join(known.suffix for known in formats.values() if known.suffix)
        raise InvalidInput(f"a trial file ends in {endings}, got {Path(path).name}; name a folder or choose with --to")
    return chosen


def _polars_frame(source: Any) -> pl.DataFrame:
    """Return a data frame of polars or pandas as one of polars."""
    if isinstance(source, pl.LazyFrame):
        return source.collect()
    if isinstance(source, pl.DataFrame):
        return source
    if type(source).__module__.split(".")[0] != "pandas" or not hasattr(source, "columns"):
        raise InvalidInput(f"trials are files, folders, samples or data frames, got {type(source).__name__}")
    frame = source if source.index.names == [None] else source.reset_index()
    names = [str(name) for name in frame.columns]
    if len(set(names)) < len(names):
        raise InvalidInput(f"the data frame has two columns called {max(names, key=names.count)!r}; rename one")
    cells = {name: frame[key].astype(object) for name, key in zip(names, frame.columns, strict=True)}
    return pl.DataFrame(
        [pl.Series(name, values.where(values.notna(), None).tolist(), strict=False) for name, values in cells.items()]
    )


def _read_frame(frame: pl.DataFrame, space: LabelSpace | None, options: TableOptions | None) -> Trials:
    """Return the trials of a data frame: a trial table as it is, any other by its columns."""
    if options is None and set(frame.columns) == set(SCHEMA):
        known = space or guess_label_space(frozenset(frame["truth"].drop_nulls()))
        return make_trials(frame, source=_FRAME, space=known)
    return trials_of_table(frame, options, source=_FRAME, space=space)


def _read_described(path: Path, space: LabelSpace | None, options: TableOptions | None) -> Trials:
    """Read the tables of a file or folder whose columns the user describes."""
    tables, frames = [], []
    for file in [path] if path.is_file() else sorted(_files_of(path)):
        with file.open("rb") as stream:
            head = stream.read(_HEAD)
        if head.startswith(b"PAR1") and "cosight" not in read_metadata(file):
            frames.append(trials_of_table(read_parquet(file)[0], options, source=str(file), space=space))
        elif csv_tables.is_table(head) and (path.is_file() or file.suffix.lower() in _TABLE_SUFFIXES):
            tables.append(file)
    if not tables and not frames:
        raise InvalidInput(
            f"{path}: --columns, --experiment and the like describe CSV files, this is none; leave these options out "
            "(--only chooses observers)"
        )
    return concat([*frames, *([csv_tables.read_tables(tables, space, options)] if tables else [])])


def _check_exists(path: Path) -> None:
    if not path.exists():
        name = str(path).rpartition(":")[2]  # of a sample whose prefix is missing or misspelt
        hint = f"did you mean {samples[name].reference}?" if name in samples else nearest_path(path)
        raise InvalidInput(f"trials must be a file or folder that exists, got {path}; {hint}")


def _read_path(path: Path, space: LabelSpace | None) -> Trials:
    by_format: dict[str, list[Path]] = {}
    unknown: list[Path] = []
    for file in [path] if path.is_file() else sorted(_files_of(path)):
        with file.open("rb") as stream:
            head = stream.read(_HEAD)
        in_order = sorted(formats.values(), key=lambda known: known is _CSV)
        known = next((known for known in in_order if known.recognises(file, head)), None)
        if known is None and file == path and csv_tables.is_table(head):
            known = _CSV  # its message names the columns that are missing
        if known is None:
            unknown.append(file)
        else:
            by_format.setdefault(known.name, []).append(file)
    if not by_format:
        names = ", ".join(formats)
        tables = [file for file in unknown if file.suffix.lower() in _TABLE_SUFFIXES and _is_table(file)]
        if tables:
            _CSV.read(tables[:1])  # raises: its message names the columns that are missing
        if path.is_file():
            if path.suffix.lower() in _SPREADSHEETS:
                raise InvalidInput(
                    f"{path}: spreadsheets are not read; save the sheet as CSV (UTF-8) and name that file"
                )
            raise InvalidInput(f"{path}: not a trial file ({names}); its first line or bytes fit none of these")
        raise InvalidInput(
            f"{path}: no trial files here ({names}), {len(unknown)} other files; name the folder that holds them"
        )
    table = concat([formats[name].read(files, space) for name, files in by_format.items()])
    notices = []
    if not _is_finished(path):  # it has answered its first stimuli, which may be those of the first classes
        notices.append(f"{path}: this run is not finished, only its first stimuli are answered")
    about = ("observers.parquet", csv_tables.METADATA_SUFFIX)  # they come with a table
    skipped = sorted(file.name for file in unknown if not file.name.endswith(about))
    if skipped:
        notices.append(f"{path}: {len(skipped)} files are no trials and were skipped ({', '.join(skipped[:3])}...)")
    return replace(table, notices=(*table.notices, *notices))


def _is_table(file: Path) -> bool:
    with file.open("rb") as stream:
        return csv_tables.is_table(stream.read(_HEAD))


def _files_of(folder: Path, parents: tuple[Path, ...] = ()) -> Iterator[Path]:
    """Yield the files that may hold trials.

    A Psych-DS folder is represented by its description, a run folder by its `trials/`. A link back to one of the
    `parents` is not followed.
    """
    real = folder.resolve()
    if real in parents:
        return
    if (folder / _DESCRIPTION).is_file():
        yield folder / _DESCRIPTION
        return
    if (folder / _RUN).is_file() and (folder / "trials").is_dir():
        folder = folder / "trials"
    for entry in folder.iterdir():
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _files_of(entry, (*parents, real))
        elif entry.is_file():
            yield entry


def _is_finished(path: Path) -> bool:
    """Return whether a path is no run folder, or that of a finished run."""
    record = path / _RUN
    if not record.is_file():
        return True
    try:
        state = read_json(record).get("state", "finished")
    except (ValueError, AttributeError):
        return False
    return bool(state == "finished")

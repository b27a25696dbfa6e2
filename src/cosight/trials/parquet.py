"""The package's own format: the trial table as Parquet (zstd), with label space and sources in its metadata.

`observers.parquet` in the same folder says more about the observers (family, architecture, seed, abstention function).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from cosight.errors import InvalidInput, first_line
from cosight.files import atomic_write
from cosight.trials.file_tables import compact, read_metadata, read_parquet
from cosight.trials.formats import Format, formats
from cosight.trials.spaces import LabelSpace, space_from
from cosight.trials.table import SCHEMA, Trials, check_sources, concat, make_trials, merge_observers, namesake_notices

__all__ = ["OBSERVERS_FILE", "read_sources", "read_space", "write_observers", "write_table"]

_VERSION = 2  # of the trial table; raised when an old reader would misread a new file
OBSERVERS_FILE = "observers.parquet"
_PORTION = 16  # files whose rows are joined at once


def _recognises(path: Path, head: bytes) -> bool:
    return head.startswith(b"PAR1") and path.name != OBSERVERS_FILE


@dataclass(slots=True)
class _Files:
    """Files with one label space; their rows are joined in portions, since thousands of small tables take much memory.

    A run has one file per shard of some 60 stimuli.
    """

    space: LabelSpace | None
    paths: list[Path] = field(default_factory=list)
    heights: list[int] = field(default_factory=list)
    observers: list[pl.Series] = field(default_factory=list)  # the names in each file
    sources: list[dict[str, Any]] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    portions: list[pl.DataFrame] = field(default_factory=list)
    waiting: list[pl.DataFrame] = field(default_factory=list)

    def add(self, path: Path, frame: pl.DataFrame, sources: list[dict[str, Any]], notices: list[str]) -> None:
        """Add the content of one file."""
        self.paths.append(path)
        self.heights.append(frame.height)
        self.observers.append(frame["observer"].unique())
        self.sources += sources
        self.notices += notices
        self.waiting.append(frame)
        if len(self.waiting) == _PORTION:
            self.join_waiting()

    def join_waiting(self) -> None:
        """Make one portion of the tables that are waiting."""
        self.portions.append(compact(pl.concat(self.waiting, rechunk=True)))
        self.waiting = []


def _read(paths: Sequence[Path], space: LabelSpace | None = None) -> Trials:
    """Read all files into one table; those of one label space, such as a run's many, are checked together."""
    by_space: dict[tuple[str, ...] | None, _Files] = {}
    for path in paths:
        frame, texts = read_parquet(path)
        metadata = _parse_metadata(texts, path)
        if metadata["version"] > _VERSION:
            raise InvalidInput(
                f"{path}: written by a newer cosight (table version {metadata['version']}); update cosight"
            )
        unknown = ", ".join(name for name in frame.columns if name not in SCHEMA)
        notices = [f"{path}: columns that a trial does not have were left out: {unknown}"] if unknown else []
        typed = frame if frame.schema == SCHEMA else make_trials(frame, source=str(path)).frame
        own = metadata["space"] or space
        files = by_space.setdefault(None if own is None else own.answers, _Files(own))
        files.add(path, typed, metadata["sources"], notices)
    tables = [_join_files(files) for files in by_space.values()]
    return concat(tables if space is None else [table.with_space(space) for table in tables])


def _join_files(files: _Files) -> Trials:
    """Return the trials of files with one label space."""
    ends = np.cumsum(files.heights)

    def locate(row: int) -> str:
        index = int(np.searchsorted(ends, row, side="right"))
        return f"{files.paths[index]}, row {row + 1 - (int(ends[index - 1]) if index else 0)}"

    folders = dict.fromkeys(path.parent for path in files.paths)
    known = [table for folder in folders if (table := _read_observers(folder / OBSERVERS_FILE)) is not None]
    notices = [*files.notices, *namesake_notices(files.observers)]
    if files.waiting:
        files.join_waiting()
    frame = pl.concat(files.portions, rechunk=False)
    files.portions.clear()  # rows are in memory once
    return make_trials(
        frame,
        locate=locate,
        space=files.space,
        observers=merge_observers(known),
        sources=files.sources,
        notices=notices,
    )


def _read_observers(path: Path) -> pl.DataFrame | None:
    """Read `observers.parquet`; None where there is none."""
    if not path.exists():
        return None
    frame, _ = read_parquet(path)
    if "observer" not in frame.columns:
        raise InvalidInput(f"{path}: a table of observers has the column 'observer', got {', '.join(frame.columns)}")
    try:
        return merge_observers([frame])
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from error


def _write(trials: Trials, path: Path) -> None:
    """Write the table to `path` and add its observers to `observers.parquet` in the same folder."""
    if path.name == OBSERVERS_FILE:
        raise InvalidInput(f"{OBSERVERS_FILE} holds what is known about observers; choose another name for the table")
    known = _read_observers(path.with_name(OBSERVERS_FILE))
    everyone = trials.observers if known is None else merge_observers([trials.observers, known])
    with atomic_write(path.with_name(OBSERVERS_FILE), durable=True) as draft:  # both files, or neither
        everyone.write_parquet(draft)
        write_table(trials, path)


def write_table(trials: Trials, path: Path, *, durable: bool = False) -> None:
    """Write the table without its observers; `durable` flushes it to the disk."""
    space = None if trials.space is None else asdict(trials.space)
    metadata = {"version": _VERSION, "space": space, "sources": list(trials.sources)}
    with atomic_write(path, durable=durable) as draft:
        trials.frame.write_parquet(draft, compression="zstd", metadata={"cosight": json.dumps(metadata)})


def write_observers(observers: pl.DataFrame, folder: Path) -> None:
    """Write `observers.parquet` into a folder of tables."""
    with atomic_write(folder / OBSERVERS_FILE, durable=True) as draft:
        observers.write_parquet(draft)


def read_sources(path: Path) -> list[dict[str, Any]]:
    """Return the sources of a table, without reading its rows."""
    return list(_parse_metadata(read_metadata(path), path)["sources"])


def read_space(path: Path) -> LabelSpace | None:
    """Return the label space of a table, without reading its rows."""
    space: LabelSpace | None = _parse_metadata(read_metadata(path), path)["space"]
    return space


def _parse_metadata(texts: dict[str, str], path: Path) -> dict[str, Any]:
    """Return version, label space and sources from a file's metadata; defaults where it has none."""
    try:
        metadata = json.loads(texts.get("cosight", "{}"))
        json.dumps(metadata, ensure_ascii=False).encode()  # raises for half of a surrogate pair
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{path}: the cosight metadata must be JSON: {first_line(error)}") from error
    version = metadata.get("version", _VERSION) if isinstance(metadata, dict) else None
    if type(version) is not int:
        raise InvalidInput(f"{path}: the cosight metadata must be an object with a version, got {str(metadata)[:80]}")
    return {
        "version": version,
        "space": space_from(metadata.get("space"), str(path)),
        "sources": check_sources(metadata.get("sources", []), str(path)),
    }


formats.add(
    "parquet",
    Format(
        "parquet", "the package's own trial table, Parquet", _recognises, _read, _write, ".parquet", frozenset(SCHEMA)
    ),
)

"""Our own format: the trial table as Parquet (zstd), label space and provenance in its metadata.

`observers.parquet` beside it says more about the observers (family, architecture, seed, abstention function).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from cosight.errors import InvalidInput
from cosight.files import atomic_write
from cosight.trials.formats import Format, formats
from cosight.trials.spaces import LabelSpace
from cosight.trials.table import OBSERVERS, SCHEMA, Trials, concat, make_trials

__all__ = ["OBSERVERS_FILE", "read_sources", "read_space", "write_observers", "write_table"]

_VERSION = 2  # of the trial table; grows when an old reader would misread a new file
OBSERVERS_FILE = "observers.parquet"


def _recognises(path: Path, head: bytes) -> bool:
    return head.startswith(b"PAR1") and path.name != OBSERVERS_FILE


def _read(paths: Sequence[Path], space: LabelSpace | None = None) -> Trials:
    """All files as one table; those of one label space, such as a run's many, are checked together."""
    parts = [_part(path, space) for path in paths]
    alike: dict[tuple[str, ...] | None, list[_Part]] = {}
    for part in parts:
        alike.setdefault(None if part.space is None else part.space.answers, []).append(part)
    return concat([_together(group) for group in alike.values()])


@dataclass(frozen=True, slots=True)
class _Part:
    """What one file holds."""

    path: Path
    frame: pl.DataFrame
    space: LabelSpace | None
    sources: tuple[dict[str, Any], ...]
    notices: tuple[str, ...]


def _part(path: Path, declared: LabelSpace | None) -> _Part:
    try:
        frame = pl.read_parquet(path, glob=False)
        about = _about(path)
    except (pl.exceptions.PolarsError, OSError, json.JSONDecodeError) as error:
        raise InvalidInput(f"{path}: not a readable Parquet file: {str(error).splitlines()[0]}") from error
    if about.get("version", _VERSION) > _VERSION:
        raise InvalidInput(f"{path}: written by a newer cosight (table version {about['version']}); update cosight")
    more = [name for name in frame.columns if name not in SCHEMA]
    notices = (f"{path}: columns that a trial does not have were left out: {', '.join(more)}",) if more else ()
    typed = frame if frame.schema == SCHEMA else make_trials(frame, source=str(path)).frame
    return _Part(path, typed, declared or _space(about.get("space")), tuple(about.get("sources", ())), notices)


def _together(parts: Sequence[_Part]) -> Trials:
    ends = np.cumsum([part.frame.height for part in parts])

    def locate(row: int) -> str:
        place = int(np.searchsorted(ends, row, side="right"))
        return f"{parts[place].path}, row {row - int(ends[place]) + parts[place].frame.height + 1}"

    folders = dict.fromkeys(part.path.parent for part in parts)
    known = [found for folder in folders if (found := _known(folder / OBSERVERS_FILE)) is not None]
    return make_trials(
        pl.concat([part.frame for part in parts]),
        locate=locate,
        space=parts[0].space,
        observers=pl.concat(known).unique("observer", maintain_order=True) if known else None,
        sources=[source for part in parts for source in part.sources],
        notices=[notice for part in parts for notice in part.notices],
    )


def _known(beside: Path) -> pl.DataFrame | None:
    """What `observers.parquet` says, if it is there."""
    if not beside.exists():
        return None
    try:
        return pl.read_parquet(beside, glob=False).select(pl.col(n).cast(t) for n, t in OBSERVERS.items())
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InvalidInput(f"{beside}: not a readable table of observers: {str(error).splitlines()[0]}") from error


def _space(about: dict[str, Any] | None) -> LabelSpace | None:
    return None if about is None else LabelSpace(**{**about, "classes": tuple(about["classes"])})


def _write(trials: Trials, path: Path) -> None:
    """Write the table to `path` and add its observers to `observers.parquet` beside it."""
    if path.name == OBSERVERS_FILE:
        raise InvalidInput(f"{OBSERVERS_FILE} holds what is known about observers; name the table otherwise")
    known = _known(path.with_name(OBSERVERS_FILE))  # before anything is written: it may be unreadable
    write_table(trials, path)
    everyone = trials.observers if known is None else pl.concat([trials.observers, known])
    write_observers(everyone.unique("observer", keep="first", maintain_order=True), path.parent)


def write_table(trials: Trials, path: Path, *, durable: bool = False) -> None:
    """Write the table alone."""
    space = None if trials.space is None else asdict(trials.space)
    about = {"version": _VERSION, "space": space, "sources": list(trials.sources)}
    with atomic_write(path, durable=durable) as draft:
        trials.frame.write_parquet(draft, compression="zstd", metadata={"cosight": json.dumps(about)})


def write_observers(observers: pl.DataFrame, folder: Path) -> None:
    """Write `observers.parquet` into a folder of tables."""
    with atomic_write(folder / OBSERVERS_FILE, durable=True) as draft:
        observers.write_parquet(draft)


def read_sources(path: Path) -> list[dict[str, Any]]:
    """Where the rows of a table came from, without reading them."""
    return list(_about(path).get("sources", ()))


def read_space(path: Path) -> LabelSpace | None:
    """The label space of a table, without reading its rows."""
    return _space(_about(path).get("space"))


def _about(path: Path) -> dict[str, Any]:
    about: dict[str, Any] = json.loads(pl.read_parquet_metadata(path).get("cosight", "{}"))
    return about


formats.add(
    "parquet",
    Format("parquet", "our own trial table, Parquet", _recognises, _read, _write, ".parquet", frozenset(SCHEMA)),
)

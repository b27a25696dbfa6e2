"""Formats of trial files: the registry, and reading and writing files of any registered format."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from cosight.errors import InvalidInput
from cosight.files import nearest_path, read_json
from cosight.registry import Registry
from cosight.trials.samples import is_sample, samples, trial_path
from cosight.trials.spaces import LabelSpace, label_space
from cosight.trials.table import Trials, concat, doubtful_values, select_roles

__all__ = ["Format", "Reader", "formats", "output_format", "read", "write"]


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


formats: Registry[Format] = Registry("format")

_HEAD = 1 << 16  # bytes that a format is recognised by
_DESCRIPTION = "dataset_description.json"  # a folder with this file is a Psych-DS folder
_RUN = "run.json"  # a folder with this file is a run


def read(*sources: str | Path | Trials, labels: str | LabelSpace | None = None) -> Trials:
    """Read trials of people and models into one table.

    The content of a file decides how it is read, not its name.

    Args:
        *sources: Trial files, folders that are searched for them, run folders, samples (`sample:NAME`), or trials.
        labels: The label space of the answers: its name, comma-separated class names, or the space itself. Without
            it, the one that the files declare or that their truths tell.

    Returns:
        All trials. Files of no known format are skipped and counted in `notices`.

    Raises:
        InvalidInput: A source does not exist or has no trials, or a file is broken.
        UnknownName: No sample or label space has this name.

    >>> len(read("sample:edges"))
    5600
    """
    if not sources:
        raise InvalidInput("name at least one file or folder of trials")
    space = label_space(labels) if isinstance(labels, str) else labels
    for source in sources:  # all of them before the first is read
        if not isinstance(source, Trials):
            _check_exists(trial_path(source))
    tables, files = [], []
    for source in sources:
        if isinstance(source, Trials):
            tables.append(source)
        else:
            tables.append(_read_path(trial_path(source), space))
            files.append((str(source), tables[-1]))
    trials = concat(tables if space is None else [table.with_space(space) for table in tables])
    doubts = [notice for name, table in files for notice in doubtful_values(table, trials.space, name)]
    return replace(trials, notices=(*trials.notices, *doubts))


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


def _check_exists(path: Path) -> None:
    if not path.exists():
        hint = f"did you mean {samples[str(path)].reference}?" if str(path) in samples else nearest_path(path)
        raise InvalidInput(f"trials must be a file or folder that exists, got {path}; {hint}")


def _read_path(path: Path, space: LabelSpace | None) -> Trials:
    by_format: dict[str, list[Path]] = {}
    unknown: list[Path] = []
    for file in [path] if path.is_file() else sorted(_files_of(path)):
        with file.open("rb") as stream:
            head = stream.read(_HEAD)
        known = next((known for known in formats.values() if known.recognises(file, head)), None)
        if known is None:
            unknown.append(file)
        else:
            by_format.setdefault(known.name, []).append(file)
    if not by_format:
        names = ", ".join(formats)
        if path.is_file():
            raise InvalidInput(f"{path}: not a trial file ({names}); its first line or bytes fit none of these")
        raise InvalidInput(
            f"{path}: no trial files here ({names}), {len(unknown)} other files; name the folder that holds them"
        )
    table = concat([formats[name].read(files, space) for name, files in by_format.items()])
    if not len(table):
        raise InvalidInput(f"{path}: a trial file must hold at least one trial, got none")
    notices = []
    if not _is_finished(path):  # it has answered its first stimuli, which may be those of the first classes
        notices.append(f"{path}: this run is not finished, only its first stimuli are answered")
    skipped = sorted(file.name for file in unknown if file.name != "observers.parquet")
    if skipped:
        notices.append(f"{path}: {len(skipped)} files are no trials and were skipped ({', '.join(skipped[:3])}...)")
    return replace(table, notices=(*table.notices, *notices))


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

"""The registry of trial formats: what a file must look like, how it is read and written."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from cosight.errors import InvalidInput
from cosight.registry import Registry
from cosight.trials.samples import is_sample, trial_path
from cosight.trials.spaces import LabelSpace, label_space
from cosight.trials.table import Trials, concat, select_roles

__all__ = ["Format", "Reader", "formats", "output_format", "read", "write"]


class Reader(Protocol):
    """Reads files of one format, all at once; `space` is the label space where the user declared it."""

    def __call__(self, paths: Sequence[Path], space: LabelSpace | None = None) -> Trials:
        """Trials of these files."""
        ...


@dataclass(frozen=True, slots=True)
class Format:
    """One way to keep trials on disk."""

    name: str
    summary: str
    recognises: Callable[[Path, bytes], bool]  # a file and its first bytes
    read: Reader
    write: Callable[[Trials, Path], None]  # to a file or folder, whole or not at all
    suffix: str  # what a file to be written ends in; "" for a folder
    keeps: frozenset[str]  # the columns of a trial that survive writing and reading


formats: Registry[Format] = Registry("format")

_HEAD = 1 << 16
_DESCRIPTION = "dataset_description.json"  # a Psych-DS folder is read as a whole
_RUN = "run.json"  # so is a run folder: its trials, not its stimuli and scores


def read(*sources: str | Path | Trials, labels: str | LabelSpace | None = None) -> Trials:
    """All trials in these files, folders, samples and tables, people and models in one table.

    `sample:NAME` reads trials that ship with the package. Folders are searched; what a file holds decides how it is
    read, not its name. Files of no known format are passed over and counted in `notices`; a path without any trials is
    an error. `labels` declares the label space, by its name or by comma-separated class names.
    """
    if not sources:
        raise InvalidInput("name at least one file or folder of trials")
    space = label_space(labels) if isinstance(labels, str) else labels
    tables = [source if isinstance(source, Trials) else _read_path(trial_path(source), space) for source in sources]
    return concat(tables if space is None else [table.with_space(space) for table in tables])


def write(trials: Trials, path: str | Path, *, to: str | None = None) -> Trials:
    """Write trials to a file or folder.

    Args:
        trials: What to write.
        path: The file or folder.
        to: Name of the format; by default the one that the path's ending stands for (a folder: model-vs-human).

    Returns:
        The trials that were written. A format without roles gets first showings of test stimuli only, because its
        readers take every trial for one; a notice counts the others.
    """
    if is_sample(path):
        raise InvalidInput(f"samples ship with the package and cannot be written, got {path}; name a file or folder")
    chosen = output_format(path, to)
    written = trials if "role" in chosen.keeps or not len(trials) else select_roles(trials)
    chosen.write(written, Path(path))
    return written


def output_format(path: str | Path, to: str | None = None) -> Format:
    """The format that `write` uses."""
    return formats[to] if to else _by_suffix(Path(path))


def _by_suffix(path: Path) -> Format:
    for known in formats.values():
        if known.suffix and path.suffix == known.suffix:
            return known
    if path.suffix:
        endings = ", ".join(f.suffix for f in formats.values() if f.suffix)
        raise InvalidInput(f"a trial file ends in {endings}, got {path.name}; name a folder or choose with --to")
    return formats["model-vs-human"]


def _read_path(path: Path, space: LabelSpace | None) -> Trials:
    if not path.exists():
        raise InvalidInput(f"trials must be a file or folder that exists, got {path}")
    by_format: dict[str, list[Path]] = {}
    unknown = []
    for file in [path] if path.is_file() else sorted(_files(path)):
        found = _format_of(file)
        by_format.setdefault(found.name, []).append(file) if found else unknown.append(file)
    if not by_format:
        raise InvalidInput(_nothing(path, unknown))
    table = concat([formats[name].read(files, space) for name, files in by_format.items()])
    table = replace(table, notices=(*table.notices, *_unfinished(path)))
    if not len(table):
        raise InvalidInput(f"{path}: a trial file must hold at least one trial, got none")
    return _with_notices(table, path, unknown)


def _files(folder: Path, inside: tuple[Path, ...] = ()) -> Iterator[Path]:
    """Files that may hold trials; a Psych-DS folder stands for itself, a run folder for its `trials/`.

    `inside` are the folders above, so that a link back to one of them is not followed for ever.
    """
    real = folder.resolve()
    if real in inside:
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
            yield from _files(entry, (*inside, real))
        elif entry.is_file():
            yield entry


def _unfinished(path: Path) -> list[str]:
    """A run that is not done has answered the first of its stimuli, which may be those of the first classes."""
    record = path / _RUN
    if not record.is_file():
        return []
    try:
        state = json.loads(record.read_text(encoding="utf-8")).get("state", "finished")
    except (ValueError, AttributeError):
        state = "broken"
    return [] if state == "finished" else [f"{path}: this run is not finished, only its first stimuli are answered"]


def _format_of(path: Path) -> Format | None:
    with path.open("rb") as file:
        head = file.read(_HEAD)
    return next((known for known in formats.values() if known.recognises(path, head)), None)


def _nothing(path: Path, unknown: list[Path]) -> str:
    kinds = ", ".join(formats)
    if path.is_file():
        return f"{path}: not a trial file ({kinds}); its first line or bytes fit none of these"
    return f"{path}: no trial files here ({kinds}), {len(unknown)} other files; name the folder that holds them"


def _with_notices(table: Trials, path: Path, unknown: list[Path]) -> Trials:
    others = [file.name for file in unknown if file.name != "observers.parquet"]
    if not others:
        return table
    notice = f"{path}: {len(others)} files are no trials and were passed over ({', '.join(sorted(others)[:3])}...)"
    return Trials(table.frame, table.space, table.observers, table.sources, (*table.notices, notice))

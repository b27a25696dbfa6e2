"""What observers are shown in a run: a stored set or folder of images, or photos altered on the way.

Either gives rows of a manifest, a stamp of what each row is made of, and the pixels when they are asked for.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from cosight.errors import InvalidInput
from cosight.files import file_stamp
from cosight.stimuli.alterations import Alterations
from cosight.stimuli.generate import StimulusJob, Unit
from cosight.stimuli.images import Bytes, FileFormat, decode, digest, encode
from cosight.stimuli.sets import StimulusSet
from cosight.trials.manifest import manifest_frame

__all__ = [
    "GeneratedStimuli",
    "LoadedStimulus",
    "StimulusSource",
    "StoredStimuli",
    "digests",
    "generated_stimuli",
    "stored_stimuli",
]


@dataclass(frozen=True, slots=True, eq=False)
class LoadedStimulus:
    """A stimulus as it was shown: its pixels and their digest, or the reason why it could not be."""

    row: int
    pixels: Bytes | None = None
    digest: str | None = None
    error: InvalidInput | None = None


class StimulusSource(Protocol):
    """Stimuli in order. `frame` has a manifest's columns; `stimulus` is null where only reading the image tells."""

    @property
    def frame(self) -> pl.DataFrame: ...  # noqa: D102

    @property
    def stamps(self) -> Sequence[str]:
        """A digest a row of what it is made of: another one means that the pixels may be others."""
        ...

    @property
    def settings(self) -> Mapping[str, Any]:
        """How all rows come about, where that is not in the rows."""
        ...

    @property
    def folder(self) -> Path:
        """Where the files are."""
        ...

    def portions(self, rows: range) -> Iterator[range]:
        """The rows in pieces that are best read together."""
        ...

    def see(self, rows: range) -> Iterator[LoadedStimulus]:
        """The rows, one after the other; what is wrong with one leaves the others alone."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class StoredStimuli:
    """Images in files. Those of a manifest are known by their pixels, others by their files' bytes."""

    stimuli: StimulusSet
    stamps: tuple[str, ...]

    @property
    def frame(self) -> pl.DataFrame:
        """The set's manifest, or what its folders tell."""
        return self.stimuli.frame

    @property
    def settings(self) -> Mapping[str, Any]:
        """Nothing: the rows say it all."""
        return {}

    @property
    def folder(self) -> Path:
        """The set's."""
        return self.stimuli.root

    def portions(self, rows: range) -> Iterator[range]:
        """One by one."""
        return (range(row, row + 1) for row in rows)

    def see(self, rows: range) -> Iterator[LoadedStimulus]:
        """Read, decode, and check against the stamp."""
        return map(self._seen, rows)

    def _seen(self, row: int) -> LoadedStimulus:
        path = self.stimuli.path(self.frame["file"][row])
        try:
            data = path.read_bytes()
            pixels = decode(data, name=str(path))
        except OSError as error:
            return LoadedStimulus(row, error=_unreadable(path, error))
        except InvalidInput as error:
            return LoadedStimulus(row, error=error)
        found = digest(pixels)
        now = found if self.frame["stimulus"][row] is not None else hashlib.sha256(data).hexdigest()
        if now != self.stamps[row]:
            return LoadedStimulus(
                row, error=InvalidInput(f"{path} has changed since it was listed; verify the set, run again")
            )
        return LoadedStimulus(row, pixels, found)


def digests(shown: StimulusSource) -> list[str | None]:
    """The digest of every stimulus, read where it is not known; None where it cannot be shown."""
    if not shown.frame["stimulus"].null_count():
        return shown.frame["stimulus"].to_list()
    rows = range(shown.frame.height)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        parts = pool.map(lambda part: [one.digest for one in shown.see(part)], shown.portions(rows))
        return [name for part in parts for name in part]


def _unreadable(path: Path | str, error: OSError) -> InvalidInput:
    return InvalidInput(f"{path} cannot be read: {error.strerror or error}; put it back, or skip it")


def stored_stimuli(stimuli: StimulusSet) -> StoredStimuli:
    """A set or folder to show; where there is no manifest, every file is read once for its stamp."""
    names, files = stimuli.frame["stimulus"].to_list(), stimuli.frame["file"].to_list()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        stamps = pool.map(lambda name, file: name or file_stamp(stimuli.path(file)), names, files)
        return StoredStimuli(stimuli, tuple(stamps))


@dataclass(frozen=True, slots=True, eq=False)
class GeneratedStimuli:
    """Photos altered when they are asked for, photo by photo; each is what a stored set would hold."""

    recipe: Alterations
    format: FileFormat
    units: tuple[Unit, ...]
    frame: pl.DataFrame
    stamps: tuple[str, ...]

    @property
    def settings(self) -> Mapping[str, Any]:
        """The recipe's settings and the format that images pass through."""
        return {**self.recipe.settings, "format": self.format}

    @property
    def folder(self) -> Path:
        """That of the photos."""
        return self.recipe.sources.root

    def portions(self, rows: range) -> Iterator[range]:
        """What is made of one photo together, so that it is read once."""
        each, start = len(self.recipe.alterations), rows.start
        while start < rows.stop:
            stop = min(rows.stop, (start // each + 1) * each)
            yield range(start, stop)
            start = stop

    def see(self, rows: range) -> Iterator[LoadedStimulus]:
        """Read the photo, alter it, pass it through the file format."""
        each = len(self.recipe.alterations)
        for part in self.portions(rows):
            unit = self.units[part.start // each]
            jobs = [unit.jobs[row % each] for row in part]
            yield from self._made(unit, jobs, part)

    def _made(self, unit: Unit, jobs: Sequence[StimulusJob], rows: range) -> Iterator[LoadedStimulus]:
        try:
            for row, outcome in zip(rows, self.recipe.make(unit, jobs), strict=True):
                if outcome.pixels is None:
                    yield LoadedStimulus(row, error=outcome.error)  # type: ignore[arg-type]
                else:
                    shown = outcome.pixels if self.format == "png" else decode(encode(outcome.pixels, self.format))
                    yield LoadedStimulus(row, shown, digest(shown))
        except (InvalidInput, OSError) as error:  # of the photo itself
            told = error if isinstance(error, InvalidInput) else _unreadable(unit.name, error)
            yield from (LoadedStimulus(row, error=told) for row in rows)


def generated_stimuli(recipe: Alterations, *, format: FileFormat = "png") -> GeneratedStimuli:  # noqa: A002 (the option's name)
    """A recipe's stimuli to show without storing them; the photos are read once to know them by their pixels."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        known = list(pool.map(partial(_known, recipe.sources), recipe.sources.frame.iter_rows(named=True)))
    names = pl.Series("stimulus", known, dtype=pl.String)
    recipe = replace(recipe, sources=replace(recipe.sources, frame=recipe.sources.frame.with_columns(names)))
    units = tuple(recipe.units())
    frame = manifest_frame(row for unit in units for row in _rows(recipe, unit, format))
    way = f"{recipe.prepare or 'none'} {format}"
    stamps = tuple(f"{unit.payload[1] or unit.stamp} {way}" for unit in units for _ in unit.jobs)
    return GeneratedStimuli(recipe, format, units, frame, stamps)


def _known(sources: StimulusSet, row: Mapping[str, Any]) -> str | None:
    """The photo's digest; None where it cannot be read, which is told when it is its turn."""
    if row["stimulus"] is not None:
        return str(row["stimulus"])
    try:
        return digest(sources.pixels(row["file"]))
    except (OSError, InvalidInput):
        return None


def _rows(recipe: Alterations, unit: Unit, ending: str) -> Iterable[dict[str, Any]]:
    parent = unit.payload[1]
    for job, how in zip(unit.jobs, recipe.alterations, strict=True):
        seed = None if parent is None else how.seed_of(parent, recipe.seed)
        yield {**job.facts, "file": f"images/{job.file}.{ending}", "parent": parent, "seed": seed}

"""The stimuli of a run: a stored set or folder of images, or photos that a benchmark alters while models are evaluated.

Both have manifest rows, one stamp per row of the files it is made from, and load pixels on request.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import polars as pl

from cosight.errors import InvalidInput
from cosight.files import DISK_FULL, file_stamp
from cosight.processes import core_count
from cosight.stimuli.alterations import Alterations
from cosight.stimuli.generate import StimulusJob, Unit
from cosight.stimuli.images import Bytes, FileFormat, decode, digest, encode
from cosight.stimuli.sets import StimulusSet
from cosight.trials.file_tables import compact
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

_ROWS_AT_ONCE = 2000  # that are dictionaries before they are rows of a frame


@dataclass(frozen=True, slots=True, eq=False)
class LoadedStimulus:
    """The pixels of a stimulus and their digest, or the error that prevented loading it."""

    row: int
    pixels: Bytes | None = None
    digest: str | None = None
    error: InvalidInput | None = None


class StimulusSource(Protocol):
    """Stimuli in order. `frame` has a manifest's columns; `stimulus` is null where the digest is not known yet."""

    @property
    def frame(self) -> pl.DataFrame: ...  # noqa: D102

    @property
    def stamps(self) -> Sequence[str]:
        """One digest per row of what it is made from; when it changes, the pixels may change."""
        ...

    @property
    def settings(self) -> Mapping[str, Any]:
        """How all rows are made, where the rows do not say it."""
        ...

    @property
    def folder(self) -> Path:
        """Folder of the files."""
        ...

    def portions(self, rows: range) -> Iterator[range]:
        """Split rows into pieces that are best read together."""
        ...

    def load(self, rows: range) -> Iterator[LoadedStimulus]:
        """Load rows in order; an error of one row does not affect the others."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class StoredStimuli:
    """Images in files. Stamps are digests of pixels where there is a manifest, of files otherwise."""

    stimuli: StimulusSet
    stamps: tuple[str, ...]

    @property
    def frame(self) -> pl.DataFrame:
        """The set's manifest, or what its folders imply."""
        return self.stimuli.frame

    @property
    def settings(self) -> Mapping[str, Any]:
        """Empty: the rows say everything."""
        return {}

    @property
    def folder(self) -> Path:
        """Folder of the set."""
        return self.stimuli.root

    def portions(self, rows: range) -> Iterator[range]:
        """Split rows into single rows."""
        return (range(row, row + 1) for row in rows)

    def load(self, rows: range) -> Iterator[LoadedStimulus]:
        """Read and decode files, and compare them with their stamps."""
        return map(self._load_row, rows)

    def _load_row(self, row: int) -> LoadedStimulus:
        path = self.stimuli.path(self.frame["file"][row])
        try:
            data = path.read_bytes()
            pixels = decode(data, name=str(path))
        except OSError as error:
            return LoadedStimulus(row, error=_unreadable(path, error))
        except InvalidInput as error:
            return LoadedStimulus(row, error=error)
        pixel_digest = digest(pixels)
        in_manifest = self.frame["stimulus"][row] is not None
        stamp = pixel_digest if in_manifest else hashlib.sha256(data).hexdigest()
        if stamp != self.stamps[row]:
            message = f"{path} has changed since the set was listed; run `cosight stimuli verify`, then evaluate again"
            return LoadedStimulus(row, error=InvalidInput(message))
        return LoadedStimulus(row, pixels, pixel_digest)


@dataclass(frozen=True, slots=True, eq=False)
class GeneratedStimuli:
    """Photos that are altered when they are loaded; the pixels equal those of a stored set."""

    recipe: Alterations
    format: FileFormat
    units: tuple[Unit, ...]  # one per photo, without jobs: those are the rows of `frame`
    frame: pl.DataFrame
    stamps: tuple[str, ...]

    @property
    def settings(self) -> Mapping[str, Any]:
        """The recipe's settings and the file format of the images."""
        return {**self.recipe.settings, "format": self.format}

    @property
    def folder(self) -> Path:
        """Folder of the photos."""
        return self.recipe.sources.root

    def portions(self, rows: range) -> Iterator[range]:
        """Split rows by photo, so that each photo is read once."""
        per_photo, start = len(self.recipe.alterations), rows.start
        while start < rows.stop:
            stop = min(rows.stop, (start // per_photo + 1) * per_photo)
            yield range(start, stop)
            start = stop

    def load(self, rows: range) -> Iterator[LoadedStimulus]:
        """Read each photo, alter it, and encode and decode the result."""
        per_photo = len(self.recipe.alterations)
        for part in self.portions(rows):
            photo, first = divmod(part.start, per_photo)
            files = self.frame["file"][photo * per_photo : (photo + 1) * per_photo]
            unit = replace(self.units[photo], jobs=tuple(StimulusJob(file, {}) for file in files))
            try:
                for row, outcome in zip(part, self.recipe.make(unit, unit.jobs[first:][: len(part)]), strict=True):
                    if outcome.pixels is None:
                        yield LoadedStimulus(row, error=outcome.error)  # type: ignore[arg-type]
                        continue
                    lossless = self.format == "png"
                    pixels = outcome.pixels if lossless else decode(encode(outcome.pixels, self.format))
                    yield LoadedStimulus(row, pixels, digest(pixels))
            except (InvalidInput, OSError) as error:  # the photo itself cannot be read
                if isinstance(error, OSError) and error.errno in DISK_FULL:  # compiled code is cached on the disk
                    raise
                reason = error if isinstance(error, InvalidInput) else _unreadable(unit.name, error)
                yield from (LoadedStimulus(row, error=reason) for row in part)


def stored_stimuli(stimuli: StimulusSet) -> StoredStimuli:
    """Return a set or folder as stimuli; without a manifest, every file is read once for its stamp."""
    names, files = stimuli.frame["stimulus"].to_list(), stimuli.frame["file"].to_list()
    with ThreadPoolExecutor(core_count()) as pool:
        stamps = pool.map(lambda name, file: name or file_stamp(stimuli.path(file)), names, files)
        return StoredStimuli(stimuli, tuple(stamps))


def generated_stimuli(recipe: Alterations, *, format: FileFormat = "png") -> GeneratedStimuli:  # noqa: A002 (the option's name)
    """Return the stimuli of a recipe without storing them; photos are read once for their digests."""
    with ThreadPoolExecutor(core_count()) as pool:
        known = list(pool.map(partial(_photo_digest, recipe.sources), recipe.sources.frame.iter_rows(named=True)))
    names = pl.Series("stimulus", known, dtype=pl.String)
    recipe = replace(recipe, sources=replace(recipe.sources, frame=recipe.sources.frame.with_columns(names)))
    encoding = f"{recipe.prepare or 'none'} {format}"
    units, frames, stamps = list[Unit](), list[pl.DataFrame](), list[str]()
    rows: list[dict[str, Any]] = []
    for unit in recipe.iterate_units():
        parent = unit.payload[1]
        for job, alteration in zip(unit.jobs, recipe.alterations, strict=True):
            seed = None if parent is None else alteration.seed_of(parent, recipe.seed)
            rows.append({**job.facts, "file": f"images/{job.file}.{format}", "seed": seed})
        stamps += [f"{parent or unit.stamp} {encoding}"] * len(unit.jobs)
        units.append(replace(unit, jobs=()))  # they are rows of the frame, which take less memory
        if len(rows) >= _ROWS_AT_ONCE:
            frames.append(compact(manifest_frame(rows)))
            rows = []
    frame = pl.concat([*frames, compact(manifest_frame(rows))])
    photo = np.repeat(np.arange(len(names)), len(recipe.alterations))
    return GeneratedStimuli(recipe, format, tuple(units), frame.with_columns(parent=names.gather(photo)), tuple(stamps))


def digests(stimuli: StimulusSource) -> list[str | None]:
    """Return the digest of every stimulus, reading images where it is not known; None where one cannot be read."""
    if not stimuli.frame["stimulus"].null_count():
        return stimuli.frame["stimulus"].to_list()
    rows = range(stimuli.frame.height)
    with ThreadPoolExecutor(core_count()) as pool:
        parts = pool.map(lambda part: [one.digest for one in stimuli.load(part)], stimuli.portions(rows))
        return [name for part in parts for name in part]


def _photo_digest(sources: StimulusSet, row: Mapping[str, Any]) -> str | None:
    """Return a photo's digest; None where it cannot be read, which is reported when it is loaded."""
    if row["stimulus"] is not None:
        return str(row["stimulus"])
    try:
        return digest(sources.pixels(row["file"]))
    except (OSError, InvalidInput):
        return None


def _unreadable(path: Path | str, error: OSError) -> InvalidInput:
    return InvalidInput(f"{path} cannot be read: {error.strerror or error}; restore the file, or use --on-error skip")

"""A folder of source photos, by class or just by folder."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import polars as pl

from cosight.benchmarks.building.curated_lists import Curated, read_curated
from cosight.benchmarks.building.split_sources import Pool
from cosight.errors import InvalidInput
from cosight.stimuli.images import Preparation
from cosight.stimuli.sets import SourceImage, StimulusSet, read_set, read_source
from cosight.trials.spaces import LabelSpace

__all__ = ["Photos", "curated_photos", "left_out_of", "photos_in"]


@dataclass(frozen=True, slots=True)
class Photos:
    """Images of one folder or set; masks that lie beside them are no photos. `photos_in` makes one."""

    stimuli: StimulusSet
    left_out: tuple[str, ...] = ()  # digests of those that curators rejected, in order

    @property
    def folder(self) -> Path:
        """Where they are."""
        return self.stimuli.root

    @property
    def files(self) -> tuple[str, ...]:
        """Their names inside the folder."""
        return tuple(self.stimuli.frame["file"])

    def path(self, file: str) -> Path:
        """Where one of them is."""
        return self.stimuli.path(file)

    def by_folder(self) -> Pool:
        """Their names by the folder they lie in."""
        groups = self.stimuli.frame.group_by("truth", maintain_order=True)
        return {str(truth or "images"): tuple(part["file"]) for (truth,), part in groups}

    def by_class(self, space: LabelSpace) -> Pool:
        """Their names by class, in the order of the space; folders are recognised as its classes."""
        folders = self.by_folder()
        known = space.recognise(folders)
        lacking = [name for name in space.classes if name not in known.values()]
        if lacking:
            raise InvalidInput(f"photos must be of every class of {space.name}, {self.folder} has none of {lacking[0]}")
        own: dict[str, tuple[str, ...]] = dict.fromkeys(space.classes, ())
        for folder, files in folders.items():
            own[known[folder]] += tuple(files)
        return own

    def read(self, file: str, prepare: Preparation | None) -> SourceImage:
        """One of them, prepared; checked against the manifest where there is one."""
        row = self.stimuli.frame.row(by_predicate=pl.col("file") == file, named=True)
        return read_source(self.stimuli, file, prepare, expected=row["stimulus"])


def photos_in(folder: str | Path, *, curated: Curated | None = None) -> Photos:
    """The photos of a stimulus set or of a folder of images, without those that curators rejected."""
    stimuli = read_set(folder)
    frame = stimuli.frame.filter(~pl.col("file").str.ends_with(".mask.png"))
    if not frame.height:
        raise InvalidInput(f"a source folder holds photos, {folder} has only masks; name another")
    photos = Photos(StimulusSet(stimuli.root, frame, stimuli.facts))
    return photos if curated is None else _without_rejected(photos, curated)


def _without_rejected(photos: Photos, curated: Curated) -> Photos:
    """Every photo is read: what was rejected is known by its pixels, whatever the file is called now."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # decoding and hashing leave the interpreter free
        digests = list(pool.map(lambda file: photos.read(file, None).digest, photos.files))
    kept = [digest not in curated.rejected for digest in digests]
    if not any(kept):
        raise InvalidInput(f"curators rejected every photo of {photos.folder}; name another folder or another list")
    stimuli = StimulusSet(photos.folder, photos.stimuli.frame.filter(kept), photos.stimuli.facts)
    return Photos(stimuli, tuple(sorted({name for name in digests if name in curated.rejected})))


def curated_photos(
    folders: Mapping[str, str | Path], lists: Sequence[str | Path]
) -> tuple[dict[str, Photos], tuple[str, ...]]:
    """Return the photos of each folder without those that the curated `lists` reject, and a notice about them."""
    if not lists:
        return {name: photos_in(folder) for name, folder in folders.items()}, ()
    curated = read_curated([Path(path) for path in lists])
    photos = {name: photos_in(folder, curated=curated) for name, folder in folders.items()}
    left_out = {digest for own in photos.values() for digest in own.left_out}
    missing = curated.not_in(left_out)
    lost = f"; {len(missing)} were not found: {', '.join(missing)}" if missing else ""
    return photos, (f"{len(left_out)} of {len(curated.rejected)} rejected images left out{lost}",)


def left_out_of(folders: Mapping[str, Photos]) -> dict[str, Any]:
    """What a builder's settings say of rejected images: how many of each folder, and which, as a digest."""
    told = {
        name: {"images": len(photos.left_out), "digest": sha256("+".join(photos.left_out).encode()).hexdigest()}
        for name, photos in folders.items()
        if photos.left_out
    }
    return {"left_out": told} if told else {}

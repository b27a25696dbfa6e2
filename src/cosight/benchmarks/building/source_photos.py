"""Source photos of a builder: the images of a folder, by class or by folder, without those that curators rejected.

A curated list is a CSV file with the columns `stimulus` (the digest of an image) and `kept` (true or false). Other
columns, such as `file`, are for its readers. `cosight study export --curated` writes one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import polars as pl

from cosight.benchmarks.building.split_sources import SourcePool
from cosight.errors import InvalidInput
from cosight.files import file_stamp
from cosight.processes import core_count
from cosight.stimuli.composition.masks import MASK_SUFFIX
from cosight.stimuli.images import Preparation
from cosight.stimuli.sets import SourceImage, StimulusSet, read_set, read_source
from cosight.trials.spaces import LabelSpace

__all__ = ["FileStamps", "Photos", "read_curated_lists", "read_curated_photos", "read_photos", "rejection_settings"]

_KEPT = {"true": True, "false": False}


class FileStamps(dict[Path, str]):
    """Stamps of files by path; each file is read once."""

    def __missing__(self, path: Path) -> str:
        self[path] = file_stamp(path)
        return self[path]


@dataclass(frozen=True, slots=True)
class Photos:
    """The photos of one folder or stimulus set. `read_photos` makes one."""

    stimuli: StimulusSet
    rejected: tuple[str, ...] = ()  # sorted digests of the images that curators rejected

    @property
    def folder(self) -> Path:
        """The folder of the photos."""
        return self.stimuli.root

    @property
    def files(self) -> tuple[str, ...]:
        """The file names, relative to the folder."""
        return tuple(self.stimuli.frame["file"])

    def path(self, file: str) -> Path:
        """Return the path of one photo."""
        return self.stimuli.path(file)

    def by_folder(self) -> SourcePool:
        """Return the file names by the subfolder they are in."""
        groups = self.stimuli.frame.group_by("truth", maintain_order=True)
        return {str(truth or "images"): tuple(part["file"]) for (truth,), part in groups}

    def by_class(self, space: LabelSpace) -> SourcePool:
        """Return the file names by class, in the order of the label space; its classes are found by folder name."""
        folders = self.by_folder()
        class_of_folder = space.recognise(folders)
        missing = [name for name in space.classes if name not in class_of_folder.values()]
        if missing:
            raise InvalidInput(
                f"every class of {space.name} needs photos, {self.folder} has none of {', '.join(missing)}; "
                "add folders, or name the classes with --labels"
            )
        files_of_class: dict[str, tuple[str, ...]] = dict.fromkeys(space.classes, ())
        for folder, files in folders.items():
            files_of_class[class_of_folder[folder]] += tuple(files)
        return files_of_class

    def read(self, file: str, prepare: Preparation | None) -> SourceImage:
        """Read one photo and prepare it; the pixels are checked against the manifest if there is one."""
        row = self.stimuli.frame.row(by_predicate=pl.col("file") == file, named=True)
        return read_source(self.stimuli, file, prepare, expected=row["stimulus"])


def read_photos(folder: str | Path, *, rejected: Mapping[str, str] | None = None) -> Photos:
    """Read the photos of a stimulus set or of a folder of images. Masks (`*.mask.png`) are not photos.

    With `rejected` (digest to name, from `read_curated_lists`) every photo is decoded: a rejected image is recognised
    by its pixels, whatever its file is called now.
    """
    stimuli = read_set(folder)
    frame = stimuli.frame.filter(~pl.col("file").str.ends_with(MASK_SUFFIX))
    if not frame.height:
        raise InvalidInput(f"{folder} has masks but no photos; choose another source folder")
    photos = Photos(StimulusSet(stimuli.root, frame, stimuli.facts))
    if rejected is None:
        return photos
    with ThreadPoolExecutor(core_count()) as pool:  # decoding and hashing release the interpreter lock
        digests = list(pool.map(lambda file: photos.read(file, None).digest, photos.files))
    accepted = [digest not in rejected for digest in digests]
    if not any(accepted):
        raise InvalidInput(f"curators rejected every photo of {folder}; choose another folder or another list")
    remaining = StimulusSet(stimuli.root, frame.filter(accepted), stimuli.facts)
    return Photos(remaining, tuple(sorted(set(digests) & set(rejected))))


def read_curated_photos(
    folders: Mapping[str, str | Path], lists: Sequence[str | Path]
) -> tuple[dict[str, Photos], dict[str, str], tuple[str, ...]]:
    """Read the photos of each folder without the images that the curated `lists` reject.

    Returns:
        The photos by folder name; the rejected images that are no photos of these folders, digest to name; and notices
        about those that are.
    """
    if not lists:
        return {name: read_photos(folder) for name, folder in folders.items()}, {}, ()
    rejected = read_curated_lists([Path(path) for path in lists])
    photos_by_name = {name: read_photos(folder, rejected=rejected) for name, folder in folders.items()}
    left_out = {digest for photos in photos_by_name.values() for digest in photos.rejected}
    others = {digest: name for digest, name in rejected.items() if digest not in left_out}
    notices = (f"{len(left_out)} of {len(rejected)} rejected images left out",) if left_out else ()
    return photos_by_name, others, notices


def rejection_settings(folders: Mapping[str, Photos]) -> dict[str, Any]:
    """Return the settings entry about rejected images: their number and a digest of them, by folder.

    Empty if no image was rejected, so that such sets have the same settings as sets built without a list.
    """
    left_out = {
        name: {"images": len(photos.rejected), "digest": sha256("+".join(photos.rejected).encode()).hexdigest()}
        for name, photos in folders.items()
        if photos.rejected
    }
    return {"left_out": left_out} if left_out else {}


def read_curated_lists(paths: Sequence[Path]) -> dict[str, str]:
    """Read the images that at least one of these lists rejects: digest to name."""
    rejected: dict[str, str] = {}
    for path in paths:
        if not path.is_file():
            raise InvalidInput(
                f"a curated list is a CSV file, got {path}; write one with cosight study export --curated"
            )
        try:
            frame = pl.read_csv(path, infer_schema=False, glob=False)
        except pl.exceptions.PolarsError as error:
            raise InvalidInput(f"{path} is not a CSV file that can be read: {error}") from error
        for name in ("stimulus", "kept"):
            if name not in frame.columns:
                raise InvalidInput(f"a curated list has the column {name!r}, {path} has {', '.join(frame.columns)}")
        names = frame["file"] if "file" in frame.columns else frame["stimulus"]
        rows = zip(frame["stimulus"], frame["kept"], names, strict=True)
        for line, (digest, kept, name) in enumerate(rows, start=2):  # line 1 is the header
            if (kept or "").lower() not in _KEPT or not digest:
                raise InvalidInput(
                    f"{path}, line {line}: a row needs a digest, and true or false in the column kept, got {kept!r}"
                )
            if not _KEPT[kept.lower()]:
                rejected.setdefault(digest, name or digest)
    return rejected

"""Stimulus sets: a folder with a manifest (`stimuli.parquet`) and `images/`; folders of images are read as sets too.

Layouts without a manifest, told apart by what is in them:

* LAION-C           DISTORTION/intensity_level_1..5/CLASS/*.JPEG
* model-vs-human    NUMBER_EXPERIMENT_SESSION_CONDITION_CLASS_NUMBER_IMAGE.png, however deep
* class folders     CLASS/*.png, or EXPERIMENT/CLASS/*.png
* a plain folder    *.png, truth unknown
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import polars as pl

from cosight.errors import InvalidInput
from cosight.stimuli.images import ENDINGS, Bytes, checked, digest, read_image
from cosight.stimuli.prepare import Preparation
from cosight.trials.manifest import MANIFEST, manifest_frame, read_manifest
from cosight.trials.model_vs_human import image_name

__all__ = [
    "PIXEL_PACKAGES",
    "SourceImage",
    "StimulusSet",
    "Verification",
    "image_files",
    "read_set",
    "sample",
    "source_image",
    "verify",
    "with_digests",
]

# libraries that all stimuli pass through; their versions may change a pixel
PIXEL_PACKAGES = ("cosight", "numpy", "opencv-python-headless", "pillow", "numba", "scipy")
_MODEL_VS_HUMAN = re.compile(r"^\d+_[^_]+_[^_]+_(?P<condition>[^_]+)_(?P<truth>[a-z]+)_\d+_.+$")
_LEVEL_FOLDER = re.compile(r"^intensity_level_(\d+)$")


@dataclass(frozen=True, slots=True)
class StimulusSet:
    """Stimuli of one folder: `frame` has the manifest's columns, `file` is relative to `root`.

    `facts` is what the manifest says of the whole set (settings, versions); empty for a folder without a manifest,
    where `stimulus` (the digest) is null until the image is read.
    """

    root: Path
    frame: pl.DataFrame
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return self.frame.height

    def path(self, file: str) -> Path:
        """Where a stimulus' image is."""
        return self.root / file

    def pixels(self, file: str) -> Bytes:
        """The image, decoded."""
        return read_image(self.path(file))


@dataclass(frozen=True, slots=True)
class Verification:
    """What has become of a set's images since its manifest was written. Files are relative to the set."""

    stimuli: int
    changed: tuple[str, ...]
    missing: tuple[str, ...]
    broken: tuple[str, ...]
    unlisted: tuple[str, ...]

    @property
    def intact(self) -> bool:
        """Whether every image is there with the pixels the manifest promises."""
        return not (self.changed or self.missing or self.broken)


@dataclass(frozen=True, slots=True)
class SourceImage:
    """A source as it was read (`pixels`, `digest`) and as it goes into what is made of it (`ready`)."""

    pixels: Bytes
    ready: Bytes
    digest: str


def source_image(
    stimuli: StimulusSet, file: str, prepare: Preparation | None = None, *, expected: str | None = None
) -> SourceImage:
    """Read, prepare and check one image of a set; whatever is wrong with it is told with its name.

    `expected` is the digest that the set's manifest has for it, where it has one.
    """
    path = stimuli.path(file)
    try:
        pixels = checked(read_image(path))
        ready = checked(prepare(pixels) if prepare else pixels)
    except FileNotFoundError as error:
        raise InvalidInput(
            f"{path} is not there, or a link to nothing; remove it from the set, or put it back"
        ) from error
    except InvalidInput as error:
        raise InvalidInput(str(error) if str(path) in str(error) else f"{path}: {error}") from error
    found = digest(pixels)
    if expected is not None and found != expected:
        raise InvalidInput(f"{path} has other pixels than its manifest says; verify the set, or make it again")
    return SourceImage(pixels, ready, found)


def read_set(path: str | Path) -> StimulusSet:
    """Read a stimulus set, or a folder of images in one of the layouts above. No image is decoded."""
    root = Path(path)
    if not root.is_dir():
        raise InvalidInput(f"a stimulus set is a folder, got {root}; give the folder that holds {MANIFEST} or images")
    if (root / MANIFEST).exists():
        return _read_stored(root)
    files = image_files(root)
    if not files:
        raise InvalidInput(f"a stimulus set holds images ({', '.join(ENDINGS)}), found none in {root}")
    frame = manifest_frame(_placed(root, PurePosixPath(file)) for file in files)
    presented = pl.Series([bool(_MODEL_VS_HUMAN.match(PurePosixPath(file).stem)) for file in files], dtype=pl.Boolean)
    name = pl.when(presented).then(image_name(pl.col("image"))).otherwise(pl.col("image"))
    return StimulusSet(root, frame.with_columns(name.alias("image")))


def image_files(root: Path) -> list[str]:
    """Images below a folder by their ending, as relative POSIX paths in order; hidden ones are left out.

    Links to folders are followed; a link to nothing is listed, so that whoever reads it says so.
    """
    found: list[str] = []
    seen: set[str] = set()  # folders, by where they really are: a link may lead back up
    for folder, folders, names in os.walk(root, followlinks=True):
        if (real := os.path.realpath(folder)) in seen:
            folders.clear()
            continue
        seen.add(real)
        folders[:] = [name for name in folders if not name.startswith(".")]
        images = (name for name in names if name.lower().endswith(ENDINGS) and not name.startswith("."))
        found += (Path(folder, name).relative_to(root).as_posix() for name in images)
    odd = [file for file in found if file.encode("utf-8", "ignore").decode() != file]
    if odd:  # neither the manifest nor the journal could hold it
        raise InvalidInput(f"names of images are written in UTF-8, got {os.fsencode(odd[0])!r}; rename it")
    return sorted(found)


def _placed(root: Path, file: PurePosixPath) -> dict[str, Any]:
    """What a file's place and name say about it."""
    row: dict[str, Any] = {"file": str(file), "image": file.name}
    folders = file.parts[:-1]
    published = _MODEL_VS_HUMAN.match(file.stem)
    if len(folders) >= 3 and (level := _LEVEL_FOLDER.match(folders[-2])):
        row |= {"experiment": "laion-c", "condition": folders[-3], "level": int(level[1]), "truth": folders[-1]}
    elif published:
        row |= {"experiment": root.resolve().name, **published.groupdict()}
    else:
        row["experiment"] = "/".join(folders[:-1]) or root.resolve().name
        row["truth"] = folders[-1] if folders else None
    return row | {"original": row.get("truth")}


def _read_stored(root: Path) -> StimulusSet:
    frame, facts = read_manifest(root)
    path = root / MANIFEST
    for name in ("stimulus", "file"):
        if frame[name].has_nulls():
            raise InvalidInput(f"a manifest names each stimulus and its file, {path} lacks {name}; make the set again")
    outside = [f for f in frame["file"] if PurePosixPath(f).is_absolute() or ".." in PurePosixPath(f).parts]
    if outside:
        raise InvalidInput(f"a manifest's files lie inside the set, {path} names {outside[0]}")
    return StimulusSet(root, frame, facts)


def with_digests(stimuli: StimulusSet) -> StimulusSet:
    """Return the set with the digest of every image; images without one are decoded. No file is written."""
    names, files = stimuli.frame["stimulus"].to_list(), stimuli.frame["file"].to_list()
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # decoding and hashing leave the interpreter free
        found = pool.map(lambda name, file: name or source_image(stimuli, file).digest, names, files)
        return replace(stimuli, frame=stimuli.frame.with_columns(stimulus=pl.Series(list(found), dtype=pl.String)))


def verify(stimuli: StimulusSet, *, progress: Callable[[int, int, str], None] | None = None) -> Verification:
    """Decode every image of a set and compare its digest with the manifest's."""
    if not stimuli.facts and stimuli.frame["stimulus"].null_count():
        raise InvalidInput(f"{stimuli.root} has no {MANIFEST} to verify against")
    found: dict[str, list[str]] = {"changed": [], "missing": [], "broken": []}
    names, files = stimuli.frame["stimulus"].to_list(), stimuli.frame["file"].to_list()
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # decoding and hashing leave the interpreter free
        states = pool.map(partial(_state, stimuli), names, files)
        for done, (file, state) in enumerate(zip(files, states, strict=True), start=1):
            if state is not None:
                found[state].append(file)
            if progress:
                progress(done, len(stimuli), "verifying")
    listed = set(stimuli.frame["file"])
    unlisted = tuple(
        f"images/{name}" for name in image_files(stimuli.root / "images") if f"images/{name}" not in listed
    )
    lost = {state: tuple(files) for state, files in found.items()}
    return Verification(stimuli=len(stimuli), unlisted=unlisted, **lost)


def _state(stimuli: StimulusSet, name: str, file: str) -> str | None:
    try:
        return None if digest(stimuli.pixels(file)) == name else "changed"
    except FileNotFoundError:
        return "missing"
    except InvalidInput:
        return "broken"


def sample(stimuli: StimulusSet, count: int, *, seed: int) -> StimulusSet:
    """`count` stimuli drawn by their files' names, in the set's order; a smaller sample is part of a larger one."""
    keys = [hashlib.sha256(f"{seed}/{file}".encode()).digest() for file in stimuli.frame["file"]]
    kept = sorted(sorted(range(len(keys)), key=keys.__getitem__)[:count])
    return replace(stimuli, frame=stimuli.frame[kept])

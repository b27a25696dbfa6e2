"""Stimulus sets."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import numpy as np
import polars as pl

from cosight.arrays import distributions
from cosight.errors import InvalidInput
from cosight.measures.gold_distributions import label_counts
from cosight.stimuli.images import IMAGE_SUFFIXES, Bytes, Preparation, check_image, digest, read_image
from cosight.trials.manifest import MANIFEST, MANIFEST_SCHEMA, SPLITS, manifest_frame, read_manifest, write_manifest
from cosight.trials.model_vs_human import image_name
from cosight.trials.spaces import LabelSpace, label_space
from cosight.trials.table import Trials, first_showings, of_roles

__all__ = [
    "PIXEL_PACKAGES",
    "SourceImage",
    "StimulusSet",
    "Verification",
    "check_splits",
    "image_files",
    "read_set",
    "read_source",
    "sample",
    "verify",
    "with_digests",
    "write_gold_labels",
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


def read_source(
    stimuli: StimulusSet, file: str, prepare: Preparation | None = None, *, expected: str | None = None
) -> SourceImage:
    """Read, prepare and check one image of a set; whatever is wrong with it is told with its name.

    `expected` is the digest that the set's manifest has for it, where it has one.
    """
    path = stimuli.path(file)
    try:
        pixels = check_image(read_image(path))
        ready = check_image(prepare(pixels) if prepare else pixels)
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
        raise InvalidInput(f"a stimulus set holds images ({', '.join(IMAGE_SUFFIXES)}), found none in {root}")
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
        images = (name for name in names if name.lower().endswith(IMAGE_SUFFIXES) and not name.startswith("."))
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
        found = pool.map(lambda name, file: name or read_source(stimuli, file).digest, names, files)
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


def check_splits(stimuli: StimulusSet) -> None:
    """Refuse a set whose splits share images, or whose gold labels are no distributions.

    Splits may share neither images nor the images that those were made from.
    """
    strange = set(stimuli.frame["split"].drop_nulls()) - set(SPLITS)
    if strange:
        raise InvalidInput(f"splits are {', '.join(SPLITS)}, {stimuli.root} has {min(strange)!r}; rename it")
    _check_calibration(stimuli)
    for column in ("stimulus", "parent"):
        _check_disjoint(stimuli, column)
    _check_gold(stimuli)


def _check_calibration(stimuli: StimulusSet) -> None:
    splits = set(stimuli.frame["split"].drop_nulls())
    if "test" in splits and "calibration" not in splits:
        raise InvalidInput(f"a test set needs a calibration split of its own, {stimuli.root} has none; build it anew")


def _check_disjoint(stimuli: StimulusSet, column: str) -> None:
    parts = {
        split: set(part[column].drop_nulls())
        for (split,), part in stimuli.frame.group_by("split", maintain_order=True)
        if split is not None
    }
    what = "images" if column == "stimulus" else "the sources of their images"
    for first, second in combinations(sorted(parts, key=str), 2):
        if shared := parts[first] & parts[second]:
            raise InvalidInput(
                f"splits must not share {what}, {first} and {second} of {stimuli.root} share {len(shared)} "
                f"({min(shared)[:12]}...); build the set anew"
            )


def _check_gold(stimuli: StimulusSet) -> None:
    known = stimuli.frame.filter(pl.col("gold").is_not_null())
    for (answers,), part in known.group_by(pl.col("gold").list.len()):
        table = np.array(part["gold"].to_list(), np.float64).reshape(part.height, -1)
        try:
            distributions(table, name="gold")
        except InvalidInput as error:
            raise InvalidInput(f"{stimuli.root}, {answers} answers an image: {error}") from error
    if known["gold"].list.len().n_unique() > 1:
        raise InvalidInput(f"gold labels are about one list of answers, those of {stimuli.root} differ in length")


_TOLD = {"human": "people", "simulated": "simulated"}  # how a manifest's parameters call them


def write_gold_labels(root: Path, trials: Trials, *, kind: Literal["human", "simulated"] = "human") -> int:
    """Put the answers of one kind of participants into the manifest of the set at `root`; how many images have some.

    Images are known by their digest. First showings of test stimuli count. Where a set has groups, only Uncertain
    images are asked about: the others' gold labels hold by construction. Images that nobody answered keep what they
    have. Simulated answers never replace people's.
    """
    stimuli = read_set(root)
    space = _space_of(stimuli, trials)
    asked = _asked(stimuli)["stimulus"].unique(maintain_order=True).to_list()
    shown = trials.frame.filter(of_roles(("test",)) & (pl.col("kind") == kind) & pl.col("stimulus").is_in(asked))
    given = first_showings(shown, ["observer", "stimulus"]).filter(pl.col("response").is_not_null())
    if not given.height:
        which = "Uncertain images" if _grouped(stimuli) else "images"
        raise InvalidInput(f"gold labels need {kind} answers to {which} of {root}, got none in the trials")
    strange = set(given["response"]) - set(space.answers)
    if strange:
        raise InvalidInput(f"people's answers must be those of {space.name}, got {min(strange)!r}; convert them first")
    found = _counted(given, space)
    rows = [_with_gold(row, found.get(row["stimulus"]), kind) for row in stimuli.frame.iter_rows(named=True)]
    write_manifest(root, pl.DataFrame(rows, schema={**MANIFEST_SCHEMA, **stimuli.frame.schema}), stimuli.facts)
    return len(found)


def _space_of(stimuli: StimulusSet, trials: Trials) -> LabelSpace:
    """The set's own label space, else that of the answers."""
    own = stimuli.facts.get("settings", {}).get("labels")
    space = label_space(own) if own else trials.space
    if space is None:
        raise InvalidInput(f"gold labels are shares of the answers of a label space, {stimuli.root} names none")
    return space


def _asked(stimuli: StimulusSet) -> pl.DataFrame:
    """The stimuli that people may decide about."""
    if stimuli.frame["stimulus"].has_nulls():
        raise InvalidInput(
            f"gold labels are kept in a manifest, {stimuli.root} has no {MANIFEST}; make a set of it first"
        )
    return stimuli.frame.filter(pl.col("group") == "uncertain") if _grouped(stimuli) else stimuli.frame


def _grouped(stimuli: StimulusSet) -> bool:
    return stimuli.frame["group"].null_count() < len(stimuli)


def _counted(given: pl.DataFrame, space: LabelSpace) -> dict[str, list[int]]:
    """How many gave each answer, by stimulus."""
    images = {name: place for place, name in enumerate(given["stimulus"].unique(maintain_order=True))}
    codes = [space.answers.index(answer) for answer in given["response"]]
    counts = label_counts([images[name] for name in given["stimulus"]], codes, len(space.answers)).counts
    return {name: counts[place].tolist() for name, place in images.items()}


def _with_gold(row: dict[str, object], counts: list[int] | None, kind: str) -> dict[str, object]:
    if counts is None or row["group"] not in ("uncertain", None):
        return row
    known = json.loads(str(row["parameters"] or "{}"))
    if kind == "simulated" and known.get("gold") == _TOLD["human"]:
        raise InvalidInput(
            f"people's gold labels are not replaced by simulated ones, {row['file']} has people's; use a copy"
        )
    told = json.dumps({**known, "gold": _TOLD[kind]}, sort_keys=True)
    shares = [count / sum(counts) for count in counts]
    return {**row, "gold_counts": counts, "gold": shares, "parameters": told}

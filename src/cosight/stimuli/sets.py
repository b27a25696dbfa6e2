"""Stimulus sets: read a folder, check and verify it, draw a sample, and store people's answers as gold labels.

A stimulus set is a folder with a manifest (`stimuli.parquet`) and `images/`. Folders without a manifest are read too;
their layout follows from their names:

* LAION-C           DISTORTION/intensity_level_1..5/CLASS/*.JPEG
* model-vs-human    NUMBER_EXPERIMENT_SESSION_CONDITION_CLASS_NUMBER_IMAGE.png, at any depth
* class folders     CLASS/*.png, or EXPERIMENT/CLASS/*.png
* a plain folder    *.png, truth unknown
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import numpy as np
import polars as pl

from cosight.arrays import distributions
from cosight.errors import InvalidInput
from cosight.files import nearest_path
from cosight.measures.gold_distributions import label_counts
from cosight.processes import core_count
from cosight.stimuli.images import IMAGE_SUFFIXES, Bytes, Preparation, check_image, digest, read_image
from cosight.trials.columns import image_name
from cosight.trials.manifest import (
    MANIFEST,
    MANIFEST_SCHEMA,
    SPLITS,
    is_stimulus_set,
    manifest_frame,
    manifest_space,
    read_manifest,
    with_manifest_space,
    write_manifest,
)
from cosight.trials.spaces import LabelSpace
from cosight.trials.table import Trials, first_showings, has_role

__all__ = [
    "JOURNAL",
    "LEVEL_FOLDER",
    "PIXEL_PACKAGES",
    "SourceImage",
    "StimulusSet",
    "Verification",
    "check_splits",
    "gold_labels",
    "image_files",
    "read_set",
    "read_source",
    "sample",
    "sample_per_class",
    "verify",
    "with_classes",
    "with_digests",
    "write_gold_labels",
]

# libraries that every stimulus passes through; their versions may change a pixel
PIXEL_PACKAGES = ("cosight", "numpy", "opencv-python-headless", "pillow", "numba", "scipy")
_MODEL_VS_HUMAN = re.compile(r"^\d+_[^_]+_[^_]+_(?P<condition>[^_]+)_(?P<truth>[a-z]+)_\d+_.+$")
JOURNAL = "journal.jsonl"  # of a set that is being generated
LEVEL_FOLDER = "intensity_level_"  # of LAION-C's layout, before the number of the level
_GOLD_SOURCES = {"human": "people", "simulated": "simulated"}  # values of `gold` in a manifest's parameters


@dataclass(frozen=True, slots=True)
class StimulusSet:
    """The stimuli of one folder.

    Attributes:
        root: The folder.
        frame: One row per stimulus with the manifest's columns; `file` is relative to `root`. Without a manifest,
            `stimulus` (the digest) is null.
        facts: Settings and versions from the manifest; empty without a manifest.
    """

    root: Path
    frame: pl.DataFrame
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return self.frame.height

    def path(self, file: str) -> Path:
        """Return the path of a stimulus' image."""
        return self.root / file

    def pixels(self, file: str) -> Bytes:
        """Return the decoded image."""
        return read_image(self.path(file))


@dataclass(frozen=True, slots=True)
class Verification:
    """How the images of a set differ from its manifest. Files are relative to the set."""

    stimuli: int
    changed: tuple[str, ...]
    missing: tuple[str, ...]
    broken: tuple[str, ...]
    unlisted: tuple[str, ...]

    @property
    def intact(self) -> bool:
        """Whether every image exists with the pixels that the manifest records."""
        return not (self.changed or self.missing or self.broken)


@dataclass(frozen=True, slots=True)
class SourceImage:
    """A source image: `pixels` and `digest` of the file, and `ready`, its pixels after the preparation."""

    pixels: Bytes
    ready: Bytes
    digest: str


def read_source(
    stimuli: StimulusSet, file: str, prepare: Preparation | None = None, *, expected: str | None = None
) -> SourceImage:
    """Read, check and prepare one image of a set.

    Args:
        stimuli: The set.
        file: The image, relative to the set.
        prepare: How the image is resized.
        expected: The digest that the manifest has for it.

    Raises:
        InvalidInput: If the image is missing, cannot be used, or has another digest. The message has its path.
    """
    path = stimuli.path(file)
    try:
        pixels = check_image(read_image(path))
        ready = check_image(prepare(pixels) if prepare else pixels)
    except FileNotFoundError as error:
        raise InvalidInput(
            f"{path} does not exist or is a broken link; restore it, or remove it from the set"
        ) from error
    except OSError as error:  # a loop of links, no permission
        raise InvalidInput(f"{path} cannot be read: {error.strerror or error}; repair or remove it") from error
    except InvalidInput as error:
        raise InvalidInput(str(error) if str(path) in str(error) else f"{path}: {error}") from error
    actual = digest(pixels)
    if expected is not None and actual != expected:
        raise InvalidInput(f"the pixels of {path} differ from the manifest; verify the set, or generate it again")
    return SourceImage(pixels, ready, actual)


def read_set(path: str | Path) -> StimulusSet:
    """Read a stimulus set, or a folder of images in one of the layouts above. No image is decoded.

    Args:
        path: The folder.

    Returns:
        The set, in the order of its manifest, or of its file names if it has none.

    Raises:
        InvalidInput: If there is no such folder, it has no images, or its manifest is not valid.

    >>> from cosight.stimuli import encode
    >>> for name in ("cat", "dog"):
    ...     Path("photos", name).mkdir(parents=True)
    ...     _ = Path("photos", name, "1.png").write_bytes(encode(np.zeros((32, 32), np.uint8), "png"))
    >>> read_set("photos").frame["truth"].to_list()
    ['cat', 'dog']
    """
    root = Path(path)
    if not root.exists():
        raise InvalidInput(f"there is no folder {root}; {nearest_path(root)}")
    if not root.is_dir():
        raise InvalidInput(f"a stimulus set is a folder, got the file {root}; give the folder of the images")
    if (root / MANIFEST).exists():
        if not is_stimulus_set(root):
            raise InvalidInput(f"{root} is a run, which has no images; give the folder of the images that it is about")
        frame, facts = read_manifest(root)
        for name in ("stimulus", "file"):
            if frame[name].has_nulls():
                raise InvalidInput(
                    f"every row of a manifest has stimulus and file, {root / MANIFEST} lacks {name}; "
                    "generate the set again"
                )
        outside = [f for f in frame["file"] if PurePosixPath(f).is_absolute() or ".." in PurePosixPath(f).parts]
        if outside:
            raise InvalidInput(f"the files of a manifest are inside the set, {root / MANIFEST} names {outside[0]}")
        return StimulusSet(root, frame, facts)
    if (root / JOURNAL).exists():
        raise InvalidInput(f"{root} is an unfinished stimulus set; finish it with the command that makes it")
    files = image_files(root)
    if not files:
        raise InvalidInput(f"a stimulus set has images ({', '.join(IMAGE_SUFFIXES)}), found none in {root}")
    frame = manifest_frame(_row_from_path(root, PurePosixPath(file)) for file in files)
    return StimulusSet(root, frame.with_columns(image=image_name(pl.col("image"))))


def image_files(root: Path) -> list[str]:
    """Return the images below a folder, by their suffix, as sorted relative POSIX paths; hidden ones are left out.

    Links to folders are followed. A broken link is listed, so that reading it raises an error.
    """
    files: list[str] = []
    visited: set[str] = set()  # real paths of folders: a link may lead back up
    for folder, folders, names in os.walk(root, followlinks=True):
        if (real := os.path.realpath(folder)) in visited:
            folders.clear()
            continue
        visited.add(real)
        folders[:] = [name for name in folders if not name.startswith(".")]
        images = (name for name in names if name.lower().endswith(IMAGE_SUFFIXES) and not name.startswith("."))
        files += (Path(folder, name).relative_to(root).as_posix() for name in images)
    undecodable = [file for file in files if file.encode("utf-8", "ignore").decode() != file]
    if undecodable:  # neither the manifest nor the journal could store it
        raise InvalidInput(f"names of images are written in UTF-8, got {os.fsencode(undecodable[0])!r}; rename it")
    return sorted(files)


def _row_from_path(root: Path, file: PurePosixPath) -> dict[str, Any]:
    """Return the manifest columns that follow from a file's folders and name."""
    row: dict[str, Any] = {"file": str(file), "image": file.name}
    folders = file.parts[:-1]
    model_vs_human = _MODEL_VS_HUMAN.match(file.stem)
    if len(folders) >= 3 and (level := re.fullmatch(rf"{LEVEL_FOLDER}(\d+)", folders[-2])):
        row |= {"experiment": "laion-c", "condition": folders[-3], "level": int(level[1]), "truth": folders[-1]}
        row["parent"] = f"{folders[-1]}/{file.stem}"  # a photo has the same name in every distortion and level
    elif model_vs_human:
        row |= {"experiment": root.resolve().name, **model_vs_human.groupdict()}
    else:
        row["experiment"] = "/".join(folders[:-1]) or root.resolve().name
        row["truth"] = folders[-1] if folders else None
    return row | {"original": row.get("truth")}


def with_classes(stimuli: StimulusSet, space: LabelSpace) -> tuple[StimulusSet, int]:
    """Return a set with its truths spelled as in a label space, without the images of other classes.

    Args:
        stimuli: The set. Its truths are classes of the space, or of the finer space that its classes consist of.
        space: The label space.

    Returns:
        The set, and the number of images that are left out because their finer class belongs to no class.

    Raises:
        InvalidInput: If a truth is no class, or no image is left.

    >>> from cosight.stimuli import encode
    >>> from cosight.trials import label_spaces
    >>> for name in ("n01440764", "n15075141"):  # tench, toilet tissue
    ...     Path("imagenet", name).mkdir(parents=True)
    ...     _ = Path("imagenet", name, "1.png").write_bytes(encode(np.zeros((32, 32), np.uint8), "png"))
    >>> fish, left_out = with_classes(read_set("imagenet"), label_spaces["laion-c-16"])
    >>> fish.frame["truth"].to_list(), left_out
    (['fish'], 1)
    """
    truths = stimuli.frame["truth"].drop_nulls().unique().sort().to_list()
    class_of = space.recognise_members(truths)
    spelled = pl.col("truth").replace_strict(class_of, default=None, return_dtype=pl.String)
    other = pl.col("truth").is_in([name for name in truths if class_of[name] is None]).fill_null(False)
    frame = stimuli.frame.filter(~other).with_columns(spelled)
    if not frame.height:
        raise InvalidInput(
            f"{stimuli.root} has no image of a class of {space.name} ({space.in_words}), only of {truths[0]} and other "
            f"classes of {space.members_of}; add some"
        )
    return replace(stimuli, frame=frame), len(stimuli) - frame.height


def with_digests(stimuli: StimulusSet) -> StimulusSet:
    """Return the set with the digest of every image; images without one are decoded. No file is written."""
    digests, files = stimuli.frame["stimulus"].to_list(), stimuli.frame["file"].to_list()
    with ThreadPoolExecutor(core_count()) as pool:  # decoding and hashing release the interpreter lock
        computed = pool.map(lambda known, file: known or read_source(stimuli, file).digest, digests, files)
        return replace(stimuli, frame=stimuli.frame.with_columns(stimulus=pl.Series(list(computed), dtype=pl.String)))


def verify(stimuli: StimulusSet, *, progress: Callable[[int, int, str], None] | None = None) -> Verification:
    """Decode every image of a set and compare its digest with the manifest.

    Args:
        stimuli: A set with a manifest.
        progress: Called with the number of verified images, the number of all images and a label.

    Returns:
        The files that are changed, missing, broken or not in the manifest.

    Raises:
        InvalidInput: If the set has no manifest.

    >>> from cosight.stimuli import Alterations, alteration, encode, generate_set
    >>> Path("source").mkdir()
    >>> _ = Path("source/grey.png").write_bytes(encode(np.full((32, 32), 90, np.uint8), "png"))
    >>> recipe = Alterations(read_set("source"), (alteration("contrast", severity=3),))
    >>> made = generate_set(recipe, Path("low-contrast")).stimuli
    >>> verify(made).intact
    True
    >>> made.path(made.frame["file"][0]).unlink()
    >>> verify(made).missing
    ('images/contrast/3/grey.png',)
    """
    if not stimuli.facts and stimuli.frame["stimulus"].null_count():
        raise InvalidInput(f"{stimuli.root} has no {MANIFEST} to verify against")

    def compare(expected: str, file: str) -> str | None:
        try:
            return None if digest(stimuli.pixels(file)) == expected else "changed"
        except FileNotFoundError:
            return "missing"
        except (InvalidInput, OSError):
            return "broken"

    differing: dict[str, list[str]] = {"changed": [], "missing": [], "broken": []}
    digests, files = stimuli.frame["stimulus"].to_list(), stimuli.frame["file"].to_list()
    with ThreadPoolExecutor(core_count()) as pool:  # decoding and hashing release the interpreter lock
        states = pool.map(compare, digests, files)
        for done, (file, state) in enumerate(zip(files, states, strict=True), start=1):
            if state is not None:
                differing[state].append(file)
            if progress:
                progress(done, len(stimuli), "verifying")
    listed = set(files)
    stored = (f"images/{name}" for name in image_files(stimuli.root / "images"))
    unlisted = tuple(file for file in stored if file not in listed)
    return Verification(len(stimuli), unlisted=unlisted, **{state: tuple(names) for state, names in differing.items()})


def sample(stimuli: StimulusSet, count: int, *, seed: int) -> StimulusSet:
    """Draw `count` stimuli by the hash of their file names, in the set's order; samples of one seed are nested."""
    keys = [hashlib.sha256(f"{seed}/{file}".encode()).digest() for file in stimuli.frame["file"]]
    drawn = sorted(sorted(range(len(keys)), key=keys.__getitem__)[:count])
    return replace(stimuli, frame=stimuli.frame[drawn])


def sample_per_class(stimuli: StimulusSet, count: int, *, seed: int) -> StimulusSet:
    """Draw `count` pictures of each class by the hash of their names, with all of their conditions and levels.

    Stimuli with the same source photo (`parent`) are one picture. So are those of one class with the same image name in
    several conditions; photos without a condition are a picture each. Draws of one seed are nested.
    """
    pictures = [
        parent or (image if condition else None) or file
        for parent, image, condition, file in stimuli.frame.select("parent", "image", "condition", "file").iter_rows()
    ]
    drawn: dict[str | None, dict[str, bytes]] = {}
    for truth, picture in zip(stimuli.frame["truth"], pictures, strict=True):
        drawn.setdefault(truth, {})[picture] = hashlib.sha256(f"{seed}/{picture}".encode()).digest()
    kept = {truth: set(sorted(keys, key=keys.__getitem__)[:count]) for truth, keys in drawn.items()}
    rows = [picture in kept[truth] for truth, picture in zip(stimuli.frame["truth"], pictures, strict=True)]
    return replace(stimuli, frame=stimuli.frame.filter(pl.Series(rows, dtype=pl.Boolean)))


def check_splits(stimuli: StimulusSet) -> None:
    """Check the splits and gold labels of a set.

    Raises:
        InvalidInput: If a split is unknown, there is a test split without a calibration split, two splits share images
            or the sources of their images, or the gold labels are not distributions over one list of answers.
    """
    splits = set(stimuli.frame["split"].drop_nulls())
    unknown = splits - set(SPLITS)
    if unknown:
        raise InvalidInput(f"splits are {', '.join(SPLITS)}, {stimuli.root} has {min(unknown)!r}; rename it")
    if "test" in splits and "calibration" not in splits:
        raise InvalidInput(f"a test set needs a calibration split of its own, {stimuli.root} has none; build it again")
    for column, what in (("stimulus", "images"), ("parent", "the sources of their images")):
        values = {
            split: set(part[column].drop_nulls())
            for (split,), part in stimuli.frame.group_by("split", maintain_order=True)
            if split is not None
        }
        for first, second in combinations(sorted(values, key=str), 2):
            if shared := values[first] & values[second]:
                raise InvalidInput(
                    f"splits must not share {what}, {first} and {second} of {stimuli.root} share {len(shared)} "
                    f"({min(shared)[:12]}...); build the set again"
                )
    labelled = stimuli.frame.filter(pl.col("gold").is_not_null())
    for (answers,), part in labelled.group_by(pl.col("gold").list.len()):
        try:
            distributions(np.array(part["gold"].to_list(), np.float64).reshape(part.height, -1), name="gold")
        except InvalidInput as error:
            raise InvalidInput(f"{stimuli.root}, {answers} answers per image: {error}") from error
    if labelled["gold"].list.len().n_unique() > 1:
        raise InvalidInput(
            f"gold labels must be about one list of answers, those of {stimuli.root} differ in length; build it again"
        )


def gold_labels(
    root: Path, trials: Trials, *, kind: Literal["human", "simulated"] = "human"
) -> tuple[StimulusSet, int]:
    """Add the answers of one kind of participants to a set, as gold labels. No file is written.

    Images are matched by their digest. First showings of test stimuli count. In a set with groups, only Uncertain
    images get labels; the others have theirs by construction. Images without answers keep their labels.

    Args:
        root: A stimulus set with a manifest.
        trials: The answers.
        kind: Whose answers count. Simulated answers never replace people's.

    Returns:
        The set with the labels, and the number of images with answers.

    Raises:
        InvalidInput: If the set has no manifest or no label space, there are no answers to its images, an answer is
            not in the label space, or simulated answers would replace people's.
    """
    stimuli = read_set(root)
    space = manifest_space(stimuli.facts) or trials.space
    if space is None:
        raise InvalidInput(f"gold labels need a label space, neither {root} nor the trials have one; convert them")
    if stimuli.frame["stimulus"].has_nulls():
        raise InvalidInput(f"gold labels are stored in a manifest, {root} has no {MANIFEST}; generate a set from it")
    has_groups = stimuli.frame["group"].null_count() < len(stimuli)
    labelled = stimuli.frame.filter(pl.col("group") == "uncertain") if has_groups else stimuli.frame
    of_these = pl.col("stimulus").is_in(labelled["stimulus"].unique(maintain_order=True).to_list())
    shown = trials.frame.filter(has_role(("test",)) & (pl.col("kind") == kind) & of_these)
    answered = first_showings(shown, ["observer", "stimulus"]).filter(pl.col("response").is_not_null())
    if not answered.height:
        which = "Uncertain images" if has_groups else "images"
        raise InvalidInput(f"gold labels need {kind} answers to {which} of {root}, got none in the trials")
    unknown = set(answered["response"]) - set(space.answers)
    if unknown:
        raise InvalidInput(f"people's answers must be those of {space.name}, got {min(unknown)!r}; convert them first")
    images = {name: index for index, name in enumerate(answered["stimulus"].unique(maintain_order=True))}
    codes = [space.answers.index(answer) for answer in answered["response"]]
    table = label_counts([images[name] for name in answered["stimulus"]], codes, len(space.answers)).counts
    counts = {name: table[index].tolist() for name, index in images.items()}
    rows = [_with_gold(row, counts.get(row["stimulus"]), kind) for row in stimuli.frame.iter_rows(named=True)]
    frame = pl.DataFrame(rows, schema={**MANIFEST_SCHEMA, **stimuli.frame.schema})
    return replace(stimuli, frame=frame, facts=with_manifest_space(stimuli.facts, space)), len(counts)


def write_gold_labels(root: Path, trials: Trials, *, kind: Literal["human", "simulated"] = "human") -> int:
    """Write the answers of one kind of participants into the manifest of a set; see `gold_labels`.

    Returns:
        The number of images with answers.
    """
    labelled, images = gold_labels(root, trials, kind=kind)
    write_manifest(root, labelled.frame, labelled.facts)
    return images


def _with_gold(row: dict[str, object], counts: list[int] | None, kind: str) -> dict[str, object]:
    if counts is None or row["group"] not in ("uncertain", None):
        return row
    parameters = json.loads(str(row["parameters"] or "{}"))
    if kind == "simulated" and parameters.get("gold") == _GOLD_SOURCES["human"]:
        raise InvalidInput(
            f"people's gold labels are not replaced by simulated ones, {row['file']} has people's; use a copy"
        )
    parameters["gold"] = _GOLD_SOURCES[kind]
    gold = [count / sum(counts) for count in counts]
    return {**row, "gold_counts": counts, "gold": gold, "parameters": json.dumps(parameters, sort_keys=True)}

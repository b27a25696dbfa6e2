"""A stimulus set or a folder of images as training data: classes, targets, training and validation images."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cosight.errors import InvalidInput
from cosight.files import file_stamp
from cosight.stimuli.images import Bytes, Floats, as_bytes, to_rgb
from cosight.stimuli.sets import StimulusSet, read_set, read_source
from cosight.training.augment import resize_short_side
from cosight.training.recipe import GOLD, Recipe
from cosight.trials.formats import read
from cosight.trials.join import manifest_rows
from cosight.trials.manifest import manifest_space, order_gold
from cosight.trials.spaces import ABSTAIN, LabelSpace, guess_label_space, label_space
from cosight.trials.table import PEOPLE, first_showings, has_role

__all__ = ["Examples", "TrainingData", "TrainingImages", "load_training_data"]

TRAIN, VALIDATION = "train", "validation"
_SUM_TOLERANCE = 1e-6  # float64 fractions of several hundred people
_MEMORY = 1 << 30  # bytes of images that are kept after they were read once


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """Files of images, their target distributions (n, classes), and the class that counts as right (n,).

    With an alignment loss also the target observer's label distributions (n, classes), all zeros for an image without
    any, and the true classes (n,).
    """

    files: tuple[str, ...]
    targets: Floats
    labels: NDArray[np.int64]
    observer: Floats | None = None
    truth: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.files)


@dataclass(frozen=True, slots=True, eq=False)
class TrainingData:
    """Training and validation examples. `digest` changes with the images, the targets, the observer and the split."""

    stimuli: StimulusSet
    classes: tuple[str, ...]
    training: Examples
    validation: Examples
    digest: str


def load_training_data(recipe: Recipe) -> TrainingData:
    """Read the training and validation images of a recipe; other splits (calibration, test) are not used."""
    stimuli = read_set(recipe.data)
    truths = stimuli.frame["truth"].drop_nulls().unique().sort().to_list()
    classes = [name for name in truths if name != ABSTAIN]
    if recipe.labels:
        space = label_space(recipe.labels)
    elif len(classes) < 2:
        raise InvalidInput(f"training needs at least two classes, {stimuli.root} has {', '.join(classes) or 'none'}")
    else:
        space = guess_label_space(frozenset(truths)) or LabelSpace("given", tuple(classes))
    spelling = {ABSTAIN: ABSTAIN, **space.recognise(classes)}
    truth = pl.col("truth").replace_strict(spelling, default=None, return_dtype=pl.String)
    in_use = pl.col("split").is_null() | pl.col("split").is_in([TRAIN, VALIDATION])
    frame = stimuli.frame.with_columns(truth).filter(in_use)
    if frame["split"].null_count() not in (0, frame.height):
        raise InvalidInput(f"either all images of {stimuli.root} have a split or none, got both; fill the column in")
    if frame.is_empty():
        raise InvalidInput(f"there must be images to train on, {stimuli.root} has none whose split is {TRAIN}")
    if recipe.targets == "gold":
        frame = order_gold(frame, manifest_space(stimuli.facts), space)
        rows = [_gold_target(row, space, stimuli) for row in frame.iter_rows(named=True)]
        targets = np.stack(rows).astype(np.float32)
    else:
        targets = _truth_targets(frame, space, stimuli)
    is_validation = _validation_mask(frame, targets, recipe)
    stamps = [name or file_stamp(stimuli.path(file)) for name, file in frame.select("stimulus", "file").iter_rows()]
    _check_split(stimuli, space, targets, is_validation, stamps)
    training, validation = (
        Examples(tuple(frame.filter(pl.Series(mask))["file"]), targets[mask], targets[mask].argmax(axis=1))
        for mask in (~is_validation, is_validation)
    )
    text = "\n".join([*space.classes, *stamps])
    content = text.encode() + targets.tobytes() + is_validation.tobytes()
    if recipe.alignment is not None:
        codes = _truth_targets(frame, space, stimuli).argmax(axis=1)[~is_validation]
        observer = _observer_distributions(recipe, frame, space, stimuli)[~is_validation]
        if not (observer.sum(axis=1) > observer[np.arange(len(codes)), codes]).any():
            raise InvalidInput(
                f"alignment needs wrong answers of the target observer to training images, {recipe.alignment_to} has "
                "none; name another with alignment_to"
            )
        training = replace(training, observer=observer, truth=codes)
        content += observer.tobytes()
    return TrainingData(stimuli, space.classes, training, validation, hashlib.sha256(content).hexdigest())


def _observer_distributions(recipe: Recipe, frame: pl.DataFrame, space: LabelSpace, stimuli: StimulusSet) -> Floats:
    """Return the target observer's distribution over the classes for each image, all zeros where there is none."""
    if recipe.alignment_to == GOLD:
        frame = order_gold(frame, manifest_space(stimuli.facts), space)
        unknown = np.zeros(len(space.classes))
        golds = [
            unknown if row["gold"] is None and row["gold_counts"] is None else _gold_target(row, space, stimuli)
            for row in frame.iter_rows(named=True)
        ]
        return np.stack(golds).astype(np.float32)
    shown = read(recipe.alignment_to, labels=space).frame.filter(has_role(("test",)))
    for kind in PEOPLE:  # simulated people only where there are no others
        people = shown.filter(pl.col("kind") == kind)
        rows = manifest_rows(frame, people).rename("row")
        answered = people.with_columns(rows).filter(pl.col("row").is_not_null(), pl.col("response") != ABSTAIN)
        if answered.height:
            break
    else:
        raise InvalidInput(
            f"alignment_to must be trials of people who saw the training images of {stimuli.root}, "
            f"{recipe.alignment_to} has no such answers; name another file, or `gold`"
        )
    answered = first_showings(answered, ["observer", "row"])
    codes = answered["response"].replace_strict(dict(zip(space.classes, range(len(space.classes)), strict=True)))
    counts = np.zeros((frame.height, len(space.classes)), dtype=np.float32)
    np.add.at(counts, (answered["row"].to_numpy(), codes.to_numpy()), 1)
    return np.asarray(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))


def _truth_targets(frame: pl.DataFrame, space: LabelSpace, stimuli: StimulusSet) -> Floats:
    """Return the true classes as one-hot rows (n, classes)."""
    for file, truth in frame.select("file", "truth").iter_rows():
        if truth is None or truth == ABSTAIN:
            raise InvalidInput(
                f"a training image must have a class, {stimuli.path(file)} has {truth or 'none'}; leave it out of the "
                f"split {TRAIN}"
            )
    codes = [space.classes.index(truth) for truth in frame["truth"]]
    return np.eye(len(space.classes), dtype=np.float32)[codes]


def _gold_target(row: dict[str, Any], space: LabelSpace, stimuli: StimulusSet) -> NDArray[np.float64]:
    """Return people's distribution over the classes: `gold`, else `gold_counts` divided by their sum."""
    path = stimuli.path(row["file"])
    is_count = row["gold"] is None
    values = row["gold_counts"] if is_count else row["gold"]
    if values is None:
        raise InvalidInput(f'targets = "gold" needs gold or gold_counts in the manifest, {path} has neither')
    target = np.asarray(values, dtype=np.float64)
    if is_count and target.sum() > 0:
        target = target / target.sum()
    if not (target >= 0).all() or abs(target.sum() - 1) > _SUM_TOLERANCE:
        raise InvalidInput(
            f"a gold distribution must not be negative and must sum to one, {path} has a sum of {target.sum():g}"
        )
    classes = len(space.classes)
    if len(target) == classes + 1 and target[-1] == 0:  # the last is for abstain, which nobody chose
        return target[:-1]
    if len(target) != classes:
        raise InvalidInput(
            f"a gold distribution must have one value for each of the {classes} classes (and 0 for abstain), {path} "
            f"has {np.round(target, 3).tolist()}; leave it out of the split {TRAIN}"
        )
    return target


def _validation_mask(frame: pl.DataFrame, targets: Floats, recipe: Recipe) -> NDArray[np.bool_]:
    """Return which images are for validation: those of that split, else a fraction per class drawn by file name.

    Images that were made from the same photo (`parent`) stay together.
    """
    if (frame["split"] == VALIDATION).any():
        return (frame["split"] == VALIDATION).to_numpy()
    files, labels = frame["file"].to_list(), targets.argmax(axis=1)
    mask = np.zeros(len(files), dtype=bool)
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        photos: dict[str, list[int]] = {}
        for index in members.tolist():
            photos.setdefault(frame["parent"][index] or files[index], []).append(index)
        keys = {
            photo: hashlib.sha256(f"{recipe.validation_seed}/{min(files[i] for i in indices)}".encode()).digest()
            for photo, indices in photos.items()
        }
        wanted = int(recipe.validation * len(members) + 0.5)
        for photo in sorted(photos, key=keys.__getitem__):
            if wanted <= 0:
                break
            mask[photos[photo]] = True
            wanted -= len(photos[photo])
    return mask


def _check_split(
    stimuli: StimulusSet, space: LabelSpace, targets: Floats, is_validation: NDArray[np.bool_], stamps: Sequence[str]
) -> None:
    if not is_validation.any():
        raise InvalidInput(
            f"training needs validation images, {stimuli.root} leaves none; raise validation, or add images"
        )
    totals = targets[~is_validation].sum(axis=0)
    missing = [name for name, total in zip(space.classes, totals, strict=True) if total == 0]
    if missing:
        raise InvalidInput(f"each class needs training images, {stimuli.root} has none of {', '.join(missing)}")
    validation = {stamp for stamp, is_in in zip(stamps, is_validation, strict=True) if is_in}
    both = [stamp for stamp, is_in in zip(stamps, is_validation, strict=True) if not is_in and stamp in validation]
    if both:
        raise InvalidInput(
            f"validation images must not be trained on, {len(both)} of {stimuli.root} are in both, for example "
            f"{both[0][:12]}; remove copies"
        )


@dataclass(frozen=True, slots=True, eq=False)
class TrainingImages:
    """Images of a set with their short side at `side`, read by threads; the first gigabyte is kept in memory."""

    stimuli: StimulusSet
    side: int
    interpolation: str
    _cache: dict[str, Bytes] = field(default_factory=dict)
    _digests: dict[str, str | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._digests.update(self.stimuli.frame.select("file", "stimulus").iter_rows())

    def read(self, files: Sequence[str], pool: ThreadPoolExecutor) -> list[Bytes]:
        """Return RGB images (height, width, 3), in this order."""
        missing = [file for file in dict.fromkeys(files) if file not in self._cache]
        new = dict(zip(missing, pool.map(self._read, missing), strict=True)) if missing else {}
        for file, image in new.items():
            if (len(self._cache) + 1) * image.nbytes <= _MEMORY:
                self._cache[file] = image
        return [self._cache[file] if file in self._cache else new[file] for file in files]

    def _read(self, file: str) -> Bytes:
        source = read_source(self.stimuli, file, expected=self._digests[file])
        return resize_short_side(to_rgb(as_bytes(source.pixels)), self.side, self.interpolation)

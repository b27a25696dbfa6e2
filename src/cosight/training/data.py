"""A stimulus set or a folder of images as training data: classes, targets, and which images are kept for validation."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cosight.errors import InvalidInput
from cosight.files import file_stamp
from cosight.stimuli.images import Bytes, Floats, as_bytes, to_rgb
from cosight.stimuli.sets import StimulusSet, read_set, read_source
from cosight.training.augment import shrunk
from cosight.training.recipe import Recipe, Targets
from cosight.trials.spaces import ABSTAIN, LabelSpace, guess_label_space, label_space

__all__ = ["Examples", "Material", "TrainingImages", "material"]

TRAIN, VALIDATION = "train", "validation"
_SUM = 1e-6  # how far from one a distribution's sum may be: float64 shares of some hundred people
_MEMORY = 1 << 30  # bytes of images that are kept after they were read once


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """Images by file, the distribution to be learnt for each (n, classes), and the class that counts as right (n,)."""

    files: tuple[str, ...]
    targets: Floats
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.files)


@dataclass(frozen=True, slots=True, eq=False)
class Material:
    """What a network learns from. `digest` changes with the images, the targets and the split."""

    stimuli: StimulusSet
    classes: tuple[str, ...]
    training: Examples
    validation: Examples
    digest: str


def material(recipe: Recipe) -> Material:
    """Training and validation images of a recipe's data; other splits (calibration, test) are left alone."""
    found = read_set(recipe.data)
    space, frame = _named(found, recipe.labels)
    frame = frame.filter(pl.col("split").is_null() | pl.col("split").is_in([TRAIN, VALIDATION]))
    if frame["split"].null_count() not in (0, frame.height):
        raise InvalidInput(f"either every image of {found.root} has a split or none, got both; fill the column in")
    if frame.is_empty():
        raise InvalidInput(f"there must be images to train on, {found.root} has none whose split is {TRAIN}")
    targets = _targets(frame, space, recipe.targets, found)
    held = _held_out(frame, targets, recipe)
    stamped = [name or file_stamp(found.path(file)) for name, file in frame.select("stimulus", "file").iter_rows()]
    _check_split(found, space, targets, held, stamped)
    training, validation = (_examples(frame, targets, keep) for keep in (~held, held))
    return Material(found, space.classes, training, validation, _digest(space, stamped, targets, held))


def _named(found: StimulusSet, labels: str | None) -> tuple[LabelSpace, pl.DataFrame]:
    """The classes, and the manifest with true classes spelled as there; unknown classes make a space of their own."""
    truths = found.frame["truth"].drop_nulls().unique().sort().to_list()
    own = [name for name in truths if name != ABSTAIN]
    if not labels and len(own) < 2:
        raise InvalidInput(f"two classes or more can be learnt, {found.root} has {', '.join(own) or 'none'}")
    space = label_space(labels) if labels else guess_label_space(frozenset(truths)) or LabelSpace("given", tuple(own))
    known = {ABSTAIN: ABSTAIN, **space.recognise(own)}
    spelled = pl.col("truth").replace_strict(known, default=None, return_dtype=pl.String)
    return space, found.frame.with_columns(spelled)


def _targets(frame: pl.DataFrame, space: LabelSpace, targets: Targets, found: StimulusSet) -> Floats:
    """What is to be learnt of each image (n, classes)."""
    if targets == "gold":
        return np.stack([_gold(row, space, found) for row in frame.iter_rows(named=True)]).astype(np.float32)
    for file, truth in frame.select("file", "truth").iter_rows():
        if truth is None or truth == ABSTAIN:
            raise InvalidInput(
                f"an image to learn from has a class, {found.path(file)} has {truth or 'none'}; leave it out of the "
                f"split {TRAIN}"
            )
    codes = [space.classes.index(truth) for truth in frame["truth"]]
    return np.eye(len(space.classes), dtype=np.float32)[codes]


def _gold(row: dict[str, Any], space: LabelSpace, found: StimulusSet) -> NDArray[np.float64]:
    """People's distribution over the classes: `gold`, else `gold_counts` by their sum."""
    path = found.path(row["file"])
    counts = row["gold"] is None
    given = row["gold_counts"] if counts else row["gold"]
    if given is None:
        raise InvalidInput(f'targets = "gold" needs gold or gold_counts in the manifest, {path} has neither')
    shares = np.asarray(given, dtype=np.float64)
    if counts and shares.sum() > 0:
        shares = shares / shares.sum()
    if not (shares >= 0).all() or abs(shares.sum() - 1) > _SUM:
        raise InvalidInput(f"a gold distribution is not negative and sums to one, {path} has a sum of {shares.sum():g}")
    classes = len(space.classes)
    if len(shares) == classes + 1 and shares[-1] == 0:  # with a place for abstain, which nobody chose
        return shares[:-1]
    if len(shares) != classes:
        raise InvalidInput(
            f"a gold distribution has one share for each of the {classes} classes (and 0 for abstain), {path} has "
            f"{np.round(shares, 3).tolist()}; leave it out of the split {TRAIN}"
        )
    return shares


def _held_out(frame: pl.DataFrame, targets: Floats, recipe: Recipe) -> NDArray[np.bool_]:
    """Which images are for validation: those the manifest says, else a share of each class drawn by files' names."""
    if (frame["split"] == VALIDATION).any():
        return (frame["split"] == VALIDATION).to_numpy()
    files, labels = frame["file"].to_list(), targets.argmax(axis=1)
    held = np.zeros(len(files), dtype=bool)
    keys = [hashlib.sha256(f"{recipe.validation_seed}/{file}".encode()).digest() for file in files]
    for label in np.unique(labels):
        members = sorted(np.flatnonzero(labels == label), key=keys.__getitem__)
        held[members[: int(recipe.validation * len(members) + 0.5)]] = True
    return held


def _check_split(
    found: StimulusSet, space: LabelSpace, targets: Floats, held: NDArray[np.bool_], stamped: Sequence[str]
) -> None:
    if not held.any():
        raise InvalidInput(
            f"training is judged on validation images, {found.root} leaves none; raise validation, or give more images"
        )
    without = [name for name, share in zip(space.classes, targets[~held].sum(axis=0), strict=True) if share == 0]
    if without:
        raise InvalidInput(f"each class needs images to learn from, {found.root} has none of {', '.join(without)}")
    kept = {name for name, out in zip(stamped, held, strict=True) if out}
    both = [name for name, out in zip(stamped, held, strict=True) if not out and name in kept]
    if both:
        raise InvalidInput(
            f"validation images must not be trained on, {len(both)} of {found.root} are in both, {both[0][:12]} "
            "for one; remove copies"
        )


def _examples(frame: pl.DataFrame, targets: Floats, keep: NDArray[np.bool_]) -> Examples:
    files = tuple(frame.filter(pl.Series(keep))["file"])
    return Examples(files, targets[keep], targets[keep].argmax(axis=1))


def _digest(space: LabelSpace, stamped: Sequence[str], targets: Floats, held: NDArray[np.bool_]) -> str:
    text = "\n".join([*space.classes, *stamped])
    return hashlib.sha256(text.encode() + targets.tobytes() + held.tobytes()).hexdigest()


@dataclass(frozen=True, slots=True, eq=False)
class TrainingImages:
    """Images of a set with their short side at `side`, read by threads; kept in memory as long as there is room."""

    stimuli: StimulusSet
    side: int
    interpolation: str
    _kept: dict[str, Bytes] = field(default_factory=dict)
    _digests: dict[str, str | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._digests.update(self.stimuli.frame.select("file", "stimulus").iter_rows())

    def read(self, files: Sequence[str], pool: ThreadPoolExecutor) -> list[Bytes]:
        """RGB images (height, width, 3), in this order."""
        missing = [file for file in dict.fromkeys(files) if file not in self._kept]
        new = dict(zip(missing, pool.map(self._read, missing), strict=True)) if missing else {}
        for file, image in new.items():
            if (len(self._kept) + 1) * image.nbytes <= _MEMORY:
                self._kept[file] = image
        return [self._kept[file] if file in self._kept else new[file] for file in files]

    def _read(self, file: str) -> Bytes:
        image = read_source(self.stimuli, file, expected=self._digests[file])
        return shrunk(to_rgb(as_bytes(image.pixels)), self.side, self.interpolation)

"""CIFAR-10's test images with people's answers: about 51 people chose a class for each of the 10,000 (CIFAR-10H).

The folder holds `test_images.png` (row i is image i, 32 x 32 RGB pixels laid end to end), `test_labels.json` (the
class' number of each image) and `cifar10h-counts.npy` (10,000 x 10, how many people chose each class; Peterson et al.
2019). Other numbers of images and classes in the same form will do as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosight.errors import InvalidInput
from cosight.files import file_stamp
from cosight.stimuli.generate import Outcome, StimulusJob, Unit
from cosight.stimuli.images import Bytes, read_image
from cosight.trials.spaces import label_spaces

__all__ = ["Cifar10H"]

_IMAGES, _LABELS, _COUNTS = "test_images.png", "test_labels.json", "cifar10h-counts.npy"
_SIDE = 32
_UNIT = 100  # images that are made together


@dataclass(frozen=True, slots=True)
class Cifar10H:
    """Recipe: every image as a stimulus with people's counts as gold."""

    folder: Path

    @property
    def settings(self) -> Mapping[str, Any]:
        """What is made."""
        return {"verb": "cifar-10h"}

    @property
    def packages(self) -> tuple[str, ...]:
        """None besides the usual ones."""
        return ()

    @property
    def folders(self) -> tuple[Path, ...]:
        """Where the images and answers are."""
        return (self.folder,)

    def units(self) -> Sequence[Unit]:
        """A hundred images each."""
        classes = label_spaces["cifar-10"].classes
        labels, counts = self._answers(len(classes))
        stamp = " ".join(file_stamp(self.folder / name) for name in (_IMAGES, _LABELS, _COUNTS))
        jobs = [
            StimulusJob(f"{index:05d}", {**_told(index, classes[label]), "gold_counts": people.tolist()})
            for index, (label, people) in enumerate(zip(labels, counts, strict=True))
        ]
        starts = range(0, len(jobs), _UNIT)
        return [
            Unit(f"images {start} on", stamp, tuple(jobs[start : start + _UNIT]), payload=start) for start in starts
        ]

    def _answers(self, classes: int) -> tuple[list[int], NDArray[np.int64]]:
        for name in (_IMAGES, _LABELS, _COUNTS):
            if not (self.folder / name).is_file():
                raise InvalidInput(f"CIFAR-10H needs {_IMAGES}, {_LABELS} and {_COUNTS}, {self.folder} has no {name}")
        labels = json.loads((self.folder / _LABELS).read_text(encoding="utf-8"))
        counts = np.load(self.folder / _COUNTS, allow_pickle=False)
        rows = len(_pixels(self.folder))
        if counts.shape != (rows, classes) or len(labels) != rows:
            raise InvalidInput(
                f"there must be a label and {classes} counts an image, got {rows} images, {len(labels)} labels and "
                f"counts {counts.shape}"
            )
        if not np.issubdtype(counts.dtype, np.integer) or counts.min() < 0 or not counts.sum(axis=1).all():
            raise InvalidInput(f"people's answers are whole numbers, some for every image, got {counts.dtype} counts")
        return labels, counts

    def make(self, unit: Unit, jobs: Sequence[StimulusJob]) -> Iterator[Outcome]:
        """Cut the images out of the one picture."""
        pixels = _pixels(self.folder)
        place = {job.file: unit.payload + index for index, job in enumerate(unit.jobs)}
        for job in jobs:
            yield Outcome(job, np.ascontiguousarray(pixels[place[job.file]]), {"seed": None, "parent": None})


def _told(index: int, truth: str) -> dict[str, Any]:
    told = {"image": f"{index:05d}.png", "experiment": "cifar-10h", "truth": truth, "original": truth}
    return {**told, "split": "test", "condition": None, "level": None}


def _pixels(folder: Path) -> Bytes:
    return _cut(folder, (folder / _IMAGES).stat().st_mtime_ns)


@cache
def _cut(folder: Path, changed: int) -> Bytes:
    """The images, read once while the picture stays the same."""
    flat = read_image(folder / _IMAGES)
    if flat.ndim != 3 or flat.shape[1] != _SIDE * _SIDE:
        raise InvalidInput(f"{folder / _IMAGES} must be {_SIDE * _SIDE} pixels wide, an image a row, got {flat.shape}")
    return flat.reshape(-1, _SIDE, _SIDE, 3)

"""CIFAR-10H: CIFAR-10's test images with the answers of about 51 people each.

The source folder has `test_images.png` (row i is image i, its 32 x 32 RGB pixels one after the other),
`test_labels.json` (the class number of each image) and `cifar10h-counts.npy` (10,000 x 10, how many people chose each
class; Peterson et al. 2019). Other numbers of images in the same form work as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from cosight.benchmarks.entry import Benchmark, BuildResult, Progress
from cosight.errors import InvalidInput
from cosight.files import file_stamp, read_json
from cosight.trials.spaces import label_spaces

if TYPE_CHECKING:
    from cosight.stimuli.generate import Outcome, StimulusJob, Unit
    from cosight.stimuli.images import Bytes

__all__ = ["CIFAR_10H", "Cifar10HImages", "build"]

_IMAGES, _LABELS, _COUNTS = "test_images.png", "test_labels.json", "cifar10h-counts.npy"
_SIDE = 32
_UNIT = 100  # images per unit of work


def build(
    source: Annotated[Path, "Folder with test_images.png, test_labels.json and cifar10h-counts.npy."],
    out: Annotated[Path, "Output folder. An unfinished set there is resumed."],
    *,
    workers: Annotated[int, "Number of worker processes. Does not change the output."] = 1,
    progress: Progress | None = None,
) -> BuildResult:
    """Build CIFAR-10's test images with the answers of about 51 people each as gold labels (CIFAR-10H).

    Examples:
        cosight build cifar-10h cifar10 cifar-10h
        cosight build cifar-10h cifar10 cifar-10h --workers 2 --sheet sheet.png
    """
    from cosight.stimuli.generate import generate_set

    return BuildResult(generate_set(Cifar10HImages(Path(source)), Path(out), workers=workers, progress=progress))


CIFAR_10H = Benchmark(
    name="cifar-10h",
    summary="CIFAR-10's test images with the label distributions of people.",
    source="Peterson et al. 2019, CIFAR-10H",
    labels="cifar-10",
    experiment="cifar-10h",
    humans="about 51 people per image",
    needs="CIFAR-10's test images and CIFAR-10H's counts",
    measures=("accuracy", "hellinger"),
    build=build,
)


@dataclass(frozen=True, slots=True)
class Cifar10HImages:
    """Recipe: every image as a stimulus with people's counts as gold label."""

    folder: Path

    settings: ClassVar[Mapping[str, Any]] = {"verb": "cifar-10h", "labels": "cifar-10"}
    packages: ClassVar[tuple[str, ...]] = ()

    @property
    def folders(self) -> tuple[Path, ...]:
        """The source folder."""
        return (self.folder,)

    def units(self) -> Sequence[Unit]:
        """Return units of a hundred images each."""
        from cosight.stimuli.generate import StimulusJob, Unit

        for name in (_IMAGES, _LABELS, _COUNTS):
            if not (self.folder / name).is_file():
                raise InvalidInput(f"CIFAR-10H needs {_IMAGES}, {_LABELS} and {_COUNTS}, {self.folder} has no {name}")
        classes = label_spaces["cifar-10"].classes
        labels = read_json(self.folder / _LABELS)
        if not isinstance(labels, list) or not all(
            type(label) is int and 0 <= label < len(classes) for label in labels
        ):
            raise InvalidInput(f"{_LABELS} must be a list of numbers from 0 to {len(classes) - 1}; download it again")
        counts = np.load(self.folder / _COUNTS, allow_pickle=False)
        rows = len(self._pixels())
        if counts.shape != (rows, len(classes)) or len(labels) != rows:
            raise InvalidInput(
                f"there must be one label and {len(classes)} counts per image, got {rows} images, {len(labels)} labels "
                f"and counts {counts.shape}"
            )
        if not np.issubdtype(counts.dtype, np.integer) or counts.min() < 0 or not counts.sum(axis=1).all():
            raise InvalidInput(
                f"people's answers must be whole numbers, some for every image, got {counts.dtype} counts"
            )
        stamp = " ".join(file_stamp(self.folder / name) for name in (_IMAGES, _LABELS, _COUNTS))
        jobs = []
        for index, (label, image_counts) in enumerate(zip(labels, counts, strict=True)):
            facts = {
                "image": f"{index:05d}.png",
                "experiment": "cifar-10h",
                "truth": classes[label],
                "original": classes[label],
                "split": "test",
                "condition": None,
                "level": None,
                "gold_counts": image_counts.tolist(),
            }
            jobs.append(StimulusJob(f"{index:05d}", facts))
        return [
            Unit(f"images {start} on", stamp, tuple(jobs[start : start + _UNIT])) for start in range(0, rows, _UNIT)
        ]

    def make(self, unit: Unit, jobs: Sequence[StimulusJob]) -> Iterator[Outcome]:
        """Yield the images, cut out of the one picture."""
        from cosight.stimuli.generate import Outcome

        pixels = self._pixels()
        for job in jobs:
            yield Outcome(job, np.ascontiguousarray(pixels[int(job.file)]), {"seed": None, "parent": None})

    def _pixels(self) -> Bytes:
        path = self.folder / _IMAGES
        return _read_pixels(path, path.stat().st_mtime_ns)


@cache
def _read_pixels(path: Path, changed: int) -> Bytes:
    """Read the images (n, 32, 32, 3), once while the file stays the same."""
    from cosight.stimuli.images import read_image

    picture = read_image(path)
    if picture.ndim != 3 or picture.shape[1] != _SIDE * _SIDE:
        raise InvalidInput(f"{path} must be {_SIDE * _SIDE} pixels wide, one image per row, got {picture.shape}")
    return picture.reshape(-1, _SIDE, _SIDE, 3)

"""CIFAR-10H: CIFAR-10's test images with the answers of about 51 people each.

The source folder (`cosight data get cifar-10h`) has CIFAR-10's `test_batch.bin` (per image a class number, then its
red, green and blue pixels, 32 x 32 each) and `cifar10h-counts.npy` (10,000 x 10, how many people chose each class;
Peterson et al. 2019). Instead of the former it may have `test_images.png` (row i is image i, its RGB pixels one after
the other) and `test_labels.json` (the class number of each image). Other numbers of images in the same form work too.
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

_BATCH, _IMAGES, _LABELS, _COUNTS = "test_batch.bin", "test_images.png", "test_labels.json", "cifar10h-counts.npy"
_SIDE = 32
_RECORD = 1 + 3 * _SIDE * _SIDE  # bytes per image in the binary version
_UNIT = 100  # images per unit of work


def build(
    source: Annotated[
        Path, "Folder with CIFAR-10's test images and CIFAR-10H's counts (`cosight data get cifar-10h`)."
    ],
    out: Annotated[Path, "Output folder. An unfinished set there is resumed."],
    *,
    workers: Annotated[int, "Number of worker processes. Does not change the output."] = 1,
    progress: Progress | None = None,
) -> BuildResult:
    """Build CIFAR-10's test images with the answers of about 51 people each as gold labels (CIFAR-10H).

    Args:
        progress: Called with the number of finished images, the number of all images and a label.

    Returns:
        The set.

    Raises:
        InvalidInput: If a source file is missing or has another form, or `out` belongs to another set.

    Examples:
        cosight build cifar-10h cifar10 cifar-10h
        cosight build cifar-10h cifar10 cifar-10h --workers 2 --sheet sheet.png

    >>> from cosight.stimuli import encode
    >>> Path("cifar").mkdir()
    >>> _ = Path("cifar/test_images.png").write_bytes(encode(np.zeros((2, 1024, 3), np.uint8), "png"))
    >>> _ = Path("cifar/test_labels.json").write_text("[3, 5]")
    >>> np.save("cifar/cifar10h-counts.npy", np.eye(10, dtype=int)[[3, 3]] * 51)
    >>> built = build(Path("cifar"), Path("cifar-10h")).generated
    >>> built.stimuli.frame["truth"].to_list(), built.stimuli.frame["gold_counts"][1][3]
    (['cat', 'dog'], 51)
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

        files = (*self._image_files, _COUNTS)
        for name in files:
            if not (self.folder / name).is_file():
                raise InvalidInput(
                    f"CIFAR-10H needs {' and '.join(files)}, {self.folder} has no {name}; `cosight data get cifar-10h` "
                    "gets them"
                )
        classes = label_spaces["cifar-10"].classes
        labels = self._records()[:, 0].tolist() if _BATCH in files else read_json(self.folder / _LABELS)
        if not isinstance(labels, list) or not all(
            type(label) is int and 0 <= label < len(classes) for label in labels
        ):
            raise InvalidInput(f"labels in {files[-2]} must be numbers from 0 to {len(classes) - 1}; download it again")
        counts = np.load(self.folder / _COUNTS, allow_pickle=False)
        rows = len(self._pixels())
        if counts.shape != (rows, len(classes)) or len(labels) != rows:
            raise InvalidInput(
                f"there must be one label and {len(classes)} counts per image, got {rows} images, {len(labels)} labels "
                f"and counts {counts.shape}"
            )
        if not np.issubdtype(counts.dtype, np.integer) or counts.min() < 0 or not counts.sum(axis=1).all():
            raise InvalidInput(
                f"people's answers must be whole numbers, at least one per image, got {counts.dtype} counts"
            )
        stamp = " ".join(file_stamp(self.folder / name) for name in files)
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

    @property
    def _image_files(self) -> tuple[str, ...]:
        """The files with images and labels: a picture and a list where there are such, else the binary version."""
        return (_IMAGES, _LABELS) if (self.folder / _IMAGES).is_file() else (_BATCH,)

    def _records(self) -> Bytes:
        """Read the binary version: one row per image, its label and its pixels plane by plane."""
        data = np.fromfile(self.folder / _BATCH, dtype=np.uint8)
        if not data.size or data.size % _RECORD:
            raise InvalidInput(
                f"{self.folder / _BATCH} must be {_RECORD} bytes per image, got {data.size:,} bytes; download it again"
            )
        return data.reshape(-1, _RECORD)

    def _pixels(self) -> Bytes:
        if _BATCH in self._image_files:
            return self._records()[:, 1:].reshape(-1, 3, _SIDE, _SIDE).transpose(0, 2, 3, 1)
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

"""Making a set with one process and with two: images per second grow with the cores."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import cv2
from sklearn.datasets import load_sample_images

from cosight.stimuli.alterations import Alterations, alteration
from cosight.stimuli.generate import generate_set
from cosight.stimuli.images import encode, preparation
from cosight.stimuli.sets import read_set
from perf.lines import Line

__all__ = ["FULL", "Size", "lines"]


@dataclass(frozen=True, slots=True)
class Size:
    """How much work; the limit holds for FULL, where starting the processes counts for little."""

    sources: int
    repeats: int


FULL = Size(300, 1)


def lines(size: Size) -> Iterator[Line]:
    """One line: all twenty corruptions of 224 x 224 images, stored as PNG."""
    threads = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        with tempfile.TemporaryDirectory() as folder:
            _write_sources(Path(folder) / "source", size.sources)
            runs = [(_made(Path(folder), workers, run), workers) for run in range(size.repeats) for workers in (1, 2)]
    finally:
        cv2.setNumThreads(threads)
    one, two = (min(seconds for seconds, workers in runs if workers == count) for count in (1, 2))
    # 2 would be perfect; starting two processes and the second core's other work take their part
    yield Line(f"{size.sources * 20} corrupted PNGs, 2 processes", "1 process", two, one, 1.5, faster=True)


def _write_sources(folder: Path, count: int) -> None:
    folder.mkdir()
    photos = [cv2.resize(photo, (375, 250), interpolation=cv2.INTER_AREA) for photo in load_sample_images().images]
    for index in range(count):
        photo = photos[index % 2].copy()
        photo[: index % 100 + 1] = 255 - photo[: index % 100 + 1]  # no two alike
        (folder / f"{index:04d}.jpeg").write_bytes(encode(photo, "jpeg"))


def _made(folder: Path, workers: int, run: int) -> float:
    from cosight.stimuli.corruptions import corruptions

    hows = tuple(alteration(kind, severity=3) for kind in corruptions)
    recipe = Alterations(read_set(folder / "source"), hows, experiment="x", prepare=preparation("256/224"))
    start = perf_counter()
    generate_set(recipe, folder / f"{workers}-{run}", workers=workers)
    return perf_counter() - start

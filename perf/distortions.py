"""Time of LAION-C's distortions at their slowest level, in JPEG encodes (quality 100) of the same photo."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import cv2
import numpy as np
from sklearn.datasets import load_sample_image

from cosight.stimuli.distortions import distort, distortions
from cosight.stimuli.images import Bytes, encode
from cosight.stimuli.tiles import TileIndex, build_tiles
from perf.lines import Line, best

__all__ = ["FULL", "Size", "lines"]

MOST = {"mosaic": 12}  # encodes; the search for the nearest tiles takes most of it
MOST_OTHERS = 5


@dataclass(frozen=True, slots=True)
class Size:
    """Amount of work; the limits are for FULL."""

    tiles: int
    repeats: int


FULL = Size(50_000, 60)


def lines(size: Size) -> Iterator[Line]:
    """Yield one line per distortion."""
    threads = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        with tempfile.TemporaryDirectory() as folder:
            index = build_tiles(_pictures(size.tiles), Path(folder) / "tiles")
            for kind in distortions:
                yield _line(kind, index, size)
    finally:
        cv2.setNumThreads(threads)


def _line(kind: str, index: TileIndex, size: Size) -> Line:
    photo = _photo()
    encoded = best(lambda: encode(photo, "jpeg"), size.repeats)
    levels = distortions[kind].steps
    times = [best(partial(_distort, photo, kind, int(level), index), size.repeats) for level in levels]
    slowest = int(np.argmax(times))
    source = f", {len(index):,} tiles" if "tiles" in distortions[kind].options else ""
    name = f"{kind}, level {levels[slowest]}, 224 px{source}"
    return Line(
        name, "one JPEG encode, quality 100", times[slowest], encoded, MOST.get(kind, MOST_OTHERS), faster=False
    )


def _distort(photo: Bytes, kind: str, level: int, index: TileIndex) -> None:
    distort(photo, kind, level=level, rng=np.random.default_rng(0), tiles=index)


def _photo() -> Bytes:
    temple: Bytes = load_sample_image("china.jpg")[:, 106:533]  # the middle, 427 x 427
    return cv2.resize(temple, (224, 224), interpolation=cv2.INTER_AREA)  # type: ignore[return-value]


def _pictures(count: int) -> Iterator[Bytes]:
    """Yield noise about mean colours distributed like those of photos: mostly along grey, around its middle."""
    rng = np.random.default_rng(0)
    for _ in range(count):
        mean = 115 + rng.normal(0, 38) + rng.normal(0, 18, 3)
        yield np.clip(mean + rng.integers(-60, 61, (32, 32, 3)), 0, 255).astype(np.uint8)

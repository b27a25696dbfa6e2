"""The corruptions beside the maintained fork of the peer package, photo by photo, one thread."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import cv2
import numpy as np
from sklearn.datasets import load_sample_image

from cosight.stimuli.corruptions import corrupt, corruptions
from cosight.stimuli.images import Bytes
from perf.lines import Line

__all__ = ["FULL", "Size", "lines"]

PEER = "imagecorruptions-imaug"
SEVERITIES = (1, 3, 5)
OURS_ALONE = {"cropping"}
TURN = 3  # calls


@dataclass(frozen=True, slots=True)
class Size:
    """How much work; the limits hold for FULL."""

    sides: tuple[int, ...]
    repeats: int


FULL = Size((224, 512), 6)


def lines(size: Size) -> Iterator[Line]:
    """Per side of the photo: a line for each shared corruption, and their geometric mean."""
    threads = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the peer's imports are old
            for side in size.sides:
                yield from _side_lines(side, size.repeats)
    finally:
        cv2.setNumThreads(threads)


def _side_lines(side: int, repeats: int) -> Iterator[Line]:
    photo = _photo(side)
    shared = [kind for kind in corruptions if kind not in OURS_ALONE]
    found = []
    for kind in shared:
        found.append(_line(kind, photo, repeats))
        yield found[-1]
    times = np.log([[line.ours, line.theirs] for line in found]).mean(axis=0)
    ours, theirs = np.exp(times)
    name = f"{len(found)} corruptions, {side} px, geometric mean"
    yield Line(name, PEER, float(ours), float(theirs), 5, faster=True)


def _line(kind: str, photo: Bytes, repeats: int) -> Line:
    pairs = [_fastest(kind, photo, severity, repeats) for severity in SEVERITIES]
    ours, theirs = (sum(times) / len(SEVERITIES) for times in zip(*pairs, strict=True))
    name = f"{kind}, {len(photo)} px, mean of severities {', '.join(map(str, SEVERITIES))}"
    return Line(name, PEER, ours, theirs, 1, faster=True)


def _fastest(kind: str, photo: Bytes, severity: int, repeats: int) -> tuple[float, float]:
    """Seconds of the fastest call, ours and theirs in turns of a few calls.

    In turns, so that a busy moment hits both; of a few, because the first call after the other's pays for its memory.
    """
    from imagecorruptions import corrupt as peer

    rng = np.random.default_rng(0)
    np.random.seed(0)  # noqa: NPY002 (the peer knows no other)

    def ours() -> Any:
        return corrupt(photo, kind, severity=severity, rng=rng, variant="imagenet-c")

    def theirs() -> Any:
        return peer(photo, corruption_name=kind, severity=severity)

    turns = [(_seconds(ours), _seconds(theirs)) for _ in range(1 + repeats)]
    mine, other = (min(times) for times in zip(*turns[1:], strict=True))  # the first compiles and loads
    return mine, other


def _seconds(call: Callable[[], Any]) -> float:
    """The fastest of one turn."""
    times = []
    for _ in range(TURN):
        start = perf_counter()
        call()
        times.append(perf_counter() - start)
    return min(times)


def _photo(side: int) -> Bytes:
    temple = load_sample_image("china.jpg")
    cut = (temple.shape[1] - temple.shape[0]) // 2
    square = temple[:, cut : cut + len(temple)]
    return cv2.resize(square, (side, side), interpolation=cv2.INTER_AREA)  # type: ignore[return-value]

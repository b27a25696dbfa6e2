"""Speed of the corruptions compared with the maintained fork of the peer package: one photo per call, one thread."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from sklearn.datasets import load_sample_image

from cosight.stimuli.corruptions import corrupt, corruptions
from cosight.stimuli.images import Bytes
from perf.lines import Line, best

__all__ = ["FULL", "Size", "lines"]

PEER = "imagecorruptions-imaug"
SEVERITIES = (1, 3, 5)
OURS_ALONE = {"cropping"}
TURN = 3  # calls
LEAST_OF_EACH = 1  # times as fast as the peer
LEAST_ON_AVERAGE = 5  # geometric mean


@dataclass(frozen=True, slots=True)
class Size:
    """Amount of work; the limits are for FULL."""

    sides: tuple[int, ...]
    repeats: int


FULL = Size((224, 512), 6)


def lines(size: Size) -> Iterator[Line]:
    """Yield, per side of the photo, a line for each shared corruption and one for their geometric mean."""
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
    measured = []
    for kind in corruptions:
        if kind in OURS_ALONE:
            continue
        pairs = [_fastest_calls(kind, photo, severity, repeats) for severity in SEVERITIES]
        ours, theirs = (sum(times) / len(SEVERITIES) for times in zip(*pairs, strict=True))
        name = f"{kind}, {side} px, mean of severities {', '.join(map(str, SEVERITIES))}"
        measured.append(Line(name, PEER, ours, theirs, LEAST_OF_EACH, faster=True))
        yield measured[-1]
    ours, theirs = np.exp(np.log([[line.ours, line.theirs] for line in measured]).mean(axis=0)).tolist()
    name = f"{len(measured)} corruptions, {side} px, geometric mean"
    yield Line(name, PEER, ours, theirs, LEAST_ON_AVERAGE, faster=True)


def _fastest_calls(kind: str, photo: Bytes, severity: int, repeats: int) -> tuple[float, float]:
    """Return the seconds of the fastest call, ours and theirs, which take turns of a few calls.

    In turns, so that a busy moment affects both; a few calls each, because the first after the other's is slower
    (memory).
    """
    from imagecorruptions import corrupt as peer

    rng = np.random.default_rng(0)
    np.random.seed(0)  # noqa: NPY002 (the peer uses the global state)

    def ours() -> Any:
        return corrupt(photo, kind, severity=severity, rng=rng, variant="imagenet-c")

    def theirs() -> Any:
        return peer(photo, corruption_name=kind, severity=severity)

    turns = [(best(ours, TURN), best(theirs, TURN)) for _ in range(1 + repeats)]
    our_time, their_time = (min(times) for times in zip(*turns[1:], strict=True))  # the first turn compiles and loads
    return our_time, their_time


def _photo(side: int) -> Bytes:
    temple = load_sample_image("china.jpg")
    cut = (temple.shape[1] - temple.shape[0]) // 2
    square = temple[:, cut : cut + len(temple)]
    return cv2.resize(square, (side, side), interpolation=cv2.INTER_AREA)  # type: ignore[return-value]

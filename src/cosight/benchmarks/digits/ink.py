"""Handwritten digits as ink on paper: the stored array, its enlargement, and how ink becomes an image.

Ink is a float array (32, 32) in [0, 1], 1 where the stroke is. Every picture of the digits benchmark is drawn as ink
first and then put on paper or on another ground, so that digits and what is no digit share their pen.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from cosight.stimuli.images import Bytes, Floats

__all__ = [
    "PAPER",
    "PEN",
    "SIDE",
    "Handwriting",
    "about_digits",
    "digit_ink",
    "enlarged",
    "handwriting",
    "on_ground",
    "on_paper",
]

SIDE = 32  # pixels of every image
PAPER, PEN = 0.9, 24 / 255  # how bright paper and ink are: ten times as bright, ink is still not white
_BOX = 24  # pixels a digit is enlarged to, three times its 8; the rest is margin
_MOST_INK = 16  # of a cell of the stored array
_FAINT, _FULL = 0.35, 0.8  # where the enlarged stroke begins and is black: enlarging alone leaves it blurred


@dataclass(frozen=True, slots=True, eq=False)
class Handwriting:
    """Digits as people wrote them: `cells` (n, 8, 8) with 0 to 16 ink each, and which digit each is (n,)."""

    cells: Bytes
    labels: NDArray[np.uint8]


@cache
def handwriting() -> Handwriting:
    """The 1,797 digits that come with cosight; `about_digits` tells where they are from."""
    with files(__package__).joinpath("digits.npz").open("rb") as file, np.load(file, allow_pickle=False) as stored:
        return Handwriting(stored["images"], stored["labels"])


@cache
def digit_ink(place: int) -> Floats:
    """The ink of the stored digit at this place, not to be written to."""
    ink = enlarged(handwriting().cells[place])
    ink.setflags(write=False)
    return ink


def about_digits() -> dict[str, Any]:
    """Source, licence and authors of the stored digits."""
    facts: dict[str, Any] = json.loads(files(__package__).joinpath("digits.json").read_text(encoding="utf-8"))
    return facts


def enlarged(cells: Bytes) -> Floats:
    """The ink of one stored digit (8, 8): three times as large by cubic interpolation, edges sharpened, with a margin.

    >>> enlarged(np.zeros((8, 8), np.uint8)).shape
    (32, 32)
    """
    share = (cells / _MOST_INK).astype(np.float32)
    around = np.pad(share, 1)  # the stroke ends on paper, not at the edge
    scale = _BOX // len(cells)
    large = cv2.resize(around, None, fx=scale, fy=scale, interpolation=cv2.INTER_CUBIC)
    margin = (SIDE - len(large)) // 2
    extra = SIDE - len(large) - margin
    return np.pad(_sharpened(large), (margin, extra))


def _sharpened(ink: Any) -> Floats:
    """A smooth step from no ink to full ink."""
    rise = np.clip((ink - _FAINT) / (_FULL - _FAINT), 0, 1)
    return np.asarray(rise * rise * (3 - 2 * rise), np.float32)


def on_paper(ink: Floats) -> Bytes:
    """Dark ink on light paper, as an image."""
    return on_ground(ink, np.full(ink.shape, PAPER, np.float32))


def on_ground(ink: Floats, ground: Floats, *, pen: float = PEN) -> Bytes:
    """Ink of this brightness on a ground with values in [0, 1], as an image."""
    return np.rint((ground + ink * (pen - ground)) * 255).astype(np.uint8)

"""Two digits in one picture (category 5): grown together side by side, or crossed.

Halves of two digits, one digit above another, or one written over the other often read as a third (the top of a 9 and
the foot of a 3 are a 9, a 9 above a 0 is an 8); in these two ways both stay whole and the whole is none.
"""

from __future__ import annotations

import cv2
import numpy as np

from cosight.benchmarks.digits.ink import SIDE
from cosight.errors import InvalidInput
from cosight.stimuli.images import Floats

__all__ = ["JOINS", "joined", "joins"]

JOINS = ("beside", "crossed")
_TALL, _SHORT = 26, 13  # pixels a digit may have along and across the seam
_SHARED = 1  # pixels that the halves overlap by, so that they touch


def joins(first: str, second: str) -> tuple[str, ...]:
    """In which of `JOINS` two digits are none: a 1 lying across a digit is only its bar (7 has one in much of Europe).

    >>> joins("1", "7")
    ('beside',)
    """
    return tuple(how for how in JOINS if how != "crossed" or "1" not in (first, second)) if first != second else ()


def joined(first: Floats, second: Floats, how: str) -> Floats:
    """The ink of both digits, joined in one of `JOINS`.

    >>> joined(np.ones((32, 32), np.float32), np.zeros((32, 32), np.float32), "crossed").shape
    (32, 32)
    """
    if how not in JOINS:
        raise InvalidInput(f"two digits are joined {' or '.join(JOINS)}, got {how!r}")
    if how == "crossed":
        return np.maximum(first, np.rot90(second))
    ink = np.zeros((SIDE, SIDE), np.float32)
    middle = SIDE // 2 + _SHARED
    for half, right in ((_squeezed(first), middle), (_squeezed(second), middle + _SHORT - 2 * _SHARED)):
        top, left = (SIDE - half.shape[0]) // 2, right - half.shape[1]
        place = ink[top : top + half.shape[0], left : left + half.shape[1]]
        np.maximum(place, half, out=place)
    return ink


def _squeezed(ink: Floats) -> Floats:
    """The digit without its margins, no wider than half the picture."""
    ys, xs = np.flatnonzero(ink.any(axis=1)), np.flatnonzero(ink.any(axis=0))
    box = ink[ys[0] : ys[-1] + 1, xs[0] : xs[-1] + 1] if len(ys) else ink
    size = (min(_SHORT, box.shape[1]), min(_TALL, box.shape[0]))
    return np.asarray(cv2.resize(box, size, interpolation=cv2.INTER_AREA), np.float32)

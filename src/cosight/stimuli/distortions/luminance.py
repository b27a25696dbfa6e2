"""Luminance checkerboard: squares made lighter and darker by turns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numba import njit

from cosight.stimuli.distortions.common import FACTS, Whole, distortions, painted
from cosight.stimuli.images import Bytes
from cosight.stimuli.kinds import declare

__all__: list[str] = []

_LUMINANCE = ((0, 50), (50, 100), (100, 125), (125, 150), (150, 255))  # level 1 to 5, Li et al. 2025, table 7
_SIDE = 14  # px


def _settings(step: int) -> Mapping[str, Any]:
    low, high = _LUMINANCE[step]
    return {"low": low, "high": high, "side": _SIDE}


@declare(distortions, "luminance_checkerboard", settings=_settings, **FACTS)
def _luminance_checkerboard(image: Bytes, step: int, rng: np.random.Generator) -> Bytes:
    """Squares of a checkerboard made lighter and darker by turns, each by an amount of its own."""
    rows, columns = (-(-side // _SIDE) for side in image.shape[:2])
    amounts = np.rint(rng.uniform(*_LUMINANCE[step], (rows, columns))).astype(np.int64)
    amounts[np.indices(amounts.shape).sum(axis=0) % 2 == 1] *= -1
    return painted(lambda colour: _add(colour, amounts), image)


@njit(cache=True)
def _add(image: Bytes, amounts: Whole) -> None:
    for y in range(image.shape[0]):
        for x in range(image.shape[1]):
            amount = amounts[y // _SIDE, x // _SIDE]
            for channel in range(3):
                image[y, x, channel] = min(max(image[y, x, channel] + amount, 0), 255)

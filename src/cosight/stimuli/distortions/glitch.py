"""Glitched: bands of the image and one of its colour channels shifted, under scan lines."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from cosight.stimuli.distortions.common import FACTS, distortions
from cosight.stimuli.images import Bytes
from cosight.stimuli.kinds import declare

__all__ = ["Geometry", "Region", "glitch_regions"]

Geometry = Literal["per-image", "published"]

# Level 1 to 5. Of g, 2g regions shift by up to g^2 / 100 of the width, one channel by up to 2g pixels: the rows of
# Li et al. 2025, table 3, which prints the whole range of the shift, twice its largest value.
_G = (2, 4, 5, 8, 10)


@dataclass(frozen=True, slots=True)
class Region:
    """A band as wide as the image, rolled sideways by `offset` pixels (to the right if positive)."""

    offset: int
    top: int
    height: int


@dataclass(frozen=True, slots=True)
class _Glitch:
    """All that is drawn for one glitched image; `right` and `down` shift one colour channel."""

    regions: tuple[Region, ...]
    right: int
    down: int
    channel: int


def glitch_regions(height: int, width: int, *, level: int) -> tuple[Region, ...]:
    """The bands of the published set, the same for every image of one size; later ones go over earlier ones.

    >>> glitch_regions(224, 224, level=1)[0]
    Region(offset=-4, top=145, height=55)
    """
    return _published(height, width, distortions["glitched"].step(str(level), word="level")).regions


@lru_cache(maxsize=64)
def _published(height: int, width: int, step: int) -> _Glitch:
    """Region i draws from Python's generator with seed 1 + i, the channel from the seed after the last region's."""
    regions, shift, offset = _numbers(step, width)

    def region(seed: int) -> Region:
        draw = random.Random(seed).randint
        return Region(draw(-shift, shift), draw(0, height), draw(1, height // 4))

    draw = random.Random(1 + regions).randint
    bands = tuple(map(region, range(1, 1 + regions)))
    return _Glitch(bands, draw(-offset, offset), draw(-offset, offset), draw(0, 2))


def _drawn(height: int, width: int, step: int, rng: np.random.Generator) -> _Glitch:
    regions, shift, offset = _numbers(step, width)
    low, high = (-shift, 0, 1), (shift, height, height // 4)
    bands = rng.integers(low, high, (regions, 3), endpoint=True).tolist()
    right, down = rng.integers(-offset, offset, 2, endpoint=True).tolist()
    return _Glitch(tuple(Region(*band) for band in bands), right, down, int(rng.integers(0, 3)))


def _numbers(step: int, width: int) -> tuple[int, int, int]:
    """How many regions there are, and by how many pixels they and the channel shift at most."""
    g = _G[step]
    return 2 * g, int(g * g / 100 * width), 2 * g


def _settings(step: int, *, geometry: Geometry = "per-image") -> Mapping[str, Any]:
    g = _G[step]
    return {"regions": 2 * g, "shift": g * g / 100, "offset": 2 * g, "geometry": geometry}


@declare(
    distortions,
    "glitched",
    settings=_settings,
    options=frozenset({"geometry"}),
    steady={"geometry": "published"},
    **FACTS,
)
def _glitched(image: Bytes, step: int, rng: np.random.Generator, *, geometry: Geometry = "per-image") -> Bytes:
    """Bands rolled sideways, one colour channel shifted, every other row black."""
    size = image.shape[0], image.shape[1]
    glitch = _published(*size, step) if geometry == "published" else _drawn(*size, step, rng)
    banded = image.copy()
    for band in glitch.regions:
        rows = slice(band.top, band.top + band.height)
        banded[rows] = np.roll(image[rows], band.offset, axis=1)
    if image.ndim == 3:
        shifted = image[:, :, glitch.channel]
        banded[:, :, glitch.channel] = np.roll(shifted, (glitch.down, glitch.right), axis=(0, 1))
    else:  # the one channel, bands and all: taken from the original it would undo them
        banded = np.roll(banded, (glitch.down, glitch.right), axis=(0, 1))
    banded[::2] = 0
    return banded

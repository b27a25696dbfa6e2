"""Glitched: bands of the image and one of its colour channels shifted, under scan lines.

The published geometry is that of the library behind the published set, seeded with 1: what is drawn, and three habits
of its own. A band with offset 0 is left out (drawn for one image, it shows the original again); the channel moves up
or down only; its sideways shift reaches the one row that row 0 lands on.
"""

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

__all__ = ["Geometry", "GlitchRegion", "glitch_regions"]

Geometry = Literal["per-image", "published"]

# Level 1 to 5. Of g, 2g regions shift by up to g^2 / 100 of the width, one channel by up to 2g pixels: the rows of
# Li et al. 2025, table 3, which prints the whole range of the shift, twice its largest value.
_G = (2, 4, 5, 8, 10)


@dataclass(frozen=True, slots=True)
class GlitchRegion:
    """A band as wide as the image, rolled sideways by `offset` pixels (to the right if positive)."""

    offset: int
    top: int
    height: int


@dataclass(frozen=True, slots=True)
class _Glitch:
    """All that is drawn for one glitched image; `right` and `down` shift one colour channel."""

    regions: tuple[GlitchRegion, ...]
    channel: int
    right: int
    down: int


def glitch_regions(height: int, width: int, *, level: int) -> tuple[GlitchRegion, ...]:
    """The bands of the published set, the same for every image of one size; later ones go over earlier ones.

    >>> glitch_regions(224, 224, level=1)[0]
    GlitchRegion(offset=-4, top=145, height=55)
    """
    return _published(height, width, distortions["glitched"].step(str(level), word="level")).regions


@lru_cache(maxsize=64)
def _published(height: int, width: int, step: int) -> _Glitch:
    """Region i (from 0) draws from Python's generator with seed 1 + i; channel and shift from one with seed 1 again."""
    regions, shift, offset = _numbers(step, width)

    def region(seed: int) -> GlitchRegion:
        draw = random.Random(seed).randint
        return GlitchRegion(draw(-shift, shift), draw(0, height), draw(1, height // 4))

    draw = random.Random(1).randint
    bands = tuple(map(region, range(1, 1 + regions)))
    return _Glitch(bands, channel=draw(0, 2), right=draw(-offset, offset), down=draw(-offset, offset))


def _drawn(height: int, width: int, step: int, rng: np.random.Generator) -> _Glitch:
    regions, shift, offset = _numbers(step, width)
    low, high = (-shift, 0, 1), (shift, height, height // 4)
    bands = rng.integers(low, high, (regions, 3), endpoint=True).tolist()
    right, down = rng.integers(-offset, offset, 2, endpoint=True).tolist()
    return _Glitch(tuple(GlitchRegion(*band) for band in bands), int(rng.integers(0, 3)), right, down)


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
    published = geometry == "published"
    glitch = _published(*size, step) if published else _drawn(*size, step, rng)
    shifted = _published_shift if published else _shift
    banded = image.copy()
    for band in glitch.regions:
        if band.offset or not published:
            rows = slice(band.top, band.top + band.height)
            banded[rows] = np.roll(image[rows], band.offset, axis=1)
    if image.ndim == 3:
        banded[:, :, glitch.channel] = shifted(image[:, :, glitch.channel], glitch.right, glitch.down)
    else:  # the one channel, bands and all: taken from the original it would undo them
        banded = shifted(banded, glitch.right, glitch.down)
    banded[::2] = 0
    return banded


def _shift(channel: Bytes, right: int, down: int) -> Bytes:
    return np.roll(channel, (down, right), axis=(0, 1))


def _published_shift(channel: Bytes, right: int, down: int) -> Bytes:
    moved = np.roll(channel, down, axis=0)
    moved[down % len(channel)] = np.roll(channel[0], right)
    return moved

"""Glitched: bands of the image and one of its colour channels are shifted, under scan lines.

The published geometry is that of the library behind the published set, seeded with 1. It differs from the geometry
drawn per image in three ways: a band with offset 0 is left out (drawn per image, it shows the original); the channel
moves up or down only; its sideways shift affects only the row that row 0 moves to.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from cosight.stimuli.distortions.levels import FACTS, distortions
from cosight.stimuli.images import Bytes
from cosight.stimuli.kinds import declare

__all__ = ["Geometry", "GlitchRegion", "glitch_regions"]

Geometry = Literal["per-image", "published"]

# Level 1 to 5: 2g regions shift by up to g^2 / 100 of the width, one channel by up to 2g pixels. These are the rows of
# Li et al. 2025, table 3, which prints the full range of the shift, twice its largest value.
_G = (2, 4, 5, 8, 10)


@dataclass(frozen=True, slots=True)
class GlitchRegion:
    """A band as wide as the image, rolled sideways by `offset` pixels (to the right if positive)."""

    offset: int
    top: int
    height: int


@dataclass(frozen=True, slots=True)
class _Glitch:
    """The random numbers of one glitched image; `right` and `down` shift one colour channel."""

    regions: tuple[GlitchRegion, ...]
    channel: int
    right: int
    down: int


def glitch_regions(height: int, width: int, *, level: int) -> tuple[GlitchRegion, ...]:
    """Return the bands of the published set, which are the same for every image of one size.

    Args:
        height: Height of the image in pixels.
        width: Width of the image in pixels.
        level: Level of the distortion, 1 to 5.

    Returns:
        The bands; later ones cover earlier ones.

    Raises:
        InvalidInput: If there is no such level.

    >>> glitch_regions(224, 224, level=1)[0]
    GlitchRegion(offset=-4, top=145, height=55)
    """
    return _published_glitch(height, width, distortions["glitched"].step(str(level), word="level")).regions


@lru_cache(maxsize=64)
def _published_glitch(height: int, width: int, step: int) -> _Glitch:
    """Region i (from 0) draws from Python's generator with seed 1 + i; channel and shift from one with seed 1 again."""
    g = _G[step]
    shift = int(g * g / 100 * width)
    regions = []
    for seed in range(1, 1 + 2 * g):
        draw = random.Random(seed).randint
        regions.append(GlitchRegion(draw(-shift, shift), draw(0, height), draw(1, height // 4)))
    draw = random.Random(1).randint
    return _Glitch(tuple(regions), channel=draw(0, 2), right=draw(-2 * g, 2 * g), down=draw(-2 * g, 2 * g))


def _random_glitch(height: int, width: int, step: int, rng: np.random.Generator) -> _Glitch:
    g = _G[step]
    shift = int(g * g / 100 * width)
    bands = rng.integers((-shift, 0, 1), (shift, height, height // 4), (2 * g, 3), endpoint=True).tolist()
    right, down = rng.integers(-2 * g, 2 * g, 2, endpoint=True).tolist()
    return _Glitch(tuple(GlitchRegion(*band) for band in bands), int(rng.integers(0, 3)), right, down)


def _settings(step: int, *, geometry: Geometry = "per-image") -> Mapping[str, Any]:
    g = _G[step]
    return {"regions": 2 * g, "shift": g * g / 100, "offset": 2 * g, "geometry": geometry}


@declare(
    distortions,
    "glitched",
    settings=_settings,
    options=frozenset({"geometry"}),
    deterministic_when={"geometry": "published"},
    **FACTS,
)
def _glitched(image: Bytes, step: int, rng: np.random.Generator, *, geometry: Geometry = "per-image") -> Bytes:
    """Shift bands sideways and one colour channel, and make every other row black."""
    height, width = image.shape[:2]
    published = geometry == "published"
    glitch = _published_glitch(height, width, step) if published else _random_glitch(height, width, step, rng)
    result = image.copy()
    for region in glitch.regions:
        if region.offset or not published:
            rows = slice(region.top, region.top + region.height)
            result[rows] = np.roll(image[rows], region.offset, axis=1)
    # A grey image has one channel, bands included: taken from the original it would undo them.
    channel = image[:, :, glitch.channel] if image.ndim == 3 else result
    if published:
        shifted = np.roll(channel, glitch.down, axis=0)
        shifted[glitch.down % height] = np.roll(channel[0], glitch.right)
    else:
        shifted = np.roll(channel, (glitch.down, glitch.right), axis=(0, 1))
    if image.ndim == 3:
        result[:, :, glitch.channel] = shifted
    else:
        result = shifted
    result[::2] = 0
    return result

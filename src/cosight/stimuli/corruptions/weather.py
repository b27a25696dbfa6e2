"""Weather: fog, snow, frost, and spatter of rain or mud."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cv2
import numpy as np

from cosight.stimuli.corruptions.blur import motion_filter, smooth, zoom
from cosight.stimuli.corruptions.frost_textures import FrostTextures, procedural_textures
from cosight.stimuli.corruptions.severities import BOTH, IMAGENET_C, corruptions
from cosight.stimuli.images import Floats, as_floats
from cosight.stimuli.kinds import declare, settings_from, steps_up_to

__all__ = ["fog", "frost", "plasma", "snow", "spatter"]

# Severity 1..5 of ImageNet-C, 6..10 of VisAlign (Lee et al. 2023); lengths in pixels for every image size.
_FOG = (  # amount, decay
    (1.5, 2), (2, 2), (2.5, 1.7), (2.5, 1.5), (3, 1.4), (3.3, 1.4), (3.6, 1.2), (4, 1.2), (5, 1.1), (6, 1.0),
)  # fmt: skip
_FROST = (  # weight of the image, weight of the frost
    (1, 0.4), (0.8, 0.6), (0.7, 0.7), (0.65, 0.7), (0.6, 0.75),
    (0.5, 0.8), (0.4, 0.85), (0.3, 0.9), (0.2, 0.95), (0.1, 1.0),
)  # fmt: skip
_SNOW = (  # mean, spread, zoom and threshold of the flakes' field, radius and sigma of the fall, weight of the image
    (0.1, 0.3, 3, 0.5, 10, 4, 0.8),
    (0.2, 0.3, 2, 0.5, 12, 4, 0.7),
    (0.55, 0.3, 4, 0.9, 12, 8, 0.7),
    (0.55, 0.3, 4.5, 0.85, 12, 8, 0.65),
    (0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
    (0.6, 0.3, 4, 0.9, 12, 12, 0.4),
    (0.6, 0.3, 5, 0.9, 14, 14, 0.4),
    (0.75, 0.3, 6, 1.0, 14, 14, 0.3),
    (0.9, 0.3, 6, 1.0, 14, 16, 0.4),
    (1.0, 0.3, 7, 1.1, 16, 16, 0.4),
)
_SNOW_DEGREES = (45, 135)  # the snow falls within 45 degrees of the vertical
_SPATTER = (  # mean and spread of the liquid's field, its blur, threshold, strength (blur of mud), mud or water
    (0.65, 0.3, 4, 0.69, 0.6, False),
    (0.65, 0.3, 3, 0.68, 0.6, False),
    (0.65, 0.3, 2, 0.68, 0.5, False),
    (0.65, 0.3, 1, 0.65, 1.5, True),
    (0.67, 0.4, 1, 0.65, 1.5, True),
)
_WATER, _MUD = (175, 238, 238), (63, 42, 20)  # RGB, ImageNet-C
_LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)  # ITU-R BT.601


@declare(corruptions, "fog", steps=steps_up_to(10), citation=BOTH, settings=settings_from("amount decay", _FOG))
def fog(image: Floats, step: int, rng: np.random.Generator) -> Floats:
    """Add clouds of plasma fractal, then darken so that the image keeps its maximum."""
    amount, decay = _FOG[step]
    height, width = image.shape[:2]
    clouds = plasma(max(height, width), decay=decay, rng=rng)[:height, :width]
    brightest = float(image.max())
    gain = brightest / (brightest + amount)
    return cv2.addWeighted(image, gain, _match_channels(clouds, image), amount * gain, 0, dst=image)  # type: ignore[return-value]


def plasma(side: int, *, decay: float, rng: np.random.Generator) -> Floats:
    """Return a plasma fractal in [0, 1] that wraps around; its side is the power of two that reaches `side`.

    Diamond-square: each point of a finer grid is the mean of its four neighbours plus a uniform draw. The bounds of the
    draws shrink by the square of `decay` from one grid to the next (ImageNet-C multiplies the bound by itself).
    """
    full = 1 << (side - 1).bit_length()
    field = 2 * rng.random((full, full), dtype=np.float32) - 1  # a draw becomes a height when its grid is reached
    field[0, 0] = 0
    bound, spacing = 1.0, full
    while spacing >= 2:
        half = spacing // 2
        corners, centres = field[::spacing, ::spacing], field[half::spacing, half::spacing]
        across, down = field[::spacing, half::spacing], field[half::spacing, ::spacing]  # middles of the edges
        pairs_across, pairs_down = corners + np.roll(corners, -1, 1), corners + np.roll(corners, -1, 0)
        centres[:] = bound * centres + (pairs_across + np.roll(pairs_across, -1, 0)) / 4
        across[:] = bound * across + (pairs_across + centres + np.roll(centres, 1, 0)) / 4
        down[:] = bound * down + (pairs_down + centres + np.roll(centres, 1, 1)) / 4
        bound, spacing = bound / decay**2, half
    field -= field.min()
    field *= 1 / field.max()
    return field


@declare(
    corruptions,
    "snow",
    steps=steps_up_to(10),
    citation=BOTH,
    settings=settings_from("mean spread zoom threshold radius sigma kept", _SNOW),
    growing_steps=(0, 1, 2, 3, 4, 5, 7, 8),
)
def snow(image: Floats, step: int, rng: np.random.Generator) -> Floats:
    """Whiten the image and add falling flakes.

    With the published constants, severities 7 and 10 have as much snow as 6 and 9, in larger flakes, and are not
    stronger.
    """
    mean, spread, factor, threshold, radius, sigma, weight = _SNOW[step]
    shape = image.shape[:2]
    coarse = rng.standard_normal([int(np.ceil(side / factor)) for side in shape], dtype=np.float32)
    flakes = zoom(coarse * np.float32(spread) + np.float32(mean), factor, shape)
    flakes[flakes < threshold] = 0
    np.minimum(flakes, 1, out=flakes)
    flakes = motion_filter(flakes, radius=radius, sigma=sigma, degrees=rng.uniform(*_SNOW_DEGREES))
    flakes += flakes[::-1, ::-1].copy()
    grey = image if image.ndim == 2 else cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    white = np.maximum(image, _match_channels(np.float32(1.5) * grey + np.float32(0.5), image))  # ImageNet-C
    cv2.addWeighted(image, weight, white, 1 - weight, 0, dst=image)
    return cv2.add(image, _match_channels(flakes, image), dst=image)  # type: ignore[return-value]


def _frost_settings(step: int, textures: FrostTextures | None = None) -> Mapping[str, Any]:
    row = dict(zip(("image", "frost"), _FROST[step], strict=True))
    return {**row, "textures": (textures or procedural_textures()).digest}


@declare(
    corruptions,
    "frost",
    steps=steps_up_to(10),
    citation=BOTH,
    settings=_frost_settings,
    options=frozenset({"textures"}),
)
def frost(image: Floats, step: int, rng: np.random.Generator, *, textures: FrostTextures | None = None) -> Floats:
    """Darken the image and add a random part of a texture of ice. A texture that is too small is enlarged."""
    image_weight, ice_weight = _FROST[step]
    height, width = image.shape[:2]
    pictures = (textures or procedural_textures()).images
    ice = pictures[rng.integers(len(pictures))]
    scale = max(height / ice.shape[0], width / ice.shape[1])
    if scale > 1:
        size = tuple(int(np.ceil(side * scale)) for side in ice.shape[1::-1])
        ice = cv2.resize(ice, size, interpolation=cv2.INTER_LINEAR)  # type: ignore[assignment]
    top = rng.integers(ice.shape[0] - height + 1)
    left = rng.integers(ice.shape[1] - width + 1)
    ice = ice[top : top + height, left : left + width]
    added = ice @ (_LUMA * np.float32(1 / 255)) if image.ndim == 2 else as_floats(ice)
    return cv2.addWeighted(image, image_weight, added, ice_weight, 0, dst=image)  # type: ignore[return-value]


@declare(
    corruptions,
    "spatter",
    steps=steps_up_to(5),
    citation=IMAGENET_C,
    settings=settings_from("mean spread sigma threshold strength mud", _SPATTER),
)
def spatter(image: Floats, step: int, rng: np.random.Generator) -> Floats:
    """Put drops of water (severities 1-3) or of mud (4-5) on the lens."""
    mean, spread, sigma, threshold, strength, mud = _SPATTER[step]
    field = rng.standard_normal(image.shape[:2], dtype=np.float32)
    liquid = smooth(field, sigma) * np.float32(spread) + np.float32(mean)
    cover = _mud_cover(liquid, threshold, strength) if mud else _water_cover(liquid, threshold, strength)
    colour = np.array(_MUD if mud else _WATER, dtype=np.float32) / np.float32(255)
    if mud:
        cv2.multiply(image, _match_channels(1 - cover, image), dst=image)
    tint = cover * (colour @ _LUMA) if image.ndim == 2 else cv2.merge([cover * value for value in colour])
    return cv2.add(image, tint, dst=image)  # type: ignore[return-value]


def _match_channels(field: Floats, image: Floats) -> Floats:
    """Repeat the field for every channel of the image."""
    return field if image.ndim == 2 else cv2.merge([field] * 3)  # type: ignore[return-value]


def _mud_cover(liquid: Floats, threshold: float, sigma: float) -> Floats:
    """Return how far mud hides each pixel; below .8 it hides nothing (ImageNet-C)."""
    cover = smooth((liquid > threshold).astype(np.float32), sigma)
    cover[cover < 0.8] = 0
    return cover


def _water_cover(liquid: Floats, threshold: float, strength: float) -> Floats:
    """Return how bright the water is at each pixel: drops shaded by an emboss of the distance to their edges.

    Thresholds, depth and emboss are ImageNet-C's.
    """
    drops = np.where(liquid < threshold, 0, liquid)
    edges = cv2.Canny((np.clip(drops, 0, 1) * 255).astype(np.uint8), 50, 150)
    depth = np.minimum(cv2.distanceTransform(255 - edges, cv2.DIST_L2, 5), 20)
    even = cv2.equalizeHist(cv2.blur(depth, (3, 3)).astype(np.uint8))
    emboss = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]], dtype=np.float32)
    shade = cv2.blur(cv2.filter2D(even, cv2.CV_8U, emboss), (3, 3)).astype(np.float32)
    shade *= drops
    peak = float(shade.max())
    return shade * np.float32(strength / peak) if peak else shade

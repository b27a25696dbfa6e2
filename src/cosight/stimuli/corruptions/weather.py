"""Weather: fog, snow, frost, and spatter of rain or mud."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cv2
import numpy as np
from numba import njit

from cosight.stimuli.corruptions.draws import normals, uniforms
from cosight.stimuli.corruptions.filters import add_zoomed, along_line, blurred, zoom_places
from cosight.stimuli.corruptions.frost import FrostTextures, procedural_textures
from cosight.stimuli.corruptions.severities import IMAGENET_C, VISALIGN, corruptions, settings_from
from cosight.stimuli.images import Bytes, Floats, as_floats
from cosight.stimuli.kinds import declare, steps_up_to

__all__ = ["fog", "frost", "plasma", "snow", "spatter"]

# Severity 1..5 of ImageNet-C, 6..10 of VisAlign (Lee et al. 2023); lengths in pixels whatever the image's size.
_FOG = (  # amount, decay
    (1.5, 2), (2, 2), (2.5, 1.7), (2.5, 1.5), (3, 1.4), (3.3, 1.4), (3.6, 1.2), (4, 1.2), (5, 1.1), (6, 1.0),
)  # fmt: skip
_FROST = (  # weight of the image, weight of the frost
    (1, 0.4), (0.8, 0.6), (0.7, 0.7), (0.65, 0.7), (0.6, 0.75),
    (0.5, 0.8), (0.4, 0.85), (0.3, 0.9), (0.2, 0.95), (0.1, 1.0),
)  # fmt: skip
_SNOW = (  # mean, spread, zoom and threshold of the flakes' field, radius and sigma of the fall, share of image kept
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
_SNOW_DEGREES = (45, 135)  # the fall is within 45 degrees of the vertical
_SPATTER = (  # mean and spread of the liquid's field, its blur, threshold, strength (blur of mud), mud or water
    (0.65, 0.3, 4, 0.69, 0.6, False),
    (0.65, 0.3, 3, 0.68, 0.6, False),
    (0.65, 0.3, 2, 0.68, 0.5, False),
    (0.65, 0.3, 1, 0.65, 1.5, True),
    (0.67, 0.4, 1, 0.65, 1.5, True),
)
_WATER, _MUD = (175, 238, 238), (63, 42, 20)  # RGB, ImageNet-C
_LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)  # ITU-R BT.601
_BOTH = f"{IMAGENET_C}; {VISALIGN}"


@declare(corruptions, "fog", steps=steps_up_to(10), citation=_BOTH, settings=settings_from("amount decay", _FOG))
def fog(image: Floats, step: int, rng: np.random.Generator) -> Floats:
    """Clouds of plasma fractal, added and then darkened so that the image keeps its maximum."""
    amount, decay = _FOG[step]
    height, width = image.shape[:2]
    clouds = plasma(max(height, width), decay=decay, rng=rng)[:height, :width]
    brightest = float(image.max())
    gain = brightest / (brightest + amount)
    return cv2.addWeighted(image, gain, _spread(clouds, image), amount * gain, 0, dst=image)  # type: ignore[return-value]


def plasma(side: int, *, decay: float, rng: np.random.Generator) -> Floats:
    """A plasma fractal in [0, 1] that wraps around; its side is the power of two that reaches `side`.

    Diamond-square: each finer grid is the mean of four neighbours plus a uniform draw, and the bounds of the draws
    shrink by the square of `decay` from a grid to the next (ImageNet-C: the draw's bound is multiplied by itself).
    """
    full = 1 << (side - 1).bit_length()
    draws = uniforms(rng, (full, full), low=-1)
    _grown(draws, decay)
    draws -= draws.min()
    draws *= 1 / draws.max()
    return draws


@njit(cache=True)
def _grown(field, decay):  # type: ignore[no-untyped-def]
    """Turn uniform draws in [-1, 1) into the fractal, in place: a draw becomes a height when its grid's turn comes."""
    full = len(field)
    field[0, 0] = 0
    bound = np.float32(1)
    step = full
    while step >= 2:
        half = step // 2
        _diamonds(field, step, half, bound)
        _squares(field, step, half, bound)
        step = half
        bound = np.float32(bound / (decay * decay))


@njit(cache=True)
def _diamonds(field, step, half, bound):  # type: ignore[no-untyped-def]
    full = len(field)
    quarter = np.float32(0.25)
    for y in range(0, full, step):
        below = (y + step) % full
        for x in range(0, full, step):
            right = (x + step) % full
            around = field[y, x] + field[y, right] + field[below, x] + field[below, right]
            field[y + half, x + half] = bound * field[y + half, x + half] + quarter * around


@njit(cache=True)
def _squares(field, step, half, bound):  # type: ignore[no-untyped-def]
    full = len(field)
    quarter = np.float32(0.25)
    for y in range(0, full, step):
        above, below = (y - half) % full, y + half
        for x in range(0, full, step):
            before, after, right = (x - half) % full, x + half, (x + step) % full
            around = field[y, x] + field[y, right] + field[above, after] + field[below, after]
            field[y, after] = bound * field[y, after] + quarter * around
    for y in range(0, full, step):
        middle, below = y + half, (y + step) % full
        for x in range(0, full, step):
            before, after = (x - half) % full, x + half
            around = field[y, x] + field[below, x] + field[middle, before] + field[middle, after]
            field[middle, x] = bound * field[middle, x] + quarter * around


@declare(
    corruptions,
    "snow",
    steps=steps_up_to(10),
    citation=_BOTH,
    settings=settings_from("mean spread zoom threshold radius sigma kept", _SNOW),
    grows=(0, 1, 2, 3, 4, 5, 7, 8),
)
def snow(image: Floats, step: int, rng: np.random.Generator) -> Floats:
    """Falling flakes over a whitened image.

    By the published constants severities 7 and 10 have as much snow as 6 and 9, in larger flakes: they change no more.
    """
    *_, kept = _SNOW[step]
    flakes = _flakes(image.shape[:2], step, rng)
    flakes += flakes[::-1, ::-1].copy()
    grey = image if image.ndim == 2 else cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    _snowed(image.reshape(*grey.shape, -1), grey.copy(), flakes, np.float32(kept))
    return image


def _flakes(shape: tuple[int, ...], step: int, rng: np.random.Generator) -> Floats:
    """Peaks of a coarse random field, drawn out along the fall."""
    mean, spread, zoom, threshold, radius, sigma, _ = _SNOW[step]
    (height, rows), (width, columns) = (zoom_places(side, zoom) for side in shape)
    field = normals(rng, (height, width))  # only the part that is enlarged
    field *= spread
    field += mean
    flakes = np.zeros(shape, dtype=np.float32)
    add_zoomed(flakes, field, rows, columns)
    flakes[flakes < threshold] = 0
    np.minimum(flakes, 1, out=flakes)
    return along_line(flakes, radius=radius, sigma=sigma, degrees=rng.uniform(*_SNOW_DEGREES))


@njit(cache=True)
def _snowed(image, grey, flakes, kept):  # type: ignore[no-untyped-def]
    height, width, channels = image.shape
    for y in range(height):
        for x in range(width):
            white = np.float32(1.5) * grey[y, x] + np.float32(0.5)  # ImageNet-C
            for c in range(channels):
                value = image[y, x, c]
                image[y, x, c] = kept * value + (np.float32(1) - kept) * max(value, white) + flakes[y, x]


def _frost_settings(step: int, textures: FrostTextures | None = None) -> Mapping[str, Any]:
    row = dict(zip(("image", "frost"), _FROST[step], strict=True))
    return {**row, "textures": (textures or procedural_textures()).digest}


@declare(
    corruptions,
    "frost",
    steps=steps_up_to(10),
    citation=_BOTH,
    settings=_frost_settings,
    options=frozenset({"textures"}),
)
def frost(image: Floats, step: int, rng: np.random.Generator, *, textures: FrostTextures | None = None) -> Floats:
    """Ice on a window: a random part of a texture, added to the darkened image."""
    kept, laid = _FROST[step]
    ice = _part((textures or procedural_textures()).images, image.shape[:2], rng)
    added = ice @ (_LUMA * np.float32(1 / 255)) if image.ndim == 2 else as_floats(ice)
    return cv2.addWeighted(image, kept, added, laid, 0, dst=image)  # type: ignore[return-value]


def _part(images: tuple[Bytes, ...], shape: tuple[int, ...], rng: np.random.Generator) -> Bytes:
    """A random window of a random texture, which is enlarged where it is too small."""
    ice = images[rng.integers(len(images))]
    scale = max(shape[0] / ice.shape[0], shape[1] / ice.shape[1])
    if scale > 1:
        size = tuple(int(np.ceil(side * scale)) for side in ice.shape[1::-1])
        ice = cv2.resize(ice, size, interpolation=cv2.INTER_LINEAR)  # type: ignore[assignment]
    top = rng.integers(ice.shape[0] - shape[0] + 1)
    left = rng.integers(ice.shape[1] - shape[1] + 1)
    return ice[top : top + shape[0], left : left + shape[1]]


@declare(
    corruptions,
    "spatter",
    steps=steps_up_to(5),
    citation=IMAGENET_C,
    settings=settings_from("mean spread sigma threshold strength mud", _SPATTER),
)
def spatter(image: Floats, step: int, rng: np.random.Generator) -> Floats:
    """Drops of water (severities 1-3) or of mud (4-5) on the lens."""
    mean, spread, sigma, threshold, strength, mud = _SPATTER[step]
    field = normals(rng, image.shape[:2])
    liquid = blurred(field, sigma) * np.float32(spread) + np.float32(mean)
    cover = _mud_cover(liquid, threshold, strength) if mud else _water_cover(liquid, threshold, strength)
    colour = np.array(_MUD if mud else _WATER, dtype=np.float32) / np.float32(255)
    if mud:
        cv2.multiply(image, _spread(1 - cover, image), dst=image)
    tint = cover * (colour @ _LUMA) if image.ndim == 2 else cv2.merge([cover * share for share in colour])
    return cv2.add(image, tint, dst=image)  # type: ignore[return-value]


def _spread(field: Floats, image: Floats) -> Floats:
    """The field for every channel of the image."""
    return field if image.ndim == 2 else cv2.merge([field] * 3)  # type: ignore[return-value]


def _mud_cover(liquid: Floats, threshold: float, sigma: float) -> Floats:
    """How far mud hides each pixel: nothing below .8 (ImageNet-C)."""
    cover = blurred((liquid > threshold).astype(np.float32), sigma)
    cover[cover < 0.8] = 0
    return cover


def _water_cover(liquid: Floats, threshold: float, strength: float) -> Floats:
    """How bright the water is at each pixel: drops shaded by an emboss of the distance to their rims.

    Thresholds, depth and emboss are ImageNet-C's.
    """
    drops = np.where(liquid < threshold, 0, liquid)
    rims = cv2.Canny((np.clip(drops, 0, 1) * 255).astype(np.uint8), 50, 150)
    depth = np.minimum(cv2.distanceTransform(255 - rims, cv2.DIST_L2, 5), 20)
    even = cv2.equalizeHist(cv2.blur(depth, (3, 3)).astype(np.uint8))
    emboss = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]], dtype=np.float32)
    shade = cv2.blur(cv2.filter2D(even, cv2.CV_8U, emboss), (3, 3)).astype(np.float32)
    shade *= drops
    peak = float(shade.max())
    return shade * np.float32(strength / peak) if peak else shade

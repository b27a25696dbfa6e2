"""What cameras, codecs and geometry do: contrast, brightness, saturation, JPEG, pixelation, elastic warps, cropping."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, get_args

import cv2
import numpy as np
from numba import njit
from numpy.typing import NDArray

from cosight.errors import InvalidInput
from cosight.stimuli.corruptions.draws import uniforms
from cosight.stimuli.corruptions.filters import blurred, rows_of
from cosight.stimuli.corruptions.severities import IMAGENET_C, VISALIGN, Variant, corruptions, settings_from
from cosight.stimuli.images import Bytes, Floats
from cosight.stimuli.kinds import declare, steps_up_to

__all__ = [
    "CropRegion",
    "brightness",
    "contrast",
    "cropping",
    "elastic_transform",
    "jpeg_compression",
    "pixelate",
    "saturate",
]

CropRegion = Literal["centre", "random"]

# Severity 1..5 of ImageNet-C, 6..10 of VisAlign (Lee et al. 2023).
_CONTRAST = (0.4, 0.3, 0.2, 0.1, 0.05, 0.045, 0.04, 0.035, 0.03, 0.025)
_BRIGHTNESS_FACTOR = (1.5, 2, 3, 4, 5, 6, 7, 8, 9, 10)  # VisAlign, all ten
_BRIGHTNESS_ADDED = (0.1, 0.2, 0.3, 0.4, 0.5)  # ImageNet-C, to the value of HSV
_SATURATE = ((0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (20, 0.2))  # factor, added
_JPEG_QUALITY = (25, 18, 15, 10, 7, 5, 4, 3, 2, 1)
_PIXELATE = (0.6, 0.5, 0.4, 0.3, 0.25, 0.2, 0.15, 0.1, 0.08, 0.05)
_ELASTIC = tuple(  # alpha, sigma, affine in pixels; 244 is ImageNet-C's own slip for 224
    (244 * alpha, 244 * sigma, 244 * affine)
    for alpha, sigma, affine in (
        (2, 0.7, 0.1), (2, 0.08, 0.2), (0.05, 0.01, 0.02), (0.07, 0.01, 0.02), (0.12, 0.01, 0.02),
        (0.07, 0.005, 0.02), (0.05, 0.003, 0.02), (0.12, 0.003, 0.02), (0.15, 0.003, 0.02), (0.15, 0.001, 0.02),
    )
)  # fmt: skip
_CROP_OF = 335  # Lee et al. 2023 enlarge to 335 pixels, cut out so many, and resize to 256
_CROP = (300, 250, 200, 150, 100, 50, 40, 30, 20, 10)
_BOTH = f"{IMAGENET_C}; {VISALIGN}"


@declare(
    corruptions,
    "contrast",
    steps=steps_up_to(10),
    citation=_BOTH,
    settings=settings_from("factor", _CONTRAST),
    random=False,
)
def contrast(image: Floats, step: int, rng: np.random.Generator | None) -> Floats:
    """Draw every value towards its channel's mean."""
    factor = _CONTRAST[step]
    shift = tuple(mean * (1 - factor) for mean in cv2.mean(image))
    image *= np.float32(factor)
    return cv2.add(image, shift, dst=image)  # type: ignore[call-overload, no-any-return]


def _brightness_settings(step: int, variant: Variant = "visalign") -> Mapping[str, Any]:
    if variant == "visalign":
        return {"factor": _BRIGHTNESS_FACTOR[step]}
    if step >= len(_BRIGHTNESS_ADDED):
        raise InvalidInput(f"ImageNet-C's brightness has severities 1 to 5, got {step + 1}; variant visalign has 10")
    return {"added": _BRIGHTNESS_ADDED[step]}


@declare(
    corruptions,
    "brightness",
    steps=steps_up_to(10),
    citation=_BOTH,
    settings=_brightness_settings,
    options=frozenset({"variant"}),
    random=False,
)
def brightness(image: Floats, step: int, rng: np.random.Generator | None, *, variant: Variant = "visalign") -> Floats:
    """Multiply every value (VisAlign), or add to the value of HSV (ImageNet-C)."""
    settings = _brightness_settings(step, variant)
    if "factor" in settings:
        image *= np.float32(settings["factor"])
    else:
        _lightened(image.reshape(*image.shape[:2], -1), np.float32(settings["added"]))
    return image


@njit(cache=True)
def _lightened(image, added):  # type: ignore[no-untyped-def]
    """Hue and saturation stay as they are when the channels are multiplied alike; black has none and becomes grey."""
    height, width, channels = image.shape
    for y in range(height):
        for x in range(width):
            value = image[y, x, 0]
            for c in range(1, channels):
                value = max(value, image[y, x, c])
            target = min(value + added, np.float32(1))
            for c in range(channels):
                image[y, x, c] = image[y, x, c] * (target / value) if value > 0 else target


@declare(
    corruptions,
    "saturate",
    steps=steps_up_to(5),
    citation=IMAGENET_C,
    settings=settings_from("factor added", _SATURATE),
    random=False,
    grows=(2, 3, 4),
)
def saturate(image: Floats, step: int, rng: np.random.Generator | None) -> Floats:
    """Change the saturation of HSV: less of it at severities 1 and 2, more at 3 to 5.

    Adding saturation to a grey pixel of a colour image makes it red, the hue 0 that such a pixel is said to have. A
    grey image has no saturation and stays as it is.
    """
    factor, added = _SATURATE[step]
    if image.ndim == 3:
        _saturated(image, np.float32(factor), np.float32(added))
    return image


@njit(cache=True)
def _saturated(image, factor, added):  # type: ignore[no-untyped-def]
    """With hue and value fixed, a channel's distance from the largest is in proportion to saturation."""
    height, width, _ = image.shape
    one = np.float32(1)
    for y in range(height):
        for x in range(width):
            r, g, b = image[y, x]
            value = max(r, g, b)
            spread = value - min(r, g, b)
            if spread > 0:
                saturation = spread / value
                ratio = min(saturation * factor + added, one) / saturation
                image[y, x, 0] = value - (value - r) * ratio
                image[y, x, 1] = value - (value - g) * ratio
                image[y, x, 2] = value - (value - b) * ratio
            else:
                image[y, x, 1] = image[y, x, 2] = value * (one - min(added, one))


@declare(
    corruptions,
    "jpeg_compression",
    steps=steps_up_to(10),
    citation=_BOTH,
    settings=settings_from("quality", _JPEG_QUALITY),
    random=False,
    eight_bit=True,
)
def jpeg_compression(image: Bytes, step: int, rng: np.random.Generator | None) -> Bytes:
    """Write as JPEG of low quality, halved colour resolution, and read again."""
    quality = [cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY[step]]
    if image.ndim == 2:
        return cv2.imdecode(cv2.imencode(".jpg", image, quality)[1], cv2.IMREAD_GRAYSCALE)  # type: ignore[return-value]
    data = cv2.imencode(".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), quality)[1]
    return cv2.imdecode(data, cv2.IMREAD_COLOR_RGB)  # type: ignore[return-value]


@declare(
    corruptions,
    "pixelate",
    steps=steps_up_to(10),
    citation=_BOTH,
    settings=settings_from("factor", _PIXELATE),
    random=False,
    eight_bit=True,
)
def pixelate(image: Bytes, step: int, rng: np.random.Generator | None) -> Bytes:
    """Shrink by averaging and enlarge again without smoothing."""
    height, width = image.shape[:2]
    channels = image.size // (height * width)
    down, across = _boxes(height, int(height * _PIXELATE[step])), _boxes(width, int(width * _PIXELATE[step]))
    small = _averaged(rows_of(image), down, across, channels).reshape(len(down) - 1, len(across) - 1, *image.shape[2:])
    return cv2.resize(small, (width, height), interpolation=cv2.INTER_NEAREST_EXACT)  # type: ignore[no-any-return]


@lru_cache(maxsize=64)
def _boxes(length: int, parts: int) -> NDArray[np.int64]:
    """Where each of `parts` runs of whole pixels begins, and where the last ends: a pixel goes where its middle is."""
    return (2 * np.arange(parts + 1) * length + parts) // (2 * parts)  # a middle right on the edge: the earlier box


@njit(cache=True)
def _averaged(rows, down, across, channels):  # type: ignore[no-untyped-def]
    """Mean of each box, rounded to the nearest byte."""
    out = np.empty((len(down) - 1, (len(across) - 1) * channels), np.uint8)
    sums = np.empty(rows.shape[1], np.int32)
    for i in range(len(down) - 1):
        sums[:] = rows[down[i]]
        for y in range(down[i] + 1, down[i + 1]):
            row = rows[y]
            for x in range(sums.size):
                sums[x] += row[x]
        for j in range(len(across) - 1):
            scale = np.float32(1) / np.float32((down[i + 1] - down[i]) * (across[j + 1] - across[j]))
            for c in range(channels):
                total = 0
                for x in range(across[j] * channels + c, across[j + 1] * channels + c, channels):
                    total += sums[x]
                out[i, j * channels + c] = int(np.float32(total) * scale + np.float32(0.5))
    return out


@declare(
    corruptions,
    "elastic_transform",
    steps=steps_up_to(10),
    citation=_BOTH,
    settings=settings_from("alpha sigma affine", _ELASTIC),
    grows=tuple(range(2, 10)),
)
def elastic_transform(image: Floats, step: int, rng: np.random.Generator) -> Floats:
    """A random affine map, then a smooth random displacement of every pixel.

    The published constants are not in the order of strength: severities 1 and 2 shear the whole image, by up to 24 and
    49 pixels, and change it more than 3 to 7 do; from 3 on, which ripple it ever more finely, strength grows.
    """
    alpha, sigma, affine = _ELASTIC[step]
    height, width = image.shape[:2]
    warped = cv2.warpAffine(
        image, _jittered(height, width, affine, rng), (width, height), borderMode=cv2.BORDER_REFLECT_101
    )
    x, y = (_smooth_field(height, width, sigma, rng) * np.float32(alpha) for _ in range(2))
    x += np.arange(width, dtype=np.float32)
    y += np.arange(height, dtype=np.float32)[:, None]
    return cv2.remap(warped, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT)  # type: ignore[return-value]


def _jittered(height: int, width: int, affine: float, rng: np.random.Generator) -> Any:
    """The affine map that moves three corners of the middle square by up to `affine` pixels each way."""
    reach = min(height, width) // 3
    corners = np.array([[reach, reach], [reach, -reach], [-reach, -reach]])
    before = (corners + np.array([width // 2, height // 2])).astype(np.float32)
    after = before + rng.uniform(-affine, affine, before.shape).astype(np.float32)
    return cv2.getAffineTransform(before, after)


def _smooth_field(height: int, width: int, sigma: float, rng: np.random.Generator) -> Floats:
    """Uniform draws in [-1, 1), blurred with reflected edges."""
    field = uniforms(rng, (height, width), low=-1)
    if sigma < _WIDE:
        return blurred(field, sigma, truncate=3, border=cv2.BORDER_REFLECT)
    down, across = _waves(height, sigma), _waves(width, sigma)
    return down.T @ (down @ field @ across.T) @ across  # type: ignore[return-value]


_WIDE = 8  # pixels; above, the few cosine waves that survive are cheaper than the kernel


@lru_cache(maxsize=16)
def _waves(length: int, sigma: float) -> Floats:
    """Rows w with w.T @ w = a Gaussian blur of this sigma with reflected edges.

    Reflection makes the cosines of the DCT-II the eigenvectors of any symmetric blur, and a Gaussian's eigenvalues
    exp(-(pi k sigma / length)^2 / 2) are soon too small to matter.
    """
    waves = np.arange(length)
    gain = np.exp(-((np.pi * waves * sigma / length) ** 2) / 2)
    waves, gain = waves[gain > 1e-6], gain[gain > 1e-6]
    rows = np.cos(np.pi * waves[:, None] * (np.arange(length) + 0.5) / length) * np.sqrt(2 / length)
    rows[0] *= np.sqrt(0.5)
    return (rows * np.sqrt(gain)[:, None]).astype(np.float32)  # type: ignore[no-any-return]


def _crop_settings(step: int, region: CropRegion = "centre") -> Mapping[str, Any]:
    if region not in get_args(CropRegion):
        raise InvalidInput(f"region must be centre or random, got {region}")
    return {"share": _CROP[step] / _CROP_OF, "region": region}


@declare(
    corruptions,
    "cropping",
    steps=steps_up_to(10),
    citation=VISALIGN,
    settings=_crop_settings,
    options=frozenset({"region"}),
    steady={"region": "centre"},
)
def cropping(image: Floats, step: int, rng: np.random.Generator | None, *, region: CropRegion = "centre") -> Floats:
    """Cut out a part of the image and enlarge it to the whole.

    The part has n / 335 of each side. On a 256 x 256 image that is the published recipe (enlarge to 335, cut out n,
    resize to 256) but for its first interpolation.
    """
    share = _crop_settings(step, region)["share"]
    height, width = image.shape[:2]
    part = (height * share, width * share)
    places = (0.5, 0.5) if region == "centre" or rng is None else rng.random(2)
    top, left = ((side - cut) * place for side, cut, place in zip((height, width), part, places, strict=True))
    grid = np.array([[share, 0, left + (share - 1) / 2], [0, share, top + (share - 1) / 2]])
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    return cv2.warpAffine(image, grid, (width, height), flags=flags, borderMode=cv2.BORDER_REPLICATE)  # type: ignore[return-value]

"""Changes by cameras, codecs and geometry: contrast, brightness, saturation, JPEG, pixelation, warps, cropping."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import cv2
import numpy as np
import scipy.fft

from cosight.errors import InvalidInput
from cosight.stimuli.blocks import block_means
from cosight.stimuli.corruptions.blur import smooth
from cosight.stimuli.corruptions.severities import BOTH, IMAGENET_C, VISALIGN, Variant, corruptions
from cosight.stimuli.images import Bytes, Floats, to_rgb
from cosight.stimuli.kinds import declare, settings_from, steps_up_to

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
_ELASTIC = tuple(  # alpha, sigma, affine in pixels; 244 is ImageNet-C's own error for 224
    (244 * alpha, 244 * sigma, 244 * affine)
    for alpha, sigma, affine in (
        (2, 0.7, 0.1), (2, 0.08, 0.2), (0.05, 0.01, 0.02), (0.07, 0.01, 0.02), (0.12, 0.01, 0.02),
        (0.07, 0.005, 0.02), (0.05, 0.003, 0.02), (0.12, 0.003, 0.02), (0.15, 0.003, 0.02), (0.15, 0.001, 0.02),
    )
)  # fmt: skip
_CROP_OF = 335  # Lee et al. 2023 enlarge to 335 pixels, cut out this many, and resize to 256
_CROP = (300, 250, 200, 150, 100, 50, 40, 30, 20, 10)
_MAX_KERNEL_SIGMA = 8  # pixels; wider Gaussians are applied in the frequency domain


@declare(
    corruptions,
    "contrast",
    steps=steps_up_to(10),
    citation=BOTH,
    settings=settings_from("factor", _CONTRAST),
    random=False,
)
def contrast(image: Floats, step: int, rng: np.random.Generator | None) -> Floats:
    """Move every value towards the mean of its channel."""
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
    citation=BOTH,
    settings=_brightness_settings,
    options=frozenset({"variant"}),
    random=False,
)
def brightness(image: Floats, step: int, rng: np.random.Generator | None, *, variant: Variant = "visalign") -> Floats:
    """Multiply every value (VisAlign), or add to the value of HSV (ImageNet-C)."""
    settings = _brightness_settings(step, variant)
    if "factor" in settings:
        image *= np.float32(settings["factor"])
        return image
    added = np.float32(settings["added"])
    if image.ndim == 2:
        image += added
        return image
    hsv = cv2.cvtColor(image, cv2.COLOR_RGB2HSV)
    hsv[:, :, 2] = np.minimum(hsv[:, :, 2] + added, 1)
    return cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB)  # type: ignore[return-value]


@declare(
    corruptions,
    "saturate",
    steps=steps_up_to(5),
    citation=IMAGENET_C,
    settings=settings_from("factor added", _SATURATE),
    random=False,
    growing_steps=(2, 3, 4),
)
def saturate(image: Floats, step: int, rng: np.random.Generator | None) -> Floats:
    """Change the saturation of HSV: less of it at severities 1 and 2, more at 3 to 5.

    A grey pixel of a colour image has hue 0, so added saturation makes it red. A grey image has no saturation and stays
    as it is.
    """
    factor, added = _SATURATE[step]
    if image.ndim == 2:
        return image
    hsv = cv2.cvtColor(image, cv2.COLOR_RGB2HSV)
    hsv[:, :, 1] = np.minimum(hsv[:, :, 1] * np.float32(factor) + np.float32(added), 1)
    return cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB)  # type: ignore[return-value]


@declare(
    corruptions,
    "jpeg_compression",
    steps=steps_up_to(10),
    citation=BOTH,
    settings=settings_from("quality", _JPEG_QUALITY),
    random=False,
    eight_bit=True,
)
def jpeg_compression(image: Bytes, step: int, rng: np.random.Generator | None) -> Bytes:
    """Encode as JPEG of low quality with halved colour resolution, and decode again."""
    quality = [cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY[step]]
    if image.ndim == 2:
        return cv2.imdecode(cv2.imencode(".jpg", image, quality)[1], cv2.IMREAD_GRAYSCALE)  # type: ignore[return-value]
    data = cv2.imencode(".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), quality)[1]
    return cv2.imdecode(data, cv2.IMREAD_COLOR_RGB)  # type: ignore[return-value]


@declare(
    corruptions,
    "pixelate",
    steps=steps_up_to(10),
    citation=BOTH,
    settings=settings_from("factor", _PIXELATE),
    random=False,
    eight_bit=True,
)
def pixelate(image: Bytes, step: int, rng: np.random.Generator | None) -> Bytes:
    """Shrink by averaging and enlarge again without smoothing.

    Boxes consist of whole pixels: a pixel belongs to the box that contains its centre, as with Pillow's box filter.
    """
    edges = []
    for length in image.shape[:2]:
        boxes = int(length * _PIXELATE[step])
        edges.append((2 * np.arange(boxes + 1) * length + boxes) // (2 * boxes))  # a centre on an edge: the earlier box
    rows, columns = edges
    means = block_means(to_rgb(image), rows[:-1], rows[1:], columns[:-1], columns[1:])
    means += 0.5
    small = means.astype(np.uint8)
    large = cv2.resize(small, image.shape[1::-1], interpolation=cv2.INTER_NEAREST_EXACT)
    return large if image.ndim == 3 else large[:, :, 0]  # type: ignore[no-any-return]


@declare(
    corruptions,
    "elastic_transform",
    steps=steps_up_to(10),
    citation=BOTH,
    settings=settings_from("alpha sigma affine", _ELASTIC),
    growing_steps=tuple(range(2, 10)),
)
def elastic_transform(image: Floats, step: int, rng: np.random.Generator) -> Floats:
    """Apply a random affine map, then a smooth random displacement of every pixel.

    The affine map moves three corners of the middle square by up to `affine` pixels along each axis. The published
    constants are not in the order of strength: severities 1 and 2 shear the whole image, by up to 24 and 49 pixels, and
    change it more than 3 to 7 do; from 3 on, which displace ever more finely, strength grows.
    """
    alpha, sigma, affine = _ELASTIC[step]
    height, width = image.shape[:2]
    reach = min(height, width) // 3
    corners = np.array([[reach, reach], [reach, -reach], [-reach, -reach]])
    before = (corners + np.array([width // 2, height // 2])).astype(np.float32)
    after = before + rng.uniform(-affine, affine, before.shape).astype(np.float32)
    matrix = cv2.getAffineTransform(before, after)
    warped = cv2.warpAffine(image, matrix, (width, height), borderMode=cv2.BORDER_REFLECT_101)
    x, y = (_smooth_noise(height, width, sigma, rng) * np.float32(alpha) for _ in range(2))
    x += np.arange(width, dtype=np.float32)
    y += np.arange(height, dtype=np.float32)[:, None]
    return cv2.remap(warped, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT)  # type: ignore[return-value]


def _smooth_noise(height: int, width: int, sigma: float, rng: np.random.Generator) -> Floats:
    """Draw uniform noise in [-1, 1) and apply a Gaussian filter with reflected edges.

    Reflection makes the cosines of the DCT-II the eigenvectors of any symmetric filter; a Gaussian's eigenvalues are
    exp(-(pi k sigma / length)^2 / 2).
    """
    noise = 2 * rng.random((height, width), dtype=np.float32) - 1
    if sigma <= _MAX_KERNEL_SIGMA:
        return smooth(noise, sigma, truncate=3, border=cv2.BORDER_REFLECT)
    down, across = (
        np.exp(-((np.pi * np.arange(length) * sigma / length) ** 2) / 2).astype(np.float32) for length in noise.shape
    )
    return scipy.fft.idctn(scipy.fft.dctn(noise) * down[:, None] * across)


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
    deterministic_when={"region": "centre"},
)
def cropping(image: Floats, step: int, rng: np.random.Generator | None, *, region: CropRegion = "centre") -> Floats:
    """Cut out a part of the image and enlarge it to the full size.

    The part has n / 335 of each side. On a 256 x 256 image that is the published procedure (enlarge to 335, cut out n,
    resize to 256) without its first interpolation.
    """
    scale = _crop_settings(step, region)["share"]
    height, width = image.shape[:2]
    y, x = (0.5, 0.5) if region == "centre" or rng is None else rng.random(2)
    top, left = (height - height * scale) * y, (width - width * scale) * x
    matrix = np.array([[scale, 0, left + (scale - 1) / 2], [0, scale, top + (scale - 1) / 2]])
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    return cv2.warpAffine(image, matrix, (width, height), flags=flags, borderMode=cv2.BORDER_REPLICATE)  # type: ignore[return-value]

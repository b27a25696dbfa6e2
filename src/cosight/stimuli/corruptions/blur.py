"""Blurs (glass, defocus, motion, zoom, Gaussian) and the filters that other corruptions share with them.

Images are float32, (height, width, 3) or (height, width).
"""

from __future__ import annotations

from functools import lru_cache

import cv2
import numpy as np

from cosight.stimuli.compiled import compiled
from cosight.stimuli.corruptions.severities import BOTH, IMAGENET_C, corruptions
from cosight.stimuli.images import Floats
from cosight.stimuli.kinds import declare, settings_from, steps_up_to

__all__ = [
    "defocus_blur",
    "disk_kernel",
    "gaussian_blur",
    "glass_blur",
    "motion_blur",
    "motion_filter",
    "smooth",
    "zoom",
    "zoom_blur",
]

# Severity 1..5 of ImageNet-C, 6..10 of VisAlign (Lee et al. 2023); lengths in pixels for every image size.
_GLASS = (  # sigma, delta, iterations
    (0.7, 1, 2), (0.9, 2, 1), (1.0, 2, 3), (1.1, 3, 2), (1.5, 4, 2),
    (1.7, 5, 2), (2.0, 6, 2), (2.6, 10, 2), (5.4, 15, 2), (7.0, 30, 2),
)  # fmt: skip
_DEFOCUS = (  # radius, alias
    (3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5), (15, 0.5), (20, 0.5), (30, 0.5), (40, 0.5), (50, 0.5),
)  # fmt: skip
_MOTION = (  # radius, sigma
    (10, 3), (15, 5), (15, 8), (15, 12), (20, 15), (23, 18), (25, 22), (30, 30), (40, 40), (50, 55),
)  # fmt: skip
_MOTION_DEGREES = 45  # the angle is uniform between minus and plus this
_ZOOM = (  # stop, step; factors start at 1
    (1.11, 0.01), (1.16, 0.01), (1.21, 0.02), (1.26, 0.02), (1.31, 0.03),
    (1.36, 0.03), (1.41, 0.04), (1.86, 0.04), (2.00, 0.05), (3.00, 0.05),
)  # fmt: skip
_GAUSSIAN_SIGMA = (1, 2, 3, 4, 6)


def smooth(image: Floats, sigma: float, *, truncate: float = 4, border: int = cv2.BORDER_REPLICATE) -> Floats:
    """Apply a Gaussian filter whose kernel ends at `truncate` sigmas, as SciPy's does."""
    side = 2 * int(truncate * sigma + 0.5) + 1
    return cv2.GaussianBlur(image, (side, side), sigma, borderType=border)  # type: ignore[return-value]


def motion_filter(image: Floats, *, radius: int, sigma: float, degrees: float) -> Floats:
    """Blur to one side along a line: half a Gaussian of 2 radius + 1 taps, edges replicated.

    Radius and sigma have the meaning of ImageMagick's motion blur (which ImageNet-C calls); taps are whole pixels.
    """
    steps = np.arange(2 * radius + 1)
    weights = np.exp(-(steps**2) / (2 * sigma**2))
    steps, weights = steps[weights > weights.sum() * 1e-5], weights[weights > weights.sum() * 1e-5]
    across = np.ceil(steps * np.cos(np.radians(degrees)) - 0.5).astype(np.int64)
    down = np.ceil(steps * np.sin(np.radians(degrees)) - 0.5).astype(np.int64)
    kernel = np.zeros((np.ptp(down) + 1, np.ptp(across) + 1), np.float32)
    np.add.at(kernel, (down - down.min(), across - across.min()), weights / weights.sum())
    anchor = (int(-across.min()), int(-down.min()))  # the pixel itself, step 0
    return cv2.filter2D(image, cv2.CV_32F, kernel, anchor=anchor, borderType=cv2.BORDER_REPLICATE)  # type: ignore[return-value]


def zoom(image: Floats, factor: float, shape: tuple[int, ...]) -> Floats:
    """Enlarge the middle of `image` by `factor` and return the central `shape` pixels of the result.

    On each axis ceil(length / factor) pixels are enlarged, linear between pixels. The first and last of them become the
    first and last of the enlargement (the grid of `scipy.ndimage.zoom`, as ImageNet-C uses it).
    """
    rows = []
    for size, length in zip(image.shape[:2], shape[:2], strict=True):
        part = int(np.ceil(length / factor))
        enlarged = max(round(part * factor), 2)
        scale = (part - 1) / (enlarged - 1)
        rows.append((scale, (size - part) // 2 + (enlarged - length) // 2 * scale))
    (down, top), (across, left) = rows
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    matrix = np.array([[across, 0, left], [0, down, top]])
    return cv2.warpAffine(image, matrix, shape[1::-1], flags=flags, borderMode=cv2.BORDER_REPLICATE)  # type: ignore[return-value]


@declare(
    corruptions,
    "glass_blur",
    steps=steps_up_to(10),
    citation=BOTH,
    settings=settings_from("sigma delta iterations", _GLASS),
    growing_steps=(0, 2, 4, 5, 6, 7, 8, 9),
)
def glass_blur(image: Floats, step: int, rng: np.random.Generator) -> Floats:
    """Blur, replace each pixel by a random neighbour, blur again (frosted glass).

    The published code intends to swap two pixels but copies one over the other; this code does the same. A neighbour is
    up to `delta` pixels before or `delta` - 1 after. Pixels within `delta` of an edge do not change, so an image
    narrower than 2 delta is only blurred. Severities 2 and 4 have fewer iterations than 1 and 3 and are not stronger.
    """
    sigma, delta, iterations = _GLASS[step]
    soft = smooth(image, sigma)
    moves = rng.integers(-delta, delta, (iterations, *image.shape[:2], 2), dtype=np.int8)
    _copy_neighbours(soft.reshape(*image.shape[:2], -1), moves, delta)
    return smooth(soft, sigma)


@compiled()
def _copy_neighbours(image, moves, delta):  # type: ignore[no-untyped-def]
    """Work in place from the last pixel to the first: a pixel may receive what its neighbour received before."""
    height, width, channels = image.shape
    for i in range(len(moves)):
        for y in range(height - delta, delta, -1):
            for x in range(width - delta, delta, -1):
                from_y, from_x = y + moves[i, y, x, 0], x + moves[i, y, x, 1]
                for c in range(channels):
                    image[y, x, c] = image[from_y, from_x, c]


@declare(
    corruptions,
    "defocus_blur",
    steps=steps_up_to(10),
    citation=BOTH,
    settings=settings_from("radius alias", _DEFOCUS),
    random=False,
)
def defocus_blur(image: Floats, step: int, rng: np.random.Generator | None) -> Floats:
    """Spread each point over a disk, as a lens out of focus does."""
    return cv2.filter2D(image, cv2.CV_32F, disk_kernel(*_DEFOCUS[step]))  # type: ignore[return-value]


@lru_cache(maxsize=32)
def disk_kernel(radius: int, alias: float) -> Floats:
    """Return a disk with a softened rim, as ImageNet-C draws it: on a grid of 17 pixels, or of its own width if larger.

    Where the disk touches the grid's edge the softening is reflected, so the sum exceeds 1 by about a hundredth
    (radius 8 and above): published images are that much brighter, and so are ours.
    """
    reach = max(8, radius)
    x = np.arange(-reach, reach + 1)
    disk = (x**2 + x[:, None] ** 2 <= radius**2).astype(np.float32)
    side = 3 if radius <= 8 else 5
    soft = cv2.GaussianBlur(disk / disk.sum(), (side, side), alias)
    margin = int(np.argmax(soft[reach] > 0))  # rows and columns of zeros around the disk
    return np.ascontiguousarray(soft[margin : len(soft) - margin, margin : len(soft) - margin], dtype=np.float32)


@declare(
    corruptions,
    "motion_blur",
    steps=steps_up_to(10),
    citation=BOTH,
    settings=settings_from("radius sigma", _MOTION),
)
def motion_blur(image: Floats, step: int, rng: np.random.Generator) -> Floats:
    """Blur along a line up to 45 degrees off the horizontal, as a moving camera does."""
    radius, sigma = _MOTION[step]
    degrees = rng.uniform(-_MOTION_DEGREES, _MOTION_DEGREES)
    return motion_filter(image, radius=radius, sigma=sigma, degrees=degrees)


@declare(
    corruptions,
    "zoom_blur",
    steps=steps_up_to(10),
    citation=BOTH,
    settings=settings_from("stop step", _ZOOM),
    random=False,
)
def zoom_blur(image: Floats, step: int, rng: np.random.Generator | None) -> Floats:
    """Average the image and its enlargements, as a camera moving closer does."""
    stop, interval = _ZOOM[step]
    factors = np.arange(1, stop, interval)  # as published; rounding may include `stop`
    total = image.copy()
    for factor in factors:
        total += zoom(image, factor, image.shape)
    total /= len(factors) + 1
    return total


@declare(
    corruptions,
    "gaussian_blur",
    steps=steps_up_to(5),
    citation=IMAGENET_C,
    settings=settings_from("sigma", _GAUSSIAN_SIGMA),
    random=False,
)
def gaussian_blur(image: Floats, step: int, rng: np.random.Generator | None) -> Floats:
    """Blur with a Gaussian."""
    return smooth(image, _GAUSSIAN_SIGMA[step])

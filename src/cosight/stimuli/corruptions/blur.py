"""Blurs: of glass, of a lens out of focus, of motion, of zooming, and the plain Gaussian."""

from __future__ import annotations

import numpy as np
from numba import njit

from cosight.stimuli.corruptions.filters import (
    add_zoomed,
    along_line,
    blurred,
    disk_kernel,
    mirrored_filter,
    zoom_places,
)
from cosight.stimuli.corruptions.severities import IMAGENET_C, VISALIGN, corruptions, settings_from
from cosight.stimuli.images import Floats
from cosight.stimuli.kinds import declare, steps_up_to

__all__ = ["defocus_blur", "gaussian_blur", "glass_blur", "motion_blur", "zoom_blur"]

# Severity 1..5 of ImageNet-C, 6..10 of VisAlign (Lee et al. 2023); lengths in pixels whatever the image's size.
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
_MOTION_DEGREES = 45  # the angle is uniform up to this, either way
_ZOOM = (  # stop, step; factors start at 1
    (1.11, 0.01), (1.16, 0.01), (1.21, 0.02), (1.26, 0.02), (1.31, 0.03),
    (1.36, 0.03), (1.41, 0.04), (1.86, 0.04), (2.00, 0.05), (3.00, 0.05),
)  # fmt: skip
_GAUSSIAN_SIGMA = (1, 2, 3, 4, 6)
_BOTH = f"{IMAGENET_C}; {VISALIGN}"


@declare(
    corruptions,
    "glass_blur",
    steps=steps_up_to(10),
    citation=_BOTH,
    settings=settings_from("sigma delta iterations", _GLASS),
    grows=(0, 2, 4, 5, 6, 7, 8, 9),
)
def glass_blur(image: Floats, step: int, rng: np.random.Generator) -> Floats:
    """Frosted glass: blur, let each pixel take the colour of a near one, blur again.

    The published code means to swap two pixels, in effect it copies one over the other; so do we. A neighbour is up to
    `delta` pixels before or `delta` - 1 after. Pixels within `delta` of an edge stay, so an image narrower than
    2 delta is only blurred. Severities 2 and 4 iterate less than 1 and 3, and change the image no more than these.
    """
    sigma, delta, iterations = _GLASS[step]
    soft = blurred(image, sigma)
    moves = rng.integers(-delta, delta, (iterations, *image.shape[:2], 2), dtype=np.int8)
    _scattered(soft.reshape(*image.shape[:2], -1), moves, delta)
    return blurred(soft, sigma)


@njit(cache=True)
def _scattered(image, moves, delta):  # type: ignore[no-untyped-def]
    """In place, from the last pixel to the first: a pixel may take what another one took before."""
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
    citation=_BOTH,
    settings=settings_from("radius alias", _DEFOCUS),
    random=False,
)
def defocus_blur(image: Floats, step: int, rng: np.random.Generator | None) -> Floats:
    """A lens out of focus: each point becomes a disk."""
    return mirrored_filter(image, disk_kernel(*_DEFOCUS[step]))


@declare(
    corruptions, "motion_blur", steps=steps_up_to(10), citation=_BOTH, settings=settings_from("radius sigma", _MOTION)
)
def motion_blur(image: Floats, step: int, rng: np.random.Generator) -> Floats:
    """A moving camera, in a direction up to 45 degrees off the horizontal."""
    radius, sigma = _MOTION[step]
    degrees = rng.uniform(-_MOTION_DEGREES, _MOTION_DEGREES)
    return along_line(image, radius=radius, sigma=sigma, degrees=degrees)


@declare(
    corruptions,
    "zoom_blur",
    steps=steps_up_to(10),
    citation=_BOTH,
    settings=settings_from("stop step", _ZOOM),
    random=False,
)
def zoom_blur(image: Floats, step: int, rng: np.random.Generator | None) -> Floats:
    """A camera coming nearer: the mean of the image and its enlargements."""
    stop, by = _ZOOM[step]
    factors = np.arange(1, stop, by)  # as published; where rounding lets `stop` in, it is in there too
    total = image.copy()
    for factor in factors:
        (height, rows), (width, columns) = (zoom_places(side, factor) for side in image.shape[:2])
        rows, columns = rows + (len(image) - height) // 2, columns + (image.shape[1] - width) // 2
        add_zoomed(total, image, rows, columns)
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
    """A Gaussian blur."""
    return blurred(image, _GAUSSIAN_SIGMA[step])

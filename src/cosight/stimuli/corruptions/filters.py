"""Filters that several corruptions share. Images are float32, (height, width, 3) or (height, width).

A kernel compiled by numba sees an image as rows of interleaved channels, so that grey and colour are one signature.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeVar

import cv2
import numpy as np
from numba import njit
from numpy.typing import NDArray

from cosight.stimuli.images import Floats

__all__ = ["add_zoomed", "along_line", "blurred", "disk_kernel", "mirrored_filter", "rows_of", "zoom_places"]

_Pixel = TypeVar("_Pixel", np.uint8, np.float32)


def rows_of(image: NDArray[_Pixel]) -> NDArray[_Pixel]:
    """A view as (height, width * channels)."""
    return image.reshape(len(image), -1)


def blurred(image: Floats, sigma: float, *, truncate: float = 4, border: int = cv2.BORDER_REPLICATE) -> Floats:
    """Gaussian blur whose kernel ends at `truncate` sigmas, as SciPy cuts it."""
    side = 2 * int(truncate * sigma + 0.5) + 1
    return cv2.GaussianBlur(image, (side, side), sigma, borderType=border)  # type: ignore[return-value]


def along_line(image: Floats, *, radius: int, sigma: float, degrees: float) -> Floats:
    """Blur to one side along a line: half a Gaussian of 2 radius + 1 taps, edges continued.

    What ImageMagick's motion blur means by radius and sigma (the tool ImageNet-C calls); taps sit on whole pixels.
    """
    steps = np.arange(2 * radius + 1)
    weights = np.exp(-(steps**2) / (2 * sigma**2))
    across = np.ceil(steps * np.cos(np.radians(degrees)) - 0.5).astype(np.int64)
    down = np.ceil(steps * np.sin(np.radians(degrees)) - 0.5).astype(np.int64)
    kept = weights > weights.sum() * 1e-5  # the rest cannot move a byte
    weights, across, down = weights[kept] / weights[kept].sum(), across[kept], down[kept]
    channels = 1 if image.ndim == 2 else image.shape[2]
    room = int(np.abs(across).max())
    padded = cv2.copyMakeBorder(image, 0, 0, room, room, cv2.BORDER_REPLICATE)
    out = np.zeros_like(image)
    _tapped(rows_of(padded), down, (room + across) * channels, weights.astype(np.float32), rows_of(out))
    return out


@njit(cache=True)
def _tapped(padded, down, across, weights, out):  # type: ignore[no-untyped-def]
    """out[y, x] = sum of weights[k] * padded[y + down[k], x + across[k]], the outermost row continued."""
    height, width = out.shape
    for y in range(height):
        row = out[y]
        for k in range(weights.size):
            taken = padded[min(max(y + down[k], 0), height - 1), across[k] : across[k] + width]
            weight = weights[k]
            for x in range(width):
                row[x] += weight * taken[x]


@lru_cache(maxsize=32)
def disk_kernel(radius: int, alias: float) -> Floats:
    """A disk with softened rim, as ImageNet-C draws it: on a grid of 17 pixels, or of the disk's own width if larger.

    Where the disk touches the grid's edge the softening is reflected, so that the sum exceeds 1 by about a hundredth
    (radius 8 and above): published images are that much brighter, and so are ours.
    """
    reach = max(8, radius)
    x = np.arange(-reach, reach + 1)
    disk = (x**2 + x[:, None] ** 2 <= radius**2).astype(np.float32)
    side = 3 if radius <= 8 else 5
    soft = cv2.GaussianBlur(disk / disk.sum(), (side, side), alias)
    bare = int(np.argmax(soft[reach] > 0))  # rows and columns of zeros around it
    return np.ascontiguousarray(soft[bare : len(soft) - bare, bare : len(soft) - bare], dtype=np.float32)


_SMALL = 5  # reach of a kernel up to which OpenCV multiplies it out, without a Fourier transform


def mirrored_filter(image: Floats, kernel: Floats) -> Floats:
    """Correlate with a square kernel that is symmetric left-right and up-down; the image is reflected at its edges.

    A row of such a kernel is a sum of centred boxes, and a box is a difference of running sums: a disk of radius r
    costs in the order of r operations a pixel, not r^2.
    """
    reach = len(kernel) // 2
    if reach <= _SMALL:
        return cv2.filter2D(image, cv2.CV_32F, kernel)  # type: ignore[return-value]
    channels = 1 if image.ndim == 2 else image.shape[2]
    quarter = np.zeros((reach + 1, reach + 2), dtype=np.float32)
    quarter[:, :-1] = kernel[reach:, reach:]
    boxes = quarter[:, :-1] - quarter[:, 1:]  # (distance in y, half-width of the box) -> its height
    boxes[0] /= 2  # the middle row is its own mirror image
    padded = cv2.copyMakeBorder(image, reach, reach, reach + 1, reach, cv2.BORDER_REFLECT_101)
    out = np.zeros_like(image)
    _boxed(rows_of(padded), boxes, channels, rows_of(out))
    return out


@njit(cache=True)
def _boxed(padded, boxes, channels, out):  # type: ignore[no-untyped-def]
    height, width = out.shape
    reach = len(boxes) - 1
    wide = padded.shape[1]
    for y in range(len(padded)):  # running sums, channel by channel
        for x in range(channels, wide):
            padded[y, x] += padded[y, x - channels]
    pairs, mixed = np.empty((reach + 1, wide), np.float32), np.empty(wide, np.float32)
    for y in range(height):
        for d in range(reach + 1):
            above, below, pair = padded[y + reach - d], padded[y + reach + d], pairs[d]
            for x in range(wide):
                pair[x] = above[x] + below[x]
        for half in range(reach + 1):
            used = False
            for d in range(reach + 1):
                weight = boxes[d, half]
                if weight != 0:
                    pair = pairs[d]
                    if used:
                        for x in range(wide):
                            mixed[x] += weight * pair[x]
                    else:
                        for x in range(wide):
                            mixed[x] = weight * pair[x]
                    used = True
            if used:
                row = out[y]
                right = mixed[(reach + 1 + half) * channels :]
                left = mixed[(reach - half) * channels :]
                for x in range(width):
                    row[x] += right[x] - left[x]


def zoom_places(length: int, factor: float) -> tuple[int, NDArray[np.float64]]:
    """Pixels in the middle part of a side that fills the whole when enlarged, and where in it each pixel looks.

    The part has ceil(length / factor) pixels; its first and last become the first and last of the enlargement, from
    whose middle `length` pixels are kept (scipy.ndimage.zoom's grid, as ImageNet-C uses it).
    """
    part = int(np.ceil(length / factor))
    enlarged = max(round(part * factor), 2)
    kept = np.arange(length) + (enlarged - length) // 2
    return part, kept * (part - 1) / (enlarged - 1)


def add_zoomed(total: Floats, image: Floats, rows: NDArray[Any], columns: NDArray[Any]) -> None:
    """Add to `total` the image read at these fractional rows and columns, linear between pixels."""
    channels = 1 if image.ndim == 2 else image.shape[2]
    top, down = _split(rows, len(image))
    left, across = _split(columns, image.shape[1])
    _add_read(rows_of(total), rows_of(image), channels, top, down, left * channels, across)


def _split(places: NDArray[Any], length: int) -> tuple[NDArray[np.int64], Floats]:
    """Whole and fractional part, the whole one with a neighbour after it."""
    whole = np.clip(np.floor(places), 0, length - 2).astype(np.int64)
    return whole, (places - whole).astype(np.float32)


@njit(cache=True)
def _add_read(total, image, channels, top, down, left, across):  # type: ignore[no-untyped-def]
    first, last = left[0], left[-1] + 2 * channels
    line = np.empty(image.shape[1], np.float32)
    for y in range(len(top)):
        above, below, share = image[top[y]], image[top[y] + 1], down[y]
        for x in range(first, last):
            line[x] = above[x] + share * (below[x] - above[x])
        row = total[y]
        for x in range(len(left)):
            at, part = left[x], across[x]
            for c in range(channels):
                row[x * channels + c] += line[at + c] + part * (line[at + channels + c] - line[at + c])

"""What is drawn: vertical lines in place of the image, geometric shapes on top of it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from cosight.stimuli.distortions.common import FACTS, Whole, corners, distortions, painted
from cosight.stimuli.images import Bytes
from cosight.stimuli.kinds import declare

__all__: list[str] = []

# Level 1 to 5, Li et al. 2025, tables 4 and 5.
_SECTIONS = (224, 178, 112, 84, 60)
_Y_STEPS = (1, 2, 4, 6, 8)
_SHAPES = (150, 300, 600, 800, 1000)

_PEN_SHIFT = 40  # px to the left for black, none for white
_LUMA = (0.299, 0.587, 0.114)  # ITU-R BT.601
_SMALLEST_SHAPE, _LARGEST_SHAPE = 6, 15  # px, the side of the square around a shape
_FINE = 8  # points a pixel's side, to see how much of it a shape covers
_ENOUGH = 0.45  # of a pixel; with a half, the smallest stars would lose their points

_Inside = NDArray[np.bool_]
_Place = NDArray[np.float64]


def _line_settings(step: int) -> Mapping[str, Any]:
    return {"sections": _SECTIONS[step], "y_step": _Y_STEPS[step], "shift": _PEN_SHIFT}


@declare(distortions, "vertical_lines", settings=_line_settings, random=False, **FACTS)
def _vertical_lines(image: Bytes, step: int, rng: np.random.Generator | None) -> Bytes:
    """Lines down a black canvas, in the image's colours, bent to the left where it is dark."""

    def paint(colour: Bytes) -> None:
        pens, columns = _pens(colour, _SECTIONS[step], _Y_STEPS[step])
        colour[:] = 0
        _draw_lines(colour, pens, columns, _Y_STEPS[step])

    return painted(paint, image)


@njit(cache=True, error_model="numpy")
def _pens(image: Bytes, sections: int, y_step: int) -> tuple[Bytes, Whole]:
    """Mean colour of each block (rows, sections, 3), and the columns its line starts from and goes to: one row more."""
    height, width = image.shape[0], image.shape[1]
    rows = -(-height // y_step)
    edges = np.arange(sections + 1) * width // sections
    pens, columns = np.empty((rows, sections, 3), np.uint8), np.empty((rows + 1, sections), np.int64)
    for row in range(rows):
        top, bottom = row * y_step, min((row + 1) * y_step, height)
        for section in range(sections):
            left = edges[section]
            right = max(left + 1, edges[section + 1])  # a section may be narrower than a pixel
            red, green, blue = _block_mean(image, top, bottom, left, right)
            luminance = _LUMA[0] * red + _LUMA[1] * green + _LUMA[2] * blue
            columns[row, section] = left + int(luminance * (_PEN_SHIFT / 255) + 0.5) - _PEN_SHIFT
            pens[row, section, 0] = int(red + 0.5)
            pens[row, section, 1] = int(green + 0.5)
            pens[row, section, 2] = int(blue + 0.5)
    columns[rows] = columns[rows - 1]
    return pens, columns


@njit(cache=True, error_model="numpy")
def _block_mean(image: Bytes, top: int, bottom: int, left: int, right: int) -> tuple[float, float, float]:
    red = green = blue = 0
    for y in range(top, bottom):
        for x in range(left, right):
            red += image[y, x, 0]
            green += image[y, x, 1]
            blue += image[y, x, 2]
    share = 1 / ((bottom - top) * (right - left))
    return red * share, green * share, blue * share


@njit(cache=True, error_model="numpy")
def _draw_lines(canvas: Bytes, pens: Bytes, columns: Whole, y_step: int) -> None:
    """Each block's segment, one pixel wide, runs to where the next block's begins; sections from left to right, later
    over earlier. No segment leaves its block's rows, so going row by row is the same as pen by pen, and faster.
    """
    for row in range(len(pens)):
        top, height = row * y_step, min(y_step, len(canvas) - row * y_step)
        for section in range(pens.shape[1]):
            start, way = columns[row, section], columns[row + 1, section] - columns[row, section]
            points = max(abs(way), height)
            right, down = way / points, height / points
            for point in range(points):
                x, y = int(np.floor(start + right * point + 0.5)), top + int(down * point)
                if x >= 0:  # lines bend to the left only
                    for channel in range(3):
                        canvas[y, x, channel] = pens[row, section, channel]


def _shape_settings(step: int) -> Mapping[str, Any]:
    return {"shapes": _SHAPES[step], "size": [_SMALLEST_SHAPE, _LARGEST_SHAPE]}


@declare(distortions, "geometric_shapes", settings=_shape_settings, **FACTS)
def _geometric_shapes(image: Bytes, step: int, rng: np.random.Generator) -> Bytes:
    """Triangles, squares, stars and circles of random colours, one over another."""
    count = _SHAPES[step]
    forms = rng.integers(0, len(_FORMS), count)
    sizes = rng.integers(_SMALLEST_SHAPE, _LARGEST_SHAPE, count, endpoint=True)
    colours = rng.integers(0, 256, (count, 3), dtype=np.uint8)
    places = corners(image, count, rng)
    stamps = _stamps()[forms, sizes - _SMALLEST_SHAPE]
    return painted(lambda colour: _stamp(colour, stamps, sizes, colours, places), image)


@lru_cache(maxsize=1)
def _stamps() -> NDArray[np.bool_]:
    """Pixels of each form at each size, (forms, sizes, largest, largest): those that the form covers enough of."""
    sizes = range(_SMALLEST_SHAPE, _LARGEST_SHAPE + 1)
    stamps = np.zeros((len(_FORMS), len(sizes), _LARGEST_SHAPE, _LARGEST_SHAPE), np.bool_)
    for index, size in enumerate(sizes):
        places = (2 * np.arange(size * _FINE) + 1) / (size * _FINE) - 1  # the form's square is [-1, 1], y downwards
        x, y = np.meshgrid(places, places)
        for form, inside in enumerate(_FORMS):
            cover = inside(x, y).reshape(size, _FINE, size, _FINE).mean(axis=(1, 3))
            stamps[form, index, :size, :size] = cover >= _ENOUGH
    return stamps


def _triangle(x: _Place, y: _Place) -> _Inside:
    return 2 * np.abs(x) <= y + 1  # point up


def _square(x: _Place, y: _Place) -> _Inside:
    return np.full(x.shape, True)


def _circle(x: _Place, y: _Place) -> _Inside:
    return x * x + y * y <= 1


def _star(x: _Place, y: _Place) -> _Inside:
    """A pentagram in the unit circle, one point up: inside of at least four of its five lines."""
    outward = np.deg2rad(72 * np.arange(5) - 90)  # each line lies cos 72 degrees from the centre
    lines = np.cos(outward)[:, None, None] * x + np.sin(outward)[:, None, None] * y <= np.cos(np.deg2rad(72))
    return np.count_nonzero(lines, axis=0) >= 4  # type: ignore[no-any-return]


_FORMS = (_triangle, _square, _star, _circle)


@njit(cache=True)
def _stamp(image: Bytes, stamps: NDArray[np.bool_], sizes: Whole, colours: Bytes, corners: Whole) -> None:
    height, width = image.shape[0], image.shape[1]
    for shape in range(len(sizes)):
        for row in range(sizes[shape]):
            y = corners[shape, 0] + row
            y -= height if y >= height else 0
            for column in range(sizes[shape]):
                x = corners[shape, 1] + column
                x -= width if x >= width else 0
                if stamps[shape, row, column]:
                    for channel in range(3):
                        image[y, x, channel] = colours[shape, channel]

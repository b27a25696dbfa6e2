"""Distortions that cover or replace the image: lines, shapes, a checkerboard, and tiles of other images."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from cosight.errors import InvalidInput
from cosight.stimuli.blocks import Integers, block_means
from cosight.stimuli.compiled import compiled
from cosight.stimuli.distortions.levels import FACTS, distortions
from cosight.stimuli.images import Bytes, digest
from cosight.stimuli.kinds import declare
from cosight.stimuli.tiles import TileIndex, nearest_tiles

__all__: list[str] = []

# Level 1 to 5, Li et al. 2025, tables 2 and 4 to 7, appendix A.4.5; lengths in pixels.
_SECTIONS = (224, 178, 112, 84, 60)
_Y_STEPS = (1, 2, 4, 6, 8)
_PEN_SHIFT = 40  # to the left for black, none for white
_SHAPES = (150, 300, 600, 800, 1000)
_SMALLEST_SHAPE, _LARGEST_SHAPE = 6, 15  # side of the square around a shape
_LUMINANCE = ((0, 50), (50, 100), (100, 125), (125, 150), (150, 255))
_SQUARE_SIDE = 14
_MOSAIC_SIDES = (4, 6, 8, 16, 28)
_STICKERS = (100, 200, 400, 600, 1200)
_STICKER_SIDE = 16

_LUMA = (0.299, 0.587, 0.114)  # ITU-R BT.601
_SAMPLES = 8  # points per side of a pixel, to measure how much of it a shape covers
_MIN_COVER = 0.45  # of a pixel; with a half, the smallest stars would lose their points


def _paint_rgb(paint: Callable[[Bytes], None], image: Bytes) -> Bytes:
    """Call `paint` on an RGB image, in place; for a grey image, return the luma of its painted RGB copy."""
    if image.ndim == 3:
        paint(image)
        return image
    colour: Bytes = cv2.cvtColor(image, cv2.COLOR_GRAY2RGB)  # type: ignore[assignment]
    paint(colour)
    return cv2.cvtColor(colour, cv2.COLOR_RGB2GRAY)  # type: ignore[return-value]


def _draw_corners(image: Bytes, count: int, rng: np.random.Generator) -> Integers:
    """Draw top left corners (count, 2), uniform over the image, for `_paste`.

    Pictures wrap around at the edges, so every pixel is equally likely to be covered, and the expected covered fraction
    is 1 - (1 - area / pixels) ** count. Without wrapping, stickers would cover the edges less.
    """
    return rng.integers(0, image.shape[:2], (count, 2))


@compiled()
def _paste(image: Bytes, pictures: Bytes, masks: NDArray[np.bool_], corners: Integers) -> None:
    """Paste square pictures (count, side, side, 3) where their masks are true, later over earlier, wrapping around."""
    height, width = image.shape[0], image.shape[1]
    for i in range(len(pictures)):
        for row in range(pictures.shape[1]):
            y = (corners[i, 0] + row) % height
            for column in range(pictures.shape[2]):
                if masks[i, row, column]:
                    x = corners[i, 1] + column
                    x -= width if x >= width else 0
                    for channel in range(3):
                        image[y, x, channel] = pictures[i, row, column, channel]


def _line_settings(step: int) -> Mapping[str, Any]:
    return {"sections": _SECTIONS[step], "y_step": _Y_STEPS[step], "shift": _PEN_SHIFT}


@declare(distortions, "vertical_lines", settings=_line_settings, random=False, **FACTS)
def _vertical_lines(image: Bytes, step: int, rng: np.random.Generator | None) -> Bytes:
    """Draw lines down a black canvas, in the image's colours, bent to the left where it is dark."""
    sections, y_step = _SECTIONS[step], _Y_STEPS[step]

    def paint(colour: Bytes) -> None:
        height, width = colour.shape[:2]
        tops = np.arange(0, height, y_step)
        edges = np.arange(sections + 1) * width // sections
        lefts, rights = edges[:-1], np.maximum(edges[:-1] + 1, edges[1:])  # a section may be narrower than a pixel
        means = block_means(colour, tops, np.minimum(tops + y_step, height), lefts, rights)
        luminance = _LUMA[0] * means[:, :, 0] + _LUMA[1] * means[:, :, 1] + _LUMA[2] * means[:, :, 2]
        columns = lefts - _PEN_SHIFT + (luminance * (_PEN_SHIFT / 255) + 0.5).astype(np.int64)
        colour[:] = 0
        _draw_lines(colour, (means + 0.5).astype(np.uint8), np.vstack([columns, columns[-1:]]), y_step)

    return _paint_rgb(paint, image)


@compiled(error_model="numpy")
def _draw_lines(canvas: Bytes, pens: Bytes, columns: Integers, y_step: int) -> None:
    """Draw a segment, one pixel wide, from each block's column to that of the block below.

    Sections go from left to right, later over earlier. No segment leaves the rows of its block, so drawing row by row
    gives the same as section by section, and is faster.
    """
    for row in range(len(pens)):
        top, height = row * y_step, min(y_step, len(canvas) - row * y_step)
        for section in range(pens.shape[1]):
            start, distance = columns[row, section], columns[row + 1, section] - columns[row, section]
            points = max(abs(distance), height)
            right, down = distance / points, height / points
            for point in range(points):
                x, y = int(np.floor(start + right * point + 0.5)), top + int(down * point)
                if x >= 0:  # lines bend to the left only
                    for channel in range(3):
                        canvas[y, x, channel] = pens[row, section, channel]


def _shape_settings(step: int) -> Mapping[str, Any]:
    return {"shapes": _SHAPES[step], "size": [_SMALLEST_SHAPE, _LARGEST_SHAPE]}


@declare(distortions, "geometric_shapes", settings=_shape_settings, **FACTS)
def _geometric_shapes(image: Bytes, step: int, rng: np.random.Generator) -> Bytes:
    """Paste triangles, squares, stars and circles of random colours, one over another."""
    count, masks = _SHAPES[step], _shape_masks()
    forms = rng.integers(0, len(masks), count)
    sizes = rng.integers(_SMALLEST_SHAPE, _LARGEST_SHAPE, count, endpoint=True)
    colours = rng.integers(0, 256, (count, 3), dtype=np.uint8)
    corners = _draw_corners(image, count, rng)
    pictures = np.empty((count, _LARGEST_SHAPE, _LARGEST_SHAPE, 3), np.uint8)
    pictures[:] = colours[:, None, None]
    return _paint_rgb(lambda rgb: _paste(rgb, pictures, masks[forms, sizes - _SMALLEST_SHAPE], corners), image)


@lru_cache(maxsize=1)
def _shape_masks() -> NDArray[np.bool_]:
    """Return the pixels of triangle, square, star and circle at each size: (4, sizes, largest, largest).

    A pixel belongs to a shape that covers enough of it. Each shape fills the square [-1, 1], y downwards.
    """
    sizes = range(_SMALLEST_SHAPE, _LARGEST_SHAPE + 1)
    masks = np.zeros((4, len(sizes), _LARGEST_SHAPE, _LARGEST_SHAPE), np.bool_)
    for index, size in enumerate(sizes):
        points = (2 * np.arange(size * _SAMPLES) + 1) / (size * _SAMPLES) - 1
        x, y = np.meshgrid(points, points)
        # A pentagram in the unit circle, one point up: inside at least four of its five lines, each of which lies
        # cos 72 degrees from the centre.
        outward = np.deg2rad(72 * np.arange(5) - 90)[:, None, None]
        lines = np.cos(outward) * x + np.sin(outward) * y <= np.cos(np.deg2rad(72))
        star = np.count_nonzero(lines, axis=0) >= 4
        for form, inside in enumerate((2 * np.abs(x) <= y + 1, np.full(x.shape, True), star, x * x + y * y <= 1)):
            cover = inside.reshape(size, _SAMPLES, size, _SAMPLES).mean(axis=(1, 3))
            masks[form, index, :size, :size] = cover >= _MIN_COVER
    return masks


def _luminance_settings(step: int) -> Mapping[str, Any]:
    low, high = _LUMINANCE[step]
    return {"low": low, "high": high, "side": _SQUARE_SIDE}


@declare(distortions, "luminance_checkerboard", settings=_luminance_settings, **FACTS)
def _luminance_checkerboard(image: Bytes, step: int, rng: np.random.Generator) -> Bytes:
    """Make the squares of a checkerboard lighter and darker in turn, each by its own random amount."""
    height, width = image.shape[:2]
    shape = -(-height // _SQUARE_SIDE), -(-width // _SQUARE_SIDE)
    amounts = np.rint(rng.uniform(*_LUMINANCE[step], shape)).astype(np.int16)
    amounts[np.indices(shape).sum(axis=0) % 2 == 1] *= -1
    pixels = amounts.repeat(_SQUARE_SIDE, axis=0).repeat(_SQUARE_SIDE, axis=1)[:height, :width, None]

    def paint(rgb: Bytes) -> None:
        rgb[:] = np.clip(rgb + pixels, 0, 255)

    return _paint_rgb(paint, image)


def _tile_settings(numbers: tuple[int, ...], word: str) -> Callable[..., Mapping[str, Any]]:
    def settings(step: int, *, tiles: TileIndex | None = None, own: str | None = None) -> Mapping[str, Any]:
        return {word: numbers[step], "tiles": tiles.digest if tiles else None}

    return settings


def _check_tiles(name: str, tiles: TileIndex | None, own: str | None, image: Bytes) -> tuple[TileIndex, int | None]:
    """Return the index and the position of the image's own tile in it; at least two other tiles are required."""
    if tiles is None:
        raise InvalidInput(f"{name} needs tiles, got None; give a tile index (cosight.stimuli.tiles.build_tiles)")
    without = tiles.position(digest(image) if own is None else own)
    others = len(tiles) - (without is not None)
    if others < 2:
        raise InvalidInput(f"{name} needs at least 2 tiles of other images, got {others}; build the index from more")
    return tiles, without


@declare(
    distortions,
    "mosaic",
    settings=_tile_settings(_MOSAIC_SIDES, "side"),
    random=False,
    options=frozenset({"tiles", "own"}),
    **FACTS,
)
def _mosaic(
    image: Bytes, step: int, rng: np.random.Generator | None, *, tiles: TileIndex | None = None, own: str | None = None
) -> Bytes:
    """Replace every cell of a grid by another image, the one nearest to the cell in mean colour."""
    index, without = _check_tiles("mosaic", tiles, own, image)
    side = _MOSAIC_SIDES[step]

    def paint(rgb: Bytes) -> None:
        height, width = rgb.shape[:2]
        tops, lefts = np.arange(0, height, side), np.arange(0, width, side)
        means = block_means(rgb, tops, np.minimum(tops + side, height), lefts, np.minimum(lefts + side, width))
        nearest = nearest_tiles(index, means.reshape(-1, 3), without=without)
        cells = index.thumbnails[side][nearest].reshape(len(tops), len(lefts), side, side, 3)
        canvas = cells.swapaxes(1, 2).reshape(len(tops) * side, len(lefts) * side, 3)
        rgb[:] = canvas[:height, :width]  # cells at the right and bottom edges may be cut off

    return _paint_rgb(paint, image)


@declare(
    distortions,
    "stickers",
    settings=_tile_settings(_STICKERS, "stickers"),
    options=frozenset({"tiles", "own"}),
    **FACTS,
)
def _stickers(
    image: Bytes, step: int, rng: np.random.Generator, *, tiles: TileIndex | None = None, own: str | None = None
) -> Bytes:
    """Paste other images, 16 pixels wide, at random positions, one over another."""
    index, without = _check_tiles("stickers", tiles, own, image)
    count = _STICKERS[step]
    chosen = rng.integers(0, len(index) - (without is not None), count)
    if without is not None:
        chosen += chosen >= without
    pictures = index.thumbnails[_STICKER_SIDE][chosen]
    corners = _draw_corners(image, count, rng)
    return _paint_rgb(lambda rgb: _paste(rgb, pictures, np.ones(pictures.shape[:3], np.bool_), corners), image)

"""Mosaic and stickers: tiles of other images in place of the image, or on top of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from cosight.errors import InvalidInput
from cosight.stimuli.distortions.common import FACTS, Whole, corners, distortions, painted
from cosight.stimuli.images import Bytes, digest
from cosight.stimuli.kinds import declare
from cosight.stimuli.tiles import TileIndex, nearest_tiles

__all__: list[str] = []

_MOSAIC_SIDES = (4, 6, 8, 16, 28)  # px, level 1 to 5, Li et al. 2025, table 2
_STICKERS = (100, 200, 400, 600, 1200)  # level 1 to 5, table 6
_STICKER_SIDE = 16  # px, appendix A.4.5


def _tile_settings(numbers: tuple[int, ...], word: str) -> Callable[..., Mapping[str, Any]]:
    def settings(step: int, *, tiles: TileIndex | None = None, own: str | None = None) -> Mapping[str, Any]:
        return {word: numbers[step], "tiles": tiles.digest if tiles else None}

    return settings


def _others(name: str, tiles: TileIndex | None, own: str | None, image: Bytes) -> tuple[TileIndex, int | None]:
    """The index and the position of the image's own tile in it, once two other tiles are known to be there."""
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
    """Every cell of a grid is another image, the one nearest to the cell in mean colour."""
    index, without = _others("mosaic", tiles, own, image)
    side = _MOSAIC_SIDES[step]

    def paint(colour: Bytes) -> None:
        chosen = nearest_tiles(index, _cell_means(colour, side, side).reshape(-1, 3), without=without)
        _lay(colour, index.thumbnails[side], chosen)

    return painted(paint, image)


@njit(cache=True)
def _cell_means(image: Bytes, height: int, width: int) -> NDArray[np.float64]:
    """Mean colour of each cell (rows, columns, 3); those at the right and bottom edges may be cut short."""
    rows, columns = -(-image.shape[0] // height), -(-image.shape[1] // width)
    means = np.empty((rows, columns, 3))
    for row in range(rows):
        bottom = min((row + 1) * height, image.shape[0])
        for column in range(columns):
            right = min((column + 1) * width, image.shape[1])
            red = green = blue = 0
            for y in range(row * height, bottom):
                for x in range(column * width, right):
                    red += image[y, x, 0]
                    green += image[y, x, 1]
                    blue += image[y, x, 2]
            pixels = (bottom - row * height) * (right - column * width)
            means[row, column, 0], means[row, column, 1], means[row, column, 2] = (
                red / pixels,
                green / pixels,
                blue / pixels,
            )
    return means


@njit(cache=True)
def _lay(image: Bytes, tiles: Bytes, chosen: Whole) -> None:
    """Tiles side by side, row by row."""
    height, width, side = image.shape[0], image.shape[1], tiles.shape[1]
    rows, tile_rows = image.reshape(height, 3 * width), tiles.reshape(len(tiles), side, 3 * side)
    columns = -(-width // side)
    for cell in range(len(chosen)):
        top, left = cell // columns * side, cell % columns * 3 * side
        tile, end = tile_rows[chosen[cell]], min(3 * side, 3 * width - left)
        for y in range(min(side, height - top)):
            for byte in range(end):
                rows[top + y, left + byte] = tile[y, byte]


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
    """Other images, 16 px small, stuck on at random, one over another."""
    index, without = _others("stickers", tiles, own, image)
    count = _STICKERS[step]
    chosen = rng.integers(0, len(index) - (without is not None), count)
    if without is not None:
        chosen += chosen >= without
    places = corners(image, count, rng)
    return painted(lambda colour: _stick(colour, index.thumbnails[_STICKER_SIDE], chosen, places), image)


@njit(cache=True)
def _stick(image: Bytes, tiles: Bytes, chosen: Whole, corners: Whole) -> None:
    """Stickers one after another; each row is copied in two runs, up to the right edge and what comes in again left."""
    height, width, side = image.shape[0], image.shape[1], tiles.shape[1]
    rows, tile_rows = image.reshape(height, 3 * width), tiles.reshape(len(tiles), side, 3 * side)
    for sticker in range(len(chosen)):
        tile, left = tile_rows[chosen[sticker]], 3 * corners[sticker, 1]
        first = min(3 * side, 3 * width - left)
        for row in range(side):
            y = corners[sticker, 0] + row
            y -= height if y >= height else 0
            for byte in range(first):
                rows[y, left + byte] = tile[row, byte]
            for byte in range(first, 3 * side):
                rows[y, byte - first] = tile[row, byte]

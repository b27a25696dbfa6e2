"""A tile index: many images shrunk to tiles, with what it takes to find the tile nearest to a colour.

Built once from a folder or from decoded images, kept as a folder of .npy files and opened memory-mapped, so that worker
processes share it: pickled, an index is only its path. Tiles are sorted by digest: the order of the files is no matter.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numba import njit
from numpy.typing import NDArray

from cosight.errors import InvalidInput
from cosight.files import atomic_folder, package_versions
from cosight.processes import run_in_workers
from cosight.stimuli.images import Bytes, Floats, as_bytes, check_image, digest, read_image
from cosight.stimuli.sets import PIXEL_PACKAGES, image_files

__all__ = [
    "TILE_SIDES",
    "Tile",
    "TileIndex",
    "build_tiles",
    "nearest_tiles",
    "open_tiles",
    "tile_of",
    "verify_tiles",
]

TILE_SIDES = (4, 6, 8, 16, 28)  # pixels; LAION-C's mosaic, 16 its stickers too (Li et al. 2025, tables 2 and 6)
_FORMAT = 1
_LEAF = 16  # tiles a leaf of the search tree holds at most; 8 to 32 are about as fast
_BLOCK = 4096  # tiles written at a time
_ARRAYS = ("digests", "means", "order", "leaves", "boxes")

Whole = NDArray[np.int64]
Skipped = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Tile:
    """One image as a tile: its digest, its mean colour and its thumbnails, one array a side of TILE_SIDES."""

    digest: str
    mean: Floats  # (3,)
    thumbnails: tuple[Bytes, ...]  # each (side, side, 3)


@dataclass(frozen=True, slots=True, eq=False)
class TileIndex:
    """Tiles sorted by digest, on disk; `digest` is the identity of the whole."""

    path: Path
    digest: str
    digests: NDArray[np.bytes_] = field(repr=False)  # (tiles,) hexadecimal, sorted
    means: Floats = field(repr=False)  # (tiles, 3)
    thumbnails: Mapping[int, Bytes] = field(repr=False)  # side: (tiles, side, side, 3)
    order: NDArray[np.int32] = field(repr=False)  # (tiles,) leaf by leaf of the search tree
    leaves: Floats = field(repr=False)  # (tiles, 3) the means in that order, so that a leaf's lie side by side
    boxes: Floats = field(repr=False)  # (nodes, 6) lowest and highest colour under each node; node k has 2k and 2k + 1

    def __len__(self) -> int:
        return len(self.digests)

    def __reduce__(self) -> tuple[Any, ...]:
        return open_tiles, (self.path,)

    def position(self, digest: str) -> int | None:
        """Where the tile of the image with this digest is, None if there is none."""
        place = int(np.searchsorted(self.digests, np.bytes_(digest.encode())))
        return place if place < len(self) and self.digests[place] == digest.encode() else None


def tile_of(image: Bytes) -> Tile:
    """The tile of one image: the whole of it squashed to a square, whatever its aspect ratio."""
    pixels = as_bytes(check_image(image))
    colour = pixels if pixels.ndim == 3 else cv2.cvtColor(pixels, cv2.COLOR_GRAY2RGB)
    shrunk = tuple(cv2.resize(colour, (side, side), interpolation=cv2.INTER_AREA) for side in TILE_SIDES)
    return Tile(digest(pixels), np.array(cv2.mean(colour)[:3], np.float32), shrunk)  # type: ignore[arg-type]


def build_tiles(
    images: Path | Iterable[Path | Bytes], folder: Path, *, workers: int = 1, on_skip: Skipped | None = None
) -> TileIndex:
    """Write the tile index of `images` to the new folder `folder` and open it.

    `images` is a folder (searched with all its subfolders), or any iterable of files or decoded images; one image is
    held at a time. The same picture twice is one tile. With `workers` above 1 files are read by that many processes.
    An image that cannot be read is refused; where `on_skip` is given it is told the reason, and the image left out.
    """
    sources = _files(images) if isinstance(images, Path) else images
    with atomic_folder(folder) as draft:
        _write(_readable(run_in_workers(_tile_or_reason, sources, workers=workers), on_skip), draft)
    return open_tiles(folder)


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise InvalidInput(f"tiles are made from a folder of images, got {folder}; name one that exists")
    return [folder / file for file in image_files(folder)]


def _tile_or_reason(source: Path | Bytes) -> Tile | str:
    """The tile, or in one line why there is none: an error that a pool would raise cannot be skipped."""
    try:
        return tile_of(read_image(source) if isinstance(source, Path) else source)
    except (InvalidInput, OSError) as error:
        return f"{source}: {error}" if isinstance(source, Path) and str(source) not in str(error) else str(error)


def _readable(found: Iterable[Tile | str], on_skip: Skipped | None) -> Iterator[Tile]:
    for tile in found:
        if isinstance(tile, Tile):
            yield tile
        elif on_skip is None:
            raise InvalidInput(tile)
        else:
            on_skip(tile)


def _write(tiles: Iterable[Tile], folder: Path) -> None:
    """Thumbnails go to a file as they come and from there, sorted, to those that stay: memory holds a block of them."""
    raw, rows = folder / "unsorted", []
    with raw.open("wb") as file:
        for tile in tiles:
            rows.append((tile.digest, tile.mean))
            file.write(b"".join(map(np.ndarray.tobytes, tile.thumbnails)))
    if not rows:
        raise InvalidInput("a tile index needs images, got none; name a folder that holds some")
    digests, first = np.unique(np.array([row[0] for row in rows], "S64"), return_index=True)
    means = np.stack([rows[place][1] for place in first])
    order, boxes = _tree(means)
    arrays = (digests, means, order, means[order], boxes)
    for name, array in zip(_ARRAYS, arrays, strict=True):
        np.save(folder / f"{name}.npy", array)
    identity = hashlib.sha256(digests.tobytes() + means.tobytes())
    for block in _sorted_thumbnails(raw, first, folder):
        identity.update(block)
    raw.unlink()
    about = {
        "format": _FORMAT,
        "tiles": len(digests),
        "digest": identity.hexdigest(),
        "versions": package_versions(PIXEL_PACKAGES),
    }
    (folder / "tiles.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


def _sorted_thumbnails(raw: Path, places: Whole, folder: Path) -> Iterator[bytes]:
    lengths = [side * side * 3 for side in TILE_SIDES]
    drafts: Bytes = np.memmap(raw, np.uint8, "r").reshape(-1, sum(lengths))
    starts = np.cumsum([0, *lengths])
    for side, start, end in zip(TILE_SIDES, starts, starts[1:], strict=False):
        shape = (len(places), side, side, 3)
        kept = np.lib.format.open_memmap(_thumbnails(folder, side), "w+", np.dtype(np.uint8), shape)
        for row in range(0, len(places), _BLOCK):
            block = drafts[places[row : row + _BLOCK], start:end]
            kept[row : row + _BLOCK] = block.reshape(-1, side, side, 3)
            yield block.tobytes()
        kept.flush()


def _thumbnails(folder: Path, side: int) -> Path:
    return folder / f"thumbnails_{side}.npy"


def open_tiles(folder: Path) -> TileIndex:
    """A tile index that was built before; its arrays stay on disk until they are used.

    What could lead a search out of its arrays is refused; whether the tiles are those once built, `verify_tiles` tells.
    """
    about = folder / "tiles.json"
    if not about.is_file():
        raise InvalidInput(f"a tile index is a folder with tiles.json, got {folder}; build one with build_tiles")
    try:
        facts = json.loads(about.read_text(encoding="utf-8"))
        arrays = {name: _opened(folder / f"{name}.npy") for name in _ARRAYS}
        thumbnails = {side: _opened(_thumbnails(folder, side)) for side in TILE_SIDES}
        count, same, identity = int(facts["tiles"]), facts["format"] == _FORMAT, str(facts["digest"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"the tile index {folder} is broken: {error}; build it again") from error
    if not (same and count > 0 and _fits(count, arrays, thumbnails)):
        raise InvalidInput(f"the tile index {folder} is of another format or incomplete; build it again")
    if not _searchable(count, arrays):
        raise InvalidInput(f"the tile index {folder} is broken: its search tree leads nowhere; build it again")
    return TileIndex(folder.absolute(), identity, thumbnails=thumbnails, **arrays)


def _opened(path: Path) -> NDArray[Any]:
    return np.asarray(np.lib.format.open_memmap(path, mode="r"))  # a plain array over the map, as numba wants it


def _fits(count: int, arrays: Mapping[str, NDArray[Any]], thumbnails: Mapping[int, NDArray[Any]]) -> bool:
    """Whether each array has the type, the shape and the layout that are due for `count` tiles."""
    due: list[tuple[NDArray[Any], tuple[int, ...], str]] = [
        (arrays["digests"], (count,), "S64"),
        (arrays["means"], (count, 3), "f4"),
        (arrays["order"], (count,), "i4"),
        (arrays["leaves"], (count, 3), "f4"),
        (arrays["boxes"], (2 << _depth(count), 6), "f4"),
        *((thumbnails[side], (count, side, side, 3), "u1") for side in TILE_SIDES),
    ]
    return all(a.shape == shape and a.dtype == np.dtype(kind) and a.flags.c_contiguous for a, shape, kind in due)


def _searchable(count: int, arrays: Mapping[str, NDArray[Any]]) -> bool:
    """Whether every step of a search ends at a tile: compiled code follows these numbers unchecked."""
    order = arrays["order"]
    finite = all(np.isfinite(arrays[name]).all() for name in ("means", "leaves", "boxes"))
    return finite and int(order.min()) >= 0 and int(order.max()) < count


def verify_tiles(index: TileIndex) -> None:
    """Read the whole index and refuse it unless tiles and search tree are those that were built."""
    identity = hashlib.sha256(index.digests.tobytes() + index.means.tobytes())
    for side in TILE_SIDES:
        identity.update(index.thumbnails[side].data)
    if identity.hexdigest() != index.digest:
        raise InvalidInput(f"the tile index {index.path} has changed since it was built; build it again")
    whole = (np.bincount(index.order, minlength=len(index)) == 1).all()  # each tile once
    same = whole and (index.leaves == index.means[index.order]).all()
    if not same or not (index.boxes == _boxes_of(index.leaves)).all():
        raise InvalidInput(f"the search tree of the tile index {index.path} does not fit its tiles; build it again")


def _boxes_of(leaves: Floats) -> Floats:
    """Lowest and highest colour under each node, tiles in the tree's order: how the tree splits them is not asked."""
    boxes = np.empty((2 << _depth(len(leaves)), 6), np.float32)
    for node in range(1, len(boxes)):
        start, _, end = _span(len(leaves), node)
        boxes[node] = (*leaves[start:end].min(axis=0), *leaves[start:end].max(axis=0))
    boxes[0] = boxes[1]
    return boxes


def nearest_tiles(index: TileIndex, colours: NDArray[np.float64], *, without: int | None = None) -> Whole:
    """For each row of `colours` (n, 3) the tile nearest in mean RGB (Euclidean); of equally near ones the first.

    `without` is the position of a tile that is not to be used.
    """
    if len(index) < 1 + (without is not None):
        raise InvalidInput("a nearest tile needs at least 1 tile that may be used, got 0; build the index from more")
    left_out = -1 if without is None else without
    return _nearest(colours, index.means, index.order, index.leaves, index.boxes, left_out)


def _tree(means: Floats) -> tuple[NDArray[np.int32], Floats]:
    """A balanced tree that halves the tiles along their widest channel, down to leaves: tiles in order, node boxes.

    Node k at depth d holds tiles `n * (k - 2**d) >> d` up to where its neighbour's begin, so no bounds are stored.
    """
    count = len(means)
    depth = _depth(count)
    order, boxes = np.arange(count, dtype=np.int32), np.empty((2 << depth, 6), np.float32)
    for node in range(1, 2 << depth):
        start, middle, end = _span(count, node)
        part = order[start:end]
        low, high = means[part].min(axis=0), means[part].max(axis=0)
        boxes[node] = (*low, *high)
        if node < 1 << depth:
            keys = means[part, np.argmax(high - low)]
            order[start:end] = part[np.argpartition(keys, middle - start)]
    boxes[0] = boxes[1]  # node 0 is not used
    return order, boxes


def _depth(count: int) -> int:
    return max(0, int(np.ceil(np.log2(count / _LEAF))))


def _span(count: int, node: int) -> tuple[int, int, int]:
    """Where a node's tiles begin, where those of its second child do, and where they end."""
    level = node.bit_length() - 1
    first = 2 * (node - (1 << level))
    start, middle, end = (count * place >> (level + 1) for place in (first, first + 1, first + 2))
    return start, middle, end


@njit(cache=True)
def _box_distance(boxes: Floats, node: int, red: float, green: float, blue: float) -> float:
    r = max(boxes[node, 0] - red, red - boxes[node, 3], 0.0)
    g = max(boxes[node, 1] - green, green - boxes[node, 4], 0.0)
    b = max(boxes[node, 2] - blue, blue - boxes[node, 5], 0.0)
    return r * r + g * g + b * b  # type: ignore[no-any-return]


@njit(cache=True)
def _distance(means: Floats, row: int, red: float, green: float, blue: float) -> float:
    r, g, b = means[row, 0] - red, means[row, 1] - green, means[row, 2] - blue
    return r * r + g * g + b * b  # type: ignore[no-any-return]


@njit(cache=True)
def _nearest(
    colours: NDArray[np.float64],
    means: Floats,
    order: NDArray[np.int32],
    leaves: Floats,
    boxes: Floats,
    without: int,
) -> Whole:
    found = np.empty(len(colours), np.int64)
    waiting, bounds = np.empty(64, np.int64), np.empty(64, np.float64)  # one entry a depth at most
    best, reach = -1, np.inf
    for query in range(len(colours)):
        red, green, blue = colours[query, 0], colours[query, 1], colours[query, 2]
        if query > 0:  # the last answer bounds this one: neighbouring cells are alike
            reach = _distance(means, best, red, green, blue)
        best = _search(red, green, blue, best, reach, order, leaves, boxes, without, waiting, bounds)
        found[query] = best
    return found


@njit(cache=True)
def _search(
    red: float,
    green: float,
    blue: float,
    best: int,
    reach: float,
    order: NDArray[np.int32],
    leaves: Floats,
    boxes: Floats,
    without: int,
    waiting: Whole,
    bounds: NDArray[np.float64],
) -> int:
    """The nearest tile, given one (or -1) at the squared distance `reach`: depth first, the nearer child first.

    A box is left out only when it is farther than the best tile so far. Its distance is the same sum of terms that are
    each no larger, and rounding keeps order, so the search is exact, ties included.
    """
    inner = len(boxes) // 2
    waiting[0], bounds[0], count = 1, 0.0, 1
    while count > 0:
        count -= 1
        node, bound = waiting[count], bounds[count]
        while node < inner and bound <= reach:
            near, far = 2 * node, 2 * node + 1
            bound = _box_distance(boxes, near, red, green, blue)
            other = _box_distance(boxes, far, red, green, blue)
            if other < bound:
                near, far, bound, other = far, near, other, bound
            waiting[count], bounds[count] = far, other
            count += other <= reach
            node = near
        if bound <= reach:
            for place in range(len(order) * (node - inner) // inner, len(order) * (node - inner + 1) // inner):
                distance = _distance(leaves, place, red, green, blue)
                if distance <= reach:
                    tile = order[place]
                    if tile != without and (distance < reach or tile < best):
                        best, reach = tile, distance
    return best

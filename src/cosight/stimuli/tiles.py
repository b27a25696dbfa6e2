"""Tile indexes: many images shrunk to thumbnails, searched by mean colour.

An index is built once from a folder or from decoded images and stored as a folder of .npy files, which are opened
memory-mapped, so that worker processes share them. A pickled index is only its path. Tiles are sorted by digest: the
order of the files does not matter.
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
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from cosight.errors import InvalidInput
from cosight.files import atomic_folder, package_versions, read_json
from cosight.processes import run_in_workers
from cosight.stimuli.images import Bytes, Floats, as_bytes, check_image, digest, read_image
from cosight.stimuli.sets import PIXEL_PACKAGES, image_files

__all__ = [
    "TILE_SIDES",
    "Tile",
    "TileIndex",
    "build_tiles",
    "make_tile",
    "nearest_tiles",
    "open_tiles",
    "verify_tiles",
]

TILE_SIDES = (4, 6, 8, 16, 28)  # pixels; LAION-C's mosaic, 16 also its stickers (Li et al. 2025, tables 2 and 6)
_FORMAT = 2  # 1 stored a search tree
_BLOCK = 4096  # tiles written at a time
_TIE = 1 + 1e-9  # distances this near to each other may be equal but for rounding


@dataclass(frozen=True, slots=True)
class Tile:
    """One image as a tile: its digest, its mean colour and its thumbnails, one per side of TILE_SIDES."""

    digest: str
    mean: Floats  # (3,)
    thumbnails: tuple[Bytes, ...]  # each (side, side, 3)


@dataclass(frozen=True, slots=True, eq=False)
class TileIndex:
    """Tiles sorted by digest, stored in `path`; `digest` identifies all of them together."""

    path: Path
    digest: str
    digests: NDArray[np.bytes_] = field(repr=False)  # (tiles,) hexadecimal, sorted
    means: Floats = field(repr=False)  # (tiles, 3)
    thumbnails: Mapping[int, Bytes] = field(repr=False)  # side: (tiles, side, side, 3)
    tree: cKDTree[None] = field(repr=False)  # of the distinct means
    first_tiles: NDArray[np.int64] = field(repr=False)  # for each distinct mean, the first tile that has it

    def __len__(self) -> int:
        return len(self.digests)

    def __reduce__(self) -> tuple[Any, ...]:
        return open_tiles, (self.path,)

    def position(self, digest: str) -> int | None:
        """Return the position of the tile whose image has this digest, None if there is none."""
        position = int(np.searchsorted(self.digests, np.bytes_(digest.encode())))
        return position if position < len(self) and self.digests[position] == digest.encode() else None


def make_tile(image: Bytes) -> Tile:
    """Shrink one image to a tile, a square. The aspect ratio is not kept."""
    pixels = as_bytes(check_image(image))
    colour = pixels if pixels.ndim == 3 else cv2.cvtColor(pixels, cv2.COLOR_GRAY2RGB)
    thumbnails = tuple(cv2.resize(colour, (side, side), interpolation=cv2.INTER_AREA) for side in TILE_SIDES)
    return Tile(digest(pixels), np.array(cv2.mean(colour)[:3], np.float32), thumbnails)  # type: ignore[arg-type]


def build_tiles(
    images: Path | Iterable[Path | Bytes],
    folder: Path,
    *,
    workers: int = 1,
    on_skip: Callable[[str], None] | None = None,
) -> TileIndex:
    """Write the tile index of `images` to a new folder and open it. Duplicate images become one tile.

    Args:
        images: A folder (searched with all its subfolders), or an iterable of files or decoded images, of which one is
            in memory at a time.
        folder: Where to write the index. It must not exist.
        workers: Number of processes that read files.
        on_skip: Called with the reason when an image cannot be read. The image is left out.

    Returns:
        The index, opened.

    Raises:
        InvalidInput: If there are no images, or if one cannot be read and `on_skip` is None.

    >>> images = [np.full((32, 32, 3), grey, np.uint8) for grey in (0, 100, 200)]
    >>> index = build_tiles(images, Path("tiles"))
    >>> len(index), index.thumbnails[16].shape
    (3, (3, 16, 16, 3))
    """
    if isinstance(images, Path):
        if not images.is_dir():
            raise InvalidInput(f"tiles are made from a folder of images, got {images}; name an existing folder")
        images = [images / file for file in image_files(images)]
    with atomic_folder(folder) as draft:
        _write(_readable_tiles(run_in_workers(_tile_or_reason, images, workers=workers), on_skip), draft)
    return open_tiles(folder)


def _tile_or_reason(source: Path | Bytes) -> Tile | str:
    """Return the tile, or the reason why there is none: an error raised in a worker would end the pool."""
    try:
        return make_tile(read_image(source) if isinstance(source, Path) else source)
    except (InvalidInput, OSError) as error:
        return f"{source}: {error}" if isinstance(source, Path) and str(source) not in str(error) else str(error)


def _readable_tiles(results: Iterable[Tile | str], on_skip: Callable[[str], None] | None) -> Iterator[Tile]:
    for result in results:
        if isinstance(result, Tile):
            yield result
        elif on_skip is None:
            raise InvalidInput(result)
        else:
            on_skip(result)


def _write(tiles: Iterable[Tile], folder: Path) -> None:
    """Write thumbnails to a temporary file as they arrive and copy them, sorted, in blocks: memory stays bounded."""
    unsorted, tile_digests, tile_means = folder / "unsorted", [], []
    with unsorted.open("wb") as file:
        for tile in tiles:
            tile_digests.append(tile.digest)
            tile_means.append(tile.mean)
            file.write(b"".join(thumbnail.tobytes() for thumbnail in tile.thumbnails))
    if not tile_digests:
        raise InvalidInput("a tile index needs images, got none; name a folder that contains some")
    digests, order = np.unique(np.array(tile_digests, "S64"), return_index=True)
    means = np.stack(tile_means)[order]
    np.save(folder / "digests.npy", digests)
    np.save(folder / "means.npy", means)
    identity = hashlib.sha256(digests.tobytes() + means.tobytes())
    starts = np.cumsum([0, *(side * side * 3 for side in TILE_SIDES)])
    records: Bytes = np.memmap(unsorted, np.uint8, "r").reshape(-1, starts[-1])
    for side, start, end in zip(TILE_SIDES, starts, starts[1:], strict=False):
        header = {"descr": "|u1", "fortran_order": False, "shape": (len(order), side, side, 3)}
        with (folder / f"thumbnails_{side}.npy").open("wb") as file:  # not a memory map: on a full disk it gets SIGBUS
            np.lib.format.write_array_header_1_0(file, header)
            for row in range(0, len(order), _BLOCK):
                block = records[order[row : row + _BLOCK], start:end].tobytes()
                file.write(block)
                identity.update(block)
    unsorted.unlink()
    facts = {
        "format": _FORMAT,
        "tiles": len(digests),
        "digest": identity.hexdigest(),
        "versions": package_versions(PIXEL_PACKAGES),
    }
    (folder / "tiles.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def open_tiles(folder: Path) -> TileIndex:
    """Open a tile index. Its arrays stay on disk until they are used; the search tree is built.

    Args:
        folder: The folder of the index.

    Returns:
        The index.

    Raises:
        InvalidInput: If there is no index, or a file has the wrong type or shape. (`verify_tiles` also compares the
            content with the digest.)

    >>> _ = build_tiles([np.zeros((32, 32, 3), np.uint8)], Path("black"))
    >>> open_tiles(Path("black")).means
    array([[0., 0., 0.]], dtype=float32)
    """
    if not (folder / "tiles.json").is_file():
        raise InvalidInput(f"a tile index is a folder with tiles.json, got {folder}; build one with build_tiles")
    try:
        facts = read_json(folder / "tiles.json")
        if facts["format"] != _FORMAT:
            raise ValueError(f"its format is {facts['format']}, this version reads {_FORMAT}")
        count, identity = int(facts["tiles"]), str(facts["digest"])
        digests = _open_array(folder / "digests.npy", (count,), "S64")
        means = _open_array(folder / "means.npy", (count, 3), "f4")
        thumbnails = {
            side: _open_array(folder / f"thumbnails_{side}.npy", (count, side, side, 3), "u1") for side in TILE_SIDES
        }
        distinct, first_tiles = np.unique(means, axis=0, return_index=True)
        tree = cKDTree(distinct, leafsize=16)  # 8 to 32 are about as fast
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"cannot open the tile index {folder}: {error}; build it again") from error
    return TileIndex(folder.absolute(), identity, digests, means, thumbnails, tree, first_tiles)


def _open_array(path: Path, shape: tuple[int, ...], kind: str) -> NDArray[Any]:
    array = np.lib.format.open_memmap(path, mode="r")
    if array.shape != shape or array.dtype != np.dtype(kind) or not array.flags.c_contiguous or not array.size:
        raise ValueError(f"{path.name} has shape {array.shape} and type {array.dtype}, expected {shape} and {kind}")
    return np.asarray(array)


def verify_tiles(index: TileIndex) -> None:
    """Read the complete index and raise InvalidInput unless its content has the digest it was built with."""
    identity = hashlib.sha256(index.digests.tobytes() + index.means.tobytes())
    for side in TILE_SIDES:
        identity.update(index.thumbnails[side].data)
    if identity.hexdigest() != index.digest:
        raise InvalidInput(f"the tile index {index.path} has changed since it was built; build it again")


def nearest_tiles(index: TileIndex, colours: NDArray[np.float64], *, without: int | None = None) -> NDArray[np.int64]:
    """Return for each colour the tile nearest in mean RGB (Euclidean); the first of equally near tiles.

    Args:
        index: Where to search.
        colours: (n, 3) RGB in [0, 255].
        without: Position of a tile that must not be used.

    Returns:
        (n,) positions of tiles.

    Raises:
        InvalidInput: If no tile may be used.
    """
    if len(index) < 1 + (without is not None):
        raise InvalidInput("a nearest tile needs at least 1 tile that may be used, got 0; build the index from more")
    first_tiles, excluded = index.first_tiles, -1
    if without is not None and without in first_tiles:
        mean = int(np.flatnonzero(first_tiles == without)[0])
        same_mean = np.flatnonzero((index.means == index.means[without]).all(axis=1))
        if len(same_mean) > 1:
            first_tiles = first_tiles.copy()
            first_tiles[mean] = same_mean[1]
        else:
            excluded = mean
    count = 2 + (excluded >= 0)
    distances, candidates = map(np.asarray, index.tree.query(colours, k=count))  # missing ones are infinitely far
    if excluded >= 0:
        rest = np.argsort(candidates == excluded, axis=1, kind="stable")  # the excluded one last
        distances, candidates = (np.take_along_axis(array, rest, axis=1) for array in (distances, candidates))
    nearest: NDArray[np.int64] = first_tiles[candidates[:, 0]]
    for row in np.flatnonzero(distances[:, 1] <= distances[:, 0] * _TIE):  # compare all that may be equally near
        means = np.array(index.tree.query_ball_point(colours[row], float(distances[row, 0]) * _TIE), np.int64)
        means = means[means != excluded]
        exact = ((colours[row] - index.tree.data[means]) ** 2).sum(axis=1)
        nearest[row] = first_tiles[means[exact == exact.min()]].min()
    return nearest

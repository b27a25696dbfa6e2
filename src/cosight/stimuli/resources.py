"""Resources that some kinds need besides the image: a tile index (mosaic, stickers), a mean spectrum.

A resource is built once from a folder of images and stored in the output folder of the set. `resources.json` there
records which files it was built from, so that an interrupted run can be resumed.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import polars as pl

from cosight.errors import InvalidInput
from cosight.files import DRAFT_SUFFIX, atomic_write, file_stamp, read_json, wait_for_lock
from cosight.processes import core_count
from cosight.stimuli.composition.masks import MASK_SUFFIX
from cosight.stimuli.images import Bytes, Preparation, check_image
from cosight.stimuli.journal import is_started
from cosight.stimuli.manipulations import Spectrum, mean_spectrum, read_spectrum
from cosight.stimuli.sets import StimulusSet, read_set
from cosight.stimuli.tiles import TileIndex, build_tiles, open_tiles, verify_tiles

__all__ = ["spectrum_for_set", "tiles_for_set"]

OnSkip = Callable[[str], None]
_RECORD = "resources.json"
_TILES_LOCK = ".tiles.lock"  # of the process that builds the index


def tiles_for_set(
    out: Path, sources: Path, *, given: Path | None = None, workers: int | None = None, on_skip: OnSkip | None = None
) -> TileIndex:
    """Return the tile index for a set, building it if necessary.

    An index that is built here is stored in `out` and reused by the next run; one that exists is verified.

    Args:
        out: Output folder of the set.
        sources: Folder of images to build the index from.
        given: A tile index, or another folder of images to build it from.
        workers: Number of worker processes (default: one per core).
        on_skip: Called with the reason for each image that cannot be a tile. Without it such an image is an error.

    Raises:
        InvalidInput: If `out` has an index of other images, or an image cannot be used.
    """
    stored = out / "tiles"
    images = given or sources
    if given is not None and (given / "tiles.json").exists():
        index = open_tiles(given)
        if stored.exists():
            _check_tiles(stored, index.digest, given)
    else:
        if not stored.exists():
            listed = _without_masks(images)  # before the folder of the set is made
            with wait_for_lock(out / _TILES_LOCK):
                if not stored.exists():  # another process may have built it meanwhile
                    with _recorded(out, "tiles", listed):
                        return _build_tiles(images, stored, workers, on_skip)
        if given is None:
            _check_record(out, "tiles", _without_masks(sources))
        else:
            with tempfile.TemporaryDirectory(dir=out, prefix=".", suffix=DRAFT_SUFFIX) as draft:
                digest = _build_tiles(given, Path(draft) / "tiles", workers, on_skip).digest
            _check_tiles(stored, digest, given)
        index = open_tiles(stored)
    verify_tiles(index)
    return index


def _check_tiles(stored: Path, digest: str, given: Path) -> None:
    if open_tiles(stored).digest != digest:
        raise InvalidInput(
            f"{stored.parent} has tiles of other images than {given}; "
            "leave --tiles out to use those, or choose another output folder"
        )


def _without_masks(folder: Path) -> StimulusSet:
    """Read the images of a folder; masks beside photos are not tiles."""
    images = read_set(folder)
    return replace(images, frame=images.frame.filter(~pl.col("file").str.ends_with(MASK_SUFFIX)))


def _build_tiles(images: Path, folder: Path, workers: int | None, on_skip: OnSkip | None) -> TileIndex:
    stimuli = _without_masks(images)
    if len(stimuli) < 2:
        raise InvalidInput(
            f"mosaic and stickers need at least 2 tiles, found 1 image in {images}; give more with --tiles"
        )
    paths = [stimuli.path(file) for file in stimuli.frame["file"]]
    return build_tiles(paths, folder, workers=core_count() if workers is None else workers, on_skip=on_skip)


def spectrum_for_set(
    out: Path,
    sources: StimulusSet,
    *,
    prepare: Preparation | None = None,
    given: Path | None = None,
    on_skip: OnSkip | None = None,
) -> Spectrum:
    """Return the mean amplitude spectrum for a set, computing it if necessary.

    A spectrum that is computed here is stored in `out` and reused by the next run.

    Args:
        out: Output folder of the set.
        sources: The images to average over.
        prepare: How they are resized first.
        given: File of a spectrum to use instead.
        on_skip: Called with the reason for each source that cannot be used. Without it such a source is an error.

    Raises:
        InvalidInput: If `out` has another spectrum, or a source cannot be used.
    """
    path = out / "spectrum.npy"
    stored = read_spectrum(path) if path.exists() else None
    if given is not None:
        spectrum = read_spectrum(given)
        if stored is not None and stored.digest != spectrum.digest:
            raise InvalidInput(
                f"{out} has another spectrum than {given}; "
                "leave --spectrum out to use it, or choose another output folder"
            )
        return spectrum
    if stored is not None:
        _check_record(out, "spectrum", sources)
        return stored
    spectrum = mean_spectrum(_prepared_images(sources, prepare, on_skip))
    with _recorded(out, "spectrum", sources):
        spectrum.save(path)
    return spectrum


def _prepared_images(sources: StimulusSet, prepare: Preparation | None, on_skip: OnSkip | None) -> Iterator[Bytes]:
    for file in sources.frame["file"]:
        try:
            pixels = check_image(sources.pixels(file))
            ready = check_image(prepare(pixels) if prepare else pixels)
        except (InvalidInput, OSError) as error:
            path = str(sources.path(file))
            reason = str(error) if path in str(error) else f"{path}: {error}"
            if on_skip is None:
                raise InvalidInput(reason) from error
            on_skip(reason)
        else:
            yield ready


@contextmanager
def _recorded(out: Path, resource: str, sources: StimulusSet) -> Iterator[None]:
    """Record what a resource is built from, before the block builds it; restore the old record if the block fails."""
    path = out / _RECORD
    before = path.read_text(encoding="utf-8-sig") if path.exists() else None
    record = read_json(path) if before else {}
    with atomic_write(path) as draft:
        record[resource] = _identity(sources)
        draft.write_text(json.dumps(record, sort_keys=True) + "\n", encoding="utf-8")
    try:
        yield
    except Exception:
        if before is None:
            path.unlink()
        else:
            with atomic_write(path) as draft:
                draft.write_text(before, encoding="utf-8")
        raise


def _check_record(out: Path, resource: str, sources: StimulusSet) -> None:
    """Raise if a stored resource was built from other sources. A set that was started records its resources itself."""
    if is_started(out):
        return
    path = out / _RECORD
    record = read_json(path) if path.exists() else {}
    if not isinstance(record, dict) or record.get(resource) != _identity(sources):
        raise InvalidInput(
            f"cannot reuse the {resource} in {out}: not built from {sources.root}; give it with --{resource}, or "
            "choose another output folder"
        )


def _identity(sources: StimulusSet) -> str:
    """Return the sha256 of the files' names and bytes."""
    files = (f"{file} {file_stamp(sources.path(file))}\n" for file in sources.frame["file"])
    return hashlib.sha256("".join(files).encode()).hexdigest()

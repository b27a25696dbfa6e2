"""What some kinds need besides the image: made once from a whole folder, kept beside the set that is made with it."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cosight.errors import InvalidInput
from cosight.files import DRAFT_SUFFIX, atomic_write, file_stamp
from cosight.stimuli.images import Bytes, Preparation, check_image
from cosight.stimuli.journal import is_started
from cosight.stimuli.manipulations import Spectrum, mean_spectrum, read_spectrum
from cosight.stimuli.sets import StimulusSet, read_set
from cosight.stimuli.tiles import TileIndex, build_tiles, open_tiles, verify_tiles

__all__ = ["spectrum_for_set", "tiles_for_set"]

Skipped = Callable[[str], None]
_NOTE = "resources.json"  # of which files the resources kept in a folder are made


def tiles_for_set(
    out: Path, sources: Path, *, given: Path | None = None, workers: int | None = None, on_skip: Skipped | None = None
) -> TileIndex:
    """The tile index for a set in `out`: of what is `given` (an index, or a folder of images), else of all `sources`.

    An index built here is kept in `out` and found there again; if another is kept already, what is given is refused.
    An index that was not built just now is verified. An image that cannot be a tile is refused, or told to `on_skip`
    and left out.
    """
    kept = out / "tiles"
    if given is not None and (given / "tiles.json").exists():
        index = open_tiles(given)
        if kept.exists():
            _check_tiles(kept, index.digest, given)
    elif not kept.exists():
        with _noted(out, "tiles", read_set(given or sources)):
            return _built(given or sources, kept, workers, on_skip)
    else:
        if given is None:
            _check_ours(out, "tiles", read_set(sources))
        else:
            _check_tiles(kept, _digest_of(given, out, workers, on_skip), given)
        index = open_tiles(kept)
    verify_tiles(index)
    return index


def _check_tiles(kept: Path, digest: str, given: Path) -> None:
    if open_tiles(kept).digest != digest:
        raise InvalidInput(
            f"{kept.parent} holds tiles of other images than {given}; "
            "leave --tiles out to use those, or name another output folder"
        )


def _digest_of(images: Path, out: Path, workers: int | None, on_skip: Skipped | None) -> str:
    """Identity of the index that these images give."""
    with tempfile.TemporaryDirectory(dir=out, prefix=".", suffix=DRAFT_SUFFIX) as draft:
        return _built(images, Path(draft) / "tiles", workers, on_skip).digest


def _built(images: Path, folder: Path, workers: int | None, on_skip: Skipped | None) -> TileIndex:
    found = read_set(images)
    if len(found) < 2:
        raise InvalidInput(
            f"mosaic and stickers need at least 2 tiles, found 1 image in {images}; give more with --tiles"
        )
    paths = [found.path(file) for file in found.frame["file"]]
    count = workers if workers is not None else os.cpu_count() or 1
    return build_tiles(paths, folder, workers=count, on_skip=on_skip)


def spectrum_for_set(
    out: Path,
    sources: StimulusSet,
    *,
    prepare: Preparation | None = None,
    given: Path | None = None,
    on_skip: Skipped | None = None,
) -> Spectrum:
    """The spectrum given as a file, else the one in `out`, else the mean over all sources, then kept in `out`.

    If another than the one given is kept already, the given one is refused. A source that cannot be used is refused,
    or told to `on_skip` and left out.
    """
    kept = out / "spectrum.npy"
    there = read_spectrum(kept) if kept.exists() else None
    if given is not None:
        spectrum = read_spectrum(given)
        if there is not None and there.digest != spectrum.digest:
            raise InvalidInput(
                f"{out} holds another spectrum than {given}; "
                "leave --spectrum out to use it, or name another output folder"
            )
        return spectrum
    if there is not None:
        _check_ours(out, "spectrum", sources)
        return there
    spectrum = mean_spectrum(_prepared(sources, prepare, on_skip))
    with _noted(out, "spectrum", sources):
        spectrum.save(kept)
    return spectrum


@contextmanager
def _noted(out: Path, resource: str, sources: StimulusSet) -> Iterator[None]:
    """Note of what a resource is made, so that a run killed before its first image knows it again.

    The note comes first: a resource without one would be nobody's. Where nothing comes of it, it is as before.
    """
    path = out / _NOTE
    before = path.read_text(encoding="utf-8") if path.exists() else None
    known = json.loads(before) if before else {}
    with atomic_write(path) as draft:
        draft.write_text(json.dumps({**known, resource: _identity(sources)}, sort_keys=True) + "\n", encoding="utf-8")
    try:
        yield
    except Exception:
        path.unlink()
        if before is not None:
            path.write_text(before, encoding="utf-8")
        raise


def _check_ours(out: Path, resource: str, sources: StimulusSet) -> None:
    """A set that was begun names its resources itself; before that, what is there must be of these sources."""
    if is_started(out):
        return
    path = out / _NOTE
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if known.get(resource) != _identity(sources):
        raise InvalidInput(
            f"{out} holds a {resource} that is not of {sources.root}; give it with --{resource}, or name another folder"
        )


def _identity(sources: StimulusSet) -> str:
    """sha256 of the files' names and bytes."""
    files = (f"{file} {file_stamp(sources.path(file))}\n" for file in sources.frame["file"])
    return hashlib.sha256("".join(files).encode()).hexdigest()


def _prepared(sources: StimulusSet, prepare: Preparation | None, on_skip: Skipped | None) -> Iterator[Bytes]:
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

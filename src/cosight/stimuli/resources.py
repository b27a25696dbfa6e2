"""What some kinds need besides the image: made once from a whole folder, kept beside the set that is made with it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from cosight.errors import InvalidInput
from cosight.stimuli.manipulations import Spectrum, mean_spectrum, read_spectrum
from cosight.stimuli.prepare import Preparation
from cosight.stimuli.sets import StimulusSet, read_set
from cosight.stimuli.tiles import TileIndex, build_tiles, open_tiles

__all__ = ["spectrum_beside", "tiles_beside"]


def tiles_beside(
    out: Path, images: Path, *, workers: int | None = None, on_skip: Callable[[str], None] | None = None
) -> TileIndex:
    """The tile index in `out`, built from all `images` where there is none yet; an index given as `images` is taken.

    An image that cannot be a tile is refused, or told to `on_skip` and left out.
    """
    if (images / "tiles.json").exists():
        return open_tiles(images)
    kept = out / "tiles"
    if kept.exists():
        return open_tiles(kept)
    found = read_set(images)
    if len(found) < 2:
        raise InvalidInput(
            f"mosaic and stickers need at least 2 tiles, found 1 image in {images}; give more with --tiles"
        )
    paths = [found.path(file) for file in found.frame["file"]]
    return build_tiles(paths, kept, workers=workers or os.cpu_count() or 1, on_skip=on_skip)


def spectrum_beside(
    out: Path, sources: StimulusSet, *, prepare: Preparation | None = None, given: Path | None = None
) -> Spectrum:
    """The spectrum given as a file, else the one in `out`, else the mean over all sources, then kept in `out`."""
    kept = out / "spectrum.npy"
    if given is not None or kept.exists():
        return read_spectrum(given or kept)
    pixels = map(sources.pixels, sources.frame["file"])
    spectrum = mean_spectrum(map(prepare, pixels) if prepare else pixels)
    spectrum.save(kept)
    return spectrum

"""LAION-C's six distortions, levels 1 to 5 (Li et al. 2025, appendix A.4).

Sizes are in pixels, as published, for every image size: prepare images to 224 x 224 for the published strength. A grey
image is converted to RGB, distorted, and converted back (luma); only `glitched` works on the single channel.
"""

from __future__ import annotations

from typing import get_args

import numpy as np

from cosight.errors import InvalidInput
from cosight.stimuli.distortions import overlays as _overlays  # noqa: F401 (importing registers its kinds)
from cosight.stimuli.distortions.glitch import Geometry, GlitchRegion, glitch_regions
from cosight.stimuli.distortions.levels import distortions
from cosight.stimuli.images import Image
from cosight.stimuli.kinds import apply_kind
from cosight.stimuli.tiles import TileIndex

__all__ = ["Geometry", "GlitchRegion", "distort", "distortions", "glitch_regions"]


def distort(
    image: Image,
    kind: str,
    *,
    level: int,
    rng: np.random.Generator | None = None,
    tiles: TileIndex | None = None,
    own: str | None = None,
    geometry: Geometry = "per-image",
) -> Image:
    """Apply one of LAION-C's distortions; the result has the shape and dtype of the input, which is not changed.

    Args:
        image: (height, width, 3) RGB or (height, width) grey; uint8, or floating point in [0, 1].
        kind: Name of a distortion (`cosight list distortions`).
        level: 1 to 5.
        rng: Generator of random kinds.
        tiles: The images that mosaic and stickers consist of. The tile of the image itself is never used.
        own: Digest under which the index contains the image, if that is not the digest of these very pixels (because
            the tile was made before resizing, for example).
        geometry: "published" glitches every image of one size alike, as the published set does, and needs no `rng`.

    Returns:
        The distorted image.

    Raises:
        InvalidInput: If an argument is out of range or missing.
        UnknownName: If there is no such distortion.

    >>> photo = np.full((64, 64, 3), 128, np.uint8)
    >>> distort(photo, "glitched", level=3, rng=np.random.default_rng(0)).shape
    (64, 64, 3)
    """
    if geometry not in get_args(Geometry):
        raise InvalidInput(f"geometry must be {' or '.join(get_args(Geometry))}, got {geometry}")
    entry = distortions[kind]
    step = entry.step(str(level), word="level")
    return apply_kind(entry, image, step, rng, {"tiles": tiles, "own": own, "geometry": geometry})

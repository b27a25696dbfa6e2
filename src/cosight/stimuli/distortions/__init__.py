"""LAION-C's six distortions, levels 1 to 5 (Li et al. 2025, appendix A.4).

* patches     mosaic and stickers, made of other images (`cosight.stimuli.tiles`)
* glitch      bands and a channel shifted, scan lines
* drawn       vertical lines, geometric shapes
* luminance   a checkerboard of lighter and darker squares

Sizes are pixels as published, whatever the image: prepare images to 224 x 224 for the published strength. A grey image
is distorted as its RGB copy would be and made grey (luma) again; only `glitched` works on the one channel.

>>> photo = np.full((64, 64, 3), 128, np.uint8)
>>> distort(photo, "glitched", level=3, rng=np.random.default_rng(0)).shape
(64, 64, 3)
"""

from __future__ import annotations

from typing import get_args

import numpy as np

from cosight.errors import InvalidInput
from cosight.stimuli.distortions import drawn, luminance, patches  # noqa: F401 (importing declares their kinds)
from cosight.stimuli.distortions.common import distortions
from cosight.stimuli.distortions.glitch import Geometry, GlitchRegion, glitch_regions
from cosight.stimuli.images import Image
from cosight.stimuli.kinds import alter
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
    """`image` under one of LAION-C's distortions, with its shape and dtype.

    Mosaic and stickers draw from `tiles` and never use the tile of the image itself; `own` is the digest by which the
    index knows the image where that is not the digest of these very pixels (the tile was made before resizing, say).
    `geometry="published"` glitches every image of one size alike, as the published set does, and needs no `rng`.
    """
    if geometry not in get_args(Geometry):
        raise InvalidInput(f"geometry must be {' or '.join(get_args(Geometry))}, got {geometry}")
    entry = distortions[kind]
    step = entry.step(str(level), word="level")
    return alter(entry, image, step, rng, {"tiles": tiles, "own": own, "geometry": geometry})

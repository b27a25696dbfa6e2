"""Corruptions: ImageNet-C's fifteen with severities 1 to 10 and cropping (VisAlign's), and its four extras."""

from __future__ import annotations

import numpy as np

# isort: off
from cosight.stimuli.corruptions import noise as _noise  # noqa: F401 (importing registers; in this order they are listed)
from cosight.stimuli.corruptions import blur as _blur  # noqa: F401
from cosight.stimuli.corruptions import weather as _weather  # noqa: F401
from cosight.stimuli.corruptions import digital as _digital  # noqa: F401
# isort: on

from cosight.stimuli.corruptions.digital import CropRegion
from cosight.stimuli.corruptions.frost import FrostTextures, load_textures, procedural_textures
from cosight.stimuli.corruptions.severities import Variant, corruptions, severity_step
from cosight.stimuli.images import Image
from cosight.stimuli.kinds import alter

__all__ = [
    "CropRegion",
    "FrostTextures",
    "Variant",
    "corrupt",
    "corruptions",
    "load_textures",
    "procedural_textures",
    "severity_step",
]


def corrupt(
    image: Image,
    kind: str,
    *,
    severity: int,
    rng: np.random.Generator | None = None,
    variant: Variant = "visalign",
    textures: FrostTextures | None = None,
    region: CropRegion = "centre",
) -> Image:
    """The image corrupted: same shape, same dtype, the input untouched.

    `variant` "visalign" has severities 1 to 10 and a brightness that multiplies, "imagenet-c" 1 to 5 and one that adds;
    the other constants are the same. `textures` is for frost (photos from `load_textures`; ours by default), `region`
    for cropping. Random kinds need `rng`; its state decides every pixel.

    >>> grey = np.full((32, 32), 100, np.uint8)
    >>> int(corrupt(grey, "brightness", severity=2)[0, 0])
    200
    """
    entry = corruptions[kind]
    step = severity_step(entry, severity, variant)
    return alter(entry, image, step, rng, {"variant": variant, "textures": textures, "region": region})

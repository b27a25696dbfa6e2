"""Corruptions: ImageNet-C's fifteen with severities 1 to 10 and cropping (VisAlign's), and its four extras."""

from __future__ import annotations

import numpy as np

# isort: off
from cosight.stimuli.corruptions import noise as _noise  # noqa: F401 (importing registers, in the order of the lists)
from cosight.stimuli.corruptions import blur as _blur  # noqa: F401
from cosight.stimuli.corruptions import weather as _weather  # noqa: F401
from cosight.stimuli.corruptions import digital as _digital  # noqa: F401
# isort: on

from cosight.stimuli.corruptions.digital import CropRegion
from cosight.stimuli.corruptions.frost_textures import FrostTextures, load_textures, procedural_textures
from cosight.stimuli.corruptions.severities import Variant, corruptions, severity_step
from cosight.stimuli.images import Image
from cosight.stimuli.kinds import apply_kind

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
    """Corrupt one image; the result has the shape and dtype of the input, which is not changed.

    Args:
        image: (height, width, 3) RGB or (height, width) grey; uint8, or floating point in [0, 1].
        kind: Name of a corruption (`cosight list corruptions`).
        severity: 1 to 10, or 1 to 5 for ImageNet-C's extras.
        rng: Generator of random kinds; its state decides every pixel.
        variant: "visalign" has severities 1 to 10 and multiplies brightness; "imagenet-c" has 1 to 5 and adds to it.
            The other constants are the same.
        textures: Pictures for frost (`load_textures`). The default are six panes of our own.
        region: Which part cropping keeps.

    Returns:
        The corrupted image.

    Raises:
        InvalidInput: If an argument is out of range, or if a random kind gets no `rng`.
        UnknownName: If there is no such corruption.

    >>> grey = np.full((32, 32), 100, np.uint8)
    >>> int(corrupt(grey, "brightness", severity=2)[0, 0])
    200
    """
    entry = corruptions[kind]
    step = severity_step(entry, severity, variant)
    return apply_kind(entry, image, step, rng, {"variant": variant, "textures": textures, "region": region})

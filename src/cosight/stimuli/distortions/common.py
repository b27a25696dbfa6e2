"""What LAION-C's distortions share: their registry, where things are put, and what becomes of grey images."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from cosight.registry import Registry
from cosight.stimuli.images import Bytes
from cosight.stimuli.kinds import Kind, steps_up_to

__all__ = ["FACTS", "Whole", "corners", "distortions", "painted"]

Whole = NDArray[np.int64]

distortions: Registry[Kind] = Registry("distortion")
FACTS: Mapping[str, Any] = {"steps": steps_up_to(5), "citation": "Li et al. 2025 (LAION-C)", "eight_bit": True}


def painted(paint: Callable[[Bytes], None], image: Bytes) -> Bytes:
    """What `paint` makes of an RGB image, in place; of a grey one, the luma of what it makes of its RGB copy."""
    if image.ndim == 3:
        paint(image)
        return image
    colour: Bytes = cv2.cvtColor(image, cv2.COLOR_GRAY2RGB)  # type: ignore[assignment]
    paint(colour)
    return cv2.cvtColor(colour, cv2.COLOR_RGB2GRAY)  # type: ignore[return-value]


def corners(image: Bytes, count: int, rng: np.random.Generator) -> Whole:
    """Top left corners (count, 2), uniform over the image, of things to stick on.

    What reaches over an edge comes in again at the other side: so every pixel is as likely to be covered as any, and
    the share covered is 1 - (1 - area / pixels) ** count on average. Kept inside, stickers would leave the rim barer.
    """
    return rng.integers(0, image.shape[:2], (count, 2))

"""Grounds to put an object on: the plain ones that VisAlign's prompts name, made here, and photos cut to size."""

from __future__ import annotations

import cv2
import numpy as np

from cosight.errors import InvalidInput
from cosight.stimuli.images import Bytes, Image, as_bytes, checked, in_colour

__all__ = ["GROUNDS", "covering", "plain_ground"]

# sRGB of the CSS colours purple, pink, red and darkorange; the paper gives words only
_COLOURS = {"purple": (128, 0, 128), "pink": (255, 192, 203), "red": (255, 0, 0), "bright orange": (255, 140, 0)}
GROUNDS = (*_COLOURS, "rainbow", "static")
"""Names of the grounds made here (Lee et al. 2023, D.2.1: "with a purple background" and so on)."""


def plain_ground(name: str, *, height: int, width: int, rng: np.random.Generator) -> Bytes:
    """One of `GROUNDS`: a colour, seven bands of the rainbow running into each other, or a dead channel's noise.

    >>> plain_ground("red", height=32, width=40, rng=np.random.default_rng(0))[0, 0].tolist()
    [255, 0, 0]
    """
    if name in _COLOURS:
        return np.full((height, width, 3), _COLOURS[name], np.uint8)
    if name == "rainbow":
        return _rainbow(height, width)
    if name == "static":
        return _static(height, width, rng)
    raise InvalidInput(f"a ground is one of {', '.join(GROUNDS)}, or a photo; got {name!r}")


def _rainbow(height: int, width: int) -> Bytes:
    """Hues from red at the top to violet at the bottom."""
    hues = np.linspace(0, 140, height).round().astype(np.uint8)  # OpenCV's degrees are halved: 140 is violet
    bands = np.stack([hues, np.full_like(hues, 220), np.full_like(hues, 245)], axis=1)
    return np.repeat(cv2.cvtColor(bands[:, None], cv2.COLOR_HSV2RGB), width, axis=1)


def _static(height: int, width: int, rng: np.random.Generator) -> Bytes:
    """Grey noise in grains of about a 200th of the height, as a television without a signal shows."""
    grain = max(1, height // 200)
    noise = rng.integers(0, 256, (-(-height // grain), -(-width // grain)), np.uint8)
    grains = np.repeat(np.repeat(noise, grain, axis=0), grain, axis=1)[:height, :width]
    return in_colour(grains)


def covering(image: Image, *, height: int, width: int) -> Bytes:
    """A photo that covers these sides: its middle of their ratio, resized to them; grey becomes RGB."""
    pixels = in_colour(as_bytes(checked(image)))
    scale = min(pixels.shape[0] / height, pixels.shape[1] / width)
    high, wide = max(1, round(height * scale)), max(1, round(width * scale))
    top, left = (pixels.shape[0] - high) // 2, (pixels.shape[1] - wide) // 2
    cut = pixels[top : top + high, left : left + wide]
    return cv2.resize(cut, (width, height), interpolation=cv2.INTER_AREA if scale > 1 else cv2.INTER_CUBIC)  # type: ignore[return-value]

"""Less colour, less contrast, noise, and the picture turned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cosight.errors import InvalidInput
from cosight.stimuli.images import Floats
from cosight.stimuli.kinds import declare
from cosight.stimuli.manipulations.conditions import CITATION, manipulations
from cosight.stimuli.manipulations.grey import grey_of, with_channels_of

__all__ = ["colour", "contrast", "rotation", "uniform_noise"]

_CONTRASTS = (1.0, 0.5, 0.3, 0.15, 0.1, 0.05, 0.03, 0.01)  # of full; the number in the condition's name is a percentage
_WIDTHS = (0.0, 0.03, 0.05, 0.1, 0.2, 0.35, 0.6, 0.9)
_CONTRAST_UNDER_NOISE = 0.3  # Geirhos et al. 2018: so that less of the noise is clipped
_DEGREES = (0, 90, 180, 270)


def _at_contrast(grey: Floats, share: float) -> Floats:
    """Distances from mid-grey (1/2, whatever the image's own mean) shrunk to this share."""
    return grey * np.float32(share) + np.float32((1 - share) / 2)


def _contrast_settings(step: int) -> Mapping[str, Any]:
    return {"contrast": _CONTRASTS[step]}


@declare(
    manipulations,
    "contrast",
    steps=("c100", "c50", "c30", "c15", "c10", "c05", "c03", "c01"),
    settings=_contrast_settings,
    citation=CITATION,
    random=False,
)
def contrast(image: Floats, step: int, _rng: None) -> Floats:
    """Grey, with a nominal contrast about mid-grey."""
    return with_channels_of(image, _at_contrast(grey_of(image), _CONTRASTS[step]))


def _noise_settings(step: int) -> Mapping[str, Any]:
    return {"width": _WIDTHS[step], "contrast": _CONTRAST_UNDER_NOISE}


@declare(
    manipulations,
    "uniform-noise",
    steps=("0.00", "0.03", "0.05", "0.10", "0.20", "0.35", "0.60", "0.90"),
    settings=_noise_settings,
    citation=CITATION,
)
def uniform_noise(image: Floats, step: int, rng: np.random.Generator) -> Floats:
    """Grey at 30 % contrast plus one draw a pixel from U(-width, width).

    Width 0 is still at 30 % contrast.
    """
    quiet = _at_contrast(grey_of(image), _CONTRAST_UNDER_NOISE)
    draws = rng.random(quiet.shape, dtype=np.float32)
    return with_channels_of(image, quiet + (2 * draws - 1) * np.float32(_WIDTHS[step]))


def _rotation_settings(step: int) -> Mapping[str, Any]:
    return {"degrees": _DEGREES[step]}


@declare(
    manipulations,
    "rotation",
    steps=tuple(map(str, _DEGREES)),
    settings=_rotation_settings,
    citation=CITATION,
    random=False,
    growing_steps=(0, 2),  # no turn is stronger than another; 0 and 180 are defined for every shape
)
def rotation(image: Floats, step: int, _rng: None) -> Floats:
    """Grey, turned anticlockwise by quarters.

    The paper names the angles only; the direction is that of the released pictures.
    """
    height, width = image.shape[:2]
    if step % 2 and height != width:
        way_out = "crop it to a square first, or ask for 0 or 180"
        raise InvalidInput(f"only a square image turns by {_DEGREES[step]} degrees, got {width} x {height}; {way_out}")
    return with_channels_of(image, np.ascontiguousarray(np.rot90(grey_of(image), step)))


def _colour_settings(step: int) -> Mapping[str, Any]:
    return {"colour": step == 0}


@declare(manipulations, "colour", steps=("cr", "bw"), settings=_colour_settings, citation=CITATION, random=False)
def colour(image: Floats, step: int, _rng: None) -> Floats:
    """In colour (cr), or grey (bw)."""
    return with_channels_of(image, grey_of(image)) if step else image

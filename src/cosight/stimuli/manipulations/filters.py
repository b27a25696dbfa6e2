"""Low and high spatial frequencies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cv2
import numpy as np

from cosight.stimuli.images import Floats
from cosight.stimuli.kinds import declare
from cosight.stimuli.manipulations.conditions import CITATION, manipulations
from cosight.stimuli.manipulations.grey import grey_of, with_channels_of

__all__ = ["high_pass", "low_pass"]

_SURROUND = np.float32(0.4423)  # what the filter sees beyond the border: mean grey of the experiments' images
_REACH = 4.0  # where the kernel ends, in standard deviations (scipy.ndimage's default)
_LOW_SD = (0.0, 1.0, 3.0, 5.0, 7.0, 10.0, 15.0, 40.0)  # pixels of a 224 x 224 image; not scaled with the size
_HIGH_SD = (None, 3.0, 1.5, 1.0, 0.7, 0.55, 0.45, 0.4)  # None: no filter, "inf" in the files


def _blurred(grey: Floats, sd: float) -> Floats:
    """Gaussian blur of an image in front of the surround."""
    side = 2 * int(_REACH * sd + 0.5) + 1
    above = grey - _SURROUND  # OpenCV's constant border is zero: make the surround zero
    if side > 1:
        above = cv2.GaussianBlur(above, (side, side), sd, borderType=cv2.BORDER_CONSTANT)  # type: ignore[assignment]
    return above + _SURROUND


def _low_pass_settings(step: int) -> Mapping[str, Any]:
    return {"sd": _LOW_SD[step]}


@declare(
    manipulations,
    "low-pass",
    steps=("0", "1", "3", "5", "7", "10", "15", "40"),
    settings=_low_pass_settings,
    citation=CITATION,
    random=False,
)
def low_pass(image: Floats, step: int, _rng: None) -> Floats:
    """Grey, blurred by a Gaussian of so many pixels' standard deviation."""
    return with_channels_of(image, _blurred(grey_of(image), _LOW_SD[step]))


def _high_pass_settings(step: int) -> Mapping[str, Any]:
    return {"sd": _HIGH_SD[step]}


@declare(
    manipulations,
    "high-pass",
    steps=("inf", "3", "1.5", "1", "0.7", "0.55", "0.45", "0.4"),
    settings=_high_pass_settings,
    citation=CITATION,
    random=False,
)
def high_pass(image: Floats, step: int, _rng: None) -> Floats:
    """Grey, what a Gaussian blur takes away, about the mean grey of the experiments' images.

    `inf` is the grey image with its own mean: no filter at all.
    """
    grey = grey_of(image)
    sd = _HIGH_SD[step]
    if sd is None:
        return with_channels_of(image, grey)
    rest = grey - _blurred(grey, sd)
    return with_channels_of(image, rest + (_SURROUND - rest.mean()))

"""The registry of manipulations, the call that applies them, and the grey images they work on."""

from __future__ import annotations

from math import isnan
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from cosight.registry import Registry
from cosight.stimuli.images import Floats
from cosight.stimuli.kinds import Kind

__all__ = ["CITATION", "condition_step", "manipulations", "restore_channels", "to_grey"]

CITATION = "Geirhos et al. 2018"
# Rec. 709 luma as scikit-image's rgb2gray rounds it: the authors' grey pictures agree with these, not with Rec. 601.
_LUMA = np.array([[0.2125, 0.7154, 0.0721]])

manipulations: Registry[Kind] = Registry("manipulation")


def condition_step(kind: Kind, condition: str | float) -> int:
    """Return the index of a condition among the steps of `kind`.

    Conditions are compared as numbers where they are numbers ("3" = "3.0"), and without regard to case.

    Args:
        kind: The manipulation.
        condition: One of its conditions.

    Returns:
        The index, from 0.

    Raises:
        InvalidInput: If the manipulation does not have this condition.

    >>> condition_step(manipulations["uniform-noise"], "0.9") == condition_step(manipulations["uniform-noise"], 0.90)
    True
    """
    matches = [name for name in kind.steps if _normalise(name) == _normalise(str(condition))]
    return kind.step(matches[0] if matches else str(condition), word="condition")


def _normalise(name: str) -> str | float:
    """Return what all spellings of a condition share; trial files have "0.90" and "0.9", "true" and "True"."""
    try:
        number = float(name)
    except ValueError:
        return name.strip().casefold()
    return name if isnan(number) else number


def to_grey(image: Floats) -> Floats:
    """Return (height, width): the weighted sum of the channels, as the experiments made it; a grey image is itself."""
    return image if image.ndim == 2 else cv2.transform(image, _LUMA)  # type: ignore[return-value]


def restore_channels(grey: NDArray[Any], image: Floats) -> Floats:
    """Return `grey` in the shape of `image`: three equal channels if it has three."""
    plane = grey.astype(np.float32, copy=False)
    return plane if image.ndim == 2 else cv2.cvtColor(plane, cv2.COLOR_GRAY2RGB)  # type: ignore[return-value]

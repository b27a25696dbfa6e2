"""Grey as the experiments made it, and back to the shape of the image."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from cosight.stimuli.images import Floats

__all__ = ["grey_of", "with_channels_of"]

# Rec. 709 luma as scikit-image's rgb2gray rounds it: the authors' grey pictures agree with these, not with Rec. 601.
_WEIGHTS = np.array([[0.2125, 0.7154, 0.0721]])


def grey_of(image: Floats) -> Floats:
    """(height, width): the weighted sum of the channels; a grey image is itself."""
    if image.ndim == 2:
        return image
    return cv2.transform(image, _WEIGHTS)  # type: ignore[return-value]


def with_channels_of(image: Floats, grey: NDArray[Any]) -> Floats:
    """`grey` in the shape of `image`: three equal channels if it has three."""
    plane = grey.astype(np.float32, copy=False)
    if image.ndim == 2:
        return plane
    return cv2.cvtColor(plane, cv2.COLOR_GRAY2RGB)  # type: ignore[return-value]

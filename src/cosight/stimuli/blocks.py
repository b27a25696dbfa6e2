"""Mean colours of rectangular blocks: what pixelation, mosaics and vertical lines start from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosight.stimuli.compiled import compiled
from cosight.stimuli.images import Bytes

__all__ = ["Integers", "block_means"]

Integers = NDArray[np.int64]


@compiled(error_model="numpy")
def block_means(
    image: Bytes, tops: Integers, bottoms: Integers, lefts: Integers, rights: Integers
) -> NDArray[np.float64]:
    """Return the mean colour of each block of an RGB image.

    Compiled, because blocks of one to four pixels make numpy's and OpenCV's functions slower than the loop.

    Args:
        image: (height, width, 3).
        tops: First row of each row of blocks.
        bottoms: The row after the last.
        lefts: First column of each column of blocks.
        rights: The column after the last.

    Returns:
        (rows of blocks, columns of blocks, 3), in [0, 255].
    """
    means = np.empty((len(tops), len(lefts), 3))
    for i in range(len(tops)):
        for j in range(len(lefts)):
            red = green = blue = 0
            for y in range(tops[i], bottoms[i]):
                for x in range(lefts[j], rights[j]):
                    red += image[y, x, 0]
                    green += image[y, x, 1]
                    blue += image[y, x, 2]
            pixels = (bottoms[i] - tops[i]) * (rights[j] - lefts[j])
            means[i, j, 0], means[i, j, 1], means[i, j, 2] = red / pixels, green / pixels, blue / pixels
    return means

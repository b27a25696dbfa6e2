"""Joining two pictures of one size: the seam of least error between them, and the ways to hide it."""

from __future__ import annotations

from typing import Literal, get_args

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.fft import dctn, idctn

from cosight.errors import InvalidInput
from cosight.stimuli.images import Bytes, Floats

__all__ = ["Blend", "check_blend", "joined", "seam"]

Blend = Literal["feather", "poisson"]
_HOLD = 0.1  # share of the picture's side over which colours may drift when gradients are joined


def seam(cost: Floats, *, low: int, high: int) -> NDArray[np.int64]:
    """For each row the column, low <= column < high, of the connected path of least total cost from top to bottom.

    The minimum error boundary cut of Efros & Freeman (2001): neighbouring rows differ by at most one column.
    """
    band = cost[:, low:high].astype(np.float64)
    total = band.copy()
    for row in range(1, len(band)):
        above = np.pad(total[row - 1], 1, constant_values=np.inf)
        total[row] += np.minimum(np.minimum(above[:-2], above[1:-1]), above[2:])
    path = np.empty(len(band), np.int64)
    path[-1] = np.argmin(total[-1])
    for row in range(len(band) - 2, -1, -1):
        start = max(0, path[row + 1] - 1)
        path[row] = start + np.argmin(total[row, start : path[row + 1] + 2])
    return path + low


def check_blend(blend: str) -> None:
    """Refuse an unknown way to hide a seam."""
    if blend not in get_args(Blend):
        raise InvalidInput(f"blend must be {' or '.join(get_args(Blend))}, got {blend!r}")


def joined(first: Bytes, second: Bytes, side: NDArray[np.bool_], *, blend: Blend) -> Bytes:
    """`first` where `side` is true, `second` elsewhere, the seam softened or the gradients joined across it."""
    check_blend(blend)
    soft = cv2.GaussianBlur(side.astype(np.float32), (0, 0), max(1.0, 0.012 * min(side.shape)))[:, :, None]
    if blend == "feather":
        picture = soft * first + (1 - soft) * second
    else:
        picture = _gradients_joined(first.astype(np.float32), second.astype(np.float32), side)
    return np.clip(np.rint(picture), 0, 255).astype(np.uint8)


def _gradients_joined(first: Floats, second: Floats, side: NDArray[np.bool_]) -> Floats:
    """The picture whose gradients are those of its two parts and nearly none of the step between them.

    Poisson image editing (Perez et al. 2003) with free outer edges, and a weak pull to the parts' own colours so that
    they do not drift far from the seam: (laplacian - pull) u = divergence - pull * u0, solved exactly by cosines.
    """
    whole = np.where(side[:, :, None], first, second)
    pull = np.float32(1 / (_HOLD * max(side.shape)) ** 2)
    divergence = np.zeros_like(whole)
    for axis in (0, 1):
        step = np.where(
            np.take(side, range(1, side.shape[axis]), axis)[:, :, None],
            np.diff(first, axis=axis),
            np.diff(second, axis=axis),
        )
        divergence += np.diff(np.pad(step, [(1, 1) if a == axis else (0, 0) for a in range(3)]), axis=axis)
    waves = [2 * np.cos(np.pi * np.arange(n) / n) - 2 for n in side.shape]
    laplacian = (waves[0][:, None] + waves[1][None, :])[:, :, None].astype(np.float32)
    target = dctn(divergence - pull * whole, axes=(0, 1), norm="ortho")
    result: Floats = idctn(target / (laplacian - pull), axes=(0, 1), norm="ortho")
    return result

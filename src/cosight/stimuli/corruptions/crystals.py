"""Growing ice: feathers of frost that branch, curl and stop where they meet another.

A crystal is a spine with side branches on both sides, and each of these carries barbs: the feather of window frost.
Every line is marched in steps of less than a pixel and ends at the first pixel that belongs to another crystal, which
is what gives frost its seams.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from cosight.stimuli.images import Floats

__all__ = ["grow"]

_STEP = 0.8  # pixels a march
_TAPER = 0.65  # share of its brightness that a line loses towards its tip


def grow(
    shape: tuple[int, int], seeds: NDArray[np.float64], *, habit: NDArray[np.float64], rng: np.random.Generator
) -> Floats:
    """Brightness of the lines of ice, in [0, 1], grown from `seeds`: rows of (x, y, angle, length, brightness,
    crystal); arms of one crystal share its number, from 1, and do not block each other.

    `habit` is how they grow: angle of the side branches (radians), pixels between two, their longest as a share of the
    spine, pixels between two barbs, their longest as a share of a branch, curl (radians a pixel).
    """
    ice = np.zeros(shape, dtype=np.float32)
    owner = np.zeros(shape, dtype=np.int32)
    draws = rng.random(1 << 16)  # plenty: they are read round and round
    _feathers(ice, owner, seeds, habit, draws)
    return ice


@njit(cache=True)
def _feathers(ice, owner, seeds, habit, draws):  # type: ignore[no-untyped-def]
    at = 0
    for i in range(len(seeds)):
        x, y, angle, length, light, name = seeds[i]
        curl = habit[5] * (2 * draws[at % draws.size] - 1)
        at = _feather(ice, owner, int(name), x, y, angle, length, light, curl, habit, draws, at + 1)


@njit(cache=True)
def _feather(ice, owner, name, x, y, angle, length, light, curl, habit, draws, at):  # type: ignore[no-untyped-def]
    """A spine, and at each interval a pair of branches, longest a third of the way up."""
    spread, spacing, share = habit[0], habit[1], habit[2]
    grown = _line(ice, owner, name, x, y, angle, curl, length, light)
    along = spacing
    while along < grown:
        place = along / length
        longest = share * length * min(place * 3, 1.0) * (1 - place) ** 0.7
        bend = curl * along / 2
        px, py = x + along * np.cos(angle + bend), y + along * np.sin(angle + bend)
        for side in (-1, 1):
            draw = draws[at % draws.size]
            at += 1
            turn = angle + curl * along + side * spread * (0.9 + 0.2 * draw)
            branch = longest * (0.35 + 0.8 * draws[at % draws.size])
            at += 1
            at = _branch(ice, owner, name, px, py, turn, branch, light * (0.35 + 0.65 * draw), habit, draws, at)
        along += spacing * (0.6 + 0.8 * draws[at % draws.size])
        at += 1
    return at


@njit(cache=True)
def _branch(ice, owner, name, x, y, angle, length, light, habit, draws, at):  # type: ignore[no-untyped-def]
    spread, spacing, share = habit[0], habit[3], habit[4]
    grown = _line(ice, owner, name, x, y, angle, 0.0, length, light)
    along = spacing
    while along < grown:
        px, py = x + along * np.cos(angle), y + along * np.sin(angle)
        for side in (-1, 1):
            barb = share * length * (1 - along / length) * (0.5 + draws[at % draws.size])
            _line(ice, owner, name, px, py, angle + side * spread, 0.0, barb, light * 0.7)
            at += 1
        along += spacing
    return at


@njit(cache=True)
def _line(ice, owner, name, x, y, angle, curl, length, light):  # type: ignore[no-untyped-def]
    """March until the length is done, the pane ends or another crystal is met; how far it came."""
    height, width = ice.shape
    gone = 0.0
    while gone < length:
        column, row = int(x), int(y)
        if x < 0 or y < 0 or column >= width - 1 or row >= height - 1:
            break
        if owner[row, column] != 0 and owner[row, column] != name:
            break
        owner[row, column] = name
        _dab(ice, x, y, light * (1 - _TAPER * gone / length))
        x += _STEP * np.cos(angle)
        y += _STEP * np.sin(angle)
        angle += curl * _STEP
        gone += _STEP
    return gone


@njit(cache=True)
def _dab(ice, x, y, light):  # type: ignore[no-untyped-def]
    """Light the four pixels around a place, the nearer the more; the brightest dab counts."""
    column, row = int(x), int(y)
    across, down = x - column, y - row
    for dy in range(2):
        for dx in range(2):
            near = (across if dx else 1 - across) * (down if dy else 1 - down)
            value = np.float32(light * min(1.0, 2 * near))
            ice[row + dy, column + dx] = max(ice[row + dy, column + dx], value)

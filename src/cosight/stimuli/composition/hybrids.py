"""Two animals in one body (Lee et al. 2023, section 3.2), without a diffusion model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import cv2
import numpy as np
from numpy.typing import NDArray

from cosight.errors import InvalidInput
from cosight.stimuli.composition.backgrounds import covering
from cosight.stimuli.composition.compositing import paste
from cosight.stimuli.composition.masks import Mask, checked_mask, largest_piece
from cosight.stimuli.composition.seams import Blend, check_blend, joined, seam
from cosight.stimuli.images import Bytes, Image, checked

__all__ = ["SPLITS", "Split", "hybrid"]

Split = Literal["left-right", "head-body"]
SPLITS: tuple[Split, ...] = get_args(Split)
_BAND = 0.15  # of the object's box, how far the seam may leave the split on either side
_OUTLINE = 1.5  # cost of cutting where one picture has the object and the other has not; colours cost at most 1
_STRETCH = 1.5  # most that one side is stretched against the other to make two boxes meet


@dataclass(frozen=True, slots=True)
class _Part:
    pixels: Bytes
    mask: Mask


def hybrid(
    first: Image,
    second: Image,
    *,
    rng: np.random.Generator,
    masks: tuple[Image, Image] | None = None,
    split: Split = "left-right",
    blend: Blend = "feather",
    background: Image | None = None,
) -> Bytes:
    """One part of `first` and the other part of `second` as one creature, RGB.

    "left-right" takes the left of the first photo and the right of the second, "head-body" the top of the first and the
    rest of the second; the cut runs near the middle (near two fifths of the height for a head) where the two differ
    least. With `masks` the second object is moved, resized and stretched a little so that its box meets the first's,
    and the cut goes where both have a body. With `background` as well, the creature is cut out and pasted there; else
    the photos' own grounds stay, and the picture has the first's size. The second photo is mirrored at random, since
    nobody says which way it faces: look at the results, two tails or half a fence are common.
    """
    if split not in SPLITS:
        raise InvalidInput(f"split must be {' or '.join(SPLITS)}, got {split!r}")
    check_blend(blend)
    if background is not None and masks is None:
        raise InvalidInput("a hybrid on another background needs masks of both photos, got None; see foreground_mask")
    one, two = _parts(checked(first), checked(second), masks, mirror=bool(rng.random() < 0.5))
    side = _side(one, two, split, rng.uniform(-0.05, 0.05))
    picture = joined(one.pixels, two.pixels, side, blend=blend)
    if background is None:
        return picture
    return paste(picture, largest_piece(np.where(side, one.mask, two.mask)), background, rng=rng)


def _parts(first: Image, second: Image, masks: tuple[Image, Image] | None, *, mirror: bool) -> tuple[_Part, _Part]:
    """Both pictures at the first's size, the second mirrored or not and, where there are masks, laid over the first."""
    height, width = first.shape[:2]
    one = covering(first, height=height, width=width)
    if masks is None:
        two, everywhere = covering(second, height=height, width=width), np.ones((height, width), bool)
        return _Part(one, everywhere), _Part(two[:, ::-1] if mirror else two, everywhere)
    two = covering(second, height=second.shape[0], width=second.shape[1])
    inside = checked_mask(masks[1], second.shape)
    two, inside = (two[:, ::-1], inside[:, ::-1]) if mirror else (two, inside)
    part = _Part(one, checked_mask(masks[0], first.shape))
    return part, _laid_over(_Part(np.ascontiguousarray(two), np.ascontiguousarray(inside)), part)


def _box(mask: Mask) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Corner and sides of a mask's box, each (x, y)."""
    x, y, width, height = cv2.boundingRect(mask.astype(np.uint8))
    return np.array([x, y], float), np.array([width, height], float)


def _laid_over(part: _Part, other: _Part) -> _Part:
    """`part` moved and resized so that its object's box meets the other's, same middle and feet, and stays inside."""
    (corner, sides), (goal, goal_sides) = _box(part.mask), _box(other.mask)
    scales = goal_sides / sides
    mean = np.sqrt(scales.prod())
    scales = np.clip(scales, mean / np.sqrt(_STRETCH), mean * np.sqrt(_STRETCH))
    size = other.mask.shape[1], other.mask.shape[0]
    anchor = np.array([0.5, 1.0])
    x, y = goal + anchor * goal_sides
    room = np.array([2 * min(x, size[0] - x), y])  # around the middle, above the feet
    scales = scales * min(1, (room / (scales * sides)).min())
    matrix = np.column_stack([np.diag(scales), (x, y) - scales * (corner + anchor * sides)])
    pixels = cv2.warpAffine(part.pixels, matrix, size, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT_101)
    mask = cv2.warpAffine(part.mask.astype(np.float32), matrix, size, flags=cv2.INTER_LINEAR)
    return _Part(np.asarray(pixels, np.uint8), np.asarray(mask > 0.5))


def _side(one: _Part, two: _Part, split: Split, shift: float) -> NDArray[np.bool_]:
    """Where the first picture shows: left of the seam, or above it."""
    corner, sides = _box(one.mask | two.mask)
    cost = np.linalg.norm(one.pixels.astype(np.float32) - two.pixels, axis=2) / np.float32(255 * 3**0.5)
    cost += _OUTLINE * (one.mask != two.mask)
    axis, middle = (0, 0.5) if split == "left-right" else (1, 0.4)
    cost = cost if axis == 0 else cost.T
    at = corner[axis] + (middle + shift) * sides[axis]
    reach = _BAND * sides[axis]
    low, high = int(max(1, at - reach)), int(min(cost.shape[1] - 1, at + reach + 1))
    path = seam(cost, low=low, high=max(high, low + 1))
    side = np.arange(cost.shape[1])[None, :] < path[:, None]
    return side if axis == 0 else side.T

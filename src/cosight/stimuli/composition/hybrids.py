"""Hybrids: two animals in one body, made from two photos (Lee et al. 2023, section 3.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.fft import dctn, idctn

from cosight.errors import InvalidInput
from cosight.stimuli.composition.compositing import crop_to_cover, paste
from cosight.stimuli.composition.masks import Mask, check_mask, largest_piece
from cosight.stimuli.images import Bytes, Floats, Image, check_image

__all__ = [
    "KEPT_HALVES",
    "SPLITS",
    "Blend",
    "Half",
    "JoinedObjects",
    "MaskedPicture",
    "Split",
    "half_of",
    "hybrid",
    "join_objects",
    "join_pictures",
    "minimum_error_cut",
]

Split = Literal["left-right", "head-body"]
Blend = Literal["feather", "poisson"]
Half = Literal["left", "right", "top", "bottom"]
SPLITS: tuple[Split, ...] = get_args(Split)
KEPT_HALVES: dict[Split, tuple[Half, Half]] = {"left-right": ("left", "right"), "head-body": ("top", "bottom")}
"""The half of the first and of the second object that a hybrid shows."""
_BAND = 0.15  # of the object's box: how far the cut may leave the split on either side
_OUTLINE_COST = 1.5  # of cutting where only one picture has the object; colours cost at most 1
_MAX_STRETCH = 1.5  # of one side of the second object against the other
_DRIFT_RANGE = 0.1  # of the picture's side, over which colours may drift when gradients are joined


@dataclass(frozen=True, slots=True, eq=False)
class MaskedPicture:
    """A picture, and where the object or the part of it is that counts."""

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
    """Join a part of one animal with a part of another.

    The cut runs near the middle (for a head near two fifths of the height) where the photos differ least. The second
    photo is mirrored at random, because the direction it faces is unknown. Look at the results before people see them:
    two tails or half a fence are common.

    Args:
        first: Photo of the first animal.
        second: Photo of the second animal.
        rng: Generator of the mirroring and the position of the cut.
        masks: Masks of both animals. With them, the second animal is moved, resized and slightly stretched to the box
            of the first, and the cut runs where both have a body.
        split: "left-right" takes the left of the first photo, "head-body" its top.
        blend: "feather" softens the cut, "poisson" joins the gradients across it.
        background: Background to paste the hybrid on; needs masks. Without it, the photos' backgrounds stay.

    Returns:
        RGB pixels of the first photo's size, or of the background's.

    Raises:
        InvalidInput: If an argument is unknown, or masks are missing or do not fit.

    >>> first, second = np.full((64, 64, 3), 50, np.uint8), np.full((64, 64, 3), 200, np.uint8)
    >>> joined = hybrid(first, second, rng=np.random.default_rng(0))
    >>> joined[0, 0].tolist(), joined[0, -1].tolist()
    ([50, 50, 50], [200, 200, 200])
    """
    if split not in SPLITS:
        raise InvalidInput(f"split must be {' or '.join(SPLITS)}, got {split!r}")
    _check_blend(blend)
    if background is not None and masks is None:
        raise InvalidInput("a hybrid on another background needs masks of both photos, got None; see foreground_mask")
    joined = join_objects(first, second, rng=rng, masks=masks, split=split, blend=blend)
    return joined.pixels if background is None else paste(joined.pixels, joined.mask, background, rng=rng)


@dataclass(frozen=True, slots=True, eq=False)
class JoinedObjects:
    """Two photos in one.

    Attributes:
        pixels: The hybrid.
        mask: Its mask.
        parts: The part of the mask that shows each object.
        cut_off: The rest of each object, which the hybrid does not show, in its own picture.
    """

    pixels: Bytes
    mask: Mask
    parts: tuple[Mask, Mask]
    cut_off: tuple[MaskedPicture, MaskedPicture]


def join_objects(
    first: Image,
    second: Image,
    *,
    rng: np.random.Generator,
    masks: tuple[Image, Image] | None = None,
    split: Split = "left-right",
    blend: Blend = "feather",
    mirror: tuple[bool, bool] | None = None,
) -> JoinedObjects:
    """Join two objects without another background.

    The other arguments are those of `hybrid`.

    Args:
        first: Photo of the first object.
        second: Photo of the second object.
        rng: Generator of the mirroring and the position of the cut.
        masks: Masks of both objects.
        split: How they are cut.
        blend: How they are joined.
        mirror: Whether to mirror each of the photos. Without it, the second is mirrored at random.

    Returns:
        The hybrid, its parts, and what was cut off.
    """
    mirror = mirror or (False, bool(rng.random() < 0.5))
    one, two = _load_parts(check_image(first), check_image(second), masks, mirror)
    side = _find_side(one, two, split, rng.uniform(-0.05, 0.05))
    picture = join_pictures(one.pixels, two.pixels, side, blend=blend)
    mask = largest_piece(np.where(side, one.mask, two.mask))
    cut_off = (MaskedPicture(one.pixels, one.mask & ~side), MaskedPicture(two.pixels, two.mask & side))
    return JoinedObjects(picture, mask, (mask & side, mask & ~side), cut_off)


def half_of(mask: Mask, half: Half) -> Mask:
    """Return the part of a mask in one half of its bounding box.

    >>> half_of(np.ones((1, 4), bool), "left").tolist()
    [[True, True, False, False]]
    """
    (x, y), (width, height) = _box(mask)
    across, down = np.arange(mask.shape[1])[None, :] < x + width / 2, np.arange(mask.shape[0])[:, None] < y + height / 2
    where = {"left": across, "right": ~across, "top": down, "bottom": ~down}
    return np.asarray(mask & where[half])


def _check_blend(blend: str) -> None:
    if blend not in get_args(Blend):
        raise InvalidInput(f"blend must be {' or '.join(get_args(Blend))}, got {blend!r}")


def _load_parts(
    first: Image, second: Image, masks: tuple[Image, Image] | None, mirror: tuple[bool, bool]
) -> tuple[MaskedPicture, MaskedPicture]:
    """Return both photos at the first's size; with masks, the second object has the box of the first."""
    pictures = []
    for photo, like, mask, mirrored in zip(
        (first, second), (first, first if masks is None else second), masks or (None, None), mirror, strict=True
    ):
        height, width = like.shape[:2]
        pixels = crop_to_cover(photo, height=height, width=width)
        inside = np.ones((height, width), bool) if mask is None else check_mask(mask, photo.shape)
        if mirrored:
            pixels, inside = np.ascontiguousarray(pixels[:, ::-1]), np.ascontiguousarray(inside[:, ::-1])
        pictures.append(MaskedPicture(pixels, inside))
    one, two = pictures
    return (one, two) if masks is None else (one, _fit_to_box(two, one))


def _fit_to_box(part: MaskedPicture, other: MaskedPicture) -> MaskedPicture:
    """Move and resize `part` so that its object has the box of the other's: same centre line, same feet, all inside."""
    (corner, sides), (goal, goal_sides) = _box(part.mask), _box(other.mask)
    scales = goal_sides / sides
    mean = np.sqrt(scales.prod())
    scales = np.clip(scales, mean / np.sqrt(_MAX_STRETCH), mean * np.sqrt(_MAX_STRETCH))
    size = other.mask.shape[1], other.mask.shape[0]
    anchor = np.array([0.5, 1.0])
    x, y = goal + anchor * goal_sides
    free = np.array([2 * min(x, size[0] - x), y])  # around the centre line, above the feet
    scales = scales * min(1, (free / (scales * sides)).min())
    matrix = np.column_stack([np.diag(scales), (x, y) - scales * (corner + anchor * sides)])
    pixels = cv2.warpAffine(part.pixels, matrix, size, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT_101)
    mask = cv2.warpAffine(part.mask.astype(np.float32), matrix, size, flags=cv2.INTER_LINEAR)
    return MaskedPicture(np.asarray(pixels, np.uint8), np.asarray(mask > 0.5))


def _box(mask: Mask) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return corner and sides of a mask's bounding box, each (x, y)."""
    x, y, width, height = cv2.boundingRect(mask.astype(np.uint8))
    return np.array([x, y], float), np.array([width, height], float)


def _find_side(one: MaskedPicture, two: MaskedPicture, split: Split, shift: float) -> NDArray[np.bool_]:
    """Return where the first picture shows: left of the cut, or above it."""
    corner, sides = _box(one.mask | two.mask)
    cost = np.linalg.norm(one.pixels.astype(np.float32) - two.pixels, axis=2) / np.float32(255 * 3**0.5)
    cost += _OUTLINE_COST * (one.mask != two.mask)
    axis, middle = (0, 0.5) if split == "left-right" else (1, 0.4)
    cost = cost if axis == 0 else cost.T
    centre = corner[axis] + (middle + shift) * sides[axis]
    reach = _BAND * sides[axis]
    low, high = int(max(1, centre - reach)), int(min(cost.shape[1] - 1, centre + reach + 1))
    path = minimum_error_cut(cost, low=low, high=max(high, low + 1))
    side = np.arange(cost.shape[1])[None, :] < path[:, None]
    return side if axis == 0 else side.T


def minimum_error_cut(cost: Floats, *, low: int, high: int) -> NDArray[np.int64]:
    """Find the connected path of least total cost from top to bottom (Efros and Freeman 2001).

    Args:
        cost: Cost of each pixel, (rows, columns).
        low: First column that the path may use.
        high: First column after those.

    Returns:
        The column of the path in each row. Neighbouring rows differ by at most one column.
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


def join_pictures(first: Bytes, second: Bytes, side: NDArray[np.bool_], *, blend: Blend) -> Bytes:
    """Return `first` where `side` is true and `second` elsewhere, blended at the border."""
    _check_blend(blend)
    if blend == "feather":
        soft = cv2.GaussianBlur(side.astype(np.float32), (0, 0), max(1.0, 0.012 * min(side.shape)))[:, :, None]
        picture = soft * first + (1 - soft) * second
    else:
        picture = _join_gradients(first.astype(np.float32), second.astype(np.float32), side)
    return np.clip(np.rint(picture), 0, 255).astype(np.uint8)


def _join_gradients(first: Floats, second: Floats, side: NDArray[np.bool_]) -> Floats:
    """Return the picture with the gradients of both parts and nearly none of the step between them.

    Poisson image editing (Perez et al. 2003) with free outer edges. A weak pull to the parts' own colours limits their
    drift: (laplacian - pull) u = divergence - pull * u0, solved exactly by a cosine transform.
    """
    unblended = np.where(side[:, :, None], first, second)
    pull = np.float32(1 / (_DRIFT_RANGE * max(side.shape)) ** 2)
    divergence = np.zeros_like(unblended)
    for axis in (0, 1):
        step = np.where(
            np.take(side, range(1, side.shape[axis]), axis)[:, :, None],
            np.diff(first, axis=axis),
            np.diff(second, axis=axis),
        )
        divergence += np.diff(np.pad(step, [(1, 1) if a == axis else (0, 0) for a in range(3)]), axis=axis)
    waves = [2 * np.cos(np.pi * np.arange(n) / n) - 2 for n in side.shape]
    laplacian = (waves[0][:, None] + waves[1][None, :])[:, :, None].astype(np.float32)
    target = dctn(divergence - pull * unblended, axes=(0, 1), norm="ortho")
    result: Floats = idctn(target / (laplacian - pull), axes=(0, 1), norm="ortho")
    return result

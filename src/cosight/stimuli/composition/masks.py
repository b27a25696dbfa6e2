"""Where the object is: masks given beside a photo, or found by GrabCut. A found mask must be looked at by a person."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from cosight.errors import InvalidInput
from cosight.stimuli.images import Bytes, Floats, Image, as_bytes, check_image, read_image, to_rgb

__all__ = ["Foreground", "Mask", "check_mask", "foreground_mask", "largest_piece", "mask_path", "read_mask"]

Mask = NDArray[np.bool_]

_WORK = 256  # longest side while searching; GrabCut on more pixels is slower, not better
_ROUNDS = 6
_FRAME = 0.02  # share of the shorter side taken as ground to begin with
_COLOURS = 6  # clusters that describe the ground at the edges
_SHARES = (0.04, 0.8)  # an object of less or more of the photo was not found, whatever was
_MUCH_BORDER, _MOST_BORDER = 0.15, 0.4
_LEAST_CONTRAST = 0.1
_CLEAR = 0.55  # set by eye on 32 ImageNet photos of mammals: 17 had more, and all but two of those masks were usable


@dataclass(frozen=True, slots=True)
class Foreground:
    """A found object.

    `share` is the part of the photo it fills, `border` the part of the photo's edge it touches, `contrast` in [0, 1]
    how far its colours are from those around it (Hellinger distance of the two colour histograms).
    """

    mask: Mask
    share: float
    border: float
    contrast: float

    @property
    def doubtful(self) -> bool:
        """Whether the colours barely set the object apart, or it runs far along the photo's edge.

        Most such masks are wrong, and a few of the others are.
        """
        return self.contrast < _CLEAR or self.border > _MUCH_BORDER


def check_mask(mask: Image, shape: tuple[int, ...]) -> Mask:
    """A mask as booleans: bool, or 8-bit or floating point where the upper half of the range is the object."""
    array = np.asarray(mask)
    if array.shape != tuple(shape[:2]):
        raise InvalidInput(f"a mask has its photo's height and width, {shape[:2]}, got {array.shape}; resize it first")
    if array.dtype == np.bool_:
        inside = array
    elif array.dtype == np.uint8:
        inside = array > 127
    elif np.issubdtype(array.dtype, np.floating):
        inside = array > 0.5
    else:
        raise InvalidInput(f"a mask is bool, uint8 (0 or 255) or floating point (0 to 1), got {array.dtype}")
    if not inside.any():
        raise InvalidInput("a mask must mark something, got an empty one; white is the object")
    return inside


def mask_path(photo: Path) -> Path:
    """Where a photo's mask is looked for: NAME.mask.png beside it.

    >>> mask_path(Path("zebra/1.jpg")).as_posix()
    'zebra/1.mask.png'
    """
    return photo.with_suffix(".mask.png")


def read_mask(photo: Path) -> Bytes | None:
    """The mask kept beside a photo as NAME.mask.png (white is the object), or None where there is none."""
    path = mask_path(photo)
    if not path.is_file():
        return None
    mask = read_image(path)
    return mask if mask.ndim == 2 else mask.max(axis=2)


def foreground_mask(image: Image) -> Foreground:
    """The object in the middle of a photo, found by its colours (GrabCut, Rother et al. 2004).

    It starts from the pixels near the middle whose colours are rare along the photo's edges. The same photo gives the
    same mask. This works for one object on a calm ground and fails for camouflage, shadows and crowds: look at the
    result, and give a mask of your own where it is wrong. Refused when what is found fills too little or too much of
    the photo or too much of its edge, or has the colours of what is around it.
    """
    pixels = to_rgb(as_bytes(check_image(image)))
    height, width = pixels.shape[:2]
    scale = min(1.0, _WORK / max(height, width))
    size = (max(8, round(width * scale)), max(8, round(height * scale)))
    small = np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), np.uint8)
    cv2.setRNGSeed(0)  # k-means and GrabCut draw from OpenCV's own generator
    for start in (_by_colour(small), _by_place(small.shape[:2])):  # place alone where the colours lead nowhere
        found = _tidied(_grab_cut(small, start))
        result = _described(_enlarged(found, (width, height)), small, found)
        if _plausible(result):
            return result
    raise InvalidInput(
        f"a found object fills {_SHARES[0]:.0%} to {_SHARES[1]:.0%} of its photo and at most {_MOST_BORDER:.0%} of its"
        f" edge, with a contrast from {_LEAST_CONTRAST}, got {result.share:.0%}, {result.border:.0%} and"
        f" {result.contrast:.2f}; give a mask, or another photo"
    )


def _plausible(found: Foreground) -> bool:
    fills = _SHARES[0] <= found.share <= _SHARES[1]
    return fills and found.border <= _MOST_BORDER and found.contrast >= _LEAST_CONTRAST


def _prior(small: Bytes) -> Floats:
    """How likely each pixel is part of the object, any unit: far from the edges' colours, near the middle."""
    lab = cv2.GaussianBlur(cv2.cvtColor(small, cv2.COLOR_RGB2LAB), (0, 0), 1.5).astype(np.float32)
    edge = _edge(small.shape[:2], 2 * _frame(small.shape[:2]))
    criteria = (cv2.TERM_CRITERIA_EPS + cv2.TERM_CRITERIA_MAX_ITER, 20, 1.0)
    _, labels, centres = cv2.kmeans(lab[edge], _COLOURS, None, criteria, 2, cv2.KMEANS_PP_CENTERS)  # type: ignore[call-overload]
    common = np.bincount(labels.ravel(), minlength=_COLOURS) / len(labels)
    # A colour that is rare along the edge may be the object's own where it leaves the photo: it counts as further off.
    away = [
        np.linalg.norm(lab - centre, axis=2) + 6 / max(part, 0.02) ** 0.5
        for centre, part in zip(centres, common, strict=True)
    ]
    rare = np.min(away, axis=0).astype(np.float32)
    return np.asarray(rare * _middle(small.shape[:2]))


def _edge(shape: tuple[int, int], width: int) -> Mask:
    edge = np.ones(shape, bool)
    edge[width:-width, width:-width] = False
    return edge


def _frame(shape: tuple[int, int]) -> int:
    return max(1, round(_FRAME * min(shape)))


def _middle(shape: tuple[int, int]) -> Floats:
    """1 in the middle, falling to about a third in the corners."""
    y, x = (np.linspace(-1, 1, side, dtype=np.float32) for side in shape)
    return np.exp(-(x[None, :] ** 2 + y[:, None] ** 2) / 2 * 1.1)


def _by_colour(small: Bytes) -> Bytes:
    """GrabCut's marks from `_prior`: the likelier half by Otsu's threshold is probably the object."""
    likely = cv2.threshold(_stretched(_prior(small)), 0, 255, cv2.THRESH_BINARY + cv2.THRESH_OTSU)[1] > 0
    marks = np.where(likely, cv2.GC_PR_FGD, cv2.GC_PR_BGD).astype(np.uint8)
    # Where the prior already sees the object at the edge, the object may leave the photo there.
    marks[_edge(small.shape[:2], _frame(small.shape[:2])) & ~likely] = cv2.GC_BGD
    return marks


def _by_place(shape: tuple[int, int]) -> Bytes:
    """GrabCut's marks without a look at the colours: the middle is the object, the frame is not."""
    marks = np.full(shape, cv2.GC_PR_BGD, np.uint8)
    near = _middle(shape)
    marks[near > 0.65] = cv2.GC_PR_FGD
    marks[near > 0.95] = cv2.GC_FGD
    marks[_edge(shape, _frame(shape))] = cv2.GC_BGD
    return marks


def _grab_cut(small: Bytes, marks: Bytes) -> Mask:
    models = np.zeros((1, 65)), np.zeros((1, 65))
    cv2.grabCut(small, marks, None, *models, _ROUNDS, cv2.GC_INIT_WITH_MASK)  # type: ignore[call-overload]
    found = (marks == cv2.GC_FGD) | (marks == cv2.GC_PR_FGD)
    width = _frame(small.shape[:2])
    return np.pad(found[width:-width, width:-width], width, mode="edge")  # what reaches the frame reaches the edge


def _stretched(values: Floats) -> Bytes:
    low, high = np.percentile(values, (1, 99))
    return np.asarray(np.clip((values - low) / max(high - low, 1e-6) * 255, 0, 255), np.uint8)


def _tidied(mask: Mask) -> Mask:
    """One piece without holes or whiskers."""
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (5, 5))
    opened = cv2.morphologyEx(mask.astype(np.uint8), cv2.MORPH_OPEN, kernel) > 0
    closed = cv2.morphologyEx(largest_piece(opened).astype(np.uint8), cv2.MORPH_CLOSE, kernel)
    return _filled(closed)  # type: ignore[arg-type]


def largest_piece(mask: Mask) -> Mask:
    """The connected piece with the most pixels; nothing where there is nothing."""
    count, labels, stats, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8), connectivity=4)
    if count < 2:
        return np.zeros_like(mask)
    return np.asarray(labels == 1 + int(np.argmax(stats[1:, cv2.CC_STAT_AREA])))


def _filled(mask: Bytes) -> Mask:
    """Holes smaller than a twentieth of the object are part of it; larger ones are what is seen between the legs."""
    count, labels, stats, _ = cv2.connectedComponentsWithStats(1 - mask, connectivity=4)
    small = stats[:, cv2.CC_STAT_AREA] < 0.05 * mask.sum()
    small[0] = False  # the object itself
    return (mask > 0) | small[labels] if count > 1 else mask > 0


def _enlarged(mask: Mask, size: tuple[int, int]) -> Mask:
    soft = cv2.resize(mask.astype(np.float32), size, interpolation=cv2.INTER_CUBIC)
    return soft > 0.5


def _described(mask: Mask, small: Bytes, found: Mask) -> Foreground:
    edge = _edge(found.shape, 2)
    return Foreground(mask, float(found.mean()), float(found[edge].mean()), _contrast(small, found))


def _contrast(small: Bytes, found: Mask) -> float:
    """Hellinger distance between the colours of the object and those of the ring around it."""
    wide = cv2.dilate(found.astype(np.uint8), np.ones((3, 3), np.uint8), iterations=20) > 0
    inside, around = (_histogram(small, mask) for mask in (found, wide & ~found))
    return float(np.sqrt(max(0.0, 1 - np.sum(np.sqrt(inside * around)))))


def _histogram(small: Bytes, mask: Mask) -> Floats:
    counts = cv2.calcHist([small], [0, 1, 2], mask.astype(np.uint8), [8, 8, 8], [0, 256] * 3)
    return np.asarray(counts / max(counts.sum(), 1))

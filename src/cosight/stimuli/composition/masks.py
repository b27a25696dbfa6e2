"""Object masks: read from a file beside the photo, or found by GrabCut. Look at every mask that was found."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from cosight.errors import InvalidInput
from cosight.stimuli.images import Bytes, Floats, Image, as_bytes, check_image, read_image, to_rgb

__all__ = [
    "MASK_SUFFIX",
    "Foreground",
    "Mask",
    "check_mask",
    "describe_mask",
    "foreground_mask",
    "largest_piece",
    "mask_path",
    "read_mask",
]

MASK_SUFFIX = ".mask.png"  # of the file beside a photo

Mask = NDArray[np.bool_]

_WORK_SIDE = 256  # longest side while searching; GrabCut on more pixels is slower, not better
_ITERATIONS = 6
_FRAME = 0.02  # of the shorter side, assumed to be background
_CLUSTERS = 6  # colours that describe the background at the edges
_FILL_RANGE = (0.04, 0.8)  # an object that fills less or more of the photo was not found
_DOUBTFUL_BORDER, _MAX_BORDER = 0.04, 0.4  # of the edge of the photo; what touches it is rarely the object alone
_MIN_CONTRAST = 0.1
_MAX_EXTENT = 0.8  # of its box that an object fills (an ellipse: 0.785): more is a rectangle cut out of the photo
_CLEAR_CONTRAST = 0.55  # chosen on 32 ImageNet photos of mammals: 17 had more, and all but two of those were usable


@dataclass(frozen=True, slots=True)
class Foreground:
    """An object that was found.

    Attributes:
        mask: Its mask.
        share: Fraction of the photo that it fills.
        border: Fraction of the photo's edge that it touches.
        contrast: Hellinger distance between the colour histograms of the object and of its surroundings, in [0, 1].
        extent: Fraction of its bounding box that it fills.
    """

    mask: Mask
    share: float
    border: float
    contrast: float
    extent: float

    @property
    def doubtful(self) -> bool:
        """Whether the object has nearly the colours of its surroundings, touches much of the edge, or is a rectangle.

        Most such masks are wrong, and a few of the others are.
        """
        return self.contrast < _CLEAR_CONTRAST or self.border > _DOUBTFUL_BORDER or self.extent > _MAX_EXTENT

    @property
    def plausible(self) -> bool:
        """Whether the object fills enough of the photo, and not too much of it or of its edge."""
        return _FILL_RANGE[0] <= self.share <= _FILL_RANGE[1] and self.border <= _MAX_BORDER


def check_mask(mask: Image, shape: tuple[int, ...]) -> Mask:
    """Check a mask and return it as booleans.

    Args:
        mask: bool, or uint8 or floating point where the upper half of the range is the object.
        shape: Shape of the photo.

    Raises:
        InvalidInput: If the shape or the type does not fit, or the mask is empty.
    """
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
    """Return the path of a photo's mask: NAME.mask.png beside it.

    >>> mask_path(Path("zebra/1.jpg")).as_posix()
    'zebra/1.mask.png'
    """
    return photo.with_suffix(MASK_SUFFIX)


def read_mask(photo: Path) -> Bytes | None:
    """Read the mask beside a photo, NAME.mask.png (white is the object).

    Args:
        photo: Path of the photo.

    Returns:
        The grey pixels of the mask, or None if there is no such file.

    >>> from cosight.stimuli import encode
    >>> _ = Path("tiger.mask.png").write_bytes(encode(np.full((32, 32), 255, np.uint8), "png"))
    >>> read_mask(Path("tiger.jpg")).shape, read_mask(Path("zebra.jpg"))
    ((32, 32), None)
    """
    path = mask_path(photo)
    if not path.is_file():
        return None
    mask = read_image(path)
    return mask if mask.ndim == 2 else mask.max(axis=2)


def foreground_mask(image: Image) -> Foreground:
    """Find the object in the middle of a photo by its colours (GrabCut, Rother et al. 2004).

    The search starts from the pixels near the middle whose colours are rare along the photo's edges. The same photo
    gives the same mask. It works for one object on a calm background and fails for camouflage, shadows and crowds: look
    at the result, and draw a mask where it is wrong.

    Args:
        image: The photo.

    Returns:
        The mask, and how far to trust it.

    Raises:
        InvalidInput: If the object fills too little or too much of the photo or of its edge, or has the colours of its
            surroundings.

    >>> y, x = np.mgrid[:64, :64]
    >>> mask = (255 * ((x - 32) ** 2 + (y - 32) ** 2 < 200)).astype(np.uint8)
    >>> photo = np.where(mask[:, :, None] > 0, (200, 60, 30), (40, 120, 200)).astype(np.uint8)
    >>> round(foreground_mask(photo).share, 1)
    0.2
    """
    pixels = to_rgb(as_bytes(check_image(image)))
    height, width = pixels.shape[:2]
    scale = min(1.0, _WORK_SIDE / max(height, width))
    size = (max(8, round(width * scale)), max(8, round(height * scale)))
    small = np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), np.uint8)
    cv2.setRNGSeed(0)  # k-means and GrabCut draw from OpenCV's own generator
    for marks in (_marks_by_colour(small), _marks_by_position(small.shape[:2])):  # position alone if colours fail
        mask = _clean(_grab_cut(small, marks))
        full_size = cv2.resize(mask.astype(np.float32), (width, height), interpolation=cv2.INTER_CUBIC) > 0.5
        found = replace(_describe(small, mask), mask=full_size)
        if found.plausible and found.contrast >= _MIN_CONTRAST:
            return found
    raise InvalidInput(
        f"a found object fills {_FILL_RANGE[0]:.0%} to {_FILL_RANGE[1]:.0%} of its photo and at most {_MAX_BORDER:.0%}"
        f" of its edge, with a contrast from {_MIN_CONTRAST}, got {found.share:.0%}, {found.border:.0%} and"
        f" {found.contrast:.2f}; give a mask, or another photo"
    )


def describe_mask(image: Image, mask: Image) -> Foreground:
    """Describe how a mask lies in its photo.

    Args:
        image: The photo.
        mask: Its mask.

    Returns:
        The mask, and how far to trust it.
    """
    pixels = to_rgb(as_bytes(check_image(image, smallest=1)))
    return _describe(pixels, check_mask(mask, pixels.shape))


def _describe(pixels: Bytes, mask: Mask) -> Foreground:
    border = float(mask[_edge(mask.shape, 2)].mean())
    _, _, width, height = cv2.boundingRect(mask.astype(np.uint8))
    extent = float(mask.sum() / max(width * height, 1))
    return Foreground(mask, float(mask.mean()), border, _contrast(pixels, mask), extent)


def _marks_by_colour(small: Bytes) -> Bytes:
    """Return GrabCut's initial marks: probably the object where colours are rare at the edges and near the middle."""
    shape = small.shape[:2]
    lab = cv2.GaussianBlur(cv2.cvtColor(small, cv2.COLOR_RGB2LAB), (0, 0), 1.5).astype(np.float32)
    edge = _edge(shape, 2 * _frame_width(shape))
    criteria = (cv2.TERM_CRITERIA_EPS + cv2.TERM_CRITERIA_MAX_ITER, 20, 1.0)
    _, labels, centres = cv2.kmeans(lab[edge], _CLUSTERS, None, criteria, 2, cv2.KMEANS_PP_CENTERS)  # type: ignore[call-overload]
    frequencies = np.bincount(labels.ravel(), minlength=_CLUSTERS) / len(labels)
    # A colour that is rare along the edge may be the object's own where it leaves the photo: it counts as further off.
    distances = [
        np.linalg.norm(lab - centre, axis=2) + 6 / max(frequency, 0.02) ** 0.5
        for centre, frequency in zip(centres, frequencies, strict=True)
    ]
    prior = np.asarray(np.min(distances, axis=0).astype(np.float32) * _centre_weight(shape))
    low, high = np.percentile(prior, (1, 99))
    stretched = np.asarray(np.clip((prior - low) / max(high - low, 1e-6) * 255, 0, 255), np.uint8)
    likely = cv2.threshold(stretched, 0, 255, cv2.THRESH_BINARY + cv2.THRESH_OTSU)[1] > 0
    marks = np.where(likely, cv2.GC_PR_FGD, cv2.GC_PR_BGD).astype(np.uint8)
    marks[_edge(shape, _frame_width(shape)) & ~likely] = cv2.GC_BGD  # elsewhere the object may leave the photo
    return marks


def _marks_by_position(shape: tuple[int, int]) -> Bytes:
    """Return GrabCut's initial marks without looking at colours: the middle is the object, the frame is not."""
    marks = np.full(shape, cv2.GC_PR_BGD, np.uint8)
    weight = _centre_weight(shape)
    marks[weight > 0.65] = cv2.GC_PR_FGD
    marks[weight > 0.95] = cv2.GC_FGD
    marks[_edge(shape, _frame_width(shape))] = cv2.GC_BGD
    return marks


def _edge(shape: tuple[int, int], width: int) -> Mask:
    edge = np.ones(shape, bool)
    edge[width:-width, width:-width] = False
    return edge


def _frame_width(shape: tuple[int, int]) -> int:
    return max(1, round(_FRAME * min(shape)))


def _centre_weight(shape: tuple[int, int]) -> Floats:
    """Return 1 in the middle, falling to about a third in the corners."""
    y, x = (np.linspace(-1, 1, side, dtype=np.float32) for side in shape)
    return np.exp(-(x[None, :] ** 2 + y[:, None] ** 2) / 2 * 1.1)


def _grab_cut(small: Bytes, marks: Bytes) -> Mask:
    models = np.zeros((1, 65)), np.zeros((1, 65))
    cv2.grabCut(small, marks, None, *models, _ITERATIONS, cv2.GC_INIT_WITH_MASK)  # type: ignore[call-overload]
    mask = (marks == cv2.GC_FGD) | (marks == cv2.GC_PR_FGD)
    width = _frame_width(small.shape[:2])
    return np.pad(mask[width:-width, width:-width], width, mode="edge")  # what reaches the frame reaches the edge


def _clean(mask: Mask) -> Mask:
    """Return the largest piece without whiskers and small holes."""
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (5, 5))
    opened = cv2.morphologyEx(mask.astype(np.uint8), cv2.MORPH_OPEN, kernel) > 0
    closed = cv2.morphologyEx(largest_piece(opened).astype(np.uint8), cv2.MORPH_CLOSE, kernel)
    # holes below a twentieth of the object belong to it; larger ones are what is seen between the legs
    count, labels, stats, _ = cv2.connectedComponentsWithStats(1 - closed, connectivity=4)
    small = stats[:, cv2.CC_STAT_AREA] < 0.05 * closed.sum()
    small[0] = False  # the object itself
    return np.asarray((closed > 0) | small[labels] if count > 1 else closed > 0)


def largest_piece(mask: Mask) -> Mask:
    """Return the connected piece with the most pixels; an empty mask if there is none."""
    count, labels, stats, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8), connectivity=4)
    if count < 2:
        return np.zeros_like(mask)
    return np.asarray(labels == 1 + int(np.argmax(stats[1:, cv2.CC_STAT_AREA])))


def _contrast(small: Bytes, mask: Mask) -> float:
    """Compute the Hellinger distance between the colours of the object and those of the ring around it."""
    wide = cv2.dilate(mask.astype(np.uint8), np.ones((3, 3), np.uint8), iterations=20) > 0
    histograms = []
    for region in (mask, wide & ~mask):
        counts = cv2.calcHist([small], [0, 1, 2], region.astype(np.uint8), [8, 8, 8], [0, 256] * 3)
        histograms.append(np.asarray(counts / max(counts.sum(), 1)))
    inside, around = histograms
    return float(np.sqrt(max(0.0, 1 - np.sum(np.sqrt(inside * around)))))

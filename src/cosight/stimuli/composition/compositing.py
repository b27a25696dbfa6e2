"""Plain backgrounds, and an object of one photo pasted on another (Lee et al. 2023, section 3.2)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import cv2
import numpy as np

from cosight.errors import InvalidInput
from cosight.stimuli.composition.masks import Mask, check_mask
from cosight.stimuli.images import Bytes, Floats, Image, as_bytes, check_image, to_rgb

__all__ = ["PLAIN_BACKGROUNDS", "crop_to_cover", "on_plain_ground", "paste", "plain_background"]

# sRGB of the CSS colours purple, pink, red and darkorange; the paper gives words only
_COLOURS = {"purple": (128, 0, 128), "pink": (255, 192, 203), "red": (255, 0, 0), "bright orange": (255, 140, 0)}
PLAIN_BACKGROUNDS = (*_COLOURS, "rainbow", "static")
"""Names of the plain backgrounds (Lee et al. 2023, D.2.1: "with a purple background" and so on)."""
_MARGIN = 0.03  # of the background's sides, free around an object that its photo does not cut off


def plain_background(name: str, *, height: int, width: int, rng: np.random.Generator) -> Bytes:
    """Draw one of `PLAIN_BACKGROUNDS`: a colour, a rainbow from red at the top to violet, or television static.

    Args:
        name: Name of the background.
        height: Height in pixels.
        width: Width in pixels.
        rng: Generator of the static.

    Returns:
        RGB pixels.

    Raises:
        InvalidInput: If there is no such background.

    >>> plain_background("red", height=32, width=40, rng=np.random.default_rng(0))[0, 0].tolist()
    [255, 0, 0]
    """
    if name in _COLOURS:
        return np.full((height, width, 3), _COLOURS[name], np.uint8)
    if name == "rainbow":
        hues = np.linspace(0, 140, height).round().astype(np.uint8)  # OpenCV's degrees are halved: 140 is violet
        bands = np.stack([hues, np.full_like(hues, 220), np.full_like(hues, 245)], axis=1)
        return np.repeat(cv2.cvtColor(bands[:, None], cv2.COLOR_HSV2RGB), width, axis=1)
    if name == "static":
        grain = max(1, height // 200)
        noise = rng.integers(0, 256, (-(-height // grain), -(-width // grain)), np.uint8)
        return to_rgb(np.repeat(np.repeat(noise, grain, axis=0), grain, axis=1)[:height, :width])
    raise InvalidInput(f"a background is one of {', '.join(PLAIN_BACKGROUNDS)}, or a photo; got {name!r}")


def crop_to_cover(image: Image, *, height: int, width: int) -> Bytes:
    """Crop the middle of a photo to this aspect ratio and resize it to these sides; grey becomes RGB.

    Args:
        image: The photo.
        height: New height in pixels.
        width: New width in pixels.

    Returns:
        RGB pixels.

    >>> crop_to_cover(np.zeros((40, 80), np.uint8), height=32, width=32).shape
    (32, 32, 3)
    """
    pixels = to_rgb(as_bytes(check_image(image)))
    scale = min(pixels.shape[0] / height, pixels.shape[1] / width)
    high, wide = max(1, round(height * scale)), max(1, round(width * scale))
    top, left = (pixels.shape[0] - high) // 2, (pixels.shape[1] - wide) // 2
    crop = pixels[top : top + high, left : left + wide]
    return cv2.resize(crop, (width, height), interpolation=cv2.INTER_AREA if scale > 1 else cv2.INTER_CUBIC)  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class _Cutout:
    """An object cropped to its bounding box.

    `colour` is extended beyond the outline, `alpha` is soft, and `cut` says at which edges the photo ended first.
    """

    colour: Floats  # (height, width, 3), 0..255
    alpha: Floats  # (height, width), 0..1
    cut: dict[str, bool]  # top, bottom, left, right


def paste(
    object_image: Image,
    mask: Image,
    background: Image,
    *,
    rng: np.random.Generator,
    share: tuple[float, float] = (0.15, 0.35),
    feather: float = 1.0,
    match: float = 0.2,
) -> Bytes:
    """Paste the masked object of one photo on a background.

    The object is not cropped and stands in the lower part; an object that its photo cuts off below or at one side is
    placed at that edge. No shadow is drawn and the direction of light does not change, so a careful viewer notices.

    Args:
        object_image: Photo of the object.
        mask: Mask of the object, of the photo's size.
        background: The background.
        rng: Generator of size and position.
        share: Range of the fraction of the picture that the object fills; less if it does not fit.
        feather: Width of the soft outline: a standard deviation in pixels of a 256-pixel picture.
        match: How far, in [0, 1], the object's mean and spread of lightness and its mean tint move to the background's.

    Returns:
        RGB pixels of the background's size.

    Raises:
        InvalidInput: If an argument is out of range or the mask does not fit.

    >>> y, x = np.mgrid[:64, :64]
    >>> mask = (255 * ((x - 32) ** 2 + (y - 32) ** 2 < 200)).astype(np.uint8)
    >>> photo = np.where(mask[:, :, None] > 0, (200, 60, 30), (40, 120, 200)).astype(np.uint8)
    >>> meadow = np.full((64, 64, 3), (60, 160, 60), np.uint8)
    >>> paste(photo, mask, meadow, rng=np.random.default_rng(0)).shape
    (64, 64, 3)
    """
    if not 0 < share[0] <= share[1] <= 1:
        raise InvalidInput(f"share is a range within (0, 1], got {share[0]:g} to {share[1]:g}")
    if not 0 <= feather <= 10:
        raise InvalidInput(f"feather must lie in [0, 10] pixels, got {feather:g}")
    if not 0 <= match <= 1:
        raise InvalidInput(f"match must lie in [0, 1], got {match:g}; 0 keeps the object's colours")
    pixels = crop_to_cover(check_image(object_image), height=object_image.shape[0], width=object_image.shape[1])
    picture = crop_to_cover(check_image(background), height=background.shape[0], width=background.shape[1])
    shape = picture.shape[:2]
    cutout = _cut_out(pixels, check_mask(mask, pixels.shape[:2]))
    cutout = _scale(cutout, shape, rng.uniform(*share))
    cutout = _soften(cutout, feather * min(shape) / 256)
    top, left = _draw_position(cutout, shape, rng)
    cutout = _match_colours(cutout, picture, match)
    blended = picture.astype(np.float32)
    height, width = cutout.alpha.shape
    region = blended[top : top + height, left : left + width]
    region += cutout.alpha[:, :, None] * (cutout.colour - region)
    return np.clip(np.rint(blended), 0, 255).astype(np.uint8)


def on_plain_ground(image: Image, mask: Image, *, grey: int = 128, side: int = 256, fill: float = 0.8) -> Bytes:
    """Show the masked object of a photo alone, in the middle of a grey square.

    Args:
        image: Photo of the object.
        mask: Mask of the object, of the photo's size.
        grey: Value of the ground, 0 to 255.
        side: Side of the square in pixels.
        fill: Fraction of the side that the longer side of the object takes.

    Returns:
        RGB pixels.

    >>> on_plain_ground(np.zeros((40, 60), np.uint8), np.ones((40, 60), bool), side=64)[32].max(axis=1).tolist()[:7]
    [128, 128, 128, 128, 128, 128, 0]
    """
    pixels = to_rgb(as_bytes(check_image(image)))
    cutout = _cut_out(pixels, check_mask(mask, pixels.shape))
    scale = fill * side / max(cutout.alpha.shape)
    size = tuple(max(1, round(own * scale)) for own in cutout.alpha.shape[::-1])
    method = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    colour, alpha = (cv2.resize(array, size, interpolation=method) for array in (cutout.colour, cutout.alpha))
    picture = np.full((side, side, 3), grey, np.float32)
    top, left = (side - size[1]) // 2, (side - size[0]) // 2
    region = picture[top : top + size[1], left : left + size[0]]
    region += alpha[:, :, None] * (colour - region)
    return np.clip(np.rint(picture), 0, 255).astype(np.uint8)


def _cut_out(pixels: Bytes, mask: Mask) -> _Cutout:
    """Crop the object. Colours at and beyond the outline are those of the nearest pixel well inside, so that the old
    background does not show through the soft edge.
    """
    ys, xs = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    edges = {"top": ys[0] == 0, "bottom": ys[-1] == mask.shape[0] - 1}
    edges |= {"left": xs[0] == 0, "right": xs[-1] == mask.shape[1] - 1}
    box = np.s_[ys[0] : ys[-1] + 1, xs[0] : xs[-1] + 1]
    inside = mask[box].astype(np.uint8)
    eroded = cv2.erode(inside, np.ones((3, 3), np.uint8), borderValue=1)
    core = eroded if eroded.any() else inside
    _, labels = cv2.distanceTransformWithLabels(1 - core, cv2.DIST_L2, 5, labelType=cv2.DIST_LABEL_PIXEL)
    nearest = np.zeros(labels.max() + 1, np.int64)  # label of a core pixel -> its position
    positions = np.flatnonzero(core)
    nearest[labels.ravel()[positions]] = positions
    colour = pixels[box].reshape(-1, 3)[nearest[labels]].astype(np.float32)
    return _Cutout(colour, inside.astype(np.float32), {name: bool(value) for name, value in edges.items()})


def _scale(cutout: _Cutout, shape: tuple[int, int], fraction: float) -> _Cutout:
    """Resize the object so that it fills this fraction of a background of this shape, or as much of it as fits."""
    limit = min((1 - 2 * _MARGIN) * side / own for side, own in zip(shape, cutout.alpha.shape, strict=True))
    scale = min(limit, float(np.sqrt(fraction * shape[0] * shape[1] / cutout.alpha.sum())))
    size = tuple(max(1, round(side * scale)) for side in cutout.alpha.shape[::-1])
    method = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    colour, alpha = (cv2.resize(array, size, interpolation=method) for array in (cutout.colour, cutout.alpha))
    return _Cutout(np.clip(colour, 0, 255), np.clip(alpha, 0, 1), cutout.cut)


def _soften(cutout: _Cutout, sd: float) -> _Cutout:
    """Soften the outline inwards, so that no old background appears; edges cut off by the photo stay hard."""
    if sd == 0:
        return cutout
    reach = int(np.ceil(3 * sd)) + 1
    extended = [[reach * cutout.cut[name] for name in pair] for pair in (("top", "bottom"), ("left", "right"))]
    empty = [[reach - width for width in pair] for pair in extended]
    padded = np.pad(np.pad(cutout.alpha, extended, mode="edge"), empty)
    eroded = cv2.erode(padded, cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * round(sd) + 1,) * 2))
    soft = cv2.GaussianBlur(eroded, (0, 0), sd)[reach:-reach, reach:-reach]
    return replace(cutout, alpha=np.asarray(soft, np.float32))


def _draw_position(cutout: _Cutout, shape: tuple[int, int], rng: np.random.Generator) -> tuple[int, int]:
    """Return top and left of the object: anywhere across, low down; at the edge that cut it off, if one did."""
    free = [side - own for side, own in zip(shape, cutout.alpha.shape, strict=True)]
    fractions = rng.uniform(0.7, 1.0), rng.uniform(0.0, 1.0)
    margins = [min(_MARGIN * side, space / 2) for side, space in zip(shape, free, strict=True)]
    top, left = (round(m + at * (space - 2 * m)) for m, at, space in zip(margins, fractions, free, strict=True))
    if cutout.cut["bottom"]:
        top = free[0]  # an object cut off at the top alone is not moved: it would float
    if cutout.cut["left"] != cutout.cut["right"]:
        left = 0 if cutout.cut["left"] else free[1]
    return top, left


def _match_colours(cutout: _Cutout, background: Bytes, match: float) -> _Cutout:
    """Move the colours by the fraction `match` to the background's mean (all of Lab) and spread (lightness)."""
    if match == 0:
        return cutout
    lab, around = (
        np.asarray(cv2.cvtColor(colours / 255, cv2.COLOR_RGB2LAB), np.float32)
        for colours in (cutout.colour, background.astype(np.float32))
    )
    own = lab[cutout.alpha > 0.5]
    if not len(own):
        return cutout
    mean, goal = own.mean(axis=0), around.reshape(-1, 3).mean(axis=0)
    ratio = np.clip(around[:, :, 0].std() / max(own[:, 0].std(), 1), 0.5, 2)  # limited: the background may be flat
    spread = 1 + match * (ratio - 1)
    lab = (lab - mean) * np.array([spread, 1, 1]) + mean + match * (goal - mean)
    colour = cv2.cvtColor(lab.astype(np.float32), cv2.COLOR_LAB2RGB) * 255
    return replace(cutout, colour=np.clip(colour, 0, 255))

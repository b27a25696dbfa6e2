"""Backgrounds and pasted objects."""

from __future__ import annotations

from dataclasses import dataclass, replace

import cv2
import numpy as np

from cosight.errors import InvalidInput
from cosight.stimuli.composition.masks import Mask, check_mask
from cosight.stimuli.images import Bytes, Floats, Image, as_bytes, check_image, to_rgb

__all__ = ["PLAIN_BACKGROUNDS", "crop_to_cover", "paste", "plain_background"]

# sRGB of the CSS colours purple, pink, red and darkorange; the paper gives words only
_COLOURS = {"purple": (128, 0, 128), "pink": (255, 192, 203), "red": (255, 0, 0), "bright orange": (255, 140, 0)}
PLAIN_BACKGROUNDS = (*_COLOURS, "rainbow", "static")
"""Names of the grounds made here (Lee et al. 2023, D.2.1: "with a purple background" and so on)."""


def plain_background(name: str, *, height: int, width: int, rng: np.random.Generator) -> Bytes:
    """Return one of `PLAIN_BACKGROUNDS`: a colour, seven bands of the rainbow, or television static.

    >>> plain_background("red", height=32, width=40, rng=np.random.default_rng(0))[0, 0].tolist()
    [255, 0, 0]
    """
    if name in _COLOURS:
        return np.full((height, width, 3), _COLOURS[name], np.uint8)
    if name == "rainbow":
        return _rainbow(height, width)
    if name == "static":
        return _static(height, width, rng)
    raise InvalidInput(f"a ground is one of {', '.join(PLAIN_BACKGROUNDS)}, or a photo; got {name!r}")


def _rainbow(height: int, width: int) -> Bytes:
    """Hues from red at the top to violet at the bottom."""
    hues = np.linspace(0, 140, height).round().astype(np.uint8)  # OpenCV's degrees are halved: 140 is violet
    bands = np.stack([hues, np.full_like(hues, 220), np.full_like(hues, 245)], axis=1)
    return np.repeat(cv2.cvtColor(bands[:, None], cv2.COLOR_HSV2RGB), width, axis=1)


def _static(height: int, width: int, rng: np.random.Generator) -> Bytes:
    """Grey noise in grains of about a 200th of the height, as a television without a signal shows."""
    grain = max(1, height // 200)
    noise = rng.integers(0, 256, (-(-height // grain), -(-width // grain)), np.uint8)
    grains = np.repeat(np.repeat(noise, grain, axis=0), grain, axis=1)[:height, :width]
    return to_rgb(grains)


def crop_to_cover(image: Image, *, height: int, width: int) -> Bytes:
    """A photo that covers these sides: its middle of their ratio, resized to them; grey becomes RGB."""
    pixels = to_rgb(as_bytes(check_image(image)))
    scale = min(pixels.shape[0] / height, pixels.shape[1] / width)
    high, wide = max(1, round(height * scale)), max(1, round(width * scale))
    top, left = (pixels.shape[0] - high) // 2, (pixels.shape[1] - wide) // 2
    cut = pixels[top : top + high, left : left + wide]
    return cv2.resize(cut, (width, height), interpolation=cv2.INTER_AREA if scale > 1 else cv2.INTER_CUBIC)  # type: ignore[return-value]


_MARGIN = 0.03  # of the ground's sides, kept free around an object that does not leave its photo


@dataclass(frozen=True, slots=True)
class _Cutout:
    """An object cut to its box: colours spread beyond its outline, soft alpha, and the photo's edges it was cut by."""

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
    """The masked object on another ground, RGB, of the background's size.

    The object fills a share of the picture drawn from `share`, or as much as fits; it stays whole inside, stands in the
    lower part, and an object that its photo cut off below or at one side is put at that edge. `feather` is the width of
    the soft outline (a sd, in pixels of a 256-pixel picture); `match` in [0, 1] moves the object's mean and spread of
    lightness and its mean tint towards the ground's. No shadow is drawn and no light turned: a careful eye sees it.
    """
    _check(share=share, feather=feather, match=match)
    pixels = crop_to_cover(check_image(object_image), height=object_image.shape[0], width=object_image.shape[1])
    ground = crop_to_cover(check_image(background), height=background.shape[0], width=background.shape[1])
    cutout = _cutout(pixels, check_mask(mask, pixels.shape[:2]))
    cutout = _scaled(cutout, ground.shape[:2], rng.uniform(*share))
    cutout = _softened(cutout, feather * min(ground.shape[:2]) / 256)
    top, left = _place(cutout, ground.shape[:2], rng)
    return _laid(_matched(cutout, ground, match), ground, top, left)


def _check(*, share: tuple[float, float], feather: float, match: float) -> None:
    if not 0 < share[0] <= share[1] <= 1:
        raise InvalidInput(f"share is a range within (0, 1], got {share[0]:g} to {share[1]:g}")
    if not 0 <= feather <= 10:
        raise InvalidInput(f"feather must lie in [0, 10] pixels, got {feather:g}")
    if not 0 <= match <= 1:
        raise InvalidInput(f"match must lie in [0, 1], got {match:g}; 0 keeps the object's colours")


def _cutout(pixels: Bytes, mask: Mask) -> _Cutout:
    """The object in its box. Colours at and beyond the outline are those of the nearest pixel well inside, so that the
    old ground does not shine through the soft edge.
    """
    ys, xs = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    edges = {"top": ys[0] == 0, "bottom": ys[-1] == mask.shape[0] - 1}
    edges |= {"left": xs[0] == 0, "right": xs[-1] == mask.shape[1] - 1}
    box = np.s_[ys[0] : ys[-1] + 1, xs[0] : xs[-1] + 1]
    inside = mask[box].astype(np.uint8)
    core = cv2.erode(inside, np.ones((3, 3), np.uint8), borderValue=1)
    _, labels = cv2.distanceTransformWithLabels(
        1 - (core if core.any() else inside), cv2.DIST_L2, 5, labelType=cv2.DIST_LABEL_PIXEL
    )
    seeds = np.zeros(labels.max() + 1, np.int64)
    at = np.flatnonzero(core if core.any() else inside)
    seeds[labels.ravel()[at]] = at
    colour = pixels[box].reshape(-1, 3)[seeds[labels]].astype(np.float32)
    return _Cutout(colour, inside.astype(np.float32), {name: bool(value) for name, value in edges.items()})


def _scaled(cutout: _Cutout, shape: tuple[int, int], share: float) -> _Cutout:
    """Resized so that the alpha fills `share` of a ground of this shape, or as much of it as fits."""
    room = 1 - 2 * _MARGIN
    fits = min(room * side / own for side, own in zip(shape, cutout.alpha.shape, strict=True))
    scale = min(fits, float(np.sqrt(share * shape[0] * shape[1] / cutout.alpha.sum())))
    size = tuple(max(1, round(side * scale)) for side in cutout.alpha.shape[::-1])
    method = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    colour, alpha = (cv2.resize(array, size, interpolation=method) for array in (cutout.colour, cutout.alpha))
    return _Cutout(np.clip(colour, 0, 255), np.clip(alpha, 0, 1), cutout.cut)


def _softened(cutout: _Cutout, sd: float) -> _Cutout:
    """A soft outline within the old one, so that no old ground comes in; edges cut by the photo stay hard."""
    if sd == 0:
        return cutout
    reach = int(np.ceil(3 * sd)) + 1
    goes_on = [[reach * cutout.cut[name] for name in pair] for pair in (("top", "bottom"), ("left", "right"))]
    ends = [[reach - width for width in pair] for pair in goes_on]
    padded = np.pad(np.pad(cutout.alpha, goes_on, mode="edge"), ends)
    inner = cv2.erode(padded, cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * round(sd) + 1,) * 2))
    soft = cv2.GaussianBlur(inner, (0, 0), sd)[reach:-reach, reach:-reach]
    return replace(cutout, alpha=np.asarray(soft, np.float32))


def _place(cutout: _Cutout, shape: tuple[int, int], rng: np.random.Generator) -> tuple[int, int]:
    """Top and left of the box: anywhere across, low down; at the edge that cut it, where one did."""
    free = [side - own for side, own in zip(shape, cutout.alpha.shape, strict=True)]
    shares = rng.uniform(0.7, 1.0), rng.uniform(0.0, 1.0)
    margins = [min(_MARGIN * side, room / 2) for side, room in zip(shape, free, strict=True)]
    top, left = (round(m + at * (room - 2 * m)) for m, at, room in zip(margins, shares, free, strict=True))
    if cutout.cut["bottom"]:
        top = free[0]  # an object cut at the top alone still stands: at the top it would hang in the air
    if cutout.cut["left"] != cutout.cut["right"]:
        left = 0 if cutout.cut["left"] else free[1]
    return top, left


def _matched(cutout: _Cutout, ground: Bytes, match: float) -> _Cutout:
    """Colours moved the share `match` of the way to the ground's mean (all of Lab) and spread (lightness)."""
    if match == 0:
        return cutout
    lab, around = _lab(cutout.colour), _lab(ground.astype(np.float32))
    own = lab[cutout.alpha > 0.5]
    if not len(own):
        return cutout
    mean, goal = own.mean(axis=0), around.reshape(-1, 3).mean(axis=0)
    spread = 1 + match * (
        np.clip(around[:, :, 0].std() / max(own[:, 0].std(), 1), 0.5, 2) - 1
    )  # a flat ground is no aim
    lab = (lab - mean) * np.array([spread, 1, 1]) + mean + match * (goal - mean)
    colour = cv2.cvtColor(lab.astype(np.float32), cv2.COLOR_LAB2RGB) * 255
    return replace(cutout, colour=np.clip(colour, 0, 255))


def _lab(colours: Floats) -> Floats:
    return np.asarray(cv2.cvtColor(colours / 255, cv2.COLOR_RGB2LAB), np.float32)


def _laid(cutout: _Cutout, ground: Bytes, top: int, left: int) -> Bytes:
    height, width = cutout.alpha.shape
    picture = ground.astype(np.float32)
    place = picture[top : top + height, left : left + width]
    place += cutout.alpha[:, :, None] * (cutout.colour - place)
    return np.clip(np.rint(picture), 0, 255).astype(np.uint8)

"""What becomes of an image each time it is learnt from: a crop, perhaps mirrored; for SimCLR and BYOL much more."""

from __future__ import annotations

from math import nextafter
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow

from cosight.errors import InvalidInput
from cosight.models.preprocessing import Preprocessing, resize_and_crop
from cosight.stimuli.images import Bytes, Floats, as_bytes, as_floats

__all__ = ["crop_and_flip", "crop_share", "draws", "order", "shrunk", "two_views", "view"]

# SimCLR (Chen et al. 2020, appendix A): crops of 8 to 100 % of the area, aspect 3/4 to 4/3; colours changed by up to .8
# (hue .2) with probability .8; grey with probability .2; blurred with probability .5, sigma .1 to 2, a kernel a tenth
# of the side. The released code of Lee et al. 2023 uses the same for BYOL.
_AREA = (0.08, 1.0)
_ASPECT = (3 / 4, 4 / 3)
_JITTER, _HUE = 0.8, 0.2
_P_JITTER, _P_GREY, _P_BLUR, _P_FLIP = 0.8, 0.2, 0.5, 0.5
_SIGMA = (0.1, 2.0)
_LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)  # ITU-R BT.601
_ORDER, _CROPS, _VIEWS = 1, 2, 3  # which random numbers; not 0, which a seed sequence cannot tell from none
_TRIES = 10  # crops drawn before the middle is taken, as torchvision does


def shrunk(image: Bytes, side: int, interpolation: str) -> Bytes:
    """An RGB image with its short side at `side`; sides are rounded down, as torchvision does."""
    height, width = image.shape[:2]
    size = (side, int(side * width / height)) if height <= width else (int(side * height / width), side)
    if size == (height, width):
        return image
    return resize_and_crop(image, Preprocessing(size=size, interpolation=interpolation, crop_mode="squash"))


def crop_share(size: int, resize: int) -> float:
    """The `crop` of a `Preprocessing` that shrinks to `resize` before it cuts `size`; 224 / 256 as a rule.

    >>> crop_share(224, 256)
    0.875
    """
    if resize < size:
        raise InvalidInput(f"resize must be at least the network's input of {size}, got {resize}; raise it")
    share = size / resize
    while int(size / share) < resize:  # the quotient's rounding may lose a pixel
        share = nextafter(share, 0)
    return share


def order(seed: int, epoch: int, images: int) -> NDArray[np.int64]:
    """The order in which an epoch goes through its images."""
    return np.random.default_rng((seed, epoch, _ORDER)).permutation(images)


def draws(seed: int, epoch: int, images: int) -> NDArray[np.float64]:
    """Three numbers in [0, 1) for each image, which decide its crop and whether it is mirrored in this epoch."""
    return np.random.default_rng((seed, epoch, _CROPS)).random((images, 3))


def two_views(
    image: Bytes, *, seed: int, epoch: int, number: int, size: tuple[int, int], flip: bool
) -> tuple[Bytes, Bytes]:
    """The two views of image `number` in an epoch of SimCLR or BYOL."""
    rng = np.random.default_rng((seed, epoch, _VIEWS, number))
    return view(image, rng, size=size, flip=flip), view(image, rng, size=size, flip=flip)


def crop_and_flip(
    image: Bytes, drawn: NDArray[np.float64], *, size: tuple[int, int], padding: int, flip: bool
) -> Bytes:
    """A crop of `size` from anywhere in the image with black padding, mirrored half of the time if `flip`."""
    padded = _padded(image, padding) if padding else image
    top, left = (int(u * (have - want + 1)) for u, have, want in zip(drawn, padded.shape, size, strict=False))
    cut = padded[top : top + size[0], left : left + size[1]]
    return cut[:, ::-1] if flip and drawn[2] < 0.5 else cut


def _padded(image: Bytes, padding: int) -> Bytes:
    """With black edges; np.pad takes 17 times as long for 32 pixels a side, 4 times for 256."""
    padded: Any = cv2.copyMakeBorder(image, *(padding,) * 4, cv2.BORDER_CONSTANT)
    return np.asarray(padded, dtype=np.uint8)


def view(image: Bytes, rng: np.random.Generator, *, size: tuple[int, int], flip: bool) -> Bytes:
    """One of the views of an image that SimCLR and BYOL learn to know as the same."""
    photo = Pillow.fromarray(image).resize(size[::-1], Pillow.Resampling.BICUBIC, box=_box(image.shape, rng))
    pixels = as_floats(np.array(photo))
    if flip and rng.random() < _P_FLIP:
        pixels = np.ascontiguousarray(pixels[:, ::-1])
    if rng.random() < _P_JITTER:
        pixels = _jittered(pixels, rng)
    if rng.random() < _P_GREY:
        pixels = np.repeat(_grey(pixels), 3, axis=2)
    if rng.random() < _P_BLUR:
        pixels = _blurred(pixels, rng.uniform(*_SIGMA))
    return as_bytes(np.clip(pixels, 0, 1))


def _box(shape: tuple[int, ...], rng: np.random.Generator) -> tuple[float, float, float, float]:
    """A part of the image of random area and aspect: left, top, right, bottom."""
    height, width = shape[:2]
    for _ in range(_TRIES):
        area = height * width * rng.uniform(*_AREA)
        aspect = np.exp(rng.uniform(*np.log(_ASPECT)))
        tall, wide = round(float(np.sqrt(area / aspect))), round(float(np.sqrt(area * aspect)))
        if 0 < tall <= height and 0 < wide <= width:
            top, left = rng.integers(height - tall + 1), rng.integers(width - wide + 1)
            return float(left), float(top), float(left + wide), float(top + tall)
    return 0.0, 0.0, float(width), float(height)


def _jittered(pixels: Floats, rng: np.random.Generator) -> Floats:
    """Brightness, contrast, saturation and hue changed, in random order."""
    strengths = rng.uniform(1 - _JITTER, 1 + _JITTER, size=3).astype(np.float32)
    hue = rng.uniform(-_HUE, _HUE)
    for change in rng.permutation(4):
        pixels = np.clip(_changed(pixels, int(change), strengths, hue), 0, 1)
    return pixels


def _changed(pixels: Floats, change: int, strengths: NDArray[Any], hue: float) -> Floats:
    if change == 0:
        return _mixed(pixels, np.float32(0), strengths[0])
    if change == 1:
        return _mixed(pixels, _grey(pixels).mean(), strengths[1])
    if change == 2:
        return _mixed(pixels, _grey(pixels), strengths[2])
    hsv = cv2.cvtColor(np.ascontiguousarray(pixels), cv2.COLOR_RGB2HSV)
    hsv[..., 0] = (hsv[..., 0] + 360 * hue) % 360
    turned: Floats = cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB).astype(np.float32, copy=False)
    return turned


def _mixed(pixels: Floats, other: Any, share: float) -> Floats:
    mixed: Floats = share * pixels + (1 - share) * other
    return mixed


def _grey(pixels: Floats) -> Floats:
    luma: Floats = (pixels @ _LUMA)[..., None]
    return luma


def _blurred(pixels: Floats, sigma: float) -> Floats:
    kernel = max(3, pixels.shape[0] // 10 | 1)  # odd
    blurred: Floats = cv2.GaussianBlur(np.ascontiguousarray(pixels), (kernel, kernel), sigma).astype(np.float32)
    return blurred

"""Random changes of an image each time it is trained on: crop and flip, or the views of SimCLR and BYOL.

All random numbers follow from (seed, epoch, image).
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow

from cosight.models.preprocessing import Preprocessing, resize_and_crop
from cosight.stimuli.images import Bytes, Floats, as_bytes, as_floats

__all__ = ["crop_and_flip", "crop_draws", "image_order", "random_view", "resize_short_side", "two_views"]

# SimCLR (Chen et al. 2020, appendix A): crops of 8 to 100 % of the area, aspect 3/4 to 4/3; colours changed by up to .8
# (hue .2) with probability .8; grey with probability .2; blurred with probability .5, sigma .1 to 2, a kernel a tenth
# of the side. The released code of Lee et al. 2023 uses the same for BYOL.
_AREA = (0.08, 1.0)
_ASPECT = (3 / 4, 4 / 3)
_JITTER, _HUE = 0.8, 0.2
_P_JITTER, _P_GREY, _P_BLUR, _P_FLIP = 0.8, 0.2, 0.5, 0.5
_SIGMA = (0.1, 2.0)
_LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)  # ITU-R BT.601
_ORDER, _CROPS, _VIEWS = 1, 2, 3  # names of random streams; not 0, because trailing zeros do not change a seed sequence
_TRIES = 10  # crops drawn before the centre is used, as in torchvision


def resize_short_side(image: Bytes, side: int, interpolation: str) -> Bytes:
    """Resize an RGB image so that its short side is `side`; the other is rounded down, as in torchvision."""
    height, width = image.shape[:2]
    size = (side, int(side * width / height)) if height <= width else (int(side * height / width), side)
    if size == (height, width):
        return image
    return resize_and_crop(image, Preprocessing(size=size, interpolation=interpolation, crop_mode="squash"))


def image_order(seed: int, epoch: int, images: int) -> NDArray[np.int64]:
    """Return the order of the images in an epoch."""
    return np.random.default_rng((seed, epoch, _ORDER)).permutation(images)


def crop_draws(seed: int, epoch: int, images: int) -> NDArray[np.float64]:
    """Return three numbers in [0, 1) per image (images, 3), which decide its crop and flip in an epoch."""
    return np.random.default_rng((seed, epoch, _CROPS)).random((images, 3))


def crop_and_flip(
    image: Bytes, draws: NDArray[np.float64], *, size: tuple[int, int], padding: int, flip: bool
) -> Bytes:
    """Crop `size` from a random position of the image with black padding; with `flip`, mirror it half of the time."""
    padded: Any = image
    if padding:  # np.pad takes 17 times as long for images of 32 x 32 pixels, 4 times for 256 x 256
        padded = np.asarray(cv2.copyMakeBorder(image, *(padding,) * 4, cv2.BORDER_CONSTANT), dtype=np.uint8)
    top = int(draws[0] * (padded.shape[0] - size[0] + 1))
    left = int(draws[1] * (padded.shape[1] - size[1] + 1))
    crop: Bytes = padded[top : top + size[0], left : left + size[1]]
    return crop[:, ::-1] if flip and draws[2] < 0.5 else crop


def two_views(
    image: Bytes, *, seed: int, epoch: int, number: int, size: tuple[int, int], flip: bool
) -> tuple[Bytes, Bytes]:
    """Return the two views of image `number` in an epoch of SimCLR or BYOL."""
    rng = np.random.default_rng((seed, epoch, _VIEWS, number))
    return random_view(image, rng, size=size, flip=flip), random_view(image, rng, size=size, flip=flip)


def random_view(image: Bytes, rng: np.random.Generator, *, size: tuple[int, int], flip: bool) -> Bytes:
    """Return a random view of an image, as SimCLR and BYOL use them."""
    photo = Pillow.fromarray(image).resize(size[::-1], Pillow.Resampling.BICUBIC, box=_random_box(image.shape, rng))
    pixels = as_floats(np.array(photo))
    if flip and rng.random() < _P_FLIP:
        pixels = np.ascontiguousarray(pixels[:, ::-1])
    if rng.random() < _P_JITTER:
        pixels = _jitter_colours(pixels, rng)
    if rng.random() < _P_GREY:
        pixels = np.repeat(_to_grey(pixels), 3, axis=2)
    if rng.random() < _P_BLUR:
        kernel = max(3, pixels.shape[0] // 10 | 1)  # odd
        blurred = cv2.GaussianBlur(np.ascontiguousarray(pixels), (kernel, kernel), rng.uniform(*_SIGMA))
        pixels = blurred.astype(np.float32)
    return as_bytes(np.clip(pixels, 0, 1))


def _random_box(shape: tuple[int, ...], rng: np.random.Generator) -> tuple[float, float, float, float]:
    """Return a part of the image of random area and aspect: left, top, right, bottom."""
    height, width = shape[:2]
    for _ in range(_TRIES):
        area = height * width * rng.uniform(*_AREA)
        aspect = np.exp(rng.uniform(*np.log(_ASPECT)))
        rows, columns = round(float(np.sqrt(area / aspect))), round(float(np.sqrt(area * aspect)))
        if 0 < rows <= height and 0 < columns <= width:
            top, left = rng.integers(height - rows + 1), rng.integers(width - columns + 1)
            return float(left), float(top), float(left + columns), float(top + rows)
    return 0.0, 0.0, float(width), float(height)


def _jitter_colours(pixels: Floats, rng: np.random.Generator) -> Floats:
    """Change brightness, contrast, saturation and hue, in random order."""
    strengths = rng.uniform(1 - _JITTER, 1 + _JITTER, size=3).astype(np.float32)
    hue = rng.uniform(-_HUE, _HUE)
    for change in rng.permutation(4):
        if change < 3:
            other: Any = np.float32(0) if change == 0 else _to_grey(pixels)  # brightness: mix with black
            if change == 1:  # contrast: mix with the mean grey; saturation: mix with the grey image
                other = other.mean()
            pixels = strengths[change] * pixels + (1 - strengths[change]) * other
        else:
            hsv = cv2.cvtColor(np.ascontiguousarray(pixels), cv2.COLOR_RGB2HSV)
            hsv[..., 0] = (hsv[..., 0] + 360 * hue) % 360
            pixels = cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB).astype(np.float32, copy=False)
        pixels = np.clip(pixels, 0, 1)
    return pixels


def _to_grey(pixels: Floats) -> Floats:
    luma: Floats = (pixels @ _LUMA)[..., None]
    return luma

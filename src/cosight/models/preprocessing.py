"""Preprocessing of a photo for a model: resize, crop, then normalise each channel."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, nextafter
from typing import Any, Literal

import numpy as np
from PIL import Image as Pillow

from cosight.errors import InvalidInput
from cosight.stimuli.images import Bytes, Floats, as_bytes, as_floats, check_image, to_rgb

__all__ = [
    "IMAGENET_MEAN",
    "IMAGENET_STD",
    "CropMode",
    "Preprocessing",
    "crop_fraction",
    "normalise",
    "preprocess",
    "resize_and_crop",
]

CropMode = Literal["center", "squash"]

IMAGENET_MEAN = (0.485, 0.456, 0.406)  # of RGB in [0, 1], used by every ImageNet recipe since Torch7
IMAGENET_STD = (0.229, 0.224, 0.225)
_SMALLEST_CROP = 0.01  # photos are resized to size / crop first
_FILTERS = {
    "nearest": Pillow.Resampling.NEAREST,
    "bilinear": Pillow.Resampling.BILINEAR,
    "bicubic": Pillow.Resampling.BICUBIC,
    "lanczos": Pillow.Resampling.LANCZOS,
}


@dataclass(frozen=True, slots=True, init=False)
class Preprocessing:
    """How photos are resized, cropped and normalised.

    Args:
        size: Side of the input in pixels, or height and width.
        mean: Subtracted from each channel, in units of pixels in [0, 1]: one number, or one per channel (default:
            ImageNet's).
        std: Divisor of each channel after that (default: ImageNet's). With `mean=0, std=1` the network gets pixels in
            [0, 1].
        interpolation: nearest, bilinear, bicubic or lanczos.
        crop: Fraction of the resized photo's side that the crop keeps (timm's crop_pct).
        crop_mode: "center" keeps the aspect ratio when resizing, "squash" does not.

    Raises:
        InvalidInput: A setting is out of range.

    >>> Preprocessing(224, crop=0.875).facts["size"]
    [224, 224]
    """

    size: tuple[int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    interpolation: str
    crop: float
    crop_mode: CropMode

    def __init__(
        self,
        size: int | tuple[int, int],
        mean: float | tuple[float, ...] = IMAGENET_MEAN,
        std: float | tuple[float, ...] = IMAGENET_STD,
        interpolation: str = "bicubic",
        crop: float = 1.0,
        crop_mode: CropMode = "center",
    ) -> None:
        settings = {
            "size": (size, size) if isinstance(size, int) else size,
            "mean": (mean,) * 3 if isinstance(mean, int | float) else mean,
            "std": (std,) * 3 if isinstance(std, int | float) else std,
            "interpolation": interpolation,
            "crop": crop,
            "crop_mode": crop_mode,
        }
        for name, value in settings.items():
            object.__setattr__(self, name, value)  # the class is frozen
        self._check()

    def _check(self) -> None:
        is_pair = isinstance(self.size, tuple) and len(self.size) == 2
        if not is_pair or not all(isinstance(side, int) and side > 0 for side in self.size):
            raise InvalidInput(f"size must be one or two positive integers, got {self.size}")
        if len(self.mean) != len(self.std) or not all(map(isfinite, self.mean)):
            raise InvalidInput(f"mean and std must have one number per channel, got {self.mean} and {self.std}")
        if not all(isfinite(value) and value > 0 for value in self.std):
            raise InvalidInput(f"std must be positive, got {self.std}; use units of pixels in [0, 1]")
        if self.interpolation not in _FILTERS:
            raise InvalidInput(f"interpolation must be one of {', '.join(_FILTERS)}, got {self.interpolation!r}")
        if not _SMALLEST_CROP <= self.crop <= 1:
            raise InvalidInput(
                f"crop must be in [{_SMALLEST_CROP}, 1], the fraction of the side that is kept, got {self.crop:g}"
            )
        if self.crop_mode not in ("center", "squash"):
            raise InvalidInput(
                f"crop mode must be center or squash, got {self.crop_mode!r}; resize the photos yourself"
            )

    @property
    def facts(self) -> dict[str, Any]:
        """All settings as numbers, text and lists, for run records."""
        return {
            "size": list(self.size),
            "crop": self.crop,
            "crop_mode": self.crop_mode,
            "interpolation": self.interpolation,
            "mean": list(self.mean),
            "std": list(self.std),
        }


def preprocess(image: Bytes, preprocessing: Preprocessing) -> Floats:
    """Resize and crop a photo into a model's input before normalisation.

    Args:
        image: Photo, uint8 RGB or grey.
        preprocessing: Settings of the model.

    Returns:
        Float32 (3, height, width) in [0, 1].

    >>> preprocess(np.full((40, 60, 3), 255, np.uint8), Preprocessing((32, 32))).shape
    (3, 32, 32)
    """
    return np.ascontiguousarray(as_floats(resize_and_crop(image, preprocessing)).transpose(2, 0, 1))


def resize_and_crop(image: Bytes, preprocessing: Preprocessing) -> Bytes:
    """Resize and crop a photo to the size of a model's input.

    Sides are rounded down, as torchvision and timm do, so that the pixels are the same as theirs.

    Args:
        image: Photo, uint8 RGB or grey.
        preprocessing: Settings of the model.

    Returns:
        Uint8 RGB (height, width, 3).

    >>> resize_and_crop(np.zeros((40, 60), np.uint8), Preprocessing((32, 32))).shape
    (32, 32, 3)
    """
    colour = to_rgb(as_bytes(check_image(image, smallest=1)))  # some sets have digits of 8 x 8
    height, width = colour.shape[:2]
    rows, columns = (int(side / preprocessing.crop) for side in preprocessing.size)
    if preprocessing.crop_mode == "squash":
        resized = rows, columns
    elif rows * width <= columns * height:  # the width decides
        resized = max(int(columns * height / width), rows), columns
    else:
        resized = rows, max(int(rows * width / height), columns)
    photo = Pillow.fromarray(colour)
    if resized != (height, width):
        photo = photo.resize(resized[::-1], _FILTERS[preprocessing.interpolation])
    rows, columns = preprocessing.size
    top, left = round((resized[0] - rows) / 2), round((resized[1] - columns) / 2)
    return np.array(photo)[top : top + rows, left : left + columns].copy()


def crop_fraction(size: int, resize: int) -> float:
    """Return the `crop` of a `Preprocessing` that resizes to `resize` pixels and then crops `size`.

    >>> crop_fraction(224, 256)
    0.875
    """
    if resize < size:
        raise InvalidInput(f"resize must be at least the network's input of {size}, got {resize}; raise it")
    fraction = size / resize
    while int(size / fraction) < resize:  # rounding of the quotient may lose a pixel
        fraction = nextafter(fraction, 0)
    return fraction


def normalise(batch: Floats, preprocessing: Preprocessing) -> Floats:
    """Subtract the mean of each channel of a batch (N, 3, height, width) and divide by its standard deviation."""
    mean, std = (
        np.array(values, dtype=np.float32).reshape(1, -1, 1, 1) for values in (preprocessing.mean, preprocessing.std)
    )
    return (batch - mean) / std

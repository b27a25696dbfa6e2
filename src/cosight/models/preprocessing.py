"""What becomes of a photo before a model sees it: shrunk, cut, then normalised channel by channel."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal

import numpy as np
from PIL import Image as Pillow

from cosight.errors import InvalidInput
from cosight.stimuli.images import Bytes, Floats, as_bytes, as_floats, check_image, to_rgb

__all__ = ["IMAGENET_MEAN", "IMAGENET_STD", "CropMode", "Preprocessing", "preprocess", "resize_and_crop"]

CropMode = Literal["center", "squash"]

IMAGENET_MEAN = (0.485, 0.456, 0.406)  # of RGB in [0, 1], the figures every ImageNet recipe since Torch7 uses
IMAGENET_STD = (0.229, 0.224, 0.225)
_FILTERS = {
    "nearest": Pillow.Resampling.NEAREST,
    "bilinear": Pillow.Resampling.BILINEAR,
    "bicubic": Pillow.Resampling.BICUBIC,
    "lanczos": Pillow.Resampling.LANCZOS,
}


@dataclass(frozen=True, slots=True)
class Preprocessing:
    """A model's own input. `crop` is the share of the shrunk photo's side that is kept (timm's crop_pct); `crop_mode`
    says whether shrinking keeps the aspect ratio ("center") or not ("squash").
    """

    size: tuple[int, int]  # height, width
    mean: tuple[float, ...] = IMAGENET_MEAN
    std: tuple[float, ...] = IMAGENET_STD
    interpolation: str = "bicubic"
    crop: float = 1.0
    crop_mode: CropMode = "center"

    def __post_init__(self) -> None:
        if len(self.size) != 2 or min(self.size) < 1:
            raise InvalidInput(f"size must be one or two whole numbers from 1 up, got {self.size}")
        if len(self.mean) != len(self.std) or not all(map(isfinite, self.mean)):
            raise InvalidInput(f"mean and std must be one number a channel each, got {self.mean} and {self.std}")
        if not all(isfinite(value) and value > 0 for value in self.std):
            raise InvalidInput(f"std must be positive, got {self.std}; give it in units of pixels in [0, 1]")
        if self.interpolation not in _FILTERS:
            raise InvalidInput(f"interpolation must be one of {', '.join(_FILTERS)}, got {self.interpolation!r}")
        if not 0 < self.crop <= 1:
            raise InvalidInput(f"crop must be in (0, 1], the share of the side that is kept, got {self.crop:g}")
        if self.crop_mode not in ("center", "squash"):
            raise InvalidInput(
                f"crop mode must be center or squash, got {self.crop_mode!r}; shrink the photos yourself"
            )

    @property
    def facts(self) -> dict[str, Any]:
        """What is done, for the record: numbers, text and lists only."""
        return {
            "size": list(self.size),
            "crop": self.crop,
            "crop_mode": self.crop_mode,
            "interpolation": self.interpolation,
            "mean": list(self.mean),
            "std": list(self.std),
        }


def preprocess(image: Bytes, preprocessing: Preprocessing) -> Floats:
    """What the model would see of this photo before normalising: float32 (3, height, width) in [0, 1]."""
    return np.ascontiguousarray(as_floats(resize_and_crop(image, preprocessing)).transpose(2, 0, 1))


def resize_and_crop(image: Bytes, preprocessing: Preprocessing) -> Bytes:
    """The uint8 RGB image of the model's size that the model would see of this photo."""
    colour = to_rgb(as_bytes(check_image(image, smallest=1)))  # digits of 8 x 8, say
    height, width = _shrunk(colour.shape[:2], preprocessing)
    photo = Pillow.fromarray(colour)
    if (height, width) != colour.shape[:2]:
        photo = photo.resize((width, height), _FILTERS[preprocessing.interpolation])
    rows, columns = preprocessing.size
    top, left = round((height - rows) / 2), round((width - columns) / 2)
    return np.array(photo)[top : top + rows, left : left + columns].copy()


def _shrunk(size: tuple[int, ...], preprocessing: Preprocessing) -> tuple[int, int]:
    """Size before the cut. Sides are rounded down, as torchvision and timm do, so that the pixels are theirs."""
    rows, columns = (int(side / preprocessing.crop) for side in preprocessing.size)
    if preprocessing.crop_mode == "squash":
        return rows, columns
    height, width = size
    if rows * width <= columns * height:  # the width decides
        return max(int(columns * height / width), rows), columns
    return rows, max(int(rows * width / height), columns)

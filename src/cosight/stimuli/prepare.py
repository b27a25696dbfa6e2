"""What is done to a source image before anything else, so that all stimuli of a set have one size.

* `none`       nothing
* `256x256`    stretched to this width and height (VisAlign's rule)
* `256/224`    the short side scaled to the first number, the centre square of the second cut out (the rule of LAION-C
               and ImageNet-C, and of most models' own preprocessing)

Scaling is Pillow's antialiased bilinear filter: with `256/224` people see the pixels that torchvision's `Resize(256)`
and `CenterCrop(224)` give a model.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from PIL import Image as Pillow

from cosight.errors import InvalidInput
from cosight.stimuli.images import SMALLEST, Bytes

__all__ = ["Preparation", "preparation"]

_LARGEST = 8192  # pixels a side: more is a slip of the keyboard
_NARROWEST = 64  # long side over short side that may still be scaled by the short one: beyond, memory is the limit
_FORM = re.compile(r"(?P<first>[0-9]+)(?P<sign>[x/])(?P<second>[0-9]+)", re.ASCII)


@dataclass(frozen=True, slots=True, repr=False)
class Preparation:
    """Stretch to `size`, or scale the short side to `short` and cut out the centre square `crop`, or neither."""

    size: tuple[int, int] | None = None  # width, height
    short: int | None = None
    crop: int | None = None

    def __str__(self) -> str:
        """The text that `preparation` makes it from."""
        if self.size is not None:
            return f"{self.size[0]}x{self.size[1]}"
        return f"{self.short}/{self.crop}" if self.short is not None else "none"

    def __repr__(self) -> str:
        """The call that makes it."""
        return f"preparation({str(self)!r})"

    def __call__(self, image: Bytes) -> Bytes:
        """The prepared image, contiguous; grey stays grey."""
        if image.dtype != np.uint8 or (image.ndim != 2 and not (image.ndim == 3 and image.shape[2] == 3)):
            raise InvalidInput(f"a source is 8-bit RGB or grey, got {image.dtype} of shape {image.shape}; decode it so")
        if self.size is not None:
            return _scaled(image, *self.size)
        if self.short is not None and self.crop is not None:
            return _centre(_scaled(image, *_sides(image, self.short)), self.crop)
        return np.ascontiguousarray(image)


def preparation(text: str) -> Preparation:
    """The preparation that `text` describes; the module's text gives the three forms.

    >>> preparation("256/224")(np.zeros((500, 375, 3), np.uint8)).shape
    (224, 224, 3)
    """
    if text == "none":
        return Preparation()
    form = _FORM.fullmatch(text)
    if form is None:
        raise InvalidInput(f"a preparation is none, WIDTHxHEIGHT (256x256) or SHORT/CROP (256/224), got {text!r}")
    first, second = int(form["first"]), int(form["second"])
    if min(first, second) < SMALLEST or max(first, second) > _LARGEST:
        raise InvalidInput(f"a preparation's sides are {SMALLEST} to {_LARGEST} pixels, got {text!r}; try 256/224")
    if form["sign"] == "x":
        return Preparation(size=(first, second))
    if second > first:
        raise InvalidInput(f"a crop fits into the short side, got {text!r}; try {second}/{first}")
    return Preparation(short=first, crop=second)


def _scaled(image: Bytes, width: int, height: int) -> Bytes:
    if image.shape[:2] == (height, width):
        return np.ascontiguousarray(image)
    return np.array(Pillow.fromarray(image).resize((width, height), Pillow.Resampling.BILINEAR))


def _sides(image: Bytes, short: int) -> tuple[int, int]:
    """Width and height with the short side at `short`; the long side is cut to a whole number, as torchvision does."""
    height, width = image.shape[:2]
    if max(height, width) > _NARROWEST * min(height, width):
        rule = f"an image scaled by its short side is at most {_NARROWEST} times as long"
        raise InvalidInput(f"{rule}, got {width} x {height}; cut it first")
    if width <= height:
        return short, int(short * height / width)
    return int(short * width / height), short


def _centre(image: Bytes, side: int) -> Bytes:
    """The square in the middle; halves are rounded to even, as torchvision does."""
    top, left = (round((length - side) / 2) for length in image.shape[:2])
    return np.ascontiguousarray(image[top : top + side, left : left + side])

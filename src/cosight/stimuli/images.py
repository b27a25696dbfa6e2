"""Images as arrays."""

from __future__ import annotations

import hashlib
import io
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow
from PIL import ImageOps, UnidentifiedImageError

from cosight.errors import InvalidInput

__all__ = [
    "IMAGE_SUFFIXES",
    "JPEG_QUALITY",
    "MIN_SIDE",
    "Bytes",
    "FileFormat",
    "Floats",
    "Image",
    "Preparation",
    "as_bytes",
    "as_floats",
    "check_image",
    "decode",
    "digest",
    "encode",
    "from_pillow",
    "preparation",
    "read_image",
    "restore_dtype",
    "to_rgb",
]

Image = NDArray[Any]  # uint8 or floating point, as the module's text says
Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
FileFormat = Literal["png", "jpeg"]

MIN_SIDE = 32  # pixels a side; below, blurs and textures have no room
JPEG_QUALITY = 100
IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
_DECODERS = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM")  # no others: EPS, for one, would run a program
_GREY_MODES = ("1", "L", "LA", "La")
_COLOUR_MODES = ("RGB", "P", "RGBA", "RGBa", "PA")
_NOT_RGB = ("CMYK", "YCbCr", "LAB", "HSV")


def check_image(image: Image | Pillow.Image, *, smallest: int = MIN_SIDE) -> Image:
    """The same array, if it is an image as we mean it; a last axis of one counts as grey. Pillow images are decoded."""
    array = from_pillow(image) if isinstance(image, Pillow.Image) else np.asarray(image)
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (1, 3)):
        raise InvalidInput(f"an image is (height, width, 3) or (height, width), got shape {array.shape}")
    if min(array.shape[:2]) < smallest:
        raise InvalidInput(
            f"an image must be at least {smallest} x {smallest} pixels, got {array.shape[1]} x {array.shape[0]}"
        )
    if array.dtype == np.uint8:
        return array
    if not np.issubdtype(array.dtype, np.floating):
        raise InvalidInput(f"an image is uint8 or floating point, got {array.dtype}; scale it to [0, 1] or 0..255")
    low, high = array.min(), array.max()
    if not (low >= 0 and high <= 1):  # nan fails here too
        raise InvalidInput(f"a floating-point image must lie in [0, 1], got {low:g} to {high:g}; scale it so")
    return array


def as_floats(image: Image) -> Floats:
    """A float32 copy in [0, 1] that may be written to; grey loses a last axis of one."""
    flat = _without_single_channel(image)
    if flat.dtype == np.uint8:
        return np.multiply(flat, np.float32(1 / 255), dtype=np.float32, order="C")
    return np.array(flat, dtype=np.float32, order="C")


def as_bytes(image: Image) -> Bytes:
    """A contiguous uint8 copy that may be written to, values rounded; grey loses a last axis of one."""
    flat = _without_single_channel(image)
    if flat.dtype == np.uint8:
        return np.array(flat, order="C")
    return _rounded(np.ascontiguousarray(flat, dtype=np.float32))


def restore_dtype(result: Floats | Bytes, like: Image) -> Image:
    """`result` with the dtype and the axes of `like`; floats are clipped to [0, 1] first."""
    if result.dtype == like.dtype and like.dtype == np.uint8:
        out: Image = result
    elif like.dtype == np.uint8:
        out = _rounded(result)  # type: ignore[arg-type]
    elif result.dtype == np.uint8:
        out = (result / np.float32(255)).astype(like.dtype)
    else:
        out = np.clip(result, 0, 1).astype(like.dtype, copy=False)
    return out.reshape(like.shape)


def _rounded(floats: Floats) -> Bytes:
    """Nearest byte of each value in [0, 1], others clipped. OpenCV rounds halves to even and saturates.

    Scaling to bytes this way takes half the time of a multiplication, but it takes the magnitude of what is negative.
    """
    import cv2

    values: Bytes = cv2.convertScaleAbs(cv2.max(floats, 0.0), alpha=255.0)  # type: ignore[call-overload,assignment]
    return values.reshape(floats.shape)  # OpenCV drops a last axis of one


def _without_single_channel(image: Image) -> Image:
    return image[:, :, 0] if image.ndim == 3 and image.shape[2] == 1 else image


def digest(image: Bytes) -> str:
    """Identity of a stimulus: sha256 of its size and decoded pixels, in hexadecimal.

    >>> digest(np.zeros((32, 32), np.uint8))[:12]
    'b7d27ddb4175'
    """
    pixels = np.ascontiguousarray(_without_single_channel(image))
    if pixels.dtype != np.uint8:
        raise InvalidInput(f"a stimulus' identity is that of its 8-bit pixels, got {pixels.dtype}")
    head = "x".join(map(str, pixels.shape)) + "\n"
    return hashlib.sha256(head.encode() + pixels.tobytes()).hexdigest()


def read_image(path: Path) -> Bytes:
    """The pixels of an image file: RGB or grey, 8 bits, turned the way its EXIF orientation says."""
    return decode(path.read_bytes(), name=str(path))


def decode(data: bytes, *, name: str = "image") -> Bytes:
    """Pixels of an encoded image: PNG, JPEG, GIF, BMP, WebP, TIFF or PPM. An alpha channel that is opaque is dropped.

    Refused, by name: what is no image or ends early, more than 8 bits a channel, CMYK, transparency, several frames,
    more pixels than Pillow's `MAX_IMAGE_PIXELS`.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about metadata
            warnings.simplefilter("error", Pillow.DecompressionBombWarning)
            with Pillow.open(io.BytesIO(data), formats=_DECODERS) as picture:
                return _pixels(picture, name)
    except InvalidInput:
        raise
    except (Pillow.DecompressionBombError, Pillow.DecompressionBombWarning) as error:
        limit = f"images have at most {Pillow.MAX_IMAGE_PIXELS} pixels"
        raise InvalidInput(f"{limit}, {name} has more; scale it down first") from error
    except UnidentifiedImageError as error:
        raise InvalidInput(f"{name} is not an image that can be read; remove it or mend it") from error
    except Exception as error:  # broken bytes make decoders raise nearly anything: struct.error, IndexError, ...
        reason = " ".join(str(error).split()).rstrip(".")
        raise InvalidInput(f"{name} is broken: {reason}; remove it or mend it") from error


def from_pillow(picture: Pillow.Image, *, name: str = "image") -> Bytes:
    """Pixels of a Pillow image, under the rules of `decode`."""
    return _pixels(picture, name)


def to_rgb(image: Image) -> Image:
    """The image as RGB: a grey one gets three equal channels.

    >>> to_rgb(np.zeros((32, 40), np.uint8)).shape
    (32, 40, 3)
    """
    flat = _without_single_channel(image)
    return flat if flat.ndim == 3 else np.repeat(flat[:, :, None], 3, axis=2)


def _pixels(picture: Pillow.Image, name: str) -> Bytes:
    if getattr(picture, "n_frames", 1) > 1:
        frames = picture.n_frames  # type: ignore[attr-defined]
        raise InvalidInput(f"a stimulus is one picture, {name} has {frames} frames; save the one you mean")
    if _is_deep(picture):
        raise InvalidInput(f"images have 8 bits a channel, {name} has more; save it with 8 first")
    if picture.mode in _NOT_RGB:
        raise InvalidInput(f"images are RGB or grey, {name} is {picture.mode}; save it as RGB first")
    turned = ImageOps.exif_transpose(picture)
    if turned.has_transparency_data:
        turned = _without_alpha(turned, name)
    return np.array(turned.convert("L" if turned.mode in _GREY_MODES else "RGB"))


def _is_deep(picture: Pillow.Image) -> bool:
    """Whether a channel has more than 8 bits. Pillow cuts 16-bit colour to 8 in silence: only its raw mode tells."""
    if picture.mode not in (*_GREY_MODES, *_COLOUR_MODES, *_NOT_RGB):
        return True  # I, I;16, F
    for tile in getattr(picture, "tile", ()):
        mode, *more = tile.args if isinstance(tile.args, tuple) and tile.args else (tile.args,)
        if ";16" in str(mode) or (picture.format == "PPM" and more and more[-1] > 255):  # there: the largest value
            return True
    return False


def _without_alpha(picture: Pillow.Image, name: str) -> Pillow.Image:
    colour = picture.convert("RGBA")
    if np.asarray(colour.getchannel("A")).min() < 255:
        raise InvalidInput(f"images are opaque, {name} has transparent pixels; flatten it onto a background first")
    return picture.convert("L") if picture.mode in _GREY_MODES else colour


def encode(image: Bytes, format: FileFormat) -> bytes:  # noqa: A002 (the option's name)
    """The file's bytes: PNG without loss, or JPEG of quality 100 with full colour resolution."""
    import cv2  # here and not above: who only reads images, a study say, does without OpenCV

    if image.dtype != np.uint8:
        raise InvalidInput(f"a file holds 8-bit pixels, got {image.dtype}; convert them with as_bytes first")
    settings: dict[FileFormat, list[int]] = {
        "png": [cv2.IMWRITE_PNG_COMPRESSION, 3],
        "jpeg": [
            *(cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY),
            *(cv2.IMWRITE_JPEG_SAMPLING_FACTOR, cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444),
        ],
    }
    if format not in settings:
        raise InvalidInput(f"the format must be {' or '.join(settings)}, got {format}")
    flat = np.ascontiguousarray(_without_single_channel(image))
    order = cv2.cvtColor(flat, cv2.COLOR_RGB2BGR) if flat.ndim == 3 else flat
    done, data = cv2.imencode(f".{format}", order, settings[format])
    if not done:
        raise InvalidInput(f"OpenCV could not write {image.shape} pixels as {format}")
    return data.tobytes()


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
    if min(first, second) < MIN_SIDE or max(first, second) > _LARGEST:
        raise InvalidInput(f"a preparation's sides are {MIN_SIDE} to {_LARGEST} pixels, got {text!r}; try 256/224")
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

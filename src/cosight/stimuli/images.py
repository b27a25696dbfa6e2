"""Images as arrays: check, convert, decode, encode, identify and resize them.

An image is (height, width, 3) RGB or (height, width) grey; uint8 in [0, 255] or floating point in [0, 1].

A preparation resizes the sources of a set before anything else, so that all stimuli have one size:

* `none`       nothing
* `256x256`    stretched to this width and height (VisAlign's rule)
* `256/224`    the short side scaled to the first number, then the centre square of the second cut out (the rule of
               LAION-C and ImageNet-C, and of most models' preprocessing)
"""

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

Image = NDArray[Any]  # uint8 or floating point, see the module's docstring
Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
FileFormat = Literal["png", "jpeg"]

MIN_SIDE = 32  # pixels; smaller images are too small for blurs and textures
JPEG_QUALITY = 100
IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
_DECODERS = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM")  # no others: EPS, for example, would run a program
_GREY_MODES = ("1", "L", "LA", "La")
_COLOUR_MODES = ("RGB", "P", "RGBA", "RGBa", "PA")
_NOT_RGB = ("CMYK", "YCbCr", "LAB", "HSV")
_MAX_SIDE = 8192  # pixels of a prepared image; more is probably a typo
_MAX_ASPECT = 64  # long side over short side of an image that is scaled by its short side; memory is the limit
_PREPARATION = re.compile(r"(?P<first>[0-9]{1,9})(?P<sign>[x/])(?P<second>[0-9]{1,9})", re.ASCII)


def check_image(image: Image | Pillow.Image, *, smallest: int = MIN_SIDE) -> Image:
    """Check an image and return its array. A last axis of one counts as grey; Pillow images are decoded.

    Raises:
        InvalidInput: If shape, size, dtype or values are not those of an image (see the module's docstring).
    """
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
        raise InvalidInput(f"a floating-point image must lie in [0, 1], got {low:g} to {high:g}; rescale it")
    return array


def as_floats(image: Image) -> Floats:
    """Return a writable float32 copy in [0, 1]; a last axis of one is dropped."""
    flat = _without_single_channel(image)
    if flat.dtype == np.uint8:
        return np.multiply(flat, np.float32(1 / 255), dtype=np.float32, order="C")
    return np.array(flat, dtype=np.float32, order="C")


def as_bytes(image: Image) -> Bytes:
    """Return a writable, contiguous uint8 copy, values rounded; a last axis of one is dropped."""
    flat = _without_single_channel(image)
    if flat.dtype == np.uint8:
        return np.array(flat, order="C")
    return _round_to_bytes(np.ascontiguousarray(flat, dtype=np.float32))


def restore_dtype(result: Floats | Bytes, like: Image) -> Image:
    """Return `result` with the dtype and shape of `like`; floats are clipped to [0, 1]."""
    if result.dtype == like.dtype and like.dtype == np.uint8:
        out: Image = result
    elif like.dtype == np.uint8:
        out = _round_to_bytes(result)  # type: ignore[arg-type]
    elif result.dtype == np.uint8:
        out = (result / np.float32(255)).astype(like.dtype)
    else:
        out = np.clip(result, 0, 1).astype(like.dtype, copy=False)
    return out.reshape(like.shape)


def to_rgb(image: Image) -> Image:
    """Return the image as RGB: a grey one gets three equal channels.

    >>> to_rgb(np.zeros((32, 40), np.uint8)).shape
    (32, 40, 3)
    """
    flat = _without_single_channel(image)
    return flat if flat.ndim == 3 else np.repeat(flat[:, :, None], 3, axis=2)


def _round_to_bytes(floats: Floats) -> Bytes:
    """Return the nearest byte of each value in [0, 1]; others are clipped, halves rounded to even.

    `convertScaleAbs` takes half the time of a multiplication in numpy, but it would return the magnitude of negative
    values.
    """
    import cv2

    values: Bytes = cv2.convertScaleAbs(cv2.max(floats, 0.0), alpha=255.0)  # type: ignore[call-overload,assignment]
    return values.reshape(floats.shape)  # OpenCV drops a last axis of one


def _without_single_channel(image: Image) -> Image:
    return image[:, :, 0] if image.ndim == 3 and image.shape[2] == 1 else image


def digest(image: Bytes) -> str:
    """Compute the identity of a stimulus.

    Args:
        image: 8-bit pixels.

    Returns:
        The sha256 of size and pixels, in hexadecimal.

    Raises:
        InvalidInput: If the image is not uint8.

    >>> digest(np.zeros((32, 32), np.uint8))[:12]
    'b7d27ddb4175'
    """
    pixels = np.ascontiguousarray(_without_single_channel(image))
    if pixels.dtype != np.uint8:
        raise InvalidInput(f"the digest is defined for 8-bit pixels, got {pixels.dtype}; convert them with as_bytes")
    head = "x".join(map(str, pixels.shape)) + "\n"
    return hashlib.sha256(head.encode() + pixels.tobytes()).hexdigest()


def read_image(path: Path) -> Bytes:
    """Read an image file.

    Args:
        path: A file that `decode` can decode.

    Returns:
        8-bit RGB or grey pixels, rotated according to the EXIF orientation.

    Raises:
        InvalidInput: As `decode`.
        FileNotFoundError: If there is no such file.

    >>> _ = Path("grey.png").write_bytes(encode(np.full((32, 40), 90, np.uint8), "png"))
    >>> read_image(Path("grey.png")).shape
    (32, 40)
    """
    return decode(path.read_bytes(), name=str(path))


def decode(data: bytes, *, name: str = "image") -> Bytes:
    """Decode a PNG, JPEG, GIF, BMP, WebP, TIFF or PPM image.

    Args:
        data: The bytes of the file.
        name: Name of the image in error messages.

    Returns:
        8-bit RGB or grey pixels, rotated according to the EXIF orientation. An opaque alpha channel is dropped.

    Raises:
        InvalidInput: If this is not a complete image, or has more than 8 bits per channel, another colour space
            (CMYK, ...), transparent pixels, several frames, or more pixels than Pillow's `MAX_IMAGE_PIXELS`.

    >>> decode(encode(np.zeros((32, 40, 3), np.uint8), "png")).shape
    (32, 40, 3)
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about metadata
            warnings.simplefilter("error", Pillow.DecompressionBombWarning)
            with Pillow.open(io.BytesIO(data), formats=_DECODERS) as picture:
                return from_pillow(picture, name=name)
    except InvalidInput:
        raise
    except (Pillow.DecompressionBombError, Pillow.DecompressionBombWarning) as error:
        limit = f"images have at most {Pillow.MAX_IMAGE_PIXELS} pixels"
        raise InvalidInput(f"{limit}, {name} has more; scale it down first") from error
    except UnidentifiedImageError as error:
        raise InvalidInput(f"cannot decode {name}: not an image; remove or repair the file") from error
    except Exception as error:  # broken bytes make decoders raise nearly anything: struct.error, IndexError, ...
        reason = " ".join(str(error).split()).rstrip(".")
        raise InvalidInput(f"cannot decode {name}: {reason}; remove or repair the file") from error


def from_pillow(picture: Pillow.Image, *, name: str = "image") -> Bytes:
    """Return the pixels of a Pillow image, under the rules of `decode`."""
    if getattr(picture, "n_frames", 1) > 1:
        frames = picture.n_frames  # type: ignore[attr-defined]
        raise InvalidInput(f"a stimulus is one picture, {name} has {frames} frames; save one of them")
    if _is_deep(picture):
        raise InvalidInput(f"images have 8 bits per channel, {name} has more; convert it to 8 bits first")
    if picture.mode in _NOT_RGB:
        raise InvalidInput(f"images are RGB or grey, {name} is {picture.mode}; save it as RGB first")
    upright = ImageOps.exif_transpose(picture)
    if upright.has_transparency_data:
        with_alpha = upright.convert("RGBA")
        if np.asarray(with_alpha.getchannel("A")).min() < 255:
            raise InvalidInput(f"images are opaque, {name} has transparent pixels; flatten it onto a background first")
        upright = upright.convert("L") if upright.mode in _GREY_MODES else with_alpha
    return np.array(upright.convert("L" if upright.mode in _GREY_MODES else "RGB"))


def _is_deep(picture: Pillow.Image) -> bool:
    """Return whether a channel has more than 8 bits: Pillow truncates 16-bit colour silently, see the raw mode."""
    if picture.mode not in (*_GREY_MODES, *_COLOUR_MODES, *_NOT_RGB):
        return True  # I, I;16, F
    for tile in getattr(picture, "tile", ()):
        mode, *more = tile.args if isinstance(tile.args, tuple) and tile.args else (tile.args,)
        if ";16" in str(mode) or (picture.format == "PPM" and more and more[-1] > 255):  # the last is the maximum
            return True
    return False


def encode(image: Bytes, format: FileFormat) -> bytes:  # noqa: A002 (the option's name)
    """Encode an image.

    Args:
        image: 8-bit RGB or grey pixels.
        format: "png" (lossless) or "jpeg" (quality 100, no chroma subsampling).

    Returns:
        The bytes of the file.

    Raises:
        InvalidInput: If the image is not uint8 or the format is unknown.

    >>> encode(np.zeros((32, 40, 3), np.uint8), "png")[:4]
    b'\\x89PNG'
    """
    import cv2  # here, so that reading images (in a study, for example) does not need OpenCV

    if image.dtype != np.uint8:
        raise InvalidInput(f"a file has 8-bit pixels, got {image.dtype}; convert them with as_bytes first")
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
    bgr = cv2.cvtColor(flat, cv2.COLOR_RGB2BGR) if flat.ndim == 3 else flat
    success, data = cv2.imencode(f".{format}", bgr, settings[format])
    if not success:
        raise InvalidInput(f"OpenCV could not write {image.shape} pixels as {format}")
    return data.tobytes()


@dataclass(frozen=True, slots=True, repr=False)
class Preparation:
    """How sources are resized: stretched to `size`, or scaled and cropped (`short`, `crop`), or not at all.

    Scaling uses Pillow's antialiased bilinear filter, so that with `256/224` people see the pixels that torchvision's
    `Resize(256)` and `CenterCrop(224)` give a model.
    """

    size: tuple[int, int] | None = None  # width, height
    short: int | None = None
    crop: int | None = None

    def __str__(self) -> str:
        """Return the text that `preparation` parses."""
        if self.size is not None:
            return f"{self.size[0]}x{self.size[1]}"
        return f"{self.short}/{self.crop}" if self.short is not None else "none"

    def __repr__(self) -> str:
        """Return the call that makes it."""
        return f"preparation({str(self)!r})"

    def __call__(self, image: Bytes) -> Bytes:
        """Return the resized image, contiguous; grey stays grey."""
        if image.dtype != np.uint8 or (image.ndim != 2 and not (image.ndim == 3 and image.shape[2] == 3)):
            raise InvalidInput(
                f"a source is 8-bit RGB or grey, got {image.dtype} of shape {image.shape}; convert it with as_bytes"
            )
        if self.size is not None:
            return _resize(image, *self.size)
        if self.short is None or self.crop is None:
            return np.ascontiguousarray(image)
        height, width = image.shape[:2]
        if max(height, width) > _MAX_ASPECT * min(height, width):
            raise InvalidInput(
                f"an image scaled by its short side is at most {_MAX_ASPECT} times as long, got {width} x {height}; "
                "crop it first"
            )
        # the long side is truncated and the crop's offset rounded half to even, as torchvision does
        if width <= height:
            resized = _resize(image, self.short, int(self.short * height / width))
        else:
            resized = _resize(image, int(self.short * width / height), self.short)
        top, left = (round((length - self.crop) / 2) for length in resized.shape[:2])
        return np.ascontiguousarray(resized[top : top + self.crop, left : left + self.crop])


def _resize(image: Bytes, width: int, height: int) -> Bytes:
    if image.shape[:2] == (height, width):
        return np.ascontiguousarray(image)
    return np.array(Pillow.fromarray(image).resize((width, height), Pillow.Resampling.BILINEAR))


def preparation(text: str) -> Preparation:
    """Parse a preparation.

    Args:
        text: "none", "WIDTHxHEIGHT" or "SHORT/CROP"; see the module's docstring.

    Returns:
        A function from images to images.

    Raises:
        InvalidInput: If the text has another form, or its numbers are too small or too large.

    >>> preparation("256/224")(np.zeros((500, 375, 3), np.uint8)).shape
    (224, 224, 3)
    """
    if text == "none":
        return Preparation()
    form = _PREPARATION.fullmatch(text)
    if form is None:
        raise InvalidInput(f"a preparation is none, WIDTHxHEIGHT (256x256) or SHORT/CROP (256/224), got {text[:60]!r}")
    first, second = int(form["first"]), int(form["second"])
    if min(first, second) < MIN_SIDE or max(first, second) > _MAX_SIDE:
        raise InvalidInput(f"a preparation's sides are {MIN_SIDE} to {_MAX_SIDE} pixels, got {text!r}; try 256/224")
    if form["sign"] == "x":
        return Preparation(size=(first, second))
    if second > first:
        raise InvalidInput(f"the crop must fit into the short side, got {text!r}; try {second}/{first}")
    return Preparation(short=first, crop=second)

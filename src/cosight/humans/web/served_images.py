"""Images as they are sent to a page: the same pixels, and no metadata.

A PNG keeps the chunks that hold its pixels, a JPEG the segments that its decoding needs; names, dates, locations,
comments, thumbnails, colour profiles and trailing bytes are removed. Without a profile a browser shows the numbers that
a model is given. Where removing something would change the picture (a camera's orientation, transparency), and for any
other format, the image is decoded as models see it and sent as PNG.
"""

from __future__ import annotations

import io
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from cosight.errors import InvalidInput
from cosight.stimuli import images

__all__ = ["ServedImage", "ServedImages", "strip_metadata"]

_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG = b"\xff\xd8"
_CHUNKS = (b"IHDR", b"PLTE", b"IDAT", b"IEND")  # PNG, third edition, section 11.2: the critical chunks
_NEEDS_DECODING = (b"tRNS", b"eXIf", b"acTL")  # transparency, orientation, several frames
_WITHOUT_LENGTH = {0x01, *range(0xD0, 0xD8)}  # markers without a length: TEM, RST0 to RST7 (ITU-T T.81, table B.1)
_SOI, _EOI, _SOS, _COMMENT = 0xD8, 0xD9, 0xDA, 0xFE
_APP0, _APP1, _APP14 = 0xE0, 0xE1, 0xEE
_JFIF = b"JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00"  # version 1.1, square pixels, no thumbnail
_ADOBE = 12  # bytes of Adobe's segment that define the colour coding; more is a comment
_CAPACITY = 256 * 2**20  # bytes of images that are cached


@dataclass(frozen=True, slots=True)
class ServedImage:
    """The bytes of an image and their media type."""

    data: bytes
    media_type: str


def strip_metadata(data: bytes, *, name: str = "image") -> ServedImage:
    """Return an image with nothing but its pixels. Raises InvalidInput for broken ones, which it calls `name`."""
    for signature, strip, media_type in (
        (_PNG, _strip_png, "image/png"),
        (_JPEG, _strip_jpeg, "image/jpeg"),
    ):
        if data.startswith(signature) and (stripped := strip(data)) is not None:
            return ServedImage(stripped, media_type)
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(images.decode(data, name=name)).save(out, "PNG")
    return ServedImage(out.getvalue(), "image/png")


def _strip_png(data: bytes) -> bytes | None:
    """Return the critical chunks; None where another chunk changes the picture, or the file is incomplete."""
    kept, at = [_PNG], len(_PNG)
    while at + 12 <= len(data):
        end = at + 12 + int.from_bytes(data[at : at + 4], "big")
        kind = data[at + 4 : at + 8]
        if kind in _NEEDS_DECODING or end > len(data):
            return None
        if kind in _CHUNKS:
            kept.append(data[at:end])
        if kind == b"IEND":
            return b"".join(kept)
        at = end
    return None


def _strip_jpeg(data: bytes) -> bytes | None:
    """Return the segments of the first image; None where EXIF may rotate it, or the file is incomplete."""
    kept, complete = [_JPEG], False
    for marker, segment in _segments(data):
        if marker == _APP1 and segment[4:8] == b"Exif" and _is_rotated(data):
            return None
        if marker == _APP0 and segment[4:9] == b"JFIF\x00":
            kept.append(_make_segment(marker, _JFIF))
        elif marker == _APP14 and segment[4:9] == b"Adobe":
            kept.append(_make_segment(marker, segment[4 : 4 + _ADOBE]))
        elif not _APP0 <= marker <= 0xEF and marker != _COMMENT:
            kept.append(segment)
        complete = marker == _EOI
    return b"".join(kept) if complete else None


def _make_segment(marker: int, content: bytes) -> bytes:
    return bytes((0xFF, marker)) + (len(content) + 2).to_bytes(2, "big") + content


def _segments(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield marker and bytes of each segment after the first marker, until the end of the image or an error in it."""
    at = len(_JPEG)
    while at + 2 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:  # a fill byte
            at += 1
            continue
        end = at + 2
        if marker not in _WITHOUT_LENGTH and marker != _EOI:
            end += int.from_bytes(data[at + 2 : at + 4], "big")
        if marker == _SOS:
            end = _end_of_scan(data, end)
        if end > len(data):
            return
        yield marker, data[at:end]
        if marker == _EOI:
            return
        at = end


def _end_of_scan(data: bytes, at: int) -> int:
    """Return the position of the next marker that is not part of the pixels, which hold FF 00 and restart markers."""
    while (at := data.find(b"\xff", at)) >= 0 and at + 1 < len(data):
        if data[at + 1] != 0 and data[at + 1] not in _WITHOUT_LENGTH:
            return at
        at += 2
    return len(data)


def _is_rotated(data: bytes) -> bool:
    """Whether EXIF says that the camera was not held upright."""
    from PIL import Image

    orientation = 0x0112  # EXIF 2.3, table 4; 1 is upright
    try:
        with Image.open(io.BytesIO(data), formats=["JPEG"]) as image:
            return bool(image.getexif().get(orientation, 1) != 1)
    except Exception:  # broken bytes raise nearly anything; decoding the image will report what is wrong with it
        return True


class ServedImages:
    """A cache of images by name: the most recently used, at most `capacity` bytes of them."""

    def __init__(self, *, capacity: int = _CAPACITY) -> None:
        self._capacity, self._size = capacity, 0
        self._images: OrderedDict[str, ServedImage] = OrderedDict()
        self._lock = Lock()

    def load(self, name: str, file: Path, *, digest: str | None = None) -> ServedImage:
        """Return an image by its name, read from `file` unless it is in memory.

        Raises InvalidInput for a file that cannot be read, and for one whose pixels do not have this `digest`.
        """
        with self._lock:
            if cached := self._images.get(name):
                self._images.move_to_end(name)
                return cached
        try:
            data = file.read_bytes()
        except OSError as error:
            raise InvalidInput(f"cannot read {file}: {error.strerror}; put the image back") from error
        if digest is not None and images.digest(images.decode(data, name=str(file))) != digest:
            raise InvalidInput(f"the pixels of {file} changed while the study is served; put the image back")
        image = strip_metadata(data, name=str(file))
        with self._lock:
            if name not in self._images and len(image.data) <= self._capacity:
                self._images[name] = image
                self._size += len(image.data)
                while self._size > self._capacity:
                    self._size -= len(self._images.popitem(last=False)[1].data)
        return image

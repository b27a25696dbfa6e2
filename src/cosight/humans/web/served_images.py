"""Images as they are sent to a page: the same pixels, and nothing else that a file may tell.

A PNG keeps the chunks that hold its pixels, a JPEG the segments that its decoding needs; names, dates, places,
comments, thumbnails, colour profiles and whatever follows the image are left out. Without a profile a browser shows the
numbers that a model is given. Where leaving something out would change the picture (a camera's orientation,
transparency), and for any other format, the image is decoded as models see it and sent as PNG.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from cosight.errors import InvalidInput

__all__ = ["ServedImage", "ServedImages", "bare"]

_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG = b"\xff\xd8"
_CHUNKS = (b"IHDR", b"PLTE", b"IDAT", b"IEND")  # PNG, third edition, section 11.2: the critical chunks
_NEEDS_DECODING = (b"tRNS", b"eXIf", b"acTL")  # transparency, orientation, several frames
_ALONE = {0x01, *range(0xD0, 0xD8)}  # markers without a length: TEM, RST0 to RST7 (ITU-T T.81, table B.1)
_SOI, _EOI, _SOS, _COMMENT = 0xD8, 0xD9, 0xDA, 0xFE
_APP0, _APP1, _APP14 = 0xE0, 0xE1, 0xEE
_JFIF = b"JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00"  # version 1.1, square pixels, no thumbnail
_ADOBE = 12  # bytes of Adobe's segment that say how colours are coded; more is a comment
_MOST = 256 * 2**20  # bytes of images that are kept in memory


@dataclass(frozen=True, slots=True)
class ServedImage:
    """The bytes of an image and their media type."""

    data: bytes
    media_type: str


def bare(data: bytes, *, name: str = "image") -> ServedImage:
    """An image without anything but its pixels; broken ones raise, under `name`."""
    if data.startswith(_PNG):
        kept = _bare_png(data)
        return ServedImage(kept, "image/png") if kept else _decoded(data, name)
    if data.startswith(_JPEG):
        kept = _bare_jpeg(data)
        return ServedImage(kept, "image/jpeg") if kept else _decoded(data, name)
    return _decoded(data, name)


def _decoded(data: bytes, name: str) -> ServedImage:
    import io

    from PIL import Image

    from cosight.stimuli.images import decode

    out = io.BytesIO()
    Image.fromarray(decode(data, name=name)).save(out, "PNG")
    return ServedImage(out.getvalue(), "image/png")


def _bare_png(data: bytes) -> bytes | None:
    """The critical chunks; None where another chunk changes the picture, or the file is not whole."""
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


def _bare_jpeg(data: bytes) -> bytes | None:
    """The segments of the first image; None where EXIF may turn it, or the file is not whole."""
    kept, ended = [_JPEG], False
    for marker, segment in _segments(data):
        if marker == _APP1 and segment[4:8] == b"Exif" and _is_turned(data):
            return None
        kept.append(_kept(marker, segment))
        ended = marker == _EOI
    return b"".join(kept) if ended else None


def _kept(marker: int, segment: bytes) -> bytes:
    """What is sent of a segment (marker, length, content, and the pixels that follow a scan's head)."""
    if marker == _APP0 and segment[4:9] == b"JFIF\x00":
        return _segment(marker, _JFIF)
    if marker == _APP14 and segment[4:9] == b"Adobe":
        return _segment(marker, segment[4 : 4 + _ADOBE])
    return b"" if _APP0 <= marker <= 0xEF or marker == _COMMENT else segment


def _segment(marker: int, content: bytes) -> bytes:
    return bytes((0xFF, marker)) + (len(content) + 2).to_bytes(2, "big") + content


def _segments(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Marker and bytes of each segment after the first marker, to the end of the image; fewer where it is broken."""
    at = len(_JPEG)
    while at + 2 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:  # a fill byte
            at += 1
            continue
        end = at + 2
        if marker not in _ALONE and marker != _EOI:
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
    """Where the next marker is that is not part of the pixels: those hold FF 00 and restart markers."""
    while (at := data.find(b"\xff", at)) >= 0 and at + 1 < len(data):
        if data[at + 1] != 0 and data[at + 1] not in _ALONE:
            return at
        at += 2
    return len(data)


def _is_turned(data: bytes) -> bool:
    """Whether EXIF says that the camera was not held upright."""
    import io

    from PIL import Image

    orientation = 0x0112  # EXIF 2.3, table 4; 1 is upright
    try:
        with Image.open(io.BytesIO(data), formats=["JPEG"]) as picture:
            return bool(picture.getexif().get(orientation, 1) != 1)
    except Exception:  # broken bytes raise nearly anything; whoever decodes the image will say what is wrong with it
        return True


class ServedImages:
    """Images by their stimulus, the ones last asked for in memory, never more than `most` bytes of them."""

    def __init__(self, *, most: int = _MOST) -> None:
        self._most, self._size = most, 0
        self._kept: OrderedDict[str, ServedImage] = OrderedDict()
        self._lock = Lock()

    def get(self, stimulus: str, file: Path) -> ServedImage:
        """The picture of a stimulus, read from `file` unless it is in memory."""
        with self._lock:
            if found := self._kept.get(stimulus):
                self._kept.move_to_end(stimulus)
                return found
        picture = bare(_read(file), name=str(file))
        self._keep(stimulus, picture)
        return picture

    def _keep(self, stimulus: str, picture: ServedImage) -> None:
        with self._lock:
            if stimulus in self._kept or len(picture.data) > self._most:
                return
            self._kept[stimulus] = picture
            self._size += len(picture.data)
            while self._size > self._most:
                self._size -= len(self._kept.popitem(last=False)[1].data)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}; put the image back") from error

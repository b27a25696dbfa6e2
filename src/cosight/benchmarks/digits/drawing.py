"""Draw what the digits benchmark shows: handwritten digits, hybrids, letters, shapes, printed digits and textures.

Ink is a float array (32, 32) in [0, 1], 1 where the stroke is. Every image is drawn as ink first and then rendered on
paper or on a texture, so that digits and everything else look as if written with the same pen.

Letters, shapes and printed digits are drawn with the DejaVu fonts that come with matplotlib; only its font files are
read.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow
from PIL import ImageDraw, ImageFont

from cosight.errors import InvalidInput
from cosight.stimuli.images import Bytes, Floats

__all__ = [
    "JOINS",
    "LETTERS",
    "NEAR_MISSES",
    "SHAPES",
    "SIDE",
    "STYLES",
    "TEXTURES",
    "StoredDigits",
    "digit_ink",
    "digits_attribution",
    "draw_glyph",
    "draw_near_miss",
    "draw_styled_digit",
    "draw_texture",
    "enlarge",
    "join_digits",
    "possible_joins",
    "render",
    "stored_digits",
]

SIDE = 32  # pixels of every image
_PAPER, _PEN = 0.9, 24 / 255  # brightness of paper and ink; ink that is ten times as bright is still not white

# --- stored digits

_BOX = 24  # pixels a digit is enlarged to, three times its 8; the rest is margin
_MOST_INK = 16  # of a cell of the stored array
_FAINT, _FULL = 0.35, 0.8  # where the enlarged stroke begins and where it is black; without this it looks blurred


@dataclass(frozen=True, slots=True, eq=False)
class StoredDigits:
    """Handwritten digits: `cells` (n, 8, 8) with 0 to 16 ink each, and which digit each is, `labels` (n,)."""

    cells: Bytes
    labels: NDArray[np.uint8]


@cache
def stored_digits() -> StoredDigits:
    """Return the 1,797 digits that come with cosight; `digits_attribution` has their source."""
    with files(__package__).joinpath("digits.npz").open("rb") as file, np.load(file, allow_pickle=False) as stored:
        return StoredDigits(stored["images"], stored["labels"])


def digits_attribution() -> dict[str, Any]:
    """Return source, licence and authors of the stored digits."""
    attribution: dict[str, Any] = json.loads(files(__package__).joinpath("digits.json").read_text(encoding="utf-8"))
    return attribution


@cache
def digit_ink(index: int) -> Floats:
    """Return the ink of a stored digit, read-only."""
    ink = enlarge(stored_digits().cells[index])
    ink.setflags(write=False)
    return ink


def enlarge(cells: Bytes) -> Floats:
    """Return the ink of a stored digit (8, 8), three times as large (cubic), with sharpened edges and a margin.

    >>> enlarge(np.zeros((8, 8), np.uint8)).shape
    (32, 32)
    """
    padded = np.pad((cells / _MOST_INK).astype(np.float32), 1)  # the stroke ends on paper, not at the edge
    scale = _BOX // len(cells)
    large = cv2.resize(padded, None, fx=scale, fy=scale, interpolation=cv2.INTER_CUBIC)
    rise = np.clip((large - _FAINT) / (_FULL - _FAINT), 0, 1)
    sharpened = np.asarray(rise * rise * (3 - 2 * rise), np.float32)  # a smooth step from no ink to full ink
    margin = (SIDE - len(large)) // 2
    return np.pad(sharpened, (margin, SIDE - len(large) - margin))


def render(ink: Floats, background: Floats | None = None) -> Bytes:
    """Return dark ink on a background with values in [0, 1] (default: light paper) as an 8-bit image."""
    ground = np.full(ink.shape, _PAPER, np.float32) if background is None else background
    return np.rint((ground + ink * (_PEN - ground)) * 255).astype(np.uint8)


# --- two digits in one

# Halves of two digits, one digit above another, or one written over the other often read as a third digit (the top of
# a 9 and the foot of a 3 are a 9, a 9 above a 0 is an 8). Side by side or crossed, both stay complete and none is read.
JOINS = ("beside", "crossed")
_HALF_HEIGHT, _HALF_WIDTH = 26, 13  # largest size of each of two digits side by side
_OVERLAP = 1  # pixels that each of them reaches over the middle, so that they touch


def possible_joins(first: str, second: str) -> tuple[str, ...]:
    """Return the members of `JOINS` that make no digit of these two.

    Equal digits are never joined, and a 1 is never crossed with another digit: it would only be a bar (7 is written
    with one in much of Europe).

    >>> possible_joins("1", "7")
    ('beside',)
    """
    if first == second:
        return ()
    return ("beside",) if "1" in (first, second) else JOINS


def join_digits(first: Floats, second: Floats, how: str) -> Floats:
    """Return the ink of both digits, joined in one of `JOINS`.

    >>> join_digits(np.ones((32, 32), np.float32), np.zeros((32, 32), np.float32), "crossed").shape
    (32, 32)
    """
    if how not in JOINS:
        raise InvalidInput(f"two digits are joined {' or '.join(JOINS)}, got {how!r}")
    if how == "crossed":
        return np.maximum(first, np.rot90(second))
    ink = np.zeros((SIDE, SIDE), np.float32)
    middle = SIDE // 2 + _OVERLAP
    for digit, right in ((first, middle), (second, middle + _HALF_WIDTH - 2 * _OVERLAP)):
        ys, xs = np.flatnonzero(digit.any(axis=1)), np.flatnonzero(digit.any(axis=0))
        box = digit[ys[0] : ys[-1] + 1, xs[0] : xs[-1] + 1] if len(ys) else digit
        width, height = min(_HALF_WIDTH, box.shape[1]), min(_HALF_HEIGHT, box.shape[0])
        half = cv2.resize(box, (width, height), interpolation=cv2.INTER_AREA)
        top = (SIDE - height) // 2
        region = ink[top : top + height, right - width : right]
        np.maximum(region, half, out=region)
    return ink


# --- letters, shapes and printed digits

LETTERS = "FHKLMNPRVWXYadefhkmnrtuvwx"  # none that could be a hastily written digit
SHAPES = "★♥▲✚♣♠➔✈☂☎♫✂☀☾♞⚑"  # all in DejaVu Sans
_SANS, _SERIF, _MONO = "DejaVuSans", "DejaVuSerif", "DejaVuSansMono"
_FACES = (_SANS, "DejaVuSans-Bold", "DejaVuSans-Oblique", _SERIF, "DejaVuSerif-Bold", "DejaVuSerif-Italic", _MONO)

# Letter -> (the digit it resembles, the faces in which it has what distinguishes it from that digit: the slabs of I,
# the foot of l, the flat back of B, the tail of Q).
NEAR_MISSES: dict[str, tuple[str, tuple[str, ...]]] = {
    "Q": ("0", (_SANS, _SERIF)),
    "D": ("0", (_SANS, _SERIF)),
    "I": ("1", (_SERIF, _MONO)),
    "l": ("1", (_MONO,)),
    "Z": ("2", (_SANS, _SERIF)),
    "z": ("2", (_SANS, _SERIF)),
    "E": ("3", (_SANS, _SERIF)),
    "A": ("4", (_SANS, _SERIF)),
    "y": ("4", (_SANS, _SERIF)),
    "S": ("5", (_SANS, _SERIF)),
    "s": ("5", (_SANS, _SERIF)),
    "G": ("6", (_SANS, _SERIF)),
    "b": ("6", (_SERIF,)),
    "T": ("7", (_SANS, _SERIF)),
    "B": ("8", (_SANS, _SERIF)),
    "g": ("9", (_SANS, _SERIF)),
    "q": ("9", (_SERIF,)),
    "O": ("0", (_SANS,)),
}
STYLES = ("outlined", "dotted", "stencil")
_ZOOM = 8  # glyphs are drawn this many times larger, then averaged
_GLYPH_HEIGHT = (19, 23)  # pixels of the longer side of a glyph
_DILATION = (0.3, 0.8)  # pixels a letter's stroke grows by on either side, towards the pen of the digits
_O_WIDTH = 1.2  # an O is widened by this factor: a zero is narrower
_BLUR = 0.6  # standard deviation in pixels; makes a printed edge as soft as that of an enlarged digit


def draw_glyph(text: str, rng: np.random.Generator, *, faces: tuple[str, ...] = _FACES) -> Floats:
    """Return the ink of one letter or shape, in a random face, size, slant and position."""
    if text in SHAPES:
        return _reduce(_distort(_print_large(text, _SANS, rng.uniform(*_GLYPH_HEIGHT)), rng))
    thin = _print_large(text, faces[rng.integers(len(faces))], rng.uniform(*_GLYPH_HEIGHT))
    bold = cv2.dilate(thin, _disc(rng.uniform(*_DILATION) * _ZOOM))
    return _reduce(_distort(np.asarray(bold, np.uint8), rng))


def draw_near_miss(letter: str, rng: np.random.Generator) -> Floats:
    """Return the ink of a letter of `NEAR_MISSES`, in a face that distinguishes it from the digit it resembles."""
    ink = draw_glyph(letter, rng, faces=NEAR_MISSES[letter][1])
    if letter != "O":
        return ink
    middle = (SIDE - 1) / 2
    matrix = np.array([[_O_WIDTH, 0, (1 - _O_WIDTH) * middle], [0, 1, 0]])
    return np.asarray(cv2.warpAffine(ink, matrix, (SIDE, SIDE), flags=cv2.INTER_LINEAR), np.float32)


def draw_styled_digit(digit: str, style: str, rng: np.random.Generator) -> Floats:
    """Return the ink of a printed digit: only its outline, only dots, or with the bridges of a stencil."""
    large = _print_large(digit, (_SANS, "DejaVuSans-Bold", _SERIF)[rng.integers(3)], rng.uniform(22, 25))
    styled: Any
    if style == "outlined":
        bold = cv2.dilate(large, _disc(0.9 * _ZOOM))
        styled = bold - cv2.erode(bold, _disc(0.75 * _ZOOM))
    elif style == "dotted":  # dots on a grid, where the stroke is
        pitch = round(rng.uniform(2.8, 3.2) * _ZOOM)
        bold = cv2.dilate(large, _disc(0.4 * _ZOOM))
        styled = np.zeros_like(large)
        for y, x in product(range(pitch // 2, len(large), pitch), repeat=2):
            if bold[y, x] > 127:
                cv2.circle(styled, (x, y), round(0.36 * pitch), 255, -1)
    elif style == "stencil":  # a bold stroke, cut by one vertical and two horizontal bridges
        styled = cv2.dilate(large, _disc(0.5 * _ZOOM))
        middle, width = len(large) / 2 + rng.uniform(-1.5, 1.5) * _ZOOM, 1.5 * _ZOOM
        positions = np.arange(len(large))
        styled[:, np.abs(positions - middle) < width / 2] = 0
        for offset in (-4.5, 4.5):
            styled[np.abs(positions - middle - offset * _ZOOM) < width / 2, :] = 0
    else:
        raise InvalidInput(f"styles are {', '.join(STYLES)}, got {style!r}")
    return _reduce(_distort(np.asarray(styled, np.uint8), rng), blur=_BLUR / 2)


def _print_large(text: str, face: str, height: float) -> Bytes:
    """Print a glyph whose longer side has `height` pixels in the middle of a square, all of it `_ZOOM` times larger."""
    font = _font(face, 32 * _ZOOM)
    left, top, right, bottom = font.getbbox(text)
    mask = Pillow.new("L", (int(right - left), int(bottom - top)))
    ImageDraw.Draw(mask).text((-left, -top), text, fill=255, font=font)
    scale = height * _ZOOM / max(mask.size)
    glyph = mask.resize((round(mask.width * scale), round(mask.height * scale)), Pillow.Resampling.LANCZOS)
    square = Pillow.new("L", (SIDE * _ZOOM, SIDE * _ZOOM))
    square.paste(glyph, ((square.width - glyph.width) // 2, (square.height - glyph.height) // 2))
    return np.array(square)


@cache
def _font(face: str, size: int) -> ImageFont.FreeTypeFont:
    spec = find_spec("matplotlib")
    if spec is None or not spec.submodule_search_locations:
        raise InvalidInput("letters are drawn with matplotlib's fonts, which are not installed; pip install matplotlib")
    folder = Path(spec.submodule_search_locations[0], "mpl-data", "fonts", "ttf")
    return ImageFont.truetype(str(folder / f"{face}.ttf"), size, layout_engine=ImageFont.Layout.BASIC)


def _distort(large: Bytes, rng: np.random.Generator) -> Bytes:
    """Rotate by up to 6 degrees, slant, and move by up to a pixel."""
    angle, slant = rng.uniform(-6, 6), rng.uniform(-0.12, 0.12)
    middle = (SIDE * _ZOOM - 1) / 2
    shear = np.array([[1, slant, -slant * middle], [0, 1, 0], [0, 0, 1]])
    matrix = cv2.getRotationMatrix2D((middle, middle), angle, 1.0) @ shear
    matrix[:, 2] += rng.uniform(-1, 1, 2) * _ZOOM
    return np.asarray(cv2.warpAffine(large, matrix, (SIDE * _ZOOM, SIDE * _ZOOM), flags=cv2.INTER_LINEAR), np.uint8)


def _reduce(large: Bytes, *, blur: float = _BLUR) -> Floats:
    """Average a large drawing down to the size of an image, with edges as soft as those of the digits."""
    small = cv2.resize(large.astype(np.float32) / 255, (SIDE, SIDE), interpolation=cv2.INTER_AREA)
    return np.asarray(np.clip(cv2.GaussianBlur(small, (0, 0), blur), 0, 1), np.float32)


def _disc(radius: float) -> Bytes:
    side = 2 * round(radius) + 1
    return np.asarray(cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (side, side)), np.uint8)


# --- textures: backgrounds of digits, and images without any digit

TEXTURES = ("stripes", "checks", "dots", "waves", "grain", "clouds")


def draw_texture(name: str, rng: np.random.Generator) -> Floats:
    """Return one of `TEXTURES`, (32, 32), scaled to the range 0 to 1.

    >>> float(draw_texture("stripes", np.random.default_rng(0)).max())
    1.0
    """
    values: Any
    if name == "stripes":
        along, _ = _random_plane(rng, period=(5, 9))
        values = np.sin(2 * np.pi * along)
    elif name == "checks":
        along, across = _random_plane(rng, period=(8, 13))
        values = np.tanh(4 * np.sin(2 * np.pi * along) * np.sin(2 * np.pi * across))
    elif name == "dots":
        along, across = _random_plane(rng, period=(5, 8))
        values = np.tanh(3 * (np.cos(2 * np.pi * along) + np.cos(2 * np.pi * across) - 0.9))
    elif name == "waves":
        along, across = _random_plane(rng, period=(6, 10))
        values = np.sin(2 * np.pi * (along + 0.35 * np.sin(2 * np.pi * across / 2)))
    elif name == "grain":
        values = rng.uniform(0, 1, (SIDE, SIDE)).astype(np.float32)
    elif name == "clouds":
        noise = rng.standard_normal((SIDE, SIDE)).astype(np.float32)
        values = cv2.GaussianBlur(noise, (0, 0), rng.uniform(2, 3.5))
    else:
        raise InvalidInput(f"textures are {', '.join(TEXTURES)}, got {name!r}")
    low, high = values.min(), values.max()
    return np.asarray((values - low) / (high - low), np.float32)


def _random_plane(rng: np.random.Generator, *, period: tuple[float, float]) -> tuple[Floats, Floats]:
    """Return two orthogonal coordinates in units of a random period, rotated and shifted at random."""
    angle, shift = rng.uniform(0, np.pi), rng.uniform(0, 1, 2)
    y, x = np.mgrid[:SIDE, :SIDE] / rng.uniform(*period)
    along = np.cos(angle) * x + np.sin(angle) * y + shift[0]
    across = np.cos(angle) * y - np.sin(angle) * x + shift[1]
    return along.astype(np.float32), across.astype(np.float32)

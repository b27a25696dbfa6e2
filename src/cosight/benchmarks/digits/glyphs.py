"""Letters, shapes and printed digits, drawn from the DejaVu fonts that come with matplotlib, in the pen of the digits.

Needs the extra `digits` (matplotlib, of which only the font files are read).
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path

import cv2
import numpy as np
from PIL import Image as Pillow
from PIL import ImageDraw, ImageFont

from cosight.benchmarks.digits.ink import SIDE
from cosight.errors import InvalidInput
from cosight.stimuli.images import Bytes, Floats

__all__ = ["LETTERS", "NEAR_MISSES", "SHAPES", "STYLES", "drawn_glyph", "near_miss", "styled_digit"]

LETTERS = "FHKLMNPRVWXYadefhkmnrtuvwx"  # none that a hasty pen could have meant as a digit
SHAPES = "★♥▲✚♣♠➔✈☂☎♫✂☀☾♞⚑"  # all in DejaVu Sans
_SANS, _SERIF, _MONO = "DejaVuSans", "DejaVuSerif", "DejaVuSansMono"
_FACES = (_SANS, "DejaVuSans-Bold", "DejaVuSans-Oblique", _SERIF, "DejaVuSerif-Bold", "DejaVuSerif-Italic", _MONO)

# A letter and the faces in which it keeps what tells it from the digit it is like: the slabs of I, the foot of l, the
# flat back of B, the tail of Q. The digit is what `original` says.
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
_FINE = 8  # a glyph is drawn so many times larger, then averaged
_TALL = (19, 23)  # pixels a glyph's longer side fills
_FATTER = (0.3, 0.8)  # pixels a letter's stroke grows by on either side, towards the pen of the digits
_WIDER = 1.2
_SOFT = 0.6  # sd in pixels of the blur that makes a printed edge as soft as an enlarged one


def drawn_glyph(text: str, rng: np.random.Generator, *, faces: tuple[str, ...] = _FACES) -> Floats:
    """The ink of one letter or shape, in a face, size, slant and place drawn at random."""
    if text in SHAPES:
        return _settled(_slanted(_large(text, _SANS, rng.uniform(*_TALL)), rng))
    thin = _large(text, faces[rng.integers(len(faces))], rng.uniform(*_TALL))
    fat = cv2.dilate(thin, _disc(rng.uniform(*_FATTER) * _FINE))
    return _settled(_slanted(np.asarray(fat, np.uint8), rng))


def near_miss(letter: str, rng: np.random.Generator) -> Floats:
    """The ink of a letter of `NEAR_MISSES`, in a face that tells it from its digit; O is wider than a zero is."""
    ink = drawn_glyph(letter, rng, faces=NEAR_MISSES[letter][1])
    return _wider(ink) if letter == "O" else ink


def styled_digit(digit: str, style: str, rng: np.random.Generator) -> Floats:
    """The ink of a printed digit: only its outline, only dots, or with the bridges of a stencil."""
    large = _large(digit, (_SANS, "DejaVuSans-Bold", _SERIF)[rng.integers(3)], rng.uniform(22, 25))
    return _settled(_slanted(_DRAWN[style](large, rng), rng), soft=_SOFT / 2)


def _wider(ink: Floats) -> Floats:
    middle = (SIDE - 1) / 2
    place = np.array([[_WIDER, 0, (1 - _WIDER) * middle], [0, 1, 0]])
    return np.asarray(cv2.warpAffine(ink, place, (SIDE, SIDE), flags=cv2.INTER_LINEAR), np.float32)


def _large(text: str, face: str, tall: float) -> Bytes:
    """A glyph whose longer side has `tall` pixels, in the middle of a square, all of it `_FINE` times as large."""
    font = _font(face, 32 * _FINE)
    left, top, right, bottom = font.getbbox(text)
    mask = Pillow.new("L", (int(right - left), int(bottom - top)))
    ImageDraw.Draw(mask).text((-left, -top), text, fill=255, font=font)
    scale = tall * _FINE / max(mask.size)
    small = mask.resize((round(mask.width * scale), round(mask.height * scale)), Pillow.Resampling.LANCZOS)
    square = Pillow.new("L", (SIDE * _FINE, SIDE * _FINE))
    square.paste(small, ((square.width - small.width) // 2, (square.height - small.height) // 2))
    return np.array(square)


@cache
def _font(face: str, size: int) -> ImageFont.FreeTypeFont:
    found = find_spec("matplotlib")
    if found is None or not found.submodule_search_locations:
        raise InvalidInput("letters are drawn with matplotlib's fonts, which are not installed; pip install matplotlib")
    folder = Path(found.submodule_search_locations[0], "mpl-data", "fonts", "ttf")
    return ImageFont.truetype(str(folder / f"{face}.ttf"), size, layout_engine=ImageFont.Layout.BASIC)


def _slanted(large: Bytes, rng: np.random.Generator) -> Bytes:
    """Turned by up to 6 degrees, slanted, and moved by up to a pixel."""
    turn, slant = rng.uniform(-6, 6), rng.uniform(-0.12, 0.12)
    middle = (SIDE * _FINE - 1) / 2
    place = cv2.getRotationMatrix2D((middle, middle), turn, 1.0)
    shear = np.array([[1, slant, -slant * middle], [0, 1, 0], [0, 0, 1]])
    place = place @ shear
    place[:, 2] += rng.uniform(-1, 1, 2) * _FINE
    return np.asarray(cv2.warpAffine(large, place, (SIDE * _FINE, SIDE * _FINE), flags=cv2.INTER_LINEAR), np.uint8)


def _settled(large: Bytes, *, soft: float = _SOFT) -> Floats:
    """The drawing at its size, as soft as the digits."""
    small = cv2.resize(large.astype(np.float32) / 255, (SIDE, SIDE), interpolation=cv2.INTER_AREA)
    return np.asarray(np.clip(cv2.GaussianBlur(small, (0, 0), soft), 0, 1), np.float32)


def _disc(radius: float) -> Bytes:
    side = 2 * round(radius) + 1
    return np.asarray(cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (side, side)), np.uint8)


def _outlined(large: Bytes, rng: np.random.Generator) -> Bytes:
    """The rim of a stroke made fat enough to be hollow."""
    fat = cv2.dilate(large, _disc(0.9 * _FINE))
    return np.asarray(fat - cv2.erode(fat, _disc(0.75 * _FINE)), np.uint8)


def _dotted(large: Bytes, rng: np.random.Generator) -> Bytes:
    """Dots on a grid, where the stroke is."""
    pitch = round(rng.uniform(2.8, 3.2) * _FINE)
    fat = cv2.dilate(large, _disc(0.4 * _FINE))
    dots = np.zeros_like(large)
    for y in range(pitch // 2, len(large), pitch):
        for x in range(pitch // 2, len(large), pitch):
            if fat[y, x] > 127:
                cv2.circle(dots, (x, y), round(0.36 * pitch), 255, -1)
    return dots


def _stencil(large: Bytes, rng: np.random.Generator) -> Bytes:
    """A fat stroke cut through by bridges."""
    fat = cv2.dilate(large, _disc(0.5 * _FINE))
    middle, width = len(large) / 2 + rng.uniform(-1.5, 1.5) * _FINE, 1.5 * _FINE
    places = np.arange(len(large))
    fat[:, np.abs(places - middle) < width / 2] = 0
    for third in (-4.5, 4.5):
        fat[np.abs(places - middle - third * _FINE) < width / 2, :] = 0
    return np.asarray(fat, np.uint8)


_DRAWN = {"outlined": _outlined, "dotted": _dotted, "stencil": _stencil}

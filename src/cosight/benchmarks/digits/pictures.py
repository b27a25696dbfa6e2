"""From a sketch to a picture: one small function a category."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np

from cosight.benchmarks.building import Unfit
from cosight.benchmarks.digits.glyphs import NEAR_MISSES, drawn_glyph, near_miss, styled_digit
from cosight.benchmarks.digits.hybrids import joined
from cosight.benchmarks.digits.ink import SIDE, digit_ink, on_ground, on_paper
from cosight.benchmarks.digits.linear import LinearClassifier, fooled
from cosight.benchmarks.digits.sketches import Sketch
from cosight.benchmarks.digits.textures import texture
from cosight.stimuli.corruptions import corrupt
from cosight.stimuli.images import Bytes

__all__ = ["clean_digit", "corrupted_picture", "drawn"]

Picture = tuple[Bytes, dict[str, Any]]
"""The image, and the numbers behind it for the manifest."""

_DARK, _LIGHT = 0.5, 0.95  # between which the texture behind a digit varies: the ink (0.1) stands out everywhere

# The published constants are for pictures of 256 pixels (Lee et al. 2023). What acts on single pixels or on shares of
# the picture (noise, contrast, JPEG's blocks, crops) is done at 32, where its grain is that of the picture as it is
# shown; what reaches over a number of pixels is done on the picture enlarged to 256, which is then averaged down.
_PUBLISHED_SIDE = 256
_REACHING = frozenset(
    ("glass_blur", "defocus_blur", "motion_blur", "zoom_blur", "fog", "frost", "snow", "elastic_transform")
)


def clean_digit(place: int) -> Bytes:
    """A stored digit on paper."""
    return on_paper(digit_ink(place))


def drawn(category: int, sketch: Sketch, rng: np.random.Generator, model: LinearClassifier | None = None) -> Picture:
    """The picture of a sketch; `model` is what category 3 attacks."""
    if category == 3 and model is not None:
        return _attacked(sketch, model)
    return _DRAWN[category](sketch, rng)


def corrupted_picture(image: Bytes, sketch: Sketch, rng: np.random.Generator) -> Bytes:
    """The picture corrupted; refused where one grey is all that is left, as many pictures would be that very one."""
    kind, severity = sketch.corruption, sketch.severity or 1
    if kind in _REACHING:
        large = cv2.resize(image, (_PUBLISHED_SIDE, _PUBLISHED_SIDE), interpolation=cv2.INTER_CUBIC)
        harmed = corrupt(np.asarray(large, np.uint8), kind, severity=severity, rng=rng)
        result = np.asarray(cv2.resize(harmed, (SIDE, SIDE), interpolation=cv2.INTER_AREA), np.uint8)
    else:
        result = corrupt(image, kind, severity=severity, rng=rng, region="random")
    if result.min() == result.max():
        raise Unfit("nothing is left to see")
    return result


def _attacked(sketch: Sketch, model: LinearClassifier) -> Picture:
    pixels, eps = fooled(model, clean_digit(sketch.digits[0]), int(sketch.original or 0))
    return pixels, {"eps": eps, "model": "softmax regression on pixels"}


def _background(sketch: Sketch, rng: np.random.Generator) -> Picture:
    ground = _DARK + (_LIGHT - _DARK) * texture(sketch.kind, rng)
    return on_ground(digit_ink(sketch.digits[0]), ground), {}


def _other(sketch: Sketch, rng: np.random.Generator) -> Picture:
    shown = {sketch.kind: sketch.detail}
    if sketch.kind == "texture":
        return on_paper(texture(sketch.detail, rng)), shown
    return on_paper(drawn_glyph(sketch.detail, rng)), shown


def _hybrid(sketch: Sketch, rng: np.random.Generator) -> Picture:
    first, second = map(digit_ink, sketch.digits)
    return on_paper(joined(first, second, sketch.kind)), {"other": sketch.detail}


def _near_miss(sketch: Sketch, rng: np.random.Generator) -> Picture:
    return on_paper(near_miss(sketch.detail, rng)), {"letter": sketch.detail, "like": NEAR_MISSES[sketch.detail][0]}


def _styled(sketch: Sketch, rng: np.random.Generator) -> Picture:
    return on_paper(styled_digit(sketch.original or "", sketch.kind, rng)), {}


def _corrupted(sketch: Sketch, rng: np.random.Generator) -> Picture:
    return corrupted_picture(clean_digit(sketch.digits[0]), sketch, rng), {}


_DRAWN: dict[int, Callable[[Sketch, np.random.Generator], Picture]] = {
    1: lambda sketch, rng: (clean_digit(sketch.digits[0]), {}),
    2: _background,
    4: _other,
    5: _hybrid,
    6: _near_miss,
    7: _styled,
    8: _corrupted,
}

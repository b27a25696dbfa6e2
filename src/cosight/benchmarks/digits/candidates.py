"""Candidates of the digits benchmark: plan what the image of each slot can show, and draw it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import Any

import cv2
import numpy as np

from cosight.benchmarks.building import UnusableCandidate
from cosight.benchmarks.building.split_sources import SourcePool, deal_candidates, divide_sources, interleave, shuffle
from cosight.benchmarks.digits.drawing import (
    LETTERS,
    NEAR_MISSES,
    SHAPES,
    SIDE,
    STYLES,
    TEXTURES,
    digit_ink,
    draw_glyph,
    draw_near_miss,
    draw_styled_digit,
    draw_texture,
    join_digits,
    possible_joins,
    render,
    stored_digits,
)
from cosight.benchmarks.digits.linear_attack import LinearClassifier, attack
from cosight.errors import InvalidInput
from cosight.humans.simulated.panel import MIDPOINTS
from cosight.stimuli.corruptions import corrupt
from cosight.stimuli.images import Bytes

__all__ = [
    "DigitCandidate",
    "corrupt_image",
    "digit_pools",
    "distractor_candidates",
    "draw_candidate",
    "plan_category",
    "render_digit",
    "training_candidates",
]

_SEVERITIES = range(1, 11)
_ATTEMPTS = 24  # a crop that shows nothing is drawn again, or from another image, up to this often
_EMPTY = "pixelate 10"  # leaves one of 32 pixels


@dataclass(frozen=True, slots=True)
class DigitCandidate:
    """What an image can show: stored digits by their index, a letter or texture, a corruption and its severity.

    `kind` is the column of the manifest; `original` is the digit that the image is made from, if there is one.
    """

    kind: str
    original: str | None = None
    digits: tuple[int, ...] = ()
    detail: str = ""
    corruption: str = ""
    severity: int | None = None
    attempt: int = 0  # each attempt draws another crop


# --- plans: the candidates of each slot


def digit_pools(*, train: int, seed: int) -> dict[str, SourcePool]:
    """Return the indices of the stored digits by split and class; no digit is in two splits."""
    labels = stored_digits().labels
    indices = {str(digit): [str(index) for index in np.flatnonzero(labels == digit)] for digit in range(10)}
    return divide_sources(indices, train=train, seed=seed)


def training_candidates(pool: SourcePool, *, seed: int) -> list[DigitCandidate]:
    """Return all digits of a pool, unaltered, the classes taking turns."""
    sources = interleave(pool, salt="train", seed=seed)
    return [DigitCandidate("clean", digit, (int(index),)) for digit, index in sources]


def plan_category(
    category: int, pool: SourcePool, count: int, *, split: str, seed: int
) -> Iterator[tuple[DigitCandidate, ...]]:
    """Return the candidates of each of `count` slots of a category."""
    salt = f"{split}/{category}"
    variants = cycle(_plan_variants(category, salt=salt, seed=seed))
    if category in (4, 6, 7):  # made from no stored digit
        return ((candidate,) for candidate in islice(variants, count))
    rows = list(deal_candidates(pool, count, salt=salt, seed=seed, purpose=f"category {category} of {split}"))
    if category == 5:
        return _plan_hybrids(rows, salt=salt, seed=seed)
    attempts = _ATTEMPTS if category == 8 else 1
    return (
        tuple(
            replace(variant, original=digit, digits=(int(index),), attempt=attempt)
            for digit, index in row
            for attempt in range(attempts)
        )
        for row, variant in zip(rows, variants, strict=False)
    )


def distractor_candidates(count: int, *, seed: int) -> list[tuple[DigitCandidate, ...]]:
    """Return the candidates of each distractor: images of category 4 with one corruption and severity."""
    others, corruptions = _plan_others("distractors", seed), _plan_corruptions("distractors", seed)
    return [
        tuple(
            replace(others[(slot + attempt) % len(others)], corruption=variant.corruption, severity=variant.severity)
            for attempt in range(_ATTEMPTS)
        )
        for slot, variant in enumerate(islice(cycle(corruptions), count))
    ]


def _plan_variants(category: int, *, salt: str, seed: int) -> list[DigitCandidate]:
    """Return what the images of a category show in turn, without the stored digit they are made from."""
    if category == 2:
        return [DigitCandidate(name) for name in TEXTURES]
    if category == 3:
        return [DigitCandidate("fgsm")]
    if category == 4:
        return _plan_others(salt, seed)
    if category == 6:
        return [DigitCandidate("letter", detail=letter) for letter in shuffle(NEAR_MISSES, salt=salt, seed=seed)]
    if category == 7:
        names = shuffle((f"{style} {digit}" for style in STYLES for digit in range(10)), salt=salt, seed=seed)
        return [DigitCandidate(style, digit) for style, digit in map(str.split, names)]
    if category == 8:
        return _plan_corruptions(salt, seed)
    return [DigitCandidate("clean")]


def _plan_hybrids(
    rows: Sequence[Sequence[tuple[str, str]]], *, salt: str, seed: int
) -> Iterator[tuple[DigitCandidate, ...]]:
    """Pair the digit of each slot with those of other slots that do not make a third digit; the joins take turns."""
    digit_of_index = {row[0][1]: row[0][0] for row in rows}
    for slot, (first, digit) in enumerate(digit_of_index.items()):
        candidates = []
        for second in shuffle(digit_of_index, salt=f"{salt}/{slot}", seed=seed):
            other = digit_of_index[second]
            if joins := possible_joins(digit, other):
                candidates.append(DigitCandidate(joins[slot % len(joins)], digit, (int(first), int(second)), other))
        yield tuple(candidates)


def _plan_corruptions(salt: str, seed: int) -> list[DigitCandidate]:
    """Return every corruption at every severity, in a random order."""
    names = [f"{kind} {severity}" for kind in MIDPOINTS for severity in _SEVERITIES]
    variants = [name.split() for name in shuffle(names, salt=salt, seed=seed) if name != _EMPTY]
    return [DigitCandidate(kind, corruption=kind, severity=int(severity)) for kind, severity in variants]


def _plan_others(salt: str, seed: int) -> list[DigitCandidate]:
    """Return letters, shapes and textures in turn."""
    names_by_kind = {"letter": LETTERS, "shape": SHAPES, "texture": TEXTURES}
    order = {kind: cycle(shuffle(names, salt=salt, seed=seed)) for kind, names in names_by_kind.items()}
    return [DigitCandidate(kind, detail=next(order[kind])) for _ in LETTERS for kind in names_by_kind]


# --- rendering

_DARK, _LIGHT = 0.5, 0.95  # range of the texture behind a digit: the ink (0.1) stands out everywhere

# The published constants are for images of 256 pixels (Lee et al. 2023). Corruptions of single pixels or of fractions
# of the image (noise, contrast, JPEG blocks, crops) are applied at 32 pixels, so that their grain is that of the image
# as it is shown. Corruptions with a length in pixels are applied to the image enlarged to 256 and then averaged down.
_PUBLISHED_SIDE = 256
_WITH_LENGTH = frozenset(
    ("glass_blur", "defocus_blur", "motion_blur", "zoom_blur", "fog", "frost", "snow", "elastic_transform")
)


def render_digit(index: int) -> Bytes:
    """Return a stored digit on paper."""
    return render(digit_ink(index))


def draw_candidate(
    category: int, candidate: DigitCandidate, rng: np.random.Generator, model: LinearClassifier | None = None
) -> tuple[Bytes, dict[str, Any]]:
    """Draw the image of a candidate; `model` is the classifier that category 3 attacks.

    Returns:
        The image, and its parameters for the manifest.

    Raises:
        UnusableCandidate: The attack fails, or the corrupted image shows nothing.
    """
    kind, detail = candidate.kind, candidate.detail
    if category == 1:
        return render_digit(candidate.digits[0]), {}
    if category == 2:
        background = _DARK + (_LIGHT - _DARK) * draw_texture(kind, rng)
        return render(digit_ink(candidate.digits[0]), background), {}
    if category == 3:
        if model is None:
            raise InvalidInput("category 3 needs a classifier to attack, got none; pass model")
        image, eps = attack(model, render_digit(candidate.digits[0]), int(candidate.original or 0))
        return image, {"eps": eps, "model": "softmax regression on pixels"}
    if category == 4:
        ink = draw_texture(detail, rng) if kind == "texture" else draw_glyph(detail, rng)
        return render(ink), {kind: detail}
    if category == 5:
        first, second = map(digit_ink, candidate.digits)
        return render(join_digits(first, second, kind)), {"other": detail}
    if category == 6:
        return render(draw_near_miss(detail, rng)), {"letter": detail, "like": NEAR_MISSES[detail][0]}
    if category == 7:
        return render(draw_styled_digit(candidate.original or "", kind, rng)), {}
    return corrupt_image(render_digit(candidate.digits[0]), candidate, rng), {}


def corrupt_image(image: Bytes, candidate: DigitCandidate, rng: np.random.Generator) -> Bytes:
    """Apply the corruption of a candidate.

    Raises:
        UnusableCandidate: A single grey value is left; many images would be identical.
    """
    kind, severity = candidate.corruption, candidate.severity or 1
    if kind in _WITH_LENGTH:
        large = cv2.resize(image, (_PUBLISHED_SIDE, _PUBLISHED_SIDE), interpolation=cv2.INTER_CUBIC)
        corrupted = corrupt(np.asarray(large, np.uint8), kind, severity=severity, rng=rng)
        result = np.asarray(cv2.resize(corrupted, (SIDE, SIDE), interpolation=cv2.INTER_AREA), np.uint8)
    else:
        result = corrupt(image, kind, severity=severity, rng=rng, region="random")
    if result.min() == result.max():
        raise UnusableCandidate("the corrupted image shows nothing")
    return result

"""What each picture of the digits benchmark is to show: a table of sketches, before anything is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice

import numpy as np

from cosight.benchmarks.building.split_sources import Pool, dealt, divided, in_turn, shuffled
from cosight.benchmarks.digits.glyphs import LETTERS, NEAR_MISSES, SHAPES, STYLES
from cosight.benchmarks.digits.hybrids import joins
from cosight.benchmarks.digits.ink import handwriting
from cosight.benchmarks.digits.textures import TEXTURES
from cosight.humans.simulated.panel import MIDPOINTS

__all__ = ["Sketch", "digit_pools", "distractor_sketches", "sketches", "training_sketches"]

_SEVERITIES = range(1, 11)
_TRIES = 24  # so often a crop is drawn anew, or from another picture, that shows nothing
_EMPTY = "pixelate 10"  # of 32 pixels, one is left


@dataclass(frozen=True, slots=True)
class Sketch:
    """What a picture is to show: stored digits by their place, a letter or texture, a corruption and its severity.

    `kind` is the manifest's; `original` the digit it is made from, where it is made from one.
    """

    kind: str
    original: str | None = None
    digits: tuple[int, ...] = ()
    detail: str = ""
    corruption: str = ""
    severity: int | None = None
    attempt: int = 0  # another one draws another crop


def digit_pools(*, train: int, seed: int) -> dict[str, Pool]:
    """The stored digits by split and class, no digit in two splits."""
    labels = handwriting().labels
    every = {str(digit): [str(place) for place in np.flatnonzero(labels == digit)] for digit in range(10)}
    return divided(every, train=train, seed=seed)


def training_sketches(pool: Pool, *, seed: int) -> list[Sketch]:
    """All of a pool, the classes taking turns."""
    return [Sketch("clean", digit, (int(place),)) for digit, place in in_turn(pool, salt="train", seed=seed)]


def sketches(category: int, pool: Pool, count: int, *, split: str, seed: int) -> Iterator[tuple[Sketch, ...]]:
    """The candidates of each of `count` slots of a category."""
    salt = f"{split}/{category}"
    if category in _FREE:
        return ((sketch,) for sketch in islice(cycle(_FREE[category](salt, seed)), count))
    rows = list(dealt(pool, count, salt=salt, seed=seed, what=f"category {category} of {split}"))
    if category == 5:
        return _hybrids(rows, salt=salt, seed=seed)
    looks = cycle(_LOOKS[category](salt, seed))
    tries = _TRIES if category == 8 else 1
    return (_each(look, row, tries) for row, look in zip(rows, looks, strict=False))


def distractor_sketches(count: int, *, seed: int) -> list[tuple[Sketch, ...]]:
    """Candidates of each distractor: pictures of category 4 with one corruption and severity."""
    others, looks = _others("distractors", seed), _corrupted("distractors", seed)
    return [
        tuple(
            replace(others[(place + step) % len(others)], corruption=look.corruption, severity=look.severity)
            for step in range(_TRIES)
        )
        for place, look in enumerate(islice(cycle(looks), count))
    ]


def _each(look: Sketch, row: Sequence[tuple[str, str]], tries: int) -> tuple[Sketch, ...]:
    return tuple(
        replace(look, original=digit, digits=(int(place),), attempt=attempt)
        for digit, place in row
        for attempt in range(tries)
    )


def _corrupted(salt: str, seed: int) -> list[Sketch]:
    """Every corruption at every severity, in a random order."""
    steps = shuffled((f"{kind} {step}" for kind in MIDPOINTS for step in _SEVERITIES), salt=salt, seed=seed)
    shown = (text.split() for text in steps if text != _EMPTY)
    return [Sketch(kind, corruption=kind, severity=int(step)) for kind, step in shown]


def _hybrids(rows: Sequence[Sequence[tuple[str, str]]], *, salt: str, seed: int) -> Iterator[tuple[Sketch, ...]]:
    """Each slot's digit with others that make no third digit of the two, the ways to join them taking turns."""
    own = {row[0][1]: row[0][0] for row in rows}
    for place, (first, digit) in enumerate(own.items()):
        partners = shuffled(own, salt=f"{salt}/{place}", seed=seed)
        fit = [(second, own[second], joins(digit, own[second])) for second in partners]
        yield tuple(
            Sketch(ways[place % len(ways)], digit, (int(first), int(second)), other)
            for second, other, ways in fit
            if ways
        )


def _others(salt: str, seed: int) -> list[Sketch]:
    """Letters, shapes and textures in turn."""
    decks = {"letter": LETTERS, "shape": SHAPES, "texture": TEXTURES}
    order = {kind: cycle(shuffled(names, salt=salt, seed=seed)) for kind, names in decks.items()}
    return [Sketch(kind, detail=next(order[kind])) for _ in LETTERS for kind in decks]


def _near_misses(salt: str, seed: int) -> list[Sketch]:
    return [Sketch("letter", detail=letter) for letter in shuffled(NEAR_MISSES, salt=salt, seed=seed)]


def _styles(salt: str, seed: int) -> list[Sketch]:
    every = shuffled((f"{style} {digit}" for style in STYLES for digit in range(10)), salt=salt, seed=seed)
    return [Sketch(style, digit) for style, digit in map(str.split, every)]


_FREE: dict[int, Callable[[str, int], list[Sketch]]] = {4: _others, 6: _near_misses, 7: _styles}  # made of no digit
_LOOKS: dict[int, Callable[[str, int], list[Sketch]]] = {
    1: lambda salt, seed: [Sketch("clean")],
    2: lambda salt, seed: [Sketch(name) for name in TEXTURES],
    3: lambda salt, seed: [Sketch("fgsm")],
    8: _corrupted,
}

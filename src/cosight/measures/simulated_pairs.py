"""Pairs of simulated observers of known behaviour, which show what each measure of errors sees and what it misses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cosight.arrays import BoolArray, whole_number
from cosight.measures.answers import Answers, CodeArray

__all__ = ["SimulatedPair", "simulated_pairs"]

_LURED = 0.7  # of a class' errors go to one other class
_ACCURACY, _HIGH, _LOW = 0.7, 0.98, 0.05
_REPLACED = 0.25  # of the answers of a degraded copy
_LARGEST = 0.95  # of imbalanced stimuli belong to one class

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class SimulatedPair:
    """Two observers of known behaviour.

    Args:
        name: Name of the behaviour.
        behaviour: What the second observer does, in words.
        answers: The answers of both.
    """

    name: str
    behaviour: str
    answers: Answers


def simulated_pairs(*, trials: int = 2000, classes: int = 10, seed: int = 0) -> Mapping[str, SimulatedPair]:
    """Simulate pairs of observers whose errors are alike in one way and not in another.

    The first observer is right on 70 % of the stimuli, and 70 % of its errors take a class for one certain other class.

    Args:
        trials: Number of stimuli.
        classes: Number of classes, at least 6.
        seed: Seed of the draws.

    Returns:
        The pairs by name: first those that differ in behaviour, then those on which a measure is unreliable.

    Raises:
        InvalidInput: If there are too few classes or trials.

    >>> from cosight.measures import class_level_error_similarity_matrix, error_consistency_matrix
    >>> answers = simulated_pairs()["same classes, other images"].answers
    >>> round(float(class_level_error_similarity_matrix(answers)[0, 1]), 2)
    0.97
    >>> abs(float(error_consistency_matrix(answers.correct)[0, 1])) < 0.1
    True
    """
    whole_number(classes, name="classes", least=6)
    whole_number(trials, name="trials", least=1)
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, classes, trials)
    skewed = np.where(rng.random(trials) < _LARGEST, 0, rng.integers(1, classes, trials))

    def wrong(true: Integers, lure: int | None) -> Integers:
        """Draw wrong answers: `lure` classes further on in most cases, any wrong class otherwise."""
        step = rng.integers(1, classes, len(true))
        return (true + (step if lure is None else np.where(rng.random(len(true)) < _LURED, lure, step))) % classes

    def errs(accuracy: float = _ACCURACY) -> BoolArray:
        return np.asarray(rng.random(trials) >= accuracy)

    def answer(true: Integers, error: BoolArray, lure: int | None) -> Integers:
        return np.where(error, wrong(true, lure), true)

    def half_shared(accuracy: float) -> list[Integers]:
        """Two observers who share half of their errors, or half of their right answers where those are fewer."""
        rare = min(accuracy, 1 - accuracy)
        common = rng.random(trials) < rare / 2
        chosen = [common | (rng.random(trials) < rare / 2) for _ in range(2)]
        errors = chosen if accuracy > 1 / 2 else [~part for part in chosen]
        return [answer(truth, part, lure) for part, lure in zip(errors, (1, 3), strict=True)]

    error = errs()
    first = answer(truth, error, 1)
    pairs: dict[str, SimulatedPair] = {}

    def add(name: str, behaviour: str, a: Integers, b: Integers, true: Integers = truth) -> None:
        response: CodeArray = np.stack([a, b]).astype(np.int16)
        pairs[name] = SimulatedPair(name, behaviour, Answers(response, true.astype(np.int16), classes))

    add("same errors", "gives the same answers", first, first)
    add("same images, other errors", "errs on the same images, with answers of its own", first, answer(truth, error, 3))
    add(
        "same classes, other images", "confuses the same classes, on images of its own", first, answer(truth, errs(), 1)
    )
    add("independent errors", "errs on images of its own and confuses other classes", first, answer(truth, errs(), 3))
    add(
        "independent, no structure",
        "both err on images of their own and confuse all classes alike",
        answer(truth, errs(), None),
        answer(truth, errs(), None),
    )
    replaced = rng.random(trials) < _REPLACED
    noise = rng.integers(0, classes, trials)
    add(
        "degraded copy",
        "gives the same answers, but guesses on a quarter of the images",
        first,
        np.where(replaced, noise, first),
    )
    for accuracy, name in (
        (_ACCURACY, "half shared"),
        (_HIGH, "half shared, high accuracy"),
        (_LOW, "half shared, low accuracy"),
    ):
        add(
            name,
            f"accuracy {accuracy:g}: half of the errors (or right answers, if fewer) are on common images",
            *half_shared(accuracy),
        )
    add(
        "other classes, high accuracy",
        f"accuracy {_HIGH:g}: errs on images of its own and confuses other classes",
        answer(truth, errs(_HIGH), 1),
        answer(truth, errs(_HIGH), 3),
    )
    # on the one large class both confuse the same classes, on all others different ones
    other = np.where(skewed == 0, wrong(skewed, 1), wrong(skewed, 3))
    add(
        "other classes but one, imbalanced",
        "confuses other classes, but for one class that 95 % of the images belong to",
        answer(skewed, errs(), 1),
        np.where(errs(), other, skewed),
        skewed,
    )
    return pairs

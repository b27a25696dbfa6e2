"""Answers of many observers to the same stimuli, as class codes: the input of every all-pairs measure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cosight.arrays import BoolArray, FloatArray, correctness, labels, same_length
from cosight.errors import InvalidInput
from cosight.measures.arithmetic import Pairs

__all__ = [
    "NOT_SHOWN",
    "NO_ANSWER",
    "Answers",
    "CodeArray",
    "check_classes",
    "common_trials",
    "encode",
    "half_pairs",
    "joint_errors",
    "split_half_crowds",
]

NO_ANSWER = -1  # shown, but nothing was answered in time
NOT_SHOWN = -2  # this observer never met the stimulus

CodeArray = NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers of `observers` observers to `stimuli` stimuli, coded 0..classes-1."""

    response: CodeArray  # (observers, stimuli); NO_ANSWER or NOT_SHOWN where negative
    truth: CodeArray  # (stimuli,); negative where the truth is unknown
    classes: int

    def __post_init__(self) -> None:
        if self.response.ndim != 2 or self.truth.shape != self.response.shape[1:]:
            raise InvalidInput(
                f"responses must be (observers, stimuli) beside one truth a stimulus, "
                f"got shapes {self.response.shape} and {self.truth.shape}"
            )
        check_classes(self.classes)
        top = max(self.response.max(initial=-1), self.truth.max(initial=-1))
        if top >= self.classes:
            raise InvalidInput(f"codes must be below the number of classes, got {top} with {self.classes} classes")

    @classmethod
    def of_correctness(cls, *observers: ArrayLike) -> Answers:
        """Answers known only as right (1) or wrong (0), one array an observer."""
        rows = [correctness(row, name=f"observer {i}") for i, row in enumerate(observers)]
        same_length(**{f"observer {i}": row for i, row in enumerate(rows)})
        response = np.array(rows, dtype=np.int16)
        return cls(response, np.ones(response.shape[1], dtype=np.int16), 2)

    @property
    def observers(self) -> int:
        """How many observers."""
        return int(self.response.shape[0])

    @property
    def stimuli(self) -> int:
        """How many stimuli."""
        return int(self.response.shape[1])

    @property
    def shown(self) -> BoolArray:
        """Where an observer met a stimulus whose truth is known; (observers, stimuli)."""
        return np.asarray((self.response != NOT_SHOWN) & (self.truth >= 0))

    @property
    def correct(self) -> BoolArray:
        """Where the answer is the truth; a missing answer is not."""
        return np.asarray((self.response == self.truth) & (self.truth >= 0))

    @property
    def wrong(self) -> BoolArray:
        """Where something was answered and it is not the truth."""
        wrong = np.asarray(self.response != self.truth)
        wrong &= self.response >= 0
        wrong &= self.truth >= 0
        return wrong

    def of(self, observers: ArrayLike) -> Answers:
        """Only these observers (indices or a mask)."""
        return Answers(self.response[_picked(observers)], self.truth, self.classes)

    def at(self, stimuli: ArrayLike) -> Answers:
        """Only these stimuli (indices or a mask), in this order."""
        picked = _picked(stimuli)
        return Answers(self.response[:, picked], self.truth[picked], self.classes)


def encode(
    *answers: ArrayLike, truth: ArrayLike | None, classes: ArrayLike | None = None, names: tuple[str, ...] | None = None
) -> Answers:
    """Answers and truth given as class names or numbers, coded over `classes` (default: every value that occurs).

    None, nan, "" and "na" in an answer mean no answer; the truth must be known, or None for a measure that does not
    read it. `names`, one for each of `answers`, are what messages call them.

    >>> encode(["cat", None], ["dog", "dog"], truth=["cat", "dog"]).response
    array([[ 0, -1],
           [ 1,  1]], dtype=int16)
    """
    if not answers and truth is None:
        raise InvalidInput("encoding needs answers or a truth, got neither; give at least one")
    called = names or tuple(f"observer {i}" for i in range(len(answers)))
    rows = [labels(row, name=name) for row, name in zip(answers, called, strict=True)]
    target = labels([] if truth is None else truth, name="truth")
    stimuli = same_length(**({} if truth is None else {"truth": target}), **dict(zip(called, rows, strict=True)))
    present = [~_missing(row) for row in rows]
    if _missing(target).any():
        raise InvalidInput("the truth must be known for every trial, got a missing one; leave such trials out first")
    known = _known(classes, [target, *(row[ok] for row, ok in zip(rows, present, strict=True))])
    response = np.full((len(rows), stimuli), NO_ANSWER, dtype=np.int16)
    for code, row, ok in zip(response, rows, present, strict=True):
        code[ok] = _codes(row[ok], known)
    unknown = np.full(stimuli, -1, dtype=np.int16)
    return Answers(response, unknown if truth is None else _codes(target, known), len(known))


def common_trials(answers: Answers, pairs: NDArray[np.int64]) -> FloatArray:
    """How many stimuli both observers of each pair met; (pairs,)."""
    seen = answers.shown.astype(np.float32)
    return (seen @ seen.T)[pairs[:, 0], pairs[:, 1]].astype(np.float64)


def joint_errors(answers: Answers, pairs: NDArray[np.int64]) -> FloatArray:
    """How many stimuli both observers of each pair got wrong, a missing answer included; (pairs,)."""
    failed = (answers.shown & ~answers.correct).astype(np.float32)
    return (failed @ failed.T)[pairs[:, 0], pairs[:, 1]].astype(np.float64)


def _picked(indices: ArrayLike) -> NDArray[Any]:
    array = np.asarray(indices)
    return array if array.size else array.astype(np.intp)  # an empty list has no dtype of its own


def _missing(values: NDArray[Any]) -> BoolArray:
    if values.dtype.kind == "f":
        return np.asarray(np.isnan(values))
    if values.dtype.kind in "OU":
        return np.array([v is None or v != v or v in ("", "na") for v in values.tolist()], dtype=np.bool_)
    return np.zeros(len(values), dtype=np.bool_)


def _known(classes: ArrayLike | None, seen: list[NDArray[Any]]) -> list[Any]:
    found = {value for values in seen for value in values.tolist()}
    if classes is None:
        return _in_order(found)
    known = list(np.asarray(classes).tolist())
    if len(set(known)) < len(known):
        twice = next(value for value in known if known.count(value) > 1)
        raise InvalidInput(f"classes must differ, got {twice!r} twice; name each class once")
    unknown = found - set(known)
    if unknown:
        raise InvalidInput(f"answers must be among the classes, got {min(unknown, key=str)!r}; add it to the classes")
    return known


def _in_order(found: set[Any]) -> list[Any]:
    try:
        return sorted(found)
    except TypeError:
        kinds = ", ".join(sorted({type(value).__name__ for value in found}))
        raise InvalidInput(f"answers and truth must be of one kind, got {kinds}; use names or codes for all") from None


def check_classes(count: int) -> None:
    """Refuse more classes than answers can be coded for."""
    most = np.iinfo(np.int16).max
    if count > most:
        raise InvalidInput(f"answers are coded for {most} classes at most, got {count}; merge some first")


def _codes(values: NDArray[Any], known: list[Any]) -> CodeArray:
    check_classes(len(known))
    code = {value: index for index, value in enumerate(known)}
    return np.array([code[value] for value in values.tolist()], dtype=np.int16)


def split_half_crowds(answers: Answers, *, splits: int = 20, rng: np.random.Generator) -> Answers:
    """Majority answers of two random halves of the observers, `splits` times; rows 2i and 2i + 1 are one split.

    Ties are broken at random. A stimulus that no one of a half met is not shown to that half; one that none of them
    answered has no answer. With an odd number of people, one is left out of each split at random.
    """
    if answers.observers < 4:
        raise InvalidInput(f"two crowds take four people or more, got {answers.observers}")
    half = answers.observers // 2
    rows = []
    for _ in range(splits):
        order = rng.permutation(answers.observers)
        rows += [_majority(answers, order[:half], rng), _majority(answers, order[half : 2 * half], rng)]
    return Answers(np.stack(rows), answers.truth, answers.classes)


def half_pairs(splits: int) -> Pairs:
    """The pairs of rows that `split_half_crowds` makes."""
    return np.arange(2 * splits).reshape(splits, 2)


def _majority(answers: Answers, people: NDArray[np.int64], rng: np.random.Generator) -> CodeArray:
    response = answers.response[people]
    counts = np.stack([(response == code).sum(axis=0) for code in range(answers.classes)])  # (classes, stimuli)
    jittered = counts + rng.random(counts.shape) * 0.5  # breaks ties, never changes an order
    winner = np.where(counts.sum(axis=0) > 0, jittered.argmax(axis=0), NO_ANSWER)
    seen = (response != NOT_SHOWN).any(axis=0)
    return np.where(seen, winner, NOT_SHOWN).astype(np.int16)

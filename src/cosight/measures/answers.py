"""Answers of many observers to the same stimuli, as class codes: the input of every all-pairs measure."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cosight.arrays import BoolArray, FloatArray, correctness, labels, same_length
from cosight.errors import InvalidInput
from cosight.measures.arithmetic import Pairs

__all__ = [
    "ALL_SPLITS_UP_TO",
    "NOT_SHOWN",
    "NO_ANSWER",
    "TIE_ROUNDS",
    "Answers",
    "CodeArray",
    "check_classes",
    "common_trials",
    "encode",
    "half_pairs",
    "half_splits",
    "is_missing",
    "joint_errors",
    "split_half_crowds",
]

ALL_SPLITS_UP_TO = 10  # people; with more people, random splits into halves are drawn
TIE_ROUNDS = 8  # for each split into halves: two random orders, four combinations of each
NO_ANSWER = -1  # shown, but not answered in time
NOT_SHOWN = -2  # this observer never saw the stimulus

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
                f"responses must be (observers, stimuli) with one truth per stimulus, "
                f"got shapes {self.response.shape} and {self.truth.shape}"
            )
        check_classes(self.classes)
        top = max(self.response.max(initial=-1), self.truth.max(initial=-1))
        if top >= self.classes:
            raise InvalidInput(f"codes must be below the number of classes, got {top} with {self.classes} classes")

    @classmethod
    def of_correctness(cls, *observers: ArrayLike) -> Answers:
        """Make answers known only as right (1) or wrong (0), one array per observer."""
        rows = [correctness(row, name=f"observer {i}") for i, row in enumerate(observers)]
        same_length(**{f"observer {i}": row for i, row in enumerate(rows)})
        response = np.array(rows, dtype=np.int16)
        return cls(response, np.ones(response.shape[1], dtype=np.int16), 2)

    @property
    def observers(self) -> int:
        """The number of observers."""
        return int(self.response.shape[0])

    @property
    def stimuli(self) -> int:
        """The number of stimuli."""
        return int(self.response.shape[1])

    @property
    def shown(self) -> BoolArray:
        """Where an observer saw a stimulus whose truth is known; (observers, stimuli)."""
        return np.asarray((self.response != NOT_SHOWN) & (self.truth >= 0))

    @property
    def correct(self) -> BoolArray:
        """Where the answer is the truth; a missing answer is not."""
        return np.asarray((self.response == self.truth) & (self.truth >= 0))

    @property
    def wrong(self) -> BoolArray:
        """Where there is an answer and it is not the truth."""
        wrong = np.asarray(self.response != self.truth)
        wrong &= self.response >= 0
        wrong &= self.truth >= 0
        return wrong

    def of(self, observers: ArrayLike) -> Answers:
        """Return the answers of these observers (indices or a mask)."""
        return Answers(self.response[_as_index(observers)], self.truth, self.classes)

    def at(self, stimuli: ArrayLike) -> Answers:
        """Return the answers to these stimuli (indices or a mask), in this order."""
        index = _as_index(stimuli)
        return Answers(self.response[:, index], self.truth[index], self.classes)


def encode(
    *answers: ArrayLike, truth: ArrayLike | None, classes: ArrayLike | None = None, names: tuple[str, ...] | None = None
) -> Answers:
    """Code answers and truth, given as class names or numbers.

    Args:
        answers: One array per observer. None, nan, "" and "na" mean no answer.
        truth: The true class of every stimulus, or None for a measure that does not read it.
        classes: The classes in the order of their codes (default: every value that occurs, sorted).
        names: Names of the arrays in error messages, one per array.

    Returns:
        The answers as codes.

    Raises:
        InvalidInput: If lengths differ, a truth is missing, or an answer is not among the classes.

    >>> encode(["cat", None], ["dog", "dog"], truth=["cat", "dog"]).response
    array([[ 0, -1],
           [ 1,  1]], dtype=int16)
    """
    if not answers and truth is None:
        raise InvalidInput("encoding needs answers or a truth, got neither; give at least one")
    names = names or tuple(f"observer {i}" for i in range(len(answers)))
    rows = [labels(row, name=name) for row, name in zip(answers, names, strict=True)]
    target = labels([] if truth is None else truth, name="truth")
    stimuli = same_length(**({} if truth is None else {"truth": target}), **dict(zip(names, rows, strict=True)))
    present = [~_missing(row) for row in rows]
    if _missing(target).any():
        raise InvalidInput("the truth must be known for every trial, got a missing one; leave such trials out first")
    occurring = set(target.tolist()).union(
        *(row[answered].tolist() for row, answered in zip(rows, present, strict=True))
    )
    code = {value: index for index, value in enumerate(_ordered_classes(classes, occurring))}
    check_classes(len(code))
    response = np.full((len(rows), stimuli), NO_ANSWER, dtype=np.int16)
    for codes, row, answered in zip(response, rows, present, strict=True):
        codes[answered] = [code[value] for value in row[answered].tolist()]
    coded_truth = np.full(stimuli, -1, dtype=np.int16)
    if truth is not None:
        coded_truth[:] = [code[value] for value in target.tolist()]
    return Answers(response, coded_truth, len(code))


def is_missing(value: object) -> bool:
    """Return whether a value stands for no answer: None, nan, "" or "na".

    Args:
        value: An answer as it was recorded.

    Returns:
        True for no answer.

    >>> is_missing("na"), is_missing(float("nan")), is_missing("cat"), is_missing(0)
    (True, True, False, False)
    """
    return value is None or value != value or value in ("", "na")


def common_trials(answers: Answers, pairs: NDArray[np.int64]) -> FloatArray:
    """Count the stimuli that both observers of each pair saw.

    Args:
        answers: The answers of all observers.
        pairs: Indices of the observers of each pair, (pairs, 2).

    Returns:
        The number of stimuli with a known truth that both saw, (pairs,).

    >>> answers = encode(["a", "b", None], ["b", "b", "a"], truth=["a", "a", "b"])
    >>> common_trials(answers, np.array([[0, 1]]))
    array([3.])
    """
    seen = answers.shown.astype(np.float32)
    return (seen @ seen.T)[pairs[:, 0], pairs[:, 1]].astype(np.float64)


def joint_errors(answers: Answers, pairs: NDArray[np.int64]) -> FloatArray:
    """Count the stimuli that both observers of each pair got wrong; a missing answer is wrong.

    Args:
        answers: The answers of all observers.
        pairs: Indices of the observers of each pair, (pairs, 2).

    Returns:
        The number of joint errors, (pairs,).

    >>> answers = encode(["a", "b", None], ["b", "b", "a"], truth=["a", "a", "b"])
    >>> joint_errors(answers, np.array([[0, 1]]))
    array([2.])
    """
    failed = (answers.shown & ~answers.correct).astype(np.float32)
    return (failed @ failed.T)[pairs[:, 0], pairs[:, 1]].astype(np.float64)


def check_classes(count: int) -> None:
    """Check that the number of classes fits the 16-bit codes of `Answers`.

    Args:
        count: The number of classes.

    Raises:
        InvalidInput: If there are more than 32,767 classes.

    >>> check_classes(1000)
    """
    most = np.iinfo(np.int16).max
    if count > most:
        raise InvalidInput(f"answers are coded for {most} classes at most, got {count}; merge some first")


def half_splits(people: int, *, splits: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return splits of people into two halves, in random order; an odd number leaves one person out of each split.

    Args:
        people: The number of people, four or more.
        splits: The number of random splits where there are more than ten people. Of ten or fewer, all splits are
            returned: 3 of 4 people, 126 of 10, 315 of 9 (35 for each one left out).
        rng: The source of randomness.

    Returns:
        Indices of people, (splits, 2, people // 2).

    Raises:
        InvalidInput: If there are fewer than four people.

    >>> len(half_splits(10, splits=20, rng=np.random.default_rng(0)))
    126
    """
    if people < 4:
        raise InvalidInput(f"two crowds need four people or more, got {people}")
    half = people // 2
    if people > ALL_SPLITS_UP_TO:
        return np.stack([rng.permutation(people)[: 2 * half].reshape(2, half) for _ in range(splits)])
    every = []
    for left_out in [None] if people % 2 == 0 else range(people):
        first, *others = (person for person in range(people) if person != left_out)
        for chosen in combinations(others, half - 1):
            every.append([[first, *chosen], [person for person in others if person not in chosen]])
    return np.array(every)[rng.permutation(len(every))]


def split_half_crowds(answers: Answers, halves: NDArray[np.int64], *, rng: np.random.Generator) -> Answers:
    """Compute the majority answers of two halves of the observers, for several splits.

    The agreement of such crowds is a ceiling of how much anyone can agree with these people. Crowds are less noisy
    than persons, so it is higher than the mean over pairs of people (the leave-one-out ceiling). A stimulus that nobody
    in a half saw is not shown to that half; one that none of them answered has no answer.

    Ties are broken at random, `TIE_ROUNDS` times for each split: between two tied answers every combination of the two
    halves occurs equally often, so that the mean over rounds hardly depends on chance.

    Args:
        answers: The answers of the people.
        halves: The splits, from `half_splits`.
        rng: The source of randomness.

    Returns:
        Answers of 2 * splits * `TIE_ROUNDS` crowds. Rows 2i and 2i + 1 are the halves of one split (`half_pairs`), and
        the rounds of a split follow each other.

    >>> rng, truth = np.random.default_rng(0), ["cat", "dog"]
    >>> people = encode(*[["cat", "dog"]] * 3, ["dog", "dog"], truth=truth)
    >>> crowds = split_half_crowds(people, half_splits(4, splits=1, rng=rng), rng=rng)
    >>> crowds.observers, crowds.correct[:, 1].all()  # 2 halves x 3 splits x 8 rounds; all said dog
    (48, np.True_)
    """
    people, stimuli = answers.response.shape
    is_member = np.zeros((2 * len(halves), people), dtype=np.float32)
    is_member[np.arange(len(is_member))[:, None], halves.reshape(len(is_member), -1)] = 1
    rows = np.empty((len(halves), TIE_ROUNDS, 2, stimuli), dtype=np.int16)
    given = answers.response >= 0
    seen = is_member @ (answers.response != NOT_SHOWN).astype(np.float32) > 0  # (crowds, stimuli)
    most = np.zeros((len(is_member), stimuli), dtype=np.float32)
    counts = np.empty((answers.classes, len(is_member), stimuli), dtype=np.float32)
    for code in range(answers.classes):
        counts[code] = is_member @ (given & (answers.response == code)).astype(np.float32)
        np.maximum(most, counts[code], out=most)
    tied = (counts == most).sum(axis=0)  # number of most frequent answers
    none = np.where(seen, NO_ANSWER, NOT_SHOWN)
    for order, shift in product(range(TIE_ROUNDS // 4), range(2)):
        if shift == 0:
            start = (rng.random(tied.shape) * tied).astype(np.int64)
        wanted = (start + shift) % tied  # the most frequent answers are numbered in the order of their codes
        winner = np.full(tied.shape, NO_ANSWER, dtype=np.int16)
        number = np.zeros(tied.shape, dtype=np.int64)
        for code in range(answers.classes):
            among = counts[code] == most
            winner[among & (number == wanted)] = code
            number += among
        of_half = np.where(most > 0, winner, none).astype(np.int16).reshape(len(halves), 2, stimuli)
        combinations_of = rows[:, 4 * order : 4 * order + 4]
        combinations_of[:, [shift, shift + 2], 0] = of_half[:, None, 0]  # first halves: shifts 0 1 0 1
        combinations_of[:, [2 * shift, 2 * shift + 1], 1] = of_half[:, None, 1]  # second halves: 0 0 1 1
    return Answers(rows.reshape(-1, stimuli), answers.truth, answers.classes)


def half_pairs(splits: int) -> Pairs:
    """Return the pairs of rows of `split_half_crowds`, the two halves of each split and round.

    Args:
        splits: The number of pairs: splits times rounds.

    Returns:
        Indices of rows, (splits, 2).

    >>> half_pairs(2)
    array([[0, 1],
           [2, 3]])
    """
    return np.arange(2 * splits).reshape(splits, 2)


def _as_index(indices: ArrayLike) -> NDArray[Any]:
    array = np.asarray(indices)
    return array if array.size else array.astype(np.intp)  # an empty list has no dtype of its own


def _missing(values: NDArray[Any]) -> BoolArray:
    if values.dtype.kind == "f":
        return np.asarray(np.isnan(values))
    if values.dtype.kind in "OU":
        return np.array([is_missing(value) for value in values.tolist()], dtype=np.bool_)
    return np.zeros(len(values), dtype=np.bool_)


def _ordered_classes(classes: ArrayLike | None, occurring: set[Any]) -> list[Any]:
    """Return the classes in the order of their codes, checked to include all values that occur."""
    if classes is None:
        try:
            return sorted(occurring)
        except TypeError:
            kinds = ", ".join(sorted({type(value).__name__ for value in occurring}))
            raise InvalidInput(
                f"answers and truth must be of one kind, got {kinds}; use names or codes for all"
            ) from None
    known = list(np.asarray(classes).tolist())
    if len(set(known)) < len(known):
        twice = next(value for value in known if known.count(value) > 1)
        raise InvalidInput(f"classes must differ, got {twice!r} twice; name each class once")
    unknown = occurring - set(known)
    if unknown:
        raise InvalidInput(f"answers must be among the classes, got {min(unknown, key=str)!r}; add it to the classes")
    return known

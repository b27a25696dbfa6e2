"""Mapping a model's own classes to those that people were asked about, such as ImageNet's 1,000 outputs to 16.

The value of a class is the mean of its members' probabilities (Geirhos et al. 2018; Li et al. 2025), or their sum or
maximum. With the mean, a class of 109 members (dog) has no advantage over a class of few. The answer is the class with
the greatest of these raw values, which do not sum to one; divided by their sum they are the distribution that trials
store.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cosight.arrays import FloatArray, IntArray, distributions
from cosight.errors import InvalidInput
from cosight.measures.answers import NO_ANSWER
from cosight.trials.spaces import LabelSpace, label_space

__all__ = ["How", "LabelMap", "MappedAnswers", "answers_from", "label_map"]

How = Literal["mean", "sum", "max"]
_ROWS = 1024  # rows mapped at a time: 8 MB of 1,000 float64 outputs
_ADVICE = "use a model that has these classes, or train a linear probe on its features (--probe TRAINSET)"


@dataclass(frozen=True, slots=True)
class LabelMap:
    """Which of a model's output columns make up each class of the target space, and how they are combined."""

    source: str  # name of the model's own label space
    target: str
    how: How
    outputs: int
    classes: tuple[str, ...]  # of the target, without abstain
    groups: tuple[tuple[int, ...], ...]  # output columns of each class

    def __post_init__(self) -> None:
        if self.how not in get_args(How):
            raise InvalidInput(f"how must be one of {', '.join(get_args(How))}, got {self.how!r}")
        columns = [column for group in self.groups for column in group]
        in_range = all(0 <= column < self.outputs for column in columns)
        complete = all(self.groups) and len(self.groups) == len(self.classes) > 0
        if not (complete and in_range and len(set(columns)) == len(columns)):
            raise InvalidInput(
                f"a mapping from {self.source} to {self.target} must give every class columns of its own out of "
                f"{self.outputs}, got {self.groups} for {len(self.classes)} classes"
            )

    @property
    def digest(self) -> str:
        """Sha256 of what changes an answer: columns, classes and, where a class has several columns, `how`."""
        how = self.how if max(map(len, self.groups)) > 1 else None
        facts = [self.outputs, self.classes, self.groups, how]
        return hashlib.sha256(json.dumps(facts, separators=(",", ":")).encode()).hexdigest()

    def apply(self, probabilities: ArrayLike) -> FloatArray:
        """Return raw values of the classes, shape (n, classes), from a model's probabilities, shape (n, outputs).

        They are not renormalised: `answers_from` does that. No bit of a row depends on the other rows.
        """
        p = np.asarray(probabilities)
        if p.ndim != 2 or p.shape[1] != self.outputs:
            raise InvalidInput(
                f"probabilities must be (n, {self.outputs}), an output for each class of {self.source}, "
                f"got shape {p.shape}; name the model's own label space"
            )
        raw = np.empty((len(p), len(self.classes)))
        columns, sizes = np.concatenate(self.groups), np.array([len(group) for group in self.groups])
        combine = np.maximum if self.how == "max" else np.add
        for start in range(0, len(p), _ROWS):
            rows = slice(start, start + _ROWS)
            members = distributions(p[rows])[:, columns]
            if sizes.max() > 1:
                # not a matrix product: its last bits depend on the number of rows, and resumed runs must be identical
                members = combine.reduceat(members, np.cumsum(sizes) - sizes, axis=1)
                members = members / sizes if self.how == "mean" else members
            raw[rows] = members
        return raw


def label_map(source: str | LabelSpace, target: str | LabelSpace, *, how: How = "mean") -> LabelMap:
    """Return how outputs over `source` become answers in `target`.

    Class by class where the source has every class of the target (the same space, a part of it, another order); else by
    the target's members; else by titles and aliases.

    Args:
        source: The model's own label space, or its name.
        target: The label space of the answers, or its name.
        how: How the probabilities of several members are combined.

    Returns:
        The mapping.

    Raises:
        InvalidInput: A class of the target cannot be made of classes of the source.
        UnknownName: No label space has this name.

    >>> label_map("imagenet-1k", "model-vs-human-16").groups[1]
    (294, 295, 296, 297)
    """
    outputs, answers = (label_space(space) if isinstance(space, str) else space for space in (source, target))
    column = {name: index for index, name in enumerate(outputs.classes)}
    groups = tuple(tuple(column[name] for name in group) for group in _members_of_classes(outputs, answers))
    return LabelMap(outputs.name, answers.name, how, len(outputs.classes), answers.classes, groups)


def _members_of_classes(source: LabelSpace, target: LabelSpace) -> tuple[tuple[str, ...], ...]:
    """Return the classes of `source` that make up each class of `target`."""
    classes = set(source.classes)
    if classes.issuperset(target.classes):
        return tuple((name,) for name in target.classes)
    if target.members and classes.issuperset(member for group in target.members for member in group):
        return target.members
    words = source.words()
    by_word: dict[str, set[str]] = {}  # class of the target -> classes that share a name, title or alias with it
    for word, name in target.words().items():
        if word in words:
            by_word.setdefault(name, set()).add(words[word])
    lacking = [name for name in target.classes if len(by_word.get(name, ())) != 1]
    if lacking:
        made_of = f" (it is made of classes of {target.members_of})" if target.members else ""
        more = f" and {len(lacking) - 5} more" if len(lacking) > 5 else ""
        raise InvalidInput(
            f"every class of {target.name}{made_of} must be among a model's own classes; "
            f"{source.name} lacks {', '.join(lacking[:5])}{more}: {_ADVICE}"
        )
    return tuple(tuple(by_word[name]) for name in target.classes)


@dataclass(frozen=True, slots=True, eq=False)
class MappedAnswers:
    """Answers and probabilities, as trials store them."""

    response: IntArray  # (n,) index of the class answered; NO_ANSWER where every raw value is 0
    probabilities: NDArray[np.float32]  # (n, classes), each row sums to one; nan where every raw value is 0


def answers_from(raw: ArrayLike) -> MappedAnswers:
    """Return the class with the greatest raw value (the first of equals), and the values divided by their sum.

    The greatest probability is always the response's: where rounding to float32 makes another class equal to it, the
    response's is raised by the smallest float32 step. A row of zeros has no answer: the model gives these classes no
    probability at all.

    Args:
        raw: Values of the classes, shape (n, classes), finite and not negative.

    Returns:
        Responses and probabilities.

    Raises:
        InvalidInput: The shape is wrong, or a value is negative or not finite.

    >>> answers_from([[0.1, 0.3]]).probabilities
    array([[0.25, 0.75]], dtype=float32)
    """
    values: FloatArray = np.asarray(raw, dtype=np.float64)
    if values.ndim != 2 or values.shape[1] == 0:
        raise InvalidInput(f"raw values must be (n, classes), got shape {values.shape}")
    if (bad := ~(np.isfinite(values) & (values >= 0))).any():
        raise InvalidInput(
            f"raw values must be finite and not negative, got {values[bad][0]}; give probabilities, not logits"
        )
    total = values.sum(axis=1)
    known, response = total > 0, values.argmax(axis=1)
    with np.errstate(invalid="ignore"):  # 0 / 0 is nan
        probabilities = (values / total[:, None]).astype(np.float32)
    tied = np.flatnonzero(known & (probabilities.argmax(axis=1) != response))
    probabilities[tied, response[tied]] = np.nextafter(probabilities[tied].max(axis=1, initial=0), np.float32(1))
    return MappedAnswers(np.where(known, response, NO_ANSWER), probabilities)

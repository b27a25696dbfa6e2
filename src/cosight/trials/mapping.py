"""From a model's own classes to those that people were asked about: ImageNet's 1,000 outputs to 16 classes, say.

A class takes the mean of its members' probabilities (Geirhos et al. 2018; Li et al. 2025), or their sum or maximum. By
the mean, the 109 dogs do not win by their number. The answer is the class with the greatest of these raw values, which
do not sum to one; divided by their sum they are the distribution that trials store.
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
_ROWS = 1024  # of 1,000 float64 outputs: 8 MB at a time, however many images there are
_WAY_OUT = "use a model that has these classes, or train a linear probe on its features (--probe TRAINSET)"


@dataclass(frozen=True, slots=True)
class LabelMap:
    """Which of a model's `outputs` columns make each class of the target space, and how they are put together."""

    source: str  # name of the model's own label space
    target: str
    how: How
    outputs: int
    classes: tuple[str, ...]  # of the target, without abstain
    groups: tuple[tuple[int, ...], ...]  # columns of each class

    def __post_init__(self) -> None:
        if self.how not in get_args(How):
            raise InvalidInput(f"how must be one of {', '.join(get_args(How))}, got {self.how!r}")
        columns = [column for group in self.groups for column in group]
        inside = all(0 <= column < self.outputs for column in columns)
        whole = all(self.groups) and len(self.groups) == len(self.classes) > 0
        if not (whole and inside and len(set(columns)) == len(columns)):
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
        """Raw values of the classes, shape (n, classes), from a model's probabilities, shape (n, outputs).

        Not renormalised: `answers_from` does that. A row's values do not depend on the rows beside it, to the last bit.
        """
        p = np.asarray(probabilities)
        if p.ndim != 2 or p.shape[1] != self.outputs:
            raise InvalidInput(
                f"probabilities must be (n, {self.outputs}), an output for each class of {self.source}, "
                f"got shape {p.shape}; name the model's own label space"
            )
        raw = np.empty((len(p), len(self.classes)))
        columns, sizes = np.concatenate(self.groups), np.array([len(group) for group in self.groups])
        for start in range(0, len(p), _ROWS):
            rows = slice(start, start + _ROWS)
            raw[rows] = _reduced(distributions(p[rows])[:, columns], sizes, self.how)
        return raw


def _reduced(picked: FloatArray, sizes: IntArray, how: How) -> FloatArray:
    """Neighbouring columns of `picked` put together, `sizes` of them at a time."""
    if sizes.max() == 1:
        return picked
    starts = np.cumsum(sizes) - sizes
    # not a matrix product: its last bits depend on how many rows there are, and resumed runs must give the same bytes
    values = (np.maximum if how == "max" else np.add).reduceat(picked, starts, axis=1)
    return np.asarray(values / sizes if how == "mean" else values)


def label_map(source: str | LabelSpace, target: str | LabelSpace, *, how: How = "mean") -> LabelMap:
    """How outputs over `source` become answers in `target`.

    Class by class where the source has every class of the target (the same space, a part of it, another order); else by
    the target's members; else by titles and aliases. `how` matters only where a class has several members.

    >>> label_map("imagenet-1k", "model-vs-human-16").groups[1]
    (294, 295, 296, 297)
    """
    given, wanted = (label_space(space) if isinstance(space, str) else space for space in (source, target))
    column = {name: index for index, name in enumerate(given.classes)}
    groups = tuple(tuple(column[name] for name in group) for group in _named_groups(given, wanted))
    return LabelMap(given.name, wanted.name, how, len(given.classes), wanted.classes, groups)


def _named_groups(source: LabelSpace, target: LabelSpace) -> tuple[tuple[str, ...], ...]:
    """Classes of `source` that make up each class of `target`."""
    own = set(source.classes)
    if own.issuperset(target.classes):
        return tuple((name,) for name in target.classes)
    if own.issuperset(member for group in target.members for member in group) and target.members:
        return target.members
    named = _by_words(source, target)
    lacking = [name for name in target.classes if name not in named]
    if lacking:
        made = f" (it is made of classes of {target.members_of})" if target.members else ""
        raise InvalidInput(
            f"every class of {target.name}{made} must be among a model's own classes; "
            f"{source.name} lacks {_shown(lacking)}: {_WAY_OUT}"
        )
    return tuple((named[name],) for name in target.classes)


def _by_words(source: LabelSpace, target: LabelSpace) -> dict[str, str]:
    """Class of `target` -> the one class of `source` that shares a name, title or alias with it."""
    known = source.words()
    met: dict[str, set[str]] = {}
    for word, name in target.words().items():
        if word in known:
            met.setdefault(name, set()).add(known[word])
    return {name: next(iter(classes)) for name, classes in met.items() if len(classes) == 1}


def _shown(names: list[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more


@dataclass(frozen=True, slots=True, eq=False)
class MappedAnswers:
    """What trials store of raw class values."""

    response: IntArray  # (n,) index of the class answered; NO_ANSWER where every raw value is 0
    probabilities: NDArray[np.float32]  # (n, classes), each row sums to one; nan where every raw value is 0


def answers_from(raw: ArrayLike) -> MappedAnswers:
    """The class with the greatest raw value (the first of equals), and the values divided by their sum.

    The greatest probability is always the response's: where rounding to float32 makes another class equal to it, the
    response's is raised by the least step. A row of zeros has no answer: all of the model's belief lies outside the
    classes, to the last bit.

    >>> answers_from([[0.1, 0.3]]).probabilities
    array([[0.25, 0.75]], dtype=float32)
    """
    values = _checked(raw)
    total = values.sum(axis=1)
    known, response = total > 0, values.argmax(axis=1)
    with np.errstate(invalid="ignore"):  # 0 / 0 is nan, as promised
        shares = (values / total[:, None]).astype(np.float32)
    tied = np.flatnonzero(known & (shares.argmax(axis=1) != response))
    shares[tied, response[tied]] = np.nextafter(shares[tied].max(axis=1, initial=0), np.float32(1))
    return MappedAnswers(np.where(known, response, NO_ANSWER), shares)


def _checked(raw: ArrayLike) -> FloatArray:
    values = np.asarray(raw, dtype=np.float64)
    if values.ndim != 2 or values.shape[1] == 0:
        raise InvalidInput(f"raw values must be (n, classes), got shape {values.shape}")
    if not (np.isfinite(values) & (values >= 0)).all():
        bad = values[~(np.isfinite(values) & (values >= 0))][0]
        raise InvalidInput(f"raw values must be finite and not negative, got {bad}; give probabilities, not logits")
    return values

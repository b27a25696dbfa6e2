"""Gold labels: what people, taken together, see in each image, and how sure of it we are.

Everything starts from a table of counts, shape (items, classes): how many people chose each class. An item nobody
answered is kept as a row of zeros, so that rows stay in step with the stimuli; its shares and bounds are nan.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from cosight.arrays import BoolArray, FloatArray, IntArray, answer_counts, finite, same_length
from cosight.errors import InvalidInput

__all__ = [
    "GoldLabels",
    "IntervalMethod",
    "LabelCounts",
    "Majority",
    "gold_distribution",
    "label_counts",
    "majority",
]

IntervalMethod = Literal["wilson", "goodman", "jeffreys"]


@dataclass(frozen=True, slots=True, eq=False)
class LabelCounts:
    """How many people chose each class, and how many gave no answer."""

    counts: IntArray  # (items, classes)
    missing: IntArray  # (items,)


@dataclass(frozen=True, slots=True, eq=False)
class GoldLabels:
    """People's label distribution of each item, with an interval for every share."""

    probabilities: FloatArray  # (items, classes)
    low: FloatArray  # (items, classes)
    high: FloatArray  # (items, classes)
    n: IntArray  # (items,), answers
    entropy: FloatArray  # (items,), nats; 0 when all agree
    confidence: float
    method: IntervalMethod


@dataclass(frozen=True, slots=True, eq=False)
class Majority:
    """The class most people chose, and where that was decided by the tie rule."""

    codes: IntArray  # (items,), -1 without answers
    tied: BoolArray  # (items,)


def label_counts(item: ArrayLike, response: ArrayLike, classes: int, *, items: int | None = None) -> LabelCounts:
    """Count answers in long form: `response[t]` is the class somebody chose for `item[t]`.

    Both are codes from 0; response -1 is no answer, left out of `counts` and counted in `missing`. Without `items`
    the table ends at the highest code in `item`.

    >>> label_counts([0, 0, 1, 1], [1, 1, 0, -1], 2)
    LabelCounts(counts=array([[0, 2], [1, 0]]), missing=array([0, 1]))
    """
    where, chosen = _codes(item, name="item"), _codes(response, name="response")
    same_length(item=where, response=chosen)
    rows = int(where.max(initial=-1)) + 1 if items is None else items
    _within(where, 0, rows, name="item")
    _within(chosen, -1, classes, name="response")
    counts = np.zeros((rows, classes), dtype=np.int64)
    answered = chosen >= 0
    np.add.at(counts, (where[answered], chosen[answered]), 1)
    return LabelCounts(counts, np.bincount(where[~answered], minlength=rows))


def gold_distribution(counts: ArrayLike, *, confidence: float = 0.95, method: IntervalMethod = "wilson") -> GoldLabels:
    """Share of people choosing each class, with an interval per share.

    `wilson`, z the normal quantile of (1 + confidence) / 2, x of n people: (x + z^2/2 -+ z sqrt(x (n - x) / n +
    z^2/4)) / (n + z^2), each class on its own (Wilson 1927). `goodman`: the same with z for 1 - (1 - confidence) /
    classes, so that all classes of an item hold together with at least `confidence` (Goodman 1965). `jeffreys`: equal
    tails of
    Beta(x + 1/2, n - x + 1/2) (Brown, Cai & DasGupta 2001, without their change of the ends at x = 0 and x = n).

    Shares, bounds and entropy are nan for an item without answers.

    >>> gold = gold_distribution([[8, 2], [0, 0]])
    >>> gold.probabilities[0], gold.low[0].round(3), gold.high[0].round(3)
    (array([0.8, 0.2]), array([0.49 , 0.057]), array([0.943, 0.51 ]))
    >>> gold.probabilities[1]
    array([nan, nan])
    """
    table = answer_counts(counts)
    if not 0 < confidence < 1:
        raise InvalidInput(f"confidence must lie between 0 and 1, got {confidence}; 0.95 is usual")
    if method not in get_args(IntervalMethod):
        raise InvalidInput(f"method must be one of {', '.join(get_args(IntervalMethod))}, got {method!r}")
    n = table.sum(axis=1)
    people = np.where(n > 0, n, np.nan)[:, None]  # (items, 1); nan spreads to all that is undefined
    shares = table / people
    low, high = _bounds(table.astype(np.float64), people, confidence, method)
    return GoldLabels(shares, low, high, n, special.entr(shares).sum(axis=1), confidence, method)


def majority(counts: ArrayLike) -> Majority:
    """The class most people chose for each item; of tied classes the lowest code, with `tied` true.

    The code is -1 for an item without answers, which is not a tie.

    >>> majority([[1, 3], [2, 2], [0, 0]])
    Majority(codes=array([ 1,  0, -1]), tied=array([False,  True, False]))
    """
    table = answer_counts(counts)
    top = table.max(axis=1)
    answered = top > 0
    tied = (table == top[:, None]).sum(axis=1) > 1
    return Majority(np.where(answered, table.argmax(axis=1), -1), tied & answered)


def _bounds(
    x: FloatArray, people: FloatArray, confidence: float, method: IntervalMethod
) -> tuple[FloatArray, FloatArray]:
    """The lower and upper bound of every share."""
    tail = (1 - confidence) / 2
    if method == "jeffreys":
        a, b = x + 0.5, people - x + 0.5
        return np.asarray(special.betaincinv(a, b, tail)), np.asarray(special.betainccinv(a, b, tail))
    return _wilson(x, people, tail / x.shape[1] if method == "goodman" else tail)


def _wilson(x: FloatArray, people: FloatArray, tail: float) -> tuple[FloatArray, FloatArray]:
    """Wilson's score interval with probability `tail` outside each end."""
    z = -float(special.ndtri(tail))
    middle = x + z**2 / 2
    half = z * np.sqrt(x * (people - x) / people + z**2 / 4)
    low, high = (middle - half) / (people + z**2), (middle + half) / (people + z**2)
    # The ends are exactly 0 and 1 here; subtraction would leave a rounding error, perhaps a negative share.
    nobody, everybody = (x == 0) & (people > 0), x == people
    return np.where(nobody, 0.0, low), np.where(everybody, 1.0, high)


def _codes(values: ArrayLike, *, name: str) -> IntArray:
    """Whole numbers as a one-dimensional integer array."""
    array = finite(values, name=name, ndim=1)
    if (array != np.floor(array)).any():
        raise InvalidInput(f"{name} must be whole codes, got {array[array != np.floor(array)][0]:g}; code names first")
    return array.astype(np.int64)


def _within(codes: IntArray, low: int, stop: int, *, name: str) -> None:
    bad = (codes < low) | (codes >= stop)
    if bad.any():
        raise InvalidInput(f"{name} codes must run from {low} to {stop - 1}, got {codes[bad][0]}; check the coding")

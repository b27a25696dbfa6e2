"""Gold labels: the distribution of people's answers to each image, with intervals.

Everything starts from a table of counts, shape (items, classes): how many people chose each class. An item nobody
answered stays as a row of zeros, so that rows correspond to stimuli; its probabilities and bounds are nan.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from cosight.arrays import BoolArray, FloatArray, IntArray, answer_counts, finite, same_length
from cosight.errors import InvalidInput
from cosight.measures.arithmetic import check_confidence, share_interval

__all__ = [
    "GoldLabels",
    "IntervalMethod",
    "LabelCounts",
    "Majority",
    "gold_distribution",
    "label_counts",
    "majority",
]

IntervalMethod = Literal["mid-p", "wilson", "goodman", "jeffreys"]


@dataclass(frozen=True, slots=True, eq=False)
class LabelCounts:
    """The numbers of people who chose each class, and who gave no answer."""

    counts: IntArray  # (items, classes)
    missing: IntArray  # (items,)


@dataclass(frozen=True, slots=True, eq=False)
class GoldLabels:
    """People's label distribution of each item, with an interval for every probability."""

    probabilities: FloatArray  # (items, classes)
    low: FloatArray  # (items, classes)
    high: FloatArray  # (items, classes)
    n: IntArray  # (items,), answers
    entropy: FloatArray  # (items,), nats; 0 when all agree
    confidence: float
    method: IntervalMethod


@dataclass(frozen=True, slots=True, eq=False)
class Majority:
    """The class that most people chose, and where a tie was broken."""

    codes: IntArray  # (items,), -1 without answers
    tied: BoolArray  # (items,)


def label_counts(item: ArrayLike, response: ArrayLike, classes: int, *, items: int | None = None) -> LabelCounts:
    """Count answers that are given in long form, one row per answer.

    Args:
        item: Code of the item, from 0.
        response: Code of the class that somebody chose for it; -1 is no answer, counted in `missing`.
        classes: The number of classes.
        items: The number of items (default: up to the highest code in `item`).

    Returns:
        The counts per item.

    Raises:
        InvalidInput: If a code is not a whole number or outside its range.

    >>> label_counts([0, 0, 1, 1], [1, 1, 0, -1], 2)
    LabelCounts(counts=array([[0, 2], [1, 0]]), missing=array([0, 1]))
    """
    item_codes, chosen_codes = finite(item, name="item", ndim=1), finite(response, name="response", ndim=1)
    same_length(item=item_codes, response=chosen_codes)
    rows = int(item_codes.max(initial=-1)) + 1 if items is None else items
    for name, codes, low, stop in (("item", item_codes, 0, rows), ("response", chosen_codes, -1, classes)):
        if (bad := codes != np.floor(codes)).any():
            raise InvalidInput(f"{name} must be whole codes, got {codes[bad][0]:g}; code names first")
        if (bad := (codes < low) | (codes >= stop)).any():
            raise InvalidInput(
                f"{name} codes must run from {low} to {stop - 1}, got {codes[bad][0]:.0f}; check the coding"
            )
    where, chosen = item_codes.astype(np.int64), chosen_codes.astype(np.int64)
    counts = np.zeros((rows, classes), dtype=np.int64)
    answered = chosen >= 0
    np.add.at(counts, (where[answered], chosen[answered]), 1)
    return LabelCounts(counts, np.bincount(where[~answered], minlength=rows))


def gold_distribution(counts: ArrayLike, *, confidence: float = 0.95, method: IntervalMethod = "mid-p") -> GoldLabels:
    """Compute the fraction of people who chose each class, with an interval per class.

    `mid-p`: `share_interval` for each class separately; its coverage of the population's share is about `confidence`,
    also near 0 and 1.
    `wilson`, z the normal quantile of (1 + confidence) / 2, x of n people: (x + z^2/2 -+ z sqrt(x (n - x) / n +
    z^2/4)) / (n + z^2), for each class separately (Wilson 1927). `goodman`: the same with z for 1 - (1 - confidence) /
    classes, so that the intervals of all classes of an item have a joint coverage of at least `confidence`
    (Goodman 1965). `jeffreys`: equal tails of Beta(x + 1/2, n - x + 1/2) (Brown, Cai & DasGupta 2001, without their
    change of the ends at x = 0 and x = n).

    Args:
        counts: The number of people who chose each class, (items, classes).
        confidence: Confidence of the intervals.
        method: "mid-p", "wilson", "goodman" or "jeffreys".

    Returns:
        Probabilities, bounds and entropy, nan for an item without answers.

    Raises:
        InvalidInput: If a count is not a whole number, or the confidence or the method is unknown.

    >>> gold = gold_distribution([[8, 2], [0, 0]])
    >>> gold.probabilities[0], gold.low[0].round(3), gold.high[0].round(3)
    (array([0.8, 0.2]), array([0.48 , 0.035]), array([0.965, 0.52 ]))
    >>> gold.probabilities[1]
    array([nan, nan])
    """
    table = answer_counts(counts)
    check_confidence(confidence)
    if method not in get_args(IntervalMethod):
        raise InvalidInput(f"method must be one of {', '.join(get_args(IntervalMethod))}, got {method!r}")
    n = table.sum(axis=1)
    people = np.where(n > 0, n, np.nan)[:, None]  # (items, 1); nan propagates to everything undefined
    x, probabilities, tail = table.astype(np.float64), table / people, (1 - confidence) / 2
    if method == "mid-p":
        low, high = share_interval(x, np.broadcast_to(people, x.shape), confidence)
    elif method == "jeffreys":
        a, b = x + 0.5, people - x + 0.5
        low = np.asarray(special.betaincinv(a, b, tail), dtype=np.float64)
        high = np.asarray(special.betainccinv(a, b, tail), dtype=np.float64)
    else:
        z = -float(special.ndtri(tail / x.shape[1] if method == "goodman" else tail))
        middle, half = x + z**2 / 2, z * np.sqrt(x * (people - x) / people + z**2 / 4)
        # The ends are exactly 0 and 1 where nobody or everybody chose the class; subtraction would leave an error.
        low = np.where((x == 0) & (people > 0), 0.0, (middle - half) / (people + z**2))
        high = np.where(x == people, 1.0, (middle + half) / (people + z**2))
    return GoldLabels(probabilities, low, high, n, special.entr(probabilities).sum(axis=1), confidence, method)


def majority(counts: ArrayLike) -> Majority:
    """Find the class that most people chose for each item.

    Args:
        counts: The number of people who chose each class, (items, classes).

    Returns:
        The lowest code of tied classes, with `tied` true. An item without answers has code -1 and is no tie.

    Raises:
        InvalidInput: If a count is negative or not a whole number.

    >>> majority([[1, 3], [2, 2], [0, 0]])
    Majority(codes=array([ 1,  0, -1]), tied=array([False,  True, False]))
    """
    table = answer_counts(counts)
    top = table.max(axis=1)
    answered = top > 0
    tied = (table == top[:, None]).sum(axis=1) > 1
    return Majority(np.where(answered, table.argmax(axis=1), -1), tied & answered)

"""Do people agree with each other, and with themselves? Fleiss' kappa, Krippendorff's and Cronbach's alpha.

Every coefficient of a table also comes as `..._resampled`, for many weight vectors at once, shape (resamples, items):
how often each item (Cronbach: person) was drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cosight.arrays import BoolArray, FloatArray, IntArray, answer_counts, draw_weights, finite, labels, same_length
from cosight.errors import InvalidInput
from cosight.measures.answers import is_missing
from cosight.measures.arithmetic import divide
from cosight.measures.declarations import declare
from cosight.measures.gold_distributions import label_counts

__all__ = [
    "CronbachAlpha",
    "FleissKappa",
    "IntraKappa",
    "KrippendorffAlpha",
    "Level",
    "cronbach_alpha",
    "cronbach_alpha_from_variances",
    "cronbach_alpha_resampled",
    "fleiss_kappa",
    "fleiss_kappa_resampled",
    "intra_annotator_kappa",
    "krippendorff_alpha",
    "krippendorff_alpha_resampled",
]

Level = Literal["nominal", "ordinal", "interval", "ratio"]

_ROUNDING = 1e-12  # relative; sums of several thousand float64 scores are off by less
_FLEISS = "Fleiss 1971, Psychological Bulletin 76; unequal numbers: Fleiss & Cuzick 1979, Applied Psych. Measurement 3"


@dataclass(frozen=True, slots=True, eq=False)
class FleissKappa:
    """Agreement of several people beyond chance, and what it is made of."""

    value: float
    observed: float  # chance that two people agree about an item
    expected: float  # chance that two answers to any items agree
    items: FloatArray  # (items,), agreement about each; nan with fewer than two answers
    n: int  # items with two answers or more
    left_out: int  # the other items


@dataclass(frozen=True, slots=True, eq=False)
class IntraKappa:
    """Agreement of people with their own earlier answers."""

    value: float
    observed: float
    expected: float
    items: FloatArray  # (n,), agreement within each repeated pair of person and image
    rater: NDArray[Any]  # (n,), whose pair it is
    item: NDArray[Any]  # (n,), about which image
    n: int  # pairs answered twice or more
    left_out: int  # pairs answered once


@dataclass(frozen=True, slots=True, eq=False)
class KrippendorffAlpha:
    """One minus observed over expected disagreement."""

    value: float
    observed: float  # mean squared difference of two answers to one item
    expected: float  # the same of two answers to any items
    items: FloatArray  # (items,), observed disagreement about each; nan with fewer than two answers
    n: int  # items with two answers or more
    left_out: int  # the other items


@dataclass(frozen=True, slots=True, eq=False)
class CronbachAlpha:
    """Internal consistency of a form: whether its items measure one thing."""

    value: float
    item_variance_sum: float
    total_variance: float
    items: FloatArray | None = None  # (items,), variance of each; None where only the sums are known
    n: int | None = None  # people


@declare(
    "fleiss_kappa",
    summary="Agreement of several people on the class of an item, beyond chance.",
    low=-1.0,
    high=1.0,
    direction="higher",
    symmetric=None,
    needs=("counts",),
    citation=_FLEISS,
    aliases=("fleiss", "inter_annotator_kappa"),
)
def fleiss_kappa(counts: ArrayLike) -> FleissKappa:
    """Compute Fleiss' kappa of the numbers of people who chose each class.

    kappa = (observed - expected) / (1 - expected). Item i with n_i >= 2 answers has agreement
    P_i = sum_c n_ic (n_ic - 1) / (n_i (n_i - 1)); observed = sum_i (n_i - 1) P_i / sum_i (n_i - 1);
    expected = sum_c p_c^2 with p_c the fraction of class c among all answers to these items.

    The weights n_i - 1 are those of Fleiss & Cuzick (1979) for two classes, and of Fleiss, Levin & Paik (2003, ch. 18)
    for more. With equally many people per item they cancel, and this is Fleiss (1971). (Gwet's variant, which gives all
    items the same weight in both terms, differs when n_i varies.) Items with fewer than two answers are left out.

    Args:
        counts: The number of people who chose each class, (items, classes).

    Returns:
        Kappa, its parts and the agreement about each item. `value` is nan when only one class was ever chosen;
        value, observed and expected are nan when no item has two answers.

    Raises:
        InvalidInput: If a count is negative or not a whole number.

    >>> kappa = fleiss_kappa([[2, 0], [0, 2], [1, 1]])
    >>> round(kappa.value, 3), kappa.items
    (0.333, array([1., 1., 0.]))
    """
    table = answer_counts(counts)
    value, observed, expected = (float(x[0]) for x in _fleiss_from(np.ones((1, len(table))), table))
    n = int((table.sum(axis=1) >= 2).sum())
    return FleissKappa(value, observed, expected, _item_agreement(table), n, len(table) - n)


def fleiss_kappa_resampled(counts: ArrayLike, weights: ArrayLike) -> FloatArray:
    """Compute Fleiss' kappa for each resample of the items.

    Args:
        counts: The number of people who chose each class, (items, classes).
        weights: How often each item was drawn, (resamples, items).

    Returns:
        The values, (resamples,), nan as in `fleiss_kappa`.

    Raises:
        InvalidInput: If a count is negative or not a whole number, or the weights do not fit the items.

    >>> fleiss_kappa_resampled([[2, 0], [0, 2], [1, 1]], [[1, 1, 1], [1, 1, 0], [2, 0, 0]]).round(3)
    array([0.333, 1.   , nan])
    """
    table = answer_counts(counts)
    return _fleiss_from(draw_weights(weights, len(table), of="item"), table)[0]


@declare(
    "intra_annotator_kappa",
    summary="Agreement of people with their own answers to repeated images, beyond chance.",
    low=-1.0,
    high=1.0,
    direction="higher",
    symmetric=None,
    needs=("raters", "items", "responses"),
    citation="Lee et al. 2023 (VisAlign), section 3.3, with " + _FLEISS,
    aliases=("intra_kappa",),
)
def intra_annotator_kappa(rater: ArrayLike, item: ArrayLike, response: ArrayLike) -> IntraKappa:
    """Compute Fleiss' kappa of people's repeated answers to the same images.

    Each pair of person and image answered twice or more is one item, its answers are the ratings; chance comes from
    the classes chosen in all such pairs. None, nan, "", "na" and negative codes are no answer and are dropped first.

    Args:
        rater: Who answered, one per trial.
        item: The image, one per trial.
        response: The answer, one per trial.

    Returns:
        Kappa, its parts and the agreement within each pair. `value` is nan when those pairs have one class only;
        value, observed and expected are nan when nobody answered an image twice.

    Raises:
        InvalidInput: If a trial has no rater or no item, or the lengths differ.

    >>> kappa = intra_annotator_kappa(["s1"] * 4, ["a", "a", "b", "b"], ["cat", "cat", "dog", "cat"])
    >>> round(kappa.value, 3), kappa.items, kappa.item
    (-0.333, array([1., 0.]), array(['a', 'b'], dtype=object))
    """
    people, raters = _first_seen_codes(rater, name="rater")
    images, items = _first_seen_codes(item, name="item")
    answers, classes = _first_seen_codes(response, name="response")
    same_length(rater=people, item=images, response=answers)
    if (people < 0).any() or (images < 0).any():
        raise InvalidInput("every answer needs a rater and an item, got one without; leave such trials out first")
    answered = answers >= 0
    pair, index = np.unique((people * len(items) + images)[answered], return_inverse=True)
    counts = label_counts(index, answers[answered], max(len(classes), 1)).counts
    repeated = counts.sum(axis=1) >= 2
    kappa, pair = fleiss_kappa(counts[repeated]), pair[repeated]
    return IntraKappa(
        kappa.value,
        kappa.observed,
        kappa.expected,
        kappa.items,
        rater=raters[pair // len(items)],
        item=items[pair % len(items)],
        n=kappa.n,
        left_out=int((~repeated).sum()),
    )


@declare(
    "krippendorff_alpha",
    summary="Agreement of several people on nominal, ordinal, interval or ratio values, beyond chance.",
    low=-1.0,
    high=1.0,
    direction="higher",
    symmetric=None,
    needs=("ratings",),
    citation="Krippendorff 2011, Computing Krippendorff's Alpha-Reliability, Univ. of Pennsylvania",
    aliases=("krippendorff",),
)
def krippendorff_alpha(ratings: ArrayLike, *, level: Level = "nominal") -> KrippendorffAlpha:
    """Compute Krippendorff's alpha of several people's ratings of the same items.

    alpha = 1 - observed / expected. With m_i >= 2 answers to item i and n answers to such items together,
    observed = sum_i m_i D_i / n, D_i the mean squared difference d^2 of two different answers to the item, and
    expected the same mean over any two of the n answers: the coincidence matrix, summed cell by cell. d^2 of a and b is
    nominal: 1 unless equal; interval: (a - b)^2; ratio: ((a - b) / (a + b))^2, values not negative;
    ordinal: (r_a - r_b)^2, r the mean rank of a value among the n answers. Source: Krippendorff (2011).

    Args:
        ratings: Numbers or codes, (raters, items), nan where a rater gave none.
        level: The level of measurement, which decides how values differ.

    Returns:
        Alpha, its parts and the disagreement about each item. `value` is nan when only one value occurs among these
        answers; value, observed and expected are nan when no item has two answers.

    Raises:
        InvalidInput: If the level is unknown, a rating is infinite, or a ratio rating is negative.

    >>> round(krippendorff_alpha([[0, 1, 1, 0], [0, 1, 0, 0]]).value, 3)
    0.533
    """
    counts, values = _value_counts(ratings, level)
    people = counts.sum(axis=1)
    value, observed, expected, items = _krippendorff_from(np.ones((1, len(counts))), counts, values, level)
    paired = people >= 2
    n = int(paired.sum())
    per_item = np.where(paired, items[0], np.nan)
    return KrippendorffAlpha(float(value[0]), float(observed[0]), float(expected[0]), per_item, n, len(counts) - n)


def krippendorff_alpha_resampled(ratings: ArrayLike, weights: ArrayLike, *, level: Level = "nominal") -> FloatArray:
    """Compute Krippendorff's alpha for each resample of the items.

    The ranks of ordinal values are computed for each resample.

    Args:
        ratings: Numbers or codes, (raters, items), nan where a rater gave none.
        weights: How often each item was drawn, (resamples, items).
        level: The level of measurement, which decides how values differ.

    Returns:
        The values, (resamples,), nan as in `krippendorff_alpha`.

    Raises:
        InvalidInput: As `krippendorff_alpha`, and if the weights do not fit the items.

    >>> krippendorff_alpha_resampled([[0, 1, 1, 0], [0, 1, 0, 0]], [[1, 1, 1, 1], [1, 1, 0, 2]]).round(3)
    array([0.533, 1.   ])
    """
    counts, values = _value_counts(ratings, level)
    return _krippendorff_from(draw_weights(weights, len(counts), of="item"), counts, values, level)[0]


@declare(
    "cronbach_alpha",
    summary="Do the items of a form measure one thing? Internal consistency of complete forms.",
    low=-math.inf,
    high=1.0,
    direction="higher",
    symmetric=None,
    needs=("scores",),
    citation="Cronbach 1951, Psychometrika 16; Lee et al. 2023 (VisAlign), appendix D.1",
    aliases=("cronbach",),
)
def cronbach_alpha(scores: ArrayLike) -> CronbachAlpha:
    """Compute Cronbach's alpha of complete forms.

    alpha = N / (N - 1) (1 - sum_i Var(x_i) / Var(sum_i x_i)), N items, variances over n people with n - 1.
    Source: Cronbach (1951).

    Args:
        scores: Everybody's score for every item, (people, items).

    Returns:
        Alpha and its variances. `value` is nan with fewer than two items or two people, and when everybody has the
        same total.

    Raises:
        InvalidInput: If a score is missing or infinite.

    >>> round(cronbach_alpha([[1, 1], [0, 0], [1, 0]]).value, 3)
    0.667
    """
    table = _check_complete(scores)
    people = len(table)
    variances = table.var(axis=0, ddof=1) if people > 1 else np.full(table.shape[1], np.nan)
    total = float(table.sum(axis=1).var(ddof=1)) if people > 1 else math.nan
    value = float(_cronbach_from(np.ones((1, people)), table)[0])
    return CronbachAlpha(value, float(variances.sum()), total, variances, people)


def cronbach_alpha_resampled(scores: ArrayLike, weights: ArrayLike) -> FloatArray:
    """Compute Cronbach's alpha for each resample of the people.

    Args:
        scores: Everybody's score for every item, (people, items).
        weights: How often each person was drawn, (resamples, people).

    Returns:
        The values, (resamples,), nan as in `cronbach_alpha`.

    Raises:
        InvalidInput: If a score is missing or infinite, or the weights do not fit the people.

    >>> cronbach_alpha_resampled([[1, 1], [0, 0], [1, 0]], [[1, 1, 1], [2, 1, 0], [3, 0, 0]]).round(3)
    array([0.667, 1.   , nan])
    """
    table = _check_complete(scores)
    return _cronbach_from(draw_weights(weights, len(table), of="person"), table)


def cronbach_alpha_from_variances(items: int, item_variance_sum: float, total_variance: float) -> CronbachAlpha:
    """Compute Cronbach's alpha from published variances; the example has those of Lee et al. (2023, D.1).

    Args:
        items: The number of items.
        item_variance_sum: The sum of the items' variances.
        total_variance: The variance of people's totals.

    Returns:
        Alpha; nan with fewer than two items or no variance of the totals.

    Raises:
        InvalidInput: If a variance is negative.

    >>> round(cronbach_alpha_from_variances(100, 127.134, 976.564).value, 2)
    0.88
    """
    if not (item_variance_sum >= 0 and total_variance >= 0):
        raise InvalidInput(f"variances must not be negative, got {item_variance_sum} and {total_variance}")
    defined = items >= 2 and total_variance > 0
    value = items / (items - 1) * (1 - item_variance_sum / total_variance) if defined else math.nan
    return CronbachAlpha(value, item_variance_sum, total_variance)


def _item_agreement(counts: IntArray) -> FloatArray:
    """Return the fraction of pairs of people who agree about each item; nan with fewer than two people."""
    people = counts.sum(axis=1)
    pairs = np.where(people >= 2, people * (people - 1), np.nan)
    return np.asarray((counts * (counts - 1)).sum(axis=1) / pairs)


def _fleiss_from(weights: FloatArray, counts: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return kappa, observed and expected agreement for every weight vector (resamples, items)."""
    people = counts.sum(axis=1)
    kept = people >= 2  # one answer says nothing about agreement
    draws, table = weights[:, kept], counts[kept].astype(np.float64)
    others = people[kept] - 1.0
    observed = _ratio(draws @ (others * _item_agreement(counts)[kept]), draws @ others)
    totals = draws @ table  # (resamples, classes)
    expected = _ratio((totals**2).sum(axis=1), totals.sum(axis=1) ** 2)
    return _ratio(observed - expected, 1 - expected, where=_varied(totals)), observed, expected


def _value_counts(ratings: ArrayLike, level: Level) -> tuple[FloatArray, FloatArray]:
    """Return how often each value was given to each item (items, values), and the values in order."""
    if level not in get_args(Level):
        raise InvalidInput(f"level must be one of {', '.join(get_args(Level))}, got {level!r}")
    table = np.asarray(ratings, dtype=np.float64)
    if table.ndim != 2:
        raise InvalidInput(f"ratings must be (raters, items), got shape {table.shape}")
    rated = ~np.isnan(table)
    finite(table[rated], name="ratings", ndim=1)
    values, codes = np.unique(table[rated], return_inverse=True)
    if level == "ratio" and (values < 0).any():
        raise InvalidInput(f"ratio ratings must not be negative, got {values[0]:g}; level='interval' has no zero point")
    counts = np.zeros((table.shape[1], len(values)))
    np.add.at(counts, (np.nonzero(rated)[1], codes), 1)
    return counts, values


def _krippendorff_from(
    weights: FloatArray, counts: FloatArray, values: FloatArray, level: Level
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return alpha, observed and expected disagreement for every weight vector, and each item's disagreement."""
    people = counts.sum(axis=1)
    paired = np.where(people >= 2, people, 0)  # a single answer says nothing about agreement
    totals = (weights * (paired > 0)) @ counts  # (resamples, values)
    if level in ("nominal", "ratio"):
        if level == "nominal":
            difference = 1 - np.eye(len(values))
        else:
            sums = values[:, None] + values  # no value is negative, so a sum of 0 means that both are 0
            difference = np.divide(values[:, None] - values, sums, out=np.zeros_like(sums), where=sums > 0) ** 2
        items, expected = _mean_difference(counts, difference)[None], _mean_difference(totals, difference)
    else:
        mean_ranks = np.asarray(totals.cumsum(axis=1) - totals / 2)  # up to a constant
        position = mean_ranks if level == "ordinal" else (values - values[:1])[None]
        items = _mean_square(people, position @ counts.T, position**2 @ counts.T)  # (1 or resamples, items)
        sums_of = (position * totals).sum(axis=1), (position**2 * totals).sum(axis=1)
        expected = _mean_square(totals.sum(axis=1), *sums_of)
    observed = _ratio((weights * paired * items).sum(axis=1), weights @ paired)
    expected = np.where(np.isnan(observed), np.nan, expected)
    return 1 - _ratio(observed, expected, where=_varied(totals)), observed, expected, items


def _mean_difference(counts: FloatArray, difference: FloatArray) -> FloatArray:
    """Return the mean of `difference` over pairs of answers, for every row of counts; 0 without a pair."""
    n = counts.sum(axis=1)
    return _ratio(((counts @ difference) * counts).sum(axis=1), n * (n - 1), otherwise=0.0)


def _mean_square(n: FloatArray, first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the mean squared difference of n numbers from their sum and sum of squares; 0 without a pair."""
    return _ratio(2 * (n * second - first**2), n * (n - 1), otherwise=0.0)


def _ratio(
    top: FloatArray, bottom: FloatArray, *, where: BoolArray | None = None, otherwise: float = np.nan
) -> FloatArray:
    """Return the quotient, and `otherwise` where the divisor is not positive or `where` is false."""
    shape = np.broadcast_shapes(top.shape, bottom.shape)
    defined = (bottom > 0) if where is None else (bottom > 0) & where
    return np.asarray(np.divide(top, bottom, out=np.full(shape, otherwise), where=defined))


def _varied(totals: FloatArray) -> BoolArray:
    """Return, row by row, whether at least two classes or values occur."""
    return np.asarray((totals > 0).sum(axis=1) >= 2)


def _first_seen_codes(values: ArrayLike, *, name: str) -> tuple[IntArray, NDArray[Any]]:
    """Return codes in order of first appearance, -1 for no answer, and the names they stand for."""
    known: dict[Any, int] = {}
    codes = []
    for value in labels(values, name=name).tolist():
        absent = is_missing(value) or (isinstance(value, (int, float)) and value < 0)
        codes.append(-1 if absent else known.setdefault(value, len(known)))
    names = np.empty(len(known), dtype=object)
    names[:] = list(known)
    return np.array(codes, dtype=np.int64), names


def _cronbach_from(weights: FloatArray, scores: FloatArray) -> FloatArray:
    """Return Cronbach's alpha for every weight vector (resamples, people)."""
    items, n = scores.shape[1], weights.sum(axis=1)
    centred = scores - scores.mean(axis=0) if len(scores) else scores  # keeps the differences of squares accurate
    totals = centred.sum(axis=1)
    within = (weights @ centred**2).sum(axis=1) - divide(((weights @ centred) ** 2).sum(axis=1), n)
    overall = weights @ totals**2 - divide((weights @ totals) ** 2, n)
    # Equal totals leave some variance from rounding: of the difference here, and of the sums before it.
    rounding = _ROUNDING * (weights @ totals**2) + n * (_ROUNDING * np.abs(scores).sum(axis=1).max(initial=0.0)) ** 2
    ratio = divide(within, np.where((overall > rounding) & (items > 1), overall, 0.0))
    return np.asarray(items / max(items - 1, 1) * (1 - ratio))


def _check_complete(scores: ArrayLike) -> FloatArray:
    table = np.asarray(scores, dtype=np.float64)
    if np.isnan(table).any():
        raise InvalidInput(
            f"alpha needs complete forms, got {np.isnan(table).sum()} missing scores; keep the people who answered "
            "every item, or use krippendorff_alpha"
        )
    return finite(table, name="scores", ndim=2)

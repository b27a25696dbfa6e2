"""How do two observers err on the same images? Misclassification agreement: Cohen's kappa of their wrong answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from cosight.arrays import FloatArray
from cosight.measures.answers import Answers, encode
from cosight.measures.arithmetic import (
    BLOCK,
    Pairs,
    Weights,
    blocks,
    divide,
    kappa_of_counts,
    mean_or_nan,
    scarce_limit,
    summed,
)
from cosight.measures.declarations import PairForm, declare, pair_forms
from cosight.measures.pooled_pairs import pooled_misclassification_agreement

__all__ = [
    "MisclassificationAgreement",
    "ResponseAgreement",
    "misclassification_agreement",
    "misclassification_agreement_matrix",
    "misclassification_agreement_resampled",
    "response_agreement",
]

_MANY_PARTNERS = 20  # of each observer, on average; with fewer, pairs are counted one by one


@dataclass(frozen=True, slots=True)
class MisclassificationAgreement:
    """Agreement on the answers given to jointly misclassified trials."""

    value: float
    observed: float
    expected: float
    n: int  # jointly wrong trials


@declare(
    "misclassification_agreement",
    summary="Cohen's kappa of the answers on trials both get wrong: do two observers err in the same way?",
    low=-1,
    high=1,
    direction="higher",
    symmetric=True,
    needs=("responses", "truth"),
    citation="Xu et al. 2024, AAAI-25",
    aliases=("ma",),
)
def misclassification_agreement(
    a: ArrayLike, b: ArrayLike, truth: ArrayLike, *, classes: ArrayLike | None = None
) -> MisclassificationAgreement:
    """Compute multiclass Cohen's kappa over the trials on which yA != t and yB != t (Xu et al. 2024).

    Args:
        a: The first observer's answers; None, nan, "" and "na" are no answer, and such trials are left out.
        b: The second observer's answers, in the same order.
        truth: The true class, one per trial.
        classes: The classes (default: every value that occurs).

    Returns:
        The agreement and its parts. `value` is nan without joint errors, or when both answer the same single class on
        all of them (p_e = 1).

    Raises:
        InvalidInput: If a truth is missing, an answer is not among `classes`, or the lengths differ.

    >>> misclassification_agreement([1, 2, 0, 1], [1, 2, 1, 0], [0, 0, 2, 2]).value
    0.2
    """
    answers = encode(a, b, truth=truth, classes=classes, names=("a", "b"))
    joint = answers.wrong.all(axis=0)
    n = int(joint.sum())
    if n == 0:
        return MisclassificationAgreement(float("nan"), float("nan"), float("nan"), 0)
    ya, yb = answers.response[:, joint]
    counts_a, counts_b = (np.bincount(y, minlength=answers.classes) for y in (ya, yb))
    agree, chance = int((ya == yb).sum()), int(counts_a @ counts_b)
    kappa = float(kappa_of_counts(*(np.asarray(x, dtype=np.float64) for x in (n, agree, chance))))
    return MisclassificationAgreement(kappa, agree / n, chance / n**2, n)


@dataclass(frozen=True, slots=True)
class ResponseAgreement:
    """The fraction of stimuli to which two observers give the same answer."""

    value: float
    items: FloatArray  # 1 or 0 per stimulus that both answered
    n: int


@declare(
    "response_agreement",
    summary="The share of stimuli to which two observers give the same answer, right or wrong.",
    low=0,
    high=1,
    direction="higher",
    symmetric=True,
    needs=("responses",),
    citation="Cohen 1960, where it is the observed agreement",
    aliases=("agreement",),
    share=True,
)
def response_agreement(a: ArrayLike, b: ArrayLike) -> ResponseAgreement:
    """Compute the fraction of stimuli to which two observers give the same answer.

    Stimuli that one of them did not answer are left out.

    Args:
        a: The first observer's answers, one per stimulus.
        b: The second observer's, in the same order.

    Returns:
        The fraction and its items; nan when no stimulus is left.

    Raises:
        InvalidInput: If the lengths differ.

    >>> response_agreement(["cat", "dog", None], ["cat", "cat", "cat"]).value
    0.5
    """
    answers = encode(a, b, truth=None, names=("a", "b"))
    both = (answers.response >= 0).all(axis=0)
    same = (answers.response[0] == answers.response[1])[both].astype(np.float64)
    return ResponseAgreement(mean_or_nan(same), same, len(same))


def misclassification_agreement_matrix(answers: Answers) -> FloatArray:
    """Compute the misclassification agreement of all pairs of observers.

    Args:
        answers: The answers of all observers; a pair uses the trials that both answered wrongly.

    Returns:
        A matrix (observers, observers), nan as in `misclassification_agreement`.

    >>> answers = encode([1, 2, 0, 1], [1, 2, 1, 0], truth=[0, 0, 2, 2])
    >>> misclassification_agreement_matrix(answers)
    array([[1. , 0.2],
           [0.2, 1. ]])
    """
    counts = _count_joint_errors(answers)
    chance = np.einsum("ikj,jki->ij", counts, counts)  # sum over classes of (A answers k) x (B answers k)
    return kappa_of_counts(counts.sum(axis=1), _count_equal_errors(answers), chance)


def _count_joint_errors(answers: Answers) -> FloatArray:
    """Count how often i answers k where i and j are both wrong, (i, k, j).

    The indicator of each wrong answer, a sparse (i x k, stimuli) matrix, times the indicator of being wrong. The
    product runs in bytes, several times faster than in floats: rows are cut into pieces of 255 ones, so that no
    count overflows, and the pieces' counts are added up afterwards.
    """
    m, k, n = answers.observers, answers.classes, answers.stimuli
    wrong = answers.wrong
    none = np.zeros(0, dtype=np.int32)
    stimuli = [np.flatnonzero(row).astype(np.int32) for row in wrong]  # row by row, which fits the cache
    cells = [i * k + answers.response[i, at].astype(np.int32) for i, at in enumerate(stimuli)]
    cell, stimulus = np.concatenate([none, *cells]), np.concatenate([none, *stimuli])
    indicator = csr_array((np.ones(len(cell), dtype=np.uint8), (cell, stimulus)), shape=(m * k, n))
    pieces = -(-np.diff(indicator.indptr) // 255)
    first = np.cumsum(pieces) - pieces
    owner = np.repeat(np.arange(m * k), pieces)
    start = indicator.indptr[owner] + 255 * (np.arange(len(owner)) - first[owner])
    cut = csr_array((indicator.data, indicator.indices, np.append(start, len(cell))), shape=(len(owner), n))
    counts = np.zeros((m * k, m))
    used = np.flatnonzero(pieces)
    if len(used):
        wrong_bytes = np.ascontiguousarray(wrong.T).view(np.uint8)
        counts[used] = np.add.reduceat(cut @ wrong_bytes, first[used], axis=0, dtype=np.int64)
    return counts.reshape(m, k, m)


def _count_equal_errors(answers: Answers) -> FloatArray:
    """Count how often i and j give the same wrong answer, (i, j).

    Sixty-four trials are compared at once: each bit of the code is a row of bits, and two answers differ where any of
    these do, or where not both are wrong.
    """
    wrong = answers.wrong
    dtype = np.uint8 if answers.classes <= 256 else np.uint16
    codes: NDArray[Any] = np.where(wrong, answers.response, 0).astype(dtype)
    planes = [_pack_bits(codes & (1 << bit)) for bit in range((answers.classes - 1).bit_length())]
    errors = _pack_bits(wrong)
    out = np.empty((len(errors), len(errors)))
    for i in range(len(errors)):
        differ = ~(errors[i] & errors[i:])
        for plane in planes:
            differ |= plane[i] ^ plane[i:]
        out[i, i:] = out[i:, i] = 64 * errors.shape[1] - np.bitwise_count(differ).sum(axis=1, dtype=np.int64)
    return out


def _pack_bits(values: NDArray[Any]) -> NDArray[np.uint64]:
    """Return rows of zero and not zero as bits, padded with zeros to 64-bit words."""
    bits = np.packbits(values, axis=1)
    padded = np.pad(bits, ((0, 0), (0, -bits.shape[1] % 8)))
    return np.ascontiguousarray(padded).view(np.uint64)  # selected stimuli may lie column by column


def misclassification_agreement_resampled(answers: Answers, weights: Weights, pairs: Pairs) -> FloatArray:
    """Compute the misclassification agreement for each pair and resample.

    Args:
        answers: The answers of all observers.
        weights: How often each stimulus was drawn, (resamples, stimuli).
        pairs: Indices of the observers of each pair, (pairs, 2).

    Returns:
        The values, (pairs, resamples), nan as in `misclassification_agreement`.

    >>> answers = encode([1, 2, 0, 1], [1, 2, 1, 0], truth=[0, 0, 2, 2])
    >>> weights = np.array([[1, 1, 1, 1], [2, 2, 0, 0]], dtype=np.float32)
    >>> misclassification_agreement_resampled(answers, weights, np.array([[0, 1]]))
    array([[0.2, 1. ]])
    """
    columns = np.ascontiguousarray(weights.T)
    if 2 * len(pairs) >= _MANY_PARTNERS * len(np.unique(pairs)):
        return kappa_of_counts(*_count_by_observer(answers, columns, pairs))
    out = np.empty((len(pairs), len(weights)))
    for part in blocks(len(pairs), answers.classes * len(weights), most=BLOCK):
        out[part] = kappa_of_counts(*_count_by_pair(answers, columns, pairs[part]))
    return out


def _count_by_pair(answers: Answers, columns: NDArray[np.float32], pairs: Pairs) -> tuple[FloatArray, ...]:
    """Sum the weights (stimuli, resamples) of joint and of equal errors, and the products of the answers' sums."""
    classes, wrong, (i, j) = answers.classes, answers.wrong, pairs.T
    pair, stimulus = np.nonzero(wrong[i] & wrong[j])
    ya = answers.response[i[pair], stimulus].astype(np.int64)
    yb = answers.response[j[pair], stimulus].astype(np.int64)
    shape = (len(i), classes, columns.shape[1])
    counts_a = summed(pair * classes + ya, stimulus, columns, len(i) * classes).reshape(shape)
    counts_b = summed(pair * classes + yb, stimulus, columns, len(i) * classes).reshape(shape)
    agree = summed(pair[ya == yb], stimulus[ya == yb], columns, len(i))
    return counts_a.sum(axis=1), agree, np.einsum("pkr,pkr->pr", counts_a, counts_b)


def _count_by_observer(answers: Answers, columns: NDArray[np.float32], pairs: Pairs) -> tuple[FloatArray, ...]:
    """Compute the counts of `_count_by_pair`, many times faster where every observer is in many pairs.

    Class by class, the errors of one observer that are this answer select the rows of two matrices: who else was wrong,
    and the weights. One product of the two counts for all partners of the observer.
    """
    wrong, response = answers.wrong, answers.response
    wrong_columns = np.ascontiguousarray(wrong.T, dtype=np.float32)
    shape = (len(pairs), columns.shape[1])
    joint, agree, chance = np.zeros(shape, np.float32), np.zeros(shape, np.float32), np.zeros(shape)
    # how often the first (second) of a pair gives an answer where both are wrong; whole numbers, exact in float32
    of_first, of_second = np.empty(shape, np.float32), np.empty(shape, np.float32)
    observers = np.unique(pairs).tolist()
    as_first, as_second = ({i: np.flatnonzero(side == i) for i in observers} for side in pairs.T)
    errors = {i: np.flatnonzero(wrong[i]) for i in observers}
    answered = np.zeros((answers.classes, answers.observers), dtype=np.bool_)  # which wrong answers each has given
    for i in observers:
        answered[response[i, errors[i]], i] = True
    for code in np.flatnonzero(answered.any(axis=1)).tolist():
        for i in np.flatnonzero(answered[code]).tolist():
            stimuli = errors[i][response[i, errors[i]] == code]
            first, second = as_first[i], as_second[i]
            partners, drawn = np.concatenate([pairs[first, 1], pairs[second, 0]]), columns[stimuli]
            if 2 * len(partners) > answers.observers:  # faster than to pick the partners' columns
                counted = (wrong_columns[stimuli].T @ drawn)[partners]
            else:
                counted = wrong_columns[np.ix_(stimuli, partners)].T @ drawn
            of_first[first], of_second[second] = counted[: len(first)], counted[len(first) :]
            joint[first] += counted[: len(first)]
            agree[first] += (response[np.ix_(pairs[first, 1], stimuli)] == code).astype(np.float32) @ drawn
        both = answered[code][pairs].all(axis=1)
        rows = slice(None) if both.all() else np.flatnonzero(both)
        chance[rows] += of_first[rows].astype(np.float64) * of_second[rows]
    return joint.astype(np.float64), agree.astype(np.float64), chance


def _joint_errors(answers: Answers, pairs: Pairs) -> FloatArray:
    wrong = answers.wrong.astype(np.float32)
    return (wrong @ wrong.T)[pairs[:, 0], pairs[:, 1]].astype(np.float64)


def _equal_errors(answers: Answers, pairs: Pairs) -> FloatArray:
    return np.asarray(_count_equal_errors(answers)[pairs[:, 0], pairs[:, 1]])


def _agreement_min_high(answers: Answers, pairs: Pairs, confidence: float) -> FloatArray:
    """Compute MA if equal errors were as frequent as their count allows, with the same answers on joint errors."""
    limits = scarce_limit(_equal_errors(answers, pairs), confidence)
    out = np.full(len(pairs), np.nan)
    wrong, response = answers.wrong, answers.response
    for index in np.flatnonzero(~np.isnan(limits)):
        i, j = pairs[index]
        a, b = response[[i, j]][:, wrong[i] & wrong[j]]
        counts = [np.bincount(codes, minlength=answers.classes).astype(np.float64) for codes in (a, b)]
        most = np.minimum(*counts).sum()  # equal errors that these answers allow
        same = np.minimum(limits[index], most)
        out[index] = kappa_of_counts(np.asarray(float(len(a))), same, np.asarray(counts[0] @ counts[1]))
    return out


def _both_answered(answers: Answers, pairs: Pairs) -> FloatArray:
    answered = (answers.response >= 0).astype(np.float32)
    return (answered @ answered.T)[pairs[:, 0], pairs[:, 1]].astype(np.float64)


def _same_answers_resampled(answers: Answers, weights: Weights, pairs: Pairs) -> FloatArray:
    response, columns = answers.response, np.ascontiguousarray(weights.T)
    out = np.empty((len(pairs), len(weights)))
    for part in blocks(len(pairs), answers.stimuli, most=BLOCK):
        a, b = response[pairs[part, 0]], response[pairs[part, 1]]
        both = (a >= 0) & (b >= 0)
        same = (both & (a == b)).astype(np.float32) @ columns
        out[part] = divide(same.astype(np.float64), (both.astype(np.float32) @ columns).astype(np.float64))
    return out


def _same_answers_matrix(answers: Answers) -> FloatArray:
    pairs = np.indices((answers.observers, answers.observers)).reshape(2, -1).T
    once = np.ones((1, answers.stimuli), dtype=np.float32)
    return _same_answers_resampled(answers, once, pairs).reshape(answers.observers, answers.observers)


pair_forms.add(
    "misclassification_agreement",
    PairForm(
        misclassification_agreement_matrix,
        misclassification_agreement_resampled,
        _joint_errors,
        "no joint errors, or all with the same answer",
        min_high=_agreement_min_high,
        errors=_equal_errors,
        biased=True,  # agreement by chance is overestimated on few joint errors
        pooled=pooled_misclassification_agreement,
    ),
)
pair_forms.add(
    "response_agreement",
    PairForm(_same_answers_matrix, _same_answers_resampled, _both_answered, "no stimulus that both answered"),
)

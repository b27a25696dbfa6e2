"""How do two observers err on the same images? Misclassification agreement: Cohen's kappa of their wrong answers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from cosight.arrays import FloatArray
from cosight.measures.answers import Answers, encode
from cosight.measures.facts import PairForm, declare, pair_forms
from cosight.measures.sums import BLOCK, Pairs, Weights, divide, summed

__all__ = [
    "MisclassificationAgreement",
    "misclassification_agreement",
    "misclassification_agreement_matrix",
    "misclassification_agreement_resampled",
]


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
    """Multiclass Cohen's kappa over the trials on which yA != t and yB != t.

    Missing answers (None, nan, "", "na") are left out. Undefined (nan) without joint errors, or when both give one
    and the same class on all of them (p_e = 1).

    >>> misclassification_agreement([1, 2, 0, 1], [1, 2, 1, 0], [0, 0, 2, 2]).value
    0.2
    """
    answers = encode(a, b, truth=truth, classes=classes, names=("a", "b"))
    joint = answers.wrong.all(axis=0)
    n = int(joint.sum())
    if n == 0:
        return MisclassificationAgreement(float("nan"), float("nan"), float("nan"), 0)
    ya, yb = answers.response[:, joint]
    said_a, said_b = (np.bincount(y, minlength=answers.classes) for y in (ya, yb))
    agree, chance = int((ya == yb).sum()), int(said_a @ said_b)
    kappa = float(_many_classes(*(np.asarray(x, dtype=np.float64) for x in (n, agree, chance))))
    return MisclassificationAgreement(kappa, agree / n, chance / n**2, n)


def misclassification_agreement_matrix(answers: Answers) -> FloatArray:
    """Misclassification agreement of all pairs, (observers, observers); a pair is compared where both answered."""
    said = _said_on_joint_errors(answers)
    chance = np.einsum("ikj,jki->ij", said, said)  # sum over classes of (A says k) x (B says k)
    return _many_classes(said.sum(axis=1), _equal_errors(answers), chance)


def _said_on_joint_errors(answers: Answers) -> FloatArray:
    """How often i says k where i and j are both wrong, (i, k, j): the indicator of each wrong answer, a sparse
    (i x k, stimuli) matrix, times the indicator of being wrong.

    The product runs in bytes, several times faster than in floats: rows are cut into pieces of 255 ones, so that no
    count overflows, and the pieces' counts are added up afterwards.
    """
    m, k, n = answers.observers, answers.classes, answers.stimuli
    wrong = answers.wrong
    flat = np.flatnonzero(wrong)
    row = np.repeat(np.arange(m, dtype=np.int32), np.count_nonzero(wrong, axis=1))
    stimulus = (flat - row.astype(np.int64) * n).astype(np.int32)
    said = row * k + answers.response.ravel()[flat]
    ones = np.ones(len(flat), dtype=np.uint8)
    whole = csr_array((ones, (said, stimulus)), shape=(m * k, n))
    pieces = -(-np.diff(whole.indptr) // 255)
    first = np.cumsum(pieces) - pieces
    owner = np.repeat(np.arange(m * k), pieces)
    start = whole.indptr[owner] + 255 * (np.arange(len(owner)) - first[owner])
    cut = csr_array((whole.data, whole.indices, np.append(start, len(flat))), shape=(len(owner), n))
    counts = np.zeros((m * k, m))
    used = np.flatnonzero(pieces)
    if len(used):
        bytes_ = np.ascontiguousarray(wrong.T).view(np.uint8)
        counts[used] = np.add.reduceat(cut @ bytes_, first[used], axis=0, dtype=np.int64)
    return counts.reshape(m, k, m)


def _equal_errors(answers: Answers) -> FloatArray:
    """How often i and j give the same wrong answer, (i, j)."""
    kind = np.int16 if answers.classes > 127 else np.int8
    wrong = answers.wrong
    codes = np.where(wrong, answers.response, -1).astype(kind)
    others = np.where(wrong, answers.response, -2).astype(kind)  # so that two right answers are never equal
    out = np.empty((len(codes), len(codes)))
    for i, code in enumerate(codes):
        for j in range(i, len(codes)):
            out[i, j] = out[j, i] = np.count_nonzero(code == others[j])
    return out


def misclassification_agreement_resampled(answers: Answers, weights: Weights, pairs: Pairs) -> FloatArray:
    """Misclassification agreement for each pair and resample; (pairs, resamples)."""
    step = max(1, BLOCK // max(1, answers.classes * len(weights)))
    wrong, columns = answers.wrong, np.ascontiguousarray(weights.T)
    blocks = [
        _agreement_block(answers, wrong, columns, pairs[start : start + step]) for start in range(0, len(pairs), step)
    ]
    return np.concatenate(blocks) if blocks else np.empty((0, len(weights)))


def _agreement_block(
    answers: Answers, wrong: NDArray[np.bool_], columns: NDArray[np.float32], pairs: Pairs
) -> FloatArray:
    i, j = pairs.T
    pair, stimulus = np.nonzero(wrong[i] & wrong[j])
    ya = answers.response[i[pair], stimulus].astype(np.int64)
    yb = answers.response[j[pair], stimulus].astype(np.int64)
    said_a = summed(pair * answers.classes + ya, stimulus, columns, len(pairs) * answers.classes)
    said_b = summed(pair * answers.classes + yb, stimulus, columns, len(pairs) * answers.classes)
    said_a, said_b = (x.reshape(len(pairs), answers.classes, -1) for x in (said_a, said_b))
    same = ya == yb
    agree = summed(pair[same], stimulus[same], columns, len(pairs))
    return _many_classes(said_a.sum(axis=1), agree, np.einsum("pkr,pkr->pr", said_a, said_b))


def _many_classes(n: FloatArray, agree: FloatArray, chance: FloatArray) -> FloatArray:
    """Kappa from counts: `chance` is the sum over classes of the product of the two marginal counts."""
    return divide(n * agree - chance, n * n - chance)


def _joint_errors(answers: Answers, pairs: Pairs) -> FloatArray:
    wrong = answers.wrong
    return np.array([np.count_nonzero(wrong[i] & wrong[j]) for i, j in pairs], dtype=np.float64)


pair_forms.add(
    "misclassification_agreement",
    PairForm(
        misclassification_agreement_matrix, misclassification_agreement_resampled, _joint_errors, "jointly wrong trials"
    ),
)

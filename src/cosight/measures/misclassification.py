"""How do two observers err on the same images? Misclassification agreement: Cohen's kappa of their wrong answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from cosight.arrays import FloatArray
from cosight.measures.answers import Answers, encode
from cosight.measures.arithmetic import BLOCK, Pairs, Weights, blocks, divide, scarce_limit, summed
from cosight.measures.declarations import PairForm, declare, pair_forms

__all__ = [
    "MisclassificationAgreement",
    "ResponseAgreement",
    "misclassification_agreement",
    "misclassification_agreement_matrix",
    "misclassification_agreement_resampled",
    "response_agreement",
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


@dataclass(frozen=True, slots=True)
class ResponseAgreement:
    """The share of stimuli that two observers answer alike."""

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
)
def response_agreement(a: ArrayLike, b: ArrayLike) -> ResponseAgreement:
    """Compute the share of stimuli to which two observers give the same answer.

    Stimuli that one of them did not answer are left out. Undefined (nan) when nothing is left.

    Args:
        a: The first observer's answers, one per stimulus.
        b: The second observer's, in the same order.

    >>> response_agreement(["cat", "dog", None], ["cat", "cat", "cat"]).value
    0.5
    """
    answers = encode(a, b, truth=None, names=("a", "b"))
    both = (answers.response >= 0).all(axis=0)
    same = (answers.response[0] == answers.response[1])[both].astype(np.float64)
    return ResponseAgreement(float(same.mean()) if len(same) else float("nan"), same, len(same))


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
    said, stimulus = _wrong_answers(answers, wrong)
    whole = csr_array((np.ones(len(said), dtype=np.uint8), (said, stimulus)), shape=(m * k, n))
    pieces = -(-np.diff(whole.indptr) // 255)
    first = np.cumsum(pieces) - pieces
    owner = np.repeat(np.arange(m * k), pieces)
    start = whole.indptr[owner] + 255 * (np.arange(len(owner)) - first[owner])
    cut = csr_array((whole.data, whole.indices, np.append(start, len(said))), shape=(len(owner), n))
    counts = np.zeros((m * k, m))
    used = np.flatnonzero(pieces)
    if len(used):
        bytes_ = np.ascontiguousarray(wrong.T).view(np.uint8)
        counts[used] = np.add.reduceat(cut @ bytes_, first[used], axis=0, dtype=np.int64)
    return counts.reshape(m, k, m)


def _wrong_answers(answers: Answers, wrong: NDArray[np.bool_]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """For every error its observer and answer as one number, and its stimulus; row by row, which fits the cache."""
    stimuli = [np.flatnonzero(row).astype(np.int32) for row in wrong]
    said = [i * answers.classes + answers.response[i, at].astype(np.int32) for i, at in enumerate(stimuli)]
    none = np.zeros(0, dtype=np.int32)
    return np.concatenate([none, *said]), np.concatenate([none, *stimuli])


def _equal_errors(answers: Answers) -> FloatArray:
    """How often i and j give the same wrong answer, (i, j).

    Sixty-four trials are compared at once: each bit of the code is a row of bits, and two answers differ where any of
    these do, or where not both are wrong.
    """
    wrong = answers.wrong
    kind = np.uint8 if answers.classes <= 256 else np.uint16
    codes: NDArray[Any] = np.where(wrong, answers.response, 0).astype(kind)
    planes = [_packed(codes & (1 << bit)) for bit in range((answers.classes - 1).bit_length())]
    errs = _packed(wrong)
    out = np.empty((len(errs), len(errs)))
    for i in range(len(errs)):
        differ = ~(errs[i] & errs[i:])
        for plane in planes:
            differ |= plane[i] ^ plane[i:]
        out[i, i:] = out[i:, i] = 64 * errs.shape[1] - np.bitwise_count(differ).sum(axis=1, dtype=np.int64)
    return out


def _packed(values: NDArray[Any]) -> NDArray[np.uint64]:
    """Rows of zero and not zero as bits, filled up with zeros to whole words."""
    bits = np.packbits(values, axis=1)
    whole = np.pad(bits, ((0, 0), (0, -bits.shape[1] % 8)))
    return np.ascontiguousarray(whole).view(np.uint64)  # picked stimuli may lie column by column


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


def _equal_error_counts(answers: Answers, pairs: Pairs) -> FloatArray:
    wrong, response = answers.wrong, answers.response
    return np.array(
        [np.count_nonzero(wrong[i] & wrong[j] & (response[i] == response[j])) for i, j in pairs], dtype=np.float64
    )


def _both_answered(answers: Answers, pairs: Pairs) -> FloatArray:
    answered = (answers.response >= 0).astype(np.float32)
    return (answered @ answered.T)[pairs[:, 0], pairs[:, 1]].astype(np.float64)


def _same_answers(answers: Answers, weights: Weights, pairs: Pairs) -> FloatArray:
    response, columns = answers.response, np.ascontiguousarray(weights.T)
    out = np.empty((len(pairs), len(weights)))
    for part in blocks(len(pairs), answers.stimuli, most=BLOCK):
        a, b = response[pairs[part, 0]], response[pairs[part, 1]]
        both = (a >= 0) & (b >= 0)
        same = (both & (a == b)).astype(np.float32) @ columns
        out[part] = divide(same.astype(np.float64), (both.astype(np.float32) @ columns).astype(np.float64))
    return out


def _same_answers_matrix(answers: Answers) -> FloatArray:
    everyone = np.stack(np.meshgrid(*[np.arange(answers.observers)] * 2, indexing="ij"), axis=-1).reshape(-1, 2)
    once = np.ones((1, answers.stimuli), dtype=np.float32)
    return _same_answers(answers, once, everyone).reshape(answers.observers, answers.observers)


def _agreement_min_high(answers: Answers, pairs: Pairs, confidence: float) -> FloatArray:
    """MA if equal errors were as frequent as their count allows, with the answers on joint errors as they are."""
    out = np.empty(len(pairs))
    wrong, response = answers.wrong, answers.response
    for index, (i, j) in enumerate(pairs):
        a, b = response[[i, j]][:, wrong[i] & wrong[j]]
        counts = [np.bincount(said, minlength=answers.classes).astype(np.float64) for said in (a, b)]
        most = np.minimum(*counts).sum()  # equal errors that these answers allow
        same = np.minimum(scarce_limit(np.asarray(np.count_nonzero(a == b), dtype=np.float64), confidence), most)
        out[index] = _many_classes(np.asarray(float(len(a))), same, np.asarray(counts[0] @ counts[1]))
    return out


pair_forms.add(
    "misclassification_agreement",
    PairForm(
        misclassification_agreement_matrix,
        misclassification_agreement_resampled,
        _joint_errors,
        "no joint errors, or all with the same answer",
        min_high=_agreement_min_high,
        errors=_equal_error_counts,
    ),
)
pair_forms.add(
    "response_agreement",
    PairForm(_same_answers_matrix, _same_answers, _both_answered, "no stimulus that both answered"),
)

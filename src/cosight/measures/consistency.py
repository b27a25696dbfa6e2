"""When do two observers err? Error consistency: Cohen's kappa of right and wrong.

A form for one pair, one for all pairs of many observers (`..._matrix`) and one for many resamples at once
(`..._resampled`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cosight.arrays import FloatArray, correctness, same_length
from cosight.errors import InvalidInput
from cosight.measures.answers import Answers, common_trials, joint_errors
from cosight.measures.arithmetic import BLOCK, Pairs, Weights, blocks, divide, scarce_limit
from cosight.measures.declarations import PairForm, declare, pair_forms

__all__ = [
    "Consistency",
    "KappaRange",
    "ObservedConsistency",
    "error_consistency",
    "error_consistency_matrix",
    "error_consistency_resampled",
    "error_consistency_unbiased",
    "observed_consistency",
    "observed_consistency_matrix",
    "observed_consistency_resampled",
    "reachable_kappa",
]

_NAN = float("nan")
_PERFECT = "no common trials, or both always right or both always wrong"


@dataclass(frozen=True, slots=True)
class Consistency:
    """Error consistency and the parts it is made of."""

    value: float  # Cohen's kappa of the two correctness vectors
    observed: float  # share of trials on which both are right or both wrong
    expected: float  # that share for independent observers with these accuracies
    lowest: float  # the kappas that observers of these accuracies can reach at all
    highest: float
    n: int

    @property
    def kappa(self) -> float:
        """The same as `value`."""
        return self.value


@dataclass(frozen=True, slots=True)
class ObservedConsistency:
    """How often two observers are right or wrong together."""

    value: float  # share of trials on which both are right or both wrong
    expected: float  # that share for independent observers with these accuracies
    n: int


class KappaRange(NamedTuple):
    """The error consistencies that two observers can reach, given their accuracies."""

    lowest: float
    highest: float


@declare(
    "error_consistency",
    summary="Cohen's kappa of right and wrong: do two observers err on the same trials?",
    low=-1,
    high=1,
    direction="higher",
    symmetric=True,
    needs=("correctness",),
    citation="Geirhos, Meding & Wichmann 2020, arXiv:2006.16736",
    aliases=("ec",),
)
def error_consistency(a_correct: ArrayLike, b_correct: ArrayLike) -> Consistency:
    """Cohen's kappa of two correctness vectors.

    EC = (p_obs - p_exp) / (1 - p_exp), p_exp = pA pB + (1 - pA)(1 - pB).

    Undefined (`value` is nan) when p_exp = 1: both always right, both always wrong, or no trials.

    >>> error_consistency([1, 1, 0, 0], [1, 0, 1, 0]).value
    0.0
    >>> error_consistency([1, 1], [1, 1]).value
    nan
    """
    a, b = correctness(a_correct, name="a_correct"), correctness(b_correct, name="b_correct")
    n = same_length(a_correct=a, b_correct=b)
    if n == 0:
        return Consistency(_NAN, _NAN, _NAN, _NAN, _NAN, 0)
    pa, pb = float(a.mean()), float(b.mean())
    observed, expected = float((a == b).mean()), pa * pb + (1 - pa) * (1 - pb)
    counts = (np.float64(x) for x in (n, a.sum(), b.sum(), (a & b).sum()))
    kappa = float(_two_by_two(*map(np.asarray, counts)))
    return Consistency(kappa, observed, expected, *reachable_kappa(pa, pb), n)


def reachable_kappa(accuracy_a: float, accuracy_b: float) -> KappaRange:
    """The least and the greatest error consistency that two observers of these accuracies can have.

    The observed agreement lies between |pA + pB - 1| and 1 - |pA - pB|. Both ends are nan where EC is undefined.

    >>> round(reachable_kappa(0.8, 0.6).highest, 6)  # Klein et al. 2025
    0.545455
    """
    for share in (accuracy_a, accuracy_b):
        if not 0 <= share <= 1:
            raise InvalidInput(f"an accuracy must be 0 to 1, got {share}; divide percentages by 100")
    expected = accuracy_a * accuracy_b + (1 - accuracy_a) * (1 - accuracy_b)
    if expected >= 1:
        return KappaRange(_NAN, _NAN)
    least, most = abs(accuracy_a + accuracy_b - 1), 1 - abs(accuracy_a - accuracy_b)
    return KappaRange((least - expected) / (1 - expected), (most - expected) / (1 - expected))


@declare(
    "error_consistency_unbiased",
    summary="Error consistency, corrected for its bias in few trials.",
    low=-2,  # from three or four trials on which one is right where the other is wrong; more trials tend to -1
    high=1,
    direction="higher",
    symmetric=True,
    needs=("correctness",),
    citation="Klein et al. 2025",
    aliases=("ec_unbiased",),
)
def error_consistency_unbiased(a_correct: ArrayLike, b_correct: ArrayLike) -> Consistency:
    """n k / ((n - 1) + k), where k is the error consistency of n trials.

    Undefined where `error_consistency` is, and when the denominator is not positive (one trial; k = 1 - n).

    >>> round(error_consistency_unbiased([1, 1, 0, 0], [1, 1, 0, 1]).value, 4)
    0.5714
    """
    plain = error_consistency(a_correct, b_correct)
    value = float(_unbiased(np.asarray(plain.value), np.asarray(plain.n, dtype=np.float64)))
    return Consistency(value, plain.observed, plain.expected, plain.lowest, plain.highest, plain.n)


@declare(
    "observed_consistency",
    summary="The share of trials on which both are right or both are wrong.",
    low=0,
    high=1,
    direction="higher",
    symmetric=True,
    needs=("correctness",),
    citation="Geirhos, Meding & Wichmann 2020, arXiv:2006.16736",
)
def observed_consistency(a_correct: ArrayLike, b_correct: ArrayLike) -> ObservedConsistency:
    """p_obs = share of trials on which both are right or both are wrong; nan without trials.

    >>> observed_consistency([1, 1, 0, 0], [1, 0, 1, 0]).value
    0.5
    """
    plain = error_consistency(a_correct, b_correct)
    return ObservedConsistency(plain.observed, plain.expected, plain.n)


def error_consistency_matrix(correct: ArrayLike, shown: ArrayLike | None = None) -> FloatArray:
    """Error consistency of all pairs; `correct` is (observers, trials), so is `shown` (None: everyone saw all).

    A pair is compared on the trials both saw; what `correct` says about a trial not shown is not read. Undefined (nan)
    as `error_consistency` is. One product of matrices for a complete table, three otherwise.

    >>> error_consistency_matrix([[1, 1, 0, 0], [1, 1, 0, 1]]).round(2)
    array([[1. , 0.5],
           [0.5, 1. ]])
    """
    return _two_by_two(*_consistency_sums(correct, shown))


def observed_consistency_matrix(correct: ArrayLike, shown: ArrayLike | None = None) -> FloatArray:
    """Observed consistency of all pairs; arguments as `error_consistency_matrix`."""
    return _agreement(*_consistency_sums(correct, shown))


def error_consistency_resampled(answers: Answers, weights: Weights, pairs: Pairs) -> FloatArray:
    """Error consistency for each pair and resample; (pairs, resamples)."""
    return _two_by_two(*_resampled_consistency_sums(answers, weights, pairs))


def observed_consistency_resampled(answers: Answers, weights: Weights, pairs: Pairs) -> FloatArray:
    """Observed consistency for each pair and resample; (pairs, resamples)."""
    return _agreement(*_resampled_consistency_sums(answers, weights, pairs))


def _consistency_sums(correct: ArrayLike, shown: ArrayLike | None) -> tuple[FloatArray, ...]:
    right = _table(correct, name="correct")
    if shown is None:
        both = _product(right, right)
        alone = right.sum(axis=1, dtype=np.float64)
        n = np.full_like(both, right.shape[1])
        return n, np.broadcast_to(alone[:, None], both.shape), np.broadcast_to(alone[None, :], both.shape), both
    seen = _table(shown, name="shown")
    if seen.shape != right.shape:
        raise InvalidInput(f"correct and shown must have one shape, got {right.shape} and {seen.shape}")
    right = right * seen
    right_a = _product(right, seen)
    return _product(seen, seen), right_a, right_a.T, _product(right, right)


def _table(values: ArrayLike, *, name: str) -> NDArray[np.float32]:
    """A table (observers, trials) of true/false or 0/1, as float32, in which counts below 2^24 are exact."""
    array = np.asarray(values)
    if array.ndim != 2:
        raise InvalidInput(f"{name} must be (observers, trials), got shape {array.shape}")
    if array.dtype != np.bool_ and (bad := (array != 0) & (array != 1)).any():
        raise InvalidInput(
            f"{name} must be true/false or 0/1, got {array[bad][0]}; compare answers with the truth first"
        )
    return array.astype(np.float32)


def _product(x: NDArray[np.float32], y: NDArray[np.float32]) -> FloatArray:
    """x y^T of 0/1 matrices, exact: float32 sums of fewer than 2^24 ones, added up in float64."""
    step = 1 << 24
    total = np.zeros((len(x), len(y)))
    for start in range(0, max(x.shape[1], 1), step):
        total += x[:, start : start + step] @ y[:, start : start + step].T
    return total


def _resampled_consistency_sums(answers: Answers, weights: Weights, pairs: Pairs) -> tuple[FloatArray, ...]:
    right, seen = answers.correct, answers.shown
    i, j = pairs.T
    both = _weighted(right, i, right, j, weights)
    if seen.all():
        everyone, whole = np.arange(answers.observers), np.ones((1, answers.stimuli), dtype=np.bool_)
        alone = _weighted(right, everyone, right, everyone, weights)
        drawn = _weighted(whole, np.array([0]), whole, np.array([0]), weights)
        return np.broadcast_to(drawn, both.shape), alone[i], alone[j], both
    return (
        _weighted(seen, i, seen, j, weights),
        _weighted(right, i, seen, j, weights),
        _weighted(seen, i, right, j, weights),
        both,
    )


def _weighted(
    x: NDArray[np.bool_], i: NDArray[np.int64], y: NDArray[np.bool_], j: NDArray[np.int64], weights: Weights
) -> FloatArray:
    """Weighted counts of the stimuli where row i of x and row j of y are true, (pairs, resamples)."""
    out = np.empty((len(i), len(weights)))
    for part in blocks(len(i), x.shape[1], most=BLOCK):
        out[part] = (x[i[part]] & y[j[part]]).astype(np.float32) @ weights.T
    return out


def _agreement(n: FloatArray, right_a: FloatArray, right_b: FloatArray, both: FloatArray) -> FloatArray:
    """The share of trials on which both are right or both wrong, from counts."""
    return divide(n - right_a - right_b + 2 * both, n)


def _two_by_two(n: FloatArray, right_a: FloatArray, right_b: FloatArray, both: FloatArray) -> FloatArray:
    """Kappa of a 2 x 2 table in counts: (n p_obs - n p_exp) / (n - n p_exp), exact for whole counts."""
    agree = n - right_a - right_b + 2 * both
    chance = right_a * right_b + (n - right_a) * (n - right_b)
    return divide(n * agree - chance, n * n - chance)


def _unbiased(kappa: FloatArray, n: FloatArray) -> FloatArray:
    below = n - 1 + kappa
    return np.where(below > 0, divide(n * kappa, below), np.nan)


def _sums_of(answers: Answers) -> tuple[FloatArray, ...]:
    seen = answers.shown
    return _consistency_sums(answers.correct, None if seen.all() else seen)


def _unbiased_matrix(answers: Answers) -> FloatArray:
    sums = _sums_of(answers)
    return _unbiased(_two_by_two(*sums), sums[0])


def _unbiased_resampled(answers: Answers, weights: Weights, pairs: Pairs) -> FloatArray:
    sums = _resampled_consistency_sums(answers, weights, pairs)
    return _unbiased(_two_by_two(*sums), sums[0])


def _pair_sums(answers: Answers, pairs: Pairs) -> tuple[FloatArray, ...]:
    """The counts of a 2 x 2 table for each pair; (pairs,)."""
    return tuple(x[pairs[:, 0], pairs[:, 1]] for x in _sums_of(answers))


def _most_alike(sums: tuple[FloatArray, ...], confidence: float) -> FloatArray:
    """Trials with like outcomes, (pairs,), if the rarer joint outcome was as frequent as its count allows.

    With the accuracies as they are, one more joint error is one more joint success: two more trials of like outcome.
    """
    n, right_a, right_b, both = sums
    wrong = n - right_a - right_b + both  # joint errors
    rare = np.minimum(wrong, both)
    left = np.minimum(np.minimum(right_a, right_b) - both, np.minimum(n - right_a, n - right_b) - wrong)
    return np.asarray(both + wrong + 2 * np.minimum(scarce_limit(rare, confidence) - rare, left))


def _consistency_min_high(answers: Answers, pairs: Pairs, confidence: float) -> FloatArray:
    sums = _pair_sums(answers, pairs)
    n, right_a, right_b, _ = sums
    chance = right_a * right_b + (n - right_a) * (n - right_b)
    return divide(n * _most_alike(sums, confidence) - chance, n * n - chance)


def _reachable(answers: Answers, pairs: Pairs) -> list[str]:
    """The range of EC that the accuracies of each pair leave."""
    remarks = []
    for n, right_a, right_b, _ in zip(*_pair_sums(answers, pairs), strict=True):
        ends = reachable_kappa(float(right_a / n), float(right_b / n)) if n else None
        remarks.append(f"reachable {ends.lowest:.3f} to {ends.highest:.3f}" if ends else "")
    return remarks


def _unbiased_min_high(answers: Answers, pairs: Pairs, confidence: float) -> FloatArray:
    return _unbiased(_consistency_min_high(answers, pairs, confidence), _pair_sums(answers, pairs)[0])


def _observed_min_high(answers: Answers, pairs: Pairs, confidence: float) -> FloatArray:
    sums = _pair_sums(answers, pairs)
    return divide(_most_alike(sums, confidence), sums[0])


pair_forms.add(
    "error_consistency",
    PairForm(
        lambda answers: _two_by_two(*_sums_of(answers)),
        error_consistency_resampled,
        common_trials,
        _PERFECT,
        min_high=_consistency_min_high,
        errors=joint_errors,
        remarks=_reachable,
    ),
)
pair_forms.add(
    "error_consistency_unbiased",
    PairForm(_unbiased_matrix, _unbiased_resampled, common_trials, _PERFECT, min_high=_unbiased_min_high),
)
pair_forms.add(
    "observed_consistency",
    PairForm(
        lambda answers: _agreement(*_sums_of(answers)),
        observed_consistency_resampled,
        common_trials,
        "no common trials",
        min_high=_observed_min_high,
    ),
)

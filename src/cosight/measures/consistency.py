"""When do two observers err? Error consistency: Cohen's kappa of right and wrong.

Each measure has a form for one pair, one for all pairs of many observers (`..._matrix`) and one for many resamples
(`..._resampled`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cosight.arrays import BoolArray, FloatArray, correctness, same_length
from cosight.errors import InvalidInput
from cosight.measures.answers import Answers, common_trials, joint_errors
from cosight.measures.arithmetic import BLOCK, Pairs, Weights, blocks, divide, kappa_of_counts, scarce_limit
from cosight.measures.declarations import PairForm, declare, pair_forms
from cosight.measures.pooled_pairs import pooled_error_consistency

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
    observed: float  # fraction of trials on which both are right or both wrong
    expected: float  # that fraction for independent observers with these accuracies
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

    value: float  # fraction of trials on which both are right or both wrong
    expected: float  # that fraction for independent observers with these accuracies
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
    """Compute Cohen's kappa of two correctness vectors (Geirhos et al. 2020).

    EC = (p_obs - p_exp) / (1 - p_exp), p_exp = pA pB + (1 - pA)(1 - pB).

    Args:
        a_correct: Whether the first observer was right, one value per trial.
        b_correct: The same for the second observer, in the same order.

    Returns:
        The kappa and its parts. `value` is nan when p_exp = 1 (both always right, both always wrong) or without trials.

    Raises:
        InvalidInput: If a value is not true/false or 0/1, or the lengths differ.

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
    table = _CorrectCounts(*(np.asarray(count, dtype=np.float64) for count in (n, a.sum(), b.sum(), (a & b).sum())))
    return Consistency(float(table.kappa(table.agree)), observed, expected, *reachable_kappa(pa, pb), n)


def reachable_kappa(accuracy_a: float, accuracy_b: float) -> KappaRange:
    """Compute the lowest and the highest error consistency that two observers of these accuracies can have.

    The observed agreement lies between |pA + pB - 1| and 1 - |pA - pB|.

    Args:
        accuracy_a: Accuracy of the first observer, 0 to 1.
        accuracy_b: Accuracy of the second.

    Returns:
        Both ends, nan where error consistency is undefined.

    Raises:
        InvalidInput: If an accuracy is not in [0, 1].

    >>> round(reachable_kappa(0.8, 0.6).highest, 6)  # Klein et al. 2025
    0.545455
    """
    for accuracy in (accuracy_a, accuracy_b):
        if not 0 <= accuracy <= 1:
            raise InvalidInput(f"an accuracy must be 0 to 1, got {accuracy}; divide percentages by 100")
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
    """Compute n k / ((n - 1) + k), where k is the error consistency of n trials (Klein et al. 2025).

    Args:
        a_correct: Whether the first observer was right, one value per trial.
        b_correct: The same for the second observer, in the same order.

    Returns:
        The corrected kappa and its parts. `value` is nan where `error_consistency` is, and when the denominator is
        not positive (one trial; k = 1 - n).

    Raises:
        InvalidInput: If a value is not true/false or 0/1, or the lengths differ.

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
    share=True,
)
def observed_consistency(a_correct: ArrayLike, b_correct: ArrayLike) -> ObservedConsistency:
    """Compute p_obs, the fraction of trials on which both are right or both are wrong.

    Args:
        a_correct: Whether the first observer was right, one value per trial.
        b_correct: The same for the second observer, in the same order.

    Returns:
        The fraction and what independent observers would have; nan without trials.

    Raises:
        InvalidInput: If a value is not true/false or 0/1, or the lengths differ.

    >>> observed_consistency([1, 1, 0, 0], [1, 0, 1, 0]).value
    0.5
    """
    plain = error_consistency(a_correct, b_correct)
    return ObservedConsistency(plain.observed, plain.expected, plain.n)


def error_consistency_matrix(correct: ArrayLike, shown: ArrayLike | None = None) -> FloatArray:
    """Compute the error consistency of all pairs of observers, one matrix product for a complete table, else three.

    Args:
        correct: Whether each observer was right, (observers, trials); not read where a trial was not shown.
        shown: Whether each observer saw the trial, same shape (default: everyone saw all).

    Returns:
        A matrix (observers, observers); a pair is compared on the trials both saw, nan as `error_consistency`.

    Raises:
        InvalidInput: If the tables have other values than true/false or 0/1, or different shapes.

    >>> error_consistency_matrix([[1, 1, 0, 0], [1, 1, 0, 1]]).round(2)
    array([[1. , 0.5],
           [0.5, 1. ]])
    """
    table = _count_pairs(correct, shown)
    return table.kappa(table.agree)


def observed_consistency_matrix(correct: ArrayLike, shown: ArrayLike | None = None) -> FloatArray:
    """Compute the observed consistency of all pairs of observers.

    Args:
        correct: Whether each observer was right, (observers, trials).
        shown: Whether each observer saw the stimulus (default: everyone saw all); pairs use their common trials.

    Returns:
        A matrix (observers, observers), nan without common trials.

    Raises:
        InvalidInput: If a value is not true/false or 0/1, or the shapes differ.

    >>> observed_consistency_matrix([[1, 1, 0, 0], [1, 1, 0, 1]])
    array([[1.  , 0.75],
           [0.75, 1.  ]])
    """
    table = _count_pairs(correct, shown)
    return _observed(table, table.agree)


def error_consistency_resampled(answers: Answers, weights: Weights, pairs: Pairs) -> FloatArray:
    """Compute the error consistency for each pair and resample.

    Args:
        answers: The answers of all observers.
        weights: How often each stimulus was drawn, (resamples, stimuli).
        pairs: Indices of the observers of each pair, (pairs, 2).

    Returns:
        The values, (pairs, resamples), nan as in `error_consistency`.

    >>> answers = Answers.of_correctness([1, 1, 0, 0], [1, 1, 0, 1])
    >>> weights = np.array([[1, 1, 1, 1], [2, 0, 2, 0]], dtype=np.float32)
    >>> error_consistency_resampled(answers, weights, np.array([[0, 1]]))
    array([[0.5, 1. ]])
    """
    return _resampled(_CorrectCounts.kappa, answers, weights, pairs)


def observed_consistency_resampled(answers: Answers, weights: Weights, pairs: Pairs) -> FloatArray:
    """Compute the observed consistency for each pair and resample.

    Args:
        answers: The answers of all observers.
        weights: How often each stimulus was drawn, (resamples, stimuli).
        pairs: Indices of the observers of each pair, (pairs, 2).

    Returns:
        The values, (pairs, resamples), nan for a pair without common trials.

    >>> answers = Answers.of_correctness([1, 1, 0, 0], [1, 1, 0, 1])
    >>> weights = np.array([[1, 1, 1, 1], [2, 0, 2, 0]], dtype=np.float32)
    >>> observed_consistency_resampled(answers, weights, np.array([[0, 1]]))
    array([[0.75, 1.  ]])
    """
    return _resampled(_observed, answers, weights, pairs)


class _CorrectCounts(NamedTuple):
    """2 x 2 tables of right and wrong in counts, one per pair, or per pair and resample."""

    n: FloatArray
    right_a: FloatArray
    right_b: FloatArray
    both: FloatArray  # both right

    @property
    def agree(self) -> FloatArray:
        """Trials on which both are right or both wrong."""
        return self.n - self.right_a - self.right_b + 2 * self.both

    def kappa(self, agree: FloatArray) -> FloatArray:
        """Return kappa if `agree` trials were alike: exact for whole counts."""
        chance = self.right_a * self.right_b + (self.n - self.right_a) * (self.n - self.right_b)
        return kappa_of_counts(self.n, agree, chance)

    def most_alike(self, confidence: float) -> FloatArray:
        """Return how many trials would be alike if the rarer joint outcome was as frequent as its count allows.

        At fixed accuracies, one more joint error is one more joint success: two more trials are alike.
        """
        wrong = self.n - self.right_a - self.right_b + self.both  # joint errors
        rare = np.minimum(wrong, self.both)
        most_right = np.minimum(self.right_a, self.right_b) - self.both
        most_wrong = np.minimum(self.n - self.right_a, self.n - self.right_b) - wrong
        more = np.minimum(scarce_limit(rare, confidence) - rare, np.minimum(most_right, most_wrong))
        return np.asarray(self.both + wrong + 2 * more)


def _count_pairs(correct: ArrayLike, shown: ArrayLike | None) -> _CorrectCounts:
    """Count for all pairs of observers; every count is (observers, observers)."""
    right = _check_table(correct, name="correct")
    if shown is None:
        both = _product(right, right)
        alone = right.sum(axis=1, dtype=np.float64)
        right_a, right_b = np.broadcast_to(alone[:, None], both.shape), np.broadcast_to(alone[None, :], both.shape)
        return _CorrectCounts(np.full_like(both, right.shape[1]), right_a, right_b, both)
    seen = _check_table(shown, name="shown")
    if seen.shape != right.shape:
        raise InvalidInput(f"correct and shown must have one shape, got {right.shape} and {seen.shape}")
    right = right * seen
    right_a = _product(right, seen)
    return _CorrectCounts(_product(seen, seen), right_a, right_a.T, _product(right, right))


def _count_answers(answers: Answers, pairs: Pairs | None = None) -> _CorrectCounts:
    """Count for all pairs of observers, or for these; (observers, observers) or (pairs,)."""
    shown = answers.shown
    table = _count_pairs(answers.correct, None if shown.all() else shown)
    return table if pairs is None else _CorrectCounts(*(count[pairs[:, 0], pairs[:, 1]] for count in table))


def _check_table(values: ArrayLike, *, name: str) -> NDArray[np.float32]:
    """Return a table (observers, trials) of true/false or 0/1 as float32, in which counts below 2^24 are exact."""
    array = np.asarray(values)
    if array.ndim != 2:
        raise InvalidInput(f"{name} must be (observers, trials), got shape {array.shape}")
    if array.dtype != np.bool_ and (bad := (array != 0) & (array != 1)).any():
        raise InvalidInput(
            f"{name} must be true/false or 0/1, got {array[bad][0]}; compare answers with the truth first"
        )
    return array.astype(np.float32)


def _product(x: NDArray[np.float32], y: NDArray[np.float32]) -> FloatArray:
    """Return x y^T of 0/1 matrices, exact: float32 sums of fewer than 2^24 ones, added up in float64."""
    step = 1 << 24
    total = np.zeros((len(x), len(y)))
    for start in range(0, max(x.shape[1], 1), step):
        total += x[:, start : start + step] @ y[:, start : start + step].T
    return total


def _resampled(
    value: Callable[[_CorrectCounts, FloatArray], FloatArray], answers: Answers, weights: Weights, pairs: Pairs
) -> FloatArray:
    """Compute a value of the counts for each pair and resample, some pairs at a time; (pairs, resamples)."""
    right, seen = answers.correct, answers.shown
    everyone_saw_all = bool(seen.all())
    alone, drawn = _weigh(right, weights), _weigh(np.ones((1, answers.stimuli), dtype=np.bool_), weights)
    out = np.empty((len(pairs), len(weights)))
    for part in blocks(len(pairs), max(answers.stimuli, len(weights)), most=BLOCK):
        i, j = pairs[part].T
        both = _weigh(right[i] & right[j], weights)
        if everyone_saw_all:
            table = _CorrectCounts(np.broadcast_to(drawn, both.shape), alone[i], alone[j], both)
        else:
            n = _weigh(seen[i] & seen[j], weights)
            table = _CorrectCounts(n, _weigh(right[i] & seen[j], weights), _weigh(seen[i] & right[j], weights), both)
        out[part] = value(table, table.agree)
    return out


def _weigh(chosen: BoolArray, weights: Weights) -> FloatArray:
    """Sum the weights of the stimuli where each row is true; (rows, resamples)."""
    return (chosen.astype(np.float32) @ weights.T).astype(np.float64)


def _unbiased(kappa: FloatArray, n: FloatArray) -> FloatArray:
    below = n - 1 + kappa
    return np.where(below > 0, divide(n * kappa, below), np.nan)


def _unbiased_kappa(table: _CorrectCounts, agree: FloatArray) -> FloatArray:
    return _unbiased(table.kappa(agree), table.n)


def _observed(table: _CorrectCounts, agree: FloatArray) -> FloatArray:
    return divide(agree, table.n)


def _range_remarks(answers: Answers, pairs: Pairs) -> list[str]:
    """Return the range of EC that the accuracies of each pair allow, in words."""
    remarks = []
    for n, right_a, right_b, _ in zip(*_count_answers(answers, pairs), strict=True):
        ends = reachable_kappa(float(right_a / n), float(right_b / n)) if n else None
        remarks.append(f"reachable {ends.lowest:.3f} to {ends.highest:.3f}" if ends else "")
    return remarks


def _make_form(value: Callable[[_CorrectCounts, FloatArray], FloatArray], undefined: str) -> PairForm:
    """Make the form of a measure whose value depends on the counts and on how many trials are alike."""

    def matrix(answers: Answers) -> FloatArray:
        table = _count_answers(answers)
        return value(table, table.agree)

    def min_high(answers: Answers, pairs: Pairs, confidence: float) -> FloatArray:
        table = _count_answers(answers, pairs)
        return value(table, table.most_alike(confidence))

    return PairForm(matrix, partial(_resampled, value), common_trials, undefined, min_high=min_high)


_consistency_form = _make_form(_CorrectCounts.kappa, _PERFECT)
pair_forms.add(
    "error_consistency",
    replace(_consistency_form, errors=joint_errors, remarks=_range_remarks, pooled=pooled_error_consistency),
)
pair_forms.add("error_consistency_unbiased", _make_form(_unbiased_kappa, _PERFECT))
pair_forms.add("observed_consistency", _make_form(_observed, "no common trials"))

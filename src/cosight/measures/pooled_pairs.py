"""Agreement pooled over pairs of observers, for people who share few stimuli (35 of 2,000 each, as in crowd studies).

A value per pair is biased, or undefined, when a pair has a handful of common trials. So the trials of all pairs are
pooled first. Chance is the agreement of different observers on different stimuli; two answers to one stimulus never
enter it, which is what biases kappa in few trials.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from cosight.arrays import FloatArray
from cosight.measures.answers import Answers
from cosight.measures.arithmetic import check_confidence

__all__ = [
    "PooledAgreement",
    "pooled_error_consistency",
    "pooled_misclassification_agreement",
]

Codes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PooledAgreement:
    """Chance-corrected agreement of two observers drawn at random from a group, and its uncertainty.

    `n` counts common trials of all pairs; `people` and `stimuli` are those that have any.
    """

    value: float  # (observed - expected) / (1 - expected)
    standard_error: float
    observed: float
    expected: float
    n: int
    people: int
    stimuli: int  # clusters of stimuli, where there are such

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return the ends of Student's interval, inside [-1, 1]; nan for fewer than two people or stimuli.

        Args:
            confidence: Confidence level.

        >>> low, high = PooledAgreement(0.3, 0.05, 0.7, 0.57, 400, 41, 300).interval()
        >>> round(low, 3), round(high, 3)
        (0.199, 0.401)
        """
        check_confidence(confidence)
        units = min(self.people, self.stimuli)
        half = stdtrit(units - 1, (1 + confidence) / 2) * self.standard_error if units > 1 else float("nan")
        low, high = np.clip([self.value - half, self.value + half], -1, 1)
        return float(low), float(high)


def pooled_error_consistency(answers: Answers, *, clusters: Sequence[Codes] = ()) -> PooledAgreement:
    """Compute the error consistency of two of these observers, pooled over all pairs.

    It estimates Cohen's kappa of right and wrong for two observers who both see all stimuli: an average over pairs,
    each weighted with how far its chance agreement is from 1. Missing answers count as wrong.

    Args:
        answers: The answers of people; each may have seen any part of the stimuli.
        clusters: Codes of what stimuli belong to, such as their source photo, one array per factor, -1 for a stimulus
            that belongs to nothing (default: every stimulus is independent).

    Returns:
        The agreement with its standard error; nan where no two people share a stimulus, or all are always right or
        always wrong.

    >>> pooled_error_consistency(Answers.of_correctness([1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 0, 1])).n
    12
    """
    return _pooled(np.where(answers.shown, answers.correct, -1), 2, clusters)


def pooled_misclassification_agreement(answers: Answers, *, clusters: Sequence[Codes] = ()) -> PooledAgreement:
    """Compute the misclassification agreement of two of these observers, pooled over all pairs.

    Args:
        answers: The answers of people; each may have seen any part of the stimuli.
        clusters: As in `pooled_error_consistency`.

    Returns:
        Kappa of the answers of two people who are both wrong, with its standard error; nan where no two people are
        wrong about one stimulus, or all wrong answers are the same class.

    >>> from cosight.measures import encode
    >>> answers = encode(["b", "c", "a"], ["b", "c", "c"], ["b", "a", "c"], truth=["a", "b", "b"])
    >>> pooled_misclassification_agreement(answers).n
    9
    """
    return _pooled(np.where(answers.wrong, answers.response, -1), answers.classes, clusters)


def _pooled(codes: Codes, categories: int, clusters: Sequence[Codes]) -> PooledAgreement:
    """Pool the agreement on codes (observers, stimuli), -1 where an observer does not take part.

    The standard error is that of a ratio of sums over triples (two observers, one stimulus), linearised. Triples that
    share a stimulus or an observer are dependent: the variance is that of the sums per stimulus, plus that of the sums
    per observer, minus that of the sums per answer, which both have (Cameron, Gelbach & Miller 2011).
    """
    person, stimulus = np.nonzero(codes >= 0)
    code = codes[person, stimulus].astype(np.int64)
    observers, stimuli = codes.shape
    counts = np.bincount(stimulus * categories + code, minlength=stimuli * categories).reshape(stimuli, categories)
    answered = counts.sum(axis=1)
    shared = answered > 1
    pairs, equal = answered * (answered - 1) / 2, (counts * (counts - 1)).sum(axis=1) / 2
    n = float(pairs.sum())
    nan = float("nan")
    people = len(np.unique(person[shared[stimulus]]))
    units = [np.where(factor < 0, -1 - np.arange(stimuli), factor) for factor in clusters] or [np.arange(stimuli)]
    independent = min(len(np.unique(factor[shared])) for factor in units)
    if n == 0:
        return PooledAgreement(nan, nan, nan, nan, 0, people, independent)
    weight = np.maximum(answered - 1, 0).astype(np.float64)  # pairs that an answer is part of
    own = weight[stimulus]
    by_category = np.bincount(code, own, categories)
    by_person = np.bincount(person * categories + code, own, observers * categories).reshape(observers, categories)
    by_stimulus = counts * weight[:, None]
    once = float((own**2).sum())
    same = [float((part**2).sum()) for part in (by_category, by_person, by_stimulus)]
    any_ = [float((part.sum(axis=-1) ** 2).sum()) for part in (by_category, by_person, by_stimulus)]
    below = any_[0] - any_[1] - any_[2] + once
    observed = float(equal.sum()) / n
    expected = (same[0] - same[1] - same[2] + once) / below if below > 0 else nan
    if not expected < 1:
        return PooledAgreement(nan, nan, observed, expected, int(n), people, independent)
    value = (observed - expected) / (1 - expected)
    # the influence of a triple: agreement, less what its two answers change in the expected agreement
    share = by_category / by_category.sum()
    chance = float((share**2).sum())
    likely = counts @ share  # of the answers to a stimulus, summed
    scale = (1 - expected) * n
    of_stimulus = equal - observed * pairs - (1 - value) * (weight * likely - 2 * chance * pairs)
    of_answer = (
        counts[stimulus, code]
        - 1
        - observed * own
        - (1 - value) * (share[code] * (own - 1) + likely[stimulus] - 2 * chance * own)
    ) * shared[stimulus]
    of_person = np.bincount(person, of_answer, observers)
    over_stimuli = sum(_sum_of_squares(of_stimulus, factor) for factor in units)
    variance = over_stimuli + float((of_person**2).sum() - (of_answer**2).sum())
    error = np.sqrt(max(variance, over_stimuli)) / scale  # what people add is not negative, though its estimate may be
    return PooledAgreement(value, float(error), observed, expected, int(n), people, independent)


def _sum_of_squares(values: FloatArray, codes: Codes) -> float:
    """Sum up the values of each code and return the sum of the squares."""
    index = np.unique(codes, return_inverse=True)[1]
    return float((np.bincount(index, values) ** 2).sum())

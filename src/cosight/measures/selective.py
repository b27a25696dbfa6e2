"""Risk and coverage: how many stimuli an observer answers, and how often it is wrong where it does."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cosight.arrays import (
    BoolArray,
    FloatArray,
    correctness,
    finite,
    same_length,
    unit_interval,
)
from cosight.errors import InvalidInput
from cosight.measures.arithmetic import Weights, mean_or_nan
from cosight.measures.declarations import declare

__all__ = [
    "Coverage",
    "RiskCoverage",
    "SelectiveRisk",
    "coverage",
    "risk_coverage",
    "selective_risk",
    "selective_risks",
]

_ROUNDING = 1e-9  # a coverage such as 2 / 3 times n may exceed a whole number by the last bit


@dataclass(frozen=True, slots=True, eq=False)
class RiskCoverage:
    """Error rate among the accepted stimuli, as more of them are accepted; `value` is the area below the curve."""

    value: float
    coverage: FloatArray  # (thresholds,) fraction accepted, ascending to 1
    risk: FloatArray  # (thresholds,) error rate among the accepted
    threshold: FloatArray  # (thresholds,) accepted are those with abstention <= threshold


@dataclass(frozen=True, slots=True, eq=False)
class Coverage:
    """Which stimuli an observer answers."""

    items: FloatArray  # (n,) 1 where it answers, 0 where it refuses or lets the time pass

    @property
    def value(self) -> float:
        """The fraction answered; nan without stimuli."""
        return mean_or_nan(self.items)


@dataclass(frozen=True, slots=True)
class SelectiveRisk:
    """The error rate among the stimuli that an observer answers."""

    value: float  # nan where none is answered, or where fewer are than the coverage asks for
    coverage: float  # the fraction answered


@declare(
    "risk_coverage",
    summary="Area under the risk-coverage curve (AURC): error rate of accepted images, as the strangest are refused.",
    low=0,
    high=1,
    direction="lower",
    symmetric=None,
    needs=("abstention", "correctness"),
    citation="Geifman, Uziel & El-Yaniv 2019, Bias-reduced uncertainty estimation for deep neural classifiers, ICLR",
    aliases=("aurc",),
)
def risk_coverage(abstention: ArrayLike, correct: ArrayLike) -> RiskCoverage:
    """Compute the risk-coverage curve and the area under it (AURC), abstention ascending.

    At each distinct threshold t, with A(t) = {i: abstention_i <= t}: coverage = |A| / n, risk = errors in A / |A|.
    Area = sum_t risk(t) * (coverage(t) - coverage(the threshold before)): without ties, the mean risk over the n
    coverages 1/n ... 1. Equal abstentions are accepted together, so the order of the rows never matters.
    Source: Geifman et al. 2019 (who have no ties).

    Args:
        abstention: One number per stimulus. Only their order is used, so any score of strangeness, and
            1 - confidence, can replace it.
        correct: Whether the answer to each stimulus is right.

    Returns:
        The curve and its area. Without items the curve is empty and the area nan.

    Raises:
        InvalidInput: If an abstention is not finite, or the lengths differ.

    >>> curve = risk_coverage([0.1, 0.4, 0.4, 0.8], [1, 1, 0, 0])
    >>> curve.coverage.tolist(), curve.risk.round(3).tolist(), round(curve.value, 4)
    ([0.25, 0.75, 1.0], [0.0, 0.333, 0.5], 0.2917)
    """
    a, right = finite(abstention, name="abstention", ndim=1), correctness(correct, name="correct")
    n = same_length(abstention=a, correct=right)
    threshold, position, sizes = np.unique(a, return_inverse=True, return_counts=True)
    errors = np.bincount(position, weights=~right, minlength=len(threshold)).cumsum()
    accepted = sizes.cumsum()
    risk = errors / accepted
    area = float(risk @ sizes / n) if n else math.nan
    return RiskCoverage(area, accepted / max(n, 1), risk, threshold)


@declare(
    "coverage",
    summary="Fraction of images that an observer answers: it neither refuses nor lets the time pass.",
    low=0,
    high=1,
    direction="neither",
    symmetric=None,
    needs=("abstention",),
    citation="El-Yaniv & Wiener 2010, On the foundations of noise-free selective classification, JMLR",
    share=True,
)
def coverage(abstention: ArrayLike, *, gamma: float = 0.5) -> Coverage:
    """Compute the fraction of stimuli that an observer answers.

    A refusal and an answer that did not come in time have abstention 1; a person's answer has 0.

    Args:
        abstention: Numbers in [0, 1], one per stimulus.
        gamma: The observer answers where its abstention does not exceed this.

    Returns:
        The items and their mean, nan without items.

    Raises:
        InvalidInput: If a number is not in [0, 1].

    >>> coverage([0, 0, 1, 0]).value
    0.75
    """
    unit_interval([gamma], name="gamma")
    return Coverage((unit_interval(abstention, name="abstention") <= gamma).astype(np.float64))


@declare(
    "selective_risk",
    summary="Error rate among the images that an observer answers, at its own coverage or at a given one.",
    low=0,
    high=1,
    direction="lower",
    symmetric=None,
    needs=("abstention", "correctness"),
    citation="El-Yaniv & Wiener 2010, On the foundations of noise-free selective classification, JMLR",
)
def selective_risk(
    abstention: ArrayLike, correct: ArrayLike, *, at_coverage: float | None = None, gamma: float = 0.5
) -> SelectiveRisk:
    """Compute the error rate among the stimuli that an observer answers.

    Without `at_coverage` these are the stimuli with abstention <= gamma, so it is the point of an observer who decides
    for itself, such as a person who may refuse or run out of time. With `at_coverage` = c they are the c n stimuli with
    the lowest abstention, so it is a point of the curve of `risk_coverage`: how many errors a classifier would make if
    it answered as often as that person. Of stimuli with equal abstention, each is accepted with the same probability,
    and the expected risk is returned.

    Args:
        abstention: One number per stimulus, in any unit (1 - confidence, say) if `at_coverage` is given; infinite for a
            refusal, which is accepted at no coverage.
        correct: Whether the answer to each stimulus is right.
        at_coverage: The fraction of stimuli to accept, above 0 and at most 1.
        gamma: Without `at_coverage`, the observer answers where its abstention does not exceed this.

    Returns:
        The risk, and the fraction that is answered.

    Raises:
        InvalidInput: If an abstention is nan, a coverage is out of range, or the lengths differ.

    >>> selective_risk([0, 0, 1, 0], [1, 0, 0, 1]).value  # a person who refused once
    0.3333333333333333
    >>> selective_risk([0.1, 0.2, 0.6, 0.9], [1, 1, 0, 0], at_coverage=0.75).value
    0.3333333333333333
    """
    unit_interval([gamma], name="gamma")
    a, right = np.asarray(abstention, dtype=np.float64), correctness(correct, name="correct")
    if a.ndim != 1 or np.isnan(a).any() or (a == -np.inf).any():
        raise InvalidInput("abstention must be one number per stimulus, nan is none; leave such stimuli out")
    n = same_length(abstention=a, correct=right)
    if at_coverage is None:
        accepted = a <= gamma
        return SelectiveRisk(mean_or_nan((~right[accepted]).astype(np.float64)), mean_or_nan(accepted.astype(float)))
    if not 0 < at_coverage <= 1:
        raise InvalidInput(f"at_coverage must be above 0 and at most 1, got {at_coverage:g}")
    value = selective_risks(a, ~right, np.ones((1, n), dtype=np.float32), at_coverage)[0]
    return SelectiveRisk(float(value), at_coverage if math.isfinite(value) else math.nan)


def selective_risks(abstention: FloatArray, wrong: BoolArray, weights: Weights, at_coverage: float) -> FloatArray:
    """Compute the risk at a coverage on each resample of the stimuli.

    The errors among the accepted are a piecewise linear function of how many are accepted: within stimuli of equal
    abstention, errors are spread evenly.

    Args:
        abstention: (stimuli,), infinite for a refusal.
        wrong: (stimuli,), whether the answer is wrong.
        weights: (resamples, stimuli), how often each stimulus was drawn.
        at_coverage: The fraction of stimuli to accept.

    Returns:
        The risks, (resamples,); nan where fewer stimuli are answered than the coverage asks for.

    >>> weights = np.array([[1, 1, 1], [0, 2, 1]], dtype=np.float32)
    >>> selective_risks(np.array([0.1, 0.4, np.inf]), np.array([False, True, True]), weights, 2 / 3)
    array([0.5, 1. ])
    """
    levels, position = np.unique(abstention, return_inverse=True)
    order = np.argsort(position, kind="stable")
    starts = np.searchsorted(position[order], np.arange(len(levels)))
    drawn = weights[:, order].astype(np.float64)
    if not drawn.size:
        return np.full(len(weights), np.nan)
    accepted = np.add.reduceat(drawn, starts, axis=1).cumsum(axis=1)
    errors = np.add.reduceat(drawn * wrong[order], starts, axis=1).cumsum(axis=1)
    answered = np.isfinite(levels).sum()
    risks = np.full(len(weights), np.nan)
    for index, (counts, wrongs) in enumerate(zip(accepted, errors, strict=True)):
        wanted = at_coverage * counts[-1]
        if 0 < wanted <= (counts[answered - 1] if answered else 0) * (1 + _ROUNDING):
            risks[index] = np.interp(wanted, [0, *counts[:answered]], [0, *wrongs[:answered]]) / wanted
    return risks

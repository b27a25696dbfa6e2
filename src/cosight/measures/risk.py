"""How often does an observer err on the stimuli it is ready to answer?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cosight.arrays import FloatArray, correctness, finite, same_length
from cosight.measures.facts import declare

__all__ = ["RiskCoverage", "risk_coverage"]


@dataclass(frozen=True, slots=True, eq=False)
class RiskCoverage:
    """The share of errors among the accepted stimuli, as more of them are accepted; `value` is the area below."""

    value: float
    coverage: FloatArray  # (thresholds,) share accepted, ascending to 1
    risk: FloatArray  # (thresholds,) share of errors among the accepted
    threshold: FloatArray  # (thresholds,) accepted are those with abstention <= threshold


@declare(
    "risk_coverage",
    summary="Area under the risk-coverage curve (AURC): errors among the accepted, as the strangest are refused.",
    low=0,
    high=1,
    direction="lower",
    symmetric=None,
    needs=("abstention", "correctness"),
    citation="Geifman, Uziel & El-Yaniv 2019, Bias-reduced uncertainty estimation for deep neural classifiers, ICLR",
    aliases=("aurc",),
)
def risk_coverage(abstention: ArrayLike, correct: ArrayLike) -> RiskCoverage:
    """Risk-coverage curve and the area under it (AURC), abstention ascending.

    At each distinct threshold t, with A(t) = {i: abstention_i <= t}: coverage = |A| / n, risk = errors in A / |A|.
    Area = sum_t risk(t) * (coverage(t) - coverage(the threshold before)): without ties, the mean risk over the n
    coverages 1/n ... 1. Equal abstentions are accepted together, so the order of the rows never matters. Only the
    order of `abstention` does, so any strangeness may stand in for it, and 1 - confidence too.
    Source: Geifman et al. 2019 (who have no ties). Without items the curve is empty and the area nan.

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

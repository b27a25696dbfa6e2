"""Survey forms: do a form's items measure one thing, and how many people does an image need?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cosight.arrays import FloatArray, draw_weights, finite
from cosight.errors import InvalidInput
from cosight.measures.facts import declare
from cosight.measures.sums import divide

__all__ = [
    "CronbachAlpha",
    "RaterPlan",
    "cronbach_alpha",
    "cronbach_alpha_from_variances",
    "cronbach_alpha_resampled",
    "error_bound",
    "minimum_raters",
]

_ROUNDING = 1e-12  # relative; sums of some thousand float64 scores are off by less


@dataclass(frozen=True, slots=True, eq=False)
class CronbachAlpha:
    """How far the items of a form measure one thing."""

    value: float
    item_variance_sum: float
    total_variance: float
    items: FloatArray | None = None  # (items,), variance of each; None where only the sums are known
    n: int | None = None  # people


@dataclass(frozen=True, slots=True)
class RaterPlan:
    """How many people an image needs."""

    value: float  # before rounding up
    raters: int


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
    """Cronbach's alpha of complete forms, `scores` (people, items).

    alpha = N / (N - 1) (1 - sum_i Var(x_i) / Var(sum_i x_i)), N items, variances over n people with n - 1.
    Source: Cronbach (1951).

    nan with fewer than two items or two people, and when everybody has the same total.

    >>> round(cronbach_alpha([[1, 1], [0, 0], [1, 0]]).value, 3)
    0.667
    """
    table = _complete(scores)
    people = len(table)
    variances = table.var(axis=0, ddof=1) if people > 1 else np.full(table.shape[1], np.nan)
    total = float(table.sum(axis=1).var(ddof=1)) if people > 1 else math.nan
    value = float(_cronbach_from(np.ones((1, people)), table)[0])
    return CronbachAlpha(value, float(variances.sum()), total, variances, people)


def cronbach_alpha_resampled(scores: ArrayLike, weights: ArrayLike) -> FloatArray:
    """Cronbach's alpha for each row of `weights` (resamples, people), shape (resamples,); nan as in `cronbach_alpha`.

    >>> cronbach_alpha_resampled([[1, 1], [0, 0], [1, 0]], [[1, 1, 1], [2, 1, 0], [3, 0, 0]]).round(3)
    array([0.667, 1.   , nan])
    """
    table = _complete(scores)
    return _cronbach_from(draw_weights(weights, len(table), of="person"), table)


def cronbach_alpha_from_variances(items: int, item_variance_sum: float, total_variance: float) -> CronbachAlpha:
    """Cronbach's alpha of a published table: N items, the sum of their variances, the variance of people's totals.

    nan with fewer than two items or no variance of the totals. The sums of Lee et al. (2023, D.1):

    >>> round(cronbach_alpha_from_variances(100, 127.134, 976.564).value, 2)
    0.88
    """
    if not (item_variance_sum >= 0 and total_variance >= 0):
        raise InvalidInput(f"variances must not be negative, got {item_variance_sum} and {total_variance}")
    defined = items >= 2 and total_variance > 0
    value = items / (items - 1) * (1 - item_variance_sum / total_variance) if defined else math.nan
    return CronbachAlpha(value, item_variance_sum, total_variance)


def minimum_raters(error_bound: float, *, p: float, z: float = 2.0, plus_one: bool = False) -> RaterPlan:
    """How many people an image needs for a share near `p` to be known within `error_bound`.

    n >= z^2 p (1 - p) / error_bound^2, and one more with `plus_one`. Lee et al. (2023, F.4) derive the one more,
    drop it for simplicity, and round z = 1.96 to 2; `error_bound` undoes the form with `plus_one`.

    >>> plan = minimum_raters(0.05, p=1 / 11)
    >>> round(plan.value, 2), plan.raters
    (132.23, 133)
    """
    _check_share(p, z)
    if not 0 < error_bound < 1:
        raise InvalidInput(f"the error bound must lie between 0 and 1, got {error_bound}; 5 % is 0.05")
    value = z**2 * p * (1 - p) / error_bound**2 + (1 if plus_one else 0)
    return RaterPlan(value, math.ceil(round(value, 9)))  # rounded, lest 400.00000000000006 ask for 401 people


def error_bound(n: float, *, p: float, z: float = 2.0) -> float:
    """Half the width of the interval for a share near `p` after `n` people's answers.

    z sqrt(p (1 - p) / (n - 1)): with n - 1, from the unbiased variance, as in Lee et al. (2023, F.4, eq. 3).
    Their 134 people an image, planned for 5 % at p = 1/11, leave more at p = 1/2:

    >>> round(error_bound(134, p=1 / 11), 3), round(error_bound(134, p=0.5), 3)
    (0.05, 0.087)
    """
    _check_share(p, z)
    if not n > 1:
        raise InvalidInput(f"an error bound needs two people or more, got {n}")
    return z * math.sqrt(p * (1 - p) / (n - 1))


def _cronbach_from(weights: FloatArray, scores: FloatArray) -> FloatArray:
    """Alpha for every weight vector (resamples, people)."""
    items, n = scores.shape[1], weights.sum(axis=1)
    centred = scores - scores.mean(axis=0) if len(scores) else scores  # keeps the differences of squares accurate
    totals = centred.sum(axis=1)
    within = (weights @ centred**2).sum(axis=1) - divide(((weights @ centred) ** 2).sum(axis=1), n)
    overall = weights @ totals**2 - divide((weights @ totals) ** 2, n)
    # Equal totals leave a speck of variance from rounding: of the difference here, and of the sums before it.
    speck = _ROUNDING * (weights @ totals**2) + n * (_ROUNDING * np.abs(scores).sum(axis=1).max(initial=0.0)) ** 2
    kept = divide(within, np.where((overall > speck) & (items > 1), overall, 0.0))
    return np.asarray(items / max(items - 1, 1) * (1 - kept))


def _complete(scores: ArrayLike) -> FloatArray:
    table = np.asarray(scores, dtype=np.float64)
    if np.isnan(table).any():
        raise InvalidInput(
            f"alpha needs complete forms, got {np.isnan(table).sum()} missing scores; keep the people who answered "
            "every item, or use krippendorff_alpha"
        )
    return finite(table, name="scores", ndim=2)


def _check_share(p: float, z: float) -> None:
    if not 0 < p < 1:
        raise InvalidInput(f"p must lie between 0 and 1, got {p}; one over the number of classes is a common guess")
    if not z > 0:
        raise InvalidInput(f"z must be positive, got {z}; 1.96 or 2 give 95 %")

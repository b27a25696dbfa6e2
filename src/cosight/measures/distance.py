"""How far apart are two label distributions?

Distributions are arrays of shape (classes,) or (n, classes), one row an item, the classes in one order for both
observers, `abstain` among them where it is a class. By convention p is people's and q the model's. They are used as
given: sums that are off within the tolerance of `cosight.arrays.distributions` move a distance by about as much.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import entr, rel_entr

from cosight.arrays import BoolArray, FloatArray, correctness, distributions, same_length
from cosight.errors import InvalidInput
from cosight.measures.arithmetic import blocks
from cosight.measures.declarations import declare

__all__ = [
    "Distance",
    "LabelEntropy",
    "OutputConsistency",
    "distance_items",
    "entropy",
    "hellinger",
    "hellinger_printed",
    "jensen_shannon",
    "jensen_shannon_divergence",
    "kullback_leibler",
    "label_entropy",
    "soc_matrix",
    "softmax_output_consistency",
    "softmax_output_consistency_on_errors",
    "total_variation",
]


@dataclass(frozen=True, slots=True, eq=False)  # eq=False: two arrays have no single truth value
class Distance:
    """The distance of each item; `value` is their plain mean, nan without items."""

    items: FloatArray  # (n,)

    @property
    def value(self) -> float:
        """The mean over items."""
        return _mean(self.items)


@dataclass(frozen=True, slots=True, eq=False)
class LabelEntropy:
    """The entropy of each item in nats; `value` is their plain mean, nan without items."""

    items: FloatArray  # (n,)

    @property
    def value(self) -> float:
        """The mean over items."""
        return _mean(self.items)


@declare(
    "hellinger",
    summary="Hellinger distance of two label distributions, mean over items.",
    low=0,
    high=1,
    direction="lower",
    symmetric=True,
    needs=("distributions",),
    citation="Nikulin 2001, Hellinger distance; Lee et al. 2023, VisAlign, section 4.1",
)
def hellinger(p: ArrayLike, q: ArrayLike) -> Distance:
    """Hellinger distance, ||sqrt(p) - sqrt(q)||_2 / sqrt(2).

    Against a one-hot p it sees only the share q gives to that class: sqrt(1 - sqrt(share)).
    Source: Nikulin 2001; the form behind the tables of Lee et al. 2023 (VisAlign). `value` is nan without items.

    >>> round(hellinger([1, 0, 0], [0.3, 0, 0.7]).value, 5)
    0.67252
    """
    return Distance(_hellinger(*_pair(p, q)))


@declare(
    "hellinger_printed",
    summary="Eq. 1 of VisAlign as printed: the Hellinger distance with the sum outside the norm.",
    low=0,
    high=math.inf,
    direction="lower",
    symmetric=True,
    needs=("distributions",),
    citation="Lee et al. 2023, VisAlign, Eq. 1",
    aliases=("hellinger_eq1",),
)
def hellinger_printed(p: ArrayLike, q: ArrayLike) -> Distance:
    """Equation 1 of VisAlign to the letter, sum_i |sqrt(p_i) - sqrt(q_i)| / sqrt(2).

    The norm is taken of one number at a time, so it is an absolute value. The result tells apart how the wrong share
    is spread, and exceeds 1: up to sqrt(classes) for two distributions without a common class.
    Source: Lee et al. 2023, Eq. 1; no table there is made with it. `value` is nan without items.

    >>> round(hellinger_printed([1, 0, 0], [0.3, 0.4, 0.3]).value, 5)
    1.15432
    """
    return Distance(_hellinger_printed(*_pair(p, q)))


@declare(
    "total_variation",
    summary="Total variation of two label distributions, mean over items.",
    low=0,
    high=1,
    direction="lower",
    symmetric=True,
    needs=("distributions",),
    citation="Levin, Peres & Wilmer 2009, Markov Chains and Mixing Times, Proposition 4.2",
    aliases=("tv",),
)
def total_variation(p: ArrayLike, q: ArrayLike) -> Distance:
    """Total variation, sum_i |p_i - q_i| / 2: the most that any event's probability can differ.

    Source: Levin, Peres & Wilmer 2009, Proposition 4.2. `value` is nan without items.

    >>> total_variation([1, 0], [0.25, 0.75]).value
    0.75
    """
    return Distance(_total_variation(*_pair(p, q)))


@declare(
    "jensen_shannon",
    summary="Jensen-Shannon divergence of two label distributions in nats, mean over items.",
    low=0,
    high=math.log(2),
    direction="lower",
    symmetric=True,
    needs=("distributions",),
    citation="Lin 1991, Divergence measures based on the Shannon entropy, IEEE Transactions on Information Theory 37",
    aliases=("js", "jsd"),
)
def jensen_shannon(p: ArrayLike, q: ArrayLike) -> Distance:
    """Jensen-Shannon divergence in nats, KL(p, m) / 2 + KL(q, m) / 2 with m = (p + q) / 2.

    The divergence, not its square root (which is the metric). Source: Lin 1991. `value` is nan without items.

    >>> round(jensen_shannon([1, 0], [0, 1]).value, 6)
    0.693147
    """
    return Distance(jensen_shannon_divergence(*_pair(p, q)))


@declare(
    "kullback_leibler",
    summary="Kullback-Leibler divergence of the model's from people's label distribution in nats, mean over items.",
    low=0,
    high=math.inf,
    direction="lower",
    symmetric=False,
    needs=("distributions",),
    citation="Kullback & Leibler 1951, On information and sufficiency, Annals of Mathematical Statistics 22",
    aliases=("kl",),
)
def kullback_leibler(p: ArrayLike, q: ArrayLike) -> Distance:
    """Kullback-Leibler divergence in nats, sum_i p_i log(p_i / q_i); p is people's, q the model's.

    Infinite for an item where the model gives no probability to a class that people chose (q_i = 0 < p_i), and then
    `value` is infinite too; a class with p_i = 0 adds nothing. Where sums are off by rounding, sum(q) - sum(p) is
    added, which keeps the result from falling below 0. Source: Kullback & Leibler 1951. `value` is nan without items.

    >>> round(kullback_leibler([1, 0], [0.5, 0.5]).value, 6)
    0.693147
    >>> kullback_leibler([0.5, 0.5], [1, 0]).value
    inf
    """
    return Distance(_relative_entropy(*_pair(p, q)))


@declare(
    "label_entropy",
    summary="Entropy of an observer's label distributions in nats, mean over items.",
    low=0,
    high=math.inf,
    direction="neither",
    symmetric=None,
    needs=("distributions",),
    citation="Shannon 1948, A mathematical theory of communication, Bell System Technical Journal 27",
)
def label_entropy(p: ArrayLike) -> LabelEntropy:
    """Shannon entropy of one observer's label distributions in nats, -sum_i p_i log(p_i), with 0 log 0 = 0.

    From 0 (one answer only) to log(classes) (all answers alike). Source: Shannon 1948. `value` is nan without items.

    >>> label_entropy([[1, 0], [0.5, 0.5]]).items.round(6)
    array([0.      , 0.693147])
    """
    return LabelEntropy(entropy(_rows(p, name="p")))


def entropy(p: FloatArray) -> FloatArray:
    """Shannon entropy in nats over the last axis, 0 log 0 = 0; the input is not checked.

    >>> entropy(np.array([0.5, 0.5, 0.0])).round(6)
    np.float64(0.693147)
    """
    result: FloatArray = entr(p).sum(axis=-1)
    return result


def jensen_shannon_divergence(p: FloatArray, q: FloatArray) -> FloatArray:
    """Jensen-Shannon divergence in nats over the last axis (Lin 1991); the input is not checked.

    >>> jensen_shannon_divergence(np.array([1.0, 0.0]), np.array([[1.0, 0.0], [0.0, 1.0]])).round(6)
    array([0.      , 0.693147])
    """
    total = p + q  # twice the midpoint: halving would turn the smallest floats to 0, and the logarithm to infinity
    return (_relative_entropy(2 * p, total) + _relative_entropy(2 * q, total)) / 4


def _hellinger(p: FloatArray, q: FloatArray) -> FloatArray:
    apart = np.sqrt(p) - np.sqrt(q)
    result: FloatArray = np.sqrt(np.einsum("...i,...i->...", apart, apart) / 2)
    return result


def _hellinger_printed(p: FloatArray, q: FloatArray) -> FloatArray:
    result: FloatArray = np.abs(np.sqrt(p) - np.sqrt(q)).sum(axis=-1) / math.sqrt(2)
    return result


def _total_variation(p: FloatArray, q: FloatArray) -> FloatArray:
    result: FloatArray = np.abs(p - q).sum(axis=-1) / 2
    return result


def _relative_entropy(p: FloatArray, q: FloatArray) -> FloatArray:
    # q - p sums to 0 for distributions and makes every term non-negative, so rounding cannot leave a negative sum
    result: FloatArray = (rel_entr(p, q) + (q - p)).sum(axis=-1)
    return result


def _mean(items: FloatArray) -> float:
    return float(items.mean()) if items.size else math.nan


def _rows(values: ArrayLike, *, name: str) -> FloatArray:
    array = distributions(values, name=name)
    if array.ndim > 2:
        raise InvalidInput(f"{name} must have shape (classes,) or (n, classes), got {array.shape}; flatten it first")
    return np.atleast_2d(array)


def _pair(p: ArrayLike, q: ArrayLike) -> tuple[FloatArray, FloatArray]:
    if np.shape(p) != np.shape(q):
        raise InvalidInput(
            f"p and q must have one shape, got {np.shape(p)} and {np.shape(q)}; repeat or select rows first"
        )
    return _rows(p, name="p"), _rows(q, name="q")


# The same distances over the last axis of plain arrays, which may broadcast; the input is not checked.
distance_items: dict[str, Callable[[FloatArray, FloatArray], FloatArray]] = {
    "hellinger": _hellinger,
    "hellinger_printed": _hellinger_printed,
    "total_variation": _total_variation,
    "jensen_shannon": jensen_shannon_divergence,
    "kullback_leibler": _relative_entropy,
}

_BLOCK = 1 << 20  # numbers in one intermediate array: 8 MB


@dataclass(frozen=True, slots=True, eq=False)
class OutputConsistency:
    """Jensen-Shannon divergence of each trial in nats, nan where the trial does not count."""

    items: FloatArray

    @property
    def value(self) -> float:
        """Mean over the trials that count; nan without any."""
        return float(np.nanmean(self.items)) if self.n else math.nan

    @property
    def n(self) -> int:
        """Trials that count."""
        return int(np.count_nonzero(~np.isnan(self.items)))


@declare(
    "softmax_output_consistency",
    summary="Mean Jensen-Shannon divergence of two models' softmax outputs, in nats.",
    low=0.0,
    high=math.log(2),
    direction="lower",
    symmetric=True,
    needs=("distributions",),
    citation="Xu et al. 2024, section 3.1",
    aliases=("soc",),
)
def softmax_output_consistency(p: ArrayLike, q: ArrayLike) -> OutputConsistency:
    """SOC: mean over trials of JSD(p_i, q_i) in nats; p and q of shape (trials, classes) (Xu et al. 2024).

    0 for equal outputs, ln 2 for outputs that share no class: lower is more alike. Undefined (nan) without trials.

    >>> round(softmax_output_consistency([[1, 0], [0.5, 0.5]], [[0, 1], [0.5, 0.5]]).value, 4)
    0.3466
    """
    return OutputConsistency(jensen_shannon_divergence(*_outputs(p, q)))


@declare(
    "softmax_output_consistency_on_errors",
    summary="Mean Jensen-Shannon divergence of two models' softmax outputs where both are wrong, in nats.",
    low=0.0,
    high=math.log(2),
    direction="lower",
    symmetric=True,
    needs=("distributions", "correctness"),
    citation="Xu et al. 2024, section 3.1",
    aliases=("soce",),
)
def softmax_output_consistency_on_errors(
    p: ArrayLike, q: ArrayLike, a_correct: ArrayLike, b_correct: ArrayLike
) -> OutputConsistency:
    """SOCE: `softmax_output_consistency` over the trials both got wrong (Xu et al. 2024).

    `items` keeps one entry a trial, nan where either was right. Undefined (`value` is nan) without joint errors.

    >>> p, q = [[1, 0], [0.5, 0.5]], [[0, 1], [0.5, 0.5]]
    >>> softmax_output_consistency_on_errors(p, q, [1, 0], [0, 0]).items.tolist()
    [nan, 0.0]
    """
    one, other = _outputs(p, q)
    a, b = correctness(a_correct, name="a_correct"), correctness(b_correct, name="b_correct")
    same_length(p=one, a_correct=a, b_correct=b)
    items = np.full(len(one), np.nan)
    wrong = ~(a | b)
    items[wrong] = jensen_shannon_divergence(one[wrong], other[wrong])
    return OutputConsistency(items)


def soc_matrix(probabilities: ArrayLike, correct: ArrayLike | None = None) -> FloatArray:
    """SOC of every two of m models, or SOCE where `correct` (m, n) is given: (m, n, k) to (m, m).

    Trials are read a block at a time, so that a memory-mapped array or one of float32 is never copied whole.
    Undefined (nan) without trials, or for two models without joint errors; a model against itself is 0.

    >>> soc_matrix([[[1, 0], [0.5, 0.5]], [[0, 1], [0.5, 0.5]]]).round(4).tolist()
    [[0.0, 0.3466], [0.3466, 0.0]]
    """
    outputs = np.asanyarray(probabilities)
    if outputs.ndim != 3:
        raise InvalidInput(f"probabilities must have shape (models, trials, classes), got {outputs.shape}")
    m, n, classes = outputs.shape
    counts = _counted(correct, m, n)
    total = np.zeros((m, m))
    for block in blocks(n, m * classes, most=_BLOCK):
        total += _soc_sums(distributions(outputs[:, block]), counts[:, block])
    trials = counts.astype(np.float64) @ counts.T
    means: FloatArray = np.divide(total, trials, out=np.full((m, m), np.nan), where=trials > 0)
    return means


def _outputs(p: ArrayLike, q: ArrayLike) -> tuple[FloatArray, FloatArray]:
    one, other = distributions(p, name="p"), distributions(q, name="q")
    if one.ndim != 2 or one.shape != other.shape:
        raise InvalidInput(f"p and q must have one shape (trials, classes), got {one.shape} and {other.shape}")
    return one, other


def _counted(correct: ArrayLike | None, m: int, n: int) -> BoolArray:
    """Which trials count for each model, (m, n): all, or those it got wrong."""
    if correct is None:
        return np.ones((m, n), dtype=np.bool_)
    array = np.asarray(correct)
    if array.shape != (m, n):
        raise InvalidInput(f"correct must have shape (models, trials) = ({m}, {n}), got {array.shape}")
    return ~correctness(array.ravel(), name="correct").reshape(m, n)


def _soc_sums(outputs: FloatArray, counts: BoolArray) -> FloatArray:
    """Sum over the trials both models count of their divergence: (m, b, k) and (m, b) to (m, m)."""
    sums = np.zeros((len(outputs), len(outputs)))
    for i, mine in enumerate(counts):
        items = jensen_shannon_divergence(outputs[i, mine], outputs[i:, mine])  # (m - i, trials i counts)
        sums[i, i:] = sums[i:, i] = np.where(counts[i:, mine], items, 0.0).sum(axis=1)
    return sums

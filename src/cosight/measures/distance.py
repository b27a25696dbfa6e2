"""How far apart are two label distributions? Distances, entropy, and the consistency of two models' softmax outputs.

Distributions are arrays of shape (classes,) or (n, classes), one row per item, the classes in one order for both
observers, `abstain` among them where it is a class. By convention p is people's and q the model's. They are used as
they are: sums that are off within the tolerance of `cosight.arrays.distributions` move a distance by about as much.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import entr, rel_entr

from cosight.arrays import FloatArray, correctness, distributions, same_length
from cosight.errors import InvalidInput
from cosight.measures.arithmetic import blocks, divide, mean_or_nan
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


_BLOCK = 1 << 20  # numbers in one intermediate array: 8 MB


@dataclass(frozen=True, slots=True, eq=False)  # eq=False: two arrays have no single truth value
class Distance:
    """The distance of each item; `value` is their plain mean, nan without items."""

    items: FloatArray  # (n,)

    @property
    def value(self) -> float:
        """The mean over items."""
        return mean_or_nan(self.items)


@dataclass(frozen=True, slots=True, eq=False)
class LabelEntropy:
    """The entropy of each item in nats; `value` is their plain mean, nan without items."""

    items: FloatArray  # (n,)

    @property
    def value(self) -> float:
        """The mean over items."""
        return mean_or_nan(self.items)


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
    """Compute the Hellinger distance, ||sqrt(p) - sqrt(q)||_2 / sqrt(2).

    For a one-hot p it depends only on the probability that q gives to that class: sqrt(1 - sqrt(q_c)).
    Source: Nikulin 2001; the form behind the tables of Lee et al. 2023 (VisAlign).

    Args:
        p: People's distributions, (classes,) or (n, classes).
        q: The model's, same shape.

    Returns:
        The distance of each item and their mean, nan without items.

    Raises:
        InvalidInput: If a row is not a distribution, or the shapes differ.

    >>> round(hellinger([1, 0, 0], [0.3, 0, 0.7]).value, 5)
    0.67252
    """
    return Distance(_hellinger(*_check_pair(p, q)))


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
    """Compute Equation 1 of VisAlign as it is printed, sum_i |sqrt(p_i) - sqrt(q_i)| / sqrt(2).

    The norm is taken of one number at a time, so it is an absolute value. The result depends on how the probability of
    wrong classes is spread, and exceeds 1: up to sqrt(classes) for two distributions without a common class.
    Source: Lee et al. 2023, Eq. 1; no table there is made with it.

    Args:
        p: People's distributions, (classes,) or (n, classes).
        q: The model's, same shape.

    Returns:
        The distance of each item and their mean, nan without items.

    Raises:
        InvalidInput: If a row is not a distribution, or the shapes differ.

    >>> round(hellinger_printed([1, 0, 0], [0.3, 0.4, 0.3]).value, 5)
    1.15432
    """
    return Distance(_hellinger_printed(*_check_pair(p, q)))


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
    """Compute the total variation, sum_i |p_i - q_i| / 2: the most that any event's probability can differ.

    Source: Levin, Peres & Wilmer 2009, Proposition 4.2.

    Args:
        p: People's distributions, (classes,) or (n, classes).
        q: The model's, same shape.

    Returns:
        The distance of each item and their mean, nan without items.

    Raises:
        InvalidInput: If a row is not a distribution, or the shapes differ.

    >>> total_variation([1, 0], [0.25, 0.75]).value
    0.75
    """
    return Distance(_total_variation(*_check_pair(p, q)))


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
    """Compute the Jensen-Shannon divergence in nats, KL(p, m) / 2 + KL(q, m) / 2 with m = (p + q) / 2.

    The divergence, not its square root (which is the metric). Source: Lin 1991.

    Args:
        p: People's distributions, (classes,) or (n, classes).
        q: The model's, same shape.

    Returns:
        The distance of each item and their mean, nan without items.

    Raises:
        InvalidInput: If a row is not a distribution, or the shapes differ.

    >>> round(jensen_shannon([1, 0], [0, 1]).value, 6)
    0.693147
    """
    return Distance(jensen_shannon_divergence(*_check_pair(p, q)))


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
    """Compute the Kullback-Leibler divergence in nats, sum_i p_i log(p_i / q_i).

    Infinite for an item where the model gives no probability to a class that people chose (q_i = 0 < p_i), and then
    `value` is infinite too; a class with p_i = 0 adds nothing. Where sums are off by rounding, sum(q) - sum(p) is
    added, which keeps the result from falling below 0. Source: Kullback & Leibler 1951.

    Args:
        p: People's distributions, (classes,) or (n, classes).
        q: The model's, same shape.

    Returns:
        The distance of each item and their mean, nan without items.

    Raises:
        InvalidInput: If a row is not a distribution, or the shapes differ.

    >>> round(kullback_leibler([1, 0], [0.5, 0.5]).value, 6)
    0.693147
    >>> kullback_leibler([0.5, 0.5], [1, 0]).value
    inf
    """
    return Distance(_relative_entropy(*_check_pair(p, q)))


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
    """Compute the Shannon entropy of one observer's label distributions in nats, -sum_i p_i log(p_i), 0 log 0 = 0.

    From 0 (one answer only) to log(classes) (all answers equally probable). Source: Shannon 1948.

    Args:
        p: Distributions, (classes,) or (n, classes).

    Returns:
        The entropy of each item and their mean, nan without items.

    Raises:
        InvalidInput: If a row is not a distribution.

    >>> label_entropy([[1, 0], [0.5, 0.5]]).items.round(6)
    array([0.      , 0.693147])
    """
    return LabelEntropy(entropy(_check_rows(p, name="p")))


def entropy(p: FloatArray) -> FloatArray:
    """Compute the Shannon entropy in nats over the last axis, 0 log 0 = 0, without checks of the input.

    Args:
        p: Distributions, (..., classes).

    Returns:
        The entropies, (...).

    >>> entropy(np.array([0.5, 0.5, 0.0])).round(6)
    np.float64(0.693147)
    """
    result: FloatArray = entr(p).sum(axis=-1)
    return result


def jensen_shannon_divergence(p: FloatArray, q: FloatArray) -> FloatArray:
    """Compute the Jensen-Shannon divergence in nats over the last axis (Lin 1991), without checks of the input.

    Args:
        p: Distributions, (..., classes).
        q: Distributions of a shape that broadcasts with that of p.

    Returns:
        The divergences, (...).

    >>> jensen_shannon_divergence(np.array([1.0, 0.0]), np.array([[1.0, 0.0], [0.0, 1.0]])).round(6)
    array([0.      , 0.693147])
    """
    total = p + q  # twice the midpoint: halving would turn the smallest floats to 0, and the logarithm to infinity
    return (_relative_entropy(2 * p, total) + _relative_entropy(2 * q, total)) / 4


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
    """Compute SOC: the mean over trials of the Jensen-Shannon divergence of two models' softmax outputs, in nats.

    0 for equal outputs, ln 2 for outputs without a common class: lower is more alike. Source: Xu et al. 2024.

    Args:
        p: Softmax outputs of the first model, (trials, classes).
        q: Those of the second, same shape.

    Returns:
        The divergence of each trial and their mean, nan without trials.

    Raises:
        InvalidInput: If a row is not a distribution, or the shapes differ.

    >>> round(softmax_output_consistency([[1, 0], [0.5, 0.5]], [[0, 1], [0.5, 0.5]]).value, 4)
    0.3466
    """
    return OutputConsistency(jensen_shannon_divergence(*_check_outputs(p, q)))


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
    """Compute SOCE: `softmax_output_consistency` over the trials that both got wrong (Xu et al. 2024).

    Args:
        p: Softmax outputs of the first model, (trials, classes).
        q: Those of the second, same shape.
        a_correct: Whether the first model is right, one value per trial.
        b_correct: The same for the second.

    Returns:
        One item per trial, nan where either model was right, and their mean, nan without joint errors.

    Raises:
        InvalidInput: If a row is not a distribution, or the shapes differ.

    >>> p, q = [[1, 0], [0.5, 0.5]], [[0, 1], [0.5, 0.5]]
    >>> softmax_output_consistency_on_errors(p, q, [1, 0], [0, 0]).items.tolist()
    [nan, 0.0]
    """
    one, other = _check_outputs(p, q)
    a, b = correctness(a_correct, name="a_correct"), correctness(b_correct, name="b_correct")
    same_length(p=one, a_correct=a, b_correct=b)
    items = np.full(len(one), np.nan)
    wrong = ~(a | b)
    items[wrong] = jensen_shannon_divergence(one[wrong], other[wrong])
    return OutputConsistency(items)


def soc_matrix(probabilities: ArrayLike, correct: ArrayLike | None = None) -> FloatArray:
    """Compute SOC of every two of m models, or SOCE where `correct` is given.

    Trials are read a block at a time, so that a memory-mapped array or one of float32 is never copied as a whole.

    Args:
        probabilities: Softmax outputs, (models, trials, classes).
        correct: Whether each model is right, (models, trials): only trials that both got wrong are compared.

    Returns:
        A matrix (models, models), 0 on the diagonal; nan without trials, or for two models without joint errors.

    Raises:
        InvalidInput: If a row is not a distribution, or the shapes differ.

    >>> soc_matrix([[[1, 0], [0.5, 0.5]], [[0, 1], [0.5, 0.5]]]).round(4).tolist()
    [[0.0, 0.3466], [0.3466, 0.0]]
    """
    outputs = np.asanyarray(probabilities)
    if outputs.ndim != 3:
        raise InvalidInput(f"probabilities must have shape (models, trials, classes), got {outputs.shape}")
    m, n, classes = outputs.shape
    used = np.ones((m, n), dtype=np.bool_)  # trials to compare, per model
    if correct is not None:
        right = np.asarray(correct)
        if right.shape != (m, n):
            raise InvalidInput(f"correct must have shape (models, trials) = ({m}, {n}), got {right.shape}")
        used = ~correctness(right.ravel(), name="correct").reshape(m, n)
    total = np.zeros((m, m))
    for block in blocks(n, m * classes, most=_BLOCK):
        p, at = distributions(outputs[:, block]), used[:, block]
        sums = np.zeros((m, m))
        for i, own in enumerate(at):
            items = jensen_shannon_divergence(p[i, own], p[i:, own])  # (m - i, trials of model i)
            sums[i, i:] = sums[i:, i] = np.where(at[i:, own], items, 0.0).sum(axis=1)
        total += sums
    return divide(total, used.astype(np.float64) @ used.T)


def _hellinger(p: FloatArray, q: FloatArray) -> FloatArray:
    difference = np.sqrt(p) - np.sqrt(q)
    result: FloatArray = np.sqrt(np.einsum("...i,...i->...", difference, difference) / 2)
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


def _check_rows(values: ArrayLike, *, name: str) -> FloatArray:
    array = distributions(values, name=name)
    if array.ndim > 2:
        raise InvalidInput(f"{name} must have shape (classes,) or (n, classes), got {array.shape}; flatten it first")
    return np.atleast_2d(array)


def _check_pair(p: ArrayLike, q: ArrayLike) -> tuple[FloatArray, FloatArray]:
    if np.shape(p) != np.shape(q):
        raise InvalidInput(
            f"p and q must have one shape, got {np.shape(p)} and {np.shape(q)}; repeat or select rows first"
        )
    return _check_rows(p, name="p"), _check_rows(q, name="q")


def _check_outputs(p: ArrayLike, q: ArrayLike) -> tuple[FloatArray, FloatArray]:
    one, other = distributions(p, name="p"), distributions(q, name="q")
    if one.ndim != 2 or one.shape != other.shape:
        raise InvalidInput(f"p and q must have one shape (trials, classes), got {one.shape} and {other.shape}")
    return one, other


# The same distances over the last axis of arrays, which may broadcast, without checks of the input.
distance_items: dict[str, Callable[[FloatArray, FloatArray], FloatArray]] = {
    "hellinger": _hellinger,
    "hellinger_printed": _hellinger_printed,
    "total_variation": _total_variation,
    "jensen_shannon": jensen_shannon_divergence,
    "kullback_leibler": _relative_entropy,
}

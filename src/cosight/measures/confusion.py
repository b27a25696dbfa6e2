"""Which classes do two observers confuse? Confusion matrices and class-level error similarity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cosight.arrays import FloatArray
from cosight.errors import InvalidInput
from cosight.measures.answers import Answers, encode
from cosight.measures.arithmetic import BLOCK, Pairs, Weights, blocks, divide, summed
from cosight.measures.declarations import PairForm, declare, pair_forms

__all__ = [
    "ClassLevelErrorSimilarity",
    "Midpoint",
    "class_level_error_distance_printed",
    "class_level_error_similarity",
    "class_level_error_similarity_matrix",
    "class_level_error_similarity_pooled",
    "class_level_error_similarity_resampled",
    "confusion_matrix",
]

Midpoint = Literal["mean", "pooled"]

_ALPHA = 0.5  # Dirichlet prior of the error rows, Xu et al. 2024, footnote 3


def confusion_matrix(response: ArrayLike, truth: ArrayLike, *, classes: ArrayLike | None = None) -> FloatArray:
    """Counts of (true class, answer); (classes, classes + 1), the last column for missing answers.

    Classes in the order of `classes`, or sorted where that is None.

    >>> confusion_matrix(["a", "b", None], ["a", "a", "b"])
    array([[1., 1., 0.],
           [0., 0., 1.]])
    """
    answers = encode(response, truth=truth, classes=classes, names=("response",))
    k = answers.classes
    said = np.where(answers.response[0] < 0, k, answers.response[0])
    cells = answers.truth.astype(np.int64) * (k + 1) + said
    return np.bincount(cells, minlength=k * (k + 1)).reshape(k, k + 1).astype(np.float64)


@dataclass(frozen=True, slots=True)
class ClassLevelErrorSimilarity:
    """Similarity of two observers' error distributions over classes."""

    value: float  # CLES = 1 / (1 + distance); of the printed form, the distance itself
    distance: float  # CLED
    items: FloatArray  # divergence of each true class, before weighting; (classes,)
    weights: FloatArray  # (classes,), sum 1; of the printed form, the errors of both
    n: int  # errors of both


@declare(
    "class_level_error_similarity",
    summary="Do two observers confuse the same classes? No shared trials needed.",
    low=1 / (1 + float(np.log(2))),
    high=1,
    direction="higher",
    symmetric=True,
    needs=("responses", "truth"),
    citation="Xu et al. 2024, AAAI-25; weights normalised and alpha over the k - 1 wrong classes",
    aliases=("cles",),
)
def class_level_error_similarity(
    a: ArrayLike,
    b: ArrayLike,
    truth: ArrayLike,
    *,
    midpoint: Midpoint = "mean",
    alpha: float = _ALPHA,
    classes: ArrayLike | None = None,
) -> ClassLevelErrorSimilarity:
    """CLES = 1 / (1 + CLED), CLED = sum over true classes c of w_c JSD_c.

    JSD_c is the Jensen-Shannon divergence (nats) between the two observers' answers to class c when wrong: the
    k - 1 wrong cells of the confusion row, `alpha` added to each, normalised. w_c is the share of both observers'
    errors that falls on c. `midpoint="pooled"` compares each with the posterior of the pooled counts instead of
    the mean of the two, as the released numbers do; then CLES(A, A) < 1.

    Missing answers are left out. Undefined (nan) without any error and with fewer than two classes. `classes`
    matters: a class that never occurs is still a way to be wrong. Default: every class seen.

    >>> class_level_error_similarity(["b", "c"], ["b", "c"], ["a", "a"]).value
    1.0
    """
    answers = encode(a, b, truth=truth, classes=classes, names=("a", "b"))
    if not 0 < alpha < np.inf:
        raise InvalidInput(
            f"alpha must be positive and finite, got {alpha}; a row without errors has no distribution otherwise"
        )
    a_errors, b_errors = _error_counts(answers)
    return _similarity(a_errors, b_errors, alpha, midpoint)


@declare(
    "class_level_error_similarity_pooled",
    summary="CLES against the posterior of the pooled counts, as the released numbers of the paper.",
    low=0,
    high=1,
    direction="higher",
    symmetric=True,
    needs=("responses", "truth"),
    citation="released numbers of Xu et al. 2024, AAAI-25",
    aliases=("cles_pooled",),
)
def class_level_error_similarity_pooled(
    a: ArrayLike, b: ArrayLike, truth: ArrayLike, *, classes: ArrayLike | None = None
) -> ClassLevelErrorSimilarity:
    """`class_level_error_similarity(..., midpoint="pooled")`; undefined where that is.

    >>> round(class_level_error_similarity_pooled(["b", "b"], ["b", "b"], ["a", "a"], classes=list("abc")).value, 4)
    0.9794
    """
    return class_level_error_similarity(a, b, truth, midpoint="pooled", classes=classes)


@declare(
    "class_level_error_distance_printed",
    summary="CLED as Eq. 2 prints it: raw error counts as weights, alpha over all classes.",
    low=0,
    high=float("inf"),
    direction="lower",
    symmetric=True,
    needs=("responses", "truth"),
    citation="Xu et al. 2024, AAAI-25, Eq. 2",
    aliases=("cled_printed",),
)
def class_level_error_distance_printed(
    a: ArrayLike, b: ArrayLike, truth: ArrayLike, *, classes: ArrayLike | None = None
) -> ClassLevelErrorSimilarity:
    """CLED with w_c = number of errors of both on class c, and alpha added to all C cells of a row.

    It grows with the number of trials; `value` is this distance, not a similarity. nan without any error.

    >>> round(class_level_error_distance_printed(["b", "c"], ["b", "b"], ["a", "a"]).value, 4)
    0.2217
    """
    answers = encode(a, b, truth=truth, classes=classes, names=("a", "b"))
    a_errors, b_errors = _with_diagonal(_error_counts(answers))
    printed = _similarity(a_errors, b_errors, _ALPHA, "mean")
    distance = printed.distance * printed.n
    return ClassLevelErrorSimilarity(distance, distance, printed.items, printed.weights * printed.n, printed.n)


def class_level_error_similarity_matrix(answers: Answers, *, midpoint: Midpoint = "mean") -> FloatArray:
    """CLES of all pairs from each observer's own errors, whichever stimuli they were made on; nan without errors."""
    return _matrix(lambda pairs: 1 / (1 + _distances(_error_counts(answers)[:, None], pairs, midpoint)), answers)


def class_level_error_similarity_resampled(
    answers: Answers, weights: Weights, pairs: Pairs, *, midpoint: Midpoint = "mean"
) -> FloatArray:
    """CLES for each pair and resample; (pairs, resamples)."""
    return 1 / (1 + _resampled(lambda counts: _distances(counts, pairs, midpoint), answers, weights, pairs))


def _matrix(pairwise: Callable[[Pairs], FloatArray], answers: Answers) -> FloatArray:
    """A symmetric matrix from the values (pairs, 1) of its upper half."""
    i, j = np.triu_indices(answers.observers)
    out = np.empty((answers.observers, answers.observers))
    out[i, j] = out[j, i] = pairwise(np.stack([i, j], axis=1))[:, 0]
    return out


def _resampled(
    pairwise: Callable[[FloatArray], FloatArray], answers: Answers, weights: Weights, pairs: Pairs
) -> FloatArray:
    """Values (pairs, resamples) from error counts, some resamples at a time."""
    some = blocks(len(weights), answers.observers * answers.classes**2, most=BLOCK)
    parts = [pairwise(_weighted_error_counts(answers, weights[block])) for block in some]
    return np.concatenate(parts, axis=1) if parts else np.empty((len(pairs), 0))


def _error_cells(answers: Answers) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For every error its cell (observer, true class, wrong class but the diagonal) as one number, and its stimulus."""
    row, stimulus = np.divmod(np.flatnonzero(answers.wrong), max(answers.stimuli, 1))
    true = answers.truth[stimulus].astype(np.int64)
    said = answers.response[row, stimulus] - (answers.response[row, stimulus] > true)
    return (row * answers.classes + true) * (answers.classes - 1) + said, stimulus


def _error_counts(answers: Answers) -> FloatArray:
    """How often each wrong answer was given to each true class; (observers, classes, classes - 1)."""
    shape = (answers.observers, answers.classes, max(answers.classes - 1, 0))
    return np.bincount(_error_cells(answers)[0], minlength=int(np.prod(shape))).reshape(shape).astype(np.float64)


def _weighted_error_counts(answers: Answers, weights: Weights) -> FloatArray:
    """`_error_counts` of each resample; (observers, resamples, classes, classes - 1)."""
    shape = (answers.observers, answers.classes, max(answers.classes - 1, 0))
    counts = summed(*_error_cells(answers), np.ascontiguousarray(weights.T), int(np.prod(shape)))
    return np.moveaxis(counts.reshape(*shape, len(weights)), 3, 1)


def _with_diagonal(counts: FloatArray) -> FloatArray:
    """Error counts with an empty last cell: no error falls on the diagonal, but the printed alpha does."""
    return np.concatenate([counts, np.zeros((*counts.shape[:-1], 1))], axis=-1)


def _distances(counts: FloatArray, pairs: Pairs, midpoint: Midpoint, *, raw: bool = False) -> FloatArray:
    """CLED of the pairs, (pairs, resamples), from counts (observers, resamples, classes, cells).

    `raw` weighs with error counts, as printed, instead of shares.
    """
    out = np.empty((len(pairs), counts.shape[1]))
    everyone = _Shares.of(counts, _ALPHA)
    for block in blocks(len(pairs), int(np.prod(counts.shape[1:])), most=BLOCK // 8):
        i, j = pairs[block].T
        divergence, weights, n = _divergences(everyone, i, j, midpoint)
        distance = np.where(n > 0, (divergence * weights).sum(axis=-1), np.nan)
        out[block] = distance * n if raw else distance
    return out


def _similarity(a: FloatArray, b: FloatArray, alpha: float, midpoint: Midpoint) -> ClassLevelErrorSimilarity:
    """CLES of one pair from its error counts (classes, cells)."""
    divergence, weights, n = _divergences(_Shares.of(np.stack([a, b]), alpha), 0, 1, midpoint)
    distance = float((divergence * weights).sum()) if n > 0 else float("nan")
    return ClassLevelErrorSimilarity(1 / (1 + distance), distance, divergence, weights, int(n))


@dataclass(frozen=True, slots=True, eq=False)
class _Shares:
    """What a pair takes from each of its observers alone, computed once, however many pairs they are in."""

    counts: FloatArray  # (observers, ..., classes, cells) errors
    errors: FloatArray  # (observers, ..., classes)
    shares: FloatArray  # (observers, ..., classes, cells) with the prior
    own: FloatArray  # (observers, ..., classes) sum of p log p
    prior: float  # of one cell

    @classmethod
    def of(cls, counts: FloatArray, alpha: float) -> _Shares:
        counts = np.ascontiguousarray(counts)  # sums are then taken in one order, whatever is computed together
        errors = counts.sum(axis=-1)
        shares = (counts + alpha) / (errors + alpha * counts.shape[-1])[..., None]
        return cls(counts, errors, shares, _summed(shares, np.log(shares)), alpha)


def _summed(a: FloatArray, b: FloatArray) -> FloatArray:
    """Products summed over the cells, without an array of them."""
    total: FloatArray = np.einsum("...k,...k->...", a, b)
    return total


def _divergences(
    everyone: _Shares, i: NDArray[np.int64] | int, j: NDArray[np.int64] | int, midpoint: Midpoint
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Divergence and weight of each true class, and the number of errors, of the pairs (i, j).

    (KL(p, m) + KL(q, m)) / 2 = (sum p log p + sum q log q) / 2 - sum (p + q) / 2 log m: one logarithm a pair.
    """
    mean, errors = everyone.shares[i] + everyone.shares[j], everyone.errors[i] + everyone.errors[j]
    mean /= 2
    if midpoint == "mean":
        middle = mean
    elif midpoint == "pooled":
        pooled = everyone.counts[i] + everyone.counts[j] + everyone.prior
        middle = pooled / (errors + everyone.prior * pooled.shape[-1])[..., None]
    else:
        raise InvalidInput(f'midpoint must be "mean" or "pooled", got {midpoint!r}')
    divergence = (everyone.own[i] + everyone.own[j]) / 2 - _summed(mean, np.log(middle))
    n = errors.sum(axis=-1)
    weights = np.nan_to_num(divide(errors, np.broadcast_to(n[..., None], errors.shape)))
    return np.where(errors > 0, np.maximum(divergence, 0), 0.0), weights, n  # 0 may come out as -1e-17


def _errors_of_both(answers: Answers, pairs: Pairs) -> FloatArray:
    errors = np.count_nonzero(answers.wrong, axis=1).astype(np.float64)
    both: FloatArray = errors[pairs[:, 0]] + errors[pairs[:, 1]]
    return both


def _pooled_matrix(answers: Answers) -> FloatArray:
    return class_level_error_similarity_matrix(answers, midpoint="pooled")


def _pooled_resampled(answers: Answers, weights: Weights, pairs: Pairs) -> FloatArray:
    return class_level_error_similarity_resampled(answers, weights, pairs, midpoint="pooled")


def _printed_matrix(answers: Answers) -> FloatArray:
    counts = _with_diagonal(_error_counts(answers)[:, None])
    return _matrix(lambda pairs: _distances(counts, pairs, "mean", raw=True), answers)


def _printed_resampled(answers: Answers, weights: Weights, pairs: Pairs) -> FloatArray:
    return _resampled(
        lambda counts: _distances(_with_diagonal(counts), pairs, "mean", raw=True), answers, weights, pairs
    )


pair_forms.add(
    "class_level_error_similarity",
    PairForm(
        class_level_error_similarity_matrix,
        class_level_error_similarity_resampled,
        _errors_of_both,
        "no errors",
        shared=False,
    ),
)
pair_forms.add(
    "class_level_error_similarity_pooled",
    PairForm(_pooled_matrix, _pooled_resampled, _errors_of_both, "no errors", shared=False),
)
pair_forms.add(
    "class_level_error_distance_printed",
    PairForm(_printed_matrix, _printed_resampled, _errors_of_both, "no errors", shared=False),
)

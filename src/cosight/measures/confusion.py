"""Which classes do two observers confuse? Confusion matrices and class-level error similarity."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from cosight.arrays import BoolArray, FloatArray
from cosight.errors import InvalidInput
from cosight.measures.answers import Answers, encode
from cosight.measures.arithmetic import BLOCK, Pairs, Weights, blocks, divide, summed
from cosight.measures.declarations import PairForm, declare, pair_forms

__all__ = [
    "ClassLevelErrorSimilarity",
    "Midpoint",
    "class_level_error_distance_printed",
    "class_level_error_similarity",
    "class_level_error_similarity_from_confusions",
    "class_level_error_similarity_matrix",
    "class_level_error_similarity_pooled",
    "class_level_error_similarity_resampled",
    "confusion_matrix",
]

Midpoint = Literal["mean", "pooled"]

_MANY_PAIRS = 20_000  # some 200 observers; of more, resamples are computed in float32: half the time, 1e-6 off at most
_NEGLIGIBLE = 1e-10  # probability of a number of errors that is left out of an expectation
ALPHA = 0.5  # Dirichlet prior of the error rows, Xu et al. 2024, footnote 3


def confusion_matrix(response: ArrayLike, truth: ArrayLike, *, classes: ArrayLike | None = None) -> FloatArray:
    """Count the answers to each true class.

    Args:
        response: The answered class, one per trial; None, nan, "" and "na" are no answer.
        truth: The true class, one per trial.
        classes: The classes in their order (default: every value that occurs, sorted).

    Returns:
        Counts (classes, classes + 1): a row per true class, the last column for missing answers.

    Raises:
        InvalidInput: If a truth is missing, an answer is not among `classes`, or the lengths differ.

    >>> confusion_matrix(["a", "b", None], ["a", "a", "b"])
    array([[1., 1., 0.],
           [0., 0., 1.]])
    """
    answers = encode(response, truth=truth, classes=classes, names=("response",))
    k = answers.classes
    column = np.where(answers.response[0] < 0, k, answers.response[0])
    cells = answers.truth.astype(np.int64) * (k + 1) + column
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
    alpha: float = ALPHA,
    classes: ArrayLike | None = None,
) -> ClassLevelErrorSimilarity:
    """Compute CLES = 1 / (1 + CLED), CLED = sum over true classes c of w_c JSD_c (Xu et al. 2024).

    JSD_c is the Jensen-Shannon divergence (nats) between the two observers' answers to class c when wrong: the
    k - 1 wrong cells of the confusion row, `alpha` added to each, normalised. w_c is the fraction of both observers'
    errors that falls on c. Missing answers are left out.

    Args:
        a: The first observer's answers, one per trial.
        b: The second observer's answers, in the same order.
        truth: The true class, one per trial.
        midpoint: "mean" compares each observer with the mean of the two; "pooled" with the posterior of the pooled
            counts, as the released numbers do, and then CLES(A, A) < 1.
        alpha: Dirichlet prior of every wrong cell.
        classes: The classes (default: every value that occurs). A class that never occurs is still a possible wrong
            answer, so this changes the value.

    Returns:
        The similarity, the distance and its parts; nan without any error and with fewer than two classes.

    Raises:
        InvalidInput: If `alpha` is not positive, `midpoint` is unknown, or the answers cannot be coded.

    >>> class_level_error_similarity(["b", "c"], ["b", "c"], ["a", "a"]).value
    1.0
    """
    answers = encode(a, b, truth=truth, classes=classes, names=("a", "b"))
    _check_alpha(alpha)
    a_errors, b_errors = _error_counts(answers)
    return _similarity(a_errors, b_errors, alpha, midpoint)


def class_level_error_similarity_from_confusions(
    a: ArrayLike, b: ArrayLike, *, midpoint: Midpoint = "mean", alpha: float = ALPHA
) -> ClassLevelErrorSimilarity:
    """Compute CLES from two confusion matrices, without any trial; see `class_level_error_similarity`.

    Args:
        a: The first observer's counts: a row per true class, a column per answer, in the order of the rows. One more
            column for missing answers, as `confusion_matrix` returns it, is left out.
        b: The second observer's counts of the same classes. The two need not have seen the same stimuli.
        midpoint: The midpoint of the divergence.
        alpha: Dirichlet prior of every wrong cell.

    Returns:
        The similarity, the distance and its parts; nan without any error and with fewer than two classes.

    Raises:
        InvalidInput: If a matrix is not square, a count is negative or no whole number, or the sizes differ.

    >>> person, model = [[8, 2, 0], [1, 9, 0], [0, 0, 10]], [[5, 4, 1], [2, 8, 0], [0, 1, 9]]
    >>> round(class_level_error_similarity_from_confusions(person, model).value, 4)
    0.9922
    """
    _check_alpha(alpha)
    one, other = _check_confusion(a, "a"), _check_confusion(b, "b")
    if len(one) != len(other):
        raise InvalidInput(
            f"two confusion matrices must be about the same classes, got {len(one)} and {len(other)} of them"
        )
    return _similarity(_without_diagonal(one), _without_diagonal(other), alpha, midpoint)


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
    """Compute `class_level_error_similarity` with `midpoint="pooled"`.

    Args:
        a: The first observer's answers, one per trial.
        b: The second observer's answers, in the same order.
        truth: The true class, one per trial.
        classes: The classes (default: every value that occurs).

    Returns:
        As `class_level_error_similarity`; nan where that is.

    Raises:
        InvalidInput: If the answers cannot be coded.

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
    """Compute CLED with w_c = number of errors of both on class c, and alpha added to all C cells of a row.

    It grows with the number of trials.

    Args:
        a: The first observer's answers, one per trial.
        b: The second observer's answers, in the same order.
        truth: The true class, one per trial.
        classes: The classes (default: every value that occurs).

    Returns:
        The distance as `value`, not a similarity; nan without any error.

    Raises:
        InvalidInput: If the answers cannot be coded.

    >>> round(class_level_error_distance_printed(["b", "c"], ["b", "b"], ["a", "a"]).value, 4)
    0.2217
    """
    answers = encode(a, b, truth=truth, classes=classes, names=("a", "b"))
    a_errors, b_errors = _with_diagonal(_error_counts(answers))
    printed = _similarity(a_errors, b_errors, ALPHA, "mean")
    distance = printed.distance * printed.n
    return ClassLevelErrorSimilarity(distance, distance, printed.items, printed.weights * printed.n, printed.n)


def class_level_error_similarity_matrix(answers: Answers, *, midpoint: Midpoint = "mean") -> FloatArray:
    """Compute CLES of all pairs of observers, each from its own errors; they need not have seen the same stimuli.

    Args:
        answers: The answers of all observers.
        midpoint: The midpoint of the divergence; see `class_level_error_similarity`.

    Returns:
        A matrix (observers, observers), nan for a pair in which an observer has no errors.

    >>> answers = encode([1, 1, 2, 0], [2, 2, 2, 1], truth=[0, 0, 0, 2])
    >>> class_level_error_similarity_matrix(answers).round(3)
    array([[1.   , 0.878],
           [0.878, 1.   ]])
    """
    return 1 / (1 + _distance_matrix(_error_counts(answers), midpoint))


def class_level_error_similarity_resampled(
    answers: Answers, weights: Weights, pairs: Pairs, *, midpoint: Midpoint = "mean"
) -> FloatArray:
    """Compute CLES for each pair and resample.

    Args:
        answers: The answers of all observers.
        weights: How often each stimulus was drawn, (resamples, stimuli).
        pairs: Indices of the observers of each pair, (pairs, 2).
        midpoint: The midpoint of the divergence; see `class_level_error_similarity`.

    Returns:
        The values, (pairs, resamples), nan where an observer has no errors.

    >>> answers = encode([1, 1, 2, 0], [2, 2, 2, 1], truth=[0, 0, 0, 2])
    >>> weights = np.array([[1, 1, 1, 1], [0, 0, 4, 0]], dtype=np.float32)
    >>> class_level_error_similarity_resampled(answers, weights, np.array([[0, 1]])).round(3)
    array([[0.878, 1.   ]])
    """
    return 1 / (1 + _resampled_distances(answers, weights, pairs, midpoint))


def _check_alpha(alpha: float) -> None:
    if not 0 < alpha < np.inf:
        raise InvalidInput(
            f"alpha must be positive and finite, got {alpha}; a row without errors has no distribution otherwise"
        )


def _check_confusion(matrix: ArrayLike, name: str) -> FloatArray:
    """Return the counts of a confusion matrix (classes, classes), without a column for missing answers."""
    try:
        counts = np.asarray(matrix, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"a confusion matrix has rows of counts, all equally long, {name} has not") from error
    if counts.ndim != 2 or counts.shape[1] - counts.shape[0] not in (0, 1):
        raise InvalidInput(
            f"a confusion matrix has a row and a column per class, {name} has shape {counts.shape}; a column for "
            "missing answers may come last"
        )
    if (bad := (counts < 0) | (counts != np.round(counts)) | np.isinf(counts)).any():
        raise InvalidInput(
            f"the counts of a confusion matrix must be whole numbers, 0 or more, {name} has {counts[bad][0]:g}"
        )
    return counts[:, : len(counts)]


def _without_diagonal(counts: FloatArray) -> FloatArray:
    """Return the wrong cells of confusion counts: (..., classes, classes) -> (..., classes, classes - 1)."""
    k = counts.shape[-1]
    off = ~np.eye(k, dtype=np.bool_)
    return counts[..., off].reshape(*counts.shape[:-1], max(k - 1, 0))


def _similarities_of_confusions(counts: FloatArray, pairs: Pairs, *, midpoint: Midpoint = "mean") -> FloatArray:
    return 1 / (1 + _distances(_without_diagonal(counts), pairs, midpoint, printed=False))


def _printed_distances_of_confusions(counts: FloatArray, pairs: Pairs) -> FloatArray:
    return _distances(_without_diagonal(counts), pairs, "mean", printed=True)


def _error_cells(answers: Answers) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the cell (observer, true class, wrong class) of every error as one number, and its stimulus."""
    row, stimulus = np.divmod(np.flatnonzero(answers.wrong), max(answers.stimuli, 1))
    true = answers.truth[stimulus].astype(np.int64)
    wrong_class = answers.response[row, stimulus] - (answers.response[row, stimulus] > true)  # without the diagonal
    return (row * answers.classes + true) * (answers.classes - 1) + wrong_class, stimulus


def _error_counts(answers: Answers) -> FloatArray:
    """Count each wrong answer to each true class; (observers, classes, classes - 1)."""
    shape = (answers.observers, answers.classes, max(answers.classes - 1, 0))
    return np.bincount(_error_cells(answers)[0], minlength=int(np.prod(shape))).reshape(shape).astype(np.float64)


def _with_diagonal(counts: FloatArray) -> FloatArray:
    """Append an empty cell: no error falls on the diagonal, but the printed formula adds alpha to it."""
    return np.concatenate([counts, np.zeros((*counts.shape[:-1], 1))], axis=-1)


def _distance_matrix(counts: FloatArray, midpoint: Midpoint, *, printed: bool = False) -> FloatArray:
    """Compute CLED of all pairs from counts (observers, classes, cells); the matrix is symmetric."""
    i, j = np.triu_indices(len(counts))
    out = np.empty((len(counts), len(counts)))
    out[i, j] = out[j, i] = _distances(counts[:, None], np.stack([i, j], axis=1), midpoint, printed=printed)[:, 0]
    return out


def _resampled_distances(
    answers: Answers, weights: Weights, pairs: Pairs, midpoint: Midpoint, *, printed: bool = False
) -> FloatArray:
    """Compute CLED of each pair and resample, some resamples at a time; (pairs, resamples)."""
    shape = (answers.observers, answers.classes, max(answers.classes - 1, 0))
    out = np.empty((len(pairs), len(weights)))
    for block in blocks(len(weights), answers.observers * answers.classes**2, most=BLOCK // 8):
        columns = np.ascontiguousarray(weights[block].T)
        counts = summed(*_error_cells(answers), columns, int(np.prod(shape))).reshape(*shape, columns.shape[1])
        counts = np.moveaxis(counts, 3, 1)  # (observers, resamples, classes, classes - 1)
        out[:, block] = _distances(counts, pairs, midpoint, printed=printed, precision=_precision(len(pairs)))
    return out


def _precision(pairs: int) -> Any:
    """Return the type to compute many resamples of so many pairs in."""
    return np.float32 if pairs > _MANY_PAIRS else np.float64


def _distances(
    counts: FloatArray, pairs: Pairs, midpoint: Midpoint, *, printed: bool, precision: Any = np.float64
) -> FloatArray:
    """Compute CLED of the pairs, (pairs, resamples), from counts (observers, resamples, classes, cells).

    `printed` adds alpha to the diagonal too and weighs with error counts instead of fractions.
    """
    out = np.empty((len(pairs), counts.shape[1]))
    errors = _ErrorDistributions.of(_with_diagonal(counts) if printed else counts, ALPHA, precision)
    for block in blocks(len(pairs), int(np.prod(errors.counts.shape[1:])), most=BLOCK // 128):
        i, j = pairs[block].T
        divergence, weights, n = _divergences(errors, i, j, midpoint)
        distance = np.where(n > 0, (divergence * weights).sum(axis=-1), np.nan)
        out[block] = distance * n if printed else distance
    return out


def _at_equal_errors(
    answers: Answers, pairs: Pairs, others: BoolArray, *, midpoint: Midpoint = "mean", printed: bool = False
) -> tuple[FloatArray, FloatArray]:
    """Compute CLES (CLED if `printed`) of both observers of each pair with others, at equal numbers of errors.

    With few errors any two observers look alike, because of the prior, or unlike, because of chance: CLES depends on
    how many errors it rests on, and no correction of its bias that we tried removes that. So, class by class, as many
    errors as the other one has are drawn without replacement from the errors of the observer with more (rarefaction),
    and the expected distance is taken over all such draws. Two observers with the same confusions then have the same
    expected distance, whatever their accuracies.
    """
    counts = _error_counts(answers)
    errors = counts.sum(axis=-1)
    shown = _with_diagonal(counts) if printed else counts
    everyone = _ErrorDistributions.of(shown, ALPHA, _precision(int(others.sum())))
    values, totals = np.full((len(pairs), 2, answers.observers), np.nan), np.empty(len(pairs))
    for index, (pair, compared) in enumerate(zip(pairs.tolist(), others, strict=True)):
        left, other = np.minimum(errors[pair[0]], errors[pair[1]]), np.flatnonzero(compared)
        for side, observer in enumerate(pair):
            divergence, of_both = _rarefied_divergences(shown[observer], left, everyone, other, midpoint)
            values[index, side, other] = _value((divergence * of_both).sum(axis=1), of_both.sum(axis=1), printed)
        totals[index] = left.sum()
    return values, totals


def _value(weighted: FloatArray, errors: FloatArray, printed: bool) -> FloatArray:
    """Compute CLES (CLED if `printed`) from divergences summed over classes, weighted with the errors of both."""
    if printed:
        return np.where(errors > 0, weighted, np.nan)
    return 1 / (1 + divide(weighted, errors))


def _error_slopes(answers: Answers, pairs: Pairs, *, midpoint: Midpoint = "mean", printed: bool = False) -> FloatArray:
    """Compute how CLES (CLED if `printed`) changes with one error less of the first observer, (pairs, classes).

    The change is the mean over the errors of a class. A resample with fewer errors differs from the value by this much
    for each of them, for no other reason than their number.
    """
    counts = _error_counts(answers)
    errors = counts.sum(axis=-1)
    shown = _with_diagonal(counts) if printed else counts
    everyone = _ErrorDistributions.of(shown, ALPHA)
    slopes = np.zeros((len(pairs), answers.classes))
    for observer in np.unique(pairs[:, 0]).tolist():
        rows = np.flatnonzero(pairs[:, 0] == observer)
        (all_of, of_both), (fewer, one_less) = (
            _rarefied_divergences(
                shown[observer], np.maximum(errors[observer] - less, 0), everyone, pairs[rows, 1], midpoint
            )
            for less in (0, 1)
        )
        n, weighted = of_both.sum(axis=1, keepdims=True), (all_of * of_both).sum(axis=1, keepdims=True)
        without = weighted - all_of * of_both + fewer * one_less
        change = _value(without, np.broadcast_to(n - 1, without.shape), printed) - _value(weighted, n, printed)
        slopes[rows] = np.where(errors[observer] > 0, np.nan_to_num(change), 0.0)
    return slopes


def _rarefied_divergences(
    counts: FloatArray, left: FloatArray, other: _ErrorDistributions, j: NDArray[np.int64], midpoint: Midpoint
) -> tuple[FloatArray, FloatArray]:
    """Compute the expected divergence of each true class, and the errors of both, (others, classes).

    `left` errors of each class are drawn without replacement from `counts` (classes, cells). A divergence is a sum over
    cells, and the number of errors in a cell is hypergeometric, so that its expectation is a sum over these numbers.
    """
    classes, cells = counts.shape
    errors = left + other.errors[j]
    if cells == 0:
        return np.zeros_like(errors), errors
    have, total, kept = (
        of.astype(np.int64) for of in (counts.ravel(), *np.repeat([counts.sum(axis=1), left], cells, 1))
    )
    least = np.maximum(have + kept - total, 0)
    size = np.minimum(have, kept) - least + 1
    cell = np.repeat(np.arange(len(have)), size)
    drawn = np.arange(len(cell)) - np.repeat(np.cumsum(size) - size - least, size)
    log_factorial = gammaln(np.arange(1, total.max() + 2))

    def log_choose(n: NDArray[np.int64], k: NDArray[np.int64]) -> FloatArray:
        logs: FloatArray = log_factorial[n] - log_factorial[k] - log_factorial[n - k]
        return logs

    probability = np.exp(
        log_choose(have[cell], drawn)
        + log_choose((total - have)[cell], kept[cell] - drawn)
        - log_choose(total, kept)[cell]
    )
    likely = probability > _NEGLIGIBLE
    cell, drawn = cell[likely], drawn[likely]
    true, first = cell // cells, np.searchsorted(cell, np.arange(classes) * cells)
    precision = other.probabilities.dtype
    probability = probability[likely].astype(precision)
    p = ((drawn + other.prior) / (left + other.prior * cells)[true]).astype(precision)
    entropy = np.add.reduceat(probability * p * np.log(p), first)
    divergence = np.empty_like(errors)
    for part in blocks(len(j), len(cell), most=BLOCK // 128):
        mean = other.probabilities.reshape(len(other.counts), -1)[j[part]].take(cell, axis=1)
        mean += p
        mean /= 2
        middle = mean
        if midpoint == "pooled":
            pooled = drawn + other.counts.reshape(len(other.counts), -1)[j[part]].take(cell, axis=1) + other.prior
            middle = pooled / (errors[part] + other.prior * cells)[:, true]
        mean *= np.log(middle)
        mean *= probability
        divergence[part] = (entropy + other.negative_entropy[j[part]]) / 2 - np.add.reduceat(mean, first, axis=1)
    return np.where(errors > 0, np.maximum(divergence, 0), 0.0), errors


def _similarity(a: FloatArray, b: FloatArray, alpha: float, midpoint: Midpoint) -> ClassLevelErrorSimilarity:
    """Compute CLES of one pair from its error counts (classes, cells)."""
    errors = _ErrorDistributions.of(np.stack([a, b]), alpha)
    divergence, weights, n = _divergences(errors, 0, 1, midpoint)
    distance = float((divergence * weights).sum()) if n > 0 else float("nan")
    return ClassLevelErrorSimilarity(1 / (1 + distance), distance, divergence, weights, int(n))


@dataclass(frozen=True, slots=True, eq=False)
class _ErrorDistributions:
    """What a pair takes from each of its observers alone, computed once, however many pairs they are in."""

    counts: FloatArray  # (observers, ..., classes, cells) errors
    errors: FloatArray  # (observers, ..., classes)
    probabilities: NDArray[Any]  # (observers, ..., classes, cells) with the prior
    negative_entropy: NDArray[Any]  # (observers, ..., classes) sum of p log p
    prior: float  # of one cell

    @classmethod
    def of(cls, counts: FloatArray, alpha: float, precision: Any = np.float64) -> _ErrorDistributions:
        counts = np.ascontiguousarray(counts)  # sums are then taken in one order, whatever is computed together
        errors = counts.sum(axis=-1)
        p = ((counts + alpha) / (errors + alpha * counts.shape[-1])[..., None]).astype(precision, copy=False)
        return cls(counts, errors, p, _sum_products(p, np.log(p)), alpha)


def _sum_products(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Sum products over the cells, without an array of them."""
    total: NDArray[Any] = np.einsum("...k,...k->...", a, b)
    return total


def _divergences(
    of: _ErrorDistributions, i: NDArray[np.int64] | int, j: NDArray[np.int64] | int, midpoint: Midpoint
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Compute divergence and weight of each true class, and the number of errors, of the pairs (i, j).

    (KL(p, m) + KL(q, m)) / 2 = (sum p log p + sum q log q) / 2 - sum (p + q) / 2 log m: one logarithm per pair.
    """
    mean, errors = of.probabilities[i] + of.probabilities[j], of.errors[i] + of.errors[j]
    mean /= 2
    if midpoint == "mean":
        middle = mean
    elif midpoint == "pooled":
        pooled = of.counts[i] + of.counts[j] + of.prior
        middle = (pooled / (errors + of.prior * pooled.shape[-1])[..., None]).astype(mean.dtype, copy=False)
    else:
        raise InvalidInput(f'midpoint must be "mean" or "pooled", got {midpoint!r}')
    divergence = (of.negative_entropy[i] + of.negative_entropy[j]) / 2 - _sum_products(mean, np.log(middle))
    n = errors.sum(axis=-1)
    weights = np.nan_to_num(divide(errors, np.broadcast_to(n[..., None], errors.shape)))
    return np.where(errors > 0, np.maximum(divergence, 0), 0.0), weights, n  # 0 may come out as -1e-17


def _errors_of_both(answers: Answers, pairs: Pairs) -> FloatArray:
    errors = np.count_nonzero(answers.wrong, axis=1).astype(np.float64)
    both: FloatArray = errors[pairs[:, 0]] + errors[pairs[:, 1]]
    return both


def _printed_matrix(answers: Answers) -> FloatArray:
    return _distance_matrix(_error_counts(answers), "mean", printed=True)


def _printed_resampled(answers: Answers, weights: Weights, pairs: Pairs) -> FloatArray:
    return _resampled_distances(answers, weights, pairs, "mean", printed=True)


_similarity_form = PairForm(
    class_level_error_similarity_matrix,
    class_level_error_similarity_resampled,
    _errors_of_both,
    "no errors",
    shared=False,
    at_equal_errors=_at_equal_errors,
    error_slopes=_error_slopes,
    from_confusions=_similarities_of_confusions,
)
pair_forms.add("class_level_error_similarity", _similarity_form)
pair_forms.add(
    "class_level_error_similarity_pooled",
    replace(
        _similarity_form,
        matrix=partial(class_level_error_similarity_matrix, midpoint="pooled"),
        resampled=partial(class_level_error_similarity_resampled, midpoint="pooled"),
        at_equal_errors=partial(_at_equal_errors, midpoint="pooled"),
        error_slopes=partial(_error_slopes, midpoint="pooled"),
        from_confusions=partial(_similarities_of_confusions, midpoint="pooled"),
    ),
)
pair_forms.add(
    "class_level_error_distance_printed",
    replace(
        _similarity_form,
        matrix=_printed_matrix,
        resampled=_printed_resampled,
        at_equal_errors=partial(_at_equal_errors, printed=True),
        error_slopes=partial(_error_slopes, printed=True),
        from_confusions=_printed_distances_of_confusions,
    ),
)

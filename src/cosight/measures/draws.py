"""Bootstrap resamples of stimuli and people, and what resampling adds to the spread of a measure.

How often each stimulus or person was drawn is a row of weights. Stimuli that fall into few distinct patterns of answers
(`compress`) are drawn from a multinomial over the patterns, which is exact and far faster.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cosight.arrays import FloatArray, finite, labels, same_length
from cosight.errors import InvalidInput
from cosight.measures.answers import Answers
from cosight.measures.arithmetic import (
    ROUNDING,
    Weights,
    divide,
)

__all__ = [
    "RESAMPLED_AGAIN",
    "Compressed",
    "compress",
    "deflate",
    "draw_again",
    "draw_people",
    "draw_stimuli",
    "effective_clusters",
]

RESAMPLED_AGAIN = 5  # one in so many resamples is resampled again, for `deflate`
_LEAST_SCALE, _MOST_SCALE = 0.5, 1.2  # of deviations, by `deflate`


@dataclass(frozen=True, slots=True)
class Compressed:
    """Answers to the distinct patterns of a table, and how many stimuli have each."""

    answers: Answers
    counts: NDArray[np.int64]  # (patterns,)


def compress(answers: Answers) -> Compressed:
    """Merge stimuli that have the same truth and to which every observer gave the same answer.

    Args:
        answers: The answers of all observers.

    Returns:
        The answers to the distinct patterns, in the order of their first stimulus, and the number of stimuli of each.

    >>> merged = compress(Answers.of_correctness([1, 1, 0, 1], [1, 1, 0, 0]))
    >>> merged.answers.response.tolist(), merged.counts.tolist()
    ([[1, 0, 1], [1, 0, 0]], [2, 1, 1])
    """
    columns = np.vstack([answers.truth[None], answers.response]).T
    if answers.stimuli == 0:
        return Compressed(answers, np.zeros(0, dtype=np.int64))
    width = columns.dtype.itemsize * columns.shape[1]
    keys = np.ascontiguousarray(columns).view(np.dtype((np.void, width))).ravel()
    _, first, counts = np.unique(keys, return_index=True, return_counts=True)
    order = np.argsort(first)  # patterns in the order of their first stimulus
    return Compressed(answers.at(first[order]), counts[order].astype(np.int64))


def draw_stimuli(
    counts: ArrayLike, resamples: int, rng: np.random.Generator, *, clusters: ArrayLike | None = None
) -> Weights:
    """Draw stimuli with replacement, as many as there are.

    Args:
        counts: How many stimuli each row stands for: ones, or the counts of `compress`.
        resamples: The number of resamples.
        rng: The source of randomness.
        clusters: The stimulus that each row belongs to, if one was presented more than once: its presentations are
            drawn together.

    Returns:
        How often each row was drawn, (resamples, rows).

    Raises:
        InvalidInput: If a count is not a whole number, or a clustered row stands for several stimuli.

    >>> draw_stimuli([1, 1, 1, 5], 3, np.random.default_rng(0)).sum(axis=1)
    array([8., 8., 8.], dtype=float32)
    """
    check_resamples(resamples)
    table = finite(counts, name="counts", ndim=1)
    if (bad := (table < 0) | (table != np.floor(table))).any():
        raise InvalidInput(f"counts must be whole numbers of stimuli, got {table[bad][0]:g}")
    many = table.astype(np.int64)
    if clusters is not None:
        names, member = np.unique(labels(clusters, name="clusters"), return_inverse=True)
        same_length(counts=many, clusters=member)
        if (many != 1).any():
            bad_count = many[many != 1][0]
            raise InvalidInput(f"a clustered row must stand for one stimulus, got {bad_count}; draw before compressing")
        return draw_stimuli(np.ones(len(names), dtype=np.int64), resamples, rng)[:, member]
    n = int(many.sum())
    if n == 0:
        return np.zeros((resamples, len(many)), dtype=np.float32)
    if len(many) * 2 < n:
        return _draw_multinomial(many, resamples, rng)
    row_of_stimulus = np.repeat(np.arange(len(many)), many)
    drawn = (np.bincount(row_of_stimulus[rng.integers(0, n, n)], minlength=len(many)) for _ in range(resamples))
    return np.stack([row.astype(np.float32) for row in drawn])


def _draw_multinomial(counts: NDArray[np.int64], resamples: int, rng: np.random.Generator) -> Weights:
    """Draw sum(counts) items with probabilities proportional to `counts`, a binomial of the remainder per row.

    The same distribution as `rng.multinomial`, but a quarter faster, and stored by row, as the measures read it.
    """
    undrawn: NDArray[np.int64] | int = int(counts.sum())
    rest = int(counts.sum())
    out = np.zeros((len(counts), resamples), dtype=np.float32)
    for row, count in zip(out, counts.tolist(), strict=True):
        if count:
            drawn = rng.binomial(undrawn, count / rest, size=resamples) if count < rest else undrawn
            row[:] = drawn
            undrawn, rest = undrawn - drawn, rest - count
    return out.T


def draw_again(weights: Weights, rng: np.random.Generator) -> Weights:
    """Resample resamples: draw as many stimuli as each has, with replacement, from those that it has.

    Args:
        weights: How often each row was drawn, (resamples, rows).
        rng: The source of randomness.

    Returns:
        How often each row was drawn from each resample, (resamples, rows).

    >>> draw_again(np.array([[0.0, 3.0, 0.0]], dtype=np.float32), np.random.default_rng(0))
    array([[0., 3., 0.]], dtype=float32)
    """
    return np.concatenate([draw_stimuli(row, 1, rng) for row in weights])


def effective_clusters(count: Callable[[NDArray[np.int64]], FloatArray], clusters: NDArray[np.int64]) -> FloatArray:
    """Compute the number of clusters of equal size that clusters of unequal size are worth.

    (sum of n)^2 / (sum of n^2), with n the trials of a cluster that a value rests on (Kish 1965). Joint errors, for
    example, gather in hard photos: sixty photos may be worth thirty.

    Args:
        count: The trials that each value rests on, (values,), among the stimuli with these indices.
        clusters: The cluster of each stimulus; -1 for none.

    Returns:
        The number of clusters, (values,); 0 for a value without trials.

    >>> errors = np.array([3, 0, 1, 2])
    >>> effective_clusters(lambda stimuli: errors[stimuli].sum(keepdims=True), np.array([0, 0, 1, 1]))
    array([2.])
    """
    order = np.argsort(clusters, kind="stable")
    starts = np.flatnonzero(np.diff(clusters[order], prepend=-1))
    total, squares = np.zeros(1), np.zeros(1)
    for stimuli in np.split(order, starts)[1:]:
        n = count(stimuli)
        total, squares = total + n, squares + n**2
    return np.nan_to_num(divide(total**2, squares))


def deflate(resampled: FloatArray, again: FloatArray) -> None:
    """Shrink, in place, resamples of a measure that is noisier the more often its data were resampled.

    A distance between two distributions of few errors is mostly noise, and resampling adds noise of its own: the
    variance of the resamples is up to three times that of the value. How much resampling adds is seen by doing it
    again. With v1 the variance of the resamples and v2 that of resamples of resamples around the resample that they
    come from, 2 v1 - v2 is the variance of a quadratic function of the counts without bias. Deviations are multiplied
    by the root of 2 - v2 / v1, kept between .5 and 1.2.

    Args:
        resampled: Resampled values, (rows, resamples).
        again: A resample of each of the first resamples, (rows, some of them).

    >>> rng = np.random.default_rng(0)
    >>> resampled = rng.normal(0, 3**0.5, (1, 9000))
    >>> deflate(resampled, resampled + rng.normal(0, 5**0.5, (1, 9000)))
    >>> round(float(resampled.std()), 1)
    1.0
    """
    for row, second in zip(resampled, again, strict=True):
        known, pairs = ~np.isnan(row), ~np.isnan(second + row[: len(second)])
        first = float(row[known].var()) if known.any() else 0.0
        if first > ROUNDING**2 and pairs.sum() > 1:
            ratio = float((second - row[: len(second)])[pairs].var()) / first
            scale = np.sqrt(np.clip(2 - ratio, _LEAST_SCALE**2, _MOST_SCALE**2))
            row[:] = row[known].mean() * (1 - scale) + scale * row


def draw_people(people: int, resamples: int, rng: np.random.Generator) -> FloatArray:
    """Draw people with replacement, as many as there are.

    Args:
        people: The number of people.
        resamples: The number of resamples.
        rng: The source of randomness.

    Returns:
        How often each person was drawn, (resamples, people).

    >>> draw_people(4, 3, np.random.default_rng(0)).sum(axis=1)
    array([4., 4., 4.])
    """
    check_resamples(resamples)
    if people == 0:
        return np.zeros((resamples, 0))
    return rng.multinomial(people, np.full(people, 1 / people), size=resamples).astype(np.float64)


def check_resamples(resamples: int) -> None:
    """Raise InvalidInput unless there is at least one resample.

    >>> check_resamples(0)
    Traceback (most recent call last):
    cosight.errors.InvalidInput: resamples must be 1 or more, got 0; 1000 is usual
    """
    if resamples < 1:
        raise InvalidInput(f"resamples must be 1 or more, got {resamples}; 1000 is usual")

"""Bootstrap resamples of stimuli and people, and resamples to first order (`jackknife`).

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
    Weights,
    divide,
)

__all__ = [
    "Compressed",
    "Jackknife",
    "compress",
    "draw_people",
    "draw_stimuli",
    "effective_clusters",
    "jackknife",
]

_GROUPS, _LARGER_GROUPS = 100, 14  # of stimuli: those left out one at a time, and those left out in twos too


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


@dataclass(frozen=True, slots=True, eq=False)
class Jackknife:
    """Stimuli left out in groups, and how often each group is drawn: resamples to first order.

    A measure that is mostly noise, such as a distance between two distributions of few errors, is noisier still when
    its stimuli are drawn again: the bootstrap counts the noise of a quadratic function three times. Here, a resample is
    the value plus the influences of the groups that are drawn, which follow from leaving out one group at a time. Their
    variance counts terms of the k-th order k times. Leaving out two groups at a time gives an estimate that counts
    them k (k - 1) / 2 times (Efron & Stein 1981). Two thirds of it are subtracted: all of it would remove third-order
    terms altogether; so they are counted once, and second-order terms 4/3 times.
    """

    weights: Weights  # (replicates, rows): nothing left out, each group, each larger group, every two larger groups
    drawn: FloatArray  # (resamples, groups): how often each group is drawn

    def deviations(self, replicates: FloatArray) -> FloatArray:
        """Compute the deviations of resamples from the value.

        Args:
            replicates: The values with `weights`, (values, replicates).

        Returns:
            The deviations, (values, resamples), in the precision of `replicates`; nan where the value is undefined,
            or where it is without one of the groups.

        >>> items = np.random.default_rng(0).normal(size=(1, 100))
        >>> left_out = jackknife(np.ones(100), 5000, np.random.default_rng(1))
        >>> deviations = left_out.deviations(items @ left_out.weights.T / left_out.weights.sum(axis=1))
        >>> round(float(deviations.std() / items.std()), 2)  # the standard error of a mean of 100 items
        0.1
        """
        groups = self.drawn.shape[1]
        larger = min(_LARGER_GROUPS, groups)
        value, without, rest = np.split(replicates, [1, 1 + groups], axis=1)
        influence = (without.mean(axis=1, keepdims=True) - without) * np.sqrt((groups - 1) / groups)
        if larger > 2:
            without_one, without_two = np.split(rest, [larger], axis=1)
            i, j = np.triu_indices(larger, 1)
            joint = larger * value - (larger - 1) * (without_one[:, i] + without_one[:, j]) + (larger - 2) * without_two
            of_pairs = divide(joint.var(axis=1) * (larger - 1) / (2 * larger), (influence**2).sum(axis=1))
            influence = influence * np.sqrt(1 - np.minimum(np.nan_to_num(of_pairs), 1.0) * 2 / 3)[:, None]
        # not by BLAS, whose sums depend on how many values there are
        parts = (of.astype(replicates.dtype, copy=False) for of in (influence, self.drawn.T - 1))
        deviations: FloatArray = np.einsum("vg,gr->vr", *parts)
        return deviations


def jackknife(
    counts: ArrayLike,
    resamples: int,
    rng: np.random.Generator,
    *,
    clusters: NDArray[np.int64] | None = None,
    size: int = 0,
) -> Jackknife:
    """Divide stimuli at random into up to 100 groups of equal size, and draw groups with replacement.

    Args:
        counts: How many stimuli each row stands for: ones, or the counts of `compress`.
        resamples: The number of resamples.
        rng: The source of randomness.
        clusters: The cluster of each row, which stands for one stimulus: clusters are left out as a whole. -1 for a
            row that is never left out.
        size: The number of clusters, some of which may have no row.

    Returns:
        The weights of the rows, and how often each group is drawn.

    >>> jackknife([1, 1, 4], 10, np.random.default_rng(0)).weights[:2]
    array([[1., 1., 4.],
           [1., 1., 3.]], dtype=float32)
    """
    table = np.asarray(counts, dtype=np.int64)
    row = np.repeat(np.arange(len(table)), table)
    cluster, units = (np.arange(len(row)), len(row)) if clusters is None else (clusters, size)
    groups = min(_GROUPS, max(units, 1))
    group = (rng.permutation(units) % groups)[cluster] if units else cluster
    of_group = np.zeros((groups, len(table)), dtype=np.float32)
    np.add.at(of_group, (group[cluster >= 0], row[cluster >= 0]), 1)
    larger = np.stack([of_group[first::_LARGER_GROUPS].sum(axis=0) for first in range(min(_LARGER_GROUPS, groups))])
    i, j = np.triu_indices(len(larger), 1)
    left_out = np.concatenate([np.zeros((1, len(table))), of_group, larger, larger[i] + larger[j]])
    drawn = draw_stimuli(np.ones(groups, dtype=np.int64), resamples, rng).astype(np.float64)
    return Jackknife((table - left_out).astype(np.float32), drawn)


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

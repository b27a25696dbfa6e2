"""Do two measures order the same pairs of observers alike?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cosight.arrays import BoolArray, FloatArray, IntArray, finite, labels, same_length
from cosight.errors import InvalidInput
from cosight.measures.arithmetic import divide, normal_z
from cosight.measures.declarations import declare

__all__ = [
    "Correlation",
    "DomainCorrelations",
    "RankCorrelation",
    "domain_correlations",
    "kendall_correlation",
    "kendall_correlation_resampled",
    "pearson_correlation",
    "rank_correlation",
    "rank_correlation_resampled",
    "rank_correlation_weighted",
    "z_scores",
]

_FEWEST = 3  # with two points every correlation is +1 or -1


@dataclass(frozen=True, slots=True)
class RankCorrelation:
    """Spearman's r or Kendall's tau, and the number of pairs it is computed from."""

    value: float
    n: int
    left_out: int  # pairs with a nan on either side


@dataclass(frozen=True, slots=True)
class Correlation:
    """Pearson's r with its interval."""

    value: float
    low: float
    high: float
    n: int
    left_out: int  # pairs with a nan on either side


@dataclass(frozen=True, slots=True, eq=False)
class DomainCorrelations:
    """Spearman's r of every two measures: within each domain, over all of them, and on average."""

    measures: tuple[str, ...]
    domains: tuple[str, ...]
    in_domain: FloatArray  # (domains, measures, measures)
    global_: FloatArray  # (measures, measures), all domains pooled
    average: FloatArray  # (measures, measures), mean of the defined in-domain values
    left_out: IntArray  # (measures, measures), domains whose value is undefined


@declare(
    "rank_correlation",
    summary="Spearman's r: whether two measures order the same pairs of observers alike.",
    low=-1,
    high=1,
    direction="neither",
    symmetric=True,
    needs=("values",),
    citation="Spearman 1904",
    aliases=("spearman",),
)
def rank_correlation(x: ArrayLike, y: ArrayLike) -> RankCorrelation:
    """Compute Spearman's r: Pearson's r of the ranks, ties sharing their mean rank (Spearman 1904).

    Args:
        x: Values of the first measure.
        y: Values of the second, in the same order. Pairs with a nan are left out before ranking, and counted.

    Returns:
        The correlation; nan with fewer than 3 pairs or when one side is constant.

    Raises:
        InvalidInput: If a value is infinite, or the lengths differ.

    >>> rank_correlation([1, 2, 3, 4, float("nan")], [1, 4, 9, 16, 25])
    RankCorrelation(value=1.0, n=4, left_out=1)
    """
    a, b = _numbers(x, name="x", ndim=1), _numbers(y, name="y", ndim=1)
    same_length(x=a, y=b)
    n = int(np.count_nonzero(_both_defined(a, b)))
    return RankCorrelation(float(rank_correlation_resampled(a[None], b[None])[0]), n, len(a) - n)


def rank_correlation_resampled(x: ArrayLike, y: ArrayLike) -> FloatArray:
    """Compute Spearman's r of each row of x with the same row of y.

    Args:
        x: Values of the first measure, (resamples, n).
        y: Values of the second, same shape. A pair with a nan is left out of its row.

    Returns:
        The correlations, (resamples,); nan for a row with fewer than 3 pairs or a constant side.

    Raises:
        InvalidInput: If a value is infinite, or the shapes differ.

    >>> rank_correlation_resampled([[1, 2, 3], [1, 2, 2]], [[3, 2, 1], [0, 5, 5]]).tolist()
    [-1.0, 1.0]
    """
    a, b = _numbers(x, name="x", ndim=2), _numbers(y, name="y", ndim=2)
    if a.shape != b.shape:
        raise InvalidInput(f"x and y must have one shape, got {a.shape} and {b.shape}")
    keep = _both_defined(a, b)  # the other entries are moved behind these, so that their ranks do not matter
    return _pearson(_mean_ranks(np.where(keep, a, np.inf)), _mean_ranks(np.where(keep, b, np.inf)), keep)


def rank_correlation_weighted(x: ArrayLike, y: ArrayLike, weights: ArrayLike) -> FloatArray:
    """Compute Spearman's r of pairs that count several times or not at all, for many sets of weights.

    With whole numbers as weights this is `rank_correlation` of the pairs, each repeated so often.

    Args:
        x: Values of the first measure, (n,).
        y: Values of the second, in the same order. Pairs with a nan are left out before ranking.
        weights: How often each pair counts, (resamples, n), 0 or more.

    Returns:
        The correlations, (resamples,); nan where fewer than 3 pairs count or one side is constant.

    Raises:
        InvalidInput: If a value is infinite, a weight is negative or not finite, or the lengths differ.

    >>> rank_correlation_weighted([1, 2, 3, 4], [1, 3, 2, 0], [[1, 1, 1, 0], [2, 1, 1, 0]]).round(6).tolist()
    [0.5, 0.777778]
    """
    a, b = _numbers(x, name="x", ndim=1), _numbers(y, name="y", ndim=1)
    times = finite(weights, name="weights", ndim=2)
    if (times < 0).any():
        raise InvalidInput(f"weights must be 0 or more, got {times.min()}")
    same_length(x=a, y=b, weights=times.T)
    keep = _both_defined(a, b)
    times = times[:, keep]
    total = times.sum(axis=1, keepdims=True)
    ranks = [_weighted_ranks(values[keep], times) for values in (a, b)]
    u, v = (rank - divide((times * rank).sum(axis=1, keepdims=True), total) for rank in ranks)
    covariance, of_u, of_v = (times * u * v).sum(axis=1), (times * u * u).sum(axis=1), (times * v * v).sum(axis=1)
    scale = np.sqrt(of_u * of_v)
    defined = ((times > 0).sum(axis=1) >= _FEWEST) & (scale > 0)
    r: FloatArray = np.divide(covariance, scale, out=np.full(len(times), np.nan), where=defined)
    return np.clip(r, -1.0, 1.0)


@declare(
    "kendall_correlation",
    summary="Kendall's tau-b: how many more pairs two lists of numbers order alike than differently.",
    low=-1,
    high=1,
    direction="neither",
    symmetric=True,
    needs=("values",),
    citation="Kendall 1945",
    aliases=("kendall_tau",),
)
def kendall_correlation(x: ArrayLike, y: ArrayLike) -> RankCorrelation:
    """Compute Kendall's tau-b: (C - D) / sqrt((C + D + T_x) (C + D + T_y)) (Kendall 1945).

    C and D are the numbers of pairs of entries in the same and in the opposite order, T_x and T_y those tied in x only
    and in y only.

    Args:
        x: The first list of numbers.
        y: The second, in the same order. Entries with a nan are left out, and counted.

    Returns:
        The correlation; nan with fewer than 3 entries or when one side is constant.

    Raises:
        InvalidInput: If a value is infinite, or the lengths differ.

    >>> round(kendall_correlation([1, 2, 3, 4], [1, 3, 2, 4]).value, 4)
    0.6667
    """
    a, b = _numbers(x, name="x", ndim=1), _numbers(y, name="y", ndim=1)
    same_length(x=a, y=b)
    n = int(np.count_nonzero(_both_defined(a, b)))
    return RankCorrelation(float(kendall_correlation_resampled(a[None], b[None])[0]), n, len(a) - n)


def kendall_correlation_resampled(x: ArrayLike, y: ArrayLike) -> FloatArray:
    """Compute Kendall's tau-b of each row of x with the same row of y.

    Args:
        x: Values of the first list, (resamples, n).
        y: Values of the second, same shape. An entry with a nan is left out of its row.

    Returns:
        The correlations, (resamples,); nan for a row with fewer than 3 entries or a constant side.

    Raises:
        InvalidInput: If a value is infinite, or the shapes differ.

    >>> kendall_correlation_resampled([[1, 2, 3], [1, 2, 3]], [[3, 2, 1], [5, 5, 5]]).tolist()
    [-1.0, nan]
    """
    a, b = _numbers(x, name="x", ndim=2), _numbers(y, name="y", ndim=2)
    if a.shape != b.shape:
        raise InvalidInput(f"x and y must have one shape, got {a.shape} and {b.shape}")
    keep = _both_defined(a, b)
    i, j = np.triu_indices(a.shape[1], 1)
    both = keep[:, i] & keep[:, j]
    a, b = (np.where(keep, side, 0.0) for side in (a, b))
    orders = [np.where(both, np.sign(side[:, i] - side[:, j]), 0.0) for side in (a, b)]
    agreement = (orders[0] * orders[1]).sum(axis=1)
    untied = [np.abs(order).sum(axis=1) for order in orders]
    defined = (untied[0] * untied[1] > 0) & (keep.sum(axis=1) >= _FEWEST)
    scale = np.sqrt(untied[0] * untied[1])
    tau: FloatArray = np.divide(agreement, scale, out=np.full(len(a), np.nan), where=defined)
    return tau


@declare(
    "pearson_correlation",
    summary="Pearson's r of two lists of numbers, with Fisher's interval.",
    low=-1,
    high=1,
    direction="neither",
    symmetric=True,
    needs=("values",),
    citation="Fisher 1921",
    aliases=("pearson",),
)
def pearson_correlation(x: ArrayLike, y: ArrayLike, *, confidence: float = 0.95) -> Correlation:
    """Compute Pearson's r and its interval tanh(atanh(r) -+ z / sqrt(n - 3)) (Fisher 1921).

    The interval assumes roughly normal pairs; for other data, resample.

    Args:
        x: The first list of numbers.
        y: The second, in the same order. Pairs with a nan are left out and counted.
        confidence: Confidence of the interval.

    Returns:
        The correlation and its interval. `value` is nan with fewer than 3 pairs or when one side is constant; the
        interval is nan also with 3 pairs. At r = 1 or -1 it has no width.

    Raises:
        InvalidInput: If a value is infinite, the lengths differ, or the confidence is not between 0 and 1.

    >>> r = pearson_correlation([1, 2, 3, 4, 5], [2, 1, 4, 3, 5])
    >>> round(r.value, 3), round(r.low, 3), round(r.high, 3)
    (0.8, -0.28, 0.986)
    """
    z = normal_z(confidence)
    a, b = _numbers(x, name="x", ndim=1), _numbers(y, name="y", ndim=1)
    same_length(x=a, y=b)
    keep = _both_defined(a, b)
    n = int(keep.sum())
    r = float(_pearson(a[None], b[None], keep[None])[0])
    if np.isnan(r) or n <= _FEWEST:
        low, high = float("nan"), float("nan")
    elif abs(r) == 1:
        low, high = r, r  # atanh is infinite here
    else:
        half = z / np.sqrt(n - 3)
        low, high = float(np.tanh(np.arctanh(r) - half)), float(np.tanh(np.arctanh(r) + half))
    return Correlation(r, low, high, n, len(a) - n)


def domain_correlations(domain: ArrayLike, values: Mapping[str, ArrayLike]) -> DomainCorrelations:
    """Compute Spearman's r of every two measures, per domain and over all (Xu et al. 2024, Table 1 and Figure 5).

    Args:
        domain: The domain of each row; a row is one pair of observers.
        values: The values of each measure by its name, one per row, nan if undefined.

    Returns:
        The correlations; nan where `rank_correlation` is. The average gives every domain with a defined r the same
        weight and is nan when there is none; the domains left out are counted.

    Raises:
        InvalidInput: If there is no measure, a row has no domain, a value is infinite, or the lengths differ.

    >>> r = domain_correlations(["a"] * 3 + ["b"] * 3, {"ec": [1, 2, 3, 7, 8, 9], "ma": [7, 8, 9, 1, 2, 3]})
    >>> float(r.average[0, 1]), round(float(r.global_[0, 1]), 3)
    (1.0, -0.543)
    """
    rows = labels(domain, name="domain").tolist()
    for i, name in enumerate(rows):
        if name is None or name == "" or name != name:
            raise InvalidInput(f"domain must name every row, got {name!r} in row {i}; name it or leave the row out")
    names = np.array([str(name) for name in rows], dtype=np.str_)
    table = {f"values[{name!r}]": _numbers(column, name=name, ndim=1) for name, column in values.items()}
    if not table:
        raise InvalidInput("values must name at least one measure, got none")
    same_length(domain=names, **table)
    stack = np.stack(list(table.values()))  # (measures, rows)
    domains = tuple(dict.fromkeys(names.tolist()))
    per_domain = [_correlation_matrix(stack[:, names == name]) for name in domains]
    in_domain = np.array(per_domain).reshape(-1, len(table), len(table))
    left_out = np.isnan(in_domain).sum(axis=0)
    defined = len(domains) - left_out
    average = divide(np.nansum(in_domain, axis=0), defined)
    return DomainCorrelations(tuple(values), domains, in_domain, _correlation_matrix(stack), average, left_out)


def z_scores(values: ArrayLike, *, ddof: int = 0) -> FloatArray:
    """Express one measure's values in standard deviations from their mean (Xu et al. 2024, Figure 6).

    Args:
        values: The values; nan is left out of mean and standard deviation, and stays nan.
        ddof: The standard deviation has the divisor n - ddof; 0 or 1.

    Returns:
        z = (v - mean) / sd; all nan with fewer than 2 values, or when they are constant.

    Raises:
        InvalidInput: If a value is infinite, or `ddof` is neither 0 nor 1.

    >>> z_scores([1, 3, float("nan")]).round(6).tolist()
    [-1.0, 1.0, nan]
    """
    if ddof not in (0, 1):
        raise InvalidInput(f"ddof must be 0 or 1, got {ddof}")
    array = _numbers(values, name="values", ndim=1)
    keep = ~np.isnan(array)
    n = int(keep.sum())
    if n < 2:
        return np.full_like(array, np.nan)
    return np.asarray(_unit(array[None], keep[None])[0] * np.sqrt(n - ddof))


def _numbers(values: ArrayLike, *, name: str, ndim: int) -> FloatArray:
    """Return numbers with `ndim` axes in which nan, but not infinity, is allowed."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != ndim:
        raise InvalidInput(f"{name} must have {ndim} axes, got shape {array.shape}")
    if np.isinf(array).any():
        raise InvalidInput(f"{name} must not be infinite, got {array[np.isinf(array)][0]}; use nan for undefined")
    return array


def _both_defined(a: FloatArray, b: FloatArray) -> BoolArray:
    return ~(np.isnan(a) | np.isnan(b))


def _mean_ranks(rows: FloatArray) -> FloatArray:
    """Rank from 1 within each row, ties sharing their mean rank; scipy.stats has it, but takes long to import."""
    n = rows.shape[1]
    order = np.argsort(rows, axis=1)
    ordered = np.take_along_axis(rows, order, axis=1)
    new = np.ones((len(rows), n + 1), dtype=np.bool_)  # where a value differs from the one before it
    new[:, 1:n] = ordered[:, 1:] != ordered[:, :-1]
    position = np.arange(n)
    first = np.maximum.accumulate(np.where(new[:, :-1], position, 0), axis=1)
    last = np.minimum.accumulate(np.where(new[:, 1:], position, n)[:, ::-1], axis=1)[:, ::-1]
    ranks = np.empty(rows.shape)
    np.put_along_axis(ranks, order, (first + last) / 2 + 1, axis=1)
    return ranks


def _weighted_ranks(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the mean rank of each value for each row of weights, (resamples, n): half the weight of its ties is below.

    Sums of whole numbers are exact, so that a side that is constant in a resample has equal ranks.
    """
    _, tie, counts = np.unique(values, return_inverse=True, return_counts=True)
    order = np.argsort(tie, kind="stable")
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64)
    of_tie = np.add.reduceat(weights[:, order], starts, axis=1) if len(values) else weights
    middle = np.cumsum(of_tie, axis=1) - of_tie / 2
    return np.asarray(middle[:, tie])


def _unit(rows: FloatArray, keep: BoolArray) -> FloatArray:
    """Centre each row's kept entries and scale them to length one (others 0 or nan); nan for a constant row."""
    values = np.where(keep, rows, 0.0)
    peak = np.abs(values).max(axis=-1, keepdims=True, initial=0.0)
    # in units of the largest, squares cannot overflow and a constant row is exactly 1, so that it centres to exactly 0
    values = values / np.where(peak > 0, peak, 1.0)
    mean = values.sum(axis=-1, keepdims=True) / np.maximum(keep.sum(axis=-1, keepdims=True), 1)
    values = np.where(keep, values - mean, 0.0)
    length = np.linalg.norm(values, axis=-1, keepdims=True)
    unit = np.divide(values, length, out=np.full_like(values, np.nan), where=length > 0)
    return np.where(np.isnan(rows), np.nan, unit)


def _pearson(a: FloatArray, b: FloatArray, keep: BoolArray) -> FloatArray:
    """Compute (|u + v|^2 - |u - v|^2) / (|u + v|^2 + |u - v|^2) per row of the unit rows, never outside [-1, 1]."""
    u, v = _unit(np.where(keep, a, 0.0), keep), _unit(np.where(keep, b, 0.0), keep)
    alike, unlike = np.square(u + v).sum(axis=-1), np.square(u - v).sum(axis=-1)
    enough = keep.sum(axis=-1) >= _FEWEST
    r: FloatArray = np.divide(alike - unlike, alike + unlike, out=np.full(len(a), np.nan), where=enough)
    return r


def _correlation_matrix(stack: FloatArray) -> FloatArray:
    """Compute Spearman's r of every two rows."""
    rows, columns = np.triu_indices(len(stack))
    matrix = np.full((len(stack), len(stack)), np.nan)
    matrix[rows, columns] = rank_correlation_resampled(stack[rows], stack[columns])
    matrix[columns, rows] = matrix[rows, columns]
    return matrix

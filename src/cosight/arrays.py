"""Checks of array input and of counts: each rule and its message in one place."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cosight.errors import InvalidInput

__all__ = [
    "BoolArray",
    "FloatArray",
    "IntArray",
    "answer_counts",
    "correctness",
    "distributions",
    "draw_weights",
    "finite",
    "fraction",
    "integer_codes",
    "labels",
    "same_length",
    "unit_interval",
    "whole_number",
]

BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

_SUM_TOLERANCE = 1e-3  # a float32 softmax over 1,000 classes is off by about 1e-6; rounded published tables by 1e-3


def whole_number(value: Any, *, name: str, least: int = 0, most: int | None = None) -> int:
    """Return an int (or numpy's) from `least` to `most`; true and false are none.

    >>> whole_number(0.5, name="--seed")
    Traceback (most recent call last):
    cosight.errors.InvalidInput: --seed must be a whole number, 0 or more, got 0.5
    """
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not is_whole or value < least or (most is not None and value > most):
        limits = f"{least} or more" if most is None else f"{least:,} to {most:,}"
        raise InvalidInput(f"{name} must be a whole number, {limits}, got {str(value)[:40]}")
    return int(value)


def fraction(value: float, *, name: str, ends: bool = True) -> float:
    """Return a number from 0 to 1; without `ends`, 0 and 1 themselves are refused.

    >>> fraction(95, name="--confidence", ends=False)
    Traceback (most recent call last):
    cosight.errors.InvalidInput: --confidence must lie between 0 and 1, got 95; did you mean .95?
    """
    if 0 < value < 1 or (ends and value in (0, 1)):
        return float(value)
    limits = "be 0 to 1" if ends else "lie between 0 and 1"
    percent = f"; did you mean {f'{value / 100:.6g}'.lstrip('0')}?" if 1 < value < 100 else ""
    raise InvalidInput(f"{name} must {limits}, got {value}{percent}")


def labels(values: ArrayLike, *, name: str) -> NDArray[Any]:
    """Return class names or codes as a one-dimensional array; None, nan and "" mean no answer."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise InvalidInput(f"{name} must be one-dimensional, got shape {array.shape}")
    return array


def correctness(values: ArrayLike, *, name: str = "correctness") -> BoolArray:
    """Return booleans (or 0 and 1) as a one-dimensional boolean array."""
    array = labels(values, name=name)
    if array.dtype != np.bool_ and not np.isin(array, (0, 1)).all():
        bad = array[~np.isin(array, (0, 1))][0]
        raise InvalidInput(f"{name} must be true/false or 0/1, got {bad!r}; compare answers with the truth first")
    return array.astype(np.bool_)


def integer_codes(values: ArrayLike, *, name: str, low: int, stop: int | None) -> IntArray:
    """Return integers from `low` up to, but not including, `stop` as a one-dimensional array.

    >>> integer_codes([0, 2], name="target", low=0, stop=3)
    array([0, 2])
    """
    array = labels(values, name=name)
    if array.size and not np.issubdtype(array.dtype, np.integer):  # an empty list has no dtype of its own
        raise InvalidInput(f"{name} must be integer codes, got {array[0]!r}; number the classes or options from 0")
    codes = array.astype(np.int64)
    outside = (codes < low) | (codes >= (np.inf if stop is None else stop))
    if outside.any():
        limits = f"{low} or more" if stop is None else f"{low} to {stop - 1}"
        raise InvalidInput(f"{name} must be {limits}, got {codes[outside][0]}; number the classes or options from 0")
    return codes


def same_length(**arrays: NDArray[Any]) -> int:
    """Return the common length of the named arrays."""
    sizes = {name: len(array) for name, array in arrays.items()}
    if len(set(sizes.values())) > 1:
        raise InvalidInput(f"arrays must have one length, got {', '.join(f'{k} {v}' for k, v in sizes.items())}")
    return next(iter(sizes.values()))


def _numbers(values: ArrayLike, name: str) -> FloatArray:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{name} must be an array of numbers, got something else: {error}") from error


def finite(values: ArrayLike, *, name: str, ndim: int) -> FloatArray:
    """Return numbers without nan or infinity, with `ndim` axes."""
    array = _numbers(values, name)
    if array.ndim != ndim:
        raise InvalidInput(f"{name} must have {ndim} axes, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise InvalidInput(f"{name} must be finite, got {array[~np.isfinite(array)][0]}; leave such items out first")
    return array


def unit_interval(values: ArrayLike, *, name: str) -> FloatArray:
    """Return numbers from 0 to 1 as a one-dimensional array."""
    array = finite(values, name=name, ndim=1)
    outside = (array < 0) | (array > 1)
    if outside.any():
        raise InvalidInput(f"{name} must be 0 to 1, got {array[outside][0]:.6g}; scale it first")
    return array


def distributions(values: ArrayLike, *, name: str = "probabilities") -> FloatArray:
    """Return label distributions, shape (..., classes): no value negative, each row summing to one."""
    array = _numbers(values, name)
    if array.ndim == 0 or array.shape[-1] == 0:
        raise InvalidInput(f"{name} must have a class axis, got shape {array.shape}")
    if not (array >= 0).all():  # nan fails here too
        raise InvalidInput(f"{name} must not be negative, got {array[~(array >= 0)][0]}")
    sums = array.sum(axis=-1)
    off = np.abs(sums - 1) > _SUM_TOLERANCE
    if off.any():
        raise InvalidInput(f"{name} must sum to one, got {sums[off][0]:.6g}; divide by the sum first")
    return array


def answer_counts(values: ArrayLike, *, name: str = "counts") -> IntArray:
    """Return a table of counts, shape (items, classes): whole numbers, none negative, at least one class.

    >>> answer_counts([[2, 0], [1, 1]]).sum()
    np.int64(4)
    """
    table = finite(values, name=name, ndim=2)
    if table.shape[1] == 0:
        raise InvalidInput(f"{name} must have a class axis, got shape {table.shape}")
    bad = (table < 0) | (table != np.floor(table))
    if bad.any():
        raise InvalidInput(
            f"{name} must be whole numbers of people, got {table[bad][0]:g}; pass counts, not proportions"
        )
    return table.astype(np.int64)


def draw_weights(weights: ArrayLike, columns: int, *, of: str) -> FloatArray:
    """Return bootstrap weights (resamples, columns): how often each item or person was drawn; `of` names which."""
    table = finite(weights, name="weights", ndim=2)
    if table.shape[1] != columns or (table < 0).any():
        raise InvalidInput(
            f"weights must be (resamples, {columns}), one per {of} and none negative, "
            f"got shape {table.shape} and lowest {table.min(initial=0.0):g}"
        )
    return table

"""The arithmetic several measures share."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosight.measures.arithmetic import blocks, centred, divide, summed


def test_divide_is_nan_only_where_the_divisor_is_zero():
    found = divide(np.array([1.0, 0.0, -2.0, math.nan]), np.array([0.0, 0.0, 4.0, 1.0]))
    np.testing.assert_array_equal(found, [math.nan, math.nan, -0.5, math.nan])
    assert divide(np.ones((2, 3)), np.array([1.0, 2.0, 0.0])).shape == (2, 3)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_summed_is_the_sum_by_loops(seed):
    rng = np.random.default_rng(seed)
    rows, stimulus = rng.integers(0, 4, 10), rng.integers(0, 6, 10)  # some of them twice
    columns = rng.integers(0, 5, (6, 3)).astype(np.float32)
    expected = np.zeros((4, 3))
    for row, item in zip(rows, stimulus, strict=True):
        expected[row] += columns[item]
    np.testing.assert_array_equal(summed(rows, stimulus, columns, 4), expected)


@pytest.mark.parametrize(("length", "width", "most"), [(10, 3, 7), (10, 100, 7), (0, 5, 10), (7, 0, 3), (5, 1, 100)])
def test_blocks_cover_everything_once(length, width, most):
    parts = [np.arange(length)[block] for block in blocks(length, width, most=most)]
    np.testing.assert_array_equal(np.concatenate([*parts, []]), np.arange(length))
    assert all(len(part) * width <= max(most, width) for part in parts)


def test_centred_leaves_constants_at_exactly_zero():
    assert (centred(np.full((7, 2), 0.1)) == 0).all()
    np.testing.assert_allclose(centred(np.array([[1.0, 5.0], [3.0, 9.0]])), [[-1, -2], [1, 2]])
    assert centred(np.empty((3, 0))).shape == (3, 0)

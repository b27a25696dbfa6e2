"""Shared checks of array input: what they give, and what they refuse with the rule and the value got."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cosight.arrays import answer_counts, correctness, distributions, draw_weights, finite, labels, same_length
from cosight.errors import InvalidInput


def refused(message):
    return pytest.raises(InvalidInput, match=re.escape(message))


# ------------------------------------------------------------------------------------------------------- correctness


@pytest.mark.parametrize("values", [[True, False], [1, 0], [1.0, 0.0], np.array([1, 0], dtype=np.int8), (True, 0)])
def test_correctness_is_boolean(values):
    found = correctness(values)
    assert found.dtype == np.bool_
    assert found.tolist() == [True, False]


def test_correctness_of_nothing_is_empty():
    assert correctness([]).tolist() == []
    assert correctness([]).dtype == np.bool_


@pytest.mark.parametrize(("values", "got"), [
    ([1, 2], "2"), ([0, -1], "-1"), ([1.0, 0.5], "0.5"), ([1.0, np.nan], "nan"), ([1, None], "None"),
    (["0", "1"], "'0'"), (["cat", "dog"], "'cat'"),
])  # fmt: skip
def test_correctness_takes_right_and_wrong_only(values, got):
    with refused("right must be true/false or 0/1, got ") as told:
        correctness(values, name="right")
    assert got in str(told.value)
    assert str(told.value).endswith("; compare answers with the truth first")


@pytest.mark.parametrize(("values", "shape"), [([[1, 0]], "(1, 2)"), (1, "()"), (np.zeros((0, 3)), "(0, 3)")])
def test_correctness_and_labels_are_one_dimensional(values, shape):
    with refused(f"correctness must be one-dimensional, got shape {shape}"):
        correctness(values)
    with refused(f"truth must be one-dimensional, got shape {shape}"):
        labels(values, name="truth")


# ------------------------------------------------------------------------------------------------------------ labels


@pytest.mark.parametrize("values", [["cat", "dog"], [0, 3], ["cat", None], ["cat", ""], [], [1.5, 2.5]])
def test_labels_stay_as_they_are(values):
    assert labels(values, name="truth").tolist() == values


# ------------------------------------------------------------------------------------------------------- same_length


@pytest.mark.parametrize("length", [0, 1, 7])
def test_same_length_is_the_common_one(length):
    assert same_length(a=np.zeros(length), b=np.zeros((length, 3)), c=np.array(["x"] * length)) == length
    assert same_length(alone=np.zeros(length)) == length


def test_same_length_names_every_array():
    with refused("arrays must have one length, got a 2, b 3, truth 2"):
        same_length(a=np.zeros(2), b=np.zeros(3), truth=np.zeros(2))


# ------------------------------------------------------------------------------------------------------------ finite


@pytest.mark.parametrize(
    ("values", "ndim"), [(3, 0), ([1, 2], 1), ([], 1), ([[1, 2], [3, 4]], 2), (np.ones((0, 2)), 2)]
)
def test_finite_gives_float64(values, ndim):
    found = finite(values, name="x", ndim=ndim)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, values)


@pytest.mark.parametrize(("bad", "got"), [(np.nan, "nan"), (np.inf, "inf"), (-np.inf, "-inf"), (None, "nan")])
def test_finite_refuses_what_is_not(bad, got):
    with refused(f"weights must be finite, got {got}; leave such items out first"):
        finite([1.0, bad], name="weights", ndim=1)


@pytest.mark.parametrize(("values", "ndim", "shape"), [([1, 2], 2, "(2,)"), ([[1]], 1, "(1, 1)"), (1, 1, "()")])
def test_finite_refuses_other_axes(values, ndim, shape):
    with refused(f"x must have {ndim} axes, got shape {shape}"):
        finite(values, name="x", ndim=ndim)


@given(hnp.arrays(np.float64, hnp.array_shapes(min_dims=1, max_dims=2)))
def test_finite_gives_back_the_same_numbers_or_refuses(values):
    if np.isfinite(values).all():
        np.testing.assert_array_equal(finite(values, name="x", ndim=values.ndim), values)
    else:
        with refused("x must be finite"):
            finite(values, name="x", ndim=values.ndim)


# ----------------------------------------------------------------------------------------------------- distributions


@pytest.mark.parametrize("values", [
    [1.0], [0.25, 0.75], [[0.5, 0.5], [1, 0]], np.full((2, 3, 4), 0.25), np.empty((0, 3)), [0.333, 0.333, 0.333],
])  # fmt: skip
def test_distributions_sum_to_one_within_rounding(values):
    found = distributions(values)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, values)  # never divided behind the caller's back


@pytest.mark.parametrize(("values", "message"), [
    ([0.5, 0.6], "p must sum to one, got 1.1; divide by the sum first"),
    ([[0.5, 0.5], [0, 0]], "p must sum to one, got 0; divide by the sum first"),
    ([0.5, 0.498], "p must sum to one, got 0.998; divide by the sum first"),
    ([20, 30], "p must sum to one, got 50; divide by the sum first"),
    ([np.inf, 0.0], "p must sum to one, got inf; divide by the sum first"),
    ([1.5, -0.5], "p must not be negative, got -0.5"),
    ([np.nan, 1.0], "p must not be negative, got nan"),
    (0.5, "p must have a class axis, got shape ()"),
    ([], "p must have a class axis, got shape (0,)"),
    (np.empty((3, 0)), "p must have a class axis, got shape (3, 0)"),
])  # fmt: skip
def test_distributions_refuse(values, message):
    with refused(message):
        distributions(values, name="p")


def test_a_float32_softmax_over_many_classes_is_taken():
    logits = np.random.default_rng(0).normal(0, 5, (50, 1000)).astype(np.float32)
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert distributions(shares).shape == (50, 1000)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_distributions_take_exactly_what_sums_to_one(values):
    if abs(sum(values) - 1) <= 0.9e-3:
        assert distributions(values).tolist() == values
    elif abs(sum(values) - 1) > 1.1e-3:
        with refused("must sum to one"):
            distributions(values)


# ----------------------------------------------------------------------------------------------------- answer_counts


@pytest.mark.parametrize("values", [[[2, 0], [1, 1]], [[3.0, 4.0]], np.zeros((0, 2)), [[0]]])
def test_counts_are_whole(values):
    found = answer_counts(values)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, values)


@pytest.mark.parametrize(("values", "message"), [
    ([[2, -1]], "people must be whole numbers of people, got -1; pass counts, not proportions"),
    ([[0.4, 0.6]], "people must be whole numbers of people, got 0.4; pass counts, not proportions"),
    ([[2, np.nan]], "people must be finite, got nan; leave such items out first"),
    ([2, 1], "people must have 2 axes, got shape (2,)"),
    (np.empty((2, 0)), "people must have a class axis, got shape (2, 0)"),
])  # fmt: skip
def test_counts_refuse(values, message):
    with refused(message):
        answer_counts(values, name="people")


# ------------------------------------------------------------------------------------------------------ draw_weights


def test_weights_have_a_column_an_item():
    found = draw_weights([[0, 2, 1], [1.5, 0, 0]], 3, of="item")
    assert found.dtype == np.float64
    assert found.tolist() == [[0, 2, 1], [1.5, 0, 0]]
    assert draw_weights(np.empty((0, 3)), 3, of="item").shape == (0, 3)


@pytest.mark.parametrize(("weights", "got"), [
    ([[1, 1]], "got shape (1, 2) and lowest 0"),
    ([[1, 1, 1, 1]], "got shape (1, 4) and lowest 0"),
    ([[1, -2, 1]], "got shape (1, 3) and lowest -2"),
    (np.empty((0, 2)), "got shape (0, 2) and lowest 0"),
])  # fmt: skip
def test_weights_refuse_another_shape_and_negative_ones(weights, got):
    with refused(f"weights must be (resamples, 3), one per person and none negative, {got}"):
        draw_weights(weights, 3, of="person")


@pytest.mark.parametrize(("weights", "message"), [
    ([1, 1, 1], "weights must have 2 axes, got shape (3,)"),
    ([[1, np.nan, 1]], "weights must be finite, got nan; leave such items out first"),
])  # fmt: skip
def test_weights_are_a_finite_table(weights, message):
    with refused(message):
        draw_weights(weights, 3, of="item")


@pytest.mark.parametrize("values", [["one", "two"], [[1.0], [1.0, 2.0]]])
def test_what_is_no_array_of_numbers_is_refused(values):
    with pytest.raises(InvalidInput, match="x must be an array of numbers"):
        finite(values, name="x", ndim=1)
    with pytest.raises(InvalidInput, match="x must be an array of numbers"):
        distributions(values, name="x")

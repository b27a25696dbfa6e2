"""Softmax outputs and Frechet distance: by hand, scipy, closed forms, laws and edges."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import sqrtm
from scipy.spatial.distance import jensenshannon

from cosight.errors import InvalidInput
from cosight.measures import distance
from cosight.measures.declarations import measures
from cosight.measures.distance import soc_matrix, softmax_output_consistency, softmax_output_consistency_on_errors
from cosight.measures.representation import frechet_distance

seeds = st.integers(0, 2**31)


def _features(n, *widths, seed=0):
    """Feature sets that share some structure, off centre."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=(n, 3))
    return [shared @ rng.normal(size=(3, d)) + rng.normal(size=(n, d)) + 5 for d in widths]


def _rotation(d, seed=1):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(d, d)))[0]


def _outputs(m, n, k, seed=0):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(k, 0.5), size=(m, n)), rng.random((m, n)) < 0.5


@pytest.mark.parametrize(
    ("p", "q", "value"),
    [
        ([[1, 0]], [[0, 1]], math.log(2)),  # nothing in common
        ([[1, 0]], [[0.5, 0.5]], 0.75 * math.log(4 / 3)),  # by hand: ln(4/3)/2 + (ln(2/3) + ln 2)/4
        ([[0.2, 0.8]], [[0.2, 0.8]], 0),
        ([[1, 0], [1, 0]], [[0, 1], [1, 0]], math.log(2) / 2),  # a mean over trials
    ],
)
def test_soc_by_hand(p, q, value):
    result = softmax_output_consistency(p, q)
    assert result.value == pytest.approx(value, abs=1e-15)
    assert result.n == len(p)


def test_soc_is_scipys_jensen_shannon():
    (p, q), _ = _outputs(2, 50, 7)
    result = softmax_output_consistency(p, q)
    np.testing.assert_allclose(result.items, jensenshannon(p, q, axis=1) ** 2, rtol=1e-9)
    assert result.value == pytest.approx(result.items.mean())


def test_soce_counts_joint_errors_only():
    (p, q), (a, b) = _outputs(2, 60, 5)
    result = softmax_output_consistency_on_errors(p, q, a, b)
    wrong = ~a & ~b
    assert result.n == wrong.sum()
    assert result.value == pytest.approx(softmax_output_consistency(p[wrong], q[wrong]).value)
    np.testing.assert_array_equal(np.isnan(result.items), ~wrong)


@given(seeds)
@settings(deadline=None)
def test_soc_and_soce_laws(seed):
    (p, q), (a, b) = _outputs(2, 6, 4, seed)
    order = np.random.default_rng(seed).permutation(4)
    soc, soce = softmax_output_consistency(p, q), softmax_output_consistency_on_errors(p, q, a, b)
    assert 0 <= soc.value <= math.log(2) + 1e-12
    assert softmax_output_consistency(q, p).value == pytest.approx(soc.value)
    assert softmax_output_consistency(p[:, order], q[:, order]).value == pytest.approx(soc.value)
    assert softmax_output_consistency(p[::-1], q[::-1]).value == pytest.approx(soc.value)
    assert softmax_output_consistency(p, p).value == 0
    other = softmax_output_consistency_on_errors(q, p, b, a)
    np.testing.assert_allclose(other.items, soce.items)
    everywhere = softmax_output_consistency_on_errors(p, q, np.zeros(6), np.zeros(6))
    np.testing.assert_array_equal(everywhere.items, soc.items)


def test_soc_and_soce_undefined():
    assert math.isnan(softmax_output_consistency(np.empty((0, 3)), np.empty((0, 3))).value)
    result = softmax_output_consistency_on_errors([[1, 0]], [[0, 1]], [True], [False])
    assert math.isnan(result.value)
    assert result.n == 0


@pytest.mark.parametrize("block", [1, 40, 1 << 20])
def test_soc_matrix_is_every_pair(block, monkeypatch):
    monkeypatch.setattr(distance, "_BLOCK", block)
    outputs, correct = _outputs(5, 13, 3)
    correct[0] = True  # no errors at all
    soc = [[softmax_output_consistency(p, q).value for q in outputs] for p in outputs]
    np.testing.assert_allclose(soc_matrix(outputs), soc, atol=1e-15)
    marked = list(zip(outputs, correct, strict=True))
    soce = [[softmax_output_consistency_on_errors(p, q, a, b).value for q, b in marked] for p, a in marked]
    np.testing.assert_allclose(soc_matrix(outputs, correct), soce, atol=1e-15)
    assert np.isnan(soc_matrix(outputs, correct)[0]).all()


def test_soc_matrix_takes_float32_and_no_trials():
    outputs, _ = _outputs(3, 8, 4)
    np.testing.assert_allclose(soc_matrix(outputs.astype(np.float32)), soc_matrix(outputs), atol=1e-6)
    assert np.isnan(soc_matrix(np.empty((2, 0, 3)))).all()


@pytest.mark.parametrize(("n1", "n2", "d"), [(60, 40, 5), (200, 200, 12)])
def test_frechet_is_scipys_matrix_root(n1, n2, d):
    rng = np.random.default_rng(d)
    x, y = rng.normal(size=(n1, d)) @ rng.normal(size=(d, d)), rng.normal(size=(n2, d)) + 1
    s1, s2 = np.cov(x, rowvar=False), np.cov(y, rowvar=False)
    result = frechet_distance(x, y)
    assert result.mean_part == pytest.approx(np.sum((x.mean(axis=0) - y.mean(axis=0)) ** 2))
    assert result.covariance_part == pytest.approx(np.trace(s1 + s2 - 2 * sqrtm(s1 @ s2).real), rel=1e-8)
    assert result.value == result.mean_part + result.covariance_part


def test_frechet_of_diagonal_gaussians():
    """Closed form: sum of (mu1 - mu2)^2 + (sd1 - sd2)^2."""
    corners = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]]) * math.sqrt(3 / 4)  # covariance is exactly the identity
    result = frechet_distance(corners * [3, 1] + [2, 0], corners * [0.5, 4] + [0, 5])
    assert result.mean_part == pytest.approx(29)
    assert result.covariance_part == pytest.approx(2.5**2 + 3**2)


@pytest.mark.parametrize(("n", "d"), [(30, 4), (5, 40), (2, 1), (10, 10)])
def test_frechet_laws(n, d):
    x, y = _features(n, d, d)
    value = frechet_distance(x, y[: n - 1] if n > 2 else y).value
    assert frechet_distance(y[: n - 1] if n > 2 else y, x).value == pytest.approx(value)
    turn = _rotation(d)
    assert frechet_distance(x @ turn, (y[: n - 1] if n > 2 else y) @ turn).value == pytest.approx(value)
    assert 0 <= frechet_distance(x, x[::-1]).value < 1e-20  # one set, whatever the order
    shifted = frechet_distance(x, x + 2)
    assert shifted.mean_part == pytest.approx(4 * d)
    assert 0 <= shifted.covariance_part < 1e-20


def test_frechet_with_fewer_rows_than_features():
    """Sets in orthogonal planes: the root vanishes and the traces add up."""
    x, y = np.zeros((3, 50)), np.zeros((4, 50))
    x[:, :2] = [[0, 0], [1, 0], [0, 1]]
    y[:, 10:12] = [[0, 0], [2, 0], [0, 2], [2, 2]]
    expected = np.trace(np.cov(x, rowvar=False)) + np.trace(np.cov(y, rowvar=False))
    assert frechet_distance(x, y).covariance_part == pytest.approx(expected)
    narrow = frechet_distance(x[:, [0, 1, 10, 11]], y[:, [0, 1, 10, 11]])
    assert frechet_distance(x, y).value == pytest.approx(narrow.value)


def test_frechet_undefined():
    one = frechet_distance([[1.0, 2.0]], [[1.0, 0.0], [3.0, 0.0]])
    assert one.mean_part == 5
    assert math.isnan(one.covariance_part)
    assert math.isnan(one.value)
    assert math.isnan(frechet_distance(np.empty((0, 2)), [[1.0, 0.0], [3.0, 0.0]]).mean_part)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: softmax_output_consistency([[0.5, 0.4]], [[1, 0]]), "p must sum to one, got 0.9"),
        (lambda: softmax_output_consistency([[1, 0]], [[1, 0, 0]]), r"got \(1, 2\) and \(1, 3\)"),
        (lambda: softmax_output_consistency([1, 0], [1, 0]), r"one shape \(trials, classes\)"),
        (lambda: softmax_output_consistency_on_errors([[1, 0]], [[1, 0]], [1], [1, 0]), "b_correct 2"),
        (lambda: softmax_output_consistency_on_errors([[1, 0]], [[1, 0]], [2], [1]), "a_correct must be true/false"),
        (lambda: soc_matrix([[1, 0]]), "probabilities must have shape"),
        (lambda: soc_matrix([[[1, 0]], [[2, 0]]]), "must sum to one, got 2"),
        (lambda: soc_matrix([[[1, 0]]], [[1, 0]]), r"\(1, 1\), got \(1, 2\)"),
        (lambda: frechet_distance(np.ones((3, 2)), np.ones((3, 4))), "one width, got 2 and 4"),
        (lambda: frechet_distance([[math.inf]], [[1.0]]), "x must be finite, got inf"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()


@pytest.mark.parametrize(
    ("alias", "function"),
    [
        ("soc", softmax_output_consistency),
        ("soce", softmax_output_consistency_on_errors),
        ("frechet", frechet_distance),
    ],
)
def test_declared(alias, function):
    assert measures[alias].function is function
    assert measures[alias].symmetric is True

"""CKA and Frechet distance: loops over Gram matrices, scikit-learn, scipy, closed forms, laws and edges."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import sqrtm
from sklearn.preprocessing import KernelCenterer

from cosight.errors import InvalidInput
from cosight.measures import representation
from cosight.measures.declarations import measures
from cosight.measures.representation import (
    frechet_distance,
    linear_cka,
    linear_cka_influence,
    linear_cka_matrix,
    linear_cka_plain,
    minibatch_cka,
)

seeds = st.integers(0, 2**31)
SHAPES = [(8, 3, 2), (30, 4, 7), (5, 40, 60), (6, 2, 300), (4, 1, 1)]  # n, d1, d2: both ways of computing


def _features(n, *widths, seed=0):
    """Feature sets that share some structure, off centre."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=(n, 3))
    return [shared @ rng.normal(size=(3, d)) + rng.normal(size=(n, d)) + 5 for d in widths]


def _rotation(d, seed=1):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(d, d)))[0]


def _loop_hsic(x, y):
    """The unbiased HSIC of Song et al. 2012 (Eq. 5), by loops over the Gram matrices."""
    n = len(x)
    k = [[0.0 if i == j else float(x[i] @ x[j]) for j in range(n)] for i in range(n)]
    m = [[0.0 if i == j else float(y[i] @ y[j]) for j in range(n)] for i in range(n)]
    trace = sum(k[i][j] * m[j][i] for i in range(n) for j in range(n))
    product = sum(map(sum, k)) * sum(map(sum, m)) / ((n - 1) * (n - 2))
    chain = sum(k[i][j] * m[j][h] for i in range(n) for j in range(n) for h in range(n))
    return (trace + product - 2 / (n - 2) * chain) / (n * (n - 3))


@pytest.mark.parametrize("shape", SHAPES)
def test_unbiased_cka_by_loops(shape):
    x, y = _features(*shape)
    expected = _loop_hsic(x, y) / math.sqrt(_loop_hsic(x, x) * _loop_hsic(y, y))
    result = linear_cka(x, y)
    assert result.value == pytest.approx(expected, rel=1e-8)
    assert (result.n, result.unbiased, result.batches) == (shape[0], True, 1)


@pytest.mark.parametrize("shape", SHAPES)
def test_biased_cka_of_centred_gram_matrices(shape):
    x, y = _features(*shape)
    k, m = (KernelCenterer().fit_transform(a @ a.T) for a in (x, y))  # scikit-learn
    result = linear_cka(x, y, unbiased=False)
    assert result.value == pytest.approx((k * m).sum() / np.linalg.norm(k) / np.linalg.norm(m), rel=1e-8)
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)  # Kornblith et al. 2019, section 3
    norms = [np.linalg.norm(b.T @ a) for a, b in ((x, y), (x, x), (y, y))]
    assert result.value == pytest.approx(norms[0] ** 2 / (norms[1] * norms[2]), rel=1e-8)
    assert not result.unbiased


@given(seeds, st.booleans(), st.sampled_from([1e-100, 0.01, 1e100]))
@settings(deadline=None)
def test_cka_laws(seed, unbiased, scale):
    x, y = _features(9, 4, 12, seed=seed)
    value = linear_cka(x, y, unbiased=unbiased).value
    assert linear_cka(y, x, unbiased=unbiased).value == pytest.approx(value)
    assert linear_cka(x @ _rotation(4, seed) * scale, y + 3, unbiased=unbiased).value == pytest.approx(value)
    assert linear_cka(x[::-1], y[::-1], unbiased=unbiased).value == pytest.approx(value)
    assert linear_cka(x, x, unbiased=unbiased).value == pytest.approx(1)
    assert (-1 if unbiased else 0) <= value <= 1 + 1e-12


def test_only_the_unbiased_cka_of_unrelated_wide_features_is_near_zero():
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(2, 20, 500))
    assert abs(linear_cka(x, y).value) < 0.2
    assert linear_cka(x, y, unbiased=False).value > 0.9


@pytest.mark.parametrize("shape", [(40, 3, 5, 2), (6, 50, 30, 90)])
@pytest.mark.parametrize("block", [1, 17, 1 << 20])
def test_cka_is_the_same_by_rows_columns_and_blocks(shape, block, monkeypatch):
    sets = [x - x.mean(axis=0) for x in _features(*shape)]
    monkeypatch.setattr(representation, "_BLOCK", block)
    expected = [[np.linalg.norm(x.T @ y) ** 2 for y in sets] for x in sets]
    np.testing.assert_allclose(representation._crosses_by_columns(sets), expected)
    np.testing.assert_allclose(representation._crosses_by_rows(sets), expected)


def test_long_narrow_features_never_make_a_gram_matrix(monkeypatch):
    monkeypatch.delattr(representation, "_crosses_by_rows")
    x, y = _features(20_000, 3, 2)
    assert linear_cka(x, y).value > 0.1


def test_short_wide_features_never_make_a_covariance(monkeypatch):
    monkeypatch.delattr(representation, "_crosses_by_columns")
    x, y = _features(6, 20_000, 10_000)
    assert linear_cka(x, y).n == 6


@pytest.mark.parametrize("unbiased", [True, False])
def test_cka_matrix_is_every_pair(unbiased):
    sets = [*_features(12, 3, 30, 1, 8), np.full((12, 2), 0.1)]
    matrix = linear_cka_matrix(sets, unbiased=unbiased)
    expected = [[linear_cka(x, y, unbiased=unbiased).value for y in sets] for x in sets]
    np.testing.assert_allclose(matrix, expected, rtol=1e-10)
    assert np.isnan(matrix[-1]).all()
    np.testing.assert_allclose(np.diag(matrix)[:-1], 1)


@pytest.mark.parametrize(
    ("x", "unbiased"),
    [
        (np.arange(3.0)[:, None], True),
        (np.arange(1.0)[:, None], False),
        (np.empty((0, 2)), True),
        (np.empty((0, 2)), False),
        (np.full((7, 3), 0.1), True),
        (np.full((7, 3), 0.1), False),
        (np.empty((5, 0)), True),
        (np.eye(6), True),  # all rows equally far apart
    ],
)
def test_cka_undefined(x, unbiased):
    y = np.arange(len(x) * 2.0).reshape(-1, 2) ** 2
    assert math.isnan(linear_cka(x, y, unbiased=unbiased).value)
    assert math.isnan(linear_cka(y, x, unbiased=unbiased).value)


def test_cka_is_defined_from_its_fewest_stimuli_on():
    x = np.array([[0.0], [1.0], [3.0], [4.0]])
    assert linear_cka(x, x).value == pytest.approx(1)
    assert linear_cka(x[:2], x[:2], unbiased=False).value == pytest.approx(1)


def test_minibatch_cka_averages_hsic():
    x, y = _features(24, 3, 5)
    batches = [(x[i : i + 6], y[i : i + 6]) for i in range(0, 24, 6)]
    sums = [sum(_loop_hsic(*pick(a, b)) for a, b in batches) for pick in (_xy, _xx, _yy)]
    result = minibatch_cka(iter(batches))  # any iterable, read once
    assert result.value == pytest.approx(sums[0] / math.sqrt(sums[1] * sums[2]), rel=1e-8)
    assert (result.n, result.batches) == (24, 4)


def _xy(a, b):
    return a, b


def _xx(a, _):
    return a, a


def _yy(_, b):
    return b, b


def test_one_batch_is_the_whole():
    x, y = _features(11, 3, 40)
    assert minibatch_cka([(x, y)]).value == pytest.approx(linear_cka(x, y).value)


def test_minibatch_cka_undefined():
    assert math.isnan(minibatch_cka([]).value)
    x, y = _features(8, 3, 2)
    assert math.isnan(minibatch_cka([(x, np.full((8, 2), 0.1))]).value)
    halved = minibatch_cka([(x, y), (np.ones((8, 3)), y)])  # a constant batch adds to HSIC(L, L) alone
    assert halved.value == pytest.approx(linear_cka(x, y).value / math.sqrt(2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: linear_cka(np.ones((4, 2)), np.ones((5, 2))), "x 4, y 5"),
        (lambda: linear_cka([[math.nan]] * 4, np.ones((4, 1))), "x must be finite, got nan"),
        (lambda: linear_cka(np.ones(4), np.ones((4, 1))), "x must have 2 axes"),
        (lambda: linear_cka_matrix([]), "at least one feature set"),
        (lambda: linear_cka_matrix([np.ones((4, 1)), np.ones((3, 1))]), r"features\[0\] 4, features\[1\] 3"),
        (lambda: minibatch_cka([(np.ones((3, 1)), np.ones((3, 1)))]), "at least 4 stimuli, got 3; drop it"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()


def test_declared():
    assert measures["cka"].function is linear_cka
    assert measures["cka"].symmetric is True


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
        (lambda: frechet_distance(np.ones((3, 2)), np.ones((3, 4))), "one width, got 2 and 4"),
        (lambda: frechet_distance([[math.inf]], [[1.0]]), "x must be finite, got inf"),
    ],
)
def test_frechet_refuses_bad_input(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()


@pytest.mark.parametrize(
    ("alias", "function"),
    [
        ("frechet", frechet_distance),
    ],
)
def test_frechet_declared(alias, function):
    assert measures[alias].function is function
    assert measures[alias].symmetric is True


# ---- the influence of each stimulus


@pytest.mark.parametrize("unbiased", [True, False])
@pytest.mark.parametrize("width", [4, 30])
def test_influence_is_that_of_leaving_each_stimulus_out(width, unbiased):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(12, width))
    y = x[:, :3] @ rng.normal(size=(3, 6)) + rng.normal(size=(12, 6))
    without = [
        linear_cka(np.delete(x, row, axis=0), np.delete(y, row, axis=0), unbiased=unbiased).value for row in range(12)
    ]
    found = linear_cka_influence([x, y], [[0, 1], [1, 0], [0, 0]], unbiased=unbiased)
    assert found[0] == pytest.approx(11 * (np.mean(without) - without))
    assert found[1] == pytest.approx(found[0])
    assert found[2] == pytest.approx(np.zeros(12), abs=1e-9)


def test_influence_gives_the_spread_from_sample_to_sample():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 8, 40))

    def sample(seed):
        draws = np.random.default_rng(seed)
        shared = draws.normal(size=(150, 8))
        return np.tanh(shared @ a), np.tanh(shared @ b + draws.normal(size=(150, 40)))

    values = [linear_cka(*sample(seed)).value for seed in range(120)]
    errors = [linear_cka_influence(sample(seed), [[0, 1]])[0].std() / math.sqrt(150) for seed in range(5)]
    assert np.mean(errors) == pytest.approx(np.std(values), rel=0.3)


def test_influence_is_undefined_with_too_few_stimuli():
    assert np.isnan(linear_cka_influence([np.eye(4), np.eye(4)], [[0, 1]])).all()
    assert np.isnan(linear_cka_influence([np.eye(2), np.eye(2)], [[0, 1]], unbiased=False)).all()
    with pytest.raises(InvalidInput, match="at least one feature set"):
        linear_cka_influence([], [[0, 1]])


def test_the_plain_form_is_a_measure_of_its_own():
    x = np.random.default_rng(1).normal(size=(10, 3))
    assert linear_cka_plain(x, x[:, :2]) == linear_cka(x, x[:, :2], unbiased=False)
    assert measures["cka_plain"].function is linear_cka_plain

"""Distances between label distributions: golden values, outside references, laws."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from scipy.spatial import distance as reference
from scipy.spatial.distance import jensenshannon

from cosight.errors import InvalidInput
from cosight.measures import distance
from cosight.measures.declarations import measures
from cosight.measures.distance import soc_matrix, softmax_output_consistency, softmax_output_consistency_on_errors

PAIRWISE = ["hellinger", "hellinger_printed", "total_variation", "jensen_shannon", "kullback_leibler"]
SYMMETRIC = PAIRWISE[:-1]
TIGER = [1.0, 0.0, 0.0]
ROUNDING = 1e-12
law = settings(deadline=None, max_examples=50)


@st.composite
def pairs(draw, zeros=True):
    """Two arrays of distributions of one shape, (n, classes), with exact zeros among them."""
    shape = (draw(st.integers(1, 6)), draw(st.integers(2, 7)))
    weights = st.floats(1e-3, 1) | st.just(0.0) if zeros else st.floats(1e-3, 1)
    p, q = (draw(arrays(np.float64, shape, elements=weights)) for _ in "pq")
    p[p.sum(axis=1) == 0] = q[q.sum(axis=1) == 0] = 1.0
    return p / p.sum(axis=1, keepdims=True), q / q.sum(axis=1, keepdims=True)


@pytest.fixture
def random_pair():
    rng = np.random.default_rng(0)
    return rng.dirichlet(np.ones(11), 50), rng.dirichlet(np.full(11, 0.3), 50)


@pytest.mark.parametrize(
    ("name", "p", "q", "expected"),
    [
        ("hellinger", TIGER, [0.3, 0.0, 0.7], 0.67252),  # Lee et al. 2023, section 4.1's example
        ("hellinger", TIGER, [0.3, 0.4, 0.3], 0.67252),  # the same: only the true class' share counts
        ("hellinger_printed", TIGER, [0.3, 0.0, 0.7], 0.91142),  # the same example by Eq. 1 as printed
        ("hellinger_printed", TIGER, [0.3, 0.4, 0.3], 1.15432),
        ("hellinger_printed", [0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5], 2.0),  # sqrt(classes), its upper bound
        ("total_variation", TIGER, [0.3, 0.4, 0.3], 0.7),  # 1 - .3, by hand
        ("kullback_leibler", TIGER, [0.3, 0.0, 0.7], math.log(1 / 0.3)),  # 4.1: KL cannot tell the two apart
        ("kullback_leibler", TIGER, [0.3, 0.4, 0.3], math.log(1 / 0.3)),
        ("kullback_leibler", [0.5, 0.5], [0.25, 0.75], math.log(4 / 3) / 2),  # log 2 / 2 + log(2/3) / 2, by hand
        ("kullback_leibler", [0.3, 0.7], [0.0, 1.0], math.inf),  # our stated convention
        ("jensen_shannon", [1, 0], [0, 1], math.log(2)),  # its upper bound
        ("jensen_shannon", [1, 0], [0.5, 0.5], 0.75 * math.log(4 / 3)),  # log(4/3)/2 + (log(2/3)/2 + log(2)/2)/2
    ],
)
def test_reference_values(name, p, q, expected):
    assert measures[name].function(p, q).value == pytest.approx(expected, abs=5e-6)


@pytest.mark.parametrize("name", PAIRWISE)
def test_against_an_outside_reference(name, random_pair):
    outside = {
        "hellinger": lambda p, q: math.sqrt(1 - np.sqrt(p * q).sum()),  # through the Bhattacharyya coefficient
        "hellinger_printed": lambda p, q: reference.cityblock(np.sqrt(p), np.sqrt(q)) / math.sqrt(2),
        "total_variation": lambda p, q: reference.cityblock(p, q) / 2,
        "jensen_shannon": lambda p, q: reference.jensenshannon(p, q) ** 2,
        "kullback_leibler": lambda p, q: stats.entropy(p, q),
    }[name]
    result = measures[name].function(*random_pair)
    expected = [outside(p, q) for p, q in zip(*random_pair, strict=True)]
    np.testing.assert_allclose(result.items, expected, rtol=1e-9)
    assert result.value == pytest.approx(np.mean(expected))


def test_entropy_against_scipy(random_pair):
    result = distance.label_entropy(random_pair[1])
    np.testing.assert_allclose(result.items, stats.entropy(random_pair[1], axis=1), rtol=1e-9)
    assert result.value == pytest.approx(result.items.mean())


@pytest.mark.parametrize(
    ("p", "expected"), [([1, 0, 0], 0), ([0.25] * 4, math.log(4)), ([0.5, 0.5, 0], math.log(2)), ([1], 0)]
)
def test_entropy_reference_values(p, expected):
    assert distance.label_entropy(p).value == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("name", SYMMETRIC)
@law
@given(pair=pairs())
def test_symmetric_and_zero_for_the_same(name, pair):
    function = measures[name].function
    np.testing.assert_array_equal(function(*pair).items, function(*reversed(pair)).items)
    assert function(pair[0], pair[0]).items.tolist() == [0] * len(pair[0])


@law
@given(pair=pairs(zeros=False))
def test_kullback_leibler_is_zero_only_for_the_same(pair):
    p, q = pair
    assert distance.kullback_leibler(p, p).value == 0
    unlike = distance.total_variation(p, q).items > 1e-6
    assert (distance.kullback_leibler(p, q).items[unlike] > 0).all()


def test_kullback_leibler_is_not_symmetric():
    assert measures["kl"].symmetric is False
    assert distance.kullback_leibler([0.9, 0.1], [0.5, 0.5]).value != pytest.approx(
        distance.kullback_leibler([0.5, 0.5], [0.9, 0.1]).value, abs=0.1
    )


@pytest.mark.parametrize("name", PAIRWISE)
@law
@given(pair=pairs())
def test_within_the_declared_range(name, pair):
    facts = measures[name]
    items = facts.function(*pair).items
    assert items.shape == (len(pair[0]),)
    assert (items >= facts.low - ROUNDING).all()
    assert (items <= facts.high + ROUNDING).all()


@pytest.mark.parametrize("name", PAIRWISE)
@law
@given(pair=pairs(), data=st.data())
def test_class_names_and_item_order_do_not_matter(name, pair, data):
    p, q = pair
    classes = data.draw(st.permutations(range(p.shape[1])))
    order = data.draw(st.permutations(range(len(p))))
    function = measures[name].function
    np.testing.assert_allclose(function(p[:, classes], q[:, classes]).items, function(p, q).items, atol=1e-12)
    np.testing.assert_array_equal(function(p[order], q[order]).items, function(p, q).items[order])


@law
@given(pair=pairs())
def test_known_inequalities(pair):
    h, printed, tv, js, kl = (measures[name].function(*pair).items for name in PAIRWISE)
    slack = 1e-9
    assert (h**2 <= tv + slack).all()  # Le Cam
    assert (tv <= math.sqrt(2) * h + slack).all()
    assert (h <= printed + slack).all()
    assert (printed <= math.sqrt(pair[0].shape[1]) * h + slack).all()  # Cauchy-Schwarz
    assert (tv <= np.sqrt(kl / 2) + slack).all()  # Pinsker
    assert (js <= math.log(2) * tv + slack).all()  # Lin 1991, theorem 3


@law
@given(pair=pairs(), size=st.floats(1e-17, 1e-6))
def test_divergences_of_near_twins_are_not_negative(pair, size):
    p = pair[0]
    q = p * (1 + size * (pair[1] - 0.5))
    assert (distance.jensen_shannon(p, q).items >= -1e-30).all()  # its square root must stay a number
    assert (distance.kullback_leibler(p, q).items >= -1e-20).all()


def test_smallest_floats_do_not_overflow():
    tiny = 5e-324
    assert distance.jensen_shannon([tiny, 1], [0, 1]).value == pytest.approx(0, abs=1e-300)
    assert distance.kullback_leibler([1, 0], [1e-320, 1]).value == pytest.approx(-math.log(1e-320))


def test_one_infinite_item_makes_the_mean_infinite():
    result = distance.kullback_leibler([[1, 0], [0, 1]], [[1, 0], [1, 0]])
    assert result.items.tolist() == [0, math.inf]
    assert result.value == math.inf


@pytest.mark.parametrize("name", PAIRWISE)
def test_one_distribution_is_one_item(name):
    function = measures[name].function
    one, many = function([0.2, 0.8], [0.5, 0.5]), function([[0.2, 0.8]], [[0.5, 0.5]])
    assert one.items.shape == (1,)
    assert one.value == many.value > 0


@pytest.mark.parametrize("name", PAIRWISE)
def test_without_items_the_mean_is_undefined(name):
    result = measures[name].function(np.empty((0, 3)), np.empty((0, 3)))
    assert result.items.shape == (0,)
    assert math.isnan(result.value)
    assert math.isnan(distance.label_entropy(np.empty((0, 3))).value)


@pytest.mark.parametrize("name", PAIRWISE)
@pytest.mark.parametrize(
    ("p", "q", "message"),
    [
        ([1, 0], [1, 0, 0], r"one shape, got \(2,\) and \(3,\)"),
        ([[1, 0]], [1, 0], r"one shape, got \(1, 2\) and \(2,\)"),
        ([[1, 0]], [[1, 0], [0, 1]], "one shape"),  # no silent broadcasting
        ([[[1, 0]]], [[[1, 0]]], r"\(n, classes\), got \(1, 1, 2\)"),
        ([1, 0], [0.9, 0.2], "q must sum to one, got 1.1"),
        ([1.5, -0.5], [1, 0], "p must not be negative, got -0.5"),
        ([1, 0], [math.nan, 1], "q must not be negative, got nan"),
        ([], [], "p must have a class axis"),
    ],
)
def test_bad_input_is_refused(name, p, q, message):
    with pytest.raises(InvalidInput, match=message):
        measures[name].function(p, q)


@pytest.mark.parametrize(("p", "message"), [([0.5, 0.4], "p must sum to one"), ([[[1, 0]]], "flatten")])
def test_entropy_refuses_bad_input(p, message):
    with pytest.raises(InvalidInput, match=message):
        distance.label_entropy(p)


def test_plain_helpers_work_over_the_last_axis_and_broadcast(random_pair):
    p, q = random_pair
    table = distance.jensen_shannon_divergence(p[:4, None], q[None, :5])
    assert table.shape == (4, 5)
    assert table[3, 2] == distance.jensen_shannon(p[3], q[2]).value
    assert distance.entropy(p.reshape(5, 10, 11)).shape == (5, 10)


@pytest.mark.parametrize(("alias", "name"), [("tv", "total_variation"), ("js", "jensen_shannon"), ("kl", PAIRWISE[-1])])
def test_aliases(alias, name):
    assert measures[alias] is measures[name]


def test_results_are_frozen():
    with pytest.raises(FrozenInstanceError):
        distance.hellinger([1, 0], [1, 0]).items = np.zeros(1)


seeds = st.integers(0, 2**31)


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
    ],
)
def test_soc_refuses_bad_input(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()


@pytest.mark.parametrize(
    ("alias", "function"),
    [
        ("soc", softmax_output_consistency),
        ("soce", softmax_output_consistency_on_errors),
    ],
)
def test_soc_declared(alias, function):
    assert measures[alias].function is function
    assert measures[alias].symmetric is True

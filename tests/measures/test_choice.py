import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cosight.errors import InvalidInput
from cosight.measures.choice import choice_share, clustering_share, two_alternative_share
from cosight.measures.declarations import measures

coarse = st.integers(0, 4).map(float)  # few values, so that ties are common
tables = st.tuples(st.integers(1, 12), st.integers(1, 5)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=coarse)
)


@pytest.mark.parametrize(
    ("to_target", "to_seed", "items", "ties"),
    [
        ([0.1, 0.9], [0.9, 0.1], [1, 0], 0),  # Nanda et al. 2021, 2.2: aligned when the target is the closer one
        ([0.3], [0.3], [0.5], 1),  # our stated convention
        ([-1.0, 0.0], [0.0, -1.0], [1, 0], 0),  # only the order counts
    ],
)
def test_two_alternative_items(to_target, to_seed, items, ties):
    result = two_alternative_share(to_target, to_seed)
    assert result.items.tolist() == items
    assert (result.value, result.ties, result.chance) == (np.mean(items), ties, 0.5)
    assert (result.n, result.missing) == (len(items), 0)


@given(tables)
@settings(deadline=None)
def test_swapping_target_and_seed_gives_the_other_share(table):
    target, seed = table[:, 0], table[:, -1]
    one, other = two_alternative_share(target, seed), two_alternative_share(seed, target)
    assert one.value == pytest.approx(1 - other.value)
    assert one.ties == other.ties == sum(t == s for t, s in zip(target, seed, strict=True))


@given(tables)
@settings(deadline=None)
def test_two_options_make_clustering_two_alternative(table):
    pair = np.stack([table[:, 0], table[:, -1]], axis=1)
    clustered = clustering_share(pair, np.zeros(len(pair), dtype=int))
    chosen = two_alternative_share(pair[:, 0], pair[:, 1])
    np.testing.assert_array_equal(clustered.items, chosen.items)
    assert (clustered.ties, clustered.chance) == (chosen.ties, chosen.chance)


@given(tables, st.integers(0, 2**31))
@settings(deadline=None)
def test_clustering_is_the_mean_of_ties_broken_at_random(table, seed):
    right = np.random.default_rng(seed).integers(table.shape[1], size=len(table))
    result = clustering_share(table, right)
    for row, target, item in zip(table, right, result.items, strict=True):
        closest = [i for i, d in enumerate(row) if d == min(row)]
        assert item == (1 / len(closest) if target in closest else 0)
    assert result.value == pytest.approx(result.items.mean())
    assert result.chance == 1 / table.shape[1]


@given(tables, st.randoms(use_true_random=False))
@settings(deadline=None)
def test_clustering_does_not_depend_on_the_order_of_options(table, random):
    order = list(range(table.shape[1]))
    random.shuffle(order)
    right = np.arange(len(table)) % table.shape[1]
    moved = np.argsort(order)[right]
    np.testing.assert_array_equal(clustering_share(table[:, order], moved).items, clustering_share(table, right).items)


def test_every_option_together_is_certain():
    table = np.random.default_rng(0).integers(3, size=(50, 4)).astype(float)
    shares = [clustering_share(table, np.full(50, option)).items for option in range(4)]
    np.testing.assert_allclose(np.sum(shares, axis=0), 1)


def test_a_blind_judge_scores_chance():
    result = clustering_share(np.ones((198, 3)), np.arange(198) % 3)  # 33 panels of 3 targets x 2 queries
    assert result.value == pytest.approx(result.chance)
    assert result.ties == 198


def test_choices_leave_missing_answers_out():
    result = choice_share([0, 1, -1, 2, -1], [0, 2, 1, 2, 0])
    np.testing.assert_array_equal(result.items, [1, 0, np.nan, 1, np.nan])
    assert (result.n, result.missing, result.ties) == (3, 2, 0)
    assert result.value == pytest.approx(2 / 3)
    assert math.isnan(result.chance)
    assert choice_share([0], [0], options=3).chance == pytest.approx(1 / 3)


@given(tables)
@settings(deadline=None)
def test_choosing_the_closest_option_scores_its_clustering_share(table):
    table = table + np.arange(table.shape[1]) / 100  # no ties
    right = np.arange(len(table)) % table.shape[1]
    assert choice_share(table.argmin(axis=1), right).value == clustering_share(table, right).value


@pytest.mark.parametrize(
    "result",
    [
        two_alternative_share([], []),
        clustering_share(np.empty((0, 3)), []),
        choice_share([], []),
        choice_share([-1, -1], [0, 1]),
    ],
)
def test_nobody_chose(result):
    assert math.isnan(result.value)
    assert result.n == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: two_alternative_share([math.nan], [1]), "to_target must be finite, got nan"),
        (lambda: two_alternative_share([1], [math.inf]), "to_seed must be finite, got inf"),
        (lambda: two_alternative_share([1, 2], [1]), "to_target 2, to_seed 1"),
        (lambda: two_alternative_share([[1]], [[1]]), "to_target must have 1 axes"),
        (lambda: clustering_share([[1, math.nan]], [0]), "distances must be finite"),
        (lambda: clustering_share([[1, 2]], [2]), "target must be 0 to 1, got 2"),
        (lambda: clustering_share([[1, 2]], [-1]), "target must be 0 to 1, got -1"),
        (lambda: clustering_share([[1, 2]], [0.0]), "target must be integer codes"),
        (lambda: clustering_share([[1, 2]], [[0]]), "target must be one-dimensional"),
        (lambda: clustering_share([[1, 2]], [0, 1]), "distances 1, target 2"),
        (lambda: clustering_share(np.empty((2, 0)), [0, 0]), "an option to choose"),
        (lambda: choice_share([-2], [0]), "chosen must be -1 or more, got -2"),
        (lambda: choice_share([0], [-1]), "right must be 0 or more, got -1"),
        (lambda: choice_share([3], [0], options=3), "chosen must be -1 to 2, got 3"),
        (lambda: choice_share(["cat"], [0]), "number the classes or options from 0"),
        (lambda: choice_share([0], [0], options=0), "options must be at least 1, got 0"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()


def test_declared():
    assert measures["2afc"].function is two_alternative_share
    assert measures["clustering_share"].needs == ("distances", "truth")

"""Error consistency: published values, scikit-learn, its reachable range, and one number from every form."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from sklearn.metrics import cohen_kappa_score

from cosight.errors import InvalidInput
from cosight.measures.answers import NO_ANSWER, NOT_SHOWN, Answers
from cosight.measures.consistency import (
    error_consistency,
    error_consistency_matrix,
    error_consistency_resampled,
    error_consistency_unbiased,
    observed_consistency,
    observed_consistency_matrix,
    observed_consistency_resampled,
    reachable_kappa,
)
from cosight.measures.declarations import pair_forms

nan = math.nan
law = settings(deadline=None)
few = settings(max_examples=30, deadline=None)
two_rows = st.integers(1, 40).flatmap(lambda n: arrays(np.bool_, (2, n)))
tables = arrays(np.bool_, array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=7))


def same(a, b):
    return a == pytest.approx(b, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize(
    ("a", "b", "kappa"),
    [
        ([1] * 40 + [0] * 60, [1] * 20 + [0] * 20 + [1] * 10 + [0] * 50, 0.348),  # Artstein & Poesio 2008, table 1
        ([1, 1, 0, 0], [1, 0, 1, 0], 0),  # independent
        ([1, 0, 1, 0], [1, 0, 1, 0], 1),
        ([1, 0, 1, 0], [0, 1, 0, 1], -1),
        ([1, 1, 1], [1, 0, 1], 0),  # one is always right: chance confidence, whatever the other does
        ([1, 1, 1], [1, 1, 1], nan),  # our stated convention, here and below
        ([0, 0], [0, 0], nan),
        ([], [], nan),
    ],
)
def test_reference_values(a, b, kappa):
    result = error_consistency(a, b)
    assert result.value == pytest.approx(kappa, abs=5e-4, nan_ok=True)
    assert same(result.kappa, result.value)
    assert result.n == len(a)


@law
@given(two_rows)
def test_it_is_cohens_kappa_of_scikit_learn(rows):
    a, b = rows
    assume(len(np.unique(rows)) > 1)  # there scikit-learn warns, and we say nan
    assert same(error_consistency(a, b).value, cohen_kappa_score(a, b))


@law
@given(two_rows, st.randoms(use_true_random=False))
def test_laws(rows, random):
    a, b = rows
    result, swapped, turned = error_consistency(a, b), error_consistency(b, a), error_consistency(~a, ~b)
    order = random.sample(range(len(a)), len(a))
    assert same(result.value, swapped.value)
    assert same(result.value, turned.value)  # what is called right does not matter
    assert same(result.value, error_consistency(a[order], b[order]).value)
    assert same(result.value, error_consistency(a.astype(int), b.astype(float)).value)
    assert math.isnan(result.value) or -1 <= result.value <= 1
    assert same(result.observed, np.mean(a == b))
    assert same(error_consistency(a, a).value, nan if len(np.unique(a)) == 1 else 1)


# --- the reachable range --------------------------------------------------------------------------------------------


def test_published_range():
    assert reachable_kappa(0.8, 0.6).highest == pytest.approx(0.545454, abs=1e-6)  # Klein et al. 2025
    assert error_consistency([1] * 8 + [0] * 2, [1] * 6 + [0] * 4).highest == pytest.approx(6 / 11)


@pytest.mark.parametrize(
    ("accuracies", "ends"),
    [
        ((0.5, 0.5), (-1, 1)),
        ((1, 0.5), (0, 0)),  # a perfect observer cannot be consistent
        ((1, 0), (0, 0)),
        ((0.9, 0.9), (-1 / 9, 1)),  # at least .8 agreement, .82 expected
        ((1, 1), (nan, nan)),
        ((0, 0), (nan, nan)),
    ],
)
def test_range_by_hand(accuracies, ends):
    reach = reachable_kappa(*accuracies)
    assert (reach.lowest, reach.highest) == pytest.approx(ends, nan_ok=True)


@law
@given(two_rows)
def test_no_pair_leaves_its_range(rows):
    result = error_consistency(*rows)
    assert math.isnan(result.value) or result.lowest - 1e-12 <= result.value <= result.highest + 1e-12
    assert math.isnan(result.lowest) == math.isnan(result.highest) == math.isnan(result.value)


@law
@given(two_rows)
def test_both_ends_are_reached(rows):
    right_a, right_b = np.sort(rows, axis=1)  # the errors of both first: as much overlap as there can be
    together, apart = error_consistency(right_a, right_b), error_consistency(right_a, right_b[::-1])
    assert same(together.value, together.highest)
    assert same(apart.value, apart.lowest)


@pytest.mark.parametrize("accuracy", [-0.1, 1.1, 80, nan])
def test_range_refuses_what_is_no_accuracy(accuracy):
    with pytest.raises(InvalidInput, match="accuracy must be 0 to 1, got"):
        reachable_kappa(accuracy, 0.5)
    with pytest.raises(InvalidInput, match="accuracy must be 0 to 1, got"):
        reachable_kappa(0.5, accuracy)


# --- the other two --------------------------------------------------------------------------------------------------


@law
@given(two_rows)
def test_unbiased_is_klein_et_al(rows):
    n, kappa = rows.shape[1], error_consistency(*rows).value
    value = error_consistency_unbiased(*rows).value
    assert same(value, nan if n - 1 + kappa <= 0 else n * kappa / (n - 1 + kappa))
    assert math.isnan(value) or -2 - 1e-9 <= value <= 1


@pytest.mark.parametrize(
    ("a", "b", "value"),
    [
        ([1, 0, 1], [0, 1, 0], -2),  # the lowest there is: k = -.8 of three trials
        ([1, 0, 1, 0], [0, 1, 0, 1], -2),
        ([1, 0], [0, 1], nan),  # k = 1 - n
        ([1], [0], nan),  # one trial
        ([1, 0], [1, 0], 1),
        ([1, 1], [1, 1], nan),
    ],
)
def test_unbiased_ends_and_edges(a, b, value):
    assert error_consistency_unbiased(a, b).value == pytest.approx(value, nan_ok=True)


@law
@given(two_rows)
def test_observed_is_the_share_of_equal_trials(rows):
    result = observed_consistency(*rows)
    assert same(result.value, (rows[0] == rows[1]).mean())
    assert same(result.expected, error_consistency(*rows).expected)


def test_observed_without_trials_is_undefined():
    assert math.isnan(observed_consistency([], []).value)


@pytest.mark.parametrize("function", [error_consistency, error_consistency_unbiased, observed_consistency])
@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ([1, 0], [1], "a_correct 2, b_correct 1"),
        ([1, 2], [1, 0], "a_correct must be true/false or 0/1, got"),
        ([1, 0], [nan, 0], "b_correct must be true/false or 0/1, got"),
        ([[1, 0]], [1, 0], "a_correct must be one-dimensional"),
        (["cat", "dog"], [1, 0], "compare answers with the truth first"),
    ],
)
def test_bad_input_is_refused(function, a, b, message):
    with pytest.raises(InvalidInput, match=message):
        function(a, b)


# --- all pairs, and resamples ---------------------------------------------------------------------------------------

FUNCTIONS = {
    "error_consistency": error_consistency,
    "error_consistency_unbiased": error_consistency_unbiased,
    "observed_consistency": observed_consistency,
}


def table(seed, observers=5, stimuli=12, *, complete):
    """Answers to two classes, some always right; unless complete, with answers and stimuli missing."""
    rng = np.random.default_rng(seed)
    response = rng.integers(0, 2, (observers, stimuli))
    response[0] = truth = rng.integers(0, 2, stimuli)
    if not complete:
        response[rng.random(response.shape) < 0.2] = NO_ANSWER
        response[rng.random(response.shape) < 0.3] = NOT_SHOWN
    return Answers(response.astype(np.int16), truth.astype(np.int16), 2)


def by_pair(function, answers, times=None):
    """The plain function on the trials both saw, each repeated as often as it was drawn."""
    times = np.ones(answers.stimuli, dtype=int) if times is None else times.astype(int)
    right, seen = answers.correct, answers.shown
    out = np.empty((answers.observers, answers.observers))
    for i in range(answers.observers):
        for j in range(answers.observers):
            trials = np.repeat(np.arange(answers.stimuli), times * (seen[i] & seen[j]))
            out[i, j] = function(right[i, trials], right[j, trials]).value
    return out


@few
@given(tables)
def test_complete_matrices_are_the_loop_over_pairs(rows):
    for matrix, function in (
        (error_consistency_matrix, error_consistency),
        (observed_consistency_matrix, observed_consistency),
    ):
        expected = [[function(a, b).value for b in rows] for a in rows]
        np.testing.assert_allclose(matrix(rows), expected, atol=1e-12)
        np.testing.assert_allclose(matrix(rows, np.ones_like(rows)), expected, atol=1e-12)


@few
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_every_form_of_a_table_is_the_loop_over_pairs(seed, complete):
    answers = table(seed, complete=complete)
    for name, function in FUNCTIONS.items():
        np.testing.assert_allclose(pair_forms[name].matrix(answers), by_pair(function, answers), atol=1e-12)
    public = error_consistency_matrix(answers.correct, answers.shown)
    np.testing.assert_allclose(public, by_pair(error_consistency, answers), atol=1e-12)


@few
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_resampled_is_the_function_on_repeated_trials(seed, complete):
    answers = table(seed, observers=4, complete=complete)
    weights = np.random.default_rng(seed).multinomial(12, np.full(12, 1 / 12), size=3).astype(np.float32)
    pairs = np.array([[0, 1], [1, 2], [3, 1], [2, 2]])
    for name, function in FUNCTIONS.items():
        expected = np.stack([by_pair(function, answers, w)[pairs[:, 0], pairs[:, 1]] for w in weights], axis=1)
        np.testing.assert_allclose(pair_forms[name].resampled(answers, weights, pairs), expected, atol=1e-12)


@pytest.mark.parametrize(
    "function", [error_consistency_resampled, observed_consistency_resampled], ids=lambda function: function.__name__
)
def test_public_resampled_forms_compute_what_the_registered_ones_do(function):
    arguments = table(3, observers=3, complete=False), np.eye(12, dtype=np.float32) + 1, np.array([[0, 1], [2, 0]])
    registered = pair_forms[function.__name__.removesuffix("_resampled")].resampled(*arguments)
    np.testing.assert_array_equal(function(*arguments), registered)


def test_what_is_said_of_a_trial_not_shown_is_not_read():
    seen = [[1, 1, 1, 0], [1, 1, 1, 1]]
    right, wrong = ([[1, 0, 1, x], [1, 0, 0, 1]] for x in (1, 0))
    np.testing.assert_array_equal(error_consistency_matrix(right, seen), error_consistency_matrix(wrong, seen))


def test_two_observers_without_a_common_trial():
    assert np.isnan(error_consistency_matrix([[1, 0], [0, 1]], [[1, 0], [0, 1]])[0, 1])
    assert np.isnan(error_consistency_matrix(np.zeros((2, 0)))).all()


@pytest.mark.parametrize(
    ("correct", "shown", "message"),
    [
        ([1, 0], None, r"correct must be \(observers, trials\), got shape \(2,\)"),
        ([[1, 2]], None, "correct must be true/false or 0/1, got 2"),
        ([[1, nan]], None, "correct must be true/false or 0/1, got nan"),
        ([[1, 0]], [[1, 3]], "shown must be true/false or 0/1, got 3"),
        ([[1, 0]], [[1]], r"one shape, got \(1, 2\) and \(1, 1\)"),
    ],
)
def test_bad_tables_are_refused(correct, shown, message):
    for matrix in (error_consistency_matrix, observed_consistency_matrix):
        with pytest.raises(InvalidInput, match=message):
            matrix(correct, shown)

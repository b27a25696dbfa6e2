"""One observer alone: scikit-learn, scipy, cases by hand, and sums that reproduce the functions."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import entropy
from sklearn.metrics import accuracy_score

from cosight.errors import InvalidInput
from cosight.measures.answers import NO_ANSWER, NOT_SHOWN, Answers, encode
from cosight.measures.declarations import pair_forms, solo_forms
from cosight.measures.responses import accuracy, accuracy_difference, response_entropy, shape_bias, shape_choices

nan = math.nan
law = settings(deadline=None)
few = settings(max_examples=30, deadline=None)
K = 4
answered = st.integers(0, K - 1)
trials = st.lists(st.tuples(answered, answered), min_size=1, max_size=40)
gappy = st.lists(st.tuples(st.none() | answered, answered, st.none() | answered), min_size=1, max_size=40)


def same(a, b):
    return a == pytest.approx(b, abs=1e-12, nan_ok=True)


# --- accuracy -------------------------------------------------------------------------------------------------------


@law
@given(trials)
def test_accuracy_is_scikit_learns(rows):
    response, truth = zip(*rows, strict=True)
    result = accuracy(response, truth)
    assert same(result.value, accuracy_score(truth, response))
    assert (result.items.mean(), result.n) == (result.value, len(rows))


def test_a_missing_answer_is_wrong():
    result = accuracy(["a", None, "na", "b"], ["a", "a", "b", "a"])
    assert (result.value, result.items.tolist(), result.n) == (0.25, [1, 0, 0, 0], 4)
    assert math.isnan(accuracy([], []).value)
    with pytest.raises(InvalidInput, match="truth 2, response 1"):
        accuracy([0], [0, 1])


@law
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1))
def test_accuracy_difference_is_the_difference_of_accuracies(rows):
    a, b = (list(column) for column in zip(*rows, strict=True))
    result = accuracy_difference(a, b)
    assert same(result.value, np.mean(a) - np.mean(b))
    assert same(accuracy_difference(b, a).value, -result.value)
    assert -1 <= result.value <= 1
    assert (len(result.items), result.n) == (len(rows), len(rows))


def test_accuracy_difference_edges():
    assert math.isnan(accuracy_difference([], []).value)
    assert accuracy_difference([1, 1], [0, 0]).value == 1
    with pytest.raises(InvalidInput, match="a_correct 2, b_correct 1"):
        accuracy_difference([1, 0], [1])


# --- shape bias -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("response", "shape", "texture", "value", "counts"),
    [
        (["cat", "cat", "dog"], ["cat"] * 3, ["dog"] * 3, 2 / 3, (2, 1, 3)),
        (["cat", "car", None], ["cat"] * 3, ["dog"] * 3, 1, (1, 0, 3)),  # other answers and none do not count
        (["dog", "cat"], ["cat", "cat"], ["dog", "cat"], 0, (0, 1, 1)),  # cues that agree say nothing
        (["car"], ["cat"], ["dog"], nan, (0, 0, 1)),
        (["cat"], ["cat"], ["cat"], nan, (0, 0, 0)),
        ([None, "cat"], ["cat", "cat"], [None, None], nan, (0, 0, 0)),  # no texture, no conflict
        ([], [], [], nan, (0, 0, 0)),
    ],
)
def test_shape_bias_by_hand(response, shape, texture, value, counts):
    result = shape_bias(response, shape, texture)
    assert same(result.value, value)
    assert (result.shape, result.texture, result.n) == counts


@law
@given(gappy)
def test_the_share_right_of_shape_choices_is_the_shape_bias(rows):
    response, shape, texture = (np.array(column, dtype=object) for column in zip(*rows, strict=True))
    result = shape_bias(response, shape, texture)
    coded = encode(response, texture, truth=shape)
    choices = shape_choices(coded.of([0]), coded.response[1])
    form = solo_forms["shape_bias"]
    totals = form.totals(choices, np.ones((1, len(rows)), dtype=np.float32))
    assert same(form.finish(totals)[0, 0], result.value)
    assert form.count(choices)[0] == result.shape + result.texture
    assert totals[0, 0].tolist() == [result.shape, result.shape + result.texture]


@law
@given(gappy)
def test_swapping_the_cues_turns_the_shape_bias_around(rows):
    rows = [(r, s, t) for r, s, t in rows if t is not None]
    response, shape, texture = zip(*rows, strict=True) if rows else ((), (), ())
    one, other = shape_bias(response, shape, texture), shape_bias(response, texture, shape)
    assert same(one.value, 1 - other.value)
    assert (one.shape, one.n) == (other.texture, other.n)


def test_shape_bias_refuses_bad_input():
    with pytest.raises(InvalidInput, match="response 1, texture 2"):
        shape_bias(["a"], ["a", "b"], ["b", "a"])
    with pytest.raises(InvalidInput, match="truth must be known"):
        shape_bias(["a"], [None], ["b"])


# --- entropy of the answers -----------------------------------------------------------------------------------------


@law
@given(trials)
def test_response_entropy_is_scipys(rows):
    response, truth = zip(*rows, strict=True)
    result = response_entropy(response, truth)
    counts = np.bincount(response, minlength=K)
    assert same(result.value, entropy(counts, base=2))
    assert same(result.probabilities.sum(), 1)
    assert result.n == len(rows)
    assert 0 <= result.value <= math.log2(K) + 1e-12
    assert same(response_entropy(response[::-1], truth).value, result.value)


def test_response_entropy_edges():
    assert response_entropy(["a", None, "b", ""], list("aabb")).value == 1
    one = response_entropy(["a", "a"], ["a", "b"])
    assert str(one.value) == "0.0"  # and not -0.0
    assert one.probabilities.tolist() == [1, 0]
    for response, truth in (([], []), ([None], ["a"])):
        none = response_entropy(response, truth)
        assert math.isnan(none.value)
        assert np.isnan(none.probabilities).all()
        assert none.n == 0


# --- sums over trials -----------------------------------------------------------------------------------------------


def table(seed, observers=4, stimuli=12):
    rng = np.random.default_rng(seed)
    response = rng.integers(0, K, (observers, stimuli))
    truth = rng.integers(0, 2, stimuli)
    response[rng.random(response.shape) < 0.2] = NO_ANSWER
    response[rng.random(response.shape) < 0.2] = NOT_SHOWN
    response[0] = NOT_SHOWN  # someone who met nothing
    return Answers(response.astype(np.int16), truth.astype(np.int16), K)


def drawn(seed, stimuli=12, resamples=3):
    return np.random.default_rng(seed).multinomial(stimuli, np.full(stimuli, 1 / stimuli), resamples).astype(np.float32)


@few
@given(st.integers(0, 2**32 - 1))
def test_totals_are_the_functions_on_repeated_trials(seed):
    answers, weights = table(seed), drawn(seed)
    for name, function in (("accuracy", accuracy), ("response_entropy", response_entropy)):
        form = solo_forms[name]
        totals = form.totals(answers, weights)
        assert totals.shape[:2] == (4, 3)
        found = form.finish(totals)
        pooled = form.finish(totals.sum(axis=1))  # sums of several groups may be added before finishing
        for i, row in enumerate(answers.response):
            trials_of = [np.repeat(np.arange(12), w.astype(int) * (row != NOT_SHOWN)) for w in weights]
            for trial, value in zip([*trials_of, np.concatenate(trials_of)], [*found[i], pooled[i]], strict=True):
                said = np.array([0, 1, 2, 3, nan])[row[trial]]  # NO_ANSWER is the last
                assert same(value, function(said, answers.truth[trial]).value)


def test_solo_forms_count_their_trials():
    answers = table(4)
    assert solo_forms["accuracy"].count(answers).tolist() == (answers.response != NOT_SHOWN).sum(axis=1).tolist()
    assert solo_forms["response_entropy"].count(answers).tolist() == (answers.response >= 0).sum(axis=1).tolist()


@few
@given(st.integers(0, 2**32 - 1))
def test_differences_are_over_common_trials(seed):
    answers, weights = table(seed), drawn(seed)
    pairs = np.array([[1, 2], [2, 1], [3, 3], [0, 1]])
    found = pair_forms["accuracy_difference"].resampled(answers, weights, pairs)
    matrix = pair_forms["accuracy_difference"].matrix(answers)
    for (i, j), values in zip(pairs, found, strict=True):
        both = answers.shown[i] & answers.shown[j]
        for times, value in [*zip(weights, values, strict=True), (np.ones(12), matrix[i, j])]:
            trial = np.repeat(np.arange(12), times.astype(int) * both)
            assert same(value, accuracy_difference(answers.correct[i, trial], answers.correct[j, trial]).value)

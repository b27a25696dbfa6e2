"""Agreement on wrong answers and on all: scikit-learn, plain loops, laws, and one number from every form."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, cohen_kappa_score

from cosight.errors import InvalidInput
from cosight.measures.answers import NO_ANSWER, NOT_SHOWN, Answers
from cosight.measures.declarations import pair_forms
from cosight.measures.misclassification import (
    misclassification_agreement,
    misclassification_agreement_matrix,
    misclassification_agreement_resampled,
    response_agreement,
)

nan = math.nan
law = settings(deadline=None)
few = settings(max_examples=30, deadline=None)
trials = st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=1, max_size=40)


def same(a, b):
    return a == pytest.approx(b, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize(
    ("a", "b", "truth", "value", "n"),
    [
        ([1, 2, 0, 1], [1, 2, 1, 0], [0, 0, 2, 2], 0.2, 4),  # by hand: (1/2 - 3/8) / (1 - 3/8)
        ([1, 2, 1, 2], [1, 2, 1, 2], [0, 0, 0, 0], 1, 4),
        ([1, 2], [2, 1], [0, 0], -1, 2),
        ([1, 2, 1, 2], [1, 1, 2, 2], [0, 0, 0, 0], 0, 4),
        ([1, 0, 2, 0], [1, 1, 2, 0], [0, 0, 0, 0], 1, 2),  # trials that one or both get right do not count
        ([1, 1], [1, 1], [0, 0], nan, 2),  # p_e = 1
        ([0, 1], [1, 0], [0, 0], nan, 0),  # no joint error
        ([], [], [], nan, 0),
    ],
)
def test_values_by_hand(a, b, truth, value, n):
    result = misclassification_agreement(a, b, truth)
    assert same(result.value, value)
    assert result.n == n


@law
@given(trials)
def test_it_is_cohens_kappa_of_scikit_learn_on_jointly_wrong_trials(rows):
    a, b, truth = map(np.array, zip(*rows, strict=True))
    joint = (a != truth) & (b != truth)
    result = misclassification_agreement(a, b, truth)
    assert result.n == joint.sum()
    assume(joint.any())
    assert same(result.observed, (a == b)[joint].mean())
    if len(set(a[joint]) | set(b[joint])) == 1:  # there scikit-learn warns
        assert math.isnan(result.value)
    else:
        assert same(result.value, cohen_kappa_score(a[joint], b[joint]))
        assert same(result.value, (result.observed - result.expected) / (1 - result.expected))


@law
@given(trials, st.permutations(range(4)), st.randoms(use_true_random=False))
def test_laws(rows, names, random):
    a, b, truth = map(np.array, zip(*rows, strict=True))
    value = misclassification_agreement(a, b, truth).value
    assert same(misclassification_agreement(b, a, truth).value, value)
    order = random.sample(range(len(rows)), len(rows))
    assert same(misclassification_agreement(a[order], b[order], truth[order]).value, value)
    new = np.array([f"class {name}" for name in names])
    assert same(misclassification_agreement(new[a], new[b], new[truth]).value, value)
    assert same(misclassification_agreement(a, b, truth, classes=range(9)).value, value)  # unused classes do not matter
    assert math.isnan(value) or -1 <= value <= 1
    wrong = a[a != truth]
    own = misclassification_agreement(a, a, truth).value
    assert same(own, 1 if len(set(wrong)) > 1 else nan)


@law
@given(trials, st.sampled_from([None, "", "na", nan]), st.data())
def test_missing_answers_are_left_out(rows, missing, data):
    a, b, truth = (np.array([f"c{x}" for x in column], dtype=object) for column in zip(*rows, strict=True))
    gone = np.array(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))))
    kept = misclassification_agreement(a[~gone], b[~gone], truth[~gone])
    a[gone] = missing
    for result in (misclassification_agreement(a, b, truth), misclassification_agreement(b, a, truth)):
        assert same(result.value, kept.value)
        assert result.n == kept.n


@pytest.mark.parametrize(
    ("a", "b", "truth", "message"),
    [
        ([0, 1], [0], [0, 1], "b 1"),
        ([[0]], [0], [0], "a must be one-dimensional"),
        ([0], [0], [None], "truth must be known"),
    ],
)
def test_bad_input_is_refused(a, b, truth, message):
    with pytest.raises(InvalidInput, match=message):
        misclassification_agreement(a, b, truth)


# --- all pairs, and resamples ---------------------------------------------------------------------------------------


def table(seed, observers=5, stimuli=25, classes=4, *, missing=0.2):
    rng = np.random.default_rng(seed)
    response = rng.integers(0, classes, (observers, stimuli))
    truth = rng.integers(0, classes, stimuli)
    response[0] = truth  # an observer without errors
    response[-1] = 0  # and one who always says the same
    response[rng.random(response.shape) < missing] = NO_ANSWER
    response[rng.random(response.shape) < missing] = NOT_SHOWN
    return Answers(response.astype(np.int16), truth.astype(np.int16), classes)


def by_pair(answers, times=None):
    """The plain function on each pair's trials, each repeated as often as it was drawn."""
    drawn = np.repeat(np.arange(answers.stimuli), 1 if times is None else times.astype(int))
    names = np.array([*range(answers.classes), nan, nan])  # NOT_SHOWN and NO_ANSWER are the last two
    rows = names[answers.response[:, drawn]]
    truth = answers.truth[drawn]
    return np.array([[misclassification_agreement(a, b, truth).value for b in rows] for a in rows])


@few
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.sampled_from([0, 0.2]))
def test_matrix_is_the_loop_over_pairs(seed, classes, missing):
    answers = table(seed, classes=classes, missing=missing)
    np.testing.assert_allclose(misclassification_agreement_matrix(answers), by_pair(answers), atol=1e-12)


@pytest.mark.parametrize(
    ("stimuli", "classes"),
    [
        (1000, 2),  # far more than 255 equal errors: bytes are added up in pieces
        (510, 2),
        (700, 127),  # the most classes that fit a byte with two codes for none
        (700, 128),
        (700, 129),
        (900, 300),  # codes beyond a byte
    ],
)
def test_matrix_of_many_errors_and_of_many_classes(stimuli, classes):
    answers = table(classes, observers=3, stimuli=stimuli, classes=classes, missing=0.05)
    answers.response[1, ::2] = answers.response[2, ::2]  # so that there is agreement to find
    np.testing.assert_allclose(misclassification_agreement_matrix(answers), by_pair(answers), atol=1e-12)


@pytest.mark.parametrize("errors", [254, 255, 256, 509, 510, 511])
def test_counts_around_a_full_byte(errors):
    response = np.ones((2, errors + 1), dtype=np.int16)
    response[1, 0], response[:, -1] = 2, 2
    answers = Answers(response, np.zeros(errors + 1, dtype=np.int16), 3)
    assert (
        misclassification_agreement_matrix(answers)[0, 1] == misclassification_agreement(*response, answers.truth).value
    )


def test_matrix_without_observers_stimuli_or_errors():
    none = np.zeros((0, 3), dtype=np.int16)
    assert misclassification_agreement_matrix(Answers(none, np.zeros(3, dtype=np.int16), 2)).shape == (0, 0)
    assert np.isnan(misclassification_agreement_matrix(Answers(none.T, np.zeros(0, dtype=np.int16), 2))).all()
    perfect = Answers(np.zeros((2, 3), dtype=np.int16), np.zeros(3, dtype=np.int16), 2)
    assert np.isnan(misclassification_agreement_matrix(perfect)).all()


@few
@given(st.integers(0, 2**32 - 1), st.sampled_from([0, 0.2]))
def test_resampled_is_the_function_on_repeated_trials(seed, missing):
    answers = table(seed, missing=missing)
    weights = np.random.default_rng(seed).multinomial(25, np.full(25, 1 / 25), size=3).astype(np.float32)
    pairs = np.array([[1, 2], [0, 3], [4, 1], [3, 3]])
    expected = np.stack([by_pair(answers, w)[pairs[:, 0], pairs[:, 1]] for w in weights], axis=1)
    found = misclassification_agreement_resampled(answers, weights, pairs)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_resampled_in_blocks_is_the_same(monkeypatch):
    answers, pairs = table(3), np.array([[1, 2], [1, 3], [2, 3]])
    weights = np.ones((2, 25), dtype=np.float32)
    whole = misclassification_agreement_resampled(answers, weights, pairs)
    monkeypatch.setattr("cosight.measures.misclassification.BLOCK", 1)
    np.testing.assert_array_equal(misclassification_agreement_resampled(answers, weights, pairs), whole)
    assert misclassification_agreement_resampled(answers, weights, pairs[:0]).shape == (0, 2)


def test_the_pair_form_counts_joint_errors():
    answers = table(5)
    form = pair_forms["misclassification_agreement"]
    joint = (answers.wrong[1] & answers.wrong[2]).sum()
    assert form.count(answers, np.array([[1, 2], [0, 1]])).tolist() == [joint, 0]


# ------------------------------------------------------------------------------------------------------- all answers

said = st.sampled_from(["cat", "dog", "eel", None])


@law
@given(st.lists(st.tuples(said, said), min_size=1, max_size=30))
def test_response_agreement_is_that_of_a_plain_loop_and_of_scikit_learn(rows):
    both = [(a, b) for a, b in rows if a is not None and b is not None]
    found = response_agreement(*zip(*rows, strict=True))
    assert found.n == len(both)
    assert found.items.tolist() == [float(a == b) for a, b in both]
    assert same(found.value, sum(a == b for a, b in both) / len(both) if both else nan)
    if both:
        assert same(found.value, accuracy_score(*map(list, zip(*both, strict=True))))


def test_nothing_answered_by_both_has_no_agreement():
    for a, b in (([], []), (["a", None], [None, "a"])):
        found = response_agreement(a, b)
        assert math.isnan(found.value)
        assert found.n == 0
    with pytest.raises(InvalidInput, match="one length, got a 1, b 2"):
        response_agreement(["a"], ["a", "b"])


@few
@given(st.integers(0, 2**32 - 1), st.sampled_from([0, 0.2]))
def test_response_agreement_of_pairs_and_resamples_is_the_function(seed, missing):
    answers = table(seed, missing=missing)
    coded = np.where(answers.response >= 0, answers.response, nan)
    pairs = np.array([[1, 2], [0, 3], [4, 1], [3, 3]])
    weights = np.random.default_rng(seed).multinomial(25, np.full(25, 1 / 25), size=3)
    form = pair_forms["response_agreement"]
    matrix, count = form.matrix(answers), form.count(answers, pairs)
    resampled = form.resampled(answers, weights.astype(np.float32), pairs)
    for index, (i, j) in enumerate(pairs):
        plain = response_agreement(coded[i], coded[j])
        assert same(matrix[i, j], plain.value)
        assert count[index] == plain.n
        again = [response_agreement(np.repeat(coded[i], w), np.repeat(coded[j], w)).value for w in weights]
        np.testing.assert_allclose(resampled[index], again, atol=1e-12)

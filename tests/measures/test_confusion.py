"""Class-level error similarity: by plain loops over the definition, its bounds, and one number from every form."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import hypergeom
from sklearn.metrics import confusion_matrix as sklearn_confusion

from cosight.errors import InvalidInput
from cosight.measures import confusion
from cosight.measures.answers import NO_ANSWER, NOT_SHOWN, Answers
from cosight.measures.confusion import (
    class_level_error_distance_printed,
    class_level_error_similarity,
    class_level_error_similarity_matrix,
    class_level_error_similarity_pooled,
    class_level_error_similarity_resampled,
    confusion_matrix,
)
from cosight.measures.declarations import pair_forms

nan = math.nan
law = settings(deadline=None)
few = settings(max_examples=30, deadline=None)
K = 4
CLASSES = list(range(K))
answered = st.integers(0, K - 1)
trials = st.lists(st.tuples(st.none() | answered, st.none() | answered, answered), min_size=1, max_size=40)
complete = st.lists(st.tuples(answered, answered, answered), min_size=1, max_size=40)


def same(a, b):
    return a == pytest.approx(b, abs=1e-12, nan_ok=True)


def columns(rows):
    return [np.array(column, dtype=object) for column in zip(*rows, strict=True)]


def kl(p, q):
    return sum(x * math.log(x / y) for x, y in zip(p, q, strict=True))


def loop_distance(a, b, truth, *, midpoint="mean", alpha=0.5, printed=False):
    """CLED straight from its definition (Xu et al. 2024, Eq. 2, with the choices our docstring names)."""
    total = errors_of_all = 0
    for c in CLASSES:
        cells = [k for k in CLASSES if printed or k != c]
        fa, fb = ([sum(t == c and y == k != c for y, t in zip(x, truth, strict=True)) for k in cells] for x in (a, b))
        p, q = ([(f + alpha) / (sum(x) + alpha * len(cells)) for f in x] for x in (fa, fb))
        middle = [(x + y) / 2 for x, y in zip(p, q, strict=True)]
        if midpoint == "pooled":
            pooled = [x + y + alpha for x, y in zip(fa, fb, strict=True)]
            middle = [x / sum(pooled) for x in pooled]
        total += (sum(fa) + sum(fb)) * (kl(p, middle) + kl(q, middle)) / 2
        errors_of_all += sum(fa) + sum(fb)
    if errors_of_all == 0:
        return nan
    return total if printed else total / errors_of_all


# --- confusion matrices ---------------------------------------------------------------------------------------------


@law
@given(complete)
def test_confusion_matrix_is_scikit_learns(rows):
    response, _, truth = columns(rows)
    counts = confusion_matrix(response, truth, classes=CLASSES)
    expected = sklearn_confusion(truth.astype(int), response.astype(int), labels=CLASSES)
    np.testing.assert_array_equal(counts[:, :-1], expected)
    assert (counts[:, -1] == 0).all()


def test_confusion_matrix_keeps_missing_answers_apart():
    counts = confusion_matrix(["a", None, "b", "na"], ["a", "a", "a", "b"])
    assert counts.tolist() == [[1, 1, 1], [0, 0, 1]]
    assert confusion_matrix(["a"], ["a"], classes=["b", "a"]).tolist() == [[0, 0, 0], [0, 1, 0]]
    assert confusion_matrix([], []).shape == (0, 1)
    with pytest.raises(InvalidInput, match="response 1"):
        confusion_matrix(["a"], ["a", "b"])


# --- CLES -----------------------------------------------------------------------------------------------------------


@law
@given(trials, st.sampled_from(["mean", "pooled"]), st.sampled_from([0.1, 0.5, 3]))
def test_similarity_by_plain_loops(rows, midpoint, alpha):
    a, b, truth = columns(rows)
    distance = loop_distance(a, b, truth, midpoint=midpoint, alpha=alpha)
    result = class_level_error_similarity(a, b, truth, midpoint=midpoint, alpha=alpha, classes=CLASSES)
    assert same(result.distance, distance)
    assert same(result.value, 1 / (1 + distance))
    assert same(np.sum(result.items * result.weights), 0 if math.isnan(distance) else distance)
    assert result.n == sum(y is not None and y != t for x in (a, b) for y, t in zip(x, truth, strict=True))


@law
@given(trials)
def test_printed_form_by_plain_loops(rows):
    a, b, truth = columns(rows)
    result = class_level_error_distance_printed(a, b, truth, classes=CLASSES)
    assert same(result.value, loop_distance(a, b, truth, printed=True))
    assert same(result.value, result.distance)
    twice = class_level_error_distance_printed(*(np.tile(x, 2) for x in (a, b, truth)), classes=CLASSES)
    assert math.isnan(result.value) or twice.value >= result.value  # it grows with the number of trials


def test_by_hand():
    # Class a of three: A says b, B says c. p = (3/4, 1/4), q = (1/4, 3/4), midpoint (1/2, 1/2).
    distance = 0.75 * math.log(1.5) + 0.25 * math.log(0.5)
    result = class_level_error_similarity(["b"], ["c"], ["a"])
    assert same(result.distance, distance)
    assert result.items.tolist() == pytest.approx([distance, 0, 0])
    assert result.weights.tolist() == [1, 0, 0]
    # Pooled: counts (1, 1) + 1/2 each give the same midpoint here.
    assert same(class_level_error_similarity_pooled(["b"], ["c"], ["a"]).distance, distance)


@law
@given(trials)
def test_everybody_is_wholly_like_themselves_unless_pooled(rows):
    a, _, truth = columns(rows)
    wrong = [y for y, t in zip(a, truth, strict=True) if y is not None and y != t]
    value = class_level_error_similarity(a, a, truth, classes=CLASSES).value
    pooled = class_level_error_similarity_pooled(a, a, truth, classes=CLASSES).value
    if wrong:
        assert value == 1  # exactly
        uneven = any(len(set(_row(a, truth, c))) > 1 for c in CLASSES)
        assert pooled < 1 if uneven else same(pooled, 1)
    else:
        assert math.isnan(value)
        assert math.isnan(pooled)


def _row(response, truth, c):
    """How often each wrong class was answered to class c."""
    return [sum(t == c and y == k for y, t in zip(response, truth, strict=True)) for k in CLASSES if k != c]


@law
@given(trials, st.permutations(CLASSES), st.randoms(use_true_random=False))
def test_laws(rows, names, random):
    a, b, truth = columns(rows)
    order = random.sample(range(len(rows)), len(rows))
    new = {old: f"class {name}" for old, name in enumerate(names)} | {None: None}
    renamed = [[new[x] for x in column] for column in (a, b, truth)]
    for function in (
        class_level_error_similarity,
        class_level_error_similarity_pooled,
        class_level_error_distance_printed,
    ):
        value = function(a, b, truth, classes=CLASSES).value
        assert same(function(b, a, truth, classes=CLASSES).value, value)
        assert same(function(a[order], b[order], truth[order], classes=CLASSES).value, value)
        assert same(function(*renamed, classes=[new[c] for c in CLASSES]).value, value)


@law
@given(trials)
def test_bounds(rows):
    a, b, truth = columns(rows)
    value = class_level_error_similarity(a, b, truth, classes=CLASSES).value
    pooled = class_level_error_similarity_pooled(a, b, truth, classes=CLASSES).value
    assert math.isnan(value) or 1 / (1 + math.log(2)) <= value <= 1
    assert math.isnan(pooled) or 0 < pooled <= 1


def test_the_lower_bound_is_approached():
    many = 100_000
    value = class_level_error_similarity(["b"] * many, ["c"] * many, ["a"] * many).value
    assert 1 / (1 + math.log(2)) < value < 1 / (1 + math.log(2)) + 1e-3


def test_no_shared_trials_are_needed():
    together = class_level_error_similarity(["b", "c"], ["c", "c"], ["a", "a"])
    apart = class_level_error_similarity(["b", "c", None, None], [None, None, "c", "c"], ["a"] * 4)
    assert same(apart.value, together.value)


def test_a_class_nobody_errs_on_adds_nothing():
    base = class_level_error_similarity(["b", "c"], ["c", "c"], ["a", "a"], classes=list("abc"))
    more = class_level_error_similarity(["b", "c", "b"], ["c", "c", "b"], ["a", "a", "b"], classes=list("abc"))
    assert same(more.value, base.value)
    assert more.items[1:].tolist() == more.weights[1:].tolist() == [0, 0]
    pooled = class_level_error_similarity_pooled(["b", "c"], ["c", "c"], ["a", "a"])
    assert pooled.items[1:].tolist() == [0, 0]


def test_an_unused_class_is_still_a_way_to_be_wrong():
    a, b, truth = ["b", "b"], ["c", "c"], ["a", "a"]
    narrow, wide = (class_level_error_similarity(a, b, truth, classes=list(c)).value for c in ("abc", "abcdefgh"))
    assert narrow < wide  # with more cells to share, alpha blurs the counts more


@pytest.mark.parametrize(
    ("a", "b", "truth"),
    [([], [], []), ([0, 1], [0, 1], [0, 1]), ([0], [0], [0]), ([None], [None], [1])],
)
def test_undefined_without_errors(a, b, truth):
    for function in (
        class_level_error_similarity,
        class_level_error_similarity_pooled,
        class_level_error_distance_printed,
    ):
        result = function(a, b, truth)
        assert math.isnan(result.value)
        assert math.isnan(result.distance)
        assert result.n == 0


def test_two_classes_leave_one_way_to_be_wrong():
    assert class_level_error_similarity([1, 1], [0, 1], [0, 0]).value == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 0}, "alpha must be positive and finite, got 0"),
        ({"alpha": nan}, "alpha must be positive and finite, got nan"),
        ({"alpha": math.inf}, "alpha must be positive and finite, got inf"),
        ({"midpoint": "median"}, '"mean" or "pooled", got \'median\''),
        ({"classes": ["a"]}, "among the classes, got 'b'"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(InvalidInput, match=message):
        class_level_error_similarity(["b"], ["b"], ["a"], **options)


# --- all pairs, and resamples ---------------------------------------------------------------------------------------

FUNCTIONS = {
    "class_level_error_similarity": class_level_error_similarity,
    "class_level_error_similarity_pooled": class_level_error_similarity_pooled,
    "class_level_error_distance_printed": class_level_error_distance_printed,
}


def table(seed, observers=4, stimuli=15):
    rng = np.random.default_rng(seed)
    response = rng.integers(0, K, (observers, stimuli))
    truth = rng.integers(0, K, stimuli)
    response[0] = truth  # an observer without errors
    response[rng.random(response.shape) < 0.2] = NO_ANSWER
    response[rng.random(response.shape) < 0.2] = NOT_SHOWN
    return Answers(response.astype(np.int16), truth.astype(np.int16), K)


def by_pair(function, answers, times=None):
    drawn = np.repeat(np.arange(answers.stimuli), 1 if times is None else times.astype(int))
    rows = np.array([*CLASSES, nan, nan])[answers.response[:, drawn]]
    truth = answers.truth[drawn]
    return np.array([[function(a, b, truth, classes=CLASSES).value for b in rows] for a in rows])


@few
@given(st.integers(0, 2**32 - 1))
def test_matrices_are_the_loop_over_pairs(seed):
    answers = table(seed)
    for name, function in FUNCTIONS.items():
        np.testing.assert_allclose(pair_forms[name].matrix(answers), by_pair(function, answers), atol=1e-12)


@few
@given(st.integers(0, 2**32 - 1))
def test_resampled_is_the_function_on_repeated_trials(seed):
    answers, pairs = table(seed), np.array([[1, 2], [0, 3], [3, 1], [2, 2], [0, 0]])
    weights = np.random.default_rng(seed).multinomial(15, np.full(15, 1 / 15), size=2).astype(np.float32)
    for name, function in FUNCTIONS.items():
        expected = np.stack([by_pair(function, answers, w)[pairs[:, 0], pairs[:, 1]] for w in weights], axis=1)
        np.testing.assert_allclose(pair_forms[name].resampled(answers, weights, pairs), expected, atol=1e-12)


def test_blocks_change_nothing(monkeypatch):
    answers, pairs = table(1, observers=6), np.array(list(product(range(6), repeat=2)))
    weights = np.random.default_rng(0).integers(0, 3, (4, 15)).astype(np.float32)
    matrix = class_level_error_similarity_matrix(answers)
    resampled = class_level_error_similarity_resampled(answers, weights, pairs)
    monkeypatch.setattr(confusion, "BLOCK", 1)
    np.testing.assert_array_equal(class_level_error_similarity_matrix(answers), matrix)
    np.testing.assert_array_equal(class_level_error_similarity_resampled(answers, weights, pairs), resampled)


def test_empty_tables():
    answers = table(0)
    pairs, weights = np.array([[0, 1], [1, 2]]), np.ones((3, 15), dtype=np.float32)
    assert class_level_error_similarity_resampled(answers, weights[:0], pairs).shape == (2, 0)
    assert class_level_error_similarity_resampled(answers, weights, pairs[:0]).shape == (0, 3)
    assert class_level_error_similarity_matrix(answers.of([])).shape == (0, 0)
    assert np.isnan(class_level_error_similarity_matrix(answers.at([]))).all()


def test_the_pair_form_counts_the_errors_of_both():
    answers = table(2)
    errors = answers.wrong.sum(axis=1)
    for name in FUNCTIONS:
        assert pair_forms[name].count(answers, np.array([[1, 2]])).tolist() == [errors[1] + errors[2]]


@law
@given(complete)
def test_errors_in_one_class_only_leave_its_divergence(rows):
    a, b, truth = columns(rows)
    truth[:] = 0
    assume((a != 0).any() or (b != 0).any())
    result = class_level_error_similarity(a, b, truth, classes=CLASSES)
    assert same(result.distance, result.items[0])


# --- at equal numbers of errors -------------------------------------------------------------------------------------

FORMS = ["class_level_error_similarity", "class_level_error_similarity_pooled", "class_level_error_distance_printed"]


def wrong_answers(*errors, classes=3):
    """Observers by the errors (true class, answer) that they make; each of 40 stimuli per class is right otherwise."""
    truth = np.repeat(np.arange(classes), 40)
    response = np.tile(truth, (len(errors), 1))
    for row, made in zip(response, errors, strict=True):
        for place, (true, answer) in enumerate(made):
            row[true * 40 + place % 40] = answer
    return Answers(response.astype(np.int16), truth.astype(np.int16), classes)


def with_third(form, answers):
    """Values of the first two observers with the third, and the errors that both keep."""
    values, errors = form.at_equal_errors(answers, np.array([[0, 1]]), np.array([[False, False, True]]))
    assert np.isnan(values[:, :, :2]).all()  # they are compared with the third observer only
    return values[0, :, 2], errors


@pytest.mark.parametrize("name", FORMS)
def test_observers_with_equal_numbers_of_errors_are_compared_as_they_are(name):
    answers = wrong_answers([(0, 1)] * 4 + [(1, 2)] * 2, [(0, 2)] * 4 + [(1, 0)] * 2, [(0, 1)] * 9 + [(2, 1)])
    values, errors = with_third(pair_forms[name], answers)
    assert values == pytest.approx(pair_forms[name].matrix(answers)[:2, 2])
    assert errors.tolist() == [6]


@pytest.mark.parametrize("name", FORMS)
def test_the_errors_of_the_one_with_more_are_rarefied_class_by_class(name):
    """In class 0, 4 of 8 errors are kept: a hypergeometric number of them goes to class 1."""
    many, few_ = [(0, 1)] * 6 + [(0, 2)] * 2 + [(1, 2)] * 9, [(0, 1)] * 2 + [(0, 2)] * 2
    answers = wrong_answers(many, few_, [(0, 1)] * 5)
    form = pair_forms[name]
    values, errors = with_third(form, answers)
    assert errors.tolist() == [4]  # none in class 1, where the second observer never errs
    distance = (lambda value: value) if "distance" in name else (lambda value: 1 / value - 1)
    expected = 0.0
    for to_one in range(2, 5):
        kept = wrong_answers([(0, 1)] * to_one + [(0, 2)] * (4 - to_one), [(0, 1)] * 5)
        expected += hypergeom.pmf(to_one, 8, 6, 4) * distance(form.matrix(kept)[0, 1])
    assert distance(values[0]) == pytest.approx(expected)
    assert values[1] == pytest.approx(form.matrix(answers)[1, 2])


@pytest.mark.parametrize("name", FORMS)
def test_slopes_are_the_mean_change_when_an_error_is_left_out(name):
    made = [(0, 1)] * 3 + [(0, 2)] + [(1, 2)] * 5
    other = [(0, 1)] * 4 + [(1, 0)] * 2
    form = pair_forms[name]
    slopes = form.error_slopes(wrong_answers(made, other), np.array([[0, 1]]))
    distance = (lambda value: value) if "distance" in name else (lambda value: 1 / value - 1)
    value = form.matrix(wrong_answers(made, other))[0, 1]
    for true, errors in ((0, 4), (1, 5)):
        left = [
            distance(form.matrix(wrong_answers(made[:i] + made[i + 1 :], other))[0, 1])
            for i, (of_class, _) in enumerate(made)
            if of_class == true
        ]
        assert len(left) == errors
        assert distance(value + slopes[0, true]) == pytest.approx(np.mean(left))
    assert slopes[0, 2] == 0  # no error to leave out


def test_nobody_errs_or_nobody_is_left_to_compare_with():
    answers = wrong_answers([], [(0, 1)], [])
    values, errors = with_third(pair_forms[FORMS[0]], answers)
    assert np.isnan(values).all()
    assert errors.tolist() == [0]
    alone = pair_forms[FORMS[0]].at_equal_errors(answers, np.array([[0, 1]]), np.zeros((1, 3), dtype=bool))
    assert np.isnan(alone[0]).all()

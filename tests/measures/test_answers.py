"""Coding answers: every spelling of no answer, orders of classes, and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosight.errors import InvalidInput
from cosight.measures.answers import NO_ANSWER, NOT_SHOWN, Answers, common_trials, encode, joint_errors

nan = float("nan")
TABLE = Answers(
    np.array([[0, 1, NO_ANSWER, NOT_SHOWN, 0], [1, 1, 2, 0, NOT_SHOWN]], dtype=np.int16),
    np.array([0, 2, 0, 0, -1], dtype=np.int16),
    3,
)


def test_codes_follow_the_sorted_or_given_order():
    given_order = encode(["cat", "dog"], truth=["dog", "dog"], classes=["dog", "eel", "cat"])
    assert given_order.response.tolist() == [[2, 0]]
    assert (given_order.truth.tolist(), given_order.classes) == ([0, 0], 3)
    assert encode(["cat", "dog"], truth=["bat", "dog"]).response.tolist() == [[1, 2]]
    assert encode([7, 3], truth=[5, 5]).response.tolist() == [[2, 0]]


@pytest.mark.parametrize(
    ("response", "truth"),
    [
        (["a", None, "", "na"], list("aaaa")),
        (np.array(["a", "", "na", ""]), list("aaaa")),
        (["a", nan, None, "na"], list("aaaa")),
        ([1.0, nan, nan, nan], [1, 1, 1, 1]),
        ([1, None, None, nan], [1, 1, 1, 1]),
    ],
)
def test_every_spelling_of_no_answer(response, truth):
    coded = encode(response, truth=truth)
    assert coded.response.tolist() == [[0, NO_ANSWER, NO_ANSWER, NO_ANSWER]]
    assert coded.classes == 1


def test_any_number_of_observers():
    rows = [[0, 1], [1, 1], [0, 0], [1, 0]]
    assert encode(*rows, truth=[0, 1]).response.tolist() == rows
    assert encode(truth=[0, 1]).observers == 0
    empty = encode([], [], truth=[])
    assert (empty.observers, empty.stimuli, empty.classes) == (2, 0, 0)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), min_size=1), st.permutations("abc"))
def test_the_order_of_classes_changes_codes_only(trials, order):
    response, truth = zip(*trials, strict=True)
    plain, other = encode(response, truth=truth, classes=list("abc")), encode(response, truth=truth, classes=order)
    assert [order[code] for code in other.response[0]] == list(response)
    assert np.array_equal(plain.correct, other.correct)
    assert np.array_equal(plain.wrong, other.wrong)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: encode(["a"], truth=["a", "b"], names=("response",)), "one length, got truth 2, response 1"),
        (lambda: encode(["a"], ["a", "b"], truth=["a"]), "observer 1 2"),
        (lambda: encode([["a"]], truth=["a"]), "observer 0 must be one-dimensional"),
        (lambda: encode(["a"], truth=[None]), "the truth must be known for every trial"),
        (lambda: encode(["a"], truth=["na"]), "the truth must be known for every trial"),
        (lambda: encode(["c"], truth=["a"], classes=["a", "b"]), "among the classes, got 'c'; add it"),
        (lambda: encode(["a"], truth=["c"], classes=["a", "b"]), "among the classes, got 'c'"),
        (lambda: encode(["a", 1], truth=[1, 1], classes=[2]), "among the classes"),
        (lambda: encode(["a"], truth=["a"], classes=["a", "b", "a"]), "classes must differ, got 'a' twice"),
        (lambda: encode(["a"], truth=[0]), "of one kind, got int, str"),
        (lambda: Answers.of_correctness([1, 0], [1]), "one length"),
        (lambda: Answers.of_correctness([1, 2]), "observer 0 must be true/false or 0/1, got"),
        (lambda: Answers(TABLE.response, TABLE.truth, 2), "below the number of classes, got 2 with 2"),
        (lambda: Answers(TABLE.response, TABLE.truth[:2], 3), r"got shapes \(2, 5\) and \(2,\)"),
        (lambda: Answers(TABLE.response[0], TABLE.truth, 3), r"got shapes \(5,\)"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()


def test_a_name_for_every_observer():
    with pytest.raises(ValueError, match="zip"):
        encode([0], [0], [0], truth=[0], names=("a", "b"))


def test_right_wrong_and_shown():
    assert TABLE.correct.tolist() == [[True, False, False, False, False], [False, False, False, True, False]]
    assert TABLE.wrong.tolist() == [[False, True, False, False, False], [True, True, True, False, False]]
    assert TABLE.shown.tolist() == [[True, True, True, False, False], [True, True, True, True, False]]
    assert (TABLE.observers, TABLE.stimuli) == (2, 5)


def test_common_trials_counts_what_both_met():
    assert common_trials(TABLE, np.array([[0, 1], [0, 0], [1, 1]])).tolist() == [3, 3, 4]


def test_joint_errors_counts_what_both_got_wrong_silence_included():
    assert joint_errors(TABLE, np.array([[0, 1], [1, 0], [0, 0], [1, 1]])).tolist() == [2, 2, 2, 3]


@given(st.integers(0, 2**32 - 1))
def test_joint_errors_are_those_of_a_plain_loop(seed):
    rng = np.random.default_rng(seed)
    response, truth = rng.integers(NOT_SHOWN, 3, (3, 12)), rng.integers(-1, 3, 12)
    pairs = np.array([[0, 1], [2, 0], [1, 1]])
    plain = [
        sum(t >= 0 and all(response[o, s] not in (NOT_SHOWN, t) for o in pair) for s, t in enumerate(truth.tolist()))
        for pair in pairs
    ]
    answers = Answers(response.astype(np.int16), truth.astype(np.int16), 3)
    assert joint_errors(answers, pairs).tolist() == plain


def test_without_a_truth_only_the_answers_are_coded():
    coded = encode(["b", None], ["a", "b"], truth=None)
    assert coded.response.tolist() == [[1, NO_ANSWER], [0, 1]]
    assert coded.truth.tolist() == [-1, -1]
    assert not coded.shown.any()


def test_parts_of_a_table():
    assert np.array_equal(TABLE.of([1]).response, TABLE.response[1:])
    assert np.array_equal(TABLE.of([False, True]).response, TABLE.response[1:])
    part = TABLE.at([3, 0, 0])
    assert part.truth.tolist() == [0, 0, 0]
    assert part.response.tolist() == [[NOT_SHOWN, 0, 0], [0, 1, 1]]
    assert part.classes == TABLE.classes


def test_of_correctness_is_right_where_it_says_so():
    table = Answers.of_correctness([1, 0, 1], [True, True, False])
    assert table.correct.tolist() == [[True, False, True], [True, True, False]]
    assert np.array_equal(table.wrong, ~table.correct)
    assert table.shown.all()

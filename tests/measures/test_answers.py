"""Coding answers: every spelling of no answer, orders of classes, and what is refused."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cosight
from cosight.errors import InvalidInput
from cosight.measures import class_level_error_similarity, error_consistency, misclassification_agreement
from cosight.measures.answers import (
    NO_ANSWER,
    NOT_SHOWN,
    TIE_ROUNDS,
    Answers,
    common_trials,
    encode,
    half_pairs,
    half_splits,
    joint_errors,
    split_half_crowds,
)
from cosight.statistics.resampling import random_stream
from cosight.trials.join import align
from tests.scoring.made import answered, observers, row_of, trials

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


_MARKS = 200  # stimuli on which everybody gives an answer of their own: ties show who is in a half


def table(response, classes):
    response = np.asarray(response, dtype=np.int16)
    return Answers(response, np.zeros(response.shape[1], dtype=np.int16), classes)


def marked(response, classes=0):
    """The answers, followed by stimuli on which person i always answers i."""
    response = np.asarray(response, dtype=np.int16)
    people = len(response)
    marks = np.repeat(np.arange(people, dtype=np.int16)[:, None], _MARKS, axis=1)
    return table(np.hstack([response, marks]), max(classes, people))


def members(crowds):
    """Who is in each half, read off the marks."""
    return [set(row[-_MARKS:].tolist()) for row in crowds.response]


def crowds_of(answers, splits=20, seed=0):
    """The crowds of so many splits, or of all where people are few."""
    rng = np.random.default_rng(seed)
    return split_half_crowds(answers, half_splits(answers.observers, splits=splits, rng=rng)[:splits], rng=rng)


@pytest.mark.parametrize(("people", "number"), [(4, 3), (5, 15), (6, 10), (9, 315), (10, 126), (11, 40), (12, 40)])
def test_all_splits_of_few_people_and_random_ones_of_many(people, number):
    splits = half_splits(people, splits=40, rng=np.random.default_rng(0))
    assert splits.shape == (number, 2, people // 2)
    assert all(len(set(split.ravel().tolist())) == 2 * (people // 2) for split in splits)  # halves are disjoint
    unordered = {frozenset(frozenset(half.tolist()) for half in split) for split in splits}
    left_out = {person for split in splits for person in set(range(people)) - set(split.ravel().tolist())}
    assert bool(left_out) == (people % 2 == 1)
    if people <= 10:
        assert len(unordered) == number  # no split twice
        assert len(left_out) in (0, people)  # of an odd number, everyone is left out in turn


def test_crowds_are_those_of_the_splits():
    rng = np.random.default_rng(0)
    splits = half_splits(6, splits=1, rng=rng)
    crowds = split_half_crowds(marked(np.empty((6, 0))), splits, rng=rng)
    assert crowds.response.shape == (2 * 10 * TIE_ROUNDS, _MARKS)
    who = members(crowds)
    for split, halves in enumerate(splits):
        for row in range(2 * TIE_ROUNDS):
            assert who[2 * TIE_ROUNDS * split + row] == set(halves[row % 2].tolist())


def test_the_seed_decides_the_splits_and_the_ties():
    one, again, other = (crowds_of(marked(np.empty((6, 0))), 4, seed).response for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert (one != other).any()


def test_every_tied_answer_wins_as_often_and_meets_every_one_of_the_other_half():
    crowds = crowds_of(marked(np.empty((4, 0))))  # both halves of two are tied on every stimulus
    for split in crowds.response.reshape(-1, TIE_ROUNDS, 2, _MARKS):
        for stimulus in np.moveaxis(split, 2, 0):
            met = Counter(map(tuple, stimulus.tolist()))
            assert len(met) == 4
            assert set(met.values()) == {TIE_ROUNDS // 4}


@settings(deadline=None, max_examples=30)
@given(st.integers(4, 8), st.integers(0, 2**32 - 1))
def test_a_half_answers_with_one_of_its_commonest_answers(people, seed):
    rng = np.random.default_rng(seed)
    given_answers = rng.integers(NOT_SHOWN, 3, (people, 25))  # not shown, no answer, three classes
    crowds = crowds_of(marked(given_answers, classes=3), 3, seed)
    for half, row in zip(members(crowds), crowds.response, strict=True):
        for stimulus, answer in enumerate(row[:-_MARKS]):
            said = [int(given_answers[person, stimulus]) for person in half]
            counts = Counter(code for code in said if code >= 0)
            if counts:
                assert counts[int(answer)] == max(counts.values())
            else:
                assert answer == (NO_ANSWER if NO_ANSWER in said else NOT_SHOWN)


@pytest.mark.parametrize(("column", "allowed"), [
    ([NOT_SHOWN] * 4, {NOT_SHOWN}),
    ([NO_ANSWER] * 4, {NO_ANSWER}),
    ([2, NOT_SHOWN, NOT_SHOWN, NOT_SHOWN], {2, NOT_SHOWN}),  # one half met it, and answers
    ([2, NO_ANSWER, NO_ANSWER, NO_ANSWER], {2, NO_ANSWER}),  # one answer outweighs silence
    ([NO_ANSWER, NOT_SHOWN, NO_ANSWER, NOT_SHOWN], {NO_ANSWER, NOT_SHOWN}),
    ([1, 1, 1, 1], {1}),
])  # fmt: skip
def test_what_nobody_met_or_answered(column, allowed):
    crowds = crowds_of(table(np.array(column)[:, None], 3))
    assert set(crowds.response.ravel().tolist()) == allowed


def test_a_majority_is_never_overturned_by_chance():
    people = [[0, 1]] * 5 + [[2, 2]]  # any half of three has two or more of the first kind
    crowds = crowds_of(table(people, 3))
    assert (crowds.response == [0, 1]).all()


def test_truth_and_classes_stay():
    answers = Answers(np.zeros((4, 3), dtype=np.int16), np.array([0, 5, -1], dtype=np.int16), 7)
    crowds = crowds_of(answers)
    assert crowds.truth.tolist() == [0, 5, -1]
    assert crowds.classes == 7
    assert crowds.response.dtype == np.int16


@pytest.mark.parametrize("people", [0, 1, 3])
def test_fewer_than_four_people_are_refused(people):
    with pytest.raises(InvalidInput, match=f"two crowds need four people or more, got {people}"):
        half_splits(people, splits=20, rng=np.random.default_rng(0))


def test_half_pairs_are_neighbouring_rows():
    assert half_pairs(3).tolist() == [[0, 1], [2, 3], [4, 5]]
    assert half_pairs(0).shape == (0, 2)


# ---------------------------------------------------------------------------------------------------- what compare says


def plain_ceilings(crowds):
    """The mean over splits of each measure, one pair of crowds after the other."""
    found = {"error_consistency": [], "misclassification_agreement": [], "class_level_error_similarity": []}
    truth, classes = crowds.truth.tolist(), list(range(crowds.classes))
    for first, second in half_pairs(len(crowds.response) // 2):
        one, two = (
            [None if code < 0 else int(code) for code in crowds.response[row].tolist()] for row in (first, second)
        )
        right = [[a == t for a, t in zip(said, truth, strict=True)] for said in (one, two)]
        found["error_consistency"].append(error_consistency(*right).value)
        for name, function in (
            ("misclassification_agreement", misclassification_agreement),
            ("class_level_error_similarity", class_level_error_similarity),
        ):
            found[name].append(function(one, two, truth, classes=classes).value)
    means = {name: np.nanmean(np.reshape(values, (-1, TIE_ROUNDS)), axis=1) for name, values in found.items()}
    return {name: float(np.nanmean(of_splits)) for name, of_splits in means.items()}


@pytest.mark.parametrize(("people", "seed"), [(4, 0), (6, 3)])
def test_the_ceiling_of_compare_is_a_plain_loop_over_the_same_splits(people, seed):
    data = trials(answered(observers(people=people, models=1), skill=0.4, missing=0.2, seed=seed))
    found = cosight.compare(data, measure=["ec", "ma", "cles"], resamples=5, seed=seed)
    aligned = align(data)
    rng = random_stream(seed, "halves", "people", "()")
    halves = half_splits(people, splits=20, rng=rng)
    crowds = split_half_crowds(aligned.answers.of(aligned.people), halves, rng=rng)
    assert (crowds.response == NO_ANSWER).any()  # else the test would not see how silence is treated
    for name, value in plain_ceilings(crowds).items():
        row = row_of(found, "people", "people", name, statistic="ceiling_split_half")
        assert row.value == pytest.approx(value, abs=1e-12)


def test_another_seed_splits_otherwise():
    data = trials(answered(observers(people=6), skill=0.4))
    one, two = (
        row_of(cosight.compare(data, measure=["ec"], resamples=5, seed=s), "people", "people",
               "error_consistency", statistic="ceiling_split_half").value
        for s in (0, 1)
    )  # fmt: skip
    assert one != two


def ceiling_of(data, **options):
    scores = cosight.compare(data, measure=["ec"], pairs="human-human", **options)
    return row_of(scores, "people", "people", "error_consistency", statistic="ceiling_split_half")


def test_the_ceiling_hardly_depends_on_the_seed():
    found = [ceiling_of("sample:edges", resamples=2, seed=seed) for seed in range(6)]
    assert np.std([row.value for row in found], ddof=1) < 0.003  # it was .029 with 20 random splits
    assert {row.note.split("; ")[0] for row in found} == {
        "majority answers of two halves of 10 people, mean of 126 splits"
    }


def test_random_splits_of_many_people_are_added_until_their_mean_is_precise():
    noisy = answered(observers(people=12), stimuli=10, skill=0.3, missing=0)
    alike = [{**row, "response": row["truth"] if row["image"] < "005.png" else "a"} for row in noisy]
    for rows, splits in ((noisy, 600), (alike, 50)):
        row = ceiling_of(trials(rows), resamples=200)
        assert row.note.startswith(f"majority answers of two halves of 12 people, mean of {splits} splits")
        assert "; interval over stimuli and splits" in row.note
    values = [ceiling_of(trials(noisy), resamples=2, seed=seed).value for seed in range(5)]
    assert np.std(values, ddof=1) < 0.02

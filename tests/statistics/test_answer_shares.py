"""Shares of answers: cells of confusion matrices, and what a model answers more often than people."""

import math

import numpy as np
import polars as pl
import pytest

from cosight import score
from cosight.errors import InvalidInput
from cosight.measures.uncertainty import difference_of_shares
from cosight.trials import read
from cosight.trials.table import make_trials


@pytest.fixture(scope="module")
def trials():
    found = read("sample:edges")
    people = found.frame.filter(pl.col("kind") == "human")["observer"].unique().to_list()
    return found.only("model:resnet50", "model:alexnet", *people)


@pytest.fixture(scope="module")
def rows(trials):
    return score(trials, measure="answer_share", resamples=200, progress=False).rows


def share(frame, truth, answer):
    given = frame.filter((pl.col("truth") == truth) & pl.col("response").is_not_null())["response"]
    return (given == answer).mean()


def test_shares_equal_a_recount_with_polars(trials, rows):
    people = trials.frame.filter(pl.col("kind") == "human")
    checked = 0
    for row in rows:
        cell = row.in_group("truth"), row.in_group("answer")
        if row.statistic == "value":
            own = people if row.observer == "people" else trials.frame.filter(pl.col("observer") == row.observer)
            assert row.value == pytest.approx(share(own, *cell))
            assert row.low <= row.value <= row.high
        else:
            assert (row.statistic, row.against) == ("difference", "people")
            own = trials.frame.filter(pl.col("observer") == row.observer)
            assert row.value == pytest.approx(share(own, *cell) - share(people, *cell))
            assert row.low <= row.value <= row.high
        checked += 1
    assert checked == (12 + 1 + 2) * 16 * 16  # twelve observers, people pooled, two models less people


def test_shares_by_class_name_the_class_once(trials, rows):
    found = score(trials, measure="answer_share", by="truth", resamples=20, progress=False).rows
    of_classes = {(row.observer, row.against, row.statistic, row.group): row.value for row in found
                  if row.in_group("truth") != "*"}  # fmt: skip
    assert of_classes == {(row.observer, row.against, row.statistic, row.group): row.value for row in rows}
    means = [row for row in found if row.in_group("truth") == "*" and row.observer == "model:alexnet"]
    assert sum(row.value for row in means if row.statistic == "value") == pytest.approx(1)


def test_an_answer_that_one_person_gave_once_is_no_certain_difference(rows):
    rare = [row for row in rows if row.statistic == "difference" and -0.02 < row.value < 0]
    assert rare
    assert all(row.low < 0 < row.high for row in rare)


def test_observers_are_compared_on_the_stimuli_that_both_saw():
    answers = {"model:m": "aab", "human:p": "ab", "human:q": "ab"}
    frame = pl.DataFrame(
        [{"observer": who, "kind": who.split(":")[0], "experiment": "e", "image": f"{at}.png", "truth": "a",
          "response": answer} for who, said in answers.items() for at, answer in enumerate(said)]
    )  # fmt: skip
    found = score(
        make_trials(frame, source="made"), measure="answer_share", labels="a,b", resamples=20, progress=False
    ).rows
    values = {(row.observer, row.against, row.statistic, row.in_group("answer")): row.value for row in found}
    assert values["model:m", None, "value", "a"] == pytest.approx(2 / 3)
    assert values["model:m", "people", "value", "a"] == 1.0  # on the first two images
    assert values["model:m", "people", "difference", "a"] == 0.5


def test_two_observers_are_compared_with_each_other(trials):
    found = score(trials.only("model:resnet50", "model:alexnet"), measure="answer_share", resamples=20, progress=False)
    pairs = {(row.observer, row.against) for row in found.rows if row.statistic == "difference"}
    assert pairs == {("model:alexnet", "model:resnet50")}


def test_many_labels_are_refused():
    frame = pl.DataFrame([{"observer": "m", "kind": "model", "image": f"{i}.png", "truth": f"c{i}", "response": f"c{i}"}
                          for i in range(41)])  # fmt: skip
    with pytest.raises(InvalidInput, match="at most 40 labels, there are 41"):
        score(make_trials(frame, source="made"), measure="answer_share", resamples=20, progress=False)


def wilson(count, n, z=1.959963985):
    middle, half = (count / n + z * z / 2 / n), z * math.sqrt(count / n * (1 - count / n) / n + z * z / 4 / n / n)
    return (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)


@pytest.mark.parametrize(
    ("first", "second", "low", "high"),
    [  # Newcombe 1998, Statistics in Medicine 17: 873-890, Table II, method 10
        ((56, 70), (48, 80), 0.0524, 0.3339),
        ((9, 10), (3, 10), 0.1705, 0.8090),
        ((5, 56), (0, 29), -0.0381, 0.1926),
        ((10, 10), (0, 20), 0.6791, 1.0000),
    ],
)
def test_differences_of_shares_have_the_published_intervals(first, second, low, high):
    ends = np.array([wilson(*first), wilson(*second)])
    shares = np.array([first[0] / first[1], second[0] / second[1]])
    assert difference_of_shares(shares, *ends.T) == pytest.approx((low, high), abs=6e-5)

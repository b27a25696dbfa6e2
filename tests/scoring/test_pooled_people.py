"""People who share few stimuli: one value over all their pairs, from trials to the printed table."""

import numpy as np
import polars as pl
import pytest

from cosight import compare
from cosight.measures import NOT_SHOWN, pooled_error_consistency, pooled_misclassification_agreement
from tests.measures.sparse import sparse_people

PEOPLE, STIMULI = 40, 300


@pytest.fixture(scope="module")
def crowd():
    """40 people with 20 of 300 images each, and two models with all of them: a table and its answers."""
    rng = np.random.default_rng(0)
    people = sparse_people(rng, people=PEOPLE, stimuli=STIMULI, each=20)
    models = np.where(rng.random((2, STIMULI)) < 0.7, people.truth, rng.integers(0, 8, (2, STIMULI)))
    response = np.concatenate([people.response, models.astype(np.int16)])
    names = [*(f"human:{i}" for i in range(PEOPLE)), "model:a", "model:b"]
    rows = [
        {
            **{"observer": names[i], "kind": names[i].split(":")[0], "experiment": "e", "condition": "0"},
            **{"image": f"{s}.png", "truth": f"c{people.truth[s]}", "response": f"c{response[i, s]}"},
        }
        for i, s in zip(*np.nonzero(response != NOT_SHOWN), strict=True)
    ]
    return pl.DataFrame(rows), people


def value_row(scores, observer, against, measure):
    rows = [row for row in scores.rows if (row.observer, row.against, row.measure) == (observer, against, measure)]
    return next((row for row in rows if row.statistic == "value"), None)


@pytest.fixture(scope="module")
def scores(crowd):
    return compare(crowd[0], measure="ec,ma", resamples=400)


@pytest.mark.parametrize(
    ("measure", "pooled"),
    [
        ("error_consistency", pooled_error_consistency),
        ("misclassification_agreement", pooled_misclassification_agreement),
    ],
)
def test_people_are_pooled(measure, pooled, crowd, scores):
    row = value_row(scores, "people", "people", measure)
    expected = pooled(crowd[1])
    low, high = expected.interval()
    assert row.value == pytest.approx(expected.value)
    assert (row.low, row.high) == pytest.approx((low, high), abs=0.1 * (high - low))  # of 400 draws
    assert row.flags == ("pooled",)
    assert row.note.startswith(f"pooled over {expected.n} common trials of 40 people, 1.")
    assert row.n == 1  # common trials per pair


def test_single_pairs_of_people_have_no_value(scores):
    assert value_row(scores, "human:0", "human:1", "error_consistency") is None
    assert value_row(scores, "model:a", "human:0", "error_consistency") is not None
    assert value_row(scores, "model:a", "people", "error_consistency") is not None
    assert value_row(scores, "model:a", "model:b", "error_consistency") is not None
    assert [row for row in scores.rows if row.statistic == "difference"]


def test_people_alone_and_measures_without_a_pooled_form(crowd):
    people = crowd[0].filter(pl.col("kind") == "human")
    alone = compare(people, measure="ec", pairs="human-human", resamples=20)
    assert [row.observer for row in alone.rows if row.against] == ["people", "people"]  # and the split-half ceiling
    observed = compare(people, measure="observed_consistency", resamples=20)
    assert "few_trials" in value_row(observed, "people", "people", "observed_consistency").flags


def test_groups_are_averaged(crowd):
    halves = crowd[0].with_columns(condition=pl.col("image").str.slice(0, 1).is_in(["1"]).cast(pl.String))
    row = next(
        row
        for row in compare(halves, measure="ec", by="condition", resamples=50).rows
        if row.observer == row.against == "people" and row.group == (("condition", "*"),) and row.statistic == "value"
    )
    assert row.low < row.value < row.high


def test_people_who_share_all_of_few_stimuli_are_compared_pair_by_pair():
    answers = sparse_people(np.random.default_rng(1), people=5, stimuli=8, each=8)
    rows = [
        {"observer": f"human:{i}", "image": f"{s}.png", "truth": f"c{answers.truth[s]}", "response": f"c{code}"}
        for (i, s), code in np.ndenumerate(answers.response)
    ]
    labels = ",".join(f"c{code}" for code in range(8))
    scores = compare(pl.DataFrame(rows), measure="ec", labels=labels, resamples=20)
    assert value_row(scores, "human:0", "human:1", "error_consistency") is not None
    assert "pooled" not in value_row(scores, "people", "people", "error_consistency").flags


def test_the_printed_table_has_the_people(crowd, tmp_path, cosight):
    crowd[0].write_csv(tmp_path / "crowd.csv")
    done = cosight("compare", str(tmp_path / "crowd.csv"), "--measure", "ec,ma", "--resamples", "50")
    assert done.code == 0
    assert done.out.splitlines()[1].startswith("people")

"""Where a model and people differ: the distance per image, the order, ties, whose answers stand for people."""

from __future__ import annotations

import csv
import io
import json
import math

import polars as pl
import pytest

import cosight
from cosight.errors import InvalidInput, UnknownName
from tests.scoring.made import LETTERS, REFUSING, answered, observers, trials
from tests.scoring.made_runs import answers, random_answers, stimuli, write_run, write_set


def said(observer, response, image="1.png", kind=None, **more):
    kind = kind or ("human" if observer.startswith("human") else "model")
    row = {"observer": observer, "kind": kind, "image": image, "experiment": "one", "condition": "x", "truth": "a"}
    return {**row, "response": response, **more}


def crowd(*responses, image="1.png"):
    return [said(f"human:{i}", response, image) for i, response in enumerate(responses)]


def test_an_answer_is_compared_with_the_fractions_of_people():
    rows = [
        *crowd("a", "a", "a", "b"),
        said("m", "b"),
        *crowd("a", "a", "a", "a", image="2.png"),
        said("m", "a", "2.png"),
    ]
    found = cosight.disagree(trials(rows))
    first, second = found.rows
    assert (first.image, first.response, first.people, first.n) == ("1.png", "b", (("a", 3), ("b", 1)), 4)
    assert first.difference == pytest.approx(math.sqrt(1 - math.sqrt(1 / 4)))  # Hellinger distance to one answer
    assert (first.agreement, first.probabilities, first.against) == (0.25, None, "people")
    assert (second.image, second.difference, second.agreement) == ("2.png", 0.0, 1.0)
    assert (found.total, found.models[0].against_majority, found.models[0].images) == (2, 1, 2)


def test_probabilities_are_compared_whole():
    rows = [*crowd("a", "b"), said("m", "a", probabilities=[0.5, 0.5, 0.0]), *crowd("a", "b", image="2.png")]
    rows.append(said("m", "a", "2.png", probabilities=[0.9, 0.0, 0.1]))
    found = cosight.disagree(trials(rows))
    assert [row.image for row in found.rows] == ["2.png", "1.png"]
    assert found.rows[1].difference == pytest.approx(0.0, abs=1e-6)
    assert found.rows[0].difference == pytest.approx(math.sqrt(1 - math.sqrt(0.9 * 0.5)), abs=1e-6)
    assert [label for label, _ in found.rows[0].probabilities] == ["a", "c"]
    assert dict(found.rows[0].probabilities)["a"] == pytest.approx(0.9)


def test_the_mean_over_images_is_the_hellinger_distance_of_score():
    table = trials(answered(observers(people=4, models=2), missing=0))
    found = cosight.disagree(table)
    scored = cosight.score(table, measure=["hellinger"], resamples=5)
    for model in found.models:
        (row,) = [r for r in scored.rows if (r.observer, r.against, r.statistic) == (model.observer, "people", "value")]
        assert model.mean == pytest.approx(row.value)
        own = [row.difference for row in found.rows if row.observer == model.observer]
        assert (len(own), sum(own) / len(own)) == (model.images, pytest.approx(row.value))
    assert [model.mean for model in found.models] == sorted(model.mean for model in found.models)


def test_of_equal_differences_those_on_which_people_agree_come_first():
    rows = [*crowd("a", "b"), said("m", "c"), *crowd("a", "a", image="2.png"), said("m", "c", "2.png")]
    assert [(row.image, row.difference) for row in cosight.disagree(trials(rows)).rows] == [
        ("2.png", 1.0),
        ("1.png", 1.0),
    ]


def test_images_that_one_side_did_not_answer_are_left_out():
    rows = [*crowd("a", "a"), said("m", "b"), *crowd("a", "a", image="2.png"), said("m", None, "2.png")]
    rows += [*crowd(None, None, image="3.png"), said("m", "a", "3.png"), said("m", "a", "4.png")]
    assert [row.image for row in cosight.disagree(trials(rows)).rows] == ["1.png"]


def test_images_join_by_experiment_and_condition_not_by_name_alone():
    rows = [*crowd("a", "a"), said("m", "b"), said("m", "c", condition="y")]
    (row,) = cosight.disagree(trials(rows)).rows
    assert (row.condition, row.response) == ("x", "b")


def test_only_test_trials_count_unless_asked():
    rows = [
        *crowd("a", "a"),
        said("m", "a"),
        *[{**row, "role": "distractor"} for row in crowd("b", "b", image="2.png")],
    ]
    rows.append(said("m", "a", "2.png", role="distractor"))
    assert [row.image for row in cosight.disagree(trials(rows)).rows] == ["1.png"]
    assert [row.image for row in cosight.disagree(trials(rows), role=["all"]).rows] == ["2.png", "1.png"]


def test_repeated_showings_are_one_image_with_all_its_answers():
    again = [{**row, "role": "repeat", "repetition": 1} for row in crowd("b", "a")]
    (row,) = cosight.disagree(trials([*crowd("a", "a"), *again, said("m", "a")]), role=["test", "repeat"]).rows
    assert (row.people, row.n, row.agreement) == ((("a", 3), ("b", 1)), 4, 0.75)


def test_refusals_are_an_answer_where_the_label_space_has_them():
    rows = [*crowd("abstain", "a"), said("m", "a", probabilities=[1.0, 0.0, 0.0], abstention=0.5)]
    (row,) = cosight.disagree(trials(rows, REFUSING)).rows
    assert row.difference == pytest.approx(0.0, abs=1e-6)
    assert row.people == (("a", 1), ("abstain", 1))


def test_simulated_people_stand_in_only_where_there_are_no_others_and_are_called_so():
    panel = [said("simulated:1", "b", kind="simulated"), said("simulated:2", "b", kind="simulated")]
    (mixed,) = cosight.disagree(trials([*crowd("a", "a"), *panel, said("m", "a")])).rows
    assert (mixed.against, mixed.difference) == ("people", 0.0)
    found = cosight.disagree(trials([*panel, said("m", "a")]))
    assert (found.rows[0].against, found.rows[0].difference) == ("simulated people", 1.0)
    assert "m differs from simulated people by 1.000 on average over 1 images" in found.summary


def test_gold_labels_stand_in_for_people(tmp_path):
    rows = stimuli({1: 2, 8: 3})
    write_set(tmp_path / "set", rows)
    run = write_run(tmp_path / "run", rows, answers(rows, "model:a", random_answers(0)))
    found = cosight.disagree(run)
    assert {row.against for row in found.rows} == {"gold"}
    assert (len(found.rows), found.rows[0].n) == (5, 0)
    scored = cosight.score(run, measure=["hellinger"], resamples=5)
    assert found.models[0].mean == pytest.approx(next(row.value for row in scored.rows if row.statistic == "value"))
    uncertain = next(row for row in found.rows if "category-8" in row.image)
    assert (
        dict(uncertain.people) == pytest.approx({"a": 2 / 3, "abstain": 1 / 3}, abs=1e-6) or uncertain.people[0][1] < 1
    )


def test_only_and_top_choose():
    table = trials(answered(observers(people=3, models=3)))
    found = cosight.disagree(table, only=["model:1"], top=4)
    assert {row.observer for row in found.rows} == {"model:1"}
    assert len(found.rows) == 4 < found.total
    whole = cosight.disagree(table, only=["model:1"])
    assert found.rows == whole.rows[:4]
    assert [row.difference for row in whole.rows] == sorted((row.difference for row in whole.rows), reverse=True)


@pytest.mark.parametrize(("rows", "error", "message"), [
    ([*crowd("a", "b")], InvalidInput, "got no model"),
    ([said("m", "a"), said("n", "b")], InvalidInput, "neither people nor gold labels"),
    ([*crowd("a", "b"), said("m", "a", "9.png")], InvalidInput, "none of its 1 stimuli match people's 1"),
])  # fmt: skip
def test_what_cannot_be_compared_is_refused(rows, error, message):
    with pytest.raises(error, match=message):
        cosight.disagree(trials(rows))


def test_a_misspelled_model_is_refused_with_a_hint():
    with pytest.raises(UnknownName, match=r"no model is called 'model:0O'; did you mean model:0\?"):
        cosight.disagree(trials(answered(observers(people=2, models=1))), only=["model:0O"])
    with pytest.raises(InvalidInput, match="--top must be 1 or more, got 0"):
        cosight.disagree(trials(answered(observers(people=2, models=1))), top=0)


def test_json_csv_and_polars_have_the_same_rows():
    rows = [*crowd("a", "b", "a"), said("m", "c", probabilities=[0.2, 0.2, 0.6]), said("n", "a")]
    found = cosight.disagree(trials(rows, LETTERS))
    records = json.loads(found.to_json(), parse_constant=pytest.fail)
    table = list(csv.DictReader(io.StringIO(found.to_csv())))
    frame = found.to_polars()
    assert list(records[0]) == list(table[0]) == frame.columns
    assert records[0]["people"] == {"a": 2, "b": 1}
    assert table[0]["people"] == "a=2;b=1"
    assert table[0]["probabilities"] == "c=0.6;a=0.2;b=0.2"
    assert frame["people"].to_list()[0] == [{"label": "a", "number": 2.0}, {"label": "b", "number": 1.0}]
    assert frame["probabilities"].null_count() == 1
    assert [row["difference"] for row in records] == frame["difference"].to_list()
    assert frame.schema["n"] == pl.Int64

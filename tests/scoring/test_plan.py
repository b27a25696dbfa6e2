"""`plan`: every question from assumptions and from a pilot, and what each mistake is told."""

import dataclasses
import json
import math

import numpy as np
import polars as pl
import pytest

from cosight.errors import InvalidInput, UnknownName
from cosight.measures.answers import NOT_SHOWN, Answers
from cosight.measures.consistency import error_consistency, error_consistency_resampled
from cosight.measures.draws import draw_people, draw_stimuli
from cosight.measures.misclassification import misclassification_agreement
from cosight.measures.power import (
    joint_probabilities,
    kappa_influence,
    trials_for_accuracy,
    trials_for_consistency,
    trials_for_mean,
    trials_for_misclassification,
    trials_to_tell_apart,
)
from cosight.measures.study_size import people_and_images_for_width, variance_parts
from cosight.measures.uncertainty import mean_over_pairs
from cosight.scoring.plan import Plan, plan
from cosight.trials.join import AlignedTrials
from tests.scoring.planned import deliver, simulate, true_difference

CLASSES = 4


def rows(found):
    return {row.name: row.value for row in found.rows}


def note(found, name):
    return next(row.note for row in found.rows if row.name == name)


def table_of(response, truth, kinds, classes=CLASSES):
    names = tuple(f"{kind}:{i}" for i, kind in enumerate(kinds))
    answers = Answers(np.asarray(response, np.int16), np.asarray(truth, np.int16), classes)
    nowhere = np.full(answers.response.shape, -1, dtype=np.int32)
    return AlignedTrials(answers, names, tuple(kinds), pl.DataFrame(), nowhere, tuple("abcd"[:classes]), ())


def study(kinds, n=1500, seed=0, spread=0.2):
    """Observers who share what is hard: right more often on easy images, drawn to one wrong class on the others."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, CLASSES, n)
    hard, lure = rng.normal(0, 1, n), (truth + rng.integers(1, CLASSES, n)) % CLASSES
    shift = np.where(np.array(kinds) == "model", 0, rng.normal(0, spread, len(kinds)))  # people differ, models do not
    right = hard + rng.normal(0, 1, (len(kinds), n)) + shift[:, None] < 0.5
    other = (truth + rng.integers(1, CLASSES, (len(kinds), n))) % CLASSES
    wrong = np.where(rng.random((len(kinds), n)) < 0.4, lure, other)
    return table_of(np.where(right, truth, wrong), truth, kinds)


@pytest.fixture(scope="module")
def pilot():
    return study(["human"] * 3 + ["model"] * 2)


# --- from assumptions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"measure": "accuracy", "accuracy": 0.7}, trials_for_accuracy(0.7, width=0.1)),
        ({"measure": "acc", "accuracy": [0.7]}, trials_for_accuracy(0.7, width=0.1)),
        ({"measure": "ec", "accuracy": (0.8, 0.7), "value": 0.4}, trials_for_consistency(0.8, 0.7, 0.4, width=0.1)),
        ({"measure": "ec", "accuracy": 0.8, "value": 0.4}, trials_for_consistency(0.8, 0.8, 0.4, width=0.1)),
        (
            {"measure": "ma", "accuracy": (0.8, 0.7), "value": 0.2, "classes": 16},
            trials_for_misclassification(0.2, classes=16, joint=0.06, width=0.1),
        ),
        (
            {"measure": "ma", "joint": 0.25, "value": 0.2, "classes": 16},
            trials_for_misclassification(0.2, classes=16, joint=0.25, width=0.1),
        ),
        ({"measure": "hellinger", "sd": 0.2}, trials_for_mean(0.2, width=0.1)),
        ({"measure": "ec", "sd": 1.1}, trials_for_mean(1.1, width=0.1)),
    ],
)
def test_width(options, found):
    answer = plan(width=0.1, **options)
    assert answer.value == answer.rows[0].value == found.trials
    assert rows(answer)["width"] == found.width <= 0.1
    assert rows(answer)["standard error"] == found.standard_error
    assert rows(answer).get("jointly wrong trials", found.used) == found.used
    assert "0.1 wide" in answer.question


def test_joint_errors_from_accuracies_are_said_to_be_independent():
    answer = plan(measure="ma", width=0.2, accuracy=(0.8, 0.7), value=0.2, classes=16)
    assert "0.06 of the trials jointly wrong" in answer.rows[0].note
    assert "independent" in answer.rows[0].note
    assert "independent" not in plan(measure="ma", width=0.2, joint=0.1, value=0.2, classes=16).rows[0].note


def test_difference_in_accuracy():
    # Independent models of .8 and .7: variance .16 + .21, so ((1.959964 + .841621) / .1)^2 * .37 = 290.4.
    assert plan(measure="accuracy", difference=0.1, accuracy=0.8).value == 291
    assert plan(measure="accuracy", difference=0.1, accuracy=(0.7, 0.8)).value == 291
    alike = plan(measure="accuracy", difference=0.1, accuracy=0.8, value=0.5)
    assert alike.value < 291
    assert "independent" not in note(alike, "standard deviation")
    assert rows(alike)["power"] >= 0.8
    assert plan(measure="accuracy", difference=0.1, accuracy=0.8, power=0.95).value > 291


def test_difference_in_consistency_and_agreement():
    ec = plan(measure="ec", difference=0.1, accuracy=(0.8, 0.7), value=0.4)
    assert rows(ec)["standard deviation"] == pytest.approx(1.392, abs=5e-4)  # the doctest's, checked by simulation
    assert ec.value == trials_to_tell_apart(0.1, sd=rows(ec)["standard deviation"]).trials
    assert "0.4 and 0.3" in note(ec, "standard deviation")
    ma = plan(measure="ma", difference=0.1, joint=0.1, value=0.3, classes=16)
    assert rows(ma)["standard deviation"] == pytest.approx(2.168, abs=5e-4)
    more = plan(measure="ma", difference=0.1, accuracy=0.9, value=0.3, classes=16)
    assert more.value == pytest.approx(10 * ma.value, rel=1e-3)  # a tenth as many joint errors
    assert plan(measure="hellinger", difference=0.05, sd=0.5).value == 785


def test_gold_labels():
    # Lee et al. 2023, F.4: 132.23 people at 5 %, with p = 1/11; 134 with the one more, which leave 8.7 % at p = 1/2.
    found = plan(measure="gold", error=0.05, classes=11)
    assert rows(found)["people per image"] == 133
    assert "132.23" in found.rows[0].note
    assert rows(found)["people per image, plus one"] == 134
    assert rows(found)["people per image, worst case"] == 400
    assert rows(found)["error at p = 1/2"] == pytest.approx(0.087, abs=5e-4)
    assert rows(plan(measure="gold", error=0.05, value=1 / 11)) == rows(found)
    assert "error at p = 1/2" not in rows(plan(measure="gold", error=0.9, value=0.01))  # one person has no interval


# --- from a pilot ---------------------------------------------------------------------------------------------------


def test_a_pair_of_the_pilot(pilot):
    found = plan(measure="ec", width=0.1, pilot=pilot, observers=("human:1", "model:4"))
    right = pilot.answers.correct[[1, 4]]
    influence, n = kappa_influence(*right), right.shape[1]
    assert rows(found)["error_consistency"] == pytest.approx(error_consistency(*right).value)
    assert rows(found)["standard deviation"] == pytest.approx(influence.standard_error * n / math.sqrt(n - 1))
    assert found.value == trials_for_mean(rows(found)["standard deviation"], width=0.1).trials
    assert rows(found)["accuracy, human:1"] == pytest.approx(right[0].mean())
    assert rows(found)["accuracy, model:4"] == pytest.approx(right[1].mean())
    assert rows(found)["jointly wrong"] == pytest.approx((~right).all(axis=0).mean())
    assert "people" not in rows(found)


def test_a_pair_of_the_pilot_needs_as_many_as_its_accuracies_and_kappa_say(pilot):
    by_pilot = plan(measure="ec", width=0.1, pilot=pilot, observers=("human:1", "model:4"))
    facts = rows(by_pilot)
    said = plan(
        measure="ec",
        width=0.1,
        accuracy=(facts["accuracy, human:1"], facts["accuracy, model:4"]),
        value=facts["error_consistency"],
    )
    assert by_pilot.value == pytest.approx(said.value, rel=2e-3)  # n - 1 in place of n


def test_the_mean_over_pairs_of_people_and_models(pilot):
    found = plan(measure="ec", width=0.1, pilot=pilot)
    right = pilot.answers.correct
    pairs = [(i, j) for i in range(3) for j in (3, 4)]
    influences = [kappa_influence(right[i], right[j]).items for i, j in pairs]
    typical = math.sqrt(np.mean([np.var(items, ddof=1) for items in influences]))
    assert rows(found)["standard deviation"] == pytest.approx(typical)
    mean = trials_for_mean(float(np.std(np.mean(influences, axis=0), ddof=1)), width=0.1)
    assert rows(found)["trials, mean over pairs"] == mean.trials < found.value
    values = [error_consistency(right[i], right[j]).value for i, j in pairs]
    assert rows(found)["error_consistency"] == pytest.approx(np.mean(values))
    assert rows(found)["accuracy, people"] == pytest.approx(right[:3].mean())


def test_people_and_images_of_a_pilot_are_those_of_its_values_averaged_over_models():
    table = study(["human"] * 6 + ["model"] * 2, spread=1)
    right, found = table.answers.correct, plan(measure="ec", width=0.2, pilot=table)
    parts = [[kappa_influence(right[i], right[j]) for j in (6, 7)] for i in range(6)]
    values = [np.mean([part.value + part.items for part in person], axis=0) for person in parts]
    design = people_and_images_for_width(variance_parts(values), width=0.2)
    assert rows(found)["people"] == design.people[design.cheapest]
    assert rows(found)["images"] == design.images[design.cheapest]


def test_people_and_images_of_a_pilot_reach_the_width_in_other_studies():
    pilot = study(["human"] * 30 + ["model"], n=3000, seed=1, spread=1)
    found = plan(measure="ec", width=0.12, pilot=pilot)
    people, images = rows(found)["people"], rows(found)["images"]
    assert people >= 10
    assert "so few people" not in note(found, "people")
    widths = []
    for seed in range(20):  # the crossed bootstrap of a study of that size
        table = study(["human"] * people + ["model"], n=images, seed=seed + 10, spread=1)
        rng = np.random.default_rng(seed)
        pairs = np.array([[i, people] for i in range(people)])
        weights = draw_stimuli(np.ones(images), 300, rng)
        values = error_consistency_resampled(table.answers, weights, pairs)
        draw = np.concatenate([draw_people(people, 300, rng), np.ones((300, 1))], axis=1)
        means = mean_over_pairs(values, pairs, draw, table.people)
        widths.append(np.subtract(*np.quantile(means, [0.975, 0.025])))
    assert np.mean(widths) == pytest.approx(0.12, rel=0.25)  # the parts come from one pilot of thirty people


def test_misclassification_of_a_pilot(pilot):
    found = plan(measure="ma", width=0.2, pilot=pilot, observers=("human:0", "model:3"))
    a, b = pilot.answers.response[[0, 3]]
    whole = misclassification_agreement(a, b, pilot.answers.truth)
    assert rows(found)["misclassification_agreement"] == pytest.approx(whole.value)
    assert rows(found)["jointly wrong"] == pytest.approx(whole.n / len(a))
    assert found.value == pytest.approx(rows(found)["jointly wrong trials"] * len(a) / whole.n, abs=1)
    even = trials_for_misclassification(whole.value, classes=CLASSES, joint=whole.n / len(a), width=0.2)
    assert rows(found)["jointly wrong trials"] == pytest.approx(even.used, rel=0.15)


def test_accuracy_of_a_pilot(pilot):
    share = pilot.answers.correct[3:].mean()
    assert plan(measure="accuracy", width=0.05, pilot=pilot).value == trials_for_accuracy(share, width=0.05).trials
    people = plan(measure="accuracy", width=0.1, pilot=pilot, observers=("human:0", "human:1", "human:2"))
    assert rows(people)["people"] >= 2
    assert rows(people)["images"] >= 1


def test_a_difference_of_models_in_a_pilot(pilot):
    found = plan(measure="ec", difference=0.05, pilot=pilot)
    right = pilot.answers.correct
    gaps = [kappa_influence(right[i], right[3]).items - kappa_influence(right[i], right[4]).items for i in range(3)]
    sd = float(np.std(np.mean(gaps, axis=0), ddof=1))
    assert rows(found)["standard deviation"] == pytest.approx(sd)
    assert found.value == trials_to_tell_apart(0.05, sd=sd).trials
    named = plan(measure="ec", difference=0.05, pilot=pilot, observers=("model:4", "model:3"))
    assert named.value == found.value
    right = right.astype(float)
    accuracy = plan(measure="accuracy", difference=0.05, pilot=pilot)
    assert rows(accuracy)["standard deviation"] == pytest.approx(np.std(right[3] - right[4], ddof=1))
    assert plan(measure="ma", difference=0.05, pilot=pilot).value > found.value  # it rests on fewer trials


def test_the_mean_over_several_pairs_of_models():
    table = study(["human", "model", "model", "model"], n=300)
    right = table.answers.correct.astype(float)
    gaps = [np.var(right[i] - right[j], ddof=1) for i, j in ((1, 2), (1, 3), (2, 3))]
    found = plan(measure="accuracy", difference=0.1, pilot=table)
    assert rows(found)["standard deviation"] == pytest.approx(math.sqrt(np.mean(gaps)))


def test_stimuli_that_not_all_have_met(pilot):
    response = pilot.answers.response.copy()
    response[0, :500] = NOT_SHOWN
    partial = table_of(response, pilot.answers.truth, pilot.kinds)
    found = plan(measure="ec", width=0.1, pilot=partial, observers=("human:0", "model:3"))
    kept = table_of(response[:, 500:], pilot.answers.truth[500:], pilot.kinds)
    assert rows(found) == pytest.approx(
        rows(plan(measure="ec", width=0.1, pilot=kept, observers=("human:0", "model:3"))), rel=0.05
    )
    assert rows(found)["standard deviation"] == pytest.approx(
        np.std(kappa_influence(*kept.answers.correct[[0, 3]]).items, ddof=1)
    )
    everybody = plan(measure="ec", width=0.1, pilot=partial)
    assert rows(everybody)["people"] is None
    assert "every stimulus" in note(everybody, "people")


def test_undefined_pairs_are_left_out_and_counted(pilot):
    response = pilot.answers.response.copy()
    response[[1, 4]] = pilot.answers.truth  # a person and a model without fault: their kappa is undefined
    found = plan(measure="ec", width=0.1, pilot=table_of(response, pilot.answers.truth, pilot.kinds))
    assert "5 pairs" in found.rows[0].note
    assert "1 undefined left out" in found.rows[0].note


def test_simulated_people_are_called_so_and_never_mixed_with_people():
    table = study(["human", "simulated", "model"], n=300)
    only_real = plan(measure="ec", width=0.3, pilot=table)
    assert "accuracy, human:0" in rows(only_real)
    assert "simulated" not in str(only_real)
    simulated = plan(measure="ec", width=0.3, pilot=study(["simulated", "simulated", "model"], n=300))
    assert "accuracy, people (simulated)" in rows(simulated)
    assert "(simulated)" in simulated.rows[0].note
    with pytest.raises(InvalidInput, match="must not share a mean"):
        plan(measure="accuracy", width=0.3, pilot=table, observers=("human:0", "simulated:1"))


# --- what a plan promises, `compare` delivers -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large_pilot():
    """So many people and stimuli that the variances are known well; and two models."""
    return simulate(120, 4000, np.random.default_rng(99))


def test_compare_finds_a_difference_as_often_as_planned(large_pilot):
    difference = true_difference("ec")
    found = plan(measure="ec", difference=difference, pilot=large_pilot, people=10)
    assert rows(found)["people"] == 10
    assert rows(found)["power"] == pytest.approx(0.8, abs=0.01)
    delivered = deliver("ec", people=10, stimuli=int(found.value), studies=40, resamples=200)
    assert delivered.power == pytest.approx(0.8, abs=0.12)  # its standard error is .06


@pytest.mark.slow
def test_an_interval_of_compare_is_as_wide_as_planned(large_pilot):
    found = plan(measure="ec", width=0.1, pilot=large_pilot, people=10)
    trials = rows(found)["trials, mean over pairs"]
    assert trials > trials_for_mean(0.1, width=0.1).trials
    assert "10 people" in note(found, "trials, mean over pairs")
    delivered = deliver("ec", people=10, stimuli=trials, studies=20, resamples=200)
    assert delivered.width == pytest.approx(0.1, rel=0.05)


@pytest.mark.slow
def test_more_people_need_fewer_trials(large_pilot):
    options = {"measure": "ec", "difference": 0.1, "pilot": large_pilot}
    ten, twenty = (plan(**options, people=people) for people in (10, 20))
    assert twenty.value < ten.value


def test_too_few_people_are_said_to_be():
    different = study(["human"] * 6 + ["model"] * 2, spread=2)
    found = plan(measure="ec", difference=0.002, pilot=different, people=6)
    assert rows(found)["trials"] is None
    assert "6 people differ too much for this power" in note(found, "trials")
    assert rows(found)["power"] < 0.8
    wide = plan(measure="ec", width=0.001, pilot=different)
    assert rows(wide)["trials, mean over pairs"] is None
    assert "6 people differ too much for this width" in note(wide, "trials, mean over pairs")


def test_by_default_as_many_people_as_in_the_pilot_and_three_are_taken_as_they_are(pilot):
    four = study(["human"] * 4 + ["model"] * 2)
    assert rows(plan(measure="ec", difference=0.1, pilot=four))["people"] == 4
    three = plan(measure="ec", difference=0.1, pilot=pilot)
    assert "people" not in rows(three)
    planned = plan(measure="ec", difference=0.1, pilot=pilot, people=3)  # compare does not resample three people
    assert planned.value == pytest.approx(three.value, rel=0.05)


def test_models_that_err_alike_cannot_be_planned_for():
    table = study(["human"] * 4 + ["model"] * 2)
    response = table.answers.response.copy()
    response[5] = response[4]
    alike = table_of(response, table.answers.truth, table.kinds)
    with pytest.raises(InvalidInput, match="must be above 0"):
        plan(measure="ec", difference=0.1, pilot=alike)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"people": 10}, "--people is the number of people of a study planned from a pilot, got 10"),
        ({"people": 0, "pilot": True}, "got 0"),
        ({"people": 10, "pilot": True, "incomplete": True}, "--people 10 needs a pilot"),
    ],
)
def test_people_that_cannot_be_planned_with(pilot, options, words):
    table = pilot
    if options.pop("incomplete", False):
        response = pilot.answers.response.copy()
        response[0, :5] = NOT_SHOWN
        table = table_of(response, pilot.answers.truth, pilot.kinds)
    options = {**options, "pilot": table} if options.pop("pilot", False) else {**options, "sd": 1.0}
    with pytest.raises(InvalidInput, match=words):
        plan(measure="ec", difference=0.1, **options)


# --- form and mistakes ----------------------------------------------------------------------------------------------


def test_it_is_json(pilot):
    for found in (
        plan(measure="ma", width=0.1, accuracy=(0.8, 0.7), value=0.2, classes=16),
        plan(measure="gold", error=0.1, classes=10),
        plan(measure="ec", width=0.1, pilot=study(["human", "model"], n=90)),  # null with a note: no second person
        plan(measure="accuracy", difference=0.1, pilot=pilot),
    ):
        again = json.loads(json.dumps(dataclasses.asdict(found), allow_nan=False))
        assert again["question"] == found.question
        assert [row["value"] for row in again["rows"]] == [row.value for row in found.rows]
    assert math.isnan(Plan("?", (dataclasses.replace(found.rows[0], value=None),)).value)


def test_a_width_out_of_reach_of_people_is_said():
    found = plan(measure="ec", width=0.001, pilot=study(["human"] * 8 + ["model"], spread=1))
    assert rows(found)["people"] is None
    assert "200 people" in note(found, "people")


def test_a_part_of_variance_below_zero_is_said():
    table = table_of([[0, 1, 0, 1], [1, 0, 0, 1], [0, 1, 1, 0]], [0] * 4, ["human"] * 3)  # everybody is right on half
    found = plan(measure="accuracy", width=0.5, pilot=table)
    assert "below zero and taken as none: people, stimuli" in note(found, "people")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"measure": "ec"}, "--width or --difference, got none"),
        ({"measure": "ec", "width": 0.1, "difference": 0.1}, "got --width and --difference"),
        ({"measure": "ec", "width": 0.1}, "accuracies expected, got none; give --accuracy"),
        ({"measure": "ec", "width": 0.1, "accuracy": 0.8}, "give --value"),
        ({"measure": "ec", "difference": 0.1, "accuracy": 0.8}, "give --value"),
        ({"measure": "accuracy", "width": 0.1}, "give --accuracy"),
        ({"measure": "ma", "width": 0.1}, "give --value"),
        ({"measure": "ma", "width": 0.1, "value": 0.2}, "give --classes"),
        ({"measure": "ma", "width": 0.1, "value": 0.2, "classes": 5}, "give --accuracy or --joint"),
        ({"measure": "ma", "difference": 0.1, "value": 0.2, "accuracy": 0.8}, "give --classes"),
        ({"measure": "hellinger", "width": 0.1}, "give --sd"),
        ({"measure": "hellinger", "difference": 0.1}, "give --sd"),
        ({"measure": "gold"}, "a plan for gold is asked for by --error, got none"),
        ({"measure": "gold", "error": 0.05}, "--classes .* or --value, got neither"),
        ({"measure": "gold", "error": 0.05, "classes": 5, "value": 0.1}, "got both"),
        ({"measure": "gold", "error": 0.05, "classes": 1}, "--classes must be 2 or more, got 1"),
        ({"measure": "gold", "error": 2, "classes": 11}, "between 0 and 1, got 2"),
        ({"measure": "gold", "width": 0.05, "classes": 11}, "by --error, got --width"),
        ({"measure": "gold", "error": 0.05, "classes": 11, "sd": 1}, "got --sd; leave it out"),
        ({"measure": "ec", "error": 0.1}, "got --error"),
        ({"measure": "ec", "width": 0, "accuracy": 0.8, "value": 0.4}, "--width must be above 0 and at most 2"),
        ({"measure": "ec", "width": 2.1, "accuracy": 0.8, "value": 0.4}, "range of error_consistency, got 2.1"),
        ({"measure": "hellinger", "width": 1.5, "sd": 0.2}, "at most 1, the range of hellinger, got 1.5"),
        ({"measure": "kl", "width": -1, "sd": 0.2}, "--width must be above 0, got -1"),
        ({"measure": "accuracy", "difference": -0.1, "accuracy": 0.8}, "--difference must be above 0"),
        ({"measure": "accuracy", "width": 0.1, "accuracy": 80}, "--accuracy must be 0 to 1, got 80; divide"),
        ({"measure": "accuracy", "width": 0.1, "accuracy": (0.8, 0.7)}, "takes one number here, got 2"),
        ({"measure": "ec", "width": 0.1, "accuracy": (0.8, 0.7, 0.6), "value": 0.4}, "one number or two here, got 3"),
        ({"measure": "ec", "width": 0.1, "accuracy": (0.8, 0.6), "value": 0.9}, "0.5455, got 0.9"),
        ({"measure": "ec", "difference": 0.1, "accuracy": 0.8, "value": 0.4, "power": 80}, "power must lie between"),
        ({"measure": "ec", "width": 0.1, "accuracy": 0.8, "value": 0.4, "power": 80}, "power must lie between"),
        ({"measure": "accuracy", "difference": 0.1, "accuracy": (0.8, 0.6)}, "differ by --difference 0.1"),
        ({"measure": "accuracy", "difference": 0.5, "accuracy": 0.3}, "0 or more, got -0.2"),
        ({"measure": "ma", "width": 0.1, "value": 0.2, "classes": 5, "accuracy": (1, 0.5)}, "--accuracy below 1"),
        ({"measure": "ma", "width": 0.1, "value": 0.2, "classes": 5, "accuracy": 0.8, "joint": 0.1}, "got --accuracy"),
        ({"measure": "ec", "width": 0.1, "accuracy": 0.8, "value": 0.4, "classes": 16}, "got --classes; leave it out"),
        ({"measure": "ec", "width": 0.1, "sd": 1, "value": 0.4}, "--sd takes the place .* got --value"),
        ({"measure": "ec", "width": 0.1, "sd": 1, "observers": ["human:0"]}, "without one; give its trials"),
        ({"measure": "cles", "width": 0.1}, "plans are made for .* got class_level_error_similarity"),
    ],
)
def test_mistakes(options, words):
    with pytest.raises(InvalidInput, match=words):
        plan(**options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"measure": "hellinger", "width": 0.1}, "give --sd of one item"),
        ({"measure": "ec", "width": 0.1, "value": 0.4}, "a pilot takes the place of assumptions, got --value"),
        ({"measure": "ec", "width": 0.1, "observers": ["human:9"]}, "got 'human:9'; it has human:0"),
        ({"measure": "ec", "width": 0.1, "observers": ["human:1"]}, "two observers, got 1"),
        ({"measure": "ec", "width": 0.1, "observers": ["human:1", "human:1"]}, "must differ"),
        ({"measure": "ec", "difference": 0.1, "observers": ["model:3"]}, "between two models, got 1"),
        ({"measure": "gold", "error": 0.1, "classes": 4}, "without a pilot"),
    ],
)
def test_mistakes_with_a_pilot(pilot, options, words):
    with pytest.raises(InvalidInput, match=words):
        plan(pilot=pilot, **options)


def test_pilots_that_cannot_tell():
    alone = study(["model", "model"], n=50)
    with pytest.raises(InvalidInput, match="for a person and a model, got none"):
        plan(measure="ec", width=0.1, pilot=alone)
    with pytest.raises(InvalidInput, match="with some person, got none"):
        plan(measure="ec", difference=0.1, pilot=alone)
    twins = table_of([[0, 1, 0], [0, 1, 0]], [0, 0, 0], ["model", "model"])
    with pytest.raises(InvalidInput, match="standard deviation of a trial must be above 0"):
        plan(measure="accuracy", difference=0.1, pilot=twins)
    unseen = table_of([[NOT_SHOWN] * 3], [0, 0, 0], ["model"])
    with pytest.raises(InvalidInput, match="known truth for each observer"):
        plan(measure="accuracy", width=0.1, pilot=unseen)


def test_an_unknown_measure_is_given_its_nearest_name():
    with pytest.raises(UnknownName, match="hellinger"):
        plan(measure="helinger", width=0.1, sd=0.2)


def test_the_pilots_pair_has_the_joint_shares_of_its_kappa(pilot):
    facts = rows(plan(measure="ec", width=0.1, pilot=pilot, observers=("human:0", "model:3")))
    shares = joint_probabilities(facts["accuracy, human:0"], facts["accuracy, model:3"], facts["error_consistency"])
    assert shares.neither == pytest.approx(facts["jointly wrong"])

from __future__ import annotations

import json
import math
from itertools import chain, combinations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cosight
from cosight.errors import InvalidInput, UnknownName
from cosight.measures import (
    accuracy,
    class_level_error_similarity,
    error_consistency,
    misclassification_agreement,
    response_entropy,
    shape_bias,
    softmax_output_consistency,
    softmax_output_consistency_on_errors,
)
from cosight.statistics.outputs import output_measures
from cosight.statistics.rows import group_text
from cosight.trials import LabelSpace, write
from tests.scoring.made import LETTERS, REFUSING, answered, observers, row_of, trials

EC, MA, CLES = "error_consistency", "misclassification_agreement", "class_level_error_similarity"
SOC, SOCE = list(output_measures)[-2:]


def quick(*tables, **options):
    return cosight.compare(*tables, **{"resamples": 10, **options})


def said(rows, observer, **where):
    mine = [r for r in rows if r["observer"] == observer and all(r[k] == v for k, v in where.items())]
    return [r["response"] for r in mine], [r["truth"] for r in mine]


# ------------------------------------------------------------------------------------------------------------ values


@pytest.fixture(scope="module")
def rows():
    return answered(observers(people=3, models=2), skill=0.4)


@pytest.fixture(scope="module")
def found(rows):
    return quick(trials(rows), measure=["acc", "response_entropy", "ec", "ma", "cles"])


@pytest.mark.parametrize(("one", "two"), [("human:0", "human:2"), ("model:1", "human:0"), ("model:0", "model:1")])
def test_every_pair_has_the_values_of_the_plain_functions(rows, found, one, two):
    (a, truth), (b, _) = said(rows, one), said(rows, two)
    right = [[x == t for x, t in zip(y, truth, strict=True)] for y in (a, b)]
    plain = {
        EC: error_consistency(*right),
        MA: misclassification_agreement(a, b, truth, classes=LETTERS.classes),
        CLES: class_level_error_similarity(a, b, truth, classes=LETTERS.classes),
    }
    for name, expected in plain.items():
        row = row_of(found, one, two, name)
        assert row.value == pytest.approx(expected.value, abs=1e-12)
        assert row.n == expected.n
        assert row.low <= row.value <= row.high
    ends = plain[EC]
    assert row_of(found, one, two, EC).note.startswith(f"reachable {ends.lowest:.3f} to {ends.highest:.3f}")


def test_observers_alone_and_people_pooled(rows, found):
    answers, truth = said(rows, "human:1")
    assert row_of(found, "human:1", None, "accuracy").value == pytest.approx(accuracy(answers, truth).value)
    assert row_of(found, "human:1", None, "response_entropy").value == pytest.approx(
        response_entropy(answers, truth).value
    )
    everyone = [said(rows, f"human:{i}") for i in range(3)]
    pooled = accuracy(*(list(chain.from_iterable(part)) for part in zip(*everyone, strict=True)))
    row = row_of(found, "people", None, "accuracy")
    assert (row.value, row.n) == (pytest.approx(pooled.value), 3 * 42)
    assert row.note.startswith("pooled over 3 people")
    assert not [r for r in found.rows if r.observer == "models" and r.against is None]  # models are named, not a sample


def test_means_over_pairs(found):
    def mean(pairs):
        return np.mean([row_of(found, *pair, EC).value for pair in pairs])

    people, models = [f"human:{i}" for i in range(3)], ["model:0", "model:1"]
    between = [(m, p) for m in models for p in people]
    ceiling = row_of(found, "people", "people", EC)
    assert ceiling.value == pytest.approx(mean(combinations(people, 2)))
    assert ceiling.note.startswith("leave-one-person-out ceiling; mean of 3 pairs")
    assert row_of(found, "models", "people", EC).value == pytest.approx(mean(between))
    assert row_of(found, "model:1", "people", EC).value == pytest.approx(
        mean([b for b in between if b[0] == "model:1"])
    )
    assert row_of(found, "models", "models", EC).value == row_of(found, "model:0", "model:1", EC).value
    share = row_of(found, "model:1", "people", EC, statistic="normalised").value
    assert share == pytest.approx(row_of(found, "model:1", "people", EC).value / ceiling.value)


def test_split_half_ceilings_of_four_people_or_more(found):
    assert not [r for r in found.rows if r.statistic == "ceiling_split_half"]
    many = quick(trials(answered(observers(people=6), skill=0.6, stimuli=40)), measure=["ec"])
    row = row_of(many, "people", "people", EC, statistic="ceiling_split_half")
    assert row.note == "majority answers of two halves of 6 people, mean of 10 splits; interval over stimuli"
    assert -1 <= row.low < row.value < row.high <= 1


def test_undefined_pairs_say_why_are_left_out_of_means_and_counted():
    rows = answered(observers(people=2), skill=1.0, missing=0) + answered([("human:2", "human")], skill=0.0)
    found = quick(trials(rows), measure=["ec", "ma"])
    perfect = row_of(found, "human:0", "human:1", EC)
    assert (perfect.value, perfect.low, perfect.high) == (None, None, None)
    assert perfect.note == "undefined: no common trials, or both always right or both always wrong"
    mean = row_of(found, "people", "people", EC)
    assert mean.value is not None
    assert "mean of 2 pairs, 1 undefined left out" in mean.note
    assert row_of(found, "people", "people", MA).value is None
    assert "no joint errors" in row_of(found, "human:0", "human:2", MA).note


@pytest.mark.parametrize(("pairs", "kinds"), [
    ("all", {"hh", "mh", "mm"}), ("human-human", {"hh"}), ("human-model", {"mh"}), ("model-model", {"mm"}),
])  # fmt: skip
def test_pairs_filter_what_is_compared(rows, found, pairs, kinds):
    some = quick(trials(rows), measure=["ec"], pairs=pairs)
    values = [r for r in some.rows if r.measure == EC and r.statistic == "value"]
    single = [r for r in values if ":" in r.observer and ":" in r.against]
    assert {r.observer[0] + r.against[0] for r in single} == kinds
    for row in single:
        assert row.value == row_of(found, row.observer, row.against, EC).value


def test_groups_of_conditions(rows):
    grouped = quick(trials(rows), measure=["accuracy", "ec"], by=["experiment", "condition"])
    (a, truth), (b, _) = (said(rows, name, condition="y") for name in ("human:0", "model:0"))
    right = [[x == t for x, t in zip(y, truth, strict=True)] for y in (a, b)]
    row = row_of(grouped, "model:0", "human:0", EC, "experiment=one;condition=y")
    assert (row.value, row.n) == (pytest.approx(error_consistency(*right).value), 14)
    means = [
        row_of(grouped, "human:0", None, "accuracy", f"experiment={g}").value
        for g in ("one;condition=*", "two;condition=*")
    ]
    top = row_of(grouped, "human:0", None, "accuracy", "experiment=*;condition=*")
    assert top.value == pytest.approx(np.mean(means))  # each experiment once, however many conditions it has
    assert top.note == "mean over experiment: 2 groups"


def test_undefined_cells_are_left_out_of_the_mean_over_groups():
    easy = answered(observers(people=2), conditions={"e": ("easy",)}, skill=1.0, missing=0)
    hard = answered(observers(people=2), conditions={"e": ("hard",)}, skill=0.5)
    found = quick(trials(easy + hard), measure=["ec"], by=["condition"])
    mean = row_of(found, "human:0", "human:1", EC, "condition=*")
    assert mean.value == row_of(found, "human:0", "human:1", EC, "condition=hard").value
    assert mean.note.startswith("mean over condition: 1 groups, 1 undefined left out")


def test_groups_of_level_and_truth():
    rows = [{**r, "level": 10 if r["condition"] == "x" else 9} for r in answered(observers(people=2))]
    found = quick(trials(rows), measure=["accuracy"], by=["level"])
    groups = list(dict.fromkeys(group_text(r.group) for r in found.rows))
    assert groups == ["level=9", "level=10", "level=*"]  # as numbers
    by_truth = quick(trials(rows), measure=["accuracy"], by=["truth"])
    assert list(dict.fromkeys(group_text(r.group) for r in by_truth.rows)) == [
        "truth=a",
        "truth=b",
        "truth=c",
        "truth=*",
    ]
    with pytest.raises(InvalidInput, match="grouped by experiment, condition, level, truth, got 'subject'"):
        quick(trials(rows), by=["subject"])


def test_shape_bias_of_cue_conflict_images():
    images = {"cat1-dog2.png": "cat", "dog3-cat1.png": "dog", "cat2-cat3.png": "cat", "dog1-car5.png": "dog"}
    answers = {"human:0": ["cat", "dog", "cat", "dog"], "model:0": ["dog", "dog", "cat", "cat"]}
    rows = [
        {
            "observer": who,
            "kind": who[:-2],
            "experiment": "cue-conflict",
            "image": image,
            "truth": truth,
            "response": answer,
        }
        for who, choices in answers.items()
        for (image, truth), answer in zip(images.items(), choices, strict=True)
    ]
    found = quick(trials(rows, LabelSpace("pets", ("car", "cat", "dog"))), measure=["shape_bias"])
    texture = ["dog", "cat", "cat", "car"]
    for who, choices in answers.items():
        plain = shape_bias(choices, list(images.values()), texture)
        assert row_of(found, who, None, "shape_bias").value == plain.value
    assert row_of(found, "model:0", None, "shape_bias").n == 2  # shape or texture answers
    with pytest.raises(InvalidInput, match="shape_bias needs trials of the cue-conflict experiment"):
        quick(trials(answered(observers(people=2))), measure=["shape_bias"])


# -------------------------------------------------------------------------------------------- missing, abstain, gamma


def test_missing_answers_can_be_drawn_at_random():
    rows = answered(observers(people=3, models=1), missing=0.5, skill=0.6, stimuli=60)
    blank = sum(r["response"] is None for r in rows)
    one, again, other = (quick(trials(rows), missing="random", seed=seed) for seed in (1, 1, 2))
    assert one.rows == again.rows
    assert f"{blank} missing answers were drawn at random" in one.notices
    kept = quick(trials(rows))

    def values(scores, measure):
        return [r.value for r in scores.rows if r.measure == measure and r.observer.startswith("human:")]

    for measure in ("accuracy", EC, MA, CLES):  # replaced for all measures
        assert values(one, measure) != values(kept, measure)
        assert values(one, measure) != values(other, measure)
    gained = row_of(one, "people", None, "accuracy").value - row_of(kept, "people", None, "accuracy").value
    assert gained == pytest.approx(blank / 540 / 3, abs=0.05)  # a third of the guesses are right
    assert row_of(one, "model:0", None, "accuracy").value == row_of(kept, "model:0", None, "accuracy").value


def test_random_answers_of_one_do_not_hang_on_another():
    rows = answered(observers(people=3), missing=0.4)
    both = quick(trials([r for r in rows if r["observer"] != "human:0"]), missing="random", measure=["ec"])
    more = quick(trials(rows), missing="random", measure=["ec"])
    assert row_of(more, "human:1", "human:2", EC).value == row_of(both, "human:1", "human:2", EC).value


def refusing_rows():
    """Two models that answer b and c, or refuse, to six a's."""
    soft = [0.0, 0.5, 0.51, 0.9, 1.0, 0.2]
    rows = []
    for i, a in enumerate(soft):
        base = {"kind": "model", "experiment": "e", "image": f"{i}.png", "truth": "a"}
        rows.append({**base, "observer": "model:x", "response": "b", "abstention": a})
        hard = i in (2, 3)
        rows.append(
            {**base, "observer": "model:y", "response": "abstain" if hard else "b", "abstention": 1.0 if hard else 0.0}
        )
    return rows


def test_abstain_is_a_class_only_where_the_space_has_it():
    rows = refusing_rows()
    refuse, none = (quick(trials(rows, space), measure=["ma", "cles", "acc"]) for space in (REFUSING, LETTERS))
    # abstention > .5 refuses: x b b - - - b, y b b - - b b
    x, y = ["b", "b", "abstain", "abstain", "abstain", "b"], ["b", "b", "abstain", "abstain", "b", "b"]
    truth = ["a"] * 6
    plain = misclassification_agreement(x, y, truth, classes=REFUSING.answers)
    row = row_of(refuse, "model:x", "model:y", MA)
    assert (row.value, row.n) == (pytest.approx(plain.value), 6)
    cles = class_level_error_similarity(x, y, truth, classes=REFUSING.answers).value
    assert row_of(refuse, "model:x", "model:y", CLES).value == pytest.approx(cles)
    # without abstain in the space a refusal is no answer, and a soft abstention none at all
    said_y = ["b", "b", None, None, "b", "b"]
    cles = class_level_error_similarity(["b"] * 6, said_y, truth, classes=LETTERS.classes).value
    assert row_of(none, "model:x", "model:y", CLES).value == pytest.approx(cles)
    assert row_of(none, "model:x", "model:y", MA).n == 4


@pytest.mark.parametrize(("gamma", "refused"), [(0.0, 5), (0.5, 3), (0.51, 2), (0.9, 1), (1.0, 0)])
def test_gamma_is_a_strict_bound(gamma, refused):
    rows = [{**r, "truth": "abstain"} for r in refusing_rows() if r["observer"] == "model:x"]
    found = quick(trials(rows, REFUSING), measure=["accuracy"], gamma=gamma)
    assert row_of(found, "model:x", None, "accuracy").value == pytest.approx(refused / 6)
    assert found.settings["gamma"] == gamma


def test_a_hard_refusal_refuses_at_every_gamma():
    rows = [{**r, "truth": "abstain"} for r in refusing_rows() if r["observer"] == "model:y"]
    found = quick(trials(rows, REFUSING), measure=["accuracy"], gamma=1.0)
    assert row_of(found, "model:y", None, "accuracy").value == pytest.approx(2 / 6)


# ----------------------------------------------------------------------------------------------------------- outputs


def sure_rows(seed=0, zero=False):
    """Two models with probabilities, one without, and a person."""
    rng = np.random.default_rng(seed)
    rows = answered(observers(people=1, models=3), conditions={"e": ("0",)}, stimuli=12, missing=0)
    for row in rows:
        if row["observer"] in ("model:0", "model:1"):
            p = rng.dirichlet(np.ones(3)).astype(np.float32)
            if zero and row["observer"] == "model:1" and row["image"] == "003.png":
                p = np.array([0, 0.5, 0.5], dtype=np.float32)
            row["probabilities"] = p.tolist()
            row["response"] = LETTERS.classes[int(p.argmax())]
        else:
            row["probabilities"] = None
    return rows


def outputs_of(rows, observer):
    p = np.array([r["probabilities"] for r in rows if r["observer"] == observer], dtype=np.float64)
    return p / p.sum(axis=1, keepdims=True)


def test_soc_and_soce_are_those_of_the_plain_functions():
    rows = sure_rows()
    found = quick(trials(rows), measure=["soc", "soce"])
    p, q = (outputs_of(rows, f"model:{i}") for i in (0, 1))
    right = [[x == t for x, t in zip(*said(rows, f"model:{i}"), strict=True)] for i in (0, 1)]
    soc, soce = softmax_output_consistency(p, q), softmax_output_consistency_on_errors(p, q, *right)
    for name, plain in ((SOC, soc), (SOCE, soce)):
        row = row_of(found, "model:0", "model:1", name)
        assert (row.value, row.n) == (pytest.approx(plain.value, abs=1e-9), plain.n)
        assert row.low < row.value < row.high
    without = row_of(found, "model:2", "human:0", SOC)
    assert (without.value, without.n) == (None, 0)
    assert without.note == "undefined: no stimulus for which both gave probabilities"
    assert "mean of 1 pairs, 2 undefined left out" in row_of(found, "models", "models", SOC).note


def test_an_infinite_divergence_is_null_and_called_infinite():
    found = quick(trials(sure_rows(zero=True)), measure=["kl", "js"])
    row = row_of(found, "model:1", "model:0", "kullback_leibler")
    assert (row.value, row.low, row.high, row.n, row.note) == (None, None, None, 12, "infinite")
    assert not any(r.observer == r.against == "models" for r in found.rows if r.measure == "kullback_leibler")
    assert row_of(found, "model:0", "model:1", "jensen_shannon").value is not None
    json.loads(found.to_json(), parse_constant=pytest.fail)
    finite = quick(trials(sure_rows()), measure=["kl"])
    p, q = (outputs_of(sure_rows(), f"model:{i}") for i in (1, 0))  # p is that of the one the other is held against
    expected = np.sum(p * np.log(p / q), axis=1).mean()
    assert row_of(finite, "model:0", "model:1", "kullback_leibler").value == pytest.approx(expected, abs=1e-6)


def test_infinite_means_against_people_stay_out_of_ranks_and_differences_without_a_warning():
    rows = answered(observers(simulated=0, people=4, models=2), conditions={"e": ("0",)}, missing=0)
    for row in rows:
        wide = row["observer"] == "model:1" or row["kind"] == "human"
        row["probabilities"] = [0.2, 0.3, 0.5] if wide else [1.0, 0.0, 0.0]
    found = quick(trials(rows), measure=["kl"])
    text = found.to_json()
    assert "Infinity" not in text
    assert row_of(found, "model:1", "people", "kullback_leibler").value == pytest.approx(0, abs=1e-12)
    difference = row_of(found, "model:0", "model:1", "kullback_leibler", statistic="difference")
    assert difference.value is None or math.isfinite(difference.value)


def test_probabilities_need_a_label_space_to_say_whose_they_are():
    with pytest.raises(InvalidInput, match="probabilities need a label space"):
        quick(trials(sure_rows(), None), measure=["soc"])


# ------------------------------------------------------------------------------------------------------- what is wrong


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"resamples": 0}, "--resamples must be 1 or more, got 0"),
        ({"missing": "guess"}, "--missing must be one of leave-out, random, got 'guess'"),
        ({"pairs": "some"}, "pairs must be one of all, .*, got 'some'"),
        ({"pairs": "model-model"}, "needs such a pair .* got 3 people and 1 models"),
        ({"gamma": 1.5}, "--gamma must be 0 to 1, got 1.5"),
        ({"confidence": 1.0}, "confidence must lie between 0 and 1, got 1.0"),
        ({"seed": -1}, "--seed must be a whole number, 0 or more, got -1"),
        ({"measure": ["frechet"]}, "compare takes measures of answers, outputs and features .* got frechet_distance"),
        ({"labels": "a,b"}, "truth is a class of given, got 'c'"),
    ],
)
def test_options_that_make_no_sense(options, words):
    table = trials(answered(observers(people=3, models=1)))
    with pytest.raises(InvalidInput, match=words):
        quick(table, **options)


def test_an_unknown_measure_is_told_the_nearest():
    with pytest.raises(UnknownName, match="did you mean error_consistency"):
        quick(trials(answered(observers(people=2))), measure=["error_consistancy"])


def test_observers_without_common_stimuli_cannot_be_compared_trial_by_trial():
    rows = answered([("human:0", "human")], conditions={"one": ("x",)}, skill=0.2)
    rows += answered([("human:1", "human")], conditions={"two": ("x",)}, skill=0.2)
    with pytest.raises(InvalidInput, match=r"observers must share stimuli to be compared .*error_consistency"):
        quick(trials(rows))
    assert row_of(quick(trials(rows), measure=["cles"]), "human:0", "human:1", CLES).value > 0  # needs no shared trials


def test_no_truth_no_score():
    rows = [{**r, "truth": None} for r in answered(observers(people=2))]
    with pytest.raises(InvalidInput, match="needs the truth of some stimulus, got none"):
        quick(trials(rows), measure=["accuracy"])


def test_one_observer_is_enough_for_measures_of_one():
    found = quick(trials(answered(observers(models=1))), measure=["accuracy"])
    assert [(r.observer, r.measure) for r in found.rows] == [("model:0", "accuracy")]


# -------------------------------------------------------------------------------------------------- sources, settings


def test_sources_are_paths_or_tables_and_the_result_says_how_it_was_made(tmp_path):
    rows = answered(observers(people=2, models=1))
    people, models = (trials([r for r in rows if r["kind"] == kind]) for kind in ("human", "model"))
    write(people, tmp_path / "people.parquet")
    found = quick(tmp_path / "people.parquet", models, measure=["ec"], seed=5, confidence=0.9, labels=LETTERS)
    assert found.rows == quick(trials(rows), measure=["ec"], seed=5, confidence=0.9).rows
    used = found.settings
    assert (used["command"], used["measure"], used["by"], used["seed"]) == ("compare", [EC], [], 5)
    assert (used["confidence"], used["resamples"], used["labels"]) == (0.9, 10, ["a", "b", "c"])
    assert {r.seed for r in found.rows} == {5}
    assert len(cosight.trials.read(people, str(tmp_path / "people.parquet"))) == 2 * len(people)


def test_progress_is_told_cell_by_cell():
    told = []
    quick(trials(answered(observers(people=2))), by=["condition"], progress=lambda *step: told.append(step))
    assert told == [(0, 3, "x"), (1, 3, "y"), (2, 3, "z"), (3, 3, "")]


def test_a_lower_confidence_gives_a_narrower_interval():
    table = trials(answered(observers(people=2), stimuli=40))
    wide, narrow = (
        row_of(cosight.compare(table, measure=["ec"], confidence=x, resamples=200), "human:0", "human:1", EC)
        for x in (0.95, 0.5)
    )
    assert wide.low < narrow.low < narrow.value < narrow.high < wide.high


# -------------------------------------------------------------------------------------------------------------- laws


def table_rows(seed):
    return answered(observers(people=4, models=2), stimuli=6, skill=0.4, missing=0.1, seed=seed)


seeds = st.integers(0, 1000)


@settings(deadline=None, max_examples=5)
@given(seeds, st.randoms(use_true_random=False))
def test_the_order_of_rows_and_files_changes_no_number(seed, random):
    rows = table_rows(seed)
    before = quick(trials(rows), by=["condition"], correlate=True)
    random.shuffle(rows)
    cut = random.randrange(1, len(rows))
    parts = [trials(rows[:cut]), trials(rows[cut:])]
    assert quick(*parts, by=["condition"], correlate=True).rows == before.rows  # values, intervals and notes


def test_the_order_of_files_decides_no_spelling():
    person = answered(observers(people=4), conditions={"e": ("0.90",)})
    model = [{**r, "condition": "0.9"} for r in answered(observers(models=1), conditions={"e": ("0.9",)})]
    one, two = (quick(*map(trials, order), by=["condition"]) for order in ((person, model), (model, person)))
    assert one.rows == two.rows
    assert {group_text(r.group) for r in one.rows} == {"condition=0.9", "condition=*"}


@settings(deadline=None, max_examples=10)
@given(seeds, st.permutations(LETTERS.classes))
def test_other_names_for_the_classes_change_no_value(seed, names):
    rows = table_rows(seed)
    other = {**dict(zip(LETTERS.classes, names, strict=True)), None: None}
    renamed = [{**r, "truth": other[r["truth"]], "response": other[r["response"]]} for r in rows]
    before, after = (
        quick(trials(x), measure=["acc", "ec", "ma", "cles"], pairs="human-model") for x in (rows, renamed)
    )
    for one, two in zip(before.rows, after.rows, strict=True):
        if one.statistic == "ceiling_split_half":
            continue  # ties in a crowd are broken at random, class by class
        assert two.value == (None if one.value is None else pytest.approx(one.value, abs=1e-9))


@settings(deadline=None, max_examples=10)
@given(seeds)
def test_one_observer_more_changes_no_other_pair(seed):
    rows = table_rows(seed)
    before = quick(trials([r for r in rows if r["observer"] != "human:3"]))
    after = quick(trials(rows))
    for row in before.rows:
        if ":" in row.observer and row.against and ":" in row.against and row.statistic == "value":
            again = row_of(after, row.observer, row.against, row.measure)
            assert (again.value, again.n) == (row.value, row.n)


@settings(deadline=None, max_examples=8)
@given(seeds, st.floats(0, 1))
def test_json_has_null_and_never_nan(seed, skill):
    rows = answered(observers(people=2, models=2), stimuli=3, skill=skill, missing=0.3, seed=seed)
    found = quick(
        trials(rows), by=["experiment"], correlate=True, measure=["acc", "response_entropy", "ec", "ma", "cles"]
    )
    parsed = json.loads(found.to_json(), parse_constant=pytest.fail)
    for row in parsed:
        assert row["value"] is not None or row["note"], row
    frame = pl.read_csv(found.to_csv().encode(), infer_schema_length=None)
    assert frame.height == len(parsed)


def test_more_than_fifty_models_are_compared_with_each_other_on_request():
    rows = answered(observers(people=4, models=51), conditions={"one": ("x",)}, stimuli=8)
    options = {"measure": ["ec"], "resamples": 5}
    few, every = cosight.compare(trials(rows), **options), cosight.compare(trials(rows), all_pairs=True, **options)
    of_models = [row for row in every.rows if row.against and {row.observer[:5], row.against[:5]} == {"model"}]
    assert len(of_models) == 2 * 51 * 50 // 2 + 1  # pairs, differences and the mean over pairs
    (lead,) = [row for row in few.rows if row.statistic == "difference"]  # of the two closest, for the verdict
    assert [row for row in few.rows if row is not lead] == [row for row in every.rows if row not in of_models]
    ranks = {row.observer: row.value for row in few.rows if row.statistic == "rank"}
    assert {lead.observer, lead.against} == set(sorted(ranks, key=lambda name: (ranks[name], name))[:2])
    (same,) = [
        row
        for row in of_models
        if row.statistic == "difference" and row.observer == lead.observer and row.against == lead.against
    ]
    assert (lead.value, lead.low, lead.high, lead.p) == (same.value, same.low, same.high, same.p)
    assert any("51 models are compared with people, not with each other; --all-pairs" in text for text in few.notices)
    assert not any("--all-pairs" in text for text in every.notices)
    fifty = cosight.compare(trials([row for row in rows if row["observer"] != "model:50"]), **options)
    assert any(row.statistic == "difference" for row in fifty.rows)
    alone = cosight.compare(trials([row for row in rows if row["kind"] == "model"]), **options)
    assert len(alone.rows) == 51 * 50 // 2 + 1

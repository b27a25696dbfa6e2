"""What a review once found wrong, each as it should be."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest

import cosight
from cosight.errors import InvalidInput
from cosight.measures import encode, kullback_leibler, risk_coverage
from cosight.measures.answers import Answers
from cosight.statistics.blocks import range_of
from cosight.statistics.rows import group_text
from cosight.trials import read, write
from tests.scoring.made import LETTERS, REFUSING, answered, observers, row_of, trials

EC, MA = "error_consistency", "misclassification_agreement"


def sure(rows, kinds=("model",), *, abstain=False, seed=0):
    """The same rows; observers of these kinds have probabilities, perhaps abstentions, and answer the likeliest."""
    rng = np.random.default_rng(seed)
    out = []
    for row in rows:
        p, a = rng.dirichlet(np.ones(3)).astype(np.float32), float(rng.random())
        mine = row["kind"] in kinds
        more = {"probabilities": p.tolist() if mine else None}
        if mine:
            more["response"] = LETTERS.classes[int(p.argmax())]
        if abstain:
            more["abstention"] = a if mine else None
        out.append({**row, **more})
    return out


def of(rows, observer, key):
    return [row[key] for row in rows if row["observer"] == observer]


def right(rows, observer):
    mine = [row for row in rows if row["observer"] == observer]
    return np.array([row["response"] == row["truth"] for row in mine])


# ---------------------------------------------------------------------------- risk is about classes, not about refusing


def test_risk_does_not_depend_on_gamma_and_is_that_of_the_stored_answers():
    rows = sure(answered(observers(models=2)), abstain=True)
    table = trials(rows, REFUSING)
    found = [cosight.score(table, measure=["aurc"], gamma=g, resamples=20) for g in (0.0, 0.5, 1.0)]
    assert found[0].rows == found[1].rows == found[2].rows
    for name in ("model:0", "model:1"):
        plain = risk_coverage(of(rows, name, "abstention"), right(rows, name)).value
        row = row_of(found[0], name, None, "risk_coverage")
        assert row.value == pytest.approx(plain, abs=1e-12)
        assert 0 < row.value < 1
        assert row.n == len(of(rows, name, "truth"))
    accuracies = {
        row_of(cosight.score(table, measure=["acc"], gamma=g, resamples=5), "model:0", None, "accuracy").value
        for g in (0.0, 1.0)
    }
    assert len(accuracies) == 2  # gamma does matter elsewhere


# ------------------------------------------------------------------------------------------- the sign of a difference


@pytest.fixture(scope="module")
def unlike():
    """People and models of unlike accuracy, everyone on every stimulus."""
    skills = {"human:0": 0.9, "human:1": 0.6, "human:2": 0.4, "model:0": 0.75, "model:1": 0.1}
    rows = []
    for i, (name, skill) in enumerate(skills.items()):
        rows += answered([(name, name.split(":")[0])], skill=skill, missing=0, seed=i)
    return rows, cosight.compare(trials(rows), measure=["accuracy_difference"], resamples=20)


def test_a_difference_against_people_is_the_observers_accuracy_less_theirs(unlike):
    rows, found = unlike
    people = ["human:0", "human:1", "human:2"]
    for name in (*people, "model:0", "model:1"):
        others = [p for p in people if p != name]
        plain = np.mean([right(rows, name).mean() - right(rows, other).mean() for other in others])
        assert row_of(found, name, "people", "accuracy_difference").value == pytest.approx(plain, abs=1e-12)
    assert row_of(found, "human:0", "people", "accuracy_difference").value > 0
    assert row_of(found, "model:1", "people", "accuracy_difference").value < 0
    models = np.mean([right(rows, m).mean() for m in ("model:0", "model:1")])
    crowd = np.mean([right(rows, p).mean() for p in people])
    assert row_of(found, "models", "people", "accuracy_difference").value == pytest.approx(models - crowd, abs=1e-12)


def test_where_the_order_matters_a_group_has_no_mean_with_itself(unlike):
    pairs = {(row.observer, row.against) for row in unlike[1].rows}
    assert ("models", "people") in pairs
    assert not {("people", "people"), ("models", "models"), ("people", "models")} & pairs


def test_both_orders_are_there_and_are_negatives(unlike):
    single = [
        r
        for r in unlike[1].rows
        if r.statistic == "value" and r.measure == "accuracy_difference" and {":"} <= {*r.observer} & {*r.against}
    ]
    assert len(single) == 5 * 4
    for row in single:
        back = row_of(unlike[1], row.against, row.observer, "accuracy_difference")
        assert back.value == pytest.approx(-row.value, abs=1e-12)
        assert (back.low, back.high) == pytest.approx((-row.high, -row.low), abs=1e-12)


# -------------------------------------------------------------------------------- who is p and who is q in a divergence


def test_kl_of_a_model_against_a_person_takes_the_persons_distribution_first():
    rows = sure(answered(observers(people=2, models=1), missing=0), kinds=("human", "model"))
    found = cosight.compare(trials(rows), measure=["kl"], resamples=20)
    person, model = (np.array(of(rows, name, "probabilities")) for name in ("human:0", "model:0"))
    forth, back = kullback_leibler(person, model).value, kullback_leibler(model, person).value
    assert abs(forth - back) > 1e-3  # else the test could not tell them apart
    assert row_of(found, "model:0", "human:0", "kullback_leibler").value == pytest.approx(forth, rel=1e-5)
    assert row_of(found, "human:0", "model:0", "kullback_leibler").value == pytest.approx(back, rel=1e-5)
    against = np.mean([kullback_leibler(of(rows, f"human:{i}", "probabilities"), model).value for i in (0, 1)])
    assert row_of(found, "model:0", "people", "kullback_leibler").value == pytest.approx(against, rel=1e-5)


# ---------------------------------------------------------------------------------- few people in one condition of many


def test_a_cell_with_three_of_five_people_has_an_interval_over_stimuli_only():
    rows = answered(observers(people=5, models=2), conditions={"one": ("x", "y")}, stimuli=30)
    rows = [r for r in rows if not (r["condition"] == "y" and r["observer"] in ("human:3", "human:4"))]
    options = {"by": ["condition"], "measure": ["acc", "ec"], "resamples": 60}
    whole = cosight.compare(trials(rows), **options)
    alone = cosight.compare(trials([r for r in rows if r["condition"] == "y"]), **options)
    said = "interval over stimuli only, 3 people are too few to resample"
    asked = [
        ("people", "people", EC),
        ("models", "people", EC),
        ("model:0", "people", EC),
        ("people", None, "accuracy"),
    ]
    for key in asked:
        row = row_of(whole, *key, "condition=y")
        assert row == row_of(alone, *key, "condition=y")
        assert row.low < row.value < row.high
        assert said in row.note
        assert said not in row_of(whole, *key, "condition=x").note


# ----------------------------------------------------------------------- a person with repeats leaves a model as it was


def test_a_person_who_saw_everything_twice_changes_no_number_of_a_model():
    rows = sure(answered(observers(people=2, models=2), missing=0), abstain=True)
    single = [{**row, "session": "1", "trial": i} for i, row in enumerate(rows)]
    twice = [{**r, "observer": "human:twice"} for r in single if r["observer"] == "human:0"]
    twice += [{**r, "trial": r["trial"] + 10_000, "response": "a"} for r in twice]
    options = {"measure": ["acc", "response_entropy", "aurc", "reliability_score"], "resamples": 20}
    options["role"] = ["test", "repeat"]
    before = cosight.score(trials(single, REFUSING), **options)
    after = cosight.score(trials([*single, *twice], REFUSING), **options)
    mine = [row for row in before.rows if row.observer.startswith("model:")]
    assert {row.measure for row in mine} == {
        "accuracy", "response_entropy", "risk_coverage", "reliability_score",
    }  # fmt: skip
    for row in mine:
        again = row_of(after, row.observer, None, row.measure, group_text(row.group))
        assert (again.value, again.n) == (pytest.approx(row.value, abs=1e-12), row.n)
    repeats = row_of(after, "human:twice", None, "accuracy")
    assert repeats.n == len(twice)
    assert repeats.value == pytest.approx(np.mean([r["response"] == r["truth"] for r in twice]))


def test_the_same_holds_for_accuracy_in_compare():
    rows = [{**row, "session": "1", "trial": i} for i, row in enumerate(answered(observers(people=1, models=1)))]
    again = [{**r, "trial": r["trial"] + 10_000} for r in rows if r["kind"] == "human"]
    before, after = (
        row_of(cosight.compare(trials(x), measure=["acc", "ec"], resamples=20), "model:0", None, "accuracy")
        for x in (rows, [*rows, *again])
    )
    assert (after.value, after.n) == (before.value, before.n)


# ------------------------------------------------------------------------------------------------ guessed label spaces


@pytest.fixture
def csv(tmp_path):
    """A model-vs-human file of a bird and a dog, with this answer to the dog."""

    def write_file(answer):
        path = tmp_path / "noise" / "noise_subject-01.csv"
        path.parent.mkdir(exist_ok=True)
        header = "subj,session,trial,rt,object_response,category,condition,imagename"
        lines = [f"subject-01,1,1,0.8,bird,bird,0,bird{i}.png" for i in range(3)]
        lines += [f"subject-01,1,1,0.8,{answer},dog,0,dog{i}.png" for i in range(3)]
        path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
        return path

    return write_file


def test_labels_override_the_guessed_space(csv):
    path = csv("fish")
    with pytest.raises(InvalidInput, match="a response is a class of model-vs-human-16, got 'fish'"):
        read(path)
    table = read(path, labels="laion-c-16")
    assert table.space.name == "laion-c-16"
    assert not [notice for notice in table.notices if "taken to be" in notice]
    found = cosight.score(path, labels="laion-c-16", measure=["acc"], resamples=20)
    assert row_of(found, "human:subject-01", None, "accuracy").value == 0.5
    assert "fish" in found.settings["labels"]


def test_a_space_guessed_from_few_classes_is_announced(csv):
    notice = "classes taken to be model-vs-human-16, of which 2 occur; --labels names others"
    assert notice in read(csv("knife")).notices
    assert notice in cosight.score(csv("knife"), measure=["acc"], resamples=20).notices


# ----------------------------------------------------------------------------------------------------- honest intervals


def test_an_interval_without_width_says_so():
    rows = answered([("model:0", "model")], skill=1.0) + answered([("model:1", "model")], skill=0.3)
    found = cosight.compare(trials(rows), measure=["acc", "ec", "entropy"], resamples=20)
    perfect = row_of(found, "model:0", None, "accuracy")
    assert (perfect.value, perfect.low, perfect.high) == (1, pytest.approx(0.05 ** (1 / perfect.n)), 1)
    for row in found.rows:
        flat = row.low is not None and row.low == row.high
        assert ("no_width" in row.flags) == (flat and row.statistic != "rank")
    assert perfect.note == ""


def test_no_end_lies_beyond_the_range():
    rows = answered(observers(people=3, models=2), skill=0.6, stimuli=8)
    found = cosight.compare(trials(rows), measure=["acc", "ec", "ma", "cles"], resamples=60)
    at_the_end = set()
    for row in found.rows:
        if row.low is not None:
            low, high = range_of(row.measure, row.statistic)
            assert low <= row.low <= row.high <= high
            at_the_end.add(row.low == low or row.high == high)
    assert at_the_end == {True, False}


@pytest.mark.parametrize(("wrong", "scarce"), [(0, True), (2, True), (3, False)])
def test_few_joint_errors_are_counted(wrong, scarce):
    rows = spoiled({"model:0": range(wrong + 4), "model:1": range(wrong)}, {})
    row = row_of(cosight.compare(rows, measure=["ec"], resamples=20), "model:0", "model:1", EC)
    assert (f"errors in common: {wrong}," in row.note) == ("few_errors" in row.flags) == scarce


@pytest.mark.parametrize(("equal", "scarce"), [(1, True), (2, True), (3, False), (8, False)])
def test_few_equal_errors_are_counted(equal, scarce):
    both = range(12)
    rows = spoiled({"model:0": both, "model:1": both}, {"model:1": range(equal, 12)})
    row = row_of(cosight.compare(rows, measure=["ma"], resamples=20), "model:0", "model:1", MA)
    assert (f"errors in common: {equal}," in row.note) == ("few_errors" in row.flags) == scarce


def spoiled(wrong, otherwise):
    """Forty stimuli; these observers err on those listed, with the next class, or the one after where `otherwise`."""
    rows = []
    for name, errors in wrong.items():
        for i in range(40):
            step = (2 if i in otherwise.get(name, ()) else 1) if i in errors else 0
            truth, said = LETTERS.classes[i % 3], LETTERS.classes[(i + step) % 3]
            rows.append({"observer": name, "kind": "model", "image": f"{i}.png", "truth": truth, "response": said})
    return trials(rows)


# ------------------------------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize("call", [cosight.compare, cosight.score])
def test_a_key_named_twice_is_refused(call):
    table = trials(answered(observers(people=2)))
    with pytest.raises(InvalidInput, match="each key of --by is named once, got condition, condition"):
        call(table, by=["condition", "condition"], resamples=5)


def test_a_pilot_is_a_path_or_trials(tmp_path):
    table = trials(answered(observers(people=3, models=2), missing=0))
    path = tmp_path / "pilot.parquet"
    write(table, path)
    found = [cosight.plan(measure="ec", width=0.2, pilot=pilot) for pilot in (table, path, str(path))]
    assert all(one == two for one, two in pairwise(found))
    assert found[0].value > 0
    with pytest.raises(InvalidInput, match="trials must be a file or folder that exists"):
        cosight.plan(measure="ec", width=0.2, pilot=tmp_path / "none.parquet")


@pytest.mark.parametrize("seed", [0, 1])
def test_a_missing_answer_is_never_guessed_to_be_a_refusal(seed):
    rows = [
        {"observer": "human:0", "kind": "human", "image": f"{truth}{i}.png", "truth": truth, "response": None}
        for truth in ("a", "b", "c", "abstain")
        for i in range(120)
    ]
    table = trials(rows, REFUSING)
    found = cosight.compare(table, measure=["acc"], by=["truth"], missing="random", seed=seed, resamples=20)
    assert row_of(found, "human:0", None, "accuracy", "truth=abstain").value == 0
    for truth in ("a", "b", "c"):
        value = row_of(found, "human:0", None, "accuracy", f"truth={truth}").value
        assert value == pytest.approx(1 / 3, abs=0.15)
    assert "480 missing answers were drawn at random" in found.notices


@pytest.mark.parametrize("count", [32_768, 40_000])
def test_more_classes_than_can_be_coded_are_refused(count):
    message = f"answers are coded for 32767 classes at most, got {count}; merge some first"
    with pytest.raises(InvalidInput, match=message):
        Answers(np.zeros((1, 1), dtype=np.int16), np.zeros(1, dtype=np.int16), count)
    names = np.arange(count)
    with pytest.raises(InvalidInput, match=message):
        encode(names, truth=names)


@pytest.mark.parametrize("count", [
    32_768,
    40_000,
])  # fmt: skip
def test_trials_of_more_classes_than_can_be_coded_are_refused(count):
    rows = [
        {"observer": "model:0", "kind": "model", "image": f"{i}.png", "truth": f"c{i}", "response": f"c{i}"}
        for i in range(count)
    ]
    with pytest.raises(InvalidInput, match=f"answers are coded for 32767 classes at most, got {count}; merge some"):
        cosight.score(trials(rows, None), measure=["acc"], resamples=5)


def test_as_many_classes_as_can_be_coded_are_taken():
    names = np.arange(32_767)
    answers = encode(names, truth=names)
    assert answers.classes == 32_767
    assert answers.correct.all()


@pytest.mark.parametrize("name", ["alice", "human:1", "Simulated:1", "model:simulated:1"])
def test_a_simulated_observer_is_called_simulated(name):
    rows = answered([("human:0", "human"), (name, "simulated")])
    rule = f"column observer: a simulated observer is called simulated:NAME, got {name!r}"
    with pytest.raises(InvalidInput, match=re.escape(rule)):
        trials(rows)
    assert len(trials(answered([("simulated:1", "simulated")])))


def test_a_ceiling_of_pairs_with_hardly_a_trial_in_common_normalises_nothing():
    rng = np.random.default_rng(0)
    rows = [
        {"observer": f"human:{p}", "kind": "human", "experiment": "e", "condition": "0", "image": f"{i}.png",
         "truth": "a", "response": "ab"[int(rng.random() < 0.4)], "session": "1", "trial": int(i)}
        for p in range(12) for i in rng.choice(60, 12, replace=False)
    ]  # fmt: skip
    rows += [
        {**r, "observer": "model:m", "kind": "model", "image": f"{i}.png", "trial": i} for i, r in enumerate(rows[:60])
    ]
    found = cosight.compare(trials(rows), measure=["ec"], resamples=20)
    assert not [row for row in found.rows if row.statistic == "normalised"]
    people = row_of(found, "people", "people", "error_consistency")
    assert people.n < 10
    assert "pooled" in people.flags


def test_people_of_one_name_in_several_experiments_are_reported():
    rows = answered(observers(people=4, models=1))
    assert any("several experiments" in notice for notice in cosight.compare(trials(rows), resamples=2).notices)
    by = cosight.compare(trials(rows), by=["experiment"], resamples=2)
    assert not any("several experiments" in notice for notice in by.notices)

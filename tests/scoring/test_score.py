from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

import cosight
from cosight.errors import InvalidInput, UnknownName
from cosight.measures import (
    accuracy,
    distance_items,
    draw_people,
    draw_stimuli,
    label_entropy,
    reliability_score,
    reliability_sweep,
    response_entropy,
    risk_coverage,
    with_abstention,
)
from cosight.statistics.resampling import random_stream
from cosight.trials import write
from tests.scoring.made import LETTERS, REFUSING, answered, observers, plain_interval, plain_mean, row_of, trials

RESAMPLES, SEED = 30, 2
CLASSES = REFUSING.classes


def quick(*tables, **options):
    return cosight.score(*tables, **{"resamples": 10, **options})


def told(rows, seed=0, abstain=False):
    """The same rows, the models with probabilities (and abstentions), their response the likeliest class."""
    rng = np.random.default_rng(seed)
    out = []
    for row in rows:
        p, a = rng.dirichlet(np.ones(3)).astype(np.float32), rng.random()
        sure = (
            {"probabilities": p.tolist(), "response": CLASSES[int(p.argmax())]}
            if row["kind"] == "model"
            else {"probabilities": None}
        )
        if abstain:
            sure["abstention"] = a if row["kind"] == "model" else None
        out.append({**row, **sure})
    return out


def output(row):
    """A label distribution: the probabilities, or all on the class answered; None without an answer."""
    if row.get("probabilities") is not None:
        p = np.array(row["probabilities"], dtype=np.float64)
        return p / p.sum()
    return None if row["response"] is None else np.array([float(c == row["response"]) for c in CLASSES])


# --------------------------------------------------------------------------------------------------------- distances


class Plain:
    """Distances to people's label distributions, one stimulus and one resample after the other."""

    def __init__(self, rows, distance):
        self.distance = distance_items[distance]
        self.kinds = {r["observer"]: r["kind"] for r in rows}
        self.people = sorted(o for o, kind in self.kinds.items() if kind == "human")
        self.stimuli = sorted({(r["experiment"], r["condition"], r["image"]) for r in rows})
        self.rows = {(r["observer"], (r["experiment"], r["condition"], r["image"])): r for r in rows}
        experiments = sorted({s[0] for s in self.stimuli})
        draws = draw_people(len(self.people), RESAMPLES, random_stream(SEED, "people", *experiments, *self.people))
        self.crowds = [[o for o, n in zip(self.people, row, strict=True) for _ in range(int(n))] for row in draws]
        weights = draw_stimuli(np.ones(len(self.stimuli)), RESAMPLES, random_stream(SEED, "stimuli", "()"))
        self.draws = [[s for s, n in zip(self.stimuli, row, strict=True) for _ in range(int(n))] for row in weights]

    def gold(self, crowd, stimulus):
        counts = Counter(self.rows[o, stimulus]["response"] for o in crowd if (o, stimulus) in self.rows)
        counts.pop(None, None)
        total = counts.total()
        return None if total == 0 else np.array([counts[c] / total for c in CLASSES])

    def mean(self, observer, crowd, stimuli):
        """Of `observer` to the others of the crowd: a person is not held against itself, however often it was drawn."""
        others = [o for o in crowd if o != observer]
        apart = []
        for s in stimuli:
            gold, own = self.gold(others, s), output(self.rows[observer, s]) if (observer, s) in self.rows else None
            apart.append(float("nan") if gold is None or own is None else float(self.distance(gold, own)))
        return plain_mean(apart)

    def samples(self, observer):
        return np.array([self.mean(observer, c, d) for c, d in zip(self.crowds, self.draws, strict=True)])

    def ceiling(self):
        """Over the people drawn, each as often as drawn."""
        each = {o: self.samples(o) for o in self.people}
        return np.array([plain_mean([each[o][i] for o in crowd]) for i, crowd in enumerate(self.crowds)])


def check(row, value, samples):
    assert row.value == pytest.approx(value, abs=1e-6)  # indicators are counted in float32
    assert (row.low, row.high) == pytest.approx(plain_interval(samples, value, row.clusters), abs=1e-6)


@pytest.mark.parametrize("distance", ["hellinger", "total_variation", "jensen_shannon"])
def test_distances_to_people_match_a_plain_loop(distance):
    rows = told(answered(observers(people=5, models=2), conditions={"e": ("0",)}, stimuli=10, missing=0.15))
    found = cosight.score(trials(rows), measure=[distance], resamples=RESAMPLES, seed=SEED)
    plain = Plain(rows, distance)
    for observer in ("model:1", "human:3"):
        value = plain.mean(observer, plain.people, plain.stimuli)
        check(row_of(found, observer, "people", distance), value, plain.samples(observer))
    assert row_of(found, "human:3", "people", distance).note == "compared with the others"
    values = [row_of(found, o, "people", distance).value for o in plain.people]
    ceiling = row_of(found, "people", "people", distance, statistic="ceiling_leave_one_out")
    check(ceiling, np.mean(values), plain.ceiling())
    assert ceiling.note == "mean of 5 people, each compared with the others"
    half = row_of(found, "people", "people", distance, statistic="ceiling_split_half")
    assert 0 < half.low < half.value < half.high
    assert half.note == "two halves of 5 people, mean of 15 splits; interval over stimuli"


def test_people_alike_are_at_distance_nought():
    rows = answered(observers(people=4), skill=1.0, missing=0)
    found = quick(trials(rows), measure=["hellinger"])
    assert {r.value for r in found.rows} == {0.0}


@pytest.mark.parametrize(
    ("people", "one", "half"), [(1, False, False), (2, True, False), (3, True, False), (4, True, True)]
)
def test_ceilings_take_two_and_four_people(people, one, half):
    found = quick(trials(answered(observers(people=people, models=1))), measure=["hellinger"])
    kinds = {r.statistic for r in found.rows}
    assert ("ceiling_leave_one_out" in kinds, "ceiling_split_half" in kinds) == (one, half)
    alone = row_of(found, "human:0", "people", "hellinger")
    assert (alone.value is None) == (people == 1)
    assert ("undefined" in alone.note) == (people == 1)


def test_real_and_simulated_people_are_two_references():
    rows = answered(observers(people=2, simulated=2, models=1), missing=0)
    found = quick(trials(rows), measure=["hellinger"])
    alone = quick(trials([r for r in rows if r["kind"] != "simulated"]), measure=["hellinger"])
    assert row_of(found, "model:0", "people", "hellinger") == row_of(alone, "model:0", "people", "hellinger")
    assert row_of(found, "model:0", "simulated people", "hellinger").value > 0
    other = row_of(found, "simulated:1", "people", "hellinger")  # compared with all the people
    assert other.note == "interval over stimuli only, 2 people are too few to resample"
    assert other.flags == ("few_people", "simulated")
    ceiling = row_of(found, "simulated people", "simulated people", "hellinger", statistic="ceiling_leave_one_out")
    assert ceiling.note == "mean of 2 simulated people, each compared with the others"


def test_infinite_divergences_are_null_and_called_infinite():
    rows = answered(observers(people=4, models=2), missing=0)
    for row in rows:
        row["probabilities"] = {"model:0": [0.2, 0.3, 0.5], "model:1": [1.0, 0.0, 0.0]}.get(row["observer"])
    found = quick(trials(rows), measure=["kl"], by=["condition"])
    group = "condition=x"
    endless = row_of(found, "model:1", "people", "kullback_leibler", group)
    assert (endless.value, endless.low, endless.high, endless.note) == (None, None, None, "infinite")
    assert row_of(found, "model:0", "people", "kullback_leibler", group).value > 0
    assert (
        "infinite"
        in row_of(found, "people", "people", "kullback_leibler", group, statistic="ceiling_leave_one_out").note
    )
    assert "infinite" in row_of(found, "model:1", "people", "kullback_leibler", "condition=*").note
    json.loads(found.to_json(), parse_constant=pytest.fail)


def test_people_come_from_the_trials_or_a_file_of_their_own(tmp_path):
    rows = told(answered(observers(people=3, models=1)))
    people, models = (trials([r for r in rows if r["kind"] == kind]) for kind in ("human", "model"))
    write(people, tmp_path / "people.parquet")
    apart = quick(models, humans=tmp_path / "people.parquet")
    assert apart.rows == quick(trials(rows)).rows
    assert row_of(apart, "model:0", "people", "hellinger").n > 0
    assert not [r for r in quick(models).rows if r.measure == "hellinger"]  # without people, none


# ------------------------------------------------------------------------------------------------- observers alone


def test_accuracy_and_entropies_are_those_of_the_plain_functions():
    rows = told(answered(observers(people=2, models=1), missing=0.2))
    found = quick(trials(rows), measure=["accuracy", "response_entropy", "label_entropy"])
    for name in ("human:0", "model:0"):
        mine = [r for r in rows if r["observer"] == name]
        answers, truth = [r["response"] for r in mine], [r["truth"] for r in mine]
        assert row_of(found, name, None, "accuracy").value == pytest.approx(accuracy(answers, truth).value)
        assert row_of(found, name, None, "response_entropy").value == pytest.approx(
            response_entropy(answers, truth).value
        )
    outputs = np.array([output(r) for r in rows if r["observer"] == "model:0"])
    entropy = row_of(found, "model:0", None, "label_entropy")
    assert entropy.value == pytest.approx(label_entropy(outputs).value, abs=1e-6)
    assert entropy.low < entropy.value < entropy.high
    assert [r.observer for r in found.rows if r.measure == "label_entropy"] == ["model:0"]  # people give one answer


def test_label_entropy_matches_a_plain_loop_over_stimuli():
    rows = told(answered(observers(models=1), conditions={"e": ("0",)}, stimuli=20))
    found = cosight.score(trials(rows), measure=["label_entropy"], resamples=RESAMPLES, seed=SEED)
    items = label_entropy(np.array([output(r) for r in rows])).items
    weights = draw_stimuli(np.ones(20), RESAMPLES, random_stream(SEED, "stimuli", "()")).astype(int)
    samples = np.array([np.repeat(items, times).mean() for times in weights])
    check(row_of(found, "model:0", None, "label_entropy"), items.mean(), samples)


def test_without_a_single_answer_entropy_is_undefined_and_says_so():
    rows = [{**r, "response": None} for r in answered(observers(people=1), missing=0)]
    row = row_of(quick(trials(rows), measure=["response_entropy"]), "human:0", None, "response_entropy")
    assert (row.value, row.n, row.note) == (None, 0, "undefined")


def test_risk_and_coverage_by_abstention_or_by_the_highest_probability():
    base = answered(observers(models=1), conditions={"e": ("0",)}, stimuli=25)
    for abstain, space in ((True, REFUSING), (True, LETTERS), (False, LETTERS)):
        rows = told(base, abstain=abstain)
        right = [r["response"] == r["truth"] for r in rows]
        doubt = [r["abstention"] if abstain else 1 - max(r["probabilities"]) for r in rows]
        found = cosight.score(trials(rows, space), measure=["aurc"], resamples=RESAMPLES, seed=SEED)
        weights = draw_stimuli(np.ones(25), RESAMPLES, random_stream(SEED, "stimuli", "()")).astype(int)
        samples = np.array([risk_coverage(np.repeat(doubt, t), np.repeat(right, t)).value for t in weights])
        check(row_of(found, "model:0", None, "risk_coverage"), risk_coverage(doubt, right).value, samples)


def test_mean_abstention_of_each_observer_and_over_seeds():
    base = told(answered(observers(models=2), conditions={"e": ("0",)}, stimuli=25), abstain=True)
    names = {"model:0": "model:a@1#sp", "model:1": "model:a@2#sp"}
    rows = [{**r, "observer": names[r["observer"]]} for r in base]
    found = cosight.score(trials(rows, REFUSING), measure=["mean_abstention"], resamples=RESAMPLES, seed=SEED)
    weights = draw_stimuli(np.ones(25), RESAMPLES, random_stream(SEED, "stimuli", "()"))
    doubt = {name: np.array([r["abstention"] for r in rows if r["observer"] == name]) for name in names.values()}
    samples = {name: weights @ values / weights.sum(axis=1) for name, values in doubt.items()}
    for name, values in doubt.items():
        check(row_of(found, name, None, "mean_abstention"), values.mean(), samples[name])
    both = np.mean(list(samples.values()), axis=0)
    check(row_of(found, "model:a#sp", None, "mean_abstention"), np.mean(list(doubt.values())), both)
    spread = row_of(found, "model:a#sp", None, "mean_abstention", statistic="sd")
    assert spread.value == pytest.approx(np.std([values.mean() for values in doubt.values()], ddof=1))


# ------------------------------------------------------------------------------------------------------- reliability


def refusing_rows(stimuli=24):
    """Models that may refuse; a quarter of the images must be abstained from."""
    rows = told(answered(observers(models=2), conditions={"e": ("0",)}, stimuli=stimuli), abstain=True)
    rows = [{**r, "truth": "abstain"} if int(r["image"][:3]) % 4 == 0 else r for r in rows]
    hard = {"response": "abstain", "abstention": 1.0, "probabilities": None}
    return [{**r, **hard} if r["image"] in ("001.png", "004.png") and r["observer"] == "model:1" else r for r in rows]


def given(rows, observer):
    """What `reliability_score` takes."""
    mine = [r for r in rows if r["observer"] == observer]
    p = [r["probabilities"] or [np.nan] * 3 for r in mine]
    original = [-1 if r["truth"] == "abstain" else CLASSES.index(r["truth"]) for r in mine]
    group = ["must-abstain" if r["truth"] == "abstain" else "must-act" for r in mine]
    return np.array(p, dtype=np.float64), [r["abstention"] for r in mine], original, group


@pytest.mark.parametrize("gamma", [0.2, 0.5])
@pytest.mark.parametrize("observer", ["model:0", "model:1"])
def test_reliability_rows_are_those_of_reliability_score(observer, gamma):
    rows = refusing_rows()
    found = cosight.score(
        trials(rows, REFUSING), measure=["rs", "action_share"], gamma=gamma, resamples=RESAMPLES, seed=SEED
    )
    arrays = given(rows, observer)
    weights = draw_stimuli(np.ones(24), RESAMPLES, random_stream(SEED, "stimuli", "()"))
    for cost, label in ((0, "0"), (12, "N/2"), (24, "N")):
        plain = reliability_score(*arrays, gamma=gamma, cost=cost)
        row = row_of(found, observer, None, "reliability_score", f"cost={label}")
        check(row, plain.value, weights @ plain.items)
        assert row.note == f"gamma {gamma:g}, N = 24"
    shares = reliability_score(*arrays, gamma=gamma).shares
    for action in ("act_correct", "act_incorrect", "act_abstained", "abstain_other", "abstain_abstained"):
        assert row_of(found, observer, None, "action_share", f"action={action}").value == pytest.approx(
            getattr(shares, action)
        )


def test_the_sweep_over_gamma():
    rows = refusing_rows()
    found = quick(trials(rows, REFUSING), measure=["rs"])
    gammas = np.round(np.linspace(0, 1, 11), 1)
    sweep = reliability_sweep(*given(rows, "model:1"), gammas=gammas, cost=24)
    for gamma, score in zip(gammas, sweep.score, strict=True):
        row = row_of(found, "model:1", None, "reliability_score", f"gamma={gamma:g};cost=N")
        assert (row.value, row.low, row.n) == (pytest.approx(score), None, 24)
        assert row.note.startswith("sweep over gamma, N = 24; ")


def test_presentations_of_a_stimulus_are_drawn_together():
    rows = [r for r in refusing_rows(stimuli=8) if r["observer"] == "model:0"]
    twice = [{**r, "trial": t} for t in (1, 2) for r in rows]
    options = {"measure": ["rs"], "resamples": RESAMPLES, "seed": SEED}
    found = cosight.score(trials(twice, REFUSING), **options, role=["test", "repeat"])
    items = reliability_score(*given(rows, "model:0")).items
    weights = draw_stimuli(np.ones(8), RESAMPLES, random_stream(SEED, "stimuli", "()"))
    row = row_of(found, "model:0", None, "reliability_score", "cost=0")
    check(row, 2 * items.sum(), 2 * (weights @ items))


def test_an_answer_with_soft_abstention_and_no_probabilities_is_left_out_of_reliability():
    rows = refusing_rows()
    bare = [{**r, "probabilities": None} if r["image"] == "002.png" else r for r in rows]
    found = quick(trials(bare, REFUSING))
    assert row_of(found, "model:0", None, "reliability_score", "cost=0").n == 23
    assert row_of(found, "model:0", None, "accuracy").n == 24


def test_distances_of_refusing_models_have_abstain_as_a_class():
    rows = [r for r in refusing_rows() if r["observer"] == "model:1"]
    people = [
        {**r, "observer": "human:1", "kind": "human", "response": "abstain", "abstention": None, "probabilities": None}
        for r in rows
    ]
    found = quick(trials(rows + people, REFUSING), measure=["hellinger"])
    p, a, *_ = given(rows, "model:1")
    gold = np.tile([0.0, 0, 0, 1], (24, 1))
    expected = distance_items["hellinger"](gold, with_abstention(p, a)).mean()
    assert row_of(found, "model:1", "people", "hellinger").value == pytest.approx(expected, abs=1e-6)


# ------------------------------------------------------------------------------------------------ defaults and errors


@pytest.mark.parametrize(
    ("rows", "space", "measures"),
    [
        (answered(observers(models=1)), LETTERS, {"accuracy", "response_entropy"}),
        (
            told(answered(observers(models=1))),
            LETTERS,
            {"accuracy", "response_entropy", "label_entropy", "risk_coverage"},
        ),
        (
            refusing_rows(),
            REFUSING,
            {"accuracy", "response_entropy", "label_entropy", "risk_coverage", "reliability_score"},
        ),
    ],
)
def test_without_measures_what_the_trials_allow(rows, space, measures):
    found = quick(trials(rows, space))
    assert {r.measure for r in found.rows} == measures


@pytest.mark.parametrize(
    ("measure", "words"),
    [
        ("hellinger", "hellinger needs people who saw the same stimuli; give their trials, or a set with gold labels"),
        ("label_entropy", "label_entropy needs probabilities"),
        ("aurc", "risk_coverage needs probabilities or abstention"),
        ("rs", "reliability_score needs abstention and a label space with abstain"),
        ("shape_bias", "shape_bias needs the cue-conflict experiment"),
        ("ec", "got error_consistency; try `cosight compare`"),
    ],
)
def test_what_a_measure_lacks_is_said_in_one_line(measure, words):
    with pytest.raises(InvalidInput, match=words) as caught:
        quick(trials(answered(observers(models=2))), measure=[measure])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"resamples": 0}, "--resamples must be 1 or more, got 0"),
        ({"gamma": -1}, "--gamma must be 0 to 1, got -1"),
        ({"by": ["colour"]}, "grouped by experiment, condition, level, truth, category, got 'colour'"),
        ({"labels": "a,b"}, "truth is a class of given, got 'c'"),
    ],
)
def test_options_that_make_no_sense(options, words):
    with pytest.raises(InvalidInput, match=words):
        quick(trials(answered(observers(models=1))), **options)
    with pytest.raises(UnknownName):
        quick(trials(answered(observers(models=1))), measure=["acuracy"])


def test_a_leaderboard_file_alone_has_no_truth(tmp_path):
    path = tmp_path / "net.json"
    path.write_text(json.dumps({"1.png": [1.0] + [0.0] * 10}))
    with pytest.raises(InvalidInput, match="needs the truth of some stimulus, got none"):
        quick(path)


def test_groups_and_their_mean():
    rows = answered(observers(people=2, models=1))
    found = quick(trials(rows), measure=["accuracy", "hellinger"], by=["experiment", "condition"])
    inside = [row_of(found, "model:0", "people", "hellinger", f"experiment=one;condition={c}").value for c in "xy"]
    one = row_of(found, "model:0", "people", "hellinger", "experiment=one;condition=*")
    assert one.value == pytest.approx(np.mean(inside))
    two = row_of(found, "model:0", "people", "hellinger", "experiment=two;condition=z")
    top = row_of(found, "model:0", "people", "hellinger", "experiment=*;condition=*")
    assert top.value == pytest.approx((one.value + two.value) / 2)
    assert found.settings["by"] == ["experiment", "condition"]
    assert found.settings["command"] == "score"


def test_order_of_rows_changes_no_number():
    rows = told(answered(observers(people=4, models=2)), abstain=True)
    assert (
        quick(trials(rows[::-1], REFUSING), by=["condition"]).rows
        == quick(trials(rows, REFUSING), by=["condition"]).rows
    )


def test_progress_is_told_cell_by_cell():
    steps = []
    quick(trials(answered(observers(models=1))), by=["condition"], progress=lambda *step: steps.append(step))
    assert steps == [(0, 3, "condition=x"), (1, 3, "condition=y"), (2, 3, "condition=z"), (3, 3, "")]


def test_a_measure_asked_for_twice_is_computed_once():
    rows = [
        {**r, "observer": f"net@{i}", "kind": "model"} for i in (1, 2, 3) for r in answered(observers(models=1), seed=i)
    ]
    once, twice = (quick(trials(rows), measure=names) for names in (["accuracy"], ["accuracy", "acc"]))
    assert once.rows == twice.rows
    assert row_of(once, "net", None, "accuracy").note == "mean of 3 seeds"


def test_action_shares_rest_on_the_images_of_their_group():
    rows = refusing_rows()
    found = quick(trials(rows, REFUSING), measure=["action_share"])
    to_refuse = sum(r["truth"] == "abstain" for r in rows if r["observer"] == "model:0")
    sizes = {row.in_group("action"): row.n for row in found.rows if row.observer == "model:0"}
    assert sizes["abstain_other"] == sizes["abstain_abstained"] == to_refuse
    assert sizes["act_correct"] == 24 - to_refuse


def test_clusters_are_stimuli_however_often_they_were_shown():
    rows = answered(observers(people=5, models=1), conditions={"one": ("x",)}, stimuli=9, missing=0)
    twice = [{**r, "trial": t} for t in (1, 2) for r in rows if r["kind"] == "human"]
    once = [{**r, "trial": 1} for r in rows if r["kind"] == "model"]
    measures = ["accuracy", "hellinger", "fleiss_kappa", "krippendorff_alpha"]
    found = quick(trials([*twice, *once]), measure=measures, role=["test", "repeat"])
    assert {row.clusters for row in found.rows} == {9}
    pairs = cosight.compare(trials([*twice, *once]), measure=["ec"], role=["test", "repeat"], resamples=10)
    assert {row.clusters for row in pairs.rows} == {9}

from __future__ import annotations

import json

import polars as pl
import pytest

from cosight.trials import LabelSpace, make, read, summarise
from cosight.trials.table import SCHEMA

PETS = LabelSpace("pets", ("cat", "dog"))


def trials(*rows, space=PETS):
    schema = {name: kind for name, kind in SCHEMA.items() if any(name in row for row in rows)}
    return make(pl.DataFrame(rows, schema=schema), space=space)


def trial(observer="human:1", response="cat", **more):
    plain = {"observer": observer, "kind": observer.split(":")[0], "experiment": "e", "image": "1.png"}
    return {**plain, "truth": "cat", "response": response, **more}


ROWS = [
    trial(condition="c10", rt=0.5, session="1"),
    trial(response=None, condition="c5", rt=1.5, session="2"),
    trial(response="dog", condition="c5", image="2.png", truth="dog", session="2"),
    trial("model:m", "dog", condition="c5"),
]


def test_counts_by_observer():
    found = summarise(trials(*ROWS))
    assert found.headline == "4 trials, 2 observers, 1 experiments; label space pets"
    person, model = found.observers.to_dicts()
    assert person == {
        "kind": "human", "observer": "human:1", "experiments": 1, "sessions": 2, "trials": 3, "stimuli": 3,
        "missing": 1, "accuracy": pytest.approx(2 / 3), "median rt": 1.0,
    }  # fmt: skip
    assert (model["observer"], model["accuracy"], model["missing"], model["median rt"]) == ("model:m", 0.0, 0, None)


def test_counts_by_condition_in_natural_order():
    found = summarise(trials(*ROWS)).conditions
    assert found["condition"].to_list() == ["c5", "c10"]
    assert found["observers"].to_list() == [2, 1]
    assert found["trials"].to_list() == [3, 1]
    assert found["stimuli"].to_list() == [2, 1]


def test_people_stand_first():
    found = summarise(trials(trial("model:a"), trial("simulated:b"), trial("human:10"), trial("human:9")))
    assert found.observers["observer"].to_list() == ["human:9", "human:10", "simulated:b", "model:a"]


def test_stimuli_known_by_digest_alone_are_counted():
    found = summarise(trials(*(trial(image=None, stimulus=d) for d in ("d1", "d2"))))
    assert found.observers["stimuli"].to_list() == [2]


def test_what_looks_wrong_is_told():
    twice = trial(session="1", trial=1)
    notices = summarise(trials(twice, twice, trial("model:m", image="3.png"))).notices
    assert "1 trials stand twice in the files and were counted once" in notices
    assert "2 of 2 stimuli were seen by one observer only" in notices
    assert "1 of 2 classes are the truth of no stimulus (dog...)" in notices


def test_trials_without_truth_or_space():
    found = summarise(trials(trial(truth=None), trial(truth=None, image="2.png"), space=None))
    assert found.headline.endswith("label space not declared")
    assert found.notices == ("no trial has a truth: accuracy is unknown",)
    assert found.observers["accuracy"].to_list() == [None]


def test_it_is_json():
    plain = json.loads(json.dumps(summarise(trials(*ROWS)).to_dict()))
    assert set(plain) == {"headline", "observers", "conditions", "notices"}
    assert plain["observers"][0]["trials"] == 3


def test_the_published_trials(mirror):
    found = summarise(read(mirror / "model-vs-human"))  # 85,120 trials in 17 experiments: Geirhos et al. 2021
    assert found.headline == "85120 trials, 10 observers, 17 experiments; label space model-vs-human-16"
    assert found.observers["trials"].sum() == 85_120
    assert found.conditions.filter(experiment="contrast")["condition"].to_list()[:3] == ["c01", "c03", "c05"]

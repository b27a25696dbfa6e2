from __future__ import annotations

import json

import polars as pl
import pytest

from cosight.trials import LabelSpace, align, make_trials, read, summarise
from cosight.trials.summary import explain_mismatch, overlap_notices, shared_with_models
from cosight.trials.table import SCHEMA

PETS = LabelSpace("pets", ("cat", "dog"))


def trials(*rows, space=PETS):
    schema = {name: kind for name, kind in SCHEMA.items() if any(name in row for row in rows)}
    return make_trials(pl.DataFrame(rows, schema=schema), space=space)


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


def test_levels_of_a_photo_are_stimuli_of_their_own():
    rows = [trial(condition="mosaic", level=level, stimulus=f"d{level}") for level in (1, 2, 3)]
    found = summarise(trials(*rows))
    assert found.conditions["stimuli"].to_list() == found.observers["stimuli"].to_list() == [3]


def test_people_stand_first():
    found = summarise(trials(trial("model:a"), trial("simulated:b"), trial("human:10"), trial("human:9")))
    assert found.observers["observer"].to_list() == ["human:9", "human:10", "simulated:b", "model:a"]


def test_stimuli_known_by_digest_alone_are_counted():
    found = summarise(trials(*(trial(image=None, stimulus=d) for d in ("d1", "d2"))))
    assert found.observers["stimuli"].to_list() == [2]


def test_what_looks_wrong_is_told():
    twice = trial(session="1", trial=1)
    notices = summarise(trials(twice, twice, trial("model:m", image="3.png"))).notices
    assert "1 trials occur twice in the files and were counted once" in notices
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


# ----------------------------------------------------------------- stimuli that people and models have in common


def trials_of(observer, images=4, **facts):
    kind = observer.split(":")[0]
    plain = {"observer": observer, "kind": kind, "experiment": "e", "condition": "0", "truth": "cat", "response": "cat"}
    return [{**plain, "image": f"{number}.png", **facts} for number in range(images)]


def table_of(*observers):
    rows = [row for rows in observers for row in rows]
    schema = {name: SCHEMA[name] for name in rows[0]} | {name: SCHEMA[name] for row in rows for name in row}
    return align(make_trials(pl.DataFrame(rows, schema=schema, infer_schema_length=None), space=PETS))


PEOPLE = [trials_of("human:1"), trials_of("human:2")]


def test_whoever_shares_everything_is_not_named():
    assert overlap_notices(table_of(*PEOPLE, trials_of("model:m"))) == []
    assert overlap_notices(table_of(trials_of("model:m"))) == []
    assert overlap_notices(table_of(trials_of("human:1"))) == []


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"experiment": None}, "its trials have no experiment, the others have e; convert them with --experiment"),
        ({"experiment": "photos"}, "its experiments are photos, the others' e; use one name"),
        ({"condition": "c5"}, "its conditions are c5, the others' 0; use one spelling"),
        ({"image": "x.JPEG", "trial": 1}, "no image has the same name in both (for example 'x.JPEG' and '0.png')"),
    ],
)
def test_an_observer_who_shares_nothing_is_named_with_the_reason(facts, reason):
    table = table_of(*PEOPLE, trials_of("model:m", images=1, **facts))
    assert overlap_notices(table) == [f"model:m: none of its 1 stimuli match people's 4: {reason}"]


def test_images_of_one_name_with_other_pixels():
    people = [trials_of("human:1", stimulus="d"), trials_of("human:2", stimulus="d")]
    people = [[{**row, "stimulus": f"d{i}"} for i, row in enumerate(rows)] for rows in people]
    model = [{**row, "stimulus": f"f{i}"} for i, row in enumerate(trials_of("model:m"))]
    (notice,) = overlap_notices(table_of(*people, model))
    assert notice.startswith("model:m: none of its 4 stimuli match people's 4: 0.png, 1.png, 2.png and 1 more have")
    assert notice.endswith("the same name and other pixels")


def test_an_observer_who_shares_some_is_named_with_counts():
    some = table_of(*PEOPLE, trials_of("model:a", images=2), trials_of("model:b", images=2), trials_of("model:c"))
    assert overlap_notices(some) == ["model:a, model:b: answered 2 of people's 4 stimuli and no others"]
    mixed = [*trials_of("model:m", images=2), *trials_of("model:m", images=3, experiment="other")]
    assert overlap_notices(table_of(*PEOPLE, mixed)) == [
        "model:m: 2 of its 5 stimuli match people's 4: its experiments are other, the others' e; use one name"
    ]


def test_people_who_share_nothing_with_the_others_are_named():
    apart = table_of(*PEOPLE, trials_of("human:3", images=2, experiment="f"))
    assert overlap_notices(apart) == [
        "human:3: no stimuli in common with other people; for example human:3: its experiments are f, the others' e; "
        "use one name"
    ]
    partly = table_of(*PEOPLE, trials_of("human:3", images=2))  # people need not see everything
    assert overlap_notices(partly) == []


def test_many_observers_are_counted():
    models = [trials_of(f"model:m{number}", images=1) for number in range(6)]
    (notice,) = overlap_notices(table_of(*PEOPLE, *models))
    assert notice.startswith("model:m0, model:m1, model:m2 and 3 more observers: answered 1 of people's 4")


def test_stimuli_that_no_model_answered_are_left_out_and_counted():
    table = table_of(*PEOPLE, trials_of("model:a", images=2), trials_of("model:b", images=3, experiment="f"))
    shared = shared_with_models(table)
    assert shared.columns.select("experiment", "image").rows() == [
        ("e", "0.png"), ("e", "1.png"), ("f", "0.png"), ("f", "1.png"), ("f", "2.png"),
    ]  # fmt: skip
    assert shared.answers.response.shape == shared.rows.shape == (4, 5)
    assert shared.notices[-1] == ("people are scored on the 2 stimuli that a model answered too; 2 others are left out")


@pytest.mark.parametrize(
    "observers",
    [PEOPLE, [trials_of("model:m")], [*PEOPLE, trials_of("model:m")], [*PEOPLE, trials_of("model:m", experiment="f")]],
)
def test_nothing_is_left_out_where_there_is_nothing_to_share(observers):
    table = table_of(*observers)
    assert shared_with_models(table) is table


def test_names_that_agree_only_across_conditions():
    columns = ("experiment", "condition", "level", "image", "stimulus")
    mine = pl.DataFrame([("e", "a", 1, "1", "d1"), ("e", "b", 1, "2", "d2")], schema=columns, orient="row")
    theirs = pl.DataFrame([("e", "a", 1, "2", "d3"), ("e", "b", 2, "2", "d4")], schema=columns, orient="row")
    assert explain_mismatch(mine, theirs) == "image names agree only across experiments, conditions or levels"
    assert explain_mismatch(mine, theirs.clear()) == "nobody else answered those"


def test_names_may_hold_anything():
    rows = trials_of("model:{m}", images=1, image="i{x}0.png", condition="{c}", experiment="{e}")
    (notice,) = overlap_notices(table_of(*PEOPLE, rows))
    assert notice.startswith("model:{m}: none of its 1 stimuli match people's 4: its experiments are {e}, the others'")


def test_many_reasons_are_cut_short():
    models = [trials_of(f"model:m{number}", images=1, experiment=f"e{number}") for number in range(9)]
    notices = overlap_notices(table_of(*PEOPLE, *models))
    assert len(notices) == 6
    assert notices[-1] == "4 more observers share only some stimuli with people; tables show n"


def test_a_manifest_without_experiments_is_compared_too():
    mine = table_of(*PEOPLE).columns
    theirs = mine.with_columns(experiment=pl.lit(None, pl.String))
    assert explain_mismatch(mine, theirs) == "its experiments are e, the others' (none); use one name"
    edges = mine.with_columns(experiment=pl.lit("edges"))
    assert explain_mismatch(edges, mine.with_columns(experiment=pl.lit("edge"))).startswith("image names agree")


def test_judges_are_no_models_that_answered_other_stimuli():
    judge = trials_of("judge:j", images=2, kind="judge", experiment="tasks")
    assert not overlap_notices(table_of(trials_of("model:m"), trials_of("model:n"), judge))

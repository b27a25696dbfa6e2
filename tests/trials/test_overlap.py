"""Who shares which stimuli with people, and why not: every reason is named, with counts."""

import polars as pl
import pytest

from cosight.trials import LabelSpace, align, make
from cosight.trials.overlap import mismatch, overlap_notices, shared_with_models
from cosight.trials.table import SCHEMA

PETS = LabelSpace("pets", ("cat", "dog"))


def trials_of(observer, images=4, **facts):
    kind = observer.split(":")[0]
    plain = {"observer": observer, "kind": kind, "experiment": "e", "condition": "0", "truth": "cat", "response": "cat"}
    return [{**plain, "image": f"{number}.png", **facts} for number in range(images)]


def table_of(*observers):
    rows = [row for rows in observers for row in rows]
    schema = {name: SCHEMA[name] for name in rows[0]} | {name: SCHEMA[name] for row in rows for name in row}
    return align(make(pl.DataFrame(rows, schema=schema, infer_schema_length=None), space=PETS))


PEOPLE = [trials_of("human:1"), trials_of("human:2")]


def test_whoever_shares_everything_is_not_named():
    assert overlap_notices(table_of(*PEOPLE, trials_of("model:m"))) == []
    assert overlap_notices(table_of(trials_of("model:m"))) == []
    assert overlap_notices(table_of(trials_of("human:1"))) == []


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"experiment": None}, "its trials have no experiment, the others have e; add an experiment column"),
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
    columns = ("experiment", "condition", "image", "stimulus")
    mine = pl.DataFrame([("e", "a", "1", None), ("e", "b", "2", None)], schema=columns, orient="row")
    theirs = pl.DataFrame([("e", "a", "2", None), ("e", "b", "1", None)], schema=columns, orient="row")
    assert mismatch(mine, theirs) == "image names agree only across experiments or conditions"
    assert mismatch(mine, theirs.clear()) == "nobody else answered those"


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
    assert mismatch(mine, theirs) == "its experiments are e, the others' (none); use one name"
    edges = mine.with_columns(experiment=pl.lit("edges"))
    assert mismatch(edges, mine.with_columns(experiment=pl.lit("edge"))).startswith("image names agree")

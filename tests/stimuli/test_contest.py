"""Controversial stimuli: the objective decreases, one model stays, the other moves; of equal models there are none."""

from __future__ import annotations

import json
from dataclasses import replace

import polars as pl
import pytest

from cosight.errors import InvalidInput
from cosight.stimuli.contest import ContestRecipe, contest_counts
from cosight.stimuli.descent import DescentSettings
from cosight.stimuli.generate import generate_set
from cosight.stimuli.inversion import read_targets
from cosight.stimuli.sets import verify
from cosight.stimuli.tasks import CONTROVERSIAL, make_tasks

from .small_networks import load, write_photos

pytestmark = pytest.mark.usefixtures("one_torch_thread")
ALPHA = 0.5  # the two small networks are too alike for one to move ten times as far


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return write_photos(tmp_path_factory.mktemp("contest") / "photos", 4)


def recipe_of(photos, models, **options):
    descent = DescentSettings(steps=150, step_size=0.3, tolerance=None)
    targets = read_targets([str(photos)], limit=3)
    return ContestRecipe(targets, models, load, **{"starts": 2, "alpha": ALPHA, "descent": descent, **options})


@pytest.fixture(scope="module")
def contested(photos, tmp_path_factory):
    return generate_set(recipe_of(photos, ("a", "b")), tmp_path_factory.mktemp("sets") / "contest")


def facts_of(generated):
    rows = generated.stimuli.frame.filter(pl.col("kind") == CONTROVERSIAL)
    return [json.loads(text) for text in rows["parameters"]]


def test_one_model_stays_and_the_other_moves(contested):
    assert verify(contested.stimuli).intact
    found = facts_of(contested)
    assert {(facts["similar"], facts["distinct"]) for facts in found} == {("a", "b"), ("b", "a")}
    for facts in found:
        assert facts["objective"] < facts["start_objective"]
        assert facts["objective"] < 0
        assert facts["distance_distinct"] > facts["distance_similar"] / ALPHA
        objective = facts["distance_similar"] / ALPHA - facts["distance_distinct"]
        assert objective == pytest.approx(facts["objective"], abs=1e-5)


def test_results_are_counted_by_direction(contested):
    counts = contest_counts(contested)
    assert set(counts) == {("a", "b"), ("b", "a")}
    assert {count.tried for count in counts.values()} == {6}
    assert sum(count.found for count in counts.values()) == len(facts_of(contested)) > 6
    assert all(count.distinct > count.similar for count in counts.values())


def test_models_have_their_names_in_a_direction_without_results(contested):
    frame = contested.stimuli.frame
    lost = frame.filter(pl.col("kind") == CONTROVERSIAL, pl.col("parameters").str.json_path_match("$.similar") == "b")
    left = replace(contested.stimuli, frame=frame.join(lost, on="file", how="anti"))
    dropped = dict.fromkeys(lost["file"].str.strip_prefix("images/").to_list(), "not controversial")
    counts = contest_counts(replace(contested, stimuli=left, dropped=dropped))
    assert {models: count.found > 0 for models, count in counts.items()} == {("a", "b"): True, ("b", "a"): False}


def test_of_a_model_and_its_twin_none_is_found(photos, tmp_path):
    made = generate_set(recipe_of(photos, ("a", "twin")), tmp_path / "twins")
    assert set(made.stimuli.frame["kind"]) == {"target"}
    assert set(made.dropped.values()) == {"not controversial"}
    assert {count.found for count in contest_counts(made).values()} == {0}
    with pytest.raises(InvalidInput, match="twins has controversial stimuli of two models in both directions"):
        make_tasks(tmp_path / "twins", "2afc")


def test_a_task_asks_which_result_looks_more_like_the_target(contested):
    tasks = make_tasks(contested.stimuli.root, "2afc", force=True).tasks
    parent = dict(contested.stimuli.frame.select("stimulus", "parent").iter_rows())
    similar = {
        row["stimulus"]: json.loads(row["parameters"])["similar"]
        for row in contested.stimuli.frame.filter(pl.col("kind") == CONTROVERSIAL).iter_rows(named=True)
    }
    assert tasks
    for task in tasks:
        assert task.parameters["contest"] == "a / b"
        assert [similar[option] for option in task.options] == ["a", "b"]
        assert {parent[option] for option in task.options} == set(task.queries)
        assert task.targets == task.options[:1]


def test_the_same_bytes_again(photos, contested, tmp_path):
    again = generate_set(recipe_of(photos, ("a", "b")), tmp_path / "again", workers=1)
    assert again.stimuli.frame.equals(contested.stimuli.frame)


@pytest.mark.parametrize(
    ("models", "options", "words"),
    [
        (("a",), {}, "a contest is between two models or more, got 1"),
        (("a", "b"), {"alpha": 0.0}, "--alpha must be a positive number, got 0.0"),
        (("a", "b"), {"starts": 0}, "--starts must be a whole number, 1 or more, got 0"),
        (("a", "a"), {}, "a model and itself have no controversial stimuli"),
    ],
)
def test_what_cannot_be_a_contest_is_refused(photos, tmp_path, models, options, words):
    with pytest.raises(InvalidInput, match=words):
        generate_set(recipe_of(photos, models, **options), tmp_path / "out")

"""Tasks of a set: written, read, refused, and made from inverted representations."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from cosight.errors import InvalidInput
from cosight.stimuli.sets import read_set
from cosight.stimuli.tasks import (
    TASKS,
    Neighbours,
    Task,
    clustering_tasks,
    make_tasks,
    read_tasks,
    two_alternative_tasks,
    write_tasks,
)
from cosight.trials.manifest import manifest_frame, write_manifest


def inverted(root, targets=10, results=2):
    """A manifest of targets, seeds, and results made from both; tasks need no pixels."""
    rows = [{"stimulus": f"t{i}", "file": f"t{i}.png"} for i in range(targets)]
    for i in range(targets):
        for j in range(results):
            parameters = json.dumps({"seed_stimulus": f"s{i}{j}"})
            rows.append({"stimulus": f"s{i}{j}", "file": f"s{i}{j}.png"})
            rows.append({"stimulus": f"r{i}{j}", "file": f"r{i}{j}.png", "parent": f"t{i}", "parameters": parameters})
    root.mkdir(exist_ok=True)
    write_manifest(root, manifest_frame(rows), {"settings": {}})
    return read_set(root)


def test_every_result_is_a_query_between_its_target_and_its_seed(tmp_path):
    """Nanda et al. 2021, 2.4: 100 targets with two seeds each give 200 queries."""
    tasks = two_alternative_tasks(inverted(tmp_path / "set", targets=100))
    assert len(tasks) == len({task.task for task in tasks}) == 200
    one = next(task for task in tasks if task.queries == ("r71",))
    assert (one.options, one.targets) == (("t7", "s71"), ("t7",))


def test_panels_of_three_targets_with_two_results_each(tmp_path):
    """100 targets make 33 panels and 198 queries; one target is left over."""
    stimuli = inverted(tmp_path / "set", targets=100)
    panels = clustering_tasks(stimuli, seed=3)
    assert (len(panels), sum(len(panel.queries) for panel in panels)) == (33, 198)
    assert len({option for panel in panels for option in panel.options}) == 99
    assert all(f"t{query[1:-1]}" == target for p in panels for query, target in zip(p.queries, p.targets, strict=True))
    assert clustering_tasks(stimuli, seed=3) == panels != clustering_tasks(stimuli, seed=4)
    assert {len(panel.options) for panel in clustering_tasks(stimuli, panels_of=5)} == {5}


def test_what_is_written_is_read(tmp_path):
    stimuli = inverted(tmp_path / "set", targets=3)
    tasks = (*two_alternative_tasks(stimuli), *clustering_tasks(stimuli))
    tasks = (replace(tasks[0], parameters={"model": "résnet", "steps": 5}), *tasks[1:])
    write_tasks(stimuli.root, tasks)
    assert read_tasks(stimuli.root) == tasks
    write_tasks(stimuli.root, ())
    assert read_tasks(stimuli.root) == ()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "3afc"}, "2afc or cluster"),
        ({"queries": ("a", "b")}, "one query and two options"),
        ({"options": ("t0", "t1", "t2")}, "one query and two options"),
        ({"options": ("t0", "t0")}, "different options"),
        ({"targets": ("r00",)}, "one of the options"),
        ({"targets": ()}, "one of the options"),
        ({"kind": "cluster", "queries": (), "targets": ()}, "queries"),
    ],
)
def test_what_is_no_task_is_refused(change, words):
    with pytest.raises(InvalidInput, match=words):
        replace(Task("x", "2afc", ("r00",), ("t0", "s00"), ("t0",)), **change)


def test_tasks_about_other_stimuli_or_twice_are_refused(tmp_path):
    stimuli = inverted(tmp_path / "set", targets=3)
    tasks = two_alternative_tasks(stimuli)
    with pytest.raises(InvalidInput, match="different names"):
        write_tasks(stimuli.root, [tasks[0], tasks[0]])
    with pytest.raises(InvalidInput, match="names strange"):
        write_tasks(stimuli.root, [replace(tasks[0], queries=("strange",))])
    assert not (stimuli.root / TASKS).exists()


def test_sets_without_tasks_say_so(tmp_path):
    stimuli = inverted(tmp_path / "set", targets=2)
    with pytest.raises(InvalidInput, match=r"has no tasks.parquet; make it with `cosight stimuli tasks"):
        read_tasks(stimuli.root)
    with pytest.raises(InvalidInput, match=r"needs 3 targets, .* has 2 \(stimuli that others name as `parent`\)"):
        clustering_tasks(stimuli)
    with pytest.raises(InvalidInput, match="two targets or more"):
        clustering_tasks(stimuli, panels_of=1)
    bare = replace(stimuli, frame=stimuli.frame.with_columns(parent=pl.lit(None, dtype=pl.String)))
    words = (
        r"has none: 0 of 10 have their target \(`parent`\) in it, 4 their seed .*--from FILE with .* query,target,seed"
    )
    with pytest.raises(InvalidInput, match=words):
        two_alternative_tasks(bare)
    (stimuli.root / TASKS).write_bytes(b"no parquet")
    with pytest.raises(InvalidInput, match="write it again"):
        read_tasks(stimuli.root)


# ---- sets of inversions


def inverted_set(root, models=("a", "b"), targets=6):
    """A set like those of `stimuli invert`: targets, noise seeds and one inversion per target, model and seed."""
    rows = [{"stimulus": f"t{n}", "file": f"t{n}.png", "kind": "target"} for n in range(targets)]
    for model in models:
        for number in range(targets):
            for start in ("noise", "image"):
                facts = {
                    "model": model,
                    "start": start,
                    "distance": 0.01 * number,
                    "seed_stimulus": f"s{number}{start}",
                }
                stimulus = f"{model}{number}{start}"
                row = {"stimulus": stimulus, "file": f"{stimulus}.png", "parent": f"t{number}", "kind": "inversion"}
                rows.append({**row, "parameters": json.dumps(facts)})
    rows += [{"stimulus": f"s{n}{s}", "file": f"s{n}{s}.png"} for n in range(targets) for s in ("noise", "image")]
    root.mkdir()
    write_manifest(root, manifest_frame(rows), {})
    return root


def test_every_task_says_what_its_query_was_made_with(tmp_path):
    root = inverted_set(tmp_path / "set")
    make_tasks(root, "2afc")
    make_tasks(root, "cluster")
    tasks = read_tasks(root)
    assert [task.kind for task in tasks].count("2afc") == 24
    first = next(task for task in tasks if task.queries == ("b3image",))
    assert first.parameters == {"model": "b", "start": "image", "distance": 0.03}
    panels = [task for task in tasks if task.kind == "cluster"]
    assert len(panels) == 4  # two of three targets for each model
    for panel in panels:
        assert panel.parameters["panels"] == "random"
        assert len(panel.parameters["start"]) == len(panel.queries) == 6
        assert {query[0] for query in panel.queries} == set(panel.parameters["model"])
    assert {panel.options for panel in panels[:2]} == {panel.options for panel in panels[2:]}  # the same for both


def test_hard_panels_are_near_neighbours_and_are_kept_beside_random_ones(tmp_path):
    root = inverted_set(tmp_path / "set")
    place = {"t0": 0, "t1": 10, "t2": 0.1, "t3": 10.1, "t4": 0.2, "t5": 10.2}
    near = Neighbours(
        "place", lambda targets: np.abs(np.subtract.outer([place[t] for t in targets], [place[t] for t in targets]))
    )
    make_tasks(root, "cluster")
    made = make_tasks(root, "cluster", near=near)
    assert {frozenset(task.options) for task in made.tasks} == {
        frozenset(("t0", "t2", "t4")),
        frozenset(("t1", "t3", "t5")),
    }
    assert {task.parameters["panels"] for task in read_tasks(root)} == {"random", "near place"}
    with pytest.raises(InvalidInput, match="4 cluster tasks already"):
        make_tasks(root, "cluster", near=near)
    assert len(make_tasks(root, "cluster", near=near, force=True).tasks) == 4
    assert len(read_tasks(root)) == 8
    with pytest.raises(InvalidInput, match="near neighbours are for cluster tasks"):
        make_tasks(root, "2afc", near=near)


def test_two_models_of_one_name_are_refused(tmp_path):
    """Answers are grouped by the model's name: the second may have been added to the set by a later command."""
    rows = [{"stimulus": name, "file": f"{name}.png"} for name in ("t", "s")]
    for weights in ("one", "two"):
        facts = {"seed_stimulus": "s", "model": "resnet20", "weights": weights}
        row = {"stimulus": weights, "file": f"{weights}.png", "parent": "t", "parameters": json.dumps(facts)}
        rows.append(row)
    (tmp_path / "set").mkdir()
    write_manifest(tmp_path / "set", manifest_frame(rows), {"settings": {}})
    with pytest.raises(InvalidInput, match="has two called resnet20; make the set again with name=NAME for one"):
        make_tasks(tmp_path / "set", "2afc")
    assert not (tmp_path / "set" / TASKS).exists()

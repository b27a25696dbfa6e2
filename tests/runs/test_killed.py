"""A run may be killed at any moment, inside a write too: what is finished in the end is the same to the last byte."""

from __future__ import annotations

import json
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from cosight.runs.evaluate import evaluate
from cosight.trials import read

from .conftest import SUPERCLASSES, TINY, drafts, draw_images, kept

_KILLED = -signal.SIGKILL


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """100 images: two shards."""
    return draw_images(tmp_path_factory.mktemp("killed") / "few", 100, shape=(32, 32), seed=3)


@pytest.fixture(scope="module")
def uninterrupted(sabotaged, few, tmp_path_factory):
    """A run without mishap: its files, and the order in which they were written."""
    run = tmp_path_factory.mktemp("uninterrupted") / "run"
    done = sabotaged(None, None, "evaluate", TINY, "--on", few, "--features", "--out", run)
    assert done["ended"] == 0
    written = [Path(path) for path in done["written"]]  # a user's first run also writes a key elsewhere
    return kept(run), [path.relative_to(run).as_posix() for path in written if path.is_relative_to(run)]


_WRITES = 12  # of a run with two shards and features; the test below holds it


def test_the_writes_of_a_run_are_known_so_that_each_can_be_killed(uninterrupted):
    files, written = uninterrupted
    told = [name.split("/")[0] for name in written]
    assert sorted(told[:2]) == ["run.json", "stimuli.parquet"]
    assert told[2:8] == ["run.json", "features", "trials", "features", "trials", "features"]
    assert sorted(told[8:]) == ["run.json", "run.json", "stimuli.parquet", "trials"]
    assert len(written) == _WRITES
    assert len(files) == 5  # two tables, observers, features, the manifest: no shard's features are left


@pytest.mark.usefixtures("in_workshop")
@pytest.mark.parametrize(
    ("moment", "count"),
    [
        # each moment once; `make test-all` has every write
        ("half", 5),
        *(pytest.param("half", count, marks=pytest.mark.slow) for count in (1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12)),
        ("flushed", 4),
        *(pytest.param("flushed", count, marks=pytest.mark.slow) for count in (1, 5, 8)),
        ("replaced", 8),
        *(pytest.param("replaced", count, marks=pytest.mark.slow) for count in (1, 4, 12)),
        ("removing", 1),
    ],
)
def test_killed_inside_a_write_it_ends_in_the_same_bytes(sabotaged, uninterrupted, few, tmp_path, moment, count):
    run = tmp_path / "run"
    ended = sabotaged(moment, count, "evaluate", TINY, "--on", few, "--features", "--out", run)
    assert ended["ended"] == _KILLED
    assert bool(drafts(run)) == (moment in ("half", "flushed"))
    assert all(files == uninterrupted[0][name] for name, files in _whole(run).items())
    evaluate(TINY, on=few, out=run, features=True)
    assert kept(run) == uninterrupted[0]
    assert not drafts(run)
    assert json.loads((run / "run.json").read_text())["state"] == "finished"


def _whole(run):
    """Tables and joined features that a killed process left under their own names."""
    if not run.is_dir():
        return {}
    found = [*run.glob("trials/*.parquet"), *run.glob("features/*.safetensors")]
    return {path.relative_to(run).as_posix(): path.read_bytes() for path in found if path.name[0] != "."}


@pytest.mark.slow
@pytest.mark.usefixtures("in_workshop")
def test_killed_again_and_again_in_one_folder(sabotaged, uninterrupted, few, tmp_path):
    run = tmp_path / "run"
    for moment, count in [("flushed", 2), ("half", 3), ("replaced", 3), ("half", 3), ("flushed", 4), ("half", 5)]:
        ended = sabotaged(moment, count, "evaluate", TINY, "--on", few, "--features", "--out", run)["ended"]
        assert ended == _KILLED
    evaluate(TINY, on=few, out=run, features=True)
    assert kept(run) == uninterrupted[0]
    assert len(json.loads((run / "run.json").read_text())["sessions"]) >= 5


@pytest.mark.slow
@pytest.mark.parametrize("times", [6, 10])
def test_killed_at_random_moments(sabotaged, tmp_path_factory, tmp_path, times):
    many = draw_images(tmp_path_factory.mktemp("many") / "many", 640, shape=(32, 32), seed=5)
    arguments = ["evaluate", TINY, "--on", many, "--features", "--batch", "16", "--out"]
    whole, run = tmp_path / "whole", tmp_path / "run"
    slowly = {"TINY_SECONDS": "0.06"}  # a batch: some 0.25 s a shard, of which there are ten
    assert sabotaged(None, None, *arguments, whole)["ended"] == 0
    begun = time.monotonic()
    assert sabotaged("replaced", 5, *arguments, tmp_path / "first", environment=slowly)["ended"] == _KILLED
    first = time.monotonic() - begun  # how long it takes here until a shard is written
    rng = np.random.default_rng(11)
    left = []
    for seconds in first * rng.uniform(0.6, 1.3, size=times):
        ended = sabotaged(None, None, *arguments, run, seconds=seconds, environment=slowly)["ended"]
        assert ended == _KILLED
        left.append(len(list(run.glob("trials/[!.]*.parquet"))))
    assert left == sorted(left)
    assert left[-1] > 0
    assert sabotaged(None, None, *arguments, run)["ended"] == 0
    assert kept(run) == kept(whole)
    assert not drafts(run)


def _wait_for(true, seconds=60):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)


@pytest.mark.usefixtures("in_workshop")
@pytest.mark.slow
def test_ctrl_c_while_others_read_then_the_call_in_python_goes_on(command, few, uninterrupted, tmp_path):
    run = tmp_path / "run"
    process = command.start("evaluate", TINY, "--on", few, "--features", "--out", run, TINY_SECONDS="0.4")
    _wait_for(lambda: list(run.glob("trials/[!.]*.parquet")))
    partial = read(run)  # while it is going
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert len(partial) == 64
    assert not drafts(run)
    record = json.loads((run / "run.json").read_text())
    assert (record["state"], record["sessions"][0]["outcome"]) == ("stopped", "interrupted")
    done = evaluate(TINY, on=few, out=run, features=True)
    assert done.new == 36
    assert kept(run) == uninterrupted[0]
    same = pl.concat([read(run).frame.head(64), partial.frame])
    assert same.n_unique() == 64


@pytest.mark.usefixtures("in_workshop")
def test_a_run_without_answers_can_be_read_and_says_so(sabotaged, few, tmp_path):
    run = tmp_path / "run"
    sabotaged("half", 3, "evaluate", TINY, "--on", few, "--features", "--out", run)
    with pytest.raises(ValueError, match="no trial files here"):
        read(run)


@pytest.mark.usefixtures("in_workshop")
def test_a_model_that_comes_later_leaves_what_is_there(uninterrupted, few, tmp_path):
    run = tmp_path / "run"
    evaluate(TINY, on=few, out=run, features=True)
    before = kept(run)
    evaluate("python:tiny:other,size=16,mean=0,std=1", on=few, out=run, features=True)
    after = kept(run)
    observers = "trials/observers.parquet"
    assert {name: after[name] for name in before if name != observers} == {
        name: data for name, data in before.items() if name != observers
    }
    assert read(run).observers["observer"].to_list() == sorted(
        ["python:tiny:model,mean=0,size=16,std=1", "python:tiny:other,mean=0,size=16,std=1"]
    )


@pytest.mark.usefixtures("in_workshop")
def test_what_is_lost_is_made_again_and_what_is_there_is_not(uninterrupted, few, tmp_path):
    run = tmp_path / "run"
    evaluate(TINY, on=few, out=run, features=True)
    assert evaluate(TINY, on=few, out=run, features=True).new == 0
    next(run.glob("trials/*.00001.parquet")).unlink()
    assert evaluate(TINY, on=few, out=run, features=True).new == 36
    assert kept(run) == uninterrupted[0]
    shutil.rmtree(run / "features")
    assert evaluate(TINY, on=few, out=run, features=True).new == 100
    assert kept(run) == uninterrupted[0]


@pytest.mark.slow
@pytest.mark.usefixtures("one_torch_thread")
def test_a_torch_model_killed_and_resumed_by_another_process(mirror, few, sabotaged, tmp_path):
    line = f"cosight:resnet20,checkpoint={mirror}/weights/cifar10/standard-resnet20.safetensors"
    evaluate(line, on=few, out=tmp_path / "whole", features=True, threads=1)
    arguments = ["evaluate", line, "--on", few, "--features", "--threads", "1", "--out", tmp_path / "run"]
    assert sabotaged("half", 6, *arguments)["ended"] == _KILLED
    assert evaluate(line, on=few, out=tmp_path / "run", features=True, threads=1).new == 36
    assert kept(tmp_path / "run") == kept(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.usefixtures("in_workshop")
def test_killed_while_the_tiles_of_a_benchmark_are_made(sabotaged, tmp_path):
    photos = draw_images(tmp_path / "photos", 16, shape=(64, 80), seed=2, classes=SUPERCLASSES)
    line, given = TINY.replace("model", "thousand"), {"on": "laion-c", "source": photos, "limit": 3}
    evaluate(line, **given, out=tmp_path / "whole")
    run, seen = tmp_path / "run", []
    for count in (1, 2, 3):  # of the files: the note of what the tiles are made of, the tiles, the record
        more = ["--on", "laion-c", "--source", photos, "--limit", 3, "--out", run]
        ended = sabotaged("replaced", count, "evaluate", line, *more)
        assert ended["ended"] == _KILLED, ended["told"]
        seen += [Path(path).name for path in ended["written"]]
    assert "resources.json" in seen
    evaluate(line, **given, out=run)
    assert kept(run) == kept(tmp_path / "whole")

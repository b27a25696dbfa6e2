"""A run folder that came from somebody else: its models are executed only where the user says so."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest

import cosight as package
from cosight.errors import InvalidInput
from cosight.runs.evaluate import evaluate, resume
from cosight.runs.run_record import _git_state, read_record

from .conftest import OTHER, TINY, kept

pytestmark = pytest.mark.usefixtures("in_workshop")


@pytest.fixture(scope="module")
def stopped_once(drawn_few_images, workshop, tmp_path_factory):
    """A run that was interrupted after its first shard."""
    run = tmp_path_factory.mktemp("stopped") / "run"

    def stop(*_):
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(workshop)
        patch.syspath_prepend(str(workshop))
        with pytest.raises(KeyboardInterrupt):
            evaluate(TINY, on=drawn_few_images, out=run, progress=stop)
    return run


@pytest.fixture
def stopped(stopped_once, tmp_path):
    return shutil.copytree(stopped_once, tmp_path / "run")


@pytest.fixture
def elsewhere(monkeypatch, tmp_path):
    """This user has another home than the one who started the run."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def edit(run, **changes):
    path = run / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_the_user_who_started_a_run_resumes_it_wherever_it_was_moved(stopped):
    assert resume(stopped).new == 36


def test_a_run_from_elsewhere_is_not_resumed(cosight, stopped, elsewhere):
    before = {path: path.read_bytes() for path in stopped.rglob("*") if path.is_file()}
    ended = cosight("run", "resume", stopped)
    assert ended.code == 2
    assert len(ended.err.splitlines()) == 1
    assert "python:tiny:model" in ended.err
    assert "--trust" in ended.err
    assert {path: path.read_bytes() for path in stopped.rglob("*") if path.is_file()} == before
    assert cosight("run", "status", stopped).code == 0  # reading executes nothing


def test_trust_is_given_once(cosight, stopped, elsewhere, tmp_path, drawn_few_images):
    assert cosight("run", "resume", stopped, "--trust").code == 0
    assert resume(stopped).new == 0
    whole = evaluate(TINY, on=drawn_few_images, out=tmp_path / "whole").folder
    assert kept(stopped) == kept(whole)


def test_trust_in_python(stopped, elsewhere):
    with pytest.raises(InvalidInput, match="--trust"):
        package.resume(stopped)
    assert package.resume(stopped, trust=True).new == 36


@pytest.mark.parametrize("change", [{"models": [OTHER]}, {"arguments": {"passed": {}, "defaulted": {}, "folder": "/"}}])
def test_an_edited_record_is_not_resumed(stopped, change):
    edit(stopped, **change)
    with pytest.raises(InvalidInput, match="edited"):
        resume(stopped)


@pytest.mark.parametrize("signature", [None, "", "0" * 64, 5, "é", [], "\ud800"])
def test_no_signature_that_can_be_guessed(stopped, signature):
    edit(stopped, signature=signature)
    with pytest.raises(InvalidInput):
        resume(stopped)


def test_models_of_somebody_else_are_not_adopted(stopped, elsewhere, drawn_few_images):
    """Naming one's own model in a run from elsewhere does not sign for the models that were in it."""
    evaluate(OTHER, on=drawn_few_images, out=stopped)
    assert read_record(stopped).models == [TINY, OTHER]
    with pytest.raises(InvalidInput, match="--trust"):
        resume(stopped)
    evaluate(TINY, OTHER, on=drawn_few_images, out=stopped)  # now this user has named both
    assert resume(stopped).new == 0


def test_without_a_home_a_run_is_evaluated_but_not_resumed_untold(monkeypatch, drawn_few_images, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    run = evaluate(TINY, on=drawn_few_images, out=tmp_path / "run").folder
    with pytest.raises(InvalidInput, match="--trust"):
        resume(run)
    assert resume(run, trust=True).new == 0


def test_the_key_is_readable_by_its_owner_alone(monkeypatch, drawn_few_images, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    evaluate(TINY, on=drawn_few_images, out=tmp_path / "run")
    (key,) = (path for path in (tmp_path / "state").rglob("*") if path.is_file())
    assert key.stat().st_mode & 0o777 == 0o600
    assert key.read_bytes().hex() not in (tmp_path / "run/run.json").read_text()


@pytest.mark.parametrize(
    ("passed", "part"),
    [({"batch": "many"}, "batch 'many'"), ({"bath": 3}, "bath 3"), ({"seed": 0.5}, "seed 0.5"), ({"abstain": [1]}, "")],
)
def test_arguments_that_evaluate_does_not_take(cosight, stopped, passed, part):
    arguments = json.loads((stopped / "run.json").read_text())["arguments"]
    edit(stopped, arguments={**arguments, "passed": {**arguments["passed"], **passed}})
    ended = cosight("run", "resume", stopped, "--trust")
    assert (ended.code, len(ended.err.splitlines())) == (2, 1), ended
    assert part in ended.err


@pytest.mark.parametrize(
    "change",
    [
        {"plan": []},
        {"plan": {"stimuli": {"count": "many"}, "labels": {"name": "x"}}},
        {"plan": {"stimuli": {"count": True}, "labels": {"name": "x"}}},
        {"sessions": [{}]},
        {"sessions": [{"images": 1, "seconds": float("nan")}]},
        {"sessions": [{"images": 10**400, "seconds": 1.0}]},
        {"observers": [{"observer": 5}]},
        {"observers": [None]},
        {"models": [1]},
        {"state": "unknown"},
        {"arguments": {}},
        {"schema": None},
    ],
)
def test_a_record_edited_by_hand_breaks_neither_the_list_nor_the_reader(cosight, stopped, tmp_path, change):
    whole = shutil.copytree(stopped, tmp_path / "whole")
    edit(stopped, **change)
    ended = cosight("run", "list", tmp_path, "--json")
    assert ended.code == 0
    assert [run["folder"] for run in json.loads(ended.out)] == [str(whole)]
    assert len(ended.err.splitlines()) == 1
    assert "not the record of a run" in ended.err
    for command in (("run", "status"), ("run", "resume", "--trust")):
        ended = cosight(*command, stopped)
        assert (ended.code, len(ended.err.splitlines())) == (2, 1), ended
    for command in ("score", ("trials", "show")):
        ended = cosight(*([command] if isinstance(command, str) else command), stopped)
        assert ended.code in (0, 2)
        assert "Traceback" not in ended.err


# --- the git checkout in which a run is started


@pytest.fixture
def hostile_checkout(tmp_path, monkeypatch):
    """A repository whose own settings name programs, each of which leaves a mark."""
    folder, marks = tmp_path / "checkout", tmp_path / "marks"
    marks.mkdir()
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    programs = {}
    for name in ("fsmonitor", "clean", "process", "post-index-change", "sub"):
        programs[name] = tmp_path / "hooks" / name
        programs[name].parent.mkdir(exist_ok=True)
        programs[name].write_text(f"#!/bin/sh\ntouch '{marks}/{name}'\ncat\n")
        programs[name].chmod(0o755)

    def git(*arguments, cwd=folder):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        return subprocess.run(
            ["git", *identity, *arguments], cwd=cwd, check=True, capture_output=True, text=True
        ).stdout

    folder.mkdir()
    git("init", "-q")
    for name in ("a.txt", "b.txt"):
        (folder / name).write_text(name)
    (folder / ".gitattributes").write_text("a.txt filter=one\nb.txt filter=two\n")
    git("add", ".")
    git("commit", "-qm", "first")
    git("config", "core.fsmonitor", str(programs["fsmonitor"]))
    git("config", "core.hooksPath", str(programs["fsmonitor"].parent))
    git("config", "filter.one.clean", str(programs["clean"]))
    git("config", "filter.one.required", "true")
    git("config", "filter.two.process", str(programs["process"]))
    for mark in marks.iterdir():
        mark.unlink()
    monkeypatch.chdir(folder)
    return folder, marks, git("-c", "core.fsmonitor=false", "rev-parse", "HEAD").strip()


def test_no_program_of_a_checkout_is_run(hostile_checkout):
    folder, marks, commit = hostile_checkout
    assert _git_state() == {"commit": commit, "changed": False}
    for name in ("a.txt", "b.txt"):
        os.utime(folder / name, (1, 1))  # git must look at the content
    assert _git_state() == {"commit": commit, "changed": False}
    (folder / "a.txt").write_text("changed")
    assert _git_state() == {"commit": commit, "changed": True}
    assert list(marks.iterdir()) == []


def test_outside_git_nothing_is_recorded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert _git_state() is None

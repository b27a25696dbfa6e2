"""A vision-language model as a judge of 2AFC and clustering tasks: the real client against a local server."""

from __future__ import annotations

import json

import numpy as np
import pytest

import cosight
from cosight.models.judges.answer_tasks import judge
from cosight.models.vlm.journal import BudgetReached
from cosight.models.vlm.prompts import shuffled
from cosight.stimuli.images import encode
from cosight.stimuli.sets import read_set
from cosight.stimuli.tasks import make_tasks, read_tasks
from cosight.trials import read
from tests.vlm_server import Answer, serving

TOY = "vlm:toy,concurrency=2,backoff=0.01"


@pytest.fixture
def pictures(tmp_path):
    """Six targets with a query each; 2AFC tasks and two panels of three."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "pictures"
    folder.mkdir()
    rows = []
    for number in range(6):
        for name in ("target", "query", "seed"):
            pixels = rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)
            (folder / f"{name}{number}.png").write_bytes(encode(pixels, "png"))
        rows.append(f"query{number}.png,target{number}.png,seed{number}.png")
    table = tmp_path / "tasks.csv"
    table.write_text("query,target,seed\n" + "\n".join(rows) + "\n")
    make_tasks(folder, "2afc", table=table)
    make_tasks(folder, "cluster", table=table)
    return folder


@pytest.fixture
def target_of(pictures):
    return {
        query: target for task in read_tasks(pictures) for query, target in zip(task.queries, task.targets, strict=True)
    }


@pytest.fixture
def right(target_of):
    def reply(asked, _=None):
        query, *options = asked.stimuli
        return json.dumps({"answer": "ABC"[options.index(target_of[query])]})

    return reply


def test_tasks_are_answered_with_several_images_in_one_request(pictures, right, target_of, monkeypatch):
    with serving(right, monkeypatch) as server:
        done = judge(pictures, judge=TOY, progress=False)
    assert (done.new, done.ties, len(server.asked)) == (12, 0, 12)
    assert sorted(len(asked.stimuli) for asked in server.asked) == [3] * 6 + [4] * 6
    for asked in server.asked:
        texts = [part.get("text") for part in asked.body["messages"][1]["content"]]
        assert texts[1] == "Reference:"
        assert texts[3::2] == [f"Option {letter}:" for letter in asked.options]
    frame = done.trials.frame
    assert (frame["response"] == frame["truth"]).all()
    orders = {(asked.stimuli[0], len(asked.stimuli)): asked.stimuli[1:] for asked in server.asked}
    for row in frame.iter_rows(named=True):
        extra = json.loads(row["extra"])
        options = extra["options"]
        assert orders[extra["query"], len(options) + 1] == shuffled(options, extra["order_seed"])
        assert extra["outcome"] == "answered"
    first = [asked.stimuli[1] == target_of[asked.stimuli[0]] for asked in server.asked]
    assert 0 < sum(first) < 12  # the target is not always in the same place
    rows = cosight.score(pictures / "trials", measure=["accuracy", "refusal_rate"], resamples=10).rows
    assert {row.measure: row.value for row in rows} == {"accuracy": 1.0, "refusal_rate": 0.0}


def test_names_are_those_of_a_study(pictures, right, monkeypatch):
    """So answers of people and judges join: the task of a 2AFC, panel and query of a panel."""
    with serving(right, monkeypatch):
        judge(pictures, judge=TOY, progress=False)
    names = set(read(pictures / "trials").frame["stimulus"])
    expected = {
        name
        for task in read_tasks(pictures)
        for name in ([task.task] if task.kind == "2afc" else [f"{task.task}/{query}" for query in task.queries])
    }
    assert names == expected


def test_refusals_and_nonsense_are_no_answer(pictures, right, monkeypatch):
    def reply(asked, number):
        return {1: "I'm sorry, I can't compare them.", 2: "A or B"}.get(number) or right(asked)

    with serving(reply, monkeypatch):
        done = judge(pictures, judge="vlm:toy,concurrency=1", progress=False)
    assert done.ties == 2
    outcomes = [json.loads(extra)["outcome"] for extra in done.trials.frame["extra"]]
    assert sorted(outcomes) == ["answered"] * 10 + ["refused", "unparsed"]


def test_a_budget_or_a_lost_endpoint_does_not_lose_answers(pictures, right, monkeypatch):
    with serving(right, monkeypatch) as server:
        with pytest.raises(BudgetReached):
            judge(pictures, judge=TOY, budget="requests=5", progress=False)
        assert len(server.asked) == 5
        assert judge(pictures, judge=TOY, progress=False).new == 12
        assert len(server.asked) == 12
        assert judge(pictures, judge=TOY, progress=False).new == 0
        assert judge(pictures, judge=TOY, force=True, progress=False).new == 12
        assert len(server.asked) == 24


def test_the_command_reports_refusals_and_cost(pictures, right, monkeypatch, cosight):
    def reply(asked, number):
        return Answer("I cannot.") if number == 1 else right(asked)

    with serving(reply, monkeypatch):
        ended = cosight("judge", pictures, "--judge", "vlm:toy,concurrency=1,price=2/10", "--budget", "cost=1")
        assert ended.code == 0, ended.err
        lines = ended.out.splitlines()
        header = next(index for index, line in enumerate(lines) if "refused" in line)
        columns = ["observer", "answers", "abstained", "refused", "unparsed", "requests"]
        assert lines[header].split()[:6] == columns
        assert lines[header + 1].split() == ["vlm:toy", "12", "0", "1", "0", "12", "3,600", "60", "0.0078"]
        assert "12 new of 12 answers, 1 without an answer (ties, refusals)" in lines[-1]
        ended = cosight("judge", pictures, "--judge", "vlm:toy", "--budget", "cost=1", "--force")
        assert "vlm:toy has none; add price=INPUT/OUTPUT" in ended.err


def test_bad_input_is_one_line(pictures, monkeypatch, cosight):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    for options, message in (
        (["--judge", "vlm:toy"], "OPENAI_API_KEY is not set"),
        (["--judge", "vlm:toy,reason=perhaps"], "reason must be no or yes"),
        (["--judge", "vlm:toy", "--budget", "5"], "--budget must be limits like"),
    ):
        ended = cosight("judge", pictures, *options)
        assert (ended.code, len(ended.err.splitlines())) == (2, 1), ended.err
        assert message in ended.err
    with serving(lambda *_: Answer(status=400, error="at most one image"), monkeypatch):
        ended = cosight("judge", pictures, "--judge", "vlm:toy")
    assert ended.code == 2
    assert "vlm:toy does not accept the image: at most one image" in ended.err
    assert not (pictures / "trials").exists()
    assert len(read_set(pictures)) == 18

"""`cosight demo --me`: somebody names digits in the page, and is told how far each network is from them."""

import json
from pathlib import Path
from threading import Thread

import numpy as np
import polars as pl
import pytest

from cosight.benchmarks.digits.digits_builder import build_digits
from cosight.benchmarks.visalign.categories import Counts
from cosight.demos import me as module
from cosight.demos.me import AGREEMENT, _best_lines, me
from cosight.errors import InvalidInput
from cosight.humans.simulated.respondents import SimulatedObserver, panel_observer, read_pictures
from cosight.humans.simulated.simulate import simulate
from cosight.humans.study.design import read_study
from cosight.humans.web.server import static_files
from cosight.scoring.score import score
from cosight.statistics.rows import Row, Scores
from cosight.stimuli.sets import read_set
from cosight.trials import label_spaces, make_trials, read, write
from tests.reports.site_data import shard

SPACE = label_spaces["digits-11"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What a finished demo leaves: a set, a run an architecture, the benchmark's table."""
    try:
        static_files()
    except InvalidInput as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("demo")
    counts = Counts({**dict.fromkeys(range(1, 8), 2), 8: 30}, train=100, distractors=0)
    stimuli = build_digits(folder / "digits", counts=counts, seed=1).generated.stimuli
    tested = stimuli.frame.filter(pl.col("split") == "test")
    rng = np.random.default_rng(0)
    for model in ("near", "far"):
        names = [f"cosight:{model}@{seed}#{f}" for f in ("sp", "knn") for seed in (45, 46)]
        rows = [answer(name, row, rng) for name in names for row in tested.iter_rows(named=True)]
        write(make_trials(pl.DataFrame(rows), space=SPACE), folder / "runs" / model / "trials.parquet")
    distances = {"cosight:near#sp": 0.2, "cosight:near#knn": 0.3, "cosight:far#sp": 0.9, "cosight:far#knn": 0.4}
    distances |= {"ensemble:cosight:near@45+cosight:near@46#sp": 0.1, "cosight:near@45#sp": 0.1}
    average = (("category", "*"),)
    rows = [Row(observer=name, measure="hellinger", group=average, value=v, n=9) for name, v in distances.items()]
    (folder / "benchmark.json").write_text(Scores(tuple(rows), {}).to_json())
    return folder


def answer(name, row, rng):
    """`near` sees the truth, mostly; `far` anything."""
    shares = rng.dirichlet(np.full(10, 0.2))
    if "near" in name:
        shares = 0.05 * shares + 0.95 * np.eye(10)[int(row["truth"]) if row["truth"] != "abstain" else 0]
    abstention = 0.9 if row["truth"] == "abstain" and "near" in name else rng.random() * 0.8
    facts = {"observer": name, "kind": "model", "stimulus": row["stimulus"], "truth": row["truth"]}
    facts |= {"response": SPACE.classes[int(shares.argmax())], "probabilities": shares.tolist()}
    return facts | {"abstention": abstention}


@pytest.fixture
def played(folder, monkeypatch):
    """`played("panel")`: the result when this one opens the browser; None is a real person."""

    def play(name, seed=0):
        threads = []

        def person(address):
            sight = read_pictures(read_study(folder / "me"))
            who = SimulatedObserver(name, panel_observer(sight).person)
            threads.append(
                Thread(target=simulate, args=(sight, address, who), kwargs={"participants": 1, "seed": seed})
            )
            threads[0].start()

        monkeypatch.setattr("webbrowser.open", person)
        steps = []
        result = me(folder, progress=lambda *step: steps.append(step))
        threads[0].join(20)
        return result, steps

    return play


def test_a_person_is_told_who_is_near(played, folder):
    result, steps = played(None)
    trials = read(result.trials)
    assert set(trials.frame["kind"]) == {"human"}
    assert trials.frame.height == 35
    assert {step[1:] for step in steps} == {(35, "digits named")}
    assert [step[0] for step in steps] == sorted(step[0] for step in steps)  # when it looks first is a matter of time
    by_category = read_set(folder / "me" / "digits").frame["category"].value_counts().sort("category")
    assert by_category["count"].to_list() == [2, 2, 2, 1, 1, 1, 1, 25]  # ten of seven in turn, as many as there are
    rows = {(row.observer, row.measure): row for row in result.scores.rows}
    assert [key for key in rows if key[1] == AGREEMENT] == [
        ("cosight:near#sp", AGREEMENT),
        ("cosight:far#knn", AGREEMENT),
    ]
    assert {row.against for row in rows.values()} == {"people"}
    assert rows["cosight:near#sp", AGREEMENT].value > 0.5 > rows["cosight:far#knn", AGREEMENT].value
    check_against_score(rows, trials, folder)
    check_agreement(rows, trials, folder)
    assert result.page == folder / "me" / "report" / "index.html"
    site = shard(result.page.parent, "site")
    assert "is closest to you: its Hellinger distance is 0." in site["parts"][0]["verdict"]
    assert "simulated" not in {one["kind"] for one in site["sets"][0]["observers"]}
    assert site["sets"][0]["stimuli"] == site["sets"][0]["pictures"] == 35
    assert json.loads((folder / "me" / "scores.json").read_text()) == json.loads(result.scores.to_json())


def check_against_score(rows, trials, folder):
    """The distance of a line is the mean of its seeds' in `cosight score --humans`."""
    found = score(read(folder / "runs"), humans=trials, measure=["hellinger"], resamples=1)
    values = {row.observer: row.value for row in found.rows}
    for model, function in (("near", "sp"), ("far", "knn")):
        both = [values[f"cosight:{model}@{seed}#{function}"] for seed in (45, 46)]
        row = rows[f"cosight:{model}#{function}", "hellinger"]
        assert row.value == pytest.approx(np.mean(both), abs=1e-6)  # shares are stored in float32
        assert row.low < row.value < row.high
        assert row.n == 35


def check_agreement(rows, trials, folder):
    said = dict(trials.frame.select("stimulus", "response").iter_rows())
    same = [
        ("abstain" if row["abstention"] > 0.5 else row["response"]) == said[row["stimulus"]]
        for row in read(folder / "runs").frame.iter_rows(named=True)
        if row["observer"] in ("cosight:near@45#sp", "cosight:near@46#sp") and row["stimulus"] in said
    ]
    assert rows["cosight:near#sp", AGREEMENT].value == pytest.approx(np.mean(same))


@pytest.mark.slow
def test_who_comes_next_is_somebody_else(played, folder):
    """They see the same digits, and have a table of their own; a simulated person is called so."""
    before = (folder / "me" / "study.toml").stat().st_mtime_ns if (folder / "me").exists() else None
    result, _ = played("panel", seed=9)
    assert before in (None, (folder / "me" / "study.toml").stat().st_mtime_ns)
    trials = read(result.trials)
    assert trials.observers.height == 1
    assert set(trials.frame["kind"]) == {"simulated"}
    assert {row.against for row in result.scores.rows} == {"simulated people"}
    site = shard(result.page.parent, "site")
    assert "is closest to a simulated person" in site["parts"][0]["verdict"]


def test_a_demo_that_is_not_there_is_run_first(tmp_path, monkeypatch, cosight):
    ran = []

    def demo(part, out, seed, progress):
        ran.append((part, Path(out), seed))
        raise InvalidInput("far enough")

    monkeypatch.setattr(module, "demo", demo)
    said = cosight("demo", "--me", "--out", tmp_path / "new", "--seed", "7")
    assert "far enough" in said.err
    assert ran == [("digits", tmp_path / "new", 7)]


def test_the_best_line_of_a_demo_with_one_seed(tmp_path):
    average = (("category", "*"),)
    distances = {"cosight:vit@45#sp": 0.3, "cosight:vit@45#knn": 0.2, "cosight:swin@45#sp": 0.4}
    rows = tuple(Row(observer=name, measure="hellinger", group=average, value=v, n=9) for name, v in distances.items())
    (tmp_path / "benchmark.json").write_text(Scores(rows, {}).to_json())
    assert _best_lines(tmp_path / "benchmark.json") == ["cosight:vit#knn", "cosight:swin#sp"]


@pytest.mark.parametrize("text", ["[]", "not json", '[{"observer": "a", "value": 1}]'])
def test_a_table_that_cannot_be_read_is_named(tmp_path, text):
    (tmp_path / "benchmark.json").write_text(text)
    with pytest.raises(InvalidInput, match=r"benchmark.json.*delete it and run the demo again"):
        _best_lines(tmp_path / "benchmark.json")

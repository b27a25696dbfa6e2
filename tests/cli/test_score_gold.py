"""`cosight score RUN --on visalign`, and a run's answers on their way to the leaderboard and back."""

from __future__ import annotations

import csv
import io
import json

import pytest
from rich.console import Console

from cosight.benchmarks.visalign.results_table import visalign_table
from cosight.scoring import score
from tests.scoring.made_runs import VISALIGN, answers, random_answers, stimuli, write_run, write_set


@pytest.fixture
def run(tmp_path):
    """Two models, one with two seeds, on sixteen images."""
    rows = [{**row, "experiment": "visalign"} for row in stimuli(dict.fromkeys(range(1, 9), 2), VISALIGN)]
    names = ("model:a@45#knn", "model:a@46#knn", "model:b#sp", "model:b#knn")
    said = [row for i, name in enumerate(names) for row in answers(rows, name, random_answers(i, VISALIGN), VISALIGN)]
    write_set(tmp_path / "set", rows)
    return write_run(tmp_path / "run", rows, said, VISALIGN)


def test_the_table_has_a_line_for_each_model_and_function(cosight, run):
    done = cosight("score", run, "--on", "visalign", "--resamples", 20)
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert " ".join(lines[0].split()) == "model function 1 2 3 4 5 6 7 8 average RS 0 RS 8 RS 16"
    starts = [line.split()[:2] for line in lines if line.startswith("model:")]
    assert starts == [["model:a", "knn"], ["model:b", "sp"], ["model:b", "knn"]]
    assert "\u00b1" in lines[1]
    assert any("\u00b1" not in line for line in lines[2:5])
    marks = "".join(line for line in lines if line.startswith("model:"))
    assert marks.count("*") >= 12
    assert marks.count("+") >= 10
    assert "Pearson's r of average distance and RS 16, over 3 lines" in done.out
    assert "Hellinger distance to gold, lower is nearer" in done.out
    assert "* best, + second best" in done.out


def test_a_narrow_terminal_cuts_no_number(cosight, run, monkeypatch):
    monkeypatch.setattr("cosight.cli.tables.console", lambda: Console(width=110, highlight=False, markup=False))
    done = cosight("score", run, "--on", "visalign", "--resamples", 20)
    values = [
        cell.value for line in visalign_table(score(run, on="visalign", resamples=20)).lines for cell in line.cells
    ]
    assert "\u2026" not in done.out
    assert all(f"{value:.3f}" in done.out for value in values if abs(value) < 1)
    assert "\u00b1" in done.out


def test_digits_are_scored_alike(cosight, run):
    tables = [cosight("score", run, "--on", name, "--resamples", 20).out for name in ("visalign", "digits")]
    assert tables[0] == tables[1] != ""


def test_json_and_csv_have_every_number_with_its_interval(cosight, run):
    asked = ("score", run, "--on", "visalign", "--resamples", 20)
    rows = json.loads(cosight(*asked, "--json").out, parse_constant=pytest.fail)
    table = list(csv.DictReader(io.StringIO(cosight(*asked, "--csv").out)))
    assert len(rows) == len(table)
    wanted = ("hellinger", "model:a#knn", "value")
    found = [row for row in rows if (row["measure"], row["observer"], row["statistic"]) == wanted]
    assert [row["group"] for row in found] == [f"category={c}" for c in (*range(1, 9), "*")]
    assert all(row["against"] == "gold" and row["low"] <= row["value"] <= row["high"] for row in found)
    assert {row["observer"] for row in rows if row["measure"] == "reliability_score"} == {
        *("model:a@45#knn", "model:a@46#knn", "model:a#knn", "model:b#sp", "model:b#knn")
    }


def test_a_plain_score_says_to_whom_the_distance_is(cosight, run):
    done = cosight("score", run, "--resamples", 10)
    assert "hellinger to gold" in done.out.splitlines()[0]
    assert done.code == 0


def test_lambda_moves_uncertain_images(cosight, run):
    def acted(*more):
        rows = json.loads(cosight("score", run, "--measure", "rs", "--resamples", 5, "--json", *more).out)
        return next(row["note"] for row in rows if row["group"] == "cost=N")

    assert "lambda 0.5: 2 of 2 Uncertain to act on" in acted()
    assert "lambda 0.7: 0 of 2 Uncertain to act on" in acted("--lam", ".7")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--on", "imagenet"), "no benchmark is called 'imagenet'; did you mean imagenet-c?"),
        (("--on", "visalign", "--measure", "ec"), "--on visalign brings its own measures and groups"),
        (("--by", "category,level"), "--by category stands alone"),
    ],
)
def test_mistakes_are_one_line(cosight, run, more, message):
    done = cosight("score", run, *more)
    assert done.code == 2
    assert message in done.err
    assert len(done.err.strip().splitlines()) == 1


def test_one_observer_goes_to_the_leaderboard_and_back(cosight, run, tmp_path):
    several = cosight("trials", "convert", run, tmp_path / "all.json")
    assert several.code == 2
    assert "holds one observer, got 4 (" in several.err
    assert "choose with --only" in several.err
    unknown = cosight("trials", "convert", run, tmp_path / "b.json", "--only", "model:b#ps")
    assert "no observer is called 'model:b#ps'; did you mean model:b#sp" in unknown.err
    done = cosight("trials", "convert", run, tmp_path / "b.json", "--only", "model:b#sp")
    assert done.code == 0, done.err
    assert len(json.loads((tmp_path / "b.json").read_text())) == 16

    def numbers(*sources):
        rows = json.loads(cosight("score", *sources, "--resamples", 5, "--measure", "hellinger,rs", "--json").out)
        mine = [row for row in rows if row["observer"] in ("model:b", "model:b#sp")]
        return [(row["measure"], row["group"], row["value"]) for row in mine]

    back, direct = numbers(tmp_path / "b.json", "--humans", tmp_path / "set"), numbers(run)
    assert [row[:2] for row in back] == [row[:2] for row in direct]
    assert [row[2] for row in back] == pytest.approx([row[2] for row in direct], abs=1e-6)

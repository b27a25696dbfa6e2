"""What `compare`, `score` and `disagree` answer on the command line: ranks, the verdict, choices, files."""

from __future__ import annotations

import csv
import json
import re

import polars as pl
import pytest

from cosight.statistics.rows import read_rows
from cosight.trials import write

QUICK = ("--resamples", 20)


@pytest.fixture
def trials(tmp_path, simulated_observers):
    path = tmp_path / "trials.parquet"
    write(simulated_observers(people=4, stimuli=160), path)
    return path


def lines_of(done, start="model:"):
    assert done.code == 0, done.err
    return [line.split()[0] for line in done.out.splitlines() if line.startswith(start) and "closest" not in line]


def test_models_are_ranked_and_people_are_folded(cosight):
    done = cosight("compare", "sample:edges", *QUICK)
    names = lines_of(done)
    assert len(names) == 25
    assert "human:" not in done.out
    table = [line for line in done.out.splitlines() if line.startswith("model:") and " people  " in line]
    shown = [float(re.findall(r"\] +(\S+)", line)[0]) for line in table]  # EC follows accuracy and its interval
    assert len(shown) == 25
    assert shown == sorted(shown, reverse=True)
    assert done.out.splitlines()[-1].startswith(f"{names[0]} is closest to people: EC {shown[0]:.3f} [")
    assert len(lines_of(cosight("compare", "sample:edges", "--people", *QUICK), "human:")) == 10


def test_sort_changes_the_ranking_and_the_verdict(cosight):
    by_accuracy = cosight("compare", "sample:edges", "--measure", "acc,ec", "--sort", "acc", *QUICK)
    accuracies = [
        float(line.split()[3])
        for line in by_accuracy.out.splitlines()
        if line.startswith("model:") and " people " in line
    ]
    assert accuracies[:25] == sorted(accuracies[:25], reverse=True)
    by_ma = cosight("compare", "sample:edges", "--measure", "ec,ma", "--sort", "ma", *QUICK)
    assert " is closest to people: MA " in by_ma.out
    by_name = lines_of(cosight("compare", "sample:edges", "--measure", "ec", "--sort", "name", *QUICK))
    assert by_name[:3] == ["model:alexnet", "model:bagnet9", "model:bagnet17"]


def test_top_shows_the_first_models_only(cosight):
    whole = cosight("compare", "sample:edges", "--measure", "ec", *QUICK)
    done = cosight("compare", "sample:edges", "--measure", "ec", "--top", 3, *QUICK)
    assert lines_of(done) == lines_of(whole)[:3]
    assert "22 more models; --top shows them" in done.out
    assert done.out.splitlines()[-1] == whole.out.splitlines()[-1]


def test_only_gives_the_paired_difference_of_two_models(cosight):
    two = "model:resnet50,model:vgg19"
    done = cosight("compare", "sample:edges", "--measure", "ec", "--only", two, *QUICK)
    assert set(lines_of(done)) == set(two.split(","))
    rows = read_rows(cosight("compare", "sample:edges", "--measure", "ec", "--only", two, *QUICK, "--json").out)
    (difference,) = [row for row in rows if row.statistic == "difference"]
    assert difference.p == difference.p_adjusted
    assert f"{abs(difference.value):.3f} [" in done.out.splitlines()[-1]
    assert "(p " in done.out.splitlines()[-1]
    whole = read_rows(cosight("compare", "sample:edges", "--measure", "ec", *QUICK, "--json").out)
    (same,) = [
        row for row in whole if row.statistic == "difference" and {row.observer, row.against} == set(two.split(","))
    ]
    assert (same.value, same.low, same.high, same.p) == (
        difference.value,
        difference.low,
        difference.high,
        difference.p,
    )


@pytest.mark.parametrize(("options", "message"), [
    (("--sort", "shape_bias"), "--sort takes name or a measure of the table (error_consistency), got shape_bias"),
    (("--sort", "beauty"), "beauty"),
    (("--only", "model:resnet5"), "no model is called 'model:resnet5'; did you mean model:resnet50"),
    (("--only", "human:subject-01"), "no model is called 'human:subject-01'"),
    (("--out", "rows.xlsx"), "--out takes a .json, .csv or .parquet file, got rows.xlsx; or add --json or --csv"),
    (("--json", "--csv"), "choose one of --json and --csv, got both"),
])  # fmt: skip
def test_wrong_choices_are_refused_in_one_line(cosight, options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = cosight("compare", "sample:edges", "--measure", "ec", *QUICK, *options)
    assert (done.code, done.out) == (2, "")
    assert message in done.err.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


def test_out_writes_every_row_in_the_format_of_its_name(cosight, trials, tmp_path):
    asked = ("compare", trials, *QUICK)
    rows = json.loads(cosight(*asked, "--json").out)
    for name in ("rows.json", "rows.csv", "rows.parquet"):
        done = cosight(*asked, "--out", tmp_path / name)
        assert done.out.splitlines()[-1] == f"every row is in {tmp_path / name}"
        assert " is closest to simulated people" in done.out
    written = json.loads((tmp_path / "rows.json").read_text())
    assert written["rows"] == rows
    assert (written["settings"]["command"], written["settings"]["seed"]) == ("compare", 0)
    assert set(written["settings"]["versions"]) == {"python", "cosight", "numpy", "polars", "scipy"}
    assert len(list(csv.DictReader((tmp_path / "rows.csv").read_text().splitlines()))) == len(rows)
    frame = pl.read_parquet(tmp_path / "rows.parquet")
    assert frame["value"].to_list() == [row["value"] for row in rows]
    assert frame["flags"].to_list() == [row["flags"] for row in rows]
    assert cosight(*asked, "--out", tmp_path / "rows", "--csv").code == 0
    assert (tmp_path / "rows").read_text() == (tmp_path / "rows.csv").read_text()


def test_an_existing_file_is_overwritten_only_with_force(cosight, trials, tmp_path):
    path = tmp_path / "rows.json"
    path.write_text("mine")
    asked = ("score", trials, "--measure", "accuracy", *QUICK, "--out", path)
    refused = cosight(*asked)
    assert (refused.code, refused.err) == (2, f"cosight: {path} exists; choose another name or add --force\n")
    assert path.read_text() == "mine"
    assert cosight(*asked, "--force").code == 0
    assert read_rows(path.read_text())
    folder = cosight("score", trials, *QUICK, "--out", tmp_path, "--json")
    assert "--out takes a file, got the folder" in folder.err


def test_disagree_lists_images_with_the_answers_of_both(cosight):
    done = cosight("disagree", "sample:edges", "--only", "model:resnet50", "--top", 3)
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0].split() == ["image", "difference", "truth", "model", "says", "people", "say"]
    assert lines[1].split()[1:] == ["1.000", "airplane", "knife", "airplane", "10"]
    assert lines[4] == "157 more; --top N shows more, --out FILE has all"
    assert lines[-1].startswith("model:resnet50 differs from people by 0.")
    rows = json.loads(cosight("disagree", "sample:edges", "--only", "model:resnet50", "--json").out)
    assert len(rows) == 160
    assert rows[0]["people"] == {"airplane": 10}


def test_disagree_names_the_models_where_there_are_several(cosight, trials, tmp_path):
    done = cosight("disagree", trials, "--out", tmp_path / "rows.parquet")
    assert {"image", "model", "difference"} <= set(done.out.splitlines()[0].split())
    assert "Of 2 models it differs least, model:simulated-texture most" in done.out
    frame = pl.read_parquet(tmp_path / "rows.parquet")
    assert frame.height == 2 * 160
    assert frame["difference"].is_sorted(descending=True)

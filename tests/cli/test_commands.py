"""Commands end to end: what they print, where, and how they end."""

import csv
import io
import json
import subprocess
import sys
import time

import polars as pl
import pytest

from cosight.trials import make_trials, read, write

COLUMNS = [
    "observer", "against", "measure", "statistic", "group", "value", "low", "high", "n", "clusters", "p", "p_adjusted",
    "seed", "flags", "note",
]  # fmt: skip


@pytest.fixture
def trials(tmp_path, simulated_observers):
    path = tmp_path / "trials.parquet"
    write(simulated_observers(people=4, stimuli=160), path)
    return path


def test_help_is_quick_and_names_every_command(cosight):
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "cosight", "--help"], capture_output=True, text=True, check=True)
    assert time.perf_counter() - start < 2  # 0.1 s where the machine is quiet
    for name in ("demo", "compare", "score", "plan", "list", "trials"):
        assert f"\n  {name} " in done.stdout
    assert cosight("--version").out.startswith("cosight 0.")


def test_the_program_starts_without_the_libraries_that_compute():
    code = "import sys, cosight.cli.app; print({'numpy', 'polars', 'scipy', 'rich'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_compare_prints_people_first_and_says_simulated(cosight, trials):
    done = cosight("compare", trials, "--resamples", 50, "--people")
    lines = done.out.splitlines()
    assert lines[0].split() == ["observer", "against", "n", "accuracy", "EC", "MA", "CLES"]
    names = [line.split()[0] for line in lines[1:] if line.strip()]
    assert lines[1].startswith("simulated people")
    assert names.index("simulated:person-4") < names.index("models") < names.index("model:simulated-shape")
    assert "50 resamples, seed 0" in done.out
    assert lines[-1].startswith("model:simulated-shape is closest to simulated people: EC ")


def test_json_and_csv_have_the_same_rows(cosight, trials):
    rows = json.loads(cosight("compare", trials, "--resamples", 50, "--json").out)
    table = list(csv.DictReader(io.StringIO(cosight("compare", trials, "--resamples", 50, "--csv").out)))
    assert list(rows[0]) == list(table[0]) == COLUMNS
    assert [r["value"] for r in rows] == [float(r["value"]) if r["value"] else None for r in table]
    assert {(r["measure"], r["statistic"]) for r in rows} >= {
        ("accuracy", "value"), ("error_consistency", "value"), ("error_consistency", "ceiling_split_half"),
        ("misclassification_agreement", "value"),
    }  # fmt: skip


def test_pairs_lists_the_pairs(cosight, trials):
    out = cosight("compare", trials, "--resamples", 20, "--pairs", "model-model").out
    assert "model:simulated-shape" in out
    assert "model:simulated-texture" in out
    assert "simulated:person" not in out


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(cosight, trials):
    one, two, three = (cosight("compare", trials, "--resamples", 50, "--json", "--seed", s).out for s in (1, 1, 2))
    assert one == two != three


def test_by_adds_groups_and_their_mean(cosight, trials):
    rows = json.loads(
        cosight("compare", trials, "--by", "truth", "--measure", "accuracy", "--resamples", 20, "--json").out
    )
    groups = {row["group"] for row in rows}
    assert "truth=*" in groups
    assert len(groups) == 17
    means = [r["value"] for r in rows if r["observer"] == "model:simulated-shape" and r["group"] != "truth=*"]
    (mean,) = [r for r in rows if r["observer"] == "model:simulated-shape" and r["group"] == "truth=*"]
    assert mean["value"] == pytest.approx(sum(means) / 16)
    assert mean["note"] == "mean over truth: 16 groups"


def test_score_prints_what_the_trials_allow(cosight, trials):
    done = cosight("score", trials, "--resamples", 20)
    assert {"accuracy", "hellinger"} <= set(done.out.splitlines()[0].split())
    assert "leave-one-out ceiling of simulated people" in done.out


def test_plan_answers_and_asks_for_what_it_lacks(cosight):
    assert "133" in cosight("plan", "--measure", "gold", "--error", 0.05, "--classes", 11).out
    assert json.loads(
        cosight("plan", "--measure", "ec", "--width", 0.2, "--accuracy", ".8,.7", "--value", 0.4, "--json").out
    )
    lacking = cosight("plan", "--measure", "ec", "--width", 0.2)
    assert lacking.code == 2
    assert "--accuracy" in lacking.err


@pytest.mark.parametrize("what", ["measures", "label-spaces", "formats", "presets"])
def test_list_prints_names(cosight, what):
    assert cosight("list", what).out.count("\n") > 1
    assert all(row["name"] for row in json.loads(cosight("list", what, "--json").out))


def test_convert_there_and_back_changes_nothing(cosight, trials, tmp_path):
    done = cosight("trials", "convert", trials, tmp_path / "folder")
    assert "(model-vs-human)" in done.out
    assert cosight("trials", "convert", tmp_path / "folder", tmp_path / "back.parquet").code == 0
    kept = ["observer", "kind", "experiment", "image", "condition", "truth", "response", "session", "trial"]
    there, back = (read(p).frame.select(kept).sort("observer", "trial") for p in (trials, tmp_path / "back.parquet"))
    assert there.equals(back)


def test_convert_says_what_a_format_does_not_keep(cosight, tmp_path):
    frame = pl.DataFrame(
        {
            "observer": ["m:a"],
            "kind": ["model"],
            "image": ["a.png"],
            "truth": ["cat"],
            "response": ["cat"],
            "level": [3],
        }
    )
    write(make_trials(frame), tmp_path / "one.parquet")
    assert "does not keep level" in cosight("trials", "convert", tmp_path / "one.parquet", tmp_path / "csv").err


def test_a_format_without_roles_gets_test_trials_only(cosight, tmp_path):
    roles = ["test", "distractor", "gold", "test"]
    names = [f"{number}.png" for number in range(4)]
    frame = pl.DataFrame({"image": names, "role": roles}).with_columns(
        observer=pl.lit("human:a"), kind=pl.lit("human"), truth=pl.lit("cat"), response=pl.lit("cat")
    )
    write(make_trials(frame), tmp_path / "study.parquet")
    done = cosight("trials", "convert", tmp_path / "study.parquet", tmp_path / "csv")
    assert "2 of 4 trials are left out by their role (1 distractor, 1 gold)" in done.err
    assert done.out.startswith("2 trials of 1 observers written")
    assert read(tmp_path / "csv").frame["image"].to_list() == ["0.png", "3.png"]
    shown = json.loads(cosight("trials", "show", tmp_path / "study.parquet", "--json").out)
    assert shown["headline"].startswith("2 trials, 1 observers")
    every = json.loads(cosight("trials", "show", tmp_path / "study.parquet", "--json", "--role", "all").out)
    assert every["headline"].startswith("4 trials, 1 observers")


def test_show_counts(cosight, trials):
    out = cosight("trials", "show", trials).out
    assert out.startswith("960 trials, 6 observers, 1 experiments; label space model-vs-human-16")
    assert json.loads(cosight("trials", "show", trials, "--json").out)["observers"][0]["trials"] == 160


def test_the_file_is_written_though_the_reader_of_the_table_has_gone(tmp_path):
    out = tmp_path / "rows.json"
    options = f"--measure accuracy --resamples 5 --out {out}"
    subprocess.run(
        ["bash", "-c", f"{sys.executable} -m cosight compare sample:edges {options} | head -c 1"], capture_output=True
    )
    assert json.loads(out.read_text())


@pytest.mark.parametrize("options", ["", "--json"])
def test_a_reader_that_goes_away_is_no_error(options):
    line = f"set -o pipefail; {sys.executable} -m cosight list measures {options} | head -1"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")

"""Every table in a terminal of 80 columns: no line is longer, no number and no interval is broken."""

from __future__ import annotations

import json
import re
from itertools import pairwise

import polars as pl
import pytest

from cosight.trials import make_trials, write
from tests.humans.conftest import make_study, open_study
from tests.runs.conftest import _TINY, draw_images
from tests.scoring.made_runs import VISALIGN, answers, random_answers, stimuli, write_run
from tests.terminal import in_terminal

LONG = "timm:vit_base_patch16_clip_quickgelu_224.openai_ft_in12k_in1k"
QUICK = ("--resamples", 10)
COMMANDS = {
    "compare": ("compare", "sample:edges", *QUICK),
    "compare-people": ("compare", "long.parquet", "--people", *QUICK),
    "compare-by": ("compare", "sample:edges", "sample:silhouettes", "--by", "experiment", "--top", 3, *QUICK),
    "compare-correlate": ("compare", "long.parquet", "--correlate", *QUICK),
    "compare-pairs": ("compare", "long.parquet", "--pairs", "all", *QUICK),
    "compare-out": ("compare", "long.parquet", "--measure", "ec", "--out", "rows.csv", *QUICK),
    "score": ("score", "long.parquet", *QUICK),
    "score-shape-bias": ("score", "sample:cue-conflict", "--measure", "shape_bias,hellinger", *QUICK),
    "score-run": ("score", "made-run", *QUICK),
    "score-on": ("score", "made-run", "--on", "visalign", *QUICK),
    "score-on-pairs": ("score", "long.parquet", "--on", "error-alignment", *QUICK),
    "disagree": ("disagree", "long.parquet"),
    "trials-show": ("trials", "show", "long.parquet"),
    "plan": ("plan", "--measure", "gold", "--error", 0.05, "--classes", 11),
    "evaluate": ("evaluate", "python:tiny:model,size=16,mean=0,std=1", "--on", "images", "--out", "run"),
    "run-list": ("run", "list", "."),
    "run-status": ("run", "status", "run"),
    "study-status": ("study", "status", "study"),
    "study-quality": ("study", "quality", "study"),
    **{
        f"list-{what}": ("list", what)
        for what in ("measures", "models", "model-lists", "benchmarks", "samples", "abstentions", "presets", "formats")
    },
    **{f"list-{what}": ("list", what) for what in ("label-spaces", "corruptions", "distortions", "attacks")},
    "demo": ("demo", "people", "--out", "demo-run"),
}
REFUSED = {
    "compare": ("compare", "sample:cue-conflict", "--json"),
    "score": ("score", "sample:cue-conflict", "--csv"),
    "disagree": ("disagree", "sample:cue-conflict", "--json"),
    "trials-show": ("trials", "show", "sample:edges", "--json"),
    "study-quality": ("study", "quality", "study", "--csv"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, simulated_observers):
    """Trials with a long name, a run on a benchmark, a run of a recorded model, and a study with two participants."""
    folder = tmp_path_factory.mktemp("terminal")
    trials = simulated_observers(people=4, stimuli=160)
    renamed = trials.frame.with_columns(pl.col("observer").replace("model:simulated-shape", LONG))
    write(make_trials(renamed, space=trials.space), folder / "long.parquet")
    rows = stimuli(dict.fromkeys(range(1, 9), 2), VISALIGN)
    names = (f"{LONG}@45#knn", f"{LONG}@46#knn", "model:b#deep-ensemble", "model:b#knn")
    said = [row for i, name in enumerate(names) for row in answers(rows, name, random_answers(i, VISALIGN), VISALIGN)]
    write_run(folder / "made-run", rows, said, VISALIGN)
    draw_images(folder / "images", 20)
    (folder / "tiny.py").write_text(_TINY)
    with open_study(make_study(folder, "classify", images=4)) as study:
        study.take_part()
        study.take_part()
    return folder


@pytest.fixture(scope="module")
def screens(folder):
    """Exit code and lines of every command, all in one process."""
    names = [*COMMANDS, *(f"refused-{name}" for name in REFUSED)]
    return dict(zip(names, in_terminal([*COMMANDS.values(), *REFUSED.values()], folder=folder), strict=True))


@pytest.mark.parametrize("name", COMMANDS)
def test_no_line_is_longer_than_the_terminal(screens, name):
    code, lines = screens[name]
    assert code == 0, lines
    assert max(map(len, lines)) <= 80, max(lines, key=len)


@pytest.mark.parametrize("name", COMMANDS)
def test_no_number_and_no_interval_is_broken(screens, name):
    lines = screens[name][1]
    assert "\u2026" not in "".join(lines)  # how rich cuts a cell
    for line in lines:
        assert line.count("[") == line.count("]"), line
        assert not re.search(r"^ *\.\d|\bp <?=$", line), line
    for line, after in pairwise(lines):
        assert not (re.search(r"\d\.$", line) and re.match(r"\d", after.strip())), line


@pytest.mark.parametrize("name", ["compare-people", "compare-pairs", "score", "trials-show", "disagree"])
def test_no_name_is_cut(screens, name):
    assert any(LONG in line for line in screens[name][1])


def test_every_value_of_a_comparison_is_on_the_screen(cosight, folder, screens, monkeypatch):
    monkeypatch.chdir(folder)
    rows = json.loads(cosight(*COMMANDS["compare-people"][:2], "--json", *QUICK).out)
    text = "\n".join(screens["compare-people"][1])
    shown = [row for row in rows if row["statistic"] == "value" and row["against"] in (None, "simulated people")]
    single = [row for row in shown if row["observer"] not in ("simulated people", "models")]
    assert len(single) == 6 * 4  # observers, measures
    assert all(f"{row['value']:.3f}" in text for row in single)


@pytest.mark.parametrize("name", REFUSED)
def test_rows_on_a_terminal_are_refused_in_one_line_before_anything_is_computed(screens, name):
    code, lines = screens[f"refused-{name}"]
    assert code == 2
    advice = "use a pipe, or > FILE" if name in ("trials-show", "study-quality") else "add --out FILE or use a pipe"
    assert lines == [f"cosight: {REFUSED[name][-1]} is too long for a terminal; {advice}"]


def test_a_file_has_every_row_and_the_table_is_printed_all_the_same(screens, folder):
    lines = screens["compare-out"][1]
    assert lines[-1] == "every row is in rows.csv"
    assert f"{LONG} is closest to simulated people: EC " in " ".join(lines)
    assert (folder / "rows.csv").read_text().startswith("observer,against,measure,statistic,group,value")


def test_wide_terminals_are_used(folder):
    ((code, lines),) = in_terminal([COMMANDS["compare-people"]], columns=200, folder=folder)
    assert code == 0
    (line,) = [line for line in lines if line.startswith(f"{LONG}  ")]
    assert re.search(r"0\.\d{3} \[0\.\d{3}, 0\.\d{3}\]", line)
    assert len(line) > 100


def test_the_part_of_the_demo_with_real_people_is_short(screens):
    lines = screens["demo"][1]
    assert len(lines) <= 13
    assert any("model:resnet50-trained-on-SIN is closest to people: EC 0.195" in line for line in lines)
    assert lines[-1] == "report: demo-run/report/index.html"

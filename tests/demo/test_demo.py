"""The whole embedded job, small: everything is wired, repeatable, and says who is simulated."""

import json
import re
import subprocess
import sys

import pytest

from cosight.benchmarks.visalign.results_table import FUNCTIONS, visalign_table
from cosight.demos import Size, demo
from cosight.demos.report import exceptions
from cosight.demos.size import ARCHITECTURES
from cosight.errors import InvalidInput
from cosight.models import architectures
from cosight.models.abstention import abstentions
from cosight.statistics.rows import Row, Scores
from cosight.statistics.seeds import observer_name
from cosight.trials import read
from tests.reports.site_data import rows, shard

SMALL = Size(
    images=3,
    train=300,
    architectures=("mixer-small", "vit-small"),
    seeds=(45, 46),
    epochs=14,  # the fewest with which OpenMax has three right images of every class, and some
    persons=3,
    resamples=50,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("demo") / "out"


@pytest.fixture(scope="module")
def steps():
    return []


@pytest.fixture(scope="module")
def done(folder, steps):
    return demo(out=folder, size=SMALL, processes=1, progress=lambda *step: steps.append(step))


@pytest.mark.slow
def test_every_architecture_is_scored_with_every_function(done):
    table = visalign_table(done.digits.benchmark)
    found = {(line.model, line.function): line.seeds for line in table.lines}
    for architecture in SMALL.architectures:
        functions = {function for model, function in found if model.endswith(f"cosight:{architecture}")}
        assert functions == {"", *FUNCTIONS} <= {"", *abstentions}
        assert found[f"cosight:{architecture}", "knn"] == 2
        assert (f"2 x cosight:{architecture}", "deep-ensemble") in found
    assert table.against == "simulated gold"
    titles = [column.title for column in table.columns]
    assert titles == ["1", "2", "3", "4", "5", "6", "7", "8", "average", "RS 0", "RS 13.5", "RS 27"]


@pytest.mark.slow
def test_errors_are_compared_with_the_panel_on_images_that_show_a_digit(done, folder):
    trials = read(folder / "trials.parquet")
    assert trials.observers["observer"].to_list() == [
        *(f"simulated:person-{i:02d}" for i in (1, 2, 3)),
        *(f"cosight:{name}@45" for name in SMALL.architectures),
    ]
    assert "abstain" not in trials.frame["truth"].to_list()
    assert trials.frame["stimulus"].n_unique() == 5 * 3  # categories 1, 2, 3 and twice as many of 8
    pairs = {(row.observer, row.against) for row in done.digits.comparison.rows if row.measure == "error_consistency"}
    assert {
        ("cosight:mixer-small@45", "simulated people"),
        ("cosight:mixer-small@45", "cosight:vit-small@45"),
    } <= pairs


@pytest.mark.slow
def test_the_report_shows_all_of_it_and_calls_people_simulated(done, folder):
    site = shard(folder / "report", "site")
    assert done.page == folder / "report" / "index.html"
    assert [part["name"] for part in site["parts"]] == ["people", "digits", "errors", "abstention"]
    assert site["parts"][0]["headline"].startswith("model:resnet50-trained-on-SIN is closest to people: EC 0.195")
    assert "simulated people" in site["parts"][1]["headline"]
    assert len(site["parts"][1]["table"]["lines"]) == len(visalign_table(done.digits.benchmark).lines)
    real, simulated = site["sets"]
    assert (real["stimuli"], real["pictures"]) == (1280, 0)
    assert simulated["pictures"] == simulated["stimuli"] == 9 * 3  # all categories, twice as many of 8
    assert {one["kind"] for one in simulated["observers"]} == {"simulated", "model", "pool"}
    flagged = {row["flags"] for row in rows(folder / "report", "rows") if "simulated" in (row["against"] or "")}
    assert all("simulated" in flags for flags in flagged)


@pytest.mark.slow
def test_numbers_are_kept_as_json(done, folder):
    files = {"people": done.people, "benchmark": done.digits.benchmark, "comparison": done.digits.comparison}
    for name, scores in files.items():
        assert json.loads((folder / f"{name}.json").read_text(encoding="utf-8")) == json.loads(scores.to_json())


@pytest.mark.slow
def test_progress_tells_of_each_network(done, steps):
    words = [text for _, _, text in steps]
    assert {f"{name} trained, seed {seed}" for name in SMALL.architectures for seed in SMALL.seeds} <= set(words)
    assert steps[[text.endswith("evaluated") for text in words].index(True)][1] == 6


@pytest.mark.slow
def test_a_demo_is_resumed_and_ends_the_same_with_other_processes(done, folder):
    checkpoint = folder / "networks" / "mixer-small@45.safetensors"
    before = checkpoint.read_bytes()
    answers = sorted((folder / "runs").rglob("*.0*.parquet"))
    kept = [path.stat().st_mtime_ns for path in answers]
    checkpoint.unlink()
    again = demo("digits", out=folder, size=SMALL, processes=2)
    assert checkpoint.read_bytes() == before
    assert [path.stat().st_mtime_ns for path in answers] == kept
    assert again.digits.benchmark.rows == done.digits.benchmark.rows
    assert again.people is None


def test_a_folder_of_other_things_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(InvalidInput, match="--out must be a new or empty folder"):
        demo(out=tmp_path, size=SMALL)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_the_whole_demo_has_the_five_architectures_and_seeds_of_the_paper():
    whole = Size()
    assert {name.removesuffix("-small") for name in whole.architectures} == {
        "vit", "swin", "densenet", "convnext", "mixer",
    }  # fmt: skip
    assert set(whole.architectures) == set(ARCHITECTURES) <= set(architectures.architectures)
    assert whole.seeds == (45, 46, 47, 48, 49)


def test_exceptions_are_lines_that_refuse_clean_digits_more():
    def row(observer, condition, value, statistic="value"):
        group = (("condition", condition),)
        return Row(observer=observer, measure="mean_abstention", statistic=statistic, group=group, value=value, n=10)

    rows = (
        *(row(f"cosight:vit@{seed}#sp", c, v) for seed in (1, 2) for c, v in (("clean", 0.9), ("letter", 0.1))),
        row("cosight:vit#sp", "clean", 0.2),
        row("cosight:vit#sp", "letter", 0.6),
        row("cosight:vit#sp", "letter", 0.0, "sd"),
        row("cosight:vit#knn", "clean", 0.5),
        row("cosight:vit#knn", "letter", 0.4),
    )
    assert exceptions(Scores(rows, {})) == ["cosight:vit with knn"]
    assert observer_name(rows[0].observer).line == "cosight:vit#sp"


@pytest.mark.slow
def test_the_command_prints_at_most_25_lines_with_both_verdicts_and_where_the_page_is(
    done, folder, cosight, monkeypatch
):
    monkeypatch.setattr("cosight.demos.demo", lambda part, out, seed, progress: done)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    ended = cosight("demo", "--out", folder)
    assert ended.code == 0
    lines = re.sub(r"\x1b\[[0-9;]*m", "", ended.out).splitlines()
    assert len(lines) <= 25
    text = " ".join(lines)
    assert "model:resnet50-trained-on-SIN is closest to people: EC 0.195" in text
    assert " is closest to the gold labels of simulated people: hellinger 0." in text
    assert text.endswith(f"report: {folder}/report/index.html")


def test_the_part_with_real_people_needs_no_torch_and_takes_seconds(tmp_path):
    code = f"""
import sys
from cosight.demos import Size, demo
result = demo("people", out={str(tmp_path / "out")!r}, size=Size(resamples=20))
assert result.digits is None and result.page.is_file()
assert not {{"torch", "cv2", "matplotlib"}} & set(sys.modules), "heavy"
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    site = shard(tmp_path / "out" / "report", "site")
    assert [part["name"] for part in site["parts"]] == ["people"]
    assert site["parts"][0]["verdict"].startswith("model:resnet50-trained-on-SIN is closest to people: EC 0.195")


@pytest.mark.parametrize(("arguments", "message"), [
    (("letters",), "the parts of the demo are people and digits, got 'letters'"),
    (("people", "--me"), "--me is about the digits, got the part people; leave it out"),
])  # fmt: skip
def test_unknown_parts_are_refused(cosight, arguments, message, tmp_path):
    ended = cosight("demo", *arguments, "--out", tmp_path / "out")
    assert (ended.code, ended.err) == (2, f"cosight: {message}\n")
    assert not (tmp_path / "out").exists()
    with pytest.raises(InvalidInput, match="the parts of the demo are"):
        demo("letters", out=tmp_path / "out")

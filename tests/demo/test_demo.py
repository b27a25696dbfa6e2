"""The whole embedded job, small: everything is wired, repeatable, and says who is simulated."""

import json
import re

import pytest

from cosight.benchmarks.visalign.results_table import visalign_table
from cosight.demo import Size, demo
from cosight.demo.report import exceptions
from cosight.demo.size import ARCHITECTURES
from cosight.errors import InvalidInput
from cosight.models import architectures
from cosight.models.abstention import abstentions
from cosight.statistics.rows import Row, Scores
from cosight.statistics.seeds import observer_name
from cosight.trials import read

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
    return demo(folder, size=SMALL, processes=1, progress=lambda *step: steps.append(step))


@pytest.mark.slow
def test_every_architecture_is_scored_with_every_function(done):
    table = visalign_table(done.benchmark)
    found = {(line.model, line.function): line.seeds for line in table.lines}
    for architecture in SMALL.architectures:
        functions = {function for model, function in found if model.endswith(f"cosight:{architecture}")}
        assert functions == {"", *abstentions}
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
    pairs = {(row.observer, row.against) for row in done.comparison.rows if row.measure == "error_consistency"}
    assert {
        ("cosight:mixer-small@45", "simulated people"),
        ("cosight:mixer-small@45", "cosight:vit-small@45"),
    } <= pairs


@pytest.mark.slow
def test_the_page_shows_all_of_it_and_calls_people_simulated(done, folder):
    text = done.page.read_text(encoding="utf-8")
    assert text.count("<table>") == 4
    assert "simulated" in re.sub(r"<[^>]+>", "", text).split("What was shown")[0]
    shown = re.findall(r'<img src="([^"]+)"', text)
    assert len(shown) == 3
    assert all((folder / "report" / name).stat().st_size > 1000 for name in shown)
    assert "http" not in re.sub(r'xmlns[^"]*"[^"]*"', "", text)  # nothing is fetched from elsewhere


@pytest.mark.slow
def test_numbers_are_kept_as_json(done, folder):
    for name, scores in (("benchmark", done.benchmark), ("comparison", done.comparison)):
        assert json.loads((folder / f"{name}.json").read_text(encoding="utf-8")) == json.loads(scores.to_json())


@pytest.mark.slow
def test_progress_tells_of_each_network(done, steps):
    words = [text for _, _, text in steps]
    assert {f"{name} trained, seed {seed}" for name in SMALL.architectures for seed in SMALL.seeds} <= set(words)
    assert steps[[text.endswith("evaluated") for text in words].index(True)][1] == 6


@pytest.mark.slow
def test_a_demo_is_gone_on_with_and_ends_the_same_with_other_processes(done, folder):
    checkpoint = folder / "networks" / "mixer-small@45.safetensors"
    before = checkpoint.read_bytes()
    answers = sorted((folder / "runs").rglob("*.0*.parquet"))
    kept = [path.stat().st_mtime_ns for path in answers]
    checkpoint.unlink()
    again = demo(folder, size=SMALL, processes=2)
    assert checkpoint.read_bytes() == before
    assert [path.stat().st_mtime_ns for path in answers] == kept
    assert again.benchmark.rows == done.benchmark.rows


def test_a_folder_of_other_things_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(InvalidInput, match="--out must be a new or empty folder"):
        demo(tmp_path, size=SMALL)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_the_whole_demo_has_the_five_architectures_and_seeds_of_the_paper():
    whole = Size()
    assert {name.removesuffix("-small") for name in whole.architectures} == {
        "vit", "swin", "densenet", "convnext", "mixer",
    }  # fmt: skip
    assert set(whole.architectures) == set(ARCHITECTURES) <= set(architectures.architectures)
    assert whole.seeds == (45, 46, 47, 48, 49)
    assert whole.counts.categories[8] == 2 * whole.counts.categories[1]


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
def test_the_command_prints_tables_and_where_the_page_is(done, folder, cosight, monkeypatch):
    monkeypatch.setattr("cosight.demo.demo", lambda out, seed, progress: done)
    said = cosight("demo", "--out", folder)
    assert said.code == 0
    assert f"people here are simulated; the page is {folder}/report/index.html" in said.out
    assert "abstention is higher on letters than on clean digits; exceptions:" in said.out

"""A study's answers written, without those who are left out; the commands on a real study's database."""

import json
from pathlib import Path

import polars as pl
import pytest
import typer
from typer.testing import CliRunner

from cosight.cli.study.results import export, quality
from cosight.errors import InvalidInput
from cosight.humans.results.export import path_beside, write_curated, write_excluded, write_trials
from cosight.humans.results.quality import assess
from cosight.stimuli.sets import read_set
from cosight.trials import read
from tests.humans.answered import row, sheet, trials_of

app = typer.Typer()
app.command("quality")(quality)
app.command("export")(export)


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)


@pytest.fixture
def answers():
    """Two who looked, and one who answered in no time at all."""
    bad = [row("p9", f"i{i}", "9", trial=i + 1, rt=0.05, truth="0") for i in range(3)]
    checks = [row(f"p{p}", "d", "abstain", trial=4, truth="abstain", role="distractor") for p in range(2)]
    return trials_of(sheet(["012", "013"]) + bad + checks)


@pytest.mark.parametrize(("to", "name"), [("parquet", "a.parquet"), ("psych-ds", "a"), ("model-vs-human", "a")])
def test_trials_come_back_from_every_format(answers, tmp_path, to, name):
    kept = assess(answers, resamples=10).kept
    written = write_trials(kept, tmp_path / name, to=to)
    back = read(tmp_path / name, labels="digits-11")
    columns = ["observer", "kind", "image", "truth", "response", "rt", "trial"]
    order = ["observer", "trial"]
    assert back.frame.select(columns).sort(order).equals(written.frame.select(columns).sort(order))
    assert set(back.frame["observer"]) == {"human:p0", "human:p1"}


def test_model_vs_human_files_hold_no_checks(answers, tmp_path):
    """Their columns could not tell a distractor from a question."""
    written = write_trials(answers, tmp_path / "out", to="model-vs-human")
    assert len(written) == 9
    assert "d" not in set(read(tmp_path / "out", labels="digits-11").frame["image"])
    assert len(write_trials(answers, tmp_path / "all.parquet", to="parquet")) == 11


def test_who_is_left_out_and_why_lies_beside(answers, tmp_path):
    path = write_excluded(assess(answers, resamples=10), tmp_path / "a.parquet", everyone=False)
    assert path == tmp_path / "a-excluded.json" == path_beside(tmp_path / "a.parquet", "excluded.json")
    told = json.loads(path.read_text())
    assert told["participants"] == 3
    assert [one["participant"] for one in told["excluded"]] == ["human:p9"]
    assert "too fast" in told["excluded"][0]["reasons"][0]
    assert told["rules"]["seconds"] == 0.2
    assert told["written_all_the_same"] is False


def test_an_unknown_format_is_refused(answers, tmp_path):
    with pytest.raises(InvalidInput, match="got 'leaderboard'"):
        write_trials(answers, tmp_path / "x", to="leaderboard")


def test_only_classes_are_written_as_model_vs_human(tmp_path):
    votes = trials_of([row("a", "i", "keep")], space=None)
    with pytest.raises(InvalidInput, match="model-vs-human files hold classes"):
        write_trials(votes, tmp_path / "x", to="model-vs-human")


@pytest.mark.parametrize(("to", "out"), [("parquet", "."), ("psych-ds", "."), ("parquet", "..")])
def test_what_is_there_already_is_no_place_to_write(answers, to, out):
    with pytest.raises(InvalidInput, match="must be a new file or folder, got"):
        write_trials(answers, Path(out), to=to)


def test_nobody_left_is_told(tmp_path):
    quality = assess(trials_of([row("a", "i", "3", rt=0.01)]), resamples=10)
    with pytest.raises(InvalidInput, match=r"no answers to export; .* use --all"):
        write_trials(quality.kept, tmp_path / "x.parquet", to="parquet")


def test_a_curated_list_is_what_build_takes(tmp_path):
    from cosight.benchmarks.building.source_photos import read_curated_lists

    rows = [row("a", "i0", "keep"), row("a", "i1", "reject", trial=2, reason='text, "logo"')]
    path = write_curated(trials_of(rows, space=None), tmp_path / "votes.parquet", files={"i1": "cat/1.png"})
    assert path.name == "votes-curated.csv"
    assert read_curated_lists([path]) == {"i1": "cat/1.png"}


@pytest.fixture
def served(serve_study):
    """A classify study that three people sat: two name what they see, the third names distractors too."""
    study = serve_study("classify", images=4, answers=3)
    truth = {slot.stimulus: item for item in study.pool.items.values() for slot in item.slots}
    for person in range(3):
        headers = study.begin()
        for trial in study.trials(headers):
            item = truth[study_item(study, trial)]
            wrong = person == 2 and item.role == "distractor"
            assert study.answer(headers, trial, "tiger" if wrong else item.facts["truth"]).json()["stored"]
        assert study.client.post("/api/finish", headers=headers).status_code == 200
    return study


def study_item(study, trial):
    """The digest of the image that a trial shows."""
    import io

    import numpy as np
    from PIL import Image

    from cosight.stimuli.images import digest

    data = study.client.get(trial["images"]["image"]).content
    return digest(np.asarray(Image.open(io.BytesIO(data))))


def test_quality_from_the_command_line(served):
    folder = served.study.root
    shown = run("quality", folder)
    assert shown.exit_code == 0
    assert "excluded: human:p0003: 2 wrong on clear distractors" in shown.output
    assert "fleiss kappa" in shown.output
    told = json.loads(run("quality", folder, "--json").stdout)
    assert [one["participant"] for one in told["flagged"]] == ["human:p0003"]
    assert {one["measure"] for one in told["agreement"]} >= {"fleiss_kappa", "krippendorff_alpha", "cronbach_alpha"}
    assert run("quality", folder, "--csv").stdout.startswith("participant,group")


def test_export_from_the_command_line(served, tmp_path):
    out = tmp_path / "people.parquet"
    done = run("export", served.study.root, out, "--gold")
    assert done.exit_code == 0
    assert set(read(out).frame["observer"]) == {"human:p0001", "human:p0002"}
    assert json.loads((tmp_path / "people-excluded.json").read_text())["excluded"][0]["participant"] == "human:p0003"
    gold = pl.read_csv(tmp_path / "people-gold.csv")
    frame = read_set(served.study.set).frame.filter(pl.col("gold").is_not_null())
    assert set(gold["stimulus"]) == set(frame["stimulus"])
    for counts, truth in frame.select("gold_counts", "truth").iter_rows():
        assert counts[served.study.space.answers.index(truth)] == sum(counts)  # all who looked saw it
    again = run("export", served.study.root, tmp_path / "all.parquet", "--all")  # gold labels leave the study as it was
    assert "participants" in again.output
    assert read(tmp_path / "all.parquet").frame["observer"].n_unique() == 3


def test_an_export_that_fails_attaches_no_gold_labels(served, tmp_path):
    before = read_set(served.study.set).frame
    with pytest.raises(InvalidInput, match="got 'nothing'"):
        run("export", served.study.root, tmp_path / "a.parquet", "--gold", "--format", "nothing")
    assert read_set(served.study.set).frame.equals(before)


def test_both_outputs_at_once_are_refused(tmp_path):
    with pytest.raises(InvalidInput, match="choose one"):
        run("quality", tmp_path, "--json", "--csv")


@pytest.mark.parametrize(("kind", "option", "name"), [("curate", "--curated", "curated"), ("2afc", "--gold", "gold")])
def test_lists_and_choices_from_the_command_line(serve_study, tmp_path, kind, option, name):
    study = serve_study(kind)
    for _ in range(2):
        study.take_part()
    done = run("export", study.study.root, tmp_path / "a.parquet", option, "--all")
    assert done.exit_code == 0
    table = pl.read_csv(tmp_path / f"a-{name}.csv")
    assert table.height > 0
    assert run("quality", study.study.root).exit_code == 0
    if kind == "curate":
        assert table["file"].str.starts_with("images/").all()
        assert table["kept"].all()


def test_a_clustering_panel_gives_a_row_for_each_of_its_rows(serve_study, tmp_path):
    study = serve_study("cluster")
    study.take_part()
    run("export", study.study.root, tmp_path / "a.parquet", "--gold", "--all")
    table = pl.read_csv(tmp_path / "a-gold.csv")
    assert table.filter(pl.col("stimulus").is_not_null()).height == 3  # its queries, and the mean over them
    assert table.height == 4

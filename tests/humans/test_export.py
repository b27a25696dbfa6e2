"""A study's answers written, without those who are left out; the commands on a real study's database."""

import json
import stat
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
import typer
from typer.testing import CliRunner

from cosight.cli.study.results import export, quality
from cosight.errors import InvalidInput
from cosight.humans.results.export import export_results, path_beside, read_exclusions
from cosight.humans.results.quality import assess
from cosight.stimuli.sets import read_set
from cosight.trials import read
from cosight.trials.spaces import label_space
from tests.humans.answered import row, sheet, trials_of
from tests.humans.conftest import LABELS, make_study, open_study, write_set

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
    written = export_results(answers, assess(answers, resamples=None), tmp_path / name, to=to).trials
    back = read(tmp_path / name, labels="digits-11")
    columns = ["observer", "kind", "image", "truth", "response", "rt", "trial"]
    order = ["observer", "trial"]
    assert back.frame.select(columns).sort(order).equals(written.frame.select(columns).sort(order))
    assert set(back.frame["observer"]) == {"human:p0", "human:p1"}


def test_model_vs_human_files_hold_no_checks(answers, tmp_path):
    """Their columns could not tell a distractor from a question."""
    quality = assess(answers, resamples=None)
    done = export_results(answers, quality, tmp_path / "out", to="model-vs-human", everyone=True)
    assert len(done.trials) == 9
    assert "d" not in set(read(tmp_path / "out", labels="digits-11").frame["image"])
    assert len(export_results(answers, quality, tmp_path / "all.parquet", everyone=True).trials) == 11


def test_who_is_left_out_and_why_lies_beside(answers, tmp_path):
    (path,) = export_results(answers, assess(answers, resamples=None), tmp_path / "a.parquet").paths
    assert path == tmp_path / "a-excluded.json" == path_beside(tmp_path / "a.parquet", "excluded.json")
    told = json.loads(path.read_text())
    assert told["participants"] == 3
    assert [one["participant"] for one in told["excluded"]] == ["human:p9"]
    assert "too fast" in told["excluded"][0]["reasons"][0]
    assert told["rules"]["seconds"] == 0.2
    assert told["written_all_the_same"] is False


def refused(trials, out, **options):
    """The reason for refusing an export, which must not have written anything."""
    before = sorted(out.parent.rglob("*"))
    with pytest.raises(InvalidInput) as error:
        export_results(trials, assess(trials, resamples=None), out, **options)
    assert sorted(out.parent.rglob("*")) == before
    return str(error.value)


def test_an_unknown_format_is_refused(answers, tmp_path):
    assert "got 'leaderboard'" in refused(answers, tmp_path / "x", to="leaderboard")


@pytest.mark.parametrize(
    ("name", "to"), [("out.xls", None), ("out", None), ("out.xlsx", "csv"), ("out.csv", "parquet")]
)
def test_a_file_of_no_known_format_is_refused_in_a_line_that_names_them(answers, tmp_path, name, to):
    message = refused(answers, tmp_path / name, to=to)
    assert "\n" not in message
    assert all(word in message for word in (".parquet", ".csv", "model-vs-human", "psych-ds", f"got {name}"))


def test_csv_for_a_spreadsheet(answers, tmp_path):
    """One row per trial, no formulas, and for the owner alone, as the other tables for people."""
    rows = answers.frame.with_columns(image=pl.lit("=1+1"), extra=pl.lit('{"late": true}'))
    odd = replace(answers, frame=rows)
    done = export_results(odd, assess(odd, resamples=None), tmp_path / "a.csv", everyone=True)
    table = pl.read_csv(tmp_path / "a.csv")
    assert table.height == len(done.trials) == 11
    assert table["response"].cast(pl.String).to_list() == answers.frame["response"].to_list()
    assert set(table["image"]) == {"'=1+1"}
    assert stat.S_IMODE((tmp_path / "a.csv").stat().st_mode) == 0o600
    assert [path.name for path in done.paths] == ["a-excluded.json"]
    assert "exists; choose another name" in refused(odd, tmp_path / "a.csv")


def test_csv_is_read_back_with_its_label_space(answers, tmp_path):
    """Without it, answers that nobody gave would not be classes any more."""
    export_results(answers, assess(answers, resamples=None), tmp_path / "a.csv", everyone=True)
    back = read(tmp_path / "a.csv")
    assert back.space == answers.space
    assert back.frame["response"].to_list() == answers.frame["response"].to_list()


def test_only_classes_are_written_as_model_vs_human(tmp_path):
    votes = trials_of([row("a", "i", "keep")], space=None)
    assert "model-vs-human files hold classes" in refused(votes, tmp_path / "x", to="model-vs-human")


@pytest.mark.parametrize(("to", "out"), [("parquet", "."), ("psych-ds", "."), ("parquet", "..")])
def test_what_is_there_already_is_no_place_to_write(answers, tmp_path, monkeypatch, to, out):
    monkeypatch.chdir(tmp_path)
    assert ("an export is a file" if to == "parquet" else "must be a new file or folder, got") in refused(
        answers, Path(out), to=to
    )


def test_nobody_left_is_told(tmp_path):
    trials = trials_of([row("a", "i", "3", rt=0.01)])
    assert "no answers to export; collect some, or use --all" in refused(trials, tmp_path / "x.parquet")


@pytest.mark.parametrize("name", ["a.parquet", "a-excluded.json"])
def test_existing_files_are_overwritten_only_by_force(answers, tmp_path, name):
    (tmp_path / name).write_text("of last year")
    assert f"{name} exists; choose another name" in refused(answers, tmp_path / "a.parquet")
    assert (tmp_path / name).read_text() == "of last year"
    export_results(answers, assess(answers, resamples=None), tmp_path / "a.parquet", force=True)
    assert len(read(tmp_path / "a.parquet")) == 8


def test_a_refused_gold_label_leaves_nothing_behind(tmp_path):
    """People's labels are in the set: simulated answers are refused, and no other file is written either."""
    rows = write_set(tmp_path / "set", 2)
    people, simulated = (
        trials_of([row("a", rows[0]["stimulus"], "tiger", kind=kind)], space=label_space(LABELS))
        for kind in ("human", "simulated")
    )
    quality = assess(people, resamples=None)
    export_results(people, quality, tmp_path / "people.parquet", gold=tmp_path / "set")
    before = read_set(tmp_path / "set").frame
    assert "not replaced by simulated ones" in refused(simulated, tmp_path / "a.parquet", gold=tmp_path / "set")
    votes = trials_of([row("a", rows[0]["stimulus"], "keep")], space=None)
    assert "gold labels need classes" in refused(votes, tmp_path / "a.parquet", gold=tmp_path / "set")
    assert read_set(tmp_path / "set").frame.equals(before)


def test_a_curated_list_is_what_build_takes(tmp_path):
    from cosight.benchmarks.building.source_photos import read_curated_lists

    rows = [row("a", "i0", "keep"), row("a", "i1", "reject", trial=2, reason='text, "logo"')]
    votes = trials_of(rows, space=None)
    quality = assess(votes, resamples=None)
    done = export_results(votes, quality, tmp_path / "votes.parquet", everyone=True, curated={"i1": "cat/1.png"})
    path = done.paths[-1]
    assert path.name == "votes-curated.csv"
    assert read_curated_lists([path]) == {"i1": "cat/1.png"}


def test_files_with_personal_data_are_for_their_owner_only(serve_study, tmp_path):
    here = serve_study(people="demographics = ['age']")
    headers, _ = here.take_part()
    here.client.post("/api/session/demographics", json={"age": "=HYPERLINK(1)"}, headers=headers)
    assert run("export", here.study.root, tmp_path / "a.parquet", "--participants", "--all").exit_code == 0
    personal = [tmp_path / "a-participants.csv", *here.study.root.glob("answers.sqlite*")]
    assert len(personal) >= 3  # the database, its log and its index
    assert {stat.S_IMODE(path.stat().st_mode) for path in personal} == {0o600}
    assert "'=HYPERLINK" in personal[0].read_text()


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
    assert f"excluded: human:{served.store.study_id}/p0003: 2 wrong on clear distractors" in shown.output
    assert "fleiss kappa" in shown.output
    told = json.loads(run("quality", folder, "--json").stdout)
    assert [one["participant"] for one in told["flagged"]] == [f"human:{served.store.study_id}/p0003"]
    assert {one["measure"] for one in told["agreement"]} >= {"fleiss_kappa", "krippendorff_alpha", "cronbach_alpha"}
    assert run("quality", folder, "--csv").stdout.startswith("participant,group")


def test_export_from_the_command_line(served, tmp_path):
    out = tmp_path / "people.parquet"
    done = run("export", served.study.root, out, "--gold")
    assert done.exit_code == 0
    name = f"human:{served.store.study_id}"
    assert set(read(out).frame["observer"]) == {f"{name}/p0001", f"{name}/p0002"}
    assert json.loads((tmp_path / "people-excluded.json").read_text())["excluded"][0]["participant"] == f"{name}/p0003"
    assert read_exclusions(out)["excluded"][0]["participant"] == f"{name}/p0003"
    assert read_exclusions(tmp_path / "other.parquet") is None
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


def test_two_waves_are_twice_as_many_people(tmp_path):
    """The same design, served from two folders; a study keeps its participants' names when it is opened again."""
    for wave in ("one", "two"):
        with open_study(make_study(tmp_path / wave, "classify", distractors=0)) as here:
            for _ in range(2):
                here.take_part()
        for again in ("a", "b"):
            run("export", tmp_path / wave / "study", tmp_path / f"{wave}-{again}.parquet", "--all")
    first, again = (read(tmp_path / f"one-{name}.parquet").frame["observer"] for name in "ab")
    assert first.equals(again)
    both = read(tmp_path / "one-a.parquet", tmp_path / "two-a.parquet")
    assert both.frame["observer"].n_unique() == 4
    assert not both.notices


@pytest.mark.parametrize(("to", "name"), [("psych-ds", "a"), ("model-vs-human", "a")])
def test_names_with_the_studys_id_survive_every_format(serve_study, tmp_path, to, name):
    here = serve_study(distractors=0)
    here.take_part()
    here.take_part(simulated="panel")
    assert run("export", here.study.root, tmp_path / name, "--format", to, "--all").exit_code == 0
    back = set(read(tmp_path / name, labels=LABELS).frame["observer"])
    assert back == {f"human:{here.store.study_id}/p0001", f"simulated:{here.store.study_id}/p0002"}

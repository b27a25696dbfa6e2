"""Samples: what ships equals what was published, and `sample:NAME` works wherever a trial file does."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from polars.testing import assert_frame_equal

import cosight as package
from cosight.errors import InvalidInput, UnknownName
from cosight.stimuli.images import encode
from cosight.trials import Sample, read, samples, write
from cosight.trials.samples import is_sample, trial_path

ALL = [sample.reference for sample in samples.values()]


# ---- the files


@pytest.mark.parametrize("name", list(samples))
def test_a_sample_holds_what_its_csv_files_hold(mirror, name):
    published, packaged = read(mirror / "error-consistency" / name), read(f"sample:{name}")
    assert_frame_equal(packaged.frame, published.frame)
    assert packaged.sources == published.sources
    assert packaged.space == published.space
    assert packaged.notices == published.notices


@pytest.mark.parametrize("name", list(samples))
def test_a_sample_is_written_as_the_csv_files_it_came_from(mirror, cosight, tmp_path, name):
    assert cosight("trials", "convert", f"sample:{name}", tmp_path / "out").code == 0
    published = sorted((mirror / "error-consistency" / name).iterdir())
    assert [file.name for file in sorted((tmp_path / "out" / name).iterdir())] == [file.name for file in published]
    for file in published:
        assert (tmp_path / "out" / name / file.name).read_bytes() == file.read_bytes()


def test_samples_are_small_and_every_packaged_file_has_an_entry():
    folder = samples["edges"].path.parent
    files = sorted(folder.glob("*.parquet"))
    assert [file.stem for file in files] == sorted(samples)
    assert sum(file.stat().st_size for file in files) < 500_000
    attribution = (folder / "ATTRIBUTION.md").read_text(encoding="utf-8")
    for words in (*(file.name for file in files), "CC BY 4.0", "rgeirhos/texture-vs-shape", "error-consistency"):
        assert words in attribution


def test_all_samples_make_one_table():
    table = read(*ALL)
    assert len(table) == 35 * (1280 + 160 + 160)  # Geirhos et al. 2020
    assert table.observers["kind"].to_list().count("human") == 10
    assert table.observers.height == 35
    assert table.space.name == "model-vs-human-16"


# ---- names


@pytest.mark.parametrize("call", [read, trial_path, package.compare, package.score], ids=lambda call: call.__name__)
def test_an_unknown_sample_is_told_with_the_nearest_name(call):
    with pytest.raises(UnknownName, match=r"^no sample is called 'cue-conflit'; did you mean cue-conflict\?"):
        call("sample:cue-conflit")


@pytest.mark.parametrize(
    "line",
    [
        "trials show sample:edge",
        "trials convert sample:edge out",
        "compare sample:edge",
        "score sample:edge",
        "score sample:edges --humans sample:edge",
        "plan --measure ec --width .1 --pilot sample:edge",
        "evaluate trials:sample:edge --on photos --out run",
    ],
)
def test_the_command_line_says_so_in_one_line(cosight, tmp_path, monkeypatch, line):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.png").write_bytes(encode(np.zeros((32, 32, 3), np.uint8), "png"))
    done = cosight(*line.split())
    assert (done.code, done.out) == (2, "")
    assert done.err == "cosight: no sample is called 'edge'; did you mean edges? (`cosight list samples` shows all)\n"


def test_a_path_names_a_sample_too():
    assert is_sample(Path("sample:edges"))
    assert trial_path(Path("sample:edges")) == trial_path("sample:edges") == samples["edges"].path
    assert not is_sample(None)
    assert trial_path("/tmp/sample:edges") == Path("/tmp/sample:edges")  # an absolute path is a file


def test_a_sample_cannot_be_written(tmp_path, monkeypatch, cosight):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match="cannot be written, got sample:mine; name a file or folder"):
        write(read("sample:edges"), "sample:mine")
    assert cosight("trials", "convert", "sample:edges", "sample:mine").code == 2
    assert list(tmp_path.iterdir()) == []


def test_a_missing_file_is_told(monkeypatch):
    monkeypatch.setattr(Sample, "path", property(lambda sample: Path("/nowhere/edges.parquet")))
    with pytest.raises(InvalidInput, match=r"/nowhere/edges.parquet is missing; reinstall cosight"):
        read("sample:edges")


# ---- wherever a trial file is accepted


def test_the_list_counts_what_is_in_the_files(cosight):
    rows = json.loads(cosight("list", "samples", "--json").out)
    assert [row["name"] for row in rows] == ALL
    for row, reference in zip(rows, ALL, strict=True):
        table = read(reference)
        kinds = table.observers["kind"].to_list()
        assert (row["people"], row["networks"]) == (str(kinds.count("human")), str(kinds.count("model")))
        assert row["trials"] == str(len(table))
        assert row["images"] == str(table.frame["image"].n_unique())
        assert row["licence"] == "CC BY 4.0"
    assert "sample:cue-conflict" in cosight("list", "samples").out


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("trials show sample:edges", "5600 trials, 35 observers"),
        ("trials convert sample:edges edges.parquet", "5600 trials of 35 observers written to edges.parquet"),
        ("compare sample:edges --measure ec --resamples 10", "0.318"),
        ("score sample:edges --measure accuracy --resamples 10", "model:resnet50"),
        ("score sample:edges --humans sample:edges --measure hellinger --resamples 10", "model:resnet50"),
        ("plan --measure ec --difference .05 --pilot sample:edges", "How many trials"),
    ],
)
def test_commands_take_a_sample(cosight, tmp_path, monkeypatch, line, words):
    monkeypatch.chdir(tmp_path)
    done = cosight(*line.split())
    assert done.code == 0, done.err
    assert words in done.out


def test_python_calls_take_a_sample():
    assert package.compare("sample:edges", measure=["ec"], resamples=10).rows
    assert package.score("sample:edges", humans="sample:edges", measure=["hellinger"], resamples=10).rows
    assert package.plan(measure="ec", difference=0.05, pilot="sample:edges").rows


def test_recorded_answers_of_a_sample_are_evaluated(cosight, tmp_path):
    """On images of the sample's names; their pixels do not matter to a recorded observer."""
    folder = tmp_path / "edges" / "airplane"
    folder.mkdir(parents=True)
    for number in (1, 2, 3):
        (folder / f"airplane{number}.png").write_bytes(encode(np.full((32, 32, 3), number, np.uint8), "png"))
    spec = "trials:sample:edges,observer=model:resnet50"
    done = cosight("evaluate", spec, "--on", tmp_path / "edges", "--out", tmp_path / "run")
    assert done.code == 0, done.err
    answered = read(tmp_path / "run").frame
    original = read("sample:edges").frame.filter(observer="model:resnet50")
    given = dict(original.select("image", "response").iter_rows())
    assert answered["image"].to_list() == ["airplane1.png", "airplane2.png", "airplane3.png"]
    assert answered["response"].to_list() == [given[image] for image in answered["image"]]


def test_build_reads_people_from_a_sample(cosight, tmp_path):
    """The samples know their images by name only, so no built set can take their answers; build says so in one line."""
    counts = "1=4,2=2,3=2,4=4,5=2,6=2,7=2,8=4,train=60,distractors=2"
    done = cosight("build", "digits", tmp_path / "digits", "--counts", counts, "--humans", "sample:edges")
    assert done.code == 2
    assert "gold labels need human answers to Uncertain images" in done.err

"""Figures for papers: drawn from the rows as they are, in every format, with clear errors."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pytest

import cosight as package
from cosight.cli.output import RowOutput, write_rows
from cosight.errors import InvalidInput
from cosight.reports.figures import figure, figures
from cosight.statistics.rows import Scores, read_scores


@pytest.fixture(scope="module")
def scores():
    return package.compare("sample:edges", resamples=5, progress=False)


@pytest.fixture(scope="module")
def files(scores, tmp_path_factory):
    """The same rows in each format."""
    folder = tmp_path_factory.mktemp("rows")
    for suffix in ("json", "csv", "parquet"):
        write_rows(scores, RowOutput(folder / f"scores.{suffix}", suffix), lambda: None)
    return folder


@pytest.mark.parametrize("suffix", ["json", "csv", "parquet"])
def test_scores_are_read_back_as_they_were_written(suffix, scores, files):
    found = read_scores(files / f"scores.{suffix}")
    assert found == (scores if suffix != "csv" else Scores(scores.rows, {}))
    if suffix != "csv":
        assert found.settings["confidence"] == 0.95
        assert found.settings["versions"]["cosight"] == version("cosight")


@pytest.mark.parametrize(("suffix", "start"), [("svg", b"<?xml"), ("pdf", b"%PDF"), ("png", b"\x89PNG")])
def test_the_same_rows_give_the_same_bytes(suffix, start, scores, files, tmp_path):
    first = figure("ec-dots", files / "scores.json", out=tmp_path / f"a.{suffix}").read_bytes()
    assert first.startswith(start)
    assert figure("ec-dots", scores, out=tmp_path / f"b.{suffix}").read_bytes() == first


def test_dots_are_where_the_rows_say(scores, tmp_path, monkeypatch):
    drawn = {}

    def keep(kind, request, path):
        from matplotlib.figure import Figure

        canvas = Figure()
        kind.draw(canvas, request)
        drawn["axes"] = canvas.axes[0]

    monkeypatch.setattr("cosight.reports.figures._draw", keep)
    figure("ec-dots", scores, out=tmp_path / "x.svg")
    axes = drawn["axes"]
    dots = next(line for line in axes.lines if line.get_marker() == "o")
    values = dict(zip([label.get_text() for label in axes.get_yticklabels()], dots.get_xdata(), strict=True))
    rows = {
        row.observer: row.value
        for row in scores.rows
        if (row.measure, row.statistic, row.against) == ("error_consistency", "value", "people")
        and row.observer.startswith("model:")
    }
    assert values == rows
    assert list(values.values()) == sorted(values.values())
    people = next(row for row in scores.rows if row.observer == row.against == "people" and row.statistic == "value")
    assert next(line for line in axes.lines if line.get_linestyle() == "--").get_xdata()[0] == people.value


@pytest.mark.parametrize("name", figures)
def test_every_figure_says_which_command_makes_its_rows(name, tmp_path):
    with pytest.raises(InvalidInput, match=r"drawn from (score rows|trials)"):
        figure(name, out=tmp_path / "x.svg")
    assert figures[name].rows.startswith("cosight ")
    assert not list(tmp_path.iterdir())


def test_bad_input_is_one_line_and_writes_nothing(cosight, files, tmp_path):
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "broken.csv").write_text("a,b\n1,2\n")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1")
    (tmp_path / "there.svg").write_text("kept")
    good, new = str(files / "scores.json"), str(tmp_path / "new.svg")
    for arguments, message in [
        (("ec-dot", good, "--out", new), "no figure is called 'ec-dot'; did you mean ec-dots?"),
        (("ec-dots", good, "--out", str(tmp_path / "new.jpg")), "a figure is an .svg, .pdf or .png file"),
        (("ec-dots", good, "--out", str(tmp_path / "there.svg")), "there.svg exists; choose another file, or --force"),
        (("ec-dots", good, "--measure", "cka", "--out", new), "these scores have no rows of"),
        (("ec-dots", str(tmp_path / "none.json"), "--out", new), "is not a file"),
        (("ec-dots", str(tmp_path / "broken.json"), "--out", new), "score rows are JSON"),
        (("ec-dots", str(tmp_path / "broken.csv"), "--out", new), "score rows lack"),
        (("ec-dots", str(tmp_path / "broken.parquet"), "--out", new), "does not have score rows"),
        (("ec-dots", str(tmp_path), "--out", new), "scores.parquet is not a file"),
    ]:
        done = cosight("figure", *arguments)
        assert done.code == 2, arguments
        assert message in done.err
        assert done.err.count("\n") == 1
    assert not Path(new).exists()
    assert (tmp_path / "there.svg").read_text() == "kept"


def test_scores_without_people_are_refused(tmp_path):
    alone = package.compare("sample:edges", pairs="model-model", resamples=5, progress=False)
    with pytest.raises(InvalidInput, match="no model compared with people"):
        figure("ec-dots", alone, out=tmp_path / "x.svg")

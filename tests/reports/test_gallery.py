"""Every registered figure is in the gallery, is drawn by its command, and refuses what it cannot draw."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure

from cosight.errors import InvalidInput
from cosight.reports.figures import FigureRequest, figure, figures
from cosight.reports.plots import COLOURS
from cosight.scoring.score import score
from cosight.statistics.rows import Row, read_scores
from cosight.trials import read

DOCS = Path(__file__).parents[2] / "docs"
REQUIRED = ("shape-bias", "ec-heatmap", "ec-dots", "curves", "gamma-sweep", "risk-coverage", "confusion-difference")


def load_gallery():
    spec = importlib.util.spec_from_file_location("gallery", DOCS / "gallery.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


gallery = load_gallery()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The made-up answers, and the rows of every command that makes some, with few resamples."""
    from cosight.cli.app import app

    path = tmp_path_factory.mktemp("gallery")
    gallery.write_data(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        for source in gallery.SOURCES.values():
            app([*source.command.split()[1:], "--resamples", "5"], standalone_mode=False)
    return path


def rows_of(folder, name):
    return read_scores(folder / gallery.source_of(name).file).rows


def drawn(folder, name):
    canvas = Figure(layout="constrained")
    figures[name].draw(canvas, FigureRequest(rows_of(folder, name)))
    return canvas


def test_the_page_is_up_to_date_and_has_a_picture_of_every_figure():
    assert gallery.PAGE.read_text(encoding="utf-8") == gallery.page(), "run `python docs/gallery.py`"
    assert set(REQUIRED) <= set(figures)
    assert {path.stem for path in gallery.IMAGES.glob("*.png")} == set(figures)


@pytest.mark.parametrize("name", figures)
def test_every_figure_is_drawn_by_its_command(name, folder, cosight, monkeypatch):
    monkeypatch.chdir(folder)
    done = cosight(*gallery.figure_command(name, "svg").split()[1:], "--force")
    assert done.code == 0, done.err
    text = (folder / f"{name}.svg").read_text(encoding="utf-8")
    assert text.startswith("<?xml")
    if name in ("curves", "risk-coverage", "laion-c-best", "laion-c-consistency"):
        assert "simulated" in text  # the people of the made-up answers
    if name == "laion-c-consistency":
        assert "error consistency with simulated people" in text


@pytest.mark.parametrize("name", figures)
def test_rows_without_what_a_figure_needs_are_refused(name):
    with pytest.raises(InvalidInput):
        figures[name].draw(Figure(), FigureRequest((Row(observer="a", measure="response_entropy", value=0.5, n=3),)))


def test_shape_bias_has_the_numbers_of_the_rows(folder):
    axes = drawn(folder, "shape-bias").axes[0]
    dots = next(line for line in axes.lines if line.get_marker() == "o")
    shown = dict(zip([label.get_text() for label in axes.get_yticklabels()], dots.get_xdata(), strict=True))
    rows = {row.observer: row.value for row in rows_of(folder, "shape-bias")}
    assert shown == {name: value for name, value in rows.items() if name.startswith("model:")}
    assert next(line for line in axes.lines if line.get_linestyle() == "--").get_xdata()[0] == rows["people"]


def test_risk_over_coverage_has_curves_of_models_and_a_point_of_people(folder):
    axes = drawn(folder, "risk-coverage").axes[0]
    lines = {line.get_label(): line for line in axes.lines}
    rows = [row for row in rows_of(folder, "risk-coverage") if row.measure == "selective_risk"]
    for model in ("model:bold", "model:careful", "model:weak"):
        at = {row.in_group("coverage"): row.value for row in rows if row.observer == model and row.value is not None}
        own = {float(coverage): value for coverage, value in at.items() if coverage[0].isdigit()}
        assert dict(zip(lines[model].get_xdata(), lines[model].get_ydata(), strict=True)) == own
    people = next(r for r in rows if (r.observer, r.in_group("coverage")) == ("simulated people", "own"))
    assert lines["simulated people, pooled"].get_ydata()[0] == people.value
    assert axes.collections  # intervals as bands


def test_a_sweep_over_gamma_has_the_numbers_of_the_rows(folder):
    panels = drawn(folder, "gamma-sweep").axes
    rows = [row for row in rows_of(folder, "gamma-sweep") if "sweep" in row.flags and row.observer == "model:weak"]
    for panel, cost in zip(panels, ("0", "N/2", "N"), strict=True):
        line = next(line for line in panel.lines if line.get_label().startswith("model:weak"))
        own = sorted((float(row.in_group("gamma")), row.value) for row in rows if row.in_group("cost") == cost)
        assert list(zip(line.get_xdata(), line.get_ydata(), strict=True)) == own
        assert not [one for one in panel.lines if one.get_label().startswith("simulated:")]


def test_lines_of_models_differ_in_colour_and_marker(folder):
    lines = [line for line in drawn(folder, "curves").axes[0].lines if line.get_label().startswith("model:")]
    assert [line.get_color() for line in lines] == list(COLOURS[: len(lines)])
    assert len({line.get_marker() for line in lines}) == len(lines) == 4


def test_the_difference_of_confusions_has_the_numbers_of_the_rows(tmp_path):
    trials = read("sample:edges")
    people = trials.frame.filter(pl.col("kind") == "human")["observer"].unique().to_list()
    scores = score(trials.only("model:alexnet", *people), measure="answer_share", resamples=20, progress=False)
    rows = [row for row in scores.rows if row.statistic == "difference"]
    canvas = Figure()
    figures["confusion-difference"].draw(canvas, FigureRequest(scores.rows))
    shown = np.asarray(canvas.axes[0].images[0].get_array())
    labels = list(dict.fromkeys(row.in_group("answer") for row in rows))
    assert shown.shape == (16, 16)
    for row in rows:
        assert shown[labels.index(row.in_group("truth")), labels.index(row.in_group("answer"))] == row.value
    certain = sum(row.low > 0 or row.high < 0 for row in rows)
    assert len(canvas.axes[0].texts) == certain > 10
    scores.save(tmp_path / "rows.json")
    first, second = (figure("confusion-difference", source, out=tmp_path / f"{at}.svg").read_bytes()
                     for at, source in enumerate((scores, tmp_path / "rows.json")))  # fmt: skip
    assert first == second


def test_bad_requests_are_one_line(tmp_path, cosight):
    out = str(tmp_path / "x.svg")
    for arguments, message in [
        (("confusion-difference", "sample:edges"), "up to 6 models are drawn, got 25; name two observers with --only"),
        (("confusion-difference", "sample:edges", "--only", "people"), "--only names two observers, got people"),
        (("confusion-difference", "sample:edges", "--only", "model:alexnett,people"), "did you mean model:alexnet"),
        (("confusion-difference", "sample:edges", "--measure", "ec"), "has no --measure; leave it out"),
        (("ec-dots", "scores.json", "--only", "a,b"), "has no --only; leave it out"),
    ]:
        done = cosight("figure", *arguments, "--out", out)
        assert (done.code, done.err.count("\n")) == (2, 1), done.err
        assert message in done.err
    with pytest.raises(InvalidInput, match="is drawn from score rows, got something else"):
        figure("ec-dots", read("sample:edges"), out=out)
    assert not list(tmp_path.iterdir())

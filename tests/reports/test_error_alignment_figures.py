"""Figures of error alignment: their numbers are those of the rows, and rows that lack them are refused."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

import cosight
from cosight.errors import InvalidInput
from cosight.reports.figures import FigureRequest, figures
from cosight.statistics.rows import Row
from tests.scoring.made import answered, observers, trials

MA, EC, CLES = "misclassification_agreement", "error_consistency", "class_level_error_similarity"
NAMES = ("heatmap", "scatter", "in-domain", "correlations", "families")


@pytest.fixture(scope="module")
def rows():
    """Two experiments, one of them naturalistic by the patterns that ship with cosight."""
    data = answered(
        observers(people=4, models=5), conditions={"edge": ("x",), "imagenet-a": ("y",)}, skill=0.4, stimuli=40
    )
    families = ["model:0=CNN", "model:1=CNN", "model:2=transformer", "model:3=large", "model:4=large"]
    scores = cosight.score(trials(data), on="error-alignment", families=families, resamples=20, progress=False)
    return scores.rows


def drawn(name, rows, measure=None):
    canvas = Figure(layout="constrained")
    figures["ec-heatmap" if name == "heatmap" else f"alignment-{name}"].draw(
        canvas, FigureRequest(tuple(rows), measure)
    )
    return canvas


def values(rows, measure, experiment):
    return {
        (r.observer, r.against): r.value
        for r in rows
        if (r.measure, r.statistic, r.group) == (measure, "value", (("experiment", experiment),))
    }


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_is_drawn_and_needs_its_rows(name, rows):
    drawn(name, rows).draw_without_rendering()
    with pytest.raises(InvalidInput, match="name a file that `cosight score SOURCES --on error-alignment"):
        drawn(name, [Row(observer="a", against="b", measure=EC, value=0.5, n=10)])


def test_a_heatmap_has_people_first_and_then_family_by_family(rows):
    panel = drawn("heatmap", rows, measure=MA).axes[0]
    assert [label.get_text() for label in panel.get_xticklabels()] == ["person", "CNN", "transformer", "large"]
    grid = np.ma.filled(panel.images[0].get_array().astype(float), np.nan)
    assert grid.shape == (9, 9)
    found = values(rows, MA, "edge")
    assert grid[0, 1] == pytest.approx(found["human:0", "human:1"])
    assert grid[4, 0] == grid[0, 4] == pytest.approx(found["model:0", "human:0"])
    assert grid[4, 5] == pytest.approx(found["model:0", "model:1"])
    assert np.isnan(grid[0, 0])
    assert panel.patch.get_hatch()  # what has no value is hatched, the lowest value is white
    other = drawn("heatmap", rows).axes[0]
    assert np.ma.filled(other.images[0].get_array(), np.nan)[4, 5] == pytest.approx(
        values(rows, EC, "edge")["model:0", "model:1"]
    )


def test_points_are_pairs_and_those_without_a_logarithm_are_counted(rows):
    left, right = drawn("scatter", rows).axes
    expected = [
        (ma, values(rows, EC, name)[pair])
        for name in ("edge", "imagenet-a")
        for pair, ma in values(rows, MA, name).items()
        if ma is not None and ":" in pair[0] and ":" in pair[1] and values(rows, EC, name)[pair] is not None
    ]
    points = np.concatenate([kind.get_offsets() for kind in left.collections])
    assert np.array(sorted(points.tolist())) == pytest.approx(np.array(sorted(expected)))
    hidden = sum(ma <= 0 for ma, _ in expected)
    assert hidden > 0
    assert right.get_title() == f"{hidden} pairs with MA of 0 or less have no logarithm"
    assert sum(len(kind.get_offsets()) for kind in right.collections) == len(expected) - hidden
    assert right.get_xscale() == "log"
    shapes = {tuple(map(tuple, kind.get_paths()[0].vertices.tolist())) for kind in left.collections}
    assert len(shapes) == 3  # people, mixed pairs and models differ in grey too


def test_correlations_above_the_diagonal_are_means_and_below_it_pooled(rows):
    canvas = drawn("correlations", rows)
    assert [panel.get_title() for panel in canvas.axes[:2]] == ["synthetic", "naturalistic"]
    found = {r.group: r.value for r in rows if (r.measure, r.observer, r.against) == ("rank_correlation", EC, MA)}
    grid = np.ma.filled(canvas.axes[0].images[0].get_array().astype(float), np.nan)
    assert grid[0, 1] == pytest.approx(found[(("experiment", "*"), ("domains", "synthetic"))])
    assert grid[1, 0] == pytest.approx(found[(("domains", "synthetic"),)])
    one = [r for r in rows if r.measure != "rank_correlation" or r.group == (("experiment", "edge"),)]
    grid = np.ma.filled(drawn("correlations", one).axes[0].images[0].get_array().astype(float), np.nan)
    assert grid[0, 1] == grid[1, 0] == pytest.approx(found[(("experiment", "edge"),)])


def test_in_domain_correlations_have_a_line_per_domain(rows):
    panel = drawn("in-domain", rows).axes[0]
    assert [label.get_text() for label in panel.get_yticklabels()] == ["edge", "imagenet-a"]
    found = {r.group: r.value for r in rows if (r.measure, r.observer, r.against) == ("rank_correlation", EC, MA)}
    dots = [line.get_xdata()[0] for line in panel.lines if line.get_marker() == "o"]
    assert dots == pytest.approx([found[(("experiment", name),)] for name in ("edge", "imagenet-a")])


def test_z_scores_are_in_the_column_of_their_families(rows):
    panel = drawn("families", rows, measure=EC).axes[0]
    titles = [label.get_text() for label in panel.get_xticklabels()]
    assert titles[0] == "person - person"
    assert "CNN - large" in titles
    column = panel.lines[titles.index("CNN - large")]
    expected = [
        r.value
        for r in rows
        if (r.measure, r.statistic) == (EC, "z") and {v for _, v in r.group[-2:]} == {"CNN", "large"}
    ]
    assert sorted(column.get_ydata()) == pytest.approx(sorted(v for v in expected if v is not None))

"""Pages: data are escaped, tables are whole, nothing is fetched; figures are the same every time."""

import re
from dataclasses import replace

import pytest

from cosight.reports.grids import Grid, GridCell, Line
from cosight.reports.page import Figure, Page, PageTable, Section, write_page
from cosight.reports.plots import Point, _ticks, dots, scatter
from cosight.statistics.rows import Row

NASTY = '<script>alert("x")</script>'


def page():
    lines = (
        Line(("a", ""), (GridCell(NASTY), GridCell("0.5", "best"))),
        Line(("b", ""), (GridCell("second"), GridCell("0.4"))),
    )
    table = PageTable(Grid(("observer", "EC"), lines), "caption", ("a remark",))
    section = Section("First", (NASTY,), (table, replace(table, caption="long", folded=True)))
    return Page("Title", "Verdict", "Lead", (section,), Figure("a.svg", "shows & tells"), (("k", "v"),))


def test_everything_that_is_data_is_escaped(tmp_path):
    text = write_page(page(), tmp_path).read_text(encoding="utf-8")
    assert "<script" not in text
    assert text.count("&lt;script&gt;") == 3
    assert 'alt="shows &amp; tells"' in text


def test_tables_keep_cells_marks_and_sections(tmp_path):
    text = write_page(page(), tmp_path).read_text(encoding="utf-8")
    assert re.findall(r"<th[^>]*>([^<]+)</th>", text) == ["observer", "EC"] * 2
    assert '<td class="best">0.5</td>' in text
    assert text.count('<tr class="first">') == 4
    assert "a remark" in text


def test_a_page_opens_with_the_verdict_and_its_figure_and_long_tables_are_folded(tmp_path):
    text = write_page(page(), tmp_path).read_text(encoding="utf-8")
    order = [text.index(part) for part in ("<h1>Title", ">Verdict<", '<img src="a.svg"', ">Lead<", "<h2>First")]
    assert order == sorted(order)
    (folded,) = re.findall(r"<details>(.*?)</details>", text, flags=re.DOTALL)
    assert "<summary>long (2 lines)</summary>" in folded
    assert folded.count("<table>") == 1
    assert text.count("<table>") == 2


def row(value, low=None, high=None):
    return Row(observer="o", measure="accuracy", value=value, low=low, high=high, n=9)


def test_figures_are_the_same_bytes_and_have_every_point(tmp_path):
    lines = {"one": {"a": row(0.5, 0.4, 0.6), "b": row(0.2)}, "two": {"a": row(None), "b": row(0.3, 0.1, 0.4)}}
    points = [Point(row(0.1, 0.0, 0.2), row(5.0), "g"), Point(row(0.2), row(None), "h")]
    for name in ("first", "second"):
        dots(tmp_path / f"{name}-dots.svg", lines, axis="x")
        scatter(tmp_path / f"{name}-scatter.svg", points, x="x", y="y")
    for kind in ("dots", "scatter"):
        assert (tmp_path / f"first-{kind}.svg").read_bytes() == (tmp_path / f"second-{kind}.svg").read_bytes()
    text = (tmp_path / "first-dots.svg").read_text(encoding="utf-8")
    drawn = [len(re.findall(rf"<(?:circle|rect)[^>]*fill=\"var.--c{index}", text)) for index in (0, 1)]
    assert drawn == [1 + 1, 2 + 1]  # points that have a value, and one in the legend


@pytest.mark.parametrize(
    "values", [[], [0.0], [0.07, 0.43], [0.57], [-0.3, 0.9], [1234.0], [1e-6], [0.599], [5.99, -0.01]]
)
def test_ticks_are_few_round_and_enclose_all_values(values):
    ticks = _ticks(values)
    assert 2 <= len(ticks) <= 8
    assert ticks[0] <= min([0.0, *values]) <= max([0.0, *values]) <= ticks[-1] + 1e-9
    assert 0.0 in ticks

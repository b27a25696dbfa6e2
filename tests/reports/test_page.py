"""Pages: data are escaped, tables are whole, nothing is fetched; figures are the same every time."""

import re

from cosight.reports.grids import Grid, GridCell, Line
from cosight.reports.page import Figure, Page, PageTable, Section, write_page
from cosight.reports.plots import COLOURS, Point, dots, scatter
from cosight.statistics.rows import Row

NASTY = '<script>alert("x")</script>'


def page():
    lines = (
        Line(("a", ""), (GridCell(NASTY), GridCell("0.5", "best"))),
        Line(("b", ""), (GridCell("second"), GridCell("0.4"))),
    )
    table = PageTable(Grid(("observer", "EC"), lines), "caption", ("a remark",))
    return Page(
        "Title", "Lead", (Section("First", (NASTY,), (table, Figure("a.svg", "shows & tells"))),), (("k", "v"),)
    )


def test_everything_that_is_data_is_escaped(tmp_path):
    text = write_page(page(), tmp_path).read_text(encoding="utf-8")
    assert "<script" not in text
    assert text.count("&lt;script&gt;") == 2
    assert 'alt="shows &amp; tells"' in text


def test_tables_keep_cells_marks_and_sections(tmp_path):
    text = write_page(page(), tmp_path).read_text(encoding="utf-8")
    assert re.findall(r"<th[^>]*>([^<]+)</th>", text) == ["observer", "EC"]
    assert '<td class="best">0.5</td>' in text
    assert text.count('<tr class="first">') == 2
    assert "a remark" in text


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
    drawn = [len(re.findall(rf"<use[^>]*fill: {colour}", text)) for colour in COLOURS[:2]]
    assert drawn == [1 + 1, 2 + 1]  # points that have a value, and one in the legend

"""A static page: text, tables and figures in one folder that can be opened, sent or served as it is."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from cosight.files import atomic_write
from cosight.reports.grids import Grid, Line
from cosight.statistics.row_text import unbroken

__all__ = ["Figure", "Page", "PageTable", "Section", "write_page"]


@dataclass(frozen=True, slots=True)
class Figure:
    """An image file beside the page, its text alternative and a caption."""

    file: str
    shows: str
    caption: str = ""


@dataclass(frozen=True, slots=True)
class PageTable:
    """A grid with a caption and remarks below it; a folded one is opened by a click on its caption."""

    grid: Grid
    caption: str
    remarks: tuple[str, ...] = ()
    folded: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, paragraphs, then tables and figures."""

    title: str
    paragraphs: tuple[str, ...] = ()
    parts: tuple[PageTable | Figure, ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """A page.

    Attributes:
        title: The question that it answers.
        verdict: The answer, some sentences.
        lead: What was done.
        figure: The figure that shows the answer.
        sections: Everything else.
        facts: Names and values of what it was made from.
    """

    title: str
    verdict: str
    lead: str
    sections: tuple[Section, ...]
    figure: Figure | None = None
    facts: tuple[tuple[str, str], ...] = ()


def write_page(page: Page, folder: Path) -> Path:
    """Write `folder/index.html` atomically. All data is escaped."""
    from jinja2 import Environment, StrictUndefined

    text = (files("cosight.reports") / "templates" / "page.html").read_text(encoding="utf-8")
    style = (files("cosight.reports") / "templates" / "page.css").read_text(encoding="utf-8")
    template = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template.filters["unbroken"] = unbroken
    html = template.from_string(text).render(page=page, style=style, starts=_section_starts)
    path = folder / "index.html"
    with atomic_write(path) as draft:
        draft.write_text(html, encoding="utf-8")
    return path


def _section_starts(grid: Grid) -> list[tuple[Line, bool]]:
    """Return each line, and whether it starts a section."""
    before = [None, *(line.section for line in grid.lines)]
    return [(line, line.section != last) for line, last in zip(grid.lines, before, strict=False)]

"""The page that `cosight demo` writes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cosight.benchmarks import benchmarks
from cosight.benchmarks.visalign.results_table import AVERAGE, FUNCTIONS, HELLINGER, MOST_COSTLY, TABLE
from cosight.reports.grids import (
    Grid,
    GridCell,
    Line,
    benchmark_grid,
    benchmark_remarks,
    ceiling_remarks,
    comparison_grid,
    made_how,
    number_text,
)
from cosight.reports.page import Figure, Page, PageTable, Section, write_page
from cosight.reports.plots import Point, dots, scatter
from cosight.statistics.abstention_scores import RELIABILITY
from cosight.statistics.rows import Row, Scores
from cosight.statistics.seeds import ObserverName, observer_name

__all__ = ["STRANGE", "SURE", "abstention_grid", "exceptions", "write_demo_page"]

SURE, STRANGE = "clean", "letter"  # conditions of categories 1 and 4
_SHOWN = {SURE: "clean digits", STRANGE: "letters"}


def write_demo_page(folder: Path, benchmark: Scores, abstention: Scores, comparison: Scores) -> Path:
    """Write the page and its figures."""
    lines = {f"{name.title} {name.function}": rows for name, rows in _clean_and_letters(abstention).items()}
    shown = {name: {_SHOWN[key]: row for key, row in rows.items()} for name, rows in lines.items()}
    dots(folder / "abstention.svg", shown, axis="mean abstention, 1 refuses")
    x, y = "average Hellinger distance to the gold labels (lower is nearer)", "reliability score, cost N"
    scatter(folder / "reliability.svg", _points(benchmark), x=x, y=y)
    return write_page(_page(benchmark, abstention, comparison), folder)


def _page(benchmark: Scores, abstention: Scores, comparison: Scores) -> Page:
    return Page(
        title="Do small networks see digits the way people do?",
        lead="Five architectures, trained on handwritten digits, look at what they know, at what they do not know, and "
        "at what nobody is sure about. The people on this page are simulated: their answers come from a model of "
        "people, made before any network was looked at, and stand in for a study that is still to be done.",
        sections=(
            _shown_section(),
            _benchmark_section(benchmark),
            _abstention_section(abstention),
            _errors(comparison),
        ),
        facts=_facts(benchmark),
    )


def _shown_section() -> Section:
    section = benchmarks["digits"].sections["stimuli"]
    picture = Figure(
        "categories.png", "Contact sheet of the eight categories, a row each", "Some images of the test set."
    )
    return Section(section.title, (section.text,), (picture,))


def _benchmark_section(scores: Scores) -> Section:
    section = benchmarks["digits"].sections["table"]
    table = TABLE.table(scores)
    marks = "\u00b1 standard deviation over seeds; best bold and *, second best underlined and +"
    details = PageTable(benchmark_grid(table, summary=False), f"Distance by category. {marks}")
    remarks = tuple(benchmark_remarks(TABLE, scores))
    in_all = PageTable(benchmark_grid(table, summary=True), f"In all. {marks}; {made_how(scores)}", remarks)
    plot = Figure(
        "reliability.svg",
        "Average distance against reliability, a point for each architecture and function",
        "Is who is nearer to the gold labels more reliable? One point for each architecture and abstention function.",
    )
    return Section(section.title, (section.text,), (plot, in_all, details))


def _abstention_section(scores: Scores) -> Section:
    lines, lost = len(_clean_and_letters(scores)), exceptions(scores)
    words = (
        "Abstention is scaled on a split of its own; letters are refused more than clean digits in "
        f"{lines - len(lost)} of {lines} lines." + (f" Not so: {', '.join(lost)}." if lost else ""),
    )
    plot = Figure("abstention.svg", "Mean abstention of clean digits and of letters, with intervals")
    return Section("Clean digits against letters", words, (plot, PageTable(abstention_grid(scores), made_how(scores))))


def _errors(scores: Scores) -> Section:
    words = (
        "One network of each architecture and some simulated persons, on the images that show a digit: do they fail on "
        "the same images (EC), in the same way (MA), on the same classes (CLES)?",
    )
    table = PageTable(comparison_grid(scores, list_pairs=False), made_how(scores), tuple(ceiling_remarks(scores)))
    return Section("Whose errors are alike?", words, (table,))


def _facts(scores: Scores) -> tuple[tuple[str, str], ...]:
    versions = ", ".join(f"{name} {version}" for name, version in scores.settings["versions"].items())
    return (("Seed", str(scores.settings["seed"])), ("Made with", versions))


def _clean_and_letters(scores: Scores) -> Mapping[ObserverName, dict[str, Row]]:
    """For each model and function the rows of clean digits and of letters: means over seeds where there are several."""
    lines = _lines(scores)
    pairs: dict[ObserverName, dict[str, Row]] = {}
    for row in scores.rows:
        name, condition = observer_name(row.observer), row.in_group("condition")
        if row.statistic == "value" and row.observer in lines and condition in _SHOWN and name.function:
            pairs.setdefault(name, {})[condition] = row
    return dict(sorted(pairs.items(), key=lambda item: (item[0].model, FUNCTIONS.index(item[0].function or ""))))


def abstention_grid(scores: Scores) -> Grid:
    """Mean abstention of clean digits and of letters, a line for each model and function."""
    lines = [
        Line(
            ((), name.model),
            (
                GridCell(name.title),
                GridCell(name.function or ""),
                *(GridCell(number_text(rows[key])) for key in _SHOWN),
            ),
        )
        for name, rows in _clean_and_letters(scores).items()
    ]
    return Grid(("model", "function", *_SHOWN.values()), tuple(lines))


def exceptions(scores: Scores) -> list[str]:
    """Models with functions that do not refuse letters more than clean digits."""
    return [
        f"{name.title} with {name.function}"
        for name, rows in _clean_and_letters(scores).items()
        if (rows[STRANGE].value or 0) <= (rows[SURE].value or 0)
    ]


def _points(scores: Scores) -> list[Point]:
    """Distance and reliability of each line of the table, coloured by abstention function."""
    rows = {(row.observer, row.measure, row.group): row for row in scores.rows if row.statistic == "value"}
    return [
        Point(near, safe, line.function)
        for line in TABLE.table(scores).lines
        if (near := rows.get((line.observer, HELLINGER, AVERAGE)))
        and (safe := rows.get((line.observer, RELIABILITY, MOST_COSTLY)))
    ]


def _lines(scores: Scores) -> set[str]:
    """Means over seeds, and observers that have no such mean."""
    names = {row.observer for row in scores.rows}
    return {name for name in names if observer_name(name).seed is None or observer_name(name).line not in names}

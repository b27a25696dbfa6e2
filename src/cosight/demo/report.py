"""The page that `cosight demo` writes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cosight.reports.grids import (
    Cell,
    Grid,
    Line,
    benchmark_grid,
    benchmark_remarks,
    ceiling_remarks,
    comparison_grid,
    made_how,
    number_text,
)
from cosight.reports.page import Figure, Page, Section, Table, write_page
from cosight.reports.plots import Point, dots, scatter
from cosight.scoring.score import ABSTENTION
from cosight.scoring.visalign import FUNCTIONS, HELLINGER, visalign_table
from cosight.statistics.rows import Row, Scores
from cosight.statistics.seeds import observer_name

__all__ = ["STRANGE", "SURE", "abstention_grid", "exceptions", "write_demo_page"]

SURE, STRANGE = "clean", "letter"  # conditions of categories 1 and 4
_SHOWN = {SURE: "clean digits", STRANGE: "letters"}
_RELIABLE = "reliability_score.cost_n"


def write_demo_page(folder: Path, benchmark: Scores, abstention: Scores, comparison: Scores) -> Path:
    """Write the page and its figures."""
    lines = {f"{model} {function}": rows for (model, function), rows in _told_apart(abstention).items()}
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
    words = (
        "Categories 1 to 3 are digits and are to be named (Must-Act); 4 to 7 are none, and are to be refused "
        "(Must-Abstain); of the corrupted digits in 8 a simulated panel's answers decide.",
    )
    picture = Figure(
        "categories.png", "Contact sheet of the eight categories, a row each", "Some images of the test set."
    )
    return Section("What was shown", words, (picture,))


def _benchmark_section(scores: Scores) -> Section:
    words = (
        "For every architecture and abstention function: how far the answers are from the gold labels, by category, "
        "and how far one can rely on them. A wrong answer costs 0, half the number of images, or all of it.",
    )
    whole = benchmark_grid(visalign_table(scores))
    categories = [name for name in whole.headers if name.isdigit()]
    summary = [name for name in whole.headers if name not in categories]
    marks = "\u00b1 standard deviation over seeds; best bold and *, second best underlined and +"
    by_category = Table(whole.only(["model", "function", *categories]), f"Distance by category. {marks}")
    in_all = Table(whole.only(summary), f"In all. {marks}; {made_how(scores)}", tuple(benchmark_remarks(scores)))
    plot = Figure(
        "reliability.svg",
        "Average distance against reliability, a point for each architecture and function",
        "Is who is nearer to the gold labels more reliable? One point for each architecture and abstention function.",
    )
    return Section("Distance and reliability", words, (plot, in_all, by_category))


def _abstention_section(scores: Scores) -> Section:
    found = _told_apart(scores)
    lost = exceptions(scores)
    told = f"letters are refused more than clean digits in {len(found) - len(lost)} of {len(found)} lines"
    words = (f"Abstention is scaled on a split of its own; {told}." + (f" Not so: {', '.join(lost)}." if lost else ""),)
    plot = Figure("abstention.svg", "Mean abstention of clean digits and of letters, with intervals")
    return Section("Clean digits against letters", words, (plot, Table(abstention_grid(scores), made_how(scores))))


def _errors(scores: Scores) -> Section:
    words = (
        "One network of each architecture and some simulated persons, on the images that show a digit: do they fail on "
        "the same images (EC), in the same way (MA), on the same classes (CLES)?",
    )
    table = Table(comparison_grid(scores, list_pairs=False), made_how(scores), tuple(ceiling_remarks(scores)))
    return Section("Whose errors are alike?", words, (table,))


def _facts(scores: Scores) -> tuple[tuple[str, str], ...]:
    versions = ", ".join(f"{name} {version}" for name, version in scores.settings["versions"].items())
    return (("Seed", str(scores.settings["seed"])), ("Made with", versions))


def _told_apart(scores: Scores) -> Mapping[tuple[str, str], dict[str, Row]]:
    """For each model and function the rows of clean digits and of letters: means over seeds where there are several."""
    lines = _lines(scores)
    found: dict[tuple[str, str], dict[str, Row]] = {}
    for row in scores.rows:
        name = observer_name(row.observer)
        condition = row.group.removeprefix("condition=")
        if row.measure == ABSTENTION and row.observer in lines and condition in _SHOWN and name.function:
            found.setdefault((name.title, name.function), {})[condition] = row
    return dict(sorted(found.items(), key=lambda item: (item[0][0].rpartition(" x ")[2], FUNCTIONS.index(item[0][1]))))


def abstention_grid(scores: Scores) -> Grid:
    """Mean abstention of clean digits and of letters, a line for each model and function."""
    lines = [
        Line(
            (model.rpartition(" x ")[2], ""),
            (Cell(model), Cell(function), *(Cell(number_text(rows[key])) for key in _SHOWN)),
        )
        for (model, function), rows in _told_apart(scores).items()
    ]
    return Grid(("model", "function", *_SHOWN.values()), tuple(lines))


def exceptions(scores: Scores) -> list[str]:
    """Models with functions that do not refuse letters more than clean digits."""
    return [
        f"{model} with {function}"
        for (model, function), rows in _told_apart(scores).items()
        if (rows[STRANGE].value or 0) <= (rows[SURE].value or 0)
    ]


def _points(scores: Scores) -> list[Point]:
    """Distance and reliability of each line of the table, coloured by abstention function."""
    near = {row.observer: row for row in scores.rows if row.measure == HELLINGER and row.group == "category=*"}
    safe = {row.observer: row for row in scores.rows if row.measure == _RELIABLE and not row.group}
    lines = [name for name in near if name in safe and name in _lines(scores)]
    return [Point(near[name], safe[name], observer_name(name).function or "") for name in lines]


def _lines(scores: Scores) -> set[str]:
    """Means over seeds, and observers that have no such mean."""
    names = {row.observer for row in scores.rows}
    return {name for name in names if observer_name(name).seed is None or observer_name(name).line not in names}

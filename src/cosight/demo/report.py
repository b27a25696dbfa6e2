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
    interval_caption,
    number_text,
)
from cosight.reports.page import Figure, Page, PageTable, Section, write_page
from cosight.reports.plots import Point, dots, scatter
from cosight.statistics.abstention_scores import RELIABILITY
from cosight.statistics.rows import Row, Scores
from cosight.statistics.seeds import ObserverName, observer_name

__all__ = ["CLEAN", "LETTER", "abstention_grid", "exceptions", "write_demo_page"]

CLEAN, LETTER = "clean", "letter"  # conditions of categories 1 and 4
_TITLES = {CLEAN: "clean digits", LETTER: "letters"}


def write_demo_page(folder: Path, benchmark: Scores, abstention: Scores, comparison: Scores) -> Path:
    """Write the page and its figures."""
    by_name = {
        f"{name.title} {name.function}": {_TITLES[condition]: row for condition, row in rows.items()}
        for name, rows in _clean_and_letters(abstention).items()
    }
    dots(folder / "abstention.svg", by_name, axis="mean abstention, 1 refuses")
    values = {(row.observer, row.measure, row.group): row for row in benchmark.rows if row.statistic == "value"}
    points = [
        Point(distance, reliability, line.function)
        for line in TABLE.table(benchmark).lines
        if (distance := values.get((line.observer, HELLINGER, AVERAGE)))
        and (reliability := values.get((line.observer, RELIABILITY, MOST_COSTLY)))
    ]
    x, y = "average Hellinger distance to the gold labels (lower is nearer)", "reliability score, cost N"
    scatter(folder / "reliability.svg", points, x=x, y=y)
    versions = ", ".join(f"{name} {version}" for name, version in benchmark.settings["versions"].items())
    page = Page(
        title="Do small networks see digits the way people do?",
        lead="Five architectures, trained on handwritten digits, look at what they know, at what they do not know, and "
        "at what nobody is sure about. The people on this page are simulated: their answers come from a model of "
        "people, made before any network was looked at, and stand in for a study that is still to be done.",
        sections=(
            _stimuli_section(),
            _benchmark_section(benchmark),
            _abstention_section(abstention),
            _errors_section(comparison),
        ),
        facts=(("Seed", str(benchmark.settings["seed"])), ("Made with", versions)),
    )
    return write_page(page, folder)


def _stimuli_section() -> Section:
    section = benchmarks["digits"].sections["stimuli"]
    picture = Figure(
        "categories.png", "Contact sheet of the eight categories, one row each", "Some images of the test set."
    )
    return Section(section.title, (section.text,), (picture,))


def _benchmark_section(scores: Scores) -> Section:
    section = benchmarks["digits"].sections["table"]
    table = TABLE.table(scores)
    marks = "\u00b1 standard deviation over seeds; best bold and *, second best underlined and +"
    details = PageTable(benchmark_grid(table, summary=False), f"Distance by category. {marks}")
    remarks = tuple(benchmark_remarks(TABLE, scores))
    summary = PageTable(benchmark_grid(table, summary=True), f"Summary. {marks}; {interval_caption(scores)}", remarks)
    plot = Figure(
        "reliability.svg",
        "Average distance against reliability, one point per architecture and function",
        "Are models that are nearer to the gold labels more reliable? One point per architecture and abstention "
        "function.",
    )
    return Section(section.title, (section.text,), (plot, summary, details))


def _abstention_section(scores: Scores) -> Section:
    count, names = len(_clean_and_letters(scores)), exceptions(scores)
    text = (
        "Abstention is scaled on a split of its own; it is higher on letters than on clean digits in "
        f"{count - len(names)} of {count} lines." + (f" Exceptions: {', '.join(names)}." if names else "")
    )
    plot = Figure("abstention.svg", "Mean abstention of clean digits and of letters, with intervals")
    table = PageTable(abstention_grid(scores), interval_caption(scores))
    return Section("Clean digits against letters", (text,), (plot, table))


def _errors_section(scores: Scores) -> Section:
    text = (
        "One network per architecture and some simulated persons, on the images that show a digit: do they fail on the "
        "same images (EC), in the same way (MA), on the same classes (CLES)?"
    )
    remarks = tuple(ceiling_remarks(scores))
    table = PageTable(comparison_grid(scores, list_pairs=False), interval_caption(scores), remarks)
    return Section("Whose errors are alike?", (text,), (table,))


def _clean_and_letters(scores: Scores) -> Mapping[ObserverName, dict[str, Row]]:
    """Return the rows of clean digits and of letters per model and function, means over seeds if there are any."""
    observers = {row.observer for row in scores.rows}
    pairs: dict[ObserverName, dict[str, Row]] = {}
    for row in scores.rows:
        name, condition = observer_name(row.observer), row.in_group("condition")
        has_mean = name.seed is not None and name.line in observers
        if row.statistic == "value" and not has_mean and condition in _TITLES and name.function:
            pairs.setdefault(name, {})[condition] = row
    return dict(sorted(pairs.items(), key=lambda item: (item[0].model, FUNCTIONS.index(item[0].function or ""))))


def abstention_grid(scores: Scores) -> Grid:
    """Return mean abstention of clean digits and of letters, one line per model and function."""
    lines = []
    for name, rows in _clean_and_letters(scores).items():
        texts = [name.title, name.function or "", *(number_text(rows[condition]) for condition in _TITLES)]
        lines.append(Line(((), name.model), tuple(GridCell(text) for text in texts)))
    return Grid(("model", "function", *_TITLES.values()), tuple(lines))


def exceptions(scores: Scores) -> list[str]:
    """Return the models and functions whose abstention is not higher on letters than on clean digits."""
    return [
        f"{name.title} with {name.function}"
        for name, rows in _clean_and_letters(scores).items()
        if (rows[LETTER].value or 0) <= (rows[CLEAN].value or 0)
    ]

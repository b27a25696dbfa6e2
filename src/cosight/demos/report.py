"""The page that `cosight demo` writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cosight.benchmarks import benchmarks
from cosight.benchmarks.visalign.results_table import AVERAGE, FUNCTIONS, HELLINGER, MOST_COSTLY, TABLE
from cosight.demos.people import SAMPLE
from cosight.reports.grids import (
    Grid,
    GridCell,
    Line,
    benchmark_grid,
    benchmark_remarks,
    ceiling_remarks,
    comparison_grid,
    interval_caption,
)
from cosight.reports.page import Figure, Page, PageTable, Section, write_page
from cosight.reports.plots import Point, dots, scatter
from cosight.statistics.abstention_scores import RELIABILITY
from cosight.statistics.row_text import number_text
from cosight.statistics.rows import PEOPLE, Row, Scores
from cosight.statistics.seeds import ObserverName, display_name, observer_name
from cosight.statistics.verdict import closest_model, ranked_models, verdict_text
from cosight.trials.samples import sample_counts

if TYPE_CHECKING:
    from cosight.demos.digits import DigitsResult

__all__ = [
    "CLEAN",
    "LETTER",
    "abstention_grid",
    "comparison_dots",
    "digits_summary",
    "exceptions",
    "people_summary",
    "write_demo_page",
]

CLEAN, LETTER = "clean", "letter"  # conditions of categories 1 and 4
_TITLES = {CLEAN: "clean digits", LETTER: "letters"}
_MOST_DOTS = 15  # lines of the figure of distances
_MOST_SUMMARY = 3  # networks of a summary


def write_demo_page(folder: Path, people: Scores | None, digits: DigitsResult | None) -> Path:
    """Write the page and its figures.

    Args:
        folder: Where to.
        people: Real people and networks compared; None leaves that part out.
        digits: Scores on the digits benchmark; None leaves that part out. At least one of the two is given.
    """
    parts = []
    if people is not None:
        parts.append(_people_part(folder, people))
    if digits is not None:
        parts.append(_digits_part(folder, digits))
    first, *others = parts
    sections = list(first.sections)
    for part in others:
        pictures = () if part.figure is None else (part.figure,)
        sections += [Section(part.title, (part.verdict, part.lead), pictures), *part.sections]
    return write_page(replace(first, sections=tuple(sections)), folder)


def _people_part(folder: Path, scores: Scores) -> Page:
    counts = sample_counts(SAMPLE)
    comparison_dots(folder / "people.svg", scores)
    figure = Figure(
        "people.svg",
        "Error consistency of each network with people, with intervals, the closest first; people on top",
        "Do networks fail on the same images as people? Error consistency (EC): 0 as often as chance makes it, 1 on "
        f"exactly the same images. {_upper(interval_caption(scores))}. The dashed line is people's agreement with each "
        "other.",
    )
    table = PageTable(
        comparison_grid(scores, people=True), "Every person and network", tuple(ceiling_remarks(scores)), folded=True
    )
    lead = (
        f"{counts['people']} people and {counts['networks']} networks named the objects in the same {counts['images']} "
        f"{SAMPLE.experiment}. Right is the shape. Source: {SAMPLE.source}."
    )
    return Page(
        title="Which network sees the way people do?",
        verdict=verdict_text(scores),
        lead=lead,
        figure=figure,
        sections=(Section("All numbers", (), (table,)),),
        facts=_facts(scores),
    )


def _digits_part(folder: Path, digits: DigitsResult) -> Page:
    by_name = {
        f"{name.title} {name.function}": {_TITLES[condition]: row for condition, row in rows.items()}
        for name, rows in _clean_and_letters(digits.abstention).items()
    }
    dots(folder / "abstention.svg", by_name, axis="mean abstention, 1 refuses")
    values = {(row.observer, row.measure, row.group): row for row in digits.benchmark.rows if row.statistic == "value"}
    points = [
        Point(distance, reliability, line.function)
        for line in TABLE.table(digits.benchmark).lines
        if (distance := values.get((line.observer, HELLINGER, AVERAGE)))
        and (reliability := values.get((line.observer, RELIABILITY, MOST_COSTLY)))
    ]
    x, y = "average Hellinger distance to the gold labels (lower is nearer)", "reliability score, cost N"
    scatter(folder / "reliability.svg", points, x=x, y=y)
    ranked = ranked_models(digits.benchmark, HELLINGER, AVERAGE)
    shown = {display_name(row.observer): {"": row} for row in ranked[:_MOST_DOTS]}
    dots(folder / "distance.svg", shown, axis="average Hellinger distance to the gold labels")
    figure = Figure(
        "distance.svg",
        "Average distance to the gold labels of simulated people, with intervals, the closest first",
        f"The {len(shown)} closest of {len(ranked)} networks and abstention functions: average Hellinger distance to "
        "the gold labels of simulated people over the eight categories, 0 the same, 1 no answer in common. "
        f"{_upper(interval_caption(digits.benchmark))}.",
    )
    return Page(
        title="Do small networks see digits the way people do?",
        verdict=verdict_text(digits.benchmark),
        lead="Five architectures, trained on handwritten digits, answer images that show a digit, images that show "
        "none, and images that nobody is sure about. The people of this part are simulated: their answers come from a "
        "model of people that was made before any network was trained. They stand in for a study that is still to be "
        "done.",
        figure=figure,
        sections=(
            _stimuli_section(),
            _benchmark_section(digits.benchmark),
            _abstention_section(digits.abstention),
            _errors_section(digits.comparison),
        ),
        facts=_facts(digits.benchmark),
    )


def comparison_dots(path: Path, scores: Scores) -> None:
    """Draw each model's value with people, the closest first, below people's agreement with each other."""
    verdict = closest_model(scores)
    if verdict is None:
        return
    label = f"{verdict.people} with each other"
    lines = {} if verdict.agreement is None else {label: {verdict.people or PEOPLE: verdict.agreement}}
    lines |= {display_name(row.observer): {"networks": row} for row in verdict.ranked}
    dots(path, lines, axis=f"{verdict.measure.replace('_', ' ')} with {verdict.people}", reference=label)


def people_summary(scores: Scores) -> Grid:
    """Return the closest networks as a small table, people's agreement with each other first."""
    verdict = closest_model(scores)
    if verdict is None:
        return Grid((), ())
    rows = [*([verdict.agreement] if verdict.agreement else []), *verdict.ranked[:_MOST_SUMMARY]]
    accuracy = {row.observer: row for row in scores.rows if row.measure == "accuracy" and row.against is None}
    lines = []
    for index, row in enumerate(rows):
        place = "" if row is verdict.agreement else str(index + 1 - (verdict.agreement is not None))
        right = number_text(accuracy[row.observer]) if row.observer in accuracy else ""
        texts = [place, row.observer, number_text(row), right]
        lines.append(Line(((), ""), tuple(GridCell(text) for text in texts)))
    return Grid(("", "observer", verdict.measure.replace("_", " "), "accuracy"), tuple(lines), 2)


def digits_summary(scores: Scores) -> Grid:
    """Return the closest lines of the benchmark's table as a small table."""
    lines = []
    for index, row in enumerate(ranked_models(scores, HELLINGER, AVERAGE)[:_MOST_SUMMARY], start=1):
        name = observer_name(row.observer)
        texts = [str(index), name.title, name.function or "none", number_text(row)]
        lines.append(Line(((), ""), tuple(GridCell(text) for text in texts)))
    return Grid(("", "network", "abstention", "average distance"), tuple(lines), 3)


def _facts(scores: Scores) -> tuple[tuple[str, str], ...]:
    versions = ", ".join(f"{name} {version}" for name, version in scores.settings["versions"].items())
    return (("Seed", str(scores.settings["seed"])), ("Made with", versions))


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _stimuli_section() -> Section:
    section = benchmarks["digits"].sections["stimuli"]
    picture = Figure(
        "categories.png", "Contact sheet of the eight categories, one row each", "Some images of the test set."
    )
    return Section(section.title, (section.text,), (picture,))


def _benchmark_section(scores: Scores) -> Section:
    section = benchmarks["digits"].sections["table"]
    table = TABLE.table(scores)
    marks = f"{_upper(interval_caption(scores))}; \u00b1 standard deviation over seeds; best bold and *, second best "
    marks += "underlined and +"
    by_category = PageTable(benchmark_grid(table, summary=False), "Distance by category", (marks,), folded=True)
    remarks = (marks, *benchmark_remarks(TABLE, scores))
    summary = PageTable(benchmark_grid(table, summary=True), "Average distance and reliability", remarks, folded=True)
    plot = Figure(
        "reliability.svg",
        "Average distance against reliability, one point per architecture and function",
        "Are models that are nearer to the gold labels more reliable? One point per architecture and abstention "
        "function.",
    )
    return Section(section.title, (section.text,), (plot, summary, by_category))


def _abstention_section(scores: Scores) -> Section:
    count, names = len(_clean_and_letters(scores)), exceptions(scores)
    text = (
        "Abstention is scaled on a split of its own; it is higher on letters than on clean digits in "
        f"{count - len(names)} of {count} lines." + (f" Exceptions: {', '.join(names)}." if names else "")
    )
    plot = Figure(
        "abstention.svg",
        "Mean abstention of clean digits and of letters, with intervals",
        f"Mean abstention, 0 never refuses, 1 always. {_upper(interval_caption(scores))}.",
    )
    table = PageTable(abstention_grid(scores), "Mean abstention of clean digits and of letters", folded=True)
    return Section("Clean digits against letters", (text,), (plot, table))


def _errors_section(scores: Scores) -> Section:
    text = (
        "One network per architecture and some simulated persons, on the images that show a digit: do they fail on the "
        "same images (EC), in the same way (MA), on the same classes (CLES)?"
    )
    remarks = tuple(ceiling_remarks(scores))
    table = PageTable(comparison_grid(scores), _upper(interval_caption(scores)), remarks)
    return Section("Whose errors are alike?", (text, verdict_text(scores)), (table,))


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

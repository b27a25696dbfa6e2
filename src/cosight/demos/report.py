"""The report that `cosight demo` writes, and the summaries that it prints."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from cosight.benchmarks import benchmarks
from cosight.benchmarks.visalign.results_table import AVERAGE, FUNCTIONS, HELLINGER
from cosight.demos.people import SAMPLE
from cosight.demos.size import STIMULI
from cosight.reports.grids import Grid, GridCell, Line
from cosight.reports.site.answers import AnswerSet, read_answers
from cosight.reports.site.method import method_facts
from cosight.reports.site.parts import ReportPart
from cosight.reports.site.report import write_site
from cosight.statistics.row_text import number_text
from cosight.statistics.rows import Row, Scores
from cosight.statistics.seeds import ObserverName, observer_name
from cosight.statistics.verdict import closest_model, ranked_models
from cosight.trials.formats import TrialSource
from cosight.trials.samples import sample_counts

if TYPE_CHECKING:
    from cosight.demos.digits import DigitsResult

__all__ = ["CLEAN", "LETTER", "digits_summary", "exceptions", "people_summary", "write_demo_report"]

CLEAN, LETTER = "clean", "letter"  # conditions of categories 1 and 4
_MOST_SUMMARY = 3  # networks of a summary


def write_demo_report(
    folder: Path, out: Path, people: Scores | None, digits: DigitsResult | None, *, seed: int
) -> Path:
    """Write the report of a demo and return its page.

    Args:
        folder: Folder of the demo.
        out: Folder of the report.
        people: Real people and networks compared; None leaves that part out.
        digits: Scores on the digits benchmark; None leaves that part out. At least one of the two is given.
        seed: Seed of the demo.
    """
    answers: list[AnswerSet] = []
    parts: list[ReportPart] = []
    sources: list[TrialSource] = []
    if people is not None:
        answers += _read(SAMPLE.reference)
        sources.append(SAMPLE.reference)
        parts.append(_people_part(people))
    if digits is not None:
        answers += _read(digits.answers, folder / STIMULI)
        sources += [folder / STIMULI, *sorted((folder / "runs").iterdir())]
        parts += _digits_parts(digits, len(answers) - 1)
    command = " ".join(["cosight demo", *(["people"] if digits is None else ["digits"] if people is None else [])])
    method = method_facts(parts, sources, command=command, passed={"out": folder, "seed": seed}, defaulted={})
    title = "Which network sees the way people do?"
    return write_site(out, parts, answers, title=title, method=method).page


def _read(*sources: TrialSource) -> list[AnswerSet]:
    return read_answers(sources, labels=None, role=("test",), gamma=0.5)


def _people_part(scores: Scores) -> ReportPart:
    counts = sample_counts(SAMPLE)
    text = (
        f"{counts['people']} people and {counts['networks']} networks named the objects in the same {counts['images']} "
        f"{SAMPLE.experiment}. Right is the shape. Do networks fail on the same images as people? Error consistency "
        f"(EC): 0 as often as chance makes it, 1 on exactly the same images. Source: {SAMPLE.source}."
    )
    return ReportPart("people", "Real people and networks", text, scores, 0)


def _digits_parts(digits: DigitsResult, answers: int) -> list[ReportPart]:
    count, names = len(_clean_and_letters(digits.abstention)), exceptions(digits.abstention)
    return [
        ReportPart(
            "digits",
            "Digits and simulated people",
            "Five architectures, trained on handwritten digits, answer images that show a digit, images that show "
            "none, and images that nobody is sure about. The people of this part are simulated: their answers come "
            "from a model of people that was made before any network was trained. They stand in for a study that is "
            "still to be done.",
            digits.benchmark,
            answers,
            benchmarks["digits"],
        ),
        ReportPart(
            "errors",
            "Whose errors are alike?",
            "One network per architecture and some simulated persons, on the images that show a digit: do they fail "
            "on the same images (EC), in the same way (MA), on the same classes (CLES)?",
            digits.comparison,
            answers,
        ),
        ReportPart(
            "abstention",
            "Clean digits against letters",
            "Abstention is scaled on a split of its own; it is higher on letters than on clean digits in "
            f"{count - len(names)} of {count} lines." + (f" Exceptions: {', '.join(names)}." if names else ""),
            digits.abstention,
            answers,
        ),
    ]


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


def _clean_and_letters(scores: Scores) -> Mapping[ObserverName, dict[str, Row]]:
    """Return the rows of clean digits and of letters per model and function, means over seeds if there are any."""
    observers = {row.observer for row in scores.rows}
    pairs: dict[ObserverName, dict[str, Row]] = {}
    for row in scores.rows:
        name, condition = observer_name(row.observer), row.in_group("condition")
        has_mean = name.seed is not None and name.line in observers
        if row.statistic == "value" and not has_mean and condition in (CLEAN, LETTER) and name.function:
            pairs.setdefault(name, {})[condition] = row
    return dict(sorted(pairs.items(), key=lambda item: (item[0].model, FUNCTIONS.index(item[0].function or ""))))


def exceptions(scores: Scores) -> list[str]:
    """Return the models and functions whose abstention is not higher on letters than on clean digits."""
    return [
        f"{name.title} with {name.function}"
        for name, rows in _clean_and_letters(scores).items()
        if (rows[LETTER].value or 0) <= (rows[CLEAN].value or 0)
    ]

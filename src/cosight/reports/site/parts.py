"""The parts of a report: which scores are computed from its sources, by `compare` and `score`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from cosight.benchmarks import Benchmark, benchmarks
from cosight.errors import InvalidInput
from cosight.reports.site.answers import AnswerSet
from cosight.scoring.compare import compare
from cosight.scoring.score import score
from cosight.statistics.rows import Scores

__all__ = ["ReportPart", "benchmarks_of", "score_parts"]

_MOST_MODELS = 50  # that are compared with each other where there are no people, and by `error-alignment`
_ALIGNMENT = "error-alignment"
_TITLES = {
    "compare": ("Answers and errors", "How alike are the answers and errors of every two observers?"),
    "score": ("Each observer", "How well does each observer answer, and how close is it to people's answers?"),
}


@dataclass(frozen=True, slots=True)
class ReportPart:
    """Scores that are shown together: one leaderboard, one verdict, one page.

    Attributes:
        name: Name in addresses of pages, unique in a report.
        title: Heading.
        text: One or two sentences: what was done.
        scores: The rows and how they were computed.
        answers: Index of the set of answers that they were computed from; None where those are not shown.
        benchmark: The registry entry whose table the rows make.
        verdict: The verdict in words; None derives it from the rows.
    """

    name: str
    title: str
    text: str
    scores: Scores
    answers: int | None = None
    benchmark: Benchmark | None = None
    verdict: str | None = None


def score_parts(
    answers: Sequence[AnswerSet],
    *,
    on: Sequence[str] | None,
    options: dict[str, Any],
    progress: Callable[[int, int, str], None] | None = None,
) -> tuple[list[ReportPart], list[str]]:
    """Compute every score of a report.

    Args:
        answers: The sets of answers, one per label space.
        on: Names of benchmarks whose tables are made; None for those that the experiments belong to.
        options: Options of `compare` and `score`.
        progress: Called with parts done, parts in all, and a description.

    Returns:
        The parts, and why others could not be computed.

    Raises:
        InvalidInput: A benchmark that was asked for cannot be computed, or nothing can.
        UnknownName: There is no such benchmark.
    """
    entries = None if on is None else [benchmarks[name] for name in on]
    plans: list[tuple[int, str, Benchmark | None]] = []
    for index, group in enumerate(answers):
        wanted = benchmarks_of(group) if entries is None else entries
        plans += [(index, entry.name, entry) for entry in wanted]
        # `error-alignment` has the same rows and more; answers to tasks cannot be compared with classifications
        compared = any(entry.comparison is not None or (entry.table and entry.table.is_own) for entry in wanted)
        plans += [
            (index, name, None) for name in _TITLES if name == "score" or (_is_comparable(group) and not compared)
        ]
    parts: list[ReportPart] = []
    problems: list[str] = []
    for done, (index, name, entry) in enumerate(plans):
        group = answers[index]
        if progress:
            progress(done, len(plans), f"score: {name}")
        try:
            if entry is not None:
                scores = score(*group.sources, on=entry.name, progress=False, **options)
            else:
                scores = (compare if name == "compare" else score)(*group.sources, progress=False, **options)
        except InvalidInput as error:
            if entry is not None and entries is not None:
                raise
            problems.append(f"{name}: {error}")
            continue
        title, text = (entry.name, entry.summary) if entry is not None else _TITLES[name]
        several = len(answers) > 1
        label = f"{name}-{index + 1}" if several else name
        parts.append(ReportPart(label, f"{title} ({group.title})" if several else title, text, scores, index, entry))
    if not parts:
        raise InvalidInput(f"nothing can be scored: {'; '.join(problems)}")
    return parts, problems


def _is_comparable(group: AnswerSet) -> bool:
    """Return whether pairs of observers are compared: there are two, and not too many where there are no people."""
    observers, people = len(group.table.observers), bool(group.table.people.any())
    return observers > 1 and (people or observers <= _MOST_MODELS)


def benchmarks_of(group: AnswerSet) -> list[Benchmark]:
    """Return the benchmarks that have a table for the experiments of some answers."""
    experiments = set(group.table.columns["experiment"].drop_nulls())

    def is_about(entry: Benchmark) -> bool:
        is_own = None if entry.table is None else entry.table.is_own
        return entry.table is not None and (entry.experiment in experiments if is_own is None else is_own(group.trials))

    entries = [entry for entry in benchmarks.values() if is_about(entry)]
    people, observers = int(group.table.people.sum()), len(group.table.observers)
    if not entries and people > 1 and people < observers <= _MOST_MODELS:
        entries.append(benchmarks[_ALIGNMENT])
    return entries

"""Options that several commands share, and what they do with their results."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cosight.errors import InvalidInput

if TYPE_CHECKING:
    from cosight.statistics.rows import Scores

__all__ = [
    "AsCsv",
    "AsJson",
    "By",
    "Confidence",
    "Gamma",
    "Labels",
    "MeasureNames",
    "Resamples",
    "Role",
    "Seed",
    "Sources",
    "names",
    "notify",
    "progress_bar",
    "say_scores",
]

Sources = Annotated[
    list[Path], typer.Argument(help="Trial files, folders of them, runs, or samples (sample:NAME).", show_default=False)
]
MeasureNames = Annotated[
    list[str] | None,
    typer.Option("--measure", help="Comma-separated measure names or aliases (`cosight list measures`)."),
]
By = Annotated[
    list[str] | None,
    typer.Option("--by", help="Comma-separated columns to group by: experiment, condition, level, truth."),
]
Labels = Annotated[
    str | None,
    typer.Option(help="Label space: a name (`cosight list label-spaces`) or comma-separated class names."),
]
Role = Annotated[
    list[str] | None,
    typer.Option(
        "--role",
        help="Comma-separated roles of the trials to use: test, repeat, distractor, gold, check, warmup or all "
        "(default: first showings of test stimuli).",
        show_default=False,
    ),
]
Gamma = Annotated[float, typer.Option(min=0, max=1, help="An observer whose abstention exceeds this has abstained.")]
Resamples = Annotated[int, typer.Option(help="Bootstrap resamples behind each interval.")]
Confidence = Annotated[float, typer.Option(help="Confidence level of the intervals.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of everything random.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print every row as JSON.")]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print every row as CSV.")]


def names(given: list[str] | None) -> list[str] | None:
    """Names given once with commas or several times."""
    if not given:
        return None
    return [name.strip() for part in given for name in part.split(",") if name.strip()]


def notify(notices: tuple[str, ...]) -> None:
    """What a reader should know, on standard error."""
    for notice in notices:
        typer.echo(f"note: {notice}", err=True)


@contextmanager
def progress_bar() -> Iterator[Callable[[int, int, str], None] | None]:
    """A progress bar on standard error, or None where that is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("resampling")
        yield lambda done, total, what: bar.update(task, completed=done, total=total, description=what[:40])


def say_scores(scores: Scores, *, as_json: bool, as_csv: bool, table: Callable[[Scores], None]) -> None:
    """Print scores the way that was asked for."""
    if as_json and as_csv:
        raise InvalidInput("choose one of --json and --csv, got both")
    notify(scores.notices)
    if as_json:
        typer.echo(scores.to_json())
    elif as_csv:
        typer.echo(scores.to_csv(), nl=False)
    else:
        table(scores)

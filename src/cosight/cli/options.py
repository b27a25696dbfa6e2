"""Options that several commands share, notes and the output of scores."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cosight.devices import Precision
from cosight.errors import InvalidInput
from cosight.progress import progress_bar
from cosight.registry import split_names

if TYPE_CHECKING:
    from cosight.statistics.rows import Scores

__all__ = [
    "AsCsv",
    "AsJson",
    "Device",
    "Labels",
    "ModelPrecision",
    "Role",
    "Seed",
    "Sources",
    "notify",
    "progress_bar",
    "split_names",
    "write_scores",
]

Sources = Annotated[
    list[Path], typer.Argument(help="Trial files, folders of them, runs, or samples (sample:NAME).", show_default=False)
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
Device = Annotated[str, typer.Option(help="Where models run: cpu, cuda, cuda:N, mps, or auto (a GPU if there is one).")]
ModelPrecision = Annotated[Precision, typer.Option(help="Numbers that models in torch compute in.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of everything random.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print every row as JSON.")]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print every row as CSV.")]


def notify(notices: tuple[str, ...]) -> None:
    """Print notes for the reader on standard error."""
    for notice in notices:
        typer.echo(f"note: {notice}", err=True)


def write_scores(scores: Scores, print_table: Callable[[], None], *, as_json: bool, as_csv: bool) -> None:
    """Print scores as JSON, CSV or a table, and their notices."""
    if as_json and as_csv:
        raise InvalidInput("choose one of --json and --csv, got both")
    notify(scores.notices)
    if as_json:
        typer.echo(scores.to_json())
    elif as_csv:
        typer.echo(scores.to_csv(), nl=False)
    else:
        print_table()

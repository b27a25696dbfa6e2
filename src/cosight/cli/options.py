"""Options that several commands share, notes and progress."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "AsCsv",
    "AsJson",
    "Labels",
    "Role",
    "Seed",
    "Sources",
    "notify",
    "progress_bar",
    "split_names",
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
Seed = Annotated[int, typer.Option(min=0, help="Seed of everything random.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print every row as JSON.")]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print every row as CSV.")]


def split_names(values: Sequence[str] | None) -> list[str] | None:
    """Return the names in comma-separated values of an option that may be repeated; None where there are none.

    >>> split_names(["ec, ma", "cles"])
    ['ec', 'ma', 'cles']
    """
    return [name.strip() for value in values or () for name in value.split(",") if name.strip()] or None


def notify(notices: tuple[str, ...]) -> None:
    """Print notes for the reader on standard error; on a terminal they are wrapped at words."""
    from cosight.cli.text import wrap_text

    width = shutil.get_terminal_size().columns if sys.stderr.isatty() else sys.maxsize
    for notice in notices:
        for line in wrap_text(f"note: {notice}", width, indent=6):
            typer.echo(line, err=True)


@contextmanager
def progress_bar() -> Iterator[Callable[[int, int, str], None] | None]:
    """Show a progress bar on standard error; yield None where that is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("resampling")
        yield lambda done, total, what: bar.update(task, completed=done, total=total, description=what[:40])

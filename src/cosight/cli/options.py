"""Options that several commands share, and notes."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from cosight.devices import Precision
from cosight.progress import progress_bar
from cosight.registry import split_names

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
    """Print notes for the reader on standard error; on a terminal they are wrapped at words."""
    from cosight.cli.text import wrap_text

    width = shutil.get_terminal_size().columns if sys.stderr.isatty() else sys.maxsize
    for notice in notices:
        for line in wrap_text(f"note: {notice}", width, indent=6):
            typer.echo(line, err=True)

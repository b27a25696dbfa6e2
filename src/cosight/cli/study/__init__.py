"""`cosight study`: studies with people, from the design to the exported answers."""

from __future__ import annotations

import typer

from cosight.cli.commands import Command, Group
from cosight.cli.study.lifecycle import new, serve, show, status
from cosight.cli.study.results import export, quality
from cosight.cli.study.simulation import simulate

__all__ = ["app"]

app = typer.Typer(
    cls=Group,
    help="Human studies: design, serve, simulate, assess and export.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
for command in (new, show, serve, simulate, status, quality, export):
    app.command(command.__name__, cls=Command)(command)

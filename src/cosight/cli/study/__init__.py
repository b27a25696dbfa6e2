"""`cosight study`: what people are shown, and what they answered."""

from __future__ import annotations

import typer

from cosight.cli.study.results import export, quality
from cosight.cli.study.running import new, serve, status
from cosight.cli.study.simulating import simulate

__all__ = ["app"]

app = typer.Typer(
    help="Human studies: design, serve, simulate, judge and export.", no_args_is_help=True, rich_markup_mode=None
)
for command in (new, serve, simulate, status, quality, export):
    app.command(command.__name__)(command)

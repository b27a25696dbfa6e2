"""`cosight build`: one command per benchmark that can be built, read from the registry."""

from __future__ import annotations

from collections import Counter
from inspect import getdoc, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.main import get_command

from cosight.cli.commands import Command, Group
from cosight.cli.options import notify, progress_bar
from cosight.cli.signatures import Call, command_for

if TYPE_CHECKING:
    from cosight.benchmarks import BuildResult

__all__ = ["app"]


class _Builders(Group):
    """The benchmarks that can be built, those of other packages included. The registry is read when it is needed."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return their names."""
        from cosight.benchmarks import benchmarks

        return [name for name, entry in benchmarks.items() if entry.build is not None]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of one of them; raise UnknownName with the nearest names for any other name."""
        from cosight.benchmarks import benchmarks, get_builder

        entry = benchmarks[cmd_name]
        builder = get_builder(entry)

        def action(
            call: Call,
            humans: Annotated[
                Path | None,
                typer.Option(
                    help="Trials of people: their answers become gold labels, of Uncertain images where the set has "
                    "groups."
                ),
            ] = None,
            sheet: Annotated[Path | None, typer.Option(help="Also write a contact sheet (.png, .jpg).")] = None,
            force: Annotated[bool, typer.Option("--force", help="Replace an existing contact sheet.")] = False,
        ) -> None:
            _build(entry.name, call, {"humans": humans, "sheet": sheet, "force": force})

        own = typer.Typer(add_completion=False, rich_markup_mode=None)
        own.command(entry.name, cls=Command)(command_for(builder, action, help_text=getdoc(builder)))
        return get_command(own)


app = typer.Typer(cls=_Builders, no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """Build a benchmark's stimulus set: images, splits, gold labels, distractors, a datasheet."""


def _build(name: str, call: Call, options: dict[str, Any]) -> None:
    from cosight.benchmarks import benchmarks, build

    with progress_bar() as progress:
        built: BuildResult = build(name, *call.arguments, **call.options, **options, progress=progress)
    parts = [part for part in (built.generated, built.closed) if part is not None]
    dropped = Counter((job.rsplit("/", 1)[0], reason) for part in parts for job, reason in part.dropped.items())
    missing = (f"{count} of {place} are missing: {reason}" for (place, reason), count in sorted(dropped.items()))
    notify((*built.notices, *missing))
    new, present = sum(part.new for part in parts), sum(part.present for part in parts)
    out = signature(call.function).bind(*call.arguments, **call.options).arguments["out"]
    if built.trials is not None:
        from cosight.cli.tables import print_benchmark
        from cosight.scoring.score import score

        layout = benchmarks[name].table
        if layout is not None:
            scores = score(built.trials, on=name)
            print_benchmark(layout, scores, more=f"`cosight score {built.trials} --on {name} --json`")
    typer.echo(f"{new} stimuli made{f', {present} existed' if present else ''}: {out}")

"""`cosight trials`: summarise and convert trial files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from cosight.cli.options import AsJson, Labels, Role, Sources, notify, split_names
from cosight.cli.output import check_pipe

__all__ = ["app"]

app = typer.Typer(help="Summarise and convert trial files.", no_args_is_help=True, rich_markup_mode=None)


@app.command("show")
def show(sources: Sources, labels: Labels = None, role: Role = None, as_json: AsJson = False) -> None:
    """Summarise trials: observers, experiments and conditions with counts, accuracy, missing answers and warnings."""
    from cosight.trials.formats import read
    from cosight.trials.summary import summarise

    if as_json:
        check_pipe("--json")

    summary = summarise(read(*sources, labels=labels), roles=split_names(role) or ("test",))
    notify(summary.notices)
    if as_json:
        typer.echo(json.dumps(summary.to_dict(), indent=1, ensure_ascii=False))
        return
    from cosight.cli.tables import print_table, print_text

    print_text(summary.headline)
    print_table(summary.observers.to_dicts(), title="observers", keys=2, optional=("sessions", "experiments"))
    print_table(summary.conditions.to_dicts(), title="experiments and conditions", keys=2)


@app.command("convert")
def convert(
    source: Annotated[Path, typer.Argument(help="Trials in any format, or sample:NAME.", show_default=False)],
    target: Annotated[Path, typer.Argument(help="File or folder to write.", show_default=False)],
    to: Annotated[
        str | None,
        typer.Option(help="Format (`cosight list formats`); default: by the file name, model-vs-human for a folder."),
    ] = None,
    observer: Annotated[str | None, typer.Option(help="Only this observer's trials.")] = None,
    labels: Labels = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Convert trials to another format. The output is written completely or not at all."""
    from cosight.trials.formats import output_format, read, write
    from cosight.trials.table import dropped_columns

    trials = read(source, labels=labels)
    trials = trials if observer is None else trials.only(observer)
    format_ = output_format(target, to)
    written = write(trials, target, to=to, force=force)
    dropped = dropped_columns(written, format_.keeps)
    notify((*written.notices, *([f"{format_.name} does not keep {', '.join(dropped)}"] if dropped else [])))
    typer.echo(f"{len(written)} trials of {written.observers.height} observers written to {target} ({format_.name})")

"""`cosight trials`: summarise and convert trial files."""

from __future__ import annotations

import json

import typer

from cosight.cli.commands import Command, Group
from cosight.cli.options import AsJson, Labels, Role, Sources, notify, split_names
from cosight.cli.output import check_pipe
from cosight.cli.signatures import Call, add_command

__all__ = ["app"]

app = typer.Typer(cls=Group, help="Summarise and convert trial files.", no_args_is_help=True, rich_markup_mode=None)


@app.command("show", cls=Command)
def show(sources: Sources, labels: Labels = None, role: Role = None, as_json: AsJson = False) -> None:
    """Summarise trials: observers, experiments and conditions with counts, accuracy, missing answers and warnings.

    Examples:
        cosight trials show sample:edges
        cosight trials show answers.parquet --role all --json
    """
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


def convert(call: Call) -> None:
    """Convert trials to another format; any CSV file with observers, images and answers can be read.

    Columns of a CSV file are guessed from their names, and the guesses are printed; --columns names them. The output is
    written completely or not at all.

    Examples:
        cosight trials convert my.csv my.parquet --columns observer=who,image=file
        cosight trials convert sample:edges edges.parquet
        cosight trials convert answers.parquet folder --to psych-ds
    """
    from cosight.trials.formats import output_format

    written = call()
    notify(written.notices)
    target = call.arguments[1]
    format_ = output_format(target, call.options.get("to"))
    typer.echo(f"{len(written)} trials of {written.observers.height} observers written to {target} ({format_.name})")


add_command(app, "convert", convert, function="cosight.trials.formats:convert")

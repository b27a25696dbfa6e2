"""`cosight run`: list runs, show their status, resume one."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cosight.cli.commands import Command, Group
from cosight.cli.evaluate import print_run, run_in_terminal
from cosight.cli.options import AsJson, notify, progress_bar
from cosight.cli.signatures import Call, add_command
from cosight.errors import InvalidInput

if TYPE_CHECKING:
    from cosight.runs.run_record import Status

__all__ = ["app"]

app = typer.Typer(
    cls=Group, help="List runs, show their status, resume one.", no_args_is_help=True, rich_markup_mode=None
)

RunFolderArgument = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.", show_default=False)]


@app.command("status", cls=Command)
def show_status(run: RunFolderArgument, as_json: AsJson = False) -> None:
    """Show how many stimuli each observer has answered, and how the last session ended; also during a run.

    Examples:
        cosight run status run
        cosight run status run --json
    """
    from cosight.cli.tables import print_table, print_text
    from cosight.runs.run_record import status

    state = status(run)
    if as_json:
        typer.echo(json.dumps(_to_json(state), indent=1))
        return
    print_table(
        [
            {
                "observer": observer.observer,
                "answered": observer.answered,
                "of": state.stimuli,
                "skipped": observer.skipped or None,
                "state": observer.state,
            }
            for observer in state.observers
        ]
    )
    if state.asked > len(state.observers):
        print_text(f"{state.asked - len(state.observers)} models not started yet")
    print_text(_status_line(state))
    if state.state == "stopped":
        print_text(f"last session: {state.outcome}; resume with: cosight run resume {run}")


def resume(call: Call) -> None:
    """Resume a run: all its models, with the options of its last call.

    Examples:
        cosight run resume run
        cosight run resume run --trust
    """
    with run_in_terminal(call.arguments[0]), progress_bar() as progress:
        finished = call(progress=progress)
    print_run(finished)


add_command(app, "resume", resume, function="cosight.runs.evaluate:resume")


@app.command("list", cls=Command)
def list_runs(
    folder: Annotated[Path, typer.Argument(help="Folder to search, with the folders below it.")] = Path(),
    as_json: AsJson = False,
) -> None:
    """List the runs in a folder and below it.

    Examples:
        cosight run list
        cosight run list experiments --json
    """
    from cosight.cli.tables import print_text
    from cosight.runs.run_record import runs_below, status

    states, broken = [], []
    for path in runs_below(folder):
        try:
            states.append(status(path))
        except InvalidInput as error:
            broken.append(str(error))
    notify(tuple(broken))
    if as_json:
        typer.echo(json.dumps([_to_json(state) for state in states], indent=1))
        return
    for state in states:
        print_text(_status_line(state))
    if not states and not broken:
        typer.echo(f"no runs below {folder.resolve()}", err=True)


def _status_line(state: Status) -> str:
    finished = sum(observer.state == "finished" for observer in state.observers)
    speed = f", {state.images_per_second:.1f} images/s" if state.images_per_second else ""
    observers = f"{finished} of {state.asked} observers finished"
    return f"{state.folder}: {state.state}, {observers}, {state.stimuli} stimuli in {state.labels}{speed}"


def _to_json(state: Status) -> dict[str, Any]:
    return {**asdict(state), "folder": str(state.folder), "images_per_second": state.images_per_second}

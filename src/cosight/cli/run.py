"""`cosight run`: show runs and resume one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cosight.cli.evaluate import print_run, run_in_terminal
from cosight.cli.options import AsJson, notify, progress_bar
from cosight.errors import InvalidInput

if TYPE_CHECKING:
    from cosight.runs.run_record import Status

__all__ = ["app"]

app = typer.Typer(help="Show runs and resume one.", no_args_is_help=True, rich_markup_mode=None)

Folder = Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder.", show_default=False)]


@app.command("status")
def status(run: Folder, as_json: AsJson = False) -> None:
    """How far each observer is, how fast it went, and how the last attempt ended; also while the run is going."""
    from cosight.runs.run_record import status as look

    found = look(run)
    if as_json:
        typer.echo(json.dumps(_as_dict(found), indent=1))
        return
    from cosight.cli.tables import print_table

    print_table(
        [
            {
                "observer": one.observer,
                "answered": one.answered,
                "of": found.stimuli,
                "skipped": one.skipped or None,
                "state": one.state,
            }
            for one in found.observers
        ]
    )
    if found.asked > len(found.observers):
        typer.echo(f"{found.asked - len(found.observers)} models not reached yet")
    typer.echo(_line(found))
    if found.state == "stopped":
        typer.echo(f"last attempt: {found.outcome}; resume with: cosight run resume {run}")


@app.command("resume")
def resume(run: Folder) -> None:
    """Go on with a run: all models it was asked for, with the arguments that it was last given."""
    from cosight.runs.evaluate import resume as go_on

    with run_in_terminal(run), progress_bar() as progress:
        done = go_on(run, progress=progress)
    print_run(done)


@app.command("list")
def list_runs(
    folder: Annotated[Path, typer.Argument(help="Where to look, also in folders below.")] = Path(),
    as_json: AsJson = False,
) -> None:
    """Runs in a folder and below it."""
    from cosight.runs.run_record import runs_below
    from cosight.runs.run_record import status as look

    found, broken = [], []
    for path in runs_below(folder):
        try:
            found.append(look(path))
        except InvalidInput as error:
            broken.append(str(error))
    notify(tuple(broken))
    if as_json:
        typer.echo(json.dumps([_as_dict(one) for one in found], indent=1))
        return
    for one in found:
        typer.echo(_line(one))
    if not found and not broken:
        typer.echo(f"no runs below {folder.resolve()}", err=True)


def _line(found: Status) -> str:
    finished = sum(one.state == "finished" for one in found.observers)
    speed = f", {found.images_per_second:.1f} images/s" if found.images_per_second else ""
    who = f"{finished} of {found.asked} observers finished"
    return f"{found.folder}: {found.state}, {who}, {found.stimuli} stimuli in {found.labels}{speed}"


def _as_dict(found: Status) -> dict[str, Any]:
    from dataclasses import asdict

    return {**asdict(found), "folder": str(found.folder), "images_per_second": found.images_per_second}

"""`cosight trials`: show and convert tables of trials."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from cosight.cli.options import AsJson, Labels, Role, Sources, names, notify

__all__ = ["app"]

app = typer.Typer(help="Look at trial files and convert them.", no_args_is_help=True, rich_markup_mode=None)


@app.command("show")
def show(sources: Sources, labels: Labels = None, role: Role = None, as_json: AsJson = False) -> None:
    """Observers, experiments and conditions: counts, accuracy, missing answers, and what looks wrong."""
    from cosight.trials.reading import read
    from cosight.trials.summary import summarise

    summary = summarise(read(*sources, labels=labels), roles=names(role) or ("test",))
    notify(summary.notices)
    if as_json:
        typer.echo(json.dumps(summary.to_dict(), indent=1, ensure_ascii=False))
        return
    from rich.table import Table

    from cosight.cli.tables import console

    out = console()
    out.print(summary.headline)
    for title, frame in (("observers", summary.observers), ("experiments and conditions", summary.conditions)):
        table = Table(box=None, pad_edge=False, header_style="bold", title=title, title_justify="left")
        for name in frame.columns:
            table.add_column(name, no_wrap=True, justify="right" if frame[name].dtype.is_numeric() else "left")
        for row in frame.iter_rows():
            table.add_row(*("" if v is None else f"{v:.3f}" if isinstance(v, float) else str(v) for v in row))
        out.print(table)


@app.command("convert")
def convert(
    source: Annotated[Path, typer.Argument(help="Trials in any format, or sample:NAME.", show_default=False)],
    target: Annotated[Path, typer.Argument(help="The file or folder to write.", show_default=False)],
    to: Annotated[
        str | None,
        typer.Option(help="Format (`cosight list formats`); default: by the ending, a folder model-vs-human."),
    ] = None,
    observer: Annotated[str | None, typer.Option(help="Only this observer's trials.")] = None,
    labels: Labels = None,
) -> None:
    """Read trials in one format and write them in another, whole or not at all."""
    from cosight.trials.reading import output_format, read, write
    from cosight.trials.table import lost_columns

    trials = read(source, labels=labels)
    trials = trials if observer is None else trials.only(observer)
    chosen, written = output_format(target, to), write(trials, target, to=to)
    lost = lost_columns(written, chosen.keeps)
    notify((*written.notices, *([f"{chosen.name} does not keep {', '.join(lost)}"] if lost else [])))
    typer.echo(f"{len(written)} trials of {written.observers.height} observers written to {target} ({chosen.name})")

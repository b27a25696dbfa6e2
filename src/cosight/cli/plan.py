"""`cosight plan`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from cosight.cli.options import AsJson, names, notify
from cosight.errors import InvalidInput

__all__ = ["plan"]


def plan(
    measure: Annotated[str, typer.Option(help="accuracy, ec, ma, hellinger, or gold (people's label distributions).")],
    width: Annotated[float | None, typer.Option(help="How wide the 95 % interval may be, end to end.")] = None,
    difference: Annotated[
        float | None, typer.Option(help="The difference between two models that is to be found.")
    ] = None,
    error: Annotated[float | None, typer.Option(help="For gold: half the interval of a share of answers.")] = None,
    accuracy: Annotated[
        list[str] | None, typer.Option(help="Expected accuracies of people and of the model, comma-separated.")
    ] = None,
    value: Annotated[float | None, typer.Option(help="The value expected.")] = None,
    classes: Annotated[int | None, typer.Option(help="How many classes there are.")] = None,
    sd: Annotated[float | None, typer.Option(help="Standard deviation of one trial's value.")] = None,
    joint: Annotated[
        float | None, typer.Option(help="Share of trials both get wrong (default: errors independent).")
    ] = None,
    power: Annotated[float, typer.Option(help="Chance to find the difference.")] = 0.8,
    pilot: Annotated[
        list[Path] | None, typer.Option(help="Trials of a pilot study, in place of assumptions.", show_default=False)
    ] = None,
    observer: Annotated[list[str] | None, typer.Option(help="Observers of the pilot to plan for.")] = None,
    as_json: AsJson = False,
) -> None:
    """How many trials, people or images for an interval this wide, or to tell two models apart?"""
    from cosight.scoring.plan import plan as run
    from cosight.trials.reading import read
    from cosight.trials.table import select_roles

    trials = read(*pilot) if pilot else None
    if trials is not None:
        notify(select_roles(trials).notices)
    found = run(
        measure=measure,
        width=width,
        difference=difference,
        error=error,
        accuracy=_numbers(accuracy),
        value=value,
        classes=classes,
        sd=sd,
        joint=joint,
        power=power,
        pilot=trials,
        observers=names(observer) or (),
    )
    if as_json:
        typer.echo(json.dumps(asdict(found), indent=1, ensure_ascii=False))
        return
    from rich.table import Table

    from cosight.cli.tables import console

    table = Table(box=None, pad_edge=False, show_header=False)
    for row in found.rows:
        table.add_row(row.name, "-" if row.value is None else f"{row.value:.6g}", row.note)
    out = console()
    out.print(found.question)
    out.print(table)


def _numbers(given: list[str] | None) -> list[float] | None:
    texts = names(given)
    try:
        return None if texts is None else [float(text) for text in texts]
    except ValueError:
        raise InvalidInput(f"--accuracy takes one or two numbers set apart by a comma, got {texts}") from None

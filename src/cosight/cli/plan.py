"""`cosight plan`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cosight.cli.options import AsJson, notify
from cosight.cli.signatures import Call

if TYPE_CHECKING:
    from cosight.scoring.plan import Plan

__all__ = ["plan"]


def plan(
    call: Call,
    pilot: Annotated[
        list[Path] | None,
        typer.Option(help="Trials of a pilot study, which replace assumptions (repeatable).", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compute how many trials, people or images a study needs for an interval or to tell two models apart.

    Examples:
        cosight plan --measure ec --width .1 --accuracy .8,.7 --value .35
        cosight plan --measure accuracy --difference .05 --pilot sample:edges
        cosight plan --measure gold --error .05 --classes 11
    """
    from cosight.cli.tables import print_table, print_text
    from cosight.trials.formats import read
    from cosight.trials.table import select_roles

    trials = read(*pilot) if pilot else None
    if trials is not None:
        notify(select_roles(trials).notices)
    result: Plan = call(pilot=trials)
    if as_json:
        typer.echo(json.dumps(asdict(result), indent=1, ensure_ascii=False))
        return
    print_text(result.question)
    rows = [(row.name, "-" if row.value is None else f"{row.value:.6g}", row.note) for row in result.rows]
    print_table([dict(zip(("name", "value", "note"), row, strict=True)) for row in rows], show_header=False)

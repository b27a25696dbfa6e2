"""`cosight disagree`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cosight.cli.options import AsCsv, AsJson
from cosight.cli.output import Force, OutFile, row_output, write_rows
from cosight.cli.signatures import Call

if TYPE_CHECKING:
    from cosight.scoring.disagree import Disagreements

__all__ = ["disagree"]

_LINES = 20  # of the table, unless --top says otherwise


def disagree(
    call: Call,
    top: Annotated[
        int | None,
        typer.Option(
            min=1, help=f"Number of images (default: {_LINES} in the table, all in a file or pipe).", show_default=False
        ),
    ] = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    out: OutFile = None,
    force: Force = False,
) -> None:
    """List the images on which models and people differ most, with the answers of both.

    The difference is the Hellinger distance between the distribution of people's answers and the model's
    probabilities, or its single answer where it gave no probabilities: 0 the same, 1 no label in common.

    Examples:
        cosight disagree sample:cue-conflict --only model:resnet50
        cosight disagree sample:edges sample:silhouettes --out differences.csv
    """
    from cosight.cli.tables import print_disagreements

    output = row_output(as_json=as_json, as_csv=as_csv, out=out, force=force)
    found: Disagreements = call(top=top if output.format else top or _LINES)
    write_rows(found, output, lambda: print_disagreements(found, top=top or _LINES))

"""`cosight compare`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cosight.cli.options import AsCsv, AsJson, progress_bar, write_scores
from cosight.cli.signatures import Call

if TYPE_CHECKING:
    from cosight.statistics.rows import Scores

__all__ = ["compare"]


def compare(
    call: Call,
    pairs: Annotated[
        str | None,
        typer.Option(
            help="Show one row per pair instead of one per observer: all, human-human, human-model or model-model."
        ),
    ] = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Compare observers: how alike are their answers and errors?

    Prints one row per observer: people against each other, models against people. Every value has an interval. --json
    and --csv have every pair, mean, ceiling, rank and paired difference.

    Examples:
        cosight compare sample:cue-conflict
        cosight compare sample:edges --measure ec,ma --pairs human-model
        cosight compare sample:edges sample:silhouettes --by experiment --csv
    """
    from cosight.cli.tables import print_comparison

    with progress_bar() as progress:
        scores: Scores = call(pairs=pairs or "all", progress=progress)
    write_scores(scores, lambda: print_comparison(scores, list_pairs=pairs is not None), as_json=as_json, as_csv=as_csv)

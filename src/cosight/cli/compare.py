"""`cosight compare`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cosight.cli.options import AsCsv, AsJson, progress_bar
from cosight.cli.output import Force, OutFile, row_output, write_rows
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
    sort: Annotated[
        str | None,
        typer.Option(
            help="Measure that models are ranked by in the table and the verdict, or name (default: the first measure "
            "of two observers).",
            show_default=False,
        ),
    ] = None,
    top: Annotated[
        int | None, typer.Option(min=1, help="Show only the first models of the table.", show_default=False)
    ] = None,
    people: Annotated[bool, typer.Option("--people", help="Show one row per person too.")] = False,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    out: OutFile = None,
    force: Force = False,
) -> None:
    """Compare observers: how alike are their answers and errors?

    Prints people's agreement with each other and each model's with people, the closest model first, every value with
    its interval; then a verdict: which model is closest, by how much, and whether that may be chance. --json, --csv and
    --out have every pair, mean, ceiling, rank and paired difference; --sort, --top and --people change the table, and
    --sort the verdict.

    Examples:
        cosight compare sample:cue-conflict
        cosight compare sample:edges --only model:alexnet,model:vgg19
        cosight compare sample:edges sample:silhouettes --by experiment --out rows.csv
    """
    from cosight.cli.tables import print_comparison
    from cosight.measures import measures

    output = row_output(as_json=as_json, as_csv=as_csv, out=out, force=force)
    ranked_by = sort if sort in (None, "name") else measures.name_of(sort)
    with progress_bar() as progress:
        scores: Scores = call(pairs=pairs or "all", progress=progress)
    write_rows(
        scores,
        output,
        lambda: print_comparison(scores, list_pairs=pairs is not None, people=people, sort=ranked_by, top=top),
    )

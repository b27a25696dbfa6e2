"""`cosight report`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cosight.cli.options import progress_bar
from cosight.cli.signatures import Call

if TYPE_CHECKING:
    from cosight.reports.site import Report

__all__ = ["report"]


def report(
    call: Call,
    show: Annotated[bool, typer.Option("--open", help="Open the report in a browser at the end.")] = False,
) -> None:
    """Write a report: a folder of pages that opens by double-click, can be mailed, or put on any web server.

    Trials are scored first, as by compare and score; every row goes to SITE/scores.parquet. The pages show who sees
    like people, where not, the images behind every count, how certain it is, and how it was made. They need no server
    and load nothing from the network.

    Examples:
        cosight report sample:edges --out site
        cosight report sample:edges sample:silhouettes --out drawings --images none
    """
    from cosight.cli.tables import print_text

    with progress_bar() as progress:
        made: Report = call(progress=progress)
    for notice in made.notices:
        typer.echo(f"cosight: {notice}", err=True)
    print_text(f"report: {made.page} ({made.size / 1e6:.1f} MB, {len(made.scores.rows)} score rows)")
    if show:
        import webbrowser

        webbrowser.open(made.view())

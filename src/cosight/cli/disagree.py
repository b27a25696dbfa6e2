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
    show: Annotated[
        bool, typer.Option("--open", help="Also write a report to a new folder and open its browser of disagreements.")
    ] = False,
) -> None:
    """List the images on which models and people differ most, with the answers of both.

    The difference is the Hellinger distance between the distribution of people's answers and the model's
    probabilities, or its single answer where it gave no probabilities: 0 the same, 1 no label in common.

    With --open, a browser shows the images, the answers of both and a matrix of their errors; `cosight report` writes
    the same pages to a folder of your choice.

    Examples:
        cosight disagree sample:cue-conflict --only model:resnet50
        cosight disagree sample:edges sample:silhouettes --out differences.csv
    """
    from cosight.cli.tables import print_disagreements

    output = row_output(as_json=as_json, as_csv=as_csv, out=out, force=force)
    found: Disagreements = call(top=top if output.format else top or _LINES)
    write_rows(found, output, lambda: print_disagreements(found, top=top or _LINES))
    if show:
        _open_report(call, found)


def _open_report(call: Call, found: Disagreements) -> None:
    """Write a report of the same sources and open the view that has the first line of the table."""
    import webbrowser
    from tempfile import mkdtemp
    from urllib.parse import quote, urlencode

    from cosight.cli.options import progress_bar
    from cosight.reports.site import report

    options = {name: value for name, value in call.options.items() if name in ("labels", "role", "gamma")}
    first = found.rows[0]
    answers = first.response or (first.probabilities or first.people)[0][0], first.people[0][0]
    cell = "".join(str(int(answer == first.truth)) for answer in answers)  # whether the model and people are right
    with progress_bar() as progress:
        made = report(*call.arguments, out=f"{mkdtemp(prefix='cosight-')}/report", progress=progress, **options)
    typer.echo(f"report: {made.page}", err=True)
    query = urlencode({"a": first.observer, "b": first.against, "cell": cell}, quote_via=quote)  # spaces as %20
    webbrowser.open(made.view(f"disagree?{query}"))

"""`cosight figure`."""

from __future__ import annotations

import typer

from cosight.cli.signatures import Call

__all__ = ["figure"]


def figure(call: Call) -> None:
    """Draw a figure for a paper from score rows: SVG, PDF or PNG.

    The rows are those that --out of compare and score wrote. The figure has the same numbers; nothing is computed
    again. confusion-difference takes trials too, and scores them first. `cosight list figures` says what each figure
    shows and which command makes its rows.

    Examples:
        cosight figure ec-dots scores.json --out dots.pdf
        cosight figure ec-dots scores.json --measure cles --out cles.svg
    """
    typer.echo(f"wrote {call()}")

"""`cosight demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cosight.cli.options import AsCsv, AsJson, Seed, progress_bar, say_scores

__all__ = ["demo"]


def demo(
    out: Annotated[Path, typer.Option(help="The folder for the trials it makes.")] = Path("demo-run"),
    seed: Seed = 0,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """The whole job on simulated observers, offline: make trials, read them back, compare, print the table."""
    from cosight.cli.tables import print_comparison
    from cosight.demo import demo as run

    with progress_bar() as progress:
        scores = run(out, seed=seed, progress=progress)
    say_scores(scores, as_json=as_json, as_csv=as_csv, table=lambda s: print_comparison(s, list_pairs=False))

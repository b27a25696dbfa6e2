"""`cosight shift`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cosight.cli.options import AsCsv, AsJson, progress_bar
from cosight.cli.output import Force, OutFile, row_output, write_rows
from cosight.cli.signatures import Call

if TYPE_CHECKING:
    from cosight.statistics.rows import Scores

__all__ = ["shift"]


def shift(
    call: Call, as_json: AsJson = False, as_csv: AsCsv = False, out: OutFile = None, force: Force = False
) -> None:
    """Measure how far a stimulus set is from a reference set: Frechet distance, difficulty, nearest neighbours.

    Takes two runs of the same models, `cosight evaluate MODEL --on SET --features --out RUN` for each set. A large
    distance and a low accuracy mean that the set is out of distribution for the model. Only distances of sets of about
    the same size can be compared.

    Examples:
        cosight shift foggy-run clear-run --by condition
        cosight shift foggy-run clear-run --neighbours nearest.png
    """
    from cosight.cli.tables import print_scores, print_text

    output = row_output(as_json=as_json, as_csv=as_csv, out=out, force=force)
    with progress_bar() as progress:
        scores: Scores = call(progress=progress, force=force)

    def print_table() -> None:
        print_scores(scores, more="--json")
        for row in scores.rows:
            if row.statistic == "ceiling_split_half" and row.value is not None:
                print_text(f"{row.observer}, without a shift: {row.value:.4g} ({row.note})")
        if picture := call.options.get("neighbours"):
            print_text(f"nearest neighbours: {picture}")

    write_rows(scores, output, print_table)

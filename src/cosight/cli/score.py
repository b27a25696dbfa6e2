"""`cosight score`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cosight.cli.options import AsCsv, AsJson, progress_bar
from cosight.cli.output import Force, OutFile, row_output, write_rows
from cosight.cli.signatures import Call

if TYPE_CHECKING:
    from cosight.statistics.rows import Scores

__all__ = ["score"]


def score(
    call: Call, as_json: AsJson = False, as_csv: AsCsv = False, out: OutFile = None, force: Force = False
) -> None:
    """Score each observer alone and against people: accuracy, distance, reliability, each with its interval.

    Without --measure, all that the trials allow: accuracy, response entropy and shape bias; distances to people's label
    distributions with their ceilings; reliability, risk and coverage where observers can abstain. A run's gold labels
    stand for people unless --humans gives some. With --on, the benchmark's own table: of visalign, distances by
    category, reliability, means over seeds, the best (*) and second best (+) of each column; of error-alignment, how
    alike every two observers err, and how the measures of this relate.

    Examples:
        cosight score sample:cue-conflict --measure shape_bias,hellinger
        cosight score sample:edges --by truth --json
        cosight score sample:edges --on error-alignment --out rows.json
    """
    from cosight.benchmarks import benchmarks
    from cosight.cli.tables import print_alignment, print_benchmark, print_scores

    output = row_output(as_json=as_json, as_csv=as_csv, out=out, force=force)
    with progress_bar() as progress:
        scores: Scores = call(progress=progress)
    benchmark = call.options.get("on")
    entry = None if benchmark is None else benchmarks[benchmark]

    def print_table() -> None:
        if entry is None:
            print_scores(scores)
        elif entry.table is not None:
            print_benchmark(entry.table, scores)
        else:
            print_alignment(scores)

    write_rows(scores, output, print_table)

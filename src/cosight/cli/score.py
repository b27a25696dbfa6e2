"""`cosight score`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cosight.cli.options import (
    AsCsv,
    AsJson,
    By,
    Confidence,
    Gamma,
    Labels,
    MeasureNames,
    Resamples,
    Role,
    Seed,
    Sources,
    names,
    progress_bar,
    say_scores,
)

__all__ = ["score"]


def score(
    sources: Sources,
    humans: Annotated[
        Path | None,
        typer.Option(help="Human reference: trials of people, or a stimulus set with gold labels."),
    ] = None,
    on: Annotated[
        str | None,
        typer.Option(help="Make the table of this benchmark (`cosight list benchmarks`: those that support score)."),
    ] = None,
    measure: MeasureNames = None,
    by: By = None,
    labels: Labels = None,
    role: Role = None,
    gamma: Gamma = 0.5,
    lam: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            help="An Uncertain image counts as Must-Act if more than this share of people gave its original label.",
        ),
    ] = 0.5,
    resamples: Resamples = 1000,
    confidence: Confidence = 0.95,
    seed: Seed = 0,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """How good, how sure and how near to people is each observer?

    Accuracy, response entropy and shape bias; distances to people's label distributions with their ceilings;
    reliability, risk and coverage where observers can abstain. Without --measure: whatever the trials allow. A run's
    gold labels stand for people unless --humans names some. With --on, the benchmark's own table: distances by
    category, reliability, means over seeds, the best (*) and second best (+) of each column.
    """
    from functools import partial

    from cosight.benchmarks import benchmarks
    from cosight.cli.tables import print_benchmark, print_scores
    from cosight.scoring.score import score as run

    with progress_bar() as progress:
        scores = run(
            *sources,
            humans=humans,
            on=on,
            measure=names(measure),
            by=names(by) or (),
            labels=labels,
            role=names(role) or ("test",),
            gamma=gamma,
            lam=lam,
            resamples=resamples,
            confidence=confidence,
            seed=seed,
            progress=progress,
        )
    layout = None if on is None else benchmarks[on].table
    table = print_scores if layout is None else partial(print_benchmark, layout)
    say_scores(scores, as_json=as_json, as_csv=as_csv, table=table)

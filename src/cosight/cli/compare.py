"""`cosight compare`."""

from __future__ import annotations

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

__all__ = ["compare"]


def compare(
    sources: Sources,
    measure: MeasureNames = None,
    by: By = None,
    pairs: Annotated[
        str | None,
        typer.Option(help="List the pairs: all, human-human, human-model or model-model (default: a row an observer)."),
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="A published way of scoring: exclusions, grouping, measures (model-vs-human).")
    ] = None,
    missing: Annotated[
        str, typer.Option(help="Missing answers: leave-out, or random (drawn among the classes, as Xu et al. 2024).")
    ] = "leave-out",
    correlate: Annotated[
        bool, typer.Option("--correlate", help="Also rank correlations between the measures, over pairs of observers.")
    ] = False,
    labels: Labels = None,
    role: Role = None,
    gamma: Gamma = 0.5,
    resamples: Resamples = 1000,
    confidence: Confidence = 0.95,
    seed: Seed = 0,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """How alike do these observers see? Every pair, the means over people and models, ceilings and ranks.

    Prints the value and its interval for each observer: people with each other, models with people. --json and --csv
    have every pair, mean, ceiling, rank and paired difference.
    """
    from cosight.cli.tables import print_comparison
    from cosight.scoring.compare import compare as run

    with progress_bar() as progress:
        scores = run(
            *sources,
            measure=names(measure),
            by=names(by),
            pairs=pairs or "all",
            preset=preset,
            missing=missing,
            correlate=correlate,
            labels=labels,
            role=names(role) or ("test",),
            gamma=gamma,
            resamples=resamples,
            confidence=confidence,
            seed=seed,
            progress=progress,
        )
    say_scores(
        scores, as_json=as_json, as_csv=as_csv, table=lambda s: print_comparison(s, list_pairs=pairs is not None)
    )

"""`cosight score`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cosight.cli.options import (
    AsCsv,
    AsJson,
    By,
    Gamma,
    Labels,
    Level,
    MeasureNames,
    Resamples,
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
        Path | None, typer.Option(help="Trials of the people to hold the observers against, if not among the others.")
    ] = None,
    measure: MeasureNames = None,
    by: By = None,
    labels: Labels = None,
    gamma: Gamma = 0.5,
    resamples: Resamples = 1000,
    level: Level = 0.95,
    seed: Seed = 0,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """How good, how sure and how near to people is each observer?

    Accuracy, response entropy and shape bias; distances to people's label distributions with their ceilings;
    reliability, risk and coverage where observers can abstain. Without --measure: whatever the trials allow.
    """
    from cosight.cli.tables import print_scores
    from cosight.scoring.score import score as run

    with progress_bar() as progress:
        scores = run(
            *sources,
            humans=humans,
            measure=names(measure),
            by=names(by) or (),
            labels=labels,
            gamma=gamma,
            resamples=resamples,
            level=level,
            seed=seed,
            progress=progress,
        )
    say_scores(scores, as_json=as_json, as_csv=as_csv, table=print_scores)

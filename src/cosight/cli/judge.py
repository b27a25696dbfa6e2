"""`cosight judge`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cosight.cli.evaluate import print_requests
from cosight.cli.options import progress_bar
from cosight.cli.signatures import Call

if TYPE_CHECKING:
    from cosight.models.judges.answer_tasks import JudgedTasks

__all__ = ["judge"]

_MEASURES = {"2afc": "two_alternative_share", "cluster": "clustering_share"}  # experiment -> measure


def judge(
    call: Call,
    stimuli: Annotated[
        Path, typer.Argument(metavar="SET", help="A stimulus set with tasks (`cosight stimuli tasks`).")
    ],
) -> None:
    """Let judges answer the 2AFC and clustering tasks of a set: which image looks most like another?

    Answers about inversions and controversial stimuli are shown in the table of `cosight score --on representation`.
    A judge is an observer: `cosight score` and `cosight compare` read its answers together with those of people who
    took part in a study of the same set.

    Examples:
        cosight judge alike --judge python:mynet:model
        cosight judge alike --judge python:mynet:model --force
    """
    from cosight.benchmarks.representation.results_table import TABLE
    from cosight.cli.tables import print_benchmark, print_scores
    from cosight.scoring.score import score
    from cosight.trials.requests import request_totals

    with progress_bar() as progress:
        done: JudgedTasks = call(stimuli, progress=progress)
    if done.by_model:
        scores = score(done.trials, on="representation")
        print_benchmark(TABLE, scores, more=f"`cosight score {stimuli / 'trials'} --on representation --json`")
    else:
        measures = [name for kind, name in _MEASURES.items() if kind in set(done.trials.frame["experiment"])]
        by = ["condition"] if done.trials.frame["condition"].n_unique() > 1 else []
        more = f"`cosight score {stimuli / 'trials'} --measure {','.join(measures)} --json`"
        print_scores(score(done.trials, measure=measures, by=by), more=more)
    observers = done.trials.frame.partition_by("observer", as_dict=True)
    totals = {str(observer): request_totals(frame) for (observer,), frame in observers.items()}
    print_requests({observer: total for observer, total in totals.items() if total.answers})
    ties = f", {done.ties} without an answer (ties, refusals)" if done.ties else ""
    typer.echo(f"{done.new} new of {len(done.trials)} answers{ties}: {', '.join(map(str, done.files))}")

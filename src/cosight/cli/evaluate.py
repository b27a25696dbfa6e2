"""`cosight evaluate`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cosight.cli.options import notify, progress_bar
from cosight.cli.signatures import Call

if TYPE_CHECKING:
    from cosight.runs.run_job import Run

__all__ = ["evaluate", "print_run", "run_in_terminal"]

_MOST_SKIPPED = 10  # files named in the notes


def evaluate(
    call: Call,
    models: Annotated[
        list[str] | None,
        typer.Argument(metavar="MODEL", help="Models: timm:NAME, onnx:FILE, trials:FILE ...", show_default=False),
    ] = None,
    model_list: Annotated[
        list[str] | None, typer.Option("--models", help="A named list of models (`cosight list model-lists`).")
    ] = None,
) -> None:
    """Show stimuli to models and store their answers as trials. Running it again resumes an interrupted run.

    Prints each model's accuracy by condition with its interval, and the run's folder. `cosight compare RUN PEOPLE`
    compares the models with people.

    Examples:
        cosight evaluate python:mynet:model --on photos --out run
        cosight evaluate trials:answers.parquet --on photos --out recorded
    """
    from cosight.models.loading import model_lists

    listed = [line for name in model_list or () for line in model_lists[name].models]
    lines = dict.fromkeys([*(models or ()), *listed])
    with run_in_terminal(call.options["out"]), progress_bar() as progress:
        run: Run = call(*lines, progress=progress)
    print_run(run)


@contextmanager
def run_in_terminal(folder: Path) -> Iterator[None]:
    """Send what workers print to standard error, and tell how to resume when the run is interrupted."""
    try:
        with redirect_stdout(sys.stderr):  # Ray prints about its workers
            yield
    except KeyboardInterrupt:
        typer.echo(f"stopped; resume with: cosight run resume {folder}", err=True)
        raise


def print_run(run: Run) -> None:
    """Print accuracy by condition, what was skipped, and the run's folder."""
    from cosight.cli.tables import print_scores
    from cosight.scoring.score import score
    from cosight.trials.manifest import MANIFEST

    notify(run.notices)
    notify(tuple(f"skipped: {reason}" for reason in list(run.skipped.values())[:_MOST_SKIPPED]))
    if len(run.skipped) > _MOST_SKIPPED:
        notify((f"skipped: {len(run.skipped) - _MOST_SKIPPED} more, named in the tables of trials",))
    trials = run.responses()
    if trials.frame["truth"].null_count() < len(trials):
        by = [name for name in ("experiment", "condition") if trials.frame[name].n_unique() > 1]
        scores = score(trials, run.folder / MANIFEST, measure=["accuracy"], by=by)
        print_scores(scores, more=f"`cosight score {run.folder} --json`")
    observers = f"{len(run.observers)} observer{'s' if len(run.observers) > 1 else ''}"
    stimuli = f"{run.stimuli} stimul{'i' if run.stimuli > 1 else 'us'}"
    answers = f"{run.new} answer{'s' if run.new > 1 else ''} in {run.seconds:.0f} s"
    speed = f"{run.new / max(run.seconds, 1e-3):.1f} images/s"
    done = f"{answers} ({speed})" if run.new else "all answered before"
    typer.echo(f"{observers}, {stimuli}, {done}: {run.folder}")

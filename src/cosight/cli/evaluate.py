"""`cosight evaluate`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cosight.cli.options import notify, progress_bar
from cosight.cli.signatures import Call

if TYPE_CHECKING:
    from cosight.runs.preview import Preview
    from cosight.runs.run_job import Run
    from cosight.trials.requests import RequestTotals

__all__ = ["evaluate", "print_preview", "print_requests", "print_run", "run_in_terminal"]

_MOST_SKIPPED = 10  # files named in the notes


def evaluate(
    call: Call,
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MODEL", help="Models: timm:NAME, onnx:FILE, vlm:NAME, trials:FILE ...", show_default=False
        ),
    ] = None,
    model_list: Annotated[
        list[str] | None, typer.Option("--models", help="A named list of models (`cosight list model-lists`).")
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Only count images, estimate tokens and cost, and print the prompts of vlm: models."
        ),
    ] = False,
) -> None:
    """Show stimuli to models and store their answers as trials. Running it again resumes an interrupted run.

    Prints each model's accuracy by condition with its interval, and the run's folder. `cosight compare RUN PEOPLE`
    compares the models with people.

    Examples:
        cosight evaluate python:mynet:model --on photos --out run
        cosight evaluate trials:answers.parquet --on photos --out recorded
        cosight evaluate vlm:gpt-4o --on photos --labels cat,dog --out vlm --dry-run
    """
    from cosight.benchmarks import benchmarks
    from cosight.models.loading import model_lists

    listed = [line for name in model_list or () for line in model_lists[name].models]
    lines = dict.fromkeys([*(models or ()), *listed])
    if dry_run:
        from cosight.runs.preview import preview

        print_preview(preview(*lines, **call.options))
        return
    with run_in_terminal(call.options["out"]), progress_bar() as progress:
        run: Run = call(*lines, progress=progress)
    print_run(run)
    benchmark = benchmarks.get(str(call.options["on"]))
    if benchmark is not None and benchmark.table is not None:
        typer.echo(f"the benchmark's table: cosight score {run.folder} --on {benchmark.name}")


@contextmanager
def run_in_terminal(folder: Path) -> Iterator[None]:
    """Send what workers print to standard error, and tell how to resume when the run is interrupted."""
    try:
        with redirect_stdout(sys.stderr):  # Ray prints about its workers
            yield
    except KeyboardInterrupt:
        from cosight.runs.folder import RUN

        resume = f"resume with: cosight run resume {folder}"
        again = "nothing is stored yet; run the same command again"
        typer.echo(f"stopped; {resume if (folder / RUN).exists() else again}", err=True)
        raise


def print_preview(made: Preview) -> None:
    """Print images, estimated tokens and cost of each model, then the prompts."""
    from cosight.cli.tables import print_table, print_text

    notify(made.notices)
    print_table(
        [
            {
                "observer": model.observer,
                "images": model.images,
                "answered": model.answered or None,
                "tokens in": None if model.tokens_in is None else f"{model.tokens_in:,}",
                "tokens out": None if model.tokens_out is None else f"{model.tokens_out:,}",
                "cost": None if model.cost is None else f"{model.cost:.4g}",
            }
            for model in made.models
        ]
    )
    asked = [model for model in made.models if model.prompt is not None]
    for model in asked:
        basis = f"the mean of {model.measured} answers" if model.measured else "estimated, GPT-4o's rule for images"
        price = "" if model.cost is not None else "; price=INPUT/OUTPUT per million tokens gives the cost"
        print_text(f"{model.observer}: tokens are {basis}{price}")
    for number, model in enumerate(asked):
        if all(str(model.prompt) != str(other.prompt) for other in asked[:number]):
            typer.echo(
                f"\nprompt of {model.observer} (the order of the options differs between images):\n{model.prompt}"
            )


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
    print_requests(run.requests)
    observers = f"{len(run.observers)} observer{'s' if len(run.observers) > 1 else ''}"
    stimuli = f"{run.stimuli} stimul{'i' if run.stimuli > 1 else 'us'}"
    answers = f"{run.new} answer{'s' if run.new > 1 else ''} in {run.seconds:.0f} s"
    speed = f"{run.new / max(run.seconds, 1e-3):.1f} images/s"
    done = f"{answers} ({speed})" if run.new else "all answered before"
    typer.echo(f"{observers}, {stimuli}, {done}: {run.folder}")


def print_requests(requests: Mapping[str, RequestTotals]) -> None:
    """Print what the requests to vision-language models took, one row per observer; nothing where there were none."""
    from cosight.cli.tables import print_table

    rows = [
        {
            "observer": observer,
            "answers": totals.answers,
            "abstained": totals.abstained,
            "refused": totals.refused,
            "unparsed": totals.unparsed,
            "requests": totals.requests,
            "tokens in": f"{totals.tokens_in:,}",
            "tokens out": f"{totals.tokens_out:,}",
            "cost": None if totals.cost is None else f"{totals.cost:.4g}",
        }
        for observer, totals in requests.items()
    ]
    if rows:
        print_table(rows)

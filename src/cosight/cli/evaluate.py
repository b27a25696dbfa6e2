"""`cosight evaluate`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cosight.cli.options import Labels, Seed, names, notify, progress_bar
from cosight.errors import InvalidInput

if TYPE_CHECKING:
    from cosight.runs.run_job import Run

__all__ = ["evaluate", "resumable", "say_run"]


def evaluate(
    model: Annotated[
        list[str] | None, typer.Argument(help="Models: timm:NAME, onnx:FILE, trials:FILE ...", show_default=False)
    ] = None,
    on: Annotated[
        str,
        typer.Option(help="A stimulus set, a folder of images, or a benchmark made of --source.", show_default=False),
    ] = ...,  # type: ignore[assignment]
    out: Annotated[
        Path, typer.Option(help="Output folder. An unfinished run there is resumed.", show_default=False)
    ] = ...,  # type: ignore[assignment]
    models: Annotated[
        list[str] | None, typer.Option("--models", help="A named list of models (`cosight list model-lists`).")
    ] = None,
    source: Annotated[Path | None, typer.Option(help="Photos that a benchmark alters on the way.")] = None,
    labels: Labels = None,
    how: Annotated[str, typer.Option(help="How a class' members are put together: mean, sum or max.")] = "mean",
    features: Annotated[bool, typer.Option("--features", help="Also keep logits and features.")] = False,
    probe: Annotated[
        Path | None, typer.Option(help="Train a linear probe on the features of this set and let it answer.")
    ] = None,
    abstain: Annotated[
        list[str] | None,
        typer.Option(help="Comma-separated abstention functions, or all (`cosight list abstentions`)."),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Use only this many images, drawn by their names.")] = None,
    seed: Seed = 0,
    tiles: Annotated[
        Path | None, typer.Option(help="Images that mosaic and stickers draw from; default: SOURCE.")
    ] = None,
    format_: Annotated[str, typer.Option("--format", help="What altered photos pass through: png or jpeg.")] = "png",
    thumbnails: Annotated[bool, typer.Option("--thumbnails", help="Keep a small picture of each stimulus.")] = False,
    engine: Annotated[str, typer.Option(help="local, or ray: the cluster at RAY_ADDRESS.")] = "local",
    batch: Annotated[int, typer.Option(min=1, help="Images a forward pass.")] = 32,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads a model computes with.")] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Threads that read images (local), or actors (ray); default: one a core.")
    ] = None,
    on_error: Annotated[str, typer.Option(help="What an image that cannot be read does: stop, or skip it.")] = "stop",
) -> None:
    """Show stimuli to models and keep their answers as trials; run it again to go on after an interruption.

    Prints each model's accuracy by condition with its interval, and where the run is. `cosight compare RUN PEOPLE`
    holds it against people.
    """
    from cosight.runs.evaluate import evaluate as run

    with (
        resumable(out),
        progress_bar() as progress,
        redirect_stdout(sys.stderr),
    ):  # Ray tells of its workers on standard output
        done = run(
            *_lines(model, models),
            on=on,
            out=out,
            source=source,
            labels=labels,
            how=how,  # type: ignore[arg-type]
            features=features,
            probe=probe,
            abstain=_functions(abstain),
            limit=limit,
            seed=seed,
            tiles=tiles,
            format=format_,  # type: ignore[arg-type]
            thumbnails=thumbnails,
            engine=engine,
            batch=batch,
            threads=threads,
            workers=workers,
            on_error=on_error,  # type: ignore[arg-type]
            progress=progress,
        )
    say_run(done)


@contextmanager
def resumable(run: Path) -> Iterator[None]:
    """Whoever interrupts a run is told how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"stopped; resume with: cosight run resume {run}", err=True)
        raise


def _functions(abstain: list[str] | None) -> tuple[str, ...]:
    from cosight.models.abstention import abstentions

    asked = names(abstain) or []
    return tuple(abstentions) if asked == ["all"] else tuple(asked)


def _lines(model: list[str] | None, lists: list[str] | None) -> list[str]:
    """Models named one by one, then those of the lists."""
    from cosight.models.loading import model_lists

    named = [line for name in lists or [] for line in model_lists[name].models]
    lines = list(dict.fromkeys([*(model or []), *named]))
    if not lines:
        raise InvalidInput("name at least one model, got none; for example timm:resnet50.a1_in1k")
    return lines


def say_run(run: Run) -> None:
    """Accuracy by condition, and where the run is."""
    from cosight.cli.tables import print_scores
    from cosight.scoring.score import score

    notify(run.notices)
    notify(tuple(f"skipped: {reason}" for reason in list(run.skipped.values())[:10]))
    if len(run.skipped) > 10:
        notify((f"skipped: {len(run.skipped) - 10} more, named in the tables of trials",))
    trials = run.responses()
    if trials.frame["truth"].null_count() < len(trials):
        by = [name for name in ("experiment", "condition") if trials.frame[name].n_unique() > 1]
        scores = score(trials, measure=["accuracy"], by=by)
        print_scores(scores, more=f"`cosight score {run.folder} --json`")
    done = f"{_many(run.new, 'answer')} in {run.seconds:.0f} s ({run.new / max(run.seconds, 1e-3):.1f} images/s)"
    asked = f"{_many(len(run.observers), 'observer')}, {run.stimuli} stimul{'i' if run.stimuli > 1 else 'us'}"
    typer.echo(f"{asked}, {done if run.new else 'all answered before'}: {run.folder}")


def _many(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"

"""`cosight demo`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from cosight.cli.options import Seed, progress_bar
from cosight.errors import InvalidInput

if TYPE_CHECKING:
    from cosight.demos import Demo

__all__ = ["demo"]


def demo(
    part: Annotated[
        str | None,
        typer.Argument(
            metavar="[people|digits]",
            help="Run only the real people and networks, or only the digits benchmark (default: both).",
            show_default=False,
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Output folder. An unfinished demo there is resumed.")] = Path("demo-run"),
    seed: Seed = 0,
    me: Annotated[
        bool,
        typer.Option("--me", help="Label 35 digits yourself, in a browser, and see how far each model is from you."),
    ] = False,
    show: Annotated[bool, typer.Option("--open", help="Open the report in a browser at the end.")] = False,
) -> None:
    """Answer a question with real people and networks in seconds, then run the whole pipeline in some minutes; offline.

    `people` compares 25 networks with 10 people on images that ship with the package. `digits` builds the digits
    benchmark, trains five small architectures with five seeds each, evaluates them with every abstention function, and
    scores them against simulated people. Both end with a report. With `--me` you label digits yourself; the digits part
    runs first if it is not finished.

    Examples:
        cosight demo people
        cosight demo --out my-demo --open
        cosight demo --me
    """
    if me and part == "people":
        raise InvalidInput("--me is about the digits, got the part people; leave it out")
    page = _compare_with_me(out, seed) if me else _run_demo(part, out, seed)
    if show:
        import webbrowser

        webbrowser.open(page.resolve().as_uri())


def _run_demo(part: str | None, out: Path, seed: int) -> Path:
    from cosight.demos import demo as run
    from cosight.demos.run import Part

    parts = {str(name): name for name in get_args(Part)}
    if part is not None and part not in parts:
        raise InvalidInput(f"the parts of the demo are {' and '.join(parts)}, got {part!r}")
    with progress_bar() as progress:
        result = run(None if part is None else parts[part], out=out, seed=seed, progress=progress)
    _print_result(result)
    return result.page


def _print_result(result: Demo) -> None:
    """Print a small table and the verdict of each part, and where the report is."""
    from cosight.cli.tables import print_grid, print_text
    from cosight.demos.people import SAMPLE
    from cosight.demos.report import digits_summary, people_summary
    from cosight.statistics.verdict import verdict_text
    from cosight.trials.samples import sample_counts

    if result.people is not None:
        counts, table = sample_counts(SAMPLE), people_summary(result.people)
        print_text(
            f"{counts['people']} people and {counts['networks']} networks name {counts['images']} {SAMPLE.experiment}. "
            "Who errs on the same images as people? Error consistency (EC): 0 chance, 1 the same images."
        )
        print_grid(lambda _: [table])
        print_text(verdict_text(result.people))
    if result.digits is not None:
        benchmark, summary = result.digits.benchmark, digits_summary(result.digits.benchmark)
        if result.people is not None:
            print_text("")
        print_text("25 small networks, trained here on handwritten digits, and simulated people")
        print_grid(lambda _: [summary])
        print_text(verdict_text(benchmark))
    print_text(f"report: {result.page}")


def _compare_with_me(out: Path, seed: int) -> Path:
    from cosight.cli.tables import print_scores
    from cosight.demos.me import me

    def announce(address: str) -> None:
        typer.echo(f"your digits: {address} (Ctrl-C stops)", err=True)

    with progress_bar() as progress:
        result = me(out, seed=seed, progress=progress, announce=announce)
    print_scores(result.scores, more=str(result.trials.with_name("scores.json")))
    typer.echo(f"your answers are in {result.trials}, the report is {result.page}")
    return result.page

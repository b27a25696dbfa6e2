"""`cosight demo`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cosight.cli.options import Seed, progress_bar

if TYPE_CHECKING:
    from cosight.demo import Demo

__all__ = ["demo"]


def demo(
    out: Annotated[Path, typer.Option(help="Output folder. An unfinished demo there is resumed.")] = Path("demo-run"),
    seed: Seed = 0,
    me: Annotated[
        bool,
        typer.Option("--me", help="Label 35 digits yourself, in a browser, and see how far each model is from you."),
    ] = False,
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser at the end.")] = False,
) -> None:
    """The whole job on embedded data, offline, in some three minutes on two cores.

    Builds the digits benchmark, trains five small architectures with five seeds each, asks them with every abstention
    function, scores them, compares their errors with each other and with a simulated panel, and writes a page. With
    --me, on a demo that is done (or is done first), it is your turn.
    """
    from cosight.demo import demo as run

    if me:
        page = _ask_me(out, seed)
    else:
        with progress_bar() as progress:
            done = run(out, seed=seed, progress=progress)
        _say(done)
        page = done.page
    if show:
        import webbrowser

        webbrowser.open(page.resolve().as_uri())


def _ask_me(out: Path, seed: int) -> Path:
    from cosight.cli.tables import print_scores
    from cosight.demo.me import me

    def announce(address: str) -> None:
        typer.echo(f"your digits: {address} (Ctrl-C ends it)", err=True)

    with progress_bar() as progress:
        found = me(out, seed=seed, progress=progress, announce=announce)
    print_scores(found.scores, more=str(found.page.with_name("scores.json")))
    typer.echo(f"your answers are in {found.trials}, the page is {found.page}")
    return found.page


def _say(done: Demo) -> None:
    from cosight.benchmarks.visalign.results_table import TABLE
    from cosight.cli.tables import print_benchmark, print_comparison
    from cosight.demo.report import exceptions

    print_benchmark(TABLE, done.benchmark, more=str(done.folder / "benchmark.json"))
    lost = exceptions(done.abstention)
    typer.echo(f"\nletters are refused more than clean digits, but for: {', '.join(lost) or 'none'}\n")
    print_comparison(done.comparison, list_pairs=False, more=str(done.folder / "comparison.json"))
    typer.echo(f"people here are simulated; the page is {done.page}")

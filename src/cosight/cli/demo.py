"""`cosight demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cosight.cli.options import Seed, progress_bar

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
    """Run the whole pipeline on embedded data, offline, in about three minutes on two cores.

    Builds the digits benchmark, trains five small architectures with five seeds each, evaluates them with every
    abstention function, scores them, compares their errors with each other and with a simulated panel, and writes a
    page. With --me you label digits yourself; the demo runs first if it is not finished.

    Examples:
        cosight demo
        cosight demo --out my-demo --open
        cosight demo --me
    """
    page = _compare_with_me(out, seed) if me else _run_demo(out, seed)
    if show:
        import webbrowser

        webbrowser.open(page.resolve().as_uri())


def _run_demo(out: Path, seed: int) -> Path:
    from cosight.benchmarks.visalign.results_table import TABLE
    from cosight.cli.tables import print_benchmark, print_comparison
    from cosight.demo import demo as run
    from cosight.demo.report import exceptions

    with progress_bar() as progress:
        result = run(out, seed=seed, progress=progress)
    print_benchmark(TABLE, result.benchmark, more=str(result.folder / "benchmark.json"))
    names = ", ".join(exceptions(result.abstention)) or "none"
    typer.echo(f"\nabstention is higher on letters than on clean digits; exceptions: {names}\n")
    print_comparison(result.comparison, list_pairs=False, more=str(result.folder / "comparison.json"))
    typer.echo(f"people here are simulated; the page is {result.page}")
    return result.page


def _compare_with_me(out: Path, seed: int) -> Path:
    from cosight.cli.tables import print_scores
    from cosight.demo.me import me

    def announce(address: str) -> None:
        typer.echo(f"your digits: {address} (Ctrl-C stops)", err=True)

    with progress_bar() as progress:
        result = me(out, seed=seed, progress=progress, announce=announce)
    print_scores(result.scores, more=str(result.page.with_name("scores.json")))
    typer.echo(f"your answers are in {result.trials}, the page is {result.page}")
    return result.page

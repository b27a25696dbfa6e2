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
    out: Annotated[Path, typer.Option(help="The folder for everything it makes, or a demo to go on with.")] = Path(
        "demo-run"
    ),
    seed: Seed = 0,
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser at the end.")] = False,
) -> None:
    """The whole job on embedded data, offline, in some three minutes on two cores.

    Builds the digits benchmark, trains five small architectures with five seeds each, asks them with every abstention
    function, scores them, compares their errors with each other and with a simulated panel, and writes a page.
    """
    from cosight.demo import demo as run

    with progress_bar() as progress:
        done = run(out, seed=seed, progress=progress)
    _say(done)
    if show:
        import webbrowser

        webbrowser.open(done.page.resolve().as_uri())


def _say(done: Demo) -> None:
    from cosight.cli.tables import print_benchmark, print_comparison
    from cosight.demo.report import exceptions

    print_benchmark(done.benchmark, more=str(done.folder / "benchmark.json"))
    lost = exceptions(done.abstention)
    typer.echo(f"\nletters are refused more than clean digits, but for: {', '.join(lost) or 'none'}\n")
    print_comparison(done.comparison, list_pairs=False, more=str(done.folder / "comparison.json"))
    typer.echo(f"people here are simulated; the page is {done.page}")

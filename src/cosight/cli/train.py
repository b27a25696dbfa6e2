"""`cosight train`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cosight.cli.options import progress_bar

if TYPE_CHECKING:
    from cosight.training import TrainedNetwork

__all__ = ["train"]


def train(
    recipe: Annotated[Path, typer.Argument(help="A TOML file: architecture, data, settings.", show_default=False)],
    out: Annotated[
        Path,
        typer.Option(help="Output folder. Unfinished training there is resumed.", show_default=False),
    ] = ...,  # type: ignore[assignment]
    seed: Annotated[
        list[int] | None, typer.Option(min=0, help="Train only these seeds, in place of the recipe's.")
    ] = None,
    device: Annotated[str, typer.Option(help="Where to compute: cpu, cuda.")] = "cpu",
) -> None:
    """Train the networks of a recipe, one a seed; run it again to go on after an interruption.

    Prints each network's best validation accuracy and its file: `cosight evaluate cosight:NAME,checkpoint=FILE` shows
    it stimuli. `torchrun --nproc-per-node N -m cosight train RECIPE --out DIR` shares the work out among processes.
    """
    from cosight.training import read_recipe
    from cosight.training import train as run

    wanted = read_recipe(recipe, seeds=tuple(seed) if seed else None)
    with progress_bar() as progress:
        trained = run(wanted, out=out, device=device, progress=progress)
    _say(trained)


def _say(trained: list[TrainedNetwork]) -> None:
    """A network a row, and the mean over seeds."""
    import os

    from rich.table import Table

    from cosight.cli.tables import console

    if os.environ.get("RANK", "0") != "0":  # another process of torchrun's says it
        return
    table = Table(box=None, pad_edge=False, header_style="bold", collapse_padding=True)
    for header in ("network", "validation accuracy", "best epoch", "epochs", "model"):
        table.add_column(header, no_wrap=True)
    for one in trained:
        epochs = sum(epoch.phase == "train" for epoch in one.history)
        done = str(epochs) if one.new else f"{epochs} (before)"
        table.add_row(one.name, f"{one.validation_accuracy:.3f}", str(one.best_epoch + 1), done, one.line)
    console().print(table)

"""`cosight train`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from cosight.cli.options import progress_bar
from cosight.cli.signatures import Call

if TYPE_CHECKING:
    from cosight.training import TrainedNetwork

__all__ = ["train"]


def train(call: Call) -> None:
    """Train the networks of a recipe, one per seed. Running it again resumes interrupted training.

    Prints each network's best validation accuracy and its file: `cosight evaluate cosight:NAME,checkpoint=FILE` shows
    it stimuli. `torchrun --nproc-per-node N -m cosight train RECIPE --out DIR` distributes the work over processes.

    Examples:
        cosight train recipe.toml --out networks
        cosight train recipe.toml --out networks --seed 45,46
    """
    from cosight.cli.tables import print_table

    with progress_bar() as progress:
        networks: list[TrainedNetwork] = call(progress=progress)
    if os.environ.get("RANK", "0") != "0":  # under torchrun, only the first process prints
        return
    rows = []
    for network in networks:
        epochs = sum(epoch.phase == "train" for epoch in network.history)
        robust = {} if network.robust_accuracy is None else {"under attack": f"{network.robust_accuracy:.3f}"}
        rows.append(
            {
                "network": network.name,
                "validation accuracy": f"{network.validation_accuracy:.3f}",
                **robust,
                "best epoch": str(network.best_epoch + 1),
                "epochs": str(epochs) if network.new else f"{epochs} (before)",
                "model": network.line,
            }
        )
    print_table(rows)

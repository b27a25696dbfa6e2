"""`cosight study simulate`."""

from __future__ import annotations

from typing import Annotated

import typer

from cosight.cli.options import Device, ModelPrecision, Seed, progress_bar
from cosight.cli.study.lifecycle import Database, StudyFolder

__all__ = ["simulate"]


def simulate(
    study: StudyFolder,
    participants: Annotated[
        int, typer.Option(min=1, help="Maximum number of participants; fewer if the study is full before.")
    ],
    observer: Annotated[
        str,
        typer.Option(
            help="panel: simulated people; a model, such as timm:resnet50.a1_in1k; or, in 2afc and cluster studies, a "
            "judge: lpips."
        ),
    ] = "panel",
    url: Annotated[str | None, typer.Option(help="Address of the served study (default: a server is started).")] = None,
    db: Database = None,
    device: Device = "auto",
    precision: ModelPrecision = "float32",
    seed: Seed = 0,
    browser: Annotated[
        bool, typer.Option("--browser", help="Use the real page in Chromium, one participant after the other.")
    ] = False,
) -> None:
    """Let simulated people, or a model, take part in the study over HTTP. Their answers are marked as simulated.

    They recognise pictures by their pixels. On a new study the same seed gives the same answers.

    Examples:
        cosight study simulate survey --participants 3
        cosight study simulate survey --participants 2 --seed 1
    """
    from cosight.study import simulate as simulate_study

    with progress_bar() as progress:
        result = simulate_study(
            study,
            participants=participants,
            observer=observer,
            url=url,
            db=db,
            device=device,
            precision=precision,
            seed=seed,
            browser=browser,
            progress=progress,
        )
    full = "; the study takes no more now" if result.full else ""
    typer.echo(
        f"{result.participants} simulated participants ({result.observer}) answered {result.answers} trials{full}"
    )
    typer.echo(f"next: cosight study quality {study}")

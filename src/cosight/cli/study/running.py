"""`cosight study new`, `serve` and `status`."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cosight.cli.options import AsJson, Labels

if TYPE_CHECKING:
    from cosight.humans.database.progress import Progress

__all__ = ["Database", "StudyFolder", "new", "serve", "status"]

StudyFolder = Annotated[Path, typer.Argument(metavar="STUDY", help="The study's folder.", show_default=False)]
Database = Annotated[
    str | None,
    typer.Option("--db", help="The database, postgresql://USER:PASSWORD@HOST/NAME; otherwise STUDY/answers.sqlite."),
]


def new(
    study: StudyFolder,
    type: Annotated[str, typer.Option(help="What people are shown: classify, timed, 2afc, cluster or curate.")],  # noqa: A002
    stimuli: Annotated[Path, typer.Option("--set", help="The stimulus set.")],
    labels: Labels = None,
    protocol: Annotated[
        str | None, typer.Option(help="Numbers of a published study: visalign, laion-c, 2afc, clustering.")
    ] = None,
) -> None:
    """Write a study's design (study.toml) and its sentences (texts.toml), to be looked through and changed."""
    from cosight.humans.study.new import new_study

    made = new_study(study, type=type, stimuli=stimuli, labels=labels, protocol=protocol)
    typer.echo(f"wrote {made.root / 'study.toml'} and {made.root / 'texts.toml'}; next: cosight study serve {study}")


def serve(
    study: StudyFolder,
    db: Database = None,
    host: Annotated[
        str, typer.Option(help="The address to serve at; 0.0.0.0 is every one of this machine's.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8000,
    processes: Annotated[int, typer.Option(min=1, help="Server processes; several need PostgreSQL.")] = 1,
) -> None:
    """Show the study to whoever opens its address, until Ctrl-C. Every answer is kept before the page is told so."""
    from cosight.humans.web.serving import Addresses
    from cosight.humans.web.serving import serve as run

    def announce(addresses: Addresses) -> None:
        typer.echo(f"participants: {addresses.participants}\nexperimenter: {addresses.experimenter}")
        typer.echo("stop with Ctrl-C", err=True)

    run(study, url=db, host=host, port=port, processes=processes, announce=announce)


def status(study: StudyFolder, db: Database = None, as_json: AsJson = False) -> None:
    """How far the study is: participants and answers, also while it is served."""
    from cosight.humans.database.progress import progress
    from cosight.humans.database.store import Store
    from cosight.humans.study.design import read_study
    from cosight.humans.study.pool import pool_of

    design = read_study(study)
    pool = pool_of(design)
    with closing(Store.open(design, db)) as store:
        found = store.read(lambda connection: progress(connection, design, pool))
    if as_json:
        typer.echo(json.dumps({"study": design.name, **asdict(found), "given": found.given, "wanted": found.wanted}))
    else:
        _say(design.name, found)


def _say(name: str, found: Progress) -> None:
    who = "simulated people" if found.simulated else "people"
    state = "paused" if found.paused else "complete" if found.given >= found.wanted else "open"
    people, least = found.participants, min(image.answers for image in found.images)
    typer.echo(f"{name}: {state}, {found.given} of {found.wanted} answers by {who}")
    typer.echo(f"{people.started} began, {people.active} at it, {people.finished} finished, {people.released} left")
    most = max(image.answers for image in found.images)
    typer.echo(f"{len(found.images)} images with {least} to {most} answers, {found.images[0].wanted} wanted")

"""`cosight study new`, `show`, `serve` and `status`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from cosight.cli.options import AsJson, Labels

__all__ = ["Database", "StudyFolder", "new", "serve", "show", "status"]

StudyFolder = Annotated[Path, typer.Argument(metavar="STUDY", help="The study's folder.", show_default=False)]
Database = Annotated[
    str | None,
    typer.Option(
        "--db",
        envvar="COSIGHT_DB",
        help="The database, postgresql://USER@HOST/NAME (default: STUDY/answers.sqlite). Other users can read command "
        "lines: put a URL with a password into COSIGHT_DB, or the password into PGPASSWORD or a password file.",
    ),
]


def new(
    study: StudyFolder,
    stimuli: Annotated[Path, typer.Option("--set", help="The stimulus set.")],
    type: Annotated[  # noqa: A002
        str | None,
        typer.Option(help="Trial type: classify, timed, 2afc, cluster or curate (default: that of --protocol)."),
    ] = None,
    labels: Labels = None,
    protocol: Annotated[
        str | None, typer.Option(help="Use the numbers of a published study: visalign, laion-c, 2afc, clustering.")
    ] = None,
    images: Annotated[
        int | None, typer.Option(help="Different images per participant (default: fits the set and the type).")
    ] = None,
    answers: Annotated[
        int | None,
        typer.Option(help="Answers per image, by different people (default: 20 for classify, 5 for timed, else 3)."),
    ] = None,
    pool: Annotated[
        int,
        typer.Option(help="Number of images of the set that the study uses, evenly over the classes. 0: all."),
    ] = 0,
    overlap: Annotated[
        int, typer.Option(help="Number of each participant's images that everybody sees, for a ceiling (timed).")
    ] = 0,
    warmup: Annotated[
        list[Path] | None,
        typer.Option(help="A set of images for a warm-up block (timed); one block per set, in this order."),
    ] = None,
) -> None:
    """Write a study's design (study.toml) and its sentences (texts.toml), which you can then edit.

    Examples:
        cosight study new my-study --type classify --set photos --labels cat,dog
        cosight study new rapid --type timed --set photos --labels cat,dog
    """
    from cosight.study import new as new_study

    root = new_study(
        study,
        type=type,
        stimuli=stimuli,
        labels=labels,
        protocol=protocol,
        images=images,
        answers=answers,
        pool=pool,
        overlap=overlap,
        warmup=warmup or (),
        announce=typer.echo,
    ).root
    typer.echo(f"wrote {root / 'study.toml'} and {root / 'texts.toml'}; next: cosight study serve {study}")


def show(study: StudyFolder, as_json: AsJson = False) -> None:
    """Show the protocol of the study: its numbers, the instructions, and the words on the buttons.

    `cosight evaluate --dry-run` prints the prompt of a vision-language model for the same classes.

    Examples:
        cosight study show survey
        cosight study show survey --json
    """
    from cosight.study import show as show_study

    protocol = show_study(study)
    if as_json:
        typer.echo(json.dumps(asdict(protocol), indent=1))
        return
    from cosight.cli.tables import print_text

    print_text(f"{protocol.name}: {protocol.type}, {protocol.summary}")
    print_text(", ".join(f"{name} {value:g}" for name, value in protocol.numbers.items()))
    for heading, text in (("instructions", protocol.instructions), ("question", protocol.question)):
        typer.echo(f"\n{heading}:")
        for paragraph in text.split("\n\n"):
            print_text(" ".join(paragraph.split()))
    if protocol.buttons:
        typer.echo("\nanswers and the words on their buttons:")
        for answer, button in protocol.buttons.items():
            typer.echo(f"- {answer}: {button}" if answer != button else f"- {answer}")


def serve(
    study: StudyFolder,
    db: Database = None,
    host: Annotated[
        str, typer.Option(help="The address to listen on. 0.0.0.0 lets other computers of the network take part.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8000,
    processes: Annotated[int, typer.Option(min=1, help="Number of server processes; several need PostgreSQL.")] = 1,
) -> None:
    """Serve the study until Ctrl-C. An answer is stored on the disk before it is acknowledged.

    Examples:
        cosight study serve survey
        cosight study serve survey --host 0.0.0.0 --port 8080
    """
    from cosight.study import serve as serve_study

    def announce(participants: str, experimenter: str) -> None:
        typer.echo(f"participants: {participants}\nexperimenter: {experimenter}")
        typer.echo("stop with Ctrl-C", err=True)

    serve_study(study, db=db, host=host, port=port, processes=processes, announce=announce)


def status(study: StudyFolder, db: Database = None, as_json: AsJson = False) -> None:
    """Show the progress of the study, also while it is served: participants and answers.

    Examples:
        cosight study status survey
        cosight study status survey --json
    """
    from cosight.study import read_study
    from cosight.study import status as read_status

    design, progress = read_study(study), read_status(study, db=db)
    if as_json:
        counts = {"given": progress.given, "wanted": progress.wanted}
        typer.echo(json.dumps({"study": design.name, **asdict(progress), **counts}))
        return
    from cosight.cli.tables import print_text

    group = "simulated people" if progress.simulated else "people"
    state = "paused" if progress.paused else "complete" if progress.given >= progress.wanted else "open"
    print_text(f"{design.name}: {state}, {progress.given} of {progress.wanted} answers by {group}")
    people = progress.participants
    print_text(f"{people.started} started, {people.active} active, {people.finished} finished, {people.released} left")
    answers = [image.answers for image in progress.images]
    wanted = progress.images[0].wanted
    print_text(f"{len(answers)} images with {min(answers)} to {max(answers)} answers, {wanted} wanted")

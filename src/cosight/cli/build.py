"""`cosight build`: a benchmark's stimulus set from what it is made of."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cosight.cli.options import Seed, notify, progress_bar
from cosight.errors import InvalidInput

if TYPE_CHECKING:
    from cosight.models import TorchModel
    from cosight.stimuli.build.building import Built
    from cosight.stimuli.build.photos import Photos

__all__ = ["app"]

app = typer.Typer(
    help="Build a benchmark's stimulus set: eight categories, splits, gold labels, distractors, a datasheet.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Out = Annotated[Path, typer.Argument(help="The set to make, or to go on with.", show_default=False)]
CountsText = Annotated[
    str, typer.Option("--counts", help="How many: 1=50,8=100,train=500,distractors=20; default: VisAlign's.")
]
Closed = Annotated[bool, typer.Option("--closed", help="Also make the closed test set.")]
Humans = Annotated[
    Path | None, typer.Option(help="Trials of people: their answers become the gold labels of Uncertain images.")
]
CuratedLists = Annotated[
    list[Path] | None,
    typer.Option("--curated", help="Leave out source images that this list rejects (several: once each)."),
]
Sheet = Annotated[Path | None, typer.Option(help="Also write a contact sheet (.png, .jpg): categories down.")]


@app.command("digits")
def digits(
    out: Out,
    counts: CountsText = "",
    seed: Seed = 0,
    closed: Closed = False,
    humans: Humans = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes; the result is the same.")] = 1,
    sheet: Sheet = None,
) -> None:
    """Build the embedded benchmark on handwritten digits. Gold labels of its Uncertain images are simulated."""
    from cosight.stimuli.build.categories import counts_of
    from cosight.stimuli.build.digits import build_digits

    _check_sheet(sheet, out)
    asked = counts_of(counts)
    with progress_bar() as progress:
        built = build_digits(out, counts=asked, seed=seed, closed=closed, workers=workers, progress=progress)
    _finish(built, out, humans, sheet)


@app.command("visalign")
def visalign(
    out: Out,
    photos: Annotated[Path, typer.Option(help="Photos of the ten classes, in class folders.", show_default=False)],
    others: Annotated[Path | None, typer.Option(help="Photos of other objects and textures (category 4).")] = None,
    near: Annotated[Path | None, typer.Option(help="Photos of near-miss species (category 6).")] = None,
    renditions: Annotated[Path | None, typer.Option(help="The classes in other styles (category 7).")] = None,
    backgrounds: Annotated[Path | None, typer.Option(help="Photos to paste on; default: plain grounds.")] = None,
    attackers: Annotated[
        list[str] | None, typer.Option("--attackers", help="Models to attack for category 3 (several: once each).")
    ] = None,
    curated: CuratedLists = None,
    counts: CountsText = "",
    size: Annotated[int, typer.Option(min=32, help="Side of the images in pixels.")] = 224,
    seed: Seed = 0,
    closed: Closed = False,
    humans: Humans = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; default: one a core.")] = None,
    sheet: Sheet = None,
) -> None:
    """Build VisAlign's categories from photos. Look at each image before people see it."""
    from cosight.stimuli.build.categories import SPLITS, TESTED, counts_of
    from cosight.stimuli.build.visalign import VisAlign, build_visalign

    _check_sheet(sheet, out)
    given = {"photos": photos, "others": others, "near": near, "renditions": renditions, "backgrounds": backgrounds}
    builder = VisAlign(
        _sources({name: folder for name, folder in given.items() if folder is not None}, curated or []),
        counts_of(counts),
        splits=TESTED if closed else SPLITS[1:-1],
        seed=seed,
        side=size,
        attackers=tuple(attackers or ()),
        load=_loaded,
    )
    with progress_bar() as progress:
        built = build_visalign(builder, out, workers=workers or os.cpu_count() or 1, progress=progress)
    _finish(built, out, humans, sheet)


@app.command("cifar-10h")
def cifar10h(
    source: Annotated[
        Path,
        typer.Argument(
            help="A folder with test_images.png, test_labels.json, cifar10h-counts.npy.", show_default=False
        ),
    ],
    out: Out,
    workers: Annotated[int, typer.Option(min=1, help="Processes; the result is the same.")] = 1,
) -> None:
    """CIFAR-10's test images with the answers of about 51 people each as gold labels (CIFAR-10H)."""
    from cosight.stimuli.build.cifar10h import Cifar10H
    from cosight.stimuli.making import check_output, make_set

    check_output(out, outside=[source])
    with progress_bar() as progress:
        made = make_set(Cifar10H(source), out, workers=workers, progress=progress)
    typer.echo(f"{made.new} stimuli made, {made.present} were there: {out}")


@app.command("public")
def public(
    source: Annotated[Path, typer.Argument(help="The public set, in either of its layouts.", show_default=False)],
    out: Out,
    labels: Annotated[Path | None, typer.Option(help="The folder with category1.txt ..., where it is apart.")] = None,
) -> None:
    """Read the public VisAlign set, as Hugging Face or the older archive has it."""
    from cosight.stimuli.build.public import import_public

    made = import_public(source, out, labels=labels)
    typer.echo(f"{len(made.stimuli)} stimuli: {out}")


def _sources(folders: Mapping[str, Path], lists: Sequence[Path]) -> dict[str, Photos]:
    """Photos by use without the rejected ones; says how many were left out, and which were not there."""
    from cosight.stimuli.build.curation import read_curated
    from cosight.stimuli.build.photos import photos_in

    curated = read_curated(lists) if lists else None
    found = {name: photos_in(folder, curated=curated) for name, folder in folders.items()}
    if curated is not None:
        out = [digest for photos in found.values() for digest in photos.left_out]
        missing = curated.not_in(out)
        lost = f"; {len(missing)} were not found: {', '.join(missing)}" if missing else ""
        notify((f"{len(set(out))} of {len(curated.rejected)} rejected images left out{lost}",))
    return found


@cache
def _loaded(model: str) -> TorchModel:
    from cosight.models import load_torch

    return load_torch(model)


def _check_sheet(sheet: Path | None, out: Path) -> None:
    """What can be refused before anything is made."""
    from cosight.stimuli.sheet import sheet_format

    if sheet is None:
        return
    sheet_format(sheet)
    if sheet.resolve().is_relative_to((out / "images").resolve()):
        raise InvalidInput(f"--sheet must lie outside {out / 'images'}, where it would be taken for an image")


def _finish(built: Built, out: Path, humans: Path | None, sheet: Path | None) -> None:
    """Put people's answers in, and say what came of it."""
    from cosight.stimuli.build.gold import put_gold
    from cosight.stimuli.build.sheet import write_category_sheet
    from cosight.stimuli.sets import read_set
    from cosight.trials import read
    from cosight.trials.table import select_roles

    if humans is not None:
        people = select_roles(read(humans))
        images = put_gold(out, people)
        notify((*people.notices, f"gold labels of {images} Uncertain images are people's"))
    if sheet is not None:
        write_category_sheet(read_set(out), sheet)
    reasons = Counter((job.rsplit("/", 1)[0], reason) for job, reason in built.made.dropped.items())
    notify(tuple(f"{count} of {place} are missing: {reason}" for (place, reason), count in sorted(reasons.items())))
    there = f", {built.made.present} were there" if built.made.present else ""
    typer.echo(f"{built.made.new} stimuli made{there}: {out}")

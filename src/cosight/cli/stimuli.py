"""`cosight stimuli`: make stimulus sets from images, and verify them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cosight.cli.options import AsJson, Labels, Seed, notify, progress_bar, split_names
from cosight.errors import InvalidInput

if TYPE_CHECKING:
    from cosight.models import TorchModel
    from cosight.stimuli.alterations import Alteration, Family
    from cosight.stimuli.generate import SetRecipe
    from cosight.stimuli.sets import StimulusSet

__all__ = ["app"]

_MOST_STEPS = 100  # in a range: no kind has more

app = typer.Typer(help="Make stimulus sets from images, and verify them.", no_args_is_help=True, rich_markup_mode=None)

Source = Annotated[
    Path,
    typer.Argument(
        help="A stimulus set or a folder of images (class folders, LAION-C's layout, ...).", show_default=False
    ),
]
Out = Annotated[Path, typer.Argument(help="Output folder. An unfinished set there is resumed.", show_default=False)]
Kinds = Annotated[list[str] | None, typer.Option("--kind", help="Comma-separated kinds, or all (the default).")]
Workers = Annotated[int | None, typer.Option(min=1, help="Processes; default: one a core. The result is the same.")]
Limit = Annotated[int | None, typer.Option(min=1, help="Use only this many sources, drawn by their names.")]
Format = Annotated[str, typer.Option("--format", help="png (no loss) or jpeg (quality 100).")]
OnError = Annotated[str, typer.Option(help="What a source that cannot be used does: stop, or skip it and say so.")]
Sheet = Annotated[Path | None, typer.Option(help="Also write a contact sheet (.png, .jpg): kinds down, steps across.")]
Prepare = Annotated[
    str,
    typer.Option(
        help="Before anything else: none, 256x256 (stretch), or 256/224 (short side to 256, centre crop 224)."
    ),
]


@app.command("corrupt")
def corrupt(
    source: Source,
    out: Out,
    kind: Kinds = None,
    severity: Annotated[str, typer.Option(help="Severities: 7, 1-10, 1,3,5, or all.")] = "all",
    variant: Annotated[
        str, typer.Option(help="visalign (severity 1-10) or imagenet-c (1-5, its brightness).")
    ] = "visalign",
    textures: Annotated[Path | None, typer.Option(help="Frost photos; default: frost drawn by cosight.")] = None,
    region: Annotated[str, typer.Option(help="Where cropping cuts: centre or random.")] = "centre",
    prepare: Prepare = "none",
    seed: Seed = 0,
    limit: Limit = None,
    workers: Workers = None,
    format_: Format = "png",
    on_error: OnError = "stop",
    sheet: Sheet = None,
) -> None:
    """Corrupt images as VisAlign and ImageNet-C do; `cosight list corruptions` has the kinds."""
    from cosight.stimuli.alterations import FAMILIES
    from cosight.stimuli.corruptions import load_textures

    _check(out, source, format_, on_error, sheet)
    options = {"variant": variant, "region": region, "textures": load_textures(textures) if textures else None}
    chosen = _alterations(FAMILIES["corrupt"], kind, severity, options)
    experiment = "imagenet-c" if variant == "imagenet-c" else "corruptions"
    recipe = _recipe(source, chosen, experiment, prepare, seed, limit)
    _make(recipe, out, workers=workers, format_=format_, on_error=on_error, sheet=sheet)


@app.command("distort")
def distort(
    source: Source,
    out: Out,
    kind: Kinds = None,
    level: Annotated[str, typer.Option(help="Levels: 3, 1-5, 1,3,5, or all.")] = "all",
    tiles: Annotated[
        Path | None,
        typer.Option(help="Images (or a tile index) that mosaic and stickers draw from; default: all of SOURCE."),
    ] = None,
    geometry: Annotated[
        str, typer.Option(help="glitched: per-image, or published (the same bands everywhere).")
    ] = "per-image",
    prepare: Prepare = "256/224",
    seed: Seed = 0,
    limit: Limit = None,
    workers: Workers = None,
    format_: Format = "png",
    on_error: OnError = "stop",
    sheet: Sheet = None,
) -> None:
    """Distort images as LAION-C does; `cosight list distortions` has the kinds."""
    from cosight.stimuli.alterations import FAMILIES, with_resource
    from cosight.stimuli.resources import tiles_for_set

    _check(out, source, format_, on_error, sheet)
    chosen = _alterations(FAMILIES["distort"], kind, level, {"geometry": geometry})
    with _skipping(on_error, "not a tile") as on_skip:
        chosen = with_resource(
            chosen, "tiles", lambda: tiles_for_set(out, source, given=tiles, workers=workers, on_skip=on_skip)
        )
    recipe = _recipe(source, chosen, "laion-c", prepare, seed, limit)
    _make(recipe, out, workers=workers, format_=format_, on_error=on_error, sheet=sheet)


@app.command("manipulate")
def manipulate(
    source: Source,
    out: Out,
    kind: Kinds = None,
    condition: Annotated[str, typer.Option(help="Comma-separated conditions, or all.")] = "all",
    spectrum: Annotated[
        Path | None, typer.Option(help="Mean amplitude spectrum for power-equalisation; default: that of SOURCE.")
    ] = None,
    prepare: Prepare = "none",
    seed: Seed = 0,
    limit: Limit = None,
    workers: Workers = None,
    format_: Format = "png",
    on_error: OnError = "stop",
    sheet: Sheet = None,
) -> None:
    """Manipulate images as model-vs-human's experiments do; `cosight list manipulations` has kinds and conditions."""
    from cosight.stimuli.alterations import FAMILIES, with_resource
    from cosight.stimuli.images import preparation
    from cosight.stimuli.resources import spectrum_for_set
    from cosight.stimuli.sets import read_set

    _check(out, source, format_, on_error, sheet)
    ready = preparation(prepare)
    chosen = _alterations(FAMILIES["manipulate"], kind, condition, {})
    with _skipping(on_error, "not in the spectrum") as on_skip:
        mean = partial(spectrum_for_set, out, read_set(source), prepare=ready, given=spectrum, on_skip=on_skip)
        chosen = with_resource(chosen, "spectrum", mean)
    recipe = _recipe(source, chosen, None, prepare, seed, limit)
    _make(recipe, out, workers=workers, format_=format_, on_error=on_error, sheet=sheet)


@app.command("attack")
def attack(
    source: Source,
    out: Out,
    model: Annotated[
        list[str],
        typer.Option("--model", help="Whose gradients: timm:NAME[,checkpoint=FILE]; may be given several times."),
    ],
    kind: Annotated[str, typer.Option("--kind", help="The attack; `cosight list attacks`.")] = "fgsm",
    eps: Annotated[str | None, typer.Option(help="Comma-separated sizes (default: VisAlign's six).")] = None,
    space: Annotated[
        str, typer.Option(help="What eps counts: normalised (units of each channel's std) or pixels.")
    ] = "normalised",
    keep: Annotated[str, typer.Option(help="Of what fools a model: the smallest eps, or all.")] = "smallest",
    labels: Labels = None,
    prepare: Prepare = "none",
    seed: Seed = 0,
    limit: Limit = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes; each loads the models.")] = 1,
    format_: Format = "png",
    on_error: OnError = "stop",
    sheet: Sheet = None,
) -> None:
    """Attack images with models' gradients and keep what fools them.

    The truth of an image is found among the classes of --labels, in the models' order; a truth that is a number is the
    output's index; for any other the model's own answer to the clean image is what must change.
    """
    from cosight.benchmarks.visalign.categories import ATTACKED
    from cosight.stimuli.attack_recipe import VISALIGN_EPS, AttackRecipe
    from cosight.stimuli.images import preparation
    from cosight.trials.spaces import label_space

    _check(out, source, format_, on_error, sheet)
    recipe = AttackRecipe(
        sources=_sources(source, seed, limit),
        models=tuple(model),
        load=_loaded,
        attack=kind,
        eps=_numbers("--eps", eps) if eps else VISALIGN_EPS,
        space=space,  # type: ignore[arg-type]
        choose=keep,  # type: ignore[arg-type]
        classes=label_space(labels).classes if labels else None,
        seed=seed,
        prepare=preparation(prepare),
        facts=ATTACKED,
    )
    _make(recipe, out, workers=workers, format_=format_, on_error=on_error, sheet=sheet)


@app.command("compose")
def compose(
    source: Annotated[
        str,
        typer.Argument(
            help="Photos in class folders, or a text-to-image pipeline: diffusers:HUB-NAME or diffusers:FOLDER.",
            show_default=False,
        ),
    ],
    out: Out,
    category: Annotated[
        int, typer.Option(help="2: on strange backgrounds; 5: two creatures in one.", show_default=False)
    ],
    count: Annotated[int, typer.Option(min=1, help="How many images.")] = 100,
    backgrounds: Annotated[Path | None, typer.Option(help="Photos to paste on; default: plain grounds.")] = None,
    others: Annotated[
        Path | None, typer.Option(help="Animals outside the classes, in class folders, for category 5.")
    ] = None,
    doubtful: Annotated[bool, typer.Option("--doubtful", help="Also use masks that look doubtful.")] = False,
    size: Annotated[int, typer.Option(min=32, help="Side of the images in pixels.")] = 512,
    steps: Annotated[int, typer.Option(min=1, help="Denoising steps of the pipeline.")] = 50,
    guidance: Annotated[float, typer.Option(help="How closely the pipeline follows the prompt.")] = 7.5,
    seed: Seed = 0,
    workers: Annotated[int, typer.Option(min=1, help="Processes; a pipeline is loaded in each.")] = 1,
    format_: Format = "png",
    on_error: OnError = "stop",
    sheet: Sheet = None,
) -> None:
    """Compose images of VisAlign's categories 2 and 5 from photos or prompts. Look at each before people see it."""
    from cosight.benchmarks.visalign.composites import Composites
    from cosight.benchmarks.visalign.prompts import GeneratedImages
    from cosight.stimuli.sets import read_set

    _check(out, Path(source), format_, on_error, sheet)
    recipe: SetRecipe
    if source.startswith("diffusers:"):
        name = source.removeprefix("diffusers:")
        if others or backgrounds:
            raise InvalidInput("--others and --backgrounds are for photos; a pipeline follows its prompts")
        recipe = GeneratedImages(category, name, _pipeline, count, size=size, steps=steps, guidance=guidance, seed=seed)
    else:
        recipe = Composites(
            category,
            read_set(source),
            count,
            others=read_set(others) if others else None,
            backgrounds=read_set(backgrounds) if backgrounds else None,
            size=size,
            doubtful=doubtful,
            seed=seed,
        )
    _make(recipe, out, workers=workers, format_=format_, on_error=on_error, sheet=sheet)


@app.command("prompts")
def prompts(
    category: Annotated[
        int, typer.Option(help="2: on strange backgrounds; 5: two creatures in one.", show_default=False)
    ],
    count: Annotated[int, typer.Option(min=1, help="How many.")] = 100,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Print VisAlign's prompts for categories 2 and 5 as CSV (or JSON), for a text-to-image model elsewhere."""
    from cosight.benchmarks.visalign.prompts import prompt_table

    table = prompt_table(category, count=count, seed=seed)
    typer.echo(table.write_json() if as_json else table.write_csv(), nl=as_json)


@app.command("tasks")
def tasks(
    stimuli: Annotated[
        Path,
        typer.Argument(metavar="SET", help="A stimulus set; with --from also a folder of images.", show_default=False),
    ],
    type: Annotated[  # noqa: A002
        str, typer.Option(help="2afc: a query and two options; cluster: panels of targets.", show_default=False)
    ],
    table: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="CSV file with the columns query,target,seed (2afc) or query,target (cluster): file names or digests.",
        ),
    ] = None,
    panels_of: Annotated[
        int | None, typer.Option(min=2, help="Targets per panel, for cluster (default: 3).", show_default=False)
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Seed that draws which targets share a panel (default: 0).", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace existing tasks of this type.")] = False,
) -> None:
    """Write the forced choices of a set, for studies of type 2afc or cluster, into its tasks.parquet.

    Without --from, the tasks follow from the manifest: `parent` is the target of a stimulus, `seed_stimulus` in
    `parameters` its seed, as in sets of inverted representations. One file holds both types.
    """
    from cosight.stimuli.tasks import PANELS_OF, TASKS, make_tasks

    _one_of("--type", type, ("2afc", "cluster"))
    if type == "2afc" and (panels_of, seed) != (None, None):
        raise InvalidInput("--panels-of and --seed are for --type cluster, got --type 2afc; leave them out")
    made = make_tasks(
        stimuli,
        type,  # type: ignore[arg-type]
        panels_of=panels_of or PANELS_OF,
        seed=seed or 0,
        table=table,
        force=force,
    )
    if made.indexed:
        notify((f"{stimuli} had no manifest; wrote stimuli.parquet with {made.indexed} images",))
    kept = f", {made.kept} tasks of the other type kept" if made.kept else ""
    typer.echo(f"{len(made.tasks)} {type} tasks written to {stimuli / TASKS}{kept}; {made.unused} stimuli in no task")
    typer.echo(f"next: cosight study new STUDY --type {type} --set {stimuli}")


@app.command("verify")
def verify(
    stimuli: Annotated[Path, typer.Argument(metavar="SET", help="A stimulus set.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Decode every image and compare it with the manifest; exit 1 when one has changed, is missing or broken."""
    import json
    from dataclasses import asdict

    from cosight.stimuli.sets import read_set
    from cosight.stimuli.sets import verify as check
    from cosight.stimuli.tiles import open_tiles, verify_tiles

    with progress_bar() as progress:
        found = check(read_set(stimuli), progress=progress)
    if (stimuli / "tiles").exists():
        verify_tiles(open_tiles(stimuli / "tiles"))
    if as_json:
        typer.echo(json.dumps({**asdict(found), "intact": found.intact}, indent=1))
    else:
        for state in ("changed", "missing", "broken", "unlisted"):
            for file in getattr(found, state):
                typer.echo(f"{state}: {file}")
        lost = len(found.changed) + len(found.missing) + len(found.broken)
        typer.echo(f"{found.stimuli - lost} of {found.stimuli} stimuli are as the manifest says")
        if found.changed or found.broken:
            typer.echo("remove what is changed or broken and run the command that made the set again")
    if not found.intact:
        raise typer.Exit(1)


@cache
def _loaded(model: str) -> TorchModel:
    from cosight.models import load_torch

    return load_torch(model)


@cache
def _pipeline(name: str) -> Any:
    from cosight.stimuli.composition import load_pipeline

    return load_pipeline(name)


def _numbers(option: str, text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise InvalidInput(f"{option} must be comma-separated numbers, got {text!r}") from error


def _kind_names(family: Family, given: list[str] | None) -> list[str]:
    if given is None or split_names(given) == ["all"]:
        return list(family.kinds)
    asked = split_names(given) or []
    if not asked or "all" in asked:
        raise InvalidInput(f"--kind must be names or all, which stands alone, got {','.join(given)!r}")
    return [family.kinds.name_of(name) for name in asked]


def _alterations(family: Family, kinds: list[str] | None, steps: str, options: dict[str, Any]) -> list[Alteration]:
    """Every kind at every step; of "all" kinds those steps that there are, of named ones just what was asked for."""
    from cosight.stimuli.alterations import alteration

    family.check(options)
    every = kinds is None or split_names(kinds) == ["all"]
    chosen, short = [], []
    for name in _kind_names(family, kinds):
        asked = list(family.kinds[name].steps) if steps == "all" else _spelled_out(steps)
        there = [step for step in asked if family.has(name, step, options)] if every or steps == "all" else asked
        there = there or (asked[:1] if not every else [])  # which is refused with the reason
        short += [name] if len(there) < len(asked) and family.step_name != "condition" else []
        chosen += [alteration(name, **{family.step_name: step, **options}) for step in there]
    if not chosen:
        raise InvalidInput(f"no kind has {family.step_name} {steps!r}; see `cosight list {family.kinds.kind}s`")
    if short and steps != "all":
        notify((f"not every {family.step_name} of {steps} is there for {', '.join(short)}",))
    return chosen


def _spelled_out(steps: str) -> list[str]:
    """The steps that "1-3,5" means; whatever is no range of numbers stays as it is.

    >>> _spelled_out("1-3,5")
    ['1', '2', '3', '5']
    """
    out: list[str] = []
    for part in (text.strip() for text in steps.split(",")):
        low, dash, high = part.partition("-")
        if dash and low.isdecimal() and high.isdecimal():
            if not int(low) <= int(high) <= _MOST_STEPS:
                raise InvalidInput(f"a range runs upwards, to {_MOST_STEPS} at most, got {part}; write 1-5")
            out += map(str, range(int(low), int(high) + 1))
        elif part:
            out.append(part)
    return list(dict.fromkeys(out))


@contextmanager
def _skipping(on_error: str, what: str) -> Iterator[Callable[[str], None] | None]:
    """Where what cannot be used is told; None where it is to stop us."""
    skipped: list[str] = []
    yield skipped.append if on_error == "skip" else None
    notify(tuple(f"{what}: {reason}" for reason in skipped))


def _recipe(
    source: Path, chosen: list[Alteration], experiment: str | None, prepare: str, seed: int, limit: int | None
) -> SetRecipe:
    from cosight.stimuli.alterations import Alterations
    from cosight.stimuli.images import preparation

    return Alterations(
        sources=_sources(source, seed, limit),
        alterations=tuple(chosen),
        experiment=experiment,
        seed=seed,
        prepare=preparation(prepare),
    )


def _sources(source: Path, seed: int, limit: int | None) -> StimulusSet:
    from cosight.stimuli.sets import read_set, sample

    found = read_set(source)
    return found if limit is None else sample(found, limit, seed=seed)


def _check(out: Path, source: Path, format_: str, on_error: str, sheet: Path | None) -> None:
    """What can be refused before anything is written."""
    from cosight.stimuli.contact_sheet import sheet_format
    from cosight.stimuli.generate import check_output

    _one_of("--format", format_, ("png", "jpeg"))
    _one_of("--on-error", on_error, ("stop", "skip"))
    check_output(out, outside=[source])
    if sheet is None:
        return
    sheet_format(sheet)
    for folder in (source, out / "images"):
        if sheet.resolve().is_relative_to(folder.resolve()):
            raise InvalidInput(f"--sheet must be outside the image folder {folder}, got {sheet}; choose another path")
    if sheet.is_dir():
        raise InvalidInput(f"--sheet must be a file, got the folder {sheet}")


def _make(
    recipe: SetRecipe, out: Path, *, workers: int | None, format_: str, on_error: str, sheet: Path | None
) -> None:
    """Make the set, and say what came of it."""
    from cosight.stimuli.contact_sheet import write_sheet
    from cosight.stimuli.generate import generate_set

    with progress_bar() as progress:
        made = generate_set(
            recipe,
            out,
            format=format_,  # type: ignore[arg-type]
            workers=workers or os.cpu_count() or 1,
            on_error=on_error,  # type: ignore[arg-type]
            progress=progress,
        )
    notify(tuple(f"skipped: {reason}" for reason in dict.fromkeys(made.skipped.values())))
    if sheet is not None:
        write_sheet(made.stimuli, sheet)
    there = f", {made.present} were there" if made.present else ""
    reasons = Counter(made.dropped.values())
    why = ", ".join(f"{reason} {count}" for reason, count in sorted(reasons.items()))
    lost = f", {len(made.dropped)} not kept ({why})" if made.dropped else ""
    typer.echo(f"{made.new} stimuli made{there}{lost}: {out}")


def _one_of(option: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InvalidInput(f"{option} must be {' or '.join(allowed)}, got {value!r}")

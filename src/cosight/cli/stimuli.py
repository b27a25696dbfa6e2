"""`cosight stimuli`: generate stimulus sets from images, and verify them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from cosight.cli.commands import Command, Group
from cosight.cli.inversion import contest, inversion_options, invert
from cosight.cli.options import AsJson, Device, Labels, ModelPrecision, Seed, notify, progress_bar, split_names
from cosight.cli.signatures import Call, command_for
from cosight.devices import Precision, check_device_name, check_placement, choose_device
from cosight.errors import InvalidInput

if TYPE_CHECKING:
    from cosight.models import TorchModel
    from cosight.stimuli.alterations import Alteration
    from cosight.stimuli.generate import SetRecipe
    from cosight.stimuli.images import Preparation
    from cosight.stimuli.sets import StimulusSet

__all__ = ["app", "parse_steps"]

_MOST_IMAGES = 1_000_000  # to compose: what no study shows is a slip of the finger
_LARGEST_SIDE = 8192  # pixels of a composed image
_MOST_DIGITS = 9  # of a step; int() refuses thousands of digits
_MAX_STEP = 100  # of a range such as 1-5: no kind has more steps

app = typer.Typer(
    cls=Group, help="Make stimulus sets from images, and verify them.", no_args_is_help=True, rich_markup_mode=None
)

Kinds = Annotated[list[str] | None, typer.Option("--kind", help="Comma-separated kinds, or all (the default).")]
Category = Annotated[int, typer.Option(help="2: on strange backgrounds; 5: two creatures in one.", show_default=False)]

ClassLabels = Annotated[
    str | None,
    typer.Option(
        "--labels", help="Label space, comma-separated classes, or a TOML file about them (default: VisAlign's)."
    ),
]


@dataclass(frozen=True, slots=True)
class SetOptions:
    """The options of every command that generates a set."""

    source: Annotated[Path, "A stimulus set or a folder of images (class folders, LAION-C's layout, ...)."]
    out: Annotated[Path, "Output folder. An unfinished set there is resumed."]
    _: KW_ONLY
    seed: Annotated[int, "Seed of everything random."] = 0
    workers: Annotated[
        int | None,
        "Number of worker processes (default: one per core; 1 if each loads models). Does not change the output.",
    ] = None
    format: Annotated[Literal["png", "jpeg"], "File format: png is lossless, jpeg has quality 100."] = "png"
    on_error: Annotated[
        Literal["stop", "skip"], "What to do with a source that cannot be used: stop, or skip it with a note."
    ] = "stop"
    sheet: Annotated[Path | None, "Also write a contact sheet (.png, .jpg): one row per kind, one column per step."] = (
        None
    )
    force: Annotated[bool, "Replace an existing contact sheet."] = False

    def __post_init__(self) -> None:
        """Raise for what can be refused before anything is read or written."""
        from cosight.arrays import whole_number
        from cosight.processes import MOST_WORKERS
        from cosight.stimuli.contact_sheet import check_sheet
        from cosight.stimuli.generate import check_output

        whole_number(self.seed, name="--seed")
        if self.workers is not None:
            whole_number(self.workers, name="--workers", least=1, most=MOST_WORKERS)
        check_output(self.out, outside=[self.source])
        if self.sheet is not None:
            check_sheet(self.sheet, outside=(self.source, self.out / "images"), force=self.force)

    def generate(self, recipe: SetRecipe, *, default_workers: int | None = None) -> None:
        """Generate the set and print how many stimuli were made."""
        from cosight.processes import core_count
        from cosight.stimuli.contact_sheet import write_sheet
        from cosight.stimuli.generate import generate_set

        with progress_bar() as progress:
            result = generate_set(
                recipe,
                self.out,
                format=self.format,
                workers=self.workers or default_workers or core_count(),
                on_error=self.on_error,
                progress=progress,
            )
        notify(tuple(f"skipped: {reason}" for reason in dict.fromkeys(result.skipped.values())))
        if self.sheet is not None:
            write_sheet(result.stimuli, self.sheet)
        present = f", {result.present} existed" if result.present else ""
        reasons = Counter(result.dropped.values())
        listed = ", ".join(f"{reason} {count}" for reason, count in sorted(reasons.items()))
        dropped = f", {len(result.dropped)} not kept ({listed})" if result.dropped else ""
        typer.echo(f"{result.new} stimuli made{present}{dropped}: {self.out}")

    @contextmanager
    def collect_skipped(self, label: str) -> Iterator[Callable[[str], None] | None]:
        """Yield a function that collects reasons for skipping, printed at the end; None with --on-error stop."""
        skipped: list[str] = []
        yield skipped.append if self.on_error == "skip" else None
        notify(tuple(f"{label}: {reason}" for reason in skipped))


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions(SetOptions):
    """The options of every command that alters or attacks images."""

    prepare: Annotated[
        str | None,
        "How sources are resized first: none, 256x256 (stretch), or 256/224 (short side to 256, centre crop 224); "
        "default: none, for distort 256/224.",
    ] = None
    limit: Annotated[int | None, "Use only this many sources, drawn by their names."] = None

    def __post_init__(self) -> None:
        """Raise for what can be refused before anything is read or written."""
        from cosight.arrays import whole_number

        SetOptions.__post_init__(self)
        if self.limit is not None:
            whole_number(self.limit, name="--limit", least=1)

    def read_sources(self) -> StimulusSet:
        """Read the sources, or a sample of them."""
        from cosight.stimuli.sets import read_set, sample

        stimuli = read_set(self.source)
        return stimuli if self.limit is None else sample(stimuli, self.limit, seed=self.seed)

    def preparation(self, default: str = "none") -> Preparation:
        """Parse --prepare."""
        from cosight.stimuli.images import preparation

        return preparation(self.prepare or default)

    def alterations(
        self, sources: StimulusSet, chosen: list[Alteration], *, experiment: str | None, prepare: str = "none"
    ) -> SetRecipe:
        """Return the recipe that applies these alterations to every source; `prepare` is the default of --prepare."""
        from cosight.stimuli.alterations import Alterations

        return Alterations(sources, tuple(chosen), experiment, self.seed, self.preparation(prepare))


def corrupt(
    call: Call,
    kind: Kinds = None,
    severity: Annotated[str, typer.Option(help="Severities: 7, 1-10, 1,3,5, or all.")] = "all",
    variant: Annotated[
        str, typer.Option(help="visalign (severity 1-10) or imagenet-c (1-5, its brightness).")
    ] = "visalign",
    textures: Annotated[
        Path | None,
        typer.Option(help="Frost photos, as `cosight data get imagenet-c-frost` gets (default: drawn by cosight)."),
    ] = None,
    region: Annotated[str, typer.Option(help="Where cropping cuts: centre or random.")] = "centre",
) -> None:
    """Corrupt images as VisAlign and ImageNet-C do; `cosight list corruptions` has the kinds.

    Examples:
        cosight stimuli corrupt photos foggy --kind fog,frost --severity 1-3
        cosight stimuli corrupt photos noisy --kind gaussian_noise --sheet noisy.png
    """
    from cosight.stimuli.corruptions import load_textures

    options: SourceOptions = call()
    settings = {"variant": variant, "region": region, "textures": load_textures(textures) if textures else None}
    chosen = _choose_alterations("corrupt", kind, severity, settings)
    experiment = "imagenet-c" if variant == "imagenet-c" else "corruptions"
    options.generate(options.alterations(options.read_sources(), chosen, experiment=experiment))


def distort(
    call: Call,
    kind: Kinds = None,
    level: Annotated[str, typer.Option(help="Levels: 3, 1-5, 1,3,5, or all.")] = "all",
    tiles: Annotated[
        Path | None,
        typer.Option(help="Images (or a tile index) that mosaic and stickers draw from (default: all of SOURCE)."),
    ] = None,
    geometry: Annotated[
        str, typer.Option(help="glitched: per-image, or published (the same bands everywhere).")
    ] = "per-image",
) -> None:
    """Distort images as LAION-C does; `cosight list distortions` has the kinds.

    Examples:
        cosight stimuli distort photos distorted --level 3
        cosight stimuli distort photos lines --kind vertical_lines --limit 2
    """
    from cosight.stimuli.alterations import with_resource
    from cosight.stimuli.resources import tiles_for_set

    options: SourceOptions = call()
    chosen = _choose_alterations("distort", kind, level, {"geometry": geometry})
    sources = options.read_sources()  # before tiles, which may take minutes
    with options.collect_skipped("not a tile") as on_skip:
        chosen = with_resource(
            chosen,
            "tiles",
            lambda: tiles_for_set(options.out, options.source, given=tiles, workers=options.workers, on_skip=on_skip),
        )
    options.generate(options.alterations(sources, chosen, experiment="laion-c", prepare="256/224"))


def manipulate(
    call: Call,
    kind: Kinds = None,
    condition: Annotated[str, typer.Option(help="Comma-separated conditions, or all.")] = "all",
    spectrum: Annotated[
        Path | None, typer.Option(help="Mean amplitude spectrum for power-equalisation (default: that of SOURCE).")
    ] = None,
) -> None:
    """Manipulate images as model-vs-human's experiments do; `cosight list manipulations` has kinds and conditions.

    Examples:
        cosight stimuli manipulate photos manipulated --kind contrast,low-pass
        cosight stimuli manipulate photos turned --kind rotation --condition 90
    """
    from cosight.stimuli.alterations import with_resource
    from cosight.stimuli.resources import spectrum_for_set
    from cosight.stimuli.sets import read_set

    options: SourceOptions = call()
    prepare, sources = options.preparation(), read_set(options.source)
    chosen = _choose_alterations("manipulate", kind, condition, {})
    with options.collect_skipped("not in the spectrum") as on_skip:
        chosen = with_resource(
            chosen,
            "spectrum",
            lambda: spectrum_for_set(options.out, sources, prepare=prepare, given=spectrum, on_skip=on_skip),
        )
    options.generate(options.alterations(options.read_sources(), chosen, experiment=None))


def attack(
    call: Call,
    model: Annotated[
        list[str],
        typer.Option("--model", help="Model to take gradients from: timm:NAME[,checkpoint=FILE]; may be repeated."),
    ],
    kind: Annotated[str, typer.Option(help="The attack; `cosight list attacks`.")] = "fgsm",
    eps: Annotated[str | None, typer.Option(help="Comma-separated sizes (default: VisAlign's six).")] = None,
    space: Annotated[str, typer.Option(help="Unit of eps: normalised (each channel's std) or pixels.")] = "normalised",
    keep: Annotated[str, typer.Option(help="Which eps that fool a model are kept: smallest or all.")] = "smallest",
    labels: Labels = None,
    device: Device = "auto",
    precision: ModelPrecision = "float32",
) -> None:
    """Attack images with models' gradients and keep what fools them.

    The truth of an image is one of the classes of --labels, in the models' order; a truth that is a number is the
    index of an output; for any other truth the model's own answer to the clean image is what must change.

    Examples:
        cosight stimuli attack photos fooled --model python:mynet:model
        cosight stimuli attack photos pgd --model python:mynet:model --kind pgd-l2
    """
    from cosight.benchmarks.visalign.categories import ATTACKED
    from cosight.models.loading import check_model_spec
    from cosight.stimuli.attack_recipe import VISALIGN_EPS, AttackRecipe
    from cosight.trials.spaces import label_space

    options: SourceOptions = call()
    try:
        sizes = tuple(float(part) for part in eps.split(",")) if eps else VISALIGN_EPS
    except ValueError as error:
        raise InvalidInput(f"--eps must be comma-separated numbers, got {eps!r}") from error
    for line in model:
        check_model_spec(line)
    check_placement(check_device_name(device), precision)
    recipe = AttackRecipe(
        sources=options.read_sources(),
        models=tuple(model),
        load=partial(_load_model, device=device, precision=precision),
        attack=kind,
        eps=sizes,
        space=space,  # type: ignore[arg-type]
        choose=keep,  # type: ignore[arg-type]
        classes=label_space(labels).classes if labels else None,
        seed=options.seed,
        prepare=options.preparation(),
        facts=ATTACKED,
    )
    options.generate(recipe, default_workers=1)


def compose(
    call: Call,
    category: Category,
    count: Annotated[int, typer.Option(min=1, max=_MOST_IMAGES, help="Number of images.")] = 100,
    backgrounds: Annotated[Path | None, typer.Option(help="Photos to paste on (default: plain backgrounds).")] = None,
    others: Annotated[
        Path | None, typer.Option(help="Animals outside the classes, in class folders, for category 5.")
    ] = None,
    labels: ClassLabels = None,
    masks: Annotated[
        str, typer.Option(help="Segmentation model that finds objects without a mask file (default: GrabCut).")
    ] = "grabcut",
    check: Annotated[
        str, typer.Option(help="Model, or ensemble:A+B, that must recognise every object; none: unverified.")
    ] = "none",
    doubtful: Annotated[bool, typer.Option("--doubtful", help="Also use GrabCut's masks that look doubtful.")] = False,
    size: Annotated[int, typer.Option(min=32, max=_LARGEST_SIDE, help="Side of the images in pixels.")] = 512,
    steps: Annotated[int, typer.Option(min=1, max=_MOST_IMAGES, help="Denoising steps of the pipeline.")] = 50,
    guidance: Annotated[float, typer.Option(help="How closely the pipeline follows the prompt.")] = 7.5,
    device: Annotated[
        str, typer.Option(help="Where the pipeline runs: cpu, cuda, cuda:N, mps, or auto (a GPU if there is one).")
    ] = "auto",
) -> None:
    """Compose images of VisAlign's categories 2 and 5 from photos or prompts. Look at each before people see it.

    SOURCE is a folder of photos in class folders, or a text-to-image pipeline: diffusers:HUB-NAME or diffusers:FOLDER.

    Examples:
        cosight stimuli compose animals composed --category 2 --count 4 --size 64
        cosight stimuli compose animals mixed --category 5 --others others --count 2
    """
    from cosight.benchmarks.visalign.class_facts import read_class_facts
    from cosight.benchmarks.visalign.composites import Composites
    from cosight.benchmarks.visalign.prompts import GeneratedImages
    from cosight.stimuli.sets import read_set

    options: SetOptions = call()
    name = str(options.source)
    recipe: SetRecipe
    if name.startswith("diffusers:"):
        if others or backgrounds or masks != "grabcut" or check != "none":
            raise InvalidInput(
                "--others, --backgrounds, --masks and --check are for photos; a pipeline follows its prompts"
            )
        settings: dict[str, Any] = {"size": size, "steps": steps, "guidance": guidance, "seed": options.seed}
        check_placement(check_device_name(device), "float32")
        load = partial(_load_pipeline, device=device)
        settings |= {"options": {"facts": read_class_facts(labels)}} if labels else {}
        recipe = GeneratedImages(category, name.removeprefix("diffusers:"), load, count, **settings)
    else:
        recipe = Composites(
            category,
            read_set(options.source),
            count,
            others=read_set(others) if others else None,
            backgrounds=read_set(backgrounds) if backgrounds else None,
            size=size,
            seed=options.seed,
            labels=labels,
            masks=masks,
            check=check,
            doubtful=doubtful,
        )
    options.generate(recipe, default_workers=1)


for _name, _options, _action in (
    ("corrupt", SourceOptions, corrupt),
    ("distort", SourceOptions, distort),
    ("manipulate", SourceOptions, manipulate),
    ("attack", SourceOptions, attack),
    ("compose", SetOptions, compose),
):
    app.command(_name, cls=Command)(command_for(_options, _action))
app.command("invert", cls=Command)(command_for(inversion_options, invert))
app.command("contest", cls=Command)(command_for(inversion_options, contest))


@app.command("prompts", cls=Command)
def prompts(
    category: Category,
    count: Annotated[int, typer.Option(min=1, max=_MOST_IMAGES, help="Number of prompts.")] = 100,
    labels: ClassLabels = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Print VisAlign's prompts for categories 2 and 5 as CSV (or JSON), for a text-to-image model elsewhere.

    Examples:
        cosight stimuli prompts --category 2 --count 3
        cosight stimuli prompts --category 5 --json
    """
    from cosight.benchmarks.visalign.class_facts import read_class_facts
    from cosight.benchmarks.visalign.prompts import prompt_table

    table = prompt_table(category, count=count, seed=seed, facts=read_class_facts(labels) if labels else None)
    typer.echo(table.write_json() if as_json else table.write_csv(), nl=as_json)


@app.command("tasks", cls=Command)
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
    near: Annotated[
        str | None,
        typer.Option(
            help="For cluster: panels of targets that are near neighbours to this judge (lpips) or in the features of "
            "this model, besides random ones.",
            show_default=False,
        ),
    ] = None,
    device: Device = "auto",
    force: Annotated[bool, typer.Option("--force", help="Replace existing tasks of this type.")] = False,
) -> None:
    """Write the forced choices of a set, for studies of type 2afc or cluster, into its tasks.parquet.

    Without --from, the tasks follow from the manifest: `parent` is the target of a stimulus, `seed_stimulus` in
    `parameters` its seed, as in sets of inverted representations. One file holds both types.

    Examples:
        cosight stimuli tasks photos --type 2afc --from choices.csv
        cosight stimuli tasks photos --type cluster --from choices.csv --panels-of 2
    """
    from cosight.stimuli.tasks import PANELS_OF, TASKS, make_tasks

    if type not in ("2afc", "cluster"):
        raise InvalidInput(f"--type must be 2afc or cluster, got {type!r}")
    if type == "2afc" and (panels_of, seed, near) != (None, None, None):
        raise InvalidInput("--panels-of, --seed and --near are for --type cluster, got --type 2afc; leave them out")
    neighbours = None
    if near is not None:
        from cosight.models.judges.answer_tasks import near_neighbours

        neighbours = near_neighbours(stimuli, near, device=device)
    summary = make_tasks(
        stimuli,
        type,  # type: ignore[arg-type]
        panels_of=panels_of or PANELS_OF,
        seed=seed or 0,
        near=neighbours,
        table=table,
        force=force,
    )
    if summary.indexed:
        notify((f"{stimuli} had no manifest; wrote stimuli.parquet with {summary.indexed} images",))
    kept = f", {summary.kept} tasks of the other type kept" if summary.kept else ""
    typer.echo(
        f"{len(summary.tasks)} {type} tasks written to {stimuli / TASKS}{kept}; {summary.unused} stimuli in no task"
    )
    typer.echo(f"next: cosight study new STUDY --type {type} --set {stimuli}")


@app.command("verify", cls=Command)
def verify(
    stimuli: Annotated[Path, typer.Argument(metavar="SET", help="A stimulus set.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Decode every image and compare it with the manifest; exit 1 when one has changed, is missing or broken.

    Examples:
        cosight stimuli verify foggy
        cosight stimuli verify foggy --json
    """
    import json
    from dataclasses import asdict

    from cosight.stimuli.sets import read_set
    from cosight.stimuli.sets import verify as verify_set
    from cosight.stimuli.tiles import open_tiles, verify_tiles

    with progress_bar() as progress:
        result = verify_set(read_set(stimuli), progress=progress)
    if (stimuli / "tiles").exists():
        verify_tiles(open_tiles(stimuli / "tiles"))
    if as_json:
        typer.echo(json.dumps({**asdict(result), "intact": result.intact}, indent=1))
    else:
        for state in ("changed", "missing", "broken", "unlisted"):
            for file in getattr(result, state):
                typer.echo(f"{state}: {file}")
        differing = len(result.changed) + len(result.missing) + len(result.broken)
        typer.echo(f"{result.stimuli - differing} of {result.stimuli} stimuli match the manifest")
        if result.changed or result.broken:
            typer.echo("remove changed and broken files, then run the command that made the set again")
    if not result.intact:
        raise typer.Exit(1)


def _choose_alterations(verb: str, kinds: list[str] | None, steps: str, settings: dict[str, Any]) -> list[Alteration]:
    """Return every chosen kind at every chosen step.

    With all kinds or all steps, steps that a kind does not have are left out; otherwise they are an error.
    """
    from cosight.stimuli.alterations import FAMILIES, alteration

    family = FAMILIES[verb]
    family.check(settings)
    names = split_names(kinds)
    every_kind = kinds is None or names == ["all"]
    if every_kind:
        names = list(family.kinds)
    elif not names or "all" in names:
        raise InvalidInput(f"--kind must be names, or all alone, got {','.join(kinds or ())!r}")
    chosen, incomplete = [], []
    for name in (family.kinds.name_of(name) for name in names):
        wanted = list(family.kinds[name].steps) if steps == "all" else parse_steps(steps)
        existing = [step for step in wanted if family.has(name, step, settings)]
        if not every_kind and (steps != "all" or not existing):
            existing = wanted  # a step that the kind does not have raises below
        if len(existing) < len(wanted) and family.step_name != "condition":
            incomplete.append(name)
        chosen += [alteration(name, **{family.step_name: step, **settings}) for step in existing]
    if not chosen:
        most = max(len(kind.steps) for kind in family.kinds.values())
        known = f"use 1 to {most}" if family.step_name != "condition" else f"see `cosight list {family.kinds.kind}s`"
        raise InvalidInput(f"no kind has {family.step_name} {steps!r}; {known}")
    if incomplete and steps != "all":
        notify((f"{', '.join(incomplete)}: not every {family.step_name} of {steps} exists",))
    return chosen


def parse_steps(steps: str) -> list[str]:
    """Return the steps in a comma-separated list of names and ranges of numbers.

    >>> parse_steps("1-3,5")
    ['1', '2', '3', '5']
    """
    names: list[str] = []
    for part in (text.strip() for text in steps.split(",")):
        low, dash, high = part.partition("-")
        if dash and low.isdecimal() and high.isdecimal():
            if max(len(low), len(high)) > _MOST_DIGITS or not int(low) <= int(high) <= _MAX_STEP:
                raise InvalidInput(f"a range runs upwards, to {_MAX_STEP} at most, got {part}; write 1-5")
            names += map(str, range(int(low), int(high) + 1))
        elif part:
            names.append(part)
    return list(dict.fromkeys(names))


@cache
def _load_model(reference: str, *, device: str, precision: Precision) -> TorchModel:  # called in worker processes
    from cosight.models import load_torch

    return load_torch(reference, device=device, precision=precision)


@cache
def _load_pipeline(name: str, *, device: str) -> Any:  # called in worker processes
    from cosight.stimuli.composition import load_pipeline

    return load_pipeline(name, device=choose_device(device))

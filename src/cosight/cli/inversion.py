"""`cosight stimuli invert` and `cosight stimuli contest`: stimuli from a model's representations."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from cosight.cli.options import notify, progress_bar
from cosight.cli.signatures import Call
from cosight.devices import Precision, check_device_name, check_placement

if TYPE_CHECKING:
    from cosight.stimuli.generate import GeneratedSet, SetRecipe
    from cosight.stimuli.inversion import TargetImages

__all__ = ["InversionOptions", "contest", "inversion_options", "invert"]


@dataclass(frozen=True, slots=True)
class InversionOptions:
    """What `invert` and `contest` have in common, checked."""

    models: tuple[str, ...]
    targets: TargetImages
    out: Path
    load: Any  # loads a model with features
    descent: dict[str, Any]
    batch: int
    workers: int

    def generate(self, recipe: SetRecipe) -> GeneratedSet:
        """Generate the set with a progress bar."""
        from cosight.stimuli.generate import generate_set

        with progress_bar() as progress:
            return generate_set(recipe, self.out, workers=self.workers, progress=progress)


def inversion_options(
    *models: str,
    targets: list[str],
    out: Path,
    limit: int | None = None,
    seed_images: Path | None = None,
    prepare: str | None = None,
    steps: int = 5000,
    step_size: float | None = None,
    optimiser: Literal["normalised", "sgd", "adam"] = "normalised",
    batch: int = 16,
    seed: int = 0,
    workers: int = 1,
    device: str = "auto",
    precision: Precision = "float32",
) -> InversionOptions:
    """Check the options.

    Args:
        *models: Models in torch: timm:NAME, cosight:resnet20,checkpoint=FILE ...; layer=PATH chooses the features.
        targets: A stimulus set or a folder of images, or noise: normal:0/1 (mean and standard deviation of the pixels);
            may be repeated.
        out: Output folder. An unfinished set there is resumed.
        limit: Number of targets of each kind (default: all images, 100 of each noise).
        seed_images: Images to start from (default: those of the targets' set that are no targets).
        prepare: How images are resized first: none, 256x256 (stretch), or 256/224 (short side to 256, centre crop 224).
        steps: Maximum number of steps.
        step_size: Step size (default: 1 for normalised and sgd, 0.01 for adam).
        optimiser: normalised takes steps of one length along the gradient.
        batch: Targets per batch. Results differ slightly between batch sizes.
        seed: Seed of everything random.
        workers: Number of worker processes. Each loads the models. Does not change the output.
        device: Where models run: cpu, cuda, cuda:N, mps, or auto (a GPU if there is one).
        precision: Numbers that models in torch compute in.
    """
    from cosight.models.loading import check_model_spec, load_features
    from cosight.stimuli.descent import DescentSettings
    from cosight.stimuli.generate import check_output
    from cosight.stimuli.inversion import read_targets

    descent: dict[str, Any] = {"steps": steps, "step_size": step_size, "optimiser": optimiser}
    DescentSettings(**descent)
    for line in models:
        check_model_spec(line)
    check_placement(check_device_name(device), precision)
    chosen = read_targets(targets, limit=limit, seed_images=seed_images, prepare=prepare, seed=seed)
    check_output(out, outside=chosen.folders)
    load = partial(load_features, device=device, precision=precision)
    return InversionOptions(models, chosen, out, load, descent, batch, workers)


def invert(
    call: Call,
    seeds: str = typer.Option("noise,image", help="Comma-separated kinds of seeds: noise (random pixels), image."),
    tolerance: float = typer.Option(0.01, help="Relative distance at which an image is finished."),
    threshold: float = typer.Option(0.1, help="Relative distance up to which an inversion counts as converged."),
) -> None:
    """Invert representations: change seeds until their features are those of a target (Nanda et al. 2021).

    The set has targets, seeds and results. `parameters` of a result has its kind of seed, the relative distance that
    the stored image reaches, and the number of steps. `cosight stimuli tasks` makes forced choices of them.

    Examples:
        cosight stimuli invert python:mynet:model --targets photos --out inverted
        cosight stimuli invert python:nets:a --targets photos --seeds noise --out n
    """
    from cosight.stimuli.descent import DescentSettings
    from cosight.stimuli.inversion import InversionRecipe, converged_counts

    options: InversionOptions = call()
    recipe = InversionRecipe(
        options.targets,
        options.models,
        options.load,
        tuple(part.strip() for part in seeds.split(",")),  # type: ignore[misc]
        DescentSettings(**options.descent, tolerance=tolerance),
        options.batch,
    )
    result = options.generate(recipe)
    counts = converged_counts(result.stimuli, threshold)
    for name, (converged, count, worst) in counts.items():
        typer.echo(f"{name}: {converged} of {count} converged (distance up to {threshold:g}, largest {worst:.3f})")
    if unconverged := sum(count - converged for converged, count, _ in counts.values()):
        notify((f"{unconverged} inversions have not converged; more --steps may help",))
    existed = f", {result.present} existed" if result.present else ""
    typer.echo(f"{result.new} stimuli made{existed}: {options.out}")
    typer.echo(f"next: cosight stimuli tasks {options.out} --type 2afc")


def contest(
    call: Call,
    starts: int = typer.Option(3, min=1, help="Number of starts per target."),
    alpha: float = typer.Option(0.1, help="The second model must move more than 1 / alpha times as far as the first."),
) -> None:
    """Make controversial stimuli: images that one model takes for a target and the other does not.

    Every two models are tried in both directions. A result is kept if the second model's relative distance to the
    target is more than 1 / alpha times that of the first. `cosight stimuli tasks` makes forced choices of them: the
    model whose stimulus looks more like the target is right.

    Examples:
        cosight stimuli contest python:nets:a python:nets:b --targets photos --out c
        cosight stimuli contest python:nets:a python:nets:b --targets shapes --out d
    """
    from cosight.stimuli.contest import ContestRecipe, contest_counts
    from cosight.stimuli.descent import DescentSettings

    options: InversionOptions = call()
    descent = DescentSettings(**options.descent, tolerance=None)
    recipe = ContestRecipe(options.targets, options.models, options.load, starts, alpha, descent, options.batch)
    result = options.generate(recipe)
    counts = contest_counts(result)
    for condition, count in counts.items():
        similar, distinct = condition
        if count.found:
            distances = f"mean distances {count.similar:.3f} and {count.distinct:.3f}"
            typer.echo(f"{similar} sees no change, {distinct} does: {count.found} of {count.tried} ({distances})")
        else:
            typer.echo(
                f"{similar} sees no change, {distinct} does: no controversial stimulus in {count.tried} attempts; "
                f"{distinct} never moves more than {1 / alpha:g} times as far"
            )
    existed = f", {result.present} existed" if result.present else ""
    typer.echo(f"{result.new} stimuli made{existed}: {options.out}")
    if all(count.found for count in counts.values()):  # a choice is between the stimuli of both models
        typer.echo(f"next: cosight stimuli tasks {options.out} --type 2afc")

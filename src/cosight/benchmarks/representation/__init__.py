"""Representation alignment: do images that a model takes for the same look the same to people (Nanda et al. 2021)?

`build` inverts the representations of several models, makes 2AFC and clustering tasks of the results, lets judges
answer them and measures clean and robust accuracy; `results_table` has the table. People answer the same tasks in a
study of the set.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cosight.benchmarks.entry import Benchmark, BuildResult, Progress, ReportChart, ReportSection
from cosight.benchmarks.representation.results_table import TABLE
from cosight.devices import Precision

if TYPE_CHECKING:
    from cosight.stimuli.sets import StimulusSet

__all__ = ["REPRESENTATION", "build"]


def build(
    source: Annotated[Path, "A stimulus set or a folder of photos of the models' size, with their classes."],
    out: Annotated[Path, "Output folder. An unfinished set there is resumed, and models can be added."],
    *,
    model: Annotated[list[str], "Model in torch, as for `cosight stimuli invert`; may be repeated."],
    judge: Annotated[
        list[str] | None, "Judge (`cosight list judges`) or a model; may be repeated (default: lpips)."
    ] = None,
    near: Annotated[
        str | None, "Judge or model whose near neighbours make the hard panels of clustering (default: lpips)."
    ] = "lpips",
    noise: Annotated[list[str] | None, "Also invert noise: normal:MEAN/SD; may be repeated."] = None,
    limit: Annotated[int, "Number of targets of each kind."] = 100,
    seed_images: Annotated[Path | None, "Photos to start from (default: those of SOURCE that are no targets)."] = None,
    prepare: Annotated[str | None, "How photos are resized first: none, 32x32 (stretch), or 256/224."] = None,
    steps: Annotated[int, "Maximum number of steps of an inversion."] = 5000,
    step_size: Annotated[float | None, "Step size (default: 1 for normalised and sgd, 0.01 for adam)."] = None,
    optimiser: Annotated[Literal["normalised", "sgd", "adam"], "How pixels are optimised."] = "normalised",
    tolerance: Annotated[float, "Relative distance at which an inversion is finished."] = 0.01,
    contest: Annotated[int, "Number of targets for controversial stimuli of every two models; 0 for none."] = 0,
    accuracy: Annotated[int, "Number of photos for clean and robust accuracy; 0 for none."] = 500,
    attack: Annotated[str, "Attack behind robust accuracy (`cosight list attacks`); PGD has 20 steps."] = "pgd-l2",
    eps: Annotated[float, "Radius of that attack, in pixels of [0, 1]."] = 1.0,
    batch: Annotated[int, "Targets per batch. Results differ slightly between batch sizes."] = 16,
    seed: Annotated[int, "Seed of everything random."] = 0,
    workers: Annotated[int, "Number of worker processes. Each loads the models. Does not change the output."] = 1,
    device: Annotated[str, "Where models run: cpu, cuda, cuda:N, mps, or auto (a GPU if there is one)."] = "auto",
    precision: Annotated[Precision, "Numbers that models compute in."] = "float32",
    progress: Progress | None = None,
) -> BuildResult:
    """Measure how alike images look that models take for the same: invert, judge, score (Nanda et al. 2021).

    Args:
        progress: Called with the number of finished parts, the number of all parts and a label.

    Returns:
        The set, and the folder of the judges' answers.

    Raises:
        InvalidInput: If an option does not fit, a model has no gradients, or targets have another size.
        UnknownName: If there is no such model, layer or judge.

    Examples:
        cosight build representation photos same --model python:mynet:model
        cosight build representation photos b --model python:mynet:model --limit 3

    >>> build(Path("pictures"), Path("out"), model=[])
    Traceback (most recent call last):
    cosight.errors.InvalidInput: there is no folder pictures; check the path
    """
    from cosight.benchmarks.representation.experiment import Experiment, run_experiment

    return run_experiment(
        Experiment(
            source=Path(source),
            out=Path(out),
            models=tuple(model),
            judges=tuple(judge or ("lpips",)),
            near=near,
            noise=tuple(noise or ()),
            limit=limit,
            seed_images=None if seed_images is None else Path(seed_images),
            prepare=prepare,
            descent={"steps": steps, "step_size": step_size, "optimiser": optimiser},
            tolerance=tolerance,
            contest=contest,
            accuracy=accuracy,
            attack=attack,
            eps=eps,
            batch=batch,
            seed=seed,
            workers=workers,
            device=device,
            precision=precision,
        ),
        progress,
    )


def _write_panels(stimuli: StimulusSet, path: Path) -> None:
    from cosight.benchmarks.representation.panels import write_panels

    write_panels(stimuli, path)


REPRESENTATION = Benchmark(
    name="representation",
    summary="Whether images that are the same to a model look the same to people.",
    source="Nanda et al. 2021, Exploring alignment of representations with human perception",
    labels="cifar-10",
    any_labels=True,
    experiment="representation",
    humans="none; a study of type 2afc or cluster on the set",
    needs="photos, models in torch, a judge",
    measures=TABLE.measures,
    build=build,
    example="cosight build representation SOURCE OUT --model MODEL",
    sheet=_write_panels,
    table=TABLE,
    sections={
        "table": ReportSection(
            "Representation alignment",
            "Share of inverted images that judges and people match with their target, by model. Inversions whose "
            "relative distance exceeds 0.1 are left out; ties count as no answer. A share without a kind of seeds is "
            "the mean over the kinds, with equal weights.",
            (
                ReportChart(
                    "dots",
                    "Two-alternative forced choice: share of inverted images matched with their target, by judge",
                    "two_alternative_share",
                    x="judge",
                    where="targets=photos;seeds=*;distance=0.1",
                ),
                ReportChart(
                    "dots",
                    "Clustering: share of inverted images put with their target, by judge; random panels",
                    "clustering_share",
                    x="judge",
                    where="targets=photos;panels=random;seeds=*;distance=0.1",
                ),
            ),
        ),
        "stimuli": ReportSection(
            "Targets, seeds and inversions",
            "Every column is one target. Below it are the image that the search started from (seed), and what each "
            "model takes for the target; the number is the relative distance that was reached.",
            (ReportChart("sheet", "Targets, seeds and inversions of each model"),),
        ),
    },
)

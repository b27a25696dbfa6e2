"""The experiment behind `build representation`: inversions, tasks, judges' answers, accuracy, controversial stimuli."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from cosight.arrays import whole_number
from cosight.benchmarks.entry import BuildResult, Progress
from cosight.benchmarks.representation.panels import CONTEST
from cosight.benchmarks.representation.results_table import CLEAN, ROBUST
from cosight.devices import Precision, check_device_name, check_placement
from cosight.errors import InvalidInput
from cosight.extras import require
from cosight.files import file_name
from cosight.models.judges import check_judge
from cosight.models.judges.answer_tasks import TRIALS, judge, near_neighbours
from cosight.models.loading import check_model_spec, load_features
from cosight.stimuli.attack_recipe import to_tensor
from cosight.stimuli.attacks import attacks, check_eps, make_target
from cosight.stimuli.contest import ContestRecipe
from cosight.stimuli.descent import DescentSettings
from cosight.stimuli.generate import check_output, generate_set
from cosight.stimuli.images import Bytes, digest
from cosight.stimuli.inversion import InversionRecipe, normal_noise, read_targets
from cosight.stimuli.kinds import stimulus_rng
from cosight.stimuli.sets import StimulusSet, read_source, sample
from cosight.stimuli.tasks import make_tasks
from cosight.trials.manifest import manifest_space
from cosight.trials.parquet import read_sources, write_table
from cosight.trials.table import SCHEMA, make_trials

if TYPE_CHECKING:
    from cosight.models import TorchModel

__all__ = ["Experiment", "run_experiment"]

_CONTEST_STARTS = 3


@dataclass(frozen=True, slots=True)
class Experiment:
    """The options of `build`, whose signature explains them."""

    source: Path
    out: Path
    models: tuple[str, ...]
    judges: tuple[str, ...]
    near: str | None
    noise: tuple[str, ...]
    limit: int
    seed_images: Path | None
    prepare: str | None
    descent: Mapping[str, Any]
    tolerance: float
    contest: int
    accuracy: int
    attack: str
    eps: float
    batch: int
    seed: int
    workers: int
    device: str
    precision: Precision

    def check(self) -> None:
        """Raise for whatever can be refused before anything is read or written."""
        whole_number(self.contest, name="--contest")
        if self.contest and len(self.models) < 2:
            raise InvalidInput(f"--contest needs two models or more, got {len(self.models)}; add --model")
        whole_number(self.accuracy, name="--accuracy")
        if not (isfinite(self.eps) and self.eps > 0):
            raise InvalidInput(f"--eps must be a positive number, got {self.eps}; use --accuracy 0 for no attack")
        check_eps(self.eps, attacks[self.attack].norm, "pixels")
        if self.attack.startswith("autoattack"):
            require("pyautoattack", by=f"--attack {self.attack}")
        for text in self.noise:
            if normal_noise(text) is None:
                raise InvalidInput(f"--noise must be normal:MEAN/SD, got {text!r}; for example normal:0.5/2")
        for line in self.models:
            check_model_spec(line)
        for reference in (*self.judges, *([self.near] if self.near else [])):
            check_judge(reference)
        check_placement(check_device_name(self.device), self.precision)
        check_output(self.out, outside=[self.source])


def run_experiment(options: Experiment, progress: Progress | None) -> BuildResult:
    """Run what is not done yet: every part is resumed, and none is repeated."""
    options.check()
    load = partial(load_features, device=options.device, precision=options.precision)
    targets = read_targets(
        [str(options.source), *options.noise],
        limit=options.limit,
        seed_images=options.seed_images,
        prepare=options.prepare,
        seed=options.seed,
    )
    descent = DescentSettings(**options.descent, tolerance=options.tolerance)
    recipe = InversionRecipe(targets, options.models, load, descent=descent, batch=options.batch)
    generated = generate_set(recipe, options.out, workers=options.workers, progress=progress)
    make_tasks(options.out, "2afc", force=True)
    make_tasks(options.out, "cluster", force=True)
    if options.near:
        neighbours = near_neighbours(options.out, options.near, device=options.device)
        make_tasks(options.out, "cluster", near=neighbours, force=True)
    answered = judge(options.out, judge=list(options.judges), device=options.device, progress=progress or False)
    notices = [f"{answered.ties} ties of judges count as no answer"] if answered.ties else []
    if options.contest:
        notices += _run_contest(options, load, progress)
    if options.accuracy and targets.photos is not None:
        for reference in options.models:
            notices += _measure_accuracy(options, load(reference), targets.photos, progress)
    return BuildResult(generated, notices=tuple(notices), trials=options.out / TRIALS)


def _run_contest(options: Experiment, load: Any, progress: Progress | None) -> list[str]:
    """Make controversial stimuli of every two models in a set of their own, and let the judges answer."""
    folder = options.out / CONTEST
    targets = read_targets([str(options.source)], limit=options.contest, prepare=options.prepare, seed=options.seed)
    descent = DescentSettings(**options.descent, tolerance=None)
    recipe = ContestRecipe(targets, options.models, load, _CONTEST_STARTS, descent=descent, batch=options.batch)
    made = generate_set(recipe, folder, workers=options.workers, progress=progress)
    if len(made.dropped):
        tried = len(made.dropped) + sum(made.stimuli.frame["kind"] == "controversial")
        notices = [f"{len(made.dropped)} of {tried} attempts led to no controversial stimulus"]
    else:
        notices = []
    try:
        make_tasks(folder, "2afc", force=True)
    except InvalidInput as error:  # no target has stimuli in both directions
        return [*notices, str(error)]
    done = judge(folder, judge=list(options.judges), device=options.device, progress=progress or False)
    for path in done.files:
        (options.out / TRIALS / f"{CONTEST}-{path.name}").write_bytes(path.read_bytes())
    return notices


def _measure_accuracy(
    options: Experiment, model: TorchModel, photos: StimulusSet, progress: Progress | None
) -> list[str]:
    """Let a model classify photos, clean and attacked, and store its answers as choices among the classes."""
    space = manifest_space(photos.facts)
    labels = list(model.class_names or (space.classes if space is not None else ()))
    if len(labels) != model.classes:
        return [f"no accuracy of {model.name}: the classes of its {model.classes} outputs are not known; add classes="]
    labelled = photos.frame.filter(pl.col("truth").is_in(labels))
    if not labelled.height:
        return [f"no accuracy of {model.name}: no photo of {photos.root} has one of its classes as truth"]
    facts = {
        "weights": model.weights_digest,
        "photos": options.accuracy,
        "attack": {"name": options.attack, "eps": options.eps, **attacks[options.attack].settings(options.eps)},
        "seed": options.seed,
    }
    path = options.out / TRIALS / f"accuracy-{file_name(model.name)}.parquet"
    if path.exists() and read_sources(path) == [{"accuracy": facts}]:
        return []
    chosen = sample(StimulusSet(photos.root, labelled, photos.facts), options.accuracy, seed=options.seed)
    rows: list[dict[str, Any]] = []
    records = list(chosen.frame.iter_rows(named=True))
    for first in range(0, len(records), 2 * options.batch):
        part = records[first : first + 2 * options.batch]
        images = [
            model.resize_and_crop(read_source(photos, row["file"], expected=row["stimulus"]).pixels) for row in part
        ]
        rows += _classify(model, images, part, labels, options)
        if progress:
            progress(first + len(part), len(records), f"accuracy of {model.name}")
    trials = make_trials(pl.DataFrame(rows, schema=SCHEMA), source=model.name, sources=[{"accuracy": facts}])
    write_table(trials, path)
    return []


def _classify(
    model: TorchModel,
    images: Sequence[Bytes],
    records: Sequence[Mapping[str, Any]],
    labels: list[str],
    options: Experiment,
) -> list[dict[str, Any]]:
    """Return the trials of one batch: the clean images, and those attacked with the model's own gradients."""
    import torch

    pixels = to_tensor(images).to(model.device)
    truth = torch.tensor([labels.index(row["truth"]) for row in records], device=model.device)
    digests = [digest(image) for image in images]
    rngs = [stimulus_rng(stimulus, options.attack, f"{options.eps:g}", options.seed) for stimulus in digests]
    attack = attacks[options.attack].prepare(make_target(model, pixels, truth))
    attacked = attack(options.eps, torch.arange(len(records), device=model.device), rngs)
    rows = []
    with torch.no_grad():
        answers = {CLEAN: model(pixels).argmax(dim=1).tolist(), ROBUST: model(attacked).argmax(dim=1).tolist()}
    for images_kind, codes in answers.items():
        for stimulus, row, code in zip(digests, records, codes, strict=True):
            extra = {"options": labels, "images": images_kind, "image": stimulus}
            rows.append(
                {
                    "observer": model.name,
                    "kind": "model",
                    "experiment": "accuracy",
                    "stimulus": f"{images_kind}/{stimulus}",
                    "condition": images_kind,
                    "truth": row["truth"],
                    "response": labels[code],
                    "role": "test",
                    "extra": json.dumps(extra),
                }
            )
    return rows

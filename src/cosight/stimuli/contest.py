"""Controversial stimuli: images that one model takes for a target and another does not (Nanda et al. 2021, 3.1).

For two models g1 and g2, (1 / alpha) d1 - d2 is minimised, where d is the distance of the features to those of the
target, relative to their length. A result is controversial if this objective of the stored image is negative: g2 is
moved more than 1 / alpha times as far as g1. Of a model and itself no image is, because d1 = d2. Optimisation starts at
the target with some noise; at the target itself the distance has no gradient.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from cosight.arrays import whole_number
from cosight.errors import InvalidInput
from cosight.stimuli.attack_recipe import ModelIdentity, to_tensor
from cosight.stimuli.descent import DescentSettings, Loss, descend
from cosight.stimuli.generate import GeneratedSet, Outcome, StimulusJob, Unit
from cosight.stimuli.images import Bytes, digest
from cosight.stimuli.inversion import (
    FeatureModel,
    TargetImages,
    feature_distance,
    load_feature_models,
    model_facts,
    to_images,
)
from cosight.stimuli.kinds import stimulus_rng, stimulus_seed
from cosight.stimuli.tasks import CONTEST, CONTROVERSIAL

__all__ = ["ALPHA", "ContestCount", "ContestRecipe", "contest_counts"]

ALPHA = 0.1  # Nanda et al. 2021
_START_SD = 0.02  # of the noise that is added to the target, in units of pixels in [0, 1]


@dataclass(frozen=True, slots=True)
class ContestRecipe:
    """Recipe for `generate_set`: controversial stimuli of every two models, in both directions.

    Attributes:
        targets: The targets.
        models: References that `load` turns into models with features; two or more.
        load: Loads a model; called in each worker process.
        starts: Number of starts per target.
        alpha: How much more g2 must move than g1.
        descent: How images are optimised; it never stops early.
        batch: Targets per batch.
    """

    targets: TargetImages
    models: tuple[str, ...]
    load: Callable[[str], FeatureModel]
    starts: int = 3
    alpha: float = ALPHA
    descent: DescentSettings = field(default_factory=lambda: DescentSettings(tolerance=None))
    batch: int = 16

    def __post_init__(self) -> None:
        """Check the options before a model is loaded, which may take long."""
        whole_number(self.batch, name="--batch", least=1)
        whole_number(self.starts, name="--starts", least=1)
        if not (isfinite(self.alpha) and self.alpha > 0):
            raise InvalidInput(f"--alpha must be a positive number, got {self.alpha}; Nanda et al. use {ALPHA}")
        if len(self.models) < 2:
            raise InvalidInput(f"a contest is between two models or more, got {len(self.models)}; name another")

    @property
    def settings(self) -> Mapping[str, Any]:
        """Verb, targets, starts, alpha and optimisation. Models are not among them: more can be added to a set."""
        return {
            "verb": "contest",
            **self.targets.settings,
            "starts": self.starts,
            "alpha": self.alpha,
            **self.descent.facts,
            "batch": self.batch,  # convolutions round differently in other batches
        }

    @property
    def packages(self) -> tuple[str, ...]:
        """The packages that compute gradients."""
        return ("torch", "timm")

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders of the targets."""
        return self.targets.folders

    def units(self) -> list[Unit]:
        """Per batch: one unit for the targets, and one for each ordered pair of models."""
        if len(set(self.models)) < len(self.models):
            raise InvalidInput(
                "a model and itself have no controversial stimuli: both distances are always the same; name two models"
            )
        identities, size = load_feature_models(self.models, self.load)
        chosen = self.targets.choose(with_seeds=False)
        for target in chosen:
            self.targets.target_pixels(target, size)
        units = []
        for name, stamp, part in self.targets.batches(chosen, self.batch):
            facts = {"experiment": CONTEST, "condition": "target", "kind": "target"}
            jobs = tuple(StimulusJob(f"target/{target.name}", {**target.columns, **facts}) for target in part)
            units.append(Unit(name, stamp, jobs, payload=(None, size, part), together=True))
            for similar, distinct in permutations(range(len(self.models)), 2):
                pair = f"{identities[similar].folder}/{identities[distinct].folder}"
                condition = f"{identities[similar].name} / {identities[distinct].name}"
                facts = {"experiment": CONTEST, "condition": condition, "kind": CONTROVERSIAL}
                jobs = tuple(
                    StimulusJob(f"{CONTROVERSIAL}/{pair}/{start}/{target.name}", {**target.columns, **facts})
                    for target in part
                    for start in range(self.starts)
                )
                references = (self.models[similar], self.models[distinct])
                payload = (references, size, part)
                units.append(Unit(f"{condition}, {name}", stamp, jobs, payload=payload, together=True))
        return units

    def make(self, unit: Unit, jobs: Sequence[StimulusJob]) -> Iterator[Outcome]:
        """Yield the targets as they are, or the results of a batch, dropping those that are not controversial."""
        references, size, chosen = unit.payload
        pending = {job.file for job in jobs}
        targets = [self.targets.target_pixels(target, size) for target in chosen]
        if references is None:
            yield from (
                Outcome(job, image) for job, image in zip(unit.jobs, targets, strict=True) if job.file in pending
            )
            return
        repeated, starts, seeds, numbers = [], [], [], []
        for target, image in zip(chosen, targets, strict=True):
            for number in range(self.starts):
                rng = stimulus_rng(target.name, CONTROVERSIAL, str(number), self.targets.seed)
                noise = _START_SD * rng.standard_normal(image.shape)
                repeated.append(image)
                starts.append(np.clip(image / 255 + noise, 0, 1).astype(np.float32))
                seeds.append(stimulus_seed(target.name, CONTROVERSIAL, str(number), self.targets.seed))
                numbers.append(number)
        results = self._contest(references, repeated, starts)
        for job, parent, seed, number, (image, facts) in zip(unit.jobs, repeated, seeds, numbers, results, strict=True):
            if job.file not in pending:
                continue
            if facts["objective"] >= 0:
                yield Outcome(job, None, reason="not controversial")
                continue
            parameters = json.dumps({"start": number, **facts}, sort_keys=True)
            yield Outcome(job, image, {"parameters": parameters, "parent": digest(parent), "seed": seed})

    def _contest(
        self, references: tuple[str, str], targets: Sequence[Bytes], starts: Sequence[Any]
    ) -> list[tuple[Bytes, dict[str, Any]]]:
        """Return the 8-bit result for each target and start, and what `parameters` says about it."""
        import torch

        models = [self.load(reference) for reference in references]
        device = models[0].device
        pixels = to_tensor(targets)
        losses: list[Loss] = [feature_distance(model, pixels.to(model.device)) for model in models]

        def objective(images: Any, rows: Any) -> Any:
            similar, distinct = (loss(images, rows) for loss in losses)
            return similar / self.alpha - distinct

        first = torch.from_numpy(np.stack(starts)).permute(0, 3, 1, 2).contiguous().to(device)
        done = descend(objective, first, self.descent)
        images = to_images(done.images)
        with torch.no_grad():
            rows = torch.arange(len(images), device=device)
            similar, distinct = (loss(to_tensor(images).to(device), rows) for loss in losses)
        names = [model_facts(ModelIdentity.of(m, r)) for m, r in zip(models, references, strict=True)]
        settings = {name: value for name, value in self.descent.facts.items() if name != "steps"}
        return [
            (
                image,
                {
                    "similar": names[0]["model"],
                    "similar_weights": names[0]["weights"],
                    "distinct": names[1]["model"],
                    "distinct_weights": names[1]["weights"],
                    "alpha": self.alpha,
                    **settings,
                    "distance_similar": float(similar[row]),
                    "distance_distinct": float(distinct[row]),
                    "objective": float(similar[row] / self.alpha - distinct[row]),
                    "start_objective": float(done.start[row]),
                    "steps": int(done.steps[row]),
                },
            )
            for row, image in enumerate(images)
        ]


@dataclass(frozen=True, slots=True)
class ContestCount:
    """The results of one direction: how many are controversial, of how many, and their mean relative distances."""

    found: int
    tried: int
    similar: float  # of the model that sees no change; nan where none was found
    distinct: float


def contest_counts(generated: GeneratedSet) -> dict[tuple[str, str], ContestCount]:
    """Count the controversial stimuli of a set by (model that sees no change, model that does)."""
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    names: dict[str, str] = {}  # of models by their folders
    rows = generated.stimuli.frame.filter(pl.col("kind") == CONTROVERSIAL)
    for file, text in rows.select("file", "parameters").iter_rows():
        facts = json.loads(text)
        models = (facts["similar"], facts["distinct"])
        names |= zip(file.split("/")[2:4], models, strict=True)
        found.setdefault(models, []).append((facts["distance_similar"], facts["distance_distinct"]))
    dropped: dict[tuple[str, str], int] = {}
    for job in generated.dropped:
        similar, distinct = job.split("/")[1:3]
        models = names.get(similar, similar), names.get(distinct, distinct)
        dropped[models] = dropped.get(models, 0) + 1
    counts = {}
    for models in sorted({*found, *dropped}):
        kept = np.array(found.get(models, [])).reshape(-1, 2)
        means = kept.mean(axis=0) if len(kept) else np.full(2, np.nan)
        counts[models] = ContestCount(len(kept), len(kept) + dropped.get(models, 0), *means.tolist())
    return counts

"""Training of a linear probe in a run: the model's features of a training set, and a layer fitted to them once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from cosight.errors import InvalidInput
from cosight.files import file_name
from cosight.models.model import Model
from cosight.models.probes import fit_probe, read_probe, write_probe
from cosight.runs.execution import ExecutionOptions, Progress, answer_shards
from cosight.runs.observers import BatchAnswers
from cosight.runs.run_plan import RunPlan, digest_of
from cosight.stimuli.images import Bytes, Floats

__all__ = ["train_probe"]


@dataclass(frozen=True, slots=True)
class _FeatureObserver:
    """A model of which only the features are used."""

    model: Model
    kind: str = "model"
    identity: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.model.name

    def buffer(self, count: int) -> Floats:
        return np.zeros((count, 3, *self.model.preprocessing.size), dtype=np.float32)

    def load_into(self, buffer: Floats, index: int, pixels: Bytes) -> None:
        buffer[index] = self.model.prepare(pixels)

    def answer(self, start: int, rows: pl.DataFrame, buffer: Floats) -> BatchAnswers:
        features = self.model.answer(buffer).features
        return BatchAnswers(rows.select("truth"), {} if features is None else {"features": features})


def train_probe(
    model: Model, training: RunPlan, folder: Path, options: ExecutionOptions, progress: Progress | None = None
) -> Path:
    """Train a linear probe on a model's features, or find the one that was trained before; return its file.

    The file name has a digest of everything that determines the probe.
    """
    settings = getattr(model, "settings", {})
    stamps = list(training.stimuli.stamps)
    digest = digest_of([model.weights_digest, model.preprocessing.facts, settings, training.settings, stamps])
    path = folder / "probes" / f"{file_name(model.name)}.{digest[:16]}.safetensors"
    try:
        read_probe(path)
    except (InvalidInput, OSError):  # none, or one that a power failure left incomplete
        features, labels = _features(model, training, options, progress)
        write_probe(fit_probe(features, labels, classes=training.space.classes), path)
    return path


def _features(
    model: Model, plan: RunPlan, options: ExecutionOptions, progress: Progress | None
) -> tuple[Floats, np.ndarray]:
    """Return the features of every training image that has a class, and the class codes."""
    plan = replace(plan, features=True)
    parts: list[Floats] = []
    truths: list[str | None] = []
    done, total = 0, plan.stimuli.frame.height
    for answers in answer_shards(_FeatureObserver(model), plan, plan.shards, options):
        if "features" not in answers.arrays:
            raise InvalidInput(f"a probe needs features, {model.name} gives none; name a layer with layer=PATH")
        parts.append(answers.arrays["features"][[row - answers.shard.rows.start for row in answers.rows]])
        truths += answers.columns["truth"].to_list()
        done += len(answers.shard.rows)
        if progress:
            progress(done, total, f"features for the probe of {model.name}")
    codes = {name: code for code, name in enumerate(plan.space.classes)}
    labelled = [index for index, truth in enumerate(truths) if truth in codes]
    if not labelled:
        raise InvalidInput("a probe is trained on images with a class, got none; put them into folders by class")
    return np.concatenate(parts)[labelled], np.array([codes[str(truths[index])] for index in labelled])

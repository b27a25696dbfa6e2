"""A linear probe in a run: the model's features of a training set, and the layer that is fitted to them once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from cosight.errors import InvalidInput
from cosight.models.model import Model
from cosight.models.probes import fit_probe, read_probe, write_probe
from cosight.runs.execution import ExecutionOptions, answer_shards
from cosight.runs.folder import file_name
from cosight.runs.observers import BatchAnswers
from cosight.runs.run_plan import RunPlan, digest_of
from cosight.stimuli.images import Bytes, Floats
from cosight.trials.spaces import LabelSpace

__all__ = ["probe_file"]

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class _Featured:
    """A model that is asked for its features alone."""

    model: Model
    kind: str = "model"
    identity: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.model.name

    def room(self, count: int) -> Floats:
        return np.zeros((count, 3, *self.model.preprocessing.size), dtype=np.float32)

    def put(self, room: Floats, place: int, pixels: Bytes) -> None:
        room[place] = self.model.prepare(pixels)

    def answer(self, start: int, rows: pl.DataFrame, room: Floats) -> BatchAnswers:
        given = self.model.answer(room)
        return BatchAnswers(rows.select("truth"), {} if given.features is None else {"features": given.features})


def probe_file(
    model: Model, training: RunPlan, folder: Path, way: ExecutionOptions, progress: Progress | None = None
) -> Path:
    """The file of the probe that was, or is now, trained on this model's features of these images.

    Its name holds a digest of all that it follows from, so it is found again and never taken for another.
    """
    settings = getattr(model, "settings", {})
    known = [model.weights_digest, model.preprocessing.facts, settings, training.settings, list(training.shown.stamps)]
    path = folder / "probes" / f"{file_name(model.name)}.{digest_of(known)[:16]}.safetensors"
    if not _is_there(path):
        features, labels = _seen(model, training, way, progress)
        write_probe(fit_probe(features, labels, classes=training.space.classes), path)
    return path


def _is_there(path: Path) -> bool:
    """Whether a probe can be read; a loss of power may have left less."""
    try:
        read_probe(path)
    except (InvalidInput, OSError):
        return False
    return True


def _seen(model: Model, plan: RunPlan, way: ExecutionOptions, progress: Progress | None) -> tuple[Floats, np.ndarray]:
    """Features of every training image that has a class, and the class' index."""
    whole = replace(plan, features=True)
    parts: list[Floats] = []
    truths: list[str | None] = []
    done, total = 0, plan.shown.frame.height
    for given in answer_shards(_Featured(model), whole, whole.shards, way):
        if "features" not in given.arrays:
            raise InvalidInput(f"a probe needs features, {model.name} gives none; name a layer with layer=PATH")
        parts.append(given.arrays["features"][[row - given.shard.rows.start for row in given.rows]])
        truths += given.columns["truth"].to_list()
        done += len(given.shard.rows)
        if progress:
            progress(done, total, f"features for the probe of {model.name}")
    return _labelled(np.concatenate(parts), truths, plan.space)


def _labelled(features: Floats, truths: list[str | None], space: LabelSpace) -> tuple[Floats, np.ndarray]:
    index = {name: place for place, name in enumerate(space.classes)}
    kept = [place for place, truth in enumerate(truths) if truth in index]
    if not kept:
        raise InvalidInput("a probe is trained on images with a class, got none; put them into folders by class")
    return features[kept], np.array([index[str(truths[place])] for place in kept])

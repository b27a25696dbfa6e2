"""Recipe for a set of attacked images: VisAlign's category 3, made from any set and any models with gradients."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cosight.errors import InvalidInput
from cosight.stimuli.altering import check_distinct, stem
from cosight.stimuli.attacks import Classifier, Space
from cosight.stimuli.fooling import VISALIGN_EPS, Attempt, Choose, fooling
from cosight.stimuli.images import Bytes, as_bytes, checked, digest
from cosight.stimuli.making import Job, Outcome, Unit
from cosight.stimuli.prepare import Preparation
from cosight.stimuli.sets import StimulusSet

__all__ = ["Attacked"]


@dataclass(frozen=True, slots=True)
class Attacked:
    """Every source attacked with every model's gradients at every eps; what does not fool is not kept.

    `models` are names that `load` turns into classifiers (in each process, once). `classes` are the names of the
    models' outputs in order; without them a truth that is a number is taken as the output's index, and for any other
    truth the model's own answer to the clean image is what the attack has to change.
    """

    sources: StimulusSet
    models: tuple[str, ...]
    load: Callable[[str], Classifier]
    attack: str = "fgsm"
    eps: tuple[float, ...] = VISALIGN_EPS
    space: Space = "normalised"
    choose: Choose = "smallest"
    classes: tuple[str, ...] | None = None
    seed: int = 0
    prepare: Preparation | None = None

    @property
    def settings(self) -> Mapping[str, Any]:
        """Verb, attack, seed, preparation and how attempts were chosen."""
        return {
            "verb": "attack",
            "attack": self.attack,
            "space": self.space,
            "choose": self.choose,
            "eps": sorted(self.eps),  # which eps is the smallest that fools depends on all of them
            "seed": self.seed,
            "prepare": str(self.prepare or "none"),
        }

    def units(self) -> list[Unit]:
        """One source file each."""
        units = [self._unit(row) for row in self.sources.frame.iter_rows(named=True)]
        check_distinct(unit.jobs[0].file for unit in units)
        return units

    def _unit(self, row: Mapping[str, Any]) -> Unit:
        path = self.sources.path(row["file"])
        jobs = tuple(
            Job(f"{self.attack}/{_folder(*known)}/{eps:g}/{stem(row['file'])}", self._facts(row, *known, eps))
            for known in map(self._known, self.models)
            for eps in sorted(self.eps)
        )
        return Unit(str(path), hashlib.sha256(path.read_bytes()).hexdigest(), jobs, payload=(row["file"], row["truth"]))

    def _known(self, model: str) -> tuple[str, str]:
        """A model's name and the digest of its weights: what it is, wherever its files are."""
        classifier = self.load(model)
        return getattr(classifier, "name", model), getattr(classifier, "weights_digest", "")

    def _facts(self, row: Mapping[str, Any], model: str, weights: str, eps: float) -> dict[str, Any]:
        kept = {name: row[name] for name in ("image", "truth", "original", "split")}
        parameters = {"attack": self.attack, "eps": eps, "space": self.space, "model": model, "weights": weights}
        return kept | {
            "experiment": "attacks",
            "condition": f"{model} {eps:g}",
            "kind": self.attack,
            "level": sorted(self.eps).index(eps) + 1,
            "parameters": json.dumps(parameters, sort_keys=True),
        }

    def make(self, unit: Unit, jobs: Sequence[Job]) -> Iterator[Outcome]:
        """All attempts on one source; those that are to be done again are told."""
        file, truth = unit.payload
        source = self.sources.pixels(file)
        image = as_bytes(checked(self.prepare(source) if self.prepare else source))
        attempts = [attempt for model in self.models for attempt in self._attempts(image, truth, model, unit.name)]
        wanted = {job.file for job in jobs}
        for job, attempt in zip(unit.jobs, attempts, strict=True):
            if job.file in wanted:
                facts = {"seed": attempt.seed, "parent": digest(source)}
                yield Outcome(job, attempt.pixels, facts, reason=None if attempt.kept else attempt.outcome)

    def _attempts(self, image: Bytes, truth: str | None, model: str, name: str) -> list[Attempt]:
        classifier = self.load(model)
        label = self._label(image, truth, classifier, name)
        return fooling(
            [image],
            np.array([label]),
            {model: classifier},
            eps=self.eps,
            attack=self.attack,
            space=self.space,
            choose=self.choose,
            seed=self.seed,
        )

    def _label(self, image: Bytes, truth: str | None, classifier: Classifier, name: str) -> int:
        if self.classes is not None:
            if truth not in self.classes:
                raise InvalidInput(f"{name} has the truth {truth!r}, which is not among the labels' classes")
            return self.classes.index(truth)
        if truth is not None and truth.isdigit():
            return int(truth)
        return answer(classifier, image)


def answer(classifier: Classifier, image: Bytes) -> int:
    """The class a model gives one 8-bit image."""
    import torch

    colour = image if image.ndim == 3 else np.repeat(image[:, :, None], 3, axis=2)
    batch = torch.from_numpy(colour).permute(2, 0, 1)[None].float() / 255
    with torch.inference_mode():
        return int(classifier(batch).argmax())


def _folder(model: str, weights: str) -> str:
    """A model's name as the name of a folder; the weights tell two trainings of it apart."""
    plain = "".join(letter if letter.isalnum() or letter in ".-_" else "_" for letter in model)
    return f"{plain}-{weights[:8]}" if weights else plain

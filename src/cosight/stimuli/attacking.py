"""Recipe for a set of attacked images, made from any set and any models with gradients."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import numpy as np

from cosight.errors import InvalidInput
from cosight.files import file_stamp
from cosight.stimuli.alterations import check_distinct, stem
from cosight.stimuli.attacks import Classifier, Space, attacks
from cosight.stimuli.fooling import VISALIGN_EPS, Attempt, Choose, answers, checked_eps, fooling
from cosight.stimuli.images import Bytes
from cosight.stimuli.prepare import Preparation
from cosight.stimuli.set_recipe import Outcome, StimulusJob, Unit
from cosight.stimuli.sets import StimulusSet, source_image

__all__ = ["Attacked"]


@dataclass(frozen=True, slots=True)
class _Identity:
    """What a model is, wherever its files are: its name and the digest of its weights ("" where it tells none)."""

    name: str
    weights: str

    @property
    def folder(self) -> str:
        """The name as that of a folder; the weights tell two trainings apart."""
        plain = "".join(letter if letter.isalnum() or letter in ".-_" else "_" for letter in self.name)
        return f"{plain}-{self.weights[:8]}" if self.weights else plain

    @property
    def key(self) -> str:
        """What random starts are drawn from: a renamed checkpoint is the same model."""
        return self.weights or self.name


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
    facts: Mapping[str, Any] = field(default_factory=dict)  # manifest columns that every stimulus gets

    def __post_init__(self) -> None:
        """Refuse wrong options before a model is loaded, which may take long."""
        attacks.name_of(self.attack)
        checked_eps(self.eps, choose=self.choose)
        if self.space not in get_args(Space):
            raise InvalidInput(f"space must be {' or '.join(get_args(Space))}, got {self.space!r}")

    @property
    def settings(self) -> Mapping[str, Any]:
        """Verb, attack, classes, seed, preparation and how attempts were chosen."""
        return {
            "verb": "attack",
            "attack": self.attack,
            "space": self.space,
            "choose": self.choose,
            "eps": sorted(self.eps),  # which eps is the smallest that fools depends on all of them
            "classes": None if self.classes is None else list(self.classes),  # which output is the truth
            "seed": self.seed,
            "prepare": str(self.prepare or "none"),
        }

    @property
    def packages(self) -> tuple[str, ...]:
        """What the gradients come from."""
        return ("torch", "timm")

    @property
    def folders(self) -> tuple[Path, ...]:
        """The sources' folder."""
        return (self.sources.root,)

    def units(self) -> list[Unit]:
        """One source file each."""
        check_distinct(self.sources)
        told = {
            f"{self.attack}/{model.folder}/{_text(eps)}": self._told(model, eps)
            for model in self._identities()
            for eps in sorted(self.eps)
        }
        return [self._unit(row, told) for row in self.sources.frame.iter_rows(named=True)]

    def _identities(self) -> list[_Identity]:
        """What each model is; two that are one, or one that has not the classes, are refused."""
        found: list[_Identity] = []
        for model in self.models:
            classifier = self.load(model)
            known = _identity(classifier, model)
            if known.folder in {other.folder for other in found}:
                raise InvalidInput(f"models must differ in name or weights, got {known.name} twice; leave one out")
            _check_outputs(classifier, known.name, self.classes)
            found.append(known)
        return found

    def _told(self, model: _Identity, eps: float) -> dict[str, Any]:
        """What the manifest says of every stimulus made with this model's gradients at this eps."""
        parameters = {"attack": self.attack, "eps": eps, "space": self.space}
        parameters |= {"model": model.name, "weights": model.weights, **attacks[self.attack].settings(eps)}
        return {
            "experiment": "attacks",
            "condition": f"{model.name} {_text(eps)}",
            **self.facts,
            "kind": self.attack,
            "level": sorted(self.eps).index(eps) + 1,
            "parameters": json.dumps(parameters, sort_keys=True),
        }

    def _unit(self, row: Mapping[str, Any], told: Mapping[str, Mapping[str, Any]]) -> Unit:
        path, name = self.sources.path(row["file"]), stem(self.sources, row["file"])
        kept = {column: row[column] for column in ("image", "truth", "original", "split")}
        jobs = tuple(StimulusJob(f"{place}/{name}", {**kept, **facts}) for place, facts in told.items())
        payload = (row["file"], row["truth"], row["stimulus"])
        return Unit(str(path), file_stamp(path), jobs, payload=payload)

    def make(self, unit: Unit, jobs: Sequence[StimulusJob]) -> Iterator[Outcome]:
        """All attempts on one source; those that are to be done again are told."""
        file, truth, expected = unit.payload
        source = source_image(self.sources, file, self.prepare, expected=expected)
        try:
            attempts = [attempt for model in self.models for attempt in self._attempts(source.ready, truth, model)]
        except InvalidInput as error:
            raise InvalidInput(f"{unit.name}: {error}") from error
        wanted = {job.file for job in jobs}
        for job, attempt in zip(unit.jobs, attempts, strict=True):
            if job.file in wanted:
                facts = {"seed": attempt.seed, "parent": source.digest}
                yield Outcome(job, attempt.pixels, facts, reason=None if attempt.kept else attempt.verdict)

    def _attempts(self, image: Bytes, truth: str | None, model: str) -> list[Attempt]:
        classifier = self.load(model)
        return fooling(
            [image],
            np.array([self._label(image, truth, classifier)]),
            {_identity(classifier, model).key: classifier},
            eps=self.eps,
            attack=self.attack,
            space=self.space,
            choose=self.choose,
            seed=self.seed,
        )

    def _label(self, image: Bytes, truth: str | None, classifier: Classifier) -> int:
        if self.classes is not None:
            if truth not in self.classes:
                raise InvalidInput(f"a truth must be among the labels' classes, got {truth!r}; choose other labels")
            return self.classes.index(truth)
        if truth is not None and truth.isdecimal():
            return int(truth)
        return answers(classifier, [image])[0]


def _identity(classifier: Classifier, model: str) -> _Identity:
    return _Identity(getattr(classifier, "name", model), getattr(classifier, "weights_digest", ""))


def _check_outputs(classifier: Classifier, name: str, classes: tuple[str, ...] | None) -> None:
    """A model that tells its number of outputs must have as many as there are classes."""
    outputs = getattr(classifier, "classes", None)
    if classes is not None and outputs is not None and outputs != len(classes):
        raise InvalidInput(
            f"labels must be the {outputs} outputs of {name} in order, got {len(classes)} classes;"
            " choose those it was trained on"
        )


def _text(eps: float) -> str:
    """Short where that is exact, so that two eps never share a name."""
    short = f"{eps:g}"
    return short if float(short) == eps else repr(float(eps))

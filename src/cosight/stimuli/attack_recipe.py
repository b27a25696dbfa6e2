"""Attack recipe."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cosight.errors import InvalidInput
from cosight.files import file_stamp
from cosight.stimuli.alterations import check_distinct, stem
from cosight.stimuli.attacks import (
    Attack,
    Classifier,
    Space,
    Strike,
    attacks,
    check_eps,
    check_eval,
    check_logits,
    check_range,
    target,
)
from cosight.stimuli.generate import Outcome, StimulusJob, Unit
from cosight.stimuli.images import Bytes, Preparation, as_bytes, as_floats, check_image, digest, to_rgb
from cosight.stimuli.kinds import stimulus_seed
from cosight.stimuli.sets import StimulusSet, read_source

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "VISALIGN_EPS",
    "AttackRecipe",
    "Attempt",
    "Choose",
    "Judges",
    "Verdict",
    "attack_images",
    "check_eps_values",
    "predict_classes",
]

VISALIGN_EPS = (0.005, 0.01, 0.015, 0.02, 0.025, 0.03)  # Lee et al. 2023, section 3.2, in normalised units

Judges = Literal["own", "any", "all"]
Choose = Literal["smallest", "all"]
Verdict = Literal[
    "kept",
    "clean-wrong",  # the judges do not get the clean image right: nothing to fool, no attack made
    "unchanged",  # in 8 bits the attacked image is the clean one
    "repeated",  # in 8 bits it is the same as at a smaller eps
    "not-fooled",
    "larger",  # a smaller eps already fools: no attack made
]


@dataclass(frozen=True, slots=True, eq=False)
class Attempt:
    """One image, one model's gradients, one eps; what came of it.

    `before` and `after` are the classes that model gives the clean and the attacked 8-bit image (`after` is None where
    it was not asked), `fooled` the judges that went from right to wrong, `seed` the random start's (None where the
    attack has none). Only kept attempts hold `pixels`.
    """

    image: int  # place among the images handed in
    model: str
    attack: str
    eps: float
    verdict: Verdict
    before: int
    after: int | None = None
    fooled: tuple[str, ...] = ()
    seed: int | None = None
    pixels: Bytes | None = None

    @property
    def kept(self) -> bool:
        """Whether this is a stimulus."""
        return self.verdict == "kept"


def attack_images(
    images: Sequence[Bytes],
    labels: ArrayLike,
    models: Mapping[str, Classifier],
    *,
    eps: Sequence[float] = VISALIGN_EPS,
    attack: str = "fgsm",
    space: Space = "normalised",
    judges: Judges = "own",
    choose: Choose = "smallest",
    seed: int = 0,
    batch: int = 1,
    options: Mapping[str, Any] | None = None,
) -> list[Attempt]:
    """Attack every image with every model's gradients at every eps: one attempt each, in that order, eps ascending.

    Images are uint8 and of one size, the one the models take; a grey image becomes RGB. `judges` says who must be right
    on the clean and wrong on the attacked image: the gradients' own model, any of the models, or all of them. With
    `choose="smallest"` an image and model stop at the first eps that fools; with "all", every eps that fools is kept.
    `options` go to the attack (steps, step_size, random_start). The random start is drawn from what the stimulus is
    made of and `seed`, so an image's attempts do not depend on the images around it. A `batch` beyond one, faster on a
    graphics card, loosens that: convolutions round differently, and a gradient near zero may change its sign.
    """
    values = _check_options(eps, judges, choose, batch, models)
    kind = attacks[attack]
    extra = dict(options or {})
    if set(extra) - kind.options:
        raise InvalidInput(
            f"{kind.name} takes {', '.join(sorted(kind.options)) or 'no options'}, got {', '.join(extra)}"
        )
    for value in values:
        check_eps(value, kind.norm, space)
    for model in models.values():
        check_eval(model)
    pixels, truth = _pixels(images), np.asarray(labels)
    if truth.shape != (len(pixels),) or not np.issubdtype(truth.dtype, np.integer):
        raise InvalidInput(f"labels must be {len(pixels)} whole numbers, one an image, got {truth.dtype} {truth.shape}")
    plan = _Plan(models, values, kind, space, judges, choose, seed, extra)
    parts = (slice(first, first + batch) for first in range(0, len(pixels), batch))
    return [attempt for part in parts for attempt in _attempts(plan, pixels[part], truth[part], part.start)]


def _check_options(
    eps: Sequence[float], judges: Judges, choose: Choose, batch: int, models: Mapping[str, Classifier]
) -> tuple[float, ...]:
    if judges not in get_args(Judges):
        raise InvalidInput(f"judges must be own, any or all, got {judges!r}")
    if batch < 1:
        raise InvalidInput(f"batch must be at least 1, got {batch}")
    if not models:
        raise InvalidInput("fooling needs at least one model to take gradients from, got none")
    return check_eps_values(eps, choose=choose)


def check_eps_values(eps: Sequence[float], *, choose: Choose) -> tuple[float, ...]:
    """The eps to try, ascending, if they and the rule to choose among them make sense."""
    if choose not in get_args(Choose):
        raise InvalidInput(f"choose must be smallest or all, got {choose!r}")
    values = tuple(sorted(float(value) for value in eps))
    if not values or not values[0] > 0 or len(set(values)) < len(values):
        raise InvalidInput(f"eps must be distinct positive numbers, at least one, got {tuple(eps)}")
    return values


def _pixels(images: Sequence[Bytes]) -> list[Bytes]:
    given = [check_image(image) for image in images]
    wrong = next((image.dtype for image in given if image.dtype != np.uint8), None)
    if wrong is not None:
        raise InvalidInput(f"fooling judges 8-bit images, got {wrong}; round them with images.as_bytes first")
    colour = [to_rgb(as_bytes(image)) for image in given]
    sizes = sorted({image.shape[:2] for image in colour})
    if len(sizes) > 1:
        shown = ", ".join(f"{width} x {height}" for height, width in sizes)
        raise InvalidInput(f"images of one call must have one size, got {shown}; crop them to the models' size first")
    return colour


@dataclass(frozen=True, slots=True)
class _Plan:
    """What `fooling` was asked for, checked."""

    models: Mapping[str, Classifier]
    eps: tuple[float, ...]
    attack: Attack
    space: Space
    judges: Judges
    choose: Choose
    seed: int
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class _Clean:
    """One clean image: its number among all, what it shows, and what each model takes it for."""

    number: int
    pixels: Bytes
    label: int
    digest: str
    before: Mapping[str, int]


def _attempts(plan: _Plan, pixels: list[Bytes], labels: NDArray[np.integer[Any]], first: int) -> list[Attempt]:
    """Every attempt on one batch, whose first image has the number `first`: by image, then model, then eps."""
    before = {name: predict_classes(model, pixels, labels) for name, model in plan.models.items()}
    batch = [
        _Clean(first + row, image, int(labels[row]), digest(image), {name: before[name][row] for name in before})
        for row, image in enumerate(pixels)
    ]
    searched = [_search(plan, name, batch) for name in plan.models]
    return [attempt for of_image in zip(*searched, strict=True) for attempts in of_image for attempt in attempts]


def _search(plan: _Plan, name: str, batch: list[_Clean]) -> list[list[Attempt]]:
    """The attempts on each image with the gradients of the model `name`, eps ascending."""
    found: list[list[Attempt]] = [[] for _ in batch]
    able = [_decided(plan.judges, [clean.before[j] == clean.label for j in _judging(plan, name)]) for clean in batch]
    made = [[clean.digest] for clean in batch]  # what each image has been so far, in 8 bits
    live = [row for row, yes in enumerate(able) if yes]
    strike = _aimed(plan, name, batch) if live else None
    for eps in plan.eps:
        struck = _struck(plan, name, eps, strike, batch, live, made) if strike and live else {}
        for row, clean in enumerate(batch):
            skipped: Verdict = "larger" if able[row] else "clean-wrong"
            nothing = Attempt(clean.number, name, plan.attack.name, eps, skipped, clean.before[name])
            found[row].append(struck.get(row, nothing))
        if plan.choose == "smallest":
            live = [row for row in live if not struck[row].kept]
    return found


def _judging(plan: _Plan, name: str) -> list[str]:
    return [name] if plan.judges == "own" else list(plan.models)


def _decided(judges: Judges, votes: Sequence[bool]) -> bool:
    return any(votes) if judges == "any" else all(votes)


def _aimed(plan: _Plan, name: str, batch: list[_Clean]) -> Strike:
    images, labels = _tensor([clean.pixels for clean in batch]), [clean.label for clean in batch]
    return plan.attack.aim(target(plan.models[name], images, labels, space=plan.space), **plan.options)


def _struck(
    plan: _Plan, name: str, eps: float, strike: Strike, batch: list[_Clean], rows: list[int], made: list[list[str]]
) -> dict[int, Attempt]:
    """The attempts on these rows of the batch at one eps; `made` gets the digests of what they became."""
    import torch

    seeds = [stimulus_seed(batch[row].digest, plan.attack.name, f"{name}@{eps!r}", plan.seed) for row in rows]
    attacked = strike(eps, torch.tensor(rows), [np.random.default_rng(seed) for seed in seeds])
    pixels = [as_bytes(image) for image in attacked.permute(0, 2, 3, 1).cpu().numpy()]
    labels = np.array([batch[row].label for row in rows])
    after = {judge: predict_classes(plan.models[judge], pixels, labels) for judge in _judging(plan, name)}
    attempts = {}
    for at, row in enumerate(rows):
        clean, identity = batch[row], digest(pixels[at])
        votes = {judge: clean.before[judge] == clean.label != after[judge][at] for judge in after}
        verdict = _verdict(identity, made[row], fools=_decided(plan.judges, list(votes.values())))
        made[row].append(identity)
        attempts[row] = Attempt(
            image=clean.number,
            model=name,
            attack=plan.attack.name,
            eps=eps,
            verdict=verdict,
            before=clean.before[name],
            after=after[name][at],
            fooled=tuple(judge for judge, fooled in votes.items() if fooled),
            seed=seeds[at] if plan.attack.random else None,
            pixels=pixels[at] if verdict == "kept" else None,
        )
    return attempts


def _verdict(identity: str, made: list[str], *, fools: bool) -> Verdict:
    if identity == made[0]:
        return "unchanged"
    if identity in made:
        return "repeated"
    return "kept" if fools else "not-fooled"


def _tensor(images: Sequence[Bytes]) -> Tensor:
    """Images as the models take them: float32 in [0, 1], (N, 3, height, width)."""
    import torch

    floats = np.stack([as_floats(to_rgb(image)) for image in images])
    return torch.from_numpy(floats).permute(0, 3, 1, 2).contiguous()


def predict_classes(
    model: Classifier, images: Sequence[Bytes], labels: NDArray[np.integer[Any]] | None = None
) -> list[int]:
    """The class each 8-bit image, all of one size, is taken for; labels must be among the model's classes."""
    import torch

    with torch.no_grad():
        logits = model(_tensor(images))
    check_logits(logits, len(images))
    if labels is not None:
        check_range(labels, logits.shape[1])
    return logits.argmax(dim=1).tolist()


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
class AttackRecipe:
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
        check_eps_values(self.eps, choose=self.choose)
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
        source = read_source(self.sources, file, self.prepare, expected=expected)
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
        return attack_images(
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
        return predict_classes(classifier, [image])[0]


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

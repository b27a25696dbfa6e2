"""Attacked images: people still see the right class, the model does not (Lee et al. 2023, section 3.2).

`attack_images` tries the gradients of several models and several eps on each image; `AttackRecipe` makes a stimulus
set of the attempts that fool. An attacked image is judged as it will be stored, in 8 bits. With ImageNet's std,
VisAlign's eps of .005 is less than half an 8-bit step and rounds to nothing, and .01 to .025 all round to one step;
such attempts have the verdicts `unchanged` and `repeated`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cosight.errors import InvalidInput
from cosight.stimuli.alterations import source_units
from cosight.stimuli.attacks import (
    Attack,
    Classifier,
    PreparedAttack,
    Space,
    attacks,
    check_eps,
    check_eval,
    check_logits,
    check_range,
    make_target,
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
    "ModelIdentity",
    "Verdict",
    "attack_images",
    "predict_classes",
    "to_tensor",
]

VISALIGN_EPS = (0.005, 0.01, 0.015, 0.02, 0.025, 0.03)  # Lee et al. 2023, section 3.2, in normalised units

Judges = Literal["own", "any", "all"]
Choose = Literal["smallest", "all"]
Verdict = Literal[
    "kept",
    "clean-wrong",  # the judges get the clean image wrong: nothing to fool, no attack made
    "unchanged",  # in 8 bits the attacked image is the clean one
    "repeated",  # in 8 bits it is the same as at a smaller eps
    "not-fooled",
    "larger",  # a smaller eps already fools: no attack made
]


@dataclass(frozen=True, slots=True, eq=False)
class Attempt:
    """One image attacked with one model's gradients at one eps.

    Attributes:
        image: Index of the image.
        model: Name of the model.
        attack: Name of the attack.
        eps: Size of the attack.
        verdict: Whether it is kept, or why not.
        before: Class that the model gives the clean image.
        after: Class that it gives the attacked 8-bit image; None if no attack was made.
        fooled: Judges that went from right to wrong.
        seed: Seed of the random start; None if the attack has none.
        pixels: The attacked image, if it is kept.
    """

    image: int
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
    """Attack every image with every model's gradients at every eps.

    The random start depends on the image, the attack, the model, eps and `seed`, not on the other images.

    Args:
        images: 8-bit images of one size, the one the models take. Grey images become RGB.
        labels: True class of each image.
        models: Classifiers by name.
        eps: Sizes to try.
        attack: Name of the attack.
        space: Unit of `eps`: the channels' std (normalised) or pixels.
        judges: The models that must be right on the clean and wrong on the attacked image: the attacked model itself
            ("own"), any of the models, or all of them.
        choose: "smallest" stops at the first eps that fools; "all" keeps every eps that fools.
        seed: Seed of random starts.
        batch: Batch size. Above 1, convolutions may round differently, and a gradient near zero may change its sign.
        options: Options of the attack (steps, step_size, random_start).

    Returns:
        One attempt per image, model and eps, in this order, eps ascending.

    Raises:
        InvalidInput: If an argument does not fit.
        UnknownName: If there is no such attack.
    """
    if judges not in get_args(Judges):
        raise InvalidInput(f"judges must be own, any or all, got {judges!r}")
    if batch < 1:
        raise InvalidInput(f"batch must be at least 1, got {batch}")
    if not models:
        raise InvalidInput("an attack needs at least one model to take gradients from, got none")
    values, kind, extra = _check_eps_values(eps, choose), attacks[attack], dict(options or {})
    if set(extra) - kind.options:
        allowed = ", ".join(sorted(kind.options)) or "no options"
        raise InvalidInput(f"{kind.name} takes {allowed}, got {', '.join(extra)}")
    for value in values:
        check_eps(value, kind.norm, space)
    for model in models.values():
        check_eval(model)
    arrays = [check_image(image) for image in images]
    wrong_dtype = next((array.dtype for array in arrays if array.dtype != np.uint8), None)
    if wrong_dtype is not None:
        raise InvalidInput(f"attack_images judges 8-bit images, got {wrong_dtype}; convert them with images.as_bytes")
    pixels = [to_rgb(as_bytes(array)) for array in arrays]
    sizes = sorted({image.shape[:2] for image in pixels})
    if len(sizes) > 1:
        listed = ", ".join(f"{width} x {height}" for height, width in sizes)
        raise InvalidInput(f"images of one call must have one size, got {listed}; crop them to the models' size first")
    truth = np.asarray(labels)
    if truth.shape != (len(pixels),) or not np.issubdtype(truth.dtype, np.integer):
        raise InvalidInput(
            f"labels must be {len(pixels)} whole numbers, one per image, got {truth.dtype} {truth.shape}"
        )
    search = _Search(models, values, kind, space, judges, choose, seed, extra)
    attempts: list[Attempt] = []
    for first in range(0, len(pixels), batch):
        part, codes = pixels[first : first + batch], truth[first : first + batch]
        before = {name: predict_classes(model, part, codes) for name, model in models.items()}
        clean = [
            _CleanImage(
                first + row, image, int(codes[row]), digest(image), {name: before[name][row] for name in before}
            )
            for row, image in enumerate(part)
        ]
        by_model = [search.attack_with(name, clean) for name in models]
        for of_image in zip(*by_model, strict=True):
            attempts += [attempt for of_model in of_image for attempt in of_model]
    return attempts


def _check_eps_values(eps: Sequence[float], choose: Choose) -> tuple[float, ...]:
    """Return the eps to try, ascending."""
    if choose not in get_args(Choose):
        raise InvalidInput(f"choose must be smallest or all, got {choose!r}")
    values = tuple(sorted(float(value) for value in eps))
    if not values or not values[0] > 0 or len(set(values)) < len(values):
        raise InvalidInput(f"eps must be distinct positive numbers, at least one, got {tuple(eps)}")
    return values


@dataclass(frozen=True, slots=True, eq=False)
class _CleanImage:
    """One clean image: its index, its true label, and the class that each model gives it."""

    index: int
    pixels: Bytes
    label: int
    digest: str
    before: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Search:
    """The checked arguments of `attack_images`."""

    models: Mapping[str, Classifier]
    eps: tuple[float, ...]
    attack: Attack
    space: Space
    judges: Judges
    choose: Choose
    seed: int
    options: Mapping[str, Any]

    def attack_with(self, name: str, batch: list[_CleanImage]) -> list[list[Attempt]]:
        """Return the attempts on each image with the gradients of one model, eps ascending."""
        attempts: list[list[Attempt]] = [[] for _ in batch]
        judges = self._judges_of(name)
        able = [self._decide([clean.before[judge] == clean.label for judge in judges]) for clean in batch]
        digests = [[clean.digest] for clean in batch]  # of each image and its attacked versions so far
        rows = [row for row, is_able in enumerate(able) if is_able]
        prepared = None
        if rows:
            images, labels = to_tensor([clean.pixels for clean in batch]), [clean.label for clean in batch]
            target = make_target(self.models[name], images, labels, space=self.space)
            prepared = self.attack.prepare(target, **self.options)
        for eps in self.eps:
            attacked = self._attack_rows(prepared, name, eps, batch, rows, digests) if prepared and rows else {}
            for row, clean in enumerate(batch):
                verdict: Verdict = "larger" if able[row] else "clean-wrong"
                not_made = Attempt(clean.index, name, self.attack.name, eps, verdict, clean.before[name])
                attempts[row].append(attacked.get(row, not_made))
            if self.choose == "smallest":
                rows = [row for row in rows if not attacked[row].kept]
        return attempts

    def _attack_rows(
        self,
        prepared: PreparedAttack,
        name: str,
        eps: float,
        batch: list[_CleanImage],
        rows: list[int],
        digests: list[list[str]],
    ) -> dict[int, Attempt]:
        """Return the attempts on these rows of the batch at one eps, and append the results to `digests`."""
        import torch

        seeds = [stimulus_seed(batch[row].digest, self.attack.name, f"{name}@{eps!r}", self.seed) for row in rows]
        attacked = prepared(eps, torch.tensor(rows), [np.random.default_rng(seed) for seed in seeds])
        pixels = [as_bytes(image) for image in attacked.permute(0, 2, 3, 1).cpu().numpy()]
        labels = np.array([batch[row].label for row in rows])
        after = {judge: predict_classes(self.models[judge], pixels, labels) for judge in self._judges_of(name)}
        attempts = {}
        for at, row in enumerate(rows):
            clean, identity = batch[row], digest(pixels[at])
            fooled = {judge: clean.before[judge] == clean.label != after[judge][at] for judge in after}
            verdict: Verdict
            if identity == digests[row][0]:
                verdict = "unchanged"
            elif identity in digests[row]:
                verdict = "repeated"
            else:
                verdict = "kept" if self._decide(list(fooled.values())) else "not-fooled"
            digests[row].append(identity)
            attempts[row] = Attempt(
                image=clean.index,
                model=name,
                attack=self.attack.name,
                eps=eps,
                verdict=verdict,
                before=clean.before[name],
                after=after[name][at],
                fooled=tuple(judge for judge, is_fooled in fooled.items() if is_fooled),
                seed=seeds[at] if self.attack.random else None,
                pixels=pixels[at] if verdict == "kept" else None,
            )
        return attempts

    def _judges_of(self, name: str) -> list[str]:
        return [name] if self.judges == "own" else list(self.models)

    def _decide(self, votes: Sequence[bool]) -> bool:
        return any(votes) if self.judges == "any" else all(votes)


def predict_classes(
    model: Classifier, images: Sequence[Bytes], labels: NDArray[np.integer[Any]] | None = None
) -> list[int]:
    """Return the class that the model gives each 8-bit image; images have one size.

    Raises:
        InvalidInput: If the model does not return logits, or a label is not one of its classes.
    """
    import torch

    with torch.no_grad():
        logits = model(to_tensor(images))
    check_logits(logits, len(images))
    if labels is not None:
        check_range(labels, logits.shape[1])
    return logits.argmax(dim=1).tolist()


def to_tensor(images: Sequence[Bytes]) -> Tensor:
    """Return images as models take them: float32 in [0, 1], (N, 3, height, width)."""
    import torch

    floats = np.stack([as_floats(to_rgb(image)) for image in images])
    return torch.from_numpy(floats).permute(0, 3, 1, 2).contiguous()


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """What a model is, wherever its files are: its name, the digest of its weights ("" if it has none), precision."""

    name: str
    weights: str
    precision: str

    @classmethod
    def of(cls, classifier: Any, reference: str) -> ModelIdentity:
        """Return the identity of a model that `reference` was loaded as."""
        return cls(
            getattr(classifier, "name", reference),
            getattr(classifier, "weights_digest", ""),
            getattr(classifier, "precision", "float32"),
        )

    @property
    def folder(self) -> str:
        """The name of its folder in a set; the digest of the weights distinguishes two trainings."""
        plain = "".join(letter if letter.isalnum() or letter in ".-_" else "_" for letter in self.name)
        return f"{plain}-{self.weights[:8]}" if self.weights else plain

    @property
    def key(self) -> str:
        """What random starts depend on: a renamed checkpoint is the same model."""
        return self.weights or self.name


@dataclass(frozen=True, slots=True)
class AttackRecipe:
    """Recipe for `generate_set`: every source attacked with every model at every eps; attempts that fool are kept.

    Attributes:
        sources: The images to attack.
        models: References that `load` turns into classifiers.
        load: Loads a classifier; called in each worker process.
        attack: Name of the attack.
        eps: Sizes to try.
        space: Unit of `eps`.
        choose: Which of several eps that fool are kept.
        classes: Names of the models' outputs in order. Without them, a truth that is a number is the index of an
            output, and for any other truth the model's answer to the clean image is what has to change.
        seed: Seed of random starts.
        prepare: How sources are resized first.
        facts: Manifest columns of every stimulus.
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
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the options before a model is loaded, which may take long."""
        attacks.name_of(self.attack)
        _check_eps_values(self.eps, self.choose)
        if self.space not in get_args(Space):
            raise InvalidInput(f"space must be {' or '.join(get_args(Space))}, got {self.space!r}")

    @property
    def settings(self) -> Mapping[str, Any]:
        """Verb, attack, classes, seed, preparation and how attempts are chosen."""
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
        """The packages that compute gradients."""
        return ("torch", "timm")

    @property
    def folders(self) -> tuple[Path, ...]:
        """The sources' folder."""
        return (self.sources.root,)

    def units(self) -> list[Unit]:
        """One unit per source, with one job per model and eps."""
        identities: list[ModelIdentity] = []
        for reference in self.models:
            classifier = self.load(reference)
            model = ModelIdentity.of(classifier, reference)
            if model.folder in {other.folder for other in identities}:
                raise InvalidInput(f"models must differ in name or weights, got {model.name} twice; leave one out")
            outputs = getattr(classifier, "classes", None)
            if self.classes is not None and outputs is not None and outputs != len(self.classes):
                raise InvalidInput(
                    f"labels must be the {outputs} outputs of {model.name} in order, got {len(self.classes)} classes;"
                    " choose those it was trained on"
                )
            identities.append(model)
        folders, facts = [], []
        for model in identities:
            for level, eps in enumerate(sorted(self.eps), start=1):
                eps_text = f"{eps:g}" if float(f"{eps:g}") == eps else repr(float(eps))  # two eps never share a name
                parameters = {"attack": self.attack, "eps": eps, "space": self.space}
                parameters |= {"model": model.name, "weights": model.weights, **attacks[self.attack].settings(eps)}
                parameters |= {} if model.precision == "float32" else {"precision": model.precision}
                folders.append(f"{self.attack}/{model.folder}/{eps_text}")
                facts.append(
                    {
                        "experiment": "attacks",
                        "condition": f"{model.name} {eps_text}",
                        **self.facts,
                        "kind": self.attack,
                        "level": level,
                        "parameters": json.dumps(parameters, sort_keys=True),
                    }
                )
        return list(source_units(self.sources, folders, facts))

    def make(self, unit: Unit, jobs: Sequence[StimulusJob]) -> Iterator[Outcome]:
        """Make all attempts on one source and yield those of the jobs."""
        file, expected, truth = unit.payload
        source = read_source(self.sources, file, self.prepare, expected=expected)
        attempts: list[Attempt] = []
        try:
            for reference in self.models:
                classifier = self.load(reference)
                attempts += attack_images(
                    [source.ready],
                    np.array([self._label(source.ready, truth, classifier)]),
                    {ModelIdentity.of(classifier, reference).key: classifier},
                    eps=self.eps,
                    attack=self.attack,
                    space=self.space,
                    choose=self.choose,
                    seed=self.seed,
                )
        except InvalidInput as error:
            raise InvalidInput(f"{unit.name}: {error}") from error
        pending = {job.file for job in jobs}
        for job, attempt in zip(unit.jobs, attempts, strict=True):
            if job.file in pending:
                facts = {"seed": attempt.seed, "parent": source.digest}
                yield Outcome(job, attempt.pixels, facts, reason=None if attempt.kept else attempt.verdict)

    def _label(self, image: Bytes, truth: str | None, classifier: Classifier) -> int:
        if self.classes is not None:
            if truth not in self.classes:
                raise InvalidInput(f"a truth must be among the labels' classes, got {truth!r}; choose other labels")
            return self.classes.index(truth)
        if truth is not None and truth.isdecimal():
            return int(truth)
        return predict_classes(classifier, [image])[0]

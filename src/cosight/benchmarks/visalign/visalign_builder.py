"""Builders of VisAlign: its eight categories from folders of photos, and the survey's distractors (Lee et al. 2023)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from cosight.benchmarks.building import CLOSED, SetSlot, SlotImage, UnusableCandidate, build_set
from cosight.benchmarks.building.datasheet import describe_source
from cosight.benchmarks.building.source_photos import FileStamps, Photos, rejection_settings
from cosight.benchmarks.building.split_sources import (
    EVALUATION_SPLITS,
    SourcePool,
    deal_candidates,
    divide_sources,
    interleave,
    shuffle,
)
from cosight.benchmarks.entry import BuildResult, Progress
from cosight.benchmarks.visalign.categories import CATEGORIES, CLEAR, Counts, check_categories, truth_of
from cosight.benchmarks.visalign.composites import DoubtfulMask, make_composite, plan_composites
from cosight.errors import InvalidInput
from cosight.stimuli.attack_recipe import attack_images, predict_classes
from cosight.stimuli.attacks import Classifier
from cosight.stimuli.composition import PLAIN_BACKGROUNDS, read_mask
from cosight.stimuli.corruptions import corrupt
from cosight.stimuli.images import MIN_SIDE, Bytes, Preparation, as_bytes, to_rgb
from cosight.stimuli.kinds import stimulus_seed
from cosight.trials.manifest import DISTRACTORS
from cosight.trials.spaces import ABSTAIN, label_spaces

if TYPE_CHECKING:
    from cosight.devices import Precision
    from cosight.models import TorchModel

__all__ = ["PhotoCandidate", "VisAlignBuilder", "VisAlignDistractorsBuilder", "build_visalign", "load_attacker"]

_SPACE = label_spaces["visalign-11"]
_SOURCES = {1: "photos", 2: "photos", 3: "photos", 4: "others", 5: "photos", 6: "near", 7: "renditions", 8: "photos"}
_USED_FOR = {
    "photos": "categories 1, 2, 3, 5 and 8, training",
    "others": "category 4, distractors",
    "near": "category 6",
    "renditions": "category 7",
    "backgrounds": "category 2 and 5, behind the objects",
}
_GOLD = (
    "Must-Act and Must-Abstain images: by construction; a person must have looked at every one of them.",
    "Uncertain images: none yet, until a study's answers are put in.",
)
_BACKGROUNDS = "backgrounds/"  # prefix of background photos in plans of composites
_SPARE_PLANS = 3  # per composite, in case masks are doubtful
_KINDS = {1: "clean", 3: "fgsm", 4: "other", 6: "near-miss", 7: "style"}
_CORRUPTIONS = (
    *("gaussian_noise", "shot_noise", "impulse_noise", "glass_blur", "defocus_blur", "motion_blur", "zoom_blur"),
    *("fog", "frost", "snow", "contrast", "brightness", "jpeg_compression", "pixelate", "elastic_transform"),
    "cropping",
)
_Pools = Mapping[str, Mapping[str, SourcePool]]  # source folder, split, class: names of photos


@dataclass(frozen=True, slots=True)
class PhotoCandidate:
    """What an image can be made of: photos of a class (or of a folder that is none), and what is done to them."""

    label: str
    files: tuple[str, ...]
    kind: str
    severity: int | None = None
    plan: Mapping[str, Any] | None = None  # of a composite


@dataclass(frozen=True, slots=True)
class VisAlignBuilder:
    """Builder of VisAlign's categories.

    `folders_by_use` has `photos` (the ten classes as folders) and, if their categories are requested, `others`, `near`,
    `renditions`, and optionally `backgrounds`.

    `attackers` are names that `load` turns into classifiers, for category 3. They take turns, and an attack must change
    a model's own answer to the clean photo: its classes need not be the ten.
    """

    folders_by_use: Mapping[str, Photos]
    counts: Counts
    seed: int = 0
    side: int = 224
    attackers: tuple[str, ...] = ()
    load: Callable[[str], Classifier] | None = None
    closed_seed: int | None = None  # seed of the closed test set; if set, only that is built

    experiment: ClassVar[str] = "visalign"

    def __post_init__(self) -> None:
        if unknown := set(self.folders_by_use) - set(_USED_FOR):
            raise InvalidInput(f"source folders are {', '.join(_USED_FOR)}, got {min(unknown)!r}")
        for category in self.counts.requested:
            if (source := _SOURCES[category]) not in self.folders_by_use:
                raise InvalidInput(
                    f"category {category} needs a folder of {source}, got none; "
                    f"give --{source}, or set {category}=0 in the counts"
                )
        if self.side < MIN_SIDE:
            raise InvalidInput(f"--size must be {MIN_SIDE} or more, got {self.side}")
        if 3 in self.counts.requested and not self.attackers:
            raise InvalidInput(
                "category 3 needs models to attack, got none; give --attackers, or set 3=0 in the counts"
            )

    @property
    def settings(self) -> Mapping[str, Any]:
        """Labels, counts, seed, size and attackers; rejected photos if there are some."""
        return {
            "labels": _SPACE.name,
            "counts": self.counts.text,
            "seed": self.seed,
            **rejection_settings(self.folders_by_use),
            "side": self.side,
            "attackers": [_model_identity(self._attacker(name), name) for name in self.attackers],
        }

    @property
    def packages(self) -> tuple[str, ...]:
        """What attacks are computed with, if there are any."""
        return ("torch", "timm") if self.attackers else ()

    @property
    def folders(self) -> tuple[Path, ...]:
        """The source folders."""
        return tuple(photos.folder for photos in self.folders_by_use.values())

    @property
    def drawing_seed(self) -> int:
        """The seed of everything random but the division of sources among splits."""
        return self.seed if self.closed_seed is None else self.closed_seed

    def closed(self, seed: int) -> VisAlignBuilder:
        """Return the builder of the closed test set: photos divided by `self.seed`, everything else by `seed`."""
        return replace(self, closed_seed=seed)

    def slots(self) -> list[SetSlot]:
        """Return the training slots, then every category of every split; or those of the closed test set."""
        sources = {name: photos for name, photos in self.folders_by_use.items() if name != "backgrounds"}
        pools = _divide_photos(sources, train=self.counts.train, seed=self.seed)
        rows: list[tuple[str, int | None, list[tuple[PhotoCandidate, ...]]]] = []
        if self.closed_seed is None:
            train = interleave(pools["photos"]["train"], salt="", seed=self.seed)
            rows = [("train", None, [(PhotoCandidate(label, (file,), "clean"),) for label, file in train])]
        for split in ("calibration", "test") if self.closed_seed is None else (CLOSED,):
            rows += [
                (split, category, self._plan_category(category, pools, split)) for category in self.counts.requested
            ]
        slots, stamps = [], FileStamps()
        for split, category, candidates_of_slots in rows:
            photos = self.folders_by_use[_SOURCES[category or 1]]
            group = None if category is None else CATEGORIES[category].group
            for number, candidates in enumerate(candidates_of_slots):
                stamp, source = _stamp_slot(photos, candidates, stamps), str(photos.path(candidates[0].files[0]))
                slots.append(SetSlot(split, category, number, candidates, stamp, group, source))
        return slots

    def _plan_category(self, category: int, pools: _Pools, split: str) -> list[tuple[PhotoCandidate, ...]]:
        """Return the candidates of each slot of a category."""
        pool, count, seed = pools[_SOURCES[category]][split], self.counts.categories[category], self.drawing_seed
        if category in (2, 5):
            backgrounds = PLAIN_BACKGROUNDS
            if "backgrounds" in self.folders_by_use:
                backgrounds = tuple(_BACKGROUNDS + file for file in self.folders_by_use["backgrounds"].files)
            plan = plan_composites(
                category,
                {label: files for label, files in pool.items() if files},
                count=_SPARE_PLANS * count,
                seed=stimulus_seed(split, str(category), "plan", seed),
                backgrounds=backgrounds,
            )
            candidates = [
                PhotoCandidate(
                    row["original"],
                    tuple(row[name] for name in ("source", "second") if row[name]),
                    row["route"],
                    plan=row,
                )
                for row in plan.iter_rows(named=True)
            ]
            return [tuple(candidates[slot::count]) for slot in range(count)]
        purpose = f"category {category} of {split}"
        rows = deal_candidates(pool, count, salt=f"{split}/{category}", seed=seed, purpose=purpose)
        if category == 8:
            return _plan_corruptions(list(rows), salt=split, seed=seed)
        return [tuple(PhotoCandidate(label, (file,), _KINDS[category]) for label, file in row) for row in rows]

    def draw(self, slot: SetSlot, candidate: PhotoCandidate) -> SlotImage:
        """Draw a candidate; an image of category 8 has no gold label before people have answered."""
        category = slot.category or 1  # training images are clean
        source = self.folders_by_use[_SOURCES[category]].read(candidate.files[0], _preparation(self.side))
        seed = stimulus_seed(source.digest, candidate.kind, slot.file, self.drawing_seed)
        parameters: dict[str, Any] = {"files": list(candidate.files), "shows": candidate.label}
        if category == 3:
            pixels, attack_parameters = self._attack(source.ready, slot.number)
            parameters |= attack_parameters
        elif candidate.plan is not None:
            pixels = self._compose(candidate.plan)
            parameters |= {name: value for name, value in candidate.plan.items() if value is not None}
        elif category == 8:
            pixels = _corrupt_photo(source.ready, candidate, np.random.default_rng(seed))
        else:
            pixels = to_rgb(source.ready)
        truth = truth_of(category, candidate.label)
        facts: dict[str, Any] = {
            "truth": truth,
            "original": candidate.label if candidate.label in _SPACE.classes else None,
            "level": candidate.severity,
            "condition": candidate.kind,
            "kind": candidate.kind,
            "parent": source.digest,
            "seed": seed,
            "parameters": json.dumps(parameters, sort_keys=True, ensure_ascii=False),
        }
        if category != 8:
            facts["gold"] = _SPACE.one_hot(truth)
        return SlotImage(pixels, facts)

    def _attacker(self, name: str) -> Classifier:
        if self.load is None:
            raise InvalidInput("attackers need a function that loads them, got none; pass load")
        return self.load(name)

    def _attack(self, image: Bytes, number: int) -> tuple[Bytes, dict[str, Any]]:
        """Return the photo that fools the first attacker, at the smallest eps that does, and its parameters."""
        first = number % len(self.attackers)
        for name in (*self.attackers[first:], *self.attackers[:first]):
            model = self._attacker(name)
            own_answer = np.array(predict_classes(model, [image]))
            for attempt in attack_images([image], own_answer, {name: model}, seed=self.drawing_seed):
                if attempt.pixels is not None:
                    parameters = {"attack": attempt.attack, "eps": attempt.eps, **_model_identity(model, name)}
                    return attempt.pixels, parameters
        raise UnusableCandidate("no attacker is fooled")

    def _compose(self, plan: Mapping[str, Any]) -> Bytes:
        """Return the composite of a plan."""
        photos = self.folders_by_use["photos"]

        def load(name: str) -> Bytes:
            if name.startswith(_BACKGROUNDS):
                return self.folders_by_use["backgrounds"].read(name.removeprefix(_BACKGROUNDS), None).ready
            return photos.read(name, None).ready

        try:
            return make_composite(plan, load, mask=lambda name: read_mask(photos.path(name)), size=self.side)
        except DoubtfulMask as error:
            raise UnusableCandidate("doubtful mask") from error


@dataclass(frozen=True, slots=True)
class VisAlignDistractorsBuilder:
    """Builder of the survey's distractors: other objects, corrupted; `clear` ones must always be refused."""

    others: Photos
    count: int
    seed: int = 0
    side: int = 224

    experiment: ClassVar[str] = "visalign"
    packages: ClassVar[tuple[str, ...]] = ()

    @property
    def settings(self) -> Mapping[str, Any]:
        """Labels, count, seed and size; rejected photos if there are some."""
        settings = {"labels": _SPACE.name, "distractors": self.count, "seed": self.seed, "side": self.side}
        return {**settings, **rejection_settings({"others": self.others})}

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folder of other objects."""
        return (self.others.folder,)

    def slots(self) -> list[SetSlot]:
        """Return one slot per distractor: photos with one corruption and one severity."""
        pool = _divide_photos({"others": self.others}, train=0, seed=self.seed)["others"][DISTRACTORS]
        purpose = "the survey's distractors"
        dealt = deal_candidates(pool, self.count, salt=DISTRACTORS, seed=self.seed, purpose=purpose)
        rows = _plan_corruptions(list(dealt), salt=DISTRACTORS, seed=self.seed)
        stamps = FileStamps()
        return [
            SetSlot(None, 4, number, row, _stamp_slot(self.others, row, stamps), CATEGORIES[4].group)
            for number, row in enumerate(rows)
        ]

    def draw(self, slot: SetSlot, candidate: PhotoCandidate) -> SlotImage:
        """Corrupt a photo. A crop is never clear: it may show a part that a class has too."""
        source = self.others.read(candidate.files[0], _preparation(self.side))
        seed = stimulus_seed(source.digest, candidate.kind, slot.file, self.seed)
        clear = (candidate.severity or 1) <= CLEAR and candidate.kind != "cropping"
        parameters = {"files": list(candidate.files), "shows": candidate.label, "clear": clear}
        facts = {
            "condition": candidate.kind,
            "kind": candidate.kind,
            "level": candidate.severity,
            "seed": seed,
            "truth": ABSTAIN,
            "gold": _SPACE.one_hot(ABSTAIN),
            "parent": source.digest,
            "parameters": json.dumps(parameters, sort_keys=True, ensure_ascii=False),
        }
        return SlotImage(_corrupt_photo(source.ready, candidate, np.random.default_rng(seed)), facts)


def build_visalign(
    builder: VisAlignBuilder,
    out: Path,
    *,
    closed: Path | None = None,
    workers: int = 1,
    notices: tuple[str, ...] = (),
    progress: Progress | None = None,
) -> BuildResult:
    """Build the set in `out`, with its distractors and datasheet; an unfinished set there is resumed."""
    folders, count = builder.folders_by_use, builder.counts.distractors
    distractors = None
    if "others" in folders and count:
        distractors = VisAlignDistractorsBuilder(folders["others"], count, builder.seed, builder.side)
    return build_set(
        builder,
        out,
        distractors=distractors,
        title="VisAlign's eight categories",
        sources=[
            describe_source(photos.folder, used_for=_USED_FOR[name], rejected=len(photos.rejected))
            for name, photos in folders.items()
        ],
        gold=_GOLD,
        categories=CATEGORIES,
        check=check_categories,
        closed=closed,
        workers=workers,
        notices=notices,
        progress=progress,
    )


@cache
def load_attacker(name: str, *, device: str = "auto", precision: Precision = "float32") -> TorchModel:
    """Load a model whose gradients make category 3, once per process."""
    from cosight.models import load_torch

    return load_torch(name, device=device, precision=precision)


def _divide_photos(folders: Mapping[str, Photos], *, train: int, seed: int) -> _Pools:
    """Divide the photos of each folder by split and class. A part of the other objects is for distractors."""
    pools: dict[str, Mapping[str, SourcePool]] = {}
    for name, photos in folders.items():
        sources = photos.by_class(_SPACE) if name == "photos" else photos.by_folder()
        splits = (*EVALUATION_SPLITS, DISTRACTORS) if name == "others" else EVALUATION_SPLITS
        pools[name] = divide_sources(sources, train=train if name == "photos" else 0, seed=seed, splits=splits)
    return pools


def _plan_corruptions(
    rows: Sequence[Sequence[tuple[str, str]]], *, salt: str, seed: int
) -> list[tuple[PhotoCandidate, ...]]:
    """Give each slot a corruption and a severity: all combinations in turn, in a random order."""
    names = (f"{kind} {severity}" for kind in _CORRUPTIONS for severity in range(1, 11))
    variants = [name.split() for name in shuffle(names, salt=salt, seed=seed)]
    return [
        tuple(PhotoCandidate(label, (file,), kind, int(severity)) for label, file in row)
        for row, (kind, severity) in zip(rows, cycle(variants), strict=False)
    ]


def _corrupt_photo(ready: Bytes, candidate: PhotoCandidate, rng: np.random.Generator) -> Bytes:
    """Corrupt a prepared photo, or crop a random region of it; RGB."""
    severity = candidate.severity or 1
    return as_bytes(corrupt(to_rgb(ready), candidate.kind, severity=severity, rng=rng, region="random"))


def _preparation(side: int) -> Preparation:
    """Scale the short side to 8/7 of the image and crop the centre: 256 and 224, as models expect."""
    return Preparation(short=round(side * 8 / 7), crop=side)


def _model_identity(model: Classifier, name: str) -> dict[str, str]:
    """Identify an attacker by its name, weights and precision, wherever its files are."""
    identity = {"name": getattr(model, "name", name), "weights": getattr(model, "weights_digest", "")}
    precision = getattr(model, "precision", "float32")
    return identity if precision == "float32" else {**identity, "precision": precision}


def _stamp_slot(photos: Photos, candidates: Sequence[PhotoCandidate], stamps: FileStamps) -> str:
    """Return a digest of all files that a slot may be made from."""
    files = dict.fromkeys(file for candidate in candidates for file in candidate.files)
    return sha256("+".join(stamps[photos.path(file)] for file in files).encode()).hexdigest()

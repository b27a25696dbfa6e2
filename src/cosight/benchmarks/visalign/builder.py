"""VisAlign's eight categories from folders of photos (Lee et al. 2023, section 3.2)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cosight.benchmarks.building import CLOSED, Drawn, SetSlot, Unfit, built
from cosight.benchmarks.building.datasheet import origin_of
from cosight.benchmarks.building.photos import Photos, left_out_of
from cosight.benchmarks.entry import Built, Progress
from cosight.benchmarks.visalign.categories import CATEGORIES, Counts, check_categories, truth_of
from cosight.benchmarks.visalign.plans import DoubtfulMask, make_composite
from cosight.benchmarks.visalign.shots import (
    BACKGROUNDS,
    SOURCES,
    Shot,
    distractor_shots,
    pools_of,
    shots,
    training_shots,
)
from cosight.errors import InvalidInput
from cosight.files import file_stamp
from cosight.stimuli.attack_recipe import attack_images, predict_classes
from cosight.stimuli.attacks import Classifier
from cosight.stimuli.composition import read_mask
from cosight.stimuli.corruptions import corrupt
from cosight.stimuli.images import MIN_SIDE, Bytes, Preparation, as_bytes, to_rgb
from cosight.stimuli.kinds import stimulus_seed
from cosight.trials.spaces import ABSTAIN, label_spaces

if TYPE_CHECKING:
    from cosight.models import TorchModel

__all__ = ["CLEAR", "VisAlign", "VisAlignDistractors", "build_visalign", "load_attacker"]

CLEAR = 2  # up to this severity what a distractor shows is plain; a person confirms it before a survey
_SPACE = label_spaces["visalign-11"]
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


@dataclass(frozen=True, slots=True)
class VisAlign:
    """The builder. `folders_by_use` has `photos` (the ten classes as folders) and, where their categories are asked
    for, `others`, `near`, `renditions`, and perhaps `backgrounds`.

    `attackers` are names that `load` turns into classifiers, for category 3. They take turns, and what must change is
    a model's own answer to the clean photo: its classes need not be the ten.
    """

    folders_by_use: Mapping[str, Photos]
    counts: Counts
    seed: int = 0
    side: int = 224
    attackers: tuple[str, ...] = ()
    load: Callable[[str], Classifier] | None = None
    closed_seed: int | None = None  # of the closed test set, which is then made in place of the others

    def __post_init__(self) -> None:
        if strange := set(self.folders_by_use) - set(_USED_FOR):
            raise InvalidInput(f"source folders are {', '.join(_USED_FOR)}, got {min(strange)!r}")
        for category in self.counts.asked:
            if SOURCES[category] not in self.folders_by_use:
                way = f"give one, or count {category}=0"
                raise InvalidInput(f"category {category} needs a folder of {SOURCES[category]}, got none; {way}")
        if self.side < MIN_SIDE:
            raise InvalidInput(f"--size must be {MIN_SIDE} or more, got {self.side}")
        if 3 in self.counts.asked and not self.attackers:
            raise InvalidInput("category 3 needs models to attack, got none; name attackers, or count 3=0")

    @property
    def experiment(self) -> str:
        """visalign."""
        return "visalign"

    @property
    def settings(self) -> Mapping[str, Any]:
        """Labels, counts, seed, size and attackers; rejected photos where there are some."""
        settings = {"labels": _SPACE.name, "counts": self.counts.words, "seed": self.seed}
        settings |= left_out_of(self.folders_by_use)
        return {**settings, "side": self.side, "attackers": [self._identity(name) for name in self.attackers]}

    @property
    def packages(self) -> tuple[str, ...]:
        """What attacks are made with, where some are."""
        return ("torch", "timm") if self.attackers else ()

    @property
    def folders(self) -> tuple[Path, ...]:
        """Where the photos are."""
        return tuple(photos.folder for photos in self.folders_by_use.values())

    def _attacker(self, name: str) -> Classifier:
        if self.load is None:
            raise InvalidInput("attackers need a function that loads them, got none; give load")
        return self.load(name)

    def _identity(self, name: str) -> dict[str, str]:
        """What an attacker is, wherever its files are."""
        model = self._attacker(name)
        return {"name": getattr(model, "name", name), "weights": getattr(model, "weights_digest", "")}

    @property
    def drawing_seed(self) -> int:
        """The seed of everything random but the division of sources among splits."""
        return self.seed if self.closed_seed is None else self.closed_seed

    def closed(self, seed: int) -> VisAlign:
        """The builder of the closed test set. The photos are divided by `self.seed`, everything else follows `seed`."""
        return replace(self, closed_seed=seed)

    def slots(self) -> list[SetSlot]:
        """The training photos, then every category of every split; or those of the closed test set."""
        sources = {name: photos for name, photos in self.folders_by_use.items() if name != "backgrounds"}
        pools = pools_of(sources, _SPACE, train=self.counts.train, seed=self.seed)
        grounds = self.folders_by_use["backgrounds"].files if "backgrounds" in self.folders_by_use else ()
        stamps: dict[Path, str] = {}
        slots: list[SetSlot] = []
        if self.closed_seed is None:
            slots = self._placed("train", None, training_shots(pools, seed=self.seed), stamps)
        for split in ("calibration", "test") if self.closed_seed is None else (CLOSED,):
            for category in self.counts.asked:
                rows = shots(category, pools, self.counts, split=split, seed=self.drawing_seed, grounds=grounds)
                slots += self._placed(split, category, rows, stamps)
        return slots

    def _placed(
        self, split: str, category: int | None, rows: Sequence[tuple[Shot, ...]], stamps: dict[Path, str]
    ) -> list[SetSlot]:
        photos = self.folders_by_use[SOURCES[category or 1]]
        group = None if category is None else CATEGORIES[category].group
        return [
            SetSlot(
                split, category, number, row, stamped(photos, row, stamps), group, str(photos.path(row[0].files[0]))
            )
            for number, row in enumerate(rows)
        ]

    def draw(self, slot: SetSlot, candidate: Shot) -> Drawn:
        """The image, with its truth; category 8 has no gold label before people were asked."""
        category = slot.category or 1  # what is trained on is clean
        source = self.folders_by_use[SOURCES[category]].read(candidate.files[0], _preparation(self.side))
        seed = stimulus_seed(source.digest, candidate.kind, slot.place, self.drawing_seed)
        pixels, told = self._drawn(category, slot.number, candidate, source.ready, np.random.default_rng(seed))
        known = candidate.label in _SPACE.classes
        truth = truth_of(category, candidate.label)
        facts = {"truth": truth, "original": candidate.label if known else None, "level": candidate.severity}
        facts |= {"condition": candidate.kind, "kind": candidate.kind, "parent": source.digest, "seed": seed}
        gold = {} if category == 8 else {"gold": _SPACE.one_hot(truth)}
        shown = {"files": list(candidate.files), "shows": candidate.label, **told}
        return Drawn(pixels, {**facts, **gold, "parameters": json.dumps(shown, sort_keys=True, ensure_ascii=False)})

    def _drawn(
        self, category: int, number: int, shot: Shot, ready: Bytes, rng: np.random.Generator
    ) -> tuple[Bytes, dict[str, Any]]:
        if category == 3:
            return self._fooling(ready, number)
        if shot.plan is not None:
            told = {name: value for name, value in shot.plan.items() if value is not None}
            return self._composed(shot.plan), told
        if category == 8:
            return corrupted(ready, shot, rng), {}
        return to_rgb(ready), {}

    def _fooling(self, image: Bytes, number: int) -> tuple[Bytes, dict[str, Any]]:
        """The photo that the first attacker in turn mistakes, at the smallest eps that does it."""
        turn = number % len(self.attackers)
        for name in (*self.attackers[turn:], *self.attackers[:turn]):
            model = self._attacker(name)
            own = np.array(predict_classes(model, [image]))
            for attempt in attack_images([image], own, {name: model}, seed=self.drawing_seed):
                if attempt.pixels is not None:
                    return attempt.pixels, {"attack": attempt.attack, "eps": attempt.eps, **self._identity(name)}
        raise Unfit("no attacker is fooled")

    def _composed(self, plan: Mapping[str, Any]) -> Bytes:
        """Cut out and pasted, or joined."""
        photos = self.folders_by_use["photos"]

        def load(name: str) -> Bytes:
            if name.startswith(BACKGROUNDS):
                return self.folders_by_use["backgrounds"].read(name.removeprefix(BACKGROUNDS), None).ready
            return photos.read(name, None).ready

        try:
            return make_composite(plan, load, mask=lambda name: read_mask(photos.path(name)), size=self.side)
        except DoubtfulMask as error:
            raise Unfit("doubtful mask") from error


@dataclass(frozen=True, slots=True)
class VisAlignDistractors:
    """The survey's distractors: other objects, corrupted; `clear` ones must always be refused."""

    others: Photos
    count: int
    seed: int = 0
    side: int = 224

    @property
    def experiment(self) -> str:
        """visalign."""
        return "visalign"

    @property
    def settings(self) -> Mapping[str, Any]:
        """Labels, count, seed and size; rejected photos where there are some."""
        told = {"labels": _SPACE.name, "distractors": self.count, "seed": self.seed, "side": self.side}
        return {**told, **left_out_of({"others": self.others})}

    @property
    def packages(self) -> tuple[str, ...]:
        """None besides the usual ones."""
        return ()

    @property
    def folders(self) -> tuple[Path, ...]:
        """Where the other objects are."""
        return (self.others.folder,)

    def slots(self) -> list[SetSlot]:
        """One photo, one corruption and one severity each."""
        pools = pools_of({"others": self.others}, _SPACE, train=0, seed=self.seed)
        rows = distractor_shots(pools, self.count, seed=self.seed)
        stamps: dict[Path, str] = {}
        group = CATEGORIES[4].group
        return [
            SetSlot(None, 4, number, row, stamped(self.others, row, stamps), group) for number, row in enumerate(rows)
        ]

    def draw(self, slot: SetSlot, candidate: Shot) -> Drawn:
        """The photo, corrupted. A crop is never clear: it may show the part that a class has too."""
        source = self.others.read(candidate.files[0], _preparation(self.side))
        seed = stimulus_seed(source.digest, candidate.kind, slot.place, self.seed)
        pixels = corrupted(source.ready, candidate, np.random.default_rng(seed))
        clear = (candidate.severity or 1) <= CLEAR and candidate.kind != "cropping"
        told = {"files": list(candidate.files), "shows": candidate.label, "clear": clear}
        facts = {"condition": candidate.kind, "kind": candidate.kind, "level": candidate.severity, "seed": seed}
        gold = {"truth": ABSTAIN, "gold": _SPACE.one_hot(ABSTAIN), "parent": source.digest}
        return Drawn(pixels, {**facts, **gold, "parameters": json.dumps(told, sort_keys=True, ensure_ascii=False)})


def build_visalign(
    builder: VisAlign,
    out: Path,
    *,
    closed: Path | None = None,
    workers: int = 1,
    notices: tuple[str, ...] = (),
    progress: Progress | None = None,
) -> Built:
    """Make the set in `out`, with its distractors and datasheet; an unfinished set there is resumed."""
    given, count = builder.folders_by_use, builder.counts.distractors
    distractors = None
    if "others" in given and count:
        distractors = VisAlignDistractors(given["others"], count, builder.seed, builder.side)
    return built(
        builder,
        out,
        distractors=distractors,
        title="VisAlign's eight categories",
        origins=[
            origin_of(photos.folder, used_for=_USED_FOR[name], rejected=len(photos.left_out))
            for name, photos in given.items()
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
def load_attacker(name: str) -> TorchModel:
    """Load a model whose gradients make category 3, once per process."""
    from cosight.models import load_torch

    return load_torch(name)


def corrupted(ready: Bytes, shot: Shot, rng: np.random.Generator) -> Bytes:
    """The prepared photo, corrupted or cropped in a region drawn at random, RGB."""
    severity = shot.severity or 1
    return as_bytes(corrupt(to_rgb(ready), shot.kind, severity=severity, rng=rng, region="random"))


def stamped(photos: Photos, row: Sequence[Shot], stamps: dict[Path, str]) -> str:
    """A digest of all files that a slot may be made from; `stamps` remembers those that were read."""
    paths = [photos.path(file) for file in dict.fromkeys(file for shot in row for file in shot.files)]
    for path in paths:
        if path not in stamps:
            stamps[path] = file_stamp(path)
    return sha256("+".join(stamps[path] for path in paths).encode()).hexdigest()


def _preparation(side: int) -> Preparation:
    """The short side scaled to 8/7 of the picture, the middle cut out: 256 and 224, as models are used to."""
    return Preparation(short=round(side * 8 / 7), crop=side)

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
from cosight.benchmarks.visalign.composites import Composite, make_composite, plan_composites
from cosight.benchmarks.visalign.cutouts import Cutter, RejectedObject
from cosight.benchmarks.visalign.source_counts import Supply, check_supply
from cosight.errors import InvalidInput
from cosight.files import file_stamp
from cosight.stimuli.attack_recipe import attack_images, predict_classes
from cosight.stimuli.attacks import Classifier
from cosight.stimuli.composition import PLAIN_BACKGROUNDS, read_mask
from cosight.stimuli.composition.masks import mask_path
from cosight.stimuli.composition.renditions import NEEDS_MASK, RENDITIONS, render
from cosight.stimuli.corruptions import corrupt
from cosight.stimuli.images import MIN_SIDE, Bytes, Preparation, as_bytes, to_rgb
from cosight.stimuli.kinds import stimulus_seed
from cosight.trials.manifest import DISTRACTORS
from cosight.trials.spaces import ABSTAIN, LabelSpace, space_facts

if TYPE_CHECKING:
    from cosight.devices import Precision
    from cosight.models import TorchModel

__all__ = ["PhotoCandidate", "VisAlignBuilder", "VisAlignDistractorsBuilder", "build_visalign", "load_attacker"]

_FOLDERS = {1: "photos", 2: "photos", 3: "photos", 4: "others", 5: "photos", 6: "near", 7: "renditions", 8: "photos"}
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
# Plans per composite. Of ImageNet's photos every third has an object that is found and recognised, and every twelfth
# one with a half that tells what it is; of the pairs of those every fourth makes a hybrid that passes the check.
_SPARE_PLANS = {2: 12, 5: 250}  # of the class of a slot, and again of any class
_KINDS = {1: "clean", 3: "fgsm", 4: "other", 6: "near-miss", 7: "style"}
_CORRUPTIONS = (
    *("gaussian_noise", "shot_noise", "impulse_noise", "glass_blur", "defocus_blur", "motion_blur", "zoom_blur"),
    *("fog", "frost", "snow", "contrast", "brightness", "jpeg_compression", "pixelate", "elastic_transform"),
    "cropping",
)
_Pools = Mapping[str, Mapping[str, SourcePool]]  # source folder, split, class: names of photos
_unusable: dict[tuple[Any, ...], str] = {}  # photos without a usable object, and why; per process


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

    `folders_by_use` has `photos` (the classes as folders) and, if their categories are requested, `others` and `near`,
    and optionally `renditions`, without which category 7 is drawn from the photos, and `backgrounds`.

    `attackers` are names that `load` turns into classifiers, for category 3. They take turns, and an attack must change
    a model's own answer to the clean photo: its classes need not be those of the set. `cutter` finds and verifies the
    objects of composites.
    """

    folders_by_use: Mapping[str, Photos]
    counts: Counts
    cutter: Cutter
    seed: int = 0
    side: int = 224
    attackers: tuple[str, ...] = ()
    load: Callable[[str], Classifier] | None = None
    closed_seed: int | None = None  # seed of the closed test set; if set, only that is built

    experiment: ClassVar[str] = "visalign"

    def __post_init__(self) -> None:
        if unknown := set(self.folders_by_use) - set(_USED_FOR):
            raise InvalidInput(f"source folders are {', '.join(_USED_FOR)}, got {min(unknown)!r}")
        if self.side < MIN_SIDE:
            raise InvalidInput(f"--size must be {MIN_SIDE} or more, got {self.side}")

    @property
    def space(self) -> LabelSpace:
        """The label space."""
        return self.cutter.space

    @property
    def settings(self) -> Mapping[str, Any]:
        """Labels, counts, seed, size, and all models by name and weights; rejected photos if there are some."""
        return {
            "labels": space_facts(self.space),
            "counts": self.counts.text,
            "seed": self.seed,
            **rejection_settings(self.folders_by_use),
            "side": self.side,
            "attackers": [_model_identity(self._attacker(name), name) for name in self.attackers],
            **self.cutter.settings,
        }

    @property
    def packages(self) -> tuple[str, ...]:
        """What attacks, masks and verification are computed with, if there are any."""
        return tuple(dict.fromkeys((*(("torch", "timm") if self.attackers else ()), *self.cutter.packages)))

    @property
    def folders(self) -> tuple[Path, ...]:
        """The source folders."""
        return tuple(photos.folder for photos in self.folders_by_use.values())

    @property
    def drawing_seed(self) -> int:
        """The seed of everything random but the division of sources among splits."""
        return self.seed if self.closed_seed is None else self.closed_seed

    def photos_of(self, category: int) -> Photos:
        """Return the photos that a category is made of."""
        folder = _FOLDERS[category]
        return self.folders_by_use["photos" if folder == "renditions" and folder not in self.folders_by_use else folder]

    def supply(self, *, closed: bool = False) -> Supply:
        """Return how many images the sources allow.

        Args:
            closed: Whether a closed test set is built too.
        """
        backgrounds = len(self.folders_by_use["backgrounds"].files) if "backgrounds" in self.folders_by_use else 0
        lacking: dict[int | str, str] = {4: "--others DIR", 6: "--near DIR", "distractors": "--others DIR"}
        lacking = {number: option for number, option in lacking.items() if option[2:-4] not in self.folders_by_use}
        if not self.attackers:
            lacking[3] = "--attackers MODEL"

        def available(split: str, train: int) -> dict[int, int]:
            pools = self._divide_photos(train)
            sizes = {name: sum(map(len, parts[split].values())) for name, parts in pools.items()}
            photos = sizes["photos"]
            images = {1: photos, 3: photos, 8: photos, 4: sizes.get("others", 0), 6: sizes.get("near", 0)}
            images[2] = photos * (backgrounds or len(PLAIN_BACKGROUNDS))
            kinds = sum(bool(files) for files in pools["photos"][split].values())
            images[5] = photos * max(kinds - 1, 0)
            images[7] = sizes.get("renditions", photos * len(RENDITIONS))
            return images

        distractors = self._divide_photos(0).get("others", {}).get(DISTRACTORS, {})
        classes = self.folders_by_use["photos"].by_class(self.space)
        return Supply(
            splits=("calibration", "test", *([CLOSED] if closed else [])),
            class_sizes=[len(files) for files in classes.values()],
            available=available,
            distractors=sum(map(len, distractors.values())),
            lacking=lacking,
        )

    def closed(self, seed: int) -> VisAlignBuilder:
        """Return the builder of the closed test set: photos divided by `self.seed`, everything else by `seed`."""
        return replace(self, closed_seed=seed)

    def slots(self) -> list[SetSlot]:
        """Return the training slots, then every category of every split; or those of the closed test set."""
        pools = self._divide_photos(self.counts.train)
        rows: list[tuple[str, int | None, list[tuple[PhotoCandidate, ...]]]] = []
        if self.closed_seed is None:
            train = interleave(pools["photos"]["train"], salt="", seed=self.seed)
            rows = [("train", None, [(PhotoCandidate(label, (file,), "clean"),) for label, file in train])]
        for split in ("calibration", "test") if self.closed_seed is None else (CLOSED,):
            rows += [
                (split, category, self._plan_category(category, count, pools, split))
                for category, count in self.counts.of_split(split).items()
            ]
        slots, stamps = [], FileStamps()
        for split, category, candidates_of_slots in rows:
            photos = self.photos_of(category or 1)
            group = None if category is None else CATEGORIES[category].group
            for number, candidates in enumerate(candidates_of_slots):
                stamp, source = _stamp_slot(photos, candidates, stamps), str(photos.path(candidates[0].files[0]))
                slots.append(SetSlot(split, category, number, candidates, stamp, group, source))
        return slots

    def _divide_photos(self, train: int) -> _Pools:
        """Divide the photos of each folder by split and class."""
        folders = {name: photos for name, photos in self.folders_by_use.items() if name != "backgrounds"}
        return divide_photos(folders, self.space, train=train, seed=self.seed)

    def _plan_category(self, category: int, count: int, pools: _Pools, split: str) -> list[tuple[PhotoCandidate, ...]]:
        """Return the candidates of each slot of a category."""
        is_drawn = category == 7 and "renditions" not in self.folders_by_use
        pool, seed = pools["photos" if is_drawn else _FOLDERS[category]][split], self.drawing_seed
        if category in (2, 5):
            backgrounds: tuple[str, ...] = PLAIN_BACKGROUNDS
            if "backgrounds" in self.folders_by_use:
                backgrounds = tuple(_BACKGROUNDS + file for file in self.folders_by_use["backgrounds"].files)
            candidates, spare = (
                self._plan_composites(category, count, pool, backgrounds, salt=f"{split}{salt}")
                for salt in ("", "/spare")
            )
            # A slot keeps its class as long as it can, so that a class with many usable photos does not fill the set.
            slots_of_class: dict[str, list[int]] = {}
            for slot in range(count):
                slots_of_class.setdefault(candidates[slot].label, []).append(slot)
            rows_of_class = {
                label: [candidate for candidate in candidates if candidate.label == label] for label in slots_of_class
            }
            dealt = {
                slot: rows_of_class[label][index :: len(slots)]
                for label, slots in slots_of_class.items()
                for index, slot in enumerate(slots)
            }
            return [(*dealt[slot], *spare[slot::count]) for slot in range(count)]
        if is_drawn:
            styles = tuple(RENDITIONS)
            order = interleave(pool, salt=f"{split}/{category}", seed=seed)
            candidates = [
                PhotoCandidate(label, (file,), styles[(index + lap) % len(styles)])
                for lap in range(len(styles))
                for index, (label, file) in enumerate(order)
            ]
            return [tuple(candidates[slot::count]) for slot in range(count)]
        purpose = f"category {category} of {split}"
        rows = deal_candidates(pool, count, salt=f"{split}/{category}", seed=seed, purpose=purpose)
        if category == 8:
            return _plan_corruptions(list(rows), salt=split, seed=seed)
        return [tuple(PhotoCandidate(label, (file,), _KINDS[category]) for label, file in row) for row in rows]

    def _plan_composites(
        self, category: int, count: int, pool: SourcePool, backgrounds: Sequence[str], *, salt: str
    ) -> list[PhotoCandidate]:
        plan = plan_composites(
            category,
            {label: files for label, files in pool.items() if files},
            count=_SPARE_PLANS[category] * count,
            seed=stimulus_seed(salt, str(category), "plan", self.drawing_seed),
            backgrounds=backgrounds,
        )
        return [
            PhotoCandidate(
                row["original"],
                tuple(row[name] for name in ("source", "second") if row[name]),
                row["route"],
                plan=row,
            )
            for row in plan.iter_rows(named=True)
        ]

    def draw(self, slot: SetSlot, candidate: PhotoCandidate) -> SlotImage:
        """Draw a candidate; an image of category 8 has no gold label before people have answered."""
        category = slot.category or 1  # training images are clean
        photos = self.photos_of(category)
        if candidate.plan is not None:
            for key in self._object_keys(candidate.plan).values():
                if reason := _unusable.get(key):
                    raise UnusableCandidate(reason)  # many candidates share a photo: do not decode it again
        source = photos.read(candidate.files[0], _preparation(self.side))
        seed = stimulus_seed(source.digest, candidate.kind, slot.file, self.drawing_seed)
        parameters: dict[str, Any] = {"files": list(candidate.files), "shows": candidate.label}
        if category == 3:
            pixels, attack_parameters = self._attack(source.ready, slot.number)
            parameters |= attack_parameters
        elif candidate.plan is not None:
            composite = self._compose(candidate.plan)
            pixels = composite.pixels
            parameters |= {name: value for name, value in candidate.plan.items() if value is not None}
            parameters |= composite.facts
            if category == 5:
                parameters["shows"] = f"{candidate.label} and {candidate.plan['other']} in one"
        elif category == 8:
            pixels = _corrupt_photo(source.ready, candidate, np.random.default_rng(seed))
        elif candidate.kind in RENDITIONS:
            pixels = self._render(photos, candidate, np.random.default_rng(seed))
            parameters["shows"] = f"{candidate.label}, {candidate.kind}"
        else:
            pixels = to_rgb(source.ready)
        truth = truth_of(category, candidate.label)
        facts: dict[str, Any] = {
            "truth": truth,
            "original": candidate.label if candidate.label in self.space.classes else None,
            "level": candidate.severity,
            "condition": candidate.kind,
            "kind": candidate.kind,
            "parent": source.digest,
            "seed": seed,
            "parameters": json.dumps(parameters, sort_keys=True, ensure_ascii=False),
        }
        if category != 8:
            facts["gold"] = self.space.one_hot(truth)
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

    def _compose(self, plan: Mapping[str, Any]) -> Composite:
        """Return the composite of a plan."""
        photos = self.folders_by_use["photos"]

        def load(name: str) -> Bytes:
            if name.startswith(_BACKGROUNDS):
                return self.folders_by_use["backgrounds"].read(name.removeprefix(_BACKGROUNDS), None).ready
            return photos.read(name, None).ready

        try:
            return make_composite(
                plan, load, self.cutter, mask=lambda name: read_mask(photos.path(name)), size=self.side
            )
        except RejectedObject as error:
            if (key := self._object_keys(plan).get(error.photo)) is not None:
                _unusable[key] = error.reason
            raise UnusableCandidate(error.reason) from error

    def _object_keys(self, plan: Mapping[str, Any]) -> dict[str | None, tuple[Any, ...]]:
        """Return for each photo of a composite what decides whether its object is usable there."""
        keys: dict[str | None, tuple[Any, ...]] = {}
        for column, label in (("source", plan["original"]), ("second", plan["other"])):
            if plan[column]:
                path = self.folders_by_use["photos"].path(plan[column])
                stamps = file_stamp(path), file_stamp(mask_path(path))
                keys[plan[column]] = (self.cutter, label, *stamps, plan["split"] and (plan["split"], column))
        return keys

    def _render(self, photos: Photos, candidate: PhotoCandidate, rng: np.random.Generator) -> Bytes:
        """Return a photo in another style; a style that needs a mask needs a verified one."""
        file = candidate.files[0]
        pixels, mask = to_rgb(photos.read(file, None).ready), None
        if candidate.kind in NEEDS_MASK:
            try:
                mask = self.cutter.cut(pixels, candidate.label, read_mask(photos.path(file))).mask
            except RejectedObject as error:
                raise UnusableCandidate(error.reason) from error
        return _preparation(self.side)(render(pixels, candidate.kind, rng=rng, mask=mask))


@dataclass(frozen=True, slots=True)
class VisAlignDistractorsBuilder:
    """Builder of the survey's distractors: other objects, corrupted; `clear` ones must always be refused."""

    others: Photos
    count: int
    space: LabelSpace
    seed: int = 0
    side: int = 224

    experiment: ClassVar[str] = "visalign"
    packages: ClassVar[tuple[str, ...]] = ()

    @property
    def settings(self) -> Mapping[str, Any]:
        """Labels, count, seed and size; rejected photos if there are some."""
        settings = {"distractors": self.count, "seed": self.seed, "side": self.side}
        return {"labels": space_facts(self.space), **settings, **rejection_settings({"others": self.others})}

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folder of other objects."""
        return (self.others.folder,)

    def slots(self) -> list[SetSlot]:
        """Return one slot per distractor: photos with one corruption and one severity."""
        pool = divide_photos({"others": self.others}, self.space, train=0, seed=self.seed)["others"][DISTRACTORS]
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
            "gold": self.space.one_hot(ABSTAIN),
            "parent": source.digest,
            "parameters": json.dumps(parameters, sort_keys=True, ensure_ascii=False),
        }
        return SlotImage(_corrupt_photo(source.ready, candidate, np.random.default_rng(seed)), facts)


def build_visalign(
    builder: VisAlignBuilder,
    out: Path,
    *,
    closed: Path | None = None,
    rejected: Mapping[str, str] | None = None,
    workers: int = 1,
    notices: tuple[str, ...] = (),
    progress: Progress | None = None,
) -> BuildResult:
    """Build the set in `out`, with its distractors and datasheet; an unfinished set there is resumed.

    `rejected` are images that curators rejected, digest to name: photos are left out of `builder` already, and an image
    of the set that is one of them is replaced by the next candidate of its slot.
    """
    folders, count = builder.folders_by_use, builder.counts.distractors
    check_supply(builder.counts, builder.supply(closed=closed is not None))
    distractors = None
    if "others" in folders and count:
        distractors = VisAlignDistractorsBuilder(folders["others"], count, builder.space, builder.seed, builder.side)
    used_for = _USED_FOR
    if "renditions" not in folders:
        used_for = {**_USED_FOR, "photos": "categories 1, 2, 3, 5, 7 (redrawn) and 8, training"}
    return build_set(
        builder,
        out,
        distractors=distractors,
        title=f"VisAlign's eight categories of {', '.join(builder.space.classes)}",
        sources=[
            describe_source(photos.folder, used_for=used_for[name], rejected=len(photos.rejected))
            for name, photos in folders.items()
        ],
        gold=_GOLD,
        verification=builder.cutter.verification,
        rejected=rejected,
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


def divide_photos(folders: Mapping[str, Photos], space: LabelSpace, *, train: int, seed: int) -> _Pools:
    """Divide the photos of each folder by split and class. A part of the other objects is for distractors."""
    pools: dict[str, Mapping[str, SourcePool]] = {}
    for name, photos in folders.items():
        sources = photos.by_class(space) if name == "photos" else photos.by_folder()
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
    """Return a digest of all files that a slot may be made from; masks count, and so does their absence."""
    files = dict.fromkeys(photos.path(file) for candidate in candidates for file in candidate.files)
    cut = [c for c in candidates if c.plan is not None or c.kind in NEEDS_MASK]
    files |= dict.fromkeys(mask_path(photos.path(file)) for candidate in cut for file in candidate.files)
    return sha256("+".join(stamps[path] for path in files).encode()).hexdigest()

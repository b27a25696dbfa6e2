"""What each image of a VisAlign set is made of: photos, divided among splits and dealt to slots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cosight.benchmarks.building.photos import Photos
from cosight.benchmarks.building.split_sources import TESTED, Pool, dealt, divided, in_turn, shuffled
from cosight.benchmarks.visalign.categories import Counts
from cosight.benchmarks.visalign.plans import plan_composites
from cosight.stimuli.composition import PLAIN_BACKGROUNDS
from cosight.stimuli.kinds import stimulus_seed
from cosight.trials.manifest import DISTRACTORS
from cosight.trials.spaces import LabelSpace

__all__ = ["BACKGROUNDS", "SOURCES", "Pools", "Shot", "distractor_shots", "pools_of", "shots", "training_shots"]

SOURCES = {1: "photos", 2: "photos", 3: "photos", 4: "others", 5: "photos", 6: "near", 7: "renditions", 8: "photos"}
"""The folder that each category is made from."""

BACKGROUNDS = "backgrounds/"  # how the names of background photos begin in plans
_SPARE = 3  # plans a composite may be made by, should masks be doubtful
_KINDS = {1: "clean", 3: "fgsm", 4: "other", 6: "near-miss", 7: "style"}
_CORRUPTIONS = (
    *("gaussian_noise", "shot_noise", "impulse_noise", "glass_blur", "defocus_blur", "motion_blur", "zoom_blur"),
    *("fog", "frost", "snow", "contrast", "brightness", "jpeg_compression", "pixelate", "elastic_transform"),
    "cropping",
)
Pools = Mapping[str, Mapping[str, Pool]]
"""Source folder, split, class: names of photos."""


@dataclass(frozen=True, slots=True)
class Shot:
    """One image to be: a class (or the folder of what is none), photos, and what is done to them."""

    label: str
    files: tuple[str, ...]
    kind: str
    severity: int | None = None
    plan: Mapping[str, Any] | None = None  # of a composite


def pools_of(folders: Mapping[str, Photos], space: LabelSpace, *, train: int, seed: int) -> Pools:
    """The photos of each folder by split and class. Distractors have a share of the other objects."""
    pools: dict[str, Mapping[str, Pool]] = {}
    for name, photos in folders.items():
        every = photos.by_class(space) if name == "photos" else photos.by_folder()
        shares = (*TESTED, DISTRACTORS) if name == "others" else TESTED
        pools[name] = divided(every, train=train if name == "photos" else 0, seed=seed, shares=shares)
    return pools


def training_shots(pools: Pools, *, seed: int) -> list[tuple[Shot, ...]]:
    """All photos to train on."""
    return [(Shot(label, (file,), "clean"),) for label, file in in_turn(pools["photos"]["train"], salt="", seed=seed)]


def shots(
    category: int, pools: Pools, counts: Counts, *, split: str, seed: int, grounds: Sequence[str] = ()
) -> list[tuple[Shot, ...]]:
    """The candidates of each slot of a category; `grounds` are photos to paste on, by default there are plain ones."""
    pool, count = pools[SOURCES[category]][split], counts.categories[category]
    if category in (2, 5):
        return _composites(
            category, pool, count, seed=stimulus_seed(split, str(category), "plan", seed), grounds=grounds
        )
    what = f"category {category} of {split}"
    rows = dealt(pool, count, salt=f"{split}/{category}", seed=seed, what=what)
    if category == 8:
        return _corrupted(rows=list(rows), salt=split, seed=seed)
    return [tuple(Shot(label, (file,), _KINDS[category]) for label, file in row) for row in rows]


def distractor_shots(pools: Pools, count: int, *, seed: int) -> list[tuple[Shot, ...]]:
    """Other objects, corrupted."""
    rows = dealt(pools["others"][DISTRACTORS], count, salt=DISTRACTORS, seed=seed, what="the survey's distractors")
    return _corrupted(rows=list(rows), salt=DISTRACTORS, seed=seed)


def _corrupted(*, rows: Sequence[Sequence[tuple[str, str]]], salt: str, seed: int) -> list[tuple[Shot, ...]]:
    """Every corruption at every severity in turn, in a random order."""
    every = (f"{kind} {severity}" for kind in _CORRUPTIONS for severity in range(1, 11))
    steps = [text.split() for text in shuffled(every, salt=salt, seed=seed)]
    return [
        tuple(Shot(label, (file,), kind, int(severity)) for label, file in row)
        for row, (kind, severity) in zip(rows, steps * (1 + len(rows) // len(steps)), strict=False)
    ]


def _composites(category: int, pool: Pool, count: int, *, seed: int, grounds: Sequence[str]) -> list[tuple[Shot, ...]]:
    filled = {label: files for label, files in pool.items() if files}
    backgrounds = tuple(BACKGROUNDS + name for name in grounds) or PLAIN_BACKGROUNDS
    plan = plan_composites(category, filled, count=_SPARE * count, seed=seed, backgrounds=backgrounds)
    every = [
        Shot(row["original"], tuple(row[name] for name in ("source", "second") if row[name]), row["route"], plan=row)
        for row in plan.iter_rows(named=True)
    ]
    return [tuple(every[place::count]) for place in range(count)]

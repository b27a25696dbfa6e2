"""Composite images of VisAlign's categories 2 and 5: photos cut out and pasted on backgrounds, or two of them joined.

`plan_composites` says which photo meets which background or animal, a row per image; `make_composite` makes the image
of a row; `Composites` is the recipe of a set.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from cosight.benchmarks.building.source_photos import FileStamps
from cosight.benchmarks.visalign.balanced_draws import check_count, cycle_classes, draws
from cosight.benchmarks.visalign.categories import category_columns
from cosight.benchmarks.visalign.class_facts import facts_of_folders, read_class_facts
from cosight.benchmarks.visalign.cutouts import GRABCUT, UNVERIFIED, Cutout, Cutter, RejectedObject
from cosight.errors import InvalidInput
from cosight.stimuli.composition.compositing import PLAIN_BACKGROUNDS, crop_to_cover, paste, plain_background
from cosight.stimuli.composition.hybrids import KEPT_HALVES, SPLITS, MaskedPicture, join_objects
from cosight.stimuli.composition.masks import MASK_SUFFIX, mask_path, read_mask
from cosight.stimuli.generate import Outcome, StimulusJob, Unit
from cosight.stimuli.images import Bytes, Image, as_bytes, check_image, digest, read_image, to_rgb
from cosight.stimuli.kinds import stimulus_seed
from cosight.stimuli.sets import StimulusSet
from cosight.trials.spaces import ABSTAIN

__all__ = [
    "COMPOSITE_SCHEMA",
    "Composite",
    "Composites",
    "composition_job",
    "composition_parameters",
    "make_composite",
    "plan_composites",
]

COMPOSITE_SCHEMA: dict[str, pl.DataType] = {
    "category": pl.Int64(),
    "truth": pl.String(),
    "original": pl.String(),
    "other": pl.String(),
    "source": pl.String(),
    "second": pl.String(),
    "background": pl.String(),
    "split": pl.String(),
    "blend": pl.String(),
    "seed": pl.Int64(),
    "route": pl.String(),
}
PhotosByClass = Mapping[str, Sequence[str]]

_LEAST_SHARE = 0.25  # of a hybrid that each of its parts has
_JOB_COLUMNS = ("truth", "original", "category", "seed")  # columns of a plan that are columns of the manifest
_OBJECT_COLUMNS = ("source", "second")  # columns of a plan that name photos with an object


def plan_composites(
    category: int,
    sources: PhotosByClass,
    *,
    count: int,
    seed: int,
    backgrounds: Sequence[str] = PLAIN_BACKGROUNDS,
    others: PhotosByClass | None = None,
) -> pl.DataFrame:
    """Plan composites of category 2 or 5, one row per image.

    Each round of rows has every class once. In category 2 no photo meets the same background twice before all pairs of
    its class were used. In category 5 no photo meets the same kind of animal twice before it met all of them (the other
    classes and `others`), while the partner's photo, the background and the split take turns. The first k rows of a
    longer table are the table of k rows.

    Args:
        category: 2 (on other backgrounds) or 5 (two animals in one).
        sources: Class name to photo files.
        count: Number of rows.
        seed: Seed of the table. The `seed` of a row follows from it and from what the row is made of.
        backgrounds: Names of `PLAIN_BACKGROUNDS`, or files.
        others: Animals outside the classes, for category 5: name to photo files.

    Returns:
        The rows, in the columns of `COMPOSITE_SCHEMA`.
    """
    check_count(count)
    others = others or {}
    if category not in (2, 5):
        raise InvalidInput(f"composites are for category 2 or 5, got {category}")
    empty = [name for name, photos in [*sources.items(), *others.items()] if not photos]
    if empty or not sources:
        raise InvalidInput(f"every class needs at least one photo, got none for {', '.join(empty) or 'any class'}")
    repeated = sorted(set(sources) & set(others))
    if repeated or ABSTAIN in sources:
        raise InvalidInput(f"other animals are outside the classes, got {', '.join(repeated) or ABSTAIN}; rename them")
    if category == 5 and len(sources) + len(others) < 2:
        raise InvalidInput(f"a hybrid needs two kinds of animals, got {', '.join(sources)}; add a class or others")
    if not backgrounds:
        raise InvalidInput(
            f"there must be a background, got none; choose from {', '.join(PLAIN_BACKGROUNDS)} or give photos"
        )
    rows = _plan_scenes(sources, backgrounds, seed)
    if category == 5:
        rows = _plan_hybrids(sources, others, backgrounds, seed)
    return pl.DataFrame(list(islice(rows, count)), schema=COMPOSITE_SCHEMA)


def _plan_scenes(sources: PhotosByClass, backgrounds: Sequence[str], seed: int) -> Iterator[dict[str, Any]]:
    pairs = {name: list(product(range(len(photos)), range(len(backgrounds)))) for name, photos in sources.items()}
    streams = {name: draws(pairs[name], name=f"scenes-{name}", seed=seed) for name in sources}
    for name in cycle_classes(tuple(sources), name="scenes", seed=seed):
        draw = next(streams[name])
        row = {"source": sources[name][draw.values[0]], "background": backgrounds[draw.values[1]]}
        row_seed = stimulus_seed("|".join(row.values()), "category-2-composite", str(draw.lap), seed)
        yield {"category": 2, "truth": name, "original": name, **row, "seed": row_seed, "route": "composite"}


def _plan_hybrids(
    sources: PhotosByClass, others: PhotosByClass, backgrounds: Sequence[str], seed: int
) -> Iterator[dict[str, Any]]:
    def cycle_values(values: Sequence[str], name: str) -> Iterator[str]:
        """Yield the values without end, each round in another order."""
        indices = [(index,) for index in range(len(values))]
        return (values[draw.values[0]] for draw in draws(indices, name=name, seed=seed))

    animals = {**sources, **others}
    partners = {name: [other for other in animals if other != name] for name in sources}
    pairs = {name: list(product(range(len(sources[name])), range(len(partners[name])))) for name in sources}
    streams = {name: draws(pairs[name], name=f"pairs-{name}", seed=seed) for name in sources}
    photos = {name: cycle_values(files, f"photos-{name}") for name, files in animals.items()}
    background, split = cycle_values(backgrounds, "grounds"), cycle_values(SPLITS, "splits")
    for name in cycle_classes(tuple(sources), name="pairs", seed=seed):
        draw = next(streams[name])
        other = partners[name][draw.values[1]]
        row = {"source": sources[name][draw.values[0]], "second": next(photos[other])}
        row |= {"background": next(background), "split": next(split), "blend": "poisson"}
        row_seed = stimulus_seed("|".join(row.values()), "category-5-composite", str(draw.lap), seed)
        labels = {"category": 5, "truth": ABSTAIN, "original": name, "other": other}
        yield {**labels, **row, "seed": row_seed, "route": "composite"}


@dataclass(frozen=True, slots=True, eq=False)
class Composite:
    """An image of `make_composite`, and its facts: what the reference classifier said, photos with doubtful masks."""

    pixels: Bytes
    facts: Mapping[str, Any]


def make_composite(
    row: Mapping[str, Any],
    load: Callable[[str], Image],
    cutter: Cutter,
    *,
    mask: Callable[[str], Image | None] = lambda file: None,
    size: int = 512,
) -> Composite:
    """Make the image of one row of `plan_composites`.

    Args:
        row: The row.
        load: Returns the pixels of a photo.
        cutter: Finds and verifies the objects of the photos.
        mask: Returns the mask beside a photo, or None: then the cutter finds one.
        size: Side of the image.

    Returns:
        The image, (size, size, 3).

    Raises:
        RejectedObject: An object cannot be cut out, or is not recognised.
    """
    if row["route"] != "composite":
        raise InvalidInput(f"a composite is made from a row of route composite, got {row['route']!r}; see generate")
    rng = np.random.default_rng(row["seed"])
    if row["background"] in PLAIN_BACKGROUNDS:
        background = plain_background(row["background"], height=size, width=size, rng=rng)
    else:
        background = crop_to_cover(load(row["background"]), height=size, width=size)
    labels = (
        {"source": row["original"]} if row["category"] == 2 else {"source": row["original"], "second": row["other"]}
    )
    objects: list[Cutout] = []
    mirror: list[bool] = []  # so that a hybrid shows the half that tells what the object is
    for name, label in labels.items():
        try:
            cutout = cutter.cut(to_rgb(as_bytes(load(row[name]))), label, mask(row[name]))
            if row["category"] == 5 and cutter.check != UNVERIFIED:
                halves = KEPT_HALVES[row["split"]]
                mirror.append(cutter.telling_half(cutout, label, halves) != halves[len(objects)])
                if mirror[-1] and row["split"] == "head-body":  # nothing is turned upside down
                    raise RejectedObject(f"the other half shows what the {label} is", "no half tells what it is")
            objects.append(cutout)
        except RejectedObject as error:
            raise RejectedObject(f"{row[name]}: {error}", error.reason, row[name]) from error
        except InvalidInput as error:
            raise InvalidInput(f"{row[name]}: {error}") from error
    doubtful = [row[name] for name, cutout in zip(labels, objects, strict=True) if cutout.doubtful]
    facts: dict[str, Any] = {"doubtful_masks": doubtful} if doubtful else {}
    if row["category"] == 2:
        facts |= {"check": objects[0].facts} if objects[0].facts else {}
        return Composite(paste(objects[0].photo, objects[0].mask, background, rng=rng), facts)
    joined = join_objects(
        *(one.photo for one in objects),
        rng=rng,
        masks=(objects[0].mask, objects[1].mask),
        split=row["split"],
        blend=row["blend"],
        mirror=(mirror[0], mirror[1]) if mirror and row["split"] == "left-right" else None,
    )
    if min(part.sum() for part in joined.parts) < _LEAST_SHARE * joined.mask.sum():
        raise RejectedObject(f"a part is less than {_LEAST_SHARE:.0%} of the hybrid", "part too small")
    parts = [
        cutter.verify_part(MaskedPicture(joined.pixels, part), rest, label)
        for part, rest, label in zip(joined.parts, joined.cut_off, labels.values(), strict=True)
    ]
    facts |= {"check": {"parts": parts}} if any(parts) else {}
    return Composite(paste(joined.pixels, joined.mask, background, rng=rng), facts)


@dataclass(frozen=True, slots=True)
class Composites:
    """Recipe of composites: photos pasted on other backgrounds (category 2), or two photos joined (category 5).

    `sources` have the classes as truth; `others` are animals outside the classes, for category 5; without `backgrounds`
    the plain ones are used. Masks are looked for beside the photos.
    """

    category: int
    sources: StimulusSet
    count: int
    others: StimulusSet | None = None
    backgrounds: StimulusSet | None = None
    size: int = 512
    seed: int = 0
    labels: str | None = None  # label space or file of class facts (default: as the class folders say)
    masks: str = GRABCUT
    check: str = UNVERIFIED
    doubtful: bool = False

    def __post_init__(self) -> None:
        if self.others is not None and self.category == 2:
            raise InvalidInput("--others are for category 5, got category 2")
        if self.others is not None and self.check != UNVERIFIED:
            raise InvalidInput("--check can name the classes only, got --others outside them too; leave one out")

    @property
    def cutter(self) -> Cutter:
        """What finds and verifies the objects."""
        truths = self.sources.frame["truth"].drop_nulls().unique().to_list()
        facts = read_class_facts(self.labels) if self.labels else facts_of_folders(truths)
        return Cutter(facts.space, self.masks, self.check, self.doubtful)

    @property
    def packages(self) -> tuple[str, ...]:
        """Packages that join two photos, find masks and verify objects."""
        return ("scipy", *self.cutter.packages)

    @property
    def settings(self) -> Mapping[str, Any]:
        """Verb, category, size, seed, and the models behind masks and verification."""
        settings = {"verb": "compose", "category": self.category, "size": self.size, "seed": self.seed}
        return {**settings, **self.cutter.settings}

    @property
    def folders(self) -> tuple[Path, ...]:
        """The source folders."""
        return tuple(photos.root for photos in (self.sources, self.others, self.backgrounds) if photos is not None)

    def units(self) -> list[Unit]:
        """Return one unit per composite. Plans have names relative to the folders, wherever those are.

        A mask beside a photo is part of what a composite is made from, and so is its absence. Allowing doubtful masks
        changes no composite that was made without them: only failed ones are tried again.
        """
        sources, others = _photos_by_truth(self.sources, ""), _photos_by_truth(self.others, "others/")
        backgrounds = _photos_by_truth(self.backgrounds, "backgrounds/")
        paths = {
            name: path
            for photos in (sources, others, backgrounds)
            for part in photos.values()
            for name, path in part.items()
        }
        plan = plan_composites(
            self.category,
            {truth: tuple(photos) for truth, photos in sources.items() if truth is not None},
            count=self.count,
            seed=self.seed,
            backgrounds=tuple(name for photos in backgrounds.values() for name in photos) or PLAIN_BACKGROUNDS,
            others={truth: tuple(photos) for truth, photos in others.items() if truth is not None},
        )
        stamps, units = FileStamps(), []
        for index, row in enumerate(plan.iter_rows(named=True)):
            used = {row[name]: paths[row[name]] for name in (*_OBJECT_COLUMNS, "background") if row[name] in paths}
            masks = [mask_path(paths[row[name]]) for name in _OBJECT_COLUMNS if row[name] in paths]
            stamp = "+".join(stamps[path] for path in (*used.values(), *masks))
            name = " and ".join(map(str, [*used.values(), *(path for path in masks if path.is_file())]))
            retry = "doubtful masks allowed" if self.doubtful else ""
            units.append(Unit(name, stamp, (composition_job(index, row),), payload=(row, used), retry=retry))
        return units

    def make(self, unit: Unit, jobs: Sequence[StimulusJob]) -> Iterator[Outcome]:
        """Yield the composite, or the reason why there is none."""
        row, paths = unit.payload
        photos = {name: _read_photo(path) for name, path in paths.items()}
        masks = {name: read_mask(path) for name, path in paths.items() if name in map(row.get, _OBJECT_COLUMNS)}
        try:
            made = make_composite(row, photos.__getitem__, self.cutter, mask=masks.get, size=self.size)
        except RejectedObject as error:
            yield Outcome(jobs[0], None, reason=error.reason)
        else:
            parameters = composition_parameters(row, made.facts)
            yield Outcome(jobs[0], made.pixels, {"parent": digest(photos[row["source"]]), "parameters": parameters})


def composition_job(index: int, row: Mapping[str, Any], **columns: Any) -> StimulusJob:
    """Return the job of one row of a plan or prompt table; `columns` are further columns of the manifest."""
    facts = {name: row[name] for name in _JOB_COLUMNS}
    facts |= {
        **category_columns(row["category"]),
        "image": f"{index:05d}",
        "experiment": "composition",
        "condition": row["route"],
        "kind": row["route"],
        **columns,
    }
    return StimulusJob(f"category-{row['category']}/{row['original']}/{index:05d}", facts)


def composition_parameters(row: Mapping[str, Any], more: Mapping[str, Any]) -> str:
    """Return the parameters of an image in the manifest: the rest of its row, and `more`."""
    parameters = {name: value for name, value in row.items() if name not in _JOB_COLUMNS and value is not None}
    return json.dumps({**parameters, **more}, sort_keys=True, ensure_ascii=False)


def _photos_by_truth(stimuli: StimulusSet | None, prefix: str) -> dict[str | None, dict[str, Path]]:
    """Return truth -> prefix and file name -> path; masks are not photos."""
    photos: dict[str | None, dict[str, Path]] = {}
    if stimuli is not None:
        for truth, file in stimuli.frame.select("truth", "file").iter_rows():
            part = photos.setdefault(truth, {})
            if not file.endswith(MASK_SUFFIX):
                part[prefix + file] = stimuli.path(file)
    return photos


def _read_photo(path: Path) -> Bytes:
    """Read a photo; every error names it."""
    try:
        return as_bytes(check_image(read_image(path)))
    except FileNotFoundError as error:
        raise InvalidInput(f"{path} is listed but does not exist; verify the set, or build it again") from error
    except InvalidInput as error:
        raise InvalidInput(str(error) if str(path) in str(error) else f"{path}: {error}") from error

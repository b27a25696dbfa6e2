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
from typing import Any, ClassVar

import numpy as np
import polars as pl

from cosight.benchmarks.building.source_photos import FileStamps
from cosight.benchmarks.visalign.balanced_draws import check_count, cycle_classes, draws
from cosight.benchmarks.visalign.categories import category_columns
from cosight.errors import InvalidInput
from cosight.stimuli.composition.compositing import PLAIN_BACKGROUNDS, crop_to_cover, paste, plain_background
from cosight.stimuli.composition.hybrids import SPLITS, hybrid
from cosight.stimuli.composition.masks import MASK_SUFFIX, check_mask, foreground_mask, mask_path, read_mask
from cosight.stimuli.generate import Outcome, StimulusJob, Unit
from cosight.stimuli.images import Bytes, Image, as_bytes, check_image, digest, read_image
from cosight.stimuli.kinds import stimulus_seed
from cosight.stimuli.sets import StimulusSet
from cosight.trials.spaces import ABSTAIN

__all__ = ["COMPOSITE_SCHEMA", "Composites", "DoubtfulMask", "composition_job", "make_composite", "plan_composites"]

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

_OBJECT_COLUMNS = ("source", "second")  # columns of a plan that name photos with an object


class DoubtfulMask(InvalidInput):
    """The mask that was found for a photo is likely to be wrong."""


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


def make_composite(
    row: Mapping[str, Any],
    load: Callable[[str], Image],
    *,
    mask: Callable[[str], Image | None] = lambda file: None,
    size: int = 512,
    doubtful: bool = False,
) -> Bytes:
    """Make the image of one row of `plan_composites`. A person must look at it before it is shown to others.

    Args:
        row: The row.
        load: Returns the pixels of a photo.
        mask: Returns the mask of a photo, or None: then the object is segmented.
        size: Side of the image.
        doubtful: Whether to use masks that are likely to be wrong.

    Returns:
        The image, (size, size, 3).

    Raises:
        DoubtfulMask: A mask is likely to be wrong, and `doubtful` is not set.
    """
    if row["route"] != "composite":
        raise InvalidInput(f"a composite is made from a row of route composite, got {row['route']!r}; see generate")
    rng = np.random.default_rng(row["seed"])
    if row["background"] in PLAIN_BACKGROUNDS:
        background = plain_background(row["background"], height=size, width=size, rng=rng)
    else:
        background = crop_to_cover(load(row["background"]), height=size, width=size)
    photos = [load(row[name]) for name in (_OBJECT_COLUMNS if row["category"] == 5 else _OBJECT_COLUMNS[:1])]
    masks = []
    for photo, name in zip(photos, _OBJECT_COLUMNS, strict=False):
        file = row[name]
        given_mask = mask(file)
        try:
            if given_mask is not None:
                masks.append(check_mask(given_mask, photo.shape))
                continue
            foreground = foreground_mask(photo)
        except InvalidInput as error:
            raise InvalidInput(f"{file}: {error}") from error
        if foreground.doubtful and not doubtful:
            raise DoubtfulMask(
                f"{file}: the object does not stand out from its background (contrast {foreground.contrast:.2f}); "
                "give a mask, choose another photo, or allow doubtful masks"
            )
        masks.append(foreground.mask)
    if row["category"] == 2:
        return paste(photos[0], masks[0], background, rng=rng)
    return hybrid(
        photos[0],
        photos[1],
        rng=rng,
        masks=(masks[0], masks[1]),
        split=row["split"],
        blend=row["blend"],
        background=background,
    )


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
    doubtful: bool = False
    seed: int = 0

    packages: ClassVar[tuple[str, ...]] = ("scipy",)  # joins two photos

    def __post_init__(self) -> None:
        if self.others is not None and self.category == 2:
            raise InvalidInput("--others are for category 5, got category 2")

    @property
    def settings(self) -> Mapping[str, Any]:
        """Verb, category, size and seed."""
        return {"verb": "compose", "category": self.category, "size": self.size, "seed": self.seed}

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
            pixels = make_composite(row, photos.__getitem__, mask=masks.get, size=self.size, doubtful=self.doubtful)
        except DoubtfulMask:
            yield Outcome(jobs[0], None, reason="doubtful mask")
        else:
            yield Outcome(jobs[0], pixels, {"parent": digest(photos[row["source"]])})


def composition_job(index: int, row: Mapping[str, Any], more: Mapping[str, Any] | None = None) -> StimulusJob:
    """Return the job of one row of a plan or prompt table; `more` is added to the parameters in the manifest."""
    facts = {name: row[name] for name in ("truth", "original", "category", "seed")}
    parameters = {name: value for name, value in row.items() if name not in facts and value is not None}
    facts |= {
        **category_columns(row["category"]),
        "image": f"{index:05d}",
        "experiment": "composition",
        "condition": row["route"],
        "kind": row["route"],
        "parameters": json.dumps({**parameters, **(more or {})}, sort_keys=True, ensure_ascii=False),
    }
    return StimulusJob(f"category-{row['category']}/{row['original']}/{index:05d}", facts)


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

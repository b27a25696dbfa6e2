"""Which photo goes on which ground, which two animals meet: a table first, then an image a row."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from cosight.benchmarks.visalign.balanced_draws import check_count, draws
from cosight.benchmarks.visalign.categories import CATEGORIES
from cosight.errors import InvalidInput
from cosight.files import file_stamp
from cosight.stimuli.composition import read_mask
from cosight.stimuli.composition.compositing import PLAIN_BACKGROUNDS, crop_to_cover, paste, plain_background
from cosight.stimuli.composition.hybrids import SPLITS, hybrid
from cosight.stimuli.composition.masks import check_mask, foreground_mask, mask_path
from cosight.stimuli.generate import Outcome, StimulusJob, Unit
from cosight.stimuli.images import Bytes, Image, as_bytes, check_image, digest, read_image
from cosight.stimuli.kinds import stimulus_rng, stimulus_seed
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
Sources = Mapping[str, Sequence[str]]


class DoubtfulMask(InvalidInput):
    """A mask was found, but it may well be wrong."""


def plan_composites(
    category: int,
    sources: Sources,
    *,
    count: int,
    seed: int,
    backgrounds: Sequence[str] = PLAIN_BACKGROUNDS,
    others: Sources | None = None,
) -> pl.DataFrame:
    """`count` composites of category 2 or 5 from `sources` (class name to photo files), a row an image.

    Each round of rows holds every class once. In category 2 no photo meets the same ground twice before all pairs of
    its class have come; in category 5 no photo meets the same kind of animal twice before it met all (the other classes
    and `others`, animals outside them), while the partner's photo, the ground and the split take turns. Grounds are
    names of `PLAIN_BACKGROUNDS` or files. The first k rows of a longer table are the table of k rows; `seed` of a row
    follows
    from what it is made of and the table's seed.
    """
    check_count(count)
    _check_sources(category, sources, others or {}, backgrounds)
    rows = _scenes(sources, backgrounds, seed) if category == 2 else _pairs(sources, others or {}, backgrounds, seed)
    return pl.DataFrame(list(islice(rows, count)), schema=COMPOSITE_SCHEMA)


def _check_sources(category: int, sources: Sources, others: Sources, backgrounds: Sequence[str]) -> None:
    if category not in (2, 5):
        raise InvalidInput(f"composites are for category 2 or 5, got {category}")
    empty = [name for name, photos in [*sources.items(), *others.items()] if not photos]
    if empty or not sources:
        raise InvalidInput(f"every class needs at least one photo, got none for {', '.join(empty) or 'any class'}")
    twice = sorted(set(sources) & set(others))
    if twice or ABSTAIN in sources:
        raise InvalidInput(f"other animals are outside the classes, got {', '.join(twice) or ABSTAIN}; rename them")
    if category == 5 and len(sources) + len(others) < 2:
        raise InvalidInput(f"a hybrid needs two kinds of animals, got {', '.join(sources)}; add a class or others")
    if not backgrounds:
        raise InvalidInput(
            f"there must be a background, got none; choose from {', '.join(PLAIN_BACKGROUNDS)} or give photos"
        )


def _scenes(sources: Sources, backgrounds: Sequence[str], seed: int) -> Iterator[dict[str, Any]]:
    pairs = {name: list(product(range(len(photos)), range(len(backgrounds)))) for name, photos in sources.items()}
    streams = {name: draws(pairs[name], name=f"scenes-{name}", seed=seed) for name in sources}
    for name in _classes(tuple(sources), "scenes", seed):
        draw = next(streams[name])
        row = {"source": sources[name][draw.values[0]], "background": backgrounds[draw.values[1]]}
        own = stimulus_seed("|".join(row.values()), "category-2-composite", str(draw.lap), seed)
        yield {"category": 2, "truth": name, "original": name, **row, "seed": own, "route": "composite"}


def _pairs(sources: Sources, others: Sources, backgrounds: Sequence[str], seed: int) -> Iterator[dict[str, Any]]:
    every = {**sources, **others}
    partners = {name: [other for other in every if other != name] for name in sources}
    pairs = {name: list(product(range(len(sources[name])), range(len(partners[name])))) for name in sources}
    streams = {name: draws(pairs[name], name=f"pairs-{name}", seed=seed) for name in sources}
    photos = {name: _deck(files, f"photos-{name}", seed) for name, files in every.items()}
    grounds, splits = _deck(backgrounds, "grounds", seed), _deck(SPLITS, "splits", seed)
    for name in _classes(tuple(sources), "pairs", seed):
        draw = next(streams[name])
        other = partners[name][draw.values[1]]
        row = {"source": sources[name][draw.values[0]], "second": next(photos[other])}
        row |= {"background": next(grounds), "split": next(splits), "blend": "poisson"}
        own = stimulus_seed("|".join(row.values()), "category-5-composite", str(draw.lap), seed)
        made = {"category": 5, "truth": ABSTAIN, "original": name, "other": other}
        yield {**made, **row, "seed": own, "route": "composite"}


def _classes(names: tuple[str, ...], kind: str, seed: int) -> Iterator[str]:
    """The classes over and over, each round in a random order of its own."""
    rng = stimulus_rng(kind, "classes", "all", seed)
    while True:
        yield from (names[place] for place in rng.permutation(len(names)))


def _deck(values: Sequence[str], name: str, seed: int) -> Iterator[str]:
    """The values over and over, each round shuffle anew."""
    return (values[draw.values[0]] for draw in draws([(i,) for i in range(len(values))], name=name, seed=seed))


def make_composite(
    row: Mapping[str, Any],
    load: Callable[[str], Image],
    *,
    mask: Callable[[str], Image | None] = lambda file: None,
    size: int = 512,
    doubtful: bool = False,
) -> Bytes:
    """The image of one row of `plan_composites`, (size, size, 3).

    `load(file)` gives a photo's pixels, `mask(file)` its mask or None; without one the mask is found, and refused where
    it is doubtful unless `doubtful` allows it. A person must look at every composite before it is shown to others.
    """
    if row["route"] != "composite":
        raise InvalidInput(f"a composite is made from a row of route composite, got {row['route']!r}; see generate")
    rng = np.random.default_rng(row["seed"])
    ground = _ground(row["background"], load, size, rng)
    first = load(row["source"])
    own = _mask(row["source"], first, mask, doubtful)
    if row["category"] == 2:
        return paste(first, own, ground, rng=rng)
    second = load(row["second"])
    masks = (own, _mask(row["second"], second, mask, doubtful))
    return hybrid(first, second, rng=rng, masks=masks, split=row["split"], blend=row["blend"], background=ground)


def _ground(name: str, load: Callable[[str], Image], size: int, rng: np.random.Generator) -> Bytes:
    if name in PLAIN_BACKGROUNDS:
        return plain_background(name, height=size, width=size, rng=rng)
    return crop_to_cover(load(name), height=size, width=size)


def _mask(file: str, photo: Image, given: Callable[[str], Image | None], doubtful: bool) -> Image:
    """The mask given for a photo, or the one found; what is wrong with it names the file."""
    mask = given(file)
    try:
        if mask is not None:
            return check_mask(mask, photo.shape)
        found = foreground_mask(photo)
    except InvalidInput as error:
        raise InvalidInput(f"{file}: {error}") from error
    if found.doubtful and not doubtful:
        raise DoubtfulMask(
            f"{file}: an object must stand out from its ground, got contrast {found.contrast:.2f}; give a mask, take"
            " another photo, or allow doubtful masks"
        )
    return found.mask


_CUT_OUT = ("source", "second")  # columns of a plan that name photos with an object
_FILES = (*_CUT_OUT, "background")  # columns that may name files


@dataclass(frozen=True, slots=True)
class Composites:
    """Photos cut out and pasted on other grounds (category 2), or two of them joined (category 5).

    `sources` have the classes as truth; `others` are animals outside the classes, for category 5; `grounds` are photos
    of backgrounds, and without any the plain ones are taken. Masks are looked for beside the photos.
    """

    category: int
    sources: StimulusSet
    count: int
    others: StimulusSet | None = None
    grounds: StimulusSet | None = None
    size: int = 512
    doubtful: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if self.others is not None and self.category == 2:
            raise InvalidInput("--others are for category 5, got category 2")

    @property
    def settings(self) -> Mapping[str, Any]:
        """Verb, category, size and seed."""
        return {"verb": "compose", "category": self.category, "size": self.size, "seed": self.seed}

    @property
    def packages(self) -> tuple[str, ...]:
        """What joins two photos."""
        return ("scipy",)

    @property
    def folders(self) -> tuple[Path, ...]:
        """Where the photos are."""
        return tuple(photos.root for photos in (self.sources, self.others, self.grounds) if photos is not None)

    def units(self) -> list[Unit]:
        """One composite each. Plans speak of names inside the folders, so they do not depend on where those are."""
        photos, others = _by_class(self.sources, ""), _by_class(self.others, "others/") if self.others else {}
        grounds = _photos(self.grounds, "backgrounds/") if self.grounds else {}
        plan = plan_composites(
            self.category,
            {truth: tuple(files) for truth, files in photos.items()},
            count=self.count,
            seed=self.seed,
            backgrounds=tuple(grounds) or PLAIN_BACKGROUNDS,
            others={truth: tuple(files) for truth, files in others.items()},
        )
        places = {
            name: path for files in (*photos.values(), *others.values()) for name, path in files.items()
        } | grounds
        stamps = _Stamps()
        rows = enumerate(plan.iter_rows(named=True))
        return [_composite(index, row, places, stamps, doubtful=self.doubtful) for index, row in rows]

    def make(self, unit: Unit, jobs: Sequence[StimulusJob]) -> Iterator[Outcome]:
        """Cut out, paste or join."""
        row, places = unit.payload
        load = {name: _read(path) for name, path in places.items()}
        mask = {name: read_mask(path) for name, path in places.items() if name in map(row.get, _CUT_OUT)}
        try:
            pixels = make_composite(row, load.__getitem__, mask=mask.get, size=self.size, doubtful=self.doubtful)
        except DoubtfulMask:
            yield Outcome(jobs[0], None, reason="doubtful mask")
        else:
            yield Outcome(jobs[0], pixels, {"parent": digest(load[row["source"]])})


def _read(path: Path) -> Bytes:
    """A photo; whatever is wrong with it is told with its name."""
    try:
        return as_bytes(check_image(read_image(path)))
    except FileNotFoundError as error:
        raise InvalidInput(f"{path} is listed but not there; verify the set, or make it again") from error
    except InvalidInput as error:
        raise InvalidInput(str(error) if str(path) in str(error) else f"{path}: {error}") from error


class _Stamps(dict[Path, str]):
    """Digests of files, each read once."""

    def __missing__(self, path: Path) -> str:
        self[path] = file_stamp(path)
        return self[path]


def _composite(index: int, row: dict[str, Any], places: Mapping[str, Path], stamps: _Stamps, *, doubtful: bool) -> Unit:
    """The unit of one row. A mask beside a photo is part of what the composite is made from, and so is its absence.

    Allowing doubtful masks changes no composite that could be made without them: only what was lost is tried again.
    """
    used = {row[name]: places[row[name]] for name in _FILES if row[name] in places}
    masks = [mask_path(places[row[name]]) for name in _CUT_OUT if row[name] in places]
    stamp = "+".join(stamps[path] for path in (*used.values(), *masks))
    name = " and ".join([*map(str, used.values()), *(str(path) for path in masks if path.is_file())])
    retry = "doubtful masks allowed" if doubtful else ""
    return Unit(name, stamp, (composition_job(index, row),), payload=(row, used), retry=retry)


def composition_job(index: int, row: Mapping[str, Any], more: Mapping[str, Any] | None = None) -> StimulusJob:
    """Return the job of one row of a plan or prompt table; `more` is added to the parameters in the manifest."""
    facts = {name: row[name] for name in ("truth", "original", "category", "seed")}
    told = {name: value for name, value in row.items() if name not in facts and value is not None} | dict(more or {})
    return StimulusJob(
        f"category-{row['category']}/{row['original']}/{index:05d}",
        facts
        | {
            "image": f"{index:05d}",
            "experiment": "composition",
            "condition": row["route"],
            "group": CATEGORIES[row["category"]].group,
            "kind": row["route"],
            "parameters": json.dumps(told, sort_keys=True, ensure_ascii=False),
        },
    )


def _by_class(stimuli: StimulusSet, prefix: str) -> dict[str, dict[str, Path]]:
    """Photos by their truth."""
    names = {
        truth: part for (truth,), part in stimuli.frame.group_by("truth", maintain_order=True) if truth is not None
    }
    return {str(truth): _photos(replace(stimuli, frame=part), prefix) for truth, part in names.items()}


def _photos(stimuli: StimulusSet, prefix: str) -> dict[str, Path]:
    """Photos under their names in the set; masks that lie beside them are no photos."""
    files = [file for file in stimuli.frame["file"] if not file.endswith(".mask.png")]
    return {prefix + file: stimuli.path(file) for file in files}

"""Which photo goes on which ground, which two animals meet: a table first, then an image a row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, product
from typing import Any

import numpy as np
import polars as pl

from cosight.benchmarks.visalign.balanced_draws import check_count, draws
from cosight.errors import InvalidInput
from cosight.stimuli.composition.compositing import PLAIN_BACKGROUNDS, crop_to_cover, paste, plain_background
from cosight.stimuli.composition.hybrids import SPLITS, hybrid
from cosight.stimuli.composition.masks import check_mask, foreground_mask
from cosight.stimuli.images import Bytes, Image
from cosight.stimuli.kinds import stimulus_rng, stimulus_seed
from cosight.trials.spaces import ABSTAIN

__all__ = ["COMPOSITE_SCHEMA", "DoubtfulMask", "make_composite", "plan_composites"]

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
    follows from what it is made of and the table's seed.
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
    """The values over and over, each round shuffled anew."""
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

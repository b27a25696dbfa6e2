"""The recipe of a benchmark that alters photos, the same for `evaluate --on NAME` and for its builder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import polars as pl

from cosight.benchmarks.entry import Benchmark
from cosight.errors import InvalidInput
from cosight.stimuli.alterations import CLEAN, FAMILIES, Alterations, all_alterations, with_resource
from cosight.stimuli.images import preparation
from cosight.stimuli.resources import tiles_for_set
from cosight.stimuli.sets import StimulusSet
from cosight.stimuli.tiles import TileIndex
from cosight.trials.spaces import LabelSpace

__all__ = ["FEW_TILES", "check_alteration_options", "check_every_class", "photo_alterations"]

_NAMED = 3  # classes that a message lists
FEW_TILES = 45_000  # Li et al. 2025 draw from ImageNet's 50,000 validation images, of which some are duplicates


def check_alteration_options(benchmark: Benchmark | None, **options: Any) -> None:
    """Raise where an option was given that the benchmark's alterations do not have, or not with this value.

    Args:
        benchmark: The benchmark; None or one without alterations for a stimulus set.
        options: Options of `distort` or `corrupt`; None for one that was not given.

    Raises:
        InvalidInput: If an option does not apply, or has a value that the verb does not take.
    """
    for name, value in options.items():
        if value is None:
            continue
        family = None if benchmark is None or benchmark.altered is None else FAMILIES[benchmark.altered.verb]
        if family is None or name not in family.options:
            shown = "a stimulus set" if benchmark is None else benchmark.name
            raise InvalidInput(f"--{name} is an option of benchmarks that distort photos, got {shown}; leave it out")
        if family.options[name] is not None:
            family.check({name: value})


def check_every_class(photos: StimulusSet, space: LabelSpace, *, least: int = 1) -> None:
    """Raise where a class of the label space has fewer photos than `least`."""
    counts = dict(photos.frame.group_by("truth").len().iter_rows())
    scarce = [f"{name} {counts.get(name, 0)}" for name in space.classes if counts.get(name, 0) < least]
    if scarce:
        more = f" and {len(scarce) - _NAMED} more" if len(scarce) > _NAMED else ""
        raise InvalidInput(
            f"each of the {len(space.classes)} superclasses needs {least} photo{'s' if least > 1 else ''}, "
            f"{photos.root} has fewer of some: {', '.join(scarce[:_NAMED])}{more}; add photos"
            + (", or give a smaller --per-class" if least > 1 else "")
        )


def photo_alterations(
    benchmark: Benchmark,
    sources: StimulusSet,
    out: Path,
    *,
    tile_images: Path,
    tiles: Path | None = None,
    geometry: str | None = None,
    labels: str | None = None,
    seed: int = 0,
    workers: int = 1,
    on_skip: Callable[[str], None] | None = None,
) -> tuple[Alterations, list[str]]:
    """Return the recipe that makes a benchmark's stimuli from photos, and what the user should know about it.

    Args:
        benchmark: A benchmark that alters photos.
        sources: The photos, with truths in the benchmark's label space.
        out: Output folder of the run or set. A tile index is stored there.
        tile_images: Folder of images to make tiles from, unless `tiles` is given.
        tiles: Another folder of images, or a tile index.
        geometry: Geometry of `glitched` (default: per-image).
        labels: Name of the label space of the truths.
        seed: Seed of everything random.
        workers: Number of processes that read tiles.
        on_skip: Called with the reason for each image that cannot be a tile. Without it such an image is an error.

    Returns:
        The recipe, and notices.

    Raises:
        InvalidInput: If a photo has no class, or an option is wrong.
    """
    altered = benchmark.altered
    if altered is None:
        raise InvalidInput(f"{benchmark.name} does not alter photos; run `{benchmark.usage}`")
    check_alteration_options(benchmark, geometry=geometry)
    options = {**altered.options, **({} if geometry is None else {"geometry": geometry})}
    found: list[TileIndex] = []

    def make_tiles() -> TileIndex:
        found.append(tiles_for_set(out, tile_images, given=tiles, workers=workers, on_skip=on_skip))
        return found[0]

    chosen = with_resource(all_alterations(altered.verb, **options), "tiles", make_tiles)
    notices = []
    if found and len(found[0]) < FEW_TILES:
        notices.append(
            f"mosaic and stickers draw from {len(found[0]):,} tiles, the published set drew from 50,000: mosaics match "
            "colours less well; --tiles DIR gives more images"
        )
    if altered.laion_c_layout:
        sources = _with_distinct_names(sources)
    recipe = Alterations(
        sources,
        ((CLEAN,) if altered.clean else ()) + tuple(chosen),
        benchmark.experiment,
        seed,
        preparation(altered.prepare),
        labels,
        altered.laion_c_layout,
    )
    return recipe, notices


def _with_distinct_names(sources: StimulusSet) -> StimulusSet:
    """Return photos whose names tell them apart: with their folder's name in front where two have the same name."""
    frame = sources.frame
    if frame["truth"].has_nulls():
        first = frame.filter(pl.col("truth").is_null())["file"][0]
        raise InvalidInput(
            f"photos must be in class folders, {sources.root} has {first}; move it into the folder of its class"
        )
    stems = frame["image"].map_elements(lambda name: PurePosixPath(name).stem, return_dtype=pl.String)
    if stems.n_unique() == frame.height:
        return sources
    folders = [PurePosixPath(file).parent.name for file in frame["file"]]
    names = [f"{folder}_{image}" for folder, image in zip(folders, frame["image"], strict=True)]
    return StimulusSet(sources.root, frame.with_columns(image=pl.Series(names, dtype=pl.String)), sources.facts)

"""What builders share: a set is a list of slots, and each slot is filled by its first suitable candidate.

An attack may not fool a model, a mask may be doubtful, a crop may show nothing: then the slot's next candidate is
tried. Slots do not depend on each other, so they can be spread over processes, and an interrupted build resumes to the
same bytes.

* `sources`, `photos`, `curation`   source images: disjoint pools per split, folders of photos, rejected images
* `datasheet`                       a set in words
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from cosight.benchmarks.building.datasheet import Category, Origin, datasheet, write_datasheet
from cosight.benchmarks.building.split_sources import shuffled
from cosight.benchmarks.entry import Built, Progress
from cosight.errors import InvalidInput
from cosight.stimuli.generate import Outcome, StimulusJob, Unit, check_output, generate_set
from cosight.stimuli.images import Bytes
from cosight.stimuli.journal import SetRecord, stored_settings
from cosight.stimuli.sets import StimulusSet, check_splits, read_set
from cosight.trials.manifest import DISTRACTORS, MANIFEST, read_manifest, write_manifest

__all__ = ["CLOSED", "Builder", "Building", "ClosableBuilder", "Drawn", "SetSlot", "Unfit", "built"]

CLOSED = "closed"  # the split whose labels are kept in a manifest of their own
_PUBLIC = ("stimulus", "file", "image", "experiment", "split")  # what the set itself says of a closed image
_CLOSED_SEED = "closed_seed"


class Unfit(InvalidInput):
    """A candidate that makes no stimulus; the next one is tried."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """An image and its manifest columns, without those that its slot decides."""

    pixels: Bytes
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SetSlot:
    """One image of a set, and what it can be made from, best first. `stamp` is a digest of what it is made from.

    `category` is None for training images, `split` for distractors.
    """

    split: str | None
    category: int | None
    number: int
    candidates: tuple[Any, ...]
    stamp: str
    group: str | None = None
    source: str = ""  # name of its source in messages (default: `place`)

    @property
    def place(self) -> str:
        """The image's file below `images/`, without its ending.

        >>> SetSlot("test", 8, 7, (), "").place
        'test/category-8/0007'
        """
        folder = "" if self.category is None else f"/category-{self.category}"
        return f"{self.split or DISTRACTORS}{folder}/{self.number:04d}"


class Builder(Protocol):
    """What differs between benchmarks. It is sent to the worker processes, so it can be pickled."""

    @property
    def experiment(self) -> str:
        """The name of the benchmark."""
        ...

    @property
    def settings(self) -> Mapping[str, Any]:
        """What decides the set, as JSON: seed, counts, label space and the like."""
        ...

    @property
    def packages(self) -> tuple[str, ...]:
        """Packages besides the usual ones whose versions may change a pixel."""
        ...

    @property
    def folders(self) -> tuple[Path, ...]:
        """Folders that are read."""
        ...

    def slots(self) -> Sequence[SetSlot]:
        """The whole set; raises `InvalidInput` where there are not enough sources for it."""
        ...

    def draw(self, slot: SetSlot, candidate: Any) -> Drawn:
        """The image of a slot; raises `Unfit` where this candidate makes none."""
        ...


class ClosableBuilder(Builder, Protocol):
    """A builder that can make a closed test set too."""

    def closed(self, seed: int) -> Builder:
        """The builder of the closed test set: sources that no other split uses, everything random drawn from `seed`."""
        ...


@dataclass(frozen=True, slots=True)
class Building:
    """Recipe: a builder's slots, one after the other.

    With `closed_seed`, files are numbered in an order drawn from it, so that their names tell nothing.
    """

    builder: Builder
    closed_seed: int | None = None

    @property
    def settings(self) -> Mapping[str, Any]:
        """Verb, benchmark, and the builder's settings."""
        closed = {} if self.closed_seed is None else {_CLOSED_SEED: self.closed_seed}
        return {"verb": "build", "benchmark": self.builder.experiment, **self.builder.settings, **closed}

    @property
    def packages(self) -> tuple[str, ...]:
        """The builder's."""
        return self.builder.packages

    @property
    def folders(self) -> tuple[Path, ...]:
        """The builder's."""
        return self.builder.folders

    def units(self) -> list[Unit]:
        """One slot each. Closed slots are made in the order of their names: times of files tell nothing either."""
        slots = {slot.place: slot for slot in self.builder.slots()}
        if self.closed_seed is None:
            return [self._unit(slot, place) for place, slot in slots.items()]
        order = shuffled(slots, salt=CLOSED, seed=self.closed_seed)
        return [self._unit(slots[place], f"{CLOSED}/{number:04d}") for number, place in enumerate(order)]

    def _unit(self, slot: SetSlot, file: str) -> Unit:
        facts = {"category": slot.category, "group": slot.group, "split": slot.split}
        facts |= {"experiment": self.builder.experiment, "image": file.replace("/", "-")}
        return Unit(slot.source or slot.place, slot.stamp, (StimulusJob(file, facts),), payload=slot)

    def make(self, unit: Unit, jobs: Sequence[StimulusJob]) -> Iterator[Outcome]:
        """Try the candidates in turn."""
        reason = "no candidates"
        for candidate in unit.payload.candidates:
            try:
                drawn = self.builder.draw(unit.payload, candidate)
            except Unfit as error:
                reason = str(error)
            else:
                yield Outcome(jobs[0], drawn.pixels, drawn.facts)
                return
        yield Outcome(jobs[0], None, reason=reason)


def built(
    builder: ClosableBuilder,
    out: Path,
    *,
    title: str,
    origins: Iterable[Origin],
    gold: Sequence[str],
    categories: Mapping[int, Category],
    check: Callable[[StimulusSet], None],
    distractors: Builder | None = None,
    closed: Path | None = None,
    workers: int = 1,
    notices: tuple[str, ...] = (),
    progress: Progress | None = None,
) -> Built:
    """Make what is missing of a set, check it and write its datasheet.

    Files are PNG, so that a stimulus is exactly what was drawn. The distractors are a set of their own inside `out`.

    Args:
        builder: Makes the set.
        out: The set's folder; an unfinished set there is resumed.
        title: Title of the datasheet.
        origins: Where the images come from, for the datasheet.
        gold: Where the gold labels come from, for the datasheet.
        categories: The categories of the set, for the datasheet.
        check: Raises where the finished set lacks something, besides `check_splits`.
        distractors: Makes the distractors.
        closed: Folder of the closed test set's labels, outside `out`; None makes no closed test set.
        workers: Number of worker processes. Does not change the output.
        notices: What the user should know.
        progress: Called with (done, total, what).
    """
    if closed is not None:
        _check_closed(closed, out)
    made = generate_set(Building(builder), out, workers=workers, progress=progress)
    whole = replace(made.stimuli, frame=made.stimuli.frame.filter(pl.col("split").ne_missing(CLOSED)))
    secret = None
    if closed is not None:
        # Neither the order nor the images may follow from the seed that the open set states.
        seed = (stored_settings(closed) or {}).get(_CLOSED_SEED) or 1 + secrets.randbits(62)
        secret = generate_set(
            Building(builder.closed(seed), seed), closed, images=out, workers=workers, progress=progress
        )  # fmt: skip
        made = replace(made, stimuli=_listed(whole, secret.stimuli))
        whole = replace(whole, frame=pl.concat([whole.frame, secret.stimuli.frame.select(whole.frame.columns)]))
    check_splits(whole)
    check(whole)
    apart = None
    if distractors is not None:
        apart = generate_set(Building(distractors), out / DISTRACTORS, workers=workers, progress=progress)
    sheet = datasheet(
        made.stimuli, title=title, origins=origins, gold=gold, categories=categories,
        distractors=apart.stimuli if apart else None,
    )  # fmt: skip
    write_datasheet(sheet, out)
    return Built(made, apart, secret, notices)


def _check_closed(closed: Path, out: Path) -> None:
    """Refuse a folder that would be given away with the set, or that holds another set, before anything is made."""
    here, there = closed.resolve(), out.resolve()
    if here.is_relative_to(there) or there.is_relative_to(here):
        raise InvalidInput(f"--closed must lie outside {out}, which is given away, got {closed}; name another folder")
    check_output(closed)
    settings = stored_settings(closed)
    if settings is not None and _CLOSED_SEED not in settings:
        raise InvalidInput(f"--closed is a new folder or one that --closed made, got the set {closed}; name another")
    labelled = {row["stimulus"] for row in SetRecord.read(closed, out).rows.values()}
    listed = read_manifest(out)[0].filter(split=CLOSED)["stimulus"].to_list() if (out / MANIFEST).exists() else []
    if not labelled.issuperset(listed) or (settings is None and (out / "images" / CLOSED).exists()):
        raise InvalidInput(
            f"{out} has a closed test set whose labels are not in {closed}; name the folder that has them, or a new OUT"
        )


def _listed(stimuli: StimulusSet, secret: StimulusSet) -> StimulusSet:
    """List the closed images in the set's manifest, without anything that tells their labels."""
    schema = stimuli.frame.schema
    public = [pl.col(name) if name in _PUBLIC else pl.lit(None, kind).alias(name) for name, kind in schema.items()]
    listed = pl.concat([stimuli.frame, secret.frame.select(public)])
    if not read_manifest(stimuli.root)[0].equals(listed):
        write_manifest(stimuli.root, listed, stimuli.facts)
    return read_set(stimuli.root)

"""The frame of every builder: a set is a list of slots, and each slot is filled by the first candidate that will do.

An attack may not fool, a mask may be doubtful, a crop may hold nothing: then the slot's next candidate is tried. Slots
do not depend on each other, so they can be shared among processes, killed and gone on with to the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from cosight.errors import InvalidInput
from cosight.stimuli.build.categories import CATEGORIES, DISTRACTORS
from cosight.stimuli.build.checks import check_splits
from cosight.stimuli.build.datasheet import Origin, datasheet, write_datasheet
from cosight.stimuli.images import Bytes
from cosight.stimuli.making import Made, make_set
from cosight.stimuli.recipes import Job, Outcome, Unit

__all__ = ["Builder", "Building", "Built", "Drawn", "Slot", "Unfit", "built"]


class Unfit(InvalidInput):
    """A candidate that makes no stimulus; the next one is tried."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """An image, and what the manifest says of it besides its place."""

    pixels: Bytes
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Slot:
    """One place in a set, and what it can be filled with, best first. `stamp` is a digest of what it is made from.

    `category` is None for what is trained on, `split` for the survey's distractors.
    """

    split: str | None
    category: int | None
    number: int
    candidates: tuple[Any, ...]
    stamp: str
    told: str = ""  # how messages call its source; by default by its place

    @property
    def place(self) -> str:
        """The image's file below `images/`, without its ending.

        >>> Slot("test", 8, 7, (), "").place
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
        """What decides the set, as JSON: seed, counts, label space and whatever else."""
        ...

    @property
    def packages(self) -> tuple[str, ...]:
        """Packages besides the usual ones whose versions may change a pixel."""
        ...

    @property
    def folders(self) -> tuple[Path, ...]:
        """Folders that are read."""
        ...

    def slots(self) -> Sequence[Slot]:
        """The whole set; refused where there are not enough sources for it."""
        ...

    def draw(self, slot: Slot, candidate: Any) -> Drawn:
        """The image of a slot; raises `Unfit` where this candidate makes none."""
        ...


@dataclass(frozen=True, slots=True)
class Building:
    """Recipe: a builder's slots, one after the other."""

    builder: Builder

    @property
    def settings(self) -> Mapping[str, Any]:
        """Verb, benchmark, and what the builder says."""
        return {"verb": "build", "benchmark": self.builder.experiment, **self.builder.settings}

    @property
    def packages(self) -> tuple[str, ...]:
        """The builder's."""
        return self.builder.packages

    @property
    def folders(self) -> tuple[Path, ...]:
        """The builder's."""
        return self.builder.folders

    def units(self) -> list[Unit]:
        """One slot each."""
        return [self._unit(slot) for slot in self.builder.slots()]

    def _unit(self, slot: Slot) -> Unit:
        group = None if slot.category is None else CATEGORIES[slot.category].group
        place: dict[str, Any] = {"category": slot.category, "group": group, "split": slot.split}
        facts = {**place, "experiment": self.builder.experiment, "image": slot.place.replace("/", "-")}
        return Unit(slot.told or slot.place, slot.stamp, (Job(slot.place, facts),), payload=slot)

    def make(self, unit: Unit, jobs: Sequence[Job]) -> Iterator[Outcome]:
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


@dataclass(frozen=True, slots=True)
class Built:
    """A built set, its distractors, and how they came about."""

    made: Made
    distractors: Made | None


def built(
    builder: Builder,
    out: Path,
    *,
    title: str,
    origins: Iterable[Origin],
    gold: Sequence[str],
    distractors: Builder | None = None,
    workers: int = 1,
    progress: Callable[[int, int, str], None] | None = None,
) -> Built:
    """Make what is not there yet, check the splits and write the datasheet (`title`, `origins` and `gold` go into it).

    Files are PNG, so that a stimulus is exactly what was drawn. The distractors are a set of their own inside `out`.
    """
    made = make_set(Building(builder), out, workers=workers, progress=progress)
    check_splits(made.stimuli)
    apart = None
    if distractors is not None:
        apart = make_set(Building(distractors), out / DISTRACTORS, workers=workers, progress=progress)
    beside = apart.stimuli if apart else None
    write_datasheet(datasheet(made.stimuli, title=title, origins=origins, gold=gold, distractors=beside), out)
    return Built(made, apart)

"""What a recipe is: units of work, each with jobs that share a source, and what becomes of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from cosight.errors import CosightError
from cosight.stimuli.images import Bytes

__all__ = ["Outcome", "SetRecipe", "StimulusJob", "Unit"]


@dataclass(frozen=True, slots=True)
class StimulusJob:
    """One stimulus to make; `file` is its name below `images/` without the ending, `facts` go into the manifest."""

    file: str
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Unit:
    """Jobs done together because they share a source. `stamp` is a digest of the file(s) they are made from.

    A job that came to nothing is tried again when the stamp has changed, or `retry`: what it also depended on.
    """

    name: str
    stamp: str
    jobs: tuple[StimulusJob, ...]
    payload: Any = None
    retry: str = ""

    @property
    def stamp_when_lost(self) -> str:
        """What is noted with a job that came to nothing."""
        return f"{self.stamp} {self.retry}".strip()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a recipe made of a job: pixels and further facts, or the reason why nothing is kept, or what went wrong."""

    job: StimulusJob
    pixels: Bytes | None
    facts: Mapping[str, Any] = field(default_factory=dict)
    reason: str | None = None
    error: CosightError | None = None


class SetRecipe(Protocol):
    """What there is to make. It is sent to the worker processes, so it can be pickled."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """What all stimuli of a set have in common, as JSON; another value in the same folder is refused."""
        ...

    @property
    def packages(self) -> tuple[str, ...]:
        """Packages besides the usual ones whose versions may change a pixel."""
        ...

    @property
    def folders(self) -> tuple[Path, ...]:
        """Folders that are read; the output must lie outside them."""
        ...

    def units(self) -> Sequence[Unit]:
        """All the work, in any order."""
        ...

    def make(self, unit: Unit, jobs: Sequence[StimulusJob]) -> Iterable[Outcome]:
        """Do these jobs of the unit, one outcome each; an error raised here is that of all jobs not yet told."""
        ...

"""What simulated participants see: pictures are known by their pixels, among those of the study's own sets.

The server tells them no more than it tells anybody. They fetch a picture, decode it, and look its digest up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cosight.errors import InvalidInput
from cosight.humans.study.design import Study
from cosight.humans.study.image_sources import Row, sources_of
from cosight.humans.study.pool import Item, PictureSlot, pool_of
from cosight.humans.study.trial_types import TrialContext
from cosight.stimuli.images import decode, digest
from cosight.stimuli.sets import read_set

__all__ = ["Seen", "Sight", "sight_of"]

Seen = Mapping[str, bytes | Sequence[bytes]]
"""Pictures as they came, by their place: image; query, left, right; columns, rows."""


@dataclass(frozen=True, slots=True)
class Sight:
    """A study as who sits it knows it: every picture it can show, by digest, and what its manifest says of it."""

    study: Study
    files: Mapping[str, Path]
    rows: Mapping[str, Row]
    facts: Mapping[str, Any]  # what the set's manifest says of the whole set

    def asked(self, seen: Seen) -> TrialContext:
        """The question that these pictures put. It is made of what is seen alone: checks look like all others."""
        slots = tuple(slot for place, found in seen.items() for slot in self._slots(place, found))
        order = tuple(range(len(slots)))
        return TrialContext(Item(slots[0].stimulus, "test", slots), order, self.study.space, self.study.reasons)

    def _slots(self, place: str, found: bytes | Sequence[bytes]) -> list[PictureSlot]:
        if isinstance(found, bytes):
            return [self._slot(place, found)]
        return [self._slot(f"{place.removesuffix('s')}-{n}", data) for n, data in enumerate(found, start=1)]

    def _slot(self, name: str, data: bytes) -> PictureSlot:
        stimulus = digest(decode(data, name="a picture of the study"))
        if stimulus not in self.files:
            raise InvalidInput(
                f"the server must show pictures of {self.study.name}, got one that its sets do not have; "
                "simulate the study that is served there"
            )
        return PictureSlot(name, stimulus, self.files[stimulus])


def sight_of(study: Study) -> Sight:
    """What there is to see in `study`."""
    files = {slot.stimulus: slot.file for item in pool_of(study).items.values() for slot in item.slots}
    rows = {row["path"]: row for row in sources_of(study).rows}
    known = {stimulus: rows[file] for stimulus, file in files.items()}
    return Sight(study, files, known, read_set(study.set).facts)

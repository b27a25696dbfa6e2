"""What a run is to do: stimuli in shards, and the key by which each observer's answers to a shard are known again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from cosight.errors import InvalidInput
from cosight.runs.folder import SCHEMA
from cosight.runs.stimulus_sources import StimulusSource
from cosight.trials.mapping import How
from cosight.trials.spaces import LabelSpace

__all__ = ["LEARNT_FROM", "RunPlan", "Shard", "digest_of"]

_SHARDS = 64  # so many a set, which is what an interrupted run may have to do again
_SMALLEST, _LARGEST = 64, 2048  # images a shard: few files for small sets, little memory for large ones
LEARNT_FROM = ("train", "calibration")  # splits of a set that are no trials
_LEARNT = "stimulus"  # the column that may be known only when the image has been read


@dataclass(frozen=True, slots=True)
class Shard:
    """Rows of the stimuli that are answered and written together."""

    index: int
    rows: range


@dataclass(frozen=True)
class RunPlan:
    """Stimuli, the label space that answers are about, and what else decides the bytes of a run."""

    shown: StimulusSource
    space: LabelSpace
    how: How = "mean"
    batch: int = 32
    features: bool = False  # whether features are wanted
    abstain: tuple[str, ...] = ()  # abstention functions to be derived from what is kept

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise InvalidInput(f"--batch must be 1 or more, got {self.batch}")
        if not self.shown.frame.height:
            raise InvalidInput("a run needs at least one stimulus, got none")

    @cached_property
    def shards(self) -> tuple[Shard, ...]:
        """All rows in order, whole batches to a shard."""
        count = self.shown.frame.height
        wanted = min(max(-(-count // _SHARDS), _SMALLEST), _LARGEST)
        size = -(-wanted // self.batch) * self.batch
        starts = range(0, count, size)
        return tuple(Shard(index, range(start, min(start + size, count))) for index, start in enumerate(starts))

    @cached_property
    def _rows(self) -> tuple[str, ...]:
        """A digest a shard of its rows of the manifest, but for what is learnt on reading the image."""
        frame = self.shown.frame.drop(_LEARNT)
        texts = (frame[shard.rows.start : shard.rows.stop].write_ndjson() for shard in self.shards)
        return tuple(hashlib.sha256(text.encode()).hexdigest() for text in texts)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """What two plans must share to go on in one folder, as JSON."""
        return {
            "stimuli": {"count": self.shown.frame.height, "digest": digest_of(self._rows), **self.shown.settings},
            "labels": {"name": self.space.name, "answers": list(self.space.answers)},
            "how": self.how,
            "batch": self.batch,
            "features": self.keeps,
        }

    @property
    def keeps(self) -> bool:
        """Whether logits are kept, and features where there are any."""
        return self.features or bool(self.abstain)

    @cached_property
    def tested(self) -> tuple[bool, ...]:
        """Which rows are trials: all but those that abstention functions learn from and are calibrated on."""
        return tuple(split not in LEARNT_FROM for split in self.shown.frame["split"])

    @cached_property
    def _contents(self) -> tuple[str, ...]:
        """A digest a shard of its rows and of what they are made of."""
        stamps = self.shown.stamps
        parts = zip(self.shards, self._rows, strict=True)
        return tuple(digest_of([rows, stamps[shard.rows.start : shard.rows.stop]]) for shard, rows in parts)

    def key(self, identity: Mapping[str, Any], shard: Shard) -> str:
        """sha256 of everything that changes the answers of an observer with this identity, or their rows."""
        return digest_of([SCHEMA, identity, self.space.answers, self.keeps, self._contents[shard.index]])


def digest_of(value: Any) -> str:
    """sha256 of a value's JSON, the same whatever the order of keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()

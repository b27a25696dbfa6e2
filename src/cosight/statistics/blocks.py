"""Resampled numbers, before they become rows: the one way every interval is made.

A `Block` holds numbers with their resamples, all drawn with the same stimuli and people, so that means over pairs,
over groups and differences between observers are taken resample by resample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosight.arrays import FloatArray
from cosight.measures import measures
from cosight.measures.sums import divide
from cosight.measures.uncertainty import percentile_interval
from cosight.statistics.rows import Row, group_text, number

__all__ = [
    "Block",
    "Key",
    "combine",
    "empty",
    "finite_samples",
    "joined",
    "mean_over_groups",
    "nested_means",
    "rows_of",
]


class Key(NamedTuple):
    """What a number is about."""

    observer: str
    against: str | None
    measure: str


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Numbers of one group of trials and their resamples."""

    group: tuple[tuple[str, str], ...]
    keys: tuple[Key, ...]
    values: FloatArray  # (keys,)
    samples: FloatArray  # (keys, resamples)
    n: FloatArray  # (keys,)
    notes: tuple[str, ...]
    reach: FloatArray | None = None  # (keys,): what the high end of an interval reaches at least, nan for nothing
    clusters: FloatArray | None = None  # (keys,): the units that were resampled, where they are not the `n` trials

    def at(self, index: Sequence[int] | NDArray[np.int64]) -> Block:
        """The numbers at these places."""
        picked = np.asarray(index, dtype=np.int64)
        return replace(
            self,
            keys=tuple(self.keys[i] for i in picked),
            values=self.values[picked],
            samples=self.samples[picked],
            n=self.n[picked],
            notes=tuple(self.notes[i] for i in picked),
            reach=None if self.reach is None else self.reach[picked],
            clusters=None if self.clusters is None else self.clusters[picked],
        )


def empty(group: tuple[tuple[str, str], ...], resamples: int) -> Block:
    """A block without numbers."""
    return Block(group, (), np.empty(0), np.empty((0, resamples)), np.empty(0), ())


def joined(blocks: Sequence[Block]) -> Block:
    """Blocks of one group, one after the other."""
    return Block(
        blocks[0].group,
        tuple(key for block in blocks for key in block.keys),
        np.concatenate([block.values for block in blocks]),
        np.concatenate([block.samples for block in blocks]),
        np.concatenate([block.n for block in blocks]),
        tuple(note for block in blocks for note in block.notes),
        np.concatenate([np.full(len(b.keys), np.nan) if b.reach is None else b.reach for b in blocks]),
        np.concatenate([b.n if b.clusters is None else b.clusters for b in blocks]),
    )


def finite_samples(values: FloatArray, samples: FloatArray) -> FloatArray:
    """The resamples (keys, resamples), nan for a number that is infinite: it has no interval."""
    return np.where(np.isinf(values)[:, None] | np.isinf(samples), np.nan, samples)


def mean_over_groups(blocks: Sequence[Block], group: tuple[tuple[str, str], ...], over: str) -> Block:
    """The mean of each number over groups, with equal weights; undefined cells are left out and counted.

    A number that a group does not have at all (an observer who took no part) is not a cell.
    """
    keys = tuple(dict.fromkeys(key for block in blocks for key in block.keys))
    place = {key: index for index, key in enumerate(keys)}
    resamples = blocks[0].samples.shape[1]
    values, samples = _Mean((len(keys),)), _Mean((len(keys), resamples))
    n, cells = np.zeros(len(keys)), np.zeros(len(keys), dtype=np.int64)
    clusters = np.full(len(keys), np.inf)  # people are the same in every group: the fewest bound the mean
    for block in blocks:
        index = np.array([place[key] for key in block.keys], dtype=np.int64)
        defined = ~np.isnan(block.values)
        values.add(index, block.values)
        samples.add(index[defined], block.samples[defined])
        n[index[defined]] += block.n[defined]
        cells[index] += 1
        if block.clusters is not None:
            own = defined & (block.clusters != block.n)
            clusters[index[own]] = np.minimum(clusters[index[own]], block.clusters[own])
    notes = tuple(
        f"mean over {over}: {used} groups" + (f", {total - used} undefined left out" if total > used else "")
        for used, total in zip(values.count.astype(int), cells, strict=True)
    )
    return Block(
        group, keys, values.mean(), samples.mean(), n, notes, clusters=np.where(np.isinf(clusters), n, clusters)
    )


def nested_means(blocks: Sequence[Block], by: tuple[str, ...]) -> list[Block]:
    """Means over the last key within the others, then over the one before it, and so on."""
    out: list[Block] = []
    current = list(blocks)
    for depth in range(len(by) - 1, -1, -1):
        parents: dict[tuple[tuple[str, str], ...], list[Block]] = {}
        for block in current:
            parents.setdefault(block.group[:depth], []).append(block)
        rest = tuple((key, "*") for key in by[depth:])
        current = [mean_over_groups(parts, (*group, *rest), by[depth]) for group, parts in parents.items()]
        out += current
    return out


class _Mean:
    """A running mean that leaves nan out."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.total = np.zeros(shape)
        self.count = np.zeros(shape)

    def add(self, index: NDArray[np.int64], values: FloatArray) -> None:
        defined = ~np.isnan(values)
        self.total[index] += np.where(defined, values, 0.0)  # a block has each key once
        self.count[index] += defined

    def mean(self) -> FloatArray:
        return divide(self.total, self.count)


def combine(block: Block, key: Key, value: float, samples: FloatArray, n: float, note: str) -> Block:
    """A block of one number, of the same group and resamples as `block`."""
    return Block(block.group, (key,), np.array([value]), samples[None], np.array([n]), (note,))


def rows_of(block: Block, *, level: float, seed: int) -> list[Row]:
    """Score rows: values with their intervals."""
    usable = np.where(np.isinf(block.values), np.nan, block.values)
    units = block.n if block.clusters is None else block.clusters
    interval = percentile_interval(block.samples, usable, n=units, reach=block.reach, level=level)
    resamples = block.samples.shape[1]
    rows = []
    for i, key in enumerate(block.keys):
        odd = _oddity(key.measure, interval.low[i], interval.high[i])
        notes = [
            block.notes[i],
            odd,
            _shortcoming(block.values[i], int(interval.undefined[i]), resamples, block.notes[i]),
        ]
        rows.append(
            Row(
                *key,
                group_text(block.group),
                number(block.values[i]),
                number(interval.low[i]),
                number(interval.high[i]),
                int(block.n[i]),
                "; ".join(note for note in notes if note),
                seed,
            )
        )
    return rows


def _shortcoming(value: float, lost: int, resamples: int, note: str) -> str:
    """Why a row lacks its value, or how many resamples its interval lacks."""
    if np.isinf(value):
        return "infinite"
    if np.isnan(value):
        return "" if "undefined" in note else "undefined"
    return f"{lost} of {resamples} resamples undefined" if lost else ""


def _oddity(measure: str, low: float, high: float) -> str:
    """What is odd about an interval: no width, or an end that the measure cannot have."""
    if low == high:
        return "every resample gave the same: the interval has no width"
    outside = measure in measures and (low < measures[measure].low or high > measures[measure].high)
    return "an end lies beyond the measure's range" if outside else ""

"""Numbers with their resamples, before they become rows: the one way every interval is made.

A `Block` holds numbers of one group of trials, all resampled with the same stimuli and people, so that means over
pairs, over groups and differences between observers are taken resample by resample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosight.arrays import BoolArray, FloatArray
from cosight.measures import measures
from cosight.measures.arithmetic import divide
from cosight.measures.uncertainty import percentile_interval
from cosight.statistics.rows import GroupKey, Row, number

__all__ = [
    "Block",
    "Flags",
    "Key",
    "block_of",
    "empty",
    "finite_samples",
    "joined",
    "mean_over_groups",
    "merged_flags",
    "nested_means",
    "range_of",
    "rows_of",
    "single",
]

Flags = tuple[str, ...]


class Key(NamedTuple):
    """What a number is about."""

    observer: str
    against: str | None
    measure: str
    statistic: str = "value"
    part: GroupKey = ()  # what distinguishes several numbers of one measure and group: a cost, an action


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Numbers of one group of trials and their resamples; `block_of` fills in the usual values."""

    group: GroupKey
    keys: tuple[Key, ...]
    values: FloatArray  # (keys,)
    samples: FloatArray  # (keys, resamples)
    n: FloatArray  # (keys,): trials
    notes: tuple[str, ...]
    flags: tuple[Flags, ...]
    reach: FloatArray  # (keys,): the least high end of an interval, nan for none
    clusters: FloatArray  # (keys,): the units that were resampled
    over_people: BoolArray  # (keys,): whether these units are people; otherwise stimuli

    def at(self, index: Sequence[int] | NDArray[np.int64]) -> Block:
        """The numbers at these places."""
        picked = np.asarray(index, dtype=np.int64)
        return Block(
            self.group,
            tuple(self.keys[i] for i in picked),
            self.values[picked],
            self.samples[picked],
            self.n[picked],
            tuple(self.notes[i] for i in picked),
            tuple(self.flags[i] for i in picked),
            self.reach[picked],
            self.clusters[picked],
            self.over_people[picked],
        )

    def renamed(self, keys: Sequence[Key]) -> Block:
        """The same numbers under other keys."""
        return replace(self, keys=tuple(keys))


def block_of(
    group: GroupKey,
    keys: Sequence[Key],
    values: FloatArray,
    samples: FloatArray,
    n: FloatArray,
    *,
    notes: Sequence[str] | None = None,
    flags: Sequence[Flags] | None = None,
    reach: FloatArray | None = None,
    clusters: FloatArray | None = None,
    over_people: bool | BoolArray = False,
) -> Block:
    """Make a block; without `clusters` the `n` trials are what was resampled."""
    size = len(keys)
    return Block(
        group,
        tuple(keys),
        np.asarray(values, dtype=np.float64),
        samples,
        np.asarray(n, dtype=np.float64),
        ("",) * size if notes is None else tuple(notes),
        ((),) * size if flags is None else tuple(flags),
        np.full(size, np.nan) if reach is None else reach,
        np.asarray(n if clusters is None else clusters, dtype=np.float64),
        np.array(np.broadcast_to(over_people, size)),
    )


def single(
    group: GroupKey,
    key: Key,
    value: float,
    samples: FloatArray,
    n: float,
    note: str = "",
    flags: Flags = (),
    clusters: float | None = None,
) -> Block:
    """A block of one number."""
    units = np.array([n if clusters is None else clusters])
    return block_of(
        group, [key], np.array([value]), samples[None], np.array([n]), notes=[note], flags=[flags], clusters=units
    )


def empty(group: GroupKey, resamples: int) -> Block:
    """A block without numbers."""
    return block_of(group, (), np.empty(0), np.empty((0, resamples)), np.empty(0))


def joined(blocks: Sequence[Block]) -> Block:
    """Blocks of one group, one after the other."""
    return Block(
        blocks[0].group,
        tuple(key for block in blocks for key in block.keys),
        np.concatenate([block.values for block in blocks]),
        np.concatenate([block.samples for block in blocks]),
        np.concatenate([block.n for block in blocks]),
        tuple(note for block in blocks for note in block.notes),
        tuple(flags for block in blocks for flags in block.flags),
        np.concatenate([block.reach for block in blocks]),
        np.concatenate([block.clusters for block in blocks]),
        np.concatenate([block.over_people for block in blocks]),
    )


def finite_samples(values: FloatArray, samples: FloatArray) -> FloatArray:
    """The resamples (keys, resamples), nan for a number that is infinite: it has no interval."""
    return np.where(np.isinf(values)[:, None] | np.isinf(samples), np.nan, samples)


def mean_over_groups(blocks: Sequence[Block], group: GroupKey, over: str) -> Block:
    """The mean of each number over groups, with equal weights; undefined cells are left out and counted.

    A number that a group does not have at all (an observer who took no part) is not a cell.
    """
    keys = tuple(dict.fromkeys(key for block in blocks for key in block.keys))
    place = {key: index for index, key in enumerate(keys)}
    resamples = blocks[0].samples.shape[1]
    values, samples = _Mean((len(keys),)), _Mean((len(keys), resamples))
    n, cells = np.zeros(len(keys)), np.zeros(len(keys), dtype=np.int64)
    stimuli, fewest = np.zeros(len(keys)), np.full(len(keys), np.inf)
    over_people = np.zeros(len(keys), dtype=np.bool_)
    flags: list[Flags] = [()] * len(keys)
    for block in blocks:
        index = np.array([place[key] for key in block.keys], dtype=np.int64)
        defined = ~np.isnan(block.values)
        values.add(index, block.values)
        samples.add(index[defined], block.samples[defined])
        n[index[defined]] += block.n[defined]
        cells[index] += 1
        over_people[index] |= block.over_people
        stimuli[index[defined]] += block.clusters[defined]
        fewest[index[defined]] = np.minimum(fewest[index[defined]], block.clusters[defined])
        for i, own in zip(index[defined], np.flatnonzero(defined), strict=True):
            flags[i] = merged_flags(flags[i], block.flags[own])
    lost = cells - values.count.astype(np.int64)
    return block_of(
        group,
        keys,
        values.mean(),
        samples.mean(),
        n,
        notes=[
            f"mean over {over}: {total - left} groups" + (f", {left} undefined left out" if left else "")
            for total, left in zip(cells, lost, strict=True)
        ],
        flags=[merged_flags(own, ("undefined_parts",) if left else ()) for own, left in zip(flags, lost, strict=True)],
        # groups have different stimuli; people are the same in every group, so that the fewest bound the mean
        clusters=np.where(over_people, np.where(np.isinf(fewest), 0, fewest), stimuli),
        over_people=over_people,
    )


_INHERITED = ("few_errors", "few_trials", "few_people", "undefined_parts", "simulated")


def merged_flags(*flags: Flags) -> Flags:
    """The flags of a number that is made of others: what holds of one of them, where that bears on the result.

    >>> merged_flags(("few_people", "no_width"), ("few_people", "few_errors"))
    ('few_errors', 'few_people')
    """
    raised = {flag for own in flags for flag in own}
    return tuple(flag for flag in _INHERITED if flag in raised)


def nested_means(blocks: Sequence[Block], by: tuple[str, ...]) -> list[Block]:
    """Means over the last key within the others, then over the one before it, and so on."""
    out: list[Block] = []
    current = list(blocks)
    for depth in range(len(by) - 1, -1, -1):
        parents: dict[GroupKey, list[Block]] = {}
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


def range_of(measure: str, statistic: str) -> tuple[float, float]:
    """The numbers that a statistic of a measure can take.

    >>> range_of("hellinger", "value"), range_of("hellinger", "difference")
    ((0, 1), (-1, 1))
    """
    if statistic == "sd":
        return 0.0, np.inf
    if statistic in ("normalised", "rank") or measure not in measures:
        return -np.inf, np.inf
    low, high = measures[measure].low, measures[measure].high
    return (low - high, high - low) if statistic == "difference" else (low, high)


def rows_of(block: Block, *, confidence: float, seed: int) -> list[Row]:
    """Score rows: values with their intervals, whose ends stay inside the range of the measure."""
    usable = np.where(np.isinf(block.values), np.nan, block.values)
    interval = percentile_interval(block.samples, usable, n=block.clusters, reach=block.reach, confidence=confidence)
    resamples = block.samples.shape[1]
    rows = []
    for i, key in enumerate(block.keys):
        lowest, highest = range_of(key.measure, key.statistic)
        low, high = np.clip([interval.low[i], interval.high[i]], lowest, highest)
        flags, notes = list(block.flags[i]), [block.notes[i]]
        if np.isinf(block.values[i]):
            flags.append("infinite")
            notes.append("infinite")
        elif np.isnan(block.values[i]):
            if "undefined" not in flags:
                flags.append("undefined")
                notes.append("undefined")
        elif interval.undefined[i]:
            flags.append("undefined_resamples")
            notes.append(f"{interval.undefined[i]} of {resamples} resamples undefined")
        elif np.isnan(low) and block.clusters[i] < 2:
            flags.append("few_stimuli")
            notes.append("no interval: it takes two stimuli or people to resample")
        if low == high:
            flags.append("no_width")
            notes.append("the interval has no width")
        rows.append(
            Row(
                observer=key.observer,
                against=key.against,
                measure=key.measure,
                statistic=key.statistic,
                group=(*block.group, *key.part),
                value=number(block.values[i]),
                low=number(low),
                high=number(high),
                n=int(block.n[i]),
                clusters=int(block.clusters[i]),
                seed=seed,
                flags=tuple(flags),
                note="; ".join(note for note in notes if note),
            )
        )
    return rows

"""Values with their resamples, before they become score rows, and the one place where intervals are computed.

All numbers of a `Block` belong to one group of stimuli and were resampled together, so that means over pairs and
groups, ratios, ranks and differences are computed resample by resample.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosight.arrays import BoolArray, FloatArray
from cosight.measures import measures, pair_forms
from cosight.measures.arithmetic import BLOCK, blocks, divide
from cosight.measures.distance import distance_items
from cosight.measures.uncertainty import Interval, difference_of_shares, percentile_interval, share_intervals
from cosight.statistics.rows import MODELS, PEOPLE, SIMULATED, GroupKey, Row, number

__all__ = [
    "Block",
    "Flags",
    "Key",
    "empty_block",
    "finite_resampled",
    "join_blocks",
    "make_block",
    "mean_over_groups",
    "merge_flags",
    "nested_means",
    "range_of",
    "rows_of",
    "single_block",
]

Flags = tuple[str, ...]


class Key(NamedTuple):
    """What a number is about."""

    observer: str
    against: str | None  # None: a measure of one observer
    measure: str
    statistic: str = "value"
    variant: GroupKey = ()  # distinguishes several numbers of one measure and group: the cost of an error, an action


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Numbers of one group of stimuli with their resamples; `make_block` fills in the usual values."""

    group: GroupKey
    keys: tuple[Key, ...]
    values: FloatArray  # (keys,)
    resampled: FloatArray  # (keys, resamples): the value on each resample
    n: FloatArray  # (keys,): trials
    notes: tuple[str, ...]
    flags: tuple[Flags, ...]
    min_high: FloatArray  # (keys,): the high end of the interval is at least this; nan for no such limit
    clusters: FloatArray  # (keys,): independent units that were resampled
    over_people: BoolArray  # (keys,): whether these units are people; otherwise stimuli
    units: FloatArray  # (keys,): clusters that the spread of the resamples is worth, where fewer; else infinite
    shared_clusters: bool = False  # whether other groups have the same clusters of stimuli

    def at(self, index: Sequence[int] | NDArray[np.int64]) -> Block:
        """Return the numbers with these indices, in this order."""
        i = np.asarray(index, dtype=np.int64)
        return Block(
            self.group,
            tuple(self.keys[k] for k in i),
            self.values[i],
            self.resampled[i],
            self.n[i],
            tuple(self.notes[k] for k in i),
            tuple(self.flags[k] for k in i),
            self.min_high[i],
            self.clusters[i],
            self.over_people[i],
            self.units[i],
            self.shared_clusters,
        )

    def with_keys(self, keys: Sequence[Key]) -> Block:
        """Return the same numbers with other keys."""
        return replace(self, keys=tuple(keys))


def make_block(
    group: GroupKey,
    keys: Sequence[Key],
    values: FloatArray,
    resampled: FloatArray,
    n: FloatArray,
    *,
    notes: Sequence[str] | None = None,
    flags: Sequence[Flags] | None = None,
    min_high: FloatArray | None = None,
    clusters: FloatArray | None = None,
    over_people: bool | BoolArray = False,
    units: FloatArray | None = None,
) -> Block:
    """Return a block; without `clusters`, each of the `n` trials is a cluster."""
    size = len(keys)
    return Block(
        group,
        tuple(keys),
        np.asarray(values, dtype=np.float64),
        resampled,
        np.asarray(n, dtype=np.float64),
        ("",) * size if notes is None else tuple(notes),
        ((),) * size if flags is None else tuple(flags),
        np.full(size, np.nan) if min_high is None else min_high,
        np.asarray(n if clusters is None else clusters, dtype=np.float64),
        np.array(np.broadcast_to(over_people, size)),
        np.full(size, np.inf) if units is None else np.asarray(units, dtype=np.float64),
    )


def single_block(
    group: GroupKey,
    key: Key,
    value: float,
    resampled: FloatArray,
    n: float,
    note: str = "",
    flags: Flags = (),
    clusters: float | None = None,
    units: float = np.inf,
) -> Block:
    """Return a block of one number; `resampled` has the shape (resamples,)."""
    return make_block(
        group,
        [key],
        np.array([value]),
        resampled[None],
        np.array([n]),
        notes=[note],
        flags=[flags],
        clusters=np.array([n if clusters is None else clusters]),
        units=np.array([units]),
    )


def empty_block(group: GroupKey, resamples: int) -> Block:
    """Return a block without numbers."""
    return make_block(group, (), np.empty(0), np.empty((0, resamples)), np.empty(0))


def join_blocks(blocks: Sequence[Block]) -> Block:
    """Concatenate blocks of one group."""
    return Block(
        blocks[0].group,
        tuple(key for block in blocks for key in block.keys),
        np.concatenate([block.values for block in blocks]),
        _concatenate([block.resampled for block in blocks]),
        np.concatenate([block.n for block in blocks]),
        tuple(note for block in blocks for note in block.notes),
        tuple(flags for block in blocks for flags in block.flags),
        np.concatenate([block.min_high for block in blocks]),
        np.concatenate([block.clusters for block in blocks]),
        np.concatenate([block.over_people for block in blocks]),
        np.concatenate([block.units for block in blocks]),
        any(block.shared_clusters for block in blocks),
    )


def _concatenate(resampled: Sequence[FloatArray]) -> FloatArray:
    """Concatenate along the keys; where some are in float32, because there are so many, all are."""
    precision: Any = min((part.dtype for part in resampled), key=lambda dtype: dtype.itemsize)
    return np.concatenate(resampled, dtype=precision, casting="same_kind")


def finite_resampled(values: FloatArray, resampled: FloatArray) -> FloatArray:
    """Return the resamples (keys, resamples) with nan where value or resample is infinite: it has no interval."""
    infinite = np.isinf(resampled)
    infinite[np.isinf(values)] = True
    return np.where(infinite, np.nan, resampled) if infinite.any() else resampled


def mean_over_groups(blocks: Sequence[Block], group: GroupKey, over: str) -> Block:
    """Average each number over groups with equal weights, resample by resample.

    Groups in which a number is undefined are left out of its mean and counted in its note, which is the reason where
    all of them have the same. A group that does not have the number at all, because the observer took no part, is not
    counted.

    Args:
        blocks: One block per group.
        group: The group of the result.
        over: The name of what is averaged over, for the note.
    """
    keys = tuple(dict.fromkeys(key for block in blocks for key in block.keys))
    index_of = {key: index for index, key in enumerate(keys)}
    values, resampled = _NanMean((len(keys),)), _NanMean((len(keys), blocks[0].resampled.shape[1]))
    n, groups = np.zeros(len(keys)), np.zeros(len(keys), dtype=np.int64)
    total_clusters, fewest_clusters = np.zeros(len(keys)), np.full(len(keys), np.inf)
    over_people, units = np.zeros(len(keys), dtype=np.bool_), np.full(len(keys), np.inf)
    flags: list[Flags] = [()] * len(keys)
    reasons: dict[int, set[str]] = {}  # why a number is undefined in some groups
    for block in blocks:
        index = np.array([index_of[key] for key in block.keys], dtype=np.int64)
        defined = ~np.isnan(block.values)
        used = index[defined]
        values.add(index, block.values)
        resampled.add(used, block.resampled[defined])
        n[used] += block.n[defined]
        groups[index] += 1
        over_people[index] |= block.over_people
        units[used] = np.minimum(units[used], block.units[defined])
        total_clusters[used] += block.clusters[defined]
        fewest_clusters[used] = np.minimum(fewest_clusters[used], block.clusters[defined])
        for i, k in zip(used, np.flatnonzero(defined), strict=True):
            flags[i] = merge_flags(flags[i], block.flags[k])
        for i, k in zip(index[~defined].tolist(), np.flatnonzero(~defined), strict=True):
            reasons.setdefault(i, set()).add(block.notes[k])
    undefined = groups - values.count.astype(np.int64)
    # clusters of different groups add up, unless they are the same in every group, as people are: then the fewest count
    shared = any(block.shared_clusters for block in blocks)
    clusters = np.where(over_people | shared, np.where(np.isinf(fewest_clusters), 0, fewest_clusters), total_clusters)
    notes, merged = [], []
    for i, left_out in enumerate(undefined):
        text = f"mean over {over}: {groups[i] - left_out} groups"
        if left_out == groups[i] and len(reasons[i]) == 1 and (reason := min(reasons[i])):
            notes.append(f"{reason}, in every {over}" if groups[i] > 1 else reason)
        else:
            notes.append(f"{text}, {left_out} undefined left out" if left_out else text)
        merged.append(merge_flags(flags[i], ("undefined_parts",) if left_out else ()))
    mean = make_block(
        group,
        keys,
        values.mean(),
        resampled.mean(),
        n,
        notes=notes,
        flags=merged,
        clusters=clusters,
        over_people=over_people,
        units=units,
    )
    return replace(mean, shared_clusters=shared)


class _NanMean:
    """A running mean that leaves nan out."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.total = np.zeros(shape)
        self.count = np.zeros(shape)

    def add(self, index: NDArray[np.int64], values: FloatArray) -> None:
        """Add values at these indices, which are distinct: a block has each key once."""
        defined = ~np.isnan(values)
        self.total[index] += np.where(defined, values, 0.0)
        self.count[index] += defined

    def mean(self) -> FloatArray:
        return divide(self.total, self.count)


def nested_means(blocks: Sequence[Block], by: tuple[str, ...]) -> list[Block]:
    """Average over the last key of a grouping within the others, then over the one before it, and so on.

    Args:
        blocks: One block per group.
        by: The keys of the grouping, as in `--by`.

    Returns:
        The means, those over the last key first and the mean over all groups last; none where `by` is empty.
    """
    means: list[Block] = []
    current = list(blocks)
    for depth in range(len(by) - 1, -1, -1):
        by_parent: dict[GroupKey, list[Block]] = {}
        for block in current:
            by_parent.setdefault(block.group[:depth], []).append(block)
        averaged = tuple((key, "*") for key in by[depth:])
        current = [mean_over_groups(inner, (*parent, *averaged), by[depth]) for parent, inner in by_parent.items()]
        means += current
    return means


_INHERITED = ("few_errors", "few_trials", "few_people", "few_clusters", "undefined_parts", "simulated")


def merge_flags(*flags: Flags) -> Flags:
    """Return the flags of a number that is computed from others: those of its parts that bear on the result.

    >>> merge_flags(("few_people", "no_width"), ("few_people", "few_errors"))
    ('few_errors', 'few_people')
    """
    raised = {flag for part in flags for flag in part}
    return tuple(flag for flag in _INHERITED if flag in raised)


def range_of(measure: str, statistic: str) -> tuple[float, float]:
    """Return the lowest and highest number that a statistic of a measure can take.

    >>> range_of("hellinger", "value"), range_of("hellinger", "difference")
    ((0, 1), (-1, 1))
    """
    if statistic == "sd":
        return 0.0, np.inf
    if statistic in ("normalised", "rank", "z") or measure not in measures:
        return -np.inf, np.inf
    low, high = measures[measure].low, measures[measure].high
    return (low - high, high - low) if statistic == "difference" else (low, high)


def _intervals(block: Block, wanted: BoolArray, confidence: float) -> Interval:
    """Compute the intervals of some numbers: of shares by `share_intervals`, of all others by `percentile_interval`.

    The difference of two shares of the block has the interval that follows from theirs.
    """
    finite = np.where(np.isinf(block.values), np.nan, block.values)
    names = {key.measure for key in block.keys}
    shares = {name for name in names if name in measures and measures[name].share}
    biased = {name for name in names if name in pair_forms and pair_forms[name].biased}
    derived = ("sd", "normalised", "rank", "difference", "z")
    is_share, is_biased, is_distance = (
        np.array([key.measure in of_kind and key.statistic not in derived for key in block.keys], dtype=np.bool_)
        for of_kind in (shares, biased, distance_items)
    )
    # a distance to people is not a mean of given items where people are resampled
    is_mean = is_distance & np.array([key.against not in (PEOPLE, SIMULATED) for key in block.keys], dtype=np.bool_)
    trials = np.where(_means_of_shares(block), np.inf, block.n)
    low, high, undefined = finite.copy(), finite.copy(), np.zeros(len(finite), dtype=np.int64)
    for of_shares in (False, True):
        numbers = np.flatnonzero(wanted & (is_share == of_shares))
        for part in blocks(len(numbers), block.resampled.shape[1], most=BLOCK // 8):
            index = numbers[part]
            samples, values = block.resampled[index], finite[index]
            units = np.minimum(block.clusters[index], block.units[index])
            if of_shares:
                interval = share_intervals(samples, values, n=trials[index], clusters=units, confidence=confidence)
            else:
                interval = percentile_interval(
                    samples,
                    values,
                    n=units,
                    min_high=block.min_high[index],
                    biased=is_biased[index],
                    means=is_mean[index],
                    confidence=confidence,
                )
            low[index], high[index], undefined[index] = interval.low, interval.high, interval.undefined
    for i, a, b in _differences_of_shares(block, shares):
        ends = difference_of_shares(finite[[a, b]], low[[a, b]], high[[a, b]])
        low[i], high[i] = ends
    return Interval(low, high, undefined)


def _differences_of_shares(block: Block, shares: Collection[str]) -> Iterator[tuple[int, int, int]]:
    """Yield the differences of two shares of this block: their own index and those of both shares.

    The shares are those on the stimuli that both observers met, which have `against`, or those of all stimuli.
    """
    index_of = {key: index for index, key in enumerate(block.keys)}
    for index, key in enumerate(block.keys):
        if key.statistic == "difference" and key.measure in shares and key.against is not None:
            value = key._replace(statistic="value")
            sides = (value, value._replace(observer=key.against, against=key.observer))
            parts = [index_of.get(side, index_of.get(side._replace(against=None))) for side in sides]
            if parts[0] is not None and parts[1] is not None:
                yield index, parts[0], parts[1]


def _means_of_shares(block: Block) -> BoolArray:
    """Return which numbers are means over groups of stimuli, over pairs of observers or over seeds.

    A share of n trials varies as n independent trials do, or more. A mean of shares may vary less: n is no limit.
    """
    over_groups = any(value == "*" for _, value in block.group)
    over_seeds = {key._replace(statistic="value") for key in block.keys if key.statistic == "sd"}
    groups = (PEOPLE, SIMULATED, MODELS)
    return np.array(
        [
            over_groups or key in over_seeds or (key.against is not None and {key.observer, key.against} & {*groups})
            for key in block.keys
        ],
        dtype=np.bool_,
    )


def rows_of(block: Block, *, confidence: float, seed: int, without: Collection[str] = ()) -> list[Row]:
    """Return the score rows of a block: values with intervals, whose ends stay inside the range of the measure.

    Args:
        block: Values and their resamples.
        confidence: Of the intervals, such as .95.
        seed: Of the resamples; it is stored in the rows.
        without: Statistics that have no row.
    """
    wanted = np.array([key.statistic not in without for key in block.keys], dtype=np.bool_)
    interval = _intervals(block, wanted, confidence)
    resamples = block.resampled.shape[1]
    ends = np.array([range_of(key.measure, key.statistic) for key in block.keys]).reshape(-1, 2)
    lows, highs = (np.clip(end, *ends.T) for end in (interval.low, interval.high))
    rows = []
    for i in np.flatnonzero(wanted).tolist():
        key, low, high = block.keys[i], lows[i], highs[i]
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
        if "few_clusters" in flags:
            notes.append(f"{block.clusters[i]:.0f} clusters of stimuli are few, so the interval is rough")
        if low == high:
            flags.append("no_width")
            notes.append("the interval has no width")
        rows.append(
            Row(
                observer=key.observer,
                against=key.against,
                measure=key.measure,
                statistic=key.statistic,
                group=(*block.group, *key.variant),
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

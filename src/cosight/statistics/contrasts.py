"""Numbers made of other numbers, resample by resample: shares of the ceiling, ranks, differences, correlations."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import combinations

import numpy as np

from cosight.arrays import FloatArray
from cosight.measures import measures
from cosight.measures.arithmetic import divide
from cosight.measures.correlation import rank_correlation, rank_correlation_resampled
from cosight.measures.uncertainty import holm, paired_difference, rank_intervals, ranks
from cosight.statistics.blocks import Block, Flags, Key, merged_flags, range_of, single
from cosight.statistics.groups import MODELS, PEOPLE, SIMULATED
from cosight.statistics.pair_scores import CEILING_ONE, FEW_TRIALS, PAIRED
from cosight.statistics.rows import GroupKey, Row, number

__all__ = [
    "CORRELATION",
    "against_people",
    "correlation_block",
    "correlations",
    "difference_rows",
    "normalised",
    "rank_rows",
]

CORRELATION = "rank_correlation"


def normalised(block: Block, models: Collection[str]) -> list[Block]:
    """Divide the mean of each of `models`, and of all, with people by its ceiling; never clipped.

    The ceiling is people's mean with each other on the stimuli that the model shares with them. For a distance (lower
    is more alike) it is the other way round, so that 1 always means as alike as people are.
    """
    place = {key: index for index, key in enumerate(block.keys)}
    blocks = []
    for key in block.keys:
        ceiling, index = (place.get(key._replace(statistic=statistic)) for statistic in (CEILING_ONE, PAIRED))
        if (
            key.statistic != "value"
            or key.against != PEOPLE
            or key.observer not in (*models, MODELS)
            or ceiling is None
            or index is None
            or measures[key.measure].direction == "neither"
            or block.n[ceiling] < FEW_TRIALS
        ):
            continue  # people are the ceiling, where they have enough in common
        above, below = (ceiling, index) if measures[key.measure].direction == "lower" else (index, ceiling)
        with np.errstate(invalid="ignore"):  # infinite as a share of infinite
            value = divide(block.values[above : above + 1], block.values[below : below + 1])[0]
        samples = divide(block.samples[above], block.samples[below])
        note = "share of the leave-one-person-out ceiling on the same stimuli"
        own = key._replace(statistic="normalised")
        flags = merged_flags(block.flags[index], block.flags[ceiling])
        units = block.clusters[index]
        blocks.append(single(block.group, own, float(value), samples, block.n[index], note, flags, units))
    return blocks


def against_people(block: Block, measure: str, models: Collection[str]) -> list[int]:
    """Where the values of `models` with people stand in the block."""
    return [
        index
        for index, key in enumerate(block.keys)
        if key.statistic == "value" and key.measure == measure and key.against == PEOPLE and key.observer in models
    ]


def rank_rows(block: Block, index: Sequence[int], *, of: str, confidence: float, seed: int) -> list[Row]:
    """The rank of each of these numbers of a block, 1 the best, with its interval.

    None for fewer than two numbers, or a measure without a better end. `of` is what notes call those that are ranked.
    """
    if len(index) < 2 or measures[block.keys[index[0]].measure].direction == "neither":
        return []
    direction = measures[block.keys[index[0]].measure].direction
    interval = rank_intervals(block.samples[list(index)], direction=direction, confidence=confidence)
    rows = []
    for i, rank in enumerate(ranks(block.values[list(index)], direction=direction)):
        key = block.keys[index[i]]
        rows.append(
            Row(
                observer=key.observer,
                against=key.against,
                measure=key.measure,
                statistic="rank",
                group=(*block.group, *key.part),
                value=number(rank),
                low=None if np.isnan(rank) else number(interval.low[i]),
                high=None if np.isnan(rank) else number(interval.high[i]),
                n=int(block.n[index[i]]),
                clusters=int(block.clusters[index[i]]),
                seed=seed,
                flags=("undefined",) if np.isnan(rank) else merged_flags(block.flags[index[i]]),
                note=f"of {len(index)} {of}" + _why_no_interval(rank, interval.undefined[i], block.samples.shape[1]),
            )
        )
    return rows


def _why_no_interval(rank: float, undefined: int, resamples: int) -> str:
    if np.isnan(rank):
        return "; undefined"
    return f"; {undefined} of {resamples} resamples undefined" if undefined else ""


def difference_rows(block: Block, measure: str, models: Collection[str], *, confidence: float, seed: int) -> list[Row]:
    """How much closer to people one model is than another, paired over the same stimuli and people.

    p-values are given as they are and adjusted for the number of differences (Holm 1979).
    """
    pairs = list(combinations(against_people(block, measure, models), 2))
    contrasts = []
    for i, j in pairs:
        n = min(block.clusters[i], block.clusters[j])
        with np.errstate(invalid="ignore"):  # infinite less infinite
            contrasts.append(
                paired_difference(
                    block.values[i], block.values[j], block.samples[i], block.samples[j], n=n, confidence=confidence
                )
            )
    adjusted = holm([contrast.p for contrast in contrasts])
    lowest, highest = range_of(measure, "difference")
    rows = []
    for (i, j), contrast, p_adjusted in zip(pairs, contrasts, adjusted, strict=True):
        notes, flags = ["against the same people"], list(merged_flags(block.flags[i], block.flags[j]))
        if not np.isnan(contrast.p):
            notes.append(f"p {'<=' if contrast.at_resolution else '='} {contrast.p:.4f}")
        if contrast.at_resolution:
            flags.append("p_at_resolution")
        if not np.isfinite(contrast.value):
            flags.append("infinite" if np.isinf(contrast.value) else "undefined")
            notes.append(flags[-1])
        low, high = np.clip([contrast.low, contrast.high], lowest, highest)
        if low == high:
            flags.append("no_width")
            notes.append("the interval has no width")
        rows.append(
            Row(
                observer=block.keys[i].observer,
                against=block.keys[j].observer,
                measure=measure,
                statistic="difference",
                group=block.group,
                value=number(contrast.value),
                low=number(low),
                high=number(high),
                n=int(min(block.n[i], block.n[j])),
                clusters=int(min(block.clusters[i], block.clusters[j])),
                p=number(contrast.p),
                p_adjusted=number(p_adjusted),
                seed=seed,
                flags=tuple(flags),
                note="; ".join(notes),
            )
        )
    return rows


def correlations(blocks: Sequence[Block], names: Sequence[str]) -> list[Block]:
    """Spearman's r between measures over pairs of observers: in each group, all groups pooled, and the mean in-domain.

    A row's observer and against are the two measures (Xu et al. 2024, Table 1 and Figure 5). The row of all groups
    pooled has no group; that of the mean has `*`.
    """
    out: list[Block] = []
    keys = blocks[0].group
    for a, b in combinations(names, 2):
        shared = [_shared(block, a, b) for block in blocks]
        inside = [correlation_block(block.group, a, b, *values) for block, values in zip(blocks, shared, strict=True)]
        out += inside
        if len(blocks) > 1:
            x, y, x_samples, y_samples = (np.concatenate(part) for part in zip(*shared, strict=True))
            out.append(correlation_block((), a, b, x, y, x_samples, y_samples, note="pairs of all groups pooled"))
            out.append(_average(inside, tuple((key, "*") for key, _ in keys)))
    return out


def _shared(block: Block, a: str, b: str) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Values and resamples of two measures over the pairs of single observers that have both."""
    place = {key: i for i, key in enumerate(block.keys)}
    groups = {PEOPLE, SIMULATED, MODELS}
    both = [
        (place[key], place[other])
        for key in block.keys
        if key.measure == a
        and key.statistic == "value"
        and key.against is not None
        and not {key.observer, key.against} & groups
        and (other := key._replace(measure=b)) in place
    ]
    i, j = np.array(both, dtype=np.int64).reshape(-1, 2).T
    return block.values[i], block.values[j], block.samples[i], block.samples[j]


def correlation_block(
    group: GroupKey,
    a: str,
    b: str,
    x: FloatArray,
    y: FloatArray,
    x_samples: FloatArray,
    y_samples: FloatArray,
    note: str = "",
    flags: Flags = (),
) -> Block:
    """Spearman's r of two measures' values (n,), with that of their resamples (n, resamples)."""
    correlation = rank_correlation(x, y)
    samples = rank_correlation_resampled(x_samples.T, y_samples.T)
    lost = correlation.left_out
    text = "; ".join(word for word in (note, f"{lost} pairs undefined left out" if lost else "") if word)
    raised = (*flags, *(("undefined_parts",) if lost else ()))
    return single(group, Key(a, b, CORRELATION), correlation.value, samples, float(correlation.n), text, raised)


def _average(inside: Sequence[Block], group: GroupKey) -> Block:
    values = np.array([block.values[0] for block in inside])
    samples = np.stack([block.samples[0] for block in inside])
    used = ~np.isnan(values)
    value = values[used].mean() if used.any() else float("nan")
    mean = divide(np.nansum(samples[used], axis=0), (~np.isnan(samples[used])).sum(axis=0).astype(np.float64))
    lost = int((~used).sum())
    note = f"mean r of {int(used.sum())} groups" + (f", {lost} undefined left out" if lost else "")
    n = float(sum(block.n[0] for block in inside))
    return single(group, inside[0].keys[0], value, mean, n, note, ("undefined_parts",) if lost else ())

"""Numbers made of other numbers, resample by resample: shares of the ceiling, ranks, differences, correlations."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import combinations

import numpy as np

from cosight.arrays import FloatArray
from cosight.measures import measures
from cosight.measures.contrast import paired_difference, rank_intervals, ranks
from cosight.measures.correlation import rank_correlation, rank_correlation_resampled
from cosight.measures.sums import divide
from cosight.statistics.blocks import Block, Key, combine
from cosight.statistics.groups import MODELS, PEOPLE, SIMULATED
from cosight.statistics.pair_scores import CEILING_ONE, FEW_TRIALS, PAIRED
from cosight.statistics.rows import Row, group_text, number

__all__ = [
    "CORRELATION",
    "DIFFERENCE",
    "NORMALISED",
    "RANK",
    "correlations",
    "difference_rows",
    "normalised",
    "rank_rows",
]

NORMALISED, RANK, DIFFERENCE, CORRELATION = "normalised", "rank", "difference", "rank_correlation"


def normalised(block: Block, models: Collection[str]) -> list[Block]:
    """Divide the mean of each of `models`, and of all, with people by its ceiling; never clipped.

    The ceiling is people's mean with each other on the stimuli that the model shares with them. For a distance (lower
    is more alike) it is the other way round, so that 1 always means as alike as people are.
    """
    place = {key: index for index, key in enumerate(block.keys)}
    out = []
    for key in block.keys:
        ceiling = place.get(key._replace(measure=f"{key.measure}.{CEILING_ONE}"))
        index = place.get(key._replace(measure=f"{key.measure}.{PAIRED}"))
        if (
            ceiling is None
            or index is None
            or key.against != PEOPLE
            or key.observer not in (*models, MODELS)
            or not _scaled(key.measure)
            or block.n[ceiling] < FEW_TRIALS
        ):
            continue  # people are the ceiling, where they have enough in common
        above, below = (ceiling, index) if measures[key.measure].direction == "lower" else (index, ceiling)
        with np.errstate(invalid="ignore"):  # infinite as a share of infinite
            value = divide(block.values[above : above + 1], block.values[below : below + 1])[0]
        samples = divide(block.samples[above], block.samples[below])
        name = Key(key.observer, PEOPLE, f"{key.measure}.{NORMALISED}")
        note = "share of the leave-one-person-out ceiling on the same stimuli"
        out.append(combine(block, name, float(value), samples, block.n[index], note))
    return out


def _scaled(measure: str) -> bool:
    return measure in measures and measures[measure].direction != "neither"


def _against_people(block: Block, measure: str, models: Collection[str]) -> list[int]:
    """Where the means of `models` with people stand in the block."""
    return [
        index
        for index, key in enumerate(block.keys)
        if key.measure == measure and key.against == PEOPLE and key.observer in models
    ]


def rank_rows(block: Block, names: Sequence[str], models: Collection[str], *, level: float, seed: int) -> list[Row]:
    """The rank of each model's mean with people, 1 the most alike, with its interval."""
    rows = []
    for name in names:
        index = _against_people(block, name, models)
        if len(index) < 2 or not _scaled(name):
            continue
        direction = measures[name].direction
        interval = rank_intervals(block.samples[index], direction=direction, level=level)
        for i, place in enumerate(ranks(block.values[index], direction=direction)):
            key = block.keys[index[i]]
            rows.append(
                Row(
                    key.observer,
                    PEOPLE,
                    f"{name}.{RANK}",
                    group_text(block.group),
                    number(place),
                    number(interval.low[i]),
                    number(interval.high[i]),
                    int(block.n[index[i]]),
                    f"of {len(index)} models",
                    seed,
                )
            )
    return rows


def difference_rows(
    block: Block, names: Sequence[str], models: Collection[str], *, level: float, seed: int
) -> list[Row]:
    """How much closer to people one model is than another, paired over the same stimuli and people."""
    rows = []
    for name in names:
        for i, j in combinations(_against_people(block, name, models), 2):
            a, b = block.keys[i].observer, block.keys[j].observer
            n = int(min(block.n[i], block.n[j]))
            with np.errstate(invalid="ignore"):  # infinite less infinite
                found = paired_difference(
                    block.values[i], block.values[j], block.samples[i], block.samples[j], n=n, level=level
                )
            why = "infinite" if np.isinf(found.value) else "undefined" if np.isnan(found.value) else ""
            p = "" if np.isnan(found.p) else f"p = {found.p:.4f}"
            note = "; ".join(word for word in ("against the same people", p, why) if word)
            ends = (number(found.value), number(found.low), number(found.high))
            rows.append(Row(a, b, f"{name}.{DIFFERENCE}", group_text(block.group), *ends, n, note, seed))
    return rows


def correlations(blocks: Sequence[Block], names: Sequence[str]) -> list[Block]:
    """Spearman's r between measures over pairs of observers: in each group, all groups pooled, and the mean in-domain.

    A row's observer and against are the two measures (Xu et al. 2024, Table 1 and Figure 5).
    """
    out: list[Block] = []
    keys = blocks[0].group
    for a, b in combinations(names, 2):
        shared = [_shared(block, a, b) for block in blocks]
        inside = [_correlation(block.group, a, b, *values) for block, values in zip(blocks, shared, strict=True)]
        out += inside
        if len(blocks) > 1:
            x, y, x_samples, y_samples = (np.concatenate(part) for part in zip(*shared, strict=True))
            note = "global: pairs of all groups pooled"
            out.append(_correlation((), a, b, x, y, x_samples, y_samples, note=note))
            out.append(_average(inside, tuple((key, "*") for key, _ in keys)))
    return out


def _shared(block: Block, a: str, b: str) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Values and resamples of two measures over the pairs of single observers that have both."""
    place = {key: i for i, key in enumerate(block.keys)}
    groups = {PEOPLE, SIMULATED, MODELS}
    single = [k for k in block.keys if k.measure == a and k.against is not None and not {*k[:2]} & groups]
    both = [(place[k], place[k._replace(measure=b)]) for k in single if k._replace(measure=b) in place]
    i, j = np.array(both, dtype=np.int64).reshape(-1, 2).T
    return block.values[i], block.values[j], block.samples[i], block.samples[j]


def _correlation(
    group: tuple[tuple[str, str], ...],
    a: str,
    b: str,
    x: FloatArray,
    y: FloatArray,
    x_samples: FloatArray,
    y_samples: FloatArray,
    note: str = "",
) -> Block:
    found = rank_correlation(x, y)
    samples = rank_correlation_resampled(x_samples.T, y_samples.T)
    left = f"{found.left_out} pairs undefined left out" if found.left_out else ""
    text = "; ".join(word for word in (note, left) if word)
    return Block(
        group, (Key(a, b, CORRELATION),), np.array([found.value]), samples[None], np.array([float(found.n)]), (text,)
    )


def _average(inside: Sequence[Block], group: tuple[tuple[str, str], ...]) -> Block:
    values = np.array([block.values[0] for block in inside])
    samples = np.stack([block.samples[0] for block in inside])
    used = ~np.isnan(values)
    value = values[used].mean() if used.any() else float("nan")
    mean = divide(np.nansum(samples[used], axis=0), (~np.isnan(samples[used])).sum(axis=0).astype(np.float64))
    left_out = f", {int((~used).sum())} undefined left out" if not used.all() else ""
    note = f"average: mean in-domain r of {int(used.sum())} groups{left_out}"
    n = float(sum(block.n[0] for block in inside))
    return Block(group, inside[0].keys, np.array([value]), mean[None], np.array([n]), (note,))

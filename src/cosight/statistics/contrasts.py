"""Statistics of several numbers, computed per resample: normalised values, ranks, differences."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from cosight.arrays import FloatArray
from cosight.measures import measures, pair_forms
from cosight.measures.arithmetic import BLOCK, blocks, divide
from cosight.measures.differences import (
    PairedDifference,
    holm,
    paired_differences,
    rank_intervals,
    ranks_of_differences,
)
from cosight.statistics.blocks import Block, Flags, merge_flags, range_of, single_block
from cosight.statistics.pair_scores import (
    CEILING_ONE,
    EQUAL_CEILING,
    EQUAL_DIFFERENCE,
    EQUAL_VALUE,
    FEW_TRIALS,
    PAIRED,
)
from cosight.statistics.row_text import two_digits
from cosight.statistics.rows import MODELS, PEOPLE, SIMULATED, Row, number

__all__ = [
    "difference_rows",
    "models_against_people",
    "normalise_by_ceiling",
    "rank_rows",
]

_ERROR_NOTES: dict[tuple[str, ...], str] = {
    ("rarefied",): "; at equal numbers of errors",
    ("unequal_errors",): "; at unequal numbers of errors, on which the measure depends",
}


def normalise_by_ceiling(block: Block, models: Collection[str]) -> list[Block]:
    """Divide the mean of each of `models`, and of all models, with people by its ceiling; never clipped.

    The ceiling is people's mean with each other on the stimuli that the model shares with them. For a distance the
    ceiling is divided by the model's value, so that 1 always means as alike as people are. There is no normalised value
    where people have too few trials in common, or where the measure has no better end.

    Args:
        block: Numbers of one group, with those of `model_ceiling_blocks`.
        models: The names of the models.

    Returns:
        One block of one number per model and measure.
    """
    index_of = {key: index for index, key in enumerate(block.keys)}
    names = {*models, MODELS}
    blocks = []
    for key in block.keys:
        if key.statistic != "value" or key.against not in (PEOPLE, SIMULATED) or key.observer not in names:
            continue
        ceiling, value = (index_of.get(key._replace(statistic=statistic)) for statistic in (CEILING_ONE, PAIRED))
        if ceiling is None or value is None or block.n[ceiling] < FEW_TRIALS:
            continue
        direction = measures[key.measure].direction
        if direction == "neither":
            continue
        above, below = (ceiling, value) if direction == "lower" else (value, ceiling)
        numbers = block.values
        note, flags = "share of the leave-one-person-out ceiling on the same stimuli", [value, ceiling]
        equal = index_of.get(key._replace(statistic=EQUAL_VALUE))
        if equal is not None:
            numbers, flags = numbers.copy(), [*flags, equal]
            numbers[value] = block.values[equal]
            numbers[ceiling] = block.values[index_of[key._replace(statistic=EQUAL_CEILING)]]
            note += f"; at equal numbers of errors, {block.n[equal]:.0f} on average"
        with np.errstate(invalid="ignore"):  # infinity divided by infinity
            ratio = divide(numbers[above : above + 1], numbers[below : below + 1])[0]
        blocks.append(
            single_block(
                block.group,
                key._replace(statistic="normalised"),
                float(ratio),
                divide(block.resampled[above], block.resampled[below]),
                block.n[value],
                note,
                (*merge_flags(*(block.flags[i] for i in flags)), *(["rarefied"] if len(flags) > 2 else [])),
                block.clusters[value],
                float(min(block.units[value], block.units[ceiling])),
            )
        )
    return blocks


@dataclass(frozen=True, slots=True, eq=False)
class _Differences:
    """The differences of some numbers of a block, and what they are resampled from."""

    values: FloatArray  # (numbers, numbers): the first less the second
    resampled: FloatArray  # (numbers, resamples), for differences of the numbers as they are
    at_equal_errors: Mapping[tuple[int, int], FloatArray]  # resamples of the other differences, (resamples,) each
    errors: FloatArray  # (numbers, numbers): errors left to each of the two, nan where they are compared as they are
    flags: Mapping[tuple[int, int], Flags]  # of a difference
    by_errors: bool  # whether the measure depends on the number of errors, so that equal numbers are compared

    def error_flags(self, errors: float) -> tuple[str, ...]:
        """Return the flag of a comparison with so many errors left, nan where it is made as the numbers are."""
        if not np.isnan(errors):
            return ("rarefied",)
        return ("unequal_errors",) if self.by_errors else ()

    def resample(self, positions: Sequence[tuple[int, int]]) -> FloatArray:
        """Return the resamples of some differences, (differences, resamples)."""
        first, second = np.array(positions).T
        samples: FloatArray = self.resampled[first] - self.resampled[second]
        for row, position in enumerate(positions):
            if position in self.at_equal_errors:
                samples[row] = self.at_equal_errors[position]
        return samples

    @property
    def spread(self) -> FloatArray:
        """The standard deviation of the differences at equal numbers of errors, (numbers, numbers); else nan."""
        spread = np.full(self.values.shape, np.nan)
        for (a, b), samples in self.at_equal_errors.items():
            defined = samples[~np.isnan(samples)]
            spread[a, b] = spread[b, a] = defined.std() if len(defined) else np.nan
        return spread

    @classmethod
    def of(cls, block: Block, index: Sequence[int]) -> _Differences:
        """Compute the differences of the numbers with these indices, all of one measure."""
        index_of = {key: i for i, key in enumerate(block.keys)}
        keys = [block.keys[i] for i in index]
        own = block.values[list(index)]
        with np.errstate(invalid="ignore"):  # infinity minus infinity
            values = np.where(np.equal.outer(own, own), 0.0, np.subtract.outer(own, own))
        errors, flags, resampled = np.full(values.shape, np.nan), {}, {}
        for a, b in combinations(range(len(keys)), 2):
            equal = index_of.get(keys[a]._replace(against=keys[b].observer, statistic=EQUAL_DIFFERENCE))
            if equal is not None:
                values[a, b], values[b, a] = block.values[equal], -block.values[equal]
                errors[a, b] = errors[b, a] = block.n[equal]
                flags[a, b], resampled[a, b] = block.flags[equal], block.resampled[equal]
        name = keys[0].measure if keys else ""
        by_errors = name in pair_forms and pair_forms[name].at_equal_errors is not None
        return cls(values, block.resampled[list(index)], resampled, errors, flags, by_errors)


def models_against_people(block: Block, measure: str, models: Collection[str]) -> list[int]:
    """Return the indices of the values of `models` with real people or, where there are none, simulated people."""
    values = [
        index
        for index, key in enumerate(block.keys)
        if key.statistic == "value" and key.measure == measure and key.observer in models
    ]
    of = {people: [i for i in values if block.keys[i].against == people] for people in (PEOPLE, SIMULATED)}
    return of[PEOPLE] or of[SIMULATED]


def rank_rows(block: Block, index: Sequence[int], *, of: str, confidence: float, seed: int) -> list[Row]:
    """Rank some numbers of a block, 1 for the best, each rank with its interval.

    Args:
        block: Numbers of one group.
        index: Those to rank, all of one measure.
        of: What notes call the things that are ranked, such as "models".
        confidence: Of the intervals.
        seed: Of the resamples; it is stored in the rows.

    Returns:
        One row per number; none for fewer than two numbers or a measure without a better end.
    """
    if len(index) < 2 or measures[block.keys[index[0]].measure].direction == "neither":
        return []
    direction = measures[block.keys[index[0]].measure].direction
    differences, clusters = _Differences.of(block, index), block.clusters[list(index)]
    interval = rank_intervals(
        differences.values,
        differences.resampled,
        n=clusters,
        spread=differences.spread,
        direction=direction,
        confidence=confidence,
    )
    rarefied = not np.isnan(differences.errors).all()
    error_flags = differences.error_flags(0.0 if rarefied else np.nan)
    rows = []
    for i, rank in enumerate(ranks_of_differences(differences.values, direction=direction)):
        key, undefined = block.keys[index[i]], bool(np.isnan(rank))
        note = f"of {len(index)} {of}" + _ERROR_NOTES.get(error_flags, "")
        if undefined:
            note += "; undefined"
        elif interval.undefined[i]:
            note += f"; {interval.undefined[i]} of {block.resampled.shape[1]} resamples undefined"
        rows.append(
            Row(
                observer=key.observer,
                against=key.against,
                measure=key.measure,
                statistic="rank",
                group=(*block.group, *key.variant),
                value=number(rank),
                low=None if undefined else number(interval.low[i]),
                high=None if undefined else number(interval.high[i]),
                n=int(block.n[index[i]]),
                clusters=int(block.clusters[index[i]]),
                seed=seed,
                flags=("undefined",) if undefined else (*merge_flags(block.flags[index[i]]), *error_flags),
                note=note,
            )
        )
    return rows


def difference_rows(
    block: Block,
    measure: str,
    models: Collection[str],
    *,
    confidence: float,
    seed: int,
    index: Sequence[int] | None = None,
) -> list[Row]:
    """Compare every two models: how much closer to people is one than the other, on the same stimuli and people?

    p values are two-sided, as they are and adjusted for the number of differences (Holm 1979).

    Args:
        block: Numbers of one group.
        measure: The measure to compare.
        models: The names of the models.
        confidence: Of the intervals.
        seed: Of the resamples; it is stored in the rows.
        index: The numbers to compare (default: those of `models` with people).
    """
    if index is None:
        index = models_against_people(block, measure, models)
    pairs, positions = list(combinations(index, 2)), list(combinations(range(len(index)), 2))
    differences = _Differences.of(block, index)
    contrasts: list[PairedDifference] = []
    for part in blocks(len(pairs), block.resampled.shape[1], most=BLOCK // 8):
        contrasts += paired_differences(
            differences.resample(positions[part]),
            differences.values[tuple(np.array(positions[part]).T)],
            n=block.clusters[np.array(pairs[part])].min(axis=1),
            confidence=confidence,
        )
    adjusted = holm([contrast.p for contrast in contrasts])
    lowest, highest = range_of(measure, "difference")
    rows = []
    for (i, j), position, contrast, p_adjusted in zip(pairs, positions, contrasts, adjusted, strict=True):
        notes = [] if block.keys[i].against is None else [f"against the same {block.keys[i].against}"]
        flags = list(merge_flags(block.flags[i], block.flags[j], differences.flags.get(position, ())))
        if block.keys[i].against == SIMULATED:
            flags.append("simulated")
        flags += differences.error_flags(errors := differences.errors[position])
        if not np.isnan(errors):
            notes.append(f"at equal numbers of errors, {errors:.0f} each")
        if not np.isnan(contrast.p):
            sign = "<=" if contrast.at_resolution else "="
            notes.append(f"p {sign} {two_digits(contrast.p)}")
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

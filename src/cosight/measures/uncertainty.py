"""Uncertainty: bootstrap over stimuli and, crossed, over people; intervals, paired differences and ranks.

Every interval is made in one way: stimuli are drawn again (how often each was drawn is a row of weights), the
measure's resampled form turns weights into values, and the interval is read off their percentiles or, for shares, off
an exact distribution with as many trials as the spread of the resamples is worth (`share_intervals`). People are drawn
again beside the stimuli, independently (the pigeonhole bootstrap, Owen 2007). Stimuli that fall into few distinct
patterns of answers (`compress`) are drawn from a multinomial over the patterns, which is exact and far faster.

Differences and ranks of observers are read off shared resamples, so that what makes all of them look better or worse
in a resample cancels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri, stdtrit

from cosight.arrays import BoolArray, FloatArray, finite, labels, same_length
from cosight.errors import InvalidInput
from cosight.measures.answers import Answers
from cosight.measures.arithmetic import (
    BLOCK,
    ROUNDING,
    Pairs,
    Weights,
    blocks,
    check_confidence,
    divide,
    mean_or_nan,
    share_interval,
)
from cosight.measures.declarations import Direction, measures, pair_forms

__all__ = [
    "Compressed",
    "Estimate",
    "Interval",
    "PairedDifference",
    "compress",
    "draw_people",
    "draw_stimuli",
    "holm",
    "mean_over_pairs",
    "mean_with_interval",
    "pair_estimate",
    "paired_difference",
    "paired_differences",
    "percentile_interval",
    "rank_intervals",
    "ranks",
    "ranks_of_differences",
    "share_intervals",
]

_FEW_POSITIONS = 16  # up to this number, partitioning is faster than sorting
_MOST_UNDEFINED = 0.1  # fraction of undefined resamples above which the interval is undefined


@dataclass(frozen=True, slots=True)
class Interval:
    """Percentile intervals, one per row of resampled values."""

    low: FloatArray
    high: FloatArray
    undefined: NDArray[np.int64]  # resamples in which the measure was undefined


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number, its interval and how it was computed."""

    value: float
    low: float
    high: float
    n: int
    confidence: float
    resamples: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class Compressed:
    """Answers to the distinct patterns of a table, and how many stimuli have each."""

    answers: Answers
    counts: NDArray[np.int64]  # (patterns,)


def compress(answers: Answers) -> Compressed:
    """Merge stimuli that have the same truth and to which every observer gave the same answer.

    Args:
        answers: The answers of all observers.

    Returns:
        The answers to the distinct patterns, in the order of their first stimulus, and the number of stimuli of each.

    >>> merged = compress(Answers.of_correctness([1, 1, 0, 1], [1, 1, 0, 0]))
    >>> merged.answers.response.tolist(), merged.counts.tolist()
    ([[1, 0, 1], [1, 0, 0]], [2, 1, 1])
    """
    columns = np.vstack([answers.truth[None], answers.response]).T
    if answers.stimuli == 0:
        return Compressed(answers, np.zeros(0, dtype=np.int64))
    width = columns.dtype.itemsize * columns.shape[1]
    keys = np.ascontiguousarray(columns).view(np.dtype((np.void, width))).ravel()
    _, first, counts = np.unique(keys, return_index=True, return_counts=True)
    order = np.argsort(first)  # patterns in the order of their first stimulus
    return Compressed(answers.at(first[order]), counts[order].astype(np.int64))


def draw_stimuli(
    counts: ArrayLike, resamples: int, rng: np.random.Generator, *, clusters: ArrayLike | None = None
) -> Weights:
    """Draw stimuli with replacement, as many as there are.

    Args:
        counts: How many stimuli each row stands for: ones, or the counts of `compress`.
        resamples: The number of resamples.
        rng: The source of randomness.
        clusters: The stimulus that each row belongs to, if one was presented more than once: its presentations are
            drawn together.

    Returns:
        How often each row was drawn, (resamples, rows).

    Raises:
        InvalidInput: If a count is not a whole number, or a clustered row stands for several stimuli.

    >>> draw_stimuli([1, 1, 1, 5], 3, np.random.default_rng(0)).sum(axis=1)
    array([8., 8., 8.], dtype=float32)
    """
    _check_resamples(resamples)
    table = finite(counts, name="counts", ndim=1)
    if (bad := (table < 0) | (table != np.floor(table))).any():
        raise InvalidInput(f"counts must be whole numbers of stimuli, got {table[bad][0]:g}")
    many = table.astype(np.int64)
    if clusters is not None:
        names, member = np.unique(labels(clusters, name="clusters"), return_inverse=True)
        same_length(counts=many, clusters=member)
        if (many != 1).any():
            bad_count = many[many != 1][0]
            raise InvalidInput(f"a clustered row must stand for one stimulus, got {bad_count}; draw before compressing")
        return draw_stimuli(np.ones(len(names), dtype=np.int64), resamples, rng)[:, member]
    n = int(many.sum())
    if n == 0:
        return np.zeros((resamples, len(many)), dtype=np.float32)
    if len(many) * 2 < n:
        return _draw_multinomial(many, resamples, rng)
    row_of_stimulus = np.repeat(np.arange(len(many)), many)
    drawn = (np.bincount(row_of_stimulus[rng.integers(0, n, n)], minlength=len(many)) for _ in range(resamples))
    return np.stack([row.astype(np.float32) for row in drawn])


def _draw_multinomial(counts: NDArray[np.int64], resamples: int, rng: np.random.Generator) -> Weights:
    """Draw sum(counts) items with probabilities proportional to `counts`, a binomial of the remainder per row.

    The same distribution as `rng.multinomial`, but a quarter faster, and stored by row, as the measures read it.
    """
    undrawn: NDArray[np.int64] | int = int(counts.sum())
    rest = int(counts.sum())
    out = np.zeros((len(counts), resamples), dtype=np.float32)
    for row, count in zip(out, counts.tolist(), strict=True):
        if count:
            drawn = rng.binomial(undrawn, count / rest, size=resamples) if count < rest else undrawn
            row[:] = drawn
            undrawn, rest = undrawn - drawn, rest - count
    return out.T


def draw_people(people: int, resamples: int, rng: np.random.Generator) -> FloatArray:
    """Draw people with replacement, as many as there are.

    Args:
        people: The number of people.
        resamples: The number of resamples.
        rng: The source of randomness.

    Returns:
        How often each person was drawn, (resamples, people).

    >>> draw_people(4, 3, np.random.default_rng(0)).sum(axis=1)
    array([4., 4., 4.])
    """
    _check_resamples(resamples)
    if people == 0:
        return np.zeros((resamples, 0))
    return rng.multinomial(people, np.full(people, 1 / people), size=resamples).astype(np.float64)


def _check_resamples(resamples: int) -> None:
    if resamples < 1:
        raise InvalidInput(f"resamples must be 1 or more, got {resamples}; 1000 is usual")


def percentile_interval(
    samples: FloatArray,
    values: FloatArray,
    *,
    n: FloatArray | None = None,
    min_high: FloatArray | None = None,
    confidence: float = 0.95,
) -> Interval:
    """Compute the interval of each row of resamples around its estimate.

    The percentiles of the resamples, moved so that their median lies on the estimate: a similarity of distributions
    (CLES) falls whenever its counts are resampled, and plain percentiles would leave the estimate out. Undefined
    resamples (nan) are left out and counted.

    Args:
        samples: Resampled values, (rows, resamples).
        values: The estimates from all data, (rows,).
        n: The trials that each value rests on. They widen the percentiles as t does for a mean (Hesterberg 2015): at
            30 trials by some 6 %.
        min_high: The least high end of each interval, nan for none.
        confidence: Confidence of the intervals.

    Returns:
        The intervals; nan where the value is, where it rests on fewer than two trials, or where more than a tenth of
        the resamples are undefined.

    Raises:
        InvalidInput: If the confidence is not between 0 and 1.

    >>> samples = np.random.default_rng(0).normal(0.5, 0.1, (1, 10_000))
    >>> interval = percentile_interval(samples, np.array([0.5]))
    >>> interval.low.round(1), interval.high.round(1)
    (array([0.3]), array([0.7]))
    """
    check_confidence(confidence)
    undefined = np.isnan(samples).sum(axis=1)
    usable = (undefined <= _MOST_UNDEFINED * samples.shape[1]) & ~np.isnan(values)
    tail = np.full(len(samples), (1 - confidence) / 2)  # probability beyond each end
    if n is not None:
        df = np.maximum(n, 2.0) - 1
        tail = np.where(n >= 2, ndtr(np.sqrt(1 + 1 / df) * stdtrit(df, tail)), np.nan)
    last = samples.shape[1] - undefined - 1
    positions = [probability * last for probability in (0.5, tail, 1 - tail)]
    # sort each row, nan last; only at the positions that are read where these are few, which is much faster
    read = np.concatenate([[np.floor(position), np.floor(position) + 1] for position in positions], axis=None)
    read = np.unique(np.clip(np.nan_to_num(read), 0, samples.shape[1] - 1)).astype(np.int64)
    ordered = np.partition(samples, read, axis=1) if len(read) <= _FEW_POSITIONS else np.sort(samples, axis=1)
    middle, low, high = (_interpolate(ordered, position) for position in positions)
    shift = np.where(usable, values - middle, np.nan)
    low, high = low + shift, high + shift
    if min_high is not None:
        high = np.where(np.isnan(high), high, np.fmax(high, min_high))
    return Interval(low, high, undefined)


def share_intervals(
    samples: FloatArray,
    values: FloatArray,
    *,
    n: FloatArray,
    clusters: FloatArray,
    confidence: float = 0.95,
) -> Interval:
    """Compute the interval of each share from the number of independent trials that its resamples are worth.

    Percentiles have no width where every trial went the same way, and too little near 0 and 1. The spread of the
    resamples only says how many independent trials the value rests on, m = v (1 - v) / variance, corrected for few
    clusters as in Korn & Graubard (1998). Where trials of one kind are rare, the spread cannot tell how much the trials
    of a cluster go together, so 1 / m is averaged with that of one further rare trial whose cluster goes one way,
    1 / clusters. The interval is `share_interval` of v m successes in m trials. A share of n
    independent trials gets the mid-P interval of n trials, whatever the seed.

    Args:
        samples: Resampled values, (rows, resamples).
        values: The shares from all data, (rows,).
        n: The trials of each share, which m does not exceed; inf for a mean of shares, which varies less.
        clusters: The clusters that were resampled; m where all trials of all clusters went the same way.
        confidence: Confidence of the intervals.

    Returns:
        The intervals; nan where the value is, where there are fewer than two clusters, or where more than a tenth of
        the resamples are undefined.

    Raises:
        InvalidInput: If the confidence is not between 0 and 1.

    >>> all_right = share_intervals(np.ones((1, 99)), np.ones(1), n=np.array([30.0]), clusters=np.array([30.0]))
    >>> all_right.low.round(3).tolist(), all_right.high.tolist()
    ([0.905], [1.0])
    """
    check_confidence(confidence)
    defined = ~np.isnan(samples)
    count = defined.sum(axis=1)
    undefined = samples.shape[1] - count
    usable = (undefined <= _MOST_UNDEFINED * samples.shape[1]) & ~np.isnan(values) & (clusters >= 2)
    mean = divide(np.where(defined, samples, 0.0).sum(axis=1), count.astype(np.float64))
    spread = np.where(defined, samples - mean[:, None], 0.0)
    variance = divide((spread**2).sum(axis=1), np.maximum(count - 1.0, 0.0))
    tail, units = (1 - confidence) / 2, np.maximum(clusters, 2.0)
    trials = np.maximum(np.where(np.isinf(n), clusters, n), 2.0)
    few = (1 - 1 / units) / (1 - 1 / trials) * (stdtrit(trials - 1, tail) / stdtrit(units - 1, tail)) ** 2
    varies = variance > ROUNDING**2
    worth = np.where(varies, values * (1 - values) / np.where(varies, variance, 1.0) * few, units)
    noise = min(0.1, 2 * np.sqrt(2 / samples.shape[1]))  # twice the relative error of a variance of so many resamples
    worth = np.where(varies & (worth > n * (1 - noise)), n, np.minimum(worth, n))
    rare = np.minimum(values, 1 - values) * worth  # how many trials of the rarer kind the spread rests on
    worth = (rare + 1) / (rare / np.where(worth > 0, worth, 1.0) + 1 / units)  # 0: no trial at all
    worth = np.where(usable, np.maximum(worth, 1.0), np.nan)
    low, high = share_interval(np.clip(values, 0, 1) * worth, worth, confidence)
    return Interval(low, high, undefined)


def _interpolate(ordered: FloatArray, position: FloatArray) -> FloatArray:
    """Return the value of each sorted row at a fractional position; nan where the position is nan or negative."""
    inside = np.where(position >= 0, position, 0.0)
    below = np.floor(inside).astype(np.int64)
    rows = np.arange(len(ordered))
    above = np.minimum(below + 1, ordered.shape[1] - 1)
    part = inside - below
    mixed = np.where(part > 0, ordered[rows, below] * (1 - part) + ordered[rows, above] * part, ordered[rows, below])
    return np.where(position >= 0, mixed, np.nan)


def mean_over_pairs(values: FloatArray, pairs: Pairs, drawn: FloatArray, people: BoolArray) -> FloatArray:
    """Compute the mean over pairs in each resample, weighted by how often their people were drawn.

    Args:
        values: A value per pair and resample, (pairs, resamples).
        pairs: The observers of each pair, (pairs, 2). Two copies of one person are never a pair.
        drawn: How often each observer was drawn, (resamples, observers).
        people: Which observers were drawn; every other observer, a model, counts once.

    Returns:
        The means, (resamples,); nan where no pair is defined.

    >>> values, pairs = np.array([[0.2], [0.4], [0.9]]), np.array([[0, 1], [0, 2], [1, 2]])
    >>> drawn = np.array([[2.0, 1.0, 0.0]])  # the third person was not drawn
    >>> mean_over_pairs(values, pairs, drawn, np.array([True, True, True]))
    array([0.2])
    """
    times = np.where(people, drawn, 1.0)
    means = np.empty(values.shape[1])
    for part in blocks(len(means), len(pairs), most=BLOCK // 4):
        weight, of_part = (times[part, pairs[:, 0]] * times[part, pairs[:, 1]]).T, values[:, part]  # (pairs, resamples)
        if (undefined := np.isnan(of_part)).any():
            weight, of_part = np.where(undefined, 0.0, weight), np.where(undefined, 0.0, of_part)
        means[part] = divide((of_part * weight).sum(axis=0), weight.sum(axis=0))
    return means


def pair_estimate(
    measure: str, answers: Answers, *, resamples: int = 10_000, confidence: float = 0.95, rng: np.random.Generator
) -> Estimate:
    """Compute a measure of two observers with its interval over stimuli.

    Args:
        measure: Name or alias of a measure of pairs.
        answers: The answers of the two observers.
        resamples: The number of resamples.
        confidence: Confidence of the interval.
        rng: The source of randomness.

    Returns:
        The value and its interval; the note says how many resamples were undefined.

    Raises:
        InvalidInput: If there are not two observers.
        UnknownName: If no measure of pairs has this name.

    >>> table = Answers.of_correctness([1, 1, 0, 0] * 50, [1, 0, 0, 0] * 50)
    >>> estimate = pair_estimate("ec", table, rng=np.random.default_rng(0))
    >>> round(estimate.value, 2), estimate.low < .5 < estimate.high
    (0.5, True)
    """
    if answers.observers != 2:
        raise InvalidInput(f"a pair has two observers, got {answers.observers}; use cosight.compare for more")
    form = pair_forms[measures.name_of(measure)]
    pairs = np.array([[0, 1]])
    compressed = compress(answers)
    weights = draw_stimuli(compressed.counts, resamples, rng)
    value, n = form.matrix(answers)[:1, 1], form.count(answers, pairs)
    min_high = None if form.min_high is None else form.min_high(answers, pairs, confidence)
    samples = form.resampled(compressed.answers, weights, pairs)
    facts = measures[measure]
    if facts.share:
        interval = share_intervals(samples, value, n=n, clusters=n, confidence=confidence)
    else:
        interval = percentile_interval(samples, value, n=n, min_high=min_high, confidence=confidence)
    note = f"{interval.undefined[0]} of {resamples} resamples undefined" if interval.undefined[0] else ""
    low, high = np.clip([interval.low[0], interval.high[0]], facts.low, facts.high)
    return Estimate(float(value[0]), float(low), float(high), int(n[0]), confidence, resamples, note)


def mean_with_interval(
    items: ArrayLike,
    *,
    bounds: tuple[float, float] = (-np.inf, np.inf),
    answers: int | None = None,
    resamples: int = 10_000,
    confidence: float = 0.95,
    rng: np.random.Generator,
) -> Estimate:
    """Compute the mean of per-item values (say, a distance per stimulus) with its interval over items.

    Args:
        items: One value per item; nan items are left out and counted in the note.
        bounds: The range that a mean can have: the ends of the interval stay inside it.
        answers: The yes-or-no answers behind all items, if each item is a share of some: the interval is then that of
            a share (`share_intervals`).
        resamples: The number of resamples.
        confidence: Confidence of the interval.
        rng: The source of randomness.

    Returns:
        The mean and its interval. All is nan without items; only the interval is with one item, or an infinite mean.

    Raises:
        InvalidInput: If `items` is not one-dimensional, or `resamples` or `confidence` is out of range.

    >>> mean_with_interval([0.5, 0.5, 0.5], rng=np.random.default_rng(0)).high
    0.5
    """
    _check_resamples(resamples)
    values = np.asarray(items, dtype=np.float64)
    if values.ndim != 1:
        raise InvalidInput(f"items must be one-dimensional, got shape {values.shape}")
    defined = values[~np.isnan(values)]
    n, mean = len(defined), mean_or_nan(defined)
    note = f"{len(values) - n} undefined items left out" if n < len(values) else ""
    if not np.isfinite(mean):
        return Estimate(mean, float("nan"), float("nan"), n, confidence, resamples, note)
    samples = np.array([defined[rng.integers(0, n, n)].mean() for _ in range(resamples)])
    value, items_used = np.array([mean]), np.array([float(n)])
    if answers is None:
        interval = percentile_interval(samples[None], value, n=items_used, confidence=confidence)
    else:
        trials = np.array([float(answers)])
        interval = share_intervals(samples[None], value, n=trials, clusters=items_used, confidence=confidence)
    low, high = np.clip([interval.low[0], interval.high[0]], *bounds)
    return Estimate(mean, float(low), float(high), n, confidence, resamples, note)


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """The first observer's value minus the second's, on the same resamples."""

    value: float
    low: float
    high: float
    p: float  # two-sided, for no difference
    at_resolution: bool = False  # no resample contradicts the difference: the true p is `p` or less


def paired_difference(
    a: float,
    b: float,
    a_samples: FloatArray,
    b_samples: FloatArray,
    *,
    n: float | None = None,
    confidence: float = 0.95,
) -> PairedDifference:
    """Compute a - b with its interval and p-value from shared resamples.

    p = 2 min(fraction of moved differences at or below 0, fraction at or above), with one resample added to each side,
    so that it is never 0; moved as in `percentile_interval`.

    Args:
        a: The first observer's value.
        b: The second observer's value.
        a_samples: The first observer's resampled values, (resamples,).
        b_samples: The second observer's on the same resamples.
        n: The trials behind the values; few trials widen the interval.
        confidence: Confidence of the interval.

    Returns:
        The difference, its interval and p; nan where a or b is, or where more than a tenth of the resamples are.

    Raises:
        InvalidInput: If the confidence is not between 0 and 1.

    >>> same = np.linspace(-1, 1, 99)
    >>> paired_difference(0.5, 0.5, same, same).p
    1.0
    """
    samples, trials = (a_samples - b_samples)[None], None if n is None else np.array([n])
    return paired_differences(samples, np.array([a - b]), n=trials, confidence=confidence)[0]


def paired_differences(
    samples: FloatArray, values: FloatArray, *, n: FloatArray | None = None, confidence: float = 0.95
) -> list[PairedDifference]:
    """Compute the interval and p-value of several differences, as `paired_difference` does for one.

    Args:
        samples: Resampled differences, (differences, resamples).
        values: The differences from all data, (differences,).
        n: The trials behind each; few trials widen the interval.
        confidence: Confidence of the intervals.

    Returns:
        One paired difference per row.

    Raises:
        InvalidInput: If the confidence is not between 0 and 1.

    >>> [found.p for found in paired_differences(np.linspace(-1, 1, 99)[None], np.array([0.0]))]
    [1.0]
    """
    interval = percentile_interval(samples, values, n=n, confidence=confidence)
    found = np.flatnonzero(~np.isnan(interval.low))
    p, at_resolution = np.full(len(values), np.nan), np.zeros(len(values), dtype=np.bool_)
    defined = samples.shape[1] - interval.undefined[found]
    median = np.nanmedian if interval.undefined[found].any() else np.median
    moved = samples[found] - median(samples[found], axis=1)[:, None] + values[found, None]
    least = np.minimum(np.count_nonzero(moved <= 0, axis=1), np.count_nonzero(moved >= 0, axis=1))
    p[found], at_resolution[found] = np.minimum(1.0, 2 * (least + 1) / (defined + 1)), least == 0
    columns = (values, interval.low, interval.high, p, at_resolution)
    return [PairedDifference(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def holm(p: ArrayLike) -> FloatArray:
    """Adjust p-values of several tests, so that a false positive among them is as rare as in one test (Holm 1979).

    The k-th smallest of m is multiplied by m - k + 1, at most 1 and never below the one before it.

    Args:
        p: The p-values; nan stays nan and does not count as a test.

    Returns:
        The adjusted p-values, in the same order.

    >>> holm([0.01, 0.04, 0.03]).round(2).tolist()
    [0.03, 0.06, 0.06]
    """
    values = np.asarray(p, dtype=np.float64)
    adjusted = np.full(values.shape, np.nan)
    order = np.argsort(values)[: np.count_nonzero(~np.isnan(values))]  # nan sorts last
    steps = values[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted


def ranks(values: FloatArray, *, direction: Direction = "higher") -> FloatArray:
    """Rank values along the first axis, 1 for the best.

    Args:
        values: The values; nan stays nan.
        direction: Whether higher or lower values are better.

    Returns:
        The ranks, in the shape of `values`; ties get their mean rank.

    >>> ranks(np.array([.3, .9, .3]))
    array([2.5, 1. , 2.5])
    """
    signed = -values if direction == "higher" else values
    defined = ~np.isnan(signed)
    better = (signed[None] < signed[:, None]) & defined
    tied = (signed[None] == signed[:, None]) & defined
    return np.where(defined, better.sum(axis=1) + (tied.sum(axis=1) + 1) / 2, np.nan)


def ranks_of_differences(differences: FloatArray, *, direction: Direction = "higher") -> FloatArray:
    """Rank observers by their differences: 1 plus the number of better observers.

    Args:
        differences: The first observer's value minus the second's, (observers, observers). nan on the diagonal marks an
            undefined value, whose rank is nan.
        direction: Whether higher or lower values are better.

    Returns:
        The ranks, (observers,); observers that do not differ get their mean rank.

    >>> ranks_of_differences(np.subtract.outer([.3, .9, .3], [.3, .9, .3]))
    array([2.5, 1. , 2.5])
    """
    better = differences > 0 if direction == "lower" else differences < 0
    rank = better.sum(axis=1) + ((differences == 0).sum(axis=1) + 1) / 2
    return np.where(np.isnan(np.diag(differences)), np.nan, rank)


def rank_intervals(
    differences: FloatArray,
    samples: FloatArray,
    *,
    n: FloatArray | None = None,
    direction: Direction = "higher",
    confidence: float = 0.95,
) -> Interval:
    """Compute the interval of each observer's rank from its differences to all others, which hold simultaneously.

    Ranks of resamples would be too certain: resamples vary around the observed values, so that two observers that are
    alike keep the order of this study in most of them. Instead, observer i is compared with every other one (Mogstad,
    Romano, Shaikh & Wilhelm 2024): i is worse than j if their difference exceeds c s, s being its standard deviation
    over resamples and c the `confidence` quantile, over resamples, of the largest of all |deviations of the
    differences of i| / s. The interval is 1 + how many observers are better than i to the number of observers - how
    many are worse: it holds the true rank with at least `confidence`, and of observers that are alike fewer than
    1 - confidence get a rank without doubt.

    Args:
        differences: The first value less the second of every two observers, from all data, (observers, observers); nan
            where one is undefined, and so on the diagonal.
        samples: Resampled values on shared resamples, (observers, resamples).
        n: The trials that each value rests on. They widen c as t does for a mean.
        direction: Which values are better.
        confidence: Confidence of each interval.

    Returns:
        The intervals; nan where the value is undefined, or where more than a tenth of its resamples are. An observer
        that cannot be compared with another is neither better nor worse.

    Raises:
        InvalidInput: If the confidence is not between 0 and 1.

    >>> shared = np.random.default_rng(0).normal(size=(3, 500))
    >>> values = np.array([9.0, 0.5, 0.0])
    >>> found = rank_intervals(np.subtract.outer(values, values), shared)
    >>> found.low.tolist(), found.high.tolist()
    ([1.0, 2.0, 2.0], [1.0, 3.0, 3.0])
    """
    check_confidence(confidence)
    defined = ~np.isnan(np.diag(differences))
    undefined = np.isnan(samples).sum(axis=1)
    ranked = np.flatnonzero(defined & (undefined <= _MOST_UNDEFINED * samples.shape[1]))
    better = differences if direction == "higher" else -differences
    low, high = np.full(len(samples), np.nan), np.full(len(samples), np.nan)
    for i in ranked:
        low[i], high[i] = 1.0, float(defined.sum())
        others = ranked[ranked != i]
        deviation = samples[others] - samples[i]
        deviation -= np.nanmean(deviation, axis=1, keepdims=True)
        spread = np.sqrt(np.nanmean(deviation**2, axis=1))
        varies = spread > 0
        largest = np.nanmax(np.abs(deviation[varies]) / spread[varies, None], axis=0, initial=0.0)
        critical = np.quantile(largest, confidence) * spread
        if n is not None:
            df, tail = np.maximum(np.minimum(n[others], n[i]), 2.0) - 1, (1 - confidence) / 2
            critical = critical * np.sqrt(1 + 1 / df) * stdtrit(df, tail) / ndtri(tail)
        low[i] += np.count_nonzero(better[others, i] > critical)
        high[i] -= np.count_nonzero(better[i, others] > critical)
    return Interval(low, high, undefined)

"""How sure are we? Bootstrap over stimuli and, crossed, over people.

One way to make every interval: draw the stimuli of a table again (how often each was drawn is a row of weights), let
the measure's own resampled form turn weights into values, and read the percentiles. People are drawn again beside the
stimuli, independently (the pigeonhole bootstrap, Owen 2007). Drawing n stimuli that fall into few distinct patterns of
answers is drawing from a multinomial over the patterns, which is exact and far faster: `compress` does that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, stdtrit

from cosight.arrays import BoolArray, FloatArray, finite, labels, same_length
from cosight.errors import InvalidInput
from cosight.measures.answers import Answers
from cosight.measures.arithmetic import Pairs, Weights, divide
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
    "percentile_interval",
    "rank_intervals",
    "ranks",
]

_FEW_POSITIONS = 16  # up to which partitioning beats sorting
_FEW = 0.1  # resamples that may be undefined before the interval itself is


@dataclass(frozen=True, slots=True)
class Interval:
    """Percentile intervals, one for each row of resampled values."""

    low: FloatArray
    high: FloatArray
    undefined: NDArray[np.int64]  # resamples in which the measure was undefined


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number, its interval and what made it."""

    value: float
    low: float
    high: float
    n: int
    confidence: float
    resamples: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class Compressed:
    """Answers to the distinct patterns of a table, and how many stimuli show each."""

    answers: Answers
    counts: NDArray[np.int64]  # (patterns,)


def compress(answers: Answers) -> Compressed:
    """Merge stimuli that every observer answered alike and that have the same truth."""
    columns = np.vstack([answers.truth[None], answers.response]).T
    if answers.stimuli == 0:
        return Compressed(answers, np.zeros(0, dtype=np.int64))
    width = columns.dtype.itemsize * columns.shape[1]
    keys = np.ascontiguousarray(columns).view(np.dtype((np.void, width))).ravel()
    _, first, counts = np.unique(keys, return_index=True, return_counts=True)
    order = np.argsort(first)  # patterns in the order they first appear, so that row order alone decides nothing else
    return Compressed(answers.at(first[order]), counts[order].astype(np.int64))


def draw_stimuli(
    counts: ArrayLike, resamples: int, rng: np.random.Generator, *, clusters: ArrayLike | None = None
) -> Weights:
    """How often each row is drawn when as many stimuli as there are are drawn again; (resamples, rows).

    `counts` says how many stimuli each row stands for (ones, or those of `compress`). `clusters` names the stimulus a
    row belongs to when one was presented more than once: its presentations are drawn together.
    """
    many = _counts(counts, resamples)
    if clusters is not None:
        names, member = np.unique(labels(clusters, name="clusters"), return_inverse=True)
        same_length(counts=many, clusters=member)
        if (many != 1).any():
            bad = many[many != 1][0]
            raise InvalidInput(f"a clustered row must stand for one stimulus, got {bad}; draw before compressing")
        return draw_stimuli(np.ones(len(names), dtype=np.int64), resamples, rng)[:, member]
    n = int(many.sum())
    if n == 0:
        return np.zeros((resamples, len(many)), dtype=np.float32)
    if len(many) * 2 < n:
        return _multinomial(many, resamples, rng)
    owner = np.repeat(np.arange(len(many)), many)
    drawn = (np.bincount(owner[rng.integers(0, n, n)], minlength=len(many)) for _ in range(resamples))
    return np.stack([row.astype(np.float32) for row in drawn])


def _multinomial(counts: NDArray[np.int64], resamples: int, rng: np.random.Generator) -> Weights:
    """Draws of sum(counts) from shares proportional to `counts`: a binomial of what is left, one row after the other.

    The same as `rng.multinomial`, but a quarter faster, and laid out by row, as the measures read it.
    """
    left: NDArray[np.int64] | int = int(counts.sum())
    rest = int(counts.sum())
    out = np.zeros((len(counts), resamples), dtype=np.float32)
    for row, count in zip(out, counts.tolist(), strict=True):
        if count:
            drawn = rng.binomial(left, count / rest, size=resamples) if count < rest else left
            row[:] = drawn
            left, rest = left - drawn, rest - count
    return out.T


def draw_people(people: int, resamples: int, rng: np.random.Generator) -> FloatArray:
    """How often each person is drawn when as many as there are are drawn again; (resamples, people)."""
    _check_resamples(resamples)
    if people == 0:
        return np.zeros((resamples, 0))
    return rng.multinomial(people, np.full(people, 1 / people), size=resamples).astype(np.float64)


def _counts(counts: ArrayLike, resamples: int) -> NDArray[np.int64]:
    _check_resamples(resamples)
    many = finite(counts, name="counts", ndim=1)
    if (bad := (many < 0) | (many != np.floor(many))).any():
        raise InvalidInput(f"counts must be whole numbers of stimuli, got {many[bad][0]:g}")
    return many.astype(np.int64)


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
    """Interval of each row of (rows, resamples) around `values`, the estimates from the whole data.

    The percentiles of the resamples, moved so that their median lies on the estimate: a similarity of distributions
    (CLES) falls whenever its counts are resampled, and plain percentiles would leave the estimate out. `n`, the trials
    each value rests on, widens the percentiles as t does for a mean (Hesterberg 2015): at 30 trials by some 6 %.
    `min_high` (rows,) is what the high end reaches at least, or nan. Undefined resamples (nan) are left out and
    counted; where more than a tenth are, so is the interval.
    """
    if not 0 < confidence < 1:
        raise InvalidInput(f"confidence must lie between 0 and 1, got {confidence}; .95 is usual")
    undefined = np.isnan(samples).sum(axis=1)
    usable = (undefined <= _FEW * samples.shape[1]) & ~np.isnan(values)
    tail = np.broadcast_to(_tails(confidence, n), len(samples))
    last = samples.shape[1] - undefined - 1
    positions = [share * last for share in (0.5, tail, 1 - tail)]
    ordered = _ordered(samples, positions)
    middle, low, high = (_at(ordered, position) for position in positions)
    shift = np.where(usable, values - middle, np.nan)
    low, high = low + shift, high + shift
    if min_high is not None:
        high = np.where(np.isnan(high), high, np.fmax(high, min_high))
    return Interval(low, high, undefined)


def _tails(confidence: float, n: FloatArray | None) -> FloatArray:
    """The share to cut off at each end: (1 - confidence) / 2, or less where it rests on few trials; nan below two."""
    if n is None:
        return np.asarray((1 - confidence) / 2)
    df = np.maximum(n, 2.0) - 1
    wider = ndtr(np.sqrt(1 + 1 / df) * stdtrit(df, (1 - confidence) / 2))
    return np.where(n >= 2, wider, np.nan)


def _ordered(samples: FloatArray, positions: list[FloatArray]) -> FloatArray:
    """The rows sorted, nan last; only at these positions where they are few, which is much faster."""
    wanted = np.concatenate([[np.floor(p), np.floor(p) + 1] for p in positions], axis=None)
    inside = np.unique(np.clip(np.nan_to_num(wanted), 0, samples.shape[1] - 1)).astype(np.int64)
    return np.partition(samples, inside, axis=1) if len(inside) <= _FEW_POSITIONS else np.sort(samples, axis=1)


def _at(ordered: FloatArray, position: FloatArray) -> FloatArray:
    """The value of each sorted row at a fractional position; nan where the position is nan or before the first."""
    inside = np.where(position >= 0, position, 0.0)
    below = np.floor(inside).astype(np.int64)
    rows = np.arange(len(ordered))
    above = np.minimum(below + 1, ordered.shape[1] - 1)
    part = inside - below
    mixed = np.where(part > 0, ordered[rows, below] * (1 - part) + ordered[rows, above] * part, ordered[rows, below])
    return np.where(position >= 0, mixed, np.nan)


def mean_over_pairs(values: FloatArray, pairs: Pairs, drawn: FloatArray, people: BoolArray) -> FloatArray:
    """Mean over pairs in each resample, with the people drawn; (resamples,).

    `values` is (pairs, resamples), `drawn` (resamples, observers) and `people` marks the observers that were drawn; a
    model counts once. Two copies of one person are never a pair. nan where no pair is defined.
    """
    times = np.where(people, drawn, 1.0)
    weight = (times[:, pairs[:, 0]] * times[:, pairs[:, 1]]).T  # (pairs, resamples)
    weight = np.where(np.isnan(values), 0.0, weight)
    return divide((np.nan_to_num(values) * weight).sum(axis=0), weight.sum(axis=0))


def pair_estimate(
    measure: str, answers: Answers, *, resamples: int = 10_000, confidence: float = 0.95, rng: np.random.Generator
) -> Estimate:
    """A measure of two observers with its interval over stimuli.

    >>> table = Answers.of_correctness([1, 1, 0, 0] * 50, [1, 0, 0, 0] * 50)
    >>> found = pair_estimate("ec", table, rng=np.random.default_rng(0))
    >>> round(found.value, 2), found.low < .5 < found.high
    (0.5, True)
    """
    if answers.observers != 2:
        raise InvalidInput(f"a pair has two observers, got {answers.observers}; use cosight.compare for more")
    form = pair_forms[measures.name_of(measure)]
    pairs = np.array([[0, 1]])
    small = compress(answers)
    weights = draw_stimuli(small.counts, resamples, rng)
    value, n = form.matrix(answers)[:1, 1], form.count(answers, pairs)
    min_high = None if form.min_high is None else form.min_high(answers, pairs, confidence)
    samples = form.resampled(small.answers, weights, pairs)
    interval = percentile_interval(samples, value, n=n, min_high=min_high, confidence=confidence)
    note = f"{interval.undefined[0]} of {resamples} resamples undefined" if interval.undefined[0] else ""
    facts = measures[measure]
    low, high = np.clip([interval.low[0], interval.high[0]], facts.low, facts.high)
    return Estimate(float(value[0]), float(low), float(high), int(n[0]), confidence, resamples, note)


def mean_with_interval(
    items: ArrayLike,
    *,
    bounds: tuple[float, float] = (-np.inf, np.inf),
    resamples: int = 10_000,
    confidence: float = 0.95,
    rng: np.random.Generator,
) -> Estimate:
    """The mean of per-item values (a distance for each stimulus, say) with its interval over items.

    nan items are left out and counted in the note; without items everything is nan. The interval alone is nan with one
    item, and when the mean is infinite. `bounds` is the range that a mean can have: the ends stay inside it.

    >>> mean_with_interval([0.5, 0.5, 0.5], rng=np.random.default_rng(0)).high
    0.5
    """
    _check_resamples(resamples)
    given = np.asarray(items, dtype=np.float64)
    if given.ndim != 1:
        raise InvalidInput(f"items must be one-dimensional, got shape {given.shape}")
    kept = given[~np.isnan(given)]
    n, mean = len(kept), float(kept.mean()) if len(kept) else float("nan")
    note = f"{len(given) - n} undefined items left out" if n < len(given) else ""
    if not np.isfinite(mean):
        return Estimate(mean, float("nan"), float("nan"), n, confidence, resamples, note)
    samples = np.array([kept[rng.integers(0, n, n)].mean() for _ in range(resamples)])
    interval = percentile_interval(samples[None], np.array([mean]), n=np.array([float(n)]), confidence=confidence)
    low, high = np.clip([interval.low[0], interval.high[0]], *bounds)
    return Estimate(mean, float(low), float(high), n, confidence, resamples, note)


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """The first observer's value less the second's, on the same resamples."""

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
    """a - b with its interval and p-value from shared resamples (resamples,); `n` trials widen it if they are few.

    p = 2 min(share of moved differences at or below 0, share at or above), with one resample added to each side, so
    that it is never 0; moved as in `percentile_interval`. nan where a or b is, or where a tenth of the resamples are.

    >>> same = np.linspace(-1, 1, 99)
    >>> paired_difference(0.5, 0.5, same, same).p
    1.0
    """
    samples, value = a_samples - b_samples, np.array([a - b])
    trials = None if n is None else np.array([n])
    interval = percentile_interval(samples[None], value, n=trials, confidence=confidence)
    if np.isnan(interval.low[0]):
        return PairedDifference(float(value[0]), float("nan"), float("nan"), float("nan"))
    kept = samples[~np.isnan(samples)]
    moved = kept - np.median(kept) + value[0]
    least = min(np.count_nonzero(moved <= 0), np.count_nonzero(moved >= 0))
    p = min(1.0, 2 * (least + 1) / (len(moved) + 1))
    return PairedDifference(float(value[0]), float(interval.low[0]), float(interval.high[0]), p, least == 0)


def holm(p: ArrayLike) -> FloatArray:
    """Adjust p-values of several tests so that any false positive among them is as rare as in one (Holm 1979).

    The k-th smallest of m is multiplied by m - k + 1, at most 1 and never below the one before it. nan stays nan and
    does not count as a test.

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
    """Rank 1 for the best along the first axis; ties share their mean rank, nan has none.

    >>> ranks(np.array([.3, .9, .3]))
    array([2.5, 1. , 2.5])
    """
    signed = -values if direction == "higher" else values
    defined = ~np.isnan(signed)
    better = (signed[None] < signed[:, None]) & defined
    tied = (signed[None] == signed[:, None]) & defined
    return np.where(defined, better.sum(axis=1) + (tied.sum(axis=1) + 1) / 2, np.nan)


def rank_intervals(samples: FloatArray, *, direction: Direction = "higher", confidence: float = 0.95) -> Interval:
    """Percentile interval of each observer's rank over shared resamples (observers, resamples)."""
    ranked = np.stack([ranks(column, direction=direction) for column in samples.T], axis=1)
    ends = [(1 - confidence) / 2, (1 + confidence) / 2]
    undefined = np.isnan(ranked).sum(axis=1)
    low, high = np.full(len(ranked), np.nan), np.full(len(ranked), np.nan)
    for row in np.flatnonzero(undefined <= 0.1 * ranked.shape[1]):
        low[row], high[row] = np.quantile(ranked[row][~np.isnan(ranked[row])], ends, method="nearest")
    return Interval(low, high, undefined)

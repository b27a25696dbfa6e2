"""The measures beside a matrix product, scikit-learn's kappa in a loop, and a plain bootstrap.

Where a peer would take minutes it runs on a sample, and `against` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.metrics import cohen_kappa_score

from cosight.arrays import BoolArray, FloatArray
from cosight.measures.answers import Answers
from cosight.measures.confusion import class_level_error_similarity_matrix
from cosight.measures.consistency import error_consistency, error_consistency_matrix
from cosight.measures.misclassification import misclassification_agreement_matrix
from cosight.measures.uncertainty import pair_estimate
from tests.measures.simulated import Population, answer, pairs_of

__all__ = ["FULL", "Line", "Size", "best", "kappa_loop", "lines", "resampling_loop", "study"]


@dataclass(frozen=True, slots=True)
class Line:
    """One comparison: ours beside theirs."""

    name: str
    against: str
    ours: float
    theirs: float
    limit: float | None  # None: for information
    faster: bool  # the limit is how many times faster we must be; otherwise how many times as much we may take
    unit: str = "s"

    @property
    def ratio(self) -> float:
        """How many times faster we are, or how many times as much we take."""
        return self.theirs / self.ours if self.faster else self.ours / self.theirs

    @property
    def ok(self) -> bool:
        """Is the limit kept?"""
        return self.limit is None or (self.ratio >= self.limit if self.faster else self.ratio <= self.limit)

    def shown(self, amount: float) -> str:
        """An amount as text."""
        if self.unit != "s":
            return f"{amount:.0f} {self.unit}"
        return f"{amount:.3g} s" if amount >= 1 else f"{amount * 1e3:.3g} ms"


@dataclass(frozen=True, slots=True)
class Size:
    """How much work; the limits hold for FULL."""

    observers: int
    trials: int
    sampled_pairs: int  # that the loop over pairs is timed on
    resamples: int
    sampled_resamples: int  # that the loop over resamples is timed on
    pair_trials: int
    repeats: int


FULL = Size(100, 50_000, 40, 10_000, 300, 1_280, 7)


def lines(size: Size) -> Iterator[Line]:
    """Yield the lines about measures, each when it is measured."""
    table = study(size.observers, size.trials)
    yield from _consistency_lines(table, size)
    yield from _agreement_lines(table, size)
    yield from _interval_lines(size)


def study(observers: int, trials: int) -> Answers:
    """People of accuracies around .6 (two in three .45 to .74) with shared difficulty and structured confusions."""
    rng = np.random.default_rng(0)
    return answer(Population(0.6).draw(observers, rng), trials, rng)


def best(function: Callable[[], Any], repeats: int) -> float:
    """Seconds of the fastest of several calls, after one that is not counted."""
    function()
    times = []
    for _ in range(repeats):
        start = perf_counter()
        function()
        times.append(perf_counter() - start)
    return min(times)


def _consistency_lines(table: Answers, size: Size) -> list[Line]:
    correct = table.correct
    shown = np.random.default_rng(1).random(correct.shape) < 0.9
    x, y = correct.astype(np.float32), np.ascontiguousarray(correct.T.astype(np.float32))
    product = best(lambda: x @ y, size.repeats)
    shape = f"{size.observers} x {size.trials:,}"
    against = "one float32 matrix product of that shape"
    complete = best(lambda: error_consistency_matrix(correct), size.repeats)
    partial_ = best(lambda: error_consistency_matrix(correct, shown), size.repeats)
    return [
        Line(f"EC of all pairs, {shape}", against, complete, product, 3, faster=False),
        Line(f"EC of all pairs, {shape}, a tenth not shown", against, partial_, product, 8, faster=False),
    ]


def _agreement_lines(table: Answers, size: Size) -> list[Line]:
    pairs = pairs_of(size.observers)
    sampled = pairs[:: max(1, len(pairs) // size.sampled_pairs)]
    scale = len(pairs) / len(sampled)
    ma = best(lambda: misclassification_agreement_matrix(table), size.repeats)
    cles = best(lambda: class_level_error_similarity_matrix(table), size.repeats)
    every = best(partial(kappa_loop, table, sampled), 1) * scale
    joint = best(partial(kappa_loop, table, sampled, jointly_wrong=True), 1) * scale
    loop = f"scikit-learn's kappa pair by pair, {len(sampled)} of {len(pairs)} pairs timed"
    name = f"of all pairs, {size.observers} x {size.trials:,}, {table.classes} classes"
    return [
        Line(f"MA {name}", f"{loop}, all trials", ma, every, 100, faster=True),
        Line(f"MA {name}", f"{loop}, jointly wrong trials", ma, joint, None, faster=True),
        Line(f"CLES {name}", f"{loop}, all trials", cles, every, 100, faster=True),
    ]


def kappa_loop(table: Answers, pairs: Any, *, jointly_wrong: bool = False) -> FloatArray:
    """Cohen's kappa of the answers of each pair, as one writes it with scikit-learn."""
    wrong, out = table.wrong, np.empty(len(pairs))
    for index, (i, j) in enumerate(pairs):
        a, b = table.response[i], table.response[j]
        if jointly_wrong:
            both = wrong[i] & wrong[j]
            a, b = a[both], b[both]
        out[index] = cohen_kappa_score(a, b)
    return out


def _interval_lines(size: Size) -> list[Line]:
    table = study(2, size.pair_trials)
    a, b = table.correct

    def ours() -> None:
        pair_estimate("ec", Answers.of_correctness(a, b), resamples=size.resamples, rng=np.random.default_rng(0))

    def loop(kappa: Callable[[BoolArray, BoolArray], float]) -> float:
        timed = best(
            lambda: resampling_loop(a, b, size.sampled_resamples, np.random.default_rng(0), kappa), size.repeats
        )
        return timed * size.resamples / size.sampled_resamples

    name = f"interval of EC, {size.pair_trials:,} trials, {size.resamples:,} resamples"
    sampled = f"{size.sampled_resamples} of {size.resamples:,} timed"
    mine = best(ours, size.repeats)
    return [
        Line(
            name, f"a loop over resamples that calls error_consistency, {sampled}", mine, loop(plain_kappa), 100, True
        ),
        Line(name, f"the same loop with kappa written out in numpy, {sampled}", mine, loop(lean_kappa), None, True),
    ]


def plain_kappa(a: BoolArray, b: BoolArray) -> float:
    """The measure as anyone calls it."""
    return error_consistency(a, b).value


def lean_kappa(a: BoolArray, b: BoolArray) -> float:
    """Cohen's kappa of right and wrong in as few calls as it takes."""
    pa, pb = a.mean(), b.mean()
    expected = pa * pb + (1 - pa) * (1 - pb)
    return float(((a == b).mean() - expected) / (1 - expected))


def resampling_loop(
    a: BoolArray,
    b: BoolArray,
    resamples: int,
    rng: np.random.Generator,
    kappa: Callable[[BoolArray, BoolArray], float] = lean_kappa,
) -> FloatArray:
    """Error consistency of trials drawn again, one resample at a time."""
    out = np.empty(resamples)
    for index in range(resamples):
        drawn = rng.integers(0, len(a), len(a))
        out[index] = kappa(a[drawn], b[drawn])
    return out

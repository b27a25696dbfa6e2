"""Scoring trials beside plain ways to do it: VisAlign's table, large tables, clusters of stimuli.

VisAlign's table from a run's trials, five models with eight abstention functions on 900 images, is compared with a loop
that draws images again within each category and takes mean distances, no more: the table has reliability, ranks,
correlations and ceilings besides. Where a peer would take minutes it runs on a sample, and `against` says so.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import polars as pl

from cosight.arrays import FloatArray
from cosight.measures.answers import Answers
from cosight.measures.arithmetic import Pairs
from cosight.measures.declarations import measures, pair_forms
from cosight.measures.distance import distance_items
from cosight.measures.draws import draw_stimuli
from cosight.measures.uncertainty import pair_estimate, percentile_interval
from cosight.scoring.compare import compare
from cosight.scoring.score import score
from cosight.statistics.blocks import rows_of
from cosight.statistics.pair_scores import pair_blocks
from cosight.statistics.resampling import draw_resamples, random_stream
from cosight.trials.formats import write
from cosight.trials.join import AlignedTrials, align, stimulus_groups
from cosight.trials.spaces import label_spaces
from cosight.trials.table import Trials, make_trials
from perf.lines import Line, best, study
from tests.measures.simulated import pairs_of
from tests.scoring.made_runs import VISALIGN, answers, random_answers, stimuli, write_run

__all__ = ["FULL", "Size", "engine_intervals", "lines", "peak_of_compare", "plain_intervals", "trials_of"]

_MOST_MEMORY = 2000  # MB, of compare on the large table, everything included
_PAIR_MEASURES = ("error_consistency", "misclassification_agreement", "class_level_error_similarity")


@dataclass(frozen=True, slots=True)
class Size:
    """How much work; the limits hold for FULL."""

    images: int  # a category of VisAlign's table; twice as many Uncertain ones
    observers: int
    resamples: int
    sampled_resamples: int  # that the loop is timed on
    people: int  # of the large table
    models: int
    stimuli: int
    sampled_pairs: int  # that the loop over pairs is timed on
    scored_people: int  # of the table that `score` and `compare` are timed on
    clustered_observers: int  # of the table whose stimuli come in clusters
    cluster: int  # stimuli of one cluster


FULL = Size(100, 40, 1000, 100, 250, 50, 10_000, 20, 100, 60, 30)


def lines(size: Size) -> Iterator[Line]:
    """The lines about the table of a benchmark, about large tables and about clusters."""
    yield _table_line(size)
    yield from _large_lines(size)
    yield _score_line(size)
    yield from _cluster_lines(size)


def _table_line(size: Size) -> Line:
    rows = stimuli({number: size.images * (2 if number == 8 else 1) for number in range(1, 9)}, VISALIGN)
    said = [
        answers(rows, f"model:{place}", random_answers(place, VISALIGN), VISALIGN) for place in range(size.observers)
    ]
    with tempfile.TemporaryDirectory() as folder:
        run = write_run(Path(folder) / "run", rows, [trial for part in said for trial in part], VISALIGN)
        ours = best(partial(score, run, on="visalign", resamples=size.resamples), 1)
    gold = np.array([row["gold"] for row in rows])
    category = np.array([row["category"] for row in rows])
    given = np.array(
        [[[*np.multiply(t["probabilities"], 1 - t["abstention"]), t["abstention"]] for t in part] for part in said]
    )
    loop = best(partial(_resampled_means, gold, category, given, size.sampled_resamples), 1)
    theirs = loop * size.resamples / size.sampled_resamples
    name = f"VisAlign's table, {len(rows)} images x {size.observers} lines, {size.resamples:,} resamples"
    against = f"a loop over resamples, distances alone, {size.sampled_resamples} of {size.resamples:,} timed"
    return Line(name, against, ours, theirs, 1, faster=True)


def _resampled_means(gold: np.ndarray, category: np.ndarray, given: np.ndarray, resamples: int) -> np.ndarray:
    """Mean Hellinger distance of each observer and category, for images drawn again."""
    rng, distance = np.random.default_rng(0), distance_items["hellinger"]
    out = np.empty((resamples, len(given), 8))
    for resample in range(resamples):
        for number in range(1, 9):
            mine = np.flatnonzero(category == number)
            drawn = rng.choice(mine, len(mine))
            for observer, p in enumerate(given):
                out[resample, observer, number - 1] = distance(gold[drawn], p[drawn]).mean()
    return out


def trials_of(table: Answers, people: int, cluster: int = 1) -> Trials:
    """Trials of so many people and, for the rest, of models; `block` counts clusters of stimuli."""
    space = label_spaces["model-vs-human-16"]
    names = np.array(space.classes)
    kinds = ["human"] * people + ["model"] * (table.observers - people)
    observers = [f"{kind}:{index:03d}" for index, kind in enumerate(kinds)]
    each = table.observers
    frame = pl.DataFrame(
        {
            "observer": np.repeat(observers, table.stimuli),
            "kind": np.repeat(kinds, table.stimuli),
            "experiment": "simulated",
            "image": np.tile([f"{index:05d}.png" for index in range(table.stimuli)], each),
            "truth": np.tile(names[table.truth], each),
            "response": names[table.response].ravel(),
            "block": np.tile(np.arange(table.stimuli) // cluster, each),
        }
    )
    return make_trials(frame, space=space)


# ---- large tables


def _large_lines(size: Size) -> Iterator[Line]:
    observers = size.people + size.models
    table = study(observers, size.stimuli)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trials.parquet"
        write(trials_of(table, size.people), path)
        seconds, peak = peak_of_compare(path, size.resamples)
    pairs = pairs_of(observers)
    chosen = pairs[:: max(1, len(pairs) // size.sampled_pairs)]
    loop = partial(_pair_by_pair, table, chosen, size.resamples)
    theirs = _seconds(loop) * len(pairs) / len(chosen)
    name = f"compare, {size.people} people and {size.models} models x {size.stimuli:,}, {size.resamples:,} resamples"
    against = f"pair_estimate of EC, MA and CLES pair by pair, {len(chosen)} of {len(pairs):,} pairs timed"
    yield Line(name, against, seconds, theirs, 30, faster=True)
    yield Line(f"{name}: peak memory", "2 GB", peak, _MOST_MEMORY, 1, faster=False, unit="MB")


def _pair_by_pair(table: Answers, pairs: Any, resamples: int) -> None:
    for pair in pairs:
        for name in _PAIR_MEASURES:
            pair_estimate(name, table.of(pair), resamples=resamples, rng=np.random.default_rng(0))


_PEAK = """
import os, sys
if child := os.fork():  # a process started by a large one inherits its peak; a forked one starts afresh
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
import json, resource
from time import perf_counter
from cosight import compare
start = perf_counter()
compare(sys.argv[1], resamples=int(sys.argv[2]))
unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux kilobytes
print(json.dumps([perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6]))
"""


def peak_of_compare(path: Path, resamples: int) -> tuple[float, float]:
    """How many seconds `compare` takes in a process of its own, and the peak of its memory in MB."""
    command = [sys.executable, "-c", _PEAK, str(path), str(resamples)]
    seconds, peak = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return float(seconds), float(peak)


def _score_line(size: Size) -> Line:
    trials = trials_of(study(size.scored_people, size.stimuli), size.scored_people)
    name = f"score, {len(trials):,} trials of {size.scored_people} people, {size.resamples:,} resamples"
    ours, theirs = (_seconds(partial(call, trials, resamples=size.resamples)) for call in (score, compare))
    return Line(name, "compare on the same trials", ours, theirs, 2.5, faster=False)


# ---- clusters of stimuli


def _cluster_lines(size: Size) -> Iterator[Line]:
    """The engine beside what it did before there were clusters, and clusters beside single stimuli."""
    table = study(size.clustered_observers, size.stimuli)
    people = size.clustered_observers // 2
    trials = trials_of(table, people, size.cluster)
    aligned = align(trials)
    pairs = pairs_of(size.clustered_observers)
    shape = f"{size.clustered_observers} observers x {size.stimuli:,}, {size.resamples:,} resamples"
    yield Line(
        f"intervals of EC, MA and CLES of all pairs, {shape}",
        "stimuli drawn, measured and turned into percentiles, without clusters",
        _seconds(partial(engine_intervals, aligned, pairs, size.resamples)),
        _seconds(partial(plain_intervals, table, pairs, size.resamples)),
        1.5,
        faster=False,
    )
    by_cluster, alone = (
        _seconds(partial(compare, trials, resamples=size.resamples, cluster_by=by)) for by in (["block"], ["none"])
    )
    name = f"compare, stimuli in clusters of {size.cluster}, {shape}"
    yield Line(name, "compare with --cluster-by none", by_cluster, alone, 2, faster=False)


def engine_intervals(aligned: AlignedTrials, pairs: Pairs, resamples: int) -> dict[str, FloatArray]:
    """Intervals of every pair, (pairs, 2), as `compare` makes them."""
    draw = draw_resamples(aligned, stimulus_groups(aligned, ())[0], resamples=resamples, seed=0)
    blocks = pair_blocks(draw, pairs, {name: pair_forms[name] for name in _PAIR_MEASURES}, 0.95)
    rows = [row for block in blocks for row in rows_of(block, confidence=0.95, seed=0)]
    single = [row for row in rows if row.observer in draw.names and row.against in draw.names]
    return {name: np.array([(row.low, row.high) for row in single if row.measure == name]) for name in _PAIR_MEASURES}


def plain_intervals(table: Answers, pairs: Pairs, resamples: int) -> dict[str, FloatArray]:
    """The same intervals, each step written out for stimuli that are drawn one by one; CLES by the bootstrap too."""
    rng = random_stream(0, "stimuli", "()")
    weights = draw_stimuli(np.ones(table.stimuli), resamples, rng)
    intervals = {}
    for name in _PAIR_MEASURES:
        form = pair_forms[name]
        values = form.matrix(table)[pairs[:, 0], pairs[:, 1]]
        least = None if form.min_high is None else form.min_high(table, pairs, 0.95)
        n, samples = np.minimum(form.count(table, pairs), table.stimuli), form.resampled(table, weights, pairs)
        biased = np.full(len(pairs), form.biased)
        found = percentile_interval(samples, values, n=n, min_high=least, biased=biased)
        facts = measures[name]
        intervals[name] = np.clip(np.stack([found.low, found.high], axis=1), facts.low, facts.high)
    return intervals


def _seconds(call: Callable[[], Any]) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start

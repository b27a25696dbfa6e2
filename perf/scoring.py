"""VisAlign's table from a run's trials: five models with eight abstention functions on 900 images, beside a plain loop.

The loop draws images again within each category and takes mean distances, no more: the table has reliability, ranks,
correlations and ceilings besides.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from cosight.measures.distance import distance_items
from cosight.scoring.score import score
from perf.lines import Line, best
from tests.scoring.made_runs import VISALIGN, answers, random_answers, stimuli, write_run

__all__ = ["FULL", "Size", "lines"]


@dataclass(frozen=True, slots=True)
class Size:
    """How much work; the limit holds for FULL."""

    images: int  # a category; twice as many Uncertain ones
    observers: int
    resamples: int
    sampled_resamples: int  # that the loop is timed on


FULL = Size(100, 40, 1000, 100)


def lines(size: Size) -> Iterator[Line]:
    """The line about the table."""
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
    yield Line(name, against, ours, theirs, 1, faster=True)


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

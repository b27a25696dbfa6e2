"""Trials made up for the tests of scoring, and the plain way to score them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from scipy import stats

from cosight.statistics.rows import Row, Scores, parse_group
from cosight.trials import LabelSpace, Trials, make_trials
from cosight.trials.table import SCHEMA

LETTERS = LabelSpace("letters", ("a", "b", "c"))
REFUSING = LabelSpace("letters", ("a", "b", "c"), abstain=True)
CONDITIONS = {"one": ("x", "y"), "two": ("z",)}


def trials(rows: Sequence[dict[str, Any]], space: LabelSpace | None = LETTERS) -> Trials:
    """A table of trials from its rows."""
    return make_trials(pl.DataFrame(list(rows), schema=_schema(rows), infer_schema_length=None), space=space)


def _schema(rows: Sequence[dict[str, Any]]) -> dict[str, pl.DataType]:
    return {name: kind for name, kind in SCHEMA.items() if any(name in row for row in rows)}


def observers(people: int = 0, models: int = 0, simulated: int = 0) -> list[tuple[str, str]]:
    """(name, kind) of so many."""
    counts = {"human": people, "simulated": simulated, "model": models}
    return [(f"{kind}:{i}", kind) for kind, count in counts.items() for i in range(count)]


def answered(
    who: Sequence[tuple[str, str]],
    *,
    conditions: dict[str, tuple[str, ...]] = CONDITIONS,
    stimuli: int = 14,
    classes: Sequence[str] = LETTERS.classes,
    skill: float = 0.5,
    missing: float = 0.05,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Rows in which everyone answers every stimulus: right with `skill`, else anything, sometimes nothing."""
    rng = np.random.default_rng(seed)
    rows = []
    for experiment, names in conditions.items():
        for condition in names:
            for i in range(stimuli):
                truth = classes[i % len(classes)]
                for name, kind in who:
                    said = truth if rng.random() < skill else str(rng.choice(list(classes)))
                    rows.append(
                        {
                            "observer": name,
                            "kind": kind,
                            "experiment": experiment,
                            "condition": condition,
                            "image": f"{i:03d}.png",
                            "truth": truth,
                            "response": None if kind == "human" and rng.random() < missing else said,
                        }
                    )
    return rows


def row_of(
    scores: Scores, observer: str, against: str | None, measure: str, group: str = "", statistic: str = "value"
) -> Row:
    """The one row about these."""
    wanted = (observer, against, measure, parse_group(group), statistic)
    rows = [row for row in scores.rows if (row.observer, row.against, row.measure, row.group, row.statistic) == wanted]
    assert len(rows) == 1, f"{wanted} has {len(rows)} rows"
    return rows[0]


def plain_interval(
    samples: np.ndarray, value: float, n: float, confidence: float = 0.95, *, biased: bool = False, mean: bool = False
) -> tuple[float, float]:
    """Percentiles of the defined resamples, a little further out for small n, with their median moved to the value.

    They are moved as far again for a measure that is biased, and to the longer side for a mean of skewed items.
    """
    kept = samples[~np.isnan(samples)]
    z = np.sqrt(n / (n - 1)) * stats.t.ppf((1 + confidence) / 2, n - 1)
    move = stats.skew(kept) * (z**2 + 1) / 6 if mean else 0.0
    read = min(z, 1.25 * stats.norm.ppf((1 + confidence) / 2))  # few resamples lie further out
    middle, ends = np.median(kept), np.quantile(kept, stats.norm.cdf([move - read, move + read]))
    low, high = middle + min(z / read, 1.5) * (ends - middle)
    shift = value - middle
    if biased:
        return float(min(low + 2 * shift, value)), float(max(high + 2 * shift, value))
    return float(low + shift), float(high + shift)


def plain_mean(values: Sequence[float]) -> float:
    """The mean of what is defined."""
    kept = [v for v in values if not np.isnan(v)]
    return float(np.mean(kept)) if kept else float("nan")

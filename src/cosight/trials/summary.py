"""What is in a table of trials: counts, accuracy, missing answers, and what looks wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from cosight.trials.join import align, natural, people_first
from cosight.trials.table import Trials, select_roles

__all__ = ["Summary", "summarise"]


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """A table of trials at a glance."""

    headline: str
    observers: pl.DataFrame
    conditions: pl.DataFrame
    notices: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "headline": self.headline,
            "observers": self.observers.to_dicts(),
            "conditions": self.conditions.to_dicts(),
            "notices": list(self.notices),
        }


def summarise(trials: Trials, *, roles: Sequence[str] = ("test",)) -> Summary:
    """Count trials by observer, and by experiment and condition; accuracy where the truth is known.

    Args:
        trials: Any trials.
        roles: Only trials of these roles are counted, and only first showings unless `repeat` is among them.
    """
    chosen = select_roles(trials, roles)
    if chosen.frame["truth"].null_count() == len(chosen):
        frame, notices = chosen.frame, (*chosen.notices, "no trial has a truth: accuracy is unknown")
    else:
        table = align(trials, roles=roles)
        rows = np.unique(table.rows[table.rows >= 0])
        frame, notices = trials.frame[rows], table.notices
    frame = frame.with_columns(right=(pl.col("response") == pl.col("truth")).fill_null(False))
    numbers = [
        pl.len().alias("trials"),
        pl.struct("experiment", "condition", pl.coalesce("image", "stimulus")).n_unique().alias("stimuli"),
        pl.col("response").null_count().alias("missing"),
        pl.col("right").filter(pl.col("truth").is_not_null()).mean().alias("accuracy"),
        pl.col("rt").median().alias("median rt"),
    ]
    by_observer = frame.group_by("kind", "observer", maintain_order=True).agg(
        pl.col("experiment").n_unique().alias("experiments"), pl.col("session").n_unique().alias("sessions"), *numbers
    )
    by_condition = frame.group_by("experiment", "condition").agg(
        pl.col("observer").n_unique().alias("observers"), *numbers
    )
    order = sorted(by_observer.select("kind", "observer").rows(), key=people_first)
    by_observer = pl.DataFrame(order, schema=["kind", "observer"], orient="row").join(
        by_observer, on=["kind", "observer"], maintain_order="left"
    )
    conditions = by_condition.rows(named=True)
    conditions.sort(key=lambda row: (row["experiment"] or "", natural(row["condition"] or "")))
    counts = frame["experiment"].n_unique()
    space = trials.space.name if trials.space else "not declared"
    headline = f"{frame.height} trials, {by_observer.height} observers, {counts} experiments; label space {space}"
    return Summary(headline, by_observer, pl.DataFrame(conditions, schema=by_condition.schema), notices)

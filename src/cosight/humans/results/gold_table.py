"""What a study's participants, taken together, saw in each image, or chose in each task, and how sure of it we are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from cosight.errors import InvalidInput
from cosight.humans.results.records import asked_once, groups_of
from cosight.measures.choice import choice_share
from cosight.measures.gold_distributions import gold_distribution, label_counts
from cosight.measures.uncertainty import mean_with_interval
from cosight.trials.choices import TARGET
from cosight.trials.spaces import LabelSpace
from cosight.trials.table import Trials

__all__ = ["gold_table"]

_SCHEMA: dict[str, pl.DataType] = {
    "group": pl.String(),  # people, or simulated people
    "stimulus": pl.String(),  # digest, or task; null: the mean over all tasks
    "image": pl.String(),
    "truth": pl.String(),
    "answer": pl.String(),  # a class or abstain; for a choice among options `target`
    "count": pl.Int64(),
    "n": pl.Int64(),  # answers; for the mean over tasks the tasks
    "share": pl.Float64(),
    "low": pl.Float64(),
    "high": pl.Float64(),
}


def gold_table(trials: Trials, *, confidence: float = 0.95, seed: int = 0) -> pl.DataFrame:
    """The share of every answer to each image, with Wilson's interval for each share on its own.

    Of 2AFC and clustering tasks it is the share of those who chose the aligned option; a last row of each group has
    their mean over tasks, with a bootstrap interval over tasks. Only first showings count.
    """
    rows = [
        row for name, part in groups_of(trials).items() for row in _rows(name, part, trials.space, confidence, seed)
    ]
    return pl.DataFrame(rows, schema=_SCHEMA)


def _rows(
    group: str, records: pl.DataFrame, space: LabelSpace | None, confidence: float, seed: int
) -> list[dict[str, Any]]:
    table = asked_once(records).filter(pl.col("answer").is_not_null())
    if table["choices"].is_not_null().all():
        return _choices(group, table, confidence, seed)
    if space is None:
        raise InvalidInput("gold labels are about classes or options, got other answers; a curated list has --curated")
    return _shares(group, table, space.answers, confidence)


def _items(table: pl.DataFrame) -> pl.DataFrame:
    return table.unique("item", keep="first", maintain_order=True).select("item", "image", "truth")


def _shares(group: str, table: pl.DataFrame, answers: Sequence[str], confidence: float) -> list[dict[str, Any]]:
    items = _items(table)
    places = {item: place for place, item in enumerate(items["item"])}
    where, said = [places[item] for item in table["item"]], [answers.index(answer) for answer in table["answer"]]
    counts = label_counts(where, said, len(answers), items=len(places)).counts
    gold = gold_distribution(counts, confidence=confidence)
    return [
        {
            **{"group": group, "stimulus": row["item"], "image": row["image"], "truth": row["truth"]},
            **{"answer": answer, "count": int(counts[i, c]), "n": int(gold.n[i])},
            **{"share": gold.probabilities[i, c], "low": gold.low[i, c], "high": gold.high[i, c]},
        }
        for i, row in enumerate(items.iter_rows(named=True))
        for c, answer in enumerate(answers)
    ]


def _choices(group: str, table: pl.DataFrame, confidence: float, seed: int) -> list[dict[str, Any]]:
    chosen = (table["answer"] != TARGET).cast(pl.Int64).to_numpy()  # 0 is the aligned option
    right = choice_share(chosen, np.zeros(len(chosen), np.int64)).items
    said = [TARGET if item == 1 else "" for item in right]
    rows = _shares(group, table.with_columns(answer=pl.Series(said, dtype=pl.String)), (TARGET, ""), confidence)
    aligned = [row for row in rows if row["answer"] == TARGET]
    mean = mean_with_interval(
        [row["share"] for row in aligned], bounds=(0, 1), confidence=confidence, rng=np.random.default_rng(seed)
    )
    ends = {"share": mean.value, "low": mean.low, "high": mean.high}
    total = {"group": group, "answer": TARGET, "count": sum(row["count"] for row in aligned), "n": mean.n, **ends}
    return [*aligned, {**total, "stimulus": None, "image": None, "truth": None}]

"""Curators' votes: which images are kept, and about which they disagree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import polars as pl

from cosight.errors import InvalidInput
from cosight.humans.results.records import asked_once, groups_of
from cosight.trials.choices import KEEP, REJECT
from cosight.trials.table import Trials

__all__ = ["curated_list", "is_curation"]

_SCHEMA: dict[str, pl.DataType] = {
    "stimulus": pl.String(),
    "file": pl.String(),
    "image": pl.String(),
    "truth": pl.String(),
    "keep": pl.Int64(),
    "reject": pl.Int64(),
    "reasons": pl.String(),  # the commonest first, with how many gave it
    "kept": pl.Boolean(),
    "disagreement": pl.Boolean(),
    "curators": pl.String(),  # people, or simulated people
}


def is_curation(trials: Trials) -> bool:
    """Whether the answers are votes to keep or reject an image."""
    return trials.space is None and bool(set(trials.frame["response"].drop_nulls()) <= {KEEP, REJECT})


def curated_list(trials: Trials, *, files: Mapping[str, str] | None = None) -> pl.DataFrame:
    """One row an image, disagreements first: votes, reasons and whether it is kept.

    It is kept when more curators keep than reject it; a tie is rejected. People's votes alone count where there are
    some. `files` are the images' names in their set, by digest.
    """
    if not is_curation(trials):
        raise InvalidInput("a curated list is made of votes to keep or reject, got other answers; use a curate study")
    group, records = next(iter(groups_of(trials).items()))  # people come first
    votes = asked_once(records).filter(pl.col("answer").is_not_null())
    rows = [_row(part, group, files or {}) for part in votes.partition_by("item", maintain_order=True)]
    rows.sort(key=lambda row: (not row["disagreement"], row["image"] or "", row["stimulus"]))
    return pl.DataFrame(rows, schema=_SCHEMA)


def _row(votes: pl.DataFrame, group: str, files: Mapping[str, str]) -> dict[str, Any]:
    first = votes.row(0, named=True)
    count = Counter(votes["answer"])
    reasons = Counter(votes["reason"].drop_nulls()).most_common()
    return {
        **{"stimulus": first["item"], "file": files.get(first["item"]), "image": first["image"]},
        **{"truth": first["truth"], "keep": count[KEEP], "reject": count[REJECT], "curators": group},
        "reasons": "; ".join(f"{reason} ({times})" for reason, times in reasons),
        "kept": count[KEEP] > count[REJECT],
        "disagreement": bool(count[KEEP] and count[REJECT]),
    }

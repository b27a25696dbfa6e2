"""A study's trials with what they were for: the JSON of each trial as columns, and answers that can be compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from cosight.errors import InvalidInput
from cosight.trials.table import Trials

__all__ = ["OTHER", "PEOPLE", "SIMULATED", "TARGET", "asked_once", "first_showings", "groups_of", "records_of"]

PEOPLE, SIMULATED = "people", "simulated people"  # what tables call the two; they never share a figure
TARGET, OTHER = "target", "other"  # answers to 2AFC and clustering tasks; the other options are numbered
_KINDS = {"human": PEOPLE, "simulated": SIMULATED}
_FIELDS: dict[str, pl.DataType] = {
    "role": pl.String(),
    "form": pl.Int64(),
    "expected": pl.String(),
    "clear": pl.Boolean(),
    "repeat_of": pl.Int64(),
    "options": pl.List(pl.String()),
    "reason": pl.String(),
    "late": pl.Boolean(),
    "finished": pl.Boolean(),
}


def records_of(trials: Trials) -> pl.DataFrame:
    """The answers of people, real and simulated, in the order of each participant.

    Columns besides those of the trials' JSON (`role` is test where it says nothing): `group` (people or simulated
    people), `participant`, `item` (digest, task, or experiment, condition and image), `image`, `truth`, `response`,
    `rt`, `session`, `trial`; `answer`, what is compared between participants (the response; for a choice among options
    target, other 1, ...); `choices`, the answer behind each option, left to right (null where the answers are the same
    for every item).
    """
    frame = trials.frame.filter(pl.col("kind").is_in(list(_KINDS)))
    named = pl.concat_str(["experiment", "condition", "image"], separator="/", ignore_nulls=True)
    table = frame.select(
        pl.col("kind").replace_strict(_KINDS, return_dtype=pl.String).alias("group"),
        pl.col("observer").alias("participant"),
        pl.coalesce("stimulus", named).alias("item"),
        *("image", "truth", "response", "rt", "session", "trial"),
    )
    table = pl.concat([table, _fields(frame["extra"])], how="horizontal")
    table = table.with_columns(pl.col("role").fill_null("test"), *_choices(table))
    return table.sort("group", "participant", "session", "trial", maintain_order=True)


def groups_of(trials: Trials) -> dict[str, pl.DataFrame]:
    """The records of people and of simulated people, those there are."""
    records = records_of(trials)
    parts = {name: records.filter(group=name) for name in _KINDS.values()}
    if not records.height:
        raise InvalidInput(
            "there must be answers of people or simulated people, got none; let somebody take part first"
        )
    return {name: part for name, part in parts.items() if part.height}


def asked_once(records: pl.DataFrame) -> pl.DataFrame:
    """First showings of the images that were asked about: no checks, no repeats."""
    return records.filter(role="test").unique(["participant", "item"], keep="first", maintain_order=True)


def first_showings(trials: Trials) -> Trials:
    """The trials about images that were asked about, without second showings, checks and warm-up."""
    role = _fields(trials.frame["extra"])["role"].fill_null("test")
    return replace(trials, frame=trials.frame.filter(role == "test"))


def _fields(extra: pl.Series) -> pl.DataFrame:
    try:
        return extra.fill_null("{}").str.json_decode(pl.Struct(_FIELDS)).struct.unnest()
    except pl.exceptions.PolarsError as error:
        raise InvalidInput(f"what a trial says besides must be JSON as a study writes it: {error}") from error


def _choices(table: pl.DataFrame) -> list[pl.Series]:
    rows = table.select("truth", "response", "options").iter_rows(named=True)
    found = [_choice(row) for row in rows]
    answers, choices = [answer for answer, _ in found], [choice for _, choice in found]
    return [
        pl.Series("answer", answers, dtype=pl.String),
        pl.Series("choices", choices, dtype=pl.List(pl.String)),
    ]


def _choice(row: Mapping[str, Any]) -> tuple[str | None, list[str] | None]:
    """An answer, and the answers behind the options where there are some: named by what they are, not by place."""
    if row["options"] is None:
        return row["response"], None
    others = sorted(set(row["options"]) - {row["truth"]})
    names = {row["truth"]: TARGET} | {option: f"{OTHER} {place}" for place, option in enumerate(others, start=1)}
    return names.get(row["response"]), [names[option] for option in row["options"]]

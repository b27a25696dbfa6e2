"""A study's trials as records: the JSON of each trial as columns, and answers that can be compared."""

from __future__ import annotations

import polars as pl

from cosight.errors import InvalidInput
from cosight.statistics.rows import PEOPLE, SIMULATED
from cosight.trials.choices import comparable_answers
from cosight.trials.table import Trials, first_showings, has_role

__all__ = ["asked_once", "groups_of", "records_of"]

_KINDS = {"human": PEOPLE, "simulated": SIMULATED}
_FIELDS: dict[str, pl.DataType] = {
    "form": pl.Int64(),
    "expected": pl.String(),
    "clear": pl.Boolean(),
    "repeat_of": pl.Int64(),
    "reason": pl.String(),
    "late": pl.Boolean(),
    "finished": pl.Boolean(),
}


def records_of(trials: Trials) -> pl.DataFrame:
    """The answers of people, real and simulated, in the order of each participant.

    Columns besides those of the trials' JSON: `group` (people or simulated people), `participant`, `item` (digest,
    task, or experiment, condition and image), `image`, `truth`, `response`, `rt`, `role`, `repetition`, `session`,
    `trial`; `answer` and `choices` as in `cosight.trials.choices`.
    """
    frame = trials.frame.filter(pl.col("kind").is_in(list(_KINDS)))
    named = pl.concat_str(["experiment", "condition", "image"], separator="/", ignore_nulls=True)
    table = frame.select(
        pl.col("kind").replace_strict(_KINDS, return_dtype=pl.String).alias("group"),
        pl.col("observer").alias("participant"),
        pl.coalesce("stimulus", named).alias("item"),
        *("image", "truth", "response", "rt", "role", "repetition", "session", "trial"),
    )
    table = pl.concat([table, _fields(frame["extra"]), comparable_answers(frame)], how="horizontal")
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
    """First showings of test stimuli."""
    return first_showings(records.filter(has_role(("test",))), ["participant", "item"])


def _fields(extra: pl.Series) -> pl.DataFrame:
    try:
        return extra.fill_null("{}").str.json_decode(pl.Struct(_FIELDS)).struct.unnest()
    except pl.exceptions.PolarsError as error:
        raise InvalidInput(f"the extra column of a study's trials must hold JSON objects: {error}") from error

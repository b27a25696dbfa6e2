"""A study's trials as records: the JSON of each trial as columns, and answers that can be compared."""

from __future__ import annotations

import polars as pl

from cosight.errors import InvalidInput
from cosight.statistics.rows import PEOPLE, SIMULATED
from cosight.trials.choices import comparable_answers
from cosight.trials.table import Trials, first_showings, has_role

__all__ = ["first_test_records", "records_by_group", "study_records"]

_KINDS = {"human": PEOPLE, "simulated": SIMULATED}
_FIELDS: dict[str, pl.DataType] = {
    "form": pl.Int64(),
    "expected": pl.String(),
    "clear": pl.Boolean(),
    "repeat_of": pl.Int64(),
    "reason": pl.String(),
    "late": pl.Boolean(),
    "windowed": pl.Boolean(),
    "finished": pl.Boolean(),
}


def study_records(trials: Trials) -> pl.DataFrame:
    """Return the answers of people, real and simulated, in the order of each participant.

    Columns besides those of the trials' JSON: `group` (people or simulated people), `participant`, `item` (digest,
    task, or experiment, condition and image), `image`, `truth`, `response`, `rt`, `role`, `repetition`, `session`,
    `trial`; `answer` and `choices` as in `cosight.trials.choices`.
    """
    frame = trials.frame.filter(pl.col("kind").is_in(list(_KINDS)))
    name = pl.concat_str(["experiment", "condition", "image"], separator="/", ignore_nulls=True)
    table = frame.select(
        pl.col("kind").replace_strict(_KINDS, return_dtype=pl.String).alias("group"),
        pl.col("observer").alias("participant"),
        pl.coalesce("stimulus", name).alias("item"),
        *("image", "truth", "response", "rt", "role", "repetition", "session", "trial"),
    )
    try:
        extra = frame["extra"].fill_null("{}").str.json_decode(pl.Struct(_FIELDS)).struct.unnest()
    except pl.exceptions.PolarsError as error:
        raise InvalidInput(f"the extra column of a study's trials must hold JSON objects: {error}") from error
    table = pl.concat([table, extra, comparable_answers(frame)], how="horizontal")
    return table.sort("group", "participant", "session", "trial", maintain_order=True)


def records_by_group(trials: Trials) -> dict[str, pl.DataFrame]:
    """Return the records of people and of simulated people, without empty groups; people come first."""
    records = study_records(trials)
    if not records.height:
        raise InvalidInput("the study has no answers of people or simulated people; collect some first")
    groups = {name: records.filter(group=name) for name in _KINDS.values()}
    return {name: group for name, group in groups.items() if group.height}


def first_test_records(records: pl.DataFrame) -> pl.DataFrame:
    """Return the first showings of test stimuli that were answered."""
    first = first_showings(records.filter(has_role(("test",))), ["participant", "item"])
    return first.filter(pl.col("answer").is_not_null())

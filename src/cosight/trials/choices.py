"""Answers that are not classes: choices among options (2AFC, clustering) and verdicts (keep, reject).

A choice names the chosen option's stimulus, so answers to different tasks have no word in common. What can be compared
is which kind of option was chosen: `target`, the option that is aligned with the query, or `other 1`, `other 2`, ...
"""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from cosight.errors import InvalidInput
from cosight.trials.spaces import LabelSpace

__all__ = [
    "KEEP",
    "OTHER",
    "PHOTOS",
    "RANDOM_PANELS",
    "REJECT",
    "TARGET",
    "code_answers",
    "comparable_answers",
    "option_names",
]

TARGET, OTHER = "target", "other"
PHOTOS = "photos"  # the kind of targets that are not noise
RANDOM_PANELS = "random"  # panels of targets that were drawn at random
KEEP, REJECT = "keep", "reject"


def option_names(options: Iterable[str], target: str) -> dict[str, str]:
    """Return what the options of a choice are called in comparable answers, by stimulus.

    >>> option_names(["b", "a"], "b")
    {'b': 'target', 'a': 'other 1'}
    """
    others = sorted(set(options) - {target})
    return {target: TARGET} | {option: f"{OTHER} {number}" for number, option in enumerate(others, start=1)}


def comparable_answers(frame: pl.DataFrame) -> pl.DataFrame:
    """Return each trial's answer in words that mean the same for every stimulus.

    Args:
        frame: Trials; the options of a choice are listed in `extra`.

    Returns:
        `answer` (the response, or `target`, `other 1`, ... for a choice) and `choices` (the answer behind each option,
        left to right; null where the trial is no choice), one row per trial. A trial that lists no options has those of
        the other trials with its stimulus.

    Raises:
        InvalidInput: The `extra` of a trial is not a JSON object.
    """
    try:
        options = frame["extra"].fill_null("{}").str.json_decode(pl.Struct({"options": pl.List(pl.String)}))
    except pl.exceptions.PolarsError as error:
        raise InvalidInput(
            f"the extra column of a trial must hold a JSON object: {str(error).splitlines()[0]}"
        ) from error
    answers: list[str | None] = []
    choices: list[list[str] | None] = []
    known = pl.DataFrame({"stimulus": frame["stimulus"], "options": options.struct.field("options")})
    shared = pl.col("options").drop_nulls().first().over("stimulus")
    listed = known.select(pl.coalesce("options", pl.when(pl.col("stimulus").is_not_null()).then(shared)))["options"]
    for truth, response, options_shown in zip(frame["truth"], frame["response"], listed, strict=True):
        if options_shown is None:
            answers.append(response)
            choices.append(None)
            continue
        words = option_names(options_shown, truth)
        answers.append(words.get(response))
        choices.append([words[option] for option in options_shown])
    return pl.DataFrame(
        {"answer": answers, "choices": choices}, schema={"answer": pl.String, "choices": pl.List(pl.String)}
    )


def code_answers(frame: pl.DataFrame) -> tuple[pl.DataFrame, LabelSpace | None]:
    """Recode trials without a label space so that their answers can be compared; return the label space too.

    Choices among options become `target` or `other N`, of which `target` is the truth. Verdicts keep their words and
    have no truth. Anything else is returned as it is, without a label space.
    """
    if frame["extra"].str.contains('"options"', literal=True).any():
        words = comparable_answers(frame)
        if words["choices"].is_not_null().all():
            most = int(words["choices"].list.len().max() or 2)  # type: ignore[arg-type]
            space = LabelSpace("choices", (TARGET, *(f"{OTHER} {number}" for number in range(1, most))))
            return frame.with_columns(response=words["answer"], truth=pl.lit(TARGET)), space
    responses, truths = set(frame["response"].drop_nulls()), set(frame["truth"].drop_nulls())
    if responses and responses <= {KEEP, REJECT} and not truths & {KEEP, REJECT}:
        return frame.with_columns(truth=pl.lit(None, pl.String)), LabelSpace("verdicts", (KEEP, REJECT))
    return frame, None

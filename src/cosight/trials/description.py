"""What a table of text cannot hold: label space, observers and sources, as JSON beside it (Psych-DS, CSV)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import polars as pl

from cosight.errors import InvalidInput, first_line
from cosight.trials.spaces import space_from
from cosight.trials.table import KINDS, OBSERVERS, ROLES, Trials, check_sources, merge_observers

__all__ = ["COLUMN_MEANINGS", "describe", "is_description", "read_description"]

_SPACE, _SOURCES, _OBSERVERS = "cosight:labelSpace", "cosight:sources", "cosight:observers"

COLUMN_MEANINGS = {
    "observer": "name of the person, model or simulated person",
    "kind": f"kind of observer: {', '.join(KINDS)}",
    "experiment": "experiment the trial belongs to",
    "stimulus": "identity of what was shown: digest of the decoded pixels, or a task's id",
    "image": "name of the image shown",
    "condition": "condition of the experiment",
    "level": "level of the manipulation",
    "truth": "true class",
    "response": "class answered, or abstain; empty for no answer",
    "probabilities": "JSON list of probabilities over the classes, in the order of cosight:labelSpace",
    "abstention": "readiness to refuse an answer, from 0 to 1 (refuses)",
    "rt": "response time",
    "role": f"what the trial is for: {', '.join(ROLES)}",
    "repetition": "how often the observer had been shown the stimulus before",
    "session": "session of the observer",
    "block": "block of the session",
    "trial": "number of the trial within the session",
    "extra": "JSON object: further columns of the source",
}


def describe(trials: Trials) -> dict[str, Any]:
    """Return label space, observers and sources of trials, for a JSON file beside their table."""
    return {
        _SPACE: None if trials.space is None else asdict(trials.space),
        _OBSERVERS: trials.observers.to_dicts(),
        _SOURCES: list(trials.sources),
    }


def is_description(content: Mapping[str, Any]) -> bool:
    """Return whether JSON has what `describe` returns."""
    return _OBSERVERS in content


def read_description(content: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Return label space, observers and sources as arguments of `make_trials`.

    Raises:
        InvalidInput: One of them is not what `describe` writes; the message begins with `source`.
    """
    try:
        listed = pl.DataFrame(content[_OBSERVERS], schema_overrides=OBSERVERS, infer_schema_length=None)
        observers = merge_observers([listed])
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise InvalidInput(
            f"{source}: {_OBSERVERS} lists objects with {', '.join(OBSERVERS)}: {first_line(error)}"
        ) from error
    return {
        "space": space_from(content.get(_SPACE), f"{source}, {_SPACE}"),
        "observers": observers,
        "sources": check_sources(content.get(_SOURCES, []), f"{source}, {_SOURCES}"),
    }

"""Score rows: one row per number, in long form, the same for every command."""

from __future__ import annotations

import csv
import io
import json
import math
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib.metadata import version
from typing import Any, Literal, get_args

from cosight.errors import InvalidInput
from cosight.trials.join import AlignedTrials

__all__ = [
    "FLAGS",
    "GOLD",
    "MODELS",
    "PEOPLE",
    "SIMULATED",
    "SIMULATED_GOLD",
    "STATISTICS",
    "GroupKey",
    "Row",
    "Scores",
    "Statistic",
    "check_names",
    "group_text",
    "make_scores",
    "number",
    "parse_group",
    "read_rows",
    "settings_of",
]

PEOPLE, SIMULATED, MODELS = "people", "simulated people", "models"
GOLD, SIMULATED_GOLD = "gold", "simulated gold"  # people known only by a stimulus set's gold labels

Statistic = Literal["value", "rank", "difference", "ceiling_split_half", "ceiling_leave_one_out", "normalised", "sd"]
STATISTICS: tuple[str, ...] = get_args(Statistic)

# What a flag says about its row. Flags are for programs; the note says the same in words, with the numbers.
FLAGS: Mapping[str, str] = {
    "undefined": "the value is undefined",
    "infinite": "the value is infinite",
    "undefined_resamples": "the measure was undefined in some resamples, which the interval leaves out",
    "undefined_parts": "some of the groups or pairs that a mean is taken over are undefined and left out",
    "few_errors": "too few errors in common: the high end of the interval is that of a Poisson limit",
    "few_trials": "so few trials per pair that the value is biased",
    "few_people": "too few people to resample: the interval is over stimuli only, or there is none",
    "few_stimuli": "a single stimulus or person: nothing to resample, so that there is no interval",
    "no_width": "both ends of the interval are the same number",
    "partial": "rests on fewer stimuli than other lines of a benchmark's table, so that it is not ranked",
    "p_at_resolution": "no resample contradicts the difference: p is at most the number given",
    "simulated": "simulated people or their labels take part",
    "sweep": "one point of a curve over gamma, without an interval",
}

GroupKey = tuple[tuple[str, str], ...]
"""Names and values that a group of trials has in common; the value `*` stands for the mean over that name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One number with its interval."""

    observer: str
    against: str | None = None  # None: a measure of one observer
    measure: str  # a registered name
    statistic: str = "value"  # of STATISTICS: what the number is
    group: GroupKey = ()  # () for all trials together
    value: float | None  # None: undefined or infinite, as `flags` says
    low: float | None = None
    high: float | None = None
    n: int  # trials the value rests on
    clusters: int | None = None  # independent units behind the interval: stimuli or people; of a correlation, pairs
    p: float | None = None  # of a difference, two-sided
    p_adjusted: float | None = None  # Holm, over the differences of one measure and group
    seed: int | None = None  # of the resamples behind the interval
    flags: tuple[str, ...] = ()  # of FLAGS
    note: str = ""

    def record(self) -> dict[str, Any]:
        """The row as JSON stores it: the group as text, flags as a list."""
        values = {column.name: getattr(self, column.name) for column in fields(self)}
        return {**values, "group": group_text(self.group), "flags": list(self.flags)}

    def in_group(self, name: str) -> str | None:
        """The value of one of the group's names, None where the group does not have it.

        >>> Row(observer="a", measure="accuracy", group=(("condition", "fog"),), value=0.5, n=10).in_group("condition")
        'fog'
        """
        return dict(self.group).get(name)


@dataclass(frozen=True, slots=True)
class Scores:
    """Score rows, the settings that reproduce them, and notices for the reader."""

    rows: tuple[Row, ...]
    settings: dict[str, Any]
    notices: tuple[str, ...] = ()
    kinds: dict[str, str] = field(default_factory=dict)  # of each observer

    def to_json(self) -> str:
        """A list of score rows; null, never NaN."""
        return json.dumps([row.record() for row in self.rows], indent=1, allow_nan=False, ensure_ascii=False)

    def to_csv(self) -> str:
        """The score rows with a header; an undefined number is an empty cell, flags are separated by `;`."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([column.name for column in fields(Row)])
        for row in self.rows:
            record = {**row.record(), "flags": ";".join(row.flags)}
            writer.writerow(["" if value is None else value for value in record.values()])
        return out.getvalue()


def read_rows(text: str) -> list[Row]:
    """Read the rows of `Scores.to_json`."""
    known = {column.name for column in fields(Row)}
    try:
        records = json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidInput(f"score rows are JSON, got {text[:40]!r} ({error})") from error
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise InvalidInput(f"score rows are a list of objects, got {text[:40]!r}")
    rows = []
    for record in records:
        if missing := sorted(known - set(record)):
            raise InvalidInput(f"score rows lack {', '.join(missing)}: another version of cosight wrote them")
        if strange := sorted(set(record) - known):
            raise InvalidInput(f"score rows have columns that are not known: {', '.join(strange)}")
        rows.append(Row(**{**record, "group": parse_group(record["group"]), "flags": tuple(record["flags"])}))
    return rows


def number(value: float) -> float | None:
    """A number as a row holds it: undefined or infinite is None."""
    return float(value) if math.isfinite(value) else None


def group_text(group: Sequence[tuple[str, str]]) -> str:
    """Write a group as `key=value;...`; a `;` inside a value is written %3B, and a `%` %25.

    >>> group_text([("experiment", "contrast"), ("condition", "*")])
    'experiment=contrast;condition=*'
    """
    return ";".join(f"{key}={value.replace('%', '%25').replace(';', '%3B')}" for key, value in group)


def parse_group(text: str) -> GroupKey:
    """Read a group that `group_text` wrote.

    >>> parse_group("experiment=contrast;condition=*")
    (('experiment', 'contrast'), ('condition', '*'))
    """
    pairs = [part.split("=", 1) for part in text.split(";") if part]
    return tuple((key, value.replace("%3B", ";").replace("%25", "%")) for key, value in pairs)


def settings_of(**used: Any) -> dict[str, Any]:
    """What a result needs to be made again: the options used and the versions."""
    packages = {name: version(name) for name in ("cosight", "numpy", "polars", "scipy")}
    return {**used, "versions": {"python": platform.python_version(), **packages}}


def make_scores(rows: Iterable[Row], table: AlignedTrials, **settings: Any) -> Scores:
    """Scores of an aligned table: rows with simulated people are flagged, settings get labels and versions."""
    kinds = dict(zip(table.observers, table.kinds, strict=True))
    simulated = {SIMULATED, SIMULATED_GOLD, *(name for name, kind in kinds.items() if kind == "simulated")}
    flagged = (
        replace(row, flags=(*row.flags, "simulated")) if {row.observer, row.against} & simulated else row
        for row in rows
    )
    return Scores(tuple(flagged), settings_of(**settings, labels=list(table.labels)), table.notices, kinds)


def check_names(observers: Sequence[str]) -> None:
    """Refuse an observer who is called like a group."""
    taken = (PEOPLE, SIMULATED, MODELS, GOLD, SIMULATED_GOLD)
    for name in set(taken) & set(observers):
        raise InvalidInput(f"rows about a group are called {', '.join(taken)}, got an observer {name!r}; rename it")

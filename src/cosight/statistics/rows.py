"""Score rows: the typed result of every command that scores, one row per number."""

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

# what `observer` and `against` of a row are for a group of observers
PEOPLE, SIMULATED, MODELS = "people", "simulated people", "models"
GOLD, SIMULATED_GOLD = "gold", "simulated gold"  # people known only by the gold labels of a stimulus set

Statistic = Literal["value", "rank", "difference", "ceiling_split_half", "ceiling_leave_one_out", "normalised", "sd"]
STATISTICS: tuple[str, ...] = get_args(Statistic)

# The meaning of each flag. Flags are for programs; the note of a row says the same in words, with the numbers.
FLAGS: Mapping[str, str] = {
    "undefined": "the value is undefined",
    "infinite": "the value is infinite",
    "undefined_resamples": "the measure was undefined in some resamples, which the interval leaves out",
    "undefined_parts": "some of the groups or pairs that a mean is taken over are undefined and left out",
    "few_errors": "too few errors in common, so that the high end is that of a Poisson limit, or too few to compare",
    "few_trials": "so few trials per pair that the value is biased",
    "few_people": "too few people to resample: the interval is over stimuli only, or there is none",
    "few_clusters": "fewer than 20 clusters of stimuli (source photos ...): the interval is rough",
    "few_stimuli": "a single stimulus or person: nothing to resample, so that there is no interval",
    "no_width": "both ends of the interval are the same number",
    "partial": "rests on fewer stimuli than other lines of a benchmark's table, so that it is not ranked",
    "p_at_resolution": "no resample contradicts the difference: p is at most the number given",
    "rarefied": "compared at equal numbers of errors, drawn from those of the observer with more",
    "simulated": "simulated people or their labels take part",
    "unequal_errors": "compared as they are, though the measure depends on the number of errors: too many models",
    "sweep": "one point of a curve over gamma, without an interval",
}

GroupKey = tuple[tuple[str, str], ...]
"""Names and values that a group of trials has in common; the value `*` stands for the mean over all values."""


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
    clusters: int | None = None  # units drawn for the interval: stimuli, clusters, people; of a correlation, pairs
    p: float | None = None  # of a difference, two-sided
    p_adjusted: float | None = None  # Holm, over the differences of one measure and group
    seed: int | None = None  # of the resamples behind the interval
    flags: tuple[str, ...] = ()  # of FLAGS
    note: str = ""

    def record(self) -> dict[str, Any]:
        """Return the row as JSON stores it: the group as text, flags as a list."""
        values = {column.name: getattr(self, column.name) for column in fields(self)}
        return {**values, "group": group_text(self.group), "flags": list(self.flags)}

    def in_group(self, name: str) -> str | None:
        """Return the value of one of the group's names, None where the group does not have it.

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
        """Return the rows as a JSON list of objects; undefined numbers are null, never NaN."""
        return json.dumps([row.record() for row in self.rows], indent=1, allow_nan=False, ensure_ascii=False)

    def to_csv(self) -> str:
        """Return the rows as CSV with a header; undefined numbers are empty, flags are separated by `;`."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([column.name for column in fields(Row)])
        for row in self.rows:
            record = {**row.record(), "flags": ";".join(row.flags)}
            writer.writerow(["" if value is None else value for value in record.values()])
        return out.getvalue()


def read_rows(text: str) -> list[Row]:
    """Read the rows that `Scores.to_json` wrote.

    Raises:
        InvalidInput: The text is not a JSON list of score rows, or has other columns.

    >>> row = Row(observer="a", measure="accuracy", value=0.5, n=10)
    >>> read_rows(Scores((row,), {}).to_json()) == [row]
    True
    """
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
        if unknown := sorted(set(record) - known):
            raise InvalidInput(f"score rows have columns that are not known: {', '.join(unknown)}")
        rows.append(Row(**{**record, "group": parse_group(record["group"]), "flags": tuple(record["flags"])}))
    return rows


def number(value: float) -> float | None:
    """Return a number as a row stores it: undefined or infinite is None."""
    return float(value) if math.isfinite(value) else None


def group_text(group: Sequence[tuple[str, str]]) -> str:
    """Return a group as `key=value;...`; a `;` inside a value is written %3B, and a `%` %25.

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
    """Return what is needed to reproduce a result: the options used and the versions of the packages."""
    packages = {name: version(name) for name in ("cosight", "numpy", "polars", "scipy")}
    return {**used, "versions": {"python": platform.python_version(), **packages}}


def make_scores(rows: Iterable[Row], table: AlignedTrials, **settings: Any) -> Scores:
    """Return the scores of an aligned table.

    Args:
        rows: Score rows; those in which simulated people take part get the flag `simulated`.
        table: The aligned trials behind them, which give notices, labels and the kinds of observers.
        **settings: The options used; what stimuli were clustered by, labels and versions are added.
    """
    kinds = dict(zip(table.observers, table.kinds, strict=True))
    simulated = {SIMULATED, SIMULATED_GOLD, *(name for name, kind in kinds.items() if kind == "simulated")}
    flagged = (
        replace(row, flags=(*row.flags, "simulated")) if {row.observer, row.against} & simulated else row
        for row in rows
    )
    return Scores(
        tuple(flagged),
        settings_of(**settings, cluster_by=list(table.cluster_by), labels=list(table.labels)),
        table.notices,
        kinds,
    )


def check_names(observers: Sequence[str]) -> None:
    """Raise where an observer has the name of a group of observers."""
    taken = (PEOPLE, SIMULATED, MODELS, GOLD, SIMULATED_GOLD)
    for name in set(taken) & set(observers):
        raise InvalidInput(f"rows about a group are called {', '.join(taken)}, got an observer {name!r}; rename it")

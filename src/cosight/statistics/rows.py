"""Score rows: one row a number, in long form, the same for every command."""

from __future__ import annotations

import csv
import io
import json
import math
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from importlib.metadata import version
from typing import Any

__all__ = ["Row", "Scores", "group_text", "number", "settings_of"]


@dataclass(frozen=True, slots=True)
class Row:
    """One number with its interval."""

    observer: str
    against: str | None  # None: a measure of one observer
    measure: str
    group: str  # "key=value;..."; "" pooled, "key=*" the mean over that key
    value: float | None  # None: undefined or infinite, and `note` says which
    low: float | None
    high: float | None
    n: int  # trials the value rests on
    note: str = ""
    seed: int | None = None  # of the resamples behind the interval


@dataclass(frozen=True, slots=True)
class Scores:
    """Score rows, what made them, and what a reader should know."""

    rows: tuple[Row, ...]
    settings: dict[str, Any]
    notices: tuple[str, ...] = ()
    kinds: dict[str, str] = field(default_factory=dict)  # of each observer

    def to_json(self) -> str:
        """A list of score rows; null, never NaN."""
        return json.dumps([asdict(row) for row in self.rows], indent=1, allow_nan=False, ensure_ascii=False)

    def to_csv(self) -> str:
        """The score rows with a header; an undefined number is an empty cell."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([column.name for column in fields(Row)])
        writer.writerows(["" if v is None else v for v in asdict(row).values()] for row in self.rows)
        return out.getvalue()


def number(value: float) -> float | None:
    """A number as a row holds it: undefined or infinite is None."""
    return float(value) if math.isfinite(value) else None


def group_text(group: Sequence[tuple[str, str]]) -> str:
    """`key=value;...` for a group of trials.

    >>> group_text([("experiment", "contrast"), ("condition", "*")])
    'experiment=contrast;condition=*'
    """
    return ";".join(f"{key}={value}" for key, value in group)


def settings_of(**used: Any) -> dict[str, Any]:
    """What a result needs to be made again: the options used and the versions."""
    packages = {name: version(name) for name in ("cosight", "numpy", "polars", "scipy")}
    return {**used, "versions": {"python": platform.python_version(), **packages}}

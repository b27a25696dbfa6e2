"""Score rows: the typed result of every command that scores, one row per number."""

from __future__ import annotations

import csv
import io
import json
import math
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

import polars as pl

from cosight.errors import InvalidInput, UnknownName, did_you_mean, first_line
from cosight.extras import MissingExtra
from cosight.files import atomic_write
from cosight.measures import measures
from cosight.trials.join import AlignedTrials

__all__ = [
    "FLAGS",
    "GOLD",
    "GROUP_NAMES",
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
    "read_scores",
    "save_rows",
    "settings_of",
]

# what `observer` and `against` of a row are for a group of observers
PEOPLE, SIMULATED, MODELS = "people", "simulated people", "models"
GOLD, SIMULATED_GOLD = "gold", "simulated gold"  # people known only by the gold labels of a stimulus set

Statistic = Literal[
    "value", "rank", "difference", "ceiling_split_half", "ceiling_leave_one_out", "normalised", "sd", "z",
    "lowest_reachable", "highest_reachable",
]  # fmt: skip
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
    "pooled": "people share so few stimuli that all pairs are pooled into one value",
    "partial": "rests on fewer stimuli than other lines of a benchmark's table, so that it is not ranked",
    "p_at_resolution": "no resample contradicts the difference: p is at most the number given",
    "rarefied": "compared at equal numbers of errors, drawn from those of the observer with more",
    "simulated": "simulated people or their labels take part",
    "unequal_errors": "compared as they are, though the measure depends on the number of errors: too many models",
    "sweep": "one point of a curve over gamma, without an interval",
    "published": "quoted from a benchmark's paper, not computed here",
}

_FORMATS = ("json", "csv", "parquet")
_METADATA = "cosight.scores"  # key of settings, notices and kinds of observers in the Parquet metadata
GROUP_NAMES = (PEOPLE, SIMULATED, MODELS, GOLD, SIMULATED_GOLD)
_LINES_PRINTED, _LINES_IN_HTML = 20, 50
_WIDTH, _SHORTEST_NAME = 80, 12  # characters of a printed line, and of its first column at least
_LONGEST_MEASURE = 16  # characters of a measure's name in the table
_POLARS_TYPES: Mapping[str, Any] = {
    "observer": pl.String,
    "against": pl.String,
    "measure": pl.String,
    "statistic": pl.String,
    "group": pl.String,
    "value": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "n": pl.Int64,
    "clusters": pl.Int64,
    "p": pl.Float64,
    "p_adjusted": pl.Float64,
    "seed": pl.Int64,
    "flags": pl.List(pl.String),
    "note": pl.String,
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
    clusters: int | None = None  # units drawn for the interval: stimuli, clusters, people; of a correlation, observers
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

    def reversed(self) -> Row:
        """Return the difference of two observers in the other order.

        >>> row = Row(observer="a", against="b", measure="accuracy", statistic="difference", value=0.25, n=10)
        >>> row.reversed().observer, row.reversed().value
        ('b', -0.25)
        """
        value, low, high = (None if end is None else -end for end in (self.value, self.high, self.low))
        return replace(self, observer=self.against or "", against=self.observer, value=value, low=low, high=high)


@dataclass(frozen=True, slots=True, repr=False)
class Scores:
    """Score rows, the settings that reproduce them, and notices for the reader.

    Printed, or as the last line of a notebook's cell, it is a table of the main values: each observer alone or against
    a group, over all trials. `rows`, `to_polars()` and `to_pandas()` have every number.
    """

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

    def to_polars(self) -> pl.DataFrame:
        """Return the rows as a polars DataFrame; undefined numbers are null.

        >>> Scores((Row(observer="a", measure="accuracy", value=0.5, n=10),), {}).to_polars()["value"].to_list()
        [0.5]
        """
        return pl.DataFrame([row.record() for row in self.rows], schema=_POLARS_TYPES, orient="row")

    def save(self, path: str | Path, *, file_format: str | None = None) -> None:
        """Write the rows to a file. JSON and Parquet keep the settings, notices and kinds of observers with them.

        Args:
            path: The file, which is written atomically.
            file_format: json, csv or parquet (default: by the suffix of the file).

        Raises:
            InvalidInput: The format is unknown.

        >>> Scores((Row(observer="a", measure="accuracy", value=0.5, n=10),), {"seed": 0}).save("scores.json")
        >>> read_scores("scores.json").settings
        {'seed': 0}
        """
        save_rows(
            self, {"settings": self.settings, "notices": self.notices, "kinds": self.kinds}, Path(path), file_format
        )

    def to_pandas(self) -> Any:
        """Return the rows as a pandas DataFrame; undefined numbers are missing.

        Raises:
            MissingExtra: pandas is not installed.
        """
        try:
            import pandas  # type: ignore[import-untyped,unused-ignore]
        except ImportError as error:
            raise MissingExtra("to_pandas needs pandas; pip install pandas, or use to_polars()") from error
        return pandas.DataFrame([row.record() for row in self.rows], columns=list(_POLARS_TYPES))

    def best(self, measure: str | None = None) -> Row:
        """Return the row of the best observer: the best model where there are models.

        Of a measure of two observers, the values against people are compared. With groups, the means over groups are.

        Args:
            measure: Name or alias of a measure (default: the only one of these scores).

        Returns:
            The row with the highest value, or the lowest where lower is better. Where `compare` ranked the models, the
            first in rank: some measures are ranked at equal numbers of errors, as the verdict is.

        Raises:
            InvalidInput: There is no such value, or neither direction of the measure is better.
            UnknownName: No measure has this name.

        >>> worse = Row(observer="a", measure="accuracy", value=0.5, n=10)
        >>> Scores((worse, replace(worse, observer="b", value=0.7)), {}).best().observer
        'b'
        """
        name = self._measure_name(measure, "value")
        direction = measures[name].direction
        if direction == "neither":
            raise InvalidInput(f"neither more nor less of {name} is better; choose another measure")
        rows = [row for row in self._main_rows() if row.measure == name and row.value is not None]
        rows = [row for row in rows if row.observer not in GROUP_NAMES]
        models = {observer for observer, kind in self.kinds.items() if kind not in ("human", "simulated")}
        rows = [row for row in rows if row.observer in models] or rows
        for against in (PEOPLE, SIMULATED, GOLD, SIMULATED_GOLD):  # people before the others, where there are several
            rows = [row for row in rows if row.against == against] or rows
        if not rows:
            raise InvalidInput(f"no observer has a value of {name} here; see the notes of the rows")
        ranks = {
            (row.observer, row.against, row.group): row.value
            for row in self.rows
            if (row.measure, row.statistic) == (name, "rank")
        }
        sign = -1 if direction == "higher" else 1

        def position(row: Row) -> tuple[float, float]:
            return ranks.get((row.observer, row.against, row.group)) or math.inf, sign * (row.value or 0.0)

        return min(rows, key=position)

    def difference(self, a: str, b: str, measure: str | None = None) -> Row:
        """Return the paired difference of two models: how much closer to people is `a` than `b`?

        Args:
            a: The model to subtract from.
            b: The model that is subtracted.
            measure: Name or alias of a measure (default: the only one that has differences).

        Returns:
            The row that `compare` computed for the two, with its interval and p values.

        Raises:
            InvalidInput: These scores have no difference of the two.
            UnknownName: No model or measure has this name.

        >>> row = Row(observer="a", against="b", measure="accuracy", statistic="difference", value=0.25, n=10)
        >>> Scores((row,), {}).difference("b", "a").value
        -0.25
        """
        name = self._measure_name(measure, "difference")
        rows = {
            (row.observer, row.against): row
            for row in self.rows
            if row.measure == name and row.statistic == "difference"
        }
        compared = list(dict.fromkeys(observer for pair in rows for observer in pair if observer is not None))
        for observer in (a, b):
            if observer not in compared:
                raise UnknownName(f"no difference with {observer!r}; {did_you_mean(observer, compared)}")
        if (a, b) in rows:
            return rows[a, b]
        if (b, a) not in rows:
            raise InvalidInput(f"a difference is between two models, got {a!r} and {b!r}")
        return rows[b, a].reversed()

    def __repr__(self) -> str:
        for digits, measure_count in ((3, None), (2, None), *((2, count) for count in range(9, 0, -1))):
            header, lines = self._table(_LINES_PRINTED, digits, measure_count)
            widths = [max(map(len, column)) for column in zip(header, *lines, strict=True)]
            rest = sum(widths[1:]) + 2 * (len(widths) - 1)
            if rest + min(widths[0], _SHORTEST_NAME) <= _WIDTH:
                break
        widths[0] = min(widths[0], max(_WIDTH - rest, 1))

        def text(cells: Sequence[str]) -> str:
            first = cells[0] if len(cells[0]) <= widths[0] else cells[0][: widths[0] - 1] + "\u2026"
            return "  ".join(
                cell.ljust(width) for cell, width in zip((first, *cells[1:]), widths, strict=True)
            ).rstrip()

        return "\n".join([*([text(header), *map(text, lines)] if lines else []), self._caption()])

    def _repr_html_(self) -> str:
        """Return the table for notebooks."""
        header, lines = self._table(_LINES_IN_HTML)
        head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
        body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>" for cells in lines)
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if lines else ""
        return f"{table}<p>{escape(self._caption())}</p>"

    def _table(
        self, most: int, digits: int = 3, measure_count: int | None = None
    ) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Return headers and lines: the main values, one line per observer and one column per measure.

        Args:
            most: Maximum number of lines.
            digits: Decimals; with two, numbers have no leading zero.
            measure_count: Number of measures, the first ones (default: all).
        """
        rows = self._main_rows()
        names = list(dict.fromkeys(row.measure for row in rows))[:measure_count]
        paired = {row.observer for row in rows if row.against is not None}
        lines: dict[tuple[str, str | None], dict[str, Row]] = {}
        alone: dict[str, dict[str, Row]] = {}  # values of observers alone go into their first line of pairs
        for row in rows:
            is_alone = row.against is None and row.observer in paired
            line = alone.setdefault(row.observer, {}) if is_alone else lines.setdefault((row.observer, row.against), {})
            line[row.measure] = row
        with_against = len({against for _, against in lines}) > 1
        table = []
        for (observer, against), line in list(lines.items())[:most]:
            cells = {**alone.pop(observer, {}), **line}
            named = (observer, *([against or ""] if with_against else []))
            table.append((*named, *(_cell_text(cells.get(name), digits) for name in names)))
        header = ("observer", *(["against"] if with_against else []), *map(_short_name, names))
        return header, table

    def _caption(self) -> str:
        facts = [f"{len(self.rows)} row{'s' * (len(self.rows) != 1)}, all in .to_polars()"]
        if "confidence" in self.settings:
            facts.append(
                f"{100 * self.settings['confidence']:.4g}% intervals of {self.settings['resamples']} resamples"
            )
        return "; ".join(facts)

    def _main_rows(self) -> list[Row]:
        """Return the values over all trials, of observers alone or against a group; all values where there are none."""
        values = [row for row in self.rows if row.statistic == "value" and "sweep" not in row.flags]
        overall = [row for row in values if all(value == "*" for _, value in row.group)] or values
        return [row for row in overall if row.against is None or row.against in GROUP_NAMES] or overall

    def _measure_name(self, measure: str | None, statistic: str) -> str:
        """Return the registered name of a measure, or that of the only one with rows of a statistic."""
        known = list(dict.fromkeys(row.measure for row in self.rows if row.statistic == statistic))
        if not known:
            raise InvalidInput(f"these scores have no {statistic}; `compare` computes differences between models")
        if measure is None:
            if len(known) > 1:
                raise InvalidInput(f"name one of the measures of these scores: {', '.join(known)}")
            return known[0]
        name = measures.name_of(measure)
        if name not in known:
            raise InvalidInput(f"these scores have no {statistic} of {name}, only of {', '.join(known)}")
        return name


def _cell_text(row: Row | None, digits: int) -> str:
    """Return a value with its interval; an undefined one is a dash.

    >>> _cell_text(Row(observer="a", measure="accuracy", value=0.5, low=0.4, high=0.6, n=10), 2)
    '.50 [.40, .60]'
    """

    def text(value: float) -> str:
        rounded = f"{round(value, digits) + 0.0:.{digits}f}"  # + 0.0: no minus before zero
        return rounded if digits > 2 else re.sub(r"^(-?)0\.", r"\1.", rounded)

    if row is None or row.value is None:
        return "" if row is None else "-"
    if row.low is None or row.high is None:
        return text(row.value)
    return f"{text(row.value)} [{text(row.low)}, {text(row.high)}]"


def _short_name(measure: str) -> str:
    """Return the name of a measure, or its shortest alias where the name is long; `best` takes either."""
    names = (measure, *(measures[measure].aliases if measure in measures else ()))
    return measure if len(measure) <= _LONGEST_MEASURE else min(names, key=len)


class _Rows(Protocol):
    """A result that is made of rows."""

    @property
    def rows(self) -> Sequence[Any]: ...
    def to_csv(self) -> str: ...
    def to_polars(self) -> pl.DataFrame: ...


def save_rows(result: _Rows, facts: Mapping[str, Any], path: Path, file_format: str | None = None) -> None:
    """Write rows to a .json, .csv or .parquet file, and what is known about them to the first and the last.

    Args:
        result: The rows.
        facts: Settings and whatever else a reader needs.
        path: The file, which is written atomically.
        file_format: json, csv or parquet (default: by the suffix of the file).

    Raises:
        InvalidInput: The format is unknown.
    """
    file_format = file_format or path.suffix.lower().removeprefix(".")
    if file_format not in _FORMATS:
        raise InvalidInput(f"rows are written to .json, .csv or .parquet files, got {path}")
    with atomic_write(path) as draft:
        if file_format == "parquet":
            metadata = {_METADATA: json.dumps(facts, default=str, ensure_ascii=False)}
            result.to_polars().write_parquet(draft, compression="zstd", metadata=metadata)
        elif file_format == "csv":
            draft.write_text(result.to_csv(), encoding="utf-8")
        else:
            content = {**facts, "rows": [row.record() for row in result.rows]}
            text = json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False, default=str)
            draft.write_text(text, encoding="utf-8")


def read_rows(text: str) -> list[Row]:
    """Read the rows of JSON text: of `--json` and `Scores.to_json`, or of a file that `--out` wrote.

    Raises:
        InvalidInput: The text does not have score rows, or rows with other columns.

    >>> row = Row(observer="a", measure="accuracy", value=0.5, n=10)
    >>> read_rows(Scores((row,), {}).to_json()) == [row]
    True
    """
    return list(_parse_scores(text).rows)


def read_scores(source: str | Path | Scores) -> Scores:
    """Read the scores that `--out` wrote to a .json, .csv or .parquet file, or those of a folder with scores.parquet.

    Args:
        source: The file or folder; scores in memory are returned as they are.

    Returns:
        The rows, equal to those that were written, with their settings, notices and kinds of observers. A CSV file has
        rows only, and so have files of earlier versions.

    Raises:
        InvalidInput: The file is missing, has another suffix or does not have score rows.

    >>> read_scores("rows.txt")
    Traceback (most recent call last):
    cosight.errors.InvalidInput: score rows are in .json, .csv or .parquet files, got rows.txt; `cosight compare` and
    `cosight score` write them with --out
    """
    if isinstance(source, Scores):
        return source
    path = Path(source)
    path = path / "scores.parquet" if path.is_dir() else path
    suffix = path.suffix.lower()
    if suffix.removeprefix(".") not in _FORMATS:
        raise InvalidInput(
            f"score rows are in .json, .csv or .parquet files, got {path}; `cosight compare` and `cosight score` write "
            "them with --out"
        )
    if not path.is_file():
        raise InvalidInput(f"{path} is not a file; `cosight compare` and `cosight score` write score rows with --out")
    try:
        if suffix == ".json":
            return _parse_scores(path.read_text(encoding="utf-8"))
        if suffix == ".parquet":
            rows = [_row_of(record) for record in pl.read_parquet(path).to_dicts()]
            return _with_facts(rows, json.loads(pl.read_parquet_metadata(path).get(_METADATA, "{}")))
        with path.open(encoding="utf-8", newline="") as lines:
            return Scores(tuple(_row_of(_typed(record)) for record in csv.DictReader(lines)), {})
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from error
    except (ValueError, pl.exceptions.PolarsError) as error:  # text that is not UTF-8 or not a number; not Parquet
        raise InvalidInput(
            f"{path} does not have score rows ({first_line(error)}); write it again with --out"
        ) from error


def _parse_scores(text: str) -> Scores:
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidInput(f"score rows are JSON, got {text[:40]!r} ({error})") from error
    facts = content if isinstance(content, dict) and "rows" in content else {"rows": content}
    records = facts["rows"]
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise InvalidInput(f"score rows are a list of objects, got {text[:40]!r}")
    return _with_facts([_row_of(record) for record in records], facts)


def _with_facts(rows: Sequence[Row], facts: Any) -> Scores:
    """Return rows with what a file says about them besides."""
    facts = facts if isinstance(facts, dict) else {}
    settings, notices, kinds = (facts.get(name) for name in ("settings", "notices", "kinds"))
    return Scores(
        tuple(rows),
        settings if isinstance(settings, dict) else {},
        tuple(map(str, notices)) if isinstance(notices, list) else (),
        kinds if isinstance(kinds, dict) else {},
    )


def _row_of(record: Mapping[str, Any]) -> Row:
    known = {column.name for column in fields(Row)}
    if missing := sorted(known - set(record)):
        raise InvalidInput(f"score rows lack {', '.join(missing)}: another version of cosight wrote them")
    if unknown := sorted(set(record) - known):
        raise InvalidInput(f"score rows have columns that are not known: {', '.join(unknown)}")
    return Row(**{**record, "group": parse_group(record["group"]), "flags": tuple(record["flags"])})


def _typed(record: Mapping[str, str | None]) -> dict[str, Any]:
    """Return a line of CSV with the types of a row: an empty number or name is None."""

    def value(name: str, text: str | None) -> Any:
        kind = _POLARS_TYPES.get(name)
        if name == "flags":
            return [flag for flag in (text or "").split(";") if flag]
        if kind == pl.String:
            return (text or None) if name == "against" else text or ""
        return None if not text else int(text) if kind == pl.Int64 else float(text)

    return {name: value(name, text) for name, text in record.items()}


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
    for name in set(GROUP_NAMES) & set(observers):
        raise InvalidInput(
            f"rows about a group are called {', '.join(GROUP_NAMES)}, got an observer {name!r}; rename it"
        )

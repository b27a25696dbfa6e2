"""The trial table: one row a trial, the same columns for people and models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import polars as pl

from cosight.errors import InvalidInput, UnknownName, did_you_mean
from cosight.trials.spaces import ABSTAIN, LabelSpace

__all__ = [
    "KINDS",
    "PEOPLE",
    "ROLES",
    "SCHEMA",
    "Kind",
    "Role",
    "Trials",
    "concat",
    "dropped_columns",
    "first_showings",
    "has_role",
    "make_trials",
    "observer_table",
    "parse_roles",
    "role_notices",
    "select_roles",
]

Kind = Literal["human", "model", "vlm", "judge", "simulated"]
KINDS: tuple[str, ...] = get_args(Kind)
PEOPLE = ("human", "simulated")  # who counts as a person when pairs are formed
Role = Literal["test", "repeat", "distractor", "gold", "check", "warmup"]
ROLES: tuple[str, ...] = get_args(Role)

SCHEMA: dict[str, pl.DataType] = {
    "observer": pl.String(),  # "human:s01", "timm:resnet50.a1_in1k"
    "kind": pl.String(),
    "experiment": pl.String(),
    "stimulus": pl.String(),  # digest of the decoded pixels, or a task's id; null when only a name is known
    "image": pl.String(),  # the name to join on
    "condition": pl.String(),
    "level": pl.Int64(),
    "truth": pl.String(),
    "response": pl.String(),  # a class, "abstain", the chosen option's stimulus; null = no answer
    "probabilities": pl.List(pl.Float32()),  # over the classes without abstain
    "abstention": pl.Float64(),  # in [0, 1]; 1 refuses
    "rt": pl.Float64(),  # seconds
    "role": pl.String(),  # what the trial is for; never null
    "repetition": pl.Int64(),  # 0 for the first showing of the stimulus to this observer; null where not recorded
    "session": pl.String(),
    "block": pl.Int64(),
    "trial": pl.Int64(),
    "extra": pl.String(),  # JSON: what the source had besides
}
OBSERVERS: dict[str, pl.DataType] = {
    "observer": pl.String(),
    "kind": pl.String(),
    "family": pl.String(),
    "architecture": pl.String(),
    "seed": pl.Int64(),
    "abstention": pl.String(),  # the abstention function
}

_REQUIRED = ("observer", "kind", "response")
_SUM_TOLERANCE = 1e-3


@dataclass(frozen=True, slots=True, eq=False)
class Trials:
    """A validated table of trials and what is known about it."""

    frame: pl.DataFrame  # the columns of SCHEMA
    space: LabelSpace | None  # None: not declared and not recognised
    observers: pl.DataFrame  # the columns of OBSERVERS, one row an observer
    sources: tuple[dict[str, Any], ...] = ()  # where the rows came from, and how those files were spelled
    notices: tuple[str, ...] = ()  # what a reader should know: dropped duplicates, passed-over files

    def __len__(self) -> int:
        return self.frame.height

    def only(self, observer: str) -> Trials:
        """The trials of one observer."""
        names = self.observers["observer"].to_list()
        if observer not in names:
            guess = did_you_mean(observer, names, otherwise=f"there are {', '.join(names[:3])}")
            raise UnknownName(f"no observer is called {observer!r}; {guess}")
        return self.keep(pl.col("observer") == observer)

    def keep(self, rows: pl.Expr | pl.Series, *notices: str) -> Trials:
        """Return the trials of these rows and the observers who have some; `notices` are added."""
        frame = self.frame.filter(rows)
        known = self.observers.join(frame, on="observer", how="semi", maintain_order="left")
        return replace(self, frame=frame, observers=known, notices=(*self.notices, *notices))

    def with_space(self, space: LabelSpace) -> Trials:
        """The same trials, checked against another label space."""
        return replace(self, frame=_checked(self.frame, space, _rows_of("trials")), space=space)


def make_trials(
    frame: pl.DataFrame,
    *,
    source: str = "trials",
    locate: Callable[[int], str] | None = None,
    space: LabelSpace | None = None,
    observers: pl.DataFrame | None = None,
    sources: Sequence[dict[str, Any]] = (),
    notices: Sequence[str] = (),
) -> Trials:
    """Check a frame against the schema; columns it may lack are filled with null.

    A message names `source`, the row (from 1), the column and the rule; `locate` says where a row of the frame
    (from 0) stands when the frame was put together from several files.
    """
    table = _checked(_typed(frame, source), space, locate or _rows_of(source))
    return Trials(table, space, observer_table(table, observers), tuple(sources), tuple(notices))


def observer_table(frame: pl.DataFrame, known: pl.DataFrame | None = None) -> pl.DataFrame:
    """One row an observer, in order of appearance, with what is `known` about it."""
    mine = frame.select("observer", "kind").unique(maintain_order=True)
    if known is None:
        known = pl.DataFrame(schema=OBSERVERS)
    facts = known.select(pl.col(name).cast(kind) for name, kind in OBSERVERS.items() if name in known.columns)
    joined = mine.join(facts.drop("kind", strict=False), on="observer", how="left", maintain_order="left")
    missing = [pl.lit(None, dtype=kind).alias(name) for name, kind in OBSERVERS.items() if name not in joined.columns]
    return joined.with_columns(missing).select(list(OBSERVERS))


def concat(tables: Sequence[Trials]) -> Trials:
    """Several tables as one; label spaces must agree where they are known."""
    if not tables:
        raise InvalidInput("there must be at least one table of trials, got none; name a file or folder of trials")
    if len(tables) == 1:
        return tables[0]
    spaces = {t.space.answers: t.space for t in tables if t.space is not None}
    if len(spaces) > 1:
        names = " and ".join(s.name for s in spaces.values())
        raise InvalidInput(f"trials compared must share one label space, got {names}; convert one with --labels")
    frame = pl.concat([t.frame for t in tables])
    known = pl.concat([t.observers for t in tables]).unique("observer", maintain_order=True)
    space = next(iter(spaces.values()), None)
    if any(t.space is None for t in tables) and space is not None:
        frame = _checked(frame, space, _rows_of("trials"))
    sources = tuple(s for t in tables for s in t.sources)
    return Trials(frame, space, observer_table(frame, known), sources, tuple(n for t in tables for n in t.notices))


def _rows_of(source: str) -> Callable[[int], str]:
    return lambda row: f"{source}, row {row + 1}"


def _typed(frame: pl.DataFrame, source: str) -> pl.DataFrame:
    for name in _REQUIRED:
        if name not in frame.columns:
            raise InvalidInput(f"{source}: a trial table must have the column {name!r}, got {', '.join(frame.columns)}")
    if "image" not in frame.columns and "stimulus" not in frame.columns:
        raise InvalidInput(f"{source}: a trial table must have the column 'image' or 'stimulus', got neither")
    columns: list[pl.Expr | pl.Series] = []
    for name, kind in SCHEMA.items():
        if name not in frame.columns:
            columns.append(pl.lit(None, dtype=kind).alias(name))
            continue
        if kind == pl.Int64() and frame[name].dtype.is_float() and (frame[name] % 1 != 0).any():
            raise InvalidInput(f"{source}: column {name!r} must hold whole numbers, got fractions")
        try:
            columns.append(frame[name].cast(kind).alias(name))
        except pl.exceptions.PolarsError as error:
            raise InvalidInput(f"{source}: column {name!r} must hold {kind}, got {frame[name].dtype}") from error
    return _with_roles(frame.select(columns))


def _with_roles(frame: pl.DataFrame) -> pl.DataFrame:
    """Fill in missing roles: from `extra`, where studies kept role and block before they had columns, else `test`."""
    if not frame["role"].has_nulls():
        return frame
    if frame["extra"].str.contains('"role"', literal=True).any():
        role = pl.col("extra").str.json_path_match("$.role")
        block = pl.col("extra").str.json_path_match("$.block").cast(pl.Int64, strict=False)
        frame = frame.with_columns(
            role=pl.coalesce("role", pl.when(role.is_in(ROLES)).then(role)),
            block=pl.coalesce("block", pl.when(role.is_in(ROLES)).then(block)),
        )
        again = pl.when(pl.col("role") == "repeat").then(1)
        frame = frame.with_columns(repetition=pl.coalesce("repetition", again).cast(pl.Int64))
    return frame.with_columns(pl.col("role").fill_null("test"))


def _checked(frame: pl.DataFrame, space: LabelSpace | None, locate: Callable[[int], str]) -> pl.DataFrame:
    """The frame itself, if every row keeps every rule."""
    allowed = None if space is None else list(dict.fromkeys([*space.answers, ABSTAIN]))
    bad_value = (
        pl.col("probabilities").list.eval(~((pl.element() >= 0) & pl.element().is_finite()).fill_null(False)).list.any()
    )
    rules: list[tuple[str, pl.Expr, str]] = [
        ("observer", pl.col("observer").is_null() | (pl.col("observer") == ""), "every trial has an observer"),
        (
            "observer",
            (pl.col("kind") == "simulated") & ~pl.col("observer").str.starts_with("simulated:"),
            "a simulated observer is called simulated:NAME",
        ),
        ("kind", ~pl.col("kind").is_in(KINDS).fill_null(False), f"kind is one of {', '.join(KINDS)}"),
        ("role", ~pl.col("role").is_in(ROLES).fill_null(False), f"role is one of {', '.join(ROLES)}"),
        ("repetition", pl.col("repetition") < 0, "repetition is 0 or more"),
        ("image", pl.col("image").is_null() & pl.col("stimulus").is_null(), "a trial names its image or its stimulus"),
        ("abstention", ~pl.col("abstention").is_between(0, 1), "abstention lies in [0, 1]"),
        ("rt", ~pl.col("rt").is_finite(), "rt is a number of seconds or missing"),
        ("probabilities", bad_value, "probabilities are numbers of 0 or more"),
        (
            "probabilities",
            (pl.col("probabilities").list.sum() - 1).abs() > _SUM_TOLERANCE,
            "probabilities sum to one",
        ),
    ]
    if allowed is not None and space is not None:
        size = len(space.classes)
        rules.append(("truth", ~pl.col("truth").is_in(allowed), f"truth is a class of {space.name}"))
        rules.append(("response", ~pl.col("response").is_in(allowed), f"a response is a class of {space.name}"))
        rules.append(
            ("probabilities", pl.col("probabilities").list.len() != size, f"there are {size} probabilities a trial")
        )
    broken = frame.select(rule.fill_null(False).any().alias(str(i)) for i, (_, rule, _) in enumerate(rules)).row(0)
    for is_broken, (column, rule, words) in zip(broken, rules, strict=True):
        if is_broken:
            raise InvalidInput(_complaint(frame, locate, column, rule, words))
    return frame


def _complaint(frame: pl.DataFrame, locate: Callable[[int], str], column: str, rule: pl.Expr, words: str) -> str:
    row = int(frame.select(rule.fill_null(False).arg_max()).item())
    value = frame[column][row]
    got = (
        f"{sum(value):.6g} in all"
        if "sum to one" in words
        else repr(value if column != "probabilities" else list(value))
    )
    return f"{locate(row)}, column {column}: {words}, got {got}"


def dropped_columns(trials: Trials, kept: frozenset[str]) -> list[str]:
    """Columns that hold something and that a format with `kept` columns leaves behind."""
    assumed: dict[str, Any] = {"role": "test", "repetition": 0}  # by whoever reads such a file
    held = {name: trials.frame[name].drop_nulls() for name in SCHEMA if name not in kept}
    plain = {name for name, value in assumed.items() if name in held and (held[name] == value).all()}
    return [name for name, values in held.items() if len(values) and name not in plain]


def parse_roles(roles: Sequence[str]) -> tuple[str, ...]:
    """Check role names; `all` stands for every role.

    >>> parse_roles(["test", "repeat"])
    ('test', 'repeat')
    """
    if not roles:
        raise InvalidInput(f"name at least one role ({', '.join(ROLES)}, all), got none")
    for name in roles:
        if name not in (*ROLES, "all"):
            raise UnknownName(f"no role is called {name!r}; {did_you_mean(name, [*ROLES, 'all'], most=1)}")
    return ROLES if "all" in roles else tuple(dict.fromkeys(roles))


def has_role(roles: Sequence[str]) -> pl.Expr:
    """Select trials of some roles: first showings only, unless `repeat` is among the roles."""
    wanted = parse_roles(roles)
    first = pl.col("repetition").fill_null(0) == 0
    return pl.col("role").is_in(wanted) & (pl.lit(True) if "repeat" in wanted else first)


def select_roles(trials: Trials, roles: Sequence[str] = ("test",)) -> Trials:
    """Keep the trials of some roles, by default first showings of test stimuli; a notice counts the others."""
    return trials.keep(has_role(roles), *role_notices(trials.frame, roles))


def first_showings(frame: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Keep the first row for each value of `keys`, in order of repetition, session and trial; rows stay in their order.

    Args:
        frame: Trials, or anything with the columns repetition, session and trial.
        keys: The columns that name the observer and the stimulus.
    """
    session = pl.col("session").cast(pl.Float64, strict=False)  # 2 comes before 10
    order = frame.with_row_index("_row").sort("repetition", session, "session", "trial", "_row", nulls_last=True)
    return order.unique(keys, keep="first", maintain_order=True).sort("_row").drop("_row")


def role_notices(frame: pl.DataFrame, roles: Sequence[str]) -> list[str]:
    """Report how many trials `has_role` leaves out; refuse roles that leave none."""
    left = frame.filter(~has_role(roles))
    if left.height == frame.height > 0:
        got = ", ".join(sorted(set(frame["role"]), key=ROLES.index))
        raise InvalidInput(f"no trial has the role {' or '.join(roles)}, got {got}; choose with --role")
    if not left.height:
        return []
    counts = left.group_by("role").len().sort("role").rows()
    parts = ", ".join(f"{count} {'later showings' if name == 'test' else name}" for name, count in counts)
    return [f"{left.height} of {frame.height} trials are left out by their role ({parts}); --role includes them"]

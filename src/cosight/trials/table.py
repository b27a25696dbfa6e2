"""The trial table: one row per trial, the same columns for people and models."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import polars as pl

from cosight.errors import InvalidInput, UnknownName, did_you_mean, first_line
from cosight.trials.spaces import ABSTAIN, LabelSpace

__all__ = [
    "KINDS",
    "PEOPLE",
    "ROLES",
    "SCHEMA",
    "Kind",
    "Role",
    "Trials",
    "check_sources",
    "concat",
    "doubtful_values",
    "dropped_columns",
    "first_showings",
    "has_role",
    "make_trials",
    "merge_observers",
    "namesake_notices",
    "observer_table",
    "parse_roles",
    "role_notices",
    "select_roles",
]

Kind = Literal["human", "model", "vlm", "judge", "simulated"]
KINDS: tuple[str, ...] = get_args(Kind)
PEOPLE = ("human", "simulated")  # the kinds that count as people when pairs are formed
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
    "extra": pl.String(),  # JSON: further columns of the source
}
OBSERVERS: dict[str, pl.DataType] = {
    "observer": pl.String(),
    "kind": pl.String(),
    "family": pl.String(),
    "architecture": pl.String(),
    "seed": pl.Int64(),
    "abstention": pl.String(),  # the abstention function
}

_PARTICIPANT = re.compile(r"(human|simulated):p\d{4,}")  # of a study, before names had its id
_REQUIRED = ("observer", "kind", "response")
_SUM_TOLERANCE = 1e-3
_SUM_RULE = "probabilities sum to one"
_TIE = 1e-6  # between probabilities that are equal but for the rounding of float32
_SLOWEST = 100  # seconds: a median rt above it is one in milliseconds
_SLICE = 10_000  # rows that are checked at once: the memory for it does not grow with the number of trials


@dataclass(frozen=True, slots=True, eq=False)
class Trials:
    """A validated table of trials, its label space and its observers; `make_trials` builds one."""

    frame: pl.DataFrame  # the columns of SCHEMA
    space: LabelSpace | None  # None: not declared and not recognised
    observers: pl.DataFrame  # the columns of OBSERVERS and perhaps further ones, one row per observer
    sources: tuple[dict[str, Any], ...] = ()  # the files that the rows came from, and how those were spelled
    notices: tuple[str, ...] = ()  # what a reader should know: dropped duplicates, skipped files

    def __len__(self) -> int:
        return self.frame.height

    def only(self, *observers: str) -> Trials:
        """Return the trials of some observers.

        Raises:
            UnknownName: No observer has this name.
        """
        names = self.observers["observer"].to_list()
        for observer in observers:
            if observer not in names:
                guess = did_you_mean(observer, names, otherwise=f"there are {', '.join(names[:3])}")
                raise UnknownName(f"no observer is called {observer!r}; {guess}")
        return self.keep(pl.col("observer").is_in(observers))

    def keep(self, rows: pl.Expr | pl.Series, *notices: str) -> Trials:
        """Return the trials of these rows and the observers who have some; `notices` are added."""
        frame = self.frame.filter(rows)
        known = self.observers.join(frame, on="observer", how="semi", maintain_order="left")
        return replace(self, frame=frame, observers=known, notices=(*self.notices, *notices))

    def with_space(self, space: LabelSpace) -> Trials:
        """Return the same trials with another label space, against which they are checked.

        Probabilities are reordered by class name. Those of trials without a label space are taken to be in its order.

        Raises:
            InvalidInput: An answer is not in the label space, or trials with probabilities have other classes.
        """
        frame = self.frame
        reorders = self.space is not None and self.space.classes != space.classes
        if self.space is not None and reorders and frame["probabilities"].count():
            frame = frame.with_columns(pl.col("probabilities").list.gather(space.order_in(self.space)))
        _check_rows(frame, space, _row_names("trials"))
        return replace(self, frame=frame, space=space)


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
    """Check a frame against the schema and return it as trials.

    Args:
        frame: One row per trial, with the columns of `SCHEMA`. It must have observer, kind, response, and image or
            stimulus; other missing columns are filled with null, `role` with "test".
        source: What error messages call the frame.
        locate: Name of a row (from 0) in error messages, for a frame that was read from several files.
        space: The label space of the answers; None where it is not known.
        observers: What is known about the observers, with columns of `OBSERVERS`.
        sources: Facts about the files that the rows came from.
        notices: What a reader should know.

    Returns:
        The checked trials.

    Raises:
        InvalidInput: A column is missing, or a row breaks a rule. The message names the row, the column and the rule.

    >>> frame = pl.DataFrame({"observer": ["human:1"], "kind": ["human"], "image": ["a.png"], "response": ["cat"]})
    >>> make_trials(frame).frame["role"].to_list()
    ['test']
    """
    table = _fill_roles(_cast_columns(frame, source))
    _check_rows(table, space, locate or _row_names(source))
    return Trials(table, space, observer_table(table, observers), tuple(sources), tuple(notices))


def observer_table(frame: pl.DataFrame, known: pl.DataFrame | None = None) -> pl.DataFrame:
    """Return one row per observer of some trials, in order of appearance, with what is `known` about it."""
    names = [part.select("observer", "kind").unique(maintain_order=True) for part in frame.iter_slices(_SLICE)]
    observers = pl.concat(names or [frame.select("observer", "kind")]).unique(maintain_order=True)
    facts = merge_observers([] if known is None else [known])
    return observers.join(facts.drop("kind"), on="observer", how="left", maintain_order="left").select(facts.columns)


def merge_observers(tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return one row per observer from several tables of observers.

    Args:
        tables: Each with the column `observer`, any other of `OBSERVERS`, and further ones, which are kept. Where two
            tables know a fact about an observer, that of the first is taken.

    Raises:
        InvalidInput: A column has a wrong type, or two types in two tables.
    """
    try:
        typed = [
            table.with_columns(pl.col(name).cast(kind) for name, kind in OBSERVERS.items() if name in table.columns)
            for table in tables
        ]
        rows = pl.concat([pl.DataFrame(schema=OBSERVERS), *typed], how="diagonal_relaxed")
        merged = rows.group_by("observer", maintain_order=True).agg(pl.all().drop_nulls().first())
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise InvalidInput(f"a table of observers must have one type per column: {first_line(error)}") from error
    if dict(merged.schema) | OBSERVERS != dict(merged.schema):
        raise InvalidInput(f"a table of observers has {', '.join(OBSERVERS)} as text and seed as a number")
    return merged.select([*OBSERVERS, *(name for name in merged.columns if name not in OBSERVERS)])


def check_sources(sources: Any, source: str) -> list[dict[str, Any]]:
    """Return the sources that a file's metadata lists; raise where they are not a list of objects."""
    valid = isinstance(sources, list | tuple) and all(isinstance(entry, dict) for entry in sources)
    if valid:
        for entry in sources:
            columns = entry.get("columns", [])
            valid &= isinstance(entry.get("file", ""), str) and isinstance(columns, list)
            valid = valid and all(isinstance(name, str) for name in columns)
    if not valid:
        raise InvalidInput(f"{source}: the sources of trials are a list of objects, got {str(sources)[:80]}")
    return list(sources)


def concat(tables: Sequence[Trials]) -> Trials:
    """Concatenate tables of trials.

    Args:
        tables: At least one table. Label spaces must agree where they are known.

    Returns:
        One table with the rows of all, in order.

    Raises:
        InvalidInput: There is no table, or two tables have different label spaces.

    >>> from cosight.trials import read
    >>> edges, silhouettes = read("sample:edges"), read("sample:silhouettes")
    >>> concat([edges, silhouettes]).frame.height == edges.frame.height + silhouettes.frame.height
    True
    """
    if not tables:
        raise InvalidInput("there must be at least one table of trials, got none; name a file or folder of trials")
    if len(tables) == 1:
        return tables[0]
    spaces = {table.space.answers: table.space for table in tables if table.space is not None}
    if len(spaces) > 1:
        names = " and ".join(space.name for space in spaces.values())
        raise InvalidInput(f"trials compared must share one label space, got {names}; convert one with --labels")
    frame = pl.concat([table.frame for table in tables])
    space = next(iter(spaces.values()), None)
    if space is not None:
        for table in tables:
            if table.space is None:
                files = [source["file"] for source in table.sources if "file" in source]
                _check_rows(table.frame, space, _row_names(files[0] if len(files) == 1 else "trials"))
    known = merge_observers([table.observers for table in tables])
    sources = tuple(source for table in tables for source in table.sources)
    notices = [notice for table in tables for notice in table.notices]
    notices += namesake_notices([table.observers["observer"] for table in tables])
    return Trials(frame, space, observer_table(frame, known), sources, tuple(notices))


def namesake_notices(observers: Sequence[pl.Series]) -> list[str]:
    """Return a notice where files share names that more than one study gave to its participants.

    Args:
        observers: The observers of each file.
    """
    counts = Counter(name for names in observers for name in names.unique() if _PARTICIPANT.fullmatch(name))
    shared = sorted(name for name, count in counts.items() if count > 1)
    if not shared:
        return []
    return [
        f"{len(shared)} names of participants ({', '.join(shared[:3])}...) are in several files and each counts as "
        "one person; if the files are of different studies, export those again: names then have the study's id"
    ]


def _row_names(source: str) -> Callable[[int], str]:
    return lambda row: f"{source}, row {row + 1}"


def _cast_columns(frame: pl.DataFrame, source: str) -> pl.DataFrame:
    """Return the columns of SCHEMA with their types; missing columns are null."""
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
        if frame.schema[name] == kind:
            columns.append(pl.col(name))
            continue
        if kind == pl.Int64() and frame[name].dtype.is_float() and (frame[name] % 1 != 0).any():
            raise InvalidInput(f"{source}: column {name!r} must hold whole numbers, got fractions")
        problem = f"{source}: column {name!r} must hold {kind}, got {frame[name].dtype}"
        try:
            column = frame[name].cast(kind)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            raise InvalidInput(problem) from error
        if column.dtype != kind or (frame[name].dtype.is_nested() and not kind.is_nested()):  # a struct is no text
            raise InvalidInput(problem)
        columns.append(column.alias(name))
    return frame.select(columns)


def _fill_roles(frame: pl.DataFrame) -> pl.DataFrame:
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
        repeated = pl.when(pl.col("role") == "repeat").then(1)
        frame = frame.with_columns(repetition=pl.coalesce("repetition", repeated).cast(pl.Int64))
    return frame.with_columns(pl.col("role").fill_null("test"))


def _check_rows(frame: pl.DataFrame, space: LabelSpace | None, locate: Callable[[int], str]) -> None:
    """Raise at the first row that breaks a rule; `locate` names the row."""
    bad_probability = (
        pl.col("probabilities").list.eval(~((pl.element() >= 0) & pl.element().is_finite()).fill_null(False)).list.any()
    )
    total = pl.col("probabilities").list.sum()
    unnamed_simulated = (pl.col("kind") == "simulated") & ~pl.col("observer").str.starts_with("simulated:")
    # column, where the rule is broken, the rule
    rules: list[tuple[str, pl.Expr, str]] = [
        ("observer", pl.col("observer").is_null() | (pl.col("observer") == ""), "every trial has an observer"),
        ("observer", unnamed_simulated, "a simulated observer is called simulated:NAME"),
        ("kind", ~pl.col("kind").is_in(KINDS).fill_null(False), f"kind is one of {', '.join(KINDS)}"),
        ("role", ~pl.col("role").is_in(ROLES).fill_null(False), f"role is one of {', '.join(ROLES)}"),
        ("repetition", pl.col("repetition") < 0, "repetition is 0 or more"),
        ("image", pl.col("image").is_null() & pl.col("stimulus").is_null(), "a trial names its image or its stimulus"),
        ("abstention", ~pl.col("abstention").is_between(0, 1), "abstention lies in [0, 1]"),
        ("rt", ~(pl.col("rt").is_finite() & (pl.col("rt") >= 0)), "rt is a number of seconds, 0 or more, or missing"),
        ("probabilities", bad_probability, "probabilities are numbers of 0 or more"),
        ("probabilities", (total - 1).abs() > _SUM_TOLERANCE, _SUM_RULE),
    ]
    if space is not None:
        answers, size = list(dict.fromkeys([*space.answers, ABSTAIN])), len(space.classes)
        wrong_size = pl.col("probabilities").list.len() != size
        rules += [
            ("truth", ~pl.col("truth").is_in(answers), f"truth is a class of {space.name}"),
            ("response", ~pl.col("response").is_in(answers), f"a response is a class of {space.name}"),
            ("probabilities", wrong_size, f"there are {size} probabilities per trial"),
        ]
    for start in range(0, frame.height, _SLICE):
        part = frame.slice(start, _SLICE)
        broken = part.select(where.fill_null(False).any().alias(str(i)) for i, (_, where, _) in enumerate(rules)).row(0)
        for is_broken, (column, where, rule) in zip(broken, rules, strict=True):
            if is_broken:
                row = int(part.select(where.fill_null(False).arg_max()).item())
                value = part[column][row]
                got = repr(list(value) if column == "probabilities" else value)
                if rule == _SUM_RULE:
                    got = f"{sum(value):.6g} in all"
                hint = ""
                if space is not None and column in ("truth", "response"):
                    hint = f"; {did_you_mean(value, space.answers, otherwise='--labels names other classes')}"
                raise InvalidInput(f"{locate(start + row)}, column {column}: {rule}, got {got}{hint}")


def doubtful_values(trials: Trials, space: LabelSpace | None, name: str) -> list[str]:
    """Return notices about values that break no rule and are probably wrong.

    Responses that are not the most probable class of their own probabilities, and response times in milliseconds.

    Args:
        trials: Trials that were read from a file or folder.
        space: Their label space; it may have become known from other files.
        name: What the notices call the file or folder.
    """
    notices = []
    if space is not None and trials.frame["probabilities"].count():
        position = {answer: index for index, answer in enumerate(space.classes)}
        code = pl.col("response").replace_strict(position, default=None, return_dtype=pl.Int64)
        own = pl.col("probabilities").list.get(code, null_on_oob=True)
        less = own < pl.col("probabilities").list.max() - _TIE  # null for a refusal
        given = trials.frame.select("probabilities", "response").iter_slices(_SLICE)
        counts = [part.select(own.count(), less.sum().alias("wrong")).row(0) for part in given]
        answered, wrong = (sum(column) for column in zip(*counts, strict=True))
        if wrong:
            notices.append(
                f"{name}: {wrong} of {answered} responses are not the most probable class of their own probabilities; "
                f"if those are not in the order {space.in_words}, make the file again, or name their order with "
                "--labels where it names none"
            )
    if not trials.frame["rt"].count():
        return notices
    medians = trials.frame.group_by("observer").agg(pl.col("rt").median()).filter(pl.col("rt") > _SLOWEST)
    if medians.height:
        observer, median = medians.sort("observer").row(0)
        notices.append(
            f"{name}: observers with a median rt above {_SLOWEST} seconds: {medians.height} ({observer}: {median:g}); "
            "if the file has milliseconds, convert it with --rt-unit ms"
        )
    return notices


def dropped_columns(trials: Trials, kept: frozenset[str]) -> list[str]:
    """Return the columns that hold something and that a format with `kept` columns does not store."""
    assumed: dict[str, Any] = {"role": "test", "repetition": 0}  # by readers of such a format
    dropped = []
    for name in SCHEMA:
        values = trials.frame[name].drop_nulls()
        is_assumed = name in assumed and bool((values == assumed[name]).all())
        if name not in kept and len(values) and not is_assumed:
            dropped.append(name)
    return dropped


def parse_roles(roles: Sequence[str]) -> tuple[str, ...]:
    """Check role names and return them; `all` stands for every role.

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
    """Return an expression for trials of some roles: first showings only, unless `repeat` is among the roles."""
    names = parse_roles(roles)
    is_first = pl.col("repetition").fill_null(0) == 0
    return pl.col("role").is_in(names) & (pl.lit(True) if "repeat" in names else is_first)


def select_roles(trials: Trials, roles: Sequence[str] = ("test",)) -> Trials:
    """Return the trials of some roles, by default first showings of test stimuli; a notice counts the others."""
    return trials.keep(has_role(roles), *role_notices(trials.frame, roles))


def first_showings(frame: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Return the first row for each value of `keys`, in order of repetition, session and trial; row order is kept.

    Args:
        frame: Trials, or anything with the columns repetition, session and trial.
        keys: The columns that name the observer and the stimulus.
    """
    session = pl.col("session").cast(pl.Float64, strict=False)  # 2 comes before 10
    order = frame.with_row_index("_row").sort("repetition", session, "session", "trial", "_row", nulls_last=True)
    return order.unique(keys, keep="first", maintain_order=True).sort("_row").drop("_row")


def role_notices(frame: pl.DataFrame, roles: Sequence[str]) -> list[str]:
    """Return a notice about the trials that `has_role` leaves out; raise where no trial has one of these roles."""
    left_out = frame.filter(~has_role(roles))
    if left_out.height == frame.height > 0:
        got = ", ".join(sorted(set(frame["role"]), key=ROLES.index))
        raise InvalidInput(f"no trial has the role {' or '.join(roles)}, got {got}; choose with --role")
    if not left_out.height:
        return []
    counts = left_out.group_by("role").len().sort("role").rows()
    parts = ", ".join(f"{count} {'later showings' if name == 'test' else name}" for name, count in counts)
    return [f"{left_out.height} of {frame.height} trials are left out by their role ({parts}); --role includes them"]

"""What is in a table of trials: counts, accuracy, missing answers, and what looks wrong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from cosight.arrays import BoolArray, IntArray
from cosight.measures.answers import NOT_SHOWN
from cosight.trials.join import AlignedTrials, align, canonical_experiment, natural_key, people_first_key
from cosight.trials.table import Trials, select_roles

__all__ = ["Summary", "explain_mismatch", "overlap_notices", "shared_with_models", "summarise"]


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """A table of trials at a glance."""

    headline: str
    observers: pl.DataFrame
    conditions: pl.DataFrame
    notices: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "headline": self.headline,
            "observers": self.observers.to_dicts(),
            "conditions": self.conditions.to_dicts(),
            "notices": list(self.notices),
        }


def summarise(trials: Trials, *, roles: Sequence[str] = ("test",)) -> Summary:
    """Count trials by observer, and by experiment and condition; accuracy where the truth is known.

    Args:
        trials: Any trials.
        roles: Only trials of these roles are counted, and only first showings unless `repeat` is among them.
    """
    chosen = select_roles(trials, roles)
    if chosen.frame["truth"].null_count() == len(chosen):
        frame, notices = chosen.frame, (*chosen.notices, "no trial has a truth: accuracy is unknown")
    else:
        table = align(trials, roles=roles)
        rows = np.unique(table.rows[table.rows >= 0])
        frame, notices = trials.frame[rows], table.notices
    frame = frame.with_columns(right=(pl.col("response") == pl.col("truth")).fill_null(False))
    numbers = [
        pl.len().alias("trials"),
        pl.struct("experiment", "condition", pl.coalesce("image", "stimulus")).n_unique().alias("stimuli"),
        pl.col("response").null_count().alias("missing"),
        pl.col("right").filter(pl.col("truth").is_not_null()).mean().alias("accuracy"),
        pl.col("rt").median().alias("median rt"),
    ]
    by_observer = frame.group_by("kind", "observer", maintain_order=True).agg(
        pl.col("experiment").n_unique().alias("experiments"), pl.col("session").n_unique().alias("sessions"), *numbers
    )
    by_condition = frame.group_by("experiment", "condition").agg(
        pl.col("observer").n_unique().alias("observers"), *numbers
    )
    order = sorted(by_observer.select("kind", "observer").rows(), key=people_first_key)
    by_observer = pl.DataFrame(order, schema=["kind", "observer"], orient="row").join(
        by_observer, on=["kind", "observer"], maintain_order="left"
    )
    conditions = by_condition.rows(named=True)
    conditions.sort(key=lambda row: (row["experiment"] or "", natural_key(row["condition"] or "")))
    counts = frame["experiment"].n_unique()
    space = trials.space.name if trials.space else "not declared"
    headline = f"{frame.height} trials, {by_observer.height} observers, {counts} experiments; label space {space}"
    return Summary(headline, by_observer, pl.DataFrame(conditions, schema=by_condition.schema), notices)


# ---- which stimuli people and models have in common

_NAMED = 3  # observers, experiments or conditions that a notice names
_NOTICES = 5  # about observers who share some stimuli


def shared_with_models(table: AlignedTrials) -> AlignedTrials:
    """Leave out the stimuli that people answered and no model did, so that both are scored on the same stimuli.

    The table is returned as it is where it has only people or only models, or where they share nothing.
    """
    seen = table.answers.response != NOT_SHOWN
    by_people, by_models = seen[table.people].any(axis=0), seen[~table.people].any(axis=0)
    alone = by_people & ~by_models
    if not alone.any() or not (by_people & by_models).any():
        return table
    notice = (
        f"people are scored on the {int((by_people & by_models).sum())} stimuli that a model answered too; "
        f"{int(alone.sum())} others are left out"
    )
    return table.keep(~alone, notice)


def overlap_notices(table: AlignedTrials) -> list[str]:
    """Name the observers who share no stimuli with people, or only some, with counts and the likely reason."""
    seen = table.answers.response != NOT_SHOWN
    people = table.people & ~table.simulated
    people = people if people.any() else table.people
    if not people.any():
        return []
    answered = seen[people].sum(axis=0)
    notices = _lonely_people(table, seen, people, answered)
    groups: dict[str, list[str]] = {}
    for row in np.flatnonzero(~people):
        text = _overlap(table, seen[row], answered > 0)
        if text:
            groups.setdefault(text, []).append(table.observers[row])
    notices += [f"{_listed(names, 'observers')}: {text}" for text, names in list(groups.items())[:_NOTICES]]
    more = sum(len(names) for names in list(groups.values())[_NOTICES:])
    return [*notices, f"{more} more observers share only some stimuli with people; tables show n"] if more else notices


def _lonely_people(table: AlignedTrials, seen: BoolArray, people: BoolArray, answered: IntArray) -> list[str]:
    """One notice about the people who share no stimulus with another person; none about a single person."""
    alone = [row for row in np.flatnonzero(people) if seen[row].any() and not (answered[seen[row]] > 1).any()]
    if not alone or people.sum() < 2:
        return []
    others = (answered > 0) & ~seen[alone[0]]
    reason = explain_mismatch(table.columns.filter(seen[alone[0]]), table.columns.filter(others))
    who = _listed([table.observers[row] for row in alone], "people")
    return [f"{who}: no stimuli in common with other people; for example {table.observers[alone[0]]}: {reason}"]


def _overlap(table: AlignedTrials, own: BoolArray, theirs: BoolArray) -> str:
    """How many stimuli an observer shares with people and why not more; empty where it shares all."""
    shared, mine, every = int((own & theirs).sum()), int(own.sum()), int(theirs.sum())
    if not mine or shared == every:
        return ""
    if shared == mine:
        return f"answered {mine} of people's {every} stimuli and no others"
    reason = explain_mismatch(table.columns.filter(own & ~theirs), table.columns.filter(theirs & ~own))
    return f"{shared or 'none'} of its {mine} stimuli match people's {every}: {reason}"


def explain_mismatch(mine: pl.DataFrame, theirs: pl.DataFrame) -> str:
    """Guess why stimuli of one observer match none of another's.

    Args:
        mine: Stimuli with the columns experiment, condition, image and stimulus.
        theirs: The other's.
    """
    mine, theirs = (part.with_columns(canonical_experiment(pl.col("experiment"))) for part in (mine, theirs))
    where, there = set(mine["experiment"]), set(theirs["experiment"])
    if not theirs.height:
        return "nobody else answered those"
    if where == {""} and "" not in there:
        return f"its trials have no experiment, the others have {_listed(there)}; add an experiment column"
    if not where & there:
        return f"its experiments are {_listed(where)}, the others' {_listed(there)}; use one name"
    common = pl.col("experiment").is_in(sorted(where & there))
    mine, theirs = mine.filter(common), theirs.filter(common)
    conditions, others = (set(part["condition"].fill_null("none")) for part in (mine, theirs))
    if not conditions & others:
        return f"its conditions are {_listed(conditions)}, the others' {_listed(others)}; use one spelling"
    images = set(mine["image"].drop_nulls()) & set(theirs["image"].drop_nulls())
    if not images:
        names = [min(part["image"].drop_nulls(), key=natural_key, default="none") for part in (mine, theirs)]
        return f"no image has the same name in both (for example {names[0]!r} and {names[1]!r})"
    pixels = mine.filter(pl.col("image").is_in(sorted(images)))["stimulus"]
    if pixels.count():
        return f"{_listed(images)} have the same name and other pixels"
    return "image names agree only across experiments or conditions"


def _listed(names: Iterable[str], noun: str = "") -> str:
    """Some names; with a noun, how many more there are."""
    ordered = sorted(names, key=natural_key)
    shown = ", ".join(name or "(none)" for name in ordered[:_NAMED])
    more = len(ordered) - _NAMED
    return shown if more <= 0 else f"{shown} and {more} more {noun}".rstrip()

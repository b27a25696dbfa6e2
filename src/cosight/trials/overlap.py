"""Which stimuli people and models have in common, and why some observers share none or only some."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import polars as pl

from cosight.arrays import BoolArray
from cosight.measures.answers import NOT_SHOWN
from cosight.trials.join import Table, natural

__all__ = ["mismatch", "overlap_notices", "shared_with_models"]

_NAMED = 3  # observers, experiments or conditions that a notice names


def shared_with_models(table: Table) -> Table:
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
    return replace(
        table,
        answers=table.answers.at(~alone),
        columns=table.columns.filter(~alone),
        rows=table.rows[:, ~alone],
        notices=(*table.notices, notice),
    )


def overlap_notices(table: Table) -> list[str]:
    """Name the observers who share no stimuli with people, or only some, with counts and the likely reason."""
    seen = table.answers.response != NOT_SHOWN
    people = table.people & ~table.simulated
    people = people if people.any() else table.people
    if not people.any():
        return []
    answered = seen[people].sum(axis=0)
    groups: dict[tuple[str, str], list[str]] = {}
    for name, own, person in zip(table.observers, seen, people, strict=True):
        theirs = answered - (own & person) > 0
        text = _overlap(table, own, theirs, partial=not person)
        if text and (not person or people.sum() > 1):
            groups.setdefault((text, "other people" if person else "people"), []).append(name)
    return [f"{_listed(names, 'observers')}: {text.format(people=who)}" for (text, who), names in groups.items()]


def _overlap(table: Table, own: BoolArray, theirs: BoolArray, *, partial: bool) -> str:
    """How many stimuli an observer shares with people and why not more; empty for all, or some if not `partial`."""
    shared, mine = int((own & theirs).sum()), int(own.sum())
    if not mine or shared == theirs.sum() or (shared and not partial):
        return ""
    if shared == mine:
        return f"answered {mine} of {{people}}'s {int(theirs.sum())} stimuli and no others"
    reason = mismatch(table.columns.filter(own & ~theirs), table.columns.filter(theirs & ~own))
    share = f"{shared} of its {mine} stimuli" if shared else f"none of its {mine} stimuli"
    return f"{share} match {{people}}'s {int(theirs.sum())}: {reason}"


def mismatch(mine: pl.DataFrame, theirs: pl.DataFrame) -> str:
    """Guess why stimuli of one observer match none of another's.

    Args:
        mine: Stimuli with the columns experiment, condition, image and stimulus.
        theirs: The other's.
    """
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
        examples = (sorted(part["image"].drop_nulls().to_list(), key=natural)[:1] for part in (mine, theirs))
        names = " and ".join(repr(name) for part in examples for name in part) or "missing"
        return f"no image has the same name in both (for example {names})"
    pixels = mine.filter(pl.col("image").is_in(sorted(images)))["stimulus"]
    if pixels.count():
        return f"{_listed(images)} have the same name and other pixels"
    return "image names agree only across experiments or conditions"


def _listed(names: Iterable[str], noun: str = "") -> str:
    """Some names; with a noun, how many more there are."""
    ordered = sorted(names, key=natural)
    shown = ", ".join(name or "(none)" for name in ordered[:_NAMED])
    more = len(ordered) - _NAMED
    return shown if more <= 0 else f"{shown} and {more} more {noun}".rstrip()

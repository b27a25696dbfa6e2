"""Summaries of trials: counts and accuracy, and which stimuli people and models have in common."""

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
    """Counts and accuracies of a table of trials."""

    headline: str
    observers: pl.DataFrame
    conditions: pl.DataFrame
    notices: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
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

    Returns:
        One row per observer, one row per experiment and condition, and notices about what looks wrong.

    >>> from cosight.trials import read
    >>> summarise(read("sample:edges")).headline
    '5600 trials, 35 observers, 1 experiments; label space model-vs-human-16'
    """
    selected = select_roles(trials, roles)
    if selected.frame["truth"].null_count() == len(selected):
        frame, notices = selected.frame, (*selected.notices, "no trial has a truth: accuracy is unknown")
    else:
        table = align(trials, roles=roles)
        rows = np.unique(table.rows[table.rows >= 0])
        frame, notices = trials.frame[rows], table.notices
    frame = frame.with_columns(right=(pl.col("response") == pl.col("truth")).fill_null(False))
    numbers = [
        pl.len().alias("trials"),
        pl.struct("experiment", "condition", "level", pl.coalesce("image", "stimulus")).n_unique().alias("stimuli"),
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


# ---- stimuli that people and models have in common

_NAMED = 3  # observers, experiments or conditions that a notice names
_NOTICES = 5  # about observers that share only some stimuli


def shared_with_models(table: AlignedTrials) -> AlignedTrials:
    """Leave out the stimuli that people answered and no model did, so that both are scored on the same stimuli.

    The table is returned unchanged where it has only people or only models, or where they share nothing.
    """
    shown = table.answers.response != NOT_SHOWN
    by_people, by_models = shown[table.people].any(axis=0), shown[~table.people].any(axis=0)
    only_people, both = by_people & ~by_models, by_people & by_models
    if not only_people.any() or not both.any():
        return table
    notice = (
        f"people are scored on the {int(both.sum())} stimuli that a model answered too; "
        f"{int(only_people.sum())} others are left out"
    )
    return table.keep(~only_people, notice)


def overlap_notices(table: AlignedTrials) -> list[str]:
    """Name the observers that share no stimuli with people, or only some, with counts and the likely reason.

    Observers are compared with real people, or with simulated people where there are no others. Without people, say how
    many stimuli all models answered, where they answered different ones.
    """
    shown = table.answers.response != NOT_SHOWN
    people = table.people & ~table.simulated
    people = people if people.any() else table.people
    if not people.any():
        return _different_models(table, shown)
    answers_of_people = shown[people].sum(axis=0)
    notices = _isolated_people(table, shown, people, answers_of_people)
    by_text: dict[str, list[str]] = {}
    for row in np.flatnonzero(~people):
        text = _overlap_text(table, shown[row], answers_of_people > 0)
        if text:
            by_text.setdefault(text, []).append(table.observers[row])
    notices += [f"{_listed(names, 'observers')}: {text}" for text, names in list(by_text.items())[:_NOTICES]]
    more = sum(len(names) for names in list(by_text.values())[_NOTICES:])
    if more:
        notices.append(f"{more} more observers share only some stimuli with people; tables show n")
    return notices


def _different_models(table: AlignedTrials, shown: BoolArray) -> list[str]:
    """Return a notice about models that answered different stimuli: what is common to all, and who has the fewest.

    Judges answer tasks, which models do not.
    """
    models = [row for row, kind in enumerate(table.kinds) if kind != "judge"]
    shown = shown[models][:, shown[models].any(axis=0)]
    common, total = int(shown.all(axis=0).sum()), shown.shape[1]
    if common == total:
        return []
    counts = dict(zip((table.observers[row] for row in models), shown.sum(axis=1), strict=True))
    each = ", ".join(f"{name} {counts[name]}" for name in sorted(counts, key=counts.__getitem__)[:_NOTICES])
    return [f"{common} of {total} stimuli were answered by all {len(models)} models (the fewest: {each})"]


def _isolated_people(
    table: AlignedTrials, shown: BoolArray, people: BoolArray, answers_of_people: IntArray
) -> list[str]:
    """Return a notice about the people who share no stimulus with another person; none about a single person."""
    isolated = [
        row for row in np.flatnonzero(people) if shown[row].any() and not (answers_of_people[shown[row]] > 1).any()
    ]
    if not isolated or people.sum() < 2:
        return []
    first = isolated[0]
    of_others = (answers_of_people > 0) & ~shown[first]
    reason = explain_mismatch(table.columns.filter(shown[first]), table.columns.filter(of_others))
    names = _listed([table.observers[row] for row in isolated], "people")
    return [f"{names}: no stimuli in common with other people; for example {table.observers[first]}: {reason}"]


def _overlap_text(table: AlignedTrials, of_observer: BoolArray, of_people: BoolArray) -> str:
    """Return how many stimuli an observer shares with people and why not more; an empty text where it shares all."""
    shared, own, total = int((of_observer & of_people).sum()), int(of_observer.sum()), int(of_people.sum())
    if not own or shared == total:
        return ""
    if shared == own:
        return f"answered {own} of people's {total} stimuli and no others"
    reason = explain_mismatch(
        table.columns.filter(of_observer & ~of_people), table.columns.filter(of_people & ~of_observer)
    )
    return f"{shared or 'none'} of its {own} stimuli match people's {total}: {reason}"


def explain_mismatch(stimuli: pl.DataFrame, others: pl.DataFrame) -> str:
    """Return the likely reason why stimuli of one observer match none of another's.

    Args:
        stimuli: Stimuli of the observer, with the columns experiment, condition, image and stimulus.
        others: Stimuli of the other observer.
    """
    if not others.height:
        return "nobody else answered those"
    stimuli, others = (part.with_columns(canonical_experiment(pl.col("experiment"))) for part in (stimuli, others))
    own, other = set(stimuli["experiment"]), set(others["experiment"])
    if own == {""} and "" not in other:
        return f"its trials have no experiment, the others have {_listed(other)}; convert them with --experiment"
    if not own & other:
        return f"its experiments are {_listed(own)}, the others' {_listed(other)}; use one name"
    common = pl.col("experiment").is_in(sorted(own & other))
    stimuli, others = stimuli.filter(common), others.filter(common)
    own, other = (set(part["condition"].fill_null("none")) for part in (stimuli, others))
    if not own & other:
        return f"its conditions are {_listed(own)}, the others' {_listed(other)}; use one spelling"
    images = set(stimuli["image"].drop_nulls()) & set(others["image"].drop_nulls())
    if not images:
        names = [min(part["image"].drop_nulls(), key=natural_key, default="none") for part in (stimuli, others)]
        return f"no image has the same name in both (for example {names[0]!r} and {names[1]!r})"
    same = stimuli.join(others, on=["experiment", "condition", "level", "image"], how="semi", nulls_equal=True)
    if same["stimulus"].count():
        return f"{_listed(set(same['image'].drop_nulls()))} have the same name and other pixels"
    return "image names agree only across experiments, conditions or levels"


def _listed(names: Iterable[str], noun: str = "") -> str:
    """Return the first names, and how many more there are; `noun` says of what."""
    ordered = sorted(names, key=natural_key)
    text = ", ".join(name or "(none)" for name in ordered[:_NAMED])
    more = len(ordered) - _NAMED
    return text if more <= 0 else f"{text} and {more} more {noun}".rstrip()

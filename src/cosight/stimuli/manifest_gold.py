"""Answers of a study as gold labels: people's take the place of no label, or of a simulated panel's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import polars as pl

from cosight.errors import InvalidInput
from cosight.measures.gold_distributions import label_counts
from cosight.stimuli.sets import StimulusSet, read_set
from cosight.trials.manifest import MANIFEST, MANIFEST_SCHEMA, write_manifest
from cosight.trials.spaces import LabelSpace, label_space
from cosight.trials.table import Trials, first_showings, of_roles

__all__ = ["put_gold"]

_TOLD = {"human": "people", "simulated": "simulated"}  # how a manifest's parameters call them


def put_gold(root: Path, trials: Trials, *, kind: Literal["human", "simulated"] = "human") -> int:
    """Put the answers of one kind of participants into the manifest of the set at `root`; how many images have some.

    Images are known by their digest. First showings of test stimuli count. Where a set has groups, only Uncertain
    images are asked about: the others' gold labels hold by construction. Images that nobody answered keep what they
    have. Simulated answers never replace people's.
    """
    stimuli = read_set(root)
    space = _space_of(stimuli, trials)
    asked = _asked(stimuli)["stimulus"].unique(maintain_order=True).to_list()
    shown = trials.frame.filter(of_roles(("test",)) & (pl.col("kind") == kind) & pl.col("stimulus").is_in(asked))
    given = first_showings(shown, ["observer", "stimulus"]).filter(pl.col("response").is_not_null())
    if not given.height:
        which = "Uncertain images" if _grouped(stimuli) else "images"
        raise InvalidInput(f"gold labels need {kind} answers to {which} of {root}, got none in the trials")
    strange = set(given["response"]) - set(space.answers)
    if strange:
        raise InvalidInput(f"people's answers must be those of {space.name}, got {min(strange)!r}; convert them first")
    found = _counted(given, space)
    rows = [_with_gold(row, found.get(row["stimulus"]), kind) for row in stimuli.frame.iter_rows(named=True)]
    write_manifest(root, pl.DataFrame(rows, schema={**MANIFEST_SCHEMA, **stimuli.frame.schema}), stimuli.facts)
    return len(found)


def _space_of(stimuli: StimulusSet, trials: Trials) -> LabelSpace:
    """The set's own label space, else that of the answers."""
    own = stimuli.facts.get("settings", {}).get("labels")
    space = label_space(own) if own else trials.space
    if space is None:
        raise InvalidInput(f"gold labels are shares of the answers of a label space, {stimuli.root} names none")
    return space


def _asked(stimuli: StimulusSet) -> pl.DataFrame:
    """The stimuli that people may decide about."""
    if stimuli.frame["stimulus"].has_nulls():
        raise InvalidInput(
            f"gold labels are kept in a manifest, {stimuli.root} has no {MANIFEST}; make a set of it first"
        )
    return stimuli.frame.filter(pl.col("group") == "uncertain") if _grouped(stimuli) else stimuli.frame


def _grouped(stimuli: StimulusSet) -> bool:
    return stimuli.frame["group"].null_count() < len(stimuli)


def _counted(given: pl.DataFrame, space: LabelSpace) -> dict[str, list[int]]:
    """How many gave each answer, by stimulus."""
    images = {name: place for place, name in enumerate(given["stimulus"].unique(maintain_order=True))}
    codes = [space.answers.index(answer) for answer in given["response"]]
    counts = label_counts([images[name] for name in given["stimulus"]], codes, len(space.answers)).counts
    return {name: counts[place].tolist() for name, place in images.items()}


def _with_gold(row: dict[str, object], counts: list[int] | None, kind: str) -> dict[str, object]:
    if counts is None or row["group"] not in ("uncertain", None):
        return row
    known = json.loads(str(row["parameters"] or "{}"))
    if kind == "simulated" and known.get("gold") == _TOLD["human"]:
        raise InvalidInput(
            f"people's gold labels are not replaced by simulated ones, {row['file']} has people's; use a copy"
        )
    told = json.dumps({**known, "gold": _TOLD[kind]}, sort_keys=True)
    shares = [count / sum(counts) for count in counts]
    return {**row, "gold_counts": counts, "gold": shares, "parameters": told}

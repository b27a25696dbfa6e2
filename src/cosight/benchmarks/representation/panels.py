"""Example panels: targets, seeds and what models take for the targets (Nanda et al. 2021, Figures 1, 3 and 8)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from PIL import Image as Pillow

from cosight.errors import InvalidInput
from cosight.files import atomic_write
from cosight.stimuli.contact_sheet import SheetRow, contact_sheet, sheet_format
from cosight.stimuli.images import Bytes
from cosight.stimuli.sets import StimulusSet, read_set
from cosight.stimuli.tasks import CONTROVERSIAL
from cosight.trials.choices import PHOTOS
from cosight.trials.manifest import MANIFEST

__all__ = ["CONTEST", "panel_rows", "write_panels"]

CONTEST = "contest"  # the folder inside the set that has the controversial stimuli, a set of their own
_SIDE = 96  # pixels of a picture


def panel_rows(stimuli: StimulusSet, *, targets: int = 8) -> list[SheetRow]:
    """Return the rows of a sheet: a column per target; targets, seeds, and one row per model and kind of seeds.

    The caption of an inversion is its relative distance. Of controversial stimuli the caption has both distances.

    Args:
        stimuli: A set of inversions or of controversial stimuli.
        targets: Number of targets of each kind, the first ones of the set.

    Raises:
        InvalidInput: The set has neither.
    """
    records = [
        {**row, "facts": json.loads(row["parameters"] or "{}")}
        for row in stimuli.frame.sort("file").iter_rows(named=True)
    ]
    results = [row for row in records if row["kind"] in ("inversion", CONTROVERSIAL)]
    if not results:
        raise InvalidInput(f"panels show inversions or controversial stimuli, {stimuli.root} has none")
    by_digest = {row["stimulus"]: row for row in records}
    rows = []
    for kind in dict.fromkeys(str(row["facts"].get("targets", PHOTOS)) for row in results):
        of_kind = [row for row in results if str(row["facts"].get("targets", PHOTOS)) == kind]
        parents = {row["parent"] for row in of_kind}
        shown = sorted(parents, key=lambda parent: str(by_digest[parent]["file"]))[:targets]
        rows.append(SheetRow(kind, _pictures(stimuli, shown, {name: ("", by_digest[name]) for name in shown})))
        for start in dict.fromkeys(row["facts"]["start"] for row in of_kind):
            from_start = [row for row in of_kind if row["facts"]["start"] == start]
            seeds = {row["parent"]: row["facts"].get("seed_stimulus") for row in from_start}
            known = {name: ("", by_digest[seed]) for name, seed in seeds.items() if seed in by_digest}
            if known:
                rows.append(SheetRow(f"seed: {start}", _pictures(stimuli, shown, known)))
            for condition in dict.fromkeys(row["condition"] for row in from_start):
                own = {row["parent"]: (_caption(row), row) for row in from_start if row["condition"] == condition}
                rows.append(SheetRow(_title(condition, start), _pictures(stimuli, shown, own)))
    return rows


def _pictures(
    stimuli: StimulusSet, targets: Sequence[str], chosen: Mapping[str, tuple[str, Mapping[str, Any]]]
) -> list[tuple[str, Bytes]]:
    """Return caption and pixels of what was chosen for each target; a white picture where there is nothing."""
    pictures = {
        name: (caption, stimuli.pixels(row["file"])) for name, (caption, row) in chosen.items() if name in targets
    }
    blank = ("none", np.full_like(next(iter(pictures.values()))[1], 255)) if pictures else None
    return [pictures.get(target, blank) for target in targets] if blank else []


def _caption(row: Mapping[str, Any]) -> str:
    facts = row["facts"]
    if row["kind"] == CONTROVERSIAL:
        return f"{facts['distance_similar']:.2f} / {facts['distance_distinct']:.2f}"
    return f"{facts['distance']:.3f}"


def _title(condition: str, start: Any) -> str:
    if " / " in condition:
        similar, distinct = condition.split(" / ")
        return f"same to {similar},\nother to {distinct}"
    return condition.removesuffix(f" {start}")


def write_panels(stimuli: StimulusSet, path: Path) -> None:
    """Write the panels of a set, and of the controversial stimuli inside it, as one picture."""
    rows = panel_rows(stimuli)
    folder = stimuli.root / CONTEST
    if (folder / MANIFEST).exists():
        contest = read_set(folder)
        if (contest.frame["kind"] == CONTROVERSIAL).any():
            first_start = pl.col("parameters").str.contains('"start": 0,', literal=True)
            kept = contest.frame.filter((pl.col("kind") != CONTROVERSIAL) | first_start)
            rows += panel_rows(StimulusSet(contest.root, kept, contest.facts))
    with atomic_write(path) as draft:
        Pillow.fromarray(contact_sheet(rows, side=_SIDE)).save(draft, sheet_format(path))

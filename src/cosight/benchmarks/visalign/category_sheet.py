"""A built set to look at: its categories down, pictures across."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from PIL import Image as Pillow

from cosight.benchmarks.visalign.categories import CATEGORIES
from cosight.files import atomic_write
from cosight.stimuli.contact_sheet import SheetRow, contact_sheet, sheet_format
from cosight.stimuli.sets import StimulusSet
from cosight.trials.spaces import label_space

__all__ = ["category_rows", "write_category_sheet"]


def category_rows(stimuli: StimulusSet, *, split: str = "test", pictures: int = 20) -> list[SheetRow]:
    """The first pictures of each category of a split; of category 8 as many rows as there are severities."""
    frame = stimuli.frame.filter(pl.col("split") == split).sort("category", "level", "file", nulls_last=True)
    answers = label_space(stimuli.facts["settings"]["labels"]).answers
    rows = []
    for (number, level), part in frame.group_by("category", "level", maintain_order=True):
        word = CATEGORIES[int(str(number))].word
        name = f"{number} {word}" if level is None else f"{number} {word} {level}"
        shown = part.head(pictures).iter_rows(named=True)
        rows.append(SheetRow(name, [(_words(row, answers), stimuli.pixels(row["file"])) for row in shown]))
    return rows


def _words(row: Mapping[str, Any], answers: Sequence[str]) -> str:
    """The truth, and how many gave it where people, real or simulated, were asked."""
    if row["gold_counts"] is None:
        return str(row["truth"])
    return f"{row['truth']} {row['gold'][answers.index(row['truth'])]:.0%}"


def write_category_sheet(stimuli: StimulusSet, path: Path, *, split: str = "test", side: int = 64) -> None:
    """Write the sheet as PNG or JPEG, whole or not at all."""
    picture = Pillow.fromarray(contact_sheet(category_rows(stimuli, split=split), side=side))
    with atomic_write(path) as draft:
        picture.save(draft, sheet_format(path))

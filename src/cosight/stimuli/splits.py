"""What must hold of a set with splits before anything is calibrated or scored on it."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import polars as pl

from cosight.arrays import distributions
from cosight.errors import InvalidInput
from cosight.stimuli.sets import StimulusSet
from cosight.trials.manifest import SPLITS

__all__ = ["check_splits"]


def check_splits(stimuli: StimulusSet) -> None:
    """Refuse a set whose splits share images, or whose gold labels are no distributions.

    Splits may share neither images nor the images that those were made from.
    """
    strange = set(stimuli.frame["split"].drop_nulls()) - set(SPLITS)
    if strange:
        raise InvalidInput(f"splits are {', '.join(SPLITS)}, {stimuli.root} has {min(strange)!r}; rename it")
    _check_calibration(stimuli)
    for column in ("stimulus", "parent"):
        _check_disjoint(stimuli, column)
    _check_gold(stimuli)


def _check_calibration(stimuli: StimulusSet) -> None:
    splits = set(stimuli.frame["split"].drop_nulls())
    if "test" in splits and "calibration" not in splits:
        raise InvalidInput(f"a test set needs a calibration split of its own, {stimuli.root} has none; build it anew")


def _check_disjoint(stimuli: StimulusSet, column: str) -> None:
    parts = {
        split: set(part[column].drop_nulls())
        for (split,), part in stimuli.frame.group_by("split", maintain_order=True)
        if split is not None
    }
    what = "images" if column == "stimulus" else "the sources of their images"
    for first, second in combinations(sorted(parts, key=str), 2):
        if shared := parts[first] & parts[second]:
            raise InvalidInput(
                f"splits must not share {what}, {first} and {second} of {stimuli.root} share {len(shared)} "
                f"({min(shared)[:12]}...); build the set anew"
            )


def _check_gold(stimuli: StimulusSet) -> None:
    known = stimuli.frame.filter(pl.col("gold").is_not_null())
    for (answers,), part in known.group_by(pl.col("gold").list.len()):
        table = np.array(part["gold"].to_list(), np.float64).reshape(part.height, -1)
        try:
            distributions(table, name="gold")
        except InvalidInput as error:
            raise InvalidInput(f"{stimuli.root}, {answers} answers an image: {error}") from error
    if known["gold"].list.len().n_unique() > 1:
        raise InvalidInput(f"gold labels are about one list of answers, those of {stimuli.root} differ in length")

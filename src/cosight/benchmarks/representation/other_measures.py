"""Other measures of the models in the table, so that one table answers whether a training makes them more human-like.

Trials of the same models on other sets are scored per experiment: the Hellinger distance to people's label
distributions, the shape bias on cue-conflict images, and error consistency with people. Each measure is computed where
the trials allow it, as `cosight score` and `cosight compare` compute it, with the differences between models.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from cosight.measures import pair_forms
from cosight.statistics.blocks import Block, join_blocks, rows_of
from cosight.statistics.contrasts import difference_rows, models_against_people
from cosight.statistics.pair_scores import pair_blocks, pairs_of
from cosight.statistics.resampling import Draw, draw_resamples
from cosight.statistics.rows import Row
from cosight.statistics.score_forms import ScoreData, score_form
from cosight.trials.join import stimulus_groups
from cosight.trials.table import Trials

__all__ = ["ACCURACY", "CONSISTENCY", "HELLINGER", "SHAPE_BIAS", "has_own_trials", "other_rows"]

HELLINGER, SHAPE_BIAS, CONSISTENCY = "hellinger", "shape_bias", "error_consistency"
ACCURACY = "accuracy"  # also the experiment of the trials that `build representation` writes


def has_own_trials(trials: Trials) -> bool:
    """Return whether trials are about tasks or the accuracy of the experiment itself, not about another set."""
    is_own = pl.col("extra").str.contains('"query"', literal=True) | (pl.col("experiment") == ACCURACY)
    return bool(trials.frame.select(is_own.any()).item())


def other_rows(others: Sequence[ScoreData], *, resamples: int, confidence: float, seed: int) -> list[Row]:
    """Compute the measures of other trials, with intervals and differences between models.

    Args:
        others: Trials of models, and of people where there are some, one per label space.
        resamples: Number of bootstrap resamples.
        confidence: Confidence level of the intervals.
        seed: Seed of the resamples.

    Returns:
        Rows per experiment.
    """
    rows: list[Row] = []
    for data in others:
        models = data.table.models
        for group in stimulus_groups(data.table, ("experiment",)):
            draw = draw_resamples(data.table, group, resamples=resamples, seed=seed, merge=False)
            for block, name in _blocks(data, draw, confidence):
                if name == CONSISTENCY:  # the mean over people, not each person
                    used = models_against_people(block, name, models)
                else:
                    used = [i for i, key in enumerate(block.keys) if key.observer in models and key.measure == name]
                rows += rows_of(block.at(used), confidence=confidence, seed=seed)
                known = [i for i in used if block.keys[i].statistic == "value"]
                rows += difference_rows(block, name, models, confidence=confidence, seed=seed, index=known)
    return rows


def _blocks(data: ScoreData, draw: Draw, confidence: float) -> list[tuple[Block, str]]:
    """Return the measures that these trials allow, each with its name."""
    found = []
    for name in (ACCURACY, HELLINGER, SHAPE_BIAS):
        form = score_form(name)
        if form is not None and not form.lacks(data):
            found += [(block, name) for block in form.blocks(data, draw, [name])]
    people = data.table.people[draw.observer_index]
    pairs = pairs_of(people, "human-model")
    if len(pairs):
        found.append(
            (join_blocks(pair_blocks(draw, pairs, {CONSISTENCY: pair_forms[CONSISTENCY]}, confidence)), CONSISTENCY)
        )
    return found

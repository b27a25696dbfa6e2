"""People who share few stimuli: measures pooled over all pairs, in place of a mean over pairs of a few trials each."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cosight.arrays import BoolArray
from cosight.measures.answers import NOT_SHOWN
from cosight.measures.arithmetic import SCARCE, Pairs
from cosight.measures.declarations import PairForm
from cosight.statistics.blocks import Block, Key, make_block
from cosight.statistics.pair_scores import FEW_TRIALS
from cosight.statistics.resampling import Draw, ObserverGroup, random_stream

__all__ = ["groups_to_pool", "pairs_within", "pooled_blocks"]


def groups_to_pool(draw: Draw) -> list[ObserverGroup]:
    """Return the groups of people who share few stimuli: fewer than `FEW_TRIALS` per pair, and less than half.

    People who all saw the same few stimuli are no such group: each pair has all the trials there are. Nor are fewer
    than four people.

    Args:
        draw: The answers to a group of stimuli and their resamples.
    """
    groups = []
    for group in draw.people_groups:
        own = (draw.answers.response[group.members] != NOT_SHOWN).sum(axis=1).mean()
        if not group.too_few and 0 < _trials_per_pair(draw, group) < min(FEW_TRIALS, own / 2):
            groups.append(group)
    return groups


def pairs_within(pairs: Pairs, groups: list[ObserverGroup]) -> BoolArray:
    """Return which pairs are two members of one of the groups.

    >>> pairs_within(np.array([[0, 1], [0, 2]]), [ObserverGroup("people", np.array([0, 1]))])
    array([ True, False])
    """
    within = np.zeros(len(pairs), dtype=np.bool_)
    for group in groups:
        within |= np.isin(pairs, group.members).all(axis=1)
    return within


def pooled_blocks(draw: Draw, groups: list[ObserverGroup], forms: Mapping[str, PairForm]) -> list[Block]:
    """Compute measures pooled over all pairs of each group.

    The resamples are normal draws with the standard error of the estimate: drawing stimuli and people again would count
    the noise of single answers, which is most of the noise here, three times.

    Args:
        draw: The answers to a group of stimuli and their resamples.
        groups: The groups of people.
        forms: The pair form of each measure; those without a pooled form are left out.
    """
    clusters = [factor.member for factor in draw.factors] or [draw.stimuli]
    blocks = []
    for group in groups:
        per_pair = _trials_per_pair(draw, group)
        for name, form in forms.items():
            if form.pooled is None:
                continue
            pooled = form.pooled(draw.answers.of(group.members), clusters=clusters)
            rng = random_stream(draw.seed, "pooled pairs", group.name, name, str(draw.group))
            note = f"pooled over {pooled.n} common trials of {pooled.people} {group.name}, {per_pair:.2g} per pair"
            undefined = np.isnan(pooled.value)
            conditions = {"undefined": undefined, "few_errors": pooled.n < SCARCE and not undefined, "pooled": True}
            blocks.append(
                make_block(
                    draw.group,
                    [Key(group.name, group.name, name)],
                    np.array([pooled.value]),
                    pooled.value + pooled.standard_error * rng.normal(size=(1, draw.resamples)),
                    np.array([per_pair]),
                    notes=[f"undefined: {form.undefined}; {note}" if undefined else note],
                    flags=[tuple(flag for flag, holds in conditions.items() if holds)],
                    clusters=np.array([min(pooled.people, pooled.stimuli)]),
                )
            )
    return blocks


def _trials_per_pair(draw: Draw, group: ObserverGroup) -> float:
    people = len(group.members)
    shown = (draw.answers.response[group.members] != NOT_SHOWN).sum(axis=0)
    return float((shown * (shown - 1)).sum() / max(people * (people - 1), 1))

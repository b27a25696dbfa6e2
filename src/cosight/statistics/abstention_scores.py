"""Scores of observers that can abstain: risk and coverage, reliability, shares of actions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosight.arrays import BoolArray, FloatArray
from cosight.measures.abstention import (
    ABSTAIN_ACTIONS,
    ACT_ACTIONS,
    reliability_score,
    reliability_sweep,
)
from cosight.measures.arithmetic import Weights, divide
from cosight.measures.selective import (
    risk_coverage,
)
from cosight.statistics.blocks import Block, Flags, Key, make_block, single_block
from cosight.statistics.gold_labels import Gold
from cosight.statistics.outputs import Outputs
from cosight.statistics.resampling import Draw
from cosight.statistics.rows import Row, number
from cosight.trials.spaces import ABSTAIN

__all__ = [
    "ACTION_SHARE",
    "COST",
    "COSTS",
    "RELIABILITY",
    "RISK",
    "reliability_blocks",
    "reliability_lacks",
    "risk_blocks",
    "sweep_rows",
]

RELIABILITY, ACTION_SHARE, RISK = "reliability_score", "action_share", "risk_coverage"
COST, COSTS = "cost", ("0", "N/2", "N")  # of a wrong prediction, for N stimuli; rows have it in their group

_SWEEP = np.round(np.linspace(0, 1, 11), 2)


class _ReliabilityInput(NamedTuple):
    """The positional arguments of `reliability_score`, one entry per stimulus."""

    probabilities: FloatArray  # (stimuli, classes without abstain)
    abstention: FloatArray
    original: NDArray[np.int64]
    group: NDArray[np.str_]
    gold: FloatArray  # (stimuli, labels with abstain last)


def risk_blocks(draw: Draw, outputs: Outputs) -> list[Block]:
    """Compute the area under the risk-coverage curve of each observer.

    An observer without abstention is ordered by 1 - its highest probability. Risk is about the class that the observer
    would answer with at every threshold, so gamma plays no part.
    """
    weights, shown, blocks = draw.stimulus_weights(), draw.observed(draw.answers).shown, []
    for row, observer in enumerate(draw.observer_index.tolist()):
        abstention = outputs.abstentions(observer, draw.columns)
        uncertainty = 1 - outputs.class_probabilities(observer, draw.columns).max(axis=1, initial=-np.inf)
        abstention = np.where(np.isnan(abstention), uncertainty, abstention)
        known = np.isfinite(abstention) & shown[row]
        if not known.any():
            continue
        abstention, correct = abstention[known], outputs.correct(observer, draw.columns)[known]
        resampled = np.full(len(weights), np.nan)  # nan where no stimulus was drawn
        for index, counts in enumerate(weights[:, known].astype(np.int64)):
            if counts.any():
                resampled[index] = risk_coverage(np.repeat(abstention, counts), np.repeat(correct, counts)).value
        value, key = risk_coverage(abstention, correct).value, Key(draw.names[row], None, RISK)
        block = single_block(draw.group, key, value, resampled, known.sum())
        blocks.append(draw.with_stimulus_clusters(block))
    return blocks


def reliability_lacks(outputs: Outputs, gold: Gold) -> str:
    """Return what is missing for reliability scores, in words; an empty text for nothing."""
    if ABSTAIN not in outputs.table.labels or np.isnan(outputs.abstention).all():
        return "abstention and a label space with abstain"
    unlabelled = np.flatnonzero((gold.group == "uncertain") & ~gold.known)
    if not len(unlabelled):
        return ""
    image = outputs.table.columns["image"][int(unlabelled[0])]
    return (
        f"people's answers to Uncertain images, {len(unlabelled)} have none ({image}, for one); give them with --humans"
    )


def reliability_blocks(
    draw: Draw, outputs: Outputs, gold: Gold, *, gamma: float, lam: float, weights: Weights | None = None
) -> list[Block]:
    """Compute the reliability score with costs 0, N/2 and N, and the shares of actions, of observers with abstention.

    Whether an Uncertain stimulus counts as Must-Act stays the same in every resample.

    Args:
        draw: The answers to a group of stimuli and their resamples.
        outputs: The observers' probabilities and abstentions.
        gold: Group, original class and gold label of each stimulus.
        gamma: An observer abstains where its abstention exceeds this.
        lam: An Uncertain stimulus counts as Must-Act if more than this fraction of people gave its original label.
        weights: How often each column is drawn, (resamples, columns), to use other resamples than those of `draw`.
    """
    blocks = []
    for row, observer in enumerate(draw.names):
        known = _has_abstention(draw, outputs, row)
        if not known.any():
            continue
        n = int(known.sum())
        own_weights = (draw.stimulus_weights(known) if weights is None else weights[:, known]).astype(np.float64)
        own_weights *= divide(np.full(len(own_weights), float(n)), own_weights.sum(axis=1))[:, None]  # a sum over N
        data = _reliability_input(draw, outputs, gold, row, known)
        scores = [reliability_score(*data, gamma=gamma, lam=lam, cost=cost) for cost in _costs(n)]
        keys = [Key(observer, None, RELIABILITY, variant=((COST, label),)) for label in COSTS]
        values = [score.value for score in scores]
        resampled = [own_weights @ score.items for score in scores]
        counts = [n] * len(scores)
        actions = scores[0].actions  # they do not depend on the cost
        for actions_of_group in (ACT_ACTIONS, ABSTAIN_ACTIONS):  # images to act on, images to refuse
            in_group = np.isin(actions, actions_of_group)
            size = (own_weights @ in_group).astype(np.float64)
            for action in actions_of_group:
                done = actions == action
                keys.append(Key(observer, None, ACTION_SHARE, variant=(("action", action.name.lower()),)))
                values.append(float(done.sum() / in_group.sum()) if in_group.any() else float("nan"))
                resampled.append(divide((own_weights @ done).astype(np.float64), size))
                counts.append(int(in_group.sum()))
        note = f"gamma {gamma:g}, N = {n}"
        uncertain = actions[data.group == "uncertain"]
        if len(uncertain):
            must_act = int(np.isin(uncertain, ACT_ACTIONS).sum())
            note += f"; lambda {scores[0].lam:g}: {must_act} of {len(uncertain)} Uncertain to act on"
        block = make_block(
            draw.group,
            keys,
            np.array(values),
            np.stack(resampled),
            np.array(counts),
            notes=[note] * len(keys),
            flags=[_simulated_flag(draw, gold, known)] * len(keys),
        )
        blocks.append(draw.with_stimulus_clusters(block))
    return blocks


def sweep_rows(draw: Draw, outputs: Outputs, gold: Gold, *, lam: float) -> list[Row]:
    """Return the reliability score over gamma 0, .1, ... 1, without intervals."""
    rows = []
    for row, observer in enumerate(draw.names):
        known = _has_abstention(draw, outputs, row)
        n = int(known.sum())
        if n == 0:
            continue
        sweep = reliability_sweep(*_reliability_input(draw, outputs, gold, row, known), gammas=_SWEEP, lam=lam)
        for gamma, value, wrong in zip(sweep.gamma, sweep.score, sweep.wrong, strict=True):
            rows += [
                Row(
                    observer=observer,
                    measure=RELIABILITY,
                    group=(*draw.group, ("gamma", f"{gamma:g}"), (COST, label)),
                    value=number(float(value - cost * wrong)),
                    n=n,
                    flags=("sweep", *_simulated_flag(draw, gold, known)),
                    note=f"sweep over gamma, N = {n}; {int(wrong)} wrong predictions",
                )
                for cost, label in zip(_costs(n), COSTS, strict=True)
            ]
    return rows


def _has_abstention(draw: Draw, outputs: Outputs, row: int) -> BoolArray:
    """Return the columns for which an observer gave its abstention and, unless that is 1, class probabilities."""
    observer = int(draw.observer_index[row])
    abstention = outputs.abstentions(observer, draw.columns)
    probabilities = outputs.class_probabilities(observer, draw.columns)
    complete = ~np.isnan(probabilities).any(axis=1) | (abstention == 1)
    return np.asarray(draw.observed(draw.answers).shown[row] & ~np.isnan(abstention) & complete)


def _reliability_input(draw: Draw, outputs: Outputs, gold: Gold, row: int, known: BoolArray) -> _ReliabilityInput:
    observer, columns = int(draw.observer_index[row]), draw.columns[known]
    return _ReliabilityInput(
        outputs.class_probabilities(observer, columns),
        outputs.abstentions(observer, columns),
        gold.original[columns],
        gold.group[columns],
        gold.distributions[columns],
    )


def _costs(n: int) -> tuple[float, ...]:
    """Return the costs that COSTS names, for n stimuli."""
    return 0.0, n / 2, float(n)


def _simulated_flag(draw: Draw, gold: Gold, known: BoolArray) -> Flags:
    """Return the flag of numbers in which answers of simulated people decide how Uncertain stimuli count."""
    columns = draw.columns[known]
    return ("simulated",) if (gold.simulated[columns] & (gold.group[columns] == "uncertain")).any() else ()

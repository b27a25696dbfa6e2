"""Observers that can hold back: risk and coverage, reliability scores, shares of actions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosight.arrays import FloatArray
from cosight.measures.abstention import (
    ABSTAIN_ACTIONS,
    ACT_ACTIONS,
    Reliability,
    reliability_score,
    reliability_sweep,
    risk_coverage,
)
from cosight.measures.arithmetic import Weights, divide
from cosight.measures.uncertainty import draw_stimuli
from cosight.statistics.blocks import Block, Flags, Key, block_of, single
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

# probabilities, abstention, original, group, gold with abstain last
_Given = tuple[FloatArray, FloatArray, NDArray[np.int64], NDArray[np.str_], FloatArray]


def risk_blocks(drawn: Draw, outputs: Outputs) -> list[Block]:
    """Area under the risk-coverage curve; who gives no abstention holds back by 1 - the highest probability.

    Risk is about the class an observer would answer with, at every threshold: gamma plays no part.
    """
    columns, weights, own, blocks = drawn.cell.columns, drawn.weights(), drawn.own(drawn.answers).shown, []
    for row, observer in enumerate(drawn.observers.tolist()):
        doubt = outputs.abstentions(observer, columns)
        unsure = 1 - outputs.classes(observer, columns).max(axis=1, initial=-np.inf)
        doubt = np.where(np.isnan(doubt), unsure, doubt)
        known = np.isfinite(doubt) & own[row]
        if known.any():
            right = outputs.right(observer, columns)[known]
            value = risk_coverage(doubt[known], right).value
            samples = _resampled_risk(doubt[known], right, weights[:, known])
            block = single(drawn.cell.group, Key(drawn.names[row], None, RISK), value, samples, known.sum())
            blocks.append(drawn.of_stimuli(block))
    return blocks


def _resampled_risk(doubt: FloatArray, right: NDArray[np.bool_], weights: Weights) -> FloatArray:
    """The area of every resample, by repeating the drawn stimuli; nan where none was."""
    samples = np.full(len(weights), np.nan)
    for index, times in enumerate(weights.astype(np.int64)):
        if times.any():
            samples[index] = risk_coverage(np.repeat(doubt, times), np.repeat(right, times)).value
    return samples


def reliability_lacks(outputs: Outputs, gold: Gold) -> str:
    """What is missing for reliability scores; "" for nothing."""
    labels, abstention = outputs.table.labels, outputs.abstention
    if ABSTAIN not in labels or np.isnan(abstention).all():
        return "abstention and a label space with abstain"
    lost = np.flatnonzero((gold.group == "uncertain") & ~gold.known)
    if not len(lost):
        return ""
    image = outputs.table.columns["image"][int(lost[0])]
    return f"people's answers to Uncertain images, {len(lost)} have none ({image}, for one); give them with --humans"


def reliability_blocks(
    drawn: Draw, outputs: Outputs, gold: Gold, *, gamma: float, lam: float, weights: Weights | None = None
) -> list[Block]:
    """RS with costs 0, N/2 and N, and the shares of actions, of every observer with abstentions.

    `weights` (resamples, columns) is how often each stimulus is drawn, where that is not for this cell to decide. How
    an Uncertain stimulus counts stays the same in every resample.
    """
    blocks = []
    for row in range(len(drawn.observers)):
        known = _known(drawn, outputs, row)
        if known.any():
            given = _given(drawn, outputs, gold, row, known)
            times = _times(drawn, known) if weights is None else weights[:, known]
            flags = _simulated(drawn, gold, known)
            blocks.append(_reliability(drawn, row, given, times, gamma, lam, flags))
    return blocks


def _simulated(drawn: Draw, gold: Gold, known: NDArray[np.bool_]) -> Flags:
    """The flag of numbers for which the answers of a simulated panel decide how Uncertain stimuli count."""
    columns = drawn.cell.columns[known]
    return ("simulated",) if (gold.simulated[columns] & (gold.group[columns] == "uncertain")).any() else ()


def sweep_rows(drawn: Draw, outputs: Outputs, gold: Gold, *, lam: float) -> list[Row]:
    """RS over gamma 0, .1, ... 1, without intervals."""
    rows = []
    for row, observer in enumerate(drawn.names):
        known = _known(drawn, outputs, row)
        n = int(known.sum())
        if n == 0:
            continue
        sweep = reliability_sweep(*_given(drawn, outputs, gold, row, known), gammas=_SWEEP, lam=lam)
        for gamma, value, wrong in zip(sweep.gamma, sweep.score, sweep.wrong, strict=True):
            rows += [
                Row(
                    observer=observer,
                    measure=RELIABILITY,
                    group=(*drawn.cell.group, ("gamma", f"{gamma:g}"), (COST, label)),
                    value=number(float(value - cost * wrong)),
                    n=n,
                    flags=("sweep", *_simulated(drawn, gold, known)),
                    note=f"sweep over gamma, N = {n}; {int(wrong)} wrong predictions",
                )
                for cost, label in _costs(n)
            ]
    return rows


def _known(drawn: Draw, outputs: Outputs, row: int) -> NDArray[np.bool_]:
    """Columns with an abstention and the classes to hold back; an answer alone tells none."""
    observer, columns = int(drawn.observers[row]), drawn.cell.columns
    refuses = outputs.abstentions(observer, columns)
    sure = ~np.isnan(outputs.classes(observer, columns)).any(axis=1) | (refuses == 1)
    return np.asarray(drawn.own(drawn.answers).shown[row] & ~np.isnan(refuses) & sure)


def _given(drawn: Draw, outputs: Outputs, gold: Gold, row: int, known: NDArray[np.bool_]) -> _Given:
    """What the reliability score takes; without a manifest, images whose truth is `abstain` are those to refuse."""
    observer, columns = int(drawn.observers[row]), drawn.cell.columns[known]
    p, a = outputs.classes(observer, columns), outputs.abstentions(observer, columns)
    return p, a, gold.original[columns], gold.group[columns], gold.shares[columns]


def _costs(n: int) -> list[tuple[float, str]]:
    return list(zip((0.0, n / 2, float(n)), COSTS, strict=True))


def _times(drawn: Draw, known: NDArray[np.bool_]) -> Weights:
    """How often each known stimulus is drawn, as many as are known."""
    clusters = None if drawn.clusters is None else drawn.clusters[known]
    return draw_stimuli(np.ones(known.sum(), dtype=np.int64), len(drawn.times), drawn.rng, clusters=clusters)


def _reliability(
    drawn: Draw, row: int, given: _Given, weights: Weights, gamma: float, lam: float, flags: Flags
) -> Block:
    n, observer = len(given[0]), drawn.names[row]
    scored = [(label, reliability_score(*given, gamma=gamma, lam=lam, cost=cost)) for cost, label in _costs(n)]
    numbers = [
        (Key(observer, None, RELIABILITY, part=((COST, label),)), found.value, weights @ found.items, n)
        for label, found in scored
    ]
    numbers += _action_shares(observer, scored[0][1], weights)
    block = block_of(
        drawn.cell.group,
        [key for key, *_ in numbers],
        np.array([value for _, value, *_ in numbers]),
        np.stack([samples for _, _, samples, _ in numbers]),
        np.array([count for *_, count in numbers]),
        notes=[f"gamma {gamma:g}, N = {n}" + _uncertain(scored[0][1], given[3])] * len(numbers),
        flags=[flags] * len(numbers),
    )
    return drawn.of_stimuli(block)


def _uncertain(found: Reliability, group: NDArray[np.str_]) -> str:
    """What a note adds where there are Uncertain stimuli."""
    actions = found.actions[group == "uncertain"]
    acted = int(np.isin(actions, ACT_ACTIONS).sum())
    return f"; lambda {found.lam:g}: {acted} of {len(actions)} Uncertain to act on" if len(actions) else ""


def _action_shares(observer: str, found: Reliability, weights: Weights) -> list[tuple[Key, float, FloatArray, int]]:
    """Each action as a share of its own group (images to act on, images to refuse), and the size of that group."""
    out = []
    for group in (ACT_ACTIONS, ABSTAIN_ACTIONS):
        member = np.isin(found.actions, group)
        for action in group:
            done = found.actions == action
            value = done.sum() / member.sum() if member.any() else float("nan")
            sampled = divide((weights @ done).astype(np.float64), (weights @ member).astype(np.float64))
            key = Key(observer, None, ACTION_SHARE, part=(("action", action.name.lower()),))
            out.append((key, float(value), sampled, int(member.sum())))
    return out

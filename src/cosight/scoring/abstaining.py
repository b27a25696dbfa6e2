"""Observers that can hold back: risk and coverage, reliability scores, shares of actions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosight.arrays import FloatArray
from cosight.measures.reliability import Action, Reliability, reliability_score, reliability_sweep
from cosight.measures.risk import risk_coverage
from cosight.measures.sums import Weights, divide
from cosight.measures.uncertainty import draw_stimuli
from cosight.scoring.blocks import Block, Key
from cosight.scoring.crowd import Draw
from cosight.scoring.outputs import Outputs
from cosight.scoring.rows import Row, group_text, number

__all__ = ["RELIABILITY", "RISK", "reliability_blocks", "risk_blocks", "sweep_rows"]

RELIABILITY, RISK = "reliability_score", "risk_coverage"

_SWEEP = np.round(np.linspace(0, 1, 11), 2)
_ACT = (Action.ACT_CORRECT, Action.ACT_INCORRECT, Action.ACT_ABSTAINED)
_ABSTAIN = (Action.ABSTAIN_ORIGINAL, Action.ABSTAIN_OTHER, Action.ABSTAIN_ABSTAINED)

_Given = tuple[
    FloatArray, FloatArray, NDArray[np.int64], NDArray[np.str_]
]  # probabilities, abstention, original, group


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
            value = np.array([risk_coverage(doubt[known], right).value])
            samples = _resampled_risk(doubt[known], right, weights[:, known])
            key, n = Key(drawn.names[row], None, RISK), np.array([float(known.sum())])
            blocks.append(Block(drawn.cell.group, (key,), value, samples[None], n, ("",)))
    return blocks


def _resampled_risk(doubt: FloatArray, right: NDArray[np.bool_], weights: Weights) -> FloatArray:
    """The area of every resample, by repeating the drawn stimuli; nan where none was."""
    samples = np.full(len(weights), np.nan)
    for index, times in enumerate(weights.astype(np.int64)):
        if times.any():
            samples[index] = risk_coverage(np.repeat(doubt, times), np.repeat(right, times)).value
    return samples


def reliability_blocks(drawn: Draw, outputs: Outputs, gamma: float) -> list[Block]:
    """RS with costs 0, N/2 and N, and the shares of actions, of every observer with abstentions."""
    blocks = []
    for row in range(len(drawn.observers)):
        known = _known(drawn, outputs, row)
        if known.any():
            blocks.append(_reliability(drawn, row, known, _given(drawn, outputs, row, known), gamma))
    return blocks


def sweep_rows(drawn: Draw, outputs: Outputs) -> list[Row]:
    """RS over gamma 0, .1, ... 1, without intervals."""
    rows = []
    for row, observer in enumerate(drawn.names):
        known = _known(drawn, outputs, row)
        n = int(known.sum())
        if n == 0:
            continue
        sweep = reliability_sweep(*_given(drawn, outputs, row, known), gammas=_SWEEP)
        for gamma, value, wrong in zip(sweep.gamma, sweep.score, sweep.wrong, strict=True):
            group = group_text((*drawn.cell.group, ("gamma", f"{gamma:g}")))
            note = f"sweep over gamma, N = {n}; {int(wrong)} wrong predictions"
            for cost, label in _costs(n):
                total = number(float(value - cost * wrong))
                rows.append(Row(observer, None, f"{RELIABILITY}.{label}", group, total, None, None, n, note))
    return rows


def _known(drawn: Draw, outputs: Outputs, row: int) -> NDArray[np.bool_]:
    """Columns with an abstention and the classes to hold back; an answer alone tells none."""
    observer, columns = int(drawn.observers[row]), drawn.cell.columns
    refuses = outputs.abstentions(observer, columns)
    sure = ~np.isnan(outputs.classes(observer, columns)).any(axis=1) | (refuses == 1)
    return np.asarray(drawn.own(drawn.answers).shown[row] & ~np.isnan(refuses) & sure)


def _given(drawn: Draw, outputs: Outputs, row: int, known: NDArray[np.bool_]) -> _Given:
    """What the reliability score takes; an image whose truth is `abstain` must be refused, any other acted on."""
    observer, columns = int(drawn.observers[row]), drawn.cell.columns[known]
    refuse = drawn.answers.truth[known] == drawn.answers.classes - 1  # abstain is the last label
    original = np.where(refuse, -1, drawn.answers.truth[known]).astype(np.int64)
    group = np.where(refuse, "must-abstain", "must-act")
    return outputs.classes(observer, columns), outputs.abstentions(observer, columns), original, group


def _costs(n: int) -> list[tuple[float, str]]:
    return [(0.0, "cost_0"), (n / 2, "cost_half"), (float(n), "cost_n")]


def _reliability(drawn: Draw, row: int, known: NDArray[np.bool_], given: _Given, gamma: float) -> Block:
    n = int(known.sum())
    clusters = None if drawn.clusters is None else drawn.clusters[known]
    weights = draw_stimuli(np.ones(n, dtype=np.int64), len(drawn.times), drawn.rng, clusters=clusters)
    scored = [(label, reliability_score(*given, gamma=gamma, cost=cost)) for cost, label in _costs(n)]
    numbers = [(f"{RELIABILITY}.{label}", found.value, weights @ found.items) for label, found in scored]
    numbers += _action_shares(scored[0][1], weights)
    keys = tuple(Key(drawn.names[row], None, name) for name, _, _ in numbers)
    values, samples = np.array([value for _, value, _ in numbers]), np.stack([sample for _, _, sample in numbers])
    notes = (f"gamma {gamma:g}, N = {n}",) * len(keys)
    return Block(drawn.cell.group, keys, values, samples, np.full(len(keys), float(n)), notes)


def _action_shares(found: Reliability, weights: Weights) -> list[tuple[str, float, FloatArray]]:
    """Each action as a share of its own group: images to act on, images to refuse."""
    out = []
    for group in (_ACT, _ABSTAIN):
        member = np.isin(found.actions, group)
        for action in group:
            done = found.actions == action
            value = done.sum() / member.sum() if member.any() else float("nan")
            sampled = divide((weights @ done).astype(np.float64), (weights @ member).astype(np.float64))
            out.append((f"{RELIABILITY}.share_{action.name.lower()}", float(value), sampled))
    return out

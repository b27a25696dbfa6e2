"""Coverage and selective risk: refusals, timeouts and low confidence of people and models on one axis.

A person answers, refuses or lets the time pass, which gives one point: the fraction answered (coverage) and the error
rate among the answers (risk). A model with confidence gives a curve. At the coverage of people, the two can be
compared: who makes fewer errors if both answer equally often?
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cosight.arrays import BoolArray, FloatArray
from cosight.measures.answers import NO_ANSWER, Answers
from cosight.measures.arithmetic import Weights, divide
from cosight.measures.selective import (
    selective_risks,
)
from cosight.statistics.blocks import Block, Flags, Key, make_block
from cosight.statistics.outputs import Outputs
from cosight.statistics.resampling import Draw, ObserverGroup
from cosight.trials.spaces import ABSTAIN

__all__ = ["COVERAGE", "OWN", "SELECTIVE_RISK", "selective_blocks"]

COVERAGE, SELECTIVE_RISK = "coverage", "selective_risk"
OWN = "own"  # the coverage that an observer chooses; other values of the group's `coverage` are fractions, or people's
_GRID = tuple(np.round(np.linspace(0.1, 1, 10), 1).tolist())


class _Decisions(NamedTuple):
    """What an observer did with each column of a draw."""

    shown: BoolArray  # it saw the stimulus, whose truth is known
    answered: BoolArray  # it answered in time and did not refuse
    wrong: BoolArray  # the answer, if it gave one, is wrong
    uncertainty: FloatArray  # orders the stimuli by which are refused first; infinite for those it did not answer
    graded: bool  # whether it has a curve: its uncertainty takes more values than answered and refused


class _Point(NamedTuple):
    """A coverage at which models with confidence are compared."""

    name: str
    coverage: float
    stimuli: BoolArray  # the columns of a draw that count


def selective_blocks(draw: Draw, outputs: Outputs, *, gamma: float) -> list[Block]:
    """Compute coverage and selective risk of each observer and of people pooled.

    Rows of the risk have the coverage in their group: `own`, a fraction for models with confidence, and the name of a
    group of people for the same models at the coverage of these people, on the stimuli that these people saw.

    Args:
        draw: The answers to a group of stimuli and their resamples.
        outputs: The observers' probabilities and abstentions.
        gamma: An observer with abstention refuses where it exceeds this.
    """
    decisions = [_decisions(draw, outputs, row, gamma) for row in range(len(draw.names))]
    shown, answered, wrong = (np.stack([getattr(one, name) for one in decisions]) for name in _Decisions._fields[:3])
    parts = (shown, shown & answered, shown & answered & wrong)

    def totals(_: Answers, weights: Weights) -> FloatArray:
        return np.stack([part @ weights.T.astype(np.float64) for part in parts])  # (3, observers, resamples)

    if not shown.any():
        return []
    resampled = draw.resample([totals], values=3 * len(draw.names))[0]
    observed = np.stack([part.sum(axis=1) for part in parts]).astype(np.float64)
    blocks = []
    for row, observer in enumerate(draw.names):
        if observed[0, row]:
            blocks.append(_own_block(draw, observer, observed[:, row], resampled[:, row]))
    everything = np.ones(shown.shape[1], dtype=np.bool_)
    points = [_Point(f"{value:g}", value, everything) for value in _GRID]
    for group in draw.people_groups:
        members = group.members
        if observed[0, members].sum():
            coverage = float(observed[1, members].sum() / observed[0, members].sum())
            points.append(_Point(group.name, coverage, np.asarray(shown[members].any(axis=0))))
        if len(members) > 1:
            pooled = np.einsum("kor,ro->kr", resampled[:, members], draw.observer_weights[:, members])
            blocks.append(_own_block(draw, group.name, observed[:, members].sum(axis=1), pooled, group))
    for row, observer in enumerate(draw.names):
        one = decisions[row]
        possible = [point for point in points if (one.shown & point.stimuli).any()]
        if one.graded and possible:
            blocks.append(_curve_block(draw, observer, one, possible))
    return [draw.with_stimulus_clusters(block) for block in blocks]


def _decisions(draw: Draw, outputs: Outputs, row: int, gamma: float) -> _Decisions:
    observer = int(draw.observer_index[row])
    shown = draw.observed(draw.answers).shown[row]
    stored = np.where(shown, outputs.response[outputs.table.rows[observer, draw.columns]], NO_ANSWER)
    labels = outputs.table.labels
    refused = (stored == NO_ANSWER) | (stored == (labels.index(ABSTAIN) if ABSTAIN in labels else NO_ANSWER))
    abstention = outputs.abstentions(observer, draw.columns)
    confidence = outputs.class_probabilities(observer, draw.columns).max(axis=1, initial=-np.inf)
    uncertainty = np.where(np.isnan(abstention), 1 - confidence, abstention)
    graded = bool((shown & ~refused & np.isfinite(uncertainty)).any())
    uncertainty = np.where(np.isfinite(uncertainty), uncertainty, 0.0)  # an answer without a confidence
    answered = ~refused & ~(abstention > gamma)
    wrong = ~outputs.correct(observer, draw.columns)
    return _Decisions(shown, answered, wrong, np.where(refused, np.inf, uncertainty), graded)


def _own_block(
    draw: Draw, observer: str, observed: FloatArray, resampled: FloatArray, group: ObserverGroup | None = None
) -> Block:
    """Return coverage and risk from the numbers shown, answered and wrong, and their resamples (3, resamples)."""
    keys = [Key(observer, None, COVERAGE), Key(observer, None, SELECTIVE_RISK, variant=((COVERAGE, OWN),))]
    values = divide(observed[1:], observed[:2])
    note, flags = f"coverage {values[0]:.3f}", Flags()
    if group is not None:
        note += f"; pooled over {len(group.members)} {group.name}"
        if group.too_few:
            note, flags = f"{note}; {group.too_few_note}", ("few_people",)
    n = observed[:2]
    return make_block(
        draw.group, keys, values, divide(resampled[1:], resampled[:2]), n, notes=["", note], flags=[flags, flags]
    )


def _curve_block(draw: Draw, observer: str, one: _Decisions, points: list[_Point]) -> Block:
    """Return the risk of a model at each coverage; undefined where it refuses more than that."""
    used = [one.shown & point.stimuli for point in points]

    def risks(_: Answers, weights: Weights) -> FloatArray:
        return np.stack(
            [
                selective_risks(one.uncertainty[mask], one.wrong[mask], weights[:, mask], point.coverage)
                for point, mask in zip(points, used, strict=True)
            ]
        )

    everything = np.ones((1, len(one.shown)), dtype=np.float32)
    n = np.array([point.coverage * mask.sum() for point, mask in zip(points, used, strict=True)])
    return make_block(
        draw.group,
        [Key(observer, None, SELECTIVE_RISK, variant=((COVERAGE, point.name),)) for point in points],
        risks(draw.answers, everything)[:, 0],
        draw.resample([risks])[0],
        np.rint(n),
        notes=[f"coverage {point.coverage:.3f}" for point in points],
    )

"""How far is each observer from the people who saw the same stimuli?

People's label distribution of a stimulus is the share of them that gave each answer. A person is compared with the
others (leave one out), which is also the ceiling: no observer can be asked to be nearer to people than people are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cosight.arrays import FloatArray
from cosight.measures.answers import NOT_SHOWN
from cosight.measures.arithmetic import BLOCK, divide
from cosight.measures.distance import distance_items
from cosight.statistics.blocks import Block, Flags, Key, finite_samples, joined, single
from cosight.statistics.groups import Group
from cosight.statistics.outputs import Outputs
from cosight.statistics.pair_scores import CEILING_HALF, CEILING_ONE
from cosight.statistics.resampling import ENOUGH_PEOPLE, Draw, few, few_people_note, stream
from cosight.trials.join import StimulusGroup

__all__ = ["RESPONSE_AGREEMENT", "SPLITS", "distance_block", "mean_block"]

RESPONSE_AGREEMENT = "response_agreement"

SPLITS = 20  # random halves behind a split-half ceiling


@dataclass(frozen=True, slots=True, eq=False)
class _Crowd:
    """People's answers as indicators, and how often each person and stimulus counts in each resample."""

    said: NDArray[np.float32]  # (people, stimuli, labels); 0 where a person gave no answer
    times: NDArray[np.float32]  # (1 + resamples, people); the first row counts everyone once
    weights: NDArray[np.float32]  # (1 + resamples, stimuli); the first row counts every stimulus once


def _share_alike(people: FloatArray, own: FloatArray) -> FloatArray:
    """The share of people who gave an observer's answer; (..., labels) to (...)."""
    return np.asarray((people * own).sum(axis=-1))


_ITEMS = {**distance_items, RESPONSE_AGREEMENT: _share_alike}  # from people's and an observer's distributions


def distance_block(drawn: Draw, outputs: Outputs, names: Sequence[str], people: Group) -> Block:
    """Compute every observer's mean distance to a group of people, with crossed resamples, and people's ceilings.

    The ceilings are given for people and, on the stimuli that it shares with them, for each model.

    Args:
        drawn: The answers of a cell and their resamples.
        outputs: The observers' label distributions.
        names: Distances between distributions, or `response_agreement` alone, which reads answers instead.
        people: The group of people, of the draw.
    """
    cell, against = drawn.cell, people.name
    crowd = _crowd(drawn, outputs, people.members)
    read = outputs.choices if RESPONSE_AGREEMENT in names else outputs.distributions
    given = {
        label: read(observer, cell.columns)
        for label, observer in zip(drawn.names, drawn.observers.tolist(), strict=True)
    }
    note, flags = few_people_note(people).removeprefix("; "), ("few_people",) if few(people) else ()
    persons = [drawn.names[row] for row in people.members]
    others = {name: own for name, own in given.items() if name not in persons}
    found = _mean_distances(crowd.said, crowd.times, crowd.weights, others, names)
    own = {name: given[name] for name in persons}
    every, ceilings = _people_blocks(drawn, crowd, own, names, against)
    models = [
        mean_block(cell, Key(label, against, name), *found[label, name], note, flags)
        for label in others
        for name in names
    ]
    blocks = [*every, *models, *ceilings]
    shown = drawn.answers.response != NOT_SHOWN
    by_people = shown[people.members].any(axis=0)
    beside: dict[bytes, list[Block]] = {by_people.tobytes(): ceilings}
    for row, label in enumerate(drawn.names):
        if label in others and ceilings:
            shared = shown[row] & by_people
            if shared.tobytes() not in beside:
                part = replace(crowd, weights=crowd.weights * shared)
                beside[shared.tobytes()] = _people_blocks(drawn, part, own, names, against)[1]
            blocks += [
                block.renamed([key._replace(observer=label) for key in block.keys])
                for block in beside[shared.tobytes()]
            ]
    return drawn.of_stimuli(joined(blocks))


def _people_blocks(
    drawn: Draw, crowd: _Crowd, given: dict[str, FloatArray], names: Sequence[str], against: str
) -> tuple[list[Block], list[Block]]:
    """The mean distance of each person to the others, and people's ceilings."""
    cell = drawn.cell
    every = []
    for index, (label, own) in enumerate(given.items()):
        times = crowd.times.copy()
        times[:, index] = 0  # every copy of a person is left out of the others
        found = _mean_distances(crowd.said, times, crowd.weights, {label: own}, names)
        every += [mean_block(cell, Key(label, against, n), *found[label, n], "compared with the others") for n in names]
    ceilings = _leave_one_out(cell, every, crowd, list(given), names, against) if len(given) >= 2 else []
    if len(given) >= ENOUGH_PEOPLE:
        rng = stream(drawn.seed, "halves of people", str(cell.group))
        ceilings += _split_half(cell, crowd, names, against, rng)
    return every, ceilings


def _crowd(drawn: Draw, outputs: Outputs, people: NDArray[np.int64]) -> _Crowd:
    response = drawn.answers.response[people]
    said = (response[:, :, None] == np.arange(len(outputs.table.labels))).astype(np.float32)
    weights = drawn.weights()
    times = drawn.times[:, people].astype(np.float32)
    once = np.ones((1, times.shape[1]), dtype=np.float32), np.ones((1, weights.shape[1]), dtype=np.float32)
    return _Crowd(said, np.concatenate([once[0], times]), np.concatenate([once[1], weights]))


def _mean_distances(
    said: NDArray[np.float32],
    times: NDArray[np.float32],
    weights: NDArray[np.float32],
    given: dict[str, FloatArray],
    names: Sequence[str],
) -> dict[tuple[str, str], tuple[FloatArray, int]]:
    """Distances between the crowd and each of `given` (stimuli, labels), as means over stimuli for each row of weights.

    `times` has a row for each row of weights, or a single one where the crowd stays the same. Returns, for each
    observer and measure, the means and the number of stimuli behind the first.
    """
    people, stimuli, labels = said.shape
    step = len(weights) if len(times) == 1 else max(1, BLOCK // 16 // max(1, stimuli * labels))
    parts: dict[tuple[str, str], list[FloatArray]] = {(label, name): [] for label in given for name in names}
    used: dict[str, int] = {}
    for start in range(0, len(weights), step):
        drawn = times if len(times) == 1 else times[start : start + step]
        counts = (drawn @ said.reshape(people, -1)).reshape(-1, stimuli, labels).astype(np.float64)
        answers = counts.sum(axis=2)
        gold = counts / np.maximum(answers, 1)[:, :, None]
        for label, own in given.items():
            usable = (answers > 0) & ~np.isnan(own).any(axis=1)
            used.setdefault(label, int((usable[0] & (weights[0] > 0)).sum()))
            weight = weights[start : start + step] * usable
            for name in names:
                items = _ITEMS[name](gold, np.nan_to_num(own))
                total = np.multiply(items, weight, out=np.zeros(weight.shape), where=weight > 0).sum(axis=1)
                parts[label, name].append(divide(total, weight.sum(axis=1, dtype=np.float64)))
    return {key: (np.concatenate(part), used[key[0]]) for key, part in parts.items()}


def _leave_one_out(
    cell: StimulusGroup,
    blocks: Sequence[Block],
    crowd: _Crowd,
    people: Sequence[str],
    names: Sequence[str],
    against: str,
) -> list[Block]:
    """The mean over people of each one's distance to the others."""
    out = []
    for name in names:
        own = [block for block in blocks if block.keys[0].measure == name and block.keys[0].observer in people]
        values = np.array([block.values[0] for block in own])
        samples = np.stack([block.samples[0] for block in own])
        times = crowd.times[1:].T * ~np.isnan(samples)
        mean = divide((np.nan_to_num(samples) * times).sum(axis=0), times.sum(axis=0))
        value = float(np.nanmean(values)) if (~np.isnan(values)).any() else float("nan")
        n = int(np.mean([block.n[0] for block in own]))
        note = f"mean of {len(own)} {against}, each compared with the others"
        key = Key(against, against, name, CEILING_ONE)
        out.append(mean_block(cell, key, np.concatenate([[value], mean]), n, note))
    return out


def _split_half(
    cell: StimulusGroup, crowd: _Crowd, names: Sequence[str], against: str, rng: np.random.Generator
) -> list[Block]:
    """The distance between the label distributions of two random halves of the people, mean of several splits."""
    people = len(crowd.said)
    sums = [np.zeros(len(crowd.weights)) for _ in names]
    counted = np.zeros((len(names), len(crowd.weights)))
    n = 0
    for _ in range(SPLITS):
        order = rng.permutation(people)
        halves = order[: people // 2], order[people // 2 : 2 * (people // 2)]
        own = crowd.said[halves[0]].sum(axis=0).astype(np.float64)
        answers = own.sum(axis=1, keepdims=True)
        own = np.where(answers > 0, own / np.maximum(answers, 1), np.nan)
        once = np.ones((1, len(halves[1])), dtype=np.float32)
        found = _mean_distances(crowd.said[halves[1]], once, crowd.weights, {"": own}, names)
        for i, name in enumerate(names):
            mean, n = found["", name]
            sums[i] += np.where(np.isnan(mean), 0.0, mean)
            counted[i] += ~np.isnan(mean)
    note = f"two halves of {people} {against}, mean of {SPLITS} splits; interval over stimuli"
    return [
        mean_block(cell, Key(against, against, name, CEILING_HALF), divide(sums[i], counted[i]), n, note)
        for i, name in enumerate(names)
    ]


def mean_block(cell: StimulusGroup, key: Key, means: FloatArray, n: int, note: str, flags: Flags = ()) -> Block:
    """A block of one number: its value first, then its resamples."""
    samples = finite_samples(means[:1], means[None, 1:])
    return single(cell.group, key, float(means[0]), samples[0], float(n), note, flags)

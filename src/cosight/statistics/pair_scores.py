"""Measures of two observers: every pair, means over groups, people's ceilings on the stimuli each model shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from cosight.arrays import FloatArray
from cosight.measures import measures
from cosight.measures.answers import NOT_SHOWN, Answers, half_pairs, split_half_crowds
from cosight.measures.arithmetic import SCARCE, Pairs
from cosight.measures.declarations import PairForm
from cosight.measures.uncertainty import Compressed, mean_over_pairs
from cosight.statistics.blocks import Block, Key, block_of, finite_samples, joined, mean_over_groups, single
from cosight.statistics.groups import MODELS, PEOPLE, Group
from cosight.statistics.outputs import output_measures
from cosight.statistics.resampling import ENOUGH_PEOPLE, Draw, Resampled, few, few_people_note, stream

__all__ = [
    "CEILING_HALF",
    "CEILING_ONE",
    "FEW_TRIALS",
    "PAIRED",
    "ceiling_blocks",
    "model_ceiling_blocks",
    "pair_blocks",
]

FEW_TRIALS = 10  # that a pair must share on average for its mean to be read, and for a ceiling

CEILING_ONE, CEILING_HALF = "ceiling_leave_one_out", "ceiling_split_half"
PAIRED = "where_the_ceiling_is_defined"  # a model's value where its ceiling is defined; internal, no score row
_SPLITS = 20


def pair_blocks(drawn: Draw, pairs: Pairs, forms: Mapping[str, PairForm], confidence: float) -> list[Block]:
    """Compute measures of pairs (rows of the draw) and their means over groups.

    Both orders of a pair are computed where the order matters. `confidence` is that of the intervals to be made.
    """
    both = np.concatenate([pairs, pairs[:, ::-1]])
    used = {name: pairs if measures[name].symmetric else both for name in forms}
    functions = [_on_pairs(form, used[name]) for name, form in forms.items()]
    blocks = []
    for (name, form), sampled in zip(forms.items(), drawn.sample(functions), strict=True):
        each = _each_pair(drawn, used[name], name, form, sampled, confidence)
        blocks += [each, *_means(each, drawn, used[name], name)]
    return blocks


def _on_pairs(form: PairForm, pairs: Pairs) -> Resampled:
    return lambda answers, weights: form.resampled(answers, weights, pairs)


def _each_pair(drawn: Draw, pairs: Pairs, name: str, form: PairForm, sampled: FloatArray, confidence: float) -> Block:
    values = form.matrix(drawn.answers)[pairs[:, 0], pairs[:, 1]]
    remarks = form.remarks(drawn.answers, pairs) if form.remarks else [""] * len(pairs)
    errors = form.errors(drawn.answers, pairs) if form.errors else np.full(len(pairs), np.inf)
    notes: list[str] = []
    flags: list[tuple[str, ...]] = []
    for value, remark, count in zip(values, remarks, errors, strict=True):
        if np.isnan(value):
            notes.append(f"undefined: {form.undefined}")
            flags.append(("undefined",))
        elif count < SCARCE:
            few_errors = f"errors in common: {count:.0f}, so the high end is that of a Poisson limit"
            notes.append(f"{remark}; {few_errors}" if remark else few_errors)
            flags.append(("few_errors",))
        else:
            notes.append(remark)
            flags.append(())
    n = form.count(drawn.answers, pairs)
    block = block_of(
        drawn.cell.group,
        [Key(drawn.names[a], drawn.names[b], name) for a, b in pairs],
        values,
        finite_samples(values, sampled),
        n,
        notes=notes,
        flags=flags,
        reach=None if form.reach is None else form.reach(drawn.answers, pairs, confidence),
    )
    return drawn.of_stimuli(block)


def _means(each: Block, drawn: Draw, pairs: Pairs, name: str) -> list[Block]:
    """Means over the pairs between two groups, and of each observer with a group of people.

    Where the order matters there is no mean within a group: it would be one of both signs.
    """
    symmetric, blocks = bool(measures[name].symmetric), []
    for g, h in combinations_with_replacement(drawn.groups, 2):
        first, second = (h, g) if h.name == MODELS else (g, h)  # a model is compared with people
        chosen = _between(pairs, first.members, second.members, either=symmetric)
        if len(chosen) and (symmetric or g.name != h.name):
            ceiling = "leave-one-person-out ceiling; " if g.name == h.name == PEOPLE else ""
            people = _members(drawn, *(group for group in (g, h) if group.drawn))
            key = Key(first.name, second.name, name)
            blocks.append(_mean(each.at(chosen), pairs[chosen], drawn.times, people, key, ceiling, (g, h)))
    for group in drawn.crowds:
        for row, observer in enumerate(drawn.names):
            chosen = _between(pairs, np.array([row]), group.members, either=symmetric)
            if len(chosen):
                others = _members(drawn, group)
                others[row] = False  # the one the row is about is not drawn again
                key = Key(observer, group.name, name)
                blocks.append(_mean(each.at(chosen), pairs[chosen], drawn.times, others, key, "", (group,)))
    return blocks


def _members(drawn: Draw, *groups: Group) -> NDArray[np.bool_]:
    mask = np.zeros(len(drawn.names), dtype=np.bool_)
    for group in groups:
        mask[group.members] = True
    return mask


def _between(pairs: Pairs, first: NDArray[np.int64], second: NDArray[np.int64], *, either: bool) -> NDArray[np.int64]:
    """Which pairs have one observer in each of the two, in this order or in either."""
    a, b = pairs.T
    forth, back = np.isin(a, first) & np.isin(b, second), np.isin(a, second) & np.isin(b, first)
    return np.flatnonzero(forth | back if either else forth)


def _mean(
    each: Block,
    pairs: Pairs,
    times: FloatArray,
    people: NDArray[np.bool_],
    key: Key,
    before: str,
    groups: Sequence[Group],
) -> Block:
    """The mean over pairs; `people` are resampled, unless one of `groups` is too small for that."""
    defined = ~np.isnan(each.values)
    samples = mean_over_pairs(each.samples, pairs, times, people)
    if not defined.any():
        note = f"{each.notes[0]} (each of {len(defined)} pairs)"
        return single(each.group, key, float("nan"), samples, 0.0, note, ("undefined",))
    n = each.n[defined].mean()
    left_out = int((~defined).sum())
    scarce = sum("few_errors" in flags for flags in each.flags)
    note = f"{before}mean of {int(defined.sum())} pairs"
    note += f", {left_out} undefined left out" if left_out else ""
    note += f"; {scarce} of them with too few errors in common" if scarce else ""
    note += f"; {n:.0f} trials per pair: so few bias it" if n < FEW_TRIALS else ""
    note += "".join(dict.fromkeys(few_people_note(group) for group in groups))
    flags = {
        "undefined_parts": bool(left_out),
        "few_errors": bool(scarce),
        "few_trials": n < FEW_TRIALS,
        "few_people": any(few(group) for group in groups),
    }
    raised = tuple(flag for flag, holds in flags.items() if holds)
    mean = single(each.group, key, each.values[defined].mean(), samples, n, note, raised)
    return replace(mean, clusters=each.clusters[defined].mean(keepdims=True))


def ceiling_blocks(drawn: Draw, forms: dict[str, PairForm]) -> list[Block]:
    """The split-half ceiling of each measure, for real and for simulated people; intervals over stimuli."""
    blocks = []
    able = {name: f for name, f in forms.items() if measures[name].symmetric and name not in output_measures}
    for group in drawn.crowds:
        if len(group.members) >= ENOUGH_PEOPLE:
            rng = stream(drawn.seed, "halves", group.name, str(drawn.cell.group))
            crowds = split_half_crowds(drawn.answers.of(group.members), splits=_SPLITS, rng=rng)
            blocks += [_ceiling(drawn, crowds, group, name, form) for name, form in able.items()]
    return blocks


def _ceiling(drawn: Draw, crowds: Answers, group: Group, name: str, form: PairForm) -> Block:
    halves, nobody = half_pairs(_SPLITS), np.zeros(2 * _SPLITS, dtype=np.bool_)
    whole = form.matrix(crowds)[halves[:, 0], halves[:, 1]]
    defined = ~np.isnan(whole)
    value = whole[defined].mean() if defined.any() else float("nan")
    again = replace(drawn, patterns=Compressed(crowds, np.ones(crowds.stimuli, dtype=np.int64)))
    sampled = again.sample([_on_pairs(form, halves)])[0]
    mean = mean_over_pairs(sampled, halves, np.ones((sampled.shape[1], 2 * _SPLITS)), nobody)
    key = Key(group.name, group.name, name, CEILING_HALF)
    crowd = f"two halves of {len(group.members)} {group.name}"
    note = f"majority answers of {crowd}, mean of {_SPLITS} splits; interval over stimuli"
    lost = int((~defined).sum())
    note += f"; {lost} undefined splits left out" if lost else ""
    n = form.count(crowds, halves)[defined].mean() if defined.any() else 0.0
    flags = {"undefined_parts": bool(lost), "few_trials": n < FEW_TRIALS}
    raised = tuple(flag for flag, holds in flags.items() if holds)
    return drawn.of_stimuli(single(drawn.cell.group, key, value, mean, n, note, raised))


def model_ceiling_blocks(
    drawn: Draw, forms: dict[str, PairForm], blocks: Sequence[Block], confidence: float
) -> list[Block]:
    """People's ceilings beside each model, on the stimuli that the model shares with them.

    Each model also gets its value again under `PAIRED`, so that a share of the ceiling is taken where both are defined:
    both are nan where either is.

    Args:
        drawn: The answers of one cell.
        forms: The measures.
        blocks: The cell's numbers so far; the ceilings on all stimuli are among them.
        confidence: Of the intervals to be made.
    """
    crowd = next((group for group in drawn.crowds if group.name == PEOPLE and len(group.members) > 1), None)
    models = [row for group in drawn.groups if group.name == MODELS for row in group.members]
    if crowd is None or not forms or not models:
        return []
    seen = drawn.answers.response != NOT_SHOWN
    by_people = seen[crowd.members].any(axis=0)
    shared = seen[models] & by_people
    whole = joined(list(blocks))
    place = {key: index for index, key in enumerate(whole.keys)}
    masks, member = np.unique(shared, axis=0, return_inverse=True)
    partial = {index: mask for index, mask in enumerate(masks) if mask.sum() < by_people.sum()}
    ceilings = _on_stimuli(drawn, crowd, forms, partial, confidence)
    ceilings |= {index: _ceilings_of(whole) for index in range(len(masks)) if index not in partial}
    each = [
        _beside(ceilings[int(index)], whole, place, drawn.names[model])
        for model, index in zip(models, member.ravel(), strict=True)
    ]
    return [*each, _mean_beside(each)]


def _ceilings_of(block: Block) -> Block:
    """People with people and their split-half ceiling."""
    return block.at([i for i, key in enumerate(block.keys) if key.observer == key.against == PEOPLE])


def _on_stimuli(
    drawn: Draw, crowd: Group, forms: dict[str, PairForm], masks: dict[int, NDArray[np.bool_]], confidence: float
) -> dict[int, Block]:
    """The ceilings on some stimuli of a draw, for each mask."""
    able = {name: form for name, form in forms.items() if measures[name].symmetric}
    i, j = np.triu_indices(len(crowd.members), 1)
    pairs = np.stack([crowd.members[i], crowd.members[j]], axis=1)
    found = {}
    for index, mask in masks.items():
        response = np.where(mask, drawn.answers.response, NOT_SHOWN)
        answers = Answers(response, drawn.answers.truth, drawn.answers.classes)
        part = replace(drawn, answers=answers, patterns=Compressed(answers, np.ones(answers.stimuli, dtype=np.int64)))
        found[index] = _ceilings_of(joined([*pair_blocks(part, pairs, able, confidence), *ceiling_blocks(part, able)]))
    return found


def _beside(ceilings: Block, whole: Block, place: Mapping[Key, int], model: str) -> Block:
    """The ceilings under a model's name, and its own values where these are defined; `place` indexes `whole`."""
    keys = [
        Key(model, PEOPLE, key.measure, CEILING_ONE if key.statistic == "value" else key.statistic)
        for key in ceilings.keys
    ]
    own = [place.get(key._replace(statistic="value")) for key in keys]
    undefined = np.array([i is None or np.isnan(whole.values[i]) for i in own])
    beside = replace(
        ceilings,
        keys=tuple(keys),
        values=np.where(undefined, np.nan, ceilings.values),
        notes=tuple(
            "undefined: so is the model's own value" if lacking else f"people on the stimuli it answered; {note}"
            for lacking, note in zip(undefined, ceilings.notes, strict=True)
        ),
        flags=tuple(("undefined",) if lacking else f for lacking, f in zip(undefined, ceilings.flags, strict=True)),
    )
    ones = [i for i, key in enumerate(keys) if key.statistic == CEILING_ONE and own[i] is not None]
    paired = whole.at([own[i] for i in ones if own[i] is not None])  # type: ignore[misc]
    defined = np.where(np.isnan(beside.values[ones]), np.nan, paired.values)
    return joined(
        [beside, replace(paired.renamed([key._replace(statistic=PAIRED) for key in paired.keys]), values=defined)]
    )


def _mean_beside(each: Sequence[Block]) -> Block:
    """Average the ceilings of all models, and their values where both are defined."""
    named = [block.renamed([key._replace(observer=MODELS) for key in block.keys]) for block in each]
    mean = mean_over_groups(named, each[0].group, "models")
    used = [sum(not np.isnan(b.values[b.keys.index(key)]) for b in named if key in b.keys) for key in mean.keys]
    n = mean.n / np.maximum(used, 1)
    notes = tuple(f"mean over {count} models, people on the stimuli each answered" for count in used)
    return replace(mean, n=n, notes=notes, clusters=mean.clusters / np.maximum(used, 1))

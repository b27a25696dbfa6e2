"""Measures of two observers: every pair, means over groups, people's ceilings on the stimuli each model shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from cosight.arrays import FloatArray
from cosight.measures import measures
from cosight.measures.answers import NOT_SHOWN, Answers
from cosight.measures.ceilings import half_pairs, split_half_crowds
from cosight.measures.consistency import reachable_kappa
from cosight.measures.facts import PairForm
from cosight.measures.sums import SCARCE, Pairs
from cosight.measures.uncertainty import Compressed, mean_over_pairs
from cosight.scoring.outputs import OUTPUT_MEASURES
from cosight.statistics.blocks import Block, Key, finite_samples, joined
from cosight.statistics.crowd import ENOUGH_PEOPLE, Draw, Resampled, few, stream
from cosight.statistics.groups import MODELS, PEOPLE, Group

__all__ = ["CEILING_HALF", "CEILING_ONE", "FEW_TRIALS", "ceiling_blocks", "duo_blocks", "model_ceiling_blocks"]

FEW_TRIALS = 10  # that a pair must share on average for its mean to be read, and for a ceiling

CEILING_ONE, CEILING_HALF = "ceiling_leave_one_out", "ceiling_split_half"
_SPLITS = 20


def duo_blocks(drawn: Draw, pairs: Pairs, forms: dict[str, PairForm], level: float) -> list[Block]:
    """Measures of pairs (rows of the draw) and their means over groups; both orders where the order matters.

    `level` is that of the intervals to be made.
    """
    both = np.concatenate([pairs, pairs[:, ::-1]])
    used = {name: pairs if measures[name].symmetric else both for name in forms}
    functions = [_on_pairs(form, used[name]) for name, form in forms.items()]
    blocks = []
    for (name, form), sampled in zip(forms.items(), drawn.sample(functions), strict=True):
        each = _pair_block(drawn, used[name], name, form, sampled)
        if form.reach is not None:
            each = replace(each, reach=form.reach(drawn.answers, used[name], level))
        blocks += [each, *_means(each, drawn, used[name], name)]
    return blocks


def _on_pairs(form: PairForm, pairs: Pairs) -> Resampled:
    return lambda answers, weights: form.resampled(answers, weights, pairs)


def _pair_block(drawn: Draw, pairs: Pairs, name: str, form: PairForm, sampled: FloatArray) -> Block:
    values = form.matrix(drawn.answers)[pairs[:, 0], pairs[:, 1]]
    keys = tuple(Key(drawn.names[a], drawn.names[b], name) for a, b in pairs)
    makers = {"error_consistency": _consistency_notes, "misclassification_agreement": _agreement_notes}
    notes = makers[name](drawn.answers, pairs) if name in makers else [""] * len(pairs)
    notes = [f"undefined: {form.undefined}" if np.isnan(v) else note for note, v in zip(notes, values, strict=True)]
    n = form.count(drawn.answers, pairs)
    return Block(drawn.cell.group, keys, values, finite_samples(values, sampled), n, tuple(notes))


def _consistency_notes(answers: Answers, pairs: Pairs) -> list[str]:
    """The range that two observers' accuracies leave, and whether too little happened."""
    right, seen = answers.correct.astype(np.float32), answers.shown.astype(np.float32)
    common, hits, errors = seen @ seen.T, right @ seen.T, (seen - right) @ (seen - right).T
    notes = []
    for a, b in pairs:
        if not common[a, b]:
            notes.append("")
            continue
        ends = reachable_kappa(float(hits[a, b] / common[a, b]), float(hits[b, a] / common[a, b]))
        scarce = (
            f"; only {errors[a, b]:.0f} joint errors: the high end is that of a Poisson limit"
            if errors[a, b] < SCARCE
            else ""
        )
        notes.append(f"reachable {ends.lowest:.3f} to {ends.highest:.3f}{scarce}")
    return notes


def _agreement_notes(answers: Answers, pairs: Pairs) -> list[str]:
    """Whether two observers gave too few equal wrong answers."""
    wrong, response = answers.wrong, answers.response
    same = [np.count_nonzero(wrong[a] & wrong[b] & (response[a] == response[b])) for a, b in pairs]
    return [
        f"only {count} equal errors: the high end is that of a Poisson limit" if count < SCARCE else ""
        for count in same
    ]


def _means(each: Block, drawn: Draw, pairs: Pairs, name: str) -> list[Block]:
    """Means over the pairs between two groups, and of each observer with a group of people.

    Where the order matters there is no mean within a group: it would be one of both signs.
    """
    symmetric, blocks = bool(measures[name].symmetric), []
    for g, h in combinations_with_replacement(drawn.groups, 2):
        first, second = (h, g) if h.name == MODELS else (g, h)  # models are held against people
        chosen = _between(pairs, first.members, second.members, either=symmetric)
        if len(chosen) and (symmetric or g.name != h.name):
            ceiling = "leave-one-person-out ceiling; " if g.name == h.name == PEOPLE else ""
            people = _members(drawn, *(group for group in (g, h) if group.drawn))
            key = Key(first.name, second.name, name)
            blocks.append(_mean(each.at(chosen), pairs[chosen], drawn.times, people, key, ceiling, few(g)))
    for group in drawn.crowds:
        for row, observer in enumerate(drawn.names):
            chosen = _between(pairs, np.array([row]), group.members, either=symmetric)
            if len(chosen):
                others = _members(drawn, group)
                others[row] = False  # the one the row is about is not drawn again
                key = Key(observer, group.name, name)
                blocks.append(_mean(each.at(chosen), pairs[chosen], drawn.times, others, key, "", few(group)))
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
    each: Block, pairs: Pairs, times: FloatArray, people: NDArray[np.bool_], key: Key, before: str, after: str
) -> Block:
    """The mean over pairs; `people` are drawn again."""
    defined = ~np.isnan(each.values)
    samples = mean_over_pairs(each.samples, pairs, times, people)
    value = each.values[defined].mean() if defined.any() else float("nan")
    n = each.n[defined].mean() if defined.any() else 0.0
    left_out = f", {int((~defined).sum())} undefined left out" if not defined.all() else ""
    rare = sum("only " in note for note in each.notes)
    scarce = f"; {rare} of them with too few errors in common" if rare else ""
    short = f"; {n:.0f} trials a pair: so few bias it" if defined.any() and n < FEW_TRIALS else ""
    note = f"{before}mean of {int(defined.sum())} pairs{left_out}{scarce}{short}{after}"
    if not defined.any():
        note = f"{each.notes[0]} (each of {len(defined)} pairs)"
    return Block(each.group, (key,), np.array([value]), samples[None], np.array([n]), (note,))


def ceiling_blocks(drawn: Draw, forms: dict[str, PairForm]) -> list[Block]:
    """The split-half ceiling of each measure, for real and for simulated people; intervals over stimuli."""
    blocks = []
    able = {name: f for name, f in forms.items() if measures[name].symmetric and name not in OUTPUT_MEASURES}
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
    key = Key(group.name, group.name, f"{name}.{CEILING_HALF}")
    crowd = f"two halves of {len(group.members)} {group.name}"
    note = f"majority answers of {crowd}, mean of {_SPLITS} splits; interval over stimuli"
    n = form.count(crowds, halves).mean()
    return Block(drawn.cell.group, (key,), np.array([value]), mean[None], np.array([n]), (note,))


def model_ceiling_blocks(drawn: Draw, forms: dict[str, PairForm], blocks: Sequence[Block]) -> list[Block]:
    """People's ceilings beside each model, computed on the stimuli that the model shares with them.

    `blocks` holds the ceilings on all stimuli, which are those of a model that answered every one of them.
    """
    crowd = next((group for group in drawn.crowds if group.name == PEOPLE and len(group.members) > 1), None)
    models = [row for group in drawn.groups if group.name == MODELS for row in group.members]
    if crowd is None or not forms:
        return []
    seen = drawn.answers.response != NOT_SHOWN
    by_people = seen[crowd.members].any(axis=0)
    whole = joined(list(blocks))
    values = dict(zip(whole.keys, whole.values, strict=True))
    found: dict[bytes, Block] = {}
    out = []
    for model in models:
        shared = seen[model] & by_people
        mask = shared.tobytes()
        if mask not in found:
            part = whole if shared.sum() == by_people.sum() else _on_stimuli(drawn, crowd, forms, shared)
            wanted = [i for i, key in enumerate(part.keys) if key.observer == key.against == PEOPLE]
            found[mask] = part.at(wanted)
        own = _beside(found[mask], drawn.names[model])
        lacking = [np.isnan(values.get(key._replace(measure=key.measure.split(".")[0]), np.nan)) for key in own.keys]
        out.append(replace(own, values=np.where(lacking, np.nan, own.values)))  # means over groups use the same groups
    if out and len(found) == 1:
        out.append(_beside(next(iter(found.values())), MODELS))
    elif out:
        out.append(_mean_ceiling(out))
    return out


def _on_stimuli(drawn: Draw, crowd: Group, forms: dict[str, PairForm], shared: NDArray[np.bool_]) -> Block:
    """People with people and their split-half ceiling, on some stimuli of a draw."""
    response = np.where(shared, drawn.answers.response, NOT_SHOWN)
    answers = Answers(response, drawn.answers.truth, drawn.answers.classes)
    part = replace(drawn, answers=answers, patterns=Compressed(answers, np.ones(answers.stimuli, dtype=np.int64)))
    i, j = np.triu_indices(len(crowd.members), 1)
    pairs = np.stack([crowd.members[i], crowd.members[j]], axis=1)
    able = {name: form for name, form in forms.items() if measures[name].symmetric}
    return joined([*duo_blocks(part, pairs, able, 0.95), *ceiling_blocks(part, able)])


def _beside(ceilings: Block, model: str) -> Block:
    """The ceilings under a model's name."""
    names = [key.measure if "." in key.measure else f"{key.measure}.{CEILING_ONE}" for key in ceilings.keys]
    keys = tuple(Key(model, PEOPLE, name) for name in names)
    notes = tuple(f"people on the stimuli it answered; {note}" for note in ceilings.notes)
    return replace(ceilings, keys=keys, notes=notes)


def _mean_ceiling(ceilings: Sequence[Block]) -> Block:
    """The mean over models of the ceilings beside them."""
    keys = tuple(key._replace(observer=MODELS) for key in ceilings[0].keys)
    values = np.stack([block.values for block in ceilings])
    samples = np.stack([block.samples for block in ceilings])
    n = np.mean([block.n for block in ceilings], axis=0)
    notes = ("mean over models, people on the stimuli each answered",) * len(keys)
    return Block(ceilings[0].group, keys, values.mean(axis=0), samples.mean(axis=0), n, notes)

"""Measures of two observers: every pair, means over groups of observers, and people's ceilings.

A ceiling is how alike people are among themselves: the mean over pairs of people (leave one person out), or the value
between the majority answers of two halves of the people (split half). Beside a model, ceilings are computed on the
stimuli that the model shares with people.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations_with_replacement
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from cosight.arrays import BoolArray, FloatArray
from cosight.errors import InvalidInput
from cosight.measures import measures
from cosight.measures.answers import (
    ALL_SPLITS_UP_TO,
    NOT_SHOWN,
    TIE_ROUNDS,
    Answers,
    CodeArray,
    half_pairs,
    half_splits,
    split_half_crowds,
)
from cosight.measures.arithmetic import BLOCK, SCARCE, Pairs, Weights, blocks, divide, mean_or_nan
from cosight.measures.declarations import PairForm
from cosight.measures.draws import Compressed
from cosight.measures.uncertainty import mean_over_pairs, resample_mean_over_pairs
from cosight.statistics.blocks import (
    Block,
    Flags,
    Key,
    finite_resampled,
    join_blocks,
    make_block,
    mean_over_groups,
    single_block,
)
from cosight.statistics.resampling import ENOUGH_PEOPLE, Draw, ObserverGroup, WeightedStatistic, random_stream
from cosight.statistics.rows import MODELS

__all__ = [
    "CEILING_HALF",
    "CEILING_ONE",
    "EQUAL_CEILING",
    "EQUAL_DIFFERENCE",
    "EQUAL_VALUE",
    "FEW_TRIALS",
    "INTERNAL",
    "PAIRED",
    "PAIR_KINDS",
    "PairKind",
    "ceiling_blocks",
    "model_ceiling_blocks",
    "pair_blocks",
    "pairs_of",
]

PairKind = Literal["all", "human-human", "human-model", "model-model"]
PAIR_KINDS: tuple[str, ...] = get_args(PairKind)

FEW_TRIALS = 10  # per pair on average: with fewer a mean is biased, and there is no ceiling

CEILING_ONE, CEILING_HALF = "ceiling_leave_one_out", "ceiling_split_half"
# statistics of numbers that others are computed from; they have no score row
PAIRED = "where_the_ceiling_is_defined"  # a model's value where its ceiling is defined
EQUAL_DIFFERENCE = "difference_at_equal_errors"  # of two models with people
EQUAL_VALUE, EQUAL_CEILING = "value_at_equal_errors", "ceiling_at_equal_errors"  # of a model and a person with people
INTERNAL = (PAIRED, EQUAL_DIFFERENCE, EQUAL_VALUE, EQUAL_CEILING)
_MOST_MODELS = 50  # that are compared at equal numbers of errors, every two of them
_BATCH, _MOST_SPLITS = 50, 600  # of more than ten people, random splits are added in batches until ...
_PRECISE = 0.002  # ... the standard error of their mean is below this
_RESAMPLED_SPLITS = 20  # whose resamples make the interval, moved to the mean over all splits


def pairs_of(people: BoolArray, kind: str) -> Pairs:
    """Return all pairs of a kind, (pairs, 2): a model before the person it is compared with, else in order.

    Args:
        people: Which observers are people.
        kind: One of `PAIR_KINDS`.

    >>> pairs_of(np.array([True, True, False]), "human-model").tolist()
    [[2, 0], [2, 1]]
    """
    if kind not in PAIR_KINDS:
        raise InvalidInput(f"pairs must be one of {', '.join(PAIR_KINDS)}, got {kind!r}")
    i, j = np.triu_indices(len(people), 1)
    swap = people[i] & ~people[j]
    pairs = np.stack([np.where(swap, j, i), np.where(swap, i, j)], axis=1)
    both, none = people[pairs].all(axis=1), ~people[pairs].any(axis=1)
    of_kind = {
        "all": np.ones(len(pairs), dtype=np.bool_),
        "human-human": both,
        "human-model": ~both & ~none,
        "model-model": none,
    }
    return np.asarray(pairs[of_kind[kind]])


def pair_blocks(draw: Draw, pairs: Pairs, forms: Mapping[str, PairForm], confidence: float) -> list[Block]:
    """Compute measures of pairs of observers, and their means over groups of observers.

    Args:
        draw: The answers to a group of stimuli and their resamples.
        pairs: Rows of `draw.answers`. Both orders of a pair are computed for measures that are not symmetric.
        forms: The pair form of each measure.
        confidence: Of the intervals to be made.
    """
    both_orders = np.concatenate([pairs, pairs[:, ::-1]])
    used = {name: pairs if measures[name].symmetric else both_orders for name in forms}
    resampled = _resample_pairs(draw, forms, used)
    blocks = []
    for name, form in forms.items():
        each = _each_pair(draw, used[name], name, form, resampled.pop(name), confidence)
        means = _means_over_pairs(each, draw, used[name], name)
        blocks += [each, *means, *_differences_at_equal_errors(draw, name, form, means)]
    return blocks


def _differences_at_equal_errors(draw: Draw, name: str, form: PairForm, means: Sequence[Block]) -> list[Block]:
    """Compute the difference of every two models with people at equal numbers of errors, for measures that need it."""
    with_people = {
        block.keys[0].observer
        for block in means
        if draw.people_groups and block.keys[0].against == draw.people_groups[0].name
    }
    all_models = [row for group in draw.observer_groups if group.name == MODELS for row in group.members.tolist()]
    models = np.array([row for row in all_models if draw.names[row] in with_people], dtype=np.int64)
    if form.at_equal_errors is None or form.error_slopes is None or not 2 <= len(models) <= _MOST_MODELS:
        return []
    people = draw.people_groups[0].members
    i, j = np.triu_indices(len(models), 1)
    others = np.zeros((len(i), len(draw.names)), dtype=np.bool_)
    others[:, people] = True
    values, errors = form.at_equal_errors(draw.answers, np.stack([models[i], models[j]], axis=1), others)
    per_person = (values[:, 0] - values[:, 1])[:, people]
    resampled = _resample_at_constant_errors(draw, form.resampled, form.error_slopes, models, people)
    mean_differences = [
        resample_mean_over_pairs(
            of_people,
            resampled[a] - resampled[b],
            np.stack([np.full_like(people, models[a]), people], axis=1),
            draw.observer_weights,
            others[0],
            clusters=draw.answers.stimuli,
        ).values
        for of_people, a, b in zip(per_person, i, j, strict=True)
    ]
    return [
        make_block(
            draw.group,
            [
                Key(draw.names[models[a]], draw.names[models[b]], name, EQUAL_DIFFERENCE)
                for a, b in zip(i, j, strict=True)
            ],
            np.array([mean_or_nan(of_people[~np.isnan(of_people)]) for of_people in per_person]),
            np.stack(mean_differences),
            errors,
            flags=[("few_errors",) if left < SCARCE * draw.answers.classes else () for left in errors],
        )
    ]


def _resample_at_constant_errors(
    draw: Draw,
    statistic: Callable[[Answers, Weights, Pairs], FloatArray],
    error_slopes: Callable[[Answers, Pairs], FloatArray],
    models: NDArray[np.int64],
    people: NDArray[np.int64],
) -> FloatArray:
    """Resample a measure of each model with each person, without what comes from more or fewer errors of the model.

    A resample with fewer errors of a model differs from the value for that reason too (`PairForm.error_slopes`), but
    a difference at equal numbers of errors does not.

    Returns:
        The values, (models, people, resamples).
    """
    pairs = np.stack([np.repeat(models, len(people)), np.tile(people, len(models))], axis=1)
    slopes = error_slopes(draw.answers, pairs).reshape(len(models), len(people), -1)

    def at_constant_errors(answers: Answers, weights: Weights) -> FloatArray:
        of_class = answers.truth == np.arange(answers.classes)[:, None]
        values = statistic(answers, weights, pairs).reshape(len(models), len(people), -1)
        for of_model, model, slope in zip(values, models, slopes, strict=True):
            errors = (answers.wrong[model] & of_class).astype(np.float32) @ weights.T  # (classes, resamples)
            of_model -= np.einsum("pc,cr->pr", slope, errors[:, :1] - errors)
        return values.reshape(len(pairs), -1)

    return draw.resample_to_first_order(at_constant_errors).reshape(len(models), len(people), -1)


def _resample_pairs(draw: Draw, forms: Mapping[str, PairForm], pairs: Mapping[str, Pairs]) -> dict[str, FloatArray]:
    """Resample the measures of pairs, (pairs, resamples) each; to first order where they depend on numbers of errors.

    Args:
        draw: The answers and their resamples.
        forms: The pair form of each measure.
        pairs: The pairs of each measure.
    """

    def on_pairs(name: str) -> WeightedStatistic:
        return lambda answers, weights: forms[name].resampled(answers, weights, pairs[name])

    resampled = {
        name: draw.resample_to_first_order(on_pairs(name))
        for name, form in forms.items()
        if form.at_equal_errors is not None
    }
    if drawn := [name for name in forms if name not in resampled]:
        most = max(len(pairs[name]) for name in drawn)
        resampled |= zip(drawn, draw.resample([on_pairs(name) for name in drawn], values=most), strict=True)
    return resampled


def _each_pair(draw: Draw, pairs: Pairs, name: str, form: PairForm, resampled: FloatArray, confidence: float) -> Block:
    """Return the block of one measure of all pairs, with what a reader should know of each in notes and flags."""
    values = form.matrix(draw.answers)[pairs[:, 0], pairs[:, 1]]
    remarks = form.remarks(draw.answers, pairs) if form.remarks else [""] * len(pairs)
    reasons = form.why_undefined(draw.answers, pairs) if form.why_undefined else [""] * len(pairs)
    errors = form.errors(draw.answers, pairs) if form.errors else np.full(len(pairs), np.inf)
    notes: list[str] = []
    flags: list[Flags] = []
    for value, remark, reason, count in zip(values, remarks, reasons, errors, strict=True):
        if np.isnan(value):
            notes.append(f"undefined: {reason or form.undefined}")
            flags.append(("undefined",))
        elif count < SCARCE:
            few_errors = f"errors in common: {count:.0f}, so the high end is that of a Poisson limit"
            notes.append(f"{remark}; {few_errors}" if remark else few_errors)
            flags.append(("few_errors",))
        else:
            notes.append(remark)
            flags.append(())
    block = make_block(
        draw.group,
        [Key(draw.names[a], draw.names[b], name) for a, b in pairs],
        values,
        finite_resampled(values, resampled),
        form.count(draw.answers, pairs),
        notes=notes,
        flags=flags,
        min_high=None if form.min_high is None else form.min_high(draw.answers, pairs, confidence),
        units=np.broadcast_to(
            draw.effective_clusters(lambda answers: form.count(answers, pairs)) if form.answers_only else np.inf,
            len(pairs),
        ),
    )
    return draw.with_stimulus_clusters(block)


def _means_over_pairs(each: Block, draw: Draw, pairs: Pairs, name: str) -> list[Block]:
    """Average over the pairs between two groups, and over the pairs of each observer with a group of people.

    Where the order of a pair matters there is no mean within a group: it would mix both signs.
    """
    symmetric = bool(measures[name].symmetric)

    def between(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the pairs with one observer in each, in this order or, for a symmetric measure, in either."""
        in_first, in_second = np.zeros((2, len(draw.names)), dtype=np.bool_)
        in_first[first], in_second[second] = True, True
        a, b = pairs.T
        chosen = in_first[a] & in_second[b]
        if symmetric:
            chosen |= in_second[a] & in_first[b]
        return np.flatnonzero(chosen)

    def mean(index: NDArray[np.int64], resampled: BoolArray, key: Key, groups: Sequence[ObserverGroup]) -> Block:
        return _mean_over_pairs(each.at(index), pairs[index], draw.observer_weights, resampled, key, groups)

    blocks = []
    for g, h in combinations_with_replacement(draw.observer_groups, 2):
        first, second = (h, g) if h.name == MODELS else (g, h)  # a model is compared with people
        index = between(first.members, second.members)
        if len(index) and (symmetric or g.name != h.name):
            resampled = np.zeros(len(draw.names), dtype=np.bool_)
            for group in (g, h):
                resampled[group.members] |= group.is_people
            blocks.append(mean(index, resampled, Key(first.name, second.name, name), (g, h)))
    for group in draw.people_groups:
        for row, observer in enumerate(draw.names):
            index = between(np.array([row]), group.members)
            if len(index):
                resampled = np.zeros(len(draw.names), dtype=np.bool_)
                resampled[group.members] = True
                resampled[row] = False  # the observer that the number is about is not resampled
                blocks.append(mean(index, resampled, Key(observer, group.name, name), (group,)))
    return blocks


def _mean_over_pairs(
    each: Block,
    pairs: Pairs,
    observer_weights: FloatArray,
    resampled_observers: BoolArray,
    key: Key,
    groups: Sequence[ObserverGroup],
) -> Block:
    """Average a block over its pairs, resample by resample.

    Args:
        each: One number per pair.
        pairs: The observers of each number, as columns of `observer_weights`.
        observer_weights: How often each observer counts in each resample.
        resampled_observers: The observers whose weights are used; the others count once.
        key: Of the mean.
        groups: The groups that the mean is over; the note says where one is too small to be resampled.
    """
    defined = ~np.isnan(each.values)
    clusters, units = (
        float(of_pairs[defined].mean()) if defined.any() else 0.0
        for of_pairs in (each.clusters, np.minimum(each.clusters, each.units))
    )
    resampled = resample_mean_over_pairs(
        each.values, each.resampled, pairs, observer_weights, resampled_observers, clusters=units
    )
    if not defined.any():
        alike = len(set(each.notes)) == 1
        note = f"{each.notes[0]} (each of {len(defined)} pairs)" if alike else f"each of {len(defined)} pairs undefined"
        return single_block(each.group, key, float("nan"), resampled.values, 0.0, note, ("undefined",))
    n = each.n[defined].mean()
    left_out = int((~defined).sum())
    scarce = sum("few_errors" in flags for flags in each.flags)
    note = "leave-one-person-out ceiling; " if key.observer == key.against != MODELS else ""
    note += f"mean of {int(defined.sum())} pairs"
    note += f", {left_out} undefined left out" if left_out else ""
    remarks = [
        f"{scarce} of them with too few errors in common" if scarce else "",
        f"{n:.0f} trials per pair: so few bias it" if n < FEW_TRIALS else "",
        *dict.fromkeys(group.too_few_note for group in groups),
    ]
    conditions = {
        "undefined_parts": bool(left_out),
        "few_errors": bool(scarce),
        "few_trials": n < FEW_TRIALS,
        "few_people": any(group.too_few for group in groups),
        "few_clusters": any("few_clusters" in flags for flags in each.flags),
    }
    return single_block(
        each.group,
        key,
        each.values[defined].mean(),
        resampled.values,
        n,
        "; ".join([note, *(remark for remark in remarks if remark)]),
        tuple(flag for flag, holds in conditions.items() if holds),
        clusters,
        resampled.units,
    )


# ---- ceilings


def ceiling_blocks(draw: Draw, forms: Mapping[str, PairForm]) -> list[Block]:
    """Compute the split-half ceiling of each symmetric measure of answers, for real and for simulated people.

    The value is the mean over all splits of up to ten people into halves, or over random ones, enough for a standard
    error below .002 (600 at most). Intervals are over stimuli and random splits.
    """
    used = {name: form for name, form in forms.items() if measures[name].symmetric and form.answers_only}
    groups = [group for group in draw.people_groups if len(group.members) >= ENOUGH_PEOPLE]
    return [block for group in groups if used for block in _split_half_ceilings(draw, group, used)]


def _split_half_ceilings(draw: Draw, group: ObserverGroup, forms: Mapping[str, PairForm]) -> list[Block]:
    """Compute the mean over splits of measures between the majority answers of two halves of a group."""
    rng = random_stream(draw.seed, "halves", group.name, str(draw.group))
    answers, people = draw.answers.of(group.members), len(group.members)
    batch = max(1, min(_BATCH, BLOCK // max(1, 4 * TIE_ROUNDS * answers.stimuli)))
    once = np.ones((1, answers.stimuli), dtype=np.float32)
    splits = half_splits(people, splits=_MOST_SPLITS, rng=rng)
    values: dict[str, list[FloatArray]] = {name: [] for name in forms}  # of each batch
    kept: list[CodeArray] = []  # crowds of the splits that are resampled
    for part in blocks(len(splits), 1, most=batch):
        crowds = split_half_crowds(answers, splits[part], rng=rng)
        pairs = half_pairs(len(crowds.response) // 2)
        for name, form in forms.items():
            values[name].append(_mean_of_rounds(form.resampled(crowds, once, pairs)[:, 0]))
        if part.start < _RESAMPLED_SPLITS:
            kept.append(crowds.response.reshape(-1, TIE_ROUNDS, 2, answers.stimuli)[:, 0].reshape(-1, answers.stimuli))
        errors = [_standard_error(np.concatenate(of_measure)) for of_measure in values.values()]
        if people > ALL_SPLITS_UP_TO and part.stop >= _BATCH and max(errors) < _PRECISE:
            break
    halves = Answers(np.concatenate(kept)[: 2 * _RESAMPLED_SPLITS], answers.truth, answers.classes)
    pairs = half_pairs(halves.observers // 2)
    on_halves = replace(draw, patterns=Compressed(halves, np.ones(halves.stimuli, dtype=np.int64)))
    resampled = _resample_pairs(on_halves, forms, dict.fromkeys(forms, pairs))
    ceilings = []
    for name, form in forms.items():
        of_measure = np.concatenate(values[name])
        defined = ~np.isnan(of_measure)
        value = float(of_measure[defined].mean()) if defined.any() else float("nan")
        observed = form.resampled(halves, once, pairs)
        nobody, all_once = np.zeros(halves.observers, dtype=np.bool_), np.ones((draw.resamples, halves.observers))
        deviation = mean_over_pairs(resampled[name], pairs, all_once, nobody)
        deviation -= mean_over_pairs(observed, pairs, all_once[:1], nobody)
        note = f"majority answers of two halves of {people} {group.name}, mean of {len(of_measure)} splits"
        if people > ALL_SPLITS_UP_TO:
            stream = random_stream(draw.seed, "splits", group.name, str(draw.group), name)
            deviation += _standard_error(of_measure) * stream.normal(size=draw.resamples)
            note += "; interval over stimuli and splits"
        else:
            note += "; interval over stimuli"
        left_out = int((~defined).sum())
        note += f"; {left_out} undefined splits left out" if left_out else ""
        counted = ~np.isnan(observed[:, 0])
        n = form.count(halves, pairs)[counted].mean() if counted.any() else 0.0
        conditions = {"undefined_parts": bool(left_out), "few_trials": n < FEW_TRIALS}
        flags = tuple(flag for flag, holds in conditions.items() if holds)
        key = Key(group.name, group.name, name, CEILING_HALF)
        ceilings.append(single_block(draw.group, key, value, value + deviation, n, note, flags))
    return [draw.with_stimulus_clusters(block) for block in ceilings]


def _mean_of_rounds(values: FloatArray) -> FloatArray:
    """Return the mean over the rounds of each split, over those that are defined; nan where none is."""
    rounds = values.reshape(-1, TIE_ROUNDS)
    defined = ~np.isnan(rounds)
    return divide(np.where(defined, rounds, 0.0).sum(axis=1), defined.sum(axis=1).astype(np.float64))


def _standard_error(values: FloatArray) -> float:
    """Return the standard error of the mean of random splits; 0 for fewer than two that are defined."""
    defined = values[~np.isnan(values)]
    return float(defined.std(ddof=1) / np.sqrt(len(defined))) if len(defined) > 1 else 0.0


def model_ceiling_blocks(
    draw: Draw, forms: Mapping[str, PairForm], blocks: Sequence[Block], confidence: float
) -> list[Block]:
    """Compute people's ceilings beside each model, on the stimuli that the model shares with them.

    Each model also gets its value again under `PAIRED`, nan where the ceiling is, so that a normalised value is
    computed where both are defined.

    Args:
        draw: The answers to a group of stimuli and their resamples.
        forms: The pair form of each measure.
        blocks: The group's numbers so far, with the ceilings on all stimuli among them.
        confidence: Of the intervals to be made.
    """
    people = next(iter(draw.people_groups), None)
    models = [row for group in draw.observer_groups if group.name == MODELS for row in group.members]
    if people is None or len(people.members) < 2 or not forms or not models:
        return []
    shown = draw.answers.response != NOT_SHOWN
    by_people = shown[people.members].any(axis=0)
    # pairs of single observers, by far the most numbers, are not needed here
    all_numbers = join_blocks(
        [block.at([i for i, key in enumerate(block.keys) if key.against == people.name]) for block in blocks]
    )
    masks, mask_of = np.unique(shown[models] & by_people, axis=0, return_inverse=True)
    ceilings = [
        _ceilings_of(all_numbers, people)
        if mask.sum() == by_people.sum()
        else _ceilings_on(draw, people, forms, mask, confidence)
        for mask in masks
    ]
    index_of = {key: index for index, key in enumerate(all_numbers.keys)}
    each = [
        join_blocks(
            [
                _beside_model(ceilings[int(mask)], all_numbers, index_of, draw.names[model]),
                *_beside_model_at_equal_errors(draw, people, forms, masks[mask], model),
            ]
        )
        for model, mask in zip(models, mask_of.ravel(), strict=True)
    ]
    return [*each, _mean_beside_models(each)]


def _beside_model_at_equal_errors(
    draw: Draw, people: ObserverGroup, forms: Mapping[str, PairForm], mask: BoolArray, model: int
) -> list[Block]:
    """Compute a model's value and people's ceiling at equal numbers of errors, for measures that need it.

    The model and each person in turn are rarefied to equal numbers of errors and compared with the other people.

    Args:
        draw: The answers to a group of stimuli and their resamples.
        people: The people.
        forms: The pair form of each measure.
        mask: The stimuli that the model shares with people.
        model: The row of the model.
    """
    compared, blocks = np.array([model, *people.members]), []
    persons = np.arange(1, len(compared))
    pairs = np.stack([np.zeros_like(persons), persons], axis=1)
    others = np.ones((len(persons), len(compared)), dtype=np.bool_)
    others[:, 0] = others[persons - 1, persons] = False
    for name, form in forms.items():
        if form.at_equal_errors is None:
            continue
        answers = draw.answers.of(compared)
        answers = replace(answers, response=np.where(mask, answers.response, NOT_SHOWN))
        values, errors = form.at_equal_errors(answers, pairs, others)
        of_pairs = np.array([[mean_or_nan(side[~np.isnan(side)]) for side in both] for both in values])
        defined = ~np.isnan(of_pairs).any(axis=1)
        blocks.append(
            make_block(
                draw.group,
                [Key(draw.names[model], people.name, name, statistic) for statistic in (EQUAL_VALUE, EQUAL_CEILING)],
                np.array([mean_or_nan(column[defined]) for column in of_pairs.T]),
                np.zeros((2, draw.resamples)),
                np.full(2, mean_or_nan(errors)),
                flags=[("few_errors",) if errors.mean() < SCARCE * draw.answers.classes else ()] * 2,
            )
        )
    return blocks


def _ceilings_of(block: Block, people: ObserverGroup) -> Block:
    """Return the means of people with people and their split-half ceilings."""
    return block.at([i for i, key in enumerate(block.keys) if key.observer == key.against == people.name])


def _ceilings_on(
    draw: Draw, people: ObserverGroup, forms: Mapping[str, PairForm], mask: BoolArray, confidence: float
) -> Block:
    """Compute people's ceilings on the stimuli of a mask."""
    symmetric = {name: form for name, form in forms.items() if measures[name].symmetric}
    i, j = np.triu_indices(len(people.members), 1)
    pairs = np.stack([people.members[i], people.members[j]], axis=1)
    response = np.where(mask, draw.answers.response, NOT_SHOWN)
    answers = Answers(response, draw.answers.truth, draw.answers.classes)
    part = replace(draw, answers=answers, patterns=Compressed(answers, np.ones(answers.stimuli, dtype=np.int64)))
    blocks = [*pair_blocks(part, pairs, symmetric, confidence), *ceiling_blocks(part, symmetric)]
    return _ceilings_of(join_blocks(blocks), people)


def _beside_model(ceilings: Block, all_numbers: Block, index_of: Mapping[Key, int], model: str) -> Block:
    """Return the ceilings under a model's name, and the model's own values where these are defined.

    Args:
        ceilings: People's ceilings on the stimuli that the model shares with them.
        all_numbers: The numbers of the group, with the model's values.
        index_of: The index of each key in `all_numbers`.
        model: The name of the model.
    """
    keys = [
        Key(model, key.against, key.measure, CEILING_ONE if key.statistic == "value" else key.statistic)
        for key in ceilings.keys
    ]
    own = [index_of.get(key._replace(statistic="value")) for key in keys]
    undefined = np.array([i is None or np.isnan(all_numbers.values[i]) for i in own])
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
    index = [(i, k) for i, k in enumerate(own) if keys[i].statistic == CEILING_ONE and k is not None]
    values = all_numbers.at([k for _, k in index])
    defined = ~np.isnan(beside.values[[i for i, _ in index]])
    paired = replace(
        values,
        keys=tuple(key._replace(statistic=PAIRED) for key in values.keys),
        values=np.where(defined, values.values, np.nan),
    )
    return join_blocks([beside, paired])


def _mean_beside_models(each: Sequence[Block]) -> Block:
    """Average the ceilings of all models, and their values where both are defined."""
    renamed = [block.with_keys([key._replace(observer=MODELS) for key in block.keys]) for block in each]
    mean = mean_over_groups(renamed, each[0].group, "models")
    used = [sum(not np.isnan(b.values[b.keys.index(key)]) for b in renamed if key in b.keys) for key in mean.keys]
    notes = tuple(f"mean over {count} models, people on the stimuli each answered" for count in used)
    per_model = np.maximum(used, 1)
    return replace(mean, n=mean.n / per_model, notes=notes, clusters=mean.clusters / per_model)

"""Mean distances between observers and people: to people's answers, or to the gold labels of a stimulus set.

People's label distribution of a stimulus is the fraction of them that gave each answer. `distance_block` compares
observers with the people who saw the same stimuli; a person is compared with the other people (leave one out), which
also gives the ceiling. Intervals are over stimuli and people.

`gold_block` compares models with gold labels. Intervals are over stimuli and, where it is known how many people gave
each answer, over answers: in each resample the answers to a stimulus are drawn again from their own distribution.
Counts do not tell who answered, so the answers to two stimuli are drawn independently. Distributions without counts,
and labels known by construction, stay fixed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cosight.arrays import BoolArray, FloatArray, IntArray
from cosight.measures.answers import ALL_SPLITS_UP_TO, NOT_SHOWN, half_splits
from cosight.measures.arithmetic import BLOCK, Weights, blocks, divide
from cosight.measures.distance import distance_items
from cosight.statistics.blocks import Block, Flags, Key, finite_resampled, join_blocks, single_block
from cosight.statistics.gold_labels import Gold
from cosight.statistics.outputs import Outputs
from cosight.statistics.pair_scores import CEILING_HALF, CEILING_ONE
from cosight.statistics.resampling import ENOUGH_PEOPLE, Draw, ObserverGroup, random_stream
from cosight.statistics.rows import MODELS, GroupKey

__all__ = ["RESPONSE_AGREEMENT", "distance_block", "gold_block"]

RESPONSE_AGREEMENT = "response_agreement"
_SPLITS = 100  # random halves of more than ten people behind a split-half ceiling
_ANSWER_SPLITS = 20  # random halves of the answers to each stimulus, whose noise averages out over stimuli


def _agreement_items(people: FloatArray, observer: FloatArray) -> FloatArray:
    """Return the fraction of people who gave an observer's answer; (..., labels) to (...)."""
    return np.asarray((people * observer).sum(axis=-1))


# measure -> function of people's and an observer's distributions (..., labels), which returns one value per stimulus
_ITEMS = {**distance_items, RESPONSE_AGREEMENT: _agreement_items}
# measures that do not change when the labels that an observer gave no probability are merged
_MERGES_LABELS = set(_ITEMS) - {"hellinger_printed"}


@dataclass(frozen=True, slots=True, eq=False)
class _PeopleSample:
    """People's answers, and how often each person and stimulus counts.

    Row 0 of the weights is the observed sample (all ones), the other rows are its resamples.
    """

    answers: NDArray[np.float32]  # (people, stimuli, labels): 1 for the answer given, all 0 where there is none
    people_weights: NDArray[np.float32]  # (1 + resamples, people)
    stimulus_weights: NDArray[np.float32]  # (1 + resamples, stimuli)


def distance_block(draw: Draw, outputs: Outputs, names: Sequence[str], people: ObserverGroup) -> Block:
    """Compute every observer's mean distance to a group of people, with crossed resamples, and people's ceilings.

    The ceilings are given for people and, on the stimuli that it shares with them, for each model.

    Args:
        draw: The answers to a group of stimuli and their resamples.
        outputs: The observers' label distributions.
        names: Distances between distributions, or `response_agreement` alone, which reads answers instead.
        people: One of `draw.people_groups`.
    """
    one_hot = draw.answers.response[people.members][:, :, None] == np.arange(len(outputs.table.labels))
    people_weights, stimulus_weights = draw.observer_weights[:, people.members], draw.stimulus_weights()
    sample = _PeopleSample(
        one_hot.astype(np.float32),
        _with_observed(people_weights.astype(np.float32)),
        _with_observed(stimulus_weights),
    )
    distributions_of = outputs.one_hot_answers if RESPONSE_AGREEMENT in names else outputs.distributions
    given = {
        observer: distributions_of(index, draw.columns)
        for observer, index in zip(draw.names, draw.observer_index.tolist(), strict=True)
    }
    of_people = {draw.names[row]: given[draw.names[row]] for row in people.members}
    of_others = {name: distributions for name, distributions in given.items() if name not in of_people}
    means = _mean_distances_of_answers(sample, of_others, names, {})
    rest = {name: of_others[name] for name in of_others if (name, names[0]) not in means}
    means |= _mean_distances(sample, rest, names)
    flags: Flags = ("few_people",) if people.too_few else ()
    each_person, ceilings = _people_blocks(draw, sample, of_people, names, people.name)
    parts = [
        *each_person,
        *(
            _mean_block(
                draw.group, Key(observer, people.name, name), *means[observer, name], people.too_few_note, flags
            )
            for observer in of_others
            for name in names
        ),
        *ceilings,
    ]
    shown = draw.answers.response != NOT_SHOWN
    by_people = shown[people.members].any(axis=0)
    ceilings_on: dict[bytes, list[Block]] = {by_people.tobytes(): ceilings}  # by the mask of stimuli
    for row, observer in enumerate(draw.names):
        if observer in of_others and ceilings:
            shared = shown[row] & by_people
            if shared.tobytes() not in ceilings_on:
                part = replace(sample, stimulus_weights=sample.stimulus_weights * shared)
                ceilings_on[shared.tobytes()] = _people_blocks(draw, part, of_people, names, people.name)[1]
            parts += [
                block.with_keys([key._replace(observer=observer) for key in block.keys])
                for block in ceilings_on[shared.tobytes()]
            ]
    return draw.with_stimulus_clusters(join_blocks(parts))


def _with_observed(weights: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the weights with a first row of ones, which stands for the observed sample."""
    return np.concatenate([np.ones((1, weights.shape[1]), dtype=np.float32), weights])


def _people_blocks(
    draw: Draw, sample: _PeopleSample, of_people: Mapping[str, FloatArray], names: Sequence[str], against: str
) -> tuple[list[Block], list[Block]]:
    """Compute the mean distance of each person to the others, and people's ceilings."""
    each: list[Block] = []
    left_out = {person: index for index, person in enumerate(of_people)}
    of_answers = _mean_distances_of_answers(sample, of_people, names, left_out)
    for index, (person, distributions) in enumerate(of_people.items()):
        means = of_answers
        if (person, names[0]) not in of_answers:
            weights = sample.people_weights.copy()
            weights[:, index] = 0  # all copies of a resampled person are left out of the others
            means = _mean_distances(replace(sample, people_weights=weights), {person: distributions}, names)
        each += [
            _mean_block(draw.group, Key(person, against, name), *means[person, name], "compared with the others")
            for name in names
        ]
    ceilings = _leave_one_out(draw.group, each, sample, names, against) if len(of_people) >= 2 else []
    if len(of_people) >= ENOUGH_PEOPLE:
        rng = random_stream(draw.seed, "halves of people", str(draw.group))
        ceilings += _split_half(draw.group, sample, names, against, rng)
    return each, ceilings


def _mean_distances(
    sample: _PeopleSample, given: Mapping[str, FloatArray], names: Sequence[str]
) -> dict[tuple[str, str], tuple[FloatArray, int]]:
    """Compute mean distances between people and each of `given`, for each row of the weights.

    Args:
        sample: People's answers. Its `people_weights` may have a single row, which then serves all rows.
        given: The distributions (stimuli, labels) of observers by name, nan where there is none.
        names: Measures.

    Returns:
        For each observer and measure the means (rows of weights,) and the number of stimuli behind the first.
    """
    people, stimuli, labels = sample.answers.shape
    fixed_people, rows = len(sample.people_weights) == 1, len(sample.stimulus_weights)
    step = rows if fixed_people else max(1, BLOCK // 16 // max(1, stimuli * labels))
    means: dict[tuple[str, str], list[FloatArray]] = {(observer, name): [] for observer in given for name in names}
    used: dict[str, int] = {}
    for start in range(0, rows, step):
        weights = sample.people_weights if fixed_people else sample.people_weights[start : start + step]
        counts = (weights @ sample.answers.reshape(people, -1)).reshape(-1, stimuli, labels).astype(np.float64)
        answers = counts.sum(axis=2)
        distributions = counts / np.maximum(answers, 1)[:, :, None]
        for observer, own in given.items():
            usable = (answers > 0) & ~np.isnan(own).any(axis=1)
            used.setdefault(observer, int((usable[0] & (sample.stimulus_weights[0] > 0)).sum()))
            for name in names:
                items = _ITEMS[name](distributions, np.nan_to_num(own))
                part = _weighted_means(items, sample.stimulus_weights[start : start + step] * usable)
                means[observer, name].append(part)
    return {key: (np.concatenate(parts), used[key[0]]) for key, parts in means.items()}


def _mean_distances_of_answers(
    sample: _PeopleSample, given: Mapping[str, FloatArray], names: Sequence[str], left_out: Mapping[str, int]
) -> dict[tuple[str, str], tuple[FloatArray, int]]:
    """Compute mean distances as `_mean_distances` does, many times faster, of observers that gave answers alone.

    The distance between people's distribution and a single answer depends on how many of them gave that answer: the
    other labels can be merged. So every item is looked up in a table of distances by two numbers of people.

    Args:
        sample: People's answers.
        given: The distributions of observers by name. Those with probabilities are left to `_mean_distances`.
        names: Measures; where one of them does not allow merging labels, nothing is computed.
        left_out: The index of the person that each observer is, who is not among the people it is compared with.

    Returns:
        The result of `_mean_distances` for some of the observers.
    """
    people, stimuli, _ = sample.answers.shape
    codes = {
        observer: np.where(np.isnan(own).any(axis=1), -1, np.nan_to_num(own).argmax(axis=1))
        for observer, own in given.items()
        if not (np.nan_to_num(own) % 1).any()
    }
    if not set(names) <= _MERGES_LABELS or not codes:
        return {}
    answered = sample.answers.sum(axis=2)  # (people, stimuli)
    answer_of_person = np.where(answered > 0, sample.answers.argmax(axis=2), -2)  # -1: the observer has no answer
    everyone = sample.people_weights @ answered
    same, total = np.arange(people + 1)[None], np.arange(people + 1)[:, None]
    fraction = np.minimum(same / np.maximum(total, 1), 1.0)
    merged, answer = np.stack([fraction, 1 - fraction], axis=-1), np.array([1.0, 0.0])
    tables = {name: _ITEMS[name](merged, answer).ravel() for name in names}
    rows = len(sample.stimulus_weights)
    means = {(observer, name): np.empty(rows) for observer in codes for name in names}
    used = dict.fromkeys(codes, 0)
    for observer, code in codes.items():
        gave_it = (answer_of_person == code).astype(np.float32)
        for part in blocks(rows, stimuli, most=BLOCK // 64):  # small enough for the processor's cache
            weights, drawn = sample.people_weights[part], sample.stimulus_weights[part]
            others, alike = everyone[part], weights @ gave_it
            if observer in left_out:
                own = weights[:, left_out[observer], None]
                others = others - own * answered[left_out[observer]]
                alike -= own * gave_it[left_out[observer]]
            usable = (others > 0) & (code >= 0)
            if part.start == 0:
                used[observer] = int((usable[0] & (drawn[0] > 0)).sum())
            index = others.astype(np.int32) * (people + 1) + alike.astype(np.int32)
            counted = drawn if usable.all() else drawn * usable
            for name, table in tables.items():
                means[observer, name][part] = _weighted_means(table[index], counted)
    return {key: (values, used[key[0]]) for key, values in means.items()}


def _weighted_means(items: FloatArray, weights: Weights) -> FloatArray:
    """Return the weighted mean of each row of items; an infinite item with weight 0 does not count."""
    if np.isfinite(items).all():
        total = (items * weights).sum(axis=1)
    else:
        total = np.multiply(items, weights, out=np.zeros(weights.shape), where=weights > 0).sum(axis=1)
    return divide(total, weights.sum(axis=1, dtype=np.float64))


def _leave_one_out(
    group: GroupKey, each: Sequence[Block], sample: _PeopleSample, names: Sequence[str], against: str
) -> list[Block]:
    """Compute the mean over people of each one's distance to the others."""
    ceilings = []
    for name in names:
        of_measure = [block for block in each if block.keys[0].measure == name]
        values = np.array([block.values[0] for block in of_measure])
        resampled = np.stack([block.resampled[0] for block in of_measure])
        weights = sample.people_weights[1:].T * ~np.isnan(resampled)
        means = divide((np.nan_to_num(resampled) * weights).sum(axis=0), weights.sum(axis=0))
        value = float(np.nanmean(values)) if (~np.isnan(values)).any() else float("nan")
        n = int(np.mean([block.n[0] for block in of_measure]))
        note = f"mean of {len(of_measure)} {against}, each compared with the others"
        key = Key(against, against, name, CEILING_ONE)
        ceilings.append(_mean_block(group, key, np.concatenate([[value], means]), n, note))
    return ceilings


def _split_half(
    group: GroupKey, sample: _PeopleSample, names: Sequence[str], against: str, rng: np.random.Generator
) -> list[Block]:
    """Compute the distance between the distributions of two halves of the people, mean over splits.

    All splits of up to ten people, else random ones, whose standard error is part of the interval.
    """
    people, stimuli, labels = sample.answers.shape
    splits = half_splits(people, splits=_SPLITS, rng=rng)
    answers = sample.answers.reshape(people, -1)
    means: dict[str, list[FloatArray]] = {name: [] for name in names}  # (splits, rows of weights), of each batch
    n = 0
    for part in blocks(len(splits), stimuli * labels, most=BLOCK // 8):
        is_member = np.zeros((len(splits[part]), 2, people), dtype=np.float32)
        np.put_along_axis(is_member, splits[part], 1, axis=2)
        counts = (is_member.reshape(-1, people) @ answers).reshape(-1, 2, stimuli, labels).astype(np.float64)
        total = counts.sum(axis=3)
        usable = (total > 0).all(axis=1)  # (splits, stimuli)
        first, second = np.moveaxis(counts / np.maximum(total, 1)[..., None], 1, 0)
        n = int((usable[-1] & (sample.stimulus_weights[0] > 0)).sum())
        for name in names:
            means[name].append(_means_of_splits(_ITEMS[name](second, first), usable, sample.stimulus_weights))
    note = f"two halves of {people} {against}, mean of {len(splits)} splits; interval over stimuli"
    ceilings = []
    for name in names:
        of_splits = np.concatenate(means[name])
        defined = ~np.isnan(of_splits)
        mean = divide(np.where(defined, of_splits, 0.0).sum(axis=0), defined.sum(axis=0).astype(np.float64))
        own = of_splits[defined[:, 0], 0]
        if people > ALL_SPLITS_UP_TO and len(own) > 1 and np.isfinite(own).all():
            mean[1:] += own.std(ddof=1) / np.sqrt(len(own)) * rng.normal(size=len(mean) - 1)
        over = " and splits" if people > ALL_SPLITS_UP_TO else ""
        ceilings.append(_mean_block(group, Key(against, against, name, CEILING_HALF), mean, n, note + over))
    return ceilings


def _means_of_splits(items: FloatArray, usable: BoolArray, weights: Weights) -> FloatArray:
    """Return the weighted mean of each row of items (splits, stimuli) for each row of weights; (splits, rows).

    Only usable items count. An infinite item with weight 0 does not count either.
    """
    infinite = usable & np.isinf(items)
    finite = np.where(usable & ~infinite, items, 0.0)
    out = np.empty((len(items), len(weights)))
    for rows in blocks(len(weights), weights.shape[1], most=BLOCK // 4):
        columns = weights[rows].T.astype(np.float64)
        out[:, rows] = divide(finite @ columns, usable @ columns)
        if infinite.any():
            out[:, rows][infinite @ columns > 0] = np.inf
    return out


def _mean_block(group: GroupKey, key: Key, means: FloatArray, n: int, note: str, flags: Flags = ()) -> Block:
    """Return a block of one number from `means`: the value first, then its resamples."""
    resampled = finite_resampled(means[:1], means[None, 1:])
    return single_block(group, key, float(means[0]), resampled[0], float(n), note, flags)


# ---- distances to gold labels


def gold_block(draw: Draw, outputs: Outputs, gold: Gold, names: Sequence[str]) -> Block:
    """Compute the mean distance of every model to the gold labels, and the ceiling that their counts allow.

    People are not compared with gold labels, which may be made of their own answers.

    Args:
        draw: The answers to a group of stimuli and their resamples.
        outputs: The observers' label distributions.
        gold: The gold labels of the table's stimuli.
        names: Distances between distributions.
    """
    models = [row for group in draw.observer_groups if group.name == MODELS for row in group.members.tolist()]
    given = {draw.names[row]: outputs.distributions(int(draw.observer_index[row]), draw.columns) for row in models}
    sample = _GoldSample(
        gold.distributions[draw.columns], gold.counts[draw.columns], _with_observed(draw.stimulus_weights())
    )
    parts = [_gold_ceiling(draw, sample, gold.name, name) for name in names]
    means = sample.mean_distances(given, names, random_stream(draw.seed, "gold answers", str(draw.group)))
    note = "interval over stimuli and answers" if sample.counted.any() else "interval over stimuli"
    for (observer, name), values in means.items():
        n = int((~np.isnan(given[observer]).any(axis=1) & sample.known).sum())
        parts.append(_mean_block(draw.group, Key(observer, gold.name, name), values, n, note))
    return draw.with_stimulus_clusters(join_blocks(parts))


@dataclass(frozen=True, slots=True, eq=False)
class _GoldSample:
    """Gold labels of a group of stimuli, and how often each stimulus counts; row 0 is the observed sample."""

    distributions: FloatArray  # (stimuli, labels)
    counts: IntArray  # (stimuli, labels)
    stimulus_weights: Weights  # (1 + resamples, stimuli)

    @property
    def known(self) -> BoolArray:
        return np.asarray(~np.isnan(self.distributions).any(axis=1))

    @property
    def counted(self) -> BoolArray:
        """Where the number of answers is known, so that they can be resampled."""
        return np.asarray(self.counts.sum(axis=1) > 0)

    def mean_distances(
        self, given: Mapping[str, FloatArray], names: Sequence[str], rng: np.random.Generator
    ) -> dict[tuple[str, str], FloatArray]:
        """Compute the mean distance of each observer and measure for each row of the weights."""
        means = {(observer, name): np.empty(len(self.stimulus_weights)) for observer in given for name in names}
        fixed, known, counted = np.nan_to_num(self.distributions), self.known, self.counted
        for rows, resampled in self._resampled_labels(rng):
            for (observer, name), values in means.items():
                own, distance = np.nan_to_num(given[observer]), distance_items[name]
                items = np.repeat(distance(fixed, own)[None], len(resampled), axis=0)
                items[:, counted] = distance(resampled, own[counted])
                usable = known & ~np.isnan(given[observer]).any(axis=1)
                values[rows] = _weighted_means(items, self.stimulus_weights[rows] * usable)
        return means

    def _resampled_labels(self, rng: np.random.Generator) -> Iterator[tuple[slice, FloatArray]]:
        """Yield rows of the weights and, for each, the labels (rows, counted stimuli, labels); row 0 as observed."""
        counts = self.counts[self.counted]
        total = counts.sum(axis=1)
        observed = counts / np.maximum(total, 1)[:, None]
        yield slice(0, 1), observed[None]
        for part in blocks(len(self.stimulus_weights) - 1, self.distributions.size, most=BLOCK // 16):
            rows = slice(part.start + 1, min(part.stop, len(self.stimulus_weights) - 1) + 1)
            answers = rng.multinomial(total, observed, size=(rows.stop - rows.start, len(total)))
            yield rows, answers / np.maximum(total, 1)[:, None]


def _gold_ceiling(draw: Draw, sample: _GoldSample, against: str, name: str) -> Block:
    """Compute the distance between two random halves of the answers to each stimulus, mean over several splits."""
    key = Key(against, against, name, CEILING_HALF)
    several = sample.counts.sum(axis=1) >= 2
    if not several.any():
        undefined = np.full(len(sample.stimulus_weights), np.nan)
        note = "undefined: gold labels without counts have no ceiling"
        return _mean_block(draw.group, key, undefined, 0, note, ("undefined",))
    rng = random_stream(draw.seed, "halves of answers", str(draw.group))
    counts = sample.counts[several]
    size = counts.sum(axis=1) // 2  # of an odd number of answers one is left out
    items = np.zeros(several.sum())
    for _ in range(_ANSWER_SPLITS):
        first = _without_replacement(counts, size, rng)
        second = _without_replacement(counts - first, size, rng)
        items += distance_items[name](first / size[:, None], second / size[:, None])
    weights = sample.stimulus_weights[:, several]
    means = _weighted_means(np.broadcast_to(items / _ANSWER_SPLITS, weights.shape), weights)
    note = f"two halves of each stimulus' answers, mean of {_ANSWER_SPLITS} splits; interval over stimuli"
    return _mean_block(draw.group, key, means, int(several.sum()), note)


def _without_replacement(counts: IntArray, size: IntArray, rng: np.random.Generator) -> IntArray:
    """Draw `size` answers of each row without replacement, one class after the other (multivariate hypergeometric)."""
    drawn = np.empty_like(counts)
    to_draw, remaining = size, counts.sum(axis=1)
    for code, count in enumerate(counts.T):
        drawn[:, code] = rng.hypergeometric(count, remaining - count, to_draw)
        to_draw, remaining = to_draw - drawn[:, code], remaining - count
    return drawn

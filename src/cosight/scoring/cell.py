"""Every number of one cell: observers alone, pairs of observers, means over groups, ceilings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from cosight.arrays import FloatArray
from cosight.measures import measures, pair_forms, solo_forms
from cosight.measures.answers import Answers, CodeArray
from cosight.measures.bias import shape_choices
from cosight.measures.ceilings import half_pairs, split_half_crowds
from cosight.measures.consistency import reachable_kappa
from cosight.measures.facts import PairForm, SoloForm
from cosight.measures.sums import Pairs, Weights
from cosight.measures.uncertainty import Compressed, mean_over_pairs
from cosight.scoring.blocks import Block, Key, empty, finite_samples, joined
from cosight.scoring.crowd import ENOUGH_PEOPLE, Draw, Resampled, draw, stream
from cosight.scoring.groups import MODELS, PEOPLE, SIMULATED, Group, groups_of, pairs_of
from cosight.scoring.outputs import OUTPUT_MEASURES, Outputs, output_form
from cosight.trials.join import Cell, Table

__all__ = ["CEILING", "Options", "block_of", "solo_block"]

CEILING = "ceiling_split_half"
_SPLITS = 20


@dataclass(frozen=True, slots=True)
class Options:
    """What is asked of every cell."""

    solos: tuple[str, ...]
    duos: tuple[str, ...]
    pairs: str
    resamples: int
    seed: int


def block_of(table: Table, cell: Cell, options: Options, texture: CodeArray | None, outputs: Outputs | None) -> Block:
    """All numbers of a cell with their resamples.

    `texture` gives the second cue where shape bias is asked for, `outputs` the probabilities where they are.
    """
    only_answers = texture is None and outputs is None
    drawn = draw(table, cell, resamples=options.resamples, seed=options.seed, merge=only_answers)
    cues = None if texture is None else texture[cell.columns]
    blocks = [solo_block(table, cell, drawn, name, cues) for name in options.solos]
    local = _Local.of(table, drawn, options.pairs)
    if len(local.pairs):
        forms = {
            name: pair_forms[name] if outputs is None or name in pair_forms
            else output_form(name, outputs, drawn.observers, cell.columns)
            for name in options.duos
        }  # fmt: skip
        blocks += _duos(cell, drawn, local, forms)
        blocks += _ceilings(cell, drawn, local, forms, options)
    kept = [block for block in blocks if block is not None]
    return joined(kept) if kept else empty(cell.group, options.resamples)


@dataclass(frozen=True, slots=True, eq=False)
class _Local:
    """The observers of one cell: their names, groups and pairs, by row of the cell's answers."""

    names: tuple[str, ...]
    groups: tuple[Group, ...]
    pairs: Pairs

    @classmethod
    def of(cls, table: Table, drawn: Draw, kind: str) -> _Local:
        row = {int(observer): index for index, observer in enumerate(drawn.observers)}
        members = [(g.name, [row[int(i)] for i in g.members if int(i) in row]) for g in groups_of(table)]
        groups = tuple(Group(name, np.array(rows, dtype=np.int64)) for name, rows in members if rows)
        names = tuple(table.observers[i] for i in drawn.observers)
        return cls(names, groups, pairs_of(table.people[drawn.observers], kind))


# ------------------------------------------------------------------------------------------------------ one observer


def solo_block(table: Table, cell: Cell, drawn: Draw, name: str, texture: CodeArray | None) -> Block | None:
    """A measure of each observer, and of each group of people pooled; None where it does not apply."""
    if not len(drawn.observers):
        return None
    form = solo_forms[name]
    as_choice = name == "shape_bias"
    if as_choice and (texture is None or not shape_choices(drawn.answers, texture).shown.any()):
        return None

    def totals(answers: Answers, weights: Weights) -> FloatArray:
        seen = shape_choices(answers, texture) if as_choice and texture is not None else answers
        return np.moveaxis(form.totals(seen, weights), 1, 2)  # (observers, sums, resamples)

    whole = totals(drawn.answers, np.ones((1, drawn.answers.stimuli), dtype=np.float32))
    sampled = drawn.sample([totals])[0]
    counted = shape_choices(drawn.answers, texture) if as_choice and texture is not None else drawn.answers
    count = form.count(counted)
    rows = list(range(len(drawn.observers)))
    parts = [(table.observers[drawn.observers[i]], [i], "") for i in rows]
    for group in _Local.of(table, drawn, "all").groups:
        if group.drawn and len(group.members) > 1:
            note = f"pooled over {len(group.members)} {group.name}{_few(group)}"
            parts.append((group.name, group.members.tolist(), note))
    return _solo_numbers(cell, name, form, parts, whole, sampled, count, drawn.times)


def _solo_numbers(
    cell: Cell,
    name: str,
    form: SoloForm,
    parts: Sequence[tuple[str, list[int], str]],
    whole: FloatArray,
    sampled: FloatArray,
    count: FloatArray,
    times: FloatArray,
) -> Block:
    keys, values, samples, n, notes = [], [], [], [], []
    for label, rows, note in parts:
        pooled = len(rows) > 1
        weight = times.T[rows] if pooled else np.ones((1, sampled.shape[-1]))
        summed = np.einsum("osr,or->rs", sampled[rows], weight)
        keys.append(Key(label, None, name))
        values.append(float(form.finish(whole[rows, :, 0].sum(axis=0))))
        samples.append(form.finish(summed))
        n.append(count[rows].sum())
        notes.append(note)
    return Block(cell.group, tuple(keys), np.array(values), np.stack(samples), np.array(n), tuple(notes))


# ----------------------------------------------------------------------------------------------------- two observers


def _duos(cell: Cell, drawn: Draw, local: _Local, forms: dict[str, PairForm]) -> list[Block]:
    """Measures of pairs and their means over groups."""
    functions = [_on_pairs(form, local.pairs) for form in forms.values()]
    blocks = []
    for (name, form), sampled in zip(forms.items(), drawn.sample(functions), strict=True):
        pairs = _pair_block(cell, drawn, local, name, form, sampled)
        blocks += [pairs, *_means(pairs, drawn, local, name)]
    return blocks


def _on_pairs(form: PairForm, pairs: Pairs) -> Resampled:
    return lambda answers, weights: form.resampled(answers, weights, pairs)


def _pair_block(cell: Cell, drawn: Draw, local: _Local, name: str, form: PairForm, sampled: FloatArray) -> Block:
    pairs = local.pairs
    values = form.matrix(drawn.answers)[pairs[:, 0], pairs[:, 1]]
    keys = tuple(Key(local.names[a], local.names[b], name) for a, b in pairs)
    notes = [""] * len(pairs)
    if name == "error_consistency":
        notes = [_reachable(drawn.answers, a, b) for a, b in pairs]
    sampled = finite_samples(values, sampled)
    notes = [note if not np.isnan(v) else _undefined(name) for note, v in zip(notes, values, strict=True)]
    return Block(cell.group, keys, values, sampled, form.count(drawn.answers, pairs), tuple(notes))


def _reachable(answers: Answers, a: int, b: int) -> str:
    seen = answers.shown[a] & answers.shown[b]
    if not seen.any():
        return ""
    right = answers.correct[:, seen]
    ends = reachable_kappa(float(right[a].mean()), float(right[b].mean()))
    return "" if np.isnan(ends.lowest) else f"reachable {ends.lowest:.3f} to {ends.highest:.3f}"


def _undefined(name: str) -> str:
    reasons = {
        "misclassification_agreement": "undefined: no joint errors, or all with the same answer",
        "class_level_error_similarity": "undefined: no errors",
        "class_level_error_similarity_pooled": "undefined: no errors",
        **dict.fromkeys(OUTPUT_MEASURES, "undefined: no stimulus for which both gave probabilities"),
    }
    return reasons.get(name, "undefined: no common trials, or both always right or both always wrong")


def _means(pairs: Block, drawn: Draw, local: _Local, name: str) -> list[Block]:
    """Means over the pairs between two groups, and of each observer with a group of people."""
    blocks = []
    for g, h in combinations_with_replacement(local.groups, 2):
        first, second = (h, g) if h.name == MODELS else (g, h)  # models are held against people
        chosen = _between(local.pairs, first.members, second.members)
        note = "leave-one-person-out ceiling" if g.name == h.name == PEOPLE else ""
        blocks.append(_mean(pairs, drawn, local, chosen, Key(first.name, second.name, name), (g, h), None, note))
    for group in local.groups:
        if group.drawn:
            for row, observer in enumerate(local.names):
                chosen = _between(local.pairs, np.array([row]), group.members)
                blocks.append(_mean(pairs, drawn, local, chosen, Key(observer, group.name, name), (group,), row, ""))
    return [block for block in blocks if block is not None]


def _between(pairs: Pairs, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    """Which pairs have one observer in each of the two."""
    a, b = pairs.T
    forth, back = np.isin(a, first) & np.isin(b, second), np.isin(a, second) & np.isin(b, first)
    return np.flatnonzero(forth | back)


def _mean(
    pairs: Block,
    drawn: Draw,
    local: _Local,
    chosen: NDArray[np.int64],
    key: Key,
    groups: tuple[Group, ...],
    fixed: int | None,
    note: str,
) -> Block | None:
    """The mean over some pairs; `fixed` is an observer that is not drawn again."""
    if not len(chosen):
        return None
    values, defined = pairs.values[chosen], ~np.isnan(pairs.values[chosen])
    people = np.zeros(len(local.names), dtype=np.bool_)
    for group in groups:
        people[group.members] = group.drawn
    if fixed is not None:
        people[fixed] = False
    samples = mean_over_pairs(pairs.samples[chosen], local.pairs[chosen], drawn.times, people)
    value = values[defined].mean() if defined.any() else float("nan")
    n = pairs.n[chosen][defined].mean() if defined.any() else 0.0
    left_out = f", {len(chosen) - defined.sum()} undefined left out" if not defined.all() else ""
    words = [note, f"mean of {int(defined.sum())} pairs{left_out}", *(_few(group).strip("; ") for group in groups[:1])]
    text = "; ".join(word for word in words if word)
    return Block(pairs.group, (key,), np.array([value]), samples[None], np.array([n]), (text,))


def _few(group: Group) -> str:
    few = group.drawn and len(group.members) < ENOUGH_PEOPLE
    return f"; interval over stimuli only, {len(group.members)} {group.name} are too few to resample" if few else ""


def _ceilings(cell: Cell, drawn: Draw, local: _Local, forms: dict[str, PairForm], options: Options) -> list[Block]:
    """The split-half ceiling of each measure, for real and for simulated people; intervals over stimuli."""
    blocks = []
    for group in local.groups:
        if (
            group.name not in (PEOPLE, SIMULATED)
            or len(group.members) < ENOUGH_PEOPLE
            or options.pairs == "model-model"
        ):
            continue
        rng = stream(options.seed, "halves", group.name, str(cell.group))
        crowds = split_half_crowds(drawn.answers.of(group.members), splits=_SPLITS, rng=rng)
        halves = half_pairs(_SPLITS)
        for name, form in forms.items():
            if measures[name].symmetric and name not in OUTPUT_MEASURES:
                blocks.append(_ceiling(cell, drawn, crowds, halves, group, name, form))
    return blocks


def _ceiling(cell: Cell, drawn: Draw, crowds: Answers, halves: Pairs, group: Group, name: str, form: PairForm) -> Block:
    whole = form.matrix(crowds)[halves[:, 0], halves[:, 1]]
    defined = ~np.isnan(whole)
    value = whole[defined].mean() if defined.any() else float("nan")
    patterns = Compressed(crowds, np.ones(crowds.stimuli, dtype=np.int64))
    again = Draw(crowds, patterns, drawn.clusters, drawn.observers, drawn.times, drawn.seed, drawn.group)
    sampled = again.sample([_on_pairs(form, halves)])[0]
    everyone = mean_over_pairs(sampled, halves, np.ones((sampled.shape[1], 2 * _SPLITS)), np.zeros(2 * _SPLITS, bool))
    key = Key(group.name, group.name, f"{name}.{CEILING}")
    crowd = f"two halves of {len(group.members)} {group.name}"
    note = f"majority answers of {crowd}, mean of {_SPLITS} splits; interval over stimuli"
    n = form.count(crowds, halves).mean()
    return Block(cell.group, (key,), np.array([value]), everyone[None], np.array([n]), (note,))

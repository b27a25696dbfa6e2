"""Measures of one observer, of each alone and of people pooled."""

from __future__ import annotations

import numpy as np

from cosight.arrays import FloatArray
from cosight.measures import solo_forms
from cosight.measures.answers import Answers, CodeArray
from cosight.measures.bias import shape_choices
from cosight.measures.sums import Weights
from cosight.statistics.blocks import Block, Key
from cosight.statistics.resampling import Draw, few

__all__ = ["solo_block"]


def solo_block(drawn: Draw, name: str, texture: CodeArray | None) -> Block | None:
    """A measure of each observer and of each group of people pooled; None where it does not apply.

    `texture` is the second cue of each column, for shape bias.
    """
    form = solo_forms[name]

    def seen(answers: Answers) -> Answers:
        mine = drawn.own(answers)
        return shape_choices(mine, texture) if name == "shape_bias" and texture is not None else mine

    def totals(answers: Answers, weights: Weights) -> FloatArray:
        return np.moveaxis(form.totals(seen(answers), weights), 1, 2)  # (observers, sums, resamples)

    if (name == "shape_bias" and texture is None) or not seen(drawn.answers).shown.any():
        return None
    count = form.count(seen(drawn.answers))
    whole = totals(drawn.answers, np.ones((1, drawn.answers.stimuli), dtype=np.float32))[:, :, 0]
    sampled = drawn.sample([totals])[0]
    keys, values, samples, n, notes = [], [], [], [], []
    for label, rows, weight, note in _parts(drawn):
        keys.append(Key(label, None, name))
        values.append(form.finish(whole[rows].sum(axis=0)))
        samples.append(form.finish(np.einsum("osr,ro->rs", sampled[rows], weight)))
        n.append(count[rows].sum())
        notes.append(note)
    return Block(drawn.cell.group, tuple(keys), np.array(values), np.stack(samples), np.array(n), tuple(notes))


def _parts(drawn: Draw) -> list[tuple[str, list[int], FloatArray, str]]:
    """Whose trials are summed: a name, rows, how often each counts in each resample, and a note."""
    once = np.ones((len(drawn.times), 1))
    alone = [(name, [row], once, "") for row, name in enumerate(drawn.names)]
    pooled = [
        (g.name, g.members.tolist(), drawn.times[:, g.members], f"pooled over {len(g.members)} {g.name}{few(g)}")
        for g in drawn.crowds
        if len(g.members) > 1
    ]
    return [*alone, *pooled]

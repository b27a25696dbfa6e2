"""Measures of one observer: each observer alone, and people pooled."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cosight.arrays import FloatArray
from cosight.measures import solo_forms
from cosight.measures.answers import NOT_SHOWN, Answers, CodeArray
from cosight.measures.arithmetic import Weights, divide
from cosight.statistics.blocks import Block, Flags, Key, block_of
from cosight.statistics.resampling import Draw, few, few_people_note

__all__ = ["item_means", "solo_block"]


def solo_block(drawn: Draw, name: str, texture: CodeArray | None) -> Block | None:
    """Compute a measure of each observer and of each group of people pooled; None where it does not apply.

    Args:
        drawn: The answers of a cell and their resamples.
        name: A measure that has a `SoloForm`.
        texture: The texture class of each column, for measures of cue-conflict images; None where there are none.
    """
    form = solo_forms[name]

    def restricted(answers: Answers) -> Answers:
        own = drawn.own(answers)
        return own if form.choices is None or texture is None else form.choices(own, texture)

    def totals(answers: Answers, weights: Weights) -> FloatArray:
        return np.moveaxis(form.totals(restricted(answers), weights), 1, 2)  # (observers, sums, resamples)

    answers = restricted(drawn.answers)
    if (form.choices is not None and texture is None) or not answers.shown.any():
        return None
    count = form.count(answers)
    whole = totals(drawn.answers, np.ones((1, drawn.answers.stimuli), dtype=np.float32))[:, :, 0]
    sampled = drawn.sample([totals])[0]
    once = np.ones((len(drawn.times), 1))
    # whose trials are summed: a name, rows, how often each row counts in each resample, a note, flags
    parts: list[tuple[str, list[int], FloatArray, str, Flags]] = [
        (observer, [row], once, "", ()) for row, observer in enumerate(drawn.names)
    ]
    parts += [
        (
            group.name,
            group.members.tolist(),
            drawn.times[:, group.members],
            f"pooled over {len(group.members)} {group.name}{few_people_note(group)}",
            ("few_people",) if few(group) else (),
        )
        for group in drawn.crowds
        if len(group.members) > 1
    ]
    met = answers.response != NOT_SHOWN
    return block_of(
        drawn.cell.group,
        [Key(who, None, name) for who, *_ in parts],
        np.array([form.finish(whole[rows].sum(axis=0)) for _, rows, *_ in parts]),
        np.stack([form.finish(np.einsum("osr,ro->rs", sampled[rows], times)) for _, rows, times, *_ in parts]),
        np.array([count[rows].sum() for _, rows, *_ in parts]),
        notes=[note for *_, note, _ in parts],
        flags=[flags for *_, flags in parts],
        clusters=np.array([min(count[rows].sum(), _stimuli(drawn, met[rows].any(axis=0))) for _, rows, *_ in parts]),
    )


def _stimuli(drawn: Draw, columns: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> int:
    """The number of different stimuli in some columns of a draw."""
    return int(columns.sum()) if drawn.clusters is None else len(set(drawn.clusters[columns].tolist()))


def item_means(drawn: Draw, measure: str, items: Mapping[str, FloatArray]) -> Block:
    """Means of values per stimulus, (columns,) for each observer, resampled over stimuli; nan items are left out."""
    values = np.stack(list(items.values()))
    defined = ~np.isnan(values)
    clean = np.where(defined, values, 0.0)
    samples = drawn.sample([lambda _, w: divide(clean @ w.T.astype(np.float64), (defined @ w.T).astype(np.float64))])[0]
    n = defined.sum(axis=1).astype(np.float64)
    keys = [Key(observer, None, measure) for observer in items]
    means = divide(clean.sum(axis=1), n)
    return drawn.of_stimuli(block_of(drawn.cell.group, keys, means, samples, n))

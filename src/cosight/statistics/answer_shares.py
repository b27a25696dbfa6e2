"""How often observers give each answer to each class, and how far a model's shares are from people's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from cosight.arrays import BoolArray, FloatArray
from cosight.measures.answers import NOT_SHOWN, Answers
from cosight.measures.arithmetic import Weights, divide
from cosight.statistics.blocks import Block, Flags, Key, make_block, merge_flags
from cosight.statistics.resampling import Draw

__all__ = ["ANSWER", "ANSWER_SHARE", "MOST_LABELS", "TRUTH", "answer_share_blocks"]

ANSWER_SHARE = "answer_share"
TRUTH, ANSWER = "truth", "answer"  # keys of the rows' groups
MOST_LABELS = 40  # the rows of an observer are the square of the labels


def answer_share_blocks(draw: Draw, labels: Sequence[str]) -> list[Block]:
    """Compute the shares of each observer and of people pooled, and differences on the stimuli that both were shown.

    Models are compared with people pooled, and two observers with each other.

    Args:
        draw: The answers to a group of stimuli and their resamples.
        labels: The label of each code.

    Returns:
        The shares, of which the classes that were shown are the rows and all labels the columns, and their differences.
    """
    everything = np.ones(draw.answers.stimuli, dtype=np.bool_)
    alone = np.ones((draw.resamples, 1))
    single = [_Crowd(draw, name, np.array([row]), alone, "", ()) for row, name in enumerate(draw.names)]
    pooled = [
        _Crowd(draw, group.name, group.members, draw.observer_weights[:, group.members], group.too_few_note,
               ("few_people",) if group.too_few else ())
        for group in draw.people_groups if len(group.members) > 1
    ]  # fmt: skip
    blocks = [crowd.block(labels, everything) for crowd in (*single, *pooled)]
    people = [row for group in draw.people_groups for row in group.members.tolist()]
    references = [*pooled, *(single[row] for row in people)]
    pairs = [(crowd, references[0]) for row, crowd in enumerate(single) if row not in people and references]
    if not pairs and len(single) == 2:
        pairs = [(single[0], single[1])]
    for first, second in pairs:
        both = first.shown & second.shown
        if both.any():
            parts = [crowd.block(labels, both) for crowd in (first, second)]
            blocks.append(_difference(*parts))
            for part, crowd, other in zip(parts, (first, second), (second, first), strict=True):
                if (both != crowd.shown).any():  # the shares that are compared are not those of all stimuli
                    blocks.append(part.with_keys([key._replace(against=other.name) for key in part.keys]))
    return [block for block in blocks if block.keys]


class _Crowd:
    """One observer, or people pooled: rows of the answers, and how often each is drawn, (resamples, rows)."""

    def __init__(
        self, draw: Draw, name: str, rows: NDArray[np.int64], weights: FloatArray, note: str, flags: Flags
    ) -> None:
        self.draw, self.name, self.rows, self.weights, self.note, self.flags = draw, name, rows, weights, note, flags
        self.shown: BoolArray = np.asarray((draw.answers.response[rows] != NOT_SHOWN).any(axis=0))
        self._computed: tuple[BoolArray, Block] | None = None

    def block(self, labels: Sequence[str], used: BoolArray) -> Block:
        """Return the shares on the stimuli of a mask."""
        if self._computed is not None and np.array_equal(self._computed[0], used & self.shown):
            return self._computed[1]
        draw, size = self.draw, len(labels)
        truth, stimuli = draw.answers.truth, draw.answers.stimuli
        counts, drawn = np.zeros(size**2), np.zeros((size**2, draw.resamples))
        for row, weights in zip(self.rows, self.weights.T, strict=True):
            response = draw.answers.response[row]
            known = np.flatnonzero((response >= 0) & (truth >= 0) & used)
            cell = truth[known].astype(np.int64) * size + response[known]
            matrix = csr_array((np.ones(len(known)), (cell, known)), shape=(size**2, stimuli))

            def resampled(_: Answers, weights: Weights, matrix: csr_array = matrix) -> FloatArray:
                return np.asarray(matrix @ weights.T)

            counts += matrix.sum(axis=1)
            drawn += draw.resample([resampled], values=size**2)[0] * weights
        total = counts.reshape(size, size).sum(axis=1)
        classes = np.flatnonzero(total)
        has_truth = TRUTH in dict(draw.group)  # the group is one class
        keys = [
            Key(self.name, None, ANSWER_SHARE, variant=(*(() if has_truth else ((TRUTH, labels[i]),)), (ANSWER, label)))
            for i in classes.tolist()
            for label in labels
        ]
        met = [self.shown & used & (truth == i) for i in classes]
        clusters = draw.cluster_counts(np.stack(met)) if met else np.empty(0)
        block = make_block(
            draw.group,
            keys,
            _shares(counts.reshape(size, size, 1)[classes]).reshape(-1),
            _shares(drawn.reshape(size, size, -1)[classes]).reshape(len(keys), draw.resamples),
            np.repeat(total[classes], size),
            notes=[self.note] * len(keys),
            flags=[self.flags] * len(keys),
            clusters=np.minimum(np.repeat(total[classes], size), np.repeat(clusters, size)),
        )
        block = draw.flag_few_clusters(block)
        self._computed = (used & self.shown, block)
        return block


def _shares(counts: FloatArray) -> FloatArray:
    """Return counts (classes, answers, ...) as shares of the answers to each class."""
    return divide(counts, np.broadcast_to(counts.sum(axis=1, keepdims=True), counts.shape))


def _difference(first: Block, second: Block) -> Block:
    """Return the first shares less the second, of the classes that both were shown."""
    index = {key.variant: number for number, key in enumerate(second.keys)}
    common = [(number, index[key.variant]) for number, key in enumerate(first.keys) if key.variant in index]
    a, b = first.at([one for one, _ in common]), second.at([other for _, other in common])
    return make_block(
        first.group,
        [
            key._replace(against=other.observer, statistic="difference")
            for key, other in zip(a.keys, b.keys, strict=True)
        ],
        a.values - b.values,
        a.resampled - b.resampled,
        np.minimum(a.n, b.n),
        flags=[merge_flags(*both) for both in zip(a.flags, b.flags, strict=True)],
        clusters=np.minimum(a.clusters, b.clusters),
    )

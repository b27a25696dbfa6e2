"""How far is each observer from the gold labels of a stimulus set?

Intervals are over stimuli and, where it is known how many people gave each answer, over people too: in each resample
the answers to a stimulus are drawn again, as many as there were, from their own shares, crossed with the draw of
stimuli. Counts do not tell who answered, so the answers to two stimuli are drawn apart. Shares without counts, and
labels known by construction, stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cosight.arrays import BoolArray, FloatArray, IntArray
from cosight.measures.arithmetic import BLOCK, Weights, blocks, divide
from cosight.measures.distance import distance_items
from cosight.statistics.blocks import Block, Key, joined
from cosight.statistics.distances import SPLITS, mean_block
from cosight.statistics.gold_labels import Gold
from cosight.statistics.groups import MODELS
from cosight.statistics.outputs import Outputs
from cosight.statistics.pair_scores import CEILING_HALF
from cosight.statistics.resampling import Draw, stream

__all__ = ["gold_block"]


def gold_block(drawn: Draw, outputs: Outputs, gold: Gold, names: Sequence[str]) -> Block:
    """Mean distance of every model to the gold labels of a cell, and the ceiling that their counts allow.

    People are not compared with them: the labels may be made of their own answers.
    """
    columns = drawn.cell.columns
    models = [row for group in drawn.groups if group.name == MODELS for row in group.members.tolist()]
    given = {drawn.names[row]: outputs.distributions(int(drawn.observers[row]), columns) for row in models}
    weights = drawn.weights()
    once = np.ones((1, len(columns)), dtype=np.float32)
    labels = _Labels(gold.shares[columns], gold.counts[columns], np.concatenate([once, weights]))
    parts = [_ceiling(drawn, labels, gold.name, name) for name in names]
    found = labels.means(given, names, stream(drawn.seed, "gold answers", str(drawn.cell.group)))
    note = "interval over stimuli and answers" if labels.asked.any() else "interval over stimuli"
    for (observer, name), means in found.items():
        n = int((~np.isnan(given[observer]).any(axis=1) & labels.known).sum())
        parts.append(mean_block(drawn.cell, Key(observer, gold.name, name), means, n, note))
    return drawn.of_stimuli(joined(parts))


@dataclass(frozen=True, slots=True, eq=False)
class _Labels:
    """Gold labels of a cell and how often each of its stimuli is drawn; the first row of weights counts all once."""

    shares: FloatArray  # (stimuli, labels)
    counts: IntArray  # (stimuli, labels)
    weights: Weights  # (1 + resamples, stimuli)

    @property
    def known(self) -> BoolArray:
        return np.asarray(~np.isnan(self.shares).any(axis=1))

    @property
    def asked(self) -> BoolArray:
        """Where answers can be drawn again."""
        return np.asarray(self.counts.sum(axis=1) > 0)

    def means(
        self, given: dict[str, FloatArray], names: Sequence[str], rng: np.random.Generator
    ) -> dict[tuple[str, str], FloatArray]:
        """The mean distance of each observer and measure for each row of weights."""
        out = {(observer, name): np.empty(len(self.weights)) for observer in given for name in names}
        whole, known, asked = np.nan_to_num(self.shares), self.known, self.asked
        for rows, drawn in self._resampled(rng):
            for (observer, name), means in out.items():
                own, distance = np.nan_to_num(given[observer]), distance_items[name]
                items = np.repeat(distance(whole, own)[None], len(drawn), axis=0)
                items[:, asked] = distance(drawn, own[asked])
                usable = known & ~np.isnan(given[observer]).any(axis=1)
                means[rows] = _weighted_means(items, self.weights[rows] * usable)
        return out

    def _resampled(self, rng: np.random.Generator) -> Iterator[tuple[slice, FloatArray]]:
        """Rows of the weights and the labels (rows, asked stimuli, labels) drawn for them; the first as they are."""
        counts = self.counts[self.asked]
        total = counts.sum(axis=1)
        shares = counts / np.maximum(total, 1)[:, None]
        yield slice(0, 1), shares[None]
        for part in blocks(len(self.weights) - 1, self.shares.size, most=BLOCK // 16):
            rows = slice(part.start + 1, min(part.stop, len(self.weights) - 1) + 1)
            drawn = rng.multinomial(total, shares, size=(rows.stop - rows.start, len(total)))
            yield rows, drawn / np.maximum(total, 1)[:, None]


def _weighted_means(items: FloatArray, weights: Weights) -> FloatArray:
    """The mean of each row of items with its weights; an infinite item that is not drawn does not count."""
    total = np.multiply(items, weights, out=np.zeros(weights.shape), where=weights > 0).sum(axis=1)
    return divide(total, weights.sum(axis=1, dtype=np.float64))


def _ceiling(drawn: Draw, labels: _Labels, against: str, name: str) -> Block:
    """The distance between two random halves of the answers to each stimulus, mean of several splits."""
    key = Key(against, against, name, CEILING_HALF)
    several = labels.counts.sum(axis=1) >= 2
    if not several.any():
        nothing = np.full(len(labels.weights), np.nan)
        note = "undefined: gold labels without counts have no ceiling"
        return mean_block(drawn.cell, key, nothing, 0, note, ("undefined",))
    rng = stream(drawn.seed, "halves of answers", str(drawn.cell.group))
    items = np.zeros(several.sum())
    for _ in range(SPLITS):
        one, two = _halves(labels.counts[several], rng)
        items += distance_items[name](one, two)
    weights = labels.weights[:, several]
    means = _weighted_means(np.broadcast_to(items / SPLITS, weights.shape), weights)
    note = f"two halves of each stimulus' answers, mean of {SPLITS} splits; interval over stimuli"
    return mean_block(drawn.cell, key, means, int(several.sum()), note)


def _halves(counts: IntArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """The shares of two halves of each row's answers, drawn without replacement; of an odd number one is left out."""
    size = counts.sum(axis=1) // 2
    one = _taken(counts, size, rng)
    two = _taken(counts - one, size, rng)
    return one / size[:, None], two / size[:, None]


def _taken(counts: IntArray, size: IntArray, rng: np.random.Generator) -> IntArray:
    """`size` answers of each row without replacement: one class after the other, of what is left."""
    out = np.empty_like(counts)
    left, rest = size, counts.sum(axis=1)
    for code, there in enumerate(counts.T):
        out[:, code] = rng.hypergeometric(there, rest - there, left)
        left, rest = left - out[:, code], rest - there
    return out

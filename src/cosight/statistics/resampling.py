"""Who is drawn again: stimuli of a cell, and people across cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from cosight.arrays import BoolArray, FloatArray
from cosight.errors import InvalidInput
from cosight.measures.answers import NOT_SHOWN, Answers
from cosight.measures.arithmetic import BLOCK, Weights
from cosight.measures.uncertainty import Compressed, compress, draw_people, draw_stimuli
from cosight.statistics.blocks import Block
from cosight.statistics.groups import Group, groups_of
from cosight.trials.join import AlignedTrials, StimulusGroup

__all__ = ["ENOUGH_PEOPLE", "Draw", "draw", "few", "few_people_note", "stream"]

Resampled = Callable[[Answers, Weights], FloatArray]  # (..., resamples)

_MERGE_UP_TO = 3  # more observers hardly ever answer alike on two stimuli

ENOUGH_PEOPLE = 4  # fewer cannot be resampled: three draw the same person thrice, no pair, in every ninth resample


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """The answers of one cell and how its stimuli and people are drawn again."""

    cell: StimulusGroup
    answers: Answers
    names: tuple[str, ...]  # of the observers, for each row of `answers`
    groups: tuple[Group, ...]  # of those rows
    patterns: Compressed  # the same answers, merged where that saves work
    clusters: NDArray[np.object_] | None  # the stimulus of each column, when some were presented more than once
    copies: BoolArray | None  # where an answer stands in for a presentation that its observer never had
    observers: NDArray[np.int64]  # of the table, for each row of `answers`
    times: FloatArray  # (resamples, rows of `answers`): how often each observer counts
    seed: int

    @property
    def rng(self) -> np.random.Generator:
        """Random numbers for the stimuli, always from their start: every number of a cell sees the same resamples."""
        return stream(self.seed, "stimuli", str(self.cell.group))

    @property
    def crowds(self) -> list[Group]:
        """The groups of people, real and simulated."""
        return [group for group in self.groups if group.drawn]

    def of_stimuli(self, block: Block) -> Block:
        """The block with its `clusters` counted in different stimuli that its observers met, not in showings."""
        met = self.answers.response != NOT_SHOWN
        stimuli = np.arange(met.shape[1]) if self.clusters is None else self.clusters
        counts = {name: len(np.unique(stimuli[row])) for name, row in zip(self.names, met, strict=True)}
        most = len(np.unique(stimuli))
        limits = [min(counts.get(key.observer, most), counts.get(key.against or "", most)) for key in block.keys]
        limited = np.where(block.over_people, block.clusters, np.minimum(block.clusters, limits))
        return replace(block, clusters=limited)

    def own(self, answers: Answers) -> Answers:
        """The answers without copies, for measures of one observer."""
        if self.copies is None:
            return answers
        return Answers(np.where(self.copies, NOT_SHOWN, answers.response), answers.truth, answers.classes)

    def weights(self) -> Weights:
        """How often each column is drawn, all resamples at once; (resamples, columns)."""
        counts = np.ones(self.answers.stimuli, dtype=np.int64)
        return draw_stimuli(counts, len(self.times), self.rng, clusters=self.clusters)

    def sample(self, functions: Sequence[Resampled]) -> list[FloatArray]:
        """The values of each function on every resample of the stimuli, resamples along the last axis.

        All functions see the same resamples, drawn a block at a time, so that memory does not grow with them.
        """
        resamples, width = len(self.times), max(1, len(self.patterns.counts))
        step, rng = max(1, BLOCK // width), self.rng
        parts: list[list[FloatArray]] = [[] for _ in functions]
        for start in range(0, resamples, step):
            size = min(step, resamples - start)
            weights = draw_stimuli(self.patterns.counts, size, rng, clusters=self.clusters)
            for part, function in zip(parts, functions, strict=True):
                part.append(function(self.patterns.answers, weights))
        return [np.concatenate(part, axis=-1) for part in parts]


def stream(seed: int, *words: str) -> np.random.Generator:
    """Random numbers that depend on the seed and these words alone, not on what else is computed."""
    if seed < 0:
        raise InvalidInput(f"--seed must be 0 or more, got {seed}")
    return np.random.default_rng([seed, *(crc32(word.encode()) for word in words)])


def draw(table: AlignedTrials, cell: StimulusGroup, *, resamples: int, seed: int, merge: bool = True) -> Draw:
    """Prepare to draw the stimuli of a cell again, and the people of its experiments.

    Cells of the same experiments share the draw of people, since a person met in one condition is met in the next; a
    model always counts once. `merge=False` keeps the columns of the table, for measures that look at more than answers.
    """
    answers = table.answers.at(cell.columns)
    present = np.flatnonzero((answers.response != NOT_SHOWN).any(axis=1))
    answers = answers.of(present)
    patterns = Compressed(answers, np.ones(answers.stimuli, dtype=np.int64))
    clusters = None
    if (table.columns["presentation"].gather(cell.columns) > 0).any():
        clusters = table.columns["key"].gather(cell.columns).to_numpy()
    elif merge and answers.observers <= _MERGE_UP_TO:
        patterns = compress(answers)
    times = _times(table, cell, resamples, seed)[:, present]
    names = tuple(table.observers[i] for i in present)
    groups = groups_of(table.people[present], table.simulated[present])
    for group in groups:
        if few(group):
            times[:, group.members] = 1  # too few here, though the experiment may have more
    copies = None if clusters is None else _copies(table.rows[present][:, cell.columns])
    return Draw(cell, answers, names, groups, patterns, clusters, copies, present, times, seed)


def _copies(rows: NDArray[np.int32]) -> BoolArray:
    """All but the first place where a trial stands, (observers, columns)."""
    copies = np.ones(rows.shape, dtype=np.bool_)
    for mine, trials in zip(copies, rows, strict=True):
        mine[np.unique(trials, return_index=True)[1]] = False
    return copies & (rows >= 0)


def few(group: Group) -> bool:
    """Whether a group of people is too small to be resampled."""
    return group.drawn and len(group.members) < ENOUGH_PEOPLE


def few_people_note(group: Group) -> str:
    """What a note adds where a group of people is too small to be resampled."""
    people = f"{len(group.members)} {group.name}"
    return f"; interval over stimuli only, {people} are too few to resample" if few(group) else ""


def _times(table: AlignedTrials, cell: StimulusGroup, resamples: int, seed: int) -> FloatArray:
    """How often each observer counts in each resample; (resamples, observers)."""
    times = np.ones((resamples, len(table.observers)))
    experiments = table.columns["experiment"].gather(cell.columns).unique().to_list()
    met = table.columns["experiment"].is_in(experiments).to_numpy()
    there = (table.answers.response[:, met] != NOT_SHOWN).any(axis=1)
    for group in (table.people & ~table.simulated, table.simulated):
        roster = np.flatnonzero(group & there)
        if len(roster) >= ENOUGH_PEOPLE:
            names = [table.observers[i] for i in roster]
            times[:, roster] = draw_people(len(roster), resamples, stream(seed, "people", *sorted(experiments), *names))
    return times

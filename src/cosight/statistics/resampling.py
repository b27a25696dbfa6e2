"""Bootstrap resamples of the stimuli of one group and of the people who answered them.

Stimuli and people are drawn independently of each other (a crossed or "pigeonhole" bootstrap, Owen 2007): a resample
is a weight per stimulus, which counts how often it was drawn, and a weight per person. Models are named, not sampled
from a population, so their weight is always 1. A value is computed from weights, never from copied rows.

Stimuli that belong to a cluster (`trials.clusters`) are drawn together. Where clusters are crossed (shape and texture
pictures), each factor is drawn by itself and the weight of a stimulus is the product. Groups of stimuli that share
clusters share their draws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from cosight.arrays import BoolArray, FloatArray, whole_number
from cosight.measures.answers import NOT_SHOWN, Answers
from cosight.measures.arithmetic import BLOCK, Weights, divide
from cosight.measures.draws import Compressed, compress, draw_people, draw_stimuli, effective_clusters, jackknife
from cosight.statistics.blocks import Block
from cosight.statistics.rows import MODELS, PEOPLE, SIMULATED, GroupKey
from cosight.trials.join import AlignedTrials, ClusterPool, StimulusGroup

__all__ = [
    "ENOUGH_PEOPLE",
    "ClusterFactor",
    "Draw",
    "ObserverGroup",
    "draw_observers",
    "draw_resamples",
    "observer_groups",
    "random_stream",
]

WeightedStatistic = Callable[[Answers, Weights], FloatArray]
"""Compute values (..., resamples) from answers and the weights (resamples, stimuli) of their stimuli."""

ENOUGH_PEOPLE = 4  # fewer are not resampled: of three, every ninth resample has one person three times and no pair
_MANY_CLUSTERS = 200  # of more, even half as many would widen an interval by 1 % only
_FEW_CLUSTERS = 20  # fewer are flagged: their spread is poorly known
_LARGE = 1 << 25  # numbers: resamples of one measure take 256 MB; of more, float32 is precise enough
_COMPRESS_UP_TO = 3  # observers; with more, two stimuli hardly ever have the same answers


@dataclass(frozen=True, slots=True, eq=False)
class ObserverGroup:
    """Observers that share a mean: people, simulated people or models."""

    name: str  # PEOPLE, SIMULATED or MODELS
    members: NDArray[np.int64]  # indices of observers

    @property
    def is_people(self) -> bool:
        """Whether the members are a sample of a population of people, real or simulated."""
        return self.name != MODELS

    @property
    def too_few(self) -> bool:
        """Whether these are people, and fewer than can be resampled."""
        return self.is_people and len(self.members) < ENOUGH_PEOPLE

    @property
    def too_few_note(self) -> str:
        """The remark that a note gets where `too_few` holds, else an empty text."""
        people = f"{len(self.members)} {self.name}"
        return f"interval over stimuli only, {people} are too few to resample" if self.too_few else ""


def observer_groups(people: BoolArray, simulated: BoolArray) -> tuple[ObserverGroup, ...]:
    """Return the groups that have members, people first. Simulated people never share a mean with real people.

    Args:
        people: Which observers are people, simulated people included.
        simulated: Which observers are simulated people.
    """
    masks = {PEOPLE: people & ~simulated, SIMULATED: simulated, MODELS: ~people}
    return tuple(ObserverGroup(name, np.flatnonzero(mask)) for name, mask in masks.items() if mask.any())


@dataclass(frozen=True, slots=True, eq=False)
class ClusterFactor:
    """The clusters of the columns of a draw, by one factor."""

    size: int  # clusters to draw from, which may include some of other groups
    member: NDArray[np.int64]  # (columns,): the cluster of each column; -1 where the factor does not apply
    stream: tuple[str, ...]  # words of the random stream, shared by the groups that are drawn together

    def weights(self, resamples: int, rng: np.random.Generator) -> Weights:
        """Draw clusters with replacement and return how often each column is drawn, (resamples, columns).

        Args:
            resamples: The number of resamples.
            rng: The source of randomness.
        """
        columns = draw_stimuli(np.ones(self.size, dtype=np.int64), resamples, rng)[:, self.member]
        if (self.member < 0).any():
            columns[:, self.member < 0] = 1
        return columns


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """The answers to one group of stimuli, and the bootstrap resamples of its stimuli and observers.

    Every number of the group is computed on the same resamples. The weights of observers are stored; the weights of
    stimuli are generated from `rng` whenever they are needed, because they can be large.
    """

    group: GroupKey  # of the stimuli
    columns: NDArray[np.int64]  # of the aligned table, one per stimulus and presentation
    answers: Answers  # (observers, columns) of the observers that met any of these stimuli
    names: tuple[str, ...]  # of these observers
    observer_index: NDArray[np.int64]  # their rows in the aligned table
    observer_groups: tuple[ObserverGroup, ...]  # of the rows of `answers`
    observer_weights: FloatArray  # (resamples, observers); all 1 for models
    patterns: Compressed  # the answers that `resample` reads: `answers`, or its distinct columns with their counts
    stimuli: NDArray[np.int64]  # (columns,): codes of the stimuli, which the presentations of one share
    factors: tuple[ClusterFactor, ...]  # of the clusters that are drawn; none where every column is drawn by itself
    pools: tuple[ClusterPool, ...]  # of the group of stimuli
    clustered: bool  # whether several stimuli, in this group or in others, belong to one cluster
    imputed: BoolArray | None  # (observers, columns): answers repeated for presentations that an observer never had
    seed: int

    @property
    def resamples(self) -> int:
        """The number of resamples."""
        return len(self.observer_weights)

    @property
    def rng(self) -> np.random.Generator:
        """A new generator for the weights of stimuli. It always starts alike, so that all numbers share resamples."""
        return random_stream(self.seed, "stimuli", str(self.group))

    @property
    def people_groups(self) -> list[ObserverGroup]:
        """The groups of people, real and simulated."""
        return [group for group in self.observer_groups if group.is_people]

    @property
    def linked(self) -> bool:
        """Whether other groups of stimuli share clusters with this one, so that they are drawn together."""
        return any(len(pool.groups) > 1 for pool in self.pools)

    def stimulus_weights(self, columns: BoolArray | None = None) -> Weights:
        """Return how often each column is drawn, (resamples, columns), for all resamples at once.

        Args:
            columns: A mask: only these columns are drawn from. As many are drawn as there are or, in clusters, as the
                draw of all columns has of them.
        """
        mask = np.ones(self.answers.stimuli, dtype=np.bool_) if columns is None else columns
        if self.factors:
            return np.concatenate(list(self._weight_blocks(self.resamples)))[:, mask]
        return draw_stimuli(np.ones(int(mask.sum()), dtype=np.int64), self.resamples, self.rng)

    def _weight_blocks(self, step: int) -> Iterator[Weights]:
        """Yield the weights of `patterns`, `step` resamples at a time; they do not depend on `step`."""
        streams = [random_stream(self.seed, *factor.stream) for factor in self.factors]
        rng = self.rng
        for start in range(0, self.resamples, step):
            size = min(step, self.resamples - start)
            if self.factors:
                weights = self.factors[0].weights(size, streams[0])
                for factor, stream in zip(self.factors[1:], streams[1:], strict=True):
                    weights *= factor.weights(size, stream)
                yield weights
            else:
                yield draw_stimuli(self.patterns.counts, size, rng)

    def resample(self, statistics: Sequence[WeightedStatistic], *, values: int = 1) -> list[FloatArray]:
        """Compute statistics on every resample of the stimuli.

        Weights are drawn in blocks, so that memory does not grow with the number of resamples.

        Args:
            statistics: Functions of answers and stimulus weights. All of them see the same resamples.
            values: About how many numbers a statistic has per resample.

        Returns:
            One array per statistic, with resamples along its last axis; in float32 where it is very large.
        """
        step = max(1, BLOCK // max(1, len(self.patterns.counts), values))
        resampled: list[NDArray[Any]] = []
        start = 0
        for weights in self._weight_blocks(step):
            for index, statistic in enumerate(statistics):
                part = statistic(self.patterns.answers, weights)
                if start == 0:
                    shape = (*part.shape[:-1], self.resamples)
                    resampled.append(np.empty(shape, _precision(shape)))
                resampled[index][..., start : start + len(weights)] = part
            start += len(weights)
        return resampled

    def resample_to_first_order(self, statistic: WeightedStatistic) -> FloatArray:
        """Compute a statistic on resamples of the stimuli, as its value plus the influences of what is drawn.

        For a measure that drawing stimuli again would make noisier; see `Jackknife`. Groups that share clusters share
        what is drawn. The deviations of two crossed factors are added. Both have the noise of single stimuli, which is
        taken out once: the variance is that of one factor, plus that of the other, minus that of single stimuli
        (Cameron, Gelbach & Miller 2011), but not less than that of either factor.

        Args:
            statistic: A function of answers and stimulus weights.

        Returns:
            The values, (values, resamples); in float32 where there are very many.
        """

        def leave_out(words: Sequence[str], **units: Any) -> tuple[FloatArray, FloatArray]:
            """Return the values with nothing left out and the deviations, (values, 1) and (values, resamples)."""
            left_out = jackknife(
                self.patterns.counts, self.resamples, random_stream(self.seed, "jackknife", *words), **units
            )
            replicates = statistic(self.patterns.answers, left_out.weights)
            precision = _precision((len(replicates), self.resamples))
            return replicates[:, :1], left_out.deviations(replicates.astype(precision, copy=False))

        if self.factors:
            values, of_factors = zip(
                *(leave_out(f.stream, clusters=f.member, size=f.size) for f in self.factors), strict=True
            )
        else:
            values, of_factors = zip(leave_out([str(self.group)]), strict=True)
        resampled: FloatArray = of_factors[0]
        if len(of_factors) > 1:
            variances = np.stack([deviations.var(axis=1) for deviations in of_factors])
            crossed = np.all([factor.member >= 0 for factor in self.factors], axis=0)
            stimuli = np.where(crossed, self.stimuli, -1)
            _, of_stimuli = leave_out([str(self.group)], clusters=stimuli, size=int(stimuli.max(initial=-1)) + 1)
            total = variances.sum(axis=0)
            once = np.maximum(total - of_stimuli.var(axis=1), variances.max(axis=0))
            for deviations in of_factors[1:]:
                resampled += deviations
            resampled *= np.sqrt(divide(once, total))[:, None]
        resampled += values[0]
        return resampled

    def observed(self, answers: Answers) -> Answers:
        """Return `answers` without the imputed ones, for measures of one observer."""
        if self.imputed is None:
            return answers
        return Answers(np.where(self.imputed, NOT_SHOWN, answers.response), answers.truth, answers.classes)

    def cluster_counts(self, met: BoolArray) -> NDArray[np.int64]:
        """Return the number of clusters in each row of a mask (rows, columns); the fewer of two crossed factors."""
        counts = []
        for member in [factor.member for factor in self.factors] or [self.stimuli]:
            clusters = np.where(member < 0, member.max() + 1, member)
            of_cluster = np.zeros((len(met), int(clusters.max(initial=0)) + 1), dtype=np.bool_)
            row, column = np.nonzero(met & (member >= 0))
            of_cluster[row, clusters[column]] = True
            counts.append(of_cluster.sum(axis=1))
        return np.asarray(np.min(counts, axis=0))

    def effective_clusters(self, count: Callable[[Answers], FloatArray]) -> FloatArray | float:
        """Return the clusters of equal size that the clusters are worth; the fewer of two crossed factors.

        Args:
            count: The trials among some answers that each value rests on, (values,).

        Returns:
            One number per value; infinite where there are so many clusters that their sizes do not matter.
        """
        of_factors = [
            effective_clusters(lambda columns: count(self.answers.at(columns)), factor.member)
            for factor in self.factors
            if factor.size <= _MANY_CLUSTERS
        ]
        return np.min(of_factors, axis=0) if of_factors else np.inf

    def with_stimulus_clusters(self, block: Block) -> Block:
        """Return the block with `clusters` limited to the number of clusters that its observers met.

        Several presentations of a stimulus are one cluster. Numbers resampled over people keep their clusters. Where
        clusters are source photos and the like, fewer than 20 are flagged.
        """
        met = self.answers.response != NOT_SHOWN
        counts = dict(zip(self.names, self.cluster_counts(met).tolist(), strict=True))
        total = int(self.cluster_counts(np.ones((1, met.shape[1]), dtype=np.bool_))[0])
        limits = [min(counts.get(key.observer, total), counts.get(key.against or "", total)) for key in block.keys]
        limited = np.where(block.over_people, block.clusters, np.minimum(block.clusters, limits))
        return self.flag_few_clusters(replace(block, clusters=limited))

    def flag_few_clusters(self, block: Block) -> Block:
        """Return the block with `few_clusters` among the flags where that holds."""
        if not self.clustered:
            return block
        few = (block.clusters < _FEW_CLUSTERS) & ~block.over_people & ~np.isnan(block.values)
        flags = tuple((*f, "few_clusters") if is_few else f for f, is_few in zip(block.flags, few, strict=True))
        return replace(block, flags=flags, shared_clusters=self.linked)


def _precision(shape: tuple[int, ...]) -> Any:
    return np.float64 if np.prod(shape) <= _LARGE else np.float32


def random_stream(seed: int, *words: str) -> np.random.Generator:
    """Return a generator that depends on the seed and these words alone, not on what else is computed.

    Args:
        seed: The user's seed, 0 or more.
        words: What the random numbers are for, such as the group and the names of the people.
    """
    return np.random.default_rng([whole_number(seed, name="--seed"), *(crc32(word.encode()) for word in words)])


def draw_resamples(
    table: AlignedTrials, group: StimulusGroup, *, resamples: int, seed: int, merge: bool = True
) -> Draw:
    """Draw resamples of the stimuli of a group and of the people of its experiments.

    Groups of the same experiments share the weights of people: a person met in one condition is met in the next. So
    are clusters of stimuli: a photo drawn in one condition is drawn in the next.

    Args:
        table: Everyone's answers side by side.
        group: The stimuli, as columns of `table`.
        resamples: The number of resamples.
        seed: Of the random streams.
        merge: Whether columns with the same answers may be merged, which is exact and faster. False for measures that
            read more than answers: they index the table by column.

    Returns:
        The draw, with the observers that met any of these stimuli.
    """
    answers = table.answers.at(group.columns)
    present = np.flatnonzero((answers.response != NOT_SHOWN).any(axis=1))
    answers = answers.of(present)
    patterns = Compressed(answers, np.ones(answers.stimuli, dtype=np.int64))
    imputed = None
    if (table.columns["presentation"].gather(group.columns) > 0).any():
        imputed = _repeated_trials(table.rows[present][:, group.columns])
    keys = table.columns["key"].gather(group.columns)
    stimuli = keys.rank("dense").to_numpy().astype(np.int64) - 1
    factors = _cluster_factors(table, group, stimuli)
    if merge and not factors and answers.observers <= _COMPRESS_UP_TO:
        patterns = compress(answers)
    weights = _observer_weights(table, group, resamples, seed)[:, present]
    members = observer_groups(table.people[present], table.simulated[present])
    for observers in members:
        if observers.too_few:
            weights[:, observers.members] = 1  # too few in this group of stimuli, though the experiment may have more
    return Draw(
        group=group.group,
        columns=group.columns,
        answers=answers,
        names=tuple(table.observers[i] for i in present),
        observer_index=present,
        observer_groups=members,
        observer_weights=weights,
        patterns=patterns,
        stimuli=stimuli,
        factors=factors,
        pools=group.pools,
        clustered=table.clusters is not None and bool(factors),
        imputed=imputed,
        seed=seed,
    )


def _cluster_factors(
    table: AlignedTrials, group: StimulusGroup, stimuli: NDArray[np.int64]
) -> tuple[ClusterFactor, ...]:
    """Return the factors by which columns are drawn in clusters; none where every column is a cluster of its own.

    Args:
        table: Aligned trials with their clusters, or without: then a stimulus is a cluster of its presentations.
        group: Columns of the table.
        stimuli: The stimulus of each of these columns, as a code.
    """
    codes = stimuli[None] if table.clusters is None else table.clusters[:, group.columns]
    factors = []
    for index, own in enumerate(codes):
        pool = group.pools[index] if group.pools else ClusterPool(np.unique(own[own >= 0]), (group.group,))
        applies = own >= 0
        if applies.any():
            member = np.where(applies, np.searchsorted(pool.clusters, own), -1)
            words = ("stimuli", *(str(key) for key in pool.groups), *(["crossed"] if index else []))
            factors.append(ClusterFactor(len(pool.clusters), member, words))
    alone = len(factors) == 1 and factors[0].size == len(stimuli) == len(np.unique(factors[0].member))
    linked = any(len(pool.groups) > 1 for pool in group.pools)
    return () if alone and not linked else tuple(factors)


def _repeated_trials(rows: NDArray[np.int32]) -> BoolArray:
    """Return where a trial (a row number of the trial table) occurs again, for each observer's row of `rows`."""
    repeated = np.ones(rows.shape, dtype=np.bool_)
    for mask, trials in zip(repeated, rows, strict=True):
        mask[np.unique(trials, return_index=True)[1]] = False
    return repeated & (rows >= 0)


def draw_observers(
    table: AlignedTrials, columns: NDArray[np.int64], *, resamples: int, seed: int
) -> dict[str, FloatArray]:
    """Draw how often each observer counts in each resample, models included: for correlations between measures.

    People are drawn as in `draw_resamples`. Models are drawn in the same way wherever the same models take part.

    Args:
        table: Everyone's answers side by side.
        columns: The stimuli.
        resamples: The number of resamples.
        seed: Of the random streams.

    Returns:
        Name -> how often it is drawn, (resamples,). Observers of a group that is too small to resample are left out.
    """
    drawn = _drawn_people(table, columns, resamples, seed)
    present = (table.answers.response[:, columns] != NOT_SHOWN).any(axis=1)
    models = np.flatnonzero(present & ~table.people)
    if len(models) >= ENOUGH_PEOPLE:
        rng = random_stream(seed, "models", *(table.observers[i] for i in models))
        drawn.append((models, draw_people(len(models), resamples, rng)))
    return {table.observers[i]: weights[:, k] for members, weights in drawn for k, i in enumerate(members)}


def _observer_weights(table: AlignedTrials, group: StimulusGroup, resamples: int, seed: int) -> FloatArray:
    """Draw how often each observer of the table counts in each resample, (resamples, observers)."""
    weights = np.ones((resamples, len(table.observers)))
    for members, drawn in _drawn_people(table, group.columns, resamples, seed):
        weights[:, members] = drawn
    return weights


def _drawn_people(
    table: AlignedTrials, columns: NDArray[np.int64], resamples: int, seed: int
) -> list[tuple[NDArray[np.int64], FloatArray]]:
    """Draw the people, and the simulated people, of the experiments of some stimuli, if they are enough."""
    experiments = table.columns["experiment"].gather(columns).unique().to_list()
    of_experiments = table.columns["experiment"].is_in(experiments).to_numpy()
    present = (table.answers.response[:, of_experiments] != NOT_SHOWN).any(axis=1)
    drawn = []
    for people in (table.people & ~table.simulated, table.simulated):
        members = np.flatnonzero(people & present)
        if len(members) >= ENOUGH_PEOPLE:
            names = [table.observers[i] for i in members]
            rng = random_stream(seed, "people", *sorted(experiments), *names)
            drawn.append((members, draw_people(len(members), resamples, rng)))
    return drawn

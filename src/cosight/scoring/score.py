"""`cosight score`: how good, how sure, how near to people is each observer?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cosight.arrays import FloatArray
from cosight.errors import InvalidInput
from cosight.measures import measures, solo_forms
from cosight.measures.distance import distance_items, entropy
from cosight.measures.reliability import Action, reliability_score, reliability_sweep
from cosight.measures.risk import risk_coverage
from cosight.measures.sums import Weights, divide
from cosight.measures.uncertainty import draw_stimuli
from cosight.scoring.agreement import AGREEMENT, agreement_blocks
from cosight.scoring.blocks import Block, Key, empty, joined, nested_means, rows_of
from cosight.scoring.cell import solo_block
from cosight.scoring.compare import Progress, check_truth, load
from cosight.scoring.crowd import Draw, draw
from cosight.scoring.distances import distance_block
from cosight.scoring.groups import groups_of
from cosight.scoring.outputs import Outputs
from cosight.scoring.rows import Row, Scores, group_text, number, settings_of
from cosight.trials.cues import texture_codes
from cosight.trials.join import Cell, Table, align, cells
from cosight.trials.spaces import ABSTAIN, LabelSpace
from cosight.trials.table import Trials

__all__ = ["score"]

_RELIABILITY, _RISK, _ENTROPY = "reliability_score", "risk_coverage", "label_entropy"
_DEFAULT = ("accuracy", "response_entropy", "shape_bias", "fleiss_kappa", "hellinger", _ENTROPY, _RISK, _RELIABILITY)
_SWEEP = np.round(np.linspace(0, 1, 11), 2)


def score(
    *sources: str | Path | Trials,
    humans: str | Path | Trials | None = None,
    measure: Sequence[str] | None = None,
    by: Sequence[str] = (),
    labels: str | LabelSpace | None = None,
    gamma: float = 0.5,
    resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    progress: Progress | None = None,
) -> Scores:
    """Numbers of each observer alone and against people's label distributions, each with its interval.

    People are the human observers among the trials and in `humans`. Without `measure`, what these trials allow of:
    accuracy, response entropy; shape bias on cue-conflict images; people's agreement (Fleiss) and the Hellinger
    distance to them where they saw the same stimuli; entropy of the labels where there are probabilities; reliability
    and risk where there is abstention.
    """
    if resamples < 1:
        raise InvalidInput(f"--resamples must be 1 or more, got {resamples}; 1000 is usual")
    trials = load(*sources, *([] if humans is None else [humans]), labels=labels)
    table = align(trials, gamma=gamma)
    check_truth(table)
    job = _Job(table, Outputs.of(table, trials), gamma, resamples, level, seed)
    able = job.able()
    names = [measures.name_of(name) for name in measure or [n for n in _DEFAULT if not able[n]]]
    for name in names:
        if able.get(name, "a measure of single observers; try `cosight compare`"):
            raise InvalidInput(f"{name} needs {able.get(name, 'other data; try `cosight compare`')}")
    parts = cells(table, by)
    blocks, rows = [], []
    for index, cell in enumerate(parts):
        if progress:
            progress(index, len(parts), group_text(cell.group) or "all trials")
        block, more = job.cell(cell, names)
        blocks.append(block)
        rows += [*rows_of(block, level=level, seed=seed), *more]
    for block in nested_means(blocks, tuple(by)):
        rows += rows_of(block, level=level, seed=seed)
    if progress:
        progress(len(parts), len(parts), "")
    settings = settings_of(
        command="score", measure=names, by=list(by), gamma=gamma, resamples=resamples, level=level, seed=seed,
        labels=list(table.labels),
    )  # fmt: skip
    return Scores(tuple(rows), settings, table.notices)


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    """Everything a cell needs."""

    table: Table
    outputs: Outputs
    gamma: float
    resamples: int
    level: float
    seed: int

    def able(self) -> dict[str, str]:
        """Which measures can be computed: name -> what is missing, "" for nothing."""
        people, others = self.table.people, ~self.table.people
        seen = self.table.answers.response >= 0
        common = seen[people].any(axis=0) & (seen[others].any(axis=0) | (seen[people].sum(axis=0) > 1))
        sure = any(self.outputs.has_probabilities(i) for i in range(len(self.table.observers)))
        refuses = bool((~np.isnan(self.outputs.abstention)).any())
        cues = bool((texture_codes(self.table.columns, self.table.labels) >= 0).any())
        several = (seen[people].sum(axis=0) > 1).any() or bool((self.table.columns["presentation"] > 0).any())
        gold = "" if common.any() else "people who saw the same stimuli; give their trials with --humans"
        abstain = "" if refuses and ABSTAIN in self.table.labels else "abstention and a label space with abstain"
        return {
            **dict.fromkeys((n for n in solo_forms if n != "shape_bias"), ""),
            "shape_bias": "" if cues else "the cue-conflict experiment, images named SHAPEn-TEXTUREm.png",
            **dict.fromkeys(distance_items, gold),
            **dict.fromkeys(AGREEMENT, "" if several else "several people's answers to the same stimuli"),
            _ENTROPY: "" if sure else "probabilities",
            _RISK: "" if sure or refuses else "probabilities or abstention",
            _RELIABILITY: abstain,
        }

    def cell(self, cell: Cell, names: Sequence[str]) -> tuple[Block, list[Row]]:
        """The numbers of a cell: those that are resampled, and rows that come ready."""
        drawn = draw(self.table, cell, resamples=self.resamples, seed=self.seed, merge=False)
        texture = texture_codes(self.table.columns, self.table.labels)[cell.columns] if "shape_bias" in names else None
        blocks = [solo_block(self.table, cell, drawn, n, texture) for n in names if n in solo_forms]
        far = [name for name in names if name in distance_items]
        if far:
            blocks += self._distances(cell, drawn, far)
        together = [name for name in names if name in AGREEMENT]
        if together:
            blocks += self._agreement(cell, drawn, together)
        if _ENTROPY in names:
            blocks.append(self._entropies(cell, drawn))
        if _RISK in names:
            blocks.append(self._risks(cell, drawn))
        rows: list[Row] = []
        if _RELIABILITY in names:
            block, rows = self._reliabilities(cell, drawn)
            blocks.append(block)
        kept = [block for block in blocks if block is not None]
        return joined(kept) if kept else empty(cell.group, self.resamples), rows

    def _crowds(self, drawn: Draw) -> list[tuple[str, NDArray[np.int64]]]:
        """Real and simulated people, each with their rows in the cell."""
        row = {int(observer): index for index, observer in enumerate(drawn.observers)}
        crowds = [(g.name, [row[int(i)] for i in g.members if int(i) in row]) for g in groups_of(self.table) if g.drawn]
        return [(name, np.array(rows, dtype=np.int64)) for name, rows in crowds if rows]

    def _distances(self, cell: Cell, drawn: Draw, names: Sequence[str]) -> list[Block]:
        crowds = self._crowds(drawn)
        return [distance_block(cell, drawn, self.outputs, names, rows, name, self.seed) for name, rows in crowds]

    def _agreement(self, cell: Cell, drawn: Draw, names: Sequence[str]) -> list[Block]:
        stimuli = self.table.columns["key"].gather(cell.columns).to_numpy()
        crowds = [
            (name, rows) for name, rows in self._crowds(drawn) if len(rows) > 1 or "intra_annotator_kappa" in names
        ]
        return [b for name, rows in crowds for b in agreement_blocks(cell.group, drawn, rows, name, names, stimuli)]

    def _entropies(self, cell: Cell, drawn: Draw) -> Block | None:
        """Mean entropy of each observer's label distributions, for those that give probabilities."""
        items = {
            self.table.observers[i]: entropy(self.outputs.distributions(i, cell.columns))
            for i in drawn.observers.tolist()
            if self.outputs.has_probabilities(i)
        }
        return _item_block(cell, drawn, _ENTROPY, items) if items else None

    def _risks(self, cell: Cell, drawn: Draw) -> Block | None:
        """Area under the risk-coverage curve; refuses by abstention, else by 1 - the highest probability."""
        blocks = []
        weights = draw_stimuli(
            np.ones(len(cell.columns), dtype=np.int64), self.resamples, drawn.rng, clusters=drawn.clusters
        )
        for row, i in enumerate(drawn.observers.tolist()):
            doubt = self.outputs.abstentions(i, cell.columns)
            unsure = 1 - self.outputs.classes(i, cell.columns).max(axis=1, initial=-np.inf)
            doubt = np.where(np.isnan(doubt), unsure, doubt)
            known = np.isfinite(doubt) & drawn.answers.shown[row]
            if known.any():
                right = drawn.answers.correct[row]
                value, samples = _resampled_risk(doubt[known], right[known], weights[:, known])
                key = Key(self.table.observers[i], None, _RISK)
                blocks.append(Block(cell.group, (key,), value, samples, np.array([float(known.sum())]), ("",)))
        return joined(blocks) if blocks else None

    def _reliabilities(self, cell: Cell, drawn: Draw) -> tuple[Block | None, list[Row]]:
        """RS with costs 0, N/2 and N, the shares of actions, and the sweep over gamma."""
        blocks, rows = [], []
        for row, i in enumerate(drawn.observers.tolist()):
            refuses = self.outputs.abstentions(i, cell.columns)
            sure = ~np.isnan(self.outputs.classes(i, cell.columns)).any(axis=1) | (refuses == 1)
            known = drawn.answers.shown[row] & ~np.isnan(refuses) & sure  # an answer alone tells no class to hold back
            if not known.any():
                continue
            truth, columns = drawn.answers.truth[known], cell.columns[known]
            outer = len(self.table.labels) - 1  # the code of abstain
            original = np.where(truth == outer, -1, truth)
            group = np.where(truth == outer, "must-abstain", "must-act")
            given = (self.outputs.classes(i, columns), refuses[known], original, group)
            blocks.append(self._reliability(cell, drawn, i, known, given))
            rows += self._sweep(cell, i, given)
        return (joined(blocks) if blocks else None), rows

    def _reliability(
        self, cell: Cell, drawn: Draw, observer: int, known: NDArray[np.bool_], given: tuple[FloatArray, ...]
    ) -> Block:
        n = int(known.sum())
        found = reliability_score(*given, gamma=self.gamma)
        counts = np.ones(n, dtype=np.int64)
        clusters = None if drawn.clusters is None else drawn.clusters[known]
        weights = draw_stimuli(counts, self.resamples, drawn.rng, clusters=clusters).astype(np.float64)
        name = self.table.observers[observer]
        keys, values, samples = [], [], []
        for cost, label in ((0.0, "cost 0"), (n / 2, "cost N/2"), (float(n), "cost N")):
            items = reliability_score(*given, gamma=self.gamma, cost=cost).items
            keys.append(Key(name, None, f"{_RELIABILITY} {label}"))
            values.append(items.sum())
            samples.append(weights @ items)
        for action, total in _action_totals(found.actions):
            in_group = np.isin(found.actions, total)
            keys.append(Key(name, None, f"action_share {action.name.lower()}"))
            done = found.actions == action
            values.append(done.sum() / in_group.sum() if in_group.any() else np.nan)
            samples.append(divide(weights @ done, weights @ in_group))
        note = f"gamma {self.gamma:g}, N = {n}"
        size = np.full(len(keys), float(n))
        return Block(cell.group, tuple(keys), np.array(values), np.stack(samples), size, (note,) * len(keys))

    def _sweep(self, cell: Cell, observer: int, given: tuple[FloatArray, ...]) -> list[Row]:
        n = len(given[1])
        sweep = reliability_sweep(*given, gammas=_SWEEP)
        rows = []
        for gamma, value, wrong in zip(sweep.gamma, sweep.score, sweep.wrong, strict=True):
            group = group_text((*cell.group, ("gamma", f"{gamma:g}")))
            for cost, label in ((0.0, "cost 0"), (n / 2, "cost N/2"), (float(n), "cost N")):
                total = number(float(value - cost * wrong))
                note = f"sweep over gamma, N = {n}; {int(wrong)} wrong predictions"
                name = f"{_RELIABILITY} {label}"
                rows.append(Row(self.table.observers[observer], None, name, group, total, None, None, n, note))
        return rows


def _action_totals(actions: NDArray[np.int64]) -> list[tuple[Action, list[Action]]]:
    """Each action beside the actions it is a share of: those of its own group."""
    act = [Action.ACT_CORRECT, Action.ACT_INCORRECT, Action.ACT_ABSTAINED]
    abstain = [Action.ABSTAIN_ORIGINAL, Action.ABSTAIN_OTHER, Action.ABSTAIN_ABSTAINED]
    return [(action, part) for part in (act, abstain) for action in part]


def _item_block(cell: Cell, drawn: Draw, measure: str, items: dict[str, FloatArray]) -> Block:
    """Means of per-stimulus values, resampled over stimuli; nan items are left out."""
    values = np.stack(list(items.values()))
    defined = ~np.isnan(values)
    clean = np.where(defined, values, 0.0)
    counts = np.ones(values.shape[1], dtype=np.int64)
    weights = draw_stimuli(counts, len(drawn.times), drawn.rng, clusters=drawn.clusters).astype(np.float64)
    samples = divide(clean @ weights.T, defined @ weights.T)
    means = divide(clean.sum(axis=1), defined.sum(axis=1).astype(np.float64))
    keys = tuple(Key(name, None, measure) for name in items)
    return Block(cell.group, keys, means, samples, defined.sum(axis=1).astype(np.float64), ("",) * len(keys))


def _resampled_risk(doubt: FloatArray, right: NDArray[np.bool_], weights: Weights) -> tuple[FloatArray, FloatArray]:
    """The area under the risk-coverage curve, and of every resample, by repeating the drawn stimuli."""
    value = risk_coverage(doubt, right).value
    samples = np.empty(len(weights))
    for index, times in enumerate(weights.astype(np.int64)):
        samples[index] = (
            risk_coverage(np.repeat(doubt, times), np.repeat(right, times)).value if times.any() else np.nan
        )
    return np.array([value]), samples[None]

"""`cosight score`: how good, how sure, how near to people is each observer?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from cosight.arrays import FloatArray
from cosight.errors import InvalidInput, UnknownName
from cosight.measures import measures, pair_forms, solo_forms
from cosight.measures.distance import distance_items, entropy
from cosight.measures.sums import divide
from cosight.scoring.compare import Progress
from cosight.scoring.visalign import HELLINGER, TABLES, visalign_rows
from cosight.statistics.abstention_scores import (
    RELIABILITY,
    RISK,
    reliability_blocks,
    reliability_lacks,
    risk_blocks,
    sweep_rows,
)
from cosight.statistics.agreement import AGREEMENT, INTRA, agreement_blocks, align_repeats, repeats_of
from cosight.statistics.blocks import Block, Key, empty, joined, nested_means, rows_of
from cosight.statistics.distances import distance_block
from cosight.statistics.gold_distances import gold_block
from cosight.statistics.gold_labels import (
    CATEGORY,
    Gold,
    category_cells,
    gold_of,
    is_set,
    read_manifests,
    with_people,
)
from cosight.statistics.groups import check_names
from cosight.statistics.observer_scores import solo_block
from cosight.statistics.outputs import Outputs
from cosight.statistics.resampling import Draw, draw
from cosight.statistics.rows import Row, Scores, group_text, settings_of
from cosight.statistics.seeds import with_seed_means
from cosight.trials.cues import texture_codes
from cosight.trials.join import Cell, Table, align, cells, with_manifest
from cosight.trials.overlap import mismatch, overlap_notices, shared_with_models
from cosight.trials.reading import read
from cosight.trials.spaces import ABSTAIN, LabelSpace
from cosight.trials.table import Trials

__all__ = ["ABSTENTION", "score"]

_ENTROPY, ABSTENTION = "label_entropy", "mean_abstention"
_DEFAULT = ("accuracy", "response_entropy", "shape_bias", "fleiss_kappa", "hellinger", _ENTROPY, RISK, RELIABILITY)


def score(
    *sources: str | Path | Trials,
    humans: str | Path | Trials | None = None,
    on: str | None = None,
    measure: Sequence[str] | None = None,
    by: Sequence[str] = (),
    labels: str | LabelSpace | None = None,
    role: Sequence[str] = ("test",),
    gamma: float = 0.5,
    lam: float = 0.5,
    resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    progress: Progress | None = None,
) -> Scores:
    """Numbers of each observer alone and against people's label distributions, each with its interval.

    People are the human observers among the trials and in `humans`; without `humans`, the gold labels in a run's
    manifest stand for people too, and `humans` may be a stimulus set that has them. Without `measure`, what these
    trials allow of: accuracy, response entropy; shape bias on cue-conflict images; people's agreement (Fleiss) and the
    Hellinger distance to them where they saw the same stimuli; entropy of the labels where there are probabilities;
    reliability and risk where there is abstention.

    `on` names a benchmark and gives its table instead (`visalign_table`). `lam`: an Uncertain image is to be acted on
    where more than this share of people gave its original label. `role` chooses trials by what they are for; the
    default is first showings of test stimuli. Agreement within people always takes their repeated showings too.
    """
    _check(on, measure, by, resamples, lam)
    job = _job(sources, humans, labels, role, _Options(gamma, lam, resamples, level, seed))
    names = job.names(measure) if on is None else [HELLINGER, RELIABILITY]
    rows = job.rows(names, tuple(by), progress) if on is None else job.benchmark()
    table = job.table
    settings = settings_of(
        command="score", on=on, measure=names, by=list(by) if on is None else [CATEGORY], role=list(role),
        gamma=gamma, lam=lam, resamples=resamples, level=level, seed=seed, labels=list(table.labels),
    )  # fmt: skip
    return Scores(tuple(rows), settings, table.notices, dict(zip(table.observers, table.kinds, strict=True)))


def _check(on: str | None, measure: Sequence[str] | None, by: Sequence[str], resamples: int, lam: float) -> None:
    if resamples < 1:
        raise InvalidInput(f"--resamples must be 1 or more, got {resamples}; 1000 is usual")
    if not 0 <= lam <= 1:
        raise InvalidInput(f"--lam must be 0 to 1, got {lam}; .5 is VisAlign's")
    if on is not None and on not in TABLES:
        raise UnknownName(f"no benchmark has a table called {on!r}; there are {', '.join(TABLES)}")
    if on is not None and (measure or by):
        raise InvalidInput(f"--on {on} brings its own measures and groups; leave --measure and --by out")


@dataclass(frozen=True, slots=True)
class _Options:
    """What is asked of every cell."""

    gamma: float
    lam: float
    resamples: int
    level: float
    seed: int


def _job(
    sources: Sequence[str | Path | Trials],
    humans: str | Path | Trials | None,
    labels: str | LabelSpace | None,
    role: Sequence[str],
    options: _Options,
) -> _Job:
    """Everything read and joined."""
    manifest = read_manifests([*sources, humans])
    people = None if humans is None or is_set(humans) else read(humans, labels=labels)
    trials = read(*sources, *([] if people is None else [people]), labels=labels)
    if manifest is not None:
        trials = with_manifest(trials, manifest)
    table = align(trials, gamma=options.gamma, roles=role)
    check_names(table.observers)
    table = shared_with_models(replace(table, notices=(*table.notices, *overlap_notices(table))))
    outputs, gold = Outputs.of(table, trials), gold_of(table, manifest)
    if gold.known.any() and trials.space is None:
        raise InvalidInput(
            "gold labels need a label space to say whose shares they are, got none; name it with --labels"
        )
    if people is not None:
        gold = with_people(gold, table, people)
    held = people is None and bool(gold.known.any())
    return _Job(table, trials, manifest, outputs, gold, held, options)


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    """Everything a cell needs."""

    table: Table
    trials: Trials
    manifest: pl.DataFrame | None
    outputs: Outputs
    gold: Gold
    held: bool  # whether gold labels stand for people
    options: _Options

    def names(self, asked: Sequence[str] | None) -> list[str]:
        """The measures asked for, or all that can be computed."""
        able = self.able()
        if asked is None and not self.table.answers.shown.any() and able["fleiss_kappa"]:
            way = "add trials or a stimulus set that has it"
            if self.manifest is not None:
                way = f"the stimulus set has other stimuli: {mismatch(self.table.columns, self.manifest)}"
            raise InvalidInput(f"scoring needs the truth of some stimulus, got none; {way}")
        names = [measures.name_of(name) for name in asked or [n for n in _DEFAULT if not able[n]]]
        for name in names:
            if name not in able:
                way = "try `cosight compare`" if name in pair_forms else f"in Python: cosight.measures.{name}"
                raise InvalidInput(f"score takes {', '.join(able)}, got {name}; {way}")
            if able[name]:
                raise InvalidInput(f"{name} needs {able[name]}")
        return names

    def able(self) -> dict[str, str]:
        """Which measures can be computed: name -> what is missing, "" for nothing."""
        people, others = self.table.people, ~self.table.people
        seen = self.table.answers.response >= 0
        common = seen[people].any(axis=0) & (seen[others].any(axis=0) | (seen[people].sum(axis=0) > 1))
        sure = any(self.outputs.has_probabilities(i) for i in range(len(self.table.observers)))
        refuses = bool((~np.isnan(self.outputs.abstention)).any())
        cues = bool((texture_codes(self.table.columns, self.table.labels) >= 0).any())
        several = (seen[people].sum(axis=0) > 1).any()
        again = several or bool((align_repeats(self.trials).columns["presentation"] > 0).any())
        truth = "" if self.table.answers.shown.any() else "the truth of some stimulus; add trials or a set that has it"
        near = "people who saw the same stimuli; give their trials, or a set with gold labels, with --humans"
        return {
            **dict.fromkeys((n for n in solo_forms if n != "shape_bias"), truth),
            "shape_bias": "" if cues else "the cue-conflict experiment, images named SHAPEn-TEXTUREm.png",
            **dict.fromkeys(distance_items, "" if common.any() or self.held else near),
            **dict.fromkeys(AGREEMENT, "" if several else "several people's answers to the same stimuli"),
            INTRA: "" if again else "several answers of a person to the same stimulus",
            _ENTROPY: "" if sure else "probabilities",
            ABSTENTION: "" if refuses else "abstention; evaluate with --abstain",
            RISK: truth or ("" if sure or refuses else "probabilities or abstention"),
            RELIABILITY: reliability_lacks(self.outputs, self.gold),
        }

    def benchmark(self) -> list[Row]:
        """The rows of VisAlign's table."""
        if not self.gold.known.any():
            raise InvalidInput(
                "the table is about gold labels, got none; score a run on the benchmark's set, "
                "or name the set with --humans"
            )
        if lacking := reliability_lacks(self.outputs, self.gold):
            raise InvalidInput(f"the table needs {lacking}")
        return visalign_rows(self.table, self.outputs, self.gold, **asdict(self.options))

    def rows(self, names: Sequence[str], by: tuple[str, ...], progress: Progress | None) -> list[Row]:
        """The rows of every cell, and of their means."""
        parts, level, seed = self._parts(by), self.options.level, self.options.seed
        blocks, rows = [], []
        again = align_repeats(self.trials, gamma=self.options.gamma) if INTRA in names else None
        for index, cell in enumerate(parts):
            if progress:
                progress(index, len(parts), group_text(cell.group) or "all trials")
            block, more = self.cell(cell, names, again)
            blocks.append(block)
            rows += [*rows_of(block, level=level, seed=seed), *more]
        for block in nested_means(blocks, by):
            rows += rows_of(block, level=level, seed=seed)
        if progress:
            progress(len(parts), len(parts), "")
        return rows

    def _parts(self, by: tuple[str, ...]) -> list[Cell]:
        if CATEGORY not in by:
            return cells(self.table, by)
        if len(by) > 1:
            raise InvalidInput(f"--by {CATEGORY} stands alone, got {', '.join(by)}")
        return category_cells(self.gold)

    def cell(self, cell: Cell, names: Sequence[str], again: Table | None) -> tuple[Block, list[Row]]:
        """The numbers of a cell: those that are resampled, and rows that come ready."""
        drawn = draw(self.table, cell, resamples=self.options.resamples, seed=self.options.seed, merge=False)
        refusing = ABSTAIN in self.table.labels
        texture = texture_codes(self.table.columns, self.table.labels)[cell.columns]
        solos = [solo_block(drawn, n, texture) for n in names if n in solo_forms]
        blocks = [block for block in solos if block is not None]
        far = [name for name in names if name in distance_items]
        together = [name for name in names if name in AGREEMENT]
        repeats = None if again is None else repeats_of(again, self.table, drawn)
        for crowd in drawn.crowds:
            blocks += [distance_block(drawn, self.outputs, far, crowd)] if far else []
            blocks += agreement_blocks(drawn, crowd, together, repeats, refusing=refusing) if together else []
        if far and self.held:
            blocks.append(gold_block(drawn, self.outputs, self.gold, far))
        if _ENTROPY in names:
            blocks += self._entropies(drawn)
        if ABSTENTION in names:
            blocks += self._abstentions(drawn)
        if RISK in names:
            blocks += risk_blocks(drawn, self.outputs)
        rows: list[Row] = []
        if RELIABILITY in names:
            gamma, lam = self.options.gamma, self.options.lam
            blocks += reliability_blocks(drawn, self.outputs, self.gold, gamma=gamma, lam=lam)
            rows = sweep_rows(drawn, self.outputs, self.gold, lam=lam)
        return joined(blocks) if blocks else empty(cell.group, self.options.resamples), rows

    def _entropies(self, drawn: Draw) -> list[Block]:
        """Mean entropy of each observer's label distributions, for those that give probabilities."""
        items = {
            name: entropy(self.outputs.distributions(i, drawn.cell.columns))
            for name, i in zip(drawn.names, drawn.observers.tolist(), strict=True)
            if self.outputs.has_probabilities(i)
        }
        return [_item_block(drawn, _ENTROPY, items)] if items else []

    def _abstentions(self, drawn: Draw) -> list[Block]:
        """How ready each observer is to refuse, and the mean over seeds."""
        rows = zip(drawn.names, drawn.observers.tolist(), strict=True)
        items = {name: self.outputs.abstentions(i, drawn.cell.columns) for name, i in rows}
        known = {name: values for name, values in items.items() if not np.isnan(values).all()}
        return [with_seed_means(_item_block(drawn, ABSTENTION, known))] if known else []


def _item_block(drawn: Draw, measure: str, items: dict[str, FloatArray]) -> Block:
    """Means of per-stimulus values, resampled over stimuli; nan items are left out."""
    values = np.stack(list(items.values()))
    defined = ~np.isnan(values)
    clean = np.where(defined, values, 0.0)
    samples = drawn.sample([lambda _, w: divide(clean @ w.T.astype(np.float64), (defined @ w.T).astype(np.float64))])[0]
    means = divide(clean.sum(axis=1), defined.sum(axis=1).astype(np.float64))
    keys = tuple(Key(name, None, measure) for name in items)
    return Block(drawn.cell.group, keys, means, samples, defined.sum(axis=1).astype(np.float64), ("",) * len(keys))

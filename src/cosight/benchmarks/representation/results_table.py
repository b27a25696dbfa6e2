"""The results table of the benchmark `representation`: how alike do images look that a model takes for the same?

The numbers are those of Nanda et al. 2021, Tables 1 to 3: shares of 2AFC and clustering queries that judges and people
match with their target, by model, kind of seeds and kind of targets; clean and robust accuracy; and which of two models
a judge sides with on controversial stimuli.

An inversion that has not converged counts neither as aligned nor as misaligned. Rows exist for several thresholds of
the relative distance; the table shows `THRESHOLD`. Targets are resampled (in clustering whole panels), the same ones
for all models, and people where there are enough of them.

A share over all seeds is the mean over the kinds of seeds with equal weights, whatever number of each has converged. A
model without a converged inversion from one of the kinds has no such mean: it would be compared with means of others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosight.arrays import BoolArray, FloatArray
from cosight.benchmarks.representation.factors import factors_of, read_factors
from cosight.benchmarks.representation.other_measures import (
    ACCURACY,
    CONSISTENCY,
    HELLINGER,
    SHAPE_BIAS,
    has_own_trials,
    other_rows,
)
from cosight.benchmarks.table_layout import BenchmarkTable, TableCell, TableColumn, TableLayout, TableLine
from cosight.errors import InvalidInput
from cosight.measures import measures
from cosight.measures.answers import Answers
from cosight.measures.arithmetic import Weights, divide
from cosight.statistics.blocks import Block, Flags, Key, make_block, merge_flags, rows_of
from cosight.statistics.contrasts import difference_rows
from cosight.statistics.resampling import Draw, draw_resamples
from cosight.statistics.row_text import number_text
from cosight.statistics.rows import PEOPLE, SIMULATED, GroupKey, Row, Scores, number
from cosight.statistics.score_forms import ScoreData
from cosight.trials.choices import PHOTOS, RANDOM_PANELS
from cosight.trials.join import AlignedTrials, StimulusGroup

__all__ = [
    "ALL_SEEDS",
    "CLEAN",
    "CLUSTERING",
    "CONVERGED",
    "GROUPS",
    "ROBUST",
    "TABLE",
    "THRESHOLD",
    "THRESHOLDS",
    "TWO_AFC",
    "representation_table",
    "table_rows",
]

TWO_AFC, CLUSTERING, CONVERGED = "two_alternative_share", "clustering_share", "converged_share"
DISTANCE = "pairwise_distance"
ALL_SEEDS = "*"  # the mean over the kinds of seeds
THRESHOLD = 0.1  # largest relative distance of a converged inversion, unless asked otherwise
THRESHOLDS = (0.1, 0.05, 0.2, float("inf"))
_CONTEST = "contest"
_JUDGE, _TARGETS, _PANELS, _SEEDS, _REACHED, _IMAGES = "judge", "targets", "panels", "seeds", "distance", "images"
_INHERITED = ("model", "training", "start", _TARGETS, _REACHED)  # from the manifest row of a query
_EXPERIMENT = "experiment"  # of other trials
_SHORT = {ACCURACY: "accuracy", HELLINGER: "Hellinger", SHAPE_BIAS: "shape bias", CONSISTENCY: "EC"}
_AHEAD = {
    **{TWO_AFC: "more aligned", CLUSTERING: "more aligned", ACCURACY: "more accurate"},
    **{HELLINGER: "closer to people", SHAPE_BIAS: "more biased to shape", CONSISTENCY: "more consistent with people"},
}
CLEAN, ROBUST = "clean", "robust"
GROUPS = (_JUDGE, _TARGETS, _PANELS, _SEEDS, _REACHED, _IMAGES, _CONTEST, _EXPERIMENT)
"""Names in the groups of the rows; all others are factors of training."""


@dataclass(frozen=True, slots=True, eq=False)
class _Columns:
    """What is known about each column of the aligned table, read off its trials and the manifest."""

    table: AlignedTrials
    kind: NDArray[Any]  # "2afc", "cluster", "contest" or "accuracy"
    facts: list[dict[str, Any]]

    def where(self, **wanted: Any) -> BoolArray:
        """Return which columns have these facts."""
        return np.array([all(facts.get(name) == value for name, value in wanted.items()) for facts in self.facts])

    def values(self, name: str, columns: BoolArray) -> list[Any]:
        """Return the different values of a fact in some columns, sorted."""
        found = {facts.get(name) for facts, used in zip(self.facts, columns, strict=True) if used}
        return sorted((value for value in found if value is not None), key=str)


def table_rows(
    data: ScoreData,
    *,
    resamples: int,
    confidence: float,
    seed: int,
    families: Sequence[str] = (),
    others: Sequence[ScoreData] = (),
) -> list[Row]:
    """Compute every number of the table with its interval, and the differences between models.

    The groups of shares also have the factors of the model's training that are known, by which figures group models.
    `others` are trials of the same models on other sets.
    """
    patterns = read_factors(families, reserved=GROUPS)
    columns = _read_columns(data)
    if not np.isin(columns.kind, ("2afc", "cluster", "contest")).any():
        if "unknown" in columns.kind:
            raise InvalidInput(
                "nothing tells how the images of these tasks were made; name their stimulus set too: "
                "`cosight score TRIALS SET --on representation`"
            )
        raise InvalidInput(
            "the table needs answers to 2AFC or clustering tasks, got none; make them with `cosight judge SET`"
        )
    options: dict[str, Any] = {"resamples": resamples, "confidence": confidence, "seed": seed}
    rows: list[Row] = []
    for kind in ("2afc", "cluster"):
        of_kind = columns.kind == kind
        for targets in columns.values(_TARGETS, of_kind):
            chosen = of_kind & columns.where(targets=targets)
            for panels in columns.values(_PANELS, chosen) or [None]:
                used = chosen if panels is None else chosen & columns.where(panels=panels)
                group: GroupKey = ((_TARGETS, targets), *([(_PANELS, panels)] if panels else []))
                rows += _share_rows(columns, used, group, TWO_AFC if kind == "2afc" else CLUSTERING, **options)
    declared = {str(facts["model"]): facts.get("training") or {} for facts in columns.facts if "model" in facts}
    factors = {model: factors_of(model, known, patterns) for model, known in declared.items()}
    rows = [
        replace(row, group=(*row.group, *factors[row.observer])) if row.statistic in ("value", "sd") else row
        for row in rows
    ]
    rows += _accuracy_rows(columns, **options)
    return [*rows, *_contest_rows(columns, **options), *other_rows(others, **options)]


def _read_columns(data: ScoreData) -> _Columns:
    """Return what is known about each column: what judges stored with their answers, then the query's manifest row."""
    made_with: dict[str, dict[str, Any]] = {}
    if data.manifest is not None:
        for stimulus, parameters in data.manifest.select("stimulus", "parameters").iter_rows():
            made_with[stimulus] = json.loads(parameters or "{}")
    table = data.table
    texts, truths = data.trials.frame["extra"], data.trials.frame["truth"]
    all_facts, kinds = [], []
    for index in range(table.columns.height):
        facts: dict[str, Any] = {}
        for row in table.rows[:, index][table.rows[:, index] >= 0].tolist():
            facts = {**json.loads(texts[row] or "{}"), **facts, "target": truths[row]}
        query = facts.get("query")
        inherited = made_with.get(query or "", {})
        facts = {**{name: inherited[name] for name in _INHERITED if name in inherited}, **facts}
        if query is None:
            kinds.append("accuracy")
        elif "contest" in facts:
            kinds.append("contest")
        elif facts.get("model") is None:
            kinds.append("unknown")
        elif "panel" in facts:
            kinds.append("cluster")
            facts.setdefault(_PANELS, RANDOM_PANELS)
        else:
            kinds.append("2afc")
        facts.setdefault(_TARGETS, PHOTOS)
        all_facts.append(facts)
    clusters = [_cluster(kind, facts) for kind, facts in zip(kinds, all_facts, strict=True)]
    code_of = {name: code for code, name in enumerate(dict.fromkeys(clusters))}
    coded = np.array([[code_of[name] for name in clusters]], dtype=np.int64)
    return _Columns(replace(table, clusters=coded), np.array(kinds), all_facts)


def _cluster(kind: str, facts: Mapping[str, Any]) -> str:
    """Return what is drawn together: a target, a panel of targets, or an image."""
    if kind == "cluster":
        return "/".join(sorted(facts["options"]))
    if kind == "contest":
        return str(facts["query"])
    return str(facts["target"] if kind == "2afc" else facts.get("image"))


@dataclass(frozen=True, slots=True, eq=False)
class _Voter:
    """A judge, or people whose answers are pooled: rows of the draw, and how often each counts in each resample."""

    name: str
    rows: list[int]
    weights: FloatArray  # (resamples, rows)
    note: str = ""
    flags: Flags = ()


def _voters(draw: Draw) -> list[_Voter]:
    voters = []
    pooled = {int(row) for group in draw.people_groups for row in group.members}
    for row, name in enumerate(draw.names):
        if row not in pooled:
            voters.append(_Voter(name, [row], np.ones((draw.resamples, 1))))
    for group in draw.people_groups:
        members = group.members.tolist()
        count = f"pooled over {len(members)} {group.name}"
        flags = (*(["few_people"] if group.too_few else []), *(["simulated"] if group.name == SIMULATED else []))
        note = f"{count}; {group.too_few_note}" if group.too_few else count
        voters.append(_Voter(group.name, members, draw.observer_weights[:, group.members], note, flags))
    return voters


def _block(draw: Draw, group: GroupKey, measure: str, voter: _Voter, masks: Mapping[str, BoolArray]) -> Block:
    """Return the share of right choices of a voter in the columns of each mask; ties and refusals are left out."""
    names = list(masks)
    right = (draw.answers.response == draw.answers.truth)[voter.rows]
    defined = (draw.answers.response >= 0)[voter.rows]
    of_mask = np.stack([masks[name] for name in names])[:, None]  # (masks, 1, columns)
    counted = np.stack([right & of_mask, defined & of_mask]).astype(np.float32)  # (2, masks, members, columns)

    def totals(_: Answers, weights: Weights) -> FloatArray:
        return np.asarray(counted @ weights.T.astype(np.float32), dtype=np.float64)

    sums = np.einsum("smor,ro->smr", draw.resample([totals])[0], voter.weights)
    n = counted[1].sum(axis=(1, 2)).astype(np.float64)
    block = make_block(
        group,
        [Key(name, None, measure) for name in names],
        divide(counted[0].sum(axis=(1, 2)).astype(np.float64), n),
        divide(sums[0], sums[1]),
        n,
        notes=[voter.note if count else "no choice at this distance was answered" for count in n],
        flags=[voter.flags] * len(names),
        clusters=draw.cluster_counts(defined[None].any(axis=1) & of_mask[:, 0]).astype(np.float64),
    )
    return draw.flag_few_clusters(block)


def _share_rows(
    columns: _Columns, used: BoolArray, group: GroupKey, measure: str, *, resamples: int, confidence: float, seed: int
) -> list[Row]:
    """Return the rows of one task type and kind of targets: by judge, model, seeds and threshold."""
    index = np.flatnonzero(used)
    draw = draw_resamples(columns.table, StimulusGroup(group, index), resamples=resamples, seed=seed, merge=False)
    facts = [columns.facts[column] for column in index]
    models = sorted({str(fact["model"]) for fact in facts})
    starts = sorted({str(fact.get("start")) for fact in facts})
    reached = np.array([float(fact.get(_REACHED, np.nan)) for fact in facts])
    of_model = {model: np.array([fact["model"] == model for fact in facts]) for model in models}
    from_seeds = {start: np.array([str(fact.get("start")) == start for fact in facts]) for start in starts}
    rows: list[Row] = []
    for voter in _voters(draw):
        for threshold in THRESHOLDS:
            # an unknown distance is no reason to leave a query out: its maker vouches for it
            converged = ~(reached > threshold)
            masks = {
                model: {start: mask & is_start & converged for start, is_start in from_seeds.items()}
                for model, mask in of_model.items()
            }
            cells: dict[str, GroupKey] = {
                seeds: ((_JUDGE, voter.name), *group, (_SEEDS, seeds), (_REACHED, _threshold_text(threshold)))
                for seeds in (*starts, *([ALL_SEEDS] if len(starts) > 1 else []))
            }
            blocks = [
                _block(draw, cells[start], measure, voter, {model: of[start] for model, of in masks.items()})
                for start in starts
            ]
            if ALL_SEEDS in cells:
                blocks.append(_mean_over_seeds(blocks, cells[ALL_SEEDS]))
            for seeds, cell in cells.items():
                parts = {m: [of[start] for start in starts if seeds in (start, ALL_SEEDS)] for m, of in masks.items()}
                rows += _spread_rows(draw, cell, measure, voter, parts)
            for block in blocks:
                rows += rows_of(block, confidence=confidence, seed=seed)
                known = np.flatnonzero(~np.isnan(block.values)).tolist()
                rows += difference_rows(block, measure, models, confidence=confidence, seed=seed, index=known)
    if measure == TWO_AFC:
        for start, is_start in from_seeds.items():
            for model, mask in of_model.items():
                part = reached[mask & is_start]
                note = f"median distance {np.median(part):.3f}, largest {part.max():.3f}" if len(part) else ""
                for threshold in THRESHOLDS[:-1]:
                    rows.append(
                        Row(
                            observer=model,
                            measure=CONVERGED,
                            group=(*group, (_SEEDS, start), (_REACHED, _threshold_text(threshold))),
                            value=number(float(np.mean(part <= threshold)) if len(part) else np.nan),
                            n=len(part),
                            note=note,
                        )
                    )
    return rows


def _mean_over_seeds(blocks: Sequence[Block], group: GroupKey) -> Block:
    """Return the mean of each share over the kinds of seeds, one block each; undefined where one of them is."""
    seeds = [dict(block.group)[_SEEDS] for block in blocks]
    notes, flags = [], []
    for index, note in enumerate(blocks[0].notes):
        lacking = [name for name, block in zip(seeds, blocks, strict=True) if np.isnan(block.values[index])]
        parts = [note, f"undefined: nothing converged from {' and '.join(lacking)} seeds" if lacking else ""]
        notes.append("; ".join(part for part in parts if part))
        merged = merge_flags(*(block.flags[index] for block in blocks))
        flags.append((*merged, "undefined") if lacking else merged)
    return make_block(
        group,
        blocks[0].keys,
        np.mean([block.values for block in blocks], axis=0),
        np.mean([block.resampled for block in blocks], axis=0),
        np.sum([block.n for block in blocks], axis=0),
        notes=notes,
        flags=flags,
        clusters=np.min([block.clusters for block in blocks], axis=0),  # the kinds of seeds have the same targets
    )


def _threshold_text(threshold: float) -> str:
    return "any" if np.isinf(threshold) else f"{threshold:g}"


def _spread_rows(
    draw: Draw, group: GroupKey, measure: str, voter: _Voter, masks: Mapping[str, Sequence[BoolArray]]
) -> Iterator[Row]:
    """Yield the standard deviation over annotators of their own shares (Nanda et al. 2021, Table 1).

    The share of an annotator is the mean over the masks of a model, one per kind of seeds; those without one are left
    out.
    """
    for name, parts in masks.items():
        defined = np.stack([(draw.answers.response >= 0)[voter.rows] & mask for mask in parts])
        right = defined & (draw.answers.response == draw.answers.truth)[voter.rows]
        answers = defined.sum(axis=2).astype(np.float64)  # (kinds of seeds, annotators)
        shares = divide(right.sum(axis=2).astype(np.float64), answers).mean(axis=0)
        known = ~np.isnan(shares)
        if known.sum() > 1:
            yield Row(
                observer=name,
                measure=measure,
                statistic="sd",
                group=group,
                value=number(float(shares[known].std())),
                n=int(answers[:, known].sum()),
                flags=tuple(flag for flag in voter.flags if flag == "simulated"),
                note=f"over {known.sum()} annotators",
            )


def _accuracy_rows(columns: _Columns, *, resamples: int, confidence: float, seed: int) -> list[Row]:
    """Return clean and robust accuracy of the models that classified images."""
    rows: list[Row] = []
    of_kind = columns.kind == "accuracy"
    for images in columns.values(_IMAGES, of_kind):
        index = np.flatnonzero(of_kind & columns.where(images=images))
        group: GroupKey = ((_IMAGES, images),)
        draw = draw_resamples(columns.table, StimulusGroup(group, index), resamples=resamples, seed=seed, merge=False)
        for voter in _voters(draw):
            everything = {voter.name: np.ones(len(index), dtype=np.bool_)}
            rows += rows_of(_block(draw, group, ACCURACY, voter, everything), confidence=confidence, seed=seed)
    return rows


def _contest_rows(columns: _Columns, *, resamples: int, confidence: float, seed: int) -> Iterator[Row]:
    """Yield, for every two models, how often a judge sides with each, and the distances behind it.

    The judge sides with the model whose controversial stimulus looks more like the target.
    """
    of_kind = columns.kind == "contest"
    for contest in columns.values(_CONTEST, of_kind):
        index = np.flatnonzero(of_kind & columns.where(contest=contest))
        group: GroupKey = ((_CONTEST, contest),)
        draw = draw_resamples(columns.table, StimulusGroup(group, index), resamples=resamples, seed=seed, merge=False)
        first, second = contest.split(" / ")
        for voter in _voters(draw):
            cell: GroupKey = ((_JUDGE, voter.name), *group)
            everything = np.ones(len(index), dtype=np.bool_)
            block = _block(draw, cell, TWO_AFC, voter, {first: everything})
            for row in rows_of(block, confidence=confidence, seed=seed):
                yield from (row, _complement(row, second))
            facts = [columns.facts[column] for column in index]
            pairs = np.array([fact.get("pairwise", [np.nan, np.nan]) for fact in facts], dtype=np.float64)
            if len(voter.rows) == 1 and not np.isnan(pairs).any():
                yield from _distance_rows(draw, cell, (first, second), pairs, confidence=confidence, seed=seed)


def _complement(row: Row, other: str) -> Row:
    """Return the share of the other model in a contest."""
    value, low, high = (None if share is None else 1 - share for share in (row.value, row.high, row.low))
    return replace(row, observer=other, value=value, low=low, high=high)


def _distance_rows(
    draw: Draw, group: GroupKey, models: tuple[str, str], pairs: FloatArray, *, confidence: float, seed: int
) -> list[Row]:
    """Return the mean pairwise distance of the stimuli that each model takes for the same, and their difference."""

    def means(_: Answers, weights: Weights) -> FloatArray:
        return divide(pairs.T @ weights.T.astype(np.float64), np.broadcast_to(weights.sum(axis=1), (2, len(weights))))

    block = make_block(
        group,
        [Key(model, None, DISTANCE) for model in models],
        pairs.mean(axis=0),
        draw.resample([means])[0],
        np.full(2, float(len(pairs))),
        clusters=np.full(2, float(draw.cluster_counts(np.ones((1, len(pairs)), dtype=np.bool_))[0])),
    )
    rows = rows_of(draw.flag_few_clusters(block), confidence=confidence, seed=seed)
    return rows + difference_rows(block, DISTANCE, models, confidence=confidence, seed=seed, index=[0, 1])


# ---- the table


def representation_table(scores: Scores) -> BenchmarkTable:
    """Lay out the rows of `score(..., on="representation")`: a section per judge, a line per model.

    With controversial stimuli of more than two models, further columns have the tournament: how often the judge sides
    with the model of the line against each other model.
    """
    shown = {
        (row.observer, row.in_group(_JUDGE), _column(row)): row
        for row in scores.rows
        if row.statistic == "value" and _is_shown(row)
    }
    spreads = {
        (row.observer, row.in_group(_JUDGE), _column(row)): row
        for row in scores.rows
        if row.statistic == "sd" and _is_shown(row)
    }
    shown |= _tournament(scores)
    columns = sorted(dict.fromkeys(column for _, _, column in shown), key=_order)
    lines = []
    for judge in dict.fromkeys(judge for _, judge, _ in shown if judge is not None):
        for model in dict.fromkeys(model for model, of, _ in shown if of == judge):
            cells = []
            for column in columns:
                key = (model, judge if column.measure in (TWO_AFC, CLUSTERING) else None, column)
                cells.append(TableCell(shown.get(key), spreads.get(key)))
            lines.append(TableLine(model, model, "", 1, tuple(cells), section=judge, heading=judge))
    return BenchmarkTable("judges and people", tuple(columns), tuple(lines))


def _tournament(scores: Scores) -> dict[tuple[str, str | None, TableColumn], Row]:
    """Return the rows of contests, by model, judge and column; none for a single pair of models."""
    contests = [row for row in scores.rows if row.in_group(_CONTEST) is not None and row.measure == TWO_AFC]
    if len({name for row in contests for name in _contestants(row)}) < 3:
        return {}
    cells = {}
    for row in contests:
        other = _opponent(row)
        column = TableColumn(f"against {other}", TWO_AFC, ((_CONTEST, other),), summary=True)
        cells[row.observer, row.in_group(_JUDGE), column] = row
    return cells


def _headline(scores: Scores) -> str:
    """Return which model the last judge sides with against every other one; empty where there are inversions too."""
    shares = [row for row in scores.rows if row.measure in (TWO_AFC, CLUSTERING)]
    if any(row.in_group(_CONTEST) is None for row in shares):
        return ""
    judge = str(shares[-1].in_group(_JUDGE))
    sides: dict[str, list[Row]] = {}
    for row in shares:
        if row.in_group(_JUDGE) == judge:
            sides.setdefault(row.observer, []).append(row)
    for model, rows in sides.items():
        if all(row.value is not None and row.value > 0.5 for row in rows):
            others = ", ".join(f"{_opponent(row)} {number_text(row)}" for row in rows)
            return f"{judge} {_verb(judge)} with {model} against {others}."
    return f"{judge} {_verb(judge)} with no model against all others."


def _verb(judge: str) -> str:
    return "side" if judge in (PEOPLE, SIMULATED) else "sides"


def _opponent(row: Row) -> str:
    first, second = _contestants(row)
    return second if row.observer == first else first


def _contestants(row: Row) -> tuple[str, str]:
    first, second = str(row.in_group(_CONTEST)).split(" / ")
    return first, second


def _is_shown(row: Row) -> bool:
    """Return whether the table has a cell for a number: all others are in --json."""
    if row.measure in (ACCURACY, HELLINGER, SHAPE_BIAS, CONSISTENCY):
        return True
    return row.measure in (TWO_AFC, CLUSTERING) and row.in_group(_REACHED) == _threshold_text(THRESHOLD)


def _column(row: Row) -> TableColumn:
    """Return the column of a number; its group is that of the row without judge, threshold and factors of training."""
    group = tuple(pair for pair in row.group if pair[0] in GROUPS and pair[0] not in (_JUDGE, _REACHED))
    if (experiment := row.in_group(_EXPERIMENT)) is not None:
        title = f"{experiment} {_SHORT[row.measure]}".strip()
        return TableColumn(title, row.measure, ((_EXPERIMENT, experiment),), summary=row.measure != ACCURACY)
    if row.measure == ACCURACY:
        return TableColumn(str(row.in_group(_IMAGES)), ACCURACY, group)
    panels, targets, seeds = (row.in_group(name) for name in (_PANELS, _TARGETS, _SEEDS))
    words = ["2AFC" if row.measure == TWO_AFC else "clustering"]
    words += [] if panels in (None, RANDOM_PANELS) else ["hard"]
    words += [] if targets == PHOTOS else [str(targets)]
    words += [] if seeds == ALL_SEEDS else [str(seeds)]
    return TableColumn(" ".join(words), row.measure, group, summary=True)


def _order(column: TableColumn) -> tuple[bool, ...]:
    group = dict(column.group)
    return (
        _CONTEST in group,
        _EXPERIMENT in group,
        column.measure == ACCURACY,
        group.get(_IMAGES, CLEAN) != CLEAN,
        group.get(_TARGETS, PHOTOS) != PHOTOS,
        column.measure == CLUSTERING,
        group.get(_PANELS, RANDOM_PANELS) != RANDOM_PANELS,
        group.get(_SEEDS, ALL_SEEDS) != ALL_SEEDS,
    )


def remarks(scores: Scores) -> list[tuple[str, Row | None]]:
    """Return the lines below the table: convergence, other thresholds, differences between models, contests."""
    texts: list[tuple[str, Row | None]] = []
    shown = _threshold_text(THRESHOLD)
    for row in scores.rows:
        if row.measure == CONVERGED and row.in_group(_REACHED) == shown:
            converged = f"{round((row.value or 0) * row.n)} of {row.n} inversions converged"
            texts.append(
                (f"{row.observer}, {row.in_group(_TARGETS)}, {row.in_group(_SEEDS)}: {converged}, {row.note}", None)
            )
    for row in scores.rows:
        if row.statistic == "difference" and row.in_group(_REACHED) == shown:
            texts.append(_difference_remark(f"{row.in_group(_JUDGE)}, {_column(row).title}", row))
        elif row.statistic == "difference" and row.in_group(_EXPERIMENT) is not None:
            texts.append(_difference_remark(_column(row).title, row))
    for row in scores.rows:
        reached = row.in_group(_REACHED)
        is_mean = row.in_group(_SEEDS) == ALL_SEEDS and row.measure == TWO_AFC and row.statistic == "value"
        if is_mean and reached not in (None, shown):
            title = f"{row.in_group(_JUDGE)}, {_column(row).title}"
            where = "at any distance" if reached == _threshold_text(np.inf) else f"at distances up to {reached}"
            texts.append((f"{title} {where}: {row.observer} (n {row.n})", row))
    for row in scores.rows:
        contest = row.in_group(_CONTEST)
        if contest is not None and row.measure == TWO_AFC:
            judge = str(row.in_group(_JUDGE))
            if row.observer == _contestants(row)[0]:  # the row of the other has the rest
                texts.append((f"{judge} {_verb(judge)} with {row.observer} against {_opponent(row)}", row))
        elif contest is not None and row.statistic == "value":
            texts.append((f"mean pairwise {row.in_group(_JUDGE)} distance where {row.observer} sees no change", row))
        elif contest is not None:
            texts.append((f"the same, {row.observer} minus {row.against}", row))
    legend = f"2AFC and clustering: share matched with the target, of inversions within {shown}"
    if any(row.in_group(_SEEDS) == ALL_SEEDS for row in scores.rows):
        legend += "; without a kind of seeds: mean over the kinds with equal weights"
    return [*texts, (legend, None)]


def _difference_remark(title: str, row: Row) -> tuple[str, Row]:
    """Return which of two models is ahead, with the size of its lead; where the interval has 0 in it, neither is."""
    first, second = row.observer, str(row.against)
    if row.low is None or row.high is None or row.low <= 0 <= row.high:
        return f"{title}: no clear difference, {first} minus {second}", row
    if (row.low > 0) == (measures[row.measure].direction == "lower"):
        first, second = second, first
    if row.high < 0:
        row = replace(row, value=None if row.value is None else -row.value, low=-row.high, high=-row.low)
    return f"{title}: {first} is {_AHEAD[row.measure]} than {second}", row


TABLE = TableLayout(
    (TWO_AFC, CLUSTERING, CONVERGED, ACCURACY, DISTANCE, HELLINGER, SHAPE_BIAS, CONSISTENCY),
    (_JUDGE, _TARGETS, _SEEDS, _REACHED),
    table_rows,
    representation_table,
    remarks,
    spread="people",
    shared=False,  # people and judges answer tasks, models do not
    takes_families=True,
    takes_others=True,
    is_own=has_own_trials,
    headline=_headline,
)

"""LAION-C's results table: accuracy by distortion and level, error consistency with people, spread across models.

The numbers are those of Li et al. 2025: accuracy of each distortion is the mean over its levels, LAION-C the mean over
distortions (Table 10); error consistency is that of a model's answers with the list of people's answers, one answer per
image (Figure 8); the spread is the standard deviation across models (Figure 4), and Kendall's tau compares the order of
models on LAION-C with that on other sets (Figures 3 and 10). Trials of other experiments, such as ImageNet-C's
corruptions of the same photos, are the other sets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cosight.arrays import BoolArray
from cosight.benchmarks.laion_c.published import DISTORTIONS, IMAGENET, PREFIX, published_rows
from cosight.benchmarks.table_layout import BenchmarkTable, TableCell, TableColumn, TableLayout, TableLine
from cosight.errors import InvalidInput
from cosight.measures import pair_forms
from cosight.measures.answers import NOT_SHOWN
from cosight.measures.consistency import reachable_kappa
from cosight.measures.correlation import kendall_correlation, kendall_correlation_resampled
from cosight.statistics.blocks import Block, Key, empty_block, join_blocks, mean_over_groups, rows_of, single_block
from cosight.statistics.contrasts import difference_rows, models_against_people, rank_rows
from cosight.statistics.pair_scores import CEILING_ONE, pair_blocks, pairs_of
from cosight.statistics.resampling import draw_resamples, random_stream
from cosight.statistics.rows import MODELS, PEOPLE, SIMULATED, GroupKey, Row, Scores, number
from cosight.statistics.score_forms import ScoreData, solo_block
from cosight.trials.join import AlignedTrials, StimulusGroup, link_groups, stimulus_groups

__all__ = [
    "ACCURACY",
    "ALL_TRIALS",
    "BEST",
    "CLEAN",
    "CONSISTENCY",
    "EXPERIMENT",
    "KENDALL",
    "LEAST_ACCURACY",
    "OVERALL",
    "TABLE",
    "laion_c_table",
    "person_title",
    "set_mean",
]

ACCURACY, CONSISTENCY, KENDALL = "accuracy", "error_consistency", "kendall_correlation"
EXPERIMENT, CLEAN = "laion-c", "clean"
BEST = "best person"  # observer of rows about the person with the highest accuracy in a distortion
_LEVELS = tuple(map(str, range(1, 6)))


def set_mean(experiment: str) -> GroupKey:
    """Return the group of the mean over all conditions and levels of a set.

    >>> set_mean("laion-c")
    (('experiment', 'laion-c'), ('condition', '*'), ('level', '*'))
    """
    return (("experiment", experiment), ("condition", "*"), ("level", "*"))


OVERALL = set_mean(EXPERIMENT)
ALL_TRIALS: GroupKey = (("experiment", EXPERIMENT),)  # distortions and levels pooled, as in Figure 8
MEAN_CONSISTENCY: GroupKey = (("experiment", EXPERIMENT), ("condition", "*"))  # equal weight to each distortion
CLEAN_GROUP: GroupKey = (("experiment", EXPERIMENT), ("condition", CLEAN), ("level", "0"))
_BY = ("experiment", "condition", "level")
LEAST_ACCURACY = 0.6  # on the other set: the filter of Figure 10
_LEAST_MODELS = 3  # of a correlation: of two, every order is the same or the opposite
_OVER_CONDITIONS: GroupKey = (("over", "models and conditions"),)
_POOLED = "pooled people"
_MANY_MODELS = 50  # of more, differences between every two would outnumber all other rows


@dataclass(frozen=True, slots=True)
class _Accuracies:
    """Accuracy on one set, an experiment: one block per condition and level, and their means."""

    experiment: str
    cells: tuple[Block, ...]
    by_condition: tuple[Block, ...]  # means over levels
    by_level: tuple[Block, ...]  # means over conditions
    overall: Block

    @property
    def blocks(self) -> tuple[Block, ...]:
        return (*self.cells, *self.by_condition, *self.by_level, self.overall)


def table_rows(
    data: ScoreData, *, resamples: int, confidence: float, seed: int, others: Sequence[ScoreData] = ()
) -> list[Row]:
    """Compute every number of the table with its interval, and add the published ones.

    Args:
        data: Trials on LAION-C, and on other sets in the same label space.
        resamples: Number of resamples.
        confidence: Of the intervals.
        seed: Of the resamples.
        others: Trials of the same models on sets in other label spaces.
    """
    table = data.table
    groups = stimulus_groups(table, _BY)
    if not any(dict(group.group)["condition"] in DISTORTIONS for group in _of(groups, EXPERIMENT)):
        found = ", ".join(sorted({dict(group.group)["experiment"] or "(none)" for group in groups}))
        raise InvalidInput(
            f"the table needs trials of the experiment {EXPERIMENT} with its distortions as conditions, got {found}; "
            "evaluate with --on laion-c --source PHOTOS, or on the published set"
        )

    def accuracy(group: StimulusGroup, shown: AlignedTrials = table) -> Block:
        draw = draw_resamples(shown, group, resamples=resamples, seed=seed, merge=False)
        return solo_block(draw, ACCURACY, None) or empty_block(group.group, resamples)

    experiments = dict.fromkeys(dict(group.group)["experiment"] for group in groups)
    sets: dict[str, _Accuracies] = {}
    clean: list[Block] = []
    for experiment in sorted(experiments, key=lambda name: name != EXPERIMENT):
        own = _of(groups, experiment)
        if experiment == EXPERIMENT:
            clean = [accuracy(group) for group in own if dict(group.group)["condition"] == CLEAN]
            own = [group for group in own if dict(group.group)["condition"] in DISTORTIONS]
        sets[experiment] = _accuracies(experiment, [accuracy(group) for group in own])
    for other in others:
        space = "other classes" if other.trials.space is None else other.trials.space.name
        own = stimulus_groups(other.table, _BY)
        for experiment in dict.fromkeys(dict(group.group)["experiment"] for group in own):
            name = f"{experiment} ({space})"
            cells = [accuracy(group, other.table) for group in _of(own, experiment)]
            sets[name] = _accuracies(name, [replace(cell, group=_renamed(cell.group, name)) for cell in cells])
    models = table.models
    laion = _flag_partial(_with_best_person(sets[EXPERIMENT], table), models)
    sets[EXPERIMENT] = laion
    blocks = [*clean, *(block for one in sets.values() for block in one.blocks)]
    blocks += [block for one in sets.values() for block in _spread_blocks(one, models)]
    compared = {name: one.overall for name, one in sets.items() if name != EXPERIMENT}
    if clean:
        compared[CLEAN] = clean[0]
    for name, overall in compared.items():
        blocks += _order_blocks(laion.overall, overall, name, models)
    consistency, reachable = _consistency(table, resamples=resamples, confidence=confidence, seed=seed)
    blocks += consistency
    rows = [row for block in blocks for row in rows_of(block, confidence=confidence, seed=seed)]
    complete = [
        i
        for i, key in enumerate(laion.overall.keys)
        if key.observer in models and "partial" not in laion.overall.flags[i]
    ]
    rows += rank_rows(laion.overall, complete, of="models", confidence=confidence, seed=seed)
    rows += reachable
    for block in consistency:
        if block.group == MEAN_CONSISTENCY:
            closest = models_against_people(block, CONSISTENCY, models)
            rows += rank_rows(block, closest, of="models", confidence=confidence, seed=seed)
            if len(closest) <= _MANY_MODELS:
                rows += difference_rows(block, CONSISTENCY, models, confidence=confidence, seed=seed)
    return [*rows, *published_rows(EXPERIMENT)]


def _of(groups: Iterable[StimulusGroup], experiment: str) -> list[StimulusGroup]:
    return [group for group in groups if dict(group.group)["experiment"] == experiment]


def _renamed(group: GroupKey, experiment: str) -> GroupKey:
    return tuple((name, experiment if name == "experiment" else value) for name, value in group)


def _accuracies(experiment: str, cells: Sequence[Block]) -> _Accuracies:
    """Average over levels within conditions and then over conditions, and over conditions within levels."""

    def means(over: str, within: str) -> list[Block]:
        parts: dict[str, list[Block]] = {}
        for cell in cells:
            parts.setdefault(dict(cell.group)[within], []).append(cell)
        averaged = []
        for value, inner in parts.items():
            values = {"experiment": experiment, over: "*", within: value}
            averaged.append(mean_over_groups(inner, tuple((name, values[name]) for name in _BY), over))
        return averaged

    by_condition = means("level", "condition")
    overall = mean_over_groups(by_condition, set_mean(experiment), "condition")
    return _Accuracies(experiment, tuple(cells), tuple(by_condition), tuple(means("condition", "level")), overall)


def _with_best_person(accuracies: _Accuracies, table: AlignedTrials) -> _Accuracies:
    """Add the best person: in each distortion the one with the highest mean over its levels (as in Table 10)."""
    real = table.people & ~table.simulated
    people = {table.observers[i] for i in np.flatnonzero(real if real.any() else table.people)}
    if len(people) < 2:
        return accuracies
    cells, by_condition = list(accuracies.cells), []
    for mean in accuracies.by_condition:
        condition = dict(mean.group)["condition"]
        own = [cell for cell in cells if dict(cell.group)["condition"] == condition]
        levels = Counter(key.observer for cell in own for key in cell.keys if key.observer in people)
        # only people who met most levels: the mean of easy ones alone would be the highest
        candidates = [
            i for i, key in enumerate(mean.keys) if levels[key.observer] == max(levels.values(), default=0) > 0
        ]
        if not candidates:
            by_condition.append(mean)
            continue
        best = mean.keys[max(candidates, key=lambda i: mean.values[i])].observer
        note = f"the most accurate of {len(candidates)} people, {best}; the highest of several values is biased upwards"
        flags = ("simulated",) if not real.any() else ()
        by_condition.append(_with_observer(mean, best, note, flags))
        for index, cell in enumerate(cells):
            if dict(cell.group)["condition"] == condition:
                cells[index] = _with_observer(cell, best, note, flags)
    best_of = [_only(block, [BEST]) for block in by_condition if any(key.observer == BEST for key in block.keys)]
    if not best_of:  # people met only other sets
        return accuracies
    overall = join_blocks([accuracies.overall, mean_over_groups(best_of, accuracies.overall.group, "condition")])
    return replace(accuracies, cells=tuple(cells), by_condition=tuple(by_condition), overall=overall)


def person_title(row: Row) -> str:
    """Return what a row of the best person is called: simulated people are always called so."""
    return f"{BEST} (simulated)" if "simulated" in row.flags else BEST


def _flag_partial(accuracies: _Accuracies, models: Sequence[str]) -> _Accuracies:
    """Flag the models that answered fewer stimuli than others: their mean may be that of easier ones."""
    overall = accuracies.overall
    of_models = [i for i, key in enumerate(overall.keys) if key.observer in models]
    most = max((overall.n[i] for i in of_models), default=0)
    flags = list(overall.flags)
    for i in of_models:
        if overall.n[i] < most:
            flags[i] = (*flags[i], "partial")
    return replace(accuracies, overall=replace(overall, flags=tuple(flags)))


def _with_observer(block: Block, observer: str, note: str, flags: tuple[str, ...]) -> Block:
    """Return a block in which the numbers of an observer also stand under the name of the best person."""
    own = _only(block, [observer])
    best = replace(
        own.with_keys([key._replace(observer=BEST) for key in own.keys]),
        notes=(note,) * len(own.keys),
        flags=tuple((*f, *flags) for f in own.flags),
    )
    return join_blocks([block, best])


def _only(block: Block, observers: Iterable[str]) -> Block:
    wanted = set(observers)
    return block.at([i for i, key in enumerate(block.keys) if key.observer in wanted])


def _spread_blocks(accuracies: _Accuracies, models: Sequence[str]) -> list[Block]:
    """Compute the standard deviation across models: of their means, by condition, and over models and conditions."""
    blocks = []
    for block in (*accuracies.by_condition, accuracies.overall):
        own = _only(block, models)
        if len(own.keys) > 1:
            note = f"standard deviation across {len(own.keys)} models"
            blocks.append(_deviation(own, Key(MODELS, None, ACCURACY, "sd"), note))
    cells = [part for cell in accuracies.cells if (part := _only(cell, models)).keys]
    if len(cells) > 1:
        numbers = join_blocks([replace(cell, group=accuracies.overall.group) for cell in cells])
        note = f"standard deviation across {len(numbers.keys)} cells of models, conditions and levels"
        blocks.append(_deviation(numbers, Key(MODELS, None, ACCURACY, "sd", _OVER_CONDITIONS), note))
    return blocks


def _deviation(block: Block, key: Key, note: str) -> Block:
    n, clusters = float(block.n.sum()), float(block.clusters.min())
    value = float(np.std(block.values, ddof=1))
    return single_block(block.group, key, value, np.std(block.resampled, axis=0, ddof=1), n, note, clusters=clusters)


def _order_blocks(laion: Block, other: Block, name: str, models: Sequence[str]) -> list[Block]:
    """Compute Kendall's tau of the models' accuracies on LAION-C and on another set.

    Of a set of corruptions also for the models that reach 60 % there, as in Figure 10.
    """
    both = [model for model in models if all(any(k.observer == model for k in b.keys) for b in (laion, other))]
    x, y = (block.at([[key.observer for key in block.keys].index(model) for model in both]) for block in (laion, other))
    good = np.flatnonzero(y.values >= LEAST_ACCURACY)
    blocks = []
    for index, variant in (
        (np.arange(len(both)), ()),
        (good, ((f"models with accuracy on {name}", f">= {LEAST_ACCURACY}"),)),
    ):
        if len(index) < _LEAST_MODELS or (variant and (len(index) == len(both) or name == CLEAN)):
            continue
        tau = kendall_correlation(x.values[index], y.values[index])
        resampled = kendall_correlation_resampled(x.resampled[index].T, y.resampled[index].T)
        note = f"over {tau.n} models; interval over stimuli"
        key = Key(EXPERIMENT, name, KENDALL, variant=variant)
        blocks.append(
            single_block(ALL_TRIALS, key, tau.value, resampled, float(tau.n), note, clusters=float(x.clusters.min()))
        )
    return blocks


def _consistency(
    table: AlignedTrials, *, resamples: int, confidence: float, seed: int
) -> tuple[list[Block], list[Row]]:
    """Compute error consistency of each model with people's answers, one per image, and people's ceiling.

    For all trials pooled, as in Figure 8, and for each distortion; the mean over distortions does not mix their
    difficulties. The rows are the range of all trials pooled that the accuracies allow.
    """
    distorted = (table.columns["experiment"] == EXPERIMENT) & table.columns["condition"].is_in(list(DISTORTIONS))
    real = table.people & ~table.simulated
    people = real if real.any() else table.people
    shown = (table.answers.response[people] != NOT_SHOWN).any(axis=0)
    used = table.keep(shown & distorted.fill_null(False).to_numpy())
    if not people.any() or not used.models or not used.columns.height:
        return [], []
    pooled = _pool_people(used, people, seed)
    forms = {CONSISTENCY: pair_forms[CONSISTENCY]}
    against = PEOPLE if real.any() else SIMULATED
    count = int(people.sum())

    def consistency(group: StimulusGroup) -> Block:
        draw = draw_resamples(pooled, group, resamples=resamples, seed=seed, merge=False)
        pairs = pairs_of(pooled.people[draw.observer_index], "human-model")
        each = pair_blocks(draw, pairs, forms, confidence)[0]
        notes = tuple(f"{note}; one answer per image, of {count} {against}".removeprefix("; ") for note in each.notes)
        return replace(each.with_keys([key._replace(against=against) for key in each.keys]), notes=notes)

    everything = StimulusGroup(ALL_TRIALS, np.arange(pooled.columns.height))
    groups = [*link_groups(pooled, [everything]), *stimulus_groups(pooled, ("experiment", "condition"))]
    blocks = [consistency(group) for group in groups]
    blocks.append(mean_over_groups(blocks[1:], MEAN_CONSISTENCY, "condition"))
    blocks.append(_ceiling(used, people, against, resamples=resamples, confidence=confidence, seed=seed))
    return blocks, _reachable_rows(pooled, against)


def _reachable_rows(pooled: AlignedTrials, against: str) -> list[Row]:
    """Return the lowest and the highest error consistency that each model can have with people, given accuracies."""
    rows = []
    person = pooled.observers.index(_POOLED)
    for model, observer in enumerate(pooled.observers):
        common = pooled.answers.shown[model] & pooled.answers.shown[person]
        if model == person or not common.any():
            continue
        right = pooled.answers.correct[:, common]
        ends = reachable_kappa(float(right[model].mean()), float(right[person].mean()))
        for statistic, end in zip(("lowest_reachable", "highest_reachable"), ends, strict=True):
            rows.append(
                Row(
                    observer=observer,
                    against=against,
                    measure=CONSISTENCY,
                    statistic=statistic,
                    group=ALL_TRIALS,
                    value=number(end),
                    n=int(common.sum()),
                    flags=() if np.isfinite(end) else ("undefined",),
                )
            )
    return rows


def _pool_people(table: AlignedTrials, people: BoolArray, seed: int) -> AlignedTrials:
    """Return the table with all people as one observer with one answer per image, drawn where there are several."""
    response, rows = table.answers.response, table.rows
    shown = response[people] != NOT_SHOWN
    order = random_stream(seed, "one answer per image").random(shown.shape)
    person = np.flatnonzero(people)[np.where(shown, order, -1.0).argmax(axis=0)]
    column = np.arange(response.shape[1])
    models = np.flatnonzero(~table.people)
    return replace(
        table,
        answers=replace(table.answers, response=np.vstack([response[person, column], response[models]])),
        observers=(_POOLED, *(table.observers[i] for i in models)),
        kinds=("human", *(table.kinds[i] for i in models)),
        rows=np.vstack([rows[person, column], rows[models]]),
    )


def _ceiling(
    table: AlignedTrials, people: BoolArray, against: str, *, resamples: int, confidence: float, seed: int
) -> Block:
    """Compute people's error consistency with each other; undefined, with the reason, where they share no image."""
    key = Key(against, against, CONSISTENCY, CEILING_ONE)
    shared = (table.answers.response[people] != NOT_SHOWN).sum(axis=0) > 1
    if not shared.any():
        note = "undefined: every image was seen by one person, so people cannot be compared with each other"
        undefined = np.full(resamples, np.nan)
        return single_block(ALL_TRIALS, key, float("nan"), undefined, 0.0, note, ("undefined",))
    on_shared = table.keep(shared)
    group = link_groups(on_shared, [StimulusGroup(ALL_TRIALS, np.arange(on_shared.columns.height))])[0]
    draw = draw_resamples(on_shared, group, resamples=resamples, seed=seed, merge=False)
    members = set(np.flatnonzero(people).tolist())
    persons = np.array([int(i) in members for i in draw.observer_index], dtype=np.bool_)
    pairs = pairs_of(persons, "human-human")
    blocks = pair_blocks(draw, pairs, {CONSISTENCY: pair_forms[CONSISTENCY]}, confidence)
    mean = next(block for block in blocks if block.keys[0] == Key(against, against, CONSISTENCY))
    note = f"{mean.notes[0]}; on the {int(shared.sum())} images that several people saw"
    return replace(mean.with_keys([key]), notes=(note,))


# ---- the layout


def laion_c_table(scores: Scores) -> BenchmarkTable:
    """Lay out the rows of `score(..., on="laion-c")`: models by LAION-C mean, people, then the published rows."""
    values = {(row.observer, row.measure, row.group): row for row in scores.rows if row.statistic == "value"}
    columns = _columns(scores.rows)
    overall = {name: row for (name, measure, group), row in values.items() if (measure, group) == (ACCURACY, OVERALL)}
    persons = [name for name in overall if scores.kinds.get(name) in ("human", "simulated")]
    published = [name for name in overall if name.startswith(PREFIX)]
    models = [name for name in overall if name not in (PEOPLE, SIMULATED, BEST, *persons, *published)]
    models.sort(key=lambda name: -(overall[name].value or 0.0))
    people = [name for name in (BEST, PEOPLE, SIMULATED) if name in overall]
    people = people or persons  # of a single person there is no mean
    partial = {name for name in models if "partial" in overall[name].flags}
    complete = [name for name in models if name not in partial]
    best = {column: _best_values(values, complete, column) for column in columns}
    lines = []
    for section, names in (("models", models), ("people", people), ("published", published)):
        for name in names:
            cells = []
            for column in columns:
                row = values.get((name, column.measure, column.group))
                if row is None:
                    cells.append(TableCell())
                    continue
                rank = best[column].index(row.value) + 1 if name in complete and row.value in best[column] else None
                cells.append(TableCell(row, rank=rank, partial=name in partial))
            shown = person_title(overall[name]) if name == BEST else name.removeprefix(PREFIX)
            lines.append(TableLine(name, shown, "", 1, tuple(cells), section, heading=_HEADINGS[section]))
    against = next((row.against for row in scores.rows if row.measure == CONSISTENCY and row.against), "")
    return BenchmarkTable(against, tuple(columns), tuple(lines))


_HEADINGS = {"models": "models", "people": "people", "published": "published (Li et al. 2025, Table 10)"}
_TITLES: Mapping[str, str] = {
    "vertical_lines": "vertical lines",
    "luminance_checkerboard": "luminance",
    "geometric_shapes": "shapes",
}


def _columns(rows: Sequence[Row]) -> list[TableColumn]:
    """Return the columns: undistorted photos, the mean, the distortions, other sets, error consistency."""
    groups = dict.fromkeys(row.group for row in rows if row.measure == ACCURACY and row.statistic == "value")
    columns = [TableColumn("ImageNet", ACCURACY, (("experiment", IMAGENET),))]
    if CLEAN_GROUP in groups:
        columns.append(TableColumn(CLEAN, ACCURACY, CLEAN_GROUP))
    columns.append(TableColumn("LAION-C", ACCURACY, OVERALL, summary=True))
    for name in DISTORTIONS:
        over_levels: GroupKey = (("experiment", EXPERIMENT), ("condition", name), ("level", "*"))
        columns.append(TableColumn(_TITLES.get(name, name), ACCURACY, over_levels))
    for group in groups:
        experiment = dict(group)["experiment"]
        if experiment != EXPERIMENT and group == set_mean(experiment):
            columns.append(TableColumn(experiment, ACCURACY, group))
    if any(row.measure == CONSISTENCY and row.group == ALL_TRIALS for row in rows):
        columns.append(TableColumn("EC", CONSISTENCY, ALL_TRIALS, summary=True))
    return columns


def _best_values(
    values: Mapping[tuple[str, str, GroupKey], Row], models: Sequence[str], column: TableColumn
) -> list[float]:
    """Return the best and the second best value of a column among several models."""
    rows = [values.get((name, column.measure, column.group)) for name in models]
    known = {row.value for row in rows if row is not None and row.value is not None}
    return sorted(known, reverse=True)[:2] if len(models) > 1 else []


def remarks(scores: Scores) -> list[tuple[str, Row | None]]:
    """Return the remarks below the table: spread, order of models, ceiling, meaning of columns."""
    texts: list[tuple[str, Row | None]] = []
    for row in scores.rows:
        if row.statistic == "sd" and row.in_group("condition") == "*":
            texts.append((f"{row.note}, {row.in_group('experiment')}", row))
        if row.measure == KENDALL:
            only = "".join(f", {name} {value}" for name, value in row.group[1:])
            texts.append((f"Kendall's tau of {row.observer} and {row.against}, {row.note}{only}", row))
        if row.statistic == CEILING_ONE:
            known = None if row.value is None else row
            texts.append((f"error consistency of {row.observer} with each other, {row.note}", known))
    texts += [(text, None) for text in _missing_parts(scores.rows)]
    partial = [line.model for line in laion_c_table(scores).lines if any(cell.partial for cell in line.cells)]
    if partial:
        texts.append((f"on fewer images than the others, so neither ranked nor marked: {', '.join(partial)}", None))
    if any(row.measure == CONSISTENCY for row in scores.rows):
        meaning = "EC: error consistency with people, all trials pooled as published; --json has each distortion"
        texts.append((f"{meaning}, and the range of EC that the accuracies allow", None))
    if any(row.observer == BEST for row in scores.rows):
        texts.append((f"{BEST}: chosen by distortion, so a maximum of noisy values", None))
    clean = f"{CLEAN}: the undistorted photos in 16 classes; ImageNet: 1,000 classes, of published rows only"
    return [*texts, (f"{clean}; distortions: mean over five levels; LAION-C: mean over distortions", None)]


def _missing_parts(rows: Sequence[Row]) -> list[str]:
    """Return a warning if there are trials of some distortions or levels only, since means are then of these alone."""
    own = [row for row in rows if row.measure == ACCURACY and "published" not in row.flags]
    own = [row for row in own if row.in_group("experiment") == EXPERIMENT]
    missing = [name for name in DISTORTIONS if not any(row.in_group("condition") == name for row in own)]
    levels = [level for level in _LEVELS if not any(row.in_group("level") == level for row in own)]
    parts = (("distortions", missing), ("levels", levels))
    words = " and ".join(f"{kind} {', '.join(names)}" for kind, names in parts if names)
    advice = "means are over the others, so do not compare them with published ones"
    return [f"no trials of {words}: {advice}"] if words else []


TABLE = TableLayout(
    (ACCURACY, CONSISTENCY), _BY, table_rows, laion_c_table, remarks, answers_only=True, takes_others=True
)

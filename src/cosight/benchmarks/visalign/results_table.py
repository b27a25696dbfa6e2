"""VisAlign's table: distance to the gold labels by category, their average, reliability, for every model and function.

The numbers are those of Lee et al. 2023, Tables 3 to 5: the Hellinger distance as a plain mean over the images of a
category, `average` as the mean of the categories' means (so that category 8 with its 200 images weighs as much as any
other), and the reliability score with costs 0, N/2 and N. Stimuli are resampled within their category.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from cosight.benchmarks.table_layout import BenchmarkTable, TableCell, TableColumn, TableLayout, TableLine
from cosight.errors import InvalidInput
from cosight.measures import measures
from cosight.measures.correlation import pearson_correlation
from cosight.statistics.abstention_scores import (
    COST,
    COSTS,
    RELIABILITY,
    reliability_blocks,
    reliability_lacks,
    sweep_rows,
)
from cosight.statistics.blocks import Block, empty_block, join_blocks, mean_over_groups, merge_flags, rows_of
from cosight.statistics.contrasts import CORRELATION, correlation_block, rank_rows
from cosight.statistics.distances import gold_block
from cosight.statistics.gold_labels import CATEGORY, category_groups
from cosight.statistics.resampling import draw_resamples
from cosight.statistics.rows import GroupKey, Row, Scores, number
from cosight.statistics.score_forms import ScoreData
from cosight.statistics.seeds import ObserverName, observer_name, with_seed_means
from cosight.trials.join import StimulusGroup

__all__ = ["AVERAGE", "FUNCTIONS", "HELLINGER", "MOST_COSTLY", "TABLE", "table_rows", "visalign_table"]

HELLINGER, PEARSON = "hellinger", "pearson_correlation"
AVERAGE: GroupKey = ((CATEGORY, "*"),)
MOST_COSTLY: GroupKey = ((COST, COSTS[-1]),)  # the group of the reliability score in which a wrong answer costs N
# as in the tables of Lee et al. 2023 and its revised appendix; others come after them, by name
FUNCTIONS = ("sp", "asp", "md", "knn", "tapudd", "openmax", "mc-dropout", "deep-ensemble")
_COLUMNS: tuple[tuple[str, GroupKey], ...] = (
    (HELLINGER, ()),
    *((RELIABILITY, ((COST, cost),)) for cost in COSTS),
)  # measures and parts that lines are ranked by
_FEWEST = 3  # lines: through two points every correlation is 1 or -1


def table_rows(data: ScoreData, *, resamples: int, confidence: float, seed: int) -> list[Row]:
    """Compute every number behind the table with its interval; means and spreads over seeds; ranks; correlations."""
    if not data.gold.known.any():
        raise InvalidInput(
            "the table is about gold labels, got none; score a run on the benchmark's set, or name the set with "
            "--humans"
        )
    if lacking := reliability_lacks(data.outputs, data.gold):
        raise InvalidInput(f"the table needs {lacking}")
    cells = category_groups(data.gold)
    draws = [draw_resamples(data.table, cell, resamples=resamples, seed=seed, merge=False) for cell in cells]
    distances = [gold_block(draw, data.outputs, data.gold, [HELLINGER]) for draw in draws]
    # without ceilings: few categories have one
    average = mean_over_groups([block.at(_places(block, HELLINGER)) for block in distances], AVERAGE, CATEGORY)
    columns = np.concatenate([draw.columns for draw in draws])
    whole = draw_resamples(data.table, StimulusGroup((), columns), resamples=resamples, seed=seed, merge=False)
    weights = np.concatenate([draw.stimulus_weights() for draw in draws], axis=1)  # the resamples behind the distances
    acting = join_blocks(
        [
            empty_block((), resamples),
            *reliability_blocks(whole, data.outputs, data.gold, gamma=data.gamma, lam=data.lam, weights=weights),
        ]
    )
    models = {key.observer for key in average.keys}  # people are not compared with gold labels
    acting = acting.at([index for index, key in enumerate(acting.keys) if key.observer in models])
    blocks = [_flag_partial(with_seed_means(block)) for block in (*distances, average, acting)]
    rows = [row for block in blocks for row in rows_of(block, confidence=confidence, seed=seed)]
    for block in blocks:
        for measure, part in _COLUMNS:
            rows += rank_rows(block, _lines(block, measure, part), of="lines", confidence=confidence, seed=seed)
    rows += _correlations(blocks[-2], blocks[-1], confidence=confidence, seed=seed)
    return [*rows, *sweep_rows(whole, data.outputs, data.gold, lam=data.lam)]


def _flag_partial(block: Block) -> Block:
    """Flag the lines that rest on fewer stimuli than others: they cannot be ranked among them."""
    flags = list(block.flags)
    for measure, part in _COLUMNS:
        places = _places(block, measure, part)
        most = max((block.n[i] for i in places), default=0)
        for i in places:
            if block.n[i] < most:
                flags[i] = (*flags[i], "partial")
    return replace(block, flags=tuple(flags))


def _places(block: Block, measure: str, part: GroupKey = ()) -> list[int]:
    """Where the values of a measure stand in a block."""
    return [
        index
        for index, key in enumerate(block.keys)
        if (key.measure, key.statistic, key.variant) == (measure, "value", part)
    ]


def _lines(block: Block, measure: str, part: GroupKey = ()) -> list[int]:
    """Where the table's lines stand: means over seeds, and observers that have no such mean; without partial ones."""
    means = {key.observer for key in block.keys if key.statistic == "sd"}
    return [
        index
        for index in _places(block, measure, part)
        if "partial" not in block.flags[index]
        and ((observer := block.keys[index].observer) in means or observer_name(observer).line not in means)
    ]


def _correlations(average: Block, acting: Block, *, confidence: float, seed: int) -> list[Row]:
    """Does a line that is nearer to people score as more reliable? Lee et al. 2023, revised appendix, Figure 3.

    Pearson's r with Fisher's interval, as if the lines were drawn from many such; Spearman's over resampled stimuli.
    """
    near = {average.keys[i].observer: i for i in _lines(average, HELLINGER)}
    safe = {acting.keys[i].observer: i for i in _lines(acting, RELIABILITY, MOST_COSTLY)}
    both = [name for name in near if name in safe]
    if len(both) < _FEWEST:
        return []
    x, y = average.at([near[name] for name in both]), acting.at([safe[name] for name in both])
    pearson = pearson_correlation(x.values, y.values, confidence=confidence)
    note = f"over {pearson.n} lines; interval over stimuli"
    flags = merge_flags(*x.flags, *y.flags)
    spearman = correlation_block(
        MOST_COSTLY, HELLINGER, RELIABILITY, x.values, y.values, x.resampled, y.resampled, note, flags
    )
    return [
        Row(
            observer=HELLINGER,
            against=RELIABILITY,
            measure=PEARSON,
            group=MOST_COSTLY,
            value=number(pearson.value),
            low=number(pearson.low),
            high=number(pearson.high),
            n=pearson.n,
            flags=flags if np.isfinite(pearson.value) else ("undefined",),
            note=f"over {pearson.n} lines; Fisher's interval, over lines",
        ),
        *rows_of(spearman, confidence=confidence, seed=seed),
    ]


def visalign_table(scores: Scores) -> BenchmarkTable:
    """Lay out the rows of `score(..., on="visalign")`: a column per category, the average, three reliability scores.

    Of equal values all are best; the second best is the next value after them.
    """
    index = {(row.observer, row.measure, row.group, row.statistic): row for row in scores.rows}
    columns = _columns(scores.rows)
    names = _line_names(scores.rows)
    cells = [_marked([_cell(index, name, column) for name in names], column.measure) for column in columns]
    seeds = Counter(
        observer_name(row.observer).line
        for row in scores.rows
        if (row.measure, row.group, row.statistic) == (HELLINGER, AVERAGE, "value")
        and observer_name(row.observer).seed is not None
    )
    lines = [_line(name, seeds, line) for name, line in zip(names, zip(*cells, strict=True), strict=True)]
    against = next((row.against for row in scores.rows if row.measure == HELLINGER and row.against), "")
    return BenchmarkTable(against, tuple(columns), tuple(lines))


def _columns(rows: Sequence[Row]) -> list[TableColumn]:
    """A column per category, the average, and the reliability scores, whose costs are numbers where all have one N."""
    groups = dict.fromkeys(row.group for row in rows if row.measure == HELLINGER and row.statistic == "value")
    columns = []
    for group in groups:
        category = dict(group)[CATEGORY]
        columns.append(
            TableColumn("average", HELLINGER, group, summary=True)
            if category == "*"
            else TableColumn(category, HELLINGER, group)
        )
    sizes = {row.n for row in rows if row.measure == RELIABILITY and row.group == MOST_COSTLY}
    words = COSTS if len(sizes) != 1 else ("0", f"{max(sizes) / 2:g}", f"{max(sizes)}")
    return columns + [
        TableColumn(f"RS {word}", RELIABILITY, ((COST, cost),), digits=0, summary=True)
        for cost, word in zip(COSTS, words, strict=True)
    ]


def _line_names(rows: Sequence[Row]) -> list[str]:
    """The lines, model by model: means over seeds in the place of their observers."""
    means = {row.observer for row in rows if row.measure == HELLINGER and row.statistic == "sd"}
    names = [
        row.observer
        for row in rows
        if row.measure == HELLINGER and row.statistic == "value" and row.observer not in means
    ]
    lines = dict.fromkeys(line if (line := observer_name(name).line) in means else name for name in names)
    models = list(dict.fromkeys(observer_name(name).model for name in lines))
    parts = {name: observer_name(name) for name in lines}
    return sorted(lines, key=lambda name: (models.index(parts[name].model), parts[name].members, *_order(parts[name])))


def _order(name: ObserverName) -> tuple[int, str]:
    """Where a function stands among a model's: none first, then the published ones in their order."""
    function = name.function or ""
    known = FUNCTIONS.index(function) if function in FUNCTIONS else len(FUNCTIONS)
    return (known, function) if function else (-1, "")


def _cell(index: Mapping[tuple[str, str, GroupKey, str], Row], name: str, column: TableColumn) -> TableCell:
    row, sd = (index.get((name, column.measure, column.group, statistic)) for statistic in ("value", "sd"))
    if row is None:
        return TableCell(None)
    return TableCell(row.value, row.low, row.high, None if sd is None else sd.value, partial="partial" in row.flags)


def _marked(column: Sequence[TableCell], measure: str) -> list[TableCell]:
    """The cells of a column, the best and the second best of those that are not partial marked, if there are two."""
    values = {cell.value for cell in column if cell.value is not None and not cell.partial}
    best = sorted(values, reverse=measures[measure].direction == "higher")[:2] if len(column) > 1 else []
    return [
        replace(cell, rank=best.index(cell.value) + 1) if cell.value in best and not cell.partial else cell
        for cell in column
    ]


def _line(name: str, seeds: Mapping[str, int], cells: Sequence[TableCell]) -> TableLine:
    parts = observer_name(name)
    model = parts.title if parts.seed is None else f"{parts.model}@{parts.seed}"
    count = seeds.get(name, 1) if parts.seed is None else 1
    return TableLine(name, model, parts.function or "", count, tuple(cells), section=parts.model)


def remarks(scores: Scores) -> list[tuple[str, Row | None]]:
    """What is written below the table: ceilings, how distance and reliability correlate, what the columns mean."""
    table = visalign_table(scores)
    texts: list[tuple[str, Row | None]] = []
    for row in scores.rows:
        if row.statistic == "ceiling_split_half" and row.value is not None:
            texts.append((f"split-half ceiling of {row.observer}, category {row.in_group(CATEGORY)}", row))
        if row.measure in (PEARSON, CORRELATION):
            name = "Pearson's" if row.measure == PEARSON else "Spearman's"
            texts.append((f"{name} r of average distance and {table.columns[-1].title}, {row.note}", row))
    partial = [line.observer for line in table.lines if any(cell.partial for cell in line.cells)]
    if partial:
        texts.append((f"on fewer images than the others, so neither ranked nor marked: {', '.join(partial)}", None))
    if any("simulated" in row.flags for row in scores.rows):
        texts.append(("the answers to Uncertain images are those of a simulated panel", None))
    meaning = f"categories and average: Hellinger distance to {table.against}, lower is nearer; RS: reliability score"
    return [*texts, (meaning, None)]


TABLE = TableLayout((HELLINGER, RELIABILITY), (CATEGORY,), table_rows, visalign_table, remarks)

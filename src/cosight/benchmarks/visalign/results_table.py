"""VisAlign's results table: distance to the gold labels by category, their average, and reliability.

It has one line per model and abstention function.

The numbers are those of Lee et al. 2023, Tables 3 to 5: the Hellinger distance as a plain mean over the images of a
category, `average` as the mean of the categories' means (so that category 8 with its 200 images weighs as much as any
other), and the reliability score with costs 0, N/2 and N. Stimuli are resampled within their category.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
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
from cosight.statistics.contrasts import rank_rows
from cosight.statistics.correlations import CORRELATION, correlation_block
from cosight.statistics.distances import gold_block
from cosight.statistics.gold_labels import CATEGORY, category_groups
from cosight.statistics.resampling import draw_resamples
from cosight.statistics.rows import GroupKey, Row, Scores, number
from cosight.statistics.score_forms import ScoreData
from cosight.statistics.seeds import observer_name, with_seed_means
from cosight.trials.join import StimulusGroup

__all__ = ["AVERAGE", "FUNCTIONS", "HELLINGER", "MOST_COSTLY", "TABLE", "table_rows", "visalign_table"]

HELLINGER, PEARSON = "hellinger", "pearson_correlation"
AVERAGE: GroupKey = ((CATEGORY, "*"),)
MOST_COSTLY: GroupKey = ((COST, COSTS[-1]),)  # the group of the reliability score in which a wrong answer costs N
# in the order of the tables of Lee et al. 2023 and its revised appendix; others follow, sorted by name
FUNCTIONS = ("sp", "asp", "md", "knn", "tapudd", "openmax", "mc-dropout", "deep-ensemble")
_RANKED: tuple[tuple[str, GroupKey], ...] = (
    (HELLINGER, ()),
    *((RELIABILITY, ((COST, cost),)) for cost in COSTS),
)  # measures and variants by which lines are ranked
_MIN_LINES = 3  # of a correlation: through two points it is always 1 or -1


def table_rows(data: ScoreData, *, resamples: int, confidence: float, seed: int) -> list[Row]:
    """Compute every number of the table with its interval: means and spreads over seeds, ranks, correlations."""
    if not data.gold.known.any():
        raise InvalidInput(
            "the table needs gold labels, got none; score a run on the benchmark's set, or name the set with --humans"
        )
    if missing := reliability_lacks(data.outputs, data.gold):
        raise InvalidInput(f"the table needs {missing}")
    cells = category_groups(data.table, data.gold)
    category_draws = [draw_resamples(data.table, cell, resamples=resamples, seed=seed, merge=False) for cell in cells]
    distances = [gold_block(draw, data.outputs, data.gold, [HELLINGER]) for draw in category_draws]
    # without ceilings: few categories have one
    values = [block.at(_indices(block, HELLINGER)) for block in distances]
    average = mean_over_groups(values, AVERAGE, CATEGORY)
    columns = np.concatenate([draw.columns for draw in category_draws])
    all_draws = draw_resamples(data.table, StimulusGroup((), columns), resamples=resamples, seed=seed, merge=False)
    # the same resamples as those of the distances
    weights = np.concatenate([draw.stimulus_weights() for draw in category_draws], axis=1)
    reliability = join_blocks(
        [
            empty_block((), resamples),
            *reliability_blocks(all_draws, data.outputs, data.gold, gamma=data.gamma, lam=data.lam, weights=weights),
        ]
    )
    models = {key.observer for key in average.keys}  # people are not compared with gold labels
    reliability = reliability.at([index for index, key in enumerate(reliability.keys) if key.observer in models])
    blocks = [_flag_partial(with_seed_means(block)) for block in (*distances, average, reliability)]
    rows = [row for block in blocks for row in rows_of(block, confidence=confidence, seed=seed)]
    for block in blocks:
        for measure, variant in _RANKED:
            rows += rank_rows(
                block, _line_indices(block, measure, variant), of="lines", confidence=confidence, seed=seed
            )
    rows += _correlation_rows(blocks[-2], blocks[-1], confidence=confidence, seed=seed)
    return [*rows, *sweep_rows(all_draws, data.outputs, data.gold, lam=data.lam)]


def _flag_partial(block: Block) -> Block:
    """Flag the lines that rest on fewer stimuli than others: they cannot be ranked among them."""
    flags = list(block.flags)
    for measure, variant in _RANKED:
        indices = _indices(block, measure, variant)
        most = max((block.n[i] for i in indices), default=0)
        for i in indices:
            if block.n[i] < most:
                flags[i] = (*flags[i], "partial")
    return replace(block, flags=tuple(flags))


def _indices(block: Block, measure: str, variant: GroupKey = ()) -> list[int]:
    """Return the indices of the values of a measure in a block."""
    return [
        index
        for index, key in enumerate(block.keys)
        if (key.measure, key.statistic, key.variant) == (measure, "value", variant)
    ]


def _line_indices(block: Block, measure: str, variant: GroupKey = ()) -> list[int]:
    """Return the indices of the table's lines: means over seeds, and observers without such a mean; no partial ones."""
    means = {key.observer for key in block.keys if key.statistic == "sd"}
    return [
        index
        for index in _indices(block, measure, variant)
        if "partial" not in block.flags[index]
        and ((observer := block.keys[index].observer) in means or observer_name(observer).line not in means)
    ]


def _correlation_rows(average: Block, reliability: Block, *, confidence: float, seed: int) -> list[Row]:
    """Correlate the average distance of the lines with their reliability (Lee et al. 2023, revised appendix, Figure 3).

    Pearson's r has Fisher's interval, as if the lines were a sample of many; Spearman's is over resampled stimuli.
    """
    distance_index = {average.keys[i].observer: i for i in _line_indices(average, HELLINGER)}
    reliability_index = {reliability.keys[i].observer: i for i in _line_indices(reliability, RELIABILITY, MOST_COSTLY)}
    lines = [name for name in distance_index if name in reliability_index]
    if len(lines) < _MIN_LINES:
        return []
    x = average.at([distance_index[name] for name in lines])
    y = reliability.at([reliability_index[name] for name in lines])
    pearson = pearson_correlation(x.values, y.values, confidence=confidence)
    flags = merge_flags(*x.flags, *y.flags)
    spearman = correlation_block(
        MOST_COSTLY,
        HELLINGER,
        RELIABILITY,
        x.values,
        y.values,
        x.resampled,
        y.resampled,
        f"over {pearson.n} lines; interval over stimuli",
        flags,
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
    row_of = {(row.observer, row.measure, row.group, row.statistic): row for row in scores.rows}
    columns, names = _columns(scores.rows), _line_names(scores.rows)
    cells_by_column = []
    for column in columns:
        cells = []
        for name in names:
            row, sd = (row_of.get((name, column.measure, column.group, statistic)) for statistic in ("value", "sd"))
            if row is None:
                cells.append(TableCell())
                continue
            cells.append(TableCell(row, sd, partial="partial" in row.flags))
        cells_by_column.append(_rank_cells(cells, column.measure))
    seeds = Counter(
        observer_name(row.observer).line
        for row in scores.rows
        if (row.measure, row.group, row.statistic) == (HELLINGER, AVERAGE, "value")
        and observer_name(row.observer).seed is not None
    )
    lines = []
    for name, line_cells in zip(names, zip(*cells_by_column, strict=True), strict=True):
        parts = observer_name(name)
        model, count = parts.title, seeds.get(name, 1)
        if parts.seed is not None:
            model, count = f"{parts.model}@{parts.seed}", 1
        lines.append(TableLine(name, model, parts.function or "", count, line_cells, section=parts.model))
    against = next((row.against for row in scores.rows if row.measure == HELLINGER and row.against), "")
    return BenchmarkTable(against, tuple(columns), tuple(lines))


def _columns(rows: Sequence[Row]) -> list[TableColumn]:
    """Return a column per category, the average, and the reliability scores.

    Costs in their titles are numbers if all lines have the same N.
    """
    groups = dict.fromkeys(row.group for row in rows if row.measure == HELLINGER and row.statistic == "value")
    columns = []
    for group in groups:
        category = dict(group)[CATEGORY]
        average = category == "*"
        columns.append(TableColumn("average" if average else category, HELLINGER, group, summary=average))
    sizes = {row.n for row in rows if row.measure == RELIABILITY and row.group == MOST_COSTLY}
    titles = COSTS if len(sizes) != 1 else ("0", f"{max(sizes) / 2:g}", f"{max(sizes)}")
    return columns + [
        TableColumn(f"RS {title}", RELIABILITY, ((COST, cost),), digits=0, summary=True)
        for cost, title in zip(COSTS, titles, strict=True)
    ]


def _line_names(rows: Sequence[Row]) -> list[str]:
    """Return the observers of the lines, model by model; means over seeds replace the observers behind them.

    Within a model: no abstention function first, then the published ones in their order, then others by name.
    """
    means = {row.observer for row in rows if row.measure == HELLINGER and row.statistic == "sd"}
    names = [
        row.observer
        for row in rows
        if row.measure == HELLINGER and row.statistic == "value" and row.observer not in means
    ]
    lines = dict.fromkeys(line if (line := observer_name(name).line) in means else name for name in names)
    models = list(dict.fromkeys(observer_name(name).model for name in lines))
    order = {function: index for index, function in enumerate(("", *FUNCTIONS))}

    def position(line: str) -> tuple[int, int, int, str]:
        name = observer_name(line)
        function = name.function or ""
        return models.index(name.model), name.members, order.get(function, len(order)), function

    return sorted(lines, key=position)


def _rank_cells(column: Sequence[TableCell], measure: str) -> list[TableCell]:
    """Mark the best and the second best cell of a column that has several lines; partial cells have no rank."""
    values = {cell.value for cell in column if cell.value is not None and not cell.partial}
    best = sorted(values, reverse=measures[measure].direction == "higher")[:2] if len(column) > 1 else []
    return [
        replace(cell, rank=best.index(cell.value) + 1) if cell.value in best and not cell.partial else cell
        for cell in column
    ]


def remarks(scores: Scores) -> list[tuple[str, Row | None]]:
    """Return the remarks below the table: ceilings, correlation of distance and reliability, meaning of columns."""
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

"""VisAlign's table: distance to the gold labels by category, their average, reliability, for every model and function.

The numbers are those of Lee et al. 2023, Tables 3 to 5: the Hellinger distance as a plain mean over the images of a
category, `average` as the mean of the categories' means (so that category 8 with its 200 images weighs as much as any
other), and the reliability score with costs 0, N/2 and N. Stimuli are drawn again within their category.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cosight.measures.contrast import rank_intervals, ranks
from cosight.measures.correlation import pearson_correlation, rank_correlation, rank_correlation_resampled
from cosight.measures.facts import Direction
from cosight.measures.sums import Weights
from cosight.statistics.abstention_scores import RELIABILITY, reliability_blocks, sweep_rows
from cosight.statistics.blocks import Block, Key, empty, joined, mean_over_groups, rows_of
from cosight.statistics.contrasts import CORRELATION, RANK
from cosight.statistics.gold_distances import gold_block
from cosight.statistics.gold_labels import CATEGORY, Gold, category_cells
from cosight.statistics.outputs import Outputs
from cosight.statistics.resampling import Draw, draw
from cosight.statistics.rows import Row, Scores, group_text, number
from cosight.statistics.seeds import SPREAD, ObserverName, observer_name, with_seed_means
from cosight.trials.join import Cell, Table

__all__ = [
    "FUNCTIONS",
    "HELLINGER",
    "PEARSON",
    "TABLES",
    "BenchmarkTable",
    "TableCell",
    "TableLine",
    "visalign_rows",
    "visalign_table",
]

TABLES = ("visalign", "digits")  # benchmarks that are scored this way
HELLINGER = "hellinger"
PEARSON = "pearson_correlation"
_COSTS = tuple(f"{RELIABILITY}.{label}" for label in ("cost_0", "cost_half", "cost_n"))
_AVERAGE = ((CATEGORY, "*"),)
_DIRECTION: dict[str, Direction] = {HELLINGER: "lower", **dict.fromkeys(_COSTS, "higher")}
# as in the tables of Lee et al. 2023 and its revised appendix; others come after them, by name
FUNCTIONS = ("sp", "asp", "md", "knn", "tapudd", "openmax", "mc-dropout", "deep-ensemble")
_FEWEST = 3  # lines: through two points every correlation is 1 or -1


def visalign_rows(
    table: Table, outputs: Outputs, gold: Gold, *, gamma: float, lam: float, resamples: int, level: float, seed: int
) -> list[Row]:
    """Every number behind the table, with its interval; means and spreads over seeds; ranks; correlations."""
    draws = [draw(table, cell, resamples=resamples, seed=seed, merge=False) for cell in category_cells(gold)]
    distances = [gold_block(drawn, outputs, gold, [HELLINGER]) for drawn in draws]
    average = mean_over_groups([_plain(block) for block in distances], _AVERAGE, CATEGORY)
    columns = np.concatenate([drawn.cell.columns for drawn in draws])
    whole = draw(table, Cell((), columns), resamples=resamples, seed=seed, merge=False)
    found = reliability_blocks(whole, outputs, gold, gamma=gamma, lam=lam, weights=_stratified(draws))
    acting = _of_models(joined([empty((), resamples), *found]), average)
    blocks = [with_seed_means(block) for block in (*distances, average, acting)]
    rows = [row for block in blocks for row in rows_of(block, level=level, seed=seed)]
    rows += [row for block in blocks for row in _rank_rows(block, level=level, seed=seed)]
    rows += _correlations(blocks[-2], blocks[-1], level=level, seed=seed)
    return [*rows, *sweep_rows(whole, outputs, gold, lam=lam)]


def _plain(block: Block) -> Block:
    """Distances without ceilings: a mean over the few categories that have one would be beside the point."""
    return block.at([index for index, key in enumerate(block.keys) if key.measure == HELLINGER])


def _stratified(draws: Sequence[Draw]) -> Weights:
    """How often each column is drawn, one category after the other: the resamples behind the distances."""
    return np.concatenate([drawn.weights() for drawn in draws], axis=1)


def _of_models(acting: Block, average: Block) -> Block:
    """Without people, who are not held against gold labels."""
    models = {key.observer for key in average.keys}
    return acting.at([index for index, key in enumerate(acting.keys) if key.observer in models])


def _lines(block: Block, measure: str) -> list[int]:
    """Where the table's lines stand: means over seeds, and observers that have no such mean."""
    keys = block.keys
    spread = {key.observer for key in keys if key.measure == f"{measure}.{SPREAD}"}
    return [
        index
        for index, key in enumerate(keys)
        if key.measure == measure and (key.observer in spread or observer_name(key.observer).line not in spread)
    ]


def _rank_rows(block: Block, *, level: float, seed: int) -> list[Row]:
    """The rank of each line in each column, 1 the best, with its interval."""
    rows = []
    for measure, direction in _DIRECTION.items():
        index = _lines(block, measure)
        if len(index) < 2:
            continue
        interval = rank_intervals(block.samples[index], direction=direction, level=level)
        for i, place in enumerate(ranks(block.values[index], direction=direction)):
            key, n = block.keys[index[i]], int(block.n[index[i]])
            ends = (number(place), number(interval.low[i]), number(interval.high[i]))
            name, group = f"{measure}.{RANK}", group_text(block.group)
            rows.append(Row(key.observer, key.against, name, group, *ends, n, f"of {len(index)} lines", seed))
    return rows


def _correlations(average: Block, acting: Block, *, level: float, seed: int) -> list[Row]:
    """Does a line that is nearer to people score as more reliable? Lee et al. 2023, revised appendix, Figure 3.

    Pearson's r with Fisher's interval, as if the lines were drawn from many such; Spearman's over resampled stimuli.
    """
    near = {average.keys[i].observer: i for i in _lines(average, HELLINGER)}
    safe = {acting.keys[i].observer: i for i in _lines(acting, _COSTS[-1])}
    both = [name for name in near if name in safe]
    if len(both) < _FEWEST:
        return []
    x, y = average.at([near[name] for name in both]), acting.at([safe[name] for name in both])
    return [_pearson(x, y, level=level), *rows_of(_spearman(x, y), level=level, seed=seed)]


def _pearson(x: Block, y: Block, *, level: float) -> Row:
    found = pearson_correlation(x.values, y.values, level=level)
    ends = (number(found.value), number(found.low), number(found.high))
    note = f"over {found.n} lines; Fisher's interval, over lines"
    return Row(HELLINGER, _COSTS[-1], PEARSON, "", *ends, found.n, note)


def _spearman(x: Block, y: Block) -> Block:
    found = rank_correlation(x.values, y.values)
    samples = rank_correlation_resampled(x.samples.T, y.samples.T)
    key, note = Key(HELLINGER, _COSTS[-1], CORRELATION), f"over {found.n} lines; interval over stimuli"
    return Block((), (key,), np.array([found.value]), samples[None], np.array([float(found.n)]), (note,))


@dataclass(frozen=True, slots=True)
class TableCell:
    """One number of the table."""

    value: float | None
    low: float | None = None
    high: float | None = None
    sd: float | None = None  # over seeds
    place: int | None = None  # 1 the best of its column, 2 the second best


@dataclass(frozen=True, slots=True)
class TableLine:
    """One model with one abstention function; `seeds` is how many the numbers are means of."""

    model: str
    function: str
    seeds: int
    cells: tuple[TableCell, ...]


@dataclass(frozen=True, slots=True)
class BenchmarkTable:
    """The table: a column for each category, the average, and three reliability scores."""

    against: str  # whose labels distances are to
    columns: tuple[str, ...]
    lines: tuple[TableLine, ...]


_Place = tuple[str, str]  # measure and group: what a column is about


def visalign_table(scores: Scores) -> BenchmarkTable:
    """The table as it is printed, from the rows of `score(..., on="visalign")`.

    Of equal values all are best; the second best is the next value after them.
    """
    index = {(row.observer, row.measure, row.group): row for row in scores.rows}
    columns = _columns(scores.rows)
    names = _line_names(scores.rows)
    cells = [[_cell(index, name, column) for name in names] for column in columns]
    marked = [_marked(column, _DIRECTION[measure]) for column, (measure, _) in zip(cells, columns, strict=True)]
    seeds = Counter(observer_name(row.observer).line for row in scores.rows if _is_seed(row))
    lines = [_line(name, seeds, line) for name, line in zip(names, zip(*marked, strict=True), strict=True)]
    against = next((row.against for row in scores.rows if row.measure == HELLINGER and row.against), "")
    return BenchmarkTable(against, tuple(_title(column, scores.rows) for column in columns), tuple(lines))


def _columns(rows: Sequence[Row]) -> list[_Place]:
    groups = [row.group for row in rows if row.measure == HELLINGER]
    return [*((HELLINGER, group) for group in dict.fromkeys(groups)), *((cost, "") for cost in _COSTS)]


def _line_names(rows: Sequence[Row]) -> list[str]:
    """The lines, model by model: means over seeds in the place of their observers."""
    spread = {row.observer for row in rows if row.measure == f"{HELLINGER}.{SPREAD}"}
    names = [row.observer for row in rows if row.measure == HELLINGER and row.observer not in spread]
    lines = dict.fromkeys(line if (line := observer_name(name).line) in spread else name for name in names)
    models = list(dict.fromkeys(observer_name(name).model for name in lines))
    parts = {name: observer_name(name) for name in lines}
    return sorted(lines, key=lambda name: (models.index(parts[name].model), parts[name].members, *_place(parts[name])))


def _place(name: ObserverName) -> tuple[int, str]:
    """Where a function stands among a model's: none first, then the published ones in their order."""
    function = name.function or ""
    known = FUNCTIONS.index(function) if function in FUNCTIONS else len(FUNCTIONS)
    return (known, function) if function else (-1, "")


def _cell(index: dict[tuple[str, str, str], Row], name: str, column: _Place) -> TableCell:
    measure, group = column
    row, sd = index.get((name, measure, group)), index.get((name, f"{measure}.{SPREAD}", group))
    if row is None:
        return TableCell(None)
    return TableCell(row.value, row.low, row.high, None if sd is None else sd.value)


def _marked(column: Sequence[TableCell], direction: Direction) -> list[TableCell]:
    """The cells of a column, the best and the second best marked, where there is anything to choose from."""
    values = {cell.value for cell in column if cell.value is not None}
    best = sorted(values, reverse=direction == "higher")[:2] if len(column) > 1 else []
    return [replace(cell, place=best.index(cell.value) + 1) if cell.value in best else cell for cell in column]


def _is_seed(row: Row) -> bool:
    """Whether this is the average distance of one seed."""
    average = (row.measure, row.group) == (HELLINGER, group_text(_AVERAGE))
    return average and observer_name(row.observer).seed is not None


def _line(name: str, seeds: Mapping[str, int], cells: Sequence[TableCell]) -> TableLine:
    parts = observer_name(name)
    model = parts.title if parts.seed is None else f"{parts.model}@{parts.seed}"
    count = seeds.get(name, 1) if parts.seed is None else 1
    return TableLine(model, parts.function or "", count, tuple(cells))


def _title(column: _Place, rows: Sequence[Row]) -> str:
    """A category's number, `average`, or the reliability score with its cost, in numbers where all have one N."""
    measure, group = column
    if measure == HELLINGER:
        value = group.removeprefix(f"{CATEGORY}=")
        return "average" if value == "*" else value
    sizes = {row.n for row in rows if row.measure == measure and not row.group}
    n = sizes.pop() if len(sizes) == 1 else None
    words = ("0", "N/2", "N") if n is None else ("0", f"{n / 2:g}", f"{n}")
    return f"RS {words[_COSTS.index(measure)]}"

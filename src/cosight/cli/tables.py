"""Tables a person can read: people first, then models, each value with its interval."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from cosight.measures import measures
from cosight.scoring.derived import CORRELATION
from cosight.scoring.groups import GOLD, MODELS, PEOPLE, SIMULATED, SIMULATED_GOLD
from cosight.scoring.rows import Row, Scores
from cosight.scoring.visalign import PEARSON, BenchmarkTable, TableCell, visalign_table

__all__ = ["console", "number_text", "print_benchmark", "print_comparison", "print_scores", "short_name"]


_ORDER = (PEOPLE, SIMULATED, MODELS)


class _Output(Console):
    """Standard output whose reader may go away: `main` takes that as done, where rich would exit with 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def console() -> Console:
    """Standard output; wide where it is not a terminal, so that nothing is cut."""
    width = None if sys.stdout.isatty() else 2000
    return _Output(width=width, highlight=False, markup=False, emoji=False)  # names are data, not markup


def print_comparison(scores: Scores, *, list_pairs: bool) -> None:
    """Comparison scores, an observer a row; with `list_pairs` every pair."""
    out = console()
    _print_fitting(out, lambda whole: _comparison_table(scores, list_pairs, _text(whole)))
    _print_ceilings(out, scores)
    _print_correlations(out, scores)
    out.print(_caption(scores), style="dim")


def print_scores(scores: Scores, *, more: str = "--json") -> None:
    """Scores of single observers, an observer a row; `more` has every number."""
    out = console()
    _print_fitting(out, lambda whole: _score_table(scores, _text(whole)))
    _print_ceilings(out, scores)
    out.print(_caption(scores, more), style="dim")


def print_benchmark(scores: Scores) -> None:
    """A benchmark's table, a model with an abstention function a row, and how distance and reliability go together."""
    out = console()
    found = visalign_table(scores)
    _print_fitting(out, lambda whole: _benchmark_table(found, whole=whole))
    for row in scores.rows:
        if ".ceiling" in row.measure and row.value is not None:
            where = row.group.replace("=", " ")
            out.print(f"split-half ceiling of {row.observer}, {where}: {number_text(row)}")
        if row.measure in (PEARSON, CORRELATION):
            name = "Pearson's" if row.measure == PEARSON else "Spearman's"
            out.print(f"{name} r of average distance and {found.columns[-1]}, {row.note}: {number_text(row)}")
    out.print(f"categories and average: Hellinger distance to {found.against}, lower is nearer; RS: reliability score")
    out.print(f"* best, + second best; \u00b1 standard deviation over seeds; {_caption(scores)}", style="dim")


def _benchmark_table(found: BenchmarkTable, *, whole: bool) -> Table:
    """A line for each model and function."""
    table = _table(["model", "function", *found.columns])
    lines = []
    for line in found.lines:
        texts = [_cell_text(title, cell, whole) for title, cell in zip(found.columns, line.cells, strict=True)]
        lines.append(((line.model.rpartition(" x ")[2], ""), [line.model, line.function, *texts]))
    _add_lines(table, lines)
    return table


def _cell_text(column: str, cell: TableCell, whole: bool) -> str | Text:
    """A value, its mark and its spread over seeds; the `whole` has an interval too, where it sums up a line."""
    if cell.value is None:
        return "-"
    digits = 0 if column.startswith("RS") else 3
    mark, style = {1: (" *", "bold"), 2: (" +", "underline")}.get(cell.place or 0, ("", ""))
    value, spread = f"{cell.value:.{digits}f}", "" if cell.sd is None else f"\u00b1 {cell.sd:.{digits}f}"
    if not whole:
        return Text(f"{value}{mark}\n{spread}".rstrip(), style)
    ends = ""
    if not column.isdigit() and cell.low is not None and cell.high is not None:
        ends = f" [{cell.low:.{digits}f}, {cell.high:.{digits}f}]"
    return Text(f"{value} {spread}".rstrip() + ends + mark, style)


def _print_fitting(out: Console, build: Callable[[bool], Table]) -> None:
    """Print a table as a whole; where the terminal is too narrow for it, the shorter one, with its words folded."""
    table = build(True)
    if Measurement.get(out, out.options.update(max_width=10_000), table).maximum > out.width:
        table = build(False)
        for column in table.columns:
            column.no_wrap, column.overflow = False, "fold"
    out.print(table)


def _text(whole: bool) -> Callable[[Row], str]:
    return number_text if whole else _two_lines


def _comparison_table(scores: Scores, list_pairs: bool, number: Callable[[Row], str]) -> Table:
    columns = [name for name in scores.settings["measure"] if any(row.measure == name for row in scores.rows)]
    grouped = bool(scores.settings["by"])
    table = _table([*(["group"] if grouped else []), "observer", "against", *map(short_name, columns)])
    index = {(row.group, row.observer, row.against, row.measure): number(row) for row in scores.rows}
    lines = []
    for group, observer, against in _pair_lines(scores) if list_pairs else _observer_lines(scores, grouped):
        found = [(index.get((group, observer, against, c)), index.get((group, observer, None, c))) for c in columns]
        cells = [held or alone or "" for held, alone in found]
        if any(cells):
            name = [_group_name(group)] if grouped else []
            lines.append(((group, _section(scores, observer)), [*name, observer, against or "", *cells]))
    _add_lines(table, lines)
    return table


def _score_table(scores: Scores, number: Callable[[Row], str]) -> Table:
    rows = [row for row in scores.rows if "gamma=" not in row.group and ".ceiling" not in row.measure]
    columns = list(dict.fromkeys((row.measure, row.against) for row in rows))
    grouped = bool(scores.settings["by"])
    table = _table([*(["group"] if grouped else []), "observer", *_titles(columns)])
    index = {(row.group, row.observer, (row.measure, row.against)): number(row) for row in rows}
    lines = []
    who = dict.fromkeys((row.group, row.observer) for row in rows)
    groups = list(dict.fromkeys(group for group, _ in who))
    for group, observer in sorted(who, key=lambda w: (groups.index(w[0]), _ORDER.index(_section(scores, w[1])))):
        name = [_group_name(group)] if grouped else []
        cells = [index.get((group, observer, column), "") for column in columns]
        lines.append(((group, _section(scores, observer)), [*name, observer, *cells]))
    _add_lines(table, lines)
    return table


def _titles(columns: Sequence[tuple[str, str | None]]) -> list[str]:
    """A measure's name, and to whom, where it is one of several or people known only by gold labels."""
    often = Counter(measure for measure, _ in columns)
    return [
        f"{short_name(measure)} to {against}"
        if often[measure] > 1 or against in (GOLD, SIMULATED_GOLD)
        else short_name(measure)
        for measure, against in columns
    ]


def short_name(measure: str) -> str:
    """The shortest alias of a measure in capitals where it is an abbreviation, else its name.

    >>> short_name("error_consistency"), short_name("accuracy")
    ('EC', 'accuracy')
    """
    base, _, rest = measure.partition(".")
    if base not in measures:
        return measure.replace("_", " ")
    short = next((alias.upper() for alias in measures[base].aliases if len(alias) <= 4 and alias != "acc"), None)
    name = short or base.replace("_", " ")
    return f"{name} {rest.replace('_', ' ')}" if rest else name


def number_text(row: Row) -> str:
    """A value and its interval.

    >>> number_text(Row("a", "b", "ec", "", .3311, .2763, None, 10))
    '0.331'
    """
    if row.value is None:
        return "-"
    if row.low is None or row.high is None:
        return _digits(row.value)
    return f"{_digits(row.value)} [{_digits(row.low)}, {_digits(row.high)}]"


def _two_lines(row: Row) -> str:
    """A value with its interval under it, for narrow terminals."""
    if row.value is None or row.low is None or row.high is None:
        return number_text(row)
    return f"{_digits(row.value)}\n[{row.low:.2f}\u00a0{row.high:.2f}]"  # kept in one piece where there is room


def _digits(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.0f}"


def _table(headers: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", collapse_padding=True)
    for header in headers:
        table.add_column(header, no_wrap=True)
    return table


def _add_lines(table: Table, lines: Sequence[tuple[tuple[str, str], Sequence[str | Text]]]) -> None:
    """Add lines, with a gap between sections of more than one line."""
    sizes = Counter(section for section, _ in lines)
    last = None
    for section, cells in lines:
        if last is not None and section != last and max(sizes[section], sizes[last]) > 1:
            table.add_row()
        table.add_row(*cells)
        last = section


def _section(scores: Scores, observer: str) -> str:
    """The part of the table a row belongs to."""
    parts = {"human": PEOPLE, "simulated": SIMULATED}
    return observer if observer in _ORDER else parts.get(scores.kinds.get(observer, ""), MODELS)


def _observer_lines(scores: Scores, grouped: bool) -> Iterable[tuple[str, str, str | None]]:
    """One line an observer: held against people, or, where there are none, against whom there is."""
    pairs = list(dict.fromkeys((r.group, r.observer, r.against) for r in scores.rows if "." not in r.measure))
    has_people = any(against == PEOPLE for _, _, against in pairs)
    for group in dict.fromkeys(g for g, _, _ in pairs):
        inside = [(o, a) for g, o, a in pairs if g == group]
        against = PEOPLE if has_people else SIMULATED
        means = [(o, a) for o, a in inside if a in (PEOPLE, SIMULATED, MODELS)]
        near = [(o, a) for o, a in means if a == against or (o, a) == (SIMULATED, SIMULATED)]
        chosen = near or means or inside
        alone = [(o, None) for o, a in inside if a is None and o not in {c for c, _ in chosen}]
        lines = sorted([*chosen, *alone], key=lambda pair: _ORDER.index(_section(scores, pair[0])))
        for observer, other in lines:
            if grouped and observer not in _ORDER and _section(scores, observer) != MODELS:
                continue  # one line for all people in each group; every person is in --json
            yield group, observer, other


def _pair_lines(scores: Scores) -> Iterable[tuple[str, str, str | None]]:
    for row in dict.fromkeys((r.group, r.observer, r.against) for r in scores.rows if "." not in r.measure):
        group, observer, against = row
        if against is not None:
            yield group, observer, against


def _group_name(group: str) -> str:
    """A group as a reader wants it: values, and `mean over` where a key was averaged away."""
    parts = [part.split("=", 1) for part in group.split(";") if part]
    values = [value for _, value in parts if value != "*"]
    over = [key for key, value in parts if value == "*"]
    return " ".join([*values, *([f"mean over {' and '.join(over)}"] if over else [])])


def _print_ceilings(out: Console, scores: Scores) -> None:
    """People's ceilings of the last group: of everything, or of the means."""
    found = [row for row in scores.rows if ".ceiling" in row.measure and row.value is not None]
    for (who, kind), rows in _by_ceiling(found).items():
        last = rows[-1].group
        texts = [f"{short_name(r.measure.split('.')[0])} {number_text(r)}" for r in rows if r.group == last]
        where = f", {_group_name(last)}" if last else ""
        out.print(f"{kind.replace('_', '-')} ceiling of {who}{where}: {', '.join(texts)}")


def _by_ceiling(rows: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
    out: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        out.setdefault((row.observer, row.measure.rsplit(".ceiling_", 1)[1]), []).append(row)
    return out


def _print_correlations(out: Console, scores: Scores) -> None:
    found = [row for row in scores.rows if row.measure == "rank_correlation"]
    if not found:
        return
    pairs = list(dict.fromkeys((row.observer, row.against or "") for row in found))
    table = _table(["Spearman's r", *(f"{short_name(a)} and {short_name(b)}" for a, b in pairs)])
    for group, note in dict.fromkeys((row.group, row.note.split(":")[0]) for row in found):
        cells = {(r.observer, r.against): number_text(r) for r in found if r.group == group and r.note.startswith(note)}
        label = note if note in ("global", "average") else _group_name(group) or "all"
        table.add_row(label, *(cells.get(pair, "") for pair in pairs))
    out.print(table)


def _caption(scores: Scores, more: str = "--json") -> str:
    s = scores.settings
    made = f"value [{s['level']:.0%} interval], {s['resamples']} resamples, seed {s['seed']}"
    return f"{made}; {more} has every number"

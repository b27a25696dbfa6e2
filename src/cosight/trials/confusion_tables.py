"""CSV files of confusion matrices: what remains of observers whose single answers were never published.

The first row names the answers and the first column the true classes; the other cells are counts. A column `na` counts
missing answers.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cosight.arrays import FloatArray
from cosight.errors import InvalidInput
from cosight.trials.file_tables import decode_text, separator_of

__all__ = ["ConfusionTable", "is_confusion_table", "read_confusion_tables"]

_HEAD = 1 << 16  # bytes that a table is recognised by
_MISSING = "na"
_COUNT = re.compile(r"\d+(\.0*)?")
_LISTED = 6  # class names in a message


@dataclass(frozen=True, slots=True, eq=False)
class ConfusionTable:
    """One observer's confusion matrix.

    Args:
        observer: The name of the file without its suffix.
        classes: The classes, in the order of the rows.
        counts: Answers (classes, classes + 1), a row per true class; the last column counts missing answers.
    """

    observer: str
    classes: tuple[str, ...]
    counts: FloatArray


def is_confusion_table(source: object) -> bool:
    """Return whether a source is a CSV file most of whose rows are named as one of its columns.

    >>> _ = Path("model.csv").write_text("truth,cat,dog\\ncat,9,1\\ndog,2,8\\n")
    >>> is_confusion_table("model.csv"), is_confusion_table("sample:edges")
    (True, False)
    """
    if not isinstance(source, str | Path) or not Path(source).is_file():
        return False
    with Path(source).open("rb") as stream:
        head = stream.read(_HEAD)
    separator = separator_of(head)
    if separator is None:
        return False
    lines = decode_text(head).splitlines()
    header, *rows = _cells(lines if len(head) < _HEAD else lines[:-1], separator) or [[]]
    named = [row[0] in header[1:] for row in rows]
    return 2 * sum(named) > len(named) > 0


def read_confusion_tables(paths: list[Path]) -> list[ConfusionTable]:
    """Read confusion matrices about the same classes.

    Args:
        paths: CSV files; cells are separated by commas, semicolons, tabs or |.

    Returns:
        One table per file, all with the classes in the order of the first.

    Raises:
        InvalidInput: A matrix is not square, a count is negative or no whole number, or files have different classes
            or the same name.

    >>> _ = Path("model.csv").write_text("truth,cat,dog\\ncat,9,1\\ndog,2,8\\n")
    >>> read_confusion_tables([Path("model.csv")])[0].counts
    array([[9., 1., 0.],
           [2., 8., 0.]])
    """
    tables = [_read(path) for path in paths]
    names = [table.observer for table in tables]
    if len(set(names)) < len(names):
        twice = max(names, key=names.count)
        raise InvalidInput(f"an observer is called as its file, got two files {twice!r}; rename one")
    first = tables[0].classes
    for path, table in zip(paths, tables, strict=True):
        if set(table.classes) != set(first):
            only = (sorted(set(first) - set(table.classes)), sorted(set(table.classes) - set(first)))
            sides = [
                f"{_listed(names)} only in {file}" for names, file in zip(only, (paths[0], path), strict=True) if names
            ]
            raise InvalidInput(
                f"confusion matrices must be about the same classes, got {' and '.join(sides)}; rename or merge classes"
            )
    return [_in_order(table, first) for table in tables]


def _in_order(table: ConfusionTable, classes: tuple[str, ...]) -> ConfusionTable:
    order = [table.classes.index(name) for name in classes]
    return replace(table, classes=classes, counts=table.counts[order][:, [*order, -1]])


def _read(path: Path) -> ConfusionTable:
    content = path.read_bytes()
    header, *rows = _cells(decode_text(content).splitlines(), separator_of(content[:_HEAD]) or ",")
    answers = header[1:]
    truths = [row[0] for row in rows]
    for names, what in ((answers, "columns"), (truths, "rows")):
        if len(set(names)) < len(names):
            raise InvalidInput(
                f"{path}: a class has one row and one column, got two {what} {max(names, key=names.count)!r}"
            )
    classes = [name for name in answers if name != _MISSING or name in truths]
    if set(classes) != set(truths):
        sides = [
            f"no {what} for {_listed(sorted(missing))}"
            for what, missing in (("row", set(classes) - set(truths)), ("column", set(truths) - set(classes)))
            if missing
        ]
        raise InvalidInput(
            f"{path}: a confusion matrix has a row and a column per class, got {' and '.join(sides)}; add it, with "
            "zeros if need be"
        )
    counts = np.zeros((len(truths), len(classes) + 1))
    for row in rows:
        if len(row) != len(header):
            raise InvalidInput(f"{path}, row {row[0]}: there must be {len(answers)} counts, got {len(row) - 1}")
        for answer, text in zip(answers, row[1:], strict=True):
            column = classes.index(answer) if answer in classes else len(classes)
            counts[classes.index(row[0]), column] = _count(text, f"{path}, row {row[0]}, column {answer}")
    return ConfusionTable(path.stem, tuple(classes), counts)


def _cells(lines: list[str], separator: str) -> list[list[str]]:
    """Return the cells of the lines that are not empty."""
    rows = ([cell.strip() for cell in row] for row in csv.reader(lines, delimiter=separator))
    return [row for row in rows if any(row)]


def _count(text: str, where: str) -> float:
    if not _COUNT.fullmatch(text):
        advice = "multiply fractions by the number of answers" if "." in text else "correct it"
        raise InvalidInput(f"{where}: a count must be a whole number, 0 or more, got {text!r}; {advice}")
    return float(text)


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more

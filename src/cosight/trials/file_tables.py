"""Read Parquet and CSV files as tables, and write CSV; damaged, ambiguous and too large files are refused in one line.

Written CSV files hold no formula of a spreadsheet: `csv_text` puts an apostrophe before such texts, `without_guard`
removes it.
"""

from __future__ import annotations

import csv
import io
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from cosight.errors import InvalidInput, first_line

__all__ = [
    "available_memory",
    "check_memory",
    "compact",
    "csv_text",
    "decode_text",
    "json_objects",
    "parse_cells",
    "probabilities_text",
    "read_metadata",
    "read_parquet",
    "read_text_table",
    "row_locator",
    "separator_of",
    "text_size",
    "with_decimal_points",
    "without_guard",
]

_MARGIN = 0.8  # of the available memory that trials may fill
_TEXT_FACTOR = 4  # bytes in memory per byte of text
_SAMPLE = 1_000  # rows from which the size of a Parquet file in memory is estimated
_SEPARATORS = (",", ";", "\t", "|")
_FORMULA = r"^'*[=+\-@\t\r\n]"  # what a spreadsheet takes for the beginning of a formula, or skips before one
_NUMBER = r"^[+-]?[0-9]+([.,][0-9]+)?$"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")  # byte order marks
_RULES = {"Int64": "a cell is a whole number", "Float64": "a cell is a number"}
_SMALL = 10_000  # rows of a Parquet file that are read without an estimate


def available_memory() -> int | None:
    """Return the bytes of memory that can be used without swapping; None where the system does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows, macOS
        return None


def check_memory(paths: Sequence[Path], needed: int, *, available: int | None = None) -> None:
    """Raise where files need more memory than there is.

    Args:
        paths: The files; messages name the first.
        needed: Bytes that they take in memory.
        available: Bytes of memory (default: what the system has available).
    """
    limit = available_memory() if available is None else available
    if limit is not None and needed > _MARGIN * limit:
        more = f" and {len(paths) - 1} more files" if len(paths) > 1 else ""
        stored = sum(path.stat().st_size for path in paths)
        raise InvalidInput(
            f"{paths[0]}{more}: too large for the memory, {stored / 1e9:.3g} GB that take about {needed / 1e9:.3g} GB "
            f"of {limit / 1e9:.3g} GB available; split it by observer or experiment"
        )


def text_size(paths: Sequence[Path]) -> int:
    """Return about how many bytes of memory text files take as tables."""
    return _TEXT_FACTOR * sum(path.stat().st_size for path in paths)


def read_parquet(path: Path, *, without: Sequence[str] = ()) -> tuple[pl.DataFrame, dict[str, str]]:
    """Read a Parquet file and its metadata.

    Args:
        path: The file.
        without: Columns that are not read.

    Raises:
        InvalidInput: The file is no Parquet file, is damaged, or is larger than the memory.
    """
    with _damaged(path):
        lazy = pl.scan_parquet(path, glob=False).drop(without, strict=False)
        rows = int(lazy.select(pl.len()).collect().item())
        if rows > _SMALL:
            sample = lazy.head(_SAMPLE).collect()
            check_memory([path], int(sample.estimated_size() / max(sample.height, 1) * rows))
        return lazy.collect(), pl.read_parquet_metadata(path)


def compact(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the table with every column that has one value in all rows stored as this value, which takes no memory.

    >>> compact(pl.DataFrame({"observer": ["human:1"] * 2, "image": ["a", "b"]})).rows()
    [('human:1', 'a'), ('human:1', 'b')]
    """
    if not frame.height:
        return frame
    flat = [name for name, kind in frame.schema.items() if not kind.is_nested()]
    same = frame.select(pl.col(name).eq_missing(pl.col(name).first()).all() for name in flat).row(0)
    empty = frame.select(pl.exclude(flat).null_count() == frame.height)
    names = [name for name, one in zip(flat, same, strict=True) if one]
    names += [name for name, none in zip(empty.columns, empty.row(0) if empty.width else (), strict=True) if none]
    return frame.with_columns(pl.lit(frame[name][0], frame.schema[name]).alias(name) for name in names)


def read_metadata(path: Path) -> dict[str, str]:
    """Read the metadata of a Parquet file, without its rows."""
    with _damaged(path):
        return pl.read_parquet_metadata(path)


@contextmanager
def _damaged(path: Path) -> Iterator[None]:
    """Raise InvalidInput where polars finds a file damaged; a panic of its Parquet reader prints nothing."""
    stderr, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError, MemoryError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"{path}: not a readable Parquet file: {first_line(error)}") from error
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(null)


def read_text_table(path: Path, *, separator: str = ",", empty_is_null: bool = True) -> tuple[pl.DataFrame, str]:
    """Read a CSV file as columns of text.

    Args:
        path: The file: UTF-8, with or without a byte order mark, or UTF-16 with one.
        separator: What separates cells.
        empty_is_null: Whether an empty cell is null; else it is an empty text.

    Returns:
        The columns, and the whole text. Blanks around the names of columns are left out, and columns without a name
        are called "Unnamed: 0" (by their position), as pandas does.

    Raises:
        InvalidInput: The file is not text or not a table, or two columns have the same name.
    """
    try:
        data = path.read_bytes()
        text = data.decode("utf-16" if data[:2] in _UTF16 else "utf-8-sig")
        header = next(csv.reader(io.StringIO(text, newline=""), delimiter=separator), [])
        repeated = [name for name, count in Counter(name.strip().lower() for name in header).items() if count > 1]
        if repeated and repeated[0]:
            raise InvalidInput(f"{path}: two columns are called {repeated[0]!r}; rename or remove one")
        names = [name.strip() or f"Unnamed: {index}" for index, name in enumerate(header)]
        body = text.rstrip("\r\n").encode()
        raw = pl.read_csv(
            body,
            infer_schema=False,
            separator=separator,
            empty_string_is_null=empty_is_null,
            new_columns=names if names != header else None,
        )
    except InvalidInput:
        raise
    except (ValueError, csv.Error, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        hint = "; save it as CSV in UTF-8" if isinstance(error, UnicodeError) else ""
        raise InvalidInput(f"{path}: a trial file is CSV text, this is not: {first_line(error)}{hint}") from error
    return raw, text


def decode_text(data: bytes) -> str:
    """Return text in UTF-8, or in UTF-16 with a byte order mark; a mark is left out, and broken bytes too."""
    return data.decode("utf-16" if data[:2] in _UTF16 else "utf-8-sig", errors="ignore")


def separator_of(head: bytes) -> str | None:
    """Return what separates the cells of a CSV file with this beginning; None where it is no table of text.

    >>> separator_of(b"subject;image;response")
    ';'
    """
    header = (decode_text(head).lstrip("\r\n").splitlines() or [""])[0]
    if "\0" in header or not header:
        return None
    counts = {separator: len(next(csv.reader([header], delimiter=separator))) for separator in _SEPARATORS}
    best = max(_SEPARATORS, key=lambda separator: counts[separator])
    return best if counts[best] > 1 else None


def row_locator(tables: Mapping[Path, pl.DataFrame]) -> Callable[[int], str]:
    """Return a function that names the file and row of a row number (from 0) of all tables together."""

    def locate(row: int) -> str:
        for file, table in tables.items():
            if row < table.height:
                return f"{file}, row {row + 1}"
            row -= table.height
        raise IndexError(row)

    return locate


def parse_cells(column: pl.Series, kind: pl.DataType, locate: Callable[[int], str]) -> pl.Series:
    """Return cells of text as values of a trial; raise InvalidInput at the first cell that is none.

    Args:
        column: Text, null where there is no value.
        kind: Type of the values; probabilities are JSON lists of numbers.
        locate: Name of a row (from 0) in the message.
    """
    if kind == pl.List(pl.Float32()):
        numbers = column.str.extract(r"^\[(.*)\]$").str.replace_all(" ", "").str.split(",")
        values = numbers.cast(kind, strict=False)
        bad = column.is_not_null() & values.list.eval(pl.element().is_null()).list.any().fill_null(True)
    else:
        values = column.cast(kind, strict=False)
        bad = column.is_not_null() & values.is_null()
    if bad.any():
        row = int(bad.arg_max() or 0)
        rule = _RULES.get(str(kind), f"a cell holds {kind}")
        raise InvalidInput(f"{locate(row)}, column {column.name}: {rule} or nothing, got {column[row]!r}")
    return values


def with_decimal_points(column: pl.Series) -> pl.Series:
    """Return cells of text with numbers such as 0,5 written as 0.5."""
    return column.str.replace(r"^\s*([+-]?\d+),(\d+)\s*$", "$1.$2")


def json_objects(columns: Sequence[pl.Series]) -> pl.Series:
    """Return one JSON object per row, from name of the column to cell.

    Columns are given as such, because polars takes a name such as `*` for all columns.

    >>> json_objects([pl.Series("*", ["x"]), pl.Series("age", [3])]).to_list()
    ['{"*":"x","age":3}']
    """
    return pl.DataFrame(list(columns)).select(pl.struct(pl.all()).struct.json_encode()).to_series()


def probabilities_text(column: str = "probabilities") -> pl.Expr:
    """Return an expression for probabilities as JSON lists, which `parse_cells` reads."""
    return pl.format("[{}]", pl.col(column).cast(pl.List(pl.String)).list.join(", ")).alias(column)


def csv_text(frame: pl.DataFrame) -> str:
    """Return a table as CSV in which no text is a formula of a spreadsheet: those begin with an apostrophe.

    >>> csv_text(pl.DataFrame({"about": ["=1+1", "-5", "41"], "low": [-0.5, 0.0, 1.0]}))
    "about,low\\n'=1+1,-0.5\\n-5,0.0\\n41,1.0\\n"
    """
    formula = pl.col(pl.String).str.contains(_FORMULA) & ~pl.col(pl.String).str.contains(_NUMBER)
    guarded = pl.when(formula).then(pl.lit("'") + pl.col(pl.String)).otherwise(pl.col(pl.String))
    return frame.with_columns(guarded.name.keep()).write_csv()


def without_guard(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a table of text, read from `csv_text`, without the apostrophes before formulas."""
    guarded = pl.col(pl.String).str.contains(rf"^'{_FORMULA[1:]}")
    text = pl.when(guarded).then(pl.col(pl.String).str.slice(1)).otherwise(pl.col(pl.String))
    return frame.with_columns(text.name.keep())

"""Read Parquet and CSV files as tables; damaged, ambiguous and too large files are refused in one line."""

from __future__ import annotations

import csv
import io
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from cosight.errors import InvalidInput, first_line

__all__ = ["available_memory", "check_memory", "read_metadata", "read_parquet", "read_text_table", "text_size"]

_MARGIN = 0.8  # of the available memory that trials may fill
_TEXT_FACTOR = 4  # bytes in memory per byte of text
_SAMPLE = 1_000  # rows from which the size of a Parquet file in memory is estimated
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


def read_parquet(path: Path) -> tuple[pl.DataFrame, dict[str, str]]:
    """Read a Parquet file and its metadata.

    Raises:
        InvalidInput: The file is no Parquet file, is damaged, or is larger than the memory.
    """
    with _damaged(path):
        lazy = pl.scan_parquet(path, glob=False)
        rows = int(lazy.select(pl.len()).collect().item())
        if rows > _SMALL:
            sample = lazy.head(_SAMPLE).collect()
            check_memory([path], int(sample.estimated_size() / max(sample.height, 1) * rows))
        return pl.read_parquet(path, glob=False), pl.read_parquet_metadata(path)


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
    """Read a CSV file as columns of text; a byte order mark is ignored.

    Args:
        path: The file.
        separator: What separates cells.
        empty_is_null: Whether an empty cell is null; else it is an empty text.

    Returns:
        The columns, and the whole text.

    Raises:
        InvalidInput: The file is not text or not a table, or two columns have the same name.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
        header = next(csv.reader(io.StringIO(text, newline=""), delimiter=separator), [])
        repeated = [name for name, count in Counter(name.strip().lower() for name in header).items() if count > 1]
        if repeated:
            raise InvalidInput(f"{path}: two columns are called {repeated[0]!r}; rename or remove one")
        body = text.rstrip("\r\n").encode()
        raw = pl.read_csv(body, infer_schema=False, separator=separator, empty_string_is_null=empty_is_null)
    except InvalidInput:
        raise
    except (ValueError, csv.Error, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise InvalidInput(f"{path}: a trial file is CSV text, this is not: {first_line(error)}") from error
    return raw, text

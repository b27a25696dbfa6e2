"""Where rows go: a table on the terminal, JSON or CSV in a pipe, a file."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Protocol

import typer

from cosight.cli.options import notify
from cosight.errors import InvalidInput

__all__ = ["Force", "OutFile", "RowOutput", "check_pipe", "row_output", "write_rows"]

OutFile = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FILE",
        help="Also write every row to this .json, .csv or .parquet file; --json and --csv decide for other names.",
        show_default=False,
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")]

_SUFFIXES = {".json": "json", ".csv": "csv", ".parquet": "parquet"}


class Rows(Protocol):
    """A result that is made of rows."""

    @property
    def notices(self) -> tuple[str, ...]:
        """Notes for the reader."""

    def to_json(self) -> str:
        """Return a JSON list of objects."""

    def to_csv(self) -> str:
        """Return CSV with a header."""

    def save(self, path: Path, *, file_format: str | None = None) -> None:
        """Write the rows and how they were made to a file: json, csv or parquet."""


@dataclass(frozen=True, slots=True)
class RowOutput:
    """Where rows go."""

    file: Path | None  # None: standard output
    format: str | None  # json, csv or parquet; None for a table


def check_pipe(option: str, *, advice: str = "use a pipe, or > FILE") -> None:
    """Raise where an option would print long output on a terminal."""
    if sys.stdout.isatty():
        raise InvalidInput(f"{option} is too long for a terminal; {advice}")


def row_output(*, as_json: bool, as_csv: bool, out: Path | None, force: bool) -> RowOutput:
    """Check --json, --csv, --out and --force before anything is computed.

    Raises:
        InvalidInput: Both formats are asked for, rows would be printed on a terminal, or a file exists or has a suffix
            of no known format.
    """
    if as_json and as_csv:
        raise InvalidInput("choose one of --json and --csv, got both")
    asked = "json" if as_json else "csv" if as_csv else None
    if out is None:
        if asked is not None:
            check_pipe(f"--{asked}", advice="add --out FILE or use a pipe")
        return RowOutput(None, asked)
    if asked is None and out.suffix.lower() not in _SUFFIXES:
        raise InvalidInput(f"--out takes a .json, .csv or .parquet file, got {out}; or add --json or --csv")
    if out.is_dir():
        raise InvalidInput(f"--out takes a file, got the folder {out}; add a file name")
    if out.exists() and not force:
        raise InvalidInput(f"{out} exists; choose another name or add --force")
    return RowOutput(out, asked or _SUFFIXES[out.suffix.lower()])


def write_rows(rows: Rows, output: RowOutput, print_table: Callable[[], None]) -> None:
    """Print notices, then write the rows to a file and print the table, or print them as JSON or CSV."""
    notify(rows.notices)
    if output.file is None and output.format is not None:
        typer.echo(rows.to_json() if output.format == "json" else rows.to_csv().rstrip("\n"))
        return
    if output.file is not None:  # before the table, whose reader may close the pipe (`| head`)
        rows.save(output.file, file_format=output.format)
    print_table()
    if output.file is not None:
        typer.echo(f"every row is in {output.file}")

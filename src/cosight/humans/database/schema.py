"""The tables of a study's database, and opening it: SQLite in a file, or PostgreSQL by URL.

* `cosight_studies`        one row per study: the digest of its design, whether it is paused
* `cosight_participants`   one row per participant: a number, no name or address
* `cosight_showings`       one row per showing of an item to a participant, with its answer: one row, so that
                           answering an item and returning it to the pool exclude each other
* `cosight_screening`      one row per answer to a screening question
* `cosight_item_loads`     one row per test item: its unreleased showings, counted when they change, so that the least
                           loaded items of a large set are found without counting all showings

Several studies may share one PostgreSQL database: every key begins with the study's name.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from polars.exceptions import PolarsError

from cosight.errors import InvalidInput, first_line

__all__ = [
    "METADATA",
    "error_reason",
    "loads",
    "open_engine",
    "participants",
    "report_damaged_rows",
    "report_database_errors",
    "screening",
    "showings",
    "studies",
    "write_engine",
]

METADATA = sa.MetaData()
_PSYCOPG = "postgresql+psycopg"  # the driver that the extra `postgres` installs
_DRIVERS = {"sqlite": "sqlite", "postgresql": _PSYCOPG, _PSYCOPG: _PSYCOPG}
_POOL = 12  # connections per process: two write, the threads of the server read
_TIMEOUT = 30.0  # seconds that SQLite waits for another process, such as `cosight study status`

studies = sa.Table(
    "cosight_studies",
    METADATA,
    sa.Column("study", sa.String(200), primary_key=True),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("paused", sa.Boolean, nullable=False),
    sa.Column("secret", sa.String(64), nullable=False),  # of the study's id and the addresses of examples
)
participants = sa.Table(
    "cosight_participants",
    METADATA,
    sa.Column("study", sa.String(200), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),  # from 1
    sa.Column(
        "token", sa.String(64), nullable=False, unique=True
    ),  # sha256: reading the table lets nobody answer for others
    sa.Column("simulated", sa.String(200)),  # "panel" or a model's name; null for a person
    sa.Column("platform_id", sa.String(200)),
    sa.Column("platform", sa.Text),  # JSON: all parameters of the platform's link
    sa.Column("consented", sa.Float(53)),  # times are seconds since 1970
    sa.Column("demographics", sa.Text),  # JSON
    sa.Column("pixels_per_cm", sa.Float(53)),
    sa.Column("code", sa.String(200), nullable=False),
    sa.Column("seen", sa.Float(53), nullable=False),  # the last request for anything but an image
    sa.Column("released", sa.Float(53)),  # when they were considered to have left
    sa.Column("finished", sa.Float(53)),
    sa.UniqueConstraint("study", "platform_id"),
)
showings = sa.Table(
    "cosight_showings",
    METADATA,
    sa.Column("study", sa.String(200), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),  # from 0
    sa.Column("trial", sa.String(64), nullable=False, unique=True),  # its name on the participant's page
    sa.Column("simulated", sa.Boolean, nullable=False),  # people and simulated people are counted separately
    sa.Column("item", sa.String(200), nullable=False),
    sa.Column("role", sa.String(20), nullable=False),
    sa.Column("block", sa.Integer, nullable=False),
    sa.Column("arrangement", sa.Text, nullable=False),  # JSON: the order of options, rows and columns
    sa.Column("repeat_of", sa.Integer),  # the position of the first showing
    sa.Column("form", sa.Integer),
    sa.Column("released", sa.Float(53)),  # when it was returned to the pool, unanswered
    sa.Column("response", sa.Text),  # JSON, as the page sent it
    sa.Column("rt", sa.Float(53)),
    sa.Column("shown", sa.Text),  # JSON: when the image was on the screen, as measured
    sa.Column("input", sa.String(20)),
    sa.Column("received", sa.Float(53)),  # null: not answered
    sa.Index("cosight_showings_load", "study", "simulated", "role", "released", "item"),
)
screening = sa.Table(
    "cosight_screening",
    METADATA,
    sa.Column("study", sa.String(200), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("question", sa.String(200), primary_key=True),
    sa.Column("eligible", sa.Boolean, nullable=False),
    sa.Column("received", sa.Float(53), nullable=False),
)
loads = sa.Table(
    "cosight_item_loads",
    METADATA,
    sa.Column("study", sa.String(200), primary_key=True),
    sa.Column("simulated", sa.Boolean, primary_key=True),
    sa.Column("item", sa.String(200), primary_key=True),
    sa.Column("condition", sa.String(200), nullable=False),  # empty: none
    sa.Column("load", sa.Integer, nullable=False),
    sa.Column("rank", sa.Integer, nullable=False),  # a random order of the items that have the same load
    sa.Index("cosight_item_loads_least", "study", "simulated", "load", "rank"),
    sa.Index("cosight_item_loads_condition", "study", "simulated", "condition", "load", "rank"),
)


def open_engine(folder: Path, url: str | None) -> sa.Engine:
    """Open the database of a study: `answers.sqlite` in its folder, or the one at `url`; create missing tables.

    A new SQLite file can be read by its owner only. PostgreSQL takes a password that `url` does not have from
    PGPASSWORD or a password file, as psql does.
    """
    target = _parse_url(url) if url else sa.URL.create("sqlite", database=str(folder / "answers.sqlite"))
    if target.get_backend_name() == "postgresql":
        engine = sa.create_engine(target, pool_size=_POOL, max_overflow=0, pool_pre_ping=True)
    else:
        engine = _sqlite_engine(Path(str(target.database)))
    try:
        with report_database_errors(folder):
            if engine.dialect.name == "sqlite":
                _check_sqlite(engine)
            METADATA.create_all(engine)
    except BaseException:
        engine.dispose()
        raise
    return engine


@contextmanager
def report_database_errors(folder: Path) -> Iterator[None]:
    """Raise InvalidInput, in one line, for errors of the database in this block."""
    try:
        yield
    except (sa.exc.SQLAlchemyError, UnicodeDecodeError) as error:  # SQLite quotes the bytes of a damaged schema
        reason = error_reason(error) if isinstance(error, sa.exc.SQLAlchemyError) else "its schema is damaged"
        raise InvalidInput(f"cannot use the database of {folder}: {reason}; repair it or choose another") from error


@contextmanager
def report_damaged_rows(folder: Path) -> Iterator[None]:
    """Raise InvalidInput, in one line, where this block cannot make sense of what it read from the database."""
    try:
        yield
    except sa.exc.SQLAlchemyError:
        raise
    except (ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError, PolarsError) as error:
        raise InvalidInput(
            f"the database of {folder} has a row that the study did not write ({first_line(error)}); restore it from "
            "a copy"
        ) from error


def error_reason(error: sa.exc.SQLAlchemyError) -> str:
    """Return what a database says is wrong, in one line. It never has the password or an answer.

    >>> error_reason(sa.exc.OperationalError("insert into t", {"response": "tiger"}, Exception("disk I/O error")))
    'disk I/O error'
    """
    if not isinstance(error, sa.exc.DBAPIError):
        return "it holds values that the study did not write"
    return first_line(error.orig or error, most=300)  # more lines, and the text of `error`, would have answers


def _parse_url(url: str) -> sa.URL:
    try:
        target = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError) as error:
        raise InvalidInput("a database is named by a URL such as postgresql://USER@HOST/NAME") from error
    if target.drivername not in _DRIVERS:
        raise InvalidInput(f"the database must be SQLite or PostgreSQL, got {target.drivername}")
    if target.drivername == "sqlite" and target.database in (None, "", ":memory:"):
        raise InvalidInput("the database must be a file, got SQLite in memory; name a file or leave --db out")
    if "@" in f"{target.host}{target.database}":  # messages about them would have the rest of the password
        raise InvalidInput("the URL of the database has several @; write those of the password as %40")
    return target.set(drivername=_DRIVERS[target.drivername])


def _sqlite_engine(file: Path) -> sa.Engine:
    try:
        os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))  # answers and platform ids: for the owner only
    except OSError as error:
        raise InvalidInput(f"cannot open the database {file}: {error.strerror}; check the path and its mode") from error
    address = f"file:{quote(str(file.resolve()))}?mode=rw"  # rw: never create a second file where the first is gone

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(address, uri=True, timeout=_TIMEOUT, check_same_thread=False)

    url = sa.URL.create("sqlite", database=str(file))
    engine = sa.create_engine(url, creator=connect, poolclass=sa.QueuePool, pool_size=_POOL, max_overflow=0)
    _configure_sqlite(engine)
    return engine


def _check_sqlite(engine: sa.Engine) -> None:
    """Raise a DatabaseError for a file whose pages are damaged: queries would miss rows without a word."""
    with engine.connect() as connection:
        faults = connection.exec_driver_sql("PRAGMA quick_check(1)").scalars().all()
    if faults != ["ok"]:
        raise sa.exc.DatabaseError("PRAGMA quick_check", None, sqlite3.DatabaseError(str(faults[0])))


def write_engine(engine: sa.Engine) -> sa.Engine:
    """Return the same engine for transactions that write: on SQLite they take the lock with their first statement."""
    return engine.execution_options(cosight_writes=True)


def _configure_sqlite(engine: sa.Engine) -> None:
    @sa.event.listens_for(engine, "connect")
    def _make_durable(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # transactions begin where we say, not where the driver guesses
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")  # a committed answer survives a loss of power

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        writes = connection.get_execution_options().get("cosight_writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

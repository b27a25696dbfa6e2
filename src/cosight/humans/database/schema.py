"""The tables of a study's database, and how it is opened: SQLite in a file, or PostgreSQL by URL.

* `cosight_studies`        a row a study: what its design was when the first answer came, whether it is paused
* `cosight_participants`   a row a participant: who they are to us (a number), never who they are
* `cosight_showings`       a row a showing of an item to a participant, and the answer once it is given: one row, so
                           that to answer and to take the item back can never both happen

Several studies may share one PostgreSQL database: every key begins with the study's name.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from cosight.errors import InvalidInput

__all__ = ["METADATA", "engine_at", "opening", "participants", "showings", "studies", "writing"]

METADATA = sa.MetaData()
_PSYCOPG = "postgresql+psycopg"  # the driver that the extra `postgres` installs
_DRIVERS = {"sqlite": "sqlite", "postgresql": _PSYCOPG, _PSYCOPG: _PSYCOPG}
_POOL = 12  # connections a process: one writes, the threads of the server read
_PATIENCE = 30_000  # ms that SQLite waits for another process, say `cosight study status`

studies = sa.Table(
    "cosight_studies",
    METADATA,
    sa.Column("study", sa.String(200), primary_key=True),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("paused", sa.Boolean, nullable=False),
    sa.Column("secret", sa.String(64), nullable=False),  # what addresses of examples are made from
)
participants = sa.Table(
    "cosight_participants",
    METADATA,
    sa.Column("study", sa.String(200), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),  # from 1
    sa.Column("token", sa.String(64), nullable=False, unique=True),  # sha256: who reads the table can answer for nobody
    sa.Column("simulated", sa.String(200)),  # "panel" or a model's name; null for a person
    sa.Column("platform_id", sa.String(200)),
    sa.Column("platform", sa.Text),  # JSON: all that the platform's link said
    sa.Column("consented", sa.Float(53)),  # times are seconds since 1970
    sa.Column("demographics", sa.Text),  # JSON
    sa.Column("pixels_per_cm", sa.Float(53)),
    sa.Column("code", sa.String(200), nullable=False),
    sa.Column("seen", sa.Float(53), nullable=False),  # the last time they asked for anything but an image
    sa.Column("released", sa.Float(53)),  # since when they are taken to have left
    sa.Column("finished", sa.Float(53)),
    sa.UniqueConstraint("study", "platform_id"),
)
showings = sa.Table(
    "cosight_showings",
    METADATA,
    sa.Column("study", sa.String(200), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),  # from 0
    sa.Column("trial", sa.String(64), nullable=False, unique=True),  # what the participant's page calls it
    sa.Column("simulated", sa.Boolean, nullable=False),  # simulated people use up nobody's images but their own
    sa.Column("item", sa.String(200), nullable=False),
    sa.Column("role", sa.String(20), nullable=False),
    sa.Column("block", sa.Integer, nullable=False),
    sa.Column("arrangement", sa.Text, nullable=False),  # JSON: the order of options, rows and columns
    sa.Column("repeat_of", sa.Integer),  # the position of the first showing
    sa.Column("form", sa.Integer),
    sa.Column("released", sa.Float(53)),  # when it went back to the pool, unanswered
    sa.Column("response", sa.Text),  # JSON, as the page sent it
    sa.Column("rt", sa.Float(53)),
    sa.Column("shown", sa.Text),  # JSON: when the image was really on the screen
    sa.Column("input", sa.String(20)),
    sa.Column("received", sa.Float(53)),  # null: not answered
    sa.Index("cosight_showings_load", "study", "simulated", "role", "released", "item"),
)


def engine_at(folder: Path, url: str | None) -> sa.Engine:
    """The database of a study: `answers.sqlite` in its folder, or what `url` names; tables are made where they lack."""
    target = _target(url) if url else sa.URL.create("sqlite", database=str(folder / "answers.sqlite"))
    engine = sa.create_engine(target, pool_size=_POOL, max_overflow=0, **_options(target))
    _prepare(engine)
    with opening(folder):
        METADATA.create_all(engine)
    return engine


@contextmanager
def opening(folder: Path) -> Iterator[None]:
    """Whatever the database refuses meanwhile is told in one line."""
    try:
        yield
    except sa.exc.DBAPIError as error:  # its text may hold the statement, never the password
        reason = " ".join(str(error.orig).split())
        raise InvalidInput(f"the database of {folder} cannot be opened: {reason}; mend it or name another") from error


def _target(url: str) -> sa.URL:
    try:
        target = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError) as error:
        raise InvalidInput("a database is named by a URL such as postgresql://USER:PASSWORD@HOST/NAME") from error
    if target.drivername not in _DRIVERS:
        raise InvalidInput(f"answers are kept in SQLite or PostgreSQL, got {target.drivername}; name one of them")
    if target.drivername == "sqlite" and target.database in (None, "", ":memory:"):
        raise InvalidInput("answers are kept in a file, got SQLite in memory; name a file or leave --db out")
    return target.set(drivername=_DRIVERS[target.drivername])


def writing(engine: sa.Engine) -> sa.Engine:
    """The same engine for transactions that write: on SQLite they hold the lock from their first statement."""
    return engine.execution_options(cosight_writes=True)


def _options(target: sa.URL) -> dict[str, Any]:
    if target.get_backend_name() == "postgresql":
        return {"pool_pre_ping": True}
    return {"connect_args": {"timeout": _PATIENCE / 1000, "check_same_thread": False}}


def _prepare(engine: sa.Engine) -> None:
    if engine.dialect.name != "sqlite":
        return

    @sa.event.listens_for(engine, "connect")
    def _durable(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # transactions begin where we say, not where the driver guesses
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")  # a committed answer survives a loss of power

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        writes = connection.get_execution_options().get("cosight_writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

"""Where a study's answers are kept: reads at any time, writes one group after the other.

One thread writes. It takes what has come in since the last commit, writes it in one transaction, and only then tells
everyone that it is kept: 300 answers a second then cost as many flushes of the disk as it can do, not 300.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Thread
from typing import Any, Generic, TypeVar

import sqlalchemy as sa

from cosight.errors import InvalidInput
from cosight.humans.database.schema import engine_at, opening, showings, studies, writing
from cosight.humans.study.design import Study

__all__ = ["Clock", "Store"]

T = TypeVar("T")
Clock = Callable[[], float]  # seconds since 1970
_MOST_JOBS = 16  # in one transaction: who only answers need not wait for a crowd that signs up
_MOST_ENTRIES = 500


@dataclass(frozen=True, slots=True)
class _Job(Generic[T]):
    """Something to write, and where to tell what came of it."""

    work: Callable[[sa.Connection], T]
    future: Future[T]


@dataclass(frozen=True, slots=True)
class _Entry(Generic[T]):
    """One of many like things, say answers, that are written by one call; `write` is the same for all."""

    entry: Any
    write: Callable[[sa.Connection, list[Any]], list[T | Exception]]
    future: Future[T]


class Store:
    """A study's database. `change` and `join` write and return futures, done when what they wrote is on the disk."""

    def __init__(self, study: Study, engine: sa.Engine, clock: Clock) -> None:
        self.study = study
        self.clock = clock
        self._reading, self._writing = engine, writing(engine)
        self._queue: SimpleQueue[_Job[Any] | _Entry[Any] | None] = SimpleQueue()
        self._thread = Thread(target=self._write, name="cosight-writer", daemon=True)
        self._thread.start()

    @classmethod
    def open(cls, study: Study, url: str | None = None, *, clock: Clock = time.time) -> Store:
        """The database of a study, made where there is none; refused where it holds answers to another design."""
        engine = engine_at(study.root, url)
        try:
            with opening(study.root), writing(engine).begin() as connection:
                _register(connection, study, clock())
        except BaseException:
            engine.dispose()
            raise
        return cls(study, engine, clock)

    @property
    def shared(self) -> bool:
        """Whether several server processes may write at the same time."""
        return self._reading.dialect.name == "postgresql"

    def read(self, query: Callable[[sa.Connection], T]) -> T:
        """What `query` finds."""
        with self._reading.begin() as connection:
            return query(connection)

    def change(self, work: Callable[[sa.Connection], T]) -> Future[T]:
        """Write alone, while nobody else draws or signs up; if `work` raises, nothing of it is kept."""
        job = _Job(work, Future())
        self._queue.put(job)
        return job.future

    def join(self, entry: Any, write: Callable[[sa.Connection, list[Any]], list[T | Exception]]) -> Future[T]:
        """Write `entry` with all others that wait: `write` gets them and gives each a result or what is wrong."""
        one = _Entry(entry, write, Future())
        self._queue.put(one)
        return one.future

    def close(self) -> None:
        """Write what has come in, then let go of the database."""
        self._queue.put(None)
        self._thread.join()
        self._reading.dispose()

    def _write(self) -> None:
        entries: list[_Entry[Any]] = []
        jobs: list[_Job[Any]] = []
        going = True
        while going or entries or jobs:
            going = going and self._collect(entries, jobs)
            self._commit_entries(entries[:_MOST_ENTRIES])
            self._commit_jobs(jobs[:_MOST_JOBS])
            del entries[:_MOST_ENTRIES], jobs[:_MOST_JOBS]

    def _collect(self, entries: list[_Entry[Any]], jobs: list[_Job[Any]]) -> bool:
        """Take all that has come in, wait for it where there is nothing to do; False when no more will come."""
        idle = not (entries or jobs)
        while idle or not self._queue.empty():
            one, idle = self._queue.get(), False
            if one is None:
                return False
            if isinstance(one, _Entry):
                entries.append(one)
            else:
                jobs.append(one)
        return True

    def _commit_entries(self, entries: list[_Entry[Any]]) -> None:
        if not entries:
            return
        try:
            with self._writing.begin() as connection:
                results = entries[0].write(connection, [one.entry for one in entries])
        except Exception as error:  # of the database: nobody's entry is kept, everybody is told
            results = [error] * len(entries)
        for one, result in zip(entries, results, strict=True):
            _tell(one.future, result)

    def _commit_jobs(self, jobs: list[_Job[Any]]) -> None:
        if not jobs:
            return
        try:
            with self._writing.begin() as connection:
                _lock(connection, self.study.name)
                results = [_attempt(connection, job) for job in jobs]
        except Exception as error:
            results = [error] * len(jobs)
        for job, result in zip(jobs, results, strict=True):
            _tell(job.future, result)


def _tell(future: Future[Any], result: Any) -> None:
    if not future.set_running_or_notify_cancel():
        return  # who asked has gone; what they sent is kept all the same
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)


def _attempt(connection: sa.Connection, job: _Job[Any]) -> Any:
    """A job's result or error; what a failed one wrote is taken back, what others wrote stays."""
    try:
        with connection.begin_nested():
            return job.work(connection)
    except sa.exc.DBAPIError as error:
        if error.connection_invalidated:
            raise
        return error
    except Exception as error:
        return error


def _lock(connection: sa.Connection, study: str) -> None:
    """Until this transaction ends, no other process draws images or signs people up (on SQLite: writes)."""
    connection.execute(sa.select(studies.c.study).where(studies.c.study == study).with_for_update())


def _register(connection: sa.Connection, study: Study, now: float) -> None:
    """Enter the study; a design that shows other things is refused once there are answers, else it takes the place."""
    mine = studies.c.study == study.name
    known = connection.execute(sa.select(studies.c.digest).where(mine).with_for_update()).scalar()
    if known is None:
        new = {"study": study.name, "digest": study.digest, "paused": False, "secret": secrets.token_hex(32)}
        connection.execute(_insert_new(connection)(studies).on_conflict_do_nothing(), new)
    elif known != study.digest:
        _refuse_answers(connection, study)
        connection.execute(sa.update(studies).where(mine).values(digest=study.digest))
        open_ones = sa.and_(showings.c.study == study.name, showings.c.released.is_(None))
        connection.execute(sa.update(showings).where(open_ones).values(released=now))


def _insert_new(connection: sa.Connection) -> Any:
    """`INSERT` that two processes may do at once; the two databases spell it alike, SQLAlchemy does not."""
    from sqlalchemy.dialects import postgresql, sqlite

    return postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert


def _refuse_answers(connection: sa.Connection, study: Study) -> None:
    given = sa.select(showings.c.trial).where(showings.c.study == study.name, showings.c.received.is_not(None))
    if connection.execute(given.limit(1)).first():
        raise InvalidInput(
            f"what {study.name} shows must stay the same once there are answers, but study.toml or its set has changed "
            "since; undo that, or give the new design another name"
        )

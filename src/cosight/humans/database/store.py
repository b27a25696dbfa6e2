"""The database of a study: reads at any time, writes in batches.

One thread writes. It takes everything that arrived since the last commit, writes it in one transaction, and only then
acknowledges it: 300 answers per second then cost as many disk flushes as the disk can do, not 300. On PostgreSQL, where
transactions do not exclude each other, answers have a thread of their own, beside the one for all other writes. An
SQLite file that was removed or replaced still takes answers, which nobody would ever find: those are not acknowledged
either.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, Generic, TypeVar

import sqlalchemy as sa

from cosight.errors import CosightError, InvalidInput
from cosight.humans.database.schema import (
    loads,
    open_engine,
    participants,
    report_database_errors,
    showings,
    studies,
    write_engine,
)
from cosight.humans.study.design import Study

__all__ = ["Clock", "RequestError", "SteadyClock", "Store"]

T = TypeVar("T")
Clock = Callable[[], float]  # seconds since 1970
_JOB_SECONDS = 0.005  # after which a transaction takes no more jobs: answers need not wait for a crowd that signs up
_SHARED_JOB_SECONDS = 0.05  # the same on PostgreSQL, where answers do not wait for jobs
_MAX_ENTRIES = 500
_ID_LENGTH = 8  # hexadecimal digits: of 1,000 studies two have the same id once in 8,000 times
_FILES = ("", "-wal")  # suffixes of the files that hold an SQLite database while it is open


@dataclass(frozen=True, slots=True)
class SteadyClock:
    """Seconds since 1970 that do not jump when the system's clock is set; pickled copies agree with each other."""

    start: float = field(default_factory=lambda: time.time() - time.monotonic())

    def __call__(self) -> float:
        """Return the time."""
        return self.start + time.monotonic()


class RequestError(CosightError):
    """A participant's request that cannot be granted, with the HTTP status to send.

    `retry_after` are the seconds after which the same request may be granted; None: it will not be.
    """

    def __init__(self, status: int, reason: str, *, retry_after: int | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class _Job(Generic[T]):
    """A write of its own, and the future of its result."""

    work: Callable[[sa.Connection], T]
    future: Future[T]


@dataclass(frozen=True, slots=True)
class _Entry(Generic[T]):
    """One of many entries, such as answers, that one call writes; `write` is the same for all."""

    entry: Any
    write: Callable[[sa.Connection, list[Any]], list[T | Exception]]
    future: Future[T]


_WriteQueue = SimpleQueue[_Job[Any] | _Entry[Any] | None]


class Store:
    """A study's database. `write_alone` and `write_batched` return futures, done when the data is on the disk.

    `study_id` is drawn when the database is created, so that participants of different studies have different names.
    """

    def __init__(self, study: Study, engine: sa.Engine, clock: Clock, study_id: str) -> None:
        self.study = study
        self.clock = clock
        self.study_id = study_id
        self._read_engine, self._write_engine = engine, write_engine(engine)
        self._files = self._file_identities()
        self._jobs = _WriteQueue()
        self._entries = _WriteQueue() if self.shared else self._jobs
        self._threads = [
            Thread(target=self._write_loop, args=(queue,), name="cosight-writer", daemon=True)
            for queue in {self._jobs, self._entries}
        ]
        for thread in self._threads:
            thread.start()

    @classmethod
    def open(cls, study: Study, url: str | None = None, *, clock: Clock | None = None, register: bool = True) -> Store:
        """Open or create the database of a study. Raises InvalidInput where it has answers to another design.

        `register` replaces a design that nobody has answered yet, and releases its trials. Participants count as
        present from then on: they could not answer before, and the clock may have been set. Whoever only reads leaves
        all that alone: a server may be showing those trials.
        """
        clock = clock or SteadyClock()
        engine = open_engine(study.root, url)
        try:
            with report_database_errors(study.root), write_engine(engine).begin() as connection:
                study_id = _register(connection, study, clock(), replace=register)
                if register:
                    c = participants.c
                    present = (c.study == study.name, c.finished.is_(None), c.released.is_(None))
                    connection.execute(sa.update(participants).where(*present).values(seen=clock()))
        except BaseException:
            engine.dispose()
            raise
        return cls(study, engine, clock, study_id)

    @property
    def shared(self) -> bool:
        """Whether several server processes may write at the same time."""
        return self._read_engine.dialect.name == "postgresql"

    def read(self, query: Callable[[sa.Connection], T]) -> T:
        """Return the result of `query`."""
        with self._read_engine.begin() as connection:
            return query(connection)

    def write_alone(self, work: Callable[[sa.Connection], T]) -> Future[T]:
        """Write under the study's lock, as assignments and registrations need; if `work` raises, it is rolled back."""
        job = _Job(work, Future())
        self._jobs.put(job)
        return job.future

    def write_batched(self, entry: Any, write: Callable[[sa.Connection, list[Any]], list[T | Exception]]) -> Future[T]:
        """Write `entry` in one batch with all others that wait; `write` returns a result or an error per entry."""
        item = _Entry(entry, write, Future())
        self._entries.put(item)
        return item.future

    def close(self) -> None:
        """Write everything that has arrived, then close the database."""
        for queue in {self._jobs, self._entries}:
            queue.put(None)
        for thread in self._threads:
            thread.join()
        self._read_engine.dispose()

    def _write_loop(self, queue: _WriteQueue) -> None:
        entries: list[_Entry[Any]] = []
        jobs: list[_Job[Any]] = []
        is_open = True
        while is_open or entries or jobs:
            is_open = is_open and _collect(queue, entries, jobs)
            self._commit_entries(entries[:_MAX_ENTRIES])
            del entries[:_MAX_ENTRIES]
            del jobs[: self._commit_jobs(jobs)]

    def _file_identities(self) -> list[tuple[int, int] | None]:
        """Return device and inode of the database's files; None for one that is missing. PostgreSQL has no files."""
        if self.shared:
            return []
        return [_identity(Path(f"{self._read_engine.url.database}{suffix}")) for suffix in _FILES]

    def _check_files(self) -> None:
        """Raise where a commit went to a file that is no longer at its path."""
        if self._file_identities() != self._files:
            raise RequestError(
                503,
                f"{self._read_engine.url.database} was removed or replaced while the study is served, so answers are "
                "not accepted; put the file back, or export from the experimenter's page and restart the server",
            )

    def _commit_entries(self, entries: list[_Entry[Any]]) -> None:
        if not entries:
            return
        try:
            with self._write_engine.begin() as connection:
                results = entries[0].write(connection, [item.entry for item in entries])
            self._check_files()
        except Exception as error:  # of the database: no entry was written
            results = [error] * len(entries)
        for item, result in zip(entries, results, strict=True):
            _set_result(item.future, result)

    def _commit_jobs(self, jobs: list[_Job[Any]]) -> int:
        """Write the first jobs, as many as there is time for, and return their number."""
        if not jobs:
            return 0
        results: list[Any] = []
        until = time.monotonic() + (_SHARED_JOB_SECONDS if self.shared else _JOB_SECONDS)
        # until the transaction ends, no other process assigns images or registers people (on SQLite: writes)
        lock = sa.select(studies.c.study).where(studies.c.study == self.study.name).with_for_update()
        try:
            with self._write_engine.begin() as connection:
                connection.execute(lock)
                for job in jobs:
                    results.append(_run_nested(connection, job))
                    if time.monotonic() > until:
                        break
            self._check_files()
        except Exception as error:
            results = [error] * len(jobs)  # the others would fail as well
        for job, result in zip(jobs, results, strict=False):
            _set_result(job.future, result)
        return len(results)


def _collect(queue: _WriteQueue, entries: list[_Entry[Any]], jobs: list[_Job[Any]]) -> bool:
    """Take everything from the queue, waiting if there is nothing to do; return False when it was closed."""
    wait = not (entries or jobs)
    while wait or not queue.empty():
        item, wait = queue.get(), False
        if item is None:
            return False
        if isinstance(item, _Entry):
            entries.append(item)
        else:
            jobs.append(item)
    return True


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _set_result(future: Future[Any], result: Any) -> None:
    if not future.set_running_or_notify_cancel():
        return  # the sender has gone; the data is stored nevertheless
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)


def _run_nested(connection: sa.Connection, job: _Job[Any]) -> Any:
    """Return a job's result or error; a job that fails is rolled back, the others stay."""
    try:
        with connection.begin_nested():
            return job.work(connection)
    except sa.exc.DBAPIError as error:
        if error.connection_invalidated:
            raise
        return error
    except Exception as error:
        return error


def _register(connection: sa.Connection, study: Study, now: float, *, replace: bool) -> str:
    """Insert the study, or update its digest where `replace` says so; return its id.

    Raises InvalidInput for another design once there are answers.
    """
    from sqlalchemy.dialects import postgresql, sqlite

    own_row = studies.c.study == study.name
    digest = connection.execute(sa.select(studies.c.digest).where(own_row).with_for_update()).scalar()
    if digest is None:
        # two processes may insert at the same time
        insert: Any = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
        row = {"study": study.name, "digest": study.digest, "paused": False, "secret": secrets.token_hex(32)}
        connection.execute(insert(studies).on_conflict_do_nothing(), row)
    elif digest != study.digest:
        own_showings = showings.c.study == study.name
        answered = sa.select(showings.c.trial).where(own_showings, showings.c.received.is_not(None)).limit(1)
        if connection.execute(answered).first():
            raise InvalidInput(
                f"study.toml or the set of {study.name} has changed since people answered, and the study would show "
                "something else; undo the change, or give the new design another name"
            )
        if replace:
            connection.execute(sa.update(studies).where(own_row).values(digest=study.digest))
            still_open = sa.and_(own_showings, showings.c.released.is_(None))
            connection.execute(sa.update(showings).where(still_open).values(released=now))
            connection.execute(sa.delete(loads).where(loads.c.study == study.name))  # counted again for the new items
    secret = connection.execute(sa.select(studies.c.secret).where(own_row)).scalar_one()
    return hashlib.sha256(f"study id of {secret}".encode()).hexdigest()[:_ID_LENGTH]

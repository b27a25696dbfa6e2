"""Doing the work of a recipe, in this process or in several: make, encode, write, and say so."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import cv2

from cosight.errors import CosightError, InvalidInput
from cosight.stimuli.images import FileFormat, decode, digest, encode
from cosight.stimuli.recipes import Job, Outcome, Recipe, Unit
from cosight.trials.files import new_file

__all__ = ["OnError", "Task", "leave_with_parent", "results"]

OnError = Literal["stop", "skip"]
Pending = Sequence[tuple[Unit, tuple[Job, ...]]]
_PORTION = 20  # jobs of a unit that are done and noted together; its source is read again for the next


def results(task: Task, pending: Pending, *, workers: int) -> Iterator[list[dict[str, Any]]]:
    """Journal lines of the pending work, a portion of a unit at a time, in the order they finish."""
    if workers < 1:
        raise InvalidInput(f"workers must be at least 1, got {workers}")
    portions = [
        (unit, jobs[start : start + _PORTION]) for unit, jobs in pending for start in range(0, len(jobs), _PORTION)
    ]
    count = min(workers, len(portions))
    if count > 1:
        yield from _spread(task, portions, count)
    else:
        yield from (task(unit, jobs) for unit, jobs in portions)


def _spread(task: Task, portions: Pending, workers: int) -> Iterator[list[dict[str, Any]]]:
    others = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")  # polars' threads do not survive a fork
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_start_worker, initargs=(task,))
    try:
        yield from _as_they_finish(pool, portions, ahead=2 * workers)
    except BaseException as error:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
        if isinstance(error, BrokenProcessPool):
            raise InvalidInput(
                f"a process ended before its work was done (memory?), got {workers} workers; run again with fewer, "
                "what is done is kept"
            ) from error
        raise
    pool.shutdown()


def _as_they_finish(pool: ProcessPoolExecutor, portions: Pending, *, ahead: int) -> Iterator[list[dict[str, Any]]]:
    """Few portions are handed out at a time, so that memory does not grow with their number."""
    waiting: set[Future[list[dict[str, Any]]]] = set()
    queue = iter(portions)
    while True:
        for unit, jobs in queue:
            with _interrupts_held_back():  # an interrupt is the parent's to handle
                waiting.add(pool.submit(_in_worker, unit, jobs))
            if len(waiting) >= ahead:
                break
        if not waiting:
            return
        try:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        except KeyboardInterrupt:
            yield from (future.result() for future in waiting if future.done() and future.exception() is None)
            raise
        failed = [future for future in done if future.exception() is not None]
        yield from (future.result() for future in done if future not in failed)
        for future in failed:
            future.result()


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """An interrupt that comes now is told afterwards, and never to processes that are started now."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@dataclass(frozen=True, slots=True)
class Task:
    """What a worker does with a unit: make, encode, write, and say so in journal lines."""

    recipe: Recipe
    out: Path
    format: FileFormat
    on_error: OnError

    def __call__(self, unit: Unit, jobs: Sequence[Job]) -> list[dict[str, Any]]:
        """Do these jobs of the unit; one journal line each."""
        lines: list[dict[str, Any]] = []
        try:
            for outcome in self.recipe.make(unit, jobs):
                if outcome.error is not None and self.on_error == "stop":
                    raise outcome.error
                lines.append(self._kept(outcome, unit))
        except CosightError as error:
            if self.on_error == "stop":
                raise
            told = {line["job"] for line in lines}
            lines += [self._lost(job, unit, "skipped", str(error)) for job in jobs if job.file not in told]
        return lines

    def _lost(self, job: Job, unit: Unit, outcome: str, reason: str) -> dict[str, Any]:
        return {"job": job.file, "stamp": unit.stamp_when_lost, "row": None, "outcome": outcome, "reason": reason}

    def _kept(self, outcome: Outcome, unit: Unit) -> dict[str, Any]:
        job = outcome.job
        if outcome.error is not None:
            return self._lost(job, unit, "skipped", str(outcome.error))
        if outcome.pixels is None:
            return self._lost(job, unit, "dropped", outcome.reason or "")
        data = encode(outcome.pixels, self.format)
        shown = outcome.pixels if self.format == "png" else decode(data)
        file = f"images/{job.file}.{self.format}"
        with new_file(self.out / file) as draft:
            draft.write_bytes(data)
        row = {**job.facts, **outcome.facts, "stimulus": digest(shown), "file": file}
        return {"job": job.file, "stamp": unit.stamp, "row": row, "size": len(data)}


_task: Task  # the worker process' own


def _start_worker(task: Task) -> None:
    global _task
    _task = task
    cv2.setNumThreads(1)  # the processes share the cores among themselves
    threading.Thread(target=leave_with_parent, daemon=True).start()


def leave_with_parent() -> None:
    """A worker whose parent was killed would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _in_worker(unit: Unit, jobs: Sequence[Job]) -> list[dict[str, Any]]:
    return _task(unit, jobs)

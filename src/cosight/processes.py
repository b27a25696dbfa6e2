"""Worker processes: one pool, which ends with its parent and leaves interrupts to it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeVar

from cosight.arrays import whole_number
from cosight.errors import InvalidInput

__all__ = ["MOST_WORKERS", "core_count", "run_in_workers", "worker_pool"]

MOST_WORKERS = 1024  # processes or threads that one command may start
_INTERRUPT_SECONDS = 0.5  # after which an interrupt is noticed while workers are busy

_T = TypeVar("_T")
_R = TypeVar("_R")
_THREAD_SETTINGS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")  # read when libraries are imported


def core_count() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_in_workers(
    function: Callable[[_T], _R], tasks: Iterable[_T], *, workers: int, initializer: Callable[[], None] | None = None
) -> Iterator[_R]:
    """Yield `function(task)` of each task, in the order in which they finish.

    Few tasks are submitted at a time, so memory does not grow with their number. With one worker everything runs in
    this process, in order. Results that were ready when the user interrupted are yielded before the interrupt.

    Args:
        function: What to do with a task. It is sent to the workers once.
        tasks: Arguments, consumed as workers become free.
        workers: Number of processes.
        initializer: Called once in each worker process.

    Raises:
        InvalidInput: If `workers` is not from 1 to `MOST_WORKERS`, or if a worker process died.
    """
    whole_number(workers, name="--workers", least=1, most=MOST_WORKERS)
    if workers == 1:
        yield from map(function, tasks)
        return
    queue, waiting = iter(tasks), set[Future[_R]]()
    with worker_pool(workers, initializer=_set_function, initargs=(function, initializer)) as pool:
        while True:
            for task in islice(queue, 2 * workers - len(waiting)):
                with _defer_interrupts():
                    waiting.add(pool.submit(_call_function, task))
            if not waiting:
                return
            done = set[Future[_R]]()
            try:
                with _defer_interrupts():
                    done, waiting = wait(waiting, timeout=_INTERRUPT_SECONDS, return_when=FIRST_COMPLETED)
            except KeyboardInterrupt:
                ready = (future for future in {*done, *waiting} if future.done() and future.exception() is None)
                yield from (future.result() for future in ready)
                raise
            yield from (future.result() for future in sorted(done, key=lambda one: one.exception() is not None))


@contextmanager
def worker_pool(
    workers: int,
    *,
    initializer: Callable[..., None] | None = None,
    initargs: tuple[Any, ...] = (),
    one_thread: bool = False,
) -> Iterator[ProcessPoolExecutor]:
    """Start worker processes and end them when the block ends, at once if it ends with an error.

    Workers are spawned (the threads of polars and OpenCV do not survive a fork), so a script needs its
    `if __name__ == "__main__":`. They exit when their parent is killed.

    Args:
        workers: Number of processes.
        initializer: Called once in each worker.
        initargs: Arguments of `initializer`.
        one_thread: Whether numerical libraries use one thread per worker.
    """
    others = set(multiprocessing.active_children())
    environment = {name: os.environ.get(name) for name in _THREAD_SETTINGS}
    if one_thread:
        os.environ.update(dict.fromkeys(_THREAD_SETTINGS, "1"))
    pool = _Pool(
        workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_start_worker,
        initargs=(initializer, initargs),
    )
    try:
        yield pool
    except BaseException as error:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
        if isinstance(error, BrokenProcessPool):
            raise InvalidInput(
                f"a worker process died (out of memory?), got {workers} workers; run again with fewer, finished work "
                "is kept"
            ) from error
        raise
    finally:
        for name, value in environment.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})
    pool.shutdown()


@contextmanager
def _defer_interrupts() -> Iterator[None]:
    """Deliver a SIGINT after the block. Inside, it could leave a lock of the pool taken, and the pool would not end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: received.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if received:
        signal.raise_signal(signal.SIGINT)


class _Pool(ProcessPoolExecutor):
    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit a call. Processes that this starts never see SIGINT: the parent ends them."""
        if not hasattr(signal, "pthread_sigmask"):  # Windows
            return super().submit(function, *args, **kwargs)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return super().submit(function, *args, **kwargs)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start_worker(initializer: Callable[..., None] | None, initargs: tuple[Any, ...]) -> None:
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    if initializer is not None:
        initializer(*initargs)


def _exit_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


_function: Callable[[Any], Any]  # of a worker process


def _set_function(function: Callable[[Any], Any], initializer: Callable[[], None] | None) -> None:
    global _function
    _function = function
    if initializer is not None:
        initializer()


def _call_function(task: Any) -> Any:
    return _function(task)

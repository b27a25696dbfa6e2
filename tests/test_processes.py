"""The worker pool: results, errors, interrupts, and workers that die."""

import operator
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import wait
from functools import partial

import pytest

from cosight.errors import InvalidInput
from cosight.processes import run_in_workers, worker_pool

INTERRUPTED = """
import os, time
from cosight.processes import worker_pool
if __name__ == "__main__":
    with worker_pool(1) as pool:
        print(pool.submit(os.getpid).result(), flush=True)
        pool.submit(time.sleep, 600)
        time.sleep(600)
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_every_result_comes_once(workers):
    assert sorted(run_in_workers(partial(operator.mul, 2), range(20), workers=workers)) == list(range(0, 40, 2))


@pytest.mark.parametrize("workers", [1, 2])
def test_no_tasks(workers):
    assert list(run_in_workers(partial(operator.mul, 2), [], workers=workers)) == []


def test_an_error_of_a_task_is_raised():
    with pytest.raises(ValueError, match="three"):
        list(run_in_workers(int, ["1", "2", "three", "4"], workers=2))


def test_a_dead_worker_gives_one_clear_line():
    with pytest.raises(InvalidInput, match=r"a worker process died \(out of memory\?\), got 2 workers"):
        list(run_in_workers(os._exit, range(5), workers=2))


def test_workers_below_one_are_refused():
    with pytest.raises(InvalidInput, match="workers must be a whole number, 1 to 1,024, got 0"):
        list(run_in_workers(partial(operator.mul, 2), [1], workers=0))


def test_one_thread_per_worker_and_the_environment_restored(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    with worker_pool(1, one_thread=True) as pool:
        assert pool.submit(os.getenv, "OMP_NUM_THREADS").result() == "1"
    assert os.environ["OMP_NUM_THREADS"] == "3"


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_their_parent(tmp_path, how):
    script = tmp_path / "script.py"
    script.write_text(INTERRUPTED)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([sys.executable, script], **pipes, start_new_session=True) as parent:
        worker = int(parent.stdout.readline())
        if how == signal.SIGINT:
            os.killpg(parent.pid, how)  # Ctrl-C, which all processes of a terminal get
        else:
            parent.send_signal(how)
        assert parent.wait(timeout=20) == -how
    for _ in range(200):
        try:
            os.kill(worker, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    pytest.fail("the worker outlived its parent")


def test_an_interrupt_does_not_fall_into_the_locks_of_the_pool(monkeypatch):
    """There it could leave one taken: the pool would wait for it forever when the program ends."""
    waited = []

    def interrupted_wait(futures, **settings):
        signal.raise_signal(signal.SIGINT)
        waited.append(wait(futures, **settings))
        return waited[-1]

    monkeypatch.setattr("cosight.processes.wait", interrupted_wait)
    results, before = [], signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        results.extend(run_in_workers(partial(operator.mul, 2), range(20), workers=2))
    assert len(waited) == 1  # to its end
    assert set(results) >= {future.result() for future in waited[0].done}
    assert signal.getsignal(signal.SIGINT) is before

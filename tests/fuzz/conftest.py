"""Damaged inputs through the real command line: each ends with exit 0, or with exit 2 and one clear line."""

from __future__ import annotations

import signal
import traceback
from contextlib import contextmanager

import numpy as np
import pytest

TARGETS = 14  # fuzzers that share the 100,000 cases of `make test-all`
SHORT = pytest.param(25, id="short")
LONG = pytest.param(100_000 // TARGETS, id="long", marks=pytest.mark.slow)
SECONDS = 60  # within which every case ends


def pytest_generate_tests(metafunc):
    if "cases" in metafunc.fixturenames:
        metafunc.parametrize("cases", [SHORT, LONG])


@contextmanager
def _time_limit():
    def stop(*_):
        raise TimeoutError(f"no end after {SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="session")
def photos_folder(tmp_path_factory):
    """Four small pictures in class folders."""
    from PIL import Image as Pillow

    folder = tmp_path_factory.mktemp("photos")
    for index, name in enumerate(("cat", "cat", "dog", "dog")):
        pixels = np.random.default_rng(index).integers(0, 255, (32, 32, 3), dtype=np.uint8)
        (folder / name).mkdir(exist_ok=True)
        Pillow.fromarray(pixels).save(folder / name / f"{name}{index}.png")
    return folder


@pytest.fixture
def fuzz(cosight):
    """Run `prepare(rng)`, then the command it returns, for each seed; report every seed that misbehaves."""

    def run(cases, prepare, codes=(0, 2)):
        faults = []
        for seed in range(cases):
            arguments = prepare(np.random.default_rng(seed))
            try:
                with _time_limit():
                    done = cosight(*arguments)
            except BaseException as error:  # a panic of the Parquet reader is no Exception
                if isinstance(error, KeyboardInterrupt):
                    raise
                place = traceback.extract_tb(error.__traceback__)[-1]
                faults.append(f"seed {seed}: {arguments}: {type(error).__name__}: {str(error)[:200]} ({place})")
            else:
                faults += [f"seed {seed}: {arguments}: {fault}" for fault in misbehaviour(done, codes)]
            if len(faults) >= 10:
                break
        assert not faults, "\n".join(faults)

    return run


def misbehaviour(done, codes):
    """Yield what is wrong with how a command ended."""
    if done.code not in codes:
        yield f"exit {done.code}: {done.err[-300:]}"
    if done.code == 2:
        lines = [line for line in done.err.splitlines() if not line.startswith("note: ")]
        if len(lines) != 1 or not lines[0].startswith("cosight: "):
            yield f"not one line: {done.err[-300:]!r}"
        if done.out:
            yield f"refused, but printed {done.out[:100]!r}"

"""Reading a million trials beside the bare read of the same file, in seconds and in memory.

Memory is the peak of a process of its own, less what it held before it read, over the size of the table it made.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import polars as pl

from cosight.trials.formats import read, write
from cosight.trials.spaces import label_spaces
from perf.lines import Line, study

__all__ = ["FULL", "Size", "as_files", "lines", "peak", "peers"]

MOST_MEMORY = 6  # times the table's own size


@dataclass(frozen=True, slots=True)
class Size:
    """How much work; the limit holds for FULL."""

    observers: int
    trials: int  # of each observer
    repeats: int


FULL = Size(100, 10_000, 3)


def lines(size: Size) -> Iterator[Line]:
    """Reading our own Parquet and model-vs-human's CSV folders."""
    with tempfile.TemporaryDirectory() as folder:
        files = as_files(size, Path(folder))
        for kind, path in files.items():
            yield from _lines(kind, path, size)


def as_files(size: Size, folder: Path) -> dict[str, Path]:
    """The same simulated trials as a model-vs-human folder and as Parquet."""
    table, names = study(size.observers, size.trials), np.array(label_spaces["model-vs-human-16"].classes)
    home = folder / "csv" / "simulated"
    home.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for i, response in enumerate(table.response):
        person = _person(i, names[response], names[table.truth], rng)
        person.write_csv(home / f"simulated_subject-{i:02d}_session_1.csv")
    write(read(home.parent), folder / "trials.parquet")
    return {"Parquet": folder / "trials.parquet", "model-vs-human CSV": home.parent}


def _person(number: int, response: Any, truth: Any, rng: np.random.Generator) -> pl.DataFrame:
    trials = len(truth)
    return pl.DataFrame(
        {
            "subj": f"subject-{number:02d}",
            "session": 1,
            "trial": np.arange(1, trials + 1),
            "rt": rng.gamma(4, 0.2, trials),
            "object_response": response,
            "category": truth,
            "condition": "0",
            "imagename": [f"{i:05d}_sim_s{number:02d}_0_{t}_00_{t}{i}.png" for i, t in enumerate(truth, 1)],
        }
    )


def _lines(kind: str, path: Path, size: Size) -> Iterator[Line]:
    trials = size.observers * size.trials
    name = f"reading {trials:,} trials, {kind}"
    ours = _best(partial(read, path), size.repeats)
    for peer, call in peers(path).items():
        yield Line(name, f"bare read by {peer}", ours, _best(call, size.repeats), None, faster=False)
    memory = peak(path)
    yield Line(f"{name}: peak memory", "the table's own size", *memory, MOST_MEMORY, faster=False, unit="MB")


def peers(path: Path) -> dict[str, Callable[[], Any]]:
    if path.is_file():
        return {"polars": lambda: pl.read_parquet(path)}
    files = sorted(path.rglob("*.csv"))
    peers: dict[str, Callable[[], Any]] = {"polars": lambda: pl.concat([pl.read_csv(file) for file in files])}
    if find_spec("pandas"):
        import pandas as pd

        peers["pandas"] = lambda: pd.concat([pd.read_csv(file) for file in files])
    return peers


def _best(function: Callable[[], Any], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = perf_counter()
        function()
        times.append(perf_counter() - start)
    return min(times)


_PEAK = """
import os, sys
if child := os.fork():  # a process started by a large one inherits its peak; a forked one starts afresh
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
import json, resource
from cosight.trials.formats import read
unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux kilobytes
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
size = read(sys.argv[1]).frame.estimated_size()
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([(after - before) * unit / 1e6, size / 1e6]))
"""


def peak(path: Path) -> tuple[float, float]:
    """How much memory reading takes at its peak, and how much its table has, in MB."""
    done = subprocess.run([sys.executable, "-c", _PEAK, str(path)], check=True, capture_output=True, text=True)
    used, table = json.loads(done.stdout)
    return float(used), float(table)

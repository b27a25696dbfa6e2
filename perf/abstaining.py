"""Abstention functions on stored features compared with faiss, pytorch-ood and scikit-learn: time and memory.

Features are normal around ten class means; their spread falls with the dimension, as in a network. KNN and MD are timed
for scoring, a mixture for one step of expectation maximisation. Memory is the peak of a separate process, less what it
used before, for fitting and scoring together.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from cosight.models.abstention import Mahalanobis, NearestNeighbours
from cosight.models.abstention.tapudd import Mixture, expect, maximise
from perf.lines import Line, best

__all__ = ["FULL", "Data", "Size", "draw_data", "functions", "lines", "peak"]

_CLASSES = 10
_CLUSTERS = 10
_RIDGE = 1e-6


@dataclass(frozen=True, slots=True)
class Size:
    """Amount of work; the limits apply to FULL."""

    rows: int
    dimensions: int
    queries: int
    repeats: int


FULL = Size(12_500, 768, 900, 5)


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """Training features (rows, D) with their classes, and features to score, float32."""

    features: np.ndarray
    labels: np.ndarray
    queries: np.ndarray

    def save(self, path: Path) -> None:
        np.savez(path, features=self.features, labels=self.labels, queries=self.queries)

    def head(self, count: int) -> Data:
        return Data(self.features[:count], self.labels[:count], self.queries[:count])

    @classmethod
    def load(cls, path: Path) -> Data:
        with np.load(path) as arrays:
            return cls(**arrays)


# comparison: the peer, and how many times faster than it we must be
_LIMITS: dict[str, tuple[str, float]] = {
    # both spend nine tenths of their time in the same matrix product, so: not slower, allowing for noise
    "KNN scoring": ("faiss' flat index", 0.9),
    "MD scoring": ("pytorch-ood", 5),
    "a step of a mixture of 10": ("scikit-learn", 1),
}


def lines(size: Size) -> Iterator[Line]:
    """Measure the speed and memory of each function."""
    import torch

    data, threads = draw_data(size), torch.get_num_threads()
    torch.set_num_threads(1)
    shape = f"{size.rows:,} x {size.dimensions}, {size.queries} queries"
    try:
        for what in _LIMITS:
            yield _speed(what, shape, data, size.repeats)
    finally:
        torch.set_num_threads(threads)
    with tempfile.TemporaryDirectory() as folder:
        data.save(Path(folder) / "data.npz")
        for what in _LIMITS:
            yield _memory(what, shape, Path(folder) / "data.npz")


def draw_data(size: Size) -> Data:
    """Draw the same features every time."""
    rng = np.random.default_rng(0)
    spread = np.arange(1, size.dimensions + 1, dtype=np.float32) ** -0.5
    means = 2 * spread * rng.standard_normal((_CLASSES, size.dimensions), dtype=np.float32)
    labels, query_labels = np.arange(size.rows) % _CLASSES, rng.integers(0, _CLASSES, size.queries)

    def around(classes: np.ndarray) -> np.ndarray:
        return means[classes] + spread * rng.standard_normal((len(classes), size.dimensions), dtype=np.float32)

    return Data(around(labels), labels, around(query_labels))


def _speed(what: str, shape: str, data: Data, repeats: int) -> Line:
    ours, theirs = (best(fit(data), 1 if "step" in what else repeats) for fit in functions(what))
    peer, limit = _LIMITS[what]
    return Line(f"{what}, {shape}", peer, ours, theirs, limit, faster=True)


def _memory(what: str, shape: str, path: Path) -> Line:
    ours, theirs = (peak(what, whose, path) for whose in (0, 1))
    return Line(f"{what}, {shape}: peak memory", _LIMITS[what][0], ours, theirs, None, faster=False, unit="MB")


def functions(what: str) -> tuple[Callable[[Data], Callable[[], Any]], Callable[[Data], Callable[[], Any]]]:
    """Return our function and theirs: each fits to the data and returns the call to time."""
    return {
        "KNN scoring": (_our_neighbours, _faiss),
        "MD scoring": (_our_distances, _pytorch_ood),
        "a step of a mixture of 10": (_our_step, _scikit_learn),
    }[what]


def _our_neighbours(data: Data) -> Callable[[], Any]:
    return partial(NearestNeighbours().fit(data.features, None, None).strangeness, data.queries, None)


def _faiss(data: Data) -> Callable[[], Any]:
    import faiss

    faiss.omp_set_num_threads(1)
    index = faiss.IndexFlatL2(data.features.shape[1])
    index.add(_units(data.features))
    return lambda: np.sqrt(index.search(_units(data.queries), 50)[0][:, -1])


def _units(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _our_distances(data: Data) -> Callable[[], Any]:
    return partial(Mahalanobis().fit(data.features, None, data.labels).strangeness, data.queries, None)


def _pytorch_ood(data: Data) -> Callable[[], Any]:
    from cosight.torchvision_ops import import_torchvision

    import_torchvision()
    import torch
    from pytorch_ood.detector import Mahalanobis as Theirs

    fitted = Theirs(None).fit_features(torch.from_numpy(data.features), torch.from_numpy(data.labels))
    queries = torch.from_numpy(data.queries)
    return lambda: np.sqrt(2 * len(data.features) * fitted.predict_features(queries).numpy())


def _start(data: Data) -> tuple[np.ndarray, np.ndarray]:
    """Return scaled features and initial responsibilities: each row starts in the cluster of its class."""
    rows = data.features.astype(np.float64)
    rows /= rows.std()
    return rows, np.eye(_CLUSTERS)[data.labels]


def _our_step(data: Data) -> Callable[[], Mixture]:
    rows, start = _start(data)
    mixture = maximise(rows, start, _RIDGE, "a mixture")
    return lambda: maximise(rows, expect(mixture.log_densities(rows))[0], _RIDGE, "a mixture")


def _scikit_learn(data: Data) -> Callable[[], Any]:
    from sklearn.mixture import GaussianMixture

    rows, start = _start(data)
    mixture = GaussianMixture(_CLUSTERS, reg_covar=_RIDGE)
    mixture._initialize(rows, start)

    def step() -> Any:
        mixture._m_step(rows, mixture._e_step(rows)[1])
        return mixture

    return step


_PEAK = """
import os, sys
if child := os.fork():  # a process started by a large one inherits its peak; a forked one starts afresh
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
import json, resource
from pathlib import Path
what, whose, path, root = sys.argv[1:]
sys.path.insert(0, root)
from perf.abstaining import Data, functions
data, function = Data.load(Path(path)), functions(what)[int(whose)]
function(data.head(200))()  # imports
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
function(data)()
unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux kilobytes
print(json.dumps((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit / 1e6))
"""


def peak(what: str, whose: int, path: Path) -> float:
    """Measure the peak memory of our (0) or their (1) function, in MB."""
    root = str(Path(__file__).resolve().parents[1])
    command = [sys.executable, "-c", _PEAK, what, str(whose), str(path), root]
    return float(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))

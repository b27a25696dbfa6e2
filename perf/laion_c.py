"""Peak memory of LAION-C on the fly: planned, evaluated, resumed and scored, at 1 % and at 10 % of its 131,040 stimuli.

The model is a function of mean colours: what is measured is everything around it. Images are made one photo at a time,
so evaluating takes the same memory for any number of photos, except for the rows of the plan. Scoring has the rows of
all trials and of the manifest in memory. Either takes some 0.7 kB per stimulus, so peaks grow by about 5 % from 1 % to
10 % of the size. What counts is memory in use: polars' allocator is set to return freed memory at once.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from sklearn.datasets import load_sample_images

from cosight.trials.spaces import label_spaces
from perf.lines import Line

__all__ = ["FULL", "Size", "lines", "peaks", "write_photos"]


@dataclass(frozen=True, slots=True)
class Size:
    """How many photos; each makes 31 stimuli. The limit holds for FULL."""

    few: int
    many: int


FULL = Size(44, 437)

_MODULE = """
import numpy as np


def colours():
    weights = np.random.default_rng(0).normal(size=(3, 1000)).astype(np.float32)

    def answer(images):
        features = images.mean(axis=(2, 3))
        return features @ weights, features

    return answer
"""
_EVALUATE = """
import cosight

model = "python:colours:colours,size=64,mean=0,std=1"
cosight.evaluate(model, on="laion-c", source="photos", out="run", workers=1, progress=False)
"""
_SCORE = """
import cosight

cosight.score("run", on="laion-c", progress=False)
"""
_PROGRAM = """
import resource, subprocess, sys
subprocess.run([sys.executable, "-W", "ignore", "-c", sys.argv[1]], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3)
"""


def lines(size: Size) -> Iterator[Line]:
    """Yield one line per call: megabytes at the larger size and at the smaller."""
    with tempfile.TemporaryDirectory() as folder:
        few, many = (peaks(Path(folder) / str(count), count) for count in (size.few, size.many))
    for name, limit in (("evaluate", 1.1), ("resume", 1.1), ("score", 1.1)):
        what = f"LAION-C, {name}, peak memory, {31 * size.many:,} stimuli"
        yield Line(what, f"{31 * size.few:,} stimuli", many[name], few[name], limit, faster=False, unit="MB")


def peaks(folder: Path, count: int) -> dict[str, float]:
    """Return the megabytes that each call takes at most on so many photos."""
    write_photos(folder / "photos", count)
    (folder / "colours.py").write_text(_MODULE)
    calls = (("evaluate", _EVALUATE), ("resume", _EVALUATE), ("score", _SCORE))
    return {name: _peak(call, folder) for name, call in calls}


def _peak(call: str, folder: Path) -> float:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "_RJEM_MALLOC_CONF": "dirty_decay_ms:0,muzzy_decay_ms:0"}
    environment["PYTHONPATH"] = os.pathsep.join([str(folder), *environment.get("PYTHONPATH", "").split(os.pathsep)])
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, call], capture_output=True, text=True, check=True, cwd=folder, env=environment
    )
    return float(done.stdout.splitlines()[-1])


def write_photos(folder: Path, count: int) -> None:
    """Write parts of two photos, no two alike, in folders of the superclasses."""
    photos = load_sample_images().images
    classes = label_spaces["laion-c-16"].classes
    for index in range(count):
        part = np.roll(photos[index % 2], 13 * index, axis=1)[:256, :256]
        path = folder / classes[index % len(classes)] / f"{index:04d}.jpeg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(cv2.imencode(".jpeg", part, [cv2.IMWRITE_JPEG_QUALITY, 90])[1].tobytes())

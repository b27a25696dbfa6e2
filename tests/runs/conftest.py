"""Fixtures for runs: a folder of small images, models of one's own beside it, and the command line as a process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pillow

from cosight.trials.spaces import label_spaces

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
SUPERCLASSES = label_spaces["laion-c-16"].classes
TINY = "python:tiny:model,size=16,mean=0,std=1"
OTHER = "python:tiny:other,size=16,mean=0,std=1"

# Sums in a fixed order rather than matrix products: the same bits however a library shares out the work.
_TINY = """
import os, time
import numpy as np


def _made(seed, outputs=10):
    weights = np.random.default_rng(seed).normal(size=(48, outputs)).astype(np.float32) * 4

    def answer(images):
        time.sleep(float(os.environ.get("TINY_SECONDS", "0")))
        features = images.reshape(len(images), 3, 4, 4, 4, 4).mean(axis=(3, 5)).reshape(len(images), -1)
        return (features[:, :, None] * weights).sum(axis=1), features

    return answer


def model():
    return _made(int(os.environ.get("TINY_SEED", "0")))


def other():
    return _made(7)


def thousand():
    return _made(0, outputs=1000)


def seven():
    return _made(0, outputs=7)


def logits_only():
    inner = _made(3)
    return lambda images: inner(images)[0]


def sometimes_nan():
    inner = _made(0)

    def answer(images):
        logits, features = inner(images)
        return np.where(images[:, :1, 0, 0] > 0.99, np.nan, logits), features

    return answer
"""


def draw_images(folder, count, *, shape=(40, 48), seed=0, classes=CLASSES):
    """`count` images in class folders, no two alike: a coarse pattern that tells them apart, under noise."""
    rng = np.random.default_rng(seed)
    for place in range(count):
        coarse = np.kron(rng.integers(0, 200, (shape[0] // 8, shape[1] // 8, 3)), np.ones((8, 8, 1)))
        pixels = (coarse + rng.integers(0, 50, (*shape, 3))).astype(np.uint8)
        path = folder / classes[place % len(classes)] / f"{place:04d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Pillow.fromarray(pixels).save(path, compress_level=1)
    return folder


def kept(run):
    """What must be the same after any interruption: every file of trials and features, and the manifest."""
    files = [path for name in ("trials", "features") for path in (run / name).rglob("*") if path.is_file()]
    return {path.relative_to(run).as_posix(): path.read_bytes() for path in [*files, run / "stimuli.parquet"]}


def drafts(run):
    return [path for path in run.rglob("*") if path.name.endswith(".cosight-draft")]


@pytest.fixture(scope="session")
def images(tmp_path_factory):
    """240 images of 40 x 48 in CIFAR-10's classes: three shards of 64 and one of 48."""
    return draw_images(tmp_path_factory.mktemp("images") / "shelf", 240)


@pytest.fixture(scope="session")
def drawn_few_images(tmp_path_factory):
    return draw_images(tmp_path_factory.mktemp("images") / "few", 100, shape=(32, 32), seed=3)


@pytest.fixture
def few_images(drawn_few_images, tmp_path):
    """A folder of 100 images (two shards) that a test may damage."""
    return Path(shutil.copytree(drawn_few_images, tmp_path / "few"))


@pytest.fixture(scope="session")
def workshop(tmp_path_factory):
    """A folder with the module `tiny`, to be in when `python:tiny:model` is asked for."""
    folder = tmp_path_factory.mktemp("workshop")
    (folder / "tiny.py").write_text(_TINY)
    return folder


@pytest.fixture
def in_workshop(workshop, monkeypatch):
    """This process is in the workshop, without threads or seeds from outside."""
    monkeypatch.chdir(workshop)
    monkeypatch.syspath_prepend(str(workshop))
    for name in ("TINY_SECONDS", "TINY_SEED"):
        monkeypatch.delenv(name, raising=False)
    return workshop


@dataclass(frozen=True)
class Command:
    """`cosight` as a process of its own, in the workshop."""

    folder: Path

    def start(self, *arguments, **environment):
        return subprocess.Popen(
            [sys.executable, "-m", "cosight", *map(str, arguments)],
            cwd=self.folder,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments, **environment):
        process = self.start(*arguments, **environment)
        out, err = process.communicate(timeout=120)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@pytest.fixture(scope="session")
def command(workshop):
    return Command(workshop)


@pytest.fixture(scope="session")
def sabotaged(workshop, tmp_path_factory):
    """`sabotaged(moment, count, arguments)`: the command line, killed there; how it ended, what it wrote and told."""
    journal = tmp_path_factory.mktemp("journal") / "journal"
    process = subprocess.Popen(
        [sys.executable, Path(__file__).with_name("saboteur.py")],
        cwd=workshop,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )

    def attempt(moment, count, *arguments, **more):
        task = {"arguments": [*map(str, arguments)], "moment": moment, "count": count, "journal": str(journal), **more}
        print(json.dumps(task), file=process.stdin, flush=True)
        return json.loads(process.stdout.readline())

    yield attempt
    process.stdin.close()
    process.stdout.close()
    process.wait()

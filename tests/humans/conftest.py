"""Small studies of every type, on images drawn here, and a server for them.

`make_study(folder, "classify", images=4, answers=3)` writes a study with its set beside it; `serve_study` serves one in
this process, with a clock that the test sets.
"""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pillow

CLASSES = ("tiger", "zebra", "camel", "bear")
LABELS = ",".join((*CLASSES, "abstain"))
ADMIN = "the-experimenter"
_TABLES = {
    "classify": {"images": 4, "answers": 3, "distractors": 2, "repeats": 1},
    "timed": {"images": 4, "answers": 3, "blocks": 2},
    "2afc": {"images": 3, "answers": 2, "checks": 1},
    "cluster": {"images": 1, "answers": 2, "checks": 1},
    "curate": {"images": 4, "answers": 2},
}
_MORE = {
    "timed": "[[warmup]]\nset = '../set/warm'\nimages = 2\n",
    "curate": "[curate]\nreasons = ['wrong class', 'bad quality']\n",
}


def draw_image(seed, shape=(32, 40)):
    """A coarse pattern; no two seeds are alike."""
    coarse = np.random.default_rng(seed).integers(0, 255, (shape[0] // 8, shape[1] // 8, 3))
    return np.kron(coarse, np.ones((8, 8, 1))).astype(np.uint8)


def write_set(folder, images, *, first=0, condition=("clear", "dark"), **facts):
    """A stimulus set of `images` drawn images with a manifest; `facts` are columns that all rows share."""
    from cosight.stimuli.images import digest
    from cosight.trials.manifest import manifest_frame, write_manifest

    rows = []
    for place in range(images):
        pixels = draw_image(first + place)
        file = folder / "images" / f"secret-name-{first + place:03d}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Pillow.fromarray(pixels).save(file, compress_level=1)
        truth = CLASSES[place % len(CLASSES)]
        row = {"stimulus": digest(pixels), "file": f"images/{file.name}", "image": file.name, "experiment": "drawn"}
        row |= {"truth": truth, "original": truth, "condition": condition[place % len(condition)], "level": 1}
        rows.append({**row, "split": "test", **facts})
    write_manifest(folder, manifest_frame(rows), {"settings": {}})
    return rows


def write_tasks_of(folder, rows):
    """Forced choices between the images of a set: three queries with two options each, one panel of three columns."""
    from cosight.stimuli.tasks import Task, write_tasks

    names = [row["stimulus"] for row in rows]
    pairs = [(f"task-{i}", (names[i],), (names[i + 3], names[i + 6]), (names[i + 3],)) for i in range(3)]
    tasks = [Task(name, "2afc", queries, options, targets) for name, queries, options, targets in pairs]
    tasks.append(Task("panel-0", "cluster", tuple(names[:3]), tuple(names[3:6]), tuple(names[3:6])))
    write_tasks(folder, tasks)


def make_stimuli(folder, images=12):
    """A set with distractors, warm-up images and tasks."""
    rows = write_set(folder, images)
    write_set(folder / "distractors", 4, first=500, truth="abstain", parameters=json.dumps({"clear": True}))
    write_set(folder / "warm", 4, first=600)
    write_tasks_of(folder, rows)
    return folder


@cache
def _drawn_once():
    home = tempfile.mkdtemp(prefix="cosight-set-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    return make_stimuli(Path(home) / "set")


def make_study(folder, kind, *, people="", more="", name="small", **design):
    """Write a study of type `kind` into `folder`/study, its set into `folder`/set where there is none."""
    from cosight.humans.study.texts import new_texts

    if not (folder / "set").exists():
        shutil.copytree(_drawn_once(), folder / "set")
    home = folder / "study"
    home.mkdir(parents=True, exist_ok=True)
    settings = "\n".join(f"{key} = {json.dumps(value)}" for key, value in {**_TABLES[kind], **design}.items())
    labels = f"labels = '{LABELS}'" if kind in ("classify", "timed") else ""
    head = f"name = '{name}'\ntype = '{kind}'\nset = '../set'\nseed = 5\n{labels}\n"
    text = f"{head}[design]\n{settings}\n[participants]\n{people}\n{_MORE.get(kind, '')}{more}"
    (home / "study.toml").write_text(text)
    (home / "texts.toml").write_text(new_texts(kind, abstain=kind in ("classify", "timed")))
    return home


@dataclass
class Clock:
    """A clock that stands still until a test moves it."""

    now: float = 1_800_000_000.0

    def __call__(self):
        return self.now


@dataclass
class ServedStudy:
    """A study that is served in this process."""

    study: object
    pool: object
    store: object
    client: object
    clock: Clock

    def begin(self, *, consent=True, **body):
        """A new participant: the headers that they send."""
        made = self.client.post("/api/sessions", json={"platform": {}, "simulated": None, **body})
        assert made.status_code == 201, made.text
        headers = {"Authorization": f"Bearer {made.json()['token']}"}
        if consent:
            assert self.client.post("/api/session/consent", json={"agreed": True}, headers=headers).status_code == 200
        return headers

    def trials(self, headers):
        return self.client.get("/api/trials", headers=headers).json()["trials"]

    def answer(self, headers, trial, response=None, **more):
        body = {"trial": trial["trial"], "rt": 1.25, "shown": None, "input": "key"}
        body |= {"response": self.response(trial) if response is None else response, **more}
        return self.client.post("/api/answers", json=body, headers=headers)

    def response(self, trial):
        """Some answer that fits the trial."""
        images = trial["images"]
        fitting = {"2afc": "left", "curate": {"keep": True}, "cluster": [0] * len(images.get("rows", ()))}
        return fitting.get(self.study.type, "tiger")

    def take_part(self, **body):
        """A participant from beginning to end: their headers and the completion."""
        headers = self.begin(**body)
        for trial in self.trials(headers):
            assert self.answer(headers, trial).json()["stored"]
        return headers, self.client.post("/api/finish", headers=headers)


@contextmanager
def open_study(folder, url=None):
    """The study in `folder`, served in this process."""
    from starlette.testclient import TestClient

    from cosight.humans.database.store import Store
    from cosight.humans.study.design import read_study
    from cosight.humans.study.pool import load_pool
    from cosight.humans.web.server import make_application

    study, clock = read_study(folder), Clock()
    pool, store = load_pool(study), Store.open(study, url, clock=clock)
    with TestClient(make_application(study, pool, store, admin_token=ADMIN, static=STATIC)) as client:
        yield ServedStudy(study, pool, store, client, clock)


@pytest.fixture
def serve_study(tmp_path):
    """`serve_study("classify", images=4, ...)`: a small study, served in this process."""
    with ExitStack() as stack:

        def make(kind="classify", *, url=None, folder=None, **design):
            return stack.enter_context(open_study(folder or make_study(tmp_path, kind, **design), url))

        yield make


STATIC = {
    "index.html": b"<!doctype html><title>study</title>",
    "admin.html": b"<!doctype html><title>experimenter</title>",
    "page.js": b"'use strict';",
    "icons/tiger.svg": b"<svg xmlns='http://www.w3.org/2000/svg'/>",
}


@pytest.fixture(scope="session")
def crowds():
    """`perf/serving.py`: server processes of their own, and crowds that visit them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[2])  # scripts beside the package, not part of it
        yield import_module("perf.serving")


@pytest.fixture(scope="session")
def postgres(crowds):
    """The URL of a PostgreSQL server of our own, gone when the tests end; skipped where there is none."""
    missing = crowds.missing_postgres()
    if missing:
        pytest.skip(missing)
    with crowds.postgres_server() as url:
        yield url

"""Fixtures of all tests."""

from __future__ import annotations

import functools
import os
import signal
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings

_ROOT = Path(__file__).parents[1]

# A shell starts background jobs with SIGINT ignored, which processes inherit: tests of Ctrl-C would wait in vain.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No deadline: a busy machine is no bug. In CI the same examples every time, so that a failure there is the change's.
settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, max_examples=20)  # fewer: it has little time
settings.load_profile("ci" if os.environ.get("CI") else "here")


def _mirror_folder() -> Path:
    return _ROOT / os.environ.get("COSIGHT_MIRROR", "../shared/data")


@pytest.fixture(scope="session", autouse=True)
def _state_folder(tmp_path_factory):
    """Keys of run records are not written to the home of whoever runs the tests; processes inherit the folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(autouse=True)
def _forget_modules_of_tests(tmp_path_factory):
    """A module that a test wrote is not imported by the next test that writes one of the same name."""
    yield
    written = str(tmp_path_factory.getbasetemp())
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(written):
            del sys.modules[name]


@pytest.fixture
def forget_measures(monkeypatch):
    """Measures that an example or a page registers are forgotten afterwards."""
    from cosight.measures import measures, pair_forms

    for registry in (measures, pair_forms):
        list(registry)  # load it
        monkeypatch.setattr(registry, "_entries", {**registry._entries})


@pytest.fixture(scope="session")
def mirror() -> Path:
    """The folder of public data sets (COSIGHT_MIRROR, else ../shared/data beside the repository), or skip."""
    folder = _mirror_folder()
    if not folder.is_dir():
        pytest.skip(f"no mirror of the public data at {folder}; set COSIGHT_MIRROR")
    return folder


@pytest.fixture(scope="session")
def mirror_or_none() -> Path | None:
    """The mirror, or None: for tests that check less without it."""
    folder = _mirror_folder()
    return folder if folder.is_dir() else None


@pytest.fixture(scope="module")
def one_torch_thread():
    """Small networks wait for threads longer than they compute, and the tests share the machine."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


@pytest.fixture(scope="session")
def _build_command_once():
    """Typer builds all commands anew for every call, which takes longer than most of the calls that tests make."""
    import typer.main

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", functools.cache(typer.main.get_command))
        yield


@pytest.fixture
def cosight(capsys, monkeypatch, _build_command_once):
    """The command line in this process: `cosight("compare", path)` gives its exit code and what it printed."""
    from cosight.cli.app import main

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["cosight", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return Ended(int(ended.value.code or 0), printed.out, printed.err)

    return run


@pytest.fixture
def full_disk():
    """`with full_disk(1000):` no file may grow beyond so many bytes; Python ignores the signal, and writing fails."""
    resource = pytest.importorskip("resource")

    @contextmanager
    def limit(largest):
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return limit


@pytest.fixture
def refused_when_full(cosight, full_disk):
    """Run a command on disks of these sizes, smallest first: each ends with one line that names the file."""

    def run(limits, *arguments, folder):
        files = []
        for largest in limits:
            with full_disk(largest):
                ended = cosight(*arguments)
            lines = [line for line in ended.err.splitlines() if not line.startswith("note: ")]
            assert (ended.code, len(lines), ended.out) == (2, 1, ""), (largest, ended)
            assert lines[0].endswith("File too large; free some space, then run the same command again"), lines
            assert lines[0].startswith(f"cosight: {folder}"), lines
            assert not [path for path in folder.rglob("*") if path.name.endswith(".cosight-draft")]
            files.append(lines[0].removeprefix(f"cosight: {folder}/").partition(":")[0])
        return files

    return run


@pytest.fixture(scope="session")
def simulated_observers():
    """Trials of simulated people and two simulated models on 16 classes: `simulated_observers(stimuli=160, people=4)`.

    Everybody sees a stimulus' difficulty with noise of their own; who finds it too hard often takes it for the class
    it is easily taken for. The models find other stimuli hard than people do, "texture" more so.
    """
    import numpy as np
    import polars as pl

    from cosight.trials import label_spaces, make_trials

    space = label_spaces["model-vs-human-16"]

    def simulate(*, people=6, stimuli=480, seed=0):
        rng = np.random.default_rng(seed)
        truth = rng.integers(0, 16, stimuli)
        taken_for = (truth + rng.integers(1, 16, stimuli)) % 16
        hard = rng.normal(size=(2, stimuli))  # for people; for models

        def trials(name, kind, feel, likely):
            anything = (truth + rng.integers(1, 16, stimuli)) % 16
            wrong = np.where(rng.random(stimuli) < 0.5, likely, anything)
            answer = np.where(feel, wrong, truth)
            return pl.DataFrame(
                {
                    "observer": name,
                    "kind": kind,
                    "experiment": "simulated",
                    "image": [f"{space.classes[t]}-{i:03d}.png" for i, t in enumerate(truth)],
                    "condition": "0",
                    "truth": [space.classes[t] for t in truth],
                    "response": [space.classes[a] for a in answer],
                    "session": "1",
                    "trial": range(1, stimuli + 1),
                }
            )

        frames = [
            trials(
                f"simulated:person-{index + 1}",
                "simulated",
                0.75 * hard[0] + 0.66 * rng.normal(size=stimuli) > rng.normal(0.7, 0.2),
                taken_for,
            )
            for index in range(people)
        ]
        for name, share in (("shape", 0.7), ("texture", 0.15)):
            feel = np.sqrt(share) * hard[0] + np.sqrt(1 - share) * hard[1] > 0.4
            frames.append(trials(f"model:simulated-{name}", "model", feel, (taken_for + (name == "texture")) % 16))
        return make_trials(pl.concat(frames), space=space)

    return simulate


@pytest.fixture(scope="session")
def photos():
    """Two photos that scikit-learn ships: a temple and a flower, 427 x 640 RGB."""
    from sklearn.datasets import load_sample_images

    return list(load_sample_images().images)


@pytest.fixture(scope="session")
def squares(photos):
    """The same, cut and shrunk to 224 x 224."""
    import cv2

    def square(photo):
        side = min(photo.shape[:2])
        top, left = (photo.shape[0] - side) // 2, (photo.shape[1] - side) // 2
        return cv2.resize(photo[top : top + side, left : left + side], (224, 224), interpolation=cv2.INTER_AREA)

    return [square(photo) for photo in photos]

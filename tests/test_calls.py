"""The calls of the package: what the command line does, in Python."""

from __future__ import annotations

import inspect
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image as Pillow

import cosight
from cosight.errors import InvalidInput
from cosight.models import Preprocessing, as_model


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Eight small images, dark and bright ones."""
    folder, rng = tmp_path_factory.mktemp("data") / "photos", np.random.default_rng(0)
    for index in range(8):
        name, low = (("dark", 0), ("bright", 150))[index % 2]
        (folder / name).mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(low, low + 100, (16, 16, 3), dtype=np.uint8)
        Pillow.fromarray(pixels).save(folder / name / f"{index}.png")
    return folder


@pytest.fixture(scope="module")
def run(photos):
    """A run of two models of one's own: one is right, one always says dark."""

    def model(name, weight):
        def logits(images):
            mean = images.mean(axis=(1, 2, 3))
            return np.stack([weight * (mean - 0.5), 0.4 - mean * (weight > 0)], axis=1)

        grey = Preprocessing(size=(16, 16), mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
        return as_model(logits, name=name, preprocessing=grey, outputs="logits")

    models = [model("mine:right", 1.0), model("mine:dark", 0.0)]
    return cosight.evaluate(*models, on=photos, labels="bright,dark", out=photos.parent / "run")


def test_every_call_exists_and_stays_a_call():
    code = (
        "import cosight, sys\n"
        "for name in ('build', 'compare', 'demo', 'evaluate', 'plan', 'resume', 'score', 'train'):\n"
        "    assert callable(getattr(cosight, name)) and callable(getattr(cosight, name)), name\n"
        "for name in ('new', 'serve', 'simulate', 'status', 'quality', 'export'):\n"
        "    assert callable(getattr(cosight.study, name)), name\n"
        "cosight.trials.read\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_a_run_is_scored_and_compared_as_evaluate_returned_it(run):
    scores = cosight.score(run, measure="accuracy", resamples=5)
    assert scores.best().observer == "mine:right"
    assert [row.value for row in scores.rows] == [row.value for row in cosight.score(run.folder, measure="acc").rows]
    rows = cosight.compare(run, measure="ec", resamples=5).rows
    assert {name for row in rows for name in (row.observer, row.against)} >= {"mine:right", "mine:dark"}


def test_data_frames_are_sources():
    frame = cosight.trials.read("sample:edges").frame
    pandas = pytest.importorskip("pandas").DataFrame(frame.drop("probabilities").to_dict(as_series=False))
    expected = cosight.compare("sample:edges", measure="ec", resamples=2).rows
    assert cosight.compare(frame, measure="ec", resamples=2).rows == expected
    people = cosight.score(pandas, measure="accuracy", resamples=2).rows
    assert [row.value for row in people] == [
        row.value for row in cosight.score("sample:edges", measure="accuracy", resamples=2).rows
    ]


@pytest.mark.parametrize("several", [["error_consistency", "accuracy"], "error_consistency,accuracy", ("ec", "acc")])
def test_names_are_one_text_or_several(several):
    one, two = (
        cosight.compare("sample:edges", measure=measure, by=by, role=role, resamples=2)
        for measure, by, role in ((several, "experiment", "test"), (["ec", "accuracy"], ["experiment"], ["test"]))
    )
    assert one.rows == two.rows
    assert one.settings == two.settings


def test_observers_of_a_plan_are_one_text_or_several():
    one, two = (
        cosight.plan(measure="accuracy", width=0.1, pilot="sample:edges", observers=observers)
        for observers in ("model:alexnet", ["model:alexnet"])
    )
    assert one == two


@pytest.mark.parametrize("name", ["compare", "score", "evaluate", "resume", "train", "build", "demo"])
def test_long_calls_take_progress_as_a_switch(name):
    assert "bool" in str(inspect.signature(getattr(cosight, name)).parameters["progress"].annotation)


def test_a_study_from_the_design_to_the_answers(photos, tmp_path):
    folder = tmp_path / "survey"
    cosight.study.new(str(folder), type="classify", stimuli=str(photos), labels="bright,dark")
    result = cosight.study.simulate(folder, participants=2, progress=False)
    assert (result.participants, result.observer) == (2, "panel")
    assert cosight.study.status(folder).participants.finished == 2
    assert cosight.study.quality(folder).participants.height == 2
    done = cosight.study.export(folder, tmp_path / "answers.parquet", everyone=True)
    assert len(cosight.trials.read(tmp_path / "answers.parquet")) == len(done.trials) > 0
    with pytest.raises(InvalidInput, match="exists"):
        cosight.study.export(folder, tmp_path / "answers.parquet", everyone=True)

"""The first hour of a new user: own network, own CSV file, photos, a study, an interrupted run, typing mistakes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from time import monotonic, sleep

import numpy as np
import polars as pl
import pytest
from PIL import Image as Pillow

CLASSES = ("cat", "dog")


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A folder with photos of two classes, an empty folder, a CSV file of three people and a network."""
    folder = tmp_path_factory.mktemp("my first hour")
    rng = np.random.default_rng(0)
    for number, name in enumerate(CLASSES):
        (folder / "photos" / name).mkdir(parents=True)
        for index in range(4):
            pixels = rng.integers(40 + 120 * number, 60 + 120 * number, (48, 64, 3), dtype=np.uint8)
            Pillow.fromarray(pixels).save(folder / "photos" / name / f"{name}{index}.png")
    (folder / "empty").mkdir()
    (folder / "my.csv").write_text(_own_answers(), encoding="utf-8")
    (folder / "brightnet.py").write_text(NETWORK)
    return folder


NETWORK = """
import torch

from cosight.models import Preprocessing, as_model


class Brightness(torch.nn.Module):
    def forward(self, images):
        mean = images.mean(dim=(1, 2, 3))
        return torch.stack([-mean, mean], dim=1)


def model():
    return as_model(Brightness(), name="brightness", preprocessing=Preprocessing(size=32, mean=0.5, std=1),
                    class_names=("cat", "dog"))
"""


def _own_answers():
    """Three people's answers to the published edge images, as a lab's own program writes them."""
    from cosight.trials import read

    published = read("sample:edges").frame
    person = published.filter(pl.col("observer") == "human:subject-01").sort("image")
    lines = ["participant_id;file;answer;label;time_ms;browser"]
    for number in range(3):
        for index, row in enumerate(person.iter_rows(named=True)):
            answer = "NaN" if index == number else row["truth"] if (index + number) % 3 else row["response"]
            lines.append(f"p{number};{row['image']};{answer};{row['truth']};{900 + index};Firefox")
    return "\n".join(lines) + "\n"


@pytest.fixture
def at_desk(desk, monkeypatch):
    monkeypatch.chdir(desk)
    monkeypatch.syspath_prepend(desk)
    return desk


def test_own_network_in_python(at_desk, tmp_path):
    import torch

    import cosight as package
    from cosight.models import Preprocessing, as_model

    net = torch.nn.Sequential(torch.nn.AvgPool2d(32), torch.nn.Flatten(), torch.nn.Linear(3, 2)).eval()
    with pytest.raises(package.errors.InvalidInput, match="Preprocessing"):
        as_model(net)
    model = as_model(net, name="mynet", preprocessing=Preprocessing(size=32), class_names=CLASSES)
    with pytest.raises(package.errors.InvalidInput, match="use --labels cat,dog"):
        package.evaluate(model, on="photos", out=tmp_path / "run", progress=False)
    run = package.evaluate(model, on="photos", labels="cat,dog", out=tmp_path / "run", progress=False)
    scores = package.score(run, measure="accuracy", resamples=20, progress=False)
    assert [(row.observer, row.n) for row in scores.rows] == [("mynet", 8)]
    assert "mynet" in str(scores)
    assert scores.to_polars().height == 1
    assert "<table" in scores._repr_html_()


def test_own_network_on_the_command_line(at_desk, cosight, tmp_path):
    line = ("evaluate", "python:brightnet:model,name=brightness", "--on", "photos", "--labels", "cat,dog")
    done = cosight(*line, "--out", tmp_path / "run")
    assert done.code == 0, done.err
    assert "brightness" in done.out
    assert "1.000" in done.out  # the photos of dogs are the bright ones
    assert "8 answers" in done.out


def test_own_csv_file_joins_a_published_experiment(at_desk, cosight, tmp_path):
    columns = "observer=participant_id,image=file,response=answer,truth=label,rt=time_ms"
    line = ["trials", "convert", "my.csv", tmp_path / "my.parquet", "--columns", columns]
    done = cosight(*line, "--experiment", "edges", "--rt-unit", "ms")
    assert done.code == 0, done.err
    frame = pl.read_parquet(tmp_path / "my.parquet")
    assert frame.height == 480
    assert frame["response"].null_count() == 3
    assert frame["rt"].max() < 2
    assert json.loads(frame["extra"][0])["browser"] == "Firefox"
    done = cosight("compare", tmp_path / "my.parquet", "sample:edges", "--measure", "ec", "--resamples", 20, "--json")
    assert done.code == 0, done.err
    people = {row["observer"] for row in json.loads(done.out) if row["observer"].startswith("human:")}
    assert len(people) == 13  # ten of the sample and three of one's own


def test_corrupted_photos(at_desk, cosight, tmp_path):
    assert cosight("stimuli", "corrupt", "photos", tmp_path / "foggy", "--kind", "fog", "--severity", "2").code == 0
    done = cosight("stimuli", "verify", tmp_path / "foggy")
    assert (done.code, "8" in done.out) == (0, True), done


def test_a_lab_study(at_desk, cosight, tmp_path):
    study = tmp_path / "study"
    done = cosight("study", "new", study, "--type", "classify", "--set", "photos", "--answers", 2)
    assert done.code == 0, done.err
    assert "cat" in done.out + done.err  # the buttons are announced
    assert cosight("study", "simulate", study, "--participants", 2, "--seed", 1).code == 0
    done = cosight("study", "export", study, tmp_path / "answers.csv")
    assert done.code == 0, done.err
    done = cosight("score", tmp_path / "answers.csv", "--measure", "accuracy", "--resamples", 20)
    assert done.code == 0, done.err


def test_an_interrupted_run(at_desk, cosight, tmp_path):
    run, whole = tmp_path / "run", tmp_path / "whole"
    slow = NETWORK.replace("mean = images", "import time; time.sleep(0.15); mean = images")
    (tmp_path / "slownet.py").write_text(slow)
    line = ["evaluate", "python:slownet:model", "--on", "photos", "--labels", "cat,dog", "--batch", "1"]
    process = subprocess.Popen(
        [sys.executable, "-m", "cosight", *line, "--out", str(run)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])},
        stderr=subprocess.PIPE,
        text=True,
    )
    end = monotonic() + 60
    while monotonic() < end and not (run / "run.json").exists():
        sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, printed = process.communicate(timeout=30)
    assert process.returncode == 130
    assert f"cosight run resume {run}" in printed
    sys.path.insert(0, str(tmp_path))
    try:
        assert cosight("run", "resume", run).code == 0
        assert cosight(*line, "--out", whole).code == 0
    finally:
        sys.path.remove(str(tmp_path))
    files = sorted(path.relative_to(whole) for path in (whole / "trials").rglob("*") if path.is_file())
    assert files
    assert [(run / file).read_bytes() for file in files] == [(whole / file).read_bytes() for file in files]


MISTAKES = [
    ("compar sample:edges", "compare"),
    ("compare sample:edge", "edges"),
    ("compare smple:edges", "sample:edges"),
    ("compare nowhere.parquet", "nowhere.parquet"),
    ("compare sample:edges --measure ecc", "ec"),
    ("compare sample:edges --by experment", "experiment"),
    ("compare sample:edges --confidence 95", ".95"),
    ("compare sample:edges --resamples 0", "1 or more"),
    ("compare sample:edges --pairs human", "human-human"),
    ("compare sample:edges --preset model-vs-humans", "model-vs-human"),
    ("compare sample:edges --only model:resnet5,model:vgg16", "resnet50"),
    ("compare sample:edges --mesure ec", "--measure"),
    ("compare", "compare --help"),
    ("score sample:edges --measure acuracy", "accuracy"),
    ("score sample:edges --on visalgn", "visalign"),
    ("score sample:edges --gamma 5", "0"),
    ("evaluate brightnet.pth --on photos --out run", "python:"),
    ("evaluate timm/resnet50 --on photos --out run", "timm:resnet50"),
    ("evaluate photos --on timm:resnet50 --out run", "--on photos"),
    ("evaluate onnx:missing.onnx --on photos --out run", "missing.onnx"),
    ("evaluate python:brightnet:model --on phots --out run", "photos"),
    ("evaluate python:brightnet:model --on empty --out run", "empty"),
    ("evaluate python:brightnet:model --on photos", "--out"),
    ("evaluate python:brightnet:model --on photos --out run --device gpu", "cuda"),
    ("evaluate python:brightnet:modl --on photos --out run", "model"),
    ("trials show my.cvs", "my.csv"),
    ("trials convert my.csv my.xls", ".parquet"),
    ("trials convert my.csv out.parquet --columns observer=nobody", "participant_id"),
    ("stimuli corrupt photos out --kind fogg", "fog"),
    ("stimuli corrupt photos out --severity 11", "10"),
    ("stimuli corrupt empty out", "empty"),
    ("study new survey --type classify --set nowhere", "nowhere"),
    ("study new survey --type clasify --set photos", "classify"),
    ("list measure", "measures"),
    ("plan --measure ec --width 3", "width"),
    ("data get model-vs-humans", "model-vs-human"),
    ("run resume nowhere", "nowhere"),
]


@pytest.mark.parametrize(("line", "advice"), MISTAKES, ids=[line for line, _ in MISTAKES])
def test_typing_mistakes(at_desk, cosight, line, advice):
    before = sorted(str(path) for path in at_desk.rglob("*") if "__pycache__" not in path.parts)
    started = monotonic()
    done = cosight(*line.split())
    lines = [printed for printed in done.err.splitlines() if not printed.startswith("note: ")]
    assert (done.code, done.out, len(lines)) == (2, "", 1), done
    assert advice in lines[0]
    assert monotonic() - started < 10
    assert sorted(str(path) for path in at_desk.rglob("*") if "__pycache__" not in path.parts) == before

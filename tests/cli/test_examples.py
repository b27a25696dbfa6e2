"""Every help text ends with two or three examples that fit a terminal, and each example runs."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image as Pillow
from typer.main import get_command

from cosight.cli.app import app, main
from cosight.cli.commands import commands_of
from cosight.trials.spaces import label_spaces

COMMANDS = commands_of(get_command(app))
EXAMPLES = [(name, line) for name, command in COMMANDS for line in command.examples]
WIDTH = 78  # characters of an example, indented in a terminal of 80

SMALL = "1=2,2=0,3=0,4=0,5=0,6=0,7=0,8=2,train=2,distractors=0"
# Appended where that makes an example quicker; an option given twice has its last value.
QUICK = {
    "cosight compare": "--resamples 5",
    "cosight score": "--resamples 5",
    "cosight report": "--resamples 5",
    "cosight stimuli compose": "--size 32 --workers 1",
    "cosight build digits": "--counts 1=2,2=2,3=0,4=2,5=2,6=2,7=2,8=2,train=10,distractors=2",
    "cosight build visalign": f"--workers 1 --size 32 --counts {SMALL}",
    "cosight build laion-c": "--workers 1",
    "cosight stimuli corrupt": "--workers 1",
    "cosight stimuli distort": "--workers 1",
    "cosight stimuli manipulate": "--workers 1",
    "cosight stimuli invert": "--limit 3 --steps 3 --device cpu",
    "cosight stimuli contest": "--limit 2 --steps 3 --device cpu",
    "cosight build representation": "--limit 3 --steps 3 --accuracy 0 --device cpu --judge python:mynet:model "
    "--near python:mynet:model",
}
LONG = (  # like the first of their command: it starts a server, it makes hundreds of images
    "cosight study simulate survey --participants 2 --seed 1",
    "cosight build laion-c objects distorted --files chosen.txt --format jpeg",
)
APART = ("cosight demo", "cosight study serve")  # they take minutes, or serve until stopped: tests of their own

MYNET = """
import torch

from cosight.models import Preprocessing, as_model


def model():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.AvgPool2d(10), torch.nn.Flatten(), torch.nn.Linear(48, 16))
    return as_model(net.eval(), name="mynet", preprocessing=Preprocessing(size=(40, 40)))
"""
NETS = """
from functools import partial

import torch

from cosight.models import Preprocessing, as_model


def net(pool, name):
    torch.manual_seed(0)
    layers = torch.nn.Sequential(pool, torch.nn.Flatten(), torch.nn.Linear(48, 16))
    return as_model(layers.eval(), name=name, preprocessing=Preprocessing(size=(40, 40)))


a, b = partial(net, torch.nn.AvgPool2d(10), "a"), partial(net, torch.nn.MaxPool2d(10), "b")
"""
CHOICES = """query,target,seed
cat/0.png,cat/1.png,dog/0.png
dog/2.png,dog/3.png,cat/2.png
"""
RECIPE = """
architecture = "mixer-small"
data = "shapes"
epochs = 1
validation = 0.25
batch = 8
seeds = [45]
"""


def write_photos(folder, classes, each, *, side=40, masks=False):
    """Discs on plain backgrounds, of another hue in each class; with a mask beside each."""
    rng = np.random.default_rng(len(classes))
    rows, columns = np.ogrid[:side, :side]
    mask = (rows - side / 2) ** 2 + (columns - side / 2) ** 2 < (side / 3) ** 2
    for hue, name in enumerate(classes):
        (folder / name).mkdir(parents=True)
        for number in range(each):
            pixels = rng.integers(150, 170, (side, side, 3))
            pixels[mask] = np.array((25 * hue % 255, 60, 20)) + rng.integers(0, 25, (int(mask.sum()), 3))
            Pillow.fromarray(pixels.astype(np.uint8)).save(folder / name / f"{number}.png")
            if masks:
                Pillow.fromarray((mask * 255).astype(np.uint8)).save(folder / name / f"{number}.mask.png")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """What the examples name: photos, a network, a run, recorded answers, a study with answers, CIFAR-10H's files."""
    folder = tmp_path_factory.mktemp("world")
    write_photos(folder / "photos", ("cat", "dog"), 4)
    write_photos(folder / "animals", label_spaces["visalign-11"].classes, 6, masks=True)
    (folder / "mynet.py").write_text(MYNET)
    (folder / "nets.py").write_text(NETS)
    (folder / "recipe.toml").write_text(RECIPE)
    (folder / "choices.csv").write_text(
        "query,target,seed\ncat/0.png,cat/1.png,dog/0.png\ndog/2.png,dog/3.png,cat/2.png\n"
    )
    cifar = folder / "cifar10"
    cifar.mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (3, 1024, 3), dtype=np.uint8)
    Pillow.fromarray(pixels).save(cifar / "test_images.png")
    (cifar / "test_labels.json").write_text(json.dumps([3, 8, 0]))
    np.save(cifar / "cifar10h-counts.npy", np.eye(10, dtype=np.int64)[[3, 8, 2]] * 51)
    for name in ("model-vs-human", "texture-vs-shape"):  # a part of what a mirror of the public data has
        (folder / "mirror" / name).mkdir(parents=True)
        (folder / "mirror" / name / "README").write_text("a part")
    (folder / "my.csv").write_text("who,file,answer,label\nann,a.png,cat,dog\nann,b.png,cat,cat\n")
    write_photos(folder / "shapes", ("round", "square"), 4)
    write_photos(folder / "alike", ("cat", "dog"), 4)
    write_photos(folder / "others", ("fox",), 4, masks=True)
    write_photos(folder / "near", ("donkey",), 4)
    write_photos(folder / "objects", label_spaces["laion-c-16"].classes, 1)
    (folder / "chosen.txt").write_text("\n".join(f"{name}/0.png" for name in label_spaces["laion-c-16"].classes))
    return folder


@pytest.fixture(scope="module")
def prepared(world, _build_command_once):
    """The same after the commands whose results other examples read."""
    commands = [
        "evaluate python:mynet:model --on photos --out run",
        "evaluate python:mynet:model --on photos --out clear-run --features --thumbnails",
        "trials convert run answers.parquet",
        "stimuli corrupt photos foggy --kind fog --severity 1 --workers 1",
        "evaluate python:mynet:model --on foggy --out foggy-run --features --thumbnails",
        "stimuli tasks alike --type 2afc --from choices.csv",
        "study new survey --type classify --set photos --labels cat,dog",
        "study simulate survey --participants 2",
        "compare sample:edges --resamples 5 --out scores.json",
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(world)
        patch.syspath_prepend(world)
        for line in commands:
            patch.setattr(sys, "argv", ["cosight", *shlex.split(line)])
            with pytest.raises(SystemExit) as ended:
                main()
            assert not ended.value.code, line
    shutil.copytree(world / "run", world / "experiments" / "first")
    return world


@pytest.fixture
def here(prepared, tmp_path, monkeypatch):
    """A copy of it, as the working folder."""
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True, symlinks=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("COSIGHT_MIRROR", "mirror")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.mark.parametrize(("name", "command"), COMMANDS, ids=[name for name, _ in COMMANDS])
def test_every_command_has_two_or_three_examples_of_itself(name, command):
    assert 2 <= len(command.examples) <= 3
    assert all(line.split()[: len(name.split())] == name.split() for line in command.examples)
    assert all(len(line) <= WIDTH for line in command.examples)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        pytest.param(name, line, id=line, marks=pytest.mark.slow if line in LONG else ())
        for name, line in EXAMPLES
        if name not in APART
    ],
)
def test_an_example_runs(name, line, here, cosight, one_torch_thread):
    done = cosight(*shlex.split(line)[1:], *shlex.split(QUICK.get(name, "")))
    assert done.code == 0, done.err
    if "--json" in line:
        json.loads(done.out)


@pytest.mark.slow
@pytest.mark.parametrize("line", [line for name, line in EXAMPLES if name == "cosight study serve"])
def test_a_study_is_served_as_the_example_says(line, here):
    command = [sys.executable, "-m", *shlex.split(line), "--host", "127.0.0.1", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        try:
            assert re.match(r"participants: http://\S+", server.stdout.readline())
        finally:
            server.send_signal(signal.SIGINT)


@pytest.mark.parametrize(("name", "line"), [pair for pair in EXAMPLES if pair[0] in APART], ids=lambda text: text)
def test_an_example_that_runs_elsewhere_has_options_that_exist(name, line):
    """The demo takes minutes: tests/demo has a small one."""
    dict(COMMANDS)[name].make_context(name, shlex.split(line)[len(name.split()) :])

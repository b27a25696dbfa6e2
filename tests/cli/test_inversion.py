"""`cosight stimuli invert` and `contest`: what they print, and bad input in one line with nothing written."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image as Pillow
from safetensors.torch import save_file

from cosight.models.cifar_resnet import CifarResNet

pytestmark = pytest.mark.usefixtures("one_torch_thread")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Six photos of 32 pixels, two of 40, and two untrained networks."""
    root = tmp_path_factory.mktemp("inversion")
    rng = np.random.default_rng(0)
    for folder, side, count in (("photos", 32, 6), ("large", 40, 2)):
        (root / folder).mkdir()
        for number in range(count):
            Pillow.fromarray(rng.integers(0, 256, (side, side, 3), dtype=np.uint8)).save(
                root / folder / f"{number}.png"
            )
    for seed in (0, 1):
        torch.manual_seed(seed)
        save_file(CifarResNet(3).state_dict(), root / f"{seed}.safetensors")
    return root


def network(world, seed, name, more=""):
    return f"cosight:resnet20,checkpoint={world}/{seed}.safetensors,name={name}{more}"


def test_convergence_is_reported_and_the_set_is_resumed(world, cosight, tmp_path):
    line = ("stimuli", "invert", network(world, 0, "a"), "--targets", world / "photos", "--limit", 2, "--steps", 2)
    done = cosight(*line, "--out", tmp_path / "set")
    assert done.code == 0, done.err
    assert "a image: " in done.out
    assert "of 2 converged (distance up to 0.1, largest" in done.out
    assert "10 stimuli made" in done.out
    assert "0 stimuli made, 10 existed" in cosight(*line, "--out", tmp_path / "set").out


def test_of_equal_models_no_controversial_stimulus_is_found_and_it_says_so(world, cosight, tmp_path):
    line = ("stimuli", "contest", network(world, 0, "a"), network(world, 0, "twin"), "--targets", world / "photos")
    done = cosight(*line, "--limit", 2, "--starts", 1, "--steps", 2, "--out", tmp_path / "set")
    assert done.code == 0, done.err
    assert done.out.count("no controversial stimulus in 2 attempts") == 2
    same = network(world, 0, "a")
    refused = cosight("stimuli", "contest", same, same, "--targets", world / "photos", "--out", tmp_path / "other")
    assert refused.code == 2
    assert "a model and itself have no controversial stimuli" in refused.err


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        ("", ("--targets", "photos", "--steps", "0"), "--steps must be a whole number, 1 to 1,000,000, got 0"),
        (",layer=layr3", ("--targets", "photos"), "has no layer 'layr3'; did you mean layer3"),
        ("", ("--targets", "large", "--seeds", "noise"), "must be 32 x 32, the models' input"),
        ("", ("--targets", "photos"), "each of the 6 targets starts from a photo of its own"),
        ("", ("--targets", "photos", "--seeds", "nose"), "--seeds must be noise, image or both, got nose"),
        ("", ("--targets", "photo"), "did you mean"),
        ("", ("--targets", "normal:0/1"), "image seeds need photos"),
        ("", ("--targets", "normal:0/-1"), "noise targets are normal:MEAN/SD with a positive standard deviation, got"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(world, cosight, tmp_path, monkeypatch, model, options, words):
    monkeypatch.chdir(world)
    done = cosight("stimuli", "invert", network(world, 0, "a", model), *options, "--out", tmp_path / "out")
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert words in done.err
    assert not list(tmp_path.rglob("*.png"))


def test_a_model_without_gradients_is_refused(mirror, world, cosight, tmp_path):
    model = f"onnx:{mirror / 'weights/imagenet-onnx/mobilenet_v1_025_128.onnx'}"
    done = cosight("stimuli", "invert", model, "--targets", world / "photos", "--out", tmp_path / "out")
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert "gradients need a model in torch, got onnx:" in done.err

"""Options and paths are checked before torch is imported, names and devices before an image is read."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image as Pillow

_BEFORE_TORCH = """
import json, sys
from cosight.cli.app import main
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["cosight", *arguments]
    try:
        main()
    except SystemExit as ended:
        print(ended.code, "torch" in sys.modules, file=sys.stderr)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("checked")
    rng = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (root / "photos" / name).mkdir(parents=True)
        pixels = rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)
        Pillow.fromarray(pixels).save(root / "photos" / name / "1.png")
    (root / "recipe.toml").write_text('architecture = "mixer-small"\ndata = "photos"\n')
    (root / "nowhere.toml").write_text('architecture = "mixer-small"\ndata = "nowhere"\n')
    (root / "unknown.toml").write_text('architecture = "mixer-smal"\ndata = "photos"\n')
    (root / "trunk.toml").write_text('pretrained = "no.safetensors"\ndata = "photos"\n')
    return root


_RESNET = ("evaluate", "timm:resnet50", "--out", "run")
_ON = (*_RESNET, "--on", "photos")
_CHECKED = {
    (*_RESNET, "--on", "nowhere"): "--on must be a stimulus set, a folder of images, or a benchmark",
    (
        *_RESNET,
        "--on",
        "imagenet-c",
        "--source",
        "nowhere",
    ): "--source must be a folder of images, nowhere does not",
    (*_ON, "--device", "gpu"): "--device must be auto, cpu, cuda, cuda:N or mps, got 'gpu'",
    (*_ON, "--precision", "fp16"): "'fp16' is not one of 'float32', 'bfloat16', 'float16'",
    (*_ON, "--labels", "cifar-11"): "no label-space is called 'cifar-11'",
    (*_ON, "--probe", "nowhere"): "--probe must be a folder of images, nowhere does not exist; check the path",
    (*_ON, "--abstain", "nknn"): "did you mean knn",
    (*_ON, "--engine", "raj"): "did you mean ray?",
    (*_ON, "--batch", "0"): "--batch must be",
    ("evaluate", "timm:resnet50", "--on", "photos", "--out", "photos/run"): "--out must be outside photos",
    ("evaluate", "timm:resnet50", "onnx:no.onnx", "--on", "photos", "--out", "run"): "no.onnx does not exist",
    ("evaluate", "timm:resnet50,checkpoint=no.pth", "--on", "photos", "--out", "run"): "no.pth does not exist",
    ("evaluate", "timm:resnet50,named=r", "--on", "photos", "--out", "run"): "got named; did you mean name?",
    ("evaluate", "mynet.pth", "--on", "photos", "--out", "run"): "timm:resnet50,checkpoint=mynet.pth",
    ("evaluate", "timm/resnet50", "--on", "photos", "--out", "run"): "did you mean timm:resnet50?",
    ("evaluate", "photos", "--on", "timm:resnet50", "--out", "run"): "cosight evaluate timm:resnet50 --on photos",
    ("evaluate", "photos", "--on", "photos", "--out", "run"): "this is a folder: give images with --on FOLDER",
    ("train", "recipe.toml", "--out", "recipe.toml"): "--out must be a folder, recipe.toml is a file",
    ("train", "recipe.toml", "--out", "run", "--device", "gpu"): "--device must be auto, cpu, cuda, cuda:N or mps",
    ("train", "nowhere.toml", "--out", "run"): "a folder of images, nowhere does not exist",
    ("train", "unknown.toml", "--out", "run"): "did you mean mixer-small",
    ("train", "trunk.toml", "--out", "run"): "no.safetensors does not exist",
    ("train", "no.toml", "--out", "run"): "no.toml",
}


def test_options_and_paths_before_torch(folder):
    done = subprocess.run(
        [sys.executable, "-c", _BEFORE_TORCH, json.dumps(list(_CHECKED))],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stderr.splitlines()
    assert len(lines) == 2 * len(_CHECKED), done.stderr  # one line and the code of each
    for (arguments, message), line, code in zip(_CHECKED.items(), lines[::2], lines[1::2], strict=True):
        assert message in line, (arguments, line)
        assert code == "2 False", arguments
    assert not (folder / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--device", "cuda"), "--device cuda is not available: "),
        (("--device", "mps"), "--device mps is not available: "),
        (("--precision", "float16"), "--precision float16 is slower than float32 on this CPU"),
    ],
)
@pytest.mark.parametrize(
    "command",
    [
        ("evaluate", "timm:resnet50", "--on", "photos", "--out", "run"),
        ("stimuli", "attack", "photos", "run", "--model", "timm:resnet50"),
        ("build", "visalign", "run", "--photos", "photos", "--attackers", "timm:resnet50", "--counts", "3=1"),
    ],
)
def test_devices_before_images_and_weights(command, arguments, message, folder, cosight, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    monkeypatch.setattr(torch.cpu, "get_capabilities", dict)

    def fail(*_, **__):
        raise AssertionError("an image was read")

    monkeypatch.setattr("cosight.stimuli.images.decode", fail)
    monkeypatch.setattr("cosight.runs.evaluate.plan_run", fail)
    ended = cosight(*command, *arguments)
    assert ended.code == 2, ended
    assert message in ended.err
    assert ended.err.count("\n") == 1
    assert not (folder / "run").exists()

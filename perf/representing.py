"""Inversion compared with the raw passes of its network, LPIPS with its own forward passes, and memory by targets.

The network is the CIFAR ResNet-20 with random weights: speed does not depend on them. Our step and a raw forward and
backward pass take turns, and the line has the medians. Memory is the peak of a separate process.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from perf.lines import Line

__all__ = ["FULL", "Size", "lines", "make_model", "peak", "random_lpips"]


@dataclass(frozen=True, slots=True)
class Size:
    """Amount of work; the limits apply to FULL."""

    batch: int
    steps: int  # per measurement
    repeats: int
    queries: int
    few: int  # targets, and many: their peaks are compared
    many: int


FULL = Size(32, 10, 20, 200, 16, 128)


def lines(size: Size) -> Iterator[Line]:
    """Measure speed and memory."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        ours, theirs = _step_times(size)
        what = f"inversion step, ResNet-20, batch {size.batch}, median of {size.repeats}"
        yield Line(what, "forward and backward pass, weights frozen", ours, theirs, 1.15, faster=False)
        ours, theirs = _judge_times(size)
        what = f"LPIPS, {size.queries} 2AFC queries of 32 pixels"
        yield Line(what, "forward passes of their images", ours, theirs, 1.15, faster=False)
    finally:
        torch.set_num_threads(threads)
    few, many = (peak(targets) for targets in (size.few, size.many))
    what = f"inversion, peak memory, {size.many} targets"
    yield Line(what, f"{size.few} targets", many, few, 1.1, faster=False, unit="MB")


def make_model() -> Any:
    """Return ResNet-20 with features and random weights."""
    import torch

    from cosight.models import Preprocessing, wrap_module
    from cosight.models.cifar_resnet import CifarResNet

    torch.manual_seed(0)
    return wrap_module(CifarResNet(3), name="resnet20", preprocessing=Preprocessing((32, 32))).with_features()


def _step_times(size: Size) -> tuple[float, float]:
    """Return the median seconds per step of ours, and of raw passes of the same network."""
    import torch

    from cosight.stimuli.descent import DescentSettings, descend
    from cosight.stimuli.inversion import feature_distance

    model = make_model()
    images = torch.rand(2, size.batch, 3, 32, 32)
    loss = feature_distance(model, images[0])
    settings = DescentSettings(steps=size.steps, tolerance=0.0)
    mean, std = (torch.tensor(values).reshape(1, 3, 1, 1) for values in (model.mean, model.std))
    pixels = ((images[1] - mean) / std).contiguous(memory_format=torch.channels_last)

    def raw() -> None:
        for _ in range(size.steps):
            inputs = pixels.detach().requires_grad_()
            torch.autograd.grad(model.module(inputs).sum(), inputs)

    ours, theirs = [], []
    descend(loss, images[1], settings)
    raw()
    for _ in range(size.repeats):
        start = perf_counter()
        descend(loss, images[1], settings)
        middle = perf_counter()
        raw()
        ours.append((middle - start) / size.steps)
        theirs.append((perf_counter() - middle) / size.steps)
    return median(ours), median(theirs)


def random_lpips() -> Any:
    """Return LPIPS with random weights of the right shapes."""
    import torch

    from cosight.models.judges.lpips_judge import lpips_judge

    shapes = {0: (64, 3, 11), 3: (192, 64, 5), 6: (384, 192, 3), 8: (256, 384, 3), 10: (256, 256, 3)}
    weights = {}
    for number, (layer, (outputs, inputs, side)) in enumerate(shapes.items()):
        weights[f"features.{layer}.weight"] = torch.randn(outputs, inputs, side, side) / (inputs * side * side) ** 0.5
        weights[f"features.{layer}.bias"] = torch.zeros(outputs)
        weights[f"lin{number}.weight"] = torch.rand(1, outputs, 1, 1)
    return lpips_judge(weights)


def _judge_times(size: Size) -> tuple[float, float]:
    """Return the seconds of a judge for 2AFC tasks of two seeds per target, and of embedding their images once."""
    from cosight.models.judges import Question
    from cosight.models.judges.distance_judge import BATCH

    judge = random_lpips()
    targets = size.queries // 2
    names = [f"{kind}{n}" for n in range(targets) for kind in ("t", "qa", "sa", "qb", "sb")]
    pixels = np.random.default_rng(0).integers(0, 256, (len(names), 32, 32, 3), dtype=np.uint8)
    images = dict(zip(names, pixels, strict=True))
    questions = [Question(f"q{s}{n}", (f"t{n}", f"s{s}{n}")) for n in range(targets) for s in "ab"]

    def forward() -> None:
        for first in range(0, len(pixels), BATCH):
            judge.embed(list(pixels[first : first + BATCH]))

    ours, theirs = [], []
    forward()
    for _ in range(max(3, size.repeats // 4)):
        start = perf_counter()
        list(judge.choose(questions, images.__getitem__))
        middle = perf_counter()
        forward()
        ours.append(middle - start)
        theirs.append(perf_counter() - middle)
    return median(ours), median(theirs)


_PEAK = """
import os, sys
if child := os.fork():  # a process started by a large one inherits its peak; a forked one starts afresh
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
import json, resource
from pathlib import Path
targets, folder, root = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
sys.path.insert(0, root)
from perf.representing import make_model
from cosight.stimuli.descent import DescentSettings
from cosight.stimuli.generate import generate_set
from cosight.stimuli.inversion import InversionRecipe, read_targets
model = make_model()
recipe = InversionRecipe(
    read_targets(["normal:0.5/2"], limit=targets), ("resnet20",), lambda reference: model, ("noise",),
    DescentSettings(steps=2),
)
generate_set(recipe, folder / "set")
unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux kilobytes
print(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6))
"""


def peak(targets: int) -> float:
    """Measure the peak memory of a process that inverts so many targets, in MB."""
    root = str(Path(__file__).resolve().parents[1])
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", _PEAK, str(targets), folder, root]
        return float(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))

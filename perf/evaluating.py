"""`cosight evaluate` beside a raw forward loop on preloaded tensors and a plain DataLoader loop, with one torch thread.

Networks have random weights: what they answer does not matter here. The loops lay images out as torch does by default;
evaluate lays them out with channels last, which is why it can be faster than the forward pass alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import cv2
import numpy as np
from sklearn.datasets import load_sample_images

from perf.lines import Line

__all__ = ["FULL", "Size", "lines", "loops", "peak", "write_photos"]

_BATCH = 32


@dataclass(frozen=True, slots=True)
class Size:
    """How much work; the limits hold for FULL, where loading the libraries counts for little."""

    networks: tuple[str, ...]  # of timm; the first is compared with the raw loop as the limit says
    photos: int
    repeats: int
    few: int  # photos whose memory is compared with that of many
    many: int


FULL = Size(("resnet18", "mobilenetv3_large_100"), 1000, 2, 1000, 20_000)


def lines(size: Size) -> Iterator[Line]:
    """Speed of each network, then memory."""
    with tempfile.TemporaryDirectory() as folder:
        photos = Path(folder) / "photos"
        write_photos(photos, size.photos)
        for name in size.networks:
            yield from _speed(name, photos, Path(folder) / name, size)
        yield _memory(Path(folder), size)


def write_photos(folder: Path, count: int) -> None:
    """JPEGs of 500 x 375 in two class folders; fifty pictures, under as many names as asked for."""
    photos = [cv2.resize(photo, (500, 375), interpolation=cv2.INTER_AREA) for photo in load_sample_images().images]
    kept = [_shifted(photos[index % 2], index) for index in range(min(count, 50))]
    for index in range(count):
        path = folder / ("n01440764", "n15075141")[index % 2] / f"{index:05d}.jpeg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(kept[index % len(kept)])


def _shifted(photo: np.ndarray, index: int) -> bytes:
    _, data = cv2.imencode(".jpeg", np.roll(photo, 7 * index, axis=1), [cv2.IMWRITE_JPEG_QUALITY, 90])
    return data.tobytes()


def _speed(name: str, photos: Path, out: Path, size: Size) -> list[Line]:
    """Best of some interleaved repeats: seconds for all photos."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        ways = loops(name, photos, out)
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        for run in range(size.repeats):
            for way, work in ways.items():
                start = perf_counter()
                work(run)
                seconds[way].append(perf_counter() - start)
    finally:
        torch.set_num_threads(before)
    best = {way: min(times) for way, times in seconds.items()}
    what = f"evaluate, {name}, {size.photos} JPEGs"
    return [
        Line(what, "raw forward loop, preloaded", best["evaluate"], best["raw"], 0.93, faster=True),
        Line(what, "DataLoader loop, 1 worker", best["evaluate"], best["loader"], 1, faster=True),
    ]


def loops(name: str, photos: Path, out: Path) -> dict[str, Callable[[int], Any]]:
    """Three ways to have a network answer all photos, each called with the number of the repeat; answers by photo."""
    from cosight.torchvision_ops import import_torchvision

    import_torchvision()
    import timm
    import torch
    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder

    from cosight.models.python_models import as_model
    from cosight.runs.evaluate import evaluate

    torch.manual_seed(0)
    network = timm.create_model(name, num_classes=1000).eval().requires_grad_(False)
    transform = timm.data.create_transform(**timm.data.resolve_model_data_config(network), is_training=False)
    images = ImageFolder(str(photos), transform)
    ready = torch.stack([images[index][0] for index in range(len(images))]).split(_BATCH)
    torch.manual_seed(0)
    # on the CPU, like the other, which stays as torch lays it
    ours = as_model(timm.create_model(name, num_classes=1000), name=f"timm:{name}", device="cpu")

    def raw(run: int) -> Any:
        with torch.inference_mode():
            return torch.cat([network(batch) for batch in ready]).numpy()

    def loader(run: int) -> Any:
        with torch.inference_mode():
            batches = DataLoader(images, batch_size=_BATCH, num_workers=1)
            return torch.cat([network(batch) for batch, _ in batches]).numpy()

    def evaluated(run: int) -> Any:
        return evaluate(
            ours, on=photos, out=out / str(run), labels="imagenet-1k", batch=_BATCH, threads=1, workers=1
        ).trials()

    return {"raw": raw, "loader": loader, "evaluate": evaluated}


def _memory(folder: Path, size: Size) -> Line:
    """Peak memory of the command in a process of its own."""
    used = {}
    for count in (size.few, size.many):
        photos = folder / f"photos-{count}"
        write_photos(photos, count)
        used[count] = peak(photos, folder / f"run-{count}")
    what = f"evaluate, peak memory, {size.many} JPEGs"
    return Line(what, f"{size.few} JPEGs", used[size.many], used[size.few], 1.1, faster=False, unit="MB")


_MODULE = """
from cosight.torchvision_ops import import_torchvision

import_torchvision()
import timm, torch


def network():
    torch.manual_seed(0)
    return timm.create_model("mobilenetv3_small_050", num_classes=1000)
"""
_PROGRAM = """
import resource, subprocess, sys
subprocess.run([sys.executable, "-W", "ignore", "-m", "cosight", *sys.argv[1:]], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3)
"""


def peak(photos: Path, out: Path) -> float:
    """Megabytes that `cosight evaluate` of a small network on these photos takes at most."""
    (photos.parent / "small_network.py").write_text(_MODULE)
    line = ["evaluate", "python:small_network:network", "--on", str(photos), "--out", str(out)]
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *line, "--labels", "imagenet-1k", "--threads", "1"],
        capture_output=True, text=True, check=True, cwd=photos.parent, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    return float(done.stdout.splitlines()[-1])

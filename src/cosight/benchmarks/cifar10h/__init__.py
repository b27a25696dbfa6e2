"""CIFAR-10H: CIFAR-10's test images with the answers of about 51 people each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cosight.benchmarks.entry import Benchmark, BuildResult, Progress

__all__ = ["CIFAR_10H", "build"]


def build(
    source: Annotated[Path, "Folder with test_images.png, test_labels.json and cifar10h-counts.npy."],
    out: Annotated[Path, "Output folder. An unfinished set there is resumed."],
    *,
    workers: Annotated[int, "Number of worker processes. Does not change the output."] = 1,
    progress: Progress | None = None,
) -> BuildResult:
    """Make CIFAR-10's test images with the answers of about 51 people each as gold labels (CIFAR-10H)."""
    from cosight.benchmarks.cifar10h.cifar10h_recipe import Cifar10H
    from cosight.stimuli.generate import generate_set

    return BuildResult(generate_set(Cifar10H(Path(source)), Path(out), workers=workers, progress=progress))


CIFAR_10H = Benchmark(
    name="cifar-10h",
    summary="CIFAR-10's test images with the label distributions of people.",
    source="Peterson et al. 2019, CIFAR-10H",
    labels="cifar-10",
    experiment="cifar-10h",
    humans="about 51 people per image",
    needs="CIFAR-10's test images and CIFAR-10H's counts",
    measures=("accuracy", "hellinger"),
    build=build,
)

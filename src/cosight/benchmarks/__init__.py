"""Benchmarks: what is shown, in which label space, and where it is from. Data, not code.

A benchmark that alters photos (`verb`) is made while models are evaluated: `cosight evaluate MODEL --on laion-c
--source PHOTOS` shows what `cosight stimuli distort PHOTOS` would store.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cosight.registry import Registry

__all__ = ["Benchmark", "benchmarks"]


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Photos altered by every kind of a family at every step, and the label space that answers are about."""

    name: str
    labels: str  # a label space
    verb: str  # of `cosight stimuli`
    experiment: str
    prepare: str  # what becomes of a photo before it is altered
    summary: str
    source: str
    options: Mapping[str, Any] = field(default_factory=dict)  # of the verb


benchmarks: Registry[Benchmark] = Registry("benchmark")

for _benchmark in (
    Benchmark(
        name="laion-c",
        labels="laion-c-16",
        verb="distort",
        experiment="laion-c",
        prepare="256/224",
        summary="Six distortions unlike anything on the web, five levels, 16 superclasses.",
        source="Li et al. 2025, LAION-C",
    ),
    Benchmark(
        name="imagenet-c",
        labels="imagenet-1k",
        verb="corrupt",
        experiment="imagenet-c",
        prepare="256/224",
        summary="Common corruptions of ImageNet photos at five severities.",
        source="Hendrycks and Dietterich 2019, ImageNet-C",
        options={"variant": "imagenet-c"},
    ),
):
    benchmarks.add(_benchmark.name, _benchmark)

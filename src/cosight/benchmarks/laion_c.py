"""LAION-C: photos with distortions that are unlike anything on the web."""

from cosight.benchmarks.entry import AlteredPhotos, Benchmark

__all__ = ["LAION_C"]

LAION_C = Benchmark(
    name="laion-c",
    summary="Six distortions unlike anything on the web, five levels, 16 superclasses.",
    source="Li et al. 2025, LAION-C",
    labels="laion-c-16",
    experiment="laion-c",
    humans="19 people in a laboratory; their trials are not included",
    needs="photos in class folders",
    measures=("accuracy", "error_consistency"),
    altered=AlteredPhotos(verb="distort", prepare="256/224"),
)

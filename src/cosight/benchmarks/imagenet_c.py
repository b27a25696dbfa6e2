"""ImageNet-C: common corruptions of ImageNet photos."""

from cosight.benchmarks.entry import AlteredPhotos, Benchmark

__all__ = ["IMAGENET_C"]

IMAGENET_C = Benchmark(
    name="imagenet-c",
    summary="Common corruptions of ImageNet photos at five severities.",
    source="Hendrycks and Dietterich 2019, ImageNet-C",
    labels="imagenet-1k",
    experiment="imagenet-c",
    humans="none",
    needs="ImageNet photos in class folders",
    measures=("accuracy",),
    altered=AlteredPhotos(verb="corrupt", prepare="256/224", options={"variant": "imagenet-c"}),
)

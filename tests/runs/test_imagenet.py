"""Top-1 of seven real classifiers on ImageNet validation photos, where those are at hand (COSIGHT_IMAGENET)."""

import os
from pathlib import Path

import numpy as np
import pytest

from cosight.runs.evaluate import evaluate

# On one validation photo a class, as the files' own README has it.
TOP1 = {
    "efficientnet_lite0": 0.741,
    "mobilenet_v2_100_224": 0.715,
    "mobilenet_v1_050_160": 0.574,
    "mobilenet_v1_025_128": 0.403,
    "squeezenet_1_1": 0.547,
    "squeezenet_1_0_compressed": 0.559,
    "tiny_darknet": 0.572,
}


@pytest.mark.slow
def test_top_1_is_the_known_one(mirror, tmp_path):
    """Photos in folders by class number, name or WordNet id."""
    if "COSIGHT_IMAGENET" not in os.environ:
        pytest.skip("no ImageNet validation photos; name their folder in COSIGHT_IMAGENET")
    lines = [f"onnx:{mirror / 'weights' / 'imagenet-onnx' / name}.onnx" for name in TOP1]
    photos = Path(os.environ["COSIGHT_IMAGENET"])
    done = evaluate(*lines, on=photos, out=tmp_path / "run", labels="imagenet-1k", on_error="skip")
    frame = done.trials().frame
    for name, known in TOP1.items():
        mine = frame.filter(frame["observer"] == f"onnx:{name}.onnx")
        error = np.sqrt(known * (1 - known) * (1 / mine.height + 1 / 1000))
        top1 = (mine["response"] == mine["truth"]).mean()
        assert abs(top1 - known) < 2 * error, f"{name}: {top1:.3f}, known {known}"

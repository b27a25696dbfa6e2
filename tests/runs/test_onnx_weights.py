"""A run whose ONNX model keeps its weights in another file: another file is another model."""

from __future__ import annotations

import numpy as np
import pytest

from cosight.errors import InvalidInput
from cosight.runs.evaluate import evaluate, resume
from tests.models.conftest import tiny_onnx  # noqa: F401 (a fixture)

from .conftest import kept


@pytest.fixture
def external(tiny_onnx, drawn_few_images):  # noqa: F811
    """Spec, file of weights and images."""
    tiny = tiny_onnx(classes=10, w="any name")
    return f"onnx:{tiny.path},mean=0,std=1,threads=1", tiny.path.with_name("any name"), drawn_few_images


def test_another_network_is_not_answered_before(external, tmp_path):
    line, weights, images = external
    run = tmp_path / "run"
    assert evaluate(line, on=images, out=run).new == 100
    assert evaluate(line, on=images, out=run).new == 0
    weights.write_bytes(np.arange(30, dtype="<f4").tobytes())
    with pytest.raises(InvalidInput, match=r"holds answers of onnx:tiny.onnx.* with other weights"):
        evaluate(line, on=images, out=run)


def test_a_resumed_run_does_not_mix_two_networks(external, tmp_path):
    line, weights, images = external
    run = tmp_path / "run"

    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(line, on=images, out=run, progress=stop)
    assert len(list(run.glob("trials/*.0000?.parquet"))) == 1
    before = weights.read_bytes()
    weights.write_bytes(np.arange(30, dtype="<f4").tobytes())
    with pytest.raises(InvalidInput, match="other weights"):
        resume(run)
    weights.write_bytes(before)
    assert resume(run).new == 36
    whole = evaluate(line, on=images, out=tmp_path / "whole")
    assert kept(run) == kept(whole.folder)

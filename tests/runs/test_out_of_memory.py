"""A batch that does not fit into memory is halved, and the answers are the same."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from cosight.errors import InvalidInput
from cosight.models import Preprocessing, as_model, parse
from cosight.models.cifar_resnet import CifarResNet
from cosight.models.recorded_answers import load_recorded
from cosight.runs.evaluate import evaluate
from cosight.runs.execution import ExecutionOptions, answer_shards
from cosight.runs.observers import RecordedObserver
from cosight.runs.run_plan import RunPlan
from cosight.runs.stimulus_sources import stored_stimuli
from cosight.stimuli.sets import read_set
from cosight.trials.spaces import label_spaces

from .conftest import kept

PLAIN = Preprocessing(size=16, mean=0, std=1)


class Small:
    """A model of ten classes on a device with memory for `most` images; `sizes` are the batches that it answered."""

    name, classes, class_names, preprocessing, weights_digest = "mine:small", 10, None, PLAIN, "none"
    device = "cuda:0"

    def __init__(self, most, error=None):
        self.most, self.sizes, self.errors = most, [], 0
        self.error = error or torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")
        weights = np.random.default_rng(0).normal(size=(48, 10)).astype(np.float32)

        def answer(images):
            features = images.reshape(len(images), 3, 4, 4, 4, 4).mean(axis=(3, 5)).reshape(len(images), -1)
            return (features[:, :, None] * weights).sum(axis=1), features  # in a fixed order: the same bits

        self.inner = as_model(answer, name="mine:small", preprocessing=PLAIN, features=True)

    def prepare(self, image):
        return self.inner.prepare(image)

    def answer(self, batch):
        if len(batch) > self.most:
            self.errors += 1
            raise self.error
        self.sizes.append(len(batch))
        return self.inner.answer(batch)


def test_the_run_continues_with_half_the_batch_and_the_same_bytes(images, tmp_path):
    large, small = Small(1000), Small(6)
    evaluate(large, on=images, out=tmp_path / "large", features=True)
    run = evaluate(small, on=images, out=tmp_path / "small", features=True)
    assert kept(run.folder) == kept(tmp_path / "large")
    assert small.errors == 3  # 32, 16, 8; then every batch is cut at once
    assert set(small.sizes) == {2, 4}  # 2: as many as as_model tries, none of the run
    notices = [notice for notice in run.notices if "memory" in notice]
    assert notices == ["mine:small: memory is too small for a batch of 32; continued with 4 images at a time"]
    record = json.loads((run.folder / "run.json").read_text())
    assert record["sessions"][-1]["smaller_batches"] == {"mine:small": 4}
    assert record["observers"][0]["device"] == "cuda:0"
    assert record["plan"]["batch"] == 32


def test_a_network_gives_the_same_answers_in_smaller_batches(few_images, tmp_path, one_torch_thread):
    class Tight(CifarResNet):
        most = 1000

        def forward_features(self, pixels):
            if len(pixels) > self.most:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")
            return super().forward_features(pixels)

    torch.manual_seed(0)
    network = Tight(3)
    model = as_model(network, name="net", preprocessing=Preprocessing(size=32), device="cpu")
    whole = evaluate(model, on=few_images, out=tmp_path / "whole", features=True)
    network.most = 5
    parts = evaluate(model, on=few_images, out=tmp_path / "parts", features=True)
    frames = [run.trials().frame for run in (whole, parts)]
    assert frames[0]["response"].equals(frames[1]["response"])
    tables = [np.array(frame["probabilities"].to_list()) for frame in frames]
    np.testing.assert_allclose(tables[0], tables[1], atol=1e-5)  # a library may add in another order
    assert any("continued with 4 images at a time" in notice for notice in parts.notices)


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("MPS backend out of memory (MPS allocated: 8.00 GB)")])
def test_other_libraries_run_out_of_memory_too(few_images, tmp_path, error):
    run = evaluate(Small(3, error), on=few_images, out=tmp_path / "run", batch=7)
    assert run.new == 100
    assert any("continued with 3 images at a time" in notice for notice in run.notices)


def test_one_image_that_does_not_fit_is_one_line(few_images, tmp_path):
    message = "mine:small does not fit into the memory of cuda:0 with one image at a time; use a smaller model, --prec"
    with pytest.raises(InvalidInput, match=message):
        evaluate(Small(0), on=few_images, out=tmp_path / "run")
    repaired = Small(1)
    assert evaluate(repaired, on=few_images, out=tmp_path / "run").new == 100
    assert set(repaired.sizes) == {1}


def test_other_errors_are_not_tried_again(few_images, tmp_path):
    broken = Small(0, RuntimeError("shape mismatch"))
    with pytest.raises(RuntimeError, match="shape mismatch"):
        evaluate(broken, on=few_images, out=tmp_path / "run")
    assert broken.errors == 1


def test_in_the_command_line(few_images, tmp_path, monkeypatch, cosight):
    (tmp_path / "tight.py").write_text(
        "import numpy as np, torch\n"
        "def model():\n"
        "    def answer(images):\n"
        "        if len(images) > 5: raise torch.OutOfMemoryError('CUDA out of memory.')\n"
        "        return images[:, 0, 0, :10] * 5\n"
        "    return answer\n"
        "def never():\n"
        "    calls = []\n"
        "    def answer(images):\n"
        "        calls.append(1)\n"
        "        if len(calls) > 2: raise torch.OutOfMemoryError('CUDA out of memory.')\n"
        "        return images[:, 0, 0, :10] * 5\n"
        "    return answer\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    options = ["--on", few_images, "--labels", "cifar-10", "--batch", 8]
    ended = cosight("evaluate", "python:tight:model,size=16,mean=0,std=1,name=tight", *options, "--out", tmp_path / "a")
    assert ended.code == 0, ended.err
    assert ended.err.count("tight: memory is too small for a batch of 8; continued with 4 images at a time") == 1
    ended = cosight("evaluate", "python:tight:never,size=16,mean=0,std=1,name=tight", *options, "--out", tmp_path / "b")
    lines = [line for line in ended.err.splitlines() if not line.startswith("note: ")]
    assert (ended.code, len(lines)) == (2, 1)
    assert lines[0].startswith("cosight: tight does not fit into memory with one image at a time")


def test_unanswered_rows_stay_where_they_are(few_images, tmp_path, monkeypatch):
    """Answers of parts are joined: rows without a recorded answer keep their places."""
    evaluate(Small(100), on=few_images, out=tmp_path / "run", limit=40, labels="cifar-10")
    plan = RunPlan(stored_stimuli(read_set(few_images)), label_spaces["cifar-10"])
    (recorded,) = load_recorded(parse(f"trials:{tmp_path / 'run'}"))

    class Tight(RecordedObserver):
        def answer(self, start, rows, buffer):
            if len(buffer) > 5:
                raise MemoryError
            return super().answer(start, rows, buffer)

    whole, parts = (
        [*answer_shards(who(recorded, plan.stimuli, plan.space), plan, plan.shards, ExecutionOptions())]
        for who in (RecordedObserver, Tight)
    )
    assert [given.rows for given in whole] == [given.rows for given in parts]
    assert [given.columns.rows() for given in whole] == [given.columns.rows() for given in parts]
    assert sum(len(given.rows) for given in parts) == 40
    assert [given.batch for given in (*whole, *parts)] == [None, None, 4, 4]

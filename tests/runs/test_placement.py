"""Precision is part of a run, the device is not; short names; records from before there was a choice."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch

from cosight.errors import InvalidInput
from cosight.models import Preprocessing, as_model, load_model
from cosight.runs.evaluate import evaluate, resume

from .conftest import TINY, kept

pytestmark = pytest.mark.usefixtures("one_torch_thread")

PLAIN = Preprocessing(size=8, mean=0, std=1)
NET = "python:nets:net,size=8,mean=0,std=1,name=net"


@pytest.fixture
def nets(tmp_path, monkeypatch):
    """A module with a small network, and a processor with instructions for bfloat16."""
    (tmp_path / "nets.py").write_text(
        "import torch\n"
        "def net():\n"
        "    torch.manual_seed(0)\n"
        "    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 10))\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True})
    return tmp_path


def record_of(run):
    return json.loads((run / "run.json").read_text())


def test_precision_is_part_of_a_run(nets, few_images):
    exact = evaluate(NET, on=few_images, out="exact", labels="cifar-10")
    rough = evaluate(NET, on=few_images, out="rough", labels="cifar-10", precision="bfloat16")
    assert exact.observers == rough.observers == ("net",)
    records = [record_of(run.folder) for run in (exact, rough)]
    assert [record["plan"]["precision"] for record in records] == ["float32", "bfloat16"]
    assert [record["observers"][0]["identity"]["settings"]["precision"] for record in records] == [
        "float32",
        "bfloat16",
    ]
    assert [record["observers"][0]["device"] for record in records] == ["cpu", "cpu"]
    probabilities = [np.array(run.trials().frame["probabilities"].to_list()) for run in (exact, rough)]
    assert 0 < np.abs(probabilities[0] - probabilities[1]).max() < 0.05
    with pytest.raises(InvalidInput, match="exact holds a run with precision float32, got bfloat16; use the same, or"):
        evaluate(NET, on=few_images, out="exact", labels="cifar-10", precision="bfloat16")
    with pytest.raises(InvalidInput, match="rough holds a run with precision bfloat16, got float32; use the same, or"):
        evaluate(NET, on=few_images, out="rough", labels="cifar-10")
    before = kept(rough.folder)
    for file in (rough.folder / "trials").glob("*.00001.parquet"):
        file.unlink()
    assert resume("rough", device="cpu").new == 36  # in the precision of the run
    assert kept(rough.folder) == before
    assert (
        record_of(rough.folder)["arguments"]["passed"] | {"device": "cpu", "precision": "bfloat16"}
        == (record_of(rough.folder)["arguments"]["passed"])
    )


def test_a_run_from_before_there_was_a_choice_is_resumed(in_workshop, few_images, tmp_path):
    run = evaluate(TINY, on=few_images, out=tmp_path / "run").folder
    record = record_of(run)
    del record["plan"]["precision"], record["arguments"]["defaulted"]["precision"]
    del record["arguments"]["defaulted"]["device"]
    (run / "run.json").write_text(json.dumps(record))
    shutil.rmtree(run / "trials")
    assert evaluate(TINY, on=few_images, out=run).new == 100
    assert resume(run, trust=True).new == 0


def test_a_model_and_its_run_have_one_precision(nets, few_images):
    rough = load_model(NET, precision="bfloat16")
    with pytest.raises(InvalidInput, match="net computes in bfloat16, the run in float32; evaluate it with precision="):
        evaluate(rough, on=few_images, out="run", labels="cifar-10")
    run = evaluate(rough, on=few_images, out="run", labels="cifar-10", precision="bfloat16", limit=10)
    assert record_of(run.folder)["observers"][0]["identity"]["settings"]["precision"] == "bfloat16"
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 10))
    exact = as_model(module, name="mine", preprocessing=PLAIN)
    run = evaluate(exact, on=few_images, out="other", labels="cifar-10", precision="bfloat16", limit=10)
    assert record_of(run.folder)["observers"][0]["identity"]["settings"]["precision"] == "bfloat16"
    assert exact.precision == "float32"


def test_models_that_cannot_be_placed_are_told_in_one_line(nets, few_images, monkeypatch):
    def means(batch):
        return batch.reshape(len(batch), -1)[:, :10]

    function = as_model(means, preprocessing=PLAIN)
    with pytest.raises(InvalidInput, match=r"python:means is no model in torch .* itself, got --precision bfloat16"):
        evaluate(function, on=few_images, out="run", labels="cifar-10", precision="bfloat16")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InvalidInput, match="--device cuda is not available"):
        evaluate(function, on=few_images, out="run", labels="cifar-10", device="cuda")
    with pytest.raises(InvalidInput, match="--device must be auto, cpu"):
        resume(evaluate(NET, on=few_images, out="ok", labels="cifar-10", limit=10).folder, device="gpu")


def test_recorded_answers_need_neither(nets, few_images):
    evaluate(NET, on=few_images, out="run", labels="cifar-10", limit=10)
    again = evaluate("trials:run", on=few_images, out="again", labels="cifar-10", limit=10, precision="bfloat16")
    assert again.observers == ("net",)


def test_short_names_tell_models_apart(nets, few_images):
    lines = [f"python:nets:net,size=8,mean={mean},std=1,name={name}" for mean, name in ((0, "plain"), (0.5, "grey"))]
    run = evaluate(*lines, f"ensemble:[{lines[0]}]+[{lines[1]}],name=both", on=few_images, out="r", labels="cifar-10")
    assert run.observers == ("plain", "grey", "both")
    assert sorted(path.name for path in (run.folder / "trials").glob("*.00000.parquet")) == [
        "both.00000.parquet",
        "grey.00000.parquet",
        "plain.00000.parquet",
    ]
    with pytest.raises(InvalidInput, match="each observer answers once, got plain twice"):
        evaluate(lines[0], lines[1].replace("grey", "plain"), on=few_images, out="s", labels="cifar-10")

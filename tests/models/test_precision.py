"""bf16 where the hardware has it, and what a model says of its settings."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from cosight.errors import InvalidInput
from cosight.models import Preprocessing, TorchModel, as_model, ensemble, load_model
from cosight.models.cifar_resnet import CifarResNet

pytestmark = pytest.mark.usefixtures("one_torch_thread")

PLAIN = Preprocessing((32, 32), mean=(0, 0, 0), std=(1, 1, 1))
BATCH = np.random.default_rng(1).random((6, 3, 32, 32), dtype=np.float32)


def instructions(monkeypatch, **has):
    """A processor with these instructions; torch computes bfloat16 on any, if more slowly."""
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"architecture": "x86_64", "avx2": True, **has})


@pytest.fixture
def bf16_everywhere(monkeypatch):
    instructions(monkeypatch, avx512_bf16=True)


def net(classes=5):
    torch.manual_seed(0)
    return CifarResNet(3, classes)


def means(batch):
    return 8 * batch.mean(axis=(2, 3))


# --- bf16


@pytest.mark.usefixtures("bf16_everywhere")
def test_bf16_is_near_float32_and_gives_float32():
    exact = as_model(net(), name="net", preprocessing=PLAIN, features=True)
    rough = replace(exact, precision="bf16")
    wanted, given = exact.answer(BATCH), rough.answer(BATCH)
    assert (given.logits.dtype, given.features.dtype) == (np.float32, np.float32)
    assert np.abs(given.probabilities - wanted.probabilities).max() < 0.05
    assert not np.array_equal(given.logits, wanted.logits)
    # eight bits: what comes out of the last layer is a bfloat16, whose float32 ends in sixteen zeros
    assert not (given.logits.view(np.uint32) & 0xFFFF).any()
    assert (wanted.logits.view(np.uint32) & 0xFFFF).any()


@pytest.mark.usefixtures("bf16_everywhere")
def test_gradients_go_through_the_network_that_answers():
    model = replace(as_model(net(), name="net", preprocessing=PLAIN), precision="bf16")
    images = torch.from_numpy(BATCH).requires_grad_()
    logits = model(images)
    assert logits.dtype == torch.float32
    np.testing.assert_allclose(logits.detach().numpy(), model.answer(BATCH).logits, rtol=0.02, atol=0.02)
    (slope,) = torch.autograd.grad(logits.sum(), images)
    assert slope.dtype == torch.float32
    assert slope.abs().sum() > 0


@pytest.mark.usefixtures("bf16_everywhere")
def test_probabilities_of_a_module_in_bf16():
    module = nn.Sequential(net(), nn.Softmax(dim=1))
    exact = as_model(module, name="net", preprocessing=PLAIN, outputs="probabilities")
    given = replace(exact, precision="bf16").answer(BATCH).probabilities
    assert np.abs(given - exact.answer(BATCH).probabilities).max() < 0.05
    np.testing.assert_allclose(given.sum(axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("name", ["avx512_bf16", "amx_bf16", "bf16", "sve_bf16"])
def test_any_of_the_instructions_will_do(monkeypatch, name):
    model = as_model(net(), name="net", preprocessing=PLAIN)
    instructions(monkeypatch, **{name: True})
    assert replace(model, precision="bf16").precision == "bf16"
    instructions(monkeypatch, **{name: False})
    with pytest.raises(InvalidInput, match=r"needs a device with bfloat16 instructions, net is on cpu.*for float32"):
        replace(model, precision="bf16")


def test_a_device_that_is_neither_cpu_nor_cuda_is_refused(monkeypatch):
    instructions(monkeypatch, avx512_bf16=True)
    model = as_model(net(), name="net", preprocessing=PLAIN)
    with pytest.raises(InvalidInput, match="net is on meta"):
        replace(model, precision="bf16").on("meta")


@pytest.mark.parametrize("has", [True, False])
def test_cuda_is_asked_itself(monkeypatch, has):
    model = as_model(net(), name="net", preprocessing=PLAIN)
    monkeypatch.setattr("cosight.models.torch_models._device", lambda module: "cuda")
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: has and not including_emulation)
    instructions(monkeypatch, avx512_bf16=not has)
    if has:
        assert replace(model, precision="bf16").settings["precision"] == "bf16"
    else:
        with pytest.raises(InvalidInput, match="net is on cuda"):
            replace(model, precision="bf16")


# --- on a line


@pytest.fixture
def line(tmp_path, monkeypatch):
    """The name of a model in a user's own file."""
    code = "from cosight.models.cifar_resnet import CifarResNet\ndef net():\n    return CifarResNet(3, 5)\n"
    code += "def means():\n    return lambda batch: 8 * batch.mean(axis=(2, 3))\n"
    (tmp_path / "precise_models.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    return lambda made, more="": f"python:precise_models:{made},size=32,mean=0,std=1{more}"


@pytest.mark.usefixtures("bf16_everywhere")
def test_on_a_line_it_is_part_of_the_name(line):
    rough, exact, plain = (load_model(line("net", more)) for more in (",precision=bf16", ",precision=float32", ""))
    assert [model.precision for model in (rough, exact, plain)] == ["bf16", "float32", "float32"]
    assert "precision=bf16" in rough.name
    assert "precision" not in plain.name
    assert rough.answer(BATCH).logits.shape == (6, 5)


def test_other_words_and_other_models_are_refused(line, tiny_onnx):
    with pytest.raises(InvalidInput, match="precision must be float32 or bf16, got 'fp16'"):
        load_model(line("net", ",precision=fp16"))
    with pytest.raises(InvalidInput, match="only models in torch have a precision, got float32 for"):
        load_model(line("means", ",precision=float32"))
    with pytest.raises(InvalidInput, match=r"options of onnx models are .*, got precision"):
        load_model(f"onnx:{tiny_onnx().path},mean=0,std=1,precision=bf16")


@pytest.mark.usefixtures("bf16_everywhere")
def test_of_a_model_in_torch_that_a_function_gives(tmp_path, monkeypatch):
    code = "from cosight.models import Preprocessing, as_model\nfrom cosight.models.cifar_resnet import CifarResNet\n"
    code += "def model():\n    return as_model(CifarResNet(3), name='x', preprocessing=Preprocessing((32, 32)))\n"
    (tmp_path / "whole_models.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    assert load_model("python:whole_models:model,precision=bf16").precision == "bf16"


def test_real_networks_answer_alike(mirror, photos, monkeypatch):
    instructions(monkeypatch, avx512_bf16=True)
    file = mirror / "weights/imagenet-timm/tf_efficientnet_lite0.safetensors"
    named = f"timm:tf_efficientnet_lite0,checkpoint={file},size=128"
    exact, rough = load_model(named), load_model(f"{named},precision=bf16")
    batch = np.stack([exact.prepare(photo) for photo in photos])
    wanted, given = exact.answer(batch), rough.answer(batch)
    assert np.abs(given.probabilities - wanted.probabilities).max() < 0.05
    assert np.array_equal(given.logits.argmax(axis=1), wanted.logits.argmax(axis=1))
    assert exact.weights_digest == rough.weights_digest
    assert exact.settings != rough.settings


# --- settings


def test_settings_are_json_and_change_with_the_answers(tiny_onnx):
    module = as_model(net(), name="net", preprocessing=PLAIN)
    array = as_model(lambda batch: (means(batch), batch[:, :, 0, 0]), name="means", preprocessing=PLAIN)
    path = tiny_onnx(outputs=("logits", "pooled", "shares")).path
    models = [
        module,
        module.with_features(),
        module.with_features("layer3"),
        array,
        array.with_features(),
        *(
            load_model(f"onnx:{path},mean=0,std=1,{options}")
            for options in ("output=logits", "output=logits,layer=pooled", "output=shares,outputs=probabilities")
        ),
    ]
    told = [json.dumps(model.settings, sort_keys=True) for model in models]
    assert len(set(told)) == len(models)
    assert json.loads(told[0]) == {"precision": "float32", "outputs": "logits", "layer": None}
    assert json.loads(told[-1]) == {"output": "shares", "outputs": "probabilities", "layer": None}


class Bare:
    """A model by the Protocol alone, which says nothing of settings."""

    name, classes, class_names, preprocessing, weights_digest = "bare", 3, None, PLAIN, "none"

    def prepare(self, image):
        return np.zeros((3, 32, 32), np.float32)

    def answer(self, batch):
        return as_model(means, name="means", preprocessing=PLAIN).answer(batch)


def test_settings_of_an_ensemble_are_its_members():
    array = as_model(means, name="means", preprocessing=PLAIN)
    module = as_model(net(3), name="net", preprocessing=PLAIN)
    assert isinstance(module, TorchModel)
    both = ensemble([array, module, Bare()], name="three")
    assert both.settings == {"members": [array.settings, module.settings, {}]}

"""Half precision, and what a model says of its settings."""

from __future__ import annotations

import json

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


def net(classes=5):
    torch.manual_seed(0)
    return CifarResNet(3, classes)


def means(batch):
    return 8 * batch.mean(axis=(2, 3))


# --- half precision


@pytest.mark.parametrize(("precision", "zeros"), [("bfloat16", 16), ("float16", 13)])
def test_half_precision_is_near_float32_and_gives_float32(precision, zeros):
    exact = as_model(net(), name="net", preprocessing=PLAIN, features=True)
    rough = exact.on("cpu", precision=precision)
    wanted, given = exact.answer(BATCH), rough.answer(BATCH)
    assert (given.logits.dtype, given.features.dtype) == (np.float32, np.float32)
    assert np.abs(given.probabilities - wanted.probabilities).max() < 0.05
    # the last layer returns 8 or 11 significant bits: as a float32 the number ends in zeros
    assert not (given.logits.view(np.uint32) & (2**zeros - 1)).any()
    assert (wanted.logits.view(np.uint32) & (2**zeros - 1)).any()
    assert (exact.precision, rough.precision, rough.settings["precision"]) == ("float32", precision, precision)
    assert exact.weights_digest == rough.weights_digest
    assert next(rough.module.parameters()).dtype == torch.float32  # autocast: weights are not cast


def test_gradients_go_through_the_network_that_answers():
    model = as_model(net(), name="net", preprocessing=PLAIN, precision="bfloat16")
    images = torch.from_numpy(BATCH).requires_grad_()
    logits = model(images)
    assert logits.dtype == torch.float32
    np.testing.assert_allclose(logits.detach().numpy(), model.answer(BATCH).logits, rtol=0.02, atol=0.02)
    (slope,) = torch.autograd.grad(logits.sum(), images)
    assert slope.dtype == torch.float32
    assert slope.abs().sum() > 0


def test_probabilities_of_a_module_in_half_precision():
    module = nn.Sequential(net(), nn.Softmax(dim=1))
    exact = as_model(module, name="net", preprocessing=PLAIN, outputs="probabilities")
    given = exact.on("cpu", precision="bfloat16").answer(BATCH).probabilities
    assert np.abs(given - exact.answer(BATCH).probabilities).max() < 0.05
    np.testing.assert_allclose(given.sum(axis=1), 1, atol=1e-5)


def test_a_model_that_leaves_the_range_of_float16_is_refused():
    class Large(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(3, 5)

        def forward(self, pixels):
            return self.head(pixels.mean(dim=(2, 3)) * 1e6)

    model = as_model(Large(), name="large", preprocessing=PLAIN)
    with pytest.raises(InvalidInput, match=r"large returns nan or inf .* in float16 on cpu; use --precision bfloat16"):
        model.on("cpu", precision="float16")
    assert np.isfinite(model.on("cpu", precision="bfloat16").answer(BATCH).logits).all()


@pytest.fixture
def line(tmp_path, monkeypatch):
    """The name of a model in a user's own file."""
    code = "from cosight.models.cifar_resnet import CifarResNet\ndef net():\n    return CifarResNet(3, 5)\n"
    code += "def means():\n    return lambda batch: 8 * batch.mean(axis=(2, 3))\n"
    (tmp_path / "precise_models.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    return lambda made: f"python:precise_models:{made},size=32,mean=0,std=1"


def test_precision_of_models_by_name(line, tiny_onnx):
    assert load_model(line("net"), precision="bfloat16").precision == "bfloat16"
    assert load_model(f"ensemble:[{line('net')}]+[{line('net')}]", precision="bfloat16").settings == {
        "members": [{"precision": "bfloat16", "outputs": "logits", "layer": None}] * 2
    }
    with pytest.raises(InvalidInput, match=r"--precision must be float32, bfloat16 or float16, got 'fp16'"):
        load_model(line("net"), precision="fp16")
    with pytest.raises(InvalidInput, match=r"is no model in torch and chooses .* itself, got --precision bfloat16"):
        load_model(line("means"), precision="bfloat16")
    with pytest.raises(InvalidInput, match="an ONNX file fixes its precision, got --precision bfloat16"):
        load_model(f"onnx:{tiny_onnx().path},mean=0,std=1", precision="bfloat16")
    with pytest.raises(InvalidInput, match=r"options of python models are .*, got precision"):
        load_model(f"{line('net')},precision=bfloat16")


def test_real_networks_answer_alike(mirror, photos):
    file = mirror / "weights/imagenet-timm/tf_efficientnet_lite0.safetensors"
    named = f"timm:tf_efficientnet_lite0,checkpoint={file},size=128"
    exact, rough = load_model(named), load_model(named, precision="bfloat16")
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

"""The layer before the classes: found in any architecture, and its head gives the logits."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from cosight.errors import InvalidInput, UnknownName
from cosight.models import Preprocessing, as_model, load_model
from cosight.models.cifar_resnet import CifarResNet
from cosight.torchvision_ops import import_torchvision

pytestmark = pytest.mark.usefixtures("one_torch_thread")

PLAIN = Preprocessing((32, 32), mean=(0, 0, 0), std=(1, 1, 1))


def images(model, count=3):
    return np.random.default_rng(1).random((count, 3, *model.preprocessing.size), dtype=np.float32)


def normalised(model, batch):
    mean, std = (torch.tensor(values).reshape(1, 3, 1, 1) for values in (model.mean, model.std))
    return (torch.from_numpy(batch) - mean) / std


def close(array, tensor):
    torch.testing.assert_close(torch.from_numpy(array), tensor, rtol=1e-4, atol=1e-4)


def test_resnet20_by_hand(mirror):
    model = load_model(
        f"cosight:resnet20,checkpoint={mirror}/weights/cifar10/standard-resnet20.safetensors", features=True
    )
    batch = images(model)
    answers = model.answer(batch)
    with torch.no_grad():
        close(answers.features, model.module.features(normalised(model, batch)))
        close(answers.logits, model.module.linear(torch.from_numpy(answers.features)))
    assert answers.features.shape == (3, 64)
    assert model.tap.facts == {"side": "timm", "layer": None}  # it has the two methods of timm


def test_efficientnet_by_hand(mirror):
    checkpoint = mirror / "weights/imagenet-timm/tf_efficientnet_lite0.safetensors"
    line = f"timm:tf_efficientnet_lite0,checkpoint={checkpoint},mean={127 / 255},std={128 / 255}"
    model = load_model(line, features=True)
    batch = images(model)
    answers = model.answer(batch)
    with torch.no_grad():
        last = model.module.bn2(
            model.module.conv_head(model.module.blocks(stem(model.module, normalised(model, batch))))
        )
        close(answers.features, last.mean(dim=(2, 3)))  # global average pooling
        close(answers.logits, model.module.classifier(torch.from_numpy(answers.features)))
    assert answers.features.shape == (3, 1280)
    np.testing.assert_allclose(load_model(line).answer(batch).logits, answers.logits, atol=1e-5)


def stem(module, pixels):
    return module.bn1(module.conv_stem(pixels))


@pytest.fixture(scope="module")
def timm():
    import_torchvision()
    import timm

    return timm


def by_norm(module, pixels):
    """The mean over tokens of the last normalised block, as MLP-Mixer (Tolstikhin et al. 2021) ends."""
    return module.norm(module.blocks(module.stem(pixels))).mean(dim=1)


@pytest.mark.parametrize(
    ("name", "dimensions"),
    [
        ("test_vit", 64),
        ("mixer_s32_224", 512),
        ("test_resnet", 96),
        ("test_convnext", 64),
        ("test_byobnet", 256),
        ("test_nfnet", 192),
        ("test_mambaout", 256),
        ("mobilenetv3_small_050", 1024),
        ("levit_128s", 384),
        pytest.param("deit_tiny_distilled_patch16_224", 192, marks=pytest.mark.slow),
        pytest.param("crossvit_tiny_240", 96 + 192, marks=pytest.mark.slow),
    ],
)
def test_families_of_timm(timm, name, dimensions):
    torch.manual_seed(0)
    module = timm.create_model(name, num_classes=7)
    model = as_model(module, name=name, features=True)
    batch = images(model, 2)
    answers = model.answer(batch)
    with torch.no_grad():
        close(answers.logits, module(normalised(model, batch)))
        if name == "mixer_s32_224":
            close(answers.features, by_norm(module, normalised(model, batch)))
        if name == "test_vit":
            close(answers.features, vit_by_hand(module, normalised(model, batch)))
        head = module.get_classifier()
        if isinstance(head, nn.Module) and not hasattr(head, "bn") and "crossvit" not in name:
            close(answers.logits, head(torch.from_numpy(answers.features)))
    assert answers.features.shape == (2, dimensions)
    assert np.abs(answers.features[0] - answers.features[1]).max() > 1e-4


def vit_by_hand(module, pixels):
    tokens = module.norm(module.blocks(module.norm_pre(module._pos_embed(module.patch_embed(pixels)))))
    return module.fc_norm(tokens[:, 0])


def test_a_model_that_was_asked_still_gives_gradients(timm):
    """LeViT keeps what it first computes in eval mode; done in torch's inference mode, that would bar gradients."""
    model = as_model(timm.create_model("levit_128s", num_classes=3), name="levit", features=True)
    model.answer(images(model, 1))
    pixels = torch.rand(1, 3, *model.size, requires_grad=True)
    model(pixels).sum().backward()
    assert pixels.grad.abs().sum() > 0


# --- any module


class TwoHeads(nn.Module):
    def __init__(self, *, mean=True):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 8), nn.ReLU())
        self.first, self.second, self.mean = nn.Linear(8, 5), nn.Linear(8, 5), mean

    def forward(self, x):
        features = self.body(x)
        one, other = self.first(features), self.second(features)
        return (one + other) / 2 if self.mean else one


def test_the_linear_layer_that_gives_the_logits():
    module = TwoHeads(mean=False)
    model = as_model(module, name="mine", preprocessing=PLAIN, features=True)
    batch = images(model)
    with torch.no_grad():
        close(model.answer(batch).features, module.body(torch.from_numpy(batch)))
    assert model.tap.path == "first"  # `second` runs last, but the answer is not its


def test_two_heads_and_none_ask_for_a_layer():
    with pytest.raises(
        InvalidInput, match=r"in mine there are first, second; name a layer with layer=PATH, for example"
    ):
        as_model(TwoHeads(), name="mine", preprocessing=PLAIN, features=True)
    convolution = nn.Sequential(nn.Conv2d(3, 4, 32), nn.Flatten())
    with pytest.raises(InvalidInput, match=r"in conv there is none; name a layer with layer=PATH"):
        as_model(convolution, name="conv", preprocessing=PLAIN, features=True)


def test_a_temperature_behind_the_head_is_seen_through():
    class Cooled(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = CifarResNet(3)

        def forward(self, x):
            return self.net(x) / 2

    model = as_model(Cooled(), name="cooled", preprocessing=PLAIN, features=True)
    assert model.tap.path == "net.linear"


@pytest.mark.parametrize("path", ["layer2", "layer2.0.conv1", "bn1"])
def test_layers_by_path(path):
    module = CifarResNet(3)
    model = as_model(module, name="mine", preprocessing=PLAIN, layer=path)
    batch = images(model)
    seen = []
    module.get_submodule(path).register_forward_hook(lambda _, got, given: seen.append(given))
    answers = model.answer(batch)
    assert len(seen) == 1  # one pass for both
    close(answers.features, seen[0].flatten(1))
    assert answers.features.shape == (3, seen[0][0].numel())


def test_layers_that_are_wrong():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.pair, self.idle, self.head = Pair(), nn.Linear(2, 2), nn.Linear(3, 4)

        def forward(self, x):
            return self.head(self.pair(x)[0])

    class Pair(nn.Module):
        def forward(self, x):
            return x.mean(dim=(2, 3)), x

    for path, error, message in [
        ("haed", UnknownName, "mine has no layer 'haed'; did you mean head"),
        ("", UnknownName, "mine has no layer ''; its last layers are pair, idle, head"),
        ("idle", InvalidInput, "layer=idle of mine does not run"),
        ("pair", InvalidInput, "layer=pair of mine returns tuple"),
    ]:
        with pytest.raises(error, match=message):
            as_model(Odd(), name="mine", preprocessing=PLAIN).with_features(path)


def test_no_hook_stays_behind():
    module = CifarResNet(3)
    model = as_model(module, name="mine", preprocessing=PLAIN, features=True)
    model.answer(images(model))
    assert not any(part._forward_hooks for part in module.modules())

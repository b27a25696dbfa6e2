"""torchvision's classifiers from local checkpoints; photos prepared as the weights' own transforms do."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from cosight.errors import InvalidInput, UnknownName
from cosight.models import TorchModel, load_model, resize_and_crop
from cosight.models.torchvision_models import torchvision_preprocessing
from cosight.torchvision_ops import import_torchvision
from cosight.trials import label_spaces

pytestmark = pytest.mark.usefixtures("one_torch_thread")


@pytest.fixture(scope="module")
def models():
    import_torchvision()
    from torchvision import models

    return models


def saved(models, tmp_path, name, **options):
    torch.manual_seed(0)
    module = models.get_model(name, weights=None, **options).eval()
    save_file(module.state_dict(), tmp_path / "weights.safetensors")
    return module, tmp_path / "weights.safetensors"


@pytest.mark.parametrize(
    ("name", "classes", "options"),
    [
        ("resnet18", 10, {}),
        ("mobilenet_v3_small", 7, {}),
        ("squeezenet1_1", 5, {}),  # its head is a convolution
        ("shufflenet_v2_x0_5", 1000, {}),
        ("googlenet", 6, {"init_weights": False, "transform_input": True}),
    ],
)
def test_a_checkpoint_gives_the_networks_own_answers(models, tmp_path, name, classes, options):
    module, path = saved(models, tmp_path, name, num_classes=classes, **options)
    model = load_model(f"torchvision:{name},checkpoint={path},size=64")
    assert isinstance(model, TorchModel)
    assert (model.classes, model.class_names) == (classes, None)
    batch = np.random.default_rng(0).random((2, 3, 64, 64), dtype=np.float32)
    mean, std = (torch.tensor(values).reshape(1, 3, 1, 1) for values in (model.mean, model.std))
    with torch.no_grad():
        expected = module((torch.from_numpy(batch) - mean) / std)
    np.testing.assert_allclose(model.answer(batch).logits, expected.numpy(), rtol=1e-3, atol=1e-4)
    assert model.name == f"torchvision:{name},checkpoint=weights.safetensors,size=64"


def test_features_of_resnet18(models, tmp_path):
    module, path = saved(models, tmp_path, "resnet18", num_classes=10)
    model = load_model(f"torchvision:resnet18,checkpoint={path},size=64", features=True)
    answers = model.answer(np.random.default_rng(0).random((2, 3, 64, 64), dtype=np.float32))
    assert answers.features.shape == (2, 512)
    with torch.no_grad():
        logits = module.fc(torch.from_numpy(answers.features))
    np.testing.assert_allclose(answers.logits, logits.numpy(), rtol=1e-4, atol=1e-4)


def test_every_classifiers_transforms_can_be_followed(models):
    for name in models.list_models(module=models):
        for weights in models.get_model_weights(name):
            transforms = weights.transforms()
            own = torchvision_preprocessing(transforms)
            assert int(own.size[0] / own.crop) == transforms.resize_size[0], weights


@pytest.mark.parametrize("name", ["resnet18", "resnet50", "vit_b_16", "efficientnet_b3", "convnext_tiny"])
def test_pixels_are_those_of_the_transforms(models, photos, name):
    """Sizes before the cut: 256, 232, 256, 320, 236; bilinear but for the fourth. torchvision's pixels are Pillow's."""
    transforms = models.get_model_weights(name).DEFAULT.transforms()
    own = torchvision_preprocessing(transforms)
    mean, std = (torch.tensor(values).reshape(3, 1, 1) for values in (transforms.mean, transforms.std))
    expected = ((transforms(Image.fromarray(photos[0])) * std + mean) * 255).round().byte().permute(1, 2, 0).numpy()
    assert np.array_equal(resize_and_crop(photos[0], own), expected)


def test_categories_are_the_usual_classes_in_the_usual_order(models):
    """Two of 1,000 are spelled otherwise: torchvision tells the two cranes and the two maillots apart."""
    titles = label_spaces["imagenet-1k"].titles
    every = [weights for name in models.list_models(module=models) for weights in models.get_model_weights(name)]
    assert all(weights.name.startswith("IMAGENET1K") for weights in every)
    for categories in {tuple(weights.meta["categories"]) for weights in every if weights.meta["categories"]}:
        pairs = enumerate(zip(categories, titles, strict=True))
        others = {index: pair for index, pair in pairs if pair[0] != pair[1]}
        assert others == {134: ("crane bird", "crane"), 639: ("maillot tank suit", "maillot")}


def test_classes_of_fetched_weights_are_wordnet_ids(models, monkeypatch):
    random = models.get_model("squeezenet1_1", weights=None).state_dict()
    monkeypatch.setattr(models.SqueezeNet1_1_Weights, "get_state_dict", lambda *_, **__: random)
    model = load_model("torchvision:squeezenet1_1,size=64")
    assert model.class_names == label_spaces["imagenet-1k"].classes


def test_names_and_weights_that_are_wrong(models, tmp_path, monkeypatch):
    _, path = saved(models, tmp_path, "squeezenet1_1", num_classes=5)
    with pytest.raises(UnknownName, match=r"no torchvision classifier is called 'resnet81'; did you mean .*resnet18"):
        load_model("torchvision:resnet81")
    with pytest.raises(UnknownName, match="has no weights 'V3'; there are IMAGENET1K_V1, IMAGENET1K_V2"):
        load_model("torchvision:resnet50.V3")
    with pytest.raises(UnknownName, match="no torchvision classifier"):
        load_model("torchvision:fcn_resnet50")  # not a classifier
    with pytest.raises(
        InvalidInput, match=r"do not fit torchvision:resnet18: 102 missing \(conv1.weight, bn1.weight, "
    ):
        load_model(f"torchvision:resnet18,checkpoint={path}")

    def offline(*_, **__):
        raise OSError("no route\nto host")

    monkeypatch.setattr(models.ResNet18_Weights, "get_state_dict", offline)
    with pytest.raises(
        InvalidInput, match="cannot download the weights of torchvision:resnet18: no route; connect, or add"
    ):
        load_model("torchvision:resnet18")

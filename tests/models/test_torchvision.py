"""torchvision's classifiers from local checkpoints; photos prepared as the weights' own transforms do."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from cosight.errors import InvalidInput, UnknownName
from cosight.models import Preprocessing, TorchModel, as_model, load_model, preprocess, resize_and_crop
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


# --- transforms of one's own


def steps(v2, resize, crop=None, normalise=True):
    """A Compose of either generation of torchvision's transforms, without the tensor that the second has."""
    from torchvision import transforms
    from torchvision.transforms import v2 as second

    kind = second if v2 else transforms
    made = [kind.Resize(resize, interpolation=transforms.InterpolationMode.BICUBIC)]
    made += [kind.CenterCrop(crop)] if crop else []
    made += [second.ToImage(), second.ToDtype(torch.float32, scale=True)] if v2 else [transforms.ToTensor()]
    made += [kind.Normalize((0.5, 0.4, 0.3), (0.2, 0.3, 0.4))] if normalise else []
    return kind.Compose(made)


@pytest.mark.usefixtures("models")
@pytest.mark.parametrize("v2", [False, True])
@pytest.mark.parametrize(
    ("resize", "crop", "normalise"),
    [(256, 224, True), (64, 64, False), ((96, 96), None, True), ((80, 120), None, True), ((256, 256), 224, True)],
)
def test_a_compose_gives_the_pixels_of_torchvision(photos, v2, resize, crop, normalise):
    compose = steps(v2, resize, crop, normalise)
    own = torchvision_preprocessing(compose)
    expected = compose(Image.fromarray(photos[0])).numpy()
    pixels = preprocess(photos[0], own)
    given = (pixels - np.float32(own.mean)[:, None, None]) / np.float32(own.std)[:, None, None]
    np.testing.assert_allclose(given, expected, atol=1e-5)
    assert own.mean == ((0.5, 0.4, 0.3) if normalise else (0, 0, 0))


def test_as_model_takes_weights_transforms_and_compose(models):
    module = models.get_model("squeezenet1_1", weights=None, num_classes=5)
    weights = models.SqueezeNet1_1_Weights.DEFAULT
    given = [
        as_model(module, preprocessing=way).preprocessing
        for way in (weights, weights.transforms(), steps(False, 256, 224), Preprocessing(size=224))
    ]
    assert given[0] == given[1] == Preprocessing(224, interpolation="bilinear", crop=given[0].crop)
    assert (given[2].mean, given[2].interpolation) == ((0.5, 0.4, 0.3), "bicubic")
    assert given[3] == Preprocessing((224, 224))


@pytest.mark.usefixtures("models")
def test_what_a_compose_must_not_do():
    from torchvision import transforms
    from torchvision.transforms import v2

    tensor, resize, crop = transforms.ToTensor(), transforms.Resize(256), transforms.CenterCrop(224)
    for made, message in (
        (
            [resize, transforms.RandomCrop(224), tensor],
            r"got Compose\(Resize, RandomCrop, ToTensor\); describe what it",
        ),
        ([crop, resize, tensor], "each once, in this order"),
        ([tensor], r"got Compose\(ToTensor\)"),
        ([resize, tensor], "one size after preprocessing, .* add CenterCrop"),
        ([transforms.Resize(200, max_size=300), crop, tensor], "one size after preprocessing"),
        ([resize, transforms.CenterCrop((224, 100)), tensor], "rectangular images"),
        ([transforms.Resize(200), crop, tensor], "resize must be at least the network's input of 224, got 200"),
        ([resize, crop, transforms.PILToTensor()], "must turn bytes into numbers from 0 to 1"),
        ([resize, crop, v2.ToImage(), v2.ToDtype(torch.float32)], "must turn bytes into numbers from 0 to 1"),
    ):
        with pytest.raises(InvalidInput, match=message):
            torchvision_preprocessing(transforms.Compose(made))


def test_weights_that_are_of_no_classifier(models):
    with pytest.raises(
        InvalidInput, match="weights of a torchvision classifier or a Compose, got SemanticSegmentation"
    ):
        torchvision_preprocessing(models.segmentation.FCN_ResNet50_Weights.DEFAULT)


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
    monkeypatch.setattr("cosight.models.torch_models._why_unreachable", lambda url: None)  # nothing is fetched
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
    monkeypatch.setattr("cosight.models.torch_models._why_unreachable", lambda url: None)
    with pytest.raises(
        InvalidInput, match="cannot download the weights of torchvision:resnet18: no route; connect, or add"
    ):
        load_model("torchvision:resnet18")

"""A user's own module, function or model."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn

from cosight.errors import InvalidInput, UnknownName
from cosight.models import ArrayModel, Model, ModelOutputs, Preprocessing, TorchModel, as_model, load_model, parse
from cosight.models.cifar_resnet import CifarResNet
from cosight.models.model_spec import class_names_of
from cosight.trials import label_spaces

pytestmark = pytest.mark.usefixtures("one_torch_thread")

PLAIN = Preprocessing((32, 32), mean=(0, 0, 0), std=(1, 1, 1))
HALVES = Preprocessing((32, 32), mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))
BATCH = np.random.default_rng(1).random((4, 3, 32, 32), dtype=np.float32)


def means(batch):
    """Three classes: how red, green and blue an image is."""
    return 8 * batch.mean(axis=(2, 3))


@dataclass(frozen=True)
class Constant:
    """A model by the Protocol alone."""

    name: str = "constant"
    classes: int = 2
    class_names: tuple[str, ...] | None = ("no", "yes")
    preprocessing: Preprocessing = PLAIN
    weights_digest: str = "none"

    def prepare(self, image):
        return np.zeros((3, 32, 32), np.float32)

    def answer(self, batch):
        return ModelOutputs(np.tile(np.float32([0, 1]), (len(batch), 1)))


# --- in Python


def test_a_function_of_arrays():
    model = as_model(means, name="means", preprocessing=HALVES, class_names=("red", "green", "blue"))
    assert isinstance(model, Model)
    assert (model.name, model.classes, model.class_names) == ("means", 3, ("red", "green", "blue"))
    kept = BATCH.copy()
    np.testing.assert_allclose(model.answer(BATCH).logits, means((BATCH - 0.5) / 0.25), rtol=1e-5, atol=1e-5)
    assert np.array_equal(kept, BATCH)
    white = model.prepare(np.full((50, 70, 3), 255, np.uint8))
    assert white.shape == (3, 32, 32)
    assert (white == 1).all()


@pytest.mark.parametrize(
    "function",
    [
        lambda batch: (means(batch), batch[:, :, ::8, 0]),
        lambda batch: ModelOutputs(means(batch), batch[:, :, ::8, 0].reshape(len(batch), -1)),
        lambda batch: (torch.from_numpy(means(batch)), torch.from_numpy(batch[:, :, ::8, 0].copy())),
    ],
    ids=["pair", "answers", "tensors"],
)
def test_features_that_a_function_gives(function):
    model = as_model(function, name="mine", preprocessing=PLAIN)
    assert model.answer(BATCH).features is None
    answers = as_model(model, name="mine", features=True).answer(BATCH)
    assert np.array_equal(answers.features, BATCH[:, :, ::8, 0].reshape(4, -1))
    np.testing.assert_allclose(answers.logits, means(BATCH), rtol=1e-6)


def test_the_digest_of_a_function_is_of_what_it_answers():
    digests = [
        as_model(function, name=name, preprocessing=way).weights_digest
        for function, name, way in [
            (means, "a", PLAIN),
            (lambda batch: means(batch), "b", PLAIN),
            (lambda batch: means(batch) + np.float32([0, 0, 0.01]), "a", PLAIN),
            (means, "a", HALVES),
        ]
    ]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3


def test_a_module_and_a_model_of_ones_own():
    module = CifarResNet(3)
    model = as_model(module, name="net", preprocessing=HALVES)
    assert isinstance(model, TorchModel)
    assert isinstance(model, Model)
    with torch.no_grad():
        expected = module(torch.from_numpy((BATCH - 0.5) / 0.25))
    np.testing.assert_allclose(model.answer(BATCH).logits, expected.numpy(), atol=1e-5)
    own = Constant()
    assert as_model(own) is own
    renamed = as_model(own, name="x")
    assert (renamed.name, renamed.classes, own.name) == ("x", 2, "constant")
    assert as_model(model, name="y").name == "y"
    assert as_model(module, preprocessing=HALVES).name == "python:CifarResNet"
    with pytest.raises(InvalidInput, match="the name of a model must be printable text without #, got 'a#b'"):
        as_model(own, name="a#b")


class Viewing(nn.Module):
    """`view` wants channels first, as much code of users does."""

    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv2d(3, 4, 3), nn.Linear(4 * 30 * 30, 5)

    def forward(self, x):
        return self.head(self.conv(x).view(len(x), -1))


def test_channels_last_only_where_it_works():
    module = Viewing()
    model = as_model(module, name="viewing", preprocessing=PLAIN, features=True)
    assert not model.channels_last
    assert module.conv.weight.is_contiguous()
    assert model(torch.from_numpy(BATCH)).shape == (4, 5)
    np.testing.assert_allclose(model.answer(BATCH).logits, model(torch.from_numpy(BATCH)).numpy(), atol=1e-6)
    assert as_model(CifarResNet(3), name="net", preprocessing=PLAIN).channels_last


def test_probabilities_of_a_module_become_logits_with_gradients():
    module = nn.Sequential(CifarResNet(3), nn.Softmax(dim=1))
    with pytest.raises(InvalidInput, match="soft seems to return probabilities"):
        as_model(module, name="soft", preprocessing=PLAIN)
    model = as_model(module, name="soft", preprocessing=PLAIN, outputs="probabilities")
    pixels = torch.from_numpy(BATCH).requires_grad_()
    logits = model(pixels)
    torch.testing.assert_close(logits.softmax(dim=1), module(pixels))
    logits[:, 0].sum().backward()
    assert pixels.grad.abs().sum() > 0
    np.testing.assert_allclose(model.answer(BATCH).probabilities.sum(axis=1), 1, rtol=1e-5)


def test_a_module_of_timm_knows_its_input():
    from cosight.torchvision_ops import import_torchvision

    import_torchvision()
    import timm

    model = as_model(timm.create_model("test_vit", num_classes=3), name="vit")
    assert model.preprocessing.facts == {
        "size": [160, 160],
        "crop": 0.95,
        "crop_mode": "center",
        "interpolation": "bicubic",
        "mean": [0.5] * 3,
        "std": [0.5] * 3,
    }  # timm's configuration of test_vit


@pytest.mark.parametrize(
    ("thing", "options", "message"),
    [
        (
            means,
            {"preprocessing": None},
            "how photos are prepared for mine is not known; .*Preprocessing\\(size=224\\)",
        ),
        (CifarResNet(3), {"preprocessing": None}, "how photos are prepared for mine is not known"),
        (CifarResNet(3), {"preprocessing": 224}, "must be a Preprocessing, weights of a torchvision .*got int; for ex"),
        (3, {}, "a model is an nn.Module, a function of arrays or has answer, class_names.*mine is int"),
        (CifarResNet, {}, "mine is the class CifarResNet"),
        (lambda batch: batch, {}, r"returns logits \(N, classes\), mine returns \(2, 3, 32, 32\) for 2 images"),
        (lambda batch: means(batch)[:1], {}, r"mine returns \(1, 3\) for 2 images"),
        (lambda batch: "nonsense", {}, "mine must return an array of numbers, it returned str"),
        (lambda batch: means(batch) * np.nan, {}, "outputs must be finite, mine returns nan"),
        (means, {"class_names": ("a",)}, "one name per class, got 1 names for the 3 of mine"),
        (
            means,
            {"features": True},
            "features of mine are the second value its function returns, this one returns logits",
        ),
        (
            lambda batch: (means(batch), batch[0]),
            {},
            r"features need one row per image, mine returns \(3, 32, 32\) for 2",
        ),
        (Constant(), {}, "mine is a model with its own preprocessing"),
        (Constant(), {"preprocessing": None, "features": True}, "constant has no features"),
        (nn.Linear(7, 3), {}, r"mine cannot answer images of 32 x 32, it raised RuntimeError: mat1 and mat2"),
        (lambda batch: 1 / 0, {}, "it raised ZeroDivisionError: division by zero; check its size"),
        (nn.Identity(), {}, r"mine returns \(2, 3, 32, 32\)"),
    ],
)
def test_what_is_no_model(thing, options, message):
    with pytest.raises(InvalidInput, match=message) as caught:
        as_model(thing, name="mine", **({"preprocessing": PLAIN} | options))
    assert "\n" not in str(caught.value)


def test_a_function_that_changes_its_mind():
    calls = []

    def fickle(batch):
        calls.append(1)
        return means(batch) if len(calls) < 3 else means(batch)[:, :2]

    with pytest.raises(InvalidInput, match=r"fickle must return an array of \(4, 3\), it returned \(4, 2\)"):
        as_model(fickle, name="fickle", preprocessing=PLAIN).answer(BATCH)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (
            BATCH[0],
            r"takes float32 images \(N, 3, 32, 32\) in \[0, 1\], got shape \(3, 32, 32\); stack the arrays",
        ),
        (BATCH[:, :, :16], r"got shape \(4, 3, 16, 32\)"),
        (BATCH.astype(np.float64), "got float64"),
        (BATCH.tolist(), "got list"),
        (BATCH * 2 - 1, r"got -1 to 1|got -0.9\d+ to"),
        (BATCH * np.float32(np.nan), "got nan"),
    ],
)
@pytest.mark.parametrize("thing", [means, CifarResNet(3)], ids=["function", "module"])
def test_batches_that_are_wrong(thing, batch, message):
    with pytest.raises(InvalidInput, match=message):
        as_model(thing, name="mine", preprocessing=PLAIN).answer(batch)


def test_an_array_that_may_not_be_written_to_and_an_empty_one():
    model = as_model(CifarResNet(3), name="net", preprocessing=PLAIN, features=True)
    fixed = BATCH.copy()
    fixed.flags.writeable = False
    assert np.array_equal(model.answer(fixed).logits, model.answer(BATCH).logits)
    assert model.answer(BATCH[:0]).features.shape == (0, 64)


# --- by name

CODE = """
import numpy as np
from cosight.models import ModelOutputs, Preprocessing, as_model
from cosight.models.cifar_resnet import CifarResNet

def network(): return CifarResNet(3)
ready = CifarResNet(3, 4)
def function(): return lambda batch: batch.mean(axis=(2, 3))
def model(): return as_model(lambda batch: batch.mean(axis=(2, 3)), name="inner",
                             preprocessing=Preprocessing((40, 40), mean=(0, 0, 0), std=(1, 1, 1)))
def pair(): return as_model(lambda batch: (batch.mean(axis=(2, 3)), batch[:, :, 0]), name="inner",
                            preprocessing=Preprocessing((40, 40), mean=(0, 0, 0), std=(1, 1, 1)))
class Constant:
    name, classes, class_names, weights_digest = "constant", 2, None, "none"
    preprocessing = Preprocessing((40, 40))
    def prepare(self, image): return np.zeros((3, 40, 40), np.float32)
    def answer(self, batch):
        return ModelOutputs(np.zeros((len(batch), 2), np.float32), np.ones((len(batch), 1), np.float32))
def nonsense(): return 3
def broken(): raise RuntimeError("no weights\\nhere")
def needs(argument): return argument
number = 3
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A module of the user's in the current folder."""
    (tmp_path / "my_models_of_a_test.py").write_text(CODE)
    (tmp_path / "my_broken_models.py").write_text("import no_such_package_at_all\n")
    (tmp_path / "my_wrong_models.py").write_text("1 / 0\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield "python:my_models_of_a_test"
    sys.modules.pop("my_models_of_a_test", None)


def test_models_by_the_name_of_a_function(mine):
    network = load_model(f"{mine}:network,size=32,mean=.5,std=.25", features=True)
    assert isinstance(network, TorchModel)
    assert network.name == "python:my_models_of_a_test:network,mean=.5,size=32,std=.25"
    assert network.answer(BATCH).features.shape == (4, 64)
    assert load_model(f"{mine}:ready,size=32,mean=0,std=1").classes == 4
    function = load_model(f"{mine}:function,size=32,mean=0,std=1,interpolation=nearest,outputs=logits")
    assert isinstance(function, ArrayModel)
    np.testing.assert_allclose(function.answer(BATCH).logits, BATCH.mean(axis=(2, 3)), rtol=1e-5)
    assert function.preprocessing.interpolation == "nearest"


def test_a_model_by_name_keeps_its_input_and_gets_the_name(mine):
    model = load_model(f"{mine}:model")
    assert isinstance(model, Model)
    assert (model.name, model.preprocessing.size) == ("python:my_models_of_a_test:model", (40, 40))
    features = load_model(f"{mine}:pair", features=True)
    assert features.name == "python:my_models_of_a_test:pair"
    assert features.answer(np.zeros((2, 3, 40, 40), np.float32)).features.shape == (2, 120)
    constant = load_model(f"{mine}:Constant", features=True)  # calling the class makes the model
    assert (constant.name, constant.classes) == ("python:my_models_of_a_test:Constant", 2)
    assert constant.answer(np.zeros((2, 3, 40, 40), np.float32)).features.shape == (2, 1)
    with pytest.raises(InvalidInput, match="returns a model, which has its own preprocessing; leave the options out"):
        load_model(f"{mine}:model,size=32")


def test_class_names_of_a_label_space_unless_it_is_a_file(mine, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match=r"got 16 names for the 3 of .*classes=laion-c-16"):
        load_model(f"{mine}:function,size=32,mean=0,std=1,classes=laion-c-16")
    spec = parse("timm:resnet50,classes=imagenet-1k")
    assert class_names_of(spec) == label_spaces["imagenet-1k"].classes
    (tmp_path / "imagenet-1k").mkdir()
    assert class_names_of(spec) == label_spaces["imagenet-1k"].classes  # a folder is no file of names
    (tmp_path / "cifar-10").write_text("red\nblue\n")
    assert class_names_of(parse("timm:resnet50,classes=cifar-10")) == ("red", "blue")


def test_class_names_from_a_file(mine, tmp_path):
    (tmp_path / "names.txt").write_text("red\ngreen\nblue\n")
    (tmp_path / "names.json").write_text('["red", "green", "blue"]')
    (tmp_path / "few.txt").write_text("red\n")
    (tmp_path / "odd.json").write_text('{"red": 1}')
    line = f"{mine}:function,size=32,mean=0,std=1,classes={tmp_path}"
    assert load_model(f"{line}/names.txt").class_names == ("red", "green", "blue")
    assert load_model(f"{line}/names.json").class_names == ("red", "green", "blue")
    assert "classes=names.txt" in load_model(f"{line}/names.txt").name
    for file, message in [
        ("few.txt", "got 1 names for the 3"),
        ("odd.json", "JSON list"),
        ("no.txt", "which is neither"),
    ]:
        with pytest.raises(InvalidInput, match=message):
            load_model(f"{line}/{file}")


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        (
            "my_models_of_a_test",
            InvalidInput,
            "is named python:package.module:function, got python:my_models_of_a_test",
        ),
        ("my_modles:network", InvalidInput, "the module my_modles does not exist; check its name, the current folder"),
        ("my_broken_models:f", InvalidInput, "the module my_broken_models needs no_such_package_at_all"),
        ("my_wrong_models:f", InvalidInput, "importing my_wrong_models raised ZeroDivisionError: division by zero"),
        ("my_models_of_a_test:netwrok", UnknownName, "has no 'netwrok'; did you mean network"),
        ("my_models_of_a_test:number", InvalidInput, "must be a function that returns a model, it is int"),
        ("my_models_of_a_test:nonsense", InvalidInput, "a model is an nn.Module, a function .* is int"),
        ("my_models_of_a_test:broken", InvalidInput, "raised RuntimeError: no weights$"),
        ("my_models_of_a_test:needs", InvalidInput, "called without arguments and raised TypeError"),
        (
            "my_models_of_a_test:network",
            InvalidInput,
            "how photos are prepared for .* is not known; add its size, mean",
        ),
        ("my_models_of_a_test:network,size=32,checkpoint=x", InvalidInput, "got checkpoint"),
    ],
)
def test_names_that_are_wrong(mine, name, error, message):
    with pytest.raises(error, match=message) as caught:
        load_model(f"python:{name}")
    assert "\n" not in str(caught.value)

"""Models by name, with real weights where they are at hand."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from time import monotonic

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from sklearn.datasets import load_sample_images

from cosight.errors import InvalidInput, UnknownName
from cosight.models import (
    Model,
    ModelList,
    Preprocessing,
    load_model,
    load_torch,
    model_lists,
    parse,
    read_weights,
    weights_digest,
    wrap_module,
)
from cosight.models.architectures import build
from cosight.models.cifar_resnet import CifarResNet
from cosight.models.torch_models import _why_unreachable, hub_url
from cosight.torchvision_ops import import_torchvision
from cosight.trials import label_spaces

pytestmark = pytest.mark.usefixtures("one_torch_thread")


@pytest.fixture
def resnet(tmp_path):
    """A ResNet-20 with random weights, and the file they are in."""
    torch.manual_seed(0)
    module = CifarResNet(3).eval()
    path = tmp_path / "random.safetensors"
    save_file(module.state_dict(), path)
    return module, path


@pytest.fixture(scope="module")
def lite(mirror):
    folder = mirror / "weights/imagenet-timm"
    numbers = f"mean={127 / 255},std={128 / 255}"
    return load_torch(f"timm:tf_efficientnet_lite0,checkpoint={folder}/tf_efficientnet_lite0.safetensors,{numbers}")


# --- our own architectures


@pytest.mark.parametrize(
    ("name", "count"),
    [("resnet20", 269_722), ("resnet32", 464_154), ("resnet44", 658_586)],  # He et al. 2016, table 6: .27 .46 .66 M
)
def test_sizes_of_the_cifar_resnets(name, count):
    assert sum(weights.numel() for weights in build(name, classes=10).parameters()) == count


def test_the_shortcut_takes_every_second_pixel_and_pads_with_zeros():
    block = CifarResNet(3).layer2[0].eval()
    for weights in block.parameters():
        torch.nn.init.zeros_(weights)  # nothing is left but the way past
    x = torch.rand(2, 16, 8, 8)
    out = block(x)
    assert out.shape == (2, 32, 4, 4)
    assert torch.equal(out[:, 8:24], x[:, :, ::2, ::2])
    assert not out[:, :8].any()
    assert not out[:, 24:].any()


@pytest.mark.parametrize(
    ("architecture", "file", "expected"),
    [
        ("resnet20", "standard-resnet20", 0.917),
        pytest.param("resnet44", "standard-resnet44", 0.931, marks=pytest.mark.slow),
        pytest.param("resnet20", "adversarial-l2-resnet20", 0.657, marks=pytest.mark.slow),
    ],  # accuracy on all 10,000, README of the weights
)
def test_accuracy_of_real_weights(mirror, architecture, file, expected):
    model = load_torch(f"cosight:{architecture},checkpoint={mirror}/weights/cifar10/{file}.safetensors")
    pixels = np.asarray(Image.open(mirror / "cifar10/test_images.png"))[:400].reshape(-1, 32, 32, 3)
    labels = torch.tensor(json.loads((mirror / "cifar10/test_labels.json").read_text())[:400])
    images = torch.from_numpy(pixels / np.float32(255)).permute(0, 3, 1, 2)
    with torch.no_grad():
        right = (model(images).argmax(1) == labels).float().mean()
    assert float(right) == pytest.approx(expected, abs=3 * (expected * (1 - expected) / 400) ** 0.5)
    assert model.name == f"cosight:{architecture},checkpoint={file}.safetensors"


# --- what a model is


def test_a_model_normalises_what_it_is_given(resnet):
    module, path = resnet
    model = load_torch(f"cosight:resnet20,checkpoint={path},mean=.5/.4/.3,std=.2")
    images = torch.rand(3, 3, 32, 32)
    normalised = (images - torch.tensor([0.5, 0.4, 0.3]).reshape(1, 3, 1, 1)) / 0.2
    torch.testing.assert_close(model(images), module(normalised))
    assert (model.mean, model.std, model.size, model.classes) == ((0.5, 0.4, 0.3), (0.2,) * 3, (32, 32), 10)


def test_a_model_is_frozen_in_eval_mode_but_gives_gradients(resnet):
    model = load_torch(f"cosight:resnet20,checkpoint={resnet[1]}")
    assert not any(part.training for part in model.module.modules())
    assert not any(weights.requires_grad for weights in model.module.parameters())
    images = torch.rand(1, 3, 32, 32, requires_grad=True)
    model(images).sum().backward()
    assert images.grad.abs().sum() > 0


def test_images_of_another_size_are_refused_unless_asked_for(resnet):
    model = load_torch(f"cosight:resnet20,checkpoint={resnet[1]}")
    with pytest.raises(InvalidInput, match=r"takes images \(N, 3, 32, 32\), got \(1, 3, 40, 40\)"):
        model(torch.zeros(1, 3, 40, 40))
    wide = load_torch(f"cosight:resnet20,checkpoint={resnet[1]},size=40/48")
    assert wide(torch.zeros(1, 3, 40, 48)).shape == (1, 10)


def test_prepare_returns_what_resize_and_crop_shows(resnet):
    model = load_torch(f"cosight:resnet20,checkpoint={resnet[1]},crop=.8,interpolation=nearest")
    photo = load_sample_images().images[0]
    array = model.prepare(photo)
    assert array.shape == (3, 32, 32)
    assert array.dtype == np.float32
    assert array.flags.c_contiguous
    assert np.array_equal((array * 255).round().astype(np.uint8).transpose(1, 2, 0), model.resize_and_crop(photo))


def test_answers_are_the_logits_without_gradients(resnet):
    model = load_torch(f"cosight:resnet20,checkpoint={resnet[1]}")
    batch = np.random.default_rng(0).random((3, 3, 32, 32), dtype=np.float32)
    answers = model.answer(batch)
    assert isinstance(model, Model)
    assert answers.logits.dtype == np.float32
    np.testing.assert_allclose(answers.logits, model(torch.from_numpy(batch)).numpy(), atol=1e-5)
    np.testing.assert_allclose(answers.probabilities, torch.from_numpy(answers.logits).softmax(dim=1), atol=1e-6)
    np.testing.assert_allclose(model.answer(batch[1:2]).logits, answers.logits[1:2], atol=1e-5)


def test_the_digest_is_of_the_weights_whatever_the_file(resnet, tmp_path):
    module, path = resnet
    model = load_torch(f"cosight:resnet20,checkpoint={path}")
    torch.save({"state_dict": {f"module.{k}": v for k, v in module.state_dict().items()}}, tmp_path / "parallel.pt")
    bare = {name: value for name, value in module.state_dict().items() if "num_batches" not in name}
    torch.save(bare, tmp_path / "bare.pt")
    for other in ("parallel.pt", "bare.pt"):
        assert load_torch(f"cosight:resnet20,checkpoint={tmp_path / other}").weights_digest == model.weights_digest
    changed = CifarResNet(3)
    changed.load_state_dict(module.state_dict())
    with torch.no_grad():
        changed.linear.bias[0] += 1e-3
    assert weights_digest(changed) != model.weights_digest == weights_digest(module)


def test_ones_own_module_as_a_model():
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 36 * 36, 7), torch.nn.Dropout())
    model = wrap_module(module, name="mine", preprocessing=Preprocessing((36, 36)))
    assert (model.classes, model.name, module.training) == (7, "mine", False)
    with pytest.raises(InvalidInput, match=r"returns \(2, 3, 36, 36\) for 2 images"):
        wrap_module(torch.nn.Identity(), name="none", preprocessing=Preprocessing((36, 36)))


def test_heads_of_other_sizes_are_taken_from_the_weights(tmp_path):
    save_file(CifarResNet(3, 100).state_dict(), tmp_path / "hundred.safetensors")
    assert load_torch(f"cosight:resnet20,checkpoint={tmp_path}/hundred.safetensors").classes == 100


# --- timm


def test_a_timm_checkpoint_names_a_photo(lite, mirror):
    names = json.loads((mirror / "class-mappings/imagenet-1k.json").read_text())
    temple, flower = (lite.prepare(photo) for photo in load_sample_images().images)
    with torch.no_grad():
        top = lite(torch.from_numpy(np.stack([temple, flower]))).topk(3).indices.tolist()
    assert names[str(top[0][0])][1] in {"palace", "monastery", "bell_cote"}
    assert names[str(top[1][0])][1] == "daisy"
    assert (lite.size, lite.classes, lite.preprocessing.crop) == ((224, 224), 1000, 0.875)
    assert lite.preprocessing.interpolation == "bicubic"


def test_timm_weights_with_ten_classes_and_at_another_size(tmp_path):
    import_torchvision()
    import timm

    torch.manual_seed(0)
    vit = timm.create_model("test_vit", num_classes=10, img_size=64)
    save_file(vit.state_dict(), tmp_path / "vit.safetensors")
    model = load_torch(f"timm:test_vit,checkpoint={tmp_path}/vit.safetensors,size=64")
    assert (model.classes, model.size) == (10, (64, 64))
    images = torch.rand(2, 3, 64, 64)
    mean, std = (torch.tensor(values).reshape(1, 3, 1, 1) for values in (model.mean, model.std))
    torch.testing.assert_close(model(images), vit.eval()((images - mean) / std))


@pytest.mark.parametrize(
    ("name", "space", "classes"),
    [("test_vit.r160_in1k", "imagenet-1k", 1000), ("vit_tiny_patch16_224.augreg_in21k", None, 21_843)],
)
def test_classes_of_the_hubs_weights_are_wordnet_ids(monkeypatch, name, space, classes):
    import_torchvision()
    import huggingface_hub.constants
    import timm

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)  # the hub is not tried
    made = timm.create_model(name)  # before it is replaced: nothing is fetched
    monkeypatch.setattr(timm, "create_model", lambda *_, **__: made)
    ids = load_model(f"timm:{name}").class_names
    assert len(set(ids)) == classes
    assert all(one.startswith("n") and one[1:].isdigit() for one in ids)
    assert space is None or ids == label_spaces[space].classes


def test_no_network_is_one_line(monkeypatch):
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_CACHE", "/nowhere")
    with pytest.raises(
        InvalidInput, match=r"cannot download the weights of timm:test_resnet: .*checkpoint=FILE"
    ) as caught:
        load_torch("timm:test_resnet")
    assert "\n" not in str(caught.value)


@pytest.fixture
def closed_port():
    """An address on this machine at which nobody listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    return f"http://127.0.0.1:{port}"


def test_a_hub_out_of_reach_is_told_in_seconds(monkeypatch, tmp_path, closed_port):
    """The hub's client alone tries again for more than a minute."""
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", closed_port)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    import_torchvision()
    import timm  # noqa: F401 (its import takes seconds itself)

    started = monotonic()
    with pytest.raises(
        InvalidInput,
        match=r"cannot download the weights of timm:test_resnet: no connection to 127.0.0.1 \(Connection refused\); "
        "connect, or add checkpoint=FILE",
    ):
        load_torch("timm:test_resnet")
    assert monotonic() - started < 10  # it is 0.1 s; the machine may be busy


def test_a_proxy_is_tried_instead_of_the_server(monkeypatch, closed_port):
    for name in ("http_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    assert _why_unreachable(closed_port) == "no connection to 127.0.0.1 (Connection refused)"
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        monkeypatch.setenv("http_proxy", f"127.0.0.1:{proxy.getsockname()[1]}")
        assert _why_unreachable("http://hub.invalid/file") is None
        assert _why_unreachable(closed_port) is None  # the proxy knows


def test_no_connection_is_needed_for_what_is_cached(monkeypatch, tmp_path):
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    assert hub_url("timm/resnet50.a1_in1k") == huggingface_hub.constants.ENDPOINT
    (tmp_path / "models--timm--resnet50.a1_in1k/snapshots/0123").mkdir(parents=True)
    assert hub_url("timm/resnet50.a1_in1k") is None


# --- what is wrong


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("tim:resnet50", UnknownName, "no source is called 'tim'; did you mean timm"),
        (
            "https:gpt-4o",
            UnknownName,
            "no source is called 'https'; there are timm, torchvision, cosight, onnx",
        ),
        ("vlm:gpt-4o", InvalidInput, "has no logits or features, got vlm:gpt-4o; use it with `cosight evaluate`"),
        ("ensmble:a:b+c:d", UnknownName, "did you mean ensemble"),
        ("ensemble:tim:x+timm:resnet50", UnknownName, "no source is called 'tim'"),
        ("ensemble:timm:x", InvalidInput, "at least two members, got 1"),
        (
            "trials:a.parquet",
            InvalidInput,
            "cannot answer images, got trials:a.parquet; use them with `cosight evaluate`",
        ),
        ("trials:a.parquet,observr=x", InvalidInput, "got observr; did you mean observer"),
        ("timm:resnet5", UnknownName, "no timm model is called 'resnet5'; did you mean .*resnet50"),
        ("timm:resnet50.a1_in2k", UnknownName, r"did you mean resnet50.a1_in1k"),
        ("cosight:resnet21", UnknownName, "did you mean .*resnet20"),
        ("cosight:resnet20", InvalidInput, "no published weights; add checkpoint=FILE"),
        ("cosight:resnet20,checkpint=x", InvalidInput, "got checkpint; did you mean checkpoint"),
        (
            "cosight:resnet20,checkpoint=/no/such.pt",
            InvalidInput,
            "a checkpoint must be a file, /no/such.pt does not exist",
        ),
    ],
)
def test_names_that_are_wrong(text, error, message):
    for way in (load_torch, load_model):
        with pytest.raises(error, match=message):
            way(text)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("size=2.5", "size must be one or two whole numbers from 1 to 16,384"),
        ("size=0", "size must be one or two whole numbers from 1 to 16,384"),
        ("mean=.5/.5", "mean must be one number or three"),
        ("std=0", "std must be positive"),
        ("crop=.5/.5", "crop must be one number"),
        ("interpolation=cubic", "interpolation must be one of"),
        ("interpolation=", "interpolation must be one of"),
    ],
)
def test_options_that_are_wrong(resnet, options, message):
    with pytest.raises(InvalidInput, match=message):
        load_torch(f"cosight:resnet20,checkpoint={resnet[1]},{options}")


def test_weights_that_do_not_fit_name_their_keys(resnet, tmp_path):
    with pytest.raises(
        InvalidInput, match=r"do not fit cosight:resnet32: 60 missing \(layer1.3.conv1.weight, "
    ) as caught:
        load_torch(f"cosight:resnet32,checkpoint={resnet[1]}")
    assert "\n" not in str(caught.value)
    weights = load_file(resnet[1])
    weights["extra"] = weights.pop("linear.bias")
    weights["conv1.weight"] = torch.zeros(8, 3, 3, 3)
    save_file(weights, tmp_path / "odd.safetensors")
    expected = (
        r"1 missing \(linear.bias\); 1 unexpected \(extra\); 1 of another shape \(conv1.weight \(8, 3, 3, 3\) for"
    )
    with pytest.raises(InvalidInput, match=expected):
        load_torch(f"cosight:resnet20,checkpoint={tmp_path}/odd.safetensors")


@pytest.mark.parametrize("name", ["text.pt", "text.safetensors", "object.pt", "list.pt", "empty.pt", "numbers.pt"])
def test_files_that_hold_no_weights(tmp_path, name):
    path = tmp_path / name
    content = {"object.pt": torch.nn.Linear(1, 1), "list.pt": [1], "empty.pt": {}, "numbers.pt": {"a": 1}}
    if name in content:
        torch.save(content[name], path)
    else:
        path.write_text("not weights\n")
    with pytest.raises(
        InvalidInput, match=r"is not a checkpoint that can be read safely|must have weights by name"
    ) as caught:
        read_weights(path)
    assert "\n" not in str(caught.value)


def test_importing_models_abstention_and_training_imports_no_torch():
    heavy = [
        "torch",
        "torchvision",
        "timm",
        "lightly",
        "onnxruntime",
        "safetensors",
        "pandas",
        "sklearn",
        "scipy.stats",
    ]
    packages = "cosight.models, cosight.models.abstention, cosight.training"
    code = f"import {packages}, sys; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_without_torch_the_extra_is_named():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from cosight.models import load_torch\n"
        "try: load_torch('cosight:resnet20,checkpoint=x')\n"
        "except ValueError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "cosight models need torch; pip install 'cosight[models]'"


# --- named lists of models


@pytest.fixture(scope="module")
def known():
    import_torchvision()
    import timm

    return set(timm.list_models(pretrained=True))


@pytest.mark.parametrize("name", sorted(model_lists))
def test_every_list_says_where_it_is_from_and_holds_lines_that_are_read_back(name):
    listed = model_lists[name]
    assert listed.name == name
    assert listed.source
    assert [str(parse(line)) for line in listed.models] == list(listed.models)


@pytest.mark.parametrize("name", sorted(model_lists))
def test_timm_has_weights_for_every_one(name, known):
    specs = [parse(line) for line in model_lists[name].models]
    assert [str(spec) for spec in specs if spec.source == "timm" and spec.name not in known] == []


def test_the_laion_c_papers_models():
    """Li et al. 2025, table 11: 16 with an abbreviation, two vision-language models, 35 by name only."""
    every, main = (model_lists[name].models for name in ("laion-c-paper", "laion-c-paper-main"))
    assert (len(every), len(main)) == (51, 16)
    assert every[:16] == main
    assert main[0] == "timm:eva_giant_patch14_560.m30m_ft_in22k_in1k"
    assert main[-1] == "timm:densenet161.tv_in1k"
    assert every[-1] == "timm:efficientformerv2_s2.snap_dist_in1k"


def test_lists_that_are_wrong():
    with pytest.raises(UnknownName, match="did you mean laion-c-paper"):
        model_lists["laion-c-papers"]
    with pytest.raises(InvalidInput, match="each once, got timm:a in mine"):
        ModelList("mine", ("timm:a", "timm:b", "timm:a"), "me")
    with pytest.raises(InvalidInput, match="got none in mine"):
        ModelList("mine", (), "me")
    with pytest.raises(InvalidInput, match="a model is named source:name"):
        ModelList("mine", ("resnet50",), "me")


def test_checkpoints_of_the_robustness_library(tmp_path):
    """Adversarially trained ImageNet models are published with the network inside an attack, twice."""
    network = CifarResNet(3).state_dict()
    wrapped = {
        f"module.{part}.{name}": value for part in ("model", "attacker.model") for name, value in network.items()
    }
    wrapped["module.normalizer.new_mean"] = torch.zeros(3, 1, 1)
    file = tmp_path / "resnet20_l2_eps1.pt"
    torch.save({"model": wrapped, "epoch": 3}, file)
    model = load_torch(f"cosight:resnet20,checkpoint={file}")
    for name, value in model.module.state_dict().items():
        assert torch.equal(value, network[name])

"""Architectures: their sizes, their dropout, and models made of a checkpoint alone."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from cosight.errors import InvalidInput, UnknownName
from cosight.models import load_model, load_torch
from cosight.models.architectures import (
    METADATA,
    architecture_named,
    architectures,
    build,
    checkpoint_facts,
)
from cosight.models.loading import check_model_spec

pytestmark = pytest.mark.usefixtures("one_torch_thread")

SMALL = [name for name in architectures if name.endswith("-small")]
LARGE = [name for name in architectures if name.endswith("-visalign")]


def linear(before, after):
    return before * after + after


def norm(width):
    return 2 * width


def vit(width, depth, patches, patch):
    layer = linear(width, 3 * width) + linear(width, width) + linear(width, 4 * width) + linear(4 * width, width)
    stem = linear(3 * patch**2, width) + (patches + 1) * width + width  # positions, class token
    return stem + depth * (layer + 2 * norm(width)) + norm(width) + linear(width, 10)


def swin(width, depths, heads, window):
    total = linear(3 * 16, width) + norm(width)
    for stage, (depth, count) in enumerate(zip(depths, heads, strict=True)):
        wide = width * 2**stage
        if stage:  # four neighbours of half the width, normalised, become one place
            total += norm(2 * wide) + 2 * wide * wide
        layer = linear(wide, 3 * wide) + linear(wide, wide) + linear(wide, 4 * wide) + linear(4 * wide, wide)
        total += depth * (layer + 2 * norm(wide) + (2 * window - 1) ** 2 * count)
    return total + norm(wide) + linear(wide, 10)


def densenet(growth, blocks):
    wide = 2 * growth
    total = 3 * 49 * wide + norm(wide)
    for number, layers in enumerate(blocks):
        for _ in range(layers):
            total += norm(wide) + wide * 4 * growth + norm(4 * growth) + 4 * growth * growth * 9
            wide += growth
        if number < len(blocks) - 1:
            total += norm(wide) + wide * (wide // 2)
            wide //= 2
    return total + norm(wide) + linear(wide, 10)


def convnext(widths, depths):
    total = linear(3 * 16, widths[0]) + norm(widths[0])
    for stage, (wide, depth) in enumerate(zip(widths, depths, strict=True)):
        if stage:
            total += norm(widths[stage - 1]) + linear(4 * widths[stage - 1], wide)
        block = linear(49, 1) * wide + norm(wide) + linear(wide, 4 * wide) + linear(4 * wide, wide) + wide  # its scale
        total += depth * block
    return total + norm(wide) + linear(wide, 10)


def mixer(width, depth, patches, patch, tokens, channels):
    layer = linear(patches, tokens) + linear(tokens, patches) + linear(width, channels) + linear(channels, width)
    return linear(3 * patch**2, width) + depth * (layer + 2 * norm(width)) + norm(width) + linear(width, 10)


@pytest.mark.parametrize(
    ("name", "weights"),
    [  # the sizes of Lee et al. 2023, appendix B, counted by hand from the papers of the architectures
        ("vit-visalign", vit(1024, 30, 196, 16)),
        ("swin-visalign", swin(256, (2, 2, 15, 2), (4, 8, 16, 32), 7)),
        ("densenet-visalign", densenet(64, (24, 48, 84, 64))),
        ("convnext-visalign", convnext((192, 384, 768, 1536), (3, 3, 50, 3))),
        ("mixer-visalign", mixer(2048, 60, 196, 16, 4 * 196, 1024)),
    ],
)
def test_the_papers_sizes(name, weights):
    with torch.device("meta"):  # shapes without numbers
        module = build(name, classes=10)
    assert sum(weight.numel() for weight in module.parameters()) == weights
    assert 250e6 < weights < 400e6  # "approximately 300M"
    assert architectures[name].preprocessing.size == (224, 224)


@pytest.mark.parametrize("name", SMALL)
def test_small_ones_have_dropout_before_the_head_and_features(name):
    torch.manual_seed(0)
    module = build(name, classes=7, dropout=0.3)
    assert [part.p for part in module.modules() if isinstance(part, torch.nn.Dropout) and part.p] == [0.3]
    torch.nn.init.normal_(module.get_classifier().weight)  # some begin at zero, which nothing changes
    images = torch.rand(2, 3, 32, 32)
    module.eval()
    assert torch.equal(module(images), module(images))
    dropout = next(part for part in module.modules() if isinstance(part, torch.nn.Dropout) and part.p)
    dropout.train()
    assert not torch.equal(module(images), module(images))


def written(path, name, **changes):
    """A checkpoint as training writes it."""
    torch.manual_seed(1)
    module = build(name, classes=3)
    torch.nn.init.normal_(module.get_classifier().weight)  # some begin at zero
    preprocessing = architecture_named(name).preprocessing.facts
    facts = {
        **{"architecture": name, "classes": ["cat", "dog", "owl"], "preprocessing": preprocessing},
        **{"recipe": {"dropout": 0.25}, **changes},
    }
    save_file(module.state_dict(), path, metadata={METADATA: json.dumps(facts)})
    return module


@pytest.mark.parametrize("name", [*SMALL, "timm:resnet10t", "resnet20", "vgg16-cifar"])
def test_a_checkpoint_is_a_whole_model(name, tmp_path):
    path = tmp_path / "a.safetensors"
    module = written(path, name).eval()
    line = f"cosight:{name},checkpoint={path}"
    check_model_spec(line)
    model = load_model(line, features=True)
    assert (model.class_names, model.classes) == (("cat", "dog", "owl"), 3)
    assert model.preprocessing == architecture_named(name).preprocessing
    batch = np.random.default_rng(0).random((2, 3, *model.size), dtype=np.float32)
    mean, std = (torch.tensor(v).reshape(1, 3, 1, 1) for v in (model.mean, model.std))
    with torch.no_grad():
        expected = module((torch.from_numpy(batch) - mean) / std).numpy()
    answers = model.answer(batch)
    np.testing.assert_allclose(answers.logits, expected, rtol=1e-4, atol=1e-5)
    head = module.get_classifier()
    with torch.no_grad():
        from_features = head(torch.from_numpy(answers.features)).numpy()
    np.testing.assert_allclose(from_features, answers.logits, rtol=1e-4, atol=1e-5)
    dropped = [part.p for part in model.module.modules() if isinstance(part, torch.nn.Dropout)]
    assert 0.25 in dropped or model.module.drop_rate == 0.25  # timm's ResNets drop by a function


def test_the_file_decides_and_the_line_may_change_it(tmp_path):
    path = tmp_path / "a.safetensors"
    facts = {**architectures["vit-small"].preprocessing.facts, "mean": [0.1, 0.2, 0.3]}
    written(path, "vit-small", preprocessing=facts)
    assert load_torch(f"cosight:vit-small,checkpoint={path}").mean == (0.1, 0.2, 0.3)
    assert load_torch(f"cosight:vit-small,checkpoint={path},mean=.5").mean == (0.5, 0.5, 0.5)
    assert checkpoint_facts(path)["classes"] == ["cat", "dog", "owl"]


def test_what_cannot_be_loaded_is_told(tmp_path):
    path, bare, broken = (tmp_path / f"{name}.safetensors" for name in ("a", "bare", "broken"))
    module = written(path, "vit-small")
    save_file(module.state_dict(), bare)
    broken.write_bytes(b"no safetensors")
    for line, error, told in [
        ("cosight:vit-smal", UnknownName, "no cosight model is called 'vit-smal'"),
        ("cosight:vit-small", InvalidInput, "no published weights"),
        (f"cosight:swin-small,checkpoint={path}", InvalidInput, "is a network of cosight:vit-small"),
        (f"cosight:vit-small,checkpoint={bare}", InvalidInput, "no classes and preprocessing"),
        (f"cosight:vit-small,checkpoint={broken}", InvalidInput, "not a checkpoint that can be read safely"),
        (f"cosight:timm:resnet1000,checkpoint={path}", UnknownName, "no timm model"),
    ]:
        with pytest.raises(error, match=told):
            load_model(line)


def test_unknown_names_and_odd_sizes():
    with pytest.raises(UnknownName, match="did you mean vit-small"):
        architecture_named("vit-smal")
    with pytest.raises(InvalidInput, match="at least two classes"):
        build("vit-small", classes=1)
    with pytest.raises(InvalidInput, match="dropout must be in"):
        build("vit-small", classes=2, dropout=1)


@pytest.mark.parametrize(
    ("name", "weights", "width"),
    [
        ("resnet18-cifar", 11_173_962, 512),  # as published for this form: 11.17 million
        ("vgg16-cifar", 14_728_266, 512),
        pytest.param("densenet121-cifar", 6_956_426, 1024, marks=pytest.mark.slow),
        pytest.param("inception-v3-cifar", 21_638_954, 2048, marks=pytest.mark.slow),
    ],
)
def test_cifar_forms(name, weights, width):
    with torch.device("meta"):
        module = build(name, classes=10, dropout=0.0).eval()
        images = torch.zeros(2, 3, 32, 32)
        assert module.forward_head(module.forward_features(images), pre_logits=True).shape == (2, width)
        assert module(images).shape == (2, 10)
    assert sum(weight.numel() for weight in module.parameters()) == weights

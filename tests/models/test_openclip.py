"""Zero-shot models: a tiny CLIP with drawn weights beside open_clip's own towers, templates and transforms."""

from __future__ import annotations

import json
import logging
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from safetensors.torch import load_file, save_file

from cosight.errors import InvalidInput, UnknownName
from cosight.models import Model, TorchModel, load_model, parse, resize_and_crop
from cosight.models.openclip_models import OPENCLIP_KEYS, openclip_preprocessing, zero_shot
from cosight.torchvision_ops import import_torchvision
from cosight.trials import LabelSpace, label_space

pytestmark = pytest.mark.usefixtures("one_torch_thread")

_TEXT = {"context_length": 24, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 2}  # open_clip's own vocabulary
_CONFIGS = {
    "cosight-tiny": {
        "embed_dim": 12,
        "vision_cfg": {"image_size": 32, "layers": 2, "width": 16, "head_width": 8, "patch_size": 8},
        "text_cfg": _TEXT,
    },
    "cosight-tiny-sigmoid": {
        "embed_dim": 12,
        "init_logit_bias": -10,  # as SigLIP's configurations have it
        "custom_text": True,
        "vision_cfg": {"image_size": 32, "layers": 1, "width": 16, "head_width": 8, "patch_size": 8},
        "text_cfg": _TEXT,
    },
    "cosight-tiny-coca": {
        "embed_dim": 12,
        "custom_text": True,
        "vision_cfg": {
            **{"image_size": 32, "layers": 1, "width": 16, "head_width": 8, "patch_size": 8},
            **{"attentional_pool": True, "attn_pooler_heads": 2, "output_tokens": True},
        },
        "text_cfg": {**_TEXT, "embed_cls": True, "output_tokens": True},
        "multimodal_cfg": {**_TEXT, "attn_pooler_heads": 2},
    },
    "cosight-tiny-resnet": {
        "embed_dim": 12,
        "vision_cfg": {"image_size": 32, "layers": [1, 1, 1, 1], "width": 8, "patch_size": None},
        "text_cfg": _TEXT,
    },
}
_OPENAI = {"mean": (0.48145466, 0.4578275, 0.40821073), "std": (0.26862954, 0.26130258, 0.27577711)}
_CLASSES = ("cat", "fire engine", "sea")


@pytest.fixture(scope="module")
def open_clip(tmp_path_factory):
    """open_clip, knowing our tiny architectures while this file is tested."""
    import_torchvision()
    import open_clip
    from open_clip import factory

    folder = tmp_path_factory.mktemp("configs")
    for name, config in _CONFIGS.items():
        (folder / f"{name}.json").write_text(json.dumps(config))
    open_clip.add_model_config(folder)
    yield open_clip
    factory._MODEL_CONFIG_PATHS.remove(folder)
    for name in _CONFIGS:
        del factory._MODEL_CONFIGS[name]


@pytest.fixture(scope="module")
def clips(open_clip, tmp_path_factory):
    """Each tiny model and the file of its weights, drawn with a seed."""
    folder, made = tmp_path_factory.mktemp("weights"), {}
    for seed, name in enumerate(_CONFIGS):
        torch.manual_seed(seed)
        clip = open_clip.create_model(name).eval().requires_grad_(False)
        for weights in clip.parameters():  # drawn as they are, texts and photos would hardly differ
            weights += 0.1 * torch.randn_like(weights)
        save_file(clip.state_dict(), folder / f"{name}.safetensors")
        made[name] = clip, folder / f"{name}.safetensors"
    return made


@pytest.fixture(scope="module")
def batch():
    return np.random.default_rng(0).random((3, 3, 32, 32), dtype=np.float32)


@pytest.fixture
def names(tmp_path):
    path = tmp_path / "names.txt"
    path.write_text("\n".join(_CLASSES))
    return path


@pytest.fixture
def tagged(open_clip, clips, monkeypatch):
    """Gives the tiny architecture tags, whose weights are "fetched" from its file."""
    from open_clip import factory, pretrained

    def tag(**facts):
        own = {tag: {**_OPENAI, "interpolation": "bicubic", "resize_mode": "shortest", **facts[tag]} for tag in facts}
        monkeypatch.setitem(pretrained._PRETRAINED, "cosight-tiny", own)
        monkeypatch.setattr(factory, "download_pretrained", lambda *_, **__: str(clips["cosight-tiny"][1]))

    return tag


def line(clips, name="cosight-tiny", **options):
    return ",".join([f"openclip:{name},checkpoint={clips[name][1]}", *(f"{k}={v}" for k, v in options.items())])


def by_hand(open_clip, clip, name, batch, words, templates):
    """Probabilities and unit image vectors from open_clip's two encoders, one prompt at a time."""
    mean, std = (torch.tensor(_OPENAI[key]).reshape(1, 3, 1, 1) for key in ("mean", "std"))
    tokens, unit = open_clip.get_tokenizer(name), torch.nn.functional.normalize
    with torch.no_grad():
        image = unit(clip.encode_image((torch.from_numpy(batch) - mean) / std), dim=-1)
        prompts = [[unit(clip.encode_text(tokens([t.replace("{}", w)])), dim=-1)[0] for t in templates] for w in words]
        text = torch.stack([unit(torch.stack(rows).mean(0), dim=0) for rows in prompts])
        logits = clip.logit_scale.exp() * image @ text.T + (0 if clip.logit_bias is None else clip.logit_bias)
    return logits.softmax(-1).numpy(), image.numpy()


# --- beside open_clip


@pytest.mark.parametrize("name", sorted(_CONFIGS))
def test_answers_are_those_of_open_clips_encoders(open_clip, clips, batch, names, name):
    model = load_model(line(clips, name, classes=names, templates="simple"), features=True)
    simple = ["itap of a {}.", "a bad photo of the {}.", "a origami {}.", "a photo of the large {}."]
    simple += ["a {} in a video game.", "art of the {}.", "a photo of the small {}."]  # open_clip's zero_shot_metadata
    shares, image = by_hand(open_clip, clips[name][0], name, batch, _CLASSES, simple)
    answers = model.answer(batch)
    np.testing.assert_allclose(answers.probabilities, shares, rtol=1e-4)
    np.testing.assert_allclose(answers.features, image, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(answers.features, axis=1), 1, rtol=1e-5)
    assert np.ptp(shares, axis=0).max() > 1e-3  # the photos do differ


def test_without_templates_the_80_of_openai_are_averaged(open_clip, clips, batch, names):
    templates = [template("{}") for template in open_clip.OPENAI_IMAGENET_TEMPLATES]
    assert (len(templates), templates[0]) == (80, "a bad photo of a {}.")  # OpenAI's notebook of ImageNet prompts
    shares, _ = by_hand(open_clip, clips["cosight-tiny"][0], "cosight-tiny", batch, _CLASSES, templates)
    model = load_model(line(clips, classes=names))
    np.testing.assert_allclose(model.answer(batch).probabilities, shares, rtol=1e-4)
    assert load_model(line(clips, classes=names, templates="openai")).weights_digest == model.weights_digest


def test_templates_of_ones_own(open_clip, clips, batch, names, tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("{}\na drawing of a {} on paper\n")
    model = load_model(line(clips, classes=names, templates=path))
    templates = ["{}", "a drawing of a {} on paper"]
    shares, _ = by_hand(open_clip, clips["cosight-tiny"][0], "cosight-tiny", batch, _CLASSES, templates)
    np.testing.assert_allclose(model.answer(batch).probabilities, shares, rtol=1e-4)


@pytest.mark.parametrize(("mode", "interpolation"), [("shortest", "bicubic"), ("squash", "bilinear")])
@pytest.mark.parametrize("turned", [False, True])
def test_pixels_are_those_of_open_clips_transform(open_clip, photos, mode, interpolation, turned):
    facts = {**_OPENAI, "size": 225, "interpolation": interpolation, "resize_mode": mode}
    photo = photos[0].swapaxes(0, 1).copy() if turned else photos[0]
    transform = open_clip.image_transform(
        225, False, facts["mean"], facts["std"], resize_mode=mode, interpolation=interpolation
    )
    mean, std = (torch.tensor(facts[key]).reshape(3, 1, 1) for key in ("mean", "std"))
    expected = ((transform(Image.fromarray(photo)) * std + mean) * 255).round().byte().permute(1, 2, 0).numpy()
    assert np.array_equal(resize_and_crop(photo, openclip_preprocessing(facts)), expected)


def test_every_tags_photos_can_be_prepared(open_clip):
    for architecture, tag in open_clip.list_pretrained():
        facts = open_clip.get_pretrained_cfg(architecture, tag)
        size = open_clip.get_model_config(architecture)["vision_cfg"]["image_size"]
        assert openclip_preprocessing({**facts, "size": size}).size == (size, size)
    with pytest.raises(InvalidInput, match="crop mode must be center or squash, got 'longest'"):
        openclip_preprocessing({**facts, "size": size, "resize_mode": "longest"})


# --- classes


def test_classes_are_put_into_words_by_their_titles(open_clip, clips, batch):
    model = load_model(line(clips, classes="digits", templates="simple"))
    assert model.class_names == label_space("digits").classes == tuple("0123456789")
    words = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    named = zero_shot(line(clips, templates="simple"), LabelSpace("words", tuple(words)))
    assert np.array_equal(named.answer(batch).logits, model.answer(batch).logits)
    assert (named.class_names, named.weights_digest) == (tuple(words), model.weights_digest)


def test_underscores_are_blanks_and_refusing_is_no_class(clips, batch, names):
    space = LabelSpace("mine", ("cat", "fire_engine", "sea"), abstain=True)
    model, spelt = zero_shot(line(clips), space), load_model(line(clips, classes=names))
    assert np.array_equal(model.answer(batch).logits, spelt.answer(batch).logits)
    assert (model.classes, model.class_names) == (3, space.classes)


@pytest.mark.parametrize("order", [(3, 2, 1, 0), (1, 2, 3, 0), (2, 0, 3, 1)])
def test_the_order_of_classes_is_that_of_the_logits(clips, batch, order):
    check_order(clips, batch, order)


@pytest.mark.slow
@settings(max_examples=15)
@given(st.permutations(range(4)))
def test_any_order_of_classes_is_that_of_the_logits(clips, batch, order):
    check_order(clips, batch, order)


def check_order(clips, batch, order):
    words, spec = ("cat", "dog", "ship", "tower"), line(clips, templates="simple")
    plain = zero_shot(spec, LabelSpace("plain", words)).answer(batch).logits
    moved = zero_shot(spec, LabelSpace("moved", tuple(words[i] for i in order))).answer(batch).logits
    np.testing.assert_allclose(moved, plain[:, order], rtol=1e-5, atol=1e-5)


def test_a_class_has_its_logit_whichever_stand_beside_it(clips, batch):
    few, many = (("cat", "dog"), ("ship", "dog", "tower", "cat", "tree"))
    spec = line(clips, templates="simple")
    logits = {words: zero_shot(spec, LabelSpace("any", words)).answer(batch).logits for words in (few, many)}
    np.testing.assert_allclose(logits[few], logits[many][:, [3, 1]], rtol=1e-5, atol=1e-5)


# --- as a model


def test_it_is_a_model_in_torch_with_gradients(clips, batch, names):
    model = load_model(line(clips, classes=names))
    assert isinstance(model, Model)
    assert isinstance(model, TorchModel)
    assert model.name == "openclip:cosight-tiny,checkpoint=cosight-tiny.safetensors,classes=names.txt"
    images = torch.from_numpy(batch).requires_grad_()
    model(images).sum().backward()
    assert images.grad.abs().sum() > 0
    np.testing.assert_allclose(model.answer(batch[:1]).logits, model.answer(batch).logits[:1], rtol=1e-4, atol=1e-4)
    assert not any("text" in key or "token" in key for key in model.module.state_dict())  # that tower is let go


def test_a_layer_of_the_image_tower(clips, batch, names):
    model = load_model(line(clips, classes=names, layer="visual.transformer.resblocks.0"))
    assert model.answer(batch).features.shape == (3, 17 * 16)  # 16 patches and a class token


def test_the_digest_is_of_weights_activation_words_and_templates(clips, names, tmp_path, tagged):
    clip, path = clips["cosight-tiny"]
    tagged(plain={}, quick={"quick_gelu": True})
    base = load_model(line(clips, classes=names)).weights_digest
    torch.save({"state_dict": {f"module.{k}": v for k, v in clip.state_dict().items()}}, tmp_path / "again.pt")
    assert load_model(f"openclip:cosight-tiny,checkpoint={tmp_path}/again.pt,classes={names}").weights_digest == base
    assert load_model(f"openclip:cosight-tiny/plain,classes={names}").weights_digest == base
    weights = load_file(path)
    weights["ln_final.bias"] = weights["ln_final.bias"] + 1e-3  # of the text tower, which the module does not keep
    save_file(weights, tmp_path / "other.safetensors")
    others = [
        f"openclip:cosight-tiny,checkpoint={tmp_path}/other.safetensors,classes={names}",
        f"openclip:cosight-tiny/quick,classes={names}",
        line(clips, classes=names, templates="simple"),
        line(clips, classes="cifar-10"),
    ]
    assert len({base, *(load_model(other).weights_digest for other in others)}) == 5


def test_prompts_are_encoded_once_a_process(open_clip, clips, names, monkeypatch):
    first = load_model(line(clips, classes=names))
    monkeypatch.setattr(open_clip, "build_zero_shot_classifier", None)
    again = load_model(line(clips, classes=names))
    assert torch.equal(first.module.head.weight, again.module.head.weight)


def test_prompts_are_encoded_class_by_class_in_eval_mode(open_clip, clips, monkeypatch):
    seen, encode = [], open_clip.CLIP.encode_text

    def watched(clip, text, normalize=False):
        seen.append((len(text), clip.training))
        return encode(clip, text, normalize=normalize)

    monkeypatch.setattr(open_clip.CLIP, "encode_text", watched)
    zero_shot(line(clips, templates="simple"), LabelSpace("new", ("moss", "fern", "reed")))
    assert seen == [(7, False)] * 3  # memory does not grow with the classes


# --- tags


def test_a_tag_says_what_becomes_of_photos(clips, names, tagged):
    half = {"mean": (0.5,) * 3, "std": (0.4,) * 3, "resize_mode": "squash", "interpolation": "bilinear"}
    tagged(half=half, other={})
    for weights in ("", f",checkpoint={clips['cosight-tiny'][1]}"):  # fetched, or the user's own of the same sort
        own = load_model(f"openclip:cosight-tiny/half{weights},classes={names}").preprocessing
        assert (own.size, own.mean, own.std) == ((32, 32), (0.5,) * 3, (0.4,) * 3)
        assert (own.crop, own.crop_mode, own.interpolation) == (1, "squash", "bilinear")
    with pytest.raises(InvalidInput, match=r"differ in their preprocessing, .* with one of half, other"):
        load_model(line(clips, classes=names))
    tagged(half=half)
    assert load_model(line(clips, classes=names)).preprocessing == own  # all that open_clip knows are prepared so
    assert load_model(line(clips, classes=names, mean=0, interpolation="nearest")).preprocessing.mean == (0,) * 3


def test_quickgelu_is_the_tags(open_clip, clips, batch, names, tagged):
    """ViT-B-32/openai is one of open_clip 3.3's 27 such under plain names; open_clip itself takes GELU and warns."""
    tagged(quick={"quick_gelu": True}, plain={})
    quick = open_clip.create_model("cosight-tiny", force_quick_gelu=True).eval()
    quick.load_state_dict(clips["cosight-tiny"][0].state_dict())
    templates = [template("{}") for template in open_clip.SIMPLE_IMAGENET_TEMPLATES]
    shares, _ = by_hand(open_clip, quick, "cosight-tiny", batch, _CLASSES, templates)
    found = {
        tag: load_model(f"openclip:cosight-tiny/{tag},classes={names},templates=simple").answer(batch).probabilities
        for tag in ("quick", "plain")
    }
    np.testing.assert_allclose(found["quick"], shares, rtol=1e-4)
    assert np.abs(found["plain"] - shares).max() > 1e-4


def test_the_beginning_of_one_tag_is_enough(names, tagged):
    tagged(laion_a={}, laion_b={}, openai={}, openai_b={})
    assert load_model(f"openclip:cosight-tiny/openai,classes={names}").name.startswith("openclip:cosight-tiny/openai,")
    assert load_model(f"openclip:cosight-tiny/openai_,classes={names}").classes == 3
    with pytest.raises(
        UnknownName, match="several tags of openclip:cosight-tiny start with 'laion': laion_a, laion_b; name"
    ):
        load_model(f"openclip:cosight-tiny/laion,classes={names}")


def test_no_network_is_one_line(names, monkeypatch, caplog, open_clip):
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", "/nowhere")
    weights = "cannot download the weights of openclip:ViT-B-32/laion2b_s34b_b79k: .* add checkpoint=FILE"
    with pytest.raises(InvalidInput, match=weights) as caught:
        load_model(f"openclip:ViT-B-32/laion2b_s34b_b79k,classes={names}")
    assert "\n" not in str(caught.value)
    assert not caplog.records  # open_clip's own complaint is in that line
    assert not logging.getLogger().filters


def test_a_tokenizer_out_of_reach_is_one_line(open_clip, clips, monkeypatch):
    def offline(*_):
        raise OSError("no route\nto host")

    monkeypatch.setattr(open_clip, "get_tokenizer", offline)
    with pytest.raises(InvalidInput, match="cannot download the tokenizer of openclip:cosight-tiny: no route; con"):
        zero_shot(line(clips), LabelSpace("new", ("never", "seen")))


# --- what is wrong


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("openclip:ViT-B-32/openai", InvalidInput, r"openclip:ViT-B-32/openai needs the classes to choose among; add"),
        ("openclip:ViT-B-33/openai,classes=digits", UnknownName, "'ViT-B-33'; did you mean .*ViT-B-32"),
        ("openclip:zzz,classes=digits", UnknownName, r"called 'zzz'; open_clip.list_models\(\) lists all"),
        ("openclip:ViT-B-32/laion3b,classes=digits", UnknownName, "no weights 'laion3b'; did you mean laion2b_e16"),
        ("openclip:ViT-B-32/laion2b,classes=digits", UnknownName, "tags .*: laion2b_e16, laion2b_s34b_b79k; name one"),
        ("openclip:ViT-M-16/x,classes=digits", UnknownName, "openclip:ViT-M-16 has no weights 'x'; there are none"),
        ("openclip:ViT-B-32,classes=digits", InvalidInput, "which weights; name one of openai, .* or add"),
        ("openclip:ViT-M-16,classes=digits", InvalidInput, "which weights; add checkpoint=FILE"),
        ("openclip:ViT-L-14,checkpoint=x,classes=digits", InvalidInput, "ViT-L-14/TAG,checkpoint=FILE, with one of op"),
        ("openclip:ViT-M-16,checkpoint=/no.pt,classes=digits", InvalidInput, "/no.pt does not exist"),
        ("openclip:ViT-B-32/openai,classes=/no.txt", InvalidInput, "classes must be a file .*got /no.txt"),
        ("openclip:ViT-B-32/openai,classes=digits,size=64", InvalidInput, "options of openclip models are .* got size"),
        ("openclip:ViT-B-32/openai,classes=digits,templates=no", InvalidInput, "must be openai, simple or a file, "),
        ("openclip:ViT-B-32/openai,classes=digits,templates=", InvalidInput, "must be openai, simple or a file, "),
    ],
)
@pytest.mark.usefixtures("open_clip")
def test_names_and_options_that_are_wrong(text, error, message):
    with pytest.raises(error, match=message) as caught:
        load_model(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", ["", "a photo", "a {}\n\na {}", "{} or {}", "a {0}", "a {} }", b"\xff {}"])
def test_templates_that_are_wrong(clips, names, tmp_path, content):
    path = tmp_path / "bad.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InvalidInput, match=r"must have \{\} once, in place of the class|lines of UTF-8 text") as caught:
        load_model(line(clips, classes=names, templates=path))
    assert "\n" not in str(caught.value)


def test_weights_that_do_not_fit_name_their_keys(clips, names):
    other = clips["cosight-tiny-sigmoid"][1]
    expected = r"do not fit openclip:cosight-tiny: \d+ missing \(positional_embedding, .*unexpected \(logit_bias, "
    with pytest.raises(InvalidInput, match=expected):
        load_model(f"openclip:cosight-tiny,checkpoint={other},classes={names}")


def test_classes_are_given_once_and_only_to_openclip(clips):
    for text in (line(clips, classes="digits"), "timm:resnet18"):
        with pytest.raises(InvalidInput, match="must be openclip:NAME without classes=, got"):
            zero_shot(text, label_space("cifar-10"))
    with pytest.raises(InvalidInput, match="got template; did you mean templates"):
        zero_shot(parse(line(clips, template="x")), label_space("cifar-10"))
    assert "size" not in OPENCLIP_KEYS


def test_without_open_clip_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "open_clip", None)
    with pytest.raises(InvalidInput, match=r"^openclip models need open_clip; pip install 'cosight\[clip\]'$"):
        load_model("openclip:ViT-B-32/openai,classes=digits")

"""Classifiers in ONNX: real ones, and tiny ones whose every number is known."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from cosight.errors import InvalidInput, UnknownName
from cosight.models import Model, OnnxModel, load_model, load_torch
from cosight.models.loading import check_model_spec
from cosight.models.model_spec import parse
from cosight.models.onnx_external import external_weights
from cosight.models.onnx_models import onnx_files

pytestmark = pytest.mark.usefixtures("one_torch_thread")

IN_RANGE = "mean=0,std=1"
# china.jpg shows a pavilion on a lake: bell cote, boathouse, dome, monastery, palace, stupa
PAVILION = {442, 449, 538, 663, 698, 832}
# flower.jpg shows a dahlia, which ImageNet does not have: daisy, or what else is round and regular (sea urchin, brain
# coral, honeycomb, mushroom, acorn, hen-of-the-woods)
DAISY = 985
ROUND = {328, 109, 599, 947, 988, 996}
CALL_IT_A_DAISY = ("efficientnet_lite0", "mobilenet_v2_100_224", "tiny_darknet")  # among their first three
NAMES = (
    "efficientnet_lite0",
    "mobilenet_v2_100_224",
    "mobilenet_v1_050_160",
    "mobilenet_v1_025_128",
    "squeezenet_1_1",
    "squeezenet_1_0_compressed",
    "tiny_darknet",
)


# --- real ones


@pytest.mark.parametrize("name", NAMES)
def test_a_real_network_sees_a_pavilion_and_a_flower(mirror, photos, name):
    folder = mirror / "weights/imagenet-onnx"
    model = load_model(f"onnx:{folder}/{name}.onnx,threads=1")
    facts = json.loads((folder / "preprocessing.json").read_text())[name]
    assert isinstance(model, Model)
    assert (model.name, model.classes) == (f"onnx:{name}.onnx", 1000)
    assert model.preprocessing.facts == {
        "size": [facts["size"]] * 2,
        "crop": facts["crop_pct"],
        "crop_mode": "center",
        "interpolation": facts["interpolation"],
        "mean": [0.0] * 3,
        "std": [1.0] * 3,
    }
    answers = model.answer(np.stack([model.prepare(photo) for photo in photos]))
    assert answers.logits.shape == (2, 1000)
    assert answers.logits.dtype == np.float32
    temple, flower = answers.logits.argsort(axis=1)[:, ::-1]
    assert temple[0] in PAVILION
    assert flower[0] in {DAISY, *ROUND}
    assert (DAISY in flower[:3]) == (name in CALL_IT_A_DAISY)
    assert answers.probabilities.max(axis=1).min() > 0.1


def test_onnx_and_torch_of_the_same_weights_agree(mirror, photos):
    """The issue asks for 1e-4 in probability; the README says 1e-5."""
    onnx = load_model(f"onnx:{mirror}/weights/imagenet-onnx/efficientnet_lite0.onnx,threads=1")
    checkpoint = mirror / "weights/imagenet-timm/tf_efficientnet_lite0.safetensors"
    numbers = f"mean={127 / 255},std={128 / 255}"
    timm = load_model(f"timm:tf_efficientnet_lite0,checkpoint={checkpoint},{numbers}")
    batch = np.stack([timm.prepare(photo) for photo in photos])
    assert np.array_equal(batch, np.stack([onnx.prepare(photo) for photo in photos]))
    one, other = onnx.answer(batch).probabilities, timm.answer(batch).probabilities
    assert np.abs(one - other).max() < 1e-4
    assert one.max(axis=1).min() > 0.2  # not agreement about nothing


# --- what is done to the pixels


def test_numbers_are_those_of_the_file(tiny_onnx):
    tiny = tiny_onnx()
    model = load_model(f"onnx:{tiny.path},mean=.5/.4/.3,std=.25")
    batch = np.random.default_rng(1).random((5, 3, 32, 32), dtype=np.float32)
    expected = tiny.logits((batch - np.float32([0.5, 0.4, 0.3]).reshape(1, 3, 1, 1)) / np.float32(0.25))
    answers = model.answer(batch)
    np.testing.assert_allclose(answers.logits, expected, rtol=1e-4, atol=1e-5)
    assert answers.features is None


def test_options_and_the_file_beside_it(tiny_onnx):
    tiny = tiny_onnx(shape=("N", 3, "h", "w"))
    beside = tiny.path.with_name("preprocessing.json")
    beside.write_text(json.dumps({"tiny": {"size": 64, "mean": 0.5, "std": [0.1, 0.2, 0.3], "crop": 0.9}}))
    model = load_model(f"onnx:{tiny.path},std=.5,interpolation=nearest")
    facts = model.preprocessing.facts
    assert facts["size"] == [64, 64]
    assert (facts["mean"], facts["std"]) == ([0.5] * 3, [0.5] * 3)
    assert (facts["crop"], facts["interpolation"]) == (0.9, "nearest")
    assert json.loads(json.dumps(facts)) == facts
    assert load_model(f"onnx:{tiny.path},size=48/40").preprocessing.size == (48, 40)
    beside.write_text(json.dumps({"tiny": {"size": 32, "classes": ["a", "b", "c", "d"]}}))
    assert load_model(f"onnx:{tiny.path}").class_names == ("a", "b", "c", "d")


@pytest.mark.parametrize("fixed", [1, 3])
def test_a_fixed_batch_size_makes_no_difference(tiny_onnx, fixed):
    free, bound = tiny_onnx(), tiny_onnx("bound.onnx", shape=(fixed, 3, 32, 32))
    batch = np.random.default_rng(1).random((5, 3, 32, 32), dtype=np.float32)
    one, other = (load_model(f"onnx:{tiny.path},{IN_RANGE}").answer(batch).logits for tiny in (free, bound))
    np.testing.assert_allclose(one, other, rtol=1e-6)


def test_probabilities_are_taken_as_what_they_are(tiny_onnx):
    tiny = tiny_onnx(outputs=("shares",))
    with pytest.raises(InvalidInput, match=r"tiny.onnx,.* seems to return probabilities; set outputs=probabilities"):
        load_model(f"onnx:{tiny.path},{IN_RANGE}")
    batch = np.random.default_rng(1).random((5, 3, 32, 32), dtype=np.float32)
    powers = np.exp(tiny.logits(batch))
    answers = load_model(f"onnx:{tiny.path},{IN_RANGE},outputs=probabilities").answer(batch)
    np.testing.assert_allclose(answers.probabilities, powers / powers.sum(axis=1, keepdims=True), rtol=1e-5)
    with pytest.raises(InvalidInput, match="probabilities must sum to one"):
        load_model(f"onnx:{tiny_onnx('l.onnx').path},{IN_RANGE},outputs=probabilities")
    with pytest.raises(InvalidInput, match="outputs must be logits or probabilities, got 'odds'"):
        load_model(f"onnx:{tiny.path},{IN_RANGE},outputs=odds")


def test_features_are_a_second_output(tiny_onnx):
    tiny = tiny_onnx(outputs=("pooled", "logits"))
    batch = np.random.default_rng(1).random((5, 3, 32, 32), dtype=np.float32)
    answers = load_model(f"onnx:{tiny.path},{IN_RANGE},layer=pooled").answer(batch)
    np.testing.assert_allclose(answers.features, batch.mean(axis=(2, 3)), rtol=1e-5)
    np.testing.assert_allclose(answers.features @ tiny.weights + tiny.bias, answers.logits, rtol=1e-4, atol=1e-6)
    assert load_model(f"onnx:{tiny.path},{IN_RANGE}").answer(batch).features is None
    with pytest.raises(InvalidInput, match=r"got no layer=NAME; its outputs besides logits are pooled"):
        load_model(f"onnx:{tiny.path},{IN_RANGE}", features=True)
    with pytest.raises(InvalidInput, match=r"got layer=poled; .* are none"):
        load_model(f"onnx:{tiny_onnx('one.onnx').path},{IN_RANGE},layer=poled")


def test_of_several_outputs_the_logits_are_named(tiny_onnx):
    tiny = tiny_onnx(outputs=("shares", "again"))
    with pytest.raises(InvalidInput, match="has several outputs, shares, again; add output=NAME"):
        load_model(f"onnx:{tiny.path},{IN_RANGE}")
    with pytest.raises(UnknownName, match="has no output 'agin'; there are shares, again"):
        load_model(f"onnx:{tiny.path},{IN_RANGE},output=agin")
    assert load_model(f"onnx:{tiny.path},{IN_RANGE},output=again").classes == 4


def test_the_digest_is_the_files_and_threads_are_no_part_of_the_name(tiny_onnx):
    one, other = tiny_onnx(), tiny_onnx("other.onnx", seed=1)
    a, b, c = (
        load_model(f"onnx:{x.path},{IN_RANGE}{more}") for x, more in ((one, ""), (one, ",threads=1"), (other, ""))
    )
    assert a.weights_digest == b.weights_digest != c.weights_digest
    assert a.name == b.name == "onnx:tiny.onnx,mean=0,std=1"
    assert isinstance(a, OnnxModel)
    assert b.session.get_session_options().intra_op_num_threads == 1


# --- what is wrong


def test_files_that_are_no_classifiers(tiny_onnx, tmp_path):
    text = tmp_path / "text.onnx"
    text.write_text("not a network\n")
    flat, deep = tiny_onnx("flat.onnx", shape=("N", 3, 32)), tiny_onnx("deep.onnx", shape=("N", 3, 32, 32, 32))
    free = tiny_onnx("free.onnx", shape=("N", 3, "h", "w"))
    cases = {
        f"onnx:{tmp_path}/no.onnx": "an ONNX model must be a file, .*no.onnx does not exist",
        f"onnx:{text}": ".*text.onnx is not an ONNX model: unknown field type",
        f"onnx:{tiny_onnx().path}": r"has no entry tiny; add mean=0,std=1 if it takes pixels in \[0, 1\]",
        f"onnx:{tiny_onnx().path},{IN_RANGE},size=48": "takes images of 32 x 32, got size 48 x 48",
        f"onnx:{tiny_onnx().path},{IN_RANGE},threads=.5": "threads must be a whole number",
        f"onnx:{tiny_onnx().path},{IN_RANGE},checkpoint=x": "options of onnx models are .*, got checkpoint",
        f"onnx:{flat.path},{IN_RANGE}": r"takes image tensor\(float\) \['N', 3, 32\]",
        f"onnx:{deep.path},{IN_RANGE}": r"\(N, 3, height, width\), .* 32, 32, 32",
        f"onnx:{free.path},{IN_RANGE}": "does not fix it; add size=SIDE",
    }
    for text, message in cases.items():
        with pytest.raises(InvalidInput, match=message) as caught:
            load_model(text)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1]", "must be a JSON object by file stem"),
        ("{", "preprocessing.json is not a valid JSON file"),
        ('{"tiny": 3}', "got int for tiny"),
        ('{"tiny": {"sise": 3}}', "got sise for tiny"),
        ('{"tiny": {"size": 32, "classes": ["a"]}}', "got 1 names for the 4 of onnx:tiny.onnx"),
        (
            '{"tiny": {"size": "32"}}',
            "size in preprocessing.json must be one or two whole numbers .* got '32'",
        ),
        ('{"tiny": {"size": 32, "std": 0}}', "the entry tiny of .* is invalid: std must be positive"),
        ('{"tiny": {"size": 32, "mean": null}}', "the entry tiny of .* is invalid"),
        ('{"other": {"size": 32}}', "has no entry tiny"),
    ],
)
def test_facts_beside_the_file_that_are_wrong(tiny_onnx, content, message):
    tiny = tiny_onnx()
    tiny.path.with_name("preprocessing.json").write_text(content)
    with pytest.raises(InvalidInput, match=message):
        load_model(f"onnx:{tiny.path}")


def test_there_are_no_gradients_and_no_other_device(tiny_onnx):
    line = f"onnx:{tiny_onnx().path},{IN_RANGE}"
    with pytest.raises(InvalidInput, match=r"gradients need a model in torch, got onnx:tiny\.onnx"):
        load_torch(line)
    with pytest.raises(
        InvalidInput,
        match=r"--device cuda needs the CUDAExecutionProvider of onnxruntime, this one has .*use --device cpu",
    ):
        load_model(line, device="cuda")
    with pytest.raises(InvalidInput, match=r"--device mps needs the CoreMLExecutionProvider"):
        load_model(line, device="mps")
    with pytest.raises(InvalidInput, match="--device must be auto, cpu, cuda, cuda:N or mps, got 'gpu'"):
        load_model(line, device="gpu")
    assert [load_model(line, device=device).device for device in ("auto", "cpu")] == ["cpu", "cpu"]


@pytest.mark.filterwarnings("ignore:Specified provider")
def test_a_provider_that_does_not_start_is_not_replaced_by_the_cpu(tiny_onnx, monkeypatch):
    """onnxruntime itself only warns, and continues on the CPU."""
    import onnxruntime

    names = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: names)
    for device in ("auto", "cuda", "cuda:1"):
        with pytest.raises(
            InvalidInput, match=r"CUDAExecutionProvider of onnxruntime does not start, so onnx:tiny.onnx"
        ):
            load_model(f"onnx:{tiny_onnx().path},{IN_RANGE}", device=device)


def test_a_session_on_a_device_answers_as_on_the_cpu(tiny_onnx, monkeypatch):
    """With the CPU in the place of CUDA: which provider and card a session is started with."""
    import onnxruntime

    started = []
    open_session = onnxruntime.InferenceSession

    class Session:
        def __init__(self, path, options, providers):
            started.append((options.intra_op_num_threads, providers))
            self.inner = open_session(path, options, providers=["CPUExecutionProvider"])

        def __getattr__(self, name):
            return getattr(self.inner, name)

        def get_providers(self):
            return ["CUDAExecutionProvider", "CPUExecutionProvider"]

    model = load_model(f"onnx:{tiny_onnx().path},{IN_RANGE},threads=1")
    monkeypatch.setattr(onnxruntime, "get_available_providers", Session.get_providers.__get__(model))
    monkeypatch.setattr(onnxruntime, "InferenceSession", Session)
    placed = model.on("cuda:1")
    assert (placed.device, placed.on("cuda:1")) == ("cuda:1", placed)
    assert started == [(1, [("CUDAExecutionProvider", {"device_id": 1}), "CPUExecutionProvider"])]
    images = np.random.default_rng(0).random((3, 3, 32, 32), dtype=np.float32)
    assert np.array_equal(placed.answer(images).logits, model.answer(images).logits)
    assert (placed.weights_digest, placed.settings) == (model.weights_digest, model.settings)


def test_onnx_runs_without_torch(tiny_onnx):
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from cosight.models import load_model\n"
        f"print(load_model('onnx:{tiny_onnx().path},{IN_RANGE}').classes)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "4"


# --- weights in other files


def test_weights_under_any_name_are_part_of_a_model(tiny_onnx):
    """Also those of a constant in a subgraph, and in a folder below that of the model."""
    tiny = tiny_onnx(w="weights of mine.bin", b="bias")
    line, folder = f"onnx:{tiny.path},{IN_RANGE}", tiny.path.parent
    model = load_model(line)
    images = np.random.default_rng(1).random((2, 3, 32, 32), dtype=np.float32)
    assert np.allclose(model.answer(images).logits, tiny.logits(images), atol=1e-5)
    digests = {model.weights_digest}
    for name in ("weights of mine.bin", "bias"):
        (folder / name).write_bytes(np.full((folder / name).stat().st_size // 4, 0.5, "<f4").tobytes())
        digests.add(load_model(line).weights_digest)
    assert len(digests) == 3
    assert [path.name for path in onnx_files(parse(line))] == [
        tiny.path.name,
        *("bias", "weights of mine.bin"),
        "preprocessing.json",
    ]


@pytest.mark.parametrize("location", ["../other.bin", "/etc/passwd", "a/../../b", "C:\\w", "..\\w", "\\\\host\\w"])
def test_weights_outside_the_folder_are_refused(tiny_onnx, location):
    tiny = tiny_onnx(w="w" * len(location))
    tiny.path.write_bytes(tiny.path.read_bytes().replace(b"w" * len(location), location.encode()))
    with pytest.raises(InvalidInput, match="are in its folder"):
        check_model_spec(f"onnx:{tiny.path},{IN_RANGE}")


def test_missing_weights_are_named_before_anything_is_loaded(tiny_onnx):
    tiny = tiny_onnx(w="w.bin")
    (tiny.path.parent / "w.bin").unlink()
    with pytest.raises(InvalidInput, match=r"w\.bin does not exist"):
        check_model_spec(f"onnx:{tiny.path},{IN_RANGE}")


def test_a_damaged_file_is_refused_in_one_line(tiny_onnx):
    """Every shortened file, and files with any one byte changed, are read to the end or refused."""
    tiny = tiny_onnx(w="w.bin", b="b.bin")
    whole = tiny.path.read_bytes()
    rng, refused = np.random.default_rng(0), 0
    for _ in range(2000):
        data = bytearray(whole[: rng.integers(1, len(whole) + 1)] if rng.random() < 0.3 else whole)
        data[rng.integers(len(data))] = rng.integers(256)
        tiny.path.write_bytes(data)
        try:
            external_weights(tiny.path)
        except InvalidInput:
            refused += 1
    assert 500 < refused < 2000

"""A set of attacked images: real classifiers, real photos, only what fools is kept."""

import json

import numpy as np
import pytest

from cosight.errors import InvalidInput
from cosight.stimuli.attacking import Attacked, answer
from cosight.stimuli.images import encode, read_image
from cosight.stimuli.making import make_set
from cosight.stimuli.sets import read_set, verify

torch = pytest.importorskip("torch")
CLASSES = ("dark", "light")


class Brightness:
    """Says light when the mean exceeds a half; its gradient points to brighter pixels."""

    name = "test:brightness"
    std = (0.25, 0.25, 0.25)
    weights_digest = "0123456789abcdef"

    def __call__(self, images):
        mean = images.mean(dim=(1, 2, 3))
        return torch.stack([0.5 - mean, mean - 0.5], dim=1) * 100


def load(name):
    return Brightness()


@pytest.fixture
def sources(tmp_path):
    """Just light, clearly light, just dark, and one that the model gets wrong."""
    for truth, name, value in [
        ("light", "near", 129),
        ("light", "far", 220),
        ("dark", "near", 126),
        ("dark", "wrong", 140),
    ]:
        path = tmp_path / "source" / truth / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode(np.full((32, 32, 3), value, np.uint8), "png"))
    return read_set(tmp_path / "source")


def test_only_what_fools_is_kept(sources, tmp_path):
    recipe = Attacked(sources, ("m",), load, eps=(0.004, 0.04, 0.08), classes=CLASSES)
    made = make_set(recipe, tmp_path / "out", workers=1)
    # eps .04 of a std of .25 is .01 of the range, 2.55 levels: enough to cross from 129 and from 126, not from 220
    assert made.stimuli.frame["file"].to_list() == [
        "images/fgsm/test_brightness-01234567/0.04/dark/near.png",
        "images/fgsm/test_brightness-01234567/0.04/light/near.png",
    ]
    reasons = {job.split("/")[2] + " " + "/".join(job.split("/")[3:]): reason for job, reason in made.dropped.items()}
    assert reasons["0.004 light/near"] == "unchanged"
    assert reasons["0.08 light/near"] == "larger"
    assert reasons["0.08 light/far"] == "not-fooled"
    assert reasons["0.04 dark/wrong"] == "clean-wrong"
    assert verify(made.stimuli).intact


def test_stored_pixels_fool_the_model_and_the_manifest_tells_how(sources, tmp_path):
    made = make_set(Attacked(sources, ("m",), load, eps=(0.04,), classes=CLASSES), tmp_path / "out", workers=1)
    for row in made.stimuli.frame.iter_rows(named=True):
        assert CLASSES[answer(Brightness(), read_image(tmp_path / "out" / row["file"]))] != row["truth"]
        parameters = json.loads(row["parameters"])
        assert parameters == {
            "attack": "fgsm",
            "eps": 0.04,
            "space": "normalised",
            "model": "test:brightness",
            "weights": "0123456789abcdef",
        }
        assert (row["experiment"], row["level"], row["kind"]) == ("attacks", 1, "fgsm")


def test_keeping_all_keeps_every_eps_that_fools(sources, tmp_path):
    recipe = Attacked(sources, ("m",), load, eps=(0.04, 0.08), classes=CLASSES, choose="all")
    frame = make_set(recipe, tmp_path / "out", workers=1).stimuli.frame
    assert frame["level"].to_list() == [1, 1, 2, 2]


def test_a_second_run_does_nothing(sources, tmp_path):
    recipe = Attacked(sources, ("m",), load, eps=(0.04,), classes=CLASSES)
    make_set(recipe, tmp_path / "out", workers=1)
    made = make_set(recipe, tmp_path / "out", workers=1)
    assert (made.new, made.present, len(made.dropped)) == (0, 2, 2)


def test_without_classes_the_models_own_answer_is_what_must_change(sources, tmp_path):
    made = make_set(Attacked(sources, ("m",), load, eps=(0.04, 0.5)), tmp_path / "out", workers=1)
    assert [file.split("/", 4)[-1] for file in made.stimuli.frame["file"]] == [
        "dark/near.png",
        "light/near.png",
        "dark/wrong.png",
    ]


def test_a_truth_that_is_a_number_is_an_output(tmp_path):
    path = tmp_path / "source/1/a.png"
    path.parent.mkdir(parents=True)
    path.write_bytes(encode(np.full((32, 32), 126, np.uint8), "png"))  # grey, and the model says 0
    made = make_set(Attacked(read_set(tmp_path / "source"), ("m",), load), tmp_path / "out", workers=1)
    assert set(made.dropped.values()) == {"clean-wrong"}


def test_a_truth_outside_the_classes_is_named(sources, tmp_path):
    with pytest.raises(InvalidInput, match="the truth 'dark', which is not among"):
        make_set(Attacked(sources, ("m",), load, classes=("light", "x")), tmp_path / "out", workers=1)


def test_the_command_attacks_a_real_network(mirror, tmp_path, cosight):
    """ResNet-20 on CIFAR-10 test images: a Linf step of 2/255 fools it nearly always (98 %, their README)."""
    import cv2

    rows = cv2.imread(str(mirror / "cifar10/test_images.png"))[:12, :, ::-1].reshape(12, 32, 32, 3)
    labels = json.loads((mirror / "cifar10/test_labels.json").read_text())
    names = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
    for index, (image, label) in enumerate(zip(rows, labels, strict=False)):
        path = tmp_path / "cifar" / names[label] / f"{index}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode(np.ascontiguousarray(image), "png"))
    weights = mirror / "weights/cifar10/standard-resnet20.safetensors"
    done = cosight(
        "stimuli", "attack", tmp_path / "cifar", tmp_path / "out", "--model", f"cosight:resnet20,checkpoint={weights}",
        "--kind", "pgd-linf", "--eps", "0.008", "--space", "pixels", "--labels", "cifar-10",
    )  # fmt: skip
    assert done.code == 0, done.err
    frame = read_set(tmp_path / "out").frame
    assert 9 <= frame.height <= 12
    clean = {path.stem: read_image(path) for path in (tmp_path / "cifar").rglob("*.png")}
    for row in frame.iter_rows(named=True):
        change = np.abs(read_image(tmp_path / "out" / row["file"]).astype(int) - clean[row["image"][:-4]])
        assert 1 <= change.max() <= 2

"""Several models as one."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.special import softmax

from cosight.errors import InvalidInput
from cosight.models import Model, Preprocessing, as_model, ensemble, ensemble_of, load_model

BATCH = np.random.default_rng(1).random((4, 3, 32, 32), dtype=np.float32)


def plain(side, **more):
    return Preprocessing((side, side), mean=(0, 0, 0), std=(1, 1, 1), **more)


def tinted(weight, way, name="m", names=None, classes=3):
    return as_model(
        lambda batch: weight * batch.mean(axis=(2, 3))[:, :classes], name=name, preprocessing=way, class_names=names
    )


def answers(model, photos):
    return model.answer(np.stack([model.prepare(photo) for photo in photos])).probabilities


def test_the_mean_of_probabilities_not_of_logits():
    members = [tinted(weight, plain(32)) for weight in (1, 5, 20)]
    both = ensemble(members, name="three")
    assert isinstance(both, Model)
    expected = np.mean([softmax(member.answer(BATCH).logits, axis=1) for member in members], axis=0)
    np.testing.assert_allclose(both.answer(BATCH).probabilities, expected, rtol=1e-5)
    np.testing.assert_allclose(softmax(both.answer(BATCH).logits, axis=1), expected, rtol=1e-5)
    assert both.answer(BATCH).features is None


def test_members_see_photos_their_own_way(photos):
    ways = [plain(32), plain(64, crop=0.8), plain(32, interpolation="nearest"), Preprocessing((32, 32))]
    members = [tinted(weight, way) for weight, way in zip((4, -3, 6, 5), ways, strict=True)]
    both = ensemble(members, name="four")
    assert both.preprocessing.size == (64, 32 + 64 + 32)  # the last sees what the first does, but for normalising
    assert both.preprocessing.columns == (0, 32, 96, 0)
    facts = both.preprocessing.facts
    assert json.loads(json.dumps(facts)) == facts
    assert [member["size"] for member in facts["members"]] == [[32, 32], [64, 64], [32, 32], [32, 32]]
    expected = np.mean([answers(member, photos) for member in members], axis=0)
    got = answers(both, photos)
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_members_alike_take_no_more_room(photos):
    both = ensemble([tinted(1, plain(32)), tinted(2, plain(32))], name="two")
    assert np.array_equal(both.prepare(photos[0]), both.members[0].prepare(photos[0]))


def test_by_name_with_an_ensemble_inside(tiny_onnx, photos):
    one, other = (f"onnx:{tiny_onnx(f'{seed}.onnx', seed=seed).path},mean=0,std=1" for seed in (0, 1))
    model_line = ensemble_of([one, ensemble_of([one, other])])
    assert str(model_line) == f"ensemble:[{one}]+[ensemble:[{one}]+[{other}]]"
    model = load_model(model_line)
    assert model.name == (
        "ensemble:[onnx:0.onnx,mean=0,std=1]+[ensemble:[onnx:0.onnx,mean=0,std=1]+[onnx:1.onnx,mean=0,std=1]]"
    )
    a, b, both = (answers(load_model(line), photos) for line in (one, other, str(model_line)))
    np.testing.assert_allclose(both, 0.75 * a + 0.25 * b, rtol=1e-5)
    assert model.weights_digest != load_model(f"ensemble:[{one}]+[{other}]").weights_digest


def test_real_ones_of_two_sizes(mirror, photos):
    folder = mirror / "weights/imagenet-onnx"
    model = load_model(
        f"ensemble:onnx:{folder}/mobilenet_v1_025_128.onnx+[onnx:{folder}/squeezenet_1_1.onnx,threads=1]"
    )
    assert model.name == "ensemble:onnx:mobilenet_v1_025_128.onnx+onnx:squeezenet_1_1.onnx"
    assert model.preprocessing.size == (227, 128 + 227)
    expected = np.mean([answers(member, photos) for member in model.members], axis=0)
    np.testing.assert_allclose(answers(model, photos), expected, rtol=1e-4, atol=1e-7)
    assert expected[0].argmax() in {442, 538, 832}  # bell cote, dome, stupa


def test_class_names_are_those_of_whoever_names_them():
    named = tinted(1, plain(32), names=("a", "b", "c"))
    assert ensemble([tinted(2, plain(32)), named], name="x").class_names == ("a", "b", "c")
    with pytest.raises(InvalidInput, match="the same class names in the same order, x has not"):
        ensemble([named, tinted(1, plain(32), names=("a", "c", "b"))], name="x")


def test_members_that_do_not_go_together():
    two = tinted(1, plain(32), name="two", classes=2)
    with pytest.raises(InvalidInput, match="must have the same number of classes, got m 3, two 2"):
        ensemble([tinted(1, plain(32)), two], name="x")
    with pytest.raises(InvalidInput, match=r"at least two members, got 1; join them with \+"):
        ensemble([two], name="x")
    with pytest.raises(InvalidInput, match="x has no features; use its members"):
        as_model(ensemble([two, two], name="x"), name="x", features=True)
    with pytest.raises(InvalidInput, match=r"takes float32 images \(N, 3, 32, 32\)"):
        ensemble([two, two], name="x").answer(BATCH[:, :, :9])

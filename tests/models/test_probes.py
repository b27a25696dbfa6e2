"""Linear probes, beside scikit-learn's logistic regression."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from cosight.errors import InvalidInput
from cosight.models import Model, Preprocessing, as_model, load_model
from cosight.models.probes import Probe, attach_probe, fit_probe, read_probe, write_probe

PLAIN = Preprocessing((8, 8), mean=(0, 0, 0), std=(1, 1, 1))
BATCH = np.random.default_rng(1).random((6, 3, 8, 8), dtype=np.float32)


def clouds(rows, dimensions, classes, *, apart=1.0, seed=0):
    """Features around a point for each class, of very different scales; every class occurs."""
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(classes), rng.integers(classes, size=rows - classes)])
    middles = rng.normal(size=(classes, dimensions)) * apart
    features = middles[labels] + rng.normal(size=(rows, dimensions))
    return (features * np.geomspace(0.01, 100, dimensions) + 3).astype(np.float32), labels


def named(count):
    return tuple(f"c{index}" for index in range(count))


def reference(features, labels, penalty):
    """scikit-learn's, run to the end."""
    regression = LogisticRegression(C=1 / penalty, tol=1e-10, max_iter=100_000, solver="newton-cholesky")
    return make_pipeline(StandardScaler(), regression).fit(features.astype(np.float64), labels)


# --- the same minimum as scikit-learn's


@pytest.mark.parametrize("penalty", [0.01, 1.0, 1000.0])
@pytest.mark.parametrize(
    ("rows", "dimensions", "classes", "apart"),
    [(300, 8, 4, 1), (300, 8, 2, 1), (40, 60, 3, 1), (200, 5, 3, 20), (300, 8, 4, 0)],
    ids=["several classes", "two classes", "more dimensions than images", "separable", "nothing to learn"],
)
def test_equals_scikit_learn(rows, dimensions, classes, apart, penalty):
    features, labels = clouds(rows, dimensions, classes, apart=apart)
    probe = fit_probe(features, labels, classes=named(classes), penalty=penalty)
    expected = reference(features, labels, penalty)
    unseen = clouds(100, dimensions, classes, apart=apart, seed=1)[0]
    shares = softmax(probe.logits(unseen).astype(np.float64), axis=1)
    np.testing.assert_allclose(shares, expected.predict_proba(unseen.astype(np.float64)), atol=1e-4)
    weights, bias = probe.weights, probe.bias
    if classes == 2:  # scikit-learn keeps the one vector that tells them apart
        weights, bias = weights[1:] - weights[:1], bias[1:] - bias[:1]
    np.testing.assert_allclose(weights, expected[-1].coef_, rtol=1e-3, atol=2e-4)
    offset = expected[-1].intercept_.mean() if classes > 2 else 0  # one number for all changes nothing
    np.testing.assert_allclose(bias, expected[-1].intercept_ - offset, atol=1e-3)
    np.testing.assert_allclose(probe.mean, expected[0].mean_, rtol=1e-12)
    np.testing.assert_allclose(probe.scale, expected[0].scale_, rtol=1e-12)


def test_digits_as_scikit_learn_tells_them():
    from sklearn.datasets import load_digits

    digits, labels = load_digits(return_X_y=True)  # three of its 64 pixels are always 0
    probe = fit_probe(digits[:300].astype(np.float32), labels[:300], classes=tuple("0123456789"))
    logits = probe.logits(digits[300:].astype(np.float32))
    expected = reference(digits[:300], labels[:300], 1.0)
    np.testing.assert_allclose(
        softmax(logits.astype(np.float64), axis=1), expected.predict_proba(digits[300:]), atol=1e-4
    )
    assert (logits.argmax(axis=1) == labels[300:]).mean() == expected.score(digits[300:], labels[300:])


def test_a_dimension_that_is_always_the_same_has_no_say():
    features, labels = clouds(60, 4, 3)
    same = np.full((60, 1), 0.1, np.float32)
    probe = fit_probe(np.hstack([same, features]), labels, classes=named(3))
    assert (probe.weights[:, 0] == 0).all()
    assert probe.scale[0] == 1
    without = fit_probe(features, labels, classes=named(3))
    np.testing.assert_allclose(probe.weights[:, 1:], without.weights, atol=1e-4)
    strange = np.hstack([1000 * same, features])
    assert np.array_equal(probe.logits(strange), probe.logits(np.hstack([same, features])))


def test_the_same_input_gives_the_same_probe_and_stays_as_it_is():
    features, labels = clouds(80, 6, 3)
    kept = features.astype(np.float64)
    table = kept.copy()
    assert len({fit_probe(table, labels, classes=named(3)).digest for _ in range(2)}) == 1
    assert np.array_equal(table, kept)
    assert fit_probe(features, labels, classes=named(3)).logits(features).dtype == np.float32


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.1, 1.0, 10.0]), st.permutations(range(3)))
def test_units_and_order_of_classes_do_not_matter(seed, penalty, order):
    features, labels = clouds(50, 4, 3, seed=seed)
    one = fit_probe(features, labels, classes=("a", "b", "c"), penalty=penalty).logits(features)
    moved = features.astype(np.float64) * 7 - 2
    swapped = np.argsort(order)[labels]  # class k is now called by its place in `order`
    other = fit_probe(moved, swapped, classes=tuple("abc"[index] for index in order), penalty=penalty).logits(moved)
    np.testing.assert_allclose(other, one[:, order], atol=2e-3)


# --- what cannot be fitted


@pytest.mark.parametrize(
    ("features", "labels", "classes", "message"),
    [
        (np.zeros((4, 2)), [0, 0, 2, 2], ("cat", "dog", "elk"), "needs training images, got none of dog; add some"),
        (np.zeros((1, 2)), [0], named(9), r"got none of c1, c2, c3, c4, c5, \.\.\.;"),
        (np.zeros((0, 2)), np.zeros(0, int), ("cat", "dog"), "got none of cat, dog;"),
        (np.zeros((2, 2)), [0, 0], ("cat",), "two or more distinct classes, got cat"),
        (np.zeros((2, 2)), [0, 1], ("cat", "cat"), "two or more distinct classes, got cat, cat"),
        (np.zeros((2, 2)), [0, 1], (), "got none"),
        (np.float32([[0, 1], [np.nan, 1]]), [0, 1], ("cat", "dog"), "features must be finite, got nan"),
        (np.float32([[0, 1], [np.inf, 1]]), [0, 1], ("cat", "dog"), "features must be finite, got inf"),
        (np.zeros(2), [0, 1], ("cat", "dog"), r"features must have 2 axes, got shape \(2,\)"),
        (np.zeros((3, 2)), [0, 1], ("cat", "dog"), "one length, got features 3, labels 2"),
        (np.zeros((2, 2)), [0, 2], ("cat", "dog"), "class numbers, 0 to 1, one per image, got 0 to 2"),
        (np.zeros((2, 2)), [-1, 1], ("cat", "dog"), "got -1 to 1"),
        (np.zeros((2, 2)), [0.0, 1.0], ("cat", "dog"), "got float64 of shape"),
        (np.zeros((2, 2)), ["cat", "dog"], ("cat", "dog"), "got <U3 of shape"),
    ],
)
def test_what_is_no_training_set_is_refused(features, labels, classes, message):
    with pytest.raises(InvalidInput, match=message):
        fit_probe(features, labels, classes=classes)


@pytest.mark.parametrize("penalty", [0, -1, float("nan"), float("inf")])
def test_the_penalty_is_positive(penalty):
    with pytest.raises(InvalidInput, match=f"penalty must be a positive number, got {penalty}"):
        fit_probe(*clouds(20, 3, 2), classes=named(2), penalty=penalty)


def test_a_minimum_that_is_not_reached_is_said(monkeypatch):
    monkeypatch.setattr("cosight.models.probes._STEPS", 3)
    message = r"within 0.001 of its best weights, got .* after 3 steps; raise the penalty, which is 0.5"
    with pytest.raises(InvalidInput, match=message):
        fit_probe(*clouds(100, 6, 3), classes=named(3), penalty=0.5)


def test_features_that_are_all_the_same_give_the_shares_of_the_classes():
    probe = fit_probe(np.ones((8, 3)), [0, 0, 0, 0, 0, 0, 1, 1], classes=("cat", "dog"))
    np.testing.assert_allclose(softmax(probe.logits(np.zeros((1, 3))), axis=1), [[0.75, 0.25]], atol=1e-4)


# --- its answers


@pytest.mark.parametrize(("dimensions", "classes"), [(1, 2), (7, 3), (64, 10), (500, 16), (2048, 16)])
def test_a_row_does_not_depend_on_the_rows_beside_it(dimensions, classes):
    rng = np.random.default_rng(2)
    mean, scale = rng.normal(size=dimensions), rng.uniform(0.5, 2, dimensions)
    probe = Probe(named(classes), mean, scale, rng.normal(size=(classes, dimensions)), rng.normal(size=classes))
    features = rng.normal(size=(130, dimensions)).astype(np.float32)
    whole = probe.logits(features)
    np.testing.assert_allclose(whole, (features - mean) / scale @ probe.weights.T + probe.bias, rtol=1e-4, atol=1e-4)
    for size in (1, 2, 3, 31, 64):
        parts = [probe.logits(features[first : first + size].copy()) for first in range(0, 130, size)]
        assert np.array_equal(np.concatenate(parts), whole)
    assert probe.logits(features[:0]).shape == (0, classes)


def test_features_of_another_model_are_refused():
    probe = fit_probe(*clouds(20, 3, 2), classes=named(2))
    with pytest.raises(
        InvalidInput, match="takes features of 3 dimensions, got 4; use the layer that it was fitted to"
    ):
        probe.logits(np.zeros((2, 4)))
    with pytest.raises(InvalidInput, match="features must be finite"):
        probe.logits(np.full((1, 3), np.nan))


def test_the_digest_is_of_classes_and_numbers():
    probe = fit_probe(*clouds(20, 3, 2), classes=named(2))
    others = [
        replace(probe, classes=("c1", "c0")),
        *(replace(probe, **{name: getattr(probe, name) + 1e-9}) for name in ("mean", "scale", "weights", "bias")),
    ]
    assert len({probe.digest, *(other.digest for other in others)}) == 6
    assert replace(probe, weights=np.asfortranarray(probe.weights)).digest == probe.digest


@pytest.mark.parametrize(
    "wrong",
    [{"weights": np.ones((3, 3))}, {"mean": np.ones(4)}, {"scale": np.zeros(3)}, {"bias": np.ones(3)}],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_probe_whose_parts_do_not_fit_is_refused(wrong):
    probe = fit_probe(*clouds(20, 3, 2), classes=named(2))
    with pytest.raises(InvalidInput, match=r"a probe has weights \(2, D\), mean and positive scale"):
        replace(probe, **wrong)


# --- files


def test_a_file_brings_the_probe_back(tmp_path):
    probe = fit_probe(*clouds(20, 3, 2), classes=("Schäfer,hund", "c\n1"))
    for name in ("a/probe.safetensors", "b.safetensors"):
        write_probe(probe, tmp_path / name)
    again = read_probe(tmp_path / "a/probe.safetensors")
    assert again.classes == probe.classes
    assert again.digest == probe.digest
    assert (tmp_path / "b.safetensors").read_bytes() == (tmp_path / "a/probe.safetensors").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b.safetensors"]


def test_a_file_that_is_no_probe_is_said_in_one_line(tmp_path):
    from safetensors.numpy import save_file

    probe = fit_probe(*clouds(20, 3, 2), classes=named(2))
    arrays = {name: getattr(probe, name) for name in ("mean", "scale", "weights", "bias")}
    path = tmp_path / "x.safetensors"
    with pytest.raises(InvalidInput, match=r"a probe must be a file, .* does not exist"):
        read_probe(path)
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(InvalidInput, match=r"is not a probe that write_probe wrote: .*; fit it again"):
        read_probe(path)
    lacking = {name: array for name, array in arrays.items() if name != "bias"}
    for content, metadata, why in [
        (arrays, None, "it has no 'classes'"),
        (arrays, {"classes": "c0, c1"}, "Expecting value"),
        (arrays, {"classes": "3"}, "not iterable"),
        (arrays, {"classes": "[1, 2]"}, "classes must be text"),
        (arrays, {"classes": '["a", "b", "c"]'}, r"a probe has weights \(3, D\)"),
        (lacking, {"classes": '["a", "b"]'}, "it has no 'bias'"),
    ]:
        save_file(content, path, metadata=metadata)
        with pytest.raises(InvalidInput, match=f"is not a probe that write_probe wrote: .*{why}") as raised:
            read_probe(path)
        assert "\n" not in str(raised.value)


# --- a model with a probe


def means(batch):
    return 8 * batch.mean(axis=(2, 3)), batch.mean(axis=3).reshape(len(batch), -1)


def test_a_model_with_other_classes():
    model = as_model(means, name="means", preprocessing=PLAIN, features=True)
    probe = fit_probe(model.answer(BATCH).features, [0, 1, 0, 1, 2, 2], classes=("x", "y", "z"))
    both = attach_probe(model, probe, name="means#probe")
    assert isinstance(both, Model)
    assert (both.name, both.classes, both.class_names) == ("means#probe", 3, ("x", "y", "z"))
    answers = both.answer(BATCH)
    assert np.array_equal(answers.features, model.answer(BATCH).features)
    assert np.array_equal(answers.logits, probe.logits(answers.features))
    assert answers.logits.argmax(axis=1).tolist() == [0, 1, 0, 1, 2, 2]
    photo = np.random.default_rng(3).integers(256, size=(40, 50, 3), dtype=np.uint8)
    assert np.array_equal(both.prepare(photo), model.prepare(photo))
    assert (both.preprocessing, both.settings) == (model.preprocessing, model.settings)
    assert as_model(both, features=True) is both
    assert as_model(both, name="again", features=True).name == "again"


def test_its_digest_changes_with_the_model_and_with_the_probe():
    model = as_model(means, name="means", preprocessing=PLAIN, features=True)
    probe = fit_probe(*clouds(20, 24, 2), classes=named(2))
    pairs = [(model, probe), (model, replace(probe, bias=probe.bias + 1)), (replace(model, weights_digest="0"), probe)]
    assert len({attach_probe(*pair, name="m").weights_digest for pair in pairs}) == 3


def test_a_model_without_the_features_is_refused():
    model = as_model(means, name="means", preprocessing=PLAIN)
    with pytest.raises(InvalidInput, match="a probe needs features, means returns none; load it with features=True"):
        attach_probe(model, fit_probe(*clouds(20, 24, 2), classes=named(2)), name="m")
    featured = as_model(model, name="means", features=True)
    with pytest.raises(InvalidInput, match="takes features of 3 dimensions, got 24"):
        attach_probe(featured, fit_probe(*clouds(20, 3, 2), classes=named(2)), name="m")


@pytest.mark.slow
@pytest.mark.usefixtures("one_torch_thread")
def test_a_probe_on_a_real_network_is_about_as_good_as_its_own_head(mirror):
    from PIL import Image

    file = mirror / "weights/cifar10/standard-resnet20.safetensors"
    model = load_model(f"cosight:resnet20,checkpoint={file}", features=True)
    with Image.open(mirror / "cifar10/test_images.png") as picture:
        images = np.asarray(picture.crop((0, 0, 1024, 1500))).reshape(-1, 32, 32, 3)
    labels = np.array(json.loads((mirror / "cifar10/test_labels.json").read_text())[:1500])
    batch = np.stack([model.prepare(image) for image in images])
    probe = fit_probe(model.answer(batch[:1000]).features, labels[:1000], classes=tuple("0123456789"), penalty=100)
    both = attach_probe(model, probe, name="probed")
    own, other = ((m.answer(batch[1000:]).logits.argmax(axis=1) == labels[1000:]).mean() for m in (model, both))
    assert own == pytest.approx(0.924, abs=0.004)  # 91.7 % on all 10,000, as its origin says
    assert abs(own - other) < 0.025  # two standard errors of 500 images

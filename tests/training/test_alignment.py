"""Alignment losses: equal to the hard measures on one-hot answers, with exact gradients, the same for any division."""

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cosight.errors import InvalidInput
from cosight.measures import class_level_error_similarity, misclassification_agreement
from cosight.stimuli.images import digest, read_image
from cosight.training import Recipe, read_recipe, train
from cosight.training.alignment import (
    alignment_loss,
    expected_errors,
    soft_class_level_error_similarity,
    soft_misclassification_agreement,
)
from cosight.training.data import load_training_data
from cosight.trials.manifest import manifest_frame, read_manifest, write_manifest

pytestmark = pytest.mark.usefixtures("one_torch_thread")


@st.composite
def answer_tables(draw):
    """Answers of two observers and the truth: (3, trials), and the number of classes."""
    classes, trials = draw(st.integers(2, 6)), draw(st.integers(1, 30))
    codes = st.integers(0, classes - 1)
    return np.array(draw(st.lists(st.lists(codes, min_size=trials, max_size=trials), min_size=3, max_size=3))), classes


@given(answer_tables())
def test_one_hot_answers_give_the_hard_measures(table):
    (a, b, truth), classes = table
    one_hot = torch.eye(classes, dtype=torch.float64)
    tensors = one_hot[a], one_hot[b], torch.from_numpy(truth)
    names = range(classes)
    similarity = class_level_error_similarity(a, b, truth, classes=names).value
    agreement = misclassification_agreement(a, b, truth, classes=names).value
    assert float(soft_class_level_error_similarity(*tensors)) == pytest.approx(similarity, abs=1e-12, nan_ok=True)
    assert float(soft_misclassification_agreement(*tensors)) == pytest.approx(agreement, abs=1e-12, nan_ok=True)


def random_batch(seed, *, images=12, classes=4):
    rng = np.random.default_rng(seed)
    people = rng.dirichlet(np.ones(classes), images)
    people[0] = 0  # an image that nobody answered
    truth = torch.from_numpy(rng.integers(0, classes, images))
    return torch.from_numpy(rng.normal(size=(images, classes))), torch.from_numpy(people), truth


@pytest.mark.parametrize("name", ["cles", "ma"])
def test_gradients_match_finite_differences(name):
    logits, people, truth = random_batch(0)
    logits.requires_grad_(True)
    errors = 7 * expected_errors(people, truth)  # the batch is a seventh of the training images
    assert torch.autograd.gradcheck(lambda values: alignment_loss(name, values, people, truth, errors), (logits,))


@pytest.mark.parametrize("name", ["cles", "ma"])
def test_images_without_answers_do_not_count(name):
    logits, people, truth = random_batch(1)
    errors = expected_errors(people, truth)
    every, answered = (
        alignment_loss(name, logits[part], people[part], truth[part], errors) for part in (slice(0, 12), slice(1, 12))
    )
    torch.testing.assert_close(every, answered)


def test_a_batch_of_all_images_has_the_measure_as_loss():
    logits, people, truth = random_batch(3)
    probabilities, errors = torch.softmax(logits, dim=1), expected_errors(people, truth)
    similarity = soft_class_level_error_similarity(probabilities, people, truth)
    torch.testing.assert_close(alignment_loss("cles", logits, people, truth, errors), 1 - similarity)
    agreement = soft_misclassification_agreement(probabilities, people, truth)
    torch.testing.assert_close(alignment_loss("ma", logits, people, truth, errors), 1 - agreement)


def test_a_batch_stands_for_all_images():
    """Ten copies of the batch are the training images: the batch has the loss of all of them."""
    logits, people, truth = random_batch(4)
    copies = logits.repeat(10, 1), people.repeat(10, 1), truth.repeat(10)
    errors = expected_errors(*copies[1:])
    torch.testing.assert_close(
        alignment_loss("cles", logits, people, truth, errors), alignment_loss("cles", *copies, errors)
    )


@pytest.mark.parametrize("name", ["cles", "ma"])
def test_descent_reaches_the_observers_errors(name):
    """Started from its own errors, a network's softmax converges to errors like the observer's."""
    logits, people, truth = random_batch(2, images=40)
    people[0] = people[1]
    logits.requires_grad_(True)
    errors = expected_errors(people, truth)
    before = float(alignment_loss(name, logits.detach(), people, truth, errors))
    optimiser = torch.optim.Adam([logits], lr=0.1)
    for _ in range(100):
        optimiser.zero_grad()
        loss = alignment_loss(name, logits, people, truth, errors)
        loss.backward()
        optimiser.step()
    assert float(loss.detach()) < 0.6 * before


@pytest.mark.parametrize("name", ["cles", "ma"])
def test_undefined_is_a_loss_of_zero(name):
    """Both always right: there are no errors to compare, and no gradient."""
    truth = torch.tensor([0, 1])
    logits = (1000 * torch.eye(2)).requires_grad_(True)
    loss = alignment_loss(name, logits, torch.eye(2), truth, expected_errors(torch.eye(2), truth))
    loss.backward()
    assert float(loss.detach()) == 0
    assert not logits.grad.any()


# ---- in a recipe


@pytest.fixture
def people_set(write_digits, tmp_path):
    """36 digits of three classes; people take one in four for the next class (gold counts)."""
    root = write_digits(tmp_path / "set")
    rows = []
    for file in sorted(str(path.relative_to(root)) for path in root.rglob("*.png")):
        label = int(file[1])
        counts = 3 * np.eye(3, dtype=int)[label] + np.eye(3, dtype=int)[(label + 1) % 3]
        row = {"stimulus": digest(read_image(root / file)), "file": file, "image": file[3:], "truth": f"d{label}"}
        rows.append({**row, "gold_counts": counts.tolist()})
    write_manifest(root, manifest_frame(rows), {"labels": ["d0", "d1", "d2"]})
    return root


def write_people(root, path, *, kind="human"):
    """The same answers as trials of four people."""
    frame = read_manifest(root)[0]
    rows = [
        {"observer": f"p{person}", "kind": kind, "image": row["image"], "truth": row["truth"], "response": f"d{answer}"}
        for row in frame.iter_rows(named=True)
        for person, answer in enumerate(np.repeat(np.arange(3), row["gold_counts"]))
    ]
    pl.DataFrame(rows).write_csv(path)
    return path


def test_trials_and_label_distributions_are_the_same_observer(people_set, settings, tmp_path):
    base = {**settings, "data": str(people_set), "alignment": "cles"}
    gold = load_training_data(Recipe(**base)).training
    trials = load_training_data(Recipe(**base, alignment_to=str(write_people(people_set, tmp_path / "a.csv")))).training
    np.testing.assert_array_equal(gold.observer, trials.observer)
    np.testing.assert_array_equal(gold.truth, gold.labels)
    assert gold.observer[0].tolist() == [0.75, 0.25, 0]


def test_without_alignment_nothing_changes(people_set, settings):
    recipe = Recipe(**{**settings, "data": str(people_set)})
    assert load_training_data(recipe).training.observer is None
    assert not [name for name in recipe.facts if name.startswith("alignment")]  # older networks can be resumed


@pytest.mark.parametrize("name", [pytest.param("cles", marks=pytest.mark.slow), "ma"])
def test_a_recipe_with_an_alignment_loss(name, people_set, settings, tmp_path, forks):
    """The loss is in the history, the weights are others, and two processes give those of one."""
    base = {**settings, "data": str(people_set), "batch": 13, "epochs": 2, "dropout": 0.0}
    (plain,) = train(Recipe(**base), out=tmp_path / "plain")
    recipe = Recipe(**base, alignment=name, alignment_weight=2.0)
    (aligned,) = train(recipe, out=tmp_path / "aligned")
    assert aligned.history[0].loss > plain.history[0].loss
    forks.start(recipe, tmp_path / "two", copies=2)
    assert forks.wait() == [0, 0]
    (shared,) = train(recipe, out=tmp_path / "two")
    assert not shared.new
    for one, other in zip(aligned.history, shared.history, strict=True):
        assert other.loss == pytest.approx(one.loss, rel=1e-4)
        assert other.validation_loss == pytest.approx(one.validation_loss, rel=1e-3)


def test_paths_of_trials_are_relative_to_the_recipe(tmp_path):
    file = tmp_path / "a.toml"
    file.write_text('data = "set"\narchitecture = "vit-small"\nalignment = "ma"\nalignment_to = "people.csv"\n')
    assert read_recipe(file).alignment_to == str(tmp_path / "people.csv")
    file.write_text('data = "set"\narchitecture = "vit-small"\nalignment = "ma"\n')
    assert read_recipe(file).alignment_to == "gold"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alignment": "ec"}, "alignment must be cles or ma, got 'ec'"),
        ({"alignment": "ma", "alignment_weight": 0}, "alignment_weight must be positive, got 0"),
        ({"alignment_weight": 2.0}, "alignment_weight is about the loss `alignment`, which is not set"),
        ({"alignment_to": "people.csv"}, "alignment_to is about the loss `alignment`, which is not set"),
        ({"alignment": "ma", "alignment_to": ""}, "alignment_to must not be empty"),
    ],
)
def test_settings_that_cannot_be(settings, message, tmp_path):
    file = tmp_path / "a.toml"
    lines = {"data": "set", "architecture": "vit-small", **settings}
    file.write_text("".join(f"{key} = {value!r}\n" for key, value in lines.items()))
    with pytest.raises(InvalidInput, match=message):
        read_recipe(file)


def test_observers_that_do_not_fit(people_set, settings, tmp_path):
    base = {**settings, "data": str(people_set), "alignment": "cles"}
    with pytest.raises(
        InvalidInput, match=r"alignment_to must be `gold` or a file of trials, .*none.csv does not exist"
    ):
        train(Recipe(**base, alignment_to=str(tmp_path / "none.csv")), out=tmp_path / "out")
    models = write_people(people_set, tmp_path / "models.csv", kind="model")
    with pytest.raises(
        InvalidInput, match=r"trials of people who saw the training images of .*set, .*models.csv has no"
    ):
        load_training_data(Recipe(**base, alignment_to=str(models)))
    frame, facts = read_manifest(people_set)
    write_manifest(people_set, frame.with_columns(gold_counts=None), facts)
    with pytest.raises(InvalidInput, match=r"alignment needs wrong answers of the target observer .*, gold has none"):
        load_training_data(Recipe(**base))

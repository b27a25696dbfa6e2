"""Sets and folders as training data."""

import numpy as np
import polars as pl
import pytest

from cosight.errors import InvalidInput
from cosight.stimuli.images import digest, read_image
from cosight.stimuli.sets import image_files
from cosight.training import Recipe
from cosight.training.data import load_training_data
from cosight.trials.manifest import manifest_frame, read_manifest, write_manifest


def recipe(folder, **changes):
    return Recipe(data=str(folder), architecture="mixer-small", **changes)


@pytest.fixture
def write_set(write_digits, tmp_path):
    """Three classes of four digits as a set whose manifest `change` has altered."""

    def write(change=lambda row: row):
        root = write_digits(tmp_path / "set", each=4)
        rows = []
        for number, file in enumerate(image_files(root)):
            row = {"stimulus": digest(read_image(root / file)), "file": file, "truth": file.split("/")[0]}
            rows.append(change({**row, "split": "validation" if number % 4 == 0 else "train"}))
        write_manifest(root, manifest_frame(rows), {"made": "here"})
        return root

    return write


def test_a_folder_of_classes(digits):
    found = load_training_data(recipe(digits, validation=0.25))
    assert found.classes == ("d0", "d1", "d2")
    assert (len(found.training), len(found.validation)) == (27, 9)
    assert np.bincount(found.validation.labels).tolist() == [3, 3, 3]  # a share of each class
    assert not set(found.training.files) & set(found.validation.files)
    assert [found.classes[label] for label in found.training.labels] == [f[:2] for f in found.training.files]
    np.testing.assert_array_equal(found.training.targets, np.eye(3)[found.training.labels])


def test_the_share_is_drawn_by_names_and_a_seed(digits):
    one, same, other = (load_training_data(recipe(digits, validation_seed=seed)).validation.files for seed in (0, 0, 1))
    assert one == same != other


def test_the_manifests_split_decides(write_set):
    def with_test(row):
        return {**row, "split": "test"} if row["file"].startswith("d2") and row["split"] == "train" else row

    root = write_set(
        lambda row: {**row, "split": "calibration"} if "d0" in row["truth"] and row["split"] == "x" else row
    )
    found = load_training_data(recipe(root))
    assert (len(found.training), len(found.validation)) == (9, 3)
    frame = pl.read_parquet(root / "stimuli.parquet")
    rows = [with_test(row) for row in frame.iter_rows(named=True)]
    write_manifest(root, manifest_frame(rows), {"made": "here"})
    with pytest.raises(InvalidInput, match="none of d2"):  # what is for testing is not learnt from
        load_training_data(recipe(root))


def test_the_digest_follows_images_targets_and_split(write_set):
    root = write_set()
    first = load_training_data(recipe(root)).digest
    assert load_training_data(recipe(root)).digest == first
    frame = pl.read_parquet(root / "stimuli.parquet")
    for change in (
        pl.when(pl.int_range(pl.len()) == 0).then(pl.lit("train")).otherwise(pl.col("split")).alias("split"),
        pl.when(pl.int_range(pl.len()) == 1).then(pl.lit("d2")).otherwise(pl.col("truth")).alias("truth"),
    ):
        write_manifest(root, frame.with_columns(change), {"made": "here"})
        assert load_training_data(recipe(root)).digest != first


def test_gold_is_peoples_distribution(write_set):
    root = write_set(lambda row: {**row, "gold_counts": [6, 3, 1]})
    found = load_training_data(recipe(root, labels="d0,d1,d2", targets="gold"))
    np.testing.assert_allclose(found.training.targets, [[0.6, 0.3, 0.1]] * 9)
    assert found.training.labels.tolist() == [0] * 9


def test_gold_is_ordered_by_class_name(write_set):
    root = write_set(lambda row: {**row, "gold_counts": [6, 3, 1]})
    write_manifest(root, read_manifest(root)[0], {"labels": ["d0", "d1", "d2"]})
    found = load_training_data(recipe(root, labels="d2,d0,d1", targets="gold"))
    np.testing.assert_allclose(found.training.targets, [[0.1, 0.6, 0.3]] * 9)


def test_gold_may_have_a_place_for_abstain_that_nobody_chose(write_set):
    root = write_set(lambda row: {**row, "gold": [0.5, 0.25, 0.25, 0.0]})
    np.testing.assert_allclose(load_training_data(recipe(root, targets="gold")).training.targets[0], [0.5, 0.25, 0.25])


@pytest.mark.parametrize(
    ("gold", "told"),
    [
        ({"gold": [0.5, 0.25, 0.1]}, "must sum to one, .*d0.* has a sum of 0.85"),
        ({"gold": [1.5, -0.25, -0.25]}, "must not be negative"),
        ({"gold": [0.5, 0.25, 0.15, 0.1]}, "one value for each of the 3 classes"),
        ({"gold_counts": [0, 0, 0]}, "has a sum of 0"),
        ({}, "has neither"),
    ],
)
def test_bad_gold(gold, told, write_set):
    root = write_set(lambda row: {**row, **gold})
    with pytest.raises(InvalidInput, match=told):
        load_training_data(recipe(root, targets="gold"))


@pytest.mark.parametrize(
    ("change", "settings", "told"),
    [
        (lambda row: row, {"labels": "d0,d1,d2,d3"}, "none of d3"),
        (lambda row: row, {"labels": "d0,d1"}, "got 'd2'"),
        (lambda row: {**row, "truth": None} if "d0" in row["file"] else row, {}, "has none; leave it out"),
        (lambda row: {**row, "truth": "abstain"} if "d0" in row["file"] else row, {}, "has abstain; leave it out"),
        (lambda row: {**row, "truth": "d0"}, {}, "at least two classes"),
        (lambda row: {**row, "split": "test"}, {}, "none whose split is train"),
        (lambda row: {**row, "split": None}, {"validation": 0.1}, "leaves none; raise validation"),
        (lambda row: {**row, "split": None if "d0" in row["file"] else "train"}, {}, "or none, got both"),
        (lambda row: {**row, "stimulus": "a" * 64}, {}, "are in both"),
    ],
)
def test_bad_data(change, settings, told, write_set):
    with pytest.raises(InvalidInput, match=told) as caught:
        load_training_data(recipe(write_set(change), **settings))
    assert "\n" not in str(caught.value)


def test_versions_of_a_photo_are_all_for_training_or_all_for_validation(write_set):
    """Otherwise a network that was trained on a photo would be validated on the same photo, distorted."""
    photo = {}

    def of_two(row):  # two images each are versions of one photo
        number = photo.setdefault(row["truth"], []).append(1) or len(photo[row["truth"]])
        return {**row, "split": "train", "parent": f"{row['truth']}-{(number - 1) // 2}"}

    root = write_set(of_two)
    parents = dict(read_manifest(root)[0].select("file", "parent").iter_rows())
    for seed in range(5):
        found = load_training_data(recipe(root, validation=0.5, validation_seed=seed))
        sides = [{parents[file] for file in side.files} for side in (found.training, found.validation)]
        assert not sides[0] & sides[1]
        assert (len(found.training), len(found.validation)) == (6, 6)

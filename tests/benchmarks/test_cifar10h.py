"""CIFAR-10H: the images and people's counts are read from the published files."""

import json

import numpy as np
import pytest
from PIL import Image as Pillow

from cosight.benchmarks.cifar10h import Cifar10HImages
from cosight.errors import InvalidInput
from cosight.stimuli.generate import generate_set
from cosight.stimuli.sets import read_set, verify


@pytest.fixture
def folder(tmp_path):
    """A source folder with three images."""
    root = tmp_path / "cifar10"
    root.mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (3, 1024, 3), dtype=np.uint8)
    Pillow.fromarray(pixels).save(root / "test_images.png")
    (root / "test_labels.json").write_text(json.dumps([3, 8, 0]))
    np.save(root / "cifar10h-counts.npy", np.eye(10, dtype=np.int64)[[3, 8, 2]] * 51)
    return root


def test_rows_become_images_with_truth_and_counts(folder, tmp_path):
    made = generate_set(Cifar10HImages(folder), tmp_path / "set")
    frame = made.stimuli.frame
    assert frame["truth"].to_list() == ["cat", "ship", "airplane"]
    assert frame["gold_counts"][2].to_list() == [0, 0, 51, 0, 0, 0, 0, 0, 0, 0]
    rows = np.array(Pillow.open(folder / "test_images.png"))
    assert np.array_equal(made.stimuli.pixels(frame["file"][1]), rows[1].reshape(32, 32, 3))
    assert verify(read_set(tmp_path / "set")).intact
    assert generate_set(Cifar10HImages(folder), tmp_path / "set").new == 0


@pytest.mark.parametrize(
    ("counts", "says"),
    [(np.ones((2, 10), int), "3 images, 3 labels and counts"), (np.ones((3, 10)), "whole numbers"),
     (np.zeros((3, 10), int), "at least one per image")],
)  # fmt: skip
def test_answers_that_do_not_fit_are_refused(counts, says, folder, tmp_path):
    np.save(folder / "cifar10h-counts.npy", counts)
    with pytest.raises(InvalidInput, match=says):
        generate_set(Cifar10HImages(folder), tmp_path / "set")


def test_what_is_missing_is_named(folder, tmp_path):
    (folder / "test_labels.json").unlink()
    with pytest.raises(InvalidInput, match=r"has no test_labels\.json"):
        generate_set(Cifar10HImages(folder), tmp_path / "set")


def test_the_binary_version_gives_the_same_set(folder, tmp_path):
    pixels = np.array(Pillow.open(folder / "test_images.png")).reshape(3, 32, 32, 3)
    labels = np.array([[3], [8], [0]], dtype=np.uint8)
    binary = tmp_path / "binary"
    binary.mkdir()
    (binary / "cifar10h-counts.npy").write_bytes((folder / "cifar10h-counts.npy").read_bytes())
    with pytest.raises(InvalidInput, match=r"has no test_batch\.bin; `cosight data get cifar-10h` gets them"):
        generate_set(Cifar10HImages(binary), tmp_path / "set")
    planes = pixels.transpose(0, 3, 1, 2).reshape(3, -1)
    (binary / "test_batch.bin").write_bytes(np.hstack([labels, planes]).tobytes())
    made = [generate_set(Cifar10HImages(f), tmp_path / f"{f.name}-set").stimuli.frame for f in (folder, binary)]
    assert made[0].drop("parameters").equals(made[1].drop("parameters"))
    (binary / "test_batch.bin").write_bytes(b"0" * 100)
    with pytest.raises(InvalidInput, match="3073 bytes per image, got 100 bytes"):
        generate_set(Cifar10HImages(binary), tmp_path / "new")


def test_the_real_ones(mirror):
    """10,000 images; most people agree with the label on 99.21 % of them (Peterson et al. 2019)."""
    units = Cifar10HImages(mirror / "cifar10").units()
    jobs = [job for unit in units for job in unit.jobs]
    classes = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
    most = [classes[int(np.argmax(job.facts["gold_counts"]))] == job.facts["truth"] for job in jobs]
    assert len(most) == 10_000
    assert np.mean(most) == pytest.approx(0.9921, abs=0.0003)  # ties among people count by class order

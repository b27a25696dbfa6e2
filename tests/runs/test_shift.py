"""How far a set is from a reference: distances of stored features against scipy's formula, intervals, neighbours."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image as Pillow
from scipy.linalg import sqrtm

from cosight import evaluate, shift
from cosight.errors import InvalidInput
from cosight.runs.folder import RunFolder
from cosight.runs.shift import REFERENCE, FeatureRows, frechet_row

SIDE = 40
CLASSES = ("cat", "dog")


def colour_model(images):
    """Logits and features from the mean colours of the two halves of an image."""
    features = images.reshape(len(images), 3, 2, SIDE // 2, SIDE).mean(axis=(3, 4)).reshape(len(images), 6)
    return np.stack([features[:, 0] * 4, features[:, 1] * 4], axis=1), features


def write_photos(folder, count, *, seed, light=0, same=()):
    """Random patterns, redder for cats; `same` are copies of photos of other seeds."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        for hue, name in enumerate(CLASSES):
            pixels = np.kron(rng.integers(0, 120, (2, 2, 3)), np.ones((SIDE // 2, SIDE // 2, 1))).astype(np.uint8)
            pixels[..., hue] += 40
            (folder / name).mkdir(parents=True, exist_ok=True)
            Pillow.fromarray(pixels + np.uint8(light)).save(folder / name / f"{number}.png")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs on light images and on a darker reference, whose first photos are the same as another set's."""
    home = tmp_path_factory.mktemp("shift")
    for name, count, seed, light in (("light", 30, 1, 60), ("reference", 40, 2, 0), ("twin", 3, 2, 0)):
        write_photos(home / name, count, seed=seed, light=light)
        options = {"labels": "cat,dog", "features": True, "thumbnails": True, "progress": False}
        evaluate(named_model(), on=home / name, out=home / f"run-{name}", **options)
    return home


def named_model():
    from cosight.models import Preprocessing, as_model

    return as_model(colour_model, name="colours", preprocessing=Preprocessing(size=(SIDE, SIDE)), class_names=CLASSES)


def by_formula(x, y):
    """The Frechet distance as Heusel et al. 2017 print it, with scipy's matrix root."""
    s, t = np.cov(x.T), np.cov(y.T)
    return np.square(x.mean(0) - y.mean(0)).sum() + np.trace(s + t - 2 * sqrtm(s @ t).real)


def test_the_distance_is_that_of_the_stored_features(runs):
    scores = shift(runs / "run-light", runs / "run-reference", resamples=50)
    (row,) = [row for row in scores.rows if row.measure == "frechet_distance" and row.statistic == "value"]
    x, y = (RunFolder(runs / name).features("colours")["features"] for name in ("run-light", "run-reference"))
    assert row.value == pytest.approx(by_formula(x.astype(float), y.astype(float)), rel=1e-6)
    assert row.low < row.value < row.high
    assert (row.against, row.n, row.clusters) == (REFERENCE, 60, 20)
    (half,) = [row for row in scores.rows if row.statistic == "ceiling_split_half"]
    assert half.value < row.low  # halves of one set are nearer to each other
    accuracy = {row.in_group("set"): row for row in scores.rows if row.measure == "accuracy"}
    assert set(accuracy) == {None, REFERENCE}
    assert accuracy[REFERENCE].n == 80


def test_groups(runs):
    scores = shift(runs / "run-light", runs / "run-reference", by="truth", resamples=20)
    rows = [row for row in scores.rows if row.measure == "frechet_distance" and row.group]
    assert [row.group for row in rows] == [(("truth", "cat"),), (("truth", "dog"),)]
    assert {row.n for row in rows} == {30}


def test_the_interval_covers_the_true_distance():
    """d = 3, n = 400: the bias is small there. 100 repetitions; .95 with a standard error of .022."""
    rng = np.random.default_rng(0)
    names = np.array([f"photo{i}" for i in range(800)])
    truth = 0.25 + 3 * (1.5 - 1) ** 2  # means .5 apart in one dimension, standard deviations 1 and 1.5
    covered = 0
    for seed in range(100):
        x = rng.normal(size=(400, 3))
        y = 1.5 * rng.normal(size=(400, 3)) + [0.5, 0, 0]
        row = frechet_row(
            "m", (), FeatureRows(x, names[:400]), FeatureRows(y, names[400:]), parts=20, confidence=0.95, seed=seed
        )
        covered += row.low <= truth <= row.high
    assert 0.89 <= covered / 100 <= 0.99


def test_few_images_are_flagged_and_too_few_have_no_interval():
    rng = np.random.default_rng(0)
    names = np.array(list("abcdef"))
    x, y = rng.normal(size=(3, 6)), rng.normal(size=(3, 6))
    same = frechet_row("m", (), FeatureRows(x, names[:3]), FeatureRows(y, names[:3]), parts=20, confidence=0.95, seed=0)
    assert "few_trials" in same.flags
    assert "few_stimuli" in same.flags
    assert (same.low, same.high) == (None, None)
    none = frechet_row(
        "m", (), FeatureRows(x[:1], names[:1]), FeatureRows(y, names[3:]), parts=4, confidence=0.9, seed=0
    )
    assert none.value is None
    assert "undefined" in none.flags


def test_the_picture_shows_each_query_with_its_nearest_reference_images(runs, tmp_path):
    """A set whose images are in the reference: the first neighbour of each is itself."""
    shift(runs / "run-twin", runs / "run-reference", by="truth", neighbours=tmp_path / "near.png", resamples=5)
    sheet = np.asarray(Pillow.open(tmp_path / "near.png")).astype(int)
    side, gap = 128, 4
    left = sheet.shape[1] - 7 * (side + gap)
    for top in (gap, gap + side + 14 + 3 * gap):
        query, nearest, farther = (sheet[top : top + side, left + i * (side + gap) :][:, :side] for i in range(3))
        assert np.abs(query - nearest).max() == 0
        assert np.abs(query - farther).max() > 0
    with pytest.raises(InvalidInput, match=r"near\.png exists and is not overwritten.* another --neighbours"):
        shift(runs / "run-twin", runs / "run-reference", neighbours=tmp_path / "near.png")


def test_what_cannot_be_compared_is_refused(runs, tmp_path):
    evaluate(named_model(), on=runs / "twin", labels="cat,dog", out=tmp_path / "plain", progress=False)
    with pytest.raises(InvalidInput, match=r"plain has no features of a finished model; evaluate again with --feat"):
        shift(tmp_path / "plain", runs / "run-reference")
    with pytest.raises(InvalidInput, match="no model is called 'other' in both runs; there are colours"):
        shift(runs / "run-light", runs / "run-reference", only="other")
    with pytest.raises(InvalidInput, match="--parts must be a whole number, 4 or more, got 3"):
        shift(runs / "run-light", runs / "run-reference", parts=3)
    evaluate(named_model(), on=runs / "twin", labels="cat,dog", out=tmp_path / "bare", features=True, progress=False)
    with pytest.raises(InvalidInput, match="bare has no thumbnails; evaluate again with --thumbnails"):
        shift(tmp_path / "bare", runs / "run-reference", neighbours=tmp_path / "new.png", resamples=5)
    assert not (tmp_path / "new.png").exists()


def test_the_command_prints_rows(runs, cosight):
    done = cosight("shift", runs / "run-light", runs / "run-reference", "--resamples", "5", "--json")
    assert {row["measure"] for row in json.loads(done.out)} == {"accuracy", "frechet_distance"}
    table = cosight("shift", runs / "run-light", runs / "run-reference", "--resamples", "5")
    assert "frechet" in table.out
    assert "colours, without a shift: " in table.out
    assert "(two halves of the reference, 40 and 40 images)" in table.out

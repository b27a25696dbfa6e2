"""Inversions: a model takes them for their target; they are deterministic, resumable and say how far they got."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import torch

from cosight.errors import InvalidInput
from cosight.stimuli.attack_recipe import to_tensor
from cosight.stimuli.descent import DescentSettings
from cosight.stimuli.generate import generate_set
from cosight.stimuli.images import read_image
from cosight.stimuli.inversion import InversionRecipe, NormalNoise, converged_counts, normal_noise, read_targets
from cosight.stimuli.sets import read_set, verify

from .small_networks import SIDE, load, network, write_photos

pytestmark = pytest.mark.usefixtures("one_torch_thread")
QUICK = DescentSettings(steps=60, step_size=0.3, tolerance=0.02)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return write_photos(tmp_path_factory.mktemp("inversion") / "photos", 12)


def recipe_of(photos, *, models=("a",), limit=4, noise=(), **options):
    targets = read_targets([str(photos), *noise], limit=limit)
    return InversionRecipe(targets, models, load, **{"descent": QUICK, "batch": 3, **options})


@pytest.fixture(scope="module")
def inverted(photos, tmp_path_factory):
    """Four targets and two networks: 12 targets and seeds, 16 inversions."""
    recipe = recipe_of(photos, models=("a", "b"))
    return generate_set(recipe, tmp_path_factory.mktemp("sets") / "inverted").stimuli


def rows_of(stimuli, kind="inversion"):
    rows = stimuli.frame.filter(pl.col("kind") == kind).to_dicts()
    return [{**row, "parameters": json.loads(row["parameters"] or "{}")} for row in rows]


def test_the_set_has_targets_seeds_and_results(inverted):
    assert verify(inverted).intact
    counts = dict(inverted.frame["kind"].value_counts().iter_rows())
    assert counts == {"target": 4, "seed-noise": 4, "seed-image": 4, "inversion": 16}
    conditions = set(inverted.frame.filter(pl.col("kind") == "inversion")["condition"])
    assert conditions == {"a noise", "a image", "b noise", "b image"}


def test_the_stored_image_has_the_recorded_distance(inverted):
    pixels = {row["stimulus"]: read_image(inverted.path(row["file"])) for row in inverted.frame.to_dicts()}
    for row in rows_of(inverted):
        facts, model = row["parameters"], load(row["parameters"]["model"])
        with torch.no_grad():
            goal, seed, result = (
                model.features(to_tensor([pixels[digest]]))[0]
                for digest in (row["parent"], facts["seed_stimulus"], row["stimulus"])
            )
        assert float((result - goal).norm() / goal.norm()) == pytest.approx(facts["distance"], abs=1e-5)
        assert float((seed - goal).norm() / goal.norm()) == pytest.approx(facts["start_distance"], abs=1e-5)
        assert facts["distance_before_rounding"] < facts["start_distance"]
        assert facts["start"] in row["condition"]
        assert 0 < facts["steps"] <= 60


def test_inversions_converge_and_are_counted(inverted):
    counts = converged_counts(inverted, 0.1)
    assert {count for _, count, _ in counts.values()} == {4}
    assert sum(converged for converged, _, _ in counts.values()) >= 12
    assert converged_counts(inverted, 0.0)["a noise"][0] == 0


def test_models_start_from_the_same_seeds_and_every_target_has_its_own(inverted):
    seeds = {}
    for row in rows_of(inverted):
        facts = row["parameters"]
        seeds.setdefault((row["parent"], facts["start"]), set()).add(facts["seed_stimulus"])
    assert {len(of_models) for of_models in seeds.values()} == {1}
    assert len({seed for of_models in seeds.values() for seed in of_models}) == 8
    targets = {row["stimulus"] for row in rows_of(inverted, "target")}
    assert not targets & {row["stimulus"] for row in rows_of(inverted, "seed-image")}


def test_another_run_gives_the_same_bytes_and_an_interrupted_one_too(photos, inverted, tmp_path):
    recipe = recipe_of(photos, models=("a", "b"))

    def interrupt(done, total, what):
        if done >= 12:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        generate_set(recipe, tmp_path / "again", progress=interrupt)
    for file in sorted((tmp_path / "again").glob("images/inverted/*/noise/*"))[:1]:
        file.unlink()  # one image of a batch is made again with the whole batch
    resumed = generate_set(recipe, tmp_path / "again")
    assert resumed.present > 0
    assert resumed.stimuli.frame.equals(inverted.frame)


def test_a_model_is_added_to_a_finished_set(photos, tmp_path):
    first = generate_set(recipe_of(photos, starts=("noise",)), tmp_path / "set")
    both = generate_set(recipe_of(photos, models=("a", "b"), starts=("noise",)), tmp_path / "set")
    assert (first.new, both.new, both.present) == (12, 4, 12)
    with pytest.raises(InvalidInput, match="was made with steps 60, got 5"):
        generate_set(recipe_of(photos, starts=("noise",), descent=replace(QUICK, steps=5)), tmp_path / "set")


def test_noise_targets_are_clipped_normal_pixels(photos, tmp_path):
    recipe = recipe_of(photos, noise=("normal:0/1", "normal:.5/2"), limit=2, starts=("noise",))
    made = generate_set(recipe, tmp_path / "noise").stimuli
    kinds = [row["parameters"]["targets"] for row in rows_of(made, "target")]
    assert sorted(kinds) == ["normal:0.5/2", "normal:0.5/2", "normal:0/1", "normal:0/1", "photos", "photos"]
    values = np.concatenate(
        [made.pixels(row["file"]).ravel() for row in rows_of(made, "target") if "normal:0/1" in str(row["parameters"])]
    )
    assert (values == 0).mean() == pytest.approx(0.5, abs=0.05)  # half of N(0, 1) is negative
    assert normal_noise("normal:-1.5/.25") == NormalNoise(-1.5, 0.25)
    for text in ("normal:0/-1", "normal:0/0", "normal:0", "normal:a/1", "normal:nan/1", "normal:0/inf"):
        with pytest.raises(InvalidInput, match="with a positive standard deviation, got"):
            normal_noise(text)


def test_any_layer_can_be_inverted():
    model = network(1)
    images = torch.rand(2, 3, SIDE, SIDE)
    assert model.features(images).shape == (2, 24)
    assert model.with_features("0").features(images).shape == (2, 8 * 7 * 7)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"starts": ("noise", "picture")}, "--seeds must be noise, image or both, got noise,picture"),
        ({"batch": 0}, "--batch must be a whole number, 1 or more, got 0"),
        ({"models": ()}, "needs at least one model"),
    ],
)
def test_options_out_of_range_are_refused(photos, options, words):
    with pytest.raises(InvalidInput, match=words):
        recipe_of(photos, **options)


def test_what_does_not_fit_is_refused_before_anything_is_written(photos, tmp_path):
    write_photos(tmp_path / "large", 3, side=40)
    for recipe, words in (
        (
            recipe_of(tmp_path / "large", starts=("noise",)),
            r"must be 32 x 32, the models' input, .*40 x 40; use --prep",
        ),
        (recipe_of(photos, limit=7), "each of the 7 targets starts from a photo of its own .* has 5"),
        (recipe_of(photos, models=("a", "a")), "models must have different names, got a twice; add name=NAME to one"),
        (InversionRecipe(read_targets(["normal:0/1"], limit=2), ("a",), load), "image seeds need photos"),
    ):
        with pytest.raises(InvalidInput, match=words):
            generate_set(recipe, tmp_path / "out")
    assert not list((tmp_path / "out").glob("images/*")) if (tmp_path / "out").exists() else True
    with pytest.raises(InvalidInput, match="targets are one stimulus set"):
        read_targets([str(photos), str(tmp_path / "large")])


def test_larger_photos_are_prepared(tmp_path):
    write_photos(tmp_path / "large", 3, side=40)
    targets = read_targets([str(tmp_path / "large")], prepare="32x32")
    made = generate_set(
        InversionRecipe(targets, ("a",), load, starts=("noise",), descent=DescentSettings(steps=2)), tmp_path / "set"
    )
    assert {made.stimuli.pixels(file).shape for file in read_set(tmp_path / "set").frame["file"]} == {(SIDE, SIDE, 3)}

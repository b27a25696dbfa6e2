"""What is shown: a stored set, a folder, or photos altered on the way, which are those that a stored set would hold."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Pillow
from polars.testing import assert_frame_equal

from cosight.runs.run_plan import RunPlan, plan_run
from cosight.runs.stimulus_sources import GeneratedStimuli, generated_stimuli, stored_stimuli
from cosight.stimuli.alterations import Alterations, alteration
from cosight.stimuli.generate import StimulusJob, Unit, generate_set
from cosight.stimuli.images import digest, preparation, read_image
from cosight.stimuli.sets import read_set
from cosight.trials.spaces import label_spaces

from .conftest import SUPERCLASSES, draw_images


@pytest.fixture
def photos(tmp_path):
    return draw_images(tmp_path / "photos", 6, shape=(40, 48), seed=2)


def _recipe(photos):
    chosen = (
        alteration("gaussian_noise", severity=3),
        alteration("contrast", severity=2),
        alteration("gaussian_noise", severity=5),
    )
    return Alterations(read_set(photos), chosen, "mine", seed=4, prepare=preparation("36/32"))


def test_a_folder_is_known_by_its_bytes_a_set_by_its_pixels(photos, tmp_path):
    folder = stored_stimuli(read_set(photos))
    path = photos / folder.frame["file"][0]
    assert folder.stamps[0] == hashlib.sha256(path.read_bytes()).hexdigest()
    generate_set(_recipe(photos), tmp_path / "set")
    whole = stored_stimuli(read_set(tmp_path / "set"))
    assert list(whole.stamps) == whole.frame["stimulus"].to_list()


def test_pixels_and_digests_are_those_of_the_files(photos):
    stimuli = stored_stimuli(read_set(photos))
    for row, seen in enumerate(stimuli.load(range(6))):
        pixels = read_image(photos / stimuli.frame["file"][row])
        assert (seen.row, seen.digest, seen.error) == (row, digest(pixels), None)
        np.testing.assert_array_equal(seen.pixels, pixels)
    assert [*stimuli.portions(range(2, 5))] == [range(2, 3), range(3, 4), range(4, 5)]


def test_the_same_pixels_in_another_file_are_another_image_only_in_a_folder(photos, tmp_path):
    generate_set(_recipe(photos), tmp_path / "set")
    for root, changed in ((photos, True), (tmp_path / "set", False)):
        stimuli = stored_stimuli(read_set(root))
        path = root / stimuli.frame["file"][0]
        Pillow.open(path).save(path, compress_level=9)
        (seen,) = stimuli.load(range(1))
        assert (seen.error is not None) == changed
        assert (stored_stimuli(read_set(root)).stamps == stimuli.stamps) != changed


def test_an_image_that_cannot_be_read_leaves_the_others_alone(photos):
    stimuli = stored_stimuli(read_set(photos))
    paths = [photos / file for file in stimuli.frame["file"]]
    paths[1].unlink()
    paths[2].write_bytes(b"no image")
    paths[3].unlink()
    paths[3].symlink_to(paths[3].name)  # to itself
    Pillow.new("RGB", (40, 40)).save(paths[4])
    seen = [*stimuli.load(range(6))]
    assert [one.error is None for one in seen] == [True, False, False, False, False, True]
    assert all(paths[row].name in str(seen[row].error) for row in range(1, 5))
    assert all(seen[row].pixels is None for row in range(1, 5))


@pytest.mark.parametrize("kind", ["png", "jpeg"])
def test_on_the_way_is_what_a_stored_set_holds(photos, tmp_path, kind):
    """Digests, seeds, parents, places and pixels, for every row of the manifest."""
    recipe = _recipe(photos)
    generate_set(recipe, tmp_path / "set", format=kind)
    whole = read_set(tmp_path / "set")
    stimuli = generated_stimuli(recipe, format=kind)
    seen = [*stimuli.load(range(18))]
    names = pl.Series("stimulus", [one.digest for one in seen], dtype=pl.String)
    learnt = stimuli.frame.with_columns(names)
    assert_frame_equal(learnt.sort("file"), whole.frame.sort("file"), check_column_order=False)
    for one in seen:
        np.testing.assert_array_equal(one.pixels, whole.pixels(stimuli.frame["file"][one.row]))
    assert stimuli.frame["stimulus"].null_count() == 18  # known only when they were made
    assert stimuli.settings == {**recipe.settings, "format": kind}


def test_photos_with_a_manifest_are_not_read_to_know_them(photos, tmp_path, monkeypatch):
    generate_set(_recipe(photos), tmp_path / "set")
    recipe = replace(_recipe(photos), sources=read_set(tmp_path / "set"))
    by_pixels = generated_stimuli(recipe).frame
    monkeypatch.setattr("cosight.stimuli.sets.read_image", None)
    assert_frame_equal(generated_stimuli(recipe).frame, by_pixels)


def test_a_benchmark_on_the_way_is_the_set_that_the_command_makes(cosight, tmp_path):
    photos = draw_images(tmp_path / "photos", 16, shape=(64, 80), seed=2, classes=SUPERCLASSES)
    assert cosight("stimuli", "distort", photos, tmp_path / "set", "--limit", 3, "--workers", 1).code == 0
    whole = read_set(tmp_path / "set").frame
    plan = plan_run(
        "laion-c", tmp_path / "run", source=photos, labels=None, how="mean", features=False, limit=3, seed=0,
        tiles=None, format="png", batch=32,
    )  # fmt: skip
    rows = plan.stimuli.frame.height
    found = plan.stimuli.frame.with_columns(stimulus=pl.Series([one.digest for one in plan.stimuli.load(range(rows))]))
    distorted = found.filter(pl.col("condition") != "clean")
    assert rows - distorted.height == 3  # the photos themselves
    assert distorted.height == whole.height == 3 * 6 * 5  # photos, distortions, levels
    key = ["condition", "level", "truth"]
    assert_frame_equal(distorted.drop("file").sort(key), whole.drop("file").sort(key), check_column_order=False)


def test_a_photo_that_cannot_be_read_is_all_its_rows(photos):
    recipe = _recipe(photos)
    path = photos / recipe.sources.frame["file"][1]
    path.write_bytes(b"no image")
    seen = [*generated_stimuli(recipe).load(range(18))]
    assert [one.row for one in seen if one.error] == [3, 4, 5]
    assert all(path.name in str(one.error) for one in seen[3:6])


def test_a_photo_that_the_system_cannot_open_is_told_too(photos):
    recipe = _recipe(photos)
    path = photos / recipe.sources.frame["file"][1]
    path.unlink()
    path.symlink_to(path.name)  # to itself: neither there nor absent
    seen = [*generated_stimuli(recipe).load(range(18))]
    assert [one.row for one in seen if one.error] == [3, 4, 5]
    assert path.name in str(seen[3].error)


def test_a_photo_that_changes_after_it_was_listed_is_refused(photos):
    recipe = _recipe(photos)
    stimuli = generated_stimuli(recipe)
    Pillow.new("RGB", (48, 40), "red").save(photos / recipe.sources.frame["file"][0])
    assert [one.error is None for one in stimuli.load(range(4))] == [False, False, False, True]


def test_stamps_on_the_way_follow_the_photo_and_what_is_made_of_it(photos):
    recipe, before = _recipe(photos), generated_stimuli(_recipe(photos)).stamps
    assert generated_stimuli(recipe).stamps == before
    assert not set(generated_stimuli(recipe, format="jpeg").stamps) & set(before)
    assert not set(generated_stimuli(replace(recipe, prepare=None)).stamps) & set(before)
    Pillow.new("RGB", (48, 40), "red").save(photos / recipe.sources.frame["file"][0])
    after = generated_stimuli(recipe).stamps
    assert [one == two for one, two in zip(before, after, strict=True)] == [False] * 3 + [True] * 15


def test_another_seed_is_another_key(photos):
    """Seeds are in the rows, as a stored set has them."""
    plans = [
        RunPlan(generated_stimuli(replace(_recipe(photos), seed=seed)), label_spaces["cifar-10"]) for seed in (4, 5)
    ]
    assert plans[0].key({}, plans[0].shards[0]) != plans[1].key({}, plans[1].shards[0])


@given(st.integers(1, 7), st.integers(1, 9), st.data())
def test_portions_are_of_one_photo_and_cover_the_rows(each, photos, data):
    start = data.draw(st.integers(0, each * photos))
    rows = range(start, data.draw(st.integers(start, each * photos)))
    recipe = Alterations(None, (alteration("contrast", severity=1),) * each)
    unit = Unit("a", "b", (StimulusJob("c"),) * each)
    found = [*GeneratedStimuli(recipe, "png", (unit,) * photos, pl.DataFrame(), ()).portions(rows)]
    assert [row for part in found for row in part] == [*rows]
    assert all(len({row // each for row in part}) == 1 for part in found)


def test_rows_are_the_same_however_they_are_asked_for(photos):
    stimuli = generated_stimuli(_recipe(photos))
    whole = [one.digest for one in stimuli.load(range(18))]
    for rows in (range(4, 11), range(2, 3), range(17, 18)):
        assert [one.digest for one in stimuli.load(rows)] == whole[rows.start : rows.stop]


def test_places_are_relative_to_the_set(photos):
    stimuli = generated_stimuli(_recipe(photos))
    assert not any(Path(file).is_absolute() for file in stimuli.frame["file"])
    assert stimuli.folder == photos

"""Masks, backgrounds, pasting, cuts, hybrids and plans of composites."""

from __future__ import annotations

import re
from itertools import product

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosight.benchmarks.visalign.class_facts import read_class_facts
from cosight.benchmarks.visalign.composites import COMPOSITE_SCHEMA, make_composite, plan_composites
from cosight.benchmarks.visalign.cutouts import Cutter, RejectedObject
from cosight.errors import InvalidInput
from cosight.stimuli.composition.compositing import PLAIN_BACKGROUNDS, crop_to_cover, paste, plain_background
from cosight.stimuli.composition.hybrids import SPLITS, hybrid, join_pictures, minimum_error_cut
from cosight.stimuli.composition.masks import check_mask, foreground_mask, read_mask
from cosight.stimuli.images import encode


def rng(seed=0):
    return np.random.default_rng(seed)


def disc(height=160, width=200, *, centre=(100, 80), axes=(50, 35), colour=(200, 120, 40)):
    """A textured ellipse on a green meadow, and where it is."""
    noise = rng(1).normal(0, 12, (height, width, 1))
    mask = cv2.ellipse(np.zeros((height, width), np.uint8), centre, axes, 0, 0, 360, 255, -1) > 0
    image = np.where(mask[:, :, None], np.array(colour), np.array((60, 130, 60))) + noise
    return np.clip(image, 0, 255).astype(np.uint8), mask


def overlap(a, b):
    return (a & b).sum() / (a | b).sum()


# --- masks


@pytest.mark.parametrize("shape", [(160, 200), (500, 375), (33, 97), (64, 64)])
def test_a_plain_object_is_found(shape):
    height, width = shape
    image, truth = disc(height, width, centre=(width // 2, height // 2), axes=(width // 4, height // 4))
    foreground = foreground_mask(image)
    assert foreground.mask.shape == shape
    assert overlap(foreground.mask, truth) > 0.85
    assert foreground.share == pytest.approx(truth.mean(), rel=0.15)
    assert foreground.border == 0
    assert not foreground.doubtful


def test_the_flower_is_found_the_same_each_time_and_on_floats(photos):
    flower = photos[1]
    cv2.setRNGSeed(99)
    first = foreground_mask(flower)
    assert first.mask[150:260, 230:330].mean() > 0.9  # the flower's heart
    assert not first.doubtful
    np.testing.assert_array_equal(foreground_mask(flower).mask, first.mask)
    assert overlap(foreground_mask(flower.astype(np.float32) / 255).mask, first.mask) > 0.99


def test_the_number_of_threads_does_not_change_a_mask(squares):
    threads = cv2.getNumThreads()
    try:
        cv2.setNumThreads(1)
        alone = foreground_mask(squares[1]).mask
        cv2.setNumThreads(4)
        np.testing.assert_array_equal(foreground_mask(squares[1]).mask, alone)
    finally:
        cv2.setNumThreads(threads)


def test_an_object_that_leaves_the_photo_touches_the_edge():
    image, truth = disc(centre=(100, 150), axes=(50, 60))
    foreground = foreground_mask(image)
    assert overlap(foreground.mask, truth) > 0.8
    assert foreground.mask[-1].any()
    assert foreground.border > 0


def test_no_object_no_mask():
    with pytest.raises(InvalidInput, match=r"a found object fills 4% to 80%.*give a mask, or another photo"):
        foreground_mask(np.full((100, 100, 3), 90, np.uint8))


@pytest.mark.parametrize(
    ("colour", "noise", "doubtful"),
    [
        pytest.param((140, 130, 60), 12, False, marks=pytest.mark.slow),
        ((140, 130, 60), 25, False),
        pytest.param((110, 130, 70), 40, True, marks=pytest.mark.slow),
        ((90, 140, 70), 25, True),
    ],
)
def test_camouflage_is_doubtful(colour, noise, doubtful):
    image, truth = disc(colour=colour)
    image = np.clip(image + rng(2).normal(0, noise, image.shape), 0, 255).astype(np.uint8)
    foreground = foreground_mask(image)
    assert foreground.doubtful == doubtful == (overlap(foreground.mask, truth) < 0.6)


@pytest.mark.parametrize("mask", [np.ones((4, 5), bool), np.full((4, 5), 200, np.uint8), np.full((4, 5), 0.9)])
def test_masks_of_each_type_are_taken(mask):
    assert check_mask(mask, (4, 5, 3)).all()


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (np.ones((5, 4), bool), "height and width, (4, 5), got (5, 4)"),
        (np.ones((4, 5), np.int32), "got int32"),
        (np.zeros((4, 5), np.uint8), "must mark something"),
    ],
)
def test_bad_masks_are_named(mask, message):
    with pytest.raises(InvalidInput, match=re.escape(message)):
        check_mask(mask, (4, 5, 3))


def test_a_mask_lies_beside_its_photo(tmp_path):
    _, truth = disc()
    assert read_mask(tmp_path / "a.jpg") is None
    (tmp_path / "a.mask.png").write_bytes(encode(truth.astype(np.uint8) * 255, "png"))
    np.testing.assert_array_equal(check_mask(read_mask(tmp_path / "a.jpg"), truth.shape), truth)


# --- backgrounds


@pytest.mark.parametrize("name", PLAIN_BACKGROUNDS)
def test_grounds_have_their_size(name):
    ground = plain_background(name, height=50, width=70, rng=rng())
    assert ground.shape == (50, 70, 3)
    assert ground.dtype == np.uint8


def test_grounds_look_like_their_names():
    made = {name: plain_background(name, height=210, width=64, rng=rng()) for name in PLAIN_BACKGROUNDS}
    assert made["purple"][5, 5].tolist() == [128, 0, 128]  # CSS purple
    assert made["static"].std() == pytest.approx(255 / 12**0.5, rel=0.05)  # uniform noise
    top, bottom = made["rainbow"][0, 0], made["rainbow"][-1, 0]
    assert np.argmax(top) == 0
    assert np.argmax(bottom) == 2
    with pytest.raises(InvalidInput, match=r"a background is one of purple, .*got 'plaid'"):
        plain_background("plaid", height=50, width=50, rng=rng())


def test_fitting_cuts_the_middle():
    image = np.zeros((40, 100, 3), np.uint8)
    image[:, 30:70] = 200
    assert (crop_to_cover(image, height=80, width=80) == 200).all()
    assert crop_to_cover(image[:, :, 0], height=33, width=90).shape == (33, 90, 3)


# --- pasting


@given(seed=st.integers(0, 2**32 - 1), height=st.integers(48, 200), width=st.integers(48, 200))
def test_the_whole_object_is_inside_with_its_share(seed, height, width):
    image, mask = disc()
    ground = np.full((height, width, 3), (10, 10, 250), np.uint8)
    picture = paste(image, mask, ground, rng=rng(seed), match=0, share=(0.2, 0.2))
    object_pixels = picture[:, :, 0] > 90
    assert picture.shape == ground.shape
    fits = min(0.94 * height / np.ptp(np.nonzero(mask)[0]), 0.94 * width / np.ptp(np.nonzero(mask)[1]))
    wanted = min(0.2, fits**2 * mask.sum() / (height * width))
    assert object_pixels.mean() == pytest.approx(wanted, rel=0.2)
    assert not object_pixels[[0, -1]].any()
    assert not object_pixels[:, [0, -1]].any()


def test_pasting_keeps_colours_inside_and_the_ground_outside():
    image, mask = disc(colour=(200, 120, 40))
    ground = np.full((256, 256, 3), (10, 10, 250), np.uint8)
    picture = paste(image, mask, ground, rng=rng(3), match=0).astype(int)
    mixed = (picture[:, :, 0] - 10) / 190
    meadow = picture[:, :, 1] > np.maximum(picture[:, :, 0], picture[:, :, 2]) + 5
    assert not meadow.any()  # nothing of the old green ground shines through the edge
    assert ((mixed > 0.2) & (mixed < 0.8)).any()  # a soft outline
    hard = paste(image, mask, ground, rng=rng(3), match=0, feather=0)
    assert (hard != picture).any()


def test_an_object_cut_by_its_photo_stands_at_that_edge():
    image, mask = disc(centre=(0, 159), axes=(90, 90))
    ground = np.zeros((200, 200, 3), np.uint8)
    for seed in range(5):
        shown = paste(image, mask, ground, rng=rng(seed), match=0)[:, :, 0] > 100
        assert shown[-1, :20].all()
        assert shown[-20:, 0].all()


def test_matching_moves_the_object_towards_its_ground():
    image, mask = disc(colour=(200, 200, 200))
    night = np.full((200, 200, 3), 15, np.uint8)
    means = [paste(image, mask, night, rng=rng(1), match=match).mean() for match in (0, 0.2, 0.6)]
    assert means[0] > means[1] > means[2] > 15


def test_pasting_depends_on_the_generator_alone_and_leaves_its_input(squares):
    image, mask = disc()
    before = image.copy(), squares[0].copy()
    first = paste(image, mask, squares[0], rng=rng(1))
    np.testing.assert_array_equal(paste(image, mask, squares[0], rng=rng(1)), first)
    assert (paste(image, mask, squares[0], rng=rng(2)) != first).any()
    np.testing.assert_array_equal(image, before[0])
    np.testing.assert_array_equal(squares[0], before[1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"share": (0.4, 0.2)}, "within (0, 1], got 0.4 to 0.2"),
        ({"feather": -1}, "[0, 10] pixels, got -1"),
        ({"match": 2}, "match must lie in [0, 1], got 2"),
    ],
)
def test_bad_pastes_are_named(squares, options, message):
    image, mask = disc()
    with pytest.raises(InvalidInput, match=re.escape(message)):
        paste(image, mask, squares[0], rng=rng(), **options)


# --- cuts


@given(st.integers(0, 10**6))
def test_the_seam_costs_least_of_all_connected_paths(seed):
    cost = rng(seed).random((5, 6)).astype(np.float32)
    paths = [p for p in product(range(1, 5), repeat=5) if max(abs(np.diff(p))) <= 1]
    best = min(sum(cost[row, column] for row, column in enumerate(path)) for path in paths)
    path = minimum_error_cut(cost, low=1, high=5)
    assert np.abs(np.diff(path)).max() <= 1
    assert path.min() >= 1
    assert path.max() < 5
    assert cost[np.arange(5), path].sum() == pytest.approx(best, abs=1e-6)


def test_joining_one_picture_to_itself_changes_nothing(squares):
    side = np.zeros((224, 224), bool)
    side[:, :100] = True
    for blend in ("feather", "poisson"):
        same = join_pictures(squares[0], squares[0], side, blend=blend)
        assert np.abs(same.astype(int) - squares[0]).max() <= 1


def test_poisson_closes_the_step_that_feathering_leaves():
    dark, light = (np.full((100, 120, 3), value, np.uint8) for value in (80, 160))
    side = np.zeros((100, 120), bool)
    side[:, :60] = True
    feather, poisson = (
        join_pictures(dark, light, side, blend=blend)[50, :, 0].astype(int) for blend in ("feather", "poisson")
    )
    assert np.abs(np.diff(poisson)).max() < 0.5 * np.abs(np.diff(feather)).max()
    assert abs(poisson[55] - poisson[64]) < 30 < abs(feather[55] - feather[64])
    assert poisson[0] < 90  # far from the seam each part keeps its own colour
    assert poisson[-1] > 150


# --- hybrids


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("blend", ["feather", "poisson"])
def test_a_hybrid_shows_both(split, blend):
    red, one = disc(colour=(210, 60, 50))
    blue, two = disc(120, 120, centre=(40, 70), axes=(25, 30), colour=(50, 60, 210))
    picture = hybrid(red, blue, rng=rng(0), masks=(one, two), split=split, blend=blend).astype(int)
    assert picture.shape == red.shape
    first, rest = (
        (picture[80, 65], picture[80, 135]) if split == "left-right" else (picture[52, 100], picture[105, 100])
    )
    assert first[0] > first[2] + 40
    assert rest[2] > rest[0] + 40


def test_a_hybrid_on_a_ground_has_no_old_ground():
    red, one = disc(colour=(210, 60, 50))
    blue, two = disc(colour=(50, 60, 210), axes=(40, 40))
    white = np.full((128, 160, 3), 255, np.uint8)
    picture = hybrid(red, blue, rng=rng(2), masks=(one, two), background=white).astype(int)
    assert picture.shape == white.shape
    assert not (picture[:, :, 1] > np.maximum(picture[:, :, 0], picture[:, :, 2]) + 10).any()  # no green meadow
    assert (picture[:, :, 0] > picture[:, :, 2] + 60).sum() > 300
    assert (picture[:, :, 2] > picture[:, :, 0] + 60).sum() > 300


def test_hybrids_without_masks_join_whole_photos(photos):
    first = hybrid(photos[0], photos[1], rng=rng(4))
    assert first.shape == photos[0].shape
    np.testing.assert_array_equal(first[:, :150], photos[0][:, :150])
    np.testing.assert_array_equal(hybrid(photos[0], photos[1], rng=rng(4)), first)
    grey = hybrid(photos[0][:33, :97, 0], photos[1][:, :, 0], rng=rng(4), split="head-body")
    assert grey.shape == (33, 97, 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "diagonal"}, "split must be left-right or head-body, got 'diagonal'"),
        ({"blend": "glue"}, "blend must be feather or poisson, got 'glue'"),
        ({"background": np.zeros((64, 64, 3), np.uint8)}, "needs masks of both photos"),
    ],
)
def test_bad_hybrids_are_named(squares, options, message):
    with pytest.raises(InvalidInput, match=re.escape(message)):
        hybrid(*squares, rng=rng(), **options)


# --- plans

CUTTER = Cutter(read_class_facts().space)
SOURCES = {"tiger": ["t1", "t2", "t3"], "zebra": ["z1", "z2"], "bear": ["b1"]}
PHOTOS = {
    name: disc(colour=colour)[0]
    for name, colour in {"t1": (230, 120, 20), "t2": (240, 140, 20), "z1": (120, 120, 170), "b1": (70, 40, 20)}.items()
} | {"snow": np.full((64, 96, 3), 240, np.uint8)}


@pytest.mark.parametrize("category", [2, 5])
def test_plans_are_balanced_and_begin_alike(category):
    others = {"eagle": ["e1"]} if category == 5 else None
    table = plan_composites(category, SOURCES, count=36, seed=1, others=others)
    assert dict(table.schema) == COMPOSITE_SCHEMA
    assert set(table["original"].value_counts()["count"]) == {12}
    assert table["seed"].n_unique() == 36
    assert table.head(11).equals(plan_composites(category, SOURCES, count=11, seed=1, others=others))
    assert not table.equals(plan_composites(category, SOURCES, count=36, seed=2, others=others))
    assert set(table["truth"]) == (set(SOURCES) if category == 2 else {"abstain"})


def test_no_pair_comes_twice_before_all():
    zebras = plan_composites(2, SOURCES, count=36, seed=1).filter(original="zebra")
    assert zebras.select("source", "background").n_unique() == 2 * len(PLAIN_BACKGROUNDS)
    pairs = plan_composites(5, SOURCES, count=36, seed=1, others={"eagle": ["e1"]})
    assert pairs.filter(original="tiger").head(9).select("source", "other").n_unique() == 9
    assert not pairs.filter(original=pairs["other"]).height
    assert pairs["split"].value_counts()["count"].to_list() == [18, 18]


@pytest.mark.parametrize("category", [2, 5])
def test_rows_become_images(category):
    sources = {"tiger": ["t1", "t2"], "zebra": ["z1"], "bear": ["b1"]}
    for row in plan_composites(category, sources, count=3, seed=0, backgrounds=["red", "snow"]).iter_rows(named=True):
        picture = make_composite(row, PHOTOS.__getitem__, CUTTER, size=96).pixels
        assert picture.shape == (96, 96, 3)
        np.testing.assert_array_equal(make_composite(row, PHOTOS.__getitem__, CUTTER, size=96).pixels, picture)
        ground = (255, 0, 0) if row["background"] == "red" else (240, 240, 240)
        assert np.abs(picture[1, 1].astype(int) - ground).max() <= 2
        assert 0.05 < (np.abs(picture.astype(int) - ground).max(axis=2) > 12).mean() < 0.5


def test_a_given_mask_is_used_and_a_doubtful_one_refused():
    blurred = cv2.GaussianBlur(rng(0).integers(0, 255, (120, 160, 3), np.uint8), (0, 0), 2)
    row = plan_composites(2, {"tiger": ["x.jpg"]}, count=1, seed=0, backgrounds=["red"]).row(0, named=True)
    with pytest.raises(RejectedObject, match=r"^x\.jpg: (the object does not stand out|a found object fills)"):
        make_composite(row, lambda file: blurred, CUTTER, size=96)
    given_mask = np.zeros((120, 160), bool)
    given_mask[40:80, 50:110] = True
    picture = make_composite(row, lambda file: blurred, CUTTER, mask=lambda file: given_mask, size=96).pixels
    assert (picture[:, :, 1] > 20).mean() > 0.1
    with pytest.raises(InvalidInput, match=r"x\.jpg: a mask has its photo's height"):
        make_composite(row, lambda file: blurred, CUTTER, mask=lambda file: given_mask[1:], size=96)


@pytest.mark.parametrize(
    ("category", "sources", "options", "message"),
    [
        (4, SOURCES, {}, "category 2 or 5, got 4"),
        (2, {}, {}, "at least one photo, got none for any class"),
        (2, {"tiger": []}, {}, "got none for tiger"),
        (5, {"tiger": ["a"]}, {}, "two kinds of animals, got tiger"),
        (5, SOURCES, {"others": {"bear": ["a"]}}, "outside the classes, got bear"),
        (2, SOURCES, {"backgrounds": []}, "must be a background"),
        (2, SOURCES, {"count": 0}, "count must be at least 1"),
    ],
)
def test_bad_plans_are_named(category, sources, options, message):
    with pytest.raises(InvalidInput, match=re.escape(message)):
        plan_composites(category, sources, **({"count": 3, "seed": 0} | options))


def test_a_prompt_row_is_no_composite():
    with pytest.raises(InvalidInput, match="route composite, got 'text'"):
        make_composite({"route": "text"}, PHOTOS.__getitem__, CUTTER)

"""Crops, mirrors and views: where they come from, and torchvision's as reference."""

import numpy as np
import pytest

from cosight.models.preprocessing import Preprocessing, crop_fraction, preprocess
from cosight.torchvision_ops import import_torchvision
from cosight.training.augment import (
    crop_and_flip,
    crop_draws,
    image_order,
    random_view,
    resize_short_side,
    two_views,
)


def picture(height=40, width=50, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


@pytest.mark.parametrize("shape", [(40, 50), (50, 40), (64, 64), (33, 97)])
def test_shrinking_and_validation_are_torchvisions(shape):
    import_torchvision()
    from PIL import Image
    from torchvision.transforms import CenterCrop, Resize

    image = picture(*shape)
    theirs = Resize(36)(Image.fromarray(image))
    ours = resize_short_side(image, 36, "bilinear")
    np.testing.assert_array_equal(ours, np.array(theirs))
    own = Preprocessing((32, 32), interpolation="bilinear", crop=crop_fraction(32, 36))
    cut = np.array(CenterCrop(32)(theirs)).transpose(2, 0, 1)
    np.testing.assert_array_equal(np.rint(preprocess(ours, own) * 255), cut)
    np.testing.assert_array_equal(preprocess(ours, own), preprocess(image, own))  # as the finished model sees it


def test_crops_reach_every_place_and_are_mirrored_half_of_the_time():
    image = np.arange(6 * 6 * 3, dtype=np.uint8).reshape(6, 6, 3)
    seen, mirrored = set(), 0
    for drawn in crop_draws(1, 0, 4000):
        cut = crop_and_flip(image, drawn, size=(4, 4), padding=1, flip=True)
        assert cut.shape == (4, 4, 3)
        mirrored += drawn[2] < 0.5
        plain = cut[:, ::-1] if drawn[2] < 0.5 else cut
        padded = np.pad(image, ((1, 1), (1, 1), (0, 0)))
        places = [(y, x) for y in range(5) for x in range(5) if np.array_equal(padded[y : y + 4, x : x + 4], plain)]
        seen.add(places[0])
    assert len(seen) == 25  # torchvision's RandomCrop(4, padding=1) has the same 25
    assert abs(mirrored / 4000 - 0.5) < 0.05


def test_no_padding_and_no_flip_of_the_right_size_change_nothing():
    image = picture(32, 32)
    for drawn in crop_draws(1, 0, 20):
        np.testing.assert_array_equal(crop_and_flip(image, drawn, size=(32, 32), padding=0, flip=False), image)


def test_everything_follows_from_seed_epoch_and_image():
    assert sorted(image_order(45, 3, 10)) == list(range(10))
    assert image_order(45, 3, 50).tolist() == image_order(45, 3, 50).tolist() != image_order(45, 4, 50).tolist()
    assert (crop_draws(45, 3, 5) == crop_draws(45, 3, 5)).all()
    assert not (crop_draws(45, 3, 5) == crop_draws(46, 3, 5)).any()
    same = {"seed": 45, "epoch": 1, "number": 2, "size": (32, 32), "flip": True}
    first, second = two_views(picture(), **same)
    again = two_views(picture(), **same)
    np.testing.assert_array_equal(first, again[0])
    np.testing.assert_array_equal(second, again[1])
    assert not np.array_equal(first, second)
    assert not np.array_equal(first, two_views(picture(), **{**same, "number": 3})[0])
    assert not np.array_equal(first, two_views(picture(), **{**same, "epoch": 0})[0])


def test_views_are_images_and_some_are_grey():
    image = picture(64, 80)
    views = [random_view(image, np.random.default_rng(seed), size=(32, 32), flip=True) for seed in range(200)]
    assert {(v.shape, v.dtype.name) for v in views} == {((32, 32, 3), "uint8")}
    grey = np.mean([(np.ptp(v.astype(int), axis=2) <= 1).all() for v in views])
    assert 0.1 < grey < 0.3  # .2 by SimCLR's recipe

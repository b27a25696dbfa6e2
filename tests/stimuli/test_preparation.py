"""Preparations of source images, compared with torchvision on Pillow images."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Pillow

from cosight.errors import InvalidInput
from cosight.stimuli.images import Preparation, preparation
from cosight.torchvision_ops import import_torchvision


@pytest.fixture(scope="module")
def transforms():
    """torchvision's transforms."""
    pytest.importorskip("torch")
    import_torchvision()
    return pytest.importorskip("torchvision.transforms")


def noise(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


@pytest.mark.parametrize("text", ["none", "256x256", "320x240", "256/224", "224/224"])
def test_text_survives(text):
    ready = preparation(text)
    assert str(ready) == text
    assert repr(ready) == f"preparation({text!r})"
    assert pickle.loads(pickle.dumps(ready)) == ready == preparation(text)
    assert hash(ready) == hash(preparation(text))


@given(st.integers(32, 8192), st.integers(32, 8192))
def test_every_size_survives_as_text(first, second):
    assert str(preparation(f"{first}x{second}")) == f"{first}x{second}"
    short, crop = max(first, second), min(first, second)
    assert str(preparation(f"{short}/{crop}")) == f"{short}/{crop}"


@pytest.mark.parametrize(
    "text", ["", "None", "256", "256 x 256", "256X256", "256x", "-5x9", "256/224/1", "\u0665\u0666x\u0665\u0666"]
)
def test_other_texts_are_refused_with_the_three_forms(text):
    with pytest.raises(InvalidInput, match=r"none, WIDTHxHEIGHT \(256x256\) or SHORT/CROP \(256/224\), got"):
        preparation(text)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("31x256", "sides are 32 to 8192 pixels"),
        ("256/0", "sides are 32 to 8192 pixels"),
        ("256x99999999999999999999", "a preparation is none, WIDTHxHEIGHT"),
        ("224/256", "the crop must fit into the short side, got '224/256'; try 256/224"),
    ],
)
def test_sizes_that_cannot_be(text, rule):
    with pytest.raises(InvalidInput, match=rule):
        preparation(text)


def test_none_changes_nothing(photos):
    ready = preparation("none")
    assert ready == Preparation()
    assert np.array_equal(ready(photos[0]), photos[0])
    assert ready(photos[0][:, ::2]).flags.c_contiguous


@pytest.mark.parametrize("text", ["320x240", "256/224"])
@pytest.mark.parametrize("shape", [(40, 40), (427, 640), (33, 97), (1, 1), (60, 1), (5, 5, 3), (427, 640, 3)])
def test_results_are_contiguous_bytes_of_the_size_asked_for(text, shape):
    source = noise(*shape)
    kept = source.copy()
    result = preparation(text)(source)
    assert result.shape == ((240, 320) if "x" in text else (224, 224)) + shape[2:]
    assert result.dtype == np.uint8
    assert result.flags.c_contiguous
    assert result.flags.writeable
    assert np.array_equal(source, kept)


def test_stretching_is_pillows_antialiased_bilinear_filter(photos):
    expected = np.array(Pillow.fromarray(photos[0]).resize((256, 200), Pillow.Resampling.BILINEAR))
    assert np.array_equal(preparation("256x200")(photos[0]), expected)


def test_scaling_down_is_antialiased():
    stripes = np.tile(np.array([0, 255], np.uint8), (384, 192))
    assert np.ptp(preparation("64x64")(stripes)[:, 2:-2].astype(int)) <= 1  # an even grey, no stripes


# Odd and even differences, halves that round to even (256 + 1 - 224 = 33), wide, tall, square, smaller than the crop.
SIZES = [(256, 256), (257, 256), (500, 375), (375, 500), (333, 500), (427, 640), (97, 33), (64, 64), (1200, 257)]


@pytest.mark.parametrize("channels", [(), (3,)])
@pytest.mark.parametrize("shape", SIZES)
@pytest.mark.parametrize(("short", "crop"), [(256, 224), (255, 224), (232, 224), (64, 64)])
def test_scale_and_crop_is_torchvisions(transforms, shape, channels, short, crop):
    source = noise(*shape, *channels)
    models = transforms.Compose([transforms.Resize(short), transforms.CenterCrop(crop)])
    assert np.array_equal(preparation(f"{short}/{crop}")(source), np.array(models(Pillow.fromarray(source))))


@pytest.mark.parametrize("size", [(256, 256), (320, 200)])
def test_stretching_is_torchvisions(transforms, photos, size):
    models = transforms.Resize((size[1], size[0]))
    ready = preparation(f"{size[0]}x{size[1]}")
    assert np.array_equal(ready(photos[0]), np.array(models(Pillow.fromarray(photos[0]))))


def test_a_sliver_is_not_scaled_by_its_short_side():
    with pytest.raises(InvalidInput, match="at most 64 times as long, got 2 x 5000; crop it first"):
        preparation("256/224")(noise(5000, 2, 3))


@pytest.mark.parametrize(
    "bad", [np.zeros((40, 40)), np.zeros((40, 40, 4), np.uint8), np.zeros((2, 40, 40, 3), np.uint8)]
)
@pytest.mark.parametrize("text", ["none", "256x256", "256/224"])
def test_what_is_no_8_bit_image_is_refused(bad, text):
    with pytest.raises(InvalidInput, match="a source is 8-bit RGB or grey"):
        preparation(text)(bad)

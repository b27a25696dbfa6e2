"""What a model sees of a photo is, to the pixel, what timm's own evaluation shows it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from cosight.errors import InvalidInput
from cosight.models import Preprocessing, resize_and_crop
from cosight.models.preprocessing import crop_fraction
from cosight.torchvision_ops import import_torchvision


def photo(height, width, seed=0):
    noise = np.random.default_rng(seed).integers(0, 256, (height // 8 + 1, width // 8 + 1, 3), dtype=np.uint8)
    return np.array(Image.fromarray(noise).resize((width, height)))


@pytest.mark.parametrize("mode", ["center", "squash"])
@pytest.mark.parametrize("interpolation", ["bicubic", "bilinear"])
@pytest.mark.parametrize(("height", "width"), [(427, 640), (640, 427), (375, 500), (333, 97), (224, 224), (40, 33)])
@pytest.mark.parametrize(("size", "crop"), [(224, 0.875), (97, 0.95), (64, 1.0)])
def test_pixels_are_those_of_timm(height, width, interpolation, size, crop, mode):
    import_torchvision()
    from timm.data import create_transform

    transform = create_transform(
        (3, size, size), interpolation=interpolation, crop_pct=crop, crop_mode=mode, mean=(0,) * 3, std=(1,) * 3
    )
    image = photo(height, width)
    expected = (transform(Image.fromarray(image)) * 255).round().byte().permute(1, 2, 0).numpy()
    preprocessing = Preprocessing((size, size), interpolation=interpolation, crop=crop, crop_mode=mode)
    assert np.array_equal(resize_and_crop(image, preprocessing), expected)


@pytest.mark.parametrize("shape", [(50, 80), (50, 80, 1), (50, 80, 3), (90, 33, 3)])
def test_any_size_grey_or_not_and_a_wide_input(shape):
    image = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    kept = image.copy()
    out = resize_and_crop(image, Preprocessing((32, 64), crop=0.9))
    assert out.shape == (32, 64, 3)
    assert out.dtype == np.uint8
    assert np.array_equal(image, kept)


def test_an_image_of_the_right_size_is_left_alone():
    image = photo(32, 32)
    assert np.array_equal(resize_and_crop(image, Preprocessing((32, 32))), image)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": (0, 3)}, "size must be"),
        ({"mean": (0.5,)}, "one number per channel"),
        ({"std": (0.5, 0.5, 0.0)}, "std must be positive"),
        ({"interpolation": "cubic"}, "interpolation must be one of nearest, bilinear, bicubic, lanczos, got 'cubic'"),
        ({"crop": 1.5}, r"crop must be in \[0.01, 1\]"),
        ({"crop": 1e-9}, r"crop must be in \[0.01, 1\]"),
        ({"crop_mode": "border"}, "crop mode must be center or squash, got 'border'"),
    ],
)
def test_bad_settings_are_named(change, message):
    with pytest.raises(InvalidInput, match=message):
        Preprocessing(**({"size": (32, 32)} | change))


@given(st.integers(1, 600), st.integers(0, 300))
def test_crop_fraction_leads_back_to_the_size(size, more):
    assert int(size / crop_fraction(size, size + more)) == size + more


def test_resize_is_at_least_the_input():
    with pytest.raises(InvalidInput, match="at least the network's input of 224, got 200"):
        crop_fraction(224, 200)

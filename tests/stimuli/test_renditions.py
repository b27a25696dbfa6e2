"""Photos redrawn in other styles."""

import cv2
import numpy as np
import pytest

from cosight.errors import InvalidInput
from cosight.stimuli.composition.renditions import NEEDS_MASK, RENDITIONS, render

every_style = pytest.mark.parametrize("style", list(RENDITIONS))


@pytest.fixture(scope="module")
def flower(photos):
    """A photo, and the mask of an ellipse in it."""
    image = cv2.resize(photos[1], (160, 120), interpolation=cv2.INTER_AREA)
    return image, cv2.ellipse(np.zeros((120, 160), np.uint8), (70, 60), (30, 40), 0, 0, 360, 255, -1)


def drawn(flower, style, seed=0, masked=True):
    return render(flower[0], style, rng=np.random.default_rng(seed), mask=flower[1] if masked else None)


@every_style
def test_a_style_redraws_the_whole_photo_the_same_each_time(flower, style):
    before = flower[0].copy()
    cv2.setRNGSeed(7)
    first = drawn(flower, style, masked=style in NEEDS_MASK)
    cv2.setRNGSeed(8)
    np.testing.assert_array_equal(drawn(flower, style, masked=style in NEEDS_MASK), first)
    np.testing.assert_array_equal(flower[0], before)
    assert (first.shape, first.dtype) == ((120, 160, 3), np.uint8)
    assert np.abs(first.astype(int) - flower[0]).mean() > 15  # no longer the photo


@every_style
def test_a_mask_leaves_the_surroundings_out(flower, style):
    """Far from the mask, photos that differ there become the same drawing."""
    outside = flower[1] == 0
    other = flower[0].copy()
    other[:, :8] = 255 - other[:, :8]
    a = drawn(flower, style)
    b = render(other, style, rng=np.random.default_rng(0), mask=flower[1])
    corner = np.s_[:, :5]
    assert outside[corner].all()
    assert np.abs(a[corner].astype(int) - b[corner]).max() <= 2


def test_dark_parts_have_more_dots_and_a_poster_four_inks(flower):
    tones = np.repeat(np.linspace(255, 0, 128).astype(np.uint8)[None], 128, axis=0)
    dots = render(tones, "stipple", rng=np.random.default_rng(0)).mean(axis=(0, 2))
    assert dots[:32].mean() > dots[48:80].mean() + 20 > dots[96:].mean() + 40
    poster = drawn(flower, "poster")
    counts = np.unique(poster.reshape(-1, 3), axis=0, return_counts=True)[1]
    assert counts[np.argsort(counts)[-5:]].sum() > 0.6 * counts.sum()  # four inks and the ground, but for soft edges


def test_a_silhouette_is_the_mask_in_the_middle(flower):
    ink = drawn(flower, "silhouette").mean(axis=2) < 100
    ys, xs = np.nonzero(ink)
    assert abs(xs.mean() - 79.5) < 2
    assert abs(ys.mean() - 59.5) < 2
    assert ink.sum() == pytest.approx(np.pi / 4 * 0.7 * 120 * 0.7 * 120 * 30 / 40, rel=0.05)  # an ellipse


def test_what_cannot_be_drawn_is_named(flower):
    with pytest.raises(InvalidInput, match="no rendition is called 'stippel'; did you mean stipple"):
        drawn(flower, "stippel")
    with pytest.raises(InvalidInput, match="a silhouette needs the mask"):
        drawn(flower, "silhouette", masked=False)

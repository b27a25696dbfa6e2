"""Frost: textures grown by us, or photos."""

from __future__ import annotations

import pickle

import cv2
import numpy as np
import pytest

from cosight.errors import InvalidInput
from cosight.stimuli.corruptions import FrostTextures, corrupt, corruptions, load_textures, procedural_textures
from cosight.stimuli.corruptions.frost_textures import _PANES, Growth, _render_pane, grow_crystals
from cosight.stimuli.images import encode

GROWTH = Growth(52, 5, 0.4, 3, 0.3, 0.0)
BARE = Growth(52, 1e9, 0, 1e9, 0, 0.0)  # no branches


def seed_row(x, y, angle, length, crystal):
    return [x, y, angle, length, 1.0, crystal]


def test_six_panes_always_the_same():
    panes = procedural_textures()
    assert [pane.shape for pane in panes.images] == [(700, 1000, 3)] * 6
    assert procedural_textures() is panes
    np.testing.assert_array_equal(_render_pane(_PANES[3]), panes.images[3])
    assert FrostTextures.of(panes.images) == panes


def test_panes_differ():
    small = [
        cv2.resize(pane, (50, 35), interpolation=cv2.INTER_AREA).astype(float) for pane in procedural_textures().images
    ]
    assert min(np.abs(a - b).mean() for i, a in enumerate(small) for b in small[:i]) > 10


def slope(picture):
    """Fall of the power spectrum, per octave in natural logarithms, from 1/64 to 1/4 cycles a pixel."""
    grey = cv2.cvtColor(picture[:300, :450], cv2.COLOR_RGB2GRAY).astype(float)
    window = np.outer(np.hanning(len(grey)), np.hanning(grey.shape[1]))
    power = np.abs(np.fft.fft2((grey - grey.mean()) * window)) ** 2
    radius = np.hypot(*np.meshgrid(np.fft.fftfreq(grey.shape[1]), np.fft.fftfreq(grey.shape[0])))
    octaves = 2.0 ** np.arange(-6, -1)
    means = [power[(radius >= low) & (radius < 2 * low)].mean() for low in octaves]
    return np.polyfit(np.arange(len(octaves)), np.log(means), 1)[0]


def test_panes_are_as_bright_as_varied_and_as_fine_as_photos(mirror):
    """Mean, spread and fall of the spectrum of each pane lie among those of the six photos, or near."""
    photos = load_textures(mirror / "imagenet-c-frost").images
    for measure, slack in ((np.mean, 10), (np.std, 10), (slope, 0.35)):
        values = [measure(photo) for photo in photos]
        for pane in procedural_textures().images:
            assert min(values) - slack <= measure(pane) <= max(values) + slack
    bright, bright_photos = (
        np.mean([image.mean() for image in images]) for images in (procedural_textures().images, photos)
    )
    assert bright == pytest.approx(bright_photos, abs=3)  # of all six: what a random one adds to an image


def test_a_line_of_ice_stops_at_another_crystal():
    wall = seed_row(60, 5, np.pi / 2, 90, 1)
    rng = np.random.default_rng(0)
    free = grow_crystals((100, 100), np.array([seed_row(5, 50, 0.0, 90, 2)]), BARE, rng)
    blocked = grow_crystals((100, 100), np.array([wall, seed_row(5, 50, 0.0, 90, 2)]), BARE, rng)
    assert free[50, 5:85].min() > 0
    assert blocked[50, 5:60].min() > 0
    assert blocked[50, 63:].max() == 0


def test_arms_of_one_crystal_pass_each_other():
    both = np.array([seed_row(60, 5, np.pi / 2, 90, 1), seed_row(5, 50, 0.0, 90, 1)])
    assert grow_crystals((100, 100), both, BARE, np.random.default_rng(0))[50, 65:85].min() > 0


def test_crystals_branch_and_stay_on_the_pane():
    spine = np.array([seed_row(2, 50, 0.0, 500, 1)])
    ice = grow_crystals((100, 120), spine, GROWTH, np.random.default_rng(0))
    assert ice.max() <= 1
    assert np.count_nonzero(ice) > 1000  # far more than the spine
    assert np.count_nonzero(ice[:30]) > 100


def test_photos_from_a_folder(tmp_path):
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 256, (2, 50, 60, 3), np.uint8)
    cv2.imwrite(str(tmp_path / "b.png"), second[:, :, ::-1])
    alpha = np.full((50, 60, 1), 255, np.uint8)
    cv2.imwrite(
        str(tmp_path / "a.png"), np.dstack([first[:, :, ::-1], alpha])
    )  # ImageNet-C's own have an alpha channel
    (tmp_path / "LICENSE").write_text("not a picture")
    (tmp_path / "._a.png").write_bytes(b"what macOS leaves beside a file")
    textures = load_textures(tmp_path)
    np.testing.assert_array_equal(textures.images[0], first)
    np.testing.assert_array_equal(textures.images[1], second)
    assert textures == FrostTextures.of((first, second)) != FrostTextures.of((second, first))


def test_folders_without_pictures_are_refused(tmp_path):
    with pytest.raises(InvalidInput, match="contains pictures"):
        load_textures(tmp_path)
    (tmp_path / "a.png").write_text("no picture")
    with pytest.raises(InvalidInput, match=r"a\.png: not an image"):
        load_textures(tmp_path)
    with pytest.raises(InvalidInput, match=r"a folder of pictures, got .*nowhere"):
        load_textures(tmp_path / "nowhere")


def test_grey_textures_become_rgb(tmp_path):
    grey = np.random.default_rng(0).integers(0, 256, (50, 60), np.uint8)
    (tmp_path / "a.png").write_bytes(encode(grey, "png"))
    np.testing.assert_array_equal(load_textures(tmp_path).images[0], np.dstack([grey] * 3))


def test_textures_are_refused_as_sources_are(tmp_path):
    colours = np.random.default_rng(0).integers(0, 256, (50, 60, 3), np.uint8)
    file = tmp_path / "a.png"
    cv2.imwrite(str(file), np.dstack([colours, np.full((50, 60), 200, np.uint8)]))
    with pytest.raises(InvalidInput, match=r"opaque, .*a\.png has transparent pixels"):
        load_textures(tmp_path)
    cv2.imwrite(str(file), colours.astype(np.uint16) * 257)
    with pytest.raises(InvalidInput, match=r"8 bits per channel, .*a\.png has more"):
        load_textures(tmp_path)
    file.write_bytes(encode(colours, "png")[:-2000])
    with pytest.raises(InvalidInput, match=r"cannot decode .*a\.png"):
        load_textures(tmp_path)


def test_textures_travel_to_other_processes():
    textures = FrostTextures.of((np.zeros((40, 40, 3), np.uint8),))
    again = pickle.loads(pickle.dumps(textures))
    assert again == textures
    np.testing.assert_array_equal(again.images[0], textures.images[0])


def test_frost_is_the_weighted_sum():
    textures = FrostTextures.of((np.full((50, 50, 3), (200, 100, 0), np.uint8),))
    image = np.full((40, 40, 3), 100, np.uint8)
    out = corrupt(image, "frost", severity=5, rng=np.random.default_rng(0), textures=textures)  # .6 image + .75 frost
    np.testing.assert_array_equal(out[0, 0], [210, 135, 60])
    grey = corrupt(image[:, :, 0], "frost", severity=5, rng=np.random.default_rng(0), textures=textures)
    assert grey[0, 0] == round(60 + 0.75 * (0.299 * 200 + 0.587 * 100))  # the texture's luma


@pytest.mark.parametrize("shape", [(300, 40, 3), (40, 300), (50, 60, 3)])
def test_textures_that_are_too_small_are_enlarged(shape):
    ramp = np.dstack([np.tile(np.linspace(0, 255, 60), (50, 1))] * 3).astype(np.uint8)
    out = corrupt(
        np.zeros(shape), "frost", severity=10, rng=np.random.default_rng(0), textures=FrostTextures.of((ramp,))
    )
    across = out[0].reshape(shape[1], -1)[:, 0]
    assert (np.diff(across) >= -1e-6).all()  # still a ramp, a part of it where the picture is narrow
    assert np.ptp(across) == pytest.approx(shape[1] / (60 * max(shape[0] / 50, shape[1] / 60)), abs=0.05)


def test_every_texture_and_place_is_drawn():
    marked = FrostTextures.of(tuple(np.full((64, 64, 3), value, np.uint8) for value in (50, 100, 150)))
    image = np.zeros((32, 32), np.uint8)
    seen = {
        int(corrupt(image, "frost", severity=10, rng=np.random.default_rng(seed), textures=marked)[0, 0])
        for seed in range(30)
    }
    assert seen == {50, 100, 150}


def test_settings_name_the_textures():
    textures = FrostTextures.of((np.zeros((40, 40, 3), np.uint8),))
    assert corruptions["frost"].settings(0, textures=textures)["textures"] == textures.digest
    assert corruptions["frost"].settings(0)["textures"] == procedural_textures().digest

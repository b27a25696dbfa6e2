"""The corruptions beside the maintained fork of the peer package, severities 1-5."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from cosight.stimuli.corruptions import FrostTextures, corrupt
from cosight.stimuli.corruptions.blur import motion_filter

# the middle; `make test-all` has all five
SEVERITIES = [3, *(pytest.param(number, marks=pytest.mark.slow) for number in (1, 2, 4, 5))]
DETERMINISTIC = [
    "contrast", "jpeg_compression", "pixelate", "defocus_blur", "gaussian_blur", "saturate", "brightness", "zoom_blur",
]  # fmt: skip


@pytest.fixture(scope="module")
def peer():
    """The maintained fork of the peer package; it draws from numpy's global state and warns of its old imports."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        package = pytest.importorskip("imagecorruptions")

    def call(image, kind, severity, seed=0):
        np.random.seed(seed)  # noqa: NPY002 (the peer knows no other)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return package.corrupt(image, corruption_name=kind, severity=severity)

    return call


def draw(seed):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("kind", DETERMINISTIC)
@pytest.mark.parametrize("severity", SEVERITIES)
def test_deterministic_kinds_agree_with_the_peer(kind, severity, squares, photos, peer):
    """Within one level, edges included: the peer cuts bytes off, we round."""
    for image in (*squares, photos[0]):
        ours = corrupt(image, kind, severity=severity, variant="imagenet-c").astype(int)
        apart = np.abs(ours - peer(image, kind, severity))
        # A pixel right between two boxes of pixelate falls where rounding puts it: 427 x .25 has one such row.
        tie = kind == "pixelate" and severity == 5 and image.shape[0] == 427
        assert np.mean(apart > 1) <= (0.004 if tie else 0)


@pytest.mark.parametrize(("severity", "radius", "sigma"), [(1, 10, 3), (2, 15, 5), (4, 15, 12), (5, 20, 15)])
def test_motion_blur_agrees_with_the_peer_at_its_angle(severity, radius, sigma, squares, peer):
    for seed in range(4):
        np.random.seed(seed)  # noqa: NPY002
        degrees = np.random.uniform(-45, 45)  # noqa: NPY002 (the peer's first draw)
        theirs = peer(squares[0], "motion_blur", severity, seed)
        ours = motion_filter(squares[0].astype(np.float32), radius=radius, sigma=sigma, degrees=degrees)
        assert np.abs(ours - theirs).max() < 1.02


def moments(make, image, seeds):
    """Mean of the result; spread and power in four bands of what was changed, over seeds."""
    grid = np.hypot(*np.meshgrid(np.fft.fftfreq(image.shape[1]), np.fft.fftfreq(image.shape[0])))
    bands = [(grid >= low) & (grid < high) for low, high in ((0.01, 0.06), (0.06, 0.15), (0.15, 0.3), (0.3, 0.5))]
    means, spreads, powers = [], [], []
    for seed in range(seeds):
        out = make(seed).astype(float)
        change = out - image
        power = np.abs(np.fft.fft2(change.mean(2) - change.mean())) ** 2
        means.append(out.mean())
        spreads.append(change.std())
        powers.append([power[band].mean() for band in bands])
    return np.mean(means), np.mean(spreads), np.mean(powers, axis=0)


@pytest.mark.parametrize(("kind", "seeds", "spread", "power"), [
    ("gaussian_noise", 20, 0.005, 0.08),
    ("shot_noise", 20, 0.005, 0.08),
    ("impulse_noise", 150, 0.01, 0.08),  # the peer draws it without a seed: enough draws that chance is no difference
    ("speckle_noise", 20, 0.01, 0.08),
    pytest.param("glass_blur", 12, 0.02, 0.1, marks=pytest.mark.slow),
    ("motion_blur", 40, 0.03, 0.1),
    ("snow", 60, 0.04, 0.15),
    ("fog", 160, 0.05, 0.12),
    ("spatter", 120, 0.06, 0.2),
])  # fmt: skip
@pytest.mark.parametrize("severity", [*(pytest.param(number, marks=pytest.mark.slow) for number in (1, 2, 3, 4)), 5])
def test_random_kinds_have_the_peers_moments_and_spectrum(severity, kind, seeds, spread, power, squares, peer):
    """The peer's bytes are half a level darker for every cut, glass_blur and snow cut twice.

    It also blurs snow before it cuts the enlarged field to size (ImageNet-C: after); every zoom divides 180.
    """
    side = 180 if kind == "snow" else 128
    image = np.ascontiguousarray(squares[1][20 : 20 + side, 20 : 20 + side])
    theirs = moments(lambda seed: peer(image, kind, severity, seed), image, seeds)
    ours = moments(
        lambda seed: corrupt(image, kind, severity=severity, rng=draw(seed), variant="imagenet-c"), image, seeds
    )
    assert ours[0] == pytest.approx(theirs[0] + 0.5, abs=0.9 + spread * 60)
    assert ours[1] == pytest.approx(theirs[1], rel=spread)
    np.testing.assert_allclose(ours[2], theirs[2], rtol=power)


@pytest.mark.parametrize("severity", SEVERITIES)
def test_frost_agrees_with_the_peer_on_the_same_ice(severity, squares, peer):
    """The peer's draw for a seed, read off a black image (.75 of the ice), is handed to us as the texture."""
    for seed in range(6):
        ice = peer(np.zeros_like(squares[0]), "frost", 5, seed) + 0.5
        texture = FrostTextures.of((np.minimum(ice / 0.75, 255).astype(np.uint8),))
        ours = corrupt(squares[0], "frost", severity=severity, rng=draw(0), textures=texture).astype(int)
        assert np.abs(ours - peer(squares[0], "frost", severity, seed)).max() <= 2

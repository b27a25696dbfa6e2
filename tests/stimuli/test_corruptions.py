"""The corruptions: against SciPy and Pillow, the published constants, and by their laws."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba.core.dispatcher import Dispatcher
from PIL import Image as Pillow
from scipy import ndimage, stats
from skimage.metrics import structural_similarity

from cosight.errors import InvalidInput, UnknownName
from cosight.stimuli import blocks
from cosight.stimuli.corruptions import blur, corrupt, corruptions, frost_textures, severity_step
from cosight.stimuli.corruptions.blur import disk_kernel, motion_filter, zoom
from cosight.stimuli.corruptions.digital import _smooth_noise
from cosight.stimuli.corruptions.weather import plasma
from cosight.stimuli.distortions import overlays

VISALIGN = [  # FACTS: fifteen and cropping have ten severities, ImageNet-C's extras five
    "gaussian_noise", "shot_noise", "impulse_noise", "glass_blur", "defocus_blur", "motion_blur", "zoom_blur", "fog",
    "frost", "snow", "contrast", "brightness", "jpeg_compression", "pixelate", "elastic_transform", "cropping",
]  # fmt: skip
EXTRAS = ["speckle_noise", "gaussian_blur", "spatter", "saturate"]


def draw(seed):
    return np.random.default_rng(seed)


def test_the_kinds_and_their_severities():
    assert sorted(corruptions) == sorted([*VISALIGN, *EXTRAS])
    assert {len(corruptions[kind].steps) for kind in VISALIGN} == {10}
    assert {len(corruptions[kind].steps) for kind in EXTRAS} == {5}


@pytest.mark.parametrize(("kind", "severity", "options", "settings"), [
    ("gaussian_noise", 10, {}, {"sd": 3.0}),
    ("glass_blur", 8, {}, {"sigma": 2.6, "delta": 10, "iterations": 2}),
    ("zoom_blur", 3, {}, {"stop": 1.21, "step": 0.02}),
    ("elastic_transform", 2, {}, {"alpha": 488, "sigma": 19.52, "affine": pytest.approx(48.8)}),
    ("brightness", 1, {}, {"factor": 1.5}),
    ("brightness", 1, {"variant": "imagenet-c"}, {"added": 0.1}),
    ("cropping", 10, {"region": "random"}, {"share": 10 / 335, "region": "random"}),
    ("spatter", 5, {}, {"mean": 0.67, "spread": 0.4, "sigma": 1, "threshold": 0.65, "strength": 1.5, "mud": True}),
])  # fmt: skip
def test_settings_are_the_published_constants(kind, severity, options, settings):
    assert corruptions[kind].settings(severity - 1, **options) == settings


# --- beside SciPy and Pillow ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("severity", [1, 3, 4, 6, pytest.param(10, marks=pytest.mark.slow)])
@pytest.mark.parametrize("shape", [(70, 45), (40, 64, 3)])
def test_defocus_blur_is_a_correlation_with_the_disk(severity, shape):
    """Severity 1 is multiplied out, the others use OpenCV's Fourier transform; edges are mirrored."""
    image = draw(0).random(shape, dtype=np.float32)
    kernel = disk_kernel(*corruptions["defocus_blur"].settings(severity - 1).values()).astype(float)
    kernel = kernel if image.ndim == 2 else kernel[:, :, None]
    expected = ndimage.correlate(image.astype(float), kernel, mode="mirror")
    np.testing.assert_allclose(corrupt(image, "defocus_blur", severity=severity), expected.clip(0, 1), atol=2e-5)


@pytest.mark.parametrize("module", [blocks, blur, frost_textures, overlays])
def test_sums_are_never_reordered(module):
    """`fastmath` adds in the order that suits the processor, so that bytes would depend on it."""
    compiled = [item for item in vars(module).values() if isinstance(item, Dispatcher)]
    assert compiled
    assert not any(item.targetoptions.get("fastmath") for item in compiled)


@pytest.mark.parametrize(("radius", "sigma"), [(4, 3.0), (20, 15.0)])
@pytest.mark.parametrize(("degrees", "across", "down"), [(0, 1, 0), (90, 0, 1), (-90, 0, -1), (45, 0.7071, 0.7071)])
def test_motion_blur_adds_taps_on_whole_pixels(radius, sigma, degrees, across, down):
    image = draw(0).random((40, 50, 3), dtype=np.float32)
    steps = np.arange(2 * radius + 1)
    weights = np.exp(-(steps**2) / (2 * sigma**2))
    padded = np.pad(image, ((50, 50), (50, 50), (0, 0)), mode="edge")
    expected = np.zeros_like(image)
    for step, weight in zip(steps, weights / weights.sum(), strict=True):
        y, x = 50 + round(step * down), 50 + round(step * across)
        expected += weight * padded[y : y + 40, x : x + 50]
    ours = motion_filter(image, radius=radius, sigma=sigma, degrees=degrees)
    np.testing.assert_allclose(ours, expected, atol=1e-4)  # taps of less than 1e-5 are left out


@pytest.mark.parametrize("factor", [1.0, 1.11, 1.5, 2.95, 4.5])
@pytest.mark.parametrize("channels", [(), (3,)])
def test_zooming_reads_where_scipy_does(factor, channels):
    image = draw(1).random((61, 80, *channels), dtype=np.float32)
    height, width = (int(np.ceil(side / factor)) for side in (61, 80))
    top, left = (61 - height) // 2, (80 - width) // 2
    part = image[top : top + height, left : left + width]
    large = ndimage.zoom(part.astype(float), (factor, factor, *(1 for _ in channels)), order=1)
    y, x = (large.shape[0] - 61) // 2, (large.shape[1] - 80) // 2
    expected = large[y : y + 61, x : x + 80]
    np.testing.assert_allclose(zoom(image, factor, image.shape), expected, atol=1e-5)
    np.testing.assert_allclose(zoom(np.ascontiguousarray(part), factor, image.shape), expected, atol=1e-5)


@pytest.mark.parametrize("sigma", [0.244, 2.44, 19.52, 170.8])
def test_smooth_noises_are_scipys_gaussian_of_the_same_draws(sigma):
    drawn = 2.0 * draw(5).random((60, 83), dtype=np.float32) - 1
    ours = _smooth_noise(60, 83, sigma, draw(5))
    expected = ndimage.gaussian_filter(drawn, sigma, mode="reflect", truncate=3 if sigma < 8 else 8)
    np.testing.assert_allclose(ours, expected, atol=2e-5)


@pytest.mark.parametrize("severity", [1, 3, 8, 10])
def test_elastic_transform_step_by_step_with_scipy(severity, squares):
    """Three corners of the middle square jittered, then each pixel displaced; reflected beyond the edges."""
    image = squares[0][:120, :160].astype(np.float64) / 255
    alpha, sigma, affine = corruptions["elastic_transform"].settings(severity - 1).values()
    ours = corrupt(image, "elastic_transform", severity=severity, rng=draw(3))
    rng = draw(3)
    before = np.array([[80 + 40, 60 + 40], [80 + 40, 60 - 40], [80 - 40, 60 - 40]], np.float32)
    after = before + rng.uniform(-affine, affine, (3, 2)).astype(np.float32)
    matrix = np.linalg.inv(np.vstack([cv2.getAffineTransform(before, after), [0, 0, 1]]))
    y, x = np.mgrid[:120, :160]
    from_x, from_y, _ = np.tensordot(matrix, np.stack([x, y, np.ones_like(x)]), 1)
    dx, dy = (_smooth_noise(120, 160, sigma, rng) * alpha for _ in range(2))
    for channel in range(3):
        moved = ndimage.map_coordinates(image[..., channel], [from_y, from_x], order=1, mode="mirror")
        expected = ndimage.map_coordinates(moved, [y + dy, x + dx], order=1, mode="reflect")
        assert np.abs(ours[..., channel] - expected).mean() < 1e-3
        assert np.quantile(np.abs(ours[..., channel] - expected), 0.999) < 0.01


@pytest.mark.parametrize("severity", range(1, 11))
def test_cropping_at_256_is_the_published_recipe(severity, photos):
    """Resize to 335, cut out n from the middle, resize to 256 (Lee et al. 2023), here with Pillow."""
    image = cv2.resize(photos[1], (256, 256), interpolation=cv2.INTER_AREA)
    n = (300, 250, 200, 150, 100, 50, 40, 30, 20, 10)[severity - 1]
    first = (335 - n) / 2
    large = Pillow.fromarray(image).resize((335, 335), Pillow.Resampling.BILINEAR)
    expected = large.resize((256, 256), Pillow.Resampling.BILINEAR, box=(first, first, first + n, first + n))
    assert np.abs(corrupt(image, "cropping", severity=severity) - np.asarray(expected, float)).mean() < 3


# --- values that can be worked out by hand ---------------------------------------------------------------------------


def flat(*colour):
    return np.tile(np.array(colour, np.uint8), (32, 32, 1))


@pytest.mark.parametrize(("kind", "severity", "variant", "before", "after"), [
    ("brightness", 2, "visalign", (100, 50, 0), (200, 100, 0)),
    ("brightness", 3, "visalign", (100, 50, 0), (255, 150, 0)),
    ("brightness", 2, "imagenet-c", (102, 51, 0), (153, 76, 0)),  # value .4 + .2, so all times 1.5
    ("brightness", 5, "imagenet-c", (0, 0, 0), (128, 128, 128)),  # black has neither hue nor saturation
    ("saturate", 3, "visalign", (200, 150, 100), (200, 100, 0)),  # saturation .5 times 2
    ("saturate", 2, "visalign", (200, 150, 100), (200, 195, 190)),  # times .1
    ("saturate", 5, "visalign", (100, 100, 100), (100, 80, 80)),  # grey has hue 0, red; + .2
    ("contrast", 1, "visalign", (80, 90, 100), (80, 90, 100)),
    ("pixelate", 10, "visalign", (1, 2, 3), (1, 2, 3)),
])  # fmt: skip
def test_flat_colours(kind, severity, variant, before, after):
    assert corrupt(flat(*before), kind, severity=severity, variant=variant)[5, 7].astype(int) == pytest.approx(
        after, abs=1
    )


def test_contrast_is_about_each_channels_mean():
    image = flat(0, 100, 0)
    image[:16] = (200, 100, 40)
    out = corrupt(image, "contrast", severity=4)  # .1
    np.testing.assert_array_equal(out[0, 0], [110, 100, 22])  # 100 + .1 * 100, 100, 20 + .1 * 20
    np.testing.assert_array_equal(out[31, 0], [90, 100, 18])


def test_gaussian_and_speckle_noise_are_normal():
    grey = np.full((256, 256), 0.5)
    gaussian = corrupt(grey, "gaussian_noise", severity=1, rng=draw(0)) - 0.5
    speckle = corrupt(grey, "speckle_noise", severity=1, rng=draw(1)) - 0.5
    assert stats.kstest(gaussian.ravel() / 0.08, "norm").pvalue > 0.01
    assert stats.kstest(speckle.ravel() / (0.15 * 0.5), "norm").pvalue > 0.01


@given(value=st.floats(0.02, 0.98), severity=st.integers(1, 8))
def test_shot_noise_counts_photons(value, severity):
    """Any brightness, byte or not: mean and variance of a Poisson count that is cut at white."""
    photons = corruptions["shot_noise"].settings(severity - 1)["photons"]
    out = corrupt(np.full((128, 128), value), "shot_noise", severity=severity, rng=draw(0))
    counts = np.arange(400)
    chance = stats.poisson.pmf(counts, value * photons)
    shown = np.minimum(counts / photons, 1)
    mean = chance @ shown
    spread = np.sqrt(chance @ (shown - mean) ** 2)
    assert out.mean() == pytest.approx(mean, abs=5 * spread / 128)
    assert out.std() == pytest.approx(spread, rel=0.12, abs=0.01)


@pytest.mark.parametrize(("severity", "amount"), [(1, 0.03), (5, 0.27), (10, 0.9)])
def test_impulse_noise_is_half_salt_half_pepper(severity, amount):
    out = corrupt(np.full((200, 300, 3), 128, np.uint8), "impulse_noise", severity=severity, rng=draw(1))
    assert np.mean(out == 255) == pytest.approx(amount / 2, rel=0.05)
    assert np.mean(out == 0) == pytest.approx(amount / 2, rel=0.05)
    assert set(np.unique(out)) == {0, 128, 255}


def test_glass_blur_copies_from_near():
    """A pixel's new colour was somewhere near; an image narrower than 2 delta is only blurred."""
    image = np.tile(np.arange(256, dtype=np.uint8)[:, None], (1, 256))
    out = corrupt(image, "glass_blur", severity=4, rng=draw(0)).astype(int)  # delta 3, twice
    assert np.abs(out - image).max() <= 12
    assert np.abs((out - image)[:, 100]).max() > 1
    small = corrupt(image[:48, :48], "glass_blur", severity=10, rng=draw(0))  # delta 30: no room to move
    np.testing.assert_array_equal(small, corrupt(image[:48, :48], "glass_blur", severity=10, rng=draw(1)))


@pytest.mark.parametrize(("side", "full"), [(32, 32), (33, 64), (224, 256), (512, 512)])
def test_plasma_covers_the_side_with_a_power_of_two(side, full):
    field = plasma(side, decay=2, rng=draw(0))
    assert field.shape == (full, full)
    assert field.min() == 0
    assert field.max() == pytest.approx(1)
    seam, inside = np.abs(field[0] - field[-1]).mean(), np.abs(np.diff(field, axis=0)).mean()
    assert seam < 3 * inside  # it wraps around


def test_plasma_is_rougher_the_less_it_decays():
    rough = [np.abs(np.diff(plasma(128, decay=decay, rng=draw(2)))).mean() for decay in (2, 1.5, 1.2, 1)]
    assert rough == sorted(rough)


def test_motion_blur_keeps_a_flat_image_and_its_sum():
    image = np.zeros((64, 96), np.float32)
    image[32, 48] = 1
    out = motion_filter(image, radius=10, sigma=4, degrees=90)
    assert out.sum() == pytest.approx(1, abs=1e-5)
    assert np.flatnonzero(out.sum(0)).tolist() == [48]  # straight down
    np.testing.assert_allclose(motion_filter(np.full_like(image, 0.3), radius=50, sigma=55, degrees=20), 0.3, atol=1e-5)


def test_random_crops_stay_inside_and_differ():
    ramp = np.tile(np.linspace(0, 1, 256), (256, 1))
    lows = []
    for seed in range(20):
        out = corrupt(ramp, "cropping", severity=5, rng=draw(seed), region="random")
        assert np.ptp(out) == pytest.approx(100 / 335, abs=0.01)
        lows.append(out.min())
    assert min(lows) < 0.15
    assert max(lows) > 0.5


def test_saturation_of_a_grey_image_stays():
    grey = draw(0).integers(0, 256, (40, 40), np.uint8)
    np.testing.assert_array_equal(corrupt(grey, "saturate", severity=5), grey)


# --- severity ------------------------------------------------------------------------------------------------------


RMS = {
    "zoom_blur",
    "snow",
    "spatter",
}  # there structural similarity is lost early, or mud has less structure than water


@pytest.mark.parametrize("kind", [kind for kind in sorted([*VISALIGN, *EXTRAS]) if kind != "cropping"])
def test_strength_grows_with_severity(kind, squares):
    entry = corruptions[kind]
    steps = range(len(entry.steps)) if entry.growing_steps is None else entry.growing_steps
    strength = [np.mean([change for image in squares for change in changes(image, kind, step)]) for step in steps]
    assert strength == sorted(strength)
    assert len(set(strength)) == len(strength)


def changes(image, kind, step):
    draws = 6 if kind == "frost" else 3  # its textures differ most from draw to draw
    for seed in range(draws if corruptions[kind].random else 1):
        out = corrupt(image, kind, severity=step + 1, rng=draw(seed))
        if kind in RMS:
            yield np.sqrt(np.mean((out.astype(float) - image) ** 2))
        else:
            yield 1 - structural_similarity(image, out, channel_axis=2)


def test_cropping_keeps_less_and_less():
    """An enlarged part has nothing to do with the image pixel by pixel: here strength is what is lost."""
    shares = [corruptions["cropping"].settings(step)["share"] for step in range(10)]
    assert shares == sorted(shares, reverse=True)
    ramp = np.tile(np.linspace(0, 1, 100), (100, 1))
    for step, share in enumerate(shares):
        assert np.ptp(corrupt(ramp, "cropping", severity=step + 1)) == pytest.approx(share, abs=0.012)


# --- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "severity", "options", "message"), [
    ("speckle_noise", 6, {}, "severity of speckle_noise must be 1 to 5, got 6"),
    ("fog", 0, {}, "severity of fog must be 1 to 10, got 0"),
    ("fog", 6, {"variant": "imagenet-c"}, "severity of fog must be 1 to 5 in ImageNet-C, got 6"),
    ("fog", 1, {"variant": "cifar-c"}, "variant must be visalign or imagenet-c, got cifar-c"),
    ("cropping", 1, {"region": "left"}, "region must be centre or random, got left"),
])  # fmt: skip
def test_what_does_not_exist_is_refused(kind, severity, options, message):
    with pytest.raises(InvalidInput, match=message):
        corrupt(flat(1, 2, 3), kind, severity=severity, rng=draw(0), **options)


def test_unknown_kinds_are_named():
    with pytest.raises(UnknownName, match="did you mean gaussian_noise"):
        corrupt(flat(1, 2, 3), "gausian_noise", severity=1)


def test_severity_step_counts_from_zero():
    assert severity_step(corruptions["fog"], 10) == 9
    assert severity_step(corruptions["fog"], 5, "imagenet-c") == 4

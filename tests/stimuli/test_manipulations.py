"""Manipulations of model-vs-human, against the authors' pictures, other libraries and our own second reading.

"Released pictures" are code/example_image.png and figures/introduction/example_image_*.png of
rgeirhos/generalisation-humans-DNNs (2018).
"""

from __future__ import annotations

import csv
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.ndimage import gaussian_filter
from skimage.color import rgb2gray

from cosight.errors import InvalidInput, UnknownName
from cosight.stimuli.manipulations import (
    Spectrum,
    condition_step,
    manipulate,
    manipulations,
    mean_spectrum,
    read_spectrum,
)

PUBLISHED = "mean-power-spectrum/mean_power_spectrum_grey.npy"


def seeded(seed=0):
    return np.random.default_rng(seed)


def faint(photo, low=0.3, high=0.6):
    """A grey image far from black and white, so that nothing is clipped: floats, so that nothing is rounded."""
    grey = rgb2gray(photo)
    return low + (high - low) * (grey - grey.min()) / np.ptp(grey)


def patch(colour):
    return np.full((32, 32, 3), colour, np.uint8)


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(manipulations))
def test_steps_are_the_conditions_people_saw(mirror, name):
    files = sorted((mirror / "model-vs-human" / name).glob("*.csv"))
    seen = {row["condition"] for file in files for row in csv.DictReader(file.read_text().splitlines())}
    assert set(manipulations[name].steps) == seen


@pytest.mark.parametrize(
    ("kind", "spellings"),
    [
        ("low-pass", ("3", "3.0", "03", 3, 3.0)),
        ("uniform-noise", ("0.90", "0.9", ".9", 0.9)),
        ("high-pass", ("inf", "Inf", float("inf"))),
        ("false-colour", ("true", "True", True)),
        ("contrast", ("c05", "C05")),
    ],
)
def test_spellings_of_one_condition(kind, spellings):
    assert len({condition_step(manipulations[kind], spelling) for spelling in spellings}) == 1


@pytest.mark.parametrize("condition", ["2", "nan", "", "c10"])
def test_other_conditions_are_refused(condition):
    with pytest.raises(InvalidInput, match="condition of low-pass must be 0, 1, 3, 5, 7, 10, 15, 40, got"):
        manipulate(patch(9), "low-pass", condition=condition)


def test_an_unknown_manipulation_names_the_nearest():
    with pytest.raises(UnknownName, match="did you mean low-pass"):
        manipulate(patch(9), "lowpass", condition="3")


@pytest.mark.parametrize("name", sorted(manipulations))
def test_distance_grows_with_the_step(squares, name):
    kind = manipulations[name]
    spectrum = mean_spectrum(squares)
    steps = kind.growing_steps or range(len(kind.steps))

    def distance(photo, step):
        changed = manipulate(photo, name, condition=kind.steps[step], rng=seeded(), spectrum=spectrum)
        return np.sqrt(np.mean((changed.astype(float) - photo) ** 2))

    distances = [np.mean([distance(photo, step) for photo in squares]) for step in steps]
    assert (np.diff(distances) > 0).all()


# --- light ------------------------------------------------------------------------------------------------------------

# Pixels of the released pictures: colour, opponent colour, grey, grey at 30 % contrast.
RELEASED_PIXELS = [
    ((141, 169, 111), (169, 140, 190), 159, 137),
    ((117, 168, 41), (169, 118, 199), 148, 134),
    ((255, 63, 46), (0, 183, 186), 103, 120),
    ((116, 129, 182), (151, 139, 42), 130, 128),
    ((231, 169, 0), (99, 184, 252), 170, 140),
    ((255, 213, 192), (187, 228, 247), 220, 155),
    ((61, 44, 50), (32, 55, 50), 48, 104),
]


@pytest.mark.parametrize(("colour", "opponent", "grey", "at_30"), RELEASED_PIXELS)
def test_pixels_of_the_released_pictures(colour, opponent, grey, at_30):
    photo = patch(colour)
    assert (manipulate(photo, "false-colour", condition="false") == opponent).all()
    assert (manipulate(photo, "colour", condition="bw") == grey).all()
    assert (manipulate(photo, "contrast", condition="c30") == at_30).all()


@pytest.mark.parametrize("kind", ["contrast", "low-pass", "high-pass", "rotation", "phase-scrambling"])
def test_the_undistorted_condition_is_the_grey_image(photos, kind):
    condition = manipulations[kind].steps[0]
    result = manipulate(photos[0], kind, condition=condition, rng=seeded())
    expected = rgb2gray(photos[0]) * 255
    assert np.abs(result - expected[:, :, None]).max() < 0.5001


@pytest.mark.parametrize(("kind", "condition"), [("colour", "cr"), ("false-colour", "true")])
def test_the_undistorted_condition_is_the_image(photos, kind, condition):
    assert np.array_equal(manipulate(photos[0], kind, condition=condition), photos[0])


@pytest.mark.parametrize("condition", manipulations["contrast"].steps)
def test_contrast_is_the_range_about_mid_grey(condition):
    ramp = np.tile(np.linspace(0, 1, 64), (32, 1))
    result = manipulate(ramp, "contrast", condition=condition)
    assert np.ptp(result) == pytest.approx(int(condition[1:]) / 100, abs=1e-6)
    assert result.mean() == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize("condition", ["0.03", "0.10", "0.35"])
def test_noise_is_uniform_around_the_image_at_30_percent(squares, condition):
    width = float(condition)
    quiet = 0.35 + 0.3 * faint(squares[0], 0, 1)  # in [0.35, 0.65]: nothing is clipped at these widths
    noise = manipulate(faint(squares[0], 0, 1), "uniform-noise", condition=condition, rng=seeded()) - quiet
    assert np.abs(noise).max() <= width + 1e-6
    assert noise.std() == pytest.approx(width / np.sqrt(3), rel=0.01)
    assert abs(noise.mean()) < 4 * width / np.sqrt(3 * noise.size)
    assert np.histogram(noise, 10, (-width, width))[0] == pytest.approx(noise.size / 10, rel=0.06)
    assert abs(np.corrcoef(noise[:, 1:].ravel(), noise[:, :-1].ravel())[0, 1]) < 0.02


def test_noise_is_the_same_in_the_three_channels_and_clipped(squares):
    result = manipulate(squares[0], "uniform-noise", condition="0.90", rng=seeded())
    assert np.ptp(result, axis=2).max() == 0
    assert (result == 0).mean() > 0.1 < (result == 255).mean()


@pytest.mark.parametrize(("condition", "turns"), [("90", 1), ("180", 2), ("270", 3)])
def test_rotation_is_anticlockwise(squares, condition, turns):
    upright = manipulate(squares[0], "rotation", condition="0")
    assert np.array_equal(manipulate(squares[0], "rotation", condition=condition), np.rot90(upright, turns))


def test_only_squares_turn_by_a_quarter(photos):
    with pytest.raises(InvalidInput, match="only a square image can be rotated by 90 degrees, got 640 x 427; crop it"):
        manipulate(photos[0], "rotation", condition="90")
    upright = manipulate(photos[0], "rotation", condition="0")
    assert np.array_equal(manipulate(photos[0], "rotation", condition="180"), upright[::-1, ::-1])


# --- opponent colour --------------------------------------------------------------------------------------------------


def test_grey_has_no_opponent():
    ramp = np.repeat(np.tile(np.arange(256, dtype=np.uint8), (32, 1))[:, :, None], 3, axis=2)
    assert np.array_equal(manipulate(ramp, "false-colour", condition="false"), ramp)


@given(st.tuples(*[st.integers(160, 200)] * 3))
def test_the_opponent_of_the_opponent_is_the_colour(colour):
    opponent = manipulate(patch(colour), "false-colour", condition="false")
    back = manipulate(opponent, "false-colour", condition="false")
    assert np.abs(back[0, 0].astype(int) - colour).max() <= 1  # rounded twice; channels this near are never clipped


# --- filters ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("condition", ["1", "3", "7", "15", "40"])
def test_low_pass_is_scipys_gaussian_in_front_of_the_surround(photos, condition):
    sd = float(condition)
    expected = gaussian_filter(rgb2gray(photos[0]), sd, mode="constant", cval=0.4423)
    result = manipulate(photos[0] / 255, "low-pass", condition=condition)
    assert np.abs(result - expected[:, :, None]).max() < 1e-5


@pytest.mark.parametrize("condition", ["3", "1.5", "1", "0.7", "0.55", "0.45", "0.4"])
def test_high_pass_is_what_the_blur_takes_away_about_the_surround(photos, condition):
    grey = rgb2gray(photos[0])
    rest = grey - gaussian_filter(grey, float(condition), mode="constant", cval=0.4423)
    expected = np.clip(rest - rest.mean() + 0.4423, 0, 1)
    result = manipulate(photos[0] / 255, "high-pass", condition=condition)
    assert np.abs(result - expected[:, :, None]).max() < 1e-5
    assert result.mean() == pytest.approx(0.4423, abs=1e-3)  # clipping moves it a little


# --- phases -----------------------------------------------------------------------------------------------------------


def test_phase_scrambling_is_the_released_arithmetic(squares):
    """Shifts added to the first half of the centred plane and subtracted, in reading order, from the second."""
    image = faint(squares[0])
    side = image.shape[0] - 1  # without the highest frequencies
    middle = side * side // 2
    shifts = seeded(5).uniform(-np.pi / 2, np.pi / 2, middle)
    wave = np.fft.fftshift(np.fft.fft2(image))
    inner = wave[1:, 1:].ravel()
    inner[:middle] *= np.exp(1j * shifts)
    inner[middle + 1 :] *= np.exp(-1j * shifts)
    wave[1:, 1:] = inner.reshape(side, side)
    expected = np.clip(np.fft.ifft2(np.fft.ifftshift(wave)).real, 0, 1)
    result = manipulate(image, "phase-scrambling", condition="90", rng=seeded(5))
    assert np.abs(result - expected).max() < 1e-6


@pytest.mark.parametrize("condition", ["30", "90", "150", "180"])
@pytest.mark.parametrize("shape", [(224, 224), (97, 64), (64, 97), (97, 65)])
def test_amplitudes_shrink_as_two_shifts_differ(squares, condition, shape):
    """E|factor|^2 = (1 + sinc^2) / 2 of the width: what the mean of two unit phasors has."""
    image = faint(squares[0], 0.4, 0.5)[: shape[0], : shape[1]]
    before, after = (
        np.fft.fft2(x) for x in (image, manipulate(image, "phase-scrambling", condition=condition, rng=seeded()))
    )
    factors = (after / before)[1 : shape[0] // 2, 1 : shape[1] // 2]
    sinc = np.sinc(float(condition) / 180)
    bound = 1 + 1e-2  # float32 pixels
    assert np.abs(factors).max() < bound
    assert np.mean(np.abs(factors) ** 2) == pytest.approx((1 + sinc**2) / 2, abs=4 * 0.36 / np.sqrt(factors.size / 2))
    assert np.mean(factors) == pytest.approx(sinc, abs=4 / np.sqrt(factors.size / 2))
    assert after[0, 0] == pytest.approx(before[0, 0], rel=1e-6)


def test_the_highest_frequencies_keep_their_phase(squares):
    image = faint(squares[0], 0.4, 0.5)
    before, after = (
        np.fft.fft2(x) for x in (image, manipulate(image, "phase-scrambling", condition="180", rng=seeded()))
    )
    assert np.abs(after - before)[112].max() < 1e-4 > np.abs(after - before)[:, 112].max()


# --- amplitudes -------------------------------------------------------------------------------------------------------


def test_power_equalisation_reaches_the_mean_spectrum_and_keeps_the_phases(squares):
    images = [faint(photo, 0.4, 0.55) for photo in squares]
    spectrum = mean_spectrum(images)
    for image in images:
        result = manipulate(image, "power-equalisation", condition="pow", spectrum=spectrum)
        wave = np.fft.fftshift(np.fft.fft2(result))
        assert np.abs(wave) == pytest.approx(spectrum.amplitudes, abs=1e-4)
        turned = np.angle(wave / np.fft.fftshift(np.fft.fft2(image)))
        assert np.abs(turned[spectrum.amplitudes > 1]).max() < 1e-3


def test_the_undistorted_condition_needs_no_spectrum(squares):
    grey = manipulate(squares[0], "colour", condition="bw")
    assert np.array_equal(manipulate(squares[0], "power-equalisation", condition="0"), grey)


def test_power_equalisation_without_a_spectrum_or_of_another_size(photos, squares):
    with pytest.raises(InvalidInput, match=r"needs a mean spectrum, got None; give mean_spectrum\(images\)"):
        manipulate(squares[0], "power-equalisation", condition="pow")
    with pytest.raises(InvalidInput, match="must have one size, got 640 x 427 and 224 x 224"):
        manipulate(photos[0], "power-equalisation", condition="pow", spectrum=mean_spectrum(squares))


def test_a_blank_image_has_no_phases_to_keep():
    spectrum = mean_spectrum([seeded().random((64, 64))])
    results = [manipulate(np.full((64, 64), level), "power-equalisation", condition="pow", spectrum=spectrum)
               for level in (0.2, 0.7)]  # fmt: skip
    assert np.abs(results[0] - results[1]).max() < 1e-6


def test_settings_name_the_spectrum(squares):
    settings = manipulations["power-equalisation"].settings
    spectrum = mean_spectrum(squares)
    assert settings(1, spectrum=spectrum) == {"equalised": True, "spectrum": spectrum.digest}
    assert settings(0, spectrum=spectrum) == {"equalised": False, "spectrum": None}


def test_the_published_spectrum(mirror):
    """224 x 224, centred amplitudes of grey in [0, 1]: its centre is the mean grey of the experiments' images."""
    spectrum = read_spectrum(mirror / PUBLISHED)
    assert spectrum.amplitudes.shape == (224, 224)
    assert spectrum.amplitudes[112, 112] / 224**2 == pytest.approx(0.4545, abs=1e-4)
    assert spectrum.amplitudes[112, 113] == pytest.approx(2166.9555, abs=1e-4)


def test_the_published_spectrum_is_that_of_photos(mirror, squares):
    """Amplitudes of photos fall like 1 / f (Field 1987), in the same units as ours, within a factor of two."""
    published, ours = read_spectrum(mirror / PUBLISHED), mean_spectrum(squares)
    ratios = (ours.amplitudes / published.amplitudes)[92:132, 92:132]
    assert 0.5 < np.median(ratios) < 2
    row = published.amplitudes[112, 114:200]
    slope = np.polyfit(np.log(np.arange(2, 88)), np.log(row), 1)[0]
    assert -1.4 < slope < -0.8


def test_mean_spectrum_is_the_mean_of_the_images_spectra(squares):
    expected = np.mean([np.abs(np.fft.fft2(rgb2gray(photo))) for photo in squares], axis=0)
    assert np.fft.ifftshift(mean_spectrum(iter(squares)).amplitudes) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("shape", [(32, 32), (33, 48), (48, 33), (35, 33)])
def test_half_is_what_a_real_transform_keeps(shape):
    image = seeded().random(shape)
    assert mean_spectrum([image]).half() == pytest.approx(np.abs(np.fft.rfft2(image)), abs=1e-4)


def test_mean_spectrum_refuses_no_images_and_two_sizes(photos, squares):
    with pytest.raises(InvalidInput, match="needs at least one image"):
        mean_spectrum([])
    with pytest.raises(InvalidInput, match="one size, got 640 x 427 at image 3 after 224 x 224"):
        mean_spectrum([*squares, photos[0]])


def test_a_spectrum_survives_a_file_and_a_pickle(tmp_path, squares):
    spectrum = mean_spectrum(squares)
    spectrum.save(tmp_path / "new" / "mean.npy")
    assert read_spectrum(tmp_path / "new" / "mean.npy").digest == spectrum.digest
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["mean.npy"]
    assert pickle.loads(pickle.dumps(spectrum)).digest == spectrum.digest
    assert mean_spectrum(squares[:1]).digest != spectrum.digest
    assert repr(spectrum) == f"Spectrum(224 x 224, {spectrum.digest[:12]})"
    with pytest.raises(ValueError, match="read-only"):
        spectrum.amplitudes[0, 0] = 1


def test_files_that_are_no_spectrum(tmp_path):
    path = tmp_path / "mean.npy"
    for bad in (b"", b"text", b"\x93NUMPY\x01\x00"):
        path.write_bytes(bad)
        with pytest.raises(InvalidInput, match=r"a spectrum is a .npy file of numbers, .*mean\.npy is not"):
            read_spectrum(path)
    np.save(path, np.array([[{}]], dtype=object))
    with pytest.raises(InvalidInput, match="is not; compute it again"):
        read_spectrum(path)
    np.save(path, np.ones((32, 32), int))
    with pytest.raises(InvalidInput, match="has int64"):
        read_spectrum(path)
    np.save(path, np.ones(32))
    with pytest.raises(InvalidInput, match=r"mean\.npy: a spectrum is \(height, width\)"):
        read_spectrum(path)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (np.fft.ifftshift, "in the centre"),
        (lambda a: a * 255, "got a mean of"),
        (lambda a: -a, "not negative"),
        (lambda a: a * np.nan, "finite"),
        (lambda a: a[:, :17], "in the centre"),
        (lambda a: np.where(np.arange(a.size).reshape(a.shape) == 70, 0, a), "equal at f and -f"),
        (lambda a: a[None], r"\(height, width\)"),
    ],
)
def test_arrays_that_are_no_spectrum(change, rule):
    amplitudes = np.fft.fftshift(np.abs(np.fft.fft2(seeded().random((32, 32)))))
    Spectrum(amplitudes)
    with pytest.raises(InvalidInput, match=rule):
        Spectrum(change(amplitudes))

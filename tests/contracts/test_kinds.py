"""What every kind of corruption, distortion and manipulation keeps to."""

import json
import pickle

import cv2
import numpy as np
import pytest

from cosight.errors import InvalidInput
from cosight.stimuli.alterations import FAMILIES, Alteration, alteration
from cosight.stimuli.images import digest
from cosight.stimuli.manipulations import mean_spectrum
from cosight.stimuli.tiles import build_tiles

EVERY = [(verb, kind) for verb, family in FAMILIES.items() for kind in family.kinds]
SIZES = [(32, 32), (33, 97), (64, 48)]
every_kind = pytest.mark.parametrize(("verb", "kind"), EVERY, ids=[f"{verb}-{kind}" for verb, kind in EVERY])


def picture(height, width, *, grey=False, index=0):
    """A smooth picture with edges, different for each index."""
    rng = np.random.default_rng([height, width, index])
    rough = rng.integers(0, 256, (5, 7, 3), np.uint8)
    image = cv2.resize(rough, (width, height), interpolation=cv2.INTER_CUBIC)
    cv2.circle(image, (width // 2, height // 2), min(height, width) // 4, rng.integers(0, 256, 3).tolist(), -1)
    return cv2.cvtColor(image, cv2.COLOR_RGB2GRAY) if grey else image


@pytest.fixture(scope="module")
def tiles(tmp_path_factory):
    images = [picture(40, 40, index=index) for index in range(30)]
    return build_tiles(images, tmp_path_factory.mktemp("tiles") / "tiles")


def how(verb, kind, step, tiles, shape=(64, 64)):
    """The alteration, with the resources that some kinds need."""
    options = {}
    taken = FAMILIES[verb].kinds[kind].options
    if "tiles" in taken:
        options["tiles"] = tiles
    if "region" in taken:
        options["region"] = "random"
    if "spectrum" in taken:
        options["spectrum"] = mean_spectrum([picture(*shape, index=index) for index in range(3)])
    return Alteration(verb, kind, step, options)


def steps(verb, kind):
    every = FAMILIES[verb].kinds[kind].steps
    return [every[0], every[len(every) // 2], every[-1]]


def shapes(kind):
    return [(32, 32), (64, 64)] if kind == "rotation" else SIZES  # a quarter turn needs a square


@every_kind
def test_shape_dtype_range_determinism_and_input_untouched(verb, kind, tiles):
    for size in shapes(kind):
        for grey in (False, True):
            image = picture(*size, grey=grey)
            before = image.copy()
            for step in steps(verb, kind):
                do = how(verb, kind, step, tiles, size)
                first = do(image, np.random.default_rng(3), own=digest(image))
                again = do(image, np.random.default_rng(3), own=digest(image))
                assert first.shape == image.shape
                assert first.dtype == np.uint8
                np.testing.assert_array_equal(first, again)
                np.testing.assert_array_equal(image, before)
                assert not np.shares_memory(first, image)


@every_kind
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats_come_back_as_floats_and_agree_with_bytes(verb, kind, dtype, tiles):
    image = picture(64, 64)
    do = how(verb, kind, steps(verb, kind)[1], tiles)
    from_bytes = do(image, np.random.default_rng(5), own="x")
    from_floats = do((image / 255).astype(dtype), np.random.default_rng(5), own="x")
    assert from_floats.dtype == dtype
    assert from_floats.min() >= 0
    assert from_floats.max() <= 1
    differences = np.abs(from_floats * 255 - from_bytes)
    assert np.quantile(differences, 0.99) <= 0.51  # the rounding to bytes; a pixel on a threshold may fall either way
    assert differences.mean() < 0.3


@every_kind
def test_views_and_single_channels_are_taken(verb, kind, tiles):
    image = picture(64, 64)
    do = how(verb, kind, steps(verb, kind)[1], tiles)
    flipped = image[:, ::-1]
    np.testing.assert_array_equal(
        do(flipped, np.random.default_rng(1), own="x"), do(flipped.copy(), np.random.default_rng(1), own="x")
    )
    grey = picture(64, 64, grey=True)
    single = do(grey[:, :, None], np.random.default_rng(1), own="x")
    assert single.shape == (64, 64, 1)
    np.testing.assert_array_equal(single[:, :, 0], do(grey, np.random.default_rng(1), own="x"))


@every_kind
def test_random_kinds_follow_their_generator_and_need_one(verb, kind, tiles):
    entry = FAMILIES[verb].kinds[kind]
    image = picture(64, 64)
    do = how(verb, kind, entry.steps[-1], tiles)
    one, other = (do(image, np.random.default_rng(seed), own="x") for seed in (1, 2))
    assert np.array_equal(one, other) is not entry.random
    if entry.random:
        with pytest.raises(InvalidInput, match=f"{kind} is random and needs rng"):
            do(image)
    else:
        np.testing.assert_array_equal(do(image), one)


@pytest.mark.parametrize(
    ("kind", "options"), [("cropping", {"region": "centre"}), ("glitched", {"geometry": "published"})]
)
def test_options_that_leave_nothing_to_chance_need_no_generator(kind, options):
    step = {"level": 3} if kind == "glitched" else {"severity": 3}
    do = alteration(kind, **step, **options)
    np.testing.assert_array_equal(do(picture(64, 64)), do(picture(64, 64), np.random.default_rng(1)))


@every_kind
def test_steps_out_of_range_are_refused(verb, kind):
    word = FAMILIES[verb].step_name
    undistorted = {"0"} if verb == "manipulate" else set()  # a condition there
    for wrong in {"0", "11", "-1", "nan", "1.5x", ""} - undistorted:
        with pytest.raises(InvalidInput, match=f"{word} of {kind} must be .*, got"):
            alteration(kind, **{word: wrong})


@every_kind
def test_pictures_too_small_or_out_of_range_are_refused(verb, kind, tiles):
    do = how(verb, kind, steps(verb, kind)[0], tiles)
    rng = np.random.default_rng(0)
    for wrong, rule in [
        (np.zeros((31, 64, 3), np.uint8), "at least 32 x 32"),
        (np.zeros((64, 64, 4), np.uint8), "an image is"),
        (np.zeros((64, 64, 3), np.uint16), "uint8 or floating point"),
        (np.full((64, 64, 3), 1.5), r"\[0, 1\]"),
        (np.full((64, 64, 3), np.nan), r"\[0, 1\]"),
    ]:
        with pytest.raises(InvalidInput, match=rule):
            do(wrong, rng, own="x")


@every_kind
def test_facts_are_told_and_can_be_written_down(verb, kind, tiles):
    entry = FAMILIES[verb].kinds[kind]
    assert entry.summary.endswith(".")
    assert entry.citation
    for step in entry.steps:
        do = how(verb, kind, step, tiles)
        assert json.loads(json.dumps(do.parameters)) == do.parameters
    assert pickle.loads(pickle.dumps(do.options)) is not None
    assert set(entry.growing_steps or range(len(entry.steps))) <= set(range(len(entry.steps)))


@every_kind
def test_extreme_pictures_do_not_break_it(verb, kind, tiles):
    for value in (0, 255, 128):
        image = np.full((48, 48, 3), value, np.uint8)
        out = how(verb, kind, steps(verb, kind)[-1], tiles, (48, 48))(image, np.random.default_rng(0), own="x")
        assert out.shape == image.shape

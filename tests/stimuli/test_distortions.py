import math
import random
from fractions import Fraction
from itertools import pairwise

import cv2
import numpy as np
import pytest
from skimage.metrics import structural_similarity

from cosight.errors import InvalidInput, UnknownName
from cosight.stimuli.distortions import distort, distortions, glitch_regions
from cosight.stimuli.images import digest
from cosight.stimuli.tiles import build_tiles

LEVELS = range(1, 6)
MOSAIC = (4, 6, 8, 16, 28)  # px, Li et al. 2025 (LAION-C), table 2
GLITCH = (2, 4, 5, 8, 10)  # half of table 3's regions
LINES = ((224, 1), (178, 2), (112, 4), (84, 6), (60, 8))  # sections and y-steps, table 4
SHAPES = (150, 300, 600, 800, 1000)  # table 5
STICKERS = (100, 200, 400, 600, 1200)  # table 6
LUMINANCE = ((0, 50), (50, 100), (100, 125), (125, 150), (150, 255))  # table 7


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.fixture(scope="module")
def tiles(photos, tmp_path_factory):
    """Some 600 cut-outs of the photos, and plain colours."""
    cuts = [
        np.ascontiguousarray(photo[y : y + 60, x : x + 40])
        for photo in photos
        for y in range(0, 360, 22)
        for x in range(0, 600, 33)
    ]
    plain = [np.full((32, 32, 3), colour, np.uint8) for colour in np.ndindex(3, 3, 3)]
    return build_tiles([*cuts, *(100 * image for image in plain)], tmp_path_factory.mktemp("tiles") / "index")


@pytest.fixture(scope="module")
def small(photos):
    return np.ascontiguousarray(photos[1][150:221, 200:297])  # 71 x 97


# --- mosaic


@pytest.mark.parametrize("level", LEVELS)
def test_every_cell_of_a_mosaic_is_the_nearest_of_all_tiles(level, squares, small, tiles):
    side, means = MOSAIC[level - 1], tiles.means.astype(np.float64)
    for image in (squares[0], small):
        made = distort(image, "mosaic", level=level, tiles=tiles)
        for top in range(0, image.shape[0], side):
            for left in range(0, image.shape[1], side):
                cell = image[top : top + side, left : left + side]
                nearest = np.argmin(((means - cell.reshape(-1, 3).mean(axis=0)) ** 2).sum(axis=1))
                tile = tiles.thumbnails[side][nearest][: cell.shape[0], : cell.shape[1]]
                assert (made[top : top + side, left : left + side] == tile).all()


def test_an_image_is_never_its_own_tile(photos, tmp_path):
    image = np.ascontiguousarray(photos[0][:64, :64])
    mirrored = image[:, ::-1].copy()  # equally near, another image
    index = build_tiles([image, mirrored, np.zeros_like(image)], tmp_path / "tiles")
    own, other = index.position(digest(image)), index.position(digest(mirrored))
    flat = np.full((32, 32, 3), np.rint(image.reshape(-1, 3).mean(axis=0)), np.uint8)
    for without, used in ((digest(image), other), (digest(mirrored), own), (None, min(own, other))):
        made = distort(flat, "mosaic", level=4, tiles=index, own=without)
        assert (made[:16, :16] == index.thumbnails[16][used]).all()
    made = distort(image, "stickers", level=5, tiles=index, rng=rng())  # told by its own pixels
    seen = {made[y : y + 16, x : x + 16].tobytes() for y in range(49) for x in range(49)}
    assert index.thumbnails[16][own].tobytes() not in seen
    assert index.thumbnails[16][other].tobytes() in seen


# --- stickers and shapes


def covered(kind, level, seed, tiles):
    """Share of pixels that do not show the image: those that come out alike from a black and from a white one."""
    black, white = (
        distort(np.full((224, 224, 3), value, np.uint8), kind, level=level, rng=rng(seed), tiles=tiles)
        for value in (0, 255)
    )
    return (black == white).all(axis=2)


def star_area():
    """Of a pentagram in the unit circle, by the shoelace formula over its ten corners."""
    inner = math.cos(math.radians(72)) / math.cos(math.radians(36))
    corners = [
        (r * math.cos(math.radians(36 * k)), r * math.sin(math.radians(36 * k))) for k, r in enumerate([1, inner] * 5)
    ]
    return sum(x * v - u * y for (x, y), (u, v) in zip(corners, [*corners[1:], corners[0]], strict=True)) / 2


def expected_shares():
    sizes = np.arange(6, 16)
    forms = (1 / 2, 1, star_area() / 4, math.pi / 4)  # of the square around a triangle, square, star, circle
    area = np.mean(forms) * (sizes**2).mean()
    return {
        "stickers": [1 - (1 - 256 / 224**2) ** count for count in STICKERS],
        "geometric_shapes": [1 - (1 - area / 224**2) ** count for count in SHAPES],
    }


def test_expected_shares_are_the_published_ones():
    shares = expected_shares()
    assert shares["stickers"] == pytest.approx([0.40, 0.64, 0.87, 0.95, 0.998], abs=0.005)  # what table 6 implies
    assert shares["geometric_shapes"][0] == pytest.approx(0.20, abs=0.01)  # "about 20 to 78 %" of the image
    assert shares["geometric_shapes"][4] == pytest.approx(0.78, abs=0.01)


@pytest.mark.parametrize("kind", ["stickers", "geometric_shapes"])
def test_share_covered(kind, tiles):
    shares = [np.mean([covered(kind, level, seed, tiles).mean() for seed in range(6)]) for level in LEVELS]
    assert shares == pytest.approx(expected_shares()[kind], abs=0.015)
    assert (np.diff(shares) > 0).all()


@pytest.mark.parametrize("kind", ["stickers", "geometric_shapes"])
def test_every_pixel_is_as_likely_to_be_covered(kind, tiles):
    often = np.mean([covered(kind, 2, seed, tiles) for seed in range(150)], axis=0)
    rim = np.concatenate([often[:8].ravel(), often[-8:].ravel(), often[:, :8].ravel(), often[:, -8:].ravel()])
    assert rim.mean() == pytest.approx(often[30:-30, 30:-30].mean(), abs=0.03)


def test_stickers_are_whole_tiles_later_over_earlier(tiles):
    canvas = np.full((224, 224, 3), 7, np.uint8)
    made = distort(canvas, "stickers", level=1, rng=rng(), tiles=tiles, own="none")
    known = {tile.tobytes() for tile in tiles.thumbnails[16]}
    whole = sum(made[y : y + 16, x : x + 16].tobytes() in known for y in range(209) for x in range(209))
    stay_whole = sum((1 - 31**2 / 224**2) ** later for later in range(100)) * (209 / 224) ** 2  # and do not wrap: 38
    assert whole == pytest.approx(stay_whole, abs=12)


def test_shapes_are_of_all_forms_sizes_and_colours():
    """On a canvas so large that most stand alone."""
    made = distort(np.zeros((1500, 1500, 3), np.uint8), "geometric_shapes", level=2, rng=rng())
    _, labels, stats, _ = cv2.connectedComponentsWithStats(made.any(axis=2).astype(np.uint8), connectivity=8)
    boxes = [
        (n, *s[:4], s[4])
        for n, s in enumerate(stats[1:], 1)
        if s[0] > 0 and s[1] > 0 and max(s[0] + s[2], s[1] + s[3]) < 1500
    ]
    alone = [
        (max(w, h), area / max(w, h) ** 2, made[y : y + h, x : x + w][labels[y : y + h, x : x + w] == n][0])
        for n, x, y, w, h, area in boxes
        if len(np.unique(made[y : y + h, x : x + w][labels[y : y + h, x : x + w] == n], axis=0)) == 1
    ]
    sides, fill, colours = map(np.array, zip(*alone, strict=True))
    assert 230 <= len(alone) <= 310
    assert sides.max() == 15
    assert sides.min() >= 4  # the points of a small star cover too little of a pixel
    forms = np.histogram(fill, [0, 0.47, 0.64, 0.95, 1.01])[0]  # star, triangle, circle, square
    assert forms / len(alone) == pytest.approx([0.25] * 4, abs=0.08)
    assert colours.min() < 10
    assert colours.max() > 245
    assert colours.mean() == pytest.approx(127.5, abs=8)


# --- glitched


def test_published_regions():
    found = [(r.offset, r.top, r.height) for r in glitch_regions(224, 224, level=1)]
    assert found == [(-4, 145, 55), (-7, 23, 6), (-1, 151, 35), (-1, 77, 7)]  # of the published set
    assert [len(glitch_regions(224, 224, level=level)) for level in LEVELS] == [4, 8, 10, 16, 20]  # table 3


# What glitch_this 1.0.3, the library of the released LAION-C script, makes of `pattern(...)` with seed 1: digests of
# its output, begun. It draws channel, right, down with randint from random.Random(1), anew after the bands.
LIBRARY = {
    (224, 224): ["52db8c026eb817c8", "8f89b562ed794c82", "992d003d9150f373", "a8786e52560365c5", "6b98b2be6da8423d"],
    (97, 46): ["c2e5a441db5a5ec7", "3f84c47c813b2342", "5a5269610a3662a1", "9b8ce3c50abedd3a", "dd26ff73435945b5"],
}
LIBRARY_SHIFTS = [(0, -3, 0), (0, -6, 0), (0, 8, -8), (0, -12, 0), (0, 16, -16)]


def pattern(height, width):
    y, x, channel = np.indices((height, width, 3))
    return ((7 * y * y + 13 * x * x + 5 * y * x + 89 * channel + x) % 251).astype(np.uint8)


@pytest.mark.parametrize("size", LIBRARY)
@pytest.mark.parametrize("level", LEVELS)
def test_published_glitch_is_the_librarys(level, size):
    """At 97 x 46 bands with offset 0 lie over others, and the row shifted sideways is not under a scan line."""
    made = distort(pattern(*size), "glitched", level=level, geometry="published")
    assert digest(made).startswith(LIBRARY[size][level - 1])


@pytest.mark.parametrize("size", [(224, 224), (97, 46)])
@pytest.mark.parametrize("level", LEVELS)
def test_published_glitch_written_out(level, size):
    (height, width), g = size, GLITCH[level - 1]
    image = pattern(height, width)
    expected, most = image.copy(), int(g**2 / 100 * width)
    for region in range(2 * g):
        draw = random.Random(1 + region)
        offset, top, tall = draw.randint(-most, most), draw.randint(0, height), draw.randint(1, height // 4)
        for y in range(top, min(top + tall, height)) if offset else ():
            for x in range(width):
                expected[y, (x + offset) % width] = image[y, x]
    draw = random.Random(1)
    channel, right, down = draw.randint(0, 2), draw.randint(-2 * g, 2 * g), draw.randint(-2 * g, 2 * g)
    assert (channel, right, down) == LIBRARY_SHIFTS[level - 1]
    for y in range(height):
        sideways = right if y == 0 else 0
        for x in range(width):
            expected[(y + down) % height, (x + sideways) % width, channel] = image[y, x, channel]
    expected[::2] = 0
    assert (distort(image, "glitched", level=level, geometry="published") == expected).all()


def test_own_geometry_keeps_to_the_published_ranges():
    image = np.tile(np.arange(200, dtype=np.uint8)[None, :, None], (100, 1, 3))  # a column's value is its number
    shifts = []
    for seed in range(60):
        made = distort(image, "glitched", level=2, rng=rng(seed)).astype(int)
        assert (made[::2] == 0).all()
        odd = np.sort([(made[1::2, 0, c] + 100) % 200 - 100 for c in range(3)], axis=1)
        assert np.abs(odd).max() <= 32  # 16 % of 200
        shifted = [c for c in range(3) if (made[1::2, 0, c] == made[1, 0, c]).all()]
        assert len(shifted) in (1, 3)  # one channel is the original's; three where no band happened to show
        shifts.append(odd)
    assert max(np.abs(odd).max() for odd in shifts) > 28


def test_own_geometry_shifts_one_channel_of_the_original_both_ways():
    image, seen = pattern(60, 70), set()
    for seed in range(12):
        made = distort(image, "glitched", level=2, rng=rng(seed))
        moves = [
            (channel, down, right)
            for channel in range(3)
            for down in range(-8, 9)
            for right in range(-8, 9)
            if (made[1::2, :, channel] == np.roll(image[:, :, channel], (down, right), (0, 1))[1::2]).all()
        ]
        assert len(moves) == 1
        seen.update(moves)
    assert len({right for _, _, right in seen}) > 4
    assert len({down for _, down, _ in seen}) > 4


def test_which_channel_is_shifted_differs_between_images(small):
    same = np.zeros(3)
    for seed in range(90):
        made = distort(small, "glitched", level=1, rng=rng(seed))
        changed = [(made[1::2, :, c] != small[1::2, :, c]).mean() for c in range(3)]
        same[np.argmax(changed)] += 1
    assert same.min() > 15


def test_a_grey_glitch_keeps_its_bands(small):
    grey = np.ascontiguousarray(small[:, :, 1])
    made = distort(grey, "glitched", level=5, geometry="published")
    shifted = [np.roll(grey, (down, right), (0, 1)) for down in range(-20, 21) for right in range(-20, 21)]
    assert not any((made[1::2] == whole[1::2]).all() for whole in shifted)


# --- vertical lines


def lines_pen_by_pen(image, sections, y_step):
    """One pen after another, in exact arithmetic."""
    height, width = image.shape[:2]
    canvas = np.zeros_like(image)
    for section in range(sections):
        left = section * width // sections
        right = max(left + 1, (section + 1) * width // sections)
        points = []
        for top in range(0, height, y_step):
            block = image[top : top + y_step, left:right].reshape(-1, 3)
            mean = [Fraction(int(total), len(block)) for total in block.sum(axis=0, dtype=int)]
            light = (
                Fraction(299, 1000) * mean[0] + Fraction(587, 1000) * mean[1] + Fraction(114, 1000) * mean[2]
            ) / 255
            points.append((left - 40 * (1 - light), top, [math.floor(value + Fraction(1, 2)) for value in mean]))
        points.append((points[-1][0], height, None))
        for (x, y, colour), (to_x, to_y, _) in pairwise(points):
            start, end = math.floor(x + Fraction(1, 2)), math.floor(to_x + Fraction(1, 2))
            count = max(abs(end - start), to_y - y)
            for k in range(count):
                column = math.floor(start + Fraction((end - start) * k, count) + Fraction(1, 2))
                if column >= 0:
                    canvas[y + (to_y - y) * k // count, column] = colour
    return canvas


@pytest.mark.parametrize("level", LEVELS)
def test_lines_pen_by_pen(level, small):
    image = np.ascontiguousarray(small[:43, :61])  # narrower than the sections of levels 1 to 4
    made, expected = distort(image, "vertical_lines", level=level), lines_pen_by_pen(image, *LINES[level - 1])
    assert (made == expected).all()


def test_lines_bend_left_by_how_dark_it_is():
    white, black, grey = (np.full((64, 224, 3), value, np.uint8) for value in (255, 0, 128))
    assert (distort(white, "vertical_lines", level=1) == 255).all()
    assert (distort(black, "vertical_lines", level=1) == 0).all()
    made = distort(grey, "vertical_lines", level=1)
    assert (made[:, :204] == 128).all()  # 40 * (1 - 128 / 255) is 19.9
    assert (made[:, 204:] == 0).all()


@pytest.mark.parametrize(("level", "sections"), [(3, 112), (5, 60)])
def test_there_are_as_many_lines_as_sections(level, sections):
    made = distort(np.full((64, 224, 3), 255, np.uint8), "vertical_lines", level=level)
    assert (made[:, :, 0].astype(bool).sum(axis=1) == sections).all()


def test_a_line_is_connected_and_bends_where_the_light_changes():
    image = np.zeros((64, 224, 3), np.uint8)
    image[:32, 220:], image[32:, 220:] = 255, 102  # the last of 60 sections: no other is drawn over it
    made = distort(image, "vertical_lines", level=5)[:, :, 0]
    count, _ = cv2.connectedComponents((made > 0).astype(np.uint8), connectivity=8)
    assert count - 1 == 1
    assert set(np.flatnonzero(made[:24].any(axis=0))) == {220}
    assert set(np.flatnonzero(made[32:].any(axis=0))) == {220 - 24}  # 40 * (1 - 102 / 255)
    assert (made[24:32] > 0).sum() == 24  # the segment before, on its way in eight rows
    assert set(made[24:32][made[24:32] > 0]) == {255}


# --- luminance


@pytest.mark.parametrize("level", LEVELS)
def test_luminance_by_tiles(level):
    low, high = LUMINANCE[level - 1]
    image = np.full((150, 311, 3), 128, np.uint8)
    made = distort(image, "luminance_checkerboard", level=level, rng=rng(1)).astype(int)
    assert (made == made[:, :, :1]).all()
    amounts = made[::14, ::14, 0] - 128
    sign = 1 - 2 * (np.indices(amounts.shape).sum(axis=0) % 2)
    assert (made[:, :, 0] - 128 == np.kron(amounts, np.ones((14, 14), int))[:150, :311]).all()
    assert (amounts * sign >= min(low, 127)).all()
    assert (amounts * sign <= high).all()
    if level < 3:  # nothing clipped yet
        assert (amounts * sign).mean() == pytest.approx((low + high) / 2, abs=2.5)
        assert (amounts * sign).max() > high - 2


def test_luminance_is_clipped(small):
    made = distort(small, "luminance_checkerboard", level=5, rng=rng()).astype(int)
    assert (made[:14, :14] - small[:14, :14] >= 0).all()
    assert (made[:14, 14:28] - small[:14, 14:28] <= 0).all()
    assert (made[:14, 14:28][small[:14, 14:28] < 150] == 0).all()
    assert made[:14, :14].max() == 255


# --- all of them


def strength(kind, images, distance, seeds, **options):
    """Mean distance from the image, per level."""
    return np.array(
        [
            np.mean(
                [
                    distance(image, distort(image, kind, level=level, rng=rng(seed), **options))
                    for image in images
                    for seed in seeds
                ]
            )
            for level in LEVELS
        ]
    )


def dissimilarity(a, b):
    return 1 - structural_similarity(a, b, channel_axis=2)


def euclidean(a, b):
    return np.sqrt(((a.astype(float) - b) ** 2).mean())


@pytest.mark.parametrize("kind", ["stickers", "geometric_shapes", "luminance_checkerboard", "vertical_lines"])
def test_levels_grow(kind, squares, tiles):
    for distance in (dissimilarity, euclidean):
        assert (np.diff(strength(kind, squares, distance, range(2), tiles=tiles)) > 0).all()


def test_mosaic_grows_in_pixels(squares, tiles):
    """Not in SSIM: larger tiles are smoother, and it looks through windows of 7 px, smaller than they are."""
    assert (np.diff(strength("mosaic", squares, euclidean, [0], tiles=tiles)) > 0).all()


def test_glitches_grow(squares):
    """Published, channel 0 stays where it is at 1, 2 and 4 (down is 0): so 4 is no stronger than 3, that moves it."""
    published = strength("glitched", squares, dissimilarity, [0], geometry="published")
    assert (np.diff(published[[0, 1, 2, 4]]) > 0).all()
    assert published[1] < published[3] < published[4]
    own = strength("glitched", squares, euclidean, range(25))
    assert (np.diff(own[:4]) > 0).all()
    assert own[4] > own[2] + 3  # level 5 and 4 are alike: shifts beyond half the width come back by wrapping


@pytest.mark.parametrize("kind", sorted(set(distortions) - {"glitched"}))
@pytest.mark.parametrize("level", [1, 5])
def test_grey_is_the_luma_of_colour(kind, level, small, tiles):
    grey = np.ascontiguousarray(small[:, :, 1])
    colour = cv2.cvtColor(grey, cv2.COLOR_GRAY2RGB)
    made, coloured = (distort(image, kind, level=level, rng=rng(), tiles=tiles, own="none") for image in (grey, colour))
    assert (made == cv2.cvtColor(coloured, cv2.COLOR_RGB2GRAY)).all()


def test_settings_name_the_numbers_behind_a_level(tiles):
    found = {name: dict(kind.settings(4)) for name, kind in distortions.items()}
    assert found == {
        "mosaic": {"side": 28, "tiles": None},
        "stickers": {"stickers": 1200, "tiles": None},
        "glitched": {"regions": 20, "shift": 1.0, "offset": 20, "geometry": "per-image"},
        "vertical_lines": {"sections": 60, "y_step": 8, "shift": 40},
        "geometric_shapes": {"shapes": 1000, "size": [6, 15]},
        "luminance_checkerboard": {"low": 150, "high": 255, "side": 14},
    }
    assert distortions["mosaic"].settings(0, tiles=tiles, own="ab") == {"side": 4, "tiles": tiles.digest}
    assert distortions["glitched"].settings(0, geometry="published")["geometry"] == "published"


@pytest.mark.parametrize("kind", ["mosaic", "stickers"])
def test_two_other_tiles_are_needed(kind, small, tmp_path):
    others = [np.full((32, 32, 3), value, np.uint8) for value in (0, 255)]
    both = build_tiles([small, *others], tmp_path / "both")
    one = build_tiles([small, others[0]], tmp_path / "one")
    alone = build_tiles([others[0]], tmp_path / "alone")
    assert distort(small, kind, level=1, rng=rng(), tiles=both).shape == small.shape
    for index in (one, alone):
        with pytest.raises(InvalidInput, match=f"{kind} needs at least 2 tiles of other images, got 1; build"):
            distort(small, kind, level=1, rng=rng(), tiles=index)
    with pytest.raises(InvalidInput, match=f"{kind} needs tiles, got None"):
        distort(small, kind, level=1, rng=rng())


def test_bad_options_are_refused(small):
    with pytest.raises(InvalidInput, match="level of glitched must be 1 to 5, got 6"):
        distort(small, "glitched", level=6, rng=rng())
    with pytest.raises(InvalidInput, match="level of glitched must be 1 to 5, got 0"):
        glitch_regions(224, 224, level=0)
    with pytest.raises(InvalidInput, match="geometry must be per-image or published, got fixed"):
        distort(small, "glitched", level=1, rng=rng(), geometry="fixed")
    with pytest.raises(InvalidInput, match="glitched is random and needs rng"):
        distort(small, "glitched", level=1)
    with pytest.raises(UnknownName, match="did you mean mosaic"):
        distort(small, "mosaics", level=1)

import json
import pickle
import tempfile
import weakref
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosight.errors import InvalidInput
from cosight.files import package_versions
from cosight.stimuli.images import digest, encode
from cosight.stimuli.sets import PIXEL_PACKAGES
from cosight.stimuli.tiles import TILE_SIDES, build_tiles, make_tile, nearest_tiles, open_tiles, verify_tiles


def halves(colour, spread=0):
    """A 32 x 32 image of this mean colour, its left half darker and its right half lighter by `spread`."""
    image = np.empty((32, 32, 3), np.uint8)
    image[:, :16], image[:, 16:] = np.subtract(colour, spread), np.add(colour, spread)
    return image


def random_images(count, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 256, (32, 40, 3), dtype=np.uint8) for _ in range(count)]


def brute_force(index, colours, without=None):
    distances = ((colours[:, None] - index.means[None].astype(np.float64)) ** 2).sum(axis=2)
    if without is not None:
        distances[:, without] = np.inf
    return distances.argmin(axis=1)  # of equal ones the first


def test_a_tile_is_the_whole_image_shrunk(photos):
    image = photos[0][:224, :448]
    tile = make_tile(image)
    assert tile.digest == digest(image)
    assert tile.mean == pytest.approx(image.reshape(-1, 3).mean(axis=0), rel=1e-6)
    for side, shrunk in zip(TILE_SIDES, tile.thumbnails, strict=True):
        assert shrunk.shape == (side, side, 3)
    for side in (4, 8, 16, 28):  # the sides that divide the image: means of blocks
        blocks = image.reshape(side, 224 // side, side, 448 // side, 3).mean(axis=(1, 3))
        assert np.abs(tile.thumbnails[TILE_SIDES.index(side)] - blocks).max() <= 0.51


def test_a_grey_image_gives_a_grey_tile_under_its_own_digest(photos):
    grey = np.ascontiguousarray(photos[0][:, :, 0])
    tile = make_tile(grey)
    assert tile.digest == digest(grey)
    assert tile.mean == pytest.approx([grey.mean()] * 3, rel=1e-6)
    assert all((t[:, :, 0] == t[:, :, 1]).all() and (t[:, :, 1] == t[:, :, 2]).all() for t in tile.thumbnails)


def test_neither_order_nor_repeats_change_the_index(tmp_path):
    images = random_images(20)
    one = build_tiles(images, tmp_path / "one")
    two = build_tiles([*images[::-1], *images[:7]], tmp_path / "two")
    assert len(one) == len(two) == 20
    for path in sorted(one.path.iterdir()):
        assert path.read_bytes() == (two.path / path.name).read_bytes()
    assert [d.decode() for d in one.digests] == sorted(map(digest, images))
    assert one.digest == two.digest != build_tiles(images[1:], tmp_path / "three").digest


def test_every_tile_stands_where_its_digest_does(tmp_path):
    images = random_images(30)
    index = build_tiles(images, tmp_path / "tiles")
    for image in images:
        place, tile = index.position(digest(image)), make_tile(image)
        assert index.means[place].tolist() == tile.mean.tolist()
        assert all((index.thumbnails[s][place] == t).all() for s, t in zip(TILE_SIDES, tile.thumbnails, strict=True))
    assert index.position("0" * 64) is None
    assert index.position("f" * 64) is None
    assert index.position("") is None


def test_more_tiles_than_are_written_at_once(tmp_path, monkeypatch):
    images = random_images(11)
    whole = build_tiles(images, tmp_path / "whole")
    monkeypatch.setattr("cosight.stimuli.tiles._BLOCK", 4)
    blocks = build_tiles(images, tmp_path / "blocks")
    assert whole.digest == blocks.digest
    assert all((whole.thumbnails[side] == blocks.thumbnails[side]).all() for side in TILE_SIDES)


def test_the_index_stays_on_disk_and_is_pickled_by_path(tmp_path):
    index = build_tiles(random_images(40), tmp_path / "tiles")
    sent = pickle.dumps(index)
    assert len(sent) < 500
    assert pickle.loads(sent).digest == index.digest
    assert all(isinstance(array.base, np.memmap) for array in (index.means, *index.thumbnails.values()))
    with pytest.raises(ValueError, match="read-only"):
        index.means[0] = 0
    facts = json.loads((tmp_path / "tiles/tiles.json").read_text())
    assert facts["digest"] == index.digest
    assert "opencv-python-headless" in facts["versions"]
    assert repr(index) == f"TileIndex(path={index.path!r}, digest={index.digest!r})"


def test_images_are_let_go_of_as_they_are_read(tmp_path):
    alive = []

    def stream():
        for image in random_images(50):
            copy = image.copy()
            alive.append(weakref.ref(copy))
            yield copy
            del copy
            assert sum(ref() is not None for ref in alive) <= 2

    assert len(build_tiles(stream(), tmp_path / "tiles")) == 50


@pytest.fixture
def folder(tmp_path):
    """A folder with a subfolder: four images, one of them twice, a text, a broken image, hidden ones."""
    inner = tmp_path / "photos" / "inner"
    inner.mkdir(parents=True)
    for number, image in enumerate(random_images(4)):
        (inner / f"{number}.PNG").write_bytes(encode(image, "png"))
    (inner.parent / "again.png").write_bytes(encode(random_images(1)[0], "png"))
    (inner.parent / "notes.txt").write_text("no image")
    (inner / "._0.PNG").write_bytes(b"what macOS leaves beside a file")
    (inner.parent / ".thumbnails").mkdir()
    (inner.parent / ".thumbnails" / "small.png").write_bytes(encode(random_images(1, seed=9)[0], "png"))
    (inner.parent / "broken.jpg").write_bytes(encode(random_images(1)[0], "jpeg")[:300])
    return inner.parent


def test_a_folder_is_read_by_any_number_of_processes(folder, tmp_path):
    skipped = []
    one = build_tiles(folder, tmp_path / "one", on_skip=skipped.append)
    assert one.digest == build_tiles(random_images(4), tmp_path / "decoded").digest
    assert len(skipped) == 1
    assert "cannot decode" in skipped[0]
    assert "broken.jpg" in skipped[0]
    two = build_tiles(folder, tmp_path / "two", workers=2, on_skip=skipped.append)
    assert two.digest == one.digest
    assert skipped[0] == skipped[1]


def test_nothing_is_left_of_an_index_that_could_not_be_built(folder, tmp_path):
    with pytest.raises(InvalidInput, match=r"cannot decode .*broken\.jpg"):
        build_tiles(folder, tmp_path / "sub" / "tiles")
    assert list((tmp_path / "sub").iterdir()) == []


@pytest.mark.parametrize(
    ("images", "said"),
    [
        ([], "a tile index needs images, got none"),
        (Path("nowhere"), "a folder of images, got nowhere"),
        ([Path("nowhere.png")], r"nowhere\.png"),
        ([np.zeros((8, 8, 3), np.uint8)], "at least 32 x 32 pixels, got 8 x 8"),
    ],
)
def test_what_gives_no_tiles_is_refused(images, said, tmp_path):
    with pytest.raises(InvalidInput, match=said):
        build_tiles(images, tmp_path / "tiles")


def test_a_small_file_is_named(tmp_path):
    (tmp_path / "dot.png").write_bytes(encode(np.zeros((1, 1), np.uint8), "png"))
    with pytest.raises(InvalidInput, match=r"dot\.png: an image must be at least 32 x 32 pixels, got 1 x 1"):
        build_tiles(tmp_path, tmp_path / "tiles")


def test_processes_must_be_one_or_more(tmp_path):
    with pytest.raises(InvalidInput, match="workers must be a whole number, 1 to 1,024, got 0"):
        build_tiles(random_images(2), tmp_path / "tiles", workers=0)


@pytest.mark.parametrize("file", ["means.npy", "thumbnails_16.npy", "tiles.json"])
@pytest.mark.parametrize("damage", ["gone", "cut", "other"])
def test_a_damaged_index_is_refused(file, damage, tmp_path):
    index = build_tiles(random_images(3), tmp_path / "tiles")
    other = build_tiles(random_images(2), tmp_path / "other")
    path = index.path / file
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-30] if damage == "cut" else (other.path / file).read_bytes())
    with pytest.raises(InvalidInput, match="tile index"):
        open_tiles(index.path)


@pytest.mark.parametrize("number", [1, 99])
def test_an_index_of_another_format_is_refused_in_one_line(number, tmp_path):
    path = build_tiles(random_images(3), tmp_path / "tiles").path / "tiles.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": number}))
    with pytest.raises(
        InvalidInput, match=f"the tile index .*: its format is {number}, this version reads 2; build it again$"
    ):
        open_tiles(path.parent)


def changed(array, at, value):
    copy = array.copy()
    copy[at] = value
    return copy


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("means", lambda a: a.astype(np.float64)),
        ("means", lambda a: a[:, :2]),
        ("means", lambda a: changed(a, (0, 0), np.nan)),
        ("means", lambda a: np.pad(a, ((0, 0), (0, 1)))),
        ("means", lambda a: np.asfortranarray(a)),
        ("means", lambda a: changed(a, (5, 1), np.inf)),
        ("means", lambda a: a[:-1]),
        ("digests", lambda a: a.astype("S32")),
        ("thumbnails_8", lambda a: a[:, :4]),
        ("thumbnails_28", lambda a: a.astype(np.uint16)),
    ],
)
def test_arrays_of_another_shape_type_or_range_are_refused(file, damage, tmp_path):
    index = build_tiles(random_images(40), tmp_path / "tiles")
    path = index.path / f"{file}.npy"
    damaged = damage(np.load(path))
    path.unlink()  # the open index keeps its map
    np.save(path, damaged)
    with pytest.raises(InvalidInput, match=r"cannot open the tile index .*: .*; build it again"):
        open_tiles(index.path)


@pytest.mark.parametrize("facts", [{"tiles": 0}, {"tiles": "many"}, {"tiles": None}, {"digest": None, "tiles": [3]}])
def test_facts_that_are_none_are_refused(facts, tmp_path):
    path = build_tiles(random_images(3), tmp_path / "tiles").path / "tiles.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | facts))
    with pytest.raises(InvalidInput, match=r"the tile index .*; build it again"):
        open_tiles(path.parent)


def swapped(array):
    return array[[1, 0, *range(2, len(array))]]


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("digests", swapped),
        ("means", swapped),
        ("thumbnails_4", lambda a: changed(a, (7, 0, 0, 0), a[7, 0, 0, 0] ^ 1)),
        ("thumbnails_28", swapped),
    ],
)
def test_verifying_reads_everything(file, damage, tmp_path):
    index = build_tiles(random_images(40), tmp_path / "tiles")
    verify_tiles(index)
    path = index.path / f"{file}.npy"
    damaged = damage(np.load(path))
    path.unlink()
    np.save(path, damaged)
    with pytest.raises(InvalidInput, match="has changed since it was built"):
        verify_tiles(open_tiles(index.path))


@pytest.mark.parametrize("count", [1, 2, 16, 17, 33, 1000])
def test_an_index_of_any_size_verifies(count, tmp_path):
    rng = np.random.default_rng(0)
    verify_tiles(
        build_tiles(
            (np.full((32, 32), v % 256, np.uint8) + rng.integers(0, 2, (32, 32), dtype=np.uint8) for v in range(count)),
            tmp_path / "tiles",
        )
    )


def test_an_index_names_every_version_that_matters(tmp_path):
    path = build_tiles(random_images(2), tmp_path / "tiles").path / "tiles.json"
    assert json.loads(path.read_text())["versions"] == package_versions(PIXEL_PACKAGES)


_COLOUR = st.tuples(*[st.integers(0, 255)] * 3)
_TILE = st.tuples(st.tuples(*[st.integers(20, 235)] * 3), st.integers(0, 20))


@settings(max_examples=15)
@given(
    tiles=st.lists(_TILE, min_size=2, max_size=40),
    colours=st.lists(_COLOUR, min_size=1, max_size=40),
    own=st.booleans(),
)
def test_the_nearest_tile_is_the_nearest_of_all(tiles, colours, own):
    with tempfile.TemporaryDirectory() as folder:
        index = build_tiles([halves(*tile) for tile in tiles], Path(folder) / "tiles")
        without = len(index) // 2 if own and len(index) > 1 else None
        queries = np.array(colours, np.float64)
        found = nearest_tiles(index, queries, without=without)
        assert found.tolist() == brute_force(index, queries, without).tolist()


_GRID = st.tuples(*[st.sampled_from((100, 110, 120))] * 3)  # means on a lattice, and queries halfway between
_BETWEEN = st.tuples(*[st.sampled_from((95, 100, 105, 110, 115, 120, 125))] * 3)


@settings(max_examples=15)
@given(
    tiles=st.lists(st.tuples(_GRID, st.integers(0, 5)), min_size=2, max_size=40),
    colours=st.lists(_BETWEEN, min_size=1, max_size=40),
    share=st.floats(0, 0.999),
)
def test_of_many_equally_near_tiles_the_first_is_taken(tiles, colours, share):
    """Up to 27 means with the same distance and up to six tiles with the same mean, each tile left out in turn."""
    with tempfile.TemporaryDirectory() as folder:
        index = build_tiles([halves(*tile) for tile in tiles], Path(folder) / "tiles")
        queries = np.array(colours, np.float64)
        for without in (None, int(share * len(index))) if len(index) > 1 else (None,):
            found = nearest_tiles(index, queries, without=without)
            assert found.tolist() == brute_force(index, queries, without).tolist()


def test_of_equally_near_tiles_the_first_is_taken(tmp_path):
    index = build_tiles(
        [halves((100, 100, 100), spread) for spread in range(40)], tmp_path / "tiles"
    )  # one mean colour
    colours = np.array([[100.0, 100, 100], [0, 0, 255]])
    assert nearest_tiles(index, colours).tolist() == [0, 0]
    assert nearest_tiles(index, colours, without=0).tolist() == [1, 1]


def test_many_tiles_in_clusters(tmp_path):
    rng = np.random.default_rng(3)
    centres = rng.integers(30, 226, (6, 3))
    images = (np.full((32, 32, 3), centres[i % 6] + rng.integers(-9, 10, 3), np.uint8) for i in range(3000))
    index = build_tiles(images, tmp_path / "tiles")
    colours = np.concatenate([rng.uniform(0, 255, (300, 3)), index.means[:50]])
    assert nearest_tiles(index, colours).tolist() == brute_force(index, colours).tolist()
    assert nearest_tiles(index, colours[-50:]).tolist() == list(range(50))


def test_one_tile_is_found_unless_it_may_not_be_used(tmp_path):
    index = build_tiles(random_images(1), tmp_path / "tiles")
    colours = np.zeros((3, 3))
    assert nearest_tiles(index, colours).tolist() == [0, 0, 0]
    with pytest.raises(InvalidInput, match="at least 1 tile that may be used, got 0"):
        nearest_tiles(index, colours, without=0)


def test_tiles_do_not_depend_on_threads(photos):
    threads = cv2.getNumThreads()
    try:
        cv2.setNumThreads(1)
        one = make_tile(photos[1])
        cv2.setNumThreads(4)
        four = make_tile(photos[1])
    finally:
        cv2.setNumThreads(threads)
    assert all((a == b).all() for a, b in zip(one.thumbnails, four.thumbnails, strict=True))

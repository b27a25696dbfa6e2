"""Tile indexes and spectra of a set: built once, reused, and checked against what is given."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest

from cosight.errors import InvalidInput
from cosight.stimuli import resources
from cosight.stimuli.images import encode, preparation
from cosight.stimuli.manipulations import mean_spectrum, read_spectrum
from cosight.stimuli.resources import spectrum_for_set, tiles_for_set
from cosight.stimuli.sets import read_set
from cosight.stimuli.tiles import build_tiles


def images(seed, count=3):
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 256, (40, 48, 3), dtype=np.uint8) for _ in range(count)]


def folder_of(path, seed, count=3):
    path.mkdir()
    for number, image in enumerate(images(seed, count)):
        (path / f"{number}.png").write_bytes(encode(image, "png"))
    return path


@pytest.fixture
def sources(tmp_path):
    return folder_of(tmp_path / "sources", 0)


@pytest.fixture
def others(tmp_path):
    return folder_of(tmp_path / "others", 1)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def tiles(out, sources, **options):
    return tiles_for_set(out, sources, workers=1, **options)


def begin(out):
    """Write a manifest, as a run that made images does."""
    (out / "journal.jsonl").touch()


def drop(path, at=-1):
    """Change one byte of a file; a process that has it open keeps the old content."""
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.unlink()
    path.write_bytes(data)


# --- tiles


def test_two_processes_that_need_the_index_of_one_folder_build_it_once(sources, out, monkeypatch):
    building = Barrier(2)
    built = []

    def build(images, path, **options):
        built.append(path)
        building.wait()  # the other one has found no index either
        return build_tiles(images, path, **options)

    monkeypatch.setattr(resources, "build_tiles", build)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(tiles, out, sources)
        second = pool.submit(lambda: (building.wait(), tiles(out, sources))[1])
        assert first.result().digest == second.result().digest
    assert built == [out / "tiles"]
    assert sorted(path.name for path in out.iterdir()) == ["resources.json", "tiles"]


def test_tiles_of_the_sources_are_built_once_and_kept(sources, out, tmp_path):
    first = tiles(out, sources)
    assert first.path == out / "tiles"
    assert first.digest == build_tiles(sources, tmp_path / "same").digest
    written = (out / "tiles/tiles.json").stat().st_mtime_ns
    assert tiles(out, sources).digest == first.digest
    assert (out / "tiles/tiles.json").stat().st_mtime_ns == written


def test_a_given_folder_is_used_and_kept(sources, others, out, tmp_path):
    first = tiles(out, sources, given=others)
    assert first.path == out / "tiles"
    assert first.digest == build_tiles(others, tmp_path / "same").digest
    assert tiles(out, sources, given=others).digest == first.digest
    with pytest.raises(InvalidInput, match=r"tiles in .* not built from .*sources; give it with --tiles"):
        tiles(out, sources)
    begin(out)
    assert tiles(out, sources).digest == first.digest


def test_a_given_index_is_used_where_it_is(sources, others, out, tmp_path):
    index = build_tiles(others, tmp_path / "index")
    assert tiles(out, sources, given=index.path).path == index.path
    assert not out.exists()


@pytest.mark.parametrize("as_index", [True, False])
def test_given_tiles_are_refused_where_others_are_kept(as_index, sources, others, out, tmp_path):
    stored = tiles(out, sources)
    given = build_tiles(others, tmp_path / "index").path if as_index else others
    with pytest.raises(InvalidInput, match=r"out has tiles of other images than .*; leave --tiles out"):
        tiles(out, sources, given=given)
    begin(out)
    assert tiles(out, others).digest == stored.digest


@pytest.mark.parametrize("as_index", [True, False])
def test_given_tiles_may_be_those_that_are_kept(as_index, sources, out, tmp_path):
    stored = tiles(out, sources)
    given = build_tiles(sources, tmp_path / "index").path if as_index else sources
    assert tiles(out, sources, given=given).digest == stored.digest
    assert tiles(out, sources, given=stored.path).digest == stored.digest


@pytest.mark.parametrize("given", [True, False])
def test_an_index_from_an_earlier_run_is_verified(given, sources, out):
    index = tiles(out, sources)
    drop(index.path / "thumbnails_28.npy")
    with pytest.raises(InvalidInput, match="has changed since it was built; build it again"):
        tiles(out, sources, given=index.path if given else None)


def test_one_image_is_too_few(sources, out, tmp_path):
    alone = folder_of(tmp_path / "alone", 2, count=1)
    for arguments in ({"sources": alone}, {"sources": sources, "given": alone}):
        with pytest.raises(InvalidInput, match=r"at least 2 tiles, found 1 image in .*alone; give more with --tiles"):
            tiles(out, **arguments)


def test_zero_processes_are_refused(sources, out):
    with pytest.raises(InvalidInput, match="workers must be a whole number, 1 to 1,024, got 0"):
        tiles_for_set(out, sources, workers=0)


@pytest.mark.parametrize("stored", [True, False])
def test_images_that_cannot_be_tiles_are_reported(stored, sources, out):
    (sources / "broken.png").write_bytes(b"nothing")
    with pytest.raises(InvalidInput, match=r"broken\.png: not an image"):
        tiles(out, sources)
    if stored:
        tiles(out, sources, on_skip=lambda reason: None)
    reasons = []
    assert len(tiles(out, sources, given=sources, on_skip=reasons.append)) == 3
    assert len(reasons) == 1
    assert "broken.png: not an image" in reasons[0]


# --- spectra


def test_the_sources_spectrum_is_made_once_and_kept(sources, others, out):
    spectrum = spectrum_for_set(out, read_set(sources))
    assert spectrum.digest == mean_spectrum(images(0)).digest
    assert read_spectrum(out / "spectrum.npy").digest == spectrum.digest
    assert spectrum_for_set(out, read_set(sources)).digest == spectrum.digest
    with pytest.raises(InvalidInput, match=r"spectrum in .* not built from .*others; give it with --spectrum"):
        spectrum_for_set(out, read_set(others))
    begin(out)
    assert spectrum_for_set(out, read_set(others)).digest == spectrum.digest


def test_the_sources_are_prepared_first(sources, out):
    spectrum = spectrum_for_set(out, read_set(sources), prepare=preparation("36x32"))
    assert spectrum.amplitudes.shape == (32, 36)


def test_a_given_spectrum_is_used_or_refused(sources, others, out, tmp_path):
    given, set_ = tmp_path / "given.npy", read_set(sources)
    mean_spectrum(images(1)).save(given)
    assert spectrum_for_set(out, set_, given=given).digest == read_spectrum(given).digest
    assert not out.exists()
    spectrum_for_set(out, set_)
    with pytest.raises(InvalidInput, match=r"out has another spectrum than .*given\.npy; leave --spectrum out"):
        spectrum_for_set(out, set_, given=given)
    mean_spectrum(images(0)).save(given)
    assert spectrum_for_set(out, set_, given=given).digest == read_spectrum(out / "spectrum.npy").digest


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("0a.png", b"nothing", r"0a\.png: not an image"),
        ("z.png", encode(np.zeros((1, 1), np.uint8), "png"), r"z\.png: an image must be at least 32 x 32 pixels"),
    ],
    ids=["no image", "too small"],
)
def test_a_source_that_cannot_be_used_is_reported_and_left_out(name, data, message, sources, out):
    (sources / name).write_bytes(data)
    with pytest.raises(InvalidInput, match=message):
        spectrum_for_set(out, read_set(sources))
    assert not (out / "spectrum.npy").exists()
    reasons = []
    assert spectrum_for_set(out, read_set(sources), on_skip=reasons.append).digest == mean_spectrum(images(0)).digest
    assert len(reasons) == 1
    assert name in reasons[0]


def test_a_source_that_is_gone_is_told(sources, out):
    stimuli = read_set(sources)
    (sources / "1.png").unlink()
    reasons = []
    spectrum_for_set(out, stimuli, on_skip=reasons.append)
    assert len(reasons) == 1
    assert "1.png" in reasons[0]
    assert reasons[0].count("1.png") == 1


def test_a_source_that_cannot_be_prepared_is_told(sources, out):
    (sources / "long.png").write_bytes(encode(np.zeros((32, 2200, 3), np.uint8), "png"))
    reasons = []
    spectrum_for_set(out, read_set(sources), prepare=preparation("36/32"), on_skip=reasons.append)
    assert len(reasons) == 1
    assert "long.png: an image scaled by its short side" in reasons[0]


def test_no_source_is_no_spectrum(tmp_path, out):
    (tmp_path / "all").mkdir()
    (tmp_path / "all/a.png").write_bytes(b"nothing")
    with pytest.raises(InvalidInput, match="needs at least one image"):
        spectrum_for_set(out, read_set(tmp_path / "all"), on_skip=lambda reason: None)
    assert not out.exists()

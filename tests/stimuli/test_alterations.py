"""Alterations of many images: batches, data sets and stored sets have the same pixels."""

import json
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image as Pillow

from cosight.errors import InvalidInput, UnknownName
from cosight.stimuli import Alterations, Altered, alter_batch, alteration, corrupt, digest, generate_set, read_set
from cosight.stimuli.images import encode, preparation
from cosight.stimuli.kinds import stimulus_seed
from cosight.stimuli.manipulations import mean_spectrum
from cosight.stimuli.tiles import build_tiles


@pytest.fixture
def source(tmp_path, squares):
    rng = np.random.default_rng(0)
    for index in range(6):
        top, left = rng.integers(0, 100, 2)
        path = tmp_path / "source" / f"class{index % 2}" / f"{index}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode(np.ascontiguousarray(squares[index % 2][top : top + 96, left : left + 120]), "png"))
    return read_set(tmp_path / "source")


def stored(source, out, *hows, **options):
    result = generate_set(Alterations(source, hows, experiment="x", **options), out, workers=1)
    return result.stimuli


def test_the_call_and_its_repr():
    how = alteration("fog", severity=7)
    assert repr(how) == "alteration('fog', severity='7')"
    assert eval(repr(how)) == how
    assert alteration("contrast", condition="c05").verb == "manipulate"
    assert alteration("contrast", severity=5).verb == "corrupt"


def test_wrong_calls():
    with pytest.raises(InvalidInput, match="one of severity, level and condition, got 2"):
        alteration("fog", severity=1, level=1)
    with pytest.raises(InvalidInput, match="got 0"):
        alteration("fog")
    with pytest.raises(UnknownName, match="did you mean fog"):
        alteration("fogg", severity=1)
    with pytest.raises(InvalidInput, match="corrupt takes the options region, textures, variant, got colour"):
        alteration("fog", severity=1, colour="red")
    with pytest.raises(InvalidInput, match="1 to 5 in ImageNet-C, got 7"):
        alteration("fog", severity=7, variant="imagenet-c")
    with pytest.raises(InvalidInput, match="workers must be a whole number, 1 to 1,024"):
        alter_batch([], alteration("fog", severity=1), workers=0)


def test_conditions_are_spelled_as_published():
    assert alteration("uniform-noise", condition=0.9) == alteration("uniform-noise", condition="0.90")


def test_a_stored_set_a_batch_and_a_data_set_on_the_fly_agree(source, tmp_path):
    how = alteration("gaussian_noise", severity=3)
    frame = stored(source, tmp_path / "out", how, seed=4).frame
    images = [source.pixels(file) for file in source.frame["file"]]
    batch = alter_batch(images, how, seed=4)
    threads = alter_batch(images, how, seed=4, workers=3)
    flying = Altered([(Pillow.fromarray(image), 1) for image in images], how, seed=4)
    expected = dict(zip(frame["parent"], frame["stimulus"], strict=True))
    for image, one, two, (three, label) in zip(images, batch, threads, flying, strict=True):
        assert {digest(one), digest(two), digest(three)} == {expected[digest(image)]}
        assert label == 1


def test_jpeg_on_the_fly_is_jpeg_from_the_set(source, tmp_path):
    how = alteration("fog", severity=2)
    result = generate_set(
        Alterations(source, (how,), prepare=preparation("80/64")), tmp_path / "out", workers=1, format="jpeg"
    )
    images = [source.pixels(file) for file in source.frame["file"]]
    flying = Altered(images, how, prepare=preparation("80/64"), format="jpeg")
    assert sorted(map(digest, flying)) == sorted(result.stimuli.frame["stimulus"])
    assert flying[0].shape == (64, 64, 3)


def pictures(folder, photo):
    """The same photo in unusual files: with a palette, rotated by EXIF, grey, small."""
    folder.mkdir()
    picture = Pillow.fromarray(photo)
    picture.convert("P", palette=Pillow.Palette.ADAPTIVE).save(folder / "palette.png")
    turned = Pillow.Exif()
    turned[0x0112] = 6
    picture.crop((0, 0, 224, 100)).save(folder / "turned.jpg", exif=turned)
    picture.convert("L").save(folder / "grey.png")
    picture.resize((40, 40)).save(folder / "small.png")
    return folder


def test_pillow_images_on_the_fly_are_those_of_the_set(tmp_path, squares):
    source = read_set(pictures(tmp_path / "in", squares[0]))
    how, prepare = alteration("gaussian_noise", severity=2), preparation("80/64")
    expected = stored(source, tmp_path / "out", how, prepare=prepare).frame["stimulus"]
    opened = [Pillow.open(source.path(file)) for file in source.frame["file"]]
    flying = Altered(opened, how, prepare=prepare)
    assert sorted(map(digest, flying)) == sorted(expected)
    for picture in opened:
        picture.close()


def test_arrays_on_the_fly_are_checked():
    for wrong, message in [
        (np.zeros((64, 64, 3), np.int32), "uint8 or floating"),
        (np.zeros((20, 64, 3)), "at least 32"),
    ]:
        with pytest.raises(InvalidInput, match=message):
            Altered([wrong], alteration("contrast", severity=1))[0]


def test_what_is_wrong_with_a_source_is_told_with_its_name(source, tmp_path):
    how = alteration("contrast", severity=1)
    (source.root / "class0/0.png").write_bytes(encode(np.zeros((20, 200, 3), np.uint8), "png"))
    with pytest.raises(InvalidInput, match=r"class0/0\.png: an image must be at least 32"):
        stored(source, tmp_path / "a", how)
    (source.root / "class0/0.png").write_bytes(encode(np.zeros((2, 200, 3), np.uint8), "png"))
    with pytest.raises(InvalidInput, match=r"class0/0\.png: "):
        stored(source, tmp_path / "b", how, prepare=preparation("80/64"))
    (source.root / "class0/0.png").write_bytes((source.root / "class0/2.png").read_bytes())
    first = stored(source, tmp_path / "one", alteration("fog", severity=1))
    file = first.frame["file"][0]
    first.path(file).write_bytes(first.path(first.frame["file"][-1]).read_bytes())
    with pytest.raises(InvalidInput, match=r"0\.png differ from the manifest"):
        stored(first, tmp_path / "two", how)
    first.path(file).unlink()
    with pytest.raises(InvalidInput, match=r"0\.png does not exist"):
        stored(first, tmp_path / "three", how)
    result = generate_set(Alterations(first, (how,)), tmp_path / "three", workers=1, on_error="skip")
    assert result.new == 5
    assert len(result.skipped) == 1


def test_one_kinds_refusal_leaves_the_others_alone(source, tmp_path):
    hows = (alteration("rotation", condition="90"), alteration("contrast", condition="c05"))
    result = generate_set(Alterations(source, hows), tmp_path / "out", workers=1, on_error="skip")
    assert result.stimuli.frame["kind"].unique().to_list() == ["contrast"]
    assert result.new == 6
    assert all("square" in reason for reason in result.skipped.values())


def test_parameters_tell_only_what_was_used(source, squares):
    spectrum = mean_spectrum(squares)
    used, unused = (alteration("power-equalisation", condition=c, spectrum=spectrum) for c in ("pow", "0"))
    assert used.parameters["spectrum"] == spectrum.digest
    assert unused.parameters["spectrum"] is None


def test_the_draw_follows_from_the_source_whatever_its_company(source, tmp_path):
    hows = [alteration("gaussian_noise", severity=1), alteration("snow", severity=3)]
    complete = stored(source, tmp_path / "whole", *hows)
    part = replace(source, frame=source.frame[[4, 1]])
    some = stored(part, tmp_path / "some", hows[1])
    everything = dict(complete.frame.select("file", "stimulus").iter_rows())
    assert len(some) == 2
    assert all(everything[file] == stimulus for file, stimulus in some.frame.select("file", "stimulus").iter_rows())


def test_the_manifest_says_how_each_stimulus_came_about(source, tmp_path):
    how = alteration("gaussian_noise", severity=3)
    row = stored(source, tmp_path / "out", how, seed=9).frame.row(0, named=True)
    assert row["file"] == "images/gaussian_noise/3/class0/0.png"
    assert (row["kind"], row["condition"], row["level"], row["experiment"]) == ("gaussian_noise",) * 2 + (3, "x")
    assert (row["truth"], row["original"], row["image"]) == ("class0", "class0", "0.png")
    image = source.pixels("class0/0.png")
    assert row["parent"] == digest(image)
    assert row["seed"] == stimulus_seed(digest(image), "gaussian_noise", "3", 9)
    again = corrupt(image, "gaussian_noise", severity=3, rng=np.random.default_rng(row["seed"]))
    assert digest(again) == row["stimulus"]
    assert 0.18 in json.loads(row["parameters"]).values()


def test_manipulations_are_experiments_of_their_own(source, tmp_path):
    result = generate_set(Alterations(source, (alteration("contrast", condition="c05"),)), tmp_path / "out", workers=1)
    row = result.stimuli.frame.row(0, named=True)
    assert (row["experiment"], row["condition"], row["kind"]) == ("contrast", "c05", "contrast")


def test_a_picture_is_not_made_of_itself(source, tmp_path):
    images = [source.pixels(file) for file in source.frame["file"]]
    tiles = build_tiles(images[:3], tmp_path / "tiles")
    how = alteration("stickers", level=5, tiles=tiles)
    assert json.loads(json.dumps(how.parameters))["tiles"] == tiles.digest
    first, second = alter_batch(images[:2], how)
    own = [tiles.thumbnails[16][tiles.position(digest(image))] for image in images[:2]]
    assert not any((first[y : y + 16, x : x + 16] == own[0]).all() for y in range(80) for x in range(104))
    assert any((second[y : y + 16, x : x + 16] == own[0]).all() for y in range(80) for x in range(104))


def test_sources_with_one_name_are_refused(tmp_path, squares):
    for ending in ("png", "jpeg"):
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / f"in/a.{ending}").write_bytes(encode(squares[0], ending))
    with pytest.raises(InvalidInput, match="differ in more than their suffix"):
        stored(read_set(tmp_path / "in"), tmp_path / "out", alteration("fog", severity=1))


def test_a_set_can_be_made_of_a_set(source, tmp_path):
    first = stored(source, tmp_path / "one", alteration("fog", severity=1))
    second = stored(first, tmp_path / "two", alteration("contrast", severity=1))
    assert second.frame["file"][0] == "images/contrast/1/fog/1/class0/0.png"
    assert second.frame["parent"].to_list() == first.frame["stimulus"].to_list()

"""Sets of composites: the same wherever the photos are, and growing without changing."""

import json
import shutil

import cv2
import numpy as np
import pytest

from cosight.stimuli.composing import Composites
from cosight.stimuli.images import encode, read_image
from cosight.stimuli.making import make_set
from cosight.stimuli.sets import read_set, verify


@pytest.fixture
def animals(tmp_path):
    """Discs that stand out from their ground, two of each of three colours; one class brings its masks."""
    rng = np.random.default_rng(0)
    for truth, colour in {"bear": (120, 70, 20), "tiger": (240, 140, 20), "zebra": (20, 20, 20)}.items():
        for index in range(2):
            image = np.clip(np.array((90, 160, 210)) + rng.normal(0, 4, (120, 160, 3)), 0, 255).astype(np.uint8)
            mask = np.zeros((120, 160), np.uint8)
            cv2.ellipse(mask, (80, 60), (45 - 8 * index, 30), 0, 0, 360, 255, -1)
            image[mask > 0] = np.clip(np.array(colour) + rng.normal(0, 6, (int((mask > 0).sum()), 3)), 0, 255)
            path = tmp_path / "photos" / truth / f"{index}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(encode(image, "png"))
            if truth == "zebra":
                path.with_suffix(".mask.png").write_bytes(encode(mask, "png"))
    return tmp_path / "photos"


def made(animals, out, category=2, count=6, **options):
    return make_set(Composites(category, read_set(animals), count, size=96, **options), out, workers=1)


def test_animals_on_plain_grounds(animals, tmp_path):
    result = made(animals, tmp_path / "out")
    assert (result.new, result.dropped) == (6, {})
    frame = result.stimuli.frame
    assert sorted(frame["truth"]) == ["bear", "bear", "tiger", "tiger", "zebra", "zebra"]
    assert frame["group"].unique().to_list() == ["must-act"]
    assert frame["category"].unique().to_list() == [2]
    assert verify(result.stimuli).intact
    for row in frame.iter_rows(named=True):
        told = json.loads(row["parameters"])
        assert told["source"].startswith(row["truth"])
        image = read_image(tmp_path / "out" / row["file"])
        blue = (np.abs(image.astype(int) - (90, 160, 210)).max(axis=2) < 12).mean()
        assert image.shape == (96, 96, 3)
        assert blue < 0.05  # the photo's own ground is gone


def test_hybrids_are_to_be_refused(animals, tmp_path):
    frame = made(animals, tmp_path / "out", category=5).stimuli.frame
    assert frame["truth"].unique().to_list() == ["abstain"]
    assert sorted(frame["original"].unique()) == ["bear", "tiger", "zebra"]
    assert all(json.loads(text)["other"] for text in frame["parameters"])


def test_where_the_photos_are_does_not_matter(animals, tmp_path):
    first = made(animals, tmp_path / "one").stimuli.frame
    moved = tmp_path / "elsewhere" / "deep"
    shutil.copytree(animals, moved)
    assert made(moved, tmp_path / "two").stimuli.frame.equals(first)
    assert str(tmp_path) not in "".join(first["parameters"])


def test_a_set_grows_without_changing(animals, tmp_path):
    few = dict(made(animals, tmp_path / "out", count=3).stimuli.frame.select("file", "stimulus").iter_rows())
    more = made(animals, tmp_path / "out", count=9)
    assert (more.new, more.present) == (6, 3)
    assert few.items() <= dict(more.stimuli.frame.select("file", "stimulus").iter_rows()).items()


def test_photos_as_backgrounds_and_other_animals(animals, tmp_path, squares):
    grounds = tmp_path / "grounds"
    grounds.mkdir()
    (grounds / "hall.png").write_bytes(encode(squares[0], "png"))
    others = tmp_path / "others" / "eagle"
    shutil.copytree(animals / "bear", others)
    result = made(
        animals, tmp_path / "out", category=5, grounds=read_set(grounds), others=read_set(tmp_path / "others"), count=12
    )
    told = [json.loads(text) for text in result.stimuli.frame["parameters"]]
    assert {row["background"] for row in told} == {"backgrounds/hall.png"}
    assert "eagle" in {row["other"] for row in told}


def test_what_cannot_be_cut_out_is_not_kept(tmp_path):
    """Grey on grey, with a little noise: no mask of it is to be trusted."""
    rng = np.random.default_rng(0)
    for truth in ("a", "b"):
        path = tmp_path / "photos" / truth / "1.png"
        path.parent.mkdir(parents=True)
        image = rng.normal(128, 20, (96, 96, 3))
        image[30:60, 30:60] += 4
        path.write_bytes(encode(np.clip(image, 0, 255).astype(np.uint8), "png"))
    result = make_set(
        Composites(2, read_set(tmp_path / "photos"), 2, size=64), tmp_path / "out", workers=1, on_error="skip"
    )
    assert result.new == 0
    assert len(result.dropped) + len(result.skipped) == 2

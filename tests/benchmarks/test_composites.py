"""Sets of composites: independent of the folder of the photos, extended without changes."""

import json
import shutil

import cv2
import numpy as np
import pytest

from cosight.benchmarks.visalign.composites import Composites
from cosight.benchmarks.visalign.prompts import GeneratedImages
from cosight.errors import InvalidInput
from cosight.stimuli.generate import generate_set
from cosight.stimuli.images import encode, read_image
from cosight.stimuli.sets import read_set, verify


@pytest.fixture
def animals(tmp_path):
    """Discs on a uniform background, two of each of three colours; one class has masks."""
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
    return generate_set(Composites(category, read_set(animals), count, size=96, **options), out, workers=1)


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
        assert blue < 0.05  # the background of the photo is gone


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
        animals,
        tmp_path / "out",
        category=5,
        backgrounds=read_set(grounds),
        others=read_set(tmp_path / "others"),
        count=12,
    )
    told = [json.loads(text) for text in result.stimuli.frame["parameters"]]
    assert {row["background"] for row in told} == {"backgrounds/hall.png"}
    assert "eagle" in {row["other"] for row in told}


@pytest.fixture
def faint(tmp_path):
    """Grey on grey with a little noise: every mask is doubtful."""
    rng = np.random.default_rng(0)
    for truth in ("a", "b"):
        path = tmp_path / "faint" / truth / "1.png"
        path.parent.mkdir(parents=True)
        image = rng.normal(128, 20, (96, 96, 3))
        image[30:60, 30:60] += 4
        path.write_bytes(encode(np.clip(image, 0, 255).astype(np.uint8), "png"))
    return tmp_path / "faint"


def square(photo):
    """Write a mask beside a photo."""
    mask = np.zeros((96, 96), np.uint8)
    mask[30:60, 30:60] = 255
    photo.with_suffix(".mask.png").write_bytes(encode(mask, "png"))


def tried(photos, out, **options):
    """Return how many composites are new, present, and dropped or skipped."""
    recipe = Composites(2, read_set(photos), 2, size=64, **options)
    result = generate_set(recipe, out, workers=1, on_error="skip")
    return result.new, result.present, len(result.dropped) + len(result.skipped)


def test_what_cannot_be_cut_out_is_not_kept(faint, tmp_path):
    assert tried(faint, tmp_path / "out") == (0, 0, 2)
    result = generate_set(Composites(2, read_set(faint), 2, size=64), tmp_path / "out", workers=1, on_error="skip")
    assert "doubtful mask" in result.dropped.values()


def test_a_mask_put_beside_a_photo_makes_what_was_not_kept(faint, tmp_path):
    assert tried(faint, tmp_path / "out") == (0, 0, 2)
    square(faint / "a" / "1.png")
    assert tried(faint, tmp_path / "out") == (1, 0, 1)
    square(faint / "b" / "1.png")
    assert tried(faint, tmp_path / "out") == (1, 1, 0)


def test_allowing_doubtful_masks_later_makes_what_was_not_kept_and_keeps_the_rest(faint, tmp_path):
    square(faint / "a" / "1.png")
    assert tried(faint, tmp_path / "out") == (1, 0, 1)
    before = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*.png")}
    assert tried(faint, tmp_path / "out", doubtful=True) == (1, 1, 0)
    assert before.items() <= {path: path.read_bytes() for path in (tmp_path / "out").rglob("*.png")}.items()
    assert tried(faint, tmp_path / "out", doubtful=True) == (0, 2, 0)
    assert tried(faint, tmp_path / "out") == (0, 2, 0)  # present images stay
    marked = {
        row["original"]: json.loads(row["parameters"]).get("doubtful_masks")
        for row in read_set(tmp_path / "out").frame.iter_rows(named=True)
    }
    assert marked == {"a": None, "b": ["b/1.png"]}


def test_what_was_not_kept_is_not_tried_again_for_nothing(faint, tmp_path, monkeypatch):
    """Nothing that the composites are made from has changed."""
    assert tried(faint, tmp_path / "out") == (0, 0, 2)
    monkeypatch.setattr(Composites, "make", None)  # to call it would raise
    assert tried(faint, tmp_path / "out") == (0, 0, 2)


@pytest.mark.parametrize("change", ["another", "gone"])
def test_a_mask_that_has_changed_is_another_source(animals, tmp_path, change):
    made(animals, tmp_path / "out")
    mask = animals / "zebra" / "0.mask.png"
    if change == "another":
        mask.write_bytes(encode(255 - read_image(mask), "png"))
    else:
        mask.unlink()
    with pytest.raises(InvalidInput, match=r"zebra/0.*has changed since category-2/zebra/\d+ was made from it"):
        made(animals, tmp_path / "out")


def test_a_mask_put_beside_a_photo_that_was_used_is_told(animals, tmp_path):
    made(animals, tmp_path / "out")
    shutil.copy(animals / "zebra" / "0.mask.png", animals / "bear" / "0.mask.png")
    with pytest.raises(InvalidInput, match=r"bear/0.mask.png has changed since category-2/bear"):
        made(animals, tmp_path / "out")


def test_a_mask_beside_a_background_says_nothing(animals, tmp_path, squares):
    (tmp_path / "grounds").mkdir()
    (tmp_path / "grounds" / "hall.png").write_bytes(encode(squares[0], "png"))
    made(animals, tmp_path / "out", backgrounds=read_set(tmp_path / "grounds"))
    (tmp_path / "grounds" / "hall.mask.png").write_text("not even an image")
    again = made(animals, tmp_path / "out", count=7, backgrounds=read_set(tmp_path / "grounds"))
    assert (again.new, again.present) == (1, 6)


@pytest.mark.parametrize(
    ("photo", "message"),
    [(np.zeros((1, 1, 3), np.uint8), "must be at least 32 x 32"), (None, "is listed but does not exist")],
)
def test_a_photo_that_cannot_be_used_is_named(animals, tmp_path, squares, photo, message):
    """The photo is a background, for which no mask is searched."""
    (tmp_path / "grounds").mkdir()
    path = tmp_path / "grounds" / "hall.png"
    path.write_bytes(encode(squares[0] if photo is None else photo, "png"))
    grounds = read_set(tmp_path / "grounds")
    if photo is None:
        path.unlink()
    with pytest.raises(InvalidInput, match=rf"grounds/hall.png.*{message}"):
        made(animals, tmp_path / "out", backgrounds=grounds)


class Painter:
    """A pipeline whose images have a single grey value."""

    def __init__(self, value):
        self.value = value

    def __call__(self, *, height, width, **asked):
        return type("Made", (), {"images": [np.full((height, width, 3), self.value, np.float32)]})


def painted(tmp_path, pipeline, identity, out="out", count=2):
    recipe = GeneratedImages(2, pipeline, lambda name: Painter(0.5), count, size=64, identify=lambda name: identity)
    return generate_set(recipe, tmp_path / out, workers=1)


def test_what_a_pipeline_is_stands_in_the_manifest_not_where_it_lies(tmp_path):
    first = painted(tmp_path, "/secret/place/tiny-sd", "1234").stimuli
    assert json.loads(first.frame["parameters"][0])["weights"] == "1234"
    assert first.facts["settings"]["pipeline"] == "tiny-sd"
    assert first.facts["settings"]["weights"] == "1234"
    assert "secret" not in json.dumps(first.facts) + "".join(first.frame["parameters"])
    again = painted(tmp_path, "/moved/tiny-sd", "1234", count=3)
    assert (again.new, again.present) == (1, 2)


def test_other_weights_of_the_same_name_are_another_set(tmp_path):
    painted(tmp_path, "/secret/place/tiny-sd", "1234")
    with pytest.raises(InvalidInput, match="was made with weights '1234', got '5678'"):
        painted(tmp_path, "/secret/place/tiny-sd", "5678")


def test_recipes_name_the_packages_and_folders_behind_their_pixels(animals, tmp_path):
    photos = read_set(animals)
    composites = Composites(5, photos, 1, others=photos)
    assert composites.packages == ("scipy",)
    assert composites.folders == (animals, animals)
    assert set(GeneratedImages(2, "hub/name", Painter, 1).packages) == {"torch", "diffusers", "transformers"}
    assert GeneratedImages(2, "hub/name", Painter, 1).folders == ()
    assert GeneratedImages(2, str(tmp_path), Painter, 1).folders == (tmp_path,)

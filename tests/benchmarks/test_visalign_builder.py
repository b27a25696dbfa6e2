"""VisAlign's categories from folders of photos, here of coloured discs."""

import json

import cv2
import numpy as np
import polars as pl
import pytest

from cosight.benchmarks.building.source_photos import read_photos
from cosight.benchmarks.building.split_sources import EVALUATION_SPLITS
from cosight.benchmarks.visalign.categories import parse_counts
from cosight.benchmarks.visalign.cutouts import Cutter
from cosight.benchmarks.visalign.source_counts import fit_counts
from cosight.benchmarks.visalign.visalign_builder import VisAlignBuilder, build_visalign
from cosight.errors import InvalidInput
from cosight.stimuli.images import encode
from cosight.stimuli.sets import check_splits, read_set, verify
from cosight.trials.spaces import label_spaces

CLASSES = label_spaces["visalign-11"].classes
COUNTS = parse_counts("1=10,2=10,3=4,4=4,5=6,6=3,7=5,8=12,train=20,distractors=4")


def photo(rng, hue):
    """Return a disc on a uniform background, and its mask."""
    mask = np.zeros((90, 100), np.uint8)
    cv2.ellipse(mask, (50, 45), (int(rng.integers(24, 34)), 22), 0, 0, 360, 255, -1)
    image = np.clip(np.array((90, 160, 210)) + rng.normal(0, 4, (90, 100, 3)), 0, 255)
    image[mask > 0] = np.array((25 * hue % 255, 60, 20)) + rng.uniform(0, 25, (int((mask > 0).sum()), 3))
    return image.astype(np.uint8), mask


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root, rng = tmp_path_factory.mktemp("sources"), np.random.default_rng(0)
    wanted = {f"photos/{name}": 9 for name in CLASSES} | {"others/cup": 8, "others/truck": 8, "near/donkey": 9}
    wanted |= {"renditions/tiger": 8, "renditions/sketches": 8}
    for hue, (folder, count) in enumerate(wanted.items()):
        (root / folder).mkdir(parents=True)
        for number in range(count):
            image, mask = photo(rng, hue)
            (root / folder / f"{number}.png").write_bytes(encode(image, "png"))
            (root / folder / f"{number}.mask.png").write_bytes(encode(mask, "png"))
    (root / "photos" / "LICENSE").write_text("# CC0 1.0 Universal\n\nNo rights reserved.\n")
    return root


class Halves:
    """A classifier that compares the brightness of two halves; a little noise changes its answer."""

    std = (1.0, 1.0, 1.0)
    name = "the halves"
    weights_digest = "0" * 64

    def __call__(self, images):
        import torch

        left = images[..., : images.shape[-1] // 2].mean(dim=(1, 2, 3))
        right = images[..., images.shape[-1] // 2 :].mean(dim=(1, 2, 3))
        return torch.stack([left, right], dim=1) * 100


def loaded(name):
    return Halves()


CUTTER = Cutter(label_spaces["visalign-11"])


def builder(folders, counts=COUNTS, cutter=CUTTER, uses=("photos", "others", "near", "renditions"), **options):
    given = {name: read_photos(folders / name) for name in uses}
    plan = {"attackers": ("halves",), "load": loaded, "side": 64, **options}
    return VisAlignBuilder(given, counts, cutter, **plan)


@pytest.fixture(scope="module")
def built(folders, tmp_path_factory, one_torch_thread):
    out = tmp_path_factory.mktemp("visalign") / "set"
    return build_visalign(builder(folders), out), out


def test_every_category_has_its_images(built):
    made, _ = built
    frame = made.generated.stimuli.frame
    assert all("/category-3/" in job for job in made.generated.dropped)
    for split in ("calibration", "test"):
        counts = dict(frame.filter(split=split)["category"].value_counts().iter_rows())
        assert {k: v for k, v in counts.items() if k != 3} == {k: v for k, v in COUNTS.categories.items() if k != 3}
        assert 1 <= counts[3] <= 4
    assert frame.filter(split="train").height == 20
    check_splits(made.generated.stimuli)
    assert verify(made.generated.stimuli).intact
    assert {made.generated.stimuli.pixels(file).shape for file in frame["file"]} == {(64, 64, 3)}


def test_truth_original_and_gold(built):
    frame = built[0].generated.stimuli.frame
    assert set(frame.filter(group="must-abstain")["truth"]) == {"abstain"}
    assert set(frame.filter(category=6)["original"]) == {None}
    assert set(frame.filter(category=7)["original"]) == {"tiger", None}
    assert frame.filter(category=8)["gold"].null_count() == 24  # until people have answered
    others = frame.filter((pl.col("category") != 8) & pl.col("category").is_not_null())
    assert others["gold"].null_count() == 0
    row = frame.filter(category=2).row(0, named=True)
    assert row["gold"][CLASSES.index(row["truth"])] == 1


def test_category_3_tells_model_and_eps(built):
    for text in built[0].generated.stimuli.frame.filter(category=3)["parameters"]:
        told = json.loads(text)
        assert told["name"] == "the halves"
        assert 0.005 <= told["eps"] <= 0.03


def test_attackers_are_known_by_what_they_are(built):
    settings = built[0].generated.stimuli.facts["settings"]
    assert settings["attackers"] == [{"name": "the halves", "weights": "0" * 64}]


def test_the_precision_of_an_attacker_is_part_of_it(folders):
    class Rough(Halves):
        precision = "bfloat16"

    settings = builder(folders, load=lambda name: Rough()).settings
    assert settings["attackers"] == [{"name": "the halves", "weights": "0" * 64, "precision": "bfloat16"}]


def test_corruptions_have_kinds_and_severities(built):
    part = built[0].generated.stimuli.frame.filter(category=8)
    assert part["level"].is_between(1, 10).all()
    assert part.filter(split="test").select("kind", "level").is_duplicated().sum() == 0


def test_a_composite_keeps_its_class_before_it_takes_another(folders):
    slots = [slot for slot in builder(folders).slots() if slot.category == 2 and slot.split == "test"]
    labels = [[candidate.label for candidate in slot.candidates] for slot in slots]
    assert sorted(own[0] for own in labels) == sorted(CLASSES)  # ten slots, ten classes
    assert all(len(set(own[:12])) == 1 and len(set(own[12:])) > 1 for own in labels)
    plans = [tuple(sorted(candidate.plan.items(), key=str)) for slot in slots for candidate in slot.candidates]
    assert len(set(plans)) == len(plans)  # no two slots can become the same image


def test_distractors_come_from_other_objects_of_their_own(built):
    distractors = read_set(built[1] / "distractors").frame
    frame = built[0].generated.stimuli.frame
    assert distractors.height == 4
    assert not set(distractors["parent"]) & set(frame["parent"])
    assert all(isinstance(json.loads(text)["clear"], bool) for text in distractors["parameters"])


def test_the_datasheet_has_licences_or_asks_for_them(built, folders):
    text = (built[1] / "DATASHEET.md").read_text()
    assert "| photos | categories 1, 2, 3, 5 and 8, training | CC0 1.0 Universal |" in text
    assert "| near | category 6 | not stated" in text
    assert str(folders) not in text


def test_a_second_run_finds_everything_and_a_changed_photo_is_noticed(built, folders, tmp_path):
    again = build_visalign(builder(folders), built[1])
    assert again.generated.new == 0
    path = folders / "others" / "cup" / "0.png"
    before = path.read_bytes()
    path.write_bytes(encode(np.zeros((90, 100, 3), np.uint8), "png"))
    try:
        with pytest.raises(InvalidInput, match="has changed since"):
            build_visalign(builder(folders), built[1])
    finally:
        path.write_bytes(before)


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_closed_set_shares_nothing(folders, tmp_path, workers):
    few = parse_counts("1=10,2=0,3=0,4=2,5=0,6=0,7=0,8=10,train=0,distractors=0")
    built = build_visalign(
        builder(folders, few, attackers=(), load=None), tmp_path / "set", closed=tmp_path / "secret", workers=workers
    )
    assert set(built.generated.stimuli.frame["split"]) == set(EVALUATION_SPLITS)
    check_splits(built.generated.stimuli)
    listed = built.generated.stimuli.frame.filter(split="closed")
    assert listed["parent"].null_count() == len(listed) == 22
    own = built.closed.stimuli.frame
    assert own["parent"].null_count() == 0
    assert not set(own["parent"]) & set(built.generated.stimuli.frame["parent"])
    assert verify(built.generated.stimuli).intact


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ("1=31", "1=31 in calibration, 2. available"),
        ("6=5", "6=5 in calibration, 3 available; 6=5 in test, 3 available"),
        ("train=95", "train=95, 90 at most"),
        ("calibration=7", "an image of each of the 8 requested categories, got calibration=7"),
        ("distractors=40,6=5", "6=5 in test, 3 available; distractors=40, 4 available"),
        ("distractors=5", "distractors=5, 4 available; --counts fit, or --counts 1=10.*distractors=4, would fit"),
    ],
)
def test_more_than_there_are_photos_is_refused_before_anything_is_made(folders, tmp_path, counts, message):
    with pytest.raises(InvalidInput, match=message) as error:
        build_visalign(builder(folders, parse_counts(counts, base=COUNTS)), tmp_path / "set")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "set").exists()


def test_counts_that_fit_are_the_most_that_the_sources_allow(folders):
    plan = builder(folders, parse_counts(""))
    fitted = fit_counts(plan.counts, plan.supply(closed=True))
    # 90 photos: 4 of the 9 of each class to train on, the other 50 for three splits; 16 other objects for four
    assert fitted.text == "1=16,2=96,3=16,4=4,5=100,6=3,7=5,8=16,train=40,distractors=4"
    few = fit_counts(parse_counts("calibration=30,8=2"), plan.supply())
    assert (few.calibration, few.categories[8]) == (30, 2)
    alone = builder(folders, parse_counts(""), uses=("photos",), attackers=())
    assert fit_counts(alone.counts, alone.supply()).requested == (1, 2, 5, 7, 8)
    assert fit_counts(parse_counts("calibration=5"), alone.supply()).calibration == 5  # not one of all eight
    with pytest.raises(InvalidInput, match="each of the 5 requested categories, got calibration=4; raise it"):
        fit_counts(parse_counts("calibration=4"), alone.supply())


def test_what_is_missing_is_named(folders, tmp_path):
    photos = read_photos(folders / "photos")
    message = (
        "4=4, none without --others DIR; 6=3, none without --near DIR; distractors=4, none without --others DIR; 3=4"
    )
    with pytest.raises(InvalidInput, match=message):
        build_visalign(builder(folders, uses=("photos",), attackers=()), tmp_path / "set")
    with pytest.raises(InvalidInput, match="3=4, none without --attackers MODEL"):
        build_visalign(builder(folders, attackers=()), tmp_path / "set")
    with pytest.raises(InvalidInput, match="got 'sketches'"):
        VisAlignBuilder({"photos": photos, "sketches": photos}, COUNTS, CUTTER)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(InvalidInput, match="found none in"):
        read_photos(empty)
    with pytest.raises(InvalidInput, match="names must be classes of visalign-11"):
        build_visalign(
            VisAlignBuilder(
                {"photos": read_photos(folders / "others")}, parse_counts("1=1,2=0,3=0,4=0,5=0,6=0,7=0,8=0"), CUTTER
            ),
            tmp_path / "set",
        )


def test_all_classes_without_photos_are_named(folders, tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "tiger").symlink_to(folders / "photos" / "tiger")
    with pytest.raises(
        InvalidInput, match="has none of zebra, camel, giraffe, elephant, rhino, gorilla, bear, kangaroo, human; "
    ):
        read_photos(tmp_path / "photos").by_class(label_spaces["visalign-11"])

"""The published VisAlign set in its two layouts."""

import json

import numpy as np
import polars as pl
import pytest

import cosight
from cosight.benchmarks.visalign.public_set import CORRUPTION_LABELS, PublicSet
from cosight.errors import InvalidInput
from cosight.stimuli.generate import generate_set
from cosight.stimuli.images import digest, encode
from cosight.stimuli.sets import check_splits
from cosight.trials.spaces import label_spaces

NAMES = {
    1: "tiger12.png",
    2: "zebras in space.png",
    3: "ILSVRC2012_val_00001.JPEG-bear-vgg16-2.png",
    4: "cup.png",
    8: "ILSVRC2012_val_00002-camel-cropping-50.png",
}
GOLD = [0.0, 0.0, 0.4, *[0.0] * 7, 0.6]


def import_public(source, out, labels=None):
    return generate_set(PublicSet(source, labels), out)


def pixels(number):
    return np.full((40, 40, 3), 20 * number, np.uint8)


@pytest.fixture
def archive(tmp_path):
    root = tmp_path / "VisAlign_dataset"
    (root / "open_test_set" / "label").mkdir(parents=True)
    (root / "open_test_set" / "images").mkdir()
    for number, name in NAMES.items():
        (root / "open_test_set" / "images" / name).write_bytes(encode(pixels(number), "png"))
        (root / "open_test_set" / "label" / f"category{number}.txt").write_text(f"images/{name}\n")
    (root / CORRUPTION_LABELS).write_text(json.dumps({NAMES[8]: GOLD}))
    return root


def test_lists_and_names_tell_categories_classes_and_severities(archive, tmp_path):
    frame = import_public(archive, tmp_path / "out").stimuli.frame
    rows = {row["category"]: row for row in frame.iter_rows(named=True)}
    assert {number: row["truth"] for number, row in rows.items()} == {
        1: "tiger", 2: "zebra", 3: "bear", 4: "abstain", 8: "camel",
    }  # fmt: skip
    assert {row["image"] for row in rows.values()} == set(NAMES.values())  # the leaderboard needs them
    assert (rows[8]["condition"], rows[8]["level"]) == ("cropping", 6)
    assert rows[8]["gold"] == GOLD
    assert rows[4]["gold"][10] == 1
    assert rows[3]["stimulus"] == digest(pixels(3))
    assert rows[3]["group"] == "must-act"


def test_the_open_test_set_alone_is_read_too(archive, tmp_path):
    frame = import_public(archive / "open_test_set", tmp_path / "out").stimuli.frame
    assert frame.filter(category=8)["gold"][0].to_list() == GOLD


def hugging_face(folder, names):
    cells = [{"bytes": encode(pixels(number), "png"), "path": name} for number, name in names.items()]
    (folder / "data").mkdir(parents=True)
    table = pl.DataFrame({"image": cells, "file_name": list(names.values())})
    table.write_parquet(folder / "data" / "test-00000-of-00001.parquet")


def test_parquet_has_names_and_takes_categories_from_the_lists(archive, tmp_path):
    hugging_face(tmp_path / "hub", NAMES)
    bare = import_public(tmp_path / "hub", tmp_path / "bare").stimuli.frame
    assert bare["category"].null_count() == len(NAMES)
    assert set(bare["stimulus"]) == {digest(pixels(number)) for number in NAMES}
    full = import_public(tmp_path / "hub", tmp_path / "full", labels=archive / "open_test_set" / "label").stimuli.frame
    assert dict(full.select("category", "stimulus").iter_rows()) == {n: digest(pixels(n)) for n in NAMES}


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_an_image_folder_with_metadata(tmp_path, ending):
    root = tmp_path / "hub" / "test"
    root.mkdir(parents=True)
    (root / NAMES[1]).write_bytes(encode(pixels(1), "png"))
    table = pl.DataFrame({"file_name": [NAMES[1]]})
    table.write_csv(root / "metadata.csv") if ending == "csv" else table.write_ndjson(root / "metadata.jsonl")
    frame = import_public(tmp_path / "hub", tmp_path / "out").stimuli.frame
    assert frame["image"].to_list() == [NAMES[1]]


def test_a_pickle_is_never_opened(archive, tmp_path):
    (archive / CORRUPTION_LABELS).unlink()
    (archive / "open_test_corruption_labels.pk").write_bytes(b"cos\nsystem\n(S'touch /nowhere'\ntR.")
    with pytest.raises(InvalidInput, match="a pickle, which is never opened; convert it to JSON"):
        import_public(archive, tmp_path / "out")


@pytest.mark.parametrize(
    ("answers", "message"),
    [({NAMES[8]: [0.5] * 11}, "must sum to one, got 5.5"), ({NAMES[8]: [1.0]}, "11 numbers, .* has 1")],
)
def test_answers_that_are_no_distribution_are_refused(archive, tmp_path, answers, message):
    (archive / CORRUPTION_LABELS).write_text(json.dumps(answers))
    with pytest.raises(InvalidInput, match=message):
        import_public(archive, tmp_path / "out")


def test_what_is_no_public_set_is_refused(archive, tmp_path):
    with pytest.raises(InvalidInput, match="found none in"):
        import_public(archive / "open_test_set" / "images", tmp_path / "out")
    with pytest.raises(InvalidInput, match="is a folder"):
        import_public(archive / "nothing", tmp_path / "out")
    (archive / "open_test_set" / "label" / "category1.txt").write_text("../../../secret.png\n")
    with pytest.raises(InvalidInput, match="inside the set"):
        import_public(archive, tmp_path / "out")


def test_a_listed_image_that_is_missing_is_named(archive, tmp_path):
    (archive / "open_test_set" / "images" / NAMES[4]).unlink()
    with pytest.raises(InvalidInput, match=r"cup.png is listed but does not exist"):
        import_public(archive, tmp_path / "out")


# The calibration split of the published set.


def random_png(rng):
    return encode(rng.integers(0, 256, (32, 32, 3), np.uint8), "png")


@pytest.fixture(scope="module")
def large_archive(tmp_path_factory):
    """A published set of 90 images; every two images of category 8 are of one photo."""
    root, rng = tmp_path_factory.mktemp("published"), np.random.default_rng(0)
    (root / "label").mkdir()
    (root / "images").mkdir()
    for category in range(1, 9):
        names = [f"tiger{category}{number:02d}.png" for number in range(10)]
        if category == 8:
            names = [f"photo{n // 2:02d}-camel-{'fog' if n % 2 else 'frost'}-3.png" for n in range(20)]
        for name in names:
            (root / "images" / name).write_bytes(random_png(rng))
        (root / "label" / f"category{category}.txt").write_text("".join(f"images/{name}\n" for name in names))
    return root


@pytest.fixture
def photos(tmp_path):
    rng = np.random.default_rng(1)
    for label in label_spaces["visalign-11"].classes:
        (tmp_path / "photos" / label).mkdir(parents=True)
        for number in range(2):
            (tmp_path / "photos" / label / f"{number}.png").write_bytes(random_png(rng))
    return tmp_path / "photos"


def build_public(source, out, **options):
    cosight.build("visalign", out, public=source, workers=1, **options)
    return cosight.stimuli.sets.read_set(out)


def test_a_calibration_split_is_the_same_share_of_every_category_and_of_no_scored_photo(large_archive, tmp_path):
    stimuli = build_public(large_archive, tmp_path / "out", calibration=18)
    check_splits(stimuli)  # no image is in both splits
    counts = stimuli.frame.filter(split="calibration").group_by("category").len().sort("category")
    assert counts["len"].to_list() == [2] * 7 + [4]
    assert stimuli.frame.filter(split="test").height == 72
    photo = pl.col("image").str.slice(0, 7)
    splits_of_photo = stimuli.frame.filter(category=8).group_by(photo).agg(pl.col("split").n_unique())
    assert splits_of_photo["split"].to_list() == [1] * 10


def test_the_calibration_split_follows_from_the_seed(large_archive, tmp_path):
    drawn = [
        set(build_public(large_archive, tmp_path / name, calibration=18, seed=seed).frame.filter(split="test")["image"])
        for name, seed in (("first", 0), ("again", 0), ("other", 1))
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    with pytest.raises(InvalidInput, match="seed"):
        build_public(large_archive, tmp_path / "first", calibration=18, seed=1)


def test_photos_are_the_training_split_and_must_not_be_test_images(large_archive, photos, tmp_path):
    frame = build_public(large_archive, tmp_path / "out", calibration=18, photos=photos).frame
    train = frame.filter(split="train")
    assert train.group_by("truth").len()["len"].to_list() == [2] * 10
    assert frame["split"].value_counts(sort=True)["split"].to_list() == ["test", "train", "calibration"]
    (photos / "bear" / "copy.png").write_bytes((large_archive / "images" / "tiger100.png").read_bytes())
    with pytest.raises(InvalidInput, match="splits must not share images"):
        build_public(large_archive, tmp_path / "leaking", calibration=18, photos=photos)


@pytest.mark.parametrize(
    ("count", "message"),
    [
        (7, "every category in both splits, got 7 of 90"),
        (90, "got 90 of 90"),
        (13, "keeps the images of one photo together"),
    ],
)
def test_a_calibration_split_that_cannot_be_drawn_evenly_is_refused(large_archive, tmp_path, count, message):
    with pytest.raises(InvalidInput, match=message):
        build_public(large_archive, tmp_path / "out", calibration=count)
    assert not (tmp_path / "out").exists()

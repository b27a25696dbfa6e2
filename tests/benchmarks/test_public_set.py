"""The published VisAlign set in its two layouts."""

import json

import numpy as np
import polars as pl
import pytest

from cosight.benchmarks.visalign.public_set import CORRUPTION_LABELS, PublicSet
from cosight.errors import InvalidInput
from cosight.stimuli.generate import generate_set
from cosight.stimuli.images import digest, encode

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

"""Photos that curators rejected are left out of a set and counted."""

import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

from cosight.benchmarks.building.source_photos import read_curated_lists, read_photos, rejection_settings
from cosight.cli.build import app
from cosight.errors import InvalidInput
from cosight.stimuli.images import digest, encode
from cosight.stimuli.sets import read_set
from cosight.trials.spaces import label_spaces

CLASSES = label_spaces["visalign-11"].classes
FEW = "1=10,2=0,3=0,4=2,5=0,6=0,7=0,8=0,train=0,distractors=2"


def pixels(seed):
    return np.random.default_rng(seed).integers(0, 255, (48, 48, 3), dtype=np.uint8)


@pytest.fixture
def folders(tmp_path):
    names = [f"photos/{name}" for name in CLASSES] + ["others/cup", "others/truck"]
    for place, name in enumerate(names):
        (tmp_path / name).mkdir(parents=True)
        for number in range(5):
            (tmp_path / name / f"{number}.png").write_bytes(encode(pixels(10 * place + number), "png"))
    return tmp_path


def curated(path, rejected, kept=()):
    lines = [
        f"{digest(pixels(seed))},some/{seed}.png,{k}"
        for seeds, k in ((rejected, "false"), (kept, "true"))
        for seed in seeds
    ]
    path.write_text("\n".join(["stimulus,file,kept", *lines]) + "\n")
    return path


def build(folders, out, *options):
    given = ["visalign", out, "--photos", folders / "photos", "--others", folders / "others", "--counts", FEW]
    more = ["--size", 32, "--workers", 1, *options]
    return CliRunner().invoke(app, [str(x) for x in given + more], catch_exceptions=False)


def sources_used(out):
    sets = [read_set(out), read_set(out / "distractors")]
    return {parent for stimuli in sets for parent in stimuli.frame["parent"].drop_nulls()}


def test_rejected_photos_are_in_no_image(folders, tmp_path):
    first = build(folders, tmp_path / "all")
    used = sources_used(tmp_path / "all")
    assert first.exit_code == 0
    seeds = [s for s in (*range(0, 100, 10), *range(100, 105)) if digest(pixels(s)) in used][:4]
    assert len(seeds) == 4
    listed = curated(tmp_path / "curated.csv", seeds, kept=[1])
    second = build(folders, tmp_path / "some", "--curated", listed)
    assert {digest(pixels(seed)) for seed in seeds}.isdisjoint(sources_used(tmp_path / "some"))
    assert f"{len(seeds)} of {len(seeds)} rejected images left out" in second.output
    assert len(read_set(tmp_path / "some")) == len(read_set(tmp_path / "all"))


def test_the_datasheet_and_the_settings_count_them(folders, tmp_path):
    listed = curated(tmp_path / "curated.csv", [0, 1, 100])
    build(folders, tmp_path / "set", "--curated", listed)
    sheet = (tmp_path / "set" / "DATASHEET.md").read_text()
    assert "2 images left out, rejected by curators" in sheet
    assert "1 images left out, rejected by curators" in sheet
    told = read_set(tmp_path / "set").facts["settings"]["left_out"]
    assert {name: fact["images"] for name, fact in told.items()} == {"photos": 2, "others": 1}
    apart = read_set(tmp_path / "set" / "distractors").facts["settings"]["left_out"]
    assert apart == {"others": told["others"]}


def test_a_set_made_without_a_list_is_not_gone_on_with_by_one(folders, tmp_path):
    build(folders, tmp_path / "set")
    assert "left_out" not in read_set(tmp_path / "set").facts["settings"]
    with pytest.raises(InvalidInput):
        build(folders, tmp_path / "set", "--curated", curated(tmp_path / "c.csv", [0]))


def test_several_lists_and_what_was_not_found(folders, tmp_path):
    lists = [curated(tmp_path / "a.csv", [0, 999]), curated(tmp_path / "b.csv", [11], kept=[0])]
    done = build(folders, tmp_path / "set", "--curated", lists[0], "--curated", lists[1])
    assert "2 of 3 rejected images left out" in done.output  # one rejection is enough
    assert "0 of 1 rejected images replaced; 1 were not found: some/999.png" in done.output


def test_a_photo_is_known_by_its_pixels_not_by_its_name(folders, tmp_path):
    shutil.move(folders / "others/cup/0.png", folders / "others/truck/renamed.png")
    photos = read_photos(folders / "others", rejected=read_curated_lists([curated(tmp_path / "c.csv", [100])]))
    assert "truck/renamed.png" not in photos.files
    assert photos.rejected == (digest(pixels(100)),)
    assert len(photos.files) == 9


def test_no_list_leaves_nothing_out(folders):
    assert read_photos(folders / "others").rejected == ()
    assert rejection_settings({"others": read_photos(folders / "others", rejected={})}) == {}


def test_a_folder_of_rejected_photos_only_is_refused(folders, tmp_path):
    listed = read_curated_lists([curated(tmp_path / "c.csv", [*range(100, 105), *range(110, 115)])])
    with pytest.raises(InvalidInput, match="rejected every photo"):
        read_photos(folders / "others", rejected=listed)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stimulus,file\nabc,a.png\n", "has the column 'kept'"),
        ("stimulus,kept\nabc,maybe\n", "line 2: .* got 'maybe'"),
        ("stimulus,kept\nabc,true\n,false\n", "line 3"),
        ("", "not a CSV file"),
        (None, "a curated list is a CSV file"),
    ],
)
def test_bad_lists_are_refused_in_one_line(tmp_path, text, message):
    path = tmp_path / "list.csv"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InvalidInput, match=message) as error:
        read_curated_lists([path])
    assert "\n" not in str(error.value)

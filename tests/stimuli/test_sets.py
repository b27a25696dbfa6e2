"""Stimulus sets: the layouts that are read, the manifest, and what verify detects."""

import os

import numpy as np
import polars as pl
import pytest

from cosight.errors import InvalidInput
from cosight.stimuli.images import digest, encode
from cosight.stimuli.sets import JOURNAL, read_set, sample, verify
from cosight.trials.manifest import MANIFEST_SCHEMA, manifest_frame, write_manifest


def put(path, value=7):
    path.parent.mkdir(parents=True, exist_ok=True)
    image = np.full((32, 40, 3), value, np.uint8)
    path.write_bytes(encode(image, "jpeg" if path.suffix.lower() in (".jpg", ".jpeg") else "png"))
    return image


def test_class_folders(tmp_path):
    for name in ("tiger/a.png", "tiger/b.JPG", "bear/a.png", "bear/notes.txt", ".hidden/c.png", "bear/.draft.png"):
        put(tmp_path / name)
    frame = read_set(tmp_path).frame
    assert frame["file"].to_list() == ["bear/a.png", "tiger/a.png", "tiger/b.JPG"]
    assert frame["truth"].to_list() == frame["original"].to_list() == ["bear", "tiger", "tiger"]
    assert frame["experiment"].unique().to_list() == [tmp_path.name]
    assert frame["stimulus"].null_count() == 3
    assert dict(frame.schema) == MANIFEST_SCHEMA


def test_experiments_of_class_folders(tmp_path):
    put(tmp_path / "edges/cat/cat1.png")
    put(tmp_path / "silhouettes/cat/cat1.png")
    frame = read_set(tmp_path).frame
    assert frame.select("experiment", "truth", "image").rows() == [
        ("edges", "cat", "cat1.png"),
        ("silhouettes", "cat", "cat1.png"),
    ]


def test_a_plain_folder_has_no_truth(tmp_path):
    put(tmp_path / "x.png")
    frame = read_set(tmp_path).frame
    assert frame["truth"].to_list() == [None]


def test_laion_c_layout(tmp_path):
    put(tmp_path / "mosaic/intensity_level_3/cat/one.JPEG")
    row = read_set(tmp_path).frame.row(0, named=True)
    assert {key: row[key] for key in ("experiment", "condition", "level", "truth", "image")} == {
        "experiment": "laion-c",
        "condition": "mosaic",
        "level": 3,
        "truth": "cat",
        "image": "one.JPEG",
    }


def test_model_vs_human_names(tmp_path):
    """Names as they are in the published trials: contrast, session 1."""
    put(tmp_path / "contrast/dnn/session-1/0001_cop_dnn_c30_knife_10_n03041632_7380.png")
    put(tmp_path / "contrast/dnn/session-1/0002_s5n_dnn_0_bird_00_bird3-bird2.png")
    frame = read_set(tmp_path / "contrast").frame
    assert frame.select("experiment", "condition", "truth", "image").rows() == [
        ("contrast", "c30", "knife", "n03041632_7380.png"),
        ("contrast", "0", "bird", "bird3-bird2.png"),
    ]


def test_the_real_stimuli_are_read(mirror):
    frame = read_set(mirror / "texture-vs-shape").frame
    assert dict(frame["experiment"].value_counts().iter_rows()) == {
        "cue-conflict": 320,
        "edges": 160,
        "filled-silhouettes": 160,
    }
    assert frame["truth"].n_unique() == 16


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("nothing", "there is no folder .*nothing; check the path"),
        ("emty", r"there is no folder .*emty; did you mean .*empty\?"),
        ("empty", "a stimulus set has images .* found none in"),
        ("unfinished/images/cat/1.png", "a stimulus set is a folder, got the file"),
        ("unfinished", "is an unfinished stimulus set; finish it with the command that makes it"),
    ],
)
def test_no_images_are_refused(tmp_path, wrong, message):
    (tmp_path / "empty").mkdir()
    put(tmp_path / "unfinished/images/cat/1.png")
    (tmp_path / "unfinished" / JOURNAL).touch()
    with pytest.raises(InvalidInput, match=message):
        read_set(tmp_path / wrong)


def made_set(folder):
    rows = []
    for name in ("a", "b", "c"):
        image = put(folder / f"images/{name}.png", ord(name))
        rows.append({"stimulus": digest(image), "file": f"images/{name}.png", "truth": "x", "gold": [0.5, 0.5]})
    write_manifest(folder, manifest_frame(rows), {"settings": {"seed": 1}})
    return folder


def test_a_manifest_round_trips(tmp_path):
    stimuli = read_set(made_set(tmp_path))
    assert stimuli.facts == {"settings": {"seed": 1}}
    assert stimuli.frame["gold"].to_list() == [[0.5, 0.5]] * 3
    assert digest(stimuli.pixels("images/b.png")) == stimuli.frame["stimulus"][1]


def test_verify_says_what_became_of_each_image(tmp_path):
    folder = made_set(tmp_path)
    assert verify(read_set(folder)).intact
    put(folder / "images/a.png", 1)
    (folder / "images/b.png").unlink()
    (folder / "images/c.png").write_bytes(b"no image")
    put(folder / "images/d.png", 1)
    found = verify(read_set(folder))
    assert (found.changed, found.missing, found.broken) == (("images/a.png",), ("images/b.png",), ("images/c.png",))
    assert found.unlisted == ("images/d.png",)
    assert found.stimuli == 3
    assert not found.intact


def test_one_changed_pixel_is_noticed(tmp_path):
    folder = made_set(tmp_path)
    image = np.full((32, 40, 3), ord("a"), np.uint8)
    image[5, 6, 1] += 1
    (folder / "images/a.png").write_bytes(encode(image, "png"))
    assert verify(read_set(folder)).changed == ("images/a.png",)


def test_the_same_pixels_in_another_file_are_the_same_stimulus(tmp_path):
    folder = made_set(tmp_path)
    from PIL import Image

    Image.open(folder / "images/a.png").save(folder / "images/a.png", optimize=True, dpi=(72, 72))
    assert verify(read_set(folder)).intact


def test_a_folder_without_a_manifest_cannot_be_verified(tmp_path):
    put(tmp_path / "x.png")
    with pytest.raises(InvalidInput, match=r"no stimuli\.parquet"):
        verify(read_set(tmp_path))


@pytest.mark.parametrize("file", ["/etc/passwd", "../x.png", "images/../../x.png"])
def test_a_manifest_may_not_lead_out_of_its_folder(tmp_path, file):
    write_manifest(tmp_path, manifest_frame([{"stimulus": "0", "file": file}]), {})
    with pytest.raises(InvalidInput, match="inside the set"):
        read_set(tmp_path)


def test_a_name_that_is_not_utf_8_is_refused(tmp_path):
    name = os.fsencode(tmp_path) + b"/caf\xe9.png"
    try:
        with open(name, "wb") as file:  # noqa: PTH123 (a name that pathlib cannot print)
            file.write(b"x")
    except OSError:
        pytest.skip("this file system keeps names in UTF-8 itself")
    with pytest.raises(InvalidInput, match="written in UTF-8"):
        read_set(tmp_path)


def test_broken_manifests_are_refused(tmp_path):
    (tmp_path / "stimuli.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(InvalidInput, match="cannot read the manifest"):
        read_set(tmp_path)
    pl.DataFrame({"file": ["a.png"]}).write_parquet(tmp_path / "stimuli.parquet")
    with pytest.raises(InvalidInput, match="lacks stimulus"):
        read_set(tmp_path)


def test_samples_are_nested_and_follow_the_seed(tmp_path):
    for index in range(20):
        put(tmp_path / f"{index % 4}/{index:02d}.png")
    stimuli = read_set(tmp_path)
    small, large, other = (
        set(sample(stimuli, count, seed=seed).frame["file"]) for count, seed in ((5, 0), (9, 0), (5, 1))
    )
    assert small < large
    assert len(small) == 5
    assert small != other
    assert len(sample(stimuli, 99, seed=0)) == 20


def test_loops_of_links(tmp_path, cosight):
    """Folders that lead back, and files that lead to themselves."""
    folder = tmp_path / "photos"
    put(folder / "cat/a.png", 1)
    put(folder / "dog/b.png", 2)
    (folder / "cat/up").symlink_to(folder)
    (folder / "here").symlink_to(".")
    (folder / "one").symlink_to(folder / "two")
    (folder / "two").symlink_to(folder / "one")
    assert read_set(folder).frame["file"].to_list() == ["cat/a.png", "dog/b.png"]
    (folder / "dog/self.png").symlink_to("self.png")
    done = cosight("stimuli", "corrupt", folder, tmp_path / "out", "--kind", "contrast", "--workers", 1)
    assert (done.code, len(done.err.splitlines())) == (2, 1)
    assert "dog/self.png cannot be read: Too many levels of symbolic links" in done.err
    arguments = ("--kind", "contrast", "--severity", 1, "--workers", 1, "--on-error", "skip")
    assert cosight("stimuli", "corrupt", folder, tmp_path / "set", *arguments).code == 0
    for path in (tmp_path / "set/images").rglob("a.png"):
        path.unlink()
        path.symlink_to(path.name)
    done = cosight("stimuli", "verify", tmp_path / "set")
    assert (done.code, done.err) == (1, "")
    assert "broken: images/contrast/1/cat/a.png" in done.out
    for loop in (folder / "one", tmp_path / "itself"):
        if not loop.is_symlink():
            loop.symlink_to(loop)
        for arguments in (("corrupt", loop, tmp_path / "other"), ("corrupt", folder / "cat", loop), ("verify", loop)):
            done = cosight("stimuli", *arguments)
            assert (done.code, len(done.err.splitlines())) == (2, 1), done

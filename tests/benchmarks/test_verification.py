"""Composites that a reference classifier verifies, other label spaces, redrawn photos, curated images; resuming."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import cv2
import numpy as np
import polars as pl
import pytest

from cosight.benchmarks.building.source_photos import read_photos
from cosight.benchmarks.visalign.categories import category_rows, parse_counts
from cosight.benchmarks.visalign.class_facts import read_class_facts
from cosight.benchmarks.visalign.composites import make_composite
from cosight.benchmarks.visalign.cutouts import Cutout, Cutter, RejectedObject
from cosight.benchmarks.visalign.visalign_builder import VisAlignBuilder
from cosight.errors import InvalidInput
from cosight.humans.study.design import read_study
from cosight.humans.study.pool import load_pool
from cosight.stimuli.composition.hybrids import MaskedPicture, half_of
from cosight.stimuli.composition.renditions import RENDITIONS
from cosight.stimuli.images import encode
from cosight.stimuli.sets import read_set, verify, write_gold_labels
from cosight.trials import read
from cosight.trials.manifest import manifest_space
from cosight.trials.table import make_trials

COLOURS = {"cherry": (200, 30, 40), "lime": (90, 200, 60), "plum": (120, 50, 170)}
COUNTS = "1=3,2=6,3=0,4=2,5=3,6=0,7=2,8=3,train=0,distractors=1"
MODEL = """
import numpy as np

COLOURS = np.array([(200, 30, 40), (90, 200, 60), (120, 50, 170), (240, 240, 240)], np.float32) / 255


def model():
    def answer(images):
        pixels = images.reshape(len(images), 3, -1)
        colourful = (pixels.max(axis=1) - pixels.min(axis=1) > 0.25)[:, None]  # the plain grounds are grey
        mean = (pixels * colourful).sum(axis=2) / np.maximum(colourful.sum(axis=2), 1)
        mean = np.where(colourful.any(axis=2), mean, 1)  # nothing but grey is the fourth class
        return -30 * np.linalg.norm(mean[:, None] - COLOURS, axis=2).astype(np.float32)

    return answer


def plum_lover():
    answer = model()
    return lambda images: answer(images) * np.where(answer(images).argmax(axis=1) == 2, 1, 0.01)[:, None]
"""


@pytest.fixture(scope="module")
def fruit(tmp_path_factory):
    """Photos of fruit on grey cloth with masks; the mask of one cherry marks the cloth. And cups, and a check model.

    The right half of a fruit is grey too: only the left half tells what it is.
    """
    root, rng = tmp_path_factory.mktemp("fruit"), np.random.default_rng(0)
    for name, colour in {**COLOURS, "cup": (200, 200, 120)}.items():
        folder = root / ("others" if name == "cup" else "photos") / name
        folder.mkdir(parents=True)
        for number in range(8 if name == "cup" else 6):
            mask = cv2.ellipse(np.zeros((70, 80), np.uint8), (40, 35), (20 + number, 18), 0, 0, 360, 255, -1)
            image = np.where(mask[:, :, None] > 0, np.array(colour), 150) + rng.normal(0, 5, (70, 80, 3))
            image[:, 40:][mask[:, 40:] > 0] = 100
            (folder / f"{number}.png").write_bytes(encode(np.clip(image, 0, 255).astype(np.uint8), "png"))
            if (name, number) == ("cherry", 0):
                mask = np.zeros_like(mask)
                mask[:12] = 255
            (folder / f"{number}.mask.png").write_bytes(encode(mask, "png"))
    (root / "photos" / "LICENSE").write_text("CC0 1.0\n")
    (root / "fruit_check.py").write_text(MODEL)
    (root / "names.txt").write_text("cherry\nlime\nplum\nnothing\n")
    return root


@pytest.fixture(autouse=True)
def _importable(fruit, monkeypatch):
    monkeypatch.syspath_prepend(fruit)


def check_of(fruit):
    return f"python:fruit_check:model,size=48,mean=0,std=1,classes={fruit / 'names.txt'}"


def arguments(fruit, out, *more):
    folders = ("--photos", fruit / "photos", "--others", fruit / "others")
    return ("build", "visalign", out, *folders, "--check", check_of(fruit), "--size", 48, "--workers", 1, *more)


@pytest.fixture(scope="module")
def built(fruit, tmp_path_factory):
    """The set of most tests, built once."""
    from cosight.benchmarks import build

    out = tmp_path_factory.mktemp("built") / "set"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(fruit)
        options = {"photos": fruit / "photos", "others": fruit / "others", "check": check_of(fruit), "size": 48}
        return build("visalign", out, counts=COUNTS, workers=1, sheet=out.parent / "sheet.png", **options), out


def test_class_folders_are_the_label_space(built):
    result, out = built
    assert "the classes are the folders of" in "".join(result.notices)
    assert manifest_space(read_set(out).facts).answers == ("cherry", "lime", "plum", "abstain")
    frame = read_set(out).frame
    assert frame.filter(category=2)["truth"].is_in(list(COLOURS)).all()
    assert frame.filter(category=2)["gold"].list.len().unique().to_list() == [4]
    assert verify(read_set(out)).intact


def test_an_object_that_is_not_recognised_is_in_no_composite(built, fruit):
    _, out = built
    frame = read_set(out).frame
    composed = frame.filter(pl.col("category").is_in([2, 5]) | (pl.col("kind") == "silhouette"))
    parameters = [json.loads(text) for text in composed["parameters"]]
    assert not [facts for facts in parameters if "cherry/0.png" in facts["files"]]
    scenes, hybrids = ([facts for facts in parameters if facts.get("category") == number] for number in (2, 5))
    assert all(facts["check"]["probability"] >= 0.7 for facts in scenes)
    parts = [part for facts in hybrids for part in facts["check"]["parts"]]
    assert all(part["probability"] >= 0.85 and part["cut_off"] < 0.5 for part in parts)
    assert {facts["split"] for facts in hybrids} == {"left-right"}  # the upper half shows no more than the lower one
    assert sum(facts.get("rejected", {}).get("object not recognised", 0) for facts in parameters)
    sheet = (out / "DATASHEET.md").read_text()
    assert "## Verification" in sheet
    assert "python:fruit_check:model" in sheet
    assert "| 2 background | object not recognised |" in sheet
    (tried,) = (int(line.split("|")[3]) for line in sheet.splitlines() if "| 2 background | object not rec" in line)
    names = [row.name for row in category_rows(read_set(out))]
    assert f"2 background\n{tried} rejected: object not recognised" in names
    assert "1 clean" in names
    assert "| photos | categories 1, 2, 3, 5, 7 (redrawn) and 8, training | CC0 1.0 |" in sheet
    settings = read_set(out).facts["settings"]
    assert settings["check"]["name"].startswith("python:fruit_check:model")
    assert len(settings["check"]["weights"]) == 64


def test_category_7_is_drawn_from_the_photos(built, fruit):
    drawn = read_set(built[1]).frame.filter(category=7)
    assert set(drawn["truth"]) == {"abstain"}
    assert set(drawn["original"]) <= set(COLOURS)
    space = read_class_facts("cherry,lime,plum").space
    counts = parse_counts("1=0,2=0,3=0,4=0,5=0,6=0,7=12,8=0,train=0,distractors=0")
    slots = VisAlignBuilder({"photos": read_photos(fruit / "photos")}, counts, Cutter(space)).slots()
    for split in ("calibration", "test"):  # styles and photos take turns
        first = [slot.candidates[0] for slot in slots if slot.split == split]
        assert {candidate.kind for candidate in first} == set(RENDITIONS)
        assert len({(candidate.kind, candidate.files) for candidate in first}) == 12


def test_what_an_image_is_meant_to_show_is_in_words(built):
    frame = read_set(built[1]).frame
    shows = {row["category"]: json.loads(row["parameters"])["shows"] for row in frame.iter_rows(named=True)}
    assert shows[5].endswith(" in one")
    assert shows[7].split(", ")[0] in COLOURS
    assert shows[4] == "cup"


def test_a_set_of_other_classes_is_evaluated_and_scored(built, fruit, tmp_path, cosight):
    """The manifest names the label space, so no command needs --labels."""
    run, copy = tmp_path / "run", shutil.copytree(built[1], tmp_path / "set")
    uncertain = read_set(copy).frame.filter(group="uncertain")
    people = uncertain.select("stimulus", "truth", response="truth", observer=pl.lit("human:1"), kind=pl.lit("human"))
    write_gold_labels(copy, make_trials(people, space=manifest_space(read_set(copy).facts)))
    ended = cosight("evaluate", check_of(fruit), "--on", copy, "--abstain", "sp", "--out", run)
    assert ended.code == 0, ended.err
    ended = cosight("score", run, "--on", "visalign", "--resamples", 100)
    assert ended.code == 0, ended.err
    assert "label space" not in ended.err  # the benchmark is built for any classes
    trials = read(run).frame.filter(pl.col("kind") == "model")
    clean = trials.join(read_set(built[1]).frame.filter(category=1, split="test").select("stimulus"), on="stimulus")
    assert (clean["response"] == clean["truth"]).all()


def test_a_set_without_check_says_so(fruit, tmp_path, cosight):
    out = tmp_path / "set"
    few = "1=1,2=3,3=0,4=0,5=0,6=0,7=0,8=0,train=0,distractors=0"
    photos = ("--photos", fruit / "photos", "--size", 48, "--workers", 1)
    ended = cosight("build", "visalign", out, *photos, "--counts", few)
    assert ended.code == 0, ended.err
    assert "composites are unverified; --check MODEL verifies them" in ended.err
    assert read_set(out).facts["settings"]["check"] == "none"
    assert "**unverified**" in (out / "DATASHEET.md").read_text()
    again = cosight(*arguments(fruit, out, "--counts", few))
    assert again.code == 2
    assert "was made with check 'none'" in again.err


def test_counts_that_do_not_fit_end_in_one_line_before_anything_is_made(fruit, tmp_path, cosight):
    ended = cosight(*arguments(fruit, tmp_path / "set"))
    assert (ended.code, len(ended.err.strip().splitlines())) == (2, 1)
    for part in ("train=1000, 18 at most", "1=100 in test, 3 available", "6=100, none without --near DIR"):
        assert part in ended.err
    assert not (tmp_path / "set").exists()
    fitted = ended.err.split("--counts fit, or --counts ")[1].split(",")
    assert "train=9" in fitted


def test_curators_reject_images_of_the_set_and_the_next_build_replaces_them(built, fruit, tmp_path, cosight):
    _, first = built
    frame = read_set(first).frame.filter(split="test")
    rejected = [frame.filter(category=number)["stimulus"][0] for number in (2, 5)]
    lines = ["stimulus,file,kept", *(f"{stimulus},some.png,false" for stimulus in rejected), "f00,gone.png,false"]
    (tmp_path / "curated.csv").write_text("\n".join(lines) + "\n")
    out = tmp_path / "set"
    ended = cosight(*arguments(fruit, out, "--counts", COUNTS, "--curated", tmp_path / "curated.csv"))
    assert ended.code == 0, ended.err
    assert "2 of 3 rejected images replaced; 1 were not found: gone.png" in ended.err
    after = read_set(out).frame
    assert not after["stimulus"].is_in(rejected).any()
    assert after.height == read_set(first).frame.height
    unchanged = set(read_set(first).frame["stimulus"]) - set(rejected)
    assert unchanged <= set(after["stimulus"])
    assert "| 2 background | rejected by curators | 1 |" in (out / "DATASHEET.md").read_text()


@pytest.mark.slow
def test_a_curate_study_of_the_set_is_the_next_step(built, fruit, tmp_path, cosight):
    """Simulated curators keep nine of ten images, whatever they show."""
    study, votes, out = tmp_path / "curation", tmp_path / "votes.parquet", tmp_path / "set"
    assert cosight("study", "new", study, "--type", "curate", "--set", built[1]).code == 0
    design = study / "study.toml"
    design.write_text(re.sub(r"(?m)^answers = 3", "answers = 1", design.read_text()))
    assert cosight("study", "simulate", study, "--participants", 12).code == 0
    assert cosight("study", "export", study, votes, "--curated", "--all").code == 0
    listed = pl.read_csv(tmp_path / "votes-curated.csv")
    rejected = listed.filter(~pl.col("kept"))["stimulus"].to_list()
    assert rejected
    ended = cosight(*arguments(fruit, out, "--counts", COUNTS, "--curated", tmp_path / "votes-curated.csv"))
    assert ended.code == 0, ended.err
    assert not read_set(out).frame["stimulus"].is_in(rejected).any()


def test_curators_are_told_what_an_image_is_meant_to_show(built, tmp_path, cosight):
    assert cosight("study", "new", tmp_path / "curation", "--type", "curate", "--set", built[1]).code == 0
    pool = load_pool(read_study(tmp_path / "curation"))
    shown = {item.facts["shows"] for item in pool.items.values()}
    assert any(words.endswith("in one") for words in shown)
    assert "abstain" not in shown


def test_a_changed_mask_is_another_source(fruit, tmp_path, cosight):
    few = "1=0,2=3,3=0,4=0,5=0,6=0,7=0,8=0,train=0,distractors=0"
    assert cosight(*arguments(fruit, tmp_path / "set", "--counts", few)).code == 0
    before = {path: path.read_bytes() for path in (fruit / "photos" / "lime").glob("*.mask.png")}
    for path in before:
        path.write_bytes((fruit / "photos" / "plum" / "0.mask.png").read_bytes())
    try:
        ended = cosight(*arguments(fruit, tmp_path / "set", "--counts", few))
    finally:
        for path, data in before.items():
            path.write_bytes(data)
    assert ended.code == 2
    assert "has changed since" in ended.err


def test_a_killed_build_resumes_to_the_same_bytes(built, fruit, tmp_path, cosight):
    """The check model and its verdicts are part of the set's identity, whoever finishes it."""
    out, (_, whole) = tmp_path / "set", built
    command = [sys.executable, "-m", "cosight", *map(str, arguments(fruit, out, "--counts", COUNTS))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(fruit), *sys.path])}
    started = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + 120
    while started.poll() is None and time.monotonic() < deadline and len(list(out.glob("images/**/*.png"))) < 12:
        time.sleep(0.01)
    started.send_signal(signal.SIGKILL)
    assert started.wait() == -signal.SIGKILL  # it was still at work
    assert (out / "journal.jsonl").exists()
    assert cosight(*arguments(fruit, out, "--counts", COUNTS)).code == 0
    for name in ("stimuli.parquet", "DATASHEET.md"):
        assert (out / name).read_bytes() == (whole / name).read_bytes(), name
    files = [path.relative_to(whole) for path in whole.rglob("*.png")]
    assert all((out / file).read_bytes() == (whole / file).read_bytes() for file in files)


def test_a_check_that_cannot_name_a_class_is_refused(fruit):
    cutter = Cutter(read_class_facts("cherry,lime,pear").space, check=check_of(fruit))
    with pytest.raises(InvalidInput, match=r"--check python:fruit_check.* lacks pear: .*or --check none"):
        assert cutter.settings


def test_every_model_of_an_ensemble_must_recognise_the_object(fruit):
    doubting = check_of(fruit).replace("fruit_check:model", "fruit_check:plum_lover")
    cutter = Cutter(read_class_facts("cherry,lime,plum").space, check=f"ensemble:[{check_of(fruit)}]+[{doubting}]")
    image, mask = np.full((64, 64, 3), 150, np.uint8), np.zeros((64, 64), np.uint8)
    mask[20:40, 20:40] = 255
    image[20:40, 20:40] = COLOURS["plum"]
    assert cutter.cut(image, "plum", mask).facts["probability"] > 0.9
    image[20:40, 20:40] = COLOURS["lime"]  # the second model doubts everything but plums
    with pytest.raises(RejectedObject, match="does not recognise lime"):
        cutter.cut(image, "lime", mask)


def test_an_object_that_the_rest_of_the_photo_shows_too_is_not_whole(fruit):
    """Two limes, of which GrabCut finds the larger one; a mask that somebody drew needs not be the only lime."""
    cutter = Cutter(read_class_facts("cherry,lime,plum").space, check=check_of(fruit))
    rng = np.random.default_rng(0)
    large = cv2.ellipse(np.zeros((96, 128), np.uint8), (64, 50), (34, 26), 0, 0, 360, 255, -1)
    small = cv2.ellipse(np.zeros((96, 128), np.uint8), (118, 88), (8, 6), 0, 0, 360, 255, -1)
    one, two = (
        np.clip(np.where(mask[:, :, None] > 0, COLOURS["lime"], 150) + rng.normal(0, 5, (96, 128, 3)), 0, 255)
        for mask in (large, large | small)
    )
    assert cutter.cut(one.astype(np.uint8), "lime").facts["probability"] > 0.9
    with pytest.raises(RejectedObject, match="recognises lime also without the object") as error:
        cutter.cut(two.astype(np.uint8), "lime")
    assert error.value.reason == "object not whole"
    assert cutter.cut(two.astype(np.uint8), "lime", large).facts["probability"] > 0.9


def test_a_fragment_on_one_ground_is_not_recognised(fruit):
    """Light grey is the fourth class of the check model: an object of two colours is neither on every ground."""
    cutter = Cutter(read_class_facts("cherry,lime,plum").space, check=check_of(fruit))
    image = np.full((64, 64, 3), 150, np.uint8)
    image[20:40, 20:40] = COLOURS["lime"]
    mask = np.zeros((64, 64), np.uint8)
    mask[20:40, 20:40] = 255
    assert cutter.cut(image, "lime", mask).facts["probability"] > 0.9
    with pytest.raises(RejectedObject, match="does not recognise plum") as error:
        cutter.cut(image, "plum", mask)
    assert error.value.reason == "object not recognised"


def halves_of(colours):
    """Return an object whose left and right ends have these colours; the middle is grey."""
    image, mask = np.full((64, 64, 3), 150, np.uint8), np.zeros((64, 64), bool)
    mask[20:40, 20:40] = True
    image[mask] = 100
    image[20:40, 20:25], image[20:40, 35:40] = colours
    return Cutout(image, mask, {})


def test_a_part_of_a_hybrid_must_have_what_the_part_that_is_cut_off_lacks(fruit):
    """A body that is recognised by its fur is cut from more of the same; a head is not."""
    cutter, grey = Cutter(read_class_facts("cherry,lime,plum").space, check=check_of(fruit)), (100, 100, 100)
    sides = ("left", "right")
    head_left, head_right, body = (
        halves_of(colours) for colours in ((COLOURS["lime"], grey), (grey, COLOURS["lime"]), (COLOURS["lime"],) * 2)
    )
    assert cutter.telling_half(head_left, "lime", sides) == "left"
    assert cutter.telling_half(head_right, "lime", sides) == "right"
    for cutout, halves in ((body, sides), (head_left, ("top", "bottom"))):
        with pytest.raises(RejectedObject) as error:
            cutter.telling_half(cutout, "lime", halves)
        assert error.value.reason == "no half tells what it is"
    left, right = (MaskedPicture(body.photo, half_of(body.mask, side)) for side in sides)
    with pytest.raises(RejectedObject, match="recognises lime also in the part that is cut off") as error:
        cutter.verify_part(left, right, "lime")
    assert error.value.reason == "part cut off is recognised"
    nothing = MaskedPicture(body.photo, np.zeros_like(body.mask))
    assert cutter.verify_part(left, nothing, "lime")["cut_off"] == 0
    with pytest.raises(RejectedObject, match="in its part of the hybrid") as error:
        cutter.verify_part(nothing, right, "lime")
    assert error.value.reason == "part not recognised"


@pytest.mark.parametrize("colours", [("cherry", "lime"), ("lime", "cherry")])
def test_photos_of_a_hybrid_are_mirrored_so_that_it_shows_the_telling_halves(fruit, colours):
    """Whichever way they face, the first object's half is on the left and the second's on the right."""
    cutter = Cutter(read_class_facts("cherry,lime,plum").space, check=check_of(fruit))
    photos = {}
    for name in colours:
        for facing, halves in (("l", (COLOURS[name], (100,) * 3)), ("r", ((100,) * 3, COLOURS[name]))):
            photos[f"{name}-{facing}"] = halves_of(halves)
    row = {"category": 5, "route": "composite", "original": colours[0], "other": colours[1], "seed": 0}
    row |= {"background": "purple", "split": "left-right", "blend": "feather"}
    for facing in ("ll", "lr", "rl", "rr"):
        files = {"source": f"{colours[0]}-{facing[0]}", "second": f"{colours[1]}-{facing[1]}"}
        made = make_composite(
            row | files, lambda name: photos[name].photo, cutter, mask=lambda name: photos[name].mask, size=64
        )
        assert [part["cut_off"] < 0.5 for part in made.facts["check"]["parts"]] == [True, True]
        pixels = made.pixels.astype(int)
        columns = [np.nonzero(np.abs(pixels - COLOURS[name]).sum(axis=2) < 120)[1].mean() for name in colours]
        assert columns[0] < columns[1]


def test_a_hybrid_with_a_tiny_part_is_not_made():
    masks = {name: np.zeros((64, 64), bool) for name in ("block", "line")}
    masks["block"][20:40, 20:40] = True
    masks["line"][30:32, 20:40] = True
    row = {"category": 5, "route": "composite", "original": "cherry", "other": "lime", "seed": 0, "source": "block"}
    row |= {"second": "line", "background": "purple", "split": "left-right", "blend": "feather"}
    cutter, photo = Cutter(read_class_facts("cherry,lime").space), np.full((64, 64, 3), 150, np.uint8)
    with pytest.raises(RejectedObject, match="a part is less than 25%") as error:
        make_composite(row, lambda name: photo, cutter, mask=masks.get, size=64)
    assert error.value.reason == "part too small"
    made = make_composite(row | {"second": "block"}, lambda name: photo, cutter, mask=masks.get, size=64)
    assert made.facts == {}

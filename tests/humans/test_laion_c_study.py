"""LAION-C's experiment from the command to the score: simulated participants, fresh images, one pooled list."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from cosight import study
from cosight.cli import stimuli
from cosight.measures import error_consistency
from cosight.stimuli import encode
from cosight.stimuli.sets import read_set
from cosight.trials import label_spaces, make_trials, read, write

SPACE = label_spaces["laion-c-16"]
PEOPLE, IMAGES, WARM = 3, 20, 2


def write_photos(folder, first):
    """One photo per class; no two are alike."""
    for number, name in enumerate(SPACE.classes):
        coarse = np.random.default_rng(first + number).integers(0, 256, (4, 4, 3))
        (folder / name).mkdir(parents=True)
        pixels = np.kron(coarse, np.ones((12, 12, 1))).astype(np.uint8)
        (folder / name / f"{first + number}.png").write_bytes(encode(pixels, "png"))


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """The study with the answers of its participants, exported, and a network's answers to the same set."""
    home = tmp_path_factory.mktemp("lab")
    for first, name in enumerate(("photos", "clean", "others")):
        write_photos(home / name, 100 * first)
    for line in (
        f"distort {home}/photos {home}/set --prepare none --workers 1",
        f"corrupt {home}/others {home}/fog --kind fog --severity 3 --workers 1",
    ):
        done = CliRunner().invoke(stimuli.app, line.split())
        assert done.exit_code == 0, done.output
    options = {"protocol": "laion-c", "labels": SPACE.name, "images": IMAGES}
    study.new(home / "lab", type="timed", stimuli=home / "set", **options)
    design = home / "lab" / "study.toml"
    blocks = "".join(f"[[warmup]]\nset = '../{name}'\nimages = {WARM}\n" for name in ("clean", "fog"))
    design.write_text(design.read_text() + blocks)  # the sets are smaller than the protocol's 45
    study.simulate(home / "lab", participants=PEOPLE, progress=False)
    study.export(home / "lab", home / "answers.parquet", everyone=True)
    rng = np.random.default_rng(5)
    frame = read_set(home / "set").frame.select("stimulus", "image", "experiment", "condition", "level", "truth")
    right = pl.Series(rng.random(frame.height) < 0.5)
    frame = frame.with_columns(
        observer=pl.lit("net"),
        kind=pl.lit("model"),
        response=pl.when(right).then("truth").otherwise(pl.lit("cat")),
    )
    write(make_trials(frame, source="net", space=SPACE), home / "net.parquet")
    return home


def test_every_participant_sees_two_distortions_and_images_that_nobody_else_sees(lab):
    trials = read(lab / "answers.parquet").frame
    tests = trials.filter(role="test")
    assert tests.height == PEOPLE * IMAGES
    assert set(tests["experiment"]) == {"laion-c"}  # the set's, whatever the study is called
    assert tests["stimulus"].n_unique() == tests.height  # one answer per image
    for (_,), part in tests.group_by("observer"):
        assert part["condition"].n_unique() == 2
        assert sorted(Counter(part["block"]).values()) == [IMAGES // 10] * 10
        assert set(part["level"]) == {1, 2, 3, 4, 5}
    warm = trials.filter(role="warmup")
    assert warm.height == PEOPLE * 2 * WARM
    assert set(warm["condition"].drop_nulls()) <= {"fog"}


def by_hand(lab):
    """Error consistency of the network with the list of all people's answers, from the joined tables."""
    people = read(lab / "answers.parquet").frame.filter(role="test")
    joined = people.join(read(lab / "net.parquet").frame, on="stimulus", suffix="_net")
    assert joined.height == PEOPLE * IMAGES
    right = (joined["response"] == joined["truth"]).fill_null(False)  # no answer in time is an error
    return error_consistency(right, joined["response_net"] == joined["truth"]).value


def test_the_export_is_scored_as_one_list(lab, cosight):
    """`score --on laion-c` pools the participants of the export; without images in common there is no ceiling."""
    done = cosight("score", lab / "net.parquet", "--humans", lab / "answers.parquet", "--on", "laion-c", "--json")
    assert done.code == 0, done.err
    rows = [row for row in json.loads(done.out) if row["measure"] == "error_consistency"]
    (row,) = [r for r in rows if (r["observer"], r["statistic"], r["group"]) == ("net", "value", "experiment=laion-c")]
    assert row["n"] == PEOPLE * IMAGES
    assert row["value"] == pytest.approx(by_hand(lab), abs=1e-12)
    assert row["low"] < row["value"] < row["high"]
    assert all(row["value"] is None for row in rows if row["statistic"].startswith("ceiling"))


def test_a_list_without_the_names_of_people_is_scored_as_it_is(lab, cosight):
    """All people as one observer, as the paper's list: kappa by `compare` equals the measure of the joined answers."""
    people = read(lab / "answers.parquet")
    pooled = people.frame.with_columns(observer=pl.lit("human:everybody"), kind=pl.lit("human"))
    write(make_trials(pooled, source="pooled", space=people.space), lab / "pooled.parquet")
    done = cosight("compare", lab / "pooled.parquet", lab / "net.parquet", "--measure", "ec", "--json")
    assert done.code == 0, done.err
    (row,) = [
        row
        for row in json.loads(done.out)
        if (row["observer"], row["statistic"], row["group"]) == ("net", "value", "") and row["against"] == "people"
    ]
    assert row["n"] == PEOPLE * IMAGES
    assert row["value"] == pytest.approx(by_hand(lab), abs=1e-12)
    assert row["low"] < row["value"] < row["high"]

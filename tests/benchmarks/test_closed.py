"""A closed test set: its images are in the set, its labels only in the secret manifest."""

import json
import re
import shutil
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import cosight
from cosight.benchmarks import build, building
from cosight.errors import InvalidInput
from cosight.stimuli.sets import check_splits, read_set, verify
from cosight.trials import read, write
from cosight.trials.manifest import MANIFEST_SCHEMA, read_manifest
from cosight.trials.spaces import label_spaces
from cosight.trials.table import make_trials

COUNTS = "1=4,2=3,3=0,4=3,5=3,6=3,7=3,8=6,train=0,distractors=2"
EACH = 25  # images of an evaluation split
PUBLIC = {"stimulus", "file", "image", "experiment", "split"}
MODEL = """
import numpy as np


def model():
    weights = np.random.default_rng(0).normal(size=(48, 10)).astype(np.float32) * 4

    def answer(images):
        features = images.reshape(len(images), 3, 4, 4, 4, 4).mean(axis=(3, 5)).reshape(len(images), -1)
        return (features[:, :, None] * weights).sum(axis=1), features

    return answer
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("closed")
    build("digits", folder / "set", counts=COUNTS, closed=folder / "secret", sheet=folder / "set" / "sheet.png")
    return folder


@pytest.fixture(scope="module")
def secret(built):
    return read_manifest(built / "secret")[0]


def assert_reveals_nothing(folder, secret, seed):
    """Assert that no table, text or image file below `folder` has anything that only the secret manifest may have."""
    # a clean image is its own source; its columns are checked row by row
    hidden = [str(seed), *set(secret["parent"].drop_nulls()) - set(secret["stimulus"])]
    for path in (path for path in folder.rglob("*") if path.is_file()):
        if path.suffix == ".parquet":
            table = pl.read_parquet(path)
            text = table.write_ndjson() + json.dumps(pl.read_parquet_metadata(path))
            key = next((name for name in ("stimulus", "stamp") if name in table.columns), None)
            assert key is not None, path
            for row in table.filter(pl.col(key).is_in(secret["stimulus"].to_list())).iter_rows(named=True):
                assert {name for name, value in row.items() if value is not None} <= PUBLIC, path
            if "job" in table.columns:
                assert not table["job"].str.starts_with("closed").any(), path
        else:
            text = path.read_bytes().decode("utf-8", errors="replace")
        assert not [word for word in hidden if word in text], path


def test_the_set_lists_the_closed_images_without_their_labels(built, secret):
    frame = read_set(built / "set").frame
    closed = frame.filter(split="closed")
    assert len(closed) == EACH
    for name in set(MANIFEST_SCHEMA) - PUBLIC:
        assert closed[name].null_count() == EACH, name
    assert frame.filter(split="test")["gold"].null_count() == 0
    assert closed.select(sorted(PUBLIC)).equals(secret.select(sorted(PUBLIC)))
    assert verify(read_set(built / "set")).intact


def test_the_secret_manifest_has_everything(built, secret):
    assert sorted(path.name for path in (built / "secret").iterdir()) == [".lock", "jobs.parquet", "stimuli.parquet"]
    for name in ("truth", "gold", "category", "group", "condition", "kind", "parameters", "seed"):
        assert secret[name].null_count() == 0, name
    assert secret.filter(group="uncertain")["gold_counts"].list.sum().to_list() == [134] * 6
    counts = dict(secret["category"].value_counts().iter_rows())
    assert counts == {1: 4, 2: 3, 4: 3, 5: 3, 6: 3, 7: 3, 8: 6}


def test_names_and_their_order_tell_nothing(secret):
    assert all(re.fullmatch(r"images/closed/\d{4}\.png", file) for file in secret["file"])
    assert all(re.fullmatch(r"closed-\d{4}", name) for name in secret["image"])
    assert secret["file"].is_sorted()
    for column in ("category", "truth"):
        assert not secret[column].is_sorted()


def test_nothing_in_the_set_reveals_the_labels(built, secret):
    seed = read_manifest(built / "secret")[1]["settings"]["closed_seed"]
    assert_reveals_nothing(built / "set", secret, seed)
    text = (built / "set" / "DATASHEET.md").read_text()
    assert f"And {EACH} images of a closed test set" in text
    assert "| closed |" not in text


@pytest.fixture(scope="module")
def other_secret(tmp_path_factory):
    """The same open set, built again, with a closed set of its own."""
    folder = tmp_path_factory.mktemp("other")
    build("digits", folder / "set", counts=COUNTS, closed=folder / "secret")
    return folder


def test_the_open_seed_tells_neither_the_images_nor_their_order(built, secret, other_secret):
    """Anybody can build the open set again; the closed one has a seed of its own."""
    again = read_manifest(other_secret / "secret")[0]
    assert again["category"].to_list() != secret["category"].to_list()
    changed = pl.col("group").is_in(["uncertain", "must-abstain"])
    assert len(set(again.filter(changed)["stimulus"]) & set(secret.filter(changed)["stimulus"])) <= 2
    first, second = (
        read_set(folder / "set").frame.filter(pl.col("split") != "closed") for folder in (built, other_secret)
    )
    assert first.equals(second)


def test_open_and_closed_share_nothing(built, secret):
    stimuli = read_set(built / "set")
    check_splits(stimuli)
    parents = stimuli.frame["parent"].drop_nulls()
    assert not set(parents) & set(secret["parent"].drop_nulls())


def test_killed_it_reveals_nothing_and_resumes_to_the_same_set(tmp_path, monkeypatch):
    out, hidden, made = tmp_path / "set", tmp_path / "secret", []
    original = building.BuildRecipe.make

    def dying(self, unit, jobs):
        made.append(unit.name)
        if len(made) == 2 * EACH + 10:
            raise KeyboardInterrupt
        return original(self, unit, jobs)

    monkeypatch.setattr(building.BuildRecipe, "make", dying)
    with pytest.raises(KeyboardInterrupt):
        build("digits", out, counts=COUNTS, closed=hidden)
    monkeypatch.undo()
    lines = [json.loads(line) for line in (hidden / "journal.jsonl").read_text().splitlines()]
    seed, rows = lines[0]["settings"]["closed_seed"], pl.DataFrame([line["row"] for line in lines[1:]])
    assert_reveals_nothing(out, rows, seed)
    again = build("digits", out, counts=COUNTS, closed=hidden)
    assert (again.closed.present, again.closed.new) == (9, EACH - 9)
    finished, facts = read_manifest(hidden)
    assert facts["settings"]["closed_seed"] == seed
    assert set(rows["stimulus"]) <= set(finished["stimulus"])
    assert_reveals_nothing(out, finished, seed)


@pytest.fixture
def copied(built, tmp_path):
    """A copy of the set and of its secret, to be changed."""
    for name in ("set", "secret"):
        shutil.copytree(built / name, tmp_path / name)


def test_a_lost_image_is_made_again_and_the_closed_rows_stay_listed(copied, tmp_path):
    before = read_set(tmp_path / "set").frame
    (tmp_path / "set" / before.filter(split="test")["file"][0]).unlink()
    assert build("digits", tmp_path / "set", counts=COUNTS).generated.new == 1  # without --closed
    assert read_set(tmp_path / "set").frame.equals(before)


@pytest.fixture(scope="module")
def run(built, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    (folder / "closed_model.py").write_text(MODEL)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(str(folder))
        model = "python:closed_model:model,size=16,mean=0,std=1"
        cosight.evaluate(model, on=built / "set", abstain=["sp"], out=folder / "run")
    return folder / "run"


def scored(cosight, *arguments):
    done = cosight("score", *arguments, "--resamples", 10, "--json")
    assert done.code == 0, done.err
    rows = json.loads(done.out)
    return {(row["observer"].partition("#")[2], row["measure"]): row for row in rows if not row["group"]}


def test_models_are_shown_the_closed_images_and_scored_with_the_secret(built, secret, run, cosight):
    trials = read(run / "trials").frame
    assert trials.filter(pl.col("stimulus").is_in(secret["stimulus"].to_list()))["truth"].null_count() == 2 * EACH
    rows = scored(cosight, run / "trials", "--humans", built / "secret")
    plain = trials.filter(~pl.col("observer").str.contains("#"))
    labels = secret.select("stimulus", pl.col("truth").alias("secret"), "gold")
    plain = plain.join(labels, on="stimulus", how="left").with_columns(pl.coalesce("truth", "secret"))
    assert rows["", "accuracy"]["n"] == len(plain) == 2 * EACH  # the trials know the truth of the open images
    assert rows["", "accuracy"]["value"] == pytest.approx((plain["response"] == plain["truth"]).mean())
    plain = plain.filter(pl.col("gold").is_not_null())
    assert rows["", "hellinger"]["n"] == len(plain) == EACH
    assert rows["", "hellinger"]["against"] == "simulated gold"
    shares = np.array([[*row, 0.0] for row in plain["probabilities"].to_list()])
    gold = np.array(plain["gold"].to_list())
    by_hand = np.sqrt(((np.sqrt(shares / shares.sum(axis=1, keepdims=True)) - np.sqrt(gold)) ** 2).sum(axis=1) / 2)
    assert rows["", "hellinger"]["value"] == pytest.approx(by_hand.mean(), abs=1e-6)
    table = cosight("score", run / "trials", "--on", "digits", "--humans", built / "secret", "--resamples", 10)
    assert "average" in table.out, table.err


def test_without_the_secret_only_the_open_test_set_is_scored(run, cosight):
    assert scored(cosight, run)["", "accuracy"]["n"] == EACH


def test_a_run_is_scored_with_the_secret(built, run, cosight):
    assert scored(cosight, run, "--humans", built / "secret")["", "hellinger"]["n"] == 2 * EACH


def test_nothing_in_the_run_reveals_the_labels(built, secret, run):
    for path in run.rglob("*.parquet"):
        table = pl.read_parquet(path)
        for name in {"truth", "gold", "gold_counts", "category", "group", "original"} & set(table.columns):
            if "stimulus" in table.columns:
                own = table.filter(pl.col("stimulus").is_in(secret["stimulus"].to_list()))
                assert own[name].null_count() == len(own), (path, name)


def test_answers_of_people_to_closed_images_go_to_the_secret_manifest(copied, tmp_path):
    image = read_set(tmp_path / "set").frame.filter(group="uncertain")["stimulus"][0]
    closed = read_manifest(tmp_path / "secret")[0].filter(group="uncertain")["stimulus"][0]
    answers = pl.DataFrame({"observer": "human:a", "kind": "human", "stimulus": [image, closed], "response": "7"})
    write(make_trials(answers, space=label_spaces["digits-11"]), tmp_path / "people.parquet")
    built = build(
        "digits", tmp_path / "set", counts=COUNTS, closed=tmp_path / "secret", humans=tmp_path / "people.parquet"
    )
    assert built.notices == ("gold labels of 2 Uncertain images are people's",)
    row = read_manifest(tmp_path / "secret")[0].row(by_predicate=pl.col("stimulus") == closed, named=True)
    assert row["gold"][7] == 1
    assert read_set(tmp_path / "set").frame.filter(stimulus=closed)["gold"][0] is None


@pytest.mark.parametrize("where", ["set", "set/secret", "."])
def test_the_secret_lies_outside_the_set(where, tmp_path):
    with pytest.raises(InvalidInput, match=r"--closed must be outside .*set, which is given away") as error:
        build("digits", tmp_path / "set", counts=COUNTS, closed=tmp_path / where)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "set").exists()


def test_a_folder_with_something_else_is_refused_before_anything_is_made(built, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    for folder, message in ((built / "set", "one that --closed wrote"), (tmp_path / "full", "must be new, empty")):
        with pytest.raises(InvalidInput, match=message):
            build("digits", tmp_path / "set", counts=COUNTS, closed=folder)
    assert not (tmp_path / "set").exists()
    with pytest.raises(InvalidInput, match="was made with counts"):  # the secret of another set
        build("digits", tmp_path / "set", counts=COUNTS.replace("8=6", "8=5"), closed=built / "secret")


def test_labels_of_another_closed_set_never_take_the_place_of_its_own(copied, other_secret, tmp_path):
    before = {path: path.read_bytes() for path in (tmp_path / "set").rglob("*") if path.is_file()}
    for other in (tmp_path / "new", other_secret / "secret"):
        with pytest.raises(InvalidInput, match="has a closed test set whose labels are not in"):
            build("digits", tmp_path / "set", counts=COUNTS, closed=other)
    assert {path: path.read_bytes() for path in (tmp_path / "set").rglob("*") if path.is_file()} == before


def test_labels_that_are_secret_are_asked_for(built, run, cosight, tmp_path):
    trials = read(run)
    closed = read_manifest(built / "secret")[0]["stimulus"].to_list()
    write(replace(trials, frame=trials.frame.filter(pl.col("stimulus").is_in(closed))), tmp_path / "closed.parquet")
    done = cosight("score", tmp_path / "closed.parquet", "--humans", built / "set")
    assert done.code == 2
    assert f"no labels of these {len(closed)} images; name the folder that `build --closed` wrote" in done.err

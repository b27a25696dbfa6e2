"""Observers that can refuse: made from what a run keeps, learnt from training images, scaled on a split apart."""

import json

import numpy as np
import polars as pl
import pytest

from cosight.errors import InvalidInput, UnknownName
from cosight.models.abstention import MinMax, abstention
from cosight.models.model import ModelOutputs
from cosight.models.preprocessing import Preprocessing
from cosight.models.python_models import as_model
from cosight.runs.evaluate import evaluate
from cosight.runs.folder import RunFolder
from cosight.stimuli.images import digest, read_image
from cosight.stimuli.sets import read_set
from cosight.trials import read
from cosight.trials.manifest import manifest_frame, read_manifest, write_manifest

from .conftest import CLASSES, OTHER, TINY, draw_images, kept

SPLITS = ["train"] * 120 + ["calibration"] * 50 + ["test"] * 60
TINY_NAME, OTHER_NAME = (line.replace(",size=16,mean=0,", ",mean=0,size=16,") for line in (TINY, OTHER))
STORED = ("sp", "md", "knn", "tapudd")  # that need no model; OpenMax asks for one that is often right


@pytest.fixture(scope="module")
def split_set(tmp_path_factory):
    """230 images whose manifest says which are learnt from, scaled on, and judged."""
    root = tmp_path_factory.mktemp("split")
    draw_images(root / "images", 230, shape=(32, 32), seed=5)
    files = sorted(path.relative_to(root).as_posix() for path in (root / "images").rglob("*.png"))
    files.sort(key=lambda file: file.rpartition("/")[2])
    rows = [
        {"stimulus": digest(read_image(root / file)), "file": file, "image": file.rpartition("/")[2],
         "experiment": "split", "truth": file.split("/")[1], "split": split}
        for file, split in zip(files, SPLITS, strict=True)
    ]  # fmt: skip
    write_manifest(root, manifest_frame(rows), {"settings": {}})
    return root


@pytest.fixture(scope="module")
def run(split_set, workshop, tmp_path_factory):
    """A run that no test changes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(workshop)
        patch.syspath_prepend(str(workshop))
        return evaluate(TINY, on=split_set, out=tmp_path_factory.mktemp("abstaining") / "run", abstain=STORED)


def test_only_the_test_split_is_trials_and_all_of_it_is_kept(run):
    frame = run.trials().frame
    assert run.observers == (TINY_NAME, *(f"{TINY_NAME}#{name}" for name in STORED))
    assert frame.group_by("observer").len()["len"].to_list() == [60] * 5
    assert RunFolder(run.folder).features(TINY_NAME)["features"].shape == (230, 48)


def test_without_abstention_the_other_splits_are_not_shown(split_set, in_workshop, tmp_path):
    assert evaluate(TINY, on=split_set, out=tmp_path / "run").new == 60


@pytest.mark.parametrize("name", STORED)
def test_abstention_is_that_of_the_function_on_the_stored_arrays(run, name):
    """Computed here from the arrays and the manifest, step by step."""
    arrays, stimuli = RunFolder(run.folder).features(TINY_NAME), read_manifest(run.folder)[0]
    part = {split: np.flatnonzero(stimuli["split"].to_numpy() == split) for split in ("train", "calibration", "test")}
    labels = np.array([CLASSES.index(truth) for truth in stimuli["truth"]])[part["train"]]
    of = {split: (arrays["features"][rows], arrays["logits"][rows]) for split, rows in part.items()}
    fitted = abstention(name).function.fit(*of["train"], labels)
    expected = MinMax.fit(fitted.strangeness(*of["calibration"])).abstention(fitted.strangeness(*of["test"]))
    mine = run.trials().frame.filter(pl.col("observer") == f"{TINY_NAME}#{name}")
    assert mine["stimulus"].to_list() == stimuli["stimulus"].gather(part["test"]).to_list()
    assert mine["abstention"].to_numpy() == pytest.approx(expected, abs=1e-12)
    assert expected.std() > 0


def test_answers_are_the_models_own(run):
    frame = run.trials().frame
    base = frame.filter(pl.col("observer") == TINY_NAME)
    for name in STORED:
        mine = frame.filter(pl.col("observer") == f"{TINY_NAME}#{name}")
        same = ["stimulus", "truth", "response", "probabilities"]
        assert mine.select(same).equals(base.select(same))
    assert base["abstention"].null_count() == 60


def test_functions_are_added_later_without_asking_the_model_again(split_set, in_workshop, tmp_path):
    out = tmp_path / "run"
    evaluate(TINY, on=split_set, out=out, abstain=["knn"])
    more = evaluate(TINY, on=split_set, out=out, abstain=["knn", "sp"])
    assert more.new == 0
    assert more.observers == (TINY_NAME, f"{TINY_NAME}#knn", f"{TINY_NAME}#sp")
    whole = evaluate(TINY, on=split_set, out=tmp_path / "whole", abstain=["knn", "sp"])
    assert kept(out) == kept(whole.folder)


def test_a_model_without_features_takes_part_in_what_it_supports(split_set, in_workshop, tmp_path):
    def brightness(images):
        return np.repeat(images.mean(axis=(1, 2, 3))[:, None], 10, axis=1) * np.arange(10)

    plain = as_model(brightness, name="plain", preprocessing=Preprocessing(size=16, mean=0, std=1), class_names=CLASSES)
    run = evaluate(plain, TINY, on=split_set, out=tmp_path / "run", abstain=["knn", "sp"])
    assert run.observers == ("plain", "plain#sp", TINY_NAME, f"{TINY_NAME}#knn", f"{TINY_NAME}#sp")
    assert [note for note in run.notices if "no knn: knn needs features" in note and "plain" in note]


def part_of(split_set, root, condition):
    """Write a set with the rows of this condition, and return its folder."""
    (root / "set").mkdir()
    write_manifest(root / "set", read_set(split_set).frame.with_row_index().filter(condition).drop("index"), {})
    (root / "set" / "images").symlink_to(split_set / "images")
    return root / "set"


def test_of_all_functions_those_that_cannot_be_fitted_are_left_out(split_set, in_workshop, tmp_path, cosight):
    """Of 20 training images none has a 50th neighbour; by its own name, knn is an error."""
    few = part_of(split_set, tmp_path, (pl.col("split") != "train") | (pl.col("index") < 20))
    run = evaluate(TINY, on=few, out=tmp_path / "run", abstain="all")
    told = " ".join(run.notices)
    assert f"{TINY_NAME}: no knn: knn needs at least as many training features as neighbours, got 20 for 50" in told
    assert f"{TINY_NAME}#sp" in run.observers
    assert f"{TINY_NAME}#knn" not in run.observers
    assert cosight("run", "resume", run.folder).code == 0  # `all` is recorded, not the names
    with pytest.raises(InvalidInput, match="knn needs at least as many training features"):
        evaluate(TINY, on=few, out=tmp_path / "knn", abstain="knn")


def test_of_all_functions_those_that_learn_need_a_training_split(split_set, in_workshop, tmp_path):
    untrained = part_of(split_set, tmp_path, pl.col("split") != "train")
    run = evaluate(TINY, on=untrained, out=tmp_path / "run", abstain="all")
    assert run.observers == (TINY_NAME, f"{TINY_NAME}#sp")
    assert "no md: md learns from training images, the set has no split 'train'" in run.notices


def test_an_ensemble_is_scored_by_its_members(split_set, in_workshop, tmp_path):
    """Deep Ensemble: the mean of the members' entropies, and the mean of their probabilities."""
    line = f"ensemble:[{TINY}]+[{OTHER}]"
    run = evaluate(line, TINY, OTHER, on=split_set, out=tmp_path / "run", abstain=["deep-ensemble", "knn", "sp"])
    folder = RunFolder(run.folder)
    shares = np.stack([ModelOutputs(folder.features(name)["logits"]).probabilities for name in (TINY_NAME, OTHER_NAME)])
    entropy = -(shares * np.log(shares)).sum(axis=2).mean(axis=0)
    ensemble = run.observers[0]
    judged = np.array([split != "train" for split in SPLITS])
    strange = folder.features(ensemble)["strangeness.deep-ensemble"]
    assert strange[judged] == pytest.approx(entropy[judged], abs=1e-5)
    assert np.isnan(strange[~judged]).all()  # nobody asks
    mine = run.trials().frame.filter(pl.col("observer") == f"{ensemble}#deep-ensemble")
    mean = shares.mean(axis=0)[[split == "test" for split in SPLITS]]
    assert np.stack(mine["probabilities"].to_list()) == pytest.approx(mean, abs=1e-5)
    told = " ".join(run.notices)
    assert "no knn: knn needs features" in told
    assert "no deep-ensemble: deep-ensemble needs an ensemble" in told


def test_models_in_torch_are_watched_while_they_answer(split_set, tmp_path):
    """ASP and MC-Dropout, against their own functions on the same images."""
    import torch

    from cosight.models import Preprocessing, as_model

    torch.manual_seed(0)
    first, last = torch.nn.Linear(3 * 8 * 8, 32), torch.nn.Linear(32, 10)
    net = torch.nn.Sequential(torch.nn.Flatten(), first, torch.nn.ReLU(), torch.nn.Dropout(0.3), last)
    model = as_model(net, name="mine:net", preprocessing=Preprocessing(size=(8, 8)))
    run = evaluate(model, on=split_set, out=tmp_path / "run", abstain=["asp", "mc-dropout", "md"], threads=1)
    stimuli, arrays = read_set(split_set), RunFolder(run.folder).features("mine:net")
    batch = np.stack([model.prepare(stimuli.pixels(file)) for file in stimuli.frame["file"]])
    for name in ("asp", "mc-dropout"):
        function = abstention(name).function
        expected = function.strangeness(None, function.logits(model, batch))
        judged = (stimuli.frame["split"] != "train").to_numpy()
        assert arrays[f"strangeness.{name}"][judged] == pytest.approx(expected[judged], rel=1e-4, abs=1e-9)
    assert len(run.observers) == 4
    record = json.loads((run.folder / "run.json").read_text())["observers"]
    assert [facts.get("abstention") for facts in record] == [None, "asp", "mc-dropout", "md"]


class TestBadInput:
    def test_unknown_function(self, split_set, in_workshop, tmp_path):
        with pytest.raises(UnknownName, match="did you mean knn"):
            evaluate(TINY, on=split_set, out=tmp_path / "run", abstain=["knnn"])

    def test_a_set_without_splits(self, images, in_workshop, tmp_path):
        with pytest.raises(InvalidInput, match="knn learns from training images, the set has no split 'train'"):
            evaluate(TINY, on=images, out=tmp_path / "run", abstain=["knn"])
        with pytest.raises(InvalidInput, match="scaled on images of its own, the set has no split 'calibration'"):
            evaluate(TINY, on=images, out=tmp_path / "run", abstain=["sp"])
        assert not (tmp_path / "run").exists()

    def test_splits_that_share_an_image(self, split_set, in_workshop, tmp_path):
        found = read_set(split_set)
        twice = found.frame.with_columns(
            split=pl.when(pl.int_range(pl.len()) == 125).then(pl.lit("test")).otherwise("split")
        )
        (tmp_path / "set").mkdir()
        (tmp_path / "set" / "images").symlink_to(split_set / "images")
        write_manifest(tmp_path / "set", pl.concat([twice, found.frame[125:126]]), {"settings": {}})
        with pytest.raises(InvalidInput, match="splits must not share images, calibration and test"):
            evaluate(TINY, on=tmp_path / "set", out=tmp_path / "run", abstain=["sp"])

    def test_fewer_training_images_than_neighbours(self, split_set, in_workshop, tmp_path):
        few = read_set(split_set).frame[100:]
        (tmp_path / "set").mkdir()
        (tmp_path / "set" / "images").symlink_to(split_set / "images")
        write_manifest(tmp_path / "set", few, {"settings": {}})
        with pytest.raises(InvalidInput, match="50"):
            evaluate(TINY, on=tmp_path / "set", out=tmp_path / "run", abstain=["knn"])
        assert read(tmp_path / "run").frame.height == 60  # the model's own answers stay

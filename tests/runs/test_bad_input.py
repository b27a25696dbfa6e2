"""Whatever is wrong with what a run is given is told in one line (exit 2), and what was there before stays."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image as Pillow
from safetensors.numpy import load_file, save_file

import cosight.runs.folder as folder_module
from cosight.errors import InvalidInput
from cosight.files import file_stamp, lock_folder
from cosight.models import Preprocessing, as_model
from cosight.runs.evaluate import evaluate
from cosight.stimuli.sets import read_set
from cosight.trials import read
from cosight.trials.manifest import manifest_frame, write_manifest

from .conftest import OTHER, TINY, drafts, draw_images, kept

pytestmark = pytest.mark.usefixtures("in_workshop")

IN_THE_SECOND_SHARD = "ship/0078.png"  # row 87 of 100: files are in order of their paths


def refused(ended, *parts):
    """Exit 2 and one line that holds these parts."""
    assert ended.code == 2, ended
    assert len(ended.err.splitlines()) == 1
    assert ended.err.startswith("cosight: ")
    for part in parts:
        assert str(part) in ended.err
    return True


def untouched(run):
    """Everything in a run but for the record of attempts and the lock."""
    files = [path for path in run.rglob("*") if path.is_file() and path.name not in ("run.json", ".lock")]
    return {path: path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def finished_once(drawn_few_images, workshop, tmp_path_factory):
    run = tmp_path_factory.mktemp("finished") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(workshop)
        patch.syspath_prepend(str(workshop))
        evaluate(TINY, on=drawn_few_images, out=run, features=True)
    return run


@pytest.fixture
def finished(finished_once, tmp_path):
    """A run with features that nobody has done anything to."""
    return Path(shutil.copytree(finished_once, tmp_path / "finished"))


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["nothing:x"], ["no source is called 'nothing'", "timm", "onnx"]),
        (["resnet50"], ["source:name", "timm:resnet50"]),
        ([TINY, "timm:resnet5"], ["no timm model is called 'resnet5'", "resnet50"]),
        (["timm:resnet18,chekpoint=x"], ["chekpoint", "did you mean checkpoint?"]),
        ([], ["name at least one model"]),
        ([TINY, "--models", "laion-c-papr"], ["laion-c-papr", "laion-c-paper"]),
        ([TINY, "--how", "median"], ["mean", "sum", "max", "'median'"]),
        ([TINY, "--format", "gif"], ["png", "jpeg", "'gif'"]),
        ([TINY, "--engine", "locl"], ["'locl'", "local"]),
        ([TINY, "--on-error", "never"], ["'stop', 'skip'", "'never'"]),
        ([TINY, "--batch", "0"], ["--batch"]),
        ([TINY, "--limit", "0"], ["--limit"]),
        ([TINY, "--labels", "cat,dog"], ["'airplane'", "cat dog"]),
        ([TINY, "--labels", "cifr-10"], ["'cifr-10'", "cifar-10"]),
        ([TINY, "--tiles", "x"], ["--tiles"]),
        ([TINY, "--source", "x"], ["no benchmark is called"]),
        ([TINY, "--probe", "nowhere"], ["nowhere"]),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_made(cosight, few_images, tmp_path, arguments, parts):
    run = tmp_path / "run"
    assert refused(cosight("evaluate", *arguments, "--on", few_images, "--out", run), *parts)
    assert not run.exists()


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"how": "median"}, "--how must be mean or sum or max, got 'median'"),
        ({"format": "gif"}, "--format must be png or jpeg, got 'gif'"),
        ({"on_error": "never"}, "--on-error must be stop or skip, got 'never'"),
        ({"seed": -1}, "--seed must be a whole number, 0 or more, got -1"),
        ({"seed": 0.5}, "--seed must be a whole number, 0 or more, got 0.5"),
        ({"seed": "1"}, "--seed must be a whole number"),
        ({"limit": 2.5}, "--limit must be a whole number, 1 or more, got 2.5"),
        ({"batch": True}, "--batch must be a whole number"),
        ({"threads": 10**9}, "--threads must be a whole number, 1 to 1,024"),
        ({"workers": 10**6}, "--workers must be a whole number, 1 to 1,024, got 1000000"),
        ({"workers": 0}, "--workers must be a whole number, 1 to 1,024, got 0"),
    ],
)
def test_python_callers_get_the_same_checks(few_images, tmp_path, option, message):
    with pytest.raises(InvalidInput, match=message):
        evaluate(TINY, on=few_images, out=tmp_path / "run", **option)
    assert not (tmp_path / "run").exists()


def test_counts_that_are_too_large_to_matter(cosight, few_images, tmp_path, finished):
    """Batches and limits larger than the set are the whole set; numpy's whole numbers are whole numbers."""
    assert (
        cosight(
            "evaluate", TINY, "--on", few_images, "--batch", 10**12, "--limit", 10**30, "--out", tmp_path / "a"
        ).code
        == 0
    )
    assert len(read(tmp_path / "a")) == 100
    run = evaluate(TINY, on=few_images, out=tmp_path / "b", seed=np.int64(3), batch=np.int64(32), features=True)
    assert kept(run.folder) == kept(finished)


def test_stimuli_that_are_none(cosight, few_images, tmp_path):
    run, empty, plain = (tmp_path / name for name in ("run", "empty", "plain"))
    empty.mkdir()
    plain.mkdir()
    shutil.copy(few_images / "cat/0003.png", plain)
    assert refused(cosight("evaluate", TINY, "--on", empty, "--out", run), "found none", empty)
    assert refused(cosight("evaluate", TINY, "--on", tmp_path / "not", "--out", run), tmp_path / "not", "laion-c")
    assert refused(cosight("evaluate", TINY, "--on", plain, "--out", run), "label space", "--labels")
    assert refused(cosight("evaluate", TINY, "--on", "laion-c", "--out", run), "--source")
    assert not run.exists()
    assert cosight("evaluate", TINY, "--on", plain, "--labels", "cifar-10", "--out", run).code == 0
    assert read(run).frame["truth"].to_list() == [None]


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        (TINY.replace("model", "modle"), ["no 'modle'", "did you mean model?"]),
        (TINY.replace("model", "thousand"), ["imagenet-1k lacks airplane", "--probe"]),
        (TINY.replace("model", "seven"), ["7 outputs without names", "10 classes", "classes=FILE", "--probe"]),
    ],
)
def test_a_model_that_cannot_be_loaded_leaves_no_folder(cosight, few_images, tmp_path, line, parts):
    run, train = tmp_path / "run", draw_images(tmp_path / "train", 40, shape=(32, 32), seed=9)
    assert refused(cosight("evaluate", line, "--on", few_images, "--out", run), *parts)
    assert not run.exists()
    known = line if "modle" not in line else TINY
    assert cosight("evaluate", known, "--on", few_images, "--out", run, "--probe", train).code == 0
    assert len(read(run)) == 100


def test_weights_that_do_not_fit_name_the_keys(cosight, mirror, few_images, tmp_path):
    weights = mirror / "weights/cifar10"
    line = f"cosight:resnet32,checkpoint={weights}/standard-resnet20.safetensors"
    ended = cosight("evaluate", line, "--on", few_images, "--out", tmp_path / "run")
    assert refused(ended, "do not fit", "60 missing", "layer1.3.conv1.weight")


def test_a_model_that_answers_nan_names_the_image(cosight, few_images, tmp_path):
    white = few_images / IN_THE_SECOND_SHARD
    Pillow.new("RGB", (32, 32), "white").save(white)
    line = TINY.replace("model", "sometimes_nan")
    run = tmp_path / "run"
    assert refused(cosight("evaluate", line, "--on", few_images, "--out", run), "nan or inf", white.name)
    assert len(read(run)) == 64  # the shard before it


def _broken(path):
    path.write_bytes(path.read_bytes()[:200])


def _missing(path):
    path.unlink()


def _transparent(path):
    Pillow.new("RGBA", (32, 32), (0, 0, 0, 0)).save(path)


def _tiny(path):
    Pillow.new("RGB", (8, 8)).save(path)


def _listed(folder):
    """The folder as a set with a manifest."""
    found = read_set(folder)
    from cosight.stimuli.images import digest

    names = pl.Series("stimulus", [digest(found.pixels(file)) for file in found.frame["file"]])
    write_manifest(folder, manifest_frame(found.frame.with_columns(names).iter_rows(named=True)), {"settings": {}})


@pytest.mark.parametrize("damage", [_broken, _missing, _transparent, _tiny], ids=lambda damage: damage.__name__)
def test_an_image_that_cannot_be_shown_stops_or_is_skipped(cosight, few_images, tmp_path, damage):
    _listed(few_images)
    arguments = ("evaluate", TINY, "--on", few_images, "--features", "--out")
    assert cosight(*arguments, tmp_path / "whole").code == 0
    path, run = few_images / IN_THE_SECOND_SHARD, tmp_path / "run"
    damage(path)
    assert refused(cosight(*arguments, run), path.name, "--on-error skip")
    assert len(read(run)) == 64
    ended = cosight(*arguments, run, "--on-error", "skip")
    assert ended.code == 0
    assert [line for line in ended.err.splitlines() if path.name in line and "skipped" in line]
    assert _rows(run) == _rows(tmp_path / "whole").filter(pl.col("image") != path.name).rows()
    _same_but_for_one(*(next((tmp_path / name).glob("features/*.safetensors")) for name in ("run", "whole")))


def _rows(run):
    frame = read(run).frame.select("stimulus", "image", "truth", "response", "probabilities")
    return frame.rows() if run.name == "run" else frame


def _same_but_for_one(skipped, whole):
    lost = read_set(whole.parents[2] / "few").frame["file"].to_list().index(IN_THE_SECOND_SHARD)
    for name, array in load_file(whole).items():
        found = load_file(skipped)[name]
        assert np.isnan(found[lost]).all()
        assert np.delete(found, lost, axis=0).tobytes() == np.delete(array, lost, axis=0).tobytes()


def test_a_set_of_which_nothing_can_be_shown(cosight, few_images, tmp_path):
    for path in few_images.rglob("*.png"):
        _broken(path)
    ended = cosight("evaluate", TINY, "--on", few_images, "--out", tmp_path / "run", "--on-error", "skip")
    assert refused(ended, "none of the 100 stimuli", "0000.png")


def test_a_full_disk_names_the_file_and_the_run_goes_on_when_there_is_room(sabotaged, finished, few_images, tmp_path):
    """For real: no file may grow beyond a limit, which the first table, then the joined features, exceed."""
    table, joined = next(finished.glob("trials/*.00000.parquet")), next(finished.glob("features/*.safetensors"))
    run = tmp_path / "run"
    arguments = ("evaluate", TINY, "--on", few_images, "--features", "--out", run)
    part = 64 * (10 + 48) * 4  # bytes of a shard's logits and features
    assert table.stat().st_size < part < joined.stat().st_size
    limits = {table.stat().st_size // 2: "stimuli.parquet", part - 1: "00000.safetensors", part + 512: joined.name}
    for largest, name in limits.items():
        ended = sabotaged(None, None, *arguments, largest=largest)
        assert (ended["ended"], len(ended["told"].splitlines())) == (2, 1), ended["told"]
        assert "File too large" in ended["told"]
        assert name in ended["told"]
        assert not drafts(run)
    assert len(read(run)) == 100  # answers are there, their features still in parts
    evaluate(TINY, on=few_images, out=run, features=True)
    assert kept(run) == kept(finished)


def test_every_file_of_a_run_may_be_the_one_that_does_not_fit(
    refused_when_full, cosight, finished, few_images, tmp_path
):
    """run.json, the manifest, thumbnails, features: one line each, and the run goes on to the same bytes."""
    run = tmp_path / "run"
    arguments = ("evaluate", TINY, "--on", few_images, "--features", "--thumbnails", "--out", run)
    files = refused_when_full([100, 4000, 9000, 16_000], *arguments, folder=run)
    assert [Path(file).name for file in files[:2]] == ["run.json", "stimuli.parquet"]
    assert len(set(files)) >= 3
    assert cosight(*arguments).code == 0
    assert kept(run) == kept(finished)


def test_a_thumbnail_that_does_not_fit(monkeypatch, cosight, few_images, tmp_path):
    def full(image, target, **more):
        Path(target).write_bytes(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    arguments = ("evaluate", TINY, "--on", few_images, "--thumbnails", "--out", tmp_path / "run")
    with monkeypatch.context() as patched:
        patched.setattr(Pillow.Image, "save", full)
        assert refused(cosight(*arguments, "--on-error", "skip"), "thumbnails", ".jpeg: No space left on device")
    assert not list((tmp_path / "run/thumbnails").rglob("*.*"))
    assert cosight(*arguments).code == 0
    assert len(list((tmp_path / "run/thumbnails").rglob("*.jpeg"))) == 100


@pytest.mark.parametrize("writer", ["write_table", "_join_safetensors"])
def test_no_space_left_while_writing(cosight, monkeypatch, finished, few_images, tmp_path, writer):
    run = tmp_path / "run"
    arguments = ("evaluate", TINY, "--on", few_images, "--features", "--out", run)

    def full(*given, **more):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(run / "trials"))

    with monkeypatch.context() as patched:
        patched.setattr(folder_module, writer, full)
        assert refused(cosight(*arguments), "No space left on device", run)
    assert json.loads((run / "run.json").read_text())["state"] == "stopped"
    assert not drafts(run)
    assert cosight(*arguments).code == 0
    assert kept(run) == kept(finished)


def test_no_space_inside_the_table_of_polars(cosight, monkeypatch, few_images, tmp_path):
    real = pl.DataFrame.write_parquet

    def half(frame, path, **more):
        if "observer" in frame.columns:
            real(frame, path, **more)
            os.truncate(path, 100)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(frame, path, **more)

    run = tmp_path / "run"
    with monkeypatch.context() as patched:
        patched.setattr(pl.DataFrame, "write_parquet", half)
        ended = cosight("evaluate", TINY, "--on", few_images, "--out", run)
    assert refused(ended, "No space left on device", "00000.parquet")
    assert not list(run.glob("trials/*"))


@pytest.mark.parametrize(
    ("more", "parts"),
    [
        (["--features", "--labels", "airplane,automobile,bird,cat,deer,dog,frog,horse,ship,truck,abstain"], ["given"]),
        (["--features", "--how", "sum"], ["how mean", "got sum"]),
        (["--features", "--batch", "16"], ["batch 32", "got 16"]),
        ([], ["features True, got False"]),
        (["--features", "--limit", "50"], ["count 100", "got 50"]),
        (["--features", "--probe", "OTHER"], ["probe None", "got other"]),
        (["--features", "--on", "OTHER"], ["stimuli digest"]),
    ],
)
def test_a_folder_that_holds_another_plan(cosight, finished, few_images, tmp_path, more, parts):
    other = draw_images(tmp_path / "other", 100, shape=(32, 32), seed=8)
    given = ["--on", few_images, *(other if word == "OTHER" else word for word in more)]  # the last --on counts
    before = untouched(finished)
    ended = cosight("evaluate", OTHER, *given, "--out", finished)
    assert refused(ended, *parts, finished, "choose another --out")
    assert untouched(finished) == before
    assert json.loads((finished / "run.json").read_text())["state"] == "finished"


def test_a_label_space_of_the_same_name_is_told_by_its_classes(cosight, few_images, tmp_path):
    few = [path for path in few_images.iterdir() if path.name not in ("cat", "dog")]
    for path in few:
        shutil.rmtree(path)
    model = as_model(
        lambda x: x.mean(axis=(2, 3))[:, :2] @ np.diag([3.0, 2.0]).astype(np.float32),
        name="mine:two",
        preprocessing=Preprocessing((32, 32), (0, 0, 0), (1, 1, 1)),
        outputs="logits",
        class_names=("cat", "dog"),
    )
    evaluate(model, on=few_images, out=tmp_path / "run", labels="cat,dog")
    with pytest.raises(InvalidInput, match="labels answers cat, dog, got dog, cat"):
        evaluate(model, on=few_images, out=tmp_path / "run", labels="dog,cat")


def test_an_output_that_is_no_run(cosight, few_images, tmp_path):
    thesis = tmp_path / "papers/thesis.txt"
    thesis.parent.mkdir()
    thesis.write_text("years of work")
    for out in (thesis.parent, thesis):
        assert refused(cosight("evaluate", TINY, "--on", few_images, "--out", out), out, "new or empty")
    assert thesis.read_text() == "years of work"
    assert [path.name for path in thesis.parent.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("{", "not the record of a run"),
        ("[]", "not the record of a run"),
        ("[" * 3000, "not the record of a run"),
        ('{"schema": 1}', "not the record of a run"),
        ('{"schema": 99}', "newer cosight (schema 99)"),
        ("\udcff", "not the record of a run"),
    ],
)
def test_a_record_that_cannot_be_read(cosight, finished, few_images, content, part):
    (finished / "run.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    before = kept(finished)
    assert refused(cosight("evaluate", TINY, "--on", few_images, "--features", "--out", finished), "run.json", part)
    assert refused(cosight("run", "status", finished), part)
    assert cosight("trials", "show", finished).code == 0  # the answers are whole
    assert kept(finished) == before


def test_a_table_that_is_none_is_named(cosight, finished, few_images):
    table = next(finished.glob("trials/*.00001.parquet"))
    table.write_bytes(b"")
    ended = cosight("evaluate", TINY, "--on", few_images, "--features", "--out", finished)
    assert refused(ended, table.name, "remove it and run again")
    table.unlink()
    assert cosight("evaluate", TINY, "--on", few_images, "--features", "--out", finished).code == 0


def test_two_processes_in_one_folder(cosight, finished, few_images):
    before = kept(finished)
    with lock_folder(finished):
        ended = cosight("evaluate", OTHER, "--on", few_images, "--features", "--out", finished)
    assert refused(ended, "another process is writing", finished)
    assert kept(finished) == before


def test_the_same_model_twice(cosight, few_images, tmp_path):
    with pytest.raises(InvalidInput, match="answers once"):
        evaluate(TINY, TINY, on=few_images, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    again = TINY.replace("size=16,mean=0", "mean=0,size=16")  # the same in other words
    with pytest.raises(InvalidInput, match="answers once"):
        evaluate(TINY, again, on=few_images, out=tmp_path / "run")
    assert cosight("evaluate", TINY, TINY, "--on", few_images, "--out", tmp_path / "run").code == 0


def test_an_image_that_changes_between_attempts(cosight, monkeypatch, finished, few_images, tmp_path):
    """Refused for an observer who has seen it, also where another one is asked; shown to those who have not."""
    stopped = tmp_path / "stopped"
    _broken(few_images / IN_THE_SECOND_SHARD)
    assert refused(cosight("evaluate", TINY, "--on", few_images, "--out", stopped), "0078.png")
    for line in (TINY, OTHER):
        ended = cosight("evaluate", line, "--on", few_images, "--features", "--out", finished)
        assert refused(ended, "other images than those of this run", "rows 64 to 99", "choose another --out")
    Pillow.new("RGB", (32, 32), "green").save(few_images / IN_THE_SECOND_SHARD)
    assert cosight("evaluate", TINY, "--on", few_images, "--out", stopped).code == 0
    Pillow.new("RGB", (32, 32), "red").save(few_images / "airplane/0000.png")
    before = untouched(stopped)
    assert refused(cosight("evaluate", TINY, "--on", few_images, "--out", stopped), "rows 0 to 63")
    assert untouched(stopped) == before


def test_an_image_that_changes_while_it_is_listed(cosight, few_images, tmp_path):
    _listed(few_images)
    Pillow.new("RGB", (32, 32), "green").save(few_images / "airplane/0000.png")
    ended = cosight("evaluate", TINY, "--on", few_images, "--out", tmp_path / "run")
    assert refused(ended, "airplane/0000.png", "changed")


def test_weights_that_change_under_the_same_name(cosight, monkeypatch, finished, few_images, tmp_path):
    before = untouched(finished)
    monkeypatch.setenv("TINY_SEED", "1")
    ended = cosight("evaluate", TINY, "--on", few_images, "--features", "--out", finished)
    assert refused(ended, "tiny:model", "other weights", "choose another --out")
    assert untouched(finished) == before


def test_a_model_without_answers_may_change(cosight, monkeypatch, few_images, tmp_path):
    """A run that was stopped in its first shard holds nobody to anything."""
    first, run = few_images / "airplane/0000.png", tmp_path / "run"
    whole = first.read_bytes()
    _broken(first)
    assert refused(cosight("evaluate", TINY, "--on", few_images, "--out", run), first.name)
    first.write_bytes(whole)
    monkeypatch.setenv("TINY_SEED", "1")
    assert cosight("evaluate", TINY, "--on", few_images, "--out", run).code == 0


@pytest.mark.usefixtures("one_torch_thread")
def test_a_checkpoint_that_changes_is_noticed_without_loading_it(cosight, mirror, few_images, tmp_path):
    checkpoint, run = tmp_path / "weights.safetensors", tmp_path / "run"
    shutil.copy(mirror / "weights/cifar10/standard-resnet20.safetensors", checkpoint)
    line = f"cosight:resnet20,checkpoint={checkpoint}"
    assert evaluate(line, on=few_images, out=run, threads=1).new == 100
    stamp = file_stamp(checkpoint)
    assert json.loads((run / "run.json").read_text())["observers"][0]["files"] == {str(checkpoint): stamp}
    assert evaluate(line, on=few_images, out=run, threads=1).new == 0
    weights = load_file(checkpoint)
    save_file({**weights, "linear.bias": weights["linear.bias"] + 1}, checkpoint)
    assert refused(cosight("evaluate", line, "--on", few_images, "--out", run, "--threads", 1), "other weights")


def test_a_training_set_that_changes_is_another_probe(cosight, few_images, tmp_path):
    train, run = draw_images(tmp_path / "train", 40, shape=(32, 32), seed=9), tmp_path / "run"
    arguments = ("evaluate", TINY, "--on", few_images, "--out", run, "--probe")
    assert cosight(*arguments, train).code == 0
    assert cosight(*arguments, os.path.relpath(train)).code == 0  # the same in other words
    Pillow.new("RGB", (32, 32), "green").save(train / "cat/0003.png")
    assert refused(cosight(*arguments, train), "probe train", "choose another --out")
    assert refused(cosight(*arguments[:-2], tmp_path / "leaky", "--probe", few_images), "100 of")


def test_observers_whose_files_would_be_the_same(few_images, tmp_path):
    shape = Preprocessing((32, 32), (0, 0, 0), (1, 1, 1))
    models = [
        as_model(lambda x: x[:, :1, 0, :10].mean(axis=1) * 9, name=name, preprocessing=shape, outputs="logits")
        for name in ("mine:a", "mine-a")
    ]
    with pytest.raises(InvalidInput, match="mine-a and mine:a would have the same file names"):
        evaluate(*models, on=few_images, out=tmp_path / "run")
    assert read(tmp_path / "run").observers["observer"].to_list() == ["mine:a"]


def test_a_name_that_would_hide_its_files(few_images, tmp_path):
    shape = Preprocessing((32, 32), (0, 0, 0), (1, 1, 1))
    model = as_model(lambda x: x[:, :1, 0, :10].mean(axis=1) * 9, name="..", preprocessing=shape, outputs="logits")
    assert len(evaluate(model, on=few_images, out=tmp_path / "run").trials()) == 100
    assert {path.name for path in Path(tmp_path).iterdir()} == {"few", "run"}

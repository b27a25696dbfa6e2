"""Evaluating: who can be asked, what is kept, what is shown."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from PIL import Image as Pillow
from safetensors.numpy import load_file
from sklearn.datasets import load_sample_images

import cosight
from cosight.benchmarks import benchmarks
from cosight.benchmarks.altering import photo_alterations
from cosight.errors import InvalidInput, UnknownName
from cosight.models import ModelOutputs, Preprocessing, as_model, load_model, parse
from cosight.models.loading import model_lists
from cosight.runs.evaluate import evaluate
from cosight.runs.execution import thumbnail_file
from cosight.runs.folder import RunFolder
from cosight.stimuli.generate import generate_set
from cosight.stimuli.images import digest, encode, read_image
from cosight.stimuli.sets import read_set, sample
from cosight.trials import label_map, read
from cosight.trials.manifest import manifest_frame, read_manifest, write_manifest
from cosight.trials.mapping import answers_from

from .conftest import CLASSES, OTHER, SUPERCLASSES, TINY, draw_images, kept


@pytest.fixture(scope="module")
def run(images, workshop, tmp_path_factory):
    """A run that no test changes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(workshop)
        patch.syspath_prepend(str(workshop))
        return evaluate(TINY, on=images, out=tmp_path_factory.mktemp("evaluated") / "run", features=True)


def test_a_model_without_features_stores_logits_with_a_notice(few_images, in_workshop, tmp_path):
    lines = (TINY, "python:tiny:logits_only,size=16,mean=0,std=1")
    done = evaluate(*lines, on=few_images, out=tmp_path / "run", features=True)
    with_features, without = (RunFolder(done.folder).features(name) for name in done.observers)
    assert set(with_features) == {"logits", "features"}
    assert set(without) == {"logits"}
    assert [notice for notice in done.notices if "only logits are stored" in notice and "logits_only" in notice]
    assert evaluate(*lines, on=few_images, out=tmp_path / "run", features=True).new == 0
    rows = cosight.compare(done.folder, measure="linear_cka", resamples=10).rows
    assert {row.value for row in rows} == {None}
    assert all("logits only" in row.note for row in rows)
    training = draw_images(tmp_path / "training", 20, seed=5)
    with pytest.raises(InvalidInput, match="features of python:tiny:logits_only"):
        evaluate(lines[1], on=few_images, out=tmp_path / "probed", probe=training)


@pytest.mark.parametrize(
    "use", [read_set, lambda run: cosight.build("laion-c", run, run / "set")], ids=["set", "build"]
)
def test_a_run_is_no_set_of_images(use, run):
    with pytest.raises(InvalidInput, match="is a run, which has no images; give the folder of the images"):
        use(run.folder)


@pytest.fixture
def own_run(images, in_workshop, tmp_path):
    """A run that a test may change."""
    return evaluate(TINY, on=images, out=tmp_path / "run", features=True)


def test_trials_are_what_the_model_answers_one_by_one(run, images, in_workshop):
    model = load_model(TINY)
    frame = run.trials().frame
    stimuli = read_manifest(run.folder)[0]
    assert run.new == run.stimuli == frame.height == 240
    assert frame["stimulus"].to_list() == stimuli["stimulus"].to_list()
    for row in (0, 77, 239):
        given = model.answer(model.prepare(read_image(images / stimuli["file"][row]))[None])
        said = answers_from(label_map("cifar-10", "cifar-10").apply(given.probabilities))
        assert frame["response"][row] == CLASSES[said.response[0]]
        assert frame["probabilities"][row].to_list() == said.probabilities[0].tolist()


def test_features_have_the_order_of_the_stimuli(run, images, in_workshop):
    model = load_model(TINY, features=True)
    arrays = load_file(RunFolder(run.folder).features_file(run.observers[0]))
    files = read_manifest(run.folder)[0]["file"]
    assert {name: array.shape for name, array in arrays.items()} == {"features": (240, 48), "logits": (240, 10)}
    for row in (0, 100, 239):
        given = model.answer(model.prepare(read_image(images / files[row]))[None])
        assert np.array_equal(arrays["features"][row], given.features[0])
        assert np.array_equal(arrays["logits"][row], given.logits[0])


def test_the_record_says_what_was_asked_and_with_what(run):
    record = json.loads((run.folder / "run.json").read_text())
    assert record["state"] == "finished"
    assert record["plan"]["labels"]["name"] == "cifar-10"
    assert record["observers"][0]["mapping"] == {"from": "cifar-10", "to": "cifar-10", "how": "mean"}
    assert record["observers"][0]["identity"]["preprocessing"]["size"] == [16, 16]
    [session] = record["sessions"]
    assert session["images"] == 240
    assert session["outcome"] == "finished"
    assert session["versions"]["polars"] == pl.__version__


def test_models_are_added_and_nothing_is_done_twice(images, in_workshop, tmp_path):
    out = tmp_path / "run"
    first = evaluate(TINY, on=images, out=out)
    before = {path: path.stat().st_mtime_ns for path in (out / "trials").glob("*.0*.parquet")}
    second = evaluate(OTHER, TINY, on=images, out=out)
    assert (first.new, second.new) == (240, 240)
    assert second.observers == (OTHER_NAME, first.observers[0])
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert evaluate(TINY, OTHER, on=images, out=out).new == 0
    assert set(read(out).frame["observer"]) == {first.observers[0], OTHER_NAME}


OTHER_NAME = "python:tiny:other,mean=0,size=16,std=1"


def test_limit_draws_by_name_and_is_part_of_the_plan(images, in_workshop, tmp_path):
    few = evaluate(TINY, on=images, out=tmp_path / "few", limit=30, seed=4)
    all_ = evaluate(TINY, on=images, out=tmp_path / "all")
    same = few.trials().frame.join(all_.trials().frame, on=["stimulus", "response"])
    assert few.stimuli == same.height == 30
    with pytest.raises(InvalidInput, match="stimuli count 30, got 31"):
        evaluate(TINY, on=images, out=tmp_path / "few", limit=31, seed=4)


@pytest.mark.parametrize("how", ["mean", "sum", "max"])
def test_a_thousand_outputs_become_sixteen_classes(how, in_workshop, tmp_path, images):
    """As the mapping does it, recorded, with what was taken for granted said."""
    folder = tmp_path / "set"
    for name, source in (("dog", "dog"), ("knife", "ship"), ("boat", "ship")):
        (folder / name).mkdir(parents=True)
        path = sorted((images / source).iterdir())[0 if name != "boat" else 1]
        (folder / name / path.name).write_bytes(path.read_bytes())
    line = "python:tiny:thousand,size=16,mean=0,std=1"
    done = evaluate(line, on=folder, out=tmp_path / "run", how=how)
    model, frame = load_model(line), done.trials().frame
    mapping = label_map("imagenet-1k", "model-vs-human-16", how=how)
    for row, file in enumerate(read_manifest(done.folder)[0]["file"]):
        given = model.answer(model.prepare(read_image(folder / file))[None])
        said = answers_from(mapping.apply(given.probabilities))
        assert frame["probabilities"][row].to_list() == said.probabilities[0].tolist()
    assert any("1,000 outputs have no names and are assumed to be imagenet-1k's" in note for note in done.notices)
    observer = json.loads((done.folder / "run.json").read_text())["observers"][0]
    assert observer["mapping"] == {"from": "imagenet-1k", "to": "model-vs-human-16", "how": how}


def test_modules_and_functions_can_be_asked_from_python(few_images, tmp_path):
    import torch

    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 8 * 8, 10))
    module = as_model(net, name="mine:linear", preprocessing=Preprocessing(size=(8, 8)))

    def function(batch):
        return batch.mean(axis=(2, 3)) @ np.arange(30, dtype=np.float32).reshape(3, 10)

    array = as_model(function, name="mine:function", preprocessing=Preprocessing(size=(8, 8)), outputs="logits")
    done = cosight.evaluate(module, array, on=few_images, out=tmp_path / "run", threads=1)
    assert done.observers == ("mine:linear", "mine:function")
    assert done.trials().frame.group_by("observer").len()["len"].to_list() == [100, 100]
    with pytest.raises(InvalidInput, match="how photos are prepared for python:Sequential is not known"):
        cosight.evaluate(net, on=few_images, out=tmp_path / "other")


class TestRecordedAnswers:
    def test_they_become_trials_of_the_run(self, run, images, in_workshop, tmp_path):
        again = evaluate(f"trials:{run.folder}", on=images, out=tmp_path / "again")
        assert again.observers == run.observers
        assert again.trials().frame.equals(run.trials().frame)

    def test_what_was_not_shown_to_them_is_no_trial(self, run, images, in_workshop, tmp_path):
        part = tmp_path / "part.parquet"
        run.trials().frame.head(50).write_parquet(part)
        done = evaluate(f"trials:{part}", OTHER, on=images, out=tmp_path / "again")
        counts = dict(done.trials().frame.group_by("observer").len().rows())
        assert counts == {run.observers[0]: 50, OTHER_NAME: 240}
        assert any("no recorded answer to 190 of 240 stimuli" in note for note in done.notices)
        assert done.skipped == {}
        assert read_manifest(done.folder)[0]["stimulus"].null_count() == 0  # the other observer has seen them all

    def test_real_people_are_found_by_name(self, mirror, tmp_path):
        """All ten people of the edge experiment have answered all 160 images (data of Geirhos et al. 2021)."""
        people = mirror / "model-vs-human" / "edge"
        done = evaluate(f"trials:{people}", on=mirror / "texture-vs-shape" / "edges", out=tmp_path / "run")
        frame = done.trials().frame
        assert len(done.observers) == 10
        assert frame.height == 10 * 160
        assert frame["stimulus"].n_unique() == 160
        theirs = read(people).frame
        right = pl.col("response") == pl.col("truth")
        assert frame.select(right.sum()).item() == theirs.select(right.sum()).item()


class TestProbes:
    def test_a_probe_answers_in_the_sets_classes(self, images, in_workshop, tmp_path):
        """The probe is the one that is fitted to the features of the training set, and is found again."""
        training = draw_images(tmp_path / "training", 80, seed=9)
        line = "python:tiny:seven,size=16,mean=0,std=1"
        with pytest.raises(InvalidInput, match=r"7 outputs without names.*--probe"):
            evaluate(line, on=images, out=tmp_path / "run")
        done = evaluate(line, on=images, out=tmp_path / "run", probe=training)
        assert done.observers == ("python:tiny:seven,mean=0,size=16,std=1,probe=training",)
        [probe] = (tmp_path / "run" / "probes").iterdir()
        stamp = probe.stat().st_mtime_ns
        before = kept(done.folder)
        assert evaluate(line, on=images, out=tmp_path / "run", probe=training).new == 0
        assert probe.stat().st_mtime_ns == stamp
        assert kept(done.folder) == before

    def test_it_learns_what_there_is_to_learn(self, in_workshop, tmp_path):
        """Two classes that differ in brightness: a probe on mean colours tells them apart in images it never saw."""
        rng = np.random.default_rng(0)
        for place in range(60):
            name = ("cat", "dog")[place % 2]
            folder = tmp_path / ("training" if place < 40 else "test") / name
            folder.mkdir(parents=True, exist_ok=True)
            pixels = rng.integers(0, 100, (32, 32, 3)) + 120 * (name == "dog")
            (folder / f"{place}.png").write_bytes(encode(pixels.astype(np.uint8), "png"))
        done = evaluate(TINY, on=tmp_path / "test", out=tmp_path / "run", probe=tmp_path / "training", labels="cat,dog")
        frame = done.trials().frame
        assert (frame["response"] == frame["truth"]).all()

    def test_images_that_are_shown_are_not_trained_on(self, images, in_workshop, tmp_path):
        with pytest.raises(InvalidInput, match="must not be trained on images of the run, 240"):
            evaluate(TINY, on=images, out=tmp_path / "run", probe=images)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """A photo in each class folder of LAION-C, by cutting two real ones."""
    folder = tmp_path_factory.mktemp("photos")
    for index, name in enumerate(SUPERCLASSES):
        photo = load_sample_images().images[index % 2][12 * index : 12 * index + 200, 20 * index : 20 * index + 300]
        (folder / name).mkdir()
        (folder / name / f"{index}.png").write_bytes(encode(np.ascontiguousarray(photo), "png"))
    return folder


class TestOnTheWay:
    @pytest.mark.parametrize("format_", [pytest.param("png", marks=pytest.mark.slow), "jpeg"])
    def test_what_is_shown_is_what_would_be_stored(self, format_, photos, in_workshop, tmp_path):
        """LAION-C altered on the way and stored: the same identities, the same answers to the last bit.

        Stored images are read as a set and, without its manifest, as the published layout.
        """
        recipe, _ = photo_alterations(
            benchmarks["laion-c"],
            sample(read_set(photos), 3, seed=3),
            tmp_path / "stored",
            tile_images=photos,
            labels="laion-c-16",
            seed=3,
        )
        generate_set(recipe, tmp_path / "stored", format=format_)
        line = "python:tiny:thousand,size=16,mean=0,std=1"
        way = evaluate(line, on="laion-c", source=photos, out=tmp_path / "way", seed=3, format=format_, limit=3)
        stored = evaluate(line, on=tmp_path / "stored", out=tmp_path / "run")
        layout = evaluate(line, on=tmp_path / "stored" / "images", out=tmp_path / "layout", labels="laion-c-16")
        ours, theirs, read = (r.trials().frame.sort("condition", "level", "truth") for r in (way, stored, layout))
        assert ours.height == 3 * (6 * 5 + 1)
        assert ours.equals(theirs)
        assert ours.drop("image").equals(read.drop("image"))  # names end as the stored files do
        manifests = [read_manifest(r.folder)[0].sort("file") for r in (way, stored)]
        assert manifests[0].equals(manifests[1])
        assert not (way.folder / "images").exists()

    def test_every_superclass_needs_a_photo(self, photos, in_workshop, tmp_path):
        shutil.copytree(photos / "dog", tmp_path / "photos" / "dog")
        line = "python:tiny:thousand,size=16,mean=0,std=1"
        more = {"on": "laion-c", "out": tmp_path / "run"}
        with pytest.raises(InvalidInput, match=r"each of the 16 superclasses needs 1 photo, .*: ball 0, bird 0"):
            evaluate(line, source=tmp_path / "photos", **more)
        with pytest.raises(InvalidInput, match=r"needs 2 photos, .*: ball 1, .*; add photos, or give a smaller --per"):
            evaluate(line, source=photos, per_class=2, **more)
        assert not (tmp_path / "run" / "run.json").exists()

    def test_thumbnails_are_kept_when_asked_for(self, photos, in_workshop, tmp_path):
        line = "python:tiny:thousand,size=16,mean=0,std=1"
        done = evaluate(line, on="laion-c", source=photos, out=tmp_path / "run", limit=1, thumbnails=True)
        stimuli = done.trials().frame["stimulus"]
        sizes = {read_image(thumbnail_file(done.folder / "thumbnails", name)).shape for name in stimuli}
        assert sizes == {(128, 128, 3)}

    @pytest.mark.parametrize(
        ("more", "says"),
        [
            ({"on": "laion-c"}, "give their folder with --source"),
            ({"on": "laionc", "source": "."}, "no benchmark is called 'laionc'; did you mean laion-c"),
            ({"on": "nowhere"}, r"or a benchmark \(visalign, digits, laion-c, .*\), got nowhere"),
        ],
    )
    def test_what_is_missing_is_said(self, more, says, in_workshop, tmp_path):
        with pytest.raises((InvalidInput, UnknownName), match=says):
            evaluate(TINY, out=tmp_path / "run", **more)
        assert not (tmp_path / "run").exists()


def test_a_model_that_cannot_be_asked_is_left_out_if_wished(images, in_workshop, tmp_path):
    bad = "python:tiny:seven,size=16,mean=0,std=1"
    with pytest.raises(InvalidInput, match="7 outputs"):
        evaluate(bad, TINY, on=images, out=tmp_path / "run")
    done = evaluate(bad, TINY, on=images, out=tmp_path / "run", on_error="skip")
    assert done.observers == ("python:tiny:model,mean=0,size=16,std=1",)
    assert any(note.startswith("left out: python:tiny:seven") for note in done.notices)


def test_a_slip_in_a_later_line_is_told_before_the_first_is_asked(images, in_workshop, tmp_path):
    with pytest.raises(UnknownName, match="did you mean resnet18"):
        evaluate(TINY, "timm:resnt18", on=images, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_papers_list_is_asked_line_by_line(cosight, images, in_workshop, tmp_path, monkeypatch):
    """`--models NAME` stands for its lines; here for two small models, since the real ones are on the hub."""
    import cosight.models.loading as lists

    small = lists.ModelList("small", (TINY, OTHER), "here")
    monkeypatch.setattr(lists, "model_lists", {**model_lists, "small": small})
    done = cosight("evaluate", "--models", "small", "--on", images, "--out", tmp_path / "run")
    assert done.code == 0
    assert "2 observers, 240 stimuli, 480 answers" in done.out


def test_a_run_says_accuracy_with_intervals_and_where_it_is(cosight, images, in_workshop, tmp_path):
    done = cosight("evaluate", TINY, "--on", images, "--out", tmp_path / "run")
    assert done.code == 0
    frame = read(tmp_path / "run").frame
    accuracy = (frame["response"] == frame["truth"]).mean()
    assert f"{accuracy:.3f} [" in done.out
    assert done.out.rstrip().endswith(str(tmp_path / "run"))


@pytest.mark.parametrize("stored", [False, True])
def test_ctrl_c_says_how_to_resume(stored, cosight, few_images, in_workshop, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(RunFolder, "write_stimuli" if stored else "locked", interrupted)
    out = tmp_path / "run"
    done = cosight("evaluate", TINY, "--on", few_images, "--out", out)
    said = f"resume with: cosight run resume {out}" if stored else "nothing is stored yet; run the same command again"
    assert (done.code, done.err.splitlines()[-1]) == (130, f"stopped; {said}")


@pytest.mark.parametrize("error", [ImportError("initialization failed"), RuntimeError("Error calling __set_name__")])
def test_ctrl_c_during_an_import_is_no_error(error, cosight, monkeypatch):
    """C extensions raise an ImportError then, and making a class a RuntimeError (before Python 3.12)."""

    def interrupted(*_, **__):
        raise error from KeyboardInterrupt()

    monkeypatch.setattr("cosight.cli.app.app", interrupted)
    done = cosight("list")
    assert (done.code, done.err) == (130, "")


class TestRunCommands:
    def test_status_resume_and_list(self, cosight, images, in_workshop, tmp_path, monkeypatch):
        out = tmp_path / "runs" / "one"
        assert cosight("evaluate", TINY, OTHER, "--on", images, "--out", out, "--features").code == 0
        whole = kept(out)
        for path in (*(out / "trials").glob("*other*.00002.parquet"), *(out / "features").glob("*other*")):
            path.unlink()
        record = json.loads((out / "run.json").read_text())
        record["state"] = "going"  # as a killed process leaves it
        record["observers"][1]["state"] = "going"
        (out / "run.json").write_text(json.dumps(record))
        told = cosight("run", "status", out)
        assert "stopped, 1 of 2 observers finished, 240 stimuli in cifar-10" in told.out
        assert f"resume with: cosight run resume {out}" in told.out
        found = json.loads(cosight("run", "status", out, "--json").out)
        assert [one["answered"] for one in found["observers"]] == [240, 176]
        monkeypatch.chdir(tmp_path)  # the run knows where its arguments were given
        again = cosight("run", "resume", out)
        assert again.code == 0, again.err
        assert kept(out) == whole
        listed = cosight("run", "list", tmp_path / "runs")
        assert listed.out.startswith(f"{out}: finished, 2 of 2 observers finished")

    def test_a_run_from_python_is_resumed_like_any_other(self, cosight, own_run, monkeypatch, tmp_path):
        run = own_run
        whole = kept(run.folder)
        next((run.folder / "trials").glob("*.00001.parquet")).unlink()
        for path in (run.folder / "features").iterdir():
            path.unlink()
        monkeypatch.chdir(tmp_path)
        assert cosight("run", "resume", run.folder).code == 0
        assert kept(run.folder) == whole

    def test_a_model_that_was_given_itself_is_not_found_again(self, cosight, few_images, tmp_path):
        plain = Preprocessing(size=(8, 8))
        model = as_model(lambda x: x.mean(axis=(2, 3)) @ np.eye(3, 10), name="m", preprocessing=plain, outputs="logits")
        evaluate(model, on=few_images, out=tmp_path / "run")
        ended = cosight("run", "resume", tmp_path / "run")
        assert ended.code == 2
        assert "a model that was given in Python, a ArrayModel; call evaluate again" in ended.err

    def test_no_run_is_said(self, cosight, tmp_path):
        assert "a run is a folder with run.json" in cosight("run", "status", tmp_path).err
        assert "no runs below" in cosight("run", "list", tmp_path).err


def test_evaluating_imports_no_torch_where_no_model_needs_it(images, workshop, tmp_path):
    code = (
        "import sys\nfrom cosight.runs.evaluate import evaluate\n"
        f"evaluate({TINY!r}, on={str(images)!r}, out={str(tmp_path / 'run')!r}, limit=10)\n"
        "print([m for m in ('torch', 'timm', 'onnxruntime', 'ray') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=workshop, capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    assert done.stdout.strip() == "[]"


def test_a_run_does_not_lie_among_the_images_it_shows(few_images, in_workshop):
    with pytest.raises(InvalidInput, match="--out must be outside"):
        evaluate(TINY, on=few_images, out=few_images / "run")
    assert not (few_images / "run").exists()


def test_recorded_answers_have_no_features_and_are_found_again(run, images, in_workshop, tmp_path):
    line = f"trials:{run.folder}"
    assert evaluate(line, on=images, out=tmp_path / "again", features=True).new == 240
    assert evaluate(line, on=images, out=tmp_path / "again", features=True).new == 0


class TestWhatChangesAnAnswer:
    """A run never mixes answers that differ in anything but the image."""

    def test_modules_of_the_same_weights_are_told_apart_by_what_they_do(self):
        import torch

        def module(between):
            torch.manual_seed(0)
            return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 8), between, torch.nn.Linear(8, 10))

        plain = Preprocessing(size=(8, 8))
        digests = {
            as_model(module(between), name="m", preprocessing=plain).weights_digest
            for between in (torch.nn.ReLU(), torch.nn.Tanh(), torch.nn.ReLU())
        }
        assert len(digests) == 2

    def test_a_source_that_names_no_files_is_loaded_every_time(self, images, in_workshop, tmp_path, monkeypatch):
        from cosight.models import ModelSource, sources

        path = tmp_path / "scale.txt"
        path.write_text("1")

        def load(spec):
            scale = float(path.read_text())
            return as_model(
                lambda x: scale * x.mean(axis=(2, 3)) @ np.arange(30.0).reshape(3, 10),
                name=spec.label, preprocessing=Preprocessing(size=(8, 8)), outputs="logits",
            )  # fmt: skip

        monkeypatch.setitem(sources._entries, "mine", ModelSource("mine", load, (), "here"))
        evaluate("mine:x", on=images, out=tmp_path / "run")
        path.write_text("2")
        with pytest.raises(InvalidInput, match="with other weights; choose another"):
            evaluate("mine:x", on=images, out=tmp_path / "run")

    def test_recorded_probabilities_follow_the_runs_order_of_classes(self, in_workshop, tmp_path, images):
        folder = tmp_path / "set"
        for name in ("cat", "dog"):
            (folder / name).mkdir(parents=True)
            path = sorted((images / name).iterdir())[0]
            (folder / name / path.name).write_bytes(path.read_bytes())
        plain = Preprocessing(size=(8, 8))
        model = as_model(
            lambda x: np.tile([[2.0, 0.0]], (len(x), 1)), name="mine:cat", preprocessing=plain, outputs="logits",
            class_names=("cat", "dog"),
        )  # fmt: skip
        evaluate(model, on=folder, out=tmp_path / "first", labels="cat,dog")
        again = evaluate(f"trials:{tmp_path / 'first'}", on=folder, out=tmp_path / "again", labels="dog,cat")
        frame = again.trials().frame
        assert set(frame["response"]) == {"cat"}
        assert frame["probabilities"][0].to_list() == pytest.approx([0.1192, 0.8808], abs=1e-4)  # softmax of 0, 2
        with pytest.raises(InvalidInput, match="not among them: bird"):
            evaluate(f"trials:{tmp_path / 'first'}", on=folder, out=tmp_path / "third", labels="cat,dog,bird")

    def test_gold_labels_follow_the_runs_order_of_classes(self, in_workshop, tmp_path, images):
        folder, rows = tmp_path / "set", []
        for name, gold in (("cat", [0.75, 0.25]), ("dog", [0.65, 0.35])):
            path = sorted((images / name).iterdir())[0]
            (folder / name).mkdir(parents=True)
            shutil.copy(path, folder / name)
            row = {"stimulus": digest(read_image(path)), "file": f"{name}/{path.name}", "image": path.name}
            rows.append({**row, "truth": name, "gold": gold})
        plain = Preprocessing(size=(8, 8))
        model = as_model(
            lambda x: np.tile(np.log([[0.75, 0.25]]), (len(x), 1)), name="mine:cat", preprocessing=plain,
            outputs="logits", class_names=("cat", "dog"),
        )  # fmt: skip
        values = []
        for labels in ("cat,dog", "dog,cat"):
            write_manifest(folder, manifest_frame(rows), {"settings": {"labels": "cat,dog"}})
            out = tmp_path / labels
            evaluate(model, on=folder, out=out, labels=labels)
            for source, options in (
                (out, {}),
                (out, {"labels": "dog,cat"}),
                (out / "trials", {"humans": folder}),
            ):
                scores = cosight.score(source, measure=["total_variation"], resamples=5, **options)
                values += [row.value for row in scores.rows if row.observer == "mine:cat"]
        assert values == pytest.approx([0.05] * 6)  # the mean of 0 and .1
        with pytest.raises(InvalidInput, match="not among them: bird"):
            evaluate(model, on=folder, out=tmp_path / "third", labels="cat,dog,bird")

    def test_a_model_of_the_protocol_may_answer_in_float64(self, few_images, tmp_path):
        class Mine:
            name, classes, class_names, weights_digest = "mine:own", 10, None, "1"
            preprocessing = Preprocessing(size=(4, 4))

            def prepare(self, image):
                return np.zeros((3, 4, 4), np.float32)

            def answer(self, batch):
                logits = np.tile(np.linspace(0, 1, 10), (len(batch), 1))
                return ModelOutputs(logits, np.ones((len(batch), 2)))

        done = evaluate(Mine(), on=few_images, out=tmp_path / "run", features=True)
        arrays = load_file(RunFolder(done.folder).features_file("mine:own"))
        assert {name: (a.shape, a.dtype.name) for name, a in arrays.items()} == {
            "features": ((100, 2), "float32"),
            "logits": ((100, 10), "float32"),
        }


class TestProbesAreNotTrainedOnWhatIsShown:
    @pytest.fixture
    def as_set(self, images, tmp_path):
        """The same pictures with a manifest, as another file format."""
        frame = read_set(images).frame
        rows = []
        for row in frame.iter_rows(named=True):
            pixels, file = read_image(images / row["file"]), f"images/{row['file'].replace('.png', '.bmp')}"
            (tmp_path / "set" / file).parent.mkdir(parents=True, exist_ok=True)
            Pillow.fromarray(pixels).save(tmp_path / "set" / file)
            rows.append({**row, "file": file, "stimulus": digest(pixels)})
        write_manifest(tmp_path / "set", manifest_frame(rows), {"settings": {}})
        return tmp_path / "set"

    def test_not_in_another_file_format_nor_with_a_manifest(self, as_set, images, in_workshop, tmp_path):
        for on, probe in ((images, as_set), (as_set, images)):
            with pytest.raises(InvalidInput, match="must not be trained on images of the run, 240"):
                evaluate(TINY, on=on, out=tmp_path / "run", probe=probe)

    def test_nor_on_stored_stimuli_that_have_sources(self, as_set, images, in_workshop, tmp_path):
        found = read_set(as_set)
        write_manifest(as_set, found.frame.with_columns(parent=pl.lit("elsewhere")), {"settings": {}})
        with pytest.raises(InvalidInput, match="must not be trained on images of the run, 240"):
            evaluate(TINY, on=as_set, out=tmp_path / "run", probe=images)

    def test_nor_on_the_photos_that_stimuli_are_made_of(self, photos, in_workshop, tmp_path):
        with pytest.raises(InvalidInput, match="must not be trained on images of the run, 16"):
            evaluate(TINY, on="laion-c", source=photos, out=tmp_path / "run", probe=photos)


class TestOneAfterTheOther:
    """What a later call finds of an earlier one."""

    def test_a_recorded_observer_leaves_the_digests_that_are_known(self, run, images, in_workshop, tmp_path):
        part = tmp_path / "part.parquet"
        run.trials().frame.head(50).with_columns(observer=pl.lit("model:other")).write_parquet(part)
        evaluate(f"trials:{part}", on=images, out=run.folder, features=True)
        assert read_manifest(run.folder)[0]["stimulus"].null_count() == 0

    def test_what_was_skipped_is_tried_again_when_it_is_mended(self, few_images, in_workshop, tmp_path):
        broken = sorted(few_images.rglob("*.png"))[70]
        good = broken.read_bytes()
        rows = [
            {**row, "stimulus": digest(read_image(few_images / row["file"]))}
            for row in read_set(few_images).frame.iter_rows(named=True)
        ]
        write_manifest(few_images, manifest_frame(rows), {"settings": {}})
        whole = evaluate(TINY, on=few_images, out=tmp_path / "whole", features=True)
        broken.write_bytes(b"no picture")
        part = evaluate(TINY, on=few_images, out=tmp_path / "run", features=True, on_error="skip")
        assert len(part.skipped) == 1
        with pytest.raises(InvalidInput, match=broken.name):
            evaluate(TINY, on=few_images, out=tmp_path / "run", features=True)
        broken.write_bytes(good)
        mended = evaluate(TINY, on=few_images, out=tmp_path / "run", features=True)
        assert mended.skipped == {}
        assert kept(mended.folder) == kept(whole.folder)

    def test_resuming_goes_on_with_everyone(self, cosight, images, in_workshop, tmp_path):
        """One observer was killed, another asked since: both are whole in the end, and nothing says finished before."""
        out = tmp_path / "run"
        assert cosight("evaluate", TINY, "--on", images, "--out", out).code == 0
        next((out / "trials").glob("*.00002.parquet")).unlink()
        record = json.loads((out / "run.json").read_text())
        record["observers"][0]["state"] = record["state"] = "going"
        (out / "run.json").write_text(json.dumps(record))
        second = cosight("evaluate", OTHER, "--on", images, "--out", out)
        assert "not all stimuli are answered yet" in second.err
        told = cosight("run", "status", out).out
        assert "stopped" in told
        assert "1 of 2 observers finished" in told
        assert cosight("run", "resume", out).code == 0
        assert "2 of 2 observers finished" in cosight("run", "status", out).out

    def test_whoever_has_answers_is_in_the_record(self, sabotaged, images, in_workshop, tmp_path):
        """Killed right after the first table: the observer is there, and a change of images is noticed."""
        shelf = tmp_path / "shelf"
        shutil.copytree(images, shelf)
        out = tmp_path / "run"
        sabotaged("replaced", 4, "evaluate", TINY, "--on", shelf, "--out", out)
        assert len(json.loads((out / "run.json").read_text())["observers"]) == 1
        assert len(list((out / "trials").glob("*.0*.parquet"))) == 1
        first = shelf / read_set(shelf).frame["file"][0]
        first.write_bytes((shelf / read_set(shelf).frame["file"][1]).read_bytes())
        with pytest.raises(InvalidInput, match="to other images than those of this run"):
            evaluate(OTHER, on=shelf, out=out)

    def test_a_seed_without_a_limit_changes_nothing(self, images, in_workshop, tmp_path):
        evaluate(TINY, on=images, out=tmp_path / "run")
        assert evaluate(TINY, on=images, out=tmp_path / "run", seed=3).new == 0


def test_threads_reach_the_members_of_an_ensemble(mirror):
    from cosight.runs.observers import with_threads

    line = "ensemble:onnx:a.onnx+[onnx:b.onnx,threads=3]+timm:resnet18"
    told = str(with_threads(parse(line), 1))
    assert told == "ensemble:[onnx:a.onnx,threads=1]+[onnx:b.onnx,threads=3]+timm:resnet18"


def test_a_run_can_be_looked_at_without_image_libraries(run):
    code = (
        "import sys\nfor name in ('cv2', 'PIL', 'numba', 'torch', 'safetensors'): sys.modules[name] = None\n"
        f"from cosight.runs.run_record import status\nprint(status({str(run.folder)!r}).state)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "finished"


class TestASet:
    def test_one_picture_under_two_truths_is_told_before_anything_is_shown(self, few_images, in_workshop, tmp_path):
        first = sorted((few_images / "cat").iterdir())[0]
        (few_images / "dog" / "other.png").write_bytes(first.read_bytes())
        with pytest.raises(InvalidInput, match=f"one truth, got cat for cat/{first.name} and dog for dog/other.png"):
            evaluate(TINY, on=few_images, out=tmp_path / "run")
        assert not (tmp_path / "run").exists()

    def test_links_to_nothing_are_missing_files_not_one_picture(self, few_images, in_workshop, tmp_path):
        for name in ("cat", "dog"):
            (few_images / name / "gone.png").symlink_to(tmp_path / "nowhere")
        with pytest.raises(InvalidInput, match=r"cat/gone\.png cannot be read"):
            evaluate(TINY, on=few_images, out=tmp_path / "run")
        done = evaluate(TINY, on=few_images, out=tmp_path / "run", on_error="skip")
        assert sorted(done.skipped) == ["cat/gone.png", "dog/gone.png"]

    def test_folders_may_be_called_anything(self, few_images, cosight, in_workshop, tmp_path):
        odd = tmp_path / "odd [1] *ü"
        few_images.rename(odd)
        done = cosight("evaluate", TINY, "--on", odd, "--out", tmp_path / "run[2] ?")
        assert done.code == 0, done.err
        assert cosight("score", tmp_path / "run[2] ?").code == 0

    def test_images_may_be_small(self, in_workshop, tmp_path):
        """Digits of 8 x 8 pixels, say."""
        for index, name in enumerate(("cat", "dog")):
            (tmp_path / "set" / name).mkdir(parents=True)
            pixels = np.full((8, 8), 90 * index, np.uint8)
            (tmp_path / "set" / name / "1.png").write_bytes(encode(pixels, "png"))
        assert evaluate(TINY, on=tmp_path / "set", out=tmp_path / "run", labels="cifar-10").new == 2

    @pytest.mark.parametrize(
        ("names", "fits"), [(["n01440764", "n01443537"], "imagenet-1k"), (["3", "500"], "imagenet-1k")]
    )
    def test_label_spaces_that_would_do_are_named(self, names, fits, in_workshop, tmp_path):
        for index, name in enumerate(names):
            (tmp_path / "set" / name).mkdir(parents=True)
            (tmp_path / "set" / name / "1.png").write_bytes(encode(np.full((32, 32), index, np.uint8), "png"))
        with pytest.raises(InvalidInput, match=rf"give it with --labels: .*{fits}.* would fit"):
            evaluate(TINY, on=tmp_path / "set", out=tmp_path / "run")


def test_who_scores_an_unfinished_run_is_told(own_run, cosight):
    run = own_run
    record = json.loads((run.folder / "run.json").read_text())
    record["state"] = "stopped"
    (run.folder / "run.json").write_text(json.dumps(record))
    assert "this run is not finished" in cosight("score", run.folder).err


def test_one_broken_record_hides_no_other_run(own_run, cosight, tmp_path):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text("{")
    told = cosight("run", "list", tmp_path)
    assert told.out.startswith(f"{own_run.folder}: finished")
    assert "is not the record of a run" in told.err

"""Training: what it leaves behind, and that it is the same however often it is killed."""

import contextlib
import json
import os
import random
import signal
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from cosight.errors import InvalidInput, UnknownName
from cosight.models import load_model
from cosight.models.architectures import build, checkpoint_facts
from cosight.training import Recipe, train
from cosight.training.context import cross_entropies
from cosight.training.data import load_training_data

pytestmark = pytest.mark.usefixtures("one_torch_thread")


def weights_of(path):
    """All but batch norm's counters, on which no answer depends."""
    return {name: value for name, value in load_file(path).items() if not name.endswith("num_batches_tracked")}


def test_a_finished_network_is_a_model(settings, tmp_path):
    recipe = Recipe(**{**settings, "epochs": 6, "seeds": (45, 46)})
    seen = []
    first, second = train(recipe, out=tmp_path, progress=lambda *a: seen.append(a))
    assert [first.name, second.name] == ["mixer-small@45", "mixer-small@46"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "mixer-small@45.safetensors",
        "mixer-small@46.safetensors",
    ]
    assert first.new
    assert len(first.history) == 6
    assert first.history[-1].loss < first.history[0].loss
    assert first.validation_accuracy == max(epoch.validation_accuracy for epoch in first.history)
    assert first.validation_accuracy == first.history[first.best_epoch].validation_accuracy
    assert seen[0] == (1, 4, "mixer-small@45 1")
    assert seen[-1][2].startswith("mixer-small@46 6: loss ")

    model = load_model(first.line)
    data = load_training_data(recipe)
    assert model.class_names == data.classes
    trained = {"loss": "standard", "augmentation": "with", "paradigm": "supervised"}
    assert model.training_facts == {"architecture": "mixer-small", **trained}  # by which figures group models
    photos = np.stack([model.prepare(data.stimuli.pixels(file)) for file in data.validation.files])
    right = model.answer(photos).logits.argmax(axis=1) == data.validation.labels
    assert right.mean() == first.validation_accuracy  # validation sees images as the model does
    assert any(
        not torch.equal(a, b) for a, b in zip(*(weights_of(t.path).values() for t in (first, second)), strict=True)
    )


def test_the_checkpoint_says_everything(settings, tmp_path):
    (done,) = train(Recipe(**settings), out=tmp_path)
    facts = checkpoint_facts(done.path)
    assert facts["classes"] == ["d0", "d1", "d2"]
    assert facts["recipe"]["rate"] == 2e-3
    assert facts["recipe"]["data"] == "digits"  # no folder of this machine
    assert facts["seed"] == 45
    assert [epoch["epoch"] for epoch in facts["history"]] == [0, 1, 2]
    assert str(tmp_path) not in json.dumps(facts)


def test_finished_seeds_are_not_trained_again(settings, tmp_path):
    (before,) = train(Recipe(**settings), out=tmp_path)
    stamp = before.path.stat().st_mtime_ns
    again, other = train(Recipe(**{**settings, "seeds": (45, 46)}), out=tmp_path)
    assert (again.new, other.new) == (False, True)
    assert again == replace(before, new=False)
    assert again.path.stat().st_mtime_ns == stamp


def test_other_settings_or_data_need_another_folder(settings, write_digits, tmp_path):
    train(Recipe(**settings), out=tmp_path / "out")
    with pytest.raises(InvalidInput, match=r"trained with rate 0\.002, got 0\.001; choose another folder"):
        train(Recipe(**{**settings, "rate": 1e-3}), out=tmp_path / "out")
    other = write_digits(tmp_path / "digits", each=13)
    with pytest.raises(InvalidInput, match="trained with data_digest"):
        train(Recipe(**{**settings, "data": str(other)}), out=tmp_path / "out")


def test_early_stopping_keeps_the_best_weights(settings, tmp_path):
    recipe = Recipe(**{**settings, "epochs": 60, "stop": 3, "rate": 1e-2})
    (done,) = train(recipe, out=tmp_path)
    accuracies = [epoch.validation_accuracy for epoch in done.history]
    assert len(accuracies) == accuracies.index(max(accuracies)) + 4
    (short,) = train(replace(recipe, epochs=done.best_epoch + 1), out=tmp_path / "short")
    for name, value in weights_of(short.path).items():
        assert torch.equal(value, weights_of(done.path)[name])


def test_random_numbers_outside_are_left_alone(settings, tmp_path):
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    train(Recipe(**settings), out=tmp_path)
    assert torch.equal(torch.rand(3), expected)
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["densenet-small", "swin-small"])
def test_killed_between_and_inside_epochs_gives_the_same_bytes(architecture, settings, forks, tmp_path):
    recipe = Recipe(**{**settings, "architecture": architecture, "epochs": 8})
    (whole,) = train(recipe, out=tmp_path / "whole")
    moments, broken = random.Random(4), tmp_path / "broken"
    for _ in range(3):
        (pid,) = forks.start(recipe, broken)
        wait_for_an_epoch(broken)
        time.sleep(moments.uniform(0, 0.1))  # inside the next
        kill(pid)
        assert forks.wait() == [-signal.SIGKILL]
    (done,) = train(recipe, out=broken)
    assert done.path.read_bytes() == whole.path.read_bytes()
    assert [path.name for path in broken.iterdir()] == [done.path.name]


def wait_for_an_epoch(out):
    """Until the state of training changes."""

    def changed():
        return {path: path.stat().st_mtime_ns for path in out.glob("*.training/[!.]*")}

    before, end = changed(), time.monotonic() + 60
    while changed() == before:
        assert time.monotonic() < end
        time.sleep(0.002)


@pytest.mark.slow
def test_killed_inside_writes_gives_the_same_bytes(settings, forks, tmp_path):
    recipe = Recipe(**{**settings, "epochs": 4})
    (whole,) = train(recipe, out=tmp_path / "whole")
    broken = tmp_path / "broken"
    for number in (1, 2, 2, 1, 2, 2, 1):  # the first state, later ones, at last the finished network
        forks.start(recipe, broken, dies_in=number)
        assert forks.wait() == [-signal.SIGKILL]
        assert not list(broken.glob("*.safetensors"))
    (done,) = train(recipe, out=broken)
    assert done.path.read_bytes() == whole.path.read_bytes()
    assert [path.name for path in broken.iterdir()] == [done.path.name]


def kill(pid):
    with contextlib.suppress(ProcessLookupError):  # it has ended
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("architecture", ["mixer-small", pytest.param("convnext-small", marks=pytest.mark.slow)])
def test_two_processes_are_as_one(architecture, settings, forks, tmp_path):
    """27 training images in batches of 13: 13, 13, and one image that only the first process has."""
    recipe = Recipe(**{**settings, "architecture": architecture, "batch": 13, "epochs": 2, "dropout": 0.0})
    (alone,) = train(recipe, out=tmp_path / "alone")
    forks.start(recipe, tmp_path / "two", copies=2)
    assert forks.wait() == [0, 0]
    (shared,) = train(recipe, out=tmp_path / "two")
    assert not shared.new
    theirs = weights_of(shared.path)
    for name, value in weights_of(alone.path).items():
        torch.testing.assert_close(theirs[name], value, rtol=1e-3, atol=1e-4)
    for one, other in zip(alone.history, shared.history, strict=True):
        assert other.loss == pytest.approx(one.loss, rel=1e-4)
        assert other.validation_loss == pytest.approx(one.validation_loss, rel=1e-3)


def test_soft_labels_are_cross_entropy_where_people_agree():
    rng = np.random.default_rng(0)
    logits = torch.from_numpy(rng.normal(size=(20, 4)).astype(np.float32))
    labels = torch.from_numpy(rng.integers(0, 4, 20))
    one_hot = torch.eye(4)[labels]
    expected = torch.nn.functional.cross_entropy(logits, labels, reduction="none")
    torch.testing.assert_close(cross_entropies(logits, one_hot), expected)
    shares = torch.from_numpy(rng.dirichlet(np.ones(4), 20).astype(np.float32))
    by_hand = -(shares * (logits - logits.exp().sum(dim=1, keepdim=True).log())).sum(dim=1)
    torch.testing.assert_close(cross_entropies(logits, shares), by_hand, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("architecture", [pytest.param("densenet-small", marks=pytest.mark.slow), "vit-small"])
def test_a_pretrained_trunk_stays_as_it_is(architecture, settings, tmp_path):
    (before,) = train(Recipe(**{**settings, "architecture": architecture}), out=tmp_path / "before")
    changed = {**settings, "architecture": None, "pretrained": str(before.path), "name": "tuned", "rate": 1e-2}
    (after,) = train(Recipe(**changed), out=tmp_path)
    assert after.name == "tuned@45"
    old, new = weights_of(before.path), weights_of(after.path)
    head = {name for name in old if name.startswith(("classifier", "head."))}
    assert {name for name in old if not torch.equal(old[name], new[name])} == head  # batch norm's means stay too
    assert after.line.startswith(f"cosight:{architecture},")
    assert load_model(after.line).class_names == ("d0", "d1", "d2")


def test_a_trunk_of_timms(settings, tmp_path):
    file = tmp_path / "resnet.safetensors"
    torch.manual_seed(0)
    save_file(build("timm:resnet10t", classes=5).state_dict(), file)
    line = f"timm:resnet10t,checkpoint={file},size=32,crop=1"
    (done,) = train(Recipe(**{**settings, "architecture": None, "pretrained": line}), out=tmp_path)
    assert done.name == "timm-resnet10t@45"
    model = load_model(done.line)
    assert (model.classes, model.size) == (3, (32, 32))
    old, new = weights_of(file), weights_of(done.path)
    assert {name for name in old if not torch.equal(old[name], new[name])} == {"fc.weight", "fc.bias"}


@pytest.mark.parametrize("content", ["gold", "truth"])
def test_targets_reach_the_network(content, settings, digits, tmp_path):
    """People who only ever say d1 teach d1."""
    import polars as pl

    from cosight.stimuli.images import digest, read_image
    from cosight.stimuli.sets import image_files
    from cosight.trials.manifest import manifest_frame, write_manifest

    root = tmp_path / "set"
    rows = []
    for file in image_files(digits):
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_bytes((digits / file).read_bytes())
        pixels = read_image(root / file)
        rows.append({"stimulus": digest(pixels), "file": file, "truth": file[:2], "gold_counts": [1, 97, 2]})
    write_manifest(root, manifest_frame(rows), {"made": "here"})
    assert pl.read_parquet(root / "stimuli.parquet").height == 36
    (done,) = train(Recipe(**{**settings, "data": str(root), "targets": content, "epochs": 8}), out=tmp_path)
    model = load_model(done.line)
    photos = np.stack([model.prepare(read_image(root / row["file"])) for row in rows])
    says_d1 = (model.answer(photos).logits.argmax(axis=1) == 1).mean()
    assert says_d1 == 1 if content == "gold" else says_d1 < 0.6


@pytest.mark.parametrize(
    ("changes", "error", "told"),
    [
        ({"architecture": "mixer-smal"}, UnknownName, "did you mean mixer-small"),
        ({"data": "nowhere"}, InvalidInput, "a folder of images, nowhere does not exist"),
        ({"resize": 16}, InvalidInput, "at least the network's input of 32"),
        ({"rate": 1e30, "clip": 1e30, "least_rate": 1.0}, InvalidInput, "must stay finite"),
        ({"architecture": None, "pretrained": "nothing.safetensors"}, InvalidInput, "does not exist"),
    ],
)
def test_bad_input(changes, error, told, settings, tmp_path):
    with pytest.raises(error, match=told) as caught:
        train(Recipe(**{**settings, **changes}), out=tmp_path)
    assert "\n" not in str(caught.value)


def test_half_precision_is_another_network(settings, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True})
    (exact,) = train(Recipe(**settings), out=tmp_path / "exact", device="cpu")
    (rough,) = train(Recipe(**settings), out=tmp_path / "rough", precision="bfloat16")
    weights = [weights_of(network.path) for network in (exact, rough)]
    assert all(value.dtype == torch.float32 for value in weights[1].values())
    assert any(not torch.equal(value, weights[1][name]) for name, value in weights[0].items())
    assert rough.history[-1].loss == pytest.approx(exact.history[-1].loss, abs=0.1)
    assert checkpoint_facts(rough.path)["precision"] == "bfloat16"
    with pytest.raises(InvalidInput, match="it was trained with precision 'bfloat16', got 'float32'; choose another"):
        train(Recipe(**settings), out=tmp_path / "rough")


def test_a_network_from_before_there_was_a_choice_of_precision(settings, tmp_path):
    (done,) = train(Recipe(**settings), out=tmp_path)
    tensors, facts = load_file(done.path), checkpoint_facts(done.path)
    del facts["precision"]
    save_file(tensors, done.path, metadata={"cosight": json.dumps(facts)})
    (again,) = train(Recipe(**settings), out=tmp_path)
    assert not again.new


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "gpu"}, "--device must be auto, cpu, cuda, cuda:N or mps, got 'gpu'"),
        ({"precision": "float16"}, "--precision must be float32 or bfloat16 here, got 'float16'"),
    ],
)
def test_devices_and_precisions_that_are_wrong(options, message, settings, tmp_path):
    with pytest.raises(InvalidInput, match=message):
        train(Recipe(**settings), out=tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_an_image_that_is_not_the_manifests_is_told(settings, digits, tmp_path):
    root = tmp_path / "set"
    for file in digits.rglob("*.png"):
        (root / file.relative_to(digits)).parent.mkdir(parents=True, exist_ok=True)
        (root / file.relative_to(digits)).write_bytes(file.read_bytes())
    (root / "d0" / "0000.png").write_bytes(b"broken")
    with pytest.raises(InvalidInput, match=r"0000\.png"):
        train(Recipe(**{**settings, "data": str(root)}), out=tmp_path / "out")


def test_the_file_has_no_pickle(settings, tmp_path):
    (done,) = train(Recipe(**settings), out=tmp_path)
    with safe_open(done.path, framework="pt") as file:
        assert list(file.metadata()) == ["cosight"]


def test_fine_tuning_changes_the_trunk_and_resumes(settings, tmp_path):
    """Frozen, only the head changes; fine-tuned, the trunk does too, and an interrupted training ends the same."""
    (first,) = train(Recipe(**settings), out=tmp_path / "first")
    changed = {**settings, "architecture": None, "pretrained": str(first.path), "epochs": 2}
    trunks = []
    for freeze in (True, False):
        (done,) = train(Recipe(**changed, freeze=freeze), out=tmp_path / str(freeze))
        before, after = weights_of(first.path), weights_of(done.path)
        trunks.append([n for n in before if not torch.equal(before[n], after[n]) and not n.startswith("head")])
    assert not trunks[0]
    assert len(trunks[1]) > 10

    def interrupt(batch, batches, text):
        if " 2: " in text and batch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(Recipe(**changed, freeze=False), out=tmp_path / "again", progress=interrupt)
    (resumed,) = train(Recipe(**changed, freeze=False), out=tmp_path / "again")
    assert all(torch.equal(value, after[name]) for name, value in weights_of(resumed.path).items())
    with pytest.raises(InvalidInput, match="freeze = false is for pretrained weights, got none"):
        Recipe(**settings, freeze=False)


def test_fine_tuning_starts_from_the_head_of_the_same_or_finer_classes(settings, tmp_path):
    """Of a class that consists of two outputs, the row is the mean of theirs. Other classes start at random."""
    from cosight.training.networks import head_of, network_factory

    (first,) = train(Recipe(**{**settings, "labels": "d0,d1,d2"}), out=tmp_path)
    tuned = {**settings, "architecture": None, "pretrained": str(first.path), "freeze": False}
    before = load_model(first.line).module
    same = network_factory(Recipe(**tuned, labels="d2,d0,d1")).make(3, 45)
    assert torch.equal(head_of(same).weight, head_of(before).weight[[2, 0, 1]])
    assert torch.equal(head_of(same).bias, head_of(before).bias[[2, 0, 1]])
    assert head_of(same).weight.requires_grad
    joined = replace(network_factory(Recipe(**tuned)), members=((0, 2), (1,))).make(2, 45)
    assert torch.equal(head_of(joined).bias[0], head_of(before).bias[[0, 2]].mean())
    assert network_factory(Recipe(**tuned, labels="cat,dog")).members == ()
    assert network_factory(Recipe(**{**tuned, "freeze": True}, labels="d0,d1,d2")).members == ()

"""SimCLR and BYOL: the losses against their formulas, the momentum, and the phase in training."""

import signal
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

pytest.importorskip("lightly", reason="SimCLR and BYOL need lightly: pip install 'cosight[train]'")

from cosight.errors import InvalidInput
from cosight.models.architectures import build
from cosight.training import Recipe, train
from cosight.training.ssl import TEMPERATURE, momentum, two_view_learner

pytestmark = pytest.mark.usefixtures("one_torch_thread")


@pytest.fixture
def views():
    rng = np.random.default_rng(0)
    return [torch.from_numpy(rng.normal(size=(6, 3, 32, 32)).astype(np.float32)) for _ in range(2)]


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def features(trunk, images):
    return trunk.forward_head(trunk.forward_features(images), pre_logits=True)


def test_simclr_is_nt_xent(views):
    """Chen et al. 2020, equation 1, the mean over both views of all images."""
    torch.manual_seed(0)
    learner = two_view_learner("simclr", build("vit-small", classes=3)).eval()
    with torch.no_grad():
        found = float(learner(*views))
        z = unit(np.concatenate([learner.project(features(learner.trunk, v)).double().numpy() for v in views]))
    likeness, n, total = z @ z.T / TEMPERATURE, 6, 0.0
    for i in range(2 * n):
        j = (i + n) % (2 * n)
        others = sum(np.exp(likeness[i, k]) for k in range(2 * n) if k != i)
        total -= np.log(np.exp(likeness[i, j]) / others)
    assert found == pytest.approx(total / (2 * n), rel=1e-5)


def test_byol_is_the_distance_of_unit_vectors(views):
    """Grill et al. 2020, equations 2 and 3: both ways round."""
    torch.manual_seed(0)
    learner = two_view_learner("byol", build("vit-small", classes=3)).eval()
    for weight in learner.slow_trunk.parameters():
        weight.data += 0.01  # else both are the same network
    with torch.no_grad():
        found = float(learner(*views))
        p = [unit(learner.predict(learner.project(features(learner.trunk, v))).double().numpy()) for v in views]
        z = [unit(learner.slow_project(features(learner.slow_trunk, v)).double().numpy()) for v in views]
    both = [((p[a] - z[1 - a]) ** 2).sum(axis=1).mean() for a in (0, 1)]
    assert found == pytest.approx(sum(both), rel=1e-5)


def test_byols_slow_network_follows(views):
    torch.manual_seed(0)
    learner = two_view_learner("byol", build("vit-small", classes=3))
    assert [momentum(k, 10) for k in (0, 5, 10)] == pytest.approx([0.996, 0.998, 1.0])
    fast, slow = learner.trunk.blocks[0].mlp.fc1.weight, learner.slow_trunk.blocks[0].mlp.fc1.weight
    assert not slow.requires_grad
    before = slow.clone()
    fast.data += 1
    learner.after_step(5, 10)
    torch.testing.assert_close(slow.detach(), 0.998 * before + 0.002 * fast.detach())
    learner(*views).backward()
    assert slow.grad is None
    assert fast.grad is not None


@pytest.fixture
def recipe(settings):
    return Recipe(**{**settings, "ssl": "simclr", "ssl_epochs": 2, "epochs": 2})


@pytest.mark.parametrize("method", ["simclr", "byol"])
def test_pretraining_comes_first_and_everything_learns_after(method, recipe, settings, tmp_path):
    (done,) = train(replace(recipe, ssl=method), out=tmp_path)
    assert [(epoch.phase, epoch.epoch) for epoch in done.history] == [
        *[("ssl", 0), ("ssl", 1), ("train", 0), ("train", 1)],
    ]
    assert done.history[0].validation_accuracy is None
    (plain,) = train(Recipe(**{**settings, "epochs": 2}), out=tmp_path / "plain")
    one, other = load_file(done.path), load_file(plain.path)
    assert one.keys() == other.keys()  # the heads of pretraining are gone
    assert all(not torch.equal(one[name], other[name]) for name in one if name.endswith("weight"))


# inside ssl, on its last epoch, in the first epoch of training, on its last
@pytest.mark.parametrize("kills", [(1,), pytest.param((1, 2, 2, 1), marks=pytest.mark.slow)])
@pytest.mark.slow
def test_killed_while_pretraining_gives_the_same_bytes(recipe, forks, tmp_path, kills):
    (whole,) = train(recipe, out=tmp_path / "whole")
    for number in kills:
        forks.start(recipe, tmp_path / "broken", dies_in=number)
        assert forks.wait() == [-signal.SIGKILL]
    (done,) = train(recipe, out=tmp_path / "broken")
    assert done.path.read_bytes() == whole.path.read_bytes()


def test_a_batch_that_no_set_fills(recipe, tmp_path):
    with pytest.raises(InvalidInput, match="at least one whole batch of 100 images, got 27"):
        train(replace(recipe, batch=100), out=tmp_path)

"""Adversarial training: the losses against finite differences and their formulas, the attacks, and resumed training."""

import signal
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as given_settings
from hypothesis import strategies as st

from cosight.errors import InvalidInput
from cosight.models import load_torch
from cosight.models.architectures import checkpoint_facts
from cosight.stimuli.attacks import pgd
from cosight.training import Recipe, train
from cosight.training.checkpoint import Schedule
from cosight.training.data import load_training_data
from cosight.training.robust import kl_divergences, mart_losses, trades_losses

pytestmark = pytest.mark.usefixtures("one_torch_thread")

ATTACKED = {"adversarial": "pgd", "attack_steps": 2, "attack_eps": 0.5}


@pytest.fixture
def logits():
    rng = np.random.default_rng(0)
    return [torch.from_numpy(rng.normal(size=(7, 4))).requires_grad_() for _ in range(2)]


@pytest.mark.parametrize("name", ["trades", "mart"])
def test_gradients_are_finite_differences(name, logits):
    labels = torch.tensor([0, 1, 2, 3, 0, 1, 2])
    targets = torch.eye(4, dtype=torch.float64)[labels]

    def losses(clean, attacked):
        if name == "trades":
            return trades_losses(clean, attacked, targets, 6.0)
        return mart_losses(clean, attacked, labels, 5.0)

    assert torch.autograd.gradcheck(losses, logits)
    for values, gradient in zip(logits, torch.autograd.grad(losses(*logits).sum(), logits), strict=True):
        assert gradient.abs().max() > 1e-3
        with torch.no_grad():  # by hand for one logit, without autograd
            step = torch.zeros_like(values)
            step[2, 1] = 1e-6
            others = [values + step, values - step]
            up, down = (
                losses(*[other if part is values else part for part in logits]).sum().item() for other in others
            )
        assert gradient[2, 1].item() == pytest.approx((up - down) / 2e-6, rel=1e-5, abs=1e-8)


def test_losses_are_those_of_the_papers(logits):
    clean, attacked = (values.detach() for values in logits)
    p, q = clean.softmax(1).numpy(), attacked.softmax(1).numpy()
    labels = np.array([0, 1, 2, 3, 0, 1, 2])
    rows = np.arange(7)
    kl = (p * np.log(p / q)).sum(axis=1)
    np.testing.assert_allclose(kl_divergences(clean, attacked), kl)
    one_hot = torch.eye(4, dtype=torch.float64)[labels]
    trades = -np.log(p[rows, labels]) + 6 * kl
    np.testing.assert_allclose(trades_losses(clean, attacked, one_hot, 6.0), trades)
    rivals = np.where(np.eye(4, dtype=bool)[labels], 0, q).max(axis=1)
    mart = -np.log(q[rows, labels]) - np.log(1 - rivals) + 5 * kl * (1 - p[rows, labels])
    np.testing.assert_allclose(mart_losses(clean, attacked, torch.from_numpy(labels), 5.0), mart)


@given(st.integers(0, 2**32 - 1), st.floats(0, 20))
@given_settings(max_examples=30, deadline=None)
def test_without_a_change_only_the_first_terms_are_left(seed, beta):
    rng = np.random.default_rng(seed)
    values, labels = torch.from_numpy(rng.normal(0, 5, (3, 5))), torch.from_numpy(rng.integers(0, 5, 3))
    expected = torch.nn.functional.cross_entropy(values, labels, reduction="none")
    targets = torch.eye(5, dtype=torch.float64)[labels]
    torch.testing.assert_close(trades_losses(values, values, targets, beta), expected)
    torch.testing.assert_close(mart_losses(values, values, labels, beta), mart_losses(values, values, labels, 0.0))


def test_extreme_logits_stay_finite():
    certain = torch.tensor([[200.0, -200.0], [-200.0, 200.0]], requires_grad=True)
    losses = mart_losses(certain, certain.flip(0), torch.tensor([0, 0]), 5.0)
    assert losses.isfinite().all()
    (gradient,) = torch.autograd.grad(losses.sum(), certain)
    assert gradient.isfinite().all()


@pytest.mark.parametrize(
    "method", ["pgd", *(pytest.param(name, marks=pytest.mark.slow) for name in ("trades", "mart", "free"))]
)
def test_every_method_trains_resumes_and_records_itself(method, settings, forks, tmp_path):
    recipe = Recipe(**{**settings, **ATTACKED, "adversarial": method, "epochs": 2, "name": method})
    (whole,) = train(recipe, out=tmp_path / "whole")
    facts = checkpoint_facts(whole.path)["recipe"]
    assert {key: facts[key] for key in ATTACKED} == {**ATTACKED, "adversarial": method}
    assert 0 <= whole.robust_accuracy <= whole.validation_accuracy
    assert whole.robust_accuracy == max(epoch.robust_accuracy for epoch in whole.history)
    forks.start(recipe, tmp_path / "broken", dies_in=2)  # the second epoch's state is half written
    assert forks.wait() == [-signal.SIGKILL]
    (done,) = train(recipe, out=tmp_path / "broken")
    assert done.path.read_bytes() == whole.path.read_bytes()


def test_methods_give_different_networks(settings, tmp_path):
    tried = [{}, ATTACKED, {**ATTACKED, "adversarial": "trades"}, {**ATTACKED, "adversarial": "trades", "beta": 1.0}]
    tried += [{**ATTACKED, "attack_norm": "linf", "attack_eps": 0.03}, {"k_wta": 0.2}]
    losses = set()
    for number, changes in enumerate(tried):
        recipe = Recipe(**{**settings, **changes, "epochs": 1})
        losses.add(train(recipe, out=tmp_path / str(number))[0].history[0].loss)
    assert len(losses) == len(tried)


def test_adversarial_training_makes_a_network_robust(settings, tmp_path):
    """On digits with few epochs: under an attack that flips most answers of the standard network."""
    accuracies = {}
    for name, changes in {"standard": {}, "pgd": {**ATTACKED, "attack_eps": 1.5}}.items():
        recipe = Recipe(**{**settings, **changes, "epochs": 12, "rate": 3e-3, "name": name, "dropout": 0.0})
        model = load_torch(train(recipe, out=tmp_path)[0].line)
        data = load_training_data(recipe)
        photos = np.stack([model.prepare(data.stimuli.pixels(file)) for file in data.training.files])
        labels = torch.from_numpy(data.training.labels)
        attacked = pgd(model, torch.from_numpy(photos), labels, eps=1.5, norm="l2", rng=np.random.default_rng(0))
        with torch.no_grad():
            accuracies[name] = float((model(attacked).argmax(dim=1) == labels).float().mean())
    assert accuracies["pgd"] > accuracies["standard"] + 0.1


def test_a_network_with_k_wta_is_loaded_with_it(settings, tmp_path):
    (done,) = train(Recipe(**{**settings, "architecture": "densenet-small", "k_wta": 0.3, "epochs": 1}), out=tmp_path)
    names = {type(part).__name__ for part in load_torch(done.line).module.modules()}
    assert "KWta" in names
    assert "ReLU" not in names


def test_one_cycle_and_steps(settings, tmp_path):
    recipe = Recipe(**{**settings, "schedule": "one-cycle", "rate": 1.0, "epochs": 10})
    schedule = Schedule(recipe.rate)
    rates = [schedule.rate_at(epochs, recipe) for epochs in (0, 1.5, 3, 6.5, 10)]
    assert rates == pytest.approx([1 / 25, (1 + 1 / 25) / 2, 1, 0.5, 0])
    steps = replace(recipe, schedule="steps", patience=5, factor=0.1)
    assert [schedule.rate_at(epochs, steps) for epochs in (0, 4.9, 5, 9.9)] == pytest.approx([1, 1, 0.1, 0.1])
    (done,) = train(replace(recipe, epochs=3, optimiser="sgd", rate=0.05, stop=1), out=tmp_path)
    assert len(done.history) == 3  # all epochs, whatever the accuracy


def test_training_can_stop_at_an_accuracy(settings, tmp_path):
    recipe = Recipe(**{**settings, "epochs": 30, "rate": 1e-2, "stop_at": 0.6})
    (done,) = train(recipe, out=tmp_path)
    assert done.best_epoch == len(done.history) - 1
    assert done.validation_accuracy >= 0.6
    assert all(epoch.validation_accuracy < 0.6 for epoch in done.history[:-1])


def test_a_ball_larger_than_all_images_is_refused(settings, tmp_path):
    with pytest.raises(
        InvalidInput, match=r"attack_eps must not exceed 55.4, the distance from black to white, got 60"
    ):
        train(Recipe(**{**settings, **ATTACKED, "attack_eps": 60.0}), out=tmp_path)


def test_simclr_with_adversarial_views(settings, tmp_path):
    pytest.importorskip("lightly", reason="SimCLR needs lightly: pip install 'cosight[train]'")
    recipe = Recipe(**{**settings, "ssl": "simclr", "ssl_epochs": 1, "epochs": 1})
    (plain,) = train(recipe, out=tmp_path / "plain")
    (hard,) = train(replace(recipe, ssl_views="adversarial", attack_steps=2), out=tmp_path / "hard")
    assert hard.history[0].loss > plain.history[0].loss  # attacked views are harder to tell apart
    assert hard.robust_accuracy is None  # only the views were attacked

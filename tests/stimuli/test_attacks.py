"""Attacks on models whose best attack is known, and on real ones whose robustness is."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from cosight.errors import InvalidInput, UnknownName
from cosight.stimuli.attacks import attacks, fgsm, make_target, pgd

pytestmark = pytest.mark.usefixtures("one_torch_thread")

SHAPE = (3, 8, 8)


class Linear:
    """Two classes; logit 1 - logit 0 = w . x, so the gradient's direction is w everywhere."""

    std = (0.5, 0.25, 0.125)

    def __init__(self, seed=0):
        draw = np.random.default_rng(seed).normal(size=SHAPE)
        self.weight = torch.tensor(draw)

    def __call__(self, images):
        score = (images * self.weight).sum(dim=(1, 2, 3))
        return torch.stack([-score / 2, score / 2], dim=1)

    def margin(self, images, labels):
        """How far on the right side, in logits."""
        logits = self(images)
        return (logits[:, 0] - logits[:, 1]) * torch.where(torch.tensor(labels) == 0, 1, -1)


@pytest.fixture
def linear():
    return Linear()


@pytest.fixture
def grey():
    """Four images far from 0 and 1, so that no clipping spoils the closed forms."""
    return torch.tensor(np.random.default_rng(1).uniform(0.4, 0.6, (4, *SHAPE)))


@pytest.fixture(scope="module")
def cifar(mirror):
    """The first 100 test images as float tensors, and their labels."""
    import json

    pixels = np.asarray(Image.open(mirror / "cifar10/test_images.png"))[:100].reshape(-1, 32, 32, 3)
    labels = json.loads((mirror / "cifar10/test_labels.json").read_text())[:100]
    return torch.from_numpy(pixels / np.float32(255)).permute(0, 3, 1, 2).contiguous(), np.array(labels)


def rng(seed=0):
    return np.random.default_rng(seed)


LABELS = [0, 1, 0, 1]
AWAY = torch.tensor([1.0, -1.0, 1.0, -1.0]).reshape(4, 1, 1, 1)  # sign of the step along w that hurts each label


def test_fgsm_on_a_linear_model_is_the_sign_of_its_weights(linear, grey):
    expected = grey + 0.1 * AWAY * linear.weight.sign()
    torch.testing.assert_close(fgsm(linear, grey, LABELS, eps=0.1), expected)


def test_pgd_linf_on_a_linear_model_reaches_the_corner(linear, grey):
    expected = grey + 0.1 * AWAY * linear.weight.sign()
    torch.testing.assert_close(pgd(linear, grey, LABELS, eps=0.1, rng=rng()), expected)


def test_pgd_l2_on_a_linear_model_goes_straight_along_its_weights(linear, grey):
    """Without a start the first step points at the optimum x + eps w / ||w||; with one, many steps get there."""
    expected = grey + 0.2 * AWAY * linear.weight / linear.weight.norm()
    straight = pgd(linear, grey, LABELS, eps=0.2, norm="l2", steps=1, step_size=0.2, random_start=False)
    torch.testing.assert_close(straight, expected)
    started = pgd(linear, grey, LABELS, eps=0.2, norm="l2", steps=60, step_size=0.1, rng=rng())
    torch.testing.assert_close(started, expected, atol=1e-3, rtol=0)


def test_a_normalised_eps_is_eps_times_std(linear, grey):
    """VisAlign's unit: the normalised tensor moves by eps, so a pixel moves by eps * std of its channel."""
    std = torch.tensor(Linear.std).reshape(1, 3, 1, 1)
    expected = grey + 0.1 * std * AWAY * linear.weight.sign()
    torch.testing.assert_close(fgsm(linear, grey, LABELS, eps=0.1, space="normalised"), expected)
    torch.testing.assert_close(
        fgsm(lambda x: linear(x), grey, LABELS, eps=0.1, space="normalised", std=Linear.std), expected
    )


def test_l2_in_normalised_units_is_the_optimum_of_the_ellipsoid(linear, grey):
    """max w . d with ||d / std|| <= eps is d = eps std^2 w / ||std w|| (Lagrange)."""
    std = torch.tensor(Linear.std, dtype=torch.float64).reshape(1, 3, 1, 1)
    expected = grey + 0.2 * AWAY * std**2 * linear.weight / (std * linear.weight).norm()
    found = pgd(
        linear, grey, LABELS, eps=0.2, norm="l2", steps=1, step_size=0.2, random_start=False, space="normalised"
    )
    torch.testing.assert_close(found, expected)


@given(
    eps=st.floats(0, 1),
    norm=st.sampled_from(["linf", "l2"]),
    seed=st.integers(0, 99),
    steps=st.integers(1, 4),
    step_size=st.none() | st.floats(0.01, 3),
)
def test_every_result_stays_in_range_and_within_eps(eps, norm, seed, steps, step_size):
    images = torch.tensor(rng(seed).uniform(0, 1, (2, *SHAPE)))
    kept = images.clone()
    out = pgd(Linear(seed), images, [0, 1], eps=eps, norm=norm, steps=steps, step_size=step_size, rng=rng(seed))
    change = (out - images).flatten(1).norm(dim=1, p=2 if norm == "l2" else float("inf"))
    assert out.min() >= 0
    assert out.max() <= 1
    assert change.max() <= eps + 1e-9
    assert torch.equal(images, kept)


def test_attacks_do_harm_and_more_steps_do_not_less(linear):
    images = torch.tensor(rng(3).uniform(0, 1, (4, *SHAPE)))
    clean = linear.margin(images, LABELS)
    one = linear.margin(fgsm(linear, images, LABELS, eps=0.05), LABELS)
    many = linear.margin(pgd(linear, images, LABELS, eps=0.05, rng=rng()), LABELS)
    assert (one < clean).all()
    assert (many <= one + 1e-9).all()


def test_the_start_is_uniform_in_the_ball():
    """A flat model leaves the start as it is. E[r] = d / (d + 1) for radius r in a unit ball of dimension d."""

    def flat(images):
        return images.flatten(1)[:, :2] * 0

    images = torch.full((400, 1, 1, 2), 0.5, dtype=torch.float64)
    out = pgd(flat, images, np.zeros(400, int), eps=0.3, norm="l2", steps=1, rng=rng()) - images
    radius = out.flatten(1).norm(dim=1) / 0.3
    assert radius.max() <= 1 + 1e-9
    assert float(radius.mean()) == pytest.approx(2 / 3, abs=4 * 0.2357 / 20)  # sd of r in a disc is .2357
    cube = pgd(flat, images, np.zeros(400, int), eps=0.3, steps=1, rng=rng()) - images
    assert float(cube.var()) == pytest.approx(0.3**2 / 3, rel=0.12)  # variance of U(-eps, eps)


def test_one_generator_an_image_makes_company_irrelevant(grey):
    def curved(images):
        return (images**2 * Linear().weight).flatten(2).sum(2)

    def attack(rows):
        each = [rng(100 + row) for row in rows]
        return pgd(curved, grey[rows], [LABELS[row] for row in rows], eps=0.1, norm="l2", steps=3, rng=each)

    together = attack([0, 1, 2, 3])
    torch.testing.assert_close(attack([2]), together[2:3])
    torch.testing.assert_close(attack([3, 1]), together[[3, 1]])


def test_the_same_generator_state_gives_the_same_bytes(linear, grey):
    first, second, other = (pgd(linear, grey, LABELS, eps=0.1, norm="l2", steps=1, rng=rng(seed)) for seed in (5, 5, 6))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


def test_no_gradient_no_change(grey):
    def sure(images):  # saturated: the softmax is 1 to the last bit
        return torch.stack([images.sum((1, 2, 3)) * 0 + 1e6, images.sum((1, 2, 3)) * 0], dim=1)

    assert torch.equal(fgsm(sure, grey, [0] * 4, eps=0.1), grey)
    assert torch.equal(pgd(sure, grey, [0] * 4, eps=0.1, norm="l2", random_start=False), grey)


def test_tiny_gradients_still_point_somewhere(grey):
    """1e-30, squared, is zero in float32: the L2 step must not vanish."""

    def faint(images):
        score = (images * Linear().weight.float()).sum((1, 2, 3)) * 1e-30
        return torch.stack([-score, score], dim=1)

    out = pgd(faint, grey.float(), LABELS, eps=0.2, norm="l2", steps=1, step_size=0.2, random_start=False)
    torch.testing.assert_close((out - grey.float()).flatten(1).norm(dim=1), torch.full((4,), 0.2), atol=1e-5, rtol=0)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_gradients_are_found_under_the_callers_no_grad(linear, grey, mode):
    expected = fgsm(linear, grey, LABELS, eps=0.1)
    with mode():
        assert torch.equal(fgsm(linear, grey + 0, torch.tensor(LABELS), eps=0.1), expected)
        assert torch.equal(pgd(linear, grey + 0, torch.tensor(LABELS), eps=0.1, rng=rng()), expected)


def test_eps_zero_gives_the_images_and_no_images_give_none(linear, grey):
    assert torch.equal(fgsm(linear, grey, LABELS, eps=0), grey)
    assert torch.equal(pgd(linear, grey, LABELS, eps=0, norm="l2", rng=rng()), grey)
    assert pgd(linear, grey[:0], np.zeros(0, int), eps=0.1, norm="l2", rng=rng()).shape == (0, *SHAPE)


class Trained(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = torch.nn.Dropout()

    def forward(self, images):
        return self.drop(images).flatten(1)[:, :2]


def half_trained():
    model = Trained().eval()
    model.drop.train()
    return model


def nans(images):
    return torch.sqrt(images.flatten(1)[:, :2] - images.flatten(1)[:, :2])  # the root's slope at 0 is infinite


@pytest.mark.parametrize(
    ("model", "change", "message"),
    [
        (Trained(), {}, "eval mode, got one in train mode; call model.eval"),
        (half_trained(), {}, "eval mode"),
        (lambda x: x.sum((1, 2, 3)), {}, r"logits of shape \(4, classes\) here, got shape \(4,\)"),
        (lambda x: {"logits": x}, {}, "got dict"),
        (lambda x: x.flatten(1)[:2, :2], {}, r"got shape \(2, 2\)"),
        (lambda x: x.detach().flatten(1)[:, :2], {}, "needs a gradient"),
        (lambda x: torch.zeros(4, 2, requires_grad=True) * 1, {}, "needs a gradient"),
        (nans, {}, "gradients must be finite, got nan or infinity for 4 images"),
        (Linear(), {"eps": -0.1}, "eps must be a finite number from 0 up, got -0.1"),
        (Linear(), {"eps": float("nan")}, "eps must be"),
        (Linear(), {"eps": 8}, "got 8; 8/255 is written 0.03137"),
        (Linear(), {"labels": [0, 1, 2, 1]}, "labels must be 0 to 1, the model's classes, got 0 to 2"),
        (Linear(), {"labels": [0, 1]}, "labels must be 4 whole numbers"),
        (Linear(), {"labels": [0.0, 1.0, 0.0, 1.0]}, "labels must be 4 whole numbers"),
        (Linear(), {"images": torch.full((4, *SHAPE), 1.5)}, r"\[0, 1\], got 1.5 to 1.5; put the normalisation"),
        (Linear(), {"images": torch.full((4, *SHAPE), torch.nan)}, r"images must lie in \[0, 1\]"),
        (Linear(), {"images": torch.zeros((4, *SHAPE), dtype=torch.uint8)}, "float tensor .* got torch.uint8"),
        (Linear(), {"images": np.zeros((4, *SHAPE))}, "float tensor"),
        (Linear(), {"images": torch.zeros(SHAPE)}, r"\(N, channels, height, width\), got torch.float32 \(3, 8, 8\)"),
        (Linear(), {"space": "bytes"}, "space must be pixels or normalised"),
        (Linear(), {"space": "normalised", "std": (0.5,)}, "needs std, 3 positive numbers"),
        (Linear(), {"space": "normalised", "std": (0.5, 0.5, 0)}, "needs std, 3 positive numbers"),
        (lambda x: Linear()(x), {"space": "normalised"}, "got None; give std="),
        (Linear(), {"std": (0.5,) * 3}, "std belongs to space='normalised'"),
    ],
)
def test_bad_input_is_named(grey, model, change, message):
    arguments = {"images": grey, "labels": LABELS, "eps": 0.1} | change
    with pytest.raises(InvalidInput, match=message):
        fgsm(model, **arguments)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"norm": "l1"}, "norm must be linf or l2, got 'l1'"),
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"step_size": -1.0}, "step_size must be a positive number"),
        ({"rng": None}, "a random start needs rng"),
        ({"rng": [np.random.default_rng(0)]}, r"one per image \(4\), got 1"),
    ],
)
def test_bad_options_of_pgd_are_named(linear, grey, change, message):
    with pytest.raises(InvalidInput, match=message):
        pgd(linear, grey, LABELS, **({"eps": 0.1, "rng": rng()} | change))


def test_the_registry_knows_them_and_guesses():
    assert list(attacks) == ["fgsm", "pgd-linf", "pgd-l2", "autoattack-linf", "autoattack-l2"]
    assert all(attack.summary and attack.citation for attack in attacks.values())
    with pytest.raises(UnknownName, match="did you mean pgd-l2"):
        attacks["pgd_l2"]


@pytest.mark.parametrize(
    ("name", "eps"), [pytest.param("autoattack-l2", 0.3, marks=pytest.mark.slow), ("autoattack-linf", 0.03)]
)
def test_autoattack_fools_within_eps_and_leaves_the_rest_alone(name, eps):
    pytest.importorskip("pyautoattack", reason="AutoAttack needs pip install 'cosight[attacks]'")
    torch.manual_seed(0)
    head = torch.nn.Linear(3 * 8 * 8, 5)

    def model(images):
        return head(10 * images.flatten(1))

    images = torch.rand(6, 3, 8, 8)
    labels = model(images).argmax(dim=1)
    attack = attacks[name].prepare(make_target(model, images, labels))
    state = torch.random.get_rng_state()
    attacked = attack(eps, torch.arange(6), np.random.default_rng(0))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(attacked, attack(eps, torch.arange(6), np.random.default_rng(0)))
    order = 2 if name.endswith("l2") else float("inf")
    assert (torch.linalg.vector_norm((attacked - images).flatten(1), ord=order, dim=1) <= eps + 1e-5).all()
    assert (model(attacked).argmax(dim=1) != labels).sum() >= 5
    still = attack(eps / 1000, torch.arange(6), np.random.default_rng(0))
    assert torch.equal(still, images)  # nothing fools
    with pytest.raises(InvalidInput, match="at least 4 classes, got 2"):
        attacks[name].prepare(make_target(lambda x: model(x)[:, :2], images, labels % 2))


def test_without_torch_only_the_use_fails():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from cosight.stimuli import attack_recipe, attacks\n"
        "try: attacks.fgsm(print, [], [], eps=0)\n"
        "except ValueError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "attacks need torch, which is not installed; pip install 'cosight[models]'"


def accuracy(model, images, labels):
    with torch.no_grad():
        return float((model(images).argmax(1).numpy() == labels).mean())


def small(mirror, name):
    from cosight.models import load_torch

    return load_torch(f"cosight:resnet20,checkpoint={mirror / 'weights/cifar10' / name}.safetensors")


@pytest.mark.parametrize("count", [25, pytest.param(60, marks=pytest.mark.slow)])
def test_a_standard_network_falls_to_pgd(mirror, cifar, count):
    """2.0 % on 500 images under a 20-step PGD at 2/255, says the README of the weights; se on 60 is 1.8 points."""
    model = small(mirror, "standard-resnet20")
    images, labels = cifar[0][:count], cifar[1][:count]
    attacked = pgd(model, images, labels, eps=2 / 255, rng=rng())
    assert accuracy(model, attacked, labels) <= 0.06
    assert float((attacked - images).abs().max()) <= 2 / 255 + 1e-7


@pytest.mark.slow
def test_an_l2_trained_network_withstands_half_of_pgd(mirror, cifar):
    """40.3 % on 300 images under a 10-step L2 PGD at eps 1, says the README; se on 100 is 4.9 points."""
    model = small(mirror, "adversarial-l2-resnet20")
    images, labels = cifar
    attacked = pgd(model, images, labels, eps=1, norm="l2", steps=10, rng=rng())
    assert accuracy(model, attacked, labels) == pytest.approx(0.403, abs=0.1)
    assert float((attacked - images).flatten(1).norm(dim=1).max()) <= 1 + 1e-5

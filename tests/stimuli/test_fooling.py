"""Category 3: what is kept, what is not and why."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from cosight.errors import InvalidInput, UnknownName
from cosight.stimuli.attack_recipe import VISALIGN_EPS, attack_images, predict_classes
from cosight.stimuli.attacks import fgsm, pgd
from cosight.stimuli.images import digest
from cosight.stimuli.kinds import stimulus_seed

pytestmark = pytest.mark.usefixtures("one_torch_thread")


class Brightness:
    """Class 1 where the mean pixel is above `threshold` (in 255ths), class 0 elsewhere; a gradient at every pixel."""

    std = (0.229, 0.224, 0.225)  # ImageNet's

    def __init__(self, threshold):
        self.threshold = threshold

    def __call__(self, images):
        above = images.mean(dim=(1, 2, 3)) * 255 - self.threshold
        return torch.stack([-above, above], dim=1)


def plain(value, shape=(32, 32, 3)):
    return np.full(shape, value, np.uint8)


def verdicts(found, **only):
    return [(a.eps, a.verdict) for a in found if all(getattr(a, key) == value for key, value in only.items())]


def test_eight_bits_swallow_visaligns_smallest_eps():
    """.005 * .229 * 255 = .29 of a step rounds to 0; .01 to .025 (.58 to 1.46) to 1; .03 (1.75) to 2."""
    assert VISALIGN_EPS == (0.005, 0.01, 0.015, 0.02, 0.025, 0.03)
    found = attack_images([plain(100)], [0], {"m": Brightness(101.5)})
    expected = ["unchanged", "not-fooled", "repeated", "repeated", "repeated", "kept"]
    assert verdicts(found) == list(zip(VISALIGN_EPS, expected, strict=True))
    kept = found[-1]
    assert (kept.pixels == 102).all()
    assert (kept.before, kept.after, kept.fooled, kept.seed, kept.kept) == (0, 1, ("m",), None, True)
    assert all(attempt.pixels is None for attempt in found[:-1])


def test_the_smallest_eps_that_fools_or_all_of_them():
    models, eps = {"m": Brightness(101.5)}, (3 / 255, 1 / 255, 2 / 255, 2.2 / 255)
    smallest = attack_images([plain(100)], [0], models, eps=eps, space="pixels")
    assert [a.verdict for a in smallest] == ["not-fooled", "kept", "larger", "larger"]
    assert [a.eps for a in smallest] == sorted(eps)
    every = attack_images([plain(100)], [0], models, eps=eps, space="pixels", choose="all")
    assert [a.verdict for a in every] == ["not-fooled", "kept", "repeated", "kept"]
    assert [int(a.pixels.max()) for a in every if a.kept] == [102, 103]


def test_what_is_wrong_already_cannot_be_fooled():
    found = attack_images([plain(100), plain(200)], [1, 1], {"m": Brightness(150)}, eps=(0.9,), space="pixels")
    assert [(a.image, a.verdict, a.before, a.after) for a in found] == [(0, "clean-wrong", 0, None), (1, "kept", 1, 0)]


@pytest.mark.parametrize(
    ("judges", "kept"),
    [
        ("own", [("easy", 2), ("hard", 5)]),  # each model's own threshold decides
        ("any", [("easy", 2), ("hard", 2)]),  # gradients agree, and easy falls at 2 whoever gives them
        ("all", [("easy", 5), ("hard", 5)]),
    ],
)
def test_who_must_be_fooled(judges, kept):
    models = {"easy": Brightness(101.5), "hard": Brightness(104.5)}
    eps = [step / 255 for step in range(1, 8)]
    found = attack_images([plain(100)], [0], models, eps=eps, space="pixels", judges=judges)
    assert [(a.model, round(a.eps * 255)) for a in found if a.kept] == kept


def test_judges_who_are_wrong_on_the_clean_image():
    """One of two is right: enough for `any`, too little for `all`; who was wrong before is not counted as fooled."""
    models = {"right": Brightness(101.5), "wrong": Brightness(90)}
    for judges, expected in (("any", "kept"), ("all", "clean-wrong")):
        found = attack_images([plain(100)], [0], models, eps=(2 / 255,), space="pixels", judges=judges)
        assert [a.verdict for a in found] == [expected] * 2
        assert {a.fooled for a in found} == ({("right",)} if judges == "any" else {()})


def test_every_image_model_and_eps_in_order():
    images = [plain(value) for value in (90, 100, 110)]
    models = {"a": Brightness(150), "b": Brightness(160)}
    for batch in (1, 2, 5):
        found = attack_images(images, [0, 0, 0], models, eps=(0.02, 0.01), batch=batch)
        order = [(a.image, a.model, a.eps) for a in found]
        assert order == [(i, m, e) for i in range(3) for m in "ab" for e in (0.01, 0.02)]
    assert attack_images([], np.zeros(0, int), models) == []


def test_kept_pixels_are_those_of_the_attack_rounded(squares):
    clean = torch.from_numpy(squares[0] / np.float32(255)).permute(2, 0, 1)[None]
    model = Brightness(float(squares[0].mean()) + 0.5)
    (found,) = attack_images([squares[0]], [0], {"m": model}, eps=(0.03,))
    attacked = fgsm(model, clean, [0], eps=0.03, space="normalised")
    assert np.array_equal(found.pixels, (attacked[0].permute(1, 2, 0) * 255).round().byte().numpy())
    assert found.pixels.shape == squares[0].shape


def test_a_random_start_is_drawn_from_what_the_stimulus_is_made_of():
    images, model = [plain(100), plain(101)], Brightness(101.1)
    settings = {"eps": (3 / 255,), "space": "pixels", "attack": "pgd-linf", "options": {"steps": 1, "step_size": 1e-3}}
    both = attack_images(images, [0, 0], {"m": model}, **settings, choose="all", judges="any")
    (alone,) = attack_images(images[1:], [0], {"m": model}, **settings, choose="all", judges="any")
    assert alone.seed == both[1].seed == stimulus_seed(digest(images[1]), "pgd-linf", f"m@{3 / 255!r}", 0)
    assert alone.seed != both[0].seed
    assert alone.seed != attack_images(images[1:], [0], {"m": model}, **settings, seed=1)[0].seed
    clean = torch.from_numpy(images[1] / np.float32(255)).permute(2, 0, 1)[None]
    rng = np.random.default_rng(alone.seed)
    again = pgd(model, clean, [0], eps=3 / 255, steps=1, step_size=1e-3, rng=[rng])
    assert np.array_equal(alone.pixels, (again[0].permute(1, 2, 0) * 255).round().byte().numpy())


def test_answers_are_those_of_the_model_to_grey_and_to_colour():
    assert predict_classes(Brightness(100), [plain(90), plain(120, (32, 32))]) == [0, 1]
    with pytest.raises(InvalidInput, match="labels must be 0 to 1"):
        predict_classes(Brightness(100), [plain(90)], np.array([2]))
    with pytest.raises(InvalidInput, match="logits of shape"):
        predict_classes(lambda images: images, [plain(90)])


def test_grey_images_become_colour():
    (found,) = attack_images([plain(100, (32, 40))], [0], {"m": Brightness(100.5)}, eps=(0.02,))
    assert found.kept
    assert found.pixels.shape == (32, 40, 3)


@pytest.mark.parametrize(
    ("images", "change", "message"),
    [
        ([plain(0)], {"judges": "most"}, "judges must be own, any or all"),
        ([plain(0)], {"choose": "best"}, "choose must be smallest or all"),
        ([plain(0)], {"batch": 0}, "batch must be at least 1"),
        ([plain(0)], {"models": {}}, "at least one model"),
        ([plain(0)], {"eps": ()}, "eps must be distinct positive numbers"),
        ([plain(0)], {"eps": (0.1, 0.1)}, "eps must be distinct positive numbers"),
        ([plain(0)], {"eps": (0, 0.1)}, "eps must be distinct positive numbers"),
        ([plain(0)], {"eps": (0.1, float("nan"))}, "eps must be"),
        ([plain(0)], {"eps": (8,), "space": "pixels"}, "write 8/255"),
        ([plain(0)], {"labels": [0, 1]}, "labels must be 1 whole numbers"),
        ([plain(0)], {"labels": [2]}, "labels must be 0 to 1, the model's classes, got 2 to 2"),
        ([plain(0)], {"labels": ["cat"]}, "labels must be 1 whole numbers"),
        ([plain(0)], {"options": {"steps": 3}}, "fgsm takes no options, got steps"),
        ([plain(0)], {"models": {"m": lambda x: Brightness(9)(x)}}, "needs std"),
        ([plain(0)], {"models": {"m": torch.nn.Flatten()}}, "eval mode"),
        ([plain(0)], {"models": {"m": lambda x: x}}, "logits of shape"),
        ([plain(0) / 255], {}, "judges 8-bit images, got float64"),
        ([plain(0), plain(0, (32, 40, 3))], {"labels": [0, 0]}, "one size, got 32 x 32, 40 x 32"),
        ([plain(0, (8, 8, 3))], {}, "at least 32 x 32"),
    ],
)
def test_bad_input_is_named(images, change, message):
    asked = {"labels": [0], "models": {"m": Brightness(50)}} | change
    with pytest.raises(InvalidInput, match=message):
        attack_images(images, **asked)


def test_an_unknown_attack_is_named():
    with pytest.raises(UnknownName, match="did you mean fgsm"):
        attack_images([plain(0)], [0], {"m": Brightness(9)}, attack="fgms")

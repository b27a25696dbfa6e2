"""Recipes: the paper's settings by default, TOML in, one line for what is wrong."""

import pytest

from cosight.errors import InvalidInput, UnknownName
from cosight.training import Recipe, read_recipe

ROBUST = 'data = "a"\narchitecture = "x"\nadversarial = "trades"\n'


def test_defaults_are_the_papers():
    recipe = Recipe(data="photos", architecture="vit-visalign")  # Lee et al. 2023, appendix B and the released code
    assert (recipe.rate, recipe.least_rate, recipe.factor, recipe.patience) == (1e-5, 1e-6, 0.5, 10)
    assert (recipe.batch, recipe.clip, recipe.stop, recipe.seeds) == (16, 0.5, 15, (45, 46, 47, 48, 49))
    assert (recipe.padding, recipe.flip, recipe.validation) == (4, True, 0.1)


def test_read_from_toml(tmp_path):
    file = tmp_path / "a.toml"
    file.write_text('architecture = "vit-small"\ndata = "set"\nseeds = [1, 2]\nrate = 1e-3\nflip = false\n')
    recipe = read_recipe(file)
    assert recipe == Recipe(data=str(tmp_path / "set"), architecture="vit-small", seeds=(1, 2), rate=1e-3, flip=False)
    assert read_recipe(file, seeds=(7,)).seeds == (7,)
    assert "seeds" not in recipe.facts
    assert recipe.facts["rate"] == 1e-3


def test_paths_are_relative_to_the_file_and_lines_are_not_paths(tmp_path):
    file = tmp_path / "a.toml"
    file.write_text('pretrained = "old@45.safetensors"\ndata = "/far/set"\n')
    assert read_recipe(file).pretrained == str(tmp_path / "old@45.safetensors")
    assert read_recipe(file).data == "/far/set"
    file.write_text('pretrained = "timm:resnet18.a1_in1k"\ndata = "set"\n')
    assert read_recipe(file).pretrained == "timm:resnet18.a1_in1k"


@pytest.mark.parametrize(
    ("text", "error", "told"),
    [
        ('data = "a"\narchitecture = "vit-small"\npatiense = 3', UnknownName, "did you mean patience"),
        ('architecture = "vit-small"', InvalidInput, "a.toml: data is missing"),
        ('data = "a"', InvalidInput, "got neither"),
        ('data = "a"\narchitecture = "x"\npretrained = "y"', InvalidInput, "got both"),
        ('data = "a"\npretrained = "y"\nssl = "byol"', InvalidInput, "leave one out"),
        ('data = "a"\narchitecture = "x"\nssl = "dino"', InvalidInput, "simclr or byol, got 'dino'"),
        ('data = "a"\narchitecture = "x"\ntargets = "soft"', InvalidInput, "truth or gold"),
        ('data = "a"\narchitecture = "x"\nrate = "fast"', InvalidInput, "rate must be a number, got 'fast'"),
        ('data = "a"\narchitecture = "x"\nrate = -1', InvalidInput, "rate must be positive"),
        ('data = "a"\narchitecture = "x"\nrate = 1e-7', InvalidInput, "least_rate must not exceed rate"),
        ('data = "a"\narchitecture = "x"\nbatch = 1.5', InvalidInput, "batch must be a whole number"),
        ('data = "a"\narchitecture = "x"\nepochs = 0', InvalidInput, "epochs must be a whole number, 1 to "),
        ('data = "a"\narchitecture = "x"\nvalidation = 1', InvalidInput, "between 0 and 1"),
        ('data = "a"\narchitecture = "x"\nseeds = [1, 1]', InvalidInput, "different whole numbers"),
        ('data = "a"\narchitecture = "x"\nseeds = []', InvalidInput, "seeds must be"),
        ('data = "a"\narchitecture = "x"\nseeds = 45', InvalidInput, "seeds must be"),
        ('data = "a"\narchitecture = "x"\nresize = 0', InvalidInput, "resize must be"),
        ('data = "a"\narchitecture = "x"\nflip = 1', InvalidInput, "true or false"),
        ('data = "a"\narchitecture = "x"\nname = "a/b"', InvalidInput, "name must be"),
        ('data = "a"\narchitecture = "x"\npadding = -1', InvalidInput, "padding must be a whole number, 0 to 16,384"),
        (f"{ROBUST}beta = -1", InvalidInput, "beta must be 0 or more, got -1"),
        (f"{ROBUST}beta = inf", InvalidInput, "beta must be 0 or more, got inf"),
        (f'{ROBUST}attack_norm = "linf"\nattack_eps = 8', InvalidInput, "got 8; 8/255 is written 0.03137"),
        (f"{ROBUST}attack_eps = -1", InvalidInput, "attack_eps must be a finite number from 0 up, got -1"),
        (f"{ROBUST}attack_eps = 0", InvalidInput, "attack_eps must be positive and finite, got 0"),
        (f"{ROBUST}attack_steps = 0", InvalidInput, "attack_steps must be a whole number, 1 to"),
        (f"{ROBUST}attack_step_size = 0", InvalidInput, "attack_step_size must be positive"),
        (f'{ROBUST}alignment = "ma"', InvalidInput, "has no alignment loss, got ma"),
        ('data = "a"\narchitecture = "x"\nadversarial = "fast"', InvalidInput, "pgd or trades or mart or free"),
        ('data = "a"\narchitecture = "x"\nadversarial = "mart"\ntargets = "gold"', InvalidInput, "mart needs true"),
        (
            'data = "a"\narchitecture = "x"\nadversarial = "pgd"\nbeta = 2',
            InvalidInput,
            "beta is about trades and mart, got pgd",
        ),
        ('data = "a"\narchitecture = "x"\nattack_eps = 0.5', InvalidInput, "attack_eps is about adversarial training"),
        ('data = "a"\narchitecture = "x"\nk_wta = 1.5', InvalidInput, "k must not exceed the width.*got 1.5"),
        ('data = "a"\narchitecture = "x"\nk_wta = 0', InvalidInput, "above 0 and up to 1, got 0"),
        (
            'data = "a"\narchitecture = "x"\nssl_views = "adversarial"',
            InvalidInput,
            'is about ssl = "simclr", got none',
        ),
        ('data = "a"\narchitecture = "x"\noptimiser = "sgd"\nmomentum = 1', InvalidInput, "momentum must be in"),
        ('data = "a"\narchitecture = "x"\nmomentum = 0.5', InvalidInput, "momentum is about"),
        ('data = "a"\narchitecture = "x"\nstop_at = 1', InvalidInput, "stop_at must be between 0 and 1"),
        ("data = ", InvalidInput, "is not a valid TOML file"),
        ('data = ""\narchitecture = "x"', InvalidInput, "data must not be empty"),
    ],
)
def test_bad_recipes(text, error, told, tmp_path):
    file = tmp_path / "a.toml"
    file.write_text(text)
    with pytest.raises(error, match=told) as caught:
        read_recipe(file)
    assert "\n" not in str(caught.value)


def test_no_recipe(tmp_path):
    with pytest.raises(InvalidInput, match=r"none\.toml does not exist; check the path"):
        read_recipe(tmp_path / "none.toml")
    with pytest.raises(InvalidInput, match=r"cannot read .*; name a TOML file"):
        read_recipe(tmp_path)


def test_a_byte_order_mark_is_ignored(tmp_path):
    (tmp_path / "a.toml").write_text('data = "a"\narchitecture = "x"\n', encoding="utf-8-sig")
    assert read_recipe(tmp_path / "a.toml").architecture == "x"


@pytest.mark.parametrize(
    "wrong", [{"seeds": (0.5,)}, {"seeds": (2**63,)}, {"epochs": 1.5}, {"batch": True}, {"validation_seed": 0.5}]
)
def test_python_callers_give_whole_numbers(wrong):
    with pytest.raises(InvalidInput, match="must be a whole number"):
        Recipe(data="a", architecture="x", **wrong)


def test_settings_of_later_versions_identify_a_network_only_if_they_are_used():
    plain = Recipe(data="a", architecture="x").facts
    assert not {"adversarial", "attack_eps", "beta", "k_wta", "optimiser", "schedule", "alignment"} & plain.keys()
    robust = Recipe(data="a", architecture="x", adversarial="pgd", k_wta=0.1).facts
    assert {key: robust[key] for key in robust.keys() - plain.keys()} == {
        **{"adversarial": "pgd", "attack_norm": "l2", "attack_eps": 1.0, "attack_steps": 10, "attack_step_size": None},
        **{"k_wta": 0.1},
    }

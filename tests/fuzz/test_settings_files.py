"""Damaged text files that commands are given: training recipes, class lists, curated lists."""

import pytest

from tests.fuzz.mutations import damage_bytes, damage_csv, damage_json, damage_lines

RECIPE = b"""architecture = "mixer-small"
data = "photos"
seeds = [45, 46]
epochs = 3
batch = 8
rate = 2e-3
least_rate = 1e-4
validation = 0.5
resize = 32
flip = true
"""


def test_recipes(cases, fuzz, tmp_path):
    """The data do not exist, so that no recipe is trained, however it was damaged."""
    recipe = tmp_path / "recipe.toml"

    def prepare(rng):
        recipe.write_bytes((damage_lines if rng.random() < 0.8 else damage_bytes)(RECIPE, rng))
        return "train", recipe, "--out", tmp_path / "out"

    fuzz(cases, prepare, codes=(2,))


@pytest.fixture
def brightness(monkeypatch, tmp_path):
    """`python:brightness:model` answers cat or dog."""
    lines = (
        "import numpy as np",
        "def model():",
        "    return lambda x: np.stack([x.mean((1, 2, 3)), 1 - x.mean((1, 2, 3))], 1)",
    )
    (tmp_path / "brightness.py").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(str(tmp_path))
    return "python:brightness:model,size=16,mean=0,std=1,outputs=logits"


def test_class_lists(cases, fuzz, brightness, photos_folder, tmp_path):
    out = iter(range(cases))

    def prepare(rng):
        name = ("classes.json", "classes.txt")[int(rng.integers(2))]
        whole = b'["cat", "dog"]' if name.endswith("json") else b"cat\ndog\n"
        damage = damage_json if name.endswith("json") and rng.random() < 0.5 else damage_bytes
        (tmp_path / name).write_bytes(damage(whole, rng))
        line = f"{brightness},classes={tmp_path / name}"
        return "evaluate", line, "--on", photos_folder, "--labels", "cat,dog", "--out", tmp_path / f"run{next(out)}"

    fuzz(min(cases, 2000), prepare)  # each makes a run


def test_curated_lists(cases, fuzz, photos_folder, tmp_path):
    """A built set needs photos of other classes than these, so that every list ends before anything is built."""
    curated = tmp_path / "curated.csv"
    rows = [f"{n * 64},{kept},{n}.png" for n, kept in zip("abc", ("true", "false", "true"), strict=True)]
    whole = "\n".join(["stimulus,kept,file", *rows, ""]).encode()

    def prepare(rng):
        curated.write_bytes((damage_csv if rng.random() < 0.7 else damage_bytes)(whole, rng))
        return "build", "visalign", tmp_path / "out", "--photos", photos_folder, "--curated", curated

    fuzz(cases, prepare, codes=(2,))

"""What an installation without extras does: it works, or names the one extra that is missing, before anything slow."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from typer.main import get_command

import cosight
from cosight.cli.app import app
from cosight.cli.commands import commands_of
from cosight.errors import CosightError
from cosight.extras import EXTRAS, NEEDS, MissingExtra, extra_of, modules_of, require

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DECLARED = PROJECT["optional-dependencies"]

# The command line where the modules in argv[1] are hidden, for each of the lines in argv[2]: a JSON list of results.
HIDDEN = """
import contextlib, importlib.util, io, json, shlex, sys

hidden = set(json.loads(sys.argv[1]))
find_spec = importlib.util.find_spec

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

importlib.util.find_spec = lambda name, *rest: None if name.partition(".")[0] in hidden else find_spec(name, *rest)
sys.meta_path.insert(0, Finder())
from cosight.cli import main

ended = []
for line in json.loads(sys.argv[2]):
    sys.argv = shlex.split(line)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as error:
            ended.append([error.code, out.getvalue(), err.getvalue()])
loaded = [name for name in ("torch", "scipy.stats") if name in sys.modules]
print(json.dumps({"ended": ended, "loaded": loaded}))
"""
ALL = sorted({module for extra in EXTRAS for module in modules_of(extra)})


def run_hidden(hidden, lines, folder):
    command = [sys.executable, "-c", HIDDEN, json.dumps(hidden), json.dumps(lines)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    return dict(zip(lines, result["ended"], strict=True)), result["loaded"]


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_installs_the_modules_that_it_says(extra):
    wanted = {Requirement(text) for text in DECLARED[extra]}
    included = {name for one in wanted if one.name == "cosight" for name in one.extras}
    assert included - {"stimuli"} == {name for name in EXTRAS[extra] if name in EXTRAS and name != extra} - {"stimuli"}
    installed_by = packages_distributions()
    ours = {
        canonicalize_name(installed_by.get(module, [module])[0])
        for module in EXTRAS[extra]
        if module not in EXTRAS or module == extra
    }
    assert ours == {canonicalize_name(one.name) for one in wanted if one.name != "cosight"}


def test_every_extra_for_users_is_known():
    assert set(DECLARED) - {"all", "dev", "docs"} == set(EXTRAS)
    names = {name for name in NEEDS if not name.endswith(":")}
    commands = {name.partition(" ")[2] for name, _ in commands_of(get_command(app))}
    known = {*commands, *(name.split(" ")[0] for name in commands), *cosight.__all__}
    assert names <= known
    for need in NEEDS.values():
        assert set(need.modules) <= set(modules_of(need.extra))


def test_no_dependency_is_pinned_so_that_an_installed_torch_stays():
    texts = [*PROJECT["dependencies"], *(text for extra in DECLARED.values() for text in extra)]
    operators = {specifier.operator for text in texts for specifier in Requirement(text).specifier}
    assert operators == {">="}
    torch = next(Requirement(text) for text in DECLARED["models"] if Requirement(text).name == "torch")
    assert torch.specifier.contains("2.4.0")
    assert torch.specifier.contains("2.9.1+cu130")
    assert not [text for text in PROJECT["dependencies"] if Requirement(text).name in ("torch", "torchvision", "timm")]


COMMANDS = [
    ("cosight demo", "demo"),
    ("cosight demo digits", "demo"),
    ("cosight evaluate timm:resnet50 --on photos --out run", "models"),
    ("cosight run resume run", "models"),
    ("cosight train recipe.toml --out networks", "models"),
    ("cosight build visalign out --photos photos", "stimuli"),
    ("cosight build digits out", "demo"),
    ("cosight stimuli corrupt photos out", "stimuli"),
    ("cosight stimuli attack photos out --model timm:resnet50", "models"),
    ("cosight stimuli prompts --category 2", "stimuli"),
    ("cosight list corruptions", "stimuli"),
    ("cosight study simulate survey --participants 1 --browser", "browser"),
]


def test_a_command_names_the_one_extra_that_it_needs(tmp_path):
    ended, loaded = run_hidden(ALL, [line for line, _ in COMMANDS], tmp_path)
    for line, extra in COMMANDS:
        code, out, err = ended[line]
        assert (code, out, err.count("\n")) == (2, "", 1), (line, err)
        assert re.findall(r"pip install 'cosight\[(\w+)\]'", err) == [extra], (line, err)
    assert loaded == []


def test_a_model_names_what_its_source_needs_before_images_are_read(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "answers.parquet").touch()
    lines = [
        f"cosight evaluate {model} --on photos --out run"
        for model in ("timm:resnet50", "openclip:ViT-B-32", "vlm:gpt-4o")
    ]
    ended, _ = run_hidden(sorted({*ALL} - {"cv2", "numba"}), lines, tmp_path)
    for line, extra in zip(lines, ("models", "clip", "vlm"), strict=True):
        assert re.findall(r"pip install 'cosight\[(\w+)\]'", ended[line][2]) == [extra], ended[line]
    line = "cosight evaluate trials:answers.parquet --on photos --out run --engine ray"
    ended, loaded = run_hidden(["ray"], [line], tmp_path)
    assert ended[line][2] == "cosight: --engine ray needs ray, not installed here; pip install 'cosight[ray]'\n"
    assert "torch" not in loaded


@pytest.mark.slow
def test_every_help_text_and_other_commands_work_without_extras(tmp_path):
    """Its help text, and its first example where that needs no file."""
    names = [name for name, _ in commands_of(get_command(app))]
    lines = [f"{name} --help" for name in names]
    lines += ["cosight compare sample:edges --resamples 5", "cosight score sample:edges --resamples 5"]
    lines += ["cosight trials show sample:edges", "cosight list measures", "cosight list models"]
    lines += ["cosight plan --measure gold --error .05 --classes 11", "cosight demo people"]
    ended, _ = run_hidden(ALL, lines, tmp_path)
    assert {line: result for line, result in ended.items() if result[0]} == {}


def test_a_missing_module_is_an_import_error_that_names_the_smallest_extra():
    assert (extra_of("cv2"), extra_of("torch"), extra_of("cv2", "matplotlib")) == ("stimuli", "models", "demo")
    assert extra_of("no_such_module") is None
    require("json", by="this")
    with pytest.raises(
        ImportError, match=r"this needs no_such_module, not installed here; pip install 'cosight\[ray\]'"
    ):
        require("json", "no_such_module", by="this", extra="ray")
    assert issubclass(MissingExtra, CosightError)


def test_calls_of_the_package_need_what_their_commands_need(tmp_path):
    code = "import cosight, sys; getattr(cosight, sys.argv[1])"
    hide = HIDDEN.partition("from cosight.cli")[0].replace("sys.argv[1]", "sys.argv[2]")
    for name, extra in (("train", "models"), ("evaluate", "models")):
        command = [sys.executable, "-c", f"{hide}\n{code}", name, json.dumps(ALL)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        assert done.stderr.splitlines()[-1].endswith(f"pip install 'cosight[{extra}]'"), done.stderr


def test_help_without_the_extra_explains_the_command_and_names_the_extra(tmp_path):
    lines = ["cosight evaluate --help", "cosight train --help"]
    ended, _ = run_hidden(ALL, lines, tmp_path)
    for line, (code, out, err) in ended.items():
        assert (code, err) == (0, ""), line
        assert "pip install 'cosight[models]'. The options are listed then." in out
        assert f"Usage: {line.removesuffix(' --help')}" in out
        assert "Examples:" in out

"""Every command and every registry entry is documented, and what the docs show runs."""

import importlib.util
import json
import logging
import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path

import cv2
import numpy as np
import pytest
from sklearn.datasets import load_sample_images
from typer.main import get_command

from cosight.benchmarks import benchmarks
from cosight.cli.app import app
from cosight.cli.commands import commands_of
from cosight.data import data_sets
from cosight.humans.study.design import Participants
from cosight.humans.study.new import protocols
from cosight.humans.study.trial_types import trial_types
from cosight.measures import measures
from cosight.models import model_lists, sources
from cosight.models.abstention import abstentions
from cosight.models.judges import judges
from cosight.models.vlm.prompts import choice_prompt
from cosight.scoring.presets import presets
from cosight.stimuli.alterations import FAMILIES
from cosight.stimuli.attacks import attacks
from cosight.stimuli.images import encode
from cosight.training.recipe import Recipe
from cosight.trials import formats, label_spaces, samples, write
from tests.terminal import in_terminal
from tests.vlm_server import serving

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
REGISTRIES = [
    *(measures, label_spaces, formats, samples, presets, attacks, benchmarks, model_lists, sources, abstentions),
    *(protocols, trial_types, data_sets, judges),
    *(family.kinds for family in FAMILIES.values()),
]
MIRRORED = ("cifar10", "model-vs-human", "texture-vs-shape", "weights")  # folders of the mirror that the pages name
# whose commands take more than three seconds
LONG_PAGES = (
    *("explanation/error-alignment-results.md", "guides/error-alignment.md", "guides/laion-c.md"),
    *("guides/prolific.md", "guides/studies.md"),
    *("guides/training.md", "guides/visalign.md", "reference/runs.md", "reference/scoring.md"),
    *("tutorials/first-study.md", "tutorials/own-network.md", "tutorials/visalign.md"),
)
LONG_COMMANDS = ("cosight demo", "cosight report", "cosight.study.simulate", "--engine ray", "--on imagenet-c")
KINDS = ("tutorials", "guides", "reference", "explanation")
PAGES = [
    *(ROOT / "README.md", ROOT / "CONTRIBUTING.md", DOCS / "index.md"),
    *(page for kind in KINDS for page in sorted((DOCS / kind).glob("*.md"))),
]
# pages whose outputs are compared: what a newcomer reads first
CHECKED = {
    *(ROOT / "README.md", DOCS / "index.md", *(DOCS / "tutorials").glob("*.md")),
    *(DOCS / "guides" / f"{name}.md" for name in ("compare-two-models", "figure", "own-csv", "which-images")),
}


def generator():
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", sorted(generator().pages()))
def test_generated_pages_are_up_to_date(name):
    assert (DOCS / name).read_text(encoding="utf-8") == generator().pages()[name], "run `make docs`"


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda r: r.kind)
def test_every_registry_entry_is_documented(registry):
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert [name for name in registry if f"`{name}`" not in text] == []


def test_every_command_is_documented():
    text = (DOCS / "reference" / "cli.md").read_text(encoding="utf-8")
    names = [name for name, _ in commands_of(program())]
    assert len(names) >= 7
    assert [name for name in names if f"## {name}\n" not in text] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if "://" not in target and not (page.parent / target).exists()] == []


@dataclass(frozen=True)
class Step:
    """A part of a page that is run: a command, an environment variable, Python, or a file, which is written."""

    kind: str
    text: str
    name: str = ""
    output: tuple[str, ...] = ()  # the lines that the page shows below a command or a block of Python


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    file: str  # the name in the line above, "`NAME`:"
    language: str
    body: str

    @property
    def steps(self):
        """What a test runs, in order."""
        if self.file:
            return [Step("file", self.body, self.file)]
        if self.language == "python":
            return [Step("python", self.body)]
        found = []
        for shown in re.split(r"^\$ ", self.body.replace("\\\n", ""), flags=re.M)[1:]:
            line, *output = shown.splitlines()
            kind = {"cosight": "command", "export": "environment"}[line.split()[0]]
            found.append(Step(kind, line, output=tuple(output)))
        return found


def blocks_of(text):
    pattern = r"(?:`([\w-]+\.\w+)`:\n\n)?^( *)```([a-z]+)\n(.*?)^ *```$"
    for file, indent, language, body in re.findall(pattern, text, flags=re.M | re.S):
        yield Block(file, language, re.sub(f"^{indent}", "", body, flags=re.M))


def steps_of(text):
    """The steps of a page. A block of the language `output` is what the Python above it prints."""
    steps = []
    for block in blocks_of(text):
        if block.language == "output":
            steps[-1] = replace(steps[-1], output=tuple(block.body.splitlines()))
        else:
            steps += block.steps
    return steps


def test_steps_of_a_page():
    shown = "$ cosight plan \\\n  --raters 3\nout\n$ export A=b\n"
    text = f"Write `a.csv`:\n\n```csv\nx\n```\n\nWith `photos`:\n\n```text\n{shown}```\n\n"
    text += "1. Then:\n\n   ```python\n   1\n   ```\n\n```output\n2\n```\n\n```text\ncosight plan\n```\n"
    assert steps_of(text) == [
        Step("file", "x\n", "a.csv"),
        Step("command", "cosight plan   --raters 3", output=("out",)),
        Step("environment", "export A=b"),
        Step("python", "1\n", output=("2",)),
    ]


# Blocks that no test of this file runs, by page and first words, with the reason. Their commands are parsed.
NOT_RUN = {
    ("README.md", "pip install ."): "tests/test_packaging.py builds the package and installs it",
    ("guides/install.md", "pip install ."): "tests/test_packaging.py builds the package and installs it",
    ("guides/install.md", "pip install 'cosight[models]'"): "downloads packages; extras are checked below",
    ("CONTRIBUTING.md", '@declare(\n    "my_measure"'): "a template; guides/add-a-measure.md has a whole measure",
    ("CONTRIBUTING.md", "@declare(\n    corruptions"): "a template; tests/contracts/test_kinds.py has all kinds",
    ("CONTRIBUTING.md", "def build("): "a template; tests/benchmarks/test_third_party.py has the whole package",
    ("explanation/demo.md", "cosight demo "): "minutes; tests/demo runs a small one",
    ("explanation/error-alignment-results.md", "cosight evaluate onnx:"): "ImageNet's photos",
    ("explanation/error-alignment-results.md", "cosight stimuli corrupt digits"): "the 25 networks of `cosight demo`",
    ("explanation/laion-c-results.md", "cosight build laion-c"): "ImageNet's photos",
    ("explanation/laion-c-results.md", "cosight stimuli corrupt"): "ImageNet's photos",
    ("explanation/laion-c-results.md", "cosight evaluate timm:"): "ImageNet's photos",
    ("guides/add-a-measure.md", "[project.entry-points"): "of another package; tests/test_registry.py has one",
    ("guides/error-alignment.md", "[families]"): "tests/benchmarks/test_error_alignment.py reads such files",
    ("guides/gpu-and-cluster.md", "cosight evaluate timm:"): "a GPU",
    ("guides/gpu-and-cluster.md", "#!/bin/bash"): "Slurm",
    ("guides/hosting.md", "cosight study serve"): "tests/humans/test_hosting.py serves studies behind nginx",
    ("guides/hosting.md", "study.example.org {"): "Caddy",
    ("guides/hosting.md", "server {"): "tests/humans/test_hosting.py",
    ("guides/hosting.md", "[Service]"): "tests/humans/test_hosting.py",
    ("guides/hosting.md", "FROM python"): "Docker",
    ("guides/hosting.md", "docker build"): "Docker",
    ("guides/hosting.md", "https://study.example.org/?"): "tests/humans/test_platforms.py",
    ("guides/hosting.md", "completion_code"): "keys are checked below",
    ("guides/hosting.md", "<a id"): "tests/browser/test_platforms.py",
    ("guides/hosting.md", "<ExternalQuestion"): "MTurk; tests/browser/test_platforms.py has the page inside another",
    ("guides/hosting.md", "sqlite3"): "tests/humans/test_hosting.py",
    ("guides/laion-c.md", "cosight data get laion-c"): "the published set",
    ("guides/prolific.md", "platform ="): "keys are checked below",
    ("guides/prolific.md", "https://study.example.org/?"): "tests/humans/test_platforms.py",
    ("guides/report.md", "cosight report runs/vit"): "runs of the reader; tests/reports/test_site.py has such calls",
    ("guides/representation.md", "cosight data get"): "half an hour; tests/benchmarks/test_representation.py has less",
    ("guides/representation.md", "cosight evaluate"): "networks of the reader",
    ("guides/representation.md", "[loss]"): "tests/benchmarks/test_representation.py reads such files",
    ("guides/representation.md", "cosight score same/trials"): "reads what the first command writes",
    ("guides/robust-training.md", "architecture"): "a training of minutes; keys are checked below",
    ("guides/robust-training.md", "python perf/"): "trainings of minutes",
    ("guides/robust-training.md", "cosight build representation photos"): "checkpoints of robust ImageNet networks",
    ("guides/studies.md", "cosight study new lab"): "11,400 images; tests/humans/test_laion_c_study.py",
    ("guides/studies.md", "export PGPASSFILE"): "PostgreSQL elsewhere; tests/humans/test_postgres.py has one here",
    ("guides/training.md", 'architecture = "resnet20"'): "a training of minutes; keys are checked below",
    ("guides/training.md", "alignment ="): "a part of a recipe; keys are checked below",
    ("guides/training.md", "pretrained"): "ImageNet's photos; keys are checked below",
    ("guides/training.md", "cosight stimuli distort"): "ImageNet's photos",
    ("guides/visalign.md", "cosight build visalign vehicles"): "ImageNet's photos",
    ("guides/vlm.md", "vllm serve"): "other programs",
    ("guides/vlm.md", "system:"): "compared with the program's prompt below",
    ("reference/stimuli.md", "cosight build visalign OUT"): "the published set",
}
# their commands run elsewhere: tests/cli/test_examples.py, tests/reports/test_gallery.py
GENERATED = ("reference/cli.md", "reference/figures.md")


def unrun():
    """Page and block of every block without a step."""
    for page in PAGES:
        name = page.relative_to(ROOT).as_posix().removeprefix("docs/")
        for block in blocks_of(page.read_text("utf-8")) if name not in GENERATED else ():
            if not block.steps and block.language != "output":
                yield name, block


def test_every_block_runs_or_has_a_reason():
    found = {(name, start): [] for name, start in NOT_RUN}
    for name, block in unrun():
        starts = [start for page, start in NOT_RUN if page == name and block.body.startswith(start)]
        assert len(starts) == 1, f"{name}: a block that no test runs, without a reason:\n{block.body}"
        found[name, starts[0]].append(block)
    assert [key for key, blocks in found.items() if len(blocks) != 1] == [], "reasons without a block, or of several"


@cache
def program():
    return get_command(app)


def command_of(words):
    """Return the command that some words name, and its arguments. `build NAME` is the group."""
    command = program()
    while words and hasattr(command, "get_command") and words[0] != "NAME" and words[0][0] != "-":
        command, words = command.get_command(None, words[0]), words[1:]
        assert command is not None
    return command, words


def shown_commands():
    """Lines of blocks that are not run, and code in running text: page, words, and whether it is a whole line."""
    for name, block in unrun():
        lines = block.body.replace("\\\n", "").splitlines()
        yield from ((name, shlex.split(line, comments=True), True) for line in lines if line.startswith("cosight "))
    for page in PAGES:
        text = re.sub(r"^ *```.*?^ *```$", "", page.read_text("utf-8"), flags=re.M | re.S)
        for code in re.findall(r"(?<!`)`(cosight (?!build stripes)[^`]+)`", text):
            yield page.name, code.replace("[", " ").replace("]", " ").split(), False


def test_commands_that_are_shown_and_not_run_exist_with_their_options():
    """So that a renamed option fails; in lines also what the options accept."""
    count = 0
    for page, words, whole in shown_commands():
        command, arguments = command_of(words[1:])
        context = command.make_context(command.name, [], resilient_parsing=True)
        known = {"--help", "--version", *(option for one in context.command.params for option in one.opts)}
        used = {word.partition("=")[0].rstrip(".,") for word in arguments if word.startswith("--")}
        assert used <= known, (page, words)
        if whole:
            command.make_context(command.name, [word for word in arguments if word != "..."])
        count += 1
    assert count > 300


def toml_settings():
    """Keys of the TOML blocks that are not run, and those that exist."""
    keys = {
        "guides/training.md": {field.name for field in fields(Recipe)},
        "guides/robust-training.md": {field.name for field in fields(Recipe)},
        "guides/prolific.md": {field.name for field in fields(Participants)},
        "guides/hosting.md": {field.name for field in fields(Participants)},
    }
    for name, block in unrun():
        if block.language == "toml":
            yield pytest.param(block.body, keys.get(name), id=f"{name}:{block.body.split()[0]}")


@pytest.mark.parametrize(("text", "known"), list(toml_settings()))
def test_settings_in_toml_that_is_not_run(text, known):
    given = tomllib.loads(text)
    assert known is None or set(given) <= known


def test_the_other_files_that_are_shown_name_commands_that_exist():
    """The unit of systemd, the container, Slurm's script."""
    hosting = (DOCS / "guides" / "hosting.md").read_text("utf-8")
    unit = re.search(r"^ExecStart=\S+/bin/cosight (.*)$", hosting, flags=re.M)[1].split()
    container = json.loads(re.search(r"^CMD (.*)$", hosting, flags=re.M)[1])[1:]
    for words in (unit, container):
        command, arguments = command_of(words)
        command.make_context(command.name, arguments)
    [script] = [block.body for name, block in unrun() if block.body.startswith("#!/bin/bash")]
    assert subprocess.run(["bash", "-n"], input=script, text=True).returncode == 0


def test_the_prompt_of_the_guide_is_the_prompt_of_a_choice():
    [shown] = [block.body for name, block in unrun() if block.body.startswith("system:")]
    prompt = choice_prompt(["x", "y"])
    images = "".join(f"{word} <image>\n" for word in prompt.images)
    assert shown == f"system:\n{prompt.system}\n\nuser:\n{prompt.question}\n{images}"


def test_the_extras_of_the_install_page():
    text = (DOCS / "guides" / "install.md").read_text("utf-8")
    named = set(re.findall(r"^\| `(\w+)` \|", text, flags=re.M))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert named == set(project["optional-dependencies"]) - {"dev", "docs"}
    pages = "".join(page.read_text("utf-8") for page in PAGES)
    asked = {extra for group in re.findall(r"'cosight\[(.+?)\]'", pages) for extra in group.split(",")}
    assert asked <= named


def stories():
    for page in PAGES:
        steps = steps_of(page.read_text(encoding="utf-8"))
        name = page.relative_to(ROOT).as_posix()
        if any(step.kind != "file" for step in steps):
            yield pytest.param(steps, False, page in CHECKED, id=f"{name}-as-it-stands", marks=pytest.mark.slow)
        if name.removeprefix("docs/") in LONG_PAGES:  # the Python blocks of tutorials read what their commands write
            steps = [step for step in steps if step.kind != "command" and page.parent.name != "tutorials"]
        steps = [step for step in steps if not any(words in step.text for words in LONG_COMMANDS)]
        if any(step.kind != "file" for step in steps):
            yield pytest.param(steps, True, False, id=f"{name}-quick")


def write_photos(folder):
    """Four small photos in class folders."""
    for name, photo in zip(("temple", "flower"), load_sample_images().images, strict=True):
        (folder / name).mkdir(parents=True)
        small = cv2.resize(photo[:, 100:527], (96, 96), interpolation=cv2.INTER_AREA)
        for index, image in enumerate((small, small[:, ::-1])):
            (folder / name / f"{index}.png").write_bytes(encode(image, "png"))


def write_objects(folder):
    """One part of a photo for each of LAION-C's superclasses."""
    photo = load_sample_images().images[0]
    for index, name in enumerate(label_spaces["laion-c-16"].classes):
        (folder / name).mkdir(parents=True)
        (folder / name / f"{index}.png").write_bytes(encode(photo[20 * index : 20 * index + 96, :96].copy(), "png"))


def write_animals(folder):
    """Discs of a colour per class on a plain background, whose outline GrabCut finds; other things, and near misses."""
    rng = np.random.default_rng(0)
    counts = {"animals/bird": 30, "animals/cat": 30, "animals/dog": 30, "others/cup": 24, "near/fox": 12}
    for number, (name, count) in enumerate(counts.items()):
        (folder / name).mkdir(parents=True)
        for index in range(count):
            image = np.clip(rng.normal((90, 160, 210), 4, (90, 100, 3)), 0, 255).astype(np.uint8)
            cv2.ellipse(image, (50, 45), (int(rng.integers(24, 34)), 22), 0, 0, 360, (50 * number, 60, 20), -1)
            (folder / name / f"{index}.png").write_bytes(encode(image, "png"))


def reads_any(step, names):
    """Whether a word of the step is one of `names`, a path inside one, or a model whose file is inside one."""
    words = re.findall(r'"(.+?)"', step.text)
    if step.kind == "command":
        words = shlex.split(re.sub(r"--preset \S+", "", step.text), comments=True)[2:]
    return any(Path(word.rpartition(":")[2]).parts[:1] == (name,) for word in words for name in names)


def without_mirror(steps):
    """Leave out steps that read the mirror, and those that read what such a step writes (`--out`)."""
    missing, kept = {*MIRRORED}, []
    for step in steps:
        if reads_any(step, missing) or step.text.startswith("cosight data get "):
            missing |= {*re.findall(r"(?:--out |out=\")([\w./-]+)", step.text)}
        else:
            kept.append(step)
    return kept


def test_without_the_mirror_only_what_reads_it_is_left_out():
    lines = [
        "cosight evaluate onnx:weights/a.onnx --on texture-vs-shape --out run",
        "cosight run status run",
        "cosight compare model-vs-human/edge",
        "cosight compare sample:edges --preset model-vs-human",
        "cosight stimuli verify photos",
        "cosight data list",
        "cosight data get error-consistency --out data",
        "cosight compare data/error-consistency",
    ]
    steps = [Step("command", line) for line in lines]
    blocks = [Step("python", f'cosight.score("{name}", out="{name}-scores")') for name in ("run", "run-scores", "set")]
    assert without_mirror([*steps, *blocks]) == [*steps[3:6], blocks[2]]


# Most of the time goes into resampling and into starting worker processes. An option given twice has its last value.
QUICK = {command: ["--resamples", "10"] for command in ("compare", "report", "score")}
QUICK |= {f"stimuli {verb}": ["--workers", "1"] for verb in ("corrupt", "distort", "manipulate")}


@pytest.fixture
def endpoint(monkeypatch):
    """A vision-language model on this machine, which gives the first of the answers it is offered."""
    pytest.importorskip("openai")
    with serving(lambda asked, number: asked.options[0], monkeypatch, models=["gpt-4o"]) as server:
        yield server


@pytest.fixture
def ray_cluster(monkeypatch):
    """Ray with two CPUs on this machine."""
    ray = pytest.importorskip("ray")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_worker_niceness", "0")  # with the default, 15, they wait long on a busy machine
    ray.init(
        _node_ip_address="127.0.0.1", num_cpus=2, include_dashboard=False, object_store_memory=100 * 2**20,
        log_to_driver=False, logging_level=logging.ERROR,
    )  # fmt: skip
    yield
    ray.shutdown()


def serve_to_simulated_people(arguments, cosight):
    """Serve a study to this machine, let simulated people take part, stop it as Ctrl-C does."""
    command = [sys.executable, "-m", "cosight", *arguments, "--host", "127.0.0.1", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            address = re.match(r"participants: (\S+)", server.stdout.readline())[1]
            done = cosight("study", "simulate", arguments[2], "--participants", 3, "--url", address)
        finally:
            server.send_signal(signal.SIGINT)
            server.communicate(timeout=60)
    assert (done.code, server.returncode) == (0, 130), done.err  # 130: Ctrl-C


@pytest.mark.parametrize(("steps", "quick", "checked"), list(stories()))
def test_what_the_docs_show_runs(
    steps, quick, checked, tmp_path, monkeypatch, request, capsys, mirror_or_none, cosight, simulated_observers
):
    """In a folder with photos, trials under the name the demo gives its own, and the mirror's folders, if any.

    A page is run from top to bottom, its Python blocks in one namespace. `make test` adds the options of QUICK and
    leaves out LONG_COMMANDS and the commands of LONG_PAGES; `make test-all` also runs every page as it stands, and
    where `checked`, in a terminal: it shows every line that the page shows.
    """
    request.getfixturevalue("forget_measures")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    if mirror_or_none is None:
        steps = without_mirror(steps)
    if mirror_or_none is not None:
        monkeypatch.setenv("COSIGHT_MIRROR", os.path.realpath(mirror_or_none))
    for name in MIRRORED if mirror_or_none else ():
        (tmp_path / name).symlink_to(Path(os.path.realpath(mirror_or_none / name)))
    if not steps:
        pytest.skip("everything on this page reads the mirror; set COSIGHT_MIRROR")
    text = "\n".join(step.text for step in steps)
    write_photos(tmp_path / "photos")
    write_objects(tmp_path / "objects")
    if "--photos animals" in text:
        write_animals(tmp_path)
    if "vlm:" in text:
        request.getfixturevalue("endpoint")
    if "--engine ray" in text:
        request.getfixturevalue("ray_cluster")
    if "demo-run/trials" in text:
        write(simulated_observers(), tmp_path / "demo-run" / "trials.parquet")
    namespace = {"__name__": "__main__"}
    for step in steps:
        arguments = shlex.split(step.text, comments=True)[1:] if step.kind == "command" else []
        if step.kind == "file":
            Path(step.name).write_text(step.text, encoding="utf-8")
        elif step.kind == "environment":
            monkeypatch.setenv(*step.text.removeprefix("export ").split("=", 1))
        elif step.kind == "python":
            capsys.readouterr()
            exec(compile(step.text, "docs", "exec"), namespace)
            printed = capsys.readouterr().out
            assert not step.output or printed.splitlines() == list(step.output)
        elif arguments[:2] == ["study", "serve"]:
            serve_to_simulated_people(arguments, cosight)
        elif not quick and checked:
            [(code, lines)] = in_terminal([arguments], folder=tmp_path)
            assert code == 0, lines
            assert [line for line in step.output if line not in ("...", *map(str.rstrip, lines))] == [], step.text
        else:
            if quick:
                arguments += QUICK.get(arguments[0], QUICK.get(" ".join(arguments[:2]), []))
            done = cosight(*arguments)
            assert done.code == 0, f"{step.text}\n{done.err}"
            if "--json" in arguments:
                json.loads(done.out)

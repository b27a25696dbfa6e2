"""Every command and every registry entry is documented, and what the docs show runs."""

import importlib.util
import json
import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import pytest
from sklearn.datasets import load_sample_images

from cosight.benchmarks import benchmarks
from cosight.data import data_sets
from cosight.humans.study.new import protocols
from cosight.humans.study.trial_types import trial_types
from cosight.measures import measures
from cosight.models import model_lists, sources
from cosight.models.abstention import abstentions
from cosight.models.judges import judges
from cosight.scoring.presets import presets
from cosight.stimuli.alterations import FAMILIES
from cosight.stimuli.attacks import attacks
from cosight.stimuli.images import encode
from cosight.trials import formats, label_spaces, samples, write
from tests.terminal import in_terminal

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
REGISTRIES = [
    *(measures, label_spaces, formats, samples, presets, attacks, benchmarks, model_lists, sources, abstentions),
    *(protocols, trial_types, data_sets, judges),
    *(family.kinds for family in FAMILIES.values()),
]
MIRRORED = ("model-vs-human", "texture-vs-shape", "weights")  # folders of the mirror that the pages name
# whose commands take more than three seconds
LONG_PAGES = (
    *("guides/error-alignment.md", "guides/laion-c.md", "guides/prolific.md", "guides/studies.md"),
    *("reference/runs.md", "reference/scoring.md"),
    *("tutorials/first-study.md", "tutorials/own-network.md", "tutorials/visalign.md"),
)
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
    from typer.main import get_command

    from cosight.cli.app import app
    from cosight.cli.commands import commands_of

    names = [name for name, _ in commands_of(get_command(app))]
    assert len(names) >= 7
    assert [name for name in names if f"## {name}\n" not in text] == []


def links():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                yield pytest.param(page, target, id=f"{page.name}:{target}")


@pytest.mark.parametrize(("page", "target"), list(links()))
def test_links_lead_somewhere(page, target):
    assert (page.parent / target).exists()


@dataclass(frozen=True)
class Step:
    """A part of a page that is run: a command, a block of Python, or a file, which is written."""

    kind: str
    text: str
    name: str = ""
    output: tuple[str, ...] = ()  # the lines that the page shows below a command


def steps_of(text):
    """The steps of a page, in order. A block below "`NAME`:" is the content of this file."""
    for name, language, body in re.findall(r"(?:`([\w-]+\.\w+)`:\n\n)?^```(\w+)\n(.*?)^```", text, flags=re.M | re.S):
        if name:
            yield Step("file", body, name)
        elif language == "python":
            yield Step("python", body)
        else:
            for shown in re.split(r"^\$ ", body.replace("\\\n", ""), flags=re.M)[1:]:
                line, *output = shown.splitlines()
                if line.startswith("cosight "):
                    yield Step("command", line, output=tuple(output))


def test_steps_of_a_page():
    shown = "$ cosight plan \\\n  --raters 3\nout\n$ ls\n"
    text = f"Write `a.csv`:\n\n```csv\nx\n```\n\nWith `photos`:\n\n```text\n{shown}```\n\n```python\n1\n```\n"
    assert list(steps_of(text)) == [
        Step("file", "x\n", "a.csv"),
        Step("command", "cosight plan   --raters 3", output=("out",)),
        Step("python", "1\n"),
    ]


def stories():
    for page in PAGES:
        steps = list(steps_of(page.read_text(encoding="utf-8")))
        name = page.relative_to(ROOT).as_posix()
        if any(step.kind != "file" for step in steps):
            yield pytest.param(steps, False, page in CHECKED, id=f"{name}-as-it-stands", marks=pytest.mark.slow)
        if name.removeprefix("docs/") in LONG_PAGES:  # the Python blocks of tutorials read what their commands write
            steps = [step for step in steps if step.kind != "command" and page.parent.name != "tutorials"]
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


def csv_in_the_docs(page):
    """The CSV file that a page shows and its commands read."""
    return re.search(r"```csv\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), flags=re.DOTALL)[1]


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


@pytest.mark.parametrize(("steps", "quick", "checked"), list(stories()))
def test_what_the_docs_show_runs(
    steps, quick, checked, tmp_path, monkeypatch, mirror_or_none, cosight, simulated_observers
):
    """In a folder with photos, trials under the name the demo gives its own, and the mirror's folders, if any.

    A page is run from top to bottom, its Python blocks in one namespace. `make test` adds the options of QUICK and
    leaves out the commands of LONG_PAGES; `make test-all` also runs every page as it stands, and where `checked`, in a
    terminal: it shows every line that the page shows.
    """
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
    write_photos(tmp_path / "photos")
    write_objects(tmp_path / "objects")
    if any("--photos animals" in step.text for step in steps):
        write_animals(tmp_path)
    for name, page in (("choices.csv", "guides/studies.md"), ("my.csv", "reference/trials.md")):
        (tmp_path / name).write_text(csv_in_the_docs(page), encoding="utf-8")
    write(simulated_observers(), tmp_path / "demo-run" / "trials.parquet")
    namespace = {"__name__": "__main__"}
    for step in steps:
        if step.kind == "file":
            Path(step.name).write_text(step.text, encoding="utf-8")
        elif step.kind == "python":
            exec(compile(step.text, "docs", "exec"), namespace)
        else:
            arguments = shlex.split(step.text, comments=True)[1:]
            if quick:
                arguments += QUICK.get(arguments[0], QUICK.get(" ".join(arguments[:2]), []))
            if not quick and checked:
                [(code, lines)] = in_terminal([arguments], folder=tmp_path)
                assert code == 0, lines
                assert [line for line in step.output if line not in ("...", *map(str.rstrip, lines))] == [], step.text
                continue
            done = cosight(*arguments)
            assert done.code == 0, f"{step.text}\n{done.err}"
            if "--json" in arguments:
                json.loads(done.out)

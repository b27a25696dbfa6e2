"""Every command and every registry entry is documented, and what the docs show runs."""

import importlib.util
import json
import os
import re
import shlex
from pathlib import Path

import cv2
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

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
REGISTRIES = [
    *(measures, label_spaces, formats, samples, presets, attacks, benchmarks, model_lists, sources, abstentions),
    *(protocols, trial_types, data_sets, judges),
    *(family.kinds for family in FAMILIES.values()),
]
MIRRORED = ("model-vs-human", "texture-vs-shape", "weights")  # folders of the mirror that the pages name
# whose commands take more than three seconds
LONG_PAGES = ("error-alignment.md", "laion-c.md", "runs.md", "scoring.md", "studies.md")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*/*.md"))]


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


def shown_commands():
    """Lines that start with `$ cosight` in the pages' code blocks, in order, a page at a time."""
    for page in PAGES:
        lines = re.findall(r"^\$ (cosight .*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
        if lines:
            for quick in (True, False):
                marks = [] if quick and page.name not in LONG_PAGES else pytest.mark.slow
                yield pytest.param(lines, quick, id=f"{page.name}-{'quick' if quick else 'as-they-stand'}", marks=marks)


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


def csv_in_the_docs(page):
    """The CSV file that a page shows and its commands read."""
    return re.search(r"```csv\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), flags=re.DOTALL)[1]


def reads_any(line, names):
    """Whether a word of the line is one of `names`, a path inside one, or a model whose file is inside one."""
    words = shlex.split(re.sub(r"--preset \S+", "", line), comments=True)[2:]
    return any(Path(word.rpartition(":")[2]).parts[:1] == (name,) for word in words for name in names)


def without_mirror(lines):
    """Leave out lines that read the mirror, and those that read what such a line writes (`--out`)."""
    missing, kept = {*MIRRORED}, []
    for line in lines:
        if reads_any(line, missing) or line.startswith("cosight data get "):
            missing |= {*re.findall(r"--out (\S+)", line)}
        else:
            kept.append(line)
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
    assert without_mirror(lines) == lines[3:6]


# Most of the time goes into resampling and into starting worker processes. An option given twice has its last value.
QUICK = {"compare": ["--resamples", "10"], "score": ["--resamples", "10"]}
QUICK |= {f"stimuli {verb}": ["--workers", "1"] for verb in ("corrupt", "distort", "manipulate")}


@pytest.mark.parametrize(("lines", "quick"), list(shown_commands()))
def test_commands_in_the_docs_run(lines, quick, tmp_path, monkeypatch, mirror_or_none, cosight, simulated_observers):
    """In a folder with photos, trials under the name the demo gives its own, and the mirror's folders, if any.

    `make test` adds the options of QUICK and leaves LONG_PAGES out; `make test-all` also runs the commands as they
    stand.
    """
    monkeypatch.chdir(tmp_path)
    if mirror_or_none is None:
        lines = without_mirror(lines)
    if mirror_or_none is not None:
        monkeypatch.setenv("COSIGHT_MIRROR", os.path.realpath(mirror_or_none))
    for name in MIRRORED if mirror_or_none else ():
        (tmp_path / name).symlink_to(Path(os.path.realpath(mirror_or_none / name)))
    if not lines:
        pytest.skip("every command of this page reads the mirror; set COSIGHT_MIRROR")
    write_photos(tmp_path / "photos")
    write_objects(tmp_path / "objects")
    for name, page in (("choices.csv", "guides/studies.md"), ("my.csv", "reference/trials.md")):
        (tmp_path / name).write_text(csv_in_the_docs(page), encoding="utf-8")
    write(simulated_observers(), tmp_path / "demo-run" / "trials.parquet")
    for line in lines:
        arguments = shlex.split(line, comments=True)[1:]
        if quick:
            arguments += QUICK.get(arguments[0], QUICK.get(" ".join(arguments[:2]), []))
        done = cosight(*arguments)
        assert done.code == 0, f"{line}\n{done.err}"
        if "--json" in line:
            json.loads(done.out)


def python_blocks():
    for page in PAGES:
        for index, block in enumerate(
            re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        ):
            yield pytest.param(block, id=f"{page.name}-{index}")


@pytest.mark.parametrize("block", list(python_blocks()))
def test_python_in_the_docs_runs(block, tmp_path, monkeypatch, simulated_observers):
    monkeypatch.chdir(tmp_path)
    write_photos(tmp_path / "photos")
    write(simulated_observers(), tmp_path / "demo-run" / "trials.parquet")
    exec(compile(block, "docs", "exec"), {})

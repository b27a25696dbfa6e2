"""Take the screenshots of the docs: a trial of every type and the experimenter's page.

`python tests/browser/screenshots.py [FOLDER]` writes study-*.png (default: to docs/images). The pictures in
them are our own: the digits of the embedded benchmark, and shapes drawn here.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image as Pillow
from PIL import ImageDraw

ROOT = Path(__file__).resolve().parents[2]
LARGEST = 60_000  # bytes of a screenshot
SIDE = 224
SHAPES = {"ball": "#c0392b", "boat": "#1f6fb2", "bottle": "#2e8b57", "fruit": "#d68910", "chair": "#6c3483"}
SLOW = "[timing]\nfixation = 0.1\nexposure = 0.2\nresponse = 60\nprompt = 0.75\n"
SHOWN = "[show]\nsplit = 'test'\ncategory = [1, 8]\n"
REASONS = "[curate]\nreasons = ['wrong class', 'several objects', 'text or logo', 'bad quality', 'offensive']\n"


def main(target: Path = ROOT / "docs" / "images") -> None:
    """Make the studies, open them and look."""
    sys.path.insert(0, str(ROOT))
    from tests.browser.visits import People, browsing, serving

    with tempfile.TemporaryDirectory() as folder, browsing() as browser:
        folders = studies(Path(folder))
        with serving(*folders.values()) as servers:
            for kind, server in zip(folders, servers, strict=True):
                people = People(browser)
                person = people.come(server, viewport={"width": 960, "height": 690 if kind == "cluster" else 640})
                save(trial(person, kind), target, kind)
                if kind == "classify":
                    save(experimenter(people, server, 14), target, "experimenter")
                people.leave()


def save(picture: bytes, target: Path, name: str) -> None:
    """A screenshot with as few colours as it takes to be small."""
    file = target / f"study-{name}.png"
    Pillow.open(io.BytesIO(picture)).convert("RGB").quantize(64).save(file, optimize=True)
    size = file.stat().st_size
    if size > LARGEST:
        raise RuntimeError(f"a screenshot has at most {LARGEST} bytes, {file} has {size}")
    sys.stdout.write(f"{file}: {size} bytes\n")


def trial(person: Any, kind: str) -> bytes:
    """Somebody looks at their first trial."""
    person.open("?simulated=panel").use("I agree")
    person.use("Begin")
    if kind == "timed":
        person.use("#jspsych-fullscreen-btn")
    person.sees("[data-state=ready]")
    if kind == "cluster":
        choose_two(person)
    person.page.mouse.move(0, 0)
    return bytes(person.page.screenshot(animations="disabled"))


def choose_two(person: Any) -> None:
    """Put the first two images into their columns."""
    from cosight.stimuli.tasks import read_tasks

    [panel] = [task for task in read_tasks(person.server.folder.parent / "set") if task.kind == "cluster"]
    right = dict(zip(panel.queries, panel.targets, strict=True))
    shown = person.shown()
    for query in shown[3:5]:
        person.page.keyboard.press(str(shown.index(right[query]) + 1))


def experimenter(people: Any, server: Any, count: int) -> bytes:
    """The experimenter's page when `count` simulated people have answered, most of them right."""
    rng = np.random.default_rng(0)
    known = truths(server.folder.parent / "set")
    for _ in range(count):
        person = people.come(server).open("?simulated=panel")
        person.use("I agree")
        person.use("Begin")
        while not person.sees("[data-state=ready], #code").get_attribute("id"):
            labels = person.page.eval_on_selector_all(
                "[data-response]", "(all) => all.map((one) => one.dataset.response)"
            )
            right = known.get(person.shown()[0], "abstain")
            person.answer(right if rng.random() < 0.85 else str(rng.choice(labels)))
    page = people.come(server, viewport={"width": 960, "height": 900}).open(f"admin#token={server.token}")
    page.sees("text=Answers per image")
    return bytes(page.page.screenshot())


def truths(folder: Path) -> dict[str, str]:
    from cosight.stimuli.sets import read_set

    return dict(read_set(folder).frame.select("stimulus", "truth").iter_rows())


def studies(home: Path) -> dict[str, Path]:
    """A study of every type, each with its set beside it."""
    digits, shapes = home / "digits" / "set", home / "shapes" / "set"
    build = ["build", "digits", str(digits), "--counts", "1=10,8=10"]
    subprocess.run([sys.executable, "-m", "cosight", *build], check=True, capture_output=True)
    write_shapes(shapes)
    return {
        "classify": study(digits, "classify", images=8, answers=9, labels="digits-11", more=SHOWN),
        "timed": study(shapes, "timed", labels="laion-c-16", more=SLOW),
        "2afc": study(shapes, "2afc"),
        "cluster": study(shapes, "cluster"),
        "curate": study(shapes, "curate", more=REASONS),
    }


def study(stimuli: Path, kind: str, *, labels: str = "", more: str = "", **design: Any) -> Path:
    from cosight.humans.study.texts import new_texts

    folder = stimuli.parent / kind
    folder.mkdir()
    settings = "\n".join(f"{name} = {value}" for name, value in {"images": 1, "answers": 9, **design}.items())
    head = f"name = 'demo-{kind}'\ntype = '{kind}'\nset = '../set'\n" + (f"labels = '{labels}'\n" if labels else "")
    (folder / "study.toml").write_text(f"{head}[design]\n{settings}\n{more}")
    (folder / "texts.toml").write_text(new_texts(kind, abstain=labels.endswith("11")))
    return folder


def write_shapes(folder: Path) -> None:
    """Shapes, and mixtures of them with noise that resemble them more or less; the tasks that ask about these."""
    from cosight.stimuli.images import digest
    from cosight.stimuli.tasks import Task, write_tasks
    from cosight.trials.manifest import manifest_frame, write_manifest

    rng = np.random.default_rng(1)
    plain = {name: shape(name) for name in SHAPES}
    mixed = {f"{name}-{i}": mixture(plain[name], rng) for name in list(SHAPES)[:3] for i in range(2)}
    seed = {"seed": rng.integers(0, 255, (SIDE // 8, SIDE // 8, 3)).repeat(8, 0).repeat(8, 1).astype(np.uint8)}
    rows, names = [], {}
    for name, pixels in (plain | mixed | seed).items():
        file = folder / "images" / f"{name}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Pillow.fromarray(pixels).save(file)
        names[name] = digest(pixels)
        rows.append(
            {"stimulus": names[name], "file": f"images/{name}.png", "image": name, "truth": re.split("-", name)[0]}
        )
    known = [row | {"truth": row["truth"] if row["truth"] in SHAPES else "ball"} for row in rows]
    write_manifest(folder, manifest_frame(known), {"settings": {}})
    columns = tuple(names[name] for name in list(SHAPES)[:3])
    targets = tuple(names[name.split("-")[0]] for name in mixed)
    write_tasks(
        folder,
        [
            Task("pair", "2afc", (names["boat-0"],), (names["boat"], names["seed"]), (names["boat"],)),
            Task("panel", "cluster", tuple(names[name] for name in mixed), columns, targets),
        ],
    )


def shape(name: str) -> np.ndarray:
    """A simple picture of what a class is about."""
    image = Pillow.new("RGB", (SIDE, SIDE), "#f4efe6")
    pen = ImageDraw.Draw(image)
    fill = SHAPES[name]
    if name == "ball":
        pen.ellipse((52, 52, 172, 172), fill=fill)
        pen.arc((92, 32, 232, 192), 120, 240, fill="#f4efe6", width=6)
    elif name == "boat":
        pen.polygon([(30, 140), (194, 140), (160, 180), (64, 180)], fill=fill)
        pen.polygon([(110, 36), (110, 130), (180, 130)], fill="#8fb8de")
    elif name == "bottle":
        pen.rounded_rectangle((82, 90, 142, 200), 14, fill=fill)
        pen.rectangle((100, 30, 124, 96), fill=fill)
    elif name == "fruit":
        pen.ellipse((56, 76, 168, 186), fill=fill)
        pen.line([(112, 80), (128, 40)], fill="#5d4037", width=8)
    else:
        pen.rectangle((76, 30, 90, 194), fill=fill)
        pen.rectangle((76, 116, 156, 130), fill=fill)
        pen.rectangle((142, 130, 156, 194), fill=fill)
    return np.asarray(image)


def mixture(picture: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    noise = rng.integers(0, 255, (SIDE // 8, SIDE // 8, 3)).repeat(8, 0).repeat(8, 1)
    return (0.6 * picture + 0.4 * noise).astype(np.uint8)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))

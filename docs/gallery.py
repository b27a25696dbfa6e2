"""Draw every registered figure and write the gallery, `docs/reference/figures.md`: `python docs/gallery.py`.

Figures are drawn from the samples where these have what a figure needs, else from answers that are made up here.
Made-up people are simulated people, and are called so. `commands` runs in the tests too, with fewer resamples.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from PIL import Image as Pillow

from cosight.benchmarks.laion_c.published import DISTORTIONS
from cosight.cli.app import app
from cosight.reports.figures import figures
from cosight.trials import label_space, label_spaces, make_trials, write

DOCS = Path(__file__).parent
PAGE, IMAGES = DOCS / "reference" / "figures.md", DOCS / "images" / "figures"
_COLOURS = 128  # of a stored picture
_LAION = "cosight score models.parquet --humans people.parquet --on laion-c --labels laion-c-16 --cluster-by image"
_MADE_UP = "made-up answers"
_INTRODUCTION = """\
# Figures

`cosight figure NAME SCORES --out FILE` draws a figure for a paper: .pdf, .png or .svg, by the file's name. The numbers
are those of the score rows. Colours are those of Okabe and Ito, and markers or signs differ too, so that figures can be
read in grey. Bars, bands and arms are 95 % intervals. Simulated people are called so. `--measure` chooses another
measure where a figure can show several. Figures need `pip install 'cosight[figures]'`.

Some figures here are drawn from made-up answers, which show what a figure looks like and nothing else.

This page and its pictures are made by `python docs/gallery.py`."""


class Source(NamedTuple):
    """The command whose rows figures are drawn from, the file that it writes, and what the data are."""

    command: str
    file: str
    about: str


SOURCES = {
    "edges": Source("cosight compare sample:edges --out edges.json", "edges.json", "sample:edges"),
    "cues": Source(
        "cosight score sample:cue-conflict --measure shape_bias --out cues.json", "cues.json", "sample:cue-conflict"
    ),
    "alignment": Source(
        "cosight score sample:edges sample:silhouettes --on error-alignment --out alignment.json",
        "alignment.json",
        "sample:edges and sample:silhouettes",
    ),
    "answers": Source("cosight score answers.parquet --out answers.json", "answers.json", _MADE_UP),
    "risk": Source(
        "cosight score answers.parquet --measure coverage,selective_risk --out risk.json", "risk.json", _MADE_UP
    ),
    "laion": Source(f"{_LAION} --out laion.json", "laion.json", _MADE_UP),
    "choices": Source(
        "cosight score choices.parquet --on representation --families networks.toml --out choices.json",
        "choices.json",
        _MADE_UP,
    ),
}


def source_of(name: str) -> Source | None:
    """Return what a figure is drawn from; None for one that takes trials and scores them first."""
    if figures[name].scored:
        return None
    special = {"ec-dots": "edges", "shape-bias": "cues", "curves": "laion", "ec-heatmap": "alignment"}
    special |= {"gamma-sweep": "answers", "risk-coverage": "risk"}
    prefixes = {"alignment-": "alignment", "laion-c-": "laion", "representation-": "choices"}
    by_prefix = next((key for prefix, key in prefixes.items() if name.startswith(prefix)), "")
    return SOURCES[special.get(name, by_prefix)]


def figure_command(name: str, suffix: str = "png") -> str:
    """Return the command that draws a figure."""
    source = source_of(name)
    given = "sample:edges --only model:resnet50,people" if source is None else source.file
    return f"cosight figure {name} {given} --out {name}.{suffix}"


def commands(suffix: str = "png") -> Iterator[str]:
    """Yield every command of the page: those that make rows, then those that draw."""
    for source in SOURCES.values():
        yield source.command
    for name in figures:
        yield figure_command(name, suffix)


def page() -> str:
    """Return the text of the gallery."""
    parts = [_INTRODUCTION]
    for name, kind in figures.items():
        source = source_of(name)
        about = "sample:edges" if source is None else source.about
        follows = f" After {kind.source}." if kind.source else ""
        parts += [
            "",
            f"## {name}",
            "",
            f"{kind.summary}{follows} Here: {about}.",
            "",
            "```text",
            *([] if source is None else [source.command]),
            figure_command(name),
            "```",
            "",
            f"![{name}](../images/figures/{name}.png)",
        ]
    return "\n".join(parts) + "\n"


# ---- made-up answers


def write_data(folder: Path) -> None:
    """Write the made-up answers that the commands read."""
    write(make_trials(abstaining(), space=label_space("bird,cat,dog,abstain")), folder / "answers.parquet", force=True)
    space = label_spaces["laion-c-16"]
    people = [f"simulated:{number}" for number in range(6)]
    models = [f"model:{name}" for name in ("large", "medium", "small", "tiny")]
    shown = pl.concat(
        [
            distorted(models, "laion-c", (*DISTORTIONS, "clean")),
            distorted(models, "imagenet-c", ("fog", "defocus_blur", "contrast")),
        ]
    )
    write(make_trials(shown, space=space), folder / "models.parquet", force=True)
    write(make_trials(distorted(people, "laion-c", DISTORTIONS), space=space), folder / "people.parquet", force=True)
    write(make_trials(choices()), folder / "choices.parquet", force=True)
    (folder / "networks.toml").write_text(
        '[loss]\nadversarial = ["robust*"]\nstandard = ["plain*"]\n'
        '[augmentation]\nwith = ["*-wide"]\nwithout = ["*-narrow"]\n'
        '[paradigm]\nsupervised = ["*"]\n[architecture]\nwide = ["*-wide"]\nnarrow = ["*-narrow"]\n'
    )


def abstaining() -> pl.DataFrame:
    """Answers of three models that abstain, and of six simulated people who refuse, to 160 pictures."""
    rng, classes, caution = np.random.default_rng(0), ("bird", "cat", "dog"), {"model:bold": 0.8}
    truths = [(*classes, "abstain")[number % 4] for number in range(160)]
    clarity = rng.beta(3, 1.2, size=len(truths))  # of each picture
    rows = []
    for observer, skill in (("model:careful", 4.0), ("model:bold", 2.5), ("model:weak", 1.0)):
        for number, (truth, clear) in enumerate(zip(truths, clarity, strict=True)):
            logits = rng.normal(size=3)
            if truth in classes:
                logits[classes.index(truth)] += skill * clear
            p = np.exp(logits) / np.exp(logits).sum()
            rows.append(
                {
                    "observer": observer,
                    "kind": "model",
                    "image": f"{number}.png",
                    "truth": truth,
                    "response": classes[int(p.argmax())],
                    "probabilities": p.tolist(),
                    "abstention": float(caution.get(observer, 1.5) * (1 - p.max())),
                }
            )
    for person in range(6):
        for number, (truth, clear) in enumerate(zip(truths, clarity, strict=True)):
            refuses = truth == "abstain" or rng.random() > 0.4 + clear
            wrong = classes[int(rng.integers(3))]
            answer = "abstain" if refuses else truth if rng.random() < 0.95 else wrong
            about = {"kind": "simulated", "image": f"{number}.png", "truth": truth, "response": answer}
            rows.append(
                {"observer": f"simulated:{person}", **about, "probabilities": None, "abstention": float(refuses)}
            )
    return pl.DataFrame(rows)


def distorted(observers: list[str], experiment: str, conditions: tuple[str, ...]) -> pl.DataFrame:
    """Answers to 48 photos at five levels of each condition; accuracy falls with the level."""
    skills = {"model:large": 1.0, "model:medium": 0.85, "model:small": 0.7, "model:tiny": 0.5}
    classes = label_spaces["laion-c-16"].classes
    rows = []
    for observer in observers:
        for place, condition in enumerate(conditions):
            rng = np.random.default_rng([sum(map(ord, observer)), place, len(experiment)])
            for level in [0] if condition == "clean" else range(1, 6):
                harder = 0.11 * level * (1 + place / 6) if experiment == "laion-c" else 0.06 * level
                for photo in range(48):
                    truth = classes[photo % 16]
                    right = rng.random() < skills.get(observer, 0.95) - (harder if level else 0)
                    rows.append(
                        {
                            "observer": observer,
                            "kind": observer.split(":")[0],
                            "experiment": experiment,
                            "condition": condition,
                            "level": level,
                            "image": f"{photo}.png",
                            "stimulus": f"{experiment}-{condition}-{level}-{photo}",
                            "truth": truth,
                            "response": truth if right else classes[int(rng.integers(16))],
                        }
                    )
    return pl.DataFrame(rows)


def choices() -> pl.DataFrame:
    """Answers of a judge to 2AFC and clustering tasks about 24 targets of four networks, and their robust answers."""
    shares = {"robust-wide": 0.9, "robust-narrow": 0.7, "plain-wide": 0.35, "plain-narrow": 0.2}
    rows = []

    def add(observer: str, kind: str, task: str, right: bool, options: list[str], **facts: object) -> None:
        about = {"observer": observer, "kind": kind, "experiment": "2afc", "stimulus": task, "truth": options[0]}
        extra = json.dumps({"options": options, **facts})
        rows.append({**about, "response": options[0 if right else 1], "role": "test", "extra": extra})

    for model, share in shares.items():
        rng = np.random.default_rng(sum(map(ord, model)))
        for start, scale in (("image", 1.0), ("noise", 0.5)):
            for number in range(24):
                query = f"{model}-{start}-{number}"
                facts = {"query": query, "model": model, "start": start, "distance": 0.04, "targets": "photos"}
                right = bool(rng.random() < share * scale)
                add("lpips", "judge", f"2afc-{query}", right, [f"t{number}", f"seed-{start}-{number}"], **facts)
                first, panel = number // 3 * 3, f"panel-{model}-{start}-{number // 3}"
                others = [f"t{n}" for n in range(first, first + 3) if n != number]
                add("lpips", "judge", f"{panel}/{query}", right, [f"t{number}", *others], panel=panel, **facts)
        for number in range(24):
            right = bool(rng.random() < share * 0.6)
            add(model, "model", f"robust/{number}", right, ["cat", "dog"], images="robust", image=f"i{number}")
    return pl.DataFrame(rows)


def main() -> None:
    """Draw all figures and write the page."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        write_data(folder)
        for line in commands():
            with contextlib.chdir(folder):
                app(line.split()[1:], standalone_mode=False)
        for name in figures:
            picture = Pillow.open(folder / f"{name}.png").convert("RGB")
            size = (picture.width * 3 // 4, picture.height * 3 // 4)
            smaller = picture.resize(size, Pillow.Resampling.LANCZOS)
            stored = smaller.quantize(_COLOURS, method=Pillow.Quantize.MAXCOVERAGE, dither=Pillow.Dither.NONE)
            stored.save(IMAGES / f"{name}.png", optimize=True)
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()

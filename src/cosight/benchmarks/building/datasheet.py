"""A set's datasheet: what it is made of, from where, under which terms, and where its gold labels come from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from cosight.files import atomic_write
from cosight.stimuli.sets import StimulusSet
from cosight.trials.manifest import SPLITS

__all__ = ["DATASHEET", "Category", "Origin", "datasheet", "origin_of", "write_datasheet"]

DATASHEET = "DATASHEET.md"
_LICENCES = ("LICENSE", "LICENCE", "LICENSE.txt", "LICENCE.txt", "LICENSE.md", "LICENCE.md")
_UNKNOWN = "not stated: find out before you pass the set on"


@dataclass(frozen=True, slots=True)
class Category:
    """A category of a set: its number, its group, a word for it and what it shows."""

    number: int
    group: str
    word: str
    shows: str


@dataclass(frozen=True, slots=True)
class Origin:
    """Where images, or what they are drawn with, come from."""

    name: str
    used_for: str
    licence: str
    about: str = ""


def origin_of(folder: Path, *, used_for: str, rejected: int = 0) -> Origin:
    """A source folder, without the images that curators `rejected`; its licence is the first line of a licence file."""
    found = next((folder / name for name in _LICENCES if (folder / name).is_file()), None)
    lines = found.read_text(encoding="utf-8", errors="replace").split("\n") if found else []
    stated = next((line.strip("# ").strip() for line in lines if line.strip("# ").strip()), _UNKNOWN)
    about = f"{rejected} images left out, rejected by curators" if rejected else ""
    return Origin(folder.resolve().name, used_for, stated, about)


def datasheet(
    stimuli: StimulusSet,
    *,
    title: str,
    origins: Iterable[Origin],
    gold: Sequence[str],
    categories: Mapping[int, Category],
    distractors: StimulusSet | None = None,
) -> str:
    """Return the datasheet as Markdown, the same bytes every time; `gold` says where the gold labels come from."""
    settings = json.dumps(stimuli.facts.get("settings", {}), indent=1, sort_keys=True, ensure_ascii=False)
    extra = [] if distractors is None else _distractors(distractors)
    parts = [
        f"# {title}\n\n{len(stimuli)} images.",
        f"## Composition\n\n{_composition(stimuli.frame, categories)}",
        *extra,
        f"## Sources and licences\n\n{_origins(origins)}",
        "## Gold labels\n\n" + "\n".join(f"- {line}" for line in gold),
        "## Splits\n\nNo image, and no source of one, is in two splits. Calibration is made like the test set.",
        f"## How it was made\n\n```json\n{settings}\n```",
    ]
    return "\n\n".join(parts) + "\n"


def _composition(frame: pl.DataFrame, categories: Mapping[int, Category]) -> str:
    """A row per category; of the closed test set, whose labels are kept elsewhere, only how many images it has."""
    present = [split for split in SPLITS if split in set(frame["split"]) and split != "closed"]
    rows = [["category", "group", "shows", *present]]
    for number, category in categories.items():
        part = frame.filter(pl.col("category") == number)
        if part.height:
            counts = [str(part.filter(pl.col("split") == split).height) for split in present]
            rows.append([f"{number} {category.word}", category.group, category.shows, *counts])
    train = frame.filter(pl.col("category").is_null() & pl.col("split").ne_missing("closed"))
    if train.height:
        counts = [str(train.filter(pl.col("split") == split).height) for split in present]
        rows.append(["to train on", "", "unaltered images of the classes", *counts])
    closed = frame.filter(pl.col("split") == "closed").height
    more = f"\n\nAnd {closed} images of a closed test set, whose labels are kept elsewhere." if closed else ""
    return _table(rows) + more


def _distractors(stimuli: StimulusSet) -> list[str]:
    clear = sum(bool(json.loads(text).get("clear")) for text in stimuli.frame["parameters"])
    categories = " and ".join(map(str, stimuli.frame["category"].unique().sort()))
    composition = f"{len(stimuli)} corrupted images of category {categories}, of which {clear} are clear"
    return [
        f"## Distractors\n\nA set of their own in `{stimuli.root.name}/`. {composition}: everybody must refuse those. "
        "Look at them before a survey."
    ]


def _origins(origins: Iterable[Origin]) -> str:
    rows = [[origin.name, origin.used_for, origin.licence, origin.about] for origin in origins]
    return _table([["source", "used for", "licence", "about"], *rows])


def _table(rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def write_datasheet(text: str, out: Path) -> None:
    """Write it beside the set, whole or not at all."""
    with atomic_write(out / DATASHEET) as draft:
        draft.write_text(text, encoding="utf-8")

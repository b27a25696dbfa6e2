"""A set's datasheet: what it is made of, from where, under which terms, and where its gold labels come from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from cosight.stimuli.build.categories import CATEGORIES, SPLITS
from cosight.stimuli.sets import StimulusSet
from cosight.trials.files import new_file

__all__ = ["DATASHEET", "Origin", "datasheet", "origin_of", "write_datasheet"]

DATASHEET = "DATASHEET.md"
_LICENCES = ("LICENSE", "LICENCE", "LICENSE.txt", "LICENCE.txt", "LICENSE.md", "LICENCE.md")
_UNKNOWN = "not stated: find out before you pass the set on"


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
    distractors: StimulusSet | None = None,
) -> str:
    """The datasheet as Markdown, the same bytes every time; `gold` says how the gold labels came about."""
    settings = json.dumps(stimuli.facts.get("settings", {}), indent=1, sort_keys=True, ensure_ascii=False)
    extra = [] if distractors is None else _distractors(distractors)
    parts = [
        f"# {title}\n\n{len(stimuli)} images.",
        f"## Composition\n\n{_composition(stimuli.frame)}",
        *extra,
        f"## Sources and licences\n\n{_origins(origins)}",
        "## Gold labels\n\n" + "\n".join(f"- {line}" for line in gold),
        "## Splits\n\nNo image, and no source of one, is in two splits. Calibration is made like the test set.",
        f"## How it was made\n\n```json\n{settings}\n```",
    ]
    return "\n\n".join(parts) + "\n"


def _composition(frame: pl.DataFrame) -> str:
    present = [split for split in SPLITS if split in set(frame["split"])]
    rows = [["category", "group", "shows", *present]]
    for number, category in CATEGORIES.items():
        part = frame.filter(pl.col("category") == number)
        if part.height:
            counts = [str(part.filter(pl.col("split") == split).height) for split in present]
            rows.append([f"{number} {category.word}", category.group, category.shows, *counts])
    train = frame.filter(pl.col("category").is_null())
    if train.height:
        counts = [str(train.filter(pl.col("split") == split).height) for split in present]
        rows.append(["to train on", "", "unaltered images of the classes", *counts])
    return _table(rows)


def _distractors(stimuli: StimulusSet) -> list[str]:
    clear = sum(bool(json.loads(text).get("clear")) for text in stimuli.frame["parameters"])
    told = f"{len(stimuli)} corrupted images of category 4, of which {clear} are clear: everybody must refuse those."
    return [f"## Distractors\n\nA set of their own in `{stimuli.root.name}/`. {told} Look at them before a survey."]


def _origins(origins: Iterable[Origin]) -> str:
    rows = [[origin.name, origin.used_for, origin.licence, origin.about] for origin in origins]
    return _table([["source", "used for", "licence", "about"], *rows])


def _table(rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def write_datasheet(text: str, out: Path) -> None:
    """Write it beside the set, whole or not at all."""
    with new_file(out / DATASHEET) as draft:
        draft.write_text(text, encoding="utf-8")

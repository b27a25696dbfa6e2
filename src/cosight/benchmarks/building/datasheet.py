"""The datasheet of a set: what it is made of, from where, under which licence, and the origin of its gold labels."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from cosight.stimuli.sets import StimulusSet
from cosight.trials.manifest import SPLITS

__all__ = [
    "DATASHEET",
    "REJECTED",
    "Category",
    "SourceDescription",
    "describe_source",
    "format_datasheet",
    "rejected_candidates",
]

DATASHEET = "DATASHEET.md"
REJECTED = "rejected"  # parameter of an image: candidates before it, by the reason of their rejection
_LICENCES = ("LICENSE", "LICENCE", "LICENSE.txt", "LICENCE.txt", "LICENSE.md", "LICENCE.md")
_UNKNOWN = "not stated: find out before you pass the set on"


@dataclass(frozen=True, slots=True)
class Category:
    """A category of a set: its number, its group, a short name, and a description of its images."""

    number: int
    group: str
    name: str
    description: str


@dataclass(frozen=True, slots=True)
class SourceDescription:
    """Where images, or what they are drawn with, come from."""

    name: str
    used_for: str
    licence: str
    about: str = ""


def describe_source(folder: Path, *, used_for: str, rejected: int = 0) -> SourceDescription:
    """Describe a source folder; its licence is the first line of its licence file.

    Args:
        folder: The folder.
        used_for: The categories that are made from it.
        rejected: Number of its images that curators rejected.
    """
    path = next((folder / name for name in _LICENCES if (folder / name).is_file()), None)
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n") if path else []
    licence = next((line.strip("# ").strip() for line in lines if line.strip("# ").strip()), _UNKNOWN)
    about = f"{rejected} images left out, rejected by curators" if rejected else ""
    return SourceDescription(folder.resolve().name, used_for, licence, about)


def format_datasheet(
    stimuli: StimulusSet,
    *,
    title: str,
    sources: Iterable[SourceDescription],
    gold: Sequence[str],
    categories: Mapping[int, Category],
    distractors: StimulusSet | None = None,
    verification: Sequence[str] = (),
    missing: Mapping[str, str] | None = None,
) -> str:
    """Return the datasheet as Markdown, the same bytes every time.

    Args:
        stimuli: The set.
        title: The title.
        sources: Where the images come from.
        gold: Where the gold labels come from, one sentence per item.
        categories: The categories by number.
        distractors: The set of distractors.
        verification: How the images were verified, one sentence per item.
        missing: Reason for each image that could not be made, by its file.
    """
    settings = json.dumps(stimuli.facts.get("settings", {}), indent=1, sort_keys=True, ensure_ascii=False)
    source_rows = [[source.name, source.used_for, source.licence, source.about] for source in sources]
    parts = [f"# {title}\n\n{len(stimuli)} images.", f"## Composition\n\n{_composition(stimuli.frame, categories)}"]
    if distractors is not None:
        clear = sum(bool(json.loads(text).get("clear")) for text in distractors.frame["parameters"])
        numbers = " and ".join(map(str, distractors.frame["category"].unique().sort()))
        parts.append(
            f"## Distractors\n\nA set of their own in `{distractors.root.name}/`. {len(distractors)} corrupted images "
            f"of category {numbers}, of which {clear} are clear: everybody must refuse those. "
            "Look at them before a survey."
        )
    parts += [
        f"## Sources and licences\n\n{_table([['source', 'used for', 'licence', 'about'], *source_rows])}",
        *([f"## Verification\n\n{_list(verification)}"] if verification else []),
        *([f"## Rejected\n\n{table}"] if (table := _rejections(stimuli.frame, categories, missing or {})) else []),
        "## Gold labels\n\n" + _list(gold),
        "## Splits\n\nNo image, and no source of one, is in two splits. Calibration is made like the test set.",
        f"## How it was made\n\n```json\n{settings}\n```",
    ]
    return "\n\n".join(parts) + "\n"


def _composition(frame: pl.DataFrame, categories: Mapping[int, Category]) -> str:
    """Return a table with a row per category; of the closed test set only the number of images is stated."""
    splits = [split for split in SPLITS if split in set(frame["split"]) and split != "closed"]
    train = frame.filter(pl.col("category").is_null() & pl.col("split").ne_missing("closed"))
    parts = [
        ([f"{number} {category.name}", category.group, category.description], frame.filter(category=number))
        for number, category in categories.items()
    ]
    rows = [["category", "group", "shows", *splits]]
    for words, part in [*parts, (["to train on", "", "unaltered images of the classes"], train)]:
        if part.height:
            rows.append([*words, *(str(part.filter(split=split).height) for split in splits)])
    closed = frame.filter(split="closed").height
    remark = f"\n\nAnd {closed} images of a closed test set, whose labels are kept elsewhere." if closed else ""
    return _table(rows) + remark


def rejected_candidates(frame: pl.DataFrame) -> Counter[tuple[int, str]]:
    """Count the candidates that were rejected for another, by category and reason. Of a closed test set it has none.

    Args:
        frame: The manifest of a built set.
    """
    tried: Counter[tuple[int, str]] = Counter()
    for number, text in frame.select("category", "parameters").drop_nulls().iter_rows():
        tried.update({(number, reason): count for reason, count in json.loads(text).get(REJECTED, {}).items()})
    return tried


def _rejections(frame: pl.DataFrame, categories: Mapping[int, Category], missing: Mapping[str, str]) -> str:
    """Return a table of what was tried and not kept, by category and reason; empty if everything was kept.

    Of the closed test set nothing is stated.
    """
    tried = rejected_candidates(frame)
    lost: Counter[tuple[int, str]] = Counter()
    for file, reason in missing.items():
        if found := re.search(r"category-(\d+)/", file):
            lost[int(found[1]), reason] += 1
    rows = [["category", "reason", "candidates rejected for another", "images missing"]]
    for number, reason in sorted({*tried, *lost}):
        cells = (str(count or "") for count in (tried[number, reason], lost[number, reason]))
        rows.append([f"{number} {categories[number].name}", reason, *cells])
    return _table(rows) if len(rows) > 1 else ""


def _list(sentences: Iterable[str]) -> str:
    return "\n".join(f"- {sentence}" for sentence in sentences)


def _table(rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])

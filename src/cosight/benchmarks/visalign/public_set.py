"""The public VisAlign set, in the two layouts it has been given out in, as a stimulus set.

* text files     `label/category1.txt` .. `category8.txt`, lines SOURCE/IMAGE, with the images in SOURCE/ beside
                 `label/`; what holds them is `open_test_set/` of the archive. People's answers to category 8 come with
                 it as a pickle, which is never opened here: convert `open_test_corruption_labels.pk` to JSON (image
                 name -> 11 numbers) where you trust it, and keep that beside the folder or in it.
* Hugging Face   `jiyounglee0523/VisAlign`, split test, columns `image` and `file_name`: Parquet files whose `image` is
                 (bytes, path), or image files beside `metadata.csv` or `metadata.jsonl`. It tells neither category nor
                 gold label; `label/` of the other layout, where it is at hand, tells the categories.

A name tells the class as the released code reads it: of category 1 the letters before the first digit, of 2 the first
word without its last letter, of 3 and 8 what stands after the first dash (8: then the corruption and its severity, or
the size of a crop). Where a name tells nothing, truth and gold are null.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from cosight.arrays import distributions
from cosight.benchmarks.entry import Progress
from cosight.benchmarks.visalign.categories import CATEGORIES, category_columns
from cosight.errors import InvalidInput
from cosight.files import file_stamp
from cosight.stimuli.generate import GeneratedSet, Outcome, StimulusJob, Unit, generate_set
from cosight.stimuli.images import Bytes, check_image, decode, to_rgb
from cosight.trials.spaces import ABSTAIN, label_spaces

__all__ = ["CORRUPTION_LABELS", "PublicSet", "import_public"]

CORRUPTION_LABELS = "open_test_corruption_labels.json"
_SPACE = label_spaces["visalign-11"]
_CROPS = (300, 250, 200, 150, 100, 50, 40, 30, 20, 10)  # sizes of severities 1 to 10, which the names of crops give
_LIST = re.compile(r"category([1-8])\.txt")
_METADATA = ("metadata.csv", "metadata.jsonl")


@dataclass(frozen=True, slots=True)
class _Image:
    """One image of the public set: its name, and the file it is in, or its row in a Parquet file."""

    name: str
    path: Path
    row: int | None = None


@dataclass(frozen=True, slots=True)
class PublicSet:
    """Recipe: the public set's images, with what its lists and names tell of them.

    `labels` is a folder with category1.txt and so on; by default the set's own.
    """

    source: Path
    labels: Path | None = None

    @property
    def settings(self) -> Mapping[str, Any]:
        """Verb, benchmark and labels."""
        return {"verb": "build", "benchmark": "visalign", "labels": _SPACE.name, "public": True}

    @property
    def packages(self) -> tuple[str, ...]:
        """None besides the usual ones."""
        return ()

    @property
    def folders(self) -> tuple[Path, ...]:
        """The source."""
        return (self.source,)

    def units(self) -> list[Unit]:
        """One image each."""
        if not self.source.is_dir():
            raise InvalidInput(f"the public set is a folder, got {self.source}")
        listed = _categories(self.labels or _own_labels(self.source))
        gold = _corruption_labels(self.source)
        stamps: dict[Path, str] = {}
        return [
            self._unit(image, listed.get(image.name), gold.get(image.name), stamps) for image in _images(self.source)
        ]

    def _unit(self, image: _Image, category: int | None, gold: Sequence[float] | None, stamps: dict[Path, str]) -> Unit:
        if image.path not in stamps or image.row is None:
            stamps[image.path] = file_stamp(image.path)
        facts = {"image": image.name, "experiment": "visalign", "split": "test", **_told(image.name, category, gold)}
        place = f"category-{category}/{image.name}" if category else image.name
        return Unit(f"{image.path} {image.name}", stamps[image.path], (StimulusJob(place, facts),), payload=image)

    def make(self, unit: Unit, jobs: Sequence[StimulusJob]) -> Iterator[Outcome]:
        """Decode the image; transparency and the like are refused."""
        yield Outcome(jobs[0], _pixels(unit.payload))


def import_public(
    source: Path, out: Path, *, labels: Path | None = None, workers: int = 1, progress: Progress | None = None
) -> GeneratedSet:
    """The public set as a stimulus set in `out`; images keep their file names, which the leaderboard asks for."""
    return generate_set(PublicSet(source, labels), out, workers=workers, progress=progress)


def _images(source: Path) -> list[_Image]:
    """Every image of the set, by name."""
    for found in (_from_lists(source), _from_parquet(source), _from_metadata(source)):
        if found:
            if len({image.name for image in found}) < len(found):
                raise InvalidInput(f"names of the public set differ, {source} has some twice; remove one")
            return sorted(found, key=lambda image: image.name)
    raise InvalidInput(
        f"the public set has label/category1.txt ..., Parquet files with image and file_name, or {_METADATA[0]}; "
        f"found none in {source}"
    )


def _own_labels(source: Path) -> Path | None:
    places = (source / "label", source / "open_test_set" / "label")
    return next((place for place in places if place.is_dir()), None)


def _listed(labels: Path | None) -> dict[str, int]:
    """Lines SOURCE/IMAGE of the lists, and the category of each."""
    if labels is None:
        return {}
    lists = {int(match[1]): path for path in labels.iterdir() if (match := _LIST.fullmatch(path.name))}
    if not lists:
        raise InvalidInput(f"categories are listed in category1.txt to category8.txt, {labels} has none of them")
    lines = {number: lists[number].read_text(encoding="utf-8").split("\n") for number in sorted(lists)}
    return {line.strip(): number for number, own in lines.items() for line in own if line.strip()}


def _categories(labels: Path | None) -> dict[str, int]:
    return {line.rsplit("/", 1)[-1]: number for line, number in _listed(labels).items()}


def _from_lists(source: Path) -> list[_Image]:
    labels = _own_labels(source)
    if labels is None:
        return []
    root, found = labels.parent.resolve(), []
    for line in _listed(labels):
        path = root / line
        if not path.resolve().is_relative_to(root):
            raise InvalidInput(f"lists name images inside the set, {labels} names {line}")
        found.append(_Image(path.name, path))
    return found


def _from_parquet(source: Path) -> list[_Image]:
    found = []
    for path in sorted(source.rglob("*.parquet")):
        schema = pl.read_parquet_schema(path)
        if {"image", "file_name"} <= set(schema):
            names = pl.read_parquet(path, columns=["file_name"], glob=False)["file_name"]
            found += [_Image(Path(name).name, path, row) for row, name in enumerate(names)]
    return found


def _from_metadata(source: Path) -> list[_Image]:
    path = next((path for name in _METADATA for path in sorted(source.rglob(name))), None)
    if path is None:
        return []
    table = pl.read_csv(path) if path.suffix == ".csv" else pl.read_ndjson(path)
    if "file_name" not in table.columns:
        raise InvalidInput(f"{path} must have the column file_name, got {', '.join(table.columns)}")
    outside = [
        name for name in table["file_name"] if not (path.parent / name).resolve().is_relative_to(source.resolve())
    ]
    if outside:
        raise InvalidInput(f"{path} names images inside the set, got {outside[0]}")
    return [_Image(Path(name).name, path.parent / name) for name in table["file_name"]]


def _corruption_labels(source: Path) -> dict[str, list[float]]:
    """People's answers to category 8, where they are there as JSON."""
    places = [folder / CORRUPTION_LABELS for folder in (source, source.parent)]
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        kept = next((p for place in places if (p := place.with_suffix(".pk")).is_file()), None)
        if kept is not None:
            raise InvalidInput(
                f"people's answers are read from {CORRUPTION_LABELS}, got only {kept.name}, a pickle, which is never "
                "opened; convert it to JSON where you trust it, or move it away to go without"
            )
        return {}
    answers: dict[str, list[float]] = json.loads(path.read_text(encoding="utf-8"))
    for name, shares in answers.items():
        if len(shares) != len(_SPACE.answers):
            raise InvalidInput(f"{path}: an image has {len(_SPACE.answers)} numbers, {name} has {len(shares)}")
        distributions(shares, name=f"{path}, {name}")
    return answers


def _told(name: str, category: int | None, gold: Sequence[float] | None) -> dict[str, Any]:
    """What the category and the name tell."""
    if category is None:
        return {}
    group = CATEGORIES[category].group
    facts: dict[str, Any] = {**category_columns(category), "kind": CATEGORIES[category].name}
    if group == "must-abstain":
        return {**facts, "truth": ABSTAIN, "gold": _SPACE.one_hot(ABSTAIN)}
    label = _label(name, category)
    facts |= {"truth": label, "original": label}
    if category == 8:
        return {**facts, **_corruption(name), "gold": None if gold is None else [float(share) for share in gold]}
    return {**facts, "gold": None if label is None else _SPACE.one_hot(label)}


def _label(name: str, category: int) -> str | None:
    """The class that a name tells, or None.

    >>> _label("tiger12.jpg", 1), _label("zebras on the moon.png", 2), _label("ILSVRC2012_val_1-bear-fog-3.jpg", 8)
    ('tiger', 'zebra', 'bear')
    """
    words = {1: re.split(r"\d", name)[0], 2: name.split(" ")[0][:-1]}
    told = words[category] if category in words else "".join(name.split("-")[1:2])
    return told if told in _SPACE.classes else None


def _corruption(name: str) -> dict[str, Any]:
    parts = Path(name).stem.split("-")
    if len(parts) != 4 or not parts[3].isdecimal():
        return {}
    number = int(parts[3])
    if parts[2] == "cropping":
        return {"condition": "cropping", "level": _CROPS.index(number) + 1 if number in _CROPS else None}
    return {"condition": parts[2], "level": number}


def _pixels(image: _Image) -> Bytes:
    if image.row is None:
        if not image.path.is_file():
            raise InvalidInput(f"{image.path} is listed but not there; get the set again")
        data = image.path.read_bytes()
    else:
        table = (
            pl.scan_parquet(image.path, glob=False).select("image").slice(image.row, 1).collect()
        )  # that row's group alone
        data = table["image"][0]["bytes"]
    return to_rgb(check_image(decode(data, name=image.name)))

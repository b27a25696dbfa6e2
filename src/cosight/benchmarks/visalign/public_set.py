"""The published VisAlign set as a stimulus set, from either of the two layouts in which it was released.

* text files     `label/category1.txt` .. `category8.txt`, lines SOURCE/IMAGE, with the images in SOURCE/ beside
                 `label/`; in the archive they are in `open_test_set/`. People's answers to category 8 are a pickle,
                 which is never opened here: convert `open_test_corruption_labels.pk` to JSON (image name -> 11
                 numbers) where you trust it, and put that into the folder or beside it.
* Hugging Face   `jiyounglee0523/VisAlign`, split test, columns `image` and `file_name`: Parquet files whose `image` is
                 (bytes, path), or image files beside `metadata.csv` or `metadata.jsonl`. It has neither categories nor
                 gold labels; `label/` of the other layout, if available, has the categories.

The class is in the file name, as the released code reads it: in category 1 the letters before the first digit, in 2 the
first word without its last letter, in 3 and 8 the word after the first dash (8: then the corruption and its severity,
or the size of a crop). If the name has no class, truth and gold are null.

The published set is a test set. Abstention functions need images to scale strangeness on, and some need images to
learn from: some of its images can become a calibration split, and photos of the classes a training split.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import polars as pl

from cosight.arrays import distributions
from cosight.benchmarks.building.source_photos import FileStamps, Photos
from cosight.benchmarks.building.split_sources import shuffle
from cosight.benchmarks.visalign.categories import CATEGORIES, category_columns
from cosight.errors import InvalidInput
from cosight.files import read_json
from cosight.stimuli.generate import Outcome, StimulusJob, Unit
from cosight.stimuli.images import check_image, decode, to_rgb
from cosight.trials.spaces import ABSTAIN, label_spaces

__all__ = ["CORRUPTION_LABELS", "PublicSet"]

CORRUPTION_LABELS = "open_test_corruption_labels.json"
_SPACE = label_spaces["visalign-11"]
_CROPS = (300, 250, 200, 150, 100, 50, 40, 30, 20, 10)  # sizes of severities 1 to 10, in the names of crops
_LIST = re.compile(r"category([1-8])\.txt")
_METADATA = ("metadata.csv", "metadata.jsonl")


@dataclass(frozen=True, slots=True)
class _PublicImage:
    """One image of the published set: its name, and its file, or its row in a Parquet file."""

    name: str
    path: Path
    row: int | None = None


@dataclass(frozen=True, slots=True)
class PublicSet:
    """Recipe of the published set. Images keep their file names, which the leaderboard asks for.

    Attributes:
        source: Folder of the published set.
        labels: A folder with category1.txt and so on (default: the set's own).
        calibration: Images of the calibration split: the same share of every category, drawn by `seed`. Images of one
            photo stay together. The others are the test split.
        seed: Seed of the calibration split.
        training: Photos of the ten classes, which become the training split.
    """

    source: Path
    labels: Path | None = None
    calibration: int = 0
    seed: int = 0
    training: Photos | None = None

    packages: ClassVar[tuple[str, ...]] = ()

    @property
    def settings(self) -> Mapping[str, Any]:
        """Verb, benchmark and labels; the calibration split if there is one."""
        settings = {"verb": "build", "benchmark": "visalign", "labels": _SPACE.name, "public": True}
        return settings | ({"calibration": self.calibration, "seed": self.seed} if self.calibration else {})

    @property
    def folders(self) -> tuple[Path, ...]:
        """The source folder, and that of the training photos."""
        return (self.source,) if self.training is None else (self.source, self.training.folder)

    def units(self) -> list[Unit]:
        """Return one unit per image.

        Raises:
            InvalidInput: The folder has no published set, or the calibration split cannot be drawn from it.
        """
        if not self.source.is_dir():
            raise InvalidInput(
                f"the published set is a folder, got {self.source}; `cosight data get visalign` tells how to get it"
            )
        own_labels = next(
            (path for path in (self.source / "label", self.source / "open_test_set" / "label") if path.is_dir()), None
        )
        lines = _read_lists(self.labels or own_labels)
        categories = {line.rsplit("/", 1)[-1]: category for line, category in lines.items()}
        gold_labels = _read_gold_labels(self.source)
        images, stamps, units = _find_images(self.source, own_labels), FileStamps(), []
        calibration = self._draw_calibration(images, categories, stamps) if self.calibration else frozenset()
        for image in images:
            category = categories.get(image.name)
            split = "calibration" if image.name in calibration else "test"
            facts = {"image": image.name, "experiment": "visalign", "split": split}
            facts |= _manifest_columns(image.name, category, gold_labels.get(image.name))
            file = f"category-{category}/{image.name}" if category else image.name
            job = StimulusJob(file, facts)
            units.append(Unit(f"{image.path} {image.name}", stamps[image.path], (job,), payload=image))
        return units + ([] if self.training is None else _training_units(self.training, stamps))

    def _draw_calibration(
        self, images: Sequence[_PublicImage], categories: Mapping[str, int], stamps: FileStamps
    ) -> frozenset[str]:
        """Return the names of the calibration images: the same share of every category, whole photos only."""
        totals = Counter(categories.get(image.name) for image in images)
        exact = {category: self.calibration * count / len(images) for category, count in totals.items()}
        quotas = {category: int(share) for category, share in exact.items()}
        by_remainder = sorted(exact, key=lambda category: (quotas[category] - exact[category], category or 0))
        for category in by_remainder[: self.calibration - sum(quotas.values())]:
            quotas[category] += 1
        if any(not 0 < quotas[category] < count for category, count in totals.items()):
            raise InvalidInput(
                f"--calibration must leave images of every category in both splits, got {self.calibration} of "
                f"{len(images)} images; choose another number"
            )
        photos: dict[str, list[str]] = {}
        photo_of_file: dict[str, str] = {}
        for image in images:
            photo = _photo_in_name(image.name, categories.get(image.name))
            if image.row is None and image.path.is_file():  # the same file under two names is one photo
                photo = photo_of_file.setdefault(stamps[image.path], photo)
            photos.setdefault(photo, []).append(image.name)
        drawn: list[str] = []
        for photo in shuffle(photos, salt="calibration", seed=self.seed):
            needed = Counter(categories.get(name) for name in photos[photo])
            if all(count <= quotas[category] for category, count in needed.items()):
                quotas = {category: quota - needed[category] for category, quota in quotas.items()}
                drawn += photos[photo]
        if any(quotas.values()):
            raise InvalidInput(
                f"--calibration keeps the images of one photo together, so {self.calibration} images cannot be drawn "
                "evenly from the categories; choose another number or another --seed"
            )
        return frozenset(drawn)

    def make(self, unit: Unit, jobs: Sequence[StimulusJob]) -> Iterator[Outcome]:
        """Yield the decoded image; transparency and the like are refused."""
        image: _PublicImage = unit.payload
        if image.row is None:
            if not image.path.is_file():
                raise InvalidInput(f"{image.path} is listed but does not exist; download the set again")
            data = image.path.read_bytes()
        else:  # read only the row group of this row
            table = pl.scan_parquet(image.path, glob=False).select("image").slice(image.row, 1).collect()
            data = table["image"][0]["bytes"]
        yield Outcome(jobs[0], to_rgb(check_image(decode(data, name=image.name))))


def _training_units(photos: Photos, stamps: FileStamps) -> list[Unit]:
    """Return one unit per training photo."""
    units = []
    for label, files in photos.by_class(_SPACE).items():
        facts = {"experiment": "visalign", "split": "train", "truth": label, "original": label}
        for number, path in enumerate(map(photos.path, files)):
            own = {**facts, "image": path.name, "gold": _SPACE.one_hot(label)}
            job = StimulusJob(f"train/{label}/{number:04d}", own)
            units.append(Unit(str(path), stamps[path], (job,), payload=_PublicImage(path.name, path)))
    return units


def _find_images(source: Path, labels: Path | None) -> list[_PublicImage]:
    """Return every image of the set, sorted by name, from the first layout that the folder has."""
    images = _from_lists(labels) or _from_parquet(source) or _from_metadata(source)
    if not images:
        raise InvalidInput(
            f"the published set has label/category1.txt ..., Parquet files with image and file_name, or "
            f"{_METADATA[0]}; found none in {source} (`cosight data get visalign` tells how to get it)"
        )
    if len({image.name for image in images}) < len(images):
        raise InvalidInput(f"names of the published set must be unique, {source} has some twice; remove one")
    return sorted(images, key=lambda image: image.name)


def _read_lists(labels: Path | None) -> dict[str, int]:
    """Return the lines SOURCE/IMAGE of the lists, with the category of each."""
    if labels is None:
        return {}
    lists = {int(match[1]): path for path in labels.iterdir() if (match := _LIST.fullmatch(path.name))}
    if not lists:
        raise InvalidInput(f"categories are listed in category1.txt to category8.txt, {labels} has none of them")
    try:
        lines = {number: lists[number].read_text(encoding="utf-8-sig").split("\n") for number in sorted(lists)}
    except UnicodeDecodeError as error:
        raise InvalidInput(f"the lists in {labels} must be UTF-8 text: {error}; download them again") from error
    return {line.strip(): number for number, own in lines.items() for line in own if line.strip()}


def _from_lists(labels: Path | None) -> list[_PublicImage]:
    if labels is None:
        return []
    root = labels.parent.resolve()
    paths = [root / line for line in _read_lists(labels)]
    if outside := [path for path in paths if not path.resolve().is_relative_to(root)]:
        raise InvalidInput(f"lists must name images inside the set, {labels} names {outside[0]}")
    return [_PublicImage(path.name, path) for path in paths]


def _from_parquet(source: Path) -> list[_PublicImage]:
    images = []
    for path in sorted(source.rglob("*.parquet")):
        if {"image", "file_name"} <= set(pl.read_parquet_schema(path)):
            names = pl.read_parquet(path, columns=["file_name"], glob=False)["file_name"]
            images += [_PublicImage(Path(name).name, path, row) for row, name in enumerate(names)]
    return images


def _from_metadata(source: Path) -> list[_PublicImage]:
    path = next((path for name in _METADATA for path in sorted(source.rglob(name))), None)
    if path is None:
        return []
    table = pl.read_csv(path) if path.suffix == ".csv" else pl.read_ndjson(path)
    if "file_name" not in table.columns:
        raise InvalidInput(f"{path} must have the column file_name, got {', '.join(table.columns)}")
    root = source.resolve()
    files = table["file_name"].to_list()
    if outside := [name for name in files if not (path.parent / name).resolve().is_relative_to(root)]:
        raise InvalidInput(f"{path} must name images inside the set, got {outside[0]}")
    return [_PublicImage(Path(name).name, path.parent / name) for name in files]


def _read_gold_labels(source: Path) -> dict[str, list[float]]:
    """Return people's answers to category 8 by image name; empty without the JSON file."""
    paths = [folder / CORRUPTION_LABELS for folder in (source, source.parent)]
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        pickles = [path.with_suffix(".pk") for path in paths]
        if pickle := next((path for path in pickles if path.is_file()), None):
            raise InvalidInput(
                f"people's answers are read from {CORRUPTION_LABELS}, got only {pickle.name}, a pickle, which is never "
                "opened; convert it to JSON where you trust it, or move it away to go without"
            )
        return {}
    gold_labels: dict[str, list[float]] = read_json(path)
    if not isinstance(gold_labels, dict) or not all(isinstance(label, list) for label in gold_labels.values()):
        raise InvalidInput(f"{path} must be a JSON object, image name -> list of numbers; convert it again")
    for name, label in gold_labels.items():
        if len(label) != len(_SPACE.answers):
            raise InvalidInput(f"{path}: an image has {len(_SPACE.answers)} numbers, {name} has {len(label)}")
        distributions(label, name=f"{path}, {name}")
    return gold_labels


def _manifest_columns(name: str, category: int | None, gold: Sequence[float] | None) -> dict[str, Any]:
    """Return what the category and the name of an image say about it."""
    if category is None:
        return {}
    columns: dict[str, Any] = {**category_columns(category), "kind": CATEGORIES[category].name}
    if columns["group"] == "must-abstain":
        return {**columns, "truth": ABSTAIN, "gold": _SPACE.one_hot(ABSTAIN)}
    label = _class_in_name(name, category)
    columns |= {"truth": label, "original": label}
    if category != 8:
        return {**columns, "gold": None if label is None else _SPACE.one_hot(label)}
    columns["gold"] = None if gold is None else [float(probability) for probability in gold]
    parts = Path(name).stem.split("-")
    if len(parts) == 4 and parts[3].isdecimal():
        number: int | None = int(parts[3])
        if parts[2] == "cropping":
            number = _CROPS.index(number) + 1 if number in _CROPS else None
        columns |= {"condition": parts[2], "level": number}
    return columns


def _photo_in_name(name: str, category: int | None) -> str:
    """Return the photo that an image was made from: its name begins with it in categories 3 and 8.

    >>> {_photo_in_name(f"ILSVRC2012_val_1{rest}", 8) for rest in ("-bear-fog-3.jpg", ".JPEG-bear-cropping-50.jpg")}
    {'ILSVRC2012_val_1'}
    """
    return name.split("-")[0].removesuffix(".JPEG") if category in (3, 8) else name


def _class_in_name(name: str, category: int) -> str | None:
    """Return the class in a file name, or None.

    >>> names = {1: "tiger12.jpg", 2: "zebras on the moon.png", 8: "ILSVRC2012_val_1-bear-fog-3.jpg"}
    >>> [_class_in_name(name, category) for category, name in names.items()]
    ['tiger', 'zebra', 'bear']
    """
    words = {1: re.split(r"\d", name)[0], 2: name.split(" ")[0][:-1]}
    word = words[category] if category in words else "".join(name.split("-")[1:2])
    return word if word in _SPACE.classes else None

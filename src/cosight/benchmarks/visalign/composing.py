"""Recipes for sets of composed images: VisAlign's categories 2 and 5, from photos or from a text-to-image model."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cosight.benchmarks.visalign.categories import CATEGORIES
from cosight.benchmarks.visalign.plans import DoubtfulMask, make_composite, plan_composites
from cosight.benchmarks.visalign.prompts import prompt_table
from cosight.errors import InvalidInput
from cosight.files import file_stamp
from cosight.stimuli.composition import generate, pipeline_identity, read_mask
from cosight.stimuli.composition.compositing import PLAIN_BACKGROUNDS
from cosight.stimuli.composition.diffusion import Pipeline
from cosight.stimuli.composition.masks import mask_path
from cosight.stimuli.generate import Outcome, StimulusJob, Unit
from cosight.stimuli.images import Bytes, as_bytes, check_image, digest, read_image
from cosight.stimuli.sets import StimulusSet

__all__ = ["Composites", "Generated"]

_CUT_OUT = ("source", "second")  # columns of a plan that name photos with an object
_FILES = (*_CUT_OUT, "background")  # columns that may name files


@dataclass(frozen=True, slots=True)
class Composites:
    """Photos cut out and pasted on other grounds (category 2), or two of them joined (category 5).

    `sources` have the classes as truth; `others` are animals outside the classes, for category 5; `grounds` are photos
    of backgrounds, and without any the plain ones are taken. Masks are looked for beside the photos.
    """

    category: int
    sources: StimulusSet
    count: int
    others: StimulusSet | None = None
    grounds: StimulusSet | None = None
    size: int = 512
    doubtful: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if self.others is not None and self.category == 2:
            raise InvalidInput("--others are for category 5, got category 2")

    @property
    def settings(self) -> Mapping[str, Any]:
        """Verb, category, size and seed."""
        return {"verb": "compose", "category": self.category, "size": self.size, "seed": self.seed}

    @property
    def packages(self) -> tuple[str, ...]:
        """What joins two photos."""
        return ("scipy",)

    @property
    def folders(self) -> tuple[Path, ...]:
        """Where the photos are."""
        return tuple(photos.root for photos in (self.sources, self.others, self.grounds) if photos is not None)

    def units(self) -> list[Unit]:
        """One composite each. Plans speak of names inside the folders, so they do not depend on where those are."""
        photos, others = _by_class(self.sources, ""), _by_class(self.others, "others/") if self.others else {}
        grounds = _photos(self.grounds, "backgrounds/") if self.grounds else {}
        plan = plan_composites(
            self.category,
            {truth: tuple(files) for truth, files in photos.items()},
            count=self.count,
            seed=self.seed,
            backgrounds=tuple(grounds) or PLAIN_BACKGROUNDS,
            others={truth: tuple(files) for truth, files in others.items()},
        )
        places = {
            name: path for files in (*photos.values(), *others.values()) for name, path in files.items()
        } | grounds
        stamps = _Stamps()
        rows = enumerate(plan.iter_rows(named=True))
        return [_composite(index, row, places, stamps, doubtful=self.doubtful) for index, row in rows]

    def make(self, unit: Unit, jobs: Sequence[StimulusJob]) -> Iterator[Outcome]:
        """Cut out, paste or join."""
        row, places = unit.payload
        load = {name: _read(path) for name, path in places.items()}
        mask = {name: read_mask(path) for name, path in places.items() if name in map(row.get, _CUT_OUT)}
        try:
            pixels = make_composite(row, load.__getitem__, mask=mask.get, size=self.size, doubtful=self.doubtful)
        except DoubtfulMask:
            yield Outcome(jobs[0], None, reason="doubtful mask")
        else:
            yield Outcome(jobs[0], pixels, {"parent": digest(load[row["source"]])})


def _read(path: Path) -> Bytes:
    """A photo; whatever is wrong with it is told with its name."""
    try:
        return as_bytes(check_image(read_image(path)))
    except FileNotFoundError as error:
        raise InvalidInput(f"{path} is listed but not there; verify the set, or make it again") from error
    except InvalidInput as error:
        raise InvalidInput(str(error) if str(path) in str(error) else f"{path}: {error}") from error


class _Stamps(dict[Path, str]):
    """Digests of files, each read once."""

    def __missing__(self, path: Path) -> str:
        self[path] = file_stamp(path)
        return self[path]


def _composite(index: int, row: dict[str, Any], places: Mapping[str, Path], stamps: _Stamps, *, doubtful: bool) -> Unit:
    """The unit of one row. A mask beside a photo is part of what the composite is made from, and so is its absence.

    Allowing doubtful masks changes no composite that could be made without them: only what was lost is tried again.
    """
    used = {row[name]: places[row[name]] for name in _FILES if row[name] in places}
    masks = [mask_path(places[row[name]]) for name in _CUT_OUT if row[name] in places]
    stamp = "+".join(stamps[path] for path in (*used.values(), *masks))
    name = " and ".join([*map(str, used.values()), *(str(path) for path in masks if path.is_file())])
    retry = "doubtful masks allowed" if doubtful else ""
    return Unit(name, stamp, (_job(index, row),), payload=(row, used), retry=retry)


@dataclass(frozen=True, slots=True)
class Generated:
    """Images that a text-to-image pipeline makes of VisAlign's prompts.

    `load` gives the pipeline of this name, and `identify` what it is, wherever it lies.
    """

    category: int
    pipeline: str
    load: Callable[[str], Pipeline]
    count: int
    size: int = 512
    steps: int = 50
    guidance: float = 7.5
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)  # of `prompt_table`: routes, others
    identify: Callable[[str], str] = pipeline_identity

    @property
    def settings(self) -> Mapping[str, Any]:
        """Verb, category, pipeline and how it was asked."""
        return {
            "verb": "compose",
            "category": self.category,
            **self._told(),
            "size": self.size,
            "steps": self.steps,
            "guidance": self.guidance,
            "seed": self.seed,
        }

    @property
    def packages(self) -> tuple[str, ...]:
        """What the pipeline is made with."""
        return ("torch", "diffusers", "transformers")

    @property
    def folders(self) -> tuple[Path, ...]:
        """The pipeline's, where it is one."""
        folder = Path(self.pipeline).expanduser()
        return (folder,) if folder.is_dir() else ()

    def _told(self) -> dict[str, str]:
        """The pipeline's last name and what it is; not where it lies."""
        return {"pipeline": Path(self.pipeline).expanduser().resolve().name, "weights": self.identify(self.pipeline)}

    def units(self) -> list[Unit]:
        """One prompt each."""
        table, told = prompt_table(self.category, count=self.count, seed=self.seed, **self.options), self._told()
        return [
            Unit(row["prompt"], told["weights"], (_job(index, row, told),), payload=row)
            for index, row in enumerate(table.iter_rows(named=True))
        ]

    def make(self, unit: Unit, jobs: Sequence[StimulusJob]) -> Iterator[Outcome]:
        """Ask the pipeline."""
        pipeline = self.load(self.pipeline)
        image = generate(pipeline, unit.payload, size=self.size, steps=self.steps, guidance=self.guidance)
        yield Outcome(jobs[0], image)


def _job(index: int, row: Mapping[str, Any], more: Mapping[str, Any] | None = None) -> StimulusJob:
    facts = {name: row[name] for name in ("truth", "original", "category", "seed")}
    told = {name: value for name, value in row.items() if name not in facts and value is not None} | dict(more or {})
    return StimulusJob(
        f"category-{row['category']}/{row['original']}/{index:05d}",
        facts
        | {
            "image": f"{index:05d}",
            "experiment": "composition",
            "condition": row["route"],
            "group": CATEGORIES[row["category"]].group,
            "kind": row["route"],
            "parameters": json.dumps(told, sort_keys=True, ensure_ascii=False),
        },
    )


def _by_class(stimuli: StimulusSet, prefix: str) -> dict[str, dict[str, Path]]:
    """Photos by their truth."""
    names = {
        truth: part for (truth,), part in stimuli.frame.group_by("truth", maintain_order=True) if truth is not None
    }
    return {str(truth): _photos(replace(stimuli, frame=part), prefix) for truth, part in names.items()}


def _photos(stimuli: StimulusSet, prefix: str) -> dict[str, Path]:
    """Photos under their names in the set; masks that lie beside them are no photos."""
    files = [file for file in stimuli.frame["file"] if not file.endswith(".mask.png")]
    return {prefix + file: stimuli.path(file) for file in files}

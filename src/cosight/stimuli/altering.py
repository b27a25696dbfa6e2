"""Alterations: one kind at one step, applied to an image, a batch, a data set on the fly, or a whole stimulus set."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from cosight.errors import InvalidInput
from cosight.registry import Registry
from cosight.stimuli.corruptions import corrupt, corruptions, severity_step
from cosight.stimuli.distortions import distort, distortions
from cosight.stimuli.images import Bytes, FileFormat, Image, as_bytes, checked, decode, digest, encode
from cosight.stimuli.kinds import Kind, stimulus_seed
from cosight.stimuli.making import Job, Outcome, Unit
from cosight.stimuli.manipulations import condition_step, manipulate, manipulations
from cosight.stimuli.prepare import Preparation
from cosight.stimuli.sets import StimulusSet

__all__ = ["FAMILIES", "Alteration", "Alterations", "Altered", "Family", "alter_batch", "alteration"]


@dataclass(frozen=True, slots=True)
class Family:
    """Kinds that belong together: the verb that applies them, the word for their steps, the options of the verb.

    `step(kind, name, options)` is the index of a step, and refuses what the kind does not have.
    """

    verb: str
    word: str
    kinds: Registry[Kind]
    call: Callable[..., Image]
    step: Callable[[Kind, Any, Mapping[str, Any]], int]
    options: frozenset[str]


FAMILIES: dict[str, Family] = {
    family.verb: family
    for family in (
        Family(
            "corrupt",
            "severity",
            corruptions,
            corrupt,
            lambda kind, name, options: severity_step(kind, name, options.get("variant", "visalign")),
            frozenset({"variant", "textures", "region"}),
        ),
        Family(
            "distort",
            "level",
            distortions,
            distort,
            lambda kind, name, options: kind.step(str(name), word="level"),
            frozenset({"tiles", "geometry"}),
        ),
        Family(
            "manipulate",
            "condition",
            manipulations,
            manipulate,
            lambda kind, name, options: condition_step(kind, name),
            frozenset({"spectrum"}),
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Alteration:
    """One kind at one step. `alteration` makes them.

    >>> alteration("fog", severity=7)
    alteration('fog', severity='7')
    """

    verb: str
    kind: str
    step: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, image: Image, rng: np.random.Generator | None = None, *, own: str | None = None) -> Image:
        """The image, altered; `own` is the digest of the image, so that it is not made of itself (mosaic, stickers)."""
        family = FAMILIES[self.verb]
        extra = {"own": own} if self.verb == "distort" else {}
        return family.call(image, self.kind, rng=rng, **{family.word: self.step}, **self.options, **extra)

    def seeded(self, image: Image, seed: int) -> Image:
        """The image, altered as in a stimulus set with this seed: the draw follows from the image itself."""
        source = digest(as_bytes(checked(image)))
        return self(image, np.random.default_rng(self.seed_of(source, seed)), own=source)

    def seed_of(self, source: str, seed: int) -> int:
        """The seed with which the source of this digest is altered in a set with seed `seed`."""
        return stimulus_seed(source, self.kind, self.step, seed)

    @property
    def parameters(self) -> dict[str, Any]:
        """The numbers behind the step, for the manifest; textures, tiles and spectra by their digest."""
        kind = FAMILIES[self.verb].kinds[self.kind]
        known = {name: value for name, value in self.options.items() if name in kind.options}
        plain = {name: getattr(value, "digest", value) for name, value in known.items() if value is not None}
        return {**kind.settings(kind.steps.index(self.step), **known), **plain}

    def __repr__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return f"alteration({self.kind!r}, {FAMILIES[self.verb].word}={self.step!r}{options})"


def alteration(
    kind: str,
    *,
    severity: int | None = None,
    level: int | None = None,
    condition: str | float | None = None,
    **options: Any,
) -> Alteration:
    """A corruption (`severity=`), distortion (`level=`) or manipulation (`condition=`) to apply to many images."""
    given = {"corrupt": severity, "distort": level, "manipulate": condition}
    chosen = [(verb, step) for verb, step in given.items() if step is not None]
    if len(chosen) != 1:
        raise InvalidInput(f"give one of severity, level and condition, got {len(chosen)}")
    verb, step = chosen[0]
    family = FAMILIES[verb]
    if unknown := sorted(set(options) - family.options):
        raise InvalidInput(f"to {verb} takes {', '.join(sorted(family.options))}, got {unknown[0]}")
    entry = family.kinds[kind]
    return Alteration(verb, entry.name, entry.steps[family.step(entry, step, options)], options)


def alter_batch(images: Sequence[Image] | Image, how: Alteration, *, seed: int = 0, workers: int = 1) -> list[Image]:
    """Alter many images, each with the draw a stimulus set with this seed has for it; order and company do not matter.

    `images` is a list (any sizes) or one array with a first axis over images; `workers` threads share the work.
    """
    if workers < 1:
        raise InvalidInput(f"workers must be at least 1, got {workers}")
    if workers == 1:
        return [how.seeded(image, seed) for image in images]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(lambda image: how.seeded(image, seed), images))


class Altered(Sequence[Any]):
    """A data set whose images are altered when they are asked for.

    `dataset[i]` is an image or a tuple that starts with one (image, label, ...); images are arrays or Pillow images.
    The altered image is what a stored set would hold, passed through the same file format, so it has the same digest.

    >>> grey = [(np.full((32, 32, 3), 90, np.uint8), "grey")]
    >>> image, label = Altered(grey, alteration("contrast", severity=3), seed=1)[0]
    >>> image.shape, label
    ((32, 32, 3), 'grey')
    """

    def __init__(
        self,
        dataset: Any,
        how: Alteration,
        *,
        seed: int = 0,
        prepare: Preparation | None = None,
        format: FileFormat = "png",  # noqa: A002 (the option's name)
    ) -> None:
        self.dataset = dataset
        self.how = how
        self.seed = seed
        self.prepare = prepare
        self.format = format

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: Any) -> Any:
        item = self.dataset[index]
        if isinstance(item, tuple):
            return (self._altered(item[0]), *item[1:])
        return self._altered(item)

    def _altered(self, image: Any) -> Bytes:
        source = as_bytes(checked(np.asarray(image)))
        ready = self.prepare(source) if self.prepare else source
        pixels = _drawn(ready, self.how, digest(source), self.seed)
        return pixels if self.format == "png" else decode(encode(pixels, self.format))


def _drawn(ready: Bytes, how: Alteration, own: str, seed: int) -> Bytes:
    """The stimulus made from a prepared source; the draw follows from the source (`own`) before it was prepared."""
    return as_bytes(how(ready, np.random.default_rng(how.seed_of(own, seed)), own=own))


@dataclass(frozen=True, slots=True)
class Alterations:
    """Recipe: every source at every alteration."""

    sources: StimulusSet
    alterations: tuple[Alteration, ...]
    experiment: str | None = None  # None: each kind is an experiment of its own, its steps the conditions
    seed: int = 0
    prepare: Preparation | None = None

    @property
    def settings(self) -> Mapping[str, Any]:
        """Verb, seed and preparation."""
        verbs = {how.verb for how in self.alterations}
        return {"verb": "+".join(sorted(verbs)), "seed": self.seed, "prepare": str(self.prepare or "none")}

    def units(self) -> list[Unit]:
        """One source file each."""
        units = [self._unit(row) for row in self.sources.frame.iter_rows(named=True)]
        check_distinct(unit.jobs[0].file for unit in units)
        return units

    def _unit(self, row: Mapping[str, Any]) -> Unit:
        path = self.sources.path(row["file"])
        jobs = tuple(
            Job(f"{how.kind}/{how.step}/{stem(row['file'])}", self._facts(row, how)) for how in self.alterations
        )
        return Unit(str(path), hashlib.sha256(path.read_bytes()).hexdigest(), jobs, payload=row["file"])

    def _facts(self, row: Mapping[str, Any], how: Alteration) -> dict[str, Any]:
        kept = {name: row[name] for name in ("image", "truth", "original", "split")}
        steps = FAMILIES[how.verb].kinds[how.kind].steps
        return kept | {
            "experiment": self.experiment or how.kind,
            "condition": how.kind if self.experiment else how.step,
            "level": steps.index(how.step) + 1,
            "kind": how.kind,
            "parameters": json.dumps(how.parameters, sort_keys=True),
        }

    def make(self, unit: Unit, jobs: Sequence[Job]) -> Iterator[Outcome]:
        """Read the source once and alter it as often as asked."""
        source = self.sources.pixels(unit.payload)
        own = digest(source)
        ready = self.prepare(source) if self.prepare else source
        wanted = {job.file for job in jobs}
        for job, how in zip(unit.jobs, self.alterations, strict=True):
            if job.file in wanted:
                pixels = _drawn(_named(ready, unit.name), how, own, self.seed)
                yield Outcome(job, pixels, {"seed": how.seed_of(own, self.seed), "parent": own})


def _named(image: Bytes, name: str) -> Bytes:
    try:
        return checked(image)
    except InvalidInput as error:
        raise InvalidInput(f"{name}: {error}") from error


def stem(file: str) -> str:
    """A source's name without its ending, and without the folder that sets keep their images in."""
    path = PurePosixPath(file).with_suffix("")
    return str(path.relative_to("images")) if path.parts[0] == "images" else str(path)


def check_distinct(files: Iterator[str]) -> None:
    """Two sources must not make one stimulus."""
    seen: set[str] = set()
    for file in files:
        if file in seen:
            raise InvalidInput(f"sources must differ in more than their ending, got {file} twice; rename one of them")
        seen.add(file)

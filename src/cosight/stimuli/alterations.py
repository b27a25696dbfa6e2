"""Alterations: one kind at one step, applied to an image, a batch, a data set on the fly, or a whole stimulus set."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, get_args

import numpy as np

from cosight.errors import InvalidInput
from cosight.files import file_stamp
from cosight.registry import Registry
from cosight.stimuli.corruptions import CropRegion, Variant, corrupt, corruptions, severity_step
from cosight.stimuli.distortions import Geometry, distort, distortions
from cosight.stimuli.generate import Outcome, StimulusJob, Unit
from cosight.stimuli.images import (
    Bytes,
    FileFormat,
    Image,
    Preparation,
    as_bytes,
    check_image,
    decode,
    digest,
    encode,
    preparation,
)
from cosight.stimuli.kinds import Kind, stimulus_seed
from cosight.stimuli.manipulations import condition_step, manipulate, manipulations
from cosight.stimuli.sets import SourceImage, StimulusSet, read_source

__all__ = [
    "FAMILIES",
    "Alteration",
    "Alterations",
    "Altered",
    "Family",
    "all_alterations",
    "alter_batch",
    "alteration",
    "with_resource",
]


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
    options: Mapping[str, tuple[str, ...] | None]  # the values an option may have, None where it is no word

    def check(self, options: Mapping[str, Any]) -> None:
        """Refuse options that the verb does not take, and words that they do not know."""
        for name, value in options.items():
            if name not in self.options:
                raise InvalidInput(f"to {self.verb} takes {', '.join(sorted(self.options))}, got {name}")
            words = self.options[name]
            if words is not None and value not in words:
                raise InvalidInput(f"{name} must be {' or '.join(words)}, got {value!r}")

    def has(self, kind: str, step: Any, options: Mapping[str, Any]) -> bool:
        """Whether a kind has this step, with these options."""
        try:
            self.step(self.kinds[kind], step, options)
        except InvalidInput:
            return False
        return True


FAMILIES: dict[str, Family] = {
    family.verb: family
    for family in (
        Family(
            "corrupt",
            "severity",
            corruptions,
            corrupt,
            lambda kind, name, options: severity_step(kind, name, options.get("variant", "visalign")),
            {"variant": get_args(Variant), "region": get_args(CropRegion), "textures": None},
        ),
        Family(
            "distort",
            "level",
            distortions,
            distort,
            lambda kind, name, options: kind.step(str(name), word="level"),
            {"geometry": get_args(Geometry), "tiles": None},
        ),
        Family(
            "manipulate",
            "condition",
            manipulations,
            manipulate,
            lambda kind, name, options: condition_step(kind, name),
            {"spectrum": None},
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
        source = digest(as_bytes(check_image(image)))
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
        return {**plain, **kind.settings(kind.steps.index(self.step), **known)}

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
    family.check(options)
    entry = family.kinds[kind]
    return Alteration(verb, entry.name, entry.steps[family.step(entry, step, options)], options)


def all_alterations(verb: str, **options: Any) -> list[Alteration]:
    """Every kind of a family at every step that it has with these options."""
    family = FAMILIES[verb]
    steps = [(name, step) for name, kind in family.kinds.items() for step in kind.steps]
    there = [(name, step) for name, step in steps if family.has(name, step, options)]
    return [alteration(name, **{family.word: step, **options}) for name, step in there]


def with_resource(chosen: Sequence[Alteration], option: str, make: Callable[[], Any]) -> list[Alteration]:
    """The alterations with what those among them need that take `option`; it is made only for them."""
    if not any(option in FAMILIES[how.verb].kinds[how.kind].options for how in chosen):
        return list(chosen)
    resource = make()
    return [replace(how, options={**how.options, option: resource}) for how in chosen]


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

    `dataset[i]` is an image or a tuple (or list) that starts with one (image, label, ...), an image an array or
    Pillow's. The altered image is what a stored set would hold, passed through the same file format, so it has the same
    digest.

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
        prepare: Preparation | str | None = None,
        format: FileFormat = "png",  # noqa: A002 (the option's name)
    ) -> None:
        if not isinstance(how, Alteration):
            raise InvalidInput(f"how must be an alteration, got {how!r}; alteration(KIND, severity=...) makes one")
        self.dataset = dataset
        self.how = how
        self.seed = seed
        self.prepare = preparation(prepare) if isinstance(prepare, str) else prepare
        self.format = format

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        item = self.dataset[index]
        if isinstance(item, (tuple, list)):
            return (self._altered(item[0]), *item[1:])
        return self._altered(item)

    def _altered(self, image: Any) -> Bytes:
        source = as_bytes(check_image(image))
        ready = check_image(self.prepare(source) if self.prepare else source)
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

    @property
    def packages(self) -> tuple[str, ...]:
        """None besides the usual ones."""
        return ()

    @property
    def folders(self) -> tuple[Path, ...]:
        """The sources' folder."""
        return (self.sources.root,)

    def units(self) -> list[Unit]:
        """One source file each."""
        told = [self._told(how) for how in self.alterations]
        units = [self._unit(row, told) for row in self.sources.frame.iter_rows(named=True)]
        check_distinct(self.sources)
        return units

    def _told(self, how: Alteration) -> dict[str, Any]:
        """What the manifest says of every stimulus that is altered this way."""
        return {
            "experiment": self.experiment or how.kind,
            "condition": how.kind if self.experiment else how.step,
            "level": FAMILIES[how.verb].kinds[how.kind].steps.index(how.step) + 1,
            "kind": how.kind,
            "parameters": json.dumps(how.parameters, sort_keys=True),
        }

    def _unit(self, row: Mapping[str, Any], told: Sequence[Mapping[str, Any]]) -> Unit:
        path, name = self.sources.path(row["file"]), stem(self.sources, row["file"])
        kept = {column: row[column] for column in ("image", "truth", "original", "split")}
        jobs = tuple(
            StimulusJob(f"{how.kind}/{how.step}/{name}", {**kept, **facts})
            for how, facts in zip(self.alterations, told, strict=True)
        )
        return Unit(str(path), file_stamp(path), jobs, payload=(row["file"], row["stimulus"]))

    def make(self, unit: Unit, jobs: Sequence[StimulusJob]) -> Iterator[Outcome]:
        """Read the source once and alter it as often as asked; one kind's refusal leaves the others alone."""
        file, expected = unit.payload
        source = read_source(self.sources, file, self.prepare, expected=expected)
        wanted = {job.file for job in jobs}
        for job, how in zip(unit.jobs, self.alterations, strict=True):
            if job.file in wanted:
                yield self._outcome(job, how, source, unit.name)

    def _outcome(self, job: StimulusJob, how: Alteration, source: SourceImage, name: str) -> Outcome:
        try:
            pixels = _drawn(source.ready, how, source.digest, self.seed)
        except InvalidInput as error:
            return Outcome(job, None, error=InvalidInput(f"{name}: {error}"))
        return Outcome(job, pixels, {"seed": how.seed_of(source.digest, self.seed), "parent": source.digest})


def stem(sources: StimulusSet, file: str) -> str:
    """A source's name without its ending, and without the folder that sets keep their images in."""
    path = PurePosixPath(file).with_suffix("")
    return str(path.relative_to("images")) if sources.facts and path.parts[0] == "images" else str(path)


def check_distinct(sources: StimulusSet) -> None:
    """Two sources must not make one stimulus."""
    seen: dict[str, str] = {}
    for file in sources.frame["file"]:
        other = seen.setdefault(stem(sources, file), file)
        if other != file:
            raise InvalidInput(f"sources must differ in more than their ending, got {other} and {file}; rename one")

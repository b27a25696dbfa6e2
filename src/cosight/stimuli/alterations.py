"""Alterations: one kind at one step, applied to an image, a batch, the items of a data set, or a stimulus set."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, get_args

import numpy as np

from cosight.arrays import whole_number
from cosight.errors import InvalidInput
from cosight.files import file_stamp
from cosight.processes import MOST_WORKERS
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
from cosight.stimuli.sets import LEVEL_FOLDER, StimulusSet, read_source

__all__ = [
    "CLEAN",
    "FAMILIES",
    "Alteration",
    "Alterations",
    "Altered",
    "Family",
    "all_alterations",
    "alter_batch",
    "alteration",
    "source_units",
    "with_resource",
]


@dataclass(frozen=True, slots=True)
class Family:
    """Kinds that one verb applies.

    Attributes:
        verb: corrupt, distort or manipulate.
        step_name: What the verb calls a step: severity, level or condition.
        kinds: The kinds.
        call: The function of that verb.
        step: Returns the index of a step (`step(kind, name, options)`); raises if the kind does not have it.
        options: Options of the verb and their allowed values; None for a value that is not a word.
    """

    verb: str
    step_name: str
    kinds: Registry[Kind]
    call: Callable[..., Image]
    step: Callable[[Kind, Any, Mapping[str, Any]], int]
    options: Mapping[str, tuple[str, ...] | None]

    def check(self, options: Mapping[str, Any]) -> None:
        """Raise if the verb does not take an option, or not with this value."""
        for name, value in options.items():
            if name not in self.options:
                raise InvalidInput(f"{self.verb} takes the options {', '.join(sorted(self.options))}, got {name}")
            words = self.options[name]
            if words is not None and value not in words:
                raise InvalidInput(f"{name} must be {' or '.join(words)}, got {value!r}")

    def has(self, kind: str, step: Any, options: Mapping[str, Any]) -> bool:
        """Return whether a kind has this step, with these options."""
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
    """One kind at one step, made by `alteration`.

    Attributes:
        verb: corrupt, distort or manipulate; empty for `CLEAN`.
        kind: Name of the kind.
        step: Name of the step.
        options: Options of the verb.

    >>> alteration("fog", severity=7)
    alteration('fog', severity='7')
    """

    verb: str
    kind: str
    step: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, image: Image, rng: np.random.Generator | None = None, *, own: str | None = None) -> Image:
        """Return the altered image. Tiles with the digest `own` (the image itself) are not used by mosaic, stickers."""
        if not self.verb:
            return image
        family = FAMILIES[self.verb]
        extra = {"own": own} if self.verb == "distort" else {}
        return family.call(image, self.kind, rng=rng, **{family.step_name: self.step}, **self.options, **extra)

    def apply(self, image: Image, seed: int) -> Image:
        """Return the image, altered with the draw that a stimulus set with this seed has for it."""
        source = digest(as_bytes(check_image(image)))
        return self(image, np.random.default_rng(self.seed_of(source, seed)), own=source)

    def seed_of(self, source: str, seed: int) -> int:
        """Return the seed of the stimulus made from the image with digest `source` in a set with seed `seed`."""
        return stimulus_seed(source, self.kind, self.step, seed)

    @property
    def level(self) -> int:
        """The strength as a number, from 1; 0 for the unaltered image."""
        return FAMILIES[self.verb].kinds[self.kind].steps.index(self.step) + 1 if self.verb else 0

    @property
    def parameters(self) -> dict[str, Any]:
        """The numbers behind the step, for the manifest; textures, tiles and spectra are given by their digest."""
        if not self.verb:
            return {}
        kind = FAMILIES[self.verb].kinds[self.kind]
        used = {name: value for name, value in self.options.items() if name in kind.options}
        plain = {name: getattr(value, "digest", value) for name, value in used.items() if value is not None}
        return {**plain, **kind.settings(kind.steps.index(self.step), **used)}

    def __repr__(self) -> str:
        if not self.verb:
            return "CLEAN"
        options = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return f"alteration({self.kind!r}, {FAMILIES[self.verb].step_name}={self.step!r}{options})"


CLEAN = Alteration("", "clean", "0")
"""No alteration: the stimulus is the resized source."""


def alteration(
    kind: str,
    *,
    severity: int | None = None,
    level: int | None = None,
    condition: str | float | None = None,
    **options: Any,
) -> Alteration:
    """Choose an alteration, to apply it to many images.

    Args:
        kind: A corruption, distortion or manipulation.
        severity: Severity of a corruption.
        level: Level of a distortion.
        condition: Condition of a manipulation.
        **options: Options of `corrupt`, `distort` or `manipulate`.

    Returns:
        A function of an image and a random generator.

    Raises:
        InvalidInput: If not exactly one of severity, level and condition is given, or the kind does not have it.
        UnknownName: If there is no such kind.

    >>> alteration("contrast", severity=3)(np.full((32, 32), 90, np.uint8)).shape
    (32, 32)
    """
    steps = {"corrupt": severity, "distort": level, "manipulate": condition}
    chosen = [(verb, step) for verb, step in steps.items() if step is not None]
    if len(chosen) != 1:
        raise InvalidInput(f"give one of severity, level and condition, got {len(chosen)}")
    verb, step = chosen[0]
    family = FAMILIES[verb]
    family.check(options)
    entry = family.kinds[kind]
    return Alteration(verb, entry.name, entry.steps[family.step(entry, step, options)], options)


def all_alterations(verb: str, **options: Any) -> list[Alteration]:
    """Return every kind of a family at every step that it has with these options."""
    family = FAMILIES[verb]
    steps = [(name, step) for name, kind in family.kinds.items() for step in kind.steps]
    return [
        alteration(name, **{family.step_name: step, **options})
        for name, step in steps
        if family.has(name, step, options)
    ]


def with_resource(chosen: Sequence[Alteration], option: str, make: Callable[[], Any]) -> list[Alteration]:
    """Return the alterations with a resource as `option`; `make` is called only if one of their kinds takes it."""
    if not any(option in FAMILIES[how.verb].kinds[how.kind].options for how in chosen):
        return list(chosen)
    resource = make()
    return [replace(how, options={**how.options, option: resource}) for how in chosen]


def alter_batch(images: Sequence[Image] | Image, how: Alteration, *, seed: int = 0, workers: int = 1) -> list[Image]:
    """Alter many images. The draw of each depends on the image and the seed alone, as in a stimulus set.

    Args:
        images: A list of images of any size, or one array with a first axis over images.
        how: The alteration.
        seed: Seed of everything random.
        workers: Number of threads. Does not change the result.

    Returns:
        The altered images, in order.

    Raises:
        InvalidInput: If `workers` is not from 1 to 1,024 or an image cannot be altered.

    >>> len(alter_batch(np.zeros((2, 32, 32, 3), np.uint8), alteration("fog", severity=1), seed=1))
    2
    """
    whole_number(workers, name="workers", least=1, most=MOST_WORKERS)
    if workers == 1:
        return [how.apply(image, seed) for image in images]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(lambda image: how.apply(image, seed), images))


class Altered(Sequence[Any]):
    """A data set whose images are altered when they are read.

    An altered image has the pixels and the digest of the stimulus in a stored set: it passes through the same file
    format.

    Args:
        dataset: A sequence of images (arrays or Pillow images), or of tuples or lists that start with an image.
        how: The alteration.
        seed: Seed of everything random.
        prepare: How images are resized first: a preparation or its text.
        format: File format of the stored set.

    Raises:
        InvalidInput: If `how` is not an alteration.

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
            raise InvalidInput(f"how must be an alteration, got {how!r}; make one with alteration(KIND, severity=...)")
        self.dataset = dataset
        self.how = how
        self.seed = seed
        self.prepare = preparation(prepare) if isinstance(prepare, str) else prepare
        self.format = format

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        item = self.dataset[index]
        if isinstance(item, (tuple, list)):
            return (self._alter(item[0]), *item[1:])
        return self._alter(item)

    def _alter(self, image: Any) -> Bytes:
        source = as_bytes(check_image(image))
        ready = check_image(self.prepare(source) if self.prepare else source)
        pixels = _alter_source(ready, self.how, digest(source), self.seed)
        return pixels if self.format == "png" else decode(encode(pixels, self.format))


def _alter_source(ready: Bytes, how: Alteration, source: str, seed: int) -> Bytes:
    """Return the stimulus made from a prepared image; the draw depends on the digest of the image before that."""
    return as_bytes(how(ready, np.random.default_rng(how.seed_of(source, seed)), own=source))


@dataclass(frozen=True, slots=True)
class Alterations:
    """Recipe for `generate_set`: every source with every alteration.

    Attributes:
        sources: The images to alter.
        alterations: What is done to each of them.
        experiment: Experiment of all stimuli; None makes each kind an experiment and its steps the conditions.
        seed: Seed of everything random.
        prepare: How sources are resized first.
        labels: Name of the label space of the truths, if it is known.
        laion_c_layout: Whether files are called KIND/intensity_level_N/CLASS/IMAGE, as in the published LAION-C;
            otherwise KIND/STEP and the source's own path.
    """

    sources: StimulusSet
    alterations: tuple[Alteration, ...]
    experiment: str | None = None
    seed: int = 0
    prepare: Preparation | None = None
    labels: str | None = None
    laion_c_layout: bool = False

    @property
    def settings(self) -> Mapping[str, Any]:
        """Verb, seed, preparation and label space."""
        verbs = {how.verb for how in self.alterations if how.verb}
        settings = {"verb": "+".join(sorted(verbs)), "seed": self.seed, "prepare": str(self.prepare or "none")}
        return settings if self.labels is None else {**settings, "labels": self.labels}

    @property
    def packages(self) -> tuple[str, ...]:
        """No further packages."""
        return ()

    @property
    def folders(self) -> tuple[Path, ...]:
        """The sources' folder."""
        return (self.sources.root,)

    def units(self) -> list[Unit]:
        """One unit per source."""
        return list(self.iterate_units())

    def iterate_units(self) -> Iterator[Unit]:
        """Yield one unit per source; the facts of many jobs take much memory."""
        facts = [
            {
                "experiment": self.experiment or how.kind,
                "condition": how.kind if self.experiment else how.step,
                "level": how.level,
                "kind": how.kind,
                "parameters": json.dumps(how.parameters, sort_keys=True),
            }
            for how in self.alterations
        ]
        level_folder = LEVEL_FOLDER if self.laion_c_layout else ""
        folders = [f"{how.kind}/{level_folder}{how.step}" for how in self.alterations]
        return source_units(self.sources, folders, facts, by_class=self.laion_c_layout)

    def make(self, unit: Unit, jobs: Sequence[StimulusJob]) -> Iterator[Outcome]:
        """Read the source once and alter it for each job; an error of one kind does not affect the others."""
        file, expected, _ = unit.payload
        source = read_source(self.sources, file, self.prepare, expected=expected)
        pending = {job.file for job in jobs}
        for job, how in zip(unit.jobs, self.alterations, strict=True):
            if job.file not in pending:
                continue
            try:
                pixels = _alter_source(source.ready, how, source.digest, self.seed)
            except InvalidInput as error:
                yield Outcome(job, None, error=InvalidInput(f"{unit.name}: {error}"))
            else:
                facts = {"seed": how.seed_of(source.digest, self.seed), "parent": source.digest}
                yield Outcome(job, pixels, facts)


def source_units(
    sources: StimulusSet, folders: Sequence[str], facts: Sequence[Mapping[str, Any]], *, by_class: bool = False
) -> Iterator[Unit]:
    """Yield one unit per source, with one job per folder.

    Args:
        sources: The images that stimuli are made from.
        folders: Folders below `images/`; each source makes one stimulus in each of them.
        facts: Manifest columns of the stimuli in each folder.
        by_class: Whether a file is called CLASS/IMAGE in its folder, not by the source's own path.

    Yields:
        The units. Their payload is the source's file, digest (None if unknown) and truth.

    Raises:
        InvalidInput: If two sources differ only in their suffix, so that their stimuli would have one name.
    """
    files: dict[str, str] = {}
    for row in sources.frame.iter_rows(named=True):
        stem = PurePosixPath(row["truth"], row["image"]) if by_class else PurePosixPath(row["file"])
        stem = stem.with_suffix("")
        if not by_class and sources.facts and stem.parts[0] == "images":
            stem = stem.relative_to("images")
        other = files.setdefault(str(stem), row["file"])
        if other != row["file"]:
            raise InvalidInput(
                f"sources must differ in more than their suffix, got {other} and {row['file']}; rename one"
            )
        columns = {name: row[name] for name in ("image", "truth", "original", "split")}
        jobs = tuple(
            StimulusJob(f"{folder}/{stem}", {**columns, **more}) for folder, more in zip(folders, facts, strict=True)
        )
        path = sources.path(row["file"])
        yield Unit(str(path), file_stamp(path), jobs, payload=(row["file"], row["stimulus"], row["truth"]))

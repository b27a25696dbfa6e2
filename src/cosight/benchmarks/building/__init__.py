"""What builders share: a set is a list of slots, and the first usable candidate of a slot becomes its image.

An attack may not fool a model, a mask may be doubtful, a crop may show nothing: then the next candidate of the slot is
tried. Slots do not depend on each other, so worker processes can share them, and an interrupted build resumes to the
same bytes.

* `split_sources`   divide sources among splits and slots
* `source_photos`   folders of photos, without rejected images
* `datasheet`       the datasheet of a set
"""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from cosight.benchmarks.building.datasheet import DATASHEET, REJECTED, Category, SourceDescription, format_datasheet
from cosight.benchmarks.building.split_sources import shuffle
from cosight.benchmarks.entry import BuildResult, Progress
from cosight.errors import InvalidInput
from cosight.files import atomic_write
from cosight.stimuli.generate import GeneratedSet, Outcome, StimulusJob, Unit, check_output, generate_set
from cosight.stimuli.images import Bytes, digest
from cosight.stimuli.journal import SetRecord, stored_settings
from cosight.stimuli.sets import StimulusSet, check_splits, read_set
from cosight.trials.manifest import DISTRACTORS, MANIFEST, read_manifest, write_manifest

__all__ = [
    "CLOSED",
    "BuildRecipe",
    "Builder",
    "ClosableBuilder",
    "SetSlot",
    "SlotImage",
    "UnusableCandidate",
    "build_set",
]

CLOSED = "closed"  # the split whose labels are in a manifest of their own
_PUBLIC = ("stimulus", "file", "image", "experiment", "split")  # columns of closed images in the manifest of the set
_CLOSED_SEED = "closed_seed"
_CURATED = "rejected by curators"  # reason
_CURATED_OUT = "curated_out"  # parameter: digests of the images that curators rejected


class UnusableCandidate(InvalidInput):
    """A candidate that makes no stimulus; the next one is tried."""


@dataclass(frozen=True, slots=True)
class SlotImage:
    """An image and its manifest columns, without those that its slot decides."""

    pixels: Bytes
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SetSlot:
    """One image of a set, and what it can be made from, best candidate first.

    `stamp` is a digest of the sources. `category` is None for training images, `split` is None for distractors.
    """

    split: str | None
    category: int | None
    number: int
    candidates: tuple[Any, ...]
    stamp: str
    group: str | None = None
    source: str = ""  # name of its source in messages (default: `file`)

    @property
    def file(self) -> str:
        """The file of the image below `images/`, without its ending.

        >>> SetSlot("test", 8, 7, (), "").file
        'test/category-8/0007'
        """
        folder = "" if self.category is None else f"/category-{self.category}"
        return f"{self.split or DISTRACTORS}{folder}/{self.number:04d}"


class Builder(Protocol):
    """What differs between benchmarks. It is sent to worker processes, so it must be picklable."""

    @property
    def experiment(self) -> str:
        """The name of the benchmark."""
        ...

    @property
    def settings(self) -> Mapping[str, Any]:
        """What decides the set, as JSON: seed, counts, label space and the like."""
        ...

    @property
    def packages(self) -> tuple[str, ...]:
        """Packages besides the usual ones whose versions may change a pixel."""
        ...

    @property
    def folders(self) -> tuple[Path, ...]:
        """Source folders."""
        ...

    def slots(self) -> Sequence[SetSlot]:
        """Return all slots of the set; raise `InvalidInput` if there are not enough sources."""
        ...

    def draw(self, slot: SetSlot, candidate: Any) -> SlotImage:
        """Return the image of a slot; raise `UnusableCandidate` if this candidate makes none."""
        ...


class ClosableBuilder(Builder, Protocol):
    """A builder that can build a closed test set too."""

    def closed(self, seed: int) -> Builder:
        """Return the builder of the closed test set.

        It uses sources that no other split uses and draws everything random from `seed`.
        """
        ...


@dataclass(frozen=True, slots=True)
class BuildRecipe:
    """The recipe of a builder's slots, one unit of work per slot.

    With `closed_seed`, files are numbered in an order drawn from it, so that their names reveal nothing.
    """

    builder: Builder
    closed_seed: int | None = None
    rejected: frozenset[str] = frozenset()  # digests of images that curators rejected

    @property
    def settings(self) -> Mapping[str, Any]:
        """Verb, benchmark, the builder's settings, and what curators rejected."""
        own: dict[str, Any] = {} if self.closed_seed is None else {_CLOSED_SEED: self.closed_seed}
        if self.rejected:
            own["rejected"] = sha256("+".join(sorted(self.rejected)).encode()).hexdigest()
        return {"verb": "build", "benchmark": self.builder.experiment, **self.builder.settings, **own}

    @property
    def packages(self) -> tuple[str, ...]:
        """The builder's packages."""
        return self.builder.packages

    @property
    def folders(self) -> tuple[Path, ...]:
        """The builder's folders."""
        return self.builder.folders

    def units(self) -> list[Unit]:
        """Return one unit per slot.

        Closed slots come in the order of their new names, so that the times of the files reveal nothing either.
        """
        slots = {slot.file: slot for slot in self.builder.slots()}
        if self.closed_seed is not None:
            order = shuffle(slots, salt=CLOSED, seed=self.closed_seed)
            slots = {f"{CLOSED}/{number:04d}": slots[file] for number, file in enumerate(order)}
        units = []
        for file, slot in slots.items():
            facts = {"category": slot.category, "group": slot.group, "split": slot.split}
            facts |= {"experiment": self.builder.experiment, "image": file.replace("/", "-")}
            units.append(Unit(slot.source or slot.file, slot.stamp, (StimulusJob(file, facts),), payload=slot))
        return units

    def make(self, unit: Unit, jobs: Sequence[StimulusJob]) -> Iterator[Outcome]:
        """Yield the image of the first usable candidate, or the commonest reason why there is none.

        The parameters of an image count the candidates before it by the reason of their rejection.
        """
        reasons: Counter[str] = Counter()
        curated: list[str] = []
        for candidate in unit.payload.candidates:
            try:
                image = self.builder.draw(unit.payload, candidate)
            except UnusableCandidate as error:
                reasons[str(error)] += 1
                continue
            if self.rejected and (stimulus := digest(image.pixels)) in self.rejected:
                reasons[_CURATED] += 1
                curated.append(stimulus)
                continue
            facts = dict(image.facts)
            if reasons:
                parameters = json.loads(facts.get("parameters") or "{}") | {REJECTED: dict(reasons)}
                parameters |= {_CURATED_OUT: curated} if curated else {}
                facts["parameters"] = json.dumps(parameters, sort_keys=True, ensure_ascii=False)
            yield Outcome(jobs[0], image.pixels, facts)
            return
        yield Outcome(jobs[0], None, reason=max(reasons, key=reasons.__getitem__, default="no candidates"))


def build_set(
    builder: ClosableBuilder,
    out: Path,
    *,
    title: str,
    sources: Iterable[SourceDescription],
    gold: Sequence[str],
    categories: Mapping[int, Category],
    check: Callable[[StimulusSet], None],
    distractors: Builder | None = None,
    closed: Path | None = None,
    verification: Sequence[str] = (),
    rejected: Mapping[str, str] | None = None,
    workers: int = 1,
    notices: tuple[str, ...] = (),
    progress: Progress | None = None,
) -> BuildResult:
    """Build what is missing of a set, check the set and write its datasheet.

    Files are PNG, so that a stimulus is exactly what was drawn. The distractors are a set of their own inside `out`.

    Args:
        builder: Builds the set.
        out: The folder of the set; an unfinished set there is resumed.
        title: Title of the datasheet.
        sources: Where the images come from, for the datasheet.
        gold: Where the gold labels come from, for the datasheet.
        categories: The categories of the set, for the datasheet.
        check: Raises `InvalidInput` if the finished set lacks something; runs after `check_splits`.
        distractors: Builds the distractors.
        closed: Folder for the labels of the closed test set, outside `out`; None builds no closed test set.
        verification: How the images were verified, for the datasheet.
        rejected: Images that curators rejected, digest to name. The next candidate of their slot is used instead.
        workers: Number of worker processes. Does not change the output.
        notices: Notices for the user.
        progress: Called with (done, total, what).

    Returns:
        The set, its distractors and its closed test set.

    Raises:
        InvalidInput: Not enough sources, an unusable folder, or a finished set that fails its checks.

    >>> from cosight.benchmarks.digits.digits_builder import make_digits_builder
    >>> from cosight.benchmarks.visalign.categories import CATEGORIES, check_categories, parse_counts
    >>> counts = parse_counts("1=2,2=0,3=0,4=0,5=0,6=0,7=0,8=0,train=0,distractors=0")
    >>> builder = make_digits_builder(counts=counts)
    >>> built = build_set(
    ...     builder, Path("two"), title="Two digits", sources=(), gold=(), categories=CATEGORIES, check=check_categories
    ... )
    >>> built.generated.new  # two in each of calibration and test
    4
    """
    if closed is not None:
        _check_closed_folder(closed, out)
    left_out = frozenset(rejected or {})
    generated = generate_set(BuildRecipe(builder, rejected=left_out), out, workers=workers, progress=progress)
    complete = replace(generated.stimuli, frame=generated.stimuli.frame.filter(pl.col("split").ne_missing(CLOSED)))
    closed_set = None
    if closed is not None:
        # Neither the order nor the images may follow from the seed in the manifest of the open set.
        seed = (stored_settings(closed) or {}).get(_CLOSED_SEED) or 1 + secrets.randbits(62)
        recipe = BuildRecipe(builder.closed(seed), seed, left_out)
        closed_set = generate_set(recipe, closed, images=out, workers=workers, progress=progress)
        generated = replace(generated, stimuli=_list_closed_images(complete, closed_set.stimuli))
        closed_rows = closed_set.stimuli.frame.select(complete.frame.columns)
        complete = replace(complete, frame=pl.concat([complete.frame, closed_rows]))
    check_splits(complete)
    check(complete)
    distractor_set = None
    if distractors is not None:
        recipe = BuildRecipe(distractors, rejected=left_out)
        distractor_set = generate_set(recipe, out / DISTRACTORS, workers=workers, progress=progress)
    text = format_datasheet(
        generated.stimuli,
        title=title,
        sources=sources,
        gold=gold,
        categories=categories,
        distractors=distractor_set.stimuli if distractor_set else None,
        verification=verification,
        missing=generated.dropped,
    )
    with atomic_write(out / DATASHEET) as draft:
        draft.write_text(text, encoding="utf-8")
    if rejected:
        notices = (*notices, _rejection_notice(rejected, [generated, distractor_set, closed_set]))
    return BuildResult(generated, distractor_set, closed_set, notices)


def _rejection_notice(rejected: Mapping[str, str], sets: Iterable[GeneratedSet | None]) -> str:
    """Report how many of the images that curators rejected were replaced."""
    frames = [part.stimuli.frame["parameters"].drop_nulls() for part in sets if part is not None]
    replaced = {stimulus for texts in frames for text in texts for stimulus in json.loads(text).get(_CURATED_OUT, ())}
    notice = f"{len(replaced)} of {len(rejected)} rejected images replaced"
    if missing := [name for stimulus, name in rejected.items() if stimulus not in replaced]:
        notice += f"; {len(missing)} were not found: {', '.join(missing)}"
    return notice


def _check_closed_folder(closed: Path, out: Path) -> None:
    """Refuse a folder that would be given away with the set, or that has another set, before anything is built."""
    closed_path, out_path = closed.resolve(), out.resolve()
    if closed_path.is_relative_to(out_path) or out_path.is_relative_to(closed_path):
        raise InvalidInput(f"--closed must be outside {out}, which is given away, got {closed}; choose another folder")
    check_output(closed)
    settings = stored_settings(closed)
    if settings is not None and _CLOSED_SEED not in settings:
        raise InvalidInput(
            f"--closed must be a new folder or one that --closed wrote, got the set {closed}; choose another folder"
        )
    labelled = {row["stimulus"] for row in SetRecord.read(closed, out).rows.values()}
    listed = read_manifest(out)[0].filter(split=CLOSED)["stimulus"].to_list() if (out / MANIFEST).exists() else []
    if not labelled.issuperset(listed) or (settings is None and (out / "images" / CLOSED).exists()):
        raise InvalidInput(
            f"{out} has a closed test set whose labels are not in {closed}; name the folder that has them, or a new OUT"
        )


def _list_closed_images(stimuli: StimulusSet, closed: StimulusSet) -> StimulusSet:
    """List the closed images in the manifest of the set, without anything that reveals their labels."""
    schema = stimuli.frame.schema
    public = [pl.col(name) if name in _PUBLIC else pl.lit(None, kind).alias(name) for name, kind in schema.items()]
    frame = pl.concat([stimuli.frame, closed.frame.select(public)])
    if not read_manifest(stimuli.root)[0].equals(frame):
        write_manifest(stimuli.root, frame, stimuli.facts)
    return read_set(stimuli.root)

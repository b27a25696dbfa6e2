"""Execution of a run: shards are answered batch by batch, in this process or on a Ray cluster.

Images are read and preprocessed in threads while the model answers the batch before. Two batches are prepared at any
time, so memory depends on the batch size and not on the number of images.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray
from PIL import Image as Pillow

from cosight.devices import is_out_of_memory, out_of_memory, release_memory
from cosight.errors import InvalidInput
from cosight.files import atomic_write
from cosight.processes import core_count
from cosight.progress import Progress
from cosight.registry import Registry
from cosight.runs.ray_engine import RayEngine
from cosight.runs.stimulus_sources import LoadedStimulus
from cosight.stimuli.images import Bytes, to_rgb

if TYPE_CHECKING:
    from cosight.runs.observers import BatchAnswers, ModelReference, Observer
    from cosight.runs.run_plan import RunPlan, Shard

__all__ = [
    "Engine",
    "ExecutionOptions",
    "LocalEngine",
    "OnError",
    "Progress",
    "ShardAnswers",
    "answer_shards",
    "compute_threads",
    "engines",
    "thumbnail_file",
]

OnError = Literal["stop", "skip"]
_PREFETCH = 2  # batches that are prepared while one is answered
_THUMBNAIL_SIDE = 128  # pixels of the longer side


@dataclass(frozen=True, slots=True)
class ExecutionOptions:
    """How a run is executed. Answers do not depend on it, except for rounding (`threads`, `device`)."""

    threads: int | None = None  # per model; None: the library's default
    loaders: int | None = None  # threads that read images; None: one per core
    on_error: OnError = "stop"
    thumbnails: Path | None = None  # folder of thumbnails, where they are stored
    device: str = "auto"


@dataclass(frozen=True, slots=True, eq=False)
class ShardAnswers:
    """An observer's answers to a shard: trial columns of the rows that could be shown, arrays of all rows."""

    shard: Shard
    rows: tuple[int, ...]  # that were shown
    stimuli: tuple[str, ...]  # digests of those
    columns: pl.DataFrame
    skipped: dict[int, str] = field(default_factory=dict)  # row -> reason
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # nan where skipped
    batch: int | None = None  # images at a time, where memory was too small for the batch of the plan


class Engine(Protocol):
    """Answers the shards of one observer, in any order, each once.

    `in_this_process` is whether models answer where the run was started, so that they must be on its device.
    """

    in_this_process: ClassVar[bool]

    def answers(
        self,
        observer: Observer,
        reference: ModelReference,
        plan: RunPlan,
        shards: Sequence[Shard],
        options: ExecutionOptions,
    ) -> Iterator[ShardAnswers]:
        """Yield the answers to each shard. Workers load the observer from the reference."""
        ...


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Runs one model at a time in this process; images are read in threads."""

    in_this_process: ClassVar[bool] = True

    def answers(
        self,
        observer: Observer,
        reference: ModelReference,
        plan: RunPlan,
        shards: Sequence[Shard],
        options: ExecutionOptions,
    ) -> Iterator[ShardAnswers]:
        """Yield the answers to one shard after the other."""
        with compute_threads(options.threads):
            yield from answer_shards(observer, plan, shards, options)


engines: Registry[type[Engine]] = Registry("engine", listed=False)
engines.add("local", LocalEngine)
engines.add("ray", RayEngine)


@contextmanager
def compute_threads(count: int | None) -> Iterator[None]:
    """Let torch compute with this number of threads; restore the old number afterwards."""
    torch = sys.modules.get("torch")  # not imported: the models so far do not need it
    if count is None or torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True, slots=True, eq=False)
class _Batch:
    shard: Shard
    rows: range
    buffer: NDArray[Any]
    parts: list[Future[list[LoadedStimulus]]]


def answer_shards(
    observer: Observer, plan: RunPlan, shards: Sequence[Shard], options: ExecutionOptions
) -> Iterator[ShardAnswers]:
    """Yield an observer's answers to each shard.

    Batches do not depend on what is skipped or was answered before, so answers are reproducible to the last bit.

    Args:
        observer: Who answers.
        plan: The plan of the run.
        shards: The shards to answer, in this order.
        options: How to execute. With `on_error="stop"` the first image that cannot be shown raises InvalidInput.
    """
    ranges = (
        (shard, range(start, min(start + plan.batch, shard.rows.stop)))
        for shard in shards
        for start in range(shard.rows.start, shard.rows.stop, plan.batch)
    )
    with ThreadPoolExecutor(options.loaders or core_count(), thread_name_prefix="cosight-load") as pool:
        prepared: deque[_Batch] = deque()
        at_once = plan.batch  # images that memory is large enough for, as far as is known
        answered: list[tuple[list[LoadedStimulus], BatchAnswers]] = []
        try:
            while True:
                while len(prepared) <= _PREFETCH and (upcoming := next(ranges, None)) is not None:
                    prepared.append(_submit_batch(pool, observer, plan, *upcoming, options.thumbnails))
                if not prepared:
                    return
                batch = prepared.popleft()
                loaded = [stimulus for part in batch.parts for stimulus in part.result()]
                broken = next((stimulus.error for stimulus in loaded if stimulus.error is not None), None)
                if broken is not None and options.on_error == "stop":
                    raise InvalidInput(f"{broken} (--on-error skip continues without it)") from broken
                digests = pl.Series("stimulus", [stimulus.digest for stimulus in loaded], dtype=pl.String)
                rows = plan.stimuli.frame[batch.rows.start : batch.rows.stop].with_columns(digests)
                answers, at_once = _answer_in_memory(observer, batch, rows, at_once)
                answered.append((loaded, answers if plan.stores_arrays else replace(answers, arrays={})))
                if batch.rows.stop == batch.shard.rows.stop:
                    shard_answers = _join_batches(batch.shard, answered)
                    yield shard_answers if at_once == plan.batch else replace(shard_answers, batch=at_once)
                    answered = []
                del batch  # its buffer, before the next one is allocated
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _submit_batch(
    pool: ThreadPoolExecutor, observer: Observer, plan: RunPlan, shard: Shard, rows: range, thumbnails: Path | None
) -> _Batch:
    """Start to load a batch in threads."""
    buffer = observer.buffer(len(rows))

    def load(part: range) -> list[LoadedStimulus]:
        loaded = []
        for stimulus in plan.stimuli.load(part):
            if stimulus.pixels is not None and stimulus.digest is not None:
                try:
                    observer.load_into(buffer, stimulus.row - rows.start, stimulus.pixels)
                except InvalidInput as error:
                    file = plan.stimuli.frame["file"][stimulus.row]
                    loaded.append(LoadedStimulus(stimulus.row, error=InvalidInput(f"{file}: {error}")))
                    continue
                if thumbnails is not None:
                    _write_thumbnail(thumbnails, stimulus.digest, stimulus.pixels)
                stimulus = LoadedStimulus(stimulus.row, digest=stimulus.digest)
            loaded.append(stimulus)
        return loaded

    return _Batch(shard, rows, buffer, [pool.submit(load, part) for part in plan.stimuli.portions(rows)])


def _answer_in_memory(observer: Observer, batch: _Batch, rows: pl.DataFrame, at_once: int) -> tuple[BatchAnswers, int]:
    """Return the answers to a batch, and the number of images at a time; it is halved when memory runs out."""
    parts: list[BatchAnswers] = []
    done = 0
    while done < len(rows):
        part = slice(done, done + at_once)
        try:
            parts.append(observer.answer(batch.rows.start + done, rows[part], batch.buffer[part]))
        except Exception as error:  # memory may run out in any library
            if not is_out_of_memory(error):
                raise
            tried = len(rows[part])
            if tried == 1:
                raise out_of_memory(observer.name, observer.facts.get("device"), 1) from error
            at_once = tried // 2
        else:
            done += at_once
            continue
        release_memory()  # here the error, and with it the tensors of the failed attempt, is gone
    return (parts[0] if len(parts) == 1 else _join_parts(parts)), at_once


def _join_parts(parts: Sequence[BatchAnswers]) -> BatchAnswers:
    starts = np.cumsum([0, *(part.columns.height for part in parts)])
    return replace(
        parts[0],
        columns=pl.concat([part.columns for part in parts]),
        arrays={name: np.concatenate([part.arrays[name] for part in parts]) for name in parts[0].arrays},
        unanswered={
            int(start) + index: reason
            for start, part in zip(starts, parts, strict=False)
            for index, reason in part.unanswered.items()
        },
    )


def _join_batches(shard: Shard, batches: Sequence[tuple[list[LoadedStimulus], BatchAnswers]]) -> ShardAnswers:
    stimuli = [
        LoadedStimulus(stimulus.row, error=InvalidInput(answers.unanswered[index]))
        if index in answers.unanswered and stimulus.error is None
        else stimulus
        for loaded, answers in batches
        for index, stimulus in enumerate(loaded)
    ]
    is_shown = np.array([stimulus.error is None for stimulus in stimuli])
    arrays = {}
    for name in batches[0][1].arrays:
        arrays[name] = np.concatenate([answers.arrays[name] for _, answers in batches])
        arrays[name][~is_shown] = np.nan
    return ShardAnswers(
        shard,
        rows=tuple(stimulus.row for stimulus in stimuli if stimulus.error is None),
        stimuli=tuple(one.digest for one in stimuli if one.error is None and one.digest is not None),
        columns=pl.concat([answers.columns for _, answers in batches]).filter(pl.Series(is_shown, dtype=pl.Boolean)),
        skipped={stimulus.row: str(stimulus.error) for stimulus in stimuli if stimulus.error is not None},
        arrays=arrays,
    )


def thumbnail_file(folder: Path, stimulus: str) -> Path:
    """Return the file of a stimulus' thumbnail; folders of two letters keep folders small."""
    return folder / stimulus[:2] / f"{stimulus}.jpeg"


def _write_thumbnail(folder: Path, stimulus: str, pixels: Bytes) -> None:
    """Write a thumbnail for reports, if there is none: generated stimuli are stored nowhere else."""
    path = thumbnail_file(folder, stimulus)
    if path.exists():
        return
    image = Pillow.fromarray(to_rgb(pixels))
    image.thumbnail((_THUMBNAIL_SIDE, _THUMBNAIL_SIDE), Pillow.Resampling.BILINEAR)
    with atomic_write(path) as draft:
        image.save(draft, format="JPEG", quality=85)

"""Answering shards: images are read and prepared in threads while the model answers the batch before.

Two batches are in the making at any time, so memory follows the batch and not the number of images.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cosight.errors import InvalidInput
from cosight.runs.observers import BatchAnswers, Observer
from cosight.runs.run_plan import RunPlan, Shard
from cosight.runs.stimulus_sources import LoadedStimulus
from cosight.runs.thumbnails import keep_thumbnail
from cosight.stimuli.images import Floats

__all__ = ["UNANSWERED", "ExecutionOptions", "OnError", "ShardAnswers", "answer_shards"]

OnError = Literal["stop", "skip"]
UNANSWERED = "no recorded answer"  # why a stimulus is no trial of an observer who was not shown it
_AHEAD = 2  # batches being prepared while one is answered


@dataclass(frozen=True, slots=True)
class ExecutionOptions:
    """How the work is done: nothing here changes an answer but for rounding (`threads`)."""

    threads: int | None = None  # that a model computes with; None: its library's choice
    loaders: int | None = None  # threads that read images; None: one a core
    on_error: OnError = "stop"
    thumbnails: Path | None = None  # a folder, where they are wanted


@dataclass(frozen=True, slots=True, eq=False)
class ShardAnswers:
    """A participant's answers to a shard: trials' columns for the rows that could be shown, arrays for all of them."""

    shard: Shard
    rows: tuple[int, ...]  # shown
    stimuli: tuple[str, ...]  # digests of those
    columns: pl.DataFrame
    skipped: dict[int, str] = field(default_factory=dict)  # row -> reason
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # nan where skipped


@dataclass(frozen=True, slots=True, eq=False)
class _Batch:
    shard: Shard
    rows: range
    room: Floats
    parts: list[Future[list[LoadedStimulus]]]


def answer_shards(
    who: Observer, plan: RunPlan, shards: Sequence[Shard], way: ExecutionOptions
) -> Iterator[ShardAnswers]:
    """The participant's answers, shard by shard. With "stop" the first image that cannot be shown raises.

    Batches are the same whatever is skipped and whatever was done before: an image's answer is its own to the last bit.
    """
    with ThreadPoolExecutor(way.loaders or os.cpu_count(), thread_name_prefix="cosight-load") as pool:
        waiting: deque[_Batch] = deque()
        done: list[tuple[list[LoadedStimulus], BatchAnswers]] = []
        queue = _batches(plan, shards)
        try:
            while True:
                while len(waiting) <= _AHEAD and (piece := next(queue, None)) is not None:
                    waiting.append(_begun(pool, who, plan, *piece, way.thumbnails))
                if not waiting:
                    return
                batch = waiting.popleft()
                seen = [one for part in batch.parts for one in part.result()]
                _check(seen, way.on_error)
                done.append((seen, _answer(who, plan, batch, seen)))
                if batch.rows.stop == batch.shard.rows.stop:
                    yield _together(batch.shard, done)
                    done = []
                del batch  # its room, before the next is made
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _batches(plan: RunPlan, shards: Sequence[Shard]) -> Iterator[tuple[Shard, range]]:
    for shard in shards:
        for start in range(shard.rows.start, shard.rows.stop, plan.batch):
            yield shard, range(start, min(start + plan.batch, shard.rows.stop))


def _begun(
    pool: ThreadPoolExecutor, who: Observer, plan: RunPlan, shard: Shard, rows: range, thumbnails: Path | None
) -> _Batch:
    room = who.room(len(rows))

    def load(part: range) -> list[LoadedStimulus]:
        return [_put(who, plan, room[one.row - rows.start :], one, thumbnails) for one in plan.shown.see(part)]

    return _Batch(shard, rows, room, [pool.submit(load, part) for part in plan.shown.portions(rows)])


def _put(who: Observer, plan: RunPlan, room: Floats, one: LoadedStimulus, thumbnails: Path | None) -> LoadedStimulus:
    """The image's place, the first of the room, is filled; what is kept of the image is its digest."""
    if one.pixels is None or one.digest is None:
        return one
    try:
        who.put(room, 0, one.pixels)
    except InvalidInput as error:
        return LoadedStimulus(one.row, error=InvalidInput(f"{plan.shown.frame['file'][one.row]}: {error}"))
    if thumbnails is not None:
        keep_thumbnail(thumbnails, one.digest, one.pixels)
    return LoadedStimulus(one.row, digest=one.digest)


def _check(seen: Sequence[LoadedStimulus], on_error: OnError) -> None:
    broken = next((one.error for one in seen if one.error is not None), None)
    if broken is not None and on_error == "stop":
        raise InvalidInput(f"{broken} (--on-error skip goes on without it)") from broken


def _answer(who: Observer, plan: RunPlan, batch: _Batch, seen: Sequence[LoadedStimulus]) -> BatchAnswers:
    digests = pl.Series("stimulus", [one.digest for one in seen], dtype=pl.String)
    rows = plan.shown.frame[batch.rows.start : batch.rows.stop].with_columns(digests)
    said = who.answer(batch.rows.start, rows, batch.room)
    return said if plan.keeps else replace(said, arrays={})


def _together(shard: Shard, parts: Sequence[tuple[list[LoadedStimulus], BatchAnswers]]) -> ShardAnswers:
    seen = [_asked(one, place in said.unanswered) for some, said in parts for place, one in enumerate(some)]
    good = np.array([one.error is None for one in seen])
    return ShardAnswers(
        shard,
        rows=tuple(one.row for one in seen if one.error is None),
        stimuli=tuple(one.digest for one in seen if one.error is None and one.digest is not None),
        columns=pl.concat([said.columns for _, said in parts]).filter(pl.Series(good, dtype=pl.Boolean)),
        skipped={one.row: str(one.error) for one in seen if one.error is not None},
        arrays={name: _stacked([said.arrays[name] for _, said in parts], good) for name in parts[0][1].arrays},
    )


def _asked(one: LoadedStimulus, unanswered: bool) -> LoadedStimulus:
    return LoadedStimulus(one.row, error=InvalidInput(UNANSWERED)) if unanswered and one.error is None else one


def _stacked(parts: Sequence[NDArray[Any]], good: NDArray[np.bool_]) -> NDArray[Any]:
    whole = np.concatenate(parts)
    whole[~good] = np.nan
    return whole

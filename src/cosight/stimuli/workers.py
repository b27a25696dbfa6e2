"""Doing the work of a recipe, in this process or in several: make, encode, write, and say so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import cv2

from cosight.errors import CosightError
from cosight.files import atomic_write
from cosight.processes import run_in_workers
from cosight.stimuli.images import FileFormat, decode, digest, encode
from cosight.stimuli.set_recipe import Outcome, SetRecipe, StimulusJob, Unit

__all__ = ["JobRunner", "OnError", "results"]

OnError = Literal["stop", "skip"]
Pending = Sequence[tuple[Unit, tuple[StimulusJob, ...]]]
_PORTION = 20  # jobs of a unit that are done and noted together; its source is read again for the next


def results(task: JobRunner, pending: Pending, *, workers: int) -> Iterator[list[dict[str, Any]]]:
    """Journal lines of the pending work, a portion of a unit at a time, in the order they finish."""
    portions = [
        (unit, jobs[start : start + _PORTION]) for unit, jobs in pending for start in range(0, len(jobs), _PORTION)
    ]
    count = min(workers, max(len(portions), 1))
    return run_in_workers(task, portions, workers=count, initializer=_one_opencv_thread)


@dataclass(frozen=True, slots=True)
class JobRunner:
    """What a worker does with a unit: make, encode, write, and say so in journal lines."""

    recipe: SetRecipe
    out: Path
    format: FileFormat
    on_error: OnError

    def __call__(self, portion: tuple[Unit, Sequence[StimulusJob]]) -> list[dict[str, Any]]:
        """Do these jobs of the unit; one journal line each."""
        unit, jobs = portion
        lines: list[dict[str, Any]] = []
        try:
            for outcome in self.recipe.make(unit, jobs):
                if outcome.error is not None and self.on_error == "stop":
                    raise outcome.error
                lines.append(self._kept(outcome, unit))
        except CosightError as error:
            if self.on_error == "stop":
                raise
            told = {line["job"] for line in lines}
            lines += [self._lost(job, unit, "skipped", str(error)) for job in jobs if job.file not in told]
        return lines

    def _lost(self, job: StimulusJob, unit: Unit, outcome: str, reason: str) -> dict[str, Any]:
        return {"job": job.file, "stamp": unit.stamp_when_lost, "row": None, "outcome": outcome, "reason": reason}

    def _kept(self, outcome: Outcome, unit: Unit) -> dict[str, Any]:
        job = outcome.job
        if outcome.error is not None:
            return self._lost(job, unit, "skipped", str(outcome.error))
        if outcome.pixels is None:
            return self._lost(job, unit, "dropped", outcome.reason or "")
        data = encode(outcome.pixels, self.format)
        shown = outcome.pixels if self.format == "png" else decode(data)
        file = f"images/{job.file}.{self.format}"
        with atomic_write(self.out / file) as draft:
            draft.write_bytes(data)
        row = {**job.facts, **outcome.facts, "stimulus": digest(shown), "file": file}
        return {"job": job.file, "stamp": unit.stamp, "row": row, "size": len(data)}


def _one_opencv_thread() -> None:
    cv2.setNumThreads(1)  # the processes share the cores among themselves

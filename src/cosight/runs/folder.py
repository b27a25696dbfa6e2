"""A run's folder: answers shard by shard, written whole, found again by their keys.

* `run.json`                         what was asked for, of whom, with what; see `record`
* `stimuli.parquet`                  what is shown, in the order of all else
* `trials/OBSERVER.00000.parquet`    the answers to a shard: there when the shard is done, never changed
* `features/OBSERVER.safetensors`    logits and features of all stimuli, a row each, nan where one could not be shown;
                                     while an observer is at work, `features/OBSERVER.parts/` has those of its shards
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cosight.errors import InvalidInput
from cosight.files import LOCK_FILE, atomic_write, lock_folder
from cosight.trials.manifest import MANIFEST, write_manifest
from cosight.trials.parquet import read_sources, write_observers, write_table
from cosight.trials.table import SCHEMA as TRIAL_SCHEMA
from cosight.trials.table import Trials, make_trials, observer_table

if TYPE_CHECKING:  # so that a run can be looked at without what it takes to make one
    from cosight.runs.execution import ShardAnswers
    from cosight.runs.observers import Observer
    from cosight.runs.run_plan import RunPlan, Shard

__all__ = ["RUN", "SCHEMA", "Done", "RunFolder", "file_name"]

RUN = "run.json"
SCHEMA = 2  # version of run folders; grows when the same answers would be written differently
_PLACE = ("experiment", "image", "condition", "level", "truth")  # what a trial says of its stimulus, from the manifest
_LONGEST = 120  # characters of an observer's name in a file's


@dataclass(frozen=True, slots=True)
class Done:
    """A shard that is done: the key it was done under, and what could not be shown."""

    key: str
    images: int
    skipped: dict[int, str]


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Where a run is kept."""

    path: Path

    def trial_file(self, observer: str, shard: int) -> Path:
        """Where an observer's answers to a shard are."""
        return self.path / "trials" / f"{file_name(observer)}.{shard:05d}.parquet"

    def features_file(self, observer: str) -> Path:
        """Where an observer's logits and features are when it is done."""
        return self.path / "features" / f"{file_name(observer)}.safetensors"

    def _part(self, observer: str, shard: int) -> Path:
        return self.path / "features" / f"{file_name(observer)}.parts" / f"{shard:05d}.safetensors"

    def done(self, observer: str, shard: int) -> Done | None:
        """What is known of a shard, None where it is not done."""
        path = self.trial_file(observer, shard)
        if not path.exists():
            return None
        try:
            job = read_sources(path)[0]
            return Done(job["job"], job["images"], {int(row): why for row, why in job["skipped"].items()})
        except (pl.exceptions.PolarsError, OSError, LookupError, ValueError) as error:
            raise InvalidInput(f"{path} is not a table that a run wrote; remove it and run again") from error

    def write(self, who: Observer, plan: RunPlan, given: ShardAnswers, key: str) -> None:
        """Keep a shard: features first, so that a table in `trials/` says that all of it is there."""
        if given.arrays:
            self._write_part(who.name, given)
        about = plan.shown.frame[list(given.rows)].select(_PLACE)
        frame = pl.concat([about, given.columns], how="horizontal").with_columns(
            observer=pl.lit(who.name), kind=pl.lit(who.kind), stimulus=pl.Series(given.stimuli, dtype=pl.String)
        )
        frame = frame.filter(pl.Series([plan.tested[row] for row in given.rows], dtype=pl.Boolean))
        job = {"job": key, "images": len(given.rows), "skipped": given.skipped}
        trials = make_trials(frame, source=who.name, space=plan.space, sources=[job])
        with _disk_errors(path := self.trial_file(who.name, given.shard.index)):
            write_table(trials, path, durable=True)

    def _write_part(self, observer: str, given: ShardAnswers) -> None:
        from safetensors.numpy import save

        with atomic_write(self._part(observer, given.shard.index), durable=True) as draft:
            draft.write_bytes(save(dict(given.arrays)))

    def join_features(self, observer: str, shards: Sequence[Shard]) -> None:
        """Put the shards' logits and features together, a shard at a time; then the parts can go."""
        parts = [self._part(observer, shard.index) for shard in shards]
        if all(part.exists() for part in parts):
            with atomic_write(self.features_file(observer), durable=True) as draft:
                _join(parts, draft)
        if parts[0].parent.exists() and self.features_file(observer).exists():
            shutil.rmtree(parts[0].parent)

    def drop_features(self, observer: str) -> None:
        """Remove what was put together, when all of it is made again."""
        self.features_file(observer).unlink(missing_ok=True)

    def features(self, observer: str) -> dict[str, NDArray[Any]]:
        """An observer's arrays when it is done: logits, features and what else was kept."""
        return _arrays(self.features_file(observer))

    def has_features(self, observer: str, shard: int) -> bool:
        """Whether a shard's features are kept."""
        return self.features_file(observer).exists() or self._part(observer, shard).exists()

    def write_stimuli(self, plan: RunPlan) -> None:
        """Write the manifest of what is shown, and make the folder of trials: a run that can be read has one."""
        (self.path / "trials").mkdir(exist_ok=True)
        self._write_manifest(plan, plan.shown.frame)

    def learn_stimuli(self, plan: RunPlan, observers: Sequence[str]) -> None:
        """Write the manifest with the digests that the trials know; null where an image could not be shown."""
        learnt: dict[int, str] = {}
        for shard in plan.shards:
            for observer in observers:
                if not learnt.keys() >= set(shard.rows):
                    learnt |= self._stimuli(plan, observer, shard)
        names = [learnt.get(row) for row in range(plan.shown.frame.height)]
        frame = plan.shown.frame.with_columns(pl.Series("stimulus", names, dtype=pl.String))
        self._write_manifest(plan, frame)

    def _write_manifest(self, plan: RunPlan, frame: pl.DataFrame) -> None:
        with _disk_errors(self.path / MANIFEST):
            write_manifest(self.path, frame, {"settings": dict(plan.shown.settings)})

    def _stimuli(self, plan: RunPlan, observer: str, shard: Shard) -> dict[int, str]:
        """Digests by row that an observer's trials know."""
        done = self.done(observer, shard.index)
        if done is None:
            return {}
        names = pl.read_parquet(self.trial_file(observer, shard.index), columns=["stimulus"], glob=False)["stimulus"]
        rows = (row for row in shard.rows if row not in done.skipped and plan.tested[row])
        return dict(zip(rows, names, strict=True))

    def write_observers(self, who: Sequence[tuple[str, str]]) -> None:
        """Write `observers.parquet`: names and kinds, in the plan's order."""
        frame = pl.DataFrame(who, schema={"observer": pl.String, "kind": pl.String}, orient="row")
        with _disk_errors(self.path / "trials"):
            write_observers(observer_table(frame), self.path / "trials")

    def has_stimuli(self) -> bool:
        """Whether the manifest is there and can be read."""
        try:
            pl.read_parquet_schema(self.path / MANIFEST)
        except (OSError, pl.exceptions.PolarsError):
            return False
        return True

    def responses(self) -> Trials:
        """Everyone's answers, without the probabilities behind them."""
        from cosight.trials.parquet import read_space

        files = sorted((self.path / "trials").glob("[!.]*.[0-9][0-9][0-9][0-9][0-9].parquet"))
        columns = [name for name in TRIAL_SCHEMA if name not in ("probabilities", "extra")]
        parts = [pl.scan_parquet(path, glob=False) for path in files]
        parts = [part.select(name for name in columns if name in part.collect_schema()) for part in parts]
        frame = pl.concat(parts, how="diagonal").collect()  # shards of an older version lack columns
        return make_trials(frame, source=str(self.path), space=read_space(files[0]))

    def has_answers(self) -> bool:
        """Whether anything of an observer's is kept, be it the features of a shard."""
        files = (path for name in ("trials", "features") for path in (self.path / name).rglob("[!.]*"))
        return any(path.is_file() for path in files)

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """The folder, made where there is none, for this process alone; if nothing comes of it, it is gone again."""
        new = not self.path.exists()
        self.path.mkdir(parents=True, exist_ok=True)
        try:
            with lock_folder(self.path):
                yield
        except BaseException:
            if new and all(path.name == LOCK_FILE for path in self.path.iterdir()):
                shutil.rmtree(self.path)
            raise


def file_name(observer: str) -> str:
    """An observer's name as part of a file's, the same on every system; it never begins with a dot, which hides files.

    >>> file_name("timm:resnet50.a1_in1k")
    'timm-resnet50.a1_in1k'
    """
    plain = re.sub(r"[^A-Za-z0-9._+=@#,-]|^\.", "-", observer)
    told = plain == observer.replace(":", "-", 1) and 0 < len(plain) <= _LONGEST  # one name, one file
    return plain if told else f"{plain[:_LONGEST]}-{hashlib.sha256(observer.encode()).hexdigest()[:8]}"


@contextmanager
def _disk_errors(path: Path) -> Iterator[None]:
    """What the disk refuses, polars raises as an error of its own; here it is the disk's again."""
    try:
        yield
    except pl.exceptions.ComputeError as error:
        told = re.search(r"os error (\d+)", str(error))
        if told is None:
            raise
        raise OSError(int(told[1]), os.strerror(int(told[1])), str(path)) from error


def _join(parts: Sequence[Path], out: Path) -> None:
    """Safetensors files with the same arrays as one, row after row; its library would need all of it in memory."""
    first = _arrays(parts[0])
    names = sorted(
        first, key=lambda name: (-first[name].itemsize, name)
    )  # wide numbers first: all begin where they may
    header: dict[str, Any] = {}
    end = 0
    shapes = {name: [(a[name].shape, a[name].nbytes) for a in map(_arrays, parts)] for name in names}
    for name in names:
        rows, begin = sum(shape[0] for shape, _ in shapes[name]), end
        end += sum(size for _, size in shapes[name])
        kind = f"F{8 * first[name].itemsize}"
        header[name] = {"dtype": kind, "shape": [rows, *first[name].shape[1:]], "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # data begins at a multiple of 8
    with out.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in names:
            for part in parts:
                file.write(np.ascontiguousarray(_arrays(part)[name]).tobytes())


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    from safetensors.numpy import load_file

    return load_file(path)

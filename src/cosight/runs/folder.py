"""The folder of a run: every shard is written atomically with its key.

* `run.json`                         what was requested, observers, versions, sessions; see `run_record`
* `stimuli.parquet`                  the stimuli, in the order of everything else
* `trials/OBSERVER.00000.parquet`    answers to a shard: exists when the shard is done, never changes
* `requests/OBSERVER.jsonl`          answers of a vision-language model, one line each, as soon as they arrive
* `features/OBSERVER.safetensors`    logits and features, one row per stimulus, nan where one could not be shown;
                                     until an observer is finished, `features/OBSERVER.parts/` has those of its shards
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cosight.arrays import whole_number
from cosight.errors import CosightError, InvalidInput
from cosight.files import LOCK_FILE, atomic_write, file_name, lock_folder
from cosight.trials.manifest import MANIFEST, with_manifest_space, write_manifest
from cosight.trials.parquet import read_sources, read_space, write_observers, write_table
from cosight.trials.requests import RequestTotals, request_totals
from cosight.trials.run_arrays import arrays_file, read_arrays
from cosight.trials.table import SCHEMA as TRIAL_SCHEMA
from cosight.trials.table import Trials, make_trials, observer_table

if TYPE_CHECKING:  # reading a run must not import image libraries
    from cosight.runs.execution import ShardAnswers
    from cosight.runs.observers import Observer
    from cosight.runs.run_plan import RunPlan, Shard

__all__ = ["RUN", "SCHEMA", "RunFolder", "ShardJob"]

RUN = "run.json"
SCHEMA = 2  # version of run folders; grows when the same answers would be written differently
_MANIFEST_COLUMNS = ("experiment", "image", "condition", "level", "truth")  # of a trial, taken from the manifest
_UNREADABLE = (  # what reading a damaged table can raise
    *(pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, LookupError, ValueError),
    *(TypeError, AttributeError, RecursionError),
)


@dataclass(frozen=True, slots=True)
class ShardJob:
    """What the file of a finished shard records: its key, the number of images, and what could not be shown."""

    key: str
    images: int
    skipped: dict[int, str]  # row -> reason


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Reads and writes the files of a run."""

    path: Path

    def trial_file(self, observer: str, shard: int) -> Path:
        """Return the file of an observer's answers to a shard."""
        return self.path / "trials" / f"{file_name(observer)}.{shard:05d}.parquet"

    def features_file(self, observer: str) -> Path:
        """Return the file of a finished observer's logits and features."""
        return arrays_file(self.path, observer)

    def requests_file(self, observer: str) -> Path:
        """Return the file of the answers that a vision-language model was paid for."""
        return self.path / "requests" / f"{file_name(observer)}.jsonl"

    def request_totals(self, observer: str) -> RequestTotals:
        """Return what the requests behind an observer's trials took."""
        files = sorted((self.path / "trials").glob(f"{file_name(observer)}.[0-9][0-9][0-9][0-9][0-9].parquet"))
        return request_totals(
            pl.concat([pl.read_parquet(path, columns=["stimulus", "extra"], glob=False) for path in files])
        )

    def _features_part(self, observer: str, shard: int) -> Path:
        return self.path / "features" / f"{file_name(observer)}.parts" / f"{shard:05d}.safetensors"

    def read_job(self, observer: str, shard: int) -> ShardJob | None:
        """Read what is recorded about a finished shard; None where it is not finished."""
        path = self.trial_file(observer, shard)
        if not path.exists():
            return None
        try:
            job = read_sources(path)[0]
            skipped = {int(row): str(reason) for row, reason in job["skipped"].items()}
            return ShardJob(str(job["job"]), whole_number(job["images"], name="images"), skipped)
        except _UNREADABLE as error:
            raise InvalidInput(f"{path} is not a trial table of a run; remove it and run again") from error

    def write(self, observer: Observer, plan: RunPlan, answers: ShardAnswers, key: str) -> None:
        """Write a shard: features first, so that a file in `trials/` means that the shard is complete."""
        if answers.arrays:
            from safetensors.numpy import save

            with atomic_write(self._features_part(observer.name, answers.shard.index), durable=True) as draft:
                draft.write_bytes(save(dict(answers.arrays)))
        stimuli = plan.stimuli.frame[list(answers.rows)].select(_MANIFEST_COLUMNS)
        frame = pl.concat([stimuli, answers.columns], how="horizontal").with_columns(
            observer=pl.lit(observer.name),
            kind=pl.lit(observer.kind),
            stimulus=pl.Series(answers.stimuli, dtype=pl.String),
        )
        frame = frame.filter(pl.Series([plan.is_trial[row] for row in answers.rows], dtype=pl.Boolean))
        job = {"job": key, "images": len(answers.rows), "skipped": answers.skipped}
        trials = make_trials(frame, source=observer.name, space=plan.space, sources=[job])
        write_table(trials, self.trial_file(observer.name, answers.shard.index), durable=True)

    def join_features(self, observer: str, shards: Sequence[Shard]) -> None:
        """Join the logits and features of all shards into one file, then remove the parts."""
        parts = [self._features_part(observer, shard.index) for shard in shards]
        if all(part.exists() for part in parts):
            with atomic_write(self.features_file(observer), durable=True) as draft:
                _join_safetensors(parts, draft)
        if parts[0].parent.exists() and self.features_file(observer).exists():
            shutil.rmtree(parts[0].parent)

    def remove_features(self, observer: str) -> None:
        """Remove the joined features of an observer whose shards are all answered again."""
        self.features_file(observer).unlink(missing_ok=True)

    def features(self, observer: str) -> dict[str, NDArray[Any]]:
        """Read a finished observer's arrays: logits, features and strangeness scores."""
        return read_arrays(self.features_file(observer))

    def has_features(self, observer: str, shard: int) -> bool:
        """Return whether the features of a shard are stored."""
        return self.features_file(observer).exists() or self._features_part(observer, shard).exists()

    def write_stimuli(self, plan: RunPlan) -> None:
        """Write the manifest of the stimuli and create the folder of trials, which every readable run has."""
        (self.path / "trials").mkdir(exist_ok=True)
        self._write_manifest(plan, plan.stimuli.frame)

    def write_digests(self, plan: RunPlan, observers: Sequence[str]) -> None:
        """Write the manifest with the digests that the trials have; null where an image could not be shown."""
        columns = []
        for shard in plan.shards:
            digests: dict[int, str] = {}
            for observer in observers:
                if digests.keys() >= set(shard.rows) or (job := self.read_job(observer, shard.index)) is None:
                    continue
                table = pl.read_parquet(self.trial_file(observer, shard.index), columns=["stimulus"], glob=False)
                rows = (row for row in shard.rows if row not in job.skipped and plan.is_trial[row])
                digests |= dict(zip(rows, table["stimulus"], strict=True))
            columns.append(pl.Series("stimulus", [digests.get(row) for row in shard.rows], dtype=pl.String))
        self._write_manifest(plan, plan.stimuli.frame.with_columns(pl.concat(columns)))

    def _write_manifest(self, plan: RunPlan, frame: pl.DataFrame) -> None:
        facts = with_manifest_space({"settings": dict(plan.stimuli.settings)}, plan.space)
        write_manifest(self.path, frame, facts)

    def write_observers(self, observers: Sequence[tuple[str, str]]) -> None:
        """Write `observers.parquet` from names and kinds."""
        frame = pl.DataFrame(observers, schema={"observer": pl.String, "kind": pl.String}, orient="row")
        write_observers(observer_table(frame), self.path / "trials")

    def has_stimuli(self) -> bool:
        """Return whether the manifest exists and can be read."""
        try:
            pl.read_parquet_schema(self.path / MANIFEST)
        except (OSError, pl.exceptions.PolarsError):
            return False
        return True

    def responses(self) -> Trials:
        """Read all answers without class probabilities."""
        files = sorted((self.path / "trials").glob("[!.]*.[0-9][0-9][0-9][0-9][0-9].parquet"))
        columns = [name for name in TRIAL_SCHEMA if name not in ("probabilities", "extra")]
        parts = [pl.scan_parquet(path, glob=False) for path in files]
        parts = [part.select(name for name in columns if name in part.collect_schema()) for part in parts]
        frame = pl.concat(parts, how="diagonal").collect()  # shards of an older version lack columns
        return make_trials(frame, source=str(self.path), space=read_space(files[0]))

    def has_answers(self) -> bool:
        """Return whether any answer is stored, be it only the features of a shard."""
        files = (path for name in ("trials", "features") for path in (self.path / name).rglob("[!.]*"))
        return any(path.is_file() for path in files)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Create the folder if needed and lock it.

        After an error a new folder is removed if nothing was written. After a user error it is also removed if it has
        no answers: the mistake is corrected and the same command run again.
        """
        is_new = not self.path.exists()
        self.path.mkdir(parents=True, exist_ok=True)
        try:
            with lock_folder(self.path):
                yield
        except BaseException as error:
            written = {path.name for path in self.path.iterdir()} - {LOCK_FILE}
            is_mistake = isinstance(error, CosightError) and not self.has_answers()
            if is_new and written <= ({RUN, MANIFEST, "trials"} if is_mistake else set()):
                shutil.rmtree(self.path)
            raise


def _join_safetensors(parts: Sequence[Path], out: Path) -> None:
    """Concatenate the arrays of safetensors files, one file in memory at a time (the library would need all)."""
    first = read_arrays(parts[0])
    names = sorted(first, key=lambda name: (-first[name].itemsize, name))  # wide numbers first: all are aligned
    shapes = {name: [(a[name].shape, a[name].nbytes) for a in map(read_arrays, parts)] for name in names}
    header: dict[str, Any] = {}
    end = 0
    for name in names:
        rows, begin = sum(shape[0] for shape, _ in shapes[name]), end
        end += sum(size for _, size in shapes[name])
        dtype = f"F{8 * first[name].itemsize}"
        header[name] = {"dtype": dtype, "shape": [rows, *first[name].shape[1:]], "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # data starts at a multiple of 8
    with out.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in names:
            for part in parts:
                file.write(np.ascontiguousarray(read_arrays(part)[name]).tobytes())

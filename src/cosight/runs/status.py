"""What has become of a run: read from its folder, also while it is going."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cosight.errors import InvalidInput
from cosight.files import is_locked
from cosight.runs.folder import RUN, RunFolder, file_name
from cosight.runs.run_record import State, read_record

__all__ = ["ObserverStatus", "Status", "runs_below", "status"]


@dataclass(frozen=True, slots=True)
class ObserverStatus:
    """How far an observer is: answers kept, stimuli that were no trials; going, stopped, finished or left out."""

    observer: str
    answered: int
    skipped: int
    state: str


@dataclass(frozen=True, slots=True)
class Status:
    """A run in figures. `asked` counts the models that were named; the later ones may not have been reached."""

    folder: Path
    state: State
    stimuli: int
    labels: str
    asked: int
    observers: tuple[ObserverStatus, ...]
    images: int  # answered in all sessions
    seconds: float
    outcome: str | None  # how the last session ended

    @property
    def images_per_second(self) -> float | None:
        """Over all sessions; None before the first shard."""
        return self.images / self.seconds if self.images and self.seconds else None


def status(path: str | Path) -> Status:
    """The state of the run in this folder. One whose process was killed has stopped, whatever it last wrote."""
    folder = RunFolder(Path(path))
    record = read_record(folder.path)
    going = record.state != "finished" and is_locked(folder.path)
    told: State = "going" if going else "stopped" if record.state == "going" else record.state
    sessions = record.sessions
    return Status(
        folder.path,
        told,
        record.plan["stimuli"]["count"],
        record.plan["labels"]["name"],
        max(len(record.models), len(record.observers)),  # a file of recorded answers may hold several observers
        tuple(_observer(folder, name, facts["state"], going) for name, facts in record.observers.items()),
        sum(session["images"] for session in sessions),
        sum(session["seconds"] for session in sessions),
        None if going or not sessions else sessions[-1].get("outcome") or "killed",
    )


def _observer(folder: RunFolder, name: str, state: str, going: bool) -> ObserverStatus:
    shards = sorted((folder.path / "trials").glob(f"{file_name(name)}.[0-9][0-9][0-9][0-9][0-9].parquet"))
    done = [folder.done(name, int(path.name.split(".")[-2])) for path in shards]
    found = [shard for shard in done if shard is not None]
    answered, skipped = sum(shard.images for shard in found), sum(len(shard.skipped) for shard in found)
    return ObserverStatus(name, answered, skipped, state if going or state != "going" else "stopped")


def runs_below(folder: str | Path) -> Iterator[Path]:
    """Run folders in a folder and below it, in order of their names; a run's own folders are not looked into."""
    root = Path(folder)
    if not root.is_dir():
        raise InvalidInput(f"runs are looked for in a folder, got {root}")
    if (root / RUN).is_file():
        yield root
        return
    for inner in sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith(".")):
        if not inner.is_symlink():
            yield from runs_below(inner)

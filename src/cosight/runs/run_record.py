"""`run.json`, the record of a run: what was requested, observers, versions, sessions. `status` summarises it.

The record is rewritten while a run is executed. Reading it imports no image libraries.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args

from cosight.errors import InvalidInput
from cosight.files import atomic_write, file_name, is_locked, nearest_path, package_versions, read_json
from cosight.runs.folder import RUN, SCHEMA, RunFolder
from cosight.runs.record_signature import is_signed, sign

__all__ = [
    "ObserverStatus",
    "RunRecord",
    "State",
    "Status",
    "end_session",
    "new_session",
    "read_record",
    "runs_below",
    "status",
]

State = Literal["going", "stopped", "finished"]
_LONGEST = 60  # characters of a value in a message
_PACKAGES = ("polars", "torch", "torchvision", "timm", "onnxruntime", "safetensors", "open_clip_torch", "ray")


@dataclass(slots=True)
class RunRecord:
    """The content of `run.json`. `observers` are in the order of the models, `sessions` in order of time."""

    plan: dict[str, Any]
    arguments: dict[str, Any] = field(default_factory=dict)  # passed, defaulted, and the current folder
    models: list[str] = field(default_factory=list)  # specs, or descriptions of models given in Python
    observers: dict[str, dict[str, Any]] = field(default_factory=dict)
    sessions: list[dict[str, Any]] = field(default_factory=list)
    state: State = "going"
    is_own: bool = True  # whether all models were named in calls of this user; see `record_signature`

    def write(self, folder: Path) -> None:
        """Write the record atomically."""
        content = {
            "schema": SCHEMA,
            "state": self.state,
            "plan": self.plan,
            "arguments": self.arguments,
            "models": self.models,
            "observers": [{"observer": name, **facts} for name, facts in self.observers.items()],
            "sessions": self.sessions,
            "signature": sign(self._signed) if self.is_own else None,
        }
        with atomic_write(folder / RUN, durable=True) as draft:
            draft.write_text(json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n", "utf-8")

    @property
    def _signed(self) -> list[Any]:
        """What `resume` executes."""
        return [self.models, self.arguments]

    def check_same_plan(self, plan: Mapping[str, Any], folder: Path) -> None:
        """Raise InvalidInput where the plan differs from the recorded one."""
        for name, value in plan.items():
            recorded = self.plan.get(name)
            if recorded == value:
                continue
            was, got = str(recorded), str(value)
            if isinstance(recorded, dict) and isinstance(value, dict):
                key = next(key for key in [*value, *recorded] if recorded.get(key) != value.get(key))
                was, got = f"{key} {_shorten(recorded.get(key))}", _shorten(value.get(key))
            raise InvalidInput(
                f"{folder} holds a run with {name} {was}, got {got}; use the same, or choose another --out"
            )


def _shorten(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def read_record(folder: Path) -> RunRecord:
    """Read the record of a run; raise InvalidInput where it is not one, for example after it was edited."""
    path = folder / RUN
    if not path.is_file():
        hint = nearest_path(folder, otherwise="`cosight run list` shows those below a folder")
        raise InvalidInput(f"a run is a folder with {RUN}, got {folder}; {hint}")
    content = read_json(path, hint="it is not the record of a run: restore it, or choose another folder")
    try:
        _check_fields(content, {"schema": int}, "the record")
        if content["schema"] > SCHEMA:
            raise InvalidInput(f"{path} was written by a newer cosight (schema {content['schema']}); update cosight")
        _check_content(content)
    except ValueError as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(
            f"{path} is not the record of a run: {error}; restore it, or choose another folder"
        ) from error
    observers = {facts.pop("observer"): facts for facts in content["observers"]}
    content["plan"].setdefault("precision", "float32")  # the only one that early records could have
    request = content["plan"], content["arguments"], content["models"]
    record = RunRecord(*request, observers, content["sessions"], content["state"])
    record.is_own = is_signed(record._signed, content.get("signature"))
    return record


_MOST = 2**63  # no count is larger


def _check_content(content: dict[str, Any]) -> None:
    """Raise ValueError unless a record has what this version writes, as far as it is read again."""
    parts = {"plan": dict, "arguments": dict, "models": list, "observers": list, "sessions": list, "state": str}
    _check_fields(content, parts, "the record")
    if content["state"] not in get_args(State):
        raise ValueError(f"state must be {' or '.join(get_args(State))}, got {content['state']!r}")
    if not all(isinstance(model, str) for model in content["models"]):
        raise ValueError(f"models must be a list of names, got {content['models']!r}"[:_LONGEST])
    _check_fields(content["arguments"], {"passed": dict, "defaulted": dict, "folder": str}, "arguments")
    _check_fields(content["plan"], {"stimuli": dict, "labels": dict}, "plan")
    _check_fields(content["plan"]["stimuli"], {"count": int}, "stimuli")
    _check_fields(content["plan"]["labels"], {"name": str}, "labels")
    for facts in content["observers"]:
        _check_fields(facts, {"observer": str, "kind": str, "state": str, "identity": dict}, "an observer")
        _check_fields(facts, {"line": (str, NoneType), "files": (dict, NoneType)}, "an observer")
        if not isinstance(facts.get("abstain", []), list):
            raise ValueError(f"abstain of an observer must be a list, got {facts['abstain']!r}")
    for session in content["sessions"]:
        _check_fields(session, {"images": int, "seconds": (int, float)}, "a session")
        if not isinstance(session.get("outcome", ""), str):
            raise ValueError(f"outcome of a session must be text, got {session['outcome']!r}")


def _check_fields(table: Any, fields: Mapping[str, type | tuple[type, ...]], where: str) -> None:
    """Raise ValueError unless a table has these fields with values of these types; numbers are 0 or more."""
    if not isinstance(table, dict):
        raise ValueError(f"{where} must be a table, got {_shorten(table)}")
    for name, kinds in fields.items():
        if name not in table:
            raise ValueError(f"{where} lacks {name}")
        value = table[name]
        is_number = isinstance(value, int | float)
        if (is_number and not 0 <= value < _MOST) or type(value) not in (
            kinds if isinstance(kinds, tuple) else [kinds]
        ):
            raise ValueError(f"{name} of {where} cannot be {_shorten(value)}")


def new_session(**settings: Any) -> dict[str, Any]:
    """Return the record of a session that starts now: time, settings, versions, git commit, process."""
    from cosight.stimuli.sets import PIXEL_PACKAGES

    return {
        "started": _now(),
        "ended": None,
        "images": 0,
        "seconds": 0.0,
        **settings,
        "versions": package_versions((*PIXEL_PACKAGES, *_PACKAGES)),
        "git": _git_state(),
        "process": os.getpid(),
    }


def end_session(session: dict[str, Any], *, outcome: str) -> None:
    """Record when and how a session ended."""
    session["ended"], session["outcome"] = _now(), outcome


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _git_state() -> dict[str, Any] | None:
    """Return the commit of the current folder and whether files differ from it; None outside git.

    The folder may be a checkout of somebody else's repository, whose settings can name programs: file monitor, hooks,
    filters and transports are switched off, and submodules, which have settings of their own, are not entered.
    """
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}

    def git(*arguments: str, settings: Sequence[str] = ()) -> str:
        off = ["core.fsmonitor=false", f"core.hooksPath={os.devnull}", *settings]
        line = ["git", "--no-pager", *(part for setting in off for part in ("-c", setting)), *arguments]
        done = subprocess.run(
            line, capture_output=True, text=True, check=True, timeout=10, env=environment, stdin=subprocess.DEVNULL
        )
        return done.stdout

    try:
        commit = git("rev-parse", "HEAD").strip()
        names = set(git("config", "--list", "--name-only", "-z").split("\0"))
        filters = [name for name in names if name.startswith("filter.") and name.endswith((".clean", ".process"))]
        if any("=" in name for name in filters):  # cannot be switched off by name
            return {"commit": commit, "changed": None}
        required = [f"{name.rsplit('.', 1)[0]}.required=false" for name in filters]
        settings = [*(f"{name}=" for name in filters), *required]
        status = git(
            *("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all", "--no-renames"),
            settings=settings,
        )
        return {"commit": commit, "changed": bool(status.strip())}
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


@dataclass(frozen=True, slots=True)
class ObserverStatus:
    """Progress of an observer: number of answers, of stimuli without a trial, and its state.

    The state is going, stopped, finished or left out.
    """

    observer: str
    answered: int
    skipped: int
    state: str


@dataclass(frozen=True, slots=True)
class Status:
    """Progress of a run. `asked` is the number of models that were named; later ones may not have started."""

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
    """Return the progress of a run. A run whose process was killed is stopped, whatever its record says."""
    folder = RunFolder(Path(path))
    record = read_record(folder.path)
    is_running = record.state != "finished" and is_locked(folder.path)
    state: State = "going" if is_running else "stopped" if record.state == "going" else record.state
    observers = []
    for name, facts in record.observers.items():
        files = (folder.path / "trials").glob(f"{file_name(name)}.[0-9][0-9][0-9][0-9][0-9].parquet")
        jobs = [folder.read_job(name, int(path.name.split(".")[-2])) for path in sorted(files)]
        answered = sum(job.images for job in jobs if job is not None)
        skipped = sum(len(job.skipped) for job in jobs if job is not None)
        interrupted = facts["state"] == "going" and not is_running
        observers.append(ObserverStatus(name, answered, skipped, "stopped" if interrupted else facts["state"]))
    sessions = record.sessions
    return Status(
        folder.path,
        state,
        record.plan["stimuli"]["count"],
        record.plan["labels"]["name"],
        max(len(record.models), len(record.observers)),  # a file of recorded answers may have several observers
        tuple(observers),
        sum(session["images"] for session in sessions),
        sum(session["seconds"] for session in sessions),
        None if is_running or not sessions else sessions[-1].get("outcome") or "killed",
    )


def runs_below(folder: str | Path) -> Iterator[Path]:
    """Yield the run folders in a folder and below it, sorted by name; folders inside a run are not searched."""
    root = Path(folder)
    if not root.is_dir():
        raise InvalidInput(f"runs are searched in a folder, got {root}")
    if (root / RUN).is_file():
        yield root
        return
    for inner in sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith(".")):
        if not inner.is_symlink():
            yield from runs_below(inner)

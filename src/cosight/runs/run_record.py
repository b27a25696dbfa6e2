"""`run.json`: what was asked for and of whom, with which versions, when, how fast. Written anew as a run goes on."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from cosight.errors import InvalidInput
from cosight.files import atomic_write, package_versions
from cosight.runs.folder import RUN, SCHEMA

__all__ = ["RunRecord", "State", "new_session", "read_record"]

State = Literal["going", "stopped", "finished"]
_LONGEST = 60  # characters of what differs, in a message
_PACKAGES = ("polars", "torch", "torchvision", "timm", "onnxruntime", "safetensors", "open_clip_torch", "ray")


@dataclass(slots=True)
class RunRecord:
    """A run's `run.json`. `observers` are in the order they were asked for, `sessions` in that of time."""

    plan: dict[str, Any]
    arguments: dict[str, Any] = field(default_factory=dict)  # passed, defaulted, and the folder they were given in
    models: list[str] = field(default_factory=list)  # lines, or what a model given in Python is
    observers: dict[str, dict[str, Any]] = field(default_factory=dict)
    sessions: list[dict[str, Any]] = field(default_factory=list)
    state: State = "going"

    def write(self, folder: Path) -> None:
        """Write it, whole or not at all."""
        content = {
            "schema": SCHEMA,
            "state": self.state,
            "plan": self.plan,
            "arguments": self.arguments,
            "models": self.models,
            "observers": [{"observer": name, **facts} for name, facts in self.observers.items()],
            "sessions": self.sessions,
        }
        with atomic_write(folder / RUN, durable=True) as draft:
            draft.write_text(json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n", "utf-8")

    def check_same(self, plan: Mapping[str, Any], folder: Path) -> None:
        """What is in the folder must be part of the same plan."""
        for name, value in plan.items():
            there = self.plan.get(name)
            if there != value:
                was, got = _difference(there, value)
                raise InvalidInput(
                    f"{folder} holds a run with {name} {was}, got {got}; ask for the same, or name another --out"
                )


def _difference(there: Any, value: Any) -> tuple[str, str]:
    """The first parts that differ, short enough to be read."""
    if isinstance(there, dict) and isinstance(value, dict):
        key = next(key for key in [*value, *there] if there.get(key) != value.get(key))
        return f"{key} {_short(there.get(key))}", _short(value.get(key))
    return str(there), str(value)


def _short(value: Any) -> str:
    text = ", ".join(value) if isinstance(value, list) else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def read_record(folder: Path) -> RunRecord:
    """The record of a run."""
    path = folder / RUN
    if not path.is_file():
        raise InvalidInput(f"a run is a folder with {RUN}, got {folder}; `cosight run list` shows those below a folder")
    try:
        content = json.loads(path.read_text("utf-8"))
        schema = content["schema"]
        if schema > SCHEMA:
            raise InvalidInput(f"{path} was written by a newer cosight (schema {schema}); update cosight")
        observers = {facts.pop("observer"): facts for facts in content["observers"]}
        first = content["plan"], content["arguments"], content["models"]
        return RunRecord(*first, observers, content["sessions"], content["state"])
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"{path} is not the record of a run: {error!r}; name another folder") from error


def new_session(**settings: Any) -> dict[str, Any]:
    """A session's first entry: when, with what, where in git."""
    from cosight.stimuli.sets import PIXEL_PACKAGES

    return {
        "started": _now(),
        "ended": None,
        "images": 0,
        "seconds": 0.0,
        **settings,
        "versions": package_versions((*PIXEL_PACKAGES, *_PACKAGES)),
        "git": _git(),
        "process": os.getpid(),
    }


def end_session(session: dict[str, Any], *, outcome: str) -> None:
    """Note when and how it ended."""
    session["ended"], session["outcome"] = _now(), outcome


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _git() -> dict[str, Any] | None:
    """Commit of the folder that one is in, and whether anything differs from it; None outside git."""
    try:
        commit = _asked_git("rev-parse", "HEAD")
        return {"commit": commit, "changed": bool(_asked_git("status", "--porcelain", "--untracked-files=no"))}
    except (OSError, subprocess.SubprocessError):
        return None


def _asked_git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=True, timeout=10)
    return done.stdout.strip()

"""A study's answers on disk: its trials, and beside them who is left out and why, gold labels, curated lists."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from cosight.errors import InvalidInput
from cosight.files import atomic_write
from cosight.humans.results.curator_votes import curated_list
from cosight.humans.results.gold_table import gold_table
from cosight.stimuli.sets import write_gold_labels
from cosight.trials.formats import write
from cosight.trials.table import Trials

if TYPE_CHECKING:
    from cosight.humans.results.quality import Quality

__all__ = [
    "FORMATS",
    "attach_gold",
    "beside",
    "write_curated",
    "write_excluded",
    "write_gold",
    "write_roster",
    "write_trials",
]

_ONE_FILE = "parquet"
_CLASSES_ONLY = "model-vs-human"
FORMATS = (_ONE_FILE, _CLASSES_ONLY, "psych-ds")


def beside(out: Path, what: str) -> Path:
    """Where something that goes with `out` is written.

    >>> beside(Path("answers.parquet"), "gold.csv").name
    'answers-gold.csv'
    """
    return out.with_name(f"{out.stem}-{what}")


def write_trials(trials: Trials, out: Path, *, to: str) -> Trials:
    """Write the trials; return what was written. model-vs-human files have no roles: they hold test trials only."""
    if to not in FORMATS:
        raise InvalidInput(f"a study is exported as {', '.join(FORMATS)}, got {to!r}")
    if not out.name or (to == _ONE_FILE and out.is_dir()):
        raise InvalidInput(f"trials are written to a file or folder of their own, got {out}; name a new one")
    if to == _CLASSES_ONLY and trials.space is None:
        raise InvalidInput("model-vs-human files hold classes, got other answers; export parquet or psych-ds")
    if not len(trials):
        raise InvalidInput("there must be answers to export, got none; let somebody take part, or export --all")
    return write(trials, out, to=to)


def write_excluded(quality: Quality, out: Path, *, everyone: bool) -> Path:
    """Write who is left out and why, by which rules; with `everyone` they are among the trials all the same."""
    path = beside(out, "excluded.json")
    told: dict[str, Any] = {"participants": quality.participants.height, "written_all_the_same": everyone}
    told |= {"excluded": [asdict(one) for one in quality.flagged], "rules": asdict(quality.rules)}
    return _text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", path)


def write_gold(trials: Trials, out: Path) -> Path:
    """Write label distributions, or shares of aligned choices, with their intervals."""
    return _table(gold_table(trials), beside(out, "gold.csv"))


def attach_gold(trials: Trials, root: Path) -> tuple[int, str]:
    """Put the answers into the manifest of the stimulus set at `root`; how many images, and whose answers.

    People's where there are some, else simulated people's, and called so: never both.
    """
    kind: Literal["human", "simulated"] = "human" if (trials.frame["kind"] == "human").any() else "simulated"
    whose = "people's" if kind == "human" else "simulated people's"
    return write_gold_labels(root, trials, kind=kind), whose


def write_curated(trials: Trials, out: Path, *, files: Mapping[str, str]) -> Path:
    """Write the curators' list, which `cosight build` takes."""
    return _table(curated_list(trials, files=files), beside(out, "curated.csv"))


def write_roster(people: pl.DataFrame, out: Path) -> Path:
    """Write who took part. Platforms' ids and what people said of themselves are not for publishing."""
    return _table(people, beside(out, "participants.csv"))


def _table(frame: pl.DataFrame, path: Path) -> Path:
    return _text(frame.write_csv(), path)


def _text(text: str, path: Path) -> Path:
    with atomic_write(path) as draft:
        draft.write_text(text, encoding="utf-8")
    return path

"""`trials:FILE[,observer=NAME]`: answers computed elsewhere, looked up for the stimuli that a run shows.

Which trial is about which stimulus is decided by `cosight.trials.join`. Only first showings of test stimuli are used.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from cosight.errors import InvalidInput, UnknownName, did_you_mean
from cosight.models.model_spec import ModelSpec
from cosight.trials import LabelSpace, Trials, read
from cosight.trials.join import ABOUT, match_manifest
from cosight.trials.samples import trial_path
from cosight.trials.table import has_role, select_roles

__all__ = ["RECORDED_KEYS", "RecordedAnswers", "check_recorded", "load_recorded"]

RECORDED_KEYS = ("observer",)

_ANSWER = ("response", "probabilities", "abstention", "rt", "session", "trial", "extra")


@dataclass(frozen=True, slots=True, eq=False)
class RecordedAnswers:
    """An observer whose answers are known already; `space` is the label space of its file, where that is known."""

    name: str  # as the file has it
    kind: str
    space: LabelSpace | None
    digest: str  # sha256 of the trials, whatever their order and the file they came from
    trials: pl.DataFrame = field(repr=False)
    left_out: int = 0  # trials that are not first showings of test stimuli

    def answers(self, shown: pl.DataFrame) -> pl.DataFrame:
        """Its answers to the stimuli of a manifest, a row each in their order; `found` says whether there was a trial.

        `shown` is a whole set, not a part: a condition that is missing on one side is the only one of its experiment.
        """
        missing = [name for name in ABOUT if name not in shown.columns]
        if missing:
            raise InvalidInput(
                f"stimuli must have the columns {', '.join(ABOUT)}, got none called {', '.join(missing)}"
            )
        pairs = match_manifest(shown, self.trials)
        pairs = pairs.filter(pl.col("near") == pl.col("near").max().over("row"))
        self._check(pairs)
        given = self.trials.select(_ANSWER).with_row_index("trial_row")
        answered = pairs.select("row", "trial_row").join(given, on="trial_row", how="left")
        rows = shown.select(pl.int_range(pl.len(), dtype=pl.UInt32).alias("row"))
        looked_up = rows.join(answered, on="row", how="left", maintain_order="left")
        return looked_up.select(*_ANSWER, found=pl.col("trial_row").is_not_null())

    def _check(self, pairs: pl.DataFrame) -> None:
        """One trial per stimulus, one picture per name, one truth per stimulus."""
        picture = pl.coalesce("stimulus", pl.col("row").cast(pl.String))
        pairs = pairs.with_columns(trials=pl.len().over("row"), pictures=picture.n_unique().over("trial_row"))
        if row := _first(pairs, pl.col("trials") > 1):
            raise InvalidInput(
                f"a recorded observer must have one trial a stimulus, got {row['trials']} of {self.name} for "
                f"{_words(row)}; give one session at a time, or the file itself to `cosight compare`"
            )
        if row := _first(pairs, pl.col("pictures") > 1):
            raise InvalidInput(
                f"a name must stand for one picture to be joined on, got {row['pictures']} in the set for "
                f"{_words(row)}; rename them, or give the trials of {self.name} digests"
            )
        if row := _first(pairs, pl.col("truth") != pl.col("truth_right")):
            raise InvalidInput(
                f"a stimulus has one truth, got {row['truth']} in the set and {row['truth_right']} in the trials of "
                f"{self.name} for {_words(row)}; correct one of them"
            )


def check_recorded(spec: ModelSpec) -> None:
    """Refuse a file or folder that is not there."""
    path = trial_path(Path(spec.name).expanduser())
    if not path.exists():
        raise InvalidInput(f"recorded answers are a file or folder of trials, got {path}, which is not there")


def load_recorded(spec: ModelSpec) -> tuple[RecordedAnswers, ...]:
    """The observers in the trial file or folder of `trials:FILE`, in order of appearance, or the one named."""
    spec.allow(RECORDED_KEYS)
    trials = read(Path(spec.name).expanduser())
    select_roles(trials)  # refuses a file without test trials
    names = trials.frame["observer"].unique(maintain_order=True).to_list()
    wanted = spec.get("observer")
    if wanted is None:
        return tuple(_recorded(trials, name) for name in names)
    if wanted not in names:
        guess = did_you_mean(wanted, names, otherwise=f"there are {', '.join(names[:5])}")
        raise UnknownName(f"no observer in {spec.name} is called {wanted!r}; {guess}")
    return (_recorded(trials, wanted),)


def _recorded(trials: Trials, name: str) -> RecordedAnswers:
    every = trials.frame.filter(pl.col("observer") == name)
    mine = every.filter(has_role(("test",)))
    kinds = every["kind"].unique().sort().to_list()
    if len(kinds) > 1:
        raise InvalidInput(f"an observer is of one kind, got {' and '.join(kinds)} for {name}; name the two apart")
    left_out = every.height - mine.height
    return RecordedAnswers(name, kinds[0], trials.space, _digest(mine), mine.select(*ABOUT, *_ANSWER), left_out)


def _digest(trials: pl.DataFrame) -> str:
    kept = [name for name in (*ABOUT, *_ANSWER) if name != "extra"]  # no answer, and holds the name of the file
    rows = sorted(json.dumps(row) for row in trials.select(kept).iter_rows())
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()


def _first(pairs: pl.DataFrame, broken: pl.Expr) -> dict[str, Any] | None:
    """The first stimulus for which a rule is broken."""
    found = pairs.filter(broken).sort("row").head(1)
    return found.row(0, named=True) if found.height else None


def _words(row: dict[str, Any]) -> str:
    return " / ".join(filter(None, (row["experiment"], row["spelled"], row["image"] or row["stimulus"])))

"""`trials:FILE[,observer=NAME]`: answers computed elsewhere, looked up for the stimuli of a run.

`cosight.trials.join` decides which trial belongs to which stimulus. Only first showings of test stimuli are used.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from cosight.errors import InvalidInput, UnknownName, did_you_mean
from cosight.files import nearest_path
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
    """The answers of one observer.

    Args:
        name: Observer name in the file.
        kind: Kind of observer: model, human ...
        space: Label space of the file, if known.
        digest: SHA-256 of the trials, whatever their order and file.
        trials: Trials of test stimuli, first showings only.
        left_out: Number of other trials.
    """

    name: str
    kind: str
    space: LabelSpace | None
    digest: str
    trials: pl.DataFrame = field(repr=False)
    left_out: int = 0

    def answers(self, stimuli: pl.DataFrame) -> pl.DataFrame:
        """Look up the answers to the stimuli of a manifest.

        Args:
            stimuli: A complete set: a condition that is missing on one side is the only one of its experiment.

        Returns:
            One row per stimulus in the same order; `found` is False where the observer has no trial.

        Raises:
            InvalidInput: A stimulus has several trials, a name several pictures, or the truths differ.
        """
        missing = [name for name in ABOUT if name not in stimuli.columns]
        if missing:
            raise InvalidInput(f"stimuli need the columns {', '.join(ABOUT)}, got none called {', '.join(missing)}")
        pairs = match_manifest(stimuli, self.trials)
        pairs = pairs.filter(pl.col("near") == pl.col("near").max().over("row"))
        self._check_pairs(
            pairs.with_columns(
                *stimuli.select(ABOUT)[pairs["row"]].get_columns(),
                self.trials["truth"].gather(pairs["trial_row"]).alias("truth_right"),
            )
        )
        recorded = self.trials.select(_ANSWER).with_row_index("trial_row")
        answered = pairs.select("row", "trial_row").join(recorded, on="trial_row", how="left")
        rows = stimuli.select(pl.int_range(pl.len(), dtype=pl.UInt32).alias("row"))
        looked_up = rows.join(answered, on="row", how="left", maintain_order="left")
        return looked_up.select(*_ANSWER, found=pl.col("trial_row").is_not_null())

    def _check_pairs(self, pairs: pl.DataFrame) -> None:
        """Raise unless there is one trial per stimulus, one picture per name and one truth per stimulus."""
        picture = pl.coalesce("stimulus", pl.col("row").cast(pl.String))
        pairs = pairs.with_columns(trials=pl.len().over("row"), pictures=picture.n_unique().over("trial_row"))
        if row := _first(pairs, pl.col("trials") > 1):
            raise InvalidInput(
                f"a recorded observer must have one trial per stimulus, got {row['trials']} of {self.name} for "
                f"{_describe(row)}; use one session at a time, or the file itself with `cosight compare`"
            )
        if row := _first(pairs, pl.col("pictures") > 1):
            raise InvalidInput(
                f"a name must belong to one picture to be joined on, got {row['pictures']} in the set for "
                f"{_describe(row)}; rename them, or add digests to the trials of {self.name}"
            )
        if row := _first(pairs, pl.col("truth") != pl.col("truth_right")):
            raise InvalidInput(
                f"a stimulus must have one truth, got {row['truth']} in the set and {row['truth_right']} in the trials "
                f"of {self.name} for {_describe(row)}; correct one of them"
            )


def _first(pairs: pl.DataFrame, condition: pl.Expr) -> dict[str, Any] | None:
    """Return the first stimulus that fulfils a condition."""
    rows = pairs.filter(condition).sort("row").head(1).to_dicts()
    return rows[0] if rows else None


def _describe(row: dict[str, Any]) -> str:
    return " / ".join(filter(None, (row["experiment"], row["condition"], row["image"] or row["stimulus"])))


def check_recorded(spec: ModelSpec) -> None:
    """Raise if the file or folder does not exist."""
    path = trial_path(Path(spec.name).expanduser())
    if not path.exists():
        raise InvalidInput(
            f"recorded answers are a file or folder of trials, {path} does not exist; {nearest_path(path)}"
        )


def load_recorded(spec: ModelSpec) -> tuple[RecordedAnswers, ...]:
    """Load recorded answers.

    Args:
        spec: `trials:FILE[,observer=NAME]`; FILE may be a folder.

    Returns:
        The answers of every observer in order of appearance, or of the one named.

    Raises:
        InvalidInput: The file cannot be read or has no test trials, or an observer is of two kinds.
        UnknownName: There is no observer of this name.

    >>> from cosight.models import parse
    >>> from cosight.trials.samples import samples
    >>> len(load_recorded(parse(f"trials:{samples['edges'].path}")))
    35
    """
    spec.allow(RECORDED_KEYS)
    trials = read(Path(spec.name).expanduser())
    select_roles(trials)  # raises for a file without test trials
    names = trials.frame["observer"].unique(maintain_order=True).to_list()
    name = spec.get("observer")
    if name is not None and name not in names:
        hint = did_you_mean(name, names, otherwise=f"there are {', '.join(names[:5])}")
        raise UnknownName(f"no observer in {spec.name} is called {name!r}; {hint}")
    return tuple(_answers_of(trials, observer) for observer in (names if name is None else [name]))


def _answers_of(trials: Trials, name: str) -> RecordedAnswers:
    every = trials.frame.filter(pl.col("observer") == name)
    test = every.filter(has_role(("test",)))
    kinds = every["kind"].unique().sort().to_list()
    if len(kinds) > 1:
        raise InvalidInput(f"an observer must be of one kind, got {' and '.join(kinds)} for {name}; rename one of them")
    columns = [column for column in (*ABOUT, *_ANSWER) if column != "extra"]  # it is no answer, and has the file's name
    rows = sorted(json.dumps(row) for row in test.select(columns).iter_rows())
    digest = hashlib.sha256("\n".join(rows).encode()).hexdigest()
    answers = test.select(*ABOUT, *_ANSWER)
    return RecordedAnswers(name, kinds[0], trials.space, digest, answers, every.height - test.height)

"""`trials:FILE[,observer=NAME]`: answers computed elsewhere, looked up for the stimuli that a run shows.

A trial is about a stimulus when the digests agree or, where either has none, when experiment, condition and image do,
as in `cosight.trials.join`. Of several trials with one digest (a picture met in two conditions, or twice in a set), the
one from the stimulus' own experiment and condition answers, then the one with its name.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import polars as pl

from cosight.errors import InvalidInput, UnknownName
from cosight.models.grammar import ModelSpec
from cosight.trials import SCHEMA, LabelSpace, Trials, read
from cosight.trials.join import canonical_condition, canonical_experiment
from cosight.trials.samples import trial_path

__all__ = ["RECORDED_KEYS", "Recorded", "check_recorded", "load_recorded"]

RECORDED_KEYS = ("observer",)

_ABOUT = ("stimulus", "image", "experiment", "condition", "truth")  # what a trial and a manifest both say
_ANSWER = ("response", "probabilities", "abstention", "rt", "session", "trial", "extra")
_PLACE = ("experiment", "told")  # as both spell them; `told` is the condition
_NAME = (*_PLACE, "image")


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """An observer whose answers are known already; `space` is the label space of its file, where that is known."""

    name: str  # as the file has it
    kind: str
    space: LabelSpace | None
    digest: str  # sha256 of the trials, whatever their order and the file they came from
    trials: pl.DataFrame = field(repr=False)

    def answers(self, shown: pl.DataFrame) -> pl.DataFrame:
        """Its answers to the stimuli of a manifest, a row each in their order; `found` says whether there was a trial.

        `shown` is a whole set, not a part: a condition that is missing on one side is the only one of its experiment.
        """
        asked, known = _comparable(_about(shown), _about(self.trials))
        pairs = _nearest(_pairs(asked, known))
        self._check(pairs)
        given = self.trials.select(_ANSWER).with_row_index("at")
        answered = pairs.select("row", "at").join(given, on="at", how="left")
        looked_up = asked.select("row").join(answered, on="row", how="left", maintain_order="left")
        return looked_up.select(*_ANSWER, found=pl.col("at").is_not_null())

    def _check(self, pairs: pl.DataFrame) -> None:
        """One trial a stimulus, one picture a name, one truth a stimulus."""
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


def load_recorded(spec: ModelSpec) -> tuple[Recorded, ...]:
    """The observers in the trial file or folder of `trials:FILE`, in order of appearance, or the one named."""
    spec.allow(RECORDED_KEYS)
    trials = read(Path(spec.name).expanduser())
    names = trials.frame["observer"].unique(maintain_order=True).to_list()
    wanted = spec.get("observer")
    if wanted is None:
        return tuple(_recorded(trials, name) for name in names)
    if wanted not in names:
        near = get_close_matches(wanted, names, n=3)
        guess = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(names[:5])}"
        raise UnknownName(f"no observer in {spec.name} is called {wanted!r}; {guess}")
    return (_recorded(trials, wanted),)


def _recorded(trials: Trials, name: str) -> Recorded:
    mine = trials.frame.filter(pl.col("observer") == name)
    kinds = mine["kind"].unique().sort().to_list()
    if len(kinds) > 1:
        raise InvalidInput(f"an observer is of one kind, got {' and '.join(kinds)} for {name}; name the two apart")
    return Recorded(name, kinds[0], trials.space, _digest(mine), mine.select(*_ABOUT, *_ANSWER))


def _digest(trials: pl.DataFrame) -> str:
    kept = [name for name in (*_ABOUT, *_ANSWER) if name != "extra"]  # no answer, and holds the name of the file
    rows = sorted(json.dumps(row) for row in trials.select(kept).iter_rows())
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()


def _about(frame: pl.DataFrame) -> pl.DataFrame:
    """What the rows are about, numbered, spelled one way."""
    missing = [name for name in _ABOUT if name not in frame.columns]
    if missing:
        raise InvalidInput(f"stimuli must have the columns {', '.join(_ABOUT)}, got none called {', '.join(missing)}")
    return (
        frame.select(pl.col(name).cast(SCHEMA[name]) for name in _ABOUT)
        .with_columns(canonical_experiment(pl.col("experiment")), told=canonical_condition(pl.col("condition")))
        .drop("condition")
        .with_row_index("row")
    )


def _comparable(asked: pl.DataFrame, known: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Both with missing conditions filled in where their experiment has one only, empty otherwise."""
    told = pl.concat([asked, known]).group_by("experiment").agg(pl.col("told").drop_nulls().unique())
    only = told.filter(pl.col("told").list.len() == 1).select("experiment", only=pl.col("told").list.first())

    def filled(frame: pl.DataFrame) -> pl.DataFrame:
        joined = frame.join(only, on="experiment", how="left", maintain_order="left")
        return joined.with_columns(told=pl.coalesce("told", "only", pl.lit(""))).drop("only")

    return filled(asked), filled(known)


def _pairs(asked: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """Every stimulus (`row`) with every trial (`at`) that may be about it."""
    trials = known.rename({"row": "at"})
    by_digest = asked.join(trials, on="stimulus", coalesce=False)  # nulls are never equal
    by_name = asked.join(trials, on=_NAME, coalesce=False)
    unsure = by_name.filter(pl.col("stimulus").is_null() | pl.col("stimulus_right").is_null())
    return pl.concat([by_digest, unsure])


def _nearest(pairs: pl.DataFrame) -> pl.DataFrame:
    """Of a stimulus' trials those from its own experiment and condition, if any; of these those with its name.

    `trials` counts those that are left of a stimulus, `pictures` the stimuli that a trial is left for.
    """
    here = pl.all_horizontal(pl.col(name) == pl.col(f"{name}_right") for name in _PLACE)
    named = here & (pl.col("image") == pl.col("image_right")).fill_null(False)
    near = here.cast(pl.Int8) + named.cast(pl.Int8)
    picture = pl.coalesce("stimulus", pl.col("row").cast(pl.String))
    left = pairs.filter(near == near.max().over("row"))
    return left.with_columns(trials=pl.len().over("row"), pictures=picture.n_unique().over("at"))


def _first(pairs: pl.DataFrame, broken: pl.Expr) -> dict[str, Any] | None:
    """The first stimulus for which a rule is broken."""
    found = pairs.filter(broken).sort("row").head(1)
    return found.row(0, named=True) if found.height else None


def _words(row: dict[str, Any]) -> str:
    return " / ".join(filter(None, (row["experiment"], row["told"], row["image"] or row["stimulus"])))

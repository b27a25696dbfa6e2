"""What a study's answers are worth: who is left out and why, and how far the others agree."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from cosight.humans.results.chance import longest_run
from cosight.humans.results.exclusion import Crowd, ParticipantSummary, Rules, reasons_alone, reasons_among_others
from cosight.humans.results.records import groups_of
from cosight.statistics.rater_agreement import agreement_rows
from cosight.statistics.rows import Row
from cosight.trials.table import Trials

__all__ = ["Flagged", "Quality", "assess"]

_SCHEMA: dict[str, pl.DataType] = {
    "participant": pl.String(),
    "group": pl.String(),
    "trials": pl.Int64(),
    "missed": pl.Int64(),  # not answered in time
    "finished": pl.Boolean(),  # null where the trials do not say
    "median_rt": pl.Float64(),  # seconds
    **{f"{role}_{how}": pl.Int64() for role in ("distractors", "checks", "gold") for how in ("passed", "failed")},
    "repeats": pl.Int64(),  # images answered twice
    "repeats_same": pl.Int64(),
    "longest_run": pl.Int64(),  # of one answer, or of one place among the options
    "commonest_share": pl.Float64(),  # of the answers, the same
    "late": pl.Int64(),  # images that were painted late
    "excluded": pl.Boolean(),
    "reasons": pl.List(pl.String()),
}


@dataclass(frozen=True, slots=True)
class Flagged:
    """A participant who is left out."""

    participant: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Quality:
    """What a study's answers are worth."""

    participants: pl.DataFrame  # one row a participant
    flagged: tuple[Flagged, ...]
    agreement: tuple[Row, ...]  # of those who are kept
    kept: Trials
    rules: Rules
    resamples: int | None
    seed: int
    notices: tuple[str, ...]

    def to_json(self) -> str:
        """Everything but the trials; null, never NaN."""
        told: dict[str, Any] = {"participants": self.participants.to_dicts()}
        told |= {"flagged": [asdict(one) for one in self.flagged]}
        told |= {"agreement": [asdict(row) for row in self.agreement], "rules": asdict(self.rules)}
        told |= {"resamples": self.resamples, "seed": self.seed, "notices": self.notices}
        return json.dumps(told, indent=1, allow_nan=False, ensure_ascii=False)

    def to_csv(self) -> str:
        """The participants with a header; reasons set apart by semicolons."""
        return self.participants.with_columns(pl.col("reasons").list.join("; ")).write_csv()


def assess(trials: Trials, *, rules: Rules | None = None, resamples: int | None = 1000, seed: int = 0) -> Quality:
    """Who did the task, and how far they agree; real and simulated people apart. Without `resamples`, only the first.

    Rules about a participant's own trials and times come first. The rules about chance then hold the answers of each
    against those of the others who passed the first.
    """
    rules = rules or Rules()
    groups = groups_of(trials)
    table = pl.concat([_participants(part, rules) for part in groups.values()])
    out = table.filter("excluded")
    flagged = tuple(Flagged(row["participant"], tuple(row["reasons"])) for row in out.iter_rows(named=True))
    names = out["participant"].to_list()
    kept = trials.keep(~pl.col("observer").is_in(names))
    rows = tuple(agreement_rows(kept, resamples=resamples, seed=seed)) if resamples and len(kept) else ()
    return Quality(table, flagged, rows, kept, rules, resamples, seed, _notices(table, list(groups)))


def _participants(records: pl.DataFrame, rules: Rules) -> pl.DataFrame:
    """A row for each participant of one group."""
    shown = records.filter(pl.col("role") != "warmup").partition_by("participant", maintain_order=True)
    people = [ParticipantSummary(part["participant"][0], tuple(part.to_dicts())) for part in shown]
    alone = [reasons_alone(one, rules) for one in people]
    crowd = Crowd.of([one for one, reasons in zip(people, alone, strict=True) if not reasons])
    rows = []
    for one, early in zip(people, alone, strict=True):
        others = crowd if early else crowd.without(one)
        reasons = [*early, *reasons_among_others(one, others, rules)]
        rows.append({**_facts(one), "excluded": bool(reasons), "reasons": reasons})
    return pl.DataFrame(rows, schema=_SCHEMA)


def _facts(own: ParticipantSummary) -> dict[str, Any]:
    """What a participant did, in numbers."""
    facts: dict[str, Any] = {"participant": own.name, "group": own.records[0]["group"], "trials": len(own.records)}
    facts |= {"missed": len(own.records) - len(own.given), "median_rt": own.median_rt}
    facts["finished"] = max((row["finished"] for row in own.records if row["finished"] is not None), default=None)
    for role, name in (("distractor", "distractors"), ("check", "checks"), ("gold", "gold")):
        passed, failed = own.tested(role)
        facts |= {f"{name}_passed": len(passed), f"{name}_failed": len(failed)}
    facts |= {"repeats": len(own.pairs), "repeats_same": sum(alike for _, alike in own.pairs)}
    facts |= {"longest_run": longest_run(own.places)[0], "commonest_share": _commonest_share(own.places)}
    return {**facts, "late": sum(bool(row["late"]) for row in own.records)}


def _commonest_share(places: Sequence[str]) -> float | None:
    return max(map(places.count, set(places))) / len(places) if places else None


def _notices(table: pl.DataFrame, groups: Sequence[str]) -> tuple[str, ...]:
    counts: Mapping[str, tuple[int, int]] = {
        name: (table.filter(group=name).height, table.filter(pl.col("excluded"), group=name).height) for name in groups
    }
    told = tuple(f"{out} of {all_} {name} left out" for name, (all_, out) in counts.items() if out)
    apart = ("people and simulated people are judged and counted apart",) if len(groups) > 1 else ()
    return (*told, *apart)

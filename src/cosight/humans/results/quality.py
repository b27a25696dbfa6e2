"""The quality of a study's answers: who is excluded and why, and how far the others agree."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from cosight.humans.results.exclusion import (
    AnswerCounts,
    ParticipantRecords,
    Rules,
    check_against_others,
    check_own_trials,
    longest_run,
)
from cosight.humans.results.records import records_by_group
from cosight.statistics.rater_agreement import agreement_rows
from cosight.statistics.rows import Row
from cosight.trials.table import Trials

__all__ = ["ExcludedParticipant", "Quality", "assess"]

_SCHEMA: dict[str, pl.DataType] = {
    "participant": pl.String(),
    "group": pl.String(),
    "trials": pl.Int64(),
    "missed": pl.Int64(),  # not answered in time
    "finished": pl.Boolean(),  # null where the trials do not record it
    "median_rt": pl.Float64(),  # seconds
    **{f"{role}_{result}": pl.Int64() for role in ("distractors", "checks", "gold") for result in ("passed", "failed")},
    "repeats": pl.Int64(),  # images answered twice
    "repeats_same": pl.Int64(),
    "longest_run": pl.Int64(),  # of one answer, or of one position among the options
    "commonest_share": pl.Float64(),  # fraction of the answers that are the commonest answer or position
    "late": pl.Int64(),  # images that were painted late
    "windowed": pl.Int64(),  # images that were not shown on the full screen
    "excluded": pl.Boolean(),
    "reasons": pl.List(pl.String()),
}


@dataclass(frozen=True, slots=True)
class ExcludedParticipant:
    """A participant who is excluded, and why."""

    participant: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Quality:
    """The quality of a study's answers."""

    participants: pl.DataFrame  # one row per participant
    flagged: tuple[ExcludedParticipant, ...]
    agreement: tuple[Row, ...]  # of those who are not excluded
    kept: Trials
    rules: Rules
    resamples: int | None
    seed: int
    notices: tuple[str, ...]

    def to_json(self) -> str:
        """Return everything but the trials as JSON; null, never NaN."""
        content = {
            "participants": self.participants.to_dicts(),
            "flagged": [asdict(one) for one in self.flagged],
            "agreement": [asdict(row) for row in self.agreement],
            "rules": asdict(self.rules),
            "resamples": self.resamples,
            "seed": self.seed,
            "notices": self.notices,
        }
        return json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False)

    def to_csv(self) -> str:
        """Return the participants as CSV with a header; reasons are separated by semicolons."""
        return self.participants.with_columns(pl.col("reasons").list.join("; ")).write_csv()


def assess(trials: Trials, *, rules: Rules | None = None, resamples: int | None = 1000, seed: int = 0) -> Quality:
    """Decide who did the task and compute how far they agree; real and simulated people separately.

    Rules about a participant's own trials and times come first. The statistical rules then compare the answers of each
    with those of the others who passed the first.

    Args:
        trials: The trials of a study.
        rules: The exclusion rules; None: the defaults.
        resamples: Number of bootstrap resamples of the agreement; None: no agreement.
        seed: Seed of the resamples.

    Returns:
        One row per participant, who is excluded and why, the agreement and trials of the others.

    Raises:
        InvalidInput: There are no answers of people or simulated people.
    """
    rules = rules or Rules()
    groups = records_by_group(trials)
    table = pl.concat([_participant_rows(records, rules) for records in groups.values()])
    excluded = table.filter("excluded")
    kept = trials.keep(~pl.col("observer").is_in(excluded["participant"].to_list()))
    notices = []
    for name in groups:
        count = excluded.filter(group=name).height
        if count:
            notices.append(f"{count} of {table.filter(group=name).height} {name} excluded")
    if len(groups) > 1:
        notices.append("people and simulated people are assessed separately")
    return Quality(
        participants=table,
        flagged=tuple(
            ExcludedParticipant(row["participant"], tuple(row["reasons"])) for row in excluded.iter_rows(named=True)
        ),
        agreement=tuple(agreement_rows(kept, resamples=resamples, seed=seed)) if resamples and len(kept) else (),
        kept=kept,
        rules=rules,
        resamples=resamples,
        seed=seed,
        notices=tuple(notices),
    )


def _participant_rows(records: pl.DataFrame, rules: Rules) -> pl.DataFrame:
    """Return one row per participant of a group."""
    tables = records.filter(pl.col("role") != "warmup").partition_by("participant", maintain_order=True)
    participants = [ParticipantRecords(table["participant"][0], tuple(table.to_dicts())) for table in tables]
    own_reasons = [check_own_trials(participant, rules) for participant in participants]
    passed = [one for one, reasons in zip(participants, own_reasons, strict=True) if not reasons]
    counts = AnswerCounts.of(passed)
    rows = []
    for participant, own in zip(participants, own_reasons, strict=True):
        others = counts if own else counts.without(participant)
        reasons = [*own, *check_against_others(participant, others, rules)]
        rows.append({**_participant_facts(participant), "excluded": bool(reasons), "reasons": reasons})
    return pl.DataFrame(rows, schema=_SCHEMA)


def _participant_facts(participant: ParticipantRecords) -> dict[str, Any]:
    records, keys, repeats = participant.records, participant.keys, participant.repeated_answers
    facts: dict[str, Any] = {
        "participant": participant.name,
        "group": records[0]["group"],
        "trials": len(records),
        "missed": len(records) - len(participant.answered),
        "finished": max((row["finished"] for row in records if row["finished"] is not None), default=None),
        "median_rt": participant.median_rt,
        "repeats": len(repeats),
        "repeats_same": sum(is_equal for _, is_equal in repeats),
        "longest_run": longest_run(keys)[0],
        "commonest_share": max(map(keys.count, set(keys))) / len(keys) if keys else None,
        "late": sum(bool(row["late"]) for row in records),
        "windowed": sum(bool(row["windowed"]) for row in records),
    }
    for role, name in (("distractor", "distractors"), ("check", "checks"), ("gold", "gold")):
        passed, failed = participant.passed_and_failed(role)
        facts |= {f"{name}_passed": len(passed), f"{name}_failed": len(failed)}
    return facts

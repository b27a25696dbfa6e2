"""The progress of a study: participants, answers per image, and the roster of who took part."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

import polars as pl
import sqlalchemy as sa

from cosight.humans.database.assign_trials import is_paused
from cosight.humans.database.save_answers import block_result
from cosight.humans.database.schema import participants, report_damaged_rows, showings
from cosight.humans.database.store import Store
from cosight.humans.database.study_trials import observer_name
from cosight.humans.study.design import Study
from cosight.humans.study.pool import Pool

__all__ = ["ImageCount", "ParticipantCounts", "Progress", "read_progress", "read_roster"]


@dataclass(frozen=True, slots=True)
class ParticipantCounts:
    """Numbers of participants; active are those who are neither finished nor released."""

    started: int
    active: int
    finished: int
    released: int


@dataclass(frozen=True, slots=True)
class ImageCount:
    """Answers of an image (or task): given, reserved and wanted."""

    image: str
    answers: int
    open: int
    wanted: int


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a study. `simulated`: no person has started yet, the counts are of simulated people."""

    simulated: bool
    paused: bool
    participants: ParticipantCounts
    images: tuple[ImageCount, ...]

    @property
    def given(self) -> int:
        """Return the number of answers to test images, first showings only."""
        return sum(image.answers for image in self.images)

    @property
    def wanted(self) -> int:
        """Return the number of answers after which the study is complete."""
        return sum(image.wanted for image in self.images)


def read_progress(connection: sa.Connection, study: Study, pool: Pool) -> Progress:
    """Return the progress of `study`. People are counted; simulated ones only while there is nobody else."""
    p = participants.c
    own_rows = p.study == study.name
    person = connection.execute(sa.select(p.number).where(own_rows, p.simulated.is_(None)).limit(1)).first()
    anybody = connection.execute(sa.select(p.number).where(own_rows).limit(1)).first()
    simulated = person is None and anybody is not None
    return Progress(
        simulated=simulated,
        paused=is_paused(connection, study),
        participants=_count_participants(connection, study, simulated),
        images=_count_answers(connection, study, pool, simulated),
    )


def _count_participants(connection: sa.Connection, study: Study, simulated: bool) -> ParticipantCounts:
    p = participants.c
    same_kind = p.simulated.is_not(None) if simulated else p.simulated.is_(None)
    query = sa.select(p.finished.is_not(None), p.released.is_not(None)).where(p.study == study.name, same_kind)
    rows = connection.execute(query).all()
    finished = sum(bool(row[0]) for row in rows)
    released = sum(bool(row[1]) and not row[0] for row in rows)
    return ParticipantCounts(len(rows), len(rows) - finished - released, finished, released)


def _count_answers(connection: sa.Connection, study: Study, pool: Pool, simulated: bool) -> tuple[ImageCount, ...]:
    s = showings.c
    where = (s.study == study.name, s.simulated.is_(simulated), s.role == "test", s.released.is_(None))
    query = sa.select(s.item, sa.func.count(), sa.func.count(s.received)).where(*where).group_by(s.item)
    counts = {item: (load, answers) for item, load, answers in connection.execute(query)}
    names = {item.item: str(item.facts.get("image") or item.item) for item in pool.by_role("test")}
    frequency = Counter(names.values())
    images = []
    for item, name in names.items():
        load, answers = counts.get(item, (0, 0))
        unique = name if frequency[name] == 1 else f"{name} ({item[:12]})"  # the same file name in several conditions
        images.append(ImageCount(unique, answers, load - answers, study.answers))
    return tuple(images)


def read_roster(study: Study, pool: Pool, store: Store) -> pl.DataFrame:
    """Return one row per participant, in the order in which they started.

    `bonus` is the sum that their blocks have earned, null in studies without bonus. Columns `about_NAME` are the
    answers to the demographic questions; null where a question was skipped.
    """

    def read_rows(connection: sa.Connection) -> list[dict[str, Any]]:
        query = sa.select(participants).where(participants.c.study == study.name).order_by(participants.c.number)
        return [
            {
                "participant": observer_name(store.study_id, row.number, row.simulated),
                **_roster_row(connection, study, pool, row),
            }
            for row in connection.execute(query).all()
        ]

    types = {"finished": pl.Boolean, "answers": pl.Int64, "bonus": pl.Float64, "pixels_per_cm": pl.Float64}
    about = [f"about_{name}" for name in study.participants.demographics]
    columns = ("participant", "platform_id", "code", *types, *about)
    with report_damaged_rows(study.root):
        return pl.DataFrame(store.read(read_rows), schema={name: types.get(name, pl.String) for name in columns})


def _roster_row(connection: sa.Connection, study: Study, pool: Pool, participant: Any) -> dict[str, Any]:
    s = showings.c
    query = sa.select(s.block, s.role, s.received).where(s.study == study.name, s.number == participant.number)
    rows = connection.execute(query).all()
    bonus = None
    if study.timing is not None and study.timing.bonus:
        unfinished = set() if participant.finished else {row.block for row in rows if row.received is None}
        answered = {row.block for row in rows if row.received is not None and row.role != "warmup"}
        results = [
            block_result(connection, study, pool, participant.number, block) for block in sorted(answered - unfinished)
        ]
        bonus = study.timing.bonus * sum(result is not None and result.bonus for result in results)
    demographics = json.loads(participant.demographics or "{}")
    return {
        "platform_id": participant.platform_id,
        "code": participant.code,
        "finished": participant.finished is not None,
        "answers": sum(row.received is not None for row in rows),
        "bonus": bonus,
        "pixels_per_cm": participant.pixels_per_cm,
        **{f"about_{name}": demographics.get(name) or None for name in study.participants.demographics},
    }

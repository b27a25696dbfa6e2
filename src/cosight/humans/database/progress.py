"""The progress of a study: participants, answers per image, and the roster of who took part."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import polars as pl
import sqlalchemy as sa

from cosight.humans.database.assign_trials import is_paused
from cosight.humans.database.participants import read_screening
from cosight.humans.database.save_answers import block_result
from cosight.humans.database.schema import participants, report_damaged_rows, showings
from cosight.humans.database.store import Store
from cosight.humans.database.study_trials import observer_name
from cosight.humans.study.design import Study
from cosight.humans.study.pool import Pool

__all__ = [
    "AnswerCount",
    "ImageCount",
    "ParticipantCounts",
    "Progress",
    "Summary",
    "image_names",
    "read_image_counts",
    "read_progress",
    "read_roster",
    "read_summary",
]


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


@dataclass(frozen=True, slots=True)
class AnswerCount:
    """How many images have so many answers, given and reserved."""

    answers: int
    open: int
    images: int


@dataclass(frozen=True, slots=True)
class Summary:
    """The progress of a study in a few rows, however large its set is: images by their number of answers."""

    simulated: bool
    paused: bool
    participants: ParticipantCounts
    counts: tuple[AnswerCount, ...]
    wanted: int

    @property
    def given(self) -> int:
        """Return the number of answers to test images, first showings only."""
        return sum(count.answers * count.images for count in self.counts)


def read_progress(connection: sa.Connection, study: Study, pool: Pool) -> Progress:
    """Return the progress of `study`. People are counted; simulated ones only while there is nobody else."""
    simulated = _only_simulated(connection, study)
    return Progress(
        simulated=simulated,
        paused=is_paused(connection, study),
        participants=_count_participants(connection, study, simulated),
        images=read_image_counts(connection, study, image_names(pool)),
    )


def read_summary(connection: sa.Connection, study: Study, pool: Pool) -> Summary:
    """Return the progress of `study` without its images. The same people are counted as in `read_progress`."""
    simulated, tests = _only_simulated(connection, study), len(pool.by_role("test"))
    items = _count_showings(study, simulated).subquery()
    query = sa.select(items.c.answers, items.c.load - items.c.answers, sa.func.count())
    rows = connection.execute(query.group_by(items.c.answers, items.c.load).order_by(items.c.answers, items.c.load))
    counts = [AnswerCount(*row) for row in rows]
    not_shown = tests - sum(count.images for count in counts)
    return Summary(
        simulated=simulated,
        paused=is_paused(connection, study),
        participants=_count_participants(connection, study, simulated),
        counts=(*([AnswerCount(0, 0, not_shown)] if not_shown else []), *counts),
        wanted=tests * study.answers,
    )


def _only_simulated(connection: sa.Connection, study: Study) -> bool:
    """Whether simulated people have taken part, and nobody else."""
    p = participants.c
    own_rows = p.study == study.name
    person = connection.execute(sa.select(p.number).where(own_rows, p.simulated.is_(None)).limit(1)).first()
    anybody = connection.execute(sa.select(p.number).where(own_rows).limit(1)).first()
    return person is None and anybody is not None


def _count_participants(connection: sa.Connection, study: Study, simulated: bool) -> ParticipantCounts:
    p = participants.c
    same_kind = p.simulated.is_not(None) if simulated else p.simulated.is_(None)
    query = sa.select(p.finished.is_not(None), p.released.is_not(None)).where(p.study == study.name, same_kind)
    rows = connection.execute(query).all()
    finished = sum(bool(row[0]) for row in rows)
    released = sum(bool(row[1]) and not row[0] for row in rows)
    return ParticipantCounts(len(rows), len(rows) - finished - released, finished, released)


def _count_showings(study: Study, simulated: bool, items: Sequence[str] | None = None) -> sa.Select[Any]:
    """Return the query of each test item's showings and answers, of all items or of some."""
    s = showings.c
    where = [s.study == study.name, s.simulated.is_(simulated), s.role == "test", s.released.is_(None)]
    if items is not None:
        where.append(s.item.in_(items))
    counts = (sa.func.count().label("load"), sa.func.count(s.received).label("answers"))
    return sa.select(s.item, *counts).where(*where).group_by(s.item)


def image_names(pool: Pool) -> dict[str, str]:
    """Return the names of test items for the experimenter, in the order of the set."""
    names = {item.item: str(item.facts.get("image") or item.item) for item in pool.by_role("test")}
    frequency = Counter(names.values())  # the same file name in several conditions
    return {item: name if frequency[name] == 1 else f"{name} ({item[:12]})" for item, name in names.items()}


def read_image_counts(
    connection: sa.Connection, study: Study, names: Mapping[str, str], *, first: int = 0, count: int | None = None
) -> tuple[ImageCount, ...]:
    """Return the answers of the images in `names`, or of `count` of them from the one at `first`."""
    last = None if count is None else first + count
    part = dict(islice(names.items(), first, last))
    query = _count_showings(study, _only_simulated(connection, study), None if count is None else list(part))
    counts = {item: (load, answers) for item, load, answers in connection.execute(query)}
    images = []
    for item, name in part.items():
        load, answers = counts.get(item, (0, 0))
        images.append(ImageCount(name, answers, load - answers, study.answers))
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

    types = {
        "finished": pl.Boolean,
        "screened_out": pl.Boolean,
        "answers": pl.Int64,
        "bonus": pl.Float64,
        "pixels_per_cm": pl.Float64,
    }
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
        "screened_out": not all(read_screening(connection, study, participant.number).values()),
        "answers": sum(row.received is not None for row in rows),
        "bonus": bonus,
        "pixels_per_cm": participant.pixels_per_cm,
        **{f"about_{name}": demographics.get(name) or None for name in study.participants.demographics},
    }

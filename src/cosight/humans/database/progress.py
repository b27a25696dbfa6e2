"""How far a study is: participants, answers, and the answers of each image."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import sqlalchemy as sa

from cosight.humans.database.schema import participants, showings, studies
from cosight.humans.study.design import Study
from cosight.humans.study.pool import Pool

__all__ = ["ImageCount", "People", "Progress", "progress"]


@dataclass(frozen=True, slots=True)
class People:
    """Participants; who is neither finished nor released is active."""

    started: int
    active: int
    finished: int
    released: int


@dataclass(frozen=True, slots=True)
class ImageCount:
    """How many answers an image (or task) has, how many are promised, and how many it should have."""

    image: str
    answers: int
    open: int
    wanted: int


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a study is. `simulated`: nobody real has come yet, the counts are of simulated people."""

    simulated: bool
    paused: bool
    participants: People
    images: tuple[ImageCount, ...]

    @property
    def given(self) -> int:
        """Answers about test images, first showings only."""
        return sum(image.answers for image in self.images)

    @property
    def wanted(self) -> int:
        """Answers after which the study is complete."""
        return sum(image.wanted for image in self.images)


def progress(connection: sa.Connection, study: Study, pool: Pool) -> Progress:
    """How far `study` is. Real people are counted; simulated ones only while there is nobody else."""
    p = participants.c
    person = p.simulated.is_(None)
    real = connection.execute(sa.select(p.number).where(p.study == study.name, person).limit(1)).first()
    anyone = connection.execute(sa.select(p.number).where(p.study == study.name).limit(1)).first()
    simulated = real is None and anyone is not None
    paused = connection.execute(sa.select(studies.c.paused).where(studies.c.study == study.name)).scalar_one()
    return Progress(
        simulated=simulated,
        paused=bool(paused),
        participants=_people(connection, study, simulated),
        images=_images(connection, study, pool, simulated),
    )


def _people(connection: sa.Connection, study: Study, simulated: bool) -> People:
    p = participants.c
    who = p.simulated.is_not(None) if simulated else p.simulated.is_(None)
    ended, left = p.finished.is_not(None), p.released.is_not(None)
    rows = connection.execute(sa.select(ended, left).where(p.study == study.name, who)).all()
    finished = sum(bool(row[0]) for row in rows)
    released = sum(bool(row[1]) and not row[0] for row in rows)
    return People(len(rows), len(rows) - finished - released, finished, released)


def _images(connection: sa.Connection, study: Study, pool: Pool, simulated: bool) -> tuple[ImageCount, ...]:
    s = showings.c
    there = (s.study == study.name, s.simulated.is_(simulated), s.role == "test", s.released.is_(None))
    query = sa.select(s.item, sa.func.count(), sa.func.count(s.received)).where(*there).group_by(s.item)
    counts = {item: (loaded, given) for item, loaded, given in connection.execute(query)}
    tests = pool.by_role("test")
    names = Counter(str(one.facts.get("image") or one.item) for one in tests)
    out = []
    for one in tests:
        loaded, given = counts.get(one.item, (0, 0))
        name = str(one.facts.get("image") or one.item)
        told = name if names[name] == 1 else f"{name} ({one.item[:12]})"  # the same file name in several conditions
        out.append(ImageCount(told, given, loaded - given, study.answers))
    return tuple(out)

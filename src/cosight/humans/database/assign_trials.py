"""Handing out images: the draw of an assignment, and its way back when somebody leaves.

All of it runs in a transaction under the study's lock, so that two processes never hand out the same last place.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from cosight.humans.database.schema import participants, showings, studies
from cosight.humans.refusals import Refused
from cosight.humans.study.assignment import Assigned, assign
from cosight.humans.study.design import Study
from cosight.humans.study.pool import Pool

__all__ = ["TRIAL", "Showing", "draw", "has_room", "loads_of", "open_showings", "release_idle", "update_participant"]

TRIAL = re.compile(r"[A-Za-z0-9_-]{22}")  # what a trial is called: 16 random bytes in base 64
_MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class Showing:
    """An item as it is, or will be, shown to a participant."""

    position: int
    trial: str
    item: str
    role: str
    block: int
    order: tuple[int, ...]
    received: float | None


def open_showings(connection: sa.Connection, study: Study, number: int) -> tuple[Showing, ...]:
    """All that participant `number` was handed and has not lost, in order."""
    c = showings.c
    columns = (c.position, c.trial, c.item, c.role, c.block, c.arrangement, c.received)
    mine = (c.study == study.name, c.number == number, c.released.is_(None))
    rows = connection.execute(sa.select(*columns).where(*mine).order_by(c.position))
    return tuple(Showing(*row[:5], tuple(json.loads(row[5])), row[6]) for row in rows)


def draw(connection: sa.Connection, study: Study, pool: Pool, number: int, *, now: float) -> tuple[Showing, ...]:
    """The participant's showings: those they have, else new ones while the study is not paused and needs answers."""
    update_participant(connection, study, number, seen=now, released=None)
    have = open_showings(connection, study, number)
    finished, simulated = _state(connection, study, number)
    if finished or any(one.received is None for one in have):
        return have
    ever = _handed_out(connection, study, number)
    if have and len(have) == ever:
        return have  # all answered, nothing lost
    if _is_paused(connection, study):
        raise Refused(423, "the study is paused")
    release_idle(connection, study, now)
    loads = loads_of(connection, study, simulated=simulated)
    assigned = assign(study, pool, number=number, loads=loads, seen={one.item for one in have})
    if not assigned and not have:
        raise Refused(423, "the study has all the answers it needs")
    _insert(connection, study, number, assigned, first=ever, simulated=simulated)
    return open_showings(connection, study, number)


def _state(connection: sa.Connection, study: Study, number: int) -> tuple[bool, bool]:
    """Whether a participant has finished, and whether they are simulated."""
    c = participants.c
    row = connection.execute(sa.select(c.finished, c.simulated).where(c.study == study.name, c.number == number)).one()
    return row.finished is not None, row.simulated is not None


def _handed_out(connection: sa.Connection, study: Study, number: int) -> int:
    """How many showings a participant was ever given, also those that were taken back."""
    c = showings.c
    query = sa.select(sa.func.count()).where(c.study == study.name, c.number == number)
    return connection.execute(query).scalar_one()


def _is_paused(connection: sa.Connection, study: Study) -> bool:
    return bool(connection.execute(sa.select(studies.c.paused).where(studies.c.study == study.name)).scalar())


def _insert(
    connection: sa.Connection,
    study: Study,
    number: int,
    assigned: Sequence[Assigned],
    *,
    first: int,
    simulated: bool,
) -> None:
    """Write showings from position `first` on."""
    rows: list[dict[str, Any]] = [
        {
            "study": study.name,
            "number": number,
            "position": first + place,
            "trial": secrets.token_urlsafe(16),
            "simulated": simulated,
            "item": one.item,
            "role": one.role,
            "block": one.block,
            "arrangement": json.dumps(one.order),
            "repeat_of": None if one.repeat_of is None else first + one.repeat_of,
            "form": one.form,
        }
        for place, one in enumerate(assigned)
    ]
    if rows:
        connection.execute(sa.insert(showings), rows)


def loads_of(connection: sa.Connection, study: Study, *, simulated: bool) -> dict[str, int]:
    """How many answers each test item has or is promised, among people or among simulated people."""
    c = showings.c
    there = (c.study == study.name, c.simulated.is_(simulated), c.role == "test", c.released.is_(None))
    counts = connection.execute(sa.select(c.item, sa.func.count().label("load")).where(*there).group_by(c.item))
    return {row.item: row.load for row in counts}


def has_room(connection: sa.Connection, study: Study, pool: Pool, now: float, *, simulated: bool) -> bool:
    """Whether some test item still wants an answer."""
    release_idle(connection, study, now)
    loads = loads_of(connection, study, simulated=simulated)
    return any(loads.get(item.item, 0) < study.answers for item in pool.by_role("test"))


def release_idle(connection: sa.Connection, study: Study, now: float) -> None:
    """Take back what people who left have not answered; what they answered stays."""
    since = now - study.design.idle * _MINUTE
    c = participants.c
    quiet = sa.select(c.number).where(c.study == study.name, c.finished.is_(None), c.released.is_(None), c.seen < since)
    for number in connection.execute(quiet).scalars().all():
        last = _last_answer(connection, study, number)
        if last is not None and last >= since:  # they answer: look again when that is long ago
            update_participant(connection, study, number, seen=last)
        else:
            _release(connection, study, number, now)


def _last_answer(connection: sa.Connection, study: Study, number: int) -> float | None:
    c = showings.c
    return connection.execute(
        sa.select(sa.func.max(c.received)).where(c.study == study.name, c.number == number)
    ).scalar()


def _release(connection: sa.Connection, study: Study, number: int, now: float) -> None:
    c = showings.c
    mine = (c.study == study.name, c.number == number, c.received.is_(None), c.released.is_(None))
    # an answer that is being written at this moment holds its row: it stays, and we do not wait while we hold the lock
    free = connection.execute(sa.select(c.trial).where(*mine).with_for_update(skip_locked=True)).scalars().all()
    connection.execute(sa.update(showings).where(c.trial.in_(free)).values(released=now))
    if not connection.execute(sa.select(c.trial).where(*mine).limit(1)).first():
        update_participant(connection, study, number, released=now)


def update_participant(connection: sa.Connection, study: Study, number: int, **values: Any) -> None:
    """Write what a participant told, or that they were here."""
    mine = (participants.c.study == study.name, participants.c.number == number)
    connection.execute(sa.update(participants).where(*mine).values(**values))

"""Assign trials to participants, and return those of people who left to the pool.

Every function runs in a transaction under the study's lock, so that two processes never assign the same last showing.
"""

from __future__ import annotations

import json
import re
import secrets
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from cosight.humans.database.schema import participants, showings, studies
from cosight.humans.database.store import RequestError
from cosight.humans.study.assignment import assign
from cosight.humans.study.design import Study
from cosight.humans.study.pool import Pool

__all__ = [
    "RETRY_AFTER",
    "TRIAL",
    "Showing",
    "assign_trials",
    "check_free_images",
    "count_loads",
    "is_paused",
    "read_showings",
    "release",
    "release_idle",
    "update_participant",
]

RETRY_AFTER = 3  # seconds between two requests of somebody who waits for an image
TRIAL = re.compile(r"[A-Za-z0-9_-]{22}")  # the name of a trial: 16 random bytes in base 64


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


def read_showings(connection: sa.Connection, study: Study, number: int) -> tuple[Showing, ...]:
    """Return the showings of participant `number` that were not released, in order."""
    c = showings.c
    columns = (c.position, c.trial, c.item, c.role, c.block, c.arrangement, c.received)
    where = (c.study == study.name, c.number == number, c.released.is_(None))
    rows = connection.execute(sa.select(*columns).where(*where).order_by(c.position))
    return tuple(Showing(*row[:5], tuple(json.loads(row[5])), row[6]) for row in rows)


def assign_trials(
    connection: sa.Connection, study: Study, pool: Pool, number: int, *, now: float
) -> tuple[Showing, ...]:
    """Return the participant's showings. Adds new ones if all are answered and the study needs more answers.

    Raises RequestError if a participant without showings cannot get any, now or ever.
    """
    update_participant(connection, study, number, seen=now, released=None)
    current = read_showings(connection, study, number)
    c = participants.c
    state = connection.execute(
        sa.select(c.finished, c.simulated).where(c.study == study.name, c.number == number)
    ).one()
    if state.finished is not None or any(showing.received is None for showing in current):
        return current
    own_rows = (showings.c.study == study.name, showings.c.number == number)
    first = connection.execute(sa.select(sa.func.count()).where(*own_rows)).scalar_one()  # released ones count too
    if current and len(current) == first:
        return current  # all answered, none released
    if is_paused(connection, study):
        raise RequestError(423, "the study is paused")
    release_idle(connection, study, now)
    simulated = state.simulated is not None
    loads = count_loads(connection, study, simulated=simulated)
    planned = assign(study, pool, number=number, loads=loads, seen={showing.item for showing in current})
    if not planned and not current:
        raise _no_images(connection, study, pool, simulated=simulated)
    rows: list[dict[str, Any]] = [
        {
            "study": study.name,
            "number": number,
            "position": first + index,
            "trial": secrets.token_urlsafe(16),
            "simulated": simulated,
            "item": showing.item,
            "role": showing.role,
            "block": showing.block,
            "arrangement": json.dumps(showing.order),
            "repeat_of": None if showing.repeat_of is None else first + showing.repeat_of,
            "form": showing.form,
        }
        for index, showing in enumerate(planned)
    ]
    if rows:
        connection.execute(sa.insert(showings), rows)
    return read_showings(connection, study, number)


def is_paused(connection: sa.Connection, study: Study) -> bool:
    """Whether the experimenter has paused the study."""
    return bool(connection.execute(sa.select(studies.c.paused).where(studies.c.study == study.name)).scalar())


def count_loads(connection: sa.Connection, study: Study, *, simulated: bool, answered: bool = False) -> dict[str, int]:
    """Return the number of given and reserved answers per test item, of people or of simulated people.

    With `answered`, only given answers count.
    """
    c = showings.c
    where = (c.study == study.name, c.simulated.is_(simulated), c.role == "test", c.released.is_(None))
    count = sa.func.count(c.received) if answered else sa.func.count()
    rows = connection.execute(sa.select(c.item, count.label("load")).where(*where).group_by(c.item))
    return {row.item: row.load for row in rows}


def check_free_images(connection: sa.Connection, study: Study, pool: Pool, now: float, *, simulated: bool) -> None:
    """Raise RequestError where every test item has its answers, or is reserved for those who will give them."""
    release_idle(connection, study, now)
    loads = count_loads(connection, study, simulated=simulated)
    if all(loads.get(item.item, 0) >= study.answers for item in pool.by_role("test")):
        raise _no_images(connection, study, pool, simulated=simulated)


def _no_images(connection: sa.Connection, study: Study, pool: Pool, *, simulated: bool) -> RequestError:
    """Return why there is no image for a new participant: the study is complete, or others have reserved the rest."""
    given = count_loads(connection, study, simulated=simulated, answered=True)
    if all(given.get(item.item, 0) >= study.answers for item in pool.by_role("test")):
        return RequestError(423, "the study has all the answers it needs")
    return RequestError(423, "all images are reserved for other participants", retry_after=RETRY_AFTER)


def release_idle(connection: sa.Connection, study: Study, now: float) -> None:
    """Return the unanswered showings of people who left to the pool; their answers stay."""
    since = now - study.design.idle * 60.0
    c = participants.c
    idle = sa.select(c.number).where(c.study == study.name, c.finished.is_(None), c.released.is_(None), c.seen < since)
    for number in connection.execute(idle).scalars().all():
        own_rows = (showings.c.study == study.name, showings.c.number == number)
        last = connection.execute(sa.select(sa.func.max(showings.c.received)).where(*own_rows)).scalar()
        if last is not None and last >= since:  # they still answer: check again when that is long ago
            update_participant(connection, study, number, seen=last)
        else:
            release(connection, study, number, now=now)


def release(connection: sa.Connection, study: Study, number: int, *, now: float) -> None:
    """Return a participant's unanswered showings to the pool; they count as somebody who left."""
    c = showings.c
    unanswered = (c.study == study.name, c.number == number, c.received.is_(None), c.released.is_(None))
    # an answer that is being written at this moment has its row locked: it stays, and we do not wait for it
    free = connection.execute(sa.select(c.trial).where(*unanswered).with_for_update(skip_locked=True)).scalars().all()
    connection.execute(sa.update(showings).where(c.trial.in_(free)).values(released=now))
    if not connection.execute(sa.select(c.trial).where(*unanswered).limit(1)).first():
        update_participant(connection, study, number, released=now)


def update_participant(connection: sa.Connection, study: Study, number: int, **values: Any) -> None:
    """Set columns of a participant's row."""
    own_row = (participants.c.study == study.name, participants.c.number == number)
    connection.execute(sa.update(participants).where(*own_row).values(**values))

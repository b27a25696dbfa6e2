"""Assign trials to participants, and return those of people who left to the pool.

Every function runs in a transaction under the study's lock, so that two processes never assign the same last showing.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from cosight.humans.database.schema import loads, participants, showings, studies
from cosight.humans.database.store import RequestError
from cosight.humans.study.assignment import assign, choose_overlap, find_forms, make_forms
from cosight.humans.study.design import Study
from cosight.humans.study.pool import Pool

__all__ = [
    "RETRY_AFTER",
    "TRIAL",
    "Showing",
    "assign_trials",
    "check_free_images",
    "count_loads",
    "fill_loads",
    "is_paused",
    "read_showings",
    "release",
    "release_idle",
    "update_participant",
]

RETRY_AFTER = 3  # seconds between two requests of somebody who waits for an image
_CANDIDATES = 400  # least loaded items of a larger set that a participant's images are drawn from
TRIAL = re.compile(r"[A-Za-z0-9_-]{22}")  # the name of a trial: 16 random bytes in base 64
_S = showings.c
_READ = (
    sa.select(_S.position, _S.trial, _S.item, _S.role, _S.block, _S.arrangement, _S.received)
    .where(_S.study == sa.bindparam("study"), _S.number == sa.bindparam("number"), _S.released.is_(None))
    .order_by(_S.position)
)


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
    rows = connection.execute(_READ, {"study": study.name, "number": number})
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
    simulated = state.simulated is not None
    fill_loads(connection, study, pool, simulated=simulated)
    release_idle(connection, study, now)
    seen = {showing.item for showing in current}
    candidates, item_loads = _find_candidates(connection, study, pool, seen, simulated=simulated)
    planned = assign(study, pool, number=number, loads=item_loads, seen=seen, candidates=candidates)
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
        tests = [showing.item for showing in planned if showing.role == "test"]
        _change_loads(connection, study, tests, +1, simulated=simulated)
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


def _find_candidates(
    connection: sa.Connection, study: Study, pool: Pool, seen: Collection[str], *, simulated: bool
) -> tuple[Collection[str] | None, Mapping[str, int]]:
    """Return the test items to draw from (None: all), and their loads.

    From a large set these are the least loaded items, in random order among equals: of the set, of each condition where
    conditions are balanced, or those of one form. Which conditions a participant sees then follows from the loads of
    these items. Images of the overlap are always among them.
    """
    design, tests = study.design, pool.by_role("test")
    balanced = study.timing is not None
    count = max(_CANDIDATES, 4 * design.images) // (2 if balanced else 1) + len(seen)
    if len(tests) <= count * (len(pool.conditions) if balanced else 1):
        return None, count_loads(connection, study, simulated=simulated)
    c = loads.c
    needed = sa.select(c.item, c.load).where(*_own_loads(study, simulated), c.load < study.answers)
    least = needed.order_by(c.load, c.rank)
    if design.forms:
        started = find_forms(study, pool, seen)
        first = [] if started else list(connection.execute(least.limit(1)).scalars())
        numbers = started or find_forms(study, pool, first)
        fixed = [name for number in numbers for name in make_forms(study, pool)[number]]
        rows: list[Any] = []
    else:
        fixed = sorted(choose_overlap(study, pool))
        queries = [least.where(c.condition == (name or "")) for name in pool.conditions] if balanced else [least]
        rows = [row for query in queries for row in connection.execute(query.limit(count))]
    own = sa.select(c.item, c.load).where(*_own_loads(study, simulated), c.item.in_(fixed))
    found = {row.item: row.load for row in [*rows, *(connection.execute(own) if fixed else ())]}
    return list(found), found


def _own_loads(study: Study, simulated: bool) -> tuple[sa.ColumnElement[bool], ...]:
    return loads.c.study == study.name, loads.c.simulated.is_(simulated)


def fill_loads(connection: sa.Connection, study: Study, pool: Pool, *, simulated: bool) -> None:
    """Count the loads of a study that has none yet: a new one, or one with another design."""
    if connection.execute(sa.select(loads.c.item).where(*_own_loads(study, simulated)).limit(1)).first():
        return
    counts = count_loads(connection, study, simulated=simulated)
    rows = [
        {
            "study": study.name,
            "simulated": simulated,
            "item": item.item,
            "condition": item.facts.get("condition") or "",
            "load": counts.get(item.item, 0),
            "rank": _rank(study, item.item, counts.get(item.item, 0)),
        }
        for item in pool.by_role("test")
    ]
    connection.execute(sa.insert(loads), rows)


def _change_loads(
    connection: sa.Connection, study: Study, items: Sequence[str], change: int, *, simulated: bool
) -> None:
    """Add `change` to the loads of `items`, where they have been counted."""
    own_rows = (*_own_loads(study, simulated), loads.c.item.in_(items))
    rows = [
        {"key": row.item, "load": row.load + change, "rank": _rank(study, row.item, row.load + change)}
        for row in connection.execute(sa.select(loads.c.item, loads.c.load).where(*own_rows))
    ]
    if rows:
        values: dict[str, Any] = {name: sa.bindparam(name) for name in ("load", "rank")}
        own_row = (*_own_loads(study, simulated), loads.c.item == sa.bindparam("key"))
        connection.execute(sa.update(loads).where(*own_row).values(values), rows)


def _rank(study: Study, item: str, load: int) -> int:
    """Return the place of an item among those of the same load, drawn again for each load."""
    key = f"{study.seed}/{load}/{item}".encode()
    return int.from_bytes(hashlib.sha256(key).digest()[:4], "big") >> 1


def check_free_images(connection: sa.Connection, study: Study, pool: Pool, now: float, *, simulated: bool) -> None:
    """Raise RequestError where every test item has its answers, or is reserved for those who will give them."""
    release_idle(connection, study, now)
    fill_loads(connection, study, pool, simulated=simulated)
    free = sa.select(loads.c.item).where(*_own_loads(study, simulated), loads.c.load < study.answers).limit(1)
    if not connection.execute(free).first():
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
        received = showings.c.received  # after `now`: the clock was set back
        own_rows = (showings.c.study == study.name, showings.c.number == number, received <= now)
        last = connection.execute(sa.select(sa.func.max(received)).where(*own_rows)).scalar()
        if last is not None and last >= since:  # they still answer: check again when that is long ago
            update_participant(connection, study, number, seen=last)
        else:
            release(connection, study, number, now=now)


def release(connection: sa.Connection, study: Study, number: int, *, now: float) -> None:
    """Return a participant's unanswered showings to the pool; they count as somebody who left."""
    c = showings.c
    unanswered = (c.study == study.name, c.number == number, c.received.is_(None), c.released.is_(None))
    # an answer that is being written at this moment has its row locked: it stays, and we do not wait for it
    columns = (c.trial, c.item, c.role, c.simulated)
    free = connection.execute(sa.select(*columns).where(*unanswered).with_for_update(skip_locked=True)).all()
    connection.execute(sa.update(showings).where(c.trial.in_([row.trial for row in free])).values(released=now))
    tests = [row.item for row in free if row.role == "test"]
    if tests:
        _change_loads(connection, study, tests, -1, simulated=free[0].simulated)
    if not connection.execute(sa.select(c.trial).where(*unanswered).limit(1)).first():
        update_participant(connection, study, number, released=now)


def update_participant(connection: sa.Connection, study: Study, number: int, **values: Any) -> None:
    """Set columns of a participant's row."""
    own_row = (participants.c.study == study.name, participants.c.number == number)
    connection.execute(sa.update(participants).where(*own_row).values(**values))

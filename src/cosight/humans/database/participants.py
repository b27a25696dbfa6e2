"""Participants: how they begin, what they tell of themselves, and how they end. All in a transaction of others."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace

import sqlalchemy as sa

from cosight.errors import InvalidInput
from cosight.humans.database.assign_trials import has_room, open_showings, update_participant
from cosight.humans.database.schema import participants, studies
from cosight.humans.refusals import Refused
from cosight.humans.study.design import Study
from cosight.humans.study.pool import Pool
from cosight.humans.study.trial_types import PANEL

__all__ = [
    "Participant",
    "begin",
    "by_token",
    "finish",
    "name_of",
    "participant",
    "set_paused",
    "token_hash",
]

_IDENTITY = {"prolific": "PROLIFIC_PID", "mturk": "workerId"}  # the parameter of the platform's link
_PREVIEW = "ASSIGNMENT_ID_NOT_AVAILABLE"  # MTurk's assignmentId while a worker only looks
_TOKEN = re.compile(r"[A-Za-z0-9_-]{32}")  # 192 bits
_WORD = re.compile(r"[A-Za-z0-9_.:@#,=/+-]{1,120}")


@dataclass(frozen=True, slots=True)
class Participant:
    """What is known of a participant."""

    number: int
    simulated: str | None
    consented: bool
    demographics: bool  # whether they were asked
    pixels_per_cm: float | None
    code: str
    finished: bool


def name_of(number: int) -> str:
    """What a participant is called in the trial table.

    >>> name_of(7)
    'p0007'
    """
    return f"p{number:04d}"


def token_hash(token: str) -> str:
    """What is stored of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def begin(
    connection: sa.Connection,
    study: Study,
    pool: Pool,
    *,
    now: float,
    platform: Mapping[str, str],
    simulated: str | None = None,
    token: str | None = None,
) -> str:
    """Enter a participant, and give the token that they show from now on.

    A page that chooses the `token` itself may ask again when it heard no answer, and is entered once.
    """
    _check_words(simulated, token)
    if token is not None and by_token(connection, study, token) is not None:
        return token
    identity = None if simulated else _identity(study, platform)
    _check_open(connection, study, pool, now, simulated=simulated is not None)
    _check_new(connection, study, identity)
    token = token or secrets.token_urlsafe(24)
    number = connection.execute(sa.select(sa.func.max(participants.c.number)).where(_of(study))).scalar() or 0
    row = {
        "study": study.name,
        "number": number + 1,
        "token": token_hash(token),
        "simulated": simulated,
        "platform_id": identity,
        "platform": json.dumps(dict(platform)) if platform else None,
        "code": _code(study, simulated),
        "seen": now,
    }
    connection.execute(sa.insert(participants), row)
    return token


def _code(study: Study, simulated: str | None) -> str:
    """The platform's completion code; who says to be simulated gets one of their own, which nobody pays for."""
    own = secrets.token_hex(4).upper()
    return own if simulated is not None else study.participants.completion_code or own


def _check_words(simulated: str | None, token: str | None) -> None:
    if simulated is not None and not _WORD.fullmatch(simulated):
        raise InvalidInput(f"a simulated participant is {PANEL!r} or a model's name, got {simulated!r}")
    if token is not None and not _TOKEN.fullmatch(token):
        raise InvalidInput("a token is 32 letters, digits, - and _, drawn at random")


def _identity(study: Study, platform: Mapping[str, str]) -> str | None:
    """Who the platform says this is; None where the study is open to whoever has the link."""
    for key, value in platform.items():
        if not (_WORD.fullmatch(key) and _WORD.fullmatch(value)):
            raise InvalidInput(f"a platform's parameters are plain words, got {key!r}: {value!r}")
    if study.participants.platform not in _IDENTITY:
        return None
    if platform.get("assignmentId") == _PREVIEW:
        raise Refused(403, "this is a preview; accept the task on MTurk first")
    key = _IDENTITY[study.participants.platform]
    if key not in platform:
        raise Refused(403, f"this study is entered from {study.participants.platform}: {key} is missing in the address")
    return platform[key]


def _check_open(connection: sa.Connection, study: Study, pool: Pool, now: float, *, simulated: bool) -> None:
    if connection.execute(sa.select(studies.c.paused).where(studies.c.study == study.name)).scalar():
        raise Refused(423, "the study is paused")
    most = study.participants.participants
    here = sa.and_(
        _of(study), participants.c.simulated.is_not(None) if simulated else participants.c.simulated.is_(None)
    )
    started = sa.select(sa.func.count()).where(here, participants.c.released.is_(None))
    if most and connection.execute(started).scalar_one() >= most:
        raise Refused(423, "the study has all the participants it needs")
    if not has_room(connection, study, pool, now, simulated=simulated):
        raise Refused(423, "the study has all the answers it needs")


def _check_new(connection: sa.Connection, study: Study, identity: str | None) -> None:
    if identity is None:
        return
    same = sa.select(participants.c.number).where(_of(study), participants.c.platform_id == identity)
    if connection.execute(same).first():
        raise Refused(409, "you have taken part in this study already, or began it in another browser")


def by_token(connection: sa.Connection, study: Study, token: str) -> int | None:
    """The number of the participant whose token this is."""
    query = sa.select(participants.c.number).where(_of(study), participants.c.token == token_hash(token))
    return connection.execute(query).scalar()


def participant(connection: sa.Connection, study: Study, number: int) -> Participant:
    """What is known of participant `number`."""
    c = participants.c
    columns = (c.number, c.simulated, c.consented, c.demographics, c.pixels_per_cm, c.code, c.finished)
    row = connection.execute(sa.select(*columns).where(_of(study), c.number == number)).one()
    return Participant(
        number=row.number,
        simulated=row.simulated,
        consented=row.consented is not None,
        demographics=row.demographics is not None,
        pixels_per_cm=row.pixels_per_cm,
        code=row.code,
        finished=row.finished is not None,
    )


def finish(connection: sa.Connection, study: Study, number: int, *, now: float) -> Participant:
    """End, once everything is answered; asked again, nothing changes."""
    who = participant(connection, study, number)
    if who.finished:
        return who
    shown = open_showings(connection, study, number)
    left = sum(one.received is None for one in shown)
    if left or not shown:
        raise Refused(409, f"the study ends when everything is answered, {left or 'all'} trials are left")
    update_participant(connection, study, number, finished=now, seen=now)
    return replace(who, finished=True)


def set_paused(connection: sa.Connection, study: Study, paused: bool) -> None:
    """Stop or go on handing out images; who has some may answer them."""
    connection.execute(sa.update(studies).where(studies.c.study == study.name).values(paused=paused))


def _of(study: Study) -> sa.ColumnElement[bool]:
    return participants.c.study == study.name

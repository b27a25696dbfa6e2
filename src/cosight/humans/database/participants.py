"""Create, look up and complete participants. Every function runs inside the caller's transaction."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace

import sqlalchemy as sa

from cosight.errors import InvalidInput
from cosight.humans.database.assign_trials import (
    RETRY_AFTER,
    check_free_images,
    is_paused,
    read_showings,
    release,
)
from cosight.humans.database.schema import participants, screening, studies
from cosight.humans.database.store import RequestError
from cosight.humans.study.design import Study
from cosight.humans.study.pool import Pool
from cosight.humans.study.trial_types import PANEL

__all__ = [
    "Participant",
    "complete_participant",
    "create_participant",
    "find_by_token",
    "hash_token",
    "participant_name",
    "read_participant",
    "read_screening",
    "save_screening",
    "set_paused",
]

_IDENTITY = {"prolific": "PROLIFIC_PID", "mturk": "workerId"}  # the parameter of the platform's link
_PREVIEW = "ASSIGNMENT_ID_NOT_AVAILABLE"  # MTurk's assignmentId while a worker previews the task
_TOKEN = re.compile(r"[A-Za-z0-9_-]{32}")  # 192 bits
_WORD = re.compile(r"[A-Za-z0-9_.:@#,=/+-]{1,120}")
_C = participants.c
_OWN_ROW = (_C.study == sa.bindparam("own_study"), _C.number == sa.bindparam("own_number"))
_READ = sa.select(_C.number, _C.simulated, _C.consented, _C.demographics, _C.pixels_per_cm, _C.code, _C.finished).where(
    *_OWN_ROW
)
_FINISH = sa.update(participants).where(*_OWN_ROW).values(finished=sa.bindparam("now"), seen=sa.bindparam("now"))


@dataclass(frozen=True, slots=True)
class Participant:
    """The state of a participant."""

    number: int
    simulated: str | None
    consented: bool
    demographics: bool  # whether they have seen the questions
    pixels_per_cm: float | None
    code: str
    finished: bool


def participant_name(number: int) -> str:
    """Return the name of a participant in the trial table.

    >>> participant_name(7)
    'p0007'
    """
    return f"p{number:04d}"


def hash_token(token: str) -> str:
    """Return the hash of a token, which is what the database stores."""
    return hashlib.sha256(token.encode()).hexdigest()


def create_participant(
    connection: sa.Connection,
    study: Study,
    pool: Pool,
    *,
    now: float,
    platform: Mapping[str, str],
    simulated: str | None = None,
    token: str | None = None,
) -> str:
    """Insert a participant and return the token of their requests.

    Args:
        connection: A connection inside a transaction.
        study: The study.
        pool: Its items.
        now: Seconds since 1970.
        platform: The parameters of the platform's link.
        simulated: `panel` or a model's name for a simulated participant.
        token: A token that the page has chosen. Repeating the request with it creates no second participant.

    Raises:
        RequestError: The study takes no participants, or not this one.
        InvalidInput: A parameter is malformed.
    """
    if simulated is not None and not _WORD.fullmatch(simulated):
        raise InvalidInput(f"a simulated participant is {PANEL!r} or a model's name, got {simulated!r}")
    if token is not None and not _TOKEN.fullmatch(token):
        raise InvalidInput("a token is 32 letters, digits, - and _, drawn at random")
    if token is not None and find_by_token(connection, study, token) is not None:
        return token
    identity = None if simulated else _platform_identity(study, platform)
    _check_open(connection, study, pool, now, simulated=simulated is not None)
    own_rows = participants.c.study == study.name
    if identity is not None:
        same = sa.select(participants.c.number).where(own_rows, participants.c.platform_id == identity)
        if connection.execute(same).first():
            raise RequestError(409, "you have taken part in this study already, or began it in another browser")
    token = token or secrets.token_urlsafe(24)
    number = connection.execute(sa.select(sa.func.max(participants.c.number)).where(own_rows)).scalar() or 0
    # simulated participants get a code of their own: the platform pays for its code
    code = study.participants.completion_code if simulated is None else ""
    row = {
        "study": study.name,
        "number": number + 1,
        "token": hash_token(token),
        "simulated": simulated,
        "platform_id": identity,
        "platform": json.dumps(dict(platform)) if platform else None,
        "code": code or secrets.token_hex(4).upper(),
        "seen": now,
    }
    connection.execute(sa.insert(participants), row)
    return token


def _platform_identity(study: Study, platform: Mapping[str, str]) -> str | None:
    """Return the platform's id of this person; None where the study is open to everybody who has the link."""
    for key, value in platform.items():
        if not (_WORD.fullmatch(key) and _WORD.fullmatch(value)):
            raise InvalidInput(f"a platform's parameters are plain words, got {key!r}: {value!r}")
    if study.participants.platform not in _IDENTITY:
        return None
    if platform.get("assignmentId") == _PREVIEW:
        raise RequestError(403, "this is a preview; accept the task on MTurk first")
    host = platform.get("turkSubmitTo", "").rstrip("/")
    if study.participants.platform == "mturk" and host and host not in study.participants.mturk_hosts:
        raise RequestError(403, f"results are not sent to {host}: mturk_hosts of the study does not have it")
    key = _IDENTITY[study.participants.platform]
    if key not in platform:
        raise RequestError(
            403, f"this study is entered from {study.participants.platform}: {key} is missing in the address"
        )
    return platform[key]


def _check_open(connection: sa.Connection, study: Study, pool: Pool, now: float, *, simulated: bool) -> None:
    if is_paused(connection, study):
        raise RequestError(423, "the study is paused")
    check_free_images(connection, study, pool, now, simulated=simulated)
    c = participants.c
    same_kind = c.simulated.is_not(None) if simulated else c.simulated.is_(None)
    counts = sa.select(sa.func.count(), sa.func.count(c.finished)).where(
        c.study == study.name, same_kind, sa.or_(c.released.is_(None), c.finished.is_not(None))
    )
    limit = study.participants.participants
    present, finished = connection.execute(counts).one()
    if limit and finished >= limit:
        raise RequestError(423, "the study has all the participants it needs")
    if limit and present >= limit:
        raise RequestError(423, "the study has as many participants as it needs at present", retry_after=RETRY_AFTER)


def find_by_token(connection: sa.Connection, study: Study, token: str) -> int | None:
    """Return the number of the participant with this token; None if there is none."""
    c = participants.c
    query = sa.select(c.number).where(c.study == study.name, c.token == hash_token(token))
    return connection.execute(query).scalar()


def read_participant(connection: sa.Connection, study: Study, number: int) -> Participant:
    """Return the state of participant `number`."""
    row = connection.execute(_READ, {"own_study": study.name, "own_number": number}).one()
    return Participant(
        number=row.number,
        simulated=row.simulated,
        consented=row.consented is not None,
        demographics=row.demographics is not None,
        pixels_per_cm=row.pixels_per_cm,
        code=row.code,
        finished=row.finished is not None,
    )


def complete_participant(connection: sa.Connection, study: Study, number: int, *, now: float) -> Participant:
    """Mark a participant as finished. Raises RequestError while trials are unanswered; repeating it changes nothing."""
    participant = read_participant(connection, study, number)
    if participant.finished:
        return participant
    showings = read_showings(connection, study, number)
    unanswered = sum(showing.received is None for showing in showings)
    if unanswered or not showings:
        raise RequestError(409, f"the study ends when everything is answered, {unanswered or 'all'} trials are left")
    connection.execute(_FINISH, {"own_study": study.name, "own_number": number, "now": now})
    return replace(participant, finished=True)


def read_screening(connection: sa.Connection, study: Study, number: int) -> dict[str, bool]:
    """Return whether a participant can take part by their answer to each question so far."""
    c = screening.c
    query = sa.select(c.question, c.eligible).where(c.study == study.name, c.number == number)
    return {row.question: row.eligible for row in connection.execute(query)}


def save_screening(
    connection: sa.Connection, study: Study, number: int, *, question: str, eligible: bool, now: float
) -> dict[str, bool]:
    """Store the answer to a question and return all answers. The first answer stays; who is not eligible has left."""
    answers = read_screening(connection, study, number)
    if question not in answers:
        row = {"study": study.name, "number": number, "question": question, "eligible": eligible, "received": now}
        connection.execute(sa.insert(screening), row)
        answers[question] = eligible
    if not all(answers.values()):
        release(connection, study, number, now=now)
    return answers


def set_paused(connection: sa.Connection, study: Study, paused: bool) -> None:
    """Pause or resume assigning images; participants may answer those that they have."""
    connection.execute(sa.update(studies).where(studies.c.study == study.name).values(paused=paused))

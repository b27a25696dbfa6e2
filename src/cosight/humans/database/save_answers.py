"""Keeping answers: checked, written once, many in one transaction."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from cosight.errors import InvalidInput
from cosight.humans.database.assign_trials import TRIAL
from cosight.humans.database.schema import showings
from cosight.humans.refusals import Refused
from cosight.humans.study.design import Study
from cosight.humans.study.pool import Pool
from cosight.humans.study.trial_types import TIMES, TrialContext

__all__ = ["Answer", "BlockEnd", "Kept", "answer_of", "block_end", "keep"]

_INPUTS = ("mouse", "key", "touch")
_NO_TRIAL = "there is no such trial"
_LONGEST = 1e6  # seconds: eleven days, longer than any tab is open


@dataclass(frozen=True, slots=True)
class Answer:
    """What a page sent for a trial, well formed; whether it answers the question, `keep` finds out."""

    number: int  # the participant's
    trial: str
    response: Any
    rt: float | None
    shown: Mapping[str, Any] | None
    input: str | None


@dataclass(frozen=True, slots=True)
class BlockEnd:
    """A block that is done (from 1), and whether it earned the bonus."""

    number: int
    bonus: bool


@dataclass(frozen=True, slots=True)
class Kept:
    """What came of an answer: not `stored` where the trial had one already, which stays."""

    stored: bool
    block: BlockEnd | None = None


def answer_of(number: int, body: Mapping[str, Any]) -> Answer:
    """The answer in a request's body."""
    if not isinstance(body.get("trial"), str) or "response" not in body:
        raise InvalidInput("an answer has a trial, a response, rt, shown and input; got one without trial or response")
    if not TRIAL.fullmatch(body["trial"]):  # one that no database could hold would spoil the others' answers
        raise Refused(404, _NO_TRIAL)
    given = body.get("input")
    if given is not None and given not in _INPUTS:
        raise InvalidInput(f"input is one of {', '.join(_INPUTS)} or null")
    rt = None if body.get("rt") is None else _seconds(body["rt"], "rt")
    if rt is None and body["response"] is not None:  # or the rule about implausible times could be got round
        raise InvalidInput("a response has its time, rt; only a missed answer has none")
    return Answer(number, body["trial"], body["response"], rt, _shown(body.get("shown")), given)


def _shown(given: Any) -> Mapping[str, Any] | None:
    if given is None:
        return None
    if not isinstance(given, dict) or not given.keys() <= {*TIMES, "late"}:
        raise InvalidInput(f"shown has only {', '.join(TIMES)} and late")
    times = {name: _seconds(given[name], name) for name in TIMES if given.get(name) is not None}
    if "late" in given and not isinstance(given["late"], bool):
        raise InvalidInput("late is true or false")
    return times | ({"late": given["late"]} if "late" in given else {})


def _seconds(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not (0 <= value <= _LONGEST):
        raise InvalidInput(f"{name} is a number of seconds, 0 or more")
    return float(value)


def keep(
    connection: sa.Connection, answers: Sequence[Answer], *, study: Study, pool: Pool, now: float
) -> list[Kept | Exception]:
    """Write answers to trials that are open; each gets what came of it, or why it was refused."""
    found = _locked(connection, study, answers)
    taken: set[str] = set()
    results: list[Kept | Exception] = []
    rows: list[dict[str, Any]] = []
    for answer in answers:
        result = _judged(answer, found.get(answer.trial), study, pool, taken)
        if isinstance(result, Kept) and result.stored:
            taken.add(answer.trial)
            rows.append(_row(answer, now))
        results.append(result)
    if rows:
        _write(connection, rows)
    return [_with_block(connection, study, pool, *pair, found) for pair in zip(answers, results, strict=True)]


def _locked(connection: sa.Connection, study: Study, answers: Sequence[Answer]) -> dict[str, Any]:
    """The trials answered, by their names, for this transaction alone; always in one order, so that no two wait."""
    c = showings.c
    names = sorted({answer.trial for answer in answers})
    columns = (c.trial, c.number, c.item, c.role, c.block, c.arrangement, c.released, c.received)
    query = sa.select(*columns).where(c.study == study.name, c.trial.in_(names)).order_by(c.trial).with_for_update()
    return {row.trial: row for row in connection.execute(query)}


def _judged(answer: Answer, row: Any, study: Study, pool: Pool, taken: set[str]) -> Kept | Exception:
    if row is None or row.number != answer.number:  # another's trial is no more known than one that never was
        return Refused(404, _NO_TRIAL)
    if row.received is not None or answer.trial in taken:
        return Kept(stored=False)
    if row.released is not None:
        return Refused(410, "this trial went to somebody else after a long pause; ask for your trials again")
    try:
        asked = TrialContext(pool.items[row.item], tuple(json.loads(row.arrangement)), study.space, study.reasons)
        study.kind.parse(asked, answer.response)
    except Exception as error:  # whatever is wrong with one answer, the others are kept
        return error
    return Kept(stored=True)


def _row(answer: Answer, now: float) -> dict[str, Any]:
    return {
        "its_trial": answer.trial,
        "response": json.dumps(answer.response),
        "rt": answer.rt,
        "shown": None if answer.shown is None else json.dumps(answer.shown),
        "input": answer.input,
        "received": now,
    }


def _write(connection: sa.Connection, rows: list[dict[str, Any]]) -> None:
    values: dict[str, Any] = {name: sa.bindparam(name) for name in ("response", "rt", "shown", "input", "received")}
    mine = showings.c.trial == sa.bindparam("its_trial")
    connection.execute(sa.update(showings).where(mine, showings.c.received.is_(None)).values(values), rows)


def _with_block(
    connection: sa.Connection,
    study: Study,
    pool: Pool,
    answer: Answer,
    result: Kept | Exception,
    found: Mapping[str, Any],
) -> Kept | Exception:
    """The result, and what the block has earned if this answer was its last."""
    unpaid = study.timing is None or not study.timing.bonus
    if unpaid or isinstance(result, Exception) or found[answer.trial].role == "warmup":
        return result
    return Kept(result.stored, block_end(connection, study, pool, answer.number, found[answer.trial].block))


def block_end(connection: sa.Connection, study: Study, pool: Pool, number: int, block: int) -> BlockEnd | None:
    """What a participant's block has earned; None while it is not done, and where nothing can be earned."""
    c = showings.c
    mine = (c.study == study.name, c.number == number, c.block == block, c.released.is_(None))
    rows = connection.execute(sa.select(c.item, c.response, c.received).where(*mine)).all()
    if study.timing is None or any(row.received is None for row in rows):
        return None
    right = [json.loads(row.response) == pool.items[row.item].facts["truth"] for row in rows]
    return BlockEnd(block + 1, math.fsum(right) / len(right) > study.timing.bonus_above)

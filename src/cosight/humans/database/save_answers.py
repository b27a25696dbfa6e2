"""Check answers and write them, each once, many in one transaction."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from cosight.errors import InvalidInput
from cosight.humans.database.assign_trials import TRIAL
from cosight.humans.database.schema import showings
from cosight.humans.database.store import RequestError
from cosight.humans.study.design import Study
from cosight.humans.study.pool import Pool
from cosight.humans.study.trial_types import FLAGS, TIMES, TrialContext

__all__ = ["Answer", "BlockResult", "SaveResult", "block_result", "parse_answer", "save_answers"]

_INPUTS = ("mouse", "key", "touch")
_NO_TRIAL = "there is no such trial"
_MAX_SECONDS = 1e6  # eleven days, longer than any tab is open
_STORED = ("response", "rt", "shown", "input", "received")  # columns of an answer
# built once: building a statement takes longer than executing it
_C = showings.c
_TRIALS = (
    sa.select(_C.trial, _C.number, _C.item, _C.role, _C.block, _C.arrangement, _C.released, _C.received)
    .where(_C.study == sa.bindparam("study"), _C.trial.in_(sa.bindparam("trials", expanding=True)))
    .order_by(_C.trial)
    .with_for_update()
)
_SAVE = (
    sa.update(showings)
    .where(_C.trial == sa.bindparam("key"), _C.received.is_(None))
    .values({name: sa.bindparam(name) for name in _STORED})
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a page sent for a trial, well formed; `save_answers` checks whether it answers the question."""

    number: int  # the participant's
    trial: str
    response: Any
    rt: float | None
    shown: Mapping[str, Any] | None
    input: str | None


@dataclass(frozen=True, slots=True)
class BlockResult:
    """A completed block (from 1), and whether it earned the bonus."""

    number: int
    bonus: bool


@dataclass(frozen=True, slots=True)
class SaveResult:
    """The result of saving an answer; not `stored` where the trial had one already, which stays."""

    stored: bool
    block: BlockResult | None = None


def parse_answer(number: int, body: Mapping[str, Any]) -> Answer:
    """Return the answer in a request's body. Raises InvalidInput for a malformed one."""
    if not isinstance(body.get("trial"), str) or "response" not in body:
        raise InvalidInput("an answer has a trial, a response, rt, shown and input; got one without trial or response")
    if not TRIAL.fullmatch(body["trial"]):  # one that no database could hold would spoil the others' answers
        raise RequestError(404, _NO_TRIAL)
    input_device = body.get("input")
    if input_device is not None and input_device not in _INPUTS:
        raise InvalidInput(f"input is one of {', '.join(_INPUTS)} or null")
    rt = None if body.get("rt") is None else _parse_seconds(body["rt"], "rt")
    if rt is None and body["response"] is not None:  # otherwise the rule about response times could be evaded
        raise InvalidInput("a response has its time, rt; only a missed answer has none")
    return Answer(number, body["trial"], body["response"], rt, _parse_times(body.get("shown")), input_device)


def _parse_times(value: Any) -> Mapping[str, Any] | None:
    if value is None:
        return None
    if not isinstance(value, dict) or not value.keys() <= {*TIMES, *FLAGS}:
        raise InvalidInput(f"shown has only {', '.join((*TIMES, *FLAGS))}")
    times: dict[str, Any] = {name: _parse_seconds(value[name], name) for name in TIMES if value.get(name) is not None}
    for name in FLAGS:
        if name in value:
            if not isinstance(value[name], bool):
                raise InvalidInput(f"{name} is true or false")
            times[name] = value[name]
    return times


def _parse_seconds(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not (0 <= value <= _MAX_SECONDS):
        raise InvalidInput(f"{name} is a number of seconds, 0 or more")
    return float(value)


def save_answers(
    connection: sa.Connection, answers: Sequence[Answer], *, study: Study, pool: Pool, now: float
) -> list[SaveResult | Exception]:
    """Write the answers whose trials are open; return a result, or the reason for refusing it, per answer."""
    names = sorted({answer.trial for answer in answers})  # locked in one order, so that no two processes deadlock
    trials = {row.trial: row for row in connection.execute(_TRIALS, {"study": study.name, "trials": names})}
    rows: dict[str, dict[str, Any]] = {}
    results: list[SaveResult | Exception] = []
    for answer in answers:
        result = _check_answer(answer, trials.get(answer.trial), study, pool, answered=answer.trial in rows)
        if isinstance(result, SaveResult) and result.stored:
            rows[answer.trial] = {
                "key": answer.trial,
                "response": json.dumps(answer.response),
                "rt": answer.rt,
                "shown": None if answer.shown is None else json.dumps(answer.shown),
                "input": answer.input,
                "received": now,
            }
        results.append(result)
    if rows:
        connection.execute(_SAVE, list(rows.values()))
    if study.timing is None or not study.timing.bonus:
        return results
    for index, (answer, result) in enumerate(zip(answers, results, strict=True)):
        if isinstance(result, SaveResult) and trials[answer.trial].role != "warmup":
            block = block_result(connection, study, pool, answer.number, trials[answer.trial].block)
            results[index] = replace(result, block=block)
    return results


def _check_answer(answer: Answer, row: Any, study: Study, pool: Pool, *, answered: bool) -> SaveResult | Exception:
    if row is None or row.number != answer.number:  # another's trial looks like one that does not exist
        return RequestError(404, _NO_TRIAL)
    if row.received is not None or answered:
        return SaveResult(stored=False)
    if row.released is not None:
        return RequestError(410, "this trial went to somebody else after a long pause; ask for your trials again")
    try:
        context = TrialContext(pool.items[row.item], tuple(json.loads(row.arrangement)), study.space, study.reasons)
        study.kind.parse(context, answer.response)
    except Exception as error:  # whatever is wrong with one answer, the others are saved
        return error
    return SaveResult(stored=True)


def block_result(connection: sa.Connection, study: Study, pool: Pool, number: int, block: int) -> BlockResult | None:
    """Return what a participant's block has earned; None while it is incomplete, and in studies without timing."""
    c = showings.c
    where = (c.study == study.name, c.number == number, c.block == block, c.released.is_(None))
    rows = connection.execute(sa.select(c.item, c.response, c.received).where(*where)).all()
    if study.timing is None or any(row.received is None for row in rows):
        return None
    right = [json.loads(row.response) == pool.items[row.item].facts["truth"] for row in rows]
    return BlockResult(block + 1, math.fsum(right) / len(right) > study.timing.bonus_above)

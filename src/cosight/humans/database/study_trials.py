"""A study's answers as the trial table that everything else works on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import polars as pl
import sqlalchemy as sa

from cosight.humans.database.participants import name_of
from cosight.humans.database.schema import participants, showings
from cosight.humans.database.store import Store
from cosight.humans.study.design import Study
from cosight.humans.study.pool import Item, Pool
from cosight.humans.study.trial_types import PANEL, ParsedAnswer, TrialContext
from cosight.trials.table import SCHEMA, Trials, make_trials

__all__ = ["observer_name", "study_trials"]


def study_trials(study: Study, pool: Pool, store: Store) -> Trials:
    """Every answer given so far, one row per answer (of a clustering panel: one per row of the panel)."""
    shown: Counter[tuple[int, str]] = Counter()  # how often each participant has been shown each stimulus
    rows = []
    for found in store.read(lambda connection: _given(connection, study)):
        for row in _rows(study, pool, found):
            seen = (found.number, row["stimulus"])
            rows.append({**row, "repetition": max(shown[seen], int(found.role == "repeat"))})
            shown[seen] += 1
    frame = pl.DataFrame(rows, schema=SCHEMA)
    about = {"study": study.name, "type": study.type, "digest": study.digest, "seed": study.seed}
    return make_trials(frame, source=study.name, space=study.space, sources=[about])


def observer_name(number: int, simulated: str | None) -> str:
    """What the trial table calls a participant.

    >>> observer_name(7, None), observer_name(7, "panel"), observer_name(7, "timm:resnet50")
    ('human:p0007', 'simulated:p0007', 'simulated:timm:resnet50-p0007')
    """
    if simulated is None:
        return f"human:{name_of(number)}"
    return f"simulated:{name_of(number)}" if simulated == PANEL else f"simulated:{simulated}-{name_of(number)}"


def _given(connection: sa.Connection, study: Study) -> list[Any]:
    """Answered showings with what is known of who answered, in order."""
    s, p = showings.c, participants.c
    who = sa.and_(s.study == p.study, s.number == p.number)
    columns = (*s, p.simulated.label("who"), p.finished)
    query = sa.select(*columns).join(participants, who).where(s.study == study.name, s.received.is_not(None))
    return list(connection.execute(query.order_by(s.number, s.position)))


def _rows(study: Study, pool: Pool, found: Any) -> Iterator[dict[str, Any]]:
    item = pool.items[found.item]
    asked = TrialContext(item, tuple(json.loads(found.arrangement)), study.space, study.reasons)
    for given in study.kind.parse(asked, json.loads(found.response)):
        yield {
            "observer": observer_name(found.number, found.who),
            "kind": "human" if found.who is None else "simulated",
            "experiment": study.name,
            "stimulus": given.stimulus,
            "image": item.facts.get("image"),
            "condition": item.facts.get("condition"),
            "level": item.facts.get("level"),
            "truth": given.truth,
            "response": given.response,
            "rt": found.rt,
            "role": found.role,
            "session": name_of(found.number),
            "block": found.block,
            "trial": found.position + 1,
            "extra": json.dumps(_extra(found, item, given), ensure_ascii=False),
        }


def _extra(found: Any, item: Item, given: ParsedAnswer) -> dict[str, Any]:
    """What a row says beside the table's columns; keys that do not apply are left out."""
    extra = {
        "form": found.form,
        "expected": given.expected,
        "clear": item.clear if item.role == "distractor" else None,
        "repeat_of": None if found.repeat_of is None else found.repeat_of + 1,
        **given.extra,
        **json.loads(found.shown or "{}"),
        "input": found.input,
        "finished": found.finished is not None,
        "received": datetime.fromtimestamp(found.received, UTC).isoformat(timespec="milliseconds"),
    }
    return {name: value for name, value in extra.items() if value is not None}

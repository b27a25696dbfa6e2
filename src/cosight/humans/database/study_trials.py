"""A study's answers as the trial table that everything else works on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import polars as pl
import sqlalchemy as sa

from cosight.humans.database.participants import participant_name
from cosight.humans.database.schema import participants, report_damaged_rows, showings
from cosight.humans.database.store import Store
from cosight.humans.study.design import Study
from cosight.humans.study.pool import Pool
from cosight.humans.study.trial_types import PANEL, TrialContext
from cosight.trials.table import SCHEMA, Trials, make_trials

__all__ = ["observer_name", "study_trials"]


def study_trials(study: Study, pool: Pool, store: Store) -> Trials:
    """Return every answer given so far, one row per answer (of a clustering panel: one per row of the panel)."""
    s, p = showings.c, participants.c
    query = (
        sa.select(*s, p.simulated.label("who"), p.finished)
        .join(participants, sa.and_(s.study == p.study, s.number == p.number))
        .where(s.study == study.name, s.received.is_not(None))
        .order_by(s.number, s.position)
    )
    source = {"study": study.name, "id": store.study_id, "type": study.type, "digest": study.digest, "seed": study.seed}
    showing_rows = store.read(lambda connection: list(connection.execute(query)))
    repetitions: Counter[tuple[int, str]] = Counter()  # showings of each stimulus to each participant
    rows = []
    with report_damaged_rows(study.root):
        for showing in showing_rows:
            for row in _trial_rows(study, pool, showing, store.study_id):
                key = (showing.number, row["stimulus"])
                rows.append({**row, "repetition": max(repetitions[key], int(showing.role == "repeat"))})
                repetitions[key] += 1
        return make_trials(pl.DataFrame(rows, schema=SCHEMA), source=study.name, space=study.space, sources=[source])


def observer_name(study_id: str, number: int, simulated: str | None) -> str:
    """Return the observer of a participant's trials, which no participant of another study has.

    >>> observer_name("5f0c9d21", 7, None), observer_name("5f0c9d21", 7, "panel")
    ('human:5f0c9d21/p0007', 'simulated:5f0c9d21/p0007')
    >>> observer_name("5f0c9d21", 7, "timm:resnet50")
    'simulated:5f0c9d21/timm:resnet50-p0007'
    """
    name = participant_name(number)
    if simulated is None:
        return f"human:{study_id}/{name}"
    return f"simulated:{study_id}/{name if simulated == PANEL else f'{simulated}-{name}'}"


def _trial_rows(study: Study, pool: Pool, showing: Any, study_id: str) -> Iterator[dict[str, Any]]:
    item = pool.items[showing.item]
    context = TrialContext(item, tuple(json.loads(showing.arrangement)), study.space, study.reasons)
    for answer in study.kind.parse(context, json.loads(showing.response)):
        extra = {
            "form": showing.form,
            "expected": answer.expected,
            "clear": item.clear if item.role == "distractor" else None,
            "repeat_of": None if showing.repeat_of is None else showing.repeat_of + 1,
            **answer.extra,
            **json.loads(showing.shown or "{}"),
            "input": showing.input,
            "finished": showing.finished is not None,
            "received": datetime.fromtimestamp(showing.received, UTC).isoformat(timespec="milliseconds"),
        }
        extra = {name: value for name, value in extra.items() if value is not None}
        yield {
            "observer": observer_name(study_id, showing.number, showing.who),
            "kind": "human" if showing.who is None else "simulated",
            "experiment": item.facts.get("experiment") or study.name,  # the set's, so that models' trials join
            "stimulus": answer.stimulus,
            "image": item.facts.get("image"),
            "condition": item.facts.get("condition"),
            "level": item.facts.get("level"),
            "truth": answer.truth,
            "response": answer.response,
            "rt": showing.rt,
            "role": showing.role,
            "session": participant_name(showing.number),
            "block": showing.block,
            "trial": showing.position + 1,
            "extra": json.dumps(extra, ensure_ascii=False),
        }

"""Who took part: what they said of themselves, how the platform knows them, what they have earned."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import sqlalchemy as sa

from cosight.humans.database.save_answers import block_end
from cosight.humans.database.schema import participants, showings
from cosight.humans.database.store import Store
from cosight.humans.database.study_trials import observer_name
from cosight.humans.study.design import Study
from cosight.humans.study.pool import Pool

__all__ = ["roster"]


def roster(study: Study, pool: Pool, store: Store) -> pl.DataFrame:
    """A row a participant, in the order in which they came.

    `bonus` is what their blocks have earned in all, null where nothing can be earned. Columns `about_NAME` are what was
    asked about the person; null where it was left out.
    """
    rows = store.read(lambda connection: [_row(connection, study, pool, who) for who in _everyone(connection, study)])
    kinds = {"finished": pl.Boolean, "answers": pl.Int64, "bonus": pl.Float64, "pixels_per_cm": pl.Float64}
    names = ("participant", "platform_id", "code", *kinds, *(_about(name) for name in study.participants.demographics))
    return pl.DataFrame(rows, schema={name: kinds.get(name, pl.String) for name in names})


def _about(name: str) -> str:
    return f"about_{name}"


def _everyone(connection: sa.Connection, study: Study) -> list[Any]:
    query = sa.select(participants).where(participants.c.study == study.name).order_by(participants.c.number)
    return list(connection.execute(query))


def _row(connection: sa.Connection, study: Study, pool: Pool, who: Any) -> dict[str, Any]:
    s = showings.c
    mine = (s.study == study.name, s.number == who.number)
    handed = connection.execute(sa.select(s.block, s.role, s.received).where(*mine)).all()
    given = [row for row in handed if row.received is not None]
    broken_off = set() if who.finished else {row.block for row in handed if row.received is None}
    blocks = sorted({row.block for row in given if row.role != "warmup"} - broken_off)
    told = json.loads(who.demographics or "{}")
    return {
        "participant": observer_name(who.number, who.simulated),
        "platform_id": who.platform_id,
        "code": who.code,
        "finished": who.finished is not None,
        "answers": len(given),
        "bonus": _earned(connection, study, pool, who.number, blocks),
        "pixels_per_cm": who.pixels_per_cm,
        **{_about(name): told.get(name) or None for name in study.participants.demographics},
    }


def _earned(connection: sa.Connection, study: Study, pool: Pool, number: int, blocks: list[int]) -> float | None:
    if study.timing is None or not study.timing.bonus:
        return None
    ends = [block_end(connection, study, pool, number, block) for block in blocks]
    return study.timing.bonus * sum(end is not None and end.bonus for end in ends)

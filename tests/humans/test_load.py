"""300 people at once, over real HTTP: no error, nothing lost, nothing twice."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from cosight.humans.database.store import Store
from cosight.humans.database.study_trials import study_trials
from cosight.humans.study.design import read_study
from cosight.humans.study.pool import load_pool


def check_all_kept(folder, crowd, *, participants, images, url=None):
    """Every acknowledged answer is stored as it was sent, once, and every image has exactly its answers."""
    import sqlalchemy as sa

    from cosight.humans.database.schema import showings

    assert crowd.errors == []
    assert len(crowd.acknowledged) == participants * images
    assert len(crowd.codes) == participants
    study = read_study(folder)
    pool, store = load_pool(study), Store.open(study, url)
    table = study_trials(study, pool, store).frame
    query = sa.select(showings.c.trial, showings.c.response).where(
        showings.c.study == study.name, showings.c.received.is_not(None)
    )
    stored = {row.trial: row.response.strip('"') for row in store.read(lambda c: c.execute(query).all())}
    store.close()
    assert stored == {one.trial: one.response for one in crowd.acknowledged}
    assert table.height == table.select("observer", "trial").n_unique() == participants * images
    assert table.select("observer", "stimulus").n_unique() == table.height  # nobody saw an image twice
    assert table["observer"].n_unique() == participants
    assert set(Counter(table["stimulus"]).values()) == {study.answers}


@pytest.mark.parametrize(("participants", "seconds"), [(21, 0.1), pytest.param(300, 1.0, marks=pytest.mark.slow)])
@pytest.mark.slow
def test_a_crowd_on_sqlite(crowds, tmp_path, participants, seconds):
    size = crowds.Size(participants=participants, answers=4, seconds=seconds)
    folder = crowds.write_study(tmp_path, participants=size.participants, images=size.answers)
    with crowds.serve_study(folder) as server:
        crowd = asyncio.run(crowds.run_crowd(server.port, size))
    check_all_kept(folder, crowd, participants=participants, images=4)


@pytest.mark.parametrize(
    ("participants", "half_open", "files"),
    [(60, 200, 256), pytest.param(999, 1100, None, marks=pytest.mark.slow)],
)
def test_a_crowd_beside_half_open_requests(crowds, tmp_path, participants, half_open, files):
    """Requests that are never completed lock nobody out, also where the process may open few files."""
    folder = crowds.write_study(tmp_path, participants=participants, images=3)
    size = crowds.Size(participants=participants, answers=3, seconds=participants / 300)

    async def visit(port):
        async with crowds.half_open_requests(port, half_open):
            return await crowds.run_crowd(port, size)

    with crowds.serve_study(folder, files=files, log=tmp_path / "log") as server:
        crowd = asyncio.run(visit(server.port))
    check_all_kept(folder, crowd, participants=participants, images=3)
    assert (tmp_path / "log").stat().st_size < 100_000

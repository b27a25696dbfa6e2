"""`kill -9` of the server in the middle: whatever was acknowledged is there, and everybody can go on."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest
import sqlalchemy as sa

from cosight.humans.database.schema import showings
from cosight.humans.database.store import Store
from cosight.humans.study.design import read_study


def stored(folder, url=None):
    study = read_study(folder)
    store = Store.open(study, url)
    query = sa.select(showings.c.trial, showings.c.response).where(showings.c.received.is_not(None))
    found = {row.trial: row.response.strip('"') for row in store.read(lambda c: c.execute(query).all())}
    store.close()
    return found


async def answer_the_rest(crowds, port, tokens):
    """Everyone comes back with their token and answers what is left."""
    clients = [crowds.Client(port, token) for token in tokens]

    async def rest(client):
        for trial in await client.trials():
            await client.answer(trial["trial"], "zebra")
        code = await client.finish()
        client.close()
        return code

    return await asyncio.gather(*map(rest, clients))


@pytest.mark.parametrize(("people", "after"), [(10, 20), pytest.param(40, 60, marks=pytest.mark.slow)])
def test_every_acknowledged_answer_survives(crowds, tmp_path, people, after):
    """They answer as fast as they can; the server dies when so many answers have been acknowledged."""
    size = crowds.Size(participants=people, answers=6, seconds=0.0)
    folder = crowds.write_study(tmp_path, participants=size.participants, images=size.answers)
    with crowds.serve_study(folder) as server:

        def kill(crowd):
            if len(crowd.acknowledged) == after:
                os.kill(server.process.pid, signal.SIGKILL)

        crowd = asyncio.run(crowds.run_crowd(server.port, size, on_answer=kill))
        assert server.process.wait(20) == -signal.SIGKILL
    assert after <= len(crowd.acknowledged) < size.participants * size.answers
    assert crowd.errors  # the others saw the connection break
    kept = stored(folder)
    assert {one.trial: one.response for one in crowd.acknowledged}.items() <= kept.items()
    with crowds.serve_study(folder) as server:
        assert all(asyncio.run(answer_the_rest(crowds, server.port, crowd.tokens)))
    after_all = stored(folder)
    assert len(after_all) == size.participants * size.answers
    assert kept.items() <= after_all.items()

"""`kill -9` of the server, again and again: what was acknowledged is stored, nothing else is, and all finish."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import ExitStack

import pytest

from .test_load import check_all_kept


async def take_part_through_kills(crowds, folder, size, *, kills, url=""):
    """A crowd whose server is killed at regular intervals; each time it comes back on the same port."""
    with ExitStack() as stack:
        server = stack.enter_context(crowds.serve_study(folder, url=url))
        total, port, restarts = size.participants * size.answers, server.port, []

        async def restart():
            os.kill(server.process.pid, signal.SIGKILL)
            assert await asyncio.to_thread(server.process.wait, 20) == -signal.SIGKILL
            running = crowds.serve_study(folder, url=url, port=port)
            return await asyncio.to_thread(stack.enter_context, running)

        def kill(crowd):
            nonlocal server
            if len(restarts) < kills and len(crowd.acknowledged) > total * (len(restarts) + 1) / (kills + 1):
                if restarts and not restarts[-1].done():
                    return  # answers that were on their way when it was killed
                server = restarts[-1].result() if restarts else server
                restarts.append(asyncio.create_task(restart()))

        crowd = await crowds.run_crowd(port, size, patience=120.0, on_answer=kill)
        await asyncio.gather(*restarts)
        assert len(restarts) == kills
        return crowd


@pytest.mark.parametrize(
    ("people", "answers", "seconds", "kills"),
    [(9, 4, 0.05, 1), pytest.param(1002, 10, 1.0, 5, marks=pytest.mark.slow)],
)
def test_acknowledged_is_stored_on_sqlite(crowds, tmp_path, people, answers, seconds, kills):
    size = crowds.Size(participants=people, answers=answers, seconds=seconds)
    folder = crowds.write_study(tmp_path, participants=people, images=answers)
    crowd = asyncio.run(take_part_through_kills(crowds, folder, size, kills=kills))
    check_all_kept(folder, crowd, participants=people, images=answers)

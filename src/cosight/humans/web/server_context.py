"""What the server works with: the study, what it can show, where answers go, and who is who."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import sqlalchemy as sa
from starlette.requests import Request

from cosight.humans.database.assign_trials import TRIAL
from cosight.humans.database.participants import by_token
from cosight.humans.database.schema import showings, studies
from cosight.humans.database.store import Store
from cosight.humans.refusals import Refused
from cosight.humans.study.design import Study
from cosight.humans.study.pool import PictureSlot, Pool, shown_slots
from cosight.humans.web.requests import bearer
from cosight.humans.web.served_images import ServedImage, ServedImages

__all__ = ["ServerContext", "address"]

T = TypeVar("T")
_READERS = 8  # threads that read the database and the disk at the same time
_REMEMBERED = 10_000  # tokens whose owner is known without asking the database


def address(trial: str, place: int) -> str:
    """Where the picture at a place of a trial is found. Trials have random names, a fresh one for each showing."""
    return f"/images/{trial}{place:02d}"


class ServerContext:
    """One for each server process."""

    def __init__(
        self, study: Study, pool: Pool, store: Store, *, admin_token: str, static: Mapping[str, bytes]
    ) -> None:
        self.study, self.pool, self.store = study, pool, store
        self.admin_token = admin_token
        self.static = static
        self.examples = self._addresses_of_examples()
        self._pictures = ServedImages()
        self._threads = ThreadPoolExecutor(_READERS, thread_name_prefix="cosight-reader")
        self._numbers: OrderedDict[str, int] = OrderedDict()

    def _addresses_of_examples(self) -> dict[str, Path]:
        """Addresses of the instructions' images, the same in every process of a study; names would tell."""
        query = sa.select(studies.c.secret).where(studies.c.study == self.study.name)
        secret = bytes.fromhex(self.store.read(lambda connection: connection.execute(query).scalar_one()))
        names = [hmac.new(secret, str(i).encode(), hashlib.sha256).hexdigest() for i in range(len(self.study.examples))]
        files = [self.study.root / example.image for example in self.study.examples]
        return dict(zip(names, files, strict=True))

    def close(self) -> None:
        """Let go of the threads and the database."""
        self._threads.shutdown()
        self.store.close()

    async def in_thread(self, function: Callable[[], T]) -> T:
        """What `function` returns, without keeping others waiting."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, function)

    async def read(self, query: Callable[[sa.Connection], T]) -> T:
        """What `query` finds in the database."""
        return await self.in_thread(lambda: self.store.read(query))

    async def who(self, request: Request) -> int:
        """The number of the participant whose token a request shows."""
        token = bearer(request)
        number = self._numbers.get(token)
        if number is None:
            number = await self.read(lambda connection: by_token(connection, self.study, token))
        if number is None:
            raise Refused(401, "this token is nobody's; begin anew")
        self._numbers[token] = number
        self._numbers.move_to_end(token)
        if len(self._numbers) > _REMEMBERED:
            self._numbers.popitem(last=False)
        return number

    def picture(self, name: str) -> ServedImage | None:
        """The image at an address, None where nobody was ever given it."""
        if name in self.examples:
            return self._pictures.get(name, self.examples[name])
        trial, place = name[:-2], name[-2:]
        if not TRIAL.fullmatch(trial) or not (place.isascii() and place.isdigit()):
            return None
        slots = self._slots(trial)
        return (
            self._pictures.get(slots[int(place)].stimulus, slots[int(place)].file) if int(place) < len(slots) else None
        )

    def _slots(self, trial: str) -> tuple[PictureSlot, ...]:
        """What a trial shows, in the order it is shown; nothing where there is no such trial."""
        c = showings.c
        query = sa.select(c.item, c.arrangement).where(c.trial == trial, c.study == self.study.name)
        row = self.store.read(lambda connection: connection.execute(query).first())
        return shown_slots(self.pool.items[row.item], tuple(json.loads(row.arrangement))) if row else ()

"""How long an answer takes to be stored while 300 people take part at once, over real HTTP.

A server process of its own, a connection a participant, one answer a second each. What is timed is from the first byte
sent to the last byte received; the answer is on the disk by then.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from perf.lines import Line


__all__ = [
    "FULL",
    "Acknowledged",
    "Crowd",
    "Size",
    "Visitor",
    "lines",
    "no_postgres",
    "postgres_server",
    "served",
    "sit",
    "write_study",
]

GOAL = 0.2  # seconds, the 99th percentile
CLASSES = ("tiger", "zebra", "camel", "bear")
_PATIENCE = 30.0  # seconds until a request counts as lost

# The page is not asked for, so it need not be built; where processes are spawned they run this file again.
_SERVER = """
import sys
from pathlib import Path
from cosight.humans.web import server
server.static_files = lambda: {"index.html": b""}
if __name__ == "__main__":
    url, processes = sys.argv[2] or None, int(sys.argv[3])
    say = lambda addresses: print(addresses.participants, flush=True)
    server.serve(Path(sys.argv[1]), url=url, port=0, processes=processes, announce=say)
"""


@dataclass(frozen=True, slots=True)
class Size:
    """How much work; the limits hold for FULL."""

    participants: int
    answers: int  # of each
    seconds: float  # between two answers of one participant


FULL = Size(300, 10, 1.0)


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """An answer that the server said it has stored."""

    trial: str
    response: str
    seconds: float


@dataclass(slots=True)
class Crowd:
    """What became of a crowd's answers."""

    acknowledged: list[Acknowledged] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)  # errors
    codes: list[str] = field(default_factory=list)


def lines(size: Size) -> Iterator[Line]:
    """Median and 99th percentile of storing an answer, on SQLite and, where there is a server, on PostgreSQL."""
    yield from _measured(size, "SQLite", "")
    if no_postgres() is None:
        with postgres_server() as url:
            yield from _measured(size, "PostgreSQL", url)


def _measured(size: Size, database: str, url: str) -> list[Line]:
    from perf.lines import Line  # with it come the peers of other lines, which a crowd does not need

    with tempfile.TemporaryDirectory() as folder:
        study = write_study(Path(folder), participants=size.participants, images=size.answers)
        with served(study, url=url) as server:
            crowd = asyncio.run(sit(server.port, size))
    if crowd.lost:
        raise RuntimeError(f"answers were lost: {crowd.lost[0]}")
    what = f"storing an answer, {size.participants} participants, one each {size.seconds:g} s, {database}"
    p50, p99 = np.quantile([one.seconds for one in crowd.acknowledged], [0.5, 0.99])
    return [
        Line(f"{what}: median", "the goal of the 99th percentile", p50, GOAL, None, faster=False),
        Line(f"{what}: 99th percentile", "its goal", p99, GOAL, 1, faster=False),
    ]


def no_postgres() -> str | None:
    """Why no PostgreSQL server can be started here; None where one can."""
    if _program("initdb") is None or _program("pg_ctl") is None:
        return "there is no PostgreSQL server on this machine"
    if os.geteuid() == 0 and (shutil.which("runuser") is None or not _has_user("postgres")):
        return "PostgreSQL does not run as root, and there is no user postgres to run it as"
    return None


def _program(name: str) -> str | None:
    """A program of the newest PostgreSQL, which distributions keep off the path."""
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: path.parts[4].zfill(4))
    return shutil.which(name) or (str(places[-1]) if places else None)


def _has_user(name: str) -> bool:
    return subprocess.run(["id", name], capture_output=True).returncode == 0


@contextmanager
def postgres_server() -> Iterator[str]:
    """The URL of a PostgreSQL server of our own, on a free loopback port, gone when the block ends."""
    home = Path(tempfile.mkdtemp(prefix="cosight-postgres-"))
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    if os.geteuid() == 0:
        shutil.chown(home, "postgres")
    data, options = home / "data", f"-p {port} -k {home} -c listen_addresses=127.0.0.1"
    try:
        _as_postgres("initdb", "-D", data, "-U", "cosight", "--auth=trust", "--no-sync", "-E", "UTF8")
        _as_postgres("pg_ctl", "-D", data, "-o", options, "-l", home / "log", "-w", "start")
        yield f"postgresql://cosight@127.0.0.1:{port}/postgres"
    finally:
        if (data / "postmaster.pid").exists():
            _as_postgres("pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
        shutil.rmtree(home, ignore_errors=True)


def _as_postgres(program: str, *arguments: str | Path) -> None:
    user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    command = [*user, str(_program(program)), *map(str, arguments)]
    subprocess.run(command, check=True, capture_output=True, cwd="/", timeout=60)


def write_study(folder: Path, *, participants: int, images: int, name: str = "crowd") -> Path:
    """A study of `3 * images` small pictures that is complete when `participants` have answered `images` each."""
    import cv2

    from cosight.humans.study.texts import new_texts

    rng = np.random.default_rng(0)
    for place in range(3 * images):
        home = folder / "pictures" / CLASSES[place % len(CLASSES)]
        home.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(home / f"{place:03d}.png"), rng.integers(0, 255, (32, 32, 3), np.uint8))
    study = folder / name
    study.mkdir()
    head = f"name = '{name}'\ntype = 'classify'\nset = '../pictures'\nlabels = '{','.join(CLASSES)}'\n"
    design = f"[design]\nimages = {images}\nanswers = {-(-participants // 3)}\n[participants]\nconsent = true\n"
    (study / "study.toml").write_text(head + design)
    (study / "texts.toml").write_text(new_texts("classify", abstain=False))
    return study


@dataclass(frozen=True, slots=True)
class Server:
    """A server that runs."""

    process: subprocess.Popen[str]
    port: int


@contextmanager
def served(study: Path, *, url: str = "", processes: int = 1) -> Iterator[Server]:
    """A server process of its own for `study`, on a free port; ended when the block ends."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "server.py"
        script.write_text(_SERVER)
        command = [sys.executable, str(script), str(study), url, str(processes)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            told = process.stdout.readline().strip()
            if not told:
                raise RuntimeError(f"the server did not start, exit {process.wait()}")
            yield Server(process, int(told.rstrip("/").rpartition(":")[2]))
        finally:
            process.terminate()
            process.wait(timeout=20)
            if process.stdout is not None:
                process.stdout.close()


@dataclass(slots=True)
class Visitor:
    """One participant with a connection that stays open."""

    port: int
    token: str = ""
    _reader: asyncio.StreamReader | None = None
    _writer: asyncio.StreamWriter | None = None

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """One request: its status and JSON."""
        return await asyncio.wait_for(self._ask(method, path, body), _PATIENCE)

    async def _ask(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self.port)
        data = b"" if body is None else json.dumps(body).encode()
        head = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(data)}"]
        head += [f"Authorization: Bearer {self.token}"] if self.token else []
        head += ["Content-Type: application/json"] if data else []
        self._writer.write("\r\n".join([*head, "", ""]).encode() + data)
        return await self._answer(self._reader)

    async def _answer(self, reader: asyncio.StreamReader) -> tuple[int, Any]:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        fields = dict(line.lower().split(": ", 1) for line in head[1:] if line)
        content = await reader.readexactly(int(fields["content-length"]))
        return int(head[0].split()[1]), json.loads(content)

    async def begin(self) -> None:
        """Sign up and agree."""
        status, made = await self.ask("POST", "/api/sessions", {"platform": {}, "simulated": "panel"})
        _expect(status, 201, made)
        self.token = made["token"]
        _expect(*(await self.ask("POST", "/api/session/consent", {"agreed": True}))[:1], 200, None)

    async def trials(self) -> list[dict[str, Any]]:
        """What is left to answer."""
        status, found = await self.ask("GET", "/api/trials")
        _expect(status, 200, found)
        return list(found["trials"])

    async def answer(self, trial: str, response: str) -> Acknowledged:
        """Answer one trial."""
        begun = perf_counter()
        body = {"trial": trial, "response": response, "rt": 0.5, "shown": None, "input": "key"}
        status, kept = await self.ask("POST", "/api/answers", body)
        _expect(status, 200, kept)
        return Acknowledged(trial, response, perf_counter() - begun)

    def close(self) -> None:
        """Hang up."""
        if self._writer is not None:
            self._writer.close()


def _expect(status: int, wanted: int, told: Any) -> None:
    if status != wanted:
        raise RuntimeError(f"expected {wanted}, got {status}: {told}")


async def sit(port: int, size: Size, *, seen: Callable[[Crowd], None] = lambda crowd: None) -> Crowd:
    """A crowd takes part from the link to the code; `seen` is called after every answer that was acknowledged."""
    crowd = Crowd()
    visitors = [Visitor(port) for _ in range(size.participants)]
    await asyncio.gather(*(_guarded(one.begin(), crowd) for one in visitors))
    crowd.tokens = [one.token for one in visitors]
    handed = await asyncio.gather(*(_guarded(one.trials(), crowd) for one in visitors))
    begun = perf_counter()
    await asyncio.gather(
        *(
            _guarded(_sit(one, trials or [], place, begun, size, crowd, seen), crowd)
            for place, (one, trials) in enumerate(zip(visitors, handed, strict=True))
        )
    )
    for one in visitors:
        one.close()
    return crowd


async def _guarded(work: Any, crowd: Crowd) -> Any:
    try:
        return await work
    except (OSError, EOFError, RuntimeError, TimeoutError) as error:
        crowd.lost.append(f"{type(error).__name__}: {error}")
        return None


async def _sit(
    visitor: Visitor,
    trials: Sequence[dict[str, Any]],
    place: int,
    begun: float,
    size: Size,
    crowd: Crowd,
    seen: Callable[[Crowd], None],
) -> None:
    """One participant's answers, one each `size.seconds`, out of step with the others."""
    for number, trial in enumerate(trials):
        due = begun + size.seconds * (number + place / size.participants)
        await asyncio.sleep(max(0.0, due - perf_counter()))
        crowd.acknowledged.append(await visitor.answer(trial["trial"], CLASSES[(place + number) % len(CLASSES)]))
        seen(crowd)
    status, done = await visitor.ask("POST", "/api/finish")
    _expect(status, 200, done)
    crowd.codes.append(done["code"])

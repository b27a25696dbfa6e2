"""Latency of storing an answer while 300 or 1,000 people take part at once, over real HTTP.

The server is a process of its own, and the participants share the computer with it. Each of them has a connection and
answers after random times; a line says how many seconds they are in the mean. The time is measured from the first byte
sent to the last byte received; the answer is on the disk by then.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from perf.lines import Line


__all__ = [
    "FULL",
    "AcknowledgedAnswer",
    "Client",
    "Crowd",
    "Size",
    "half_open_requests",
    "lines",
    "measure_draw",
    "missing_postgres",
    "postgres_server",
    "run_crowd",
    "serve_study",
    "write_study",
]

T = TypeVar("T")
GOAL = 0.2  # seconds, the 99th percentile
CROWDED_GOAL = 0.05  # the same with 1,000 participants
SET_SIZES = (5000, 100_000)  # images of a set that is large enough not to be drawn from whole, and of a larger one
DRAW_LIMIT = 2  # times as long as from the smaller one
CLASSES = ("tiger", "zebra", "camel", "bear")
_TIMEOUT = 30.0  # seconds until a request counts as lost
_RETRY = 0.2  # seconds until a lost request is sent again
_ARRIVING = 50  # participants who sign up at the same moment

# The page is not requested, so it need not be built; spawned processes run this file again.
_SERVER = """
import sys
from pathlib import Path
from cosight.humans.web import server
server.static_files = lambda: {"index.html": b""}
if __name__ == "__main__":
    url, processes, port = sys.argv[2] or None, int(sys.argv[3]), int(sys.argv[4])
    announce = lambda addresses: print(addresses.participants, flush=True)
    server.serve(Path(sys.argv[1]), url=url, port=port, processes=processes, announce=announce)
"""


@dataclass(frozen=True, slots=True)
class Size:
    """The amount of work; the goal is for FULL."""

    participants: int
    answers: int  # per participant
    seconds: float  # between two answers of one participant, in the mean


FULL = Size(300, 10, 1.0)
CROWDED = Size(1002, 10, 2.0)
HURRIED = Size(1002, 10, 1.0)


@dataclass(frozen=True, slots=True)
class AcknowledgedAnswer:
    """An answer that the server has acknowledged."""

    trial: str
    response: str
    seconds: float


@dataclass(slots=True)
class Crowd:
    """Everything that a crowd of participants received."""

    acknowledged: list[AcknowledgedAnswer] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)


def lines(size: Size) -> Iterator[Line]:
    """Measure median and 99th percentile of storing an answer, on SQLite and, where it is installed, on PostgreSQL."""
    yield from _measure(size, "SQLite", "")
    yield from _measure_draws(size)
    if size == FULL:
        yield from _measure(CROWDED, "SQLite", "", goal=CROWDED_GOAL)
        yield from _measure(CROWDED, "SQLite", "", half_open=1100, goal=CROWDED_GOAL)
        yield from _measure(HURRIED, "SQLite", "", goal=CROWDED_GOAL)
    if missing_postgres() is None:
        with postgres_server() as url:
            yield from _measure(size, "PostgreSQL", url)
            if size == FULL:
                yield from _measure(CROWDED, "PostgreSQL", url, goal=CROWDED_GOAL)


def _measure(size: Size, database: str, url: str, *, half_open: int = 0, goal: float = GOAL) -> list[Line]:
    from perf.lines import Line  # it imports the peers of other lines, which the tests of a crowd do not need

    with tempfile.TemporaryDirectory() as folder:
        name = f"crowd-{size.participants}"
        study = write_study(Path(folder), participants=size.participants, images=size.answers, name=name)
        with serve_study(study, url=url) as server:
            crowd = asyncio.run(_visit(server.port, size, half_open))
    if crowd.errors:
        raise RuntimeError(f"answers were lost: {crowd.errors[0]}")
    beside = f" beside {half_open} half-open requests" if half_open else ""
    what = f"storing an answer, {size.participants} participants{beside}, one each {size.seconds:g} s, {database}"
    p50, p99 = np.quantile([answer.seconds for answer in crowd.acknowledged], [0.5, 0.99])
    return [
        Line(f"{what}: median", "the goal of the 99th percentile", p50, goal, None, faster=False),
        Line(f"{what}: 99th percentile", "its goal", p99, goal, 1, faster=False),
    ]


async def _visit(port: int, size: Size, half_open: int) -> Crowd:
    async with half_open_requests(port, half_open):
        return await run_crowd(port, size)


def _measure_draws(size: Size) -> Iterator[Line]:
    """Measure the images of a participant in a large set, in the thread that also writes answers."""
    from perf.lines import Line

    designs: dict[str, dict[str, Any]] = {
        "classify": {},
        "timed": {"conditions": 5, "blocks": 5, "overlap": 5},
        "classify, forms": {"forms": True},
    }
    for name, design in designs.items():
        kind = name.partition(",")[0]
        small, large = (
            measure_draw(images, participants=min(size.participants, 20), kind=kind, **design) for images in SET_SIZES
        )
        what = f"drawing a participant's images, {name}, set of {SET_SIZES[1]:,}"
        yield Line(what, f"set of {SET_SIZES[0]:,}", large, small, DRAW_LIMIT, faster=False)


def measure_draw(images: int, *, participants: int, kind: str = "classify", **design: Any) -> float:
    """Return the median seconds in which a new participant is registered and gets 25 of `images` images.

    The set has six conditions of five levels, as LAION-C's.
    """
    from cosight.humans.database.assign_trials import assign_trials, fill_loads
    from cosight.humans.database.participants import create_participant
    from cosight.humans.database.store import Store
    from cosight.humans.study.design import Design, Study, Timing
    from cosight.humans.study.pool import Item, PictureSlot, Pool
    from cosight.trials.spaces import label_space

    names = [f"{index:06d}" for index in range(images)]
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        space = label_space(",".join(CLASSES))
        timing = Timing() if kind == "timed" else None
        study = Study(folder, "large", kind, folder, Design(images=25, answers=20, **design), space, timing=timing)
        pool = Pool(
            {
                name: Item(
                    name,
                    "test",
                    (PictureSlot("image", name, folder / name),),
                    facts={
                        "source": name,
                        "condition": f"condition-{index % 6}",
                        "level": index // 6 % 5,
                        "truth": CLASSES[index // 30 % len(CLASSES)],
                    },
                )
                for index, name in enumerate(names)
            }
        )
        store = Store.open(study)
        store.write_alone(partial(fill_loads, study=study, pool=pool, simulated=False)).result()
        seconds = []
        for number in range(1, participants + 1):
            start = perf_counter()
            create = partial(create_participant, study=study, pool=pool, now=0.0, platform={})
            store.write_alone(create).result()
            assign = partial(assign_trials, study=study, pool=pool, number=number, now=0.0)
            store.write_alone(assign).result()
            seconds.append(perf_counter() - start)
        store.close()
    return float(np.median(seconds))


def missing_postgres() -> str | None:
    """Return why no PostgreSQL server can be started here; None where one can."""
    if _find_program("initdb") is None or _find_program("pg_ctl") is None:
        return "there is no PostgreSQL server on this machine"
    if os.geteuid() == 0:
        has_user = subprocess.run(["id", "postgres"], capture_output=True).returncode == 0
        if shutil.which("runuser") is None or not has_user:
            return "PostgreSQL does not run as root, and there is no user postgres to run it as"
    return None


def _find_program(name: str) -> str | None:
    """Return a program of the newest PostgreSQL, which distributions do not put on the path."""
    programs = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: path.parts[4].zfill(4))
    return shutil.which(name) or (str(programs[-1]) if programs else None)


@contextmanager
def postgres_server() -> Iterator[str]:
    """Yield the URL of a temporary PostgreSQL server on a free loopback port."""
    home = Path(tempfile.mkdtemp(prefix="cosight-postgres-"))
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    if os.geteuid() == 0:
        shutil.chown(home, "postgres")
    data, options = home / "data", f"-p {port} -k {home} -c listen_addresses=127.0.0.1"
    try:
        _run_as_postgres("initdb", "-D", data, "-U", "cosight", "--auth=trust", "--no-sync", "-E", "UTF8")
        _run_as_postgres("pg_ctl", "-D", data, "-o", options, "-l", home / "log", "-w", "start")
        yield f"postgresql://cosight@127.0.0.1:{port}/postgres"
    finally:
        if (data / "postmaster.pid").exists():
            _run_as_postgres("pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
        shutil.rmtree(home, ignore_errors=True)


def _run_as_postgres(program: str, *arguments: str | Path) -> None:
    user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    command = [*user, str(_find_program(program)), *map(str, arguments)]
    subprocess.run(command, check=True, capture_output=True, cwd="/", timeout=60)


def write_study(folder: Path, *, participants: int, images: int, name: str = "crowd") -> Path:
    """Write a study of `3 * images` small pictures; it is complete when `participants` have answered `images` each."""
    import cv2

    from cosight.humans.study.texts import new_texts

    rng = np.random.default_rng(0)
    for index in range(3 * images):
        home = folder / "pictures" / CLASSES[index % len(CLASSES)]
        home.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(home / f"{index:03d}.png"), rng.integers(0, 255, (32, 32, 3), np.uint8))
    study = folder / name
    study.mkdir()
    head = f"name = '{name}'\ntype = 'classify'\nset = '../pictures'\nlabels = '{','.join(CLASSES)}'\n"
    design = f"[design]\nimages = {images}\nanswers = {-(-participants // 3)}\n[participants]\nconsent = true\n"
    (study / "study.toml").write_text(head + design)
    (study / "texts.toml").write_text(new_texts("classify", abstain=False))
    return study


@dataclass(frozen=True, slots=True)
class Server:
    """A running server."""

    process: subprocess.Popen[str]
    port: int


@contextmanager
def serve_study(
    study: Path,
    *,
    url: str = "",
    processes: int = 1,
    port: int = 0,
    files: int | None = None,
    log: Path | None = None,
) -> Iterator[Server]:
    """Serve `study` in a process of its own on `port` (0: a free one) while the block runs.

    `files` is the process's hard limit on open files, `log` takes its standard error.
    """

    def limit_files() -> None:
        import resource

        if files is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (files // 2, files))

    with tempfile.TemporaryDirectory() as folder, (log or Path(os.devnull)).open("wb") as errors:
        script = Path(folder) / "server.py"
        script.write_text(_SERVER)
        command = [sys.executable, str(script), str(study), url, str(processes), str(port)]
        stderr = errors if log else None
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True, preexec_fn=limit_files)
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            if not address:
                raise RuntimeError(f"the server did not start, exit {process.wait()}")
            yield Server(process, int(address.rstrip("/").rpartition(":")[2]))
        finally:
            process.terminate()
            process.wait(timeout=20)
            if process.stdout is not None:
                process.stdout.close()


@dataclass(slots=True)
class Client:
    """One participant with a persistent connection, who tries again for `patience` seconds where it breaks."""

    port: int
    token: str = ""
    patience: float = 0.0
    _reader: asyncio.StreamReader | None = None
    _writer: asyncio.StreamWriter | None = None

    async def request(self, method: str, path: str, body: Any = None, *, expected: int = 200) -> Any:
        """Send a request and return the JSON of its response. Raises RuntimeError for another status."""
        until = perf_counter() + self.patience
        while True:
            try:
                status, content = await asyncio.wait_for(self._exchange(method, path, body), _TIMEOUT)
                break
            except (OSError, EOFError, TimeoutError):
                if perf_counter() > until:
                    raise
            self.close()
            await asyncio.sleep(_RETRY)
        if status != expected:
            raise RuntimeError(f"expected {expected}, got {status}: {content}")
        return content

    async def _exchange(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """Send a request; a kept connection that the server has closed is opened again, as browsers do."""
        if self._writer is not None:
            try:
                return await self._exchange_once(method, path, body)
            except (ConnectionError, asyncio.IncompleteReadError):
                self.close()
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self.port)
        return await self._exchange_once(method, path, body)

    async def _exchange_once(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        assert self._reader is not None
        assert self._writer is not None
        data = b"" if body is None else json.dumps(body).encode()
        head = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(data)}"]
        head += [f"Authorization: Bearer {self.token}"] if self.token else []
        head += ["Content-Type: application/json"] if data else []
        self._writer.write("\r\n".join([*head, "", ""]).encode() + data)
        response = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        fields = dict(line.lower().split(": ", 1) for line in response[1:] if line)
        content = await self._reader.readexactly(int(fields["content-length"]))
        return int(response[0].split()[1]), json.loads(content)

    async def start(self) -> None:
        """Create the participant and consent."""
        self.token = secrets.token_urlsafe(24)  # repeating the request creates no second participant
        body = {"platform": {}, "simulated": "panel", "token": self.token}
        await self.request("POST", "/api/sessions", body, expected=201)
        await self.request("POST", "/api/session/consent", {"agreed": True})

    async def trials(self) -> list[dict[str, Any]]:
        """Return the unanswered trials."""
        return list((await self.request("GET", "/api/trials"))["trials"])

    async def answer(self, trial: str, response: str) -> AcknowledgedAnswer:
        """Answer one trial."""
        start = perf_counter()
        body = {"trial": trial, "response": response, "rt": 0.5, "shown": None, "input": "key"}
        await self.request("POST", "/api/answers", body)
        return AcknowledgedAnswer(trial, response, perf_counter() - start)

    async def finish(self) -> str:
        """Return the completion code."""
        return str((await self.request("POST", "/api/finish"))["code"])

    def close(self) -> None:
        """Close the connection."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


@asynccontextmanager
async def half_open_requests(port: int, count: int) -> AsyncIterator[None]:
    """Keep `count` requests open that are never completed, while the block runs; each that is closed is replaced."""

    async def hold() -> None:
        while True:
            with suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                with closing(writer):
                    writer.write(b"POST /api/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
                    await reader.read()
            await asyncio.sleep(0.2)

    tasks = [asyncio.create_task(hold()) for _ in range(count)]
    await asyncio.sleep(0.5)
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # the connections are closed in the next turn of the loop


async def run_crowd(
    port: int, size: Size, *, patience: float = 0.0, on_answer: Callable[[Crowd], None] = lambda crowd: None
) -> Crowd:
    """Let a crowd take part from the link to the code; `on_answer` is called after every acknowledged answer.

    All have signed up before the first of them answers.
    """
    crowd = Crowd()
    clients = [Client(port, patience=patience) for _ in range(size.participants)]
    door = asyncio.Semaphore(_ARRIVING)

    async def arrive(client: Client) -> list[dict[str, Any]]:
        async with door:
            await client.start()
            return await client.trials()

    assigned = await asyncio.gather(*(_record_errors(arrive(client), crowd) for client in clients))
    start = perf_counter()

    async def answer_all(client: Client, trials: Sequence[dict[str, Any]], index: int) -> None:
        """Answer at times that differ as people's do: `size.seconds` apart in the mean, half as much the spread."""
        gaps = np.random.default_rng(index).gamma(4, size.seconds / 4, len(trials))
        times = start + size.seconds * index / size.participants + np.cumsum(gaps)
        for number, (trial, time) in enumerate(zip(trials, times, strict=True)):
            await asyncio.sleep(max(0.0, time - perf_counter()))
            crowd.acknowledged.append(await client.answer(trial["trial"], CLASSES[(index + number) % len(CLASSES)]))
            on_answer(crowd)
        crowd.codes.append(await client.finish())

    await asyncio.gather(
        *(
            _record_errors(answer_all(client, trials or [], index), crowd)
            for index, (client, trials) in enumerate(zip(clients, assigned, strict=True))
        )
    )
    for client in clients:
        client.close()
    return crowd


async def _record_errors(work: Coroutine[Any, Any, T], crowd: Crowd) -> T | None:
    try:
        return await work
    except (OSError, EOFError, RuntimeError, TimeoutError) as error:
        crowd.errors.append(f"{type(error).__name__}: {error}")
        return None

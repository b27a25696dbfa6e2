"""A study served by a process of its own while something else is done: simulated participants sit it, say.

`python -m cosight.humans.web.hosting STUDY PORT` reads the database's URL (JSON, or null: it may hold a password, which
a command must not), prints a line of JSON, the address or what is wrong, and serves until its standard input is closed:
with its parent it ends too, however that ended.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

from cosight.errors import CosightError, InvalidInput

__all__ = ["hosted"]

_GRACE = 30  # seconds that the server has to end


@contextmanager
def hosted(folder: Path, *, url: str | None = None, port: int = 0) -> Iterator[str]:
    """The address of the study in `folder`, served on a loopback port (0: a free one) while the block runs."""
    command = [sys.executable, "-m", "cosight.humans.web.hosting", str(folder), str(port)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C is ours: we let the server go when we are done
    )
    try:
        yield _told(process, url)
    finally:
        process.stdin.close()  # type: ignore[union-attr]
        process.stdout.close()  # type: ignore[union-attr]
        _ended(process)


def _ended(process: subprocess.Popen[str]) -> None:
    try:
        process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        process.kill()  # every answer that was acknowledged is on the disk
        process.wait()


def _told(process: subprocess.Popen[str], url: str | None) -> str:
    """Tell the server its database, and hear its address."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError):  # it has ended: what it said comes next
        process.stdin.write(json.dumps(url) + "\n")
        process.stdin.flush()
    line = process.stdout.readline()
    told = json.loads(line or '{"error": "the server ended before it began; its own words are above"}')
    if "error" in told:
        raise InvalidInput(told["error"])
    return str(told["address"])


def _main(folder: str, port: str) -> None:
    from cosight.humans.web.serving import serve

    url = json.loads(sys.stdin.readline())
    Thread(target=_end_with_parent, daemon=True).start()
    try:
        serve(Path(folder), url=url, port=int(port), announce=lambda told: _say(address=told.participants))
    except CosightError as error:
        _say(error=str(error))


def _end_with_parent() -> None:
    sys.stdin.read()  # returns when nobody holds the other end
    os.kill(os.getpid(), signal.SIGTERM)


def _say(**told: str) -> None:
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _main(*sys.argv[1:])

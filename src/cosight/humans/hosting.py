"""A study served by a process of its own while something else is done: simulated participants sit it, say.

`python -m cosight.humans.hosting STUDY PORT [URL]` prints a line of JSON, the address or what is wrong, and serves
until its standard input is closed: with its parent it ends too, however that ended.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from cosight.errors import CosightError, InvalidInput

__all__ = ["hosted"]

_GRACE = 30  # seconds that the server has to end


@contextmanager
def hosted(folder: Path, *, url: str | None = None, port: int = 0) -> Iterator[str]:
    """The address of the study in `folder`, served on a loopback port (0: a free one) while the block runs."""
    command = [sys.executable, "-m", "cosight.humans.hosting", str(folder), str(port), *([url] if url else [])]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C is ours: we let the server go when we are done
    )
    try:
        yield _told(process)
    finally:
        process.stdin.close()  # type: ignore[union-attr]
        process.stdout.close()  # type: ignore[union-attr]
        process.wait(_GRACE)


def _told(process: subprocess.Popen[str]) -> str:
    line = process.stdout.readline() if process.stdout else ""
    told = json.loads(line or '{"error": "the server ended before it began; its own words are above"}')
    if "error" in told:
        raise InvalidInput(told["error"])
    return str(told["address"])


def _main(folder: str, port: str, url: str | None = None) -> None:
    from cosight.humans.serving import serve

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

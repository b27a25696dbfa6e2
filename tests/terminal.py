"""Commands in a terminal: a real pseudo-terminal, and what it shows in the end."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_CHILD = """
import json, sys
from cosight.cli.app import main
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["cosight", *arguments]
    try:
        main()
    except SystemExit as ended:
        sys.stderr.flush()
        sys.stdout.flush()
        print(f"\\x1e{ended.code or 0}", flush=True)
"""


def in_terminal(
    commands: Sequence[Sequence[object]], columns: int = 80, *, folder: Path
) -> list[tuple[int, list[str]]]:
    """Run commands in one process on a terminal; return the exit code and the lines on the screen of each."""
    import pty  # not on Windows

    master, slave = pty.openpty()
    arguments = json.dumps([[str(part) for part in command] for command in commands])
    environment = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm"}
    child = subprocess.Popen(
        [sys.executable, "-c", _CHILD, arguments], stdin=slave, stdout=slave, stderr=slave, cwd=folder, env=environment
    )
    os.close(slave)
    data = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:  # the child has closed its end
            break
        if not part:
            break
        data += part
    os.close(master)
    assert child.wait() == 0
    *screens, rest = re.split("\x1e(\\d+)", data.decode())
    assert not rest.strip()
    return [(int(code), shown(text)) for text, code in zip(screens[::2], screens[1::2], strict=True)]


def shown(text: str) -> list[str]:
    """Return the lines that a terminal shows in the end: progress bars are overwritten."""
    lines, row = [""], 0
    for token in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", text):
        if token == "\n":
            row += 1
            if row == len(lines):
                lines.append("")
        elif token.endswith("A") and token.startswith("\x1b"):
            row -= int(token[2:-1] or 1)
        elif token == "\x1b[2K":
            lines[row] = ""
        elif not token.startswith(("\x1b", "\r")):
            lines[row] += token
    while lines and not lines[-1]:
        lines.pop()
    return lines[next((i for i, line in enumerate(lines) if line), 0) :]

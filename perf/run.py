"""Our speed beside the peers': `python perf/run.py [--json]`, one thread, exit 1 when a limit is missed.

Peers run in the same process on the same data, so what is reported is a ratio; seconds depend on the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perf.lines import Line

_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS")


def main(arguments: list[str] | None = None) -> int:
    """Measure every line and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="a list of lines instead of a table")
    options = parser.parse_args(arguments)
    os.environ.update(dict.fromkeys(_THREADS, "1"))  # before numpy and polars are imported
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from perf import (
        abstaining,
        corruptions,
        distortions,
        evaluating,
        exposing,
        lines,
        making,
        reading,
        scoring,
        serving,
    )

    parts = (lines, reading, corruptions, distortions, making, evaluating, abstaining, scoring, serving, exposing)
    found = [line for part in parts for line in part.lines(part.FULL)]
    print(json.dumps([_as_dict(line) for line in found], indent=1) if options.json else table(found))
    return 0 if all(line.ok for line in found) else 1


def table(found: list[Line]) -> str:
    """Aligned columns, one line a row."""
    head = ("line", "measured against", "ours", "theirs", "ratio", "limit", "ok")
    rows = [head, *(_cells(line) for line in found)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([text[0], "-" * len(text[0]), *text[1:]])


def _cells(line: Line) -> tuple[str, ...]:
    ok = "yes" if line.ok else "NO"
    ratio = f"{line.ratio:.3g} x {'faster' if line.faster else 'as much'}"
    bound = "at least" if line.faster else "at most"
    limit = "" if line.limit is None else f"{bound} {line.limit:g}"
    return line.name, line.against, line.shown(line.ours), line.shown(line.theirs), ratio, limit, ok if limit else ""


def _as_dict(line: Line) -> dict[str, Any]:
    names = ("name", "against", "unit", "ours", "theirs", "faster", "ratio", "limit", "ok")
    return {name: getattr(line, name) for name in names}


if __name__ == "__main__":
    sys.exit(main())

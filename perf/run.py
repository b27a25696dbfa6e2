"""Our speed beside the peers': `python perf/run.py [PART ...] [--json]`, one thread, exit 1 when a limit is missed.

Each line is printed when it is measured. Peers run in the same process on the same data, so what is reported is a
ratio; seconds depend on the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perf.lines import Line

# part: the module that measures it
PARTS = {"measures": "lines"} | {
    name: name
    for name in (
        *("reading", "corruptions", "distortions", "making", "evaluating", "abstaining"),
        *("scoring", "serving", "exposing", "aligning", "laion_c", "representing", "reporting"),
    )
}
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS")
_COLUMNS = "{:<3} {:<20} {:<14} {:>8} {:>8}  {}"


def main(arguments: list[str] | None = None) -> int:
    """Measure the parts that are named, or all, and print their lines."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"parts to measure (default: all): {', '.join(PARTS)}")
    parser.add_argument("--json", action="store_true", help="print a JSON list instead of a table")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.parts if name not in PARTS]
    if unknown:
        print(f"perf: unknown part {', '.join(unknown)}; choose from {', '.join(PARTS)}", file=sys.stderr)
        return 2
    os.environ.update(dict.fromkeys(_THREADS, "1"))  # before numpy and polars are imported
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    ok = True
    measured = _measured([name for name in PARTS if name in options.parts or not options.parts])
    for text, line_ok in (_as_json if options.json else _as_table)(measured):
        print(text, flush=True)
        ok &= line_ok
    return 0 if ok else 1


def _measured(parts: Iterable[str]) -> Iterator[Line]:
    for name in parts:
        part = import_module(f"perf.{PARTS[name]}")
        yield from part.lines(part.FULL)


def _as_table(measured: Iterable[Line]) -> Iterator[tuple[str, bool]]:
    """Yield each row of the table and whether its limit is kept. Long texts come last, so that numbers are aligned."""
    yield _COLUMNS.format("ok", "ratio", "limit", "ours", "theirs", "line (measured against)"), True
    for line in measured:
        yield row(line), line.ok


def row(line: Line) -> str:
    """Return a line as a row of the table."""
    ratio = f"{line.ratio:.3g} x {'faster' if line.faster else 'as much'}"
    limit = "" if line.limit is None else f"{'at least' if line.faster else 'at most'} {line.limit:g}"
    ok = ("yes" if line.ok else "NO") if limit else ""
    what = f"{line.name} ({line.against})"
    return _COLUMNS.format(ok, ratio, limit, line.shown(line.ours), line.shown(line.theirs), what)


def _as_json(measured: Iterable[Line]) -> Iterator[tuple[str, bool]]:
    """Yield the pieces of a JSON list and whether the limit of each line is kept."""
    names = ("name", "against", "unit", "ours", "theirs", "faster", "ratio", "limit", "ok")
    before = "["
    for line in measured:
        facts: dict[str, Any] = {name: getattr(line, name) for name in names}
        yield before + json.dumps(facts), line.ok
        before = ","
    yield "[]" if before == "[" else "]", True


if __name__ == "__main__":
    sys.exit(main())

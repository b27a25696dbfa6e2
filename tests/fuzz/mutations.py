"""Ways to damage a file: bytes, text cells and JSON values."""

from __future__ import annotations

import copy
import csv
import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

# text that readers have stumbled over somewhere: numbers out of range, lone quotes, formulas, control characters
ODD_TEXT = (
    *("", " ", "na", "NaN", "null", "None", "inf", "-1", "1e400", "0x10", "\u0661", "1,5", "9" * 40, "-0.0", "true"),
    *('"', "'", '""', "a\nb", "a\r\nb", "\t", "\x00", "\ufeff", "é", "e\u0301", "\u202e", "\U0001f600", "%s", "{}"),
    *("..", "/", "~", "*", "=1+1", "human:", ":", "abstain", "x" * 5000),
)
ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 0.5, 1e308, 2**63, 2**70, -(2**70)),
    *([], {}, [[]], [None], {"a": {}}, "", "x", "\ufeff", "9" * 40),
)
ODD_BYTES = (b"\x00", b"\xff", b"\xfe\xff", b"\xef\xbb\xbf", b"\r", b"\n", b'"', b",", b"PAR1", b"{", b"[" * 2000)

Damage = Callable[[bytes, np.random.Generator], bytes]


def damage_bytes(content: bytes, rng: np.random.Generator) -> bytes:
    """Flip, drop, repeat or insert bytes, up to eight times."""
    data = bytearray(content)
    for _ in range(int(rng.integers(1, 9))):
        start = int(rng.integers(0, len(data) + 1))
        end = min(len(data), start + int(rng.integers(1, 40)))
        match int(rng.integers(6)):
            case 0:
                data[start:end] = rng.bytes(end - start)
            case 1:
                del data[start:end]
            case 2:
                data[start:start] = data[start:end]
            case 3:
                data[start:start] = ODD_BYTES[int(rng.integers(len(ODD_BYTES)))]
            case 4:
                del data[start:]
            case 5 if start < len(data):
                data[start] ^= 1 << int(rng.integers(8))
    return bytes(data)


def damage_csv(content: bytes, rng: np.random.Generator) -> bytes:
    """Replace cells, repeat or drop columns and rows of a CSV file."""
    rows = list(csv.reader(io.StringIO(content.decode())))
    for _ in range(int(rng.integers(1, 5))):
        if not rows or not rows[0]:
            break
        row, column = int(rng.integers(len(rows))), int(rng.integers(len(rows[0])))
        match int(rng.integers(6)):
            case 0 | 1 if column < len(rows[row]):
                rows[row][column] = ODD_TEXT[int(rng.integers(len(ODD_TEXT)))]
            case 2:
                rows = [[*line[:column], *line[column + 1 :]] for line in rows]
            case 3:
                rows = [[*line, *line[column : column + 1]] for line in rows]
            case 4:
                rows.insert(row, rows[row])
            case 5:
                del rows[row]
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue().encode("utf-8", "surrogatepass")


def damage_json(content: bytes, rng: np.random.Generator) -> bytes:
    """Replace, drop or add values anywhere in a JSON document."""
    document = copy.deepcopy(json.loads(content))
    for _ in range(int(rng.integers(1, 4))):
        places = list(_places(document))
        odd = ODD_VALUES[int(rng.integers(len(ODD_VALUES)))]
        if not places:
            return json.dumps(odd).encode()
        container, key = places[int(rng.integers(len(places)))]
        match int(rng.integers(4)):
            case 0 | 1:
                container[key] = odd
            case 2:
                del container[key]
            case 3 if isinstance(container, dict):
                container[ODD_TEXT[int(rng.integers(len(ODD_TEXT)))]] = container.pop(key)
    return json.dumps(document).encode()


def damage_lines(content: bytes, rng: np.random.Generator) -> bytes:
    """Replace what follows `=`, repeat, drop or swap lines, as a hand would in a TOML file."""
    lines = content.decode().split("\n")
    for _ in range(int(rng.integers(1, 4))):
        row = int(rng.integers(len(lines)))
        match int(rng.integers(5)):
            case 0 | 1 if "=" in lines[row]:
                odd = ODD_VALUES[int(rng.integers(len(ODD_VALUES)))]
                lines[row] = f"{lines[row].partition('=')[0]}= {json.dumps(odd)}"
            case 2:
                lines.insert(row, lines[row])
            case 3 if len(lines) > 1:
                del lines[row]
            case 4:
                lines[row] += ODD_TEXT[int(rng.integers(len(ODD_TEXT)))]
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every (container, key or index) of a JSON document."""
    if isinstance(document, dict | list):
        for key, value in list(document.items() if isinstance(document, dict) else enumerate(document)):
            yield document, key
            yield from _places(value)

"""The data of a report, read as its pages read them."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import numpy as np

TYPES = {"response": "<i2", "truth": "<i2", "level": "<i4", "series": "<i4", "confidence": "<f4", "responses": "<i2"}


def shard(site: Path, name: str):
    """Return the value of a shard."""
    text = (site / "data" / f"{name}.js").read_text(encoding="ascii")
    assert text.startswith("cosight.add(")
    assert text.endswith(");\n")
    assert "<" not in text
    own, value = json.loads(f"[{text[len('cosight.add(') : -3]}]")
    assert own == name
    return value


def numbers(packed: str, kind: str):
    return np.frombuffer(base64.b64decode(packed), dtype=TYPES[kind])


def rows(site: Path, name: str) -> list[dict]:
    """Return the score rows of a shard, texts instead of codes."""
    columns = shard(site, name)
    texts = columns.pop("texts")
    coded = ("observer", "against", "measure", "statistic", "note", "group", "flags")
    found = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    for row in found:
        row |= {key: None if row[key] < 0 else texts[row[key]] for key in coded}
    return found

"""Data of a site as classic scripts, which a page may load from `file://` too.

A shard is a file `data/NAME.js` that calls `cosight.add(NAME, value)`. Texts are escaped: the file is plain ASCII
and has no `<`, so a name with a script tag stays a text.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosight.files import atomic_write

__all__ = ["DATA", "ShardWriter", "pack", "script"]

DATA = "data"  # folder of the shards


def script(name: str, value: Any) -> str:
    """Return the text of a shard.

    Args:
        name: Name of the shard.
        value: JSON data; numbers must be finite.

    Returns:
        One line of JavaScript.

    Raises:
        ValueError: A number is not finite.

    >>> script("a", "</script>")
    'cosight.add("a","\\\\u003c/script>");\\n'
    """
    texts = (json.dumps(part, separators=(",", ":"), allow_nan=False) for part in (name, value))
    return f"cosight.add({','.join(texts)});\n".replace("<", "\\u003c")


def pack(array: NDArray[Any]) -> str:
    """Return an array of numbers as base64 text, little-endian.

    >>> pack(np.array([1, -1], dtype=np.int16))
    'AQD//w=='
    """
    return base64.b64encode(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes()).decode()


class ShardWriter:
    """Writes shards below a folder, and removes those of an earlier report that were not written again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / DATA
        self._written: set[Path] = set()

    def write(self, name: str, value: Any) -> None:
        """Write a shard atomically."""
        path = self.folder / f"{name}.js"
        with atomic_write(path) as draft:
            draft.write_text(script(name, value), encoding="ascii")
        self._written.add(path)

    def remove_others(self) -> None:
        """Remove shards that this writer did not write."""
        for path in self.folder.rglob("*.js"):
            if path not in self._written:
                path.unlink()

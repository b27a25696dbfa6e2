"""External weights of an ONNX file: the files beside it that its tensors name. Neither onnx nor onnxruntime is needed.

The fields of the ONNX messages that lead to a tensor are followed, in subgraphs and functions too; everything else,
weights included, is skipped without being copied (field numbers as in onnx.proto3).
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath

from cosight.errors import InvalidInput

__all__ = ["external_weights"]

# message -> number of a field -> the message it holds
_MESSAGES = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node"},
    "graph": {1: "node", 5: "tensor", 15: "sparse tensor"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse tensor", 23: "sparse tensor"},
    "sparse tensor": {1: "tensor", 2: "tensor"},
}
_ENTRY, _WHERE, _EXTERNAL = 13, 14, 1  # fields of a tensor: external_data, and data_location with the value EXTERNAL
_DEEPEST = 200  # messages inside messages; protobuf itself stops at 100
_WIDTHS = {1: 8, 5: 4}  # wire type -> bytes, of numbers with a fixed width
_LONGEST_PATH = 4096  # bytes


def external_weights(path: Path) -> tuple[Path, ...]:
    """Return the files that the tensors of an ONNX file refer to, sorted by name; they need not exist.

    Raises:
        InvalidInput: The file is not ONNX, or refers to a file outside its folder.
    """
    if path.suffix == ".ort" or not path.stat().st_size:  # onnxruntime's own format has no external weights
        return ()
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            locations = set(_locations(data, 0, len(data), "model", 0))
        except (ValueError, IndexError) as error:
            raise InvalidInput(f"{path} is not an ONNX model: {error}; export it again") from error
    for location in locations:
        names = PureWindowsPath(location)  # knows drives and both kinds of slashes
        if names.drive or names.root or ".." in names.parts or "\0" in location:
            raise InvalidInput(
                f"the weights of an ONNX model are in its folder, {path} refers to {location!r}; export it again"
            )
    return tuple(sorted({path.parent / PurePosixPath(location) for location in locations}))


def _locations(data: mmap.mmap, start: int, end: int, message: str, depth: int) -> Iterator[str]:
    """Yield the values of `location` in the external data of all tensors of a message."""
    if depth > _DEEPEST:
        raise ValueError("its graphs are nested too deeply")
    if message == "tensor":
        yield from _tensor_locations(data, start, end)
        return
    inner = _MESSAGES[message]
    for number, first, last in _fields(data, start, end):
        if number in inner and last is not None:
            yield from _locations(data, first, last, inner[number], depth + 1)


def _tensor_locations(data: mmap.mmap, start: int, end: int) -> list[str]:
    is_external, locations = False, []
    for number, first, last in _fields(data, start, end):
        if number == _WHERE and last is None:
            is_external = first == _EXTERNAL
        elif number == _ENTRY and last is not None:
            entry = {part: data[a : min(b, a + _LONGEST_PATH)] for part, a, b in _fields(data, first, last) if b}
            if entry.get(1) == b"location":
                locations.append(entry.get(2, b"").decode("utf-8"))
    return locations if is_external else []


def _fields(data: mmap.mmap, start: int, end: int) -> Iterator[tuple[int, int, int | None]]:
    """Yield the fields of a message: number, start and end of its bytes, or number, value and None for an integer."""
    position = start
    while position < end:
        key, position = _varint(data, position, end)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, position = _varint(data, position, end)
            yield number, value, None
            continue
        if kind == 2:
            length, position = _varint(data, position, end)
        elif kind in _WIDTHS:
            length = _WIDTHS[kind]
        else:
            raise ValueError(f"unknown field type {kind} at byte {position}")
        if length > end - position:
            raise ValueError(f"it ends at byte {end}, within a field")
        if kind == 2:
            yield number, position, position + length
        position += length


def _varint(data: mmap.mmap, position: int, end: int) -> tuple[int, int]:
    """Return a number of variable length and the position after it."""
    value = shift = 0
    while position < end and shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, position
    raise ValueError(f"it ends at byte {end}, within a number")
